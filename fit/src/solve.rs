//! The most likely constants: Gauss–Newton steps on a robust misfit.
//!
//! Minimized is Σ ρ((ln measured − ln predicted) ÷ σ) + Σ (unknown ÷ its deviation)² + Σ ((leaf − stated) ÷ its deviation)²,
//! where ρ is that of Student's distribution with [`FREEDOM`] degrees of freedom, so that a figure that misses by much pulls
//! by little.

use std::collections::{BTreeMap, BTreeSet};

use peerlane::catalogue::Parts;

use crate::figures::Measured;
use crate::tree::{Leaf, Tree};

/// How far a figure is from what the model gives with true constants, as a share: programs, drivers and days differ.
const SIGMA: f64 = 0.03;

/// Degrees of freedom of the distribution of misses.
const FREEDOM: f64 = 3.0;

/// By how much a constant is moved for its derivative, in logarithms.
const STEP: f64 = 0.02;

/// How many steps are taken at most.
const STEPS: usize = 10;

/// Steps are taken until none of the unknowns moves by more.
const SMALL: f64 = 3e-3;

/// The longest step of an unknown.
const LONGEST: f64 = 0.5;

/// Derivatives below this are none.
const INSENSITIVE: f64 = 1e-6;

/// A figure is not of a constant that changes it by a lesser power.
const FAINT: f64 = 0.05;

/// A figure at some constants.
#[derive(Clone)]
struct Seen {
    /// ln (measured ÷ predicted); NaN where nothing is predicted.
    miss: f64,
    /// By leaf, how the logarithm of the prediction changes with the constant's.
    derivatives: Vec<(usize, f64)>,
}

/// What was found.
#[derive(Clone)]
pub(crate) struct Fit {
    /// By unknown.
    pub(crate) at: Vec<f64>,
    covariance: Covariance,
    /// The figures, by machine.
    seen: Vec<Vec<Seen>>,
}

/// A step of those unknowns that figures or statements are of.
struct Step {
    /// The place of each in the matrix.
    places: BTreeMap<usize, usize>,
    /// The lower factor of the Hessian, row by row.
    factor: Vec<f64>,
    step: Vec<f64>,
}

/// Covariances of those unknowns that figures or statements are of.
#[derive(Clone, Default)]
struct Covariance {
    /// The place of each in the matrix.
    places: BTreeMap<usize, usize>,
    /// The inverse of the Hessian, row by row.
    matrix: Vec<f64>,
}

impl Covariance {
    fn new((factor, places): (Vec<f64>, BTreeMap<usize, usize>)) -> Self {
        Covariance { matrix: inverse(&factor, places.len()), places }
    }

    fn of(&self, tree: &Tree, a: usize, b: usize) -> f64 {
        match (self.places.get(&a), self.places.get(&b)) {
            (Some(a), Some(b)) => self.matrix[a * self.places.len() + b],
            _ if a == b => tree.unknowns[a].deviation.powi(2),
            _ => 0.0,
        }
    }
}

impl Fit {
    /// How far a constant's logarithm may be off on another machine with this part, or with one of the family that the chain
    /// begins at.
    pub(crate) fn deviation(&self, tree: &Tree, leaf: &Leaf, chain: &[usize]) -> f64 {
        // what distinguishes parts of a family is not known
        let below = leaf.of_part().iter().take(leaf.of_part().len() - chain.len());
        let below: f64 = below.map(|unknown| tree.unknowns[*unknown].deviation.powi(2)).sum();
        let of_pairs = chain.iter().flat_map(|a| chain.iter().map(move |b| self.covariance.of(tree, *a, *b)));
        (of_pairs.sum::<f64>().max(0.0) + below).sqrt().hypot(tree.specs[leaf.spec].machine)
    }

    /// Parts with all fitted constants, for a machine that uses these.
    pub(crate) fn parts(&self, tree: &Tree, base: &Parts, machine: usize) -> Parts {
        let mut parts = base.clone();
        for leaf in tree.leaves.iter().filter(|leaf| leaf.machine == machine) {
            let value = tree.value(leaf.spec, leaf.of_part(), &self.at);
            tree.set(&mut parts, leaf, value, self.deviation(tree, leaf, leaf.of_part()));
        }
        parts
    }
}

/// A problem with its derivatives, which are kept from one fit to the next.
pub(crate) struct Fitting<'a> {
    pub(crate) tree: &'a Tree,
    machines: &'a [Measured],
    base: &'a Parts,
}

impl<'a> Fitting<'a> {
    pub(crate) fn new(tree: &'a Tree, machines: &'a [Measured], base: &'a Parts) -> Self {
        Fitting { tree, machines, base }
    }

