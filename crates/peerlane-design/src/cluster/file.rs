//! Cluster files: `clusters/*.toml` and a user's own. `docs/simulation.md` describes the format.

use std::ops::Range;

use serde::Deserialize;
use toml::Spanned;

use super::network::{End, Explicit, MOST_PORTS, Shape};
use super::{Cluster, ClusterError, Network, Wanted, line_rate, network_nics};
use crate::builder::named;
use peerlane_machine::machine::Machine;
use peerlane_machine::one_line;
use peerlane_machine::units::{Rate, Seconds};

/// `(name, text)` of each file of `clusters/`.
macro_rules! embed {
    ($($name:literal)*) => {
        &[$(($name, include_str!(concat!("../../clusters/", $name, ".toml")))),*]
    };
}

/// Clusters of the catalogue, sorted by name.
const CLUSTERS: &[(&str, &str)] = embed!(
    "apenet-pair"
    "hgx-h200-x32"
    "quong"
    "quong-20g"
    "tessa-pair"
);

/// Names of the embedded clusters, sorted.
pub fn cluster_names() -> impl Iterator<Item = &'static str> {
    CLUSTERS.iter().map(|(name, _)| *name)
}

/// Text of an embedded cluster file.
pub fn cluster_text(name: &str) -> Option<&'static str> {
    CLUSTERS.iter().find(|(n, _)| *n == name).map(|(_, text)| *text)
}

/// An embedded cluster by name.
pub fn embedded(name: &str) -> Option<Result<Cluster, ClusterError>> {
    cluster_text(name).map(|text| read_cluster(text, name, |system| named(system).and_then(Result::ok)))
}

