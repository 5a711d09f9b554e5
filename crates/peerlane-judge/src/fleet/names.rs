//! What a record's path says about whose it is: `node007/run.json`, `2026-11-01/node007.json`, `node007-20261101T0200.json`.

use peerlane_measure::plan::Test;

/// Extensions of records, of archives that hold them, and of texts.
const EXTENSIONS: [&str; 11] = ["json", "partial", "zst", "gz", "tgz", "tar", "zip", "txt", "log", "out", "xml"];

/// Words that name a measurement or a tool, not a machine.
const GENERIC: [&str; 36] = [
    "run", "runs", "record", "records", "measure", "measured", "default", "quick", "full", "peerlane", "result",
    "results", "output", "out", "report", "latest", "data", "stdin", "json", "topo", "topology", "nvidia", "smi",
    "nvlink", "nvml", "lspci", "lscpu", "lstopo", "ibstat", "ibstatus", "dmesg", "rocm", "query", "files", "text",
    "texts",
];

/// Days, by which folders of records are named.
const DAYS: [&str; 7] = ["monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"];

/// Hosts that have no name of their own.
const NAMELESS: [&str; 7] =
    ["localhost", "localhost.localdomain", "localhost4", "localhost6", "(none)", "ubuntu", "debian"];

/// Whether a host's name is the default of its operating system, which many machines share.
pub(super) fn is_nameless(host: &str) -> bool {
    host.trim().is_empty() || NAMELESS.contains(&host.trim().to_ascii_lowercase().as_str())
}

/// The machine that a path names, if it does: its last part that is neither a date nor the name of a measurement.
pub fn of_path(path: &str) -> Option<String> {
    let parts: Vec<&str> = path.split(['/', '\\']).filter(|part| !matches!(*part, "" | "." | ".." | "-")).collect();
    parts.iter().rev().find_map(|part| of_part(part))
}

fn of_part(part: &str) -> Option<String> {
    let mut stem = part;
    while let Some((rest, extension)) = stem.rsplit_once('.') {
        if !EXTENSIONS.contains(&extension.to_ascii_lowercase().as_str()) {
            break;
        }
        stem = rest;
    }
    let undated = without_dates(stem);
    let is_test = |word: &str| Test::ALL.iter().any(|test| test.name().split('-').any(|own| own == word));
    let generic = |word: &str| {
        let word = word.to_ascii_lowercase();
        GENERIC.contains(&word.as_str()) || DAYS.contains(&word.as_str())
    };
    // `one-to-all-2` names a measurement, and `host-contention` may be anything
    let plain = |word: &str| generic(word) || is_test(word) || word.chars().all(|c| c.is_ascii_digit());
    if undated.split(is_separator).all(plain) {
        return None;
    }
    // what stands between the separators stays as it is written: `node-007_quick` is `node-007`
    let mut name = undated.trim_matches(|c| is_separator(c) || c == '.');
    loop {
        let last = name.rsplit(is_separator).next().unwrap_or_default();
        let first = name.split(is_separator).next().unwrap_or_default();
        if generic(last) {
            name = name.strip_suffix(last).unwrap_or_default().trim_end_matches(is_separator);
        } else if generic(first) {
            name = name.strip_prefix(first).unwrap_or_default().trim_start_matches(is_separator);
        } else {
            break;
        }
        if name.is_empty() {
            return None;
        }
    }
    name.contains(char::is_alphabetic).then(|| name.to_owned())
}

fn is_separator(c: char) -> bool {
    matches!(c, '-' | '_' | '+' | ' ' | ':' | '@')
}

/// The text without `2026-11-01`, `20261101`, a time after either (`T0200`, `-02:00:30Z`), and seconds since 1970.
fn without_dates(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut kept = String::with_capacity(text.len());
    let mut at = 0;
    while at < text.len() {
        let bounded = at == 0 || !bytes.get(at - 1).is_some_and(u8::is_ascii_alphanumeric);
        if let Some(length) = bounded.then(|| date(bytes.get(at..).unwrap_or_default())).flatten() {
            at += length;
            continue;
        }
        let Some(c) = text.get(at..).and_then(|rest| rest.chars().next()) else { break };
        kept.push(c);
        at += c.len_utf8();
    }
    kept
}

/// The length of a date and time at the start of a text.
fn date(text: &[u8]) -> Option<usize> {
    let digits =
        |from: usize| text.get(from..).map_or(0, |rest| rest.iter().take_while(|c| c.is_ascii_digit()).count());
    let is = |at: usize, c: u8| text.get(at) == Some(&c);
    let century = text.starts_with(b"19") || text.starts_with(b"20");
    let mut end = match digits(0) {
        4 if century && is(4, b'-') && digits(5) == 2 && is(7, b'-') && digits(8) == 2 => 10,
        8 | 12 | 14 if century => digits(0),
        10 if text.starts_with(b"1") => 10,
        _ => return None,
    };
    if text.get(end).is_some_and(|c| matches!(c, b'T' | b't' | b'-' | b'_')) && matches!(digits(end + 1), 2 | 4 | 6) {
        end += 1 + digits(end + 1);
        while text.get(end).is_some_and(|c| matches!(c, b':' | b'-' | b'.')) && digits(end + 1) == 2 {
            end += 3;
        }
    }
    if text.get(end).is_some_and(|c| matches!(c, b'Z' | b'z')) {
        end += 1;
    }
    (!text.get(end).is_some_and(u8::is_ascii_alphanumeric)).then_some(end)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_dates_and_measurements_are_told_from_machines() {
        for (path, name) in [
            ("runs/node007/run.json", Some("node007")),
            ("2026-11-01/node007.json", Some("node007")),
            ("node007-20261101T0200.json", Some("node007")),
            ("node007-20261101T0200.json.partial", Some("node007")),
            ("node007_2026-11-01T02:00:30Z.json", Some("node007")),
            ("all.tar.zst/gpu-b-12/quick.json", Some("gpu-b-12")),
            ("node-007_quick.json", Some("node-007")),
            ("rack3/node-2.json", Some("node-2")),
            ("h200x4-vm-runs/subsets-2.json", Some("h200x4-vm")),
            ("node8/one-to-all.json", Some("node8")),
            ("runs/host-contention.json", Some("host-contention")),
            ("node007-1795249012.json", Some("node007")),
            ("all/node7-nvidia-smi_topo.txt", Some("node7")),
            ("node7/ibstat.txt", Some("node7")),
            ("node.cluster.local/run.json", Some("node.cluster.local")),
            ("monday/run.json", None),
            ("run-3.json", None),
            ("-", None),
            ("", None),
        ] {
            assert_eq!(of_path(path).as_deref(), name, "{path}");
        }
        assert!(is_nameless("localhost") && is_nameless(" ") && !is_nameless("vm"));
    }
}
