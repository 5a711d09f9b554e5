//! What programs report in words that are known: one finding for each entry of the knowledge that applies.
//!
//! A finding has the entry's name for its rule. Causes come before their consequences: an entry that follows from another one, or from
//! what a rule finds, is weighed less than that, or folded into it.

use std::collections::{BTreeMap, BTreeSet};

use super::causes;
use super::gids;
use super::prelude::*;
use peerlane_machine::fabric::PciAddress;
use peerlane_machine::fact::{Message, PcieError, PcieErrorKind};
use peerlane_read::knowledge::{Class, Entry, Weight, entry};

pub(super) const RULE: Rule = Rule::new("known-message", Many(run)).watched();

/// How much less a consequence is weighed than its cause.
const AFTER: f64 = 0.9;

/// The most steps from a cause to a consequence of consequences.
const DEEPEST: usize = 4;

/// The messages of a machine by entry, in the order of their first lines.
struct Reported<'a> {
    order: Vec<&'static Entry>,
    of: BTreeMap<&'static str, Vec<(&'a Message, &'a Origin)>>,
}

fn run(view: &View) -> Vec<Raised> {
    let all = reported(view);
    let applies = |entry: &&Entry| entry.with.iter().all(|name| holds(view, &all, name));
    let applying: Vec<&'static Entry> = all.order.iter().copied().filter(applies).collect();
    let replaced: BTreeSet<&str> = applying.iter().flat_map(|entry| entry.instead_of.iter().copied()).collect();
    let is_reported = |entry: &&&'static Entry| {
        let own = entry.rule.is_empty() || entry.rule == RULE.id;
        own && entry.weight != Weight::Nothing && !replaced.contains(entry.id)
    };
    let entries: Vec<&'static Entry> = applying.iter().filter(is_reported).copied().collect();
    let of = |entry: &&'static Entry| {
        let messages = all.of.get(entry.id)?;
        let of = if explains(entry, &entries) { Weight::Likely } else { entry.weight };
        Some(finding(view, entry, of, messages).losing(weight(entry, &entries, 0)))
    };
    entries.iter().filter_map(of).collect()
}

fn reported<'a>(view: &View<'a>) -> Reported<'a> {
    let mut all = Reported { order: Vec::new(), of: BTreeMap::new() };
    for (message, origin) in view.messages() {
        let Some(entry) = entry(message.id) else { continue };
        let of_entry = all.of.entry(entry.id).or_default();
        if of_entry.is_empty() {
            all.order.push(entry);
        }
        of_entry.push((message, origin));
    }
    all
}

/// Whether something is known of the machine: another message, or a fact by its name.
fn holds(view: &View, all: &Reported, name: &str) -> bool {
    let any = |is: fn(&Fact) -> bool| view.facts(|fact| is(fact).then_some(())).next().is_some();
    match name {
        "acs-redirects" => any(|fact| matches!(fact, Fact::Acs(lines) if lines.redirecting > 0)),
        "pcie-errors" => any(|fact| matches!(fact, Fact::Kernel(log) if log.pcie_errors.iter().any(is_uncorrected))),
        "gpus-without-nvswitch" => are_without_nvswitch(view),
        "transfers" => view.machine.is_measured(),
        "ranks-in-one-collective" => is_one_collective(all) == Some(true),
        "ranks-in-other-sizes" => are_sizes_apart(all),
        "ranks-in-other-collectives" => is_one_collective(all) == Some(false),
        _ => all.of.contains_key(name),
    }
}

/// Whether all GPUs that are named are of lines that no board with NVSwitches has.
fn are_without_nvswitch(view: &View) -> bool {
    const LINES: [&str; 9] =
        ["GeForce", "Quadro", "TITAN", "RTX", "Tesla T4", "Tesla P4", "NVIDIA L4", "NVIDIA A10", "NVIDIA A16"];
    let names = view.facts(|fact| if let Fact::Gpus(gpus) = fact { Some(gpus) } else { None });
    let names: Vec<&str> = names.flat_map(|(gpus, _)| gpus).filter_map(|gpu| gpu.name.as_deref()).collect();
    // an A100 is no A10
    let is_one = |name: &&str| {
        LINES.iter().any(|line| {
            name.find(line).is_some_and(|at| !name[at + line.len()..].starts_with(|c: char| c.is_ascii_digit()))
        })
    };
    !names.is_empty() && names.iter().all(is_one)
}

