//! Clusters and jobs from the arguments of `simulate` and `sweep`.

use peerlane::one_line::shown;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use peerlane::assumptions::Assumptions;
use peerlane::catalogue::Parts;
use peerlane::cluster::{Cluster, ClusterError, Wanted};
use peerlane::input_file::{self, Kind};
use peerlane::machine::Machine;
use peerlane::simulate::SimulateError;
use peerlane::simulate::result::Job;
use peerlane::simulate::traced::Recorded;
use peerlane::simulate::workload::{Workload, read_trace};
use peerlane::target::{changed, changed_cluster, cluster, known_names};
use peerlane::traces;
use peerlane::units::{Bytes, Rate, Seconds};

use crate::Failure;
use crate::args::is_trace;
use crate::args::{Grown, Machines, Steps, Traces};
use crate::target::load;

/// The clusters to simulate, and whether some could not be read.
pub(crate) fn clusters(machines: &Machines, grown: &Grown, hop_latency: f64) -> Result<(Vec<Cluster>, bool), Failure> {
    let mut clusters = Vec::new();
    let mut incomplete = false;
    match clusters_of(&machines.targets, grown) {
        Some(_) if machines.machine.is_some() => {
            return Err(Failure::new(
                "--machine selects one of several machines of an input, and the TARGET is a cluster",
            ));
        }
        Some(found) => clusters.extend(found?),
        None => {
            let loaded = load(&machines.targets, machines.machine.as_deref())?;
            incomplete = loaded.incomplete;
            for machine in loaded.cases.into_iter().map(|case| case.machine) {
                clusters.extend(grow(machine, grown, hop_latency)?);
            }
        }
    }
    let is_cluster = clusters_of(&machines.targets, grown).is_some();
    clusters.iter().filter(|_| is_cluster).try_for_each(|cluster| alone(cluster, grown))?;
    meant(&clusters, grown)?;
    clusters.iter_mut().try_for_each(|c| take(c, grown))?;
    Ok((clusters, incomplete))
}

/// Rejects a network between clusters.
pub(crate) fn alone(cluster: &Cluster, grown: &Grown) -> Result<(), Failure> {
    match grown.nodes.is_empty() {
        true => Ok(()),
        false => Err(Failure::new(format!(
            "{} is already a cluster; --nodes and --network are for machines: leave them out",
            cluster.name
        ))),
    }
}

/// Rejects changes for nodes that no cluster has.
pub(crate) fn meant(clusters: &[Cluster], grown: &Grown) -> Result<(), Failure> {
    Ok(known_names(&grown.what_if.edits, clusters.iter().map(|cluster| &cluster.node))?)
}

/// The clusters, if the targets are clusters.
fn clusters_of(targets: &[OsString], grown: &Grown) -> Option<Result<Vec<Cluster>, Failure>> {
    let all: Vec<_> = targets.iter().map(|t| cluster(t)).collect();
    if all.is_empty() || all.iter().all(Option::is_none) {
        return None;
    }
    let each = all.into_iter().zip(targets).map(|(found, target)| match found {
        Some(found) => Ok(changed_cluster(found?, &grown.what_if.edits)?),
        None => Err(Failure::new(format!(
            "'{}' is not a cluster; clusters and machines cannot be simulated together",
            shown(target)
        ))),
    });
    Some(each.collect())
}

/// One machine, or clusters of it.
pub(crate) fn grow(machine: Machine, grown: &Grown, hop_latency: f64) -> Result<Vec<Cluster>, Failure> {
    let machine = changed(&machine, &grown.what_if.edits)?.unwrap_or(machine);
    // what `explain` and `predict` assume of it
    let machine = Assumptions::of(&machine, Parts::embedded()).assumed_machine(Parts::embedded());
    let Some(network) = &grown.network else { return Ok(vec![Cluster::single(machine)]) };
    let refuse = |e: String| Failure::new(e);
    let wanted: Wanted = network.parse().map_err(|e: ClusterError| refuse(e.to_string()))?;
    let positive = |what: &str, value: f64| {
        if value.is_finite() && value >= 0.0 {
            Ok(value)
        } else {
            Err(refuse(format!("{what} {value}: must not be negative")))
        }
    };
    let rate = grown.link_rate.map(|r| positive("--link-rate", r)).transpose()?.map(Rate::from_gbit);
    if rate.is_some_and(|r| r.bytes_per_second() == 0.0) {
        return Err(refuse("--link-rate 0: must be above 0".to_owned()));
    }
    let hop = Seconds::from_us(positive("--hop-latency", hop_latency)?);
    let of = |n: &u32| Cluster::of(machine.clone(), *n, &wanted, rate, hop).map_err(|e| refuse(e.to_string()));
    grown.nodes.iter().map(of).collect()
}

