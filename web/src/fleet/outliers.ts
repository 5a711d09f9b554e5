// The ranked list of outliers. A row opens to the reasons and the record.

import type { OutlierView } from "./document";
import { button, commands, h, list, refill, type Child } from "../dom";
import { number, unit } from "../format";
import { count, many } from "./format";
import { rows as machines, type State } from "./state";

/** Rows at first, so that the heat map is near; rows that are added at a time; rows on paper. */
const FIRST = 20;
const STEP = 200;
const PRINTED = 500;

const COLUMNS: [string, string | null][] = [
  ["Action", null],
  ["Machine", null],
  ["Part", null],
  ["Finding", null],
  ["Measured", "number"],
  ["Expected", "number"],
  ["Peers", "number"],
  ["Before", "number"],
  ["Records", "number"],
];

/** One record of nodes has no peers of its kind, no records before and no other records. */
const OF_NODES = 6;

function columns(state: State): [string, string | null][] {
  if (!state.fleet.nodes) return COLUMNS;
  return COLUMNS.slice(0, OF_NODES).map(([name, kind]) => [name === "Machine" ? "Node" : name, kind]);
}

const SEVERITY = { error: "error", warning: "warning", info: "note" } as const;

/** Values of an outlier in the order of the columns, empty where there is none; the measured one with its unit. */
function figures({ measured, expected, peers, before, unit: of }: OutlierView): string[] {
  return [measured, expected, peers, before].map((value, at) => {
    if (typeof value !== "number") return "";
    return at === 0 ? `${number(value)} ${unit(of)}`.trimEnd() : number(value);
  });
}

export function outlierList(state: State): HTMLElement {
  const body = h("tbody", {});
  const heads = columns(state).map(([name, kind]) => h("th", { scope: "col", class: kind }, name));
  const table = h("table", { class: "outliers" }, h("thead", {}, h("tr", {}, ...heads)), body);
  const more = h("p", { class: "actions" });
  const beyond = h("p", { class: "on-paper" });
  let shown = 0;
  const extend = (by: number) => {
    const next = state.outliers.slice(shown, shown + by);
    for (const at of next) body.append(...rows(state, at));
    shown += next.length;
    const left = state.outliers.length - shown;
    const label = left > STEP ? `Show ${many(STEP)} more of ${many(left)}` : `Show ${many(left)} more`;
    refill(more, left > 0 && button(label, () => extend(STEP)));
    beyond.textContent = left > 0 ? `${count(left, `further ${state.words.found}`)} not printed.` : "";
  };
  addEventListener("beforeprint", () => extend(Math.max(0, PRINTED - shown)));
  const none = h("p", { class: "none-shown" });
  state.onFilter(() => {
    body.replaceChildren();
    shown = 0;
    extend(FIRST);
    const any = state.fleet.outliers.length > 0;
    const { found } = state.words;
    none.textContent = any ? `No ${found} passes the filter.` : `No ${found}s.`;
    none.hidden = state.outliers.length > 0;
    table.hidden = !none.hidden;
  });
  const scroll = h("div", { class: "scroll outlier-table", tabindex: 0, role: "group", "aria-label": state.fleet.nodes ? "Findings (scrollable)" : "Outliers (scrollable)" }, table);
  return h("div", {}, none, scroll, more, beyond);
}

/** The row of an outlier, and the one below it with the details. */
function rows(state: State, at: number): HTMLElement[] {
  const outlier = state.outlier(at);
  if (!outlier) return [];
  const below = h("tr", { class: "more", hidden: true, id: `outlier-${at}` });
  const toggle = button(outlier.summary, () => {
    below.hidden = !below.hidden;
    toggle.setAttribute("aria-expanded", String(!below.hidden));
  }, { class: "plain", "aria-expanded": "false", "aria-controls": `outlier-${at}` });
  const shown = columns(state);
  below.append(h("td", { colspan: shown.length }, ...details(state, outlier)));
  const open = machines(outlier).flatMap((machine, i) => {
    const one = button(state.name(machine), () => state.show(machine), { class: "plain machine", title: `Show the ${state.words.row}` });
    return i > 0 ? [" ", one] : [one];
  });
  const cells: Child[] = figures(outlier).slice(0, shown.length - 4).map((text, i) =>
    h("td", { class: text === "" ? "number empty" : "number", "data-head": COLUMNS[4 + i]?.[0] ?? "" }, text),
  );
  const row = h(
    "tr",
    { class: `outlier ${outlier.action}` },
    h("td", {}, badge(outlier)),
    h("th", { scope: "row" }, ...(open.length > 0 ? open : ["network"])),
    h("td", { class: "part" }, outlier.part),
    h("td", { class: "finding-cell" }, toggle),
    ...cells,
    shown.length === COLUMNS.length && h("td", { class: "number", "data-head": "Records" }, many(outlier.repeats)),
  );
  return [row, below];
}

/** The action that an outlier asks for. */
export function badge({ action }: Pick<OutlierView, "action">): HTMLElement {
  return h("strong", { class: `badge ${action}` }, action);
}

/** Why it is an outlier, and where that is recorded. */
export function details(state: State, outlier: OutlierView): Child[] {
  const test = state.fleet.tests[outlier.test ?? -1]?.name;
  return [
    outlier.why !== "" && h("p", {}, outlier.why),
    list([
      ["fix", commands(outlier.fix)],
      ["rule", `${outlier.rule} (${SEVERITY[outlier.severity]})`],
      ["test", test ?? ""],
      ["found in", outlier.repeats > 1 ? `${count(outlier.repeats, "record")}${machines(outlier).length === 1 ? ` of this ${state.words.row}` : ""}` : ""],
      ["record", outlier.file !== "" ? h("code", {}, outlier.file) : ""],
    ]),
  ];
}
