//! GPUs of one host between which NCCL sends through host memory, and what makes it do so.

use std::collections::BTreeMap;

use super::nccl;
use super::view::{Raised, View};
use super::words::pairs;
use super::{Certainty, Finding, FindingKind, Rule, Severity};
use peerlane_machine::fabric::PathClass;
use peerlane_machine::fact::NcclLog;
use peerlane_machine::origin::Origin;
use peerlane_machine::subject::Subject;
use peerlane_model::model::NoPeerAccess;

pub(super) const RULE: Rule = Rule { id: "nccl-through-host", breaks: false, run };

/// Why NCCL does so.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Cause {
    /// A variable turns peer-to-peer off, or keeps it to nearer pairs.
    Variable(String),
    /// A variable keeps it to near pairs, and how near this one is is not known.
    PerhapsVariable(String),
    /// The driver gives the pair no access, or its path cannot have it.
    NoAccess(NoPeerAccess),
    /// The pair's way crosses a host bridge: NCCL's own default.
    Default(PathClass),
    /// The pair is near, so that something is in the way.
    Unexpected(PathClass),
    /// The pair's way is not known.
    Unknown,
}

fn run(view: &View) -> Vec<Raised> {
    nccl::logs(view).into_iter().flat_map(|(log, origin)| of_log(view, log, origin)).collect()
}

/// The farthest way over which NCCL_P2P_LEVEL allows peer-to-peer, in NCCL's order of ways.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Level {
    Local,
    Nvlink,
    Switch,
    Switches,
    /// Host bridges of one NUMA node, which NCCL takes as one.
    HostBridge,
    System,
}

impl Level {
    /// By its name, or the number that older releases had (NCCL's `ncclGetLevel`); other names NCCL passes over.
    fn of(value: &str) -> Option<Self> {
        Some(match value {
            "LOC" | "0" => Self::Local,
            "NVL" | "NVB" | "C2C" => Self::Nvlink,
            "PIX" | "1" => Self::Switch,
            "PXB" | "P2C" | "PXN" | "2" => Self::Switches,
            "PHB" | "3" => Self::HostBridge,
            "SYS" => Self::System,
            _ => value.parse::<u32>().ok().map(|_| Self::System)?,
        })
    }

    /// The least that allows a pair of this class.
    fn for_class(class: PathClass) -> Self {
        match class {
            PathClass::Same => Self::Local,
            PathClass::Gpu(..) => Self::Nvlink,
            PathClass::Pix => Self::Switch,
            PathClass::Pxb => Self::Switches,
            PathClass::Phb | PathClass::Node => Self::HostBridge,
            PathClass::Sys => Self::System,
        }
    }
}

fn of_log(view: &View, log: &NcclLog, origin: &Origin) -> Vec<Raised> {
    // turned off, the level is not read
    let off = nccl::set(log, &["NCCL_P2P_DISABLE"], |v| v == "1").pop();
    let level = log.variables.get("NCCL_P2P_LEVEL").and_then(|value| Some((Level::of(value)?, value)));
    let mut groups: BTreeMap<Cause, Vec<(String, String)>> = BTreeMap::new();
    for one in log.transports.iter().filter(|t| t.via.starts_with("SHM")) {
        let ends = (view.machine.gpu_of_rank(log, one.from), view.machine.gpu_of_rank(log, one.to));
        let (known, class, refused) = match ends {
            (Some(a), Some(b)) => (view.p2p_works(a, b), view.class(a, b), view.model.no_peer_access(a, b)),
            _ => (None, None, None),
        };
        // the driver's refusal is told as such
        if known == Some(false) {
            continue;
        }
        let variable = |value: &str| format!("NCCL_P2P_LEVEL={value}");
        let cause = match (&off, level, class) {
            (Some(off), ..) => Cause::Variable(off.clone()),
            _ if refused.is_some() => refused.map_or(Cause::Unknown, Cause::NoAccess),
            (None, Some((level, value)), Some(class)) if level < Level::for_class(class) => {
                Cause::Variable(variable(value))
            }
            (None, Some((level, value)), None) if level < Level::System => Cause::PerhapsVariable(variable(value)),
            (None, None, Some(class)) if class > PathClass::Pxb => Cause::Default(class),
            (None, _, Some(class)) => Cause::Unexpected(class),
            (None, _, None) => Cause::Unknown,
        };
        let name = |gpu, rank| match gpu {
            Some(gpu) => view.name(gpu).to_owned(),
            None => format!("rank {rank}"),
        };
        let pair = (name(ends.0, one.from), name(ends.1, one.to));
        let group = groups.entry(cause).or_default();
        let known = |(a, b): &(String, String)| (a, b) == (&pair.0, &pair.1) || (a, b) == (&pair.1, &pair.0);
        if !group.iter().any(known) {
            group.push(pair);
        }
    }
    groups.into_iter().map(|(cause, of)| report(view, &cause, of, origin)).collect()
}

