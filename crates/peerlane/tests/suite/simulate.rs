//! Workloads against what can be worked out by hand.

use peerlane::catalogue::{Parts, system};
use peerlane::cluster::{Cluster, Router, Wanted, embedded};
use peerlane::matrix::Engine;
use peerlane::simulate::SimulateError;
use peerlane::simulate::outcome::{Limits, Outcome, run, run_within};
use peerlane::simulate::play::Player;
use peerlane::simulate::program::{Carried, Program, Round, Step};
use peerlane::simulate::result::{Job, Point, simulate};
use peerlane::simulate::workload::Workload;
use peerlane::solve::Problem;
use peerlane::units::{Bytes, Rate, Seconds};

fn single(name: &str) -> Cluster {
    Cluster::single(system(name).unwrap().unwrap())
}

fn many(name: &str, nodes: u32, network: &str) -> Cluster {
    let wanted: Wanted = network.parse().unwrap();
    Cluster::of(system(name).unwrap().unwrap(), nodes, &wanted, None, Seconds::from_us(0.2)).unwrap()
}

fn point(cluster: &Cluster, workload: &str, size: u64) -> Point {
    let job = Job::Workload(workload.parse::<Workload>().unwrap(), vec![Bytes(size)]);
    let (document, _) = simulate(cluster, &job, false).unwrap();
    document.points.into_iter().next().unwrap()
}

fn close(a: f64, b: f64) {
    assert!((a / b - 1.0).abs() < 1e-9, "{a} is not {b}");
}

/// The slowest rate of a ring's links while all are in use, and the longest latency.
fn ring_by_hand(cluster: &Cluster, order: &[usize]) -> (f64, f64) {
    let places = cluster.places();
    let mut router = Router::new(cluster, Parts::embedded());
    let ways: Vec<_> = (0..order.len())
        .map(|i| router.way(places[order[i]], places[order[(i + 1) % order.len()]], Engine::Sm).unwrap())
        .collect();
    let problem = Problem::of(ways.iter().map(|w| &w.demand).collect::<Vec<_>>(), |r| router.resources()[r]);
    let rates = problem.solve().unwrap().rates;
    let latency = ways.iter().map(|w| w.latency).fold(0.0, f64::max);
    (rates.into_iter().fold(f64::INFINITY, f64::min), latency)
}

#[test]
fn a_ring_of_equals_has_its_closed_form() {
    // 2 (n − 1) steps, each a latency and a part of n
    for (name, n) in [("h200x4-vm", 4), ("hgx-h200", 8)] {
        let cluster = single(name);
        let (rate, latency) = ring_by_hand(&cluster, &(0..n).collect::<Vec<_>>());
        for size in [8_u64, 1 << 20, 1 << 30] {
            let steps = 2.0 * (n as f64 - 1.0);
            let expected = steps * (latency + size as f64 / n as f64 / rate);
            let got = point(&cluster, "all-reduce:ring", size);
            close(got.time, expected);
            close(got.busbw.unwrap(), size as f64 / expected * steps / n as f64 / 1e9);
        }
    }
}

#[test]
fn a_ring_of_one_gpu_a_node_is_bound_by_the_line() {
    let mut cluster = many("apenet-x56xx", 2, "switch");
    cluster.latencies = cluster.with_latencies(0.0).latencies;
    cluster.network.as_mut().unwrap().hop_latency = Seconds::new(0.0);
    let (rate, _) = ring_by_hand(&cluster, &[0, 1]);
    let size = 64 << 20;
    close(point(&cluster, "all-reduce:ring", size).time, 2.0 * size as f64 / 2.0 / rate);
}

