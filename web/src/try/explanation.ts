// Made from schema/explanation-2.json by build.mjs; do not edit.

/**
 * The class of a path between two devices, nearest first, as NVIDIA defines them.
 *
 * Printed as `nvidia-smi topo -m` prints it today; the older `SOC` reads as [`PathClass::Sys`].
 */
export type PathClass = string
/**
 * Whether the initiator writes to or reads from the far end.
 */
export type Operation = ("write" | "read")
/**
 * A number of bytes.
 */
export type Bytes = number
/**
 * How a NIC accesses memory.
 */
export type Method = ("nvp2p" | "bar1" | "staged" | "host")
/**
 * A time in seconds.
 */
export type Seconds = number

/**
 * What `explain --json` writes: the path from `a` to `b`.
 */
export interface ExplanationDocument {
/**
 * Where the data comes from.
 */
a: string
/**
 * Assumptions about link widths that no source reports.
 */
assumptions: string[]
/**
 * Where it goes.
 */
b: string
/**
 * Expected from `b` to `a` alone.
 */
backward?: (ExpectedRate | null)
/**
 * Expected both ways at once, as the sum of both.
 */
both?: (ExpectedRate | null)
/**
 * The class of the path; null where the fabric has no path.
 */
class?: (PathClass | null)
/**
 * What copies from `a` to `b` take, by size; null where a NIC drives them or no rate is known.
 */
curve?: (ExpectedCurve | null)
/**
 * The paths between a GPU and a drive or capture card; absent between others.
 */
device?: (DeviceDescription | null)
/**
 * Expected from `a` to `b` alone.
 */
forward?: (ExpectedRate | null)
/**
 * How two GPUs should exchange faces of a grid, one each way at once; absent between others.
 */
halo?: (HaloAdvice | null)
/**
 * The hops, in order.
 */
hops: ExplainedHop[]
/**
 * The machine's name.
 */
machine: string
/**
 * What was measured or published between the two.
 */
measured: MeasuredCell[]
/**
 * The RDMA paths between a GPU and a NIC; null between others.
 */
rdma?: (RdmaDescription | null)
/**
 * Names this format.
 */
schema: "peerlane/explanation/2"
/**
 * Whether a transfer goes through host memory; null where the model has no route.
 */
staged?: (boolean | null)
/**
 * Why it is staged.
 */
staged_because?: (string | null)
/**
 * Unified memory of a GPU and host memory; absent between others.
 */
unified_memory?: (UnifiedMemory | null)
/**
 * Why a rate is missing above.
 */
unknown: string[]
/**
 * What would raise the rate from `a` to `b` alone, the greatest rise first.
 */
upgrades: Upgrade[]
}
/**
 * An expected rate.
 */
export interface ExpectedRate {
/**
 * Its bottleneck.
 */
bottleneck: string
/**
 * The most.
 */
high: number
/**
 * The least that it may be, by the ranges of the model's constants.
 */
low: number
/**
 * In GB/s.
 */
rate: number
}
/**
 * What copies of a way take, by size.
 */
export interface ExpectedCurve {
/**
 * Class of the path; null where the fabric knows no way.
 */
class?: (PathClass | null)
/**
 * Where the data comes from.
 */
from: string
/**
 * Bytes at which half of it is reached.
 */
half_size: number
/**
 * Time of one small copy, in us.
 */
latency: number
/**
 * The least and the most that it may be.
 *
 * @minItems 2
 * @maxItems 2
 */
latency_interval: [number, number]
/**
 * What it is made of.
 */
latency_why: string
/**
 * Rate of a message without end, in GB/s.
 */
rate: number
/**
 * Sizes in bytes, and the rate at each in GB/s.
 */
rates: [unknown, unknown][]
/**
 * Whether it goes through host memory.
 */
staged: boolean
/**
 * Bytes from which on a copy staged through host memory is faster; null where it never is, and for what is staged.
 */
staged_from?: (number | null)
/**
 * Time that each copy of a full queue adds to its moving, in us.
 */
startup: number
/**
 * Sizes in bytes, and the time of one copy of many, in us.
 */
times: [unknown, unknown][]
/**
 * Where it goes.
 */
to: string
}
/**
 * The paths between a GPU and a drive or capture card.
 */
export interface DeviceDescription {
/**
 * The drive or capture card.
 */
device: string
/**
 * From GPU memory to the device.
 */
from_gpu: DevicePathRate[]
/**
 * The GPU.
 */
gpu: string
/**
 * Which of both it is.
 */
kind: ("gpu" | "nic" | "card" | "nvme" | "fpga" | "host" | "root-complex" | "switch" | "nvswitch" | "cpu")
/**
 * What else to know.
 */
remarks: string[]
/**
 * From the device to GPU memory: a file is read, a stream comes in.
 */
to_gpu: DevicePathRate[]
}
/**
 * What a path gives, one way.
 */
