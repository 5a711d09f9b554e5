//! Targets whose texts are redacted before they are read.

use std::ffi::{OsStr, OsString};
use std::io::{self, Read};
use std::path::Path;

use peerlane::catalogue;
use peerlane::evidence::{self, Files, Item};
use peerlane::input_file::What;
use peerlane::nodes::NodesRun;
use peerlane::run::MAX_RUN_BYTES;

use super::nodes::{self, Record};
use super::{Source, example, is_nodes_run, read_document, system_file, what};
use crate::live;
use crate::redact::Redactor;

/// What a target holds, unread.
enum Raw {
    /// A system of the catalogue, which is public.
    Public(Box<Source>),
    /// A system file.
    System(String),
    /// A record between nodes.
    Nodes(Box<NodesRun>),
    /// A file of text or JSON.
    Text(String),
    /// An archive or a folder.
    Files(Files),
    /// This machine.
    Live(Box<live::Look>),
}

/// Each target, by the name that may be shown. All are learned from before the first is read, so that a name that one
/// source identifies is replaced in all.
pub(super) fn read(targets: &[OsString]) -> Vec<(String, Result<Source, String>)> {
    let mut redactor = Redactor::default();
    let raw: Vec<(&OsString, Result<Raw, String>)> = targets.iter().map(|target| (target, open(target))).collect();
    for (_, source) in &raw {
        match source {
            Ok(Raw::System(text) | Raw::Text(text)) => redactor.learn(text),
            Ok(Raw::Nodes(run)) => nodes::learn(&mut redactor, run),
            Ok(Raw::Files(files)) => redactor.learn_files(files),
            Ok(Raw::Live(look)) => look.learn(&mut redactor),
            Ok(Raw::Public(_)) | Err(_) => {}
        }
    }
    raw.into_iter().map(|(target, source)| redacted(target, source, &mut redactor)).collect()
}

fn redacted(target: &OsStr, source: Result<Raw, String>, redactor: &mut Redactor) -> (String, Result<Source, String>) {
    let path = target.to_string_lossy().into_owned();
    let name = redactor.source(&path);
    match source {
        Ok(Raw::Public(source)) => (path, Ok(*source)),
        Ok(Raw::Live(look)) => (path, Ok(Source::Text(look.redacted(redactor).found))),
        Ok(Raw::System(text)) => {
            let text = redactor.text(&text);
            let read = catalogue::read_design(&text, &name).map_err(|e| e.to_string());
            (name, read.map(|machine| Source::Case(Box::new(machine.into()))))
        }
        Ok(Raw::Nodes(mut run)) => {
            nodes::hide(redactor, &mut run);
            let read = nodes::nodes_of(&run, &name);
            (name, read)
        }
        Ok(Raw::Text(text)) => {
            let read = read_document(&name, redactor.text(&text).as_bytes());
            (name, read)
        }
        Ok(Raw::Files(files)) => {
            let found = evidence::read_files(&name, &redactor.files(&files));
            (name, Ok(Source::Text(found)))
        }
        // messages are for whoever gave the name
        Err(problem) => (path, Err(problem)),
    }
}

fn open(target: &OsStr) -> Result<Raw, String> {
    let name = &*target.to_string_lossy();
    if name == "live" {
        return live::look().map(|look| Raw::Live(Box::new(look)));
    }
    if name == "-" {
        let mut bytes = Vec::new();
        io::stdin().lock().take(MAX_RUN_BYTES as u64 + 1).read_to_end(&mut bytes).map_err(|e| format!("-: {e}"))?;
        return evidence::unpack("-", bytes).map(of_files).map_err(|e| e.to_string());
    }
    if let Some(system) = catalogue::system(name) {
        return system.map(|m| Raw::Public(Box::new(Source::Case(Box::new(m.into()))))).map_err(|e| e.to_string());
    }
    if name == example::NAME {
        return example::read().map(|found| Raw::Public(Box::new(Source::Text(found))));
    }
    let path = Path::new(target);
    let what = what(path, name)?;
    if path.extension().is_some_and(|e| e.eq_ignore_ascii_case("toml")) && what == What::File {
        return system_file(path, name).map(Raw::System);
    }
    if is_nodes_run(path) {
        return Record::of(path).map(|record| Raw::Nodes(Box::new(record.run)));
    }
    let files = evidence::collect(path).map_err(|e| e.to_string())?;
    Ok(if what == What::Folder { Raw::Files(files) } else { of_files(files) })
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
