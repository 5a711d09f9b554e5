//! Paths, routing, sizes, and what is slow or has failed.

use super::*;

fn network(wanted: &str, nodes: u32, nics: u32) -> Network {
    let wanted: Wanted = wanted.parse().unwrap();
    let shape = wanted.shape(nodes, nics).unwrap().0;
    Network::new(shape, [nodes, nics], Rate::from_gbit(100.0), Seconds::new(0.0))
}

fn path(network: &Network, from: (u32, u32), to: (u32, u32)) -> Vec<String> {
    let mut channels = Vec::new();
    let port = |(node, nic)| Port { node, nic };
    network.path(port(from), port(to), &mut channels).unwrap();
    channels.into_iter().map(|c| network.name(c)).collect()
}

#[test]
fn what_is_written_comes_back() {
    for text in [
        "torus:4x4x1",
        "fat-tree",
        "fat-tree:3:2",
        "fat-tree:2:1.5",
        "rail:2",
        "dragonfly",
        "dragonfly:9x4x2",
        "dragonfly:3x4x2x1",
        "switch",
    ] {
        assert_eq!(text.parse::<Wanted>().unwrap().to_string(), text);
    }
    for text in [
        "",
        "ring",
        "torus",
        "torus:0x2",
        "torus:4x",
        "fat-tree:1:2:3",
        "fat-tree:2:0.5",
        "fat-tree:2:1.0001",
        "switch:4",
        "dragonfly:2x2",
    ] {
        assert!(text.parse::<Wanted>().is_err(), "{text}");
    }
}

#[test]
fn every_pair_is_joined_by_a_chain_of_channels() {
    let networks = [
        ("torus:3x2x2", 12, 1),
        ("fat-tree:2", 70, 1),
        ("fat-tree:3:2", 100, 2),
        ("rail:3", 40, 4),
        ("dragonfly:5x4x2", 40, 1),
        ("dragonfly", 100, 1),
        ("switch", 6, 3),
    ];
    for (wanted, nodes, nics) in networks {
        let network = network(wanted, nodes, nics);
        for (a, b) in (0..nodes).flat_map(|a| (0..nodes).map(move |b| (a, b))).filter(|(a, b)| a != b) {
            let hops = path(&network, (a, a % nics), (b, b % nics));
            let ends = |hop: &String| hop.split_once(" to ").map(|(x, y)| (x.to_owned(), y.to_owned())).unwrap();
            let ends: Vec<_> = hops.iter().map(ends).collect();
            let name = |node: u32| {
                if nics > 1 { format!("node{node} port{}", node % nics) } else { format!("node{node}") }
            };
            assert_eq!(ends.first().map(|e| e.0.clone()), Some(name(a)), "{wanted}: {hops:?}");
            assert_eq!(ends.last().map(|e| e.1.clone()), Some(name(b)), "{wanted}: {hops:?}");
            assert!(ends.windows(2).all(|w| w[0].1 == w[1].0), "{wanted}: {hops:?}");
        }
    }
}

#[test]
fn a_torus_takes_the_shorter_way_round() {
    let torus = network("torus:4x4", 16, 1);
    assert_eq!(path(&torus, (0, 0), (3, 0)), ["node0 to node3"]);
    assert_eq!(path(&torus, (1, 0), (14, 0)), ["node1 to node2", "node2 to node14"]);
}

#[test]
fn rails_meet_at_leaf_switches() {
    // the same NIC of two nodes is one switch apart, two NICs are not
    let rail = network("rail:2", 32, 8);
    assert_eq!(path(&rail, (0, 3), (31, 3)).len(), 2);
    assert_eq!(path(&rail, (0, 3), (31, 4)).len(), 4);
    let tree = network("fat-tree:2", 32, 8);
    assert_eq!(path(&tree, (0, 3), (1, 4)).len(), 2);
    assert_eq!(path(&tree, (0, 3), (31, 3)).len(), 4);
}

