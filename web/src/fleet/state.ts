// What the page shows of the fleet: filters, the order of machines, and the machine that is open.

import type { Action, FleetPage, MemberView, OutlierView } from "./document";

/** Actions, the most urgent first. */
export const ACTIONS: readonly Action[] = ["isolate", "reset", "monitor"];

/** What an action asks for, in words. */
export const MEANING: Readonly<Record<Action, string>> = {
  isolate: "schedule no jobs there",
  reset: "reset the GPU or NIC",
  monitor: "jobs may run; watch it",
};

/** What the page calls its rows and what was found on them. */
export interface Words {
  row: "machine" | "node";
  found: "outlier" | "finding";
}

/** What the reader asked to see. */
export interface Filter {
  text: string;
  kind: number | null;
  action: Action | null;
}

export type Order = "worst" | "name";

/** A cell of the heat map: indices into machines and tests. */
export interface Cell {
  machine: number;
  test: number;
}

/** Names with numbers in them in the order of the numbers: `n2` before `n10`. */
export const natural = new Intl.Collator("en", { numeric: true }).compare;

export class State {
  readonly fleet: FleetPage;
  readonly words: Words;
  /** Between nodes: the kind of values that the heat map shows. */
  values = 0;
  /** The outliers of each machine, as indices. */
  readonly of: number[][];
  /** Indices of machines in either order. */
  readonly #orders: Record<Order, number[]>;
  /** What a text filter looks through, in lower case. */
  readonly #names: string[];
  readonly #texts: string[];
  filter: Filter = { text: "", kind: null, action: null };
  order: Order = "worst";
  /** Machines and outliers that the filter leaves, in order. */
  machines: number[] = [];
  outliers: number[] = [];
  /** The machine whose details are open. */
  open: number | null = null;
  readonly #onFilter: (() => void)[] = [];
  readonly #onOpen: (() => void)[] = [];

  constructor(fleet: FleetPage) {
    this.fleet = fleet;
    this.words = fleet.nodes ? { row: "node", found: "finding" } : { row: "machine", found: "outlier" };
    this.of = fleet.machines.map(() => []);
    fleet.outliers.forEach((outlier, at) => {
      // a path between two nodes is found on both
      for (const machine of rows(outlier)) this.of[machine]?.push(at);
    });
    this.#names = fleet.machines.map((machine) => machine.name.toLowerCase());
    this.#texts = fleet.outliers.map((of) => `${of.part}\n${of.summary}\n${of.rule}\n${of.file}`.toLowerCase());
    const all = fleet.machines.map((_, at) => at);
    const name = [...all].sort((a, b) => natural(this.name(a), this.name(b)));
    const worst = fleet.machines.map(badness);
    // a stable sort: machines that are equally bad stay in the order of their names
    this.#orders = { name, worst: [...name].sort((a, b) => compare(worst[a], worst[b])) };
    this.#apply();
  }

  name(machine: number): string {
    return this.fleet.machines[machine]?.name ?? "";
  }

  machine(at: number): MemberView | undefined {
    return this.fleet.machines[at];
  }

  outlier(at: number): OutlierView | undefined {
    return this.fleet.outliers[at];
  }

  /** A value over the median of its kind; `null` if it was not measured. */
  score({ machine, test }: Cell): number | null {
    const score = this.fleet.machines[machine]?.scores[test];
    return score === null || score === undefined ? null : score / 1000;
  }

  /** The outliers that a cell of the heat map has. */
  at({ machine, test }: Cell): OutlierView[] {
    return (this.of[machine] ?? []).flatMap((at) => {
      const outlier = this.fleet.outliers[at];
      return outlier?.test === test ? [outlier] : [];
    });
  }

