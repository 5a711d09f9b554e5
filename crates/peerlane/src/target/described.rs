//! Systems, clusters and records between nodes, from the files that hold them.

use std::ffi::OsStr;
use std::path::Path;

use peerlane_design::builder::named;
use peerlane_design::cluster::{self, Cluster};
use peerlane_design::measured_cluster;
use peerlane_machine::machine::Machine;
use peerlane_machine::names::closest;
use peerlane_machine::one_line::shown;
use peerlane_machine::units::Bytes;
use peerlane_measure::nodes::NodesRun;
use peerlane_read::input_file::{self, Kind};
use peerlane_read::{catalogue, evidence};

use super::{OpenError, TargetKind};

/// The text of a system or cluster file.
///
/// # Errors
/// Where it cannot be read, or is no text.
pub fn design(path: &Path) -> Result<String, OpenError> {
    let bytes = input_file::read(path, Kind::Design)?;
    let text = evidence::decode(&bytes);
    if text.contains(['\0', char::REPLACEMENT_CHARACTER]) {
        return Err(OpenError::new(format!("{}: not a system file: not UTF-8 text", shown(path))));
    }
    Ok(text.into_owned())
}

/// The cluster that a TARGET describes: one of the catalogue, that of a file, or one as it was measured; `None` where it is
/// another TARGET, or none.
pub fn cluster(target: &OsStr) -> Option<Result<Cluster, OpenError>> {
    let name = &*target.to_string_lossy();
    let refuse = |why: String| OpenError::new(why);
    match TargetKind::of(target).ok()? {
        TargetKind::Cluster => Some(cluster::embedded(name)?.map_err(|e| refuse(e.to_string()))),
        TargetKind::ClusterFile => Some(cluster_file(Path::new(target)).map(|(cluster, ..)| cluster)),
        TargetKind::NodesRun => Some(nodes_run(Path::new(target)).and_then(|(run, _)| {
            measured_cluster::cluster(&run).map_err(|e| refuse(format!("{}: {e}", shown(target))))
        })),
        _ => None,
    }
}

/// The cluster of a file, with the file's text, and that of the system file of its nodes if it names one.
///
/// # Errors
/// Where either cannot be read.
pub fn cluster_file(path: &Path) -> Result<(Cluster, String, Option<String>), OpenError> {
    let text = design(path)?;
    let next_to_it = std::cell::RefCell::new(None);
    let node = |name: &str| -> Option<Machine> {
        if let Some(found) = named(name) {
            return found.ok();
        }
        let text = design(&path.parent().unwrap_or(Path::new("")).join(name)).ok()?;
        let machine = catalogue::read_system(&text, name).ok();
        next_to_it.replace(Some(text));
        machine
    };
    let cluster = cluster::read_cluster(&text, &path.to_string_lossy(), node);
    Ok((cluster.map_err(|e| OpenError::new(e.to_string()))?, text, next_to_it.into_inner()))
}

/// A record between nodes, and how many lines of it are cut or unreadable.
///
/// # Errors
/// Where it is none, or cannot be read.
pub fn nodes_run(path: &Path) -> Result<(NodesRun, usize), OpenError> {
    let refuse = |why: &str| OpenError::new(format!("{}: {why}", shown(path)));
    if TargetKind::of(path.as_os_str())? != TargetKind::NodesRun {
        return Err(refuse("no record between nodes, as `peerlane measure --nodes -o FILE` writes it"));
    }
    let bytes = input_file::read(path, Kind::NodesRun)?;
    NodesRun::read(&String::from_utf8_lossy(&bytes)).map_err(|e| refuse(&e.to_string()))
}

/// The message for an unknown name, with similar names.
pub fn unknown(name: &str, what: &str) -> String {
    if let Some(Ok(cluster)) = cluster::embedded(name) {
        return format!("{name} is a cluster: use 'simulate' or 'sweep', or its node {}", cluster.node.name);
    }
    if name.contains(['/', '\\']) || Path::new(name).extension().is_some() {
        return format!("no such file: '{name}'");
    }
    if name.split(',').all(|word| word.parse::<Bytes>().is_ok()) {
        return format!("no such system or file: '{name}'; if it is meant as sizes, write --sizes={name}");
    }
    let near = closest(name, catalogue::system_names());
    match near.split_last() {
        None => format!("{what}: '{name}' ('peerlane systems' lists the catalogue)"),
        Some((last, [])) => format!("{what}: '{name}'; did you mean {last}?"),
        Some((last, rest)) => format!("{what}: '{name}'; did you mean {} or {last}?", rest.join(", ")),
    }
}
