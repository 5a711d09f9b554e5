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

fn compared(names: &[&str]) -> ComparisonDocument {
    let machines: Vec<Machine> = names.iter().map(|name| machine(name)).collect();
    let subjects: Vec<Subject> = machines.iter().map(|m| Subject { name: &m.name, machine: m, run: None }).collect();
    compare(&subjects, Parts::embedded())
}

#[test]
fn a_nic_below_the_gpus_switch_is_ahead_of_one_across_sockets() {
    let document = compared(&["hpcac-sys", "hpcac-phb", "hpcac-tessa"]);
    let nics: Vec<&GpuNic> = document.designs.iter().map(|d| d.gpu_nic.as_ref().unwrap()).collect();
    assert_eq!([0, 1, 2].map(|at| nics[at].class.as_str()), ["SYS", "PHB", "PIX"]);
    let direct = |at: usize| nics[at].to_nic.direct.as_ref().unwrap().rate;
    assert!(direct(2) > direct(1) && direct(1) > direct(0), "{nics:?}");
    // the far adapter of the first machine counts in its class alone
    let classes: Vec<(&str, usize)> = nics[2].by_class.iter().map(|c| (c.class.as_str(), c.pairs)).collect();
    assert_eq!(classes, [("PIX", 8), ("NODE", 8)]);
    assert!(nics[2].by_class[1].to_nic < nics[2].by_class[0].to_nic);
    let measured = nics[2].measured_to_nic.as_ref().unwrap();
    assert!(
        close(measured.worst.low, 96.77 / 8.0) && nics[2].measured_from_nic.is_none(),
        "a client sends: {measured:?}"
    );
    let told = &document.conclusion;
    assert!(told[0].starts_with("hpcac-tessa is ahead") && !told[0].contains("hosts feed all"), "{told:#?}");
    let order = "PIX in hpcac-tessa (GPU0, mlx5_2), PHB in hpcac-phb (GPU0, mlx5_0), SYS in hpcac-sys (GPU0, mlx5_0)";
    assert!(told.iter().any(|s| s.contains(order)), "{told:#?}");
}

#[test]
fn cards_that_read_gpus_by_their_own_protocol_have_rows_of_nics() {
    let document = compared(&["apenet-i7-plx", "apenet-x56xx", "quong-node"]);
    for (design, published) in document.designs.iter().zip([Some(1.6), Some(1.5), None]) {
        let nic = design.gpu_nic.as_ref().unwrap();
        let direct = nic.to_nic.direct.as_ref().unwrap();
        assert_eq!(direct.measured.as_ref().map(|m| m.low), published, "{}", design.name);
        // the source: staging moves more, and takes about twice as long
        assert!(nic.to_nic.staged.as_ref().unwrap().rate > direct.rate);
        let message = nic.message.as_ref().unwrap();
        assert!(message.staged.unwrap() > 1.5 * message.direct.unwrap(), "{message:?}");
    }
}

#[test]
fn what_was_measured_stays_where_nothing_is_predicted() {
    let machine = |name: &str, rates: [f64; 3], status: &str| {
        let [near, far, us] = rates;
        let nodes: String = (0..3).map(|i| format!("GPU{i} = {{ kind = \"gpu\" }}\n")).collect();
        let published = |quantity: &str, unit: &str, near: f64, far: f64| {
            format!(
                "[[published]]\n{quantity}\np2p = true\nengine = \"ce\"\nunit = \"{unit}\"\n\
                 matrix = \"\"\"\n X {near} {far}\n{near} X {far}\n{far} {far} X\n\"\"\"\n"
            )
        };
        let rates = published("quantity = \"bandwidth\"\ndirection = \"unidirectional\"", "GB/s", near, far);
        let times = published("quantity = \"latency\"", "us", us, us + 1.0);
        read_system(&format!("name = \"{name}\"\n[nodes]\n{nodes}{status}{rates}{times}"), name).unwrap()
    };
    let stated = "[[p2p]]\nstatus = \"no\"\n[[p2p]]\nstatus = \"yes\"\npairs = [[\"GPU0\", \"GPU1\"]]\n";
    let machines = [machine("slow", [10.2, 9.0, 16.5], ""), machine("fast", [35.3, 20.0, 15.0], stated)];
    let subjects: Vec<Subject> = machines.iter().map(|m| Subject { name: &m.name, machine: m, run: None }).collect();
    let document = compare(&subjects, Parts::embedded());
    let [slow, fast] = document.designs.as_slice() else { panic!() };
    assert!(slow.pair.is_none() && fast.pair.is_none() && fast.predicted_latency.is_none(), "{fast:#?}");
    let rates = fast.measured.pair.as_ref().unwrap();
    assert_eq!((rates.worst.low, rates.best.high, &rates.best_pair[1][..]), (20.0, 35.3, "GPU1"));
    // what is known of no pair is not none
    assert_eq!((slow.reach, fast.reach.map(|r| (r.direct, r.of))), (None, Some((2, 6))));
    let told = &document.conclusion;
    assert!(told[0].contains("They differ most in fastest pair one way (3.46 times)"), "{told:#?}");
    assert!(told[1].contains("fast has 35.3 GB/s published (GPU0 → GPU1); slow has 10.2 GB/s published"), "{told:#?}");
}

