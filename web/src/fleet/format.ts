// Numbers of a fleet in words.

/** A ratio: `0.85`. */
export function ratio(value: number): string {
  return value.toFixed(value < 0.1 ? 3 : 2);
}

/** `1,000`: a number of things. */
export function many(n: number): string {
  return n.toLocaleString("en");
}

/** `1 machine`, `1,000 machines`. */
export function count(n: number, what: string): string {
  return `${many(n)} ${what}${n === 1 ? "" : "s"}`;
}

/** `2026-11-23 10:04`: the minute of an RFC 3339 time, in the time zone that it was written in. */
export function minute(time: string): string {
  return /^\d{4}-\d\d-\d\dT\d\d:\d\d/.test(time) ? time.slice(0, 16).replace("T", " ") : time;
}
