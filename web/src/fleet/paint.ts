// Drawing the heat map: where its rows and columns are, and how they look.

import { colour, type Palette } from "./colour";
import type { State } from "./state";

const FONT = '11px system-ui, "Segoe UI", "DejaVu Sans", sans-serif';
const BOLD = `600 ${FONT}`;

/** Height of a row, and with few machines. */
const ROW = 15;
const TALL = 20;
const FEW = 30;

/** Width of a cell, at least and at most. */
const NARROW = 13;
const WIDE = 44;

/** Space between the columns of different families. */
const GAP = 5;

/** The part of a map that is in sight. */
export interface View {
  left: number;
  top: number;
  width: number;
  height: number;
}

/** Widths of texts; they are needed before a canvas is. */
let gauge: CanvasRenderingContext2D | null = null;

function widest(texts: Iterable<string>): number {
  gauge ??= document.createElement("canvas").getContext("2d");
  if (!gauge) return 0;
  gauge.font = BOLD;
  let most = 0;
  for (const text of texts) most = Math.max(most, gauge.measureText(text).width);
  return most;
}

/** Where rows and columns are, in CSS pixels from the map's corner. Names and heading stay in sight. */
export class Layout {
  readonly tests: number[];
  readonly rows: number;
  /** Width of the column of names, and height of the heading. */
  readonly names: number;
  readonly head: number;
  readonly row: number;
  readonly cell: number;
  /** Left edge of each column. */
  readonly xs: number[];
  readonly width: number;
  readonly height: number;

  constructor(state: State, tests: number[], available: number, named = true) {
    this.tests = tests;
    this.rows = state.machines.length;
    this.row = this.rows <= FEW ? TALL : ROW;
    // as high as the longest heading, up to a limit: less where there is little space
    const labels = tests.map((at) => state.fleet.tests[at]?.name ?? "");
    this.head = Math.min(available < 600 ? 150 : 260, Math.ceil(widest(labels)) + 14);
    const texts = function* () {
      for (const at of state.machines) yield state.name(at);
    };
    const most = available < 600 ? 110 : 220;
    this.names = named ? Math.min(most, Math.ceil(widest(texts())) + 10) : 0;
    const families = tests.map((at) => state.fleet.tests[at]?.family ?? "");
    const gaps = families.map((family, at) => (at > 0 && family !== families[at - 1] ? 1 : 0));
    const spaces = GAP * gaps.reduce<number>((sum, gap) => sum + gap, 0);
    const fair = Math.floor((available - this.names - spaces) / Math.max(1, tests.length));
    this.cell = Math.max(NARROW, Math.min(WIDE, fair));
    let x = this.names;
    this.xs = gaps.map((gap) => {
      const at = x + gap * GAP;
      x = at + this.cell;
      return at;
    });
    this.width = x + 1;
    this.height = this.head + this.rows * this.row;
  }

  /** The first row that is whole in sight. */
  first(view: View): number {
    return Math.min(this.rows - 1, Math.ceil(view.top / this.row));
  }

  /** The row and column under a point of the view; `null` for the heading. A name has the first column. */
  under(x: number, y: number, view: View): [number, number] | null {
    if (y < this.head) return null;
    const row = Math.floor((y - this.head + view.top) / this.row);
    if (row < 0 || row >= this.rows) return null;
    if (x < this.names) return [row, 0];
    const at = x + view.left;
    // the space before a column belongs to it
    const col = this.xs.findIndex((left) => at < left + this.cell);
    return col < 0 ? null : [row, col];
  }

  /** Scrolls until a cell is in sight, past the names and the heading. */
  reveal([row, col]: [number, number], scroll: HTMLElement): void {
    const top = row * this.row;
    const below = top + this.row + this.head - scroll.clientHeight;
    scroll.scrollTop = Math.min(top, Math.max(scroll.scrollTop, below));
    const left = (this.xs[col] ?? 0) - this.names;
    const beyond = left + this.names + this.cell - scroll.clientWidth;
    scroll.scrollLeft = Math.min(left, Math.max(scroll.scrollLeft, beyond));
  }
}

/** The cells in sight. */
export function drawCells(c: CanvasRenderingContext2D, state: State, layout: Layout, palette: Palette, view: View): void {
  c.fillStyle = palette.page;
  c.fillRect(0, 0, view.width, view.height);
  const first = Math.max(0, Math.floor(view.top / layout.row));
  const last = Math.min(layout.rows, Math.ceil((view.top + view.height - layout.head) / layout.row));
  for (let row = first; row < last; row += 1) {
    const machine = state.machines[row];
    if (machine === undefined) continue;
    const y = layout.head + row * layout.row - view.top;
    const marked = new Set((state.of[machine] ?? []).map((at) => state.outlier(at)?.test));
    layout.tests.forEach((test, col) => {
      const x = (layout.xs[col] ?? 0) - view.left;
      if (x + layout.cell < layout.names || x > view.width) return;
      const score = state.score({ machine, test });
      const [w, height] = [layout.cell - 1, layout.row - 1];
      c.fillStyle = colour(palette, score);
      c.fillRect(x, y, w, height);
      if (score === null) slash(c, palette, x, y, w, height);
      else {
        // an outline, since the colour of the median is that of the page
        c.strokeStyle = palette.line;
        c.lineWidth = 0.5;
        c.strokeRect(x + 0.25, y + 0.25, w - 0.5, height - 0.5);
      }
      if (marked.has(test)) notch(c, palette, x, y);
    });
  }
}

