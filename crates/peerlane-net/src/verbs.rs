//! RDMA between two NICs, through libibverbs, which is opened at run time.
//!
//! Reliable connections (RC); RDMA writes and reads, and sends that the other side receives; host memory of a chosen NUMA
//! node, and for writes and reads a GPU's, which [`StagedVerbs`] sends by way of host memory. RoCE takes the GID of version 2 by
//! itself. Counted as by perftest: a rate is that of the messages' bytes between two completions; a latency is half of the time of a
//! message to and fro, by writes whose last byte the other side waits for.

mod address;
mod endpoint;
mod pattern;
#[allow(unsafe_code, reason = "a C library; each block has its reason")]
mod raw;
mod staged;
mod staged_between;
mod sysfs;

use std::sync::Arc;
use std::sync::atomic::{Ordering, fence};
use std::time::{Duration, Instant};

use peerlane_gpu::Mapping;
use peerlane_gpu::bindings::verbs::{IBV_LINK_LAYER_ETHERNET, IBV_LINK_LAYER_INFINIBAND, ibv_port_state};
use peerlane_machine::transfer::Registration;
use peerlane_machine::units::Seconds;
use peerlane_measure::measure::{Failure, Verdict};
use peerlane_measure::nodes::{Gid, Memory, Nic, Probe, Step};
use peerlane_measure::run::FlagKind;

use crate::gpu_memory::Gpus;
use crate::transport::{Side, taken};
use address::MOST_QUEUE_PAIRS;
use endpoint::{Endpoint, Kind, Trouble, Wanted, adapter_and_port};
use raw::{Context, Domain, Region};
pub(crate) use staged::SLOTS;
pub use staged_between::StagedVerbs;
use sysfs::{CLASS, Folder};

/// The largest message that verbs carry: 2³¹ bytes, less one so that a signed number holds it.
const MOST_SIZE: u64 = (1 << 31) - 1;

/// How often a loop that waits for memory looks at the clock and at completions.
const SPINS: u32 = 64;

/// Queues that take this long to empty are long enough: a slow link would spend its time on what was posted before the end.
const LONG_ENOUGH: Duration = Duration::from_millis(250);

/// How often a side that serves asks whether it is to stop.
const ASKED: Duration = Duration::from_millis(1);

/// This host's active ports that libibverbs can open, in order of their names, and what was missing, in sentences.
#[must_use]
pub fn nics() -> (Vec<Nic>, Vec<String>) {
    let mut names = match raw::device_names() {
        Ok(names) => names,
        Err(why) => return (Vec::new(), vec![why]),
    };
    names.sort();
    let (mut nics, mut notes) = (Vec::new(), Vec::new());
    if names.is_empty() {
        notes.push("libibverbs lists no RDMA adapter: is the driver's module loaded (ib_uverbs)?".to_owned());
    }
    for name in names {
        match active_ports(&name) {
            Ok(found) if found.is_empty() => notes.push(format!("{name}: no port is active")),
            Ok(found) => nics.extend(found),
            Err(why) => notes.push(format!("{name}: {why}")),
        }
    }
    (nics, notes)
}

fn active_ports(adapter: &str) -> Result<Vec<Nic>, String> {
    let context = Context::open(adapter)?;
    let folder = Folder::of(CLASS.as_ref(), adapter);
    let node = near_node(&folder);
    let mut found = Vec::new();
    for port in 1..=context.limits()?.phys_port_cnt {
        let attributes = context.port(port)?;
        if attributes.state != ibv_port_state::IBV_PORT_ACTIVE {
            continue;
        }
        let layer = u32::from(attributes.link_layer);
        let layer = if layer == IBV_LINK_LAYER_ETHERNET.0 {
            Some("Ethernet")
        } else {
            (layer == IBV_LINK_LAYER_INFINIBAND.0).then_some("InfiniBand")
        };
        found.push(Nic {
            name: if port == 1 { adapter.to_owned() } else { format!("{adapter}:{port}") },
            rate: folder.rate(port),
            link_layer: layer.map(str::to_owned),
            memory: Memory::of_host(node),
            // verbs number them: 1 is 256 bytes, 5 is 4096
            mtu: Some([attributes.active_mtu.0, attributes.max_mtu.0].map(|mtu| 128 << mtu.clamp(1, 5))),
            gid: (layer == Some("Ethernet")).then(|| folder.roce_v2(port).map_or(Gid::None, |gid| gid.kind())),
            gpu: None,
        });
    }
    Ok(found)
}

