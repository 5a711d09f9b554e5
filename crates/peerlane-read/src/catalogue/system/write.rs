//! A machine as a system file, to start a design from: [`super::read_system`] reads it back.

use std::collections::{BTreeMap, HashSet};

use serde::Serialize;
use toml::Spanned;

use super::file::{
    BundleEntry, LinkEntry, NodeEntry, PeerAnswer, PeerEntry, PublishedEntry, RatesEntry, RatesRow, StatementEntry,
    SystemFile, Topology,
};
use super::widths::{common_nvlink, common_width};
use super::{NO_PART, SystemError};
use crate::catalogue::{Part, PartKind, Parts};
use peerlane_machine::fabric::{
    Fabric, GpuLink, Interconnect, Link, LinkKind, Node, NodeId, NodeKind, PcieWidth, lane_budgets,
};
use peerlane_machine::fact::{P2pStatus, RateRow, RateTable};
use peerlane_machine::gap::Gap;
use peerlane_machine::machine::{Facts, Machine, SourcedMatrix, Statement};
use peerlane_machine::matrix::{Matrix, Unit};
use peerlane_machine::one_line::Lines;

/// The machine as the TOML of a system file.
///
/// Everything is written that the format has a place for: nodes, links, slots, classes, numbers,
/// statements. Origins, warnings and contradictions are not, nor anything that reading fills in again.
///
/// Fails only where TOML has no form for a value.
pub fn write_system(machine: &Machine) -> Result<String, SystemError> {
    text(machine).map_err(|e| SystemError::whole(&machine.name, e.to_string()))
}

/// Sentences a line each, a node a line, and lists of names or numbers on one line.
fn text(machine: &Machine) -> Result<String, toml::ser::Error> {
    let (fabric, parts) = (&machine.fabric, Parts::embedded());
    let writer = Writer { machine, fabric, parts, overfull: overfull(fabric, parts) };
    let mut out = toml::to_string_pretty(&writer.head())? + "\n[nodes]\n";
    for id in fabric.ids() {
        out += &inline(writer.name(id), &writer.node(id))?;
        out.push('\n');
    }
    Ok(out + "\n" + &toml::to_string(&writer.body())?)
}

/// `key = { … }`
fn inline(key: &str, value: &impl Serialize) -> Result<String, toml::ser::Error> {
    let mut table = String::new();
    BTreeMap::from([(key, value)]).serialize(toml::ser::ValueSerializer::new(&mut table))?;
    Ok(table.strip_prefix("{ ").and_then(|t| t.strip_suffix(" }")).unwrap_or(&table).to_owned())
}

/// A value that stands nowhere yet.
fn spanned<T>(value: T) -> Spanned<T> {
    Spanned::new(0..0, value)
}

fn all_spanned(names: &[String]) -> Vec<Spanned<String>> {
    names.iter().cloned().map(spanned).collect()
}

struct Writer<'a> {
    machine: &'a Machine,
    fabric: &'a Fabric,
    parts: &'a Parts,
    /// Nodes whose links need more than their part has; they are written without it.
    overfull: HashSet<NodeId>,
}

/// Nodes with more links than their part has lanes or bricks. A guest may show such, and a
/// system file with them would be refused.
fn overfull(fabric: &Fabric, parts: &Parts) -> HashSet<NodeId> {
    let part_of = |id: NodeId| parts.get(fabric.node(id).part.as_deref()?);
    let budgets = lane_budgets(fabric, |id| part_of(id)?.lanes).into_iter();
    let mut all: HashSet<NodeId> =
        budgets.filter(|b| b.used > b.offered).filter_map(|b| fabric.find(&b.name)).collect();
    all.extend(fabric.ids().filter(|&id| {
        part_of(id).and_then(|p| p.nvlink_bricks).is_some_and(|has| fabric.nvlinks_of(id) > u32::from(has))
    }));
    all
}

