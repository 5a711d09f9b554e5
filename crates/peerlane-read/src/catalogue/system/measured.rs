//! Numbers, classes and statements of a system file → what the machine is known to do.

use std::collections::BTreeMap;
use std::ops::Range;

use toml::Spanned;

use super::file::{PeerAnswer, PeerEntry, PublishedEntry, RatesEntry, StatementEntry, SystemFile, Topology};
use super::names::find_node;
use super::problems::{Problems, SystemError};
use super::source::Source;
use crate::evidence::scan_text;
use peerlane_machine::curve::Curve;
use peerlane_machine::fabric::{Fabric, NodeId, NodeKind};
use peerlane_machine::fact::{ClassMatrix, Evidence, Fact, P2pStatus, RateRow, RateTable};
use peerlane_machine::machine::{Machine, SourcedMatrix, Statement};
use peerlane_machine::matrix::Matrix;
use peerlane_machine::origin::{Origin, Warning};
use peerlane_machine::units::{Bytes, Rate};

/// The tool that published figures name as their origin.
const PUBLISHED: &str = "published figures";

/// Adds everything that a file states of its machine's behaviour.
pub(super) fn add(system: &SystemFile, source: &Source, machine: &mut Machine, problems: &mut Problems) {
    let reading = Reading { source, fabric: &machine.fabric };
    if let Some(topology) = &system.topology {
        (machine.stated_classes, machine.evidence, machine.warnings) = reading.topology(topology);
    }
    machine.matrices = system.published.iter().filter_map(|e| problems.keep(reading.published(e))).collect();
    machine.statements =
        system.statements.iter().filter_map(|e| problems.keep_of(&e.span(), reading.statement(e))).collect();
    machine.rates = system.rates.iter().filter_map(|e| problems.keep_of(&e.span(), reading.rates(e))).collect();
    machine.curves = system.curves.iter().filter_map(|e| problems.keep_of(&e.span(), reading.curve(e))).collect();
    machine.p2p = problems.keep(reading.p2p(&system.p2p)).unwrap_or_default();
    let unknown_paths = problems.keep(reading.unknown_paths(&system.unknown_paths)).unwrap_or_default();
    machine.fabric.set_unknown_paths(unknown_paths);
}

type Classes = Option<(ClassMatrix, Origin)>;

struct Reading<'a> {
    source: &'a Source<'a>,
    fabric: &'a Fabric,
}

