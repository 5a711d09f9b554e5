#!/usr/bin/env bash
# Makes the packages for aarch64 (Grace) on an x86-64 machine, and runs them under QEMU: every capture gets the verdict and the numbers
# that the program of this machine gives. usage: scripts/aarch64.sh PROGRAM [FOLDER]; PROGRAM: of this machine, as target/dist/peerlane.
# Packages: target/package-aarch64, or FOLDER. Measuring is compiled and not tried: no GPU is emulated.
#
# The compiler needs the standard library for aarch64: rustup target add aarch64-unknown-linux-gnu, or RUSTC, a compiler that has it (Debian's
# rustc-web beside libstd-rust-web-dev:arm64). QEMU: qemu-user-static. The C library and Python for aarch64 come from Debian's archive, unpacked
# and not installed: `dpkg --add-architecture arm64` and `apt-get update` first. Without these, ends with 77.
set -euo pipefail
cd "$(dirname "$0")/.."
native=$(realpath "$1")
out=$(realpath -m "${2:-target/package-aarch64}")
target=aarch64-unknown-linux-gnu
glibc=2.28
rustc=${RUSTC:-rustc}
skip() { echo "skipped: $1"; exit 77; }
[ "$(uname -m)" = x86_64 ] || skip "packages for aarch64 are crossed from x86-64"
[ -d "$("$rustc" --print sysroot)/lib/rustlib/$target/lib" ] || skip "no standard library for $target"
command -v qemu-aarch64-static > /dev/null || skip "no qemu-aarch64-static"
command -v apt-get > /dev/null || skip "no apt-get"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$out"
rm -f "$out"/peerlane[-_]*

echo "== programs"
python3 -m venv "$work/tools"
"$work/tools/bin/pip" install --quiet 'maturin>=1.9,<2' ziglang cargo-zigbuild
export PATH="$work/tools/bin:$PATH" CARGO_TARGET_DIR="$PWD/target" RUSTC="$rustc"
cargo zigbuild --quiet --locked --profile dist -p peerlane-cli --target "$target.$glibc"
program=target/$target/dist/peerlane
echo "== wheels"
for manifest in crates/peerlane-py/Cargo.toml crates/peerlane-mcp/Cargo.toml; do
    maturin build --zig --compatibility "manylinux_${glibc/./_}" --target "$target" --out "$out" --quiet --manifest-path "$manifest"
done
version=$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -1)
name=peerlane-$version-$target
install -D -m 755 "$program" "$work/$name/peerlane"
cp README.md LICENSE-APACHE LICENSE-MIT THIRD-PARTY.txt "$work/$name/"
tar --sort=name --owner=0 --group=0 --numeric-owner --mtime="@$(git log -1 --format=%ct)" -C "$work" -c "$name" | gzip -9n > "$out/$name.tar.gz"

echo "== a root for emulation"
mkdir -p "$work/debs" "$work/root"
(cd "$work/debs" && apt-get download -qq libc6:arm64 libgcc-s1:arm64 python3.11-minimal:arm64 libpython3.11-minimal:arm64 \
    libpython3.11-stdlib:arm64 libexpat1:arm64 zlib1g:arm64 libssl3:arm64 libffi8:arm64 2> /dev/null) || skip "no packages of arm64: dpkg --add-architecture arm64"
for package in "$work/debs"/*.deb; do dpkg -x "$package" "$work/root"; done
emulated() { qemu-aarch64-static -L "$work/root" "$@"; }

echo "== every capture"
[ "$(emulated "$program" --version)" = "peerlane $version" ]
tried=0
for capture in captures/*/; do
    for command in check predict; do
        here=$("$native" "$command" "$capture" --json 2> /dev/null) || true
        there=$(emulated "$program" "$command" "$capture" --json 2> /dev/null) || true
        # the last digits of a sum may differ between machines
        HERE="$here" THERE="$there" CAPTURE="$command $capture" python3 - <<'PY'
import json, math, os, sys

def same(a, b, at=""):
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(same(a[k], b[k], f"{at}.{k}") for k in a)
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(same(x, y, f"{at}[{n}]") for n, (x, y) in enumerate(zip(a, b)))
    if isinstance(a, float) or isinstance(b, float):
        equal = isinstance(a, (int, float)) and isinstance(b, (int, float)) and math.isclose(a, b, rel_tol=1e-9)
    else:
        equal = a == b
    if not equal:
        print(f"{os.environ['CAPTURE']}{at}: {a} here, {b} on aarch64", file=sys.stderr)
    return equal

here, there = os.environ["HERE"], os.environ["THERE"]
sys.exit(here != there if not (here and there) else not same(json.loads(here), json.loads(there)))
PY
    done
    tried=$((tried + 1))
done
echo "$tried captures"

echo "== the wheel in a Python of aarch64"
mkdir "$work/site"
python3 -m zipfile -e "$out"/peerlane-*.whl "$work/site"
emulated "$work/root/usr/bin/python3.11" -c "
import sys
sys.path.insert(0, '$work/site')
import peerlane, platform
assert platform.machine() == 'aarch64', platform.machine()
assert peerlane.check('slow-node').verdict == 'fault'
print(peerlane.check('slow-node').findings[0].summary)"
(cd "$out" && sha256sum peerlane[-_]* > SHA256SUMS)
echo "== done"
ls -lh "$out"
