//! The result of a simulation: a time for each size, what it was spent on, and which resource would help most if it were
//! faster. One JSON document, `peerlane/simulation/2`.

use peerlane_machine::schema::JsonSchema;
use serde::Serialize;

use super::estimate::Estimate;
use super::grown::Grown;
use super::library::{self, Library};
use super::model_step::Step;
use super::model_step::measured::Measured;
use super::model_step::report::{Holding, StepSummary};
use super::node_rings::NodeRings;
use super::outcome::{Limits, Outcome, STARTING, run};
use super::program::Program;
use super::traced::{Recorded, TraceSummary};
use super::workload::{Costs, Workload};
use super::{SimulateError, memory};
use crate::cluster::{Cluster, Component, Router};
use peerlane_machine::matrix::Engine;
use peerlane_machine::units::Bytes;
use peerlane_model::collectives::Ring;
use peerlane_model::collectives::tuner::Predicted;
use peerlane_model::model::{Model, SpinGlassAdvice, spin_glass_advice};
use peerlane_read::catalogue::Parts;

/// Least share of the transfers' time that is reported, and tried for what would help.
const LEAST_SHARE: f64 = 0.001;
/// With more GPUs than this, the steps within a node are simulated once for all of them.
const MOST_LISTED: usize = 4096;
/// Most groups of resources that are tried for what would help.
const MOST_TRIED: usize = 6;

/// The document.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct SimulationDocument {
    /// `peerlane/simulation/2`.
    #[schemars(extend("const" = "peerlane/simulation/2"))]
    pub schema: &'static str,
    /// The machine or cluster.
    pub target: String,
    /// The workload, as it can be written on a command line.
    pub workload: String,
    /// GPUs that take part.
    pub gpus: usize,
    /// The rings that a collective goes around, or of several nodes those within a node; without names of nodes. While all
    /// run, their rates add up to what the bus bandwidth of one machine comes to for large sizes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rings: Option<Vec<Ring>>,
    /// One for each size, in their order.
    pub points: Vec<Point>,
    /// Whether every time is that of every step of the schedule, played or in a closed form.
    pub exact: bool,
    /// Of the sizes whose time is an estimate, the one with the largest error.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub estimate: Option<Estimate>,
    /// Where links have failed, whether any transfer would have taken one of them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rerouted: Option<bool>,
    /// What would help most at the largest size, the best first; only when requested.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub helps: Option<Vec<Help>>,
    /// Of a spin glass on several GPUs of one machine: from which lattice on they are faster than one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub spin_glass: Option<SpinGlassAdvice>,
    /// Of a trace with collectives: how its time is spent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trace: Option<TraceSummary>,
    /// Of a step of a model: what it takes, and what for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub step: Option<StepSummary>,
    /// What is assumed of the cluster, in sentences.
    pub assumptions: Vec<String>,
}

/// One size.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Point {
    /// Bytes; of a trace, those of all transfers.
    pub size: u64,
    /// Time in seconds.
    pub time: f64,
    /// Size over time, in GB/s.
    pub algbw: f64,
    /// What nccl-tests calls the bandwidth of the bus, in GB/s, where it has such a test.
    pub busbw: Option<f64>,
    /// What a GPU sends on average, in GB/s: all bytes over the number of GPUs and the time.
    pub sent: f64,
    /// What held the transfers, by its share of their time, largest first.
    pub binding: Vec<Binding>,
    /// What held the transfer that ended last in each round, by its share of the rounds' time, largest first.
    pub last_held_by: Vec<Binding>,
    /// Share of the time that it would take were every transfer alone on its way and started at once; of a step of a model, that it
    /// would take without communication.
    pub efficiency: f64,
    /// The algorithm that NCCL or RCCL would choose, where the workload is a collective of theirs: `ring`, `nvls` …
    #[serde(skip_serializing_if = "Option::is_none")]
    pub algorithm: Option<String>,
    /// Its protocol: `ll`, `ll128` or `simple`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub protocol: Option<String>,
    /// Share of all GPUs' time in which they do not compute, where any does.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub idle: Option<f64>,
}

