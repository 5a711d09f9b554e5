//! Benchmark results by message size, one line per table.

use std::io::{self, Write};

use peerlane::curve::Curve;
use peerlane::machine::Machine;
use peerlane::names::is_host;
use peerlane::units::Bytes;

use super::line_width;
use super::table::columns;
use super::text::{fit, width};

/// Writes one line a table.
pub fn write(out: &mut dyn Write, machine: &Machine) -> io::Result<()> {
    let curves: Vec<&Curve> = machine.curves.iter().map(|(curve, _)| curve).collect();
    if curves.is_empty() {
        return Ok(());
    }
    let rates: Vec<String> = curves
        .iter()
        .map(|curve| {
            curve.best().map(|at| format!("{} at {}", at.rate, at.size)).or_else(|| largest(curve)).unwrap_or_default()
        })
        .collect();
    let times: Vec<String> = curves.iter().map(|curve| smallest(curve).unwrap_or_default()).collect();
    let headings = ["Measured by message size", "highest rate", "smallest message"].map(str::to_owned);
    let widest = |all: &[String]| all.iter().map(|text| width(text)).max().unwrap_or(0);
    // names give way to numbers
    let numbers = widest(&rates).max(width(&headings[1])) + widest(&times).max(width(&headings[2])) + 4;
    let named = |curve: &&Curve| fit(&name(curve), line_width().saturating_sub(2 + numbers));
    let rows = curves.iter().map(named).zip(rates).zip(times);
    let rows: Vec<Vec<String>> = rows.map(|((name, rate), time)| vec![name, rate, time]).collect();
    writeln!(out)?;
    columns(out, &headings, &rows, 1)
}

/// `all_reduce_perf, 8 ranks, bus bandwidth`.
fn name(curve: &Curve) -> String {
    let mut words = vec![curve.what.clone()];
    let gpus = curve.ends.iter().filter(|end| !is_host(end)).count();
    match (curve.settings.get("ranks"), curve.settings.get("hosts").map(String::as_str)) {
        (Some(ranks), Some("1") | None) => words.push(format!("{ranks} ranks")),
        (Some(ranks), Some(hosts)) => words.push(format!("{ranks} ranks on {hosts} hosts")),
        (None, _) if !curve.ends.is_empty() && gpus <= 2 => words.push(curve.ends.join(" → ")),
        (None, _) => {}
    }
    if let Some((send, receive)) = curve.settings.get("buffers").and_then(|b| b.split_once("Receive")) {
        let memory = |text: &str| if text.contains("DEVICE") { "GPU" } else { "host" };
        words.push(format!("{} → {} memory", memory(send), memory(receive)));
    }
    if curve.main_rates().is_some_and(|s| s.name.starts_with("busbw")) {
        words.push("bus bandwidth".to_owned());
    }
    words.join(", ")
}

/// Times of larger messages add nothing to their rates.
const SMALL: Bytes = Bytes(64 << 10);

/// The first time of the largest message, of a table without rates: `10200.90 µs at 32 MiB`.
fn largest(curve: &Curve) -> Option<String> {
    let (series, unit) = curve.series.iter().find_map(|series| Some((series, series.unit?)))?;
    let (size, value) = curve.sizes.iter().zip(&series.values).max_by_key(|(size, _)| **size)?;
    Some(format!("{:.2} µs at {size}", unit.time((*value)?)?.us()))
}

/// The time of the smallest message: `6.2 µs at 8 B`.
fn smallest(curve: &Curve) -> Option<String> {
    const NAMES: [&str; 5] = ["time", "Latency", "Avg Latency", "t_typical", "t_avg"];
    let series =
        NAMES.iter().find_map(|name| curve.series.iter().find(|s| s.name.starts_with(name) && s.unit.is_some()))?;
    let unit = series.unit?;
    let (size, value) =
        curve.sizes.iter().zip(&series.values).filter(|(size, _)| **size <= SMALL).min_by_key(|(size, _)| **size)?;
    let seconds = unit.time((*value)?)?;
    Some(format!("{:.2} µs at {size}", seconds.us()))
}
