//! The constants to be fitted, each as a tree: a machine's value is near its part's, that near the part's family's, and that near
//! the family's own family's.
//!
//! All is in natural logarithms. An *unknown* is how far a node of a tree is from the node above it, or from the prior.

use std::collections::BTreeMap;

use peerlane::catalogue::{Basis, Constant, Part, PartKind, Parts};
use serde::Deserialize;

use crate::figures::Measured;

/// A constant to be fitted.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Spec {
    /// Its name in part files.
    pub(crate) name: String,
    /// The kind of parts that have it.
    pub(crate) of: PartKind,
    /// The family that has it, where not all of the kind do.
    pub(crate) within: Option<String>,
    /// Families of which what is derived holds.
    #[serde(default)]
    pub(crate) without: Vec<String>,
    pub(crate) unit: String,
    /// What it is where nothing is known.
    pub(crate) prior: f64,
    /// The most that it can be.
    pub(crate) most: Option<f64>,
    /// How far the prior may be off.
    pub(crate) common: f64,
    /// How far families with a family in common differ.
    pub(crate) family: f64,
    /// How far parts of a family differ.
    pub(crate) part: f64,
    /// How far machines with the same part differ.
    pub(crate) machine: f64,
}

/// How far a node is from the node above it.
#[derive(Clone, Debug)]
pub(crate) struct Unknown {
    /// Its deviation before any figure is known.
    pub(crate) deviation: f64,
}

/// A constant of a part, as one machine has it.
#[derive(Clone, Debug)]
pub(crate) struct Leaf {
    pub(crate) spec: usize,
    pub(crate) part: String,
    pub(crate) machine: usize,
    /// Unknowns whose sum it is, the machine's own first.
    pub(crate) chain: Vec<usize>,
    /// Names of the part and its families, nearest first.
    nodes: Vec<String>,
}

/// A part or family with the unknowns whose sum its constant is.
pub(crate) struct Node<'c> {
    pub(crate) name: String,
    pub(crate) chain: &'c [usize],
}

impl Leaf {
    /// The unknowns of any machine with this part.
    pub(crate) fn of_part(&self) -> &[usize] {
        &self.chain[1..]
    }
}

/// What other sources than the figures say of a part or family.
#[derive(Clone, Debug)]
pub(crate) struct Stated {
    pub(crate) spec: usize,
    /// Unknowns whose sum it is.
    pub(crate) chain: Vec<usize>,
    /// Its logarithm.
    pub(crate) value: f64,
    pub(crate) deviation: f64,
}

/// All constants of all parts in use.
pub(crate) struct Tree {
    pub(crate) specs: Vec<Spec>,
    pub(crate) unknowns: Vec<Unknown>,
    pub(crate) leaves: Vec<Leaf>,
    pub(crate) stated: Vec<Stated>,
}

impl Spec {
    fn is_of(&self, part: &Part, parts: &Parts) -> bool {
        let above = || std::iter::successors(Some(part), |at| parts.get(at.extends.as_deref()?));
        let within = |family: &String| above().any(|at| at.name == *family);
        part.kind == self.of && self.within.as_ref().is_none_or(within) && !self.without.iter().any(within)
    }
}

impl Tree {
    /// Of the machines, by their parts. What was fitted to one of these states nothing, since their figures are known here.
    pub(crate) fn new(specs: Vec<Spec>, parts: &Parts, machines: &[Measured]) -> Self {
        let systems: Vec<&str> = machines.iter().map(Measured::name).collect();
        let mut tree = Tree { specs, unknowns: Vec::new(), leaves: Vec::new(), stated: Vec::new() };
        let mut known: BTreeMap<(usize, String), Vec<usize>> = BTreeMap::new();
        for (machine, measured) in machines.iter().enumerate() {
            for part in measured.parts.iter().filter_map(|key| parts.get(key)) {
                for spec in 0..tree.specs.len() {
                    if tree.specs[spec].is_of(part, parts) {
                        let own = tree.unknown(tree.specs[spec].machine);
                        let above = tree.chain(spec, part, parts, &systems, &mut known);
                        let chain = [own].into_iter().chain(above).collect();
                        let above = std::iter::successors(Some(part), |at| parts.get(at.extends.as_deref()?));
                        let nodes = above.map(|at| at.name.clone()).collect();
                        tree.leaves.push(Leaf { spec, part: part.name.clone(), machine, chain, nodes });
                    }
                }
            }
        }
        tree
    }

