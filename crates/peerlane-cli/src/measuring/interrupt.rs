//! Ctrl-C and similar signals end a run in order; a second one ends it at once.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use signal_hook::flag;

use crate::{Failure, system};

/// Whether the user has interrupted the run.
#[derive(Clone, Debug, Default)]
pub(crate) struct Interrupt(Arc<AtomicBool>);

impl Interrupt {
    /// Starts to listen for signals.
    pub(crate) fn listen() -> Result<Self, Failure> {
        Interrupt::of_signals().map_err(|e| Failure::new(format!("cannot listen for signals: {e}")))
    }

    fn of_signals() -> io::Result<Self> {
        let asked = Arc::new(AtomicBool::new(false));
        for &signal in &system::ENDING {
            // in this order, so that the first signal does not see the flag that it sets itself
            flag::register_conditional_shutdown(signal, 2, Arc::clone(&asked))?;
            flag::register(signal, Arc::clone(&asked))?;
        }
        Ok(Interrupt(asked))
    }

    /// Whether a signal has arrived.
    pub(crate) fn asked(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}