fn report(view: &View, cause: &Cause, of: Vec<(String, String)>, origin: &Origin) -> Raised {
    let subjects = Subject::pairs_of(&of);
    let (severity, certainty) = match cause {
        Cause::Variable(_) => (Severity::Warning, Certainty::Certain),
        Cause::NoAccess(_) => (Severity::Info, Certainty::Likely),
        // a way that is long and allowed is mostly one that the driver refuses
        Cause::Unexpected(class) if *class > PathClass::Pxb => (Severity::Info, Certainty::Possible),
        Cause::PerhapsVariable(_) | Cause::Unexpected(_) => (Severity::Warning, Certainty::Possible),
        Cause::Default(_) => (Severity::Info, Certainty::Likely),
        Cause::Unknown => (Severity::Info, Certainty::Possible),
    };
    let why = match cause {
        Cause::Variable(variable) => format!(": {variable} is set"),
        Cause::PerhapsVariable(variable) => format!(": {variable} is set, which may forbid their way"),
        Cause::NoAccess(why) => format!(": {why}"),
        Cause::Default(class) => format!(": their way is {class}, {}", class.meaning()),
        Cause::Unexpected(class) if *class > PathClass::Pxb => {
            format!(" although NCCL_P2P_LEVEL allows their way, {class}, {}", class.meaning())
        }
        Cause::Unexpected(class) => format!(" although their way is {class}, {}", class.meaning()),
        Cause::Unknown => String::new(),
    };
    let fix = match cause {
        Cause::Variable(_) | Cause::PerhapsVariable(_) => {
            "Unset the variable (environment, launcher, container image, /etc/nccl.conf, ~/.nccl.conf) unless it is there \
             to keep a machine from hanging or corrupting data: then fix that, which is mostly ACS, the IOMMU or the driver."
        }
        Cause::NoAccess(_) => {
            "Plan with copies through host memory, as NCCL does by itself, or use GPUs and paths that have peer-to-peer."
        }
        Cause::Default(_) => {
            "NCCL takes peer-to-peer over host bridges only where few GPUs hang on an AMD CPU. NCCL_P2P_LEVEL=SYS makes it \
             try: keep that only if it is faster and the data arrives whole."
        }
        Cause::Unexpected(_) | Cause::Unknown => {
            "See what is in the way: the driver (`nvidia-smi topo -p2p r`), containers of one GPU each or without a common \
             IPC namespace, NCCL_P2P_DISABLE or NCCL_P2P_LEVEL, or a virtual machine that hides the switch from NCCL \
             (give it a topology file, NCCL_TOPO_FILE)."
        }
    };
    let finding = Finding {
        summary: format!("NCCL sends between {} through host memory{why}", pairs(&of)),
        expected: "peer-to-peer (`via P2P/…`), where it is the faster way".to_owned(),
        measured: "channels via SHM, shared memory of the host".to_owned(),
        evidence: view.cite([origin]),
        fix: fix.to_owned(),
        confirm: "`nvidia-smi topo -p2p r`; `env | grep NCCL_`; `NCCL_DEBUG=INFO` again, with NCCL_P2P_LEVEL=SYS"
            .to_owned(),
        ..Finding::of(&RULE, FindingKind::Design, severity, certainty, subjects)
    };
    Raised::new(finding, 0.0)
}

#[cfg(test)]
mod tests {
    use super::super::testing::{boxes, captured, findings, state, switched};
    use super::*;
    use peerlane_machine::fact::{Fact, NcclRank, NcclTransport, P2pStatus};
    use peerlane_machine::machine::Machine;

    fn logged(machine: &mut Machine, via: &str, variables: &[(&str, &str)]) {
        let rank = |n| (n, NcclRank { driver: Some(n), ..NcclRank::default() });
        let transport = |from, to| NcclTransport { from, to, via: via.to_owned(), channels: 2 };
        let log = NcclLog {
            ranks: [rank(0), rank(1)].into(),
            transports: vec![transport(0, 1), transport(1, 0)],
            variables: variables.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect(),
            ..NcclLog::default()
        };
        state(machine, "NCCL_DEBUG=INFO", Fact::NcclLog(log));
    }

