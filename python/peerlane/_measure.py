"""Measuring, in a process of its own."""

from __future__ import annotations

import os
import sys
import threading
import time
import warnings
from collections.abc import Iterable
from typing import TYPE_CHECKING

from peerlane import _native
from peerlane._node import Node, Path, open

if TYPE_CHECKING:
    import subprocess

#: The file that is the program, for whatever is to run it.
PROGRAM = os.path.join(os.path.dirname(os.path.abspath(__file__)), "__main__.py")


def measure(
    target: Path | None = None, *, tests: Iterable[str] = (), out: Path | None = None, options: Iterable[str] = ()
) -> Node:
    """Measures the paths of this machine, or of a simulated one, and opens the record, which stays in `out`.

    `tests` are those of the program's `--tests`; `options` are further words of `peerlane measure`. What it says goes to
    `sys.stderr`. An interrupt (Ctrl-C, or a notebook's button) ends it in order: what was measured until then is kept, and
    opened with a warning. A second one is a KeyboardInterrupt. Where nothing was measured it raises `peerlane.Error`.
    """
    from datetime import datetime

    file = os.fspath(out) if out is not None else datetime.now().strftime("peerlane-%Y%m%d-%H%M%S.json")
    records = [file, f"{file}.partial"]
    before = [_state(record) for record in records]
    words = ["measure", *([] if target is None else [os.fspath(target)]), "-o", file, *options]
    chosen = ",".join(tests)
    status, said = _run([*words, "--tests", chosen] if chosen else words)
    text = "".join(said).strip()
    # an interrupted or refused run leaves a partial record
    written = [record for record, old in zip(records, before) if _state(record) not in (None, old)]
    if not written:
        raise _native.Error(text or f"peerlane measure ended with status {status}, and recorded nothing")
    if status != 0:
        warnings.warn(text or f"peerlane measure ended with status {status}", stacklevel=2)
    return open(written[0])


def _state(file: str) -> tuple[int, int] | None:
    try:
        found = os.stat(file)
    except OSError:
        return None
    return found.st_ino, found.st_mtime_ns


def _run(words: list[str]) -> tuple[int, list[str]]:
    """Runs the program; returns its status and what it said on standard error."""
    import signal
    import subprocess

    said: list[str] = []
    # a session of its own: what interrupts this process is passed on, once
    with subprocess.Popen(
        [sys.executable, PROGRAM, *words],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
        start_new_session=True,
    ) as child:
        listener = threading.Thread(target=_listen, args=(child, said), daemon=True)
        listener.start()
        try:
            try:
                _until_ended(child)
            except KeyboardInterrupt:
                child.send_signal(signal.SIGINT)
                _until_ended(child)
        except BaseException:
            # a second signal ends it at once
            child.send_signal(signal.SIGINT)
            raise
        listener.join(5)
    return child.returncode, said


def _listen(child: subprocess.Popen[str], said: list[str]) -> None:
    for line in child.stderr or ():
        said.append(line)
        print(line, end="", file=sys.stderr, flush=True)


def _until_ended(child: subprocess.Popen[str]) -> None:
    # in short waits: a signal that another thread took is noticed between them
    while child.poll() is None:
        time.sleep(0.05)
