//! What is assumed where no source states it: widths of PCIe links, generations of NVLinks.

use super::nvlink::Bundle;
use super::resources::{Carriage, LinkModel, is_above, part_of, root_part};
use peerlane_machine::fabric::{Fabric, Interconnect, LinkId, LinkKind, NodeId, NodeKind, PcieGeneration, PcieWidth};
use peerlane_machine::machine::Machine;
use peerlane_machine::matrix::{Direction, Quantity};
use peerlane_machine::names::{is_host, natural, ranges};
use peerlane_read::catalogue::Parts;

/// Levels of switches of unknown make that are looked through.
const LEVELS: usize = 4;

/// Lanes of a link that nothing tells: GPUs and adapters for which rates matter have no fewer.
const LANES: u8 = 16;

/// How much may be taken to be so of links that no source states.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Assume {
    /// Nothing: what is not known has no rate.
    #[default]
    Nothing,
    /// Of PCIe links, the most that the parts at them can do, or at the slow end of intervals half of it, of cards a quarter; of
    /// NVLinks, the generation that their number suggests.
    Parts,
    /// Also that devices of which no part is known have the links that are usual, within half and twice their rate.
    Usual,
}

/// A width that no source states.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct AssumedWidth {
    /// The width.
    pub width: PcieWidth,
    /// Why it is taken.
    pub basis: Basis,
    /// The least that the link may carry, as a share of it.
    pub least: f64,
}

impl AssumedWidth {
    /// The width that was fitted.
    pub(super) fn fitted(width: PcieWidth, measured: bool) -> Self {
        AssumedWidth { width, basis: Basis::Fitted { measured }, least: if measured { 1.0 } else { A_STEP } }
    }

    /// The least and the most that the link may carry, as shares of the width.
    pub(super) fn shares(&self) -> [f64; 2] {
        let most = match self.basis {
            Basis::Fitted { measured: true } | Basis::Parts => 1.0,
            // a generation more
            Basis::Fitted { measured: false } | Basis::Usual => 2.0,
        };
        [self.least, most]
    }
}

/// A step less: half the lanes, or a generation.
const A_STEP: f64 = 0.5;

/// Why a width is taken that no source states.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Basis {
    /// It is the likeliest by what was measured, or by what dates the source.
    Fitted {
        /// Whether anything was measured.
        measured: bool,
    },
    /// It is what the parts at the link can do at most.
    Parts,
    /// It is usual.
    Usual,
}

/// What no source states of links between GPUs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AssumedBundle {
    /// Their generation, which their number suggests.
    Generation(u8),
    /// How many links there are: one at least, and [`MOST_LINKS`] at most.
    OneLink(Interconnect),
}

/// xGMI links between two dies of one MI250X package.
pub(super) const MOST_LINKS: u8 = 4;

/// The width of a link of which it is not known, where both ends run at what they can do.
pub(super) fn width(machine: &Machine, parts: &Parts, id: LinkId) -> Option<AssumedWidth> {
    let fabric = &machine.fabric;
    let link = fabric.link(id);
    let LinkKind::Pcie { running, allowed, .. } = &link.kind else { return None };
    let (upper, lower) = if is_above(fabric, id, link.a) { (link.a, link.b) } else { (link.b, link.a) };
    let able = ability(fabric, parts, lower, LEVELS);
    let above = match fabric.node(upper).kind {
        NodeKind::RootComplex => root_part(fabric, parts, upper),
        _ => part_of(fabric, parts, upper),
    };
    // one of the devices below, of which nothing is known, may be the widest
    let is_open = able.is_some() && has_unknown(fabric, parts, lower, LEVELS);
    let below = match able {
        Some(able) if is_open => wider(able, usual(machine)),
        Some(able) => able,
        None => usual(machine),
    };
    // a card may be in an older slot with fewer lanes, or in one of a chipset's; a module has all its lanes
    let lanes_are_known = running.lanes.or(allowed.lanes).is_some();
    let is_module = part_of(fabric, parts, lower).is_some_and(|part| part.module);
    let least = if able.is_none() || is_open || lanes_are_known || is_module { A_STEP } else { A_STEP * A_STEP };
    let generations = [below.generation, above.and_then(|part| part.pcie).and_then(|width| width.generation)];
    let width = PcieWidth {
        generation: running.generation.or(allowed.generation).or(generations.into_iter().flatten().min()),
        lanes: running.lanes.or(allowed.lanes).or(below.lanes),
    };
    Some(AssumedWidth { width, basis: if able.is_some() && !is_open { Basis::Parts } else { Basis::Usual }, least })
}

