"""A sweep on the machines of a Dask cluster (its scheduler's address as argument), or by two workers here."""

import itertools
import sys
from pathlib import Path

from dask.distributed import Client

from designs import WORKLOADS, designs, rate, show


def main() -> None:
    options = {"address": sys.argv[1]} if sys.argv[1:] else {"n_workers": 2, "threads_per_worker": 1, "dashboard_address": None}
    with Client(**options) as client:
        client.upload_file(str(Path(__file__).with_name("designs.py")))
        show(client.gather(client.map(rate, *zip(*itertools.product(designs(), WORKLOADS)))))


if __name__ == "__main__":
    main()
