//! What documents publish of NICs and GPU memory, against the model: the table of `validation/rdma.md`, the talk's
//! three hypotheses, and its statements in words.

use peerlane::catalogue::{Parts, read_system, system, system_text};
use peerlane::fabric::NodeId;
use peerlane::machine::Machine;
use peerlane::model::Model;
use peerlane::model::rdma::{
    Message, Method, Network, NicDirection, NicPath, RdmaError, describe, loopback, nic_path, nic_paths,
};
use peerlane::units::{Bytes, Rate, Seconds};

const DOCUMENT: &str = include_str!("../../../../validation/rdma.md");

/// The first lines of the table of published against predicted.
const HEAD: &str = "| | published | model | error | | bound by |\n|---|---|---|---|---|---|\n";

/// A machine with its GPU, its NIC and the host memory beside it.
struct Bench {
    machine: Machine,
    gpu: String,
    nic: String,
}

impl Bench {
    fn new(name: &str, nic: &str) -> Self {
        Bench { machine: system(name).unwrap().unwrap(), gpu: "GPU0".to_owned(), nic: nic.to_owned() }
    }

    /// The Tylersburg node with another revision of the card.
    fn with_card(part: &str) -> Self {
        let text = system_text("apenet-x56xx").unwrap().replace("\"apenet-plus\"", &format!("\"{part}\""));
        Bench { machine: read_system(&text, "other card").unwrap(), ..Bench::new("apenet-x56xx", "apenet0") }
    }

    fn model(&self) -> Model<'_> {
        Model::new(&self.machine, Parts::embedded())
    }

    fn find(&self, name: &str) -> NodeId {
        self.machine.fabric.find(name).unwrap()
    }

    fn memory(&self, method: Method) -> NodeId {
        match method {
            Method::Host => self.machine.fabric.nearest_host(self.find(&self.nic)).unwrap(),
            _ => self.find(&self.gpu),
        }
    }

    fn path(&self, way: NicDirection, method: Method) -> NicPath {
        nic_path(&self.model(), self.memory(method), self.find(&self.nic), way, method).unwrap()
    }

    fn gb(&self, way: NicDirection, method: Method) -> f64 {
        self.path(way, method).rate.gb()
    }

    fn message(&self, from: Method, to: Method, network: Network) -> Message {
        Message::new(self.path(NicDirection::ToNetwork, from), network, self.path(NicDirection::FromNetwork, to))
            .unwrap()
    }

    fn loopback(&self, method: Method) -> (Rate, String) {
        let end = (self.memory(method), method);
        loopback(&self.model(), [end, end], self.find(&self.nic)).unwrap()
    }
}

/// One published figure beside the model's.
struct Row {
    what: &'static str,
    published: f64,
    model: f64,
    /// `D` derived, `F` fitted to this figure.
    kind: char,
    /// What the model says binds.
    binds: String,
}

