//! How accurately the model predicts every published and recorded number of the catalogue, or of any machine, compared with
//! two baselines.
//!
//! Two statistics are kept apart. *Cells* weigh every number alike. *Groups* (a system × class of path × quantity,
//! direction and engine) compare the median prediction with the median number, so that a group of two cells weighs as
//! much as one of ninety. What is fitted is also predicted without the constants that were fitted to that very system.

mod baseline;
mod cells;
mod classes;
mod figures;
mod page;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use peerlane_machine::schema::JsonSchema;
use serde::Serialize;

pub use baseline::Baseline;
use cells::{Cell, Observation, observations};
pub use classes::{ClassScore, Figure, Predicted, SinglePath, TargetScore};
use figures::figures;
pub use page::page;
use peerlane_design::case::Case;
use peerlane_machine::machine::Machine;
use peerlane_machine::matrix::Unit;
use peerlane_model::assumptions::Assumptions;
use peerlane_model::comparison::Comparison;
pub use peerlane_model::model::Class;
use peerlane_model::model::{Assume, Model};
use peerlane_read::catalogue::{Constant, Parts, system, system_names};

/// Cells with a greater error are listed with their reason.
pub const FAR: f64 = 0.15;

/// What `accuracy --json` writes. All errors are fractions: 0.02 is 2 %.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Accuracy {
    /// Names this format.
    #[schemars(extend("const" = "peerlane/accuracy/1"))]
    pub schema: &'static str,
    /// By system and matrix.
    pub systems: Vec<SystemAccuracy>,
    /// Over all bandwidths, and over all latencies.
    pub overall: Overall,
    /// Every figure by what it is of, over all systems.
    pub classes: Vec<ClassScore>,
    /// Bandwidths of single paths together, over all systems.
    pub single_path: SinglePath,
    /// The same for each system.
    pub targets: Vec<TargetScore>,
    /// By system × class of path × what was measured.
    pub groups: Vec<Group>,
    /// Each system as it is predicted without the constants that were fitted to it.
    pub left_out: Vec<LeftOut>,
    /// Cells that are off by more than [`FAR`].
    pub far: Vec<FarCell>,
}

/// One system's matrices and statements.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct SystemAccuracy {
    /// The system's name.
    pub name: String,
    /// True where this project measured it, false where documents publish its numbers.
    pub measured_here: bool,
    /// Its matrices, in the order of its file.
    pub matrices: Vec<MatrixAccuracy>,
}

/// One matrix or statement compared with its prediction.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct MatrixAccuracy {
    /// What it holds: `bandwidth, both ways, summed, P2P on, copy engine, GB/s`.
    pub label: String,
    /// How many cells have a number and a prediction.
    pub cells: usize,
    /// Median of the absolute errors.
    pub median: f64,
    /// Their 85th percentile.
    pub p85: f64,
    /// The greatest.
    pub worst: f64,
    /// Whether any of it was fitted.
    pub kind: Kind,
}

/// Whether a prediction knew the number it predicts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// It follows from equations, vendors' documents and other systems' numbers.
    Derived,
    /// A constant was fitted to this very system.
    Fitted,
}

/// Percentiles of absolute errors; those between two ranks are interpolated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct Errors {
    /// How many.
    pub n: usize,
    /// Median.
    pub median: f64,
    /// 85th percentile.
    pub p85: f64,
    /// Greatest.
    pub worst: f64,
}

/// One predictor's errors.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct Scores {
    /// Over cells.
    pub cells: Errors,
    /// Over groups.
    pub groups: Errors,
}

/// The predictors compared, on bandwidths that all three predict.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct Predictors {
    /// This model.
    pub peerlane: Scores,
    /// NCCL's constants.
    pub nccl: Scores,
    /// The raw rate of the slowest link.
    pub raw: Scores,
}

/// Over all systems.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct Overall {
    /// All bandwidths, off the diagonal.
    #[serde(flatten)]
    pub bandwidth: Predictors,
    /// Those that documents print, without what this project measured and what is only in files they point to.
    pub documents: Predictors,
    /// Latencies.
    pub latency: Scores,
}

/// A system × class of path × what was measured.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Group {
    /// The system's name.
    pub system: String,
    /// What was measured.
    pub label: String,
    /// Class of the path: `PIX`, `from host`, `to host`, `self`.
    pub path: String,
    /// How many cells.
    pub cells: usize,
    /// Median of the numbers.
    pub published: f64,
    /// Lowest and highest number.
    pub range: [f64; 2],
    /// Median of the predictions.
    pub predicted: f64,
    /// Lowest low end and highest high end of the predictions' intervals.
    pub interval: [f64; 2],
    /// Unit of all these.
    pub unit: Unit,
    /// predicted ÷ published − 1.
    pub error: f64,
    /// The same for the prediction without what was fitted to this system; null where nothing was.
    pub left_out: Option<f64>,
    /// The same for NCCL's constants; null for latencies.
    pub nccl: Option<f64>,
    /// The same for raw link rates.
    pub raw: Option<f64>,
    /// Whether any of it was fitted.
    pub kind: Kind,
    /// The bottleneck of most of the cells.
    pub bottleneck: String,
}