fn is_uncorrected(error: &PcieError) -> bool {
    error.kind != PcieErrorKind::Corrected
}

/// Whether the ranks whose watchdogs report a collective that did not end are all in the same one; `None` where fewer than two ranks
/// report one, or where it is not known. Collectives are counted by process group, and groups that only have a number may be of other
/// ranks on each host, so that only the default group and those with a name of their own are compared.
fn is_one_collective(all: &Reported) -> Option<bool> {
    let mut groups: BTreeMap<&str, BTreeMap<&str, u64>> = BTreeMap::new();
    for (message, _) in all.of.get("torch-watchdog")? {
        let (Some(seq), Some(ranks)) = (message.part("seq"), message.part("rank")) else { continue };
        let group = message.part("group").unwrap_or_default();
        if !(group.is_empty() || group == "0" || group.contains("default_pg") || group.contains("GUID")) {
            continue;
        }
        let seq: u64 = seq.parse().ok()?;
        let of_group = groups.entry(group).or_default();
        for rank in ranks.split(", ") {
            of_group.entry(rank).and_modify(|known| *known = seq.min(*known)).or_insert(seq);
        }
    }
    let several = groups.values().filter(|ranks| ranks.len() > 1);
    several.map(|ranks| ranks.values().collect::<BTreeSet<_>>().len() == 1).reduce(|a, b| a && b)
}

/// Whether ranks give one collective different sizes, which only exchanges between single ranks may do.
fn are_sizes_apart(all: &Reported) -> bool {
    const MAY_DIFFER: [&str; 6] = ["ALLTOALL", "SEND", "RECV", "GATHER", "SCATTER", "BARRIER"];
    all.of.get("torch-watchdog").into_iter().flatten().any(|(message, _)| {
        let is_even = message.part("op").is_some_and(|op| !MAY_DIFFER.iter().any(|other| op.starts_with(other)));
        let several = |name: &str| message.part(name).is_some_and(|list| list.contains(", "));
        is_even && several("rank") && several("size")
    })
}

/// Whether a message of this entry was reported of the machine.
pub(super) fn is_reported(view: &View, ids: &[&str]) -> bool {
    view.messages().any(|(message, _)| ids.contains(&message.id))
}

/// What does not work at all comes first; what follows from another message comes after it.
fn weight(entry: &Entry, all: &[&'static Entry], depth: usize) -> f64 {
    if entry.weight == Weight::Note || entry.weight == Weight::Limit {
        return 0.0;
    }
    let cause = all.iter().filter(|other| entry.consequence_of.contains(&other.id) && other.id != entry.id);
    let least = if depth < DEEPEST { cause.map(|other| weight(other, all, depth + 1)).reduce(f64::min) } else { None };
    least.map_or(1.0, |cause| cause * AFTER)
}

/// Whether a fault that is only possible by itself explains another one that is reported.
fn explains(entry: &Entry, all: &[&'static Entry]) -> bool {
    let is_fault = |other: &Entry| matches!(other.weight, Weight::Certain | Weight::Likely);
    entry.weight == Weight::Possible
        && all.iter().any(|other| is_fault(other) && other.consequence_of.contains(&entry.id))
}

fn finding(view: &View, entry: &Entry, weight: Weight, messages: &[(&Message, &Origin)]) -> Raised {
    let (kind, severity, certainty) = match weight {
        Weight::Certain => (Fault, Error, Certain),
        Weight::Likely => (Fault, Error, Likely),
        Weight::Possible => (Fault, Warning, Possible),
        Weight::Limit => (Design, Warning, Likely),
        Weight::Note | Weight::Nothing => (Measurement, Info, Certain),
    };
    let fill = |text: &str| filled(view, text, messages);
    let mark = if entry.added { " (by this site's knowledge)" } else { "" };
    let raised = Raised::new(entry.id, kind, severity, certainty)
        .summary(format!("{}{mark}", fill(entry.summary)))
        .expected(expected(entry.class))
        .measured(quoted(entry, messages))
        .evidence(view.cite(messages.iter().map(|(_, origin)| *origin)))
        .fix(fill(entry.fix))
        .confirm(if entry.confirm.is_empty() { confirm_of(entry.class).to_owned() } else { fill(entry.confirm) })
        .about_nodes(subjects(view, messages));
    if entry.reset { raised.repaired_by_reset() } else { raised }
}

/// The first message, as it was printed, with its program and how many there are.
fn quoted(entry: &Entry, messages: &[(&Message, &Origin)]) -> String {
    let count = messages.iter().map(|(message, _)| message.count).fold(0, u32::saturating_add);
    let first = messages.first().map_or("", |(message, _)| message.quote.as_str());
    let times = if count > 1 { format!(", and {} like it", count - 1) } else { String::new() };
    let hosts = distinct(messages.iter().filter_map(|(message, _)| message.host.clone()));
    let at = if hosts.is_empty() { String::new() } else { format!(" on {}", some(&hosts)) };
    format!("{}{at}: \"{first}\"{times}", entry.program)
}

/// A text with the parts of messages: `{nic}`; `{peer|the other host}` with what stands where none is named; `{: nic}` with the signs
/// before a name where there is one.
fn filled(view: &View, text: &str, messages: &[(&Message, &Origin)]) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, (part, after))) = rest.split_once('{').and_then(|(b, a)| Some((b, a.split_once('}')?))) {
        out.push_str(before);
        let (name, default) = part.split_once('|').unwrap_or((part, ""));
        let name = name.trim_start_matches([':', ',', ' ']);
        match value(view, name, messages) {
            Some(value) => {
                out.push_str(part.split(name).next().unwrap_or_default());
                out.push_str(&value);
            }
            None => out.push_str(default),
        }
        rest = after;
    }
    out + rest
}

