//! GPU pairs on which the machine refuses peer-to-peer access.

use std::collections::BTreeMap;

use super::nccl;
use super::prelude::*;
use peerlane_machine::fact::P2pStatus;
use peerlane_model::model::NoPeerAccess;
use peerlane_read::evidence::tool;

pub(super) const RULE: Rule = Rule::new("p2p-refused", Many(run));

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
                "Enable Resizable BAR and Above 4G Decoding, so that BAR 0 exposes all GPU memory. Use a kernel with \
                 CONFIG_HSA_AMD_P2P, and turn off ACS and IOMMU translation. The driver then grants access over PCIe \
                 if it knows that the root complex forwards it. Until then, data is staged in host memory."
            }
            _ if product && self != Self::Disabled => {
                "Plan with copies through host memory, which NCCL uses automatically, or use GPUs that support \
                 peer-to-peer. NVIDIA's driver does not support peer access over PCIe on GeForce cards of this \
                 generation."
            }
            Self::Disabled => {
                "Remove the registry key (NVreg_RegistryDwords) that disables peer-to-peer, and reload the driver."
            }
            Self::Gpu => {
                "Plan with copies through host memory, or use GPUs that support peer-to-peer: no setting helps with this \
                 product and driver."
            }
            _ if should_work => {
                "Turn MIG and confidential computing off (`nvidia-smi -q`), and for NVLink start the fabric manager. \
                 If access is still refused (`nvidia-smi topo -p2p r`), boot with `iommu=pt` and clear ACS \
                 redirection on the switch."
            }
            _ => {
                "Run jobs that exchange much data on GPUs of one switch or socket. Elsewhere data is staged in host \
                 memory, which NCCL does automatically."
            }
        }
    }
}

/// What to do where NCCL's log alone reports that the driver refuses, and not why.
const ASK_THE_DRIVER: &str = "Plan with copies through host memory, which NCCL uses automatically, unless you can \
     remove the reason. Run `nvidia-smi topo -p2p r` to find the reason. GNS: the product, as GeForce cards since \
     Ampere; CNS: the chipset or the virtual machine; TNS: the path. MIG and confidential computing refuse access \
     too.";

/// Names by which products of AMD are known.
const AMD: [&str; 5] = ["Radeon", "Instinct", "AMD", "Vega", "Navi"];

/// Whether only NCCL reports peer access.
fn only_nccl(view: &View) -> bool {
    let tools = view.facts(|fact| matches!(fact, Fact::P2p(_)).then_some(()));
    distinct(tools.map(|(_, origin)| origin.tool)) == [tool::NCCL_LOG]
}

fn run(view: &View) -> Vec<Raised> {
    let mut groups: BTreeMap<(bool, Refusal, bool), Vec<(NodeId, NodeId)>> = BTreeMap::new();
    // NCCL's warning about NVLink pairs does not name them
    let warned = |w: &String| w.contains("disabled between NVLINK connected");
    let nvlinked = nccl::logs(view).iter().any(|(log, _)| log.warnings.iter().any(warned));
    for (a, b) in view.gpu_pairs() {
        let status = |a, b| view.machine.p2p.get(&(a, b)).copied().and_then(Refusal::of);
        let Some(refusal) = status(a, b).or_else(|| status(b, a)) else { continue };
        let near = view.class(a, b).map_or(nvlinked, |class| class <= PathClass::Pxb);
        groups.entry((near, refusal, are_unlike(view, a, b))).or_default().push((a, b));
    }
    let mut raised: Vec<Raised> = groups
        .into_iter()
        .map(|((near, refusal, unlike), pairs)| match unlike && !near && refusal != Refusal::Disabled {
            true => between_products(view, refusal, &pairs),
            false => report(view, near, refusal, &pairs),
        })
        .collect();
    if raised.is_empty() {
        raised.extend(not_offered(view));
    }
    raised
}

/// Whether two GPUs are known to be different products.
fn are_unlike(view: &View, a: NodeId, b: NodeId) -> bool {
    let product = |id: NodeId| view.fabric().node(id).product.as_deref().filter(|name| !name.is_empty());
    product(a).zip(product(b)).is_some_and(|(a, b)| a != b)
}

/// Pairs of different products, to which the driver gives no access whatever each of them has with its like.
fn between_products(view: &View, refusal: Refusal, pairs: &[(NodeId, NodeId)]) -> Raised {
    let product = |id: NodeId| view.fabric().node(id).product.clone();
    let products = distinct(pairs.iter().flat_map(|(a, b)| [product(*a), product(*b)]).flatten());
    RULE.raise(Design, Warning, Certain)
        .summary(format!(
            "No peer-to-peer access between GPUs of different products, {}: copies between them go through host memory ({})",
            words::pairs(&view.names(pairs.iter().copied())),
            products.join(", ")
        ))
        .expected("peer-to-peer access, where GPUs exchange data directly")
        .measured(format!("no peer access ({})", refusal.meaning()))
        .evidence(view.cite(view.peer_access().map(|(_, origin)| origin)))
        .fix(
            "Nothing is broken: the driver gives peer access between GPUs of one product or generation only. Run jobs that exchange \
             much data on GPUs of one product (CUDA_VISIBLE_DEVICES); NCCL and CUDA stage the others through host memory by themselves.",
        )
        .confirm("`nvidia-smi topo -p2p r`")
        .about(pairs.iter().map(|(a, b)| view.pair(*a, *b)).collect())
}

