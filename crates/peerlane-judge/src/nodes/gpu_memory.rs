//! GPU memory between nodes by verbs: adapters that do not take it, and pairs that are faster by way of host memory.

use std::collections::{BTreeMap, BTreeSet};

use super::Joined;
use super::slow::LOOK_BESIDE_GPU;
use super::words::{FEW, end, host, listed, quantity};
use crate::check::nic_gpu_refused::{CONFIRM, EXPECTED, fix};
use crate::check::raised::Raised;
use crate::check::{Certainty, Cost, Finding, FindingKind, Severity};
use peerlane_design::measured_cluster::Ends;
use peerlane_machine::matrix::Unit;
use peerlane_machine::stats::Median;
use peerlane_machine::subject::Subject;
use peerlane_measure::nodes::{End, NodesRun, Probe, Transport};

/// Below this share of the staged rate a direct one is slower, and not by noise.
const SLOWER: f64 = 0.95;

/// From this share of the staged rate on that is only good to know.
const LITTLE: f64 = 0.85;

/// Share of a rail's pairs that must be slow for all to be.
const NEARLY_ALL: f64 = 0.75;

/// Less than this of what is expected is an error.
const ERROR: f64 = 0.5;

/// Adapters that take no memory of GPUs whose driver offers it, in one finding; and the nodes that have such.
pub(super) fn refused(run: &NodesRun, ends: &Ends) -> (Option<Finding>, BTreeSet<usize>) {
    let (mut nodes, mut names, mut reason) = (BTreeSet::new(), Vec::new(), None);
    let (mut all, mut takes) = (0, 0);
    for (at, node) in run.nodes.iter().enumerate() {
        let beside: Vec<_> = node.nics.iter().filter_map(|nic| Some((nic, nic.gpu.as_ref()?))).collect();
        takes += beside.iter().filter(|(_, gpu)| gpu.registration.is_some()).count();
        let refused: Vec<_> = beside
            .iter()
            .filter(|(_, gpu)| gpu.registration.is_none() && ends.offers_rdma(run, at, &gpu.name))
            .collect();
        all += refused.len();
        let Some((_, first)) = refused.first() else { continue };
        nodes.insert(at);
        reason = reason.or(first.why.as_deref());
        if refused.len() == beside.len() {
            names.push(host(run, at));
        } else {
            names.extend(refused.iter().map(|(nic, _)| format!("{}/{}", host(run, at), nic.name)));
        }
    }
    let Some(first) = nodes.first() else { return (None, nodes) };
    let reason = reason.unwrap_or("the adapter does not register it");
    let whose = listed(&names, FEW);
    let summary = match (names.as_slice(), all) {
        ([one], 1) if one.contains('/') => format!("{one} takes no GPU memory: no GPUDirect RDMA there"),
        (_, 1) => format!("{whose}: its NIC takes no GPU memory: no GPUDirect RDMA there"),
        (_, many) => format!("{whose}: {many} NICs take no GPU memory: no GPUDirect RDMA there"),
    };
    let others = if takes == 0 { String::new() } else { format!(", as {takes} other NICs of the run do") };
    let raised = Raised::new("nic-gpu-refused", FindingKind::Fault, Severity::Warning, Certainty::Certain);
    let finding = Finding {
        measured: reason.to_owned(),
        expected: format!("{EXPECTED}{others}"),
        fix: fix(reason.contains("though the module")).to_owned(),
        confirm: format!("on {}: {CONFIRM}", host(run, *first)),
        ..raised.summary(summary).about(Subject::nodes_of(names)).finding
    };
    (Some(finding), nodes)
}