fn rows() -> Vec<Row> {
    let fermi = Bench::new("apenet-x56xx", "apenet0");
    let kepler = Bench::new("apenet-i7-plx", "apenet0");
    let tylersburg = Bench::new("k20-cx3-tylersburg", "mlx4_0");
    let sandy_bridge = Bench::new("k20-cx3-snb", "mlx4_0");
    let row =
        |what, published, kind, (rate, binds): (Rate, String)| Row { what, published, model: rate.gb(), kind, binds };
    let one = |bench: &Bench, way, method| {
        let path = bench.path(way, method);
        (path.rate, path.bottleneck)
    };
    use NicDirection::{FromNetwork, ToNetwork};
    let mut all = vec![
        row("APEnet+, host memory read, Tylersburg", 2.7, 'F', one(&fermi, ToNetwork, Method::Host)),
        row("APEnet+, Fermi read by NVP2P, Tylersburg", 1.5, 'F', one(&fermi, ToNetwork, Method::Nvp2p)),
        row("APEnet+, Fermi read by BAR1, Tylersburg", 0.15, 'F', one(&fermi, ToNetwork, Method::Bar1)),
        row("APEnet+, Kepler read by NVP2P, PLX", 1.6, 'F', one(&kepler, ToNetwork, Method::Nvp2p)),
        row("APEnet+, Kepler read by BAR1, PLX", 1.6, 'F', one(&kepler, ToNetwork, Method::Bar1)),
        row("APEnet+, host to host, loopback", 1.5, 'F', fermi.loopback(Method::Host)),
        row("APEnet+, GPU to GPU, loopback", 1.3, 'F', fermi.loopback(Method::Nvp2p)),
        row("ConnectX-3, K20 read by BAR1, Tylersburg", 1.4, 'F', one(&tylersburg, ToNetwork, Method::Bar1)),
        row("ConnectX-3, K20 written by BAR1, Tylersburg", 3.2, 'D', one(&tylersburg, FromNetwork, Method::Bar1)),
        row("ConnectX-3, K20 read by BAR1, Sandy Bridge", 0.8, 'F', one(&sandy_bridge, ToNetwork, Method::Bar1)),
        row("ConnectX-3, K20 written by BAR1, Sandy Bridge", 5.0, 'D', one(&sandy_bridge, FromNetwork, Method::Bar1)),
    ];
    let tessa = Bench::new("hpcac-tessa", "mlx5_2");
    let path = tessa.path(ToNetwork, Method::Bar1);
    let (curve, _) = &tessa.machine.curves[0];
    for series in &curve.series {
        for (size, value) in curve.sizes.iter().zip(&series.values) {
            let what = match (series.name.as_str(), size.to_string().as_str()) {
                ("BW average", "2 B") => "ConnectX-6 HDR100 with T4 memory, messages of 2 B, average",
                ("BW average", "4 B") => "the same, 4 B",
                ("BW average", "8 B") => "the same, 8 B",
                ("BW average", "16 B") => "the same, 16 B",
                ("BW average", "1 MiB") => "the same, 1 MiB",
                ("BW average", "2 MiB") => "the same, 2 MiB",
                ("BW peak", "1 MiB") => "the same, 1 MiB, peak",
                ("BW peak", "2 MiB") => "the same, 2 MiB, peak",
                _ => continue,
            };
            let small = size.0 < 1000;
            let binds = if small { "the gap between messages".to_owned() } else { path.bottleneck.clone() };
            let published = Rate::from_gbit(value.unwrap()).gb();
            all.push(row(what, published, if small { 'F' } else { 'D' }, (path.rate_at(*size), binds)));
        }
    }
    // the averages first
    all[11..].sort_by_key(|r| r.what.ends_with("peak"));
    assert_eq!(all.len(), 19, "every rate of both documents");
    all
}

#[test]
fn published_rates_are_met_and_the_document_says_how_well() {
    let digits = |v: f64| if v < 0.12 { format!("{v:.4}") } else { format!("{v:.2}") };
    let mut table = String::new();
    for Row { what, published, model, kind, binds } in rows() {
        let error = model / published - 1.0;
        // the 16-byte row of perftest, 0.79 Gb/s, is slower than its 2, 4 and 8-byte rows allow; why is not told
        let most = if kind == 'D' || what.ends_with(" 16 B") { 0.085 } else { 0.035 };
        assert!(error.abs() <= most, "{what}: {published} published, {model} predicted");
        let (published, model) = (digits(published), digits(model));
        let line = format!("| {what} | {published} | {model} | {:+.1} % | {kind} | {binds} |", error * 100.0);
        table.push_str(&line.replace("-0.0 %", "+0.0 %"));
        table.push('\n');
    }
    documented(HEAD, &table);
}

/// Compares the document's table below `head` with `table`, or writes it.
fn documented(head: &str, table: &str) {
    if std::env::var_os("UPDATE_RDMA").is_some() {
        // another test may have written its table meanwhile
        static ONE: std::sync::Mutex<()> = std::sync::Mutex::new(());
        let _one = ONE.lock().unwrap();
        let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../validation/rdma.md");
        let text = std::fs::read_to_string(&path).unwrap();
        let (before, rest) = text.split_once(head).unwrap();
        let (_, after) = rest.split_once("\n\n").unwrap();
        std::fs::write(path, format!("{before}{head}{table}\n{after}")).unwrap();
        return;
    }
    let stale = "validation/rdma.md is stale: run UPDATE_RDMA=1 cargo test -p peerlane rdma::";
    assert!(DOCUMENT.contains(&format!("{head}{table}\n")), "{stale}");
}

