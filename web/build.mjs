// Builds the pages that the program fills, dist/report.html and dist/fleet.html: types from the JSON Schema, one script,
// one style sheet, and a policy that allows these two by their hashes and nothing else; and dist/licences.txt, the notices of
// the libraries that a script contains, which its page carries too.
//
// `--check` builds and compares with what is committed; `--tests` bundles the tests into .build/; `--try MODULE PAGE` writes the page
// that has the library in it, with its types.

import { createHash } from "node:crypto";
import { mkdir, readdir, readFile, writeFile } from "node:fs/promises";
import { deflateSync } from "node:zlib";
import { build } from "esbuild";
import { compileFromFile } from "json-schema-to-typescript";

const here = (path) => new URL(path, import.meta.url).pathname;
const sha256 = (text) => `'sha256-${createHash("sha256").update(text).digest("base64")}'`;

/** The pages: the folder of their sources, their schema and what is made of them. */
const PAGES = [
  { from: "src", style: "src/style.css", schema: "report-2.json", to: "dist/report.html", notices: "dist/licences.txt" },
  // without libraries
  { from: "src/fleet", style: "src/fleet/fleet.css", schema: "fleet-page-1.json", to: "dist/fleet.html" },
];

async function types(schema) {
  const made = await compileFromFile(here(`../schema/${schema}`), {
    bannerComment: `// Made from schema/${schema} by build.mjs; do not edit.`,
    additionalProperties: false,
    format: false,
  });
  // integers and tuples of the schema are plain enough; trailing blanks are not
  return made.replace(/[ \t]+$/gm, "");
}

/** Types alone, of a document that a page gets from the library. */
const TYPES = [{ schema: "explanation-2.json", to: "src/try/explanation.ts" }];

async function bundle(entry) {
  const result = await build({
    entryPoints: [here(entry)],
    bundle: true,
    minify: true,
    write: false,
    format: "iife",
    target: ["es2022", "chrome111", "firefox115", "safari16.4"],
    charset: "utf8",
    // dist/licences.txt has all of them
    legalComments: "none",
    loader: { ".txt": "text", ".toml": "text" },
    metafile: true,
  });
  // nothing in a script may end its element
  const text = result.outputFiles[0].text.trimEnd().replaceAll("</script", "<\\/script");
  return { text, files: Object.keys(result.metafile.inputs) };
}

/** The notices of the packages that files belong to: each licence once, below who holds the rights in what. */
async function licences(files) {
  const names = files.map((file) => /.*node_modules\/((?:@[^/]+\/)?[^/]+)\//.exec(file)?.[1]).filter(Boolean);
  const holders = new Map();
  for (const name of [...new Set(names)].sort()) {
    const { version } = JSON.parse(await readFile(here(`node_modules/${name}/package.json`), "utf8"));
    const [first, ...rest] = (await readFile(here(`node_modules/${name}/LICENSE`), "utf8")).trim().split("\n");
    if (!first.startsWith("Copyright")) throw new Error(`${name}: its licence begins with ${first}`);
    const terms = rest.join("\n").trim();
    const of = holders.get(terms) ?? new Map();
    of.set(first, [...(of.get(first) ?? []), `${name} ${version}`]);
    holders.set(terms, of);
  }
  const parts = [...holders].map(([terms, of]) => {
    const lines = [...of].map(([holder, packages]) => `${packages.join(", ")}:\n${holder}`);
    return `${lines.join("\n\n")}\n\n${terms}\n`;
  });
  return parts.join("\n\n");
}

async function page({ from, style: sheet }) {
  const [{ text: script, files }, { text: style }] = await Promise.all([bundle(`${from}/main.ts`), bundle(sheet)]);
  const notices = await licences(files);
  if (/[<&]/.test(notices)) throw new Error("a licence has markup");
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
  const template = await readFile(here(`${from}/page.html`), "utf8");
  const fill = { POLICY: policy, STYLE: style, SCRIPT: script, LICENCES: notices };
  return { page: template.replace(/\{\{(POLICY|STYLE|SCRIPT|LICENCES)\}\}/g, (_, name) => fill[name]), notices };
}

/** Bytes as src/try/base85.ts reads them. */
function base85(bytes) {
  const letters = Array.from({ length: 94 }, (_, at) => String.fromCharCode(33 + at)).filter((c) => !"\"&'<>\\`{}".includes(c));
  const whole = Buffer.concat([bytes, Buffer.alloc(-bytes.length & 3)]);
  const words = [];
  for (let at = 0; at < whole.length; at += 4) {
    let word = whole.readUInt32BE(at);
    let text = "";
    for (let i = 0; i < 5; i += 1) {
      text = letters[word % 85] + text;
      word = Math.floor(word / 85);
    }
    words.push(text);
  }
  return `${bytes.length} ${words.join("")}`;
}

/** The page that has the library in it. */
async function tryPage(module, to) {
  const [{ text: script }, { text: worker }, { text: style }] = await Promise.all(["main.ts", "worker.ts", "try.css"].map((name) => bundle(`src/try/${name}`)));
  // records between nodes and of a fleet are shown as their own page, in a frame, which this page's policy rules too
  const inner = await readFile(here("dist/fleet.html"), "utf8");
  const allowed = (kind) => new RegExp(`${kind} ('sha256-[^']+')`).exec(inner)?.[1] ?? "";
  const policy = [
    "default-src 'none'",
    `script-src ${sha256(script)} ${allowed("script-src")} 'wasm-unsafe-eval'`,
    "worker-src blob:",
    "frame-src blob:",
    `style-src ${sha256(style)} ${allowed("style-src")}`,
    "base-uri 'none'",
    "form-action 'none'",
    "require-trusted-types-for 'script'",
    "trusted-types peerlane",
  ].join("; ");
  const packed = base85(deflateSync(await readFile(module), { level: 9, memLevel: 9 }));
  // its own; of the libraries in the scripts, the crates in the module (among them the terms of Apache-2.0), and its standard library
  const texts = ["../LICENSE-MIT", "../THIRD-PARTY.txt", "src/try/standard-library.txt"];
  const notices = (await Promise.all(texts.map((path) => readFile(here(path), "utf8")))).map((text) => text.trim()).join(`\n\n${"=".repeat(80)}\n\n`);
  if (/<(?:\/script|!--)/i.test(notices)) throw new Error("a licence has markup");
  const fill = { POLICY: policy, STYLE: style, SCRIPT: script, LICENCES: notices, WORKER: worker, MODULE: packed };
  const template = await readFile(here("src/try/page.html"), "utf8");
  await writeFile(to, template.replace(/\{\{([A-Z]+)\}\}/g, (_, name) => fill[name]));
}

async function tests() {
  const all = await readdir(here("tests"), { recursive: true });
  const files = all.filter((name) => name.endsWith(".test.ts") || name === "pictures.ts");
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

const [, , what, ...paths] = process.argv;
if (what === "--tests") {
  await tests();
} else if (what === "--try") {
  await tryPage(...paths);
} else {
  await mkdir(here("dist"), { recursive: true });
  const fresh = [];
  for (const one of PAGES) {
    fresh.push(await written(`${one.from}/document.ts`, await types(one.schema)));
    const made = await page(one);
    fresh.push(await written(one.to, made.page));
    if (one.notices) fresh.push(await written(one.notices, made.notices));
    else if (made.notices !== "") throw new Error(`${one.to} has no place for licences`);
  }
  for (const { schema, to } of TYPES) fresh.push(await written(to, await types(schema)));
  process.exitCode = fresh.every(Boolean) ? 0 : 1;
}