/// What held transfers.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Binding {
    /// Resources of one kind, `#` for their numbers; or a cap, or the time before the first byte.
    pub resource: String,
    /// Share of all transfers' time.
    pub share: f64,
    /// What one would replace to make it faster, as [`Help::resource`] names it.
    #[serde(skip)]
    pub component: String,
}

/// What more of one kind of resource would bring.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Help {
    /// What one would replace, `#` for numbers: links of one kind, the adapters with their links; or the time before the
    /// first byte.
    pub resource: String,
    /// Time in seconds were they twice as fast.
    pub time: f64,
    /// Share of the time that this saves.
    pub saves: f64,
}

/// What is simulated.
#[derive(Clone, Debug)]
pub enum Job {
    /// A workload at each of these sizes.
    Workload(Workload, Vec<Bytes>),
    /// A program that has its bytes in it: name, program, bytes of all its transfers.
    Program(String, Program, u64),
    /// What a trace does: name, trace.
    Trace(String, Box<Recorded>),
    /// A step of a model, and one that was measured.
    Step(Step, Option<Measured>),
}

impl Job {
    /// A workload, at these sizes where it has no sizes.
    pub fn of(workload: Workload, sizes: Vec<Bytes>, cluster: &Cluster) -> Result<Self, SimulateError> {
        if let Workload::Step(step) = workload {
            return Ok(Job::Step(step, None));
        }
        if workload.is_sized() {
            return Ok(Job::Workload(workload, sizes));
        }
        refuse(cluster, &workload)?;
        let router = Router::new(cluster, Parts::embedded());
        let program = workload.program(cluster, &router, 0.0)?;
        let bytes = program.bytes() as u64;
        Ok(Job::Program(workload.to_string(), program, bytes))
    }

    /// How many GPUs take part.
    fn gpus(&self, cluster: &Cluster) -> usize {
        match self {
            Job::Trace(_, trace) if !trace.ranks.is_empty() => trace.ranks.len(),
            _ => cluster.places().len(),
        }
    }

    /// Whether what is played goes between GPUs as the library lets it.
    fn by_library(&self) -> bool {
        match self {
            Job::Workload(workload, _) => matches!(workload, Workload::AllToAll(Costs::Library)),
            // a trace without a collective names what moves itself
            Job::Trace(_, trace) => !trace.groups.is_empty(),
            Job::Program(..) | Job::Step(..) => false,
        }
    }

    fn workload(&self) -> Option<&Workload> {
        if let Job::Workload(workload, _) = self { Some(workload) } else { None }
    }
}

