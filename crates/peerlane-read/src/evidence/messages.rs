//! Messages of programs that are known by their words: what [`crate::knowledge`] explains, wherever it stands in a line.

use std::collections::{BTreeMap, HashMap};

use super::host_headings::HostHeadings;
use super::line_head::head;
use super::open_lines::Tracebacks;
use super::said::is_only_said;
use super::{Fact, Found, Text};
use crate::knowledge::{Entry, Hit, Weight, index};
use peerlane_machine::fact::Message;

/// The most of a message that is kept, in characters.
const MAX_QUOTE: usize = 240;

/// The most messages of one text that are kept apart; more are counted with the last of their entry.
const MOST: usize = 256;

/// The most messages of one entry that are kept apart.
const MOST_OF_ENTRY: usize = 16;

/// Names of parts by which messages of one entry are kept apart.
const DEVICES: [&str; 13] =
    ["bdf", "nic", "gpu", "device", "port", "link", "host", "peer", "interface", "library", "seq", "group", "pod"];

/// A message with its lines.
struct Known {
    message: Message,
    entry: &'static Entry,
    lines: (u32, u32),
    /// The line, by index, on which it stood last.
    last: usize,
}

/// Finds messages; which lines, by index, are understood so.
pub(super) fn scan(text: &Text, hosts: &HostHeadings, found: &mut Found) -> Vec<bool> {
    let tracebacks = text.holds(&["ignored in", "atexit", "ignored on"]).then(|| Tracebacks::of(text));
    let (known, of_entry, understood) = (Vec::new(), HashMap::new(), vec![false; text.len()]);
    let mut all = Messages { text, hosts, known, of_entry, understood, tracebacks };
    let mut line: Vec<Hit> = Vec::new();
    let mut at = 0;
    if !text.spend(0, text.joined().len()) {
        return all.understood;
    }
    index().search(text.joined(), |hit| {
        let number = text.line_at(hit.fit.place.0) as usize;
        if number != at {
            all.take(&mut line);
            at = number;
        }
        line.push(hit);
    });
    all.take(&mut line);
    let wrapped = all.wrapped();
    for (first, joined) in &wrapped {
        index().search(joined, |hit| line.push(hit));
        all.take_wrapped(&mut line, *first, joined);
    }
    let Messages { known, understood, .. } = all;
    // what is without meaning makes no machine
    let reported = known.iter().any(|one| one.entry.weight != Weight::Nothing) || !found.evidence.is_empty();
    let resolved: Vec<bool> = known.iter().map(|one| is_resolved(text, one, &known)).collect();
    for (one, _) in known.into_iter().zip(resolved).filter(|(_, resolved)| reported && !resolved) {
        found.push(text, one.entry.program, one.lines, Fact::Message(one.message));
    }
    understood
}

struct Messages<'t> {
    text: &'t Text,
    hosts: &'t HostHeadings,
    known: Vec<Known>,
    of_entry: HashMap<&'static str, Vec<usize>>,
    understood: Vec<bool>,
    tracebacks: Option<Tracebacks>,
}

impl<'t> Messages<'t> {
    /// Takes over the hits of one line.
    fn take(&mut self, hits: &mut Vec<Hit<'t>>) {
        let text: &'t Text = self.text;
        for hit in kept(hits, text.joined()) {
            let (from, to) = hit.fit.place;
            let first = (text.line_at(from) as usize).saturating_sub(1);
            let last = (text.line_at(to.saturating_sub(1)) as usize).saturating_sub(1).max(first);
            if let Some(lines) = self.understood.get_mut(first..=last) {
                lines.fill(true);
            }
            // an exception that Python ignored ended nothing
            if self.tracebacks.as_ref().is_some_and(|all| all.is_ignored(first)) {
                continue;
            }
            let start = text.offset(first);
            if hit.entry.weight != Weight::Note && is_only_said(text, first, from.saturating_sub(start)) {
                continue;
            }
            let line = text.joined().get(start..text.offset(first + 1)).unwrap_or_default().trim_end();
            self.add(&hit, line, from.saturating_sub(start), (first, last));
        }
    }