/// Whether a TOML text is a cluster's: it has a table `[network]`, which no system file has.
pub fn looks_like_cluster(text: &str) -> bool {
    text.lines().any(|line| line.trim_end() == "[network]")
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    name: String,
    title: Option<String>,
    source: Option<String>,
    #[serde(default)]
    assumptions: Vec<String>,
    #[serde(default)]
    notes: Vec<String>,
    /// A system of the catalogue, or a system file beside this one.
    node: Spanned<String>,
    nodes: Spanned<u32>,
    network: NetworkTable,
    #[serde(default)]
    links: Vec<Spanned<LinkTable>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NetworkTable {
    /// As on a command line, or `links`.
    shape: Spanned<String>,
    /// Gb/s of a link and direction.
    rate: Option<Spanned<f64>>,
    /// µs of a message but for its hops.
    latency_us: Option<Spanned<f64>>,
    /// `adapters`: a message takes the stages of both adapters.
    latency: Option<Spanned<String>>,
    /// As on a command line.
    routing: Option<Spanned<String>>,
    /// µs that each switch, or each card on the way, adds.
    hop_latency_us: Option<Spanned<f64>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct LinkTable {
    between: [String; 2],
    rate: Option<f64>,
}

/// Reads a cluster file. `file` names it in errors; `system` finds the node's machine.
///
/// # Errors
/// Where the text is no TOML of this format, the node or a NIC is unknown, a rate or time is out of range, or the network
/// does not fit the nodes; the message names the line.
pub fn read_cluster(
    text: &str,
    file: &str,
    system: impl FnOnce(&str) -> Option<Machine>,
) -> Result<Cluster, ClusterError> {
    let line = |span: Range<usize>| text.bytes().take(span.start).filter(|b| *b == b'\n').count() + 1;
    let refuse = |span: Option<Range<usize>>, message: String| ClusterError::File {
        file: file.to_owned(),
        message: span.map_or_else(|| message.clone(), |s| format!("line {}: {message}", line(s))),
    };
    let read: File = toml::Deserializer::parse(text)
        .and_then(one_line::read)
        .map_err(|e| refuse(e.span(), e.message().to_owned()))?;
    let at = |span: Range<usize>| move |e: ClusterError| refuse(Some(span.clone()), e.to_string());
    let node = read.node.get_ref();
    let machine = system(node).ok_or_else(|| {
        refuse(Some(read.node.span()), format!("no system '{node}' in the catalogue, nor a file next to this one"))
    })?;
    let number = |value: &Option<Spanned<f64>>, positive: bool| match value {
        Some(v) if !v.get_ref().is_finite() || *v.get_ref() < 0.0 || (positive && *v.get_ref() == 0.0) => {
            let least = if positive { "above 0" } else { "of at least 0" };
            Err(refuse(Some(v.span()), format!("{} must be a number {least}", v.get_ref())))
        }
        other => Ok(other.as_ref().map(|v| *v.get_ref())),
    };
    let network = &read.network;
    let rate = number(&network.rate, true)?.map(Rate::from_gbit);
    let latency = number(&network.latency_us, false)?;
    let by_adapters = match &network.latency {
        Some(word) if word.get_ref() != "adapters" || latency.is_some() => {
            let why = "latency = \"adapters\" takes the adapters' stages; write that, or latency_us = 2.7, or neither";
            return Err(refuse(Some(word.span()), why.to_owned()));
        }
        word => word.is_some(),
    };
    let hop_latency = Seconds::from_us(number(&network.hop_latency_us, false)?.unwrap_or(0.0));
    let count = *read.nodes.get_ref();
    if count == 0 {
        return Err(refuse(Some(read.nodes.span()), "nodes = 0: a cluster has at least one node".to_owned()));
    }
    let shape = network.shape.get_ref();
    let mut cluster = if shape == "links" {
        let nics = network_nics(&machine, false).map_err(at(read.node.span()))?;
        if u64::from(count) * nics.len() as u64 > MOST_PORTS {
            return Err(refuse(
                Some(read.nodes.span()),
                format!("{count} nodes; a cluster has 1 to {MOST_PORTS} ports"),
            ));
        }
        let mut links = Explicit::default();
        for link in &read.links {
            let table = link.get_ref();
            let ends = table.between.each_ref().map(|name| end(name, &machine, &nics, count));
            let [a, b] = ends;
            let here = |message| refuse(Some(link.span()), message);
            let rate = match table.rate {
                Some(r) if !(r.is_finite() && r > 0.0) => {
                    return Err(here(format!("a link's rate must be above 0, not {r}")));
                }
                rate => rate.map(Rate::from_gbit),
            };
            let ends = [a.map_err(here)?, b.map_err(here)?];
            links.link(ends, table.between.each_ref().map(String::as_str), rate).map_err(at(link.span()))?;
        }
        let rate = rate.map_or_else(|| line_rate(&machine, nics[0]), Ok).map_err(at(network.shape.span()))?;
        let shape = Shape::Explicit(links);
        let network = Network::new(shape, [count, nics.len() as u32], rate, hop_latency);
        Cluster { nodes: count, network: Some(network), nics, ..Cluster::single(machine) }
    } else {
        if let Some(link) = read.links.first() {
            let message = format!("links are listed, but the network's shape is '{shape}'; write shape = \"links\"");
            return Err(refuse(Some(link.span()), message));
        }
        let wanted: Wanted = shape.parse().map_err(at(network.shape.span()))?;
        Cluster::of(machine, count, &wanted, rate, hop_latency).map_err(at(network.shape.span()))?
    };
    if let (Some(word), Some(of)) = (&network.routing, &mut cluster.network) {
        of.routing = word.get_ref().parse().map_err(at(word.span()))?;
    }
    if let Some(latency) = latency {
        cluster.latencies.network = Some(Seconds::from_us(latency));
    } else if by_adapters {
        cluster.latencies.network = None;
    }
    (cluster.name, cluster.title, cluster.source) = (read.name, read.title, read.source);
    cluster.assumptions.extend(read.assumptions);
    cluster.notes = read.notes;
    Ok(cluster)
}

/// `node3`, `node3/mlx5_1`, or else the name of a switch.
fn end(name: &str, machine: &Machine, nics: &[peerlane_machine::fabric::NodeId], nodes: u32) -> Result<End, String> {
    let (node, nic) = name.split_once('/').map_or((name, None), |(node, nic)| (node, Some(nic)));
    let number = node.strip_prefix("node").and_then(|n| n.parse::<u32>().ok());
    let Some(number) = number else {
        return if nic.is_some() {
            Err(format!("'{name}': no node '{node}'"))
        } else {
            Ok(End::Switch(name.to_owned()))
        };
    };
    if number >= nodes {
        return Err(format!("'{name}': there are {nodes} nodes, from node0"));
    }
    let known = |nic: &str| {
        let id = machine.fabric.find(nic);
        nics.iter().position(|n| Some(*n) == id).ok_or_else(|| format!("'{name}': {} has no such NIC", machine.name))
    };
    Ok(End::Port(number, nic.map_or(Ok(0), known)? as u32))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Cluster, String> {
        read_cluster(text, "x.toml", |s| named(s).and_then(Result::ok)).map_err(|e| e.to_string())
    }

    #[test]
    fn every_cluster_of_the_catalogue_is_sound_and_every_file_is_in_it() {
        let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../clusters");
        let mut files: Vec<String> = std::fs::read_dir(folder)
            .unwrap()
            .filter_map(|e| e.unwrap().file_name().to_str()?.strip_suffix(".toml").map(str::to_owned))
            .collect();
        files.sort();
        assert_eq!(cluster_names().collect::<Vec<_>>(), files);
        for name in cluster_names() {
            let cluster = embedded(name).unwrap().unwrap();
            assert_eq!(cluster.name, name);
            assert!(cluster.source.is_some() && cluster.title.is_some(), "{name}");
        }
    }

    #[test]
    fn links_one_by_one() {
        let text = "name = \"x\"\nnode = \"apenet-x56xx\"\nnodes = 2\n[network]\nshape = \"links\"\n\
                    [[links]]\nbetween = [\"node0\", \"s\"]\n[[links]]\nbetween = [\"s\", \"node1/apenet0\"]\nrate = 10\n";
        let network = read(text).unwrap().network.unwrap();
        let mut channels = Vec::new();
        let port = |node| super::super::network::Port { node, nic: 0 };
        network.path(port(1), port(0), &mut channels).unwrap();
        let names: Vec<String> = channels.iter().map(|c| network.name(*c)).collect();
        assert_eq!(names, ["node1/apenet0 to s", "s to node0"]);
        assert_eq!(network.capacity(channels[0]), Rate::from_gbit(10.0));
    }

    #[test]
    fn what_cannot_be_is_refused_with_its_line() {
        let file = |node: &str, nodes: &str, network: &str| {
            format!("name = \"x\"\nnode = \"{node}\"\nnodes = {nodes}\n[network]\n{network}\n")
        };
        let cases = [
            (file("nothing", "2", "shape = \"switch\""), "line 2: no system 'nothing'"),
            (file("exxact-devbox", "2", "shape = \"switch\""), "has no NIC"),
            (file("quong-node", "15", "shape = \"torus:4x4\""), "line 5: network: a torus of 4x4"),
            (file("quong-node", "0", "shape = \"switch\""), "line 3: nodes = 0: a cluster has at least one node"),
            (file("quong-node", "9999999999", "shape = \"switch\""), "line 3: "),
            (file("quong-node", "4000000000", "shape = \"switch\""), "ports; a network has 1 to"),
            (file("quong-node", "2", "shape = \"switch\"\nrate = inf"), "line 6: inf must be a number above 0"),
            (file("quong-node", "2", "shape = \"switch\"\nhop_latency_us = nan"), "line 6: NaN must be"),
            (
                file("quong-node", "2", "shape = \"links\"\n[[links]]\nbetween = [\"node0\", \"s\"]\nrate = 0"),
                "line 6: a link's rate must be above 0",
            ),
            (file("quong-node", "2", "shape = \"web\""), "line 5: network: 'web': no such network"),
            (file("quong-node", "2", "shape = \"switch\"\nrate = 0"), "line 6: 0 must be a number above 0"),
            (file("quong-node", "2", "shape = \"switch\"\nrate = nan"), "line 6: NaN must be a number above 0"),
            (file("quong-node", "2", "shape = \"switch\"\nlatency_us = -1"), "line 6: -1 must be"),
            (file("quong-node", "2", "shape = \"switch\"\nlatency = \"none\""), "line 6: latency = \"adapters\" takes"),
            (
                file("quong-node", "2", "shape = \"switch\"\nlatency_us = 1\nlatency = \"adapters\""),
                "line 7: latency = \"adapters\" takes",
            ),
            (
                file("quong-node", "2", "shape = \"switch\"\nrouting = \"best\""),
                "line 6: network: 'best': no such routing",
            ),
            (file("quong-node", "2", "shape = \"switch\"\nspeed = 1"), "line 6: unknown field `speed`"),
            (
                file("quong-node", "2", "shape = \"links\"\n[[links]]\nbetween = [\"node2\", \"s\"]"),
                "there are 2 nodes",
            ),
            (file("quong-node", "2", "shape = \"links\"\n[[links]]\nbetween = [\"node0/a\", \"s\"]"), "no such NIC"),
            (file("quong-node", "2", "shape = \"links\"\n[[links]]\nbetween = [\"s\", \"s\"]"), "joins 's' to itself"),
            (
                file("quong-node", "2", "shape = \"switch\"\n[[links]]\nbetween = [\"s\", \"t\"]"),
                "write shape = \"links\"",
            ),
        ];
        for (text, expected) in cases {
            let message = read(&text).unwrap_err();
            assert!(message.contains(expected), "{message}");
        }
    }
}
