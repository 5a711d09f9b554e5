//! GPUs whose nearest RDMA NIC is not below the same switches.

use std::collections::BTreeMap;

use super::nodes;
use super::prelude::*;
use super::{Context, Settings};
use crate::finding::Finding;
use peerlane_design::case::Case;
use peerlane_machine::machine::Machine;
use peerlane_model::comparison::Comparison;
use peerlane_model::model::Model;
use peerlane_read::catalogue::Parts;

pub(super) const RULE: Rule =
    Rule::new("gpu-nic-apart", Many(run)).explains("slow-all-reduce").and_nodes(nodes::apart::apart);

/// So many GPUs that are all SYS to each other share sockets, whatever the labels say.
const FEW: usize = 3;

fn run(view: &View) -> Vec<Raised> {
    let gpus = view.of_kind(NodeKind::Gpu);
    let nics = view.rdma_nics();
    let Nearest { apart, near } = Nearest::of(view, &gpus, &nics);
    let coarse = labels_are_coarse(view, &gpus, &nics);
    apart.into_iter().map(|(class, gpus)| report(view, class, gpus, &near, coarse)).collect()
}

/// GPUs by the class of the path to the nearest of some devices.
pub(super) struct Nearest {
    /// Those of which none is below the same switches, each with its nearest ones.
    pub(super) apart: BTreeMap<PathClass, Vec<(NodeId, Vec<NodeId>)>>,
    /// Those that have one there.
    pub(super) near: Vec<NodeId>,
}

impl Nearest {
    pub(super) fn of(view: &View, gpus: &[NodeId], devices: &[NodeId]) -> Self {
        let mut all = Nearest { apart: BTreeMap::new(), near: Vec::new() };
        for gpu in gpus.iter().copied() {
            let Some(classes) = classes(view, gpu, devices) else { continue };
            let Some(best) = classes.iter().map(|(class, _)| *class).min() else { continue };
            if best > PathClass::Pxb {
                let nearest = classes.iter().filter(|(class, _)| *class == best).map(|(_, device)| *device).collect();
                all.apart.entry(best).or_default().push((gpu, nearest));
            } else {
                all.near.push(gpu);
            }
        }
        all
    }
}

/// The class of the path to each of some devices; none where one is unknown, which may be the near one.
fn classes(view: &View, gpu: NodeId, devices: &[NodeId]) -> Option<Vec<(PathClass, NodeId)>> {
    devices.iter().map(|device| Some((view.class(gpu, *device)?, *device))).collect()
}

/// Where the RDMA NICs of a machine are, seen from its GPUs, to be compared with those of other nodes.
pub(crate) struct Nearby {
    /// GPUs, each with the NICs below the same switches.
    pub(crate) gpus: Vec<(String, Vec<String>)>,
    /// NICs with no GPU below the same switches, with the class of the path to each GPU.
    pub(crate) stray: Vec<(String, Vec<PathClass>)>,
    /// Whether it is a guest, whose bus need not be the board's.
    pub(crate) guest: bool,
    /// What this rule finds on the machine alone.
    pub(crate) findings: Vec<Finding>,
}

/// [`Nearby`] of a machine; `None` where it has no such devices, or where paths or what labels mean are unknown.
pub(crate) fn nearby(machine: &Machine) -> Option<Nearby> {
    let case = Case::from(machine.clone());
    let model = Model::new(&case.machine, Parts::embedded());
    let comparison = Comparison::of(&model);
    let view = View::new(&Context::of(&case, &comparison), &Settings::default());
    let (gpus, nics) = (view.of_kind(NodeKind::Gpu), view.rdma_nics());
    if gpus.is_empty() || nics.is_empty() || labels_are_coarse(&view, &gpus, &nics) {
        return None;
    }
    let all: Vec<Vec<(PathClass, NodeId)>> =
        gpus.iter().map(|gpu| classes(&view, *gpu, &nics)).collect::<Option<_>>()?;
    let near = |classes: &Vec<(PathClass, NodeId)>| {
        let near = classes.iter().filter(|(class, _)| *class <= PathClass::Pxb);
        near.map(|(_, nic)| view.name(*nic).to_owned()).collect()
    };
    let stray = nics.iter().enumerate().filter_map(|(at, nic)| {
        let classes: Vec<PathClass> = all.iter().map(|classes| classes[at].0).collect();
        classes.iter().all(|class| *class > PathClass::Pxb).then(|| (view.name(*nic).to_owned(), classes))
    });
    Some(Nearby {
        gpus: gpus.iter().map(|gpu| view.name(*gpu).to_owned()).zip(all.iter().map(near)).collect(),
        stray: stray.collect(),
        guest: view.hypervisor().is_some(),
        findings: RULE.machine(&view).into_iter().map(|raised| raised.finding).collect(),
    })
}

