//! The process that calls CUDA and NCCL: one step after another, as it is told.

use std::io::{self, BufRead, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::thread;

use peerlane_gpu::{GpuName, GpuSink, GpuSource, Ranks};
use peerlane_measure::measure::{Failure, Verdict};
use peerlane_measure::nodes::{NodeGpu, Probe, Step, Transport};
use peerlane_measure::run::FlagKind;

use super::{Answer, Ask, Found, Listening};
use crate::gpu_memory;
use crate::secret::Secret;
use crate::tcp::{Arriving, Ends, HEADER, Hub, Outgoing, Tcp};
use crate::transport::{Part, Side};
use crate::verbs::{self, StagedVerbs, Verbs};

/// Answers the agent that started this process, on standard output, until its standard input ends. Then `end` ends the
/// process, whatever a driver is doing.
///
/// # Errors
/// Where the answers cannot be written.
pub fn serve_gpus(end: fn() -> !) -> io::Result<()> {
    // before any library is opened, whose logs would be mistaken for answers
    let mut out = peerlane_gpu::take_output()?;
    let (send, asks) = mpsc::channel();
    let stop = Arc::new(AtomicBool::new(false));
    let told = Arc::clone(&stop);
    thread::spawn(move || {
        for line in io::stdin().lock().lines() {
            let Some(ask) = line.ok().and_then(|line| serde_json::from_str(&line).ok()) else { break };
            match ask {
                // told to whoever serves, which reads no line
                Ask::Stop => {
                    told.store(true, Ordering::Relaxed);
                    continue;
                }
                Ask::Serve => told.store(false, Ordering::Relaxed),
                _ => {}
            }
            if send.send(ask).is_err() {
                break;
            }
        }
        end();
    });
    let mut gpus = Gpus { stop, ..Gpus::default() };
    while let Ok(ask) = asks.recv() {
        let answer = gpus.answer(ask).unwrap_or_else(|failure| {
            // what an adapter refuses spoils nothing of the driver's
            let ends = failure.fatal || !gpus.by_verbs;
            Answer::Failed { kind: failure.kind, message: failure.message, ends }
        });
        let mut line = serde_json::to_vec(&answer)?;
        line.push(b'\n');
        out.write_all(&line)?;
    }
    Ok(())
}

/// What this process has open.
#[derive(Default)]
struct Gpus {
    // their memory goes before the GPUs
    tcp: Option<Tcp>,
    verbs: Option<Box<dyn Side>>,
    ranks: Option<Ranks>,
    /// Where TCP listens, once a step needed it.
    hub: Option<Hub>,
    /// Whether the side that serves is to end.
    stop: Arc<AtomicBool>,
    step: Option<(Step, Part)>,
    /// Whether the last step was an adapter's.
    by_verbs: bool,
    /// By which others find this process's ranks.
    id: Option<String>,
    /// In place of a driver's GPUs, for adapters.
    #[cfg(test)]
    stand_in: Option<Box<dyn gpu_memory::Gpus>>,
}

impl Gpus {
    fn answer(&mut self, ask: Ask) -> Result<Answer, Failure> {
        match ask {
            Ask::Open => Ok(Answer::Opened(self.open())),
            Ask::Prepare { step, part, at } => {
                self.leave();
                self.by_verbs = step.transport == Transport::Verbs;
                let address = self.prepare(&step, part, at)?;
                self.step = Some((*step, part));
                Ok(Answer::Address(address))
            }
            Ask::Connect { peer } => self.connect(&peer).map(|()| Answer::Done),
            Ask::Register { nic, gpu } => {
                let registered = verbs::registration(&nic, &gpu, self.memory()?);
                let (registration, why) = match registered {
                    Ok((how, why)) => (Some(how), why),
                    Err(why) => (None, Some(why)),
                };
                Ok(Answer::Registered { registration, why })
            }
            Ask::Sample { samples, time } => match self.side() {
                Some(side) => side.sample(samples, time),
                None => self.ranks()?.sample(samples, time),
            }
            .map(Answer::Values),
            Ask::Serve => {
                let stop = Arc::clone(&self.stop);
                match self.side() {
                    Some(side) => side.serve(&|| stop.load(Ordering::Relaxed)),
                    None => self.ranks()?.serve(),
                }
                .map(|()| Answer::Done)
            }
            // told to whoever serves
            Ask::Stop => Ok(Answer::Done),
            Ask::Verify => self.verify().map(|verdict| Answer::Verdict(verdict.into())),
            Ask::Leave => {
                self.leave();
                Ok(Answer::Done)
            }
        }
    }

    /// Opens what there is.
    fn open(&mut self) -> Found {
        let mut found = Found::default();
        match Ranks::open() {
            Ok(ranks) => {
                let gpu = |(gpu, product): &(GpuName, String)| NodeGpu {
                    name: gpu.name.clone(),
                    product: product.clone(),
                    address: Some(gpu.address),
                };
                found.gpus = ranks.gpus().iter().map(gpu).collect();
                self.ranks = Some(ranks);
            }
            Err(why) => found.notes.push(format!("no GPU memory: {why}")),
        }
        // what nobody can use is not looked for
        if !found.gpus.is_empty() {
            match Ranks::nccl() {
                Ok(version) => found.nccl = Some(version),
                Err(why) => found.notes.push(format!("no NCCL: {why}")),
            }
        }
        found
    }

    /// The side of a step that is no work of ranks.
    fn side(&mut self) -> Option<&mut dyn Side> {
        match (&mut self.tcp, &mut self.verbs) {
            (Some(tcp), _) => Some(tcp),
            (None, Some(verbs)) => Some(&mut **verbs),
            (None, None) => None,
        }
    }

    fn ranks(&mut self) -> Result<&mut Ranks, Failure> {
        self.ranks.as_mut().ok_or_else(no_gpu)
    }

    /// The GPUs for adapters.
    fn memory(&mut self) -> Result<&mut dyn gpu_memory::Gpus, Failure> {
        #[cfg(test)]
        if self.stand_in.is_some() {
            return match &mut self.stand_in {
                Some(stand_in) => Ok(&mut **stand_in),
                None => Err(no_gpu()),
            };
        }
        Ok(self.ranks()?.live())
    }

    fn hub(&mut self, at: Option<Listening>) -> Result<&Hub, Failure> {
        if self.hub.is_none() {
            let failed = |why: String| Failure::new(FlagKind::Failed, why);
            let secret = at.as_ref().and_then(|at| Secret::of_key(&at.key));
            let (Some(at), Some(secret)) = (at, secret) else {
                return Err(failed("no address to listen at".to_owned()));
            };
            let opened = Hub::open(at.address, &secret);
            self.hub = Some(opened.map_err(|e| failed(format!("cannot listen at {}: {e}", at.address)))?);
        }
        self.hub.as_ref().ok_or_else(no_gpu)
    }

    fn verify(&mut self) -> Result<Verdict, Failure> {
        if let Some(verbs) = &mut self.verbs {
            return verbs.verify();
        }
        let Some(tcp) = &mut self.tcp else { return self.ranks()?.verify() };
        let (Some(ranks), Some((step, _))) = (&mut self.ranks, &self.step) else { return Err(no_gpu()) };
        let seed = tcp.seed();
        let sinks = tcp.sinks();
        if sinks.is_empty() {
            return Ok(Verdict::Unverified("this side has received nothing".to_owned()));
        }
        for (n, sink) in sinks.into_iter().enumerate() {
            match ranks.compare(&step.to.memory.to_string(), sink, seed_of(seed, n))? {
                Verdict::Intact => {}
                Verdict::Corrupt(how) => return Ok(Verdict::Corrupt(format!("stream {n}: {how}"))),
                other => return Ok(other),
            }
        }
        Ok(Verdict::Intact)
    }

    /// What the other sides need to reach this one.
    fn prepare(&mut self, step: &Step, part: Part, at: Option<Listening>) -> Result<String, Failure> {
        match (step.transport, step.probe.collective()) {
            (Transport::Nccl, Some(_)) if part.active => {
                self.ranks()?;
                let id = Ranks::unique_id()?;
                self.id = Some(id.clone());
                Ok(id)
            }
            // others are found by the first rank's id
            (Transport::Nccl, Some(_)) => self.ranks().map(|_| "-".to_owned()),
            (Transport::Tcp, None) if step.probe == Probe::Send => {
                self.ranks()?;
                let hub = self.hub(at)?;
                let tcp = hub.side_of_any(step, part.active, part.patience)?;
                let address = tcp.address();
                self.tcp = Some(tcp);
                Ok(address)
            }
            (Transport::Verbs, None) => {
                let Part { active, patience, .. } = part;
                let gpus = self.memory()?;
                let verbs: Box<dyn Side> = match step.probe {
                    Probe::SendStaged => Box::new(StagedVerbs::new(step, active, patience, gpus)?),
                    _ => Box::new(Verbs::with_gpus(step, active, patience, Some(gpus))?),
                };
                let address = verbs.address();
                self.verbs = Some(verbs);
                Ok(address)
            }
            (transport, _) => {
                Err(Failure::new(FlagKind::NotApplicable, format!("{transport} has no {} of GPU memory", step.probe)))
            }
        }
    }

    fn connect(&mut self, peer: &str) -> Result<(), Failure> {
        let Some((step, part)) = self.step.take() else {
            return Err(Failure::new(FlagKind::Failed, "no step is prepared"));
        };
        if let Some(verbs) = &mut self.verbs {
            verbs.connect(peer)?;
            self.step = Some((step, part));
            return Ok(());
        }
        if let Some(tcp) = &mut self.tcp {
            let Some(ranks) = &mut self.ranks else { return Err(no_gpu()) };
            let size = usize::try_from(step.size.0).unwrap_or(usize::MAX);
            let ends = |seed: u64, count: usize| {
                (0..count).map(|n| ends(ranks, &step, part, size, seed_of(seed, n))).collect()
            };
            tcp.connect_with(peer, &mut { ends })?;
            self.step = Some((step, part));
            return Ok(());
        }
        let Some(collective) = step.probe.collective() else {
            return Err(Failure::new(FlagKind::NotApplicable, format!("NCCL has no {}", step.probe)));
        };
        let all = step.queue_pairs as usize;
        let id = self.id.take();
        self.ranks()?.join(id.as_deref().unwrap_or(peer), collective, step.size, part.ranks, (part.first_rank, all))
    }

    fn leave(&mut self) {
        (self.step, self.id, self.tcp, self.verbs) = (None, None, None, None);
        if let Some(ranks) = &mut self.ranks {
            ranks.leave();
        }
    }
}

fn no_gpu() -> Failure {
    Failure::new(FlagKind::NotApplicable, "this node has no GPU that can be used")
}

/// What the content of a stream follows from.
fn seed_of(step: u64, stream: usize) -> u32 {
    (step as u32).wrapping_add(stream as u32)
}

/// The ends of one stream: the message of the side that sends, or the place of the one that receives.
fn ends(ranks: &mut Ranks, step: &Step, part: Part, size: usize, seed: u32) -> Result<Ends, Failure> {
    let mut ends = Ends::of_host(0, 0);
    if part.active {
        ends.out = Box::new(Source(ranks.source(&step.from.memory.to_string(), size, HEADER, seed)?));
    } else {
        ends.incoming = Box::new(Sink(ranks.sink(&step.to.memory.to_string(), size)?));
    }
    Ok(ends)
}

struct Source(GpuSource);

impl Outgoing for Source {
    fn message(&mut self) -> io::Result<&mut [u8]> {
        self.0.message().map_err(of_driver)
    }
}

struct Sink(GpuSink);

impl Arriving for Sink {
    fn room(&mut self) -> io::Result<&mut [u8]> {
        self.0.room().map_err(of_driver)
    }

    fn filled(&mut self) -> io::Result<()> {
        self.0.filled().map_err(of_driver)
    }

    fn settle(&mut self) -> io::Result<()> {
        self.0.settle().map_err(of_driver)
    }

    fn sink(&mut self) -> Option<&mut GpuSink> {
        Some(&mut self.0)
    }
}

fn of_driver(failure: Failure) -> io::Error {
    io::Error::other(failure.message)
}

#[cfg(target_os = "linux")]
#[cfg(test)]
mod tests;
