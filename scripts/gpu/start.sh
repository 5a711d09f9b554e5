#!/usr/bin/env bash
# Times of whole processes, in turn, N times each: a quick and a default measurement, the gate, what NVML reports, and the usual
# programs. Then where the start of a quick measurement spends its time.
#
#   PEERLANE=target/release/peerlane scripts/gpu/start.sh FOLDER [N]
#
# Needs two GPUs and python3. p2pBandwidthLatencyTest and nvbandwidth are taken from PATH; what is absent is left out.
set -uo pipefail
out=${1:?name a folder for the outputs}
n=${2:-5}
peerlane=${PEERLANE:-peerlane}
mkdir -p "$out"

run() {
    local name=$1 began status=0
    shift
    began=$(date +%s%N)
    timeout 120 "$@" >"$out/$name.out" 2>"$out/$name.err" || status=$?
    echo "${name%-*} $((($(date +%s%N) - began) / 1000000)) $status" >>"$out/times.txt"
}

rm -f "$out/times.txt"
for i in $(seq "$n"); do
    run "quick-$i" "$peerlane" measure live --quick -v -o "$out/quick-$i.json"
    run "default-$i" "$peerlane" measure live -v -o "$out/default-$i.json"
    run "passive-$i" "$peerlane" check live --passive
    run "gate-$i" "$peerlane" gate
    for program in p2pBandwidthLatencyTest nvbandwidth; do
        command -v "$program" >/dev/null && run "$program-$i" "$program"
    done
done

python3 - "$out" <<'PYTHON' | tee "$out/start.txt"
import collections, json, pathlib, statistics, sys

folder = pathlib.Path(sys.argv[1])
times = collections.defaultdict(list)
for line in (folder / "times.txt").read_text().splitlines():
    name, ms, status = line.split()
    times[name].append(int(ms))
    if status not in ("0", "1"):
        print(f"{name} ended with status {status}")
for name, all_of_it in times.items():
    print(f"{name}: median {statistics.median(all_of_it):.0f} ms, {min(all_of_it)} to {max(all_of_it)}, n = {len(all_of_it)}")
parts = collections.defaultdict(list)
for path in sorted(folder.glob("quick-*.json")):
    run = json.loads(path.read_text())
    for phase in run["conditions"].get("startup", []):
        parts[phase["what"]].append((phase["began"], phase["ended"]))
    parts["measuring"].append((0.0, run["wall"]))
for what, spans in parts.items():
    began, ended = (statistics.median(span[i] for span in spans) for i in (0, 1))
    print(f"{what:24} {began:6.3f} to {ended:6.3f} s")
PYTHON