#[test]
fn the_cards_variants_by_message_size() {
    let cards = ["apenet-plus-v1", "apenet-plus-v2", "apenet-plus", "apenet-plus-rx"].map(Bench::with_card);
    let columns = |size: Bytes| {
        let gpus = cards.each_ref().map(|bench| bench.message(Method::Nvp2p, Method::Nvp2p, Network::NEXT));
        let hosts = [2, 3].map(|at: usize| cards[at].message(Method::Host, Method::Host, Network::NEXT));
        gpus.iter().chain(&hosts).map(|message| message.rate_at(size).gb()).collect::<Vec<f64>>()
    };
    let mut table = String::new();
    for size in [64, 512, 4 << 10, 32 << 10, 256 << 10, 2 << 20, 16 << 20].map(Bytes) {
        let row = columns(size);
        assert!(row[0] <= row[1] && row[1] <= row[2] && row[2] <= row[3] && row[4] <= row[5], "{size}: {row:?}");
        let cells: Vec<String> = row.iter().map(|gb| format!("{gb:.3}")).collect();
        table.push_str(&format!("| {size} | {} |\n", cells.join(" | ")));
    }
    // a read engine is the limit of GPU memory, a receive engine that of host memory
    let long = columns(Bytes(16 << 20));
    assert!((long[3] / long[2] - 1.0).abs() < 0.01 && long[5] > 1.7 * long[4], "{long:?}");
    documented(
        "| size | V1 | V2 | V3 | V3, hardware | optimised | hardware |\n|---|---|---|---|---|---|---|\n",
        &table,
    );
}

#[test]
fn a_nic_at_another_socket_is_slow_and_a_range_is_stated() {
    let text = system_text("hpcac-sys").unwrap();
    let rates = |cpu: &str| {
        let machine = read_system(&text.replace("\"xeon-scalable\"", &format!("\"{cpu}\"")), cpu).unwrap();
        let find = |name| machine.fabric.find(name).unwrap();
        let transfer = |from, to| peerlane::model::Transfer {
            source: find(from),
            destination: find(to),
            engine: peerlane::matrix::Engine::Nic,
            op: peerlane::matrix::Operation::Write,
            peer: peerlane::model::PeerAccess::Enabled,
        };
        let model = Model::new(&machine, Parts::embedded());
        [("GPU0", "mlx5_0"), ("mlx5_0", "GPU0")].map(|(from, to)| {
            let transfers = [transfer(from, to)];
            let [low, high] = model.interval(&transfers).unwrap()[0];
            [low, model.solve(&transfers).unwrap()[0].rate, high].map(Rate::gb)
        })
    };
    let ivy = rates("xeon-e5-v2");
    for [low, rate, high] in ivy {
        let near = |got: f64, want: f64| (got / want - 1.0).abs() < 0.01;
        assert!(near(rate, 0.25) && near(low, 0.2) && near(high, 0.5), "{low} {rate} {high}");
    }
    for [low, rate, high] in rates("xeon-e5-v4") {
        assert!((low - 0.25).abs() < 0.01 && rate > 0.25 && (high - 6.0).abs() < 0.1, "{low} {rate} {high}");
    }
    let skylake = rates("xeon-scalable");
    assert!(skylake.iter().all(|[_, rate, _]| *rate > 5.0), "{skylake:?}");
}

#[test]
fn the_card_has_what_the_talk_says_of_pcie() {
    // "PCIe X8 Gen2 in X16 (4+4 GB/s)"
    let bench = Bench::new("apenet-x56xx", "apenet0");
    let model = bench.model();
    let raw: Vec<f64> =
        model.resources.iter().filter(|r| r.name.starts_with("apenet0–rc0")).map(|r| r.capacity.gb()).collect();
    assert_eq!(raw.len(), 2, "two directions");
    assert!(raw.iter().all(|r| (r - 4.0).abs() < 1e-9), "{raw:?}");
}

