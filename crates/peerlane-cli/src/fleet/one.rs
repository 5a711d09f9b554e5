//! One record, or what was gathered on one machine.

use std::path::{Path, PathBuf};

use peerlane::evidence::Files;
use peerlane::one_line::shown;

use super::gathered::{gathered, machines};

/// The text of a record, what was gathered on a machine, or why there is neither.
pub(super) struct One {
    pub(super) name: String,
    pub(super) label: Option<String>,
    /// The file or folder, where it holds nothing else.
    pub(super) path: Option<PathBuf>,
    pub(super) text: Result<String, String>,
    /// What was gathered, instead of a text.
    pub(super) files: Option<Files>,
}

impl One {
    pub(super) fn new(name: &str, path: Option<&Path>, text: Result<String, String>) -> Self {
        One { name: name.to_owned(), label: None, path: path.map(Path::to_path_buf), text, files: None }
    }

    pub(super) fn gathered(path: &Path) -> Self {
        let name = shown(path);
        match gathered(path) {
            Ok(files) => One { files: Some(files), ..One::new(&name, Some(path), Ok(String::new())) },
            Err(why) => One::new(&name, None, Err(why)),
        }
    }

    /// The same, where it describes a machine with GPUs.
    pub(super) fn described(path: &Path) -> Option<Self> {
        let one = One::gathered(path);
        one.files.as_ref().is_some_and(|files| !machines(&one.name, files).is_empty()).then_some(one)
    }
}

/// Why a file that was named is not read.
pub(super) const NOTHING: &str = "it holds no record of 'peerlane measure', and no tool's output that shows GPUs";