export interface DevicePathRate {
/**
 * What binds the rate.
 */
bottleneck?: (string | null)
/**
 * The most.
 */
high?: (number | null)
/**
 * GB/s of a program that waits for each stage before it starts the other; null for a direct path.
 */
in_turn?: (number | null)
/**
 * The least that it may be.
 */
low?: (number | null)
/**
 * Why it is not available; null where it is, and then the rest is known.
 */
not_offered?: (string | null)
/**
 * The path.
 */
path: ("direct" | "host-buffer")
/**
 * GB/s, with both stages at the same time where there are two.
 */
rate?: (number | null)
}
/**
 * Which method to use for a halo exchange.
 */
export interface HaloAdvice {
/**
 * The fastest method, by the size of a face: each from its size on until the next one's.
 */
fastest: FastestFrom[]
/**
 * Bytes that the memory of the slowest GPU moves in a second under copies; null where that is not known.
 */
memory_rate?: (number | null)
/**
 * What each method takes; without those that need peer access where there is none.
 */
methods: MethodAdvice[]
/**
 * From which spin glass on these GPUs together are faster than one; null where that is not known.
 */
spin_glass?: (SpinGlassAdvice | null)
}
/**
 * From which size of a face a method is the fastest.
 */
export interface FastestFrom {
/**
 * The method.
 */
exchange: ("stores" | "copies" | "staged")
/**
 * Bytes of a face.
 */
face: number
}
/**
 * What an exchange by one method takes, and what overlap does for it.
 */
export interface MethodAdvice {
/**
 * The method.
 */
exchange: ("stores" | "copies" | "staged")
/**
 * For a spin glass on these GPUs; null where their memory's rate is not known.
 */
spin_glass?: (OverlapFrom | null)
/**
 * Bytes of a face, and microseconds of the exchange.
 */
times: [unknown, unknown][]
}
/**
 * From which side L of a spin glass overlap pays. Sides are multiples of 64; null where no side up to 4096 is enough.
 */
export interface OverlapFrom {
/**
 * From here on the exchange is over before the rest is updated.
 */
hides?: (number | null)
/**
 * Bytes of each GPU's part there.
 */
hides_bytes?: (number | null)
/**
 * From here on it makes a half-sweep faster.
 */
pays?: (number | null)
/**
 * From here on memory alone binds; below, caches hold a notable part of the lattice, and sides are less certain.
 */
predicted: number
}
/**
 * From which side of a spin glass on several GPUs, a slab each, are faster than one of them.
 */
export interface SpinGlassAdvice {
/**
 * Whether smaller ones are not predicted, since caches hold so much of them, so that it may hold for these, too.
 */
at_the_latest: boolean
/**
 * The least multiple of 64 from which that holds for all larger ones, too; null where it holds for no side up to 4096.
 */
from?: (number | null)
/**
 * The GPUs.
 */
gpus: number
/**
 * From here on memory alone binds; below, caches hold a notable part of each slab, and times are less certain.
 */
predicted: number
/**
 * What some sides take, and that one; without those that are not predicted.
 */
sides: SideAdvice[]
}
/**
 * What a side takes.
 */
export interface SideAdvice {
/**
 * Picoseconds of an update on all, by the fastest method.
 */
all: number
/**
 * That method.
 */
exchange: ("stores" | "copies" | "staged")
/**
 * Picoseconds of an update on one GPU.
 */
one: number
/**
 * Whether it is overlapped.
 */
overlap: boolean
/**
 * The side L.
 */
side: number
}
/**
 * One hop of an explained path.
 */
export interface ExplainedHop {
/**
 * What its link rests on.
 */
evidence: string[]
/**
 * Where it starts.
 */
from: string
/**
 * The most a lone transfer gets through it, in GB/s.
 */
limit?: (number | null)
/**
 * The link, in words: `PCIe 3.0 x16`.
 */
link?: (string | null)
/**
 * Whether it is the tightest of all.
 */
tightest: boolean
/**
 * Where it ends.
 */
to: string
/**
 * Why.
 */
why: string
}
/**
 * One number measured or published between two nodes.
 */