#[test]
fn rings_on_boxes_end_no_sooner_than_their_slowest_link_allows() {
    for name in ["exxact-devbox", "exxact-traditional", "exxact-txr430", "exxact-txr550", "exxact-txr414"] {
        let cluster = single(name);
        let n = cluster.places().len();
        let (rate, latency) = ring_by_hand(&cluster, &(0..n).collect::<Vec<_>>());
        let size = 256_u64 << 20;
        let steps = 2.0 * (n as f64 - 1.0);
        let part = size as f64 / n as f64;
        let got = point(&cluster, "all-reduce:ring", size).time;
        // the slowest link is in use nearly always, and carries no more than where nothing comes back over it; latencies of
        // others add to its own
        let mut router = Router::new(&cluster, Parts::embedded());
        let places = cluster.places();
        let lone = (0..n).map(|i| router.way(places[i], places[(i + 1) % n], Engine::Sm).unwrap().lone);
        let lone = lone.fold(f64::INFINITY, f64::min);
        assert!(got >= steps * part / lone * (1.0 - 1e-9), "{name}: {got}");
        assert!(got <= steps * (2.0 * latency + part / rate) * 1.05, "{name}: {got} {}", steps * part / rate);
    }
}

#[test]
fn collectives_move_what_they_must() {
    let cluster = many("hgx-h200", 4, "rail");
    let router = Router::new(&cluster, Parts::embedded());
    let (n, size) = (32.0, 1e6);
    // bytes that all GPUs together send, over the size
    let cases = [
        ("all-reduce:ring", 2.0 * (n - 1.0)),
        ("all-reduce:rail", 2.0 * (n - 1.0)),
        ("all-reduce:tree", 2.0 * (n - 1.0)),
        ("all-reduce:hierarchical", 2.0 * 28.0 + 2.0 * 3.0),
        ("all-gather:ring", n - 1.0),
        ("reduce-scatter:ring", n - 1.0),
        ("all-to-all", n - 1.0),
        ("broadcast:ring", n - 1.0),
        ("halo:3", 5.0 * n),
    ];
    for (name, expected) in cases {
        let program = name.parse::<Workload>().unwrap().program(&cluster, &router, size).unwrap();
        let sent = |round: &Round| {
            let bytes = round.steps.iter().map(|s| if let Step::Move { bytes, .. } = s { *bytes } else { 0.0 });
            bytes.sum::<f64>() * round.repeats as f64
        };
        let total: f64 = program.rounds.iter().map(sent).sum();
        // of 4 × 4 × 2 places those along the last dimension have one neighbour, whom they send two faces
        let expected = if name == "halo:3" { 6.0 * n } else { expected };
        assert!((total / size / expected - 1.0).abs() < 1e-9, "{name}: {} of {expected}", total / size);
    }
}

#[test]
fn repetitions_are_those_of_the_whole_graph() {
    // an uneven ring, played as one graph, against the same told as a trace
    let cluster = single("7gforce");
    let mut router = Router::new(&cluster, Parts::embedded());
    let places = cluster.places();
    let n = places.len() as u32;
    let steps: Vec<Step> =
        (0..n).map(|i| Step::send(places[i as usize], places[(i as usize + 1) % n as usize], 1e6)).collect();
    let pairs: Vec<(u32, u32)> = (0..n).flat_map(|i| [((i + n - 1) % n, i), (i, i)]).collect();
    let round = Round {
        name: "ring".to_owned(),
        steps: steps.clone(),
        groups: Default::default(),
        within: Vec::new(),
        carried: Carried::Pairs(pairs.clone()),
        repeats: 9,
        alike: 1,
    };
    let got = run(&Program { rounds: vec![round] }, &mut router, Engine::Ce).unwrap();
    assert_eq!(got.estimate, None);
    // every repetition as steps of its own, which wait for the data of the one before and for their link
    let (mut whole, mut waits, mut links) = (Vec::new(), Vec::new(), Vec::new());
    for k in 0..9 {
        whole.extend_from_slice(&steps);
        let pairs = pairs.iter().filter(|_| k > 0).map(|(a, b)| ((k - 1) * n + a, k * n + b));
        let (own, others): (Vec<_>, Vec<_>) = pairs.partition(|(a, b)| a + n == *b);
        waits.extend(others);
        links.extend(own);
    }
    let played = Player::new(&mut router, Engine::Ce).play_over_links(&whole, &waits, &links).unwrap();
    close(played.time, got.time);
    // were links busy while messages start, too, it would take longer
    let all = [waits, links].concat();
    assert!(Player::new(&mut router, Engine::Ce).play(&whole, &all).unwrap().time > got.time);
    assert!(got.alone < got.time);
}