/// Simulates a job, and where `helps` is set what would make it faster. Returns the last size's outcome, too.
pub fn simulate(cluster: &Cluster, job: &Job, helps: bool) -> Result<(SimulationDocument, Outcome), SimulateError> {
    match job {
        Job::Step(step, measured) => return stepped(cluster, step, measured.as_ref(), helps),
        Job::Workload(workload, _) => refuse(cluster, workload)?,
        Job::Program(name, program, _) => {
            memory::refuse_beyond(memory::of_program(program), || name.clone(), cluster.places().len())?;
        }
        Job::Trace(name, trace) => {
            let needed = memory::of_program(&trace.program(cluster, None)?);
            memory::refuse_beyond(needed, || name.clone(), cluster.places().len())?;
        }
    }
    let sizes: Vec<u64> = match job {
        Job::Workload(_, sizes) => sizes.iter().map(|s| s.0).collect(),
        Job::Program(_, _, bytes) => vec![*bytes],
        Job::Trace(_, trace) => vec![trace.bytes() as u64],
        Job::Step(..) => Vec::new(),
    };
    let gpus = job.gpus(cluster);
    let seen = job.by_library().then(|| library::with_peers(cluster));
    let cluster = seen.as_ref().unwrap_or(cluster);
    let (mut points, mut last) = (Vec::new(), Outcome::default());
    let mut estimate: Option<Estimate> = None;
    let mut rerouted = false;
    let mut router = Router::new(cluster, Parts::embedded());
    let library = match job {
        Job::Workload(Workload::Library(collective, choice), _) => {
            Some(Library::of(cluster, *collective, *choice, None)?)
        }
        _ => None,
    };
    let rings = job.workload().and_then(|workload| workload.rings(cluster, &router));
    let rings = library.as_ref().map_or(rings.as_ref(), Library::rings);
    for size in &sizes {
        router = Router::new(cluster, Parts::embedded());
        let mut predicted = None;
        last = match (&library, job) {
            (Some(library), Job::Workload(Workload::Library(_, choice), _)) => {
                let (outcome, chosen) = library.outcome(Bytes(*size), *choice)?;
                predicted = Some(chosen);
                outcome
            }
            _ => once(&mut router, cluster, job, rings, *size, None)?,
        };
        points.push(point(&router, job, gpus, *size, &last, (library.as_ref(), predicted)));
        rerouted |= last.rerouted;
        if let Some(found) = last.estimate.clone() {
            estimate = Some(found.worse(estimate.take()));
        }
    }
    let helps = match sizes.last() {
        Some(size) if helps => Some(what_helps((&router, library.as_ref()), cluster, job, rings, *size, &last)?),
        _ => None,
    };
    let workload = match job {
        Job::Workload(workload, _) => workload.to_string(),
        Job::Program(name, ..) | Job::Trace(name, _) => name.clone(),
        Job::Step(step, _) => step.words(),
    };
    let document = SimulationDocument {
        schema: "peerlane/simulation/2",
        target: cluster.name.clone(),
        workload,
        gpus,
        rings: rings.map(|rings| rings.named.clone()),
        points,
        exact: estimate.is_none(),
        rerouted: cluster.network.as_ref().is_some_and(|n| !n.failed.is_empty()).then_some(rerouted),
        estimate,
        helps,
        spin_glass: faster(cluster, job),
        trace: if let Job::Trace(_, trace) = job { trace.summary(&last) } else { None },
        step: None,
        assumptions: cluster.assumptions.clone(),
    };
    Ok((document, last))
}

/// Whether several GPUs of one machine are faster than one of them, of a spin glass that exchanges as GPUs of one machine do.
fn faster(cluster: &Cluster, job: &Job) -> Option<SpinGlassAdvice> {
    let Job::Program(name, ..) = job else { return None };
    // a program's name is the workload as it is written
    let Ok(Workload::SpinGlass(run)) = name.parse() else { return None };
    if cluster.network.is_some() || run.update.is_some() || run.weak {
        return None;
    }
    let gpus: Vec<_> = cluster.places().into_iter().map(|place| place.device).collect();
    spin_glass_advice(&Model::new(&cluster.node, Parts::embedded()), &gpus)
}

/// Refuses a workload that takes too much memory, before anything of it is made.
fn refuse(cluster: &Cluster, workload: &Workload) -> Result<(), SimulateError> {
    memory::refuse_beyond(memory::of_workload(cluster, workload), || workload.to_string(), cluster.places().len())
}

/// One size.
fn once(
    router: &mut Router,
    cluster: &Cluster,
    job: &Job,
    rings: Option<&NodeRings>,
    size: u64,
    faster: Option<(Component, f64)>,
) -> Result<Outcome, SimulateError> {
    match job {
        Job::Workload(Workload::Library(collective, choice), _) => {
            let library = Library::of(cluster, *collective, *choice, faster)?;
            library.outcome(Bytes(size), *choice).map(|(outcome, _)| outcome)
        }
        Job::Workload(workload, _) => {
            let outcome = played(router, cluster, workload, rings, size, faster)?;
            match workload {
                Workload::AllToAll(Costs::Library) => library::exchanged(cluster, router, outcome, size),
                _ => Ok(outcome),
            }
        }
        Job::Program(_, program, _) => run(program, router, Engine::Ce),
        Job::Trace(_, trace) => trace.outcome(cluster, router, faster.as_ref()),
        Job::Step(step, _) => {
            Err(SimulateError::Workload(format!("{}: a step of a model is computed and not played", step.words())))
        }
    }
}

