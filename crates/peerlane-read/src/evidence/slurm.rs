//! Slurm's lists of nodes (`sinfo` in any format, `scontrol show node`): which nodes are out of service.

use std::collections::{BTreeMap, BTreeSet};

use super::health::Health;
use super::node_state::names_a_part;
use super::{Fact, Found, Text};
use peerlane_machine::fact::{Area, Grade, Message};
use peerlane_machine::names::{list, natural};

const TOOL: &str = "sinfo";

/// What Slurm appends to a state: no answer, powered down or up, maintenance, reboots, planned, still completing.
const FLAGS: [char; 10] = ['*', '~', '#', '!', '%', '$', '@', '^', '-', '+'];

/// A list without a header is one from this many rows on.
const ROWS: usize = 3;

/// The most of a line that is kept, in characters, and the most nodes that a message names.
const QUOTE: usize = 120;
const SHOWN: usize = 64;

/// The most nodes that are kept, above the largest clusters.
const NODES: usize = 1 << 16;

/// Nodes by name with the state in which they are worst.
#[derive(Default)]
struct Nodes {
    states: BTreeMap<String, (Option<Grade>, String)>,
    lines: Vec<usize>,
}

impl Nodes {
    fn add(&mut self, names: &str, (grade, state): (Option<Grade>, String), i: usize) {
        for name in expanded(names) {
            if self.states.len() < NODES {
                let known = self.states.entry(name).or_insert_with(|| (grade, state.clone()));
                if known.0 < grade {
                    *known = (grade, state.clone());
                }
            }
        }
        self.lines.push(i);
    }

    fn report(self, health: &mut Health) {
        let Some(&first) = self.lines.first() else { return };
        for i in &self.lines {
            health.used(*i);
        }
        let total = self.states.len();
        let mut groups: BTreeMap<(Grade, String), BTreeSet<String>> = BTreeMap::new();
        for (name, (grade, state)) in self.states {
            match grade {
                None => health.sound(Area::Node, first),
                Some(grade) => _ = groups.entry((grade, state)).or_default().insert(name),
            }
        }
        for ((grade, state), names) in groups {
            let mut names: Vec<String> = names.into_iter().collect();
            names.sort_by(|a, b| natural(a).cmp(&natural(b)));
            let what = format!("{} of {total} nodes {state}:", names.len());
            health.trouble(Area::Node, grade, None, &what, &list(&names), first);
        }
    }
}

/// Where a table has what.
struct Columns {
    state: usize,
    names: usize,
    reason: Option<usize>,
    count: usize,
}

pub(super) fn scan(text: &Text, found: &mut Found) {
    const STATES: [&str; 10] =
        ["Gres=(null)", "idle", "alloc", "mix", "drain", "down", "IDLE", "ALLOC", "DRAIN", "DOWN"];
    if !text.holds_one_of(&STATES) && !text.holds(&["TIMESTAMP", "NODES(A/I/O/T)", "REASON"]) {
        return;
    }
    let mut health = Health::default();
    let mut node = None;
    let mut shown = Nodes::default();
    let asks = asks_for_gpus(text);
    let (mut without, mut has_gpus): (Vec<(String, usize)>, bool) = (Vec::new(), false);
    text.walk(|i| {
        let line = text.line(i);
        let head = split(line);
        if let Some(columns) = columns(&head) {
            return Some(table(text, i, &columns, &mut health));
        }
        if let ["REASON", "NODELIST"] = head.as_slice() {
            return Some(short_reasons(text, i, &mut health));
        }
        if let ["REASON", "USER", "TIMESTAMP", "NODELIST"] = head.as_slice() {
            return Some(reasons(text, i, &mut health));
        }
        if let Some(at) = head.iter().position(|cell| *cell == "NODES(A/I/O/T)") {
            return Some(summary(text, i, (at, head.len()), &mut health));
        }
        if let Some(rest) = line.trim_start().strip_prefix("NodeName=") {
            node = rest.split_whitespace().next();
        }
        // somebody may have marked the words that matter
        let plain = line.trim_start_matches([' ', '\t', '>', '*']);
        if let Some((node, rest)) = node.zip(plain.strip_prefix("Gres=")).filter(|_| asks) {
            if rest.starts_with("(null)") && without.len() < NODES {
                without.push((node.to_owned(), i));
            }
            has_gpus |= rest.starts_with("gpu");
        } else if let Some((node, state)) = node.zip(line.trim_start().strip_prefix("State="))
            // in slurm.conf the state stands on the node's own line, as a setting
            && let Some(state) = state.split_whitespace().next().and_then(judged)
        {
            shown.add(node, state, i);
        }
        bare(text, i, &mut health)
    });
    shown.report(&mut health);
    // of a cluster with GPUs the other nodes have none
    let first = without.first().map(|(_, i)| *i).filter(|_| !has_gpus);
    if let Some(first) = first {
        let quote = text.line(first).trim().chars().take(QUOTE).collect();
        let names: Vec<String> = without.into_iter().map(|(node, _)| node).take(SHOWN).collect();
        let message =
            Message { id: "slurm-gres-null", parts: vec![("nodes", list(&names))], quote, host: None, count: 1 };
        found.push(text, "Slurm", text.numbers(first, first), Fact::Message(message));
    }
    health.push(text, TOOL, found);
}

