//! One test that was run twice on a machine, with different results.

use std::collections::HashMap;

use super::prelude::*;

pub(super) const RULE: Rule = Rule::new("runs-disagree", One(run));

/// A difference of more than this share of the greater is not the noise of a program that averages.
const APART: f64 = 0.25;

/// From here on it is a warning.
const MUCH: f64 = 0.5;

/// Matrices that are compared with each other at most.
const MOST: usize = 64;

/// Two numbers of one pair.
struct Twice<'m> {
    high: (&'m SourcedMatrix, Cell),
    low: (&'m SourcedMatrix, Cell),
}

impl Twice<'_> {
    fn apart(&self) -> f64 {
        1.0 - self.low.1.rate.gb() / self.high.1.rate.gb()
    }
}

fn run(view: &View) -> Option<Raised> {
    // what was measured here knows its own spread; published numbers may be of several machines
    let runs: Vec<&SourcedMatrix> = view
        .bandwidths()
        .map(|(_, o)| o)
        .filter(|o| view.is_captured() && o.spread.is_empty() && !o.published)
        .take(MOST)
        .collect();
    let mut worst: Option<Twice> = None;
    for (i, one) in runs.iter().enumerate() {
        for other in runs.iter().skip(i + 1).filter(|o| is_same(one, o)) {
            let others: HashMap<(End, End), Cell> =
                view.cells(&other.matrix).into_iter().map(|cell| ((cell.from, cell.to), cell)).collect();
            for a in view.cells(&one.matrix) {
                let Some(b) = others.get(&(a.from, a.to)).copied() else { continue };
                let (low, high) = if a.rate > b.rate { ((*other, b), (*one, a)) } else { ((*one, a), (*other, b)) };
                let twice = Twice { high, low };
                if twice.apart() > worst.as_ref().map_or(APART, Twice::apart) {
                    worst = Some(twice);
                }
            }
        }
    }
    let worst = worst?;
    let ((high, best), (low, least)) = (&worst.high, &worst.low);
    let raised = RULE
        .raise(Measurement, if worst.apart() >= MUCH { Warning } else { Info }, Certain)
        .summary(format!(
            "Two runs of {} differ by {}: {} {} and {}",
            high.origin.tool,
            percent(worst.apart()),
            view.arrow(&high.matrix, best),
            best.rate,
            least.rate
        ))
        .expected(format!("the same within {}", percent(APART)))
        .measured(format!("{} and {} ({})", best.rate, least.rate, high.matrix.describe()))
        .evidence(view.cite([&high.origin, &low.origin]))
        .fix(
            "Find what differs: the NUMA node of the memory (numactl -m), the buffer size, a changed setting or driver, other \
             load, a sleeping link or clock. The machine can reach the higher rate.",
        )
        .confirm(confirm::pairs("pairs,host", &[]))
        .about(vec![view.subject(&high.matrix, best)]);
    Some(raised)
}

/// Whether two matrices are of the same test, from the same program in the same text.
fn is_same(a: &SourcedMatrix, b: &SourcedMatrix) -> bool {
    let test = |m: &Matrix| (m.direction, m.p2p, m.op, m.engine, m.size);
    let (m, n) = (&a.matrix, &b.matrix);
    test(m) == test(n)
        && (&m.title, &m.rows, &m.cols) == (&n.title, &n.rows, &n.cols)
        && (&a.origin.source, a.origin.tool) == (&b.origin.source, b.origin.tool)
}

#[cfg(test)]
mod tests {
    use super::super::testing::{findings, switched, uniform};
    use super::*;
    use peerlane_machine::matrix::Direction;

    #[test]
    fn a_half_is_a_warning_and_noise_is_nothing() {
        let with = |second: f64, change: &dyn Fn(&mut SourcedMatrix)| {
            let mut machine = switched(2);
            let mut other = uniform(2, second, &[]);
            change(&mut other);
            machine.matrices = vec![uniform(2, 12.0, &[]), other];
            findings(&machine, run)
        };
        let found = with(4.0, &|_| ());
        assert_eq!((found.len(), found[0].severity), (1, Warning));
        assert!(found[0].summary.contains("67 %"), "{}", found[0].summary);
        assert_eq!(with(11.0, &|_| ()), vec![]);
        assert_eq!(with(4.0, &|o| o.matrix.p2p = Some(false)), vec![], "another test");
        assert_eq!(with(4.0, &|o| o.matrix.direction = Some(Direction::Bidirectional)), vec![]);
        assert_eq!(with(4.0, &|o| o.origin.source = "other.txt".into()), vec![], "another text");
    }
}
