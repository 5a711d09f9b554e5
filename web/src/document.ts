// Made from schema/report-2.json by build.mjs; do not edit.

/**
 * A number of bytes.
 */
export type Bytes = number
/**
 * The unit a matrix is given in.
 */
export type Unit = ("GB/s" | "MiB/s" | "Gb/s" | "us" | "ns" | "ps" | "GTEPS")
/**
 * The class of a path between two devices, nearest first, as NVIDIA defines them.
 *
 * Printed as `nvidia-smi topo -m` prints it today; the older `SOC` reads as [`PathClass::Sys`].
 */
export type PathClass = string

/**
 * The content of a report.
 */
export interface ReportDocument {
/**
 * Their comparison, if requested.
 */
comparison?: (ComparisonView | null)
/**
 * The machines, in the order of the targets.
 */
machines: MachineReport[]
/**
 * Version of peerlane that wrote it.
 */
peerlane: string
/**
 * Name of this format.
 */
schema: "peerlane/report/2"
}
/**
 * The comparison of several machines; they are named like the designs.
 */
export interface ComparisonView {
/**
 * An all-reduce by message size, a curve for each machine; absent if none can be predicted.
 */
all_reduce?: (Chart | null)
/**
 * The conclusion, in sentences that cite the figures.
 */
conclusion: string[]
/**
 * The figures, each with one value per machine.
 */
figures: FigureView[]
/**
 * Matrices of the same kind, to show on one scale.
 */
maps: SharedMap[]
/**
 * Conclusion and figures as Markdown for a ticket.
 */
markdown: string
}
/**
 * Curves that share their axes.
 */
export interface Chart {
/**
 * The curves.
 */
curves: CurveView[]
/**
 * Indices into the machine's evidence.
 */
sources: number[]
/**
 * Unit of the values; absent for counts.
 */
unit?: (Unit | null)
/**
 * The metric: `bandwidth by message size, copy engine`.
 */
what: string
}
/**
 * Numbers by message size.
 */
export interface CurveView {
/**
 * The fitted model, if there is one.
 */
fit?: (FitView | null)
/**
 * The end points, or the program and column.
 */
name: string
/**
 * The points, in ascending order of size.
 */
points: Point[]
}
/**
 * A fitted model: time(size) = max(t₁, t₀ + size ÷ rate).
 */
export interface FitView {
/**
 * The size that reaches half of the asymptotic rate, in bytes.
 */
half_size: number
/**
 * Least time t₁ in µs.
 */
least_us: number
/**
 * Sizes at which it deviates by more than `tolerance`.
 */
misfits: Bytes[]
/**
 * Asymptotic rate in GB/s.
 */
rate: number
/**
 * Start-up time t₀ in µs.
 */
startup_us: number
/**
 * The relative deviation above which a size counts as a misfit.
 */
tolerance: number
/**
 * The model's value at each point, in the chart's unit.
 */
values: number[]
}
/**
 * One message size.
 */
export interface Point {
/**
 * High end.
 */
high?: (number | null)
/**
 * Low end of its 95 % interval.
 */
low?: (number | null)
/**
 * A number of bytes.
 */
size: number
/**
 * The value.
 */
value: number
}
/**
 * One figure of all machines.
 */
export interface FigureView {
/**
 * Which of two values is better: `more`, `less`, or `neither` for a fact.
 */
better: string
/**
 * In the order of the machines; null if unknown.
 */
values: (FigureValue | null)[]
/**
 * What it is; in GB/s unless it names another unit.
 */
what: string
}
/**
 * One figure of one machine.
 */
export interface FigureValue {
/**
 * The GPUs it refers to; may be empty.
 */
about: string
/**
 * The bottleneck; may be empty.
 */
bound: string
/**
 * The measured or published value.
 */
measured?: (MeasuredView | null)
/**
 * The text: `12.28`, `≤ 12.28`, `4 of 12`.
 */
text: string
/**
 * The value; of a range, the worse end.
 */
value: number
}
/**
 * A measured or published value of a figure.
 */
