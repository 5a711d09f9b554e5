//! `peerlane measure cluster:NAME`: measures between the nodes of a simulated cluster, with planted faults.

use std::ffi::OsStr;
use std::io::Write;
use std::path::Path;

use peerlane::cluster::{self, Cluster};
use peerlane::nodes::{Method, Network, NodePlan, NodesRun, Transport, Wanted};
use peerlane::one_line::shown;
use peerlane::simulated_cluster::{SimulatedCluster, with_latencies_of_adapters};
use peerlane::target::{TargetKind, cluster_file};

use crate::args::MeasureArgs;
use crate::measuring::interrupt::Interrupt;
use crate::measuring::nodes::{NodesFile, carry_out};
use crate::render;
use crate::{Failure, Outcome};

/// What noise of a simulated cluster follows from.
const SEED: u64 = 1;

/// The most nodes: each round is of all of them, and a record has several values of each.
const MOST_NODES: u32 = 2048;

/// A cluster, and the texts that it can be read from again.
pub(crate) struct Described {
    pub(crate) cluster: Cluster,
    text: String,
    /// Of the nodes, where the catalogue has none.
    system: Option<String>,
}

/// The cluster that a TARGET names: `cluster:NAME`, a name of the catalogue, or a cluster file; `None` where it is none.
pub(crate) fn described(target: Option<&OsStr>) -> Option<Result<Described, Failure>> {
    let target = target?;
    let word = target.to_str()?;
    let (name, must) = word.strip_prefix("cluster:").map_or((word, false), |name| (name, true));
    let refuse = |why: String| Some(Err(Failure::new(why)));
    if let Some(text) = cluster::cluster_text(name) {
        let read = cluster::embedded(name)?.map_err(|e| Failure::new(e.to_string()));
        return Some(read.map(|cluster| Described { cluster, text: text.to_owned(), system: None }));
    }
    match TargetKind::of(OsStr::new(name)) {
        Ok(TargetKind::ClusterFile) => {
            let read = cluster_file(Path::new(name)).map_err(Failure::from);
            Some(read.map(|(cluster, text, system)| Described { cluster, text, system }))
        }
        _ if !must => None,
        Ok(TargetKind::SystemFile) => refuse(format!("{name} describes no cluster: it has no table [network]")),
        _ => {
            let names = cluster::cluster_names().collect::<Vec<_>>().join(", ");
            refuse(format!("no cluster '{name}'; there are {names}, and files"))
        }
    }
}

pub(crate) fn run(args: &MeasureArgs, described: Described, out: &mut dyn Write) -> Result<Outcome, Failure> {
    refuse_what_is_for_machines(args)?;
    if args.redact.given {
        return Err(Failure::new("--redact is for real nodes: a simulated cluster has nothing that identifies"));
    }
    let refuse = |e: String| Failure::new(e);
    let cluster = with_latencies_of_adapters(described.cluster);
    if cluster.nodes > MOST_NODES {
        let count = cluster.nodes;
        return Err(Failure::new(format!(
            "{} has {count} nodes; a simulated measurement has at most {MOST_NODES}",
            cluster.name
        )));
    }
    let mut network = SimulatedCluster::new(&cluster, args.faults.clone(), SEED).map_err(refuse)?;
    let target = args.target.as_deref().unwrap_or_default().to_string_lossy().into_owned();
    refuse_uplinks(args)?;
    if args.between.transport == Some(Transport::Tcp) {
        return Err(Failure::new("a simulated cluster has no TCP: its transports are verbs and nccl"));
    }
    // without GPUs there is no NCCL, which is no error unless it is requested
    let transports = args.between.transport.map_or_else(|| vec![Transport::Verbs, Transport::Nccl], |one| vec![one]);
    let (budget, patience, silence) = (args.budget, args.patience, args.between.silence);
    let (all_pairs, uplinks) = (args.all_pairs, args.uplinks);
    let wanted = Wanted { transports, all_pairs, uplinks, budget, patience, silence };
    let plan = NodePlan::of(network.nodes(), &wanted, Method::default()).map_err(|e| refuse(e.to_string()))?;
    let mut new = NodesRun::new(&cluster.name, &target, network.nodes().to_vec(), plan);
    (new.cluster, new.system) = (Some(described.text), described.system);
    let interrupt = Interrupt::listen()?;
    let (file, run) = match &args.output {
        Some(path) if args.resume => {
            let (file, earlier) = NodesFile::resume(path)?;
            let options = |run: &NodesRun| (run.plan.transports.clone(), run.plan.all_pairs, run.plan.uplinks);
            let other = (&earlier.cluster, &earlier.system) != (&new.cluster, &new.system);
            if other || options(&earlier) != options(&new) {
                let why = "it is a record of another cluster, or with other options";
                return Err(Failure::new(format!("{}: {why}; measure into another file", shown(path))));
            }
            (Some(file), NodesRun { plan: new.plan, ..earlier })
        }
        Some(path) => (Some(NodesFile::new(path)?), new),
        None => (None, new),
    };
    announce(&run, &format!("simulated, {}", cluster.name));
    let run = carry_out(&mut network, run, file.as_ref(), None, &interrupt)?;
    finish(&run, args, out)
}

