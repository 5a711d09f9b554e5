// Elements from names, attributes and text. Text only ever becomes text nodes, so that names in a capture cannot be
// markup, and the page's policy forbids markup made from strings as well.

export type Child = Node | string | null | undefined | false;

type Attributes = Readonly<Record<string, string | number | boolean | null | undefined>>;

/** An HTML element. An attribute that is `true` has no value; one that is `false` or absent is omitted. */
export function h<K extends keyof HTMLElementTagNameMap>(
  tag: K,
  attributes: Attributes = {},
  ...children: Child[]
): HTMLElementTagNameMap[K] {
  const element = document.createElement(tag);
  set(element, attributes);
  add(element, children);
  return element;
}

const SVG = "http://www.w3.org/2000/svg";

/** An SVG element. */
export function s<K extends keyof SVGElementTagNameMap>(
  tag: K,
  attributes: Attributes = {},
  ...children: Child[]
): SVGElementTagNameMap[K] {
  const element = document.createElementNS(SVG, tag);
  set(element, attributes);
  add(element, children);
  return element;
}

function set(element: Element, attributes: Attributes): void {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    element.setAttribute(name, value === true ? "" : String(value));
  }
}

function add(element: Element, children: Child[]): void {
  for (const child of children) {
    if (child) element.append(child);
  }
}

/** A button with an action. */
export function button(label: Child, act: () => void, attributes: Attributes = {}): HTMLButtonElement {
  const element = h("button", { type: "button", ...attributes }, label);
  element.addEventListener("click", act);
  return element;
}

/** Replaces the content of an element. */
export function refill(element: Element, ...children: Child[]): void {
  element.replaceChildren();
  add(element, children);
}

/** Labels with texts; those without a text are omitted. */
export function list(rows: [string, string | Node][]): HTMLElement {
  const root = h("dl", {});
  for (const [label, text] of rows.filter(([, text]) => text !== "")) {
    root.append(h("div", {}, h("dt", {}, label), h("dd", {}, text)));
  }
  return root;
}

/** A text with commands between backticks; empty if the text is. */
export function commands(text: string): string | Node {
  if (!text.includes("`")) return text;
  // every second piece is between two backticks
  return h("span", {}, ...text.split("`").map((piece, at) => (at % 2 === 1 ? h("code", {}, piece) : piece)));
}
