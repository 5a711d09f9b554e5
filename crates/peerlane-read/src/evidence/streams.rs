//! Takes off what programs and people put before every line: time stamps, labels of launchers and log
//! collectors (`[1,0]<stdout>:`, `node7: `, `[pod/…] `), quotation marks of mail, comment signs.
//!
//! Lines of one label become a text of their own that keeps the original line numbers, so that interleaved
//! output of several hosts comes apart. A form of prefix is believed only where several lines have it.

use std::collections::BTreeMap;

use super::host_headings::HostHeadings;
use super::words::MONTHS;
use super::{Fact, Found, HostFacts, Text};

/// The tool of statements that name the host whose lines a source holds.
pub(crate) const LINE_PREFIX: &str = "line prefix";

/// Fewer lines than this with one prefix are no log.
const MIN_LINES: usize = 3;

/// More labels than any cluster's log has; what claims more is no log.
const MAX_LABELS: usize = 1024;

/// Prefixes on prefixes that are taken off: a time stamp before a host before a quotation mark.
const MAX_LAYERS: usize = 4;

/// What some line of a capture holds, where a prefix alone (`word: `) could be anything.
const HALLMARKS: &[&str] = &[
    "GPU0",
    "P2P=",
    "NVIDIA-SMI",
    "nvbandwidth Version",
    "# nThread",
    "algbw",
    "#bytes",
    "[CUDA Bandwidth Test]",
    "CUDA Device Query",
    "<system version",
];

/// What stands in lines of tools and in no prose, so that a single line with a host before it is believed.
const SURE: [&str; 4] = ["physical_state ", "LnkSta:", "Link detected:", " state ACTIVE "];

/// A text of lines that had one label.
pub(super) struct Stream {
    /// The lines without their prefixes.
    pub(super) text: Text,
    /// The host that the label names.
    host: Option<String>,
}

impl Stream {
    /// Adds the host of these lines, where they name one and others in the source name another.
    pub(super) fn push_host(&self, found: &mut Found) {
        if let Some(name) = &self.host
            && !self.text.is_empty()
        {
            let host = HostFacts { name: Some(name.clone()), ..HostFacts::default() };
            let lines = self.text.numbers(0, self.text.len() - 1);
            found.push(&self.text, LINE_PREFIX, lines, Fact::Host(host));
        }
    }
}

/// What kind of thing stands before a line.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Label {
    /// A time stamp and nothing else that distinguishes lines.
    Time,
    /// `> `.
    Quote,
    /// `# `.
    Comment,
    /// `  12 `, the number that an editor shows before a line.
    Number,
    /// A launcher's number of a task, which may share its host with others.
    Task(String),
    /// A host, container or pod.
    Host(String),
    /// `word: `, which may be a host, a task or no prefix at all.
    Word(String),
}

/// The texts of prefixed lines, and the rest last; `None` where no line has a prefix.
pub(super) fn streams(text: &Text, hosts: &HostHeadings) -> Option<Vec<Stream>> {
    if let Some(blocks) = below_headings(text, hosts) {
        return Some(blocks);
    }
    let mut lines: BTreeMap<Label, Vec<(usize, usize)>> = BTreeMap::new();
    for (i, line) in text.iter() {
        if let Some((label, from)) = prefix(line)
            && (lines.len() < MAX_LABELS || lines.contains_key(&label))
        {
            lines.entry(label).or_default().push((i, from));
        }
    }
    for (label, of_it) in &mut lines {
        keep_believable(text, label, of_it);
    }
    let is_sure = |(i, _): &(usize, usize)| SURE.iter().any(|mark| text.line(*i).contains(mark));
    lines.retain(|_, of_it| of_it.len() >= MIN_LINES || !of_it.is_empty() && of_it.iter().all(is_sure));
    if lines.is_empty() {
        return None;
    }
    let mut taken = vec![false; text.len()];
    lines.values().flatten().for_each(|(i, _)| taken[*i] = true);
    let names: Vec<&String> = lines.keys().filter_map(host_name).collect();
    let several = names.len() > 1;
    let mut all: Vec<Stream> = lines
        .iter()
        .map(|(label, of_it)| {
            let host = host_name(label).filter(|_| several).cloned();
            Stream { text: text.part(of_it, host.as_deref()), host }
        })
        .collect();
    all.push(Stream { text: text.without(&taken), host: None });
    Some(all)
}

