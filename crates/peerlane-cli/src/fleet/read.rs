//! From folders, files, archives and streams to the numbers of records, read in threads. Of a file only the numbers stay.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::io::{self, BufReader, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::sync::{Mutex, PoisonError};
use std::thread;

use peerlane::case::Case;
use peerlane::evidence::{self, Files, Item, Packing, Unpacked};
use peerlane::fleet::{Dictionary, Node, Unread};
use peerlane::input_file::{self, Entry, Folder, Kind, Refused, What};
use peerlane::nodes::{NodesRun, looks_like_nodes_run};
use peerlane::one_line::shown;
use peerlane::run::{Partial, looks_like_run};
use peerlane::target::TargetKind;
use serde::de::IgnoredAny;

use super::gathered::{MANIFEST, gathered, is_manifest, machines, node_of};
use super::is_run;
use super::labelled::{begins, split};
use super::one::{NOTHING, One};
use super::texts::{is_loose, joined, texts_of};
use crate::redact::Redactor;
use crate::target::nodes::{hide, learn};

/// The most that an archive unpacks to, in bytes.
const MAX_UNPACKED: usize = 512 << 20;

/// Texts from archives and streams that are kept for the rules, in bytes.
const MOST_HELD: usize = 384 << 20;

/// How much of a file is read to see whether it is the list of a gathered folder, in bytes.
const HEAD: u64 = 256;

/// Levels of folders below a target.
const MOST_LEVELS: usize = 12;

/// Endings of files in folders that may hold records.
const ENDINGS: [&str; 16] = [
    "json", "jsonl", "partial", "tar", "zst", "gz", "tgz", "bz2", "tbz", "tbz2", "xz", "txz", "zip", "out", "txt",
    "log",
];

/// The records of some targets.
#[derive(Default)]
pub(super) struct Found {
    /// Their numbers, in the order of their names.
    pub(super) nodes: Vec<Node>,
    /// What could not be read.
    pub(super) unread: Vec<Unread>,
    /// Files in folders that hold no record.
    pub(super) others: usize,
    /// Records from streams and archives that are too many for the rules to look at.
    pub(super) unheld: usize,
    /// Where the texts of records are, by name.
    sources: BTreeMap<String, Source>,
    /// How many bytes are held.
    held: usize,
}

enum Source {
    File(PathBuf),
    Held(String),
    /// The machine of what was gathered, and which of several.
    Gathered(PathBuf, usize),
    /// The same, held.
    HeldFiles(Files, usize),
}

/// What a worker does.
enum Job {
    /// Reads a file; `true` where it was named, and not found in a folder.
    File(PathBuf, bool),
    /// Reads a folder that `peerlane gather` filled.
    Gathered(PathBuf),
    /// Reads a record of a stream.
    Text(One),
}

impl Found {
    /// A machine, read once more.
    pub(super) fn again(&self, node: &Node) -> Option<Case> {
        let read = |text: &str| Case::of_run(Partial::read(text).ok()?.run, &node.file).ok();
        let nth = |files: &Files, at: usize| machines(&node.file, files).into_iter().nth(at).map(Case::from);
        match self.sources.get(&node.file)? {
            Source::Held(text) => read(text),
            Source::File(path) => read(&utf8(bytes_of(path).ok()?).ok()?),
            Source::Gathered(path, at) => nth(&gathered(path).ok()?, *at),
            Source::HeldFiles(files, at) => nth(files, *at),
        }
    }

    /// The machines of what was gathered.
    fn capture(&mut self, name: &str, path: Option<&Path>, files: &Files, dictionary: &Dictionary) {
        let all = machines(name, files);
        if all.is_empty() {
            let why = "it was gathered on a machine without GPUs, or without their driver".to_owned();
            return self.unread.push(Unread { name: name.to_owned(), why });
        }
        let several = all.len() > 1;
        for (at, machine) in all.iter().enumerate() {
            let file = if at == 0 { name.to_owned() } else { format!("{name} #{}", at + 1) };
            let node = node_of(machine, files, &file, several, dictionary);
            let source = match path {
                Some(path) => Source::Gathered(path.to_owned(), at),
                None => Source::HeldFiles(files.clone(), at),
            };
            self.sources.insert(file, source);
            self.nodes.push(node);
        }
    }