/// By channel the bytes that go through it, where each pair of nodes sends one byte.
fn loads(network: &Network, pairs: impl IntoIterator<Item = (u32, u32)>) -> BTreeMap<u64, f64> {
    let (mut loads, mut channels) = (BTreeMap::new(), Vec::new());
    for (a, b) in pairs {
        channels.clear();
        let parts = network.path(Port { node: a, nic: 0 }, Port { node: b, nic: 0 }, &mut channels).unwrap();
        channels.iter().for_each(|channel| *loads.entry(*channel).or_insert(0.0) += 1.0 / f64::from(parts));
    }
    loads
}

/// The pace that all of these pairs keep together, as a share of a link's rate.
fn pace(network: &Network, pairs: impl IntoIterator<Item = (u32, u32)>) -> f64 {
    let of = |(channel, load): (u64, f64)| {
        network.capacity(channel).bytes_per_second() / network.rate.bytes_per_second() / load
    };
    loads(network, pairs).into_iter().map(of).fold(f64::INFINITY, f64::min)
}

/// Two leaves of 32 nodes and 32 spines: every node of the first sends to one of the second.
fn shifted() -> impl Iterator<Item = (u32, u32)> + Clone {
    (0..32).map(|node| (node, 32 + node))
}

#[test]
fn adaptive_routing_carries_a_permutation_at_full_rate() {
    let mut tree = network("fat-tree:2", 64, 1);
    tree.routing = Routing::Adaptive;
    assert_eq!(pace(&tree, shifted()), 1.0);
    assert_eq!(pace(&tree, (0..32).map(|node| (node, 32 + node * 7 % 32))), 1.0);
    // and one of three levels, also when all leave their part of the tree
    let mut deep = network("fat-tree:3", 4096, 1);
    deep.routing = Routing::Adaptive;
    assert!((pace(&deep, (0..2048).map(|node| (node, 2048 + node * 5 % 2048))) - 1.0).abs() < 1e-12);
}

#[test]
fn hashed_paths_collide_as_often_as_balls_in_bins() {
    let mut sum = 0.0;
    let seeds = 200;
    for seed in 0..seeds {
        let mut tree = network("fat-tree:2", 64, 1);
        tree.routing = Routing::Ecmp(seed);
        sum += 1.0 / pace(&tree, shifted());
    }
    // the expected fullest of 32 bins with 32 balls, counted with independent throws
    let mut random = peerlane_machine::random::Random::from_seed(1);
    let mut fullest = || {
        let mut bins = [0_u32; 32];
        (0..32).for_each(|_| bins[random.below(32)] += 1);
        f64::from(bins.into_iter().max().unwrap())
    };
    let expected = (0..20_000).map(|_| fullest()).sum::<f64>() / 20_000.0;
    let mean = sum / seeds as f64;
    assert!((mean / expected - 1.0).abs() < 0.05, "{mean} {expected}");
}

#[test]
fn half_way_round_a_torus_there_are_two_ways() {
    let mut torus = network("torus:4x4", 16, 1);
    assert_eq!(pace(&torus, [(0, 2)]), 1.0);
    torus.routing = Routing::Adaptive;
    assert_eq!(pace(&torus, [(0, 2)]), 2.0);
    assert_eq!(pace(&torus, [(0, 10)]), 2.0);
    assert_eq!(pace(&torus, [(0, 3)]), 1.0);
    // along one dimension there is one way, along the other two
    assert_eq!(pace(&torus, [(0, 6)]), 1.0);
}

#[test]
fn a_taper_is_the_ratio_of_ports() {
    for radix in [32, 40, 64] {
        for (text, ratio) in [("1", 1.0), ("1.5", 1.5), ("2", 2.0), ("3", 3.0), ("4", 4.0)] {
            let Wanted::FatTree { taper, .. } = format!("fat-tree:2:{text}").parse().unwrap() else { unreachable!() };
            let [down, up] = taper.ports(radix);
            assert_eq!(down as f64, ratio * up as f64, "{radix} {text}");
            assert!(down + up <= radix && down + up + u64::from(taper.down + taper.up) > radix, "{radix} {text}");
        }
    }
    let tapered = network("fat-tree:2:2", 84, 1);
    let Shape::FatTree(tree) = &tapered.shape else { unreachable!() };
    assert_eq!((tree.down[0], tree.up[1]), (42, 21));
}

