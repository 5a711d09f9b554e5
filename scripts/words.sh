#!/usr/bin/env bash
# How many words a reader of the manual faces: every page of Markdown but the changelog, the help of commands, which is generated, and
# records of validation. Fails above the limit of all pages or of one.
set -euo pipefail
cd "$(dirname "$0")/.."
all=60000 page=5000

git ls-files -z --cached --others --exclude-standard -- '*.md' ':!CHANGELOG.md' ':!docs/commands.md' ':!validation/' |
    while IFS= read -r -d '' file; do
        # a page that is deleted and not yet committed is still listed
        [ ! -f "$file" ] || printf '%s %s\n' "$(wc -w <"$file")" "$file"
    done | sort -rn |
    awk -v all="$all" -v page="$page" '
        { sum += $1 }
        $1 > page { print $2 ": " $1 " words, at most " page ": shorten it or move data to validation/"; bad = 1 }
        NR <= 15 { list = list sprintf("%6d %s\n", $1, $2) }
        END {
            print sum " words in " NR " pages, at most " all
            if (sum > all) { printf "the longest:\n%s", list; bad = 1 }
            exit bad
        }'
