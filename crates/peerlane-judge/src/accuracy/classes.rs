//! What figures are of, and scores by that.

use peerlane_machine::schema::JsonSchema;
use serde::Serialize;

use super::percentile;
use peerlane_model::expectation::Expected;
use peerlane_model::model::Class;

/// A figure, and what the model predicts in its place. A table's numbers of one class and path are one figure.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Figure {
    /// What it is of.
    pub class: Class,
    /// What it is of in words: metric and path.
    pub label: String,
    /// What was measured or published; above 0.
    pub measured: f64,
    /// The prediction with its interval, in the same unit; `None` where there is none.
    pub predicted: Option<Predicted>,
}

/// A prediction, and the least and most that it may be.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Predicted {
    /// The most likely.
    pub value: f64,
    /// The least.
    pub low: f64,
    /// The most.
    pub high: f64,
}

impl Figure {
    /// Whether it lies inside its prediction's interval; one without a prediction does not.
    pub fn is_inside(&self) -> bool {
        self.predicted.is_some_and(|p| p.low <= self.measured && self.measured <= p.high)
    }

    /// predicted ÷ measured − 1, where something is predicted.
    pub fn error(&self) -> Option<f64> {
        Some(self.predicted?.value / self.measured - 1.0)
    }
}

impl Predicted {
    /// What is expected, times how often it is counted.
    pub(super) fn of(expected: &Expected, times: f64) -> Self {
        let Expected { value, low, high, .. } = expected;
        Predicted { value: value * times, low: low * times, high: high * times }
    }
}

/// One class over some figures. Errors are fractions: 0.02 is 2 %.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct ClassScore {
    /// What the figures are of.
    pub class: Class,
    /// How many figures, those without a prediction included.
    pub n: usize,
    /// Median of the absolute errors, predicted ÷ measured − 1; null where nothing is predicted.
    pub median: Option<f64>,
    /// Their 85th percentile.
    pub p85: Option<f64>,
    /// Median of the signed errors: above 0, predictions are too high.
    pub bias: Option<f64>,
    /// Share of the figures that lie inside their prediction's interval; one without a prediction lies outside.
    pub inside: Option<f64>,
    /// Share of all figures that have no prediction.
    pub none: f64,
}

/// Bandwidths of single paths together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct SinglePath {
    /// How many figures have a prediction.
    pub n: usize,
    /// Median of the absolute errors; null where nothing is predicted.
    pub median: Option<f64>,
    /// Their 85th percentile.
    pub p85: Option<f64>,
    /// Share of all figures that lies inside the prediction's interval; one without a prediction lies outside.
    pub inside: Option<f64>,
    /// Median half-width of the intervals, as a share of the prediction.
    pub half_width: Option<f64>,
}

/// The scores of one machine.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct TargetScore {
    /// The machine's name.
    pub name: String,
    /// By class; classes without figures are left out.
    pub classes: Vec<ClassScore>,
    /// Bandwidths of single paths together.
    pub single_path: SinglePath,
    /// Every figure, in the order of its tables.
    pub figures: Vec<Figure>,
}

/// By class; classes without figures are left out.
pub(super) fn classes(figures: &[Figure]) -> Vec<ClassScore> {
    let score = |class: Class| {
        let of_it: Vec<&Figure> = figures.iter().filter(|f| f.class == class).collect();
        let errors = signed(of_it.iter().copied());
        (!of_it.is_empty()).then(|| ClassScore {
            class,
            n: of_it.len(),
            median: percentile(absolute(&errors), 0.5),
            p85: percentile(absolute(&errors), 0.85),
            bias: percentile(errors.clone(), 0.5),
            inside: inside(of_it.iter().copied()),
            none: 1.0 - errors.len() as f64 / of_it.len() as f64,
        })
    };
    Class::ALL.into_iter().filter_map(score).collect()
}

/// Bandwidths of single paths together.
pub(super) fn single_path(figures: &[Figure]) -> SinglePath {
    let of_it = || figures.iter().filter(|f| f.class.is_single_path());
    let errors = signed(of_it());
    let widths = of_it().filter_map(|f| f.predicted).map(|p| (p.high - p.low) / (2.0 * p.value));
    SinglePath {
        n: errors.len(),
        median: percentile(absolute(&errors), 0.5),
        p85: percentile(absolute(&errors), 0.85),
        inside: inside(of_it()),
        half_width: percentile(widths.collect(), 0.5),
    }
}

fn signed<'f>(figures: impl Iterator<Item = &'f Figure>) -> Vec<f64> {
    figures.filter_map(Figure::error).collect()
}

fn absolute(errors: &[f64]) -> Vec<f64> {
    errors.iter().map(|e| e.abs()).collect()
}

fn inside<'f>(figures: impl Iterator<Item = &'f Figure>) -> Option<f64> {
    let held: Vec<bool> = figures.map(Figure::is_inside).collect();
    (!held.is_empty()).then(|| held.iter().filter(|h| **h).count() as f64 / held.len() as f64)
}
