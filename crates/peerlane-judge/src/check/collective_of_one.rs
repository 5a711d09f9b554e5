//! Collectives with one rank: every process ran the program on its own.

use super::prelude::*;
use peerlane_machine::curve::Curve;
use peerlane_machine::units::Bytes;

pub(super) const RULE: Rule = Rule::new("collective-of-one", One(run));

/// From this size on a rate of 0 is not due to rounding: a bus bandwidth is printed with two decimals.
const LARGE: Bytes = Bytes::from_mib(1);

fn run(view: &View) -> Option<Raised> {
    let alone: Vec<&(Curve, Origin)> = view.machine.curves.iter().filter(|(curve, _)| is_alone(curve)).collect();
    let (first, _) = alone.first()?;
    let ranks = first.settings.get("ranks").map_or("no list of ranks".to_owned(), |n| format!("{n} rank listed"));
    let algorithm = column(first, "algbw", Bytes(0)).into_iter().filter(|v| v.is_finite()).reduce(f64::max);
    let raised = RULE
        .raise(Measurement, Warning, Certain)
        .summary(format!("{} ran with one rank: no data moved between GPUs, and its times mean nothing", first.what))
        .expected(
            "a bus bandwidth above 0: it scales with (n − 1) / n, which is 0 only where n, the number of ranks, is 1",
        )
        .measured(format!(
            "busbw 0.00 at every size, algbw {} ({ranks})",
            algorithm.map_or("above 0".to_owned(), |gb| format!("up to {gb:.0} GB/s"))
        ))
        .evidence(view.cite(alone.iter().map(|(_, origin)| origin)))
        .fix(
            "If `mpirun` or `srun` starts nccl-tests, build it with MPI (`make MPI=1 MPI_HOME=…`); otherwise each \
             process is a job of its own. On one machine without MPI, give the one process all GPUs (`-g 8` for \
             eight). Under Slurm, check that the launcher matches the MPI library (`srun --mpi=pmix`).",
        )
        .confirm("`ldd all_reduce_perf` must list libmpi; `Using devices` must list every rank in one run");
    Some(raised)
}

/// The values of the columns whose names begin so, at sizes of at least `least`.
fn column(curve: &Curve, name: &str, least: Bytes) -> Vec<f64> {
    let columns = curve.series.iter().filter(|s| s.name.starts_with(name));
    let rows = columns.flat_map(|s| curve.sizes.iter().zip(&s.values));
    rows.filter(|(size, _)| **size >= least).filter_map(|(_, value)| *value).collect()
}

fn is_alone(curve: &Curve) -> bool {
    let (bus, algorithm) = (column(curve, "busbw", LARGE), column(curve, "algbw", LARGE));
    !bus.is_empty() && bus.iter().all(|v| *v == 0.0) && algorithm.iter().any(|v| *v > 0.0)
}

#[cfg(test)]
mod tests {
    use super::super::testing::{findings, origin, switched};
    use super::*;
    use crate::finding::Finding;
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
        assert_eq!((found.len(), found[0].kind), (1, Measurement));
        assert!(found[0].measured.contains("210"), "{}", found[0].measured);
        assert!(found[0].expected.contains("is 0 only where n"), "{}", found[0].expected);
        assert_eq!(
            (with(128, 190.0), with(0, 0.0)),
            (vec![], vec![]),
            "several ranks; and small messages, which round to 0"
        );
    }
}
