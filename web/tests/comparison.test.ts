// Machines side by side: bars, heat maps on one scale, and the way from there into each machine's report.

import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";
import { Chromium, compare, documentOf, openAll, peerlane, shot, violations } from "./harness";

const browser = new Chromium();
before(() => browser.start());
after(() => browser.stop());

const EXXACT = ["exxact-traditional", "exxact-devbox", "exxact-txr430", "exxact-txr550", "exxact-txr414"];
const CLOUDS = ["7gforce", "az-2x-m60", "az-4x-m60"];

for (const [name, targets] of [["exxact", EXXACT], ["clouds", CLOUDS]] as const) {
  describe(`${name} side by side`, () => {
    let file = "";
    before(() => {
      file = compare(name, ...targets);
    });
    for (const [width, dark] of [[360, true], [360, false], [1600, true], [1600, false]] as const) {
      test(`is whole and accessible at ${width} px, ${dark ? "dark" : "light"}`, async () => {
        const { page, context, complaints, requests } = await browser.open(file, { width, dark, open: true });
        await openAll(page);
        const wide = await page.evaluate(() => document.scrollingElement?.scrollWidth ?? 0);
        assert.ok(wide <= width, `the page is ${wide} px wide`);
        assert.deepEqual(await violations(page), []);
        await shot(page, `compare-${name}-${width}-${dark ? "dark" : "light"}`);
        assert.deepEqual({ complaints, requests }, { complaints: [], requests: [] });
        await context.close();
      });
    }

    test("says what the terminal says", async () => {
      const { page, context } = await browser.open(file);
      const told = JSON.parse(peerlane("compare", ...targets, "--json"));
      assert.deepEqual(await page.locator("#conclusion li").allTextContents(), told.conclusion);
      assert.deepEqual(await page.locator(".card h3").allTextContents(), targets);
      const pair = page.locator(".figure", { has: page.locator("caption", { hasText: /^worst pair, one way$/ }) });
      const shown = (await pair.locator("td.number").allTextContents()).map(Number);
      const expected = told.designs.map((d: { pair: { worst: { rate: number } } }) => d.pair.worst.rate);
      shown.forEach((value, i) => assert.ok(Math.abs(value - expected[i]) <= 0.005, `${value} for ${expected[i]}`));
      await context.close();
    });

    test("opens with a table of all figures, the rates by path class and the all-reduce by size", async () => {
      const { page, context } = await browser.open(file);
      const view = (await documentOf(page)).comparison;
      const overview = page.locator("main > section").first();
      assert.equal(await overview.getAttribute("id"), "overview");
      assert.equal(await overview.locator("table.overview tbody tr").count(), view?.figures.length);
      // the best are bold, never all of a row
      const bold = await overview.locator("table.overview tbody tr").evaluateAll((rows) =>
        rows.map((row) => [row.querySelectorAll("strong").length, row.querySelectorAll("td").length] as const),
      );
      assert.ok(bold.some(([some]) => some > 0) && bold.every(([some, all]) => some < all));
      assert.ok((await overview.locator(".by-class table").count()) > 0);
      assert.equal(await overview.locator("svg.plot .course").count(), view?.all_reduce?.curves.length);
      await context.close();
    });

    test("bars are as long as their numbers, and nothing leaves its track", async () => {
      const { page, context } = await browser.open(file);
      const view = (await documentOf(page)).comparison;
      const figures = await page.locator(".figure").evaluateAll((all) =>
        all.map((figure) => {
          const tracks = [...figure.querySelectorAll(".track")].map((track) => ({
            whole: track.getBoundingClientRect(),
            bar: track.querySelector(".bar")?.getBoundingClientRect(),
            mark: track.querySelector(".measured-mark")?.getBoundingClientRect(),
          }));
          return {
            what: figure.querySelector("caption")?.firstChild?.textContent ?? "",
            bars: tracks.map(({ bar }) => bar?.width ?? 0),
            outside: tracks.filter(({ whole, bar, mark }) => [bar, mark].some((r) => r && (r.right > whole.right + 4 || r.left < whole.left - 4))).length,
            marks: tracks.filter(({ mark }) => mark).length,
          };
        }),
      );
      assert.ok(figures.length >= 12);
      for (const figure of figures) {
        assert.equal(figure.outside, 0, figure.what);
        const data = view?.figures.find((f) => f.what.replace(/, us(?=,|$)/, ", µs") === figure.what);
        assert.ok(data, figure.what);
        const values = data.values.map((v) => v?.value ?? 0);
        const [most, longest] = [Math.max(...values), Math.max(...figure.bars)];
        values.forEach((value, i) => {
          assert.ok(Math.abs(value / most - (figure.bars[i] ?? 0) / longest) < 0.01, `${figure.what}: ${value}`);
        });
        assert.equal(figure.marks, data.values.filter((v) => v?.measured).length);
      }
      assert.ok(figures.some((f) => f.marks > 0));
      await context.close();
    });

    test("equal numbers have equal colours in all machines", async () => {
      const { page, context } = await browser.open(file);
      const sections = await page.locator("section.side").evaluateAll((all) =>
        all.map((side) =>
          [...side.querySelectorAll<HTMLElement>("td.cell")].map((cell) => [Number(cell.textContent), parseFloat(cell.style.getPropertyValue("--at"))] as const),
        ),
      );
      assert.ok(sections.length >= 4);
      for (const cells of sections) {
        const most = Math.max(...cells.map(([value]) => value));
        for (const [value, at] of cells) assert.ok(Math.abs((100 * value) / most - at) < 1.2, `${value} of ${most} at ${at} %`);
      }
      await context.close();
    });

    test("a cell lights its way in its machine's picture, and leads to its report", async () => {
      const { page, context, complaints } = await browser.open(file);
      const side = page.locator("section.side").first();
      const block = side.locator(".shared").last();
      const machine = (await block.locator("h4").textContent()) ?? "";
      await block.locator("td.cell").first().click();
      const card = page.locator(".card", { has: page.getByRole("heading", { name: machine, exact: true }) });
      const lit = await card.locator(".wire.lit").count();
      assert.ok(lit > 0);
      assert.equal(await page.locator(".wire.lit").count(), lit);
      assert.ok(((await side.locator("output").textContent()) ?? "").startsWith(`${machine}, GPU0 → GPU1: `));
      await side.getByRole("button", { name: `Show GPU0 → GPU1 in the report of ${machine}` }).click();
      assert.ok((await page.locator("h1").textContent())?.startsWith(machine));
      assert.ok((await page.locator('td.cell[aria-selected="true"]').count()) >= 1);
      assert.match((await page.locator(".panel h3").textContent()) ?? "", /^GPU0 → GPU1$/);
      await page.locator("header select").selectOption({ label: "All side by side" });
      assert.equal(await page.locator(".card").count(), targets.length);
      await page.getByRole("button", { name: `Open report: ${targets[1]}` }).click();
      assert.ok((await page.locator("h1").textContent())?.startsWith(targets[1] ?? "?"));
      assert.deepEqual(complaints, []);
      await context.close();
    });
  });
}

test("a changed design stands beside itself under its own name", async () => {
  const { page, context } = await browser.open(compare("changed", "exxact-devbox", "--what-if", "GPU3=none"));
  assert.deepEqual(await page.locator(".card h3").allTextContents(), ["exxact-devbox", "exxact-devbox (what if)"]);
  await context.close();
});

test("the comparison is copied as Markdown", async () => {
  const { page, context } = await browser.open(compare("copy", ...CLOUDS));
  await context.grantPermissions(["clipboard-read", "clipboard-write"]);
  await page.getByRole("button", { name: "Copy the comparison as Markdown" }).click();
  await page.getByText("Copied.").waitFor();
  const copied = await page.evaluate(() => navigator.clipboard.readText());
  assert.match(copied, /^## 7gforce, az-2x-m60, az-4x-m60\n\n\* az-/);
  assert.match(copied, /\n\| worst pair, one way \| \d\.\d\d \(0\.73\) \| \d\.\d\d \(5\.26\) \| \d\.\d\d \|\n/);
  await context.close();
});
