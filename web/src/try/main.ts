// The page: inputs on top, the answer below. The library does the work in a worker; nothing is sent anywhere.

import type { MachineReport, ReportDocument } from "../document";
import { button, h, refill } from "../dom";
import { listen, show } from "../report";
import { copy, download } from "../share";
import { Engine, Ended, type Summary } from "./engine";
import { History, whatIf, type Part } from "./edits";
import { EXAMPLES } from "./examples";
import { explainer } from "./explain";
import type { ExplanationDocument as Explanation } from "./explanation";
import { added, chosen, dropped, isPartsList, Lines, pasted } from "./inputs";
import { areDesigns, linked, linkTo } from "./link";
import { size, type Input } from "./protocol";
import { quoted } from "./quotes";
import { Status } from "./status";

/** Of the name of a changed design. */
const CHANGED = " (what if)";

const engine = new Engine();
const history = new History();
const status = new Status(() => engine.cancel());
const reportRoot = document.getElementById("report") as HTMLElement;

let inputs: Input[] = [];
/** The number of the text in the field: one that is checked again takes its own place. */
let which = 1;
let machines: MachineReport[] = [];
/** The machines before any change, which completions are about. */
let original: MachineReport[] = [];
let parts: Promise<Part[]> | null = null;

// what is given

const field = h("textarea", {
  id: "pasted", rows: 6, spellcheck: "false", autocomplete: "off", wrap: "off",
  placeholder: "nvidia-smi topo -m, nvidia-smi nvlink -s, lspci -vv, dmesg, nvbandwidth, all_reduce_perf, rocm-smi, a log, a system file, a record …",
});
const files = h("input", { type: "file", multiple: true, class: "unseen", tabindex: -1, "aria-hidden": "true" });
const folder = h("input", { type: "file", webkitdirectory: true, class: "unseen", tabindex: -1, "aria-hidden": "true" });
const catalogue = h("select", { id: "catalogue" }, h("option", { value: "" }, "a system of the catalogue"));
const given = h("ul", { class: "given", "aria-label": "Inputs" });
const apart = h("input", { type: "checkbox", id: "apart" });
const apartLabel = h("label", { class: "apart" }, apart, " each is a design of its own: show them side by side");
const another = button("Paste another", () => {
  which += 1;
  field.value = "";
  another.hidden = true;
  field.focus();
}, { title: "Keeps this text, and takes one more" });
const input = h("details", { class: "screen input", open: true },
  h("summary", {}, "Input"),
  h("label", { for: "pasted" }, "Paste what tools printed or a list of parts (4x L40S + 2x 200G), or drop files and folders anywhere, of one machine or of several"),
  field,
  h("p", { class: "actions" },
    button("Check", () => void check(), { class: "primary", title: "Ctrl+Enter" }),
    another,
    button("Add files", () => files.click()),
    button("Add a folder", () => folder.click()),
    h("label", {}, "Add ", catalogue),
  ),
  given, apartLabel,
  h("p", { class: "actions", role: "group", "aria-label": "Examples" }, "Examples: ", ...EXAMPLES.map(([label, example]) => button(label, () => void only([example])))),
);
const change = whatIf(history, () => original, partsOf, refresh);
const asSystem = button("Save as a system file", () => void save("system"));
const asLink = button("Link to the design", () => void share());
const link = h("input", { id: "link", readonly: true });
const linkSaid = h("output", { class: "said" });
const linkLabel = h("span", { class: "link" }, h("label", { for: "link" }, "Link"), link, linkSaid);
const saved = h("p", { class: "actions screen save" },
  button("Save as a page", () => void save("page")), button("Save as JSON", () => void save("check")), asSystem, asLink, button("New input", () => renew()), linkLabel);

function listInputs(): void {
  const words = (input: Input) => {
    const kib = Math.max(1, Math.round(size(input) / 1024));
    if (input.kind === "catalogue") return isPartsList(input.name) ? "a list of parts" : "from the catalogue";
    return input.kind === "folder" ? `${input.files.length} files, ${kib} KiB` : `${kib} KiB`;
  };
  refill(given, ...inputs.map((one) => h("li", {}, one.name, h("span", { class: "hint" }, ` ${words(one)} `),
    button("Remove", () => void replace(inputs.filter((other) => other !== one)), { "aria-label": `Remove ${one.name}` }))));
  apartLabel.hidden = inputs.length < 2;
  another.hidden = !field.value.trim() || !inputs.some(({ name }) => name.startsWith("pasted"));
}