/// Whether the text shows that nodes should have GPUs: lines of gres.conf, or requests for GPUs.
fn asks_for_gpus(text: &Text) -> bool {
    text.holds(&["Gres=(null)"])
        && text.holds_one_of(&[
            "Name=gpu",
            "--gres=gpu",
            "--gres gpu",
            "GresTypes=gpu",
            "AutoDetect=nv",
            "--gpus",
            " Gres=gpu",
            "gres:gpu",
        ])
}

/// The cells of a row: between bars, or between blanks.
fn split(line: &str) -> Vec<&str> {
    if line.contains('|') { line.split('|').map(str::trim).collect() } else { line.split_whitespace().collect() }
}

fn columns(head: &[&str]) -> Option<Columns> {
    let at = |names: &[&str]| head.iter().position(|cell| names.contains(cell));
    let state = at(&["STATE", "StateLong", "StateCompact", "StateComplete"])?;
    let names = at(&["NODELIST", "HOSTNAMES", "NodeList", "NodeHost"])?;
    let is_job = at(&["JOBID", "JobID", "USER", "ST"]).is_some();
    let reason = at(&["REASON"]);
    // a reason with blanks in the middle is read by the columns of the page, as other tables of states are
    let is_read_by_columns = reason.is_some_and(|at| at + 1 < head.len());
    (!is_job && !is_read_by_columns).then_some(Columns { state, names, reason, count: head.len() })
}

/// The rows below a header; returns the index after them.
fn table(text: &Text, head: usize, columns: &Columns, health: &mut Health) -> usize {
    let mut nodes = Nodes::default();
    let mut i = head + 1;
    while i < text.len() {
        let line = text.line(i);
        let cells = split(line);
        let is_rule = !line.trim().is_empty() && line.chars().all(|c| matches!(c, '-' | '+' | '|' | ' '));
        if !is_rule {
            let state = cells.get(columns.state).and_then(|state| judged(state));
            // the reason is the one cell with blanks in it
            let fits = cells.len() == columns.count || columns.reason.is_some_and(|at| at + 1 == columns.count);
            let (Some(names), Some((grade, mut state)), true) = (cells.get(columns.names), state, fits) else { break };
            let reason = columns.reason.and_then(|at| cells.get(at..)).unwrap_or_default().join(" ");
            if grade.is_some() && !reason.is_empty() && reason != "none" {
                state = format!("{state} ({reason})");
            }
            nodes.add(names, (grade, state), i);
        }
        i += 1;
    }
    nodes.report(health);
    i
}

/// `sinfo -R`: the reason may have blanks, what follows has none.
fn reasons(text: &Text, head: usize, health: &mut Health) -> usize {
    health.used(head);
    let mut i = head + 1;
    while i < text.len() {
        let words: Vec<&str> = text.line(i).split_whitespace().collect();
        let [reason @ .., _user, time, names] = words.as_slice() else { break };
        if reason.is_empty() || !(time.contains(':') || *time == "Unknown") {
            break;
        }
        held_back(&reason.join(" "), names, i, health);
        i += 1;
    }
    i
}

/// `sinfo --list-reasons --Format=reason,nodelist`.
fn short_reasons(text: &Text, head: usize, health: &mut Health) -> usize {
    health.used(head);
    let mut i = head + 1;
    while i < text.len() {
        let words: Vec<&str> = text.line(i).split_whitespace().collect();
        let [reason @ .., names] = words.as_slice() else { break };
        if reason.is_empty() || !names.bytes().any(|b| b.is_ascii_digit()) {
            break;
        }
        held_back(&reason.join(" "), names, i, health);
        i += 1;
    }
    i
}

