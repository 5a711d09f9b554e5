#!/usr/bin/env bash
# Times NVIDIA's two-dimensional Ising codes on this GPU, for validation/applications.md: spin updates and bytes a second beside ours. Needs a
# GPU, nvcc with cuRAND, and a clone of https://github.com/NVIDIA/ising-gpu, of which nothing is changed.
# usage: ising.sh FOLDER_OF_ISING_GPU [ARCH]     ARCH as nvcc names it, sm_90 where not given
set -euo pipefail
[ $# -ge 1 ] || { sed -n '2,/^set/{/^#/s/^# \{0,1\}//p}' "$0" >&2; exit 2; }
source="$(cd "$1" && pwd)"
arch="${2:-sm_90}"
work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT

# since CUDA 13 cudaMemAdvise names a device by its kind and number
cat >"$work/advise.h" <<'CPP'
#pragma once
#include <cuda_runtime.h>
#if CUDART_VERSION >= 13000
static inline cudaError_t cudaMemAdvise(const void *p, size_t n, cudaMemoryAdvise advice, int device) {
    cudaMemLocation at;
    at.type = device < 0 ? cudaMemLocationTypeHost : cudaMemLocationTypeDevice;
    at.id = device < 0 ? 0 : device;
    return cudaMemAdvise(p, n, advice, at);
}
#endif
CPP
nvcc -O3 -c "$source"/optimized/utils.c -o "$work/utils.o"
nvcc -std=c++17 -O3 --use_fast_math -arch="$arch" -include "$work/advise.h" -Xcompiler -fopenmp \
    "$source"/optimized/main.cu "$work/utils.o" -o "$work/optimized"
nvcc -std=c++17 -O3 -arch="$arch" "$source"/basic_cuda/main.cu -lcurand -o "$work/basic"

nvidia-smi --query-gpu=name,driver_version --format=csv,noheader
gpus="$(nvidia-smi -L | wc -l)"
for run in 1 2 3; do
    # four bits a spin: 2 GiB
    "$work/optimized" -x 65536 -y 65536 -n 200 | tail -1
    # a byte a spin, and a number of four bytes for each
    "$work/basic" -x 32768 -y 32768 -w 20 -n 200 | grep 'updates per ns'
done
[ "$gpus" -lt 2 ] || "$work/optimized" -x 65536 -y 65536 -n 200 -d "$gpus" | tail -1