/// Pairs of which no source states peer access, of a product to which NVIDIA's driver does not offer it over PCIe.
fn not_offered(view: &View) -> Option<Raised> {
    let stated = |a, b| view.machine.p2p.contains_key(&(a, b)) || view.machine.p2p.contains_key(&(b, a));
    let is_without = |(a, b): &(NodeId, NodeId)| {
        let over_nvlink = view.class(*a, *b).is_some_and(PathClass::is_gpu_link);
        !over_nvlink && !stated(*a, *b) && !view.model.offers_peer_access(*a) && !view.model.offers_peer_access(*b)
    };
    // measured peer copies show what access there is
    let is_measured =
        view.bandwidths().any(|(_, o)| o.matrix.p2p == Some(true) && !view.gpu_cells(&o.matrix).is_empty());
    let pairs: Vec<(NodeId, NodeId)> = view.gpu_pairs().into_iter().filter(is_without).collect();
    // one pair that has access over PCIe shows that this driver offers it, whatever the product
    let over_pcie = |a, b| !view.class(a, b).is_some_and(PathClass::is_gpu_link);
    let is_offered = view.gpu_pairs().into_iter().any(|(a, b)| over_pcie(a, b) && view.p2p_works(a, b) == Some(true));
    if !view.is_captured() || is_measured || is_offered || pairs.is_empty() {
        return None;
    }
    let ends: Vec<NodeId> = distinct(pairs.iter().flat_map(|(a, b)| [*a, *b]));
    let product = |id: &NodeId| view.part(*id).map(|part| part.title.split(" (").next().unwrap_or_default().to_owned());
    let products = distinct(ends.iter().filter_map(product)).join(", ");
    let named = view.names(pairs.iter().copied());
    let origins = ends.iter().flat_map(|id| &view.fabric().node(*id).origins);
    // a list of GPUs does not say that they are to exchange data
    let is_listed_only = pairs.iter().all(|(a, b)| view.class(*a, *b).is_none());
    let raised = RULE
        .raise(Design, if is_listed_only { Info } else { Warning }, Likely)
        .summary(format!("No peer-to-peer (P2P) access over PCIe between {}: {products}", words::pairs(&named)))
        .expected("peer-to-peer access, where GPUs exchange data directly")
        .measured("a product to which NVIDIA's driver does not offer peer access over PCIe")
        .evidence(view.cite(distinct(origins)))
        .fix(if ends.iter().any(|id| view.part(*id).and_then(|part| part.nvlink_bricks).is_some_and(|n| n > 0)) {
            "Plan with copies through host memory, which NCCL uses automatically. If an NVLink bridge joins a pair, \
             that pair has access over it; if a patched kernel module grants it, verify the data first."
        } else {
            "Plan with copies through host memory, which NCCL uses automatically. If a patched kernel module grants \
             access, verify the data first."
        })
        .confirm("`nvidia-smi topo -p2p r`")
        .about(Subject::pairs_of(&named));
    Some(raised)
}

/// Why the pairs have none, by the model's conclusion, where it is the same for all and more than the source states.
fn conclusion(view: &View, pairs: &[(NodeId, NodeId)]) -> Option<NoPeerAccess> {
    let (a, b) = pairs.first()?;
    let why = view.model.no_peer_access(*a, *b)?;
    let same = pairs.iter().all(|(a, b)| view.model.no_peer_access(*a, *b) == Some(why));
    (same && !matches!(why, NoPeerAccess::NoPath | NoPeerAccess::Stated(_))).then_some(why)
}

