// Pages as the program writes them, in a real Chromium.

import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import type { MachineReport, ReportDocument } from "../src/document";
import { chromium, type Browser, type BrowserContext, type Page } from "playwright-core";

/** The folder `web/`, from which the tests run. */
export const web = process.cwd();

/** The program; PEERLANE names another one. */
export const program =
  process.env["PEERLANE"] ??
  ["release", "debug"].map((kind) => join(web, "..", "target", kind, "peerlane")).find(existsSync) ??
  "peerlane";

/** The browser; CHROMIUM names another one. */
const executablePath = process.env["CHROMIUM"] ?? ["/usr/bin/chromium", "/usr/bin/chromium-browser"].find(existsSync);

/** A folder for the files of one test run. */
export const folder = mkdtempSync(join(tmpdir(), "peerlane-report-"));

/** Runs the program; its standard output. Exit status 1 is an answer, too. */
export function peerlane(...args: string[]): string {
  try {
    return execFileSync(program, args, { encoding: "utf8", stdio: ["ignore", "pipe", "pipe"], maxBuffer: 1 << 28 });
  } catch (error) {
    const { status, stdout } = error as { status?: number; stdout?: string };
    // 1: a fault was found; 2: some steps have no value, as where a node was lost
    if ((status === 1 || (status === 2 && args[0] === "measure")) && stdout !== undefined) return stdout;
    throw error;
  }
}

/** Measures the simulated machine; the record without its checksum, so that a test may change it. */
export function unsealed(file: string): any {
  peerlane("measure", "h200x4-vm", "--quick", "-o", file);
  const { checksum, ...record } = JSON.parse(readFileSync(file, "utf8"));
  assert.match(checksum, /^fnv64:[0-9a-f]{16}$/);
  return record;
}

/** Writes the report of some targets. */
export function report(name: string, ...targets: string[]): string {
  const file = join(folder, `${name}.html`);
  peerlane("report", ...targets, "-o", file);
  return file;
}

/** Writes machines side by side. */
export function compare(name: string, ...targets: string[]): string {
  const file = join(folder, `${name}.compared.html`);
  peerlane("compare", ...targets, "--html", file);
  return file;
}

/** A page that is open, with whatever it did that it should not. */
export interface Opened {
  page: Page;
  context: BrowserContext;
  /** Errors and messages of the console. */
  complaints: string[];
  /** Addresses that it asked for, its own left out. */
  requests: string[];
}

/** How a page is looked at. */
export interface Look {
  width?: number;
  dark?: boolean;
  /** Lets a test add scripts of its own, such as axe. */
  open?: boolean;
}

export class Chromium {
  #browser: Browser | undefined;

  async start(): Promise<void> {
    if (!executablePath) throw new Error("no Chromium: apt-get install chromium, or name one in CHROMIUM");
    // as root, as in a container of CI, Chromium has no sandbox
    this.#browser = await chromium.launch({ executablePath, args: ["--no-sandbox"] });
  }

  async stop(): Promise<void> {
    await this.#browser?.close();
    rmSync(folder, { recursive: true, force: true });
  }

  async open(file: string, { width = 1600, dark = false, open = false }: Look = {}): Promise<Opened> {
    if (!this.#browser) throw new Error("not started");
    const context = await this.#browser.newContext({
      viewport: { width, height: 900 },
      colorScheme: dark ? "dark" : "light",
      bypassCSP: open,
      acceptDownloads: true,
    });
    const page = await context.newPage();
    const [complaints, requests]: [string[], string[]] = [[], []];
    page.on("console", (message) => complaints.push(`${message.type()}: ${message.text()}`));
    page.on("pageerror", (error) => complaints.push(`error: ${error.message}`));
    page.on("dialog", (dialog) => {
      complaints.push(`dialog: ${dialog.message()}`);
      void dialog.dismiss();
    });
    const own = pathToFileURL(file).href;
    context.on("request", (request) => {
      if (request.url() !== own) requests.push(request.url());
    });
    await page.goto(own);
    return { page, context, complaints, requests };
  }
}

/** Keeps a picture where PEERLANE_SHOTS names a folder, for people to look at. */
export async function shot(page: Page, name: string): Promise<void> {
  const to = process.env["PEERLANE_SHOTS"];
  if (!to) return;
  mkdirSync(to, { recursive: true });
  await page.screenshot({ path: join(to, `${name}.png`), fullPage: true });
}

/** The document inside a page. */
export async function documentOf(page: Page): Promise<ReportDocument> {
  return JSON.parse((await page.locator("#data").textContent()) ?? "") as ReportDocument;
}

/** The first machine of it. */
export async function machineOf(page: Page): Promise<MachineReport> {
  const [machine] = (await documentOf(page)).machines;
  if (!machine) throw new Error("the document has no machine");
  return machine;
}

/** Opens all that is closed. */
export async function openAll(page: Page): Promise<void> {
  await page.locator("details").evaluateAll((all) => {
    for (const details of all) (details as HTMLDetailsElement).open = true;
  });
  await page.locator(".block").evaluateAll((all) => {
    for (const block of all) block.classList.remove("aside");
  });
}

const axe = createRequire(join(web, "package.json")).resolve("axe-core");

/** What axe finds wrong, by rule and place. */
export async function violations(page: Page): Promise<string[]> {
  await page.addScriptTag({ path: axe });
  return page.evaluate(async () => {
    const tool = (window as unknown as { axe: { run(options: object): Promise<{ violations: { id: string; nodes: { html: string; failureSummary?: string }[] }[] }> } }).axe;
    const { violations } = await tool.run({ resultTypes: ["violations"] });
    return violations.flatMap((v) => v.nodes.slice(0, 3).map((n) => `${v.id}: ${n.html.slice(0, 160)} ${n.failureSummary ?? ""}`));
  });
}
