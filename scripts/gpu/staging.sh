#!/usr/bin/env bash
# Measures how the driver stages copies between two GPUs: scripts/gpu/staging.sh FOLDER. Needs two NVIDIA GPUs and nvcc.
set -euo pipefail
out="${1:?usage: $0 FOLDER}"
here="$(cd "$(dirname "$0")" && pwd)"
nvcc="$(command -v nvcc || echo /usr/local/cuda/bin/nvcc)"
mkdir -p "$out"
nvidia-smi > "$out/nvidia-smi.txt"
nvidia-smi topo -m > "$out/topo.txt"
nvidia-smi -q > "$out/nvidia-smi-q.txt"
lscpu > "$out/lscpu.txt"
build="$(mktemp -d)"
trap 'rm -r "$build"' EXIT
"$nvcc" -O2 -o "$build/staging" "$here/staging.cu"
for run in 1 2 3; do
    "$build/staging" > "$out/staging-$run.tsv"
done
