//! A machine as a system file, to start a design from: [`crate::catalogue::read_system`] reads it back.

use std::collections::HashSet;
use std::fmt::Write;

use crate::catalogue::{Part, PartKind, Parts, common_nvlink, common_width};
use crate::evidence::{Curve, Matrix, P2pStatus, RateTable};
use crate::fabric::{Fabric, GpuLink, Interconnect, Link, LinkKind, Node, NodeId, NodeKind, PcieWidth, lane_budgets};
use crate::machine::{Machine, Statement};

/// The machine as the TOML of a system file.
///
/// Everything is written that the format has a place for: nodes, links, slots, classes, numbers,
/// statements. Origins, warnings and contradictions are not, nor anything that reading fills in again.
pub fn to_system_toml(machine: &Machine) -> String {
    let (fabric, parts) = (&machine.fabric, Parts::embedded());
    let mut out = Writer { out: String::new(), machine, fabric, parts, overfull: overfull(fabric, parts) };
    out.head();
    out.nodes();
    out.slots();
    out.links();
    out.classes();
    out.peers();
    for observed in &machine.matrices {
        out.matrix(&observed.matrix);
    }
    for statement in &machine.statements {
        out.statement(statement);
    }
    for (table, _) in &machine.rates {
        out.rates(table);
    }
    for (curve, _) in &machine.curves {
        out.curve(curve);
    }
    out.out
}

struct Writer<'a> {
    out: String,
    machine: &'a Machine,
    fabric: &'a Fabric,
    parts: &'a Parts,
    /// Nodes whose links need more than their part has; they are written without it.
    overfull: HashSet<NodeId>,
}

/// Nodes with more links than their part has lanes or bricks. A virtual machine may show such, and a
/// system file with them would be refused.
fn overfull(fabric: &Fabric, parts: &Parts) -> HashSet<NodeId> {
    let part_of = |id: NodeId| parts.get(fabric.node(id).part.as_deref()?);
    let budgets = lane_budgets(fabric, |id| part_of(id)?.lanes).into_iter();
    let mut all: HashSet<NodeId> =
        budgets.filter(|b| b.used > b.offered).filter_map(|b| fabric.find(&b.name)).collect();
    all.extend(fabric.ids().filter(|&id| {
        let bricks = fabric.links_of(id).iter().map(|(link, _)| fabric.link(*link).kind.nvlinks());
        let taken: u32 = bricks.sum();
        part_of(id).and_then(|p| p.nvlink_bricks).is_some_and(|has| taken > u32::from(has))
    }));
    all
}

