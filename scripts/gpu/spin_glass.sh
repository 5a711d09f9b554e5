#!/usr/bin/env bash
# Checks the spin glass against a textbook's, cut lattices against whole ones, and times it. Needs a GPU, and two binaries built elsewhere:
# peerlane, and the tests of peerlane-gpu (`cargo test -p peerlane-gpu --lib --no-run` names the file).
# usage: spin_glass.sh PEERLANE TESTS RUN.json
set -euo pipefail
[ $# -eq 3 ] || { sed -n '2,/^set/{/^#/s/^# \{0,1\}//p}' "$0" >&2; exit 2; }
"$2" --ignored spin_glass --test-threads 1
"$1" measure --full --tests spin-glass,local -o "$3" -v
"$1" check "$3" || true
