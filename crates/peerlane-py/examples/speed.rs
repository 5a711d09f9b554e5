//! The library's own time for what `python/tests/speed.py` does from Python: `cargo run --profile dist --example speed -- FOLDER`
//! with small texts prints the seconds of 10,000 checks by two threads, and of one prediction of the 16 GPUs of a DGX-2.

#![allow(
    clippy::print_stdout,
    clippy::expect_used,
    clippy::disallowed_methods,
    reason = "a benchmark prints, and stops where it cannot go on"
)]

use std::hint::black_box;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;
use std::{env, fs, thread};

use peerlane::check::Settings;
use peerlane::target::{Opener, Source};

const CHECKS: usize = 10_000;
const PREDICTIONS: u32 = 10;

fn main() {
    let folder = env::args_os().nth(1).expect("a folder of texts");
    let mut texts: Vec<(String, Vec<u8>)> = fs::read_dir(folder)
        .expect("a folder")
        .filter_map(|entry| entry.ok().map(|entry| entry.path()))
        .filter_map(|file| Some((file.file_name()?.to_str()?.to_owned(), fs::read(&file).ok()?)))
        .collect();
    texts.sort();
    let (start, next) = (Instant::now(), AtomicUsize::new(0));
    let check = || {
        loop {
            let i = next.fetch_add(1, Ordering::Relaxed);
            if i >= CHECKS {
                break;
            }
            let (name, text) = &texts[i % texts.len()];
            let none = || Err("no machine".to_owned());
            let opened = Opener::new(&none).clusters().join([(name.clone(), Source::of_document(name, text))]);
            let check = opened.expect("a text that is understood").check(&Settings::default());
            black_box((check.verdict, check.findings.len()));
        }
    };
    thread::scope(|scope| [(); 2].map(|()| scope.spawn(check)).map(|thread| drop(thread.join())));
    println!("{:.3}", start.elapsed().as_secs_f64());
    let opened = peerlane::open(["dgx-2"]).expect("a system");
    let start = Instant::now();
    for _ in 0..PREDICTIONS {
        black_box(opened.predict(&[], &[]).matrices.len());
    }
    println!("{:.4}", start.elapsed().as_secs_f64() / f64::from(PREDICTIONS));
}
