//! The cores and the memory node near a GPU.

use peerlane_machine::fabric::{CpuList, Fabric, NodeId, NodeKind};

/// CPUs that are local to a GPU: its own, as a source states them, else its host memory's or its package's.
pub(super) fn cpus(fabric: &Fabric, gpu: NodeId) -> Option<&CpuList> {
    let package = fabric.package(gpu);
    let around = [Some(gpu), fabric.nearest_host(gpu), Some(fabric.tree_top(gpu)), package];
    around.into_iter().flatten().find_map(|node| fabric.node(node).cpus.as_ref()).filter(|cpus| !cpus.is_empty())
}

/// The NUMA node of the host memory nearest to a GPU.
pub(super) fn memory(fabric: &Fabric, gpu: NodeId) -> Option<u32> {
    let host = fabric.nearest_host(gpu).and_then(|host| fabric.node(host).numa);
    host.or_else(|| fabric.node(gpu).numa).or_else(|| fabric.package(gpu).and_then(|cpu| fabric.node(cpu).numa))
}

/// A GPU's share of its local CPUs, divided evenly among all GPUs of the machine that have the same, so that no two jobs
/// meet. Each range is divided, so that the threads of a core stay together where the machine counts them range by range.
pub(super) fn share(fabric: &Fabric, gpu: NodeId) -> Option<CpuList> {
    let local = cpus(fabric, gpu)?;
    let sharing: Vec<NodeId> = fabric.of_kind(NodeKind::Gpu).filter(|g| cpus(fabric, *g) == Some(local)).collect();
    let (at, of) = (sharing.iter().position(|g| *g == gpu)? as u64, sharing.len() as u64);
    let slice = |&(first, last): &(u32, u32)| {
        let len = u64::from(last - first) + 1;
        let (from, to) = (len * at / of, len * (at + 1) / of);
        (from < to).then(|| (first + from as u32, first + to as u32 - 1))
    };
    let slices: Vec<(u32, u32)> = local.ranges().iter().filter_map(slice).collect();
    Some(if slices.is_empty() { local.clone() } else { CpuList::from_ranges(slices) })
}

/// The cores of a list without their further threads, where it shows them as ranges of one length after one another:
/// 0-9 of 0-9,20-29.
pub(super) fn first_threads(cpus: &CpuList) -> CpuList {
    let ranges = cpus.ranges();
    let half = ranges.len() / 2;
    let len = |(a, b): &(u32, u32)| b - a;
    let twice =
        half > 0 && ranges.len().is_multiple_of(2) && ranges[..half].iter().map(len).eq(ranges[half..].iter().map(len));
    if twice { CpuList::from_ranges(ranges[..half].iter().copied()) } else { cpus.clone() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use peerlane_read::catalogue::system;

    #[test]
    fn gpus_of_a_socket_share_its_cores() {
        let machine = system("exxact-traditional").unwrap().unwrap();
        let fabric = &machine.fabric;
        let of = |name: &str| {
            let gpu = fabric.find(name).unwrap();
            (share(fabric, gpu).unwrap().to_string(), memory(fabric, gpu).unwrap())
        };
        assert_eq!(of("GPU0"), ("0-4,20-24".to_owned(), 0));
        assert_eq!(of("GPU1"), ("5-9,25-29".to_owned(), 0));
        assert_eq!(of("GPU2"), ("10-14,30-34".to_owned(), 1));
        let first = |text: &str| first_threads(&text.parse().unwrap()).to_string();
        assert_eq!(
            (first("0-9,20-29"), first("0-19"), first("0,2,4-7")),
            ("0-9".into(), "0-19".into(), "0,2,4-7".into())
        );
    }
}