/// The texts below headings that name their host, where any holds what a machine printed.
fn below_headings(text: &Text, hosts: &HostHeadings) -> Option<Vec<Stream>> {
    let blocks = hosts.blocks(text.len());
    let is_printed = |i: usize| HALLMARKS.iter().any(|hallmark| text.line(i).contains(hallmark));
    if !blocks.iter().any(|(first, end, host)| host.is_some() && (*first..*end).any(is_printed)) {
        return None;
    }
    let stream = |(first, end, host): &(usize, usize, Option<&str>)| {
        let lines: Vec<(usize, usize)> = (*first..*end).map(|i| (i, 0)).collect();
        Stream { text: text.part(&lines, *host), host: host.map(str::to_owned) }
    };
    Some(blocks.iter().filter(|(first, end, _)| first < end).map(stream).collect())
}

fn host_name(label: &Label) -> Option<&String> {
    match label {
        Label::Host(name) => Some(name),
        Label::Word(name) => Some(name).filter(|n| !n.bytes().all(|b| b.is_ascii_digit())),
        _ => None,
    }
}

/// Drops lines whose prefix may be part of their content.
fn keep_believable(text: &Text, label: &Label, lines: &mut Vec<(usize, usize)>) {
    let rest = |&(i, from): &(usize, usize)| text.line(i).get(from..).unwrap_or_default();
    let hallmark = |line: &str| HALLMARKS.iter().any(|h| line.contains(h));
    match label {
        Label::Word(_) => {
            let sure = |line: &str| SURE.iter().any(|mark| line.contains(mark));
            if !lines.iter().any(|l| hallmark(rest(l)) || sure(rest(l))) {
                lines.clear();
            }
        }
        // a heading or a remark stands alone; nccl-tests marks some of its lines with `#`
        Label::Comment | Label::Quote => {
            let runs = lines.chunk_by(|a, b| a.0 + 1 == b.0);
            let native =
                |line: &str| line.starts_with("nThread") || line.starts_with("Using devices") || line.contains("algbw");
            let good = |run: &&[(usize, usize)]| {
                run.len() >= MIN_LINES
                    && (*label == Label::Quote
                        || run.iter().any(|l| hallmark(rest(l))) && !run.iter().any(|l| native(rest(l).trim())))
            };
            *lines = runs.filter(good).flatten().copied().collect();
        }
        // the rows of a table count up too, but hold no title
        Label::Number => {
            let number =
                |&(i, _): &(usize, usize)| text.line(i).split_whitespace().next().and_then(|n| n.parse::<u32>().ok());
            let next = |a: &(usize, usize), b: &(usize, usize)| {
                a.0 + 1 == b.0 && number(a).zip(number(b)).is_some_and(|(a, b)| a + 1 == b)
            };
            let good = |run: &&[(usize, usize)]| run.len() > MIN_LINES && run.iter().any(|l| hallmark(rest(l)));
            *lines = lines.chunk_by(next).filter(good).flatten().copied().collect();
        }
        Label::Time | Label::Task(_) | Label::Host(_) => {}
    }
}

/// What stands before a line, and where the line itself begins.
fn prefix(line: &str) -> Option<(Label, usize)> {
    let mut at = 0;
    let mut label = None;
    for _ in 0..MAX_LAYERS {
        let rest = line.get(at..)?;
        let Some((found, length)) = layer(rest, label.is_some()) else { break };
        at += length;
        // the innermost label distinguishes lines; a time stamp does not
        if label.is_none() || found != Label::Time {
            label = Some(found);
        }
    }
    label.map(|label| (label, at))
}

fn layer(rest: &str, inner: bool) -> Option<(Label, usize)> {
    quote(rest)
        .or_else(|| rank_tag(rest))
        .or_else(|| compose(rest).filter(|_| !inner).map(|(name, end)| (Label::Word(name.to_owned()), end)))
        .or_else(|| actor(rest).map(|(name, end)| (Label::Task(name.to_owned()), end)))
        .or_else(|| stream_of_runtime(rest).filter(|_| inner).map(|end| (Label::Time, end)))
        .or_else(|| pod(rest).map(|(name, end)| (Label::Host(name.to_owned()), end)))
        .or_else(|| time_stamp(rest, inner))
        .or_else(|| syslog(rest))
        .or_else(|| word(rest).filter(|_| !inner))
        .or_else(|| comment(rest).filter(|_| !inner))
        .or_else(|| line_number(rest).filter(|_| !inner))
}