impl Reading<'_> {
    fn find(&self, name: &Spanned<String>) -> Result<NodeId, SystemError> {
        find_node(self.source, self.fabric, name)
    }

    /// The name of a node, or `host`.
    fn end(&self, name: &Spanned<String>) -> Result<String, SystemError> {
        if name.get_ref() != "host" {
            self.find(name)?;
        }
        Ok(name.get_ref().clone())
    }

    fn unknown_paths(
        &self,
        rows: &BTreeMap<Spanned<String>, Vec<Spanned<String>>>,
    ) -> Result<Vec<(NodeId, NodeId)>, SystemError> {
        let pairs = rows.iter().flat_map(|(a, others)| others.iter().map(move |b| (a, b)));
        pairs.map(|(a, b)| Ok((self.find(a)?, self.find(b)?))).collect()
    }

    fn gpus(&self) -> impl Iterator<Item = NodeId> {
        self.fabric.of_kind(NodeKind::Gpu)
    }

    fn topology(&self, topology: &Topology) -> (Classes, Vec<Evidence>, Vec<Warning>) {
        let at = topology.matrix.span();
        let mut found = scan_text(&self.source.excerpt(&topology.matrix.get_ref().0, at.clone()));
        found.evidence.retain(|e| matches!(e.fact, Fact::Classes(_)));
        let classes = found.evidence.first().and_then(|e| match &e.fact {
            Fact::Classes(classes) => Some((classes.clone(), e.origin.clone())),
            _ => None,
        });
        if classes.is_none() {
            let message = "no class matrix as `nvidia-smi topo -m` prints it was found here".to_owned();
            found.warnings.push(Warning::at(&self.source.origin(super::TOOL, at), message));
        }
        (classes, found.evidence, found.warnings)
    }

    fn published(&self, entry: &PublishedEntry) -> Result<SourcedMatrix, SystemError> {
        let at = entry.matrix.span();
        let names = |given: &Option<Vec<Spanned<String>>>| match given {
            Some(names) => names.iter().map(|n| self.end(n)).collect(),
            None => Ok(self.gpus().map(|id| self.fabric.node(id).name.clone()).collect::<Vec<_>>()),
        };
        let (rows, cols) = (names(&entry.rows)?, names(&entry.cols)?);
        let values = self.cells(&entry.matrix.get_ref().0, at.clone(), &rows, cols.len())?;
        let matrix = Matrix {
            quantity: entry.quantity,
            direction: entry.direction,
            p2p: entry.p2p,
            op: entry.op,
            engine: entry.engine,
            unit: entry.unit,
            size: entry.size.map(Bytes),
            rows,
            cols,
            values,
            title: entry.title.clone(),
            memory: entry.memory,
            pattern: entry.pattern,
        }
        .typed_by_title();
        let origin = self.source.origin(PUBLISHED, at);
        let known_cause = entry.known_cause.clone();
        Ok(SourcedMatrix { matrix, origin, also: Vec::new(), published: true, known_cause, spread: Vec::new() })
    }

    /// Numbers between white space, a line a row; `X`, `-` and `N/A` stand for no number.
    fn cells(
        &self,
        text: &str,
        at: Range<usize>,
        rows: &[String],
        cols: usize,
    ) -> Result<Vec<Vec<Option<f64>>>, SystemError> {
        let first = self.source.content_line(at.clone());
        let mut values = Vec::new();
        for (line, number) in text.lines().zip(first..).filter(|(line, _)| !line.trim().is_empty()) {
            let mut row = Vec::new();
            for word in line.split_whitespace() {
                row.push(match word {
                    "X" | "-" | "N/A" => None,
                    _ => Some(word.parse().ok().filter(is_amount).ok_or_else(|| {
                        self.source.at_line(number, format!("'{word}' is no number from 0 on, nor X, - or N/A"))
                    })?),
                });
            }
            if row.len() != cols {
                let message = format!("{} numbers in this row, where {cols} are due", row.len());
                return Err(self.source.at_line(number, message));
            }
            values.push(row);
        }
        if values.len() != rows.len() {
            let due = rows.join(", ");
            let message = format!("{} rows, where {} are due ({due}); give `rows`", values.len(), rows.len());
            return Err(self.source.error(at, message));
        }
        Ok(values)
    }

    fn statement(&self, entry: &Spanned<StatementEntry>) -> Result<Statement, SystemError> {
        let (at, entry) = (entry.span(), entry.get_ref());
        let ends = |names: &[Spanned<String>]| names.iter().map(|n| self.end(n)).collect::<Result<Vec<_>, _>>();
        let (low, high) = match (entry.value, entry.low, entry.high) {
            (Some(value), None, None) => (value, value),
            (None, Some(low), Some(high)) if low <= high => (low, high),
            _ => {
                return Err(self.source.error(at, "a statement needs `value`, or `low` and `high` with low <= high"));
            }
        };
        if !is_amount(&low) || !is_amount(&high) {
            return Err(self.source.error(at, "the numbers of a statement are finite, and not below 0"));
        }
        Ok(Statement {
            text: entry.text.clone(),
            quantity: entry.quantity,
            direction: entry.direction,
            p2p: entry.p2p,
            from: ends(&entry.from)?,
            to: ends(&entry.to)?,
            low,
            high,
            unit: entry.unit,
        })
    }

    fn rates(&self, entry: &Spanned<RatesEntry>) -> Result<(RateTable, Origin), SystemError> {
        let (at, entry) = (entry.span(), entry.get_ref());
        let mut table = RateTable {
            word_columns: entry.words.clone(),
            rate_columns: entry.columns.clone(),
            rows: Vec::with_capacity(entry.rows.len()),
        };
        for row in &entry.rows {
            let (span, row) = (row.span(), row.get_ref());
            let due = (entry.words.len(), entry.columns.len());
            if (row.words.len(), row.values.len()) != due {
                let message = format!("a row of this table has {} words and {} values", due.0, due.1);
                return Err(self.source.error(span, message));
            }
            let rate = |v: &f64| Some(*v).filter(is_amount).and_then(|v| entry.unit.rate(v));
            let rates: Vec<Option<Rate>> = row.values.iter().map(rate).collect();
            table.rows.push(RateRow { words: row.words.clone(), rates, line: self.source.line(span.start) });
        }
        Ok((table, self.source.origin(PUBLISHED, at)))
    }

    fn curve(&self, entry: &Spanned<Curve>) -> Result<(Curve, Origin), SystemError> {
        let (at, mut curve) = (entry.span(), entry.get_ref().clone());
        if let Some(short) = curve.series.iter().find(|s| s.values.len() != curve.sizes.len()) {
            let (has, due) = (short.values.len(), curve.sizes.len());
            let message = format!("'{}' has {has} values, where there are {due} sizes", short.name);
            return Err(self.source.error(at, message));
        }
        for value in curve.series.iter_mut().flat_map(|s| &mut s.values) {
            *value = value.filter(is_amount);
        }
        Ok((curve, self.source.origin(PUBLISHED, at)))
    }

    fn p2p(&self, entries: &[PeerEntry]) -> Result<BTreeMap<(NodeId, NodeId), P2pStatus>, SystemError> {
        let mut all = BTreeMap::new();
        for entry in entries {
            let status = match entry.status {
                PeerAnswer::Yes => P2pStatus::Ok,
                PeerAnswer::No => P2pStatus::NotSupported,
            };
            let mut set = |a, b| {
                if a != b {
                    all.insert((a, b), status);
                    all.insert((b, a), status);
                }
            };
            match &entry.pairs {
                Some(pairs) => {
                    for [a, b] in pairs {
                        set(self.find(a)?, self.find(b)?);
                    }
                }
                None => {
                    for a in self.gpus() {
                        self.gpus().for_each(|b| set(a, b));
                    }
                }
            }
        }
        Ok(all)
    }
}

/// Whether a number can be a rate or a time.
fn is_amount(value: &f64) -> bool {
    value.is_finite() && *value >= 0.0
}
