//! What stands before a line of a log: marks of mail, times, hosts, processes, launchers' ranks and levels.
//!
//! Unlike [`super::streams`], which takes a whole text apart, this looks at one line: an excerpt may have one.

use super::streams::{actor, compose, launched, pod, stream_of_runtime};
use super::words::MONTHS;

/// Layers that are taken off: a quotation mark before a container's time before syslog before a rank before NCCL's process.
const MOST_LAYERS: usize = 8;

/// What stands before a line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Head<'a> {
    /// The host that it names.
    pub(super) host: Option<&'a str>,
    /// Whether a program logs so: a time, a process or a level stands there.
    pub(super) is_log: bool,
    /// Whether the kernel or syslog logs so, whose lines are about anything.
    pub(super) is_system: bool,
    /// The level, in lower case as far as it matters: an error, or not.
    pub(super) level: Option<Level>,
    /// The byte at which the line itself begins.
    pub(super) end: usize,
}

/// The level of a line, where it has one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Level {
    /// `[INFO]`, `D`.
    Quiet,
    /// `WARNING`.
    Warning,
    /// `ERROR`, `FATAL`.
    Error,
}

impl Level {
    fn of(word: &str) -> Option<Level> {
        Some(match word {
            "ERROR" | "Error" | "error" | "ERR" | "err" | "FATAL" | "Fatal" | "fatal" | "CRITICAL" | "CRIT"
            | "EMERG" | "SEVERE" | "PANIC" => Level::Error,
            "WARN" | "WARNING" | "Warning" | "warning" | "warn" => Level::Warning,
            "INFO" | "Info" | "info" | "DEBUG" | "debug" | "TRACE" | "NOTICE" | "notice" => Level::Quiet,
            _ => return None,
        })
    }
}

/// Takes off what stands before a line.
pub(super) fn head(line: &str) -> Head<'_> {
    let mut head = Head::default();
    for _ in 0..MOST_LAYERS {
        let Some(rest) = line.get(head.end..) else { break };
        let blank = rest.len() - rest.trim_start().len();
        let rest = rest.trim_start();
        let Some(length) = layer(rest, &mut head) else {
            // the mark of a container's log is its own; blanks before a line are its indentation
            if head.is_log {
                head.end += blank;
            }
            break;
        };
        head.end += blank + length;
    }
    head
}

/// Takes off one layer; its length.
fn layer<'a>(rest: &'a str, head: &mut Head<'a>) -> Option<usize> {
    quote(rest)
        .or_else(|| task(rest).filter(|_| head.end == 0))
        .or_else(|| container(rest, head))
        .or_else(|| time(rest, head))
        .or_else(|| tag(rest, head))
        .or_else(|| process(rest, head))
        .or_else(|| syslog(rest, head))
        .or_else(|| level(rest, head))
}

/// `> `, `| `.
fn quote(rest: &str) -> Option<usize> {
    let end = rest.find(|c| !matches!(c, '>' | ' '))?;
    rest.starts_with('>').then_some(end)
}

/// `3: `, the task that `srun -l` prints before what a program says: a rank, a level, a report of an exception, its indented lines.
/// Before anything else a number may begin a row of a table.
fn task(rest: &str) -> Option<usize> {
    let (number, line) = rest.split_once(": ")?;
    let is_task = (1..=5).contains(&number.len()) && number.bytes().all(|b| b.is_ascii_digit());
    const STARTS: [&str; 15] = [
        "[",
        "  ",
        "Traceback ",
        "Exception ",
        "Error ",
        "srun: ",
        "W0",
        "W1",
        "E0",
        "E1",
        "torch.distributed.",
        "====",
        "----",
        "Failures:",
        "Root Cause ",
    ];
    let is_exception = || line.split_once(": ").is_some_and(|(name, _)| name.ends_with("Error") && !name.contains(' '));
    (is_task && (STARTS.iter().any(|start| line.starts_with(start)) || line.ends_with(".py FAILED") || is_exception()))
        .then_some(number.len() + 2)
}

