//! `peerlane predict`: the rates that a machine should reach, and what binds them.

use std::io::{self, Write};

use peerlane::catalogue::Parts;
use peerlane::expectation::{ExpectedMatrix, predict};
use peerlane::export::json::{MachinePrediction, PredictionDocument};
use peerlane::model::Model;

use super::{between, heading, json};
use crate::args::PredictArgs;
use crate::render::comparison::{between as pairs_in_words, describe};
use crate::render::style::{self, paint};
use crate::render::text::{hang, wrap};
use crate::render::{WIDTH, matrix};
use crate::target::load;
use crate::{Failure, Outcome};

/// Bottlenecks shown below a matrix unless all are asked for.
const BOTTLENECKS: usize = 6;

pub(crate) fn run(args: &PredictArgs, out: &mut dyn Write) -> Result<Outcome, Failure> {
    let loaded = load(&args.machines.targets, args.machines.machine.as_deref())?;
    let mut predictions = Vec::new();
    for (i, machine) in loaded.machines.iter().enumerate() {
        let matrices = predict(&Model::new(machine, Parts::embedded()));
        if !args.detail.json {
            between(out, i == 0)?;
            heading(out, machine)?;
            if matrices.is_empty() {
                writeln!(out, "Too little is known of its links to predict anything.")?;
            }
            for expected in &matrices {
                show(out, expected, args.detail.verbose)?;
            }
        }
        predictions.push(MachinePrediction { name: machine.name.clone(), matrices });
    }
    if args.detail.json {
        json(out, &PredictionDocument::new(predictions))?;
    }
    Ok(Outcome { findings: false, incomplete: loaded.incomplete })
}

fn show(out: &mut dyn Write, expected: &ExpectedMatrix, verbose: bool) -> io::Result<()> {
    writeln!(out)?;
    hang(out, "", &describe(expected))?;
    matrix::numbers(out, &expected.rows, &expected.cols, &expected.values)?;
    let groups = by_bottleneck(expected);
    let most = if verbose { usize::MAX } else { BOTTLENECKS };
    for (what, pairs) in groups.iter().take(most) {
        for (i, line) in wrap(&format!("{}: {what}", pairs_in_words(pairs)), WIDTH - 14).iter().enumerate() {
            writeln!(out, "  {} {line}", paint(style::DIM, &format!("{:11}", if i == 0 { "bound by" } else { "" })))?;
        }
    }
    if groups.len() > most {
        writeln!(out, "  {}", paint(style::DIM, &format!("and {} more bottlenecks (-v)", groups.len() - most)))?;
    }
    Ok(())
}

/// What binds, with the pairs that it binds; the most common first.
fn by_bottleneck(expected: &ExpectedMatrix) -> Vec<(&str, Vec<(&str, &str)>)> {
    let mut groups: Vec<(&str, Vec<(&str, &str)>)> = Vec::new();
    for (row, line) in expected.rows.iter().zip(&expected.bottlenecks) {
        for (col, what) in expected.cols.iter().zip(line) {
            let Some(what) = what else { continue };
            match groups.iter_mut().find(|(w, _)| w == what) {
                Some((_, pairs)) => pairs.push((row, col)),
                None => groups.push((what, vec![(row, col)])),
            }
        }
    }
    groups.sort_by_key(|(_, pairs)| std::cmp::Reverse(pairs.len()));
    groups
}
