#!/bin/sh
# Measures every node of the allocation into a shared directory: collect.sh DIR
#SBATCH --job-name=peerlane
#SBATCH --time=00:10:00
#SBATCH --exclusive
set -eu
dir=${1:?usage: collect.sh DIR}
# the name is each node's own, so the inner shell expands it
# shellcheck disable=SC2016
exec srun --ntasks-per-node=1 --kill-on-bad-exit=0 --label \
    sh -c 'exec peerlane measure ${PEERLANE_ARGS---quick} --to "$1" --host "$SLURMD_NODENAME"' sh "$dir" >/dev/null
