//! What nodes deliver to each other, in a terminal.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Write};
use std::path::Path;

use peerlane::nodes::{NodesRun, Probe, Transport};
use peerlane::one_line::shown;
use peerlane::stats::Median;
use peerlane::units::{Rate, Seconds};

use super::style::{self, paint};
use super::table;
use super::text::{count, hang};

/// Writes what was measured: its spread by transport, NIC and probe.
pub(crate) fn measured(out: &mut dyn Write, run: &NodesRun, file: Option<&Path>) -> io::Result<()> {
    let values = run.cells.iter().filter(|cell| cell.value().is_some()).count();
    let of = format!("{}: {}, {}", run.name, count(run.nodes.len(), "node"), count(values, "value"));
    writeln!(out, "{}", paint(style::HEADING, &of))?;
    spread(out, run)?;
    for lost in &run.lost {
        hang(out, "lost     ", &format!("{}: {}", host(run, lost.node), lost.why))?;
    }
    let without = run.cells.iter().filter(|cell| cell.value().is_none()).count();
    if without > 0 {
        writeln!(out, "{} without a value", count(without, "step"))?;
    }
    let judged = file.map_or_else(
        || "record it with -o FILE, and `peerlane check FILE` names the parts at fault".to_owned(),
        |file| format!("`peerlane check {}` names the parts at fault", shown(file)),
    );
    hang(out, "next     ", &judged)
}

/// A table: least, median and greatest of each kind of value.
pub(crate) fn spread(out: &mut dyn Write, run: &NodesRun) -> io::Result<()> {
    type Kind = (Transport, bool, Probe);
    let mut kinds: BTreeMap<Kind, (BTreeSet<Option<&str>>, Vec<f64>)> = BTreeMap::new();
    for cell in &run.cells {
        let step = &cell.step;
        let (nics, values) = kinds.entry((step.transport, !step.is_loopback(), step.probe)).or_default();
        nics.insert(step.from.nic.as_deref());
        values.extend(cell.value());
    }
    let headings =
        ["transport", "NICs of a node", "what", "values", "least", "median", "greatest", ""].map(str::to_owned);
    let rows = kinds.into_iter().map(|((transport, across, probe), (nics, values))| {
        let what = if across { probe.name().to_owned() } else { format!("{probe}, loopback") };
        let [least, median, greatest] = match Median::of(&values) {
            Some(median) => {
                let least = values.iter().copied().fold(f64::INFINITY, f64::min);
                [least, median.value, values.iter().copied().fold(0.0, f64::max)].map(|value| quantity(probe, value))
            }
            None => ["–", "–", "–"].map(str::to_owned),
        };
        let nics = match nics.into_iter().flatten().collect::<Vec<_>>().as_slice() {
            [] => "–".to_owned(),
            [one] => (*one).to_owned(),
            many => many.len().to_string(),
        };
        vec![transport.to_string(), nics, what, values.len().to_string(), least, median, greatest, String::new()]
    });
    table::columns(out, &headings, &rows.collect::<Vec<_>>(), 3)
}

/// `48.2 GB/s` or `2.31 µs`.
pub(crate) fn quantity(probe: Probe, value: f64) -> String {
    if probe == Probe::Latency {
        let us = Seconds::new(value).us();
        if us >= 100.0 { format!("{us:.0} µs") } else { format!("{us:.2} µs") }
    } else {
        Rate::from_bytes_per_second(value).to_string()
    }
}

/// A node's host name.
pub(crate) fn host(run: &NodesRun, node: usize) -> &str {
    run.nodes.get(node).map_or("?", |node| node.host.as_str())
}
