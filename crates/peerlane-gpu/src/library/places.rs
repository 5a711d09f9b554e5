//! Where libraries are looked for, beside the loader's own search path.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::path::{Path, PathBuf};

/// Where the driver's libraries are on systems whose loader is not told: containers, WSL, NixOS.
const DRIVER_FOLDERS: [&str; 4] =
    ["/usr/local/nvidia/lib64", "/usr/lib/wsl/lib", "/run/opengl-driver/lib", "/usr/lib/x86_64-linux-gnu"];

/// Where packages of NCCL put it, under the root.
const NCCL_FOLDERS: [&str; 4] = ["usr/lib/x86_64-linux-gnu", "usr/lib/aarch64-linux-gnu", "usr/lib64", "usr/local/lib"];

/// Prefixes under which Python keeps packages, beside that of the `python3` that `PATH` finds.
const PYTHON_PREFIXES: [&str; 2] = ["usr/local", "usr"];

/// The places of one of the driver's libraries, the loader's first.
pub(super) fn of_driver(name: &str) -> Vec<OsString> {
    let mut places = vec![OsString::from(name)];
    places.extend(existing(DRIVER_FOLDERS.iter().map(PathBuf::from), name));
    places
}

/// The places of NCCL, the loader's first: CUDA's folders, then the packages of the Python that is in use.
/// `root` is `/`; `variable` reads the environment.
pub(super) fn of_nccl(name: &str, root: &Path, variable: &dyn Fn(&str) -> Option<OsString>) -> Vec<OsString> {
    let mut folders: Vec<PathBuf> = NCCL_FOLDERS.iter().map(|folder| root.join(folder)).collect();
    for cuda in children(&root.join("usr/local"), |name| name.starts_with("cuda")) {
        folders.push(cuda.join("lib64"));
    }

    let mut prefixes: Vec<PathBuf> =
        ["VIRTUAL_ENV", "CONDA_PREFIX"].into_iter().filter_map(variable).map(PathBuf::from).collect();
    let path = variable("PATH").unwrap_or_default();
    if let Some(python) = std::env::split_paths(&path).map(|folder| folder.join("python3")).find(|file| file.is_file())
    {
        // a virtual environment's python3 is a link to the one it was made from, whose packages it may use
        let resolved = fs::canonicalize(&python).ok();
        prefixes.extend([Some(python), resolved].into_iter().flatten().filter_map(prefix_of));
    }
    prefixes.extend(variable("HOME").map(|home| Path::new(&home).join(".local")));
    prefixes.extend(PYTHON_PREFIXES.iter().map(|prefix| root.join(prefix)));
    for prefix in prefixes {
        let libraries = children(&prefix, |name| matches!(name, "lib" | "lib64"));
        for python in libraries.iter().flat_map(|library| children(library, |name| name.starts_with("python3"))) {
            let packages = children(&python, |name| matches!(name, "site-packages" | "dist-packages"));
            folders.extend(packages.into_iter().map(|packages| packages.join("nvidia/nccl/lib")));
        }
    }

    let mut places = vec![OsString::from(name)];
    for place in existing(folders.into_iter(), name) {
        if !places.contains(&place) {
            places.push(place);
        }
    }
    places
}

/// The prefix of an interpreter: `/usr` of `/usr/bin/python3`.
fn prefix_of(python: PathBuf) -> Option<PathBuf> {
    Some(python.parent()?.parent()?.to_owned())
}

/// The files called `name` that exist in the folders.
fn existing(folders: impl Iterator<Item = PathBuf>, name: &str) -> impl Iterator<Item = OsString> {
    folders.map(move |folder| folder.join(name)).filter(|file| file.is_file()).map(PathBuf::into_os_string)
}

/// The entries of a folder whose names fit, in falling order of name, so that newer versions tend to come first.
fn children(folder: &Path, fits: impl Fn(&str) -> bool) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut found: Vec<PathBuf> = entries
        .map(|entry| entry.path())
        .filter(|path| path.file_name().and_then(OsStr::to_str).is_some_and(&fits))
        .collect();
    found.sort_unstable_by(|a, b| b.cmp(a));
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A root with NCCL in the folders; removed when dropped.
    struct Root(PathBuf);

    impl Root {
        fn new(name: &str, folders: &[&str]) -> Self {
            let root = std::env::temp_dir().join(format!("peerlane-places-{name}-{}", std::process::id()));
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
            let places = of_nccl("libnccl.so.2", &self.0, &variable);
            let inside = places.iter().map(|place| Path::new(place).strip_prefix(&self.0).unwrap_or(Path::new(place)));
            inside.map(|place| place.display().to_string()).collect()
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
}
