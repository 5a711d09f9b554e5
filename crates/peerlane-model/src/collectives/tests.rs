use super::over::ring_pairs;
use super::over::together;
use super::rings::Rings;
use crate::flows::testing::all_boxes;
use crate::flows::{Flows, interchangeable};
use crate::model::Model;
use peerlane_machine::machine::Machine;
use peerlane_machine::matrix::Engine;
use peerlane_read::catalogue::{Parts, system};

fn best(flows: &Flows) -> Option<Rings> {
    let gpus: Vec<usize> = (0..flows.gpus()).collect();
    Rings::best(flows, &gpus, &interchangeable(flows))
}

fn with_flows(machine: &Machine, check: impl FnOnce(&Flows)) {
    let model = Model::new(machine, Parts::embedded());
    check(&Flows::new(&model, Engine::Sm));
}

/// Every order that begins with the first GPU.
fn orders(n: usize) -> Vec<Vec<usize>> {
    let longer = |order: Vec<usize>| {
        let open: Vec<usize> = (0..n).filter(|gpu| !order.contains(gpu)).collect();
        open.into_iter().map(move |gpu| [order.as_slice(), &[gpu]].concat())
    };
    (1..n).fold(vec![vec![0]], |orders, _| orders.into_iter().flat_map(longer).collect())
}

fn sum(flows: &Flows, orders: &[&Vec<usize>]) -> f64 {
    let sets: Vec<_> = orders.iter().map(|order| ring_pairs(order)).collect();
    together(flows, &sets).unwrap().iter().sum()
}

#[test]
fn no_ring_is_faster_than_the_first_and_no_two_carry_more() {
    let (mut boxes, mut several) = (0, 0);
    for machine in all_boxes() {
        with_flows(&machine, |flows| {
            let Some(found) = best(flows).filter(|_| flows.gpus() <= 6) else { return };
            let what = format!("{}: {found:?}", machine.name);
            let all = orders(flows.gpus());
            let single: Vec<f64> = all.iter().map(|order| sum(flows, &[order])).collect();
            let most = single.iter().copied().fold(0.0, f64::max);
            let first = sum(flows, &[&found.rings[0].0]);
            assert!(found.exact && (first - most).abs() <= most * 1e-6, "{what}, not {most}");
            assert!(found.rate() >= first * (1.0 - 1e-6) && found.rate() <= found.bound * (1.0 + 1e-6), "{what}");
            // whatever two rings carry on paths of the kind stays below the bound, and below what was found but for a little
            let kind = |order: &Vec<usize>| ring_pairs(order).iter().any(|pair| flows.flow(*pair).unwrap().staged);
            let through_host = kind(&found.rings[0].0);
            let allowed: Vec<&Vec<usize>> = all.iter().filter(|order| through_host || !kind(order)).collect();
            for (i, a) in allowed.iter().enumerate().filter(|_| flows.gpus() <= 5) {
                for b in &allowed[..i] {
                    let two = sum(flows, &[a, b]);
                    let plain = found.bound.is_finite() && !through_host;
                    assert!(!plain || two <= found.bound * (1.0 + 1e-6), "{what}: {a:?} {b:?} {two}");
                    assert!(!plain || two <= found.rate() * 1.05, "{what}: {a:?} {b:?} {two}");
                }
            }
            (boxes, several) = (boxes + 1, several + usize::from(found.rings.len() > 1));
        });
    }
    assert!(boxes > 20 && several >= 2, "{boxes} {several}");
}

#[test]
fn rings_together_take_no_more_than_there_is() {
    for machine in all_boxes() {
        with_flows(&machine, |flows| {
            let Some(found) = best(flows) else { return };
            let mut taken = vec![0.0; flows.capacities.len()];
            for (order, pace) in &found.rings {
                let mut gpus = order.clone();
                gpus.sort_unstable();
                assert!(gpus.into_iter().eq(0..flows.gpus()), "{}: each GPU once in {order:?}", machine.name);
                for pair in ring_pairs(order) {
                    for (r, per_byte) in &flows.flow(pair).unwrap().demand.uses {
                        taken[*r] += per_byte * pace;
                    }
                }
            }
            let fits = taken.iter().zip(&flows.capacities).all(|(taken, has)| *taken <= has * (1.0 + 1e-6));
            assert!(fits, "{}: {found:?}", machine.name);
        });
    }
}

#[test]
fn the_hybrid_cube_mesh_has_rings_over_all_of_its_links() {
    // six bricks a GPU: a ring over double links and one over single ones, each both ways, as NCCL's six channels
    with_flows(&system("dgx-1v").unwrap().unwrap(), |flows| {
        let found = best(flows).unwrap();
        let paces: Vec<f64> = found.rings.iter().map(|(_, pace)| (pace / 1e9).round()).collect();
        assert_eq!(paces, [40.0, 40.0, 20.0, 20.0]);
        assert!((found.bound / found.rate() - 1.0).abs() < 1e-6, "{found:?}");
        let mut pairs: Vec<_> = found.rings.iter().flat_map(|(order, _)| ring_pairs(order)).collect();
        pairs.sort_unstable();
        assert!(pairs.windows(2).all(|two| two[0] != two[1]), "no link twice: {found:?}");
        assert!(pairs.iter().all(|pair| !flows.flow(*pair).unwrap().staged));
    });
    with_flows(&system("hgx-h200").unwrap().unwrap(), |flows| assert_eq!(best(flows).unwrap().rings.len(), 1));
}

#[test]
fn meshes_have_rings_over_all_of_their_links() {
    // one xGMI link to each of seven; six bricks to each of three, which make six rings that share them
    for (name, rings, links) in [("mi300x-8", 7, 7.0), ("gh200-quad", 6, 3.0)] {
        with_flows(&system(name).unwrap().unwrap(), |flows| {
            let found = best(flows).unwrap();
            let link = flows.alone_on(&flows.capacities, (0, 1));
            assert_eq!(found.rings.len(), rings, "{name}: {found:?}");
            assert!((found.rate() / link / links - 1.0).abs() < 0.01, "{name}: {found:?}");
        });
    }
}

#[test]
fn fewer_gpus_have_the_rings_of_their_own_links() {
    with_flows(&system("dgx-1v").unwrap().unwrap(), |flows| {
        // a quad: each pair is joined, by one link or by two
        let found = Rings::best(flows, &[0, 1, 2, 3], &[]).unwrap();
        assert!(found.rings.iter().all(|(order, _)| order.iter().all(|gpu| *gpu < 4)), "{found:?}");
        let pair = Rings::best(flows, &[0, 3], &[]).unwrap();
        assert!((pair.rate() - 40e9).abs() < 1.0 && pair.rings.len() == 1, "{pair:?}");
        assert!(Rings::best(flows, &[5], &[]).is_none());
    });
}
