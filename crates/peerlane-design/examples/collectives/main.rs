//! Predictions of collectives next to published figures: `cargo run --release -p peerlane-design --example collectives -- FILE.csv…`.
//! A file of points has the columns that `points.rs` lists; `NAME=FILE.txt` is the table of nccl-tests of one process on all
//! GPUs of the machine NAME of the catalogue, `NAME*2=FILE.txt` on two of them, without NVLink SHARP.

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a program prints")]

mod points;

use std::path::Path;
use std::process::ExitCode;

use peerlane_machine::transfer::Collective;
use peerlane_machine::units::Bytes;
use peerlane_read::input_file::{self, Kind};
use points::{LARGE, Point, SMALL, Scored, geometric, quantile, read, recorded, score};

fn main() -> ExitCode {
    let mut all = Vec::new();
    for argument in std::env::args().skip(1) {
        let found = match argument.split_once('=') {
            Some((machine, file)) => table(machine, file),
            None => read(Path::new(&argument)),
        };
        match found {
            Ok(points) => all.extend(points),
            Err(why) => {
                eprintln!("{why}");
                return ExitCode::from(2);
            }
        }
    }
    let (scored, without) = score(all);
    println!(
        "machine | nodes x GPUs | collective | size | setting | measured us | predicted us | by | error of bandwidth | source"
    );
    for s in &scored {
        let Point { machine, nodes, gpus, collective, size, setting, time, source, .. } = &s.point;
        println!(
            "{machine} | {nodes} x {gpus} | {} | {} | {setting} | {time:.1} | {:.1} | {}+{} | {:+.1} % | {source}",
            collective.name(),
            Bytes(*size),
            s.predicted.time * 1e6,
            s.predicted.algorithm,
            s.predicted.protocol,
            100.0 * s.error()
        );
    }
    for (point, why) in &without {
        println!("{} {} {}: not predicted: {why}", point.machine, point.target, point.setting);
    }
    let of = |name: &str, which: &dyn Fn(&Scored) -> bool| {
        let some: Vec<&Scored> = scored.iter().filter(|s| which(s)).collect();
        if let (Some(median), Some(high)) = (quantile(&some, 0.5), quantile(&some, 0.85)) {
            println!(
                "{name}: {} points, median {median:.1} %, 85th percentile {high:.1} %, geometric mean {:.1} %",
                some.len(),
                geometric(&some)
            );
        }
    };
    of("all", &|_| true);
    of("large", &|s| s.point.size >= LARGE);
    of("large, one node", &|s| s.point.size >= LARGE && s.point.nodes == 1);
    of("large, several nodes", &|s| s.point.size >= LARGE && s.point.nodes > 1);
    of("middle", &|s| s.point.size < LARGE && s.point.size > SMALL);
    of("small", &|s| s.point.size <= SMALL);
    ExitCode::SUCCESS
}

fn table(machine: &str, file: &str) -> Result<Vec<Point>, String> {
    let text = input_file::text(Path::new(file), Kind::Source)?;
    let (target, gpus) = machine.split_once('*').unwrap_or((machine, "4"));
    let name = Path::new(file).file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let collective = Collective::ALL.into_iter().find(|c| name.starts_with(&c.name().replace('-', "_")));
    let like = Point {
        machine: machine.to_owned(),
        target: target.to_owned(),
        nodes: 1,
        gpus: gpus.parse().map_err(|_| format!("'{gpus}' is no number of GPUs"))?,
        nics: None,
        network: String::new(),
        collective: collective.unwrap_or(Collective::AllReduce),
        size: 0,
        setting: if name.contains("graph") { "nvls off; graph" } else { "nvls off; one process" }.to_owned(),
        time: 0.0,
        source: file.to_owned(),
    };
    Ok(recorded(&text, &like))
}
