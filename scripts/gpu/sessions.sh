#!/usr/bin/env bash
# Every process that peerlane starts to reach the GPUs, on a machine with GPUs: the worker of 'measure', the gate's prober, the
# sides of 'measure --nodes'. Each does its work, is killed on its way, and is replaced; then the verdicts of all are compared.
#
# usage: sessions.sh FOLDER
#   PEERLANE   the binary (default: target/release/peerlane)
# Takes about four minutes on two GPUs. Changes no setting of a GPU.
set -uo pipefail
out="${1:?usage: sessions.sh FOLDER}"
peerlane="${PEERLANE:-$(dirname "$0")/../../target/release/peerlane}"
mkdir -p "$out"

# NAME COMMAND…: runs it, and prints its seconds, its status and the first line of what it wrote
run() {
    local name="$1" begin status=0
    shift
    begin="$(date +%s.%N)"
    timeout 120 "$@" >"$out/$name.out" 2>"$out/$name.err" || status=$?
    printf '%-16s %6.1f s  status %3d  %s\n' "$name" "$(awk "BEGIN { print $(date +%s.%N) - $begin }")" "$status" \
        "$(grep -m1 -E '^(FAULT|UNEXPLAINED|LIMITED|HEALTHY|NOT JUDGED|ok|hold|isolate|unknown|error)|peerlane:' \
            "$out/$name.out" "$out/$name.err" -h | head -1 | cut -c1-110)"
}
# SECONDS SIGNAL: signals the youngest process of peerlane's, once that long has passed
disturb() { (sleep "$1"; kill "-$2" "$(pgrep -n -x peerlane)") & }

run passive "$peerlane" check live --passive
for n in 1 2 3; do run "gate-$n" "$peerlane" gate; done
run gate-passive "$peerlane" gate --passive
run quick "$peerlane" measure live --quick -o "$out/quick.json"
run check-quick "$peerlane" check "$out/quick.json"
run default "$peerlane" measure live -o "$out/default.json"
run check-default "$peerlane" check "$out/default.json"
disturb 3 KILL
run killed "$peerlane" measure live --tests pairs,host,sizes --precision 0.3% -o "$out/killed.json"
run check-killed "$peerlane" check "$out/killed.json"
disturb 3 STOP
run stopped "$peerlane" measure live --tests pairs,host,sizes --precision 0.3% -o "$out/stopped.json"
run check-stopped "$peerlane" check "$out/stopped.json"
disturb 0.6 KILL
run gate-killed "$peerlane" gate
pkill -CONT -x peerlane

# two agents of one host, each with a GPU where there are two
PEERLANE_SECRET="$(od -An -N16 -tx1 /dev/urandom | tr -d ' \n')"
export PEERLANE_SECRET
agents() {
    local name="$1" port=$((20000 + RANDOM % 10000)) other
    shift
    CUDA_VISIBLE_DEVICES=1 NCCL_HOSTID=b "$peerlane" measure --nodes --every-rank --size 2 --head "127.0.0.1:$port" --rank 1 "$@" \
        >"$out/$name-rank1.out" 2>&1 &
    other=$!
    CUDA_VISIBLE_DEVICES=0 NCCL_HOSTID=a run "$name" "$peerlane" measure --nodes --every-rank --size 2 --head "127.0.0.1:$port" \
        --rank 0 -o "$out/$name.json" "$@"
    wait "$other"
    run "check-$name" "$peerlane" check "$out/$name.json"
}
rm -f "$out/nodes.json" "$out/nodes-killed.json"
agents nodes
disturb 4 KILL
agents nodes-killed
run processes-left bash -c 'sleep 2; pgrep -a -x peerlane; true'
