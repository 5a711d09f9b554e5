// The page of a fleet, from 8 machines to 5,000.

import assert from "node:assert/strict";
import { statSync } from "node:fs";
import { after, before, describe, test } from "node:test";
import type { Page } from "playwright-core";
import { fleet, filled } from "./fleets";
import { Chromium, openAll, shot, violations } from "./harness";

const browser = new Chromium();
before(() => browser.start());
after(() => browser.stop());

const SIZES = [8, 300, 1000, 5000];

for (const machines of SIZES) {
  describe(`${machines} machines`, () => {
    const document = fleet(machines);
    let file = "";
    before(() => {
      file = filled(`fleet-${machines}`, document);
    });

    for (const [width, dark] of [[390, false], [1280, true], [390, true], [1280, false]] as const) {
      test(`is whole and accessible at ${width} px, ${dark ? "dark" : "light"}`, async () => {
        const { page, context, complaints, requests } = await browser.open(file, { width, dark, open: true });
        const wide = () => page.evaluate(() => window.document.scrollingElement?.scrollWidth ?? 0);
        await shot(page, `fleet-${machines}-${width}-${dark ? "dark" : "light"}`);
        assert.ok((await wide()) <= width, `the page is ${await wide()} px wide`);
        await openAll(page);
        await page.locator("tr.outlier button[aria-expanded]").first().click();
        assert.ok((await wide()) <= width, `opened, the page is ${await wide()} px wide`);
        // every table in one page takes axe minutes
        if (machines === 8) assert.deepEqual(await violations(page), []);
        await page.locator("button.machine").first().click();
        await shot(page, `fleet-${machines}-${width}-${dark ? "dark" : "light"}-open`);
        assert.deepEqual({ complaints, requests }, { complaints: [], requests: [] });
        await context.close();
      });
    }

    test("opens quickly, on the worst", async () => {
      const from = performance.now();
      const { page, context } = await browser.open(file);
      await page.locator("canvas").first().waitFor();
      const took = performance.now() - from;
      assert.ok(took < 5000, `${took.toFixed(0)} ms`);
      const first = document.outliers[0];
      const row = page.locator("tr.outlier").first();
      assert.ok((await row.textContent())?.includes(first?.summary ?? "?"));
      assert.ok((await row.textContent())?.includes(document.machines[first?.machine ?? -1]?.name ?? "?"));
      assert.equal(await page.locator("h1").evaluate((h1) => h1.firstChild?.textContent), `${machines.toLocaleString("en")} machines`);
      await context.close();
    });
  });
}

test("a thousand machines take less than 3 MB", () => {
  assert.ok(statSync(filled("size", fleet(1000))).size < 3_000_000);
});

/** The number of outliers and machines that the filter leaves. */
const shown = async (page: Page) => (await page.locator(".filter .shown").textContent()) ?? "";

test("filters by words, kind and action apply to the list and to the map", async () => {
  const document = fleet(300);
  const { page, context, complaints } = await browser.open(filled("filters", document));
  const all = document.outliers.length;
  assert.equal(await shown(page), `${all} outliers, 300 machines`);
  const isolated = document.outliers.filter((o) => o.action === "isolate").length;
  await page.getByRole("button", { name: /isolate/ }).first().click();
  assert.equal(await shown(page), `${isolated} of ${all} outliers, ${isolated} of 300 machines`);
  assert.equal(await page.locator("tr.outlier").count(), isolated);
  await page.getByRole("button", { name: "Clear" }).click();
  assert.equal(await page.locator("tr.outlier").count(), all);
  await page.getByRole("combobox", { name: "Kind" }).selectOption({ label: document.kinds[2]?.name ?? "" });
  const ofKind = document.machines.filter((m) => m.kind === 2).length;
  assert.match(await shown(page), new RegExp(`, ${ofKind} of 300 machines$`));
  await page.getByRole("button", { name: "Clear" }).click();
  // a machine without outliers is found by its name
  await page.getByRole("searchbox").fill("r01-GPU001");
  assert.equal(await shown(page), `0 of ${all} outliers, 1 of 300 machines`);
  assert.equal(await page.getByText("No outlier passes the filter.").isVisible(), true);
  await page.getByRole("searchbox").fill("no such words");
  assert.equal(await page.getByText("No machine passes the filter.").isVisible(), true);
  assert.deepEqual(complaints, []);
  await context.close();
});

test("an outlier opens to the reasons and the record", async () => {
  const document = fleet(300);
  const { page, context } = await browser.open(filled("reasons", document));
  const [first] = document.outliers;
  const toggle = page.locator("tr.outlier button[aria-expanded]").first();
  await toggle.focus();
  await page.keyboard.press("Enter");
  assert.equal(await toggle.getAttribute("aria-expanded"), "true");
  const more = (await page.locator("tr.more:not([hidden])").textContent()) ?? "";
  assert.ok(more.includes(first?.why ?? "?") && more.includes(first?.file ?? "?") && more.includes(first?.rule ?? "?"), more);
  await page.keyboard.press("Enter");
  assert.equal(await page.locator("tr.more:not([hidden])").count(), 0);
  await context.close();
});