/// `  12 `, and a number alone on an empty line.
fn line_number(line: &str) -> Option<(Label, usize)> {
    let start = line.len() - line.trim_start().len();
    let digits = line.get(start..)?.bytes().take_while(u8::is_ascii_digit).count();
    let rest = line.get(start + digits..)?;
    let parted = rest.is_empty() || rest.starts_with([' ', '\t']);
    ((1..=5).contains(&digits) && parted).then_some((Label::Number, start + digits))
}

/// `> `, `>> `, `> > `.
fn quote(line: &str) -> Option<(Label, usize)> {
    let mut at = 0;
    // deviceQuery begins such lines so itself
    while line.get(at..).is_some_and(|rest| rest.starts_with('>') && !rest.starts_with("> Peer access from")) {
        at += 1;
        at += usize::from(line.get(at..)?.starts_with(' '));
    }
    (at > 0).then_some((Label::Quote, at))
}

/// `# `.
fn comment(line: &str) -> Option<(Label, usize)> {
    let at = line.strip_prefix("# ").map(|_| 2).or(line.strip_prefix('#').map(|_| 1))?;
    Some((Label::Comment, at))
}

/// `[1,0]<stdout>:`, which `mpirun --tag-output` prints, in later releases with the job's name; `[rank3]:` and `[default3]:` of torchrun.
fn rank_tag(line: &str) -> Option<(Label, usize)> {
    let task = |within: &str, stream: &str| Some((Label::Task(within.to_owned()), line.len() - stream.len()));
    if let Some((within, stream)) = launched(line) {
        let plain = |b: u8| b.is_ascii_alphanumeric() || b"@,.-_:".contains(&b);
        return task(within, stream.strip_prefix(' ').unwrap_or(stream)).filter(|_| within.bytes().all(plain));
    }
    let (within, rest) = line.strip_prefix('[')?.split_once(']')?;
    let number = within.trim_start_matches(|c: char| c.is_ascii_lowercase());
    let is_rank = number.len() < within.len() && (1..6).contains(&number.len());
    let stream = rest.strip_prefix(':').filter(|_| is_rank && number.bytes().all(|b| b.is_ascii_digit()))?;
    task(within, stream)
}

/// What stands in the brackets of `[1,0]<stdout>:`, and the line behind it.
pub(super) fn launched(line: &str) -> Option<(&str, &str)> {
    let (within, rest) = line.strip_prefix('[')?.split_once(']')?;
    let stream = rest.strip_prefix("<stdout>:").or(rest.strip_prefix("<stderr>:"))?;
    Some((within, stream))
}

/// The name in `worker-1  | `, which `docker compose` prints before each line of a container, and where the line itself begins.
pub(super) fn compose(line: &str) -> Option<(&str, usize)> {
    let (name, rest) = line.split_once(" | ").or_else(|| line.strip_suffix(" |").map(|name| (name, "")))?;
    let name = name.trim_end();
    let plain = |b: u8| b.is_ascii_alphanumeric() || b"-_.".contains(&b);
    // a container's name ends in its number
    let numbered = name.ends_with(|c: char| c.is_ascii_digit()) && name.contains(['-', '_']);
    (numbered && name.len() < 64 && name.bytes().all(plain)).then(|| (name, line.len() - rest.len()))
}

/// The words in `(RayWorker pid=4111, ip=10.0.0.1) `, which Ray prints before each line of an actor, and where the line itself begins.
pub(super) fn actor(line: &str) -> Option<(&str, usize)> {
    let (within, rest) = line.strip_prefix('(')?.split_once(')')?;
    within.contains(" pid=").then(|| (within, line.len() - rest.strip_prefix(' ').unwrap_or(rest).len()))
}

/// `stdout F `, which a container's runtime writes behind the time.
pub(super) fn stream_of_runtime(line: &str) -> Option<usize> {
    ["stdout F ", "stderr F ", "stdout P ", "stderr P "]
        .iter()
        .find(|mark| line.starts_with(**mark))
        .map(|mark| mark.len())
}

