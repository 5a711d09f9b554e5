//! States of Slurm's nodes: `sinfo` in its own formats, and lists of any format in which each line has a node and a state.
//!
//! The states and the marks behind them are those of sinfo(1), "NODE STATE CODES".

use std::collections::BTreeMap;

use super::health::Health;
use super::{Found, Text};
use peerlane_machine::fact::{Area, Grade};
use peerlane_machine::names::list;

const TOOL: &str = "sinfo";

/// The least lines of a list without a heading.
const LEAST: usize = 4;

/// Words of a heading.
const STATES: [&str; 3] = ["STATE", "STATECOMPACT", "STATELONG"];
const NODES: [&str; 6] = ["NODELIST", "HOSTNAMES", "NODEHOST", "NODE", "NODES(A/I/O/T)", "NODES"];

/// States in which a node can do or does its work, in full and short.
const GOOD: [&str; 24] = [
    "allocated",
    "alloc",
    "idle",
    "mixed",
    "mix",
    "completing",
    "comp",
    "planned",
    "plnd",
    "reserved",
    "resv",
    "future",
    "futr",
    "powering_up",
    "pow_up",
    "power_up",
    "powered_down",
    "pow_dn",
    "power_down",
    "powering_down",
    "blocked",
    "block",
    "perfctrs",
    "npc",
];

/// States that keep work away from a node, and whether something has failed.
const BAD: [(&str, Grade); 17] = [
    ("down", Grade::Fault),
    ("fail", Grade::Fault),
    ("failing", Grade::Fault),
    ("failg", Grade::Fault),
    ("error", Grade::Fault),
    ("inval", Grade::Fault),
    ("unknown", Grade::Fault),
    ("unk", Grade::Fault),
    ("drained", Grade::Limit),
    ("draining", Grade::Limit),
    ("drain", Grade::Limit),
    ("drng", Grade::Limit),
    ("maint", Grade::Limit),
    ("reboot", Grade::Limit),
    ("reboot_issued", Grade::Limit),
    ("reboot_requested", Grade::Limit),
    ("boot", Grade::Limit),
];

pub(super) fn scan(text: &Text, found: &mut Found) {
    let mut all: BTreeMap<String, Nodes> = BTreeMap::new();
    let mut health = Health::default();
    let mut i = 0;
    while i < text.len() && text.stopped_at().is_none() {
        i = match Columns::of_heading(text.line(i)) {
            Some(columns) => table(text, i, &columns, &mut all, &mut health),
            None => i + 1,
        };
    }
    if all.is_empty() {
        headless(text, &mut all, &mut health);
    }
    let every: usize = all.values().map(|nodes| nodes.count).sum();
    for (state, Nodes { names, count, first, reason }) in &all {
        let Some(grade) = bad(state) else { continue };
        let nodes = if *count == 1 { "1 node".to_owned() } else { format!("{count} nodes") };
        let reason = reason.as_deref().map_or(String::new(), |reason| format!(": {reason}"));
        let value = format!("{state}, {nodes} of {every}{reason}");
        let part = (!names.is_empty()).then(|| list(names));
        health.trouble(Area::Node, grade, part.as_deref(), "state of nodes in Slurm:", &value, *first);
    }
    health.push(text, TOOL, found);
}

/// Nodes in one state.
#[derive(Default)]
struct Nodes {
    names: Vec<String>,
    count: usize,
    first: usize,
    reason: Option<String>,
}

/// How a table's lines are split.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Split {
    At(char),
    Blank,
}

struct Columns {
    split: Split,
    state: usize,
    node: usize,
    count: Option<usize>,
    reason: Option<usize>,
}

impl Split {
    fn of(line: &str) -> Split {
        match line {
            _ if line.contains('|') => Split::At('|'),
            _ if line.contains(',') && !line.trim().contains(' ') && !line.contains('[') => Split::At(','),
            _ => Split::Blank,
        }
    }

    fn fields(self, line: &str) -> Vec<&str> {
        match self {
            Split::At(mark) => line.split(mark).map(|field| field.trim().trim_start_matches('#')).collect(),
            Split::Blank => line.split_whitespace().collect(),
        }
    }
}

