//! GPUs of one host between which NCCL sends through host memory, and why it does so.

use std::collections::BTreeMap;

use super::nccl;
use super::prelude::*;
use peerlane_machine::fact::NcclLog;
use peerlane_model::collectives::Level;
use peerlane_model::model::NoPeerAccess;

pub(super) const RULE: Rule = Rule::new("nccl-through-host", Many(run));

/// The first release that logs NCCL_P2P_DISABLE by its name: those before print it as the level.
const LEVEL_ALONE: (u32, u32) = (2, 24);

/// What they print for it.
const LOCAL: &str = "NCCL_P2P_LEVEL=LOC";

/// Why NCCL does so.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Cause {
    /// A variable turns peer-to-peer off, or restricts it to nearer pairs.
    Variable(String),
    /// A variable restricts it to near pairs, and how near this one is is unknown.
    PerhapsVariable(String),
    /// The driver gives the pair no access, or its path cannot have it.
    NoAccess(NoPeerAccess),
    /// The pair's path crosses a host bridge: NCCL's own default.
    Default(PathClass),
    /// The pair is near, so something prevents it.
    Unexpected(PathClass),
    /// CUDA allows it, and the pair's path is unknown: too long for NCCL, or not visible to it.
    Allowed,
    /// The pair's path is unknown.
    Unknown,
}

fn run(view: &View) -> Vec<Raised> {
    nccl::logs(view).into_iter().flat_map(|(log, origin)| of_log(view, log, origin)).collect()
}

fn of_log(view: &View, log: &NcclLog, origin: &Origin) -> Vec<Raised> {
    let off = nccl::set(log, &["NCCL_P2P_DISABLE"], |v| v == "1").pop();
    let level = log.variables.get("NCCL_P2P_LEVEL").and_then(|value| Some((Level::of(value)?, value)));
    let either = log.release().is_none_or(|release| release < LEVEL_ALONE);
    let mut groups: BTreeMap<Cause, Vec<(String, String)>> = BTreeMap::new();
    for one in log.transports.iter().filter(|t| t.via.starts_with("SHM")) {
        let ends = (view.machine.gpu_of_rank(log, one.from), view.machine.gpu_of_rank(log, one.to));
        let (works, class, refused) = match ends {
            (Some(a), Some(b)) => (view.p2p_works(a, b), view.class(a, b), view.model.no_peer_access(a, b)),
            _ => (None, None, None),
        };
        // p2p-refused reports what the driver refuses
        if works == Some(false) {
            continue;
        }
        let cause = match cause(off.as_deref(), level, class, refused) {
            Cause::Variable(set) if either && set == LOCAL => Cause::Variable(format!("NCCL_P2P_DISABLE=1 or {LOCAL}")),
            Cause::Unknown if log.cuda_p2p == Some(true) => Cause::Allowed,
            other => other,
        };
        let name =
            |gpu: Option<NodeId>, rank| gpu.map_or_else(|| format!("rank {rank}"), |gpu| view.name(gpu).to_owned());
        let (a, b) = (name(ends.0, one.from), name(ends.1, one.to));
        let group = groups.entry(cause).or_default();
        if ![(&a, &b), (&b, &a)].iter().any(|(x, y)| group.iter().any(|pair| (&pair.0, &pair.1) == (*x, *y))) {
            group.push((a, b));
        }
    }
    groups.into_iter().map(|(cause, of)| report(view, &cause, &of, origin)).collect()
}

