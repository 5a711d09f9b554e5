//! What the site says of the rules, and an earlier run to compare with: how `check` and `report` judge.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};

use peerlane::case::Case;
use peerlane::check::{Context, Finding, Settings, check_with, verdict};
use peerlane::comparison::Comparison;
use peerlane::export::json::MachineCheck;
use peerlane::fleet::{Dictionary, Node, against};
use peerlane::run::Run;

use super::fleet;
use crate::Failure;
use crate::target::Loaded;

/// Where a site's settings are looked for if none are named.
const SITE: &str = "/etc/peerlane/rules.toml";

/// Names another place for them.
const VARIABLE: &str = "PEERLANE_RULES";

/// Settings are written by hand; 1 MiB is far above any.
const MAX_SETTINGS: u64 = 1 << 20;

/// Settings, and what to compare with.
pub(super) struct Site {
    /// Thresholds and waivers.
    pub(super) settings: Settings,
    dictionary: Dictionary,
    before: Option<Node>,
}

impl Site {
    /// The settings of the named file, else of the site's, else the usual ones.
    pub(super) fn read(named: Option<&Path>) -> Result<Self, Failure> {
        Ok(Site { settings: settings(named)?, dictionary: Dictionary::default(), before: None })
    }

    /// The same, with an earlier run if one is named.
    pub(super) fn since(mut self, baseline: Option<&Path>) -> Result<Self, Failure> {
        if let Some(path) = baseline {
            let name = path.display().to_string();
            let text = fleet::text(&name).map_err(Failure::new)?;
            let node = Node::read(&text, &name, &self.dictionary);
            self.before = Some(node.map_err(|e| Failure::new(format!("{name}: {e}")))?);
        }
        Ok(self)
    }

    /// Refuses to compare an earlier run with what is none.
    pub(super) fn fits(&self, loaded: &Loaded) -> Result<(), Failure> {
        if self.before.is_some() && loaded.cases.iter().all(|case| case.run.is_none()) {
            return Err(Failure::new(
                "--baseline compares runs, and no TARGET here is one: measure first (peerlane measure -o run.json)",
            ));
        }
        Ok(())
    }

    /// What the rules say of a machine through its comparison, and what changed if it has a run.
    pub(super) fn judge<'a>(&self, case: &'a Case, comparison: &'a Comparison<'a>) -> MachineCheck {
        let context = Context::of(case, comparison);
        let name = &case.machine.name;
        let mut all = check_with(&context, &self.settings);
        if let (Some(before), Some(run)) = (&self.before, case.run()) {
            let changes = self.changes(before, run).into_iter();
            all.findings.splice(0..0, changes.filter(|f| self.settings.waiver(name, f).is_none()));
            all.findings.sort_by_key(|f| std::cmp::Reverse(f.severity));
        }
        let verdict = verdict(&context, &all.findings);
        MachineCheck { name: name.clone(), verdict, findings: all.findings, waived: all.waived, comparison: None }
    }

    /// What changed since the earlier run.
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
    let refused = |why: String| Failure::new(format!("{}: {why}", path.display()));
    if fs::metadata(&path).map_err(|e| refused(e.to_string()))?.len() > MAX_SETTINGS {
        return Err(refused(format!("larger than {} MiB; no settings", MAX_SETTINGS >> 20)));
    }
    let text = fs::read_to_string(&path).map_err(|e| refused(e.to_string()))?;
    Settings::read(&text).map_err(|e| refused(e.to_string()))
}