/// Restricts a cluster to the requested nodes and GPUs, and sets its routing and what is slow or has failed.
pub(crate) fn take(cluster: &mut Cluster, grown: &Grown) -> Result<(), Failure> {
    let gpus = cluster.gpus().len();
    let (nodes, per_node) = (grown.use_nodes.unwrap_or(cluster.nodes), grown.gpus_per_node.unwrap_or(gpus));
    if nodes == 0 || nodes > cluster.nodes || per_node == 0 || per_node > gpus {
        let Cluster { name, nodes: all, .. } = &*cluster;
        return Err(Failure::new(format!(
            "{name} has {all} nodes with {gpus} GPUs each; {nodes} nodes with {per_node} GPUs were requested"
        )));
    }
    cluster.taking = (nodes, per_node);
    let refused = |e: ClusterError| Failure::new(e.to_string());
    if let Some(routing) = &grown.routing {
        let Some(network) = &mut cluster.network else {
            return Err(Failure::new(format!("{} has no network, so there is no routing to choose", cluster.name)));
        };
        network.routing = routing.parse().map_err(refused)?;
        cluster.name = format!("{}, {} routing", cluster.name, network.routing);
    }
    for what in &grown.slow {
        let words = what.rsplit_once('=').and_then(|(name, share)| Some((name, share.parse::<f64>().ok()?)));
        let (name, share) =
            words.ok_or_else(|| Failure::new(format!("--slow {what}: write WHAT=SHARE, as leaf3=0.5")))?;
        cluster.slow(name, share).map_err(refused)?;
        cluster.name = format!("{}, {name} at {share}", cluster.name);
    }
    for what in &grown.fail {
        cluster.fail(what).map_err(refused)?;
        cluster.name = format!("{}, without {what}", cluster.name);
        cluster.assumptions.push(format!("{what} has failed; its traffic takes another path where there is one."));
    }
    Ok(())
}

/// The job that workload arguments mean: one workload, or the files and folders of one trace.
pub(crate) fn job(
    words: &[String],
    sizes: &[Bytes],
    cluster: &Cluster,
    (how, steps): (Traces, &Steps),
) -> Result<Job, Failure> {
    let refused = |e: SimulateError| Failure::new(e.to_string());
    let named = words.join(" ");
    if let Some(word) = words.iter().find(|word| !is_trace(word)) {
        if words.len() > 1 {
            return Err(Failure::new(format!(
                "-w {word}: several -w are the files of one trace, and this is none; 'sweep' takes several workloads"
            )));
        }
        if how.compute_scale.is_some() {
            return Err(Failure::new(format!("--compute-scale is for traces, and {word} is none: leave it out")));
        }
        let workload = word.parse::<Workload>().map_err(refused)?;
        return match (workload, &steps.step_time) {
            (Workload::Step(step), measured) => Ok(Job::Step(step, measured.clone())),
            (_, Some(_)) => {
                Err(Failure::new(format!("--step-time is for steps of a model, and {word} is none: leave it out")))
            }
            (workload, None) => Job::of(workload, sizes.to_vec(), cluster).map_err(refused),
        };
    }
    if steps.step_time.is_some() {
        return Err(Failure::new(format!("--step-time is for steps of a model, and {named} is a trace: leave it out")));
    }
    let of_trace = |e: SimulateError| match e {
        SimulateError::Workload(why) => Failure::new(format!("{named}: {why}")),
        other => Failure::new(format!("{named}: {other}")),
    };
    if let [word] = words
        && word.ends_with(".jsonl")
    {
        let bytes = input_file::read(Path::new(word), Kind::Trace)?;
        // others write lines of JSON, too
        if traces::format_of(&bytes).is_none() {
            let text = String::from_utf8(bytes).map_err(|_| Failure::new(format!("{word}: not UTF-8 text")))?;
            let trace = read_trace(&text, cluster).map_err(|e| Failure::new(format!("{word}: {e}")))?;
            if how.compute_scale.is_some() {
                return Err(Failure::new(format!(
                    "--compute-scale is for recorded traces: write other seconds into {word}"
                )));
            }
            return Ok(Job::Trace(word.clone(), Box::new(trace)));
        }
    }
    let paths: Vec<PathBuf> = words.iter().map(PathBuf::from).collect();
    let size = sizes.iter().map(|size| size.0).max().unwrap_or(1 << 20);
    let joined = traces::joined(&paths, cluster.places().len(), size).map_err(|e| Failure::new(e.to_string()))?;
    let trace = Recorded::of(&joined, cluster, how.compute_scale.unwrap_or(1.0)).map_err(of_trace)?;
    Ok(Job::Trace(named, Box::new(trace)))
}
