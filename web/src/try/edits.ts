// What if: changes of a design in the program's language, with completions, undo and redo.

import type { MachineReport } from "../document";
import { button, h, refill } from "../dom";

/** A part that a device can become. */
export interface Part {
  name: string;
  title: string;
  kind: string;
}

/** The most completions that are offered, and the most nodes that they are about. */
const OFFERED = 80;
const KNOWN = 512;

const WIDTHS = ["x16", "x8", "x4", "x1", "pcie 3.0 x16", "pcie 4.0 x16", "pcie 5.0 x16", "none"];
const METHODS = ["nvp2p", "bar1", "staged", "none"];
const ENDS = new Set(["gpu", "nic", "card", "nvme", "fpga"]);
const ABOVE = new Set(["switch", "root-complex", "cpu"]);

/** What may stand in place of a text that is being written: whole changes, or their beginnings. */
export function completions(text: string, machines: MachineReport[], parts: Part[]): string[] {
  const nodes = machines.flatMap((machine) => machine.nodes.slice(0, KNOWN)).slice(0, KNOWN);
  const [what, to] = text.split("=", 2);
  const all = to === undefined ? beginnings(what ?? "", nodes) : endings(what ?? "", nodes, parts).map((end) => `${what}=${end}`);
  const like = text.trim().toLowerCase();
  return [...new Set(all)].filter((one) => one.toLowerCase().includes(like) && one !== text).slice(0, OFFERED);
}

function beginnings(what: string, nodes: MachineReport["nodes"]): string[] {
  const ends = nodes.filter(({ kind }) => ENDS.has(kind));
  // a pair once its first device is written
  const first = ends.find(({ name }) => what.toLowerCase().startsWith(`${name.toLowerCase()}-`))?.name;
  const others = first === undefined ? [] : nodes.filter(({ name }) => name !== first);
  return [
    ...ends.flatMap(({ name }) => [`${name}.link=`, `${name}.at=`, `${name}.part=`]),
    ...nodes.filter(({ kind }) => ABOVE.has(kind)).flatMap(({ name }) => [`${name}.link=`, `${name}.part=`]),
    ...ends.filter(({ kind }) => kind === "nic").map(({ name }) => `${name}.method=`),
    "p2p=on",
    "p2p=off",
    ...nodes.map(({ name }) => `${name}=none`),
    ...others.flatMap(({ name }) => [`${first}-${name}=`, `${first}-${name}.p2p=`]),
  ];
}

function endings(what: string, nodes: MachineReport["nodes"], parts: Part[]): string[] {
  const dot = what.lastIndexOf(".");
  const [name, property] = dot < 0 ? [what, ""] : [what.slice(0, dot), what.slice(dot + 1)];
  switch (property) {
    case "link":
      return WIDTHS;
    case "at":
      return nodes.filter(({ kind }) => ABOVE.has(kind)).map((node) => node.name);
    case "part": {
      const kind = nodes.find((node) => node.name === name)?.kind;
      return parts.filter((part) => kind === undefined || part.kind === kind).map((part) => part.name);
    }
    case "method":
      return METHODS;
    case "p2p":
      return ["on", "off"];
    default:
      return what === "p2p" ? ["on", "off"] : ["none", "nvlink 4", "nvlink 2", "xgmi 1", "pcie 4.0 x16", ...parts.map((part) => part.name)];
  }
}

/** The changes that are made, and those that were. */
export class History {
  #past: string[][] = [];
  #next: string[][] = [];
  edits: string[] = [];

  /** Other changes instead; the ones before can be had back. */
  become(edits: string[]): void {
    this.#past.push(this.edits);
    this.#next = [];
    this.edits = edits;
  }

  /** Forgets all. */
  clear(): void {
    [this.#past, this.#next, this.edits] = [[], [], []];
  }

  undo(): boolean {
    return this.#step(this.#past, this.#next);
  }

  redo(): boolean {
    return this.#step(this.#next, this.#past);
  }

  get canUndo(): boolean {
    return this.#past.length > 0;
  }

  get canRedo(): boolean {
    return this.#next.length > 0;
  }

  #step(from: string[][], to: string[][]): boolean {
    const edits = from.pop();
    if (!edits) return false;
    to.push(this.edits);
    this.edits = edits;
    return true;
  }
}

/** The form: `changed` shows the design with the changes, and fails with the reason where it cannot be. */
export function whatIf(
  history: History,
  machines: () => MachineReport[],
  parts: () => Promise<Part[]>,
  changed: () => Promise<void>,
): { root: HTMLDetailsElement; add: (edits: string[]) => Promise<void>; refresh: () => void } {
  const list = h("datalist", { id: "changes" });
  const field = h("input", { id: "change", list: "changes", autocomplete: "off", spellcheck: "false", placeholder: "GPU0.link=pcie 4.0 x8" });
  const said = h("p", { role: "alert", class: "refused" });
  const made = h("ol", { class: "edits", "aria-label": "Changes" });
  const undo = button("Undo", () => void step(() => history.undo()));
  const redo = button("Redo", () => void step(() => history.redo()));
  let known: Part[] = [];

  const offer = () => {
    const options = completions(field.value, machines(), known);
    refill(list, ...options.map((value) => h("option", { value, label: known.find(({ name }) => value.endsWith(`=${name}`))?.title })));
  };
  const refresh = () => {
    refill(made, ...history.edits.map((edit, at) => h("li", {}, h("code", {}, edit), " ", button("Remove", () => void add(history.edits.filter((_, i) => i !== at), true), { "aria-label": `Remove ${edit}` }))));
    undo.disabled = !history.canUndo;
    redo.disabled = !history.canRedo;
    offer();
  };
  const step = async (move: () => boolean) => {
    said.textContent = "";
    if (move()) await changed();
    refresh();
  };
  const add = async (edits: string[], instead = false) => {
    said.textContent = "";
    history.become(instead ? edits : [...history.edits, ...edits]);
    try {
      await changed();
      field.value = "";
      if (edits.length > 0) root.open = true;
    } catch (error) {
      history.undo();
      said.textContent = error instanceof Error ? error.message : String(error);
      field.focus();
    }
    refresh();
  };
  field.addEventListener("input", offer);
  field.addEventListener("focus", () => {
    void parts().then((found) => {
      known = found;
      offer();
    });
  });
  const form = h("form", { class: "change" },
    h("label", { for: "change" }, "A change in the language of "), h("code", {}, "--what-if"),
    h("span", { class: "row" }, field, list, h("button", { type: "submit" }, "Change"), undo, redo),
  );
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    if (field.value.trim()) void add([field.value.trim()]);
  });
  const root = h("details", { class: "screen what-if", id: "what-if" },
    h("summary", {}, "What if: change the design"),
    h("p", { class: "hint" }, "A link: GPU0.link=pcie 4.0 x16. A place: GPU2.at=plx0. A part: GPU0.part=a100-pcie. Remove: GPU3=none. Peer access: p2p=off. The design before stays beside it."),
    form, said, made,
  );
  refresh();
  return { root, add: (edits) => add(edits), refresh };
}
