//! GPUs of one product that copy within their own memory at rates of two groups.

use super::view::{Raised, View};
use super::words::{list, median};
use super::{Certainty, Cost, Finding, FindingKind, Rule, Severity};
use peerlane_machine::machine::SourcedMatrix;
use peerlane_machine::matrix::{Direction, Matrix};
use peerlane_machine::names::natural;
use peerlane_machine::origin::Origin;
use peerlane_machine::stats::modes;
use peerlane_machine::subject::Subject;

pub(super) const RULE: Rule = Rule { id: "uneven-local-copies", breaks: false, run };

/// Groups must be this far apart, as a share of the middle.
const APART: f64 = 0.2;

/// A gap this many times the spread within the groups parts few GPUs, where statistics on samples need more.
const CLEAR: f64 = 5.0;

/// GPUs of one product that it takes to speak of groups.
const FEWEST: usize = 4;

/// GPUs by what they reach within their own memory, in GB/s.
type Rates = Vec<(String, f64)>;

fn run(view: &View) -> Vec<Raised> {
    let split: Vec<(&SourcedMatrix, Rates, Rates)> = view
        .bandwidths()
        .filter_map(|(_, measured)| two_groups(view, measured).map(|(slow, fast)| (measured, slow, fast)))
        .collect();
    let Some((measured, slow, fast)) = split.first() else { return Vec::new() };
    let middle = |of: &Rates| median(of.iter().map(|(_, r)| *r)).unwrap_or_default();
    let (low, high) = (middle(slow), middle(fast));
    let names = |of: &Rates| {
        let mut names: Vec<String> = of.iter().map(|(name, _)| name.clone()).collect();
        names.sort_by(|a, b| natural(a).cmp(&natural(b)));
        names
    };
    // what another test of the same source shows otherwise is no property of the card
    let same = |o: &&SourcedMatrix| o.origin.source == measured.origin.source && o.origin.tool == measured.origin.tool;
    let others = view.bandwidths().map(|(_, o)| o).filter(same);
    let alike = others.filter(|o| two_groups(view, o).is_none() && local(view, &o.matrix).len() >= FEWEST).find(|o| {
        let rates: Vec<f64> = local(view, &o.matrix).into_iter().map(|(_, r)| r).collect();
        let of_slow = local(view, &o.matrix).into_iter().filter(|(n, _)| names(slow).contains(n));
        let them = median(of_slow.map(|(_, r)| r));
        them.zip(median(rates)).is_some_and(|(a, b)| a > (1.0 - APART) * b)
    });
    let also = match &alike {
        Some(o) => format!("; alike in another test of the same program ({})", o.matrix.describe()),
        None => String::new(),
    };
    let kind = if alike.is_some() { FindingKind::Measurement } else { FindingKind::Fault };
    let origins: Vec<&Origin> = split.iter().map(|(o, ..)| &o.origin).chain(alike.map(|o| &o.origin)).collect();
    let subjects = names(slow);
    let finding = Finding {
        summary: format!(
            "{} copy within their own memory {:.2} times slower than {}, of the same product: unexplained",
            list(&subjects),
            high / low,
            list(&names(fast))
        ),
        expected: format!("about {high:.1} GB/s, as {} reach", list(&names(fast))),
        measured: format!("about {low:.1} GB/s ({}){also}", measured.matrix.describe()),
        evidence: view.cite(origins),
        fix: "Measure again, each GPU warm; then compare memory clocks, power state and what else uses these GPUs (a \
               display, another program)."
            .to_owned(),
        confirm:
            "`peerlane measure --tests local`; `nvidia-smi --query-gpu=index,clocks.mem,pstate --format=csv` meanwhile"
                .to_owned(),
        cost: Cost::of_rate(high, low),
        ..Finding::of(&RULE, kind, Severity::Warning, Certainty::Possible, Subject::nodes_of(subjects))
    };
    vec![Raised::new(finding, 1.0 - low / high)]
}

