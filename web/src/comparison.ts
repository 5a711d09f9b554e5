// Machines side by side: a table and charts, each machine's drawing, bars per figure, heat maps on one scale, the conclusion.

import { extent } from "d3-array";
import { scaleLinear } from "d3-scale";
import { plotted } from "./charts";
import type { ComparisonView, FigureView, MachineReport, ReportDocument, SharedMap } from "./document";
import { button, h, type Child } from "./dom";
import { drawing } from "./drawing";
import { micro, number, span, unit, VERDICT } from "./format";
import { grid } from "./grid";
import { compared, most, own, described } from "./matrix";
import { State } from "./state";

/** Opens a machine's report, at a cell where one is given. */
export type Open = (machine: number, cell?: { matrix: number; row: number; col: number }) => void;

/** The parts of the page: id, title, content. */
export function together(report: ReportDocument, view: ComparisonView, open: Open): [string, string, Child[]][] {
  const { machines } = report;
  const states = machines.map((machine) => new State(machine));
  // a single bar shows nothing
  const several = (f: FigureView) => f.better !== "neither" && f.values.filter((value) => value).length > 1;
  const drawn = view.figures.filter(several);
  const measured = view.figures.some((f) => f.values.some((value) => value?.measured));
  const charts = [byClass(machines, view), allReduce(view)];
  return [
    ["overview", "At a glance", [h("div", { class: charts.some(Boolean) ? "glance" : null }, figureTable(machines, view.figures), h("div", {}, ...charts))]],
    ["machines", "Machines", [h("div", { class: "cards" }, ...states.map((state, at) => card(state, at, open)))]],
    [
      "figures",
      "Figures",
      [
        h("p", { class: "hint" }, "Predicted GB/s by copy engines (rings: by kernels), unless a figure names another unit. ", measured && h("span", { class: "measured-sample", "aria-hidden": "true" }), measured && " measured or published."),
        h("div", { class: "figures" }, ...drawn.map((figure) => bars(machines, figure))),
      ],
    ],
    ["maps", "Heat maps on one scale", view.maps.map((map) => maps(states, map, open))],
    ["conclusion", "Conclusion in words", [view.conclusion.length > 0 && h("ul", {}, ...view.conclusion.map((text) => h("li", {}, text)))]],
  ];
}

/** A machine's drawing with its verdict. */
function card(state: State, at: number, open: Open): HTMLElement {
  const { machine } = state;
  const picture = drawing(state);
  // the drawing is interactive only on the machine's own page
  picture.inert = true;
  return h(
    "section",
    { class: "card", "aria-label": machine.name },
    h("h3", {}, machine.name),
    h("p", { class: "hint" }, machine.title ?? ""),
    h("p", {}, h("strong", { class: `badge ${machine.verdict}` }, VERDICT[machine.verdict]), ` ${machine.summary}`),
    h("p", { class: "hint" }, machine.inventory),
    picture,
    h("p", { class: "actions" }, button("Open report", () => open(at), { "aria-label": `Open report: ${machine.name}` })),
  );
}

/** Values within this share of the best count as best. */
const NEAR_BEST = 0.05;

/** Which values of a figure are best; none if all are alike. */
function best({ better, values }: FigureView): boolean[] {
  const known = values.flatMap((value) => (value ? [value.value] : []));
  const top = better === "less" ? Math.min(...known) : Math.max(...known);
  const near = values.map((value) => !!value && Math.abs(value.value - top) <= NEAR_BEST * Math.abs(top));
  const some = better !== "neither" && known.length > 1 && near.filter(Boolean).length < known.length;
  return near.map((is) => some && is);
}

/** All figures: rows of the table, the best in bold. */
function figureTable(machines: MachineReport[], figures: FigureView[]): HTMLElement {
  const head = h("tr", {}, h("th", { scope: "col" }, "GB/s, unless the row names a unit"), ...machines.map((m) => h("th", { scope: "col", class: "number" }, m.name)));
  const rows = figures.map((figure) => {
    const top = best(figure);
    const cells = figure.values.map((value, at) => {
      const text = value?.text ?? "–";
      const measured = value?.measured && h("span", { class: "hint" }, ` ${value.measured.obtained} ${value.measured.text}`);
      return h("td", { class: "number" }, top[at] ? h("strong", {}, text) : text, measured);
    });
    return h("tr", {}, h("th", { scope: "row" }, micro(figure.what)), ...cells);
  });
  return h(
    "div",
    { class: "scroll", tabindex: 0, role: "group", "aria-label": "Figures" },
    h("table", { class: "facts overview" }, h("caption", {}, "Predicted. Bold: the best, and what is within 5 % of it."), h("thead", {}, head), h("tbody", {}, ...rows)),
  );
}

