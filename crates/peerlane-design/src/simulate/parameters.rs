//! Parameters of a workload: `NAME:key=value,key=value,word`.

use super::SimulateError;

/// Numbers that may be large or small are not smaller.
const LEAST: f64 = 1e-6;

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

    pub(super) fn refuse(&self, why: String) -> SimulateError {
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

    /// Takes a word after `=`.
    pub(super) fn text(&mut self, key: &str) -> Option<&'t str> {
        let at = self.words.iter().position(|(k, v)| *k == key && v.is_some())?;
        self.words.remove(at).1
    }

    /// Takes a whole number from 1 to `most` where it is given.
    pub(super) fn counted(&mut self, key: &str, most: usize) -> Result<Option<usize>, SimulateError> {
        match self.has(key) {
            true => self.count(key, 1, most).map(Some),
            false => Ok(None),
        }
    }

    /// Takes a number from [`LEAST`] to `most` where it is given.
    pub(super) fn numbered(&mut self, key: &str, most: f64) -> Result<Option<f64>, SimulateError> {
        if !self.has(key) {
            return Ok(None);
        }
        let number = self.number(key, 1.0)?;
        match (LEAST..=most).contains(&number) {
            true => Ok(Some(number)),
            false => Err(self.refuse(format!("{key} is from {LEAST} to {most}, not {number}"))),
        }
    }

    /// Whether a number or word of this name is given.
    pub(super) fn has(&self, key: &str) -> bool {
        self.words.iter().any(|(k, v)| *k == key && v.is_some())
    }

    /// Takes a word that stands alone, where it is given.
    pub(super) fn flag(&mut self, word: &str) -> bool {
        let at = self.words.iter().position(|(k, v)| v.is_none() && *k == word);
        at.map(|at| self.words.remove(at)).is_some()
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