/// What each GPU reaches within its own memory: the diagonal, or a column of that name.
fn local(view: &View, matrix: &Matrix) -> Rates {
    let is_gpu = |name: &String| {
        view.fabric().find(name).is_some_and(|id| view.of_kind(peerlane_machine::fabric::NodeKind::Gpu).contains(&id))
    };
    let mut rates = Vec::new();
    for (i, row) in matrix.rows.iter().enumerate().filter(|(_, row)| is_gpu(row)) {
        let Some(j) = matrix.cols.iter().position(|col| col == row || col == "self") else { continue };
        rates.extend(matrix.rate(i, j).filter(|r| r.gb() > 0.0).map(|r| (row.clone(), r.gb())));
    }
    rates
}

/// The slow and the fast GPUs of the most common product, where there are two groups.
fn two_groups(view: &View, measured: &SourcedMatrix) -> Option<(Rates, Rates)> {
    let matrix = &measured.matrix;
    if matrix.direction == Some(Direction::BidirectionalShare) {
        return None;
    }
    let product = |name: &str| {
        let node = view.fabric().node(view.fabric().find(name)?);
        node.part.clone().or_else(|| node.product.clone())
    };
    let rates = local(view, matrix);
    let most =
        rates.iter().map(|(n, _)| product(n)).max_by_key(|p| rates.iter().filter(|(n, _)| product(n) == *p).count())?;
    let mut alike: Rates = rates.into_iter().filter(|(n, _)| product(n) == most).collect();
    if alike.len() < FEWEST {
        return None;
    }
    alike.sort_by(|a, b| a.1.total_cmp(&b.1));
    let (at, gap) =
        alike.windows(2).enumerate().map(|(i, w)| (i + 1, w[1].1 - w[0].1)).max_by(|a, b| a.1.total_cmp(&b.1))?;
    let values: Vec<f64> = alike.iter().map(|(_, r)| *r).collect();
    let (slow, fast) = alike.split_at(at);
    let spread = |of: &[(String, f64)]| of.last().zip(of.first()).map_or(0.0, |(a, b)| a.1 - b.1);
    let clear = gap > CLEAR * spread(slow).max(spread(fast)) || modes(&values, APART).len() > 1;
    let middle = median(values.iter().copied())?;
    // one GPU alone is its own case: uneven in all it does, or not
    (clear && gap > APART * middle && slow.len() >= 2 && fast.len() >= 2).then(|| (slow.to_vec(), fast.to_vec()))
}

#[cfg(test)]
mod tests {
    use super::super::testing::{findings, switched, uniform};
    use super::*;
    use peerlane_read::catalogue::system;

    #[test]
    fn the_published_split_of_7gforce_is_named_as_unexplained() {
        let found = findings(&system("7gforce").unwrap().unwrap(), run);
        assert_eq!((found.len(), found[0].kind), (1, FindingKind::Measurement));
        assert_eq!(found[0].subjects, ["GPU0", "GPU2", "GPU3", "GPU5"]);
        assert!(found[0].summary.contains("times slower than GPU1, GPU4"), "{}", found[0].summary);
        assert!(found[0].summary.contains(" 2.2"), "{}", found[0].summary);
    }

    #[test]
    fn one_slow_gpu_and_a_spread_are_no_groups() {
        let mut machine = switched(5);
        machine.matrices.push(uniform(5, 400.0, &[(2, 2, 200.0)]));
        assert!(findings(&machine, run).is_empty());
        machine.matrices[0] = uniform(5, 400.0, &[(0, 0, 300.0), (1, 1, 350.0), (2, 2, 380.0)]);
        assert!(findings(&machine, run).is_empty());
        machine.matrices[0] = uniform(5, 400.0, &[(0, 0, 200.0), (1, 1, 202.0)]);
        assert_eq!(findings(&machine, run)[0].kind, FindingKind::Fault);
    }
}