export interface MeasuredCell {
/**
 * Column.
 */
col: string
/**
 * Its source.
 */
evidence: string
/**
 * What the model expects there, in the same unit.
 */
expected?: (number | null)
/**
 * The same number, or the highest of a stated range.
 */
high: number
/**
 * The number, or the lowest of a stated range.
 */
low: number
/**
 * Write or read.
 */
op?: (Operation | null)
/**
 * True for a document's figure.
 */
published: boolean
/**
 * What is measured.
 */
quantity: ("bandwidth" | "latency" | "enqueue-latency" | "load-latency" | "signal-latency" | "bus-bandwidth" | "update-time" | "exchange-time" | "edge-rate")
/**
 * Row of its matrix.
 */
row: string
/**
 * Its unit.
 */
unit: ("GB/s" | "MiB/s" | "Gb/s" | "us" | "ns" | "ps" | "GTEPS")
/**
 * What the number is, in words.
 */
what: string
}
/**
 * RDMA between a GPU and a NIC.
 */
export interface RdmaDescription {
/**
 * Messages between this node and one like it, beside each other; empty where no path has a rate.
 */
between_like_nodes: LikeNodes[]
/**
 * The methods by which it writes to GPU memory what it receives.
 */
from_network: RdmaMethod[]
/**
 * The GPU.
 */
gpu: string
/**
 * The method that the model uses; null where no direct one is available and none was chosen.
 */
in_use?: (Method | null)
/**
 * Why this one.
 */
in_use_because: string
/**
 * Rates by message size that were measured or published between the two, with what the model expects of messages
 * that follow each other without a pause.
 */
measured: RdmaMeasured[]
/**
 * The NIC.
 */
nic: string
/**
 * What the revisions of the card's GPU-read engine reach with this GPU; empty for cards without one.
 */
read_engines: EngineRevision[]
/**
 * What those of its receive engine let through; empty for cards without one.
 */
receive_engines: ReceiveRevision[]
/**
 * How a staged message is divided, and how it were best; null where no staged path has a rate.
 */
staging?: (RdmaStaging | null)
/**
 * The methods by which the NIC reads GPU memory, and sends.
 */
to_network: RdmaMethod[]
}
/**
 * Messages between two like nodes.
 */
export interface LikeNodes {
/**
 * What binds it.
 */
bottleneck: string
/**
 * By size.
 */
curve: RdmaPoint[]
latency: Span1
/**
 * The method at both ends.
 */
method: ("nvp2p" | "bar1" | "staged" | "host")
/**
 * GB/s of a message without end.
 */
rate: number
/**
 * When registering a buffer at both ends has paid; null where nothing is registered, and where staging is faster.
 */
repaid?: (Repaid | null)
/**
 * The stages that add up to it.
 */
stages: RdmaStage[]
/**
 * The least power of two, up to 1 GiB, at which a staged message alone takes less time; null where none does.
 */
staging_from?: (Bytes | null)
}
/**
 * One size of a curve.
 */
export interface RdmaPoint {
/**
 * GB/s of such messages one behind another.
 */
rate: number
/**
 * Bytes of a message.
 */
size: number
time: Span
}
/**
 * Its time alone.
 */
export interface Span {
/**
 * The most, in seconds.
 */
high: number
/**
 * The likely one, in seconds.
 */
likely: number
/**
 * The least, in seconds.
 */
low: number
}
/**
 * Time of an empty message.
 */
export interface Span1 {
/**
 * The most, in seconds.
 */
high: number
/**
 * The likely one, in seconds.
 */
likely: number
/**
 * The least, in seconds.
 */
low: number
}
/**
 * After how many messages a direct path, with its registration, has taken less time than staging.
 */
export interface Repaid {
/**
 * At the least time of registration and the most of staging.
 */
fewest: number
/**
 * At the most time of registration and the least of staging.
 */
most: number
/**
 * Bytes of a message.
 */
size: number
}
/**
 * One stage.
 */
export interface RdmaStage {
/**
 * Whether it is assumed.
 */
assumed: boolean
/**
 * What happens.
 */
name: string
time: Span2
/**
 * Where that is from.
 */
why: string
}
/**
 * How long it takes, in seconds.
 */
export interface Span2 {
/**
 * The most, in seconds.
 */
high: number
/**
 * The likely one, in seconds.
 */
likely: number
/**
 * The least, in seconds.
 */
low: number
}
/**
 * One method, one way.
 */
