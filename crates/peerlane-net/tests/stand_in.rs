//! Adapters that fail, by a stand-in of `libibverbs`: each fault ends as a cell that names it, and none as a hang.
//!
//! The library must be there when the process starts, so the test starts itself again with it. A fresh machine needs nothing
//! but cargo; the stand-in is for Linux's loader.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]
#![allow(clippy::disallowed_methods, reason = "programs of this test's own")]
#![allow(clippy::print_stdout, reason = "what a GPU's driver answered")]

#[path = "stand_in/gpu.rs"]
mod gpu;
#[path = "stand_in/mod.rs"]
mod stand_in;

use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::AsRawFd;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use peerlane_gpu::{GpuName, Live, Tolerated};
use peerlane_machine::matrix::Operation;
use peerlane_machine::transfer::{NicEnd, Rdma, Registration, Via};
use peerlane_machine::units::{Bytes, Seconds};
use peerlane_measure::measure::{Executor, Failure, Sample, Verdict};
use peerlane_measure::nodes::{
    Cell, End, Event, Memory, Method, Node, NodePlan, Probe, Step, Transport, Wanted, execute,
};
use peerlane_measure::run::{self, FlagKind};
use peerlane_measure::{measure, plan};
use peerlane_net::gpu_memory::Gpus;
use peerlane_net::launcher::HostPort;
use peerlane_net::transport::Side;
use peerlane_net::verbs::{StagedVerbs, nics, registration};
use peerlane_net::{Agents, Head, Join, LocalNics, Secret, take_part};

const WAIT: Duration = Duration::from_secs(30);

/// Runs a test of this file again, with the stand-in where the loader looks first.
fn with_the_library(test: &str) {
    stand_in::with_the_library(env!("CARGO_TARGET_TMPDIR"), test);
}

#[test]
fn each_fault_of_an_adapter_is_a_named_cell() {
    with_the_library("faulty_adapters");
}

#[test]
fn nics_of_one_node_are_measured_and_each_fault_is_named() {
    with_the_library("one_node");
}

#[test]
#[ignore = "the test before starts it, with the stand-in"]
fn one_node() {
    // what never returns is the watchdog's, which kills the process
    let names = ["sound0", "sound1", "lost0", "error0", "wrong0", "refuses0", "silent0", "absurd0", "missing0"];
    let end = |nic: &str| NicEnd { nic: nic.to_owned(), memory: "host".to_owned() };
    let step = |from: &str, to: &str, op| plan::Step {
        test: plan::Test::Nic,
        work: plan::Work::Rdma(Rdma::of_host(end(from), end(to), op)),
        size: plan::Size::Exactly(Bytes(1 << 16)),
    };
    let mut rounds: Vec<Vec<plan::Step>> = vec![
        vec![step("sound0", "sound1", Operation::Write)],
        vec![step("sound1", "sound0", Operation::Read)],
        // called so by the plan
        vec![step("eth0", "sound0", Operation::Write)],
    ];
    rounds.extend(names.iter().map(|nic| vec![step(nic, nic, Operation::Write)]));
    let method = plan::Method { patience: Seconds::new(3.0), ..plan::Method::default() };
    let plan = plan::Plan { method, rounds, skipped: Vec::new() };
    let mut nics = LocalNics::new([("eth0".to_owned(), "sound1".to_owned())].into());
    let mut cells: Vec<run::Cell> = Vec::new();
    let answered = measure::execute(&plan, &mut nics, &BTreeSet::new(), &mut |event| {
        if let run::Event::Cells(more) = event {
            cells.extend(more);
        }
    });
    answered.unwrap();
    let said = |step: usize| {
        let cell = cells.iter().find(|cell| cell.step == step).unwrap();
        let voids = cell.flags.iter().find(|flag| flag.kind.voids());
        voids.map_or((None, String::new()), |flag| (Some(flag.kind), flag.detail.clone()))
    };
    for sound in 0..5 {
        let cell = cells.iter().find(|cell| cell.step == sound).unwrap();
        assert!(cell.value().is_some_and(|gb| gb > 0.01), "{cell:?}");
        assert!(cell.flag(FlagKind::Unverified).is_none(), "{cell:?}");
    }
    let faults = [
        ("lost0", FlagKind::Failed, "local catastrophic error"),
        ("error0", FlagKind::Failed, "transport retry counter exceeded"),
        ("wrong0", FlagKind::Corrupt, "1 of 65536 bytes"),
        ("refuses0", FlagKind::Failed, "Cannot allocate memory"),
        ("silent0", FlagKind::Hung, "the adapter reported nothing for 0.9 s"),
        ("absurd0", FlagKind::Failed, "completions, and was asked for 32"),
        ("missing0", FlagKind::Failed, "no such RDMA adapter; libibverbs lists sound0, sound1,"),
    ];
    for (index, (nic, kind, words)) in faults.into_iter().enumerate() {
        let (found, detail) = said(5 + index);
        assert!(found == Some(kind) && detail.contains(words), "{nic}: {found:?} {detail}");
    }
}

