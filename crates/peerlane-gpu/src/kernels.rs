//! The kernels that measure: their PTX, the names of their entry points, and how to launch them.
//!
//! # Copies, measured
//!
//! Two H200 (132 multiprocessors, NV18 between them), driver 580.159.04, by
//! `scripts/gpu/copy_kernels.sh`: 290 variants, each verified by content (first round, n = 5 or, for host and
//! local, 3); those of this table then ran in turns. GB/s, median of n = 21 samples (11 for host and local),
//! each one launch (for the copy engine, as many copies) of 5 × 256 MiB; host: 2 × 64 MiB. The medians' 95 %
//! intervals are within ±0.1 % between GPUs and one way with the host, ±0.8 % locally, ±3.2 % both ways with the host.
//!
//! | case | copy engine | [`COPY_BULK`] | [`COPY`] | 512 threads × 12 loads |
//! | --- | --- | --- | --- | --- |
//! | write to the peer | 395.0 | 372.6 | 370.7 | 369.4 |
//! | read from the peer | 390.2 | 375.3 | 375.1 | 374.7 |
//! | both ways, writes | 780.4 | 736.5 | 732.6 | 730.2 |
//! | both ways, reads | 770.9 | 675.7 | 675.4 | 674.5 |
//! | host to device | 55.3 | 51.3 | 51.3 | 51.3 |
//! | device to host | 55.2 | 52.6 | 52.6 | 52.6 |
//! | host, both at once | 101.2 | 81.3 | 75.4 | 54.6 |
//! | local (counted once) | 2102 | 2041 | 1986 | 1997 |
//!
//! The last column has the shape of nvbandwidth 0.8's kernel, which itself gave 369.9 to 370.1, 376.0 to 376.2,
//! 731 and 677 beside it (16 × 512 MiB; ours at that size: 372.8, 376.4, 736.8, 677.4, n = 7).
//!
//! * Bulk asynchronous copies win or tie every case: against [`COPY`] by 0.5 % in writes, 2.8 % locally, within
//!   the intervals in reads. So GPUs from compute capability 9.0 take [`COPY_BULK`]; see [`copy_for`].
//! * Eighteen NVLink 4 carry 18 × 25 = 450 GB/s each way (478.1 by the 26.562 that `nvidia-smi nvlink -s`
//!   prints). Of 450 a write reaches 82.8 %, a read 83.4 %, the copy engine 87.8 % (88.1 % at 512 MiB: 396.4). If
//!   each 128 bytes cost one 16-byte header, which is assumed here, 400 would be the limit.
//! * No hint on a load or store (`nc`, `cs`, `wt`, `L1::no_allocate`, `L2::256B`, `relaxed.sys`), order, depth from 4
//!   loads up, or shape of at least a block a multiprocessor mattered much: all lie within 368.8 to 371.2 written and
//!   374.3 to 375.6 read. One load at a time with 256 threads gave 366. Halves written by the owner and read by the
//!   receiver at once gave 376.0 one way (n = 11): who asks is not what limits a kernel.
//! * Few multiprocessors come near: 8 blocks of one working thread (8 stages of 16 KiB) wrote 363.3, 32 read 375.7;
//!   between them more are not always faster (16 wrote 350.8).
//! * Single copies, n = 21: 4 KiB take 5.6 µs written and 6.1 µs read by either kernel, 10 and 20 µs by the copy
//!   engine; from 4 KiB to 16 MiB the kernels are within 2.6 % of each other.
//! * `repeats` over a buffer that L2 can hold in part may be served by L2: one variant read 387.7 GB/s at 20 × 64 MiB
//!   from the peer, where none passed 376.6 at 512 MiB. Below 256 MiB use launches instead of repeats.

/// PTX text of one module and the oldest GPUs that it runs on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Module {
    /// The file in `src/kernels`.
    pub file: &'static str,
    /// PTX text, version 8.2, which driver 535 and later accept.
    pub ptx: &'static str,
    /// Least compute capability, major version.
    pub least_major: u32,
}

