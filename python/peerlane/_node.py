"""What is opened, and the questions about it."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Union

from peerlane import _native
from peerlane.table import Table

if TYPE_CHECKING:
    import pandas

    from peerlane.documents import (
        Accuracy,
        Check,
        Comparison,
        Explanation,
        Inference,
        Placement,
        Prediction,
        Simulation,
    )

#: A name of the catalogue, a file, a folder, a record, or `live`.
Path = Union[str, "os.PathLike[str]"]
#: Bytes, or words: `1MiB`, `64KiB..1GiB`.
Sizes = Union[int, str, Iterable[Union[int, str]]]


def _answer(name: str, native: _native.Document) -> Any:
    # the classes of documents are loaded when there is one: the program does without
    from peerlane import documents

    return getattr(documents, name)._answer(native)


def _many(sizes: Sizes) -> list[int | str]:
    return [sizes] if isinstance(sizes, (int, str)) else list(sizes)


class Node:
    """Machines and clusters, with everything that is known of them. `peerlane.open` makes one.

    Every question raises `peerlane.Error`, with the program's words, where it has no answer. Other threads run meanwhile.
    """

    __slots__ = ("_native", "_name")

    def __init__(self, native: _native.Node, name: str) -> None:
        self._native, self._name = native, name

    def __repr__(self) -> str:
        return f"<peerlane.Node {', '.join(self.machines + self.clusters)}>"

    @property
    def machines(self) -> list[str]:
        """The names of the machines."""
        return self._native.machines

    @property
    def clusters(self) -> list[str]:
        """The names of the clusters."""
        return self._native.clusters

    @property
    def notices(self) -> list[str]:
        """What a person should know of what was opened, in sentences."""
        return self._native.notices

    @property
    def incomplete(self) -> bool:
        """Whether something of it could not be read; a notice has the reason."""
        return self._native.incomplete

    def only(self, machine: str) -> Node:
        """One of several machines, by its name or its number from 1."""
        return Node(self._native.only(machine), self._name)

    def what_if(self, *edits: str) -> Node:
        """The machines, or the nodes of clusters, with edits as of the program's `--what-if`. Measured values are left out."""
        return Node(self._native.what_if(list(edits)), self._name)

    def cluster(
        self, nodes: int, network: str, *, gbit_per_s: float | None = None, hop_latency_us: float = 0.2
    ) -> Node:
        """A cluster of so many nodes like this machine, by the words of the program's `--network`: `rail`, `fat-tree:2:2`."""
        return Node(self._native.cluster(nodes, network, gbit_per_s, hop_latency_us), self._name)

    def check(self, rules: Path | None = None) -> Check:
        """What is wrong with the machines. `rules` is a file with a site's thresholds and waivers; none is read without."""
        check: Check = _answer("Check", self._native.check(None if rules is None else os.fspath(rules)))
        return check

    def predict(self, sizes: Sizes = (), collectives: Sizes = ()) -> Prediction:
        """What the machines should deliver: matrices of all paths; copies of these sizes, and collectives of those."""
        prediction: Prediction = _answer("Prediction", self._native.predict(_many(sizes), _many(collectives)))
        return prediction

    def explain(self, a: str, b: str) -> Explanation:
        """The path between two nodes, hop by hop: GPUs, NICs, `host0`."""
        explanation: Explanation = _answer("Explanation", self._native.explain(a, b))
        return explanation

    def simulate(self, workload: str = "all-reduce:ring", sizes: Sizes = "64KiB..1GiB") -> tuple[Simulation, ...]:
        """How long a workload takes, of each cluster or machine one; the words are those of the program's `--workload`."""
        return tuple(_answer("Simulation", native) for native in self._native.simulate(workload, _many(sizes)))

    def place(
        self,
        jobs: int | str | None = None,
        *,
        nics: int | None = None,
        workload: str = "all-reduce",
        busy: Iterable[str] = (),
    ) -> Placement:
        """Where jobs should run: a number of GPUs, or `2x4` for two jobs of four; without `jobs`, one job on all."""
        words = f"1x{jobs}" if isinstance(jobs, int) else jobs
        placement: Placement = _answer("Placement", self._native.place(words, nics, workload, list(busy)))
        return placement

    def infer(self) -> Inference:
        """Which transfers share a limit that no topology shows."""
        inference: Inference = _answer("Inference", self._native.infer())
        return inference

    def accuracy(self) -> Accuracy:
        """How far predictions are from all that was measured of the machines, or published."""
        accuracy: Accuracy = _answer("Accuracy", self._native.accuracy())
        return accuracy

    def cells(self) -> Table:
        """Every expected and measured value, as `check` compares them.

        A row for each measured value, and for each expected one of which nothing was measured. Data goes `from` one node
        `to` the other, in transfers of `size` bytes; `low`, `expected`, `high` and `measured` are in `unit`; `ratio` is
        measured ÷ expected; `binding` is what limits the expected rate; `origin` says where the measured value stands.
        """
        return Table(self._native.cells())

    def to_pandas(self) -> pandas.DataFrame:
        """`cells()` as a DataFrame."""
        return self.cells().to_pandas()


def _opened(native: _native.Node, name: str) -> Node:
    if native.incomplete:
        warnings.warn("\n".join(native.notices), stacklevel=3)
    return Node(native, name)


def open(*targets: Path) -> Node:
    """Opens what the program calls TARGET: names of the catalogue, files, folders, records, `live` for this machine.

    Several files may be about one machine. Where a part cannot be read, there is a warning.
    """
    names = [os.fspath(target) for target in targets]
    if not names:
        raise _native.Error("nothing to open: give a name of the catalogue, a file, a folder, or 'live'")
    return _opened(_native.Node.open(names), names[0])


def open_text(text: str | bytes | Mapping[str, str | bytes], name: str = "text") -> Node:
    """Opens what tools printed, a record, or (where the name ends in `.toml`) a design. Several texts by their names."""
    texts = text if isinstance(text, Mapping) else {name: text}
    pairs = [(name, text.encode() if isinstance(text, str) else text) for name, text in texts.items()]
    return _opened(_native.Node.of_texts(pairs), next(iter(texts), name))


def check(*targets: Path, rules: Path | None = None) -> Check:
    """See `Node.check`."""
    return open(*targets).check(rules)


def predict(*targets: Path, sizes: Sizes = (), collectives: Sizes = ()) -> Prediction:
    """See `Node.predict`."""
    return open(*targets).predict(sizes, collectives)


def explain(target: Path, a: str, b: str) -> Explanation:
    """See `Node.explain`."""
    return open(target).explain(a, b)


def simulate(*targets: Path, workload: str = "all-reduce:ring", sizes: Sizes = "64KiB..1GiB") -> tuple[Simulation, ...]:
    """See `Node.simulate`."""
    return open(*targets).simulate(workload, sizes)


def place(target: Path, jobs: int | str | None = None, *, workload: str = "all-reduce") -> Placement:
    """See `Node.place`."""
    return open(target).place(jobs, workload=workload)


def infer(target: Path) -> Inference:
    """See `Node.infer`."""
    return open(target).infer()


def accuracy(*targets: Path) -> Accuracy:
    """See `Node.accuracy`."""
    return open(*targets).accuracy()


def compare(*designs: Path | Node, what_if: Iterable[str] = ()) -> Comparison:
    """Designs and machines side by side. Edits put a changed one beside each."""
    nodes = [design if isinstance(design, Node) else open(design) for design in designs]
    native = _native.compare([(node._name, node._native) for node in nodes], list(what_if))
    comparison: Comparison = _answer("Comparison", native)
    return comparison