/// "1.5-1.6 GB/s cap? GPU memory latency; APEnet+ DMA HW engine (num. out. read req); IOH/ICH".
#[test]
fn the_three_hypotheses_for_the_cap() {
    use NicDirection::ToNetwork;
    let fermi = Bench::new("apenet-x56xx", "apenet0");
    let kepler = Bench::new("apenet-i7-plx", "apenet0");
    // I/O hub: it is not on the way below the PLX switch, where the cap stands as well
    let has_hub = |bench: &Bench| {
        let path = bench.machine.fabric.path(bench.find("GPU0"), bench.find("apenet0")).unwrap();
        path.hops.iter().any(|h| bench.machine.fabric.node(h.from).name == "rc0")
    };
    assert!(has_hub(&fermi) && !has_hub(&kepler));
    assert!((kepler.gb(ToNetwork, Method::Bar1) - 1.6).abs() < 0.01);
    // nor is PCIe: it has room for more than half as much again
    let path = kepler.path(ToNetwork, Method::Bar1);
    let link = path.limits.iter().find(|l| l.what.contains("PCIe 2.0 x8")).unwrap();
    assert!(link.rate.gb() > 1.5 * 1.6, "{link:?}");
    // the DMA engine with its outstanding reads gets 2.7 from host memory: not the engine alone, but the engine and
    // the longer latency of GPU memory. Its window would do as long as host memory answers within 1.0 µs
    assert!(fermi.gb(ToNetwork, Method::Host) > 2.69);
    let window: f64 = 1.6e9 * 1.707e-6;
    assert!((window / 2.7e9 * 1e6 - 1.01).abs() < 0.01);
    // GPU memory latency is what one request at a time runs into; with flow control the window does not bind
    let v1 = Bench::with_card("apenet-plus-v1").gb(ToNetwork, Method::Nvp2p);
    let v2 = Bench::with_card("apenet-plus-v2").gb(ToNetwork, Method::Nvp2p);
    let v3 = fermi.gb(ToNetwork, Method::Nvp2p);
    assert!(v1 < v2 && v2 < v3, "{v1} {v2} {v3}");
    assert!((v1 - 4.096 / (1.707 + 4.096 / 1.5)).abs() < 1e-3);
    assert!((v2 - 32.768 / (1.707 + 32.768 / 1.5)).abs() < 1e-3);
    assert!(32.768 / 1.707 > 10.0 * v3, "32 KiB under way for 1.7 µs");
}

/// "H-x limited by APEnet+ RX. G-x limited by GPU RD BW."
#[test]
fn each_source_is_bound_by_its_engine() {
    let bench = Bench::new("apenet-x56xx", "apenet0");
    for to in [Method::Host, Method::Nvp2p] {
        let from_host = bench.message(Method::Host, to, Network::NEXT);
        assert_eq!(from_host.bottleneck(), "apenet0's receive engine", "to {to}");
        let from_gpu = bench.message(Method::Nvp2p, to, Network::NEXT);
        assert!(from_gpu.bottleneck().starts_with("apenet0's GPU-read engine"), "to {to}");
    }
    // a receive engine in hardware moves the first and not the second
    let better = Bench::with_card("apenet-plus-rx");
    let host = better.message(Method::Host, Method::Host, Network::NEXT);
    assert!((host.rate().gb() - 2.7).abs() < 0.01 && host.bottleneck().contains("DMA engine"), "{}", host.bottleneck());
    let gpu = better.message(Method::Nvp2p, Method::Nvp2p, Network::NEXT);
    assert!((gpu.rate().gb() - 1.5).abs() < 1e-6 && gpu.bottleneck().contains("GPU-read engine"));
    // the scaling runs used links of 20 Gb/s
    let slow = Network { rate: Some(Rate::from_gbit(20.0)), ..Network::NEXT };
    let host = better.message(Method::Host, Method::Host, slow);
    assert_eq!((host.rate().gb(), host.bottleneck()), (2.5, "the network"));
}

