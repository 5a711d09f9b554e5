#!/usr/bin/env bash
# One node without a GPU measures its NIC by `peerlane measure live --tests nic`: real libibverbs, real queue pairs. See run.sh
# for what it needs; ends with 77 where that is missing.
# usage: nic.sh PEERLANE
set -euo pipefail
here="$(dirname "$0")"
exec "$here/run.sh" 240 "$here/nic_on_node.sh" "${1:?the program}"
