// Findings in order, each with its subjects and sources.

import type { FindingView } from "./document";
import { button, commands, h, list, type Child } from "./dom";
import { number, unit } from "./format";
import { from } from "./panel";
import type { State } from "./state";

const SEVERITY = { error: "error", warning: "warning", info: "note" } as const;
const SURE = { certain: "", likely: ", likely", possible: ", possibly" } as const;
const KIND = { fault: "fault", design: "by design", measurement: "measurement" } as const;

/** Limit of cells shown for a finding; more are counted. */
const NAMED = 6;

/** Opens a matrix at a cell. */
type Show = (matrix: number, row: number, col: number) => void;

/** The list of findings and, collapsed below it, those that the site accepts. `below` adds to a finding. */
export function findings(state: State, show: Show, below?: (finding: FindingView) => Child): HTMLElement {
  const { machine } = state;
  const items = machine.findings.map((finding, at) => item(state, finding, `finding-${at}`, show, below, at));
  const shown = items.length === 0 ? h("p", {}, "No findings.") : h("ol", { class: "findings" }, ...items);
  if (machine.waived.length === 0) return shown;
  const accepted = machine.waived.map(({ finding, reason }, at) => {
    const accepted = item(state, finding, `waived-${at}`, show, below);
    accepted.querySelector("h3")?.after(h("p", {}, h("strong", {}, "Accepted: "), reason));
    return accepted;
  });
  const count = accepted.length === 1 ? "1 finding accepted by the site" : `${accepted.length} findings accepted by the site`;
  return h(
    "div",
    {},
    shown,
    h("details", { class: "plain waived" }, h("summary", {}, count), h("ol", { class: "findings" }, ...accepted)),
  );
}

/** What a finding costs: `6.89 GB/s (88 %)`; empty if unknown. */
function cost({ cost }: FindingView): string {
  return cost ? `${number(cost.lost)} ${unit(cost.unit)} (${(100 * cost.share).toFixed(0)} %)` : "";
}

function item(
  state: State,
  finding: FindingView,
  id: string,
  show: Show,
  below?: (finding: FindingView) => Child,
  at?: number,
): HTMLElement {
  const { machine } = state;
  const severity = SEVERITY[finding.severity];
  const lights = at !== undefined && finding.boxes.length + finding.links.length > 0;
  const cells: Child[] = finding.cells.slice(0, NAMED).map((cell) => {
    const matrix = machine.matrices[cell.matrix];
    const label = `${matrix?.rows[cell.row] ?? ""} → ${matrix?.cols[cell.col] ?? ""}`;
    return button(label, () => show(cell.matrix, cell.row, cell.col), { class: "chip", title: matrix?.what ?? "" });
  });
  if (finding.cells.length > NAMED) cells.push(h("span", { class: "hint" }, `and ${finding.cells.length - NAMED} more`));
  return h(
    "li",
    { class: `finding mark-${finding.severity}`, id },
    h("h3", {}, h("span", { class: "severity" }, severity), " ", finding.summary),
    h("p", { class: "hint" }, `${finding.rule}, ${KIND[finding.kind]}${SURE[finding.certainty]}`),
    list([
      ["expected", finding.expected],
      ["measured", finding.measured],
      ["costs", cost(finding)],
      ["fix", commands(finding.fix)],
      ["confirm", commands(finding.confirm)],
    ]),
    h(
      "p",
      { class: "actions" },
      lights && button("Show in the drawing", () => state.choose({ kind: "finding", finding: at })),
      ...cells,
    ),
    from(machine, finding.sources),
    below?.(finding) ?? null,
  );
}