#[test]
fn dragonflies_deal_their_links_out_to_groups_and_routers() {
    for (wanted, each) in
        [("dragonfly:5x4x2", 2), ("dragonfly:3x4x3x2", 4), ("dragonfly:2x4x2x1", 4), ("dragonfly:9x4x2", 1)]
    {
        let net = network(wanted, 8, 1);
        let Shape::Dragonfly(fly) = &net.shape else { unreachable!() };
        assert_eq!(fly.between(), each, "{wanted}");
        let (mut pairs, mut routers) = (BTreeMap::new(), BTreeMap::new());
        for channel in fly.channels().into_iter().filter(|channel| channel % 8 == 3) {
            let ends = net.name(channel);
            let (from, to) = ends.split_once(" to ").unwrap();
            let group = |router: &str| router.split_once('.').unwrap().0.to_owned();
            *pairs.entry((group(from), group(to))).or_insert(0) += 1;
            *routers.entry(from.to_owned()).or_insert(0) += 1;
        }
        assert!(pairs.values().all(|links| *links == each) && pairs.len() as u32 == fly.groups * (fly.groups - 1));
        let all = || (0..fly.groups).flat_map(|g| (0..fly.routers).map(move |r| format!("router{g}.{r}")));
        let links = all().map(|router| routers.get(&router).copied().unwrap_or(0));
        let (least, most) = (links.clone().min().unwrap(), links.max().unwrap());
        assert!(most - least <= 1 && most <= fly.global, "{wanted}: {routers:?}");
    }
    assert!("dragonfly:9x2x2x1".parse::<Wanted>().unwrap().shape(8, 1).is_err());
}

#[test]
fn what_has_failed_takes_its_share() {
    let adaptive = || {
        let mut tree = network("fat-tree:2", 64, 1);
        tree.routing = Routing::Adaptive;
        tree
    };
    let mut one_link = adaptive();
    one_link.fail("uplink:leaf0/5").unwrap();
    assert!((pace(&one_link, shifted()) - 31.0 / 32.0).abs() < 1e-12);
    let mut spine = adaptive();
    spine.fail("spine3").unwrap();
    assert!((pace(&spine, shifted()) - 31.0 / 32.0).abs() < 1e-12);
    let mut slow = adaptive();
    slow.slow("spine3", 0.5).unwrap();
    assert!((pace(&slow, shifted()) - 31.5 / 32.0).abs() < 1e-12);
    let mut fixed = network("fat-tree:2", 64, 1);
    fixed.slow("node3", 0.25).unwrap();
    assert_eq!(pace(&fixed, shifted()), 0.25);
    assert_eq!(pace(&fixed, shifted().skip(4)), 1.0);
}

#[test]
fn every_network_goes_round_what_failed_or_names_it() {
    let refused = |network: &Network, from, to| {
        let mut channels = Vec::new();
        let port = |node| Port { node, nic: 0 };
        network.path(port(from), port(to), &mut channels).unwrap_err().to_string()
    };
    for (wanted, what) in [
        ("fat-tree:2", "leaf0"),
        ("rail:2", "node1"),
        ("torus:3x3", "node1"),
        ("dragonfly:3x3x1", "router0.1"),
        ("switch", "switch"),
    ] {
        let mut net = network(wanted, 9, 1);
        net.fail(what).unwrap();
        let why = refused(&net, 1, 8);
        assert!(why.contains("node1 and node8: every path has a failed link"), "{wanted}: {why}");
        assert!(net.fail("leaf9999").unwrap_err().to_string().contains("nothing is called so"), "{wanted}");
        assert!(net.slow(what, 0.0).is_err() && net.slow(what, f64::NAN).is_err());
    }
    let mut torus = network("torus:4", 4, 1);
    torus.fail("link:node0:node1").unwrap();
    assert_eq!(path(&torus, (0, 0), (1, 0)), ["node0 to node3", "node3 to node2", "node2 to node1"]);
    let mut fly = network("dragonfly:2x4x2x1", 8, 1);
    let global = path(&fly, (0, 0), (8 - 1, 0));
    assert!(!global.is_empty());
    fly.fail("link:router0.0:router1.0").unwrap();
    let loads = loads(&fly, [(0, 7), (1, 7)]);
    assert!(loads.keys().all(|channel| !fly.failed.contains(channel)));
}
