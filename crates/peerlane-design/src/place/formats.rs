//! A placement in the words of the programs that carry it out: environment variables, numactl, Open MPI, Slurm, NCCL.
//!
//! Every text begins with what is predicted, in lines that the program takes for comments.

use std::fmt::Write;

use super::locality;
use super::{Choice, PlacementDocument};
use peerlane_machine::fabric::{CpuList, Fabric, NodeId, NodeKind};
use peerlane_machine::matrix::{Engine, Operation};
use peerlane_machine::names::gpu_number;
use peerlane_model::model::{Model, PeerAccess, Transfer};

/// A format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// `CUDA_VISIBLE_DEVICES`, for a shell.
    Env,
    /// A `numactl` and a `taskset` prefix for each rank.
    Numactl,
    /// An Open MPI rankfile.
    Rankfile,
    /// A hostfile of Open MPI, which DeepSpeed reads, too: each node with how many ranks it has.
    Hostfile,
    /// Lines for Slurm's `gres.conf`, of the whole machine.
    Slurm,
    /// NCCL's variables, for a shell.
    Nccl,
}

/// Writes a placement of `model`'s machine, or on a cluster whose nodes are such machines. `topology` is the name of a file with the machine in NCCL's format
/// (`export::nccl_xml`), if there is one to be named.
pub fn write(document: &PlacementDocument, model: &Model, format: Format, topology: Option<&str>) -> String {
    let mut out = String::new();
    let fabric = &model.machine.fabric;
    let _ = head(&mut out, document);
    let _ = match format {
        Format::Env => each(&mut out, document, |out, ranks| env(out, fabric, &ranks.choice)),
        Format::Numactl => each(&mut out, document, |out, ranks| numactl(out, fabric, ranks)),
        Format::Rankfile => each(&mut out, document, |out, ranks| rankfile(out, fabric, ranks)),
        Format::Hostfile => each(&mut out, document, |out, ranks| hostfile(out, fabric, ranks)),
        Format::Slurm => slurm(&mut out, document, model),
        Format::Nccl => each(&mut out, document, |out, ranks| nccl(out, fabric, &ranks.choice, topology)),
    };
    out
}

