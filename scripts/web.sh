#!/usr/bin/env bash
# Builds the page that has the library in it, target/web/peerlane.html: the module from crates/peerlane-web, packed into what web/src/try/
# becomes. The same sources and compiler make the same bytes. It fails where the page is larger than 4 MB, or lacks a licence; without
# the tools it says which, and ends with 77.
#
#   scripts/web.sh [PAGE]
#
# The module needs a compiler with the standard library for wasm32-unknown-unknown: the toolchain's, which rustup adds where it is missing,
# or RUSTC_WEB, a compiler without that library but with the library's sources, as Debian's rustc-web and rust-web-src with lld are.
# Node.js and npm make the page.
set -euo pipefail
cd "$(dirname "$0")/.."
page="${1:-target/web/peerlane.html}"
target=wasm32-unknown-unknown
most=4000000

for tool in cargo node npm; do
    command -v "$tool" >/dev/null || { echo "skipped: no $tool" >&2; exit 77; }
done

# 8 MiB of stack, as a program has
flags="-C link-arg=-zstack-size=8388608 -C llvm-args=-inline-threshold=20 --remap-path-prefix=$PWD=. --remap-path-prefix=${CARGO_HOME:-$HOME/.cargo}=cargo"
build=(cargo build --locked --release --target "$target" --target-dir "$PWD/target/web")
has_library() { [ -d "$(rustc --print sysroot)/lib/rustlib/$target/lib" ]; }

if has_library || { command -v rustup >/dev/null && timeout "${RUSTUP_SECONDS:-300}" rustup target add "$target" && has_library; }; then
    (cd crates/peerlane-web && RUSTFLAGS="$flags" "${build[@]}")
else
    compiler="${RUSTC_WEB:-/usr/lib/rust-web/bin/rustc}"
    linker="$(command -v wasm-ld || command -v wasm-ld-19 || true)"
    if [ ! -x "$compiler" ] || [ -z "$linker" ]; then
        echo "skipped: no standard library for $target: rustup target add $target, or apt-get install rustc-web rust-web-src lld-19" >&2
        exit 77
    fi
    (cd crates/peerlane-web && RUSTC="$compiler" RUSTC_BOOTSTRAP=1 RUSTFLAGS="$flags -C linker=$linker" \
        "${build[@]}" -Zbuild-std=std,panic_abort)
fi
module=target/web/peerlane.wasm
cp "target/web/$target/release/peerlane_web.wasm" "$module"

# the page carries THIRD-PARTY.txt, which is made from the program's crates; the module's are some of them
(cd crates/peerlane-web && cargo tree --locked --target "$target" --edges normal,no-proc-macro --prefix none --format '{p}') |
    sed -n '/ (\//d; s/^\([^ ]*\) v\([^ ]*\).*/\1 \2/p' | sort -u | while read -r crate; do
    grep -qxF "$crate" THIRD-PARTY.txt || { echo "THIRD-PARTY.txt lacks $crate, which the module contains" >&2; exit 1; }
done

[ -d web/node_modules ] || (cd web && npm ci --no-audit --no-fund --loglevel=error)
(cd web && node build.mjs --try "../$module" "$(cd .. && realpath -m "$page")")
size="$(stat -c %s "$page")"
[ "$size" -le "$most" ] || { echo "$page has $size bytes, more than $most" >&2; exit 1; }
echo "$page: $size bytes; sha256 $(sha256sum "$page" | cut -d' ' -f1)"