#[test]
fn steps_wait_compute_and_share() {
    let cluster = single("exxact-devbox");
    let mut router = Router::new(&cluster, Parts::embedded());
    let place = |name| cluster.find(name).unwrap();
    let (a, b, c) = (place("GPU0"), place("GPU1"), place("GPU2"));
    let mut player = Player::new(&mut router, Engine::Ce);
    let one = player.play(&[Step::send(a, b, 1e6)], &[]).unwrap();
    // two messages out of one GPU take twice as long as its link allows, and end together
    let two = player.play(&[Step::send(a, b, 1e6), Step::send(a, b, 1e6)], &[]).unwrap();
    let start = 1.9e-6;
    close(two.time - start, 2.0 * (one.time - start));
    assert_eq!(two.ends[0], two.ends[1]);
    // a chain with computing in between
    let steps =
        [Step::send(a, b, 1e6), Step::Compute { on: b, seconds: 1e-3 }, Step::send(b, a, 1e6), Step::send(c, c, 1e9)];
    let chain = player.play(&steps, &[(0, 1), (1, 2), (2, 3)]).unwrap();
    close(chain.time, 2.0 * one.time + 1e-3);
    close(chain.computed, 1e-3);
    close(chain.starts[1], one.time);
    let circle = player.play(&steps, &[(0, 1), (1, 0)]).unwrap_err();
    assert_eq!(circle, SimulateError::Circle(vec![0, 1]));
    let nan = player.play(&[Step::send(a, b, f64::NAN)], &[]).unwrap_err();
    assert!(matches!(nan, SimulateError::Step(0, _)), "{nan}");
}

#[test]
fn what_helps_is_what_holds() {
    let cluster = embedded("hgx-h200-x32").unwrap().unwrap();
    let job = Job::Workload("all-reduce:rail".parse().unwrap(), vec![Bytes(1 << 30)]);
    let (document, _) = simulate(&cluster, &job, true).unwrap();
    assert!(document.exact, "{:?}", document.estimate);
    let helps = document.helps.unwrap();
    assert!(helps.windows(2).all(|w| w[0].saves >= w[1].saves));
    assert!(helps.iter().all(|h| h.time <= document.points[0].time * (1.0 + 1e-9)), "{helps:?}");
    let nvlink = helps.iter().find(|h| h.resource.contains("NVLink")).unwrap();
    // scattering and gathering within nodes are most of the bytes; twice the NVLink halves what they take
    assert!(nvlink.saves > 0.2 && nvlink.saves < 0.5, "{helps:?}");
}

#[test]
fn shares_add_up_and_answers_repeat() {
    let cluster = embedded("quong").unwrap().unwrap();
    for workload in ["all-to-all:pairs", "halo:2", "all-reduce:tree", "broadcast:ring", "all-reduce:hierarchical"] {
        let first = point(&cluster, workload, 1 << 20);
        assert_eq!(first, point(&cluster, workload, 1 << 20), "{workload}");
        let total: f64 = first.binding.iter().map(|b| b.share).sum();
        assert!(total > 0.99 && total < 1.0 + 1e-9, "{workload}: {total}");
        assert!(first.efficiency > 0.0 && first.efficiency <= 1.0 + 1e-9, "{workload}: {}", first.efficiency);
    }
}

#[test]
fn a_tapered_network_slows_what_crosses_it() {
    // two leaf switches, and three of seven times as many ports as links up
    let with = |network: &str| point(&many("hgx-h200", 16, network), "all-to-all", 64 << 20).time;
    let (full, tapered) = (with("fat-tree:2"), with("fat-tree:2:7"));
    assert!(tapered > 2.0 * full, "{tapered} of {full}");
}

