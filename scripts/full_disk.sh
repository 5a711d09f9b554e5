#!/usr/bin/env bash
# Records a run on a file system that becomes full: what was measured is shown, what was recorded is whole, and the run is
# resumed when there is room again. Usage: scripts/full_disk.sh PEERLANE. Needs root or user namespaces to mount a tmpfs.
set -euo pipefail
peerlane=$(realpath "$1")
if [ "${2:-}" != mounted ]; then
    unshare --mount true 2>/dev/null && exec unshare --mount "$0" "$peerlane" mounted
    unshare --mount --map-root-user true 2>/dev/null && exec unshare --mount --map-root-user "$0" "$peerlane" mounted
    echo "skipped: neither root nor user namespaces"
    exit 0
fi
disk=$(mktemp -d)
mount -t tmpfs -o size=52k tmpfs "$disk"
cd "$disk"
fail() { echo "full_disk: $*" >&2; ls -la "$disk" >&2; exit 1; }

# the shown text would fill the disk as well
out=$(mktemp -d)
# the shown text would fill the disk as well
out=$(mktemp -d)
status=0
"$peerlane" measure h200x4-vm --tests pairs,local -o run.json >"$out/shown" 2>"$out/said" || status=$?
cat "$out/said"
[ "$status" -eq 2 ] || fail "ended with $status, not 2"
grep -q "No space left on device" "$out/said" || fail "no message"
grep -q GPU3 "$out/shown" || fail "nothing is shown"
[ "$(ls)" = run.json.partial ] || fail "other files are left"
[ "$(tail -c 1 run.json.partial | od -An -c | tr -d ' ')" = '\n' ] || fail "a line is cut"
before=$(grep -c '"cells"' run.json.partial)

mount -o remount,size=1m "$disk"
"$peerlane" measure h200x4-vm --tests pairs,local -o run.json --resume >"$out/shown"
[ "$(ls)" = run.json ] || fail "other files are left"
grep -q '"complete":true' run.json || fail "not complete"
echo "a full disk: $before lines were recorded and kept, the run was resumed and is complete"
umount -l "$disk"
rm -rf "$out"