/** Checks what is in the field, with what was given before. */
async function check(): Promise<void> {
  const text = field.value.trim() ? [pasted(field.value, which)] : [];
  // what was a text may have become a design, and the other way round
  const others = inputs.filter(({ name }) => name.replace(/\.toml$/, "") !== pasted("", which).name && !isPartsList(name));
  await replace(text.length > 0 ? added(others, text) : inputs);
}

async function more(found: Promise<Input[]>): Promise<void> {
  try {
    await replace(added(inputs, await found));
  } catch (error) {
    status.failed(error);
  }
}

async function only(of: Input[]): Promise<void> {
  field.value = "";
  which = 1;
  await replace(of);
}

function renew(): void {
  input.open = true;
  field.value = "";
  which = 1;
  void replace([]);
  field.focus();
}

/** The number of the inputs that are opened: an older one's answer is not shown. */
let turn = 0;

async function replace(with_: Input[]): Promise<void> {
  const mine = (turn += 1);
  engine.cancel();
  inputs = with_;
  history.clear();
  linkLabel.hidden = true;
  listInputs();
  if (inputs.length === 0) {
    clear();
    status.told(field.value.trim() ? "" : "Nothing is given yet.");
    return;
  }
  try {
    status.begin();
    const summary = await engine.open(inputs, apart.checked && inputs.length > 1, (words, share) => status.progress(words, share));
    if (mine !== turn) return;
    if (summary.kind !== "machines") await showPage();
    else await refresh();
    if (mine !== turn) return;
    answered(summary);
  } catch (error) {
    if (mine !== turn) return;
    clear();
    status.failed(error);
  }
}

function answered(summary: Summary): void {
  status.told(summary.notices.length > 0 ? "Read, with these notices:" : "", summary.notices);
  input.open = false;
  document.body.classList.add("answered");
  document.title = `${summary.machines.slice(0, 3).join(", ")} · peerlane`;
  change.root.hidden = summary.kind !== "machines";
  saved.hidden = false;
  asSystem.hidden = summary.machines.length !== 1 || summary.kind !== "machines";
  asLink.hidden = !areDesigns(inputs);
  scrollTo(0, 0);
}

/** What stands where no answer is. */
const about = () => h("main", { class: "about" },
  h("p", {}, "What every path between GPUs, NICs and host memory is, should deliver and does deliver; what is wrong, and what to do about it. Then change the design, and see what would follow."),
  h("ul", {},
    h("li", {}, "Texts: output of nvidia-smi, lspci, dmesg, nvbandwidth, p2pBandwidthLatencyTest, nccl-tests, rocm-smi, ibstat, lstopo and many more, alone or in a log, a ticket or a forum post."),
    h("li", {}, "Folders and archives of such texts (.zip, .tar, .gz, .bz2, .xz, .zst), of one machine or of several."),
    h("li", {}, "Records of ", h("code", {}, "peerlane measure"), ", and system files (.toml), which describe a machine that does not exist yet.")),
  h("details", { class: "plain screen" }, h("summary", {}, "Licences of what is in this page"), h("pre", {}, document.getElementById("licences")?.textContent ?? "")));

function clear(): void {
  refill(reportRoot, about());
  document.body.classList.remove("answered");
  machines = original = [];
  change.root.hidden = saved.hidden = true;
  change.root.open = false;
  change.refresh();
}

// the answer

/** Shows what is open, with the changes that are made. */
async function refresh(): Promise<void> {
  status.begin();
  status.progress("Judging", null);
  try {
    const document = JSON.parse(await engine.ask("report", { edits: history.edits })) as ReportDocument;
    machines = document.machines;
    if (history.edits.length === 0) original = machines;
    const lines = new Lines(inputs);
    const first = new Set(machines.map((machine) => machine.findings.find(({ severity }) => severity !== "info")));
    show(reportRoot, document, {
      beside: (state, at) => explainer(state, at, explain, (edits) => void change.add(edits)),
      below: (finding) => quoted(finding, lines, first.has(finding)),
    });
    change.refresh();
    // it was of the design before
    linkLabel.hidden = true;
  } finally {
    status.end();
  }
}

/** A record between nodes, and records of a fleet, have a page of their own, which runs by itself. */
async function showPage(): Promise<void> {
  status.progress("Judging", null);
  const page = JSON.parse(await engine.ask("page")) as string;
  const url = URL.createObjectURL(new Blob([page], { type: "text/html" }));
  const frame = h("iframe", { title: "The records' page", class: "page", sandbox: "allow-scripts allow-downloads", allow: "clipboard-write", src: url });
  frame.addEventListener("load", () => URL.revokeObjectURL(url), { once: true });
  refill(reportRoot, h("main", {}, frame));
  machines = original = [];
  status.end();
}

