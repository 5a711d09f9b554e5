// A design as a link: its system file or its name in the catalogue, and the changes, packed into the part of an address that browsers
// send to nobody. Only a person who asks for it gets one, and only designs have one: never a log.

import type { Input } from "./protocol";

/** What the part of an address begins with. */
const MARK = "#design=";

/** The most bytes of a link's designs, unpacked: a system file has some thousands. */
const MOST_BYTES = 1 << 20;

/** A design that a link holds. */
export interface Linked {
  inputs: Input[];
  apart: boolean;
  edits: string[];
}

/** A name of the catalogue, or a file's name and text. */
type Held = string | [string, string];

/** Whether all inputs are designs. */
export function areDesigns(inputs: Input[]): boolean {
  return inputs.length > 0 && inputs.every((input) => input.kind === "catalogue" || (input.kind === "file" && input.name.endsWith(".toml")));
}

/** The address of this page with designs. */
export async function linkTo({ inputs, apart, edits }: Linked): Promise<string> {
  const designs = inputs.flatMap((input): Held[] => {
    if (input.kind === "catalogue") return [input.name];
    return input.kind === "file" ? [[input.name, new TextDecoder().decode(input.bytes)]] : [];
  });
  const text = JSON.stringify({ designs, apart, edits });
  const packed = new Blob([text]).stream().pipeThrough(new CompressionStream("deflate-raw"));
  const bytes = new Uint8Array(await new Response(packed).arrayBuffer());
  const letters = btoa(Array.from(bytes, (byte) => String.fromCharCode(byte)).join(""));
  const [page = ""] = location.href.split("#");
  return `${page}${MARK}${letters.replace(/\+/g, "-").replace(/\//g, "_").replace(/=+$/, "")}`;
}

/** The designs in an address; none where it has none. It fails where they cannot be read. */
export async function linked(hash: string): Promise<Linked | null> {
  if (!hash.startsWith(MARK)) return null;
  try {
    const letters = atob(hash.slice(MARK.length).replace(/-/g, "+").replace(/_/g, "/"));
    const packed = Uint8Array.from(letters, (letter) => letter.charCodeAt(0));
    const { designs, apart, edits } = JSON.parse(await text(packed)) as { designs: Held[]; apart: boolean; edits: string[] };
    const inputs = designs.map((held): Input => {
      if (typeof held === "string") return { kind: "catalogue", name: held };
      const [name, content] = held;
      return { kind: "file", name: String(name), bytes: new TextEncoder().encode(content) };
    });
    // a link may come from anyone, so that it can only be what a page would make
    if (!areDesigns(inputs) || !edits.every((edit) => typeof edit === "string")) throw new Error("no designs");
    return { inputs, apart: Boolean(apart), edits };
  } catch {
    throw new Error("The link holds no design that can be read. It may have been cut off.");
  }
}

/** What was packed, up to a limit. */
async function text(packed: Uint8Array<ArrayBuffer>): Promise<string> {
  const reader = new Blob([packed]).stream().pipeThrough(new DecompressionStream("deflate-raw")).getReader();
  const pieces: Uint8Array<ArrayBuffer>[] = [];
  for (let size = 0; ; ) {
    const { done, value } = await reader.read();
    if (done) return new Blob(pieces).text();
    size += value.length;
    if (size > MOST_BYTES) throw new Error("too large");
    pieces.push(value);
  }
}
