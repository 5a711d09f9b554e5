// The lines that a finding comes from, as they stand in the input.

import type { FindingView } from "../document";
import { h, type Child } from "../dom";
import { place, type Lines } from "./inputs";

/** The most lines that are shown of a place, and the most places of a finding. */
const MOST_LINES = 24;
const MOST_PLACES = 4;

/** The quoted lines of a finding; the first finding's are open. */
export function quoted(finding: FindingView, lines: Lines, isFirst: boolean): Child {
  const seen = new Set<string>();
  const quotes = finding.evidence.flatMap((source) => {
    const at = place(source);
    if (!at || seen.has(source)) return [];
    seen.add(source);
    const found = lines.at(at);
    if (found.length === 0) return [];
    const shown = found.slice(0, MOST_LINES);
    // numbers are of the list, so that they are not copied
    const rows = shown.map((text) => h("li", {}, h("code", {}, text || " ")));
    const more = found.length - shown.length;
    return [h("figure", { class: "quote" },
      h("figcaption", {}, source),
      h("div", { class: "scroll", tabindex: 0, role: "group", "aria-label": `Lines of ${at.name}` }, h("ol", { start: at.first }, ...rows)),
      more > 0 && h("p", { class: "hint" }, `and ${more} more lines`))];
  });
  if (quotes.length === 0) return null;
  const left = quotes.length - MOST_PLACES;
  return h("details", { class: "plain quotes", open: isFirst },
    h("summary", {}, quotes.length === 1 ? "The lines that say so" : `The lines that say so, in ${quotes.length} places`),
    ...quotes.slice(0, MOST_PLACES), left > 0 && h("p", { class: "hint" }, `and ${left} more places`));
}
