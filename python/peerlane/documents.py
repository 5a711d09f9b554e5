"""What answers consist of. Written by scripts/python_documents.py from the schemas in schema/; not meant to be edited."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from peerlane._base import CheckMethods, Document, MatrixMethods, Part, PredictionMethods, many



@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Doubtful(Part):
    """A line that looks like data of a known format and was not used."""

    format: str
    """The tool whose output it looks like."""
    line: int
    """Its number, from 1."""
    text: str
    """How it begins."""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Coverage(Part):
    """How much of one input was understood. Empty lines are not counted."""

    doubtful: int
    """Lines that look like data of a known format and were not used."""
    ignored: int
    """Lines that are nothing known: prose, prompts, fields that do not matter here."""
    lines: tuple[Doubtful, ...] = ()
    """The first few of these."""
    source: str
    """The input: a file's name, `-` for standard input."""
    understood: int
    """Lines of which something is used."""


Coverage._MADE = {"lines": many(Doubtful._of)}


#: possible: One of several explanations of what was measured.
#: likely: What was measured has this cause as far as is known.
#: certain: A source states it, or it follows from what one states.
Certainty: TypeAlias = Literal["possible", "likely", "certain"]
"""How certain a finding is."""


#: GB/s: 10⁹ bytes a second.
#: MiB/s: 2²⁰ bytes a second, which old tools print as "MB/s".
#: Gb/s: 10⁹ bits a second.
#: us: Microseconds.
#: ns: Nanoseconds.
#: ps: Picoseconds.
#: GTEPS: 10⁹ traversed edges a second.
Unit: TypeAlias = Literal["GB/s", "MiB/s", "Gb/s", "us", "ns", "ps", "GTEPS"]
"""The unit a matrix is given in."""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Cost(Part):
    """What a finding costs, on the path where it costs most."""

    lost: float
    """Rate that is lost, or time that is added."""
    share: float
    """Share of the expected rate, 0 to 1; for a time, the added share of the measured one."""
    unit: Unit
    """Its unit."""


#: fault: The machine is not what its design promises.
#: design: The design is the limit, as built.
#: measurement: The numbers are suspect.
FindingKind: TypeAlias = Literal["fault", "design", "measurement"]
"""What kind of difference a finding is."""


#: info: A note: no part of the verdict.
#: warning: A limit, or what nothing known explains.
#: error: A fault.
Severity: TypeAlias = Literal["info", "warning", "error"]
"""How much a finding matters: what it contributes to the verdict."""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class MachineFinding(Part):
    """A finding with its machine."""

    certainty: Certainty
    """How certain it is."""
    confirm: str
    """What would confirm it: usually a command."""
    cost: Cost | None = None
    """What it costs, where known."""
    evidence: tuple[str, ...]
    """Sources: `file:lines (tool)`."""
    expected: str
    """What should be, with unit and why."""
    fix: str
    """What to do."""
    kind: FindingKind
    """Its kind."""
    machine: str
    """The machine's name."""
    measured: str
    """What was measured, with unit."""
    nodes: tuple[str, ...] = ()
    """Names of all nodes that it is about, each once, in order."""
    reset: bool = False
    """Whether a reset of the GPU or the NIC repairs it."""
    rule: str
    """The rule: `narrow-link`."""
    severity: Severity
    """How much it matters."""
    subjects: tuple[str, ...]
    """The nodes, pairs or links it is about, as printed: `GPU0-GPU2`."""
    summary: str
    """One sentence."""


MachineFinding._MADE = {"cost": Cost._of, "evidence": tuple, "nodes": tuple, "subjects": tuple}


#: numbers: Its numbers are those of the system.
#: design: Its GPUs and their paths are those of the system.
RecognizedBy: TypeAlias = Literal["numbers", "design"]
"""By what a machine was recognized."""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Recognized(Part):
    """A catalogue system that a machine equals."""

    by: RecognizedBy
    """By what."""
    system: str
    """Its name: `exxact-txr430`."""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class ComparedMeasurement(Part):
    """A measured number."""

    high: float | None = None
    """High end, or the highest."""
    low: float | None = None
    """Low end of the median's 95 % interval; of fewer than 6 samples, the lowest."""
    n: int | None = None
    """Samples whose median it is."""
    origin: str
    """Where it stands: `file:lines (tool)`, or a document's words."""
    published: bool
    """True for a document's figure, false for a program's own output."""
    upto: float | None = None
    """The high end of a stated range."""
    value: float
    """The number, or the low end of a stated range."""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class ComparedCell(Part):
    """One path of a table."""

    binding: str | None = None
    """What binds the expected rate, or what the expected time is made of."""
    col: str
    """Its column."""
    expected: float | None = None
    """What should stand there; absent where the model cannot say."""
    high: float | None = None
    """The most."""
    link: tuple[str, ...] | None = None
    """The ends of the link that binds it, where one does."""
    low: float | None = None
    """The least that it may be, by the ranges of the model's constants."""
    measured: tuple[ComparedMeasurement, ...] = ()
    """All that was measured, published figures first."""
    ratio: float | None = None
    """Measured ÷ expected, of the last of `measured`; of a range, of its low end."""
    row: str
    """Its row."""


ComparedCell._MADE = {"link": tuple, "measured": many(ComparedMeasurement._of)}


#: unidirectional: One way: row to column, unless the operation is a read of the column by the row.
#: bidirectional: Both ways at once; a bandwidth is the sum of both, as the CUDA sample counts it.
#: bidirectional-share: Both ways at once, but the number is one way's share (nvbandwidth's bidirectional tests).
Direction: TypeAlias = Literal["unidirectional", "bidirectional", "bidirectional-share"]
"""The direction of the data."""


#: ce: A GPU's copy engine.
#: sm: A kernel on a GPU's multiprocessors.
#: nic: A NIC's DMA engine.
#: device: The DMA engine of a drive or a capture card.
Engine: TypeAlias = Literal["ce", "sm", "nic", "device"]
"""What drives the transfer."""


#: write: The source pushes.
#: read: The destination pulls.
Operation: TypeAlias = Literal["write", "read"]
"""Whether the initiator writes to or reads from the far end."""


#: bandwidth: Data moved per time.
#: latency: Time of a small transfer, its launch included, as the CUDA sample counts it.
#: enqueue-latency: Time the CPU takes to enqueue a small transfer (the sample's "CPU" block).
#: load-latency: Time of one dependent load, the next address taken from the last (nvbandwidth's latency tests).
#: signal-latency: Time for a flag that one GPU's kernel writes to be visible to another's, half of a round trip.
#: bus-bandwidth: A collective's bandwidth as nccl-tests' "busbw" counts it.
#: update-time: Time that the update of one place of a lattice takes.
#: exchange-time: Time that an exchange of all faces between the parts of a grid takes.
#: edge-rate: Edges of a graph that searches traverse per time, as Graph500 counts them.
Quantity: TypeAlias = Literal["bandwidth", "latency", "enqueue-latency", "load-latency", "signal-latency", "bus-bandwidth", "update-time", "exchange-time", "edge-rate"]
"""What is measured."""


Bytes: TypeAlias = int
"""A number of bytes."""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class ComparedTable(Part):
    """All numbers of one metric between ends of one kind."""

    cells: tuple[ComparedCell, ...]
    """What was measured or can be predicted, row by row."""
    cols: tuple[str, ...]
    """Destinations; `self` is the row's own memory."""
    direction: Direction | None = None
    """Which way; a bidirectional rate is the sum of both."""
    engine: Engine | None = None
    """What drives it."""
    op: Operation | None = None
    """Write or read."""
    p2p: bool | None = None
    """Peer-to-peer access on or off."""
    quantity: Quantity
    """What is measured."""
    rows: tuple[str, ...]
    """Sources: nodes, or `host` for the memory nearest to the other end. The reader of a read is a row."""
    size: Bytes | None = None
    """Bytes that each transfer moves."""
    title: str | None = None
    """The test's title, where that is not all: many transfers at once, memory that waits for the CPU."""
    unit: Unit
    """Unit of all numbers."""
    what: str
    """What the numbers are of, in words: `bandwidth, one way, P2P on, writes, copy engine, GB/s`."""


ComparedTable._MADE = {"cells": many(ComparedCell._of), "cols": tuple, "rows": tuple}


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class MachineComparison(Part):
    """What a machine should deliver beside what was measured on it."""

    recognized: Recognized | None = None
    """The catalogue system that the machine is, where it equals one."""
    tables: tuple[ComparedTable, ...]
    """A table for each metric and kind of ends, those that were measured first."""


MachineComparison._MADE = {"recognized": Recognized._of, "tables": many(ComparedTable._of)}


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Finding(Part):
    """A difference that matters."""

    certainty: Certainty
    """How certain it is."""
    confirm: str
    """What would confirm it: usually a command."""
    cost: Cost | None = None
    """What it costs, where known."""
    evidence: tuple[str, ...]
    """Sources: `file:lines (tool)`."""
    expected: str
    """What should be, with unit and why."""
    fix: str
    """What to do."""
    kind: FindingKind
    """Its kind."""
    measured: str
    """What was measured, with unit."""
    nodes: tuple[str, ...] = ()
    """Names of all nodes that it is about, each once, in order."""
    reset: bool = False
    """Whether a reset of the GPU or the NIC repairs it."""
    rule: str
    """The rule: `narrow-link`."""
    severity: Severity
    """How much it matters."""
    subjects: tuple[str, ...]
    """The nodes, pairs or links it is about, as printed: `GPU0-GPU2`."""
    summary: str
    """One sentence."""


Finding._MADE = {"cost": Cost._of, "evidence": tuple, "nodes": tuple, "subjects": tuple}


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Threshold(Part):
    """A floor of others, and what was measured."""

    ends: str | None = None
    """The ends of that rate: `GPU0→GPU1`."""
    floor: float
    """The floor, in GB/s."""
    list: str
    """The list: `Azure node health checks`."""
    measured: float
    """The lowest measured rate, in GB/s."""
    of: str
    """What it is of: `host↔GPU`, `GPU↔GPU` or `all-reduce`."""
    passes: bool
    """Whether it is at or above the floor."""
    source: str
    """Where the floor is published."""


