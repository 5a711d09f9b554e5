//! Results of checks, as any program or script states them: rows of a table with a column of states, lines that begin or end with a
//! mark, and objects of JSON with a status. A result counts if it names a part of a machine.
//!
//! What another reader understood is left alone. Documents mark what they support in the same way, so that marks of lists and of
//! Markdown tables do not count.

use serde_json::Value;

use super::health::Health;
use super::host_headings::HostHeadings;
use super::line_head::head as head_of_log;
use super::{Found, Text};
use peerlane_machine::fact::{Area, Grade};

pub(super) const TOOL: &str = "results of checks";

/// Fewer results are no report.
const FEWEST: usize = 2;

/// Longer lines are data.
const LONGEST: usize = 400;

/// A longer document of JSON is data, too.
const MAX_JSON: usize = 1 << 20;

/// Deeper objects hold no results of checks.
const DEEPEST: usize = 12;

/// Words of parts, in lower case; digits at their end do not count.
const PARTS: [&str; 37] = [
    "gpu",
    "gpus",
    "nvlink",
    "nvlinks",
    "nvswitch",
    "xid",
    "ecc",
    "nvidia",
    "nvml",
    "dcgm",
    "cuda",
    "nccl",
    "rccl",
    "rocm",
    "amdgpu",
    "xgmi",
    "pcie",
    "infiniband",
    "ib",
    "rdma",
    "roce",
    "hca",
    "nic",
    "nics",
    "mlx",
    "efa",
    "fabricmanager",
    "fabric",
    "gdr",
    "gpudirect",
    "peermem",
    "hbm",
    "h2d",
    "d2h",
    "p2p",
    "busbw",
    "iommu",
];

/// A column whose cells are states, by a word of its head in lower case.
const STATES: [&str; 7] = ["status", "state", "result", "results", "health", "outcome", "verdict"];

/// A column whose cells name the host.
const HOSTS: [&str; 6] = ["node", "host", "hostname", "nodelist", "nodename", "server"];

/// States of Slurm that no test has.
const SCHEDULERS: [&str; 9] = ["drain", "drained", "drng", "draining", "idle", "alloc", "allocated", "mix", "mixed"];

/// What a node is held back for, where that is a fault.
const REASONS: [&str; 6] = ["xid", "ecc", "nvlink", "nvlinks", "fell", "failed"];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Status {
    Good,
    Doubtful,
    Bad,
}

impl Status {
    /// A state in words, with what Slurm appends.
    fn of(word: &str) -> Option<Status> {
        let word = word
            .trim_matches(|c: char| matches!(c, '[' | ']' | '*' | '~' | '#' | '!' | '%' | '$' | '@' | '+' | '.' | ':'));
        if word.len() > 24 {
            return None;
        }
        Some(match word.to_ascii_lowercase().as_str() {
            "pass" | "passed" | "ok" | "success" | "succeeded" | "healthy" | "up" | "active" | "online" | "idle"
            | "alloc" | "allocated" | "mix" | "mixed" | "ready" | "running" | "completed" => Status::Good,
            "warn" | "warning" | "degraded" | "unknown" | "drng" | "draining" => Status::Doubtful,
            "fail" | "failed" | "failure" | "error" | "critical" | "unhealthy" | "down" | "drain" | "drained"
            | "inactive" | "offline" | "nok" | "notready" | "crashloopbackoff" | "lost" => Status::Bad,
            _ => return None,
        })
    }

    /// A mark before or behind what it is about.
    fn of_mark(mark: char) -> Option<Status> {
        match mark {
            '✅' | '✓' | '✔' | '🟢' => Some(Status::Good),
            '⚠' | '🟡' => Some(Status::Doubtful),
            '❌' | '✗' | '✘' | '✖' | '🔴' => Some(Status::Bad),
            _ => None,
        }
    }
}

/// A result.
struct Row {
    line: usize,
    status: Status,
    /// Whether only a mark states it.
    marked: bool,
    host: Option<String>,
    what: String,
    /// Whether its table is one of a scheduler's nodes.
    of_scheduler: bool,
}

/// The head of a table.
struct Table {
    cells: usize,
    state: usize,
    host: Option<usize>,
    names_part: bool,
    has_bars: bool,
    of_scheduler: bool,
}

