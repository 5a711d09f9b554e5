#!/usr/bin/env bash
# Builds the container image `peerlane` from a program and the libraries of this machine that it is linked to, and runs it.
# usage: scripts/container.sh [PROGRAM [ARCHIVE]]; PROGRAM: target/dist/peerlane. ARCHIVE gets the image as an OCI archive.
# Needs buildah, and no daemon; without it, ends with 77.
set -euo pipefail
cd "$(dirname "$0")/.."
program=$(realpath "${1:-target/dist/peerlane}")
archive=${2:+$(realpath -m "$2")}
command -v buildah > /dev/null || { echo "skipped: no buildah"; exit 77; }
work=$(mktemp -d)
# vfs and chroot need no more rights than this user has
buildah() { command buildah --root "$work/storage" --runroot "$work/run" --storage-driver vfs "$@"; }
trap 'buildah rm --all > /dev/null 2>&1; rm -rf "$work"' EXIT

echo "== files"
root=$work/context/root
install -D -m 755 "$program" "$root/usr/bin/peerlane"
# with where the loader looks for them; glibc's own terms with them
ldd "$program" | sed -n 's|.*[[:space:]]\(/[^ ]*\) (0x.*|\1|p' | while read -r library; do
    install -D -m 755 "$(realpath "$library")" "$root$library"
done
mkdir -p "$root/etc" "$root/tmp" "$root/usr/share/doc/peerlane"
chmod 1777 "$root/tmp"
cp LICENSE-MIT LICENSE-APACHE THIRD-PARTY.txt "$root/usr/share/doc/peerlane/"
for notice in /usr/share/doc/libc6/copyright /usr/share/licenses/glibc/COPYING.LIB; do
    if [ -e "$notice" ]; then install -D -m 644 "$notice" "$root$notice"; fi
done
cp recipes/container/Containerfile "$work/context/"

echo "== image"
version=$("$program" --version | cut -d ' ' -f 2)
# the same files give the same image
buildah build --quiet --timestamp "$(git log -1 --format=%ct)" --isolation chroot --tag "peerlane:$version" --tag peerlane:latest "$work/context"

echo "== run"
container=$(buildah from --quiet "peerlane:$version")
inside() { buildah run --isolation chroot "$container" -- /usr/bin/peerlane "$@"; }
[ "$(inside --version)" = "peerlane $version" ]
inside check slow-node > "$work/check" && status=0 || status=$?
[ "$status" -eq 1 ] && grep -q GPU5 "$work/check" || { cat "$work/check"; echo "check ended with $status, not 1" >&2; exit 1; }
inside predict dgx-1v > /dev/null
# where no driver is passed in, it says so
inside check live > "$work/live" 2>&1 && status=0 || status=$?
[ "$status" -eq 2 ] || [ -e /dev/nvidiactl ] || { cat "$work/live"; echo "check live ended with $status, not 2" >&2; exit 1; }
if [ -n "$archive" ]; then
    buildah push --quiet "peerlane:$version" "oci-archive:$archive"
fi
echo "== done: peerlane:$version, $(du -sh "$root" | cut -f 1)"
