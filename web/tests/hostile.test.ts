// Names from captures, files and records are text, whatever they look like.

import assert from "node:assert/strict";
import { copyFileSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { filled, fleet } from "./fleets";
import { Chromium, compare, folder, openAll, peerlane, report, unsealed, web, type Opened } from "./harness";

const browser = new Chromium();
const FILE = `"><img src=x onerror=window.pwned=8><script>window.pwned=9<`;

before(() => browser.start());
after(() => browser.stop());

/** Nothing ran, nothing was asked for, and no element came out of text. Scripts are the data, the licences, the program. */
async function unharmed({ page, complaints, requests }: Opened, scripts = 3): Promise<void> {
  await openAll(page);
  for (const cell of (await page.locator("td.cell").all()).slice(0, 8)) await cell.click();
  for (const box of await page.locator(".box").all()) await box.dispatchEvent("click");
  for (const wire of await page.locator(".wire").all()) await wire.dispatchEvent("click");
  const found = await page.evaluate(() => ({
    pwned: (window as unknown as { pwned?: unknown }).pwned ?? null,
    scripts: document.scripts.length,
    styles: document.querySelectorAll("style, link").length,
    foreign: document.querySelectorAll("img, iframe, object, embed, form, base, foreignObject, use, animate").length,
    links: [...document.querySelectorAll("a")].filter((a) => !a.getAttribute("href")?.startsWith("#")).length,
    handlers: [...document.querySelectorAll("*")].filter((e) => e.getAttributeNames().some((n) => n.startsWith("on"))).length,
  }));
  assert.deepEqual(found, { pwned: null, scripts, styles: 1, foreign: 0, links: 0, handlers: 0 });
  assert.deepEqual({ complaints, requests }, { complaints: [], requests: [] });
}

test("a hostile system file", async () => {
  const file = join(folder, `${FILE}.toml`);
  copyFileSync(join(web, "tests", "fixtures", "hostile.toml"), file);
  const opened = await browser.open(report("hostile", file));
  await unharmed(opened);
  // shown as they are, not dropped
  const text = (await opened.page.locator("body").textContent()) ?? "";
  for (const part of ["<img src=x onerror=window.pwned=2>", '<script>window.pwned="title"</script>', "${window.pwned=1}"]) {
    assert.ok(text.includes(part), part);
  }
  assert.match(await opened.page.title(), /^<\/title><script>window\.pwned="name"<\/script>/);
  await opened.context.close();
});

test("a hostile system file beside another", async () => {
  const file = join(folder, `${FILE}-beside.toml`);
  copyFileSync(join(web, "tests", "fixtures", "hostile.toml"), file);
  const opened = await browser.open(compare("hostile", file, "7gforce"));
  await unharmed(opened);
  const text = (await opened.page.locator("body").textContent()) ?? "";
  assert.ok(text.includes('<script>window.pwned="title"</script>'));
  await opened.context.close();
});

test("a hostile capture", async () => {
  const file = join(folder, "capture.txt");
  const topo = readFileSync(join(web, "tests", "fixtures", "topo-nics.txt"), "utf8");
  writeFileSync(file, topo.replace("NIC0: mlx5_0", "NIC0: </script><script>window.pwned=1</script>"));
  const opened = await browser.open(report("hostile-capture", file));
  await unharmed(opened);
  await opened.context.close();
});

test("a hostile record", async () => {
  const file = join(folder, "run.json");
  const record = unsealed(file);
  const evil = "</script><img src=x onerror=window.pwned=1>";
  record.machine.system = record.machine.system.replace(/^title .*$/m, `title = '${evil}'`);
  record.conditions.driver = evil;
  record.conditions.notes = [evil, "\u2028\u2029"];
  for (const cell of record.cells) cell.flags = [{ kind: "outliers", detail: evil }];
  writeFileSync(file, JSON.stringify(record));
  const opened = await browser.open(report("hostile-record", file));
  await unharmed(opened);
  await opened.context.close();
});

/** Opens all that a fleet's page shows of machines and outliers. */
async function openFleet({ page }: Opened): Promise<void> {
  for (const toggle of await page.locator("tr.outlier button[aria-expanded]").all()) await toggle.click();
  for (const machine of (await page.locator("tr.outlier button.machine").all()).slice(0, 3)) {
    await machine.click();
    await page.keyboard.press("Escape");
  }
  await page.getByRole("button", { name: "By name" }).click();
  await page.locator(".map-scroll").focus();
  for (const key of ["ArrowDown", "ArrowRight", "Enter"]) await page.keyboard.press(key);
  await page.getByRole("searchbox").fill("<img src=x onerror=window.pwned=1>");
}

test("a hostile fleet: every text of its document", async () => {
  const evil = (at: string) => `</script><img src=x onerror=window.pwned='${at}'>\u2028{{SCRIPT}}`;
  const document = fleet(40);
  document.kinds.forEach((kind) => {
    kind.name = evil("kind");
    kind.shared = [{ rule: evil("shared"), summary: evil("shared"), machines: 1 }];
  });
  document.tests.forEach((of) => Object.assign(of, { name: evil("test"), family: evil("family") }));
  document.machines.forEach((of, at) => Object.assign(of, { name: evil(`machine ${at}`), first: evil("first"), last: evil("last") }));
  for (const of of document.outliers) {
    for (const key of ["part", "rule", "summary", "why", "fix", "file"] as const) of[key] = `${evil(key)} \`${evil(key)}\``;
  }
  document.notes = [evil("note")];
  document.unread = [{ name: evil("unread"), why: evil("why") }];
  const opened = await browser.open(filled("hostile", document));
  await openFleet(opened);
  await unharmed(opened, 2);
  const text = (await opened.page.locator("body").textContent()) ?? "";
  for (const part of ["kind", "note", "unread", "machine 1", "summary", "why"]) assert.ok(text.includes(`window.pwned='${part}'`), part);
  await opened.context.close();
});

test("a hostile fleet of records", async () => {
  const file = join(folder, "of-fleet.json");
  const record = unsealed(file);
  const evil = "</script><img src=x onerror=window.pwned=1>";
  record.machine.system = record.machine.system.replace(/^title .*$/m, `title = '${evil}'`).replace(/^name .*$/m, `name = '${evil}'`);
  record.conditions.notes = [evil];
  const files = [1, 2, 3, 4, 5].map((at) => join(folder, `${FILE}${at}.json`));
  for (const [at, to] of files.entries()) {
    if (at === 4) for (const cell of record.cells) if (cell.value) cell.value *= 0.5;
    writeFileSync(to, JSON.stringify(record));
  }
  const page = join(folder, "hostile-records.html");
  peerlane("fleet", ...files, "--html", page);
  const opened = await browser.open(page);
  await unharmed(opened, 2);
  assert.ok(((await opened.page.locator("#data").textContent()) ?? "").includes("window.pwned"));
  await opened.context.close();
});

test("the policy refuses what the page did not bring, so that the checks above have teeth", async () => {
  const { page, context, complaints } = await browser.open(report("policy", "7gforce"));
  const failures: (string | undefined)[] = [];
  const asked = page.waitForEvent("requestfailed").then((request) => failures.push(request.failure()?.errorText));
  const outcome = await page.evaluate(() => {
    const script = document.createElement("script");
    let refused = false;
    try {
      script.text = "window.pwned = 1";
      document.body.append(script);
      document.body.insertAdjacentHTML("beforeend", "<img src=x onerror=window.pwned=1>");
    } catch {
      refused = true;
    }
    const image = document.createElement("img");
    image.src = "https://example.invalid/x.png";
    document.body.append(image);
    return { refused, pwned: (window as unknown as { pwned?: number }).pwned ?? null };
  });
  assert.deepEqual(outcome, { refused: true, pwned: null });
  await asked;
  assert.deepEqual(failures, ["csp"]);
  assert.ok(complaints.some((c) => c.includes("Content Security Policy")));
  await context.close();
});
