"""What every path between the GPUs, NICs and host memory of a machine is, should deliver, does deliver, and what to do about it.

    node = peerlane.open("slow-node")
    check = node.check()
    print(check.verdict, check.findings[0].summary)

`Node` lists the questions. Answers are the classes of `peerlane.documents`, with the fields that the program writes for `--json`.
"""

from __future__ import annotations

import sys

from peerlane import _native
from peerlane._native import Error
from peerlane._measure import PROGRAM, measure
from peerlane._node import Node, accuracy, check, compare, explain, infer, open, open_text, place, predict, simulate
from peerlane.table import Table

__version__ = _native.VERSION

__all__ = [
    "Error",
    "Node",
    "Table",
    "accuracy",
    "check",
    "compare",
    "explain",
    "infer",
    "measure",
    "open",
    "open_text",
    "place",
    "predict",
    "simulate",
]

# what asks the driver of this machine are workers: the program again, within another Python
_native.started_by(sys.executable or "", [PROGRAM])
