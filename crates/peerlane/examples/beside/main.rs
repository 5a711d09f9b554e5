//! What peerlane measured beside what other programs measured on the same machine: the tables in
//! `docs/measurement.md`.
//!
//! `cargo run -p peerlane --example beside -- FOLDER`, a folder that `scripts/gpu/beside.sh` filled. What is absent
//! there is said and skipped.
#![allow(clippy::print_stdout, clippy::print_stderr)]

mod counterpart;
mod tables;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use peerlane::curve::Curve;
use peerlane::evidence::read_path;
use peerlane::fact::Fact;
use peerlane::input_file::{self, Kind};
use peerlane::matrix::{Direction, Matrix, Quantity};
use peerlane::run::{Run, curves};
use tables::{beside, better, line, number, repeats, verdict};

fn main() -> ExitCode {
    let Some(folder) = std::env::args_os().nth(1) else {
        eprintln!("usage: beside FOLDER");
        return ExitCode::from(2);
    };
    print!("{}", Folder(PathBuf::from(folder)).report());
    ExitCode::SUCCESS
}

/// Where the outputs lie.
struct Folder(PathBuf);

impl Folder {
    fn report(&self) -> String {
        let [first, second, quick, again, subsets, collectives] =
            ["first", "second", "quick", "quick-again", "subsets", "collectives"].map(|name| self.run(name));
        let [bandwidth, sample, sample_again, nccl] =
            ["nvbandwidth", "p2p", "p2p-again", "all_reduce_perf"].map(|name| self.facts(name));
        let [bandwidth, sample, sample_again] = [bandwidth, sample, sample_again].map(matrices);
        let mut out = String::new();
        if let Some(run) = &first {
            // what the default plan leaves to others
            let mut cells = run.cells.clone();
            cells.extend(subsets.iter().flat_map(|run| run.cells.clone()));
            let (loads, rates): (Vec<_>, Vec<_>) =
                bandwidth.iter().cloned().partition(|m| m.quantity == Quantity::LoadLatency);
            section(&mut out, "Rates beside nvbandwidth", !rates.is_empty(), || beside("nvbandwidth", &rates, &cells));
            section(&mut out, "Dependent loads beside nvbandwidth", !loads.is_empty(), || {
                beside("nvbandwidth", &loads, &cells)
            });
            let all: Vec<Matrix> = [&bandwidth, &sample, &sample_again].into_iter().flatten().cloned().collect();
            section(&mut out, "Beside the better of them", !all.is_empty(), || {
                let best = better(&all);
                let (all, missing) = verdict(&best, &cells);
                format!("{}\n{missing} of {all} cells are below 0.99.\n", beside("the better", &best, &cells))
            });
        }
        for (name, run, theirs) in [("Quick", &quick, &sample), ("Quick again", &again, &sample_again)] {
            let title = format!("{name} beside p2pBandwidthLatencyTest");
            if let Some(run) = run {
                section(&mut out, &title, !theirs.is_empty(), || beside("the sample", theirs, &run.cells));
            }
        }
        if let Some((a, b)) = first.as_ref().zip(second.as_ref()) {
            section(&mut out, "The same plan twice", true, || repeats(&a.cells, &b.cells));
        }
        let runs = [("first", &first), ("second", &second), ("quick", &quick), ("quick-again", &again)];
        let runs: Vec<_> = runs.into_iter().filter_map(|(name, run)| Some((name, run.as_ref()?))).collect();
        let times = input_file::text(&self.0.join("times.tsv"), Kind::Source).unwrap_or_default();
        section(&mut out, "Wall clock", true, || clocks(&seconds(&times), &runs));
        if let Some(run) = &collectives {
            let theirs = nccl.iter().find_map(|fact| if let Fact::Curve(curve) = fact { Some(curve) } else { None });
            let ours = curves(&run.cells).into_iter().find(|curve| curve.what == "all-reduce");
            section(&mut out, "All-reduce beside nccl-tests", true, || match theirs.zip(ours.as_ref()) {
                Some((theirs, ours)) => all_reduce(theirs, ours),
                None => "One of them has no all-reduce.\n".to_owned(),
            });
        }
        out
    }