#: healthy: States or values that could show a fault were judged, all that was planned was measured or read, and nothing
#: is unexplained.
#: limited: It works as built, and the build or a setting costs something that was requested.
#: not-judged: Nothing was judged that could show a fault, or something that was planned is missing.
#: unexplained: A line speaks of trouble, or a value is worse than its interval, and nothing known explains it.
#: fault: Something does not work, or is below its interval with a named place.
Verdict: TypeAlias = Literal["healthy", "limited", "not-judged", "unexplained", "fault"]
"""What is known of a machine, of nodes or of a network as a whole; a later one decides before an earlier one."""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Waived(Part):
    """A finding that is accepted."""

    certainty: Certainty
    """How certain it is."""
    confirm: str
    """What would confirm it: usually a command."""
    cost: Cost | None = None
    """What it costs, where known."""
    evidence: tuple[str, ...]
    """Sources: `file:lines (tool)`."""
    expected: str
    """What should be, with unit and why."""
    fix: str
    """What to do."""
    kind: FindingKind
    """Its kind."""
    measured: str
    """What was measured, with unit."""
    nodes: tuple[str, ...] = ()
    """Names of all nodes that it is about, each once, in order."""
    reason: str
    """Why."""
    reset: bool = False
    """Whether a reset of the GPU or the NIC repairs it."""
    rule: str
    """The rule: `narrow-link`."""
    severity: Severity
    """How much it matters."""
    subjects: tuple[str, ...]
    """The nodes, pairs or links it is about, as printed: `GPU0-GPU2`."""
    summary: str
    """One sentence."""


Waived._MADE = {"cost": Cost._of, "evidence": tuple, "nodes": tuple, "subjects": tuple}


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class MachineCheck(Part):
    """One machine's verdict and findings, and its comparison where a document has that."""

    checked: tuple[str, ...]
    """What is known that would show a fault if there were one: `link widths`, `NVLinks`, `rates`."""
    comparison: MachineComparison | None = None
    """All expectations for it, compared with all that was measured on it."""
    findings: tuple[Finding, ...]
    """Its findings."""
    missing: str | None = None
    """What its record lacks of its plan, in words."""
    name: str
    """The machine's name."""
    next: tuple[str, ...] = ()
    """Commands whose output would give a verdict, where it is not judged."""
    thresholds: tuple[Threshold, ...] = ()
    """Floors that others publish for this product, on request. They change no verdict."""
    unchecked: tuple[str, ...] = ()
    """What is worth judging of it and was not: `rates`."""
    verdict: Verdict
    """Its verdict."""
    waived: tuple[Waived, ...] = ()
    """What the site's settings accept."""


MachineCheck._MADE = {"checked": tuple, "comparison": MachineComparison._of, "findings": many(Finding._of), "next": tuple, "thresholds": many(Threshold._of), "unchecked": tuple, "waived": many(Waived._of)}


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Check(CheckMethods):
    """What `check --json` writes."""

    coverage: tuple[Coverage, ...] = ()
    """How much of each input was understood."""
    findings: tuple[MachineFinding, ...]
    """The findings of all machines, most severe first within each."""
    machines: tuple[MachineCheck, ...]
    """Each machine with its verdict, what was judged of it, its findings and its comparison."""
    schema: Literal["peerlane/check/3"]
    """Names this format."""
    verdict: Verdict
    """The worst verdict of all machines; `not-judged` ranks between `limited` and `unexplained`."""


Check._MADE = {"coverage": many(Coverage._of), "findings": many(MachineFinding._of), "machines": many(MachineCheck._of)}


#: all-reduce: Everyone gets the sum.
#: all-gather: Everyone gets everyone's part.
#: reduce-scatter: Everyone gets a part of the sum.
#: all-to-all: Everyone sends everyone a part.
#: broadcast: One sends to all.
#: send-receive: Everyone sends to the next and receives from the one before.
Collective: TypeAlias = Literal["all-reduce", "all-gather", "reduce-scatter", "all-to-all", "broadcast", "send-receive"]
"""One of NCCL's operations."""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class ExpectedPoint(Part):
    """One size."""

    algorithm: str
    """The algorithm that NCCL or RCCL would choose: `ring`, `nvls` …."""
    busbw: float
    """Bus bandwidth in GB/s, as nccl-tests counts it."""
    protocol: str
    """Its protocol: `ll`, `ll128` or `simple`."""
    size: int
    """Bytes, as nccl-tests counts them."""
    time: float
    """Seconds."""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class ExpectedCollective(Part):
    """What is predicted of one collective among all GPUs of a machine."""

    collective: Collective
    """Which."""
    gpus: int
    """GPUs that take part."""
    points: tuple[ExpectedPoint, ...]
    """One for each size, in their order."""


ExpectedCollective._MADE = {"points": many(ExpectedPoint._of)}


PathClass: TypeAlias = str
"""The class of a path between two devices, nearest first, as NVIDIA defines them.

Printed as `nvidia-smi topo -m` prints it today; the older `SOC` reads as `PathClass::Sys`.
"""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class ExpectedCurve(Part):
    """What copies of a way take, by size."""

    class_: PathClass | None = None
    """Class of the path; null where the fabric knows no way."""
    from_: str
    """Where the data comes from."""
    half_size: int
    """Bytes at which half of it is reached."""
    latency: float
    """Time of one small copy, in us."""
    latency_interval: tuple[float, ...]
    """The least and the most that it may be."""
    latency_why: str
    """What it is made of."""
    rate: float
    """Rate of a message without end, in GB/s."""
    rates: tuple[tuple[int, float], ...]
    """Sizes in bytes, and the rate at each in GB/s."""
    staged: bool
    """Whether it goes through host memory."""
    staged_from: int | None = None
    """Bytes from which on a copy staged through host memory is faster; null where it never is, and for what is staged."""
    startup: float
    """Time that each copy of a full queue adds to its moving, in us."""
    times: tuple[tuple[int, float], ...]
    """Sizes in bytes, and the time of one copy of many, in us."""
    to: str
    """Where it goes."""


ExpectedCurve._MADE = {"latency_interval": tuple, "rates": many(tuple), "times": many(tuple)}


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class ExpectedMatrix(MatrixMethods):
    """A matrix of expected rates or times; the `matrices` of `predict --json`."""

    bottlenecks: tuple[tuple[str | None, ...], ...]
    """What binds each, in words."""
    cols: tuple[str, ...]
    """Destinations."""
    direction: Direction | None = None
    """Which way; a bidirectional rate is the sum of both."""
    engine: Engine | None = None
    """What drives it."""
    high: tuple[tuple[float | None, ...], ...] = ()
    """The most."""
    low: tuple[tuple[float | None, ...], ...] = ()
    """The least that each may be, by the ranges of the model's constants."""
    op: Operation | None = None
    """Write or read."""
    p2p: bool | None = None
    """Peer-to-peer access asked for (`true`), or off."""
    quantity: Quantity
    """What is predicted."""
    rows: tuple[str, ...]
    """Sources."""
    unit: Unit
    """Unit of `values`."""
    values: tuple[tuple[float | None, ...], ...]
    """Expected numbers; `None` where nothing can be said, and on the diagonal between GPUs."""


ExpectedMatrix._MADE = {"bottlenecks": many(tuple), "cols": tuple, "high": many(tuple), "low": many(tuple), "rows": tuple, "values": many(tuple)}


Seconds: TypeAlias = float
"""A time in seconds."""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Span(Part):
    """A time that is known within bounds."""

    high: Seconds
    """The most, in seconds."""
    likely: Seconds
    """The likely one, in seconds."""
    low: Seconds
    """The least, in seconds."""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class RdmaPoint(Part):
    """One size of a curve."""

    rate: float
    """GB/s of such messages one behind another."""
    size: Bytes
    """Bytes of a message."""
    time: Span
    """Its time alone."""


RdmaPoint._MADE = {"time": Span._of}


#: nvp2p: NVIDIA's own peer-to-peer protocol (GPUDirect v2), which the NIC must support.
#: bar1: PCIe reads and writes of the window that the GPU opens on its memory (GPUDirect RDMA).
#: staged: The GPU copies to or from host memory, and the NIC reads or writes there.
#: host: No GPU: the data is in host memory.
Method: TypeAlias = Literal["nvp2p", "bar1", "staged", "host"]
"""How a NIC accesses memory."""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Repaid(Part):
    """After how many messages a direct path, with its registration, has taken less time than staging."""

    fewest: int
    """At the least time of registration and the most of staging."""
    most: int
    """At the most time of registration and the least of staging."""
    size: Bytes
    """Bytes of a message."""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class RdmaStage(Part):
    """One stage."""

    assumed: bool
    """Whether it is assumed."""
    name: str
    """What happens."""
    time: Span
    """How long it takes, in seconds."""
    why: str
    """Where that is from."""


RdmaStage._MADE = {"time": Span._of}


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class LikeNodes(Part):
    """Messages between two like nodes."""

    bottleneck: str
    """What binds it."""
    curve: tuple[RdmaPoint, ...]
    """By size."""
    latency: Span
    """Time of an empty message."""
    method: Method
    """The method at both ends."""
    rate: float
    """GB/s of a message without end."""
    repaid: Repaid | None = None
    """When registering a buffer at both ends has paid; null where nothing is registered, and where staging is faster."""
    stages: tuple[RdmaStage, ...]
    """The stages that add up to it."""
    staging_from: Bytes | None = None
    """The least power of two, up to 1 GiB, at which a staged message alone takes less time; null where none does."""


LikeNodes._MADE = {"curve": many(RdmaPoint._of), "latency": Span._of, "repaid": Repaid._of, "stages": many(RdmaStage._of)}


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class NicMessages(Part):
    """Messages by size from a GPU to the same one of a like node, through a NIC, by every method."""

    class_: PathClass | None = None
    """The class of the path between the two; null where none is known."""
    gpu: str
    """The GPU."""
    methods: tuple[LikeNodes, ...]
    """The methods, host memory first; not one where no path has a rate."""
    nic: str
    """The NIC."""


NicMessages._MADE = {"methods": many(LikeNodes._of)}


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class MachinePrediction(Part):
    """One machine's predictions."""

    assumptions: tuple[str, ...]
    """Assumptions about link widths that no source reports."""
    collectives: tuple[ExpectedCollective, ...] = ()
    """What NCCL or RCCL should take, where collectives were requested."""
    comparison: MachineComparison
    """All expectations for it, compared with all that was measured on it."""
    curves: tuple[ExpectedCurve, ...] = ()
    """Rates by message size, where sizes were requested."""
    matrices: tuple[ExpectedMatrix, ...]
    """Its matrices."""
    messages: tuple[NicMessages, ...] = ()
    """Messages through NICs by size, where sizes were requested: one GPU and NIC of each kind."""
    name: str
    """The machine's name."""


