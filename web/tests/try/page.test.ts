// The page that has the library in it, from disk, in a real Chromium.

import assert from "node:assert/strict";
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { basename, join } from "node:path";
import { after, before, test } from "node:test";
import type { Page } from "playwright-core";
import { Died } from "../../src/try/protocol";
import { Chromium, folder, openAll, peerlane, shot, violations, web, type Look, type Opened } from "../harness";
import { Asked, below, difference, PAGE, SHARED } from "./module";

const browser = new Chromium();
const slowNode = join(web, "..", "examples", "slow-node");

before(() => browser.start());
after(() => browser.stop());

/** The page, without its own scripts' and workers' addresses among its requests. */
async function open(look: Look = {}, page = PAGE): Promise<Opened> {
  return browser.open(page, look);
}

/** Nothing was asked for and nothing complained. The worker's own script is in the page. */
function quiet({ complaints, requests }: Opened): void {
  assert.deepEqual({ complaints, requests: requests.filter((url) => !url.startsWith("blob:")) }, { complaints: [], requests: [] });
}

const heading = (page: Page) => page.locator("#report h1");

async function example(page: Page, name: string): Promise<void> {
  await page.getByRole("button", { name }).click();
  await heading(page).waitFor();
}

async function change(page: Page, edit: string): Promise<void> {
  if ((await page.locator("#what-if").getAttribute("open")) === null) await page.locator("#what-if > summary").click();
  await page.locator("#change").fill(edit);
  await page.getByRole("button", { name: "Change", exact: true }).click();
}

/** Drops files by name and text. */
async function drop(page: Page, files: [string, string][]): Promise<void> {
  const transfer = await page.evaluateHandle((all) => {
    const data = new DataTransfer();
    for (const [name, text] of all) data.items.add(new File([text], name));
    return data;
  }, files);
  await page.dispatchEvent("body", "drop", { dataTransfer: transfer });
}

test("an example: the answer, the lines that say so, nothing asked for", async () => {
  const opened = await open();
  const { page, context } = opened;
  await context.setOffline(true);
  await example(page, "A slow node of eight H200");
  assert.match((await page.locator(".verdict").textContent()) ?? "", /^Fault GPU5: 12 active NVLinks/);
  assert.match((await page.locator(".first").textContent()) ?? "", /Fix: Reset the GPU/);
  assert.match((await page.locator("#finding-0 .quote").textContent()) ?? "", /GPU 5: NVIDIA H200/);
  assert.equal(await page.locator("details.input").getAttribute("open"), null);
  await shot(page, "try-slow-node");
  await page.emulateMedia({ media: "print" });
  assert.equal(await page.locator("details.input").isVisible(), false);
  assert.ok(await page.locator("svg.drawing").first().isVisible());
  await page.pdf();
  quiet(opened);
  await context.close();
});

test("pasted texts, one after another, are of one machine", async () => {
  const opened = await open();
  const { page, context } = opened;
  await page.locator("#pasted").fill(readFileSync(join(slowNode, "topo.txt"), "utf8"));
  await page.locator("#pasted").press("Control+Enter");
  await heading(page).waitFor();
  assert.match((await page.locator("#report header .hint").textContent()) ?? "", /^8 GPUs, 8 NICs/);
  await drop(page, [["nvlink.txt", readFileSync(join(slowNode, "nvlink.txt"), "utf8")]]);
  await page.getByText("12 active NVLinks").first().waitFor();
  assert.equal(await page.locator(".given li").count(), 2);
  await page.locator("details.input > summary").click();
  await page.getByRole("button", { name: "Remove nvlink.txt" }).click();
  await page.getByText("12 active NVLinks").first().waitFor({ state: "detached" });
  quiet(opened);
  await context.close();
});

test("a folder, a design that is pasted, and several hosts at once", async () => {
  const opened = await open();
  const { page, context } = opened;
  await page.locator("input[webkitdirectory]").setInputFiles(slowNode);
  await page.getByText("12 active NVLinks").first().waitFor();
  assert.equal(await heading(page).textContent(), "slow-node");
  await page.getByRole("button", { name: "New input" }).click();
  await page.locator("#pasted").fill(readFileSync(join(web, "..", "examples", "box.toml"), "utf8"));
  await page.getByRole("button", { name: "Check" }).click();
  await page.locator("#report h1", { hasText: "box" }).waitFor();
  await page.getByRole("button", { name: "New input" }).click();
  const topo = readFileSync(join(slowNode, "topo.txt"), "utf8");
  const labelled = ["node1", "node2"].map((host) => topo.split("\n").map((line) => `${host}: ${line}`).join("\n")).join("\n");
  await drop(page, [["both.txt", labelled]]);
  const menu = page.locator("#report header select");
  await menu.waitFor();
  assert.deepEqual((await menu.locator("option").allTextContents()).map((text) => text.split(":")[0]), ["node1", "node2"]);
  quiet(opened);
  await context.close();
});

