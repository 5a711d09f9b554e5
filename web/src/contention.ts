// Rates of concurrent transfers, compared with what each reaches alone and with the expected sum.

import { scaleLinear } from "d3-scale";
import type { Contention, SetView } from "./document";
import { h } from "./dom";
import { number, percent, span, unit } from "./format";

/** A table of sets. */
export function contentionView(of: Contention): HTMLElement {
  const shown = unit(of.unit);
  const most = Math.max(...of.sets.map((set) => set.sum ?? 0), 1e-9);
  const bar = scaleLinear().domain([0, most]).range([0, 100]);
  const heads: [string, string | null][] = [
    ["transfers", null],
    ["each", "number"],
    ["sum", "number"],
    ["", null],
    ["vs alone", "number"],
    ["expected", "number"],
    ["ratio", "number"],
  ];
  return h(
    "section",
    { class: "block contention" },
    h("h3", {}, of.what, " ", h("span", { class: "brief" }, brief(of))),
    h(
      "div",
      { class: "scroll", tabindex: 0, role: "group", "aria-label": `${of.what}, concurrent` },
      h(
        "table",
        {},
        h("caption", {}, `${of.what}, ${shown}`),
        h("thead", {}, h("tr", {}, ...heads.map(([t, kind]) => h("th", { scope: "col", class: kind }, t || h("span", { class: "unseen" }, "bar"))))),
        h("tbody", {}, ...of.sets.map((set) => row(set, bar))),
      ),
    ),
  );
}

/** How many sets, and what is left of their rates. */
export function brief(of: Contention): string {
  const shares = of.sets.flatMap((set) => share(set) ?? []);
  const sets = `${of.sets.length} set${of.sets.length === 1 ? "" : "s"}`;
  return shares.length === 0 ? sets : `${sets}; ${percentSpan(Math.min(...shares), Math.max(...shares))} of the rates alone`;
}

function percentSpan(low: number, high: number): string {
  return percent(low) === percent(high) ? percent(low) : `${percent(low)} to ${percent(high)}`;
}

function share(set: SetView): number | null {
  const alone = set.alone ?? 0;
  return set.sum !== null && set.sum !== undefined && alone > 0 ? set.sum / alone : null;
}

function row(set: SetView, bar: (value: number) => number): HTMLElement {
  const known = set.sum !== null && set.sum !== undefined;
  const sure = known && set.low != null && set.high != null ? `n ${set.n}, 95 % interval ${number(set.low)} to ${number(set.high)}` : "";
  const part = share(set);
  const each = set.each.length === 0 ? "" : span(Math.min(...set.each), Math.max(...set.each));
  const strip = h("span", { class: "bar", "aria-hidden": "true" });
  strip.style.setProperty("--at", `${bar(set.sum ?? 0).toFixed(1)}%`);
  const expected = set.expected ?? 0;
  const compared = known && expected > 0 ? (set.sum ?? 0) / expected : null;
  const remarks = set.remarks.length > 0 ? h("span", { class: "remark", title: set.remarks.join("; ") }, " *", h("span", { class: "unseen" }, set.remarks.join("; "))) : null;
  return h(
    "tr",
    {},
    h("th", { scope: "row" }, set.name, remarks),
    h("td", { class: "number" }, each),
    h("td", { class: "number", title: sure }, known ? number(set.sum ?? 0) : "–"),
    h("td", { class: "strip" }, strip),
    h("td", { class: "number" }, part === null ? "" : percent(part)),
    h("td", { class: "number" }, expected > 0 ? number(expected) : ""),
    h("td", { class: `number${compared !== null && compared < 0.8 ? " short" : ""}` }, compared === null ? "" : number(compared)),
  );
}
