//! Published steps of training (`validation/training.csv`): from the first of a family, how long the others take.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;

use super::measured::Measured;
use super::split::Training;
use super::{Step, compute::Gpu};
use crate::cluster::{Cluster, Wanted};
use peerlane_machine::units::Seconds;
use peerlane_read::catalogue::system;

/// The table in `validation/training.md`.
const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../validation/training.md");
const FIGURES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../validation/training.csv");
const BEGIN: &str = "<!-- scores -->\n";
const END: &str = "<!-- end of scores -->\n";

struct Figure {
    family: String,
    node: String,
    gpus: usize,
    words: String,
    step: f64,
    first: bool,
}

fn figures() -> Vec<Figure> {
    let text = fs::read_to_string(FIGURES).unwrap();
    let mut found = Vec::new();
    for line in text.lines().skip(1) {
        let cells: Vec<&str> = line.splitn(10, ',').collect();
        let model = cells[1].replace(';', ",");
        let model = if model.contains('=') { model } else { format!("model={model}") };
        found.push(Figure {
            family: cells[0].to_owned(),
            node: cells[2].to_owned(),
            gpus: cells[3].parse().unwrap(),
            words: format!("{model},{}", cells[4].replace(';', ",")),
            step: cells[7].parse().unwrap(),
            first: cells[8] == "yes",
        });
    }
    found
}

/// Nodes on rails, with messages over all paths, as the published clusters' routing comes to.
fn cluster(node: &str, gpus: usize) -> Cluster {
    let machine = system(node).unwrap().unwrap();
    if gpus <= 8 {
        return Cluster { taking: (1, gpus), ..Cluster::single(machine) };
    }
    let wanted: Wanted = "rail".parse().unwrap();
    let nodes = gpus.div_ceil(8) as u32;
    let mut cluster = Cluster::of(machine, nodes, &wanted, None, Seconds::from_us(0.2)).unwrap();
    cluster.network.as_mut().unwrap().routing = "adaptive".parse().unwrap();
    cluster
}

fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// A line for each family, and one of all.
fn table() -> String {
    let figures = figures();
    let mut families: BTreeMap<usize, Vec<&Figure>> = BTreeMap::new();
    for figure in &figures {
        let at = figures.iter().position(|first| first.family == figure.family).unwrap();
        families.entry(at).or_default().push(figure);
    }
    let mut text = String::from(
        "| family | GPUs | first step by the data sheet | others by the first | as if nothing were communicated |\n| --- | --- | --- | --- | --- |\n",
    );
    let (mut by_first, mut linear, mut absolute) = (Vec::new(), Vec::new(), Vec::new());
    let percent = |share: f64| format!("{:+.1} %", 100.0 * share);
    for family in families.values() {
        let first = family.iter().find(|figure| figure.first).unwrap();
        let largest = family.iter().map(|figure| figure.gpus).max().unwrap();
        let all = cluster(&first.node, largest);
        let measured = Measured { time: first.step, gpus: first.gpus, words: first.words.clone() };
        let job = |figure: &Figure| Training::read(&figure.words).unwrap_or_else(|e| panic!("{}: {e}", figure.words));
        // operations of a GPU
        let work = |figure: &Figure| {
            let job = job(figure);
            let laid = job.laid(figure.gpus).unwrap_or_else(|e| panic!("{}: {e}", figure.words));
            let tokens = (laid.copies * laid.micro * job.split.mbs * job.seq) as f64;
            job.model.training_operations(job.seq as f64) * tokens / figure.gpus as f64
        };
        let time = |figure: &Figure, measured: Option<&Measured>| {
            let part = Cluster { taking: cluster(&figure.node, figure.gpus).taking, ..cluster(&figure.node, figure.gpus) };
            let job = job(figure);
            let scale = measured.map_or(1.0, |measured| measured.scale(&job, &all).unwrap_or_else(|e| panic!("{}: {e}", figure.words)));
            let gpu = Gpu::of(&part, job.format, job.pace, job.memory, scale).unwrap();
            let mut rates = super::rates::Rates::new(&part, figure.gpus, None).unwrap();
            super::training::Stepper::new(&job, &gpu, figure.gpus).unwrap().cost(&mut rates).unwrap().time()
        };
        let own = time(first, None) / first.step - 1.0;
        absolute.push(own.abs());
        let (mut predicted, mut without) = (Vec::new(), Vec::new());
        for figure in family.iter().filter(|figure| !figure.first) {
            let error = time(figure, Some(&measured)) / figure.step - 1.0;
            let straight = first.step * work(figure) / work(first) / figure.step - 1.0;
            by_first.push(error.abs());
            linear.push(straight.abs());
            predicted.push(percent(error));
            without.push(percent(straight));
        }
        let gpus: Vec<String> = family.iter().map(|figure| figure.gpus.to_string()).collect();
        writeln!(text, "| {} | {} | {} | {} | {} |", first.family, gpus.join(", "), percent(own), predicted.join(", "), without.join(", "))
            .unwrap();
    }
    let n = by_first.len();
    let close = by_first.iter().filter(|error| **error <= 0.1).count();
    writeln!(
        text,
        "\n{n} steps by the first of their family: {:.1} % in the median, {close} within 10 %; as if nothing were communicated {:.1} %. First steps by the \
         data sheet: {:.0} %.",
        100.0 * median(&mut by_first),
        100.0 * median(&mut linear),
        100.0 * median(&mut absolute),
    )
    .unwrap();
    text
}

