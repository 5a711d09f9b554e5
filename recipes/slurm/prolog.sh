#!/bin/sh
# Slurm Prolog: the job starts if the gate finds no sure fault on this node, which it drains otherwise.
# Settings: /etc/peerlane/gate.conf, with the variables below as NAME=value.
PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
export PATH
[ -r "${GATE_CONF:=/etc/peerlane/gate.conf}" ] && . "$GATE_CONF"
line=$("${PEERLANE:-peerlane}" gate "${GATE_TARGET:-live}" \
    --deadline "${GATE_DEADLINE:-20s}" --failures "${GATE_FAILURES:-1}" \
    --state "${GATE_STATE:-/var/lib/peerlane/gate.json}" \
    --drain-command 'scontrol update nodename=%h state=drain reason="%r"')
status=$?
command -v logger >/dev/null && logger -t peerlane-gate "status $status: $line"
# 1: fault; 3: fault, and scontrol failed. What is unknown or held, or wrong with the gate itself (2), keeps no job waiting.
case $status in
    1 | 3) exit 1 ;;
    *) exit 0 ;;
esac
