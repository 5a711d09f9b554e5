//! Benchmarks whose rate falls again as messages grow.

use super::gpu_memory_slow::{Memory, memory};
use super::view::{Raised, View};
use super::words::percent;
use super::{Certainty, Cost, Finding, FindingKind, Rule, Severity};
use peerlane_machine::curve::{At, Curve};
use peerlane_machine::origin::Origin;
use peerlane_machine::units::Bytes;

pub(super) const RULE: Rule = Rule { id: "rate-falls-with-size", breaks: false, run };

/// Below this share of the best is fallen; caches and steps of an algorithm cost less.
const FALLEN: f64 = 0.5;

/// A rate of smaller messages is mostly start-up.
const LARGE: Bytes = Bytes(64 << 10);

/// Larger messages that must all have fallen.
const FEWEST: usize = 2;

/// A fall: the best rate, and the first of those after it, all of which are low.
struct Fall {
    best: At,
    first: At,
    lowest: At,
}

fn run(view: &View) -> Vec<Raised> {
    // what was published of a machine, and what our own sweeps show, have their own judges
    if !view.is_captured() || view.case.run.is_some() {
        return Vec::new();
    }
    let judged = view.machine.curves.iter().filter(|(curve, _)| !is_of_host_memory(curve));
    let fallen = judged.filter_map(|(curve, origin)| Some((curve, origin, fall(curve)?)));
    let fallen: Vec<(&Curve, &Origin, Fall)> = fallen.collect();
    let share = |fall: &Fall| fall.lowest.rate.gb() / fall.best.rate.gb();
    let Some((curve, _, worst)) = fallen.iter().min_by(|a, b| share(&a.2).total_cmp(&share(&b.2))) else {
        return Vec::new();
    };
    let more = if fallen.len() > 1 { format!("; {} tables show such a fall", fallen.len()) } else { String::new() };
    let finding = Finding {
        summary: format!(
            "{} falls to {} of its rate from messages of {} on",
            curve.what,
            percent(share(worst)),
            worst.first.size
        ),
        expected: format!("at least the {} that messages of {} reach", worst.best.rate, worst.best.size),
        measured: format!("{} at {}, {} at {}{more}", worst.first.rate, worst.first.size, worst.lowest.rate, worst.lowest.size),
        evidence: view.cite(fallen.iter().map(|(_, origin, _)| *origin)),
        fix: "Something changes at that size. Between machines: frames are lost where a network without flow control \
               (RoCE: PFC, ECN) is filled, or one of several NICs is slow; count them (`ethtool -S`, `perfquery`). In NCCL: the algorithm or \
               protocol; fix it (NCCL_ALGO=Ring, NCCL_PROTO=Simple) and compare. In MPI: the rendezvous threshold, and \
               staging through host memory beyond it."
            .to_owned(),
        confirm: "the same benchmark with steps of 10 % around that size; `NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=TUNING`".to_owned(),
        cost: Cost::of_rate(worst.best.rate.gb(), worst.lowest.rate.gb()),
        ..Finding::of(&RULE, FindingKind::Fault, Severity::Warning, Certainty::Possible, Vec::new())
    };
    vec![Raised::new(finding, 1.0 - share(worst))]
}

/// Whether it is one of OSU's that names neither GPU nor adapter: within one machine, as most are run, its rate falls where
/// messages outgrow the CPU's cache.
fn is_of_host_memory(curve: &Curve) -> bool {
    curve.what.starts_with("osu_") && curve.ends.is_empty() && memory(curve) == Some(Memory::Host)
}

fn fall(curve: &Curve) -> Option<Fall> {
    let rates = curve.rates();
    let best = curve.best().filter(|best| best.size >= LARGE && best.rate.gb() > 0.0)?;
    let after: Vec<&At> = rates.iter().filter(|at| at.size > best.size).collect();
    let low = |at: &&&At| at.rate.gb() < FALLEN * best.rate.gb();
    // from the largest down, as long as they are low
    let fallen: Vec<&&At> = after.iter().rev().take_while(low).collect();
    let first = fallen.last().filter(|_| fallen.len() >= FEWEST)?;
    let lowest = fallen.iter().min_by(|a, b| a.rate.gb().total_cmp(&b.rate.gb()))?;
    Some(Fall { best, first: ***first, lowest: ***lowest })
}

#[cfg(test)]
mod tests {
    use super::super::testing::{findings, origin, switched};
    use super::*;
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
    fn a_fall_that_stays_is_told_with_its_size() {
        let found = with(&[10.0, 20.0, 31.0, 6.0, 5.0, 5.5]);
        assert_eq!((found.len(), found[0].severity), (1, Severity::Warning));
        assert!(found[0].summary.contains("from messages of 8 MiB on"), "{}", found[0].summary);
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
