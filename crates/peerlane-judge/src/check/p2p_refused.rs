//! GPU pairs on which the machine refuses peer-to-peer access.

use std::collections::BTreeMap;

use super::nccl;
use super::view::{Raised, View};
use super::{Certainty, Finding, FindingKind, Rule, Severity, words};
use peerlane_machine::fabric::{NodeId, PathClass};
use peerlane_machine::fact::{Fact, P2pStatus};
use peerlane_machine::subject::Subject;
use peerlane_model::model::NoPeerAccess;
use peerlane_read::evidence::tool;

pub(super) const RULE: Rule = Rule { id: "p2p-refused", breaks: true, run };

/// The status words of `nvidia-smi topo -p2p`, in the order of its legend.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Refusal {
    Chipset,
    Gpu,
    Topology,
    Unsupported,
    Disabled,
}

impl Refusal {
    fn of(status: P2pStatus) -> Option<Self> {
        match status {
            P2pStatus::Ok | P2pStatus::Unknown => None,
            P2pStatus::ChipsetNotSupported => Some(Self::Chipset),
            P2pStatus::GpuNotSupported => Some(Self::Gpu),
            P2pStatus::TopologyNotSupported => Some(Self::Topology),
            P2pStatus::NotSupported => Some(Self::Unsupported),
            P2pStatus::Disabled => Some(Self::Disabled),
        }
    }

    fn meaning(self) -> &'static str {
        match self {
            Self::Chipset => "CNS: the driver does not allow it through this chipset",
            Self::Gpu => "GNS: this GPU model, or its driver, does not support it",
            Self::Topology => "TNS: the driver does not allow it on this path",
            Self::Unsupported => "NS: not supported",
            Self::Disabled => "DR: disabled by a registry key of the driver",
        }
    }

    fn fix(self, should_work: bool, product: bool, amd: bool) -> &'static str {
        match self {
            _ if amd => {
                "amdgpu gives access over PCIe only where the whole memory stands in BAR 0 (Resizable BAR, Above 4G Decoding), the \
                 kernel is built with CONFIG_HSA_AMD_P2P, and the root complex is one that is known to pass it; an IOMMU that \
                 translates and ACS are in the way. Until then data is staged in host memory."
            }
            _ if product && self != Self::Disabled => {
                "NVIDIA's driver offers no peer-to-peer access over PCIe to GeForce cards of this generation: plan with copies \
                 through host memory, which NCCL does by itself, or use GPUs that support peer-to-peer."
            }
            Self::Disabled => {
                "Remove the registry key (NVreg_RegistryDwords) that turns peer-to-peer off and reload the driver."
            }
            Self::Gpu => {
                "No setting helps with this product and driver: plan with copies through host memory, or use GPUs that \
                 support peer-to-peer."
            }
            _ if should_work => {
                "Turn off MIG, confidential computing and the IOMMU's translation (`iommu=pt`), clear ACS redirect on the \
                 switch, and for NVLink see that the fabric manager runs; then look again with `nvidia-smi topo -p2p r`."
            }
            _ => {
                "Put GPUs that talk to each other under one switch or socket; elsewhere data is staged in host memory, \
                 which NCCL does by itself."
            }
        }
    }
}

/// What to do where NCCL's log alone says that the driver refuses, and not why.
const ASK_THE_DRIVER: &str = "`nvidia-smi topo -p2p r` says why. GeForce cards since Ampere have no access over PCIe (GNS); CNS is the \
                              chipset's or the virtual machine's; TNS the way between them. MIG and confidential computing refuse it \
                              too. NCCL copies through host memory meanwhile.";

/// Whether no program but NCCL tells of peer access.
fn only_nccl(view: &View) -> bool {
    let mut tools = view.machine.evidence.iter().filter(|e| matches!(e.fact, Fact::P2p(_))).map(|e| e.origin.tool);
    let first = tools.next();
    first.is_some() && first.into_iter().chain(tools).all(|tool| tool == tool::NCCL_LOG)
}

/// A pair with its class.
type Pair = (NodeId, NodeId, Option<PathClass>);

fn run(view: &View) -> Vec<Raised> {
    let mut groups: BTreeMap<(bool, Refusal), Vec<Pair>> = BTreeMap::new();
    // NCCL tells pairs of NVLink apart, and stops there
    let warned = |w: &String| w.contains("disabled between NVLINK connected");
    let nvlinked = nccl::logs(view).iter().any(|(log, _)| log.warnings.iter().any(warned));
    for (a, b) in view.gpu_pairs() {
        let status = |a, b| view.machine.p2p.get(&(a, b)).copied().and_then(Refusal::of);
        let Some(refusal) = status(a, b).or_else(|| status(b, a)) else { continue };
        let class = view.class(a, b);
        let near = class.map_or(nvlinked, |c| c <= PathClass::Pxb);
        groups.entry((near, refusal)).or_default().push((a, b, class));
    }
    let evidence = view.cite_facts(|fact| matches!(fact, Fact::P2p(m) if m.capability.is_access()));
    groups.into_iter().map(|((near, refusal), pairs)| report(view, near, refusal, &pairs, &evidence)).collect()
}