    /// The nodes of a record between nodes.
    fn add_nodes(&mut self, name: &str, nodes: Result<Vec<Node>, String>) {
        match nodes {
            Ok(nodes) => self.nodes.extend(nodes),
            Err(why) => self.unread.push(Unread { name: name.to_owned(), why }),
        }
    }

    fn add(&mut self, one: One, node: Result<Node, String>) {
        let mut name = one.name;
        let mut node = match node {
            Ok(node) => node,
            Err(why) => return self.unread.push(Unread { name, why }),
        };
        let mut again = 1;
        while self.sources.contains_key(&name) {
            again += 1;
            name = format!("{} #{again}", name.split(" #").next().unwrap_or_default());
        }
        match (one.path, one.text) {
            (Some(path), _) => drop(self.sources.insert(name.clone(), Source::File(path))),
            (None, Ok(text)) if self.held + text.len() <= MOST_HELD => {
                self.held += text.len();
                self.sources.insert(name.clone(), Source::Held(text));
            }
            _ => self.unheld += 1,
        }
        node.file = name;
        self.nodes.push(node);
    }
}

/// Reads all records of the targets.
pub(super) fn read(targets: &[OsString], dictionary: &Dictionary, redact: bool) -> Found {
    if redact {
        return redacted(targets, dictionary);
    }
    let found = Mutex::new(Found::default());
    let locked = || found.lock().unwrap_or_else(PoisonError::into_inner);
    let loose = Mutex::new(Vec::new());
    let pass = |one: One| {
        if is_loose(&one) {
            return loose.lock().unwrap_or_else(PoisonError::into_inner).push(one);
        }
        if let Some(files) = &one.files {
            return locked().capture(&one.name, one.path.as_deref(), files, dictionary);
        }
        if let Some(text) = one.text.as_ref().ok().filter(|text| looks_like_nodes_run(text)) {
            let nodes = between(text).and_then(|run| nodes_of(&run, &one.name, dictionary));
            return locked().add_nodes(&one.name, nodes);
        }
        let node = one.text.as_ref().map_err(Clone::clone).and_then(|text| node(&one, text, dictionary));
        let one = if one.path.is_some() { One { text: Ok(String::new()), ..one } } else { one };
        locked().add(one, node);
    };
    let others = each(targets, &pass);
    joined(std::mem::take(&mut *loose.lock().unwrap_or_else(PoisonError::into_inner))).into_iter().for_each(pass);
    let names: Vec<String> = locked().nodes.iter().map(|node| node.file.clone()).collect();
    texts_of(targets, &names).into_iter().for_each(pass);
    let mut found = found.into_inner().unwrap_or_else(PoisonError::into_inner);
    found.others = others;
    found.nodes.sort_by(|a, b| a.file.cmp(&b.file));
    found
}

fn node(one: &One, text: &str, dictionary: &Dictionary) -> Result<Node, String> {
    let node = Node::read(text, &one.name, dictionary).map_err(|e| e.to_string())?;
    Ok(match &one.label {
        Some(label) => node.labelled(label),
        None => node,
    })
}

/// A record between nodes; what is cut or unreadable of it is as if it had not been measured.
fn between(text: &str) -> Result<NodesRun, String> {
    NodesRun::read(text).map(|(run, _)| run).map_err(|e| e.to_string())
}

fn nodes_of(run: &NodesRun, file: &str, dictionary: &Dictionary) -> Result<Vec<Node>, String> {
    Node::between(run, file, dictionary).map_err(|e| e.to_string())
}

