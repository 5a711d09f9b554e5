//! What a report shows of many machines.

use std::collections::BTreeMap;

use peerlane::action::Action;
use peerlane::fleet::{Fleet, Kind, Outlier};
use peerlane::subject::join;
use peerlane::verdict::Verdict;

use super::{Block, Suite, Table};
use crate::item::Item;
use crate::render::headline::{Headline, rates};
use crate::render::text::count;
use crate::samples::Samples;

/// So many machines of a kind are compared where they have rates.
const ENOUGH: usize = 4;

/// The answer: the worst verdict of a machine, the first finding that it follows from, and how many machines have which verdict.
pub(super) fn headline(fleet: &Fleet, items: &[Item]) -> Headline {
    let verdict = fleet.verdict();
    let first = items.iter().find(|item| item.finding.contributes() == Some(verdict));
    let cause = first.map_or_else(|| quiet(fleet), |item| format!("{}{}", item.sentence(), rates(&item.finding)));
    let step = first.map(|item| ("fix", item.finding.fix.clone())).filter(|(_, fix)| !fix.is_empty());
    Headline { machine: title(fleet), verdict, cause, step }
}

/// `5000 machines of 3 kinds, 5120 records: 10 FAULT, 4990 HEALTHY; isolate 8, monitor 2`
fn title(fleet: &Fleet) -> String {
    let of = format!(
        "{} of {}, {}",
        count(fleet.machines.len(), "machine"),
        count(fleet.kinds.len(), "kind"),
        count(fleet.records, "record")
    );
    let words = Verdict::ALL.into_iter().rev().filter_map(|verdict| {
        let n = fleet.machines.iter().filter(|member| member.verdict == verdict).count();
        (n > 0).then(|| format!("{n} {}", verdict.words()))
    });
    let words = words.collect::<Vec<_>>().join(", ");
    let actions = [Action::Isolate, Action::Reset, Action::Monitor].into_iter().filter_map(|action| {
        let n = fleet.machines.iter().filter(|member| member.action == Some(action)).count();
        (n > 0).then(|| format!("{action} {n}"))
    });
    let actions = actions.collect::<Vec<_>>().join(", ");
    let actions = if actions.is_empty() { actions } else { format!("; {actions}") };
    let between = match fleet.network.len() {
        0 => String::new(),
        n => format!("; {} between machines", count(n, "finding")),
    };
    format!("{of}: {words}{actions}{between}")
}

/// What is reported where no finding decides.
fn quiet(fleet: &Fleet) -> String {
    let lacking = match fleet.machines.iter().filter(|member| member.incomplete).count() {
        0 => String::new(),
        n => format!("; {} with steps that have no value", count(n, "machine")),
    };
    match fleet.verdict() {
        Verdict::NotJudged => format!("no machine has anything that could show a fault{lacking}"),
        _ => format!("no outliers{lacking}"),
    }
}

/// Kinds with what their machines share, findings, and what could not be read.
pub(super) fn blocks(fleet: &Fleet, most: usize) -> Vec<Block> {
    let more = fleet.kinds.len().saturating_sub(most);
    let kinds = Table {
        words: 2,
        headings: vec!["kind", "example", "machines", "GPUs", "spread in %"],
        rows: fleet.kinds.iter().take(most).map(kind).collect(),
        left_out: (more > 0).then(|| format!("and {more} more kinds")),
        ..Table::default()
    };
    let shared = fleet.kinds.iter().flat_map(|kind| {
        let of = move |n: usize| format!("on {n} of {} like {}", count(kind.machines, "machine"), kind.example);
        kind.shared.iter().map(move |shared| format!("{}: {} [{}]", of(shared.machines), shared.summary, shared.rule))
    });
    let unread = fleet.unread.iter().map(|unread| format!("{}: {}", unread.name, unread.why));
    vec![
        Block::Table(kinds),
        Block::Sentences("Shared by nearly all of a kind, held against none", shared.collect()),
        Block::Findings,
        Block::Sentences("Notes", fleet.notes.clone()),
        Block::Sentences("Unread", unread.collect()),
    ]
}

