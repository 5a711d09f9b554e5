//! Two GPUs' processes whose adapters are those of the stand-in for `libibverbs`, each as a thread with GPU memory that is a file's.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::Duration;

use peerlane_machine::transfer::Registration;
use peerlane_machine::units::{Bytes, Seconds};
use peerlane_measure::measure::{Failure, Verdict};
use peerlane_measure::nodes::{End, Memory, Probe, Step, Transport};
use peerlane_measure::run::{FlagKind, NO_GPU_MEMORY};

use super::{Answer, Ask, Gpus};
use crate::transport::Part;

#[path = "../../../tests/stand_in/gpu.rs"]
mod gpu;
#[path = "../../../tests/stand_in/mod.rs"]
mod stand_in;

/// Longer than any answer takes.
const WAIT: Duration = Duration::from_secs(20);

/// One of the processes, as the agent that started it sees it.
struct Served {
    asks: Sender<Ask>,
    answers: Receiver<Result<Answer, Failure>>,
    stop: Arc<AtomicBool>,
}

impl Served {
    fn start() -> Self {
        let ((asks, asked), (answer, answers)) = (channel(), channel());
        let stop = Arc::new(AtomicBool::new(false));
        let told = Arc::clone(&stop);
        thread::spawn(move || {
            let stand_in: Option<Box<dyn crate::gpu_memory::Gpus>> = Some(Box::new(gpu::StandInGpus));
            let mut gpus = Gpus { stop: told, stand_in, ..Gpus::default() };
            asked.iter().try_for_each(|ask| answer.send(gpus.answer(ask)))
        });
        Served { asks, answers, stop }
    }

    fn tell(&self, ask: Ask) {
        self.asks.send(ask).unwrap();
    }

    fn hear(&self) -> Result<Answer, Failure> {
        self.answers.recv_timeout(WAIT).expect("nothing hangs")
    }

    fn ask(&self, ask: Ask) -> Result<Answer, Failure> {
        self.tell(ask);
        self.hear()
    }

    fn prepare(&self, step: &Step, active: bool) -> Result<String, Failure> {
        let part = Part { active, patience: Seconds::new(1.0), first_rank: usize::from(!active), ranks: 1 };
        match self.ask(Ask::Prepare { step: Box::new(step.clone()), part, at: None })? {
            Answer::Address(address) => Ok(address),
            other => panic!("{other:?}"),
        }
    }
}

/// GPU memory through one adapter at both ends.
fn step(nic: &str, gpu: &str, probe: Probe) -> Step {
    let end = |node| End { node, nic: Some(nic.to_owned()), memory: Memory::Device(gpu.to_owned()) };
    let queue_pairs = if probe == Probe::SendStaged { 4 } else { 1 };
    let (from, to, transport, size) = (end(0), end(1), Transport::Verbs, Bytes(1 << 16));
    Step { from, to, transport, probe, size, queue_pairs, between: Vec::new() }
}

/// What two of them make of a step.
fn measured(two: &[Served; 2], step: &Step) -> Result<(Vec<f64>, Verdict), Failure> {
    let [active, passive] = two;
    let outcome = (|| {
        let addresses = [active.prepare(step, true)?, passive.prepare(step, false)?];
        passive.ask(Ask::Connect { peer: addresses[0].clone() })?;
        active.ask(Ask::Connect { peer: addresses[1].clone() })?;
        passive.stop.store(false, Ordering::Relaxed);
        passive.tell(Ask::Serve);
        let sampled = active.ask(Ask::Sample { samples: 6, time: Seconds::new(0.01) });
        passive.stop.store(true, Ordering::Relaxed);
        let served = passive.hear();
        // of two that fail, the one that serves did so first: the other one waited for it
        served?;
        let Answer::Values(values) = sampled? else { panic!("no samples") };
        let Answer::Verdict(verdict) = passive.ask(Ask::Verify)? else { panic!("no verdict") };
        Ok((values, verdict.into()))
    })();
    for side in two {
        side.ask(Ask::Leave).unwrap();
    }
    outcome
}

#[test]
fn gpu_memory_between_nodes_is_measured_and_each_fault_is_named() {
    let target = std::env::temp_dir();
    stand_in::with_the_library(&target.to_string_lossy(), "gpu::serve::tests::between_nodes");
}

#[test]
#[ignore = "the test before starts it, with the stand-in"]
fn between_nodes() {
    let two = [Served::start(), Served::start()];
    let register = |nic: &str, gpu: &str| match two[0].ask(Ask::Register { nic: nic.to_owned(), gpu: gpu.to_owned() }) {
        Ok(Answer::Registered { registration, why }) => (registration, why.unwrap_or_default()),
        other => panic!("{other:?}"),
    };
    assert_eq!(register("sound0", "GPU0"), (Some(Registration::Dmabuf), String::new()));
    let (how, why) = register("plain0", "GPU0");
    assert!(how == Some(Registration::NvidiaPeermem) && why.contains("Operation not supported"), "{why}");
    let (how, why) = register("hostonly0", "GPU0");
    assert!(how.is_none() && why.contains("; nvidia-peermem: ibv_reg_mr: Bad address"), "{why}");
    assert_eq!(register("absent0", "GPU0").0, None);

    let (write, staged) = (Probe::Write, Probe::SendStaged);
    for (nic, gpu, probe) in [
        ("sound0", "GPU0", write),
        ("plain0", "GPU1", write),
        ("sound1", "GPU0", staged),
        ("hostonly0", "GPU1", staged),
        ("sound0", "GPU0", staged),
    ] {
        let (values, verdict) =
            measured(&two, &step(nic, gpu, probe)).unwrap_or_else(|e| panic!("{nic} {probe}: {e:?}"));
        assert_eq!((values.len(), verdict), (6, Verdict::Intact), "{nic} {probe}");
        assert!(values.iter().all(|value| *value > 1e6), "{values:?}");
    }
    for probe in [write, staged] {
        let (_, verdict) = measured(&two, &step("wrong0", "GPU0", probe)).unwrap();
        assert!(matches!(&verdict, Verdict::Corrupt(how) if how.starts_with("1 of 65536 bytes")), "{verdict:?}");
    }
    let refused = FlagKind::NotApplicable;
    for (nic, gpu, probe, kind, words) in [
        ("hostonly0", "GPU0", write, refused, NO_GPU_MEMORY),
        ("sound0", "GPU1", write, refused, "the driver exports no memory of GPU1"),
        ("lost0", "GPU0", write, FlagKind::Failed, "local catastrophic error"),
        ("lost0", "GPU0", staged, FlagKind::Failed, "local catastrophic error"),
        ("error0", "GPU0", staged, FlagKind::Failed, "transport retry counter exceeded"),
        ("silent0", "GPU0", staged, FlagKind::Hung, "the adapter reported nothing for 1.0 s"),
        ("refuses0", "GPU0", staged, FlagKind::Failed, "Cannot allocate memory"),
        ("absurd0", "GPU0", staged, FlagKind::Failed, "completions, and was asked for 32"),
    ] {
        let failure = measured(&two, &step(nic, gpu, probe)).unwrap_err();
        assert!(failure.kind == kind && failure.message.contains(words), "{nic} {probe}: {failure:?}");
    }
    // what GPU memory is not offered in
    for probe in [Probe::Send, Probe::Latency, Probe::WriteBoth] {
        let failure = measured(&two, &step("sound0", "GPU0", probe)).unwrap_err();
        assert_eq!(failure.kind, refused, "{probe}: {failure:?}");
    }
}
