//! Numbers with names and labels, in Prometheus' text exposition format (version 0.0.4), for a node exporter's textfile
//! collector.
//!
//! Base units, as Prometheus recommends: bytes per second, and seconds.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use peerlane::check::Severity;
use peerlane::subject::join;
use peerlane::verdict::Verdict;

use crate::item::Item;

/// Families of samples, in the order in which they are written.
#[derive(Default)]
pub(crate) struct Samples {
    families: Vec<Family>,
}

/// A family of samples under one name.
struct Family {
    name: &'static str,
    help: &'static str,
    lines: Vec<String>,
    /// Label sets that have a sample: a duplicate would make the whole text invalid.
    used: BTreeSet<String>,
}

impl Samples {
    /// Index of the family of this name, which comes after those that were asked for before.
    pub(crate) fn family(&mut self, name: &'static str, help: &'static str) -> usize {
        let known = self.families.iter().position(|family| family.name == name);
        known.unwrap_or_else(|| {
            self.families.push(Family { name, help, lines: Vec::new(), used: BTreeSet::new() });
            self.families.len() - 1
        })
    }

    /// Adds a sample.
    pub(crate) fn add(&mut self, family: usize, labels: &[(&str, &str)], value: f64) {
        let Some(family) = self.families.get_mut(family) else { return };
        // Prometheus treats an empty label as absent
        let given = labels.iter().filter(|(_, value)| !value.is_empty());
        let labels: Vec<String> = given.map(|(name, value)| format!("{name}=\"{}\"", escape(value))).collect();
        let labels = labels.join(",");
        // six digits: more than any measurement provides
        let value: f64 = format!("{value:.5e}").parse().unwrap_or(value);
        if value.is_finite() && family.used.insert(labels.clone()) {
            family.lines.push(format!("{}{{{labels}}} {value}", family.name));
        }
    }

    /// Adds a verdict with its findings.
    pub(crate) fn add_verdict(&mut self, name: &str, verdict: Verdict, items: &[Item]) {
        let verdicts = self.family("peerlane_verdict", "1 for the verdict of the last check, 0 for the others.");
        let counts = self.family("peerlane_findings", "Number of findings by severity.");
        let found = self.family("peerlane_finding", "1 for each finding of the last check.");
        for finding in items.iter().map(|item| &item.finding) {
            let subjects = join(&finding.subjects, " ");
            let (kind, severity) = (finding.kind.id(), finding.severity.id());
            let labels = [
                ("machine", name),
                ("rule", &finding.rule),
                ("kind", kind),
                ("severity", severity),
                ("subjects", &subjects),
            ];
            self.add(found, &labels, 1.0);
        }
        for of in [Severity::Error, Severity::Warning, Severity::Info] {
            let n = items.iter().filter(|item| item.finding.severity == of).count();
            self.add(counts, &[("machine", name), ("severity", of.id())], n as f64);
        }
        for of in Verdict::ALL {
            let is = f64::from(u8::from(of == verdict));
            self.add(verdicts, &[("machine", name), ("verdict", of.id())], is);
        }
    }

    /// Adds when a run began, in seconds since 1970, where that is known.
    pub(crate) fn add_began(&mut self, name: &str, began: Option<u64>) {
        let family =
            self.family("peerlane_run_start_timestamp_seconds", "Start time of the run that the numbers are from.");
        if let Some(at) = began.filter(|at| *at > 0) {
            self.add(family, &[("machine", name)], at as f64);
        }
    }

    /// All families that have a sample.
    pub(crate) fn text(&self) -> String {
        let mut text = String::new();
        for Family { name, help, lines, .. } in self.families.iter().filter(|family| !family.lines.is_empty()) {
            // writing to a string cannot fail
            let _ = writeln!(text, "# HELP {name} {help}\n# TYPE {name} gauge\n{}", lines.join("\n"));
        }
        text
    }
}

/// A label's value: backslash, quote and line feed have escapes.
fn escape(value: &str) -> String {
    value.replace('\\', r"\\").replace('"', "\\\"").replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn label_values_are_escaped() {
        assert_eq!(escape("a\"b\\c\nd"), r#"a\"b\\c\nd"#);
    }
}
