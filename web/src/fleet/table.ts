// The values of the heat map as a table, a page at a time: the same machines in the same order.

import { button, h, refill } from "../dom";
import { many, ratio } from "./format";
import type { State } from "./state";

/** Machines on a page. */
const PAGE = 50;

export function valueTable(state: State): HTMLElement {
  const place = h("output", {});
  const previous = button("Previous", () => turn(-1));
  const next = button("Next", () => turn(1));
  const scroll = h("div", { class: "scroll values", tabindex: 0, role: "group", "aria-label": "Values (scrollable)" });
  const root = h(
    "details",
    { class: "screen" },
    h("summary", {}, "The heat map as a table"),
    h("p", { class: "actions" }, previous, next, place),
    scroll,
  );
  const rows = state.fleet.nodes ? "Nodes" : "Machines";
  let page = 0;
  const pages = () => Math.max(1, Math.ceil(state.machines.length / PAGE));
  const fill = () => {
    // thousands of rows by a hundred columns are built when they are wanted
    if (!root.open) return;
    const shown = state.machines.slice(page * PAGE, (page + 1) * PAGE);
    const from = page * PAGE;
    place.textContent = shown.length > 0 ? `${rows} ${many(from + 1)} to ${many(from + shown.length)} of ${many(state.machines.length)}` : `No ${state.words.row}`;
    previous.disabled = page === 0;
    next.disabled = page + 1 >= pages();
    refill(scroll, table(state, shown));
  };
  const turn = (by: number) => {
    page = Math.max(0, Math.min(pages() - 1, page + by));
    fill();
  };
  root.addEventListener("toggle", fill);
  state.onFilter(() => {
    page = 0;
    fill();
  });
  return root;
}

function table(state: State, machines: number[]): HTMLElement {
  const { nodes } = state.fleet;
  const tests = state.tests();
  const heads = tests.map((test) => h("th", { scope: "col" }, state.fleet.tests[test]?.name ?? ""));
  const rows = machines.map((machine) => {
    const cells = tests.map((test) => {
      const score = state.score({ machine, test });
      const found = state.at({ machine, test }).length > 0;
      return h("td", { class: found ? "number short" : "number" }, score === null ? "–" : ratio(score), found && " outlier");
    });
    const name = button(state.name(machine), () => state.show(machine), { class: "plain machine" });
    return h("tr", {}, h("th", { scope: "row" }, name), h("td", {}, state.machine(machine)?.action ?? ""), ...cells);
  });
  return h(
    "table",
    { class: "values" },
    h("caption", {}, nodes ? `${nodes.values[state.values]?.name ?? ""}, share of ${nodes.values[state.values]?.of ?? ""}; – was not measured` : "Worst value of each machine over the median of its kind; – was not measured"),
    h("thead", {}, h("tr", {}, h("th", { scope: "col" }, state.words.row), h("th", { scope: "col" }, "action"), ...heads)),
    h("tbody", {}, ...rows),
  );
}
