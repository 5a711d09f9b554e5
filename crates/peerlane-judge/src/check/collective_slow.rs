//! Collectives within a machine that stay far below what its rings carry.

use super::view::{Raised, View};
use super::words::percent;
use super::{Certainty, Cost, Finding, FindingKind, Rule, Severity};
use peerlane_machine::curve::{At, Curve};
use peerlane_machine::fabric::{Interconnect, NodeKind};
use peerlane_machine::origin::Origin;
use peerlane_machine::subject::Subject;
use peerlane_machine::units::Bytes;
use peerlane_model::collectives::bus_bandwidth;

pub(super) const RULE: Rule = Rule { id: "collective-slow", breaks: false, run };

/// Below this share of the rings' rate; NCCL reaches three quarters and more of NVLinks' rings, and somewhat less over PCIe.
const SLOW: f64 = 0.5;

/// Smaller messages reach no bandwidth to judge.
const LARGE: Bytes = Bytes::from_mib(64);

/// More GPUs than one machine has; the search for rings is not made for them.
const MOST_GPUS: usize = 32;

/// Collectives whose bus bandwidth is that of the rings they go in.
const BY_RINGS: [&str; 4] = ["all_reduce_perf", "all_gather_perf", "reduce_scatter_perf", "all-reduce"];

fn run(view: &View) -> Vec<Raised> {
    let gpus = view.of_kind(NodeKind::Gpu);
    if !view.is_captured() || view.case.run.is_some() || !(2..=MOST_GPUS).contains(&gpus.len()) {
        return Vec::new();
    }
    let judged: Vec<(&Curve, &Origin, At)> = view
        .machine
        .curves
        .iter()
        .filter(|(curve, _)| is_of_all(view, curve, gpus.len()))
        .filter_map(|(curve, origin)| {
            let best = curve.best()?;
            let largest = curve.sizes.iter().max()?;
            (*largest >= LARGE && best.rate.gb() > 0.0).then_some((curve, origin, best))
        })
        .collect();
    if judged.is_empty() {
        return Vec::new();
    }
    let Some(bound) = bus_bandwidth(view.model) else { return Vec::new() };
    let slow: Vec<&(&Curve, &Origin, At)> = judged.iter().filter(|(.., best)| best.rate.gb() < SLOW * bound).collect();
    let Some((curve, _, best)) = slow.iter().min_by(|a, b| a.2.rate.gb().total_cmp(&b.2.rate.gb())) else {
        return Vec::new();
    };
    let nvlink = view.fabric().links().iter().any(|l| l.kind.bundle(Interconnect::Nvlink).is_some());
    let fix = if nvlink {
        "See which way NCCL goes (NCCL_DEBUG=INFO: `via P2P`, `via SHM`, `via NET`). Through SHM or NET it does not use the \
         NVLinks: NCCL_P2P_DISABLE may be set, a container may part the GPUs' processes (`--ipc=host`, one IPC namespace), \
         MIG may be on, or the fabric manager not be ready."
    } else {
        "See which way NCCL goes (NCCL_DEBUG=INFO: `via P2P`, `via SHM`). Through SHM it copies over host memory: spread the \
         NUMA nodes (NPS), bind the ranks, enlarge /dev/shm. Through P2P between root complexes many pairs at once may be \
         slower than SHM: compare NCCL_P2P_LEVEL=PXB and SYS; look for ACS and an IOMMU."
    };
    let share = best.rate.gb() / bound;
    let subjects: Vec<String> = gpus.iter().map(|id| view.name(*id).to_owned()).collect();
    let finding = Finding {
        summary: format!("{} reaches {} of what rings of these GPUs carry", curve.what, percent(share)),
        expected: format!("a bus bandwidth near {bound:.1} GB/s, which rings through all {} GPUs carry", gpus.len()),
        measured: format!("{} at {} (bus bandwidth)", best.rate, best.size),
        evidence: view.cite(slow.iter().map(|(_, origin, _)| *origin)),
        fix: fix.to_owned(),
        confirm: "`NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=INIT,GRAPH,P2P` with the same command; `peerlane measure --tests pairs,collectives`"
            .to_owned(),
        cost: Cost::of_rate(bound, best.rate.gb()),
        ..Finding::of(&RULE, FindingKind::Fault, Severity::Warning, Certainty::Possible, Subject::nodes_of(subjects))
    };
    vec![Raised::new(finding, 1.0 - share)]
}

/// Whether a table is of a collective among all GPUs of this machine and no others.
fn is_of_all(view: &View, curve: &Curve, gpus: usize) -> bool {
    let said = |key: &str| curve.settings.get(key).and_then(|n| n.parse::<usize>().ok());
    BY_RINGS.contains(&curve.what.as_str())
        && said("hosts") == Some(1)
        && said("ranks") == Some(gpus)
        && curve.ends.len() == gpus
        && curve.ends.iter().all(|end| view.fabric().find(end).is_some())
}

#[cfg(test)]
mod tests {
    use super::super::testing::{origin, switched};
    use super::super::{Context, check};
    use super::*;
    use peerlane_design::case::Case;
    use peerlane_machine::curve::Series;
    use peerlane_machine::matrix::Unit;
    use peerlane_model::comparison::Comparison;
    use peerlane_model::model::Model;
    use peerlane_read::catalogue::Parts;

    fn with(gb: f64, mib: u64, ranks: usize) -> Vec<Finding> {
        let mut machine = switched(4);
        let settings = [("hosts", "1".to_owned()), ("ranks", ranks.to_string())];
        let curve = Curve {
            what: "all_reduce_perf".into(),
            ends: (0..ranks).map(|i| format!("GPU{i}")).collect(),
            sizes: vec![Bytes::from_mib(mib)],
            series: vec![Series {
                name: "busbw out-of-place".into(),
                unit: Some(Unit::GigabytesPerSecond),
                values: vec![Some(gb)],
            }],
            settings: settings.into_iter().map(|(k, v)| (k.to_owned(), v)).collect(),
        };
        machine.curves.push((curve, origin("nccl-tests")));
        let case = Case::from(machine);
        let model = Model::new(&case.machine, Parts::embedded());
        let mut found = check(&Context::of(&case, &Comparison::of(&model)));
        found.retain(|f| f.rule == RULE.id);
        found
    }

    #[test]
    fn a_third_of_the_ring_is_slow() {
        let found = with(3.5, 256, 4);
        assert_eq!((found.len(), found[0].subjects.len()), (1, 4));
        assert!(found[0].fix.contains("via SHM"), "{}", found[0].fix);
    }

    #[test]
    fn a_sound_one_small_messages_and_some_of_the_gpus_are_none() {
        assert_eq!(with(9.0, 256, 4), vec![]);
        assert_eq!(with(3.5, 1, 4), vec![]);
        assert_eq!(with(3.5, 256, 2), vec![], "what other rings carry is not asked");
    }
}
