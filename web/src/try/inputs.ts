// What is pasted, chosen and dropped, as inputs, and their lines.

import type { Input } from "./protocol";

/** The most that is read of one file, in bytes, and how many files of one folder: as the program does. */
const MOST_BYTES = 64 << 20;
const MOST_FILES = 4096;

/** Whether a text is a machine by its parts, which is opened by this name: `4x L40S + 2x 200G`. */
export function isPartsList(text: string): boolean {
  return /^\s*\d+\s*[x×]\s*[^\n:|]{2,160}$/i.test(text);
}

/** A pasted text, the first or another. A system file is known by its name's ending, so it gets one. */
export function pasted(text: string, which = 1): Input {
  if (isPartsList(text)) return { kind: "catalogue", name: text.trim() };
  const isDesign = /^\s*\[nodes\]/m.test(text);
  return { kind: "file", name: `pasted${which > 1 ? `-${which}` : ""}${isDesign ? ".toml" : ""}`, bytes: new TextEncoder().encode(text) };
}

/** Files that were chosen; those of a folder have paths. */
export async function chosen(files: FileList | File[]): Promise<Input[]> {
  return grouped([...files].map((file) => ({ path: file.webkitRelativePath || file.name, file })));
}

/** What was dropped: files and folders. */
export async function dropped(data: DataTransfer): Promise<Input[]> {
  // all entries first: the list is emptied once the event is over
  const entries = [...data.items].filter((item) => item.kind === "file").map((item) => item.webkitGetAsEntry());
  const files = [...data.files];
  const text = data.getData("text/plain");
  if (entries.length === 0 && text) return [pasted(text)];
  if (entries.every((entry) => entry === null)) return chosen(files);
  const found: Found[] = [];
  for (const entry of entries) if (entry) await walk(entry, found);
  return grouped(found);
}

interface Found {
  path: string;
  file: File;
}

async function walk(entry: FileSystemEntry, found: Found[]): Promise<void> {
  if (found.length > MOST_FILES) throw new Error(`More than ${MOST_FILES} files: drop the ones that matter.`);
  if (entry.isFile) {
    const file = await new Promise<File>((resolve, reject) => (entry as FileSystemFileEntry).file(resolve, reject));
    found.push({ path: entry.fullPath.replace(/^\//, ""), file });
  } else if (entry.isDirectory) {
    const reader = (entry as FileSystemDirectoryEntry).createReader();
    // a part at a time
    for (;;) {
      const some = await new Promise<FileSystemEntry[]>((resolve, reject) => reader.readEntries(resolve, reject));
      if (some.length === 0) break;
      for (const one of some) await walk(one, found);
    }
  }
}

async function grouped(found: Found[]): Promise<Input[]> {
  if (found.length > MOST_FILES) throw new Error(`More than ${MOST_FILES} files: choose the ones that matter.`);
  const inputs: Input[] = [];
  const folders = new Map<string, { path: string; bytes: Uint8Array }[]>();
  for (const { path, file } of found) {
    if (file.size > MOST_BYTES) throw new Error(`${path} is larger than ${MOST_BYTES >> 20} MiB: cut out the part that matters.`);
    const bytes = new Uint8Array(await file.arrayBuffer());
    const [top, ...below] = path.split("/");
    if (below.length === 0 || top === undefined) {
      inputs.push({ kind: "file", name: path, bytes });
      continue;
    }
    const files = folders.get(top) ?? [];
    files.push({ path: below.join("/"), bytes });
    folders.set(top, files);
  }
  return [...inputs, ...[...folders].map(([name, files]): Input => ({ kind: "folder", name, files }))];
}

/** The inputs with others added: one of a name that is there takes its place. */
export function added(inputs: Input[], more: Input[]): Input[] {
  const names = new Set(more.map((input) => input.name));
  return [...inputs.filter((input) => !names.has(input.name)), ...more];
}

/** Lines of an input, from first to last; of a text of several hosts those that begin with the label of one. */
export interface Place {
  name: string;
  label: string | null;
  ranges: [number, number][];
}

/** A line with its number. */
export interface Line {
  number: number;
  text: string;
}

/** The place that a source names: `topo.txt:12-17 (nvidia-smi topo -m)`, `all.log [node1]:3,7-9 (dmesg)`. */
export function place(source: string): Place | null {
  const found = /^(.*?)(?: \[([^[\]]+)\])?:(\d+(?:-\d+)?(?:,\d+(?:-\d+)?)*) \([^()]*(?:\([^()]*\))?[^()]*\)$/s.exec(source);
  if (!found) return null;
  const [, name = "", label = null, all = ""] = found;
  const ranges = all.split(",").map((range): [number, number] => {
    const [first = 0, last = first] = range.split("-").map(Number);
    return [first, last];
  });
  return { name, label, ranges };
}

/** The lines of inputs, decoded once. */
export class Lines {
  #lines = new Map<string, string[]>();

  constructor(private readonly inputs: Input[]) {}

  /** The lines at a place; none where the page does not hold them, as in an archive. */
  at({ name, label, ranges }: Place): Line[] {
    const whole = label === null ? [] : this.#of(`${name} [${label}]`);
    const all = whole.length > 0 ? whole : this.#of(name);
    const lines = ranges.flatMap(([first, last]) => all.slice(first - 1, last).map((text, i) => ({ number: first + i, text })));
    // the lines of other hosts may stand between
    return label === null || whole.length > 0 ? lines : lines.filter(({ text }) => text.includes(label));
  }

  #of(name: string): string[] {
    const known = this.#lines.get(name);
    if (known) return known;
    const bytes = this.#bytes(name);
    // packed content has other lines than those that were read
    const isPacked = !bytes || bytes.subarray(0, 512).includes(0) || (bytes[0] === 0x1f && bytes[1] === 0x8b);
    const lines = isPacked ? [] : new TextDecoder().decode(bytes).split(/\r\n|\n|\r/);
    this.#lines.set(name, lines);
    return lines;
  }

  #bytes(name: string): Uint8Array | undefined {
    for (const input of this.inputs) {
      if (input.kind === "file" && input.name === name) return input.bytes;
      if (input.kind === "folder" && name.startsWith(`${input.name}/`)) {
        const path = name.slice(input.name.length + 1);
        const file = input.files.find((file) => file.path === path);
        if (file) return file.bytes;
      }
    }
    return undefined;
  }
}