/// `{"log":"` of docker's JSON files, `[pod/NAME/CONTAINER] ` of kubectl, `worker-1  | ` of `docker compose`, `stdout F ` of a
/// container's runtime, `(RayWorker pid=4111) `.
fn container<'a>(rest: &'a str, head: &mut Head<'a>) -> Option<usize> {
    if rest.starts_with("{\"log\":\"") {
        head.is_log = true;
        return Some("{\"log\":\"".len());
    }
    if let Some(end) = actor(rest).map(|(_, end)| end).or_else(|| stream_of_runtime(rest).filter(|_| head.is_log)) {
        head.is_log = true;
        return Some(end);
    }
    let (name, end) = pod(rest).or_else(|| compose(rest))?;
    head.host = Some(name);
    Some(end)
}

/// `[ 1772.282032] `, `2024-05-03T10:11:12.123Z `, `[2024-05-03 10:11:12,345] `, `[Mar 21 2025 20:45:38] `, `Jul 20 16:15:36 `.
fn time(rest: &str, head: &mut Head) -> Option<usize> {
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit() || b == b'.' || b == b' ');
    if let Some((within, _)) = rest.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        let seconds = (is_number(within) && within.contains('.') || is_stamp_of_kernel(within)) && !is_of_epoch(within);
        if seconds || is_clock(within) || is_of_epoch(within) {
            (head.is_log, head.is_system) = (true, head.is_system || seconds);
            return Some(within.len() + 2);
        }
    }
    // most lines begin with no word of a time
    if !rest.starts_with(|c: char| c.is_ascii_digit() || c.is_ascii_uppercase() || matches!(c, ',' | '-' | '/')) {
        return None;
    }
    let mut end = 0;
    // up to four words: `Mon Jul 20 16:15:36`, `2024-05-03 10:11:12,345`
    for word in rest.split_inclusive(' ').take(5) {
        end += word.len();
        let is_time = word.trim_end().bytes().filter(|b| *b == b':').count() >= 2
            && word.bytes().next().is_some_and(|b| b.is_ascii_digit())
            && word.trim_end().bytes().all(|b| b.is_ascii_digit() || b":.,TZ+-".contains(&b));
        if is_time {
            head.is_log = true;
            return Some(end);
        }
        let part = word.trim_end().trim_end_matches(',');
        let is_date = part.is_empty()
            || part.bytes().all(|b| b.is_ascii_digit() || b == b'-' || b == b'/')
            || is_name(&MONTHS, part)
            || is_name(&DAYS, part);
        if !is_date {
            return None;
        }
    }
    None
}

/// Whether they are seconds since 1970 with their fraction, as UCX and others log; the kernel counts from its start.
fn is_of_epoch(within: &str) -> bool {
    within.split_once('.').is_some_and(|(seconds, part)| {
        seconds.len() == 10 && [seconds, part].iter().all(|text| text.bytes().all(|b| b.is_ascii_digit()))
    })
}

/// Whether the words in brackets are a time as `dmesg` prints it: `    1.759813`, with `-T` `Tue Jan 20 10:17:48 2026`, with `-H` the
/// first line of a minute `Dec  7 23:33` and `  +0.000659` of all others.
pub(super) fn is_stamp_of_kernel(within: &str) -> bool {
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    let plain = within.trim_start();
    let seconds = plain.strip_prefix('+').unwrap_or(plain).split_once('.').filter(|_| !is_of_epoch(plain));
    if seconds.is_some_and(|(whole, part)| digits(whole) && digits(part)) {
        return true;
    }
    let clock = |word: &str, parts: usize| word.split(':').count() == parts && word.split(':').all(digits);
    let mut words = within.split_whitespace();
    match [words.next(), words.next(), words.next(), words.next(), words.next(), words.next()] {
        [Some(day), Some(month), Some(date), Some(time), Some(year), None] => {
            is_name(&DAYS, day) && is_name(&MONTHS, month) && digits(date) && clock(time, 3) && digits(year)
        }
        [Some(month), Some(date), Some(time), None, ..] => is_name(&MONTHS, month) && digits(date) && clock(time, 2),
        _ => false,
    }
}