test("a buyer pastes two designs", async () => {
  const opened = await open();
  const { page, context } = opened;
  const systems = join(web, "..", "systems");
  await page.locator("#pasted").fill(readFileSync(join(systems, "exxact-txr550.toml"), "utf8"));
  await page.getByRole("button", { name: "Check" }).click();
  await heading(page).waitFor();
  await page.locator("details.input > summary").click();
  await page.getByRole("button", { name: "Paste another" }).click();
  await page.locator("#pasted").fill(readFileSync(join(systems, "exxact-txr430.toml"), "utf8"));
  await page.locator("#pasted").press("Control+Enter");
  await page.locator("#report header select").waitFor();
  await page.locator("details.input > summary").click();
  await page.locator("#apart").check();
  await page.locator(".together .first").waitFor();
  assert.equal((await heading(page).textContent())?.startsWith("exxact-txr550, exxact-txr430"), true);
  assert.deepEqual(await page.locator(".given li").evaluateAll((all) => all.map((one) => one.firstChild?.textContent)), ["pasted.toml", "pasted-2.toml"]);
  quiet(opened);
  await context.close();
});

test("two designs side by side", async () => {
  const opened = await open();
  const { page, context } = opened;
  await example(page, "DGX-1");
  await page.locator("details.input > summary").click();
  await page.locator("#catalogue").focus();
  await page.locator('#catalogue option[value="dgx-2"]').waitFor({ state: "attached" });
  await page.locator("#catalogue").selectOption("dgx-2");
  await page.locator("#report header select").waitFor();
  await page.locator("details.input > summary").click();
  await page.locator("#apart").check();
  await page.locator(".together").waitFor();
  assert.equal((await heading(page).textContent())?.startsWith("dgx-1, dgx-2"), true);
  quiet(opened);
  await context.close();
});

test("two devices are selected to explain their path, and a better one is tried", async () => {
  const opened = await open();
  const { page, context } = opened;
  await drop(page, [["box.toml", readFileSync(join(web, "..", "systems", "exxact-devbox.toml"), "utf8")]]);
  await heading(page).waitFor();
  await page.locator(".box.gpu").nth(0).click();
  await page.locator(".box.gpu").nth(2).click();
  await page.locator(".explanation h4", { hasText: "GPU0 → GPU2: 10.15 GB/s" }).waitFor();
  assert.ok((await page.locator(".wire.lit").count()) >= 2);
  await page.getByRole("button", { name: /^Try it/ }).first().click();
  await page.locator(".together").waitFor();
  assert.deepEqual(await page.locator(".edits code").allTextContents(), ["GPU2.at=plx0", "plx0.part=pex8780"]);
  await page.locator("#report header select").selectOption({ label: (await page.locator("#report header option").last().textContent()) ?? "" });
  await page.getByLabel("From").selectOption("GPU0");
  await page.getByLabel("to", { exact: true }).selectOption("GPU2");
  await page.locator(".explanation h4", { hasText: "GPU0 → GPU2: 13.15 GB/s" }).waitFor();
  quiet(opened);
  await context.close();
});

test("what if: completed, refused, undone, redone, removed", async () => {
  const opened = await open();
  const { page, context } = opened;
  await example(page, "Seven GPUs, six on risers");
  await page.locator("#what-if > summary").click();
  await page.locator("#change").focus();
  await page.locator("#change").pressSequentially("GPU0.");
  assert.ok((await page.locator("#changes option").evaluateAll((all) => all.map((o) => (o as HTMLOptionElement).value))).includes("GPU0.link="));
  await page.locator("#change").fill("GPU0.part=");
  await page.locator('#changes option[value="GPU0.part=h100-sxm"], #changes option[value^="GPU0.part=gtx"]').first().waitFor({ state: "attached" });
  await change(page, "GPU9.link=x16");
  await page.locator(".what-if .refused", { hasText: "no node 'GPU9'" }).waitFor();
  assert.equal(await page.locator(".edits li").count(), 0);
  await change(page, "GPU0.link=x16");
  await page.locator(".together").waitFor();
  assert.match((await heading(page).textContent()) ?? "", /^7gforce, 7gforce \(what if\)/);
  await page.getByRole("button", { name: "Undo" }).click();
  await page.locator(".together").waitFor({ state: "detached" });
  await page.getByRole("button", { name: "Redo" }).click();
  await page.locator(".together").waitFor();
  await page.getByRole("button", { name: "Remove GPU0.link=x16" }).click();
  await page.locator(".together").waitFor({ state: "detached" });
  quiet(opened);
  await context.close();
});

