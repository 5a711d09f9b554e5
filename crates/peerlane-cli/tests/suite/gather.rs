//! `gather` as a user meets it, with a GPU or without.

use std::path::PathBuf;

use crate::common::{path, peerlane};
use serde_json::Value;

fn place(name: &str) -> PathBuf {
    let path = path("gather", name);
    let _ = std::fs::remove_dir_all(&path);
    let _ = std::fs::remove_file(&path);
    path
}

#[test]
fn a_folder_and_an_archive_of_this_machine_are_the_same_machine() {
    let (folder, archive) = (place("folder"), place("file.tar.zst"));
    let gathered = peerlane(&["gather", "--redact", "-o", folder.to_str().unwrap()]);
    assert_eq!(gathered.status.code(), Some(0), "{gathered:?}");
    let gathered = peerlane(&["gather", "--redact", "--json", "-o", archive.to_str().unwrap()]);
    let manifest: Value = serde_json::from_slice(&gathered.stdout).unwrap();
    assert_eq!((&manifest["schema"], &manifest["redacted"]), (&"peerlane/gather/1".into(), &true.into()));
    assert!(manifest["items"].as_u64().unwrap() > 0);
    let map = |path: &PathBuf| peerlane(&["map", "--format", "tree", path.to_str().unwrap()]);
    let (of_folder, of_archive) = (map(&folder), map(&archive));
    assert_eq!(of_folder.status, of_archive.status);
    assert_eq!(of_folder.stdout, of_archive.stdout);
    // what is there is not overwritten
    let again = peerlane(&["gather", "-o", folder.to_str().unwrap()]);
    assert_eq!(again.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&again.stderr).contains("not empty"));
}

#[test]
fn the_worker_gives_a_snapshot_or_one_line() {
    let told = peerlane(&["discover"]);
    if told.status.success() {
        let snapshot: Value = serde_json::from_slice(&told.stdout).unwrap();
        assert_eq!(snapshot["schema"], "peerlane/nvml/1");
    } else {
        let line = String::from_utf8_lossy(&told.stderr);
        assert_eq!((told.status.code(), line.lines().count()), (Some(2), 1), "{line}");
    }
}

#[test]
fn a_hostile_archive_is_refused_in_words() {
    let archive = place("bad.tar.zst");
    std::fs::write(&archive, [0x28, 0xb5, 0x2f, 0xfd, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff]).unwrap();
    let refused = peerlane(&["map", archive.to_str().unwrap()]);
    assert_eq!(refused.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&refused.stderr).contains("bad.tar.zst"), "{refused:?}");
}
