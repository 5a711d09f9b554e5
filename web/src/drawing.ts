// The drawing of the machine: boxes and wires, highlighted by the selection.

import { select } from "d3-selection";
import type { FindingView, LinkView, MachineReport, NodeBox, NodeView, Wire } from "./document";
import { h, s } from "./dom";
import { number } from "./format";
import { lit, type State } from "./state";

/** The severity of the worst finding about each node and link. */
export interface Marks {
  nodes: Map<number, FindingView["severity"]>;
  links: Map<number, FindingView["severity"]>;
}

const RANK = { info: 0, warning: 1, error: 2 } as const;

/** The marks of errors and warnings; notes have none. */
export function marks(machine: MachineReport): Marks {
  const found: Marks = { nodes: new Map(), links: new Map() };
  const mark = (map: Map<number, FindingView["severity"]>, at: number, severity: FindingView["severity"]) => {
    const known = map.get(at);
    if (known === undefined || RANK[severity] > RANK[known]) map.set(at, severity);
  };
  for (const finding of machine.findings.filter((f) => f.severity !== "info")) {
    finding.boxes.forEach((node) => mark(found.nodes, node, finding.severity));
    finding.links.forEach((link) => mark(found.links, link, finding.severity));
  }
  return found;
}

/** A node in one line. */
export function nodeLine(node: NodeView): string {
  const words = [node.name];
  if (node.product) words.push(node.product);
  if (node.assumed) words.push("assumed");
  return words.join(", ");
}

/** A link in one line. */
export function linkLine(machine: MachineReport, link: LinkView): string {
  const [a, b] = [machine.nodes[link.a]?.name ?? "?", machine.nodes[link.b]?.name ?? "?"];
  const words = [`${a}–${b}: ${link.what}`];
  if (link.rate !== null && link.rate !== undefined) words.push(`${number(link.rate)} GB/s raw each way`);
  if (link.could_be) words.push(`could be ${link.could_be}`);
  if (link.assumed) words.push("assumed");
  return words.join(", ");
}

/** The longest text that a box holds. */
const BOX_CHARS = 22;

function fit(text: string): string {
  const chars = [...text];
  return chars.length <= BOX_CHARS ? text : chars.slice(0, BOX_CHARS - 1).join("") + "…";
}