macro_rules! module {
    ($file:literal, $least_major:literal) => {
        Module { file: $file, ptx: include_str!(concat!("kernels/", $file)), least_major: $least_major }
    };
}

/// Every module, each of which may be loaded alone.
pub const MODULES: [Module; 10] = [
    BFS_MODULE,
    CHASE_MODULE,
    COLLECTIVE_MODULE,
    COPY_MODULE,
    COPY_BULK_MODULE,
    GATE_MODULE,
    PATTERN_MODULE,
    PINGPONG_MODULE,
    SPIN_GLASS_MODULE,
    TOUCH_MODULE,
];

const BFS_MODULE: Module = module!("bfs.sm_70.ptx", 7);
const CHASE_MODULE: Module = module!("chase.sm_70.ptx", 7);
const COLLECTIVE_MODULE: Module = module!("collective.sm_70.ptx", 7);
const COPY_MODULE: Module = module!("copy.sm_70.ptx", 7);
const COPY_BULK_MODULE: Module = module!("copy_bulk.sm_90.ptx", 9);
const GATE_MODULE: Module = module!("gate.sm_70.ptx", 7);
const PATTERN_MODULE: Module = module!("pattern.sm_70.ptx", 7);
const PINGPONG_MODULE: Module = module!("pingpong.sm_70.ptx", 7);
const SPIN_GLASS_MODULE: Module = module!("spin_glass.sm_70.ptx", 7);
const TOUCH_MODULE: Module = module!("touch.sm_70.ptx", 7);

/// How many blocks a launch has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Blocks {
    /// One block in all.
    One,
    /// As many on each multiprocessor.
    PerMultiprocessor(u32),
    /// So many, or one on each multiprocessor where there are fewer.
    UpTo(u32),
    /// As many as the work needs: whoever launches it counts them.
    ByWork,
}

/// An entry point and the launch that was found best for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Kernel {
    /// Where its text is.
    pub module: Module,
    /// The entry point.
    pub name: &'static str,
    /// Threads a block.
    pub threads: u32,
    /// Blocks.
    pub blocks: Blocks,
    /// Dynamic shared memory a block, in bytes. Above 48 KiB the function's attribute
    /// `CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES` must be raised to it before the launch.
    pub shared_bytes: u32,
}

impl Kernel {
    const fn new(module: Module, name: &'static str, threads: u32, blocks: Blocks) -> Self {
        Self { module, name, threads, blocks, shared_bytes: 0 }
    }

    /// Blocks of a launch on a GPU with so many multiprocessors.
    #[must_use]
    pub const fn grid(&self, multiprocessors: u32) -> u32 {
        match self.blocks {
            Blocks::One | Blocks::ByWork => 1,
            Blocks::PerMultiprocessor(blocks) => blocks.saturating_mul(multiprocessors),
            Blocks::UpTo(blocks) => {
                if blocks < multiprocessors {
                    blocks
                } else {
                    multiprocessors
                }
            }
        }
    }
}

/// `copy(dst, src, bytes: u64, repeats: u32)`: copies by loads and stores, `repeats` times over.
///
/// Any `bytes`; `dst` and `src` are addresses of 16-byte alignment that the launching GPU sees: its own, a
/// peer's, or the host's mapped memory. Runs on `dst`'s owner for a remote read, on `src`'s for a remote write.
/// A thread has 8 × 16 bytes in flight.
pub const COPY: Kernel = Kernel::new(COPY_MODULE, "copy", 512, Blocks::PerMultiprocessor(1));

/// `copy_bulk(dst, src, bytes: u64, repeats: u32)`: as [`COPY`], by bulk asynchronous copies (compute
/// capability 9.0 up). A block has 16 × 4 KiB in flight; one of its threads works.
pub const COPY_BULK: Kernel =
    Kernel { shared_bytes: 16 * 4096, ..Kernel::new(COPY_BULK_MODULE, "copy_bulk", 32, Blocks::PerMultiprocessor(1)) };

