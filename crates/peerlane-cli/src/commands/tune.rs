//! `peerlane tune`: NCCL's settings for a machine's collectives: what to change, why, the predicted gain, and with
//! `--prove` the measured one.

use std::collections::BTreeMap;
use std::env;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Instant;

use peerlane::catalogue::Parts;
use peerlane::input_file::{self, Kind};
use peerlane::machine::Machine;
use peerlane::plan::Plan;
use peerlane::run::{Cell, Limits};
use peerlane::tune::{Arm, Effort, Request, Setting, Trials, TuningDocument, logged, prove, seconds_of, tune};

use crate::args::TuneArgs;
use crate::formats::json;
use crate::live;
use crate::measuring::interrupt::Interrupt;
use crate::measuring::machine::{Measured, resolve};
use crate::measuring::prober::Prober;
use crate::measuring::protocol::{Device, Trial};
use crate::render::tuning;
use crate::target::{is_named, load};
use crate::{Failure, Outcome, output_file};

/// Files from which NCCL takes variables that the environment does not set.
const SYSTEM_FILE: &str = "/etc/nccl.conf";

/// Images of containers have it: the version of a package, no setting.
const PACKAGE: &str = "NCCL_VERSION";

pub(crate) fn run(args: &TuneArgs, out: &mut dyn Write) -> Result<Outcome, Failure> {
    args.output.as_deref().map_or(Ok(()), output_file::check)?;
    let targets = args.machines.targets.as_slice();
    let (document, incomplete) = if args.prove {
        let target = match targets {
            [] => None,
            [one] => Some(one.as_os_str()),
            _ => return Err(Failure::new("--prove measures one TARGET")),
        };
        let measured = resolve(target, "tune --prove")?;
        is_named(&measured.machine, args.machines.machine.as_deref())?;
        let is_live = matches!(measured.device, Device::Live { .. });
        let document = suggested(&measured.machine, is_live, args)?;
        (proven(document, &measured, args)?, false)
    } else {
        let is_live = match targets {
            [] => live::has_nvidia_gpu(),
            [one] => one == "live",
            _ => false,
        };
        let loaded = load(targets, args.machines.machine.as_deref())?;
        let case = loaded.the_only("settings are for one machine")?;
        (suggested(&case.machine, is_live, args)?, loaded.incomplete)
    };
    // a result that cannot be written is still shown
    let written = args.output.as_deref().map_or(Ok(()), |path| keep(&document, path));
    match args.format {
        _ if args.detail.json => json(out, &document)?,
        Some(_) => tuning::environment(out, &document)?,
        None => tuning::write(out, &document, args.detail.verbose)?,
    }
    written?;
    Ok(Outcome { findings: false, incomplete })
}

fn keep(document: &TuningDocument, path: &Path) -> Result<(), Failure> {
    let text = serde_json::to_string_pretty(document).map_err(|e| Failure::new(e.to_string()))?;
    output_file::write(path, text + "\n")
}

fn suggested(machine: &Machine, is_live: bool, args: &TuneArgs) -> Result<TuningDocument, Failure> {
    let mut environment = if is_live { here() } else { logged(machine) };
    for setting in &args.set {
        environment.retain(|known| known.name != setting.name);
        environment.push(setting.clone());
    }
    let mut sizes = args.sizes.clone();
    sizes.sort_unstable();
    sizes.dedup();
    let request = Request { collective: args.collective, gpus: args.gpus.clone(), sizes, environment };
    tune(machine, Parts::embedded(), &request).map_err(|e| Failure::new(e.to_string()))
}

/// NCCL's variables of this process, and those of the files that NCCL reads; the environment comes first.
fn here() -> Vec<Setting> {
    let set = env::vars_os().filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)));
    let own = set
        .filter(|(name, _)| name.starts_with("NCCL_") && name != PACKAGE)
        .map(|(name, value)| (name, value, "environment".into()));
    let own_file = match env::var_os("NCCL_CONF_FILE").filter(|file| !file.is_empty()) {
        Some(file) => Some(PathBuf::from(file)),
        None => env::var_os("HOME").map(|home| Path::new(&home).join(".nccl.conf")),
    };
    let files = own_file.into_iter().chain([PathBuf::from(SYSTEM_FILE)]);
    let of_files = files.flat_map(|file| {
        let source = file.to_string_lossy().into_owned();
        lines_of(&file).into_iter().map(move |(name, value)| (name, value, source.clone()))
    });
    let mut found: BTreeMap<String, Setting> = BTreeMap::new();
    for (name, value, source) in own.chain(of_files) {
        found.entry(name.clone()).or_insert(Setting { name, value, source });
    }
    found.into_values().collect()
}

/// Its lines `NCCL_…=VALUE`.
fn lines_of(file: &Path) -> Vec<(String, String)> {
    // most machines have no such file
    let text = input_file::text(file, Kind::LibrarySettings).unwrap_or_default();
    let pairs = text.lines().filter_map(|line| line.split_once('=')).filter(|(name, _)| name.starts_with("NCCL_"));
    pairs.map(|(name, value)| (name.to_owned(), value.trim_end().to_owned())).collect()
}

/// Measures the suggestions of a document.
fn proven(mut document: TuningDocument, measured: &Measured, args: &TuneArgs) -> Result<TuningDocument, Failure> {
    let effort = Effort { pairs: usize::from(args.pairs), budget: args.budget.seconds() };
    if document.suggestions.is_empty() {
        return Ok(document);
    }
    let simulated = matches!(measured.device, Device::Virtual { .. });
    if !simulated {
        let seconds = seconds_of(&document, effort).min(effort.budget);
        crate::console::note(&format!(
            "starts NCCL with and without each setting, {} times: about {seconds:.0} s",
            effort.pairs
        ));
    }
    let from_files = document.environment.iter().filter(|setting| Path::new(&setting.source).is_absolute());
    let interrupt = Interrupt::listen()?;
    let mut trials = Processes {
        prober: Prober::new(measured.device.clone(), args.force, Limits::of(&measured.machine), &interrupt),
        from_files: from_files.map(|setting| setting.name.clone()).collect(),
        began: Instant::now(),
        simulated,
    };
    prove(&mut document, effort, &mut trials)?;
    Ok(document)
}

/// Runs of NCCL, each in a worker of its own.
struct Processes<'a> {
    prober: Prober<'a>,
    /// Variables that NCCL finds in files.
    from_files: Vec<String>,
    began: Instant,
    simulated: bool,
}

impl Trials for Processes<'_> {
    type Error = Failure;

    fn run(&mut self, arm: &Arm, block: usize, plan: &Plan) -> Result<Vec<Cell>, Failure> {
        let mut variables = arm.variables.clone();
        // an empty value counts as none, and keeps NCCL from taking that of a file
        for name in &self.from_files {
            variables.entry(name.clone()).or_default();
        }
        self.prober.restart(Trial { variables, repetition: block });
        self.prober.measure(plan)
    }

    /// A simulated machine takes no time.
    fn seconds(&mut self) -> f64 {
        if self.simulated { 0.0 } else { self.began.elapsed().as_secs_f64() }
    }

    fn nccl(&self) -> Option<String> {
        self.prober.conditions.as_ref()?.nccl.clone()
    }
}
