#!/usr/bin/env bash
# Makes what installs without a compiler: a wheel with the Python package and the program (pip, uv, pipx), and a tarball of
# the program with completions and manual pages. Then tries both where nothing of this machine's is in reach. usage: scripts/package.sh [FOLDER]
# Both need glibc 2.28 or later (RHEL 8, Debian 10, Ubuntu 18.10) whatever this machine has: Zig links against that version.
# Needs Rust, python3 with venv, and a network to PyPI and crates.io. Packages: target/package, or FOLDER.
set -euo pipefail
cd "$(dirname "$0")/.."
out=$(realpath -m "${1:-target/package}")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
glibc=2.28
target=$(rustc -vV | sed -n 's/^host: //p')
case $target in
    x86_64-unknown-linux-gnu | aarch64-unknown-linux-gnu) ;;
    *) echo "packages are made on Linux with glibc, x86_64 or aarch64, not on $target" >&2; exit 1 ;;
esac
mkdir -p "$out"
rm -f "$out"/peerlane-*

echo "== wheel"
python3 -m venv "$work/tools"
"$work/tools/bin/pip" install --quiet 'maturin>=1.9,<2' ziglang cargo-zigbuild uv
export PATH="$work/tools/bin:$PATH" CARGO_TARGET_DIR="$PWD/target"
scripts/python_documents.py --check
maturin build --zig --compatibility "manylinux_${glibc/./_}" --out "$out" --quiet
wheel=$(ls "$out"/peerlane-*.whl)

echo "== tarball"
version=$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -1)
name=peerlane-$version-$target
folder=$work/$name
mkdir -p "$folder/completions" "$folder/man"
cargo zigbuild --quiet --locked --profile dist -p peerlane-cli --target "$target.$glibc"
install -m 755 "target/$target/dist/peerlane" "$folder/peerlane"
"$folder/peerlane" completions bash > "$folder/completions/peerlane"
"$folder/peerlane" completions zsh > "$folder/completions/_peerlane"
"$folder/peerlane" completions fish > "$folder/completions/peerlane.fish"
"$folder/peerlane" man -o "$folder/man/man1" > /dev/null
cp -r README.md CHANGELOG.md LICENSE-APACHE LICENSE-MIT THIRD-PARTY.txt examples recipes "$folder/"
# the same sources give the same archive
tar --sort=name --owner=0 --group=0 --numeric-owner --mtime="@$(git log -1 --format=%ct)" -C "$work" -c "$name" |
    gzip -9n > "$out/$name.tar.gz"
(cd "$out" && sha256sum peerlane-* > SHA256SUMS)

echo "== glibc"
newest=$(python3 - "$folder/peerlane" "$wheel" <<'PY'
import re, sys, zipfile
wheel = zipfile.ZipFile(sys.argv[2])
files = [open(sys.argv[1], "rb").read(), *(wheel.read(name) for name in wheel.namelist() if name.endswith(".so"))]
versions = {version for file in files for version in re.findall(rb"GLIBC_(\d+)\.(\d+)", file)}
print("%d.%d" % max((int(a), int(b)) for a, b in versions))
PY
)
[ "$(printf '%s\n%s\n' "$glibc" "$newest" | sort -V | tail -1)" = "$glibc" ] ||
    { echo "a package needs glibc $newest, not $glibc" >&2; exit 1; }
echo "needs glibc $newest or later"

# No toolchain in PATH, no settings, another folder. `check` of the example ends with 1: it finds a fault.
# usage: try FOLDER-OF-THE-PROGRAM
try() {
    mkdir -p "$work/home" "$work/empty"
    (
        cd "$work/empty"
        fresh() { env -i PATH="$1:/usr/bin:/bin" HOME="$work/home" "${@:2}"; }
        [ "$(fresh "$1" peerlane --version)" = "peerlane $version" ]
        fresh "$1" peerlane check slow-node > "$work/check" && status=0 || status=$?
        [ "$status" -eq 1 ] || { echo "check ended with $status, not 1" >&2; exit 1; }
        grep -q 'GPU5' "$work/check"
        fresh "$1" peerlane measure h200x4-vm --tests pairs -o "$work/run.json" > /dev/null
        fresh "$1" peerlane report "$work/run.json" -o "$work/report.html" 2> /dev/null
        rm "$work/run.json" "$work/report.html"
    )
}

echo "== pip, in a new environment"
python3 -m venv "$work/pip"
"$work/pip/bin/pip" install --quiet --no-index "$wheel"
try "$work/pip/bin"
(cd "$work/empty" && "$work/pip/bin/python" -c 'import peerlane; assert peerlane.check("slow-node").verdict == "fault"')

echo "== uv tool"
UV_TOOL_DIR="$work/uv" UV_TOOL_BIN_DIR="$work/uv-bin" UV_CACHE_DIR="$work/uv-cache" \
    "$work/tools/bin/uv" tool install --quiet --no-index "$wheel"
try "$work/uv-bin"

echo "== tarball"
mkdir "$work/unpacked"
tar -xzf "$out/$name.tar.gz" -C "$work/unpacked"
try "$work/unpacked/$name"
bash -n "$work/unpacked/$name/completions/peerlane"
pages=$(ls "$work/unpacked/$name/man/man1" | wc -l)
commands=$("$folder/peerlane" --help | sed -n '/^Commands:/,/^$/p' | grep -c '^  [a-z]')
# a page for each command but help, and the program's
[ "$pages" -eq "$commands" ] || { echo "$pages manual pages for $commands commands" >&2; exit 1; }
if command -v man > /dev/null; then
    man --warnings -l "$work/unpacked/$name/man/man1/peerlane-check.1" > /dev/null
fi

echo "== done"
ls -lh "$out"
