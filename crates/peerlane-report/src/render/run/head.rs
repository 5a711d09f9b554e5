//! The machine of a run, and when and under which conditions it was measured.

use std::collections::BTreeMap;
use std::io::{self, Write};

use peerlane::date::utc;
use peerlane::names::ranges;
use peerlane::run::{Cell, FlagKind, GpuState, Phase, Run};
use peerlane::units::Seconds;

use super::remarks;
use crate::render::findings::sentences;
use crate::render::style::{self, paint};
use crate::render::text::{count, hang, headline};

/// Writes the machine's name and, in a few lines, the conditions of the run.
pub(super) fn write(out: &mut dyn Write, run: &Run, verbose: bool) -> io::Result<()> {
    let kind = if run.machine.system.is_some() { "simulated machine" } else { run.machine.target.as_str() };
    let name = &run.machine.name;
    let title = if kind == name { name.clone() } else { format!("{name} ({kind})") };
    for line in headline(&title) {
        writeln!(out, "{}", paint(style::HEADING, &line))?;
    }
    hang(out, "", &when(run))?;
    if verbose && !run.conditions.startup.is_empty() {
        hang(out, "", &start(run))?;
    }
    hang(out, "", &with(run))?;
    hang(out, "", &states(run))?;
    hang(out, "", &counts(run))
}

/// `measured 2026-11-21 04:12 UTC in 9.8 s, after 3.2 s of initialisation`
fn when(run: &Run) -> String {
    let mut text = "measured".to_owned();
    if run.conditions.began > 0 {
        text.push_str(&format!(" {}", date(run.conditions.began)));
    }
    let simulated = if run.machine.system.is_some() { " of simulated time" } else { "" };
    text.push_str(&format!(" in {}{simulated}", time(run.wall)));
    if let Some(initialisation) = run.conditions.initialisation {
        text.push_str(&format!(", after {} of initialisation", time(initialisation)));
    }
    text
}

/// `start: discovery 0.00–0.31 s, cuInit 0.01–0.30 s`
fn start(run: &Run) -> String {
    let part = |phase: &Phase| format!("{} {:.2}–{:.2} s", phase.what, phase.began.seconds(), phase.ended.seconds());
    let parts: Vec<String> = run.conditions.startup.iter().map(part).collect();
    format!("start: {}", parts.join(", "))
}

/// The GPUs and the software.
fn with(run: &Run) -> String {
    let c = &run.conditions;
    let mut parts = products(&run.fabric);
    let mut named = |what: &str, version: &Option<String>| {
        parts.extend(version.as_ref().map(|v| format!("{what} {v}")));
    };
    named("driver", &c.driver);
    named("CUDA", &c.cuda);
    named("NCCL", &c.nccl);
    named("kernel", &c.kernel);
    named("on", &c.host);
    parts.push(format!("peerlane {}", run.peerlane));
    parts.join(" · ")
}

/// `4 × NVIDIA H200`, for each product.
fn products(fabric: &serde_json::Value) -> Vec<String> {
    let mut products: BTreeMap<&str, usize> = BTreeMap::new();
    for node in fabric.get("nodes").and_then(|n| n.as_array()).into_iter().flatten() {
        if node.get("kind").and_then(|k| k.as_str()) == Some("gpu") {
            *products.entry(node.get("product").and_then(|p| p.as_str()).unwrap_or("GPU")).or_default() += 1;
        }
    }
    products.into_iter().map(|(product, n)| format!("{n} × {product}")).collect()
}

/// `GPUs 34–41 °C before, 45–52 °C after; other programs on GPU2`
fn states(run: &Run) -> String {
    let span = |states: &[GpuState]| {
        let degrees = || states.iter().filter_map(|s| s.temperature_c);
        let (low, high) = (degrees().reduce(f64::min)?, degrees().reduce(f64::max)?);
        Some(if low.round() == high.round() { format!("{low:.0} °C") } else { format!("{low:.0}–{high:.0} °C") })
    };
    let c = &run.conditions;
    let mut parts = match (span(&c.before), span(&c.after)) {
        (Some(before), Some(after)) => vec![format!("GPUs {before} before, {after} after")],
        (Some(one), None) | (None, Some(one)) => vec![format!("GPUs {one}")],
        (None, None) => Vec::new(),
    };
    let names = |wanted: fn(&GpuState) -> bool| {
        let named: Vec<&str> = c.before.iter().filter(|s| wanted(s)).map(|s| s.gpu.as_str()).collect();
        (!named.is_empty()).then(|| ranges(&named))
    };
    parts.extend(names(|s| s.processes.unwrap_or(0) > 0).map(|n| format!("other programs on {n}")));
    let clocks: Vec<String> = c
        .after
        .iter()
        .filter(|s| !s.clock_event_reasons.is_empty())
        .map(|s| format!("clocks of {} limited by {}", s.gpu, s.clock_event_reasons.join(", ")))
        .collect();
    parts.extend(clocks);
    parts.join("; ")
}

/// `96 values from 92 steps; 3 without a value: 2 hung, 1 not applicable`
fn counts(run: &Run) -> String {
    let (done, all) = (run.steps_done().len(), run.plan.steps().count());
    let values = run.cells.iter().filter(|c| c.value().is_some()).count();
    let mut text = if done == all {
        format!("{} from {}", count(values, "value"), count(all, "step"))
    } else {
        format!("incomplete: {} from {done} of {}", count(values, "value"), count(all, "step"))
    };
    let mut kinds: BTreeMap<FlagKind, usize> = BTreeMap::new();
    let why = |cell: &Cell| cell.flags.iter().map(|f| f.kind).find(|k| k.voids());
    for kind in run.cells.iter().filter_map(why) {
        *kinds.entry(kind).or_default() += 1;
    }
    if !kinds.is_empty() {
        let void: usize = kinds.values().sum();
        let parts: Vec<String> = kinds.iter().map(|(kind, n)| format!("{n} {}", remarks::word(*kind))).collect();
        text.push_str(&format!("; {void} without a value: {}", parts.join(", ")));
    }
    text
}

/// Notes on the run, and tests that were skipped.
pub(super) fn notes(out: &mut dyn Write, run: &Run) -> io::Result<()> {
    let skipped = run.plan.skipped.iter().map(|s| format!("skipped: {}: {}", s.test, s.why));
    let all: Vec<String> = run.conditions.notes.iter().cloned().chain(skipped).collect();
    sentences(out, "Notes", &all, usize::MAX)
}

/// `9.8 s`, `0.85 s`, `3 min 20 s`.
pub fn time(t: Seconds) -> String {
    match t.seconds() {
        s if s >= 120.0 => format!("{} min {:.0} s", (s / 60.0).floor(), (s % 60.0).floor()),
        s if s >= 1.0 => format!("{s:.1} s"),
        s => format!("{s:.2} s"),
    }
}

/// `2026-11-21 04:12 UTC` of seconds since 1970; nothing for a time that no clock shows.
pub fn date(seconds: u64) -> String {
    utc(seconds, "%Y-%m-%d %H:%M UTC").unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times() {
        let text = |s: f64| time(Seconds::new(s));
        assert_eq!((text(0.123), text(9.84), text(200.4)), ("0.12 s".into(), "9.8 s".into(), "3 min 20 s".into()));
    }
}