/// The faster of [`COPY`] and [`COPY_BULK`] that runs on GPUs of a compute capability, by its major version.
#[must_use]
pub const fn copy_for(major: u32) -> Kernel {
    if major >= COPY_BULK.module.least_major { COPY_BULK } else { COPY }
}

/// Blocks of a copy to or from host memory: 4 do as well as all (H200, PCIe 5.0 x16).
pub const WITH_HOST: Blocks = Blocks::UpTo(24);

/// `copy_both(dst, src, back_dst, back_src, bytes: u64, repeats: u32)`: as [`COPY`], both ways at once, for host memory.
///
/// With two kernels side by side the ways drift apart. H200, PCIe 5.0 x16, sums of both ways, n = 2, by `scripts/gpu/host_ways.sh`:
/// two kernels at best 75.2 GB/s where a launch copies 64 MiB four times, and 81.2 where 64 times (24 blocks from the
/// host, 12 to it; evenly divided 73.6 and 79.2); this one 84.2 to 84.6 with one copy a launch. More blocks are no better:
/// 83.5 with 132.
pub const COPY_BOTH: Kernel = Kernel::new(COPY_MODULE, "copy_both", 128, Blocks::UpTo(32));

/// `fill(buffer, words: u64, seed: u32, flip: u32)`: writes [`pattern_word`](crate::pattern::pattern_word) `^ flip`
/// to each of `words` 4-byte words of a 16-byte aligned buffer; `flip` is [`PLAIN`] or [`POISON`].
///
/// 4,303 GB/s on an H200 (1 GiB, n = 11, 95 % of the median 4,293 to 4,320; one or four blocks a
/// multiprocessor: 4,281 and 4,273), by `scripts/gpu/kernel_check.sh`.
pub const FILL: Kernel = Kernel::new(PATTERN_MODULE, "fill", 512, Blocks::PerMultiprocessor(2));

/// The `flip` of [`FILL`] that writes what [`VERIFY`] wants.
pub const PLAIN: u32 = 0;

/// The `flip` of [`FILL`] after which every word is wrong for [`VERIFY`]: a target that no copy reached.
pub const POISON: u32 = u32::MAX;

/// `verify(buffer, words: u64, seed: u32, found)`: compares with the pattern. `found` is two `u64` that the
/// caller clears: the first then holds the number of wrong words, the second the complement of the lowest
/// one's index.
///
/// 4,238 GB/s on an H200 (as for [`FILL`]: 4,224 to 4,270; one or four blocks: 3,791 and 3,833).
pub const VERIFY: Kernel = Kernel::new(PATTERN_MODULE, "verify", 512, Blocks::PerMultiprocessor(2));

/// `build_ring(ring, bytes: u64, stride: u64)`: the nodes that [`CHASE`] follows, `stride` bytes apart (a
/// multiple of 8). Runs on the memory's owner; for host memory on any GPU that maps it.
pub const BUILD_RING: Kernel = Kernel::new(CHASE_MODULE, "build_ring", 256, Blocks::PerMultiprocessor(1));

/// `chase(result, steps: u64, chosen: u32)`: `steps` timed loads, each needing the one before, on block `chosen` alone,
/// after one that is not timed, since it waits for `result`.
/// `result` is three `u64`: the address to start from, which becomes the one reached; ns; cycles.
///
/// Two H200, ring of 2 MiB, stride of 128 bytes, 2,000 loads on each of 132 blocks: 826.4 ns to the peer
/// (median; 794.9 to 857.1 by multiprocessor), 1,168 ns to the host (1,112 to 1,186), 142.9 ns locally (137 to
/// 186, from L2). nvbandwidth 0.8 beside it: 827.5 and 827.8 to the peer. By `scripts/gpu/kernel_check.sh`.
pub const CHASE: Kernel = Kernel::new(CHASE_MODULE, "chase", 1, Blocks::PerMultiprocessor(1));

