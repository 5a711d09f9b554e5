//! Records between nodes as TARGETs, whole.

use std::ffi::OsString;
use std::path::Path;

use peerlane::nodes::NodesRun;
use peerlane::one_line::shown;
use peerlane::site::Site;
use peerlane::target::{TargetKind, nodes_run};

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
        TargetKind::NodesRun.is(path).then(|| Record::read(Path::new(path)))
    }

    /// The records that the TARGETs are; `None` where none is one.
    pub(crate) fn all(targets: &[OsString]) -> Option<Result<Vec<Self>, Failure>> {
        let is = targets.iter().any(|target| TargetKind::NodesRun.is(target));
        is.then(|| targets.iter().map(|target| Record::read(Path::new(target))).collect())
    }

    pub(crate) fn read(path: &Path) -> Result<Self, Failure> {
        let file = shown(path);
        let (run, unreadable) = nodes_run(path)?;
        if unreadable > 0 {
            crate::console::say(&format!("{file}: left out {unreadable} lines that are cut, changed or unreadable"));
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