/// Whether SYS means nothing: all GPUs are SYS to each other, or to all NICs, and GPUs or NICs are so among themselves too,
/// as on machines that give each device its own NUMA node.
pub(super) fn labels_are_coarse(view: &View, gpus: &[NodeId], nics: &[NodeId]) -> bool {
    let sys = |a: &NodeId, b: &NodeId| {
        view.fabric().tree_path(*a, *b).map(|p| p.class).or_else(|| view.class(*a, *b)) == Some(PathClass::Sys)
    };
    let among = |nodes: &[NodeId]| nodes.first().is_some_and(|first| nodes.iter().any(|other| sys(first, other)));
    let all_alone = gpus.len() >= FEW && view.gpu_pairs().iter().all(|(a, b)| sys(a, b));
    all_alone || gpus.iter().all(|gpu| nics.iter().all(|nic| sys(gpu, nic))) && (among(gpus) || among(nics))
}

fn report(view: &View, class: PathClass, apart: Vec<(NodeId, Vec<NodeId>)>, near: &[NodeId], coarse: bool) -> Raised {
    let gpus: Vec<NodeId> = apart.iter().map(|(gpu, _)| *gpu).collect();
    let names = view.names_of(&gpus);
    let named = |ids: &[NodeId]| list(&view.names_of(ids));
    let by_nics = grouped(apart.into_iter().map(|(gpu, nics)| (nics, gpu)));
    let nearest: Vec<String> =
        by_nics.iter().map(|(nics, gpus)| format!("{}: {} ({class})", named(gpus), named(nics))).collect();
    // NCCL does not use GPUDirect RDMA over such a path by itself
    let far = class >= PathClass::Node;
    let guest = view.hypervisor().is_some();
    let fix = if guest {
        "Ask the operator which NIC is below which switch, and give NCCL that as a topology file (NCCL_TOPO_FILE). A \
         virtual machine shows GPUs and NICs on an emulated bus, so the class may not be the host's; without a \
         topology file NCCL may leave GPUDirect RDMA off (NCCL_NET_GDR_LEVEL decides)."
    } else if far && coarse {
        "Measure each pair (`ib_write_bw --use_cuda=N`), or compare NUMA nodes and affinities. Devices that may share \
         a socket are SYS to each other here, so the label does not show which NIC is near."
    } else if far {
        "If these GPUs communicate with other hosts, install a NIC on their own socket, ideally below their switch. Until \
         then, NCCL copies through host memory (NCCL_NET_GDR_LEVEL decides); prefer GPUs near a NIC for such jobs."
    } else {
        "Measure `ib_write_bw --use_cuda=N`: root complexes differ widely in how fast they forward reads of GPU memory. If \
         it is slow and the board has a slot below the GPUs' switch, put the NIC there."
    };
    let better = if near.is_empty() {
        String::new()
    } else {
        format!("; {} {} one at PIX or PXB", named(near), if near.len() == 1 { "reaches" } else { "reach" })
    };
    RULE.raise(Design, if far && !coarse && !guest { Warning } else { Info }, if guest { Possible } else { Likely })
        .summary(format!(
            "No NIC is below the same switch as {}; the nearest path is {class}, {}",
            list(&names),
            class.meaning()
        ))
        .expected("a NIC at PIX or PXB, for GPUDirect RDMA at full rate")
        .measured(format!("nearest NIC of {}{better}", nearest.join("; ")))
        .evidence(view.cite(view.class_origins(&gpus)))
        .fix(fix)
        .confirm("`ib_write_bw --use_cuda=N` from each GPU with each NIC")
        .about_nodes(names)
}

