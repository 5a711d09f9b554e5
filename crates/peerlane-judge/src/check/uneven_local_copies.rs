//! GPUs of one product whose copies within their own memory fall into two groups.

use super::prelude::*;
use peerlane_machine::names::natural;
use peerlane_machine::stats::modes;

pub(super) const RULE: Rule = Rule::new("uneven-local-copies", One(run));

/// Groups must be this far apart, as a share of the middle.
const APART: f64 = 0.2;

/// A gap this many times the spread within the groups separates few GPUs, where statistics on samples need more.
const CLEAR: f64 = 5.0;

/// GPUs of one product that groups need.
const FEWEST: usize = 4;

/// GPUs by what they reach within their own memory, in GB/s.
type Rates = Vec<(String, f64)>;

fn run(view: &View) -> Option<Raised> {
    let all = || view.bandwidths().map(|(_, measured)| measured);
    let split: Vec<(&SourcedMatrix, Rates, Rates)> =
        all().filter_map(|measured| two_groups(view, measured).map(|(slow, fast)| (measured, slow, fast))).collect();
    let (measured, slow, fast) = split.first()?;
    let (low, high) = (middle(slow), middle(fast));
    let (slow, fast) = (names(slow), names(fast));
    // where another test of the same source shows no groups, the card is not the cause
    let same = |o: &&SourcedMatrix| o.origin.source == measured.origin.source && o.origin.tool == measured.origin.tool;
    let alike = all().filter(same).find(|o| {
        let rates = local(view, &o.matrix);
        let of_slow: Rates = rates.iter().filter(|(name, _)| slow.contains(name)).cloned().collect();
        let grouped = two_groups(view, o).is_some() || rates.len() < FEWEST || of_slow.is_empty();
        !grouped && middle(&of_slow) > (1.0 - APART) * middle(&rates)
    });
    let also = match &alike {
        Some(o) => format!("; equal in another test of the same program ({})", o.matrix.describe()),
        None => String::new(),
    };
    let raised = RULE
        .raise(if alike.is_some() { Measurement } else { Fault }, Warning, Possible)
        .summary(format!(
            "{} copy within their own memory {:.2} times slower than {} of the same product, for an unknown reason",
            list(&slow),
            high / low,
            list(&fast)
        ))
        .expected(format!("about {high:.1} GB/s, as {} reach", list(&fast)))
        .measured(format!("about {low:.1} GB/s ({}){also}", measured.matrix.describe()))
        .evidence(view.cite(split.iter().map(|(o, ..)| &o.origin).chain(alike.map(|o| &o.origin))))
        .fix(
            "Measure again with every GPU warmed up. Then compare memory clocks, power states and what else uses these GPUs \
             (a display, another program).",
        )
        .confirm(
            "`peerlane measure --tests local`; at the same time `nvidia-smi --query-gpu=index,clocks.mem,pstate --format=csv`",
        )
        .cost(Cost::of_rate(high, low))
        .about_nodes(slow)
        .losing(1.0 - low / high);
    Some(raised)
}

fn middle(rates: &[(String, f64)]) -> f64 {
    median(rates.iter().map(|(_, rate)| *rate)).unwrap_or_default()
}

fn names(rates: &Rates) -> Vec<String> {
    let mut names: Vec<String> = rates.iter().map(|(name, _)| name.clone()).collect();
    names.sort_by(|a, b| natural(a).cmp(&natural(b)));
    names
}

/// What each GPU reaches within its own memory: the diagonal, or a column of that name.
fn local(view: &View, matrix: &Matrix) -> Rates {
    let gpus = view.of_kind(NodeKind::Gpu);
    let is_gpu = |name: &String| view.fabric().find(name).is_some_and(|id| gpus.contains(&id));
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
        node.part.as_ref().or(node.product.as_ref())
    };
    let by_product = grouped(local(view, matrix).into_iter().map(|(name, rate)| (product(&name), (name, rate))));
    let (_, mut alike) = by_product.into_iter().max_by_key(|(_, rates)| rates.len())?;
    if alike.len() < FEWEST {
        return None;
    }
    alike.sort_by(|a, b| a.1.total_cmp(&b.1));
    let gaps = alike.windows(2).enumerate().map(|(i, w)| (i + 1, w[1].1 - w[0].1));
    let (at, gap) = highest(gaps, |(_, gap)| *gap)?;
    let values: Vec<f64> = alike.iter().map(|(_, r)| *r).collect();
    let (slow, fast) = alike.split_at(at);
    let spread = |of: &[(String, f64)]| of.last().zip(of.first()).map_or(0.0, |(a, b)| a.1 - b.1);
    let clear = gap > CLEAR * spread(slow).max(spread(fast)) || modes(&values, APART).len() > 1;
    // one GPU alone is a case of its own: uneven in all it does, or not
    (clear && gap > APART * middle(&alike) && slow.len() >= 2 && fast.len() >= 2)
        .then(|| (slow.to_vec(), fast.to_vec()))
}

#[cfg(test)]
mod tests {
    use super::super::testing::{findings, switched, uniform};
    use super::*;
    use peerlane_read::catalogue::system;

    #[test]
    fn the_published_split_of_7gforce_is_named_as_unexplained() {
        let found = findings(&system("7gforce").unwrap().unwrap(), run);
        assert_eq!((found.len(), found[0].kind), (1, Measurement));
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
        assert_eq!(findings(&machine, run)[0].kind, Fault);
    }
}
