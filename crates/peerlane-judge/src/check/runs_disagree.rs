//! One test that was run twice on a machine, with other results.

use std::collections::HashMap;

use super::view::{Cell, End, Raised, View};
use super::words::percent;
use super::{Certainty, Finding, FindingKind, Rule, Severity, confirm};
use peerlane_machine::machine::SourcedMatrix;
use peerlane_machine::matrix::Matrix;

pub(super) const RULE: Rule = Rule { id: "runs-disagree", breaks: false, run };

/// Apart by more of the greater is no noise of a program that averages.
const APART: f64 = 0.25;

/// From here on it is no note any more.
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

fn run(view: &View) -> Vec<Raised> {
    // what was measured here knows its own spread; what was published may be of several machines
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
                let twice = if a.rate > b.rate {
                    Twice { high: (one, a), low: (other, b) }
                } else {
                    Twice { high: (other, b), low: (one, a) }
                };
                if twice.apart() > worst.as_ref().map_or(APART, Twice::apart) {
                    worst = Some(twice);
                }
            }
        }
    }
    let Some(worst) = worst else { return Vec::new() };
    let ((high, best), (low, least)) = (&worst.high, &worst.low);
    let subjects = vec![view.subject(&high.matrix, best)];
    let finding = Finding {
        summary: format!(
            "Two runs of {} differ by {}: {} {} beside {}",
            high.origin.tool,
            percent(worst.apart()),
            view.arrow(&high.matrix, best),
            best.rate,
            least.rate
        ),
        expected: format!("the same within {}", percent(APART)),
        measured: format!("{} and {} ({})", best.rate, least.rate, high.matrix.describe()),
        evidence: view.cite([&high.origin, &low.origin]),
        fix: "Look for what differs: the memory's NUMA node (numactl -m), buffer size, a setting or driver changed in \
               between, other load, a link or clock that sleeps. The better one is what the machine can do."
            .to_owned(),
        confirm: confirm::pairs("pairs,host", &[]),
        ..Finding::of(
            &RULE,
            FindingKind::Measurement,
            if worst.apart() >= MUCH { Severity::Warning } else { Severity::Info },
            Certainty::Certain,
            subjects,
        )
    };
    vec![Raised::new(finding, 0.0)]
}

/// Whether two matrices are of the same test, of the same program in the same text.
fn is_same(a: &SourcedMatrix, b: &SourcedMatrix) -> bool {
    let key = |m: &Matrix| (m.direction, m.p2p, m.op, m.engine, m.size);
    let place = |o: &SourcedMatrix| (o.origin.source.clone(), o.origin.tool);
    let ends = |m: &Matrix| (m.rows.clone(), m.cols.clone());
    key(&a.matrix) == key(&b.matrix)
        && a.matrix.title == b.matrix.title
        && place(a) == place(b)
        && ends(&a.matrix) == ends(&b.matrix)
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
        assert_eq!((found.len(), found[0].severity), (1, Severity::Warning));
        assert!(found[0].summary.contains("67 %"), "{}", found[0].summary);
        assert_eq!(with(11.0, &|_| ()), vec![]);
        assert_eq!(with(4.0, &|o| o.matrix.p2p = Some(false)), vec![], "another test");
        assert_eq!(with(4.0, &|o| o.matrix.direction = Some(Direction::Bidirectional)), vec![]);
        assert_eq!(with(4.0, &|o| o.origin.source = "other.txt".into()), vec![], "another text");
    }
}