#[cfg(test)]
mod tests {
    use super::super::testing::{boxes, captured, findings, pcie, rdma_nic, state, switched};
    use super::*;
    use peerlane_machine::fabric::Link;
    use peerlane_machine::fact::{Fact, HostFacts};
    use peerlane_machine::subject::join;

    /// GPU0 on socket 0 and GPU1 on socket 1, each below a switch, and a NIC at `port`.
    fn with_nic(port: &str) -> peerlane_machine::machine::Machine {
        let mut b = boxes(&[1, 1], true);
        let (nic, port) = (b.node(rdma_nic("mlx5_0")), b.find(port).unwrap());
        b.link(Link::new(port, nic, pcie("3.0 x16", "3.0 x16")));
        captured(b)
    }

    #[test]
    fn a_nic_below_one_switch_is_far_from_the_other_socket() {
        let found = findings(&with_nic("switch0"), run);
        assert_eq!((found.len(), found[0].severity), (1, Warning));
        assert_eq!(found[0].subjects, ["GPU1"]);
        assert!(
            found[0].measured.ends_with("GPU1: mlx5_0 (SYS); GPU0 reaches one at PIX or PXB"),
            "{}",
            found[0].measured
        );
    }

    #[test]
    fn a_nic_whose_path_is_unknown_may_be_near() {
        let mut machine = with_nic("switch0");
        let pair = (machine.fabric.find("GPU1").unwrap(), machine.fabric.find("mlx5_0").unwrap());
        machine.fabric.set_unknown_paths([pair]);
        assert!(findings(&machine, run).is_empty());
    }

    #[test]
    fn through_the_root_complex_is_good_to_know() {
        let found = findings(&with_nic("rc0"), run);
        let severities: Vec<(Severity, String)> = found.iter().map(|f| (f.severity, join(&f.subjects, " "))).collect();
        assert_eq!(severities, [(Info, "GPU0".to_owned()), (Warning, "GPU1".to_owned())]);
    }

    #[test]
    fn no_nic_or_no_rdma_is_silent() {
        assert!(findings(&switched(2), run).is_empty());
        let mut b = with_nic("rc0").fabric.into_builder();
        let nic = b.find("mlx5_0").unwrap();
        b.node_mut(nic).rdma = Some(false);
        assert!(findings(&captured(b), run).is_empty());
    }

    #[test]
    fn a_described_nic_needs_no_part() {
        let found = |name: &str| findings(&peerlane_read::catalogue::system(name).unwrap().unwrap(), run);
        let phb = found("hpcac-phb");
        assert_eq!(
            (phb.len(), phb[0].severity, phb[0].measured.as_str()),
            (1, Info, "nearest NIC of GPU0: mlx5_0, mlx5_1 (PHB)")
        );
        let sys = found("hpcac-sys");
        assert_eq!((sys.len(), sys[0].severity), (1, Warning));
        assert!(found("hpcac-tessa").is_empty());
        // in a capture, a NIC of no known part may be for the office network
        let mut b = with_nic("rc0").fabric.into_builder();
        let nic = b.find("mlx5_0").unwrap();
        b.node_mut(nic).rdma = None;
        b.node_mut(nic).part = None;
        assert!(findings(&captured(b), run).is_empty());
    }

    #[test]
    fn labels_that_are_all_sys_say_little() {
        let mut b = boxes(&[1, 1, 0], false);
        let (nic, rc) = (b.node(rdma_nic("mlx5_0")), b.find("rc2").unwrap());
        b.link(Link::new(rc, nic, pcie("3.0 x16", "3.0 x16")));
        let found = findings(&captured(b), run);
        assert_eq!((found.len(), found[0].severity), (1, Info));
    }

    #[test]
    fn a_guests_bus_is_not_the_boards() {
        let mut machine = with_nic("switch0");
        let host = HostFacts { hypervisor: Some("KVM".to_owned()), ..HostFacts::default() };
        state(&mut machine, "lscpu", Fact::Host(host));
        let found = findings(&machine, run);
        assert_eq!((found[0].severity, found[0].certainty), (Info, Possible));
        assert!(found[0].fix.contains("operator"));
    }
}