/// One size of a workload that is played, step by step or as far as there are no closed forms.
fn played(
    router: &mut Router,
    cluster: &Cluster,
    workload: &Workload,
    rings: Option<&NodeRings>,
    size: u64,
    faster: Option<(Component, f64)>,
) -> Result<Outcome, SimulateError> {
    let grown = Grown { cluster, workload, rings, size: size as f64, faster };
    if let Some(outcome) = grown.outcome(Limits::default())? {
        return Ok(outcome);
    }
    let gpus = cluster.places().len();
    let long = |router: &mut Router| {
        let long = workload.long_rings(cluster, router, rings);
        long.map(|long| long.outcome(router, size as f64)).transpose()
    };
    if gpus > MOST_LISTED
        && let Some(outcome) = long(router)?
    {
        return Ok(outcome);
    }
    let played = run(&workload.around(cluster, router, rings, size as f64, gpus > MOST_LISTED)?, router, Engine::Sm)?;
    // the bounds of long rings are nearer than steps at their first rates
    match if played.estimate.is_some() { long(router)? } else { None } {
        Some(Outcome { time, estimate, .. }) => Ok(Outcome { time, estimate, ..played }),
        None => Ok(played),
    }
}

/// A step of a model.
fn stepped(
    cluster: &Cluster,
    step: &Step,
    measured: Option<&Measured>,
    helps: bool,
) -> Result<(SimulationDocument, Outcome), SimulateError> {
    let (summary, held) = step.summary(cluster, measured, None)?;
    let time = summary.time;
    let all: f64 = held.iter().map(|one| one.time).sum();
    let binding = |one: &Holding| Binding {
        resource: one.name.clone(),
        share: one.time / all,
        component: one.component.as_ref().map_or_else(|| one.name.clone(), Component::to_string),
    };
    let exposed: f64 = held.iter().map(|one| one.exposed).sum();
    let bytes = summary.communication.iter().map(|one| one.times * one.bytes).sum::<f64>();
    let computing = summary.spent.iter().find(|spent| spent.on == "computing").map_or(0.0, |spent| spent.time);
    let gpus = summary.gpus.max(1);
    let point = Point {
        size: (bytes * gpus as f64) as u64,
        time,
        algbw: bytes * gpus as f64 / time / 1e9,
        busbw: None,
        sent: bytes / time / 1e9,
        binding: held.iter().map(binding).filter(|one| one.share >= LEAST_SHARE).collect(),
        last_held_by: Vec::new(),
        efficiency: (1.0 - exposed / time).max(0.0),
        algorithm: None,
        protocol: None,
        idle: summary.apart.is_none().then(|| (1.0 - computing / time).max(0.0)),
    };
    let mut tried: Vec<Help> = Vec::new();
    for one in held.iter().filter(|one| helps && one.exposed >= LEAST_SHARE * time).take(MOST_TRIED) {
        let component = one.component.clone().unwrap_or_else(|| Component::Named(one.name.clone()));
        let resource = component.to_string();
        if tried.iter().any(|known| known.resource == resource) {
            continue;
        }
        let (faster, _) = step.summary(cluster, measured, Some((component, 2.0)))?;
        tried.push(Help { resource, time: faster.time, saves: 1.0 - faster.time / time });
    }
    if helps && exposed > 0.0 {
        let (sooner, _) = step.summary(&cluster.with_latencies(0.5), measured, None)?;
        tried.push(Help { resource: STARTING.to_owned(), time: sooner.time, saves: 1.0 - sooner.time / time });
    }
    tried.sort_by(|a, b| b.saves.total_cmp(&a.saves));
    let spent = summary.spent.iter().map(|part| (part.on.to_owned(), part.share)).collect();
    let because = "a step of a model is computed from what its parts take, and not played";
    let document = SimulationDocument {
        schema: "peerlane/simulation/2",
        target: cluster.name.clone(),
        workload: step.words(),
        gpus,
        rings: None,
        points: vec![point],
        exact: false,
        estimate: Some(Estimate { because: because.to_owned(), error: None }),
        rerouted: None,
        helps: helps.then_some(tried),
        spin_glass: None,
        trace: None,
        step: Some(summary),
        assumptions: cluster.assumptions.clone(),
    };
    Ok((document, Outcome { time, spent, ..Outcome::default() }))
}

