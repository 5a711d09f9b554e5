"""A sweep on the cores of this machine. Answers are made without Python's lock, so threads do. usage: sweep_futures.py [WORKERS]"""

import itertools
import sys
from concurrent.futures import ThreadPoolExecutor

from designs import WORKLOADS, designs, rate, show


def main() -> None:
    pairs = list(itertools.product(designs(), WORKLOADS))
    with ThreadPoolExecutor(int(sys.argv[1]) if sys.argv[1:] else 2) as pool:
        show(list(pool.map(rate, *zip(*pairs))))


if __name__ == "__main__":
    main()
