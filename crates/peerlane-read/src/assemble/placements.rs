//! Where GPUs may be that no source places, as far as what was measured between them shows it.

use std::collections::BTreeMap;

use peerlane_machine::fabric::{FabricBuilder, GpuLink, Link, LinkKind, Node, NodeId, NodeKind, PcieWidth};
use peerlane_machine::fact::P2pStatus;
use peerlane_machine::machine::Machine;
use peerlane_machine::matrix::Quantity;
use peerlane_machine::names::{is_host, ranges};
use peerlane_machine::units::Rate;

use super::places::outruns;
use crate::catalogue::{Part, Parts};

/// GPUs that the lanes of one CPU have room for.
const AT_ONE_CPU: usize = 4;

/// More GPUs are not placed: nobody posts their matrices without their topology.
const MOST_GPUS: usize = 32;

/// More sockets are not told apart.
const MOST_SOCKETS: usize = 4;

/// Near and far pairs differ by this factor at least: 6 against 16 us, 25 against 19 GB/s.
const APART: f64 = 1.25;

/// GB/s a direction that no PCIe link of a known generation carries.
const ABOVE_PCIE: f64 = 64.0;

/// A machine with its GPUs in assumed places.
#[derive(Clone, Debug)]
pub struct Placement {
    /// The machine.
    pub machine: Machine,
    /// What is assumed, in a sentence.
    pub sentence: String,
    /// The logarithm of how likely it is before any value is looked at, up to a constant.
    pub prior: f64,
}

/// Places that GPUs may have of which no source states any: at root ports of one CPU, below one switch, or at several sockets, where
/// what was measured falls into near and far pairs. Empty where a place or a path is known, and where nothing was measured between
/// them.
pub fn placements(machine: &Machine, parts: &Parts) -> Vec<Placement> {
    let fabric = &machine.fabric;
    let gpus: Vec<NodeId> = fabric.of_kind(NodeKind::Gpu).collect();
    let placed = |gpu: &NodeId| !fabric.links_of(*gpu).is_empty();
    let known = gpus.iter().any(placed) || machine.stated_classes.is_some();
    if known || !(2..=MOST_GPUS).contains(&gpus.len()) || !measured_between(machine) {
        return Vec::new();
    }
    let able = gpus.iter().filter_map(|gpu| part_of(machine, parts, *gpu)?.pcie?.raw_rate());
    if outruns(machine, able.map(Rate::gb).reduce(f64::max).unwrap_or(ABOVE_PCIE)) {
        return over_nvlink(machine, parts, &gpus).into_iter().collect();
    }
    let crowded = if gpus.len() > AT_ONE_CPU { -3.0 } else { 0.0 };
    let names = |of: &[NodeId]| ranges(&of.iter().map(|gpu| fabric.node(*gpu).name.as_str()).collect::<Vec<_>>());
    let all = names(&gpus);
    let one = vec![gpus.clone()];
    let mut wanted = vec![
        (one.clone(), false, crowded, format!("{all} at root ports of one CPU")),
        (one, true, -0.7, format!("{all} below one switch")),
    ];
    if let Some(groups) = sockets(machine, &gpus) {
        let each: Vec<String> = groups.iter().map(|group| names(group)).collect();
        let sentence = format!("{} at the root ports of {} sockets", each.join(" | "), groups.len());
        wanted.push((groups, false, -0.7, sentence));
    }
    let placed = wanted.into_iter().filter_map(|(groups, switch, prior, sentence)| {
        let machine = place(machine, &groups, switch, None)?;
        Some(Placement { machine, sentence: format!("{sentence}: no source states where they are"), prior })
    });
    placed.collect()
}

/// Pairs that are faster than PCIe, joined by as many NVLinks as their rates take, and GPUs by as many with their CPUs where copies
/// with host memory are faster too.
fn over_nvlink(machine: &Machine, parts: &Parts, gpus: &[NodeId]) -> Option<Placement> {
    let part = part_of(machine, parts, *gpus.first()?).filter(|part| part.nvlink_bricks > Some(0))?;
    let (generation, brick) = (part.nvlink_generation, part.constant("nvlink_brick_rate")?);
    let groups = sockets(machine, gpus)?;
    let names =
        |of: &[NodeId]| ranges(&of.iter().map(|gpu| machine.fabric.node(*gpu).name.as_str()).collect::<Vec<_>>());
    let bricks = |rate: f64| ((rate / brick).ceil() as u8).clamp(1, part.nvlink_bricks.unwrap_or(1));
    let near = distances(machine, Quantity::Bandwidth);
    let within =
        groups.iter().flat_map(|g| g.iter().flat_map(|a| g.iter().map(move |b| (*a, *b)))).filter(|(a, b)| a < b);
    let slowest = within.filter_map(|pair| near.get(&pair)).copied().reduce(f64::min)?;
    let to_host =
        with_host(machine).filter(|rate| *rate > part.pcie.and_then(|w| w.raw_rate()).map_or(ABOVE_PCIE, Rate::gb));
    let links = Nvlinks { generation, pair: bricks(slowest), to_cpu: to_host.map(bricks) };
    let each: Vec<String> = groups.iter().map(|group| names(group)).collect();
    let to_cpu = links.to_cpu.map_or(String::new(), |n| format!(", {n} to their CPU"));
    let sentence = format!(
        "{} at {} sockets with {} NVLinks a pair{to_cpu}, by their rates: no source states where they are",
        each.join(" | "),
        groups.len(),
        links.pair
    );
    let mut machine = place(machine, &groups, false, Some(links))?;
    machine.unknown.retain(|gap| !gap.is_of_nvlinks());
    Some(Placement { machine, sentence, prior: 0.0 })
}

