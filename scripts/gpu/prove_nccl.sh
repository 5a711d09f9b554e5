#!/usr/bin/env bash
# What validation/nccl-advice.md reports of a live machine.
#
#   PEERLANE=target/release/peerlane scripts/gpu/prove_nccl.sh explore FOLDER   collectives under one set of variables after another
#   PEERLANE=target/release/peerlane scripts/gpu/prove_nccl.sh prove FOLDER     `tune live --prove` with planted variables, and without
#
# Needs two GPUs or more, and NCCL where the loader finds it. NVLink SHARP is off in every run.
set -uo pipefail
what=${1:?explore or prove}
out=${2:?name a folder for the outputs}
peerlane=${PEERLANE:-peerlane}
mkdir -p "$out"
export NCCL_NVLS_ENABLE=0

run() {
    local name=$1 began status=0
    shift
    began=$(date +%s%N)
    timeout 400 env "$@" >"$out/$name.out" 2>"$out/$name.err" || status=$?
    echo "$name: $((($(date +%s%N) - began) / 1000000)) ms, status $status" | tee -a "$out/times.txt"
}

nvidia-smi >"$out/nvidia-smi.txt"

if [ "$what" = explore ]; then
    measure() {
        local name=$1
        shift
        run "$name" "$@" "$peerlane" measure live --tests collectives --budget 5s -o "$out/$name.json"
    }
    measure default NCCL_DEBUG=VERSION
    measure p2p NCCL_P2P_DISABLE=1
    measure loc NCCL_P2P_LEVEL=LOC
    for protocol in LL LL128 Simple; do
        measure "$protocol" NCCL_PROTO=$protocol
        measure "${protocol}_max1" NCCL_PROTO=$protocol NCCL_MAX_NCHANNELS=1
    done
    for channels in 1 2 4 8; do measure "max$channels" NCCL_MAX_NCHANNELS=$channels; done
    measure min32 NCCL_MIN_NCHANNELS=32
    measure ring NCCL_ALGO=Ring
    measure tree NCCL_ALGO=Tree
    measure p2p_max1 NCCL_P2P_DISABLE=1 NCCL_MAX_NCHANNELS=1
    measure p2p_ll NCCL_P2P_DISABLE=1 NCCL_PROTO=LL
    measure p2p_min16 NCCL_P2P_DISABLE=1 NCCL_MIN_NCHANNELS=16
    measure all NCCL_P2P_DISABLE=1 NCCL_PROTO=LL NCCL_MAX_NCHANNELS=1
    measure default2 NCCL_DEBUG=VERSION
else
    run planted-predicted NCCL_P2P_DISABLE=1 NCCL_PROTO=LL NCCL_MAX_NCHANNELS=1 "$peerlane" tune live
    run planted NCCL_P2P_DISABLE=1 NCCL_PROTO=LL NCCL_MAX_NCHANNELS=1 \
        "$peerlane" tune live --prove -o "$out/planted.json"
    # the default size of buffers, which makes no difference
    run clean NCCL_BUFFSIZE=4194304 "$peerlane" tune live --prove --budget 3m -o "$out/clean.json"
    # for a machine that must do without peer-to-peer
    run staged NCCL_P2P_LEVEL=LOC "$peerlane" tune live --prove --pairs 6 --budget 2m -o "$out/staged.json" \
        --collective all-gather
fi
