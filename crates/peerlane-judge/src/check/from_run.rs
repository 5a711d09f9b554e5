//! What a run reports apart from its numbers: steps that gave none, and why.

use std::collections::BTreeMap;

use super::view::View;
use peerlane_machine::names::natural;
use peerlane_machine::subject::Subject;
use peerlane_machine::transfer::Via;
use peerlane_measure::kinds::Path;
use peerlane_measure::plan::Work;
use peerlane_measure::run::{Cell, FlagKind};

/// Pairs that share one GPU need to be this many for the GPU to be the cause.
const FEWEST_PAIRS: usize = 3;

/// The pairs of GPUs that communicate directly in a step, each in its natural order.
pub(super) fn direct_pairs(work: &Work) -> Vec<(String, String)> {
    let kind = work.kind();
    let gpus = work.gpus();
    let direct = |path: &Path| {
        let is_pair = path.from != path.to && [path.from, path.to].iter().all(|end| gpus.contains(end));
        kind.ends().is_some() && path.via == Via::Direct && is_pair
    };
    let paths = kind.paths().into_iter().filter(direct);
    let mut pairs: Vec<(String, String)> = paths.map(|path| ordered(path.from, path.to)).collect();
    pairs.sort();
    pairs.dedup();
    pairs
}

fn ordered(a: &str, b: &str) -> (String, String) {
    let (a, b) = if natural(a) <= natural(b) { (a, b) } else { (b, a) };
    (a.to_owned(), b.to_owned())
}

/// A pair with the cells of it alone that have a flag.
pub(super) struct Flagged<'a> {
    pub(super) pair: (String, String),
    pub(super) cells: Vec<(&'a Cell, &'a str)>,
}

/// Pairs of GPUs with cells that have a flag. Sets of transfers do not count: which of their members it was is unknown.
pub(super) fn pairs_with<'a>(view: &View<'a>, kind: FlagKind) -> Vec<Flagged<'a>> {
    let Some(run) = view.case.run() else { return Vec::new() };
    let mut pairs: BTreeMap<(String, String), Vec<(&Cell, &str)>> = BTreeMap::new();
    for cell in &run.cells {
        let Some(flag) = cell.flag(kind) else { continue };
        if let [pair] = direct_pairs(&cell.work).as_slice() {
            pairs.entry(pair.clone()).or_default().push((cell, flag.detail.as_str()));
        }
    }
    pairs.into_iter().map(|(pair, cells)| Flagged { pair, cells }).collect()
}

/// All pairs with a flag, as a finding reports them.
pub(super) struct Tally<'a> {
    pub(super) pairs: Vec<(String, String)>,
    /// How many cells of them have the flag.
    pub(super) cells: usize,
    /// What the pairs amount to.
    pub(super) subjects: Vec<Subject>,
    /// The detail of the first flag.
    pub(super) detail: &'a str,
}

/// Counts the pairs that have a flag; `None` where none has.
pub(super) fn tally<'a>(view: &View<'a>, kind: FlagKind) -> Option<Tally<'a>> {
    let flagged = pairs_with(view, kind);
    let detail = flagged.first()?.cells.first().map_or("", |(_, detail)| detail);
    let pairs: Vec<(String, String)> = flagged.iter().map(|f| f.pair.clone()).collect();
    let subjects = subjects(&pairs);
    Some(Tally { pairs, cells: flagged.iter().map(|f| f.cells.len()).sum(), subjects, detail })
}

/// The subjects that pairs amount to: the GPU that they all share, where there are several, else the pairs.
pub(super) fn subjects(pairs: &[(String, String)]) -> Vec<Subject> {
    if let Some((first, others)) = pairs.split_first().filter(|(_, others)| others.len() + 1 >= FEWEST_PAIRS) {
        let shared = |name: &String| others.iter().all(|(a, b)| a == name || b == name);
        if let Some(name) = [&first.0, &first.1].into_iter().find(|name| shared(name)) {
            return Subject::nodes_of([name]);
        }
    }
    Subject::pairs_of(pairs)
}

#[cfg(test)]
mod tests {
    use super::*;
    use peerlane_machine::transfer::Transfer;

    #[test]
    fn several_pairs_of_one_gpu_are_that_gpu() {
        let pair = |a: &str, b: &str| ordered(a, b);
        let of_three = [pair("GPU3", "GPU0"), pair("GPU3", "GPU10"), pair("GPU1", "GPU3")];
        assert_eq!(subjects(&of_three), ["GPU3"]);
        assert_eq!(subjects(&of_three[..2]), ["GPU0-GPU3", "GPU3-GPU10"]);
        assert_eq!(subjects(&[]), Vec::<Subject>::new());
    }

    #[test]
    fn pairs_of_a_step() {
        let copies = Work::Transfers(vec![Transfer::new("GPU1", "GPU0"), Transfer::new("GPU0", "GPU1")]);
        assert_eq!(direct_pairs(&copies), [ordered("GPU0", "GPU1")]);
        let staged = Transfer { via: Via::Driver, ..Transfer::new("GPU1", "GPU0") };
        assert_eq!(direct_pairs(&Work::Transfers(vec![staged, Transfer::new("host", "GPU0")])), []);
    }
}
