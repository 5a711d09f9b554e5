#!/usr/bin/env bash
# Checks recipes/ with the tools that read such files: promtool, systemd-analyze, kubeconform or a YAML parser, ShellCheck.
# A check whose tool is missing is skipped, and says so. usage: scripts/recipes.sh [PEERLANE]
set -euo pipefail
cd "$(dirname "$0")/.."
peerlane=${1:-}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
skip() { echo "skipped: $*"; }

promtool=${PROMTOOL:-$(command -v promtool || true)}
if [ -z "$promtool" ] && command -v apt-get >/dev/null && command -v dpkg >/dev/null; then
    # Debian's package starts a server when it is installed; one program of it is enough
    if (cd "$work" && apt-get download prometheus >/dev/null 2>&1 && dpkg -x prometheus_*.deb prometheus); then
        promtool=$work/prometheus/usr/bin/promtool
    fi
fi
if [ -n "$promtool" ]; then
    "$promtool" check rules recipes/prometheus/peerlane.rules.yml
    "$promtool" test rules recipes/prometheus/peerlane.test.yml
    if [ -n "$peerlane" ]; then
        "$peerlane" measure h200x4-vm --quick -o "$work/run.json" >/dev/null
        for target in "$work/run.json" h200x4-vm dgx-1 exxact-devbox; do
            "$peerlane" check "$target" --format prometheus --fail-on never >"$work/metrics"
            "$promtool" check metrics <"$work/metrics"
            echo "metrics of $(basename "$target"): $(grep -vc '^#' "$work/metrics") samples, valid"
        done
    else
        skip "promtool check metrics: no peerlane was given"
    fi
else
    skip "promtool is not installed, and the package prometheus cannot be downloaded"
fi

if command -v kubeconform >/dev/null; then
    kubeconform -strict -summary recipes/kubernetes/*.yaml
elif python3 -c 'import yaml' 2>/dev/null; then
    python3 - recipes/kubernetes/*.yaml <<'PY'
import sys, yaml
for path in sys.argv[1:]:
    doc = yaml.safe_load(open(path))
    spec = doc["spec"]["template"]["spec"]
    volumes = {v["name"] for v in spec["volumes"]}
    for container in spec["containers"]:
        assert {m["name"] for m in container["volumeMounts"]} <= volumes, path
        assert any(e["name"] == "NODE_NAME" for e in container["env"]), path
    if doc["kind"] == "DaemonSet":
        selected = doc["spec"]["selector"]["matchLabels"]
        assert selected.items() <= doc["spec"]["template"]["metadata"]["labels"].items(), path
    print(f"{path}: {doc['apiVersion']} {doc['kind']}, parsed and checked; kubeconform would check its schema")
PY
else
    skip "Kubernetes: neither kubeconform nor PyYAML is installed"
fi

if command -v systemd-analyze >/dev/null; then
    # the program is not installed here
    sed "s|^ExecStart=.*|ExecStart=/bin/true|" recipes/node-exporter/peerlane-textfile.service >"$work/peerlane-textfile.service"
    cp recipes/node-exporter/peerlane-textfile.timer "$work/"
    systemd-analyze verify "$work/peerlane-textfile.service" "$work/peerlane-textfile.timer" && echo "systemd units: valid"
else
    skip "systemd-analyze is not installed"
fi

if command -v shellcheck >/dev/null; then
    shellcheck recipes/*/*.sh scripts/recipes.sh
else
    for script in recipes/*/*.sh; do sh -n "$script"; done
    skip "shellcheck is not installed; the scripts were only parsed"
fi