test("what is saved is what the program writes", async () => {
  const opened = await open();
  const { page, context } = opened;
  await example(page, "Seven GPUs, six on risers");
  const save = async (name: string) => {
    const [download] = await Promise.all([page.waitForEvent("download"), page.getByRole("button", { name }).click()]);
    const to = join(folder, download.suggestedFilename());
    await download.saveAs(to);
    return to;
  };
  const json = await save("Save as JSON");
  assert.equal(basename(json), "7gforce.json");
  assert.equal(difference(readFileSync(json, "utf8"), peerlane("check", "7gforce", "--json")), null);
  const saved = await save("Save as a page");
  const written = join(folder, "written.html");
  peerlane("report", "7gforce", "-o", written);
  assert.equal(difference(readFileSync(saved, "utf8"), readFileSync(written, "utf8")), null);
  const again = await browser.open(saved);
  assert.equal((await again.page.locator("h1").textContent())?.startsWith("7gforce"), true);
  quiet(again);
  await again.context.close();
  await context.close();
});

test("a design and its changes are a link, and a system file that the program reads", async () => {
  const opened = await open();
  const { page, context } = opened;
  await drop(page, [["box.toml", readFileSync(join(web, "..", "systems", "exxact-devbox.toml"), "utf8")]]);
  await heading(page).waitFor();
  await change(page, "GPU2.link=x8");
  await page.locator(".together").waitFor();
  const [download] = await Promise.all([page.waitForEvent("download"), page.getByRole("button", { name: "Save as a system file" }).click()]);
  const to = join(folder, "changed.toml");
  await download.saveAs(to);
  const written = peerlane("map", join(web, "..", "systems", "exxact-devbox.toml"), "--what-if", "GPU2.link=x8", "--format", "system");
  assert.equal(difference(readFileSync(to, "utf8"), written), null);
  assert.match(peerlane("explain", to, "GPU0", "GPU2"), /bound by {3}GPU2–plx1, PCIe 3\.0 x8/);
  await page.getByRole("button", { name: "Link to the design" }).click();
  await page.getByLabel("Link", { exact: true }).waitFor();
  const link = await page.getByLabel("Link", { exact: true }).inputValue();
  assert.ok(link.startsWith("file:") && link.includes("#design="));
  quiet(opened);
  await context.close();
  const again = await open();
  await again.page.goto(link);
  await again.page.reload();
  await again.page.locator(".together").waitFor();
  assert.deepEqual(await again.page.locator(".edits code").allTextContents(), ["GPU2.link=x8"]);
  // in a page that is open, and one that was cut off
  await again.page.evaluate((hash) => (location.hash = hash), link.slice(link.indexOf("#"), -9));
  await again.page.getByText("The link holds no design that can be read").waitFor();
  // a text is no design
  await again.page.getByRole("button", { name: "New input" }).click();
  await again.page.locator("#pasted").fill(readFileSync(join(slowNode, "topo.txt"), "utf8"));
  await again.page.getByRole("button", { name: "Check" }).click();
  await heading(again.page).waitFor();
  assert.equal(await again.page.getByRole("button", { name: "Link to the design" }).isVisible(), false);
  assert.deepEqual(again.complaints, []);
  await again.context.close();
});

test("lines are quoted in several places, and of one host among others", async () => {
  const opened = await open();
  const { page, context } = opened;
  await drop(page, [["rig.toml", readFileSync(join(web, "..", "systems", "7gforce.toml"), "utf8")]]);
  await heading(page).waitFor();
  const numbers = page.locator("#finding-0 .quote").first().locator("li");
  const shown = await numbers.evaluateAll((all) => all.map((one) => [(one as HTMLLIElement).value, one.textContent] as const));
  const lines = readFileSync(join(web, "..", "systems", "7gforce.toml"), "utf8").split("\n");
  assert.ok(shown.length > 6);
  for (const [number, text] of shown) assert.equal(text?.trim(), lines[number - 1]?.trim());
  await page.getByRole("button", { name: "New input" }).click();
  const topo = readFileSync(join(slowNode, "topo.txt"), "utf8").split("\n");
  await page.locator("#pasted").fill(["node1", "node2"].flatMap((host) => topo.map((line) => `${host}: ${line}`)).join("\n"));
  await page.locator("#pasted").press("Control+Enter");
  await page.locator("#report header select").selectOption({ label: "node2: fault" });
  const host = await page.locator("#finding-0 .quote li").allTextContents();
  assert.ok(host.length > 8 && host.every((line) => line.startsWith("node2: ")), host.join("\n"));
  quiet(opened);
  await context.close();
});

