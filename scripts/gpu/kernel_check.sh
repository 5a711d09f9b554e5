#!/usr/bin/env bash
# Checks what each kernel that ships does, times it, and runs all of them under compute-sanitizer.
# Needs nvcc, and one or two GPUs. Usage: kernel_check.sh [GPUS, default 2]
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
ptx=$here/../../crates/peerlane-gpu/src/kernels
build=$(mktemp -d)
trap 'rm -rf "$build"' EXIT
nvcc -O2 -std=c++17 "$here/kernel_check.cu" -o "$build/kernel_check" -lcuda
"$build/kernel_check" "$ptx" "${1:-2}"
failed=0
for tool in memcheck racecheck synccheck initcheck; do
    echo "compute-sanitizer $tool"
    compute-sanitizer --error-exitcode 3 --tool "$tool" "$build/kernel_check" "$ptx" "${1:-2}" brief || failed=1
done
exit $failed
