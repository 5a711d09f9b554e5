//! The settings of `check` and `report`: a site's rules, and an earlier run to compare with.

use std::env;
use std::path::{Path, PathBuf};

use peerlane::case::Case;
use peerlane::check::{Finding, Settings};
use peerlane::comparison::Comparison;
use peerlane::export::json::MachineCheck;
use peerlane::fleet::{Dictionary, Node, against};
use peerlane::input_file::{self, Kind};
use peerlane::one_line::shown;
use peerlane::run::Run;
use peerlane::target::Opened;

use crate::Failure;
use crate::redact::Redactor;

/// The default file of a site's settings.
const SITE: &str = "/etc/peerlane/rules.toml";

/// The environment variable that names another file.
const VARIABLE: &str = "PEERLANE_RULES";

/// Settings, and an earlier run to compare with.
pub(crate) struct Site {
    /// Thresholds and waivers.
    pub(crate) settings: Settings,
    dictionary: Dictionary,
    before: Option<Node>,
}

impl Site {
    /// The settings from the named file, else the site's, else the defaults.
    pub(crate) fn read(named: Option<&Path>) -> Result<Self, Failure> {
        Ok(Site { settings: settings(named)?, dictionary: Dictionary::default(), before: None })
    }

    /// The same, with the earlier run if one is named.
    pub(crate) fn since(mut self, baseline: Option<&Path>, redact: bool) -> Result<Self, Failure> {
        if let Some(path) = baseline {
            let mut name = shown(path);
            let mut text = input_file::text(path, Kind::Run)?;
            if redact {
                let mut redactor = Redactor::default();
                redactor.learn(&text);
                (name, text) = (redactor.source(&name), redactor.text(&text));
            }
            let node = Node::read(&text, &name, &self.dictionary);
            self.before = Some(node.map_err(|e| Failure::new(format!("{name}: {e}")))?);
        }
        Ok(self)
    }

    /// Rejects an earlier run where no target is a run.
    pub(crate) fn fits(&self, loaded: &Opened) -> Result<(), Failure> {
        if self.before.is_some() && loaded.cases.iter().all(|case| case.run.is_none()) {
            return Err(Failure::new(
                "--baseline compares runs, but no TARGET is a run; record one with: peerlane measure -o run.json",
            ));
        }
        Ok(())
    }

    /// The findings of the rules and, for a run, what has changed since the earlier one.
    pub(crate) fn judge<'a>(&self, case: &'a Case, comparison: &'a Comparison<'a>) -> MachineCheck {
        let changes = match (&self.before, case.run()) {
            (Some(before), Some(run)) => self.changes(before, run),
            _ => Vec::new(),
        };
        MachineCheck::of(case, comparison, &self.settings, changes)
    }

    /// What has changed since the earlier run.
    fn changes(&self, before: &Node, run: &Run) -> Vec<Finding> {
        against(before, &Node::of(run, "this run", &self.dictionary), &self.dictionary, &self.settings)
    }
}

fn settings(named: Option<&Path>) -> Result<Settings, Failure> {
    let path = named.map(Path::to_path_buf).or_else(|| env::var_os(VARIABLE).map(PathBuf::from));
    let path = match path {
        Some(path) => path,
        None if Path::new(SITE).is_file() => PathBuf::from(SITE),
        None => return Ok(Settings::default()),
    };
    let text = input_file::text(&path, Kind::Settings)?;
    Settings::read(&text).map_err(|e| Failure::new(format!("{}: {e}", shown(&path))))
}
