#!/usr/bin/env bash
# Runs a test on two nodes that have real libibverbs and real queue pairs, without RDMA hardware: Linux's software RoCE
# (rdma_rxe) in two QEMU machines that a socket joins.
#
# usage: run.sh SECONDS TEST [PROGRAM…]
#   SECONDS   the most that the test may take, start of the nodes included
#   TEST      a shell script; on each node it sees NODE (1 or 2), PEER (the other one's address), busybox, tc, perftest
#             and the programs, without their symbols
#   prints what the test wrote on either node, each line after `node1: ` or `node2: `; ends with 0 if it ended with 0 on
#   both, 1 if it did not, 75 if it did not and an emulated network card hung, 77 if this machine cannot run it
#
# Needs qemu-system-x86_64, Debian's apt-get, and python3, readelf and strip; no root. The packages are kept in target/softroce.
set -euo pipefail
here="$(cd "$(dirname "$0")" && pwd)"
kept="${CARGO_TARGET_DIR:-$here/../../target}/softroce"

cannot() { echo "softroce: $*" >&2; exit 77; }
[ $# -ge 2 ] || { sed -n '2,/^set/{/^#/s/^# \{0,1\}//p}' "$0" >&2; exit 2; }
seconds=$1 test=$(realpath "$2")
shift 2
for tool in qemu-system-x86_64 apt-get dpkg-deb python3 readelf strip; do
    command -v "$tool" >/dev/null || cannot "$tool is missing"
done
[ "$(uname -m)" = x86_64 ] || cannot "the packages are for x86_64, this is $(uname -m)"

# Debian's packages, unpacked; complete or absent
root="$kept/root"
if [ ! -d "$root" ]; then
    kernel="$(apt-cache depends linux-image-amd64 | sed -n 's/.*Depends: \(linux-image-[^ ]*\).*/\1/p' | head -1)"
    [ -n "$kernel" ] || cannot "apt knows no linux-image-amd64: run apt-get update"
    mkdir -p "$kept"
    work="$(mktemp -d "$kept/packages.XXXXXX")"
    (cd "$work" && apt-get download -qq "$kernel" busybox-static perftest rdma-core ibverbs-utils ibverbs-providers libibverbs1 \
        librdmacm1 libibumad3 libpci3 libudev1 libnl-3-200 libnl-route-3-200 iproute2 libbpf1 libelf1 libmnl0 libcap2 \
        libxtables12 libselinux1 libpcre2-8-0 libdb5.3 libbsd0 libmd0 zlib1g libc6 libgcc-s1 2>"$work/errors") ||
        { cat "$work/errors" >&2; rm -rf "$work"; cannot "the packages could not be downloaded"; }
    for package in "$work"/*.deb; do dpkg-deb -x "$package" "$work/root"; done
    mv -T "$work/root" "$root"
    rm -rf "$work"
fi

work="$(mktemp -d)"
pids=()
trap '[ ${#pids[@]} -eq 0 ] || kill "${pids[@]}" 2>/dev/null || true; rm -rf "$work"' EXIT
# symbols only fill the nodes' memory
programs=()
for program in "$@"; do
    programs+=("$work/programs/$(basename "$program")")
    mkdir -p "$work/programs"
    strip -o "${programs[-1]}" "$program"
done
python3 "$here/initrd.py" "$root" "$here/init" "$test" "$work/initrd" ${programs[@]+"${programs[@]}"}

# /dev/kvm alone says little: in some containers it opens, and a machine on it never starts
accel=tcg
if [ -w /dev/kvm ] && grep -qwE 'vmx|svm' /proc/cpuinfo; then accel=kvm; fi
port=$((20000 + RANDOM % 20000))
# no_timer_check: on a busy machine an emulated timer may be late, and the kernel would not start
node() { # NUMBER HOW-IT-JOINS
    qemu-system-x86_64 -accel "$accel" -cpu max -display none -no-reboot -m 512 -smp 1 \
        -kernel "$root"/boot/vmlinuz-* -initrd "$work/initrd" -append "console=ttyS0 quiet panic=-1 no_timer_check node=$1" \
        -netdev "socket,id=net,$2=127.0.0.1:$port" -device "virtio-net-pci,netdev=net,mac=52:54:00:00:00:0$1" \
        -serial "file:$work/console$1" -serial "file:$work/out$1" </dev/null >"$work/qemu$1" 2>&1 &
    pids+=($!)
}
node 1 listen
sleep 1
node 2 connect

end=$((SECONDS + seconds)) late=false
while kill -0 "${pids[@]}" 2>/dev/null || kill -0 "${pids[0]}" 2>/dev/null || kill -0 "${pids[1]}" 2>/dev/null; do
    [ "$SECONDS" -lt "$end" ] || { late=true; break; }
    sleep 0.2
done

failed=0
for n in 1 2; do
    touch "$work/out$n"
    tr -d '\r' <"$work/out$n" | grep -v '^exit [0-9]*$' | sed "s/^/node$n: /" || true
    status="$(tr -d '\r' <"$work/out$n" | sed -n 's/^exit \([0-9]*\)$/\1/p' | tail -1)"
    if [ "$status" != 0 ]; then
        failed=1
        echo "softroce: the test ended with ${status:-nothing} on node $n$($late && echo ", killed after $seconds s"); its console:" >&2
        cat "$work/qemu$n" "$work/console$n" 2>/dev/null | tail -20 >&2
    fi
done
# on a busy machine the emulator may lose a card's interrupt: then no packet goes out any more, whatever is tested
if [ "$failed" = 1 ] && grep -qs 'NETDEV WATCHDOG' "$work"/console[12]; then
    echo "softroce: an emulated network card hung, so that this says nothing; run it again" >&2
    exit 75
fi
exit "$failed"
