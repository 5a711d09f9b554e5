//! Ranks of NCCL whose other ranks are on other nodes.
//!
//! All GPUs that CUDA shows this process are opened. Nothing here ends a call that never returns: who uses it runs it in a
//! process of its own.

use std::rc::Rc;

use peerlane_machine::transfer::Collective;
use peerlane_machine::units::{Bytes, Seconds};
use peerlane_measure::measure::{Failure, Verdict};
use peerlane_measure::plan::Size;
use peerlane_measure::run::FlagKind;

use super::collective::{Collectives, WORD};
use super::machine::{Found, Machine};
use super::{GpuName, Live, OpenError, Prepared};
use crate::cuda::Buffer;
use crate::failure::Problem;
use crate::nccl::{self, Communicators, ID_BYTES, Loaded};
use crate::nvml::Tolerated;

/// The most operations of a sample: as many as nccl-tests times at once.
const OPERATIONS: f64 = 20.0;

/// Number of the buffer in which ranks agree, behind those of collectives.
const SCRATCH: usize = 2;

/// The fewest samples, where operations take longer than the time for one.
const FEWEST: usize = 3;

/// The GPUs of this process as ranks of NCCL.
pub struct Ranks {
    // refers to the machine's memory, and so goes first
    open: Option<Open>,
    live: Live,
    gpus: Vec<(GpuName, String)>,
}

/// Ranks that have found the others.
struct Open {
    collectives: Collectives,
    scratch: Vec<Rc<dyn Buffer>>,
    operation: Collective,
    ranks: usize,
    bytes: Bytes,
}

impl Ranks {
    /// Opens the driver and all GPUs that it shows, unless others use them.
    ///
    /// # Errors
    /// In a line, why there are none.
    pub fn open() -> Result<Self, String> {
        let (names, products) = Found::all()?;
        if names.is_empty() {
            return Err("CUDA shows no GPU".to_owned());
        }
        // between nodes no option tolerates others
        let reason = |e: OpenError| e.reason.split("; use --force").next().unwrap_or_default().to_owned();
        let live = Live::open(&names, &Tolerated::default()).map_err(reason)?;
        let gpus = names.into_iter().zip(products).collect();
        Ok(Ranks { open: None, live, gpus })
    }

    /// The GPUs and their memory.
    pub(super) fn machine(&mut self) -> &mut Machine {
        self.live.machine()
    }

    /// The GPUs, with their products.
    pub fn gpus(&self) -> &[(GpuName, String)] {
        &self.gpus
    }

    /// The GPUs for what is no work of ranks.
    pub fn live(&mut self) -> &mut Live {
        &mut self.live
    }

    /// NCCL's version.
    ///
    /// # Errors
    /// In a line, why there is no NCCL.
    pub fn nccl() -> Result<String, String> {
        let loaded = Loaded::open()?;
        loaded.version().ok_or_else(|| format!("{} names no version", loaded.file))
    }

    /// An id by which ranks find each other, in hexadecimal digits; this process must join with it, too.
    ///
    /// # Errors
    /// What NCCL refuses: mostly, that it finds no network interface.
    pub fn unique_id() -> Result<String, Failure> {
        let id = Loaded::open().map_err(Problem::NotApplicable)?.unique_id()?;
        Ok(id.iter().map(|byte| format!("{byte:02x}")).collect())
    }

    /// Joins the first `own` GPUs as ranks from `first` on, of `all`, and moves the first messages. It blocks until the
    /// others have come.
    ///
    /// # Errors
    /// What CUDA or NCCL refuse.
    pub fn join(
        &mut self,
        id: &str,
        operation: Collective,
        bytes: Bytes,
        own: usize,
        (first, all): (usize, usize),
    ) -> Result<(), Failure> {
        self.leave();
        let id = read_id(id).ok_or_else(|| Failure::new(FlagKind::Failed, "this is no id of NCCL's"))?;
        let names: Vec<String> = self.gpus.iter().take(own).map(|(gpu, _)| gpu.name.clone()).collect();
        if names.len() < own {
            return Err(Failure::new(FlagKind::Failed, format!("{own} GPUs of {} here", names.len())));
        }
        self.open = Some(self.joined(&id, operation, bytes, &names, nccl::Ranks { first, all })?);
        Ok(())
    }

