// A report: one machine at a time, with verdict, drawing and findings, numbers, curves, facts and evidence.

import { chartView } from "./charts";
import { chooser } from "./chooser";
import { brief, contentionView } from "./contention";
import type { ComparisonView, FindingView, MachineReport, ReportDocument, Table } from "./document";
import { together, type Open } from "./comparison";
import { button, commands, h, refill, type Child } from "./dom";
import { drawing, legend } from "./drawing";
import { findings } from "./findings";
import { bytes, micro, VERDICT } from "./format";
import { classView, foremost, matrixView, titled } from "./matrix";
import { panel } from "./panel";
import { copy, download, unpack } from "./share";
import { State } from "./state";

/** The machine that is shown. */
let current: State | null = null;

/** What a page shows beside what every report has. */
export interface Additions {
  /** Below the selection: of a machine, its place in the document, and what is selected of it. */
  beside?: (state: State, at: number) => Child;
  /** Below a finding. */
  below?: (finding: FindingView) => Child;
}

/** Fills an element with a report. */
export function show(root: HTMLElement, report: ReportDocument, additions: Additions = {}): void {
  const { comparison } = report;
  const open: Show = (at, cell) => {
    const machine = at === null ? undefined : report.machines[at];
    if (at !== null && machine) {
      const shown = page(report, machine, at, open, additions);
      refill(root, ...shown.content);
      if (cell) shown.choose(cell.matrix, cell.row, cell.col);
    } else if (comparison) {
      refill(root, sideBySide(report, comparison, open));
    }
  };
  if (report.machines.length === 0) refill(root, h("p", {}, "No machine."));
  open(comparison ? null : 0);
}

/** What the keyboard and the printer do with a report; once for a window. */
export function listen(): void {
  addEventListener("keydown", (event) => {
    if (event.key === "Escape") current?.choose(null);
  });
  // everything is open in print
  let closed: HTMLDetailsElement[] = [];
  addEventListener("beforeprint", () => {
    closed = [...document.querySelectorAll<HTMLDetailsElement>("details:not([open]):not(.screen)")];
    for (const details of closed) details.open = true;
  });
  addEventListener("afterprint", () => {
    for (const details of closed) details.open = false;
  });
}

/** Shows a machine, optionally at a cell; `null` shows all side by side. */
type Show = (at: number | null, cell?: Parameters<Open>[1]) => void;

/** All machines side by side. */
function sideBySide(report: ReportDocument, comparison: ComparisonView, show: Show): HTMLElement {
  current = null;
  const open: Open = (at, cell) => {
    show(at, cell);
    if (!cell) scrollTo(0, 0);
    document.querySelector<HTMLSelectElement>("#report header select")?.focus({ preventScroll: true });
  };
  const parts = together(report, comparison, open).filter(([, , content]) => content.some(Boolean));
  const said = h("output", { class: "said" });
  return h(
    "div",
    { class: "together" },
    h(
      "header",
      {},
      choice(report, null, show),
      h("h1", {}, report.machines.map((m) => m.name).join(", "), h("span", { class: "title" }, "side by side")),
      comparison.conclusion[0] !== undefined && h("p", { class: "first mark-info" }, comparison.conclusion[0]),
      h("p", { class: "actions" }, copier("Copy the comparison as Markdown", comparison.markdown, said), said),
    ),
    navigation(parts),
    h("main", {}, ...sections(parts)),
    footer(report),
  );
}

function navigation(parts: [string, string, Child[]][]): HTMLElement {
  return h("nav", { "aria-label": "Parts of the report" }, ...parts.map(([id, title]) => h("a", { href: `#${id}` }, title)));
}

function sections(parts: [string, string, Child[]][]): HTMLElement[] {
  return parts.map(([id, title, content]) =>
    h("section", { id, "aria-labelledby": `${id}-title` }, h("h2", { id: `${id}-title` }, title), ...content),
  );
}

function footer(report: ReportDocument): HTMLElement {
  const licences = document.getElementById("licences")?.textContent ?? "";
  return h("footer", {},
    h("p", {}, `Written by peerlane ${report.peerlane}. This file makes no network requests.`),
    h("details", { class: "plain screen" },
      h("summary", {}, "Licences of the libraries in this page"),
      h("pre", {}, licences),
    ),
  );
}