    fn run(&self, name: &str) -> Option<Run> {
        let path = self.0.join(format!("{name}.json"));
        let text = input_file::text(&path, Kind::Source).map_err(|error| absent(&path, &error)).ok()?;
        Run::from_json(&text).map_err(|error| absent(&path, &error)).ok()
    }

    fn facts(&self, name: &str) -> Vec<Fact> {
        let path = self.0.join(format!("{name}.out"));
        let found = read_path(&path).map_err(|error| absent(&path, &error)).unwrap_or_default();
        found.warnings.iter().for_each(|warning| absent(&path, &warning.message));
        found.evidence.into_iter().map(|e| e.fact).collect()
    }
}

fn absent(path: &Path, why: &dyn std::fmt::Display) {
    eprintln!("{}: {why}", path.to_string_lossy());
}

/// The matrices, without the shares between GPUs, whose sums stand beside them.
fn matrices(facts: Vec<Fact>) -> Vec<Matrix> {
    let share = |m: &Matrix| m.direction == Some(Direction::BidirectionalShare) && m.p2p.is_some();
    let matrix = |fact| if let Fact::Matrix(m) = fact { Some(m) } else { None };
    facts.into_iter().filter_map(matrix).filter(|m| !share(m)).collect()
}

fn section(out: &mut String, title: &str, is_there: bool, text: impl FnOnce() -> String) {
    if is_there {
        line(out, &format!("### {title}\n\n{}", text()));
    }
}

/// Seconds and exit status of each program; of several runs the last counts.
fn seconds(times: &str) -> BTreeMap<&str, (f64, &str)> {
    fn row(row: &str) -> Option<(&str, (f64, &str))> {
        let mut words = row.split('\t');
        let (name, seconds, status) = (words.next()?, words.next()?.parse().ok()?, words.next()?);
        Some((name, (seconds, status.trim())))
    }
    times.lines().filter_map(row).collect()
}

/// Whole processes, and of ours what is initialisation and what the steps take.
fn clocks(seconds: &BTreeMap<&str, (f64, &str)>, runs: &[(&str, &Run)]) -> String {
    const AGAINST: [(&str, &str); 4] =
        [("first", "nvbandwidth"), ("second", "nvbandwidth"), ("quick", "p2p"), ("quick-again", "p2p-again")];
    let mut out = String::from("| program | whole process | initialisation | steps |\n|---|--:|--:|--:|\n");
    let told = |name: &str| match seconds.get(name) {
        Some((s, "0")) => format!("{s:.2} s"),
        Some((s, status)) => format!("{s:.2} s, exit status {status}"),
        None => "not timed".to_owned(),
    };
    for (name, run) in runs {
        let start = run.conditions.initialisation.map_or("not known".to_owned(), |s| format!("{:.2} s", s.seconds()));
        let whole = told(&format!("peerlane-{name}"));
        line(&mut out, &format!("| peerlane-{name} | {whole} | {start} | {:.2} s |", run.wall.seconds()));
    }
    let is_run = |name: &str| runs.iter().any(|(run, _)| name.strip_prefix("peerlane-") == Some(run));
    for name in seconds.keys().filter(|name| !is_run(name)) {
        line(&mut out, &format!("| {name} | {} | | |", told(name)));
    }
    let mut shares = String::new();
    for (ours, theirs) in AGAINST {
        let run = runs.iter().find(|(name, _)| *name == ours).map(|(_, run)| run);
        let whole = seconds.get(format!("peerlane-{ours}").as_str());
        let (Some(run), Some((whole, _)), Some((other, _))) = (run, whole, seconds.get(theirs)) else { continue };
        let apart = run.conditions.initialisation.map(|s| (whole - s.seconds()) / other);
        let apart = apart.map_or_else(String::new, |share| format!("; initialisation apart {share:.3}"));
        line(&mut shares, &format!("* peerlane-{ours} / {theirs}: {:.3}{apart}", whole / other));
    }
    if !shares.is_empty() {
        line(&mut out, &format!("\n{}", shares.trim_end()));
    }
    out
}

