// The path between two devices, which are selected in the drawing or from two menus.

import type { ExplanationDocument as Explanation } from "./explanation";
import { button, h, list, refill, type Child } from "../dom";
import { number } from "../format";
import type { State } from "../state";

/** Asks for the path between two nodes of a machine of the report. */
export type Ask = (at: number, a: string, b: string) => Promise<Explanation>;

const RATHER = new Set(["gpu", "nic", "host", "cpu", "card", "nvme", "fpga"]);

/** The part of a machine's section that explains; `change` makes changes of the design. */
export function explainer(state: State, at: number, ask: Ask, change: (edits: string[]) => void): HTMLElement {
  const nodes = state.machine.nodes.filter(({ kind }) => RATHER.has(kind));
  const menu = (label: string) => {
    const id = `${label}-${at}`;
    const select = h("select", { id }, h("option", { value: "" }, "choose"), ...nodes.map(({ name }) => h("option", { value: name }, name)));
    return { select, label: h("span", {}, h("label", { for: id }, label), " ", select) };
  };
  const [from, to] = [menu("From"), menu("to")];
  const answer = h("div", { class: "explanation", "aria-live": "polite" });
  let latest = 0;
  const explain = async () => {
    const [a, b] = [from.select.value, to.select.value];
    const mine = (latest += 1);
    if (!a || !b || a === b) return refill(answer, a && h("p", { class: "hint" }, `From ${a} to which device?`));
    try {
      const explained = await ask(at, a, b);
      if (mine !== latest) return;
      refill(answer, ...view(explained, change));
      const path = pathBetween(state, a, b);
      state.choose(path === null ? null : { kind: "way", path });
      // its first line, below a drawing that fills a small window; the drawing stays in sight
      answer.firstElementChild?.scrollIntoView({ block: "nearest" });
    } catch (error) {
      if (mine === latest) refill(answer, h("p", { class: "refused" }, error instanceof Error ? error.message : String(error)));
    }
  };
  for (const { select } of [from, to]) select.addEventListener("change", () => void explain());
  state.onChange((choice) => {
    const name = choice?.kind === "node" ? state.machine.nodes[choice.node]?.name : undefined;
    if (name === undefined || !nodes.some((node) => node.name === name)) return;
    if (from.select.value && !to.select.value && from.select.value !== name) to.select.value = name;
    else [from.select.value, to.select.value] = [name, ""];
    void explain();
  });
  return h("div", { class: "explain screen-part" },
    h("h3", {}, "Explain a path"),
    h("p", { class: "hint screen" }, "Select two devices in the drawing, one after the other, or here."),
    h("p", { class: "actions" }, from.label, to.label),
    answer,
  );
}

/** The path of the report that leads from one node to another, to be lit in the drawing. */
function pathBetween({ machine }: State, a: string, b: string): number | null {
  const [from, to] = [a, b].map((name) => machine.nodes.findIndex((node) => node.name === name));
  const at = machine.paths.findIndex(({ hops }) => {
    const [first, last] = [hops[0], hops.at(-1)].map((hop) => (hop === undefined ? undefined : machine.hops[hop]));
    return first?.from === from && last?.to === to;
  });
  return at < 0 ? null : at;
}

const rate = (of: Explanation["forward"]) => (of ? `${number(of.rate)} GB/s (${number(of.low)} to ${number(of.high)})` : "");

function view(of: Explanation, change: (edits: string[]) => void): Child[] {
  const way = [of.class, of.staged === true ? "staged through host memory" : of.staged === false ? "direct" : ""].filter(Boolean).join(", ");
  const measured = of.measured.slice(0, 6).map(({ what, low, unit, expected, row, col }) => {
    const ratio = expected ? `, ${(low / expected).toFixed(2)} of expected` : "";
    return h("li", {}, `${row} → ${col}: ${number(low)} ${unit}${ratio} (${what})`);
  });
  return [
    h("h4", {}, `${of.a} → ${of.b}: `, rate(of.forward) || "rate unknown"),
    list([
      ["bound by", of.forward?.bottleneck ?? ""],
      ["path", way],
      ["staged", of.staged_because ?? ""],
      ["reverse", rate(of.backward)],
      ["both ways", rate(of.both)],
      ["unknown", of.unknown.join("; ")],
    ]),
    ...of.upgrades.slice(0, 3).map((upgrade) =>
      h("p", { class: "actions" },
        button("Try it", () => change(upgrade.edits), { "aria-label": `Try it: ${upgrade.what}` }),
        h("span", {}, `${number(upgrade.rate)} GB/s (+${(100 * (upgrade.factor - 1)).toFixed(0)} %): ${upgrade.what}`),
      ),
    ),
    of.hops.length > 0 && h("div", { class: "scroll", tabindex: 0, role: "group", "aria-label": "Hops of the path" },
      h("table", {},
        h("caption", {}, "Hops, with the rate that each allows a single transfer (◄ slowest)"),
        h("tbody", {}, ...of.hops.map((hop) =>
          h("tr", {}, h("th", { scope: "row" }, `${hop.from} → ${hop.to}`), h("td", {}, hop.link ?? ""),
            h("td", { class: "number" }, hop.limit === null || hop.limit === undefined ? "" : number(hop.limit), hop.tightest && " ◄"), h("td", {}, hop.why)))),
      ),
    ),
    measured.length > 0 && h("p", {}, "Measured or published:"),
    measured.length > 0 && h("ul", {}, ...measured),
  ];
}
