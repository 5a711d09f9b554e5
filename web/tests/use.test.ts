// The page as people use it: by keyboard, with a clipboard, for the record.

import assert from "node:assert/strict";
import { readFileSync, statSync } from "node:fs";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { Chromium, folder, machineOf, peerlane, report, web } from "./harness";

const browser = new Chromium();
let measured = "";
let run = "";

before(async () => {
  await browser.start();
  run = join(folder, "run.json");
  peerlane("measure", "h200x4-vm", "--full", "-o", run);
  measured = report("measured", run);
});
after(() => browser.stop());

test("a heat map is one tab stop, walked with arrows, chosen with Enter", async () => {
  const { page, context } = await browser.open(measured);
  const grid = page.locator(".matrix:not(.aside) table.heat").first();
  assert.equal(await grid.locator('[tabindex="0"]').count(), 1);
  await grid.locator('td.cell[tabindex="0"]').focus();
  const readout = page.locator(".matrix:not(.aside) output").first();
  assert.match((await readout.textContent()) ?? "", /^GPU0 → GPU1: measured 39\d\.\d GB\/s \(n \d+, 95 % interval 39.* to 39.*\); expected 39\d\.\d GB\/s \([\d.]+ to [\d.]+\); ratio 1\.00/);
  await page.keyboard.press("ArrowDown");
  // the diagonal is empty and is stepped over
  await page.keyboard.press("ArrowDown");
  assert.match((await readout.textContent()) ?? "", /^GPU3 → GPU1|^GPU2 → GPU1/);
  await page.keyboard.press("Home");
  assert.match((await readout.textContent()) ?? "", /^GPU\d → GPU0/);
  await page.keyboard.press("Enter");
  assert.equal(await page.locator(".wire.lit").count(), 2);
  assert.match((await page.locator(".panel").textContent()) ?? "", /Bottleneck: GPU\d–nvswitch, NVLink 4 x18/);
  // the way tells what each hop may allow at least and at most
  assert.match((await page.locator(".hops tbody tr td:nth-of-type(3)").first().textContent()) ?? "", /^[\d.]+ to [\d.]+$/);
  assert.equal(await grid.locator('[aria-selected="true"]').count(), 1);
  assert.equal(await grid.locator('[tabindex="0"]').count(), 1);
  await page.keyboard.press("Escape");
  assert.equal(await page.locator(".wire.lit").count(), 0);
  await context.close();
});

test("the drawing is walked with arrows, and tells of nodes and links", async () => {
  const { page, context } = await browser.open(measured);
  await page.locator('.drawing .box[tabindex="0"]').focus();
  for (let i = 0; i < 3; i += 1) await page.keyboard.press("ArrowRight");
  await page.keyboard.press("Enter");
  const panel = page.locator(".panel");
  const told = (await panel.textContent()) ?? "";
  assert.match(told, /GPU\d|nvswitch/);
  await panel.getByRole("button", { name: /NVLink|NV18/ }).first().click();
  assert.equal(await page.locator(".wire.lit").count(), 1);
  assert.match((await panel.textContent()) ?? "", /478.1 GB\/s raw, each way/);
  await context.close();
});

test("the drawing takes the whole window and gives it back", async () => {
  const { page, context } = await browser.open(measured, { width: 1280 });
  const width = async () => (await page.locator("svg.drawing").boundingBox())?.width ?? 0;
  const before = await width();
  await page.getByRole("button", { name: "Enlarge" }).click();
  assert.ok((await width()) > 1.3 * before);
  await page.keyboard.press("Escape");
  assert.ok(Math.abs((await width()) - before) < 1);
  await context.close();
});

test("the findings are copied as the program writes them", async () => {
  const file = report("7gforce-copy", "7gforce");
  const { page, context } = await browser.open(file);
  await context.grantPermissions(["clipboard-read", "clipboard-write"]);
  await page.getByRole("button", { name: "Copy the findings as Markdown" }).click();
  await page.getByText("Copied.").waitFor();
  const copied = await page.evaluate(() => navigator.clipboard.readText());
  assert.equal(copied, peerlane("check", "7gforce", "--format", "markdown"));
  assert.match(copied, /\* \*\*error\*\*: GPU0–GPU5 run at PCIe 3\.0 x1/);
  await context.close();
});