/// Refuses to load links by what chooses its own.
pub(crate) fn refuse_uplinks(args: &MeasureArgs) -> Result<(), Failure> {
    if args.uplinks && args.between.transport == Some(Transport::Nccl) {
        return Err(Failure::new(
            "--uplinks is for verbs and TCP, since NCCL chooses NICs itself: leave --transport out",
        ));
    }
    Ok(())
}

/// One line before the first round: who, by what, and how long at most.
pub(crate) fn announce(run: &NodesRun, who: &str) {
    let transports: Vec<&str> = run.plan.transports.iter().map(|t| t.name()).collect();
    let (nodes, rounds) = (run.nodes.len(), run.plan.rounds);
    let [usual, bound] = [run.plan.usual(), run.plan.bound].map(|time| time.seconds().ceil());
    let transports = transports.join(" and ");
    crate::console::note(&format!(
        "{nodes} nodes, {who}: {transports}, {rounds} rounds, about {usual} s, at most {bound} s"
    ));
}

/// Shows what was measured.
pub(crate) fn finish(run: &NodesRun, args: &MeasureArgs, out: &mut dyn Write) -> Result<Outcome, Failure> {
    if args.detail.json {
        out.write_all(run.to_json().map_err(|e| Failure::new(e.to_string()))?.as_bytes())?;
    } else {
        render::nodes::measured(out, run, args.output.as_deref())?;
    }
    out.flush()?;
    let missing = run.missing();
    if let Some(missing) = missing.filter(|_| run.complete) {
        let resume = if args.output.is_some() { "; --resume tries them again" } else { "" };
        crate::console::say(&format!("{missing}{resume}"));
    }
    if !run.complete {
        // a round that could end too late is not begun
        let over = run.wall.seconds() + run.plan.longest_round().seconds() > run.plan.bound.seconds();
        let over = if over { ": the time for it is over, and --budget gives more" } else { "" };
        let resume = if args.output.is_some() { "; --resume goes on" } else { "" };
        crate::console::say(&format!("not all steps are measured{over}{resume}"));
    }
    Ok(Outcome { incomplete: !run.complete || missing.is_some(), findings: false })
}

/// Refuses options that mean nothing for a cluster.
pub(crate) fn refuse_what_is_for_machines(args: &MeasureArgs) -> Result<(), Failure> {
    let given = [
        ("--tests", !args.tests.is_empty()),
        ("--pairs", !args.pairs.is_empty()),
        ("--precision", args.precision.is_some()),
        ("--quick", args.quick),
        ("--full", args.full),
        ("--to", args.collect.to.is_some()),
        ("--force", args.force.given),
    ];
    match given.iter().find(|(_, given)| *given) {
        Some((option, _)) => {
            Err(Failure::new(format!("{option} is for one machine; between nodes there is --all-pairs")))
        }
        None if args.detail.verbose => Err(Failure::new(
            "-v shows every value of one machine; of a record between nodes, 'peerlane check FILE -v' does",
        )),
        None => Ok(()),
    }
}