    fn joined(
        &mut self,
        id: &[u8; ID_BYTES],
        operation: Collective,
        bytes: Bytes,
        names: &[String],
        ranks: nccl::Ranks,
    ) -> Result<Open, Problem> {
        let machine = self.machine();
        machine.begin();
        let gpus = names.iter().map(|name| machine.gpu(name)).collect::<Result<Vec<_>, _>>()?;
        let enter: Vec<_> = gpus.iter().map(|gpu| || Ok(gpu.context.enter()?)).collect();
        let enter: Vec<&dyn Fn() -> Result<(), Problem>> = enter.iter().map(|enter| enter as _).collect();
        let loaded = Loaded::open().map_err(Problem::NotApplicable)?;
        let made = Rc::new(Communicators::join_others(loaded, id, ranks, &enter)?);
        let (collectives, bytes) = Collectives::among(machine, made, operation, names, Size::Exactly(bytes))?;
        let scratch = names.iter().map(|name| machine.buffer(name, SCRATCH, 0, WORD)).collect::<Result<_, _>>()?;
        Ok(Open { collectives, scratch, operation, ranks: ranks.all, bytes })
    }

    fn joined_ranks(&mut self) -> Result<&mut Open, Failure> {
        self.open.as_mut().ok_or_else(|| Failure::new(FlagKind::Failed, "these ranks are not joined"))
    }

    /// Takes up to `n` samples of about `time` each, as the first rank, by which the others follow: bus bandwidths in bytes a
    /// second.
    ///
    /// # Errors
    /// What CUDA or NCCL report.
    pub fn sample(&mut self, n: usize, time: Seconds) -> Result<Vec<f64>, Failure> {
        let open = self.joined_ranks()?;
        let pace = open.collectives.go(1)?;
        let (operations, samples) = amount(pace, n, time);
        open.agree((operations as u64) << 32 | samples as u64)?;
        let bus = open.operation.bus_factor(open.ranks) * open.bytes.0 as f64;
        (0..samples).map(|_| Ok(bus / open.collectives.go(operations)?)).collect()
    }

    /// Does what the first rank's samples need of the others.
    ///
    /// # Errors
    /// What CUDA or NCCL report.
    pub fn serve(&mut self) -> Result<(), Failure> {
        let open = self.joined_ranks()?;
        open.collectives.go(1)?;
        let word = open.agree(0)?;
        let (operations, samples) = ((word >> 32) as usize, (word & u64::from(u32::MAX)) as usize);
        for _ in 0..samples {
            open.collectives.go(operations.max(1))?;
        }
        Ok(())
    }

    /// Compares what arrived here.
    ///
    /// # Errors
    /// What CUDA reports.
    pub fn verify(&mut self) -> Result<Verdict, Failure> {
        let verdicts = self.joined_ranks()?.collectives.verify()?;
        Ok(verdicts.into_iter().next().unwrap_or_else(|| Verdict::Unverified("nothing was compared".to_owned())))
    }

    /// Leaves the other ranks.
    pub fn leave(&mut self) {
        self.open = None;
    }
}

impl Open {
    fn agree(&mut self, word: u64) -> Result<u64, Problem> {
        self.collectives.agree(word, &self.scratch)
    }
}

/// How many operations are a sample, and how many samples are taken, where one operation takes `pace`.
fn amount(pace: f64, n: usize, time: Seconds) -> (usize, usize) {
    let fitting = time.seconds() / pace.max(1e-9);
    let samples = (fitting * n as f64).clamp(FEWEST.min(n) as f64, n as f64);
    (fitting.clamp(1.0, OPERATIONS) as usize, samples as usize)
}

fn read_id(text: &str) -> Option<[u8; ID_BYTES]> {
    let mut id = [0; ID_BYTES];
    if text.len() != 2 * ID_BYTES || !text.is_ascii() {
        return None;
    }
    for (at, byte) in id.iter_mut().enumerate() {
        *byte = u8::from_str_radix(text.get(2 * at..2 * at + 2)?, 16).ok()?;
    }
    Some(id)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_operations_are_fewer_samples() {
        let time = Seconds::new(0.1);
        assert_eq!(amount(0.001, 8, time), (20, 8));
        assert_eq!(amount(0.03, 8, time), (3, 8));
        assert_eq!(amount(0.2, 8, time), (1, 4));
        assert_eq!(amount(10.0, 8, time), (1, 3));
        assert_eq!(amount(10.0, 2, time), (1, 2));
    }

    #[test]
    fn ids_are_read_as_they_are_written() {
        let text: String = (0..ID_BYTES).map(|n| format!("{n:02x}")).collect();
        assert_eq!(read_id(&text).unwrap()[..3], [0, 1, 2]);
        for wrong in ["", "00", &text.replace("05", "0g"), &format!("{text}00"), &"é".repeat(ID_BYTES)] {
            assert_eq!(read_id(wrong), None, "{wrong}");
        }
    }
}
