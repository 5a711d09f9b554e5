#!/usr/bin/env bash
# Makes docs/pictures/ again: pages and drawings at 1400 and 400 px, light and dark. Needs Node.js, Chromium and cwebp
# (Debian: nodejs npm chromium webp fonts-dejavu-core). usage: scripts/pictures.sh [PEERLANE]
set -euo pipefail
cd "$(dirname "$0")/.."
if [ -z "${1:-}" ]; then
    cargo build --release --locked --quiet
fi
peerlane=$(realpath "${1:-target/release/peerlane}")
command -v cwebp >/dev/null || { echo "cwebp is missing: install webp" >&2; exit 1; }

rm -rf docs/pictures
cd web
npm ci --no-audit --no-fund --loglevel=error
node build.mjs --tests
PEERLANE=$peerlane node .build/tests/pictures.mjs ../docs/pictures

# small enough for a repository and for a page that shows several
find ../docs/pictures -type f -size +150k | { ! grep .; } || { echo "larger than 150 KiB" >&2; exit 1; }
du -sh ../docs/pictures
