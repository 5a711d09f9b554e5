//! Sets of transfers that together are far slower than the links that they share allow.

use super::prelude::*;
use peerlane_machine::transfer::Transfer;
use peerlane_measure::run::{TransferSet, ends, sets};
use peerlane_model::expectation::expect_set;

pub(super) const RULE: Rule = Rule::new("contended-slow", One(run));

/// Sets that are checked; a run of all subsets has a thousand, which show the same.
const MOST: usize = 256;

/// Share of its expected rate that each transfer must reach alone, or contention is not what slows the set.
const SOUND: f64 = 0.75;

struct Slow<'a> {
    set: TransferSet<'a>,
    expected: f64,
    value: f64,
}

impl Slow<'_> {
    fn share(&self) -> f64 {
        self.value / self.expected
    }
}

fn run(view: &View) -> Option<Raised> {
    let several = sets(&view.case.run()?.cells).into_iter().filter(|s| s.transfers.len() > 1).take(MOST);
    let slow: Vec<Slow> = several.filter_map(|set| judge(view, set)).collect();
    let worst = lowest(&slow, |s| s.share())?;
    let Slow { set, expected, value } = worst;
    let fabric = view.fabric();
    let is_gpu = |name: &&str| fabric.find(name).is_some_and(|id| fabric.node(id).kind == NodeKind::Gpu);
    let transfers = slow.iter().flat_map(|s| s.set.transfers);
    let raised = RULE
        .raise(Fault, Warning, Possible)
        .summary(format!(
            "{} slow together but not alone: {} reach {} of what their links allow",
            if slow.len() == 1 { "One set of transfers is".to_owned() } else { format!("{} sets of transfers are", slow.len()) },
            ends(&set.cell.work),
            percent(worst.share())
        ))
        .expected(format!("{expected:.2} GB/s in total; each alone reaches its expected rate"))
        .measured(format!("{value:.2} GB/s in total"))
        .evidence(view.cite_run())
        .fix(
            "Let the receivers read, stagger the transfers, or spread them over other ports. Some PCIe 5.0 switches lose \
             nearly all of the rate where posted writes meet at one port, and little of it for reads: update the switch's \
             firmware, and check that its ports do not redirect (`lspci -vvv | grep ACSCtl`).",
        )
        .confirm(confirm::pairs("one-to-all,all-to-one,permutations", &[]))
        .cost(Cost::of_rate(*expected, *value))
        .about_nodes(set.cell.work.gpus().into_iter().filter(is_gpu))
        .losing(1.0 - worst.share())
        .shown_by(transfers.map(|t| (t.source.clone(), t.destination.clone())));
    Some(raised)
}

/// A set that is slow although each of its transfers is not.
fn judge<'a>(view: &View, set: TransferSet<'a>) -> Option<Slow<'a>> {
    let value = set.cell.value()?;
    let expect =
        |transfers: &[Transfer]| Some(expect_set(view.model, transfers)?.iter().map(|a| a.rate.gb()).sum::<f64>());
    let expected = expect(set.transfers)?;
    let sound = |(transfer, alone): (&Transfer, &Option<f64>)| {
        let expected = expect(std::slice::from_ref(transfer));
        alone.zip(expected).is_some_and(|(alone, expected)| alone > SOUND * expected)
    };
    let slow = value < view.settings.contended_slow.slow * expected && set.transfers.iter().zip(&set.alone).all(sound);
    slow.then_some(Slow { set, expected, value })
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
        see_with(&case, Parts::embedded(), |view| super::run(view).iter().count())
    }

    #[test]
    fn only_a_set_that_collapses_in_company_counts() {
        assert_eq!(found(0.1, 12.5), 1);
        assert_eq!((found(0.8, 12.5), found(0.1, 3.0)), (0, 0));
    }
}