/** A button that copies a text, and confirms it. */
function copier(label: string, text: string, said: HTMLElement): HTMLButtonElement {
  return button(label, () => {
    void copy(text).then((done) => {
      said.textContent = done ? "Copied." : "The browser does not allow copying.";
    });
  });
}

/** One machine's page, and a function that selects a cell. */
function page(
  report: ReportDocument,
  machine: MachineReport,
  at: number,
  show: Show,
  { beside, below }: Additions,
): { content: Child[]; choose: (matrix: number, row: number, col: number) => void } {
  const state = new State(machine);
  current = state;
  const matrices = machine.matrices.map((_, index) => matrixView(state, index, () => tables.show(index)));
  const blocks = machine.matrices.map((matrix, i) => ({ root: matrices[i]?.root ?? h("section"), title: titled(matrix), group: OBTAINED[matrix.obtained as keyof typeof OBTAINED] ?? matrix.obtained }));
  const tables = chooser("Table", blocks, foremost(machine));
  const charts = chooser("Chart", machine.charts.map((chart) => ({ root: chartView(machine, chart), title: micro(chart.what) })), 0);
  const sets = chooser("Sets", machine.contention.map((of) => ({ root: contentionView(of), title: `${of.what}: ${brief(of)}` })), 0);
  const choose = (matrix: number, row: number, col: number) => matrices[matrix]?.show(row, col);
  const list = findings(state, choose, below);
  const parts: [string, string, Child[]][] = [
    ["findings", "Findings", [list]],
    ["numbers", "Numbers", numbers(state, tables.content)],
    ["curves", "Message sizes", charts.content],
    ["together", "Concurrent transfers", sets.content],
    ["open", "Unknowns and assumptions", caveats(machine)],
    ["facts", "Facts", machine.facts.map(facts)],
    ["text", "Machine as text", [tree(machine)]],
    ["evidence", "Sources", [evidence(machine)]],
  ];
  const shown = parts.filter(([, , content]) => content.some(Boolean));
  const nav = navigation([["machine", "Machine", []], ...shown]);
  const section = h(
    "section",
    { id: "machine", "aria-labelledby": "machine-title" },
    h("h2", { id: "machine-title" }, "Machine"),
    drawing(state),
    legend(machine),
    panel(state),
    beside?.(state, at) ?? null,
  );
  section.querySelector("h2")?.append(" ", enlarge(section));
  const content = [
    header(report, machine, at, show),
    nav,
    h("main", {}, section, h("div", { class: "parts" }, ...sections(shown))),
    footer(report),
  ];
  return { content, choose };
}

/** A button that toggles the drawing between its section and the whole window. */
function enlarge(section: HTMLElement): HTMLButtonElement {
  const large = (yes: boolean) => {
    section.classList.toggle("large", yes);
    toggle.setAttribute("aria-pressed", String(yes));
    toggle.textContent = yes ? "Back to the page" : "Enlarge";
  };
  const toggle = button("Enlarge", () => large(!section.classList.contains("large")), { "aria-pressed": "false", class: "enlarge" });
  section.addEventListener("keydown", (event) => {
    if (event.key === "Escape" && section.classList.contains("large")) {
      event.stopPropagation();
      large(false);
    }
  });
  return toggle;
}

function header(report: ReportDocument, machine: MachineReport, at: number, show: Show): HTMLElement {
  const said = h("output", { class: "said" });
  const { record } = machine;
  const saved = () => {
    if (!record) return;
    void unpack(record).then(
      (content) => {
        download(record.name, content);
        said.textContent = `Saved ${record.name}.`;
      },
      () => {
        said.textContent = "This browser cannot unpack the record.";
      },
    );
  };
  return h(
    "header",
    {},
    choice(report, at, show),
    h("h1", {}, machine.name, machine.title && h("span", { class: "title" }, machine.title)),
    h(
      "p",
      { class: "verdict" },
      h("strong", { class: `badge ${machine.verdict}` }, VERDICT[machine.verdict]),
      " ",
      commands(machine.summary),
    ),
    first(machine),
    h("p", { class: "hint" }, `${machine.inventory}; ${machine.origin}`),
    h(
      "p",
      { class: "actions" },
      copier("Copy the findings as Markdown", machine.markdown, said),
      record && button(`Save the run's record (${bytes(record.bytes)}${record.samples ? "" : ", without samples"})`, saved),
      said,
    ),
  );
}

