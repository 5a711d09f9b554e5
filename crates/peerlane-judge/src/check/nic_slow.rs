//! NICs that are slower than their links and lines explain: out and back through one, and from one to another.
//!
//! What is slow by loopback is slow between memory and adapter; what is slow to others only, beyond the adapter.

use std::collections::HashSet;

use super::culprit::{Role, blame};
use super::prelude::*;
use super::slow_path::narrower;
use super::view::cells::as_rate;
use peerlane_machine::matrix::Operation;
use peerlane_machine::units::Rate;
use peerlane_model::comparison::{Expected, Series};

pub(super) const RULE: Rule = Rule::new("nic-slow", Many(run));

/// A rate with what should be in its place.
pub(super) struct Compared<'a> {
    pub(super) matrix: &'a SourcedMatrix,
    pub(super) cell: Cell,
    expected: Rate,
    binding: &'a str,
    pub(super) slow: bool,
}

impl Compared<'_> {
    pub(super) fn share(&self) -> f64 {
        self.cell.rate.bytes_per_second() / self.expected.bytes_per_second()
    }
}

fn run(view: &View) -> Vec<Raised> {
    let mut raised = Vec::new();
    // reads and writes of one NIC are one finding
    let mut named: HashSet<NodeId> = HashSet::new();
    for (matrix, series) in view.between_nics() {
        let (loopbacks, others): (Vec<Compared>, Vec<Compared>) =
            compared(view, matrix, series).into_iter().partition(|one| one.cell.from == one.cell.to);
        let sound: HashSet<End> = loopbacks.iter().filter(|one| !one.slow).map(|one| one.cell.from).collect();
        for one in loopbacks.iter().filter(|one| one.slow) {
            let End::Node(id) = one.cell.from else { continue };
            if named.insert(id) {
                raised.push(by_loopback(view, one, id));
            }
        }
        let is_named = |end: End, named: &HashSet<NodeId>| matches!(end, End::Node(id) if named.contains(&id));
        let open: Vec<&Compared> =
            others.iter().filter(|one| !is_named(one.cell.from, &named) && !is_named(one.cell.to, &named)).collect();
        let cells: Vec<Cell> = open.iter().map(|one| one.cell).collect();
        let bad: Vec<bool> = open.iter().map(|one| one.slow).collect();
        for group in blame(&cells, &bad) {
            let slow: Vec<&Compared> = group.cells.iter().filter_map(|at| open.get(*at).copied()).collect();
            match group.culprit {
                Some((End::Node(id), role)) => {
                    if named.insert(id) {
                        raised.extend(beyond(view, &slow, id, role, sound.contains(&End::Node(id))));
                    }
                }
                _ => raised.extend(between(view, &slow, slow.len() == open.len())),
            }
        }
    }
    raised
}

/// Whether rates of NICs were measured whose limit is known.
pub(super) fn is_comparable(view: &View) -> bool {
    view.between_nics().any(|(matrix, series)| !compared(view, matrix, series).is_empty())
}

/// NICs that are slow out and back through themselves, with host memory.
pub(super) fn slow_by_loopback(view: &View) -> HashSet<NodeId> {
    let all = view.between_nics().flat_map(|(matrix, series)| compared(view, matrix, series));
    let slow = all.filter(|one| one.slow && one.cell.from == one.cell.to);
    slow.filter_map(|one| if let End::Node(id) = one.cell.from { Some(id) } else { None }).collect()
}

/// Below this share of what is expected a rate is slow.
pub(super) fn limit(view: &View, matrix: &Matrix) -> f64 {
    let settings = view.settings.slow_path;
    if matrix.p2p == Some(false) { settings.staged } else { settings.slow }
}

/// All rates of a matrix, loopbacks too.
pub(super) fn compared<'a>(view: &View, measured: &'a SourcedMatrix, series: &'a Series) -> Vec<Compared<'a>> {
    let matrix = &measured.matrix;
    let end = |name: &String| view.fabric().find(name).map(End::Node);
    let mut all = Vec::new();
    for (i, row) in matrix.rows.iter().enumerate() {
        for (j, col) in matrix.cols.iter().enumerate() {
            let Some((from, to)) = end(row).zip(end(col)) else { continue };
            let Some(rate) = matrix.rate(i, j).filter(|rate| *rate > Rate::ZERO) else { continue };
            let Some(expected) = series.expected(i, j) else { continue };
            let of = |value: fn(&Expected) -> f64| as_rate(series, expected, value);
            let Some(should) = of(|expected| expected.value) else { continue };
            let cell = Cell { i, j, from, to, rate };
            let share = rate.bytes_per_second() / should.bytes_per_second();
            let slow = of(Expected::least).is_none_or(|least| rate < least) && share < limit(view, matrix);
            all.push(Compared { matrix: measured, cell, expected: should, binding: &expected.binding.words, slow });
        }
    }
    all
}