export interface MeasuredView {
/**
 * The same number, or the high end.
 */
high: number
/**
 * The number, or the low end of a range.
 */
low: number
/**
 * `measured` or `published`.
 */
obtained: string
/**
 * The text.
 */
text: string
}
/**
 * Matrices of one kind.
 */
export interface SharedMap {
/**
 * In the order of the machines; null if a machine has none.
 */
of: (SharedMatrix | null)[]
/**
 * The unit a matrix is given in.
 */
unit: ("GB/s" | "MiB/s" | "Gb/s" | "us" | "ns" | "ps" | "GTEPS")
/**
 * The metric: `one GPU to another, one way`.
 */
what: string
}
/**
 * One machine's matrix.
 */
export interface SharedMatrix {
/**
 * The factor that converts its numbers to the common unit.
 */
factor: number
/**
 * Index of its matrix.
 */
matrix: number
}
/**
 * One machine: what it is, should deliver and does deliver, and what to do about the difference.
 */
export interface MachineReport {
/**
 * What is assumed.
 */
assumptions: string[]
/**
 * Numbers by message size, one entry per chart.
 */
charts: Chart[]
/**
 * Path classes between its GPUs and NICs; absent if there are fewer than two devices or no class is known.
 */
classes?: (ClassView | null)
/**
 * Rates of concurrent transfers, one entry per table.
 */
contention: Contention[]
/**
 * Contradictions in the input.
 */
contradictions: string[]
drawing: Drawing
/**
 * The sources of everything, each listed once.
 */
evidence: EvidenceView[]
/**
 * Facts about the machine and the run.
 */
facts: Table[]
/**
 * The findings, in order.
 */
findings: FindingView[]
/**
 * The hops of paths.
 */
hops: HopView[]
/**
 * Its devices in one line: `4 GPUs, 2 NICs`.
 */
inventory: string
/**
 * Its links.
 */
links: LinkView[]
/**
 * The findings as Markdown for a ticket.
 */
markdown: string
/**
 * Numbers between pairs.
 */
matrices: MatrixView[]
/**
 * Its name.
 */
name: string
/**
 * Its nodes.
 */
nodes: NodeView[]
/**
 * Further notes from sources.
 */
notes: string[]
/**
 * The origin of the description, in one line.
 */
origin: string
/**
 * The paths of cells.
 */
paths: PathView[]
/**
 * The record of the run.
 */
record?: (RunRecord | null)
/**
 * Summary of the findings: `1 error, 2 warnings`.
 */
summary: string
/**
 * What it is, in one line.
 */
title?: (string | null)
/**
 * The machine as text, an alternative to the drawing.
 */
tree: string
/**
 * What is unknown.
 */
unknown: string[]
/**
 * The verdict.
 */
verdict: ("healthy" | "limited" | "not-judged" | "unexplained" | "fault")
/**
 * Findings that the site accepts; they do not affect the verdict.
 */
waived: WaivedView[]
/**
 * Warnings about the input.
 */
warnings: string[]
/**
 * Sentences that `hops`, `paths` and `matrices` refer to by index.
 */
words: string[]
}
/**
 * Path classes between devices.
 */
export interface ClassView {
/**
 * The meaning of the classes, nearest first.
 */
meanings: Labelled[]
/**
 * Row and column names.
 */
names: string[]
/**
 * Index of each cell's path.
 */
paths: (number | null)[][]
/**
 * The classes.
 */
values: (PathClass | null)[][]
}
/**
 * A labelled text.
 */
export interface Labelled {
/**
 * What it is.
 */
label: string
/**
 * The text.
 */
text: string
}
/**
 * Sets of concurrent transfers of one kind.
 */
export interface Contention {
/**
 * The sets.
 */
sets: SetView[]
/**
 * The unit a matrix is given in.
 */
unit: ("GB/s" | "MiB/s" | "Gb/s" | "us" | "ns" | "ps" | "GTEPS")
/**
 * The kind: `one-to-all, writes, copy engine`.
 */
what: string
}
/**
 * Concurrent transfers.
 */
