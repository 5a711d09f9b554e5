// Numbers by message size, on logarithmic axes, with a fitted model.

import { extent } from "d3-array";
import { axisBottom, axisLeft } from "d3-axis";
import { scaleLog } from "d3-scale";
import { select } from "d3-selection";
import { line, symbol, symbolCircle, symbolCross, symbolDiamond, symbolSquare, symbolStar, symbolTriangle } from "d3-shape";
import type { Chart, CurveView, MachineReport } from "./document";
import { h, s } from "./dom";
import { bytes, micro, number, percent, unit } from "./format";
import { from } from "./panel";

const WIDTH = 640;
const HEIGHT = 360;
const EDGE = { left: 58, right: 12, top: 12, bottom: 40 };

/** Curves differ by symbol as well as by colour. */
const SYMBOLS = [symbolCircle, symbolSquare, symbolTriangle, symbolDiamond, symbolCross, symbolStar];

/** Number of colours; further curves repeat them with other symbols. */
const COLOURS = 7;

/** A chart with its legend, the fitted values and all numbers. */
export function chartView(machine: MachineReport, chart: Chart): HTMLElement {
  const fitted = chart.curves.some((curve) => curve.fit);
  return h(
    "section",
    { class: "block chart" },
    h("h3", {}, micro(chart.what)),
    plotted(chart),
    fitted && h("p", { class: "hint" }, "Dashed: the model time = max(t₁, t₀ + size ÷ r∞), fitted to the points; n½ is the size that reaches half of r∞."),
    h("details", { class: "screen" }, h("summary", {}, "All numbers"), table(chart)),
    from(machine, chart.sources),
  );
}

/** The curves with their legend, always open. */
export function plotted(chart: Chart): HTMLElement {
  return h("figure", {}, drawn(chart), legend(chart));
}

