//! A number of a part, with its unit, its source and what it may be.

use serde::Deserialize;

/// How a constant is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Basis {
    /// A vendor's document.
    Datasheet,
    /// Follows from equations and other constants.
    Derived,
    /// Chosen so that the model meets a published or measured number.
    Fitted,
    /// Measured by this project, or printed by a tool in the source.
    Measured,
    /// Taken for lack of better.
    Assumed,
}

/// A number with its unit and source.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Constant {
    /// The number.
    pub value: f64,
    /// Its unit: `GB/s`, `B`, `ns`, `us`, `lanes`, `1` for a ratio.
    pub unit: String,
    /// How it is known.
    pub basis: Basis,
    /// Where it is from.
    pub source: String,
    /// The least that it may be elsewhere, where that is known.
    pub low: Option<f64>,
    /// The most.
    pub high: Option<f64>,
    /// Systems of the catalogue whose numbers it was taken from, so that it cannot confirm them.
    #[serde(default)]
    pub fitted_to: Vec<String>,
    /// What other sources alone give, which stands in where those systems are left out.
    pub elsewhere: Option<Elsewhere>,
    /// Of how many figures it is the best fit, where `peerlane-fit` wrote it.
    pub figures: Option<u32>,
    /// The family that it is taken from, where the part states none of its own.
    #[serde(skip)]
    pub family: Option<String>,
    /// Whether it describes hardware that no other source describes, so that without those systems the model knows no
    /// limit there.
    #[serde(default)]
    pub only_here: bool,
}

/// A constant as it is known from other sources than the systems that it was fitted to.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Elsewhere {
    /// The number, in the constant's unit.
    pub value: f64,
    /// The least that it may be, where that is known.
    pub low: Option<f64>,
    /// The most.
    pub high: Option<f64>,
    /// Where it is from.
    pub source: String,
}

impl Constant {
    /// This without the systems that it was fitted to; `None` where nothing else is known of it.
    pub(super) fn known_elsewhere(&self) -> Option<Constant> {
        let Elsewhere { value, low, high, source } = self.elsewhere.clone()?;
        Some(Constant { value, low, high, source, fitted_to: Vec::new(), elsewhere: None, ..self.clone() })
    }

    /// The least and the most that it may be: as stated, else by how it is known.
    ///
    /// A data sheet's number is taken as exact; a measured or derived one is held to 2 %, a fitted one to 5 %, an
    /// assumed one to 15 %.
    pub fn range(&self) -> [f64; 2] {
        let share = match self.basis {
            Basis::Datasheet => 0.0,
            Basis::Measured | Basis::Derived => 0.02,
            Basis::Fitted => 0.05,
            Basis::Assumed => 0.15,
        };
        // bytes of a packet and yes or no are what they are
        let share =
            if matches!(self.unit.as_str(), "B") || self.value == 0.0 || self.value == 1.0 { 0.0 } else { share };
        [self.low.unwrap_or(self.value * (1.0 - share)), self.high.unwrap_or(self.value * (1.0 + share))]
    }
}
