//! What a question is about: texts that stand in it, files that its user allowed, systems of the catalogue.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use peerlane::one_line::{escaped, shown};
use peerlane::target::{OpenError, Source};
use peerlane::what_if::Edit;
use peerlane::{Opened, Opener, builder, catalogue, cluster};
use schemars::JsonSchema;
use serde::Deserialize;

/// The most texts, paths and systems of a question.
const MOST: usize = 64;

/// The most bytes of a question's texts: more than a conversation holds.
const MOST_BYTES: usize = 8 << 20;

/// The most edits.
const MOST_EDITS: usize = 32;

/// The longest name or edit, in bytes: answers repeat them.
const LONGEST: usize = 200;

/// The subject of a question. Several inputs are evidence of one machine, unless they describe different ones.
#[derive(Debug, Default, Deserialize, JsonSchema)]
pub(crate) struct Inputs {
    /// Texts that machines and tools printed, logs, records (JSON), or designs (TOML), whole and as they are.
    #[serde(default)]
    pub(crate) texts: Vec<Text>,
    /// Files or folders on this machine, in the folders that its user allowed.
    #[serde(default)]
    pub(crate) paths: Vec<String>,
    /// Systems or clusters of the catalogue, by name (the tool `systems` lists them), and machines by their parts: `4x L40S + 2x 200G`.
    #[serde(default)]
    pub(crate) systems: Vec<String>,
    /// Changes of the design, before anything is answered: `GPU0.link=pcie 3.0 x16`, `GPU2.at=plx0`, `plx0.part=pex8780`,
    /// `GPU3=none`.
    #[serde(default)]
    pub(crate) what_if: Vec<String>,
    /// The name of the machine, where the inputs describe several and the question is about one.
    #[serde(default)]
    pub(crate) machine: Option<String>,
}

/// A text.
#[derive(Debug, Deserialize, JsonSchema)]
pub(crate) struct Text {
    /// The name that answers call it: `dmesg.txt`; a design's ends in `.toml`.
    #[serde(default)]
    pub(crate) name: Option<String>,
    /// The text.
    pub(crate) text: String,
}

impl Text {
    /// Its name on one line, or its number.
    fn name(&self, nth: usize) -> String {
        match self.name.as_deref().map(str::trim).filter(|name| !name.is_empty()) {
            Some(name) => escaped(name).into_owned(),
            None => format!("text {}", nth + 1),
        }
    }
}

/// The folders and files that may be read.
#[derive(Clone, Debug, Default)]
pub(crate) struct Allowed(Vec<PathBuf>);

impl Allowed {
    /// These, each as it is without links.
    pub(crate) fn of(paths: &[PathBuf]) -> Result<Self, String> {
        let real = |path: &PathBuf| std::fs::canonicalize(path).map_err(|e| format!("{}: {e}", shown(path)));
        paths.iter().map(real).collect::<Result<_, _>>().map(Allowed)
    }

    /// The path without links, if it is allowed. One that is not there, and one that may not be read, are refused with the same words.
    fn real(&self, path: &str) -> Result<PathBuf, String> {
        if self.0.is_empty() {
            return Err("no path may be read: the server was started without --allow; give the text itself".to_owned());
        }
        let real = std::fs::canonicalize(Path::new(path)).ok();
        let allowed = real.filter(|real| self.0.iter().any(|root| real.starts_with(root)));
        allowed.ok_or_else(|| {
            let roots: Vec<String> = self.0.iter().map(shown).collect();
            format!("'{path}' is not there, or not in what may be read: {}", roots.join(", "))
        })
    }
}

impl Inputs {
    /// What is described, with the edits made.
    pub(crate) fn open(&self, allowed: &Allowed) -> Result<Opened, String> {
        let opened = self.unchanged(allowed)?;
        match self.edits()? {
            edits if edits.is_empty() => Ok(opened),
            edits => opened.changed(&edits).map_err(|e| e.to_string()),
        }
    }