/// The same with what identifies machines replaced, in all texts alike: they are held until the last is known.
fn redacted(targets: &[OsString], dictionary: &Dictionary) -> Found {
    let texts: Mutex<Vec<One>> = Mutex::default();
    let keep = |one| texts.lock().unwrap_or_else(PoisonError::into_inner).push(one);
    let others = each(targets, &keep);
    let locked = || texts.lock().unwrap_or_else(PoisonError::into_inner);
    let names: Vec<String> = locked().iter().filter(|one| one.text.is_ok()).map(|one| one.name.clone()).collect();
    texts_of(targets, &names).into_iter().for_each(keep);
    let texts = texts.into_inner().unwrap_or_else(PoisonError::into_inner);
    let (loose, mut texts): (Vec<One>, Vec<One>) = texts.into_iter().partition(is_loose);
    texts.extend(joined(loose));
    texts.sort_by(|a, b| a.name.cmp(&b.name));
    let mut redactor = Redactor::default();
    let mut runs: BTreeMap<usize, NodesRun> = BTreeMap::new();
    for (at, text) in texts.iter().enumerate().filter_map(|(at, one)| Some((at, one.text.as_ref().ok()?))) {
        match looks_like_nodes_run(text).then(|| between(text)) {
            Some(Ok(run)) => {
                learn(&mut redactor, &run);
                runs.insert(at, run);
            }
            _ => redactor.learn(text),
        }
    }
    texts.iter().filter_map(|one| one.files.as_ref()).for_each(|files| redactor.learn_files(files));
    let mut found = Found { others, ..Found::default() };
    for (at, one) in texts.into_iter().enumerate() {
        let parts: Vec<String> = one.name.split('/').map(|part| redactor.source(part)).collect();
        if let Some(files) = &one.files {
            found.capture(&parts.join("/"), None, &redactor.files(files), dictionary);
            continue;
        }
        if let Some(mut run) = runs.remove(&at) {
            hide(&mut redactor, &mut run);
            let file = parts.join("/");
            // messages may quote what they are about
            let nodes = nodes_of(&run, &file, dictionary).map_err(|_| "its cluster cannot be read".to_owned());
            found.add_nodes(&file, nodes);
            continue;
        }
        let label = one.label.map(|label| redactor.source(&label));
        let text = one.text.map(|text| redactor.text(&text));
        let one = One { label, ..One::new(&parts.join("/"), None, text) };
        // messages may quote what they are about
        let read = one.text.as_ref().ok().and_then(|text| node(&one, text, dictionary).ok());
        let node = read.ok_or_else(|| "it is no record of this version".to_owned());
        found.add(one, node);
    }
    found
}

/// Passes on each record of the targets, from threads; returns how many files of folders hold none.
fn each(targets: &[OsString], pass: &(dyn Fn(One) + Sync)) -> usize {
    let threads = thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let others = Mutex::new(0);
    let (send, receive) = sync_channel::<Job>(4 * threads);
    let receive = Mutex::new(receive);
    let work = || {
        loop {
            let next = receive.lock().unwrap_or_else(PoisonError::into_inner).recv();
            match next {
                Ok(Job::Text(one)) => pass(one),
                Ok(Job::Gathered(folder)) => pass(One::gathered(&folder)),
                Ok(Job::File(path, named)) => {
                    if !file(&path, named, pass) {
                        *others.lock().unwrap_or_else(PoisonError::into_inner) += 1;
                    }
                }
                Err(_) => break,
            }
        }
    };
    thread::scope(|scope| {
        (0..threads).for_each(|_| drop(scope.spawn(work)));
        let refused = |name: String, why: String| One::new(&name, None, Err(why));
        let mut seen = BTreeSet::new();
        for target in targets.iter().filter(|target| seen.insert((*target).clone())) {
            let name = shown(target);
            if target == "-" {
                let read = split(BufReader::new(io::stdin().lock()), &mut |(label, text)| {
                    let name = label.as_ref().map_or_else(|| "-".to_owned(), |label| format!("-:{label}"));
                    // nobody takes it only where all threads have died
                    let _ = send.send(Job::Text(One { label, ..One::new(&name, None, text) }));
                });
                read.unwrap_or_else(|error| pass(refused(name, error.to_string())));
                continue;
            }
            let path = Path::new(target);
            match input_file::what(path) {
                Ok(What::Folder) => match Folder::of(path) {
                    Ok(folder) => {
                        walk(&folder, path, 0, &send, &|Refused { file, cause }| pass(refused(file, cause.to_string())))
                    }
                    Err(error) => pass(refused(name, error.cause.to_string())),
                },
                Ok(_) => drop(send.send(Job::File(path.to_owned(), true))),
                Err(error) => pass(refused(name, error.cause.to_string())),
            }
        }
        drop(send);
    });
    others.into_inner().unwrap_or_else(PoisonError::into_inner)
}

