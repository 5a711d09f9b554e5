//! Where libraries are looked for: by the system's loader, where it searches only what may be trusted, and in the folders
//! that it does not know.

use peerlane_machine::one_line::shown;
use peerlane_read::input_file::names;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use crate::search::{Folders, Ignored, Rule};

/// Where the driver's libraries are on systems whose loader does not know: containers, WSL, NixOS.
const DRIVER_FOLDERS: [&str; 4] =
    ["/usr/local/nvidia/lib64", "/usr/lib/wsl/lib", "/run/opengl-driver/lib", "/usr/lib/x86_64-linux-gnu"];

/// Folders that the system's loader searches by itself, for when it cannot be asked (ld.so(8), Debian's multiarch).
const SYSTEM_FOLDERS: [&str; 6] =
    ["/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/lib64", "/usr/lib64", "/lib", "/usr/lib"];

/// Where packages of NCCL put it, under the root.
const NCCL_FOLDERS: [&str; 4] = ["usr/lib/x86_64-linux-gnu", "usr/lib/aarch64-linux-gnu", "usr/lib64", "usr/local/lib"];

/// Prefixes under which Python keeps packages, beside that of the `python3` that `PATH` finds.
const PYTHON_PREFIXES: [&str; 2] = ["usr/local", "usr"];

/// One place to open a library from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// The system's loader finds it by this name.
    Loader(&'static str),
    /// This file, by its absolute path.
    File(PathBuf),
}

/// The places of a library, the best first, and what the environment names but is not used.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Places {
    pub(crate) all: Vec<Place>,
    pub(crate) ignored: Vec<Ignored>,
}

impl Places {
    /// Where the loader would look. It searches `LD_LIBRARY_PATH` as that was when this process began, so it is asked only
    /// where all of that is trusted; else the trusted folders are searched here, and then the system's.
    fn of_loader(name: &'static str, library_path: Folders) -> Self {
        let Folders { trusted, ignored } = library_path;
        if ignored.is_empty() {
            return Places { all: vec![Place::Loader(name)], ignored };
        }
        let mut places = Places { all: Vec::new(), ignored };
        places.add(trusted, name);
        places.add(SYSTEM_FOLDERS.map(PathBuf::from), name);
        places
    }

    /// The files called `name` in the folders, where they exist and may be used.
    fn add(&mut self, folders: impl IntoIterator<Item = PathBuf>, name: &str) {
        for folder in folders {
            let file = folder.join(name);
            let place = Place::File(file.clone());
            if file.is_file() && !self.all.contains(&place) && matches!(Rule::SYSTEM.trusted(&file), Ok(Some(_))) {
                self.all.push(place);
            }
        }
    }
}

/// The places of a library that the system's packages bring.
pub(crate) fn of_system(name: &'static str, library_path: Folders) -> Places {
    Places::of_loader(name, library_path)
}

/// The places of one of the driver's libraries, by its names, the best first.
pub(crate) fn of_driver(names: &[&'static str], library_path: &Folders) -> Places {
    let mut places = Places::default();
    for name in names {
        let Places { all, ignored } = Places::of_loader(name, library_path.clone());
        places.all.extend(all);
        places.ignored = ignored;
        if *name == names[0] {
            places.add(DRIVER_FOLDERS.map(PathBuf::from), name);
        }
    }
    places
}

/// The places of NCCL, the loader's first: CUDA's folders, then the packages of the Python that is in use.
/// `root` is `/`; `variable` reads the environment, whose folders must be trusted by `rule`.
pub(crate) fn of_nccl(
    name: &'static str,
    root: &Path,
    variable: &dyn Fn(&str) -> Option<OsString>,
    library_path: Folders,
    rule: Rule,
) -> Places {
    let mut places = Places::of_loader(name, library_path);
    let mut folders: Vec<PathBuf> = NCCL_FOLDERS.iter().map(|folder| root.join(folder)).collect();
    for cuda in children(&root.join("usr/local"), |name| name.starts_with("cuda")) {
        folders.push(cuda.join("lib64"));
    }

    let mut named = |variable: &'static str, path: PathBuf| match rule.trusted(&path) {
        Ok(found) => found.is_some(),
        Err(why) => {
            places.ignored.push(Ignored { variable, element: shown(&path), why });
            false
        }
    };
    let mut prefixes: Vec<PathBuf> = Vec::new();
    for name in ["VIRTUAL_ENV", "CONDA_PREFIX"] {
        prefixes.extend(variable(name).map(PathBuf::from).filter(|path| named(name, path.clone())));
    }
    let path = variable("PATH").map(|path| Folders::of("PATH", &path, rule).trusted).unwrap_or_default();
    if let Some(python) = path.into_iter().map(|folder| folder.join("python3")).find(|file| file.is_file()) {
        // a virtual environment's python3 is a link to the one it was made from, whose packages it may use
        let resolved = fs::canonicalize(&python).ok();
        let both = [Some(python), resolved].into_iter().flatten().filter_map(prefix_of);
        prefixes.extend(both.filter(|prefix| matches!(rule.trusted(prefix), Ok(Some(_)))));
    }
    let home = variable("HOME").map(|home| Path::new(&home).join(".local"));
    prefixes.extend(home.filter(|path| path.exists() && named("HOME", path.clone())));
    prefixes.extend(PYTHON_PREFIXES.iter().map(|prefix| root.join(prefix)));
    for prefix in prefixes {
        let libraries = children(&prefix, |name| matches!(name, "lib" | "lib64"));
        for python in libraries.iter().flat_map(|library| children(library, |name| name.starts_with("python3"))) {
            let packages = children(&python, |name| matches!(name, "site-packages" | "dist-packages"));
            folders.extend(packages.into_iter().map(|packages| packages.join("nvidia/nccl/lib")));
        }
    }
    places.add(folders, name);
    places
}