async function explain(at: number, a: string, b: string): Promise<Explanation> {
  const isChanged = history.edits.length > 0 && (machines[at]?.name.endsWith(CHANGED) ?? false);
  // the number of the design among those that were given
  const before = machines.slice(0, at + 1).filter(({ name }) => history.edits.length === 0 || !name.endsWith(CHANGED)).length;
  const options = { a, b, machine: String(before), edits: isChanged ? history.edits : [] };
  return JSON.parse(await engine.ask("explain", options)) as Explanation;
}

function partsOf(): Promise<Part[]> {
  return (parts ??= engine.known("parts").then(
    (text) => JSON.parse(text) as Part[],
    // the worker was ended: another time
    () => {
      parts = null;
      return [];
    },
  ));
}

/** A link is made, shown and copied; nobody gets it but who is given it. */
async function share(): Promise<void> {
  link.value = await linkTo({ inputs, apart: apart.checked, edits: history.edits });
  linkLabel.hidden = false;
  link.select();
  linkSaid.textContent = (await copy(link.value)) ? "Copied." : "";
}

/** Opens what the address holds. */
async function follow(): Promise<void> {
  try {
    const found = await linked(location.hash);
    if (!found) return;
    apart.checked = found.apart;
    await only(found.inputs);
    if (found.edits.length > 0) await change.add(found.edits);
  } catch (error) {
    status.failed(error);
  }
}

const ENDING = { page: ["html", "text/html"], check: ["json", "application/json"], system: ["toml", "application/toml"] } as const;

async function save(what: keyof typeof ENDING): Promise<void> {
  try {
    const text = await engine.ask(what, { edits: history.edits });
    const name = (machines[0]?.name ?? inputs[0]?.name ?? "report").replace(/[^\w.-]+/g, "-");
    const [ending, type] = ENDING[what];
    download(`${name}.${ending}`, new Blob([what === "check" ? `${text}\n` : (JSON.parse(text) as string)], { type }));
  } catch (error) {
    status.failed(error);
  }
}

// the page

function start(): void {
  const root = document.getElementById("try");
  if (!root) return;
  refill(root,
    h("section", { "aria-label": "Input" },
      h("h1", { class: "brand" }, h("strong", {}, "peerlane"), " in the browser. Nothing leaves this page."),
      h("div", { class: "bars" }, input, change.root, saved), status.root, files, folder),
  );
  listInputs();
  clear();
  listen();
  field.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) void check();
  });
  for (const element of [files, folder]) {
    element.addEventListener("change", () => {
      const found = [...(element.files ?? [])];
      element.value = "";
      if (found.length > 0) void more(chosen(found));
    });
  }
  apart.addEventListener("change", () => void replace(inputs));
  catalogue.addEventListener("focus", () => void fillCatalogue(), { once: true });
  catalogue.addEventListener("change", () => {
    if (catalogue.value) void more(Promise.resolve([{ kind: "catalogue", name: catalogue.value }]));
    catalogue.value = "";
  });
  addEventListener("hashchange", () => void follow());
  addEventListener("dragover", (event) => {
    event.preventDefault();
    root.classList.add("over");
  });
  for (const name of ["dragleave", "drop"]) addEventListener(name, () => root.classList.remove("over"));
  addEventListener("drop", (event) => {
    event.preventDefault();
    if (event.dataTransfer) void more(dropped(event.dataTransfer));
  });
  addEventListener("paste", (event) => {
    const data = event.clipboardData;
    const isField = event.target instanceof HTMLElement && event.target.closest("textarea, input") !== null;
    if (data && data.files.length > 0) {
      event.preventDefault();
      void more(chosen(data.files));
    } else if (data && !isField) {
      field.value = data.getData("text/plain");
      if (field.value.trim()) void check();
    }
  });
}

async function fillCatalogue(): Promise<void> {
  try {
    const { systems } = JSON.parse(await engine.known("systems")) as { systems: { name: string; title?: string | null }[] };
    catalogue.append(...systems.map(({ name, title }) => h("option", { value: name }, title ? `${name}: ${title}`.slice(0, 90) : name)));
  } catch (error) {
    if (!(error instanceof Ended)) status.failed(error);
  }
}

start();
void follow();
// the module gets ready, and its parts are read, while a person looks for an input
void partsOf();
