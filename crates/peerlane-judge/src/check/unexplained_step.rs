//! Steps of a record by what the model says of each alone: of message sizes, sets of transfers, collectives and host memory a bound
//! more often than a prediction, so that only what is far from it is reported.

use super::prelude::*;
use peerlane_machine::transfer::HostMemory;
use peerlane_machine::units::Bytes;
use peerlane_measure::kinds::{Size, Step, Test, Work, expected};
use peerlane_measure::run::{Cell, ends};

pub(super) const RULE: Rule = Rule::new("unexplained-step", Look::Left(beyond));

/// So many times worse than what the model says is far from it. Of sound machines (captures/), the farthest are host memory alone, of
/// which the model knows only the bus (2.6 times), small copies (2.5) and NCCL's send-receive (2.1).
const FAR: f64 = 4.0;

/// Smaller messages are a matter of start-up times, which differ from machine to machine more than rates do.
const LARGE: Bytes = Bytes::from_mib(1);

/// A step that is far from what the model says.
struct Far<'c> {
    cell: &'c Cell,
    value: f64,
    expected: f64,
    times: f64,
}

/// The families of which something was measured, by name, and whether any of it is compared with what the model says. Families of
/// transfers are all `rates`, but for those of memory whose copies are not predicted.
pub(super) fn families(view: &View) -> Vec<(&'static str, bool)> {
    let by_name = grouped(measured(view).map(|cell| (family(cell), cell)));
    // matrices are compared whatever the size ([`unexplained_value`](super::unexplained_value))
    let is_judged = |cell: &Cell| cell.size >= LARGE || cell.work.kind().place(cell.test).is_some();
    let is_compared = |cell: &&Cell| is_judged(cell) && by_model(view, cell).is_some();
    by_name.into_iter().map(|(name, cells)| (name, cells.iter().any(is_compared))).collect()
}

fn family(cell: &Cell) -> &'static str {
    match &cell.work {
        Work::Rdma(_) => "NICs",
        Work::Transfers(all) if cell.test != Test::Sizes && all.iter().all(|t| t.memory == HostMemory::Pinned) => {
            "rates"
        }
        _ => cell.test.name(),
    }
}

fn measured<'v>(view: &'v View) -> impl Iterator<Item = &'v Cell> {
    view.case.run().into_iter().flat_map(|run| &run.cells).filter(|cell| cell.value().is_some_and(|value| value > 0.0))
}

/// What the model says of a cell's step, in the cell's unit.
fn by_model(view: &View, cell: &Cell) -> Option<f64> {
    let step = Step { test: cell.test, work: cell.work.clone(), size: Size::Exactly(cell.size) };
    expected(view.model, &step, (cell.quantity, cell.unit)).filter(|value| *value > 0.0)
}

/// Steps that are far from what the model says, and that no finding explains: a finding for each family.
fn beyond(view: &View, known: &[Raised]) -> Vec<Raised> {
    let far = measured(view).filter(|cell| cell.size >= LARGE).filter_map(|cell| {
        let (value, expected) = (cell.value()?, by_model(view, cell)?);
        let times = if cell.unit.time(1.0).is_some() { value / expected } else { expected / value };
        let nodes = cell.work.nodes();
        let is_far = times > FAR && !known.iter().any(|raised| raised.explains(&nodes));
        is_far.then_some(Far { cell, value, expected, times })
    });
    let by_family = grouped(far.map(|far| (far.cell.test, far)));
    by_family.into_iter().filter_map(|(test, far)| report(view, test, &far)).collect()
}

fn report(view: &View, test: Test, far: &[Far]) -> Option<Raised> {
    let worst = highest(far, |far| far.times)?;
    let Far { cell, value, expected, times } = worst;
    let unit = cell.unit.name();
    let more = if far.len() > 1 { format!(", and {} more like it", far.len() - 1) } else { String::new() };
    let raised = RULE
        .raise(Fault, Warning, Possible)
        .summary(format!("Nothing known explains what was measured of {} ({test}){more}", ends(&cell.work)))
        .expected(format!("about {expected:.2} {unit} at {}, by the rates of its paths alone", cell.size))
        .measured(format!("{value:.2} {unit}"))
        .evidence(view.cite_run())
        .fix("Measure again on an idle machine. If the value stays, compare it with the same step of another machine of the kind.")
        .confirm(format!("`peerlane measure --tests {test} -o run.json`, then `peerlane check run.json`"))
        .about_nodes(distinct(far.iter().flat_map(|far| far.cell.work.gpus())))
        .losing(1.0 - 1.0 / times);
    Some(raised)
}

#[cfg(test)]
mod tests {
    use super::super::testing::see_with;
    use super::*;
    use peerlane_design::case::Case;
    use peerlane_measure::run::Run;
    use peerlane_read::catalogue::Parts;

    const SOUND: &str = include_str!("../../../../captures/h200x4-vm-runs/collectives.json");

    /// Findings on a record of four sound GPUs with all its values this many times as good, and what was compared.
    fn with(factor: f64) -> (Vec<String>, Vec<(&'static str, bool)>) {
        let mut run = Run::from_json(SOUND).unwrap();
        for cell in &mut run.cells {
            let by = if cell.unit.time(1.0).is_some() { 1.0 / factor } else { factor };
            if let Some(estimate) = &mut cell.estimate {
                estimate.value *= by;
            }
        }
        let case = Case::of_run(run, "run.json").unwrap();
        see_with(&case, Parts::embedded(), |view| {
            let found = beyond(view, &[]).into_iter().map(|raised| raised.finding.summary);
            (found.collect(), families(view))
        })
    }

    #[test]
    fn a_finding_about_its_nic_explains_a_step() {
        use peerlane_machine::matrix::Operation;
        use peerlane_machine::transfer::{NicEnd, Rdma};
        let of_host = |nic: &str| NicEnd { nic: nic.to_owned(), memory: "host0".to_owned() };
        let work = Work::Rdma(Rdma::of_host(of_host("mlx5_0"), of_host("mlx5_1"), Operation::Write));
        let about = |node: &str| {
            Raised::new("nic-slow", Fault, Error, Likely).about_nodes([node.to_owned()]).explains(&work.nodes())
        };
        assert_eq!([about("mlx5_0"), about("mlx5_1"), about("host0"), about("mlx5_2")], [true, true, true, false]);
    }

    #[test]
    fn a_tenth_of_what_rings_carry_is_reported_and_half_is_not() {
        assert_eq!(with(1.0), (vec![], vec![("collectives", true)]));
        let (found, _) = with(0.1);
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].starts_with("Nothing known explains what was measured of send-receive of GPU0"), "{found:?}");
    }
}