test("the record comes out as it went in", async () => {
  const { page, context, complaints } = await browser.open(measured);
  const [download] = await Promise.all([
    page.waitForEvent("download"),
    page.getByRole("button", { name: /^Save the run's record/ }).click(),
  ]);
  assert.equal(download.suggestedFilename(), "h200x4-vm.run.json");
  const saved = join(folder, "saved.json");
  await download.saveAs(saved);
  assert.deepEqual(JSON.parse(readFileSync(saved, "utf8")), JSON.parse(readFileSync(run, "utf8")));
  assert.deepEqual(complaints, []);
  await context.close();
});

test("a finding leads to the drawing, to its cells and to where it stands", async () => {
  const file = report("traditional", "exxact-traditional");
  const { page, context } = await browser.open(file);
  const machine = await machineOf(page);
  const at = machine.findings.findIndex((f) => f.cells.length > 0);
  assert.ok(at >= 0, "no finding is about cells");
  const finding = page.locator(`#finding-${at}`);
  await finding.getByRole("button", { name: "Show in the drawing" }).click();
  assert.equal(await page.locator(".box.lit").count(), machine.findings[at]?.boxes.length);
  await finding.locator("button.chip").first().click();
  assert.ok((await page.locator('td.cell[aria-selected="true"]').count()) >= 1);
  assert.ok((await page.locator(".wire.lit").count()) > 0);
  for (const link of await finding.locator("a").all()) {
    const href = (await link.getAttribute("href")) ?? "";
    assert.equal(await page.locator(href).count(), 1, href);
  }
  await context.close();
});

test("curves carry their fitted values", async () => {
  const { page, context } = await browser.open(measured);
  const chart = page.locator(".chart").first();
  const machine = await machineOf(page);
  const curves = machine.charts[0]?.curves ?? [];
  assert.ok(curves.length > 0 && curves.every((c) => c.fit));
  assert.equal(await chart.locator("path.fitted").count(), curves.length);
  assert.equal(await chart.locator("path.point").count() - curves.length, curves.flatMap((c) => c.points).length);
  assert.match((await chart.locator("table.fits").textContent()) ?? "", /r∞, GB\/s/);
  const beyond = await chart.locator("path.point").evaluateAll((all) => {
    const frame = all[0]?.closest("svg")?.getBoundingClientRect();
    return all.filter((p) => p.closest("svg.plot") && frame && (p.getBoundingClientRect().right > frame.right + 1 || p.getBoundingClientRect().top < frame.top - 1)).length;
  });
  assert.equal(beyond, 0);
  await context.close();
});

test("several machines share a page", async () => {
  const file = report("two", "7gforce", "dgx-1");
  const { page, context, complaints } = await browser.open(file);
  assert.equal(await page.locator("h1").textContent().then((t) => t?.startsWith("7gforce")), true);
  await page.locator("header select").selectOption({ index: 1 });
  assert.equal(await page.locator("h1").textContent().then((t) => t?.startsWith("dgx-1")), true);
  assert.deepEqual(complaints, []);
  await context.close();
});

test("the page stays small", () => {
  assert.ok(statSync(measured).size < 600_000, `${statSync(measured).size} bytes`);
});

test("without scripts the findings can still be read", async () => {
  const text = readFileSync(report("plain", "7gforce"), "utf8");
  const plain = text.slice(text.indexOf("<noscript>"), text.indexOf("</noscript>"));
  assert.match(plain, /GPU0–GPU5 run at PCIe 3\.0 x1/);
});

test("what a site accepts stands closed below the findings, with its reason", async () => {
  const file = join(folder, "waived.html");
  const rules = join(web, "tests", "fixtures", "rules.toml");
  peerlane("check", "exxact-traditional", "--rules", rules, "--html", file);
  const { page, context } = await browser.open(file);
  const waived = page.locator("details.waived");
  assert.equal(await waived.getAttribute("open"), null);
  assert.equal(await waived.locator("summary").first().textContent(), "1 finding accepted by the site");
  await waived.locator("summary").first().click();
  assert.match((await waived.locator("li").textContent()) ?? "", /Accepted: two sockets are what we <b>bought<\/b>/);
  assert.match((await waived.locator("li").textContent()) ?? "", /crosses-sockets, by design/);
  assert.equal(await page.locator("#findings ol.findings").first().locator("> li", { hasText: "crosses-sockets" }).count(), 0);
  await context.close();
});