/// A name in a comment stays in its line.
fn line(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

fn head(out: &mut String, document: &PlacementDocument) -> std::fmt::Result {
    let (machine, workload) = (line(&document.machine), document.workload);
    writeln!(out, "# {machine}, {workload}: advice of peerlane place; nothing has been set")?;
    for (at, choice) in document.choices.iter().enumerate() {
        if let Some(rate) = choice.predicted {
            let job = if document.choices.len() > 1 { format!("job {}: ", at + 1) } else { String::new() };
            let gain = choice.gain.map_or_else(String::new, |g| format!(", {:+.0} % over GPUs by number", 100.0 * g));
            let what = if choice.rings.is_some() { "all-reduce" } else { "slowest transfer" };
            writeln!(out, "# {job}{what} {rate:.2} GB/s predicted{gain}")?;
        }
    }
    if let Some(why) = &document.equal {
        writeln!(out, "# all choices of GPUs are equal here: {}", line(why))?;
    }
    Ok(())
}

/// Ranks of a job that are on one machine or node.
struct Ranks {
    /// The node; `None` on a single machine.
    node: Option<String>,
    /// The first one.
    first: usize,
    /// What was chosen for them, in the node's own names.
    choice: Choice,
}

/// The ranks of a job, node by node.
fn by_node(document: &PlacementDocument, choice: &Choice) -> Vec<Ranks> {
    if document.nodes.is_none() {
        return vec![Ranks { node: None, first: 0, choice: choice.clone() }];
    }
    let node = |gpu: &String| gpu.split_once('/').map_or(String::new(), |(node, _)| node.to_owned());
    let local = |name: &String| name.split_once('/').map_or(name.as_str(), |(_, device)| device).to_owned();
    let mut first = 0;
    let groups = choice.order.chunk_by(|a, b| node(a) == node(b)).map(|group| {
        let ranks = first..first + group.len();
        first = ranks.end;
        let order: Vec<String> = group.iter().map(&local).collect();
        let nics = choice.nics.get(ranks.clone()).unwrap_or_default();
        let choice = Choice {
            gpus: order.clone(),
            order,
            nics: nics.iter().map(|nic| nic.as_ref().map(&local)).collect(),
            cores: choice.cores[ranks.clone()].to_vec(),
            memory: choice.memory[ranks.clone()].to_vec(),
            ..choice.clone()
        };
        Ranks { node: group.first().map(node), first: ranks.start, choice }
    });
    groups.collect()
}

/// Each job after another, with its number where there are several, and of each its nodes.
fn each(
    out: &mut String,
    document: &PlacementDocument,
    write: impl Fn(&mut String, &Ranks) -> std::fmt::Result,
) -> std::fmt::Result {
    for (at, choice) in document.choices.iter().enumerate() {
        if document.choices.len() > 1 {
            writeln!(out, "\n# job {}: {}", at + 1, line(&choice.gpus.join(" ")))?;
        }
        for ranks in by_node(document, choice) {
            if let Some(node) = &ranks.node {
                let last = ranks.first + ranks.choice.order.len() - 1;
                writeln!(out, "# on {node}: ranks {} to {last}", ranks.first)?;
            }
            write(out, &ranks)?;
        }
    }
    Ok(())
}

/// What CUDA calls a GPU where devices are in the order of their PCI addresses: the number in its name, else its place.
fn device(fabric: &Fabric, name: &str) -> u32 {
    let own = name.rsplit('/').next().and_then(gpu_number);
    let place = || fabric.of_kind(NodeKind::Gpu).position(|gpu| fabric.node(gpu).name == name).unwrap_or(0) as u32;
    own.unwrap_or_else(place)
}

fn devices(fabric: &Fabric, choice: &Choice) -> String {
    let all: Vec<String> = choice.order.iter().map(|gpu| device(fabric, gpu).to_string()).collect();
    all.join(",")
}

fn env(out: &mut String, fabric: &Fabric, choice: &Choice) -> std::fmt::Result {
    writeln!(out, "export CUDA_DEVICE_ORDER=PCI_BUS_ID")?;
    writeln!(out, "export CUDA_VISIBLE_DEVICES={}", devices(fabric, choice))
}

/// One rank: its GPU, and its CPUs and memory where they are known.
fn ranks(choice: &Choice) -> impl Iterator<Item = (&String, Option<&str>, Option<u32>)> {
    let known = choice.cores.iter().zip(&choice.memory);
    choice.order.iter().zip(known).map(|(gpu, (cores, memory))| (gpu, cores.as_deref(), *memory))
}

fn numactl(out: &mut String, fabric: &Fabric, Ranks { first, choice, .. }: &Ranks) -> std::fmt::Result {
    for (rank, (gpu, cores, memory)) in (*first..).zip(ranks(choice)) {
        let gpu = device(fabric, gpu);
        let visible = format!("CUDA_DEVICE_ORDER=PCI_BUS_ID CUDA_VISIBLE_DEVICES={gpu}");
        let cpus = cores.map(|cores| format!(" --physcpubind={cores}"));
        let bind = memory.map(|node| format!(" --membind={node}"));
        let flags = [cpus, bind].into_iter().flatten().collect::<String>();
        if flags.is_empty() {
            writeln!(out, "# rank {rank}: neither the cores nor the memory near GPU{gpu} is known\n{visible} COMMAND")?;
            continue;
        }
        writeln!(out, "# rank {rank}\n{visible} numactl{flags} COMMAND")?;
        if let Some(cores) = cores {
            writeln!(out, "#   or: {visible} taskset -c {cores} COMMAND")?;
        }
    }
    Ok(())
}

/// Cores of a package as `SOCKET:CORES`, counted within the package; as they are where the package's CPUs are not known.
fn slot(fabric: &Fabric, gpu: &str, cores: &str) -> String {
    let slot = || {
        let gpu = fabric.find(gpu)?;
        let package = fabric.package(gpu)?;
        let socket = fabric.of_kind(NodeKind::Cpu).position(|p| p == package)?;
        let first = fabric.node(package).cpus.as_ref()?.ranges().first()?.0;
        let cores = locality::first_threads(&cores.parse::<CpuList>().ok()?);
        let within = cores.ranges().iter().map(|(a, b)| Some((a.checked_sub(first)?, b.checked_sub(first)?)));
        Some(format!("{socket}:{}", CpuList::from_ranges(within.collect::<Option<Vec<_>>>()?)))
    };
    slot().unwrap_or_else(|| cores.to_owned())
}

fn rankfile(out: &mut String, fabric: &Fabric, Ranks { node, first, choice }: &Ranks) -> std::fmt::Result {
    let devices = devices(fabric, choice);
    match node {
        None => {
            writeln!(
                out,
                "# mpirun --rankfile FILE -x CUDA_DEVICE_ORDER=PCI_BUS_ID -x CUDA_VISIBLE_DEVICES={devices} COMMAND"
            )?;
            writeln!(out, "# slots are SOCKET:CORES; rank n drives device n of those visible")?;
        }
        Some(_) => {
            writeln!(out, "# CUDA_DEVICE_ORDER=PCI_BUS_ID CUDA_VISIBLE_DEVICES={devices}, device by local rank")?;
        }
    }
    let host = node.as_deref().unwrap_or("localhost");
    for (rank, (gpu, cores, _)) in (*first..).zip(ranks(choice)) {
        match cores {
            Some(cores) => writeln!(out, "rank {rank}={host} slot={}", slot(fabric, gpu, cores))?,
            None => writeln!(out, "# rank {rank}: the cores near {} are not known", line(gpu))?,
        }
    }
    Ok(())
}

fn hostfile(out: &mut String, fabric: &Fabric, Ranks { node, choice, .. }: &Ranks) -> std::fmt::Result {
    let host = node.as_deref().unwrap_or("localhost");
    writeln!(out, "# CUDA_DEVICE_ORDER=PCI_BUS_ID CUDA_VISIBLE_DEVICES={}", devices(fabric, choice))?;
    writeln!(out, "{host} slots={}", choice.order.len())
}

/// `Links` are predicted rates, of which Slurm only asks which is more.
fn slurm(out: &mut String, document: &PlacementDocument, model: &Model) -> std::fmt::Result {
    let fabric = &model.machine.fabric;
    let nodes =
        document.nodes.map_or_else(String::new, |nodes| format!("NodeName=node[0-{}] ", nodes.saturating_sub(1)));
    writeln!(
        out,
        "# gres.conf. Cores are cores of the kernel's numbers, without further threads; Slurm wants its own"
    )?;
    writeln!(out, "# numbers of cores where the two differ. Links are predicted GB/s to each GPU, -1 to itself.")?;
    let gpus: Vec<NodeId> = fabric.of_kind(NodeKind::Gpu).collect();
    let rate = |source: NodeId, destination: NodeId| {
        let (engine, op, peer) = (Engine::Ce, Operation::Write, PeerAccess::Enabled);
        let answers = model.solve(&[Transfer { source, destination, engine, op, peer }]).ok()?;
        Some(answers.first()?.rate.gb().round().max(1.0) as u64)
    };
    for gpu in &gpus {
        let node = fabric.node(*gpu);
        let links: Vec<String> = gpus
            .iter()
            .map(|other| if other == gpu { "-1".to_owned() } else { rate(*gpu, *other).unwrap_or(0).to_string() })
            .collect();
        let product = node.part.as_deref().or(node.product.as_deref()).unwrap_or("gpu");
        let kind: String =
            product.to_lowercase().chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect();
        let cores = locality::cpus(fabric, *gpu).map(|cpus| format!(" Cores={}", locality::first_threads(cpus)));
        let file = device(fabric, &node.name);
        let cores = cores.unwrap_or_default();
        writeln!(out, "{nodes}Name=gpu Type={kind} File=/dev/nvidia{file}{cores} Links={}", links.join(","))?;
    }
    Ok(())
}

fn nccl(out: &mut String, fabric: &Fabric, choice: &Choice, topology: Option<&str>) -> std::fmt::Result {
    env(out, fabric, choice)?;
    let mut nics: Vec<String> = choice.nics.iter().flatten().filter_map(|nic| verbs_name(fabric, nic)).collect();
    nics.sort();
    nics.dedup();
    if !nics.is_empty() {
        writeln!(out, "# '=' asks for these names and not for all that begin so")?;
        writeln!(out, "export NCCL_IB_HCA='={}'", nics.join(","))?;
    }
    match topology {
        Some(file) => writeln!(out, "export NCCL_TOPO_FILE='{}'", file.replace('\'', "'\\''")),
        None => writeln!(
            out,
            "# NCCL_TOPO_FILE: --topology FILE writes one, for where NCCL cannot read the topology itself"
        ),
    }?;
    writeln!(out, "# NCCL finds its own rings; NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=GRAPH shows them")
}

/// A NIC as the verbs library calls it: a name that is no mere number of `nvidia-smi`.
fn verbs_name(fabric: &Fabric, nic: &str) -> Option<String> {
    let node = fabric.node(fabric.find(nic)?);
    let mere = |name: &&String| {
        !name.starts_with("NIC") && name.chars().all(|c| c.is_ascii_alphanumeric() || "_-.".contains(c))
    };
    std::iter::once(&node.name).chain(&node.aliases).find(mere).cloned()
}
