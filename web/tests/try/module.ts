// The page and the module that scripts/web.sh builds, and the module without a page.

import { readdirSync, readFileSync, statSync } from "node:fs";
import { basename, join, relative } from "node:path";
import { document, Module, reading, type Input } from "../../src/try/protocol";
import { web } from "../harness";

/** The page; PEERLANE_PAGE names another one. */
export const PAGE = process.env["PEERLANE_PAGE"] ?? join(web, "..", "target", "web", "peerlane.html");

/** The module; PEERLANE_MODULE names another one. */
const MODULE = process.env["PEERLANE_MODULE"] ?? join(web, "..", "target", "web", "peerlane.wasm");

/** Inputs that may not be copied into the project; PEERLANE_SHARED names another folder. */
export const SHARED = process.env["PEERLANE_SHARED"] ?? join(web, "..", "..", "shared");

const compiled = new WebAssembly.Module(readFileSync(MODULE));

/** A module that is asked as the page asks it. */
export class Asked {
  #module = new Module(compiled);

  ask(op: string, options: Record<string, unknown> = {}, body: Uint8Array[] = []): string {
    return document(this.#module.ask(JSON.stringify({ op, ...options }), body));
  }

  open(...inputs: Input[]): void {
    this.ask("clear");
    for (const input of inputs) {
      const { line, body } = reading(input);
      this.ask(String(line["op"]), line, body);
    }
    this.ask("open");
  }
}

/** A file as an input, by the name that the program is given. */
export function file(path: string): Input {
  return { kind: "file", name: path, bytes: readFileSync(path) };
}

/** A folder as an input. */
export function folder(path: string): Input {
  return { kind: "folder", name: path, files: below(path).map((file) => ({ path: relative(path, file), bytes: readFileSync(file) })) };
}

/** All files below a folder. */
export function below(path: string): string[] {
  return readdirSync(path).sort().flatMap((name) => {
    const at = join(path, name);
    return statSync(at).isDirectory() ? below(at) : [at];
  });
}

/** The names of the catalogue's systems. */
export const systems = (): string[] => readdirSync(join(web, "..", "systems")).filter((name) => name.endsWith(".toml")).map((name) => basename(name, ".toml"));

/** How far a number may be off, as its share: the platforms' exponentials and logarithms differ in the last digit. */
const NEAR = 1e-12;

const NUMBER = /-?\d+\.\d+(?:e[+-]?\d+)?/g;

/** The first line in which two texts differ otherwise; none where there is none. */
export function difference(ours: string, theirs: string): string | null {
  if (ours === theirs) return null;
  const [a, b] = [ours.split("\n"), theirs.split("\n")];
  const at = a.findIndex((line, i) => !isNear(line, b[i] ?? ""));
  if (at < 0 && a.length === b.length) return null;
  return `line ${at + 1}: ${a[at] ?? "nothing"} | ${b[at] ?? "nothing"}`.slice(0, 300);
}

function isNear(a: string, b: string): boolean {
  if (a === b) return true;
  if (a.replace(NUMBER, "#") !== b.replace(NUMBER, "#")) return false;
  const [ours, theirs] = [a, b].map((text) => (text.match(NUMBER) ?? []).map(Number)) as [number[], number[]];
  return ours.every((x, i) => Math.abs(x - (theirs[i] ?? NaN)) <= NEAR * Math.abs(x));
}
