//! How a workload scales: the same cluster with more and more of its nodes taking part. One JSON document,
//! `peerlane/scaling/1`.

use peerlane_machine::schema::JsonSchema;
use serde::Serialize;

use super::SimulateError;
use super::result::{Job, SimulationDocument, simulate};
pub use super::weak_strong::Scaling;
use super::workload::Workload;
use crate::cluster::Cluster;
use peerlane_machine::units::Bytes;

/// The document.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct ScalingDocument {
    /// `peerlane/scaling/1`.
    #[schemars(extend("const" = "peerlane/scaling/1"))]
    pub schema: &'static str,
    /// The machine or cluster.
    pub target: String,
    /// The workload, as it can be written on a command line.
    pub workload: String,
    /// What stays the same.
    pub scaling: Scaling,
    /// One for each number of nodes, in their order.
    pub points: Vec<ScalingPoint>,
    /// Why there are no more points, where more were requested.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ended_because: Option<String>,
    /// What is assumed of the cluster, in sentences.
    pub assumptions: Vec<String>,
}

/// One number of nodes.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct ScalingPoint {
    /// Nodes that take part.
    pub nodes: u32,
    /// GPUs that take part.
    pub gpus: usize,
    /// Bytes, as a simulation's point has them.
    pub size: u64,
    /// Time in seconds.
    pub time: f64,
    /// How many times faster than the first point the same work is done.
    pub speedup: f64,
    /// The speed-up over what as many times more nodes as at the first point would give.
    pub efficiency: f64,
    /// What held most of the transfers' time, where there are transfers.
    pub held_by: Option<String>,
    /// Whether the time is an exact answer of the model.
    pub exact: bool,
}

/// Powers of two from 1 on, and the last.
pub fn doubling(last: u32) -> Vec<u32> {
    let mut counts: Vec<u32> =
        std::iter::successors(Some(1_u32), |n| n.checked_mul(2)).take_while(|n| *n < last).collect();
    counts.push(last);
    counts
}

/// Simulates a workload on the first so many nodes of a cluster, for each of `counts`. `size` is the workload's at the first
/// of them (see [`Workload::scaled`]).
///
/// # Errors
/// Where a count is none of the cluster's, the workload does not scale so, or the first point cannot be simulated.
pub fn scaling(
    cluster: &Cluster,
    workload: &Workload,
    size: Bytes,
    counts: &[u32],
    scaling: Scaling,
) -> Result<ScalingDocument, SimulateError> {
    let refuse = |why: String| Err(SimulateError::Workload(format!("{workload}: {why}")));
    let Some(first) = counts.first().copied() else { return refuse("no number of nodes to scale to".to_owned()) };
    if let Some(wrong) = counts.iter().find(|n| **n == 0 || **n > cluster.nodes) {
        return refuse(format!("{wrong} nodes; {} has 1 to {}", cluster.name, cluster.nodes));
    }
    let mut points: Vec<ScalingPoint> = Vec::new();
    let mut ended_because = None;
    let mut words = workload.to_string();
    for &nodes in counts {
        let ratio = f64::from(nodes) / f64::from(first);
        let (scaled, bytes) = workload.scaled(size.0 as f64, ratio, scaling)?;
        words = scaled.to_string();
        let mut part = cluster.clone();
        part.taking = (nodes, cluster.taking.1);
        let simulated = Job::of(scaled, vec![Bytes(bytes.round() as u64)], &part)
            .and_then(|job| simulate(&part, &job, false).map(|(document, _)| document));
        let document = match simulated {
            Ok(document) => document,
            Err(e) if points.is_empty() => return Err(e),
            Err(e) => {
                ended_because = Some(format!("{nodes} nodes: {e}"));
                break;
            }
        };
        let begin = points.first().map(|p| p.time);
        points.extend(point(&document, nodes, ratio, begin, scaling));
    }
    let assumptions = cluster.assumptions.clone();
    let (schema, target) = ("peerlane/scaling/1", cluster.name.clone());
    Ok(ScalingDocument { schema, target, workload: words, scaling, points, ended_because, assumptions })
}