    fn found(mut machine: Machine, via: &str, variables: &[(&str, &str)]) -> Vec<(Severity, String)> {
        logged(&mut machine, via, variables);
        findings(&machine, run).into_iter().map(|f| (f.severity, f.summary)).collect()
    }

    #[test]
    fn a_variable_is_named_as_the_cause() {
        let off = found(switched(2), "SHM/direct/direct", &[("NCCL_P2P_DISABLE", "1")]);
        assert_eq!(
            off,
            [(
                Severity::Warning,
                "NCCL sends between GPU0 and GPU1 through host memory: NCCL_P2P_DISABLE=1 is set".to_owned()
            )]
        );
        let on = found(switched(2), "SHM/direct/direct", &[("NCCL_P2P_DISABLE", "0"), ("NCCL_P2P_LEVEL", "SYS")]);
        assert!(on[0].1.contains("although their way is PIX"), "{on:?}");
    }

    #[test]
    fn a_level_is_the_cause_only_of_what_it_forbids() {
        let below_a_switch = |level| found(switched(2), "SHM", &[("NCCL_P2P_LEVEL", level)]).remove(0).1;
        for level in ["PIX", "PXB", "PHB", "SYS", "1", "5", "9", "NODE"] {
            assert!(below_a_switch(level).contains("although their way is PIX"), "{level}: {}", below_a_switch(level));
        }
        for level in ["LOC", "NVL", "0"] {
            assert!(below_a_switch(level).ends_with(&format!("NCCL_P2P_LEVEL={level} is set")), "{level}");
        }
        let apart = |level| found(captured(boxes(&[1, 1], false)), "SHM", &[("NCCL_P2P_LEVEL", level)]).remove(0);
        assert!(apart("PHB").1.ends_with("NCCL_P2P_LEVEL=PHB is set") && apart("3").0 == Severity::Warning);
        let allowed = apart("4");
        assert!(allowed.0 == Severity::Info && allowed.1.contains("allows their way, SYS"), "{allowed:?}");
    }

    #[test]
    fn without_the_pairs_class_a_level_is_a_possible_cause() {
        let unplaced = |level| {
            let mut b = peerlane_machine::fabric::FabricBuilder::new();
            for name in ["GPU0", "GPU1"] {
                b.node(peerlane_machine::fabric::Node::new(name, peerlane_machine::fabric::NodeKind::Gpu));
            }
            let mut machine = captured(b);
            logged(&mut machine, "SHM", &[("NCCL_P2P_LEVEL", level)]);
            let found = findings(&machine, run).remove(0);
            (found.certainty, found.summary.contains("may forbid their way"))
        };
        assert_eq!(unplaced("PIX"), (Certainty::Possible, true));
        assert_eq!(unplaced("SYS"), (Certainty::Possible, false), "which forbids none");
    }

    #[test]
    fn what_a_product_does_not_have_is_no_containers_fault() {
        let of = |product: &str, setting: &[(&str, &str)]| {
            let mut b = boxes(&[2], true);
            for name in ["GPU0", "GPU1"] {
                let gpu = b.find(name).unwrap();
                b.node_mut(gpu).product = Some(product.to_owned());
            }
            found(captured(b), "SHM", setting).remove(0).1
        };
        let card = of("NVIDIA GeForce RTX 4090", &[]);
        assert!(card.ends_with(&format!(": {}", NoPeerAccess::Product)), "{card}");
        assert!(of("NVIDIA GeForce RTX 4090", &[("NCCL_P2P_DISABLE", "1")]).ends_with("NCCL_P2P_DISABLE=1 is set"));
        assert!(of("NVIDIA A100-PCIE-40GB", &[]).contains("although their way is PIX"));
    }

    #[test]
    fn over_a_host_bridge_it_is_nccls_way() {
        let over = found(captured(boxes(&[2], false)), "SHM", &[]);
        assert!(over[0].0 == Severity::Info && over[0].1.contains("their way is PHB"), "{over:?}");
        assert_eq!(found(switched(2), "P2P/CUMEM/read", &[]), []);
    }

    #[test]
    fn what_the_driver_refuses_is_told_once() {
        let mut machine = switched(2);
        let pair = (machine.fabric.find("GPU0").unwrap(), machine.fabric.find("GPU1").unwrap());
        machine.p2p.insert(pair, P2pStatus::NotSupported);
        assert_eq!(found(machine.clone(), "SHM", &[]), []);
        assert_eq!(found(machine, "SHM", &[("NCCL_P2P_DISABLE", "1")]), [], "the driver's refusal comes first");
    }
}
