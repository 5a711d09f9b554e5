// Pictures of the pages and drawings for the documentation: `scripts/pictures.sh` makes them again.

import { execFileSync } from "node:child_process";
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { filled, fleet } from "./fleets";
import { Chromium, compare, folder, peerlane, report, web } from "./harness";

const [, , to = join(web, "..", "docs", "pictures")] = process.argv;

/** A node of eight H200, in which a third of one GPU's NVLinks are down, measured. */
function node(): string {
  const system = join(folder, "node.toml");
  const fault = '[[faults]]\nlink = ["GPU3", "nvswitch"]\nnvlink = 12\n';
  writeFileSync(system, `${peerlane("map", "hgx-h200", "--format", "system")}\n${fault}`);
  const run = join(folder, "node.json");
  peerlane("measure", system, "-o", run);
  return report("node", run);
}

/** A drawing, on a page of its own for the browser. */
function svg(name: string, ...target: string[]): string {
  const file = join(folder, `${name}.svg.html`);
  const drawing = peerlane("map", ...target, "--format", "svg");
  writeFileSync(file, `<!doctype html><meta charset="utf-8"><meta name="color-scheme" content="light dark"><body style="margin:12px">${drawing}`);
  return file;
}

/** Width, height, and whether the page is dark. */
type Size = [number, number, boolean];
const WIDE: Size = [1400, 1000, false];
const DARK: Size = [1400, 1000, true];
const NARROW: Size = [400, 1400, false];

const PICTURES: [string, () => string, Size[]][] = [
  ["report", node, [WIDE, DARK, NARROW]],
  ["report-risers", () => report("7gforce", "7gforce"), [WIDE, NARROW]],
  ["compare", () => compare("designs", "hgx-h200", "dgx-a100", "exxact-devbox"), [WIDE, DARK, NARROW]],
  ["fleet", () => filled("fleet", fleet(300)), [WIDE, DARK, NARROW]],
  ["drawing-topo", () => svg("topo", join(web, "tests", "fixtures", "topo-a100.txt")), [[1200, 820, false], [1200, 820, true]]],
  ["drawing-risers", () => svg("risers", "7gforce"), [[920, 400, false], [920, 400, true]]],
];

const browser = new Chromium();
await browser.start();
try {
  mkdirSync(to, { recursive: true });
  for (const [name, write, sizes] of PICTURES) {
    const file = write();
    for (const [width, height, dark] of sizes) {
      const { page, context } = await browser.open(file, { width, dark });
      await page.setViewportSize({ width, height });
      const png = join(folder, "picture.png");
      await page.screenshot({ path: png });
      const picture = join(to, `${name}-${width}${dark ? "-dark" : ""}.webp`);
      execFileSync("cwebp", ["-quiet", "-q", "80", "-m", "6", png, "-o", picture]);
      await context.close();
    }
  }
} finally {
  await browser.stop();
}
