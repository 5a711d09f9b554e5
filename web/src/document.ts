// Made from schema/report-2.json by build.mjs; do not edit.

/**
 * A number of bytes.
 */
export type Bytes = number
/**
 * The unit a matrix is given in.
 */
export type Unit = ("GB/s" | "MiB/s" | "Gb/s" | "us" | "ns")
/**
 * The class of a path between two devices, nearest first, as NVIDIA defines them.
 *
 * Printed as `nvidia-smi topo -m` prints it today; the older `SOC` reads as [`PathClass::Sys`].
 */
export type PathClass = string

/**
 * All that a page shows.
 */
export interface ReportDocument {
/**
 * What they come to side by side, where that was asked for.
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
 * Names this format.
 */
schema: "peerlane/report/2"
}
/**
 * What a page of several machines says of them together; the machines are named as its designs are.
 */
export interface ComparisonView {
/**
 * What follows, in sentences that cite the figures.
 */
conclusion: string[]
/**
 * The figures, each with a value a machine.
 */
figures: FigureView[]
/**
 * Matrices of the same kind, to be shown on one scale.
 */
maps: SharedMap[]
/**
 * Conclusion and figures as Markdown, to be pasted into a ticket.
 */
markdown: string
}
/**
 * One figure of all machines.
 */
export interface FigureView {
/**
 * Which of two values is the better one: `more`, `less`, or `neither` of a fact.
 */
better: string
/**
 * In the order of the machines; null where it cannot be told.
 */
values: (FigureValue | null)[]
/**
 * What it is; in GB/s where it names no other unit.
 */
what: string
}
/**
 * One figure of one machine.
 */
export interface FigureValue {
/**
 * Which GPUs it is about; may be empty.
 */
about: string
/**
 * What binds it; may be empty.
 */
bound: string
/**
 * What was measured or published of the same.
 */
measured?: (MeasuredView | null)
/**
 * As it is written: `12.28`, `≤ 12.28`, `4 of 12`.
 */
text: string
/**
 * As a number, of a range the worse end.
 */
value: number
}
/**
 * What was measured or published of a figure.
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
 * As it is written.
 */
text: string
}
/**
 * Matrices of one kind.
 */
export interface SharedMap {
/**
 * In the order of the machines; null where a machine has none.
 */
of: (SharedMatrix | null)[]
/**
 * The unit that all are shown in.
 */
unit: ("GB/s" | "MiB/s" | "Gb/s" | "us" | "ns")
/**
 * What they hold: `one GPU to another, one way`.
 */
what: string
}
/**
 * A machine's part in it.
 */
export interface SharedMatrix {
/**
 * What its numbers are multiplied by to be in the shared unit.
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
 * Numbers against message size, one a chart.
 */
charts: Chart[]
/**
 * Path classes between its GPUs and NICs; absent where there are fewer than two or none is known.
 */
classes?: (ClassView | null)
/**
 * What transfers reach together, one a table.
 */
contention: Contention[]
/**
 * What cannot be true.
 */
contradictions: string[]
drawing: Drawing
/**
 * Where everything came from, each once.
 */
evidence: EvidenceView[]
/**
 * Facts about machine and run.
 */
facts: Table[]
/**
 * The findings, in order.
 */
findings: FindingView[]
/**
 * The hops that ways are made of.
 */
hops: HopView[]
/**
 * Its devices in a line: `4 GPUs, 2 NICs`.
 */
inventory: string
/**
 * Its links.
 */
links: LinkView[]
/**
 * The findings as Markdown, to be pasted into a ticket.
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
 * What else a source says.
 */
notes: string[]
/**
 * Where the description comes from, in a line.
 */
origin: string
/**
 * The ways that cells take.
 */
paths: PathView[]
/**
 * The record of the run.
 */
record?: (RunRecord | null)
/**
 * What the findings amount to: `1 error, 2 warnings`.
 */
summary: string
/**
 * What it is, in a line.
 */
title?: (string | null)
/**
 * The machine as text, for those who do not see the drawing.
 */
tree: string
/**
 * What is not known.
 */
unknown: string[]
/**
 * The verdict.
 */
verdict: ("healthy" | "degraded" | "broken" | "unknown")
/**
 * What the site accepts, and is no part of the verdict.
 */
waived: WaivedView[]
/**
 * What is odd.
 */
warnings: string[]
/**
 * Sentences that `hops`, `paths` and `matrices` refer to by index.
 */
words: string[]
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
 * What it shows: `bandwidth by message size, copy engine`.
 */
what: string
}
/**
 * Numbers against message size.
 */
export interface CurveView {
/**
 * Start-up time and rate that describe them, where they do.
 */
fit?: (FitView | null)
/**
 * Between whom, or which column of which program.
 */
name: string
/**
 * The points, sizes ascending.
 */
points: Point[]
}
/**
 * time(size) = start-up + size ÷ rate.
 */
