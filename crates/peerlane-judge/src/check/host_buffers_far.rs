//! Host copies that are slow for all GPUs of one socket: the buffers lie on the other.

use std::collections::BTreeMap;

use super::view::{Cell, End, Raised, View};
use super::words::{list, median, percent};
use super::{Certainty, Cost, Finding, FindingKind, Rule, Severity};
use peerlane_machine::fabric::{NodeId, NodeKind};
use peerlane_machine::matrix::Direction;
use peerlane_machine::subject::Subject;

pub(super) const RULE: Rule = Rule { id: "host-buffers-far", breaks: false, run };

/// How far below the other socket's all GPUs of one must be.
const BELOW: f64 = 0.12;

/// How close those of one socket are to each other.
const ALIKE: f64 = 0.06;

/// GPUs on each socket.
const FEWEST: usize = 2;

fn run(view: &View) -> Vec<Raised> {
    let mut raised = Vec::new();
    for (at, measured) in view.bandwidths() {
        // both ways at once, and by which NUMA node, is another matter
        if measured.matrix.direction != Some(Direction::Unidirectional) {
            continue;
        }
        let Some((near, far)) = sides(view, at, &view.cells(&measured.matrix)) else { continue };
        let worst = far.iter().min_by(|a, b| a.1.rate.gb().total_cmp(&b.1.rate.gb()));
        let Some((_, worst)) = worst else { continue };
        let usual = median(near.iter().map(|(_, c)| c.rate.gb())).unwrap_or_default();
        let subjects: Vec<String> = far.iter().map(|(id, _)| view.name(*id).to_owned()).collect();
        let share = 1.0 - worst.rate.gb() / usual;
        let finding = Finding {
            summary: format!(
                "Host copies of {} are {} slower than those of the other socket's GPUs: the buffers seem to lie there",
                list(&subjects),
                percent(share)
            ),
            expected: format!("about {usual:.2} GB/s, as the other socket's GPUs reach"),
            measured: format!("{} {} ({})", view.arrow(&measured.matrix, worst), worst.rate, measured.matrix.describe()),
            evidence: view.cite_matrix(measured),
            fix: "Bind the process and its memory to the GPU's own NUMA node (`numactl --cpunodebind=N --membind=N`), and \
                   each rank of a job likewise."
                .to_owned(),
            confirm: "`peerlane measure --tests host,numa`".to_owned(),
            cost: Cost::of_rate(usual, worst.rate.gb()),
            ..Finding::of(&RULE, FindingKind::Measurement, Severity::Info, Certainty::Likely, Subject::nodes_of(subjects))
        };
        raised.push(Raised::new(finding, share));
        // one matrix is enough to say it
        break;
    }
    raised
}

/// GPUs with their cells, of the faster and of the slower socket.
type Sides = (Vec<(NodeId, Cell)>, Vec<(NodeId, Cell)>);

fn sides(view: &View, at: usize, cells: &[Cell]) -> Option<Sides> {
    let fabric = view.fabric();
    let mut by_socket: BTreeMap<NodeId, Vec<(NodeId, Cell)>> = BTreeMap::new();
    for cell in cells {
        let gpu = match (cell.from, cell.to) {
            (End::Host, End::Node(id)) | (End::Node(id), End::Host) => id,
            _ => return None,
        };
        if fabric.node(gpu).kind == NodeKind::Gpu {
            by_socket.entry(fabric.package(gpu)?).or_default().push((gpu, *cell));
        }
    }
    let mut sides: Vec<Vec<(NodeId, Cell)>> = by_socket.into_values().collect();
    if sides.len() != 2 || sides.iter().any(|s| s.len() < FEWEST) {
        return None;
    }
    // what links or products explain is no matter of buffers
    let told: Vec<f64> = sides.concat().iter().filter_map(|(_, c)| view.expected_rate(at, c)).map(|r| r.gb()).collect();
    let product = |id: NodeId| (fabric.node(id).product.clone(), fabric.node(id).part.clone());
    let all: Vec<_> = sides.iter().flatten().map(|(id, _)| product(*id)).collect();
    let uneven = |of: &[f64]| {
        let (low, high) = of.iter().fold((f64::MAX, 0.0_f64), |(l, h), v| (l.min(*v), h.max(*v)));
        low < (1.0 - ALIKE) * high
    };
    if uneven(&told) && !told.is_empty() || all.windows(2).any(|w| w[0] != w[1]) {
        return None;
    }
    let rates = |side: &[(NodeId, Cell)]| side.iter().map(|(_, c)| c.rate.gb()).collect::<Vec<f64>>();
    if sides.iter().any(|s| uneven(&rates(s))) {
        return None;
    }
    let middle = |side: &Vec<(NodeId, Cell)>| median(rates(side)).unwrap_or_default();
    sides.sort_by(|a, b| middle(b).total_cmp(&middle(a)));
    let (far, near) = (sides.pop()?, sides.pop()?);
    (middle(&far) < (1.0 - BELOW) * middle(&near)).then_some((near, far))
}

#[cfg(test)]
mod tests {
    use super::super::testing::{boxes, captured, findings, uniform};
    use super::*;

    fn found(rates: [f64; 4]) -> Vec<String> {
        let mut machine = captured(boxes(&[2, 2], false));
        let mut measured = uniform(4, 0.0, &[]);
        measured.matrix.rows = vec!["host".to_owned()];
        measured.matrix.values = vec![rates.map(Some).to_vec()];
        measured.matrix.p2p = None;
        machine.matrices.push(measured);
        findings(&machine, run).into_iter().flat_map(|f| f.subjects).map(|s| s.to_string()).collect()
    }

    #[test]
    fn only_a_whole_socket_that_is_slow_alike() {
        assert_eq!(found([12.0, 12.1, 9.0, 9.1]), ["GPU2", "GPU3"]);
        assert!(found([12.0, 12.1, 11.5, 11.4]).is_empty());
        assert!(found([12.0, 12.1, 9.0, 12.1]).is_empty());
        assert!(found([12.0, 6.0, 12.0, 6.0]).is_empty());
    }
}