export interface RdmaMethod {
/**
 * What binds it.
 */
bottleneck?: (string | null)
/**
 * Messages by size.
 */
curve: RdmaPoint[]
/**
 * All limits, the tightest first.
 */
limits: RdmaLimit[]
/**
 * The method.
 */
method: ("nvp2p" | "bar1" | "staged" | "host")
/**
 * Why it is not to be had; null where it is, and then the rest is known.
 */
not_offered?: (string | null)
/**
 * GB/s of a message without end.
 */
rate?: (number | null)
/**
 * What else to know.
 */
remarks: string[]
/**
 * What is done once for a buffer.
 */
setup: RdmaStage[]
/**
 * What a message waits for at this node, in order.
 */
stages: RdmaStage[]
}
/**
 * One limit.
 */
export interface RdmaLimit {
/**
 * GB/s.
 */
rate: number
/**
 * What limits.
 */
what: string
}
/**
 * A measured or published series of rates by message size.
 */
export interface RdmaMeasured {
/**
 * Its points.
 */
points: RdmaMeasuredPoint[]
/**
 * The program, and the column's name: `ib_write_bw, BW average`.
 */
what: string
}
/**
 * One size of it.
 */
export interface RdmaMeasuredPoint {
/**
 * GB/s expected, directly, by the faster method.
 */
expected: number
/**
 * GB/s seen.
 */
rate: number
/**
 * A number of bytes.
 */
size: number
}
/**
 * A revision of a GPU-read engine.
 */
export interface EngineRevision {
/**
 * GB/s at the sizes of the curves, messages one behind another.
 */
curve: RdmaPoint[]
/**
 * The revision.
 */
engine: ("v1" | "v2" | "v3")
/**
 * Whether the card has it.
 */
fitted: boolean
/**
 * GB/s of a message without end.
 */
rate: number
}
/**
 * A revision of a receive engine.
 */
export interface ReceiveRevision {
/**
 * The most that it lets through, GB/s; for the original one a bound, since no number of it is published.
 */
at_most: number
/**
 * What binds.
 */
bottleneck: string
/**
 * The revision.
 */
engine: ("original" | "optimised" | "hardware")
/**
 * Whether the card has it.
 */
fitted: boolean
}
/**
 * Staged messages between this node and one like it.
 */
export interface RdmaStaging {
/**
 * The best size of a chunk by size of message, with as many in flight.
 */
best: RdmaBestChunk[]
pipeline: Pipeline
}
/**
 * The best division of one size.
 */
export interface RdmaBestChunk {
/**
 * A number of bytes.
 */
chunk: number
/**
 * A number of bytes.
 */
size: number
/**
 * That time, in seconds.
 */
time: number
/**
 * The time with the division in use, in seconds.
 */
time_as_divided: number
/**
 * The time of the fastest direct method, in seconds; null where there is none.
 */
time_direct?: (Seconds | null)
}
/**
 * The division that the rates of staged messages are for.
 */
export interface Pipeline {
/**
 * A number of bytes.
 */
chunk: number
/**
 * Chunks in flight at most: buffers in host memory. Null for as many as it takes.
 */
depth?: (number | null)
}
/**
 * What unified memory moves between a GPU and host memory.
 */
export interface UnifiedMemory {
/**
 * The GPU.
 */
gpu: string
/**
 * The host memory.
 */
host: string
/**
 * What a pass over data costs that exceeds GPU memory.
 */
passes: UnifiedPass[]
/**
 * Ways to move data, or to do without moving it.
 */
rates: UnifiedRate[]
/**
 * What else to know.
 */
remarks: string[]
}
/**
 * A pass over data, in order, by one method: GB/s of all data, by its excess over GPU memory.
 */
export interface UnifiedPass {
/**
 * The method.
 */
method: ("prefetch" | "prefetch-back" | "faults" | "direct" | "prefetch-evicting")
/**
 * For each excess (the first of each pair, as a share of GPU memory) the GB/s of data passed over.
 */
rates: [number, number][]
/**
 * Where the moved bytes come from.
 */
why: string
}
/**
 * One way to reach data in host memory.
 */
export interface UnifiedRate {
/**
 * The most.
 */
high: number
/**
 * The least that it may be.
 */
low: number
/**
 * Which.
 */
method: ("prefetch" | "prefetch-back" | "faults" | "direct" | "prefetch-evicting")
/**
 * GB/s.
 */
rate: number
/**
 * Where that is from.
 */
why: string
}
/**
 * A change that raises a transfer's rate.
 */
export interface Upgrade {
/**
 * What binds then.
 */
bottleneck: string
/**
 * The same as edits for `--what-if`, in order.
 */
edits: string[]
/**
 * That rate over the one without it.
 */
factor: number
/**
 * The rate it makes possible, in GB/s.
 */
rate: number
/**
 * What is done, in words.
 */
what: string
}
