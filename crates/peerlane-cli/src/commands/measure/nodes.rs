//! `peerlane measure --nodes`: one process a node, of which that of rank 0 drives the others and writes the record.

use std::env;
use std::io::Write;
use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use peerlane::input_file::{self, Kind};
use peerlane::measured_cluster::machine_of;
use peerlane::nic_gpus::{nearest_gpus, shown_gpu, shown_nic};
use peerlane::nodes::{Method, Network, NicGpu, Node, NodePlan, NodesRun, Wanted};
use peerlane::one_line::{one_line, shown};
use peerlane_net::gpu::{Found, GpuSides};
use peerlane_net::launcher::{Given, HostPort, Place};
use peerlane_net::verbs::is_hardware;
use peerlane_net::{Agents, Head, Join, Secret, take_part};

use super::cluster::{announce, finish, refuse_uplinks, refuse_what_is_for_machines};
use crate::args::MeasureArgs;
use crate::measuring::interrupt::Interrupt;
use crate::measuring::machine::here;
use crate::measuring::nodes::{NodesFile, carry_out};
use crate::redact::Redactor;
use crate::target::nodes::learn;
use crate::{Failure, Outcome, host, live, output_file};

/// The variable with the secret.
const SECRET: &str = "PEERLANE_SECRET";

/// The most evidence that a node sends, in bytes.
const MOST_EVIDENCE: usize = 4 << 20;

/// Time after which the wait for the other processes is reported.
const QUIET: Duration = Duration::from_secs(3);

/// How long the head's own agent may take to end.
const ENDING: Duration = Duration::from_secs(5);

pub(crate) fn run(args: &MeasureArgs, out: &mut dyn Write) -> Result<Outcome, Failure> {
    refuse_what_is_for_machines(args)?;
    refuse_uplinks(args)?;
    let options = &args.between;
    let secret = secret(options.secret_file.as_deref(), options.strict_secrets)?;
    let given = Given { rank: options.rank, size: options.size, head: options.head.clone() };
    let mut place = Place::of(&|name| env::var(name).ok(), &given).map_err(|e| Failure::new(e.to_string()))?;
    if options.every_rank {
        place.local_rank = 0;
    }
    // it is read again and again: what is no file would be waited for
    if let Some(Err(refused)) = options.rendezvous.as_deref().map(|file| input_file::head(file, 1))
        && !refused.is_absent()
    {
        return Err(refused.into());
    }
    let interrupt = Interrupt::listen()?;
    if place.rank == 0 {
        return head(args, &place, &secret, &interrupt, out);
    }
    let heads = || match &options.rendezvous {
        Some(file) => read_rendezvous(file),
        None => place.heads.clone(),
    };
    if options.rendezvous.is_none() && place.heads.is_empty() {
        return Err(Failure::new(format!(
            "{} does not say on which host rank 0 is: give all processes --head HOST, or --rendezvous FILE on a file system that \
             all nodes share",
            place.launcher
        )));
    }
    join(wait(args), &place, &secret, &heads).map_err(|e| Failure::new(format!("rank {}: {e}", place.rank)))?;
    Ok(Outcome { incomplete: false, findings: false })
}

/// The secret, from the file or the variable.
fn secret(file: Option<&Path>, strict: bool) -> Result<Secret, Failure> {
    let (text, from) = match file {
        Some(file) => {
            let (text, mode) = input_file::text_and_mode(file, Kind::Secret)?;
            let (name, why) = (shown(file), mode.and_then(others_read));
            match why {
                Some(why) if strict => return Err(Failure::new(format!("{name}: {why}"))),
                Some(why) => crate::console::say(&format!("{name}: {why}; --strict-secrets refuses it")),
                None => {}
            }
            (text, name)
        }
        None => match env::var(SECRET) {
            Ok(text) => (text, SECRET.to_owned()),
            Err(_) => {
                return Err(Failure::new(format!(
                    "no secret: the processes show each other that they know one, and nothing listens without it\n\
                     export {SECRET}=$(openssl rand -hex 16) before the launcher, or give --secret-file FILE"
                )));
            }
        },
    };
    Secret::new(&text).map_err(|why| Failure::new(format!("{from}: {why}")))
}

/// Why a file of this mode keeps no secret: who else may read it.
fn others_read(mode: u32) -> Option<String> {
    let who = match (mode & 0o040 != 0, mode & 0o004 != 0) {
        (_, true) => "everybody on this host",
        (true, false) => "its group",
        (false, false) => return None,
    };
    Some(format!("its mode is {:04o}, so that {who} may read the secret; `chmod 600` it", mode & 0o7777))
}

