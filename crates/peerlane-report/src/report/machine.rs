//! What a report shows of one machine.

use peerlane::case::Case;
use peerlane::comparison::{Comparison, Metric};
use peerlane::export::json::MachineCheck;
use peerlane::matrix::{Direction, Engine, Operation};
use peerlane::verdict::Verdict;

use super::{Block, Suite, Table};
use crate::item::Item;
use crate::render::comparison::{self, Section};
use crate::render::headline::Headline;
use crate::render::{plain, screen, tree};
use crate::samples::Samples;

/// Findings, the drawing, and values with those that are off first.
pub(super) fn blocks(case: &Case, comparison: &Comparison, checked: &MachineCheck) -> Vec<Block> {
    let fabric = &case.machine.fabric;
    let sections = comparison::sections(comparison, fabric, false);
    let drawing = plain(|out| tree::write(out, fabric, tree::Options { verbose: false, fold: true }));
    let table = |title, folded, sections: &[Section]| {
        (!sections.is_empty()).then(|| Block::Table(table(title, folded, sections)))
    };
    let mut blocks = vec![Block::Findings, Block::Drawing("The machine", drawing)];
    blocks.extend(table("Not as expected", false, &comparison::worse(&sections)));
    blocks.extend(comparison::better(&sections).map(Block::Sentence));
    let tally = comparison::tally(&sections);
    blocks.extend(table("All values", true, &comparison::with_programs(sections, case, comparison.model())));
    blocks.push(Block::Sentence(screen::summary(case, checked, &tally, None)));
    blocks
}

fn table(title: &'static str, folded: bool, sections: &[Section]) -> Table {
    let row =
        |row: comparison::Row| vec![row.what, row.ends, row.cells.to_string(), row.expected, row.measured, row.ratio];
    Table {
        title,
        folded,
        words: 2,
        headings: vec!["what", "between", "cells", "expected", "measured", "ratio"],
        rows: comparison::rows(sections).into_iter().map(row).collect(),
        left_out: None,
    }
}

/// A case for each finding, and one for each rule without a finding.
pub(super) fn suites<'r, 'a>(
    name: &str,
    rules: impl Iterator<Item = &'static str>,
    items: &'r [Item<'a>],
    headline: &Headline,
) -> Vec<Suite<'r, 'a>> {
    let mut rules: Vec<&str> = rules.collect();
    // findings of unlisted rules must not be lost
    for item in items {
        if !rules.contains(&item.finding.rule.as_str()) {
            rules.push(&item.finding.rule);
        }
    }
    let case = |item: &'r Item<'a>| {
        let subjects = item.subjects();
        let of = if subjects.is_empty() { String::new() } else { format!(": {subjects}") };
        (format!("{}{of}", item.finding.rule), vec![item])
    };
    let cases = rules.into_iter().flat_map(|rule| {
        let found: Vec<_> = items.iter().filter(|item| item.finding.rule == rule).map(case).collect();
        if found.is_empty() { vec![(rule.to_owned(), Vec::new())] } else { found }
    });
    let skipped = (headline.verdict == Verdict::NotJudged).then(|| headline.cause.clone());
    vec![Suite { name: name.to_owned(), cases: cases.collect(), skipped }]
}

/// Measured and expected rates, and times.
pub(super) fn sample(samples: &mut Samples, comparison: &Comparison) {
    let machine = comparison.model().machine.name.as_str();
    let rates = samples.family("peerlane_bandwidth_bytes_per_second", "Measured or published bandwidth.");
    let expected =
        samples.family("peerlane_bandwidth_expected_bytes_per_second", "Bandwidth expected from the machine's parts.");
    let times = samples.family("peerlane_latency_seconds", "Latency of a small transfer, or of a load.");
    // peerlane's own measurements follow published ones, and the last is the most recent
    for series in comparison.matrices().iter().rev() {
        let (matrix, metric) = (series.matrix(), series.metric());
        let size = metric.size.map(|s| s.0.to_string()).unwrap_or_default();
        let from = if series.source().published() { "published" } else { "measured" };
        for (i, row) in matrix.rows.iter().enumerate() {
            for (j, col) in matrix.cols.iter().enumerate() {
                let Some(value) = matrix.value(i, j) else { continue };
                let mut labels = vec![("machine", machine), ("row", row.as_str()), ("column", col.as_str())];
                labels.extend(labels_of(&metric));
                labels.extend([("bytes", size.as_str()), ("test", matrix.title.as_str()), ("from", from)]);
                if let Some(rate) = metric.unit.rate(value) {
                    samples.add(rates, &labels, rate.bytes_per_second());
                } else if let Some(time) = metric.unit.time(value) {
                    labels.push(("quantity", metric.quantity.name()));
                    samples.add(times, &labels, time.seconds());
                }
            }
        }
    }
    // of measured cells, and all other predictions
    for table in comparison.tables() {
        for cell in &table.cells {
            let ends = table.rows.get(cell.row).zip(table.cols.get(cell.col));
            let (Some((row, col)), Some(value)) = (ends, &cell.expected) else { continue };
            let mut labels = vec![("machine", machine), ("row", row.as_str()), ("column", col.as_str())];
            labels.extend(labels_of(&table.metric));
            if let Some(rate) = table.metric.unit.rate(value.value) {
                samples.add(expected, &labels, rate.bytes_per_second());
            }
        }
    }
}

/// Labels of a metric; empty if the source does not state them.
fn labels_of(metric: &Metric) -> [(&'static str, &'static str); 4] {
    let direction = match metric.direction {
        Some(Direction::Unidirectional) => "one-way",
        Some(Direction::Bidirectional) => "both-ways-summed",
        Some(Direction::BidirectionalShare) => "both-ways-share",
        None => "",
    };
    let engine = match metric.engine {
        Some(Engine::Ce) => "ce",
        Some(Engine::Sm) => "sm",
        Some(Engine::Nic) => "nic",
        Some(Engine::Device) => "device",
        None => "",
    };
    let op = match metric.op {
        Some(Operation::Write) => "write",
        Some(Operation::Read) => "read",
        None => "",
    };
    let p2p = match metric.p2p {
        Some(true) => "on",
        Some(false) => "off",
        None => "",
    };
    [("direction", direction), ("p2p", p2p), ("engine", engine), ("op", op)]
}
