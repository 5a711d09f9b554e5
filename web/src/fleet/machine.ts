// One machine: its outliers, and its values test by test.

import { button, h, list, refill, type Child } from "../dom";
import { distance } from "./colour";
import { count, minute, ratio } from "./format";
import { badge, details } from "./outliers";
import { MEANING, type State } from "./state";

/** Tests that are listed at once, the lowest first; the others are one click away. */
const SHOWN = 10;

export function machineView(state: State): HTMLElement {
  const root = h("aside", { class: "machine-view", "aria-label": state.fleet.nodes ? "Node" : "Machine", tabindex: -1, hidden: true });
  // where the focus returns to
  let from: Element | null = null;
  state.onOpen(() => {
    const at = state.open;
    if (at === null) {
      const had = root.contains(document.activeElement);
      root.hidden = true;
      if (had && from instanceof HTMLElement && from.isConnected) from.focus();
      return;
    }
    if (!root.contains(document.activeElement)) from = document.activeElement;
    refill(root, button("Close", () => state.show(null), { class: "close" }), ...content(state, at));
    root.hidden = false;
    root.scrollTop = 0;
    root.focus({ preventScroll: true });
  });
  return root;
}

function content(state: State, at: number): Child[] {
  const machine = state.machine(at);
  if (!machine) return [];
  const { fleet } = state;
  const [first, last] = [minute(machine.first ?? ""), minute(machine.last ?? "")];
  const when = first === last ? first : `${first} to ${last}`;
  const outliers = (state.of[at] ?? []).flatMap((i) => {
    const outlier = state.outlier(i);
    if (!outlier) return [];
    const part = outlier.part ? `${outlier.part}: ` : "";
    return h("li", {}, h("h4", {}, badge(outlier), " ", part, outlier.summary), ...details(state, outlier));
  });
  return [
    h("h2", {}, machine.name),
    machine.action && h("p", {}, badge({ action: machine.action }), ` ${MEANING[machine.action]}`),
    fleet.nodes
      ? h("ul", { class: "facts" }, ...(machine.facts ?? []).map((fact) => h("li", {}, fact)))
      : list([
          ["kind", fleet.kinds[machine.kind]?.name ?? ""],
          ["records", `${count(machine.records, "record")}${when && `, ${when}`}`],
        ]),
    h("h3", {}, fleet.nodes ? "Findings" : "Outliers"),
    outliers.length > 0 ? h("ul", { class: "of-machine" }, ...outliers) : h("p", {}, "None."),
    ...scores(state, at),
  ];
}

/** Between nodes: what a node sends and what it receives, which other rows have where columns are nodes. */
function paths(state: State, machine: number): { name: string; score: number }[] {
  const { tests, machines } = state.fleet;
  return tests.flatMap(({ node, way }, test) => {
    const senders = node === machine && way !== "both" ? machines.map((_, at) => at).filter((at) => at !== machine) : [];
    return [machine, ...senders].flatMap((row) => {
      const cell = { machine: row, test };
      const score = state.score(cell);
      return score === null ? [] : [{ name: state.between(cell), score }];
    });
  });
}

/** Values over the median of the kind, the lowest first. */
function scores(state: State, machine: number): Child[] {
  const all = state.fleet.nodes
    ? paths(state, machine)
    : state.fleet.tests.flatMap(({ name }, test) => {
        const score = state.score({ machine, test });
        return score === null ? [] : [{ name, score }];
      });
  all.sort((a, b) => a.score - b.score);
  const head = h("thead", {}, h("tr", {}, ...(state.fleet.nodes ? ["path", "share", ""] : ["test", "over the median", ""]).map((text, i) => (i < 2 ? h("th", { scope: "col", class: i === 1 && "number" }, text) : h("td", {})))));
  const body = h("tbody", {}, ...all.slice(0, SHOWN).map(row));
  const rest = all.slice(SHOWN);
  const more = button(`Show all ${count(all.length, state.fleet.nodes ? "value" : "test")}`, () => {
    body.append(...rest.map(row));
    more.remove();
  });
  // most pairs of many nodes are not measured
  const absent = state.fleet.nodes ? 0 : state.fleet.tests.length - all.length;
  return [
    h("h3", {}, state.fleet.nodes ? "Paths, lowest share first" : "Tests, lowest first"),
    all.length > 0 && h("table", { class: "scores" }, head, body),
    rest.length > 0 && h("p", { class: "actions" }, more),
    absent > 0 && h("p", { class: "hint" }, `${count(absent, "test")} of the fleet not measured on this machine.`),
  ];
}

function row({ name, score }: { name: string; score: number }): HTMLElement {
  const far = distance(score);
  const bar = h("span", { class: far < 0 ? "bar low" : "bar high" });
  bar.style.setProperty("--at", `${(Math.abs(far) * 50).toFixed(1)}%`);
  return h("tr", {}, h("th", { scope: "row" }, name), h("td", { class: "number" }, ratio(score)), h("td", { class: "bar-cell", "aria-hidden": "true" }, bar));
}