    /// Fits to the figures of all machines.
    pub(crate) fn fit(&self) -> Fit {
        let mut at = vec![0.0; self.tree.unknowns.len()];
        let machines: Vec<usize> = (0..self.machines.len()).collect();
        let look = |at: &[f64]| machines.iter().map(|machine| self.look(at, *machine)).collect::<Vec<_>>();
        let mut seen = look(&at);
        let mut last = None;
        for _ in 0..STEPS {
            let Some(Step { places, factor, step }) = self.step(&at, &machines, &seen) else { break };
            let longest = longest(&step);
            let share = (LONGEST / longest).min(1.0);
            places.iter().for_each(|(unknown, place)| at[*unknown] += share * step[*place]);
            seen = look(&at);
            last = Some((factor, places));
            if longest < SMALL {
                break;
            }
        }
        Fit { at, covariance: last.map(Covariance::new).unwrap_or_default(), seen }
    }

    /// Fits to the figures of all machines but one, from a fit to all, about which figures are taken to be linear: leaving one
    /// machine out moves constants by little.
    pub(crate) fn fit_without(&self, left_out: usize, all: &Fit) -> Fit {
        let machines: Vec<usize> = (0..self.machines.len()).filter(|machine| *machine != left_out).collect();
        let Fit { mut at, covariance, mut seen } = all.clone();
        let mut last = None;
        for _ in 0..STEPS {
            let Some(Step { places, factor, step }) = self.step(&at, &machines, &seen) else { break };
            places.iter().for_each(|(unknown, place)| at[*unknown] += step[*place]);
            let moved = |leaf: &usize| -> f64 {
                let chain = &self.tree.leaves[*leaf].chain;
                chain.iter().filter_map(|unknown| places.get(unknown)).map(|place| step[*place]).sum()
            };
            for figure in seen.iter_mut().flatten() {
                figure.miss -= figure.derivatives.iter().map(|(leaf, d)| d * moved(leaf)).sum::<f64>();
            }
            last = Some((factor, places));
            if longest(&step) < SMALL {
                break;
            }
        }
        Fit { at, covariance: last.map_or(covariance, Covariance::new), seen }
    }

    /// One step from these constants; `None` where the Hessian is not positive.
    fn step(&self, at: &[f64], machines: &[usize], seen: &[Vec<Seen>]) -> Option<Step> {
        let places = self.places(machines, seen);
        let (hessian, gradient) = self.normal(at, machines, seen, &places);
        let factor = cholesky(hessian, places.len())?;
        let step = solve(&factor, &gradient);
        Some(Step { places, factor, step })
    }

    /// The unknowns that figures of these machines or statements are of; all others stay where they are.
    fn places(&self, machines: &[usize], seen: &[Vec<Seen>]) -> BTreeMap<usize, usize> {
        let figures = machines.iter().flat_map(|machine| &seen[*machine]);
        let of_figures = figures.flat_map(|figure| figure.derivatives.iter().map(|(leaf, _)| *leaf));
        let of_figures = of_figures.flat_map(|leaf| &self.tree.leaves[leaf].chain);
        let of_others = self.tree.stated.iter().flat_map(|stated| &stated.chain);
        let unknowns: BTreeSet<usize> = of_figures.chain(of_others).copied().collect();
        unknowns.into_iter().enumerate().map(|(place, unknown)| (unknown, place)).collect()
    }

    fn parts(&self, at: &[f64], machine: usize, moved: Option<(usize, f64)>) -> Parts {
        let mut parts = self.base.clone();
        for (number, leaf) in self.tree.leaves.iter().enumerate().filter(|(_, leaf)| leaf.machine == machine) {
            let by = moved.filter(|(which, _)| *which == number).map_or(0.0, |(_, by)| by);
            self.tree.set(&mut parts, leaf, self.tree.value(leaf.spec, &leaf.chain, at) + by, 0.0);
        }
        parts
    }

    /// ln (measured ÷ predicted) of each figure; NaN where nothing is predicted, and where a link may be narrower, which no constant
    /// should explain.
    fn misses(&self, at: &[f64], machine: usize, moved: Option<(usize, f64)>) -> Vec<f64> {
        let figures = self.machines[machine].predicted(&self.parts(at, machine, moved));
        let miss = |f: &peerlane::accuracy::Figure| {
            f.predicted.filter(|p| !self.machines[machine].may_be_narrower(*p)).map(|p| (f.measured / p.value).ln())
        };
        figures.iter().map(|f| miss(f).filter(|m| m.is_finite()).unwrap_or(f64::NAN)).collect()
    }

    /// Figures of a machine, and by central differences how they change.
    fn look(&self, at: &[f64], machine: usize) -> Vec<Seen> {
        let misses = self.misses(at, machine, None).into_iter();
        let mut seen: Vec<Seen> = misses.map(|miss| Seen { miss, derivatives: Vec::new() }).collect();
        let leaves = self.tree.leaves.iter().enumerate().filter(|(_, leaf)| leaf.machine == machine);
        for (number, _) in leaves {
            let [less, more] = [-STEP, STEP].map(|by| self.misses(at, machine, Some((number, by))));
            for (figure, (less, more)) in seen.iter_mut().zip(less.into_iter().zip(more)) {
                let derivative = (less - more) / (2.0 * STEP);
                if derivative.abs() > INSENSITIVE {
                    figure.derivatives.push((number, derivative));
                }
            }
        }
        seen
    }

