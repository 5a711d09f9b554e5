// What can be tried without an input of one's own.

import rig from "../../../published/fit/puget-4x3090.toml";
import allReduce from "../../../examples/slow-node/all_reduce_perf.txt";
import nvlink from "../../../examples/slow-node/nvlink.txt";
import topo from "../../../examples/slow-node/topo.txt";
import type { Input } from "./protocol";

const bytes = (text: string) => new TextEncoder().encode(text);

/** Each with what its button says. */
export const EXAMPLES: [string, Input][] = [
  [
    "A slow node of eight H200",
    {
      kind: "folder",
      name: "slow-node",
      files: [
        { path: "all_reduce_perf.txt", bytes: bytes(allReduce) },
        { path: "nvlink.txt", bytes: bytes(nvlink) },
        { path: "topo.txt", bytes: bytes(topo) },
      ],
    },
  ],
  ["Seven GPUs, six on risers", { kind: "catalogue", name: "7gforce" }],
  ["DGX-1", { kind: "catalogue", name: "dgx-1" }],
  ["Eight MI300X", { kind: "catalogue", name: "mi300x-8" }],
  ["Four RTX 3090", { kind: "file", name: "puget-4x3090.toml", bytes: bytes(rig) }],
];
