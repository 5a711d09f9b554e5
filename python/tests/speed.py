"""Compares the time from Python with the library's own: python/tests/speed.py PROGRAM, where PROGRAM is crates/peerlane-py's
example `speed`. 10,000 checks of small texts by two threads, with verdict and findings, in at most 1.5 times the library's time;
a prediction of the 16 GPUs of a DGX-2, with its matrices, in at most 1.3 times."""

import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import peerlane

ROOT = Path(__file__).resolve().parents[2]
TEXTS = ["h200x2-vm/nvidia-smi-topo-m.txt", "h200x4-vm/nvidia-smi-topo-m.txt", "h200x4-vm/p2pBandwidthLatencyTest.txt"]
CHECKS, PREDICTIONS = 10_000, 10


def check(text):
    name, content = text
    check = peerlane.open_text(content, name).check()
    return check.verdict, len(check.findings)


def main():
    texts = [(name.replace("/", "-"), (ROOT / "captures" / name).read_bytes()) for name in TEXTS]
    with tempfile.TemporaryDirectory() as folder:
        for name, content in texts:
            Path(folder, name).write_bytes(content)
        output = subprocess.run([sys.argv[1], folder], check=True, capture_output=True, text=True).stdout
    own = [float(line) for line in output.split()]
    check(texts[0])
    start = time.perf_counter()
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(check, (texts[i % len(texts)] for i in range(CHECKS)), chunksize=100))
    checked = time.perf_counter() - start
    node = peerlane.open("dgx-2")
    start = time.perf_counter()
    for _ in range(PREDICTIONS):
        node.predict().matrices[0].values
    predicted = (time.perf_counter() - start) / PREDICTIONS
    failed = False
    for what, seconds, library, most in [
        (f"{CHECKS} checks", checked, own[0], 1.5),
        ("prediction of 16 GPUs", predicted, own[1], 1.3),
    ]:
        ratio = seconds / library
        failed |= ratio > most
        print(f"{what}: {seconds:.4g} s, the library's own {library:.4g} s, {ratio:.2f} times (at most {most})")
    sys.exit(failed)


if __name__ == "__main__":
    main()
