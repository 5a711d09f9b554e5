//! What a machine can do at most, so that a number beyond it is not taken for a measurement.
//!
//! A library that does nothing and reports success is infinitely fast. Rates are compared with the raw rates of links and
//! memories, times with what any signal takes. The limits are generous: nothing that a machine does may exceed them.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;

use super::{Cell, Flag, FlagKind, ends};
use crate::plan::Work;
use peerlane_machine::fabric::{Fabric, LinkId, LinkKind, NodeId, NodeKind};
use peerlane_machine::machine::Machine;
use peerlane_machine::matrix::{Quantity, Unit};
use peerlane_machine::names::is_host;
use peerlane_machine::transfer::{Collective, Transfer, Via};
use peerlane_machine::units::Bytes;
use peerlane_read::catalogue::{Part, Parts};

/// How far a rate may lie above a link's raw rate: clocks differ, and a generation may be misread by a few per cent.
const LINK_ALLOWANCE: f64 = 1.3;

/// How far above a memory's rate what caches hold may be read: an H100's L2 gives about twice its memory's rate, caches of
/// CPUs several times theirs.
const CACHE_ALLOWANCE: f64 = 8.0;

/// From this size on no cache of a GPU holds a message; the largest L2 has 256 MB (MI300X).
const BEYOND_CACHES: Bytes = Bytes(1 << 30);

/// GB/s of a memory that no part states: several times the fastest of any device (22 TB/s, Rubin's HBM4).
const ANY_MEMORY: f64 = 100_000.0;

/// The least time of one load from a device's own memory or caches in ns: about a cycle.
const LEAST_LOCAL_NS: f64 = 0.3;

/// The least time across a link in ns: a transmitter, a receiver and some decimetres of copper take longer.
const LEAST_ACROSS_NS: f64 = 10.0;

/// The most that something can be, and what limits it.
#[derive(Clone, Debug, PartialEq)]
struct Most {
    /// In GB/s, without allowance.
    gb: f64,
    /// How far above it a value may lie.
    allowance: f64,
    /// What has the limit.
    what: String,
}

impl Most {
    fn least(self, other: Most) -> Most {
        if other.gb * other.allowance < self.gb * self.allowance { other } else { self }
    }
}

/// The physical limits of one machine.
#[derive(Clone, Copy, Debug)]
pub struct Limits<'m> {
    fabric: &'m Fabric,
    parts: &'m Parts,
}

impl<'m> Limits<'m> {
    /// Of a machine.
    pub fn of(machine: &'m Machine) -> Self {
        Limits { fabric: &machine.fabric, parts: Parts::embedded() }
    }

    /// Flags cells that exceed a limit as [`FlagKind::Implausible`], with all other cells of the same step: their values stay,
    /// and count nowhere.
    pub fn flag(&self, cells: &mut [Cell]) {
        Self::mark(cells, &self.beyond(cells));
    }