/// The name in `[pod/NAME/CONTAINER] `, which `kubectl logs --prefix` prints, and where the line itself begins.
pub(super) fn pod(line: &str) -> Option<(&str, usize)> {
    let (path, rest) = line.strip_prefix("[pod/")?.split_once(']')?;
    let name = path.split('/').next().filter(|n| !n.is_empty() && !path.contains(' '))?;
    let rest = rest.strip_prefix(' ').unwrap_or(rest);
    Some((name, line.len() - rest.len()))
}

/// `2024-05-03T10:11:12.123456Z `, `[2024-05-03 10:11:12,345] [INFO] [run.py:44] `.
fn time_stamp(line: &str, inner: bool) -> Option<(Label, usize)> {
    let open = line.strip_prefix('[').unwrap_or(line);
    let shape = |text: &str, shape: &str| {
        text.len() >= shape.len()
            && text.bytes().zip(shape.bytes()).all(|(b, s)| if s == b'0' { b.is_ascii_digit() } else { b == s })
    };
    if !shape(open, "0000-00-00") || !shape(open.get(11..)?, "00:00:00") {
        // the level and place that a logger prints behind its time
        let (word, rest) = line.strip_prefix('[')?.split_once("] ")?;
        let tag = inner && !word.contains('[') && word.chars().any(char::is_alphabetic);
        return tag.then(|| (Label::Time, line.len() - rest.len()));
    }
    let fraction = |c: char| c.is_ascii_digit() || matches!(c, '.' | ',' | 'Z' | '+' | '-' | ':' | ']');
    let rest = open.get(19..)?.trim_start_matches(fraction);
    let rest = match rest.chars().next() {
        None => rest,
        Some(' ' | '\t') => rest.get(1..)?,
        _ => return None,
    };
    Some((Label::Time, line.len() - rest.len()))
}

/// `May  3 10:11:12 node7 prog[4411]: `.
fn syslog(line: &str) -> Option<(Label, usize)> {
    if !MONTHS.contains(&line.get(..3)?) {
        return None;
    }
    let (head, rest) = line.split_once("]: ").or_else(|| line.strip_suffix("]:").map(|head| (head, "")))?;
    let mut words = head.split_whitespace();
    let (_, day, time, host, _) = (words.next()?, words.next()?, words.next()?, words.next()?, words.next()?);
    let shaped = day.parse::<u8>().is_ok() && time.len() == 8 && time.bytes().filter(|b| *b == b':').count() == 2;
    (shaped && words.next().is_none()).then(|| (Label::Host(host.to_owned()), line.len() - rest.len()))
}