/** Rates of one GPU to another by the class of their path: a bar for each machine, from the lowest to the highest. */
function byClass(machines: MachineReport[], view: ComparisonView): HTMLElement | null {
  const map = view.maps.find(({ what }) => what === "one GPU to another, one way");
  if (!map) return null;
  const found = new Map<string, [number, number][]>();
  machines.forEach((machine, at) => {
    const of = map.of[at];
    const matrix = of ? machine.matrices[of.matrix] : undefined;
    const { classes } = machine;
    if (!of || !matrix || !classes) return;
    const place = new Map(classes.names.map((name, i) => [name, i]));
    const rates = new Map<string, number[]>();
    matrix.rows.forEach((from, row) =>
      matrix.cols.forEach((to, col) => {
        const label = classes.values[place.get(from) ?? -1]?.[place.get(to) ?? -1];
        const rate = matrix.expected[row]?.[col] ?? matrix.measured[row]?.[col] ?? null;
        if (from !== to && label && rate !== null) rates.set(label, [...(rates.get(label) ?? []), rate * of.factor]);
      }),
    );
    for (const [label, all] of rates) {
      const [low, high] = extent(all);
      const ranges = found.get(label) ?? [];
      if (low !== undefined && high !== undefined) ranges[at] = [low, high];
      found.set(label, ranges);
    }
  });
  if (found.size === 0) return null;
  const meanings = machines.flatMap((machine) => machine.classes?.meanings ?? []);
  const scale = scaleLinear().domain([0, Math.max(...[...found.values()].flatMap((ranges) => ranges.flatMap((range) => range ?? [])))]).range([0, 100]);
  const tables = [...found].map(([label, ranges]) => {
    const rows = machines.flatMap((machine, at) => {
      const range = ranges[at];
      if (!range) return [];
      const bar = h("span", { class: "bar" });
      bar.style.setProperty("--at", `${scale(range[0]).toFixed(2)}%`);
      const reach = h("span", { class: "reach" });
      reach.style.setProperty("--at", `${scale(range[1]).toFixed(2)}%`);
      const track = h("div", { class: "track", "aria-hidden": "true" }, reach, bar);
      return [h("tr", {}, h("th", { scope: "row" }, machine.name), h("td", { class: "strip" }, track), h("td", { class: "number" }, span(...range)))];
    });
    const meaning = meanings.find((m) => m.label === label)?.text;
    return h("table", {}, h("caption", {}, label, meaning && h("span", { class: "hint" }, ` ${meaning}`)), h("tbody", {}, ...rows));
  });
  return h("section", { class: "by-class" }, h("h3", {}, `One GPU to another by path class, ${unit(map.unit)}`), ...tables);
}

/** All-reduce by message size, a curve for each machine. */
function allReduce({ all_reduce: chart }: ComparisonView): HTMLElement | null {
  return chart ? h("section", {}, h("h3", {}, `${chart.what}, ${unit(chart.unit)}`), plotted(chart)) : null;
}

