#!/usr/bin/env bash
# Times every way to copy between the first two GPUs, to and from the host, and locally: the figures in
# the docs of crates/peerlane-gpu/src/kernels.rs. Needs nvcc and two idle GPUs of compute capability 9.0.
# Usage: copy_kernels.sh [SECONDS, default 80]
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
build=$(mktemp -d)
trap 'rm -rf "$build"' EXIT
nvcc -O3 -std=c++17 -arch=sm_90 "$here/copy_kernels.cu" -o "$build/copy_kernels" -lcuda
nvidia-smi --query-gpu=index,name,driver_version,clocks.sm,temperature.gpu --format=csv
"$build/copy_kernels" "$here/../../crates/peerlane-gpu/src/kernels" "${1:-80}"
