#!/usr/bin/env python3
"""Compares what `peerlane top` counts with copies of known size, and measures what it costs.

usage: top.py PEERLANE FOLDER

Needs two GPUs and PyTorch. Each phase copies for ten seconds while `top --record` runs: from one GPU to the other, back and
forth at once, and from host memory. FOLDER gets the recordings and `table.txt`.
"""

import json
import os
import pathlib
import subprocess
import sys
import time

import torch

program, folder = sys.argv[1], pathlib.Path(sys.argv[2])
folder.mkdir(parents=True, exist_ok=True)
TICK = os.sysconf("SC_CLK_TCK")
SIZE = 512 << 20


def ticks(pid):
    """Processor time of a process and its children that run, in seconds."""
    total = 0.0
    for entry in pathlib.Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text().rsplit(")", 1)[1].split()
            except OSError:
                continue
            if int(entry.name) == pid or int(fields[1]) == pid:
                total += (int(fields[11]) + int(fields[12])) / TICK
    return total


def phase(name, copies, seconds=10.0):
    """Runs copies, each (stream's device, function, bytes), while top records; returns bytes of each, and the rest."""
    path = folder / f"{name}.jsonl"
    path.unlink(missing_ok=True)
    top = subprocess.Popen([program, "top", "--record", str(path), "--for", f"{seconds + 8:.0f}s"], stderr=subprocess.DEVNULL)
    time.sleep(5)
    cpu, began = ticks(top.pid), time.monotonic()
    streams = [torch.cuda.Stream(device) for device, _, _ in copies]
    moved = [0] * len(copies)
    while time.monotonic() - began < seconds:
        for i, ((_, copy, size), stream) in enumerate(zip(copies, streams)):
            with torch.cuda.stream(stream):
                for _ in range(8):
                    copy()
                    moved[i] += size
        for stream in streams:
            stream.synchronize()
    took = time.monotonic() - began
    share = (ticks(top.pid) - cpu) / took
    top.wait()
    samples = [json.loads(line) for line in path.read_text().splitlines()[1:]]
    return moved, took, share, samples


def rise(samples, gpu, way):
    return (samples[-1]["nvlink"][gpu][way] - samples[0]["nvlink"][gpu][way]) * 1024


def links(samples, gpu, way):
    """The same as the sum of its NVLinks, between the first and the last sample that have each."""
    each = [sum(link[way] for link in s["nvlinks"][gpu]) for s in samples if gpu in s.get("nvlinks", {})]
    return (each[-1] - each[0]) * 1024


def pcie(samples, gpu, way):
    return max(s["pcie"][gpu][way] for s in samples)


buffers = [[torch.empty(SIZE, dtype=torch.uint8, device=f"cuda:{gpu}") for _ in range(2)] for gpu in range(2)]
host = torch.empty(SIZE, dtype=torch.uint8, pin_memory=True)
lines = []


def tell(line):
    print(line, flush=True)
    lines.append(line)


moved, took, share, samples = phase("one-way", [(0, lambda: buffers[1][0].copy_(buffers[0][0], non_blocking=True), SIZE)])
tell(f"samples {len(samples)}, missing: {samples[-1].get('missing')}")
for gpu, way, what in (("GPU0", 0, "sent"), ("GPU1", 1, "received")):
    counted = rise(samples, gpu, way)
    tell(f"one way: copied {moved[0] / 1e9:.1f} GB in {took:.2f} s ({moved[0] / took / 1e9:.1f} GB/s), {gpu} {what} {counted / 1e9:.1f} GB: {counted / moved[0] - 1:+.2%} (sum of its links over the samples that have each: {links(samples, gpu, way) / 1e9:.1f} GB); {share:.2%} of a core")

both = [
    (0, lambda: buffers[1][0].copy_(buffers[0][0], non_blocking=True), SIZE),
    (1, lambda: buffers[0][1].copy_(buffers[1][1], non_blocking=True), SIZE),
]
moved, took, share, samples = phase("both-ways", both)
for gpu, way, bytes_ in (("GPU0", 0, moved[0]), ("GPU0", 1, moved[1])):
    counted = rise(samples, gpu, way)
    tell(f"both ways: copied {bytes_ / 1e9:.1f} GB, {gpu} {'sent' if way == 0 else 'received'} {counted / 1e9:.1f} GB: {counted / bytes_ - 1:+.2%}; {share:.2%} of a core")

moved, took, share, samples = phase("from-host", [(0, lambda: buffers[0][0].copy_(host, non_blocking=True), SIZE)])
tell(f"from host: {moved[0] / took / 1e9:.1f} GB/s copied, at most {pcie(samples, 'GPU0', 1) / 1e9:.1f} GB/s shown; {share:.2%} of a core")
(folder / "table.txt").write_text("\n".join(lines) + "\n")
