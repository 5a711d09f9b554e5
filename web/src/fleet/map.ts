// The heat map: machines by tests, on a canvas that shows what is scrolled to, with an overview of all beside it.

import { palette } from "./colour";
import { button, h, refill, type Child } from "../dom";
import { ratio } from "./format";
import { drawCells, drawFrame, drawOverview, Layout } from "./paint";
import { type Cell, MEANING, type Order, type State } from "./state";

/** Most rows on paper that have their own line with a name; more are drawn as an overview. */
const NAMED_ON_PAPER = 60;

/** Width of the map on paper, at least, in pixels that are scaled to the page; its height over its width, at most. */
const PAPER = 1000;
const TALLEST = 1.25;

const STEPS: Record<string, [number, number]> = {
  ArrowUp: [-1, 0],
  ArrowDown: [1, 0],
  ArrowLeft: [0, -1],
  ArrowRight: [0, 1],
  PageUp: [-10, 0],
  PageDown: [10, 0],
};

/** A cell in words: machine, test, score, outliers. */
export function words(state: State, cell: Cell): string {
  const score = state.score(cell);
  const failed = score === 0 && state.fleet.nodes;
  const value = score === null ? "not measured" : failed ? "failed" : `${ratio(score)} of ${state.share(cell)}`;
  const found = state.at(cell).map((outlier) => `${outlier.action} (${MEANING[outlier.action]}): ${outlier.summary}`);
  return [`${state.between(cell)}: ${value}`, ...found].join("; ");
}

