#!/usr/bin/env bash
# Host memory both ways at once by kernels: two of them, or one that alternates; the figures in the docs of COPY_BOTH in
# crates/peerlane-gpu/src/kernels.rs. Columns: turn, kind, blocks (from the host and to it; of one kernel, blocks and threads),
# size and copies a launch, GB/s from the host, to it, and both.
#
# usage: host_ways.sh [TURNS, default 3]
#
# Needs nvcc and an idle GPU of compute capability 9.0.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
build=$(mktemp -d)
trap 'rm -rf "$build"' EXIT
nvcc -O2 -std=c++17 -arch=sm_90 "$here/host_ways.cu" -o "$build/host_ways" -lcuda
"$build/host_ways" "$here/../../crates/peerlane-gpu/src/kernels" "${1:-3}"
