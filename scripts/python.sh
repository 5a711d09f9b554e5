#!/usr/bin/env bash
# Tries a wheel of the Python package in a new environment: tests, types, the pages' blocks, sweeps and the notebook.
# usage: scripts/python.sh WHEEL [SPEED]; SPEED is the example `speed` of crates/peerlane-py, built with the profile `dist`.
set -euo pipefail
cd "$(dirname "$0")/.."
wheel=$(realpath "$1")
speed=${2:+$(realpath "$2")}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

python3 -m venv "$work/env"
# nothing of this folder's package is in reach: the wheel is what is tried
export PATH="$work/env/bin:$PATH" PYTHONSAFEPATH=1
pip install --quiet "$wheel" numpy pandas pandas-stubs polars pyarrow matplotlib pytest mypy ray 'dask[distributed]' nbconvert ipykernel

echo "== pytest"
pytest -q python/tests
echo "== types"
python -m mypy.stubtest peerlane._native
mypy --strict python/peerlane
(cd recipes/python && mypy --strict --ignore-missing-imports --allow-untyped-calls ./*.py)
echo "== sweeps"
cp -r recipes/python "$work/recipes"
cp -r examples captures "$work/"
mkdir "$work/recipes/python"
mv "$work/recipes/"*.* "$work/recipes/python/"
for sweep in futures dask ray; do
    echo "$sweep:"
    (cd "$work/recipes/python" && PYTHONSAFEPATH='' timeout 300 python "sweep_$sweep.py" 2>"$work/said") || { cat "$work/said" >&2; exit 1; }
done
echo "== notebook"
(cd "$work/recipes/python" && PYTHONSAFEPATH='' jupyter nbconvert --to notebook --execute sweep.ipynb --output-dir "$work" --log-level ERROR)
if [ -n "$speed" ]; then
    echo "== speed"
    python python/tests/speed.py "$speed"
fi