/// Why the pairs have none, by the model's conclusion, where it is one for all and says more than the source.
fn conclusion(view: &View, ends: &[(NodeId, NodeId)]) -> Option<NoPeerAccess> {
    let (a, b) = ends.first()?;
    let why = view.model.no_peer_access(*a, *b)?;
    let same = ends.iter().all(|(a, b)| view.model.no_peer_access(*a, *b) == Some(why));
    (same && !matches!(why, NoPeerAccess::NoPath | NoPeerAccess::Stated(_))).then_some(why)
}

fn report(view: &View, near: bool, refusal: Refusal, pairs: &[Pair], evidence: &[String]) -> Raised {
    let subjects: Vec<Subject> = pairs.iter().map(|(a, b, _)| view.pair(*a, *b)).collect();
    let ends: Vec<(NodeId, NodeId)> = pairs.iter().map(|(a, b, _)| (*a, *b)).collect();
    let mut classes: Vec<PathClass> = pairs.iter().filter_map(|(_, _, class)| *class).collect();
    classes.sort_unstable();
    classes.dedup();
    let classes: Vec<String> = classes.iter().map(|c| format!("{c}, {}", c.meaning())).collect();
    let on = if classes.is_empty() { String::new() } else { format!(" ({})", classes.join("; ")) };
    let is_amd = |id: &NodeId| {
        let product = view.fabric().node(*id).product.as_deref().unwrap_or_default();
        ["Radeon", "Instinct", "AMD", "Vega", "Navi"].iter().any(|name| product.contains(name))
    };
    let amd = ends.iter().all(|(a, b)| is_amd(a) && is_amd(b));
    let product = ends.iter().all(|(a, b)| !view.model.offers_peer_access(*a) || !view.model.offers_peer_access(*b));
    // what a product cannot do is its design, wherever it is plugged in
    let kind = match (near, refusal) {
        (_, Refusal::Disabled) => FindingKind::Fault,
        (true, r) if r != Refusal::Gpu && !product => FindingKind::Fault,
        _ => FindingKind::Design,
    };
    let because = |measured: String| match conclusion(view, &ends) {
        Some(why) => format!("{measured}; {why}"),
        None => measured,
    };
    let finding = Finding {
        rule: RULE.id.to_owned(),
        certainty: Certainty::Certain,
        confirm: if amd { "`rocm-smi --showtopoaccess`; `dmesg | grep -i p2p`" } else { "`nvidia-smi topo -p2p r`" }
            .to_owned(),
        cost: None,
        kind,
        severity: if near && !product { Severity::Error } else { Severity::Warning },
        summary: format!("Peer-to-peer access is refused between {}{on}", words::pairs(&view.names(&ends))),
        subjects,
        expected: if near && !product {
            "peer-to-peer works below one switch and over NVLink".to_owned()
        } else {
            "peer-to-peer, where GPUs are to exchange data directly".to_owned()
        },
        // a description says no and no more; the status words are those of programs
        measured: because(match refusal {
            Refusal::Unsupported if !view.is_captured() => "no peer access, as the description states".to_owned(),
            Refusal::Unsupported if amd => "no access from one to the other".to_owned(),
            Refusal::Unsupported if only_nccl(view) => {
                "\"P2P is disabled between connected GPUs\": NCCL asked the driver, which gives no peer access"
                    .to_owned()
            }
            Refusal::Unsupported => "no peer access (NS: not supported)".to_owned(),
            _ => refusal.meaning().to_owned(),
        }),
        evidence: evidence.to_vec(),
        fix: if only_nccl(view) && !product && !near { ASK_THE_DRIVER } else { refusal.fix(near, product, amd) }
            .to_owned(),
    };
    Raised::new(finding, 0.0)
}

#[cfg(test)]
mod tests {
    use super::super::testing::{boxes, captured, findings, see_with, state, switched};
    use super::*;
    use peerlane_machine::fact::{P2pCapability, P2pMatrix};
    use peerlane_machine::machine::Machine;
    use peerlane_read::catalogue::{Parts, without_peer_access};

    fn refuse(machine: &mut Machine, a: &str, b: &str, status: P2pStatus) {
        let pair = (machine.fabric.find(a).unwrap(), machine.fabric.find(b).unwrap());
        machine.p2p.insert(pair, status);
    }

