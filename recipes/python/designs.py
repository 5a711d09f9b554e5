"""The question of the sweeps: 200 designs of the 7gforce, six of whose GPUs are on risers, and what two workloads make of each."""

import itertools

import peerlane

Design = tuple[int, ...]
WORKLOADS = ["all-reduce", "all-to-all"]


def designs() -> list[Design]:
    """Lanes of the six risers: 200 designs, up to those with the most."""
    return sorted(itertools.product((1, 4, 8), repeat=6), key=sum)[129::3]


def rate(design: Design, workload: str) -> float:
    """GB/s of a workload with 64 MiB on a design."""
    edits = [f"GPU{i}.link=x{lanes}" for i, lanes in enumerate(design)]
    return peerlane.open("7gforce").what_if(*edits).simulate(workload, "64MiB")[0].points[0].algbw


def show(rates: list[float]) -> None:
    """The best design for each workload, of equals the one with the fewest lanes; rates are in the order of the product of designs and workloads."""
    tried = list(zip(rates, itertools.product(designs(), WORKLOADS)))
    for workload in WORKLOADS:
        best, (design, _) = max((row for row in tried if row[1][1] == workload), key=lambda row: (row[0], -sum(row[1][0])))
        print(f"{workload}: best of {len(tried) // len(WORKLOADS)} designs {best:.2f} GB/s with lanes {design}")