fn held_back(reason: &str, names: &str, i: usize, health: &mut Health) {
    let lower = reason.to_lowercase();
    let is_fault = names_a_part(&lower) || lower.contains("not responding") || lower.contains("unexpectedly");
    let grade = if is_fault { Grade::Fault } else { Grade::Limit };
    let nodes = expanded(names);
    let what = format!("{} held back ({reason}):", counted(nodes.len()));
    health.trouble(Area::Node, grade, None, &what, &list(&nodes), i);
}

/// `sinfo -s`: nodes that are allocated, idle, other, and all.
fn summary(text: &Text, head: usize, (at, count): (usize, usize), health: &mut Health) -> usize {
    let mut i = head + 1;
    while i < text.len() {
        let cells = split(text.line(i));
        let numbers: Vec<u32> =
            cells.get(at).map_or(Vec::new(), |cell| cell.split('/').filter_map(|n| n.parse().ok()).collect());
        let (&[_, _, other, all], true) = (numbers.as_slice(), cells.len() == count) else { break };
        let part = cells.first().map(|name| name.trim_end_matches('*'));
        let value = format!("{other} of {all} nodes neither idle nor allocated; `sinfo -R` says why");
        // planned reboots and nodes that are powered down count as well
        health.judge(Area::Node, (other > 0).then_some(Grade::Note), part, "", &value, i);
        i += 1;
    }
    i
}

/// Rows of a name and a state without a header: `gpu1,idle`, or more cells between bars.
fn bare(text: &Text, first: usize, health: &mut Health) -> Option<usize> {
    let cells = bare_cells(text.line(first));
    let at = cells.iter().skip(1).position(|cell| judged(cell).is_some())? + 1;
    let mut nodes = Nodes::default();
    let (mut i, mut is_slurm) = (first, false);
    while i < text.len() {
        let cells = bare_cells(text.line(i));
        let (Some(name), Some(word)) = (cells.first().filter(|name| is_node(name)), cells.get(at)) else { break };
        let Some(state) = judged(word) else { break };
        // links of networks are up or down too; these states only a scheduler has
        is_slurm |= ["idle", "alloc", "mix", "drain"].iter().any(|begin| word.to_lowercase().starts_with(begin));
        nodes.add(name, state, i);
        i += 1;
    }
    if i - first < ROWS || !is_slurm {
        return None;
    }
    nodes.report(health);
    Some(i)
}

fn bare_cells(line: &str) -> Vec<&str> {
    match line.contains('|') {
        true => line.split('|').map(str::trim).collect(),
        // a comma within brackets parts no cells
        false if line.contains('[') => Vec::new(),
        false if line.contains(',') => line.split(',').map(str::trim).collect(),
        false => {
            let words: Vec<&str> = line.split_whitespace().collect();
            if words.len() == 2 { words } else { Vec::new() }
        }
    }
}

/// Whether it can be the name of a host, or a list of such: a number is in it, as in names of nodes.
fn is_node(name: &str) -> bool {
    let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | '[' | ']' | ',');
    name.chars().all(fits)
        && name.starts_with(|c: char| c.is_ascii_alphabetic())
        && name.contains(|c: char| c.is_ascii_digit())
}

/// How bad a state is, `None` where the node works or is free, and the state in words.
fn judged(word: &str) -> Option<(Option<Grade>, String)> {
    let base = word.trim_end_matches(FLAGS);
    let flags = word.get(base.len()..).unwrap_or_default();
    if base.is_empty() || flags.len() > 2 {
        return None;
    }
    // `DOWN*+DRAIN`: several states at once
    let states: Vec<(Option<Grade>, &str)> =
        base.split('+').map(|one| known(one.trim_end_matches(FLAGS))).collect::<Option<_>>()?;
    let (mut grade, _) = states.iter().max().copied()?;
    let mut words = states.iter().map(|(_, state)| *state).collect::<Vec<_>>().join(" and ");
    if word.contains('*') {
        words += ", no answer";
        grade = grade.max(Some(Grade::Suspect));
    }
    if flags.contains('$') {
        words += ", reserved for maintenance";
    }
    if flags.contains(['@', '^']) && !words.contains("restart") {
        words += " for a restart";
    }
    Some((grade, words))
}