impl Writer<'_> {
    /// What stands above the nodes.
    fn head(&self) -> SystemFile {
        let machine = self.machine;
        // an array that begins with a table is written as tables, among which no sentence can stand
        let mut unknown = machine.unknown.clone();
        unknown.sort_by_key(|gap| !matches!(gap, Gap::Stated(_)));
        SystemFile {
            name: machine.name.clone(),
            title: machine.title.clone(),
            source: machine.source.clone(),
            notes: machine.notes.clone(),
            assumptions: machine.assumptions.clone(),
            unknown,
            facts: Some(machine.facts).filter(|facts| *facts != Facts::default()),
            ..SystemFile::default()
        }
    }

    /// What stands below them.
    fn body(&self) -> SystemFile {
        let machine = self.machine;
        SystemFile {
            slots: machine.slots.iter().cloned().map(spanned).collect(),
            links: self.links(),
            topology: machine.stated_classes.as_ref().map(|(classes, _)| Topology {
                matrix: spanned(Lines(format!("{}\n", classes.to_topo_text().trim_end()))),
            }),
            unknown_paths: self.unknown_paths(),
            p2p: self.peers(),
            published: machine.matrices.iter().filter_map(|measured| self.matrix(measured)).collect(),
            statements: machine.statements.iter().filter_map(|s| self.statement(s)).map(spanned).collect(),
            rates: machine.rates.iter().map(|(table, _)| spanned(rates(table))).collect(),
            curves: machine.curves.iter().map(|(curve, _)| spanned(curve.clone())).collect(),
            ..SystemFile::default()
        }
    }

    fn name(&self, id: NodeId) -> &str {
        &self.fabric.node(id).name
    }

    fn end(&self, id: NodeId) -> Spanned<String> {
        spanned(self.name(id).to_owned())
    }

    fn node(&self, id: NodeId) -> NodeEntry {
        let node = self.fabric.node(id);
        let part = self.own_part(id);
        let by_part = part.and_then(|p| p.kind.node_kind());
        let part = part.filter(|_| by_part == Some(node.kind) || node.kind == NodeKind::Card);
        let neighbour = |kind: &LinkKind, of: NodeKind| {
            let mut links = self.fabric.links_of(id).iter();
            links.find(|(l, n)| self.fabric.link(*l).kind == *kind && self.fabric.node(*n).kind == of).map(|(_, n)| *n)
        };
        let inside = matches!(node.kind, NodeKind::RootComplex | NodeKind::Host);
        let cpu = inside.then(|| neighbour(&LinkKind::OnDie, NodeKind::Cpu)).flatten();
        let card = neighbour(&LinkKind::OnCard, NodeKind::Card).filter(|_| node.kind != NodeKind::Card);
        // what a device has from its root complex, and that from its CPU, is filled in on reading
        let above: Vec<&Node> = match node.kind {
            kind if kind.is_device() => vec![self.fabric.tree_top(id)].into_iter().chain(self.fabric.package(id)),
            _ => Vec::new().into_iter().chain(cpu),
        }
        .filter(|n| *n != id)
        .map(|n| self.fabric.node(n))
        .collect();
        let of_product = self.own_part(id).and_then(|part| part.constant("line_rate"));
        let line_rate = node.line_rate.map(|rate| rate.gb() * 8.0).filter(|gigabits| of_product != Some(*gigabits));
        let written = part.map(|p| p.name.as_str());
        // where nothing is written, the product decides
        let by_product = self.parts.of_node(node.kind, node.product.as_deref()).map(|p| p.name.as_str());
        let none = || by_product.map(|_| NO_PART);
        let left_out = node.part.as_ref().filter(|_| self.overfull.contains(&id));
        let left_out =
            left_out.map(|p| format!("part '{p}' is left out: it has fewer lanes or bricks than are linked here"));
        let notes: Vec<String> = node.note.iter().cloned().chain(left_out).collect();
        NodeEntry {
            kind: Some(node.kind).filter(|kind| part.is_none() || by_part != Some(*kind)),
            part: written.or_else(none).map(|p| spanned(p.to_owned())),
            of: cpu.map(|c| self.end(c)),
            card: card.map(|c| self.end(c)),
            aliases: node.aliases.clone(),
            product: node.product.clone(),
            vendor: node.vendor.filter(|_| part.and_then(|p| p.vendor).is_none()),
            address: node.address,
            numa: node.numa.filter(|n| above.iter().find_map(|a| a.numa) != Some(*n)),
            cpus: node.cpus.clone().filter(|c| above.iter().find_map(|n| n.cpus.as_ref()) != Some(c)),
            domain: node.domain,
            line_rate,
            read_rate: node.drive.read.map(|rate| rate.gb()),
            write_rate: node.drive.write.map(|rate| rate.gb()),
            method: node.method.map(|method| spanned(method.written())),
            assumed: node.assumed,
            stand_in: node.stand_in,
            note: (!notes.is_empty()).then(|| notes.join("; ")),
        }
    }

    /// The part of a node; a root complex has its CPU's.
    fn part_of(&self, id: NodeId) -> Option<&Part> {
        let of_cpu = || Some(id).filter(|n| self.fabric.node(*n).kind == NodeKind::RootComplex);
        self.own_part(id).or_else(|| self.own_part(self.fabric.package(of_cpu()?)?))
    }

    /// The part of a node that is written.
    fn own_part(&self, id: NodeId) -> Option<&Part> {
        self.parts.get(self.fabric.node(id).part.as_deref().filter(|_| !self.overfull.contains(&id))?)
    }

    fn links(&self) -> Vec<Spanned<LinkEntry>> {
        let mut taken = HashSet::new();
        let mut entries = Vec::new();
        for link in self.fabric.links() {
            let mut entry = LinkEntry {
                between: [self.end(link.a), self.end(link.b)],
                pcie: None,
                allowed: None,
                slot: None,
                nvlink: None,
                nvlink_generation: None,
                smp: None,
                xgmi: None,
                c2c: None,
                ualink: None,
                link: None,
                c2c_rate: None,
                assumed: link.assumed,
                note: link.note.clone(),
            };
            match &link.kind {
                // written with the nodes
                LinkKind::OnDie | LinkKind::OnCard => continue,
                LinkKind::Pcie { running, allowed, slot } => {
                    let slot = slot.as_deref().filter(|s| taken.insert((*s).to_owned()));
                    self.pcie(&mut entry, link, *running, *allowed, slot);
                }
                LinkKind::Gpu(bundle) => self.gpu_link(&mut entry, link, *bundle),
                LinkKind::Smp => {
                    let part = link.part.as_deref().and_then(|key| self.parts.get(key));
                    let known = part.filter(|p| p.kind == PartKind::Smp).map_or("?", |p| &p.name);
                    entry.smp = Some(spanned(known.to_owned()));
                }
            }
            entries.push(spanned(entry));
        }
        entries
    }

    /// In the short form where that is enough: bricks, links, or that there is C2C.
    fn gpu_link(&self, entry: &mut LinkEntry, link: &Link, bundle: GpuLink) {
        let written = match bundle {
            GpuLink { interconnect: Interconnect::Nvlink, generation, links: Some(bricks), rate: None } => {
                let by_parts = common_nvlink(self.part_of(link.a), self.part_of(link.b));
                entry.nvlink_generation = generation.filter(|g| by_parts != Some(*g));
                BundleEntry::Links(bricks)
            }
            GpuLink { interconnect: Interconnect::Xgmi, generation: None, links, rate: None } => {
                BundleEntry::Links(links.unwrap_or(0))
            }
            GpuLink { interconnect: Interconnect::C2c, generation: None, links: None, rate } => {
                entry.c2c_rate = rate.map(|r| r.gb());
                BundleEntry::There(true)
            }
            _ => BundleEntry::Words(bundle.written()),
        };
        *entry.bundle_mut(bundle.interconnect) = Some(written);
    }

    fn pcie(&self, entry: &mut LinkEntry, link: &Link, running: PcieWidth, allowed: PcieWidth, slot: Option<&str>) {
        let slots = &self.machine.slots;
        let declared = slot.and_then(|name| slots.iter().find(|s| s.name == name));
        let slot = slot.filter(|_| declared.is_some() || slots.is_empty());
        let implied = common_width(self.part_of(link.a), self.part_of(link.b), declared);
        entry.pcie = Some(spanned(running.to_string()));
        entry.allowed = (implied != allowed).then(|| spanned(allowed.to_string()));
        entry.slot = slot.map(|s| spanned(s.to_owned()));
    }

    fn unknown_paths(&self) -> BTreeMap<Spanned<String>, Vec<Spanned<String>>> {
        let mut rows: BTreeMap<Spanned<String>, Vec<Spanned<String>>> = BTreeMap::new();
        for (a, b) in self.fabric.unknown_paths() {
            rows.entry(self.end(a)).or_default().push(self.end(b));
        }
        rows
    }

    fn peers(&self) -> Vec<PeerEntry> {
        let status = |a, b| self.machine.p2p.get(&(a, b)).copied();
        let gpus: Vec<NodeId> = self.fabric.of_kind(NodeKind::Gpu).collect();
        let mut answers: [Vec<[Spanned<String>; 2]>; 2] = [Vec::new(), Vec::new()];
        for (i, a) in gpus.iter().enumerate() {
            for b in &gpus[i + 1..] {
                let both = [status(*a, *b), status(*b, *a)];
                if both.iter().flatten().all(|s| *s == P2pStatus::Unknown) {
                    continue;
                }
                let yes = both.iter().flatten().all(|s| *s == P2pStatus::Ok);
                answers[usize::from(yes)].push([self.end(*a), self.end(*b)]);
            }
        }
        let all = gpus.len() * gpus.len().saturating_sub(1) / 2;
        let entry = |(pairs, status): (Vec<_>, PeerAnswer)| {
            let some = !pairs.is_empty();
            some.then(|| PeerEntry { status, pairs: Some(pairs).filter(|p| p.len() < all) })
        };
        answers.into_iter().zip([PeerAnswer::No, PeerAnswer::Yes]).filter_map(entry).collect()
    }

    /// Whether all names mean something that a file can refer to.
    fn known(&self, names: &[String]) -> bool {
        names.iter().all(|n| n == "host" || self.fabric.find(n).is_some())
    }

    fn matrix(&self, measured: &SourcedMatrix) -> Option<PublishedEntry> {
        let matrix = &measured.matrix;
        let Matrix { rows, cols, .. } = matrix;
        if !self.known(rows) || !self.known(cols) || rows.is_empty() || cols.is_empty() {
            return None;
        }
        let gpus: Vec<&str> = self.fabric.of_kind(NodeKind::Gpu).map(|id| self.name(id)).collect();
        // all GPUs need not be named
        let named = |names: &[String]| (names != gpus).then(|| all_spanned(names));
        let cell =
            |i, j| matrix.value(i, j).filter(|v| v.is_finite()).map_or_else(|| "-".to_owned(), |v| v.to_string());
        let mut text = String::new();
        for i in 0..rows.len() {
            let cells: Vec<String> = (0..cols.len()).map(|j| format!("{:>8}", cell(i, j))).collect();
            text += &cells.join(" ");
            text.push('\n');
        }
        Some(PublishedEntry {
            quantity: matrix.quantity,
            direction: matrix.direction,
            p2p: matrix.p2p,
            op: matrix.op,
            engine: matrix.engine,
            unit: matrix.unit,
            size: matrix.size.map(|size| size.0),
            title: matrix.title.clone(),
            memory: matrix.memory,
            pattern: matrix.pattern,
            known_cause: measured.known_cause.clone(),
            rows: named(rows),
            cols: named(cols),
            matrix: spanned(Lines(text)),
        })
    }

    fn statement(&self, statement: &Statement) -> Option<StatementEntry> {
        let Statement { text, quantity, direction, p2p, from, to, low, high, unit } = statement;
        (self.known(from) && self.known(to)).then(|| StatementEntry {
            text: text.clone(),
            quantity: *quantity,
            direction: *direction,
            p2p: *p2p,
            from: all_spanned(from),
            to: all_spanned(to),
            value: None,
            low: Some(*low),
            high: Some(*high),
            unit: *unit,
        })
    }
}

fn rates(table: &RateTable) -> RatesEntry {
    let row = |row: &RateRow| {
        let values = row.rates.iter().map(|rate| rate.map_or(f64::NAN, |r| r.gb())).collect();
        spanned(RatesRow { words: row.words.clone(), values })
    };
    RatesEntry {
        words: table.word_columns.clone(),
        columns: table.rate_columns.clone(),
        unit: Unit::GigabytesPerSecond,
        rows: table.rows.iter().map(row).collect(),
    }
}

#[cfg(test)]
mod tests;
