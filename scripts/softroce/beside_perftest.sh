#!/usr/bin/env bash
# peerlane's verbs beside perftest on the same soft-RoCE link: 24 pairs of runs, in turn, the first of a pair alternating.
# Prints the median ratio of either kind with its 95 % interval, which should contain 1. The rates are those of emulated
# CPUs and mean nothing; that both programs get the same does.
set -euo pipefail
cd "$(dirname "$0")/../.."
build=${CARGO_TARGET_DIR:-target}
cargo build --quiet --locked -p peerlane-net --example verbs_pair
pairs="$(mktemp)"
trap 'rm -f "$pairs"' EXIT
scripts/softroce/run.sh 900 scripts/softroce/perftest_on_node.sh "$build/debug/examples/verbs_pair" | tee "$pairs"
python3 - "$pairs" <<'PYTHON'
import sys
from math import comb
from statistics import median

missed = False
for what in ["bandwidth", "latency"]:
    lines = [line.split()[1:] for line in open(sys.argv[1]) if line.startswith(f"node2: {what} ")]
    pairs = [tuple(map(float, words[1:])) for words in lines if len(words) == 3]
    ratios = sorted(peerlane / perftest for perftest, peerlane in pairs)
    n = len(ratios)
    # the k-th least and greatest enclose the median with 95 % where P(Binomial(n, ½) < k) is at most 2.5 %
    k = max((k for k in range(n) if sum(comb(n, i) for i in range(k)) <= 0.025 * 2**n), default=0)
    if n < 20 or k == 0:
        sys.exit(f"{what}: only {n} pairs of runs gave two numbers")
    low, high = ratios[k - 1], ratios[-k]
    missed |= not low <= 1 <= high
    values = [f"{median(side):.4g}" for side in zip(*pairs)]
    print(f"{what}: perftest {values[0]}, peerlane {values[1]}; ratio {median(ratios):.3f} [{low:.3f}, {high:.3f}] of {n} pairs")
sys.exit(missed)
PYTHON