/// The prefix of an interpreter: `/usr` of `/usr/bin/python3`.
fn prefix_of(python: PathBuf) -> Option<PathBuf> {
    Some(python.parent()?.parent()?.to_owned())
}

/// The entries of a folder whose names fit, in falling order of name, so that newer versions tend to come first.
fn children(folder: &Path, fits: impl Fn(&str) -> bool) -> Vec<PathBuf> {
    let found = names(folder).into_iter().rev().filter(|name| fits(name));
    found.map(|name| folder.join(name)).collect()
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;

    use super::*;

    /// A root with NCCL in the folders; removed when dropped.
    struct Root(PathBuf);

    impl Root {
        fn new(name: &str, folders: &[&str]) -> Self {
            let root = std::env::temp_dir().join(format!("peerlane-places-{name}-{}", std::process::id()));
            fs::create_dir_all(&root).unwrap();
            let root = fs::canonicalize(root).unwrap();
            for folder in folders {
                fs::create_dir_all(root.join(folder)).unwrap();
                fs::write(root.join(folder).join("libnccl.so.2"), "").unwrap();
            }
            Self(root)
        }

        fn places(&self, variables: &[(&str, &str)]) -> Vec<String> {
            let variable = |name: &str| {
                let (_, value) = variables.iter().find(|(known, _)| *known == name)?;
                Some(self.0.join(value).into_os_string())
            };
            self.shown(of_nccl("libnccl.so.2", &self.0, &variable, Folders::default(), Rule::SYSTEM))
        }

        fn shown(&self, places: Places) -> Vec<String> {
            let inside = |path: &Path| path.strip_prefix(&self.0).unwrap_or(path).to_string_lossy().into_owned();
            let shown = |place: &Place| match place {
                Place::Loader(name) => (*name).to_owned(),
                Place::File(file) => inside(file),
            };
            places.all.iter().map(shown).collect()
        }
    }

    impl Drop for Root {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn nothing_installed_leaves_the_loaders_search() {
        assert_eq!(Root::new("none", &[]).places(&[]), ["libnccl.so.2"]);
    }

    #[test]
    fn systems_come_before_python() {
        let root = Root::new(
            "order",
            &[
                "usr/local/cuda-12.4/lib64",
                "usr/lib/x86_64-linux-gnu",
                "venv/lib/python3.11/site-packages/nvidia/nccl/lib",
                "usr/lib/python3/dist-packages/nvidia/nccl/lib",
            ],
        );
        assert_eq!(
            root.places(&[("VIRTUAL_ENV", "venv")]),
            [
                "libnccl.so.2",
                "usr/lib/x86_64-linux-gnu/libnccl.so.2",
                "usr/local/cuda-12.4/lib64/libnccl.so.2",
                "venv/lib/python3.11/site-packages/nvidia/nccl/lib/libnccl.so.2",
                "usr/lib/python3/dist-packages/nvidia/nccl/lib/libnccl.so.2",
            ]
        );
    }

    #[test]
    fn the_python_on_path_is_found_without_running_it() {
        let packages = "opt/python/lib/python3.12/site-packages/nvidia/nccl/lib";
        let root = Root::new("path", &[packages, "opt/venv/bin"]);
        fs::create_dir_all(root.0.join("opt/python/bin")).unwrap();
        fs::write(root.0.join("opt/python/bin/python3"), "").unwrap();
        let direct = root.places(&[("PATH", "opt/python/bin")]);
        assert_eq!(direct, ["libnccl.so.2".to_owned(), format!("{packages}/libnccl.so.2")]);
        // through the link of a virtual environment
        std::os::unix::fs::symlink(root.0.join("opt/python/bin/python3"), root.0.join("opt/venv/bin/python3")).unwrap();
        assert_eq!(root.places(&[("PATH", "opt/venv/bin")]).len(), 2);
    }

    #[test]
    fn a_library_path_with_the_current_folder_in_it_is_searched_without_the_loader() {
        let root = Root::new("list", &["own", "open", "own/stubs"]);
        let open = root.0.join("open");
        fs::set_permissions(&open, std::os::unix::fs::PermissionsExt::from_mode(0o777)).unwrap();
        let list = |text: String| {
            let folders = Folders::of("LD_LIBRARY_PATH", OsStr::new(&text), Rule::SYSTEM);
            root.shown(of_driver(&["libnccl.so.2"], &folders))
        };
        let own = root.0.join("own").to_string_lossy().into_owned();
        assert_eq!(list(own.clone())[0], "libnccl.so.2");
        for bad in
            [format!(":{own}"), format!("{own}:"), format!(".:{own}"), format!("{}:{own}", open.to_string_lossy())]
        {
            let places = list(bad.clone());
            assert_eq!(places[0], "own/libnccl.so.2", "{bad}");
            assert!(!places.contains(&"libnccl.so.2".to_owned()), "{bad}");
        }
    }

    #[test]
    fn packages_that_everybody_can_write_are_left_out_and_named() {
        let root = Root::new("open", &["venv/lib/python3.11/site-packages/nvidia/nccl/lib"]);
        let venv = root.0.join("venv");
        fs::set_permissions(&venv, std::os::unix::fs::PermissionsExt::from_mode(0o777)).unwrap();
        let variable = |name: &str| (name == "VIRTUAL_ENV").then(|| venv.clone().into_os_string());
        let places = of_nccl("libnccl.so.2", &root.0, &variable, Folders::default(), Rule::SYSTEM);
        assert_eq!(places.all, [Place::Loader("libnccl.so.2")]);
        assert_eq!(places.ignored[0].variable, "VIRTUAL_ENV");
    }
}