/// `pingpong(mine, theirs, first: u32, ordered: u32, warmup: u32, rounds: u32, limit_ns: u64, result)`: round
/// trips of a flag between two kernels. `mine` is the `u32` that this side polls, in its own memory, `theirs`
/// the other side's; both cleared. `warmup` ≥ 1. `result` is four `u64`: timed rounds done, their ns, their
/// cycles, and 1 if it gave up after `limit_ns`.
///
/// Two H200, 10,000 rounds, n = 11: 1,572 ns a round trip relaxed (1,571.8 to 1,572.1), 2,689 ns with release
/// and acquire (2,688 to 2,693). By `scripts/gpu/kernel_check.sh`.
pub const PINGPONG: Kernel = Kernel::new(PINGPONG_MODULE, "pingpong", 1, Blocks::One);

/// `gate(flag, value: u32, limit_ns: u64, late)`: ends once the `u32` at `flag` has reached `value` (as
/// `cuStreamWaitValue32` counts, wrapping), or after `limit_ns`, when it sets the `u32` at `late` to 1. Both are in
/// pinned, mapped host memory.
pub const GATE: Kernel = Kernel::new(GATE_MODULE, "gate", 1, Blocks::One);

/// `touch_read(buffer, words: u64, stride: u64, sum)`: adds every `stride`-th `u32` of a buffer to the `u64`
/// at `sum`. A stride of 1,024 touches each 4 KiB page once.
pub const TOUCH_READ: Kernel = Kernel::new(TOUCH_MODULE, "touch_read", 512, Blocks::PerMultiprocessor(2));

/// `touch_write(buffer, words: u64, stride: u64, value: u32)`: writes `value` to every `stride`-th `u32`.
pub const TOUCH_WRITE: Kernel = Kernel::new(TOUCH_MODULE, "touch_write", 512, Blocks::PerMultiprocessor(2));

/// `numbers(buffer, count: u64, rank: u32)`: writes what a rank contributes to a collective, `i mod 64 + rank` as
/// element `i` of `count` 32-bit floating-point ones: small whole numbers, whose sums are exact in any order.
pub const NUMBERS: Kernel = Kernel::new(COLLECTIVE_MODULE, "numbers", 512, Blocks::PerMultiprocessor(2));

/// `verify_numbers(buffer, count: u64, factor: u32, add: u32, part: u64, offset: u64, step: u32, found)`: compares with
/// `factor · ((offset + i mod part) mod 64) + add + step · (i div part)`; `found` as for [`VERIFY`].
pub const VERIFY_NUMBERS: Kernel = Kernel::new(COLLECTIVE_MODULE, "verify_numbers", 512, Blocks::PerMultiprocessor(2));

/// `over_relax(own, other, below, above, couplings, to_below, to_above, arrived, done, tell_below, tell_above, side: u32, planes: u32,
/// first: u32, count: u32, colour: u32, shape: u32, ends: u32, awaited: u32, step: u32, by_across: u64, by_strip: u64, by_layers: u64)`:
/// half a sweep of the spin glass over `count` planes of a slab and, by `ends` blocks, its first and last. `own` and `other` are the
/// spins of the colour that is updated and of its neighbours, 16-byte aligned; `below` and `above` the planes beside the slab, of
/// the other colour; the two after the couplings are 0 or the neighbours' copies of the slab's ends; `arrived` and `done` two words
/// each, of this GPU's memory; the two after them 0 or the words that tell where each end is. `side` is a multiple of 64.
pub const OVER_RELAX: Kernel = Kernel::new(SPIN_GLASS_MODULE, "over_relax", 256, Blocks::ByWork);