/// Whether a NIC is hardware, and not one of the kernel's own (`rdma_rxe`, `siw`), which never reach GPU memory.
#[must_use]
pub fn is_hardware(nic: &str) -> bool {
    Folder::of(CLASS.as_ref(), adapter_and_port(nic).0).is_hardware()
}

/// The NUMA node of an adapter, where memory can be had there: some containers forbid to choose the node.
fn near_node(folder: &Folder) -> Option<u32> {
    folder.numa_node().filter(|node| Mapping::new(1, Some(*node)).is_ok())
}

/// How a NIC's adapter gets at a GPU's memory, and why not as a dmabuf where that was refused.
///
/// # Errors
/// In words, why it does not.
pub fn registration(nic: &str, gpu: &str, gpus: &mut dyn Gpus) -> Result<(Registration, Option<String>), String> {
    let context = Arc::new(Context::open(adapter_and_port(nic).0)?);
    let domain = Arc::new(Domain::new(&context)?);
    let memory = gpus.memory(gpu, 1).map_err(|failure| failure.message)?;
    let (_, how, why) = Region::of_gpu(&domain, memory)?;
    Ok((how, why))
}

/// One side of a step between two NICs.
pub struct Verbs {
    endpoint: Endpoint,
    probe: Probe,
    active: bool,
    patience: Duration,
    /// Of a latency: the byte that the last message ended with.
    turn: u8,
}

/// What a side waits for when it samples or serves both ways: the messages that the other one has sent, as of when.
#[derive(Clone, Copy)]
struct Arrived {
    messages: u64,
    at: Instant,
}

impl Verbs {
    /// Makes one side of a step: `active` is the one that takes samples, which reads where the probe is a read, and else sends.
    /// Nothing is waited for longer than `patience`.
    ///
    /// # Errors
    /// In words, what this host lacks for it, and what the adapter refused.
    pub fn new(step: &Step, active: bool, patience: Seconds) -> Result<Self, Failure> {
        Self::with_gpus(step, active, patience, None)
    }

    /// The same where an end's memory may be that of one of these GPUs, for RDMA writes and reads.
    ///
    /// # Errors
    /// In words, what this host lacks for it, and what the adapter refused.
    pub fn with_gpus(
        step: &Step,
        active: bool,
        patience: Seconds,
        gpus: Option<&mut dyn Gpus>,
    ) -> Result<Self, Failure> {
        if step.probe == Probe::SendStaged {
            return Err(Failure::new(FlagKind::NotApplicable, "staged sends need a GPU, and none was opened"));
        }
        Self::made(step, active, patience, gpus)
    }