/// A system as it is predicted without what was fitted to it.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct LeftOut {
    /// Its name.
    pub system: String,
    /// Cells with bandwidths.
    pub cells: usize,
    /// Median of their absolute errors, everything known.
    pub known: f64,
    /// The same without the constants that were fitted to it.
    pub median: f64,
    /// Cells with latencies.
    pub latency_cells: usize,
    /// Median of their absolute errors, everything known.
    pub latency_known: f64,
    /// The same without the constants that were fitted to it.
    pub latency_median: f64,
    /// The constants that were fitted to it: `peer_rate of xeon-e5-v2`.
    pub constants: Vec<String>,
    /// Those of them that other sources give too, whose values replace them.
    pub elsewhere: Vec<String>,
    /// Those of them that describe hardware that no other source reports: what was left out cannot be known.
    pub only_here: Vec<String>,
}

/// A cell that is off by more than [`FAR`].
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct FarCell {
    /// The system's name.
    pub system: String,
    /// What was measured.
    pub label: String,
    /// Row.
    pub row: String,
    /// Column.
    pub col: String,
    /// The number.
    pub published: f64,
    /// The prediction.
    pub predicted: f64,
    /// predicted ÷ published − 1.
    pub error: f64,
    /// Whether the number lies in the prediction's interval.
    pub within: bool,
    /// Why, as far as known.
    pub reason: String,
}

/// Evaluates the embedded catalogue.
pub fn evaluate() -> Accuracy {
    let cases: Vec<Case> = system_names().filter_map(|name| system(name)?.ok()).map(Case::from).collect();
    evaluate_cases(&cases, Parts::embedded())
}

/// Evaluates every number of these machines, published or measured.
pub fn evaluate_cases(cases: &[Case], parts: &Parts) -> Accuracy {
    let mut all = Vec::new();
    let (mut systems, mut left_out) = (Vec::new(), Vec::new());
    let (mut every, mut targets): (Vec<Figure>, Vec<TargetScore>) = (Vec::new(), Vec::new());
    for case in cases {
        let machine = &case.machine;
        let others = parts.leaving_out(&machine.name);
        // what `predict` assumes where sources leave it open, before anything is measured
        let placed = Assumptions::unmeasured(machine, parts);
        let [model, without] = [parts, &others].map(|parts| Model::assuming(&placed, parts, Assume::Usual));
        let comparison = Comparison::of(&model);
        let of_it = figures(case, &comparison);
        if !of_it.is_empty() {
            let (classes, single_path) = (classes::classes(&of_it), classes::single_path(&of_it));
            every.extend(of_it.iter().cloned());
            targets.push(TargetScore { name: machine.name.clone(), classes, single_path, figures: of_it });
        }
        let found = observations(&comparison, &Comparison::of(&without));
        if found.is_empty() {
            continue;
        }
        let measured_here = is_measured_here(machine);
        systems.push(SystemAccuracy {
            name: machine.name.clone(),
            measured_here,
            matrices: found.iter().map(Observation::summary).collect(),
        });
        let errors = |rates: bool, of: fn(&Cell) -> f64| {
            let cells = found.iter().filter(|o| o.is_rate == rates).flat_map(|o| &o.cells);
            Errors::of(cells.map(of).collect())
        };
        let fitted = |which: &dyn Fn(&Constant) -> bool| {
            let all = parts.fitted_to(&machine.name).filter(|(_, c)| which(c));
            all.map(|(name, _)| name).collect::<Vec<_>>()
        };
        let (known, latency) = (errors(true, Cell::error), errors(false, Cell::error));
        left_out.push(LeftOut {
            system: machine.name.clone(),
            cells: known.n,
            known: known.median,
            median: errors(true, Cell::error_left_out).median,
            latency_cells: latency.n,
            latency_known: latency.median,
            latency_median: errors(false, Cell::error_left_out).median,
            constants: fitted(&|_| true),
            elsewhere: fitted(&|c| c.elsewhere.is_some()),
            only_here: fitted(&|c| c.only_here),
        });
        all.extend(found.into_iter().map(|o| (measured_here, o)));
    }
    let groups = groups(&all);
    let far = all.iter().flat_map(|(_, o)| o.far()).collect();
    Accuracy {
        schema: "peerlane/accuracy/1",
        systems,
        overall: overall(&all),
        classes: classes::classes(&every),
        single_path: classes::single_path(&every),
        targets,
        groups,
        left_out,
        far,
    }
}

/// Every figure of a case with its prediction by these parts.
pub fn figures_of(case: &Case, parts: &Parts) -> Vec<Figure> {
    let placed = Assumptions::unmeasured(&case.machine, parts);
    figures(case, &Comparison::of(&Model::assuming(&placed, parts, Assume::Usual)))
}

/// Scores of figures: by class, and of the bandwidths of single paths.
pub fn scores(figures: &[Figure]) -> (Vec<ClassScore>, SinglePath) {
    (classes::classes(figures), classes::single_path(figures))
}

