//! A fleet in other formats: few series and rows, a machine or an outlier each.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use peerlane::action::Action;
use peerlane::fleet::{Fleet, Outlier};
use peerlane::subject::join;
use peerlane::verdict::{Line, TestResult, Verdict};

use super::csv::words;
use super::junit::write_result;
use super::markdown::inline;
use super::prometheus;
use crate::render::svg::escape;

/// The outliers of each machine.
fn by_machine(fleet: &Fleet) -> BTreeMap<&str, Vec<&Outlier>> {
    let mut all: BTreeMap<&str, Vec<&Outlier>> = BTreeMap::new();
    fleet.outliers.iter().for_each(|outlier| all.entry(&outlier.machine).or_default().push(outlier));
    all
}

/// A row for each outlier, the worst first.
pub(crate) fn csv(fleet: &Fleet) -> String {
    let mut text = String::from(
        "machine,subjects,rule,severity,action,loss,measured,expected,peers,before,unit,repeats,summary,why,file\r\n",
    );
    let number = |value: Option<f64>| value.map_or_else(String::new, |value| value.to_string());
    for o in fleet.outliers.iter().chain(&fleet.network) {
        let cells = [
            words(&o.machine),
            words(&join(&o.subjects, " ")),
            words(&o.rule),
            words(o.severity.id()),
            words(o.action.id()),
            o.loss.to_string(),
            number(o.measured),
            number(o.expected),
            number(o.peers),
            number(o.before),
            words(o.unit.map_or("", |unit| unit.name())),
            o.repeats.to_string(),
            words(&o.summary),
            words(&o.why),
            words(&o.file),
        ];
        text.push_str(&cells.join(","));
        text.push_str("\r\n");
    }
    text
}

/// One suite for each kind, one case for each machine.
pub(crate) fn junit(fleet: &Fleet, line: Line) -> String {
    let outliers = by_machine(fleet);
    let mut text = String::from("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites name=\"peerlane fleet\">\n");
    for (at, kind) in fleet.kinds.iter().enumerate() {
        let members = fleet.machines.iter().filter(|member| member.kind == at);
        let found = |name: &str| outliers.get(name).cloned().unwrap_or_default();
        let cases: Vec<_> = members.map(|member| (member.name.as_str(), found(&member.name))).collect();
        suite(&mut text, &format!("{} GPUs: {}", kind.gpus, kind.products.join(", ")), &cases, line);
    }
    let mut of_records: BTreeMap<&str, Vec<&Outlier>> = BTreeMap::new();
    fleet.network.iter().for_each(|found| of_records.entry(&found.machine).or_default().push(found));
    if !of_records.is_empty() {
        suite(&mut text, "between machines", &of_records.into_iter().collect::<Vec<_>>(), line);
    }
    text.push_str("</testsuites>\n");
    text
}

/// Machines, or records, each with what is found, the worst first.
fn suite(text: &mut String, name: &str, cases: &[(&str, Vec<&Outlier>)], line: Line) {
    let result = |found: &[&Outlier]| {
        let worst = found.iter().filter_map(|outlier| outlier.contributes()).max();
        worst.map_or(TestResult::Passed, |verdict: Verdict| line.result(verdict))
    };
    let count = |wanted| cases.iter().filter(|(_, found)| result(found) == wanted).count();
    let (tests, failures, skipped) = (cases.len(), count(TestResult::Failed), count(TestResult::Skipped));
    let name = escape(name);
    // writing to a string cannot fail
    let _ =
        writeln!(text, "  <testsuite name=\"{name}\" tests=\"{tests}\" failures=\"{failures}\" skipped=\"{skipped}\">");
    for (machine, found) in cases {
        let case = format!("    <testcase classname=\"{name}\" name=\"{}\"", escape(machine));
        let Some(worst) = found.first() else {
            let _ = writeln!(text, "{case}/>");
            continue;
        };
        let of = |o: &&Outlier| {
            let place = join(&o.subjects, ", ");
            escape(&format!("{}: {} {place} [{}]: {}; {}", o.action, o.machine, o.rule, o.summary, o.why))
        };
        let _ = writeln!(text, "{case}>");
        let body = found.iter().map(of).collect::<Vec<_>>().join("\n");
        write_result(text, result(found), worst.severity.id(), &worst.summary, &body);
        text.push_str("    </testcase>\n");
    }
    text.push_str("  </testsuite>\n");
}

