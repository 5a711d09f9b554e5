#!/usr/bin/env bash
# All that docs say of machines with four and eight GPUs, in parts of under nine minutes each.
#
#   PEERLANE=target/release/peerlane scripts/gpu/eight.sh FOLDER PART…
#
#   tools SOURCES   builds nvbandwidth, p2pBandwidthLatencyTest and nccl-tests from folders of these names in SOURCES, into FOLDER/bin
#   beside          times and rates of whole processes, in turn with those programs
#   host            every set of GPUs with the host at once, then what `infer` makes of it
#   collectives     predicted, measured, nccl-tests, `tune --prove`
#   applications    spin glass, breadth-first search and halo on 1, 2, 4, … GPUs, weak and strong
#   place           the chosen GPUs beside the best and the worst measured
#
# Everything predicted is written before anything of its part is measured. Needs NVIDIA GPUs, NCCL where the loader finds it (for tools
# also nvcc); a program that is not on PATH is left out. NVLink SHARP is off in every run. ROUNDS: how often in turn (3).
set -uo pipefail
[ $# -ge 2 ] || { sed -n '2,/^set/{/^#/s/^# \{0,1\}//p}' "$0" >&2; exit 2; }
out=$1
shift
peerlane=${PEERLANE:-target/release/peerlane}
rounds=${ROUNDS:-3}
mkdir -p "$out/bin"
PATH=$out/bin:$PATH
export NCCL_NVLS_ENABLE=0 NCCL_COLLNET_ENABLE=0
gpus=$(nvidia-smi -L | wc -l)
if [ "$gpus" -lt 4 ]; then kind="a trial: fewer than four"; else kind=measured; fi
echo "$gpus GPUs ($kind), $("$peerlane" --version)" | tee -a "$out/times.txt"
nvidia-smi >"$out/nvidia-smi.txt"
nvidia-smi topo -m >"$out/topo.txt"

# one process: its output, its milliseconds, its status
run() {
    local name=$1 began status=0
    shift
    began=$(date +%s%N)
    timeout 300 "$@" >"$out/$name.out" 2>"$out/$name.err" || status=$?
    echo "$name $((($(date +%s%N) - began) / 1000000)) $status" | tee -a "$out/times.txt"
}
here() { command -v "$1" >/dev/null; }

tools() {
    local from=$1 arch
    arch=$(nvidia-smi --query-gpu=compute_cap --format=csv,noheader | head -1 | tr -d .)
    local nvcc=(nvcc -O3 -std=c++17 "-arch=sm_$arch" -Xcompiler -w "-L$(dirname "$(dirname "$(command -v nvcc)")")/lib64/stubs")
    "${nvcc[@]}" -I"$from/p2p" "$from/p2p/p2pBandwidthLatencyTest.cu" -o "$out/bin/p2pBandwidthLatencyTest" &
    "${nvcc[@]}" -I"$from/nvbandwidth" '-DGIT_VERSION="stored"' "$from"/nvbandwidth/*.cpp "$from"/nvbandwidth/*.cu \
        "$from"/nvbandwidth/json/jsoncpp.cpp ${BOOST:+-I"$BOOST/usr/include" -L"$BOOST/usr/lib/x86_64-linux-gnu"} \
        -lboost_program_options -lnvidia-ml -lcuda -o "$out/bin/nvbandwidth" &
    make -C "$from/nccl-tests/src" -j"$(nproc)" BUILDDIR="$out/bin" ${NCCL_HOME:+NCCL_HOME="$NCCL_HOME"} \
        NVCC_GENCODE="-gencode=arch=compute_$arch,code=sm_$arch" >"$out/nccl-tests.log" 2>&1 || tail -5 "$out/nccl-tests.log"
    wait
    ls "$out/bin"
}

beside() {
    for i in $(seq "$rounds"); do
        run "quick-$i" "$peerlane" measure live --quick -o "$out/quick-$i.json"
        run "default-$i" "$peerlane" measure live -o "$out/default-$i.json"
        run "gate-$i" "$peerlane" gate --json
        run "check-$i" "$peerlane" check live
        run "passive-$i" "$peerlane" check live --passive
        here p2pBandwidthLatencyTest && run "p2p-$i" p2pBandwidthLatencyTest
    done
    here nvbandwidth && run nvbandwidth nvbandwidth -j
    run judged "$peerlane" check "$out/default-1.json" -v
}

host() {
    run predicted-host "$peerlane" predict live -v
    run measure-host "$peerlane" measure live --full --tests subsets,host,host-both,all-host --budget 100s -o "$out/host.json"
    run judged-host "$peerlane" check "$out/host.json" -v
    run infer-recorded "$peerlane" infer "$out/host.json" -v
    run infer-live "$peerlane" infer live -v -o "$out/inference.json"
}

collectives() {
    run predicted-collectives "$peerlane" predict live --collectives -v
    run measure-collectives "$peerlane" measure live --full --tests collectives --budget 90s -o "$out/collectives.json"
    run judged-collectives "$peerlane" check "$out/collectives.json" -v
    for test in all_reduce all_gather reduce_scatter broadcast alltoall sendrecv; do
        here "${test}_perf" && run "$test" "${test}_perf" -b 8 -e 4G -f 2 -g "$gpus"
    done
    run tune "$peerlane" tune live --prove --budget 90s -o "$out/tune.json"
}

applications() {
    run predicted-spin-glass "$peerlane" simulate live -w spin-glass -v
    run measure-applications "$peerlane" measure live --full --tests halo,spin-glass,bfs,local --budget 280s -o "$out/applications.json"
    run judged-applications "$peerlane" check "$out/applications.json" -v
}

# bus bandwidth at 256 MiB of the GPUs in $1, as 0,2
rate() {
    CUDA_VISIBLE_DEVICES=$1 all_reduce_perf -b 256M -e 256M -g "$2" -n 10 -w 3 | awk '/^ *268435456/ { print $8; exit }'
}

place() {
    for job in "--gpus 2" "--gpus 4" "--jobs 2x2"; do
        # shellcheck disable=SC2086
        run "place-${job//[- ]/}" "$peerlane" place live $job -v
    done
    here all_reduce_perf || return
    for a in $(seq 0 $((gpus - 2))); do
        for b in $(seq $((a + 1)) $((gpus - 1))); do echo "$a,$b $(rate "$a,$b" 2)"; done
    done | tee "$out/pairs.txt"
    # sets of four: all on eight GPUs are 70, so only those that begin with GPU0
    [ "$gpus" -lt 4 ] || for b in $(seq 1 $((gpus - 3))); do
        for c in $(seq $((b + 1)) $((gpus - 2))); do
            for d in $(seq $((c + 1)) $((gpus - 1))); do echo "0,$b,$c,$d $(rate "0,$b,$c,$d" 4)"; done
        done
    done | tee "$out/fours.txt"
    # two jobs of two at once, each way to split the first four
    [ "$gpus" -lt 4 ] || for split in "0,1 2,3" "0,2 1,3" "0,3 1,2"; do
        first=$(rate "${split#* }" 2 & rate "${split% *}" 2; wait)
        echo "$split: ${first//$'\n'/ }"
    done | tee "$out/two-jobs.txt"
}

while [ $# -gt 0 ]; do
    part=$1
    shift
    case $part in
        tools) tools "${1:?tools SOURCES}"; shift ;;
        beside | host | collectives | applications | place) "$part" ;;
        *) echo "no part $part" >&2; exit 2 ;;
    esac
done