    #[test]
    fn below_one_switch_it_is_an_error() {
        let mut machine = switched(3);
        refuse(&mut machine, "GPU2", "GPU0", P2pStatus::NotSupported);
        let found = findings(&machine, run);
        assert_eq!((found[0].kind, found[0].severity), (FindingKind::Fault, Severity::Error));
        assert_eq!(found[0].subjects, ["GPU0-GPU2"]);
        refuse(&mut machine, "GPU2", "GPU0", P2pStatus::GpuNotSupported);
        let found = findings(&machine, run);
        assert_eq!((found[0].kind, found[0].severity), (FindingKind::Design, Severity::Error));
    }

    #[test]
    fn a_geforce_card_never_had_it() {
        let found = |product: &str| {
            let mut machine = switched(2);
            let mut b = std::mem::take(&mut machine.fabric).into_builder();
            for name in ["GPU0", "GPU1"] {
                let id = b.find(name).unwrap();
                b.node_mut(id).product = Some(product.to_owned());
            }
            machine.fabric = b.build().unwrap();
            refuse(&mut machine, "GPU0", "GPU1", P2pStatus::NotSupported);
            let found = findings(&machine, run).remove(0);
            let same = found.measured.ends_with(&NoPeerAccess::Product.to_string());
            assert_eq!(found.fix.contains("GeForce"), same, "{found:?}");
            (found.kind, same)
        };
        assert_eq!(found("NVIDIA GeForce RTX 4090"), (FindingKind::Design, true));
        assert_eq!(found("NVIDIA RTX 6000 Ada Generation"), (FindingKind::Fault, false));
        assert_eq!(found("NVIDIA RTX A6000"), (FindingKind::Fault, false));
    }

    #[test]
    fn a_part_knows_better_than_its_name() {
        let kind = |part: &str, product: &str| {
            let mut b = boxes(&[2], true);
            for name in ["GPU0", "GPU1"] {
                let id = b.find(name).unwrap();
                let node = b.node_mut(id);
                (node.part, node.product) = (Some(part.to_owned()), Some(product.to_owned()));
            }
            let mut machine = captured(b);
            refuse(&mut machine, "GPU0", "GPU1", P2pStatus::NotSupported);
            see_with(&machine, Parts::embedded(), |view| run(view).remove(0).finding.kind)
        };
        assert_eq!(kind("rtx-2080-ti", "NVIDIA GeForce RTX 2080 Ti"), FindingKind::Design);
        assert_eq!(kind("gtx-1080-ti", "NVIDIA GeForce GTX 1080 Ti"), FindingKind::Fault);
    }

    #[test]
    fn parts_and_names_agree_since_ampere() {
        for part in Parts::embedded().iter().filter(|part| part.kind == peerlane_read::catalogue::PartKind::Gpu) {
            let named = without_peer_access(part.title.split(" (").next().unwrap());
            let without = part.constant("peer_access") == Some(0.0);
            assert_eq!(named, without && part.name != "rtx-2080-ti", "{}", part.title);
        }
    }

    #[test]
    fn across_sockets_it_is_a_design_warning_and_one_finding() {
        let mut machine = captured(boxes(&[2, 2], false));
        for (a, b) in [("GPU0", "GPU2"), ("GPU0", "GPU3"), ("GPU1", "GPU2"), ("GPU1", "GPU3")] {
            refuse(&mut machine, a, b, P2pStatus::ChipsetNotSupported);
            refuse(&mut machine, b, a, P2pStatus::ChipsetNotSupported);
        }
        let found = findings(&machine, run);
        assert_eq!(found.len(), 1);
        assert_eq!((found[0].kind, found[0].severity), (FindingKind::Design, Severity::Warning));
        assert_eq!(found[0].subjects.len(), 4);
    }

    #[test]
    fn a_description_is_not_quoted_as_a_program() {
        let machine = peerlane_read::catalogue::system("exxact-traditional").unwrap().unwrap();
        let measured = &findings(&machine, run)[0].measured;
        assert!(measured.contains("description") && !measured.contains("NS"), "{measured}");
    }

    #[test]
    fn what_works_or_is_not_known_is_silent() {
        let mut machine = switched(3);
        refuse(&mut machine, "GPU0", "GPU1", P2pStatus::Ok);
        refuse(&mut machine, "GPU0", "GPU2", P2pStatus::Unknown);
        assert!(findings(&machine, run).is_empty());
    }

    #[test]
    fn nccls_word_is_quoted_as_nccls() {
        let mut machine = captured(boxes(&[2], false));
        refuse(&mut machine, "GPU0", "GPU1", P2pStatus::NotSupported);
        let matrix =
            P2pMatrix { capability: P2pCapability::Access, rows: Vec::new(), cols: Vec::new(), cells: Vec::new() };
        state(&mut machine, tool::NCCL_LOG, Fact::P2p(matrix.clone()));
        let found = findings(&machine, run);
        assert!(found[0].measured.contains("NCCL asked") && found[0].fix.contains("says why"), "{found:?}");
        state(&mut machine, "nvidia-smi topo -p2p", Fact::P2p(matrix));
        assert!(findings(&machine, run)[0].measured.contains("NS: not supported"));
    }
}
