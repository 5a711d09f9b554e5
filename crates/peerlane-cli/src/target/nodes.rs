//! Records between nodes as TARGETs: whole, or as the machines of their nodes.

use std::ffi::OsString;
use std::fs;
use std::path::Path;

use peerlane::case::Case;
use peerlane::measured_cluster::machines;
use peerlane::nodes::{MAX_NODES_BYTES, NodesRun};
use peerlane::one_line::shown;
use peerlane::site::Site;

use super::{Source, is_nodes_run};
use crate::Failure;
use crate::redact::Redactor;

/// A record, and the name of its file.
pub(crate) struct Record {
    pub(crate) file: String,
    pub(crate) run: NodesRun,
}

impl Record {
    /// The record that the only TARGET is; `None` where it is none.
    pub(crate) fn only(targets: &[OsString]) -> Option<Result<Self, Failure>> {
        let [path] = targets else { return None };
        is_nodes_run(Path::new(path)).then(|| Record::read(Path::new(path)))
    }

    /// The records that the TARGETs are; `None` where none is one.
    pub(crate) fn all(targets: &[OsString]) -> Option<Result<Vec<Self>, Failure>> {
        let is = targets.iter().any(|target| is_nodes_run(Path::new(target)));
        is.then(|| targets.iter().map(|target| Record::read(Path::new(target))).collect())
    }

    pub(crate) fn read(path: &Path) -> Result<Self, Failure> {
        Record::of(path).map_err(Failure::new)
    }

    /// The same, with the reason in words.
    pub(super) fn of(path: &Path) -> Result<Self, String> {
        let file = shown(path);
        let refuse = |why: String| format!("{file}: {why}");
        if !is_nodes_run(path) {
            return Err(refuse("no record between nodes, as `peerlane measure --nodes -o FILE` writes it".to_owned()));
        }
        let size = fs::metadata(path).map_or(0, |of| of.len());
        if size > MAX_NODES_BYTES as u64 {
            return Err(refuse(format!("larger than {} MiB", MAX_NODES_BYTES >> 20)));
        }
        let bytes = fs::read(path).map_err(|e| refuse(e.to_string()))?;
        let (run, unreadable) = NodesRun::read(&String::from_utf8_lossy(&bytes)).map_err(|e| refuse(e.to_string()))?;
        if unreadable > 0 {
            crate::console::say(&format!("{file}: left out {unreadable} lines that are cut or unreadable"));
        }
        Ok(Record { file, run })
    }
}

/// Replaces what identifies, alike in all of them.
pub(crate) fn redacted(records: &mut [Record]) {
    let mut redactor = Redactor::default();
    for record in &*records {
        learn(&mut redactor, &record.run);
    }
    for Record { file, run } in records {
        *file = redactor.source(file);
        hide(&mut redactor, run);
    }
}

/// Replaces what a redactor knows.
pub(crate) fn hide(redactor: &mut Redactor, run: &mut NodesRun) {
    // what was simulated is public, and must stay readable
    let simulated = (run.cluster.take(), run.system.take());
    let of_nodes: Vec<Option<String>> = run.nodes.iter_mut().map(|node| node.system.take()).collect();
    redactor.serialised(run);
    (run.cluster, run.system) = simulated;
    run.nodes.iter_mut().zip(of_nodes).for_each(|(node, system)| node.system = system);
}

/// The machines of its nodes: commands that are about machines are about these.
pub(super) fn nodes_of(run: &NodesRun, name: &str) -> Result<Source, String> {
    let found = machines(run).map_err(|e| format!("{name}: {e}"))?;
    if found.is_empty() {
        return Err(format!(
            "{name} is a record between nodes, none of which described itself; this command is about machines, and 'check', \
             'report' and 'compare' read the record"
        ));
    }
    Ok(Source::Cases(found.into_iter().map(Case::from).collect()))
}

/// Shows a record to a redactor: its nodes' names may stand anywhere.
pub(crate) fn learn(redactor: &mut Redactor, run: &NodesRun) {
    run.nodes.iter().for_each(|node| redactor.learn_host(&node.host));
    if let Ok(text) = serde_json::to_string(&run.nodes) {
        redactor.learn(&text);
    }
}

/// The hosts of a record, and the network between them as far as it is known.
pub(crate) fn site_of(run: &NodesRun) -> Result<Site, Failure> {
    Site::of(run).map_err(|e| Failure::new(format!("{}: {e}", run.name)))
}
