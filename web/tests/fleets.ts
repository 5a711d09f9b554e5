// Fleets of any size, made from a seed: mostly healthy machines of three kinds, some with faults.

import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { Action, FleetPage, MemberView, OutlierView } from "../src/fleet/document";
import { folder, web } from "./harness";

/** Numbers from 0 to 1, the same for the same seed (mulberry32). */
function random(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let t = Math.imul(state ^ (state >>> 15), 1 | state);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 2 ** 32;
  };
}

const FAMILIES: [string, string[]][] = [
  ["pairs", ["read, copy engine, NVLink", "write, copy engine, NVLink", "read, SM, NVLink", "write, SM, NVLink", "both ways, copy engine, NVLink", "both ways, SM, NVLink", "write, copy engine, PCIe switch", "write, copy engine, across sockets"]],
  ["latency", ["write, SM, NVLink", "read, SM, NVLink", "write, SM, across sockets", "round trip, NVLink", "kernel launch", "copy call"]],
  ["host", ["to the GPU, pinned", "from the GPU, pinned", "both ways, pinned", "to the GPU, pageable", "from the GPU, pageable", "to the GPU, SM", "from the GPU, SM", "to the GPU, far socket", "from the GPU, far socket"]],
  ["together", ["all GPUs to host", "host to all GPUs", "ring, NVLink", "all pairs, NVLink", "from one to all", "from all to one", "two pairs, one switch"]],
  ["nics", ["write, near NIC", "read, near NIC", "write, far NIC", "read, far NIC", "latency, near NIC", "GPU memory, near NIC", "GPU memory, far NIC"]],
  ["collectives", ["all-reduce, 8 GiB", "all-reduce, 1 MiB", "all-gather, 1 GiB", "reduce-scatter, 1 GiB", "all-to-all, 1 GiB", "broadcast, 1 GiB"]],
  ["local", ["copy within memory", "read memory", "write memory"]],
];

const KINDS = ["8 × NVIDIA H200, 8 × ConnectX-7", "8 × NVIDIA H100 80GB HBM3, 8 × ConnectX-7", "4 × NVIDIA A100-SXM4-80GB"];

const FAULTS: [string, Action, string, number, number, NonNullable<OutlierView["unit"]>][] = [
  ["fleet-outlier", "isolate", "GPU3 writes to every GPU at 0.83 of what others of its kind reach", 0.83, 1, "GB/s"],
  ["narrow-link", "isolate", "GPU5 runs at PCIe 5.0 x8 instead of x16", 0.51, 14, "GB/s"],
  ["nvlink-errors", "reset", "NVLink 7 of GPU1 replays: 12,044 in 60 s", 0.94, 1, "GB/s"],
  ["slow-nic", "isolate", "mlx5_4 delivers half of its rate", 0.5, 30, "GB/s"],
  ["hot-gpu", "monitor", "GPU6 is throttled by heat during the measurement", 0.9, 37, "GB/s"],
  ["far-numa", "monitor", "the process is bound to the socket far from GPU0", 0.72, 14, "GB/s"],
];

/** The document of a fleet with this many machines. */
export function fleet(machines: number, seed = 1): FleetPage {
  const next = random(seed);
  const normal = () => Math.sqrt(-2 * Math.log(1 - next())) * Math.cos(2 * Math.PI * next());
  const tests = FAMILIES.flatMap(([family, names]) => names.map((name) => ({ name: `${family}: ${name}`, family })));
  const all: MemberView[] = [];
  const outliers: OutlierView[] = [];
  for (let at = 0; at < machines; at += 1) {
    const kind = at % 10 < 7 ? 0 : at % 10 < 9 ? 1 : 2;
    const scores = tests.map(({ family }) => {
      if ((kind === 2 && family === "nics") || (family === "collectives" && at % 11 === 3)) return null;
      const spread = family === "latency" ? 0.03 : 0.006;
      return Math.round(1000 * Math.max(0.2, 1 - Math.abs(normal()) * spread + (family === "latency" ? spread : 0)));
    });
    const name = `r${String(Math.floor(at / 18) + 1).padStart(2, "0")}-gpu${String((at % 18) + 1).padStart(3, "0")}`;
    const records = 1 + Math.floor(next() * 4);
    const member: MemberView = { name, kind, records, first: "2026-11-20T06:00:12Z", last: "2026-11-23T06:00:12Z", scores };
    if (at % 29 === 11 || at === 2) {
      const [rule, action, summary, share, first, unit] = FAULTS[Math.floor(next() * FAULTS.length)] ?? FAULTS[0]!;
      const measured = 391 * share * (1 + 0.01 * normal());
      member.action = action;
      const test = kind === 2 && tests[first]?.family === "nics" ? 0 : first;
      for (let i = 0; i < 3; i += 1) scores[test + i] = Math.round(1000 * share * (1 + 0.01 * normal()));
      outliers.push({
        machine: at, part: summary.match(/GPU\d|mlx5_\d/)?.[0] ?? "", rule, severity: action === "monitor" ? "warning" : "error", action,
        summary,
        why: `Measured ${measured.toFixed(1)} GB/s, where the model expects 392.2 (388 to 394), ${machines} machines of its kind have a median of 391.0, and it had 390.6 on 20 November.`,
        fix: "compare it with `nvidia-smi nvlink -s`; reseat or replace the GPU",
        unit, measured, expected: 392.2, peers: 391, ...(records > 1 ? { before: 390.6 } : {}), repeats: records, test,
        file: `runs/2026-11-23/${name}.run.json`,
      });
    }
    all.push(member);
  }
  const rank = { isolate: 0, reset: 1, monitor: 2 };
  outliers.sort((a, b) => rank[a.action] - rank[b.action] || (a.measured ?? 0) - (b.measured ?? 0));
  return {
    schema: "peerlane/fleet-page/1", peerlane: "0.1.0", records: all.reduce((sum, { records }) => sum + records, 0),
    kinds: KINDS.map((name) => ({ name, compared: machines > 20, shared: machines > 100 ? [{ rule: "iommu", summary: "the IOMMU translates; peer copies take longer", machines }] : [] })), tests, machines: all, outliers, left_out: 0, waived: 0, notes: machines > 100 ? ["r01-gpu001 is named by its folder: its record has no host name"] : [],
    unread: machines > 100 ? [{ name: "runs/2026-11-22/r01-gpu004.run.json.partial", why: "the record ends in the middle of a line" }] : [],
    unread_left_out: 0,
  };
}

/** The page of a document, as the program fills it. */
export function filled(name: string, document: FleetPage): string {
  const template = readFileSync(join(web, "dist", "fleet.html"), "utf8");
  const data = JSON.stringify(document).replace(/[<>&\u2028\u2029]/g, (c) => `\\u${c.charCodeAt(0).toString(16).padStart(4, "0")}`);
  const file = join(folder, `${name}.fleet.html`);
  writeFileSync(file, template.replace('"PEERLANE-DATA"', () => data).replace("PEERLANE-TITLE", "fleet").replace("PEERLANE-MARKDOWN", ""));
  return file;
}
