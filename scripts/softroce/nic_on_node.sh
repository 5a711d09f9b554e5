# Runs on both nodes of run.sh; the second has nothing to do. See nic.sh.

[ "$NODE" = 1 ] || exit 0
failures=0
wrong() { echo "WRONG: $*"; failures=$((failures + 1)); }
has() { grep -q "$2" "$1" || { wrong "'$2' is missing"; cat "$1"; }; }

echo "its NIC, out and back:"
peerlane measure live --tests nic --full --budget 20s -o /tmp/nic.json >/tmp/said 2>&1 || wrong "ended with $?"
cat /tmp/said
has /tmp/said '1 MiB, .*; rows write to columns \[nic\]'
# a write and a read, verified
cells=$(grep -c '"test":"nic".*"value"' /tmp/nic.json)
[ "$cells" = 2 ] || { wrong "$cells values, and 2 are expected"; cat /tmp/nic.json; }
grep -qE '"(corrupt|unverified|failed|hung)"' /tmp/nic.json && wrong "a value has a flag"

echo "the record is a machine:"
peerlane check /tmp/nic.json >/tmp/said 2>&1 || wrong "check ended with $?"
cat /tmp/said
has /tmp/said '2 values'
peerlane report /tmp/nic.json -o /tmp/nic.html >/tmp/said 2>&1 || { wrong "report ended with $?"; cat /tmp/said; }
peerlane compare /tmp/nic.json /tmp/nic.json >/tmp/said 2>&1 || { wrong "compare ended with $?"; cat /tmp/said; }

echo "without names of hosts:"
hostname gpuhost-acme17
peerlane measure live --tests nic --redact --budget 5s -o /tmp/redacted.json >/tmp/said 2>&1 || { wrong "ended with $?"; cat /tmp/said; }
grep -q acme /tmp/redacted.json && wrong "the record has the host's name"
[ "$(grep -c '"test":"nic".*"value"' /tmp/redacted.json)" = 1 ] || { wrong "no value"; cat /tmp/said; }

echo "without libibverbs, a line says so:"
find / -xdev -name 'libibverbs.so*' -exec rm {} +
peerlane measure live --tests nic,pairs >/tmp/said 2>&1
has /tmp/said 'nic: libibverbs.so.1 not found'
cat /tmp/said

echo "$failures wrong"
exit $failures
