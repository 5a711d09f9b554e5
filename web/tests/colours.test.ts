// Colours that readers with colour-blindness tell apart, and marks beside them.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { filled, fleet } from "./fleets";
import { Chromium, report } from "./harness";

const browser = new Chromium();
before(() => browser.start());
after(() => browser.stop());

type Colour = [number, number, number];

// Machado, Oliveira and Fernandes, "A Physiologically-based Model for Simulation of Color Vision Deficiency", 2009,
// severity 1.0; on linear RGB
const VISION: Record<string, number[][]> = {
  full: [[1, 0, 0], [0, 1, 0], [0, 0, 1]],
  protanopia: [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
  deuteranopia: [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.01182, 0.04294, 0.968881]],
  tritanopia: [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.3039]],
};

const linear = (c: number) => (c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4);

function seenBy(vision: string, [r, g, b]: Colour): Colour {
  const rgb = [r, g, b].map((c) => linear(c / 255));
  return (VISION[vision] ?? []).map((row) => Math.min(1, Math.max(0, row.reduce((sum, k, i) => sum + k * (rgb[i] ?? 0), 0)))) as Colour;
}

/** CIELAB of linear RGB, for D65. */
function lab([r, g, b]: Colour): Colour {
  const f = (t: number) => (t > 216 / 24389 ? Math.cbrt(t) : (24389 / 27 * t + 16) / 116);
  const x = f((0.4124 * r + 0.3576 * g + 0.1805 * b) / 0.9505);
  const y = f(0.2126 * r + 0.7152 * g + 0.0722 * b);
  const z = f((0.0193 * r + 0.1192 * g + 0.9505 * b) / 1.089);
  return [116 * y - 16, 500 * (x - y), 200 * (y - z)];
}

const distance = (a: Colour, b: Colour) => Math.hypot(a[0] - b[0], a[1] - b[1], a[2] - b[2]);

for (const dark of [false, true]) {
  test(`too low, too high and as expected differ for everyone, ${dark ? "dark" : "light"}`, async () => {
    const { page, context } = await browser.open(report("colours", "7gforce"), { dark });
    const colours = await page.evaluate(() => {
      const probe = document.createElement("i");
      document.body.append(probe);
      const of = (name: string) => {
        probe.style.setProperty("color", `var(--${name})`);
        return (getComputedStyle(probe).color.match(/[\d.]+/g) ?? []).slice(0, 3).map(Number);
      };
      return { low: of("low"), high: of("high"), none: of("page"), lit: of("lit"), tight: of("tight"), wire: of("tone-2") };
    });
    const pairs: [keyof typeof colours, keyof typeof colours][] = [
      ["low", "high"],
      ["low", "none"],
      ["high", "none"],
      ["lit", "wire"],
      ["tight", "wire"],
      ["lit", "tight"],
    ];
    for (const vision of Object.keys(VISION)) {
      for (const [a, b] of pairs) {
        const apart = distance(lab(seenBy(vision, colours[a] as Colour)), lab(seenBy(vision, colours[b] as Colour)));
        // 20 is far above what is just noticeable, which is about 2.3
        assert.ok(apart > 20, `${a} and ${b} with ${vision}: ${apart.toFixed(1)}`);
      }
    }
    await context.close();
  });
}

for (const where of ["light", "dark", "on paper"]) {
  test(`a fleet's machines below, at and above the median, and not measured, differ for everyone, ${where}`, async () => {
    const { page, context } = await browser.open(filled("colours", fleet(8)), { dark: where !== "light" });
    const colours = await page.evaluate((paper) => {
      const element = paper ? document.querySelector("canvas.paper") : document.documentElement;
      const style = getComputedStyle(element ?? document.body);
      const of = (name: string) => (style.getPropertyValue(`--${name}`).match(/[0-9a-f]{2}/gi) ?? []).map((hex) => Number.parseInt(hex, 16));
      return { low: of("low"), farLow: of("far-low"), high: of("high"), farHigh: of("far-high"), median: of("page"), absent: of("absent") };
    }, where === "on paper");
    const names = Object.keys(colours) as (keyof typeof colours)[];
    for (const vision of Object.keys(VISION)) {
      for (const [i, a] of names.entries()) {
        for (const b of names.slice(i + 1)) {
          const apart = distance(lab(seenBy(vision, colours[a] as Colour)), lab(seenBy(vision, colours[b] as Colour)));
          // what was not measured has a line across it as well
          const least = a === "absent" || b === "absent" ? 12 : 20;
          assert.ok(apart > least, `${a} and ${b} with ${vision}: ${apart.toFixed(1)}`);
        }
      }
    }
    await context.close();
  });
}

test("what is narrow or at fault carries a mark beside its colour", async () => {
  const { page, context } = await browser.open(report("marks", "7gforce"));
  assert.equal(await page.locator(".wire.narrow text").evaluateAll((all) => all.filter((t) => t.textContent?.startsWith("⚠")).length), 6);
  assert.equal(await page.locator(".box g.badge").count(), 7);
  await context.close();
});