const DAYS: [&str; 7] = ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"];

fn is_name(names: &[&str], word: &str) -> bool {
    names.contains(&word)
}

/// `2024-05-03 10:11:12,345`, `Mar 21 2025 20:45:38`, `Thu Jan 16 10:36:22 2025`.
fn is_clock(text: &str) -> bool {
    // SGLang's ranks stand behind the time: `TP3`, `DP1 TP0`
    let is_rank = |word: &str| {
        let number = ["TP", "DP", "PP", "EP"].iter().find_map(|kind| word.strip_prefix(kind));
        number.is_some_and(|number| !number.is_empty() && number.bytes().all(|b| b.is_ascii_digit()))
    };
    let plain = |word: &str| {
        word.bytes().all(|b| b.is_ascii_digit() || b":.,-+TZ/".contains(&b))
            || is_name(&MONTHS, word)
            || is_name(&DAYS, word)
            || is_rank(word)
    };
    text.bytes().filter(|b| *b == b':').count() >= 2 && text.split_whitespace().all(plain)
}

/// `[W301 10:00:00.1 TCPStore.cpp:106]`, `[1,0]<stdout>:`, `[rank3]:`, `[default0]:`, `[tid 39] `, `[ERROR] `, `[0] `.
fn tag<'a>(rest: &'a str, head: &mut Head<'a>) -> Option<usize> {
    if let Some((_, stream)) = launched(rest) {
        head.is_log = true;
        return Some(rest.len() - stream.len());
    }
    let (within, after) = rest.strip_prefix('[')?.split_once(']')?;
    let mut end = within.len() + 2;
    if let Some(level) = of_torch(within).or_else(|| of_ray(within)) {
        head.level = head.level.max(Some(level));
    } else if let Some(level) = Level::of(within.trim()) {
        head.level = head.level.max(Some(level));
    } else {
        let digits = within.trim_start_matches(|c: char| c.is_ascii_alphabetic() || c == ' ');
        let plain = !within.is_empty() && within.len() < 24 && digits.bytes().all(|b| b.is_ascii_digit());
        // `[0]` begins a row of a table, too
        if !plain || (digits.len() == within.len() && !head.is_log) {
            return None;
        }
    }
    head.is_log = true;
    end += after.len() - after.trim_start_matches(':').len();
    Some(end)
}

/// The level in `[W301 10:00:00.123456789 TCPStore.cpp:106]`, `[E ProcessGroupNCCL.cpp:828]`, as PyTorch's C++ logs.
fn of_torch(within: &str) -> Option<Level> {
    let mut words = within.split_whitespace();
    let (first, last) = (words.next()?, words.next_back()?);
    let (file, line) = last.rsplit_once(':')?;
    let is_place =
        [".cpp", ".cc", ".hpp", ".h"].iter().any(|end| file.ends_with(end)) && line.bytes().all(|b| b.is_ascii_digit());
    let (letter, date) = first.split_at_checked(1)?;
    if !is_place || !date.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    match letter {
        "E" | "F" => Some(Level::Error),
        "W" => Some(Level::Warning),
        "I" => Some(Level::Quiet),
        _ => None,
    }
}

/// The level in `[2025-03-12 15:02:38,361 E 301 367]`, as Ray's C++ logs.
fn of_ray(within: &str) -> Option<Level> {
    let words: Vec<&str> = within.split_whitespace().collect();
    let [date, time, letter, process, thread] = words.as_slice() else { return None };
    let is_number = |word: &str| word.bytes().all(|b| b.is_ascii_digit());
    let is_date = date.matches('-').count() == 2 && time.matches(':').count() == 2;
    let level = match *letter {
        "E" | "C" | "F" => Level::Error,
        "W" => Level::Warning,
        "I" | "D" => Level::Quiet,
        _ => return None,
    };
    (is_date && is_number(process) && is_number(thread)).then_some(level)
}

