//! Where libraries and programs may come from.
//!
//! A file is loaded or run only by its absolute path, links resolved, and only from a folder that not everybody can
//! write to. Elements of `PATH` and `LD_LIBRARY_PATH` that are empty or relative mean the current folder, which may be
//! anybody's, so they are skipped. As root, what the environment names must belong to root alone: the environment may be
//! that of the user who called `sudo`. `docs/security.md` gives the rule for users.

use crate::system::{self, Owner};
use peerlane_machine::one_line::shown;
use std::env;
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// Carries to a worker what its parent took out of the lists of folders, for the worker's messages.
const IGNORED: &str = "PEERLANE_IGNORED";

/// The lists of folders that the system's loader, shells and programs search.
const LISTS: [&str; 2] = ["LD_LIBRARY_PATH", "PATH"];

/// Why a file or folder is not used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Distrust {
    /// An empty element of a list of folders.
    Empty,
    /// Not an absolute path.
    Relative,
    /// Everybody may write this file or folder, or replace what is in it.
    WritableByAll(PathBuf),
    /// This process is root's, and other users may write this file or folder.
    WritableByOthers(PathBuf),
}

impl fmt::Display for Distrust {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Distrust::Empty => f.write_str("an empty element means the current directory"),
            Distrust::Relative => f.write_str("not an absolute path"),
            Distrust::WritableByAll(path) => write!(f, "everybody can write {}", shown(path)),
            Distrust::WritableByOthers(path) => write!(f, "users other than root can write {}", shown(path)),
        }
    }
}

/// An element of an environment variable that is not used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ignored {
    /// The variable.
    pub variable: &'static str,
    /// The element, as it is there.
    pub element: String,
    /// Why.
    pub why: Distrust,
}

impl fmt::Display for Ignored {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "'{}' of {}: {}", self.element, self.variable, self.why)
    }
}

/// What is trusted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Rule {
    /// Only what belongs to root, and nobody else can write.
    only_roots: bool,
}

impl Rule {
    /// For files that the system's administrator placed.
    pub(crate) const SYSTEM: Rule = Rule { only_roots: false };

    /// For files that the environment names.
    pub(crate) fn environment() -> Self {
        Rule { only_roots: system::is_root() }
    }

    /// The file or folder with its links resolved, if it may be used; `None` where there is none.
    ///
    /// # Errors
    /// The reason not to use it.
    pub(crate) fn trusted(self, path: &Path) -> Result<Option<PathBuf>, Distrust> {
        if path.as_os_str().is_empty() {
            return Err(Distrust::Empty);
        }
        if !path.is_absolute() {
            return Err(Distrust::Relative);
        }
        let Ok(path) = fs::canonicalize(path) else { return Ok(None) };
        // a folder on the way whose files only their owners can replace (sticky, as /tmp) is no risk to what lies deeper
        let mut holds_it = true;
        for (depth, part) in path.ancestors().enumerate() {
            let Ok(meta) = fs::metadata(part) else { return Ok(None) };
            let Owner { mode, user, group } = system::owner(&meta);
            let sticky = mode & 0o1000 != 0 && !holds_it;
            if mode & 0o002 != 0 && !sticky {
                return Err(Distrust::WritableByAll(part.to_owned()));
            }
            let of_others = user != 0 || (mode & 0o020 != 0 && group != 0 && !sticky);
            if self.only_roots && of_others {
                return Err(Distrust::WritableByOthers(part.to_owned()));
            }
            // of a file, its folder holds it; of a folder, itself
            holds_it = depth == 0 && !meta.is_dir();
        }
        Ok(Some(path))
    }
}

/// Folders of a list, and what of it is not used.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Folders {
    /// Those that exist and are trusted, links resolved.
    pub(crate) trusted: Vec<PathBuf>,
    pub(crate) ignored: Vec<Ignored>,
}

impl Folders {
    /// The folders that a variable's value lists.
    pub(crate) fn of(variable: &'static str, value: &OsStr, rule: Rule) -> Self {
        let mut folders = Folders::default();
        // the loader takes an empty list for none, and both signs between elements (ld.so(8))
        if variable == "LD_LIBRARY_PATH" && value.is_empty() {
            return folders;
        }
        for folder in system::elements(value, variable == "LD_LIBRARY_PATH") {
            match rule.trusted(&folder) {
                Ok(found) => folders.trusted.extend(found),
                Err(why) => {
                    let ignored = Ignored { variable, element: shown(&folder), why };
                    if !folders.ignored.contains(&ignored) {
                        folders.ignored.push(ignored);
                    }
                }
            }
        }
        folders
    }

