//! A machine's PCIe tree: sockets, root complexes, switches and devices, with link widths at the edges.

use std::io::{self, Write};

use peerlane::fabric::{Fabric, Link, LinkKind, Node, NodeId, NodeKind};
use peerlane::names::{natural, ranges};

use super::outline::{Below, Outline};
use super::style::{self, paint};
use super::text::{count, fit, hang, width, wrap};
use super::{label, line_width, nvlink};

/// Deeper trees are truncated; real ones have fewer than ten levels.
const MAX_DEPTH: usize = 32;

/// Up to this many GPUs, each has its own line.
const MAX_GPUS_EACH: usize = 20;

/// Columns for the names of nodes that share a line.
const NAMES: usize = 40;

/// How a tree is drawn.
#[derive(Clone, Copy)]
pub struct Options {
    /// Also show addresses and notes.
    pub verbose: bool,
    /// Nodes that are alike, with all below them, share a line.
    pub fold: bool,
}

/// Writes the tree, then NVLink and other links outside it.
pub fn write(out: &mut dyn Write, fabric: &Fabric, options: Options) -> io::Result<()> {
    let outline = Outline::of(fabric);
    let mut drawing = Drawing { fabric, options, outline: &outline, lines: Vec::new() };
    let cpus: Vec<NodeId> = fabric.of_kind(NodeKind::Cpu).collect();
    let between = smp_links(fabric);
    let packages = drawing.alike(&cpus);
    for (i, ids) in packages.iter().enumerate() {
        drawing.root(ids);
        // for two sockets the link is drawn between them; for more, links are listed below
        if let ([only], [_, _], 0) = (between.as_slice(), packages.as_slice(), i)
            && cpus.len() == 2
            && !outline.is_implied()
        {
            drawing.lines.push(Line::plain("║  ", label::link(only)));
        }
    }
    let listed = cpus.len() > 2 || packages.len() < cpus.len();
    let tops = fabric.ids().filter(|id| fabric.upstream(*id).is_none() && !below_cpu(fabric, *id));
    let (trees, lone): (Vec<NodeId>, Vec<NodeId>) = tops
        .filter(|id| !matches!(fabric.node(*id).kind, NodeKind::Cpu | NodeKind::NvSwitch))
        .partition(|id| fabric.downstream(*id).next().is_some() || !fabric.node(*id).kind.is_endpoint());
    for tops in drawing.alike(&trees) {
        drawing.root(&tops);
    }
    for line in drawing.lines {
        line.write(out)?;
    }
    if listed && !outline.is_implied() {
        sockets(out, fabric, &cpus, &between, options.fold)?;
    }
    for line in outline.remark().iter().flat_map(|text| wrap(text, line_width() - 2)) {
        writeln!(out, "  {}", paint(style::DIM, &line))?;
    }
    if !lone.is_empty() {
        let names: Vec<&str> = lone.iter().map(|id| fabric.node(*id).name.as_str()).collect();
        hang(out, "  position in the PCIe tree unknown: ", &with_product(fabric, &lone, &ranges(&names)))?;
    }
    nvlink::write(out, fabric, options.fold)
}

/// The links between more than two sockets: one line if all pairs are linked alike.
fn sockets(out: &mut dyn Write, fabric: &Fabric, cpus: &[NodeId], links: &[&Link], fold: bool) -> io::Result<()> {
    let mut labels: Vec<String> = links.iter().map(|l| label::link(l)).collect();
    labels.sort_unstable();
    labels.dedup();
    if links.is_empty() {
        return Ok(());
    }
    if let ([label], [a, b]) = (labels.as_slice(), cpus) {
        return hang(out, "  ", &format!("{} ═ {}: {label}", fabric.node(*a).name, fabric.node(*b).name));
    }
    if let ([label], true) = (labels.as_slice(), links.len() == cpus.len() * (cpus.len() - 1) / 2) {
        let names: Vec<&str> = cpus.iter().map(|id| fabric.node(*id).name.as_str()).collect();
        return hang(out, "  ", &format!("all pairs of {}: {label}", ranges(&names)));
    }
    if fold && links.len() > 3 {
        for label in labels {
            let of: Vec<&&Link> = links.iter().filter(|l| label::link(l) == label).collect();
            let ends = of.iter().flat_map(|l| [l.a, l.b]).map(|id| fabric.node(id).name.as_str());
            let mut ends: Vec<&str> = ends.collect();
            ends.sort_by_key(|name| natural(name));
            ends.dedup();
            hang(out, "  ", &format!("{} among {}: {label}", count(of.len(), "link"), ranges(&ends)))?;
        }
        return Ok(());
    }
    for link in links {
        let ends = format!("{} ═ {}", fabric.node(link.a).name, fabric.node(link.b).name);
        writeln!(out, "  {ends}  {}", paint(style::DIM, &label::link(link)))?;
    }
    Ok(())
}

