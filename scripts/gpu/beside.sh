#!/usr/bin/env bash
# Measures this machine with peerlane and with the programs that people use today, in turn, so that the numbers can be
# laid beside each other: validation/measurement.md has the tables, 'cargo run --example beside -- FOLDER' makes them.
#
# usage: beside.sh FOLDER
#   PEERLANE   the binary (default: target/release/peerlane)
# nvbandwidth, p2pBandwidthLatencyTest and all_reduce_perf are taken from PATH; what is absent is left out.
set -uo pipefail
out="${1:?usage: beside.sh FOLDER}"
peerlane="${PEERLANE:-$(dirname "$0")/../../target/release/peerlane}"
mkdir -p "$out"
# multicast in NVSwitches can disturb other users of a shared host
export NCCL_NVLS_ENABLE=0
gpus="$(nvidia-smi -L | wc -l)"

# seconds of wall clock, whole process: NAME COMMAND…
timed() {
    local name="$1" begin end status=0
    shift
    begin="$(date +%s.%N)"
    "$@" >"$out/$name.out" 2>"$out/$name.err" || status=$?
    end="$(date +%s.%N)"
    awk -v n="$name" -v b="$begin" -v e="$end" -v s="$status" 'BEGIN { printf "%s\t%.2f\t%d\n", n, e - b, s }' |
        tee -a "$out/times.tsv"
}
here() { command -v "$1" >/dev/null; }

nvidia-smi >"$out/nvidia-smi.txt" 2>&1
timed peerlane-quick "$peerlane" measure live --quick -o "$out/quick.json"
here p2pBandwidthLatencyTest && timed p2p p2pBandwidthLatencyTest
timed peerlane-first "$peerlane" measure live -o "$out/first.json"
here nvbandwidth && timed nvbandwidth nvbandwidth -j
timed peerlane-second "$peerlane" measure live -o "$out/second.json"
timed peerlane-quick-again "$peerlane" measure live --quick -o "$out/quick-again.json"
here p2pBandwidthLatencyTest && timed p2p-again p2pBandwidthLatencyTest
here all_reduce_perf && timed all_reduce_perf all_reduce_perf -b 8 -e 1G -f 2 -g "$gpus"
timed peerlane-collectives "$peerlane" measure live --full --tests collectives --budget 60s -o "$out/collectives.json"
timed peerlane-subsets "$peerlane" measure live --full --tests host,host-both,all-host,subsets --budget 60s -o "$out/subsets.json"
