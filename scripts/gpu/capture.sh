#!/usr/bin/env bash
# Saves what a machine with NVIDIA GPUs prints, one file a tool, for `peerlane map FOLDER`.
# Serial numbers, UUIDs and host names are removed. Moves no data and changes no setting.
# Usage: capture.sh FOLDER
set -uo pipefail
out=${1:?usage: capture.sh FOLDER}
mkdir -p "$out"
redact() {
    sed -E -e 's/GPU-[0-9a-f]{8}-[0-9a-f-]+/GPU-REDACTED/g' \
        -e 's/^( *(Serial Number|GPU UUID|Chip Serial|Board ID|Board Serial Number) *:).*/\1 REDACTED/' \
        -e "s/$(hostname)/host/g"
}
save() {
    local file=$1
    shift
    command -v "$1" >/dev/null || return 0
    timeout 60 "$@" 2>&1 | redact >"$out/$file"
}
save nvidia-smi.txt nvidia-smi
save nvidia-smi-topo-m.txt nvidia-smi topo -m
for what in r w n a p; do save "nvidia-smi-topo-p2p-$what.txt" nvidia-smi topo -p2p "$what"; done
save nvidia-smi-nvlink-s.txt nvidia-smi nvlink -s
save nvidia-smi-nvlink-R.txt nvidia-smi nvlink -R
save nvidia-smi-q.txt nvidia-smi -q
save lspci-tv.txt lspci -tv
save lspci-vvv.txt lspci -D -nn -vvv
save lstopo.xml lstopo --of xml
save lscpu.txt lscpu
save numactl-H.txt numactl -H
save proc-modules.txt cat /proc/modules
save proc-cpuinfo.txt cat /proc/cpuinfo
ls -l "$out"
