//! Numbers by message size with the fitted model, and rates of concurrent transfers.

use peerlane::collectives::tuning::Tuning;
use peerlane::collectives::{Settings, Variables};
use peerlane::curve::Curve;
use peerlane::expectation::expect_set;
use peerlane::fabric::NodeKind;
use peerlane::fit::{Fit, MISFIT};
use peerlane::matrix::{Engine, Operation, Quantity, Unit};
use peerlane::model::Model;
use peerlane::names::{is_host, ranges};
use peerlane::run::{self, Run, TransferSet, ends};
use peerlane::transfer::Collective;
use peerlane::units::Bytes;

use super::document::{Contention, SetView};
use super::figures::{Chart, CurveView, FitView, Point};
use super::tables::{Tables, short};
use crate::render::run::sweep_names;

/// Limit of curves per chart: more cannot be distinguished.
const MOST_CURVES: usize = 12;

/// All charts, those of the run first.
pub(super) fn charts(tables: &mut Tables, run: Option<&Run>) -> Vec<Chart> {
    let mut charts: Vec<Chart> = Vec::new();
    for sweep in run.map(|run| run::sweeps(&run.cells)).unwrap_or_default() {
        for (quantity, unit, at) in &sweep.series {
            let point = |(size, at): (&Bytes, &Option<usize>)| {
                let estimate = run?.cells.get((*at)?)?.usable()?;
                let (low, high) = (Some(short(estimate.low)), Some(short(estimate.high)));
                Some(Point { size: *size, value: short(estimate.value), low, high })
            };
            let points: Vec<Point> = sweep.sizes.iter().zip(at).filter_map(point).collect();
            let (what, name) = sweep_names(sweep.work, *quantity, *unit);
            let fit = fit(&points, *unit, *quantity == Quantity::BusBandwidth);
            add(&mut charts, what, Some(*unit), CurveView { name, points, fit }, &[]);
        }
    }
    let own = run.map(|run| run::curves(&run.cells)).unwrap_or_default();
    for (curve, origin) in tables.model.machine.curves.iter().filter(|(curve, _)| !own.contains(curve)) {
        let source = tables.source(&origin.to_string());
        let head =
            if curve.ends.is_empty() { curve.what.clone() } else { format!("{} {}", curve.what, ranges(&curve.ends)) };
        tables.tells(source, &head);
        for series in &curve.series {
            captured(&mut charts, curve, &head, series, source);
        }
    }
    charts
}

/// Bus bandwidth of an all-reduce by message size, as predicted of NCCL: a curve for each machine where it is known.
pub(super) fn all_reduce<'r, 'm: 'r>(models: impl Iterator<Item = (&'r str, &'r Model<'m>)>) -> Option<Chart> {
    let settings = Settings::of(&Variables::new(), Collective::AllReduce);
    let curve = |(name, model): (&str, &Model)| {
        let gpus = model.machine.fabric.of_kind(NodeKind::Gpu).collect();
        let mut tuning = Tuning::of(model.machine, model.parts, gpus, Collective::AllReduce)?;
        let point = |power: u32| {
            let size = Bytes(1_u64 << power);
            let value = short(tuning.predict(&settings, size)?.rate / 1e9);
            Some(Point { size, value, low: None, high: None })
        };
        let points: Vec<Point> = (13..=33).step_by(2).filter_map(point).collect();
        (!points.is_empty()).then(|| CurveView { name: name.to_owned(), points, fit: None })
    };
    let curves: Vec<CurveView> = models.filter_map(curve).take(MOST_CURVES).collect();
    let what = "NCCL all-reduce by message size, bus bandwidth, predicted by the algorithm that it chooses; the table has rings alone".to_owned();
    (!curves.is_empty()).then(|| Chart { what, unit: Some(Unit::GigabytesPerSecond), curves, sources: Vec::new() })
}

/// One column of a program's output.
fn captured(charts: &mut Vec<Chart>, curve: &Curve, head: &str, series: &peerlane::curve::Series, source: usize) {
    let value = |(size, value): (&Bytes, &Option<f64>)| {
        let value = value.filter(|v| v.is_finite())?;
        Some(Point { size: *size, value: short(value), low: None, high: None })
    };
    let points: Vec<Point> = curve.sizes.iter().zip(&series.values).filter_map(value).collect();
    let fit = series.unit.and_then(|unit| fit(&points, unit, series.name.contains("bus")));
    let what = match series.unit {
        Some(unit) => format!("{head}, {}", unit.name()),
        None => format!("{head}, {}", series.name),
    };
    add(charts, what, series.unit, CurveView { name: series.name.clone(), points, fit }, &[source]);
}