export interface SetView {
/**
 * Sum of the rates that they reach alone.
 */
alone?: (number | null)
/**
 * Rate of each.
 */
each: number[]
/**
 * The sum expected by the model.
 */
expected?: (number | null)
/**
 * High end.
 */
high?: (number | null)
/**
 * Low end of the sum's 95 % interval.
 */
low?: (number | null)
/**
 * Number of samples.
 */
n: number
/**
 * The transfers: `GPU0→GPU1–GPU3`.
 */
name: string
/**
 * Remarks.
 */
remarks: string[]
/**
 * Sum of their rates.
 */
sum?: (number | null)
}
/**
 * The drawing.
 */
export interface Drawing {
/**
 * What arcs without labels are: `NV1`, or `NV1, NV2 (thin to thick)`.
 */
arcs?: (string | null)
/**
 * Height of every box.
 */
box_height: number
/**
 * Width of every box.
 */
box_width: number
/**
 * The nodes.
 */
boxes: NodeBox[]
/**
 * Height of the drawing.
 */
height: number
/**
 * Width of the drawing, in pixels.
 */
width: number
/**
 * The links.
 */
wires: Wire[]
}
/**
 * A node's box.
 */
export interface NodeBox {
/**
 * Indices of nodes that it stands for as well, which have no box.
 */
also: number[]
/**
 * Its name.
 */
name: string
/**
 * Index among the machine's nodes; absent for sockets of unknown number.
 */
node?: (number | null)
/**
 * What it is; may be empty.
 */
product: string
/**
 * Left edge.
 */
x: number
/**
 * Upper edge.
 */
y: number
}
/**
 * A link's wire.
 */
export interface Wire {
at: Spot
/**
 * Its label; absent if it is empty, or the same for all arcs.
 */
label?: (string | null)
/**
 * Indices among the machine's links, those through nodes without a box first; the last one has the label.
 */
links: number[]
/**
 * Its path, as the `d` attribute of an SVG path.
 */
path: string
/**
 * How it runs.
 */
shape: ("tree" | "arc" | "smp")
/**
 * Stroke width, which grows with the rate.
 */
stroke: number
/**
 * Tone of its rate, from 0 to 4; absent if it has no rate.
 */
tone?: (number | null)
}
/**
 * Position of its label or mark.
 */
export interface Spot {
/**
 * From the left.
 */
x: number
/**
 * From the top.
 */
y: number
}
/**
 * A place in a source.
 */
export interface EvidenceView {
/**
 * `file:lines (tool)`.
 */
place: string
/**
 * What is stated there: `path classes`, `bandwidth, one way …`, names of nodes and links; may be empty.
 */
tells: string[]
}
/**
 * A small table of facts.
 */
export interface Table {
/**
 * Column headings; empty for a list of labels and texts.
 */
columns: string[]
/**
 * Rows; the first cell is the row's heading.
 */
rows: string[][]
/**
 * What it is.
 */
title: string
}
/**
 * A finding with its subjects.
 */
export interface FindingView {
/**
 * Indices of the nodes it refers to.
 */
boxes: number[]
/**
 * Cells it refers to.
 */
cells: CellRef[]
/**
 * How certain it is.
 */
certainty: ("possible" | "likely" | "certain")
/**
 * What would confirm it: usually a command.
 */
confirm: string
/**
 * What it costs, where known.
 */
cost?: (Cost | null)
/**
 * Sources: `file:lines (tool)`.
 */
evidence: string[]
/**
 * What should be, with unit and why.
 */
expected: string
/**
 * What to do.
 */
fix: string
/**
 * Its kind.
 */
kind: ("fault" | "design" | "measurement")
/**
 * Indices of the links it refers to.
 */
links: number[]
/**
 * What was measured, with unit.
 */
measured: string
/**
 * Names of all nodes that it is about, each once, in order.
 */
nodes?: string[]
/**
 * Whether a reset of the GPU or the NIC repairs it.
 */
reset?: boolean
/**
 * The rule: `narrow-link`.
 */
rule: string
/**
 * How much it matters.
 */
severity: ("info" | "warning" | "error")
/**
 * Indices into the machine's evidence.
 */
sources: number[]
/**
 * The nodes, pairs or links it is about, as printed: `GPU0-GPU2`.
 */
subjects: string[]
/**
 * One sentence.
 */
summary: string
}
/**
 * A cell of a matrix.
 */
