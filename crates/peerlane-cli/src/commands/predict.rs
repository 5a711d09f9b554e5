//! `peerlane predict`: the rates that a machine should reach, and what binds them.

use std::io::{self, Write};

use peerlane::catalogue::Parts;
use peerlane::expectation::{ExpectedMatrix, predict};
use peerlane::export::json::{MachinePrediction, PredictionDocument};
use peerlane::fabric::Fabric;
use peerlane::model::Model;

use super::{between, heading, json};
use crate::args::PredictArgs;
use crate::render::comparison::{between as pairs_in_words, describe};
use crate::render::style::{self, paint};
use crate::render::text::{hang, wrap};
use crate::render::{WIDTH, matrix};
use crate::target::load_changed;
use crate::{Failure, Outcome};

/// Bottlenecks shown below a matrix unless all are asked for.
const BOTTLENECKS: usize = 6;

pub(crate) fn run(args: &PredictArgs, out: &mut dyn Write) -> Result<Outcome, Failure> {
    let loaded = load_changed(&args.machines.targets, args.machines.machine.as_deref(), &args.what_if.edits)?;
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
                show(out, &machine.fabric, expected, args.detail.verbose)?;
            }
        }
        predictions.push(MachinePrediction { name: machine.name.clone(), matrices });
    }
    if args.detail.json {
        json(out, &PredictionDocument::new(predictions))?;
    }
    Ok(Outcome { findings: false, incomplete: loaded.incomplete })
}

fn show(out: &mut dyn Write, fabric: &Fabric, expected: &ExpectedMatrix, verbose: bool) -> io::Result<()> {
    writeln!(out)?;
    hang(out, "", &describe(expected))?;
    matrix::numbers(out, &expected.rows, &expected.cols, &expected.values)?;
    let groups = by_bottleneck(expected, |what| if verbose { what.to_owned() } else { alike(fabric, what) });
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

/// The text with `#` for the numbers of nodes, so that what binds many pairs alike is said once.
fn alike(fabric: &Fabric, what: &str) -> String {
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    let mut out = String::with_capacity(what.len());
    let mut rest = what;
    while !rest.is_empty() {
        let end = rest.find(|c| !is_word(c)).unwrap_or(rest.len());
        let (word, tail) = rest.split_at(end);
        match word.trim_end_matches(|c: char| c.is_ascii_digit()) {
            stem if stem.len() < word.len() && fabric.find(word).is_some() => {
                out.push_str(stem);
                out.push('#');
            }
            _ => out.push_str(word),
        }
        let mut others = tail.chars();
        out.extend(others.next());
        rest = others.as_str();
    }
    out
}

/// What binds, with the pairs that it binds; the most common first.
fn by_bottleneck(expected: &ExpectedMatrix, said: impl Fn(&str) -> String) -> Vec<(String, Vec<(&str, &str)>)> {
    let mut groups: Vec<(String, Vec<(&str, &str)>)> = Vec::new();
    for (row, line) in expected.rows.iter().zip(&expected.bottlenecks) {
        for (col, what) in expected.cols.iter().zip(line) {
            let Some(what) = what else { continue };
            let what = said(what);
            match groups.iter_mut().find(|(w, _)| *w == what) {
                Some((_, pairs)) => pairs.push((row, col)),
                None => groups.push((what, vec![(row, col)])),
            }
        }
    }
    groups.sort_by_key(|(_, pairs)| std::cmp::Reverse(pairs.len()));
    groups
}
