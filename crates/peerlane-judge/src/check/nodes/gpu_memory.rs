//! GPU memory between nodes by verbs: adapters that do not take it, and pairs that are faster by way of host memory.

use std::collections::{BTreeMap, BTreeSet};

use super::everywhere;
use super::prelude::*;
use crate::check::nic_gpu_refused::{self, CONFIRM, EXPECTED, fix};
use crate::check::nic_gpu_slow;
use peerlane_measure::nodes::{End, NodesRun, Probe, Transport};

/// Below this share of the staged rate a direct one is slower, and not by noise.
const SLOWER: f64 = 0.95;

/// From this share of the staged rate on that is only good to know.
const LITTLE: f64 = 0.85;

/// What the rule on refused GPU memory finds between nodes.
pub(in crate::check) fn refused(view: &View) -> Vec<Raised> {
    raised(view.refused.clone())
}

/// What the rule on slow GPU memory finds between nodes.
pub(in crate::check) fn slow_with_gpus(view: &View) -> Vec<Raised> {
    let staged = staged_is_faster(view.run, view.joined);
    let mut found: Vec<Finding> = staged.into_iter().chain(view.slow(nic_gpu_slow::RULE.id)).collect();
    found.extend(everywhere::with_gpus(view.run, view.joined, &found));
    raised(found)
}

/// Adapters that take no memory of GPUs whose driver offers it, in one finding; and the nodes of which no NIC takes any.
pub(super) fn refusing(run: &NodesRun, ends: &Site) -> (Option<Finding>, BTreeSet<usize>) {
    let (mut nodes, mut names, mut reason) = (BTreeSet::new(), Vec::new(), None);
    let (mut all, mut takes, mut of_first) = (0, 0, None);
    for (at, node) in run.nodes.iter().enumerate() {
        let beside: Vec<_> = node.nics.iter().filter_map(|nic| Some((nic, nic.gpu.as_ref()?))).collect();
        takes += beside.iter().filter(|(_, gpu)| gpu.registration.is_some()).count();
        let refused: Vec<_> = beside
            .iter()
            .filter(|(_, gpu)| gpu.registration.is_none() && ends.offers_rdma(run, at, &gpu.name))
            .collect();
        all += refused.len();
        let Some((_, first)) = refused.first() else { continue };
        of_first.get_or_insert(at);
        reason = reason.or(first.why.as_deref());
        if refused.len() == beside.len() {
            nodes.insert(at);
            names.push(host(run, at));
        } else {
            names.extend(refused.iter().map(|(nic, _)| format!("{}/{}", host(run, at), nic.name)));
        }
    }
    let Some(first) = of_first else { return (None, nodes) };
    let reason = reason.unwrap_or("the adapter does not register it");
    let whose = listed(&names, FEW);
    let summary = match (names.as_slice(), all) {
        ([one], 1) if one.contains('/') => format!("{one} takes no GPU memory: no GPUDirect RDMA there"),
        (_, 1) => format!("{whose}: its NIC takes no GPU memory: no GPUDirect RDMA there"),
        (_, many) => format!("{whose}: {many} NICs take no GPU memory: no GPUDirect RDMA there"),
    };
    let others = if takes == 0 { String::new() } else { format!(", as {takes} other NICs of the run do") };
    let raised = nic_gpu_refused::RULE.raise(FindingKind::Fault, Severity::Warning, Certainty::Certain);
    let finding = Finding {
        measured: reason.to_owned(),
        expected: format!("{EXPECTED}{others}"),
        fix: fix(reason.contains("though the module")).to_owned(),
        confirm: format!("on {}: {CONFIRM}", host(run, first)),
        ..raised.summary(summary).about(Subject::nodes_of(names)).finding
    };
    (Some(finding), nodes)
}

/// Pairs that reach more of GPU memory by way of host memory than directly, and are not slower than they should be.
fn staged_is_faster(run: &NodesRun, joined: &[ComparedStep]) -> Option<Finding> {
    let of = |probe: Probe| {
        joined.iter().filter(move |j| {
            let step = &j.cell.step;
            step.transport == Transport::Verbs && step.is_of_gpus() && step.probe == probe && !j.cell.again
        })
    };
    let is_sound =
        |j: &&ComparedStep| j.against().zip(j.cell.value()).is_none_or(|(should, value)| value >= OFF * should);
    // of a pair the path may be shared; what a NIC reads and writes shows with most of its partners
    let mut by_nic: BTreeMap<&End, Vec<f64>> = BTreeMap::new();
    let mut direct: BTreeMap<[&End; 2], f64> = BTreeMap::new();
    for j in of(Probe::Write).filter(is_sound) {
        let (Some(value), ends) = (j.cell.value(), [&j.cell.step.from, &j.cell.step.to]) else { continue };
        direct.insert(ends, value);
        ends.iter().for_each(|end| by_nic.entry(end).or_default().push(value));
    }
    let usual = |end: &End| by_nic.get(end).and_then(|values| Some(Median::of(values)?.value)).unwrap_or(0.0);
    for (ends, value) in &mut direct {
        *value = value.max(usual(ends[0]).min(usual(ends[1])));
    }
    let both = of(Probe::SendStaged).filter_map(|j| {
        let ends = [&j.cell.step.from, &j.cell.step.to];
        Some((ends, *direct.get(&ends)?, j.cell.value()?))
    });
    let all: Vec<([&End; 2], f64, f64)> = both.collect();
    let slower: Vec<_> = all.iter().filter(|(_, direct, staged)| *direct < SLOWER * staged).collect();
    if 2 * slower.len() < all.len() {
        return None;
    }
    let (ends, direct, staged) = slower.iter().min_by(|a, b| (a.1 / a.2).total_cmp(&(b.1 / b.2)))?;
    let share = direct / staged;
    let severity = if share < LITTLE { Severity::Warning } else { Severity::Info };
    let raised = nic_gpu_slow::RULE.raise(FindingKind::Design, severity, Certainty::Likely);
    let [from, to] = ends.map(|of| end(run, of));
    let summary = format!(
        "GPU memory crosses the network slower directly than through host memory: {:.0} % of its rate at worst, in {} of {} pairs",
        100.0 * share,
        slower.len(),
        all.len()
    );
    let subjects = slower.iter().take(FEW).map(|(ends, ..)| {
        let [from, to] = ends.map(|of| end(run, of));
        Subject::Pair(from, to)
    });
    Some(Finding {
        measured: format!("from {from} to {to}: {}", quantity(false, *direct)),
        expected: format!("{}, as staged", quantity(false, *staged)),
        fix: "Let libraries stage what NICs read from GPUs, and write to them directly (NCCL_NET_GDR_READ=0), or use NICs below the \
              GPUs' own switches; clear ACS on those switches (`lspci -vvv | grep ACSCtl`)."
            .to_owned(),
        confirm: "`peerlane measure --tests nic-gpu` on either node".to_owned(),
        cost: Some(Cost { lost: (staged - direct) / 1e9, unit: Unit::GigabytesPerSecond, share: 1.0 - share }),
        ..raised.summary(summary).about(subjects.collect()).finding
    })
}
