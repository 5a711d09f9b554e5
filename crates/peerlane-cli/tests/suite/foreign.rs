//! Libraries and programs that peerlane did not write: which it loads and runs, and what it does with bad answers.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::common;

/// Folders of a test: `here` is the current one, `own` another. Removed when dropped.
pub(crate) struct Place(PathBuf);

impl Place {
    pub(crate) fn new(name: &str) -> Self {
        let folder = std::env::temp_dir().join(format!("peerlane-foreign-{name}-{}", std::process::id()));
        for part in ["here", "here/sub", "own"] {
            fs::create_dir_all(folder.join(part)).unwrap();
        }
        Place(fs::canonicalize(folder).unwrap())
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    pub(crate) fn text(&self, name: &str) -> String {
        self.path(name).to_string_lossy().into_owned()
    }

    fn script(&self, name: &str, text: &str) {
        fs::write(self.path(name), format!("#!/bin/sh\n{text}\n")).unwrap();
        fs::set_permissions(self.path(name), fs::Permissions::from_mode(0o755)).unwrap();
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Compiles a file of `tests/fakes` to a shared library; false, which is printed, where there is no C compiler.
pub(crate) fn compiled(source: &str, library: &Path) -> bool {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fakes").join(source);
    let compiler = std::env::var_os("CC").unwrap_or_else(|| "cc".into());
    let arguments = ["-shared", "-fPIC", "-O1", "-Wall", "-Werror", "-o"];
    match Command::new(compiler).args(arguments).arg(library).arg(&source).output() {
        Ok(said) => {
            assert!(said.status.success(), "{}", String::from_utf8_lossy(&said.stderr));
            true
        }
        Err(error) => {
            println!("skipped: no C compiler ({error})");
            false
        }
    }
}

pub(crate) const NVML: &str = "libnvidia-ml.so.1";

/// Queries NVML in `here`; whether the marker was loaded, and what was said.
fn asked(place: &Place, arguments: &[&str], library_path: &str) -> (bool, String) {
    let mark = place.path("mark");
    let _ = fs::remove_file(&mark);
    let said = common::command(arguments)
        .current_dir(place.path("here"))
        .env("LD_LIBRARY_PATH", library_path)
        .env("MARK", &mark)
        .output()
        .unwrap();
    (mark.exists(), common::err(&said))
}

#[test]
fn no_library_of_the_current_folder_is_loaded() {
    let place = Place::new("library");
    if !compiled("marker.c", &place.path("own").join(NVML)) {
        return;
    }
    for folder in ["here", "here/sub"] {
        fs::copy(place.path("own").join(NVML), place.path(folder).join(NVML)).unwrap();
    }
    let own = place.text("own");
    let open = place.text("open");
    fs::create_dir_all(&open).unwrap();
    fs::copy(place.path("own").join(NVML), Path::new(&open).join(NVML)).unwrap();
    fs::set_permissions(&open, fs::Permissions::from_mode(0o777)).unwrap();
    // `discover` is the hidden command that itself opens NVML
    for arguments in [&["discover"][..], &["map", "live"]] {
        // so that the test can fail: a folder that the user names is searched
        assert!(asked(&place, arguments, &own).0, "{arguments:?}");
        for library_path in ["", ":", ".", "sub", "./sub", "..:.", ";", "$ORIGIN/../here", &open] {
            let (loaded, said) = asked(&place, arguments, library_path);
            assert!(!loaded, "{arguments:?} with LD_LIBRARY_PATH={library_path}: {said}");
        }
    }
    let said = asked(&place, &["discover"], ".").1;
    let ignored = "(not searched: '.' of LD_LIBRARY_PATH: not an absolute path)";
    assert!(said.contains(ignored) || !said.contains("not found"), "{said}");
    // the trusted part of such a list is still searched
    assert!(asked(&place, &["map", "live"], &format!(":{own}")).0);
}

#[test]
fn no_program_of_the_current_folder_is_run() {
    let place = Place::new("program");
    let mark = place.path("mark");
    for name in ["here/nvidia-smi", "here/lspci", "own/nvidia-smi", "own/lspci"] {
        place.script(name, "echo run >> \"$MARK\"; exit 1");
    }
    let gather = |path: &str| {
        let _ = fs::remove_file(&mark);
        let archive = place.path("gathered.tar.zst");
        let _ = fs::remove_file(&archive);
        let said = common::command(&["gather", "-o", archive.to_str().unwrap()])
            .current_dir(place.path("here"))
            .env("PATH", path)
            .env("MARK", &mark)
            .output()
            .unwrap();
        (mark.exists(), common::stdout(&said) + &common::err(&said))
    };
    let (run, said) = gather(&format!("{}:/usr/bin:/bin", place.text("own")));
    assert!(run, "so that the test can fail: {said}");
    for path in ["", ":/no/such/folder", "/no/such/folder:", ".", "../here:/no/such/folder"] {
        let (run, said) = gather(path);
        assert!(!run, "PATH={path}: {said}");
    }
    let said = gather(":/no/such/folder").1;
    assert!(said.contains("not installed"), "{said}");
}

#[test]
fn a_library_that_crashes_costs_its_values_only() {
    let place = Place::new("crash");
    if !compiled("crash.c", &place.path("own").join(NVML)) {
        return;
    }
    let said = asked(&place, &["map", "live"], &place.text("own")).1;
    assert!(said.contains("NVML: the query ended with signal: 6"), "{said}");
}
