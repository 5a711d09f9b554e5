//! The settings of `check` and `report`: a site's rules, and an earlier run to compare with.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};

use peerlane::case::Case;
use peerlane::check::{Context, Finding, Settings, check_with, checked, missing, next_commands, unchecked, verdict};
use peerlane::comparison::Comparison;
use peerlane::export::json::MachineCheck;
use peerlane::fleet::{Dictionary, Node, against};
use peerlane::one_line::shown;
use peerlane::run::Run;
use peerlane::verdict::Verdict;

use crate::Failure;
use crate::redact::Redactor;
use crate::target::{Loaded, record_text};

/// The default file of a site's settings.
const SITE: &str = "/etc/peerlane/rules.toml";

/// The environment variable that names another file.
const VARIABLE: &str = "PEERLANE_RULES";

/// Limit of settings files, which are written by hand and far smaller.
const MAX_SETTINGS: u64 = 1 << 20;

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
            let mut text = record_text(path).map_err(Failure::new)?;
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
    pub(crate) fn fits(&self, loaded: &Loaded) -> Result<(), Failure> {
        if self.before.is_some() && loaded.cases.iter().all(|case| case.run.is_none()) {
            return Err(Failure::new(
                "--baseline compares runs, but no TARGET is a run; record one with: peerlane measure -o run.json",
            ));
        }
        Ok(())
    }

    /// The findings of the rules and, for a run, what has changed since the earlier one.
    pub(crate) fn judge<'a>(&self, case: &'a Case, comparison: &'a Comparison<'a>) -> MachineCheck {
        let context = Context::of(case, comparison);
        let name = &case.machine.name;
        let mut all = check_with(&context, &self.settings);
        if let (Some(before), Some(run)) = (&self.before, case.run()) {
            let changes = self.changes(before, run).into_iter();
            all.findings.splice(0..0, changes.filter(|f| self.settings.waiver(name, f).is_none()));
            all.findings.sort_by_key(|f| std::cmp::Reverse(f.contributes()));
        }
        let verdict = verdict(&context, &all.findings);
        let next = if verdict == Verdict::NotJudged { next_commands(&context) } else { Vec::new() };
        let (findings, waived) = (all.findings, all.waived);
        MachineCheck {
            name: name.clone(),
            verdict,
            checked: checked(&context).to_vec(),
            unchecked: unchecked(&context),
            missing: missing(case).map(|missing| missing.to_string()),
            next,
            findings,
            waived,
            thresholds: Vec::new(),
            comparison: None,
        }
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
    let refused = |why: String| Failure::new(format!("{}: {why}", shown(&path)));
    if fs::metadata(&path).map_err(|e| refused(e.to_string()))?.len() > MAX_SETTINGS {
        return Err(refused(format!("not a settings file: larger than {} MiB", MAX_SETTINGS >> 20)));
    }
    let text = fs::read_to_string(&path).map_err(|e| refused(e.to_string()))?;
    Settings::read(&text).map_err(|e| refused(e.to_string()))
}
