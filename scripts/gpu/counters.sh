#!/usr/bin/env bash
# What NVML's counters of a live machine show of bytes that are known: `measure` records what it sent and what the NVLinks
# counted, by kind of steps; this compares the two, lists counters that rose, and times a reading.
#
#   PEERLANE=target/release/peerlane scripts/gpu/counters.sh FOLDER
#
# Ends with 1 where a sum of bytes differs by more than 2 % (kernels that read are listed, and not judged: caches may serve
# them), or where no family had bytes to compare. Needs two GPUs joined by NVLink, python3, and readable data counters.
set -uo pipefail
out=${1:?name a folder for the outputs}
peerlane=${PEERLANE:-peerlane}
mkdir -p "$out"

nvidia-smi -q >"$out/nvidia-smi-q.txt"
nvidia-smi nvlink -s >"$out/nvlink-s.txt"
nvidia-smi nvlink -gt d >"$out/nvlink-before.txt" 2>&1
"$peerlane" measure live --tests pairs,pairs-both,staged,host --budget 20s -o "$out/run.json" || exit 2
nvidia-smi nvlink -gt d >"$out/nvlink-after.txt" 2>&1
"$peerlane" check "$out/run.json" >"$out/check.txt"
# a second run without load between: what counters do on their own
"$peerlane" measure live --tests memory --budget 2s -o "$out/idle.json"

python3 - "$out" <<'PYTHON' | tee "$out/counters.txt"
import json, pathlib, sys

folder = pathlib.Path(sys.argv[1])
run = json.loads((folder / "run.json").read_text())
compared, wrong = 0, 0
for entry in run.get("counters", []):
    moved = entry.get("moved")
    if moved is None:
        print(f"{entry['test']}: what it sent is not known")
        continue
    first = moved[0] if moved else {}
    kind = " ".join(str(first.get(key, "")) for key in ("engine", "op", "via"))
    for data in entry.get("nvlinks", []):
        for way, end in (("sent_kib", "source"), ("received_kib", "destination")):
            direct = [m for m in moved if m["via"] == "direct" and "host" not in m["source"] + m["destination"]]
            sent = sum(m["bytes"] for m in direct if m[end] == data["gpu"] and m["source"] != m["destination"])
            links = [kib for kib in data[way] if kib is not None]
            counted = 1024 * sum(links)
            ratio = counted / sent if sent else float("nan")
            spread = (max(links) - min(links)) / (sum(links) / len(links)) if sum(links) else 0.0
            reads = first.get("engine") == "sm" and first.get("op") == "read"
            differs = bool(sent) and abs(ratio - 1) > 0.02 and not reads
            compared += bool(sent)
            wrong += differs
            print(f"{entry['test']:12} {kind:18} {data['gpu']} {way[:-4]:8} {sent / 1e9:10.3f} GB, "
                  f"NVLinks counted {counted / 1e9:10.3f} GB, ratio {ratio:.4f}, links differ by {100 * spread:.1f} %"
                  f"{'  DIFFERS' if differs else ''}")
    for rise in entry.get("errors", []):
        print(f"  {entry['test']}: {rise['of']} {rise['counter']} +{rise['by']} {rise.get('link', '')}")
times = sorted(entry["reading"] for entry in run.get("counters", []) if "reading" in entry)
if times:
    print(f"a reading took {1e3 * times[len(times) // 2]:.2f} ms in the median of {len(times)}, {1e3 * times[-1]:.2f} ms at most")
print(f"{compared} sums compared, {wrong} differ by more than 2 %")
sys.exit(1 if wrong or not compared else 0)
PYTHON
status=${PIPESTATUS[0]}
exit "$status"
