//! NICs whose own path to host memory carries less: than those of other nodes, or than their ports.
//!
//! What is measured then is as expected, so that nothing else names it.

use std::collections::BTreeMap;

use super::prelude::*;
use peerlane_machine::units::Rate;
use peerlane_measure::nodes::NodesRun;

/// A path with less than this of what others have is another path, not another payload size.
const NARROW: f64 = 0.93;

/// A NIC with what its path carries, what binds that, and its port's rate.
struct Known {
    node: usize,
    rate: Rate,
    why: String,
    port: Option<Rate>,
}

pub(in crate::check) const NARROW_NIC: Rule = Rule::new("narrow-nic", Look::Nodes(narrow)).explains("slow-all-reduce");

/// Narrow paths, NIC by NIC of the same name on all nodes.
fn narrow(view: &View) -> Vec<Raised> {
    let View { run, ends, .. } = view;
    let mut all: BTreeMap<&str, Vec<Known>> = BTreeMap::new();
    for (node, of) in run.nodes.iter().enumerate() {
        for nic in &of.nics {
            let Some(path) = ends.host_path(node, &nic.name) else { continue };
            let (rate, why) = (Rate::from_bytes_per_second(path.value), path.binding.words.clone());
            all.entry(&nic.name).or_default().push(Known { node, rate, why, port: nic.rate });
        }
    }
    all.into_iter().flat_map(|(nic, known)| raised(of_name(run, nic, &known))).collect()
}

fn of_name(run: &NodesRun, nic: &str, known: &[Known]) -> Vec<Finding> {
    let rates: Vec<f64> = known.iter().map(|of| of.rate.bytes_per_second()).collect();
    // of two that differ, the better one is what both could have
    let usual =
        if rates.len() > 2 { Median::of(&rates).map(|m| m.value) } else { rates.iter().copied().reduce(f64::max) };
    let Some(usual) = usual else { return Vec::new() };
    let mut found = Vec::new();
    // what a port cannot use is not missing
    let wanted = |of: &Known| usual.min(of.port.map_or(f64::INFINITY, Rate::bytes_per_second));
    for of in known.iter().filter(|of| of.rate.bytes_per_second() < NARROW * wanted(of)) {
        let name = format!("{}/{nic}", host(run, of.node));
        let (rate, usual) = (of.rate.bytes_per_second(), wanted(of));
        let left = rate / usual;
        let raised = NARROW_NIC.raise(FindingKind::Fault, Severity::Warning, Certainty::Likely);
        let summary =
            format!("{name}: its path to host memory carries {:.0} % of that of others: {}", 100.0 * left, of.why);
        found.push(Finding {
            measured: format!("links as {} reported them: {}", host(run, of.node), of.rate),
            expected: format!("{}, as others of that name have", Rate::from_bytes_per_second(usual)),
            fix: format!(
                "Reseat {nic}, or move it to the slot that others use. If it stays slow, compare speed and width of \
                 its PCIe link, as they are and as they could be, and the firmware's settings with those of another \
                 node."
            ),
            confirm: format!(
                "`ssh {} lspci -vv`: LnkCap and LnkSta of {nic} and of the bridges above it",
                host(run, of.node)
            ),
            cost: Some(Cost { lost: (usual - rate) / 1e9, unit: Unit::GigabytesPerSecond, share: 1.0 - left }),
            ..raised.summary(summary).about(Subject::nodes_of([name])).finding
        });
    }
    let below = |of: &&Known| {
        let own = of.rate.bytes_per_second();
        own >= NARROW * usual && of.port.is_some_and(|port| own < NARROW * port.bytes_per_second())
    };
    let below: Vec<&Known> = known.iter().filter(below).collect();
    if let Some(Known { rate, why, port: Some(port), .. }) = below.first() {
        let names: Vec<String> = below.iter().map(|of| format!("{}/{nic}", host(run, of.node))).collect();
        let raised = NARROW_NIC.raise(FindingKind::Design, Severity::Info, Certainty::Likely);
        let summary =
            format!("paths to host memory carry {rate}, and the ports of {} {port}: {why}", listed(&names, FEW));
        found.push(Finding {
            measured: format!("links as the nodes reported them: {rate}"),
            expected: format!("{port}, the rate of the port"),
            fix: "Nothing is broken: these slots are narrower than the network. A wider slot, where the board has one, would help."
                .to_owned(),
            confirm: "`lspci -vv`: LnkCap of the NIC and of its slot".to_owned(),
            ..raised.summary(summary).about(Subject::nodes_of(names)).finding
        });
    }
    found
}
