// Details of the selected cell, node or link: the path hop by hop, the bottleneck, and the sources.

import type { MachineReport } from "./document";
import { button, h, list, refill, type Child } from "./dom";
import { linkLine } from "./drawing";
import { number } from "./format";
import { hops, type Choice, type State } from "./state";

/** The panel; empty until something is selected. */
export function panel(state: State): HTMLElement {
  const root = h("section", { class: "panel", "aria-live": "polite", "aria-label": "Selection" });
  const show = (choice: Choice | null) => {
    const isTold = choice !== null && choice.kind !== "way";
    root.classList.toggle("open", isTold);
    if (!isTold) {
      refill(root, h("p", { class: "hint" }, "Select a cell, a node or a link to highlight it in the drawing and see its details here."));
      return;
    }
    const close = button("Close", () => state.choose(null), { class: "close" });
    refill(root, close, ...details(state, choice));
  };
  show(null);
  state.onChange(show);
  return root;
}

function details(state: State, choice: Choice): Child[] {
  const { machine } = state;
  switch (choice.kind) {
    case "path":
      return pathDetails(machine, choice);
    case "way":
      return [];
    case "node": {
      const node = machine.nodes[choice.node];
      if (!node) return [];
      const links = machine.links
        .map((link, at) => ({ link, at }))
        .filter(({ link }) => link.a === choice.node || link.b === choice.node)
        .map(({ link, at }) =>
          h("li", {}, button(linkLine(machine, link), () => state.choose({ kind: "link", link: at }), { class: "plain" })),
        );
      return [
        h("h3", {}, [node.name, node.product].filter(Boolean).join(" · ")),
        node.assumed && h("p", {}, "Assumed: no source states it."),
        list(node.details.map(({ label, text }) => [label, text])),
        links.length > 0 && h("h4", {}, "Its links"),
        links.length > 0 && h("ul", { class: "links" }, ...links),
        from(machine, node.sources),
      ];
    }
    case "link": {
      const link = machine.links[choice.link];
      if (!link) return [];
      const [a, b] = [machine.nodes[link.a]?.name ?? "?", machine.nodes[link.b]?.name ?? "?"];
      const rate = link.rate === null || link.rate === undefined ? "unknown" : `${number(link.rate)} GB/s raw, each way`;
      return [
        h("h3", {}, `${a} – ${b}`),
        list([
          ["link", link.what],
          ["rate", rate],
          ["could be", link.could_be ?? ""],
          ["assumed", link.assumed ? "yes: no source states it" : ""],
          ["note", link.note ?? ""],
        ]),
        from(machine, link.sources),
      ];
    }
    case "finding": {
      const finding = machine.findings[choice.finding];
      return finding ? [h("h3", {}, finding.summary), h("p", {}, `Highlighted: ${finding.subjects.join(", ") || "nothing"}`)] : [];
    }
  }
}

/** Links to sources. */
export function from(machine: MachineReport, sources: number[]): HTMLElement | false {
  const known = [...new Set(sources)].filter((at) => machine.evidence[at]);
  if (known.length === 0) return false;
  const root = h("p", { class: "from" }, "from ");
  known.forEach((at, i) => {
    if (i > 0) root.append("; ");
    root.append(h("a", { href: `#evidence-${at}` }, machine.evidence[at]?.place ?? ""));
  });
  return root;
}

function pathDetails(machine: MachineReport, choice: Extract<Choice, { kind: "path" }>): Child[] {
  const path = choice.path === null ? undefined : machine.paths[choice.path];
  const word = (at: number | null | undefined) => (at === null || at === undefined ? "" : (machine.words[at] ?? ""));
  const head: Child[] = [h("h3", {}, choice.title), ...choice.lines.map((line) => h("p", {}, line))];
  if (choice.bound) head.push(h("p", { class: "bound" }, h("strong", {}, "Bottleneck: "), choice.bound));
  if (!path) return head;
  const because = word(path.because);
  const kind =
    path.staged === true
      ? `staged through host memory${because ? `: ${because}` : ""}`
      : path.staged === false
        ? "direct"
        : "rate unknown";
  const body = h("tbody", {});
  for (const { hop, tightest } of hops(machine, choice.path)) {
    const link = hop.link === null || hop.link === undefined ? undefined : machine.links[hop.link];
    const [a, b] = [machine.nodes[hop.from]?.name ?? "?", machine.nodes[hop.to]?.name ?? "?"];
    const limit = hop.limit === null || hop.limit === undefined ? "" : number(hop.limit);
    const [least, most] = (hop.range ?? []).map(number);
    body.append(
      h(
        "tr",
        { class: tightest ? "tightest" : null },
        h("th", { scope: "row" }, `${a} → ${b}`),
        h("td", {}, link?.what ?? ""),
        h("td", { class: "number" }, limit, tightest && h("span", { title: "the slowest hop" }, " ◄")),
        h("td", { class: "number" }, least !== most && `${least} to ${most}`),
        h("td", {}, word(hop.why)),
      ),
    );
  }
  return [
    ...head,
    h("p", {}, [path.class, kind].filter(Boolean).join(", ")),
    h(
      "div",
      { class: "scroll", tabindex: 0, role: "group", "aria-label": "Hops" },
      h(
        "table",
        { class: "hops" },
        h("caption", {}, "Hops, with the rate that each allows a single transfer (◄ slowest)"),
        h("thead", {}, h("tr", {}, ...["hop", "link", "GB/s", "range", "why"].map((t) => h("th", { scope: "col" }, t)))),
        body,
      ),
    ),
  ];
}
