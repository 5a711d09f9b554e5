//! Collectives of one rank: the program ran as often as there were processes, each for itself.

use super::view::{Raised, View};
use super::{Certainty, Finding, FindingKind, Rule, Severity};
use peerlane_machine::curve::Curve;
use peerlane_machine::origin::Origin;
use peerlane_machine::units::Bytes;

pub(super) const RULE: Rule = Rule { id: "collective-of-one", breaks: false, run };

/// From this size on a rate is no matter of rounding: a bus bandwidth is printed with two decimals.
const LARGE: Bytes = Bytes::from_mib(1);

fn run(view: &View) -> Vec<Raised> {
    let alone: Vec<&(Curve, Origin)> = view.machine.curves.iter().filter(|(curve, _)| is_alone(curve)).collect();
    let Some((first, _)) = alone.first() else { return Vec::new() };
    let ranks = first.settings.get("ranks").map_or("no list of ranks".to_owned(), |n| format!("{n} rank listed"));
    let finding = Finding {
        summary: format!(
            "{} ran with one rank each: no data went between GPUs, and its times are of nothing",
            first.what
        ),
        expected: "a bus bandwidth above 0: it counts (n − 1) / n, which is 0 only where n, the ranks of a communicator, is 1".to_owned(),
        measured: format!(
            "busbw 0.00 at every size, algbw {} ({ranks})",
            most(first, "algbw").map_or("above 0".to_owned(), |gb| format!("up to {gb:.0} GB/s"))
        ),
        evidence: view.cite(alone.iter().map(|(_, origin)| origin)),
        fix: "Build nccl-tests with MPI (`make MPI=1 MPI_HOME=…`) where `mpirun` or `srun` starts it: without, each process is \
               a job of its own. On one machine without MPI ask for all GPUs: `-g 8`. Under Slurm see that the launcher \
               and the MPI library fit (`srun --mpi=pmix`)."
            .to_owned(),
        confirm: "`ldd all_reduce_perf`, which must show libmpi; `Using devices` must list every rank in one run".to_owned(),
        ..Finding::of(&RULE, FindingKind::Measurement, Severity::Warning, Certainty::Certain, Vec::new())
    };
    vec![Raised::new(finding, 0.0)]
}

/// The highest of the columns whose names begin so.
fn most(curve: &Curve, name: &str) -> Option<f64> {
    let columns = curve.series.iter().filter(|s| s.name.starts_with(name));
    columns.flat_map(|s| s.values.iter().flatten().copied()).filter(|v| v.is_finite()).reduce(f64::max)
}

fn is_alone(curve: &Curve) -> bool {
    let large: Vec<usize> =
        curve.sizes.iter().enumerate().filter(|(_, size)| **size >= LARGE).map(|(at, _)| at).collect();
    let column = |name: &'static str| {
        let series = curve.series.iter().filter(move |s| s.name.starts_with(name));
        let large = &large;
        series
            .flat_map(move |s| large.iter().filter_map(|at| s.values.get(*at).copied().flatten()))
            .collect::<Vec<f64>>()
    };
    let (bus, algorithm) = (column("busbw"), column("algbw"));
    !bus.is_empty() && bus.iter().all(|v| *v == 0.0) && algorithm.iter().any(|v| *v > 0.0)
}

#[cfg(test)]
mod tests {
    use super::super::testing::{findings, origin, switched};
    use super::*;
    use peerlane_machine::curve::Series;

    fn with(mib: u64, busbw: f64) -> Vec<Finding> {
        let series = |name: &str, value| Series { name: name.into(), unit: None, values: vec![Some(value)] };
        let curve = Curve {
            what: "all_reduce_perf".into(),
            sizes: vec![Bytes::from_mib(mib)],
            series: vec![series("algbw out-of-place", 210.0), series("busbw out-of-place", busbw)],
            ..Curve::default()
        };
        let mut machine = switched(2);
        machine.curves.push((curve, origin("nccl-tests")));
        findings(&machine, run)
    }

    #[test]
    fn no_bus_bandwidth_is_one_rank() {
        let found = with(128, 0.0);
        assert_eq!((found.len(), found[0].kind), (1, FindingKind::Measurement));
        assert!(found[0].measured.contains("210"), "{}", found[0].measured);
        assert!(found[0].expected.contains("is 0 only where n"), "{}", found[0].expected);
        assert_eq!(
            (with(128, 190.0), with(0, 0.0)),
            (vec![], vec![]),
            "several ranks; and small messages, which round to 0"
        );
    }
}
