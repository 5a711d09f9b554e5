"""The program, within Python: `python -m peerlane`, and its workers, which run this file by its path."""

import os
import signal
import sys

if not __package__:
    # nothing is imported from this file's folder, nor from where the user stands: this package is found from its parent's
    _here = os.path.dirname(os.path.abspath(__file__))
    sys.path[:] = [folder for folder in sys.path if folder not in ("", _here)] + [os.path.dirname(_here)]

from peerlane import _native


def main() -> int:
    """Runs the program with this process's arguments; returns its exit status."""
    # Python's own would only be asked between two steps of Python
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    return _native.main(["peerlane", *sys.argv[1:]])


if __name__ == "__main__":
    sys.exit(main())