/// NVLinks that are assumed.
#[derive(Clone, Copy)]
struct Nvlinks {
    generation: Option<u8>,
    /// Between two GPUs of a socket.
    pair: u8,
    /// Between a GPU and its CPU, in place of PCIe.
    to_cpu: Option<u8>,
}

/// GB/s that were copied from or to host memory, the most.
fn with_host(machine: &Machine) -> Option<f64> {
    let bandwidths = machine.matrices.iter().map(|m| &m.matrix).filter(|m| m.quantity == Quantity::Bandwidth);
    let rates = bandwidths.flat_map(|m| {
        let cells = m
            .rows
            .iter()
            .enumerate()
            .flat_map(move |(i, row)| m.cols.iter().enumerate().map(move |(j, col)| (i, j, row, col)));
        cells.filter(|(_, _, row, col)| is_host(row) != is_host(col)).filter_map(|(i, j, ..)| Some(m.rate(i, j)?.gb()))
    });
    rates.reduce(f64::max)
}

fn part_of<'p>(machine: &Machine, parts: &'p Parts, gpu: NodeId) -> Option<&'p Part> {
    machine.fabric.node(gpu).part.as_deref().and_then(|key| parts.get(key))
}

/// Whether rates or latencies were measured between two GPUs.
fn measured_between(machine: &Machine) -> bool {
    let is_gpu =
        |name: &String| machine.fabric.find(name).is_some_and(|id| machine.fabric.node(id).kind == NodeKind::Gpu);
    machine
        .matrices
        .iter()
        .any(|measured| measured.matrix.rows.iter().chain(&measured.matrix.cols).filter(|n| is_gpu(n)).count() > 2)
}

/// Groups of GPUs that are near to each other and far from all others: by peer access, else by latency, else by rate.
fn sockets(machine: &Machine, gpus: &[NodeId]) -> Option<Vec<Vec<NodeId>>> {
    let by_access = || {
        let near = |a: NodeId, b: NodeId| machine.p2p.get(&(a, b)).map(|status| *status == P2pStatus::Ok);
        groups(gpus, near)
    };
    let by = |quantity: Quantity, near_is_high: bool| {
        let times = distances(machine, quantity);
        let mut sorted: Vec<f64> = times.values().copied().collect();
        sorted.sort_by(f64::total_cmp);
        let gap = sorted.windows(2).max_by(|a, b| (a[1] / a[0]).total_cmp(&(b[1] / b[0])))?;
        let between = (gap[1] / gap[0] >= APART).then_some((gap[0] * gap[1]).sqrt())?;
        groups(gpus, |a, b| times.get(&(a.min(b), a.max(b))).map(|value| (*value > between) == near_is_high))
    };
    by_access().or_else(|| by(Quantity::Latency, false)).or_else(|| by(Quantity::Bandwidth, true))
}

/// For each pair the lowest time, or the highest rate, of all matrices of the first kind that was measured with peer access.
fn distances(machine: &Machine, quantity: Quantity) -> BTreeMap<(NodeId, NodeId), f64> {
    let mut all: BTreeMap<(NodeId, NodeId), f64> = BTreeMap::new();
    let of_kind = |m: &&peerlane_machine::matrix::Matrix| m.quantity == quantity && m.p2p != Some(false);
    let Some(matrix) = machine.matrices.iter().map(|measured| &measured.matrix).find(of_kind) else { return all };
    for (i, row) in matrix.rows.iter().enumerate() {
        for (j, col) in matrix.cols.iter().enumerate() {
            let ends = machine.fabric.find(row).zip(machine.fabric.find(col)).filter(|(a, b)| a != b);
            let Some(((a, b), value)) = ends.zip(matrix.value(i, j).filter(|v| *v > 0.0)) else { continue };
            let known = all.entry((a.min(b), a.max(b))).or_insert(value);
            *known = if quantity == Quantity::Latency { known.min(value) } else { known.max(value) };
        }
    }
    all
}

/// The groups that nearness makes, where it makes two or more and no pair contradicts it.
fn groups(gpus: &[NodeId], near: impl Fn(NodeId, NodeId) -> Option<bool>) -> Option<Vec<Vec<NodeId>>> {
    let mut groups: Vec<Vec<NodeId>> = Vec::new();
    for &gpu in gpus {
        match groups.iter_mut().find(|group| near(group[0], gpu) == Some(true)) {
            Some(group) => group.push(gpu),
            None => groups.push(vec![gpu]),
        }
    }
    let of = |gpu: NodeId| groups.iter().position(|group| group.contains(&gpu));
    let pairs = gpus.iter().flat_map(|a| gpus.iter().map(move |b| (*a, *b))).filter(|(a, b)| a < b);
    let fits = pairs.into_iter().all(|(a, b)| near(a, b) == Some(of(a) == of(b)));
    let several = (2..=MOST_SOCKETS).contains(&groups.len()) && groups.iter().any(|group| group.len() > 1);
    (fits && several).then_some(groups)
}

