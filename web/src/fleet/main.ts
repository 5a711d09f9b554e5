// The page of a fleet: how it is, the outliers, the worst first, and a heat map of all machines. Of nodes that measured each
// other it is the same, with nodes for machines and their partners for tests.

import type { Action, FleetPage } from "./document";
import { button, h, type Child } from "../dom";
import { copy } from "../share";
import { count, many } from "./format";
import { kindsView } from "./kinds";
import { machineView } from "./machine";
import { mapView } from "./map";
import { outlierList } from "./outliers";
import { groupsView, pairsView, valuesView } from "./pairs";
import { ACTIONS, MEANING, rows, State } from "./state";
import { valueTable } from "./table";

function start(): void {
  const root = document.getElementById("fleet");
  if (!root) return;
  const fleet = JSON.parse(document.getElementById("data")?.textContent ?? "") as FleetPage;
  const state = new State(fleet);
  const parts: [string, string, Child[]][] = [
    ["outliers", fleet.nodes ? "Findings" : "Outliers", [outlierList(state), leftOut(state)]],
    ["map", "Heat map", fleet.tests.length > 0 ? [mapView(state), valueTable(state)] : []],
    ["pairs", "Values, the worst first", fleet.nodes && fleet.nodes.pairs.length > 0 ? [pairsView(fleet.nodes)] : []],
    ["groups", "All-reduces of groups", fleet.nodes && fleet.nodes.groups.length > 0 ? [groupsView(fleet.nodes)] : []],
    ["values", "All values", fleet.nodes ? [valuesView(fleet.nodes)] : []],
    ["kinds", "Kinds of machines", fleet.kinds.length > 0 ? [kindsView(state)] : []],
    ["notes", "Notes", fleet.notes.length > 0 ? [h("ul", {}, ...fleet.notes.map((note) => h("li", {}, note)))] : []],
    ["unread", "Not read", fleet.unread.length > 0 ? [unread(fleet)] : []],
  ];
  const shown = parts.filter(([, , content]) => content.some(Boolean));
  const links = shown.map(([id, title]) => h("a", { href: `#${id}` }, title));
  const sections = shown.map(([id, title, content]) =>
    h("section", { id, "aria-labelledby": `${id}-title` }, h("h2", { id: `${id}-title` }, title), ...content),
  );
  root.append(
    header(state),
    h("nav", { "aria-label": "Parts of the page" }, ...links),
    filterBar(state),
    h("main", {}, ...sections),
    machineView(state),
    h("footer", {}, h("p", {}, `Written by peerlane ${fleet.peerlane}. This file makes no network requests.`)),
  );
  addEventListener("keydown", (event) => {
    if (event.key === "Escape" && state.open !== null) state.show(null);
  });
  // what is folded is open in print
  let closed: HTMLElement[] = [];
  addEventListener("beforeprint", () => {
    closed = [...document.querySelectorAll<HTMLElement>("details:not([open]):not(.screen), tr.more[hidden]")];
    for (const one of closed) fold(one, false);
  });
  addEventListener("afterprint", () => {
    for (const one of closed) fold(one, true);
  });
}

function fold(element: HTMLElement, yes: boolean): void {
  if (element instanceof HTMLDetailsElement) element.open = !yes;
  else element.hidden = yes;
}

function header(state: State): HTMLElement {
  const { fleet } = state;
  if (fleet.nodes) {
    const { name, verdict, cause, summary } = fleet.nodes;
    return h(
      "header",
      {},
      h("h1", {}, count(fleet.machines.length, "node"), h("span", { class: "title" }, name)),
      h("p", { class: "headline" }, h("strong", { class: `badge ${verdict.toLowerCase().replace(" ", "-")}` }, verdict), ` ${cause}`),
      h("p", { class: "hint" }, summary),
      actions(state),
    );
  }
  const affected = state.of.filter((outliers) => outliers.length > 0).length;
  const facts = [count(fleet.kinds.length, "kind"), count(fleet.records, "record")];
  if (fleet.tests.length > 0) facts.push(count(fleet.tests.length, "test"));
  const skipped = fleet.unread.length + fleet.unread_left_out;
  if (skipped > 0) facts.push(`${count(skipped, "file")} not read`);
  const all = fleet.outliers.length + fleet.left_out;
  const verdict =
    all === 0
      ? "No outliers."
      : `${count(all, "outlier")} on ${count(affected, "machine")} of ${many(fleet.machines.length)}.`;
  return h(
    "header",
    {},
    h("h1", {}, count(fleet.machines.length, "machine"), h("span", { class: "title" }, facts.join(", "))),
    h("p", { class: "headline" }, verdict),
    all > 0 && actions(state),
  );
}

