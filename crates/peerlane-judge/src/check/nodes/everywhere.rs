//! What is slow on all nodes alike, so that none stands out: only what is expected shows it.

use std::collections::{BTreeMap, BTreeSet};

use super::prelude::*;
use super::words::LOOK_BESIDE_GPU;
use crate::check::nic_gpu_slow;
use peerlane_machine::blame::nearly_all;
use peerlane_measure::nodes::{NodesRun, Probe, Transport};

/// Below this share of what ports and links carry a rate is slow: as with NICs of one machine.
const SLOW: f64 = 0.75;

/// Nodes of which no two pairs run at once, so that no network between them explains a loss.
const ALONE: usize = 3;

/// Rails whose pairs are slow.
struct Rails<'a>(BTreeMap<&'a str, Vec<&'a ComparedStep<'a>>>);

impl<'a> Rails<'a> {
    /// Of writes by verbs with GPU or host memory, those of which nearly all are slow.
    fn of(joined: &'a [ComparedStep], gpus: bool, is_slow: impl Fn(&ComparedStep) -> Option<bool>) -> Self {
        let mut all: BTreeMap<&str, Vec<(bool, &ComparedStep)>> = BTreeMap::new();
        for one in joined.iter().filter(|j| !j.cell.again) {
            let step = &one.cell.step;
            let wanted = (step.transport, step.probe, step.is_of_gpus()) == (Transport::Verbs, Probe::Write, gpus);
            let (true, false, Some(nic)) = (wanted, step.is_loopback(), &step.from.nic) else { continue };
            all.entry(nic).or_default().extend(is_slow(one).map(|slow| (slow, one)));
        }
        all.retain(|_, pairs| {
            let slow = pairs.iter().filter(|(slow, _)| *slow).count();
            nearly_all(slow, pairs.len())
        });
        let of_rail = |(nic, pairs): (_, Vec<(bool, _)>)| (nic, pairs.into_iter().map(|(_, one)| one).collect());
        Rails(all.into_iter().map(of_rail).collect())
    }

    /// The finding on all of them; `words` are of the NICs and of the share of what is expected.
    fn finding(&self, run: &NodesRun, rule: &Rule, words: impl Fn(&str, &str) -> String) -> Option<Finding> {
        let all: Vec<(f64, &ComparedStep)> =
            self.0.values().flatten().filter_map(|one| Some((one.share()?, *one))).collect();
        let share = Median::of(&all.iter().map(|(share, _)| *share).collect::<Vec<_>>())?.value;
        let (_, worst) = all.iter().min_by(|a, b| a.0.total_cmp(&b.0))?;
        let (value, expected) = worst.cell.value().zip(worst.expected.as_ref())?;
        let [from, to] = [&worst.cell.step.from, &worst.cell.step.to].map(|of| end(run, of));
        let nics: Vec<String> = self.0.keys().map(|nic| (*nic).to_owned()).collect();
        let nodes: BTreeSet<usize> = all.iter().flat_map(|(_, one)| one.cell.step.nodes()).collect();
        let raised = rule.raise(FindingKind::Fault, Severity::Warning, Certainty::Possible);
        let summary = words(&listed(&nics, FEW), &format!("{:.0} %", 100.0 * share));
        let least =
            expected.interval().map_or_else(String::new, |[low, _]| format!("; at least {}", quantity(false, low)));
        Some(Finding {
            measured: format!("from {from} to {to}, for one: {}", quantity(false, value)),
            expected: format!("{}{least}", quantity(false, expected.value)),
            cost: Some(Cost {
                lost: (expected.value - value) / 1e9,
                unit: Unit::GigabytesPerSecond,
                share: 1.0 - value / expected.value,
            }),
            ..raised
                .summary(summary)
                .about(Subject::nodes_of(nodes.iter().take(FEW).map(|node| host(run, *node))))
                .finding
        })
    }
}

/// GPU memory below what it may reach on nearly all nodes. `known` is what else is slow with GPU memory.
pub(super) fn with_gpus(run: &NodesRun, joined: &[ComparedStep], known: &[Finding]) -> Option<Finding> {
    let below_low = |one: &ComparedStep| Some(one.cell.value()? < OFF * one.expected.as_ref()?.low);
    let words = |nics: &str, share: &str| {
        format!(
            "GPU memory by {nics} reaches {share} of what the paths between NICs and GPUs should carry, on nearly all nodes"
        )
    };
    let mut rails = Rails::of(joined, true, below_low);
    // of so few nodes one is most of the pairs
    let is_known = known.iter().any(|finding| finding.kind == FindingKind::Fault);
    rails.0.retain(|_, _| run.nodes.len() > ALONE || !is_known);
    rails.finding(run, &nic_gpu_slow::RULE, words).map(|finding| Finding {
        fix: format!("On all nodes {LOOK_BESIDE_GPU}"),
        confirm: "on one of them: `peerlane measure --tests nic,nic-gpu`; `lspci -vvv | grep ACSCtl`".to_owned(),
        ..finding
    })
}

/// Of two or three nodes host memory below what ports and links carry, by the first of two rules; what their findings name, and what
/// others do, is left to them.
pub(super) fn with_hosts<'f>(
    run: &NodesRun,
    joined: &[ComparedStep],
    known: impl Iterator<Item = &'f Finding>,
    of_all: [&Rule; 2],
) -> Option<Finding> {
    let is_slow = |one: &ComparedStep| Some(one.share()? < SLOW);
    let mut rails = Rails::of(joined, false, is_slow);
    let is_of_host = |finding: &&Finding| finding.kind == FindingKind::Fault && !finding.rule.starts_with("nic-gpu");
    let known: Vec<&Finding> = known.filter(is_of_host).collect();
    let is_named = |nic: &str| {
        let ends = |subject: &Subject| subject.to_string().split('/').any(|part| part == nic);
        let is_of_all = |finding: &Finding| of_all.iter().any(|rule| rule.id == finding.rule);
        known.iter().any(|finding| is_of_all(finding) || finding.subjects.iter().any(ends))
    };
    rails.0.retain(|nic, _| run.nodes.len() <= ALONE && !is_named(nic));
    let words = |nics: &str, share: &str| {
        format!("all pairs of nodes reach {share} of what ports and links should carry, by {nics}")
    };
    rails.finding(run, of_all[0], words).map(|finding| Finding {
        fix: "Look at what all nodes have in common: a switch or its ports at a lower speed, a rate limit (`tc qdisc`, QoS), pause \
              frames, the firmware's PCIe settings. The loopback of each NIC, which needs no network, tells it from its host."
            .to_owned(),
        confirm: "`ethtool`, `mlxlink` and `ethtool -S` on each node; counters of the switch".to_owned(),
        ..finding
    })
}