fn known(state: &str) -> Option<(Option<Grade>, &'static str)> {
    let lower = state.to_lowercase();
    Some(match lower.as_str() {
        "idle" => (None, "idle"),
        "allocated" | "alloc" => (None, "allocated"),
        "mixed" | "mix" => (None, "mixed"),
        "completing" | "comp" => (None, "completing"),
        "reserved" | "resv" => (None, "reserved"),
        "planned" | "plnd" => (None, "planned"),
        "perfctrs" | "npc" => (None, "in use"),
        "blocked" | "block" => (None, "blocked by an exclusive job"),
        "cloud" | "dynamic_norm" | "dynamic_future" => (None, "of a cloud"),
        "maint" => (Some(Grade::Note), "in maintenance"),
        "future" | "futr" => (Some(Grade::Note), "not there yet"),
        "reboot" | "boot" | "reboot_issued" | "reboot_requested" => (Some(Grade::Note), "to be restarted"),
        "powered_down" | "powering_down" | "power_down" | "pow_dn" => (Some(Grade::Note), "powered down"),
        "powering_up" | "power_up" | "pow_up" => (Some(Grade::Note), "powering up"),
        "drained" | "drain" => (Some(Grade::Limit), "drained"),
        "draining" | "drng" => (Some(Grade::Limit), "draining"),
        "unknown" | "unk" => (Some(Grade::Suspect), "in an unknown state"),
        "not_responding" => (Some(Grade::Suspect), "not responding"),
        "down" => (Some(Grade::Fault), "down"),
        "fail" => (Some(Grade::Fault), "failed"),
        "failing" | "failg" => (Some(Grade::Fault), "failing"),
        "error" => (Some(Grade::Fault), "in error"),
        "inval" | "invalid_reg" => (Some(Grade::Fault), "invalid (fewer resources than slurm.conf states)"),
        _ => return None,
    })
}

/// The names of a list of hosts: `gpu[01-03,7],login1`.
fn expanded(names: &str) -> Vec<String> {
    let mut all = Vec::new();
    let (mut depth, mut start) = (0_u32, 0);
    let ends = names.char_indices().filter_map(|(at, c)| {
        match c {
            '[' => depth += 1,
            ']' => depth = depth.saturating_sub(1),
            _ => {}
        }
        (c == ',' && depth == 0).then_some(at)
    });
    for end in ends.chain([names.len()]).collect::<Vec<_>>() {
        expand(names.get(start..end).unwrap_or_default(), &mut all);
        start = end + 1;
    }
    all
}

fn expand(one: &str, all: &mut Vec<String>) {
    let parts = one.split_once('[').and_then(|(stem, rest)| Some((stem, rest.split_once(']')?)));
    let Some((stem, (ranges, tail))) = parts else {
        if !one.is_empty() {
            all.push(one.to_owned());
        }
        return;
    };
    for range in ranges.split(',') {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let (Ok(from), Ok(to)) = (first.parse::<u64>(), last.parse::<u64>()) else {
            all.push(format!("{stem}{range}{tail}"));
            continue;
        };
        let room = NODES.saturating_sub(all.len());
        let width = first.len();
        all.extend((from..=to).take(room).map(|number| format!("{stem}{number:0width$}{tail}")));
    }
}