function actions(state: State): Child {
  const of = state.fleet.nodes ? "Findings" : "Outliers";
  return state.fleet.outliers.length > 0 && h("p", { class: "actions", role: "group", "aria-label": `${of} by action` }, ...ACTIONS.map((action) => tally(state, action)));
}

/** The outliers that ask for an action; the button leaves only these. */
function tally(state: State, action: Action): HTMLElement | false {
  const n = state.fleet.outliers.filter((outlier) => outlier.action === action).length;
  if (n === 0) return false;
  const toggle = button(h("span", {}, h("strong", {}, many(n)), ` ${action}`), () => {
    state.narrow({ action: state.filter.action === action ? null : action });
  }, { class: `badge ${action}`, "aria-pressed": "false", title: MEANING[action] });
  state.onFilter(() => toggle.setAttribute("aria-pressed", String(state.filter.action === action)));
  return toggle;
}

function filterBar(state: State): HTMLElement {
  const { fleet } = state;
  const text = h("input", { type: "search", placeholder: "name, part, rule or words", autocomplete: "off", spellcheck: "false" });
  text.addEventListener("input", () => state.narrow({ text: text.value }));
  const menu = (label: string, all: string, names: string[], choose: (at: number | null) => void) => {
    const select = h("select", {}, h("option", { value: "" }, all), ...names.map((name, at) => h("option", { value: at }, name)));
    select.addEventListener("change", () => choose(select.value === "" ? null : Number(select.value)));
    return { select, root: h("label", {}, `${label} `, select) };
  };
  const kind = menu("Kind", "all kinds", fleet.kinds.map((of) => of.name), (at) => state.narrow({ kind: at }));
  const action = menu("Action", "all", [...ACTIONS], (at) => state.narrow({ action: at === null ? null : (ACTIONS[at] ?? null) }));
  const clear = button("Clear", () => {
    state.narrow({ text: "", kind: null, action: null });
    text.focus();
  });
  const said = h("output", { class: "said" });
  const names = button(`Copy ${state.words.row} names`, () => {
    const shown = [...new Set(state.outliers.flatMap((at) => rows(state.outlier(at))))].map((at) => state.name(at));
    void copy(shown.join(",")).then((done) => {
      said.textContent = done ? `Copied ${count(shown.length, "name")}.` : "The browser does not allow copying.";
    });
  }, { title: `Names of the ${state.words.row}s whose ${state.words.found}s are listed, with commas between them` });
  const shown = h("output", { class: "shown" });
  state.onFilter(() => {
    const { filter } = state;
    if (text.value !== filter.text) text.value = filter.text;
    kind.select.value = filter.kind === null ? "" : String(filter.kind);
    action.select.value = filter.action === null ? "" : String(ACTIONS.indexOf(filter.action));
    clear.disabled = filter.text === "" && filter.kind === null && filter.action === null;
    names.disabled = state.outliers.length === 0;
    said.textContent = "";
    const of = (n: number, all: number, what: string) => (n === all ? count(all, what) : `${many(n)} of ${count(all, what)}`);
    shown.textContent = `${of(state.outliers.length, fleet.outliers.length, state.words.found)}, ${of(state.machines.length, fleet.machines.length, state.words.row)}`;
  });
  return h(
    "search",
    { class: "filter", "aria-label": "Filter" },
    h("label", {}, "Filter ", text),
    fleet.kinds.length > 1 && kind.root,
    action.root,
    clear,
    names,
    shown,
    said,
  );
}

/** What is not listed, and why. */
function leftOut({ fleet: { outliers, left_out, waived }, words }: State): Child {
  const lines = [
    left_out > 0 && `Listed are the ${many(outliers.length)} worst; ${many(left_out)} more are in the JSON and CSV output.`,
    waived > 0 && `The site's rules waive ${count(waived, `further ${words.found}`)}.`,
  ];
  return lines.some(Boolean) && h("p", { class: "hint" }, lines.filter(Boolean).join(" "));
}

function unread(fleet: FleetPage): HTMLElement {
  const rows = fleet.unread.map(({ name, why }) => h("li", {}, h("code", {}, name), `: ${why}`));
  const more = fleet.unread_left_out;
  return h("ul", { class: "unread" }, ...rows, more > 0 && h("li", {}, `and ${many(more)} more`));
}

start();