/// The names, and the product if it is the same for all.
fn with_product(fabric: &Fabric, ids: &[NodeId], names: &str) -> String {
    let mut products: Vec<String> = ids.iter().map(|id| label::product(fabric.node(*id))).collect();
    products.dedup();
    match products.as_slice() {
        [one] if !one.is_empty() => format!("{names} ({one})"),
        _ => names.to_owned(),
    }
}

fn smp_links(fabric: &Fabric) -> Vec<&Link> {
    fabric.links().iter().filter(|link| link.kind == LinkKind::Smp).collect()
}

/// Whether a node is drawn below a CPU package.
fn below_cpu(fabric: &Fabric, id: NodeId) -> bool {
    let parent = |&(link, next): &(_, NodeId)| {
        fabric.link(link).kind == LinkKind::OnDie && fabric.node(next).kind == NodeKind::Cpu
    };
    fabric.links_of(id).iter().any(parent)
}

/// One line: branches, edge, name and description.
struct Line {
    lead: String,
    edge: String,
    shortfall: Option<String>,
    narrow: bool,
    name: String,
    look: anstyle::Style,
    detail: String,
}

impl Line {
    fn plain(lead: &str, detail: String) -> Self {
        Line {
            lead: lead.to_owned(),
            edge: String::new(),
            shortfall: None,
            narrow: false,
            name: String::new(),
            look: style::PLAIN,
            detail,
        }
    }

    fn write(self, out: &mut dyn Write) -> io::Result<()> {
        let edge = match (&self.shortfall, self.edge.is_empty()) {
            (Some(full), _) => format!("{} of {full}", self.edge),
            (None, _) => self.edge.clone(),
        };
        let edge_look = if self.narrow { style::WARN } else { style::PLAIN };
        write!(out, "  {}", paint(style::DIM, &self.lead))?;
        let mut used = 2 + width(&self.lead);
        if !edge.is_empty() {
            write!(out, " {} {}", paint(edge_look, &edge), paint(style::DIM, "─"))?;
            used += 3 + width(&edge);
        }
        let gap = if self.name.is_empty() || self.lead.is_empty() { "" } else { " " };
        let name = fit(&self.name, line_width().saturating_sub(used + 1));
        write!(out, "{gap}{}", paint(self.look, &name))?;
        used += width(gap) + width(&name);
        if !self.detail.is_empty() && used + 4 < line_width() {
            let gap = if name.is_empty() { "" } else { "  " };
            write!(out, "{gap}{}", fit(&self.detail, line_width() - used - 2))?;
        }
        writeln!(out)
    }
}

struct Drawing<'a> {
    fabric: &'a Fabric,
    options: Options,
    outline: &'a Outline<'a>,
    lines: Vec<Line>,
}

/// Siblings that share a line, with the link above the first.
struct Group<'a> {
    link: &'a Link,
    /// The root complex on the way to the first, if it has no line of its own.
    root_complex: String,
    ids: Vec<NodeId>,
}

impl<'a> Drawing<'a> {
    /// A line for nodes without anything above, and the lines below them.
    fn root(&mut self, ids: &[NodeId]) {
        let Some(&first) = ids.first() else { return };
        let (name, detail) = self.describe(ids, 1);
        let look = look(self.fabric.node(first).kind);
        self.lines.push(Line {
            lead: String::new(),
            edge: String::new(),
            shortfall: None,
            narrow: false,
            name,
            look,
            detail,
        });
        self.children(ids, "", 0);
    }

