//! Fits the model's constants to the figures of the catalogue and of published machines.
//!
//! `cargo run --release -p peerlane-fit -- FOLDER…` prints what it finds, `--leave-one-out` how well each machine is predicted
//! by a fit to all others. docs/fit.md describes the method.

#![allow(clippy::print_stdout)] // a program that prints its result

mod figures;
mod report;
mod solve;
mod spreads;
mod tree;
mod write;

use std::error::Error;
use std::fs;
use std::path::PathBuf;

use clap::Parser;
use peerlane::accuracy::Figure;
use peerlane::catalogue::{Parts, Spreads};
use serde::Deserialize;

use solve::Fitting;
use tree::{Spec, Tree};

#[derive(Parser)]
#[command(about = "Fits the model's constants to published figures")]
struct Arguments {
    /// Folders of system files with figures, besides the catalogue
    folders: Vec<PathBuf>,
    /// Predict each machine by a fit to all others
    #[arg(long)]
    leave_one_out: bool,
    /// Write constants into the part files of this folder
    #[arg(long, value_name = "FOLDER")]
    write: Option<PathBuf>,
    /// Write the spreads of predictions into this file
    #[arg(long, value_name = "FILE", requires = "leave_one_out")]
    spreads: Option<PathBuf>,
    /// Write the scores of machines that were left out into this file, as a table of Markdown
    #[arg(long, value_name = "FILE", requires = "leave_one_out")]
    scores: Option<PathBuf>,
    /// Also judge each machine by the fit to all others, and list what is reported as a fault
    #[arg(long, requires = "leave_one_out")]
    judge: bool,
    /// Print each figure
    #[arg(short, long)]
    verbose: bool,
}

/// The constants that are fitted.
#[derive(Deserialize)]
struct Constants {
    constant: Vec<Spec>,
}

fn main() -> Result<(), Box<dyn Error>> {
    let arguments = Arguments::parse();
    let Constants { constant: specs } = toml::from_str(include_str!("../constants.toml"))?;
    let machines = figures::read(&arguments.folders)?;
    let base = &Parts::embedded().clone().with_spreads(Spreads::default());
    let tree = Tree::new(specs, base, &machines);
    let fitting = Fitting::new(&tree, &machines, base);
    let fit = fitting.fit();
    report::constants(&tree, &fit);
    let score = |title: &str, predicted: &[(usize, Vec<Figure>)]| {
        report::scores(title, &machines, predicted, arguments.verbose);
    };
    let all = |fit_of: &dyn Fn(usize) -> solve::Fit| -> Vec<_> {
        let predicted = |number: usize| {
            let machine = &machines[number];
            let base = base.leaving_out(machine.name());
            (number, machine.predicted(&fit_of(number).parts(&tree, &base, number)))
        };
        (0..machines.len()).map(predicted).collect()
    };
    score("fitted", &all(&|_| fit.clone()));
    if arguments.leave_one_out {
        let without: Vec<solve::Fit> = (0..machines.len()).map(|number| fitting.fit_without(number, &fit)).collect();
        let left = all(&|number| without[number].clone());
        if arguments.verbose {
            score("each machine left out, by the ranges of constants alone", &left);
        }
        // what is missed over a link that may be narrower is its width, which the range has already
        let stated = |(m, f): &spreads::Left| f.predicted.is_none_or(|p| !machines[*m].may_be_narrower(p));
        let figures = left.iter().flat_map(|(m, all)| all.iter().map(move |f| (*m, f)));
        let figures: Vec<spreads::Left> = figures.filter(stated).collect();
        // of a machine, by the spreads that all others show
        let widened = |(machine, own): &(usize, Vec<Figure>)| {
            let others: Vec<spreads::Left> = figures.iter().filter(|(m, _)| m != machine).copied().collect();
            let spreads = spreads::spreads(&others);
            (*machine, own.iter().map(|figure| spreads::widened(figure, &spreads)).collect())
        };
        let widened: Vec<_> = left.iter().map(widened).collect();
        score("each machine left out", &widened);
        if let Some(file) = &arguments.scores {
            fs::write(file, report::page(machines.len(), &widened))?;
        }
        if arguments.judge {
            println!("\nfaults that are reported where each machine is left out");
            for (number, fit) in without.iter().enumerate() {
                let others: Vec<spreads::Left> = figures.iter().filter(|(m, _)| *m != number).copied().collect();
                let machine = &machines[number];
                let base = base.leaving_out(machine.name());
                let parts = fit.parts(&tree, &base, number).with_spreads(spreads::spreads(&others));
                report::faults(machine, &parts);
            }
        }
        let spreads = toml::to_string(&spreads::spreads(&figures))?;
        println!("\n{spreads}");
        if let Some(file) = &arguments.spreads {
            fs::write(
                file,
                format!(
                    "# Written by peerlane-fit: how far figures of machines that were left out lie from predictions.\n\n{spreads}"
                ),
            )?;
        }
    }
    if let Some(folder) = &arguments.write {
        write::write(folder, &tree, &fit, &machines, base)?;
    }
    Ok(())
}
