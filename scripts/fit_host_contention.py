#!/usr/bin/env python3
"""Fits how GPUs share one host's memory to records of peerlane, and says how well half of them foretells the rest.

    scripts/fit_host_contention.py captures/h200x4-vm-runs/subsets.json captures/h200x4-vm-runs/subsets-2.json

Needs numpy and scipy. The form is that of docs/model.md: read and write windows over round trips that grow
with the queue at host memory. Time is in round trips of a read, so that only quotients come out. The links' own limits
are given as the program states them for PCIe 5.0 x16 of an H200, the memory's as eight channels of DDR5-5600 have it.
A record's level is what a written byte takes of memory.
"""

import json
import math
import sys

import numpy as np
from scipy.optimize import brentq, least_squares

# GB/s that a lone direction gets, and how much less of it a byte of the other leaves
DOWN, UP, UP_LOST, DOWN_LOST = 55.10, 55.29, 0.083, 0.054
KERNEL_DOWN, KERNEL_UP = 51.6, 52.9
MEMORY = 358.4
NAMES = ["read window", "write window", "write round trip", "service", "kernel window"]
START = [70.0, 95.0, 0.54, 0.18, 86.0]


def cells(path):
    """(kernels?, [(GPU, to the host?)], [GB/s]) of each set of copies between GPUs and host memory."""
    out = []
    for cell in json.load(open(path))["cells"]:
        ways = cell["work"].get("transfers", [])
        if not ways or not all("host" in (t["source"], t["destination"]) for t in ways):
            continue
        names = [(t["source"], True) if t["destination"] == "host" else (t["destination"], False) for t in ways]
        values = [e["value"] for e in cell["each"]] if "each" in cell else [cell["value"]]
        out.append((cell["test"], ways[0]["engine"] == "sm", names, values))
    return out


def rates(kernel, names, wait, p):
    reads, writes, trip, _, kernels = p
    down, up = DOWN, UP
    room = {True: writes / (trip + wait), False: reads / (1 + wait)}
    if kernel:
        down, up = KERNEL_DOWN, KERNEL_UP
    gpus = {}
    for gpu, way in names:
        gpus.setdefault(gpu, set()).add(way)
    result = []
    for gpu, way in names:
        both = len(gpus[gpu]) == 2
        if kernel:
            most = kernels / (1 + wait) / (2 if both else 1)
            result.append(min(most, up if way else down))
            continue
        d = u = 0.0
        for _ in range(40):
            d = min(room[False], down - DOWN_LOST * u) if False in gpus[gpu] else 0.0
            u = min(room[True], up - UP_LOST * d) if True in gpus[gpu] else 0.0
        result.append(u if way else d)
    return result


def solve(kernel, names, p, level):
    def busy(wait):
        return sum(x * (level if way else 1) for x, (_, way) in zip(rates(kernel, names, wait, p), names)) / MEMORY

    def excess(wait):
        b = min(busy(wait), 0.995)
        return p[3] * b / (1 - b) - wait

    return rates(kernel, names, brentq(excess, 0, 300 * p[3]), p)


def errors(some, p, level):
    return np.array([math.log(a / b) for _, kernel, names, values in some
                     for a, b in zip(solve(kernel, names, p, level), values)])


def kind(cell):
    gpus = {}
    for gpu, way in cell[2]:
        gpus[gpu] = gpus.get(gpu, 0) + (2 if way else 1)
    return (cell[0], cell[1], tuple(sorted(gpus.values())))


def halves(some):
    """Every other subset of each kind; kinds of which there is one go to either half in turn."""
    kinds, half, turn = {}, ([], []), 0
    for cell in some:
        kinds.setdefault(kind(cell), []).append(cell)
    for group in kinds.values():
        for i, cell in enumerate(group):
            half[(i + turn) % 2].append(cell)
        turn ^= len(group) % 2
    return half


def fit(sets, fixed=None):
    """Constants that all sets share, and one level for each of them."""
    def unpack(y):
        return (fixed if fixed is not None else np.exp(y[:5])), np.exp(y[-len(sets):])

    def residuals(y):
        p, levels = unpack(y)
        return np.concatenate([errors(some, p, level) for some, level in zip(sets, levels)])

    start = ([] if fixed is not None else START) + [2.0] * len(sets)
    found = least_squares(residuals, np.log(start), loss="soft_l1", f_scale=0.02, diff_step=1e-4)
    return unpack(found.x)


def limited(some):
    """Those in which host memory makes someone at least 3 % slower than the links alone would."""
    free = np.array(START)
    return [c for c in some if len({g for g, _ in c[2]}) > 1 and any(
        v < 0.97 * x for x, v in zip(rates(c[1], c[2], 0.0, free), c[3]))]


def say(title, some, p, level):
    for words, part in (("all", some), ("limited by the host", limited(some))):
        if part:
            e = np.abs(errors(part, p, level)) * 100
            print(f"  {title:34} {words:20} n {len(e):4} median {np.median(e):4.1f} %  "
                  f"95th {np.percentile(e, 95):5.1f} %  worst {e.max():5.1f} %")


def main():
    records = [cells(path) for path in sys.argv[1:]]
    tested = [[c for c in r if c[0] == "subsets"] for r in records]
    split = [halves(r) for r in tested]
    print("each record by itself: constants and level from one half")
    for i, path in enumerate(sys.argv[1:]):
        for h in (0, 1):
            kernel = [c for c in sum(records, []) if c[1] and c[0] == "host-both"]
            p, (level, _) = fit([split[i][h], kernel])
            say(f"{path.rsplit('/', 1)[-1]}, half {h + 1} from the other", split[i][1 - h], p, level)
            for j, other in enumerate(tested):
                if j != i:
                    _, (refitted,) = fit([split[j][h]], fixed=p)
                    say("  carried over as it is", split[j][1 - h], p, level)
                    say("  carried over, level refitted", split[j][1 - h], p, refitted)
    if len(records) > 1:
        print("together: one half of each record, the other half of the next")
        chosen = [split[i][i % 2] + [c for c in r if c[1] and c[0] == "host-both"] for i, r in enumerate(records)]
        p, levels = fit(chosen)
        print("   ", ", ".join(f"{n} {v:.4g}" for n, v in zip(NAMES, p)), "written byte", np.round(levels, 3))
        for i, path in enumerate(sys.argv[1:]):
            say(path.rsplit("/", 1)[-1] + ", other half", split[i][1 - i % 2], p, levels[i])
            say("  with the mean level", split[i][1 - i % 2], p, float(np.mean(levels)))
            all_host = [c for c in records[i] if c[0] == "all-host"]
            if all_host:
                say("  all-host, engines", [c for c in all_host if not c[1]], p, levels[i])
                say("  all-host, kernels", [c for c in all_host if c[1]], p, levels[i])


if __name__ == "__main__":
    main()