    /// The folders of a variable of this process.
    pub(crate) fn of_own(variable: &'static str) -> Self {
        env::var_os(variable).map(|value| Self::of(variable, &value, Rule::environment())).unwrap_or_default()
    }
}

/// A program that is not run.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct Missing {
    /// Where in `PATH` it would be, had it been used.
    pub ignored: Vec<Ignored>,
}

impl fmt::Display for Missing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("not installed")?;
        match self.ignored.as_slice() {
            [] => Ok(()),
            ignored => write!(f, " in a folder that is trusted; not used: {}", joined(ignored)),
        }
    }
}

/// A command that runs a program of `PATH` by its absolute path, with lists of folders that are safe to search.
///
/// # Errors
/// No folder of `PATH` that may be used has it.
pub fn command(name: &str) -> Result<Command, Missing> {
    let path = env::var_os("PATH").unwrap_or_default();
    program(name, &path, Rule::environment()).map(prepared)
}

/// What starts this program again: a file, and words that stand before its arguments.
static OWN: OnceLock<(PathBuf, Vec<OsString>)> = OnceLock::new();

/// Says what starts this program again, where that is not the file of this process: within another program, as Python. Only the
/// first call counts.
pub fn started_by(file: PathBuf, words: Vec<OsString>) {
    OWN.get_or_init(|| (file, words));
}

/// A command that runs this very program, as [`command`] does.
///
/// # Errors
/// The operating system does not tell where it is.
pub fn own_command() -> io::Result<Command> {
    let Some((file, words)) = OWN.get() else { return Ok(prepared(env::current_exe()?)) };
    let mut command = prepared(file.clone());
    command.args(words);
    Ok(command)
}

/// The file of a program in the folders of `path`.
fn program(name: &str, path: &OsStr, rule: Rule) -> Result<PathBuf, Missing> {
    let runs =
        |file: &Path| fs::metadata(file).is_ok_and(|meta| meta.is_file() && system::owner(&meta).mode & 0o111 != 0);
    let Folders { trusted, mut ignored } = Folders::of("PATH", path, rule);
    for folder in trusted {
        let file = folder.join(name);
        if !runs(&file) {
            continue;
        }
        match rule.trusted(&file) {
            Ok(Some(_)) => return Ok(file),
            Ok(None) => {}
            Err(why) => ignored.push(Ignored { variable: "PATH", element: shown(&folder), why }),
        }
    }
    ignored.retain(|ignored| runs(&Path::new(&ignored.element).join(name)));
    Err(Missing { ignored })
}

/// The program's file, with this process's environment but for what must not be searched.
#[allow(clippy::disallowed_methods, reason = "this is where programs are started by their absolute paths")]
fn prepared(file: PathBuf) -> Command {
    let mut command = Command::new(file);
    let mut left_out = Vec::new();
    for list in LISTS {
        let Folders { trusted, ignored } = Folders::of_own(list);
        if ignored.is_empty() {
            continue;
        }
        match env::join_paths(trusted) {
            Ok(folders) if !folders.is_empty() => command.env(list, folders),
            _ => command.env_remove(list),
        };
        left_out.extend(ignored);
    }
    if !left_out.is_empty() {
        command.env(IGNORED, joined(&left_out));
    }
    command
}

/// What was left out of the lists of folders, by this process or by the one that started it; empty where nothing was.
pub(crate) fn left_out(own: &[Ignored]) -> String {
    let by_parent = env::var_os(IGNORED).unwrap_or_default().to_string_lossy().into_owned();
    [by_parent, joined(own)].into_iter().filter(|words| !words.is_empty()).collect::<Vec<_>>().join("; ")
}