/// Whether a system's numbers are this project's own, by its citation.
fn is_measured_here(machine: &Machine) -> bool {
    machine.source.as_deref().is_some_and(|s| s.starts_with("Measured by this project"))
}

/// Observations in groups, in order of system and label.
fn grouped<'o>(
    observations: impl Iterator<Item = &'o Observation>,
) -> BTreeMap<(String, String, String), Vec<&'o Cell>> {
    let mut groups: BTreeMap<(String, String, String), Vec<&Cell>> = BTreeMap::new();
    for observation in observations {
        for cell in &observation.cells {
            let key = (observation.system.clone(), observation.label.clone(), cell.path.clone());
            groups.entry(key).or_default().push(cell);
        }
    }
    groups
}

fn groups(all: &[(bool, Observation)]) -> Vec<Group> {
    let group = |((system, label, path), cells): ((String, String, String), Vec<&Cell>)| {
        let over = |f: &dyn Fn(&Cell) -> Option<f64>| cells.iter().map(|c| f(c)).collect::<Option<Vec<f64>>>();
        let middle = |f: &dyn Fn(&Cell) -> Option<f64>| over(f).and_then(|v| percentile(v, 0.5));
        let published = middle(&|c| Some(c.published))?;
        let error = |f: &dyn Fn(&Cell) -> Option<f64>| middle(f).map(|v| v / published - 1.0);
        let least = |f: &dyn Fn(&Cell) -> f64| cells.iter().map(|c| f(c)).fold(f64::INFINITY, f64::min);
        let most = |f: &dyn Fn(&Cell) -> f64| cells.iter().map(|c| f(c)).fold(f64::NEG_INFINITY, f64::max);
        let kind = cells.iter().map(|c| c.kind()).max()?;
        let mut reasons: BTreeMap<&str, usize> = BTreeMap::new();
        cells.iter().for_each(|c| *reasons.entry(c.bottleneck.as_str()).or_default() += 1);
        let common = reasons.iter().rev().max_by_key(|(_, n)| **n).map_or("", |(why, _)| why);
        Some(Group {
            cells: cells.len(),
            published,
            range: [least(&|c| c.published), most(&|c| c.published)],
            predicted: middle(&|c| Some(c.predicted))?,
            interval: [least(&|c| c.interval[0]), most(&|c| c.interval[1])],
            unit: cells.first()?.unit,
            error: error(&|c| Some(c.predicted))?,
            left_out: (kind == Kind::Fitted).then(|| error(&|c| c.left_out)).flatten(),
            nccl: error(&|c| c.nccl),
            raw: error(&|c| c.raw),
            kind,
            bottleneck: common.to_owned(),
            system,
            label,
            path,
        })
    };
    grouped(all.iter().map(|(_, o)| o)).into_iter().filter_map(group).collect()
}

fn overall(all: &[(bool, Observation)]) -> Overall {
    let rates = || all.iter().filter(|(_, o)| o.is_rate);
    let score = |observations: &[&Observation], value: fn(&Cell) -> Option<f64>| -> Scores {
        let cells = observations.iter().flat_map(|o| &o.cells);
        let errors = cells.filter_map(|c| Some((value(c)? / c.published - 1.0).abs())).collect();
        let by_group = grouped(observations.iter().copied()).into_values().filter_map(|cells| {
            let predicted = percentile(cells.iter().map(|c| value(c)).collect::<Option<Vec<f64>>>()?, 0.5)?;
            let published = percentile(cells.iter().map(|c| c.published).collect(), 0.5)?;
            Some((predicted / published - 1.0).abs())
        });
        Scores { groups: Errors::of(by_group.collect()), cells: Errors::of(errors) }
    };
    let predictors = |observations: &[&Observation]| Predictors {
        peerlane: score(observations, |c| Some(c.predicted)),
        nccl: score(observations, |c| c.nccl),
        raw: score(observations, |c| c.raw),
    };
    let bandwidth: Vec<&Observation> = rates().map(|(_, o)| o).collect();
    let documents: Vec<&Observation> = rates().filter(|(here, o)| !here && o.in_text).map(|(_, o)| o).collect();
    let latency: Vec<&Observation> = all.iter().filter(|(_, o)| !o.is_rate).map(|(_, o)| o).collect();
    Overall {
        bandwidth: predictors(&bandwidth),
        documents: predictors(&documents),
        latency: score(&latency, |c| Some(c.predicted)),
    }
}

impl Errors {
    /// Of absolute errors; all 0 of none.
    fn of(errors: Vec<f64>) -> Self {
        let n = errors.len();
        let at = |share: f64| percentile(errors.clone(), share).unwrap_or(0.0);
        Errors { n, median: at(0.5), p85: at(0.85), worst: at(1.0) }
    }
}

/// The value below which a share of the values lies, interpolated between two ranks; `None` of no values.
fn percentile(mut values: Vec<f64>, share: f64) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    let place = share.clamp(0.0, 1.0) * values.len().checked_sub(1)? as f64;
    let (below, above) = (values.get(place.floor() as usize)?, values.get(place.ceil() as usize)?);
    Some(below + (above - below) * place.fract())
}