#[test]
fn places_that_nothing_joins_and_networks_that_carry_nothing() {
    let text = "name = \"x\"\nsource = \"s\"\nnode = \"quong-node\"\nnodes = 3\n[network]\nshape = \"links\"\n\
                [[links]]\nbetween = [\"node0\", \"node1\"]\n[[links]]\nbetween = [\"node2\", \"s\"]\n";
    let cluster = peerlane::cluster::read_cluster(text, "x.toml", |s| system(s).and_then(Result::ok)).unwrap();
    let job = |w: &str| Job::Workload(w.parse().unwrap(), vec![Bytes(8)]);
    let error = simulate(&cluster, &job("point-to-point:node0/GPU0:node2/GPU1"), false).unwrap_err().to_string();
    assert_eq!(error, "nothing joins node0 and node2");
    let error = simulate(&cluster, &job("point-to-point:node0/GPU0:node7/GPU1"), false).unwrap_err().to_string();
    assert!(error.starts_with("'node7/GPU1' is no GPU of x"), "{error}");
    let mut cluster = many("quong-node", 2, "switch");
    cluster.network.as_mut().unwrap().rate = Rate::ZERO;
    let error = simulate(&cluster, &job("all-to-all"), false).unwrap_err().to_string();
    assert!(error.contains("carries nothing"), "{error}");
}

#[test]
fn a_ring_whose_links_disturb_nobody_has_a_closed_form() {
    // rails over two levels of switches: neighbours below one leaf are nearer than others
    let cluster = many("hgx-h200", 40, "rail:2");
    let job = Job::Workload("all-reduce:rail".parse().unwrap(), vec![Bytes(1 << 24)]);
    let (document, _) = simulate(&cluster, &job, false).unwrap();
    assert!(document.exact, "{:?}", document.estimate);
    // the ring between nodes played step by step, of one rail, and twice for the two rings within nodes
    let rail = |size: f64| {
        let mut router = Router::new(&cluster, Parts::embedded());
        let places: Vec<_> = cluster.places().into_iter().step_by(8).collect();
        let n = places.len();
        let (mut steps, mut waits, mut links) = (Vec::new(), Vec::new(), Vec::new());
        for k in 0..2 * (n - 1) {
            for i in 0..n {
                steps.push(Step::send(places[i], places[(i + 1) % n], size / 8.0 / n as f64));
                if k > 0 {
                    let at = |j: usize| ((k - 1) * n + j) as u32;
                    links.push((at(i), (k * n + i) as u32));
                    waits.push((at((i + n - 1) % n), (k * n + i) as u32));
                }
            }
        }
        Player::new(&mut router, Engine::Sm).play_over_links(&steps, &waits, &links).unwrap().time
    };
    let within = point(&single("hgx-h200"), "all-reduce:ring", 1 << 24).time;
    close(document.points[0].time, within + rail((1 << 24) as f64));
}

/// Of one machine whose update is not given.
#[test]
fn a_spin_glass_on_one_machine_is_told_from_where_several_gpus_are_faster() {
    let advice = |cluster: &Cluster, words: &str| {
        let job = Job::of(words.parse().unwrap(), Vec::new(), cluster).unwrap();
        simulate(cluster, &job, false).unwrap().0.spin_glass
    };
    let machine = single("hgx-h200");
    let eight = advice(&machine, "spin-glass:l=128,sweeps=1").unwrap();
    assert_eq!(eight.gpus, 8);
    assert!(eight.from.is_some_and(|from| from <= 256), "{eight:?}");
    assert_eq!(advice(&machine, "spin-glass:l=128,sweeps=1,ns=1"), None);
    assert_eq!(advice(&machine, "spin-glass:l=128,sweeps=1,weak"), None);
    assert_eq!(advice(&machine, "bfs:scale=16"), None);
    assert_eq!(advice(&embedded("quong-20g").unwrap().unwrap(), "spin-glass:l=128,sweeps=1"), None);
}

