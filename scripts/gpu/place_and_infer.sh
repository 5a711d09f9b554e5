#!/usr/bin/env bash
# What validation/inference.md and validation/placement.md report of a live machine: `infer live` three times, and all-reduce by
# nccl-tests as NCCL finds the machine, with the topology files of `map` and `place`, and with the GPUs in other orders.
#
#   PEERLANE=target/release/peerlane scripts/gpu/place_and_infer.sh FOLDER
#
# Needs all_reduce_perf of nccl-tests on PATH, and NCCL where the loader finds it.
set -uo pipefail
out=${1:?name a folder for the outputs}
peerlane=${PEERLANE:-peerlane}
mkdir -p "$out"
export NCCL_NVLS_ENABLE=0

run() {
    local name=$1 began status=0
    shift
    began=$(date +%s%N)
    timeout 120 "$@" >"$out/$name.out" 2>"$out/$name.err" || status=$?
    echo "$name: $((($(date +%s%N) - began) / 1000000)) ms, status $status" | tee -a "$out/times.txt"
}

nvidia-smi >"$out/nvidia-smi.txt"
nvidia-smi topo -m >"$out/topo.txt"
run warm "$peerlane" measure live --quick -o "$out/quick.json"
for i in 1 2 3; do
    run "infer$i" "$peerlane" infer live -o "$out/inference$i.json"
done
# the same session's own figure of all GPUs at once
run all-host "$peerlane" measure live --full --tests all-host,host -o "$out/all-host.json" --budget 10s

run map-nccl "$peerlane" map live --format nccl-xml
cp "$out/map-nccl.out" "$out/map.xml"
run place "$peerlane" place live --gpus 4 --format nccl --topology "$out/place.xml"
gpus=$(nvidia-smi -L | wc -l)
reduce() { all_reduce_perf -b 1M -e 1G -f 4 -g "$gpus" -n 20 -w 5; }
export -f reduce
export gpus
for round in 1 2 3; do
    run "reduce-found-$round" bash -c reduce
    for file in map place; do
        NCCL_TOPO_FILE=$out/$file.xml run "reduce-$file-$round" bash -c reduce
    done
    if [ "$gpus" -eq 4 ]; then
        for order in 0,2,1,3 0,1,3,2 3,1,0,2; do
            CUDA_VISIBLE_DEVICES=$order run "reduce-${order//,/}-$round" bash -c reduce
        done
    fi
done
for file in map place; do
    NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=INIT,GRAPH,ENV NCCL_TOPO_FILE=$out/$file.xml \
        run "log-$file" all_reduce_perf -b 8M -e 8M -g "$gpus" -n 1
done
