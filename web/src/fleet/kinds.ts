// The kinds of machines, and how much machines of a kind differ.

import type { KindView } from "./document";
import { h, s, type Child } from "../dom";
import { count, many, ratio } from "./format";
import type { State } from "./state";

/** Ends of the scale of the strips. */
const LOW = 0.6;
const HIGH = 1.25;

/** How the values of one test spread over the machines of a kind. */
export interface Spread {
  test: number;
  n: number;
  lowest: number;
  low: number;
  high: number;
  highest: number;
}

/** The value that a share of sorted numbers lies below. */
function quantile(sorted: number[], share: number): number {
  return sorted[Math.round(share * (sorted.length - 1))] ?? NaN;
}

/** The spread of each test that machines of a kind have. */
export function spreads(state: State, kind: number): Spread[] {
  const members = state.fleet.machines.filter((machine) => machine.kind === kind);
  return state.fleet.tests.flatMap((_, test) => {
    const values = members.flatMap(({ scores }) => scores[test] ?? []).map((score) => score / 1000);
    if (values.length === 0) return [];
    values.sort((a, b) => a - b);
    const [lowest, low, high, highest] = [0, 0.05, 0.95, 1].map((share) => quantile(values, share)) as [number, number, number, number];
    return [{ test, n: values.length, lowest, low, high, highest }];
  });
}

export function kindsView(state: State): HTMLElement {
  const { fleet } = state;
  const parts = fleet.kinds.map((kind, at) => {
    const members = fleet.machines.map((_, i) => i).filter((i) => fleet.machines[i]?.kind === at);
    const with_ = members.filter((i) => (state.of[i] ?? []).length > 0).length;
    const all = spreads(state, at);
    const found = with_ > 0 ? `, ${many(with_)} with outliers` : "";
    const alone = kind.compared ? "" : "; too few to compare with each other";
    return h(
      "details",
      { class: "kind" },
      h("summary", {}, h("strong", {}, kind.name), ` ${count(members.length, "machine")}${found}${alone}`),
      ...shared(kind, members.length),
      all.length > 0
        ? h("div", { class: "scroll", tabindex: 0, role: "group", "aria-label": `${kind.name} (scrollable)` }, table(state, kind.name, all))
        : h("p", { class: "hint" }, "No test was measured on enough machines."),
    );
  });
  return h("div", {}, ...parts);
}

/** What the rules find on nearly all machines of a kind, which accuses none of them. */
function shared({ shared }: KindView, machines: number): Child[] {
  if (shared.length === 0) return [];
  const of = (n: number) => (n >= machines ? "all" : `${many(n)} of ${many(machines)}`);
  const items = shared.map(({ rule, summary, machines: n }) => h("li", {}, summary, h("span", { class: "hint" }, ` (${rule}, on ${of(n)})`)));
  return [h("p", {}, "A property of the kind, held against no machine:"), h("ul", {}, ...items)];
}

function table(state: State, kind: string, all: Spread[]): HTMLElement {
  const heads = ["test", "machines", "lowest", "5 %", "95 %", "highest"];
  const rows = all.map((of) =>
    h(
      "tr",
      {},
      h("th", { scope: "row" }, state.fleet.tests[of.test]?.name ?? ""),
      h("td", { class: "number" }, many(of.n)),
      ...[of.lowest, of.low, of.high, of.highest].map((value) => h("td", { class: "number" }, ratio(value))),
      h("td", { class: "strip-cell", "aria-hidden": "true" }, strip(of)),
    ),
  );
  return h(
    "table",
    { class: "spread" },
    h("caption", {}, `${kind}: values over the median; 90 % of the machines lie between 5 % and 95 %`),
    h("thead", {}, h("tr", {}, ...heads.map((text, i) => h("th", { scope: "col", class: i > 0 && "number" }, text)), h("td", {}))),
    h("tbody", {}, ...rows),
  );
}

/** From the lowest to the highest as a line, most machines as a bar, the median as a tick. */
function strip({ lowest, low, high, highest }: Spread): Element {
  const x = (value: number) => (180 * (Math.log(Math.max(LOW, Math.min(HIGH, value))) - Math.log(LOW))) / Math.log(HIGH / LOW);
  const bar = Math.max(1.5, x(high) - x(low));
  return s(
    "svg",
    { class: "strip", viewBox: "0 0 180 12", width: 180, height: 12 },
    s("line", { class: "range", x1: x(lowest), x2: x(highest), y1: 6, y2: 6 }),
    s("rect", { class: "most", x: x(low), y: 2, width: bar, height: 8 }),
    s("line", { class: "median", x1: x(1), x2: x(1), y1: 0, y2: 12 }),
    // beyond the scale
    lowest < LOW && s("path", { class: "beyond", d: "M0 6l6 -4v8z" }),
  );
}
