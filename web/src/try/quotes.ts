// The lines that a finding comes from, as they stand in the input.

import type { FindingView } from "../document";
import { h, type Child } from "../dom";
import { place, type Lines } from "./inputs";

/** The most lines that are shown of a place, and the most places of a finding. */
const MOST_LINES = 24;
const MOST_PLACES = 4;

/** How a tool writes the devices of a finding: `GPU5` also as `GPU 5`. None where it is about none. */
function named({ nodes = [], summary }: FindingView): RegExp | null {
  const inSummary = summary.match(/\b[A-Za-z_]+\d+(?:_\d+)?\b/g) ?? [];
  const names = [...new Set([...nodes, ...inSummary])].filter((name) => /\d/.test(name)).slice(0, 64);
  if (names.length === 0) return null;
  const escaped = names.map((name) => name.replace(/[.*+?^${}()|[\]\\]/g, "\\$&").replace(/^([A-Za-z]+)(\d)/, "$1 ?$2"));
  return new RegExp(`(?<![\\w.])(?:${escaped.join("|")})(?![\\w.])`, "i");
}

/** The quoted lines of a finding; the first finding's are open. Of a long place, those from its devices on. */
export function quoted(finding: FindingView, lines: Lines, isFirst: boolean): Child {
  const about = named(finding);
  const quotes = [...new Set(finding.evidence)].flatMap((source) => {
    const at = place(source);
    const all = at ? lines.at(at) : [];
    if (!at || all.length === 0) return [];
    const hit = all.length > MOST_LINES && about ? all.findIndex(({ text }) => about.test(text)) : 0;
    const from = Math.max(0, Math.min(hit, all.length - MOST_LINES));
    const shown = all.slice(from, from + MOST_LINES);
    // numbers are of the list, so that they are not copied
    const rows = shown.map(({ number, text }) => h("li", { value: number, class: about?.test(text) ? "about" : null }, h("code", {}, text || " ")));
    const more = all.length - shown.length;
    return [h("figure", { class: "quote" },
      h("figcaption", {}, source),
      h("div", { class: "scroll", tabindex: 0, role: "group", "aria-label": `Lines of ${at.name}` }, h("ol", {}, ...rows)),
      more > 0 && h("p", { class: "hint" }, `and ${more} other ${more === 1 ? "line" : "lines"}`))];
  });
  if (quotes.length === 0) return null;
  const left = quotes.length - MOST_PLACES;
  return h("details", { class: "plain quotes", open: isFirst },
    h("summary", {}, quotes.length === 1 ? "The lines that say so" : `The lines that say so, in ${quotes.length} places`),
    ...quotes.slice(0, MOST_PLACES), left > 0 && h("p", { class: "hint" }, `and ${left} more places`));
}