pub(crate) fn joined(ignored: &[Ignored]) -> String {
    ignored.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    /// A folder of this test's own, removed when dropped.
    struct Place(PathBuf);

    impl Place {
        fn new(name: &str) -> Self {
            let folder = env::temp_dir().join(format!("peerlane-search-{name}-{}", std::process::id()));
            fs::create_dir_all(&folder).unwrap();
            Place(fs::canonicalize(folder).unwrap())
        }

        fn folder(&self, name: &str, mode: u32) -> PathBuf {
            let folder = self.0.join(name);
            fs::create_dir_all(&folder).unwrap();
            fs::set_permissions(&folder, fs::Permissions::from_mode(mode)).unwrap();
            folder
        }

        fn file(&self, name: &str, mode: u32) -> PathBuf {
            let file = self.0.join(name);
            fs::write(&file, "#!/bin/sh\n").unwrap();
            fs::set_permissions(&file, fs::Permissions::from_mode(mode)).unwrap();
            file
        }
    }

    impl Drop for Place {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    const ANYONE: Rule = Rule { only_roots: false };
    const ROOT: Rule = Rule { only_roots: true };

    #[test]
    fn only_absolute_elements_count() {
        let place = Place::new("absolute");
        let own = place.folder("own", 0o755);
        let list = |text: &str| Folders::of("LD_LIBRARY_PATH", OsStr::new(text), ANYONE);
        assert_eq!(list(""), Folders::default());
        for text in [":", ".", "lib:./lib", "$ORIGIN/lib;..", ";"] {
            let folders = list(text);
            assert!(folders.trusted.is_empty() && !folders.ignored.is_empty(), "{text}: {folders:?}");
        }
        let folders = list(&format!(":{}:/no/such/folder:.", own.to_string_lossy()));
        assert_eq!(folders.trusted, [own]);
        let why: Vec<Distrust> = folders.ignored.into_iter().map(|ignored| ignored.why).collect();
        assert_eq!(why, [Distrust::Empty, Distrust::Relative]);
        // of programs an empty list is the current folder
        assert_eq!(Folders::of("PATH", OsStr::new(""), ANYONE).ignored.len(), 1);
    }

    #[test]
    fn what_everybody_can_write_does_not_count() {
        let place = Place::new("writable");
        let open = place.folder("open", 0o777);
        assert_eq!(ANYONE.trusted(&open), Err(Distrust::WritableByAll(open.clone())));
        let within = place.folder("open/within", 0o755);
        assert_eq!(ANYONE.trusted(&within), Err(Distrust::WritableByAll(open)));
        let sticky = place.folder("sticky", 0o1777);
        let file = place.file("sticky/file", 0o755);
        assert_eq!(ANYONE.trusted(&sticky), Err(Distrust::WritableByAll(sticky.clone())), "anybody can add files");
        assert_eq!(ANYONE.trusted(&file), Err(Distrust::WritableByAll(sticky)));
        let deeper = place.folder("sticky/deeper", 0o755);
        assert_eq!(ANYONE.trusted(&deeper), Ok(Some(deeper)));
        let file = place.file("file", 0o666);
        assert_eq!(ANYONE.trusted(&file), Err(Distrust::WritableByAll(file)));
        assert_eq!(ANYONE.trusted(Path::new("/no/such/file")), Ok(None));
    }

    #[test]
    fn a_link_is_as_trusted_as_what_it_leads_to() {
        let place = Place::new("links");
        place.folder("open", 0o777);
        let file = place.file("open/file", 0o755);
        let link = place.0.join("link");
        std::os::unix::fs::symlink(&file, &link).unwrap();
        assert!(matches!(ANYONE.trusted(&link), Err(Distrust::WritableByAll(_))));
    }

    #[test]
    fn root_does_not_use_what_others_own() {
        let place = Place::new("root");
        let folder = place.folder("folder", 0o755);
        assert!(ROOT.trusted(Path::new("/usr")).is_ok_and(|found| found.is_some()));
        match std::os::unix::fs::chown(&folder, Some(4321), None) {
            Ok(()) => {}
            // without root's rights, what this test made is not root's
            Err(_) => assert!(matches!(ROOT.trusted(&place.0), Err(Distrust::WritableByOthers(_)))),
        }
        assert_eq!(ANYONE.trusted(&folder), Ok(Some(folder.clone())));
        assert!(matches!(ROOT.trusted(&folder), Err(Distrust::WritableByOthers(_))));
    }

    #[test]
    fn programs_are_found_by_absolute_paths_alone() {
        let place = Place::new("programs");
        let (open, own) = (place.folder("open", 0o777), place.folder("own", 0o755));
        place.file("open/nvidia-smi", 0o755);
        let in_path = |text: String| program("nvidia-smi", OsStr::new(&text), ANYONE);
        assert_eq!(in_path(own.to_string_lossy().into_owned()), Err(Missing { ignored: Vec::new() }));
        let missing = in_path(format!("{}:{}", open.to_string_lossy(), own.to_string_lossy())).unwrap_err().to_string();
        let why = format!("'{0}' of PATH: everybody can write {0}", open.to_string_lossy());
        assert_eq!(missing, format!("not installed in a folder that is trusted; not used: {why}"));
        let file = place.file("own/nvidia-smi", 0o644);
        assert!(in_path(own.to_string_lossy().into_owned()).is_err(), "not executable");
        fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).unwrap();
        assert_eq!(in_path(format!(":{}:{}", open.to_string_lossy(), own.to_string_lossy())), Ok(file));
    }
}