    /// Each input by itself, with the name that it was given.
    pub(crate) fn apart(&self, allowed: &Allowed) -> Result<Vec<(String, Opened)>, String> {
        self.few()?;
        let one = |texts: Vec<Text>, paths: Vec<String>, systems: Vec<String>| {
            Inputs { texts, paths, systems, ..Inputs::default() }.unchanged(allowed)
        };
        let texts = self.texts.iter().enumerate().map(|(nth, text)| {
            let (name, text) = (text.name(nth), text.text.clone());
            Ok((name.clone(), one(vec![Text { name: Some(name), text }], Vec::new(), Vec::new())?))
        });
        let paths = self.paths.iter().map(|path| Ok((path.clone(), one(Vec::new(), vec![path.clone()], Vec::new())?)));
        let systems =
            self.systems.iter().map(|name| Ok((name.clone(), one(Vec::new(), Vec::new(), vec![name.clone()])?)));
        texts.chain(paths).chain(systems).collect()
    }

    /// Whether the inputs are so few and so short that they are looked at.
    fn few(&self) -> Result<(), String> {
        let number = self.texts.len() + self.paths.len() + self.systems.len();
        let bytes: usize = self.texts.iter().map(|text| text.text.len()).sum();
        if number == 0 {
            return Err("nothing to look at: give texts, paths or systems".to_owned());
        }
        if number > MOST || bytes > MOST_BYTES {
            return Err(format!(
                "{number} inputs with {bytes} bytes of text: at most {MOST} with {} MiB",
                MOST_BYTES >> 20
            ));
        }
        let names = self.texts.iter().filter_map(|text| text.name.as_ref()).chain(&self.systems).chain(&self.machine);
        match names.chain(&self.what_if).any(|name| name.len() > LONGEST) {
            true => Err(format!("a name or a change has more than {LONGEST} bytes")),
            false => Ok(()),
        }
    }

    /// The same without the edits.
    pub(crate) fn unchanged(&self, allowed: &Allowed) -> Result<Opened, String> {
        self.few()?;
        let opener = || Opener::new(&|| Err("a server does not look at its own machine".to_owned())).clusters();
        let mut targets: Vec<OsString> = Vec::new();
        let mut listed: Vec<(String, Result<Source, _>)> = Vec::new();
        for name in &self.systems {
            if catalogue::system(name).is_some() || cluster::embedded(name).is_some() {
                targets.push(name.into());
            } else if let Some(machine) = builder::machine(name) {
                // not as a target, which a file of that name would be
                let source = machine.map(|machine| Source::Case(Box::new(machine.into()))).map_err(OpenError::from);
                listed.push((name.clone(), source));
            } else {
                return Err(format!("no system of the catalogue is called '{name}'; the tool `systems` lists them"));
            }
        }
        for path in &self.paths {
            targets.push(allowed.real(path)?.into());
        }
        let mut all = Opened::default();
        if !listed.is_empty() {
            all.extend([opener().join(listed).map_err(|e| e.to_string())?]);
        }
        if !targets.is_empty() {
            all.extend([opener().open(targets).map_err(|e| e.to_string())?]);
        }
        if !self.texts.is_empty() {
            let sources: Vec<(String, Result<Source, _>)> = self
                .texts
                .iter()
                .enumerate()
                .map(|(nth, text)| {
                    let name = text.name(nth);
                    let source = opener().read_bytes(&name, text.text.as_bytes());
                    (name, source)
                })
                .collect();
            all.extend([opener().join(sources).map_err(|e| e.to_string())?]);
        }
        match &self.machine {
            Some(name) => all.only(name).map_err(|e| e.to_string()),
            None => Ok(all),
        }
    }

    /// The edits.
    pub(crate) fn edits(&self) -> Result<Vec<Edit>, String> {
        if self.what_if.len() > MOST_EDITS {
            return Err(format!("{} changes: at most {MOST_EDITS}", self.what_if.len()));
        }
        self.what_if.iter().map(|word| word.parse().map_err(|e| format!("what_if '{word}': {e}"))).collect()
    }
}
