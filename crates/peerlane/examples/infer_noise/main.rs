//! Holds `infer` on simulated machines with noise against the limits that they have.
//!
//! `cargo run --release -p peerlane --example infer_noise -- [WHICH] [SEEDS] [FIRST] [NOISE ...] [--most SHARE]`: which systems of the
//! catalogue (`tuned`, which the method was tuned on, `apart`, all others,
//! `all`, or one by name), how many seeds, and the first.
//! It fails where more than SHARE of the stated limits are invented.

#![allow(clippy::print_stdout)]

#[path = "../infer_trees/judge.rs"]
#[allow(dead_code, reason = "the other programs that include it use the rest")]
mod judge;
mod machines;

use std::env;
use std::process::ExitCode;

use machines::{System, Verdicts};
use peerlane::catalogue;

/// The systems that the method was tuned on: every second one of those that there were then.
const TUNED_ON: [&str; 12] = [
    "7gforce",
    "apenet-x56xx",
    "az-4x-m60",
    "dgx-1v",
    "exxact-traditional",
    "exxact-txr414",
    "exxact-txr550",
    "hgx-h200",
    "hpcac-sys",
    "k20-cx3-snb",
    "microway-p100-pcie",
    "quong-node",
];

/// From this confidence on `infer` calls a limit certain.
const SURE: f64 = 0.99;

fn main() -> ExitCode {
    let words: Vec<String> = env::args().skip(1).collect();
    let which = words.first().map_or("tuned", String::as_str);
    let number = |at: usize, default: u64| words.get(at).and_then(|w| w.parse().ok()).unwrap_or(default);
    let (seeds, first) = (number(1, 5), number(2, 1));
    let limit = words.iter().position(|w| w == "--most");
    let most: f64 = limit.and_then(|at| words.get(at + 1)?.parse().ok()).unwrap_or(1.0);
    let mut failed = false;
    let mut noises: Vec<f64> =
        words.iter().take(limit.unwrap_or(words.len())).skip(3).filter_map(|w| w.parse().ok()).collect();
    if noises.is_empty() {
        noises = vec![0.0, 0.003, 0.01, 0.03];
    }
    let chosen = |name: &&str| match which {
        "all" => true,
        "tuned" => TUNED_ON.contains(name),
        "apart" => !TUNED_ON.contains(name),
        one => *name == one,
    };
    let names = catalogue::system_names().filter(chosen);
    let systems: Vec<System> = names.filter_map(System::new).collect();
    println!("{} systems, {seeds} seeds from {first}", systems.len());
    println!("noise   found           invented        certain, wrong  0.9 to certain, wrong  less, wrong");
    for noise in noises {
        let seeds = if noise == 0.0 { 1 } else { seeds };
        let mut sum = Verdicts::default();
        for system in &systems {
            for seed in first..first + seeds {
                let one = system.verdicts(noise, seed);
                sum.identifiable += one.identifiable;
                sum.found += one.found;
                sum.stated.extend(one.stated);
                sum.wrong.extend(one.wrong);
            }
        }
        sum.wrong.iter().for_each(|line| println!("  {line}"));
        print(noise, &sum);
        let wrong = sum.stated.iter().filter(|(_, right)| !right).count();
        failed |= wrong as f64 > most * sum.stated.len() as f64;
    }
    if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}

fn print(noise: f64, sum: &Verdicts) {
    let of = |low: f64, high: f64| {
        let within = sum.stated.iter().filter(|(c, _)| (low..high).contains(c));
        let wrong = within.clone().filter(|(_, right)| !right).count();
        (wrong, within.count())
    };
    let share = |(part, all): (usize, usize)| format!("{part}/{all} {:.1} %", 100.0 * part as f64 / all.max(1) as f64);
    println!(
        "{noise:<7} {:<15} {:<15} {:<15} {:<22} {}",
        share((sum.found, sum.identifiable)),
        share(of(0.0, 2.0)),
        share(of(SURE, 2.0)),
        share(of(0.9, SURE)),
        share(of(0.0, 0.9)),
    );
}