MachinePrediction._MADE = {"assumptions": tuple, "collectives": many(ExpectedCollective._of), "comparison": MachineComparison._of, "curves": many(ExpectedCurve._of), "matrices": many(ExpectedMatrix._of), "messages": many(NicMessages._of)}


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class PredictedMatrix(MatrixMethods):
    """A predicted matrix, with its machine where there are several."""

    bottlenecks: tuple[tuple[str | None, ...], ...]
    """What binds each, in words."""
    cols: tuple[str, ...]
    """Destinations."""
    direction: Direction | None = None
    """Which way; a bidirectional rate is the sum of both."""
    engine: Engine | None = None
    """What drives it."""
    high: tuple[tuple[float | None, ...], ...] = ()
    """The most."""
    low: tuple[tuple[float | None, ...], ...] = ()
    """The least that each may be, by the ranges of the model's constants."""
    machine: str | None = None
    """The machine's name."""
    op: Operation | None = None
    """Write or read."""
    p2p: bool | None = None
    """Peer-to-peer access asked for (`true`), or off."""
    quantity: Quantity
    """What is predicted."""
    rows: tuple[str, ...]
    """Sources."""
    unit: Unit
    """Unit of `values`."""
    values: tuple[tuple[float | None, ...], ...]
    """Expected numbers; `None` where nothing can be said, and on the diagonal between GPUs."""


PredictedMatrix._MADE = {"bottlenecks": many(tuple), "cols": tuple, "high": many(tuple), "low": many(tuple), "rows": tuple, "values": many(tuple)}


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Prediction(PredictionMethods):
    """What `predict --json` writes."""

    assumptions: tuple[str, ...]
    """Assumptions where no source reports a value, for the only machine."""
    collectives: tuple[ExpectedCollective, ...] = ()
    """What NCCL or RCCL should take, where collectives were requested."""
    comparison: MachineComparison | None = None
    """All expectations for the only machine, compared with all that was measured on it."""
    curves: tuple[ExpectedCurve, ...] = ()
    """Rates by message size, where sizes were requested: one path of each kind."""
    machine: str | None = None
    """The machine's name, where there is only one."""
    machines: tuple[MachinePrediction, ...] = ()
    """The same by machine, where there are several."""
    matrices: tuple[PredictedMatrix, ...]
    """The matrices of all machines."""
    messages: tuple[NicMessages, ...] = ()
    """Messages through NICs by size, where sizes were requested: one GPU and NIC of each kind."""
    schema: Literal["peerlane/prediction/2"]
    """Names this format."""


Prediction._MADE = {"assumptions": tuple, "collectives": many(ExpectedCollective._of), "comparison": MachineComparison._of, "curves": many(ExpectedCurve._of), "machines": many(MachinePrediction._of), "matrices": many(PredictedMatrix._of), "messages": many(NicMessages._of)}


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class ExpectedRate(Part):
    """An expected rate."""

    bottleneck: str
    """Its bottleneck."""
    high: float
    """The most."""
    low: float
    """The least that it may be, by the ranges of the model's constants."""
    rate: float
    """In GB/s."""


#: direct: The device reads or writes GPU memory: GPUDirect Storage, GPUDirect RDMA.
#: host-buffer: A buffer in host memory, which the device fills and the GPU copies, or the other way round.
DevicePath: TypeAlias = Literal["direct", "host-buffer"]
"""How data gets from one to the other."""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class DevicePathRate(Part):
    """What a path gives, one way."""

    bottleneck: str | None = None
    """What binds the rate."""
    high: float | None = None
    """The most."""
    in_turn: float | None = None
    """GB/s of a program that waits for each stage before it starts the other; null for a direct path."""
    low: float | None = None
    """The least that it may be."""
    not_offered: str | None = None
    """Why it is not available; null where it is, and then the rest is known."""
    path: DevicePath
    """The path."""
    rate: float | None = None
    """GB/s, with both stages at the same time where there are two."""


#: gpu: A GPU.
#: nic: A network adapter, or one port of a card that has several.
#: card: A card that carries several endpoints on one link to its slot, without a switch.
#: nvme: A drive, mostly an NVMe one.
#: fpga: A card that streams data to or from outside other than a network: an FPGA, a capture card.
#: host: The memory of one NUMA node.
#: root-complex: A PCIe host bridge with its root ports.
#: switch: A PCIe switch.
#: nvswitch: An NVSwitch, or all of them where they cannot be distinguished.
#: cpu: A CPU package.
NodeKind: TypeAlias = Literal["gpu", "nic", "card", "nvme", "fpga", "host", "root-complex", "switch", "nvswitch", "cpu"]
"""What a node is."""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class DeviceDescription(Part):
    """The paths between a GPU and a drive or capture card."""

    device: str
    """The drive or capture card."""
    from_gpu: tuple[DevicePathRate, ...]
    """From GPU memory to the device."""
    gpu: str
    """The GPU."""
    kind: NodeKind
    """Which of both it is."""
    remarks: tuple[str, ...]
    """What else to know."""
    to_gpu: tuple[DevicePathRate, ...]
    """From the device to GPU memory: a file is read, a stream comes in."""


DeviceDescription._MADE = {"from_gpu": many(DevicePathRate._of), "remarks": tuple, "to_gpu": many(DevicePathRate._of)}


#: stores: The kernel that computes it also stores it in the neighbour's memory.
#: copies: By a copy engine, into the neighbour's memory.
#: staged: By a copy engine into pinned host memory, and by the neighbour's from there.
Exchange: TypeAlias = Literal["stores", "copies", "staged"]
"""How what is at the boundary of a GPU's part gets to its neighbours."""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class FastestFrom(Part):
    """From which size of a face a method is the fastest."""

    exchange: Exchange
    """The method."""
    face: int
    """Bytes of a face."""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class OverlapFrom(Part):
    """From which side L of a spin glass overlap pays. Sides are multiples of 64; null where no side up to 4096 is
    enough.
    """

    hides: int | None = None
    """From here on the exchange is over before the rest is updated."""
    hides_bytes: int | None = None
    """Bytes of each GPU's part there."""
    pays: int | None = None
    """From here on it makes a half-sweep faster."""
    predicted: int
    """From here on memory alone binds; below, caches hold a notable part of the lattice, and sides are less certain."""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class MethodAdvice(Part):
    """What an exchange by one method takes, and what overlap does for it."""

    exchange: Exchange
    """The method."""
    spin_glass: OverlapFrom | None = None
    """For a spin glass on these GPUs; null where their memory's rate is not known."""
    times: tuple[tuple[int, float], ...]
    """Bytes of a face, and microseconds of the exchange."""


MethodAdvice._MADE = {"spin_glass": OverlapFrom._of, "times": many(tuple)}


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class SideAdvice(Part):
    """What a side takes."""

    all: float
    """Picoseconds of an update on all, by the fastest method."""
    exchange: Exchange
    """That method."""
    one: float
    """Picoseconds of an update on one GPU."""
    overlap: bool
    """Whether it is overlapped."""
    side: int
    """The side L."""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class SpinGlassAdvice(Part):
    """From which side of a spin glass on several GPUs, a slab each, are faster than one of them."""

    at_the_latest: bool
    """Whether smaller ones are not predicted, since caches hold so much of them, so that it may hold for these, too."""
    from_: int | None = None
    """The least multiple of 64 from which that holds for all larger ones, too; null where it holds for no side up to
    4096.
    """
    gpus: int
    """The GPUs."""
    predicted: int
    """From here on memory alone binds; below, caches hold a notable part of each slab, and times are less certain."""
    sides: tuple[SideAdvice, ...]
    """What some sides take, and that one; without those that are not predicted."""


SpinGlassAdvice._MADE = {"sides": many(SideAdvice._of)}


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class HaloAdvice(Part):
    """Which method to use for a halo exchange."""

    fastest: tuple[FastestFrom, ...]
    """The fastest method, by the size of a face: each from its size on until the next one's."""
    memory_rate: float | None = None
    """Bytes that the memory of the slowest GPU moves in a second under copies; null where that is not known."""
    methods: tuple[MethodAdvice, ...]
    """What each method takes; without those that need peer access where there is none."""
    spin_glass: SpinGlassAdvice | None = None
    """From which spin glass on these GPUs together are faster than one; null where that is not known."""


HaloAdvice._MADE = {"fastest": many(FastestFrom._of), "methods": many(MethodAdvice._of), "spin_glass": SpinGlassAdvice._of}


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class ExplainedHop(Part):
    """One hop of an explained path."""

    evidence: tuple[str, ...]
    """What its link rests on."""
    from_: str
    """Where it starts."""
    limit: float | None = None
    """The most a lone transfer gets through it, in GB/s."""
    link: str | None = None
    """The link, in words: `PCIe 3.0 x16`."""
    tightest: bool
    """Whether it is the tightest of all."""
    to: str
    """Where it ends."""
    why: str
    """Why."""


ExplainedHop._MADE = {"evidence": tuple}


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class MeasuredCell(Part):
    """One number measured or published between two nodes."""

    col: str
    """Column."""
    evidence: str
    """Its source."""
    expected: float | None = None
    """What the model expects there, in the same unit."""
    high: float
    """The same number, or the highest of a stated range."""
    low: float
    """The number, or the lowest of a stated range."""
    op: Operation | None = None
    """Write or read."""
    published: bool
    """True for a document's figure."""
    quantity: Quantity
    """What is measured."""
    row: str
    """Row of its matrix."""
    unit: Unit
    """Its unit."""
    what: str
    """What the number is, in words."""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class RdmaLimit(Part):
    """One limit."""

    rate: float
    """GB/s."""
    what: str
    """What limits."""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class RdmaMethod(Part):
    """One method, one way."""

    bottleneck: str | None = None
    """What binds it."""
    curve: tuple[RdmaPoint, ...]
    """Messages by size."""
    limits: tuple[RdmaLimit, ...]
    """All limits, the tightest first."""
    method: Method
    """The method."""
    not_offered: str | None = None
    """Why it is not to be had; null where it is, and then the rest is known."""
    rate: float | None = None
    """GB/s of a message without end."""
    remarks: tuple[str, ...]
    """What else to know."""
    setup: tuple[RdmaStage, ...]
    """What is done once for a buffer."""
    stages: tuple[RdmaStage, ...]
    """What a message waits for at this node, in order."""


RdmaMethod._MADE = {"curve": many(RdmaPoint._of), "limits": many(RdmaLimit._of), "remarks": tuple, "setup": many(RdmaStage._of), "stages": many(RdmaStage._of)}


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class RdmaMeasuredPoint(Part):
    """One size of it."""

    expected: float
    """GB/s expected, directly, by the faster method."""
    rate: float
    """GB/s seen."""
    size: Bytes
    """Bytes of a message."""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class RdmaMeasured(Part):
    """A measured or published series of rates by message size."""

    points: tuple[RdmaMeasuredPoint, ...]
    """Its points."""
    what: str
    """The program, and the column's name: `ib_write_bw, BW average`."""


RdmaMeasured._MADE = {"points": many(RdmaMeasuredPoint._of)}