/// `relax_block(own, other, couplings, left, right, before, behind, below, above, to_left … to_above, arrived, done, tell_left …
/// tell_above, width: u32, height: u32, planes: u32, colour: u32, shape: u32, surface: u32, cut: u32, awaited: u32, step: u32,
/// by_across: u64, by_strip: u64, by_layers: u64)`: the same of a block that is cut along any axes, by `surface` blocks of threads
/// its surface; those of the faces are 0 along axes that it is not cut along, but `below` and `above`. `width` is a multiple of 16, `height` is even.
pub const RELAX_BLOCK: Kernel = Kernel::new(SPIN_GLASS_MODULE, "relax_block", 256, Blocks::ByWork);

/// `draw_spins(own, width: u32, height: u32, planes: u32, from_x: u32, from_y: u32, from_z: u32, across: u32, down: u32, deep: u32,
/// colour: u32, seed: u32)`: directions of the places of one colour of a block; `across`, `down` and `deep` are the lattice's places
/// along each axis.
pub const DRAW_SPINS: Kernel = Kernel::new(SPIN_GLASS_MODULE, "draw_spins", 256, Blocks::PerMultiprocessor(8));

/// `draw_couplings(couplings, …)`: as [`DRAW_SPINS`]; a byte a place.
pub const DRAW_COUPLINGS: Kernel = Kernel::new(SPIN_GLASS_MODULE, "draw_couplings", 256, Blocks::PerMultiprocessor(8));

/// `inspect(own, other, couplings, left, right, before, behind, below, above, sums, width: u32, height: u32, planes: u32, from_x: u32,
/// from_y: u32, from_z: u32, across: u32, down: u32, colour: u32)`: adds a block's energy, bits and lengths to three `u64` that the
/// caller clears.
pub const INSPECT: Kernel = Kernel::new(SPIN_GLASS_MODULE, "inspect", 256, Blocks::PerMultiprocessor(4));

/// `count_arcs(degrees, edges: u64, scale: u32, seed: u32)`: adds each edge of a Kronecker graph to both of its ends' degrees, which
/// the caller clears; loops are left out.
pub const COUNT_ARCS: Kernel = Kernel::new(BFS_MODULE, "count_arcs", 256, Blocks::PerMultiprocessor(8));

/// `rank(degrees, places, labels, names, count: u32, part: u32, parts: u32, span: u32)`: counts the classes of degrees of a part's
/// vertices, 512 a warp, into `places` (`labels` 0), or gives each vertex its label by what `places` then holds.
pub const RANK: Kernel = Kernel::new(BFS_MODULE, "rank", 128, Blocks::ByWork);

/// `own_degrees(degrees, names, lengths, count: u32)`: the degrees of a part's vertices, by rank.
pub const OWN_DEGREES: Kernel = Kernel::new(BFS_MODULE, "own_degrees", 256, Blocks::PerMultiprocessor(8));

/// `count_into(labels, lengths, edges: u64, scale: u32, seed: u32, part: u32, span: u32)`: for each label the arcs to a part, added
/// to what the caller clears.
pub const COUNT_INTO: Kernel = Kernel::new(BFS_MODULE, "count_into", 256, Blocks::PerMultiprocessor(8));

/// `block_sums(lengths, sums, count: u32)`: the sum of each [`LENGTHS`] lengths.
pub const BLOCK_SUMS: Kernel = Kernel::new(BFS_MODULE, "block_sums", 256, Blocks::ByWork);

/// `begin_at(lengths, sums, offsets, count: u32)`: where each vertex's arcs begin, one place late; `sums` holds where those of each
/// [`LENGTHS`] do.
pub const BEGIN_AT: Kernel = Kernel::new(BFS_MODULE, "begin_at", 256, Blocks::ByWork);

/// Lengths that a block of [`BLOCK_SUMS`] and [`BEGIN_AT`] has.
pub const LENGTHS: usize = 4096;

