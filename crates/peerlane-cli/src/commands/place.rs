//! `peerlane place`: where jobs should run on a machine, as text, JSON, or settings for launchers.

use std::io::Write;
use std::path::Path;

use peerlane::assumptions::Assumptions;
use peerlane::catalogue::Parts;
use peerlane::export::nccl_xml::to_nccl_xml;
use peerlane::machine::Machine;
use peerlane::model::Assume;
use peerlane::one_line::{is_hidden, shown};
use peerlane::place::{self, Format, PlacementDocument, Request};

use super::json;
use crate::args::{PlaceArgs, PlaceFormat};
use crate::render::placement;
use crate::target::load_changed;
use crate::{Failure, Outcome, output_file};

pub(crate) fn run(args: &PlaceArgs, out: &mut dyn Write) -> Result<Outcome, Failure> {
    let loaded = load_changed(&args.machines.targets, args.machines.machine.as_deref(), &args.what_if.edits)?;
    let machine = &loaded.the_only("jobs are placed on one machine")?.machine;
    let assumed = Assumptions::of(machine, Parts::embedded());
    let model = assumed.model(Parts::embedded(), Assume::Usual);
    let jobs = args.jobs.as_ref().map(|jobs| jobs.0.clone());
    let request = Request {
        jobs: jobs.or_else(|| args.gpus.map(|n| vec![n])).unwrap_or_default(),
        nics: args.nics,
        workload: args.workload,
        busy: args.busy.clone(),
    };
    let document = place::place(&model, &request).map_err(|e| Failure::new(e.to_string()))?;
    let document = PlacementDocument { assumptions: assumed.sentences(&model), ..document };
    if let Some(file) = &args.topology {
        write_topology(file, machine)?;
    }
    let format = args.format.map(|format| match format {
        PlaceFormat::Env => Format::Env,
        PlaceFormat::Numactl => Format::Numactl,
        PlaceFormat::Rankfile => Format::Rankfile,
        PlaceFormat::Slurm => Format::Slurm,
        PlaceFormat::Nccl => Format::Nccl,
    });
    match format {
        _ if args.detail.json => json(out, &document)?,
        None => placement::write(out, &document, args.detail.verbose)?,
        Some(format) => {
            let topology = args.topology.as_deref().map(absolute).transpose()?;
            out.write_all(place::write(&document, &model, format, topology.as_deref()).as_bytes())?;
        }
    }
    Ok(Outcome { findings: false, incomplete: loaded.incomplete })
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
