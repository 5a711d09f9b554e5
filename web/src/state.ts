// The selection, and its listeners.

import type { HopView, MachineReport, NodeBox } from "./document";

/** A selection; `path` is a path with its title and lines of text. */
export type Choice =
  | { kind: "path"; path: number | null; title: string; lines: string[]; bound?: string | undefined }
  /** a path that is explained elsewhere, and only lit here */
  | { kind: "way"; path: number }
  | { kind: "node"; node: number }
  | { kind: "link"; link: number }
  | { kind: "finding"; finding: number };

type Listener = (choice: Choice | null) => void;

/** One machine and the selection in it. */
export class State {
  #choice: Choice | null = null;
  #listeners: Listener[] = [];

  constructor(readonly machine: MachineReport) {}

  /** Selects something, or nothing. */
  choose(choice: Choice | null): void {
    this.#choice = choice;
    for (const listener of this.#listeners) listener(choice);
  }

  get choice(): Choice | null {
    return this.#choice;
  }

  /** Calls back on every change. */
  onChange(listener: Listener): void {
    this.#listeners.push(listener);
  }
}

/** The hops of a path, and whether they are the slowest. */
export function hops(machine: MachineReport, path: number | null | undefined): { hop: HopView; tightest: boolean }[] {
  const way = path === null || path === undefined ? undefined : machine.paths[path];
  return (way?.hops ?? []).flatMap((at, i) => {
    const hop = machine.hops[at];
    return hop ? [{ hop, tightest: way?.tightest.includes(i) ?? false }] : [];
  });
}

/** What a selection highlights in the drawing. */
export interface Lit {
  nodes: Set<number>;
  links: Set<number>;
  tight: Set<number>;
}

/** The parts of the drawing that a selection highlights. */
export function lit(machine: MachineReport, choice: Choice | null): Lit | null {
  const nodes = new Set<number>();
  const links = new Set<number>();
  const tight = new Set<number>();
  switch (choice?.kind) {
    case undefined:
      return null;
    case "path":
    case "way":
      for (const { hop, tightest } of hops(machine, choice.path)) {
        nodes.add(hop.from).add(hop.to);
        if (hop.link !== null && hop.link !== undefined) {
          links.add(hop.link);
          if (tightest) tight.add(hop.link);
        }
      }
      break;
    case "node":
      nodes.add(choice.node);
      break;
    case "link": {
      links.add(choice.link);
      const link = machine.links[choice.link];
      if (link) nodes.add(link.a).add(link.b);
      break;
    }
    case "finding": {
      const finding = machine.findings[choice.finding];
      finding?.boxes.forEach((node) => nodes.add(node));
      finding?.links.forEach((link) => links.add(link));
    }
  }
  return { nodes, links, tight };
}

/** The nodes that a box stands for. */
export function standsFor(box: NodeBox): number[] {
  return box.node === null || box.node === undefined ? box.also : [box.node, ...box.also];
}
