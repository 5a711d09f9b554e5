//! GPUs whose nearest drive or capture card is not below the same switches: the sibling of gpu-nic-apart.

use super::gpu_nic_apart::{Nearest, labels_are_coarse};
use super::prelude::*;

pub(super) const RULE: Rule = Rule::new("gpu-device-apart", Many(run));

fn run(view: &View) -> Vec<Raised> {
    // the others move such data through host memory wherever the device is
    let mut gpus = view.of_kind(NodeKind::Gpu);
    gpus.retain(|gpu| view.model.offers_device_access(*gpu));
    let of_kind = |kind| {
        let devices = view.of_kind(kind);
        let nearest = Nearest::of(view, &gpus, &devices);
        let coarse = labels_are_coarse(view, &gpus, &devices);
        let apart = nearest.apart.into_iter();
        apart.map(|(class, gpus)| report(view, kind, class, gpus, &nearest.near, coarse)).collect::<Vec<_>>()
    };
    [NodeKind::Nvme, NodeKind::Fpga].into_iter().flat_map(of_kind).collect()
}

fn report(
    view: &View,
    kind: NodeKind,
    class: PathClass,
    apart: Vec<(NodeId, Vec<NodeId>)>,
    near: &[NodeId],
    coarse: bool,
) -> Raised {
    let what = if kind == NodeKind::Nvme { "drive" } else { "capture card" };
    let gpus: Vec<NodeId> = apart.iter().map(|(gpu, _)| *gpu).collect();
    let names = view.names_of(&gpus);
    let named = |ids: &[NodeId]| list(&view.names_of(ids));
    let by_devices = grouped(apart.into_iter().map(|(gpu, devices)| (devices, gpu)));
    let nearest: Vec<String> =
        by_devices.iter().map(|(devices, gpus)| format!("{}: {} ({class})", named(gpus), named(devices))).collect();
    let far = class == PathClass::Sys;
    let guest = view.hypervisor().is_some();
    let fix = if guest {
        format!("Ask the operator which {what} is below which switch. A virtual machine's bus may not be the host's.")
    } else if far {
        format!(
            "Let GPUs of the {what}'s socket take its data. Otherwise install a {what} on these GPUs' own socket, \
             ideally below take its data."
        )
    } else {
        format!("If the board has a slot below the GPUs' switch, put the {what} there. Otherwise measure both paths.")
    };
    let confirm = if kind == NodeKind::Nvme {
        "`gdsio -x 0` (direct) and `gdsio -x 2` (through host memory) from each GPU"
    } else {
        "stream from the card to each GPU, with and without GPUDirect RDMA"
    };
    let better = if near.is_empty() { String::new() } else { format!("; one at PIX or PXB: {}", named(near)) };
    RULE.raise(Design, if far && !coarse && !guest { Warning } else { Info }, if guest { Possible } else { Likely })
        .summary(format!(
            "No {what} is below the same switch as {}; the nearest path is {class}, {}",
            list(&names),
            class.meaning()
        ))
        .expected(format!("a {what} at PIX or PXB, for direct transfers at full rate"))
        .measured(format!("nearest {what} of {}{better}", nearest.join("; ")))
        .evidence(view.cite(view.class_origins(&gpus)))
        .fix(fix)
        .confirm(confirm)
        .about_nodes(names)
}

#[cfg(test)]
mod tests {
    use super::super::testing::{boxes, captured, findings, pcie};
    use super::*;
    use peerlane_machine::fabric::{Link, Node};
    use peerlane_machine::subject::join;

    /// GPU0 on socket 0 and GPU1 on socket 1, each below a switch, and a device at `port`.
    fn with_device(kind: NodeKind, port: &str, product: &str) -> peerlane_machine::machine::Machine {
        let mut b = boxes(&[1, 1], true);
        for gpu in ["GPU0", "GPU1"] {
            let id = b.find(gpu).unwrap();
            (b.node_mut(id).part, b.node_mut(id).product) = (None, Some(product.to_owned()));
        }
        let (device, port) = (b.node(Node::new("dev0", kind)), b.find(port).unwrap());
        b.link(Link::new(port, device, pcie("4.0 x4", "4.0 x4")));
        captured(b)
    }

    #[test]
    fn a_drive_is_judged_as_a_nic_is() {
        let found = findings(&with_device(NodeKind::Nvme, "switch0", "NVIDIA A100"), run);
        assert_eq!((found.len(), found[0].severity), (1, Warning));
        assert_eq!(found[0].subjects, ["GPU1"]);
        assert_eq!(found[0].measured, "nearest drive of GPU1: dev0 (SYS); one at PIX or PXB: GPU0");
        let found = findings(&with_device(NodeKind::Fpga, "rc0", "NVIDIA A100"), run);
        let severities: Vec<_> = found.iter().map(|f| (f.severity, join(&f.subjects, " "))).collect();
        assert_eq!(severities, [(Info, "GPU0".to_owned()), (Warning, "GPU1".to_owned())]);
        assert!(found[0].summary.starts_with("No capture card"), "{}", found[0].summary);
    }

    #[test]
    fn a_gpu_that_no_drive_may_reach_is_left_out() {
        assert!(findings(&with_device(NodeKind::Nvme, "switch0", "NVIDIA GeForce GTX 1070"), run).is_empty());
    }
}
