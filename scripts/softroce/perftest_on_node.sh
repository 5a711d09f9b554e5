# Runs on both nodes of run.sh: measures in turn by perftest and by peerlane's verbs, and prints a line for each pair of runs:
# `bandwidth PERFTEST PEERLANE` in Gbit/s, `latency PERFTEST PEERLANE` in µs. See beside_perftest.sh.

if [ "$NODE" = 1 ]; then
    verbs_pair serve rxe0 7000 &
    (while :; do ib_write_bw -d rxe0 -p 7001 -s 65536 -n 300 -t 128 -F; done) >/dev/null 2>&1 &
    (while :; do ib_write_lat -d rxe0 -p 7002 -s 8 -n 40 -F; done) >/dev/null 2>&1 &
    nc -l -p 7003 >/dev/null
    exit 0
fi

# of perftest's last line of figures: the average
perftest_bandwidth() {
    timeout 60 ib_write_bw -d rxe0 -p 7001 -s 65536 -n 300 -t 128 -F --report_gbits "$PEER" | awk '$1 == 65536 { print $4 }'
}
perftest_latency() { timeout 60 ib_write_lat -d rxe0 -p 7002 -s 8 -n 40 -F "$PEER" | awk '$1 == 8 { print $6 }'; }
# of `write 65536 B x1: 17.331 MB/s [`: the value, in the unit wanted
value() { awk -v scale="$1" '{ sub(/^[^:]*: /, ""); print $1 * scale }'; }
peerlane_bandwidth() { timeout 60 verbs_pair measure rxe0 "$PEER:7000" write 65536 1 1 1.5 | value 0.008; }
peerlane_latency() { timeout 60 verbs_pair measure rxe0 "$PEER:7000" latency 8 1 1 2 | value 1; }

sleep 2
for pair in $(seq 24); do
    for what in bandwidth latency; do
        if [ $((pair % 2)) = 0 ]; then
            one=$(perftest_$what)
            other=$(peerlane_$what)
        else
            other=$(peerlane_$what)
            one=$(perftest_$what)
        fi
        echo "$what $one $other"
    done
done
echo >/tmp/now
nc "$PEER" 7003 </tmp/now
exit 0