/// How long the processes wait for each other.
fn wait(args: &MeasureArgs) -> Duration {
    Duration::from_secs_f64(args.between.wait.seconds().min(1e6))
}

/// Takes part as an agent.
fn join(
    wait: Duration,
    place: &Place,
    secret: &Secret,
    heads: &dyn Fn() -> Vec<HostPort>,
) -> Result<(), peerlane_net::Error> {
    let (node, gpus) = match place.local_rank {
        0 => {
            let (node, gpus) = describe();
            (Some(node), gpus)
        }
        _ => (None, None),
    };
    take_part(Join { secret, rank: place.rank, size: place.size, node, gpus, heads, ports: place.ports(), wait })
}

/// What this node reports, and its GPUs.
fn describe() -> (Node, Option<Arc<GpuSides>>) {
    // beside what follows, since a driver takes its time
    let gpus = thread::spawn(GpuSides::open);
    // several slurmd on one host have a name each
    let name = env::var("SLURMD_NODENAME").ok().filter(|name| !name.is_empty()).or_else(host::system);
    let name = name.unwrap_or_else(|| "localhost".to_owned());
    let (nics, mut notes) = peerlane_net::verbs::nics();
    let mut evidence = live::texts();
    let bytes: usize = evidence.iter().map(|source| source.text.len()).sum();
    if bytes > MOST_EVIDENCE {
        notes.push(format!("what it printed about itself has {bytes} bytes, and was left out"));
        evidence.clear();
    }
    let (sides, found) = gpus.join().map_or((None, Found::default()), |(sides, found)| (Some(sides), found));
    notes.extend(found.notes);
    let host = one_line(&name).into_owned();
    let (gpus, nccl) = (found.gpus, found.nccl);
    let mut node = Node { host, nics, gpus, nccl, evidence, notes, ..Node::default() };
    if let Some(sides) = &sides {
        name_gpus_beside(&mut node);
        let unknown = sides.register(&mut node.nics);
        node.notes.extend(unknown);
    }
    (node, sides)
}

/// Gives each NIC that is hardware the GPU that is nearest to it, by what the machine printed about itself.
fn name_gpus_beside(node: &mut Node) {
    let machine = machine_of(node);
    let class = |nic: usize, gpu: usize| {
        let fabric = &machine.as_ref()?.fabric;
        fabric.class(shown_gpu(fabric, node.gpus.get(gpu)?)?, shown_nic(fabric, &node.nics.get(nic)?.name)?)
    };
    let beside: Vec<_> = nearest_gpus(node.nics.len(), node.gpus.len(), class).collect();
    for (nic, at) in node.nics.iter_mut().zip(beside).filter(|(nic, _)| is_hardware(&nic.name)) {
        let gpu = at.and_then(|at| node.gpus.get(at));
        nic.gpu = gpu.map(|gpu| NicGpu { name: gpu.name.clone(), ..NicGpu::default() });
    }
}

/// Where the head is, as it wrote it; nothing while there is no such file.
fn read_rendezvous(file: &Path) -> Vec<HostPort> {
    let text = input_file::text(file, Kind::Rendezvous).unwrap_or_default();
    text.lines().take(8).filter_map(|line| HostPort::parse(line.trim()).ok()).collect()
}

/// Drives the others, and writes.
fn head(
    args: &MeasureArgs,
    place: &Place,
    secret: &Secret,
    interrupt: &Interrupt,
    out: &mut dyn Write,
) -> Result<Outcome, Failure> {
    let refuse = |e: peerlane_net::Error| Failure::new(e.to_string());
    let record = match &args.output {
        Some(path) if args.resume => {
            let (file, earlier) = NodesFile::resume(path)?;
            Some((file, Some(earlier)))
        }
        Some(path) => Some((NodesFile::new(path)?, None)),
        None => None,
    };
    let given = args.between.head.as_ref().and_then(|head| head.port);
    let head =
        Head::listen(secret, &given.map_or_else(|| place.ports(), |port| vec![port]), place.size).map_err(refuse)?;
    let port = head.port();
    if let Some(file) = &args.between.rendezvous {
        let name = host::system().unwrap_or_else(|| "localhost".to_owned());
        output_file::write(file, format!("{name}:{port}\n"))?;
    }
    let own = thread::spawn({
        let (wait, place, secret) = (wait(args), place.clone(), secret.clone());
        move || {
            let heads = || vec![HostPort { host: "127.0.0.1".to_owned(), port: Some(port) }];
            join(wait, &place, &secret, &heads)
        }
    });
    let mut network = gather(args, place, head, interrupt)?;
    let outcome = measure(args, place, &mut network, record, interrupt, out);
    drop(network);
    // the record is written; an agent that does not end goes with this process
    let began = Instant::now();
    while !own.is_finished() && began.elapsed() < ENDING {
        thread::sleep(Duration::from_millis(5));
    }
    outcome
}