    /// The same of cells that were recorded without it.
    pub(super) fn flagged<'c>(&self, cells: &'c [Cell]) -> Cow<'c, [Cell]> {
        let beyond = self.beyond(cells);
        if beyond.is_empty() {
            return Cow::Borrowed(cells);
        }
        let mut cells = cells.to_vec();
        Self::mark(&mut cells, &beyond);
        Cow::Owned(cells)
    }

    /// Steps with a value that cannot be, and why; without those that are flagged already.
    fn beyond(&self, cells: &[Cell]) -> BTreeMap<usize, String> {
        let open = cells.iter().filter(|cell| cell.flag(FlagKind::Implausible).is_none());
        open.filter_map(|cell| Some((cell.step, self.excess(cell)?))).collect()
    }

    fn mark(cells: &mut [Cell], beyond: &BTreeMap<usize, String>) {
        for cell in cells {
            if let Some(detail) = beyond.get(&cell.step)
                && cell.flag(FlagKind::Implausible).is_none()
            {
                cell.flags.push(Flag::new(FlagKind::Implausible, detail));
            }
        }
    }

    /// Why a cell's value cannot be.
    fn excess(&self, cell: &Cell) -> Option<String> {
        let estimate = cell.estimate?;
        let value = estimate.value;
        if !cell.work.kind().answers().contains(&(cell.quantity, cell.unit)) {
            let (quantity, unit) = (cell.quantity.name(), cell.unit.name());
            return Some(format!("{} has no {quantity} in {unit}: the record is wrong", ends(&cell.work)));
        }
        if !(estimate.is_possible() && value > 0.0) && cell.unit.time(1.0).is_none() {
            return Some(format!("{value} {} is no measurement: the record or the clock is wrong", cell.unit.name()));
        }
        let why = "the library did not do the work, or the clock is wrong";
        let too_fast = |value: f64, most: &Most| {
            (value.is_nan() || value > most.gb * most.allowance).then(|| {
                format!("{} exceeds what {} can carry ({}); {why}", GbPerSecond(value), most.what, GbPerSecond(most.gb))
            })
        };
        match (cell.quantity, &cell.work) {
            (Quantity::Bandwidth, Work::Transfers(transfers)) => {
                let each = transfers.iter().map(|transfer| self.of_transfer(transfer, cell.size));
                let each: Vec<Most> = each.collect();
                let alone = cell.each.iter().zip(&each).find_map(|(one, most)| too_fast(one.value, most));
                alone.or_else(|| {
                    let all = each.iter().map(|most| most.gb * most.allowance).sum::<f64>();
                    let first = each.first()?;
                    let gb = each.iter().map(|most| most.gb).sum();
                    let what =
                        if each.len() == 1 { first.what.clone() } else { format!("the paths of {}", ends(&cell.work)) };
                    too_fast(value, &Most { gb, allowance: all / gb, what })
                })
            }
            (Quantity::Bandwidth, Work::HostMemory { node, .. }) => too_fast(value, &self.memory(node, Bytes(0))),
            (Quantity::Bandwidth, Work::Rdma(rdma)) => {
                let (from, to) = (&rdma.from, &rdma.to);
                let staged = rdma.via != Via::Direct;
                let legs = match rdma.gpu() {
                    // the GPU's own copies, and out and back with the host memory in its place
                    Some(_) if staged && is_host(&from.memory) => {
                        vec![(&from.memory, &from.nic), (&to.nic, &from.memory), (&from.memory, &to.memory)]
                    }
                    Some(_) if staged => {
                        vec![(&from.memory, &to.memory), (&to.memory, &from.nic), (&to.nic, &to.memory)]
                    }
                    _ => vec![(&from.memory, &from.nic), (&to.nic, &to.memory)],
                };
                let legs = legs.into_iter().map(|(a, b)| self.of_transfer(&Transfer::new(a, b), cell.size));
                too_fast(value, &legs.reduce(Most::least)?)
            }
            (Quantity::BusBandwidth, Work::Collective { operation, gpus }) => {
                let most = gpus.iter().map(|gpu| self.of_rank(gpu, *operation, cell.size)).reduce(Most::least)?;
                too_fast(value, &most)
            }
            (Quantity::LoadLatency | Quantity::SignalLatency | Quantity::Latency, work) => {
                let local = matches!(work, Work::Loads { gpu, memory } if gpu == memory)
                    || matches!(work, Work::SmallCopies(transfer) if transfer.source == transfer.destination);
                let least = if local { LEAST_LOCAL_NS } else { LEAST_ACROSS_NS };
                let ns = if cell.unit == Unit::Nanoseconds { value } else { value * 1e3 };
                let enough = ns >= least;
                (!enough).then(|| format!("{ns:.2} ns is less than any such path takes ({least} ns); {why}"))
            }
            _ => None,
        }
    }

    /// The rate of one transfer.
    fn of_transfer(&self, transfer: &Transfer, size: Bytes) -> Most {
        let memories = self.memory(&transfer.source, size).least(self.memory(&transfer.destination, size));
        match self.path(transfer) {
            Some(path) => path.least(memories),
            None => memories,
        }
    }

    /// The narrowest link between the ends of a transfer, where that is sure.
    fn path(&self, transfer: &Transfer) -> Option<Most> {
        let resolved = peerlane_model::expectation::resolve(self.fabric, transfer)?;
        let (from, to) = (resolved.source, resolved.destination);
        if from == to || self.fabric.is_path_unknown(from, to) {
            return None;
        }
        let path = self.fabric.path(from, to)?;
        let has_other = path.hops.iter().all(|hop| !matches!(self.fabric.link(hop.link).kind, LinkKind::Gpu(_)));
        // bridges that no source shows may join GPUs that have the plugs for them
        let bridged = |id| self.part(id).and_then(|part| part.nvlink_bricks).is_some_and(|n| n > 0);
        if has_other && bridged(from) && bridged(to) {
            return None;
        }
        path.hops.iter().filter_map(|hop| self.link(hop.link)).reduce(Most::least)
    }

    /// A link, one way.
    fn link(&self, id: LinkId) -> Option<Most> {
        let link = self.fabric.link(id);
        if link.assumed {
            return None;
        }
        let (gb, kind) = match &link.kind {
            // an idle link may run slower than it can
            LinkKind::Pcie { running, allowed, .. } => {
                let ends = [link.a, link.b].map(|id| self.part(id).and_then(|part| part.pcie));
                let widths = [Some(*running), Some(*allowed)].into_iter().chain(ends).flatten();
                let known = widths.filter_map(|width| Some((width.raw_rate()?.gb(), width)));
                let (gb, width) = known.max_by(|(a, _), (b, _)| a.total_cmp(b))?;
                // where the width that is allowed is not known, it may be any
                allowed.raw_rate().or_else(|| ends.iter().flatten().find_map(|width| width.raw_rate()))?;
                (gb, format!("PCIe {width}"))
            }
            LinkKind::Gpu(bundle) => {
                let each = bundle.interconnect.generation(Some(bundle.generation?))?.highest_rate()?;
                (each * f64::from(bundle.links?), bundle.to_string())
            }
            _ => return None,
        };
        let (a, b) = (self.fabric.node(link.a), self.fabric.node(link.b));
        // the GPU first
        let (a, b) = if b.kind == NodeKind::Gpu && a.kind != NodeKind::Gpu { (b, a) } else { (a, b) };
        Some(Most { gb, allowance: LINK_ALLOWANCE, what: format!("{}–{} ({kind})", a.name, b.name) })
    }

    /// The bus bandwidth of a collective, by all that one rank sends.
    fn of_rank(&self, gpu: &str, operation: Collective, size: Bytes) -> Most {
        let memory = self.memory(gpu, size);
        let Some(id) = self.fabric.find(gpu) else { return memory };
        let links: Option<Vec<Most>> = self.fabric.links_of(id).iter().map(|(link, _)| self.link(*link)).collect();
        let unseen =
            self.part(id).and_then(|part| part.nvlink_bricks).is_some_and(|n| n > 0) && self.fabric.nvlinks_of(id) == 0;
        let Some(links) = links.filter(|links| !links.is_empty() && !unseen) else { return memory };
        // a switch that adds up or copies saves a rank half of what it would send
        let saved = if matches!(operation, Collective::SendReceive | Collective::AllToAll) { 1.0 } else { 2.0 };
        let gb = links.iter().map(|link| link.gb).sum::<f64>();
        Most { gb, allowance: LINK_ALLOWANCE * saved, what: format!("all links of {gpu}") }.least(memory)
    }

    /// The memory of a node.
    fn memory(&self, name: &str, size: Bytes) -> Most {
        let host = is_host(name);
        let id = self.fabric.find(name);
        // parts state a CPU's memory with one module a channel; how many a machine has, few sources do
        let rate = match id {
            Some(id) if self.fabric.node(id).kind == NodeKind::Gpu => {
                self.part(id).and_then(|part| part.constant("memory_rate"))
            }
            _ => None,
        };
        let cached = host || size < BEYOND_CACHES;
        let allowance = if cached { CACHE_ALLOWANCE } else { LINK_ALLOWANCE };
        let (gb, allowance) = rate.map_or((ANY_MEMORY, 1.0), |gb| (gb, allowance));
        let what = if rate.is_some() { format!("the memory of {name}") } else { "any memory".to_owned() };
        Most { gb, allowance, what }
    }

    fn part(&self, id: NodeId) -> Option<&'m Part> {
        self.fabric.node(id).part.as_deref().and_then(|name| self.parts.get(name))
    }
}

