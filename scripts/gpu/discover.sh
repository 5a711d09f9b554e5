#!/usr/bin/env bash
# Compares what peerlane discovers through NVML with what nvidia-smi prints, and tries gather, on a machine with
# NVIDIA GPUs. Moves no data and changes no setting. Needs only the driver and peerlane.
# Usage: discover.sh PEERLANE FOLDER     (PEERLANE: the binary, such as target/release/peerlane)
# Exit status: 0 all agree, 1 something differs (it is printed), 2 it could not be tried.
set -uo pipefail
peerlane=${1:?usage: discover.sh PEERLANE FOLDER}
out=${2:?usage: discover.sh PEERLANE FOLDER}
mkdir -p "$out"
differs=0

# "GPU0 GPU1 NV18": every pair of GPUs with its class, from `map --format matrix`
pairs() {
    "$peerlane" map --format matrix "$@" | awk '
        $1 == "GPU0" && !header { n = NF; for (i = 1; i <= n; i++) col[i] = $i; header = 1; next }
        header && $1 ~ /^GPU[0-9]+$/ { for (i = 1; i <= n; i++) if (col[i] ~ /^GPU[0-9]+$/) print $1, col[i], $(i + 1) }'
}
same() { # WHAT A B
    if ! [ -s "$2" ]; then
        echo "$1: $2 is empty"
        differs=1
    elif diff "$2" "$3" >"$out/diff.txt"; then
        echo "$1: the same ($(wc -l <"$2") lines)"
    else
        echo "$1: DIFFERS"
        cat "$out/diff.txt"
        differs=1
    fi
}

echo "== discover"
time "$peerlane" discover >"$out/nvml.json" || exit 2
echo "$(wc -c <"$out/nvml.json") bytes; absent:"
sed -n '/^  "absent"/,/^  \]/p' "$out/nvml.json" | awk '/"field"/ { f = $2 } /"error"/ { sub(/^ *"error": /, ""); print "  " f, $0 }'

echo "== classes: NVML against nvidia-smi topo -m"
nvidia-smi topo -m | tee "$out/topo.txt" || exit 2
pairs "$out/nvml.json" >"$out/classes-nvml.txt"
pairs "$out/topo.txt" >"$out/classes-smi.txt"
same "classes" "$out/classes-nvml.txt" "$out/classes-smi.txt"

echo "== what nvidia-smi says beside it: read it against nvml.json"
nvidia-smi --query-gpu=index,name,pci.bus_id,pcie.link.gen.current,pcie.link.width.current,memory.total,memory.used,temperature.gpu,power.draw,clocks.sm,clocks.mem,pstate,utilization.gpu \
    --format=csv | tee "$out/smi-query.csv"
nvidia-smi nvlink -s -i 0 | head -4
nvidia-smi nvlink -R -i 0 | head -3
nvidia-smi -q -i 0 | grep -A4 '^    Fabric'
sed -n '1,/"nvlinks"/p' "$out/nvml.json" | head -60
grep -m1 -A28 '"nvlinks"' "$out/nvml.json"
grep -m1 -A6 '"fabric"' "$out/nvml.json"
grep -m1 -A40 '"pairs"' "$out/nvml.json"

echo "== live"
time "$peerlane" map live | tee "$out/live.txt"

echo "== gather"
rm -rf "$out/gathered" "$out/gathered.tar.zst"
time "$peerlane" gather -o "$out/gathered.tar.zst"
"$peerlane" gather --redact -o "$out/gathered"
ls -l "$out/gathered.tar.zst"
pairs "$out/gathered.tar.zst" >"$out/classes-archive.txt"
pairs "$out/gathered" >"$out/classes-folder.txt"
same "classes of the archive" "$out/classes-archive.txt" "$out/classes-smi.txt"
same "classes of the redacted folder" "$out/classes-folder.txt" "$out/classes-smi.txt"
# the first line is the machine's name; what follows a node's name may be more where lspci was asked, too
tree() { "$peerlane" map --format tree "$1" | tail -n +2 | sed -E 's/^([^[:alnum:]]*[[:alnum:]_]+).*/\1/'; }
for what in gathered.tar.zst gathered; do tree "$out/$what" >"$out/tree-$what.txt"; done
tree live >"$out/tree-live.txt"
same "tree of the archive and of the machine" "$out/tree-gathered.tar.zst.txt" "$out/tree-live.txt"
same "tree of the folder and of the machine" "$out/tree-gathered.txt" "$out/tree-live.txt"

echo "== nothing that identifies is left in the redacted folder"
{
    nvidia-smi --query-gpu=uuid,serial --format=csv,noheader | tr ',' '\n'
    hostname
    cat /sys/class/net/*/address 2>/dev/null | grep -v '^00:00:00:00:00:00$'
} | tr -d ' ' | grep -v -e '^$' -e 'N/A' -e '^0$' | sort -u >"$out/secrets.txt"
if grep -rwFl -f "$out/secrets.txt" "$out/gathered"; then
    echo "LEFT: the files above"
    differs=1
else
    echo "none of $(wc -l <"$out/secrets.txt") is left"
fi
rm -f "$out/secrets.txt"
"$peerlane" check live >"$out/check.txt"
echo "check live: status $?"
exit "$differs"