/// "What is GPU peer-to-peer good for? LATENCY! BANDWIDTH... not yet!" and "50% lower than staging".
#[test]
fn peer_to_peer_wins_in_latency_and_not_yet_in_bandwidth() {
    let bench = Bench::new("apenet-x56xx", "apenet0");
    let between = |method| bench.message(method, method, Network::NEXT);
    let (host, direct, staged) = (between(Method::Host), between(Method::Nvp2p), between(Method::STAGED));
    // the whole of host to host is given; the GPU adds to it on both sides
    assert!((host.latency().likely.us() - 6.5).abs() < 1e-9);
    let one_side = bench.message(Method::Nvp2p, Method::Host, Network::NEXT).latency().likely.us();
    let other_side = bench.message(Method::Host, Method::Nvp2p, Network::NEXT).latency().likely.us();
    let both = direct.latency().likely.us();
    assert!(one_side > 6.5 && other_side > 6.5);
    assert!((both - 6.5 - (one_side - 6.5) - (other_side - 6.5)).abs() < 1e-9, "additive");
    assert!((both - 8.04).abs() < 0.01, "{both}");
    // staging adds the 7 to 10 µs once: direct is 40 to 51 % lower. Twice, it would be 60 % and more
    let lower = |staged: f64| 1.0 - both / staged;
    let span = staged.latency();
    assert!((span.low.us() - 13.5).abs() < 1e-9 && (span.high.us() - 16.5).abs() < 1e-9);
    assert!((0.40..0.41).contains(&lower(span.low.us())) && (0.50..0.52).contains(&lower(span.high.us())));
    assert!(lower(6.5 + 2.0 * 8.5) > 0.6);
    // bandwidth: with today's receive code it is even; with a better one, staging has more
    assert!((staged.rate().gb() - direct.rate().gb()).abs() < 1e-6);
    assert!((0..30).all(|p| direct.time(Bytes(1 << p)).high.us() < staged.time(Bytes(1 << p)).low.us()));
    let better = Bench::with_card("apenet-plus-rx");
    let staged = better.message(Method::STAGED, Method::STAGED, Network::NEXT);
    let direct = better.message(Method::Nvp2p, Method::Nvp2p, Network::NEXT);
    assert!(staged.rate().gb() > 1.7 * direct.rate().gb());
    // so the two curves cross: direct is first for short messages, staging for long ones
    let first = |size| direct.time(Bytes(size)).likely.us() < staged.time(Bytes(size)).likely.us();
    assert!(first(8) && first(256 << 10) && !first(400 << 10));
    assert_eq!((3..26).filter(|p| first(1 << p) && !first(2 << p)).count(), 1, "they cross once");
}

#[test]
fn sums_of_stages_are_latencies_and_times_grow_with_size() {
    for (name, nic) in
        [("apenet-x56xx", "apenet0"), ("quong-node", "apenet0"), ("k20-cx3-snb", "mlx4_0"), ("hpcac-tessa", "mlx5_2")]
    {
        let bench = Bench::new(name, nic);
        let model = bench.model();
        for (method, from) in nic_paths(&model, bench.find("GPU0"), bench.find(nic), NicDirection::ToNetwork) {
            let Ok(from) = from else { continue };
            let to = bench.path(NicDirection::FromNetwork, method);
            let message = Message::new(from, Network::NEXT, to).unwrap();
            let sum: f64 = message.stages().map(|s| s.time.likely.us()).sum();
            assert!((message.time(Bytes(0)).likely.us() - sum).abs() < 1e-9, "{name} {method}");
            let sizes: Vec<Bytes> = (0..28).map(|p| Bytes(1 << p)).collect();
            let curve: Vec<_> = message.curve(&sizes).collect();
            for pair in curve.windows(2) {
                assert!(pair[1].1.likely.us() >= pair[0].1.likely.us(), "{name} {method} {}", pair[1].0);
            }
            let most = message.rate().gb() * (1.0 + 1e-9);
            assert!(curve.iter().all(|(_, _, rate)| rate.gb() <= most), "{name} {method} exceeds {most}");
            let (_, _, last) = curve[curve.len() - 1];
            assert!(last.gb() > 0.98 * most, "{name} {method}: {} of {most}", last.gb());
        }
    }
}

#[test]
fn the_resources_of_a_path_are_those_that_bind_it() {
    for (name, nic) in [
        ("apenet-x56xx", "apenet0"),
        ("apenet-i7-plx", "apenet0"),
        ("k20-cx3-snb", "mlx4_0"),
        ("hpcac-tessa", "mlx5_2"),
    ] {
        let bench = Bench::new(name, nic);
        let model = bench.model();
        for way in [NicDirection::ToNetwork, NicDirection::FromNetwork] {
            for (method, path) in nic_paths(&model, bench.find("GPU0"), bench.find(nic), way) {
                let Ok(path) = path else { continue };
                let lone = path.demand.uses.iter().map(|(r, per_byte)| model.resources[*r].capacity.gb() / per_byte);
                let lone = lone.fold(f64::INFINITY, f64::min);
                assert!((lone / path.rate.gb() - 1.0).abs() < 1e-9, "{name} {method}: {lone} {}", path.rate);
            }
        }
    }
}

