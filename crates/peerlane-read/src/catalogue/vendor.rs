//! Who makes the CPU at a node: the one place that decides it.

use super::Parts;
use peerlane_machine::fabric::{CpuVendor, Fabric, NodeId};

/// The vendor of the CPU package that a node is or belongs to: as its part names it, else the product's name, else what the
/// machine states of its CPUs (an architecture alone is less specific than a product).
pub fn vendor_of(fabric: &Fabric, parts: &Parts, node: NodeId) -> Option<CpuVendor> {
    let cpu = fabric.node(fabric.package(node)?);
    let by_part = cpu.part.as_deref().and_then(|key| parts.get(key)?.vendor);
    by_part.or_else(|| CpuVendor::of_product(cpu.product.as_deref()?)).or(cpu.vendor)
}

#[cfg(test)]
mod tests {
    use super::*;
    use peerlane_machine::fabric::{FabricBuilder, Link, LinkKind, Node, NodeKind};

    #[test]
    fn part_then_product_then_what_the_machine_states() {
        let vendor = |part: Option<&str>, product: Option<&str>, stated| {
            let mut b = FabricBuilder::new();
            let cpu = Node {
                part: part.map(str::to_owned),
                product: product.map(str::to_owned),
                vendor: stated,
                ..Node::new("cpu0", NodeKind::Cpu)
            };
            let (cpu, rc) = (b.node(cpu), b.node(Node::new("rc0", NodeKind::RootComplex)));
            b.link(Link::new(cpu, rc, LinkKind::OnDie));
            let fabric = b.build().unwrap();
            assert_eq!(vendor_of(&fabric, Parts::embedded(), cpu), vendor_of(&fabric, Parts::embedded(), rc));
            vendor_of(&fabric, Parts::embedded(), rc)
        };
        use CpuVendor::{Amd, Arm, Intel, Nvidia};
        assert_eq!(vendor(Some("sapphire-rapids"), Some("AMD EPYC"), Some(Amd)), Some(Intel));
        assert_eq!(vendor(Some("core-i7-x58"), None, None), Some(Intel));
        assert_eq!(vendor(None, Some("NVIDIA Grace"), Some(Arm)), Some(Nvidia));
        assert_eq!(vendor(None, Some("a CPU"), Some(Arm)), Some(Arm));
        assert_eq!(vendor(None, None, None), None);
    }
}
