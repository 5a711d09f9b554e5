// Every kind of machine, at both widths, light and dark: drawn whole, readable, usable, silent.

import assert from "node:assert/strict";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { after, before, describe, test } from "node:test";
import type { Page } from "playwright-core";
import { standsFor } from "../src/state";
import { Chromium, folder, machineOf, openAll, peerlane, report, shot, violations, web } from "./harness";

const browser = new Chromium();

const CAPTURE = join(web, "..", "captures", "h200x4-vm");

/** Looks of a page; the contrast of colours depends on the second, the layout on the first. */
const CORNERS: [number, boolean][] = [
  [360, false],
  [1600, true],
];
const ALL: [number, boolean][] = [...CORNERS, [360, true], [1600, false]];

const machines: [string, () => string][] = [
  ["7gforce", () => report("7gforce", "7gforce")],
  ["exxact-txr550", () => report("exxact-txr550", "exxact-txr550")],
  ["exxact-txr414-20", () => report("exxact-txr414-20", "exxact-txr414-20")],
  ["dgx-1", () => report("dgx-1", "dgx-1")],
  [
    "h200x4-vm-run",
    () => {
      const run = join(folder, "h200x4-vm.run.json");
      peerlane("measure", "h200x4-vm", "--full", "-o", run);
      return report("h200x4-vm-run", run);
    },
  ],
  ["h200x4-vm-captures", () => report("h200x4-vm-captures", CAPTURE)],
  ["topo-a100", () => report("topo-a100", join(web, "tests", "fixtures", "topo-a100.txt"))],
  ["topo-nics", () => report("topo-nics", join(web, "tests", "fixtures", "topo-nics.txt"))],
];

before(() => browser.start());
after(() => browser.stop());

for (const [name, write] of machines) {
  describe(name, () => {
    let file = "";
    before(() => {
      file = write();
    });
    for (const [width, dark] of name === "7gforce" || name === "h200x4-vm-run" ? ALL : CORNERS) {
      test(`is whole and accessible at ${width} px, ${dark ? "dark" : "light"}`, async () => {
        const { page, context, complaints, requests } = await browser.open(file, { width, dark, open: true });
        await wellDrawn(page);
        await openAll(page);
        const wide = await page.evaluate(() => document.scrollingElement?.scrollWidth ?? 0);
        assert.ok(wide <= width, `the page is ${wide} px wide`);
        assert.deepEqual(await violations(page), []);
        await shot(page, `${name}-${width}-${dark ? "dark" : "light"}`);
        assert.deepEqual({ complaints, requests }, { complaints: [], requests: [] });
        await context.close();
      });
    }

    test("every cell that has a way lights it", async () => {
      const { page, context, complaints } = await browser.open(file);
      const machine = await machineOf(page);
      const maps = [...machine.matrices.map((m) => m.paths), ...(machine.classes ? [machine.classes.paths] : [])];
      const blocks = page.locator(".matrix, section.classes");
      assert.equal(await blocks.count(), maps.length);
      await openAll(page);
      let lit = 0;
      for (const [i, paths] of maps.entries()) {
        // a pair may have a way and no number
        const cell = (row: number, col: number) => blocks.nth(i).locator(`td.cell[data-row="${row}"][data-col="${col}"]`);
        const shown = new Set(
          await blocks.nth(i).locator("td.cell").evaluateAll((all) => all.map((td) => `${td.dataset.row} ${td.dataset.col}`)),
        );
        const [row, col] = places(paths).find(([r, c]) => shown.has(`${r} ${c}`)) ?? [-1, -1];
        if (row < 0) continue;
        await cell(row, col).first().click();
        const way = machine.paths[paths[row]?.[col] ?? -1]?.hops ?? [];
        const hops = way.flatMap((at) => machine.hops[at] ?? []);
        const links = new Set(hops.flatMap((h) => h.link ?? []));
        const lights = (of: number[], some: Set<number>) => of.some((at) => some.has(at));
        assert.equal(await page.locator(".wire.lit").count(), machine.drawing.wires.filter((w) => lights(w.links, links)).length);
        const nodes = new Set(hops.flatMap((h) => [h.from, h.to]));
        assert.equal(await page.locator(".box.lit").count(), machine.drawing.boxes.filter((b) => lights(standsFor(b), nodes)).length);
        assert.equal(await page.locator(".panel .hops tbody tr").count(), hops.length);
        lit += 1;
      }
      assert.ok(lit > 0);
      await page.keyboard.press("Escape");
      assert.equal(await page.locator(".lit").count(), 0);
      assert.deepEqual(complaints, []);
      await context.close();
    });

    test("prints with everything open, and on light paper", async () => {
      const { page, context } = await browser.open(file, { dark: true });
      await page.emulateMedia({ media: "print", colorScheme: "dark" });
      assert.equal(await page.evaluate(() => getComputedStyle(document.body).backgroundColor), "rgb(255, 255, 255)");
      await page.evaluate(() => dispatchEvent(new Event("beforeprint")));
      assert.equal(await page.locator("details:not([open]):not(.screen)").count(), 0);
      const hidden = await page.locator(".block").evaluateAll((all) => all.filter((block) => getComputedStyle(block).display === "none").length);
      assert.equal(hidden, 0);
      await page.evaluate(() => dispatchEvent(new Event("afterprint")));
      // slow for long pages, and of one kind
      if (name === "7gforce") assert.ok((await page.pdf({ format: "A4" })).length > 10_000);
      await context.close();
    });
  });
}

