// Exports: the findings as Markdown, and the recorded run.

import type { RunRecord } from "./document";

/** Copies a text; false if the browser does not allow it. */
export async function copy(text: string): Promise<boolean> {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    return copyBySelection(text);
  }
}

/** For browsers that deny the clipboard to pages opened from a file. */
function copyBySelection(text: string): boolean {
  const area = document.createElement("textarea");
  area.value = text;
  area.setAttribute("aria-hidden", "true");
  area.className = "unseen";
  document.body.append(area);
  area.select();
  const done = document.execCommand("copy");
  area.remove();
  return done;
}

/** The record, unpacked. */
export async function unpack(record: RunRecord): Promise<Blob> {
  const packed = Uint8Array.from(atob(record.gzip), (c) => c.charCodeAt(0));
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new Response(stream, { headers: { "content-type": "application/json" } }).blob();
}

/** Saves a file. */
export function download(name: string, content: Blob): void {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(content);
  link.download = name;
  document.body.append(link);
  link.click();
  link.remove();
  // the browser has taken it by then
  setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
}
