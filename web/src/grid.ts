// A heat map as a table: arrow keys move between cells, and the table is one stop for the Tab key.

import { h } from "./dom";

/** The look of a cell. */
export interface Look {
  text: string;
  /** The colour ramp, and the position on it from 0 to 1. */
  ramp?: "value" | "low" | "high" | "near";
  at?: number;
  /** Whether it is marked as notable. */
  marked?: boolean;
}

/** A heat map's content. */
export interface Grid {
  caption: string;
  rows: string[];
  cols: string[];
  look: (row: number, col: number) => Look | null;
  /** Called when a cell is pointed at. */
  point: (row: number, col: number) => void;
  /** Called when a cell is selected. */
  choose: (row: number, col: number) => void;
}

const STEPS: Record<string, [number, number]> = {
  ArrowUp: [-1, 0],
  ArrowDown: [1, 0],
  ArrowLeft: [0, -1],
  ArrowRight: [0, 1],
  PageUp: [-5, 0],
  PageDown: [5, 0],
};

/** Tables with more columns use a smaller font, and a still smaller one. */
const MANY = 12;
const MOST = 16;

/** If many names differ only by a number, the word and the numbers: `GPU` and `0`, `1`, … */
function shortened(names: string[]): { word: string; numbers: string[] } | null {
  const parts = names.map((name) => /^(\D+)(\d+)$/.exec(name));
  const word = parts[0]?.[1];
  if (names.length <= MANY || word === undefined || parts.some((part) => part?.[1] !== word)) return null;
  return { word, numbers: parts.map((part) => part?.[2] ?? "") };
}

/** The table, and functions to mark a cell as selected, or none. */
export function grid(of: Grid): { root: HTMLElement; mark: (row: number, col: number) => void; unmark: () => void } {
  const cells: (HTMLTableCellElement | null)[][] = [];
  const body = h("tbody", {});
  of.rows.forEach((name, row) => {
    const line = h("tr", {}, h("th", { scope: "row" }, name));
    cells.push(
      of.cols.map((_, col) => {
        const look = of.look(row, col);
        if (look === null) {
          line.append(h("td", { class: "none" }));
          return null;
        }
        const cell = h(
          "td",
          {
            tabindex: -1,
            class: ["cell", look.ramp, look.marked && "marked"].filter(Boolean).join(" "),
            "data-row": row,
            "data-col": col,
            "aria-selected": "false",
          },
          look.text,
        );
        if (look.at !== undefined) cell.style.setProperty("--at", `${(look.at * 100).toFixed(1)}%`);
        line.append(cell);
        return cell;
      }),
    );
    body.append(line);
  });
  const short = shortened(of.cols);
  const heads = of.cols.map((name, at) => h("th", short ? { scope: "col", "aria-label": name } : { scope: "col" }, short?.numbers[at] ?? name));
  const head = h("tr", {}, h("td", { class: "corner" }, short?.word), ...heads);
  const size = of.cols.length > MOST ? "heat many most" : of.cols.length > MANY ? "heat many" : "heat";
  const table = h("table", { class: size, role: "grid", "aria-label": of.caption }, h("thead", {}, head), body);
  const all = cells.flat().filter((cell) => cell !== null);
  let stop = all[0];
  stop?.setAttribute("tabindex", "0");

  const place = (target: EventTarget | null): [number, number] | null => {
    const cell = target instanceof Element ? target.closest<HTMLElement>("td.cell") : null;
    return cell ? [Number(cell.dataset["row"]), Number(cell.dataset["col"])] : null;
  };
  const stopAt = (cell: HTMLTableCellElement) => {
    stop?.setAttribute("tabindex", "-1");
    stop = cell;
    cell.setAttribute("tabindex", "0");
  };
  const unmark = () => {
    for (const cell of all) cell.setAttribute("aria-selected", "false");
  };
  const mark = (row: number, col: number) => {
    unmark();
    const cell = cells[row]?.[col];
    if (!cell) return;
    cell.setAttribute("aria-selected", "true");
    stopAt(cell);
  };
  table.addEventListener("pointerover", (event) => {
    const at = place(event.target);
    if (at) of.point(...at);
  });
  table.addEventListener("focusin", (event) => {
    const at = place(event.target);
    if (at) of.point(...at);
  });
  const choose = (at: [number, number]) => {
    of.choose(...at);
    // content that opened above may have moved it
    cells[at[0]]?.[at[1]]?.scrollIntoView({ block: "nearest", inline: "nearest" });
  };
  table.addEventListener("click", (event) => {
    const at = place(event.target);
    if (at) choose(at);
  });
  table.addEventListener("keydown", (event) => {
    const at = place(event.target);
    if (!at) return;
    if (event.key === "Enter" || event.key === " ") {
      event.preventDefault();
      choose(at);
      return;
    }
    const next = event.key === "Home" || event.key === "End" ? edge(cells[at[0]], event.key) : walk(cells, at, event.key);
    if (!next) return;
    event.preventDefault();
    stopAt(next);
    next.focus();
  });
  const scroll = h("div", { class: "scroll", tabindex: 0, role: "group", "aria-label": `${of.caption} (scrollable)` }, table);
  return { root: h("div", { class: "map" }, h("p", { class: "hint" }, of.caption), scroll), mark, unmark };
}

/** The next cell in a direction that is not empty. */
function walk(cells: (HTMLTableCellElement | null)[][], from: [number, number], key: string): HTMLTableCellElement | null {
  const step = STEPS[key];
  if (!step) return null;
  const one = step.map(Math.sign) as [number, number];
  let left = Math.max(Math.abs(step[0]), Math.abs(step[1]));
  let found: HTMLTableCellElement | null = null;
  let [row, col] = from;
  for (;;) {
    [row, col] = [row + one[0], col + one[1]];
    const line = cells[row];
    if (!line || col < 0 || col >= line.length) return found;
    left -= 1;
    const cell = line[col];
    if (cell) found = cell;
    if (cell && left <= 0) return cell;
  }
}

function edge(line: (HTMLTableCellElement | null)[] | undefined, key: string): HTMLTableCellElement | null {
  const there = (line ?? []).filter((cell) => cell !== null);
  return (key === "Home" ? there[0] : there[there.length - 1]) ?? null;
}