impl Writer<'_> {
    /// Writing to a string cannot fail.
    fn line(&mut self, text: std::fmt::Arguments) {
        let _ = self.out.write_fmt(text);
        self.out.push('\n');
    }

    fn table(&mut self, header: &str) {
        self.line(format_args!("\n{header}"));
    }

    fn set(&mut self, key: &str, value: impl std::fmt::Display) {
        self.line(format_args!("{key} = {value}"));
    }

    fn set_text(&mut self, key: &str, value: Option<&str>) {
        if let Some(value) = value {
            self.set(key, quoted(value));
        }
    }

    fn set_number(&mut self, key: &str, value: Option<f64>) {
        if let Some(value) = value {
            self.set(key, value);
        }
    }

    /// A value that serializes to a bare word: `"bandwidth"`, `"GB/s"`.
    fn set_word<T: serde::Serialize>(&mut self, key: &str, value: Option<T>) {
        if let Some(serde_json::Value::String(word)) = value.and_then(|v| serde_json::to_value(v).ok()) {
            self.set(key, quoted(&word));
        }
    }

    fn sentences(&mut self, key: &str, all: &[String]) {
        if !all.is_empty() {
            let lines: String = all.iter().map(|s| format!("  {},\n", quoted(s))).collect();
            self.set(key, format_args!("[\n{lines}]"));
        }
    }

    /// What is not known: sentences as such, all else as tables, which keep its meaning.
    fn gaps(&mut self) {
        let written = self.machine.unknown.iter().filter_map(|gap| toml::Value::try_from(gap).ok());
        let lines: String = written.map(|value| format!("  {value},\n")).collect();
        if !lines.is_empty() {
            self.set("unknown", format_args!("[\n{lines}]"));
        }
    }

    fn head(&mut self) {
        let machine = self.machine;
        self.set("name", quoted(&machine.name));
        self.set_text("title", machine.title.as_deref());
        self.set_text("source", machine.source.as_deref());
        self.sentences("notes", &machine.notes);
        self.sentences("assumptions", &machine.assumptions);
        self.gaps();
        let facts = &machine.facts;
        if *facts != crate::machine::Facts::default() {
            self.table("[facts]");
            self.set_number("year", facts.year.map(f64::from));
            self.set_number("price_usd", facts.price_usd);
            self.set_number("rack_units", facts.rack_units);
            self.set_number("power_w", facts.power_w);
            self.set_number("tflops", facts.tflops);
        }
    }

    fn name(&self, id: NodeId) -> &str {
        &self.fabric.node(id).name
    }

    fn nodes(&mut self) {
        self.table("[nodes]");
        for id in self.fabric.ids() {
            let fields = self.node_fields(id, self.fabric.node(id));
            let key = key(self.name(id));
            self.set(&key, format_args!("{{ {} }}", fields.join(", ")));
        }
    }

    fn node_fields(&self, id: NodeId, node: &Node) -> Vec<String> {
        let mut fields = Vec::new();
        let mut text = |key: &str, value: Option<String>| {
            fields.extend(value.map(|v| format!("{key} = {}", quoted(&v))));
        };
        let part = self.own_part(id);
        let by_part = part.and_then(|p| p.kind.node_kind());
        let part = part.filter(|_| by_part == Some(node.kind) || node.kind == NodeKind::Card);
        text("kind", (part.is_none() || by_part != Some(node.kind)).then(|| node.kind.name().to_owned()));
        text("part", part.map(|p| p.name.clone()));
        let neighbour = |kind: &LinkKind, of: NodeKind| {
            let mut links = self.fabric.links_of(id).iter();
            links.find(|(l, n)| self.fabric.link(*l).kind == *kind && self.fabric.node(*n).kind == of).map(|(_, n)| *n)
        };
        let inside = matches!(node.kind, NodeKind::RootComplex | NodeKind::Host);
        let cpu = inside.then(|| neighbour(&LinkKind::OnDie, NodeKind::Cpu)).flatten();
        text("of", cpu.map(|c| self.name(c).to_owned()));
        let card = neighbour(&LinkKind::OnCard, NodeKind::Card).filter(|_| node.kind != NodeKind::Card);
        text("card", card.map(|c| self.name(c).to_owned()));
        text("product", node.product.clone());
        text("address", node.address.map(|a| a.to_string()));
        // what a device has from its root complex, and that from its CPU, is filled in on reading
        let above: Vec<&Node> = match node.kind {
            NodeKind::Gpu | NodeKind::Nic => vec![self.fabric.tree_top(id)].into_iter().chain(self.fabric.package(id)),
            _ => Vec::new().into_iter().chain(cpu),
        }
        .filter(|n| *n != id)
        .map(|n| self.fabric.node(n))
        .collect();
        let cpus = node.cpus.clone().filter(|c| above.iter().find_map(|n| n.cpus.as_ref()) != Some(c));
        text("cpus", cpus.map(|c| c.to_string()));
        let numa = node.numa.filter(|n| above.iter().find_map(|a| a.numa) != Some(*n));
        fields.extend(numa.map(|n| format!("numa = {n}")));
        fields.extend(node.domain.map(|d| format!("domain = {d}")));
        let of_product = self.own_part(id).and_then(|part| part.constant("line_rate"));
        let line_rate = node.line_rate.map(|rate| rate.gb() * 8.0).filter(|gigabits| of_product != Some(*gigabits));
        fields.extend(line_rate.map(|gigabits| format!("line_rate = {gigabits}")));
        if !node.aliases.is_empty() {
            fields.push(format!("aliases = {}", list(&node.aliases)));
        }
        fields.extend(node.assumed.then(|| "assumed = true".to_owned()));
        let left_out = node.part.as_ref().filter(|_| self.overfull.contains(&id));
        let left_out =
            left_out.map(|p| format!("part '{p}' is left out: it has fewer lanes or bricks than are linked here"));
        let notes: Vec<String> = node.note.iter().cloned().chain(left_out).collect();
        fields.extend((!notes.is_empty()).then(|| format!("note = {}", quoted(&notes.join("; ")))));
        fields
    }

    fn slots(&mut self) {
        for slot in &self.machine.slots {
            self.table("[[slots]]");
            self.set("name", quoted(&slot.name));
            self.set("physical", slot.physical);
            self.set("wired", slot.wired);
            self.set_text("port", slot.port.as_deref());
            if !slot.shares.is_empty() {
                self.set("shares", list(&slot.shares));
            }
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

    fn links(&mut self) {
        let mut taken = HashSet::new();
        for link in self.fabric.links() {
            let fields = match &link.kind {
                // written with the nodes
                LinkKind::OnDie | LinkKind::OnCard => continue,
                LinkKind::Pcie { running, allowed, slot } => {
                    let slot = slot.as_deref().filter(|s| taken.insert((*s).to_owned()));
                    self.pcie(link, *running, *allowed, slot)
                }
                LinkKind::Gpu(bundle) => self.gpu_link(link, *bundle),
                LinkKind::Smp => {
                    let part = link.part.as_deref().and_then(|key| self.parts.get(key));
                    let known = part.filter(|p| p.kind == PartKind::Smp).map_or("?", |p| &p.name);
                    vec![("smp", quoted(known))]
                }
            };
            self.table("[[links]]");
            self.set("between", format_args!("[{}, {}]", quoted(self.name(link.a)), quoted(self.name(link.b))));
            for (key, value) in fields {
                self.set(key, value);
            }
            if link.assumed {
                self.set("assumed", true);
            }
            self.set_text("note", link.note.as_deref());
        }
    }

    /// In the short form where that says all: bricks, links, or that there is C2C.
    fn gpu_link(&self, link: &Link, bundle: GpuLink) -> Vec<(&'static str, String)> {
        let key = bundle.interconnect.family().key;
        let by_parts = || common_nvlink(self.part_of(link.a), self.part_of(link.b));
        match bundle {
            GpuLink { interconnect: Interconnect::Nvlink, generation, links: Some(bricks), rate: None } => {
                let generation = generation.filter(|g| by_parts() != Some(*g));
                let generation = generation.map(|g| ("nvlink_generation", g.to_string()));
                std::iter::once((key, bricks.to_string())).chain(generation).collect()
            }
            GpuLink { interconnect: Interconnect::Xgmi, generation: None, links, rate: None } => {
                vec![(key, links.unwrap_or(0).to_string())]
            }
            GpuLink { interconnect: Interconnect::C2c, generation: None, links: None, rate } => {
                let rate = rate.map(|r| ("c2c_rate", r.gb().to_string()));
                std::iter::once((key, "true".to_owned())).chain(rate).collect()
            }
            _ => vec![(key, quoted(&bundle.written()))],
        }
    }

    fn pcie(
        &self,
        link: &Link,
        running: PcieWidth,
        allowed: PcieWidth,
        slot: Option<&str>,
    ) -> Vec<(&'static str, String)> {
        let slots = &self.machine.slots;
        let declared = slot.and_then(|name| slots.iter().find(|s| s.name == name));
        let slot = slot.filter(|_| declared.is_some() || slots.is_empty());
        let mut fields = vec![("pcie", quoted(&running.to_string()))];
        if common_width(self.part_of(link.a), self.part_of(link.b), declared) != allowed {
            fields.push(("allowed", quoted(&allowed.to_string())));
        }
        fields.extend(slot.map(|s| ("slot", quoted(s))));
        fields
    }

    fn classes(&mut self) {
        if let Some((classes, _)) = &self.machine.stated_classes {
            self.table("[topology]");
            // an apostrophe string keeps what it holds; names that end it early cannot be in a matrix
            self.set("matrix", format_args!("'''\n{}\n'''", classes.to_topo_text().trim_end().replace("'''", "")));
        }
    }

    fn peers(&mut self) {
        let status = |a, b| self.machine.p2p.get(&(a, b)).copied();
        let gpus: Vec<NodeId> = self.fabric.of_kind(NodeKind::Gpu).collect();
        let mut answers: [Vec<(NodeId, NodeId)>; 2] = [Vec::new(), Vec::new()];
        for (i, a) in gpus.iter().enumerate() {
            for b in &gpus[i + 1..] {
                let both = [status(*a, *b), status(*b, *a)];
                if both.iter().flatten().all(|s| *s == P2pStatus::Unknown) {
                    continue;
                }
                let yes = both.iter().flatten().all(|s| *s == P2pStatus::Ok);
                answers[usize::from(yes)].push((*a, *b));
            }
        }
        let all = gpus.len() * gpus.len().saturating_sub(1) / 2;
        for (pairs, word) in answers.iter().zip(["no", "yes"]) {
            if pairs.is_empty() {
                continue;
            }
            self.table("[[p2p]]");
            self.set("status", quoted(word));
            if pairs.len() < all {
                let lines: String = pairs
                    .iter()
                    .map(|(a, b)| format!("  [{}, {}],\n", quoted(self.name(*a)), quoted(self.name(*b))))
                    .collect();
                self.set("pairs", format_args!("[\n{lines}]"));
            }
        }
    }

    /// Whether all names mean something that a file can refer to.
    fn known(&self, names: &[String]) -> bool {
        names.iter().all(|n| n == "host" || self.fabric.find(n).is_some())
    }

    fn matrix(&mut self, matrix: &Matrix) {
        if !self.known(&matrix.rows) || !self.known(&matrix.cols) || matrix.rows.is_empty() || matrix.cols.is_empty() {
            return;
        }
        let gpus: Vec<&str> = self.fabric.of_kind(NodeKind::Gpu).map(|id| self.name(id)).collect();
        let (all_rows, all_cols) = (matrix.rows == gpus, matrix.cols == gpus);
        self.table("[[published]]");
        self.set_word("quantity", Some(matrix.quantity));
        self.set_word("direction", matrix.direction);
        if let Some(p2p) = matrix.p2p {
            self.set("p2p", p2p);
        }
        self.set_word("op", matrix.op);
        self.set_word("engine", matrix.engine);
        self.set_word("unit", Some(matrix.unit));
        if let Some(size) = matrix.size {
            self.set("size", size.0);
        }
        if !matrix.title.is_empty() {
            self.set("title", quoted(&matrix.title));
        }
        if !all_rows {
            self.set("rows", list(&matrix.rows));
        }
        if !all_cols {
            self.set("cols", list(&matrix.cols));
        }
        let cell =
            |i, j| matrix.value(i, j).filter(|v| v.is_finite()).map_or_else(|| "-".to_owned(), |v| v.to_string());
        let mut text = String::new();
        for i in 0..matrix.rows.len() {
            let cells: Vec<String> = (0..matrix.cols.len()).map(|j| format!("{:>8}", cell(i, j))).collect();
            text += &cells.join(" ");
            text.push('\n');
        }
        self.set("matrix", format_args!("\"\"\"\n{text}\"\"\""));
    }

    fn statement(&mut self, statement: &Statement) {
        if !self.known(&statement.from) || !self.known(&statement.to) {
            return;
        }
        self.table("[[statements]]");
        self.set("text", quoted(&statement.text));
        self.set_word("quantity", Some(statement.quantity));
        self.set_word("direction", statement.direction);
        if let Some(p2p) = statement.p2p {
            self.set("p2p", p2p);
        }
        self.set("from", list(&statement.from));
        self.set("to", list(&statement.to));
        self.set("low", statement.low);
        self.set("high", statement.high);
        self.set_word("unit", Some(statement.unit));
    }

    fn rates(&mut self, table: &RateTable) {
        self.table("[[rates]]");
        self.set("words", list(&table.word_columns));
        self.set("columns", list(&table.rate_columns));
        self.set("unit", quoted("GB/s"));
        let row = |words: &[String], rates: Vec<String>| {
            format!("  {{ words = {}, values = [{}] }},\n", list(words), rates.join(", "))
        };
        let number = |rate: &Option<crate::units::Rate>| rate.map_or_else(|| "nan".to_owned(), |r| r.gb().to_string());
        let rows: String = table.rows.iter().map(|r| row(&r.words, r.rates.iter().map(number).collect())).collect();
        self.set("rows", format_args!("[\n{rows}]"));
    }

    fn curve(&mut self, curve: &Curve) {
        self.table("[[curves]]");
        self.set("what", quoted(&curve.what));
        self.set("ends", list(&curve.ends));
        let sizes: Vec<String> = curve.sizes.iter().map(|s| s.0.to_string()).collect();
        self.set("sizes", format_args!("[{}]", sizes.join(", ")));
        if !curve.settings.is_empty() {
            let settings: Vec<String> =
                curve.settings.iter().map(|(k, v)| format!("{} = {}", key(k), quoted(v))).collect();
            self.set("settings", format_args!("{{ {} }}", settings.join(", ")));
        }
        for series in &curve.series {
            self.table("[[curves.series]]");
            self.set("name", quoted(&series.name));
            self.set_word("unit", series.unit);
            let values: Vec<String> =
                series.values.iter().map(|v| v.map_or_else(|| "nan".to_owned(), |v| v.to_string())).collect();
            self.set("values", format_args!("[{}]", values.join(", ")));
        }
    }
}

/// A TOML string.
fn quoted(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for c in text.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            c if c.is_control() => out.push_str(&format!("\\u{:04X}", u32::from(c))),
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

/// A TOML key, bare where it may be.
fn key(name: &str) -> String {
    let bare = !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-');
    if bare { name.to_owned() } else { quoted(name) }
}

/// A TOML list of strings.
fn list(names: &[String]) -> String {
    let quoted: Vec<String> = names.iter().map(|n| quoted(n)).collect();
    format!("[{}]", quoted.join(", "))
}

#[cfg(test)]
mod tests;
