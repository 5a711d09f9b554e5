//! Which GPU goes with which NIC.

use peerlane_machine::fabric::{Fabric, NodeId, NodeKind, PathClass};
use peerlane_measure::nodes::NodeGpu;

/// For each NIC the GPU that is nearest to it by the class of the path, where that is known: `class(nic, gpu)`. Of several it is the
/// one that fewest NICs before it have, so that each gets its own where there are enough. None where there is no GPU.
pub fn nearest_gpus(
    nics: usize,
    gpus: usize,
    class: impl Fn(usize, usize) -> Option<PathClass>,
) -> impl Iterator<Item = Option<usize>> {
    let mut taken = vec![0_usize; gpus];
    (0..nics).map(move |nic| {
        // an unknown path is no nearer than any known one
        let far = |gpu: usize| class(nic, gpu).map_or((true, None), |class| (false, Some(class)));
        let nearest = (0..gpus).min_by_key(|gpu| (far(*gpu), taken[*gpu]))?;
        taken[nearest] += 1;
        Some(nearest)
    })
}

/// The NIC of a machine that libibverbs calls so; a second port is a NIC of its own, or shares the path of its card.
pub fn shown_nic(fabric: &Fabric, name: &str) -> Option<NodeId> {
    fabric.find(name).or_else(|| fabric.find(name.split_once(':')?.0))
}

/// The GPU of a machine that an agent's driver shows: by its address, or by its name where the agent gives none, or the machine has
/// none.
pub fn shown_gpu(fabric: &Fabric, gpu: &NodeGpu) -> Option<NodeId> {
    let all = || fabric.of_kind(NodeKind::Gpu);
    let has_addresses = all().any(|id| fabric.node(id).address.is_some());
    match gpu.address.filter(|_| has_addresses) {
        Some(address) => all().find(|id| fabric.node(*id).address == Some(address)),
        None => fabric.find(&gpu.name).filter(|id| fabric.node(*id).kind == NodeKind::Gpu),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use peerlane_machine::fabric::PciAddress;
    use peerlane_read::catalogue::system;

    #[test]
    fn each_nic_has_its_own_gpu_where_it_can() {
        let of = |name: &str| {
            let machine = system(name).unwrap().unwrap();
            let fabric = &machine.fabric;
            let nics: Vec<NodeId> = machine.rdma_nics().collect();
            let gpus: Vec<NodeId> = fabric.of_kind(NodeKind::Gpu).collect();
            let class = |nic: usize, gpu: usize| fabric.class(gpus[gpu], nics[nic]);
            let found: Vec<_> = nearest_gpus(nics.len(), gpus.len(), class).collect();
            let farthest = found.iter().enumerate().filter_map(|(nic, gpu)| class(nic, (*gpu)?)).max();
            (found, farthest)
        };
        let (gpus, farthest) = of("hgx-h200");
        let mut own: Vec<usize> = gpus.into_iter().flatten().collect();
        own.sort_unstable();
        assert_eq!(own, (0..8).collect::<Vec<_>>());
        assert!(farthest <= Some(peerlane_machine::fabric::PathClass::Pxb), "{farthest:?}");
        // two NICs beside each GPU
        let (gpus, _) = of("hpcac-tessa");
        assert!(gpus.iter().all(Option::is_some), "{gpus:?}");
        assert!(nearest_gpus(3, 2, |_, _| None).eq([Some(0), Some(1), Some(0)]));
        assert!(nearest_gpus(1, 0, |_, _| None).eq([None]));
    }

    #[test]
    fn a_gpu_is_found_by_its_address_whatever_the_driver_calls_it() {
        let machine = system("hgx-h200").unwrap().unwrap();
        let gpu = |address: &str| NodeGpu {
            name: "GPU0".to_owned(),
            product: String::new(),
            address: Some(address.parse::<PciAddress>().unwrap()),
        };
        let third = machine.fabric.of_kind(NodeKind::Gpu).nth(2).unwrap();
        let first = machine.fabric.find("GPU0");
        // without addresses names count
        assert_eq!(shown_gpu(&machine.fabric, &gpu("0000:5e:00.0")), first);
        let mut builder = machine.fabric.into_builder();
        builder.node_mut(third).address = Some("0000:5e:00.0".parse().unwrap());
        let fabric = builder.build().unwrap();
        assert_eq!(shown_gpu(&fabric, &gpu("0000:5e:00.0")), Some(third));
        assert_eq!(shown_gpu(&fabric, &gpu("0000:5f:00.0")), None);
    }
}