/// Finds results in lines that are not `read` yet.
pub(super) fn scan(text: &Text, read: &[bool], hosts: &HostHeadings, found: &mut Found) {
    if found.evidence.is_empty() && json(text, found) {
        return;
    }
    let mut table: Option<Table> = None;
    let mut rows: Vec<Row> = Vec::new();
    for (i, line) in text.iter() {
        let is_left_out = read.get(i) == Some(&true) || line.trim().is_empty() || line.len() > LONGEST;
        // a log of the system says what happened, and a later line that it is over
        if is_left_out || head_of_log(line).is_system || line.starts_with('<') {
            table = None;
            continue;
        }
        let cells = cells(line);
        if let Some(head) = head(line, &cells) {
            table = Some(head);
            continue;
        }
        let row = match &table {
            Some(table) => of_table(table, line, &cells),
            None => marked(line, i > 0 && is_of_program(text.line(i - 1))).or_else(|| closed(line)),
        };
        if let Some((status, marked, host, what)) = row {
            let host = host.or_else(|| hosts.at(i).map(str::to_owned));
            let of_scheduler = table.as_ref().is_some_and(|table| table.of_scheduler);
            rows.push(Row { line: i, status, marked, host, what, of_scheduler });
        }
    }
    if rows.len() < FEWEST {
        return;
    }
    let mut health = Health::default();
    for row in rows {
        let holds = |of: &[&str]| words(&row.what).any(|word| of.contains(&word.as_str()));
        let of_scheduler = row.of_scheduler || holds(&SCHEDULERS);
        // a node is also drained for service that was planned
        let certain = !row.marked && (!of_scheduler || holds(&REASONS));
        let grade = match row.status {
            Status::Good => None,
            Status::Bad if certain => Some(Grade::Fault),
            Status::Bad | Status::Doubtful => Some(Grade::Suspect),
        };
        let area = if of_scheduler { Area::Node } else { Area::Test };
        health.judge(area, grade, row.host.as_deref(), &row.what, "", row.line);
    }
    health.push(text, TOOL, found);
}

/// The cells of a line, parted by bars, commas, tabs or gaps.
fn cells(line: &str) -> Vec<&str> {
    let bars = |c: char| matches!(c, '|' | '│' | '┃');
    let line = line.trim();
    let all: Vec<&str> = if line.contains(bars) {
        line.trim_matches(bars).split(bars).collect()
    } else if line.contains('\t') {
        line.split('\t').collect()
    } else if line.matches(',').count() >= 2 && !line.contains("  ") {
        line.split(',').collect()
    } else {
        line.split("  ").filter(|cell| !cell.trim().is_empty()).collect()
    };
    all.into_iter().map(str::trim).collect()
}

/// The head of a table with a column of states.
fn head(line: &str, cells: &[&str]) -> Option<Table> {
    let is_one_of = |cell: &str, of: &[&str]| cell.len() <= 24 && words(cell).any(|word| of.contains(&word.as_str()));
    let short = cells.len() >= 2
        && cells.iter().all(|cell| cell.len() <= 40 && !cell.contains([':', ';', '(', '{', '=', '"', '\'', '\\']));
    let no_state =
        cells.iter().all(|cell| Status::of(cell).is_none()) && !line.chars().any(|c| Status::of_mark(c).is_some());
    let state = cells.iter().position(|cell| is_one_of(cell, &STATES)).filter(|_| short && no_state)?;
    Some(Table {
        cells: cells.len(),
        state,
        host: cells.iter().position(|cell| is_one_of(cell, &HOSTS)),
        names_part: names_part(line),
        of_scheduler: line.contains("NODELIST") || line.contains("PARTITION"),
        has_bars: line.contains(['|', '│', '┃']),
    })
}

/// Whether a program logs so.
fn is_of_program(line: &str) -> bool {
    line.starts_with("{\"level\":") || head_of_log(line).is_log
}

type Read = (Status, bool, Option<String>, String);

/// A row below such a head.
fn of_table(table: &Table, line: &str, cells: &[&str]) -> Option<Read> {
    let whole = cells.len() == table.cells;
    let cell = cells.get(table.state).copied().filter(|_| whole).unwrap_or_default();
    let by_cell = cell.split([' ', ',']).next().and_then(Status::of).map(|status| (status, false));
    // blanks alone do not always part the cells
    let by_word = || line.split_whitespace().find_map(Status::of).filter(|_| !whole).map(|status| (status, false));
    let by_mark =
        || cell.chars().next().and_then(Status::of_mark).filter(|_| !table.has_bars).map(|status| (status, true));
    let (status, marked) = by_cell.or_else(by_word).or_else(by_mark)?;
    let host = match table.host {
        Some(at) if whole => cells.get(at).copied(),
        Some(0) => line.split_whitespace().next(),
        _ => None,
    };
    let others = cells.iter().enumerate().filter(|(at, _)| !(whole && Some(*at) == table.host));
    let what = others.map(|(_, cell)| *cell).filter(|cell| !cell.is_empty()).collect::<Vec<_>>().join(", ");
    (table.names_part || names_part(line)).then(|| (status, marked, host.map(str::to_owned), what))
}