/// `fill_arcs(labels, offsets, arcs, edges: u64, scale: u32, seed: u32, part: u32, span: u32, into: u32, least: u32, most: u32)`: the
/// arcs to vertices with these ranks, from a part's vertices or to them; moves each offset on.
pub const FILL_ARCS: Kernel = Kernel::new(BFS_MODULE, "fill_arcs", 256, Blocks::PerMultiprocessor(8));

/// `first_arcs(offsets, arcs, firsts, count: u32)`: where each vertex's first arc leads.
pub const FIRST_ARCS: Kernel = Kernel::new(BFS_MODULE, "first_arcs", 256, Blocks::PerMultiprocessor(8));

/// `plant(frontier, seen, parents, root: u32, part: u32, span: u32)`: begins a search at a label.
pub const PLANT: Kernel = Kernel::new(BFS_MODULE, "plant", 1, Blocks::One);

/// `list_chunks(frontier, offsets, chunks, listed, words: u32)`: lists the frontier's arcs, 512 an entry.
pub const LIST_CHUNKS: Kernel = Kernel::new(BFS_MODULE, "list_chunks", 256, Blocks::PerMultiprocessor(8));

/// `go_down(chunks, listed, offsets, arcs, rows, seen, next, parents, found, part: u32, span: u32)`: a level from the frontier's
/// side; adds vertices and their arcs to the two `u64` of `found`.
pub const GO_DOWN: Kernel = Kernel::new(BFS_MODULE, "go_down", 256, Blocks::PerMultiprocessor(8));

/// `go_up(frontier, offsets, arcs, firsts, seen, next, parents, found, words: u32)`: a level from the side of what is not found yet;
/// adds vertices to `found`, and writes all `words` of `next`.
pub const GO_UP: Kernel = Kernel::new(BFS_MODULE, "go_up", 256, Blocks::PerMultiprocessor(16));

/// `sum_arcs(parents, rows, sum, count: u32)`: adds the arcs of a part's vertices that were found to a `u64`.
pub const SUM_ARCS: Kernel = Kernel::new(BFS_MODULE, "sum_arcs", 256, Blocks::PerMultiprocessor(8));

/// `name_parents(labels, names, parents, tree, count: u32, part: u32, parts: u32, span: u32, connected: u32)`: a part of the tree, by
/// names.
pub const NAME_PARENTS: Kernel = Kernel::new(BFS_MODULE, "name_parents", 256, Blocks::PerMultiprocessor(8));

/// `find_levels(tree, levels, counted, level: u32, vertices: u32, parts: u32, stretch: u32)`: gives the children of a level's
/// vertices theirs, a byte each, and adds how many to a `u64`.
pub const FIND_LEVELS: Kernel = Kernel::new(BFS_MODULE, "find_levels", 256, Blocks::PerMultiprocessor(8));

/// `compare_edges(tree, levels, joined, counted, edges: u64, scale: u32, seed: u32, parts: u32, stretch: u32)`: adds the edges inside
/// a tree, and those that it is wrong about, to two `u64`; marks names whose edge to their parent exists.
pub const COMPARE_EDGES: Kernel = Kernel::new(BFS_MODULE, "compare_edges", 256, Blocks::PerMultiprocessor(8));

/// `compare_vertices(tree, levels, joined, counted, root: u32, vertices: u32, parts: u32, stretch: u32)`: adds the vertices of a tree,
/// those without a level, and those without an edge to their parent, to three `u64`.
pub const COMPARE_VERTICES: Kernel = Kernel::new(BFS_MODULE, "compare_vertices", 256, Blocks::PerMultiprocessor(8));

