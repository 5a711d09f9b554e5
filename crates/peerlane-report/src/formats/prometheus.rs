//! Rates, expectations and findings in Prometheus' text exposition format (version 0.0.4), for a node exporter's
//! textfile collector.
//!
//! Base units, as Prometheus recommends: bytes per second, and seconds.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use peerlane::check::{Finding, FindingKind, Severity, Verdict};
use peerlane::comparison::{Comparison, Metric};
use peerlane::matrix::{Direction, Engine, Operation};
use peerlane::subject::join;

/// One machine, judged.
pub struct Judged<'a> {
    /// Measured and expected numbers.
    pub comparison: &'a Comparison<'a>,
    /// The verdict.
    pub verdict: Verdict,
    /// The findings.
    pub findings: &'a [Finding],
    /// When its run began, in seconds since 1970.
    pub began: Option<u64>,
}

/// A family of samples under one name.
pub(super) struct Family {
    name: &'static str,
    help: &'static str,
    lines: Vec<String>,
    /// Label sets that have a sample: a duplicate would make the whole text invalid.
    used: BTreeSet<String>,
}

impl Family {
    pub(super) fn new(name: &'static str, help: &'static str) -> Self {
        Family { name, help, lines: Vec::new(), used: BTreeSet::new() }
    }

    pub(super) fn add(&mut self, labels: &[(&str, &str)], value: f64) {
        // Prometheus treats an empty label as absent
        let given = labels.iter().filter(|(_, value)| !value.is_empty());
        let labels: Vec<String> = given.map(|(name, value)| format!("{name}=\"{}\"", escape(value))).collect();
        let labels = labels.join(",");
        // six digits: more than any measurement provides
        let value: f64 = format!("{value:.5e}").parse().unwrap_or(value);
        if value.is_finite() && self.used.insert(labels.clone()) {
            self.lines.push(format!("{}{{{labels}}} {value}", self.name));
        }
    }

    fn write(&self, text: &mut String) {
        if !self.lines.is_empty() {
            let _ = writeln!(text, "# HELP {} {}\n# TYPE {} gauge", self.name, self.help, self.name);
            for line in &self.lines {
                let _ = writeln!(text, "{line}");
            }
        }
    }
}

/// What every check has, of a machine or of many nodes: verdict and findings.
pub(super) struct Verdicts {
    verdicts: Family,
    counts: Family,
    found: Family,
    began: Family,
}

impl Verdicts {
    pub(super) fn new() -> Self {
        Verdicts {
            verdicts: Family::new("peerlane_verdict", "1 for the verdict of the last check, 0 for the others."),
            counts: Family::new("peerlane_findings", "Number of findings by severity."),
            found: Family::new("peerlane_finding", "1 for each finding of the last check."),
            began: Family::new(
                "peerlane_run_start_timestamp_seconds",
                "Start time of the run that the numbers are from.",
            ),
        }
    }

    pub(super) fn add(&mut self, name: &str, verdict: Verdict, findings: &[Finding], began: Option<u64>) {
        for finding in findings {
            let subjects = join(&finding.subjects, " ");
            let (kind, severity) = (kind(finding.kind), severity(finding.severity));
            let labels = [
                ("machine", name),
                ("rule", &finding.rule),
                ("kind", kind),
                ("severity", severity),
                ("subjects", &subjects),
            ];
            self.found.add(&labels, 1.0);
        }
        for of in [Severity::Error, Severity::Warning, Severity::Info] {
            let n = findings.iter().filter(|f| f.severity == of).count();
            self.counts.add(&[("machine", name), ("severity", severity(of))], n as f64);
        }
        for of in [Verdict::Healthy, Verdict::Limited, Verdict::NotJudged, Verdict::Fault] {
            self.verdicts.add(&[("machine", name), ("verdict", of.id())], f64::from(u8::from(of == verdict)));
        }
        if let Some(at) = began.filter(|at| *at > 0) {
            self.began.add(&[("machine", name)], at as f64);
        }
    }

    /// The text, with the numbers that the verdicts are about.
    pub(super) fn text(&self, numbers: &[&Family]) -> String {
        let mut text = String::new();
        let first = [&self.verdicts, &self.counts, &self.found];
        for family in first.into_iter().chain(numbers.iter().copied()).chain([&self.began]) {
            family.write(&mut text);
        }
        text
    }
}

/// All machines as one text.
pub fn exposition(machines: &[Judged]) -> String {
    let mut rates = Family::new("peerlane_bandwidth_bytes_per_second", "Measured or published bandwidth.");
    let mut expected =
        Family::new("peerlane_bandwidth_expected_bytes_per_second", "Bandwidth expected from the machine's parts.");
    let mut times = Family::new("peerlane_latency_seconds", "Latency of a small transfer, or of a load.");
    let mut verdicts = Verdicts::new();
    for Judged { comparison, verdict, findings, began } in machines {
        measured(&mut rates, &mut times, comparison);
        expectations(&mut expected, comparison);
        verdicts.add(&comparison.model().machine.name, *verdict, findings, *began);
    }
    verdicts.text(&[&rates, &expected, &times])
}

