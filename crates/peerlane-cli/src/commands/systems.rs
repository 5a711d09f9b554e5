//! `peerlane systems`: the catalogue.

use std::io::Write;

use peerlane::catalogue::{self, Part, PartKind, Parts, system_names};
use peerlane::cluster::{Cluster, ClusterSummary, cluster_names, embedded};
use peerlane::export::json::SystemsDocument;
use peerlane::fabric::NodeKind;
use peerlane::fact::P2pStatus;
use peerlane::machine::{Facts, Machine};
use peerlane::target::unknown;
use peerlane::units::{Bytes, Rate};

use super::heading;
use crate::args::{SystemsAction, SystemsArgs};
use crate::formats::json;
use crate::render::style::{self, paint};
use crate::render::text::{self, fit, hang, headline, width, wrap};
use crate::render::{comparison, findings, label, line_width, matrix, tree};
use crate::{Failure, Outcome};

pub(crate) fn run(args: &SystemsArgs, out: &mut dyn Write) -> Result<Outcome, Failure> {
    match &args.action {
        Some(SystemsAction::Show { name }) => {
            if let Some(cluster) = embedded(name) {
                let cluster = cluster.map_err(|e| Failure::new(e.to_string()))?;
                if args.detail.verbose {
                    let node = &cluster.node.name;
                    return Err(Failure::new(format!(
                        "-v shows the parts of a machine, and {name} is a cluster; of its nodes: peerlane systems show {node} -v"
                    )));
                }
                if args.detail.json {
                    json(out, &SystemsDocument::new([], &[cluster], true))?;
                } else {
                    show_cluster(out, &ClusterSummary::of(&cluster))?;
                }
                return Ok(Outcome::default());
            }
            let machine = system(name)?;
            if args.detail.json {
                json(out, &SystemsDocument::new([&machine], &[], true))?;
            } else {
                show(out, &machine, args.detail.verbose)?;
            }
        }
        Some(SystemsAction::Parts { words }) => list(out, &known_parts(words)?)?,
        None | Some(SystemsAction::List) => {
            let machines = system_names().map(system).collect::<Result<Vec<Machine>, Failure>>()?;
            let clusters = cluster_names().filter_map(embedded).collect::<Result<Vec<_>, _>>();
            let clusters = clusters.map_err(|e| Failure::new(e.to_string()))?;
            if args.detail.json {
                json(out, &SystemsDocument::new(&machines, &clusters, false))?;
            } else {
                let titled = |m: &Machine| (m.name.clone(), m.title.clone().unwrap_or_else(|| label::inventory(m)));
                list(out, &machines.iter().map(titled).collect::<Vec<_>>())?;
                writeln!(out, "\nNames of clouds and makers that mean one of these, as far as predictions go:")?;
                let titled = |i: &catalogue::Instance| (i.system.clone(), i.names.join(", "));
                list(out, &catalogue::instances().iter().map(titled).collect::<Vec<_>>())?;
                writeln!(out, "\nClusters, for simulate and sweep:")?;
                let titled = |c: &Cluster| (c.name.clone(), c.title.clone().unwrap_or_default());
                list(out, &clusters.iter().map(titled).collect::<Vec<_>>())?;
            }
        }
    }
    Ok(Outcome::default())
}

/// A system of the catalogue by name.
fn system(name: &str) -> Result<Machine, Failure> {
    match catalogue::system(name) {
        Some(read) => read.map_err(|e| Failure::new(e.to_string())),
        None => Err(Failure::new(unknown(name, "no such system"))),
    }
}

/// The parts that a machine can have, by kind, each with its title and what it connects.
fn known_parts(words: &[String]) -> Result<Vec<(String, String)>, Failure> {
    let mut found: Vec<(&str, &Part)> = Vec::new();
    for part in Parts::embedded().iter() {
        let kind = match part.kind {
            PartKind::Family => continue,
            PartKind::Smp => "inter-socket link",
            kind => kind.node_kind().map_or("", NodeKind::name),
        };
        let text = format!("{kind} {} {}", part.name, part.title).to_lowercase();
        if words.iter().all(|word| text.contains(&word.to_lowercase())) {
            found.push((kind, part));
        }
    }
    if found.is_empty() {
        let words = words.join(" ");
        let near = Parts::embedded().nearest(&words, |_| true);
        let near: Vec<String> = near.into_iter().map(|(name, _)| name).collect();
        let hint = if near.is_empty() { String::new() } else { format!("; nearest: {}", near.join(", ")) };
        return Err(Failure::new(format!("no part '{words}'{hint} ('peerlane systems parts' lists all)")));
    }
    found.sort_by_key(|(kind, part)| (*kind, part.name.as_str()));
    let entry = |(kind, part): (&str, &Part)| {
        let pcie = part.pcie.map(|width| format!(" · PCIe {width}")).unwrap_or_default();
        let lanes = part.lanes.map(|lanes| format!(" · {lanes} lanes")).unwrap_or_default();
        (part.name.clone(), format!("{kind} · {}{pcie}{lanes}", part.title))
    };
    Ok(found.into_iter().map(entry).collect())
}