/// Waits for all processes.
fn gather(args: &MeasureArgs, place: &Place, head: Head, interrupt: &Interrupt) -> Result<Agents, Failure> {
    let began = Instant::now();
    let (wait, size) = (wait(args), place.size);
    let mut told = false;
    let gathered = head.gather(size, wait, args.between.every_rank, &mut |came| {
        if !told && came < size && began.elapsed() > QUIET {
            told = true;
            crate::console::note(&format!("{came} of {size} processes have come; waiting up to {} s", wait.as_secs()));
        }
        !interrupt.asked()
    });
    gathered.map_err(|e| Failure::new(format!("{e}{}", hint(&e, place))))
}

/// The nodes of the launcher's list, where processes are missing.
fn hint(error: &peerlane_net::Error, place: &Place) -> String {
    let peerlane_net::Error::Missing { missing, .. } = error else { return String::new() };
    if place.nodes.len() != place.size {
        return String::new();
    }
    // with one task a node, ranks follow the list
    let hosts: Vec<&str> = missing.iter().filter_map(|rank| Some(place.nodes.get(*rank)?.as_str())).take(8).collect();
    format!(" (probably {})", hosts.join(", "))
}

fn measure(
    args: &MeasureArgs,
    place: &Place,
    network: &mut Agents,
    record: Option<(NodesFile, Option<NodesRun>)>,
    interrupt: &Interrupt,
    out: &mut dyn Write,
) -> Result<Outcome, Failure> {
    let wanted = Wanted {
        transports: args.between.transport.into_iter().collect(),
        all_pairs: args.all_pairs,
        uplinks: args.uplinks,
        budget: args.budget,
        patience: args.patience,
        silence: args.between.silence,
    };
    let nodes = network.nodes().to_vec();
    let plan = NodePlan::of(&nodes, &wanted, Method::default()).map_err(|e| Failure::new(e.to_string()))?;
    let first = nodes.first().map_or("?", |node| node.host.as_str()).to_owned();
    let name = format!("{first} and {} more", nodes.len() - 1);
    let mut new = NodesRun::new(&name, "nodes", nodes, plan);
    new.began = here().began;
    new.launcher = Some(place.launcher.to_string());
    let redactor = args.redact.given.then(|| {
        let mut redactor = Redactor::default();
        learn(&mut redactor, &new);
        redactor.serialised(&mut new);
        redactor
    });
    let first = new.nodes.first().map_or(first, |node| node.host.clone());
    let (file, run) = match record {
        Some((file, Some(earlier))) => {
            same(&earlier, &new)?;
            // the time for it is this process's, and so is what the nodes can do now
            (Some(file), NodesRun { plan: new.plan, nodes: new.nodes, ..earlier })
        }
        Some((file, None)) => (Some(file), new),
        None => (None, new),
    };
    announce(&run, &format!("by {}, head {first}", place.launcher));
    if network.beside() > 0 {
        let beside = network.beside();
        crate::console::note(&format!(
            "{beside} more processes are on the same nodes and measure nothing; one a node is enough"
        ));
    }
    let run = carry_out(network, run, file.as_ref(), redactor, interrupt)?;
    finish(&run, args, out)
}

/// Refuses to go on with the record of other nodes, or of another plan.
fn same(earlier: &NodesRun, new: &NodesRun) -> Result<(), Failure> {
    let named = |run: &NodesRun| {
        let name = |node: &Node| (node.host.clone(), node.nics.iter().map(|nic| nic.name.clone()).collect::<Vec<_>>());
        run.nodes.iter().map(name).collect::<Vec<_>>()
    };
    let plan = |run: &NodesRun| (run.plan.transports.clone(), run.plan.all_pairs, run.plan.uplinks);
    let why = if named(earlier) != named(new) {
        "it is a record of other nodes, or of the same in another order"
    } else if plan(earlier) != plan(new) {
        "it was begun with other options"
    } else {
        return Ok(());
    };
    Err(Failure::new(format!("cannot resume: {why}; measure into another file")))
}
