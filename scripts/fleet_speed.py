#!/usr/bin/env python3
"""Times `peerlane fleet` on many records of eight GPUs, and tries whether it finds the faults planted in some of them.

    cargo build --release -p peerlane-cli
    scripts/fleet_speed.py target/release/peerlane FOLDER [RECORDS [REPETITIONS]]

FOLDER gets the records (256 KB each, 10,000 by default), and keeps them for the next call. A thousand are measured on simulated
machines with noise of their own, the rest are copies of these with other hosts. One of a hundred measured ones has a fault.
"""

import json
import os
import pathlib
import statistics
import subprocess
import sys
import time

DISTINCT = 1000
NO_HOST = '"host":null'
FAULTS = [
    'link = ["GPU3", "nvswitch"]\nnvlink = 12',
    'link = ["GPU4", "sw2"]\npcie = "5.0 x8"',
    'throttle = "GPU1"\nfactor = 0.7',
    'errors = "GPU6"\ncounter = "nvlink-replay"\nper_gb = 50.0',
]


def fault(number):
    """The fault of a distinct record; None for most."""
    return FAULTS[number // 100 % len(FAULTS)] if number % 100 == 50 else None


def record(peerlane, system, folder, number):
    """Measures one simulated machine; its text, without a host."""
    design = f"{system}\n[simulated]\nnoise = 0.003\nseed = {number}\n"
    planted = fault(number)
    if planted:
        design += f"\n[[faults]]\n{planted}\n"
    file, run = folder / "machine.toml", folder / "run.json"
    file.write_text(design)
    done = subprocess.run([peerlane, "measure", file, "--quick", "-o", run], stdout=subprocess.DEVNULL)
    text = run.read_text()
    run.unlink()
    file.unlink()
    if done.returncode != 0 or NO_HOST not in text:
        sys.exit(f"measure failed for record {number}")
    return text


def fill(peerlane, folder, records):
    """Writes the records that are missing, in folders of their hosts."""
    root = pathlib.Path(__file__).resolve().parent.parent
    system = (root / "systems/hgx-h200.toml").read_text()
    for number in range(min(DISTINCT, records)):
        places = [folder / f"node{n:05}" / "20260101T000000Z.json" for n in range(number, records, DISTINCT)]
        first, missing = places[0], [place for place in places if not place.exists()]
        if first.exists():
            text = first.read_text().replace(f'"host":"{first.parent.name}"', NO_HOST, 1) if missing else ""
        else:
            text = record(peerlane, system, folder, number)
        for place in missing:
            place.parent.mkdir(exist_ok=True)
            place.write_text(text.replace(NO_HOST, f'"host":"{place.parent.name}"', 1))


def main():
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    peerlane, folder = pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(sys.argv[2])
    records = int(sys.argv[3]) if len(sys.argv) > 3 else 10_000
    repetitions = int(sys.argv[4]) if len(sys.argv) > 4 else 5
    folder.mkdir(parents=True, exist_ok=True)
    fill(peerlane, folder, records)
    planted = {f"node{n:05}" for n in range(records) if fault(n % DISTINCT)}
    size = sum(file.stat().st_size for file in folder.glob("*/*.json"))
    print(f"{records} records, {size / 1e9:.2f} GB, {len(planted)} with a fault; {os.cpu_count()} cores")
    walls, cpus, peak = [], [], 0
    for _ in range(repetitions):
        began = time.monotonic()
        child = subprocess.Popen([peerlane, "fleet", folder, "--json"], stdout=subprocess.PIPE)
        fleet = json.load(child.stdout)
        _, status, used = os.wait4(child.pid, 0)
        if os.waitstatus_to_exitcode(status) not in (0, 1):
            sys.exit("peerlane fleet failed")
        walls.append(time.monotonic() - began)
        cpus.append(used.ru_utime + used.ru_stime)
        peak = max(peak, used.ru_maxrss)
        named = {outlier["machine"] for outlier in fleet["outliers"]}
        print(f"wall {walls[-1]:.2f} s, cpu {cpus[-1]:.2f} s")
    print(f"median of {repetitions}: wall {statistics.median(walls):.2f} s ({min(walls):.2f} to {max(walls):.2f}), "
          f"cpu {statistics.median(cpus):.2f} s, peak {peak / 1e6:.2f} GB")
    print(f"found {len(planted & named)} of {len(planted)} faults, {len(named - planted)} false alarms")
    if named != planted:
        sys.exit(1)


main()