#: v1: One request at a time: the next is sent when the data of the last has come.
#: v2: Prefetch: requests for a whole window at once, and the next window when that has come.
#: v3: New flow control: a request goes out whenever the window has room.
ReadEngine: TypeAlias = Literal["v1", "v2", "v3"]
"""The revision of a card's engine that reads GPU memory (APEnet+'s `GPU_P2P_TX`)."""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class EngineRevision(Part):
    """A revision of a GPU-read engine."""

    curve: tuple[RdmaPoint, ...]
    """GB/s at the sizes of the curves, messages one behind another."""
    engine: ReadEngine
    """The revision."""
    fitted: bool
    """Whether the card has it."""
    rate: float
    """GB/s of a message without end."""


EngineRevision._MADE = {"curve": many(RdmaPoint._of)}


#: original: The network processor's first program. No number of it is published: slower than the optimised one.
#: optimised: The network processor's optimised program.
#: hardware: Logic of its own: no limit but PCIe's and the line's is known.
ReceiveEngine: TypeAlias = Literal["original", "optimised", "hardware"]
"""What takes in data that arrives from the network."""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class ReceiveRevision(Part):
    """A revision of a receive engine."""

    at_most: float
    """The most that it lets through, GB/s; for the original one a bound, since no number of it is published."""
    bottleneck: str
    """What binds."""
    engine: ReceiveEngine
    """The revision."""
    fitted: bool
    """Whether the card has it."""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class RdmaBestChunk(Part):
    """The best division of one size."""

    chunk: Bytes
    """The power of two of 4 KiB and more with which a message alone takes the least time; of equals, the largest."""
    size: Bytes
    """Bytes of a message."""
    time: Seconds
    """That time, in seconds."""
    time_as_divided: Seconds
    """The time with the division in use, in seconds."""
    time_direct: Seconds | None = None
    """The time of the fastest direct method, in seconds; null where there is none."""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Pipeline(Part):
    """How a staged message is divided, so that copies and the network work at the same time."""

    chunk: Bytes
    """Bytes of a chunk."""
    depth: int | None = None
    """Chunks in flight at most: buffers in host memory. Null for as many as it takes."""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class RdmaStaging(Part):
    """Staged messages between this node and one like it."""

    best: tuple[RdmaBestChunk, ...]
    """The best size of a chunk by size of message, with as many in flight."""
    pipeline: Pipeline
    """The division that the rates of staged messages are for."""


RdmaStaging._MADE = {"best": many(RdmaBestChunk._of), "pipeline": Pipeline._of}


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class RdmaDescription(Part):
    """RDMA between a GPU and a NIC."""

    between_like_nodes: tuple[LikeNodes, ...]
    """Messages between this node and one like it, beside each other; empty where no path has a rate."""
    from_network: tuple[RdmaMethod, ...]
    """The methods by which it writes to GPU memory what it receives."""
    gpu: str
    """The GPU."""
    in_use: Method | None = None
    """The method that the model uses; null where no direct one is available and none was chosen."""
    in_use_because: str
    """Why this one."""
    measured: tuple[RdmaMeasured, ...]
    """Rates by message size that were measured or published between the two, with what the model expects of messages
    that follow each other without a pause.
    """
    nic: str
    """The NIC."""
    read_engines: tuple[EngineRevision, ...]
    """What the revisions of the card's GPU-read engine reach with this GPU; empty for cards without one."""
    receive_engines: tuple[ReceiveRevision, ...]
    """What those of its receive engine let through; empty for cards without one."""
    staging: RdmaStaging | None = None
    """How a staged message is divided, and how it were best; null where no staged path has a rate."""
    to_network: tuple[RdmaMethod, ...]
    """The methods by which the NIC reads GPU memory, and sends."""


RdmaDescription._MADE = {"between_like_nodes": many(LikeNodes._of), "from_network": many(RdmaMethod._of), "measured": many(RdmaMeasured._of), "read_engines": many(EngineRevision._of), "receive_engines": many(ReceiveRevision._of), "staging": RdmaStaging._of, "to_network": many(RdmaMethod._of)}


#: prefetch: `cudaMemPrefetchAsync` to the GPU, before a kernel starts.
#: prefetch-back: `cudaMemPrefetchAsync` to the host.
#: faults: A kernel touches pages that are in host memory, and the driver moves them.
#: direct: A kernel reads host memory, and nothing moves: advice, or a coherent link.
#: prefetch-evicting: Prefetch of the next part while as much is evicted.
UnifiedMethod: TypeAlias = Literal["prefetch", "prefetch-back", "faults", "direct", "prefetch-evicting"]
"""A way to reach data in host memory."""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class UnifiedPass(Part):
    """A pass over data, in order, by one method: GB/s of all data, by its excess over GPU memory."""

    method: UnifiedMethod
    """The method."""
    rates: tuple[tuple[float, ...], ...]
    """For each excess (the first of each pair, as a share of GPU memory) the GB/s of data passed over."""
    why: str
    """Where the moved bytes come from."""


UnifiedPass._MADE = {"rates": many(tuple)}


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class UnifiedRate(Part):
    """One way to reach data in host memory."""

    high: float
    """The most."""
    low: float
    """The least that it may be."""
    method: UnifiedMethod
    """Which."""
    rate: float
    """GB/s."""
    why: str
    """Where that is from."""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class UnifiedMemory(Part):
    """What unified memory moves between a GPU and host memory."""

    gpu: str
    """The GPU."""
    host: str
    """The host memory."""
    passes: tuple[UnifiedPass, ...]
    """What a pass over data costs that exceeds GPU memory."""
    rates: tuple[UnifiedRate, ...]
    """Ways to move data, or to do without moving it."""
    remarks: tuple[str, ...]
    """What else to know."""


UnifiedMemory._MADE = {"passes": many(UnifiedPass._of), "rates": many(UnifiedRate._of), "remarks": tuple}


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Upgrade(Part):
    """A change that raises a transfer's rate."""

    bottleneck: str
    """What binds then."""
    edits: tuple[str, ...]
    """The same as edits for `--what-if`, in order."""
    factor: float
    """That rate over the one without it."""
    rate: float
    """The rate it makes possible, in GB/s."""
    what: str
    """What is done, in words."""


Upgrade._MADE = {"edits": tuple}


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Explanation(Document):
    """What `explain --json` writes: the path from `a` to `b`."""

    a: str
    """Where the data comes from."""
    assumptions: tuple[str, ...]
    """Assumptions about link widths that no source reports."""
    b: str
    """Where it goes."""
    backward: ExpectedRate | None = None
    """Expected from `b` to `a` alone."""
    both: ExpectedRate | None = None
    """Expected both ways at once, as the sum of both."""
    class_: PathClass | None = None
    """The class of the path; null where the fabric has no path."""
    curve: ExpectedCurve | None = None
    """What copies from `a` to `b` take, by size; null where a NIC drives them or no rate is known."""
    device: DeviceDescription | None = None
    """The paths between a GPU and a drive or capture card; absent between others."""
    forward: ExpectedRate | None = None
    """Expected from `a` to `b` alone."""
    halo: HaloAdvice | None = None
    """How two GPUs should exchange faces of a grid, one each way at once; absent between others."""
    hops: tuple[ExplainedHop, ...]
    """The hops, in order."""
    machine: str
    """The machine's name."""
    measured: tuple[MeasuredCell, ...]
    """What was measured or published between the two."""
    rdma: RdmaDescription | None = None
    """The RDMA paths between a GPU and a NIC; null between others."""
    schema: Literal["peerlane/explanation/2"]
    """Names this format."""
    staged: bool | None = None
    """Whether a transfer goes through host memory; null where the model has no route."""
    staged_because: str | None = None
    """Why it is staged."""
    unified_memory: UnifiedMemory | None = None
    """Unified memory of a GPU and host memory; absent between others."""
    unknown: tuple[str, ...]
    """Why a rate is missing above."""
    upgrades: tuple[Upgrade, ...]
    """What would raise the rate from `a` to `b` alone, the greatest rise first."""


Explanation._MADE = {"assumptions": tuple, "backward": ExpectedRate._of, "both": ExpectedRate._of, "curve": ExpectedCurve._of, "device": DeviceDescription._of, "forward": ExpectedRate._of, "halo": HaloAdvice._of, "hops": many(ExplainedHop._of), "measured": many(MeasuredCell._of), "rdma": RdmaDescription._of, "unified_memory": UnifiedMemory._of, "unknown": tuple, "upgrades": many(Upgrade._of)}
Explanation._ROWS = ('hops',)


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Changed(Part):
    """Numbers of one family that changed."""

    after: float
    """And after."""
    before: float
    """Of the one that changed most: before."""
    ends: str
    """Their transfers: `GPU2→GPU0; GPU2→GPU1`; of more than three the one that changed most, and whose the others are."""
    test: str
    """The family: `pairs`."""
    unit: str
    """Their unit."""
    values: int
    """How many."""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Changes(Part):
    """What a machine's later record has otherwise than its earlier one."""

    alone: tuple[int, ...]
    """Numbers that only the earlier record has, and only the later one."""
    changed: int
    """Of these, those that changed by 2 % or more, and by more than both intervals."""
    compared: int
    """Numbers that both have."""
    groups: tuple[Changed, ...]
    """What changed, by family and by the GPU or NIC that most of its transfers have in common; the most first."""
    others: float
    """By what 95 % of the others differ at most, as a share."""


Changes._MADE = {"alone": tuple, "groups": many(Changed._of)}


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class MeasuredValue(Part):
    """A number, or the range that a source states."""

    evidence: str
    """Where it stands."""
    high: float
    """The same number, or the high end."""
    low: float
    """The number, or the low end of the range; in the unit of the predicted figure."""
    published: bool
    """True for a document's figure, false for a program's own output."""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Figure(Part):
    """A predicted rate with what binds it, and what was measured in its place."""

    bottleneck: str | None = None
    """What binds it; of a sum, what binds most of it. A mean has none."""
    measured: MeasuredValue | None = None
    """What was measured or published of the same."""
    rate: float
    """In GB/s."""


Figure._MADE = {"measured": MeasuredValue._of}


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class AllToAll(Part):
    """Every GPU to every other."""

    equal: Figure
    """Messages of one size from each to each: all bytes over the time until the last has arrived. Transfers that have
    ended leave their share to the rest. The bottleneck is that of the last.
    """
    slowest: Figure
    """The slowest of them."""
    slowest_pair: tuple[str, ...]
    """Its source and destination."""
    sum: Figure
    """The sum of all."""


AllToAll._MADE = {"equal": Figure._of, "slowest": Figure._of, "slowest_pair": tuple, "sum": Figure._of}


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class AllToOne(Part):
    """All GPUs but one to that one, at once."""

    best: float
    """The sum for the destination where it is most, in GB/s."""
    worst: Figure
    """The sum, for the destination where it is least."""
    worst_to: str
    """That destination."""