    /// What is below nodes that share a line.
    fn children(&mut self, ids: &[NodeId], indent: &str, depth: usize) {
        let groups = self.groups(ids);
        if depth >= MAX_DEPTH && !groups.is_empty() {
            self.lines.push(Line::plain(&format!("{indent}└─"), " …".to_owned()));
            return;
        }
        let last = groups.len().saturating_sub(1);
        for (at, Group { link, root_complex, ids: below }) in groups.iter().enumerate() {
            let Some(&first) = below.first() else { continue };
            let (branch, further) = if at == last { ("└─", "   ") } else { ("├─", "│  ") };
            let (name, detail) = self.describe(below, ids.len());
            let edge = label::edge(link);
            let edge = if edge.is_empty() && last > 0 && below.len() == 1 { root_complex.clone() } else { edge };
            self.lines.push(Line {
                lead: format!("{indent}{branch}"),
                edge,
                shortfall: label::shortfall(link).map(|full| full.to_string()),
                narrow: label::is_narrow(link),
                name,
                look: look(self.fabric.node(first).kind),
                detail,
            });
            self.children(below, &format!("{indent}{further}"), depth + 1);
        }
    }

    /// Nodes at the top; those of the same shape together.
    fn alike(&self, ids: &[NodeId]) -> Vec<Vec<NodeId>> {
        let mut all: Vec<(Option<String>, Vec<NodeId>)> = Vec::new();
        for &id in ids {
            let key = self.options.fold.then(|| self.shape(id, 0));
            match all.iter_mut().find(|(of, _)| key.is_some() && *of == key) {
                Some((_, alike)) => alike.push(id),
                None => all.push((key, vec![id])),
            }
        }
        all.into_iter().map(|(_, alike)| alike).collect()
    }

