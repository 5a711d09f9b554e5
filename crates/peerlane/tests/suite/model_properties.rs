//! What must hold of predictions on any machine: random trees of switches below two sockets.

use peerlane::catalogue::Parts;
use peerlane::expectation::predict;
use peerlane::fabric::{LinkKind, NodeId, NodeKind, PcieGeneration, PcieWidth};
use peerlane::machine::Machine;
use peerlane::matrix::{Engine, Operation};
use peerlane::model::{Model, PeerAccess, Transfer};
use proptest::prelude::*;

use crate::common::machines::{QUEUEING, machine, shape, width};

fn ends(machine: &Machine) -> Vec<NodeId> {
    machine.fabric.of_kind(NodeKind::Gpu).chain(machine.fabric.of_kind(NodeKind::Host)).collect()
}

fn transfers(machine: &Machine, op: Operation, peer: PeerAccess) -> Vec<Transfer> {
    let gpu = |n: NodeId| machine.fabric.node(n).kind == NodeKind::Gpu;
    let ends = ends(machine);
    let pairs = ends.iter().flat_map(|a| ends.iter().map(move |b| (*a, *b)));
    let pairs = pairs.filter(|(a, b)| a != b && (gpu(*a) || gpu(*b)));
    pairs.map(|(source, destination)| Transfer { source, destination, engine: Engine::Ce, op, peer }).collect()
}

fn how() -> impl Strategy<Value = (Operation, PeerAccess, &'static str)> {
    let op = prop_oneof![Just(Operation::Write), Just(Operation::Read)];
    let peer = prop_oneof![Just(PeerAccess::Enabled), Just(PeerAccess::Disabled)];
    (op, peer, prop_oneof![Just("Intel(R) Xeon(R)"), Just("AMD EPYC"), Just(QUEUEING)])
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn nothing_outruns_a_link_on_its_way(shape in shape(), (op, peer, cpu) in how()) {
        let m = machine(&shape, cpu);
        let model = Model::new(&m, Parts::embedded());
        for t in transfers(&m, op, peer) {
            let rate = model.solve(&[t]).unwrap()[0].rate;
            prop_assert!(rate.gb() > 0.0);
            let route = model.route(&t).unwrap();
            for hop in &route.hops {
                prop_assert!(hop.limit.is_none_or(|l| rate.gb() <= l.gb() * (1.0 + 1e-9)), "{:?}", hop);
                let links = m.fabric.links_of(hop.from);
                for (link, _) in links.iter().filter(|(_, next)| *next == hop.to) {
                    if let LinkKind::Pcie { running, .. } = m.fabric.link(*link).kind {
                        prop_assert!(rate < running.raw_rate().unwrap());
                    }
                }
            }
        }
    }

    #[test]
    fn an_interval_holds_its_rate_and_stays_below_the_links(shape in shape(), (op, peer, cpu) in how()) {
        let m = machine(&shape, cpu);
        let model = Model::new(&m, Parts::embedded());
        for t in transfers(&m, op, peer) {
            let back = Transfer { source: t.destination, destination: t.source, ..t };
            for together in [vec![t], vec![t, back]] {
                for (answer, [low, high]) in model.solve_with_interval(&together).unwrap() {
                    prop_assert!(low.gb() > 0.0 && low <= answer.rate && answer.rate <= high);
                    for hop in model.route(&t).unwrap().hops.iter().filter(|_| together.len() == 1) {
                        for (link, _) in m.fabric.links_of(hop.from).iter().filter(|(_, next)| *next == hop.to) {
                            if let LinkKind::Pcie { running, .. } = m.fabric.link(*link).kind {
                                prop_assert!(high < running.raw_rate().unwrap());
                            }
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn a_wider_link_slows_no_lone_transfer(shape in shape(), wider in any::<prop::sample::Index>(), (op, peer, cpu) in how()) {
        let mut better = shape.clone();
        let mut links: Vec<&mut PcieWidth> =
            better.iter_mut().flatten().flat_map(|(up, links)| std::iter::once(up).chain(links)).collect();
        let at = wider.index(links.len());
        links[at].lanes = Some(16);
        let (before, after) = (machine(&shape, cpu), machine(&better, cpu));
        let (old, new) = (Model::new(&before, Parts::embedded()), Model::new(&after, Parts::embedded()));
        for t in transfers(&before, op, peer) {
            let (a, b) = (old.solve(&[t]).unwrap()[0].rate.gb(), new.solve(&[t]).unwrap()[0].rate.gb());
            prop_assert!(b >= a * (1.0 - 1e-9), "{} fell to {}", a, b);
        }
    }

    #[test]
    fn a_newer_generation_slows_no_lone_transfer(shape in shape(), (op, peer, cpu) in how()) {
        let mut better = shape.clone();
        for (up, links) in better.iter_mut().flatten() {
            for width in std::iter::once(up).chain(links) {
                let next = width.generation.and_then(|g| PcieGeneration::from_number(g.number() + 1));
                width.generation = next.or(width.generation);
            }
        }
        let (before, after) = (machine(&shape, cpu), machine(&better, cpu));
        let (old, new) = (Model::new(&before, Parts::embedded()), Model::new(&after, Parts::embedded()));
        for t in transfers(&before, op, peer) {
            let (a, b) = (old.solve(&[t]).unwrap()[0].rate.gb(), new.solve(&[t]).unwrap()[0].rate.gb());
            prop_assert!(b >= a * (1.0 - 1e-9), "{} fell to {}", a, b);
        }
    }

    #[test]
    fn a_symmetric_machine_has_symmetric_rates(up in width(), down in width(), (_, _, cpu) in how()) {
        let m = machine(&vec![vec![(up, vec![down; 2]); 2]; 2], cpu);
        for matrix in predict(&Model::new(&m, Parts::embedded())).iter().filter(|m| m.rows == m.cols) {
            for (i, row) in matrix.values.iter().enumerate() {
                for (j, value) in row.iter().enumerate() {
                    match (value, matrix.values[j][i]) {
                        (Some(a), Some(b)) => prop_assert!((a - b).abs() <= 1e-9 * a, "{} and {}", a, b),
                        (None, None) => prop_assert_eq!(i, j),
                        other => prop_assert!(false, "{:?}", other),
                    }
                }
            }
        }
    }

    #[test]
    fn no_transfer_gains_by_company(shape in shape(), (op, peer, cpu) in how()) {
        let m = machine(&shape, cpu);
        let model = Model::new(&m, Parts::embedded());
        let all = transfers(&m, op, peer);
        let together = model.solve(&all).unwrap();
        for (t, answer) in all.iter().zip(together) {
            let alone = model.solve(&[*t]).unwrap()[0].rate.gb();
            prop_assert!(answer.rate.gb() <= alone * (1.0 + 1e-9));
        }
    }
}
