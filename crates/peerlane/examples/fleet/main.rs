//! Writes the runs of many made-up machines, one in a hundred of them sick, so that `peerlane check FOLDER/*.json` can be
//! tried: `cargo run --release --example fleet -- FOLDER [RUNS [SYSTEM]]`.

mod make;

use std::fs;
use std::io::{Error, Write};
use std::path::PathBuf;

use make::Maker;

/// One of so many is sick.
const SICK: usize = 100;

fn main() -> Result<(), Error> {
    let mut words = std::env::args().skip(1);
    let usage = || Error::other("write: fleet FOLDER [RUNS [SYSTEM]]");
    let folder = PathBuf::from(words.next().ok_or_else(usage)?);
    let runs = words.next().map_or(Ok(2000), |n| n.parse()).map_err(|_| usage())?;
    let system = words.next().unwrap_or_else(|| "h200x4-vm".to_owned());
    let maker = Maker::new(&system).ok_or_else(|| Error::other(format!("no system '{system}' with GPUs")))?;
    fs::create_dir_all(&folder)?;
    let mut sick = Vec::new();
    for n in 0..runs {
        let name = format!("node{n:04}");
        let fault = (n % SICK == SICK / 2).then(|| maker.sickness(n / SICK));
        if let Some(fault) = &fault {
            sick.push(format!("{name}: {fault:?}"));
        }
        fs::write(folder.join(format!("{name}.json")), maker.run(&name, n as u64, fault))?;
    }
    writeln!(
        std::io::stdout(),
        "{runs} runs in {}, {} of them sick:\n{}",
        folder.to_string_lossy(),
        sick.len(),
        sick.join("\n")
    )
}