    /// The normal equations.
    fn normal(
        &self,
        at: &[f64],
        machines: &[usize],
        seen: &[Vec<Seen>],
        places: &BTreeMap<usize, usize>,
    ) -> (Vec<f64>, Vec<f64>) {
        let n = places.len();
        let (mut hessian, mut gradient) = (vec![0.0; n * n], vec![0.0; n]);
        for (unknown, place) in places {
            let weight = 1.0 / self.tree.unknowns[*unknown].deviation.powi(2);
            hessian[place * n + place] += weight;
            gradient[*place] -= weight * at[*unknown];
        }
        for stated in &self.tree.stated {
            let weight = 1.0 / stated.deviation.powi(2);
            let miss = stated.value - self.tree.value(stated.spec, &stated.chain, at);
            for a in stated.chain.iter().map(|unknown| places[unknown]) {
                gradient[a] += weight * miss;
                stated.chain.iter().for_each(|b| hessian[a * n + places[b]] += weight);
            }
        }
        for &machine in machines {
            for Seen { miss, derivatives } in seen[machine].iter().filter(|figure| figure.miss.is_finite()) {
                let weight = (FREEDOM + 1.0) / (FREEDOM + (miss / SIGMA).powi(2)) / SIGMA.powi(2);
                let of_leaf = |(leaf, derivative): &(usize, f64)| {
                    let chain = &self.tree.leaves[*leaf].chain;
                    let derivative = *derivative;
                    chain.iter().map(move |unknown| (places[unknown], derivative))
                };
                let unknowns: Vec<(usize, f64)> = derivatives.iter().flat_map(of_leaf).collect();
                for (a, da) in &unknowns {
                    gradient[*a] += weight * da * miss;
                    unknowns.iter().for_each(|(b, db)| hessian[a * n + b] += weight * da * db);
                }
            }
        }
        (hessian, gradient)
    }
}

impl Fit {
    /// By leaf, how many figures it changes.
    pub(crate) fn seen(&self, tree: &Tree) -> Vec<usize> {
        let mut seen = vec![0; tree.leaves.len()];
        let all = self.seen.iter().flatten().flat_map(|figure| &figure.derivatives);
        all.filter(|(_, derivative)| derivative.abs() > FAINT).for_each(|(leaf, _)| seen[*leaf] += 1);
        seen
    }
}

fn longest(step: &[f64]) -> f64 {
    step.iter().fold(0.0, |most: f64, s| most.max(s.abs()))
}

/// The lower factor of a symmetric, positive matrix, row by row; `None` where it is not positive.
fn cholesky(mut a: Vec<f64>, n: usize) -> Option<Vec<f64>> {
    for i in 0..n {
        for j in 0..=i {
            let (rows_i, rows_j) = (&a[i * n..i * n + j], &a[j * n..j * n + j]);
            let sum = a[i * n + j] - rows_i.iter().zip(rows_j).map(|(x, y)| x * y).sum::<f64>();
            a[i * n + j] = if i == j {
                if sum <= 0.0 {
                    return None;
                }
                sum.sqrt()
            } else {
                sum / a[j * n + j]
            };
        }
    }
    Some(a)
}

/// The solution for one right side.
fn solve(factor: &[f64], right: &[f64]) -> Vec<f64> {
    let n = right.len();
    let mut x = right.to_vec();
    for i in 0..n {
        let sum: f64 = (0..i).map(|j| factor[i * n + j] * x[j]).sum();
        x[i] = (x[i] - sum) / factor[i * n + i];
    }
    for i in (0..n).rev() {
        let sum: f64 = (i + 1..n).map(|j| factor[j * n + i] * x[j]).sum();
        x[i] = (x[i] - sum) / factor[i * n + i];
    }
    x
}

fn inverse(factor: &[f64], n: usize) -> Vec<f64> {
    let column = |i: usize| {
        let mut unit = vec![0.0; n];
        unit[i] = 1.0;
        solve(factor, &unit)
    };
    (0..n).flat_map(column).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_system_is_solved_and_inverted() {
        let a = [4.0, 2.0, 0.6, 2.0, 5.0, 1.0, 0.6, 1.0, 3.0];
        let factor = cholesky(a.to_vec(), 3).unwrap();
        let x = solve(&factor, &[1.0, -2.0, 0.5]);
        for i in 0..3 {
            let got: f64 = (0..3).map(|j| a[i * 3 + j] * x[j]).sum();
            assert!((got - [1.0, -2.0, 0.5][i]).abs() < 1e-12, "{got}");
        }
        let inverse = inverse(&factor, 3);
        for (i, j) in (0..3).flat_map(|i| (0..3).map(move |j| (i, j))) {
            let got: f64 = (0..3).map(|k| a[i * 3 + k] * inverse[k * 3 + j]).sum();
            assert!((got - f64::from(u8::from(i == j))).abs() < 1e-12);
        }
        assert_eq!(cholesky(vec![1.0, 2.0, 2.0, 1.0], 2), None);
    }
}