AllToOne._MADE = {"worst": Figure._of}


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Bisection(Part):
    """The split across which the least goes."""

    bottleneck: str | None = None
    """What binds it; of a sum, what binds most of it. A mean has none."""
    exact: bool
    """Whether no split is worse: all were tried. Else it is the worst that was found."""
    measured: MeasuredValue | None = None
    """What was measured or published of the same."""
    one: tuple[str, ...]
    """One half."""
    other: tuple[str, ...]
    """The other, larger by one where the number of GPUs is odd."""
    rate: float
    """In GB/s."""
    tried: int
    """Splits tried, those that differ only in GPUs of one kind of place counted once."""


Bisection._MADE = {"measured": MeasuredValue._of, "one": tuple, "other": tuple}


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Facts(Part):
    """What one may want to know of a machine besides its paths; all as a source states it."""

    power_w: float | None = None
    """Power in W."""
    price_usd: float | None = None
    """Price in US dollars, in the year of the source."""
    rack_units: float | None = None
    """Height in rack units."""
    tflops: float | None = None
    """Peak computing rate in TFLOP/s, of the precision that the source means."""
    year: int | None = None
    """Year of the source."""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Alone(Part):
    """Transfers of one kind, each alone."""

    best: float
    """The fastest, in GB/s."""
    known: int
    """How many have a rate."""
    mean: Figure
    """The mean over all, in GB/s."""
    of: int
    """How many there are."""
    worst: Figure
    """The slowest."""
    worst_pair: tuple[str, ...]
    """Its source and destination."""


Alone._MADE = {"mean": Figure._of, "worst": Figure._of, "worst_pair": tuple}


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class FullWidth(Part):
    """The design with its GPUs' links as wide as slots and parts allow."""

    edits: tuple[str, ...]
    """The same as edits for `--what-if`."""
    host_feed_slowest: float | None = None
    """The slowest GPU then while host memory feeds all, in GB/s."""
    ring_all_reduce: float | None = None
    """The ring all-reduce then, in GB/s."""
    what: str
    """What is done, in words: `GPU0–GPU5 at x8`."""
    worst_pair: float | None = None
    """The worst pair one way then, in GB/s."""


FullWidth._MADE = {"edits": tuple}


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class GpuMemory(Part):
    """The memories of a machine's GPUs."""

    copy: Figure | None = None
    """A copy within the slowest GPU's memory; each byte counts twice, once read and once written."""
    copy_gpu: str | None = None
    """That GPU."""
    data_sheet: tuple[float, ...] | None = None
    """The least and the most that data sheets state, in GB/s."""
    measured_share: MeasuredValue | None = None
    """The measured or published ones."""
    share: tuple[float, ...] | None = None
    """The predicted copies as shares of the data sheet, the lowest and the highest."""
    size_gib: tuple[float, ...] | None = None
    """The smallest and the largest, in GiB."""


GpuMemory._MADE = {"copy": Figure._of, "data_sheet": tuple, "measured_share": MeasuredValue._of, "share": tuple, "size_gib": tuple}


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class NicClass(Part):
    """Pairs of one path class. Rates in GB/s, of the slowest pair."""

    class_: str
    """The class."""
    from_nic: float | None = None
    """From the NIC to GPU memory, directly."""
    from_nic_staged: float | None = None
    """From the NIC to GPU memory through host memory."""
    pairs: int
    """How many pairs."""
    to_nic: float | None = None
    """From GPU memory to the NIC, directly."""
    to_nic_staged: float | None = None
    """From GPU memory to the NIC through host memory."""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class NicRates(Part):
    """Rates of one direction."""

    direct: Figure | None = None
    """The NIC accesses GPU memory."""
    direct_pair: tuple[str, ...] | None = None
    """Its GPU and NIC."""
    method: Method | None = None
    """How: by NVIDIA's protocol or through BAR1, whichever is faster."""
    staged: Figure | None = None
    """The same pair through host memory."""


NicRates._MADE = {"direct": Figure._of, "direct_pair": tuple, "staged": Figure._of}


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class MeasuredAlone(Part):
    """What was measured or published of transfers that each run alone, whether a rate is predicted for them or not."""

    best: MeasuredValue
    """The fastest."""
    best_pair: tuple[str, ...]
    """Its ends."""
    mean: MeasuredValue
    """The mean over all."""
    worst: MeasuredValue
    """The slowest."""
    worst_pair: tuple[str, ...]
    """Its ends."""


MeasuredAlone._MADE = {"best": MeasuredValue._of, "best_pair": tuple, "mean": MeasuredValue._of, "worst": MeasuredValue._of, "worst_pair": tuple}


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class NicMessage(Part):
    """The latency of a message to a like machine, in µs."""

    direct: float | None = None
    """Where NICs access GPU memory."""
    pair: tuple[str, ...]
    """The GPU and the NIC."""
    staged: float | None = None
    """Through host memory on both sides."""


NicMessage._MADE = {"pair": tuple}


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class GpuNic(Part):
    """How the GPUs of a machine reach its RDMA NICs."""

    by_class: tuple[NicClass, ...]
    """All pairs of a GPU and a NIC, by path class, the nearest first."""
    class_: str
    """Path class between the GPU that is furthest from a NIC and its nearest NIC: `PIX` before `PXB`, `PHB`, `NODE` and
    `SYS`.
    """
    class_pair: tuple[str, ...]
    """These two."""
    from_nic: NicRates
    """From the NIC to GPU memory, likewise."""
    measured_from_nic: MeasuredAlone | None = None
    """What was measured or published from a NIC to GPU memory."""
    measured_to_nic: MeasuredAlone | None = None
    """What was measured or published from GPU memory to a NIC."""
    message: NicMessage | None = None
    """A small message from a GPU of this machine to the same GPU of a like one next to it."""
    to_nic: NicRates
    """From GPU memory to the NIC, for the GPU where that is slowest with its nearest NIC."""


GpuNic._MADE = {"by_class": many(NicClass._of), "class_pair": tuple, "from_nic": NicRates._of, "measured_from_nic": MeasuredAlone._of, "measured_to_nic": MeasuredAlone._of, "message": NicMessage._of, "to_nic": NicRates._of}


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Together(Part):
    """Transfers that run at once."""

    slowest: Figure
    """The slowest of them."""
    slowest_pair: tuple[str, ...]
    """Its source and destination."""
    sum: Figure
    """The sum of all."""


Together._MADE = {"slowest": Figure._of, "slowest_pair": tuple, "sum": Figure._of}


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Lanes(Part):
    """Lanes of a machine."""

    cpus: int | None = None
    """Lanes that these CPUs have."""
    cpus_used: int | None = None
    """Lanes in use at the CPUs, where they are of known parts."""
    gpus: int
    """Lanes of the links that GPUs hang on; a link of unknown width counts for none."""
    slots: int | None = None
    """Lanes that the board's slots are wired for, where its slots are known."""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Latency(Part):
    """Latencies of small copies between different GPUs, launch included, as the CUDA sample counts them."""

    evidence: str
    """Where they stand."""
    least: float
    """The shortest, in µs."""
    median: float
    """The median of all, in µs."""
    most: float
    """The longest, in µs."""
    most_pair: tuple[str, ...]
    """Its source and destination."""
    published: bool
    """True for a document's figures, false for a program's own output."""


Latency._MADE = {"most_pair": tuple}


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class ClassLatency(Part):
    """Latencies of the pairs of one path class."""

    class_: str
    """The class: `PIX`, `NV2`, `SYS`."""
    measured: MeasuredValue | None = None
    """The shortest and the longest that were measured or published, in µs."""
    pairs: int
    """How many ordered pairs."""
    predicted: tuple[float, ...] | None = None
    """The shortest and the longest that are predicted, in µs."""
    staged: bool
    """Whether they go through host memory."""


ClassLatency._MADE = {"measured": MeasuredValue._of, "predicted": tuple}


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class MeasuredRates(Part):
    """What was measured alone, by kind."""

    from_host: MeasuredAlone | None = None
    """Host memory to a GPU."""
    gpu_back: MeasuredAlone | None = None
    """From host memory through a NIC, and back into a GPU's memory."""
    gpu_back_staged: MeasuredAlone | None = None
    """The same where the GPU's memory is staged in host memory."""
    gpu_out: MeasuredAlone | None = None
    """Out of a GPU's memory through a NIC, and back to host memory."""
    gpu_out_staged: MeasuredAlone | None = None
    """The same where the GPU's memory is staged in host memory."""
    local: MeasuredAlone | None = None
    """Within a GPU's own memory; each byte counts twice, once read and once written."""
    nic_loopback: MeasuredAlone | None = None
    """Host memory, out and back through a NIC."""
    nic_to_nic: MeasuredAlone | None = None
    """Host memory to host memory, from one NIC of the machine to another."""
    pair: MeasuredAlone | None = None
    """One GPU to another."""
    pair_both_ways: MeasuredAlone | None = None
    """Two GPUs both ways at once, summed."""
    to_host: MeasuredAlone | None = None
    """A GPU to host memory."""


MeasuredRates._MADE = {"from_host": MeasuredAlone._of, "gpu_back": MeasuredAlone._of, "gpu_back_staged": MeasuredAlone._of, "gpu_out": MeasuredAlone._of, "gpu_out_staged": MeasuredAlone._of, "local": MeasuredAlone._of, "nic_loopback": MeasuredAlone._of, "nic_to_nic": MeasuredAlone._of, "pair": MeasuredAlone._of, "pair_both_ways": MeasuredAlone._of, "to_host": MeasuredAlone._of}


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class PredictedLatency(Part):
    """What the model predicts of the same copies."""

    least: float
    """The shortest, in µs."""
    most: float
    """The longest, in µs."""
    most_pair: tuple[str, ...]
    """Its source and destination."""
    why: str
    """What the longest is made of."""


PredictedLatency._MADE = {"most_pair": tuple}


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Reach(Part):
    """Which GPUs reach which without host memory in between."""

    direct: int
    """Ordered pairs that go directly."""
    least: int
    """GPUs that the GPU with the fewest reaches directly."""
    most: int
    """GPUs that the GPU with the most reaches directly."""
    of: int
    """All ordered pairs."""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Ring(Part):
    """One ring."""

    order: tuple[str, ...]
    """The GPUs, each sending to the next and the last to the first."""
    rate: float
    """What each of its transfers reaches, all at one pace, while all rings run, in GB/s."""


