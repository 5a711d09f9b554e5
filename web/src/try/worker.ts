// The worker: holds the module, and answers one request after another. A panic is its last answer.

import { Died, Module, type FromWorker, type ToWorker } from "./protocol";

let module: Module | null = null;

const tell = (message: FromWorker, move: Transferable[] = []) => postMessage(message, { transfer: move });

addEventListener("message", ({ data }: MessageEvent<ToWorker>) => {
  if ("module" in data) {
    module = new Module(data.module);
    return;
  }
  try {
    const answer = module?.ask(data.line, data.body) ?? new Uint8Array();
    tell({ id: data.id, answer }, [answer.buffer]);
  } catch (error) {
    tell({ id: data.id, died: error instanceof Died ? error.message : String(error) });
    close();
  }
});
