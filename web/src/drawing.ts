// The drawing of the machine: boxes and wires, highlighted by the selection.

import { select } from "d3-selection";
import type { FindingView, LinkView, MachineReport, NodeBox, NodeView, Wire } from "./document";
import { h, s } from "./dom";
import { number } from "./format";
import { lit, standsFor, type State } from "./state";

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

/** The worst of some marks. */
function worst(marks: Map<number, FindingView["severity"]>, of: number[]): FindingView["severity"] | undefined {
  const found = of.flatMap((at) => marks.get(at) ?? []);
  return found.sort((a, b) => RANK[b] - RANK[a])[0];
}

/** Draws a machine; it follows the state's choice. */
export function drawing(state: State): HTMLElement {
  const { machine } = state;
  const { drawing } = machine;
  const found = marks(machine);
  // a wire's own link is the last; the others lead through nodes without a box
  const own = (w: Wire) => machine.links[w.links.at(-1) ?? -1];
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
      const link = own(w);
      const tone = w.tone === null || w.tone === undefined ? "tone-none" : `tone-${w.tone}`;
      const mark = worst(found.links, w.links);
      return ["wire", w.shape, tone, (link?.assumed ?? true) && "assumed", link?.narrow && "narrow", mark && `mark-${mark}`]
        .filter(Boolean)
        .join(" ");
    })
    .attr("data-link", (w) => w.links.at(-1) ?? null)
    .on("click", (_, w) => {
      const link = w.links.at(-1);
      if (link !== undefined) state.choose({ kind: "link", link });
    });
  wire.append("path").attr("class", "hit").attr("d", (w) => w.path);
  wire.append("path").attr("class", "line").attr("d", (w) => w.path).attr("stroke-width", (w) => w.stroke);
  wire
    .append("text")
    // an arc's label begins where its box may have a badge
    .attr("x", (w) => w.at.x + (w.shape === "arc" && worst(found.links, w.links) ? 9 : 0))
    .attr("y", (w) => w.at.y)
    .text((w) => {
      const label = w.label ?? "";
      if (label.startsWith("⚠") || !worst(found.links, w.links)) return label;
      return `⚠ ${label || (own(w)?.what ?? "")}`.trimEnd();
    });
  wire.filter((w) => worst(found.links, w.links) !== undefined).raise();
  wire.append("title").text((w) => {
    const link = own(w);
    return link ? linkLine(machine, link) : "";
  });

  const { box_width: width, box_height: height } = drawing;
  const box = svg
    .append("g")
    .selectAll("g")
    .data(drawing.boxes)
    .join("g")
    .attr("class", (b: NodeBox) => {
      const node = machine.nodes[b.node ?? -1];
      return `box ${node?.kind ?? "cpu"}${(node?.assumed ?? true) ? " assumed" : ""}`;
    })
    .attr("transform", (b) => `translate(${b.x} ${b.y})`)
    .attr("data-node", (b) => b.node ?? null)
    // sockets of unknown number have no details
    .attr("role", (b) => (isNode(b) ? "button" : null))
    .attr("tabindex", (b) => (isNode(b) ? (b === drawing.boxes.find(isNode) ? 0 : -1) : null))
    .attr("aria-label", (b) => {
      if (!isNode(b)) return null;
      const mark = worst(found.nodes, standsFor(b));
      // begins with the visible text, for users of speech control
      const visible = `${fit(b.name)} ${fit(b.product)}`.trim();
      return [`${visible}${mark ? " !" : ""}`, mark, machine.nodes[b.node ?? -1]?.assumed && "assumed"].filter(Boolean).join(", ");
    })
    .on("click", (_, b) => chooseNode(state, b));
  box.append("rect").attr("width", width).attr("height", height).attr("rx", 4);
  box
    .append("text")
    .attr("class", "name")
    .attr("x", 8)
    .attr("y", (b) => (b.product ? height / 2 - 2 : height / 2 + 4))
    // the space separates name and product for screen readers
    .text((b) => `${fit(b.name)} `);
  box
    .append("text")
    .attr("class", "product")
    .attr("x", 8)
    .attr("y", height / 2 + 11)
    .text((b) => fit(b.product));
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
  const marked = box.filter((b) => worst(found.nodes, standsFor(b)) !== undefined);
  const badge = marked
    .append("g")
    .attr("class", (b) => `badge mark-${worst(found.nodes, standsFor(b)) ?? "info"}`)
    .attr("transform", `translate(${width - 4} 4)`);
  badge.append("circle").attr("r", 7.5);
  badge.append("text").attr("text-anchor", "middle").attr("y", 4).text("!");
  box.append("title").text((b) => {
    const node = machine.nodes[b.node ?? -1];
    return node ? nodeLine(node) : `${b.name}, ${b.product}`;
  });
  box.on("keydown", (event: KeyboardEvent, b) => {
    if (event.key === "Enter" || event.key === " ") {
      event.preventDefault();
      chooseNode(state, b);
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
    wire.classed("lit", (w) => w.links.some((link) => shown?.links.has(link)));
    wire.classed("tight", (w) => w.links.some((link) => shown?.tight.has(link)));
    box.classed("lit", (b) => standsFor(b).some((node) => shown?.nodes.has(node)));
  });
  const frame = h("div", { class: "scroll", tabindex: 0, role: "group", "aria-label": "Drawing (scrollable)" });
  frame.append(root);
  // where the drawing is wider than the page, what is at fault is shown first
  requestAnimationFrame(() => {
    if (found.links.size + found.nodes.size > 0) frame.scrollLeft = frame.scrollWidth;
  });
  return frame;
}

const isNode = (box: NodeBox) => box.node !== null && box.node !== undefined;

function chooseNode(state: State, box: NodeBox): void {
  if (box.node !== null && box.node !== undefined) state.choose({ kind: "node", node: box.node });
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
    if (!isNode(box)) return;
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
  if (machine.drawing.wires.some((w) => w.tone !== null && w.tone !== undefined)) list.append(h("li", {}, "Raw rate of one direction:"));
  TONES.forEach((text, tone) => {
    if (machine.drawing.wires.some((w) => w.tone === tone)) sample(`tone-${tone}`, text);
  });
  if (machine.links.some((l) => l.narrow)) sample("narrow", "⚠ narrower than possible: x1 of x8");
  const found = marks(machine);
  if ([...found.links.keys()].some((at) => !machine.links[at]?.narrow)) sample("narrow", "⚠ named by a finding");
  if (machine.links.some((l) => l.assumed) || machine.nodes.some((n) => n.assumed)) sample("tone-none assumed", "dashed: assumed");
  return list;
}
