//! Packets that ports missed: which direction of which NIC loses them, by what both ends counted.
//!
//! A packet that is lost is counted twice: the port that it should have come to sees the next one out of order, and answers so; the
//! port that sent it counts the answer, and sends again. One receiver with many senders loses what comes in, one sender with many
//! receivers what goes out, and one of each the path between the two.

use std::collections::BTreeMap;

use super::prelude::*;
use peerlane_machine::counter::ErrorCounter;
use peerlane_measure::nodes::NodesRun;

/// Errors that are chance, as of one machine (`errors-under-load`).
const FEW: u64 = 16;

/// Ports with less than this of what the worst one counted only met it.
const WORST: f64 = 1.0 / 3.0;

/// Names in a sentence.
const NAMES: usize = 3;

/// What a port counted.
type Counts = BTreeMap<ErrorCounter, u64>;

pub(in crate::check) const PACKET_LOSS: Rule =
    Rule::new("packet-loss", Look::Nodes(packet_loss)).explains("slow-all-reduce");

/// What ports counted, as a finding on the same part mentions it.
fn packet_loss(view: &View) -> Vec<Raised> {
    let mention = |finding: &Finding| format!("{}: {}", finding.summary, finding.measured);
    loss(view.run).into_iter().map(|finding| Raised { mention: mention(&finding), ..finding.into() }).collect()
}

/// What is found; the subjects are NICs.
fn loss(run: &NodesRun) -> Vec<Finding> {
    let mut ports: BTreeMap<String, Counts> = BTreeMap::new();
    for of in &run.ports {
        for rise in &of.errors {
            let name = format!("{}/{}", host(run, of.node), nic(&rise.of));
            let count = ports.entry(name).or_default().entry(rise.counter).or_default();
            *count = count.saturating_add(rise.by);
        }
    }
    let counted = |counter: ErrorCounter| -> Vec<(&String, u64)> {
        let of = |(name, counts): (_, &Counts)| Some((name, *counts.get(&counter)?));
        ports.iter().filter_map(of).filter(|(_, by)| *by > FEW).collect()
    };
    let worst = |of: &[(&String, u64)]| -> Vec<String> {
        let most = of.iter().map(|(_, by)| *by).max().unwrap_or(0) as f64;
        of.iter().filter(|(_, by)| *by as f64 >= WORST * most).map(|(name, _)| (*name).clone()).collect()
    };
    let receivers = counted(ErrorCounter::PortOutOfSequence);
    let senders = counted(ErrorCounter::PortSequenceNak);
    let (into, out) = (worst(&receivers), worst(&senders));
    let by_few = |few: &[String], partners: usize| !few.is_empty() && 2 * few.len() <= partners;
    let mut found = Vec::new();
    match (by_few(&into, senders.len()), by_few(&out, receivers.len())) {
        (false, false) => match (&senders[..], &receivers[..]) {
            ([], []) => {}
            ([(from, _)], [(to, _)]) => found.push(on_path(from, to, &ports)),
            (_, []) => found.push(finding(&out, "what it sends is lost, or the answers to it", &ports)),
            ([], _) => found.push(finding(&into, "what it receives lacks packets", &ports)),
            _ => {
                let both: Vec<String> =
                    into.iter().chain(out.iter().filter(|name| !into.contains(name))).cloned().collect();
                found.push(finding(&both, "packets are lost between these", &ports));
            }
        },
        (is_in, is_out) => {
            let one = |name: &String, words| finding(std::slice::from_ref(name), words, &ports);
            let (lost_in, lost_out) = (
                "packets are lost on their way to it, from several senders",
                "packets that it sends are lost, on their way to several receivers",
            );
            found.extend(into.iter().filter(|_| is_in).map(|name| one(name, lost_in)));
            found.extend(out.iter().filter(|_| is_out).map(|name| one(name, lost_out)));
        }
    }
    found.extend(ports.iter().filter_map(|(name, counts)| of_link(name, counts)));
    found
}