/// Rails of which nearly all pairs are below what GPU memory may reach, so that no node stands out: one finding.
pub(super) fn everywhere(run: &NodesRun, joined: &[Joined]) -> Option<Finding> {
    let mut rails: BTreeMap<&str, Vec<(f64, f64, &Joined)>> = BTreeMap::new();
    for one in joined.iter().filter(|j| j.cell.step.probe == Probe::Write && j.cell.step.is_of_gpus() && !j.cell.again)
    {
        let Some((value, expected)) = one.cell.value().zip(one.expected.as_ref()) else { continue };
        let (Some([low, _]), Some(nic)) = (expected.range, &one.cell.step.from.nic) else { continue };
        rails.entry(nic).or_default().push((value / low, value / expected.value, one));
    }
    let is_slow = |all: &Vec<(f64, f64, &Joined)>| {
        all.iter().filter(|(by_low, ..)| *by_low < super::OFF).count() as f64 >= NEARLY_ALL * all.len() as f64
    };
    rails.retain(|_, all| is_slow(all));
    let all: Vec<&(f64, f64, &Joined)> = rails.values().flatten().collect();
    let share = Median::of(&all.iter().map(|(_, share, _)| *share).collect::<Vec<_>>())?.value;
    let (_, _, worst) = all.iter().min_by(|a, b| a.1.total_cmp(&b.1))?;
    let (value, expected) = worst.cell.value().zip(worst.expected.as_ref())?;
    let [from, to] = [&worst.cell.step.from, &worst.cell.step.to].map(|of| end(run, of));
    let names: Vec<String> = rails.keys().map(|nic| (*nic).to_owned()).collect();
    let nodes: BTreeSet<usize> = all.iter().flat_map(|(_, _, one)| one.cell.step.nodes()).collect();
    let severity = if share < ERROR { Severity::Error } else { Severity::Warning };
    let raised = Raised::new("nic-gpu-slow", FindingKind::Fault, severity, Certainty::Possible);
    let summary = format!(
        "GPU memory by {} reaches {:.0} % of what the paths between NICs and GPUs should carry, on nearly all nodes",
        listed(&names, FEW),
        100.0 * share
    );
    let subjects = nodes.iter().take(FEW).map(|node| host(run, *node));
    Some(Finding {
        measured: format!("from {from} to {to}, for one: {}", quantity(false, value)),
        expected: format!(
            "{}, by the model; at least {}",
            quantity(false, expected.value),
            quantity(false, expected.range?[0])
        ),
        fix: format!("On all nodes {LOOK_BESIDE_GPU}"),
        confirm: "on one of them: `peerlane measure --tests nic,nic-gpu`; `lspci -vvv | grep ACSCtl`".to_owned(),
        cost: Some(Cost {
            lost: (expected.value - value) / 1e9,
            unit: Unit::GigabytesPerSecond,
            share: 1.0 - value / expected.value,
        }),
        ..raised.summary(summary).about(Subject::nodes_of(subjects)).finding
    })
}

/// Pairs that reach more of GPU memory by way of host memory than directly, and are not slower than they should be.
pub(super) fn staged_is_faster(run: &NodesRun, joined: &[Joined]) -> Option<Finding> {
    let of = |probe: Probe| {
        joined.iter().filter(move |j| {
            let step = &j.cell.step;
            step.transport == Transport::Verbs && step.is_of_gpus() && step.probe == probe && !j.cell.again
        })
    };
    let is_sound = |j: &&Joined| j.share().is_none_or(|share| share >= super::OFF);
    let direct: BTreeMap<[&End; 2], f64> = of(Probe::Write)
        .filter(is_sound)
        .filter_map(|j| Some(([&j.cell.step.from, &j.cell.step.to], j.cell.value()?)))
        .collect();
    let both = of(Probe::SendStaged).filter_map(|j| {
        let ends = [&j.cell.step.from, &j.cell.step.to];
        Some((ends, *direct.get(&ends)?, j.cell.value()?))
    });
    let all: Vec<([&End; 2], f64, f64)> = both.collect();
    let slower: Vec<_> = all.iter().filter(|(_, direct, staged)| *direct < SLOWER * staged).collect();
    let (ends, direct, staged) = slower.iter().min_by(|a, b| (a.1 / a.2).total_cmp(&(b.1 / b.2)))?;
    let share = direct / staged;
    let severity = if share < LITTLE { Severity::Warning } else { Severity::Info };
    let raised = Raised::new("nic-gpu-slow", FindingKind::Design, severity, Certainty::Certain);
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