/// Sends the files below a folder that may hold records.
fn walk(folder: &Folder, path: &Path, level: usize, send: &SyncSender<Job>, refuse: &dyn Fn(Refused)) {
    if level == MOST_LEVELS {
        let cause = io::Error::other(format!("more than {MOST_LEVELS} folders deep; not read"));
        return refuse(Refused { file: shown(path), cause });
    }
    let entries = match folder.entries(path) {
        Ok(entries) => entries,
        Err(error) => return refuse(error),
    };
    let is_gathered = folder.head(&path.join(MANIFEST), HEAD).is_ok_and(|bytes| is_manifest(&bytes));
    if is_gathered {
        let _ = send.send(Job::Gathered(path.to_owned()));
    }
    // files that are being written begin with a dot
    for Entry { path, is_link, what } in entries.into_iter().filter(|entry| !entry.is_hidden()) {
        match what {
            Err(error) => refuse(error),
            // runs that were recorded into the same folder
            Ok(_) if is_gathered && !is_run(&path) => {}
            // what a link within the folder leads to has a path of its own
            Ok(What::Folder) if is_link => {}
            Ok(What::Folder) => walk(folder, &path, level + 1, send, refuse),
            Ok(_) if path.extension().is_some_and(is_candidate) => drop(send.send(Job::File(path, false))),
            Ok(_) => {}
        }
    }
}

fn is_candidate(extension: &OsStr) -> bool {
    ENDINGS.iter().any(|ending| extension.eq_ignore_ascii_case(ending))
}

fn bytes_of(path: &Path) -> Result<Vec<u8>, Refused> {
    match input_file::read(path, Kind::Source) {
        // of many nodes a record is longer
        Err(error) if is_too_large(&error) && TargetKind::NodesRun.is(path) => input_file::read(path, Kind::NodesRun),
        read => read,
    }
}

fn is_too_large(error: &Refused) -> bool {
    error.cause.kind() == ErrorKind::FileTooLarge
}

/// Passes on the records of a file; `false` where it was found in a folder and holds none.
fn file(path: &Path, named: bool, pass: &(dyn Fn(One) + Sync)) -> bool {
    let name = shown(path);
    let error = match bytes_of(path) {
        Ok(bytes) => return content(&name, Some(path), bytes, named, pass),
        Err(error) => error,
    };
    // the output of many machines may be larger than a record
    let labelled = is_too_large(&error) && input_file::head(path, 1).is_ok_and(|head| head != *b"{");
    match input_file::open(path, Kind::Source) {
        Ok(file) if labelled => stream(&name, BufReader::new(file), pass),
        _ => pass(One::new(&name, None, Err(error.cause.to_string()))),
    }
    true
}

