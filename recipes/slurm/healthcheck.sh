#!/bin/sh
# Slurm HealthCheckProgram: drains a node with a fault, and resumes one that the gate has drained once it passes again.
# A node with jobs is unknown, and one that is held is neither drained nor resumed. Slurm ignores the exit status, and kills the program after 60 s.
PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
export PATH
[ -r "${GATE_CONF:=/etc/peerlane/gate.conf}" ] && . "$GATE_CONF"
line=$("${PEERLANE:-peerlane}" gate "${GATE_TARGET:-live}" \
    --deadline "${GATE_HEALTH_DEADLINE:-45s}" --failures "${GATE_FAILURES:-1}" --recoveries "${GATE_RECOVERIES:-3}" \
    --state "${GATE_STATE:-/var/lib/peerlane/gate.json}" \
    --drain-command 'scontrol update nodename=%h state=drain reason="%r"' \
    --resume-command 'scontrol update nodename=%h state=resume')
command -v logger >/dev/null && logger -t peerlane-gate "status $?: $line"
exit 0
