#!/usr/bin/env bash
# Two nodes measure each other by `peerlane measure --nodes`, by TCP and verbs, and `check` finds in the records a slowed NIC, one that
# loses packets one way, a port with smaller packets, and a killed agent. See run.sh for what it needs; ends with 77 where that is missing.
# usage: nodes.sh PEERLANE
set -euo pipefail
here="$(dirname "$0")"
exec "$here/run.sh" 400 "$here/nodes_on_node.sh" "${1:?the program}"