/// `[FAIL] GPU 2: x8, expected x16`, `❌ GPU 2: x8`.
///
/// Documents list what they support in the same way, without a value; behind a line of a program's log it is a result.
fn marked(line: &str, is_behind_log: bool) -> Option<Read> {
    let line = line.trim();
    let (status, marked, rest) =
        if let Some((word, rest)) = line.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
            let is_capital = word.trim().bytes().all(|b| b.is_ascii_uppercase());
            (Status::of(word.trim()).filter(|_| is_capital)?, false, rest)
        } else {
            let mark = line.chars().next()?;
            (Status::of_mark(mark)?, true, line.get(mark.len_utf8()..)?)
        };
    let rest = rest.trim_matches(|c: char| c == '\u{fe0f}' || c == ':' || c.is_whitespace());
    let states_a_value = is_behind_log || rest.contains([':', '=', '(']) || rest.bytes().any(|b| b.is_ascii_digit());
    (names_part(rest) && (!marked || states_a_value)).then(|| (status, marked, None, rest.to_owned()))
}

/// `GPU count ........ PASS`, `NVLink: FAIL`.
fn closed(line: &str) -> Option<Read> {
    let line = line.trim();
    let (what, word) = line.rsplit_once([' ', '.', ':', '='])?;
    let what = what.trim_end_matches([' ', '.', ':', '=', '-']);
    // a gap or a sign parts the two
    let parted = line.len() - what.len() - word.len() >= 2 || what.len() + 1 < line.len() - word.len();
    let is_capital = word.bytes().all(|b| b.is_ascii_uppercase());
    let status = Status::of(word).filter(|_| is_capital && parted && what.len() <= 80)?;
    (names_part(what) && !line.starts_with(['-', '*', '#', '|'])).then(|| (status, false, None, line.to_owned()))
}

fn words(text: &str) -> impl Iterator<Item = String> {
    text.split(|c: char| !c.is_ascii_alphanumeric())
        .map(|word| word.trim_end_matches(|c: char| c.is_ascii_digit()).to_ascii_lowercase())
        .filter(|word| !word.is_empty())
}

fn names_part(text: &str) -> bool {
    words(text).any(|word| PARTS.contains(&word.as_str()))
}

/// Results in a document of JSON; whether the text is one with results.
fn json(text: &Text, found: &mut Found) -> bool {
    let body = text.joined();
    if !body.trim_start().starts_with(['{', '[']) || body.len() > MAX_JSON {
        return false;
    }
    let Ok(value) = super::from_json::<Value>(body) else { return false };
    let mut results = Vec::new();
    walk(&value, None, 0, &mut results);
    let about_parts = results.iter().any(|(_, _, what)| names_part(what));
    if results.len() < FEWEST || !about_parts {
        return false;
    }
    let mut health = Health::default();
    let last = text.len().saturating_sub(1);
    health.used(0);
    for (status, host, what) in results.into_iter().filter(|(_, _, what)| names_part(what)) {
        let grade = match status {
            Status::Good => None,
            Status::Doubtful => Some(Grade::Suspect),
            Status::Bad => Some(Grade::Fault),
        };
        let line =
            text.iter().position(|(_, line)| !what.is_empty() && line.contains(first_value(&what))).unwrap_or(last);
        health.judge(Area::Test, grade, host.as_deref(), &what, "", line);
    }
    health.used(last);
    health.push(text, TOOL, found);
    true
}

fn first_value(what: &str) -> &str {
    what.split(", ").next().unwrap_or_default()
}

