//! Parameters of a workload: `NAME:key=value,key=value,word`.

use super::super::SimulateError;

/// What stands behind a workload's name.
pub(super) struct Parameters<'t> {
    workload: &'t str,
    words: Vec<(&'t str, Option<&'t str>)>,
}

impl<'t> Parameters<'t> {
    pub(super) fn new(workload: &'t str, text: &'t str) -> Self {
        let words = text.split(',').map(str::trim).filter(|w| !w.is_empty());
        let words = words.map(|w| w.split_once('=').map_or((w, None), |(k, v)| (k.trim(), Some(v.trim())))).collect();
        Parameters { workload, words }
    }

    fn refuse(&self, why: String) -> SimulateError {
        SimulateError::Workload(format!("{}: {why}", self.workload))
    }

    /// Takes a number above 0, or the default.
    pub(super) fn number(&mut self, key: &str, default: f64) -> Result<f64, SimulateError> {
        let Some(at) = self.words.iter().position(|(k, v)| *k == key && v.is_some()) else { return Ok(default) };
        let (_, value) = self.words.remove(at);
        let number = value.and_then(|v| v.parse::<f64>().ok()).filter(|n| n.is_finite() && *n > 0.0);
        number.ok_or_else(|| self.refuse(format!("{key} is a number above 0, not '{}'", value.unwrap_or_default())))
    }

    /// Takes a whole number from 1 to `most`, or the default.
    pub(super) fn count(&mut self, key: &str, default: usize, most: usize) -> Result<usize, SimulateError> {
        let number = self.number(key, default as f64)?;
        if number.fract() != 0.0 || number > most as f64 {
            return Err(self.refuse(format!("{key} is a whole number from 1 to {most}, not {number}")));
        }
        Ok(number as usize)
    }

    /// Takes one of several words, or the first of them.
    pub(super) fn word(&mut self, words: &[&'static str]) -> &'static str {
        let at = self.words.iter().position(|(k, v)| v.is_none() && words.contains(k));
        let taken = at.map(|at| self.words.remove(at).0);
        words.iter().copied().find(|w| Some(*w) == taken).or(words.first().copied()).unwrap_or_default()
    }

    /// Refuses what nobody has taken. `known` is what may be written.
    pub(super) fn finish(self, known: &str) -> Result<(), SimulateError> {
        match self.words.first() {
            None => Ok(()),
            Some((word, _)) => Err(self.refuse(format!("'{word}' is not known, or stands twice; there are {known}"))),
        }
    }
}