#[test]
fn gpu_memory_is_measured_directly_and_staged_and_each_fault_is_named() {
    with_the_library("gpus_of_one_node");
}

/// NICs with GPUs.
struct WithGpus<'g> {
    nics: LocalNics,
    gpus: &'g mut dyn Gpus,
}

impl Executor for WithGpus<'_> {
    fn prepare(&mut self, steps: &[&plan::Step], method: &plan::Method, _: usize) -> Result<Vec<Bytes>, Failure> {
        self.nics.prepare_with(Some(self.gpus), steps, method)
    }

    fn sample(&mut self, n: usize) -> Result<Vec<Vec<Sample>>, Failure> {
        self.nics.sample(n)
    }

    fn verify(&mut self) -> Result<Vec<Verdict>, Failure> {
        self.nics.verify()
    }

    fn release(&mut self) {
        self.nics.release();
    }

    fn states(&mut self) -> Vec<run::GpuState> {
        Vec::new()
    }

    fn registration(&self) -> Option<Registration> {
        self.nics.registration()
    }

    fn now(&mut self) -> Seconds {
        self.nics.now()
    }
}

/// Out of a GPU's memory through a NIC, or into it.
fn with_gpu(nic: &str, gpu: &str, to_gpu: bool, via: Via) -> plan::Step {
    let end = |memory: &str| NicEnd { nic: nic.to_owned(), memory: memory.to_owned() };
    let (from, to) = if to_gpu { (end("host"), end(gpu)) } else { (end(gpu), end("host")) };
    let work = plan::Work::Rdma(Rdma { from, to, op: Operation::Write, via });
    plan::Step { test: plan::Test::NicGpu, work, size: plan::Size::Exactly(Bytes(1 << 16)) }
}

/// The cells of steps, one after the other, and what was noted.
fn measured(steps: Vec<plan::Step>, gpus: &mut dyn Gpus) -> (Vec<run::Cell>, Vec<String>) {
    let method = plan::Method { patience: Seconds::new(3.0), ..plan::Method::default() };
    let rounds = steps.into_iter().map(|step| vec![step]).collect();
    let plan = plan::Plan { method, rounds, skipped: Vec::new() };
    let mut machine = WithGpus { nics: LocalNics::new(BTreeMap::new()), gpus };
    let mut cells: Vec<run::Cell> = Vec::new();
    let answered = measure::execute(&plan, &mut machine, &BTreeSet::new(), &mut |event| {
        if let run::Event::Cells(more) = event {
            cells.extend(more);
        }
    });
    answered.unwrap();
    (cells, machine.nics.notes().to_vec())
}

