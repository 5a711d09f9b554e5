//! Sets of transfers that are far slower together than the links that they share allow.

use super::from_run::measured;
use super::view::{Raised, View};
use super::words::percent;
use super::{Certainty, Cost, Finding, FindingKind, Rule, Severity, confirm};
use peerlane_machine::fabric::NodeKind;
use peerlane_machine::subject::Subject;
use peerlane_measure::run::{self, TransferSet};
use peerlane_model::expectation::expect_set;

pub(super) const RULE: Rule = Rule { id: "contended-slow", breaks: false, run };

/// Sets that are judged; a run of all subsets has a thousand, which say the same.
const MOST: usize = 256;

/// The sum alone must be met by this share, or the members are slow without company.
const SOUND: f64 = 0.75;

struct Slow<'a> {
    set: TransferSet<'a>,
    expected: f64,
    value: f64,
}

fn run(view: &View) -> Vec<Raised> {
    let Some(measured) = measured(view) else { return Vec::new() };
    let mut worst: Option<Slow> = None;
    let mut count = 0;
    let mut pairs: Vec<(String, String)> = Vec::new();
    for set in run::sets(&measured.cells).into_iter().filter(|s| s.transfers.len() > 1).take(MOST) {
        let Some(value) = set.cell.value() else { continue };
        let Some(answers) = expect_set(view.model, set.transfers) else { continue };
        let expected: f64 = answers.iter().map(|a| a.rate.gb()).sum();
        // each alone must reach what it should, or what is slow is not the company
        let alone = |(t, seen): (&peerlane_machine::transfer::Transfer, &Option<f64>)| {
            let told = expect_set(view.model, std::slice::from_ref(t)).and_then(|a| a.first().map(|a| a.rate.gb()));
            seen.zip(told).is_some_and(|(seen, told)| seen > SOUND * told)
        };
        if value < view.settings.contended_slow.slow * expected && set.transfers.iter().zip(&set.alone).all(alone) {
            count += 1;
            pairs.extend(set.transfers.iter().map(|t| (t.source.clone(), t.destination.clone())));
            if worst.as_ref().is_none_or(|w| value / expected < w.value / w.expected) {
                worst = Some(Slow { set, expected, value });
            }
        }
    }
    let Some(Slow { set, expected, value }) = worst else { return Vec::new() };
    let mut subjects: Vec<String> = set.cell.work.gpus().into_iter().map(str::to_owned).collect();
    subjects.retain(|name| view.fabric().find(name).is_some_and(|id| view.fabric().node(id).kind == NodeKind::Gpu));
    let finding = Finding {
        summary: format!(
            "{} slow together and not alone: {} reach {} of what their links share",
            if count == 1 { "One set of transfers is".to_owned() } else { format!("{count} sets of transfers are") },
            run::ends(&set.cell.work),
            percent(value / expected)
        ),
        expected: format!("{expected:.2} GB/s in all, each alone being as fast as it should"),
        measured: format!("{value:.2} GB/s in all"),
        evidence: view.cite(view.case.run.iter().map(|recorded| &recorded.origin)),
        fix: "Some switches of PCIe 5.0 lose nearly all of the rate where posted writes meet on one port, and reads \
               none: let the receivers read, take turns, or spread the transfers over other ports; look for newer \
               firmware of the switch."
            .to_owned(),
        confirm: confirm::pairs("one-to-all,all-to-one,permutations", &[]),
        cost: Cost::of_rate(expected, value),
        ..Finding::of(&RULE, FindingKind::Fault, Severity::Warning, Certainty::Possible, Subject::nodes_of(subjects))
    };
    vec![Raised::new(finding, 1.0 - value / expected).shown_by(pairs)]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::testing::{measured, see_with};
    use peerlane_machine::transfer::Transfer;
    use peerlane_measure::plan::{Test, Work};
    use peerlane_measure::run::Estimate;
    use peerlane_read::catalogue::{Parts, system};

    /// Two GPUs that write into a third at `share` of what the model gives the two together.
    fn found(share: f64, alone: f64) -> usize {
        let machine = system("exxact-devbox").unwrap().unwrap();
        let mut case = measured(machine, [(("GPU0", "GPU2"), Ok(alone)), (("GPU1", "GPU2"), Ok(alone))]);
        let set = vec![Transfer::new("GPU0", "GPU2"), Transfer::new("GPU1", "GPU2")];
        let model = peerlane_model::model::Model::new(&case.machine, Parts::embedded());
        let value = share * expect_set(&model, &set).unwrap().iter().map(|a| a.rate.gb()).sum::<f64>();
        let run = &mut case.run.as_mut().unwrap().run;
        let mut cell = run.cells[0].clone();
        (cell.test, cell.work) = (Test::AllToOne, Work::Transfers(set));
        cell.estimate = Some(Estimate { value, low: value, high: value });
        run.cells.push(cell);
        see_with(&case, Parts::embedded(), |view| super::run(view).len())
    }

    #[test]
    fn only_a_set_that_collapses_in_company_counts() {
        assert_eq!(found(0.1, 12.5), 1);
        assert_eq!((found(0.8, 12.5), found(0.1, 3.0)), (0, 0));
    }
}
