// Matrices of numbers: measured, expected, and their ratio.

import { extent } from "d3-array";
import { scaleLinear, scaleLog } from "d3-scale";
import type { ClassView, MachineReport, MatrixView } from "./document";
import { h, type Child } from "./dom";
import { count, micro, number, span, unit } from "./format";
import { grid, type Look } from "./grid";
import { from } from "./panel";
import type { State } from "./state";

type Numbers = (number | null)[][];

const at = (values: Numbers, row: number, col: number): number | null => values[row]?.[col] ?? null;

/** A measured number: lowest and highest, which differ if a source gives a range. */
function measured(matrix: MatrixView, row: number, col: number): [number, number] | null {
  const low = at(matrix.measured, row, col);
  return low === null ? null : [low, at(matrix.upto, row, col) ?? low];
}

/** Measured over expected, lowest and highest. */
export function ratio(matrix: MatrixView, row: number, col: number): [number, number] | null {
  const [value, expected] = [measured(matrix, row, col), at(matrix.expected, row, col)];
  return value && expected !== null && expected > 0 ? [value[0] / expected, value[1] / expected] : null;
}

/** Whether a cell is on the diagonal: a copy within one memory, which is not comparable with its neighbours. */
export const own = (matrix: MatrixView, row: number, col: number) => matrix.rows[row] === matrix.cols[col];

/** All cells of a matrix between different ends. */
function cells(matrix: MatrixView): [number, number][] {
  const all = matrix.rows.flatMap((_, row) => matrix.cols.map((__, col): [number, number] => [row, col]));
  return all.filter(([row, col]) => !own(matrix, row, col));
}

/** The largest number of a matrix, the end of its colour scale. */
export function most(matrix: MatrixView): number {
  const of = ([row, col]: [number, number]) => [at(matrix.measured, row, col), at(matrix.upto, row, col), at(matrix.expected, row, col)];
  return Math.max(...cells(matrix).flatMap(of).filter(isNumber), Number.MIN_VALUE);
}

const isNumber = (value: number | null): value is number => value !== null;

/** One matrix in a line: number of cells, range, and comparison with the expected values. */
export function summary(matrix: MatrixView): string {
  const values = cells(matrix).flatMap(([row, col]) => measured(matrix, row, col) ?? []);
  const [low, high] = extent(values);
  if (low === undefined || high === undefined) {
    const [least, most] = extent(matrix.expected.flat().filter(isNumber));
    return least === undefined || most === undefined ? "" : `expected ${span(least, most)}`;
  }
  const n = cells(matrix).filter(([row, col]) => measured(matrix, row, col)).length;
  return [`${count(n, "cell")}, ${span(low, high)}`, compared(matrix)].filter(Boolean).join("; ");
}

/** The ratio of measured to expected: `0.95–1.07 of expected`; empty if there is none. */
export function compared(matrix: MatrixView): string {
  const [worst, best] = extent(cells(matrix).flatMap(([row, col]) => ratio(matrix, row, col) ?? []));
  return worst === undefined || best === undefined ? "" : `${span(worst, best)} of expected`;
}

/** `9.65 to 10.66`: the bounds of an expected value; empty if it has none. */
function range(matrix: MatrixView, row: number, col: number): string {
  const [least, most] = [at(matrix.least, row, col), at(matrix.most, row, col)];
  return least === null || most === null || number(least) === number(most) ? "" : `${number(least)} to ${number(most)}`;
}

/** A cell in words: numbers with their precision, and remarks. */
function lines(machine: MachineReport, matrix: MatrixView, row: number, col: number): string[] {
  const shown = unit(matrix.unit);
  const value = measured(matrix, row, col);
  const expected = at(matrix.expected, row, col);
  const over = ratio(matrix, row, col);
  const spread = matrix.spread[row]?.[col];
  const words: string[] = [];
  if (value) {
    const precision = spread ? ` (n ${spread.n}, 95 % interval ${number(spread.low)} to ${number(spread.high)})` : "";
    words.push(`${matrix.obtained} ${span(...value)} ${shown}${precision}`);
  }
  if (expected !== null) {
    const within = range(matrix, row, col);
    words.push(`expected ${number(expected)} ${shown}${within && ` (${within})`}`);
  }
  if (over) words.push(`ratio ${span(...over)}`);
  const remarks = matrix.remarks.filter((r) => r.row === row && r.col === col).map((r) => machine.words[r.word] ?? "");
  return [...words, ...remarks.filter(Boolean)];
}