#[test]
#[ignore = "a test before starts it, with the stand-in"]
fn gpus_of_one_node() {
    const DIRECT: Via = Via::Direct;
    const STAGED: Via = Via::Pipeline;
    let (dmabuf, peermem) = (Some(Registration::Dmabuf), Some(Registration::NvidiaPeermem));
    // adapter, GPU, way, and how its memory is registered
    let sound = [
        ("sound0", "GPU0", DIRECT, dmabuf),
        ("plain0", "GPU0", DIRECT, peermem),
        ("plain0", "GPU1", DIRECT, peermem),
        ("sound0", "GPU0", STAGED, None),
        ("hostonly0", "GPU1", STAGED, None),
    ];
    let (failed, corrupt, hung) = (FlagKind::Failed, FlagKind::Corrupt, FlagKind::Hung);
    let refused = FlagKind::NotApplicable;
    let faults = [
        (
            "hostonly0",
            "GPU0",
            DIRECT,
            refused,
            "no GPU memory for hostonly0: dmabuf: ibv_reg_dmabuf_mr: Operation not supported",
        ),
        (
            "hostonly0",
            "GPU0",
            DIRECT,
            refused,
            "; nvidia-peermem: ibv_reg_mr: Bad address (os error 14), since the module is not loaded",
        ),
        (
            "sound0",
            "GPU1",
            DIRECT,
            refused,
            "dmabuf: the driver exports no memory of GPU1; nvidia-peermem: ibv_reg_mr: Bad address",
        ),
        ("lost0", "GPU0", DIRECT, failed, "local catastrophic error"),
        ("error0", "GPU0", DIRECT, failed, "transport retry counter exceeded"),
        ("wrong0", "GPU0", DIRECT, corrupt, "1 of 65536 bytes"),
        ("silent0", "GPU0", DIRECT, hung, "the adapter reported nothing for 0.9 s"),
        ("error0", "GPU0", STAGED, failed, "transport retry counter exceeded"),
        ("wrong0", "GPU0", STAGED, corrupt, "1 of 65536 bytes"),
        ("silent0", "GPU0", STAGED, hung, "the adapter reported nothing for 0.9 s"),
        ("refuses0", "GPU0", STAGED, failed, "Cannot allocate memory"),
    ];
    let ways = [false, true];
    let steps = sound.iter().map(|(nic, gpu, via, _)| (*nic, *gpu, *via));
    let steps = steps.chain(faults.iter().map(|(nic, gpu, via, ..)| (*nic, *gpu, *via)));
    let steps = steps.flat_map(|(nic, gpu, via)| ways.map(|to_gpu| with_gpu(nic, gpu, to_gpu, via))).collect();
    let (cells, notes) = measured(steps, &mut gpu::StandInGpus);
    let of =
        |at: usize| ways.map(|to_gpu| cells.iter().find(|cell| cell.step == 2 * at + usize::from(to_gpu)).unwrap());
    for (at, (nic, gpu, via, registration)) in sound.into_iter().enumerate() {
        for cell in of(at) {
            assert!(cell.value().is_some_and(|gb| gb > 0.001), "{nic} {gpu} {via:?}: {cell:?}");
            assert!(cell.flag(FlagKind::Unverified).is_none(), "{cell:?}");
            assert_eq!(cell.registration, registration, "{nic} {gpu} {via:?}");
        }
    }
    for (at, (nic, gpu, via, kind, words)) in faults.into_iter().enumerate() {
        for cell in of(sound.len() + at) {
            let flag = cell.flag(kind).unwrap_or_else(|| panic!("{nic} {gpu} {via:?}: {:?}", cell.flags));
            assert!(cell.value().is_none() && flag.detail.contains(words), "{nic} {gpu} {via:?}: {}", flag.detail);
        }
    }
    let why =
        "plain0 uses GPU0's memory by nvidia-peermem, not as a dmabuf: ibv_reg_dmabuf_mr: Operation not supported";
    assert!(notes.iter().any(|note| note.starts_with(why)), "{notes:?}");
    let without = LocalNics::new(BTreeMap::new()).prepare(
        &[&with_gpu("sound0", "GPU0", false, DIRECT)],
        &plan::Method::default(),
        0,
    );
    assert!(without.unwrap_err().message.contains("GPU0"));
}

