//! `validation/judgement.md`.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::{Judged, Kind, Thread, first_contact};

const TITLE: &str = "# How well `check` judges
";

const INTRODUCTION: &str = "
## Texts whose cause is known

Threads and captures of real machines whose cause is known: a maintainer, the poster or a document confirmed it, or, of sound
machines, nobody found anything wrong. Each text is given to `peerlane check TEXT` as it was published, most of them excerpts.

They are in two halves, parted by a hash of their names before any was looked at. Rules and readers were worked on with the
first. The second was set aside and scored once, at 8c626b2; its table stays as it came out. Some of what it showed was repaired
afterwards (four lanes of a desktop board, a millisecond of peer latency, what a matrix of classes alone shows), so that it
cannot be scored again.

* **Cause first**: of faults and limits, the first finding above a note (or the first note where there is no other) names the
  cause, by the rule and the words that the record asks for.
* **Wrong statement**: something in the answer that a reader who knows the cause calls wrong.
* **False alarm**: a fault is reported on a sound machine.
* **Verdict**: FAULT of faults; LIMITED or HEALTHY of the others. NOT JUDGED of a sound machine counts as a miss.

The records are in [`judgement/`](../crates/peerlane-cli/tests/suite/judgement), the texts are not in this repository: they
are read from where they lie (`PEERLANE_JUDGEMENT`, `PEERLANE_CORPUS`). This page is written by
`UPDATE_DOCS=1 cargo test -p peerlane-cli judgement::`.
";

/// Counts of a set.
#[derive(Default)]
struct Counts {
    all: usize,
    read: usize,
    causes: usize,
    first: usize,
    wrong: usize,
    sound: usize,
    alarms: usize,
    verdicts: usize,
}

impl Counts {
    fn of(threads: &[Thread], results: &BTreeMap<String, Judged>) -> Counts {
        let mut counts = Counts::default();
        for (thread, judged) in threads.iter().filter_map(|t| Some((t, results.get(&t.name)?))) {
            let is_cause = thread.kind != Kind::Sound;
            counts.all += 1;
            counts.read += usize::from(judged.verdict != "not read");
            counts.causes += usize::from(is_cause);
            counts.first += usize::from(is_cause && judged.right);
            counts.wrong += usize::from(!thread.wrong.is_empty());
            counts.sound += usize::from(!is_cause);
            counts.alarms += usize::from(!is_cause && judged.alarm);
            counts.verdicts += usize::from(verdict_fits(thread.kind, &judged.verdict));
        }
        counts
    }
}

fn verdict_fits(kind: Kind, verdict: &str) -> bool {
    match kind {
        Kind::Fault => verdict == "fault",
        Kind::Limited | Kind::Sound => ["healthy", "limited"].contains(&verdict),
    }
}

pub(super) fn page(sets: &[(&str, Vec<Thread>)], results: &BTreeMap<String, Judged>) -> String {
    let mut page = format!("{TITLE}{}{INTRODUCTION}", first_contact::section());
    let _ = writeln!(page, "\n| set | texts | read | cause first | wrong statements | false alarms | verdict |");
    let _ = writeln!(page, "| --- | ---: | ---: | ---: | ---: | ---: | ---: |");
    for (set, threads) in sets.iter().filter(|(_, threads)| !threads.is_empty()) {
        let c = Counts::of(threads, results);
        let share = |n: usize, of: usize| format!("{n} of {of} ({:.0} %)", 100.0 * n as f64 / of.max(1) as f64);
        let _ = writeln!(
            page,
            "| {} | {} | {} | {} | {} | {} | {} |",
            title(set),
            c.all,
            share(c.read, c.all),
            share(c.first, c.causes),
            share(c.wrong, c.all),
            share(c.alarms, c.sound),
            share(c.verdicts, c.all),
        );
    }
    for (set, threads) in sets.iter().filter(|(_, threads)| !threads.is_empty()) {
        let _ = writeln!(page, "\n### {}\n", title(set));
        let _ = writeln!(page, "| thread | cause | verdict | first finding | |");
        let _ = writeln!(page, "| --- | --- | --- | --- | --- |");
        let mut threads: Vec<&Thread> = threads.iter().collect();
        threads.sort_by_key(|t| (t.kind, &t.name));
        for (thread, judged) in threads.iter().filter_map(|t| Some((t, results.get(&t.name)?))) {
            let fits = judged.right && verdict_fits(thread.kind, &judged.verdict) && thread.wrong.is_empty();
            let mut notes = vec![if fits { String::new() } else { "**miss**".to_owned() }];
            notes.extend(thread.wrong.iter().map(|wrong| format!("wrong: {wrong}")));
            notes.extend(thread.doubt.iter().map(|doubt| format!("doubt: {doubt}")));
            notes.retain(|note| !note.is_empty());
            let _ = writeln!(
                page,
                "| {}: {} | {} ({}) | {} | {} | {} |",
                thread.name,
                cell(&thread.source),
                cell(&thread.cause),
                cell(&thread.confirmed_by),
                judged.verdict,
                cell(&judged.first),
                cell(&notes.join("; ")),
            );
        }
    }
    page
}

fn title(set: &str) -> &'static str {
    if set == "held" { "Set aside, scored once" } else { "Worked on" }
}

/// Text in a cell of a table.
fn cell(text: &str) -> String {
    text.replace('|', "\\|").replace('<', "&lt;").replace('\n', " ")
}
