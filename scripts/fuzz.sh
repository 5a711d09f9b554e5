#!/usr/bin/env bash
# Fuzzes targets under libFuzzer, guided by coverage, with the stable toolchain and a C++ compiler.
#
#   scripts/fuzz.sh [SECONDS-A-TARGET [TARGET…]]
#
# Inputs are kept in fuzz/corpus/TARGET, those that fail in fuzz/artifacts/TARGET; neither is committed. An input fails that
# panics, overflows an integer, breaks an assertion, runs for more than 2 s or takes more than 500 MB. Prints a table of
# executions, the slowest input and peak memory by target; ends with 1 where one failed.
set -euo pipefail
cd "$(dirname "$0")/../fuzz"

seconds=${1:-60}
shift || true
jobs=${JOBS:-$(nproc)}
host=$(rustc -vV | sed -n 's/^host: //p')
export CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-$PWD/../target/fuzz}
# what cargo-fuzz sets, less the address sanitizer, which needs a nightly compiler: the code under test has no unsafe block
coverage="-Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 -Cllvm-args=-sanitizer-coverage-pc-table \
-Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-trace-compares"
RUSTFLAGS="--cfg fuzzing $coverage -Cdebug-assertions -Coverflow-checks -Ccodegen-units=4" \
    cargo build --release --target "$host" --features libfuzzer --bins
program=$CARGO_TARGET_DIR/$host/release/fuzz
[ $# -gt 0 ] || set -- $(TARGET= "$program" || true)

one() {
    local target=$1 corpus=corpus/$1 log
    log=$(mktemp)
    mkdir -p "$corpus" "artifacts/$target"
    local seeds=("seeds/$target")
    case $target in
    system) seeds+=(../systems) ;;
    cluster) seeds+=(../clusters) ;;
    part) seeds+=(../parts) ;;
    archive | sysfs | run | growing_run | fleet | inference | rules | what_if | simulation | trace | placement) ;;
    *) seeds+=(seeds/texts) ;;
    esac
    for i in "${!seeds[@]}"; do [ -d "${seeds[$i]}" ] || unset "seeds[$i]"; done
    local status=0
    TARGET=$target "$program" -max_total_time="$seconds" -timeout=2 -rss_limit_mb=500 -max_len=8192 \
        -print_final_stats=1 -artifact_prefix="artifacts/$target/" "$corpus" "${seeds[@]}" >"$log" 2>&1 || status=$?
    stat() { sed -n "s/^stat::$1: *//p" "$log"; }
    printf '| %s | %s | %s | %s | %s | %s |\n' "$target" "$(stat number_of_executed_units)" \
        "$(stat average_exec_per_sec)" "$(stat slowest_unit_time_sec)" "$(stat peak_rss_mb)" \
        "$([ $status = 0 ] && echo 0 || grep -m1 -hoE 'panicked at [^ ]*|ERROR: libFuzzer: [a-z-]*' "$log")"
    rm -f "$log"
    return $status
}
export -f one
export program seconds

echo '| target | executions | a second | slowest (s) | peak MB | failures |'
echo '| --- | ---: | ---: | ---: | ---: | --- |'
status=0
printf '%s\n' "$@" | xargs -P "$jobs" -I{} bash -c 'one {}' || status=1
exit $status
