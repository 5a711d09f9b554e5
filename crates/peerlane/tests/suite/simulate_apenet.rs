//! What the talk of 2013 publishes of APEnet+ and QUonG, against simulations of one message and of the spin glass: the
//! tables of `docs/simulation.md`.
//!
//! Source of all published figures: D. Rossetti, "GPU peer-to-peer techniques applied to a cluster interconnect", 2013.
//! Its curves were pictures, so that agreement is claimed with the numbers of its text alone.

use std::fmt::Write;

use peerlane::catalogue::{read_system, system_text};
use peerlane::cluster::{Cluster, Wanted, embedded};
use peerlane::simulate::result::{Job, simulate};
use peerlane::simulate::scaling::{Scaling, scaling};
use peerlane::simulate::workload::Workload;
use peerlane::units::{Bytes, Rate, Seconds};

const DOCUMENT: &str = include_str!("../../../../docs/simulation.md");

/// Compares the lines of the document between `head` and the next empty line with `rows`, or writes them.
fn table(head: &str, rows: &str) {
    let (before, rest) = DOCUMENT.split_once(head).unwrap();
    let (old, after) = rest.split_once("\n\n").unwrap();
    if std::env::var_os("UPDATE_DOCS").is_some() {
        let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/simulation.md");
        // another test may have written its table meanwhile
        static ONE: std::sync::Mutex<()> = std::sync::Mutex::new(());
        let _one = ONE.lock().unwrap();
        let text = std::fs::read_to_string(&path).unwrap();
        let new = text.replacen(&format!("{head}{old}\n\n"), &format!("{head}{}\n\n", rows.trim_end()), 1);
        std::fs::write(path, new).unwrap();
        return;
    }
    assert_eq!(
        old,
        rows.trim_end(),
        "docs/simulation.md is stale: UPDATE_DOCS=1 cargo test -p peerlane simulate_apenet::"
    );
    assert!(!before.is_empty() && !after.is_empty());
}

/// Two nodes of a kind whose card is `card`, side by side.
fn pair(node: &str, card: &str) -> Cluster {
    let text = system_text(node).unwrap().replace("\"apenet-plus\"", &format!("\"{card}\""));
    assert!(text.contains(&format!("\"{card}\"")));
    let wanted: Wanted = "torus:2".parse().unwrap();
    let machine = read_system(&text, node).unwrap();
    let mut cluster = Cluster::of(machine, 2, &wanted, Some(Rate::from_gbit(34.0)), Seconds::new(0.0)).unwrap();
    cluster.latencies.network = None;
    cluster
}

/// Seconds of a message.
fn time(cluster: &Cluster, workload: &str, size: u64) -> f64 {
    let job = Job::Workload(workload.parse::<Workload>().unwrap(), vec![Bytes(size)]);
    simulate(cluster, &job, false).unwrap().0.points[0].time
}

/// GB/s of a message that is long enough for its start not to count.
fn rate(cluster: &Cluster, workload: &str) -> f64 {
    let size = 4 << 30;
    size as f64 / time(cluster, workload, size) / 1e9
}

const GPUS: &str = "point-to-point:node0/GPU0:node1/GPU0";
const HOSTS: &str = "point-to-point:node0/host0:node1/host0";
const STAGED: &str = "point-to-point:node0/GPU0:node1/GPU0:staged";

/// µs of a half-sweep on some of QUonG's nodes, over links of 20 Gb/s as the scaling runs had them.
fn half_sweep(nodes: u32, gpus: usize, words: &str) -> f64 {
    let mut cluster = embedded("quong-20g").unwrap().unwrap();
    cluster.taking = (nodes, gpus);
    let workload: Workload = format!("spin-glass:l=256,sweeps=10,{words}").parse().unwrap();
    let router = peerlane::cluster::Router::new(&cluster, peerlane::catalogue::Parts::embedded());
    let program = workload.program(&cluster, &router, 0.0).unwrap();
    let job = Job::Program(workload.to_string(), program, 0);
    simulate(&cluster, &job, false).unwrap().0.points[0].time / 20.0 * 1e6
}

