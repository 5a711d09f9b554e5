# Runs on both nodes of run.sh: node 1 answers, node 2 measures and says what is wrong. See verbs.sh.

if [ "$NODE" = 1 ]; then
    # the first one is killed in mid-transfer, on demand of node 2; the second one serves the rest
    verbs_pair serve rxe0 7000 &
    first=$!
    nc -l -p 7001 >/dev/null
    sleep 4
    kill -9 $first
    verbs_pair serve rxe0 7000 &
    nc -l -p 7002 >/dev/null
    exit 0
fi

failures=0
wrong() { echo "WRONG: $*"; failures=$((failures + 1)); }
measure() { timeout 30 verbs_pair measure rxe0 "$PEER:7000" "$@" 2>&1; }
# the number of `write 65536 B x1: 17.331 MB/s [`
rate() { sed -n 's/^[^:]*: \([0-9.]*\) .*/\1/p'; }
expect() { # TEXT PROBE…: the line that measuring the probe gives has the text
    text=$1
    shift
    line=$(measure "$@")
    echo "$line"
    case "$line" in *"$text"*) ;; *) wrong "'$text' is missing" ;; esac
}

sleep 1
for probe in write send; do expect "there Intact" "$probe" 65536 1 8 0.2; done
expect "here Intact" read 65536 1 8 0.2
for probe in write-both send-both; do expect "there Intact; here Intact" "$probe" 65536 1 8 0.2; done
for size in 8 4096; do expect "there Intact; here Intact" latency $size 1 8 0.1; done
# several queue pairs; sizes that no word divides; more than one packet of such
expect "there Intact" write 65536 4 8 0.1
expect "there Intact" send 1 2 8 0.1
expect "here Intact" read 5003 3 8 0.1

echo "one byte of 65536 is changed:"
expect "1 of 65536 bytes of queue pair 0 differ, the first at 32768" write 65536 1 2 0.1 --spoil
expect "1 of 65536 bytes of queue pair 1 differ, the first at 32768" send 65536 2 2 0.1 --spoil

echo "a port without an adapter:"
line=$(timeout 30 verbs_pair measure mlx5_0 "$PEER:7000" write 8 1 1 0.1 2>&1)
echo "$line"
case "$line" in *"mlx5_0: no such RDMA adapter; libibverbs lists rxe0"*) ;; *) wrong "the adapter is not named" ;; esac

echo "the network is slowed to 8 Mbit/s:"
before=$(measure write 65536 1 8 0.2 | rate)
# by its path: busybox has one of its own, which cannot do this
/bin/tc qdisc add dev eth0 root netem rate 8mbit limit 10000
after=$(measure write 65536 1 8 0.2 | rate)
/bin/tc qdisc del dev eth0 root
echo "$before MB/s before, $after MB/s after"
awk -v a="$after" 'BEGIN { exit !(a > 0.5 && a <= 1.0) }' || wrong "8 Mbit/s are 1 MB/s with headers, not $after"

echo "the other side is killed in mid-transfer:"
echo >/tmp/now
nc "$PEER" 7001 </tmp/now
began=$(date +%s)
line=$(measure write 65536 1 1000 0.1)
echo "$line"
ended=$(($(date +%s) - began))
echo "after $ended s"
case "$line" in *"rxe0: transport retry counter exceeded: the other side no longer answers"*) ;; *) wrong "no error in words" ;; esac
[ "$ended" -le 15 ] || wrong "that took $ended s"
sleep 1
echo "and measures again when it is back:"
expect "there Intact" write 65536 1 2 0.1

nc "$PEER" 7002 </tmp/now
echo "$failures wrong"
exit "$failures"