/** The bottleneck of a cell. */
function bound(machine: MachineReport, matrix: MatrixView, row: number, col: number): string | undefined {
  const word = matrix.bound[row]?.[col];
  return word === null || word === undefined ? undefined : machine.words[word];
}

/** A cell in words, with its bottleneck. */
export function described(machine: MachineReport, matrix: MatrixView, row: number, col: number): string[] {
  const what = bound(machine, matrix, row, col);
  return [...lines(machine, matrix, row, col), ...(what ? [`bound by ${what}`] : [])];
}

/** Ratios within this distance of 1 count as expected. */
const NEAR = 0.05;

/** The look of a ratio: orange below, blue above, on a logarithmic scale; for times, larger is worse. */
function ratioLook(matrix: MatrixView, [low, high]: [number, number]): Look {
  const worst = matrix.more_is_better ? low : 1 / high;
  const strength = scaleLog().domain([1, 2]).range([0, 1]).clamp(true);
  const far = worst <= 0 ? 1 : strength(worst < 1 ? 1 / worst : worst);
  const text = span(low, high);
  if (Math.abs(worst - 1) <= NEAR) return { text, ramp: "near", at: 0 };
  return { text, ramp: worst < 1 ? "low" : "high", at: far, marked: worst < 0.8 };
}

/** Matrices of more rows may be split between printed pages. */
const TALL = 10;

/** A matrix in the menu. */
export const titled = (matrix: MatrixView) => [`${matrix.ends}, ${micro(matrix.what)}`, summary(matrix)].filter(Boolean).join(": ");

/** One matrix with its heat maps. `show` is called with a cell that a finding refers to, and calls `reveal` first. */
export function matrixView(state: State, index: number, reveal: () => void): { root: HTMLElement; show: (row: number, col: number) => void } {
  const { machine } = state;
  const matrix = machine.matrices[index];
  if (!matrix) return { root: h("div"), show: () => undefined };
  const shown = unit(matrix.unit);
  const scale = scaleLinear()
    .domain([0, most(matrix)])
    .range([0, 1])
    .clamp(true);
  const readout = h("output", { class: "readout" }, "Point at a cell, or use the arrow keys; Enter shows its path.");
  const marks: ((row: number, col: number) => void)[] = [];
  const flagged = new Set(matrix.remarks.filter((r) => r.flagged).map((r) => `${r.row},${r.col}`));
  const name = (row: number, col: number) => `${matrix.rows[row] ?? ""} → ${matrix.cols[col] ?? ""}`;
  const point = (row: number, col: number) => {
    readout.textContent = `${name(row, col)}: ${described(machine, matrix, row, col).join("; ")}`;
  };
  const choose = (row: number, col: number) => {
    marks.forEach((mark) => mark(row, col));
    point(row, col);
    const path = matrix.paths[row]?.[col];
    const orientation = matrix.orientation ? ` (${matrix.orientation})` : "";
    state.choose({
      kind: "path",
      path: path ?? null,
      title: name(row, col),
      lines: [`${micro(matrix.what)}${orientation}`, lines(machine, matrix, row, col).join("; ")],
      bound: bound(machine, matrix, row, col),
    });
  };
  const map = (caption: string, look: (row: number, col: number) => Look | null): Child => {
    const made = grid({ caption, rows: matrix.rows, cols: matrix.cols, look, point, choose });
    marks.push(made.mark);
    return made.root;
  };
  const maps: Child[] = [];
  if (matrix.measured.length > 0) {
    maps.push(
      map(`${matrix.obtained}, ${shown}`, (row, col) => {
        const value = measured(matrix, row, col);
        if (!value) return null;
        const look: Look = { text: span(...value), marked: flagged.has(`${row},${col}`) };
        return own(matrix, row, col) ? look : { ...look, ramp: "value", at: scale(value[0]) };
      }),
    );
  }
  if (matrix.expected.length > 0) {
    maps.push(
      map(`expected, ${shown}`, (row, col) => {
        const value = at(matrix.expected, row, col);
        return value === null ? null : { text: number(value), ramp: "value", at: scale(value) };
      }),
    );
  }
  if (matrix.measured.length > 0 && matrix.expected.length > 0) {
    maps.push(
      map(`ratio, ${matrix.obtained} ÷ expected`, (row, col) => {
        const value = ratio(matrix, row, col);
        return value && ratioLook(matrix, value);
      }),
    );
  }
  const root = h(
    "section",
    { class: matrix.rows.length > TALL ? "block matrix tall" : "block matrix", id: `matrix-${index}` },
    h("h3", {}, matrix.ends, h("span", { class: "what" }, `, ${micro(matrix.what)} `), h("span", { class: "brief" }, summary(matrix))),
    h("p", { class: "hint" }, [matrix.orientation, matrix.title].filter(Boolean).join("; ")),
    readout,
    h("div", { class: "maps" }, ...maps),
    scales(matrix),
    from(machine, matrix.sources),
  );
  const show = (row: number, col: number) => {
    reveal();
    choose(row, col);
    root.scrollIntoView({ block: "nearest" });
  };
  return { root, show };
}

