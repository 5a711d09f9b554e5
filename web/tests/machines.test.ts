// Every kind of machine, at both widths, light and dark: drawn whole, readable, usable, silent.

import assert from "node:assert/strict";
import { join } from "node:path";
import { after, before, describe, test } from "node:test";
import type { Page } from "playwright-core";
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
      const blocks = page.locator("details.matrix, section.classes");
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
        assert.equal(await page.locator(".wire.lit").count(), links.size);
        const nodes = new Set(hops.flatMap((h) => [h.from, h.to]));
        assert.equal(await page.locator(".box.lit").count(), nodes.size);
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
      await page.evaluate(() => dispatchEvent(new Event("afterprint")));
      // slow for long pages, and of one kind
      if (name === "7gforce") assert.ok((await page.pdf({ format: "A4" })).length > 10_000);
      await context.close();
    });
  });
}

/** Cells that have a way. */
function places(paths: (number | null)[][]): [number, number][] {
  return paths.flatMap((line, row) => line.flatMap((path, col): [number, number][] => (path === null ? [] : [[row, col]])));
}

/** All nodes and links are there, inside the drawing, no box on another, no text beyond its box. */
async function wellDrawn(page: Page): Promise<void> {
  const machine = await machineOf(page);
  assert.equal(await page.locator(".drawing .box").count(), machine.nodes.length);
  assert.equal(await page.locator(".drawing .wire").count(), machine.links.length);
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