/** Not measured: a line as well as a colour. */
function slash(c: CanvasRenderingContext2D, palette: Palette, x: number, y: number, w: number, height: number): void {
  c.strokeStyle = palette.page;
  c.lineWidth = 1;
  c.beginPath();
  c.moveTo(x, y + height);
  c.lineTo(x + w, y);
  c.stroke();
}

/** An outlier: a corner filled. */
function notch(c: CanvasRenderingContext2D, palette: Palette, x: number, y: number): void {
  c.fillStyle = palette.mark;
  c.strokeStyle = palette.page;
  c.lineWidth = 1;
  c.beginPath();
  c.moveTo(x, y);
  c.lineTo(x + 7, y);
  c.lineTo(x, y + 7);
  c.closePath();
  c.stroke();
  c.fill();
}

/** Names, heading and the cell of the cursor, above the cells. */
export function drawFrame(
  c: CanvasRenderingContext2D,
  state: State,
  layout: Layout,
  palette: Palette,
  view: View,
  cursor: [number, number] | null,
): void {
  if (cursor) {
    const [row, col] = cursor;
    c.strokeStyle = palette.lit;
    c.lineWidth = 2;
    c.strokeRect((layout.xs[col] ?? 0) - view.left - 1, layout.head + row * layout.row - view.top - 1, layout.cell + 1, layout.row + 1);
  }
  if (layout.names > 0) drawNames(c, state, layout, palette, view, cursor?.[0]);
  drawHeading(c, state, layout, palette, view, cursor?.[1]);
}

function drawNames(c: CanvasRenderingContext2D, state: State, layout: Layout, palette: Palette, view: View, at: number | undefined): void {
  c.fillStyle = palette.page;
  c.fillRect(0, layout.head, layout.names, view.height);
  c.textBaseline = "middle";
  c.textAlign = "left";
  const first = Math.max(0, Math.floor(view.top / layout.row));
  const last = Math.min(layout.rows, Math.ceil((view.top + view.height) / layout.row));
  for (let row = first; row < last; row += 1) {
    const machine = state.machines[row];
    if (machine === undefined) continue;
    const accused = state.machine(machine)?.action;
    c.font = row === at || accused ? BOLD : FONT;
    c.fillStyle = row === at ? palette.lit : accused ? palette.text : palette.soft;
    c.fillText(clipped(c, state.name(machine), layout.names - 8), 2, layout.head + (row + 0.5) * layout.row - view.top);
  }
}

function drawHeading(c: CanvasRenderingContext2D, state: State, layout: Layout, palette: Palette, view: View, at: number | undefined): void {
  c.fillStyle = palette.page;
  c.fillRect(0, 0, view.width, layout.head);
  c.textBaseline = "middle";
  c.textAlign = "left";
  layout.tests.forEach((test, col) => {
    const x = (layout.xs[col] ?? 0) - view.left;
    if (x + layout.cell < layout.names || x > view.width) return;
    c.save();
    c.translate(x + layout.cell / 2, layout.head - 5);
    c.rotate(-Math.PI / 2);
    c.font = col === at ? BOLD : FONT;
    c.fillStyle = col === at ? palette.lit : palette.soft;
    c.fillText(clipped(c, state.fleet.tests[test]?.name ?? "", layout.head - 10), 0, 0);
    c.restore();
  });
  // what is scrolled behind the names
  c.fillStyle = palette.page;
  c.fillRect(0, 0, layout.names, layout.head);
}

/** A text with its middle left out if it is too wide: both ends of a host's name tell hosts apart. */
function clipped(c: CanvasRenderingContext2D, text: string, width: number): string {
  if (c.measureText(text).width <= width) return text;
  let [least, most] = [0, text.length];
  const cut = (n: number) => `${text.slice(0, Math.ceil(n / 2))}…${text.slice(text.length - Math.floor(n / 2))}`;
  while (least < most) {
    const middle = Math.ceil((least + most) / 2);
    if (c.measureText(cut(middle)).width <= width) least = middle;
    else most = middle - 1;
  }
  return cut(least);
}

/**
 * All machines at once: each line of pixels has the lowest score of the machines that share it. The columns are as wide as the
 * box allows, unless they are given.
 */
export function drawOverview(
  c: CanvasRenderingContext2D,
  state: State,
  tests: number[],
  palette: Palette,
  box: { x: number; y: number; width: number; height: number },
  columns?: { xs: number[]; width: number },
): void {
  const rows = state.machines.length;
  c.fillStyle = palette.page;
  c.fillRect(0, 0, box.x + box.width, box.y + box.height);
  const lines = Math.min(rows, Math.floor(box.height));
  const [w, height] = [box.width / tests.length, box.height / lines];
  for (let line = 0; line < lines; line += 1) {
    const from = Math.floor((line * rows) / lines);
    const to = Math.max(from + 1, Math.floor(((line + 1) * rows) / lines));
    tests.forEach((test, col) => {
      let lowest: number | null = null;
      for (let row = from; row < to; row += 1) {
        const machine = state.machines[row];
        const score = machine === undefined ? null : state.score({ machine, test });
        if (score !== null && (lowest === null || score < lowest)) lowest = score;
      }
      c.fillStyle = colour(palette, lowest);
      const [x, wide] = columns ? [columns.xs[col] ?? 0, columns.width] : [box.x + col * w, Math.ceil(w)];
      c.fillRect(x, box.y + line * height, wide, Math.ceil(height));
    });
  }
}