export function mapView(state: State): HTMLElement {
  const canvas = h("canvas", { "aria-hidden": "true" });
  const size = h("div", { class: "map-size" }, canvas);
  const readout = h("output", { class: "readout" });
  const { row: rowName } = state.words;
  const of = state.fleet.nodes ? "nodes and their partners" : "machines and tests";
  const label = `Heat map of ${of}. Arrow keys move between cells, Enter shows the ${rowName}. A table with the same values follows.`;
  const scroll = h("div", { class: "map-scroll", tabindex: 0, role: "group", "aria-label": label }, size);
  const small = h("canvas", {});
  const shown = h("div", { class: "window" });
  const overview = h("div", { class: "overview", "aria-hidden": "true", title: `All ${rowName}s; click to scroll there` }, small, shown);
  const frame = h("div", { class: "map-frame" }, scroll, overview);
  const paper = h("canvas", { class: "paper", role: "img", "aria-label": `Heat map of ${of}` });
  const none = h("p", { class: "none-shown", hidden: true }, `No ${rowName} passes the filter.`);
  let layout = new Layout(state, [], 0);
  // the cell under the pointer or the keyboard: a row and a column of what is shown
  let cursor: [number, number] | null = null;
  let planned = false;

  const view = () => ({ left: scroll.scrollLeft, top: scroll.scrollTop, width: scroll.clientWidth, height: scroll.clientHeight });
  const cellAt = ([row, col]: [number, number]): Cell | null => {
    const [machine, test] = [state.machines[row], layout.tests[col]];
    return machine === undefined || test === undefined ? null : { machine, test };
  };

  const paint = () => {
    planned = false;
    const { width, height, left, top } = view();
    if (width === 0 || layout.rows === 0) return;
    const context = resize(canvas, width, height);
    if (!context) return;
    const colours = palette(frame);
    drawCells(context, state, layout, colours, { left, top, width, height });
    drawFrame(context, state, layout, colours, { left, top, width, height }, cursor);
    const all = layout.height - layout.head;
    const share = (px: number) => `${(100 * Math.min(1, Math.max(0, px / all))).toFixed(2)}%`;
    shown.style.setProperty("--from", share(top));
    shown.style.setProperty("--part", share(height - layout.head));
  };
  const plan = () => {
    if (!planned) requestAnimationFrame(paint);
    planned = true;
  };

  const rebuild = () => {
    const tests = state.tests();
    cursor = null;
    none.hidden = state.machines.length > 0;
    frame.hidden = state.machines.length === 0 || tests.length === 0;
    if (frame.hidden) return;
    // first without the overview, whose presence depends on the height
    overview.hidden = true;
    layout = new Layout(state, tests, scroll.clientWidth);
    overview.hidden = layout.height - layout.head < 2 * scroll.clientHeight || frame.clientWidth < 640;
    if (!overview.hidden) layout = new Layout(state, tests, scroll.clientWidth);
    size.style.setProperty("width", `${layout.width}px`);
    size.style.setProperty("height", `${layout.height}px`);
    if (!overview.hidden) {
      const context = resize(small, small.clientWidth, small.clientHeight);
      if (context) drawOverview(context, state, tests, palette(frame), { x: 0, y: 0, width: small.clientWidth, height: small.clientHeight });
    }
    readout.textContent = `Point at a cell, or use the arrow keys; Enter or a click shows the ${rowName}.`;
    plan();
  };

  const point = (to: [number, number] | null) => {
    if (to?.[0] === cursor?.[0] && to?.[1] === cursor?.[1]) return;
    cursor = to;
    const cell = to && cellAt(to);
    if (cell) readout.textContent = words(state, cell);
    plan();
  };
  const under = (event: MouseEvent): [number, number] | null => {
    const box = canvas.getBoundingClientRect();
    return layout.under(event.clientX - box.left, event.clientY - box.top, view());
  };
  const open = (at: [number, number]) => {
    const machine = state.machines[at[0]];
    if (machine !== undefined) state.show(machine);
  };

  canvas.addEventListener("pointermove", (event) => point(under(event)));
  canvas.addEventListener("pointerleave", () => {
    if (document.activeElement !== scroll) point(null);
  });
  canvas.addEventListener("click", (event) => {
    const at = under(event);
    if (!at) return;
    point(at);
    open(at);
  });
  scroll.addEventListener("scroll", plan, { passive: true });
  scroll.addEventListener("focus", () => {
    // by keyboard, not by a click, which has its own cell
    if (cursor === null && scroll.matches(":focus-visible")) point([layout.first(view()), 0]);
  });
  scroll.addEventListener("keydown", (event) => {
    const last = [layout.rows - 1, layout.tests.length - 1] as const;
    let [row, col] = cursor ?? [layout.first(view()), 0];
    const step = STEPS[event.key];
    if (step) [row, col] = [row + step[0], col + step[1]];
    else if (event.key === "Home") [row, col] = [event.ctrlKey ? 0 : row, 0];
    else if (event.key === "End") [row, col] = [event.ctrlKey ? last[0] : row, last[1]];
    else if ((event.key === "Enter" || event.key === " ") && cursor) {
      event.preventDefault();
      open(cursor);
      return;
    } else return;
    event.preventDefault();
    const to: [number, number] = [Math.max(0, Math.min(last[0], row)), Math.max(0, Math.min(last[1], col))];
    layout.reveal(to, scroll);
    point(to);
  });
  const jump = (event: PointerEvent) => {
    const box = small.getBoundingClientRect();
    const at = (event.clientY - box.top) / box.height;
    scroll.scrollTop = at * (layout.height - layout.head) - (scroll.clientHeight - layout.head) / 2;
  };
  overview.addEventListener("pointerdown", (event) => {
    overview.setPointerCapture(event.pointerId);
    jump(event);
  });
  overview.addEventListener("pointermove", (event) => {
    if (overview.hasPointerCapture(event.pointerId)) jump(event);
  });

  const print = () => {
    const tests = state.tests();
    const named = state.machines.length <= NAMED_ON_PAPER;
    const flat = new Layout(state, tests, PAPER, named);
    const width = Math.max(PAPER, flat.width);
    const height = named ? flat.height + 1 : Math.round(TALLEST * width);
    const context = state.machines.length > 0 && resize(paper, width, height, 2);
    if (!context) return;
    const colours = palette(paper);
    const whole = { left: 0, top: 0, width, height };
    if (named) drawCells(context, state, flat, colours, whole);
    else {
      const box = { x: 0, y: flat.head, width, height: height - flat.head };
      drawOverview(context, state, tests, colours, box, { xs: flat.xs, width: flat.cell - 1 });
    }
    drawFrame(context, state, flat, colours, whole, null);
  };
  addEventListener("beforeprint", print);
  new ResizeObserver(rebuild).observe(frame.ownerDocument.body);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", rebuild);
  state.onFilter(rebuild);

  return h("div", { class: "map-view" }, chooser(state), legend(state), order(state), frame, readout, none, paper);
}