#[test]
fn a_spin_glass_is_as_slow_as_its_longer_half() {
    let cluster = embedded("quong-20g").unwrap().unwrap();
    let time = |words: &str| {
        let workload: Workload = format!("spin-glass:l=128,sweeps=5,{words}").parse().unwrap();
        let router = Router::new(&cluster, Parts::embedded());
        let program = workload.program(&cluster, &router, 0.0).unwrap();
        simulate(&cluster, &Job::Program(workload.to_string(), program, 0), false).unwrap().0.points[0].clone()
    };
    // computing that takes far longer than sending hides it, and is what the lattice takes
    let slow = time("ns=1000,overlap,p2p");
    close(slow.time, 10.0 * (128.0_f64.powi(3) / 32.0 / 2.0) * 1e-6);
    assert!(slow.idle.unwrap() < 1e-9);
    let (overlap, serial, staged) = (time("ns=1"), time("ns=1,serial"), time("ns=1,serial,staged"));
    assert!(overlap.time < serial.time && serial.time < staged.time);
    // without overlap every half-sweep computes and then sends
    let compute = 10.0 * (128.0_f64.powi(3) / 32.0 / 2.0) * 1e-9;
    assert!((serial.idle.unwrap() - (1.0 - compute / serial.time)).abs() < 1e-9);
    for bad in ["l=16", "ns=0", "ns=nan", "sides=3", "l=1.5", "overlap,serial"] {
        let workload: Result<Workload, _> = format!("spin-glass:{bad}").parse();
        let router = Router::new(&cluster, Parts::embedded());
        let made = workload.and_then(|w| w.program(&cluster, &router, 0.0));
        assert!(matches!(made, Err(SimulateError::Workload(_))), "{bad}");
    }
}

#[test]
fn a_search_tells_of_every_vertex_that_it_reaches() {
    let cluster = embedded("quong").unwrap().unwrap();
    let router = Router::new(&cluster, Parts::embedded());
    let program = |words: &str| words.parse::<Workload>().unwrap().program(&cluster, &router, 0.0).unwrap();
    let search = program("bfs:scale=10,edges=8");
    assert_eq!(search, program("bfs:scale=10,edges=8,seed=1"));
    assert_ne!(search, program("bfs:scale=10,edges=8,seed=2"));
    // every edge of what is reached is looked at once from each end: at most 2 × 8 × 1024 of them, and most
    let rate = router.memory_rate(cluster.gpus()[0]).unwrap();
    let seconds: f64 = search
        .rounds
        .iter()
        .flat_map(|r| &r.steps)
        .map(|s| if let Step::Compute { seconds, .. } = s { *seconds } else { 0.0 })
        .sum();
    let edges = seconds * rate / 36.0;
    assert!(edges > 0.9 * 16384.0 && edges <= 16384.0 * (1.0 + 1e-9), "{edges}");
}

#[test]
fn a_training_step_computes_what_the_model_has() {
    let cluster = many("hgx-h200", 4, "rail");
    let job = |words: &str| {
        let workload: Workload = format!("training:{words}").parse()?;
        Job::of(workload, Vec::new(), &cluster).and_then(|job| simulate(&cluster, &job, true))
    };
    let (document, _) = job("tp=4,pp=2,params=1e9,layers=8,hidden=16384,tokens=1024,micro=6,tflops=100").unwrap();
    let step = document.step.unwrap();
    let spent = |on: &str| step.spent.iter().find(|spent| spent.on == on).map_or(0.0, |spent| spent.time);
    // forward and twice that backward, 2 operations a parameter and token, on 8 GPUs a copy
    close(spent("computing"), 3.0 * 2.0 * 1e9 * 1024.0 * 6.0 / 8.0 / 100e12);
    // a pipeline of 2 is full for 6 of 7 passes
    close(spent("bubble"), (spent("computing") + spent("tensor")) / 6.0);
    close(step.spent.iter().map(|spent| spent.time).sum(), document.points[0].time);
    close(step.tokens, 4.0 * 6.0 * 1024.0);
    assert!(document.helps.unwrap().iter().any(|help| help.resource.contains("NVLink") && help.saves > 0.0));
    for bad in ["tp=64", "tp=8,pp=3,layers=2", "dp=100", "tp=0", "lairs=3"] {
        assert!(matches!(job(bad), Err(SimulateError::Workload(_))), "{bad}");
    }
}