/** One figure, one bar per machine. */
function bars(machines: MachineReport[], figure: FigureView): HTMLElement {
  const all = figure.values.flatMap((value) => (value ? [value.value, value.measured?.high ?? 0] : []));
  const scale = scaleLinear()
    .domain([0, Math.max(...all, Number.MIN_VALUE)])
    .range([0, 100])
    .clamp(true);
  const share = (value: number) => `${scale(value).toFixed(2)}%`;
  const rows = machines.map((machine, at) => {
    const value = figure.values[at];
    const track = h("div", { class: "track", "aria-hidden": "true" });
    if (value) {
      const bar = h("span", { class: "bar" });
      bar.style.setProperty("--at", share(value.value));
      track.append(bar);
    }
    if (value?.measured) {
      const mark = h("span", { class: "measured-mark" });
      mark.style.setProperty("--low", share(value.measured.low));
      mark.style.setProperty("--span", `${(scale(value.measured.high) - scale(value.measured.low)).toFixed(2)}%`);
      track.append(mark);
    }
    const measured = value?.measured && h("span", { class: "hint" }, `${value.measured.text} ${value.measured.obtained}`);
    return h("tr", {}, h("th", { scope: "row" }, machine.name), h("td", { class: "strip" }, track, measured), h("td", { class: "number" }, value?.text ?? "–"));
  });
  const reasons = machines.flatMap((machine, at) => {
    const value = figure.values[at];
    const words = [value?.about, value?.bound && `bound by ${value.bound}`].filter(Boolean).join("; ");
    return words === "" ? [] : [h("li", {}, h("strong", {}, machine.name), `: ${words}`)];
  });
  return h(
    "div",
    { class: "figure" },
    h("table", {}, h("caption", {}, micro(figure.what), figure.better === "less" && h("span", { class: "hint" }, " (lower is better)")), h("tbody", {}, ...rows)),
    reasons.length > 0 && h("details", { class: "plain" }, h("summary", {}, "Details"), h("ul", {}, ...reasons)),
  );
}

/** The same matrix of several machines, on one colour scale. */
function maps(states: State[], map: SharedMap, open: Open): HTMLElement {
  const shown = unit(map.unit);
  const parts = states.map((state, at) => {
    const of = map.of[at];
    const matrix = of ? state.machine.matrices[of.matrix] : undefined;
    return of && matrix ? { state, at, of, matrix } : null;
  });
  const highest = Math.max(...parts.map((part) => (part ? most(part.matrix) * part.of.factor : 0)), Number.MIN_VALUE);
  const scale = scaleLinear().domain([0, highest]).range([0, 1]).clamp(true);
  const readout = h("output", { class: "readout" }, READ);
  const link = h("p", { class: "actions" });
  const marks: ((at: number, row: number, col: number) => void)[] = [];
  const blocks = parts.map((part) => {
    if (!part) return null;
    const { state, at, of, matrix } = part;
    const { machine } = state;
    const name = (row: number, col: number) => `${matrix.rows[row] ?? ""} → ${matrix.cols[col] ?? ""}`;
    const point = (row: number, col: number) => {
      readout.textContent = `${machine.name}, ${name(row, col)}: ${described(machine, matrix, row, col).join("; ")}`;
    };
    const choose = (row: number, col: number) => {
      point(row, col);
      marks.forEach((mark) => mark(at, row, col));
      states.forEach((other) => {
        const path = matrix.paths[row]?.[col] ?? null;
        other.choose(other === state ? { kind: "path", path, title: name(row, col), lines: [] } : null);
      });
      link.replaceChildren(button(`Show ${name(row, col)} in the report of ${machine.name}`, () => open(at, { matrix: of.matrix, row, col })));
    };
    const one = (kind: string, values: (number | null)[][]): Child => {
      if (!values.flat().some((value) => value !== null)) return null;
      const made = grid({
        caption: `${machine.name}, ${kind}`,
        rows: matrix.rows,
        cols: matrix.cols,
        look: (row, col) => {
          const value = values[row]?.[col] ?? null;
          if (value === null || own(matrix, row, col)) return null;
          return { text: number(value * of.factor), ramp: "value", at: scale(value * of.factor) };
        },
        point,
        choose,
      });
      marks.push((where, row, col) => (where === at ? made.mark(row, col) : made.unmark()));
      return made.root;
    };
    const note = compared(matrix);
    return h(
      "div",
      { class: "shared" },
      h("h4", {}, machine.name),
      note && h("p", { class: "hint" }, note),
      h("div", { class: "maps" }, one("predicted", matrix.expected), one(matrix.obtained, matrix.measured)),
    );
  });
  const ramp = h("span", { class: "ramp", "aria-hidden": "true" });
  return h(
    "section",
    { class: "side" },
    h("h3", {}, `${map.what}, ${shown}`),
    h("p", { class: "hint scale" }, "0 ", ramp, ` ${number(highest)} ${shown}, same scale for all machines`),
    readout,
    link,
    h("div", { class: "sides" }, ...blocks),
  );
}

const READ = "Point at a cell, or use the arrow keys; Enter highlights its path in the machine's drawing.";
