#!/usr/bin/env bash
# Checks breadth-first searches against a textbook's and in several parts, and times them. Needs a GPU, and two binaries built elsewhere:
# peerlane, and the tests of peerlane-gpu (`cargo test -p peerlane-gpu --lib --no-run` names the file).
# usage: bfs.sh PEERLANE TESTS RUN.json
set -euo pipefail
[ $# -eq 3 ] || { sed -n '2,/^set/{/^#/s/^# \{0,1\}//p}' "$0" >&2; exit 2; }
"$2" --ignored bfs --test-threads 1
"$1" measure --full --tests bfs,local -o "$3" -v
"$1" check "$3" || true
