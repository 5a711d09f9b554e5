#!/usr/bin/env bash
# Fills the recipes of recipes/packages with a release's address and checksums: peerlane.rb (Homebrew) and recipe.yaml (conda).
# usage: scripts/recipes_of_packages.sh REPOSITORY FOLDER [FOLDER-AARCH64]; REPOSITORY: https://…; FOLDER: what scripts/package.sh made,
# into which they are written. Without the packages for aarch64, the formula has none for it.
set -euo pipefail
cd "$(dirname "$0")/.."
repository=${1:?usage: scripts/recipes_of_packages.sh REPOSITORY FOLDER [FOLDER-AARCH64]}
out=${2:?}
arm=${3:-}
version=$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -1)
sum() { sha256sum "$1" | cut -d ' ' -f 1; }
x86_64=$(sum "$out/peerlane-$version-x86_64-unknown-linux-gnu.tar.gz")
source=$(sum "$out/peerlane-$version.tar.gz")
aarch64=
[ -z "$arm" ] || aarch64=$(sum "$arm/peerlane-$version-aarch64-unknown-linux-gnu.tar.gz")
fill() {
    sed -e "s|@REPOSITORY@|$repository|g; s|@VERSION@|$version|g; s|@SHA256_X86_64@|$x86_64|; s|@SHA256_SOURCE@|$source|" \
        -e "s|@SHA256_AARCH64@|$aarch64|" "$1"
}
fill recipes/packages/recipe.yaml.in > "$out/recipe.yaml"
fill recipes/packages/peerlane.rb.in > "$out/peerlane.rb"
[ -n "$aarch64" ] || sed -i '/^  on_arm do$/,/^  end$/d' "$out/peerlane.rb"
if grep -n '@[A-Z_0-9]*@' "$out/peerlane.rb" "$out/recipe.yaml"; then
    echo "a field is not filled in" >&2
    exit 1
fi
python3 - "$out/recipe.yaml" <<'PY'
import sys
try:
    import yaml
except ImportError:
    sys.exit("not linted: no PyYAML")
recipe = yaml.safe_load(open(sys.argv[1], encoding="utf-8"))
assert {"package", "source", "build", "requirements", "tests", "about"} <= recipe.keys(), recipe.keys()
PY
command -v ruby > /dev/null || { echo "the formula is not linted: no ruby"; exit 0; }
ruby -c "$out/peerlane.rb" > /dev/null