/// What a GPU's driver does of this without an adapter that takes GPU memory: it exports its memory or says why not, and stages.
#[test]
#[ignore = "needs a GPU, nvidia-smi, and the stand-in where the loader looks first"]
fn a_real_gpu() {
    let listed = Command::new("nvidia-smi").args(["--query-gpu=pci.bus_id", "--format=csv,noheader"]).output().unwrap();
    let listed = String::from_utf8(listed.stdout).unwrap();
    let gpus: Vec<GpuName> = listed
        .lines()
        .enumerate()
        .map(|(at, address)| GpuName { name: format!("GPU{at}"), address: address.trim().parse().unwrap() })
        .collect();
    let mut live = Live::open(&gpus, &Tolerated::default()).unwrap();
    for GpuName { name, .. } in &gpus {
        let memory = live.nic_memory(name, 1 << 20).unwrap();
        match memory.dmabuf() {
            Ok(file) => {
                let link = std::fs::read_link(format!("/proc/self/fd/{}", file.as_raw_fd())).unwrap();
                println!("{name}: {} bytes at {:#x} exported as {}", memory.bytes(), memory.address(), link.display());
                assert!(link.to_string_lossy().contains("dmabuf"), "{}", link.display());
            }
            Err(why) => println!("{name}: no dmabuf: {why}"),
        }
    }
    let ways = [false, true];
    let of =
        |nic: &str, via| gpus.iter().flat_map(|gpu| ways.map(|to_gpu| with_gpu(nic, &gpu.name, to_gpu, via))).collect();
    let mut staged: Vec<plan::Step> = of("sound0", Via::Pipeline);
    staged.iter_mut().for_each(|step| step.size = plan::Size::Exactly(Bytes::from_mib(1)));
    let (cells, _) = measured(staged, &mut live);
    for cell in &cells {
        println!("{}: {:?} {:?}", run::ends(&cell.work), cell.estimate, cell.flags);
        assert!(cell.value().is_some() && cell.flag(FlagKind::Unverified).is_none(), "{:?}", cell.flags);
    }
    let (cells, _) = measured(of("wrong0", Via::Pipeline), &mut live);
    assert!(cells.iter().all(|cell| cell.flag(FlagKind::Corrupt).is_some()), "what arrived changed is found");
    // no adapter here reads a GPU: its address is none of the kernel's, and the stand-in knows only dmabufs of its own
    let (cells, _) = measured(of("hostonly0", Via::Direct), &mut live);
    for cell in &cells {
        println!("{}: {:?}", run::ends(&cell.work), cell.flags);
        assert!(cell.flag(FlagKind::NotApplicable).is_some_and(|flag| flag.detail.starts_with(run::NO_GPU_MEMORY)));
    }
    let names: Vec<&str> = gpus.iter().map(|gpu| gpu.name.as_str()).collect();
    let both = [names[0], names[names.len() - 1]];
    for gpus in [both, [both[1], both[0]]] {
        for (nic, intact) in [("sound0", true), ("sound1", true), ("wrong0", false)] {
            let (values, verdict) = staged_between(nic, gpus, &mut live).unwrap();
            println!("{nic}, {} → {}, staged at both ends: {values:?} {verdict:?}", gpus[0], gpus[1]);
            assert!(values.len() == 8 && matches!(verdict, Verdict::Intact) == intact, "{verdict:?}");
        }
    }
    println!("{}: {:?}", both[0], registration("sound0", both[0], &mut live));
}

/// What two sides of this process send from one GPU to another through host memory.
fn staged_between(nic: &str, gpus: [&str; 2], live: &mut Live) -> Result<(Vec<f64>, Verdict), Failure> {
    let end = |node: usize| End { node, nic: Some(nic.to_owned()), memory: Memory::Device(gpus[node].to_owned()) };
    let (from, to, transport, probe) = (end(0), end(1), Transport::Verbs, Probe::SendStaged);
    let step = Step { from, to, transport, probe, size: Bytes::from_mib(1), queue_pairs: 4, between: Vec::new() };
    let patience = Seconds::new(3.0);
    let mut active = StagedVerbs::new(&step, true, patience, live)?;
    let mut passive = StagedVerbs::new(&step, false, patience, live)?;
    active.connect(&passive.address())?;
    passive.connect(&active.address())?;
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        let serving = scope.spawn(|| passive.serve(&|| over.load(Ordering::Relaxed)).map(|()| passive.verify()));
        let values = active.sample(8, Seconds::new(0.05));
        over.store(true, Ordering::Relaxed);
        let verdict = serving.join().unwrap()?;
        Ok((values?, verdict?))
    })
}