/// The pairs of rates, each once, and the same in words.
pub(super) fn subjects(view: &View, of: &[&Compared]) -> (Vec<Subject>, String) {
    let mut pairs: Vec<Subject> = Vec::new();
    for subject in of.iter().map(|one| view.subject(&one.matrix.matrix, &one.cell)) {
        if !pairs.iter().any(|known| known.is(&subject)) {
            pairs.push(subject);
        }
    }
    let ends = pairs.iter().filter_map(Subject::ends).map(|(a, b)| (a.to_owned(), b.to_owned()));
    let between = words::pairs(&ends.collect::<Vec<_>>());
    (pairs, between)
}

/// What a finding has in common.
pub(super) fn finding(
    view: &View,
    rule: &Rule,
    (kind, sure): (FindingKind, Certainty),
    slow: &[&Compared],
    summary: String,
) -> Option<Raised> {
    let worst = lowest(slow.iter().copied(), |one| one.share())?;
    let arrow = view.arrow(&worst.matrix.matrix, &worst.cell);
    let bound = if worst.binding.is_empty() { String::new() } else { format!(", bound by {}", worst.binding) };
    Some(
        rule.raise(kind, Warning, sure)
            .summary(summary)
            .expected(format!("{arrow} {}{bound}", worst.expected))
            .measured(view.quote(worst.matrix, &worst.cell))
            .evidence(view.cite(slow.iter().flat_map(|one| origins(one.matrix))))
            .cost(Cost::of_rate(worst.expected.gb(), worst.cell.rate.gb()))
            .losing(1.0 - worst.share()),
    )
}

/// A NIC that is slow by loopback.
fn by_loopback(view: &View, one: &Compared, id: NodeId) -> Raised {
    let nic = view.name(id);
    let links = view.fabric().upstream(id).map(|(link, _)| link);
    let fits = narrower(view, links, one.cell.rate);
    let hint = if fits.is_empty() {
        String::new()
    } else {
        format!("; {} is the rate of {}", one.cell.rate, fits.join(" or "))
    };
    let summary =
        format!("{nic} reaches {} of what it should, out and back through itself{hint}", percent(one.share()));
    let raised =
        finding(view, &RULE, (Fault, Likely), &[one], summary).unwrap_or_else(|| RULE.raise(Fault, Warning, Likely));
    raised
        .fix(
            "Reseat or move the card whose link is narrow (`lspci -vv`: the adapter's link and those above it); no \
             cable is involved. If the links have their full width, check the maximum read request, relaxed ordering \
             and the IOMMU (`iommu=pt`).",
        )
        .confirm(format!("`lspci -vv` of {nic}; {}", confirm::pairs("nic", &[view.node(id)])))
        .about(vec![view.node(id)])
}

/// A NIC that is slow with nearly all others.
fn beyond(view: &View, slow: &[&Compared], id: NodeId, role: Role, sound: bool) -> Option<Raised> {
    let nic = view.name(id);
    // of a read, data comes to the row
    let reads = slow.iter().all(|one| one.matrix.matrix.op == Some(Operation::Read));
    let way = match (role, reads) {
        (Role::Any, _) => "to and from",
        (Role::Source, false) | (Role::Destination, true) => "from",
        (Role::Destination, false) | (Role::Source, true) => "to",
    };
    let worst = lowest(slow.iter().copied(), |one| one.share())?;
    let (why, sure) = if sound {
        (", though it is fast out and back through itself: its cable or switch port", Likely)
    } else {
        ("", Possible)
    };
    let summary = format!("{} rates {way} {nic} reach {} of what they should{why}", slow.len(), percent(worst.share()));
    let raised = finding(view, &RULE, (Fault, sure), slow, summary)?;
    Some(
        raised
            .fix(
                "Replace the cable, then try another switch port. Port speed (`ibstat`) and error counters (`rdma \
                 statistic`, `perfquery`, `ethtool -S`), here and at the switch, show what is wrong.",
            )
            .confirm(format!("`ibstat {nic}`; {}", confirm::pairs("nic", &[view.node(id)])))
            .about(vec![view.node(id)]),
    )
}