#[test]
fn what_cannot_be_is_said() {
    let bench = Bench::new("k20-cx3-snb", "mlx4_0");
    let model = bench.model();
    let (gpu, nic, root) = (bench.find("GPU0"), bench.find("mlx4_0"), bench.find("rc0"));
    let error =
        |memory, nic, method| nic_path(&model, memory, nic, NicDirection::ToNetwork, method).unwrap_err().to_string();
    assert_eq!(
        error(gpu, nic, Method::Nvp2p),
        "no NVP2P between GPU0 and mlx4_0: the card does not speak NVIDIA's protocol, which is not public"
    );
    assert!(error(gpu, nic, Method::Host).contains("the data is in a GPU; take nvp2p, bar1 or staged"));
    assert!(error(bench.memory(Method::Host), nic, Method::Bar1).contains("take host"));
    assert!(error(gpu, root, Method::Bar1).starts_with("rc0 is no NIC"));
    assert!(error(root, nic, Method::Bar1).starts_with("rc0 is neither a GPU nor host memory"));
    let (out, back) =
        (bench.path(NicDirection::ToNetwork, Method::Bar1), bench.path(NicDirection::FromNetwork, Method::Bar1));
    let turned = Message::new(back.clone(), Network::NEXT, out.clone()).unwrap_err();
    assert!(matches!(turned, RdmaError::Ways { .. }), "{turned}");
    for network in [
        Network { rate: Some(Rate::ZERO), ..Network::NEXT },
        Network { rate: Some(Rate::from_gb(f64::NAN)), ..Network::NEXT },
        Network { latency: Seconds::from_us(-1.0), ..Network::NEXT },
    ] {
        let error = Message::new(out.clone(), network, back.clone()).unwrap_err().to_string();
        assert!(error.ends_with("the rate must be above 0, the latency 0 or more"), "{error}");
    }
    assert!(describe(&model, gpu, root).is_none());
    assert!(describe(&model, nic, gpu).is_some());
}

#[test]
fn it_is_said_from_which_size_on_staging_is_faster() {
    let from = |bench: &Bench, method| {
        let told = describe(&bench.model(), bench.find("GPU0"), bench.find(&bench.nic)).unwrap();
        told.between_like_nodes.iter().find(|like| like.method == method).unwrap().staging_from
    };
    // Sandy Bridge forwards reads at 0.8 GB/s, so that 2.2 µs + s/0.8 passes 9.5 µs of staging and its copies
    assert_eq!(from(&Bench::new("k20-cx3-snb", "mlx4_0"), Method::Bar1), Some(Bytes(16 << 10)));
    assert_eq!(from(&Bench::new("hpcac-tessa", "mlx5_2"), Method::Bar1), None);
    assert_eq!(from(&Bench::new("apenet-x56xx", "apenet0"), Method::Nvp2p), None);
    assert_eq!(from(&Bench::with_card("apenet-plus-rx"), Method::Nvp2p), Some(Bytes(512 << 10)));
    assert_eq!(from(&Bench::with_card("apenet-plus-rx"), Method::STAGED), None);
}

#[test]
fn links_of_unknown_width_leave_each_method_with_the_reason() {
    let text = system_text("k20-cx3-snb").unwrap().replace("pcie = \"3.0 x8\"", "pcie = \"3.0 x?\"");
    let machine = read_system(&text, "unknown").unwrap();
    let model = Model::new(&machine, Parts::embedded());
    let find = |name| machine.fabric.find(name).unwrap();
    let told = describe(&model, find("GPU0"), find("mlx4_0")).unwrap();
    assert!(told.between_like_nodes.is_empty());
    for method in told.to_network.iter().chain(&told.from_network) {
        let why = method.not_offered.as_deref().unwrap();
        assert!(
            method.method == Method::Nvp2p || why.contains("the PCIe width of mlx4_0's link is not known"),
            "{why}"
        );
    }
}