#[test]
fn published_steps_are_met_as_the_page_says() {
    let fresh = table();
    let page = fs::read_to_string(PAGE).unwrap_or_default();
    let written = page.split_once(BEGIN).and_then(|(_, rest)| rest.split_once(END)).map(|(table, _)| table);
    if std::env::var_os("UPDATE_TRAINING").is_some() {
        let (before, after) = match (page.split_once(BEGIN), page.split_once(END)) {
            (Some((before, _)), Some((_, after))) => (before.to_owned(), after.to_owned()),
            _ => (page.clone(), String::new()),
        };
        return fs::write(PAGE, format!("{before}{BEGIN}{fresh}{END}{after}")).unwrap();
    }
    assert_eq!(written, Some(fresh.as_str()), "run UPDATE_TRAINING=1 cargo test -p peerlane-design published_steps");
}

#[test]
fn a_measured_step_is_met_by_itself() {
    let cluster = cluster("hgx-h100", 64);
    let words = "model=llama-3-8b,tp=2,micro=2";
    let measured: Measured = "7.5s@16,micro=4,pp=2".parse().unwrap();
    let step = Step::read("training", words).unwrap().unwrap();
    let (summary, _) = step.summary(&cluster, Some(&measured), None).unwrap();
    let same = Step::read("training", "model=llama-3-8b,tp=2,micro=4,pp=2").unwrap().unwrap();
    let part = Cluster { taking: (2, 8), ..cluster.clone() };
    let (own, _) = same.summary(&part, Some(&measured), None).unwrap();
    assert!((own.time / 7.5 - 1.0).abs() < 1e-6, "{}", own.time);
    assert!(summary.time > 0.0 && summary.computing.how.contains("measured"));
    for (wrong, why) in [("1us@16", "write TIME"), ("12s", "write TIME"), ("-1s@8", "write TIME"), ("5s@0", "write TIME")] {
        assert!(wrong.parse::<Measured>().unwrap_err().contains(why), "{wrong}");
    }
    for (wrong, why) in [("1ms@16", "communication alone"), ("1s@16", "data sheet"), ("9s@128", "64 GPUs"), ("9s@16,pp=3,lairs=2", "lairs")] {
        let measured: Measured = wrong.parse().unwrap();
        let refused = step.summary(&cluster, Some(&measured), None).unwrap_err().to_string();
        assert!(refused.contains(why), "{wrong}: {refused}");
    }
}
