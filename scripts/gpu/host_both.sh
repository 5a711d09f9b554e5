#!/usr/bin/env bash
# Kernels that copy to and from host memory at once, next to nvbandwidth's, in turn and N times each.
#
# Both run one kernel whose threads alternate between the ways; `host_ways.sh` shows why.
#
#   PEERLANE=target/release/peerlane scripts/gpu/host_both.sh FOLDER [N]
#
# Needs nvbandwidth on PATH and python3.
set -uo pipefail
out=${1:?name a folder for the outputs}
n=${2:-5}
peerlane=${PEERLANE:-peerlane}
mkdir -p "$out"

for i in $(seq "$n"); do
    "$peerlane" measure live --tests host-both --budget 10s -o "$out/run-$i.json" >"$out/run-$i.out" 2>&1
    nvbandwidth -t host_to_device_bidirectional_memcpy_sm device_to_host_bidirectional_memcpy_sm \
        >"$out/nvbandwidth-$i.txt" 2>&1
done

python3 - "$out" <<'PYTHON' | tee "$out/host_both.txt"
import collections, json, pathlib, re, statistics, sys

folder = pathlib.Path(sys.argv[1])
ours = collections.defaultdict(list)
for path in sorted(folder.glob("run-*.json")):
    for cell in json.loads(path.read_text())["cells"]:
        transfers = cell["work"].get("transfers", [])
        if "value" in cell and transfers and transfers[0]["engine"] == "sm":
            gpu = next(end for end in (transfers[0]["source"], transfers[0]["destination"]) if end.startswith("GPU"))
            ours[gpu].append(cell["value"])
for gpu, values in sorted(ours.items()):
    print(f"measure, {gpu}: median {statistics.median(values):.1f} GB/s, {min(values):.1f} to {max(values):.1f}, n = {len(values)}")
theirs = collections.defaultdict(list)
for path in sorted(folder.glob("nvbandwidth-*.txt")):
    name = None
    for line in path.read_text().splitlines():
        if found := re.match(r"Running (\w+)\.", line):
            name = found[1]
        if found := re.match(r"\s*0((?:\s+[\d.]+)+)\s*$", line):
            # the table's row of rates; its row of column numbers has no decimals
            rates = found[1].split()
            if name and all("." in rate for rate in rates):
                theirs[name].append([float(rate) for rate in rates])
for name, rows in theirs.items():
    for gpu, values in enumerate(zip(*rows)):
        print(f"nvbandwidth {name}, GPU{gpu} (one direction of two): median {statistics.median(values):.1f} GB/s, n = {len(values)}")
PYTHON