/// Every kernel.
pub const KERNELS: [Kernel; 35] = [
    COPY,
    COPY_BOTH,
    COPY_BULK,
    FILL,
    VERIFY,
    BUILD_RING,
    CHASE,
    PINGPONG,
    GATE,
    TOUCH_READ,
    TOUCH_WRITE,
    NUMBERS,
    VERIFY_NUMBERS,
    OVER_RELAX,
    RELAX_BLOCK,
    DRAW_SPINS,
    DRAW_COUPLINGS,
    INSPECT,
    COUNT_ARCS,
    RANK,
    OWN_DEGREES,
    COUNT_INTO,
    BLOCK_SUMS,
    BEGIN_AT,
    FILL_ARCS,
    FIRST_ARCS,
    PLANT,
    LIST_CHUNKS,
    GO_DOWN,
    GO_UP,
    SUM_ARCS,
    NAME_PARENTS,
    FIND_LEVELS,
    COMPARE_EDGES,
    COMPARE_VERTICES,
];

/// The part of a module's text that declares an entry point: parameters, then what it demands of a launch.
fn declaration<'t>(ptx: &'t str, name: &str) -> Option<&'t str> {
    let start = ptx.find(&format!(".visible .entry {name}("))?;
    let rest = &ptx[start..];
    rest.find('{').map(|end| &rest[..end])
}