/// Paths from NIC to NIC that no NIC explains.
fn between(view: &View, slow: &[&Compared], all: bool) -> Option<Raised> {
    let (pairs, between) = subjects(view, slow);
    let worst = lowest(slow.iter().copied(), |one| one.share())?;
    let summary = format!(
        "Rates between {} reach {} of what the NICs' lines carry: the network between them",
        between,
        percent(worst.share())
    );
    // where all are slow, the network may be meant so
    let kind = if all && slow.len() > 1 { Design } else { Fault };
    let raised = finding(view, &RULE, (kind, Possible), slow, summary)?;
    Some(
        raised
            .fix(
                "Find out which switches these pairs share, and what those carry. A pair on one rail, or without a switch between, shows \
                 whether the NICs are at fault.",
            )
            .confirm(confirm::pairs("nic", &pairs))
            .about(pairs),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::testing::see_expecting;
    use peerlane_machine::machine::{Machine, Spread};
    use peerlane_machine::matrix::{Engine, Quantity, Unit};
    use peerlane_machine::origin::Origin as Source;
    use peerlane_read::catalogue::{Parts, system};

    /// What is found where 49.7 GB/s are expected of each of four NICs, and these are measured.
    fn found(values: [[f64; 4]; 4]) -> Vec<String> {
        let mut machine: Machine = system("hgx-h200").unwrap().unwrap();
        let names: Vec<String> = (0..4).map(|i| format!("mlx5_{i}")).collect();
        let matrix = Matrix {
            quantity: Quantity::Bandwidth,
            direction: Some(Direction::Unidirectional),
            op: Some(Operation::Write),
            engine: Some(Engine::Nic),
            unit: Unit::GigabytesPerSecond,
            rows: names.clone(),
            cols: names,
            values: values.iter().map(|row| row.iter().map(|value| Some(*value)).collect()).collect(),
            ..Matrix::default()
        };
        let origin = Source { source: "run".into(), tool: "peerlane measure", lines: None };
        let spread = vec![vec![Some(Spread { n: 6, low: 0.0, high: 99.0 }); 4]; 4];
        let (also, published, known_cause) = (Vec::new(), false, None);
        machine.matrices.push(SourcedMatrix { matrix, origin, also, published, known_cause, spread });
        let expected = |_: &Matrix, _, _| Some(Expected::new(49.7, [47.0, 51.0], "its line"));
        see_expecting(&machine, Parts::embedded(), expected, |view| {
            run(view).into_iter().map(|raised| raised.finding.summary).collect()
        })
    }

    const SOUND: f64 = 49.6;

    fn with(low: impl Fn(usize, usize) -> bool, value: f64) -> [[f64; 4]; 4] {
        std::array::from_fn(|i| std::array::from_fn(|j| if low(i, j) { value } else { SOUND }))
    }

    #[test]
    fn a_loopback_tells_an_adapter_from_its_cable() {
        assert_eq!(found(with(|_, _| false, 0.0)), [""; 0]);
        let adapter = found(with(|i, j| i == 2 || j == 2, 24.9));
        assert_eq!(
            adapter,
            [
                "mlx5_2 reaches 50 % of what it should, out and back through itself; 24.90 GB/s is the rate of PCIe 5.0 x8 or \
              PCIe 4.0 x16"
            ]
        );
        let cable = found(with(|i, j| (i == 2) != (j == 2), 20.0));
        assert_eq!(
            cable,
            [
                "6 rates to and from mlx5_2 reach 40 % of what they should, though it is fast out and back through itself: its \
              cable or switch port"
            ]
        );
        let one_way = found(with(|i, j| i == 2 && j != 2, 20.0));
        assert_eq!(one_way.len(), 1);
        assert!(one_way[0].starts_with("3 rates from mlx5_2 reach 40 %"), "{one_way:?}");
    }

    #[test]
    fn what_no_adapter_explains_is_the_networks() {
        let pair = found(with(|i, j| (i, j) == (0, 3), 20.0));
        assert_eq!(
            pair,
            ["Rates between mlx5_0 and mlx5_3 reach 40 % of what the NICs' lines carry: the network between them"]
        );
        let all = found(with(|i, j| i != j, 30.0));
        assert_eq!(all.len(), 1);
        assert!(all[0].starts_with("Rates between any two of mlx5_0–mlx5_3 reach 60 %"), "{all:?}");
    }
}
