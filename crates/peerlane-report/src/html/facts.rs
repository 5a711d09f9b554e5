//! Facts about a machine and its run, as small tables.

use peerlane::case::Case;
use peerlane::infer::{Inference, InferredGroup};
use peerlane::machine::Machine;
use peerlane::run::{GpuState, Run};

use super::document::Table;
use crate::render::inference;
use crate::render::run::{date, time};

/// All tables of facts.
pub(super) fn all(case: &Case) -> Vec<Table> {
    let machine = &case.machine;
    let mut tables = vec![about(machine)];
    tables.push(slots(machine));
    tables.extend(machine.rates.iter().map(|(table, origin)| {
        let columns = table.word_columns.iter().chain(&table.rate_columns).cloned().collect();
        let row = |row: &peerlane::fact::RateRow| {
            let rates = row.rates.iter().map(|rate| rate.map(|r| r.to_string()).unwrap_or_default());
            row.words.iter().cloned().chain(rates).collect()
        };
        Table { title: format!("Rates from {origin}"), columns, rows: table.rows.iter().map(row).collect() }
    }));
    tables.extend(case.inferred.iter().map(|(found, origin)| shared(found, &origin.to_string())));
    if let Some(run) = case.run() {
        tables.push(conditions(run));
        tables.push(states(run));
        tables.push(skipped(run));
    }
    tables.retain(|t| !t.rows.is_empty());
    tables
}

fn about(machine: &Machine) -> Table {
    let facts = &machine.facts;
    let mut rows = Vec::new();
    let mut tell = |label: &str, text: Option<String>| rows.extend(text.map(|text| vec![label.to_owned(), text]));
    tell("title", machine.title.clone());
    tell("source", machine.source.clone());
    tell("year of the source", facts.year.map(|y| y.to_string()));
    tell("price", facts.price_usd.map(|p| format!("{p:.0} US dollars")));
    tell("height", facts.rack_units.map(|u| format!("{u} rack units")));
    tell("power", facts.power_w.map(|p| format!("{p:.0} W")));
    tell("computing rate", facts.tflops.map(|t| format!("{t} TFLOP/s")));
    Table { title: "Machine".to_owned(), columns: Vec::new(), rows }
}

fn slots(machine: &Machine) -> Table {
    let columns = ["slot", "connector", "wired", "port of", "shares lanes with"].map(str::to_owned).to_vec();
    let row = |slot: &peerlane::machine::Slot| {
        let port = slot.port.clone().unwrap_or_default();
        vec![slot.name.clone(), format!("x{}", slot.physical), format!("x{}", slot.wired), port, slot.shares.join(", ")]
    };
    Table { title: "Slots of the board".to_owned(), columns, rows: machine.slots.iter().map(row).collect() }
}

/// Limits inferred from contention, each with the sets of transfers that reached it.
fn shared(found: &Inference, origin: &str) -> Table {
    let columns = ["members", "direction", "limit and its interval, GB/s", "reached in"].map(str::to_owned).to_vec();
    let row = |group: &InferredGroup| {
        let direction = group.direction.words().to_owned();
        vec![inference::members(group), direction, inference::limit(group), inference::shown_by(found, group, true)]
    };
    Table {
        title: format!("Shared limits inferred from {origin}"),
        columns,
        rows: found.groups.iter().map(row).collect(),
    }
}

fn conditions(run: &Run) -> Table {
    let c = &run.conditions;
    let (done, all) = (run.steps_done().len(), run.plan.steps().count());
    let numbers = run.cells.iter().filter(|cell| cell.value().is_some()).count();
    let method = &run.plan.method;
    let mut rows = Vec::new();
    let mut tell = |label: &str, text: Option<String>| rows.extend(text.map(|text| vec![label.to_owned(), text]));
    tell("target", Some(run.machine.target.clone()));
    tell("began", (c.began > 0).then(|| date(c.began)));
    tell("took", Some(time(run.wall)));
    tell("initialisation", c.initialisation.map(time));
    tell("results", Some(format!("{numbers} values from {done} of {all} steps")));
    tell("requested precision", Some(format!("95 % interval of the median within ±{} %", method.precision * 100.0)));
    tell("samples", Some(format!("{} to {} per step", method.least_samples, method.most_samples)));
    tell("host", c.host.clone());
    tell("kernel", c.kernel.clone());
    tell("driver", c.driver.clone());
    tell("CUDA", c.cuda.clone());
    tell("NCCL", c.nccl.clone());
    tell("libraries", Some(c.libraries.join(", ")).filter(|l| !l.is_empty()));
    tell("peerlane", Some(run.peerlane.clone()));
    for note in &c.notes {
        tell("note", Some(note.clone()));
    }
    Table { title: "Run".to_owned(), columns: Vec::new(), rows }
}

/// The states of GPUs before and after the run.
fn states(run: &Run) -> Table {
    let columns = ["GPU", "when", "°C", "W", "SM MHz", "memory MHz", "other processes", "clocks limited by"];
    let row = |when: &str, s: &GpuState| {
        let number = |v: Option<f64>| v.map(|v| format!("{v:.0}")).unwrap_or_default();
        let count = |v: Option<u32>| v.map(|v| v.to_string()).unwrap_or_default();
        vec![
            s.gpu.clone(),
            when.to_owned(),
            number(s.temperature_c),
            number(s.power_w),
            count(s.sm_clock_mhz),
            count(s.memory_clock_mhz),
            count(s.processes),
            s.clock_event_reasons.join(", "),
        ]
    };
    let c = &run.conditions;
    let before = c.before.iter().map(|s| row("before", s));
    let rows = before.chain(c.after.iter().map(|s| row("after", s)));
    // a simulated machine has no states
    let rows: Vec<Vec<String>> = rows.filter(|row| row.iter().skip(2).any(|cell| !cell.is_empty())).collect();
    Table { title: "GPUs during the run".to_owned(), columns: columns.map(str::to_owned).to_vec(), rows }
}

fn skipped(run: &Run) -> Table {
    let rows = run.plan.skipped.iter().map(|s| vec![s.test.name().to_owned(), s.why.clone()]).collect();
    Table { title: "Tests that do not apply here".to_owned(), columns: Vec::new(), rows }
}
