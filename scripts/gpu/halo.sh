#!/usr/bin/env bash
# Checks halo exchanges of several parts on one GPU, that a wrong face is found, and times them on all. Needs a GPU, for times two, and two
# binaries built elsewhere: peerlane, and the tests of peerlane-gpu (`cargo test -p peerlane-gpu --lib --no-run` names the file).
# usage: halo.sh PEERLANE TESTS RUN.json
set -euo pipefail
[ $# -eq 3 ] || { sed -n '2,/^set/{/^#/s/^# \{0,1\}//p}' "$0" >&2; exit 2; }
"$2" --ignored halo --test-threads 1
"$1" measure --full --tests halo,pairs-both,all-host -o "$3" -v
"$1" check "$3" || true
