#!/usr/bin/env bash
# Measures between two "hosts" on one machine with two GPUs: two agents with a GPU each. NCCL beside nccl-tests, in turn, each
# rank on its half of the cores: as two hosts (NCCL_HOSTID), by its network, beside TCP with host and GPU memory; and as one, by
# whatever joins the GPUs. Then a rank that hangs.
#
# usage: nodes.sh PEERLANE NCCL_TESTS OUT [TIMES [sockets [SECONDS]]]
#   NCCL_TESTS  folder with sendrecv_perf and all_reduce_perf of nccl-tests 2.14 or later, built with MPI=1
#   OUT         folder for records and nccl-tests' output
#   TIMES       pairs of runs of each kind (6)
#   sockets     only NCCL as two hosts beside nccl-tests
#   SECONDS     no pair begins later than this (no limit)
# A pair whose programs do not both end well is left out, and says so.
set -euo pipefail
# rank NUMBER HOST COMMAND...: runs a command with the GPU and half of the cores of that number; as a host of its own unless HOST is -
rank() {
    local number="$1" host="$2"
    shift 2
    half=$(($(nproc) / 2))
    [ "$host" = - ] || export NCCL_HOSTID="$host"
    export CUDA_VISIBLE_DEVICES="$number" NCCL_TESTS_DEVICE=0
    exec taskset -c "$((number * half))-$((number * half + half - 1))" "$@"
}

# mpirun starts this script for each rank
if [ "${1:-}" = --rank ]; then
    shift
    rank "$@"
