//! Names of nodes, ends and directions in findings.

use peerlane_machine::units::{Rate, Seconds};
use peerlane_measure::nodes::{End, NodesRun, Transport};

/// A node's host name.
pub(super) fn host(run: &NodesRun, node: usize) -> String {
    run.nodes.get(node).map_or_else(|| format!("node {node}"), |node| node.host.clone())
}

/// `node7/mlx5_3`, or `node7` of TCP.
pub(super) fn end(run: &NodesRun, end: &End) -> String {
    let host = host(run, end.node);
    end.nic.as_ref().map_or_else(|| host.clone(), |nic| format!("{host}/{nic}"))
}

pub(super) fn transport(transport: Transport) -> &'static str {
    match transport {
        Transport::Tcp => "TCP",
        Transport::Verbs => "verbs",
    }
}

/// `24.82 GB/s`, or `1.20 µs`.
pub(super) fn quantity(latency: bool, value: f64) -> String {
    if latency {
        format!("{:.2} µs", Seconds::new(value).us())
    } else {
        Rate::from_bytes_per_second(value).to_string()
    }
}

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