/// The links of a machine of which not even the GPUs' product is known: those of the time of its NVLinks, else what has been sold
/// most since 2020, of which PCIe 3.0 is half and 5.0 twice; and no less than copies of host memory need.
fn usual(machine: &Machine) -> PcieWidth {
    let fabric = &machine.fabric;
    let nvlink = fabric.of_kind(NodeKind::Gpu).find_map(|gpu| nvlink_generations(fabric, gpu));
    let generation = match nvlink {
        Some([_, older, _]) if older < 3 => PcieGeneration::Gen3,
        Some([_, newer, _]) if newer > 3 => PcieGeneration::Gen5,
        _ => PcieGeneration::Gen4,
    };
    let seen = over_pcie(machine, nvlink.is_some()).fold(0.0, f64::max);
    let carries = |width: &PcieWidth| width.raw_rate().is_some_and(|raw| raw.bytes_per_second() > seen);
    // what no PCIe carries tells nothing of it
    let faster = PcieGeneration::ALL.into_iter().filter(|g| *g >= generation).map(|g| PcieWidth::new(g, LANES));
    faster.into_iter().find(carries).unwrap_or(PcieWidth::new(generation, LANES))
}

/// Rates one way of copies from and to host memory, and of those between GPUs that nothing but PCIe joins, in bytes a second.
fn over_pcie(machine: &Machine, nvlinks: bool) -> impl Iterator<Item = f64> {
    let matrices = machine.matrices.iter().map(|measured| &measured.matrix);
    matrices.filter(|m| m.quantity == Quantity::Bandwidth).flat_map(move |m| {
        let ways = if m.direction == Some(Direction::Bidirectional) { 0.5 } else { 1.0 };
        let cells = m
            .rows
            .iter()
            .zip(&m.values)
            .flat_map(|(row, line)| m.cols.iter().zip(line).map(move |(col, value)| (row, col, value)));
        let over = cells.filter(move |(row, col, _)| row != col && (is_host(row) != is_host(col) || !nvlinks));
        over.filter_map(move |(.., value)| Some(m.unit.rate((*value)?)?.bytes_per_second() * ways))
    })
}

/// What a device can do: by its part, else the widest of what is below it.
fn ability(fabric: &Fabric, parts: &Parts, node: NodeId, levels: usize) -> Option<PcieWidth> {
    let own = part_of(fabric, parts, node).and_then(|part| part.pcie);
    if own.is_some() || levels == 0 {
        return own;
    }
    let below = fabric.links_of(node).iter().filter_map(|(id, next)| {
        let link = fabric.link(*id);
        match &link.kind {
            LinkKind::Pcie { running, .. } if is_above(fabric, *id, node) => Some(*running)
                .filter(|width| width.raw_rate().is_some())
                .or_else(|| ability(fabric, parts, *next, levels - 1)),
            LinkKind::OnCard => part_of(fabric, parts, *next)?.pcie,
            _ => None,
        }
    });
    below.reduce(wider)
}

/// Whether nothing is known of what one of the devices below this one can do, which is no part.
fn has_unknown(fabric: &Fabric, parts: &Parts, node: NodeId, levels: usize) -> bool {
    if levels == 0 || part_of(fabric, parts, node).is_some_and(|part| part.pcie.is_some()) {
        return false;
    }
    fabric.links_of(node).iter().any(|(id, next)| match &fabric.link(*id).kind {
        LinkKind::Pcie { running, .. } if is_above(fabric, *id, node) && running.raw_rate().is_none() => {
            ability(fabric, parts, *next, levels - 1).is_none() || has_unknown(fabric, parts, *next, levels - 1)
        }
        _ => false,
    })
}

fn wider(a: PcieWidth, b: PcieWidth) -> PcieWidth {
    let rate = |width: &PcieWidth| width.raw_rate().map_or(0.0, |rate| rate.bytes_per_second());
    if rate(&b) > rate(&a) { b } else { a }
}

