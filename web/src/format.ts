// Numbers and units in words.

import type { Unit } from "./document";

/** Verdicts in words. */
export const VERDICT = {
  healthy: "Healthy",
  limited: "Limited",
  unexplained: "Unexplained",
  fault: "Fault",
  "not-judged": "Not judged",
} as const;

/** A number with the digits for a table: `393.4`, `26.13`, `0.0036`. */
export function number(value: number): string {
  const size = Math.abs(value);
  if (size >= 1000) return value.toFixed(0);
  if (size >= 100) return value.toFixed(1);
  if (size >= 0.1 || size === 0) return value.toFixed(2);
  return value.toPrecision(2);
}

/** `0.73–0.82`, or one number if both print alike. */
export function span(low: number, high: number): string {
  const [a, b] = [number(low), number(high)];
  return a === b ? a : `${a}–${b}`;
}

/** A unit for display. */
export function unit(unit: Unit | null | undefined): string {
  return unit === "us" ? "µs" : (unit ?? "");
}

/** A description with its unit for display. */
export function micro(what: string): string {
  return what.replace(/, us(?=,|$)/, ", µs");
}

const SIZES: [number, string][] = [
  [2 ** 40, "TiB"],
  [2 ** 30, "GiB"],
  [2 ** 20, "MiB"],
  [2 ** 10, "KiB"],
];

/** `256 MiB`. */
export function bytes(size: number): string {
  const [step, name] = SIZES.find(([least]) => size >= least) ?? [1, "B"];
  const count = size / step;
  return `${Number.isInteger(count) ? count : count.toPrecision(4).replace(/\.?0+$/, "")} ${name}`;
}

/** `1 cell`, `12 cells`. */
export function count(n: number, what: string): string {
  return `${n} ${what}${n === 1 ? "" : "s"}`;
}

/** A share: `97 %`. */
export function percent(share: number): string {
  return `${(share * 100).toFixed(0)} %`;
}