fn measured(rates: &mut Family, times: &mut Family, comparison: &Comparison) {
    let machine = comparison.model().machine.name.as_str();
    // peerlane's own measurements follow published ones, and the last is the most recent
    for series in comparison.matrices().iter().rev() {
        let (matrix, metric) = (series.matrix(), series.metric());
        let size = metric.size.map(|s| s.0.to_string()).unwrap_or_default();
        let from = if series.source().published() { "published" } else { "measured" };
        for (i, row) in matrix.rows.iter().enumerate() {
            for (j, col) in matrix.cols.iter().enumerate() {
                let Some(value) = matrix.value(i, j) else { continue };
                let mut labels = vec![("machine", machine), ("row", row.as_str()), ("column", col.as_str())];
                labels.extend(kind_of(&metric));
                labels.extend([("bytes", size.as_str()), ("test", matrix.title.as_str()), ("from", from)]);
                if let Some(rate) = metric.unit.rate(value) {
                    rates.add(&labels, rate.bytes_per_second());
                } else if let Some(time) = metric.unit.time(value) {
                    labels.push(("quantity", metric.quantity.name()));
                    times.add(&labels, time.seconds());
                }
            }
        }
    }
}

/// Expectations for measured cells, and all other predictions.
fn expectations(family: &mut Family, comparison: &Comparison) {
    let machine = comparison.model().machine.name.as_str();
    for table in comparison.tables() {
        for cell in &table.cells {
            let ends = table.rows.get(cell.row).zip(table.cols.get(cell.col));
            let (Some((row, col)), Some(expected)) = (ends, &cell.expected) else { continue };
            let mut labels = vec![("machine", machine), ("row", row.as_str()), ("column", col.as_str())];
            labels.extend(kind_of(&table.metric));
            if let Some(rate) = table.metric.unit.rate(expected.value) {
                family.add(&labels, rate.bytes_per_second());
            }
        }
    }
}

/// Labels of a metric; empty if the source does not state them.
fn kind_of(metric: &Metric) -> [(&'static str, &'static str); 4] {
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

fn kind(kind: FindingKind) -> &'static str {
    match kind {
        FindingKind::Fault => "fault",
        FindingKind::Design => "design",
        FindingKind::Measurement => "measurement",
    }
}

fn severity(severity: Severity) -> &'static str {
    match severity {
        Severity::Info => "info",
        Severity::Warning => "warning",
        Severity::Error => "error",
    }
}

/// A label's value: backslash, quote and line feed have escapes.
pub(super) fn escape(value: &str) -> String {
    value.replace('\\', r"\\").replace('"', "\\\"").replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use peerlane::case::Case;
    use peerlane::catalogue::{self, Parts};
    use peerlane::check::{Context, check, verdict};
    use peerlane::model::Model;

    fn text(name: &str) -> String {
        let case = Case::from(catalogue::system(name).unwrap().unwrap());
        let model = Model::new(&case.machine, Parts::embedded());
        let comparison = Comparison::of(&model);
        let context = Context::of(&case, &comparison);
        let findings = check(&context);
        let verdict = verdict(&context, &findings);
        exposition(&[Judged { comparison: &comparison, verdict, findings: &findings, began: None }])
    }

    #[test]
    fn rates_are_in_base_units_and_series_are_unique() {
        for name in catalogue::system_names() {
            let text = text(name);
            let mut series = BTreeSet::new();
            for line in text.lines().filter(|l| !l.starts_with('#')) {
                let (labels, value) = line.rsplit_once(' ').unwrap();
                assert!(series.insert(labels), "{name}: {line}");
                assert!(value.parse::<f64>().unwrap() >= 0.0 && labels.ends_with('}'), "{line}");
            }
        }
        let devbox = text("exxact-devbox");
        let pair = "peerlane_bandwidth_bytes_per_second{machine=\"exxact-devbox\",row=\"GPU0\",column=\"GPU1\",\
                    direction=\"both-ways-summed\",p2p=\"on\",engine=\"ce\",";
        let line = devbox.lines().find(|l| l.starts_with(pair)).unwrap();
        assert!(line.ends_with(" 26130000000"), "{line}");
        assert!(devbox.contains("peerlane_verdict{machine=\"exxact-devbox\",verdict=\"fault\"} 0\n"));
    }

    #[test]
    fn label_values_are_escaped() {
        assert_eq!(escape("a\"b\\c\nd"), r#"a\"b\\c\nd"#);
    }
}