fn add(charts: &mut Vec<Chart>, what: String, unit: Option<Unit>, curve: CurveView, sources: &[usize]) {
    if curve.points.is_empty() {
        return;
    }
    match charts.iter_mut().find(|c| c.what == what && c.curves.len() < MOST_CURVES) {
        Some(chart) => {
            chart.curves.push(curve);
            chart.sources.extend(sources);
            chart.sources.dedup();
        }
        None => charts.push(Chart { what, unit, curves: vec![curve], sources: sources.to_vec() }),
    }
}

/// The fit to rates or times; a bus bandwidth is not the rate of a message.
fn fit(points: &[Point], unit: Unit, bus: bool) -> Option<FitView> {
    let fit = Fit::of_values(unit, points.iter().filter(|_| !bus).map(|p| (p.size, p.value)))?;
    let value = |p: &Point| match (unit.rate(1.0), unit.time(1.0)) {
        (Some(one), _) => fit.copies.rate_at(p.size).bytes_per_second() / one.bytes_per_second(),
        (_, Some(one)) => fit.copies.time(p.size).seconds() / one.seconds(),
        _ => f64::NAN,
    };
    Some(FitView {
        least_us: short(fit.copies.startup.least.us()),
        startup_us: short(fit.copies.startup.each.us()),
        rate: short(fit.copies.rate.gb()),
        half_size: fit.copies.half_size(),
        values: points.iter().map(value).map(short).collect(),
        misfits: fit.misfits().map(|r| r.size).collect(),
        tolerance: MISFIT,
    })
}

/// Rates of sets of concurrent transfers, one table per kind.
pub(super) fn contention(model: &Model, run: &Run) -> Vec<Contention> {
    let mut tables: Vec<Contention> = Vec::new();
    for set in run::sets(&run.cells) {
        let Some(first) = set.transfers.first() else { continue };
        let with_host = is_host(&first.source) || is_host(&first.destination);
        let mut words = vec![set.cell.test.name()];
        words.extend((!with_host).then_some(if first.op == Operation::Read { "reads" } else { "writes" }));
        words.push(if first.engine == Engine::Sm { "SM copies" } else { "copy engine" });
        let what = words.join(", ");
        let view = view(model, &set);
        match tables.iter_mut().find(|t| t.what == what && t.unit == set.cell.unit) {
            Some(table) => table.sets.push(view),
            None => tables.push(Contention { what, unit: set.cell.unit, sets: vec![view] }),
        }
    }
    tables
}

fn view(model: &Model, set: &TransferSet) -> SetView {
    let cell = set.cell;
    let sum = cell.usable();
    let expected = || {
        let one = cell.unit.rate(1.0)?.bytes_per_second();
        let answers = expect_set(model, set.transfers)?;
        Some(answers.iter().map(|a| a.rate.bytes_per_second()).sum::<f64>() / one)
    };
    let alone: Option<f64> = set.alone.iter().copied().sum();
    SetView {
        name: ends(&cell.work),
        sum: sum.map(|e| short(e.value)),
        low: sum.map(|e| short(e.low)),
        high: sum.map(|e| short(e.high)),
        n: cell.n,
        each: (0..set.transfers.len()).filter_map(|at| set.each(at)).map(short).collect(),
        alone: alone.map(short),
        expected: expected().filter(|e| e.is_finite()).map(short),
        remarks: cell.flags.iter().map(|f| f.detail.clone()).filter(|d| !d.is_empty()).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fit_is_given_in_the_units_of_its_chart() {
        let point = |size: u64, value: f64| Point { size: Bytes(size), value, low: None, high: None };
        // 10 µs and 1 GB/s
        let sizes = [1_000_u64, 10_000, 100_000, 1_000_000, 10_000_000];
        let times: Vec<Point> = sizes.iter().map(|s| point(*s, 10.0 + *s as f64 / 1e3)).collect();
        let by_time = fit(&times, Unit::Microseconds, false).unwrap();
        assert_eq!((by_time.startup_us, by_time.rate, by_time.half_size), (10.0, 1.0, Bytes(10_000)));
        assert_eq!(by_time.values[1], 20.0);
        let rates: Vec<Point> = sizes.iter().map(|s| point(*s, 8.0 * *s as f64 / (1e4 + *s as f64))).collect();
        let by_rate = fit(&rates, Unit::GigabitsPerSecond, false).unwrap();
        assert_eq!((by_rate.rate, by_rate.values[1]), (1.0, 4.0));
        assert!(
            fit(&rates, Unit::GigabitsPerSecond, true).is_none()
                && fit(&rates[..2], Unit::GigabitsPerSecond, false).is_none()
        );
    }
}