/** The first finding that needs action, and its fix. */
function first(machine: MachineReport): HTMLElement | false {
  const at = machine.findings.findIndex((finding) => finding.severity !== "info");
  const finding = machine.findings[at];
  if (!finding) return false;
  return h(
    "div",
    { class: `first mark-${finding.severity}` },
    h("p", {}, h("a", { href: `#finding-${at}` }, finding.summary)),
    finding.fix !== "" && h("p", {}, h("strong", {}, "Fix: "), commands(finding.fix)),
  );
}

/** A menu of the machines, or all side by side; none for a single machine. */
function choice(report: ReportDocument, at: number | null, show: Show): HTMLElement | false {
  const places: [number | null, string][] = report.machines.map((m, i) => [i, `${m.name}: ${m.verdict}`]);
  if (report.comparison) places.unshift([null, "All side by side"]);
  if (places.length < 2) return false;
  const options = places.map(([place, name], i) => h("option", { value: i, selected: place === at }, name));
  const select = h("select", {}, ...options);
  select.addEventListener("change", () => {
    show(places[Number(select.value)]?.[0] ?? null);
    document.querySelector<HTMLSelectElement>("#report header select")?.focus();
  });
  return h("label", { class: "choice" }, "Machine ", select);
}

function numbers(state: State, matrices: HTMLElement[]): Child[] {
  const { classes } = state.machine;
  const hint =
    matrices.length > 0 &&
    h("p", { class: "hint" }, "Ratios: orange is below the expected value, blue above. Values: the colour deepens with the value, from zero.");
  return [hint, ...matrices, classes && classView(state, classes)];
}

const OBTAINED = {
  measured: "Measured",
  published: "Published for this kind of machine",
  "stated in words": "Stated in words by a source",
  predicted: "Predicted, not measured",
} as const;

function tree(machine: MachineReport): HTMLElement {
  return h("pre", { tabindex: 0, role: "group", "aria-label": "The machine as text" }, machine.tree);
}

function caveats(machine: MachineReport): Child[] {
  const kinds: [string, string[]][] = [
    ["Contradictions", machine.contradictions],
    ["Unknown", machine.unknown],
    ["Assumed", machine.assumptions],
    ["Warnings", machine.warnings],
    ["Notes from the source", machine.notes],
  ];
  return kinds
    .filter(([, all]) => all.length > 0)
    .flatMap(([title, all]) => [h("h3", {}, title), h("ul", {}, ...all.map((text) => h("li", {}, text)))]);
}

function facts(table: Table): HTMLElement {
  const head =
    table.columns.length > 0 && h("thead", {}, h("tr", {}, ...table.columns.map((name) => h("th", { scope: "col" }, name))));
  const rows = table.rows.map(([first, ...rest]) =>
    h("tr", {}, h("th", { scope: "row" }, first ?? ""), ...rest.map((text) => h("td", {}, text))),
  );
  return h(
    "div",
    { class: "scroll", tabindex: 0, role: "group", "aria-label": table.title },
    h("table", { class: "facts" }, h("caption", {}, table.title), head, h("tbody", {}, ...rows)),
  );
}

/** Limit of contents shown for a source; more are counted. */
const SHOWN = 8;

function evidence(machine: MachineReport): HTMLElement | false {
  if (machine.evidence.length === 0) return false;
  const used = new Map<number, string[]>();
  const use = (sources: number[], what: string) => {
    for (const at of sources) used.set(at, [...(used.get(at) ?? []), what]);
  };
  machine.findings.forEach((f) => use(f.sources, f.rule));
  machine.waived.forEach((w) => use(w.finding.sources, w.finding.rule));
  const items = machine.evidence.map((of, at) => {
    const more = of.tells.length > SHOWN ? [`${of.tells.length - SHOWN} more`] : [];
    const words = [...of.tells.slice(0, SHOWN), ...more, ...(used.get(at) ?? []).map((rule) => `finding ${rule}`)];
    return h("li", { id: `evidence-${at}` }, h("code", {}, of.place), words.length > 0 && `: ${[...new Set(words)].join(", ")}`);
  });
  return h("ol", { class: "evidence" }, ...items);
}
