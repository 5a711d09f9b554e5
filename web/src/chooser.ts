// Many blocks of a kind, of which one is shown; a menu chooses it. In print all are shown.

import { h } from "./dom";

/** A block, what the menu calls it, and under which heading. */
export interface Block {
  root: HTMLElement;
  title: string;
  group?: string;
}

/** The blocks below a menu, and a function that shows one of them. A single block needs no menu. */
export function chooser(label: string, blocks: Block[], first: number): { content: HTMLElement[]; show: (at: number) => void } {
  const option = ({ title }: Block, at: number) => h("option", { value: at }, title);
  const groups = [...new Set(blocks.map((block) => block.group ?? ""))].map((name) => {
    const options = blocks.flatMap((block, at) => ((block.group ?? "") === name ? [option(block, at)] : []));
    return name === "" ? options : [h("optgroup", { label: name }, ...options)];
  });
  const menu = h("select", {}, ...groups.flat());
  const show = (shown: number) => {
    menu.value = String(shown);
    blocks.forEach(({ root }, at) => root.classList.toggle("aside", at !== shown));
  };
  menu.addEventListener("change", () => show(Number(menu.value)));
  show(first);
  const roots = blocks.map(({ root }) => root);
  return { content: blocks.length > 1 ? [h("label", { class: "chooser screen" }, `${label}, 1 of ${blocks.length} `, menu), ...roots] : roots, show };
}
