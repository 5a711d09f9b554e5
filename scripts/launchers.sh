#!/usr/bin/env bash
# Runs `peerlane measure --nodes` as users start it: by Open MPI's mpirun, and by srun of a real Slurm with two slurmd on this machine.
# usage: scripts/launchers.sh PEERLANE      (as root; 77: skipped, and why)
set -euo pipefail
peerlane=$(realpath "${1:?the program}")
skip() { echo "skipped: $*"; exit 77; }
[ "$(id -u)" = 0 ] || skip "slurmd needs root"
for program in mpirun slurmctld slurmd munged srun python3; do
    command -v $program >/dev/null ||
        skip "$program is not installed (apt-get install openmpi-bin slurmctld slurmd slurm-client munge)"
done

at=$(mktemp -d /var/tmp/peerlane-launchers.XXXXXX)
pids=()
finish() {
    status=$?
    for pid in "${pids[@]}"; do kill "$pid" 2>/dev/null || true; done
    sleep 0.5
    for pid in "${pids[@]}"; do kill -9 "$pid" 2>/dev/null || true; done
    if [ $status != 0 ]; then tail -n 15 "$at"/*.log "$at"/*.txt 2>/dev/null || true; fi
    rm -rf "$at"
}
trap finish EXIT
fail() { echo "FAILED: $*"; exit 1; }
PEERLANE_SECRET=$(head -c 16 /dev/urandom | od -An -tx1 | tr -d ' \n')
export PEERLANE_SECRET

# the record has these nodes, all values, and the launcher's name
judge() { # FILE LAUNCHER NODE…
    python3 - "$@" <<'END'
import json, sys
file, launcher, *nodes = sys.argv[1:]
run = json.load(open(file))
assert run["launcher"] == launcher, run["launcher"]
assert [node["host"] for node in run["nodes"]] == nodes, run["nodes"]
assert run["complete"] and not run.get("lost"), "not complete"
bad = [cell for cell in run["cells"] if cell.get("flags")]
assert not bad, bad[:2]
rates = [cell["value"] for cell in run["cells"] if cell["probe"] == "send" and cell["from"] != cell["to"]]
assert len(rates) == len(nodes) * (len(nodes) - 1) and min(rates) > 1e7, rates
print(f"{launcher}: {len(nodes)} nodes, {len(run['cells'])} values, {min(rates) / 1e9:.2f} to {max(rates) / 1e9:.2f} GB/s")
END
}

echo "== mpirun"
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1
timeout 60 mpirun -np 2 "$peerlane" measure --nodes --every-rank -o "$at/mpi.json" >"$at/mpi.txt" 2>&1
judge "$at/mpi.json" "Open MPI" "$(hostname)-0" "$(hostname)-1"
# two processes of one host are no two nodes
timeout 60 mpirun -np 2 "$peerlane" measure --nodes >"$at/mpi.txt" 2>&1 && fail "one host passed for two"
grep -q "all 2 processes are on one node" "$at/mpi.txt" || fail "it does not say that there is one node"
# a launcher that starts each process for itself
timeout 60 mpirun -np 1 "$peerlane" measure --nodes >"$at/mpi.txt" 2>&1 && fail "one process passed for many"
grep -q "Open MPI started 1 process" "$at/mpi.txt" || fail "it does not say that there is one process"

echo "== Slurm"
host=$(hostname -s)
mkdir -m 700 "$at/munge"
head -c 1024 /dev/urandom >"$at/munge/key"
chmod 600 "$at/munge/key"
chmod 755 "$at"
munged --foreground --force --num-threads=2 --key-file="$at/munge/key" --socket="$at/munge.socket" \
    --pid-file="$at/munge/pid" --log-file="$at/munge.log" --seed-file="$at/munge/seed" >"$at/munged.log" 2>&1 &
pids+=($!)
cat >"$at/slurm.conf" <<END
ClusterName=launchers
SlurmctldHost=$host(127.0.0.1)
SlurmctldPort=17200
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
NodeName=node[1-2] NodeHostname=$host NodeAddr=127.0.0.1 Port=[17201-17202] CPUs=1 RealMemory=64
PartitionName=all Nodes=ALL Default=YES MaxTime=10 State=UP
END
export SLURM_CONF="$at/slurm.conf"
mkdir "$at/state"
for _ in $(seq 50); do [ -S "$at/munge.socket" ] && break; sleep 0.1; done
slurmctld -D >/dev/null 2>"$at/slurmctld.err.log" &
pids+=($!)
for node in node1 node2; do
    slurmd -D -N $node >/dev/null 2>"$at/slurmd.$node.err.log" &
    pids+=($!)
done
idle=0
for _ in $(seq 150); do
    idle=$(sinfo -h -N -o '%T' 2>/dev/null | grep -c '^idle$') || true
    [ "$idle" = 2 ] && break
    sleep 0.2
done
if [ "$idle" != 2 ]; then
    grep -h "multiple-slurmd\|not supported" "$at"/*.log && skip "this slurmd cannot run several times on one machine"
    fail "the nodes are not idle"
fi
# the nodes' names are not those of hosts here, so the head's is given
cd "$at"
timeout 90 srun -N 2 --ntasks-per-node=1 "$peerlane" measure --nodes --head "$host" -o "$at/slurm.json" >"$at/srun.txt" 2>&1 ||
    fail "srun ended with $?"
judge "$at/slurm.json" Slurm node1 node2
# more processes than nodes: the first of each measures
timeout 90 srun -N 2 -n 4 -O "$peerlane" measure --nodes --head "$host" -o "$at/more.json" >"$at/srun.txt" 2>&1 ||
    fail "srun with two tasks a node ended with $?"
judge "$at/more.json" Slurm node1 node2
grep -q "2 more processes are on the same nodes" "$at/srun.txt" || fail "it does not say that two processes measure nothing"
echo ok
