"""A sweep on the machines of a Ray cluster (RAY_ADDRESS), or by two workers here. peerlane is installed on all of them."""

import itertools
import os
from pathlib import Path
from typing import Any

import ray

from designs import WORKLOADS, designs, rate, show


def main() -> None:
    here: dict[str, Any] = {} if "RAY_ADDRESS" in os.environ else {"num_cpus": 2, "include_dashboard": False}
    ray.init(runtime_env={"working_dir": str(Path(__file__).parent)}, **here)
    task = ray.remote(rate)
    show(ray.get([task.remote(*pair) for pair in itertools.product(designs(), WORKLOADS)]))


if __name__ == "__main__":
    main()