    fn unknown(&mut self, deviation: f64) -> usize {
        self.unknowns.push(Unknown { deviation });
        self.unknowns.len() - 1
    }

    /// The unknowns of a part or family and all above it.
    fn chain(
        &mut self,
        spec: usize,
        part: &Part,
        parts: &Parts,
        systems: &[&str],
        known: &mut BTreeMap<(usize, String), Vec<usize>>,
    ) -> Vec<usize> {
        let key = (spec, part.name.clone());
        if let Some(chain) = known.get(&key) {
            return chain.clone();
        }
        let above = part.extends.as_deref().and_then(|key| parts.get(key));
        let here = &self.specs[spec];
        let own = self.unknown(match (part.kind, above) {
            (_, None) => here.common,
            (PartKind::Family, Some(_)) => here.family,
            (_, Some(_)) => here.part,
        });
        let above = above.map_or_else(Vec::new, |above| self.chain(spec, above, parts, systems, known));
        let chain: Vec<usize> = [own].into_iter().chain(above).collect();
        if let Some((value, deviation)) =
            part.constants.get(&self.specs[spec].name).and_then(|constant| stated(constant, systems))
        {
            self.stated.push(Stated { spec, chain: chain.clone(), value, deviation });
        }
        known.insert(key, chain.clone());
        chain
    }

    /// The part of a leaf and its families.
    pub(crate) fn nodes<'l>(&self, leaf: &'l Leaf) -> impl Iterator<Item = Node<'l>> {
        leaf.nodes.iter().enumerate().map(|(at, name)| Node { name: name.clone(), chain: &leaf.of_part()[at..] })
    }

    /// The logarithm of a constant.
    pub(crate) fn value(&self, spec: usize, chain: &[usize], at: &[f64]) -> f64 {
        let spec = &self.specs[spec];
        let value = spec.prior.ln() + chain.iter().map(|unknown| at[*unknown]).sum::<f64>();
        spec.most.map_or(value, |most| value.min(most.ln()))
    }

    /// Parts with the fitted constants of these leaves.
    pub(crate) fn set(&self, parts: &mut Parts, leaf: &Leaf, value: f64, deviation: f64) {
        let spec = &self.specs[leaf.spec];
        parts.set_constant(&leaf.part, &spec.name, constant(spec, value, deviation));
    }
}

/// A fitted constant, by its logarithm and how far that may be off: from the 5th to the 95th percentile.
pub(crate) fn constant(spec: &Spec, value: f64, deviation: f64) -> Constant {
    let at = |share: f64| {
        let value = (value + share * deviation).exp();
        spec.most.map_or(value, |most| value.min(most))
    };
    Constant {
        value: at(0.0),
        unit: spec.unit.clone(),
        basis: Basis::Fitted,
        source: String::new(),
        low: Some(at(-1.645)),
        high: Some(at(1.645)),
        fitted_to: Vec::new(),
        elsewhere: None,
        only_here: false,
        figures: None,
        family: None,
    }
}

/// What a constant states that comes from elsewhere: its logarithm, and how far that may be off.
fn stated(constant: &Constant, systems: &[&str]) -> Option<(f64, f64)> {
    let own = constant.family.is_none() && constant.figures.is_none();
    let of_figures = constant.fitted_to.iter().any(|s| systems.contains(&s.as_str()));
    let (value, [low, high]) = match &constant.elsewhere {
        _ if !own || constant.value <= 0.0 => return None,
        Some(other) if of_figures => {
            let [low, high] = [other.low, other.high].map(|end| end.unwrap_or(other.value));
            (other.value, [low, high])
        }
        None if of_figures => return None,
        _ => (constant.value, constant.range()),
    };
    let deviation = if low > 0.0 { (high / low).ln() / 3.29 } else { 0.0 };
    Some((value.ln(), deviation.max(0.01)))
}
