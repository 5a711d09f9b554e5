# Runs on both nodes of run.sh: node 1 is the head, and judges. See nodes.sh.
# What node 2 sends is slowed, then lost in part, then cut into smaller packets; at last its agent is killed.

export PEERLANE_SECRET=two-nodes-of-soft-roce SLURMD_NODENAME=node$NODE
failures=0
wrong() { echo "WRONG: $*"; failures=$((failures + 1)); }
has() { grep -q "$2" "$1" || { wrong "'$2' is missing"; cat "$1"; }; }
run=0
# each run at a port of its own: connections of the one before may linger
nodes() { # OPTION…: into a file, since a terminal would get a bar of progress
    run=$((run + 1))
    peerlane measure --nodes --rank $((NODE - 1)) --size 2 --head "10.9.9.1:$((20000 + run))" "$@" >/tmp/said 2>&1
}
seconds() { cut -d. -f1 /proc/uptime; }

if [ "$NODE" = 2 ]; then
    nodes || { wrong "ended with $?"; cat /tmp/said; }
    # by its path: busybox has one of its own, which cannot do this
    /bin/tc qdisc add dev eth0 root netem rate 8mbit limit 10000
    nodes || { wrong "ended with $?"; cat /tmp/said; }
    /bin/tc qdisc del dev eth0 root
    /bin/tc qdisc add dev eth0 root netem loss 2% limit 10000
    nodes || { wrong "ended with $?"; cat /tmp/said; }
    /bin/tc qdisc del dev eth0 root
    # the payload of RoCE packets follows from it: 1024 bytes at 1500, 512 here
    ip link set dev eth0 mtu 700
    nodes || { wrong "ended with $?"; cat /tmp/said; }
    ip link set dev eth0 mtu 1500
    nodes &
    nc -l -p 7001 >/dev/null
    killall -9 peerlane
    exit $failures
fi

check() { # FILE: it must find something
    peerlane check "$1" >/tmp/found 2>&1
    [ $? = 1 ] || wrong "check has no finding"
    cat /tmp/found
}

echo "healthy, by TCP and verbs:"
began=$(seconds)
nodes --budget 120s -o /tmp/healthy.json || wrong "ended with $?"
cat /tmp/said
echo "took $(($(seconds) - began)) s"
grep -q '"complete":true' /tmp/healthy.json || wrong "not all steps have a value"
grep '"flags"' /tmp/healthy.json && wrong "a value has a flag"
for transport in tcp verbs; do
    # two loopbacks, a latency, two rates
    cells=$(grep -c "\"transport\":\"$transport\".*\"value\"" /tmp/healthy.json)
    [ "$cells" = 5 ] || wrong "$cells values by $transport, and 5 are expected"
done

echo "what node2 sends is slowed to 8 Mbit/s:"
nodes --transport verbs --budget 120s -o /tmp/slow.json || { wrong "ended with $?"; cat /tmp/said; }
check /tmp/slow.json
has /tmp/found "one way, from node2/rxe0 to node1/rxe0, "

echo "of what node2 sends 2 % are lost:"
nodes --transport verbs --budget 120s -o /tmp/loss.json || { wrong "ended with $?"; cat /tmp/said; }
grep '"ports"' /tmp/loss.json || wrong "no counter was read"
# a sentence on one line
peerlane check --json /tmp/loss.json >/tmp/found
grep -E '"(rule|summary|measured)": "' /tmp/found
has /tmp/found "from node2/rxe0 to node1/rxe0, packets are lost"

echo "packets of node2 are smaller:"
nodes --transport verbs --budget 120s -o /tmp/mtu.json || { wrong "ended with $?"; cat /tmp/said; }
peerlane check --json /tmp/mtu.json >/tmp/found
grep -E '"(rule|summary|measured)": "' /tmp/found
has /tmp/found "node2/rxe0: packets carry 512 bytes, and those of another port 1024"

echo "the agent of node2 is killed in the middle:"
(
    while ! grep -q '"cells"' /tmp/killed.json.partial 2>/dev/null; do sleep 0.2; done
    echo >/tmp/now
    nc "$PEER" 7001 </tmp/now
) &
nodes --budget 120s -o /tmp/killed.json || { wrong "ended with $?"; cat /tmp/said; }
check /tmp/killed.json
has /tmp/found "node2 was lost: its agent closed the connection"

echo "$failures wrong"
exit $failures
