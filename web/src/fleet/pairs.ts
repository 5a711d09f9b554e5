// Between nodes: single values beside what they are compared with, all-reduces of groups, and how each kind of value is spread.

import type { NodesView } from "./document";
import { button, h, refill } from "../dom";
import { many, ratio } from "./format";

/** Rows at first; rows that are added at a time. */
const FIRST = 20;
const STEP = 100;

function headings(names: string[], numbers: number): HTMLElement {
  const first = names.length - numbers;
  return h("thead", {}, h("tr", {}, ...names.map((name, at) => h("th", { scope: "col", class: at >= first && "number" }, name))));
}

function scroll(label: string, table: HTMLElement): HTMLElement {
  return h("div", { class: "scroll", tabindex: 0, role: "group", "aria-label": `${label} (scrollable)` }, table);
}

export function pairsView({ pairs, pairs_left_out }: NodesView): HTMLElement {
  const body = h("tbody", {});
  const more = h("p", { class: "actions" });
  let shown = 0;
  const extend = (by: number) => {
    for (const { from, to, what, measured, against, score } of pairs.slice(shown, shown + by)) {
      const figures = [measured, against, score === 0 ? "failed" : ratio(score / 1000)];
      body.append(h("tr", {}, h("th", { scope: "row" }, from), h("td", {}, to), h("td", {}, what), ...figures.map((text) => h("td", { class: "number" }, text))));
    }
    shown = Math.min(pairs.length, shown + by);
    const left = pairs.length - shown;
    refill(more, left > 0 && button(left > STEP ? `Show ${many(STEP)} more of ${many(left)}` : `Show ${many(left)} more`, () => extend(STEP)));
  };
  extend(FIRST);
  const table = h("table", { class: "pairs" }, headings(["From", "To", "What", "Measured", "Expected, or median", "Share"], 3), body);
  const rest = pairs_left_out > 0 && h("p", { class: "hint" }, `${many(pairs_left_out)} better ones are in check --json.`);
  return h("div", {}, scroll("Values", table), more, rest);
}

export function groupsView({ groups }: NodesView): HTMLElement {
  const rows = groups.map(({ nodes, gpus, members, measured, against, score, slow }) => {
    const share = typeof score !== "number" ? "–" : score === 0 ? "failed" : ratio(score / 1000);
    const names = slow === "" ? members : `${members}; slow: ${slow}`;
    const figures = [many(gpus), measured, against, share].map((text) => h("td", { class: "number" }, text));
    return h("tr", {}, h("th", { scope: "row" }, `${many(nodes)} nodes`), h("td", {}, names), ...figures);
  });
  const table = h("table", { class: "pairs" }, headings(["Group", "Nodes", "GPUs", "Bus bandwidth", "Expected", "Share"], 4), h("tbody", {}, ...rows));
  return scroll("All-reduces", table);
}

export function valuesView({ values }: NodesView): HTMLElement {
  const rows = values.map(({ name, n, worst, median, best, failed }) =>
    h("tr", {}, h("th", { scope: "row" }, name), ...[many(n), worst, median, best, many(failed)].map((text) => h("td", { class: "number" }, text))),
  );
  const table = h("table", { class: "spread" }, headings(["What", "Values", "Worst", "Median", "Best", "Failed"], 5), h("tbody", {}, ...rows));
  return scroll("Kinds of values", table);
}