    /// The same; what is staged has its host memory only.
    fn made(step: &Step, active: bool, patience: Seconds, gpus: Option<&mut dyn Gpus>) -> Result<Self, Failure> {
        let unable = |why: String| Failure::new(FlagKind::NotApplicable, why);
        if step.probe.collective().is_some() {
            return Err(unable(format!("verbs have no {}", step.probe)));
        }
        // data goes from `from` to `to`, and of a read `to` is the active side
        let end = if active != (step.probe == Probe::Read) { &step.from } else { &step.to };
        let nic = end.nic.as_deref().ok_or_else(|| unable("verbs need a NIC, and the step names none".to_owned()))?;
        let of_gpus = gpus.is_some() && matches!(step.probe, Probe::Write | Probe::Read);
        let (numa_node, gpu) = match &end.memory {
            Memory::Host => (None, None),
            Memory::Numa(node) => (Some(*node), None),
            Memory::Device(_) if step.probe == Probe::SendStaged => {
                (near_node(&Folder::of(CLASS.as_ref(), adapter_and_port(nic).0)), None)
            }
            Memory::Device(gpu) if of_gpus => (None, Some(gpu.as_str())),
            other => return Err(unable(format!("verbs move host memory here, not that of {other}"))),
        };
        let size = step.size.0;
        if size == 0 || size > MOST_SIZE || step.queue_pairs == 0 || step.queue_pairs > MOST_QUEUE_PAIRS {
            let asked = format!("{} queue pairs with messages of {size} bytes", step.queue_pairs);
            return Err(unable(format!(
                "{asked}: verbs carry 1 to {MOST_SIZE} bytes, and 1 to {MOST_QUEUE_PAIRS} queue pairs"
            )));
        }
        let probe = step.probe;
        let is_latency = probe == Probe::Latency;
        let wanted = Wanted {
            nic,
            numa_node,
            gpu,
            size: size as usize,
            queue_pairs: if is_latency { 1 } else { step.queue_pairs },
            receives: probe == Probe::SendBoth || (matches!(probe, Probe::Send | Probe::SendStaged) && !active),
            counts: matches!(probe, Probe::WriteBoth | Probe::SendStaged),
            ordered: is_latency,
        };
        let mut endpoint = Endpoint::new(&wanted, gpus).map_err(|trouble| match trouble {
            Trouble::Words(why) => Failure::new(FlagKind::Failed, format!("{nic}: {why}")),
            Trouble::Is(failure) => failure,
        })?;
        if is_latency {
            endpoint.report_each();
        }
        for queue_pair in 0..endpoint.count {
            let seed = endpoint.own.seed.wrapping_add(queue_pair as u32);
            pattern::fill(&endpoint.region, endpoint.outgoing(queue_pair), endpoint.size, seed)?;
        }
        let patience = Duration::from_secs_f64(patience.seconds().clamp(0.1, 3600.0));
        Ok(Verbs { endpoint, probe, active, patience, turn: 0 })
    }

    /// How the adapter got at the GPU's memory, and why not as a dmabuf where that was refused; of host memory none.
    #[must_use]
    pub fn registered(&self) -> Option<(Registration, Option<&str>)> {
        self.endpoint.registered.as_ref().map(|(how, why)| (*how, why.as_deref()))
    }

    /// Changes one byte of the messages that this side sends, so that a test can see whether the other one finds it.
    pub fn spoil(&mut self) {
        let last = self.endpoint.outgoing(self.endpoint.count - 1) + self.endpoint.size / 2;
        self.endpoint.region.set_byte(last, !self.endpoint.region.byte(last));
    }

    fn failed(&self, why: String) -> Failure {
        Failure::new(FlagKind::Failed, format!("{}: {why}", self.endpoint.nic))
    }

    fn hung(&self) -> Failure {
        Failure::new(FlagKind::Hung, format!("{}: {}", self.endpoint.nic, self.endpoint.silent(self.patience)))
    }

    /// How this probe's messages go.
    fn kind(&self) -> Kind {
        match self.probe {
            Probe::Write | Probe::WriteBoth | Probe::Latency => Kind::Write,
            Probe::Read => Kind::Read,
            // a collective is refused when a side is made
            Probe::Send | Probe::SendBoth | Probe::SendStaged | Probe::SendReceive | Probe::AllReduce => Kind::Send,
        }
    }

    fn is_both_ways(&self) -> bool {
        matches!(self.probe, Probe::WriteBoth | Probe::SendBoth)
    }

    /// Fills the queues, and takes what has finished into account: how many completions there were.
    fn pump(&mut self) -> Result<usize, Failure> {
        let kind = self.kind();
        let outcome = self.endpoint.fill(kind).and_then(|()| self.endpoint.reap());
        outcome.map_err(|why| self.failed(why))
    }

    /// What the other side has sent.
    fn arrived(&self, at: Instant) -> Arrived {
        let counted = self.probe == Probe::WriteBoth;
        Arrived { messages: if counted { self.endpoint.told() } else { self.endpoint.received() }, at }
    }

