//! When the parts of a start began and ended, so that a run shows where its time went.

use std::sync::{Mutex, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use peerlane_machine::units::Seconds;
use peerlane_measure::run::Phase;

static PHASES: Mutex<Vec<Phase>> = Mutex::new(Vec::new());

/// A part that is under way; it ends when this is dropped.
#[derive(Debug)]
#[must_use]
pub struct Span {
    what: String,
    began: f64,
}

/// Begins a part.
pub fn begin(what: impl Into<String>) -> Span {
    Span { what: what.into(), began: now() }
}

/// The parts that have ended in this process, in that order; times in seconds since 1970 (UTC), which processes share.
pub fn phases() -> Vec<Phase> {
    PHASES.lock().unwrap_or_else(PoisonError::into_inner).clone()
}

/// Seconds since 1970 (UTC).
pub fn now() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |since| since.as_secs_f64())
}

impl Drop for Span {
    fn drop(&mut self) {
        let (what, began, ended) = (std::mem::take(&mut self.what), Seconds::new(self.began), Seconds::new(now()));
        PHASES.lock().unwrap_or_else(PoisonError::into_inner).push(Phase { what, began, ended });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_is_known_once_it_has_ended() {
        let known = |what: &str| phases().into_iter().find(|phase| phase.what == what);
        let (outer, inner) = (begin("outer"), begin("inner"));
        assert_eq!(known("outer"), None);
        drop(inner);
        drop(outer);
        let (outer, inner) = (known("outer").unwrap(), known("inner").unwrap());
        assert!(outer.began <= inner.began && inner.ended <= outer.ended);
    }
}
