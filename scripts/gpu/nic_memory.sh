#!/usr/bin/env bash
# What a driver does of GPU memory for RDMA adapters, without an adapter: it exports the memory of each GPU as a dmabuf or says why
# not, and copies for staging, on one node and at both ends between two; a stand-in for libibverbs has the adapter's place. Needs
# GPUs, nvidia-smi, and two files built elsewhere:
#   the tests (`cargo test -p peerlane-net --test stand_in --no-run` names the file), and the stand-in:
#   rustc --edition=2024 --crate-type=cdylib --crate-name=ibverbs -O --cap-lints=allow \
#     -o FOLDER/libibverbs.so.1 crates/peerlane-net/tests/stand_in/libibverbs.rs
# usage: nic_memory.sh TESTS FOLDER [TIMES]
#   FOLDER  where libibverbs.so.1 is
#   TIMES   runs (3)
set -euo pipefail
[ $# -ge 2 ] || { sed -n '2,/^set/{/^#/s/^# \{0,1\}//p}' "$0" >&2; exit 2; }
tests="$(realpath "$1")" folder="$(realpath "$2")"
nvidia-smi --query-gpu=name,driver_version --format=csv,noheader
for ((i = 1; i <= ${3:-3}; i++)); do
    echo "== run $i"
    LD_LIBRARY_PATH="$folder" timeout 90 "$tests" a_real_gpu --ignored --nocapture --test-threads 1
done