/// Two agents in threads of this process, each with all adapters.
fn two_nodes() -> Agents {
    let secret = || Secret::new("0123456789abcdef").unwrap();
    let (found, notes) = nics();
    assert!(notes.is_empty(), "{notes:?}");
    let head = Head::listen(&secret(), &[0], 2).unwrap();
    let port = head.port();
    for rank in 0..2 {
        let nics = found.clone();
        thread::spawn(move || {
            let heads = || vec![HostPort { host: "127.0.0.1".to_owned(), port: Some(port) }];
            let node = Node { host: format!("node{rank}"), nics, ..Node::default() };
            let (secret, ports) = (secret(), Vec::new());
            let join =
                Join { secret: &secret, rank, size: 2, node: Some(node), gpus: None, heads: &heads, ports, wait: WAIT };
            let _ = take_part(join);
        });
    }
    head.gather(2, WAIT, false, &mut |_| true).unwrap()
}

#[test]
#[ignore = "the test before starts it, with the stand-in"]
fn faulty_adapters() {
    let (done, ended) = mpsc::channel();
    thread::spawn(move || {
        let mut agents = two_nodes();
        let method = Method { time: Seconds::new(0.1), samples: 6, patience: Seconds::new(3.0), ..Method::default() };
        let wanted = Wanted {
            transports: vec![Transport::Verbs],
            patience: Some(method.patience),
            budget: Some(Seconds::new(400.0)),
            ..Wanted::default()
        };
        let nodes = peerlane_measure::nodes::Network::nodes(&agents).to_vec();
        let mut plan = NodePlan::of(&nodes, &wanted, method).unwrap();
        // measuring suspects again shows nothing further here
        plan.again = 0;
        let mut cells: Vec<Cell> = Vec::new();
        let complete = execute(&mut agents, &plan, Vec::new(), &mut |event| {
            if let Event::Cells(more) = event {
                cells.extend(more);
            }
            true
        });
        let _ = done.send((complete, cells));
    });
    let (complete, cells) = ended.recv_timeout(Duration::from_secs(300)).expect("nothing hangs");
    assert!(complete, "every step has its cell");

    let of = |nic: &str| {
        let of: Vec<&Cell> = cells.iter().filter(|c| c.step.from.nic.as_deref() == Some(nic)).collect();
        let what = |probe| of.iter().any(|c| c.step.probe == probe && c.step.from != c.step.to);
        assert!(of.iter().any(|c| c.step.from == c.step.to) && what(Probe::Write) && what(Probe::Latency), "{nic}");
        of
    };
    for nic in ["sound0", "sound1"] {
        for cell in of(nic) {
            assert!(cell.value().is_some() && cell.flags.is_empty(), "{:?} {:?}", cell.step, cell.flags);
        }
    }
    for cell in of("wrong0") {
        let corrupt = cell.flag(FlagKind::Corrupt);
        // a latency's message is too short for the fault
        assert_eq!(corrupt.is_some(), cell.step.probe != Probe::Latency, "{:?} {:?}", cell.step, cell.flags);
        assert_eq!(cell.value().is_none(), corrupt.is_some());
    }
    let faults = [
        (
            "lost0",
            FlagKind::Failed,
            "flushed error: the connection broke before (the adapter reported: local catastrophic",
        ),
        ("error0", FlagKind::Failed, "transport retry counter exceeded: the other side no longer answers"),
        ("refuses0", FlagKind::Failed, "ibv_reg_mr: cannot allocate memory (os error 12) ("),
        ("silent0", FlagKind::Hung, "the adapter reported nothing for"),
        ("absurd0", FlagKind::Failed, "completions, and was asked for 32"),
        ("stuck0", FlagKind::Hung, "node1: still taking samples after"),
    ];
    for (nic, kind, words) in faults {
        let mut said = String::new();
        for cell in of(nic) {
            assert!(cell.value().is_none(), "{:?} {:?}", cell.step, cell.flags);
            let flag = cell.flag(kind).unwrap_or_else(|| panic!("{:?} {:?}", cell.step, cell.flags));
            said += &format!("{}\n", flag.detail);
        }
        // of two sides, either may be the first to see it, and says what it sees
        assert!(said.to_lowercase().contains(words), "{nic}: {said}");
    }
}
