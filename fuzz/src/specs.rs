//! What people type: changes of a design, workloads, networks, sizes, traces.

use std::sync::LazyLock;

use peerlane::catalogue::{Parts, system};
use peerlane::cluster::{Cluster, Router, Wanted};
use peerlane::machine::Machine;
use peerlane::place::Jobs;
use peerlane::simulate::result::{Job, simulate};
use peerlane::simulate::traced::Recorded;
use peerlane::simulate::workload::{Sizes, Workload, read_trace};
use peerlane::traces;
use peerlane::units::Seconds;
use peerlane::what_if::{Edit, apply};

use crate::machines::comes_back;

fn machine(name: &str) -> Machine {
    system(name).expect("in the catalogue").expect("readable")
}

/// Graphs of more than 2 to this many vertices make an input slow without making it different.
const LARGEST_GRAPH: usize = 10;

static SMALL: LazyLock<Machine> = LazyLock::new(|| machine("7gforce"));
static NVLINK: LazyLock<Machine> = LazyLock::new(|| machine("hgx-h200"));

/// Changes of a design, a line each: what they make of it can be written and read again.
pub fn what_if(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let edits: Vec<Edit> = text.lines().take(4).filter_map(|line| line.parse().ok()).collect();
    for edit in &edits {
        let again: Edit = edit.to_string().parse().expect("what was read is written so that it is read");
        assert_eq!(*edit, again);
    }
    for machine in [&*SMALL, &*NVLINK] {
        if let Ok(changed) = apply(machine, &edits, Parts::embedded()) {
            comes_back(&changed);
        }
    }
}

/// `WORKLOAD`, `NETWORK`, `SIZES` and `JOBS`, a line each: a small cluster plays it within limits.
pub fn simulation(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let mut lines = text.lines();
    let mut next = || lines.next().unwrap_or_default();
    let (workload, network, sizes, jobs) = (next(), next(), next(), next());
    let _ = jobs.parse::<Jobs>();
    let sizes = sizes.parse::<Sizes>();
    let Ok(workload) = workload.parse::<Workload>() else { return };
    // the default graph has four million edges, which are generated
    if matches!(&workload, Workload::Bfs(bfs) if bfs.scale > LARGEST_GRAPH) {
        return;
    }
    let cluster = cluster(network);
    let sizes = sizes.map_or_else(|_| Vec::new(), |s| s.0.into_iter().take(2).collect());
    if let Some(cluster) = cluster
        && let Ok(job) = Job::of(workload, sizes, &cluster)
        && let Ok((document, _)) = simulate(&cluster, &job, false)
    {
        for point in &document.points {
            assert!(point.time.is_finite() && point.time >= 0.0, "{workload:?}", workload = document.workload);
        }
    }
}

/// Four nodes of two GPUs each.
fn cluster(network: &str) -> Option<Cluster> {
    let wanted: Wanted = network.parse().ok()?;
    let mut cluster = Cluster::of(NVLINK.clone(), 4, &wanted, None, Seconds::from_us(0.2)).ok()?;
    cluster.taking = (4, 2);
    Some(cluster)
}

/// A recorded step of training, of one rank for all or of several, or a plan.
pub fn recording(data: &[u8]) {
    let cluster = Cluster::single(SMALL.clone());
    let ranks = traces::read_all("t.0.et", data);
    let joined = ranks.and_then(|ranks| traces::join(ranks, 2)).or_else(|_| traces::planned("p.json", data, 1 << 20));
    let Ok(joined) = joined else { return };
    let Ok(trace) = Recorded::of(&joined, &cluster, 1.0) else { return };
    if let Ok(outcome) = trace.outcome(&cluster, &mut Router::new(&cluster, Parts::embedded()), None) {
        assert!(outcome.time.is_finite() && outcome.time >= 0.0, "{} s", outcome.time);
        drop(trace.summary(&outcome));
    }
}

/// A trace of transfers, which one machine plays.
pub fn trace(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let cluster = Cluster::single(SMALL.clone());
    let Ok(trace) = read_trace(text, &cluster) else { return };
    if let Ok(outcome) = trace.outcome(&cluster, &mut Router::new(&cluster, Parts::embedded()), None) {
        assert!(outcome.time.is_finite() && outcome.time >= 0.0, "{} s", outcome.time);
    }
}
