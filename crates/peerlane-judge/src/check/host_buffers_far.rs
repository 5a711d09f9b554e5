//! Host copies that are slow for all GPUs of one socket: the buffers are on the other.

use std::collections::BTreeMap;

use super::prelude::*;
use super::view::sources::is_ours;

pub(super) const RULE: Rule = Rule::new("host-buffers-far", One(run));

/// How far below the other socket's all GPUs of one must be.
const BELOW: f64 = 0.12;

/// How close those of one socket are to each other.
const ALIKE: f64 = 0.06;

/// GPUs on each socket.
const FEWEST: usize = 2;

fn run(view: &View) -> Option<Raised> {
    let (measured, (near, far)) = all(view, |_| true).next()?;
    let (_, worst) = lowest(&far, |(_, cell)| cell.rate.gb())?;
    let usual = median(near.iter().map(|(_, c)| c.rate.gb())).unwrap_or_default();
    let names: Vec<&str> = far.iter().map(|(id, _)| view.name(*id)).collect();
    let share = 1.0 - worst.rate.gb() / usual;
    // our own buffers are next to each GPU, as far as the machine lets them be
    let (kind, severity, fix) = if is_ours(measured) {
        let fix = "Let the operating system know both sockets (NUMA on in the BIOS, the GPUs' NUMA nodes passed to a virtual \
                   machine), and see that no container or job is held to one socket's memory (`numactl --show`).";
        (Fault, Warning, fix)
    } else {
        let fix = "Bind the process and its memory to the GPU's own NUMA node (`numactl --cpunodebind=N --membind=N`), and \
                   do the same for each rank of a job.";
        (Measurement, Info, fix)
    };
    let raised = RULE
        .raise(kind, severity, Likely)
        .summary(format!(
            "Host copies of {} are {} slower than those of the other socket's GPUs: the buffers seem to be there",
            list(&names),
            percent(share)
        ))
        .expected(format!("about {usual:.2} GB/s, as the other socket's GPUs reach"))
        .measured(view.quote(measured, worst))
        .evidence(view.cite_matrix(measured))
        .fix(fix)
        .confirm("`peerlane measure --tests host,numa`")
        .cost(Cost::of_rate(usual, worst.rate.gb()))
        .about_nodes(names)
        .losing(share);
    Some(raised)
}

/// Of these matrices, those in which one socket's GPUs are slow, with the GPUs.
fn all<'a>(view: &View<'a>, of: fn(&SourcedMatrix) -> bool) -> impl Iterator<Item = (&'a SourcedMatrix, Sides)> {
    // copies both ways at once, and by NUMA node, are something else
    let one_way = move |o: &SourcedMatrix| o.matrix.direction == Some(Direction::Unidirectional) && of(o);
    let one_way = view.bandwidths().filter(move |(_, o)| one_way(o));
    one_way.filter_map(|(at, o)| Some((o, sides(view, at, &view.cells(&o.matrix))?)))
}

/// GPUs whose copies to or from the host are slow because of where our own buffers are.
pub(super) fn explained(view: &View) -> Vec<NodeId> {
    all(view, is_ours).flat_map(|(_, (_, far))| far.into_iter().map(|(id, _)| id)).collect()
}

/// GPUs with their cells, of the faster and of the slower socket.
type Sides = (Vec<(NodeId, Cell)>, Vec<(NodeId, Cell)>);

fn sides(view: &View, at: usize, cells: &[Cell]) -> Option<Sides> {
    let fabric = view.fabric();
    let mut by_socket: BTreeMap<NodeId, Vec<(NodeId, Cell)>> = BTreeMap::new();
    for cell in cells {
        let (gpu, _) = cell.with_host()?;
        if fabric.node(gpu).kind == NodeKind::Gpu {
            by_socket.entry(fabric.package(gpu)?).or_default().push((gpu, *cell));
        }
    }
    let mut sides: Vec<Vec<(NodeId, Cell)>> = by_socket.into_values().collect();
    if sides.len() != 2 || sides.iter().any(|s| s.len() < FEWEST) {
        return None;
    }
    // what links or products explain is not due to buffers
    let expected: Vec<f64> = sides.iter().flatten().filter_map(|(_, c)| view.expected_gb(at, c)).collect();
    let product = |id: NodeId| (&fabric.node(id).product, &fabric.node(id).part);
    let products = distinct(sides.iter().flatten().map(|(id, _)| product(*id)));
    let uneven = |of: &[f64]| {
        let (low, high) = of.iter().fold((f64::MAX, 0.0_f64), |(l, h), v| (l.min(*v), h.max(*v)));
        !of.is_empty() && low < (1.0 - ALIKE) * high
    };
    let rates = |side: &[(NodeId, Cell)]| side.iter().map(|(_, c)| c.rate.gb()).collect::<Vec<f64>>();
    if uneven(&expected) || products.len() > 1 || sides.iter().any(|s| uneven(&rates(s))) {
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
    use crate::finding::Finding;

    fn found(rates: [f64; 4]) -> Vec<String> {
        raised(rates, "bandwidthTest").into_iter().flat_map(|f| f.subjects).map(|s| s.to_string()).collect()
    }

    fn raised(rates: [f64; 4], tool: &'static str) -> Vec<Finding> {
        let mut machine = captured(boxes(&[2, 2], false));
        let mut measured = uniform(4, 0.0, &[]);
        measured.matrix.rows = vec!["host".to_owned()];
        measured.matrix.values = vec![rates.map(Some).to_vec()];
        measured.matrix.p2p = None;
        measured.origin.tool = tool;
        machine.matrices.push(measured);
        findings(&machine, run)
    }

    #[test]
    fn only_a_whole_socket_that_is_slow_alike() {
        assert_eq!(found([12.0, 12.1, 9.0, 9.1]), ["GPU2", "GPU3"]);
        assert!(found([12.0, 12.1, 11.5, 11.4]).is_empty());
        assert!(found([12.0, 12.1, 9.0, 12.1]).is_empty());
        assert!(found([12.0, 6.0, 12.0, 6.0]).is_empty());
    }

    #[test]
    fn where_our_own_buffers_are_is_the_machines_fault() {
        let of =
            |tool| raised([12.0, 12.1, 9.0, 9.1], tool).into_iter().map(|f| (f.kind, f.severity)).collect::<Vec<_>>();
        assert_eq!(of("bandwidthTest"), [(Measurement, Info)]);
        assert_eq!(of(peerlane_measure::run::TOOL), [(Fault, Error)]);
    }
}
