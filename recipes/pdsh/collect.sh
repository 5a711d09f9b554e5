#!/bin/sh
# Measures hosts into a directory that all of them mount: collect.sh DIR HOSTS
set -eu
dir=${1:?usage: collect.sh DIR HOSTS}
hosts=${2:?usage: collect.sh DIR HOSTS}
# a shell on each host reads the directory once more
case $dir in
    *[!A-Za-z0-9/._-]*) echo "collect.sh: give a directory whose name has no blanks or quotes" >&2; exit 2 ;;
esac
exec pdsh -S -f "${FANOUT:-64}" -w "$hosts" "peerlane measure ${PEERLANE_ARGS---quick} --to $dir >/dev/null"