/// The same in full and reduced: all steps played, and counted with what nodes do by themselves told once.
fn both(cluster: &Cluster, workload: &str, size: f64) -> [Outcome; 2] {
    let workload: Workload = workload.parse().unwrap();
    let solve = |reduced: bool| {
        let mut router = Router::new(cluster, Parts::embedded());
        let told = if reduced { Workload::reduced } else { Workload::program };
        let program = told(&workload, cluster, &router, size).unwrap();
        let counted_from = if reduced { 0 } else { usize::MAX };
        run_within(&program, &mut router, Engine::Sm, Limits { counted_from, ..Limits::default() }).unwrap()
    };
    [solve(false), solve(true)]
}

#[test]
fn reduced_rounds_take_as_long_as_played_ones() {
    let clusters = [
        many("hgx-h200", 6, "rail:2"),
        many("hgx-h200", 34, "rail:2"),
        many("hgx-h200", 8, "fat-tree:2:3"),
        many("hgx-h200", 6, "dragonfly:3x4x4"),
        many("quong-node", 16, "torus:4x4"),
        many("hpcac-tessa", 4, "switch"),
    ];
    let workloads = [
        "all-reduce:rail",
        "all-reduce:hierarchical",
        "all-reduce:ring",
        "all-gather:ring",
        "reduce-scatter:ring",
        "all-to-all",
        "halo:2",
    ];
    let (mut exact, mut estimated) = (0, 0);
    for (cluster, workload) in clusters.iter().flat_map(|c| workloads.map(|w| (c, w))) {
        if cluster.nodes > 30 && !workload.contains(":rail") && !workload.contains(":hier") {
            continue;
        }
        // without an optimising compiler these take seconds; of the rings, all-gather's are those of the others
        let long = ["all-to-all", "all-reduce:ring", "reduce-scatter:ring"];
        if cfg!(debug_assertions) && long.contains(&workload) && cluster.places().len() > 32 {
            continue;
        }
        for size in [8.0, 1e9] {
            let [full, reduced] = both(cluster, workload, size);
            if full.estimate.is_some() || reduced.estimate.is_some() {
                let stated = |o: &Outcome| o.estimate.as_ref().and_then(|e| e.error).unwrap_or(0.0);
                let apart = (reduced.time / full.time - 1.0).abs();
                assert!(apart <= stated(&full) + stated(&reduced), "{} {workload} {size}: {apart}", cluster.name);
                estimated += 1;
                continue;
            }
            exact += 1;
            assert!(
                (reduced.time / full.time - 1.0).abs() < 1e-9,
                "{} {workload} {size}: {} is not {}",
                cluster.name,
                reduced.time,
                full.time
            );
            assert!((reduced.alone / full.alone - 1.0).abs() < 1e-9, "{} {workload}", cluster.name);
            let shares = |o: &Outcome| o.spent.iter().map(|(_, s)| s).sum::<f64>();
            assert!((shares(&full) - shares(&reduced)).abs() < 1e-9);
        }
    }
    assert!(exact >= 10 && exact + estimated >= 40, "{exact} are exact both ways, {estimated} within their errors");
}

#[test]
fn a_gpu_without_its_adapter_takes_its_neighbours() {
    let mut cluster = many("hgx-h200", 4, "fat-tree");
    let rate = |cluster: &Cluster, workload: &str| point(cluster, workload, 1 << 34).algbw;
    let one = "point-to-point:node1/GPU0:node2/GPU0";
    let whole = ["all-reduce", one, "all-reduce:rail"].map(|workload| rate(&cluster, workload));
    cluster.fail("node1/mlx5_0").unwrap();
    let failed = ["all-reduce", one, "all-reduce:rail"].map(|workload| rate(&cluster, workload));
    let [rings, lone, rails] = [0, 1, 2].map(|i| failed[i] / whole[i]);
    // rings use the seven adapters that work everywhere; a lone message has its neighbour's to itself, and two rails share it
    // while they are between nodes
    assert!((rings / (7.0 / 8.0) - 1.0).abs() < 0.03, "{rings}");
    assert!((lone - 1.0).abs() < 0.03, "{lone}");
    assert!((0.5..0.75).contains(&rails), "{rails}");
    cluster.fail("node1").unwrap();
    let job = Job::Workload(one.parse().unwrap(), vec![Bytes(1 << 20)]);
    assert!(simulate(&cluster, &job, false).is_err(), "node1 is joined to nothing");
}

