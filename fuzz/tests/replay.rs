//! Every target on its seeds and on small damage to them, with the stable toolchain and without libFuzzer.

#![allow(clippy::expect_used, clippy::panic, clippy::disallowed_methods, missing_docs)]

use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use peerlane::evidence::{READERS, Text};
use peerlane::random::Random;
use peerlane_fuzz::{Target, mutate::mutated, seeds, target, targets};

/// Damaged inputs of each target. More are tried by `scripts/fuzz.sh`.
const DAMAGED: usize = 60;

/// Longer seeds are replayed and not damaged: they show what is slow, and cost the most time.
const MOST_DAMAGED: usize = 8 << 10;

#[test]
fn seeds_and_what_is_near_them_pass() {
    let all: Vec<Target> = targets().collect();
    let (next, failed) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let cores = thread::available_parallelism().map_or(1, usize::from);
    thread::scope(|scope| {
        for _ in 0..cores {
            scope.spawn(|| {
                while let Some(target) = all.get(next.fetch_add(1, Ordering::Relaxed)) {
                    failed.fetch_add(replay(target), Ordering::Relaxed);
                }
            });
        }
    });
    assert_eq!(failed.into_inner(), 0, "inputs failed; they are named above");
}

/// How many inputs fail.
fn replay(target: &Target) -> usize {
    let seeds = seeds::of(target);
    assert!(!seeds.is_empty(), "{} has no seed", target.name);
    let mut failed = 0;
    for seed in &seeds {
        failed += usize::from(!passes(target, &seed.data, &seed.path.to_string_lossy()));
    }
    let small: Vec<&[u8]> = seeds.iter().map(|s| &s.data[..]).filter(|d| d.len() <= MOST_DAMAGED).collect();
    let mut random = Random::new(1, target.name);
    for i in 0..DAMAGED {
        let [one, other] = [(); 2].map(|()| small.get(random.below(small.len())).copied().unwrap_or_default());
        let input = mutated(one, other, &mut random);
        failed += usize::from(!passes(target, &input, &format!("damaged input {i}")));
    }
    failed
}

/// Runs a target; where it panics, says on what, and keeps the input.
fn passes(target: &Target, data: &[u8], what: &str) -> bool {
    let passed = std::panic::catch_unwind(|| target.run(data)).is_ok();
    if !passed {
        let kept = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{}-failure", target.name));
        fs::write(&kept, data).expect("the folder for test output can be written");
        eprintln!("{} fails on {what}; the input is in {}", target.name, kept.to_string_lossy());
    }
    passed
}

#[test]
fn every_reader_has_a_seed_that_it_reads() {
    for (target, reader) in targets().zip(READERS) {
        assert_eq!(target.name, reader.name);
        let reads = |seed: &seeds::Seed| !reader.read(&Text::new("seed", &seed.data)).evidence.is_empty();
        assert!(seeds::of(&target).iter().any(reads), "none of the seeds of {} is read by it", target.name);
    }
}

#[test]
fn folders_of_seeds_are_targets() {
    let folders = fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("seeds")).expect("the folder is there");
    let names = folders.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned());
    let unknown: Vec<String> = names.filter(|name| name != "texts" && target(name).is_none()).collect();
    assert!(unknown.is_empty(), "seeds of no target: {unknown:?}");
}
