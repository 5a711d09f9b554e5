//! `peerlane place`: where jobs should run on a machine or a cluster, as text, JSON, or settings for launchers.

use std::io::Write;
use std::path::Path;

use peerlane::assumptions::Assumptions;
use peerlane::catalogue::Parts;
use peerlane::export::nccl_xml::to_nccl_xml;
use peerlane::machine::Machine;
use peerlane::model::{Assume, Model};
use peerlane::one_line::{is_hidden, shown};
use peerlane::place::{self, Format, PlacementDocument, Request};
use peerlane::target::cluster;

use crate::args::{HOP_LATENCY, PlaceArgs, PlaceFormat};
use crate::formats::json;
use crate::render::placement;
use crate::target::clusters::clusters;
use crate::target::load_changed;
use crate::{Failure, Outcome, output_file};

pub(crate) fn run(args: &PlaceArgs, out: &mut dyn Write) -> Result<Outcome, Failure> {
    if args.grown.network.is_some() || args.machines.targets.iter().any(|target| cluster(target).is_some()) {
        return across(args, out);
    }
    if args.format == Some(PlaceFormat::SlurmTopology) {
        return Err(Failure::new(
            "topology.conf is of a cluster; add --nodes and --network, or give a cluster as TARGET",
        ));
    }
    let grown = &args.grown;
    let of_network = grown.routing.is_some() || !grown.slow.is_empty() || !grown.fail.is_empty();
    if of_network || grown.use_nodes.is_some() || grown.gpus_per_node.is_some() {
        return Err(Failure::new(
            "--routing, --slow, --fail, --use-nodes and --gpus-per-node are for clusters; add --nodes and --network",
        ));
    }
    let loaded = load_changed(&args.machines.targets, args.machines.machine.as_deref(), &args.grown.what_if.edits)?;
    let machine = &loaded.the_only("jobs are placed on one machine")?.machine;
    let document = loaded.place(&request(args))?;
    let assumed = Assumptions::of(machine, Parts::embedded());
    let model = assumed.model(Parts::embedded(), Assume::Usual);
    show(args, &document, &model, out)?;
    Ok(Outcome { findings: false, incomplete: loaded.incomplete })
}

/// The same on a cluster.
fn across(args: &PlaceArgs, out: &mut dyn Write) -> Result<Outcome, Failure> {
    let (clusters, incomplete) = clusters(&args.machines, &args.grown, HOP_LATENCY)?;
    let [cluster] = clusters.as_slice() else {
        return Err(Failure::new("jobs are placed on one cluster; give one TARGET and one number of --nodes"));
    };
    if args.format == Some(PlaceFormat::SlurmTopology) && !args.detail.json {
        let text = place::slurm_topology(cluster).map_err(|e| Failure::new(e.to_string()))?;
        out.write_all(text.as_bytes())?;
        return Ok(Outcome { findings: false, incomplete });
    }
    let document = place::place_across(cluster, &request(args)).map_err(|e| Failure::new(e.to_string()))?;
    let model = Model::new(&cluster.node, Parts::embedded());
    show(args, &document, &model, out)?;
    Ok(Outcome { findings: false, incomplete })
}

fn request(args: &PlaceArgs) -> Request {
    let jobs = args.jobs.as_ref().map(|jobs| jobs.0.clone());
    Request {
        jobs: jobs.or_else(|| args.gpus.map(|n| vec![n])).unwrap_or_default(),
        nics: args.nics,
        workload: args.workload,
        busy: args.busy.clone(),
    }
}

/// Writes what was found in the format requested. `model` is of the machine, or of a node.
fn show(args: &PlaceArgs, document: &PlacementDocument, model: &Model, out: &mut dyn Write) -> Result<(), Failure> {
    if let Some(file) = &args.topology {
        write_topology(file, model.machine)?;
    }
    let format = args.format.and_then(|format| match format {
        PlaceFormat::Env => Some(Format::Env),
        PlaceFormat::Numactl => Some(Format::Numactl),
        PlaceFormat::Rankfile => Some(Format::Rankfile),
        PlaceFormat::Hostfile => Some(Format::Hostfile),
        PlaceFormat::Slurm => Some(Format::Slurm),
        PlaceFormat::Nccl => Some(Format::Nccl),
        // of the cluster, and of no placement
        PlaceFormat::SlurmTopology => None,
    });
    match format {
        _ if args.detail.json => json(out, document)?,
        None => placement::write(out, document, args.detail.verbose)?,
        Some(format) => {
            let topology = args.topology.as_deref().map(absolute).transpose()?;
            out.write_all(place::write(document, model, format, topology.as_deref()).as_bytes())?;
        }
    }
    Ok(())
}

/// NCCL may run in another directory.
fn absolute(file: &Path) -> Result<String, Failure> {
    let path = std::path::absolute(file).unwrap_or_else(|_| file.to_owned());
    // as it is, since a program opens it; so it must be readable
    let name = path.to_str().filter(|name| !name.contains(is_hidden)).map(str::to_owned);
    name.ok_or_else(|| Failure::new(format!("{}: a folder of it has a name that no script can hold", shown(&path))))
}

fn write_topology(file: &Path, machine: &Machine) -> Result<(), Failure> {
    output_file::write(file, to_nccl_xml(machine))
}
