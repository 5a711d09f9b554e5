//! A fleet in other formats: few series and rows, a machine or an outlier each.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use peerlane::action::Action;
use peerlane::check::Severity;
use peerlane::fleet::{Fleet, Outlier};
use peerlane::subject::join;

use super::csv::words;
use super::markdown::inline;
use super::prometheus;
use crate::render::svg::escape;

fn severity(severity: Severity) -> &'static str {
    match severity {
        Severity::Info => "info",
        Severity::Warning => "warning",
        Severity::Error => "error",
    }
}

/// The outliers of each machine.
fn by_machine(fleet: &Fleet) -> BTreeMap<&str, Vec<&Outlier>> {
    let mut all: BTreeMap<&str, Vec<&Outlier>> = BTreeMap::new();
    fleet.outliers.iter().for_each(|outlier| all.entry(&outlier.machine).or_default().push(outlier));
    all
}

/// A row for each outlier, the worst first.
pub fn csv(fleet: &Fleet) -> String {
    let mut text = String::from(
        "machine,subjects,rule,severity,action,loss,measured,expected,peers,before,unit,repeats,summary,why,file\r\n",
    );
    let number = |value: Option<f64>| value.map_or_else(String::new, |value| value.to_string());
    for o in fleet.outliers.iter().chain(&fleet.network) {
        let cells = [
            words(&o.machine),
            words(&join(&o.subjects, " ")),
            words(&o.rule),
            words(severity(o.severity)),
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
pub fn junit(fleet: &Fleet, fails: &dyn Fn(Severity) -> bool) -> String {
    let outliers = by_machine(fleet);
    let none = Vec::new();
    let has_failed = |machine: &str| outliers.get(machine).unwrap_or(&none).iter().any(|found| fails(found.severity));
    let mut text = String::from("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites name=\"peerlane fleet\">\n");
    for (at, kind) in fleet.kinds.iter().enumerate() {
        let members: Vec<&str> =
            fleet.machines.iter().filter(|member| member.kind == at).map(|member| member.name.as_str()).collect();
        let failures = members.iter().filter(|name| has_failed(name)).count();
        let name = escape(&format!("{} GPUs: {}", kind.gpus, kind.products.join(", ")));
        // writing to a string cannot fail
        let _ = writeln!(text, "  <testsuite name=\"{name}\" tests=\"{}\" failures=\"{failures}\">", members.len());
        for machine in members {
            let found = outliers.get(machine).unwrap_or(&none);
            let case = format!("    <testcase classname=\"{name}\" name=\"{}\"", escape(machine));
            let Some(worst) = found.first() else {
                let _ = writeln!(text, "{case}/>");
                continue;
            };
            let lines = found.iter().map(|o| {
                escape(&format!(
                    "{}: {} {} [{}]: {}; {}",
                    o.action,
                    o.machine,
                    join(&o.subjects, ", "),
                    o.rule,
                    o.summary,
                    o.why
                ))
            });
            let body = lines.collect::<Vec<_>>().join("\n");
            let _ = if has_failed(machine) {
                let (kind, message) = (severity(worst.severity), escape(&worst.summary));
                writeln!(
                    text,
                    "{case}>\n      <failure type=\"{kind}\" message=\"{message}\">{body}</failure>\n    </testcase>"
                )
            } else {
                writeln!(text, "{case}>\n      <system-out>{body}</system-out>\n    </testcase>")
            };
        }
        text.push_str("  </testsuite>\n");
    }
    between(&mut text, fleet, fails);
    text.push_str("</testsuites>\n");
    text
}

/// What is between machines: a case for each record that names something.
fn between(text: &mut String, fleet: &Fleet, fails: &dyn Fn(Severity) -> bool) {
    let mut of_records: BTreeMap<&str, Vec<&Outlier>> = BTreeMap::new();
    fleet.network.iter().for_each(|found| of_records.entry(&found.machine).or_default().push(found));
    if of_records.is_empty() {
        return;
    }
    let has_failed = |found: &[&Outlier]| found.iter().any(|found| fails(found.severity));
    let failures = of_records.values().filter(|found| has_failed(found)).count();
    let tests = of_records.len();
    let _ = writeln!(text, "  <testsuite name=\"between machines\" tests=\"{tests}\" failures=\"{failures}\">");
    for (record, found) in of_records {
        let line =
            |o: &&Outlier| escape(&format!("{} [{}]: {}; {}", join(&o.subjects, ", "), o.rule, o.summary, o.why));
        let body = found.iter().map(line).collect::<Vec<_>>().join("\n");
        let _ = writeln!(text, "    <testcase classname=\"between machines\" name=\"{}\">", escape(record));
        let worst = found.first().map_or((Severity::Info, ""), |worst| (worst.severity, worst.summary.as_str()));
        let _ = match has_failed(&found) {
            true => writeln!(
                text,
                "      <failure type=\"{}\" message=\"{}\">{body}</failure>",
                severity(worst.0),
                escape(worst.1)
            ),
            false => writeln!(text, "      <system-out>{body}</system-out>"),
        };
        text.push_str("    </testcase>\n");
    }
    text.push_str("  </testsuite>\n");
}

/// A series for each machine and one for each outlier; none for each path.
pub fn prometheus(fleet: &Fleet) -> String {
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
            ("severity", severity(o.severity)),
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
            ("severity", severity(o.severity)),
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
pub fn markdown(fleet: &Fleet) -> String {
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
            severity(o.severity),
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
