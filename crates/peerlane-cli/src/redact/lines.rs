//! Texts line by line: what a line means may depend on those before it.

use std::sync::LazyLock;

use regex::{Captures, Regex};

use super::allowed;
use super::blocks::Blocks;
use super::pseudonyms::{Kind, Pseudonyms};
use super::rules;

/// Ends of keys whose values identify, in lower case.
const KEYS: [&str; 30] = [
    "serial number",
    "serial",
    "serialnumber",
    "uuid",
    "clusteruuid",
    "pdi",
    "guid",
    "board id",
    "host id",
    "asset tag",
    "vendor specific",
    "chassis id",
    "system id",
    "machine id",
    "boot id",
    "module id",
    "slot number",
    "tray index",
    "instance id",
    "container id",
    "service tag",
    "inforom serial",
    "vendor sn",
    "sn",
    "chassis serial",
    "board serial",
    "product serial",
    "cluster name",
    "location",
    "rack",
];

/// Values that identify nothing.
const NOTHING: [&str; 8] = ["", "n/a", "none", "unknown", "not specified", "0", "0x0", "[n/a]"];

/// Fields of a device's product data that describe the product.
const PRODUCT: [&str; 2] = ["PN", "EC"];

/// What `hwloc` knows that describes the product.
const INFOS: [&str; 26] = [
    "Address",
    "Architecture",
    "Backend",
    "CPUFamilyNumber",
    "CPUModel",
    "CPUModelNumber",
    "CPUStepping",
    "CPUVendor",
    "CoProcType",
    "CUDACoresPerMP",
    "CUDAGlobalMemorySize",
    "CUDAL2CacheSize",
    "CUDAMultiProcessors",
    "CUDASharedMemorySizePerMP",
    "DMIBoardName",
    "DMIBoardVendor",
    "DMIProductName",
    "DMISysVendor",
    "GPUModel",
    "GPUVendor",
    "OSName",
    "PCIDevice",
    "PCIVendor",
    "PlatformModel",
    "PlatformName",
    "hwlocVersion",
];

struct Patterns {
    /// `key : value`
    pair: Regex,
    /// `[SN] Serial number: …`
    product: Regex,
    /// `<info name="…" value="…"/>`
    info: Regex,
    /// A process in the table of `nvidia-smi`.
    process: Regex,
    /// What `dmesg` or a log's daemon puts before a line.
    stamp: Regex,
    /// `NAME=value`
    variable: Regex,
    /// `user@host:~/place$ `
    prompt: Regex,
    /// `note = "…"` in a system file.
    prose: Regex,
    /// `notes = [`, the beginning of a list of sentences.
    sentences: Regex,
    /// A string.
    quoted: Regex,
}

