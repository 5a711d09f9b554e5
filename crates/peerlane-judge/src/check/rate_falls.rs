//! Benchmarks whose rate falls as messages grow.

use super::gpu_memory_slow::{Memory, memory};
use super::prelude::*;
use peerlane_machine::curve::{At, Curve};
use peerlane_machine::units::Bytes;

pub(super) const RULE: Rule = Rule::new("rate-falls-with-size", One(run));

/// Below this share of the best is fallen; caches and steps of an algorithm cost less.
const FALLEN: f64 = 0.5;

/// The rate of smaller messages is mostly start-up.
const LARGE: Bytes = Bytes(64 << 10);

/// Larger messages that must all have fallen.
const FEWEST: usize = 2;

/// A fall: the best rate, and the first of those after it, all of which are low.
struct Fall {
    best: At,
    first: At,
    lowest: At,
}

impl Fall {
    fn share(&self) -> f64 {
        self.lowest.rate.gb() / self.best.rate.gb()
    }
}

fn run(view: &View) -> Option<Raised> {
    // other rules check published tables and our own sweeps
    if !view.is_captured() || view.case.run.is_some() {
        return None;
    }
    let judged = view.machine.curves.iter().filter(|(curve, _)| !is_of_host_memory(curve));
    let fallen: Vec<(&Curve, &Origin, Fall)> =
        judged.filter_map(|(curve, origin)| Some((curve, origin, fall(curve)?))).collect();
    let (curve, _, worst) = lowest(&fallen, |(.., fall)| fall.share())?;
    let more = if fallen.len() > 1 { format!("; {} tables show such a fall", fallen.len()) } else { String::new() };
    let Fall { best, first, lowest } = worst;
    let raised = RULE
        .raise(Fault, Warning, Possible)
        .summary(format!(
            "{} falls to {} of its rate from {} messages on",
            curve.what,
            percent(worst.share()),
            first.size
        ))
        .expected(format!("at least {}, which {} messages reach", best.rate, best.size))
        .measured(format!("{} at {}, {} at {}{more}", first.rate, first.size, lowest.rate, lowest.size))
        .evidence(view.cite(fallen.iter().map(|(_, origin, _)| *origin)))
        .fix(format!("{} {NETWORK}", at_a_size(&curve.what)))
        .confirm("the same benchmark in steps of 10 % around that size; `NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=TUNING`")
        .cost(Cost::of_rate(best.rate.gb(), lowest.rate.gb()))
        .losing(1.0 - worst.share());
    Some(raised)
}

/// What else lowers a rate as messages grow.
const NETWORK: &str = "Between machines, a network without flow control (RoCE: PFC, ECN) drops frames when it fills \
                       up, or one of several NICs is slow. Read the counters (`ethtool -S`, `perfquery`).";

/// What a benchmark's library changes at some size, and how to find out.
fn at_a_size(benchmark: &str) -> &'static str {
    if benchmark.starts_with("osu_") {
        "Compare other rendezvous thresholds of the MPI library: beyond it, large messages may be staged in host memory."
    } else if benchmark.starts_with("ib_") {
        "Measure again with host memory, and between other machines, to find whether GPU, adapter or network is slow."
    } else {
        "Measure again with NCCL_ALGO=Ring and NCCL_PROTO=Simple: NCCL may select another algorithm or protocol at that size."
    }
}

/// Whether it is an OSU benchmark that names neither GPU nor adapter: within one machine, where most are run, its rate
/// falls where messages outgrow the CPU's cache.
fn is_of_host_memory(curve: &Curve) -> bool {
    curve.what.starts_with("osu_") && curve.ends.is_empty() && memory(curve) == Some(Memory::Host)
}

fn fall(curve: &Curve) -> Option<Fall> {
    let rates = curve.rates();
    let best = curve.best().filter(|best| best.size >= LARGE && best.rate.gb() > 0.0)?;
    let low = |at: &At| at.rate.gb() < FALLEN * best.rate.gb();
    // from the largest down, as long as they are low
    let after = rates.into_iter().filter(|at| at.size > best.size).rev();
    let fallen: Vec<At> = after.take_while(low).collect();
    let first = fallen.last().copied().filter(|_| fallen.len() >= FEWEST)?;
    let lowest = lowest(fallen, |at| at.rate.gb())?;
    Some(Fall { best, first, lowest })
}

#[cfg(test)]
mod tests {
    use super::super::testing::{findings, origin, switched};
    use super::*;
    use crate::finding::Finding;
    use peerlane_machine::curve::Series;
    use peerlane_machine::matrix::Unit;

    fn with(rates: &[f64]) -> Vec<Finding> {
        of("all_reduce_perf", None, rates)
    }

    fn of(what: &str, buffers: Option<&str>, rates: &[f64]) -> Vec<Finding> {
        let curve = Curve {
            what: what.into(),
            settings: buffers.map(|b| ("buffers".to_owned(), b.to_owned())).into_iter().collect(),
            sizes: (0..rates.len()).map(|i| Bytes(1 << (20 + i))).collect(),
            series: vec![Series {
                name: "busbw out-of-place".into(),
                unit: Some(Unit::GigabytesPerSecond),
                values: rates.iter().map(|r| Some(*r)).collect(),
            }],
            ..Curve::default()
        };
        let mut machine = switched(2);
        machine.curves.push((curve, origin("nccl-tests")));
        findings(&machine, run)
    }

    #[test]
    fn a_lasting_fall_is_reported_with_its_size() {
        let found = with(&[10.0, 20.0, 31.0, 6.0, 5.0, 5.5]);
        assert_eq!((found.len(), found[0].severity), (1, Warning));
        assert!(found[0].summary.contains("from 8 MiB messages on"), "{}", found[0].summary);
    }

    #[test]
    fn host_memory_falls_where_the_cache_ends() {
        let rates = [10.0, 20.0, 31.0, 6.0, 5.0, 5.5];
        let host = "Send Buffer on HOST (H) and Receive Buffer on HOST (H)";
        let gpu = "Send Buffer on DEVICE (D) and Receive Buffer on DEVICE (D)";
        let count = |what, buffers| of(what, buffers, &rates).len();
        assert_eq!((count("osu_bw", None), count("osu_bibw", Some(host))), (0, 0));
        assert_eq!((count("osu_bw", Some(gpu)), count("ib_write_bw", None)), (1, 1));
    }

    #[test]
    fn one_low_number_a_dip_and_a_plateau_are_none() {
        for rates in [&[10.0, 31.0, 30.0, 9.0][..], &[31.0, 9.0, 8.0, 30.0], &[10.0, 20.0, 31.0, 25.0, 22.0], &[1.0]] {
            assert_eq!(with(rates), vec![], "{rates:?}");
        }
    }
}
