// The module's documents are the program's, number for number but for what the last digits of logarithms make of them.

import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { existsSync, readdirSync, statSync } from "node:fs";
import { basename, join } from "node:path";
import { test } from "node:test";
import { promisify } from "node:util";
import { program, web } from "../harness";
import { Asked, below, difference, file, folder, SHARED, systems } from "./module";
import type { Input } from "../../src/try/protocol";

const run = promisify(execFile);
const root = join(web, "..");

/** What the program writes; empty where it refuses. Findings and what is incomplete end it with 1 and 2. */
async function written(...args: string[]): Promise<string> {
  const options = { maxBuffer: 1 << 28, env: { ...process.env, PEERLANE_RULES: undefined } };
  try {
    return (await run(program, [...args, "--json"], options)).stdout;
  } catch (error) {
    return (error as { stdout?: string }).stdout ?? "";
  }
}

/** What the module writes of an input that is open; empty where it refuses. */
function answered(module: Asked, op: string, options: Record<string, unknown> = {}): string {
  try {
    return `${module.ask(op, options)}\n`;
  } catch (error) {
    if (error instanceof Error && error.constructor === Error) return "";
    throw error;
  }
}

const module = new Asked();

/** Whether both write the same of an input; a difference is named. `true` where both refuse it. */
async function alike(target: string, input: Input, ops: string[]): Promise<void> {
  let isOpen = true;
  try {
    module.open(input);
  } catch {
    isOpen = false;
  }
  for (const op of ops) {
    const theirs = await written(op, target);
    const ours: string = isOpen ? answered(module, op) : "";
    assert.equal(difference(ours, theirs), null, `${op} ${target}`);
    // a fleet is only checked
    if (theirs.includes('"schema": "peerlane/fleet/')) return;
  }
}

const catalogued = (name: string): Input => ({ kind: "catalogue", name });

test("every system of the catalogue", async () => {
  for (const name of systems()) await alike(name, catalogued(name), ["check", "predict"]);
});

test("the catalogue itself", async () => {
  assert.equal(difference(answered(module, "systems"), await written("systems")), null);
});

test("the examples", async () => {
  for (const path of below(join(root, "examples"))) {
    const shown = basename(path);
    if (shown === "README.md") continue;
    // what belongs to nodes between each other is judged, and not predicted
    await alike(path, file(path), path.includes("/nodes/") ? ["check"] : ["check", "predict"]);
  }
  await alike(join(root, "examples", "slow-node"), folder(join(root, "examples", "slow-node")), ["check", "predict"]);
  // three records and more are a fleet
  const fleet = join(root, "examples", "fleet");
  module.open(folder(fleet));
  assert.equal(difference(answered(module, "check"), await written("fleet", fleet)), null);
});

test("every capture, and every folder of one", async () => {
  const captures = join(root, "captures");
  for (const path of below(captures)) await alike(path, file(path), ["check"]);
  for (const name of readdirSync(captures)) await alike(join(captures, name), folder(join(captures, name)), ["check", "predict"]);
});

test("texts that were met for the first time", async (context) => {
  const met = join(SHARED, "first-contact");
  if (!existsSync(met)) return context.skip("they are not here");
  for (const path of below(met)) await alike(path, file(path), ["check"]);
});

test("inputs that hurt", async (context) => {
  const hostile = join(SHARED, "hostile");
  if (!existsSync(hostile)) return context.skip("they are not here");
  for (const path of below(hostile)) {
    if (statSync(path).size < 1 << 20) await alike(path, file(path), ["check"]);
  }
});

test("paths, and changes of a design", async () => {
  module.open(catalogued("exxact-devbox"));
  const edits = ["GPU2.at=plx0", "plx0.part=pex8780"];
  const changes = edits.flatMap((edit) => ["--what-if", edit]);
  const explained = answered(module, "explain", { a: "GPU0", b: "GPU2" });
  assert.equal(difference(explained, await written("explain", "exxact-devbox", "GPU0", "GPU2")), null);
  for (const op of ["check", "predict", "compare"]) {
    assert.equal(difference(answered(module, op, { edits }), await written(op, "exxact-devbox", ...changes)), null, op);
  }
  assert.throws(() => module.ask("check", { edits: ["GPU9.link=x8"] }), /no node 'GPU9'; the nodes are: GPU0–GPU3/);
});

test("what is shown beside a change is what was shown before it", () => {
  for (const name of ["dgx-2", "7gforce"]) {
    const edits = ["GPU0.link=x8"];
    module.open(catalogued(name));
    const cold = module.ask("report", { edits });
    const before = module.ask("report");
    assert.equal(module.ask("report", { edits }), cold);
    assert.equal(module.ask("report"), before);
    assert.notEqual(module.ask("report", { edits: ["GPU0.link=x4"] }), cold);
  }
});

test("designs side by side", async () => {
  module.ask("clear");
  for (const name of ["hgx-h200", "dgx-a100"]) module.ask("read", { name, catalogue: true });
  module.ask("open", { apart: true });
  assert.equal(difference(answered(module, "compare"), await written("compare", "hgx-h200", "dgx-a100")), null);
});