/// The generations that a GPU's NVLinks may be of, the slowest first and the usual in the middle, by how many it has in all: V100
/// have 6, as slices of an H100 board do, A100 12, H100 and H200 18, as Blackwell has. Other counts leave more open.
pub(super) fn nvlink_generations(fabric: &Fabric, gpu: NodeId) -> Option<[u8; 3]> {
    let bricks = fabric.links_of(gpu).iter().map(|(id, _)| fabric.link(*id).kind.nvlinks());
    match bricks.sum() {
        0 => None,
        6 => Some([2, 2, 4]),
        12 => Some([3, 3, 4]),
        18 => Some([4, 4, 5]),
        _ => Some([1, 3, 4]),
    }
}

/// Sentences that say what was taken of which links, of those that matter.
pub(super) fn sentences(fabric: &Fabric, links: &[LinkModel], matters: impl Fn(LinkId) -> bool) -> Vec<String> {
    let mut widths: Vec<(AssumedWidth, Vec<NodeId>)> = Vec::new();
    let mut bundles: Vec<(AssumedBundle, Vec<NodeId>)> = Vec::new();
    for (id, model) in fabric.link_ids().zip(links).filter(|(id, _)| matters(*id)) {
        let link = fabric.link(id);
        match &model.carriage {
            // the fit says itself what it took
            Carriage::Pcie { assumed: Some(AssumedWidth { basis: Basis::Fitted { .. }, .. }), .. } => {}
            Carriage::Pcie { assumed: Some(width), .. } => {
                note(&mut widths, *width, if is_above(fabric, id, link.a) { link.b } else { link.a });
            }
            Carriage::Bundle(Bundle { assumed: Some(what), .. }) => {
                let gpus = [link.a, link.b].into_iter().filter(|node| fabric.node(*node).kind == NodeKind::Gpu);
                gpus.for_each(|gpu| note(&mut bundles, *what, gpu));
            }
            _ => {}
        }
    }
    let widths = widths.iter().map(|(AssumedWidth { width, basis, .. }, nodes)| {
        let (they, widths) = if nodes.len() == 1 { ("it", "its width") } else { ("they", "their widths") };
        let why = match basis {
            Basis::Fitted { .. } | Basis::Parts => {
                format!("the most that can be done there: no source states {widths}")
            }
            Basis::Usual => format!("as is usual: no source states {widths}, nor what {they} can do"),
        };
        format!("{} at PCIe {width}, {why}", named(fabric, nodes))
    });
    let bundles = bundles.iter().map(|(what, gpus)| match what {
        AssumedBundle::Generation(generation) => {
            let they = if gpus.len() == 1 { "it is" } else { "they are" };
            let gpus = named(fabric, gpus);
            format!("NVLink {generation} at {gpus}, by the number of links: no source states what GPUs {they}")
        }
        AssumedBundle::OneLink(interconnect) => {
            let family = interconnect.family();
            format!(
                "one {} {} a pair among {}: no source states how many",
                family.title,
                family.link,
                named(fabric, gpus)
            )
        }
    });
    widths.chain(bundles).collect()
}

fn note<K: PartialEq>(groups: &mut Vec<(K, Vec<NodeId>)>, key: K, node: NodeId) {
    match groups.iter_mut().find(|(known, _)| *known == key) {
        Some((_, nodes)) if nodes.contains(&node) => {}
        Some((_, nodes)) => nodes.push(node),
        None => groups.push((key, vec![node])),
    }
}

/// `GPU0–GPU3, mlx5_0 and 2 switches`.
fn named(fabric: &Fabric, nodes: &[NodeId]) -> String {
    let is_switch = |node: &&NodeId| fabric.node(**node).kind == NodeKind::Switch;
    let mut names: Vec<&str> =
        nodes.iter().filter(|node| !is_switch(node)).map(|node| fabric.node(*node).name.as_str()).collect();
    names.sort_by_key(|name| natural(name));
    match (names.is_empty(), nodes.iter().filter(is_switch).count()) {
        (_, 0) => ranges(&names),
        (true, 1) => "the switch".to_owned(),
        (true, n) => format!("{n} switches"),
        (false, 1) => format!("{} and the switch above", ranges(&names)),
        (false, n) => format!("{} and {n} switches above", ranges(&names)),
    }
}