/// By size; the ratio is that of the times, which are printed with more digits than small bandwidths.
fn all_reduce(theirs: &Curve, ours: &Curve) -> String {
    let at = |curve: &Curve, name: &str, size| {
        let i = curve.sizes.iter().position(|s| *s == size)?;
        curve.series.iter().find(|s| s.name == name)?.values.get(i).copied().flatten()
    };
    let mut out =
        String::from("| size | nccl-tests | busbw | peerlane | busbw | ratio of busbw |\n|--:|--:|--:|--:|--:|--:|\n");
    let (mut both, mut missing) = (0, 0);
    for &size in &theirs.sizes {
        let [time, bus] = ["time out-of-place", "busbw out-of-place"].map(|name| at(theirs, name, size));
        let [our_time, our_bus] = ["latency", "bus bandwidth"].map(|name| at(ours, name, size));
        let (Some(time), Some(bus), Some(our_time), Some(our_bus)) = (time, bus, our_time, our_bus) else { continue };
        let ratio = time / our_time;
        both += 1;
        missing += usize::from((ratio - 1.0).abs() > 0.02);
        let sides = [(time, bus), (our_time, our_bus)].map(|(t, b)| format!("{} us | {} GB/s", number(t), number(b)));
        line(&mut out, &format!("| {size} | {} | {} | {ratio:.3} |", sides[0], sides[1]));
    }
    line(&mut out, &format!("\n{missing} of {both} sizes are more than 2 % apart."));
    out
}

#[cfg(test)]
mod tests {
    use peerlane::curve::Series;
    use peerlane::evidence::{Text, scan_text};
    use peerlane::units::Bytes;

    use super::*;

    #[test]
    fn of_several_times_the_last_counts() {
        let times = seconds("p2p\t2.30\t0\nnvbandwidth\t200.10\t0\np2p\t2.50\t3\ncut\t1");
        assert_eq!(times, BTreeMap::from([("nvbandwidth", (200.1, "0")), ("p2p", (2.5, "3"))]));
        assert!(clocks(&times, &[]).contains("| p2p | 2.50 s, exit status 3 | | |"));
    }

    #[test]
    fn an_all_reduce_is_compared_size_by_size() {
        let text = "# size count type redop root time algbw busbw #wrong time algbw busbw #wrong\n\
                    8 2 float sum -1 20.0 0.0 0.0 0 19.0 0.0 0.0 0\n1024 256 float sum -1 30.0 1.0 1.5 0 19.0 0.0 0.0 0\n";
        let found = scan_text(&Text::new("nccl", text.as_bytes()));
        let [evidence] = found.evidence.as_slice() else { panic!("{found:#?}") };
        let Fact::Curve(theirs) = &evidence.fact else { panic!("{evidence:#?}") };
        let series = |name: &str, values: [f64; 2]| Series {
            name: name.to_owned(),
            unit: None,
            values: values.map(Some).to_vec(),
        };
        let ours = Curve {
            what: "all-reduce".to_owned(),
            sizes: vec![Bytes(1024), Bytes(8)],
            series: vec![series("latency", [30.3, 16.0]), series("bus bandwidth", [1.49, 0.01])],
            ..theirs.clone()
        };
        let table = all_reduce(theirs, &ours);
        assert!(table.contains("| 8 B | 20.00 us | 0.00 GB/s | 16.00 us | 0.01 GB/s | 1.250 |"), "{table}");
        assert!(table.contains("| 0.990 |") && table.ends_with("1 of 2 sizes are more than 2 % apart.\n"), "{table}");
    }
}
