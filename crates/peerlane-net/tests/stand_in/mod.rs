//! Builds the stand-in of `libibverbs`, and runs tests with it.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{self, Command};

/// Builds the library into a folder of a test's own under `target`, and gives the folder, for `LD_LIBRARY_PATH`.
pub(crate) fn built(target: &str, test: &str) -> PathBuf {
    let folder = Path::new(target).join(format!("stand-in-verbs-{test}-{}", process::id()));
    fs::create_dir_all(&folder).unwrap();
    // the compiler beside the cargo that runs this test
    let beside = env::var_os("CARGO").map(|cargo| Path::new(&cargo).with_file_name("rustc")).filter(|p| p.exists());
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../peerlane-net/tests/stand_in/libibverbs.rs");
    let built = Command::new(beside.unwrap_or_else(|| PathBuf::from("rustc")))
        .args(["--edition=2024", "--crate-type=cdylib", "--crate-name=ibverbs", "-O", "--cap-lints=allow", "-o"])
        .arg(folder.join("libibverbs.so.1"))
        .arg(&source)
        .output()
        .unwrap();
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    folder
}

/// Runs a test of this program again, with the stand-in where the loader looks first.
pub(crate) fn with_the_library(target: &str, test: &str) {
    let folder = built(target, test.rsplit("::").next().unwrap_or(test));
    let again = Command::new(env::current_exe().unwrap())
        .args([test, "--exact", "--ignored", "--nocapture"])
        .env("LD_LIBRARY_PATH", &folder)
        .output()
        .unwrap();
    fs::remove_dir_all(folder).unwrap();
    let said = String::from_utf8_lossy(&again.stdout);
    assert!(again.status.success(), "{said}\n{}", String::from_utf8_lossy(&again.stderr));
    assert!(said.contains("1 passed"), "{said}");
}