fn value(view: &View, name: &str, messages: &[(&Message, &Origin)]) -> Option<String> {
    let named: Vec<String> = match name {
        "gids" => gids::advice(view).into_iter().collect(),
        "host" => messages.iter().filter_map(|(m, _)| m.part("host").map(str::to_owned).or(m.host.clone())).collect(),
        "bdf" => messages.iter().filter_map(|(m, _)| Some(device(view, m.part("bdf")?))).collect(),
        _ => {
            let parts = messages.iter().flat_map(|(message, _)| &message.parts);
            parts.filter(|(known, value)| *known == name && !value.is_empty()).map(|(_, value)| value.clone()).collect()
        }
    };
    let named = distinct(named);
    (!named.is_empty()).then(|| some(&named))
}

/// Names of which the first few stand for all.
fn some(names: &[String]) -> String {
    const SHOWN: usize = 6;
    if names.len() <= SHOWN {
        return list(names);
    }
    format!("{} and {} more", names.iter().take(SHOWN).cloned().collect::<Vec<_>>().join(", "), names.len() - SHOWN)
}

/// A device's name in the machine, else its address.
fn device(view: &View, text: &str) -> String {
    let address = text.parse::<PciAddress>().ok();
    let node = address.and_then(|address| view.at(address));
    node.map_or_else(|| address.map_or_else(|| text.to_owned(), |a| a.to_string()), |id| view.name(id).to_owned())
}

/// Devices and adapters that messages name.
fn subjects(view: &View, messages: &[(&Message, &Origin)]) -> Vec<String> {
    let of = |(message, _): &(&Message, &Origin)| {
        let gpu = message.part("gpu").map(|number| format!("GPU{number}"));
        let known = |name: &String| view.fabric().find(name).is_some();
        let nic = message.part("nic").map(str::to_owned);
        let address = message.part("bdf").map(|bdf| device(view, bdf));
        [address, gpu.filter(known), nic].into_iter().flatten().collect::<Vec<_>>()
    };
    distinct(messages.iter().flat_map(of))
}

/// What a job needs of each class.
fn expected(class: Class) -> &'static str {
    match class {
        Class::Fabric => "links and ports that stay up, and a network that delivers",
        Class::Host => "enough of the host's resources, and access to them",
        Class::Driver => "drivers and libraries that are loaded and fit each other",
        Class::Hardware => "parts without errors",
        Class::Setting => "settings that fit the machine and the job",
        Class::OtherEnd => "a peer that runs until the job ends",
        Class::Caller => "calls that the library allows",
        Class::Internal => "no failure within the library",
    }
}

