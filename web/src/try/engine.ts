// The library behind the page: a worker that is started when it is needed, ended when it takes too long, and started again.

import { unpacked } from "./base85";
import { document as documentIn, reading, size, type FromWorker, type Input, type Request, type ToWorker } from "./protocol";

/** The worker was ended, because a person wanted it or because there was a panic. */
export class Ended extends Error {}

/** How far reading is. */
export type Progress = (words: string, share: number | null) => void;

/** What was opened. */
export interface Summary {
  kind: "machines" | "nodes" | "fleet";
  machines: string[];
  notices: string[];
  incomplete: boolean;
}

interface Waiting {
  /** Whether it is about inputs. */
  isOurs: boolean;
  resolve(answer: Uint8Array): void;
  reject(why: Error): void;
}

/** A text of the page that is no program for the browser: the packed module, and the worker's script. */
const held = (id: string) => document.getElementById(id)?.textContent ?? "";

/** Only scripts of this page become workers, where a browser asks for that. */
interface Policy {
  createScriptURL(url: string): string;
}
const types = (globalThis as { trustedTypes?: { createPolicy(name: string, rules: Policy): Policy } }).trustedTypes;
const policy = types?.createPolicy("peerlane", {
  createScriptURL: (url) => {
    if (!url.startsWith("blob:")) throw new TypeError("not a script of this page");
    return url;
  },
});

async function compile(): Promise<WebAssembly.Module> {
  const packed = unpacked(held("module"));
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("deflate"));
  return WebAssembly.compile(await new Response(stream).arrayBuffer());
}

export class Engine {
  #compiled: Promise<WebAssembly.Module> = compile();
  #worker: Worker | null = null;
  #waiting = new Map<number, Waiting>();
  #next = 0;
  /** How often work was ended: what still waits for the module then is not begun. */
  #turn = 0;
  #inputs: { inputs: Input[]; apart: boolean } | null = null;
  #isOpen = false;

  /** Opens inputs in place of those before. */
  async open(inputs: Input[], apart: boolean, progress: Progress): Promise<Summary> {
    this.#inputs = { inputs, apart };
    this.#isOpen = false;
    await this.#send({ line: { op: "clear" }, body: [] });
    const all = inputs.reduce((sum, input) => sum + size(input), 0);
    let done = 0;
    for (const [at, input] of inputs.entries()) {
      const place = inputs.length > 1 ? `, ${at + 1} of ${inputs.length}` : "";
      progress(`Reading ${input.name}${place}`, all > 0 && inputs.length > 1 ? done / all : null);
      await this.#send(reading(input));
      done += size(input);
    }
    progress("Putting the machine together", null);
    const summary = JSON.parse(await this.#send({ line: { op: "open", apart }, body: [] })) as Summary;
    this.#isOpen = true;
    return summary;
  }

  /** A document about what is open, as it was written. */
  async ask(op: string, options: Record<string, unknown> = {}): Promise<string> {
    // a worker that was started again has to read once more
    if (!this.#isOpen && this.#inputs) await this.open(this.#inputs.inputs, this.#inputs.apart, () => undefined);
    return this.#send({ line: { op, ...options }, body: [] });
  }

  /** A document that is about no input. */
  async known(op: string): Promise<string> {
    return this.#send({ line: { op }, body: [] }, false);
  }

  /** Ends what is under way about inputs. A worker that is idle stays, with what it has learnt. */
  cancel(): void {
    this.#turn += 1;
    if ([...this.#waiting.values()].some(({ isOurs }) => isOurs)) this.#end("Cancelled.");
  }

  async #send({ line, body }: Request, isOurs = true): Promise<string> {
    const turn = this.#turn;
    const module = await this.#compiled;
    if (isOurs && turn !== this.#turn) throw new Ended("Cancelled.");
    const worker = (this.#worker ??= this.#start(module));
    const id = (this.#next += 1);
    const answer = await new Promise<Uint8Array>((resolve, reject) => {
      this.#waiting.set(id, { isOurs, resolve, reject });
      // copied: the page keeps its own, to show lines and for a worker that is started again
      worker.postMessage({ id, line: JSON.stringify(line), body } satisfies ToWorker);
    });
    return documentIn(answer);
  }

  #start(module: WebAssembly.Module): Worker {
    const url = URL.createObjectURL(new Blob([held("worker")], { type: "text/javascript" }));
    const worker = new Worker(policy?.createScriptURL(url) ?? url);
    URL.revokeObjectURL(url);
    worker.addEventListener("message", ({ data }: MessageEvent<FromWorker>) => {
      if ("died" in data) {
        this.#end(`peerlane stopped at an error of its own, and the page goes on: ${data.died}`);
        return;
      }
      this.#waiting.get(data.id)?.resolve(data.answer);
      this.#waiting.delete(data.id);
    });
    worker.addEventListener("error", (event) => this.#end(`The worker has ended: ${event.message || "it could not be started"}`));
    worker.postMessage({ module } satisfies ToWorker);
    return worker;
  }

  #end(why: string): void {
    this.#worker?.terminate();
    this.#worker = null;
    this.#isOpen = false;
    for (const { reject } of this.#waiting.values()) reject(new Ended(why));
    this.#waiting.clear();
  }
}