export interface CellRef {
/**
 * Column.
 */
col: number
/**
 * Index of the matrix.
 */
matrix: number
/**
 * Row.
 */
row: number
}
/**
 * What a finding costs, on the path where it costs most.
 */
export interface Cost {
/**
 * Rate that is lost, or time that is added.
 */
lost: number
/**
 * Share of the expected rate, 0 to 1; for a time, the added share of the measured one.
 */
share: number
/**
 * The unit a matrix is given in.
 */
unit: ("GB/s" | "MiB/s" | "Gb/s" | "us" | "ns" | "ps" | "GTEPS")
}
/**
 * A hop, shared by many paths.
 */
export interface HopView {
/**
 * Index of its first node.
 */
from: number
/**
 * The highest rate of a single transfer through it, in GB/s.
 */
limit?: (number | null)
/**
 * Index of its link; absent inside a node.
 */
link?: (number | null)
/**
 * Lower and upper bound of that rate, from the ranges of the model's constants.
 *
 * @minItems 2
 * @maxItems 2
 */
range?: ([number, number] | null)
/**
 * Index of its last node.
 */
to: number
/**
 * The reason: index into the words.
 */
why?: (number | null)
}
/**
 * A link.
 */
export interface LinkView {
/**
 * Index of one end.
 */
a: number
/**
 * True if no source states it.
 */
assumed: boolean
/**
 * Index of the other.
 */
b: number
/**
 * What it could be, if it runs narrower or slower than that.
 */
could_be?: (string | null)
/**
 * True if it has fewer lanes than possible.
 */
narrow: boolean
/**
 * What else is known.
 */
note?: (string | null)
/**
 * Raw rate of one direction in GB/s.
 */
rate?: (number | null)
/**
 * Indices into the machine's evidence.
 */
sources: number[]
/**
 * What it is: `PCIe 3.0 x16`.
 */
what: string
}
/**
 * A matrix of measured and expected numbers.
 */
export interface MatrixView {
/**
 * The bottleneck of each expected number: index into the words. Empty if nothing is expected.
 */
bound: (number | null)[][]
/**
 * Column names.
 */
cols: string[]
/**
 * The end points: `among GPU0–GPU3`, `host → GPU0–GPU3`.
 */
ends: string
/**
 * Expected numbers; empty if nothing can be expected.
 */
expected: (number | null)[][]
/**
 * Lower bounds of the expected numbers, from the ranges of the model's constants; empty if nothing is expected.
 */
least: (number | null)[][]
/**
 * Measured or published numbers; empty if there are none.
 */
measured: (number | null)[][]
/**
 * Whether larger numbers are better.
 */
more_is_better: boolean
/**
 * Upper bounds of the expected numbers.
 */
most: (number | null)[][]
/**
 * How the numbers were obtained: `measured`, `published`, `stated in words` or `predicted`.
 */
obtained: string
/**
 * How rows relate to columns: `rows write to columns`.
 */
orientation?: (string | null)
/**
 * Index of each cell's path.
 */
paths: (number | null)[][]
/**
 * The quantity.
 */
quantity: ("bandwidth" | "latency" | "enqueue-latency" | "load-latency" | "signal-latency" | "bus-bandwidth" | "update-time" | "exchange-time" | "edge-rate")
/**
 * Remarks on cells.
 */
remarks: Remark[]
/**
 * Row names.
 */
rows: string[]
/**
 * Indices into the machine's evidence.
 */
sources: number[]
/**
 * The precision of each number; empty if the source does not state it.
 */
spread: (SpreadView | null)[][]
/**
 * The test, or the title in its source, if it adds information.
 */
title?: (string | null)
/**
 * The unit a matrix is given in.
 */
unit: ("GB/s" | "MiB/s" | "Gb/s" | "us" | "ns" | "ps" | "GTEPS")
/**
 * Upper ends of numbers that a source states as ranges, in the shape of `measured`; empty if there are none.
 */
upto: (number | null)[][]
/**
 * The metric: `bandwidth, one way, P2P on`.
 */
what: string
}
/**
 * A remark on a cell.
 */