/// `node48:34050:34121 [0] `, NCCL's process.
fn process<'a>(rest: &'a str, head: &mut Head<'a>) -> Option<usize> {
    let word = rest.split_whitespace().next()?;
    let mut parts = word.rsplitn(3, ':');
    let is_number = |text: Option<&str>| text.is_some_and(|t| !t.is_empty() && t.bytes().all(|b| b.is_ascii_digit()));
    let (thread, own) = (is_number(parts.next()), is_number(parts.next()));
    let host = parts.next().filter(|host| !host.is_empty() && host.bytes().any(|b| b.is_ascii_alphabetic()))?;
    (thread && own).then(|| {
        head.host = Some(host);
        head.is_log = true;
        word.len()
    })
}

/// `host1 nvidia-fabricmanager-start.sh[4753]: `, `host kernel: ` behind a time.
fn syslog<'a>(rest: &'a str, head: &mut Head<'a>) -> Option<usize> {
    if !head.is_log || head.host.is_some() {
        return None;
    }
    let (words, after) = rest.split_once(": ").or_else(|| rest.strip_suffix(':').map(|words| (words, "")))?;
    let mut parts = words.split(' ');
    let (host, program) = (parts.next()?, parts.next()?);
    let is_program = program == "kernel" || program.strip_suffix(']').is_some_and(|p| p.contains('['));
    let named = host.bytes().all(|b| b.is_ascii_alphanumeric() || b"-._".contains(&b));
    (is_program && named && parts.next().is_none()).then(|| {
        head.host = Some(host);
        head.is_system = true;
        rest.len() - after.len()
    })
}

/// `ERROR: `, `ERROR `, `level=error `, `E0720 16:15:36.123456 4753 `.
fn level<'a>(rest: &'a str, head: &mut Head<'a>) -> Option<usize> {
    let word = rest.split_whitespace().next()?;
    if let Some(level) = of_x_server(word) {
        (head.level, head.is_log) = (head.level.max(Some(level)), true);
        return Some(word.len());
    }
    let plain = word.trim_end_matches(':');
    if let Some(level) = Level::of(plain).filter(|_| plain.bytes().all(|b| b.is_ascii_uppercase()))
        && (head.is_log || plain.len() < word.len())
    {
        (head.level, head.is_log) = (head.level.max(Some(level)), true);
        return Some(word.len());
    }
    if let Some((level, length)) = parted(word, rest).filter(|_| head.is_log) {
        head.level = head.level.max(Some(level));
        return Some(length);
    }
    if let Some(level) = word.strip_prefix("level=").and_then(|word| Level::of(word.trim_matches('"'))) {
        (head.level, head.is_log) = (head.level.max(Some(level)), true);
        return Some(word.len());
    }
    if rest.starts_with("NCCL INFO ") {
        (head.level, head.is_log) = (head.level.max(Some(Level::Quiet)), true);
        return Some("NCCL INFO".len());
    }
    // glog: a letter, month and day, then a time; TensorFlow: a letter, then the place in its source
    let (letter, date) = word.split_at_checked(1)?;
    let level = match letter {
        "E" | "F" => Level::Error,
        "W" => Level::Warning,
        "I" => Level::Quiet,
        _ => return None,
    };
    let is_date = date.len() == 4 && date.bytes().all(|b| b.is_ascii_digit());
    let next = rest.get(word.len()..)?.split_whitespace().next()?;
    let is_time = next.bytes().filter(|b| *b == b':').count() == 2;
    let is_place = date.is_empty() && next.ends_with(']') && next.contains(".cc:");
    (is_date && is_time || is_place).then(|| {
        (head.level, head.is_log) = (head.level.max(Some(level)), true);
        word.len()
    })
}