fn kind(kind: &Kind) -> Vec<String> {
    let Kind { machines, gpus, products, example, compared, spread, .. } = kind;
    let name = match (products.is_empty(), gpus) {
        (true, 0) => "without GPUs".to_owned(),
        (true, _) => "unknown GPUs".to_owned(),
        _ => products.join(", "),
    };
    let spread = match *compared {
        true => format!("{:.1}", 100.0 * spread),
        false if *machines >= ENOUGH => "no rates".to_owned(),
        false => "too few to compare".to_owned(),
    };
    vec![name, example.clone(), machines.to_string(), gpus.to_string(), spread]
}

/// A suite for each kind with a case for each machine, and one with a case for each record that names something between machines.
pub(super) fn suites<'r, 'a>(fleet: &Fleet, items: &'r [Item<'a>]) -> Vec<Suite<'r, 'a>> {
    let (own, between) = items.split_at(items.len().min(fleet.outliers.len()));
    let by_name = |items: &'r [Item<'a>]| {
        let mut all: BTreeMap<&'a str, Vec<&'r Item<'a>>> = BTreeMap::new();
        for item in items {
            all.entry(item.machine().unwrap_or_default()).or_default().push(item);
        }
        all
    };
    let found = by_name(own);
    let mut suites: Vec<Suite> = Vec::new();
    for (at, kind) in fleet.kinds.iter().enumerate() {
        let name = format!("{} GPUs: {}", kind.gpus, kind.products.join(", "));
        let case = |name: &str| (name.to_owned(), found.get(name).cloned().unwrap_or_default());
        let (not_judged, judged): (Vec<_>, Vec<_>) = fleet
            .machines
            .iter()
            .filter(|member| member.kind == at)
            .partition(|member| member.verdict == Verdict::NotJudged);
        for (members, skipped) in [(judged, None), (not_judged, Some("not judged".to_owned()))] {
            if !members.is_empty() {
                let cases = members.iter().map(|member| case(&member.name)).collect();
                suites.push(Suite { name: name.clone(), cases, skipped });
            }
        }
    }
    let cases: Vec<_> = by_name(between).into_iter().map(|(record, found)| (record.to_owned(), found)).collect();
    if !cases.is_empty() {
        suites.push(Suite { name: "between machines".to_owned(), cases, skipped: None });
    }
    suites
}

/// A series for each machine and one for each outlier; none for each path.
pub(super) fn sample(samples: &mut Samples, fleet: &Fleet) {
    let machines = samples.family(
        "peerlane_fleet_machine",
        "1 for each machine, with its verdict and the action that its outliers call for.",
    );
    for member in &fleet.machines {
        let action = member.action.map_or("none", Action::id);
        let verdict = member.verdict.id();
        samples.add(machines, &[("machine", &member.name), ("action", action), ("verdict", verdict)], 1.0);
    }
    let outliers = samples.family(
        "peerlane_fleet_outlier_loss_ratio",
        "Share of the usual rate that an outlier loses, or adds to the usual time; 0 where it has no number.",
    );
    let network = samples.family(
        "peerlane_fleet_network_loss_ratio",
        "Share of the usual rate that a path or a switch between machines loses; 0 where it has no number.",
    );
    let mut add = |family, of, found: &Outlier, action| {
        let subjects = join(&found.finding.subjects, " ");
        let severity = found.finding.severity.id();
        let labels = [
            (of, found.machine.as_str()),
            ("subjects", &subjects),
            ("rule", &found.finding.rule),
            ("severity", severity),
            ("action", action),
        ];
        samples.add(family, &labels, found.loss);
    };
    fleet.outliers.iter().for_each(|found| add(outliers, "machine", found, found.action.id()));
    fleet.network.iter().for_each(|found| add(network, "record", found, ""));
    let records = samples.family("peerlane_fleet_records", "Records that were read.");
    for (state, n) in [("read", fleet.records), ("unread", fleet.unread.len())] {
        samples.add(records, &[("state", state)], n as f64);
    }
}