fn content(name: &str, path: Option<&Path>, bytes: Vec<u8>, named: bool, pass: &(dyn Fn(One) + Sync)) -> bool {
    let refuse = |why: String| pass(One::new(name, None, Err(why)));
    if bytes.is_empty() {
        refuse("it is empty".to_owned());
        return true;
    }
    if Packing::of(&bytes).is_none() {
        return text(name, path, bytes, named, pass);
    }
    let Unpacked { files, single, unread, left_out } = evidence::unpacked(bytes, MAX_UNPACKED, |_| false);
    let problems: Vec<String> = unread.into_iter().chain(left_out).collect();
    for why in problems {
        refuse(why);
    }
    let lists =
        |(inner, item): (&str, &Item)| inner == MANIFEST && matches!(item, Item::File(bytes) if is_manifest(bytes));
    if let Some(path) = path.filter(|_| files.iter().any(lists)) {
        pass(One::gathered(path));
        return true;
    }
    let mut some = single.is_some_and(|bytes| text(name, None, bytes, true, pass));
    for (inner, item) in files {
        if let Item::File(bytes) = item {
            some |= text(&format!("{name}/{inner}"), None, bytes, false, pass);
        }
    }
    if !some && named {
        match path.and_then(One::described) {
            Some(one) => pass(one),
            None => refuse(NOTHING.to_owned()),
        }
    }
    some || named
}

fn utf8(bytes: Vec<u8>) -> Result<String, String> {
    String::from_utf8(bytes).or_else(|error| {
        let bytes = error.into_bytes();
        // UTF-16 says so in its first bytes
        let wide = bytes.starts_with(&[0xff, 0xfe]) || bytes.starts_with(&[0xfe, 0xff]);
        if wide { Ok(evidence::decode(&bytes).into_owned()) } else { Err("it is not UTF-8 text".to_owned()) }
    })
}

/// The records of a text; `false` where it holds none and was not named.
fn text(name: &str, path: Option<&Path>, bytes: Vec<u8>, named: bool, pass: &(dyn Fn(One) + Sync)) -> bool {
    let one = |text| One::new(name, path, text);
    let is_json = [".json", ".partial", ".jsonl"].iter().any(|e| name.to_ascii_lowercase().ends_with(e));
    let text = match utf8(bytes) {
        Ok(text) => text,
        Err(why) if is_json || named => {
            pass(one(Err(why)));
            return true;
        }
        Err(_) => return false,
    };
    if looks_like_run(&text) && text.lines().filter(|line| begins(line)).count() < 2 {
        pass(one(Ok(text)));
        return true;
    }
    if looks_like_nodes_run(&text) {
        pass(one(Ok(text)));
        return true;
    }
    if text.contains("\"peerlane/run/") {
        stream(name, text.as_bytes(), pass);
        return true;
    }
    let why = if text.trim().is_empty() {
        "it is empty".to_owned()
    } else if let (true, Err(error)) = (is_json, serde_json::from_str::<IgnoredAny>(&text)) {
        format!("it is cut or no JSON: {error}")
    } else if named {
        // the list of a gathered folder stands for the folder
        let of = path.filter(|_| is_manifest(text.as_bytes())).and_then(Path::parent);
        let folder = of.map(|of| if of.as_os_str().is_empty() { Path::new(".") } else { of });
        let read = match folder {
            Some(folder) => One::described(folder),
            None => path.map(One::gathered),
        };
        if let Some(one) = read {
            pass(one);
            return true;
        }
        NOTHING.to_owned()
    } else {
        return false;
    };
    pass(one(Err(why)));
    true
}

fn stream(name: &str, lines: impl io::BufRead, pass: &(dyn Fn(One) + Sync)) {
    let read = split(lines, &mut |(label, text)| {
        let name = label.as_ref().map_or_else(|| name.to_owned(), |label| format!("{name}:{label}"));
        pass(One { label, ..One::new(&name, None, text) });
    });
    if let Err(error) = read {
        pass(One::new(name, None, Err(error.to_string())));
    }
}