impl Columns {
    /// `PARTITION AVAIL TIMELIMIT NODES STATE NODELIST` and other headings that have states and nodes.
    fn of_heading(line: &str) -> Option<Columns> {
        let split = Split::of(line);
        let fields = split.fields(line);
        let at = |names: &[&str]| fields.iter().position(|field| names.contains(field));
        let state = at(&STATES)?;
        let node = NODES.iter().find_map(|name| at(&[name]))?;
        // JOBID PARTITION NAME USER STATE … NODELIST(REASON) is a list of jobs
        let is_jobs = fields.iter().any(|field| field.to_ascii_uppercase().starts_with("JOBID"));
        (!is_jobs).then(|| Columns {
            split,
            state,
            node,
            count: at(&["NODES"]).filter(|at| *at != node),
            reason: at(&["REASON"]),
        })
    }
}

/// Reads a table below its heading; where it ends.
fn table(
    text: &Text,
    heading: usize,
    columns: &Columns,
    all: &mut BTreeMap<String, Nodes>,
    health: &mut Health,
) -> usize {
    let mut i = heading + 1;
    while i < text.len() {
        let fields = columns.split.fields(text.line(i));
        let Some(state) = fields.get(columns.state).and_then(|word| state(word)) else { break };
        let count = columns.count.and_then(|at| fields.get(at)?.parse().ok());
        let reason = columns.reason.and_then(|at| fields.get(at..)).map(|words| words.join(" "));
        let node = fields.get(columns.node).copied().filter(|name| name.contains(|c: char| c.is_ascii_alphabetic()));
        add(&state, node, count, reason.filter(|reason| reason != "none" && !reason.is_empty()), i, all, health);
        i += 1;
    }
    if i > heading + 1 {
        health.used(heading);
    }
    i
}

/// A list without a heading, all lines of which have a node's name first and a state in one and the same column.
fn headless(text: &Text, all: &mut BTreeMap<String, Nodes>, health: &mut Health) {
    let lines = || text.iter().filter(|(_, line)| !line.trim().is_empty());
    let Some((_, first)) = lines().next() else { return };
    let split = Split::of(first);
    let Some(column) = split.fields(first).iter().position(|word| state(word).is_some()).filter(|at| *at > 0) else {
        return;
    };
    let read = |line| {
        let fields = split.fields(line);
        let name = fields.first().copied().filter(|name| is_node(name))?;
        Some((name, state(fields.get(column)?)?))
    };
    if lines().take(LEAST).count() < LEAST || !lines().all(|(_, line)| read(line).is_some()) {
        return;
    }
    for (i, line) in lines() {
        if let Some((name, state)) = read(line) {
            add(&state, Some(name), None, None, i, all, health);
        }
    }
}

fn add(
    state: &str,
    name: Option<&str>,
    count: Option<usize>,
    reason: Option<String>,
    line: usize,
    all: &mut BTreeMap<String, Nodes>,
    health: &mut Health,
) {
    if bad(state).is_none() {
        health.sound(Area::Node, line);
    } else {
        health.used(line);
    }
    let nodes = all.entry(state.to_owned()).or_insert_with(|| Nodes { first: line, ..Nodes::default() });
    // a node is in as many lines as it has partitions
    if name.is_some_and(|name| nodes.names.iter().rev().take(64).any(|known| known == name)) {
        return;
    }
    nodes.count = nodes.count.saturating_add(count.unwrap_or(1));
    nodes.names.extend(name.map(str::to_owned));
    nodes.reason = nodes.reason.take().or(reason);
}

/// A word that is a state, in small letters, with its marks: `down*`, `drained$`, `mixed-`, `idle+drain`.
fn state(word: &str) -> Option<String> {
    let word = word.to_ascii_lowercase();
    let plain = word.trim_end_matches(['*', '~', '#', '!', '%', '$', '@', '^', '-', '+']);
    let known = |part: &str| GOOD.contains(&part) || BAD.iter().any(|(bad, _)| *bad == part);
    (!plain.is_empty() && plain.split('+').all(known)).then_some(word)
}

