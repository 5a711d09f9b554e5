// What the page and its worker say to each other, and the module's requests.

/** An input as the module reads it: a name of the catalogue, a file, or a folder of files. */
export type Input =
  | { kind: "catalogue"; name: string }
  | { kind: "file"; name: string; bytes: Uint8Array }
  | { kind: "folder"; name: string; files: { path: string; bytes: Uint8Array }[] };

/** A request: a line of JSON, and the bytes that belong to it. */
export interface Request {
  line: Record<string, unknown>;
  body: Uint8Array[];
}

/** What the worker gets: the module first, then requests. */
export type ToWorker = { module: WebAssembly.Module } | { id: number; line: string; body: Uint8Array[] };

/** What it answers: the answer's bytes, or the words of a panic, after which it has ended. */
export type FromWorker = { id: number; answer: Uint8Array<ArrayBuffer> } | { id: number; died: string };

/** The functions that the module exports. */
interface Exports {
  memory: WebAssembly.Memory;
  request(bytes: number): number;
  answer(): number;
  result(): number;
  failed(): number;
  words(): number;
}

/** The request that takes an input. */
export function reading(input: Input): Request {
  switch (input.kind) {
    case "catalogue":
      return { line: { op: "read", name: input.name, catalogue: true }, body: [] };
    case "file":
      return { line: { op: "read", name: input.name }, body: [input.bytes] };
    case "folder":
      return {
        line: { op: "read", name: input.name, files: input.files.map(({ path, bytes }) => ({ path, size: bytes.length })) },
        body: input.files.map(({ bytes }) => bytes),
      };
  }
}

/** How many bytes an input has. */
export function size(input: Input): number {
  switch (input.kind) {
    case "catalogue":
      return 0;
    case "file":
      return input.bytes.length;
    case "folder":
      return input.files.reduce((sum, { bytes }) => sum + bytes.length, 0);
  }
}

/** A panic of the module, in its words. */
export class Died extends Error {}

/** The module, which answers one request after another. */
export class Module {
  #exports: Exports;

  constructor(module: WebAssembly.Module) {
    this.#exports = new WebAssembly.Instance(module).exports as unknown as Exports;
  }

  /** The answer's bytes. */
  ask(line: string, body: Uint8Array[]): Uint8Array<ArrayBuffer> {
    const head = new TextEncoder().encode(`${line}\n`);
    try {
      const length = head.length + body.reduce((sum, bytes) => sum + bytes.length, 0);
      let at = this.#exports.request(length);
      // only now: making room may move the memory
      const memory = new Uint8Array(this.#exports.memory.buffer);
      for (const bytes of [head, ...body]) {
        memory.set(bytes, at);
        at += bytes.length;
      }
      return this.#read(this.#exports.result, this.#exports.answer());
    } catch (error) {
      throw new Died(this.#last() || String(error));
    }
  }

  /** The words of a panic; none where it ended otherwise, as for lack of memory. */
  #last(): string {
    try {
      return new TextDecoder().decode(this.#read(this.#exports.words, this.#exports.failed()));
    } catch {
      return "";
    }
  }

  #read(place: () => number, length: number): Uint8Array<ArrayBuffer> {
    return new Uint8Array(this.#exports.memory.buffer, place(), length).slice() as Uint8Array<ArrayBuffer>;
  }
}

/** The document in an answer, as it was written; an error where there is none. */
export function document(answer: Uint8Array): string {
  const text = new TextDecoder().decode(answer);
  const [begin, end] = ['{"ok":', "}"];
  if (text.startsWith(begin)) return text.slice(begin.length, -end.length);
  throw new Error((JSON.parse(text) as { error: string }).error);
}
