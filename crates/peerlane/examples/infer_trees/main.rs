//! Holds the inference of hidden resources against random machines, of which everything is known.
//!
//! `cargo run --release -p peerlane --example infer_trees -- [TREES] [COMMON] [FIRST]`: how many machines, the relative
//! standard deviation of what all rates of a set have in common, and the first seed.

#![allow(clippy::print_stdout)]

mod judge;
mod trees;

use std::env;

use judge::{Judgement, judge, permitted};
use peerlane::infer::{Design, Members, Noise, Trial, experiment, most_sets};
use peerlane::random::Random;

/// Relative standard deviation of one repeat.
const EACH: f64 = 0.02;

/// Repeats of each set.
const REPEATS: usize = 6;

/// A resource counts if some rate changes by this many times the noise without it, and by 5 %.
const SIGMAS: f64 = 3.0;
const LEAST: f64 = 0.05;

fn main() {
    let mut words = env::args().skip(1);
    let trees = words.next().and_then(|w| w.parse().ok()).unwrap_or(1000);
    let common = words.next().and_then(|w| w.parse().ok()).unwrap_or(0.01);
    let first: u64 = words.next().and_then(|w| w.parse().ok()).unwrap_or(0);
    let mut sum = Sum::default();
    for seed in first..first + trees {
        sum.add(&one(seed, common), seed, trees <= 40);
    }
    sum.print(common);
}

struct One {
    flows: usize,
    sets: usize,
    judgement: Judgement,
    seconds: f64,
    machine: String,
}

fn one(seed: u64, common: f64) -> One {
    let mut random = Random::from_seed(seed.wrapping_mul(0x1234_5678_9abc_def1));
    let machine = trees::tree(&mut random);
    let n = machine.solo.len();
    let noise = Noise { each: EACH, common };
    let least = LEAST.max(SIGMAS * noise.of_one(REPEATS));
    let design = Design { noise, repeats: REPEATS, sets: most_sets(n) };
    let mut draws = Random::from_seed(seed ^ 0xabcd_ef01);
    let ask = |set: Members| -> Result<Trial, std::convert::Infallible> {
        let shift = common * draws.normal();
        let rates = machine.rates(set).into_iter().map(|rate| {
            let repeats = (0..REPEATS).map(|_| (EACH * draws.normal()).exp()).sum::<f64>() / REPEATS as f64;
            rate * repeats * shift.exp()
        });
        Ok(Trial { set, rates: rates.collect(), repeats: REPEATS, spread: None })
    };
    let began = std::time::Instant::now();
    let Ok(outcome) = experiment(n, design, ask);
    let seconds = began.elapsed().as_secs_f64();
    let sets = permitted(&machine, &mut random);
    let judgement = judge(&machine, &outcome.hypothesis.groups, &sets, least);
    let machine = machine.groups.iter().map(|g| format!("{} {:.2}", g.members, g.capacity)).collect::<Vec<_>>();
    One { flows: n, sets: outcome.trials.len(), judgement, seconds, machine: machine.join("; ") }
}

#[derive(Default)]
struct Sum {
    trees: usize,
    identifiable: usize,
    exact: usize,
    found: usize,
    invented: usize,
    groups: usize,
    errors: Vec<f64>,
    most: f64,
    share: f64,
    seconds: f64,
    slowest: f64,
}

impl Sum {
    fn add(&mut self, one: &One, seed: u64, verbose: bool) {
        let j = &one.judgement;
        self.trees += 1;
        self.identifiable += j.identifiable;
        self.exact += j.exact;
        self.found += j.found;
        self.invented += j.invented;
        self.groups += j.groups;
        self.errors.extend(&j.errors);
        let share = one.sets as f64 / most_sets(one.flows) as f64;
        self.most = self.most.max(share);
        self.share += share;
        self.seconds += one.seconds;
        self.slowest = self.slowest.max(one.seconds);
        if !j.wrong.is_empty() || verbose {
            println!(
                "{seed}: n {} sets {} {:.2}s {}/{} {}",
                one.flows,
                one.sets,
                one.seconds,
                j.found,
                j.identifiable,
                j.wrong.join("; ")
            );
            if verbose && !j.wrong.is_empty() {
                println!("    {}", one.machine);
            }
        }
    }

    fn print(&mut self, common: f64) {
        self.errors.sort_by(f64::total_cmp);
        let median = self.errors.get(self.errors.len() / 2).copied().unwrap_or(f64::NAN);
        let trees = self.trees as f64;
        let percent = |a: usize, b: usize| 100.0 * a as f64 / b.max(1) as f64;
        println!("trees {}, noise {EACH} each, {common} common", self.trees);
        println!("identifiable {} ({:.2} a tree)", self.identifiable, self.identifiable as f64 / trees);
        println!(
            "found {:.2} %, exactly {:.2} %",
            percent(self.found, self.identifiable),
            percent(self.exact, self.identifiable)
        );
        println!("invented {:.2} % of {}", percent(self.invented, self.groups), self.groups);
        println!("capacity error median {:.2} %", 100.0 * median);
        println!(
            "sets: {:.0} % of what is allowed on average, {:.0} % at most",
            100.0 * self.share / trees,
            100.0 * self.most
        );
        println!("{:.2} s a tree, {:.2} s the slowest", self.seconds / trees, self.slowest);
    }
}
