#!/usr/bin/env bash
# Runs recipes/slurm on a real slurmctld with four slurmd on this machine: simulated nodes, one with a planted fault, one whose
# driver hangs. Each is drained with the reason and within the deadline; the others run jobs; a repaired one is resumed.
# usage: scripts/slurm_prolog.sh PEERLANE      (as root; 77: skipped, and why)
set -euo pipefail
peerlane=$(realpath "${1:?the program}")
recipes=$(cd "$(dirname "$0")/../recipes/slurm" && pwd)
skip() { echo "skipped: $*"; exit 77; }
[ "$(id -u)" = 0 ] || skip "slurmd needs root"
for program in slurmctld slurmd munged scontrol sbatch cc; do
    command -v $program >/dev/null || skip "$program is not installed (apt-get install slurmctld slurmd slurm-client munge)"
done

at=$(mktemp -d /var/tmp/peerlane-slurm.XXXXXX)
pids=()
finish() {
    status=$?
    for pid in "${pids[@]}"; do kill "$pid" 2>/dev/null || true; done
    sleep 0.5
    for pid in "${pids[@]}"; do kill -9 "$pid" 2>/dev/null || true; done
    if [ $status != 0 ]; then tail -n 15 "$at"/*.log "$at"/gates 2>/dev/null || true; fi
    rm -rf "$at"
}
trap finish EXIT
fail() { echo "FAILED: $*"; exit 1; }
chmod 755 "$at"
nodes="node1 node2 node3 node4"
host=$(hostname -s)
deadline=12

# munge with a key of this test
mkdir -m 700 "$at/munge"
head -c 1024 /dev/urandom >"$at/munge/key"
chmod 600 "$at/munge/key"
munged --foreground --force --num-threads=2 --key-file="$at/munge/key" --socket="$at/munge.socket" \
    --pid-file="$at/munge/pid" --log-file="$at/munge.log" --seed-file="$at/munge/seed" >"$at/munged.log" 2>&1 &
pids+=($!)

# the nodes' machines: node3 has a GPU at half its rates, node4 a driver that never answers
cp "$(dirname "$0")/../systems/h200x4-vm.toml" "$at/sound.toml"
{ cat "$at/sound.toml"; printf '\n[simulated]\nseed = 3\n\n[[faults]]\nthrottle = "GPU2"\nfactor = 0.5\n'; } >"$at/planted.toml"
mkdir "$at/hang"
echo '#include <unistd.h>
int nvmlInit_v2(void) { for (;;) pause(); }' >"$at/hang/hang.c"
cc -shared -fPIC -o "$at/hang/libnvidia-ml.so.1" "$at/hang/hang.c"
for node in $nodes; do
    mkdir "$at/$node"
    echo "PEERLANE='$peerlane' GATE_TARGET='$at/sound.toml' GATE_DEADLINE=${deadline}s GATE_HEALTH_DEADLINE=${deadline}s \
GATE_RECOVERIES=2 GATE_STATE='$at/$node/gate.json'" >"$at/$node/gate.conf"
done
sed -i "s/sound.toml/planted.toml/" "$at/node3/gate.conf"
sed -i "s/'[^']*sound.toml'/live/; s|^|export LD_LIBRARY_PATH='$at/hang'; |" "$at/node4/gate.conf"

# the recipe's scripts, with settings by node, and how long each took
for script in prolog healthcheck; do
    cat >"$at/$script.sh" <<END
#!/bin/bash
# before the repair only prologs run
[ $script = prolog ] || [ -e $at/repaired ] || exit 0
export SLURM_CONF=$at/slurm.conf
began=\$(date +%s%N)
GATE_CONF=$at/\$SLURMD_NODENAME/gate.conf $recipes/$script.sh
status=\$?
echo "$script \$SLURMD_NODENAME exit \$status \$(((\$(date +%s%N) - began) / 1000000)) ms" >>$at/gates
exit \$status
END
    chmod +x "$at/$script.sh"
done

cat >"$at/slurm.conf" <<END
ClusterName=gate
SlurmctldHost=$host(127.0.0.1)
SlurmctldPort=17100
SlurmUser=root
AuthType=auth/munge
AuthInfo=socket=$at/munge.socket
CredType=cred/munge
StateSaveLocation=$at/state
SlurmdSpoolDir=$at/spool.%n
SlurmctldPidFile=$at/slurmctld.pid
SlurmdPidFile=$at/slurmd.%n.pid
SlurmctldLogFile=$at/slurmctld.log
SlurmdLogFile=$at/slurmd.%n.log
ProctrackType=proctrack/pgid
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
MpiDefault=none
ReturnToService=2
SlurmdTimeout=120
Prolog=$at/prolog.sh
PrologFlags=Alloc
PrologEpilogTimeout=60
HealthCheckProgram=$at/healthcheck.sh
HealthCheckInterval=10
HealthCheckNodeState=ANY
NodeName=node[1-4] NodeHostname=$host NodeAddr=127.0.0.1 Port=[17101-17104] CPUs=1 RealMemory=64
PartitionName=all Nodes=ALL Default=YES MaxTime=10 State=UP
END
export SLURM_CONF="$at/slurm.conf"
mkdir "$at/state"
for _ in $(seq 50); do [ -S "$at/munge.socket" ] && break; sleep 0.1; done
slurmctld -D >/dev/null 2>"$at/slurmctld.err.log" &
pids+=($!)
for node in $nodes; do
    slurmd -D -N "$node" >/dev/null 2>"$at/slurmd.$node.err.log" &
    pids+=($!)
done
state() { scontrol -o show node "$1" | sed -n 's/.* State=\([^ ]*\).*/\1/p'; }
reason() { scontrol -o show node "$1" | sed -n 's/.* Reason=\(.*\) \[.*/\1/p'; }
wait_for() { # NODE PATTERN SECONDS
    for _ in $(seq $((5 * $3))); do
        [[ $(state "$1" 2>/dev/null) =~ $2 ]] && return
        sleep 0.2
    done
    sinfo -N -l || true
    fail "$1 is '$(state "$1")', not $2"
}
if ! wait_for node1 '^IDLE' 30 2>/dev/null; then
    grep -h "multiple-slurmd\|not supported" "$at"/*.log && skip "this slurmd cannot run several times on one machine"
    exit 1
fi
for node in $nodes; do wait_for "$node" '^IDLE' 30; done
echo "$(slurmd -V): $(echo "$nodes" | wc -w) nodes idle"

echo "== jobs on all nodes: the planted one is drained, the others run them"
cd "$at"
for node in $nodes node4 node4; do
    sbatch -Q --parsable -w "$node" --requeue -o /dev/null --wrap 'sleep 0.2' >>"$at/jobs"
done
wait_for node3 DRAIN 60
[[ $(reason node3) == "isolate GPU2:"* ]] || fail "the reason is '$(reason node3)'"
echo "node3: $(state node3), reason: $(reason node3)"
wait_for node4 DRAIN 90
[[ $(reason node4) == "isolate driver:"* ]] || fail "the reason is '$(reason node4)'"
echo "node4: $(state node4), reason: $(reason node4)"
for node in node1 node2; do wait_for "$node" '^IDLE$' 60; done
echo "node1, node2: idle after their jobs"

echo "== repaired: resumed after two passes of the health check"
sed -i "s/planted.toml/sound.toml/" "$at/node3/gate.conf"
touch "$at/repaired"
wait_for node3 '^IDLE$' 90
passes=$(grep -c "healthcheck node3" "$at/gates")
[ "$passes" -ge 2 ] || fail "node3 was resumed after $passes passes"
echo "node3: $(state node3) after $passes passes; node4: $(state node4)"
[[ $(state node4) =~ DRAIN ]] || fail "node4 still hangs, and is $(state node4)"

most=$(awk '{ if ($5 > most) most = $5 } END { print most + 0 }' "$at/gates")
cat "$at/gates"
[ "$most" -le $((deadline * 1000)) ] || fail "a gate took $most ms, its deadline was $deadline s"
echo "ok: $(wc -l <"$at/gates") gates, the longest $most ms of $deadline s"