fn point(
    router: &Router,
    job: &Job,
    gpus: usize,
    size: u64,
    outcome: &Outcome,
    (library, predicted): (Option<&Library>, Option<Predicted>),
) -> Point {
    let algbw = if outcome.time > 0.0 { size as f64 / outcome.time / 1e9 } else { 0.0 };
    let factor = job.workload().and_then(|workload| workload.bus_factor(gpus));
    let binding = |(resource, share): &(String, f64)| {
        let component = component(router, library, resource).map_or_else(|| resource.clone(), |c| c.to_string());
        Binding { resource: resource.clone(), share: *share, component }
    };
    let reported = |shares: &[(String, f64)]| -> Vec<Binding> {
        shares.iter().filter(|(_, share)| *share >= LEAST_SHARE).map(binding).collect()
    };
    let busy = outcome.computed / (outcome.time * gpus as f64);
    Point {
        size,
        time: outcome.time,
        algbw,
        busbw: factor.map(|f| f * algbw),
        sent: if outcome.time > 0.0 { outcome.bytes / outcome.time / gpus as f64 / 1e9 } else { 0.0 },
        binding: reported(&outcome.spent),
        last_held_by: reported(&outcome.last),
        efficiency: if outcome.time > 0.0 { outcome.alone / outcome.time } else { 1.0 },
        algorithm: predicted.map(|predicted| predicted.algorithm.to_string()),
        protocol: predicted.map(|predicted| predicted.protocol.to_string()),
        idle: (outcome.computed > 0.0).then(|| (1.0 - busy).max(0.0)),
    }
}

fn component(router: &Router, library: Option<&Library>, group: &str) -> Option<Component> {
    library.map_or_else(|| router.component(group), |library| library.component(group))
}

/// Tries what held the transfers, twice as fast, one kind at a time.
fn what_helps(
    (router, library): (&Router, Option<&Library>),
    cluster: &Cluster,
    job: &Job,
    rings: Option<&NodeRings>,
    size: u64,
    outcome: &Outcome,
) -> Result<Vec<Help>, SimulateError> {
    let mut helps: Vec<Help> = Vec::new();
    let mut tried: Vec<Component> = Vec::new();
    for (group, _) in outcome.spent.iter().filter(|(_, share)| *share >= LEAST_SHARE) {
        let component = component(router, library, group).unwrap_or_else(|| Component::Named(group.clone()));
        if !tried.contains(&component) {
            tried.push(component);
        }
    }
    for component in tried.into_iter().take(MOST_TRIED) {
        let resource = component.to_string();
        let time = if resource == STARTING {
            let sooner = cluster.with_latencies(0.5);
            once(&mut Router::new(&sooner, Parts::embedded()), &sooner, job, rings, size, None)?.time
        } else {
            let mut router = Router::new(cluster, Parts::embedded());
            router.scale(component.clone(), 2.0);
            once(&mut router, cluster, job, rings, size, Some((component, 2.0)))?.time
        };
        let saves = if outcome.time > 0.0 { 1.0 - time / outcome.time } else { 0.0 };
        helps.push(Help { resource, time, saves });
    }
    helps.sort_by(|a, b| b.saves.total_cmp(&a.saves));
    Ok(helps)
}

/// Several simulations.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct SweepDocument {
    /// `peerlane/sweep/2`.
    #[schemars(extend("const" = "peerlane/sweep/2"))]
    pub schema: &'static str,
    /// One for each target and workload.
    pub simulations: Vec<SimulationDocument>,
}

impl SweepDocument {
    /// All of them.
    pub fn new(simulations: Vec<SimulationDocument>) -> Self {
        SweepDocument { schema: "peerlane/sweep/2", simulations }
    }
}