#[test]
fn published_figures_are_met_by_simulated_messages() {
    let fermi = embedded("apenet-pair").unwrap().unwrap();
    let kepler = pair("apenet-i7-plx", "apenet-plus-rx");
    // the receive engine takes in 1.5 GB/s; in hardware it lets the reads be seen
    let better = pair("apenet-x56xx", "apenet-plus-rx");
    let (direct, staged) = (time(&fermi, GPUS, 8), time(&fermi, STAGED, 8));
    let gain = |words: [&str; 2], (nodes, gpus): (u32, usize)| {
        half_sweep(nodes, gpus, words[0]) / half_sweep(nodes, gpus, words[1])
    };
    // what, published (slide), simulated, D or F, largest error
    let rows = [
        // "GPU P2P read": "Host mem read 2.7 GB/s X56xx/Tylesburg TX"
        ("host memory read, Tylersburg, GB/s", 2.7, rate(&better, HOSTS), 'F', 0.01),
        // "GPU mem read 1.5 GB/s Fermi NVP2P X56xx/Tylesburg GPU_P2P_TX"
        ("GPU memory read, Fermi, Tylersburg, GB/s", 1.5, rate(&fermi, GPUS), 'F', 0.01),
        // "GPU mem read 1.6 GB/s Kepler NVP2P I7/PLX GPU_P2P_TX"
        ("GPU memory read, Kepler, PLX, GB/s", 1.6, rate(&kepler, GPUS), 'F', 0.01),
        // "GPU-GPU loopback 1.3 GB/s Fermi NVP2P X56xx/Tylesburg GPU_P2P_TX + RX"
        ("G–G loopback, GB/s", 1.3, rate(&fermi, "point-to-point:node0/GPU0:node0/GPU0:loopback"), 'F', 0.01),
        // "Host-Host loopback 1.5GB/s X56xx/Tylesburg RX"
        ("H–H loopback, GB/s", 1.5, rate(&fermi, "point-to-point:node0/host0:node0/host0:loopback"), 'F', 0.01),
        // "Synthetic benchmarks: 2 nodes latency": "50% lower than staging"
        ("G–G latency of two nodes, part of staged", 0.5, direct / staged, 'D', 0.08),
        // "HSG 50% better": computing and sending at once
        ("spin glass, gain by overlap, 8 GPUs", 1.5, gain(["serial", "overlap"], (4, 2)), 'D', 0.10),
        // "HSG 50% better with 2 GPUs per node"
        (
            "spin glass, gain by 2 GPUs a node, 8 nodes, serial",
            1.5,
            half_sweep(8, 1, "serial") / half_sweep(8, 2, "serial"),
            'D',
            0.05,
        ),
        (
            "spin glass, gain by 2 GPUs a node, 8 nodes, overlap",
            1.5,
            half_sweep(8, 1, "overlap") / half_sweep(8, 2, "overlap"),
            'D',
            0.10,
        ),
    ];
    let mut text = String::new();
    for (what, published, simulated, kind, most) in rows {
        let error = simulated / published - 1.0;
        assert!(error.abs() <= most, "{what}: {published} published, {simulated} simulated");
        let percent = format!("{:+.1} %", error * 100.0).replace("-0.0 %", "+0.0 %");
        writeln!(text, "| {what} | {published} | {simulated:.2} | {percent} | {kind} |").unwrap();
    }
    table("| | published | simulated | error | |\n| --- | --- | --- | --- | --- |\n", &text);
}

#[test]
fn the_gpu_read_engines_ramp_as_their_windows_do() {
    let engines = ["apenet-plus-v1", "apenet-plus-v2", "apenet-plus"].map(|card| pair("apenet-x56xx", card));
    let mut text = String::new();
    let mut before = [0.0; 3];
    for size in (9..=24).step_by(3).map(|p| 1_u64 << p) {
        let rates = [0, 1, 2].map(|i| size as f64 / time(&engines[i], GPUS, size) / 1e9);
        // longer messages are faster, and each engine is at least as fast as the one before
        assert!(rates.iter().zip(before).all(|(now, before)| *now > before), "{size}: {rates:?}");
        assert!(rates.windows(2).all(|w| w[1] >= w[0] * (1.0 - 1e-9)), "{size}: {rates:?}");
        before = rates;
        let loopback = "point-to-point:node0/GPU0:node0/GPU0:loopback";
        let back = [0, 1, 2].map(|i| size as f64 / time(&engines[i], loopback, size) / 1e9);
        let cells = rates.iter().chain(&back).map(|r| format!(" {r:.3} |")).collect::<String>();
        writeln!(text, "| {} |{cells}", Bytes(size)).unwrap();
    }
    // W ÷ (L + W/R) for windows of 4 and 32 KiB, and the GPU's own rate: 0.92, 1.39 and 1.50 GB/s (model-rdma.md, 2)
    for (engine, expected) in engines.iter().zip([4.096 / (1.707 + 4.096 / 1.5), 32.768 / (1.707 + 32.768 / 1.5), 1.5])
    {
        let got = rate(engine, GPUS);
        assert!((got / expected - 1.0).abs() < 1e-3, "{got} is not {expected}");
    }
    table("| size | V1 | V2 | V3 | V1 | V2 | V3 |\n| --- | --- | --- | --- | --- | --- | --- |\n", &text);
}