export interface Remark {
/**
 * Column.
 */
col: number
/**
 * Whether the number is doubtful.
 */
flagged: boolean
/**
 * Row.
 */
row: number
/**
 * Index into the words.
 */
word: number
}
/**
 * The precision of a number.
 */
export interface SpreadView {
/**
 * High end.
 */
high: number
/**
 * Low end of the median's 95 % interval.
 */
low: number
/**
 * Number of samples.
 */
n: number
}
/**
 * A node.
 */
export interface NodeView {
/**
 * True if no source states it.
 */
assumed: boolean
/**
 * What else is known.
 */
details: Labelled[]
/**
 * What it is.
 */
kind: ("gpu" | "nic" | "card" | "nvme" | "fpga" | "host" | "root-complex" | "switch" | "nvswitch" | "cpu")
/**
 * Its name with its first alias.
 */
name: string
/**
 * Its product, abbreviated; may be empty.
 */
product: string
/**
 * Indices into the machine's evidence.
 */
sources: number[]
}
/**
 * The path of a transfer.
 */
export interface PathView {
/**
 * Why it is staged: index into the words.
 */
because?: (number | null)
/**
 * Its path class.
 */
class?: (PathClass | null)
/**
 * Its hops, in order: indices into the machine's hops.
 */
hops: number[]
/**
 * Whether it is staged through host memory; absent if the model has no route.
 */
staged?: (boolean | null)
/**
 * The hops with the lowest limit: positions in `hops`.
 */
tightest: number[]
}
/**
 * The recorded run that the numbers are from.
 */
export interface RunRecord {
/**
 * Uncompressed size in bytes.
 */
bytes: number
/**
 * The record (`peerlane/run/1`), as gzip in base64.
 */
gzip: string
/**
 * File name.
 */
name: string
/**
 * Whether it includes the samples behind each number, which take most of the space.
 */
samples: boolean
}
/**
 * A finding that the site's settings accept.
 */
export interface WaivedView {
finding: FindingView1
/**
 * The reason given in the settings.
 */
reason: string
}
/**
 * A finding with its subjects.
 */
export interface FindingView1 {
/**
 * Indices of the nodes it refers to.
 */
boxes: number[]
/**
 * Cells it refers to.
 */
cells: CellRef[]
/**
 * How certain it is.
 */
certainty: ("possible" | "likely" | "certain")
/**
 * What would confirm it: usually a command.
 */
confirm: string
/**
 * What it costs, where known.
 */
cost?: (Cost | null)
/**
 * Sources: `file:lines (tool)`.
 */
evidence: string[]
/**
 * What should be, with unit and why.
 */
expected: string
/**
 * What to do.
 */
fix: string
/**
 * Its kind.
 */
kind: ("fault" | "design" | "measurement")
/**
 * Indices of the links it refers to.
 */
links: number[]
/**
 * What was measured, with unit.
 */
measured: string
/**
 * Names of all nodes that it is about, each once, in order.
 */
nodes?: string[]
/**
 * Whether a reset of the GPU or the NIC repairs it.
 */
reset?: boolean
/**
 * The rule: `narrow-link`.
 */
rule: string
/**
 * How much it matters.
 */
severity: ("info" | "warning" | "error")
/**
 * Indices into the machine's evidence.
 */
sources: number[]
/**
 * The nodes, pairs or links it is about, as printed: `GPU0-GPU2`.
 */
subjects: string[]
/**
 * One sentence.
 */
summary: string
}