function drawn(chart: Chart): SVGSVGElement {
  const points = chart.curves.flatMap((curve) => curve.points).filter((p) => p.value > 0 && p.size > 0);
  const [least = 1, most = 2] = extent(points, (p) => p.size);
  const [low = 1, high = 2] = extent(points, (p) => p.value);
  const x = scaleLog().base(2).domain([least, Math.max(most, 2 * least)]).range([EDGE.left, WIDTH - EDGE.right]);
  const y = scaleLog().domain([low * 0.8, high * 1.25]).range([HEIGHT - EDGE.bottom, EDGE.top]);
  const root = s("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, class: "plot", role: "img", "aria-label": `${chart.what}; the numbers are in the table below` });
  const svg = select(root);
  const powers = Math.round(Math.log2(most / least));
  const ticks = x.ticks(Math.min(powers, 10)).filter((_, i, all) => i % Math.max(1, Math.ceil(all.length / 9)) === 0);
  svg
    .append("g")
    .attr("class", "axis")
    .attr("transform", `translate(0 ${HEIGHT - EDGE.bottom})`)
    .call(axisBottom(x).tickValues(ticks).tickFormat((size) => bytes(Number(size))));
  svg
    .append("g")
    .attr("class", "axis grid")
    .attr("transform", `translate(${EDGE.left} 0)`)
    .call(axisLeft(y).ticks(5, (value: number) => String(Number(value.toPrecision(3)))).tickSizeInner(-(WIDTH - EDGE.left - EDGE.right)));
  svg.append("text").attr("class", "label").attr("x", WIDTH - EDGE.right).attr("y", HEIGHT - 6).attr("text-anchor", "end").text("message size");
  svg.append("text").attr("class", "label").attr("transform", `translate(14 ${EDGE.top + 4}) rotate(-90)`).attr("text-anchor", "end").text(unit(chart.unit));
  chart.curves.forEach((curve, i) => {
    const group = svg.append("g").attr("class", `curve colour-${i % COLOURS}`);
    const valid = curve.points.filter((p) => p.value > 0 && p.size > 0);
    if (curve.fit) {
      const values = curve.fit.values;
      const fitted = curve.points.map((p, at): [number, number] => [p.size, values[at] ?? NaN]).filter(([size, v]) => size > 0 && v > 0);
      const path = line<[number, number]>().x(([size]) => x(size)).y(([, value]) => y(value));
      group.append("path").attr("class", "fitted").attr("d", path(fitted) ?? "");
    }
    const path = line<CurveView["points"][number]>().x((p) => x(p.size)).y((p) => y(p.value));
    group.append("path").attr("class", "course").attr("d", path(valid) ?? "");
    group
      .selectAll("path.spread")
      .data(valid.filter((p) => (p.low ?? 0) > 0 && (p.high ?? 0) > 0))
      .join("path")
      .attr("class", "spread")
      .attr("d", (p) => `M${x(p.size)} ${y(p.low ?? p.value)} V${y(p.high ?? p.value)}`);
    group
      .selectAll("path.point")
      .data(valid)
      .join("path")
      .attr("class", "point")
      .attr("transform", (p) => `translate(${x(p.size)} ${y(p.value)})`)
      .attr("d", symbol(SYMBOLS[i % SYMBOLS.length], 26)() ?? "")
      .append("title")
      .text((p) => `${curve.name}, ${bytes(p.size)}: ${number(p.value)} ${unit(chart.unit)}`);
  });
  return root;
}

function legend(chart: Chart): HTMLElement {
  const tolerance = chart.curves.find((curve) => curve.fit)?.fit?.tolerance;
  const rows = chart.curves.map((curve, i) => {
    const sample = s("svg", { viewBox: "-6 -6 12 12", class: "sample point-sample", "aria-hidden": "true" });
    const form = s("path", { class: "point", d: symbol(SYMBOLS[i % SYMBOLS.length], 40)() ?? "" });
    sample.append(s("g", { class: `curve colour-${i % COLOURS}` }, form));
    const name = h("th", { scope: "row" }, sample, curve.name);
    if (tolerance === undefined) return h("tr", {}, name);
    const fit = curve.fit;
    const cells = fit ? [number(fit.least_us), number(fit.startup_us), number(fit.rate), bytes(fit.half_size)] : ["", "", "", ""];
    const misfits = fit && fit.misfits.length > 0 ? fit.misfits.map(bytes).join(", ") : "–";
    return h("tr", {}, name, ...cells.map((text) => h("td", { class: "number" }, text)), h("td", {}, fit ? misfits : ""));
  });
  const heads: [string, string | null][] = [["curve", null]];
  if (tolerance !== undefined) {
    heads.push(["t₁, µs", "number"], ["t₀, µs", "number"], ["r∞, GB/s", "number"], ["n½", "number"], [`off by more than ${percent(tolerance)} at`, null]);
  }
  return h(
    "div",
    { class: "scroll", tabindex: 0, role: "group", "aria-label": "Legend and fitted values" },
    h(
      "table",
      { class: "fits" },
      h("thead", {}, h("tr", {}, ...heads.map(([t, kind]) => h("th", { scope: "col", class: kind }, t)))),
      h("tbody", {}, ...rows),
    ),
  );
}

function table(chart: Chart): HTMLElement {
  const sizes = [...new Set(chart.curves.flatMap((c) => c.points.map((p) => p.size)))].sort((a, b) => a - b);
  const at = (curve: CurveView, size: number) => {
    const point = curve.points.find((p) => p.size === size);
    return point ? number(point.value) : "";
  };
  return h(
    "div",
    { class: "scroll", tabindex: 0, role: "group", "aria-label": `Numbers of ${chart.what}` },
    h(
      "table",
      {},
      h("caption", {}, micro(chart.what)),
      h("thead", {}, h("tr", {}, h("th", { scope: "col" }, "size"), ...chart.curves.map((c) => h("th", { scope: "col", class: "number" }, c.name)))),
      h("tbody", {}, ...sizes.map((size) => h("tr", {}, h("th", { scope: "row" }, bytes(size)), ...chart.curves.map((c) => h("td", { class: "number" }, at(c, size)))))),
    ),
  );
}