#[test]
fn a_failed_uplink_is_gone_round_and_shared() {
    let mut cluster = many("hgx-h200", 8, "fat-tree:2:3");
    let whole = both(&cluster, "all-reduce:rail", 1e9);
    // the way from node 5 (leaf 0) on to node 6 (leaf 1): the links of leaf 0 that its messages take
    let places = cluster.places();
    let mut router = Router::new(&cluster, Parts::embedded());
    let way = router.way(places[5 * 8], places[6 * 8], Engine::Sm).unwrap();
    let names: Vec<String> = way.demand.uses.iter().map(|(r, _)| router.name(*r)).collect();
    let up = names.iter().find(|n| n.starts_with("leaf0 to spine")).unwrap().clone();
    let spine: u64 = up.strip_prefix("leaf0 to spine").unwrap().parse().unwrap();
    cluster.network.as_mut().unwrap().fail(&format!("uplink:leaf0/{spine}")).unwrap();
    let mut router = Router::new(&cluster, Parts::embedded());
    let way = router.way(places[5 * 8], places[6 * 8], Engine::Sm).unwrap();
    assert!(way.demand.uses.iter().all(|(r, _)| router.name(*r) != up));
    let failed = both(&cluster, "all-reduce:rail", 1e9);
    // what it carried now shares the next link with what that carries, so that the rings between nodes go at half the rate
    assert!((failed[1].time / failed[0].time - 1.0).abs() < 0.05, "{} of {}", failed[1].time, failed[0].time);
    assert!(failed[1].time > 1.2 * whole[1].time, "{} of {}", failed[1].time, whole[1].time);
    assert!(failed[1].rerouted && !whole[1].rerouted);
    let last = |outcome: &Outcome| outcome.last[0].0.clone();
    assert!(last(&failed[0]).starts_with("leaf# to spine#"), "{:?}", failed[0].last);
    assert_eq!(last(&failed[0]), last(&failed[1]));
    assert!(!last(&whole[1]).contains("spine"), "{:?}", whole[1].last);
    // rings of all GPUs, which share what joins those of a node
    let ring = both(&cluster, "all-gather:ring", 1e9);
    assert!(ring.iter().all(|o| o.rerouted));
    close(ring[0].time, ring[1].time);
    // neighbours of a rail cross from leaf to leaf by the first link of each, so that no other is missed
    let mut rails = many("hgx-h200", 66, "rail:2");
    let job = |workload: &str| Job::Workload(workload.parse().unwrap(), vec![Bytes(1 << 30)]);
    let before = simulate(&rails, &job("all-reduce:rail"), false).unwrap().0;
    assert_eq!(before.rerouted, None);
    rails.network.as_mut().unwrap().fail("uplink:leaf0/2").unwrap();
    let after = simulate(&rails, &job("all-reduce:rail"), false).unwrap().0;
    assert_eq!((after.rerouted, after.points[0].time), (Some(false), before.points[0].time));
    rails.network.as_mut().unwrap().fail("uplink:leaf0/0").unwrap();
    assert_eq!(simulate(&rails, &job("all-reduce:rail"), false).unwrap().0.rerouted, Some(true));
    let network = cluster.network.as_mut().unwrap();
    for wrong in ["uplink:leaf0/16", "uplink:leaf99", "uplink:spine0", "leaf99", "uplink:leafx", "uplink:node0"] {
        assert!(network.fail(wrong).is_err(), "{wrong}");
    }
    (0..16).for_each(|way| network.fail(&format!("uplink:leaf0/{way}")).unwrap());
    let mut router = Router::new(&cluster, Parts::embedded());
    assert!(router.way(places[5 * 8], places[6 * 8], Engine::Sm).is_err());
}