/// Where to look next, by class.
fn confirm_of(class: Class) -> &'static str {
    match class {
        Class::Fabric => "port states and error counters at both ends, while the job runs",
        Class::Host => "the resource's limit and use where the program runs",
        Class::Driver => "the versions of driver and library on every host",
        Class::Hardware => "the kernel's log of the time (`dmesg -T`)",
        Class::Setting => "`env` of the job, and the same job without the setting",
        Class::OtherEnd => "the first error in the logs of the other ranks",
        Class::Caller => "the program's call, with NCCL_DEBUG=INFO",
        Class::Internal => "the same job with the library's next release",
    }
}

/// Folds messages into what rules found of which they are a consequence.
pub(super) fn follow(raised: Vec<Raised>) -> Vec<Raised> {
    let found: BTreeSet<String> =
        raised.iter().filter(|r| r.finding.is_trouble()).map(|r| r.finding.rule.clone()).collect();
    let cause = |r: &Raised| {
        let entry = entry(&r.finding.rule)?;
        entry
            .consequence_of
            .iter()
            .find(|rule| super::RULES.iter().any(|known| known.id == **rule) && found.contains(**rule))
    };
    let (follow, mut kept): (Vec<_>, Vec<_>) = raised.into_iter().partition(|r| cause(r).is_some());
    for one in follow {
        let rule = cause(&one).copied().unwrap_or_default();
        match kept.iter_mut().find(|r| r.finding.rule == rule) {
            Some(known) => {
                // what only may be a fault explains one that is certain to be one
                if known.finding.severity < Error && one.finding.severity == Error {
                    known.finding.severity = Error;
                    known.finding.certainty = known.finding.certainty.max(Likely);
                }
                causes::adopt(known, one);
            }
            None => kept.push(one),
        }
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::super::testing::{findings, state, switched};
    use super::*;
    use crate::finding::Finding;
    use peerlane_machine::fact::KernelFacts;

    fn message(id: &'static str, parts: &[(&'static str, &str)]) -> Message {
        let parts = parts.iter().map(|(name, value)| (*name, (*value).to_owned())).collect();
        Message { id, parts, quote: "as printed".to_owned(), host: Some("node48".to_owned()), count: 1 }
    }

    #[test]
    fn ranks_in_one_collective_or_in_several() {
        let rules = |reported: &[(&str, &str, &str)]| {
            let of = |id, (seq, rank, group): &(&str, &str, &str)| {
                message(id, &[("seq", seq), ("rank", rank), ("group", group), ("op", "ALLREDUCE")])
            };
            let ids = ["torch-watchdog", "torch-watchdog-alike", "torch-watchdog-apart"];
            let all: Vec<Message> = ids.iter().flat_map(|id| reported.iter().map(move |one| of(id, one))).collect();
            found(&all).into_iter().map(|f| f.rule).collect::<Vec<_>>()
        };
        assert_eq!(rules(&[("1", "0, 1", "")]), ["torch-watchdog-alike"]);
        assert_eq!(rules(&[("12", "0, 1", ""), ("13", "2", "")]), ["torch-watchdog-apart"]);
        assert_eq!(rules(&[("12", "3", "")]), ["torch-watchdog"], "one rank alone");
        assert_eq!(rules(&[("12", "0", "2"), ("13", "5", "2")]), ["torch-watchdog"], "groups of other ranks");
        assert_eq!(rules(&[("12, 13", "0, 1", "")]), ["torch-watchdog"], "too many to tell apart");
    }

    #[test]
    fn ranks_that_give_a_collective_different_sizes() {
        let rules = |op: &str, sizes: &str, ranks: &str| {
            let parts = [("seq", "1"), ("rank", ranks), ("op", op), ("size", sizes)];
            let ids = ["torch-watchdog", "torch-watchdog-first", "torch-watchdog-alike", "torch-watchdog-sizes"];
            let all: Vec<Message> = ids.iter().map(|id| message(id, &parts)).collect();
            found(&all).into_iter().map(|f| f.rule).collect::<Vec<_>>()
        };
        assert_eq!(rules("ALLREDUCE", "7, 9", "0, 1"), ["torch-watchdog-sizes"]);
        assert_eq!(rules("ALLREDUCE", "7", "0, 1"), ["torch-watchdog-alike"]);
        assert_eq!(rules("ALLTOALL_BASE", "7, 9", "0, 1"), ["torch-watchdog-alike"], "an exchange may be uneven");
        assert_eq!(rules("ALLREDUCE", "7", "0"), ["torch-watchdog-first"], "one rank alone");
    }

    #[test]
    fn the_port_s_own_line_of_an_error_is_told_with_it() {
        let rules = |kind: Option<PcieErrorKind>| {
            let mut machine = switched(1);
            for id in ["aer-uncorrected", "aer-uncorrected-told"] {
                state(&mut machine, "Linux", Fact::Message(message(id, &[("bdf", "0000:17:00.0")])));
            }
            let error = |kind| PcieError {
                address: PciAddress { domain: 0, bus: 0x17, device: 0, function: 0 },
                kind,
                count: 1,
                bits: Vec::new(),
                is_burst: false,
            };
            let pcie_errors = kind.map(error).into_iter().collect();
            state(&mut machine, "kernel log", Fact::Kernel(KernelFacts { pcie_errors, ..KernelFacts::default() }));
            findings(&machine, run).len()
        };
        assert_eq!((rules(Some(PcieErrorKind::Fatal)), rules(Some(PcieErrorKind::Corrected)), rules(None)), (0, 1, 1));
    }

    fn found(messages: &[Message]) -> Vec<Finding> {
        let mut machine = switched(1);
        for one in messages {
            state(&mut machine, "NCCL", Fact::Message(one.clone()));
        }
        findings(&machine, run)
    }

    #[test]
    fn a_finding_names_the_parts_and_quotes_the_message() {
        let port = |nic| message("nccl-ib-port-error", &[("nic", nic), ("port", "1")]);
        let all = found(&[port("mlx5_3"), port("mlx5_4")]);
        let [one] = all.as_slice() else { panic!("{all:?}") };
        assert!(one.summary.contains("mlx5_3, mlx5_4") && one.summary.contains("node48"), "{}", one.summary);
        assert_eq!(one.measured, "NCCL on node48: \"as printed\", and 1 like it");
        assert_eq!((one.rule.as_str(), one.kind, one.severity), ("nccl-ib-port-error", Fault, Error));
    }

    #[test]
    fn an_entry_applies_where_what_it_needs_is_known() {
        let rules = |all: &[Message]| found(all).into_iter().map(|f| f.rule).collect::<Vec<_>>();
        let locked = message("nccl-memory-locked", &[]);
        let unlimited = message("ulimit-memlock-unlimited", &[]);
        let none = message("meminfo-no-cma", &[]);
        assert_eq!(rules(std::slice::from_ref(&locked)), ["nccl-memory-locked"]);
        assert_eq!(
            rules(&[locked.clone(), message("nccl-memory-contiguous", &[]), unlimited, none]),
            ["nccl-memory-contiguous"]
        );
        assert_eq!(rules(&[locked, message("nccl-memory-contiguous", &[])]), ["nccl-memory-locked"]);
    }

    #[test]
    fn what_explains_a_fault_is_one_and_comes_first() {
        let retry = message("nccl-ib-retry", &[("peer", "10.0.0.48")]);
        let down = message("mlx5-link-down", &[("bdf", "0000:5e:00.0")]);
        let all = found(std::slice::from_ref(&down));
        assert_eq!((all.len(), all[0].certainty), (1, Possible));
        let mut machine = switched(1);
        for one in [retry, down] {
            state(&mut machine, "log", Fact::Message(one));
        }
        let all = findings(&machine, run);
        let down = all.iter().find(|f| f.rule == "mlx5-link-down").map(|f| (f.severity, f.certainty));
        assert_eq!(down, Some((Error, Likely)));
    }

    #[test]
    fn what_a_rule_explains_is_folded_into_it() {
        let of = |rule: &str| Raised::new(rule, Fault, Error, Likely).evidence(vec![rule.to_owned()]);
        let left = follow(vec![of("fabric-not-ready"), of("cuda-fabric-802")]);
        assert_eq!(left.len(), 1);
        assert_eq!(left[0].finding.evidence, ["fabric-not-ready", "cuda-fabric-802"]);
        assert_eq!(follow(vec![of("cuda-fabric-802")]).len(), 1);
        let line = Raised::new("open-line", Fault, Warning, Possible);
        let ended = follow(vec![line, of("torchrun-failed")]);
        assert_eq!((ended.len(), ended[0].finding.severity, ended[0].finding.certainty), (1, Error, Likely));
    }
}
