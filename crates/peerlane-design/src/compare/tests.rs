use super::bisection::bisection;
use super::*;
use peerlane_read::catalogue::{read_system, system, system_names};
#[path = "../../../peerlane-model/src/flows/testing.rs"]
mod testing;

use peerlane_model::flows::{Flows, Pair, interchangeable};
use testing::{all_boxes, odd_boxes};

fn machine(name: &str) -> Machine {
    system(name).unwrap().unwrap()
}

fn design_of(machine: &Machine) -> Design {
    let document = compare(&[Subject { name: &machine.name, machine, run: None }], Parts::embedded());
    document.designs.into_iter().next().unwrap()
}

fn of(name: &str) -> Design {
    design_of(&machine(name))
}

fn close(a: f64, b: f64) -> bool {
    (a - b).abs() <= 1e-6 * a.abs().max(b.abs())
}

/// What crosses the worst split of all, by trying each.
fn worst_split(flows: &Flows) -> f64 {
    let n = flows.gpus();
    let halves = (0..1_u32 << n).filter(|bits| bits.count_ones() as usize == n / 2);
    let crossing = |bits: u32| -> f64 {
        let set: Vec<Pair> = flows.pairs().filter(|(i, j)| (bits >> i & 1) != (bits >> j & 1)).collect();
        flows.rates(&set).unwrap().iter().sum()
    };
    halves.map(crossing).fold(f64::INFINITY, f64::min) / 1e9
}

#[test]
fn no_split_is_worse_than_the_bisection() {
    let mut seen = 0;
    for machine in all_boxes() {
        let model = Model::new(&machine, Parts::embedded());
        let flows = Flows::new(&model, Engine::Ce);
        if !flows.complete() || flows.gpus() > 10 {
            continue;
        }
        let found = bisection(&flows).unwrap();
        assert!(found.exact && close(found.figure.rate, worst_split(&flows)), "{}: {found:?}", machine.name);
        assert_eq!((found.one.len(), found.other.len()), (flows.gpus() / 2, flows.gpus().div_ceil(2)));
        seen += 1;
    }
    assert!(seen > 30, "{seen}");
}

#[test]
fn gpus_change_places_only_where_nothing_changes() {
    let kinds = |name: &str| {
        let machine = machine(name);
        let model = Model::new(&machine, Parts::embedded());
        interchangeable(&Flows::new(&model, Engine::Ce))
    };
    assert_eq!(kinds("exxact-txr414-20").iter().map(Vec::len).collect::<Vec<_>>(), [5; 4]);
    assert_eq!(kinds("7gforce"), [vec![0, 1, 2], vec![3, 4, 5], vec![6]]);
    assert_eq!(kinds("hgx-h200"), [(0..8).collect::<Vec<_>>()]);
    assert_eq!(kinds("microway-s822lc"), [vec![0, 1], vec![2, 3]]);
    // every GPU of the mesh has neighbours of its own
    assert_eq!(kinds("dgx-1").len(), 8);
    for machine in odd_boxes() {
        let model = Model::new(&machine, Parts::embedded());
        let flows = Flows::new(&model, Engine::Ce);
        for kind in interchangeable(&flows) {
            for pair in kind.windows(2) {
                let (i, j) = (pair[0], pair[1]);
                let swap = |g: usize| {
                    if g == i {
                        j
                    } else if g == j {
                        i
                    } else {
                        g
                    }
                };
                let set: Vec<Pair> = flows.pairs().filter(|(a, b)| (a * 5 + b) % 3 != 1).collect();
                let image: Vec<Pair> = set.iter().map(|(a, b)| (swap(*a), swap(*b))).collect();
                let (before, after) = (flows.rates(&set).unwrap(), flows.rates(&image).unwrap());
                assert!(before.iter().zip(&after).all(|(x, y)| close(*x, *y)), "{}", machine.name);
            }
        }
    }
}

#[test]
fn twenty_gpus_are_exact_and_split_between_switches() {
    let design = of("exxact-txr414-20");
    let cut = design.bisection.unwrap();
    assert!(cut.exact && design.ring_all_reduce.unwrap().exact);
    let half: std::collections::BTreeSet<usize> =
        cut.one.iter().map(|g| g[3..].parse::<usize>().unwrap() / 5).collect();
    assert_eq!(half.len(), 2, "two whole switches: {:?}", cut.one);
    assert_eq!(cut.tried, 73, "as docs/compare.md says");
    assert_eq!(design.reach.unwrap(), Reach { direct: 380, of: 380, least: 19, most: 19 });
}

#[test]
fn all_of_the_catalogue_is_exact() {
    for machine in system_names().map(machine) {
        let design = design_of(&machine);
        assert!(design.bisection.is_none_or(|cut| cut.exact), "{}", machine.name);
        assert!(design.ring_all_reduce.is_none_or(|ring| ring.exact), "{}", machine.name);
    }
}

