//! Numbers out of the catalogue and the comparison.

use peerlane::catalogue::{Parts, system};
use peerlane::compare::{Design, Subject, compare};
use peerlane::comparison::Comparison;
use peerlane::evidence::{Direction, Matrix, Quantity};
use peerlane::fabric::{PathClass, PcieWidth};
use peerlane::machine::Machine;
use peerlane::model::Model;
use peerlane::what_if::{Edit, apply};

/// A system with its comparison.
pub(crate) struct System {
    pub(crate) machine: Machine,
    pub(crate) design: Design,
}

/// A system of the catalogue.
pub(crate) fn of(name: &str) -> System {
    compared(system(name).unwrap().unwrap())
}

/// The same, changed.
pub(crate) fn what_if(name: &str, edits: &[&str]) -> System {
    let edits: Vec<Edit> = edits.iter().map(|e| e.parse().unwrap()).collect();
    compared(apply(&system(name).unwrap().unwrap(), &edits, Parts::embedded()).unwrap())
}

fn compared(machine: Machine) -> System {
    let subject = Subject { name: &machine.name, machine: &machine, run: None };
    let design = compare(&[subject], Parts::embedded()).designs.remove(0);
    System { machine, design }
}

/// Numbers of one sort.
#[derive(Clone, Debug)]
pub(crate) struct Range(Vec<f64>);

impl Range {
    pub(crate) fn of(mut values: Vec<f64>) -> Self {
        values.sort_by(f64::total_cmp);
        assert!(!values.is_empty(), "a figure without numbers");
        Range(values)
    }

    pub(crate) fn low(&self) -> f64 {
        self.0[0]
    }

    pub(crate) fn high(&self) -> f64 {
        self.0[self.0.len() - 1]
    }

    pub(crate) fn median(&self) -> f64 {
        let n = self.0.len();
        (self.0[(n - 1) / 2] + self.0[n / 2]) / 2.0
    }

    /// Whether all lie between these.
    pub(crate) fn within(&self, low: f64, high: f64) -> bool {
        self.low() >= low && self.high() <= high
    }

    /// `25.97 to 26.13`.
    pub(crate) fn said(&self) -> String {
        let (low, high) = (number(self.low()), number(self.high()));
        if low == high { low } else { format!("{low} to {high}") }
    }
}

/// About three digits.
pub(crate) fn number(value: f64) -> String {
    let digits = match value.abs() {
        v if v >= 1000.0 => 0,
        v if v >= 100.0 => 1,
        _ => 2,
    };
    format!("{value:.digits$}")
}

/// In percent.
pub(crate) fn percent(share: f64) -> String {
    format!("{:.0} %", share * 100.0)
}

impl System {
    /// The published matrix between GPUs of a quantity and direction.
    pub(crate) fn matrix(&self, quantity: Quantity, direction: Option<Direction>) -> &Matrix {
        let square = |m: &Matrix| m.rows.len() > 1 && m.rows == m.cols;
        let wanted = |m: &Matrix| m.quantity == quantity && m.direction == direction && square(m);
        &self.machine.matrices.iter().find(|o| wanted(&o.matrix)).unwrap().matrix
    }

    fn cells(
        &self,
        matrix: &Matrix,
        of: impl Fn(usize, usize) -> Option<f64>,
        class: impl Fn(PathClass) -> bool,
    ) -> Range {
        let fabric = &self.machine.fabric;
        let mut values = Vec::new();
        for (i, row) in matrix.rows.iter().enumerate() {
            for (j, col) in matrix.cols.iter().enumerate() {
                let ends = fabric.find(row).zip(fabric.find(col));
                let known = ends.and_then(|(a, b)| fabric.class(a, b)).filter(|c| class(*c));
                values.extend(known.and_then(|_| of(i, j)));
            }
        }
        Range::of(values)
    }

    /// Published cells of some classes.
    pub(crate) fn published(
        &self,
        quantity: Quantity,
        direction: Option<Direction>,
        class: impl Fn(PathClass) -> bool,
    ) -> Range {
        let matrix = self.matrix(quantity, direction);
        self.cells(matrix, |i, j| matrix.value(i, j), class)
    }

    /// Predicted cells of some classes, in the place of published ones.
    pub(crate) fn predicted(
        &self,
        quantity: Quantity,
        direction: Option<Direction>,
        class: impl Fn(PathClass) -> bool,
    ) -> Range {
        let matrix = self.matrix(quantity, direction);
        let model = Model::new(&self.machine, Parts::embedded());
        let comparison = Comparison::of(&model);
        let series = comparison.matrices().iter().find(|series| series.matrix() == matrix).unwrap();
        self.cells(matrix, |i, j| series.expected(i, j).map(|e| e.value), class)
    }

    /// A figure that the source states in words, by a piece of its text: low and high.
    pub(crate) fn statement(&self, words: &str) -> (f64, f64) {
        let found = self.machine.statements.iter().find(|s| s.text.contains(words)).unwrap();
        (found.low, found.high)
    }

    /// The published rate between host and a GPU by its number, in GB/s.
    pub(crate) fn host_rate(&self, from_host: bool, gpu: usize) -> f64 {
        let is = |names: &[String]| names.iter().all(|n| n == "host");
        let wanted = |m: &Matrix| if from_host { is(&m.rows) } else { is(&m.cols) };
        let matrix = &self.machine.matrices.iter().find(|o| wanted(&o.matrix)).unwrap().matrix;
        let (row, column) = if from_host { (0, gpu) } else { (gpu, 0) };
        matrix.rate(row, column).unwrap().gb()
    }
}

/// Raw rate of a PCIe link, one direction, in GB/s.
pub(crate) fn raw(width: &str) -> f64 {
    width.parse::<PcieWidth>().unwrap().raw_rate().unwrap().gb()
}

/// Lanes of a part.
pub(crate) fn lanes(part: &str) -> u32 {
    Parts::embedded().get(part).unwrap().lanes.unwrap()
}

/// A part's constant.
pub(crate) fn constant(part: &str, name: &str) -> f64 {
    Parts::embedded().get(part).unwrap().constant(name).unwrap()
}