fn point(
    document: &SimulationDocument,
    nodes: u32,
    ratio: f64,
    begin: Option<f64>,
    scaling: Scaling,
) -> Option<ScalingPoint> {
    let point = document.points.first()?;
    let faster = begin.unwrap_or(point.time) / point.time;
    // nothing at all takes no time on any number of nodes
    let faster = if faster.is_nan() { 1.0 } else { faster };
    let (speedup, efficiency) = match scaling {
        Scaling::Weak => (faster * ratio, faster),
        Scaling::Strong => (faster, faster / ratio),
    };
    Some(ScalingPoint {
        nodes,
        gpus: document.gpus,
        size: point.size,
        time: point.time,
        speedup,
        efficiency,
        held_by: point.binding.first().map(|b| b.resource.clone()),
        exact: document.exact,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::embedded;

    fn of(cluster: &str, workload: &str, size: u64, counts: &[u32], how: Scaling) -> ScalingDocument {
        let cluster = embedded(cluster).unwrap().unwrap();
        scaling(&cluster, &workload.parse().unwrap(), Bytes(size), counts, how).unwrap()
    }

    #[test]
    fn counts_double_up_to_the_last() {
        assert_eq!(doubling(1), [1]);
        assert_eq!(doubling(12), [1, 2, 4, 8, 12]);
        assert_eq!(doubling(16), [1, 2, 4, 8, 16]);
        assert_eq!(doubling(u32::MAX).len(), 33);
    }

    #[test]
    fn computing_alone_scales_ideally_both_ways() {
        // updates of a microsecond, far longer than any message
        for how in [Scaling::Weak, Scaling::Strong] {
            let document = of("quong-20g", "spin-glass:l=128,ns=1000", 0, &[1, 2, 4, 8, 16], how);
            assert_eq!(document.points.len(), 5);
            assert!(document.workload.ends_with(&format!("overlap,p2p,{how}")), "{}", document.workload);
            for point in &document.points {
                assert!((point.efficiency - 1.0).abs() < 1e-9, "{point:?}");
                assert!((point.speedup / f64::from(point.nodes) - 1.0).abs() < 1e-9, "{point:?}");
            }
        }
    }

    #[test]
    fn what_each_gpu_has_shrinks_or_stays() {
        let sizes = |workload, how| -> Vec<u64> {
            of("quong", workload, 1 << 20, &[2, 4, 16], how).points.iter().map(|p| p.size).collect()
        };
        assert_eq!(sizes("all-reduce:ring", Scaling::Weak), [1 << 20; 3]);
        assert_eq!(sizes("all-reduce:ring", Scaling::Strong), [1 << 20, 1 << 19, 1 << 17]);
        // a face of a lattice: of a square one its side, of a cube its square
        assert_eq!(sizes("halo:1", Scaling::Strong), [1 << 20; 3]);
        assert_eq!(sizes("halo:2", Scaling::Strong), [1 << 20, 741_455, 370_728]);
        assert_eq!(sizes("halo:3", Scaling::Strong)[2], 1 << 18);
    }

    #[test]
    fn what_cannot_be_split_further_ends_and_says_so() {
        let document = of("quong-20g", "spin-glass:l=16", 0, &[1, 2, 4, 8, 16], Scaling::Strong);
        assert_eq!(document.points.len(), 3);
        let why = document.ended_because.unwrap();
        assert!(why.starts_with("8 nodes: ") && why.contains("each needs two"), "{why}");
        let cluster = embedded("quong").unwrap().unwrap();
        let refused = |workload: &str, counts: &[u32], how| {
            scaling(&cluster, &workload.parse().unwrap(), Bytes(8), counts, how).unwrap_err().to_string()
        };
        assert!(refused("halo:1", &[1, 32], Scaling::Weak).contains("32 nodes; quong has 1 to 16"));
        assert!(refused("halo:1", &[0], Scaling::Weak).contains("0 nodes"));
        assert!(refused("halo:1", &[], Scaling::Weak).contains("no number of nodes"));
        assert!(refused("bfs", &[1, 2], Scaling::Weak).contains("only strong"));
        assert!(refused("training:tp=1,tflops=1", &[1, 3], Scaling::Strong).contains("do not divide"));
        assert!(refused("decode:model=llama-3-8b,tflops=1", &[1, 2], Scaling::Weak).contains("copies serve"));
        assert!(refused("point-to-point:node0/GPU0:node1/GPU0", &[2], Scaling::Weak).contains("does not scale"));
    }
}