/// A rate in words, with the prefix that suits it.
struct GbPerSecond(f64);

impl fmt::Display for GbPerSecond {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            gb if gb >= 1e6 => write!(f, "{:.0} PB/s", gb / 1e6),
            gb if gb >= 1e4 => write!(f, "{:.0} TB/s", gb / 1e3),
            gb => write!(f, "{gb:.0} GB/s"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::Test;
    use crate::run::Estimate;
    use peerlane_read::catalogue::system;

    fn cell(work: Work, size: u64, quantity: Quantity, unit: Unit, value: f64) -> Cell {
        let estimate = Some(Estimate { value, low: value, high: value });
        let (each, modes, flags, samples) = Default::default();
        Cell {
            step: 3,
            test: Test::Pairs,
            work,
            size: Bytes(size),
            quantity,
            unit,
            estimate,
            n: 9,
            phases: None,
            registration: None,
            each,
            modes,
            flags,
            samples,
        }
    }

    /// What the flag of such a value states, on the machine of that name.
    fn said(machine: &str, work: Work, quantity: Quantity, unit: Unit, value: f64) -> Option<String> {
        let machine = system(machine).unwrap().unwrap();
        let mut cells = [cell(work, 1 << 30, quantity, unit, value)];
        Limits::of(&machine).flag(&mut cells);
        assert_eq!(cells[0].estimate.unwrap().value.to_bits(), value.to_bits(), "the record keeps it");
        assert_eq!(cells[0].value().is_none(), cells[0].is_void());
        cells[0].flag(FlagKind::Implausible).map(|flag| flag.detail.clone())
    }

    fn rate(machine: &str, from: &str, to: &str, gb: f64) -> Option<String> {
        let work = Work::Transfers(vec![Transfer::new(from, to)]);
        said(machine, work, Quantity::Bandwidth, Unit::GigabytesPerSecond, gb)
    }

    const HGX: &str = "hgx-h200";

    #[test]
    fn a_rate_beyond_every_link_is_flagged_with_the_limit() {
        let why = "the library did not do the work, or the clock is wrong";
        let copy = rate(HGX, "GPU0", "GPU1", 31e6).unwrap();
        assert_eq!(copy, format!("31 PB/s exceeds what GPU0–nvswitch (NVLink 4 x18) can carry (478 GB/s); {why}"));
        let host = rate("h200x4-vm", "host", "GPU0", 100.0).unwrap();
        assert!(
            host.starts_with("100 GB/s exceeds what") && host.contains("PCIe 5.0 x16) can carry (63 GB/s)"),
            "{host}"
        );
        let own = rate(HGX, "GPU0", "GPU0", 6500.0).unwrap();
        assert!(own.contains("the memory of GPU0 can carry (4800 GB/s)"), "{own}");
        let gpus = (0..4).map(|i| format!("GPU{i}")).collect();
        let work = Work::Collective { operation: Collective::AllReduce, gpus };
        let reduce = |gb| said("h200x4-vm", work.clone(), Quantity::BusBandwidth, Unit::GigabytesPerSecond, gb);
        assert_eq!(reduce(31e6), Some(format!("31 PB/s exceeds what all links of GPU0 can carry (541 GB/s); {why}")));
        assert_eq!(reduce(480.0), None, "with the switch's help, above the rate of the links one way");
    }

    #[test]
    fn what_machines_do_is_not_flagged() {
        for (from, to, gb) in [("GPU0", "GPU1", 450.0), ("host", "GPU0", 55.0), ("GPU0", "GPU0", 1500.0)] {
            assert_eq!(rate(HGX, from, to, gb), None, "{from} {to}");
        }
        // small copies may be served by a cache
        let machine = system(HGX).unwrap().unwrap();
        let work = Work::Transfers(vec![Transfer::new("GPU0", "GPU0")]);
        let mut cells = [cell(work, 1 << 20, Quantity::Bandwidth, Unit::GigabytesPerSecond, 6000.0)];
        Limits::of(&machine).flag(&mut cells);
        assert_eq!(cells[0].flags, []);
    }

    #[test]
    fn no_time_at_all_is_flagged() {
        let loads = |memory: &str, ns| {
            let work = Work::Loads { gpu: "GPU0".to_owned(), memory: memory.to_owned() };
            said(HGX, work, Quantity::LoadLatency, Unit::Nanoseconds, ns)
        };
        for ns in [0.0, -3.0, f64::NAN, 0.1] {
            assert!(loads("GPU0", ns).is_some() && loads("GPU1", ns).is_some(), "{ns}");
        }
        assert!(loads("GPU1", 0.0).unwrap().starts_with("0.00 ns is less than any such path takes (10 ns);"));
        assert_eq!((loads("GPU0", 143.0), loads("GPU1", 826.0)), (None, None));
        let signals = Work::Signals { a: "GPU0".to_owned(), b: "GPU1".to_owned() };
        let signal = |us| said(HGX, signals.clone(), Quantity::SignalLatency, Unit::Microseconds, us);
        assert!(signal(0.0).is_some() && signal(0.8).is_none());
    }

    #[test]
    fn a_whole_step_is_flagged_together() {
        let machine = system(HGX).unwrap().unwrap();
        let work =
            Work::Collective { operation: Collective::AllReduce, gpus: vec!["GPU0".to_owned(), "GPU1".to_owned()] };
        let mut cells = [
            cell(work.clone(), 1 << 26, Quantity::BusBandwidth, Unit::GigabytesPerSecond, 31e6),
            cell(work, 1 << 26, Quantity::Latency, Unit::Microseconds, 0.3),
        ];
        let recorded = cells.clone();
        let limits = Limits::of(&machine);
        limits.flag(&mut cells);
        assert!(cells.iter().all(|cell| cell.is_void() && cell.flags.len() == 1));
        limits.flag(&mut cells);
        assert!(cells.iter().all(|cell| cell.flags.len() == 1), "once");
        assert_eq!(limits.flagged(&recorded).as_ref(), cells);
        assert!(matches!(limits.flagged(&cells), Cow::Borrowed(_)));
    }

    #[test]
    fn no_recorded_number_is_flagged() {
        let captures = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../captures");
        let mut numbers = 0;
        for folder in ["h200x2-vm-runs", "h200x4-vm-runs"] {
            for file in std::fs::read_dir(captures.join(folder)).unwrap().flatten() {
                let Ok(text) = std::fs::read_to_string(file.path()) else { continue };
                let Ok(run) = crate::run::Run::from_json(&text) else { continue };
                let machine = run.machine().unwrap();
                let flagged = Limits::of(&machine).flagged(&run.cells);
                let flagged: Vec<&Flag> = flagged.iter().filter_map(|cell| cell.flag(FlagKind::Implausible)).collect();
                assert!(flagged.is_empty(), "{:?}: {flagged:?}", file.path());
                numbers += run.cells.len();
            }
        }
        assert!(numbers > 1000, "{numbers}");
    }
}
