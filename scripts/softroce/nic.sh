#!/usr/bin/env bash
# One node without a GPU measures its NIC by `peerlane measure live --tests nic`: real libibverbs, real queue pairs. See run.sh
# for what it needs; ends with 77 where that is missing.
# usage: nic.sh PEERLANE
set -euo pipefail
peerlane=$(realpath "${1:?the program}")
cd "$(dirname "$0")/../.."
work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT
# symbols only fill the nodes' memory
strip -o "$work/peerlane" "$peerlane"
scripts/softroce/run.sh 240 scripts/softroce/nic_on_node.sh "$work/peerlane"
