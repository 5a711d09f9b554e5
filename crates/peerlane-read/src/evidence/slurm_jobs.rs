//! Slurm's lists of jobs (`squeue`, `sacct`): those that ended with an error, and those that a node ended.

use super::health::Health;
use super::{Found, Text};
use peerlane_machine::fact::{Area, Grade};

const TOOL: &str = "sacct";

/// How a row is parted into cells.
enum Cells {
    /// By bars.
    Bars,
    /// By the columns of the rule below the header, `sacct`'s own.
    Spans(Vec<(usize, usize)>),
    /// By blanks, `squeue`'s own.
    Blanks,
}

pub(super) fn scan(text: &Text, found: &mut Found) {
    if !text.holds(&["JobID", "JOBID"]) {
        return;
    }
    let mut health = Health::default();
    text.walk(|i| table(text, i, &mut health));
    health.push(text, TOOL, found);
}

/// Reads a table whose header is line `head`; the index after it.
fn table(text: &Text, head: usize, health: &mut Health) -> Option<usize> {
    let line = text.line(head);
    let rule = if head + 1 < text.len() { spans(text.line(head + 1)) } else { None };
    let (cells, mut i) = match rule {
        Some(spans) => (Cells::Spans(spans), head + 2),
        None if line.contains('|') => (Cells::Bars, head + 1),
        None => (Cells::Blanks, head + 1),
    };
    let names = cells.of(line);
    let at = |wanted: &[&str]| names.iter().position(|name| wanted.contains(name));
    let (id, state) = (at(&["JobID", "JOBID"])?, at(&["State", "STATE", "ST"])?);
    let held = at(&["NODELIST(REASON)"]);
    while i < text.len() {
        let line = text.line(i);
        let row = cells.of(line);
        let (Some(job), Some(word)) = (row.get(id).filter(|job| is_job(job)), row.get(state)) else { break };
        let Some((area, bad, name)) = judged(word) else { break };
        let why = held.and_then(|at| row.get(at..)).unwrap_or_default().join(" ");
        let part = format!("job {job}");
        if why.contains("UnavailableNodes") {
            health.trouble(Area::Node, Grade::Limit, Some(&part), "waits:", &why, i);
        } else if why.contains("launch failed") {
            health.trouble(Area::Node, Grade::Fault, Some(&part), "held:", &why, i);
        } else {
            health.judge(area, bad, Some(&part), name, "", i);
        }
        i += 1;
    }
    Some(i)
}

impl Cells {
    fn of<'a>(&self, line: &'a str) -> Vec<&'a str> {
        match self {
            // some put a mark of their own beside the bars
            Cells::Bars => line.split('|').map(|cell| cell.trim().trim_start_matches('#')).collect(),
            Cells::Spans(spans) => spans
                .iter()
                .map(|(from, to)| line.get(*from..(*to).min(line.len())).unwrap_or_default().trim())
                .collect(),
            Cells::Blanks => line.split_whitespace().collect(),
        }
    }
}

/// The columns of a rule of dashes.
fn spans(rule: &str) -> Option<Vec<(usize, usize)>> {
    let fits = rule.contains("---") && rule.bytes().all(|b| matches!(b, b'-' | b' '));
    let mut spans: Vec<(usize, usize)> = Vec::new();
    for at in (0..rule.len()).filter(|at| fits && rule.as_bytes().get(*at) == Some(&b'-')) {
        match spans.last_mut() {
            Some((_, end)) if *end == at => *end += 1,
            _ => spans.push((at, at + 1)),
        }
    }
    fits.then_some(spans)
}

/// `1234`, `1234_7`, `1234_[1-9%2]`, `1234.batch`.
fn is_job(id: &str) -> bool {
    id.starts_with(|c: char| c.is_ascii_digit())
        && id.chars().all(|c| c.is_ascii_alphanumeric() || "._[]-%,+".contains(c))
}

/// What a state of a job tells, by its long or its short name. A job that failed may have failed by itself.
fn judged(word: &str) -> Option<(Area, Option<Grade>, &'static str)> {
    let word = word.split_whitespace().next()?.trim_end_matches('+');
    Some(match word {
        "RUNNING" | "R" | "COMPLETED" | "CD" | "COMPLETING" | "COMPLETI" | "CG" | "PENDING" | "PD" | "CONFIGURING"
        | "CF" | "RESIZING" | "RS" | "REQUEUED" | "RQ" | "SUSPENDED" | "S" | "STAGE_OUT" | "SO" => {
            (Area::Program, None, "")
        }
        "CANCELLED" | "CA" => (Area::Program, Some(Grade::Note), "cancelled"),
        "PREEMPTED" | "PR" => (Area::Program, Some(Grade::Note), "preempted"),
        "REVOKED" | "RV" => (Area::Program, Some(Grade::Note), "revoked"),
        "TIMEOUT" | "TO" => (Area::Program, Some(Grade::Note), "ended at its time limit"),
        "DEADLINE" | "DL" => (Area::Program, Some(Grade::Note), "ended at its deadline"),
        "FAILED" | "F" => (Area::Program, Some(Grade::Suspect), "failed"),
        "OUT_OF_MEMORY" | "OUT_OF_ME" | "OOM" => (Area::Program, Some(Grade::Suspect), "out of memory"),
        "NODE_FAIL" | "NF" => (Area::Node, Some(Grade::Fault), "a node failed"),
        "BOOT_FAIL" | "BF" => (Area::Node, Some(Grade::Fault), "a node did not start"),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::super::testing::{health, scanned};
    use super::*;

    #[test]
    fn accounts_by_columns_and_by_bars() {
        let report = health(
            scan,
            "JobID           JobName  Partition    Account  AllocCPUS      State ExitCode \n\
             ------------ ---------- ---------- ---------- ---------- ---------- -------- \n\
             71             training        gpu        lab         16  COMPLETED      0:0 \n\
             71.batch          batch                   lab         16 CANCELLED+     0:15 \n\
             72                   my        gpu        lab         16     FAILED      1:0 \n",
        );
        let bad: Vec<_> = report.troubles.iter().map(|t| (t.part.as_deref().unwrap_or(""), t.grade)).collect();
        assert_eq!((report.sound, bad), (1, vec![("job 71.batch", Grade::Note), ("job 72", Grade::Suspect)]));
        let found =
            scanned(scan, "Account|#JobID|#NodeList|#State\nlab|#9_1.extern|#n3|#RUNNING\nlab|#9_2|#n4|#NODE_FAIL\n");
        assert_eq!(found.evidence.len(), 2, "{found:#?}");
    }

    #[test]
    fn jobs_in_the_queue() {
        let text = |reason: &str| {
            format!(
                "  JOBID PARTITION     NAME     USER ST       TIME  NODES NODELIST(REASON)\n     71       gpu    train      ann PD       0:00      2 ({reason})\n     70       gpu    train      ann  R      1:00      2 n[1-2]\n"
            )
        };
        assert_eq!(health(scan, &text("Resources")).sound, 2);
        let found = scanned(scan, &text("ReqNodeNotAvail, UnavailableNodes:n3"));
        assert_eq!(found.evidence.len(), 2, "{found:#?}");
    }

    #[test]
    fn other_tables() {
        for text in ["JobID State\n", "JobID Phase\n1 Running\n", "JOBID STATE\nabc RUNNING\n", "JobID|State\n1|odd\n"]
        {
            assert_eq!(scanned(scan, text), Found::default(), "{text}");
        }
    }
}