/// Names and titles.
fn list(out: &mut dyn Write, entries: &[(String, String)]) -> Result<(), Failure> {
    let column = entries.iter().map(|(name, _)| width(name)).max().unwrap_or(0);
    for (name, title) in entries {
        let name = paint(style::HEADING, &format!("{name:column$}"));
        for (i, line) in wrap(title, line_width().saturating_sub(column + 2)).iter().enumerate() {
            let name = if i == 0 { name.clone() } else { " ".repeat(column) };
            writeln!(out, "{name}  {line}")?;
        }
    }
    Ok(())
}

fn show_cluster(out: &mut dyn Write, cluster: &ClusterSummary) -> Result<(), Failure> {
    let ClusterSummary { name, title, source, node, nodes, gpus, network, link_rate, assumptions, notes } = cluster;
    for line in headline(&format!("{name}: {}", title.as_deref().unwrap_or_default())) {
        writeln!(out, "{}", paint(style::HEADING, &line))?;
    }
    if let Some(source) = source {
        hang(out, "source:  ", source)?;
    }
    hang(out, "nodes:   ", &format!("{nodes} of {node} ('peerlane systems show {node}'), {gpus} GPUs in all"))?;
    hang(out, "network: ", &format!("{network}, links of {} Gb/s each way", text::number(*link_rate)))?;
    findings::sentences(out, "Notes", notes, usize::MAX)?;
    findings::sentences(out, "Assumed", assumptions, usize::MAX)?;
    Ok(())
}

fn show(out: &mut dyn Write, machine: &Machine, verbose: bool) -> Result<(), Failure> {
    heading(out, machine)?;
    writeln!(out, "{}", label::inventory(machine))?;
    if let Some(source) = &machine.source {
        hang(out, "source: ", source)?;
    }
    let facts = facts(&machine.facts);
    if !facts.is_empty() {
        hang(out, "facts:  ", &facts.join(" · "))?;
    }
    writeln!(out)?;
    tree::write(out, &machine.fabric, tree::Options { verbose, fold: false })?;
    slots(out, machine)?;
    findings::sentences(out, "Peer access, as stated", &peer_access(machine), usize::MAX)?;
    matrix::sourced(out, &machine.matrices)?;
    rates(out, machine)?;
    curves(out, machine)?;
    let mut statements: Vec<String> = machine.statements.iter().map(|s| s.text.clone()).collect();
    // one sentence may cover several GPUs, each with its own figure
    statements.dedup();
    findings::sentences(out, "Stated", &statements, usize::MAX)?;
    findings::sentences(out, "Notes", &machine.notes, usize::MAX)?;
    findings::sentences(out, "Unknown", &machine.unknown, usize::MAX)?;
    findings::sentences(out, "Assumed", &machine.assumptions, usize::MAX)?;
    if verbose { parts(out, machine) } else { Ok(()) }
}

/// Price, size and the like in words.
fn facts(facts: &Facts) -> Vec<String> {
    let known = [
        facts.year.map(|year| year.to_string()),
        facts.price_usd.map(|price| format!("{price} US dollars")),
        facts.rack_units.map(|units| format!("{units} rack units")),
        facts.power_w.map(|power| format!("{power} W")),
        facts.tflops.map(|rate| format!("{rate} TFLOP/s")),
    ];
    known.into_iter().flatten().collect()
}

/// Which pairs of GPUs have peer access and which do not, if the source states it.
fn peer_access(machine: &Machine) -> Vec<String> {
    let name = |id| machine.fabric.node(id).name.as_str();
    let said = |works: bool, word: &str| {
        let pairs: Vec<(&str, &str)> = machine
            .p2p
            .iter()
            .filter(|(_, status)| **status != P2pStatus::Unknown && (**status == P2pStatus::Ok) == works)
            .map(|((a, b), _)| (name(*a), name(*b)))
            .collect();
        (!pairs.is_empty()).then(|| format!("{word}: {}", comparison::between(&pairs)))
    };
    [said(true, "yes"), said(false, "no")].into_iter().flatten().collect()
}