#[test]
fn many_odd_gpus_are_searched_and_say_so() {
    let mut text = "name = \"many\"\n[nodes]\ncpu0 = { part = \"epyc-genoa\" }\n".to_owned();
    (0..26).for_each(|i| text += &format!("GPU{i} = {{ kind = \"gpu\" }}\n"));
    for i in 0..26 {
        let width = ["4.0 x1", "4.0 x2", "4.0 x4"][i % 3];
        text += &format!("[[links]]\nbetween = [\"cpu0\", \"GPU{i}\"]\npcie = \"{width}\"\n");
    }
    for i in 0..13 {
        let (a, b) = (i, 25 - i);
        text +=
            &format!("[[links]]\nbetween = [\"GPU{a}\", \"GPU{b}\"]\nnvlink = {}\nnvlink_generation = 3\n", 1 + i % 3);
    }
    let machine = read_system(&text, "many").unwrap();
    let model = Model::new(&machine, Parts::embedded());
    let found = bisection(&Flows::new(&model, Engine::Ce)).unwrap();
    assert!(!found.exact && found.one.len() == 13 && found.other.len() == 13);
    // halves that keep joined pairs together are worse than the numbers' own order, which parts them all
    let flows = Flows::new(&model, Engine::Ce);
    let by_number: Vec<Pair> = flows.pairs().filter(|(i, j)| (*i < 13) != (*j < 13)).collect();
    assert!(found.figure.rate * 1e9 < 0.9 * flows.rates(&by_number).unwrap().iter().sum::<f64>());
}

#[test]
fn equal_messages_take_as_long_as_what_they_share() {
    // four GPUs, two a switch: four of twelve messages go each way over one link
    let design = of("exxact-devbox");
    let all = design.all_to_all.unwrap();
    let across = design.bisection.unwrap().figure.rate / 2.0;
    assert!(close(all.equal.rate, 12.0 / 4.0 * across), "{all:?}");
    assert!(all.equal.rate < all.together.sum.rate);
    let one = design.all_to_one.unwrap();
    assert!(one.worst.rate <= one.best);
}

#[test]
fn what_was_seen_stands_beside_what_is_predicted() {
    let devbox = of("exxact-devbox");
    let both = devbox.pair_both_ways.unwrap();
    let seen = both.worst.measured.unwrap();
    assert_eq!((seen.low, seen.high, seen.published), (20.31, 20.31, true));
    assert!(devbox.pair.unwrap().worst.measured.is_none(), "nothing was published one way");
    assert_eq!(devbox.latency.unwrap().most, 6.31);
    // peer access off is what az-2x-m60 has anyway
    let azure = of("az-2x-m60").pair.unwrap();
    assert_eq!(azure.worst.measured.map(|s| s.low), Some(5.26));
    let riser = of("7gforce");
    let mean = riser.pair.unwrap().mean.measured.unwrap();
    assert!(mean.low > 0.73 && mean.high < 0.82, "{mean:?}");
    // six on x1 and one on x8, in MiB/s
    let host = riser.from_host.unwrap();
    assert!(close(host.worst.measured.unwrap().low, 762.8 * 1.048576e-3));
    let sum: f64 = [763.5, 764.5, 762.8, 762.8, 767.8, 763.0, 6234.5].iter().sum();
    assert!(close(host.mean.measured.unwrap().low, sum / 7.0 * 1.048576e-3));
    assert_eq!((riser.lanes.gpus, riser.lanes.slots, riser.lanes.cpus_used), (14, Some(64), Some(32)));
}

#[test]
fn the_conclusion_names_who_is_ahead_and_cites_numbers() {
    let machines = ["7gforce", "az-2x-m60", "az-4x-m60"].map(machine);
    let subjects: Vec<Subject> = machines.iter().map(|m| Subject { name: &m.name, machine: m, run: None }).collect();
    let document = compare(&subjects, Parts::embedded());
    let said = |word: &str| document.conclusion.iter().any(|s| s.contains(word));
    assert!(document.conclusion[0].starts_with("az-"), "{:#?}", document.conclusion);
    assert!(said("5.26 published") && said("0.73 published"), "{:#?}", document.conclusion);
    assert!(said("all 42 in 7gforce, none of 2 in az-2x-m60"));
    assert!(said("7gforce leaves lanes unused: with GPU0–GPU5 at x8"));
    let alone = compare(&subjects[..1], Parts::embedded());
    assert!(alone.conclusion.iter().all(|s| !s.contains("az-")));
}

#[test]
fn what_cannot_be_told_is_null_and_said() {
    let design = |links: &str| {
        let nodes = "[nodes]\ncpu0 = { part = \"xeon-e5-v3\" }\nGPU0 = { kind = \"gpu\" }\nGPU1 = { kind = \"gpu\" }\n";
        design_of(&read_system(&format!("name = \"u\"\n{nodes}{links}"), "u").unwrap())
    };
    let links = "[[links]]\nbetween = [\"cpu0\", \"GPU1\"]\npcie = \"3.0 x16\"\n";
    let unknown = design(links);
    assert!(unknown.pair.is_none() && unknown.bisection.is_none() && unknown.ring_all_reduce.is_none());
    assert!(unknown.unknown[0].contains("GPU0"), "{:?}", unknown.unknown);
    let links = "[[links]]\nbetween = [\"cpu0\", \"GPU0\"]\npcie = \"?\"\n[[links]]\nbetween = [\"cpu0\", \"GPU1\"]\npcie = \"3.0 x16\"\n";
    let assumed = design(links);
    assert!(
        assumed.pair.is_some() && assumed.assumptions[0].starts_with("GPU0 at PCIe 3.0 x16"),
        "{:?}",
        assumed.assumptions
    );
    let lone = of("k20-cx3-snb");
    assert_eq!((lone.gpus, lone.pair, lone.reach), (1, None, None));
}