/// `node7: `, which pdsh and clush print, and `0: ` of `srun -l`, whose numbers stand below each other.
fn word(line: &str) -> Option<(Label, usize)> {
    let (word, rest) = line.split_once(':')?;
    let number = word.trim_start();
    let is_task = number.len() < word.len() && word.len() <= 7 && number.bytes().all(|b| b.is_ascii_digit());
    let word = if is_task { number } else { word };
    let named = (1..=63).contains(&word.len())
        && super::words::gpu_number(word).is_none()
        && word.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'.' | b'_'));
    let rest = if rest.is_empty() { rest } else { rest.strip_prefix(' ')? };
    named.then(|| (Label::Word(word.to_owned()), line.len() - rest.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(body: &str) -> Vec<(String, Vec<(u32, String)>)> {
        let text = Text::new("t", body.as_bytes());
        let lines = |t: &Text| {
            let all = t.iter().filter(|(_, l)| !l.is_empty());
            all.map(|(i, l)| (t.numbers(i, i).0, l.to_owned())).collect()
        };
        streams(&text, &HostHeadings::default())
            .unwrap_or_default()
            .iter()
            .map(|s| (s.text.source().to_string(), lines(&s.text)))
            .collect()
    }

    fn lines(body: &str) -> Vec<String> {
        let all = parts(body);
        all.first().map(|(_, l)| l.iter().map(|(_, l)| l.clone()).collect()).unwrap_or_default()
    }

    #[test]
    fn every_form_of_prefix() {
        let plain = ["\tGPU0\tCPU Affinity", "GPU0\t X \t0-3", "> NIC0: mlx5_0"];
        for prefix in [
            "2024-05-03T10:11:12.123456Z ",
            "2024-05-03 10:11:12,345 ",
            "[2024-05-03 10:11:12,345] [INFO] [run.py:44:main] ",
            "[1,0]<stdout>:",
            "[prterun-node1-4711@1,0]<stdout>: ",
            "[rank3]:",
            "worker-1  | ",
            "(RayWorkerWrapper pid=4111, ip=10.0.0.1) ",
            "2024-05-03T10:11:12.123456789Z stdout F ",
            "[pod/topo-x/main] ",
            "May  3 10:11:12 node7 topo[4411]: ",
            "node7: ",
            "0: ",
            "  7: ",
        ] {
            let body: String = plain[..2].iter().map(|l| format!("{prefix}{l}\n")).collect();
            assert!(parts(&body).is_empty(), "two lines are no log: {prefix}");
            let body: String = body + prefix + "  0\n";
            assert_eq!(lines(&body)[..2], plain[..2], "{prefix}");
        }
        let table =
            ["P2P=Enabled Latency Matrix (us)", "   GPU     0      1", "     0   1.00   2.00", "     1   3.00   1.00"];
        let numbered: String = (8..).zip(table).map(|(n, l)| format!("{n:3} {l}\n")).collect();
        assert_eq!(lines(&numbered), table.map(|l| format!(" {l}")));
        let quoted: String = plain.iter().map(|l| format!("> {l}\n")).collect();
        assert_eq!(lines(&quoted)[..2], plain[..2]);
        let comment = "# \tGPU0\tCPU Affinity\n# GPU0\t X \t0-3\n#\n";
        assert_eq!(lines(comment), &plain[..2]);
    }

    #[test]
    fn headings_part_the_output_of_hosts() {
        let text = Text::new("t", b"--- n1 ---\nGPU0 a\n--- n2 ---\nGPU0 b\n");
        let all = streams(&text, &HostHeadings::of(&text)).unwrap();
        let read: Vec<_> = all.iter().map(|s| (s.host.as_deref(), s.text.line(0), s.text.numbers(0, 0).0)).collect();
        assert_eq!(read, [(Some("n1"), "GPU0 a", 2), (Some("n2"), "GPU0 b", 4)]);
        let prose = Text::new("t", b"--- n1 ---\nwords\n--- n2 ---\nwords\n");
        assert!(streams(&prose, &HostHeadings::of(&prose)).is_none());
    }

    #[test]
    fn hosts_come_apart_and_keep_their_lines() {
        let all = parts("b: GPU0\na: GPU0\nb: 2\na: 2\nfree\nb: 3\na: 3\n");
        let numbers = |k: usize| all[k].1.iter().map(|(n, _)| *n).collect::<Vec<_>>();
        assert_eq!((all[0].0.as_str(), numbers(0)), ("t [a]", vec![2, 4, 7]));
        assert_eq!((all[1].0.as_str(), numbers(1)), ("t [b]", vec![1, 3, 6]));
        assert_eq!((all[2].0.as_str(), all[2].1.clone()), ("t", vec![(5, "free".to_owned())]));
    }

    #[test]
    fn what_is_no_prefix() {
        for body in [
            "note: one\nnote: two\nnote: three\n",
            "# nThread 1 nGpus 8\n# Using devices\n#  Rank 0 GPU0\n",
            "#  Rank  0 device 0\n#  Rank  1 device 1\n#  size  count  time  algbw  busbw\n  8  2  5  1  1\n",
            "## GPU0\n\ntext\n\n## GPU0\n\n## GPU0\n",
            "node   0   1\n  0:  10  20\n  1:  20  10\n",
            "> Peer access from A (GPU0) -> B (GPU1) : Yes\n> Peer access from A\n> Peer access from A\n",
            "GPU0: 1\nGPU0: GPU0\nGPU0: 3\n",
            "temp1: +40\ntemp1: +41\ntemp1: +42\n",
            "processor\t: 0\nprocessor\t: 1\nprocessor\t: 2\n",
            "P2P=Enabled\n 0 1 2\n 1 2 3\n 2 3 4\n 3 4 5\n 4 5 6\n",
        ] {
            assert!(parts(body).is_empty(), "{body}");
        }
    }
}
