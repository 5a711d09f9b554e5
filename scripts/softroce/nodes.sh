#!/usr/bin/env bash
# Two nodes measure each other by `peerlane measure --nodes`, by TCP and verbs, and `check` finds a slowed NIC and a killed
# agent in the records. See run.sh for what it needs; ends with 77 where that is missing.
# usage: nodes.sh PEERLANE
set -euo pipefail
here="$(dirname "$0")"
exec "$here/run.sh" 280 "$here/nodes_on_node.sh" "${1:?the program}"