export interface FitView {
/**
 * The size that reaches half of it.
 */
half_size: number
/**
 * Sizes that it does not describe.
 */
misfits: Bytes[]
/**
 * Rate of a message without end, in GB/s.
 */
rate: number
/**
 * Start-up time in µs.
 */
startup_us: number
/**
 * The share from which on it is off there.
 */
tolerance: number
/**
 * What it gives at each point, in the chart's unit.
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
 * Path classes between devices.
 */
export interface ClassView {
/**
 * What the classes mean, nearest first.
 */
meanings: Labelled[]
/**
 * Row and column names.
 */
names: string[]
/**
 * Index of each cell's way.
 */
paths: (number | null)[][]
/**
 * The classes.
 */
values: (PathClass | null)[][]
}
/**
 * A text with its label.
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
 * Sets of transfers of one kind.
 */
export interface Contention {
/**
 * The sets.
 */
sets: SetView[]
/**
 * The unit a matrix is given in.
 */
unit: ("GB/s" | "MiB/s" | "Gb/s" | "us" | "ns")
/**
 * What they do: `one-to-all, writes, copy engine`.
 */
what: string
}
/**
 * Transfers at once.
 */
export interface SetView {
/**
 * What they reach alone, summed.
 */
alone?: (number | null)
/**
 * Each one's rate.
 */
each: number[]
/**
 * What the model expects of the sum.
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
 * Samples.
 */
n: number
/**
 * Who: `GPU0→GPU1–GPU3`.
 */
name: string
/**
 * Remarks.
 */
remarks: string[]
/**
 * Their sum.
 */
sum?: (number | null)
}
/**
 * The drawing.
 */
export interface Drawing {
/**
 * What arcs without a label of their own are: `NV1`, or `NV1, NV2 (thin to thick)`.
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
 * Height of all.
 */
height: number
/**
 * Width of all, in pixels.
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
 * Index among the machine's nodes.
 */
node: number
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
 * Its label; absent where it says nothing, or what all arcs say.
 */
label?: (string | null)
/**
 * Index among the machine's links.
 */
link: number
/**
 * Its course, as the `d` of an SVG path.
 */
path: string
/**
 * How it runs.
 */
shape: ("tree" | "arc" | "smp")
/**
 * Width of its stroke, which grows with its rate.
 */
stroke: number
/**
 * Step of its rate's colour, from 0 to 4; absent where it has no rate of its own.
 */
tone?: (number | null)
}
/**
 * Where its label starts, and where a mark stands.
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
 * A place where something stands.
 */
export interface EvidenceView {
/**
 * `file:lines (tool)`.
 */
place: string
/**
 * What it tells: `path classes`, `bandwidth, one way …`, names of nodes and links; may be empty.
 */
tells: string[]
}
/**
 * A small table of facts.
 */
export interface Table {
/**
 * Headings of columns; empty for a list of labels and texts.
 */
columns: string[]
/**
 * Rows; the first cell heads its row.
 */
rows: string[][]
/**
 * What it is.
 */
title: string
}
/**
 * A finding with what it is about.
 */
export interface FindingView {
/**
 * Indices of the nodes it is about, which the drawing has as boxes.
 */
boxes: number[]
/**
 * Cells it is about.
 */
cells: CellRef[]
/**
 * How sure it is.
 */
certainty: ("possible" | "likely" | "certain")
/**
 * What would confirm it: a command, mostly.
 */
confirm: string
/**
 * What it costs, where that can be told.
 */
cost?: (Cost | null)
/**
 * Where that stands: `file:lines (tool)`.
 */
evidence: string[]
/**
 * What was to be expected, with unit and why.
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
 * Indices of links it is about.
 */
links: number[]
/**
 * What is measured, with unit.
 */
measured: string
/**
 * Names of all nodes that it is about, each once, in order.
 */
nodes?: string[]
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
 * What is lost of a rate, or added to a time.
 */
lost: number
/**
 * Share of what should be, 0 to 1; of a time, what is added as a share of what is measured.
 */
share: number
/**
 * The unit a matrix is given in.
 */
unit: ("GB/s" | "MiB/s" | "Gb/s" | "us" | "ns")
}
/**
 * One hop, as many ways have it.
 */
export interface HopView {
/**
 * Index of the node where it starts.
 */
from: number
/**
 * The most that a lone transfer gets through it, in GB/s.
 */
limit?: (number | null)
/**
 * Index of its link; absent inside a node.
 */
link?: (number | null)
/**
 * The least and the most that this may be, by the ranges of the model's constants.
 *
 * @minItems 2
 * @maxItems 2
 */
range?: ([number, number] | null)
/**
 * Index of the node where it ends.
 */
to: number
/**
 * Why: index among the words.
 */
why?: (number | null)
}
/**
 * A link, as shown beside the drawing.
 */
export interface LinkView {
/**
 * Index of one end.
 */
a: number
/**
 * True where no source states it.
 */
assumed: boolean
/**
 * Index of the other.
 */
b: number
/**
 * What it could be, where it runs with fewer lanes or slower.
 */
could_be?: (string | null)
/**
 * True where it has fewer lanes than it could.
 */
narrow: boolean
/**
 * What else is known.
 */
note?: (string | null)
/**
 * Raw rate in GB/s of one direction.
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
 * Numbers between rows and columns, and what should stand there.
 */
export interface MatrixView {
/**
 * What binds each expectation: index among the words. Empty where nothing is expected.
 */
bound: (number | null)[][]
/**
 * Column names.
 */
cols: string[]
/**
 * Between whom: `among GPU0–GPU3`, `host → GPU0–GPU3`.
 */
ends: string
/**
 * Numbers expected; empty where nothing can be.
 */
expected: (number | null)[][]
/**
 * The least that each may be, by the ranges of the model's constants; empty where nothing is expected.
 */
least: (number | null)[][]
/**
 * Numbers seen; empty where nothing was.
 */
measured: (number | null)[][]
/**
 * Whether a larger number is a better one.
 */
more_is_better: boolean
/**
 * The most.
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
 * Index of each cell's way.
 */
paths: (number | null)[][]
/**
 * What is measured.
 */
quantity: ("bandwidth" | "latency" | "enqueue-latency" | "load-latency" | "signal-latency" | "bus-bandwidth")
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
 * How sure each number is; empty where the source does not say.
 */
spread: (SpreadView | null)[][]
/**
 * The test or title it has in its source, where that says more.
 */
title?: (string | null)
/**
 * The unit a matrix is given in.
 */
unit: ("GB/s" | "MiB/s" | "Gb/s" | "us" | "ns")
/**
 * Of numbers that a source states as ranges the upper ends, in the shape of `seen`; empty where none is.
 */
upto: (number | null)[][]
/**
 * What it holds: `bandwidth, one way, P2P on`.
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
 * Whether the number is to be taken with care.
 */
flagged: boolean
/**
 * Row.
 */
row: number
/**
 * Index among the words.
 */
word: number
}
/**
 * How sure a number is.
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
 * Samples.
 */
n: number
}
/**
 * A node, as shown beside the drawing.
 */
export interface NodeView {
/**
 * True where no source states it.
 */
assumed: boolean
/**
 * What else is known.
 */
details: Labelled[]
/**
 * What it is.
 */
kind: ("gpu" | "nic" | "card" | "host" | "root-complex" | "switch" | "nvswitch" | "cpu")
/**
 * Its name, with the first other that it answers to.
 */
name: string
/**
 * Its product, shortly; may be empty.
 */
product: string
/**
 * Indices into the machine's evidence.
 */
sources: number[]
}
/**
 * The way of a transfer.
 */
export interface PathView {
/**
 * Why it is staged: index among the words.
 */
because?: (number | null)
/**
 * Its class.
 */
class?: (PathClass | null)
/**
 * Its hops, in order: indices into the machine's.
 */
hops: number[]
/**
 * Whether it goes through host memory; absent where the model has no route.
 */
staged?: (boolean | null)
/**
 * Which of them, as places in `hops`, are the tightest.
 */
tightest: number[]
}
/**
 * The record of the run that the numbers are from.
 */
export interface RunRecord {
/**
 * Its size, unpacked.
 */
bytes: number
/**
 * The record (`peerlane/run/1`), gzip in base64.
 */
gzip: string
/**
 * A name for the file.
 */
name: string
/**
 * Whether it has the samples behind each number, which take most of its room.
 */
samples: boolean
}
/**
 * A finding that the site's settings accept.
 */
export interface WaivedView {
finding: FindingView1
/**
 * Why, as the settings say.
 */
reason: string
}
/**
 * A finding with what it is about.
 */
export interface FindingView1 {
/**
 * Indices of the nodes it is about, which the drawing has as boxes.
 */
boxes: number[]
/**
 * Cells it is about.
 */
cells: CellRef[]
/**
 * How sure it is.
 */
certainty: ("possible" | "likely" | "certain")
/**
 * What would confirm it: a command, mostly.
 */
confirm: string
/**
 * What it costs, where that can be told.
 */
cost?: (Cost | null)
/**
 * Where that stands: `file:lines (tool)`.
 */
evidence: string[]
/**
 * What was to be expected, with unit and why.
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
 * Indices of links it is about.
 */
links: number[]
/**
 * What is measured, with unit.
 */
measured: string
/**
 * Names of all nodes that it is about, each once, in order.
 */
nodes?: string[]
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