/// A series for each machine and one for each outlier; none for each path.
pub(crate) fn prometheus(fleet: &Fleet) -> String {
    let mut text = String::new();
    let mut family = |name: &str, help: &str, series: Vec<(Vec<(&str, &str)>, f64)>| {
        let mut used = BTreeSet::new();
        let lines: Vec<String> = series
            .into_iter()
            .filter_map(|(labels, value)| {
                let labels: Vec<String> =
                    labels.iter().map(|(name, value)| format!("{name}=\"{}\"", prometheus::escape(value))).collect();
                let labels = labels.join(",");
                let line = format!("{name}{{{labels}}} {value}");
                used.insert(labels).then_some(line)
            })
            .collect();
        if !lines.is_empty() {
            let _ = writeln!(text, "# HELP {name} {help}\n# TYPE {name} gauge\n{}", lines.join("\n"));
        }
    };
    let action = |action: Option<Action>| action.map_or("none", Action::id);
    let machines = fleet
        .machines
        .iter()
        .map(|member| (vec![("machine", member.name.as_str()), ("action", action(member.action))], 1.0));
    family(
        "peerlane_fleet_machine",
        "1 for each machine, with the action that its outliers call for.",
        machines.collect(),
    );
    let named: Vec<(String, &Outlier)> = fleet.outliers.iter().map(|o| (join(&o.subjects, " "), o)).collect();
    let outliers = named.iter().map(|(subjects, o)| {
        let labels = vec![
            ("machine", o.machine.as_str()),
            ("subjects", subjects.as_str()),
            ("rule", o.rule.as_str()),
            ("severity", o.severity.id()),
            ("action", o.action.id()),
        ];
        (labels, o.loss)
    });
    family(
        "peerlane_fleet_outlier_loss_ratio",
        "Share of the usual rate that an outlier loses, or adds to the usual time; 0 where it has no number.",
        outliers.collect(),
    );
    let named: Vec<(String, &Outlier)> = fleet.network.iter().map(|o| (join(&o.subjects, " "), o)).collect();
    let network = named.iter().map(|(subjects, o)| {
        let labels = vec![
            ("record", o.machine.as_str()),
            ("subjects", subjects.as_str()),
            ("rule", o.rule.as_str()),
            ("severity", o.severity.id()),
        ];
        (labels, o.loss)
    });
    family(
        "peerlane_fleet_network_loss_ratio",
        "Share of the usual rate that a path or a switch between machines loses; 0 where it has no number.",
        network.collect(),
    );
    family(
        "peerlane_fleet_records",
        "Records that were read.",
        vec![(vec![("state", "read")], fleet.records as f64), (vec![("state", "unread")], fleet.unread.len() as f64)],
    );
    text
}

/// Kinds and outliers as Markdown for a ticket.
pub(crate) fn markdown(fleet: &Fleet) -> String {
    let (machines, records) = (fleet.machines.len(), fleet.records);
    let mut text = format!(
        "## Fleet: {machines} machines of {} kinds, {records} records, {} outliers\n\n| kind | machines | GPUs | compared |\n|---|--:|--:|---|\n",
        fleet.kinds.len(),
        fleet.outliers.len()
    );
    for kind in &fleet.kinds {
        let compared =
            if kind.compared { format!("spread {:.1} %", 100.0 * kind.spread) } else { "too few".to_owned() };
        let _ = writeln!(
            text,
            "| {} | {} | {} | {compared} |",
            inline(&kind.products.join(", ")),
            kind.machines,
            kind.gpus
        );
    }
    for kind in &fleet.kinds {
        for shared in &kind.shared {
            let _ = write!(
                text,
                "\nOn {} of {} ({}): {} ({})\n",
                shared.machines,
                kind.machines,
                inline(&kind.products.join(", ")),
                inline(&shared.summary),
                inline(&shared.rule)
            );
        }
    }
    for o in fleet.outliers.iter().chain(&fleet.network) {
        let _ = writeln!(
            text,
            "\n* **{}** {} {}: {} ({}, {})\n  * {}\n  * fix: {}",
            o.severity.id(),
            inline(&o.machine),
            inline(&join(&o.subjects, ", ")),
            inline(&o.summary),
            inline(&o.rule),
            o.action,
            inline(&o.why),
            inline(&o.fix)
        );
    }
    for unread in &fleet.unread {
        let _ = writeln!(text, "\n* unread: {}: {}", inline(&unread.name), inline(&unread.why));
    }
    text
}
