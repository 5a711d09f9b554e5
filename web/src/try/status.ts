// What is under way, with the seconds that it takes and a button that ends it; what went wrong; and notices.

import { button, h, refill } from "../dom";

/** Work that is done sooner is not announced, in milliseconds. */
const SOON = 250;

export class Status {
  #words = h("span", {});
  #seconds = h("span", { class: "hint" });
  #bar = h("progress", { "aria-label": "Progress" });
  #working: HTMLElement;
  #told = h("div", { class: "told", role: "status" });
  #timer: ReturnType<typeof setInterval> | null = null;
  readonly root: HTMLElement;

  constructor(cancel: () => void) {
    this.#working = h("p", { class: "actions working" }, this.#bar, this.#words, this.#seconds, button("Cancel", cancel));
    this.#working.hidden = true;
    this.root = h("div", { class: "status screen" }, this.#working, this.#told);
  }

  /** Work begins, or goes on. */
  begin(): void {
    if (this.#timer !== null) return;
    const since = performance.now();
    this.#told.replaceChildren();
    this.#seconds.textContent = "";
    this.#timer = setInterval(() => {
      const passed = performance.now() - since;
      this.#working.hidden = passed < SOON;
      this.#seconds.textContent = `${(passed / 1000).toFixed(0)} s`;
    }, SOON);
  }

  /** What is done now, and its share of all where that is known. */
  progress(words: string, share: number | null): void {
    this.#words.textContent = words;
    if (share === null) this.#bar.removeAttribute("value");
    else this.#bar.value = share;
  }

  end(): void {
    if (this.#timer !== null) clearInterval(this.#timer);
    this.#timer = null;
    this.#working.hidden = true;
  }

  /** Ends with a message, and notices. */
  told(words: string, notices: string[] = []): void {
    this.end();
    refill(this.#told, words !== "" && h("p", {}, words), notices.length > 0 && h("ul", {}, ...notices.map((notice) => h("li", {}, notice))));
  }

  /** Ends with what went wrong. */
  failed(error: unknown): void {
    this.end();
    const [first = "", ...rest] = (error instanceof Error ? error.message : String(error)).split("\n");
    refill(this.#told, h("div", { class: "refused" }, h("p", {}, first), ...rest.map((line) => h("p", {}, line))));
  }
}
