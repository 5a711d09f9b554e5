//! A first row that is low because the program measures it while the GPUs' clocks still rise.

use super::prelude::*;
use peerlane_read::evidence::tool;

pub(super) const RULE: Rule = Rule::new("first-row-warm-up", One(run));

/// The program that does not warm up before its first cells.
const PROGRAM: &str = tool::P2P_TEST;

/// How far below its column's other cells a first cell is after a cold start.
const LOW: std::ops::Range<f64> = 0.02..0.15;

/// The first GPU as a destination must reach this share of the usual, or the GPU itself is slow.
const SOUND: f64 = 0.98;

/// How far below the others the first row is (the mean over its cells), if it looks like a cold start.
pub(super) fn shortfall(view: &View, measured: &SourcedMatrix) -> Option<f64> {
    if program(measured) != PROGRAM {
        return None;
    }
    let cells = view.gpu_cells(&measured.matrix);
    let class = |c: &Cell| c.nodes().and_then(|(a, b)| view.class(a, b));
    let first = cells.first().filter(|c| c.i == 0)?;
    let mut gaps = Vec::new();
    for cell in cells.iter().filter(|c| c.i == 0) {
        let same = |c: &&Cell| c.j == cell.j && c.i != 0 && class(c) == class(cell);
        let Some(usual) = median(cells.iter().filter(same).map(|c| c.rate.gb())) else { continue };
        gaps.push(1.0 - cell.rate.gb() / usual);
    }
    if gaps.len() < 2 || !gaps.iter().all(|gap| LOW.contains(gap)) {
        return None;
    }
    let back = median(cells.iter().filter(|c| c.to == first.from).map(|c| c.rate.gb()))?;
    let rest = median(cells.iter().filter(|c| c.i != 0 && c.to != first.from).map(|c| c.rate.gb()))?;
    (back >= SOUND * rest).then(|| gaps.iter().sum::<f64>() / gaps.len() as f64)
}

fn run(view: &View) -> Option<Raised> {
    let cold: Vec<(&SourcedMatrix, f64)> =
        view.bandwidths().filter_map(|(_, o)| Some((o, shortfall(view, o)?))).collect();
    let (worst, gap) = highest(&cold, |(_, gap)| *gap)?;
    let first = worst.matrix.rows.first()?;
    let raised = RULE
        .raise(Measurement, Info, Likely)
        .summary(format!("All of {first}'s row is low: the program starts cold and measures that row first"))
        .expected("a first row like the others, as its mirror column is")
        .measured(format!("on average {} below the other rows ({})", percent(*gap), worst.matrix.describe()))
        .evidence(view.cite(cold.iter().flat_map(|(o, _)| origins(o))))
        .fix("Run the program twice and use the second run, or read the first column instead of the first row.")
        .confirm("`peerlane measure --tests pairs`, which warms up first")
        .about_nodes([first]);
    Some(raised)
}

#[cfg(test)]
mod tests {
    use super::super::testing::{findings, switched, uniform};
    use super::*;

    const COLD: [(usize, usize, f64); 3] = [(0, 1, 362.4), (0, 2, 374.9), (0, 3, 376.2)];

    #[test]
    fn a_cold_first_row_is_good_to_know() {
        let mut machine = switched(4);
        machine.matrices.push(uniform(4, 392.0, &COLD));
        let found = findings(&machine, run);
        assert_eq!((found.len(), found[0].severity), (1, Info));
        machine.matrices[0].origin.tool = "nvbandwidth";
        assert!(findings(&machine, run).is_empty());
        machine.matrices[0].matrix.title = format!("{PROGRAM}, one way");
        machine.matrices[0].published = true;
        assert_eq!(findings(&machine, run).len(), 1);
    }

    #[test]
    fn a_slow_first_gpu_is_not_cold() {
        let mut machine = switched(4);
        let column = COLD.iter().map(|(i, j, v)| (*j, *i, *v));
        machine.matrices.push(uniform(4, 392.0, &COLD.into_iter().chain(column).collect::<Vec<_>>()));
        assert!(findings(&machine, run).is_empty());
    }

    #[test]
    fn one_low_cell_is_no_low_row() {
        let mut machine = switched(4);
        machine.matrices.push(uniform(4, 392.0, &COLD[..1]));
        assert!(findings(&machine, run).is_empty());
    }
}