test("by keyboard alone: example, explanation, change, undo", async () => {
  const opened = await open();
  const { page, context } = opened;
  const at = () => page.evaluate(() => document.activeElement?.textContent?.trim() ?? "");
  const walk = async (to: RegExp) => {
    for (let i = 0; i < 60 && !to.test(await at()); i += 1) await page.keyboard.press("Tab");
    assert.match(await at(), to);
  };
  await walk(/^Seven GPUs/);
  await page.keyboard.press("Enter");
  await heading(page).waitFor();
  await page.evaluate(() => (document.activeElement as HTMLElement).blur());
  await walk(/^What if/);
  await page.keyboard.press("Enter");
  await page.keyboard.press("Tab");
  await page.keyboard.type("GPU0.link=x16");
  await page.keyboard.press("Enter");
  await page.locator(".together").waitFor();
  await walk(/^Undo$/);
  await page.keyboard.press("Enter");
  await page.locator(".together").waitFor({ state: "detached" });
  const focused = () => page.evaluate(() => (document.activeElement as HTMLSelectElement | null)?.labels?.[0]?.textContent ?? "");
  for (let i = 0; i < 80 && (await focused()) !== "From"; i += 1) await page.keyboard.press("Tab");
  await page.keyboard.type("GPU0");
  await page.keyboard.press("Tab");
  await page.keyboard.type("GPU6");
  await page.locator(".explanation h4", { hasText: "GPU0 → GPU6" }).waitFor();
  quiet(opened);
  await context.close();
});

for (const width of [360, 1280]) {
  for (const dark of [false, true]) {
    test(`${width} pixels wide, ${dark ? "dark" : "light"}: nothing overflows, and axe finds nothing`, async () => {
      const { page, context } = await open({ width, dark, open: true });
      const overflow = () => page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
      assert.ok((await overflow()) <= 0);
      assert.deepEqual(await violations(page), []);
      await shot(page, `try-open-${width}${dark ? "-dark" : ""}`);
      await example(page, "Seven GPUs, six on risers");
      await page.getByRole("button", { name: "Link to the design" }).click();
      await page.getByLabel("Link", { exact: true }).waitFor();
      await page.getByLabel("From").selectOption("GPU0");
      await page.getByLabel("to", { exact: true }).selectOption("GPU6");
      await page.locator(".explanation h4").waitFor();
      await openAll(page);
      assert.ok((await overflow()) <= 0);
      assert.deepEqual(await violations(page), []);
      await change(page, "GPU0.link=x16");
      await page.locator(".together").waitFor();
      assert.ok((await overflow()) <= 0);
      assert.deepEqual(await violations(page), []);
      await shot(page, `try-what-if-${width}${dark ? "-dark" : ""}`);
      await context.close();
    });
  }
}

test("what takes too long is cancelled, and the page goes on", async () => {
  const opened = await open();
  const { page, context } = opened;
  const log = join(folder, "long.log");
  const line = (at: number) => `[${at}.000000] NVRM: Xid (PCI:0000:3b:00): 79, pid=${at}, GPU has fallen off the bus.\n`;
  writeFileSync(log, Array.from({ length: 300_000 }, (_, at) => line(at)).join(""));
  await page.locator("input[type=file]:not([webkitdirectory])").setInputFiles(log);
  await page.getByRole("button", { name: "Cancel" }).click();
  await page.getByText("Cancelled.").waitFor();
  await page.getByRole("button", { name: "DGX-1" }).click();
  await page.locator("#report h1", { hasText: "dgx-1" }).waitFor();
  quiet(opened);
  await context.close();
});

test("a panic is told in its words", () => {
  const module = new Asked();
  // more than a module of 32 bits can hold
  assert.throws(() => module.ask("check", {}, [{ length: 3_000_000_000 } as Uint8Array]), (error) => error instanceof Died && error.message.includes("capacity overflow"));
});

test("a worker that dies leaves the page usable", async () => {
  const dies = `addEventListener("message", (e) => { if (e.data.line?.includes('"op":"explain"')) { e.stopImmediatePropagation(); postMessage({ id: e.data.id, died: "<b>the end</b>" }); close(); } });`;
  const copy = join(folder, "dies.html");
  writeFileSync(copy, readFileSync(PAGE, "utf8").replace('id="worker">', `id="worker">${dies}`));
  const opened = await open({}, copy);
  const { page, context } = opened;
  await example(page, "DGX-1");
  await page.getByLabel("From").selectOption("GPU0");
  await page.getByLabel("to", { exact: true }).selectOption("GPU5");
  await page.getByText("peerlane stopped at an error of its own, and the page goes on: <b>the end</b>").waitFor();
  await change(page, "GPU0.link=x8");
  await page.locator(".together").waitFor();
  quiet(opened);
  await context.close();
});

