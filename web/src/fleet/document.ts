// Made from schema/fleet-page-1.json by build.mjs; do not edit.

/**
 * What to do with the part that a finding names. The worst comes first.
 */
export type Action = ("isolate" | "reset" | "monitor")
/**
 * The unit a matrix is given in.
 */
export type Unit = ("GB/s" | "MiB/s" | "Gb/s" | "us" | "ns" | "ps" | "GTEPS")
/**
 * Which way data goes, seen from the row.
 */
export type Way = ("out" | "in" | "both")

/**
 * The content of a fleet's page, or of the page of nodes that measured each other.
 */
export interface FleetPage {
/**
 * Kinds of machines.
 */
kinds: KindView[]
/**
 * Outliers beyond the limit of the page, which are not listed.
 */
left_out: number
/**
 * The machines.
 */
machines: MemberView[]
/**
 * What only nodes that measured each other have: then machines are nodes, tests their partners, outliers findings.
 */
nodes?: (NodesView | null)
/**
 * How records were matched to machines where that was not plain.
 */
notes: string[]
/**
 * The outliers, the worst first.
 */
outliers: OutlierView[]
/**
 * Version of peerlane that wrote it.
 */
peerlane: string
/**
 * Records that were read.
 */
records: number
/**
 * Name of this format.
 */
schema: "peerlane/fleet-page/1"
/**
 * What was measured: the columns of the heat map.
 */
tests: TestView[]
/**
 * Files that could not be read.
 */
unread: Unread[]
/**
 * Files that could not be read, and are not listed.
 */
unread_left_out: number
/**
 * Outliers that the site's rules waive.
 */
waived: number
}
/**
 * Machines with the same GPUs, NICs and paths.
 */
export interface KindView {
/**
 * Whether there are enough to compare them with each other.
 */
compared: boolean
/**
 * What they are.
 */
name: string
/**
 * What the rules find on nearly all of them.
 */
shared: Shared[]
}
/**
 * A finding that most machines of a kind have.
 */
export interface Shared {
/**
 * How many have it.
 */
machines: number
/**
 * The rule.
 */
rule: string
/**
 * What it finds on one of them.
 */
summary: string
}
/**
 * A machine.
 */
export interface MemberView {
/**
 * The most urgent action that its outliers ask for.
 */
action?: (Action | null)
/**
 * Between nodes: what else is known of it, in sentences.
 */
facts?: string[]
/**
 * Start of the first record, RFC 3339.
 */
first?: (string | null)
/**
 * Index of its kind.
 */
kind: number
/**
 * Start of the last record, RFC 3339.
 */
last?: (string | null)
/**
 * Its name.
 */
name: string
/**
 * Between nodes: per test the index of the node that it was measured with, where columns have none.
 */
partners?: (number | null)[]
/**
 * Its records.
 */
records: number
/**
 * Per test: its worst value over the median of its kind in per mille, where more is better; `null` if not measured.
 * Between nodes it is over what is expected, where that is known, and 0 of what failed.
 */
scores: (number | null)[]
/**
 * Between nodes: the lowest of the medians of its kinds of values, each way, in per mille.
 */
usual?: (number | null)
}
/**
 * What only this page has.
 */
export interface NodesView {
/**
 * Its first cause, in a sentence.
 */
cause: string
/**
 * All-reduces of groups, which are between no two nodes.
 */
groups: GroupView[]
/**
 * The record's name, with what was measured.
 */
name: string
/**
 * Single values, the worst first.
 */
pairs: PairView[]
/**
 * Values that are not listed.
 */
pairs_left_out: number
/**
 * How many findings and values there are.
 */
summary: string
/**
 * Kinds of values; the heat map shows one at a time.
 */
values: ValuesView[]
/**
 * The verdict, as it is printed: `FAULT`.
 */
verdict: string
}
/**
 * The all-reduce of a group of nodes.
 */
export interface GroupView {
/**
 * What is expected, where that is known.
 */
against: string
/**
 * GPUs of all of them.
 */
gpus: number
/**
 * Bus bandwidth with its unit, or why there is none.
 */
measured: string
/**
 * Which nodes: `node0 to node7`.
 */
members: string
/**
 * How many nodes.
 */
nodes: number
/**
 * The share of that in per mille, 0 of what failed; `null` where there is nothing to compare with.
 */
score?: (number | null)
/**
 * Where the rate drops with this group, the slow node, or those of which one is: `one of node8 to node15`.
 */
slow: string
}
/**
 * One value.
 */
export interface PairView {
/**
 * What it is compared with.
 */
against: string
/**
 * Where data comes from: `node7/mlx5_3`.
 */
from: string
/**
 * The value with its unit, or why there is none.
 */
measured: string
/**
 * The share of that in per mille; 0 of what failed.
 */
score: number
/**
 * Where it goes.
 */
to: string
/**
 * What was done: `verbs write`.
 */
what: string
}
/**
 * A kind of value.
 */
export interface ValuesView {
/**
 * The best one.
 */
best: string
/**
 * Steps without a value.
 */
failed: number
/**
 * Their median.
 */
median: string
/**
 * Values between nodes.
 */
n: number
/**
 * `verbs write`.
 */
name: string
/**
 * What scores are shares of: `what is expected`.
 */
of: string
/**
 * The worst one, with its unit.
 */
worst: string
}
/**
 * An outlier.
 */
export interface OutlierView {
/**
 * What to do with the part that a finding names. The worst comes first.
 */
action: ("isolate" | "reset" | "monitor")
/**
 * The value of the machine before.
 */
before?: (number | null)
/**
 * The value that the model expects.
 */
expected?: (number | null)
/**
 * The record.
 */
file: string
/**
 * What to do, in words.
 */
fix: string
/**
 * Index of its machine; absent of a switch between nodes.
 */
machine?: (number | null)
/**
 * The measured value.
 */
measured?: (number | null)
/**
 * Of a path between two nodes the second.
 */
other?: (number | null)
/**
 * The parts that it names: `GPU3`, `GPU0-GPU2`.
 */
part: string
/**
 * The usual value of other machines of its kind.
 */
peers?: (number | null)
/**
 * Records of this machine that show it.
 */
repeats: number
/**
 * The rule that found it.
 */
rule: string
/**
 * Its severity.
 */
severity: ("info" | "warning" | "error")
/**
 * What it is, in one line.
 */
summary: string
/**
 * Index of its test.
 */
test?: (number | null)
/**
 * Unit of the values below.
 */
unit?: (Unit | null)
/**
 * Why it is an outlier, in one sentence.
 */
why: string
}
/**
 * A test: a column of the heat map.
 */
export interface TestView {
/**
 * Its family, such as `pairs`.
 */
family: string
/**
 * What is measured: `write, copy engine, NVLink`.
 */
name: string
/**
 * Between nodes: the node that all of this column is measured with; where it is absent, machines have their own partners.
 */
node?: (number | null)
/**
 * Between nodes: index of the kind of value.
 */
values?: (number | null)
/**
 * Between nodes: which way data goes; absent of a loopback.
 */
way?: (Way | null)
}
/**
 * What could not be read.
 */
export interface Unread {
/**
 * The file or the label.
 */
name: string
/**
 * Why not.
 */
why: string
}
