//! The process that calls CUDA, as the one that started it sees it.

use std::io;
use std::process::Command;
use std::time::Duration;

use peerlane_gpu::session::{Event, Role, Session};
use peerlane_measure::measure::Failure;
use peerlane_measure::run::FlagKind;

use super::{Answer, Ask, Found};

const ROLE: Role = Role { name: "the GPUs' process", tick: super::LOOK, dying: Duration::from_secs(1) };

/// A running process, killed when dropped.
pub(super) struct Process {
    pub(super) session: Session<Answer>,
    /// Its GPUs, once it has opened them.
    pub(super) found: Found,
}

impl Process {
    pub(super) fn start(command: Command) -> io::Result<Self> {
        Ok(Process { session: Session::start(ROLE, command)?, found: Found::default() })
    }

    pub(super) fn has_ended(&mut self) -> bool {
        self.session.has_ended()
    }

    fn send(&mut self, ask: &Ask) -> Result<(), Failure> {
        self.session.send(ask).map_err(|e| Failure::new(FlagKind::Failed, e.to_string()))
    }

    /// The answer that an event is. A process that gives none in time is killed.
    fn answer(&mut self, event: Event<Answer>) -> Result<Answer, Failure> {
        match event {
            Event::Message(answer) => Ok(answer),
            Event::Lost(why) => Err(Failure::new(FlagKind::Failed, why)),
            Event::Silent(silence) => {
                self.session.killer().kill();
                let silence = silence.as_secs_f64();
                let why =
                    format!("no answer from driver, adapter or NCCL for {silence:.1} s; their process was killed");
                Err(Failure::new(FlagKind::Hung, why))
            }
        }
    }

    pub(super) fn ask(&mut self, ask: &Ask, patience: Duration) -> Result<Answer, Failure> {
        self.send(ask)?;
        let event = self.session.next(patience);
        self.answer(event)
    }

    /// Lets it serve, however long that takes, until the other side has its samples.
    pub(super) fn serve(&mut self, until: &dyn Fn() -> bool) -> Result<Answer, Failure> {
        self.send(&Ask::Serve)?;
        match self.session.next_unless(Duration::MAX, &mut || until()) {
            Some(event) => self.answer(event),
            None => self.ask(&Ask::Stop, super::GRACE),
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // GPUs of a process that still ends are not shown to the next one
        self.session.kill();
    }
}