fn counted(nodes: usize) -> String {
    if nodes == 1 { "1 node".to_owned() } else { format!("{nodes} nodes") }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{health, scanned};
    use super::*;

    fn read(text: &str) -> (u32, Vec<(Grade, String)>) {
        let report = health(scan, text);
        let troubles = report.troubles.iter().map(|one| (one.grade, format!("{} {}", one.what, one.value)));
        (report.sound, troubles.collect())
    }

    #[test]
    fn partitions_with_nodes_by_state() {
        let (sound, bad) = read(
            "PARTITION AVAIL  TIMELIMIT  NODES  STATE NODELIST\ngpu*         up 2-00:00:00      2  down* n[01-02]\n\
             gpu*         up 2-00:00:00      3   idle n[03-05]\ngpu*         up 2-00:00:00      1  drain n06\nlong         up   infinite      3   idle n[03-05]\n",
        );
        let drained = (Grade::Limit, "1 of 6 nodes drained: n06".to_owned());
        assert_eq!(
            (sound, bad),
            (3, vec![drained, (Grade::Fault, "2 of 6 nodes down, no answer: n01, n02".to_owned())])
        );
    }

    #[test]
    fn nodes_without_the_gpus_that_the_configuration_names() {
        let node = |name: &str, gres: &str| {
            format!("NodeName={name} Arch=x86_64 CoresPerSocket=48\n   Gres={gres}\n   State=IDLE ThreadsPerCore=2\n")
        };
        let named = |body: &str| {
            let all = scanned(scan, body).evidence;
            all.into_iter()
                .find_map(|e| if let Fact::Message(m) = e.fact { m.part("nodes").map(str::to_owned) } else { None })
        };
        let conf = "Name=gpu Type=h100 File=/dev/nvidia0\n";
        assert_eq!(named(&(conf.to_owned() + &node("n1", "(null)"))).as_deref(), Some("n1"));
        assert_eq!(
            named(&(conf.to_owned() + &node("n1", "(null)") + &node("n2", "gpu:h100:8"))),
            None,
            "a node without GPUs"
        );
        assert_eq!(named(&node("n1", "(null)")), None, "nothing asks for GPUs");
    }

    #[test]
    fn a_node_a_line_with_reasons() {
        let (sound, bad) = read(
            "NODELIST   NODES PARTITION       STATE CPUS    S:C:T MEMORY TMP_DISK WEIGHT AVAIL_FE REASON\n\
             n1             1      gpu       mixed   96   2:48:1 512000        0      1   (null) none\n\
             n2             1      gpu        down   96   2:48:1 512000        0      1   (null) fan 3 stopped\n",
        );
        assert_eq!((sound, bad), (1, vec![(Grade::Fault, "1 of 2 nodes down (fan 3 stopped): n2".to_owned())]));
    }

    #[test]
    fn lists_without_a_header() {
        let (sound, bad) = read("n1,idle\nn2,mixed\nn3,draining\n");
        assert_eq!((sound, bad), (2, vec![(Grade::Limit, "1 of 3 nodes draining: n3".to_owned())]));
        let (sound, bad) =
            read("n1 |gpu:a100:4 |idle |main\nn2 |gpu:a100:4 |drained$ |main\nn3 |gpu:a100:4 |alloc |main\n");
        let drained = "1 of 3 nodes drained, reserved for maintenance: n2".to_owned();
        assert_eq!((sound, bad), (2, vec![(Grade::Limit, drained)]));
        // a link of a network may be down as well, and two rows are no list
        for other in
            ["eth0,down\neth1,down\neth2,down\n", "n1,idle\nn2,idle\n", "n1 idle now\nn2 idle now\nn3 idle now\n"]
        {
            assert_eq!(scanned(scan, other), Found::default(), "{other}");
        }
    }

    #[test]
    fn reasons_and_summaries() {
        let (_, bad) = read(
            "REASON               USER      TIMESTAMP           NODELIST\nNot responding       slurm     2024-05-01T10:00:00 n[1-3]\nupdate of firmware   root      2024-05-02T10:00:00 n7\n",
        );
        let of = |grade, text: &str| (grade, text.to_owned());
        assert_eq!(
            bad,
            [
                of(Grade::Fault, "3 nodes held back (Not responding): n1–n3"),
                of(Grade::Limit, "1 node held back (update of firmware): n7")
            ]
        );
        let (sound, bad) = read(
            "PARTITION AVAIL  TIMELIMIT   NODES(A/I/O/T) NODELIST\na* up infinite 3/5/0/8 n[1-8]\nb up 1:00 0/1/1/2 m[1-2]\n",
        );
        assert_eq!((sound, bad.len(), bad[0].0), (1, 1, Grade::Note));
    }

    #[test]
    fn nodes_in_full() {
        let (sound, bad) = read(
            "NodeName=n1 Arch=x86_64\n   State=IDLE ThreadsPerCore=1\nNodeName=n2 Arch=x86_64\n   State=DOWN*+DRAIN ThreadsPerCore=1\n",
        );
        assert_eq!((sound, bad[0].0, bad.len()), (1, Grade::Fault, 1));
        assert_eq!(scanned(scan, "NodeName=n[1-4] CPUs=64 State=DOWN\n"), Found::default());
    }

    #[test]
    fn lists_of_hosts() {
        assert_eq!(expanded("a[08-10,12]-x,b,c[1"), ["a08-x", "a09-x", "a10-x", "a12-x", "b", "c[1"]);
        assert_eq!(expanded("a[0-99999999999]").len(), NODES);
        assert_eq!(expanded(""), Vec::<String>::new());
    }
}