Ring._MADE = {"order": tuple}


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class AllReduce(Part):
    """What rings carry."""

    bottleneck: str | None = None
    """What binds it; of a sum, what binds most of it. A mean has none."""
    exact: bool
    """Whether no single ring is faster than the first: it meets a bound, or all orders were tried."""
    measured: MeasuredValue | None = None
    """What was measured or published of the same."""
    rate: float
    """In GB/s."""
    rings: tuple[Ring, ...]
    """The rings, the best first."""


AllReduce._MADE = {"measured": MeasuredValue._of, "rings": many(Ring._of)}


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Design(Part):
    """The figures of one design. Rates are in GB/s of 10⁹ bytes; an unknown figure is null."""

    all_to_all: AllToAll | None = None
    """Every GPU to every other."""
    all_to_one: AllToOne | None = None
    """All GPUs but one to that one at once."""
    assumptions: tuple[str, ...]
    """What was assumed where no source states it, and figures depend on."""
    bisection: Bisection | None = None
    """The worst even split."""
    facts: Facts
    """Price, size, power and computing rate, as a source states them."""
    from_host: Alone | None = None
    """Host memory to a GPU, each alone."""
    full_width: FullWidth | None = None
    """What it would be with every link of its GPUs as wide as slots and parts allow, where some are narrower."""
    gpu_memory: GpuMemory | None = None
    """GPUs' own memories."""
    gpu_nic: GpuNic | None = None
    """GPUs and RDMA NICs."""
    gpus: int
    """How many GPUs."""
    host_drain: Together | None = None
    """Every GPU to host memory at once."""
    host_feed: Together | None = None
    """Host memory to every GPU at once, from the memory nearest to each."""
    lanes: Lanes
    """PCIe lanes."""
    latency: Latency | None = None
    """Latencies between GPUs that were measured or published."""
    latency_by_class: tuple[ClassLatency, ...]
    """Both by path class, the nearest first."""
    measured: MeasuredRates
    """What was measured or published of single transfers, also where nothing is predicted."""
    name: str
    """What it is called here."""
    pair: Alone | None = None
    """One GPU to another, every ordered pair alone."""
    pair_both_ways: Alone | None = None
    """Two GPUs both ways at once, summed, every pair alone."""
    predicted_latency: PredictedLatency | None = None
    """The same, predicted."""
    reach: Reach | None = None
    """Which GPUs reach which directly."""
    ring_all_reduce: AllReduce | None = None
    """Rings of an all-reduce."""
    title: str | None = None
    """What it is."""
    to_host: Alone | None = None
    """A GPU to host memory, each alone."""
    unknown: tuple[str, ...]
    """Why figures are missing."""
    upgrades: tuple[Upgrade, ...]
    """What would raise the rate of the worst pair, the greatest rise first."""


Design._MADE = {"all_to_all": AllToAll._of, "all_to_one": AllToOne._of, "assumptions": tuple, "bisection": Bisection._of, "facts": Facts._of, "from_host": Alone._of, "full_width": FullWidth._of, "gpu_memory": GpuMemory._of, "gpu_nic": GpuNic._of, "host_drain": Together._of, "host_feed": Together._of, "lanes": Lanes._of, "latency": Latency._of, "latency_by_class": many(ClassLatency._of), "measured": MeasuredRates._of, "pair": Alone._of, "pair_both_ways": Alone._of, "predicted_latency": PredictedLatency._of, "reach": Reach._of, "ring_all_reduce": AllReduce._of, "to_host": Alone._of, "unknown": tuple, "upgrades": many(Upgrade._of)}


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Comparison(Document):
    """What `compare --json` writes."""

    changes: Changes | None = None
    """Of two records of one machine, what changed from the first to the second."""
    conclusion: tuple[str, ...]
    """What follows, in sentences that cite the figures."""
    designs: tuple[Design, ...]
    """The designs, in the order given."""
    schema: Literal["peerlane/comparison/2"]
    """Names this format."""


Comparison._MADE = {"changes": Changes._of, "conclusion": tuple, "designs": many(Design._of)}
Comparison._ROWS = ('designs',)


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Estimate(Part):
    """Why a time is an estimate, and its error."""

    because: str
    """What was not played."""
    error: float | None = None
    """The largest error, as a share of the time: of this estimate where it is known, or else of estimates of its kind
    against playing every step of clusters that are small enough for it (`docs/simulation.md`, *Many GPUs*). Of a
    library's collective, what 85 of 100 published figures are within (`docs/collectives.md`).
    """


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Help(Part):
    """What more of one kind of resource would bring."""

    resource: str
    """What one would replace, `#` for numbers: links of one kind, the adapters with their links; or the time before the
    first byte.
    """
    saves: float
    """Share of the time that this saves."""
    time: float
    """Time in seconds were they twice as fast."""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Binding(Part):
    """What held transfers."""

    resource: str
    """Resources of one kind, `#` for their numbers; or a cap, or the time before the first byte."""
    share: float
    """Share of all transfers' time."""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Point(Part):
    """One size."""

    algbw: float
    """Size over time, in GB/s."""
    algorithm: str | None = None
    """The algorithm that NCCL or RCCL would choose, where the workload is a collective of theirs: `ring`, `nvls` …."""
    binding: tuple[Binding, ...]
    """What held the transfers, by its share of their time, largest first."""
    busbw: float | None = None
    """What nccl-tests calls the bandwidth of the bus, in GB/s, where it has such a test."""
    efficiency: float
    """Share of the time that it would take were every transfer alone on its way and started at once; of a step of a
    model, that it would take without communication.
    """
    idle: float | None = None
    """Share of all GPUs' time in which they do not compute, where any does."""
    last_held_by: tuple[Binding, ...]
    """What held the transfer that ended last in each round, by its share of the rounds' time, largest first."""
    protocol: str | None = None
    """Its protocol: `ll`, `ll128` or `simple`."""
    sent: float
    """What a GPU sends on average, in GB/s: all bytes over the number of GPUs and the time."""
    size: int
    """Bytes; of a trace, those of all transfers."""
    time: float
    """Time in seconds."""


Point._MADE = {"binding": many(Binding._of), "last_held_by": many(Binding._of)}


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class ApartSummary(Part):
    """Prefill and decoding on GPUs of their own."""

    decode_copies: int
    """Copies that decode."""
    prefill: float
    """Seconds until prompts are read."""
    prefill_copies: int
    """Copies that read prompts."""
    requests_per_second: float
    """Prompts answered a second."""
    token: float
    """Seconds from one token to the next."""
    transfer: float
    """Seconds that keys and values take to where they are decoded."""
    transfer_bytes: float
    """Bytes of them of a prompt."""
    transfer_held_by: str | None = None
    """What holds these bytes."""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class CommunicationSummary(Part):
    """Communication of one kind."""

    bytes: float
    """Bytes of each, as nccl-tests counts sizes."""
    held_by: str | None = None
    """What holds their bytes."""
    of: str
    """What it is of, as `SpentOn::on` names it."""
    ranks: int
    """Ranks of a group."""
    time: float
    """Seconds of all of them."""
    times: float
    """How often in a step."""
    what: str
    """What is done: `all-reduce`, `send-receive` …."""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class ComputingSummary(Part):
    """How fast a GPU computes."""

    gpu: str
    """The GPU."""
    how: str
    """How that is known."""
    peak_tflops: float
    """10¹² operations a second of products by the data sheet."""
    tflops: float
    """Those that they reach."""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Memory(Part):
    """Bytes of a GPU's memory."""

    activations: float
    """What the forward pass keeps."""
    fits: bool | None = None
    """Whether it fits, where that is known."""
    gradients: float
    """Gradients."""
    kv_cache: float
    """Keys and values of the sequences."""
    optimizer: float
    """State of the optimizer."""
    reserve: float
    """Left to the driver and to libraries."""
    size: float | None = None
    """What the GPU has, where it is known."""
    total: float
    """All of these."""
    weights: float
    """Parameters."""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class ModelSummary(Part):
    """A model."""

    active: float | None = None
    """Those that a token uses, where that is not all."""
    name: str
    """Its name."""
    parameters: float
    """Parameters, by its sizes."""
    source: str
    """Where its sizes are from."""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class SpentOn(Part):
    """What time is spent on."""

    on: str
    """`computing`, `bubble`, `optimizer`, or exposed communication by what it is of: `tensor`, `context`, `experts`,
    `stages`, `copies`.
    """
    share: float
    """Share of the step."""
    time: float
    """Seconds."""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class StepSummary(Part):
    """A step."""

    apart: ApartSummary | None = None
    """Prefill and decoding apart."""
    bottleneck: str | None = None
    """What holds most of the exposed communication."""
    communication: tuple[CommunicationSummary, ...]
    """What is communicated, of the busiest GPU."""
    computing: ComputingSummary
    """How fast a GPU computes."""
    copies: int
    """Copies of the model."""
    gpus: int
    """GPUs that take part."""
    kind: str
    """`training`, `decode`, `prefill` or `serve`."""
    layers: int
    """Layers of the model."""
    memory: Memory
    """What a GPU's memory holds, of the stage that holds most."""
    memory_share: float | None = None
    """Of decoding: bytes of weights, keys and values over those that memory could give."""
    mfu: float | None = None
    """Operations that the model needs, over those that the GPUs could do by their data sheet."""
    micro_batches: int | None = None
    """Micro-batches of a copy, in training."""
    model: ModelSummary
    """The model."""
    sequences_that_fit: int | None = None
    """Sequences of this length that fit each copy."""
    spent: tuple[SpentOn, ...]
    """What the time is spent on."""
    stages: int
    """Stages of a copy."""
    time: float
    """Seconds: of a step of training, until each sequence has a token, until prompts are read; of `serve` until a
    prompt has its first token.
    """
    tokens: float
    """Tokens of all copies in that time."""
    tokens_per_second: float
    """Tokens a second."""
    tokens_per_second_per_gpu: float
    """The same of each GPU."""


StepSummary._MADE = {"apart": ApartSummary._of, "communication": many(CommunicationSummary._of), "computing": ComputingSummary._of, "memory": Memory._of, "model": ModelSummary._of, "spent": many(SpentOn._of)}


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class CollectiveTime(Part):
    """Collectives of one kind among so many ranks, in a step, on average over their groups."""

    bytes: float
    """Bytes of all of them, as nccl-tests counts sizes."""
    collective: Collective
    """Which."""
    count: float
    """How many a group does."""
    exposed: float
    """Of these, those in which a rank does not compute."""
    ranks: int
    """Ranks of one."""
    recorded: float | None = None
    """Recorded seconds of the rank that waited least."""
    time: float
    """Seconds, from when all ranks have begun."""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Split(Part):
    """Seconds of a step, on average over the ranks."""

    communication: float
    """In which it communicates."""
    computing: float
    """In which a GPU computes, or copies within its node."""
    exposed: float
    """In which it communicates and does not compute."""
    idle: float
    """In which it does neither: it waits for the host, or for other ranks."""
    time: float
    """From the first start to the last end."""
    waiting: float | None = None
    """Of the communication, from when a rank begins a collective until the last one does; absent where one rank was
    recorded.
    """


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class TraceSummary(Part):
    """How the time of a trace is spent."""

    collectives: tuple[CollectiveTime, ...]
    """Collectives by kind and number of ranks, the longest first."""
    notes: tuple[str, ...]
    """What is assumed or left out, in sentences."""
    ranks: int
    """Ranks."""
    recorded: Split | None = None
    """As recorded; kernels that wait for other ranks count as communication."""
    simulated: Split
    """As simulated."""
    steps: int
    """Steps in the trace, by which all times here are divided; 1 where it does not say."""