/// The objects with a status, with the host that an object around them names, and their other values.
fn walk(value: &Value, host: Option<&str>, depth: usize, results: &mut Vec<(Status, Option<String>, String)>) {
    if depth > DEEPEST {
        return;
    }
    match value {
        Value::Array(all) => all.iter().for_each(|one| walk(one, host, depth + 1, results)),
        Value::Object(fields) => {
            let text = |names: &[&str]| {
                let named = fields.iter().find(|(key, _)| names.contains(&key.to_ascii_lowercase().as_str()));
                named.and_then(|(_, value)| value.as_str())
            };
            let host = text(&HOSTS).or(host);
            if let Some(status) = text(&STATES).and_then(Status::of) {
                let others = fields.iter().filter(|(key, value)| {
                    let key = key.to_ascii_lowercase();
                    !HOSTS.contains(&key.as_str()) && !value.is_object() && !value.is_array()
                });
                let shown = others.map(|(key, value)| match value {
                    Value::String(text) => text.clone(),
                    other => format!("{key} {other}"),
                });
                results.push((status, host.map(str::to_owned), shown.collect::<Vec<_>>().join(", ")));
            }
            fields.values().for_each(|one| walk(one, host, depth + 1, results));
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Fact, scan_text};
    use super::*;

    /// How many results are sound, and the others as they are shown.
    fn results(body: &str) -> Option<(u32, Vec<String>)> {
        let found = scan_text(&Text::new("t", body.as_bytes()));
        let all = found.evidence.into_iter().filter_map(|one| match one.fact {
            Fact::Health(report) if one.origin.tool == TOOL => {
                let named = |t: &peerlane_machine::fact::Trouble| {
                    format!("{} {} {:?}", t.part.as_deref().unwrap_or("-"), t.what, t.grade)
                };
                Some((report.sound, report.troubles.iter().map(named).collect()))
            }
            _ => None,
        });
        all.reduce(|(sound, bad): (u32, Vec<String>), (more, others)| (sound + more, [bad, others].concat()))
    }

    #[test]
    fn tables_of_states_in_any_form() {
        let nodes = "NODELIST   STATE   REASON               GRES\ngpu[1-3] idle    none                 gpu:8\n\
                     gpu4       drain   Xid 79 on GPU 3      gpu:8\ngpu5       down*   Not responding       gpu:8\n";
        let (sound, bad) = results(nodes).unwrap();
        assert_eq!((sound, bad[0].as_str()), (1, "gpu4 drain, Xid 79 on GPU 3, gpu:8 Fault"));
        assert_eq!(bad.len(), 2);
        let csv = "node,gpu,test,result,detail\nn1,0,pcie,PASS,25 GB/s\nn2,1,pcie,FAIL,3 GB/s\n";
        assert_eq!(results(csv), Some((1, vec!["n2 1, pcie, FAIL, 3 GB/s Fault".to_owned()])));
        let bars = "| Test | Result |\n|---|---|\n| NVLink | FAIL |\n| GPU count | PASS |\n";
        assert_eq!(results(bars), Some((1, vec!["- NVLink, FAIL Fault".to_owned()])));
        let gaps =
            "Test              Result\nGPU count         ✅ 8\nNVLink status     ✅\nPCIe width        ❌ GPU 2: x8\n";
        assert_eq!(results(gaps), Some((2, vec!["- PCIe width, ❌ GPU 2: x8 Suspect".to_owned()])));
    }

    #[test]
    fn nodes_of_a_scheduler_are_no_test() {
        let nodes = "PARTITION AVAIL  TIMELIMIT  NODES  STATE NODELIST\ngpu*         up 7-00:00:00      1  down* gpu07\n\
                     gpu*         up 7-00:00:00      6   idle gpu[01-06]\n";
        let found = scan_text(&Text::new("t", nodes.as_bytes()));
        let areas =
            found.evidence.iter().filter_map(|e| if let Fact::Health(r) = &e.fact { Some(r.area) } else { None });
        assert_eq!(areas.collect::<Vec<_>>(), [Area::Node]);
    }

    #[test]
    fn lines_with_a_mark_or_a_word() {
        let lines = "[PASS] GPU count: 8\n[FAIL] GPU 2 runs at x8\n[WARN] one NIC is down\n";
        let (sound, bad) = results(lines).unwrap();
        assert_eq!(
            (sound, bad),
            (1, vec!["- GPU 2 runs at x8 Fault".to_owned(), "- one NIC is down Suspect".to_owned()])
        );
        let closed = "GPU count ........ PASS\nNVLink ........... FAIL\n";
        assert_eq!(results(closed), Some((1, vec!["- NVLink ........... FAIL Fault".to_owned()])));
    }

    #[test]
    fn objects_with_a_status() {
        let body = r#"{"node": "n7", "checks": [{"name": "gpu_count", "status": "ok", "found": 8},
                      {"name": "nvlink", "status": "fail", "message": "GPU 5 link 3 inactive"}]}"#;
        assert_eq!(results(body), Some((1, vec!["n7 GPU 5 link 3 inactive, nvlink, fail Fault".to_owned()])));
    }

    #[test]
    fn documents_and_other_tables_are_no_reports() {
        for body in [
            "| Feature | Status |\n|---|---|\n| NVLink | ❌ |\n| GPU | ✅ |\n",
            "- ✅ GPU support\n- ❌ NVLink support\n",
            "✅ GPU support\n❌ NVLink support\n",
            "| Package | Status |\n|---|---|\n| zlib | FAILED |\n| glibc | OK |\n",
            "NAME   STATUS   AGE\nweb-1  Running  3d\nweb-2  Error    3d\n",
            "GPU count ........ PASS\n",
        ] {
            assert_eq!(results(body), None, "{body}");
        }
    }
}
