//! Names of nodes, ends and directions in findings.

use peerlane_machine::units::{Rate, Seconds};
use peerlane_measure::nodes::{End, NodesRun, Transport};

/// A node's host name.
pub(super) fn host(run: &NodesRun, node: usize) -> String {
    run.nodes.get(node).map_or_else(|| format!("node {node}"), |node| node.host.clone())
}

/// `node7/mlx5_3`, of GPU memory `node7/GPU0`, else `node7`.
pub(crate) fn end(run: &NodesRun, end: &End) -> String {
    let host = host(run, end.node);
    end.nic.as_deref().or(end.memory.device()).map_or_else(|| host.clone(), |part| format!("{host}/{part}"))
}

pub(crate) fn transport(transport: Transport) -> &'static str {
    match transport {
        Transport::Tcp => "TCP",
        Transport::Verbs => "verbs",
        Transport::Nccl => "NCCL",
    }
}

/// A rate or a latency: `24.82 GB/s`, `9.45 MB/s`, `1.20 µs`, `310 µs`.
pub fn quantity(latency: bool, value: f64) -> String {
    let us = Seconds::new(value).us();
    match latency {
        true if us >= 100.0 => format!("{us:.0} µs"),
        true => format!("{us:.2} µs"),
        false if value < 0.1e9 => format!("{:.2} MB/s", value / 1e6),
        false => Rate::from_bytes_per_second(value).to_string(),
    }
}

/// Names in a sentence.
pub(super) const FEW: usize = 3;

/// `a, b and 3 more`.
pub(super) fn listed(names: &[String], most: usize) -> String {
    match names {
        [] => String::new(),
        [one] => one.clone(),
        many if many.len() <= most => {
            let (last, first) = (many[many.len() - 1].as_str(), &many[..many.len() - 1]);
            format!("{} and {last}", first.join(", "))
        }
        many => format!("{} and {} more", many[..most].join(", "), many.len() - most),
    }
}

/// What to do about what lies between NICs and GPUs, on the nodes that have it.
pub(super) const LOOK_BESIDE_GPU: &str = "clear ACS on the switches' ports, boot with `iommu=pt`, and let the \
     adapter write relaxed: peer traffic that is redirected or translated is slow. If that does not help, read the \
     width of the GPU's link (`nvidia-smi -q`).";
