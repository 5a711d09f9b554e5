//! `peerlane infer`: which transfers share a limit that no topology shows, by running sets of them at once, or from
//! the sets in a recorded run.

mod nodes;

use std::ffi::OsStr;
use std::io::Write;
use std::path::Path;

use peerlane::infer::{FlowKind, Inference, explore};
use peerlane::plan::{Plan, Work};
use peerlane::run::{Cell, Limits};
use peerlane::target::TargetKind;

use crate::args::InferArgs;
use crate::formats::json;
use crate::measuring::interrupt::Interrupt;
use crate::measuring::machine::{Measured, resolve};
use crate::measuring::prober::Prober;
use crate::measuring::protocol::Device;
use crate::progress::{self, Bar};
use crate::render::inference;
use crate::target::nodes::Record;
use crate::target::{is_named, load};
use crate::{Failure, Outcome, output_file};

pub(crate) fn run(args: &InferArgs, out: &mut dyn Write) -> Result<Outcome, Failure> {
    args.output.as_deref().map_or(Ok(()), output_file::check)?;
    let target = args.machines.targets.as_slice();
    // one of its nodes is a machine
    if args.machines.machine.is_none()
        && let Some(record) = Record::only(target)
    {
        return nodes::run(args, &record?, out);
    }
    let mut incomplete = false;
    let found = match target {
        [] if !args.recorded => experiment(&resolve(None, "infer")?, args)?,
        [one] if !args.recorded && can_be_measured(one) => experiment(&resolve(Some(one), "infer")?, args)?,
        _ => {
            if !args.directions.is_empty() {
                return Err(Failure::new(
                    "--directions are those to measure, and limits of recorded numbers are inferred without measuring: \
                     leave it out, or give 'live', a system name or a system file",
                ));
            }
            let loaded = load(target, args.machines.machine.as_deref())?;
            incomplete = loaded.incomplete;
            loaded.infer()?
        }
    };
    // a result that cannot be written is still shown
    let written = args.output.as_ref().map_or(Ok(()), |path| keep(&found, path));
    if args.detail.json {
        json(out, &found)?
    } else {
        inference::write(out, &found, args.detail.verbose)?
    }
    written?;
    let nothing = found.coverage.is_empty() && found.rate_groups.is_empty();
    Ok(Outcome { findings: false, incomplete: incomplete || nothing })
}

/// Whether a TARGET can be measured: this machine, or a simulated one.
fn can_be_measured(target: &OsStr) -> bool {
    use TargetKind::{ClusterFile, Live, PartsList, System, SystemFile};
    matches!(TargetKind::of(target), Ok(Live | System | PartsList | SystemFile | ClusterFile))
}

/// The experiment on a machine that can be measured.
fn experiment(measured: &Measured, args: &InferArgs) -> Result<Inference, Failure> {
    is_named(&measured.machine, args.machines.machine.as_deref())?;
    let interrupt = Interrupt::listen()?;
    let mut prober = Prober::new(measured.device.clone(), args.force.given, Limits::of(&measured.machine), &interrupt);
    // how many sets there will be is not known in advance
    let bar = Bar::new(progress::is_shown(), None, "set {pos}: {wide_msg}");
    let source = match measured.device {
        Device::Live { .. } => inference::LIVE,
        Device::Virtual { .. } => "a simulated machine",
    };
    let kinds = if args.directions.is_empty() { FlowKind::ALL.to_vec() } else { args.directions.clone() };
    let mut ask = |plan: &Plan| -> Result<Vec<Cell>, Failure> {
        bar.one();
        bar.message(&transfers(plan));
        prober.measure(plan)
    };
    explore(&measured.machine, source, &kinds, &mut ask)
}

fn keep(found: &Inference, path: &Path) -> Result<(), Failure> {
    let text = serde_json::to_string_pretty(found).map_err(|e| Failure::new(e.to_string()))?;
    output_file::write(path, text + "\n")
}

/// The transfers of a plan: `GPU0→GPU1, GPU2→GPU3`.
fn transfers(plan: &Plan) -> String {
    let transfers = plan.steps().flat_map(|step| match &step.work {
        Work::Transfers(transfers) => transfers.iter().map(ToString::to_string).collect(),
        _ => Vec::new(),
    });
    transfers.collect::<Vec<String>>().join(", ")
}
