#!/usr/bin/env bash
# Times of the gate on a machine with GPUs, whole processes, in turn with 'measure --quick' and the usual programs; then that it
# is not judged while a program uses a GPU, and with a part of the GPUs visible.
#
# usage: gate.sh FOLDER [REPEATS]
#   PEERLANE                 the binary (default: target/release/peerlane)
#   PEERLANE_SET_EXCLUSIVE   1: as root, also tries the exclusive mode. It CHANGES the compute mode of GPU 0 for all programs on
#                            the machine, and restores the mode that was set. Without it no setting of a GPU is changed.
# p2pBandwidthLatencyTest and nvbandwidth are taken from PATH; what is absent is left out.
set -uo pipefail
out="${1:?usage: gate.sh FOLDER [REPEATS]}"
repeats="${2:-7}"
peerlane="${PEERLANE:-$(dirname "$0")/../../target/release/peerlane}"
mkdir -p "$out"
nvidia-smi -q >"$out/nvidia-smi-q.txt" 2>&1

# seconds of wall clock, whole process: NAME COMMAND…
timed() {
    local name="$1" begin end status=0
    shift
    begin="$(date +%s.%N)"
    "$@" >"$out/$name.out" 2>"$out/$name.err" || status=$?
    end="$(date +%s.%N)"
    awk -v n="$name" -v b="$begin" -v e="$end" -v s="$status" 'BEGIN { printf "%s\t%.3f\t%d\n", n, e - b, s }' |
        tee -a "$out/times.tsv"
}
here() { command -v "$1" >/dev/null; }

for _ in $(seq "$repeats"); do
    timed gate "$peerlane" gate --json -o "$out/gate-run.json"
    timed gate-passive "$peerlane" gate --passive --json
    timed quick "$peerlane" measure live --quick -o "$out/quick.json"
    here p2pBandwidthLatencyTest && timed p2p p2pBandwidthLatencyTest
    here nvbandwidth && timed nvbandwidth nvbandwidth
done
# the median, least and greatest of each
sort -t "$(printf '\t')" -k1,1 -k2,2n "$out/times.tsv" | awk -F '\t' '
    $1 != name { if (n) print name, "n", n, "median", v[int((n + 1) / 2)], "least", v[1], "greatest", v[n]; name = $1; n = 0 }
    { v[++n] = $2 } END { print name, "n", n, "median", v[int((n + 1) / 2)], "least", v[1], "greatest", v[n] }' |
    tee "$out/summary.txt"

echo "== not judged: in use"
"$peerlane" measure live --full >/dev/null 2>&1 &
job=$!
sleep 4
"$peerlane" gate --json >"$out/busy.json"
grep -h '"line"' "$out/busy.json"
kill "$job" 2>/dev/null
wait "$job" 2>/dev/null
echo "== not judged: only some GPUs"
CUDA_VISIBLE_DEVICES=0 "$peerlane" gate
if [ "${PEERLANE_SET_EXCLUSIVE:-}" = 1 ]; then
    before="$(nvidia-smi -i 0 --query-gpu=compute_mode --format=csv,noheader)" || exit 1
    trap 'nvidia-smi -i 0 -c "${before^^}" >/dev/null' EXIT
    if nvidia-smi -i 0 -c EXCLUSIVE_PROCESS >/dev/null; then
        echo "== not judged: exclusive mode"
        "$peerlane" gate
    fi
fi