/** Draws a machine; it follows the state's choice. */
export function drawing(state: State): HTMLElement {
  const { machine } = state;
  const { drawing } = machine;
  const found = marks(machine);
  const root = s("svg", {
    viewBox: `0 0 ${drawing.width} ${drawing.height}`,
    role: "group",
    "aria-label": `Drawing of ${machine.name}: ${machine.inventory}. Arrow keys move between nodes, Enter selects.`,
    class: "drawing",
  });
  // readable at any width of the page: below this it scrolls
  root.style.setProperty("--natural", `${drawing.width}px`);
  const svg = select(root);

  const wire = svg
    .append("g")
    .selectAll("g")
    .data(drawing.wires)
    .join("g")
    .attr("class", (w: Wire) => {
      const link = machine.links[w.link];
      const tone = w.tone === null || w.tone === undefined ? "tone-none" : `tone-${w.tone}`;
      const mark = found.links.get(w.link);
      return ["wire", w.shape, tone, link?.assumed && "assumed", link?.narrow && "narrow", mark && `mark-${mark}`]
        .filter(Boolean)
        .join(" ");
    })
    .attr("data-link", (w) => w.link)
    .on("click", (_, w) => state.choose({ kind: "link", link: w.link }));
  wire.append("path").attr("class", "hit").attr("d", (w) => w.path);
  wire.append("path").attr("class", "line").attr("d", (w) => w.path).attr("stroke-width", (w) => w.stroke);
  wire
    .append("text")
    .attr("x", (w) => w.at.x)
    .attr("y", (w) => w.at.y)
    .text((w) => {
      const marked = machine.links[w.link]?.narrow || found.links.has(w.link);
      return `${marked ? "⚠ " : ""}${w.label ?? ""}`.trimEnd();
    });
  wire.append("title").text((w) => {
    const link = machine.links[w.link];
    return link ? linkLine(machine, link) : "";
  });

  const { box_width: width, box_height: height } = drawing;
  const box = svg
    .append("g")
    .selectAll("g")
    .data(drawing.boxes)
    .join("g")
    .attr("class", (b: NodeBox) => {
      const node = machine.nodes[b.node];
      return `box ${node?.kind ?? ""}${node?.assumed ? " assumed" : ""}`;
    })
    .attr("transform", (b) => `translate(${b.x} ${b.y})`)
    .attr("data-node", (b) => b.node)
    .attr("role", "button")
    .attr("tabindex", (_, i) => (i === 0 ? 0 : -1))
    .attr("aria-label", (b) => {
      const node = machine.nodes[b.node];
      const mark = found.nodes.get(b.node);
      // begins with the visible text, for users of speech control
      const visible = `${fit(node?.name ?? "")} ${fit(node?.product ?? "")}`.trim();
      return [`${visible}${mark ? " !" : ""}`, mark, node?.assumed && "assumed"].filter(Boolean).join(", ");
    })
    .on("click", (_, b) => state.choose({ kind: "node", node: b.node }));
  box.append("rect").attr("width", width).attr("height", height).attr("rx", 4);
  box
    .append("text")
    .attr("class", "name")
    .attr("x", 8)
    .attr("y", (b) => (machine.nodes[b.node]?.product ? height / 2 - 2 : height / 2 + 4))
    // the space separates name and product for screen readers
    .text((b) => `${fit(machine.nodes[b.node]?.name ?? "")} `);
  box
    .append("text")
    .attr("class", "product")
    .attr("x", 8)
    .attr("y", height / 2 + 11)
    .text((b) => fit(machine.nodes[b.node]?.product ?? ""));
  // a wide text is condensed once it is in the document and has a width
  const room = width - 14;
  requestAnimationFrame(() => {
    for (const text of root.querySelectorAll<SVGTextElement>(".box > text")) {
      if (text.getComputedTextLength() > room) {
        text.setAttribute("textLength", String(room));
        text.setAttribute("lengthAdjust", "spacingAndGlyphs");
      }
    }
  });
  const marked = box.filter((b) => found.nodes.has(b.node));
  const badge = marked
    .append("g")
    .attr("class", (b) => `badge mark-${found.nodes.get(b.node)}`)
    .attr("transform", `translate(${width - 4} 4)`);
  badge.append("circle").attr("r", 7.5);
  badge.append("text").attr("text-anchor", "middle").attr("y", 4).text("!");
  box.append("title").text((b) => {
    const node = machine.nodes[b.node];
    return node ? nodeLine(node) : "";
  });
  box.on("keydown", (event: KeyboardEvent, b) => {
    if (event.key === "Enter" || event.key === " ") {
      event.preventDefault();
      state.choose({ kind: "node", node: b.node });
      return;
    }
    const next = neighbour(drawing.boxes, b, event.key);
    if (next < 0) return;
    event.preventDefault();
    const all = box.nodes() as SVGGElement[];
    all.forEach((element, i) => element.setAttribute("tabindex", i === next ? "0" : "-1"));
    all[next]?.focus();
  });

  if (drawing.arcs) {
    svg
      .append("text")
      .attr("class", "arcs")
      .attr("text-anchor", "end")
      .attr("x", drawing.width - 6)
      .attr("y", drawing.height - 4)
      .text(`arcs: ${drawing.arcs}`);
  }

  state.onChange((choice) => {
    const shown = lit(machine, choice);
    const some = shown !== null && shown.nodes.size + shown.links.size > 0;
    root.classList.toggle("choosing", some);
    wire.classed("lit", (w) => shown?.links.has(w.link) ?? false);
    wire.classed("tight", (w) => shown?.tight.has(w.link) ?? false);
    box.classed("lit", (b) => shown?.nodes.has(b.node) ?? false);
  });
  const frame = h("div", { class: "scroll", tabindex: 0, role: "group", "aria-label": "Drawing (scrollable)" });
  frame.append(root);
  return frame;
}

const ARROWS: Record<string, [number, number]> = {
  ArrowLeft: [-1, 0],
  ArrowRight: [1, 0],
  ArrowUp: [0, -1],
  ArrowDown: [0, 1],
};

/** The index of the nearest box in an arrow's direction; −1 if there is none. */
export function neighbour(boxes: NodeBox[], from: NodeBox, key: string): number {
  const step = ARROWS[key];
  if (!step) return -1;
  const [dx, dy] = step;
  let [best, distance] = [-1, Infinity];
  boxes.forEach((box, i) => {
    const [x, y] = [box.x - from.x, box.y - from.y];
    const along = x * dx + y * dy;
    const aside = Math.abs(x * dy) + Math.abs(y * dx);
    if (along > 1 && along + 2 * aside < distance) [best, distance] = [i, along + 2 * aside];
  });
  return best;
}

const TONES = ["below 2 GB/s", "2–15 GB/s", "15–31 GB/s", "31–100 GB/s", "100 GB/s and more"];

/** The meaning of the colours, dashes and marks that occur. */
export function legend(machine: MachineReport): HTMLElement {
  const list = h("ul", { class: "legend", "aria-label": "Legend" });
  const sample = (kind: string, text: string) => {
    const line = s("svg", { viewBox: "0 0 30 12", class: "sample", "aria-hidden": "true" });
    line.append(s("g", { class: `wire ${kind}` }, s("path", { class: "line", d: "M1 6 H29", "stroke-width": 3.5 })));
    list.append(h("li", {}, line, text));
  };
  TONES.forEach((text, tone) => {
    if (machine.drawing.wires.some((w) => w.tone === tone)) sample(`tone-${tone}`, text);
  });
  if (machine.links.some((l) => l.narrow)) sample("narrow", "⚠ narrower than possible");
  if (machine.links.some((l) => l.assumed) || machine.nodes.some((n) => n.assumed)) sample("tone-none assumed", "dashed: assumed");
  list.append(h("li", { class: "hint" }, "(raw rate of one direction)"));
  return list;
}
