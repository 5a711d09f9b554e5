//! Where samples come from: this machine, by a process that may hang with its driver; a simulated one; a recording.

use std::io::{self, BufRead, BufWriter, Write};
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use peerlane::traffic::{Recording, Sample, SimulatedTraffic};
use peerlane::units::Seconds;
use peerlane_gpu::session::{Event, Role, Session};
use peerlane_gpu::{FileTraffic, GpuName, NvmlStates, Traffic, search};
use serde::{Deserialize, Serialize};

use crate::{Failure, Outcome, system};

/// The hidden command that reads the counters.
const COMMAND: &str = "meter";

const ROLE: Role =
    Role { name: "the process that reads the counters", tick: Duration::from_millis(1), dying: Duration::from_secs(2) };

/// Beyond a period, how long the driver may be silent before that is shown. Its first answer may take long on idle GPUs.
const PATIENCE: Duration = Duration::from_secs(5);

/// How long after its end the process that reads the counters is started again.
const AGAIN: Duration = Duration::from_secs(10);

/// What a source tells.
#[derive(Debug)]
pub(super) enum News {
    Sample(Sample),
    /// Why no sample comes.
    Silent(String),
    /// There are no more.
    Ended,
}

/// What the process that reads the counters is told.
#[derive(Debug, Serialize, Deserialize)]
struct Request {
    gpus: Vec<GpuName>,
    every: Seconds,
}

pub(super) enum Source {
    Simulated { machine: SimulatedTraffic, clock: Clock },
    Replay { samples: std::vec::IntoIter<Sample>, clock: Clock },
    Live(Live),
}

/// When the next sample is due.
pub(super) struct Clock {
    every: Duration,
    due: Instant,
}

pub(super) struct Live {
    gpus: Vec<GpuName>,
    every: Seconds,
    session: Option<Session<Sample>>,
    /// When it was lost.
    lost: Option<Instant>,
    told: bool,
}

impl Clock {
    fn new(every: Seconds) -> Self {
        Clock { every: Duration::from_secs_f64(every.seconds()), due: Instant::now() }
    }

    /// Whether a sample is due now; then the next is a period later.
    fn strikes(&mut self) -> bool {
        let now = Instant::now();
        let due = now >= self.due;
        if due {
            self.due = now + self.every;
        }
        due
    }
}

impl Source {
    pub(super) fn simulated(machine: SimulatedTraffic, every: Seconds) -> Self {
        Source::Simulated { machine, clock: Clock::new(every) }
    }

    pub(super) fn replay(recording: Recording) -> Self {
        Source::Replay { samples: recording.samples.into_iter(), clock: Clock::new(recording.head.every) }
    }

    pub(super) fn live(gpus: Vec<GpuName>, every: Seconds) -> Result<Self, Failure> {
        let mut live = Live { gpus, every, session: None, lost: None, told: false };
        live.start().map_err(|e| Failure::new(format!("cannot start {}: {e}", ROLE.name)))?;
        Ok(Source::Live(live))
    }

    /// Lets no time pass where none has to.
    pub(super) fn hurry(&mut self) {
        if let Source::Simulated { clock, .. } | Source::Replay { clock, .. } = self {
            clock.every = Duration::ZERO;
        }
    }

    /// What is new, without waiting.
    pub(super) fn poll(&mut self) -> Option<News> {
        match self {
            Source::Simulated { machine, clock } => clock.strikes().then(|| News::Sample(machine.sample())),
            Source::Replay { samples, clock } => {
                clock.strikes().then(|| samples.next().map_or(News::Ended, News::Sample))
            }
            Source::Live(live) => live.poll(),
        }
    }
}

impl Live {
    fn start(&mut self) -> io::Result<()> {
        let mut command = search::own_command()?;
        system::own_group(&mut command);
        command.arg(COMMAND);
        let mut session = Session::start(ROLE, command)?;
        session.send(&Request { gpus: self.gpus.clone(), every: self.every })?;
        (self.session, self.lost, self.told) = (Some(session), None, false);
        Ok(())
    }

    fn poll(&mut self) -> Option<News> {
        let Some(session) = &mut self.session else {
            let waited = self.lost.is_some_and(|at| at.elapsed() >= AGAIN);
            if waited && let Err(e) = self.start() {
                self.lost = Some(Instant::now());
                return Some(News::Silent(format!("cannot start {}: {e}", ROLE.name)));
            }
            return None;
        };
        let patience = Duration::from_secs_f64(self.every.seconds()) + PATIENCE;
        let mut looks = 0;
        let event = session.next_unless(patience, &mut || {
            looks += 1;
            looks > 1
        })?;
        match event {
            Event::Message(sample) => {
                self.told = false;
                Some(News::Sample(sample))
            }
            Event::Silent(_) if self.told => None,
            Event::Silent(time) => {
                self.told = true;
                Some(News::Silent(format!("the driver has not answered for {} s", time.as_secs())))
            }
            Event::Lost(why) => {
                (self.session, self.lost) = (None, Some(Instant::now()));
                Some(News::Silent(why))
            }
        }
    }
}

/// The process that reads the counters: a line with a sample each period, until its parent ends.
pub(crate) fn meter() -> Result<Outcome, Failure> {
    // before any library is opened, whose logs would be mistaken for samples
    let mut out = BufWriter::new(peerlane_gpu::take_output()?);
    let mut line = String::new();
    io::stdin().lock().read_line(&mut line)?;
    let request: Request = serde_json::from_str(&line).map_err(|e| {
        Failure::new(format!("'{COMMAND}' is for internal use and expects a request on standard input: {e}"))
    })?;
    thread::spawn(|| {
        let mut rest = String::new();
        while io::stdin().lock().read_line(&mut rest).is_ok_and(|n| n > 0) {
            rest.clear();
        }
        std::process::exit(0);
    });
    let gpus = match request.gpus.is_empty() {
        true => Err("no NVIDIA GPU".to_owned()),
        false => NvmlStates::open(request.gpus.iter().map(|gpu| (gpu.name.as_str(), gpu.address))),
    };
    let mut traffic = Traffic::new(gpus, FileTraffic::of(Path::new("/sys")));
    let every = Duration::from_secs_f64(request.every.seconds().max(0.0));
    let mut due = Instant::now();
    loop {
        serde_json::to_writer(&mut out, &traffic.sample()).map_err(io::Error::from)?;
        writeln!(out)?;
        out.flush()?;
        // a sample that took longer than a period is followed by a pause
        due = (due + every).max(Instant::now() + every / 10);
        thread::sleep(due.saturating_duration_since(Instant::now()));
    }
}
