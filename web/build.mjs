// Builds dist/report.html, the page that the program fills: types from the JSON Schema, one script, one style sheet,
// and a policy that allows these two by their hashes and nothing else.
//
// `--check` builds and compares with what is committed; `--tests` bundles the tests into .build/.

import { createHash } from "node:crypto";
import { mkdir, readdir, readFile, writeFile } from "node:fs/promises";
import { build } from "esbuild";
import { compileFromFile } from "json-schema-to-typescript";

const here = (path) => new URL(path, import.meta.url).pathname;
const sha256 = (text) => `'sha256-${createHash("sha256").update(text).digest("base64")}'`;

async function types() {
  const made = await compileFromFile(here("../schema/report-2.json"), {
    bannerComment: "// Made from schema/report-2.json by build.mjs; do not edit.",
    additionalProperties: false,
    format: false,
  });
  // integers and tuples of the schema are plain enough; trailing blanks are not
  return made.replace(/[ \t]+$/gm, "");
}

async function bundle(entry) {
  const result = await build({
    entryPoints: [here(entry)],
    bundle: true,
    minify: true,
    write: false,
    format: "iife",
    target: ["es2022", "chrome111", "firefox115", "safari16.4"],
    charset: "utf8",
    legalComments: "none",
  });
  // nothing in a script may end its element
  return result.outputFiles[0].text.trimEnd().replaceAll("</script", "<\\/script");
}

async function page() {
  const [script, style] = await Promise.all([bundle("src/main.ts"), bundle("src/style.css")]);
  const policy = [
    "default-src 'none'",
    `script-src ${sha256(script)}`,
    `style-src ${sha256(style)}`,
    "img-src 'none'",
    "base-uri 'none'",
    "form-action 'none'",
    "require-trusted-types-for 'script'",
    "trusted-types 'none'",
  ].join("; ");
  const template = await readFile(here("src/page.html"), "utf8");
  const fill = { POLICY: policy, STYLE: style, SCRIPT: script };
  return template.replace(/\{\{(POLICY|STYLE|SCRIPT)\}\}/g, (_, name) => fill[name]);
}

async function tests() {
  const files = (await readdir(here("tests"))).filter((name) => name.endsWith(".test.ts"));
  await mkdir(here(".build/tests"), { recursive: true });
  await build({
    entryPoints: files.map((name) => here(`tests/${name}`)),
    bundle: true,
    packages: "external",
    platform: "node",
    format: "esm",
    target: "node20",
    outdir: here(".build/tests"),
    outExtension: { ".js": ".mjs" },
    sourcemap: "inline",
  });
}

async function written(path, text) {
  if (!process.argv.includes("--check")) {
    await writeFile(here(path), text);
    return true;
  }
  if ((await readFile(here(path), "utf8").catch(() => "")) === text) return true;
  console.error(`web/${path} is stale: run npm run build in web/`);
  return false;
}

if (process.argv.includes("--tests")) {
  await tests();
} else {
  await mkdir(here("dist"), { recursive: true });
  const fresh = (await written("src/document.ts", await types())) && (await written("dist/report.html", await page()));
  process.exitCode = fresh ? 0 : 1;
}