    /// Runs messages, more of them under way from one completed window to the next, until the queues are full or long enough; and,
    /// both ways, until the other side's run too.
    fn start(&mut self) -> Result<(), Failure> {
        let began = Instant::now();
        let before = self.arrived(began).messages;
        self.endpoint.narrow();
        let (mut opened, mut sent, mut last) = (began, self.endpoint.sent, began);
        let mut wide = false;
        loop {
            if self.pump()? > 0 {
                last = Instant::now();
            }
            if !wide && self.endpoint.sent >= sent + self.endpoint.window() {
                wide = opened.elapsed() > LONG_ENOUGH || !self.endpoint.widen();
                (opened, sent) = (Instant::now(), self.endpoint.sent);
            }
            let other_runs = !self.is_both_ways() || self.arrived(began).messages != before;
            if wide && other_runs {
                return Ok(());
            }
            if last.elapsed() > self.patience || (wide && opened.elapsed() > self.patience) {
                return Err(self.hung());
            }
        }
    }

    /// One sample of a rate: from one completion to another one, at least `time` later. The other side's part is counted
    /// between two changes of its own, so that how often it reports does not matter.
    fn rate(&mut self, time: Duration) -> Result<f64, Failure> {
        let began = Instant::now();
        let sent = self.endpoint.sent;
        let mut last = began;
        let before = self.arrived(began);
        let mut arrivals: Option<(Arrived, Arrived)> = None;
        loop {
            let completions = self.pump()?;
            let now = Instant::now();
            if self.is_both_ways() {
                let newest = arrivals.map_or(before, |(_, newest)| newest);
                let arrived = self.arrived(now);
                if arrived.messages != newest.messages {
                    arrivals = Some((arrivals.map_or(arrived, |(first, _)| first), arrived));
                }
            }
            if completions > 0 {
                last = now;
                let enough = arrivals.is_some_and(|(first, newest)| newest.messages > first.messages);
                if now - began >= time && self.endpoint.sent > sent && (enough || !self.is_both_ways()) {
                    break;
                }
            }
            if now - last > self.patience || now - began > time + self.patience {
                return Err(self.hung());
            }
        }
        let rate = |messages: u64, time: Duration| messages as f64 * self.endpoint.size as f64 / time.as_secs_f64();
        let back = arrivals.map_or(0.0, |(first, newest)| rate(newest.messages - first.messages, newest.at - first.at));
        Ok(rate(self.endpoint.sent - sent, last - began) + back)
    }

    /// Sends one message of a latency, which ends with the byte of this turn.
    fn send_turn(&mut self) -> Result<(), Failure> {
        let last = self.endpoint.outgoing(0) + self.endpoint.size - 1;
        self.endpoint.region.set_byte(last, self.turn);
        let began = Instant::now();
        while !self.endpoint.has_room() {
            let reaped = self.endpoint.reap().map_err(|why| self.failed(why))?;
            if reaped == 0 && began.elapsed() > self.patience {
                return Err(self.hung());
            }
        }
        self.endpoint.post(0, Kind::Write, true).map_err(|why| self.failed(why))?;
        self.endpoint.posted_one(0);
        Ok(())
    }

    /// Waits for the message that ends with this turn's byte: whether it came before `stop` said to go.
    fn wait_for_turn(&mut self, mut stop: impl FnMut() -> bool) -> Result<bool, Failure> {
        let last = self.endpoint.incoming(0) + self.endpoint.size - 1;
        let mut spins = 0_u32;
        while self.endpoint.region.byte(last) != self.turn {
            spins = spins.wrapping_add(1);
            if spins.is_multiple_of(SPINS) {
                self.endpoint.reap().map_err(|why| self.failed(why))?;
                if stop() {
                    return Ok(false);
                }
            }
            std::hint::spin_loop();
        }
        fence(Ordering::Acquire);
        Ok(true)
    }

    /// The next turn's byte, never that of memory that nobody wrote.
    fn next_turn(&mut self) {
        self.turn = self.turn % 255 + 1;
    }

