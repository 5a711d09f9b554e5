#!/usr/bin/env bash
# Whole curves of nccl-tests on all GPUs of a machine, 8 B to 16 GiB.
#
#   scripts/gpu/collectives.sh NCCL_TESTS FOLDER     NCCL_TESTS: the source of github.com/NVIDIA/nccl-tests
#
# Needs two NVIDIA GPUs or more, nvcc, and NCCL with its header. About five minutes with two H200. NVLink SHARP and CollNet are off in every run.
set -uo pipefail
source=${1:?usage: $0 NCCL_TESTS FOLDER}
out=${2:?usage: $0 NCCL_TESTS FOLDER}
gpus=$(nvidia-smi -L | wc -l)
largest=${LARGEST:-16G}
architecture=$(nvidia-smi --query-gpu=compute_cap --format=csv,noheader | head -1 | tr -d .)
export NCCL_NVLS_ENABLE=0 NCCL_COLLNET_ENABLE=0
mkdir -p "$out"
nvidia-smi >"$out/nvidia-smi.txt"
nvidia-smi topo -m >"$out/nvidia-smi-topo-m.txt"
lscpu >"$out/lscpu.txt"

build=$(mktemp -d)
trap 'rm -r "$build"' EXIT
cp -r "$source" "$build/source"
# NCCL of the system, or of the Python package
mkdir -p "$build/nccl/lib" "$build/nccl/include"
library=$(ldconfig -p | awk '/libnccl\.so\.2/ { print $NF; exit }')
header=/usr/include/nccl.h
if [ -z "$library" ] || [ ! -f "$header" ]; then
    package=$(python3 -c 'import nvidia.nccl; print(list(nvidia.nccl.__path__)[0])')
    library=$package/lib/libnccl.so.2 header=$package/include/nccl.h
    cp -r "$package/include/." "$build/nccl/include/"
fi
ln -s "$library" "$build/nccl/lib/libnccl.so"
ln -s "$library" "$build/nccl/lib/libnccl.so.2"
export LD_LIBRARY_PATH="$build/nccl/lib:${LD_LIBRARY_PATH:-}"
tests="all_reduce all_gather reduce_scatter broadcast alltoall sendrecv"
make -C "$build/source/src" -j"$(nproc)" BUILDDIR="$build/bin" NCCL_HOME="$build/nccl" \
    NVCC_GENCODE="-gencode=arch=compute_$architecture,code=sm_$architecture" >"$out/build.log" 2>&1 || {
    tail -20 "$out/build.log"
    exit 1
}
echo "header $header, library $(readlink -f "$library"), built after $SECONDS s" | tee "$out/times.txt"

run() {
    local name=$1 began=$SECONDS status=0
    shift
    timeout 60 env "$@" >"$out/$name.txt" 2>"$out/$name.err" || status=$?
    [ -s "$out/$name.err" ] || rm "$out/$name.err"
    echo "$name: $((SECONDS - began)) s, status $status" | tee -a "$out/times.txt"
}
sizes="-b 8 -e $largest -f 2 -g $gpus"

for process in 1 2 3; do
    for test in $tests; do run "${test}_perf-$process" "$build/bin/${test}_perf" $sizes; done
done
run all_reduce_perf-debug NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=INIT,GRAPH,TUNING "$build/bin/all_reduce_perf" $sizes
for process in 1 2 3; do
    # without the cost of launches: each test's 20 iterations are one CUDA graph, replayed 20 times
    run all_reduce_perf-graph-$process "$build/bin/all_reduce_perf" -b 8 -e 64K -f 2 -g "$gpus" -G 20
done
for algorithm in Ring Tree; do
    for protocol in LL LL128 Simple; do
        run "all_reduce_perf-$algorithm-$protocol" NCCL_ALGO=$algorithm NCCL_PROTO=$protocol "$build/bin/all_reduce_perf" $sizes
    done
done
