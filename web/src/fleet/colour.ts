// The colours of the heat map: orange below the median, blue above, on a logarithmic scale.

/** Scores at or below this, and at or above its inverse, have the full colour. */
export const FAR = 0.7;

/** Scores this near to 1 have no colour: machines differ that much without a reason. */
const NEAR = 0.02;

type Rgb = [number, number, number];

/** The colours of a page, light or dark. */
export interface Palette {
  page: string;
  text: string;
  soft: string;
  line: string;
  /** Not measured. */
  absent: string;
  /** Selected. */
  lit: string;
  mark: string;
  /** The ramps, from the median to far from it. */
  worse: Rgb[];
  better: Rgb[];
}

/** The palette that an element's style has: the page's own, or that of paper. */
export function palette(of: Element): Palette {
  const style = getComputedStyle(of);
  const named = (name: string) => style.getPropertyValue(`--${name}`).trim();
  const ramp = (...names: string[]) => names.map((name) => rgb(named(name)));
  return {
    page: named("page"),
    text: named("text"),
    soft: named("soft"),
    line: named("line"),
    absent: named("absent"),
    lit: named("lit"),
    mark: named("text"),
    worse: ramp("page", "low", "far-low"),
    better: ramp("page", "high", "far-high"),
  };
}

/** `#rrggbb`, as the style sheet has them all. */
function rgb(hex: string): Rgb {
  const value = Number.parseInt(hex.slice(1), 16);
  return [(value >> 16) & 255, (value >> 8) & 255, value & 255];
}

/** How far a score is from the median, from -1 (much worse) to 1 (much better). */
export function distance(score: number): number {
  if (score <= 0) return -1;
  const off = Math.log(score);
  if (Math.abs(off) <= NEAR) return 0;
  return Math.max(-1, Math.min(1, off / -Math.log(FAR)));
}

/** The colour of a score. */
export function colour(palette: Palette, score: number | null): string {
  if (score === null) return palette.absent;
  const far = distance(score);
  return between(far < 0 ? palette.worse : palette.better, Math.abs(far));
}

/** A point on a ramp of colours. */
function between(ramp: Rgb[], at: number): string {
  const place = at * (ramp.length - 1);
  const from = Math.min(Math.floor(place), ramp.length - 2);
  const [a, b] = [ramp[from], ramp[from + 1]];
  if (!a || !b) return "";
  const mixed = a.map((c, i) => Math.round(c + ((b[i] ?? c) - c) * (place - from)));
  return `rgb(${mixed.join(" ")})`;
}