#[test]
fn a_message_alone_takes_the_time_of_its_stages_and_engines() {
    use peerlane::catalogue::Parts;
    use peerlane::model::Model;
    use peerlane::model::rdma::{Message, Method, Network, NicDirection, nic_path};
    for card in ["apenet-plus-v1", "apenet-plus-v2", "apenet-plus", "apenet-plus-rx"] {
        let cluster = pair("apenet-x56xx", card);
        let model = Model::new(&cluster.node, Parts::embedded());
        let find = |name| cluster.node.fabric.find(name).unwrap();
        let by = |words: &str| format!("{GPUS}:{words}");
        let pipeline = "staged:chunk=64K,depth=2";
        let cases = [
            (HOSTS.to_owned(), "host0", Method::Host),
            (GPUS.to_owned(), "GPU0", Method::Nvp2p),
            (by("nvp2p"), "GPU0", Method::Nvp2p),
            (by("bar1"), "GPU0", Method::Bar1),
            (STAGED.to_owned(), "GPU0", Method::STAGED),
            (by(pipeline), "GPU0", pipeline.parse().unwrap()),
            (by("staged:chunk=1073741824K,depth=1"), "GPU0", "staged:chunk=1073741824K,depth=1".parse().unwrap()),
        ];
        for (workload, memory, method) in &cases {
            assert_eq!(workload.parse::<Workload>().unwrap().to_string(), *workload);
            let path = |way| nic_path(&model, find(memory), find("apenet0"), way, *method).unwrap();
            let message =
                Message::new(path(NicDirection::ToNetwork), Network::NEXT, path(NicDirection::FromNetwork)).unwrap();
            for size in [1, 100, 4096, 5000, 40_000, 1 << 20, 100_000_001] {
                let (got, expected) = (time(&cluster, workload, size), message.time(Bytes(size)).likely.seconds());
                assert!((got / expected - 1.0).abs() < 1e-9, "{card} {method} {size}: {got} is not {expected}");
            }
        }
    }
    // a card on the way adds its hop, and nothing else does
    let cluster = embedded("quong").unwrap().unwrap();
    let to = |place: &str| time(&cluster, &format!("point-to-point:node0/GPU0:{place}/GPU0"), 64);
    let hop = (to("node2") - to("node1")) * 1e6;
    assert!((hop - 0.3).abs() < 1e-9, "{hop}");
    // loopbacks are within a node, and need a NIC
    let far: Workload = "point-to-point:node0/GPU0:node1/GPU0:loopback".parse().unwrap();
    let error = simulate(&cluster, &Job::Workload(far, vec![Bytes(8)]), false).unwrap_err().to_string();
    assert!(error.contains("within one node"), "{error}");
    let alone = Cluster::single(peerlane::catalogue::system("exxact-devbox").unwrap().unwrap());
    let none: Workload = "point-to-point:GPU0:GPU1:loopback".parse().unwrap();
    let error = simulate(&alone, &Job::Workload(none, vec![Bytes(8)]), false).unwrap_err().to_string();
    assert!(error.contains("has no NIC"), "{error}");
}

#[test]
fn the_spin_glass_scales_until_the_card_is_full() {
    let columns = [(1, "overlap"), (1, "serial"), (2, "overlap"), (2, "serial")].map(|(gpus, words)| {
        let mut cluster = embedded("quong-20g").unwrap().unwrap();
        cluster.taking = (u32::MAX, gpus);
        [Scaling::Strong, Scaling::Weak].map(|how| {
            let workload: Workload = format!("spin-glass:l=256,{words}").parse().unwrap();
            scaling(&cluster, &workload, Bytes(0), &[1, 2, 4, 8, 16], how).unwrap().points
        })
    });
    let mut text = String::new();
    for at in 0..5 {
        let speedups: String = columns.iter().map(|[strong, _]| format!(" {:.2} |", strong[at].speedup)).collect();
        let kept: String = columns.iter().map(|[_, weak]| format!(" {:.0} % |", weak[at].efficiency * 100.0)).collect();
        writeln!(text, "| {} |{speedups}{kept}", columns[0][0][at].nodes).unwrap();
    }
    // overlap is ideal until what is sent takes longer than the bulk; weak scaling with overlap is ideal throughout
    let [overlap, serial] = [&columns[0], &columns[1]];
    assert!(overlap[0][..4].iter().all(|p| p.efficiency > 0.999) && overlap[0][4].efficiency < 0.9);
    assert!(overlap[1].iter().all(|p| p.efficiency > 0.999));
    assert!(serial[0].windows(2).all(|w| w[1].efficiency < w[0].efficiency), "{serial:?}");
    table(
        "| nodes | 1 GPU, overlap | 1, serial | 2, overlap | 2, serial | 1, overlap | 1, serial | 2, overlap | 2, serial |\n\
         | --- | --- | --- | --- | --- | --- | --- | --- | --- |\n",
        &text,
    );
}

