#!/usr/bin/env bash
# Two nodes measure each other by `peerlane measure --nodes`, by TCP and verbs, and `check` finds a slowed NIC and a killed
# agent in the records. See run.sh for what it needs; ends with 77 where that is missing.
# usage: nodes.sh PEERLANE
set -euo pipefail
peerlane=$(realpath "${1:?the program}")
cd "$(dirname "$0")/../.."
work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT
# symbols only fill the nodes' memory
strip -o "$work/peerlane" "$peerlane"
scripts/softroce/run.sh 280 scripts/softroce/nodes_on_node.sh "$work/peerlane"