/// The machine with each group at a CPU of its own.
fn place(machine: &Machine, groups: &[Vec<NodeId>], switch: bool, nvlinks: Option<Nvlinks>) -> Option<Machine> {
    let mut machine = machine.clone();
    let kinds = [(NodeKind::Cpu, "cpu"), (NodeKind::RootComplex, "rc"), (NodeKind::Host, "host")];
    let known = kinds.map(|(kind, _)| machine.fabric.of_kind(kind).collect::<Vec<_>>());
    let mut builder = std::mem::take(&mut machine.fabric).into_builder();
    let mut cpus: Vec<NodeId> = Vec::new();
    for (i, group) in groups.iter().enumerate() {
        let [cpu, root, host] =
            [0, 1, 2].map(|k| known[k].get(i).copied().unwrap_or_else(|| add(&mut builder, kinds[k].1, kinds[k].0)));
        for (a, b) in [(root, cpu), (host, cpu)] {
            let joined = builder.links().iter().any(|l| (l.a, l.b) == (a, b) || (l.b, l.a) == (a, b));
            if !joined {
                builder.link(Link { assumed: true, ..Link::new(a, b, LinkKind::OnDie) });
            }
        }
        let pcie = |a, b| Link { assumed: true, ..Link::new(a, b, LinkKind::pcie(PcieWidth::default())) };
        let above = if switch {
            let switch = add(&mut builder, "switch", NodeKind::Switch);
            builder.link(pcie(root, switch));
            switch
        } else {
            root
        };
        let nvlink = |a, b, n| {
            let kind = LinkKind::Gpu(GpuLink::nvlink(nvlinks.and_then(|n| n.generation), n));
            Link { assumed: true, ..Link::new(a, b, kind) }
        };
        for (i, gpu) in group.iter().enumerate() {
            builder.link(match nvlinks.and_then(|n| n.to_cpu) {
                Some(n) => nvlink(*gpu, cpu, n),
                None => pcie(above, *gpu),
            });
            for other in group.iter().skip(i + 1).filter(|_| nvlinks.is_some()) {
                builder.link(nvlink(*gpu, *other, nvlinks.map_or(1, |n| n.pair)));
            }
        }
        cpus.push(cpu);
    }
    for (i, a) in cpus.iter().enumerate() {
        for b in cpus.iter().skip(i + 1) {
            let joined = builder.links().iter().any(|l| (l.a, l.b) == (*a, *b) || (l.b, l.a) == (*a, *b));
            if !joined {
                builder.link(Link { assumed: true, ..Link::new(*a, *b, LinkKind::Smp) });
            }
        }
    }
    machine.fabric = builder.build().ok()?;
    Some(machine)
}

fn add(builder: &mut FabricBuilder, stem: &str, kind: NodeKind) -> NodeId {
    let name = builder.fresh_name(stem);
    builder.node(Node { assumed: true, ..Node::new(name, kind) })
}

#[cfg(test)]
mod tests {
    use super::super::assemble;
    use super::*;
    use crate::evidence::{Text, scan_text};
    use peerlane_machine::fabric::PathClass;

    fn of(cells: [f64; 2]) -> Vec<Placement> {
        let row = |i: usize| {
            let value = |j: usize| if i == j { 4.0 } else { cells[usize::from(i / 2 != j / 2)] };
            format!("     {i}{}\n", (0..4).map(|j| format!(" {:>6.2}", value(j))).collect::<String>())
        };
        let rows: String = (0..4).map(row).collect();
        let text = format!("P2P=Enabled Latency Matrix (us)\n   D\\D     0      1      2      3\n{rows}");
        placements(&assemble(scan_text(&Text::new("p2p.txt", text.as_bytes()))).remove(0), Parts::embedded())
    }

    #[test]
    fn near_and_far_pairs_are_at_sockets_and_equal_ones_are_not() {
        let all = of([6.5, 16.0]);
        assert_eq!(all.len(), 3);
        assert_eq!(
            all[2].sentence,
            "GPU0, GPU1 | GPU2, GPU3 at the root ports of 2 sockets: no source states where they are"
        );
        let fabric = &all[2].machine.fabric;
        let class = |a, b| fabric.class(fabric.find(a).unwrap(), fabric.find(b).unwrap());
        assert_eq!([class("GPU0", "GPU1"), class("GPU1", "GPU2")], [Some(PathClass::Phb), Some(PathClass::Sys)]);
        let classes: Vec<_> = of([6.5, 6.6]).iter().map(|p| p.machine.fabric.of_kind(NodeKind::Cpu).count()).collect();
        assert_eq!(classes, [1, 1]);
    }
}