    /// What is below nodes that share a line, one group a line.
    fn groups(&self, ids: &[NodeId]) -> Vec<Group<'a>> {
        let mut groups: Vec<(Option<String>, Group)> = Vec::new();
        for below in ids.iter().flat_map(|id| self.shown_below(*id)) {
            let (link, child) = (self.own_link(&below), below.node);
            let key = self.options.fold.then(|| format!("{}{}", edge(link), self.shape(child, 0)));
            let group = match &key {
                Some(_) => groups.iter_mut().find(|(of, _)| *of == key),
                None => groups.last_mut().filter(|(_, group)| {
                    group.ids.first().is_some_and(|first| self.collapses(group.link, *first, link, child))
                }),
            };
            match group {
                Some((_, group)) => group.ids.push(child),
                None => groups.push((key, Group { link, root_complex: self.root_complex(&below), ids: vec![child] })),
            }
        }
        groups.into_iter().map(|(_, group)| group).collect()
    }

    /// What a node and all below it look like, but for names and places: nodes of the same shape share a line.
    fn shape(&self, id: NodeId, depth: usize) -> String {
        let node = self.fabric.node(id);
        let mut below: Vec<String> = match depth {
            MAX_DEPTH => Vec::new(),
            _ => {
                let all = self.shown_below(id).into_iter();
                all.map(|b| format!("{}{}", edge(self.own_link(&b)), self.shape(b.node, depth + 1))).collect()
            }
        };
        below.sort_unstable();
        let ports = if self.is_nic_card(id) { self.fabric.downstream(id).count() } else { 0 };
        format!("{:?}|{}|{}|{ports}({})", node.kind, self.product(id), node.assumed, below.join(","))
    }

    /// Whether two siblings share a line: identical leaves in a machine with very many GPUs.
    fn collapses(&self, link: &Link, child: NodeId, other_link: &Link, other: NodeId) -> bool {
        let (a, b) = (self.fabric.node(child), self.fabric.node(other));
        self.fabric.of_kind(NodeKind::Gpu).nth(MAX_GPUS_EACH).is_some()
            && a.kind == b.kind
            && a.kind.is_endpoint()
            && label::product(a) == label::product(b)
            && link.kind == other_link.kind
    }

    /// The link just above a node.
    fn own_link(&self, below: &Below) -> &'a Link {
        // there is always one: a node is below another by a link
        let id = below.links.last().copied().unwrap_or_else(|| unreachable!("no link above a node"));
        self.fabric.link(id)
    }

    /// The root complex on the way to a node that has no line of its own.
    fn root_complex(&self, below: &Below) -> String {
        let passed = below.passed.iter().map(|id| self.fabric.node(*id));
        passed.filter(|n| n.kind == NodeKind::RootComplex).map(|n| n.name.clone()).next().unwrap_or_default()
    }

    /// What is drawn below a node, in order. NICs of a card share the card's line.
    fn shown_below(&self, id: NodeId) -> Vec<Below> {
        if self.is_nic_card(id) {
            return Vec::new();
        }
        let fabric = self.fabric;
        let is_host = |below: &Below| fabric.node(below.node).kind == NodeKind::Host;
        let one_memory = self.hosts(id).len() <= 1;
        let shown = self.outline.below(id).into_iter().filter(|below| !(is_host(below) && one_memory));
        let mut all: Vec<Below> = shown.collect();
        // memory first; the sort is stable, so the rest keeps the fabric's order
        all.sort_by_key(|below| !is_host(below));
        all
    }

    fn hosts(&self, cpu: NodeId) -> Vec<NodeId> {
        let near = self.fabric.links_of(cpu).iter().map(|(_, n)| *n);
        near.filter(|n| self.fabric.node(*n).kind == NodeKind::Host).collect()
    }

    fn is_nic_card(&self, id: NodeId) -> bool {
        self.fabric.node(id).kind == NodeKind::Card
            && self.fabric.downstream(id).all(|(_, n)| self.fabric.node(n).kind == NodeKind::Nic)
    }

    /// What a node is; of a card of NICs, what its ports are.
    fn product(&self, id: NodeId) -> String {
        if let Some(switches) = self.outline.switches(id) {
            return switches.to_owned();
        }
        let ports = self.fabric.downstream(id).map(|(_, n)| n).filter(|_| self.is_nic_card(id));
        let products = ports.chain([id]).map(|id| label::product(self.fabric.node(id)));
        products.into_iter().find(|product| !product.is_empty()).unwrap_or_default()
    }

    /// Name and description of nodes that share a line, below so many others that do.
    fn describe(&self, ids: &[NodeId], above: usize) -> (String, String) {
        match ids {
            [only] => self.describe_one(*only),
            _ => {
                let nodes = || ids.iter().map(|id| self.fabric.node(*id));
                let domains: Option<Vec<String>> = ids.iter().map(|id| self.outline.domain(*id)).collect();
                if let Some(domains) = domains {
                    return (domains.join(", "), String::new());
                }
                let cards = ids.iter().any(|id| self.is_nic_card(*id));
                let names = match cards {
                    true => ids.iter().map(|id| self.describe_one(*id).0).collect::<Vec<_>>().join(", "),
                    false => ranges(&nodes().map(|n| n.name.as_str()).collect::<Vec<_>>()),
                };
                // of many names the first and the last
                let name = match (names.split_once(", "), names.rsplit_once(", ")) {
                    (Some((first, _)), Some((_, last))) if width(&names) > NAMES => {
                        format!("{first}, … {last} ({})", ids.len())
                    }
                    _ => names,
                };
                let mut words: Vec<String> = ids.first().map(|id| self.product(*id)).into_iter().collect();
                words.extend(cards.then(|| "one card each".to_owned()));
                words.extend((above > 1 && ids.len() > above).then(|| format!("{} each", ids.len() / above)));
                words.extend((nodes().any(|n| n.assumed) && !self.outline.is_assumed()).then(|| "assumed".to_owned()));
                words.retain(|w| !w.is_empty());
                (name, words.join(" · "))
            }
        }
    }

    fn describe_one(&self, id: NodeId) -> (String, String) {
        let node = self.fabric.node(id);
        if self.is_nic_card(id) {
            let ports: Vec<NodeId> = self.fabric.downstream(id).map(|(_, n)| n).collect();
            let names: Vec<String> = ports.iter().map(|n| label::name(self.fabric.node(*n))).collect();
            let detail = Some(self.product(id)).filter(|p| !p.is_empty()).into_iter().chain(["one card".to_owned()]);
            return (names.join(" + "), detail.collect::<Vec<_>>().join(" · "));
        }
        if let Some(domain) = self.outline.domain(id) {
            let cpus = node.cpus.as_ref().filter(|_| !self.options.fold).map(|cpus| format!("CPUs {cpus}"));
            return (domain, cpus.unwrap_or_default());
        }
        let switches = self.outline.switches(id).map(str::to_owned);
        let mut words = vec![switches.unwrap_or_else(|| label::product(node))];
        let memory = self.hosts(id);
        if node.kind == NodeKind::Cpu
            && let [only] = memory.as_slice()
        {
            words.push(format!("memory {}", self.fabric.node(*only).name));
        }
        let repeats = |same: &dyn Fn(&Node) -> bool| {
            node.kind != NodeKind::Cpu && self.fabric.package(id).is_some_and(|cpu| same(self.fabric.node(cpu)))
        };
        if !node.kind.is_endpoint() || node.kind == NodeKind::Host {
            let numa = node.numa.filter(|_| !repeats(&|cpu| cpu.numa == node.numa));
            words.extend(numa.map(|n| format!("NUMA {n}")));
            let cpus = node.cpus.as_ref().filter(|_| !self.options.fold && !repeats(&|cpu| cpu.cpus == node.cpus));
            words.extend(cpus.map(|cpus| format!("CPUs {cpus}")));
        }
        if self.options.verbose {
            words.extend(node.address.map(|a| a.to_string()));
        }
        // a package that represents several has no product of its own
        if self.options.verbose || node.kind == NodeKind::Cpu && !self.options.fold {
            words.extend(node.note.clone());
        }
        words.extend((node.assumed && !self.outline.is_assumed()).then(|| "assumed".to_owned()));
        words.retain(|w| !w.is_empty());
        (label::name(node), words.join(" · "))
    }
}