fn report(view: &View, near: bool, refusal: Refusal, pairs: &[(NodeId, NodeId)]) -> Raised {
    let mut classes: Vec<PathClass> = pairs.iter().filter_map(|(a, b)| view.class(*a, *b)).collect();
    classes.sort_unstable();
    classes.dedup();
    let classes: Vec<String> = classes.iter().map(|c| format!("{c}, {}", c.meaning())).collect();
    let on = if classes.is_empty() { String::new() } else { format!(" ({})", classes.join("; ")) };
    let is_amd = |id: &NodeId| {
        let product = view.fabric().node(*id).product.as_deref().unwrap_or_default();
        AMD.iter().any(|name| product.contains(name))
    };
    let amd = pairs.iter().all(|(a, b)| is_amd(a) && is_amd(b));
    let product = pairs.iter().all(|(a, b)| !view.model.offers_peer_access(*a) || !view.model.offers_peer_access(*b));
    let should_work = near && !product;
    // a product that does not support it is a matter of design, wherever it is plugged in
    let fault = refusal == Refusal::Disabled || (should_work && refusal != Refusal::Gpu);
    // a description states only that there is none; the status words are those of programs
    let measured = match refusal {
        Refusal::Unsupported if !view.is_captured() => "no peer access, as the description states",
        Refusal::Unsupported if amd => "no access from one to the other",
        Refusal::Unsupported if only_nccl(view) => "NCCL's log reports that the driver gives it no peer access",
        Refusal::Unsupported => "no peer access (NS: not supported)",
        _ => refusal.meaning(),
    };
    let because = conclusion(view, pairs).map_or(String::new(), |why| format!("; {why}"));
    RULE.raise(if fault { Fault } else { Design }, if should_work { Error } else { Warning }, Certain)
        .summary(format!(
            "Peer-to-peer access is refused between {}{on}",
            words::pairs(&view.names(pairs.iter().copied()))
        ))
        .expected(if should_work {
            "peer-to-peer access, which works below one switch and over NVLink"
        } else {
            "peer-to-peer access, where GPUs exchange data directly"
        })
        .measured(format!("{measured}{because}"))
        .evidence(view.cite(view.peer_access().map(|(_, origin)| origin)))
        .fix(if only_nccl(view) && !product && !near { ASK_THE_DRIVER } else { refusal.fix(near, product, amd) })
        .confirm(if amd { "`rocm-smi --showtopoaccess`; `dmesg | grep -i p2p`" } else { "`nvidia-smi topo -p2p r`" })
        .about(pairs.iter().map(|(a, b)| view.pair(*a, *b)).collect())
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
        assert_eq!((found[0].kind, found[0].severity), (Fault, Error));
        assert_eq!(found[0].subjects, ["GPU0-GPU2"]);
        refuse(&mut machine, "GPU2", "GPU0", P2pStatus::GpuNotSupported);
        let found = findings(&machine, run);
        assert_eq!((found[0].kind, found[0].severity), (Design, Warning));
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
        assert_eq!(found("NVIDIA GeForce RTX 4090"), (Design, true));
        assert_eq!(found("NVIDIA RTX 6000 Ada Generation"), (Fault, false));
        assert_eq!(found("NVIDIA RTX A6000"), (Fault, false));
    }

    #[test]
    fn gpus_of_different_products() {
        let found = |second: &str| {
            let mut b = peerlane_machine::fabric::FabricBuilder::new();
            for (name, product) in [("GPU0", "NVIDIA GeForce GTX 1080"), ("GPU1", second)] {
                let mut node = peerlane_machine::fabric::Node::new(name, NodeKind::Gpu);
                node.product = Some(product.to_owned());
                b.node(node);
            }
            let mut machine = captured(b);
            refuse(&mut machine, "GPU0", "GPU1", P2pStatus::NotSupported);
            findings(&machine, run).remove(0)
        };
        let unlike = found("NVIDIA RTX A6000");
        assert_eq!(unlike.kind, Design);
        assert!(unlike.summary.contains("different products") && unlike.summary.contains("A6000"), "{unlike:?}");
        assert!(
            !unlike.fix.contains("GeForce") && !found("NVIDIA GeForce GTX 1080").summary.contains("different products")
        );
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
        assert_eq!(kind("rtx-2080-ti", "NVIDIA GeForce RTX 2080 Ti"), Design);
        assert_eq!(kind("gtx-1080-ti", "NVIDIA GeForce GTX 1080 Ti"), Fault);
    }

    #[test]
    fn parts_and_names_agree_since_ampere() {
        for part in Parts::embedded().iter().filter(|part| part.kind == peerlane_read::catalogue::PartKind::Gpu) {
            let named = without_peer_access(part.title.split(" (").next().unwrap());
            let without = part.constant("peer_access") == Some(0.0);
            // cards of Turing have peer access over their bridge
            let bridged = matches!(part.name.as_str(), "rtx-2080-ti" | "titan-rtx");
            assert_eq!(named, without && !bridged, "{}", part.title);
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
        assert_eq!((found[0].kind, found[0].severity), (Design, Warning));
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
    fn a_refusal_from_nccls_log_is_quoted_as_such() {
        let mut machine = captured(boxes(&[2], false));
        refuse(&mut machine, "GPU0", "GPU1", P2pStatus::NotSupported);
        let matrix =
            P2pMatrix { capability: P2pCapability::Access, rows: Vec::new(), cols: Vec::new(), cells: Vec::new() };
        state(&mut machine, tool::NCCL_LOG, Fact::P2p(matrix.clone()));
        let found = findings(&machine, run);
        assert!(
            found[0].measured.contains("driver gives it no peer access") && found[0].fix.contains("find the reason"),
            "{found:?}"
        );
        state(&mut machine, "nvidia-smi topo -p2p", Fact::P2p(matrix));
        assert!(findings(&machine, run)[0].measured.contains("NS: not supported"));
    }
}