/// The NIC of a port: `mlx5_0` of `mlx5_0/1`, `mlx5_0:2` of `mlx5_0/2`.
fn nic(port: &str) -> String {
    match port.split_once('/') {
        Some((adapter, "1")) => adapter.to_owned(),
        Some((adapter, number)) => format!("{adapter}:{number}"),
        None => port.to_owned(),
    }
}

/// `node7/mlx5_3 port-out-of-sequence +1200`.
fn shown(names: &[String], ports: &BTreeMap<String, Counts>) -> String {
    let counts = |name: &String| {
        let counts = ports.get(name)?.iter().map(|(counter, by)| format!("{counter} +{by}")).collect::<Vec<_>>();
        Some(format!("{name} {}", counts.join(", ")))
    };
    names.iter().take(NAMES).filter_map(counts).collect::<Vec<_>>().join("; ")
}

fn raised(summary: String, names: &[String], ports: &BTreeMap<String, Counts>) -> Finding {
    let raised = PACKET_LOSS.raise(FindingKind::Fault, Severity::Warning, Certainty::Likely);
    Finding {
        measured: format!("while it was measured: {}", shown(names, ports)),
        expected: format!("at most {FEW} of each"),
        ..raised.summary(summary).finding
    }
}

/// Where a direction of a NIC loses packets.
fn finding(names: &[String], words: &str, ports: &BTreeMap<String, Counts>) -> Finding {
    let summary = format!("{}: {words}", listed(names, NAMES));
    let first = names.first().cloned().unwrap_or_default();
    Finding {
        subjects: Subject::nodes_of(names.iter().cloned()),
        fix: "Look at both ends of its cable: clean or replace the transceiver, then the cable, then try another switch port. On \
              Ethernet, compare flow control (PFC, ECN) of the switch port with that of others: a lossy port drops what a burst \
              exceeds."
            .to_owned(),
        confirm: confirm(&first),
        ..raised(summary, names, ports)
    }
}

fn on_path(from: &str, to: &str, ports: &BTreeMap<String, Counts>) -> Finding {
    let names = [from.to_owned(), to.to_owned()];
    Finding {
        subjects: vec![Subject::Pair(from.to_owned(), to.to_owned())],
        fix: format!(
            "Look at what {from} sends and {to} receives: errors and drops of both switch ports and of the links between them, flow \
             control, a rate limit (`tc qdisc`). A third node in the run shows whether it is an end or the path."
        ),
        confirm: confirm(from),
        ..raised(format!("one way, from {from} to {to}, packets are lost"), &names, ports)
    }
}

fn confirm(name: &str) -> String {
    let (host, nic) = name.split_once('/').unwrap_or((name, ""));
    format!("`ssh {host} rdma statistic show link {nic}`, `perfquery`, `ethtool -S`, before and after a transfer")
}

/// Errors of the link itself, which are those of what arrives at the port.
fn of_link(name: &str, counts: &Counts) -> Option<Finding> {
    use ErrorCounter as C;
    let most = |counter: C| match counter {
        C::PortDowned | C::PortRecovery => Some(0),
        C::PortSymbol | C::PortReceive | C::PortIntegrity | C::PortDiscard => Some(FEW),
        _ => None,
    };
    let bad: Vec<C> =
        counts.iter().filter(|(c, by)| most(**c).is_some_and(|most| **by > most)).map(|(c, _)| *c).collect();
    let words = match bad.as_slice() {
        [] => return None,
        [C::PortDiscard] => "the port dropped packets that it should have sent",
        bad if bad.contains(&C::PortDowned) => "its link went down while it was measured",
        _ => "what arrives there has errors of the link",
    };
    let names = [name.to_owned()];
    Some(Finding {
        subjects: Subject::nodes_of([name.to_owned()]),
        fix: format!(
            "Replace the transceiver or the cable of {name}, then try another switch port; where packets are dropped before they are \
             sent, look for a port that is paused or down."
        ),
        confirm: confirm(name),
        ..raised(format!("{name}: {words}"), &names, &BTreeMap::from([(name.to_owned(), counts.clone())]))
    })
}