/** Sets the size of a canvas in CSS pixels; its context draws in these. */
function resize(canvas: HTMLCanvasElement, width: number, height: number, scale = devicePixelRatio || 1): CanvasRenderingContext2D | null {
  canvas.width = Math.round(width * scale);
  canvas.height = Math.round(height * scale);
  canvas.style.setProperty("width", `${width}px`);
  canvas.style.setProperty("height", `${height}px`);
  const context = canvas.getContext("2d", { alpha: false });
  context?.scale(scale, scale);
  return context;
}

/** Between nodes: which kind of values is shown, and what rows and columns are. */
function chooser(state: State): Child {
  const { nodes, tests } = state.fleet;
  if (!nodes) return null;
  const select = h("select", {}, ...nodes.values.map(({ name }, at) => h("option", { value: at }, name)));
  select.addEventListener("change", () => state.choose(Number(select.value)));
  const grid = tests.some((test) => typeof test.node === "number");
  const text = grid
    ? "A row is a node that sends, a column one that receives; where they meet themselves is the loopback."
    : "A row is a node. A column is its partner so many nodes further on, or before; pointing at a cell names both.";
  return h("p", { class: "chooser" }, nodes.values.length > 1 && h("label", {}, "Values ", select), h("span", { class: "hint" }, text));
}

function order(state: State): HTMLElement {
  const orders: [Order, string][] = [
    ["worst", "Worst first"],
    ["name", "By name"],
  ];
  const buttons = orders.map(([to, label]) =>
    button(label, () => state.sort(to), { "aria-pressed": "false", "data-order": to }),
  );
  state.onFilter(() => {
    for (const one of buttons) one.setAttribute("aria-pressed", String(one.dataset["order"] === state.order));
  });
  const group = h("p", { class: "actions", role: "group", "aria-label": `Order of the ${state.words.row}s` });
  refill(group, ...buttons);
  return group;
}

/** Scores that the legend shows. */
const SAMPLES = [0.7, 0.8, 0.9, 1, 1.1, 1.25, 1.43];

function legend(state: State): HTMLElement {
  const { fleet } = state;
  const absent = fleet.machines.some((machine) => machine.scores.some((score) => typeof score !== "number"));
  const samples = SAMPLES.map((score, at) => {
    const text = at === 0 ? `≤ ${ratio(score)}` : at === SAMPLES.length - 1 ? `≥ ${ratio(score)}` : ratio(score);
    return h("li", {}, h("span", { class: `swatch swatch-${at}` }), text);
  });
  const basis = h("li", {}, "Worst value of a machine over the median of its kind; more is better:");
  if (fleet.nodes) {
    state.onFilter(() => {
      basis.textContent = `Share of ${fleet.nodes?.values[state.values]?.of ?? ""}; of several NICs the worst; more is better:`;
    });
  }
  return h(
    "ul",
    { class: "legend" },
    basis,
    ...samples,
    absent && h("li", {}, h("span", { class: "swatch absent" }), "not measured"),
    fleet.outliers.some((outlier) => typeof outlier.test === "number") && h("li", {}, h("span", { class: "swatch notch" }), "outlier"),
  );
}