/// A level between bars or dashes behind a time, as loguru and the logging of Python print it: `| INFO     | `, `- app.worker - ERROR - `. With
/// the length up to what follows it.
fn parted(mark: &str, rest: &str) -> Option<(Level, usize)> {
    /// A name may stand before the level.
    const FIELDS: usize = 2;
    let between = match mark {
        "|" => " | ",
        "-" => " - ",
        _ => return None,
    };
    let mut at = mark.len();
    for field in rest.get(at..)?.trim_start().split(between).take(FIELDS) {
        let from = at + rest.get(at..)?.find(field)?;
        at = from + field.len();
        let word = field.trim();
        if let Some(level) = Level::of(word).filter(|_| word.bytes().all(|b| b.is_ascii_uppercase())) {
            let after = rest.get(at..)?.trim_start();
            let after = after.strip_prefix(mark).unwrap_or(after);
            return Some((level, rest.len() - after.trim_start().len()));
        }
    }
    None
}

/// The marks of an X server's log: `(EE)` of errors, and those of what was found, set or warned of.
fn of_x_server(word: &str) -> Option<Level> {
    match word {
        "(EE)" => Some(Level::Error),
        "(WW)" | "(II)" | "(--)" | "(**)" | "(==)" | "(++)" | "(!!)" | "(NI)" => Some(Level::Quiet),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heads_of_every_kind_name_host_and_level() {
        let words = "Call failed";
        for (before, host, level) in [
            ("node48:34050:34121 [0] ", Some("node48"), None),
            ("> node48:34050:34121 [0] ", Some("node48"), None),
            ("[1,0]<stdout>:node48:34050:34121 [0] ", Some("node48"), None),
            ("[rank3]:[2025-03-01 10:00:00,123] ", None, None),
            ("[ 1772.282032] ", None, None),
            ("Jul 20 16:15:36 host1 kernel: [ 12.5] ", Some("host1"), None),
            ("[    4.555855] host1.lan kernel: ", Some("host1.lan"), None),
            ("Jul 20 16:15:36 host1 nv-start.sh[4753]: ", Some("host1"), None),
            ("2024-05-03T10:11:12.123456+00:00 host1 kernel: ", Some("host1"), None),
            ("2024-05-03T10:11:12.123456Z ", None, None),
            ("[Mar 21 2025 20:45:38] [ERROR] [tid 39] ", None, Some(Level::Error)),
            ("[    12.345] (EE) ", None, Some(Level::Error)),
            ("2024-05-20 10:11:12.123456: I core/util/port.cc:113] ", None, Some(Level::Quiet)),
            ("[pod/train-0/main] ", Some("train-0"), None),
            ("{\"log\":\"", None, None),
            ("worker-1  | [rank3]: ", Some("worker-1"), None),
            ("2024-05-03T10:11:12.123456789Z stderr F ", None, None),
            ("(RayWorker pid=4111, ip=10.0.0.1) ", None, None),
            ("E0720 16:15:36.123456 4753 ", None, Some(Level::Error)),
            ("[rank1]:[W301 10:00:00.123456789 TCPStore.cpp:106] ", None, Some(Level::Warning)),
            ("[E ProcessGroupNCCL.cpp:828] ", None, Some(Level::Error)),
            ("ERROR: ", None, Some(Level::Error)),
            ("2026-03-02 21:28:36 | INFO     | ", None, Some(Level::Quiet)),
            ("2026-03-02 21:28:36,123 - app.worker - ERROR - ", None, Some(Level::Error)),
            ("time=\"2024-05-03\" ", None, None),
        ] {
            let line = format!("{before}{words}");
            let head = head(&line);
            if before.starts_with("time=") {
                assert_eq!(head, Head::default(), "{before}");
                continue;
            }
            assert_eq!((head.host, head.level), (host, level), "{before}");
            assert!(head.is_log || before.starts_with("[pod"), "{before}");
            assert!(line[head.end..].ends_with(words), "{before}");
        }
    }

    #[test]
    fn what_is_no_head() {
        for line in ["", "The link failed", "[0] 12 13", "GPU0: 1", "# size count", "  12:30 and later"] {
            assert_eq!((head(line).host, head(line).is_log), (None, false), "{line}");
        }
    }
}
