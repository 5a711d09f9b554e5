//! Published steps of training (`validation/training.csv`): from the first of a family, how long the others take.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;

use super::Step;
use super::compute::Gpu;
use super::measured::Measured;
use super::rates::Rates;
use super::split::Training;
use super::training::Stepper;
use crate::cluster::{Cluster, Wanted};
use peerlane_machine::units::Seconds;
use peerlane_read::catalogue::system;

/// The table in `validation/training.md`.
const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../validation/training.md");
const FIGURES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../validation/training.csv");
const LIST: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../validation/training-predicted.csv");
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

/// Families by how their names begin, in the order of the table.
const GROUPS: [(&str, &str); 11] = [
    ("megatron-2021-weak", "Megatron 2021, 1.7B–1T"),
    ("megatron-2021-", "Megatron 2021, 175B, 530B"),
    ("zero3-2021-", "ZeRO-3 2021, 175B, 530B"),
    ("megatron-2022", "Megatron 2022, 22B–1T"),
    ("megascale-megatron", "Megatron 2024, 175B"),
    ("megascale-", "MegaScale, 175B"),
    ("llama3-", "Llama 3 405B"),
    ("mosaic-h100", "MosaicML H100, 1B–70B"),
    ("mosaic-a100", "MosaicML A100, 3B–13B"),
    ("torchtitan", "torchtitan, 8B"),
    ("nemo-", "NeMo FP8, 7B–175B"),
];

/// What is predicted of a figure.
struct Scored<'f> {
    figure: &'f Figure,
    /// By the first of its family; of the first itself by the data sheet.
    time: f64,
    /// As if nothing were communicated.
    straight: f64,
}

fn scores(figures: &[Figure]) -> Vec<Scored<'_>> {
    let mut families: BTreeMap<&str, Vec<&Figure>> = BTreeMap::new();
    figures.iter().for_each(|figure| families.entry(&figure.family).or_default().push(figure));
    let job = |figure: &Figure| Training::read(&figure.words).unwrap_or_else(|e| panic!("{}: {e}", figure.words));
    // operations of a GPU
    let work = |figure: &Figure| {
        let job = job(figure);
        let laid = job.laid(figure.gpus).unwrap_or_else(|e| panic!("{}: {e}", figure.words));
        let tokens = (laid.copies * laid.micro * job.split.mbs * job.seq) as f64;
        job.model.training_operations(job.seq as f64) * tokens / figure.gpus as f64
    };
    let mut found = Vec::new();
    for figure in figures {
        let family = &families[figure.family.as_str()];
        let first = family.iter().find(|figure| figure.first).unwrap();
        let all = cluster(&first.node, family.iter().map(|figure| figure.gpus).max().unwrap());
        let measured = Measured { time: first.step, gpus: first.gpus, words: first.words.clone() };
        let measured = (!figure.first).then_some(&measured);
        let (part, job) = (cluster(&figure.node, figure.gpus), job(figure));
        let scale = measured.map_or(Ok(1.0), |measured| measured.scale(&job, &all));
        let scale = scale.unwrap_or_else(|e| panic!("{}: {e}", figure.words));
        let gpu = Gpu::of(&part, job.format, job.pace, job.memory, scale).unwrap();
        let mut rates = Rates::new(&part, figure.gpus, None).unwrap();
        let time = Stepper::new(&job, &gpu, figure.gpus).unwrap().cost(&mut rates).unwrap().time();
        found.push(Scored { figure, time, straight: first.step * work(figure) / work(first) });
    }
    found
}

fn table(scores: &[Scored]) -> String {
    let mut text = String::from("|error in %|n|median|worst|linear|first|\n|---|---|---|---|---|---|\n");
    let group = |family: &str| GROUPS.iter().position(|(begin, _)| family.starts_with(begin)).unwrap();
    let errors = |of: Option<usize>, first: bool, straight: bool| -> Vec<f64> {
        let own =
            scores.iter().filter(|s| s.figure.first == first && of.is_none_or(|of| group(&s.figure.family) == of));
        own.map(|s| if straight { s.straight } else { s.time } / s.figure.step - 1.0).collect()
    };
    let median_of = |errors: &[f64]| {
        let mut all: Vec<f64> = errors.iter().map(|error| error.abs()).collect();
        median(&mut all)
    };
    let mut line = |name: &str, of: Option<usize>| {
        let (own, straight, first) = (errors(of, false, false), errors(of, false, true), errors(of, true, false));
        let worst = own.iter().copied().max_by(|a, b| a.abs().total_cmp(&b.abs())).unwrap();
        writeln!(
            text,
            "|{name}|{}|{:.1}|{:+.1}|{:.1}|{:.0}|",
            own.len(),
            100.0 * median_of(&own),
            100.0 * worst,
            100.0 * median_of(&straight),
            100.0 * median_of(&first)
        )
        .unwrap();
    };
    (0..GROUPS.len()).for_each(|of| line(GROUPS[of].1, Some(of)));
    line("all", None);
    text
}

/// Every figure with what is predicted of it.
fn list(scores: &[Scored]) -> String {
    let mut text = String::from("family,gpus,measured_s,predicted_s,by,without_communication_s\n");
    for Scored { figure, time, straight } in scores {
        let by = if figure.first { "data sheet" } else { "first step" };
        writeln!(text, "{},{},{},{time:.4},{by},{straight:.4}", figure.family, figure.gpus, figure.step).unwrap();
    }
    text
}

#[test]
fn published_steps_are_met_as_the_page_says() {
    let figures = figures();
    let scores = scores(&figures);
    let (fresh, listed) = (table(&scores), list(&scores));
    let page = fs::read_to_string(PAGE).unwrap_or_default();
    let written = page.split_once(BEGIN).and_then(|(_, rest)| rest.split_once(END)).map(|(table, _)| table);
    if std::env::var_os("UPDATE_TRAINING").is_some() {
        let (before, after) = match (page.split_once(BEGIN), page.split_once(END)) {
            (Some((before, _)), Some((_, after))) => (before.to_owned(), after.to_owned()),
            _ => (page.clone(), String::new()),
        };
        fs::write(LIST, listed).unwrap();
        return fs::write(PAGE, format!("{before}{BEGIN}{fresh}{END}{after}")).unwrap();
    }
    assert!(fs::read_to_string(LIST).unwrap() == listed, "validation/training-predicted.csv is stale");
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
    for (wrong, why) in
        [("1@@16", "write TIME"), ("12s", "write TIME"), ("-1s@8", "write TIME"), ("5s@0", "write TIME")]
    {
        assert!(wrong.parse::<Measured>().unwrap_err().contains(why), "{wrong}");
    }
    for (wrong, why) in [
        ("1ms@16", "communication alone"),
        ("0.4s@16", "data sheet"),
        ("9s@128", "64 GPUs"),
        ("9s@16,pp=3,lairs=2", "lairs"),
    ] {
        let measured: Measured = wrong.parse().unwrap();
        let refused = step.summary(&cluster, Some(&measured), None).unwrap_err().to_string();
        assert!(refused.contains(why), "{wrong}: {refused}");
    }
}