/// The label of a link with what it could be.
fn edge(link: &Link) -> String {
    let full = label::shortfall(link).map(|full| format!(" of {full}")).unwrap_or_default();
    format!("{}{full}", label::edge(link))
}

fn look(kind: NodeKind) -> anstyle::Style {
    match kind {
        NodeKind::Gpu => style::GPU,
        NodeKind::Nic | NodeKind::Card | NodeKind::Nvme | NodeKind::Fpga => style::NIC,
        _ => style::INNER,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use peerlane::fabric::{FabricBuilder, PcieGeneration, PcieWidth};

    fn drawn(fabric: &Fabric) -> String {
        let mut out = Vec::new();
        write(&mut out, fabric, Options { verbose: false, fold: false }).unwrap();
        anstream::adapter::strip_str(&String::from_utf8(out).unwrap()).to_string()
    }

    #[test]
    fn a_narrow_link_shows_what_it_could_be() {
        let mut b = FabricBuilder::new();
        let rc = b.node(Node::new("rc0", NodeKind::RootComplex));
        let (gpu0, gpu1) = (b.node(Node::new("GPU0", NodeKind::Gpu)), b.node(Node::new("GPU1", NodeKind::Gpu)));
        let x16 = PcieWidth::new(PcieGeneration::Gen3, 16);
        let x1 = PcieWidth::new(PcieGeneration::Gen2, 1);
        b.link(Link::new(rc, gpu0, LinkKind::pcie(x16)));
        b.link(Link::new(rc, gpu1, LinkKind::Pcie { running: x1, allowed: x16, slot: None }));
        let text = drawn(&b.build().unwrap());
        assert_eq!(text, "  rc0  root complex\n  ├─ 3.0 x16 ─ GPU0\n  └─ 2.0 x1 of 3.0 x16 ─ GPU1\n");
    }

    #[test]
    fn ports_of_one_card_share_a_line() {
        let mut b = FabricBuilder::new();
        let switch = b.node(Node::new("sw0", NodeKind::Switch));
        let card = b.node(Node::new("card0", NodeKind::Card));
        b.link(Link::new(switch, card, LinkKind::pcie(PcieWidth::default())));
        for i in 0..2 {
            let port = b.node(Node::new(format!("mlx5_{i}"), NodeKind::Nic));
            b.link(Link::new(card, port, LinkKind::OnCard));
        }
        assert_eq!(drawn(&b.build().unwrap()), "  sw0  PCIe switch\n  └─ mlx5_0 + mlx5_1  one card\n");
    }

    #[test]
    fn an_endless_chain_of_switches_is_truncated() {
        let mut b = FabricBuilder::new();
        let mut above = b.node(Node::new("sw", NodeKind::Switch));
        for i in 0..5000 {
            let next = b.node(Node::new(format!("sw{i}"), NodeKind::Switch));
            b.link(Link::new(above, next, LinkKind::pcie(PcieWidth::default())));
            above = next;
        }
        let text = drawn(&b.build().unwrap());
        assert!(text.lines().count() < 100 && text.lines().all(|l| width(l) <= line_width()));
    }
}