/// Why a pair goes through host memory. Where peer-to-peer is off, NCCL does not read the level.
fn cause(
    off: Option<&str>,
    level: Option<(Level, &String)>,
    class: Option<PathClass>,
    refused: Option<NoPeerAccess>,
) -> Cause {
    let variable = |value: &str| format!("NCCL_P2P_LEVEL={value}");
    match (off, refused, level, class) {
        (Some(off), ..) => Cause::Variable(off.to_owned()),
        (_, Some(why), ..) => Cause::NoAccess(why),
        (.., Some((level, value)), Some(class)) if level < Level::for_class(class) => Cause::Variable(variable(value)),
        (.., Some((level, value)), None) if level < Level::System => Cause::PerhapsVariable(variable(value)),
        (.., None, Some(class)) if class > PathClass::Pxb => Cause::Default(class),
        (.., Some(class)) => Cause::Unexpected(class),
        (.., None) => Cause::Unknown,
    }
}

fn report(view: &View, cause: &Cause, of: &[(String, String)], origin: &Origin) -> Raised {
    let (severity, certainty) = match cause {
        Cause::Variable(_) => (Warning, Certain),
        // a path that is long and allowed is mostly one that the driver refuses
        Cause::Unexpected(class) if *class > PathClass::Pxb => (Info, Possible),
        Cause::PerhapsVariable(_) | Cause::Unexpected(_) => (Warning, Possible),
        // works as built, and costs what a direct path would give
        Cause::NoAccess(_) | Cause::Default(_) | Cause::Allowed => (Warning, Likely),
        Cause::Unknown => (Warning, Possible),
    };
    let why = match cause {
        Cause::Variable(variable) => format!(": {variable} is set"),
        Cause::PerhapsVariable(variable) => format!(": {variable} is set, which may forbid their path"),
        Cause::NoAccess(why) => format!(": {why}"),
        Cause::Default(class) => format!(": their path is {class}, {}", class.meaning()),
        Cause::Unexpected(class) if *class > PathClass::Pxb => {
            format!(" although NCCL_P2P_LEVEL allows their path, {class}, {}", class.meaning())
        }
        Cause::Unexpected(class) => format!(" although their path is {class}, {}", class.meaning()),
        Cause::Allowed => " although CUDA allows peer-to-peer between all of the host's GPUs".to_owned(),
        Cause::Unknown => String::new(),
    };
    let fix = match cause {
        Cause::Variable(_) | Cause::PerhapsVariable(_) => {
            "Unset the variable (environment, launcher, container image, /etc/nccl.conf, ~/.nccl.conf). If it is set \
             because the machine hangs or corrupts data, fix that cause instead: usually ACS, the IOMMU or the \
             driver."
        }
        Cause::NoAccess(_) => {
            "Plan with copies through host memory, which NCCL uses automatically, or use GPUs and paths that support \
             peer-to-peer."
        }
        Cause::Default(_) => {
            "Try NCCL_P2P_LEVEL=SYS; keep it only if it is faster and data arrives intact. By default, NCCL uses \
             peer-to-peer over host bridges only on an AMD CPU with at most two GPUs."
        }
        Cause::Allowed => {
            "Try NCCL_P2P_LEVEL=SYS; keep it only if it is faster and data arrives intact. By default, NCCL uses \
             peer-to-peer over host bridges only on an AMD CPU with at most two GPUs. In containers, processes without a \
             common /dev/shm cannot use it either (`--ipc=host`)."
        }
        Cause::Unexpected(_) | Cause::Unknown => {
            "Unset NCCL_P2P_DISABLE and NCCL_P2P_LEVEL, if `nvidia-smi topo -p2p r` shows that the driver allows \
             peer access. Join containers that have one GPU each or no common IPC namespace (`--ipc=host`), and give \
             NCCL a topology file (NCCL_TOPO_FILE) in virtual machines, which hide the switch."
        }
    };
    RULE.raise(Design, severity, certainty)
        .summary(format!("NCCL sends between {} through host memory{why}", words::pairs(of)))
        .expected("peer-to-peer (`via P2P/…`), where it is faster")
        .measured("channels via SHM, shared memory of the host")
        .evidence(view.cite([origin]))
        .fix(fix)
        .confirm("`nvidia-smi topo -p2p r`; `env | grep NCCL_`; `NCCL_DEBUG=INFO` again, with NCCL_P2P_LEVEL=SYS")
        .about(Subject::pairs_of(of))
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
            [(Warning, "NCCL sends between GPU0 and GPU1 through host memory: NCCL_P2P_DISABLE=1 is set".to_owned())]
        );
        let on = found(switched(2), "SHM/direct/direct", &[("NCCL_P2P_DISABLE", "0"), ("NCCL_P2P_LEVEL", "SYS")]);
        assert!(on[0].1.contains("although their path is PIX"), "{on:?}");
    }

    #[test]
    fn a_level_is_the_cause_only_of_what_it_forbids() {
        let below_a_switch = |level| found(switched(2), "SHM", &[("NCCL_P2P_LEVEL", level)]).remove(0).1;
        for level in ["PIX", "PXB", "PHB", "SYS", "1", "5", "9", "NODE"] {
            assert!(below_a_switch(level).contains("although their path is PIX"), "{level}: {}", below_a_switch(level));
        }
        for level in ["LOC", "NVL", "0"] {
            assert!(below_a_switch(level).ends_with(&format!("NCCL_P2P_LEVEL={level} is set")), "{level}");
        }
        assert!(
            below_a_switch("LOC").contains(": NCCL_P2P_DISABLE=1 or NCCL_P2P_LEVEL=LOC"),
            "as older releases log it"
        );
        let apart = |level| found(captured(boxes(&[1, 1], false)), "SHM", &[("NCCL_P2P_LEVEL", level)]).remove(0);
        assert!(apart("PHB").1.ends_with("NCCL_P2P_LEVEL=PHB is set") && apart("3").0 == Warning);
        let allowed = apart("4");
        assert!(allowed.0 == Info && allowed.1.contains("allows their path, SYS"), "{allowed:?}");
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
            (found.certainty, found.summary.contains("may forbid their path"))
        };
        assert_eq!(unplaced("PIX"), (Possible, true));
        assert_eq!(unplaced("SYS"), (Possible, false), "which forbids none");
    }

    #[test]
    fn a_products_limit_is_not_blamed_on_containers() {
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
        assert!(of("NVIDIA A100-PCIE-40GB", &[]).contains("although their path is PIX"));
    }

    #[test]
    fn where_cuda_allows_it_nccl_finds_the_path_too_long() {
        let mut b = peerlane_machine::fabric::FabricBuilder::new();
        for name in ["GPU0", "GPU1"] {
            b.node(peerlane_machine::fabric::Node::new(name, peerlane_machine::fabric::NodeKind::Gpu));
        }
        let mut machine = captured(b);
        logged(&mut machine, "SHM/direct/direct", &[]);
        let Some(Fact::NcclLog(log)) = machine.evidence.last_mut().map(|e| &mut e.fact) else { panic!() };
        log.cuda_p2p = Some(true);
        let one = findings(&machine, run).remove(0);
        assert!(one.summary.ends_with("all of the host's GPUs") && one.fix.contains("NCCL_P2P_LEVEL=SYS"), "{one:?}");
    }

    #[test]
    fn over_a_host_bridge_it_is_nccls_default() {
        let over = found(captured(boxes(&[2], false)), "SHM", &[]);
        assert!(over[0].0 == Warning && over[0].1.contains("their path is PHB"), "{over:?}");
        assert_eq!(found(switched(2), "P2P/CUMEM/read", &[]), []);
    }

    #[test]
    fn what_the_driver_refuses_is_reported_once() {
        let mut machine = switched(2);
        let pair = (machine.fabric.find("GPU0").unwrap(), machine.fabric.find("GPU1").unwrap());
        machine.p2p.insert(pair, P2pStatus::NotSupported);
        assert_eq!(found(machine.clone(), "SHM", &[]), []);
        assert_eq!(found(machine, "SHM", &[("NCCL_P2P_DISABLE", "1")]), [], "the driver's refusal comes first");
    }
}