TraceSummary._MADE = {"collectives": many(CollectiveTime._of), "notes": tuple, "recorded": Split._of, "simulated": Split._of}


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Simulation(Document):
    """The document."""

    assumptions: tuple[str, ...]
    """What is assumed of the cluster, in sentences."""
    estimate: Estimate | None = None
    """Of the sizes whose time is an estimate, the one with the largest error."""
    exact: bool
    """Whether every time is that of every step of the schedule, played or in a closed form."""
    gpus: int
    """GPUs that take part."""
    helps: tuple[Help, ...] | None = None
    """What would help most at the largest size, the best first; only when requested."""
    points: tuple[Point, ...]
    """One for each size, in their order."""
    rerouted: bool | None = None
    """Where links have failed, whether any transfer would have taken one of them."""
    rings: tuple[Ring, ...] | None = None
    """The rings that a collective goes around, or of several nodes those within a node; without names of nodes. While
    all run, their rates add up to what the bus bandwidth of one machine comes to for large sizes.
    """
    schema: Literal["peerlane/simulation/2"]
    """`peerlane/simulation/2`."""
    spin_glass: SpinGlassAdvice | None = None
    """Of a spin glass on several GPUs of one machine: from which lattice on they are faster than one."""
    step: StepSummary | None = None
    """Of a step of a model: what it takes, and what for."""
    target: str
    """The machine or cluster."""
    trace: TraceSummary | None = None
    """Of a trace with collectives: how its time is spent."""
    workload: str
    """The workload, as it can be written on a command line."""


Simulation._MADE = {"assumptions": tuple, "estimate": Estimate._of, "helps": many(Help._of), "points": many(Point._of), "rings": many(Ring._of), "spin_glass": SpinGlassAdvice._of, "step": StepSummary._of, "trace": TraceSummary._of}
Simulation._ROWS = ('points',)


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Choice(Part):
    """Where one job should go."""

    alone: float | None = None
    """The same without the other jobs."""
    cores: tuple[str | None, ...]
    """For each of `order`, CPUs near it that no other GPU is given, as the kernel lists CPUs."""
    gain: float | None = None
    """`predicted` over what the same job has where GPUs are taken by their numbers, less 1."""
    gpus: tuple[str, ...]
    """Its GPUs, in the machine's order."""
    halo: HaloAdvice | None = None
    """Of a halo exchange, how its faces should be exchanged, the other jobs aside."""
    memory: tuple[int | None, ...]
    """For each of `order` the NUMA node of its memory."""
    nic_rate: float | None = None
    """What these GPUs get through these NICs while all of the job send and receive at once, summed."""
    nics: tuple[str | None, ...]
    """For each of `order` the NIC that it should use; empty where no NIC reaches GPU memory at a known rate."""
    order: tuple[str, ...]
    """The same in the job's order: rank 0 first."""
    predicted: float | None = None
    """Its slowest transfer while all jobs run; of an all-reduce what its rings carry together, the bus bandwidth."""
    reason: str
    """Why this one."""
    rings: tuple[Ring, ...] | None = None
    """Of an all-reduce the rings that it goes around, with what each carries while all jobs run."""


Choice._MADE = {"cores": tuple, "gpus": tuple, "halo": HaloAdvice._of, "memory": tuple, "nics": tuple, "order": tuple, "rings": many(Ring._of)}


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Compared(Part):
    """What another way to choose gives."""

    gain: float
    """What is chosen here over that, less 1."""
    jobs: tuple[tuple[str, ...], ...]
    """The jobs' GPUs, in order."""
    name: str
    """Who chooses so."""
    predicted: float
    """The slowest transfer of any job while all run; of all-reduces what the rings of the slowest job carry."""


Compared._MADE = {"jobs": many(tuple)}


#: all-reduce: An all-reduce around the best rings of the job's GPUs, as NCCL does it, whatever their order.
#: ring: Each sends to the next and the last to the first: one ring in the order of the job.
#: all-to-all: Each sends to every other.
#: halo: Each exchanges with the one before and the one after it, both ways; the ends have one neighbour.
#: host-feed: Each reads from the host memory nearest to it.
#: pairs: The first with the second, the third with the fourth and so on, both ways. Of an odd number the last is idle.
Workload: TypeAlias = Literal["all-reduce", "ring", "all-to-all", "halo", "host-feed", "pairs"]
"""What the GPUs of a job do at once. A job of one GPU has nobody to exchange with: it is fed by its host, whatever its
workload.
"""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Placement(Document):
    """What `place --json` writes. Rates are in GB/s of 10⁹ bytes."""

    assumptions: tuple[str, ...]
    """What was assumed where no source states it, and the choice depends on."""
    busy: tuple[str, ...]
    """GPUs that are taken to do the same meanwhile."""
    choices: tuple[Choice, ...]
    """Where each job should go."""
    compared: tuple[Compared, ...]
    """Other ways to choose."""
    equal: str | None = None
    """Why it makes no difference which placement is taken, where it does not."""
    exact: bool
    """Whether no other placement has a faster slowest transfer, or all-reduce. Else it is the best that was found."""
    machine: str
    """The machine or cluster."""
    nodes: int | None = None
    """How many nodes a cluster has. Its devices are called `node3/GPU0`."""
    schema: Literal["peerlane/placement/2"]
    """Names this format."""
    workload: Workload
    """What the jobs do."""
    worst: float | None = None
    """The slowest transfer of the worst placement, where all were looked at."""


Placement._MADE = {"assumptions": tuple, "busy": tuple, "choices": many(Choice._of), "compared": many(Compared._of)}
Placement._ROWS = ('choices',)


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Rate(Part):
    """A flow's rate."""

    flow: str
    """The flow."""
    rate: float
    """Its rate."""


#: host-to-device: From host memory to each GPU.
#: device-to-host: From each GPU to host memory.
#: both: Each GPU with host memory, both ways at once; a rate is the sum.
#: gpu-to-gpu: From each GPU to the one half way round, so that each sends and receives once; through host memory where
#: there is no direct way.
FlowKind: TypeAlias = Literal["host-to-device", "device-to-host", "both", "gpu-to-gpu"]
"""Which way flows go; what is shared one way need not be shared another."""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class InferenceCoverage(Part):
    """How much of one direction was measured."""

    allowed: int | None = None
    """Sets that may run: 4 n log₂ n + 8. Absent where the sets were chosen by somebody else."""
    alone: tuple[Rate, ...]
    """What each reaches alone."""
    direction: FlowKind
    """Which."""
    flows: int
    """Flows."""
    repeats: int | None = None
    """Repeats of each set, each with newly allocated memory."""
    sets: int
    """Sets that ran."""


InferenceCoverage._MADE = {"alone": many(Rate._of)}


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Experiment(Part):
    """A set of flows that ran at once."""

    direction: FlowKind
    """Which way they went."""
    members: tuple[str, ...]
    """The flows."""
    rates: tuple[float, ...]
    """The rate of each."""


Experiment._MADE = {"members": tuple, "rates": tuple}


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class InferredGroup(Part):
    """A limit that flows share."""

    capacity: float
    """What they carry together at most."""
    confidence: float
    """Probability that the group is there with just these members, against what else was considered."""
    direction: FlowKind
    """Which way they go."""
    high: float
    """High end."""
    low: float
    """Low end of its 95 % interval."""
    members: tuple[str, ...]
    """The flows: a GPU's with host memory by its name, others as `GPU0→GPU2`."""
    sets: tuple[int, ...]
    """The experiments in which it was full, as indices into `experiments`."""


InferredGroup._MADE = {"members": tuple, "sets": tuple}


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Interference(Part):
    """What flows of two kinds keep of their rates when all of both run at once."""

    directions: tuple[FlowKind, ...]
    """The two kinds."""
    kept: tuple[float, ...]
    """The sum of each kind's rates, as a share of that without the other kind."""
    rates: tuple[float, ...]
    """The sums."""


Interference._MADE = {"directions": tuple, "kept": tuple, "rates": tuple}


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class RateLevel(Part):
    """Pairs of about one rate."""

    high: float
    """The fastest."""
    low: float
    """The slowest."""
    noticed: str | None = None
    """What these have in common that others have not; absent for the level that most are on."""
    pairs: int
    """How many ordered pairs."""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class RateGroup(Part):
    """GPUs that are alike."""

    high: float
    """The fastest."""
    low: float
    """The slowest pair within."""
    members: tuple[str, ...]
    """Which."""


RateGroup._MADE = {"members": tuple}


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class RateGroups(Part):
    """What one matrix shows. Rates are in GB/s, as the matrix counts them: the sum of both directions where it is of
    both.
    """

    between: tuple[RateLevel, ...]
    """The rates of pairs within no group."""
    groups: tuple[RateGroup, ...]
    """GPUs among which every pair is faster than any pair to the outside; the smallest groups first."""
    matrix: str
    """The matrix by its title."""
    published: bool
    """Whether a document states it, and no program's own output."""
    source: str
    """Where it stands."""


RateGroups._MADE = {"between": many(RateLevel._of), "groups": many(RateGroup._of)}


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Unidentifiable(Part):
    """Something that the rates cannot decide."""

    at_least: float | None = None
    """What they carried together at most: a limit of theirs is not lower. Absent where they never ran together."""
    direction: FlowKind
    """Which way they go."""
    members: tuple[str, ...]
    """The flows whose sharing is unknown."""
    why: str
    """Why it is unknown."""
    would_tell: tuple[tuple[str, ...], ...] = ()
    """Sets that would decide it; empty where no set of such flows could."""