/// Tables of rates whose rows are described in words.
fn rates(out: &mut dyn Write, machine: &Machine) -> Result<(), Failure> {
    for (table, origin) in &machine.rates {
        writeln!(out, "\nrates, GB/s")?;
        writeln!(out, "{}", paint(style::DIM, &fit(&label::origin(origin), line_width())))?;
        let headings: Vec<String> = table.word_columns.iter().chain(&table.rate_columns).cloned().collect();
        let rows: Vec<Vec<String>> = table
            .rows
            .iter()
            .map(|row| {
                let mut words = row.words.clone();
                words.resize(table.word_columns.len(), String::new());
                words.extend(row.rates.iter().map(|rate| number(rate.map(Rate::gb))));
                words
            })
            .collect();
        matrix::table(out, &headings, &rows, table.rate_columns.len())?;
    }
    Ok(())
}

/// Numbers by message size.
fn curves(out: &mut dyn Write, machine: &Machine) -> Result<(), Failure> {
    for (curve, origin) in &machine.curves {
        let ends = if curve.ends.is_empty() { String::new() } else { format!(", {}", curve.ends.join(" → ")) };
        let settings: String = curve.settings.iter().map(|(name, value)| format!(", {name} {value}")).collect();
        writeln!(out)?;
        hang(out, "", &format!("{}{ends}{settings}", curve.what))?;
        writeln!(out, "{}", paint(style::DIM, &fit(&label::origin(origin), line_width())))?;
        let names = curve.series.iter().map(|s| match s.unit {
            Some(unit) => format!("{}, {unit}", s.name),
            None => s.name.clone(),
        });
        let headings: Vec<String> = std::iter::once("size".to_owned()).chain(names).collect();
        let row = |(at, size): (usize, &Bytes)| {
            let values = curve.series.iter().map(|s| number(s.values.get(at).copied().flatten()));
            std::iter::once(size.to_string()).chain(values).collect()
        };
        let rows: Vec<Vec<String>> = curve.sizes.iter().enumerate().map(row).collect();
        matrix::table(out, &headings, &rows, headings.len())?;
    }
    Ok(())
}

/// A number as its source prints it.
fn number(value: Option<f64>) -> String {
    value.map_or_else(|| "-".to_owned(), |v| v.to_string())
}

fn slots(out: &mut dyn Write, machine: &Machine) -> Result<(), Failure> {
    if machine.slots.is_empty() {
        return Ok(());
    }
    writeln!(out, "\n{}", paint(style::HEADING, "Slots"))?;
    for slot in &machine.slots {
        let port = slot.port.as_ref().map(|p| format!(" at {p}")).unwrap_or_default();
        let shares = if slot.shares.is_empty() {
            String::new()
        } else {
            format!(", shares lanes with {}", slot.shares.join(", "))
        };
        hang(out, "  ", &format!("{}: x{} connector, x{} wired{port}{shares}", slot.name, slot.physical, slot.wired))?;
    }
    Ok(())
}

/// The machine's parts, with the value, basis and source of each constant.
fn parts(out: &mut dyn Write, machine: &Machine) -> Result<(), Failure> {
    let nodes = machine.fabric.nodes().iter().filter_map(|n| n.part.as_deref());
    let links = machine.fabric.links().iter().filter_map(|l| l.part.as_deref());
    let mut keys: Vec<&str> = nodes.chain(links).collect();
    keys.sort_unstable();
    keys.dedup();
    if !keys.is_empty() {
        writeln!(out, "\n{}", paint(style::HEADING, "Parts"))?;
    }
    for part in keys.into_iter().filter_map(|key| Parts::embedded().get(key)) {
        hang(out, "  ", &format!("{}: {}", part.name, part.title))?;
        for (name, constant) in &part.constants {
            let basis = format!("{:?}", constant.basis).to_lowercase();
            let label = format!("    {name} = {} {}, {basis}: ", constant.value, constant.unit);
            if width(&label) < line_width() / 2 {
                hang(out, &label, &constant.source)?;
            } else {
                writeln!(out, "{}", label.trim_end())?;
                hang(out, "      ", &constant.source)?;
            }
        }
    }
    Ok(())
}
