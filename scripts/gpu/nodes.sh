#!/usr/bin/env bash
# Measures between two "hosts" on one machine with two GPUs: an agent with one GPU each, which NCCL takes for two hosts
# (NCCL_HOSTID), so that it uses its network. Beside nccl-tests, in turn; then a rank that hangs.
#
# usage: nodes.sh PEERLANE NCCL_TESTS OUT [TIMES]
#   NCCL_TESTS  folder with sendrecv_perf and all_reduce_perf, built with MPI=1
#   OUT         folder for records and nccl-tests' output
#   TIMES       pairs of runs (6)
set -euo pipefail
[ $# -ge 3 ] || { sed -n '2,/^set/{/^#/s/^# \{0,1\}//p}' "$0" >&2; exit 2; }
peerlane="$(realpath "$1")" tests="$(realpath "$2")" out="$3" times="${4:-6}"
mkdir -p "$out"
PEERLANE_SECRET="$(od -An -N16 -tx1 /dev/urandom | tr -d ' \n')"
export PEERLANE_SECRET

# agents RECORD OPTION...: measures with two agents; with HANG=1 the second one's process that calls NCCL stops on its way
agents() {
    local record="$1" port=$((20000 + RANDOM % 10000)) second stopping=""
    shift
    local common=(measure --nodes --every-rank --size 2 --head "127.0.0.1:$port" "$@")
    CUDA_VISIBLE_DEVICES=1 NCCL_HOSTID=b "$peerlane" "${common[@]}" --rank 1 &
    second=$!
    if [ -n "${HANG:-}" ]; then
        stop_child "$second" &
        stopping=$!
    fi
    CUDA_VISIBLE_DEVICES=0 NCCL_HOSTID=a timeout 90 "$peerlane" "${common[@]}" --rank 0 -o "$record"
    wait "$second" $stopping
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

# nccl_tests PROGRAM SIZE: the same by nccl-tests, each rank with the GPU of its number
nccl_tests() {
    local rank=("$tests/$1" -b "$2" -e "$2" -n 20 -w 5)
    timeout 60 mpirun --allow-run-as-root --oversubscribe \
        -np 1 -x NCCL_HOSTID=a "${rank[@]}" : -np 1 -x NCCL_HOSTID=b "${rank[@]}"
}

beside() {
    nccl_tests sendrecv_perf 64M >"$out/sendrecv-$1.txt"
    nccl_tests all_reduce_perf 256M >"$out/all-reduce-$1.txt"
}

for ((i = 1; i <= times; i++)); do
    if ((i % 2)); then beside "$i"; fi
    agents "$out/nccl-$i.json" --transport nccl
    if ((i % 2 == 0)); then beside "$i"; fi
done

# all transports, as recorded with what the nodes are
agents "$out/nodes.json" --redact

# a rank of NCCL that hangs: the rest is measured
HANG=1 agents "$out/hung.json" --patience 3s

python3 - "$out" "$times" <<'PYTHON'
import json, pathlib, statistics, sys
out, times = pathlib.Path(sys.argv[1]), int(sys.argv[2])

def bus(name):
    rows = [line.split() for line in (out / name).read_text().splitlines()]
    rows = [row for row in rows if row and row[0].isdigit()]
    return float(rows[-1][7]), rows[-1][8]

def cell(record, probe):
    cells = json.loads((out / record).read_text())["cells"]
    return next(c for c in cells if c["probe"] == probe and not c.get("again"))

for probe, stem in [("send-receive", "sendrecv"), ("all-reduce", "all-reduce")]:
    pairs = [(cell(f"nccl-{i}.json", probe)["value"] / 1e9, bus(f"{stem}-{i}.txt")[0]) for i in range(1, times + 1)]
    ratios = sorted(ours / theirs for ours, theirs in pairs)
    ours, theirs = zip(*pairs)
    print(f"{probe}: peerlane {statistics.median(ours):.3f} ({min(ours):.3f} to {max(ours):.3f}), "
          f"nccl-tests {statistics.median(theirs):.3f} ({min(theirs):.3f} to {max(theirs):.3f}) GB/s of bus bandwidth; "
          f"ratio {statistics.median(ratios):.4f} ({ratios[0]:.4f} to {ratios[-1]:.4f}), n = {times}")
hung = json.loads((out / "hung.json").read_text())
for c in hung["cells"]:
    print(c["transport"], c["probe"], "->".join(str(c[e]["node"]) for e in ("from", "to")), c["from"]["memory"],
          c.get("value"), [(f["kind"], f.get("detail")) for f in c.get("flags", [])])
PYTHON
