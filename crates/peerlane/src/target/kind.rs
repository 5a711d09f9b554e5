//! What a TARGET is: asked once, here.

use std::ffi::OsStr;
use std::path::Path;

use peerlane_design::builder::is_parts_list;
use peerlane_design::cluster;
use peerlane_design::infer::looks_like_inference;
use peerlane_measure::nodes::looks_like_nodes_run;
use peerlane_measure::run::looks_like_run;
use peerlane_measure::traffic::looks_like_recording;
use peerlane_read::input_file::{self, Kind, Refused, What};
use peerlane_read::{catalogue, evidence};

use super::example;

/// How much of a file is read to see what it is, in bytes.
pub(super) const HEAD: u64 = 4096;

/// What a TARGET is, by its name; what a file is, by its content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TargetKind {
    /// `live`: this machine.
    Live,
    /// `-`: standard input.
    Stdin,
    /// A system of the catalogue.
    System,
    /// A list of parts: `2x RTX 4090 + 100G`.
    PartsList,
    /// A cluster of the catalogue.
    Cluster,
    /// The example, `slow-node`.
    Example,
    /// A file that describes a system.
    SystemFile,
    /// A file that describes a cluster.
    ClusterFile,
    /// The record of a run, whole or growing.
    Run,
    /// The record of a run between nodes, whole or growing.
    NodesRun,
    /// What `infer` found.
    Inference,
    /// A recording of traffic.
    Traffic,
    /// A folder.
    Folder,
    /// A pipe, whose content is not known before it is read.
    Pipe,
    /// Another file: what tools printed, or an archive.
    Text,
}

impl TargetKind {
    /// What a TARGET is.
    ///
    /// # Errors
    /// Where it is none: no name that is known, and no file that may be read.
    pub fn of(target: &OsStr) -> Result<Self, Refused> {
        let name = target.to_str().unwrap_or_default();
        match name {
            "live" => return Ok(TargetKind::Live),
            "-" => return Ok(TargetKind::Stdin),
            example::NAME => return Ok(TargetKind::Example),
            _ if catalogue::system_text(name).is_some() => return Ok(TargetKind::System),
            _ if cluster::cluster_text(name).is_some() => return Ok(TargetKind::Cluster),
            _ => {}
        }
        let path = Path::new(target);
        let what = input_file::what(path);
        if what.is_err() && is_parts_list(name) {
            return Ok(TargetKind::PartsList);
        }
        match what? {
            What::Folder => return Ok(TargetKind::Folder),
            What::Pipe => return Ok(TargetKind::Pipe),
            _ => {}
        }
        let is_toml = is_toml(path);
        let head = input_file::head(path, if is_toml { Kind::Design.limit() } else { HEAD })?;
        Ok(TargetKind::of_content(path, &head))
    }

    /// What a file of that name is, by its content or, where that is no system file, the beginning of it.
    pub(super) fn of_content(path: &Path, content: &[u8]) -> Self {
        let is_toml = is_toml(path);
        let text = evidence::decode(content);
        match () {
            () if is_toml && cluster::looks_like_cluster(&text) => TargetKind::ClusterFile,
            () if is_toml => TargetKind::SystemFile,
            () if looks_like_nodes_run(&text) => TargetKind::NodesRun,
            () if looks_like_run(&text) => TargetKind::Run,
            () if looks_like_inference(&text) => TargetKind::Inference,
            () if looks_like_recording(&text) => TargetKind::Traffic,
            () => TargetKind::Text,
        }
    }

    /// Whether a TARGET is of this kind; `false` where it is none at all.
    pub fn is(self, target: impl AsRef<OsStr>) -> bool {
        TargetKind::of(target.as_ref()).is_ok_and(|kind| kind == self)
    }
}

fn is_toml(path: &Path) -> bool {
    path.extension().is_some_and(|e| e.eq_ignore_ascii_case("toml"))
}