    /// One sample of a latency: half of the mean time of messages to and fro, over at least `time`.
    fn latency(&mut self, time: Duration) -> Result<f64, Failure> {
        let began = Instant::now();
        let mut rounds = 0_u32;
        loop {
            self.next_turn();
            self.send_turn()?;
            let (sent_at, patience) = (Instant::now(), self.patience);
            if !self.wait_for_turn(|| sent_at.elapsed() > patience)? {
                return Err(self.hung());
            }
            rounds += 1;
            if rounds.is_multiple_of(8) && began.elapsed() >= time {
                return Ok(began.elapsed().as_secs_f64() / f64::from(2 * rounds));
            }
        }
    }

    /// Answers messages until told to stop.
    fn answer(&mut self, until: &dyn Fn() -> bool) -> Result<(), Failure> {
        let mut asked = Instant::now();
        loop {
            self.next_turn();
            let came = self.wait_for_turn(|| {
                if asked.elapsed() < ASKED {
                    return false;
                }
                asked = Instant::now();
                until()
            })?;
            if !came {
                return Ok(());
            }
            self.send_turn()?;
        }
    }

    /// Sends, receives, or both, until told to stop.
    fn run(&mut self, until: &dyn Fn() -> bool) -> Result<(), Failure> {
        let mut asked = Instant::now();
        loop {
            let outcome =
                if self.is_both_ways() { self.pump() } else { self.endpoint.reap().map_err(|why| self.failed(why)) };
            if outcome? > 0 {
                self.endpoint.tell(self.endpoint.sent).map_err(|why| self.failed(why))?;
            }
            if asked.elapsed() >= ASKED {
                if until() {
                    return Ok(());
                }
                asked = Instant::now();
            }
        }
    }
}

impl Side for Verbs {
    fn address(&self) -> String {
        self.endpoint.own.to_string()
    }

    fn connect(&mut self, peer: &str) -> Result<(), Failure> {
        self.endpoint.connect(peer).map_err(|why| self.failed(why))
    }

    fn sample(&mut self, n: usize, time: Seconds) -> Result<Vec<f64>, Failure> {
        let time = Duration::from_secs_f64(time.seconds().clamp(0.0, 3600.0));
        let samples = if self.probe == Probe::Latency {
            taken(n, self.patience, || self.latency(time))?
        } else {
            self.start()?;
            taken(n, self.patience, || self.rate(time))?
        };
        self.endpoint.drain(self.patience).map_err(|why| self.failed(why))?;
        Ok(samples)
    }

    fn serve(&mut self, until: &dyn Fn() -> bool) -> Result<(), Failure> {
        match self.probe {
            Probe::Latency => self.answer(until),
            // what is still under way then carries what has arrived already; the other side may be gone before it ends
            Probe::Send
            | Probe::WriteBoth
            | Probe::SendBoth
            | Probe::SendStaged
            | Probe::SendReceive
            | Probe::AllReduce => self.run(until),
            // the adapter does it
            Probe::Write | Probe::Read => {
                while !until() {
                    std::thread::sleep(ASKED);
                }
                Ok(())
            }
        }
    }

    fn verify(&mut self) -> Result<Verdict, Failure> {
        let receives = match self.probe {
            Probe::Write | Probe::Send | Probe::SendStaged => !self.active,
            Probe::Read => self.active,
            Probe::WriteBoth | Probe::SendBoth | Probe::Latency | Probe::SendReceive | Probe::AllReduce => true,
        };
        if !receives {
            return Ok(Verdict::Unverified("this side has received nothing".to_owned()));
        }
        let endpoint = &self.endpoint;
        let seed = endpoint.peer().map_err(|why| self.failed(why))?.seed;
        // the last byte of a latency's message is the turn
        let bytes = endpoint.size - usize::from(self.probe == Probe::Latency);
        let differing = (0..endpoint.count).map(|queue_pair| {
            let seed = seed.wrapping_add(queue_pair as u32);
            pattern::differing(&endpoint.region, endpoint.incoming(queue_pair), bytes, seed)
        });
        Ok(pattern::verdict(differing.collect::<Result<Vec<_>, _>>()?.into_iter(), bytes))
    }
}