    /// Takes over hits in lines that were joined.
    fn take_wrapped<'j>(&mut self, hits: &mut Vec<Hit<'j>>, first: usize, joined: &'j str) {
        for hit in kept(hits, joined) {
            for line in [first, first + 1] {
                if let Some(understood) = self.understood.get_mut(line) {
                    *understood = true;
                }
            }
            self.add(&hit, joined, hit.fit.place.0, (first, first + 1));
        }
        hits.clear();
    }

    /// Adds a hit that begins at a byte of its line.
    fn add(&mut self, hit: &Hit, line: &str, at: usize, lines: (usize, usize)) {
        let head = head(line);
        let host = head.host.or(self.hosts.at(lines.0));
        let parts = &hit.fit.parts;
        let own = |message: &Message| {
            message.host.as_deref() == host
                && parts
                    .iter()
                    .filter(|(name, _)| DEVICES.contains(name))
                    .all(|(name, value)| message.part(name) == Some(*value))
        };
        let of_entry = self.of_entry.entry(hit.entry.id).or_default();
        let same = of_entry.iter().rev().find(|at| self.known.get(**at).is_some_and(|known| own(&known.message)));
        let full = self.known.len() >= MOST || of_entry.len() >= MOST_OF_ENTRY;
        let same = same.or(of_entry.last().filter(|_| full)).copied();
        if let Some(known) = same.and_then(|at| self.known.get_mut(at)) {
            known.message.count = known.message.count.saturating_add(1);
            known.last = known.last.max(lines.1);
            add_rank(&mut known.message, parts);
            // what the first one does not name
            for (name, value) in parts {
                if known.message.part(name).is_none() {
                    known.message.parts.push((*name, (*value).to_owned()));
                }
            }
            return;
        }
        if self.known.len() >= 2 * MOST {
            return;
        }
        of_entry.push(self.known.len());
        // of a line that holds much else, from the message on
        let from = if at.saturating_sub(head.end) > FAR { at } else { head.end };
        let quote = line.get(from..).unwrap_or_default().trim().trim_start_matches([',', ';', ' ']);
        let message = Message {
            id: hit.entry.id,
            parts: parts.iter().map(|(name, value)| (*name, (*value).to_owned())).collect(),
            quote: quote.chars().take(MAX_QUOTE).collect(),
            host: host.map(str::to_owned),
            count: 1,
        };
        let last = lines.1;
        let lines = self.text.numbers(lines.0, lines.1);
        self.known.push(Known { message, entry: hit.entry, lines, last });
    }

    /// Lines of logs that are not understood, joined with the line below, which a terminal or a mail program cut off.
    fn wrapped(&self) -> Vec<(usize, String)> {
        let mut all = Vec::new();
        for (i, line) in self.text.iter() {
            if line.len() < SHORTEST_WRAPPED || self.understood.get(i) != Some(&false) || all.len() >= MOST {
                continue;
            }
            if !WRAPPED.iter().any(|mark| line.contains(mark)) {
                continue;
            }
            let below = self.text.line(i + 1);
            let own = head(line);
            if !own.is_log
                || below.trim().is_empty()
                || head(below).is_log
                || self.understood.get(i + 1) != Some(&false)
            {
                continue;
            }
            let below = below.trim_start_matches(['>', ' ', '\t']);
            // a word may be cut, or a space between two words
            all.push((i, format!("{} {below}", line.trim_end())));
            all.push((i, format!("{}{below}", line.trim_end())));
        }
        all
    }
}

/// Whether what it says had ended by a line below in the same block, about the same: a pod that found no node was placed later. Lists of
/// several pods name them, and descriptions part them by empty lines.
fn is_resolved(text: &Text, one: &Known, all: &[Known]) -> bool {
    let ends = |other: &&Known| other.entry.resolves.contains(&one.entry.id) && other.last > one.last;
    let is_of_it = |other: &Known| {
        let agrees = |(name, value): &(&str, String)| one.message.part(name).is_none_or(|own| own == value);
        other.message.host == one.message.host
            && other.message.parts.iter().all(agrees)
            && (one.last..other.last).all(|line| !text.line(line).trim().is_empty())
    };
    all.iter().filter(ends).any(is_of_it)
}

