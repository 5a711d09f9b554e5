//! The process that calls CUDA and NCCL: one step after another, as it is told.

use std::io::{self, BufRead, Write};
use std::sync::mpsc;
use std::thread;

use peerlane_gpu::Ranks;
use peerlane_measure::measure::Failure;
use peerlane_measure::nodes::{NodeGpu, Step, Transport};
use peerlane_measure::run::FlagKind;

use super::{Answer, Ask, Found};
use crate::transport::Part;

/// Answers the agent that started this process, on standard output, until its standard input ends. Then `end` ends the
/// process, whatever a driver is doing.
///
/// # Errors
/// Where the answers cannot be written.
pub fn serve_gpus(end: fn() -> !) -> io::Result<()> {
    // before any library is opened, whose logs would be mistaken for answers
    let mut out = peerlane_gpu::take_output()?;
    let (send, asks) = mpsc::channel();
    thread::spawn(move || {
        for line in io::stdin().lock().lines() {
            let Some(ask) = line.ok().and_then(|line| serde_json::from_str(&line).ok()) else { break };
            if send.send(ask).is_err() {
                break;
            }
        }
        end();
    });
    let mut gpus = Gpus::default();
    while let Ok(ask) = asks.recv() {
        let answer = gpus.answer(ask).unwrap_or_else(|failure| Answer::Failed {
            kind: failure.kind,
            message: failure.message,
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
    ranks: Option<Ranks>,
    step: Option<(Step, Part)>,
    /// By which others find this process's ranks.
    id: Option<String>,
}

impl Gpus {
    fn answer(&mut self, ask: Ask) -> Result<Answer, Failure> {
        match ask {
            Ask::Open => Ok(Answer::Opened(self.open())),
            Ask::Prepare { step, part } => {
                self.leave();
                let address = self.prepare(&step, part)?;
                self.step = Some((*step, part));
                Ok(Answer::Address(address))
            }
            Ask::Connect { peer } => self.connect(&peer).map(|()| Answer::Done),
            Ask::Sample { samples, time } => self.ranks()?.sample(samples, time).map(Answer::Values),
            Ask::Serve => self.ranks()?.serve().map(|()| Answer::Done),
            Ask::Verify => self.ranks()?.verify().map(|verdict| Answer::Verdict(verdict.into())),
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
                let gpu = |(name, product): &(String, String)| NodeGpu { name: name.clone(), product: product.clone() };
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

    fn ranks(&mut self) -> Result<&mut Ranks, Failure> {
        self.ranks.as_mut().ok_or_else(|| Failure::new(FlagKind::NotApplicable, "this node has no GPU that can be used"))
    }

    /// What the other sides need to reach this one.
    fn prepare(&mut self, step: &Step, part: Part) -> Result<String, Failure> {
        self.ranks()?;
        match (step.transport, step.probe.collective()) {
            (Transport::Nccl, Some(_)) if part.active => {
                let id = Ranks::unique_id()?;
                self.id = Some(id.clone());
                Ok(id)
            }
            // others are found by the first rank's id
            (Transport::Nccl, Some(_)) => Ok("-".to_owned()),
            (transport, _) => {
                Err(Failure::new(FlagKind::NotApplicable, format!("{transport} has no {} of GPU memory", step.probe)))
            }
        }
    }

    fn connect(&mut self, peer: &str) -> Result<(), Failure> {
        let Some((step, part)) = self.step.take() else {
            return Err(Failure::new(FlagKind::Failed, "no step is prepared"));
        };
        let Some(collective) = step.probe.collective() else {
            return Err(Failure::new(FlagKind::NotApplicable, format!("NCCL has no {}", step.probe)));
        };
        let all = step.queue_pairs as usize;
        let id = self.id.take();
        self.ranks()?.join(id.as_deref().unwrap_or(peer), collective, step.size, part.ranks, (part.first_rank, all))
    }

    fn leave(&mut self) {
        (self.step, self.id) = (None, None);
        if let Some(ranks) = &mut self.ranks {
            ranks.leave();
        }
    }
}