test("the heat map is walked with arrows, and Enter shows the machine", async () => {
  const document = fleet(1000);
  const { page, context } = await browser.open(filled("keys", document));
  const map = page.locator(".map-scroll");
  const readout = page.locator(".map-view .readout");
  await page.getByRole("button", { name: "By name" }).click();
  await page.keyboard.press("Tab");
  assert.equal(await map.evaluate((of) => of === window.document.activeElement), true);
  assert.match((await readout.textContent()) ?? "", /^r01-gpu001, pairs: read, copy engine, NVLink: [01]\.\d\d of the median of 8 × NVIDIA H200/);
  await page.keyboard.press("ArrowDown");
  await page.keyboard.press("ArrowRight");
  assert.match((await readout.textContent()) ?? "", /^r01-gpu002, pairs: write, copy engine, NVLink: /);
  await page.keyboard.press("Control+End");
  assert.match((await readout.textContent()) ?? "", /^r56-gpu010, local: write memory: /);
  assert.ok((await map.evaluate((of) => of.scrollTop)) > 1000);
  await page.keyboard.press("Enter");
  const view = page.locator(".machine-view");
  assert.equal(await view.locator("h2").textContent(), "r56-gpu010");
  assert.equal(await view.evaluate((of) => of === window.document.activeElement), true);
  await page.keyboard.press("Escape");
  assert.equal(await view.isVisible(), false);
  // back to where the reader was
  assert.equal(await map.evaluate((of) => of === window.document.activeElement), true);
  await context.close();
});

test("a click on a cell of the heat map shows its machine", async () => {
  const { page, context } = await browser.open(filled("click", fleet(300)));
  await page.getByRole("button", { name: "Worst first" }).click();
  const canvas = page.locator(".map-size canvas");
  await canvas.scrollIntoViewIfNeeded();
  const box = await canvas.boundingBox();
  assert.ok(box);
  // down the heading, whose height follows the names of the tests, to the first row
  const readout = page.locator(".map-view .readout");
  let y = 50;
  while (y < 300 && ((await readout.textContent()) ?? "").startsWith("Point at")) await page.mouse.move(box.x + 300, box.y + (y += 5));
  const words = (await readout.textContent()) ?? "";
  // not at the edge: a click has whole pixels
  await page.mouse.click(box.x + 300, box.y + y + 5);
  const name = (await page.locator(".machine-view h2").textContent()) ?? "?";
  assert.ok(words.startsWith(`${name}, `), words);
  // the worst machine is first
  assert.ok((await page.locator(".machine-view .badge.isolate").count()) > 0);
  await context.close();
});

test("the heat map has its values as a table", async () => {
  const document = fleet(300);
  const { page, context } = await browser.open(filled("table", document));
  await page.getByRole("button", { name: "By name" }).click();
  await page.getByText("The heat map as a table").click();
  const table = page.locator("table.values");
  await table.waitFor();
  assert.equal(await table.locator("tbody tr").count(), 50);
  assert.equal(await table.locator("thead th").count(), document.tests.length + 2);
  const [first] = document.machines;
  const texts = await table.locator("tbody tr").first().locator("td").allTextContents();
  assert.deepEqual(texts.slice(1), first?.scores.map((score) => (score === null ? "–" : (score / 1000).toFixed(2))));
  await page.getByRole("button", { name: "Next" }).click();
  assert.equal(await page.getByText("Machines 51 to 100 of 300").isVisible(), true);
  assert.equal(await table.locator("tbody th").first().textContent(), "r03-gpu015");
  await context.close();
});

test("prints with the reasons, a light map of all machines, and nothing that is not for paper", async () => {
  const { page, context } = await browser.open(filled("print", fleet(300)), { dark: true });
  await page.evaluate(() => dispatchEvent(new Event("beforeprint")));
  await page.emulateMedia({ media: "print", colorScheme: "dark" });
  assert.equal(await page.locator("tr.more[hidden], details:not([open]):not(.screen)").count(), 0);
  const paper = page.locator("canvas.paper");
  assert.equal(await paper.isVisible(), true);
  assert.equal(await page.locator(".map-frame").isVisible(), false);
  assert.equal(await page.locator(".filter").isVisible(), false);
  const corner = await paper.evaluate((of) => [...((of as HTMLCanvasElement).getContext("2d")?.getImageData(0, 0, 1, 1).data ?? [])]);
  assert.deepEqual(corner, [255, 255, 255, 255]);
  const wide = await page.evaluate(() => window.document.scrollingElement?.scrollWidth ?? 0);
  assert.ok(wide <= 1600, `the page is ${wide} px wide`);
  assert.ok((await page.pdf({ format: "A4" })).length > 10_000);
  await context.close();
});

test("on paper a small fleet has every machine by name, and many tests all of their columns", async () => {
  const document = fleet(30);
  const more = [...document.tests, ...document.tests, ...document.tests];
  const machines = document.machines.map((m) => ({ ...m, scores: [...m.scores, ...m.scores, ...m.scores] }));
  const { page, context } = await browser.open(filled("paper", { ...document, tests: more, machines }));
  await page.evaluate(() => dispatchEvent(new Event("beforeprint")));
  const size = await page.locator("canvas.paper").evaluate((of) => [(of as HTMLCanvasElement).width, (of as HTMLCanvasElement).height]);
  // two pixels for each of the layout's: 13 a column, more than 100 for the heading, 20 a row
  assert.ok((size[0] ?? 0) >= 2 * 13 * more.length && (size[1] ?? 0) >= 2 * (100 + 20 * 30), `${size}`);
  await context.close();
});

test("a fleet without outliers says so", async () => {
  const document = { ...fleet(8), outliers: [] };
  const { page, context } = await browser.open(filled("healthy", document));
  assert.equal(await page.locator(".headline").textContent(), "No outliers.");
  assert.equal(await page.locator("tr.outlier").count(), 0);
  await context.close();
});