test("a record between nodes, and records of a fleet, have their pages in a frame", async () => {
  const opened = await open();
  const { page, context } = opened;
  await drop(page, [["run.json", readFileSync(join(web, "..", "examples", "nodes", "run.json"), "utf8")]]);
  const frame = page.frameLocator("iframe.page");
  await frame.locator("h1").waitFor();
  assert.match((await frame.locator("body").textContent()) ?? "", /node5/);
  await page.getByRole("button", { name: "New input" }).click();
  await page.locator("input[webkitdirectory]").setInputFiles(join(web, "..", "examples", "fleet"));
  await frame.locator("h1", { hasText: "6 machines" }).or(frame.getByText("node4").first()).first().waitFor();
  assert.equal(await page.locator("#what-if").isVisible(), false);
  quiet(opened);
  await context.close();
});

test("hostile inputs are text, and leave the page usable", async () => {
  const opened = await open();
  const { page, context } = opened;
  const fixtures = join(web, "tests", "fixtures");
  const files = existsSync(join(SHARED, "hostile")) ? below(join(SHARED, "hostile")).filter((path) => !path.endsWith("README.md")) : [];
  for (const path of [join(fixtures, "hostile.toml"), ...files]) {
    await page.locator("input[type=file]:not([webkitdirectory])").setInputFiles(path);
    await page.locator("#report h1, .told .refused").first().waitFor({ timeout: 60_000 });
    await openAll(page);
    const found = await page.evaluate(() => ({
      pwned: (window as unknown as { pwned?: unknown }).pwned ?? null,
      scripts: document.scripts.length,
      styles: document.querySelectorAll("style, link").length,
      foreign: document.querySelectorAll("img, iframe:not(.page), object, embed, base, foreignObject, use, animate").length,
      links: [...document.querySelectorAll("a")].filter((a) => !a.getAttribute("href")?.startsWith("#")).length,
      handlers: [...document.querySelectorAll("*")].filter((e) => e.getAttributeNames().some((n) => n.startsWith("on"))).length,
    }));
    assert.deepEqual(found, { pwned: null, scripts: 4, styles: 1, foreign: 0, links: 0, handlers: 0 }, path);
    if (await page.locator("details.input").getAttribute("open") === null) await page.getByRole("button", { name: "New input" }).click();
    else if ((await page.locator(".given li").count()) > 0) await page.locator(".given button").first().click();
  }
  // names of files, pasted text and links, too
  await drop(page, [["hostile.toml", readFileSync(join(fixtures, "hostile.toml"), "utf8")]]);
  await heading(page).waitFor();
  await page.getByRole("button", { name: "Link to the design" }).click();
  await page.getByLabel("Link", { exact: true }).waitFor();
  const link = await page.getByLabel("Link", { exact: true }).inputValue();
  await page.goto("about:blank");
  await page.goto(link);
  await heading(page).waitFor();
  assert.equal(await page.evaluate(() => (window as unknown as { pwned?: unknown }).pwned ?? null), null);
  const evil = `"><img src=x onerror=window.pwned=1>`;
  await drop(page, [[`${evil}.txt`, `${evil}\n${readFileSync(join(slowNode, "topo.txt"), "utf8")}`]]);
  await heading(page).waitFor();
  await change(page, evil);
  assert.equal(await page.evaluate(() => (window as unknown as { pwned?: unknown }).pwned ?? null), null);
  await page.getByRole("button", { name: "New input" }).click();
  await example(page, "A slow node of eight H200");
  quiet(opened);
  await context.close();
});

test("the policy refuses what the page did not bring", async () => {
  const { page, context } = await open();
  const outcome = await page.evaluate(async () => {
    const refused: string[] = [];
    try {
      document.body.insertAdjacentHTML("beforeend", "<img src=x onerror=window.pwned=1>");
    } catch {
      refused.push("markup");
    }
    await fetch("https://example.invalid/").catch(() => refused.push("fetch"));
    try {
      new Worker("https://example.invalid/worker.js");
    } catch {
      refused.push("worker");
    }
    return { refused, pwned: (window as unknown as { pwned?: number }).pwned ?? null };
  });
  assert.deepEqual(outcome, { refused: ["markup", "fetch", "worker"], pwned: null });
  await context.close();
});
