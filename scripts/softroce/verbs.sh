#!/usr/bin/env bash
# Two nodes measure each other by verbs: all probes, verified; a changed byte, a missing adapter, a slowed network and a
# killed peer are found, in words and in time. See run.sh for what it needs; ends with 77 where that is missing.
set -euo pipefail
cd "$(dirname "$0")/../.."
# of the whole workspace, so that features are those of `cargo test`, which has built it
cargo build --quiet --locked --workspace --example verbs_pair
scripts/softroce/run.sh 240 scripts/softroce/verbs_on_node.sh "${CARGO_TARGET_DIR:-target}/debug/examples/verbs_pair"