test("verdict and first fix come first, the drawing is beside them, and each link at fault names its width", async () => {
  const { page, context } = await browser.open(report("first", "7gforce"), { width: 1400 });
  const place = async (what: string) => (await page.locator(what).first().boundingBox()) ?? { x: 0, y: 0, width: 0, height: 0 };
  const [title, fix, drawing] = [await place("h1"), await place(".first"), await place("svg.drawing")];
  assert.match((await page.locator(".first").textContent()) ?? "", /GPU0–GPU5 run at PCIe 3\.0 x1.*Fix: Put the card in the slot/);
  assert.ok(fix.y + fix.height < 300 && title.x < 40 && drawing.x > fix.x + fix.width, "verdict and fix left, drawing right");
  const labels = await page.locator(".wire.narrow text").allTextContents();
  assert.equal(labels.filter((text) => text === "⚠ 3.0 x1 of x8").length, 6);
  await context.close();
});

test("a GPU that lacks NVLinks has these marked, not the PCIe link above it", async () => {
  const [system, run] = [join(folder, "lacking.toml"), join(folder, "lacking.json")];
  const fault = '[[faults]]\nlink = ["GPU3", "nvswitch"]\nnvlink = 12\n';
  writeFileSync(system, `${peerlane("map", "hgx-h200", "--format", "system")}\n${fault}`);
  peerlane("measure", system, "-o", run);
  const { page, context } = await browser.open(report("lacking", run));
  assert.deepEqual(await page.locator(".wire.mark-error text").allTextContents(), ["⚠ NV18"]);
  await context.close();
});

test("what topo -m only implies is one box: sockets, and the switches of a group", async () => {
  const { page, context } = await browser.open(report("implied", join(web, "tests", "fixtures", "topo-a100.txt")));
  const machine = await machineOf(page);
  assert.ok(machine.drawing.boxes.length < machine.nodes.length);
  const names = await page.locator(".box .name").allTextContents();
  const drawn = (word: string) => names.map((name) => name.trim()).filter((name) => name.startsWith(word));
  assert.deepEqual(drawn("2 or 4 sockets"), ["2 or 4 sockets"]);
  assert.deepEqual(drawn("NUMA"), ["NUMA 3", "NUMA 1", "NUMA 7", "NUMA 5"]);
  assert.deepEqual([drawn("cpu"), drawn("rc"), drawn("host")], [[], [], []]);
  assert.equal(drawn("switch").length, 4);
  await context.close();
});

/** Cells that have a way. */
function places(paths: (number | null)[][]): [number, number][] {
  return paths.flatMap((line, row) => line.flatMap((path, col): [number, number][] => (path === null ? [] : [[row, col]])));
}

/** All nodes and links are there, inside the drawing, no box on another, no text beyond its box. */
async function wellDrawn(page: Page): Promise<void> {
  const machine = await machineOf(page);
  const { boxes, wires } = machine.drawing;
  assert.equal(await page.locator(".drawing .box").count(), boxes.length);
  assert.equal(await page.locator(".drawing .wire").count(), wires.length);
  // each node has one box, its own or another's
  assert.deepEqual(boxes.flatMap(standsFor).sort((a, b) => a - b), machine.nodes.map((_, i) => i));
  const wrong = await page.evaluate(() => {
    const found: string[] = [];
    const svg = document.querySelector<SVGSVGElement>("svg.drawing");
    if (!svg) return ["no drawing"];
    const whole = svg.getBoundingClientRect();
    const boxes = [...svg.querySelectorAll<SVGGElement>(".box")].map((box) => {
      const frame = (box.querySelector("rect") as SVGRectElement).getBoundingClientRect();
      for (const text of box.querySelectorAll(":scope > text")) {
        const inner = text.getBoundingClientRect();
        if (inner.right > frame.right + 0.5) found.push(`text leaves its box: ${text.textContent}`);
      }
      if (frame.left < whole.left || frame.right > whole.right || frame.bottom > whole.bottom + 0.5) found.push("a box lies outside");
      return frame;
    });
    boxes.forEach((a, i) =>
      boxes.slice(i + 1).forEach((b) => {
        if (a.left < b.right && b.left < a.right && a.top < b.bottom && b.top < a.bottom) found.push("boxes overlap");
      }),
    );
    return found;
  });
  assert.deepEqual(wrong, []);
}