Unidentifiable._MADE = {"members": tuple, "would_tell": many(tuple)}


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Inference(Document):
    """What the rates of sets of transfers show about the limits that they share. Rates are in GB/s of 10⁹ bytes."""

    coverage: tuple[InferenceCoverage, ...]
    """How much of each direction was measured."""
    experiments: tuple[Experiment, ...]
    """Every set that ran, with what each of its flows reached."""
    groups: tuple[InferredGroup, ...]
    """The limits that several flows share, by direction, the largest first."""
    interference: tuple[Interference, ...] = ()
    """Whether flows of one kind disturb those of another."""
    machine: str
    """The machine."""
    notes: tuple[str, ...] = ()
    """Further notes, in sentences."""
    rate_groups: tuple[RateGroups, ...] = ()
    """GPUs that are alike by the rates of lone pairs."""
    schema: Literal["peerlane/inference/2"]
    """Names this format."""
    source: str
    """Where the rates are from: `measured live`, `a simulated machine`, `recorded: run.json`."""
    unidentifiable: tuple[Unidentifiable, ...]
    """What remains unknown, and which sets would decide it."""


Inference._MADE = {"coverage": many(InferenceCoverage._of), "experiments": many(Experiment._of), "groups": many(InferredGroup._of), "interference": many(Interference._of), "notes": tuple, "rate_groups": many(RateGroups._of), "unidentifiable": many(Unidentifiable._of)}
Inference._ROWS = ('groups',)


#: host-one-way: Pinned memory of the host, nearest to the GPU, one way.
#: host-both-ways: The same, both ways at once.
#: host-by-kernels: The same, read or written by kernels.
#: other-socket: Memory of another socket than the GPU's.
#: p2p-pcie: Between GPUs, direct, over PCIe below one socket.
#: p2p-sockets: Between GPUs, direct, across sockets.
#: nvlink-copy: Over NVLink by copy engines.
#: nvlink-kernels: Over NVLink by kernels.
#: xgmi: Over xGMI (Infinity Fabric) between GPUs.
#: c2c: Between a GPU and a CPU's memory over NVLink-C2C.
#: staged-one-way: Between GPUs through host memory, one way.
#: staged-both-ways: The same, both ways at once.
#: rdma-gpu: A NIC and the memory of a GPU.
#: rdma-host: A NIC and the memory of the host.
#: local: Within the memory of one GPU.
#: latency: Time of a small copy or a load.
#: concurrent: Several transfers at once, other than a pair of opposite ones.
#: collective-large: Bus bandwidth of a collective from 256 MiB on.
#: collective-small: Bus bandwidth of a collective of smaller size.
#: half-size: Size at which half of a sweep's greatest rate is reached.
Class: TypeAlias = Literal["host-one-way", "host-both-ways", "host-by-kernels", "other-socket", "p2p-pcie", "p2p-sockets", "nvlink-copy", "nvlink-kernels", "xgmi", "c2c", "staged-one-way", "staged-both-ways", "rdma-gpu", "rdma-host", "local", "latency", "concurrent", "collective-large", "collective-small", "half-size"]
"""What a figure is of."""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class ClassScore(Part):
    """One class over some figures. Errors are fractions: 0.02 is 2 %."""

    bias: float | None = None
    """Median of the signed errors: above 0, predictions are too high."""
    class_: Class
    """What the figures are of."""
    inside: float | None = None
    """Share of the figures that lie inside their prediction's interval; one without a prediction lies outside."""
    median: float | None = None
    """Median of the absolute errors, predicted ÷ measured − 1; null where nothing is predicted."""
    n: int
    """How many figures, those without a prediction included."""
    none: float
    """Share of all figures that have no prediction."""
    p85: float | None = None
    """Their 85th percentile."""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class FarCell(Part):
    """A cell that is off by more than `FAR`."""

    col: str
    """Column."""
    error: float
    """predicted ÷ published − 1."""
    label: str
    """What was measured."""
    predicted: float
    """The prediction."""
    published: float
    """The number."""
    reason: str
    """Why, as far as known."""
    row: str
    """Row."""
    system: str
    """The system's name."""
    within: bool
    """Whether the number lies in the prediction's interval."""


#: derived: It follows from equations, vendors' documents and other systems' numbers.
#: fitted: A constant was fitted to this very system.
Kind: TypeAlias = Literal["derived", "fitted"]
"""Whether a prediction knew the number it predicts."""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Group(Part):
    """A system × class of path × what was measured."""

    bottleneck: str
    """The bottleneck of most of the cells."""
    cells: int
    """How many cells."""
    error: float
    """predicted ÷ published − 1."""
    interval: tuple[float, ...]
    """Lowest low end and highest high end of the predictions' intervals."""
    kind: Kind
    """Whether any of it was fitted."""
    label: str
    """What was measured."""
    left_out: float | None = None
    """The same for the prediction without what was fitted to this system; null where nothing was."""
    nccl: float | None = None
    """The same for NCCL's constants; null for latencies."""
    path: str
    """Class of the path: `PIX`, `from host`, `to host`, `self`."""
    predicted: float
    """Median of the predictions."""
    published: float
    """Median of the numbers."""
    range: tuple[float, ...]
    """Lowest and highest number."""
    raw: float | None = None
    """The same for raw link rates."""
    system: str
    """The system's name."""
    unit: Unit
    """Unit of all these."""


Group._MADE = {"interval": tuple, "range": tuple}


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class LeftOut(Part):
    """A system as it is predicted without what was fitted to it."""

    cells: int
    """Cells with bandwidths."""
    constants: tuple[str, ...]
    """The constants that were fitted to it: `peer_rate of xeon-e5-v2`."""
    elsewhere: tuple[str, ...]
    """Those of them that other sources give too, whose values replace them."""
    known: float
    """Median of their absolute errors, everything known."""
    latency_cells: int
    """Cells with latencies."""
    latency_known: float
    """Median of their absolute errors, everything known."""
    latency_median: float
    """The same without the constants that were fitted to it."""
    median: float
    """The same without the constants that were fitted to it."""
    only_here: tuple[str, ...]
    """Those of them that describe hardware that no other source reports: what was left out cannot be known."""
    system: str
    """Its name."""


LeftOut._MADE = {"constants": tuple, "elsewhere": tuple, "only_here": tuple}


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Errors(Part):
    """Percentiles of absolute errors; those between two ranks are interpolated."""

    median: float
    """Median."""
    n: int
    """How many."""
    p85: float
    """85th percentile."""
    worst: float
    """Greatest."""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Scores(Part):
    """One predictor's errors."""

    cells: Errors
    """Over cells."""
    groups: Errors
    """Over groups."""


Scores._MADE = {"cells": Errors._of, "groups": Errors._of}


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Predictors(Part):
    """The predictors compared, on bandwidths that all three predict."""

    nccl: Scores
    """NCCL's constants."""
    peerlane: Scores
    """This model."""
    raw: Scores
    """The raw rate of the slowest link."""


Predictors._MADE = {"nccl": Scores._of, "peerlane": Scores._of, "raw": Scores._of}


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Overall(Part):
    """Over all systems."""

    documents: Predictors
    """Those that documents print, without what this project measured and what is only in files they point to."""
    latency: Scores
    """Latencies."""
    nccl: Scores
    """NCCL's constants."""
    peerlane: Scores
    """This model."""
    raw: Scores
    """The raw rate of the slowest link."""


Overall._MADE = {"documents": Predictors._of, "latency": Scores._of, "nccl": Scores._of, "peerlane": Scores._of, "raw": Scores._of}


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class SinglePath(Part):
    """Bandwidths of single paths together."""

    half_width: float | None = None
    """Median half-width of the intervals, as a share of the prediction."""
    inside: float | None = None
    """Share of all figures that lies inside the prediction's interval; one without a prediction lies outside."""
    median: float | None = None
    """Median of the absolute errors; null where nothing is predicted."""
    n: int
    """How many figures have a prediction."""
    p85: float | None = None
    """Their 85th percentile."""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class MatrixAccuracy(Part):
    """One matrix or statement compared with its prediction."""

    cells: int
    """How many cells have a number and a prediction."""
    kind: Kind
    """Whether any of it was fitted."""
    label: str
    """What it holds: `bandwidth, both ways, summed, P2P on, copy engine, GB/s`."""
    median: float
    """Median of the absolute errors."""
    p85: float
    """Their 85th percentile."""
    worst: float
    """The greatest."""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class SystemAccuracy(Part):
    """One system's matrices and statements."""

    matrices: tuple[MatrixAccuracy, ...]
    """Its matrices, in the order of its file."""
    measured_here: bool
    """True where this project measured it, false where documents publish its numbers."""
    name: str
    """The system's name."""


SystemAccuracy._MADE = {"matrices": many(MatrixAccuracy._of)}


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Predicted(Part):
    """A prediction, and the least and most that it may be."""

    high: float
    """The most."""
    low: float
    """The least."""
    value: float
    """The most likely."""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class AccuracyFigure(Part):
    """A figure, and what the model predicts in its place. A table's numbers of one class and path are one figure."""

    class_: Class
    """What it is of."""
    label: str
    """What it is of in words: metric and path."""
    measured: float
    """What was measured or published; above 0."""
    predicted: Predicted | None = None
    """The prediction with its interval, in the same unit; `None` where there is none."""


AccuracyFigure._MADE = {"predicted": Predicted._of}


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class TargetScore(Part):
    """The scores of one machine."""

    classes: tuple[ClassScore, ...]
    """By class; classes without figures are left out."""
    figures: tuple[AccuracyFigure, ...]
    """Every figure, in the order of its tables."""
    name: str
    """The machine's name."""
    single_path: SinglePath
    """Bandwidths of single paths together."""


TargetScore._MADE = {"classes": many(ClassScore._of), "figures": many(AccuracyFigure._of), "single_path": SinglePath._of}


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Accuracy(Document):
    """What `accuracy --json` writes. All errors are fractions: 0.02 is 2 %."""

    classes: tuple[ClassScore, ...]
    """Every figure by what it is of, over all systems."""
    far: tuple[FarCell, ...]
    """Cells that are off by more than `FAR`."""
    groups: tuple[Group, ...]
    """By system × class of path × what was measured."""
    left_out: tuple[LeftOut, ...]
    """Each system as it is predicted without the constants that were fitted to it."""
    overall: Overall
    """Over all bandwidths, and over all latencies."""
    schema: Literal["peerlane/accuracy/1"]
    """Names this format."""
    single_path: SinglePath
    """Bandwidths of single paths together, over all systems."""
    systems: tuple[SystemAccuracy, ...]
    """By system and matrix."""
    targets: tuple[TargetScore, ...]
    """The same for each system."""


Accuracy._MADE = {"classes": many(ClassScore._of), "far": many(FarCell._of), "groups": many(Group._of), "left_out": many(LeftOut._of), "overall": Overall._of, "single_path": SinglePath._of, "systems": many(SystemAccuracy._of), "targets": many(TargetScore._of)}
Accuracy._ROWS = ('targets', 'figures')