#[test]
fn latencies_are_predicted_by_class_and_stand_beside_those_published() {
    let design = of("exxact-traditional");
    let classes: Vec<(&str, usize, bool)> =
        design.latency_by_class.iter().map(|c| (c.class.as_str(), c.pairs, c.staged)).collect();
    assert_eq!(classes, [("PHB", 4, false), ("SYS", 8, true)]);
    for class in &design.latency_by_class {
        let ([low, high], measured) = (class.predicted.unwrap(), class.measured.as_ref().unwrap());
        assert!(low > 0.7 * measured.low && high < 1.3 * measured.high, "{class:?}");
    }
    let predicted = design.predicted_latency.unwrap();
    assert!(predicted.most > 2.0 * predicted.least && predicted.why.contains("through host memory"), "{predicted:?}");
    // published of one, predicted of the other: both by what is predicted
    let told = compared(&["exxact-traditional", "exxact-txr414"]).conclusion;
    assert!(told.iter().any(|s| s.contains("longest latency between GPUs")), "{told:#?}");
}

#[test]
fn pairs_of_unknown_paths_have_no_class() {
    let mut machine = machine("exxact-traditional");
    let [a, b] = ["GPU0", "GPU1"].map(|name| machine.fabric.find(name).unwrap());
    machine.fabric.set_unknown_paths([(a, b)]);
    let design = design_of(&machine);
    let pairs: Vec<(&str, usize)> = design.latency_by_class.iter().map(|c| (c.class.as_str(), c.pairs)).collect();
    assert_eq!(pairs, [("PHB", 2), ("SYS", 8)], "{:?}", design.latency_by_class);
}

#[test]
fn copies_within_gpus_are_shares_of_the_data_sheet() {
    let memory = of("7gforce").gpu_memory.unwrap();
    assert_eq!(memory.data_sheet, Some([256.0, 320.0]));
    // the source: 195 of 256, 76 %, and 256 of 320, 80 %
    let share = memory.measured_share.unwrap();
    assert!((share.low - 0.76).abs() < 0.005 && (share.high - 0.80).abs() < 0.005, "{share:?}");
    assert_eq!(memory.copy.unwrap().measured.map(|m| m.low), Some(195.0));
    // by the name of the product: 16 GB
    assert_eq!(of("microway-s822lc").gpu_memory.unwrap().size_gib, Some([16.0, 16.0]));
}

#[test]
fn predictions_that_do_not_hold_rank_nobody() {
    let value = |predicted: f64, measured: Option<f64>| {
        let measured = measured.map(|us| Latency {
            least: us,
            median: us,
            most: us,
            most_pair: ["GPU0".to_owned(), "GPU1".to_owned()],
            published: false,
            evidence: String::new(),
        });
        let [least, most] = [predicted; 2];
        let most_pair = ["GPU0".to_owned(), "GPU1".to_owned()];
        (measured, Some(PredictedLatency { least, most, most_pair, why: String::new() }))
    };
    let told = |all: [(f64, Option<f64>); 3]| {
        let designs: Vec<Design> = all
            .iter()
            .zip(["a", "b", "c"])
            .map(|((predicted, measured), name)| {
                let (latency, predicted_latency) = value(*predicted, *measured);
                Design { name: name.to_owned(), latency, predicted_latency, ..Design::default() }
            })
            .collect();
        conclusion::sentences(&designs)
    };
    let held = told([(2.0, Some(2.1)), (6.0, Some(6.0)), (4.0, None)]);
    assert!(held[1].contains("a has 2.00 us predicted, 2.10 measured (GPU0 → GPU1); b has 6.00"), "{held:#?}");
    // predicted alike, and not so: the third, of which nothing was measured, is not ranked
    let off = told([(2.0, Some(16.9)), (2.0, Some(6.3)), (1.0, None)]);
    assert!(off[0].starts_with("b is ahead") && off[1].contains("2.68 times as long"), "{off:#?}");
}

#[test]
fn the_conclusion_begins_with_the_figures_that_differ_most() {
    for names in
        [["microway-s822lc", "microway-p100-pcie"], ["7gforce", "az-2x-m60"], ["exxact-devbox", "exxact-txr550"]]
    {
        let told = compared(&names).conclusion;
        let factor = |sentence: &String| -> Option<f64> {
            let words = sentence.trim_end_matches('.');
            let less = words.rsplit_once("a factor of ").and_then(|(_, rest)| rest.strip_suffix(" less")?.parse().ok());
            less.or_else(|| words.strip_suffix(" times as long")?.rsplit(' ').next()?.parse().ok())
        };
        let factors: Vec<f64> = told.iter().filter_map(factor).collect();
        assert!(factors.len() > 1 && factors.is_sorted_by(|a, b| a >= b), "{told:#?}");
        assert!(told[0].contains(&format!("({:.2} times)", factors[0])), "{told:#?}");
    }
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