/// Bytes of each parameter of an entry point, by a module's text; `None` where it declares none of that name, or a parameter
/// that is no number.
#[must_use]
pub fn signature(ptx: &str, name: &str) -> Option<Vec<u32>> {
    let parameters = declaration(ptx, name)?.lines().filter_map(|line| line.trim().strip_prefix(".param ."));
    let width = |parameter: &str| match parameter.split(' ').next()? {
        "u64" => Some(8),
        "u32" => Some(4),
        _ => None,
    };
    parameters.map(width).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn the_table_holds_every_module_and_every_entry_point() {
        let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("src/kernels");
        let files: BTreeSet<String> = std::fs::read_dir(folder)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .filter(|name| name.ends_with(".ptx"))
            .collect();
        assert_eq!(files, MODULES.iter().map(|module| module.file.to_owned()).collect());

        for module in &MODULES {
            let declared: BTreeSet<&str> =
                module.ptx.split(".visible .entry ").skip(1).map(|rest| rest.split('(').next().unwrap()).collect();
            let listed: BTreeSet<&str> =
                KERNELS.iter().filter(|kernel| kernel.module == *module).map(|kernel| kernel.name).collect();
            assert_eq!(declared, listed, "{}", module.file);
            assert!(module.ptx.contains(&format!(".target sm_{}0", module.least_major)), "{}", module.file);
        }
    }

    /// The docs of each constant give the order of arguments; these are their widths in bytes.
    #[test]
    fn arguments_are_as_documented() {
        let widths = |kernel: &Kernel| signature(kernel.module.ptx, kernel.name).unwrap();
        assert_eq!(widths(&COPY), [8, 8, 8, 4]);
        assert_eq!(widths(&COPY_BULK), [8, 8, 8, 4]);
        assert_eq!(widths(&FILL), [8, 8, 4, 4]);
        assert_eq!(widths(&VERIFY), [8, 8, 4, 8]);
        assert_eq!(widths(&BUILD_RING), [8, 8, 8]);
        assert_eq!(widths(&CHASE), [8, 8, 4]);
        assert_eq!(widths(&PINGPONG), [8, 8, 4, 4, 4, 4, 8, 8]);
        assert_eq!(widths(&GATE), [8, 4, 8, 8]);
        assert_eq!(widths(&TOUCH_READ), [8, 8, 8, 8]);
        assert_eq!(widths(&TOUCH_WRITE), [8, 8, 8, 4]);
        assert_eq!(widths(&NUMBERS), [8, 8, 4]);
        assert_eq!(widths(&VERIFY_NUMBERS), [8, 8, 4, 4, 8, 8, 4, 8]);
        assert_eq!(widths(&OVER_RELAX), [8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 4, 4, 4, 4, 4, 4, 4, 4, 4, 8, 8, 8]);
        let relax_block = [[8; 23].as_slice(), &[4; 9], &[8; 3]].concat();
        assert_eq!(widths(&RELAX_BLOCK), relax_block);
        let draw = [[8].as_slice(), &[4; 11]].concat();
        assert_eq!([widths(&DRAW_SPINS), widths(&DRAW_COUPLINGS)], [draw.clone(), draw]);
        assert_eq!(widths(&INSPECT), [[8; 10].as_slice(), &[4; 9]].concat());
        assert_eq!(widths(&COUNT_ARCS), [8, 8, 4, 4]);
        assert_eq!(widths(&RANK), [8, 8, 8, 8, 4, 4, 4, 4]);
        assert_eq!(widths(&OWN_DEGREES), [8, 8, 8, 4]);
        assert_eq!(widths(&COUNT_INTO), [8, 8, 8, 4, 4, 4, 4]);
        assert_eq!(widths(&BLOCK_SUMS), [8, 8, 4]);
        assert_eq!(widths(&BEGIN_AT), [8, 8, 8, 4]);
        assert_eq!(widths(&FILL_ARCS), [8, 8, 8, 8, 4, 4, 4, 4, 4, 4, 4]);
        assert_eq!(widths(&FIRST_ARCS), [8, 8, 8, 4]);
        assert_eq!(widths(&PLANT), [8, 8, 8, 4, 4, 4]);
        assert_eq!(widths(&LIST_CHUNKS), [8, 8, 8, 8, 4]);
        assert_eq!(widths(&GO_DOWN), [8, 8, 8, 8, 8, 8, 8, 8, 8, 4, 4]);
        assert_eq!(widths(&GO_UP), [8, 8, 8, 8, 8, 8, 8, 8, 4]);
        assert_eq!(widths(&SUM_ARCS), [8, 8, 8, 4]);
        assert_eq!(widths(&NAME_PARENTS), [8, 8, 8, 8, 4, 4, 4, 4, 4]);
        assert_eq!(widths(&FIND_LEVELS), [8, 8, 8, 4, 4, 4, 4]);
        assert_eq!(widths(&COMPARE_EDGES), [8, 8, 8, 8, 8, 4, 4, 4, 4]);
        assert_eq!(widths(&COMPARE_VERTICES), [8, 8, 8, 8, 4, 4, 4, 4]);
    }

    #[test]
    fn launches_respect_what_the_kernels_were_compiled_for() {
        for kernel in &KERNELS {
            let most =
                declaration(kernel.module.ptx, kernel.name).unwrap().split(".maxntid ").nth(1).map_or(1024, |rest| {
                    rest.split(|c: char| !c.is_ascii_digit()).next().unwrap().parse::<u32>().unwrap()
                });
            assert!(kernel.threads <= most, "{}: {} threads of {most}", kernel.name, kernel.threads);
            let whole_warps = kernel.threads == 1 || kernel.threads % 32 == 0;
            assert!(whole_warps, "{}: touch_read adds up whole warps", kernel.name);
        }
    }

    #[test]
    fn shared_memory_is_what_the_source_asks_for() {
        let source = include_str!("kernels/copy_bulk.sm_90.cu");
        let defined = |name: &str| -> u32 {
            let line = source.lines().find_map(|line| line.strip_prefix(&format!("#define {name} "))).unwrap();
            line.parse().unwrap()
        };
        assert_eq!(COPY_BULK.shared_bytes, defined("STAGES") * defined("CHUNK"));
    }

    #[test]
    fn hopper_and_later_copy_in_bulk() {
        assert_eq!(
            [7, 8, 9, 10, 12].map(|major| copy_for(major).name),
            ["copy", "copy", "copy_bulk", "copy_bulk", "copy_bulk"]
        );
        assert_eq!(COPY.grid(132), 132);
        assert_eq!(FILL.grid(132), 264);
        assert_eq!(GATE.grid(132), 1);
    }
}