  /** The tests that some of the machines shown have, in the order of the document. Columns that are nodes have the order of the rows. */
  tests(): number[] {
    const { machines, tests, nodes } = this.fleet;
    const shown = tests.map((_, at) => at).filter((at) => {
      if (nodes && tests[at]?.values !== this.values) return false;
      return this.machines.some((m) => typeof machines[m]?.scores[at] === "number");
    });
    if (!nodes) return shown;
    const rank: number[] = [];
    this.#orders[this.order].forEach((machine, at) => {
      rank[machine] = at;
    });
    const place = (at: number) => rank[tests[at]?.node ?? -1] ?? -1;
    return shown.sort((a, b) => place(a) - place(b));
  }

  /** What a cell is measured between, in words. */
  between({ machine, test }: Cell): string {
    const { fleet } = this;
    const column = fleet.tests[test];
    const row = this.name(machine);
    if (!fleet.nodes) return `${row}, ${column?.name ?? ""}`;
    const values = fleet.nodes.values[column?.values ?? -1]?.name ?? "";
    const partner = column?.node ?? fleet.machines[machine]?.partners?.[test] ?? machine;
    const other = this.name(partner);
    if (partner === machine) return `${row}, loopback, ${values}`;
    if (column?.way === "both") return `${row} and ${other}, ${values}`;
    return column?.way === "in" ? `${other} to ${row}, ${values}` : `${row} to ${other}, ${values}`;
  }

  /** What scores of a test are shares of. */
  share({ machine, test }: Cell): string {
    const { fleet } = this;
    if (fleet.nodes) return fleet.nodes.values[fleet.tests[test]?.values ?? -1]?.of ?? "";
    return `the median of ${fleet.kinds[fleet.machines[machine]?.kind ?? -1]?.name ?? "its kind"}`;
  }

  choose(values: number): void {
    this.values = values;
    this.#onFilter.forEach((act) => act());
  }

  narrow(to: Partial<Filter>): void {
    this.filter = { ...this.filter, ...to };
    this.#apply();
    this.#onFilter.forEach((act) => act());
  }

  sort(order: Order): void {
    this.order = order;
    this.#apply();
    this.#onFilter.forEach((act) => act());
  }

  show(machine: number | null): void {
    this.open = machine;
    this.#onOpen.forEach((act) => act());
  }

  /** Calls back now and after each change of filter or order. */
  onFilter(act: () => void): void {
    this.#onFilter.push(act);
    act();
  }

  /** Calls back when a machine's details open or close. */
  onOpen(act: () => void): void {
    this.#onOpen.push(act);
  }

  /** A machine is shown if its name has the text, or one of its outliers does. */
  #apply(): void {
    const { text, kind, action } = this.filter;
    const words = text.toLowerCase().split(/\s+/).filter(Boolean);
    const { machines, outliers } = this.fleet;
    const ofKind = (at: number) => kind === null || machines[at]?.kind === kind;
    const has = (name: string, rest: string) => words.every((word) => name.includes(word) || rest.includes(word));
    this.outliers = outliers.flatMap((outlier, at) => {
      const on = rows(outlier);
      const named = has(on.map((machine) => this.#names[machine] ?? "").join("\n"), this.#texts[at] ?? "");
      return named && (on.length === 0 || on.some(ofKind)) && (action === null || outlier.action === action) ? [at] : [];
    });
    const with_ = new Set(this.outliers.flatMap((at) => rows(outliers[at])));
    this.machines = this.#orders[this.order].filter((at) => {
      if (with_.has(at)) return true;
      return action === null && ofKind(at) && has(this.#names[at] ?? "", "");
    });
  }
}

/** The machines that an outlier is on: of a switch between nodes none, of a path between nodes two. */
export function rows(outlier: OutlierView | undefined): number[] {
  return [outlier?.machine, outlier?.other].filter((at) => typeof at === "number");
}

/** How bad a machine is: the rank of its action, then its lowest score. */
function badness(machine: MemberView): [number, number] {
  const rank = machine.action ? ACTIONS.indexOf(machine.action) : ACTIONS.length;
  // the partners of a bad node have a low score, too
  if (typeof machine.usual === "number") return [rank, machine.usual];
  const lowest = machine.scores.reduce((least: number, score) => Math.min(least, score ?? Infinity), Infinity);
  return [rank, lowest];
}

function compare(a: [number, number] | undefined, b: [number, number] | undefined): number {
  if (!a || !b) return 0;
  // both may be infinite, whose difference is not a number
  return a[0] - b[0] || (a[1] === b[1] ? 0 : a[1] - b[1]);
}