static PATTERNS: LazyLock<Option<Patterns>> = LazyLock::new(|| {
    Some(Patterns {
        pair: Regex::new(r#"^([\s|"'\[#*>-]*)([A-Za-z][\w /().-]*?)(["']?\s*[:=]\s+["']?)([^"']*?)(["',;|\s]*)$"#).ok()?,
        product: Regex::new(r"^(\s*\[([A-Z][A-Z0-9])\] [^:]*: ?)(.*?)(\s*)$").ok()?,
        info: Regex::new(r#"(<info name="([^"]*)" value=")([^"]*)"#).ok()?,
        process: Regex::new(r"^(\|\s+\d+\s+(?:\S+\s+\S+\s+)?)(\d+)(\s+[CGM+]+\s+)(\S.*?)(\s+(?:\d+MiB|N/A)\s*\|)").ok()?,
        stamp: Regex::new(
            r"^(?:((?:<\d+>)?\[\s*\d+\.\d+\](?:\[\s*[TC]\d+\])?)( .*)|((?:[A-Z][a-z]{2}\s+\d+ [\d:]{8}|\d{4}-\d\d-\d\dT\S+) \S+)( (?:[\w./@-]+\[\d+\]|kernel):.*))$",
        )
        .ok()?,
        variable: Regex::new(r#"(^|[\s;"'(,])([A-Z][A-Z0-9]*_[A-Z0-9_]*|PATH|HOME|USER|LOGNAME|HOSTNAME|PWD|MAIL|SHELL|LS_COLORS)=("[^"]*"|'[^']*'|[^\s;,"')]+)"#).ok()?,
        prose: Regex::new(r#"(\b(?:note|title|source|comment|description|why)\s*=\s*)"((?:[^"\\]|\\.)*)""#).ok()?,
        sentences: Regex::new(r"^\s*(?:notes|unknown|sources|comments)\s*=\s*\[").ok()?,
        quoted: Regex::new(r#"()"((?:[^"\\]|\\.)*)""#).ok()?,
        prompt: Regex::new(r"^(\s*(?:[$#>] )?(?:\([\w.-]+\) ?)?\[?)([A-Za-z_][\w.-]*)@([A-Za-z0-9][\w.-]*)([: ])([^$#\]]*)(\]?[$#])").ok()?,
    })
});

/// A text line by line.
pub(super) fn redact(text: &str, names: &mut Pseudonyms) -> String {
    let mut done = String::with_capacity(text.len());
    let system_file = is_system_file(text);
    // within the list of processes of nvidia-smi
    let mut processes = false;
    let mut prose = false;
    let mut blocks = Blocks::default();
    let mut all = text.split_inclusive('\n').peekable();
    while let Some(whole) = all.next() {
        let line = whole.trim_end_matches(['\n', '\r']);
        let end = &whole[line.len()..];
        let below = all.peek().map_or("", |below| below.trim_end_matches(['\n', '\r']));
        processes = line.contains("Processes:") || (processes && line.starts_with(['|', '+', ' ']));
        let line = match PATTERNS.as_ref().filter(|_| system_file) {
            Some(patterns) => of_system_file(line, &mut prose, patterns, names),
            None => blocks.line(line, below, names).unwrap_or_else(|| line.to_owned()),
        };
        done.push_str(&of_line(&line, processes, names));
        done.push_str(end);
    }
    done
}

/// One line of any text.
pub(super) fn plain(line: &str, names: &mut Pseudonyms) -> String {
    of_line(line, false, names)
}

fn of_line(line: &str, processes: bool, names: &mut Pseudonyms) -> String {
    let Some(patterns) = PATTERNS.as_ref() else { return String::new() };
    let mut line = line.to_owned();
    let stamped = patterns.stamp.captures(&line);
    if let Some((stamp, rest)) = stamped.and_then(|c| c.get(1).or(c.get(3)).zip(c.get(2).or(c.get(4))))
        && !allowed::is_kernel_line(rest.as_str())
    {
        return format!("{} (removed)", rules::apply(stamp.as_str(), names));
    }
    if let Some(at) = line.find("ommand line: ").map(|at| at + "ommand line: ".len()) {
        line = format!("{}{}", &line[..at], command_line(&line[at..]));
    } else if line.contains("BOOT_IMAGE=") {
        line = command_line(&line);
    }
    if processes {
        let of = |c: &Captures<'_>, names: &mut Pseudonyms| {
            format!("{}{}{}{}{}", &c[1], names.of(Kind::Number, &c[2]), &c[3], names.of(Kind::Process, &c[4]), &c[5])
        };
        if let Some(c) = patterns.process.captures(&line) {
            let rest = line[c[0].len()..].to_owned();
            line = of(&c, names) + &rest;
        }
    }
    if let Some(c) = patterns.prompt.captures(&line) {
        let host = names.word(Kind::Host, c[3].split('.').next().unwrap_or(&c[3]));
        let user = if &c[2] == "root" { "root".to_owned() } else { names.word(Kind::User, &c[2]) };
        let rest = line[c[0].len()..].to_owned();
        // the folder in which somebody works is left out
        line = format!("{}{user}@{host}{}~{}{rest}", &c[1], &c[4], &c[6]);
    }
    if let Some(c) = patterns.product.captures(&line) {
        if !PRODUCT.contains(&&c[2]) && !c[3].is_empty() {
            line = format!("{}{}{}", &c[1], names.word(Kind::Other, &c[3]), &c[4]);
        }
    } else if let Some(c) = patterns.pair.captures(&line)
        && let Some(new) = identifying(&c[2], &c[4], names)
    {
        line = format!("{}{}{}{new}{}", &c[1], &c[2], &c[3], &c[5]);
    }
    if line.contains("<info ") {
        line = patterns
            .info
            .replace_all(&line, |c: &Captures<'_>| format!("{}{}", &c[1], info(&c[2], &c[3], names)))
            .into_owned();
    }
    if line.contains('=') {
        let variable = |c: &Captures<'_>| match allowed::is_variable(&c[2]) {
            true => c[0].to_owned(),
            false => format!("{}{}={}", &c[1], &c[2], names.of(Kind::Other, &c[3])),
        };
        line = patterns.variable.replace_all(&line, variable).into_owned();
    }
    rules::apply(&line, names)
}

/// The stand-in for the value of a key that identifies.
fn identifying(key: &str, value: &str, names: &mut Pseudonyms) -> Option<String> {
    let key = key.trim().to_lowercase();
    if NOTHING.contains(&value.trim().to_lowercase().as_str()) {
        return None;
    }
    let ends =
        |k: &str| key.strip_suffix(k).is_some_and(|before| before.is_empty() || before.ends_with([' ', '_', '-']));
    KEYS.iter().any(|k| ends(k)).then(|| {
        // what has a form keeps it
        let formed = rules::apply(value, names);
        if formed == value { names.word(Kind::Other, value) } else { formed }
    })
}

/// The value of one of hwloc's attributes: the product's, or a number.
fn info(name: &str, value: &str, names: &mut Pseudonyms) -> String {
    let number = value.len() <= 7 && value.bytes().all(|b| b.is_ascii_digit() || b == b'.');
    if INFOS.contains(&name) || number || NOTHING.contains(&value.to_lowercase().as_str()) {
        return value.to_owned();
    }
    match name {
        "HostName" => names.word(Kind::Host, value),
        "UserName" => names.word(Kind::User, value),
        _ => {
            let formed = rules::apply(value, names);
            if formed == value { names.of(Kind::Other, value) } else { formed }
        }
    }
}

/// The words of the kernel's command line that matter to paths.
pub(super) fn command_line(line: &str) -> String {
    let words: Vec<&str> = line.split_whitespace().filter(|word| allowed::is_parameter(word)).collect();
    words.join(" ")
}

/// Whether a text is a system file, whose comments and titles are written by a person.
fn is_system_file(text: &str) -> bool {
    let has = |start: &str| text.lines().any(|line| line.starts_with(start));
    has("name = ") && (has("[nodes]") || has("[topology]") || has("[[links]]"))
}

/// A line of a system file: its comments go, and what a person writes in sentences, which may say anything, is replaced
/// whole. `prose`: the line is within a list of sentences.
fn of_system_file(line: &str, prose: &mut bool, patterns: &Patterns, names: &mut Pseudonyms) -> String {
    if line.trim_start().starts_with('#') {
        return String::new();
    }
    if let Some(value) = line.strip_prefix("name = \"").and_then(|rest| rest.split('"').next()) {
        // one of the catalogue is nobody's
        return match peerlane::catalogue::system(value) {
            Some(_) => line.to_owned(),
            None => format!("name = \"{}\"", names.word(Kind::Host, value)),
        };
    }
    // a comment after a value
    let line = match line.find(" #") {
        Some(at) if line.contains('=') && line[..at].matches('"').count().is_multiple_of(2) => &line[..at],
        _ => line,
    };
    *prose |= patterns.sentences.is_match(line);
    let pattern = if *prose { &patterns.quoted } else { &patterns.prose };
    let done = pattern.replace_all(line, |c: &Captures<'_>| format!("{}\"{}\"", &c[1], names.of(Kind::Other, &c[2])));
    *prose &= !line.trim_end().ends_with(']');
    done.into_owned()
}

/// All patterns compile.
#[cfg(test)]
pub(super) fn sound() {
    assert!(PATTERNS.is_some());
}