fi
[ $# -ge 3 ] || { sed -n '2,/^set/{/^#/s/^# \{0,1\}//p}' "$0" >&2; exit 2; }
peerlane="$(realpath "$1")" tests="$(realpath "$2")" out="$3" times="${4:-6}" only="${5:-}" limit="${6:-}"
mkdir -p "$out"
PEERLANE_SECRET="$(od -An -N16 -tx1 /dev/urandom | tr -d ' \n')"
export PEERLANE_SECRET

# agents HOSTS RECORD OPTION...: measures with two agents; with HANG=1 the second one's process that calls NCCL stops on its way
agents() {
    local first="${1%%,*}" second="${1##*,}" record="$2" port=$((20000 + RANDOM % 10000)) other stopping="" status=0
    shift 2
    local common=(measure --nodes --every-rank --size 2 --head "127.0.0.1:$port" "$@")
    (rank 1 "$second" "$peerlane" "${common[@]}" --rank 1) &
    other=$!
    if [ -n "${HANG:-}" ]; then
        stop_child "$other" &
        stopping=$!
    fi
    (rank 0 "$first" timeout 90 "$peerlane" "${common[@]}" --rank 0 -o "$record") || status=$?
    wait "$other" $stopping || status=$?
    return "$status"
}

# stop_child PID: stops the child of an agent that holds its GPUs, a while after it began
stop_child() {
    local child=""
    for ((i = 0; i < 200 && ${#child} == 0; i++)); do
        sleep 0.1
        child="$(pgrep -P "$1" -f 'gpu-sides$' || true)"
    done
    sleep 4
    kill -STOP "$child"
}

# nccl_tests HOSTS PROGRAM SIZE: the same by nccl-tests
nccl_tests() {
    local first="${1%%,*}" second="${1##*,}" run=("$tests/$2" -b "$3" -e "$3" -n 20 -w 5)
    timeout 60 mpirun --allow-run-as-root --oversubscribe --bind-to none \
        -np 1 bash "$0" --rank 0 "$first" "${run[@]}" : -np 1 bash "$0" --rank 1 "$second" "${run[@]}"
}

# pair NUMBER HOSTS STEM OPTION...: one run of each program, the first alternating
pair() {
    local i="$1" hosts="$2" stem="$3"
    shift 3
    if ((i % 2 == 0)); then agents "$hosts" "$out/$stem-$i.json" "$@" || return; fi
    nccl_tests "$hosts" sendrecv_perf 64M >"$out/$stem-sendrecv-$i.txt" || return
    nccl_tests "$hosts" all_reduce_perf 256M >"$out/$stem-all-reduce-$i.txt" || return
    if ((i % 2)); then agents "$hosts" "$out/$stem-$i.json" "$@" || return; fi
    echo "$i" >>"$out/$stem-pairs"
}

# beside HOSTS STEM OPTION...: TIMES pairs of runs
beside() {
    rm -f "$out/$2-pairs"
    for ((i = 1; i <= times; i++)); do
        [ -z "$limit" ] || [ "$SECONDS" -lt "$limit" ] || return 0
        pair "$i" "$@" || echo "pair $i of $2 did not end well"
    done
}

if [ "$only" = sockets ]; then
    beside a,b network --redact --transport nccl
else
    beside -,- direct --transport nccl
    beside a,b network --redact
fi

python3 - "$out" "$only" <<'PYTHON'
import json, math, pathlib, statistics, sys
out, only = pathlib.Path(sys.argv[1]), sys.argv[2]

def bus(name):
    rows = [line.split() for line in (out / name).read_text().splitlines()]
    rows = [row for row in rows if row and row[0].isdigit()]
    return float(rows[-1][7]), rows[-1][8]

def cell(record, probe):
    cells = json.loads((out / record).read_text())["cells"]
    return next(c for c in cells if c["probe"] == probe and not c.get("again"))

def pairs_of(kind):
    return [int(line) for line in (out / f"{kind}-pairs").read_text().split()]

def interval(values):
    """The order statistics between which the median lies in at least 95 of 100 cases; None of fewer than 6 values."""
    n, ordered = len(values), sorted(values)
    below = lambda k: sum(math.comb(n, i) for i in range(k)) / 2**n
    k = max((k for k in range(1, n // 2 + 1) if 2 * below(k) <= 0.05), default=None)
    return k and (ordered[k - 1], ordered[n - k])

tests = [("send-receive", "sendrecv"), ("all-reduce", "all-reduce")]
for kind, (probe, stem) in [(kind, test) for kind in (("network",) if only else ("direct", "network")) for test in tests]:
    pairs = [(cell(f"{kind}-{i}.json", probe)["value"] / 1e9, bus(f"{kind}-{stem}-{i}.txt")[0]) for i in pairs_of(kind)]
    ratios = sorted(ours / theirs for ours, theirs in pairs)
    ours, theirs = zip(*pairs)
    inner = interval(ratios)
    print(f"{kind}, {probe}: peerlane {statistics.median(ours):.3f} ({min(ours):.3f} to {max(ours):.3f}), "
          f"nccl-tests {statistics.median(theirs):.3f} ({min(theirs):.3f} to {max(theirs):.3f}) GB/s of bus bandwidth; "
          f"ratio {statistics.median(ratios):.4f} ({ratios[0]:.4f} to {ratios[-1]:.4f}"
          f"{f'; 95 % {inner[0]:.4f} to {inner[1]:.4f}' if inner else ''}), n = {len(pairs)}")
    print("  ratios: " + " ".join(f"{ratio:.3f}" for ratio in ratios))
if only:
    sys.exit()
host, gpu = [], []
for i in pairs_of("network"):
    cells = json.loads((out / f"network-{i}.json").read_text())["cells"]
    for a in (0, 1):
        both = [c["value"] / 1e9 for memory in ("host", "GPU0") for c in cells
                if c["transport"] == "tcp" and c["probe"] == "send" and c["from"]["node"] == a and c["to"]["node"] != a
                and c["from"]["memory"] == memory and not c.get("again")]
        host.append(both[0])
        gpu.append(both[1])
ratios = sorted(g / h for g, h in zip(gpu, host))
print(f"TCP: host memory {statistics.median(host):.2f} ({min(host):.2f} to {max(host):.2f}), GPU memory "
      f"{statistics.median(gpu):.2f} ({min(gpu):.2f} to {max(gpu):.2f}) GB/s; ratio {statistics.median(ratios):.3f} "
      f"({ratios[0]:.3f} to {ratios[-1]:.3f}), n = {len(ratios)}")
PYTHON

[ -z "$only" ] || exit 0

# a rank of NCCL that hangs: the rest is measured
HANG=1 agents a,b "$out/hung.json" --patience 3s
python3 - "$out/hung.json" <<'PYTHON'
import json, sys
for c in json.load(open(sys.argv[1]))["cells"]:
    print(c["transport"], c["probe"], *(f"{c[e]['node']}/{c[e]['memory']}" for e in ("from", "to")), c.get("value"),
          *(f"{f['kind']}: {f.get('detail')}" for f in c.get("flags", [])))
PYTHON