/// What a state says of its nodes; `None` where they work.
fn bad(state: &str) -> Option<Grade> {
    // it does not answer
    let silent = state.ends_with('*').then_some(Grade::Fault);
    let plain = state.trim_end_matches(['*', '~', '#', '!', '%', '$', '@', '^', '-', '+']);
    let worst = |part: &str| BAD.iter().find(|(bad, _)| *bad == part).map(|(_, grade)| *grade);
    silent.or_else(|| plain.split('+').filter_map(worst).max_by_key(|grade| *grade == Grade::Fault))
}

/// `gpu017`, `a3-b-12.cluster`: a name with a digit.
fn is_node(name: &str) -> bool {
    let fine = |c: char| c.is_ascii_alphanumeric() || "-_.[]".contains(c);
    name.contains(|c: char| c.is_ascii_digit())
        && name.starts_with(|c: char| c.is_ascii_alphabetic())
        && name.chars().all(fine)
}

#[cfg(test)]
mod tests {
    use super::super::testing::scanned;
    use super::*;
    use peerlane_machine::fact::{Fact, HealthReport};

    fn report(text: &str) -> Option<HealthReport> {
        let found = scanned(scan, text);
        found.evidence.into_iter().find_map(|e| match e.fact {
            Fact::Health(report) => Some(report),
            _ => None,
        })
    }

    #[test]
    fn sinfo_as_it_is() {
        let read = report(
            "PARTITION AVAIL  TIMELIMIT  NODES  STATE NODELIST\ngpu*         up 2-00:00:00      2  down* gpu[03-04]\n\
             gpu*         up 2-00:00:00      1  drain gpu07\ngpu*         up 2-00:00:00     12    mix gpu[08-19]\n",
        )
        .unwrap();
        let troubles: Vec<_> = read.troubles.iter().map(|t| (t.part.as_deref(), t.value.as_str(), t.grade)).collect();
        assert_eq!(
            troubles,
            [
                (Some("gpu[03-04]"), "down*, 2 nodes of 15", Grade::Fault),
                (Some("gpu07"), "drain, 1 node of 15", Grade::Limit)
            ]
        );
        assert_eq!(read.sound, 1);
    }

    #[test]
    fn a_line_a_node_with_the_reason() {
        let read = report(
            "NODELIST   NODES PARTITION       STATE CPUS    S:C:T MEMORY TMP_DISK WEIGHT AVAIL_FE REASON\n\
             n1             1       gpu        idle   64   2:32:1 515000        0      1   (null) none\n\
             n2             1       gpu     drained   64   2:32:1 515000        0      1   (null) GPU 3 lost\n",
        )
        .unwrap();
        assert_eq!((read.sound, read.troubles[0].value.as_str()), (1, "drained, 1 node of 2: GPU 3 lost"));
        assert_eq!(read.troubles[0].part.as_deref(), Some("n2"));
    }

    #[test]
    fn lists_of_any_format() {
        let all = (1..=5).map(|n| format!("node{n:03}|gpu:a100:8|{}|gpu\n", if n == 4 { "drained$" } else { "idle" }));
        let read = report(&all.collect::<String>()).unwrap();
        assert_eq!((read.sound, read.troubles.len()), (4, 1));
        assert_eq!((read.troubles[0].part.as_deref(), read.troubles[0].grade), (Some("node004"), Grade::Limit));
        let all = (1..=6).map(|n| format!("lx{n},{}\n", if n > 4 { "down*" } else { "allocated+" }));
        let read = report(&all.collect::<String>()).unwrap();
        assert_eq!((read.sound, read.troubles[0].value.as_str()), (4, "down*, 2 nodes of 6"));
        let sound = report("NODELIST STATE\nn1 idle\nn2 mixed-\nn3 completing\n").unwrap();
        assert_eq!((sound.sound, sound.troubles.len()), (3, 0));
    }

    #[test]
    fn what_is_no_list_of_nodes() {
        for text in [
            "JOBID PARTITION NAME USER STATE NODES NODELIST(REASON)\n7 gpu train ann RUNNING 1 n1\n",
            "port1 down\nport2 idle\nport3 up\nport4 down\n",
            "n1 idle\nn2 idle\n",
            "STATE NODES\nplenty 7\n",
        ] {
            assert_eq!(report(text), None, "{text}");
        }
    }
}
