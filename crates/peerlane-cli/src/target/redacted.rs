//! Targets whose texts are redacted before they are read.

use std::ffi::{OsStr, OsString};
use std::io::{self, Read};
use std::path::Path;

use peerlane::evidence::{self, Files, Item};
use peerlane::nodes::NodesRun;
use peerlane::run::MAX_RUN_BYTES;
use peerlane::target::{
    OpenError, Opened, Opener, Source, TargetKind, design, folder_records, nodes_run, too_many_records,
};

use super::nodes;
use crate::live;
use crate::redact::Redactor;

/// What a target holds, unread.
enum Raw {
    /// What is public, or cannot be read: the library opens it.
    Public,
    /// A system file.
    System(String),
    /// A record between nodes, and how many of its lines cannot be read.
    Nodes(Box<NodesRun>, usize),
    /// A file of text or JSON.
    Text(String),
    /// An archive or a folder.
    Files(Files),
    /// This machine.
    Live(Box<live::Look>),
}

/// Opens each target by the name that may be shown. All are learned from before the first is read, so that a name that one
/// source identifies is replaced in all.
pub(super) fn open(opener: &Opener, targets: &[OsString]) -> Result<Opened, OpenError> {
    if targets.iter().filter(|t| *t == "-").count() > 1 {
        return opener.open(targets);
    }
    let mut redactor = Redactor::default();
    let raw: Vec<(OsString, bool, Result<Raw, OpenError>)> = targets.iter().flat_map(all_of).collect();
    for (_, _, source) in &raw {
        match source {
            Ok(Raw::System(text) | Raw::Text(text)) => redactor.learn(text),
            Ok(Raw::Nodes(run, _)) => nodes::learn(&mut redactor, run),
            Ok(Raw::Files(files)) => redactor.learn_files(files),
            Ok(Raw::Live(look)) => look.learn(&mut redactor),
            Ok(Raw::Public) | Err(_) => {}
        }
    }
    let done = raw.into_iter().map(|(target, beside, source)| {
        let (name, source) = redacted(opener, &target, source, &mut redactor);
        (name, beside, source)
    });
    let said = done.filter(|(_, beside, source)| !(*beside && source.as_ref().is_ok_and(Source::is_empty)));
    opener.join(said.map(|(name, _, source)| (name, source)))
}

/// A target, and the records in it where it is a folder; whether its own texts stand beside these.
fn all_of(target: &OsString) -> Vec<(OsString, bool, Result<Raw, OpenError>)> {
    let (records, all) = folder_records(target);
    let mut sources = vec![(target.clone(), !records.is_empty(), raw(target))];
    if all > records.len() {
        let name = target.to_string_lossy();
        sources.push((target.clone(), false, Err(too_many_records(&name, all))));
    }
    sources.extend(records.into_iter().map(|path| (path.clone().into_os_string(), false, raw(path.as_os_str()))));
    sources
}

fn redacted(
    opener: &Opener,
    target: &OsStr,
    source: Result<Raw, OpenError>,
    redactor: &mut Redactor,
) -> (String, Result<Source, OpenError>) {
    let path = target.to_string_lossy().into_owned();
    let name = redactor.source(&path);
    let source = match source {
        Ok(Raw::Public) => return (path, opener.read(target)),
        Ok(Raw::Live(look)) => return (path, Ok(Source::Text(Box::new(look.redacted(redactor).found)))),
        Ok(Raw::System(text)) => Source::of_design(&name, &redactor.text(&text)),
        Ok(Raw::Nodes(mut run, unreadable)) => {
            nodes::hide(redactor, &mut run);
            Ok(Source::Nodes(run, unreadable))
        }
        Ok(Raw::Text(text)) => Source::of_document(&name, redactor.text(&text).as_bytes()),
        Ok(Raw::Files(files)) => Ok(Source::Text(Box::new(evidence::read_files(&name, &redactor.files(&files))))),
        // messages are for whoever gave the name
        Err(problem) => return (path, Err(problem)),
    };
    (name, source)
}

fn raw(target: &OsStr) -> Result<Raw, OpenError> {
    let path = Path::new(target);
    Ok(match TargetKind::of(target) {
        Ok(TargetKind::Live) => Raw::Live(Box::new(live::look()?)),
        Ok(TargetKind::Stdin) => {
            let mut bytes = Vec::new();
            let read = io::stdin().lock().take(MAX_RUN_BYTES as u64 + 1).read_to_end(&mut bytes);
            read.map_err(|e| format!("-: {e}"))?;
            of_files(evidence::unpack("-", bytes)?)
        }
        Ok(TargetKind::SystemFile | TargetKind::ClusterFile) => Raw::System(design(path)?),
        Ok(TargetKind::NodesRun) => {
            let (run, unreadable) = nodes_run(path)?;
            Raw::Nodes(Box::new(run), unreadable)
        }
        Ok(TargetKind::Folder) => Raw::Files(evidence::collect(path)?),
        Ok(TargetKind::Run | TargetKind::Inference | TargetKind::Text | TargetKind::Pipe) => {
            of_files(evidence::collect(path)?)
        }
        Ok(
            TargetKind::System
            | TargetKind::PartsList
            | TargetKind::Cluster
            | TargetKind::Example
            | TargetKind::Traffic,
        )
        | Err(_) => Raw::Public,
    })
}

/// A single text, or an archive.
fn of_files(files: Files) -> Raw {
    let text = match files.iter().next() {
        Some((path, Item::File(bytes))) if files.len() == 1 && !path.contains('/') => {
            Some(evidence::decode(bytes).into_owned())
        }
        _ => None,
    };
    text.map_or(Raw::Files(files), Raw::Text)
}