/** The colour scales of a matrix's maps, with their units. */
function scales(matrix: MatrixView): HTMLElement {
  const ramp = (kind: string) => h("span", { class: `ramp ${kind}`, "aria-hidden": "true" });
  const ends = matrix.more_is_better ? ["≤ 0.50", "≥ 2.00"] : ["≥ 2.00", "≤ 0.50"];
  return h(
    "p",
    { class: "hint scale" },
    // a matrix of copies within one memory each has no scale
    most(matrix) > Number.MIN_VALUE && h("span", {}, "0 ", ramp("value"), ` ${number(most(matrix))} ${unit(matrix.unit)}`),
    matrix.measured.length > 0 &&
      matrix.expected.length > 0 &&
      h("span", {}, `ratio ${ends[0]} `, ramp("ratio"), ` ${ends[1]} (worse to better)`),
  );
}

/** Path classes, nearest lightest. */
export function classView(state: State, classes: ClassView): HTMLElement {
  const rank = new Map(classes.meanings.map(({ label }, i) => [label, i]));
  const furthest = Math.max(classes.meanings.length - 1, 1);
  const readout = h("output", { class: "readout" }, "Point at a cell, or use the arrow keys; Enter shows its path.");
  const meaning = (label: string) => classes.meanings.find((m) => m.label === label)?.text ?? "";
  const line = (row: number, col: number) => {
    const value = classes.values[row]?.[col];
    return value ? `${value}: ${meaning(value)}` : "unknown";
  };
  const name = (row: number, col: number) => `${classes.names[row] ?? ""} – ${classes.names[col] ?? ""}`;
  const made = grid({
    caption: "path classes",
    rows: classes.names,
    cols: classes.names,
    look: (row, col) => {
      const value = classes.values[row]?.[col];
      if (row === col || !value) return null;
      return { text: value, ramp: "value", at: (0.85 * (rank.get(value) ?? 0)) / furthest };
    },
    point: (row, col) => {
      readout.textContent = `${name(row, col)}: ${line(row, col)}`;
    },
    choose: (row, col) => {
      made.mark(row, col);
      state.choose({ kind: "path", path: classes.paths[row]?.[col] ?? null, title: name(row, col), lines: [line(row, col)] });
    },
  });
  const meanings = h("ul", { class: "legend" }, ...classes.meanings.map((m) => h("li", {}, h("strong", {}, m.label), ` ${m.text}`)));
  return h("section", { class: "classes" }, h("h3", {}, "Path classes"), meanings, readout, made.root);
}

/** The matrix to show first: the first measured one with expectations, else the first. */
export function foremost(machine: MachineReport): number {
  const compared = machine.matrices.findIndex((m) => m.measured.length > 0 && m.expected.length > 0 && m.rows.length > 1 && m.cols.length > 1);
  return compared >= 0 ? compared : 0;
}