/// Adds the rank of a message about one collective to those that reported the same before.
fn add_rank(known: &mut Message, parts: &[(&'static str, &str)]) {
    let new = |name: &str| parts.iter().find(|(known, _)| *known == name).map(|(_, value)| *value);
    let Some((seq, rank)) = new("seq").zip(new("rank")) else { return };
    let mut add = |name: &str, value: &str| {
        if let Some((_, list)) = known.parts.iter_mut().find(|(known, _)| *known == name)
            && !list.split(", ").any(|one| one == value)
            && list.len() < MAX_QUOTE
        {
            list.push_str(", ");
            list.push_str(value);
        }
    };
    add("seq", seq);
    add("rank", rank);
    if let Some(size) = new("size") {
        add("size", size);
    }
}

/// A message that begins further behind the head of its line is quoted alone.
const FAR: usize = 120;

/// What a line holds that is worth joining with the one below it.
const WRAPPED: [&str; 7] = ["CCL WARN", "NVRM", "ERROR", "rror", "ailed", "kernel:", "aught "];

/// Shorter lines are not wrapped.
const SHORTEST_WRAPPED: usize = 40;

/// The hits of one line that count: marked ones; of those that overlap the most specific.
///
/// A line may be as long as a text, so that each hit is compared with those about it alone.
fn kept<'t>(hits: &mut Vec<Hit<'t>>, text: &'t str) -> Vec<Hit<'t>> {
    let mut marks = Marks::of(hits, text);
    let mut all: Vec<Hit> = hits.drain(..).filter(|hit| marks.hold(hit)).collect();
    all.sort_by_key(|hit| (hit.entry.family, std::cmp::Reverse(hit.weight), hit.fit.place.0));
    let longest = all.iter().map(|hit| hit.fit.place.1.saturating_sub(hit.fit.place.0)).max().unwrap_or(0);
    let mut kept: BTreeMap<usize, Vec<Hit>> = BTreeMap::new();
    let mut others = false;
    for hit in all {
        let (from, to) = hit.fit.place;
        let meets = |other: &Hit| other.fit.place.0 < to && from < other.fit.place.1;
        let same = |other: &Hit| std::ptr::eq(other.entry, hit.entry) && other.fit.place == hit.fit.place;
        let replaced = |other: &Hit| meets(other) && !is_alternative(other.entry, hit.entry);
        let mut about = kept.range(from.saturating_sub(longest)..to.max(from + 1)).flat_map(|(_, at)| at);
        // families stand back; entries that differ by what else is known share their words
        if (hit.entry.family && others) || about.any(|other| same(other) || replaced(other)) {
            continue;
        }
        others |= !hit.entry.family;
        kept.entry(from).or_default().push(hit);
    }
    kept.into_values().flatten().collect()
}

/// Whether one entry replaces the other where something else is known, so that both are kept.
fn is_alternative(a: &Entry, b: &Entry) -> bool {
    a.instead_of.contains(&b.id) || b.instead_of.contains(&a.id)
}

/// The marks of a line, each sought once.
struct Marks<'t> {
    /// From the line's beginning to the end of its last hit.
    line: &'t str,
    start: usize,
    /// An exception of PyTorch ends with the library's own warning.
    is_last_error: bool,
    /// Where the first of a mark ends.
    ends: HashMap<&'static str, Option<usize>>,
}

impl<'t> Marks<'t> {
    fn of(hits: &[Hit<'t>], text: &'t str) -> Self {
        let from = hits.iter().map(|hit| hit.fit.place.0).min().unwrap_or(0);
        let to = hits.iter().map(|hit| hit.fit.place.1).max().unwrap_or(0);
        let start = text.get(..from).and_then(|before| before.rfind('\n')).map_or(0, |at| at + 1);
        let above = text.get(..start.saturating_sub(1)).unwrap_or_default();
        let is_last_error = above.trim_end_matches('\r').ends_with("Last error:");
        Marks { line: text.get(start..to).unwrap_or_default(), start, is_last_error, ends: HashMap::new() }
    }

    /// Whether the line before and in a hit holds one of the marks that its entry needs.
    fn hold(&mut self, hit: &Hit) -> bool {
        let (line, to) = (self.line, hit.fit.place.1 - self.start);
        let mut is_within = |mark: &&'static str| {
            let end = *self.ends.entry(mark).or_insert_with(|| line.find(mark).map(|at| at + mark.len()));
            end.is_some_and(|end| end <= to)
        };
        hit.entry.marks.is_empty() || self.is_last_error || hit.entry.marks.iter().any(&mut is_within)
    }
}

#[cfg(test)]
mod tests {
    use super::super::scan_text;
    use super::*;

    fn found(body: &str) -> Vec<Message> {
        let of = |fact| if let Fact::Message(message) = fact { Some(message) } else { None };
        scan_text(&Text::new("t", body.as_bytes())).evidence.into_iter().filter_map(|e| of(e.fact)).collect()
    }

    const FATAL: &str =
        "transport/net_ib.cc:215 NCCL WARN NET/IB : mlx5_0:1 async fatal event: local catastrophic error";

    #[test]
    fn a_message_is_found_behind_every_wrapping() {
        for (before, host) in [
            ("h1:815:864 [0] ", Some("h1")),
            ("> > h1:815:864 [0] ", Some("h1")),
            ("[1,0]<stderr>:h1:815:864 [0] ", Some("h1")),
            ("{\"log\":\"h1:815:864 [0] ", Some("h1")),
            ("Jul 20 16:15:36 h2 slurmstepd[47]: ", Some("h2")),
            ("\u{1b}[31m2024-05-03T10:11:12Z\u{1b}[0m ", None),
        ] {
            let all = found(&format!("{before}{FATAL}\\n\",\"stream\":\"stderr\"}}\n"));
            let [one] = all.as_slice() else { panic!("{before}: {all:?}") };
            assert_eq!(
                (one.id, one.host.as_deref(), one.part("nic")),
                ("nccl-ib-async-fatal", host, Some("mlx5_0")),
                "{before}"
            );
        }
    }

    #[test]
    fn a_pod_that_was_placed_later_is_no_trouble_and_ends_no_other_pods() {
        const FAILED: &str = "Warning  FailedScheduling  41m  default-scheduler  0/8 nodes are available: 8 Insufficient nvidia.com/gpu.\n";
        let failed = |body: &str| found(body).iter().filter(|message| message.id == "k8s-no-free-gpu").count();
        let placed = |pod: &str| {
            format!("Normal  Scheduled  40m  default-scheduler  Successfully assigned train/{pod} to node7\n")
        };
        assert_eq!(failed(FAILED), 1);
        assert_eq!(failed(&format!("{FAILED}{}", placed("a"))), 0);
        assert_eq!(failed(&format!("{}{FAILED}", placed("a"))), 1, "it failed afterwards");
        assert_eq!(failed(&format!("{FAILED}\nName: b\n{}", placed("b"))), 1, "another description");
        let listed = |pod: &str| FAILED.replace("41m", &format!("pod/{pod}"));
        assert_eq!(failed(&format!("{}{}", listed("a"), placed("b"))), 1, "another pod of a list");
        assert_eq!(failed(&format!("{}{}{}", listed("a"), listed("b"), placed("b"))), 1);
        assert_eq!(failed(&format!("{}{}", listed("a"), placed("a"))), 0);
    }

    #[test]
    fn messages_are_counted_by_host_and_device() {
        let other = FATAL.replace("mlx5_0", "mlx5_3");
        let all = found(&format!("h1:8:8 [0] {FATAL}\nh1:8:8 [0] {FATAL}\nh1:8:8 [0] {other}\nh2:8:8 [0] {FATAL}\n"));
        let read: Vec<_> = all.iter().map(|m| (m.host.as_deref(), m.part("nic"), m.count)).collect();
        let h1 = Some("h1");
        assert_eq!(read, [(h1, Some("mlx5_0"), 2), (h1, Some("mlx5_3"), 1), (Some("h2"), Some("mlx5_0"), 1)]);
    }

    #[test]
    fn lines_that_were_cut_or_joined() {
        let (first, second) = FATAL.split_at(72);
        let all = found(&format!("h1:8:8 [0] {first}\n{second}\n"));
        assert_eq!(all.len(), 1, "{all:?}");
        let all = found(&format!("h1:8:8 [0] {FATAL} h1:8:8 [0] {}\n", FATAL.replace("mlx5_0", "mlx5_3")));
        assert_eq!(all.len(), 2, "{all:?}");
    }

    #[test]
    fn words_of_a_library_count_behind_its_mark_alone() {
        let error = "[rank3]: NET/IB : mlx5_0:1 async fatal event: local catastrophic error\n";
        assert_eq!(found(&format!("[rank3]: Last error:\n{error}")).len(), 1);
        assert_eq!(found(&format!("[rank3]: First error:\n{error}")), []);
        assert_eq!(found("See NET/IB : mlx5_0:1 async fatal event: local catastrophic error\n"), []);
    }
}