#[test]
fn the_spin_glass_on_quong() {
    let mut text = String::new();
    for (nodes, gpus) in [(2, 1), (2, 2), (4, 2), (8, 1), (8, 2), (16, 1), (16, 2)] {
        let [overlap, serial, staged] =
            ["overlap,p2p", "serial,p2p", "overlap,staged"].map(|words| half_sweep(nodes, gpus, words));
        assert!(overlap <= serial && overlap <= staged * (1.0 + 1e-9), "{nodes} × {gpus}");
        let gain = serial / overlap;
        writeln!(text, "| {nodes} × {gpus} | {overlap:.0} | {serial:.0} | {staged:.0} | {gain:.2} |").unwrap();
    }
    table(
        "| nodes × GPUs | overlap, P2P | serial, P2P | overlap, staged | gain of overlap |\n| --- | --- | --- | --- | --- |\n",
        &text,
    );
}

#[test]
fn the_spin_glass_takes_the_same_methods() {
    let (nodes, gpus) = (4, 1);
    let time = |words: &str| half_sweep(nodes, gpus, &format!("serial,{words}"));
    assert!((time("nvp2p") / time("p2p") - 1.0).abs() < 1e-9, "QUonG's cards use NVP2P");
    assert!(time("bar1") > 2.0 * time("nvp2p"), "a Fermi answers BAR1 reads one at a time");
    // copies that wait for each other take longer than a pipeline of them
    let (copied, piped) = (time("staged"), time("staged:chunk=32K,depth=4"));
    assert!(piped < copied, "{copied} {piped}");
    assert!(
        time("staged:chunk=4K,depth=1") > piped,
        "two messages share the card, so that each may take half of its rate"
    );
    for text in [
        "spin-glass:l=64,sweeps=10,overlap,staged:chunk=64K,depth=4,strong",
        "spin-glass:l=64,sweeps=10,serial,bar1,weak",
    ] {
        assert_eq!(text.parse::<Workload>().unwrap().to_string(), text);
    }
    for text in ["spin-glass:staged:depth=0", "spin-glass:depth=4", "spin-glass:bar1,chunk=4K", "spin-glass:bar1,nvp2p"]
    {
        assert!(text.parse::<Workload>().is_err(), "{text}");
    }
}

#[test]
fn the_method_of_a_nodes_nic_is_that_of_its_messages() {
    use peerlane::what_if::apply;
    let cluster = pair("apenet-x56xx", "apenet-plus-rx");
    for method in ["nvp2p", "bar1", "staged:chunk=64K,depth=2"] {
        let edits = [format!("apenet0.method={method}").parse().unwrap()];
        let node = apply(&cluster.node, &edits, peerlane::catalogue::Parts::embedded()).unwrap();
        let changed = cluster.clone().with_node(node).unwrap();
        for size in [8, 100_000, 10_000_000] {
            let (got, expected) = (time(&changed, GPUS, size), time(&cluster, &format!("{GPUS}:{method}"), size));
            assert!((got / expected - 1.0).abs() < 1e-9, "{method} {size}: {got} is not {expected}");
        }
    }
    let edits = ["apenet0=none".parse().unwrap()];
    let node = apply(&cluster.node, &edits, peerlane::catalogue::Parts::embedded()).unwrap();
    assert!(cluster.clone().with_node(node).is_err(), "the network has lost its card");
    let within = Cluster::single(peerlane::catalogue::system("exxact-devbox").unwrap().unwrap());
    let none: Workload = "point-to-point:GPU0:GPU1:bar1".parse().unwrap();
    let error = simulate(&within, &Job::Workload(none, vec![Bytes(8)]), false).unwrap_err().to_string();
    assert!(error.contains("BAR1 is how a NIC accesses memory, and GPU0 and GPU1 are in one node"), "{error}");
}
