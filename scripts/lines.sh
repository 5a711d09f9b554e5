#!/usr/bin/env bash
# Counts code lines of all packages (folders with a Cargo.toml, wherever they lie) by package and top-level module, without
# comments, blank lines, tests, benchmarks and examples.
#
#     scripts/lines.sh           the working tree
#     scripts/lines.sh 9e69258   a commit
#
# Tests are `#[cfg(test)]` modules: inline ones, and the files (and folders) that `#[cfg(test)] mod name;` names.
set -euo pipefail
cd "$(git rev-parse --show-toplevel)"
tree=.
if [ $# -gt 0 ]; then
    tree=$(mktemp -d)
    trap 'rm -rf "$tree"' EXIT
    git archive "$1" | tar -x -C "$tree"
fi
cd "$tree"
packages=$(find . \( -name target -o -name node_modules -o -name '.?*' \) -prune -o -mindepth 2 -name Cargo.toml -printf '%h\n')
for package in $packages; do
    find "$package" \( -name target -o -path "$package/tests" -o -path "$package/benches" -o -path "$package/examples" \) \
        -prune -o -name '*.rs' -print
done | LC_ALL=C sort | xargs awk '
    # what a file declares under cfg(test) is known once all files are read
    FNR == 1 { test = 0; inside = 0; comment = 0; files[++n] = FILENAME }
    comment { if (/\*\//) comment = 0; next }
    inside { if (/^}/) inside = 0; next }
    /^[ \t]*(\/\/.*)?$/ { next }
    /^[ \t]*\/\*/ { if (!/\*\//) comment = 1; next }
    /^#\[cfg\(test\)\]/ { test = 1; next }
    test && /^#\[/ { next }
    test && /^(pub(\([a-z]+\))? )?mod [a-z_0-9]+ *\{/ { test = 0; inside = !/}[ \t]*$/; next }
    test && /^(pub(\([a-z]+\))? )?mod [a-z_0-9]+;/ {
        test = 0
        name = $0; sub(/;.*/, "", name); sub(/.*mod /, "", name)
        folder = FILENAME
        if (!sub(/\/(mod|lib|main)\.rs$/, "", folder)) sub(/\.rs$/, "", folder)
        tests[folder "/" name] = 1
        next
    }
    { if (test) { test = 0 } lines[FILENAME]++ }
    END {
        for (i = 1; i <= n; i++) {
            file = files[i]; base = file; sub(/\.rs$/, "", base)
            part = base; skip = 0
            while (part ~ /\/[a-z_]+\//) { if (part in tests) skip = 1; if (!sub(/\/[^\/]*$/, "", part)) break }
            if (skip) continue
            # ./crates/NAME/src/MODULE or ./NAME/src/MODULE
            sub(/^\.\/(crates\/)?/, "", base)
            split(base, words, "/")
            crate = words[1]; module = words[3]
            sum[crate " " module] += lines[file]; sum[crate " (all)"] += lines[file]; total += lines[file]
        }
        for (key in sum) { split(key, words, " "); printf "%-14s %-24s %6d\n", words[1], words[2], sum[key] | "LC_ALL=C sort -k1,1 -k3,3nr" }
        close("LC_ALL=C sort -k1,1 -k3,3nr")
        printf "%-14s %-24s %6d\n", "all", "", total
    }'
