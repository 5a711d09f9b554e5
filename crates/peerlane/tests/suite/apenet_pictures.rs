//! The pictures of APEnet+ and QUonG in `validation/simulation.md`: `UPDATE_DOCS=1 cargo test -p peerlane apenet_pictures::` draws them.

use std::path::Path;

use peerlane::cluster::{Cluster, embedded};
use peerlane::export::chart::{Axis, Chart, Level, Scale, Series};
use peerlane::simulate::scaling::{Scaling, ScalingPoint, scaling};
use peerlane::units::Bytes;

use crate::simulate_apenet::{GPUS, HOSTS, STAGED, pair, time};

/// Compares a picture with the one in `docs/`, or writes it.
pub(crate) fn picture(name: &str, chart: &Chart) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs").join(name);
    let fresh = chart.to_svg();
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(path, fresh).unwrap();
        return;
    }
    let old = std::fs::read_to_string(path).unwrap_or_default();
    assert!(old == fresh, "docs/{name} is stale: UPDATE_DOCS=1 cargo test -p peerlane _pictures::");
}

pub(crate) fn axis(label: &str, scale: Scale) -> Axis {
    Axis { label: label.to_owned(), scale }
}

fn level(label: &str, value: f64) -> Level {
    Level { label: label.to_owned(), value }
}

/// GB/s of messages of 32 B to 16 MiB.
fn rates(name: &str, cluster: &Cluster, workload: &str, (tone, dashed): (usize, bool)) -> Series {
    let sizes = (5..=24).map(|power| 1_u64 << power);
    let points: Vec<(f64, f64)> =
        sizes.map(|size| size as f64).map(|size| (size, size / time(cluster, workload, size as u64) / 1e9)).collect();
    assert!(points.windows(2).all(|w| w[0].1 < w[1].1), "{name}: a longer message is slower: {points:?}");
    Series { name: name.to_owned(), points, tone, dashed }
}

#[test]
fn bandwidth_of_two_nodes() {
    let (optimised, hardware) = (pair("apenet-x56xx", "apenet-plus"), pair("apenet-x56xx", "apenet-plus-rx"));
    let chart = Chart {
        title: "APEnet+: bandwidth of two nodes".to_owned(),
        x: axis("size of the message", Scale::Sizes),
        y: axis("GB/s", Scale::Linear),
        series: vec![
            rates("H–H, receive in hardware", &hardware, HOSTS, (0, false)),
            rates("H–H", &optimised, HOSTS, (1, false)),
            rates("H–G", &optimised, "point-to-point:node0/host0:node1/GPU0", (1, true)),
            rates("G–G", &optimised, GPUS, (2, false)),
            rates("G–H", &optimised, "point-to-point:node0/GPU0:node1/host0", (2, true)),
            rates("G–G, staged", &optimised, STAGED, (3, false)),
        ],
        levels: vec![level("published: host read, 2.7", 2.7), level("published: GPU read, and RX, 1.5", 1.5)],
    };
    // short messages between GPUs are faster direct; long ones reach the same rate
    let of = |at: usize| &chart.series[at].points;
    assert!(of(3)[0].1 > 1.5 * of(5)[0].1);
    assert!((of(3)[19].1 / of(5)[19].1 - 1.0).abs() < 0.02, "{:?} {:?}", of(3)[19], of(5)[19]);
    picture("apenet-bandwidth.svg", &chart);
}

#[test]
fn the_three_gpu_read_engines() {
    let mut series = Vec::new();
    for (tone, card) in ["apenet-plus-v1", "apenet-plus-v2", "apenet-plus"].into_iter().enumerate() {
        let cluster = pair("apenet-x56xx", card);
        let name = format!("V{}", tone + 1);
        series.push(rates(&format!("{name}, next node"), &cluster, GPUS, (tone, false)));
        let loopback = "point-to-point:node0/GPU0:node0/GPU0:loopback";
        series.push(rates(&format!("{name}, loopback"), &cluster, loopback, (tone, true)));
    }
    let levels = vec![level("published: GPU read, 1.5", 1.5), level("published: G–G loopback, 1.3", 1.3)];
    let chart = Chart {
        title: "APEnet+: the three GPU-read engines, Fermi".to_owned(),
        x: axis("size of the message", Scale::Sizes),
        y: axis("GB/s", Scale::Linear),
        series,
        levels,
    };
    picture("apenet-engines.svg", &chart);
}

/// A workload on more and more nodes.
fn scaled(cluster: &str, gpus: usize, workload: &str) -> Vec<ScalingPoint> {
    let mut cluster = embedded(cluster).unwrap().unwrap();
    cluster.taking = (u32::MAX, gpus);
    scaling(&cluster, &workload.parse().unwrap(), Bytes(0), &[1, 2, 4, 8, 16], Scaling::Strong).unwrap().points
}

fn curve(name: &str, points: &[ScalingPoint], value: impl Fn(&ScalingPoint) -> f64, kind: (usize, bool)) -> Series {
    let points = points.iter().map(|p| (f64::from(p.nodes), value(p))).collect();
    Series { name: name.to_owned(), points, tone: kind.0, dashed: kind.1 }
}

#[test]
fn scaling_of_the_spin_glass() {
    let mut series = Vec::new();
    for (name, gpus, words, kind) in [
        ("2 GPUs a node, overlap", 2, "overlap", (0, false)),
        ("2 GPUs a node, serial", 2, "serial", (0, true)),
        ("1 GPU a node, overlap", 1, "overlap", (1, false)),
        ("1 GPU a node, serial", 1, "serial", (1, true)),
    ] {
        let points = scaled("quong-20g", gpus, &format!("spin-glass:l=256,{words}"));
        // speed-up over one GPU: two of one node start at what they gain there
        let alone = scaled("quong-20g", 1, &format!("spin-glass:l=256,{words}"))[0].time;
        series.push(curve(name, &points, |p| alone / p.time, kind));
    }
    let ideal = Series {
        name: "ideal, 1 GPU a node".to_owned(),
        points: [1.0, 16.0].map(|n| (n, n)).to_vec(),
        tone: 3,
        dashed: true,
    };
    series.push(ideal);
    let chart = Chart {
        title: "QUonG: Heisenberg spin glass, 256³, links of 20 Gb/s".to_owned(),
        x: axis("nodes", Scale::Doubling),
        y: axis("speed-up over one GPU", Scale::Doubling),
        series,
        levels: Vec::new(),
    };
    picture("apenet-spin-glass.svg", &chart);
}

#[test]
fn breadth_first_search() {
    let mut series = Vec::new();
    for (tone, scale) in [16, 14, 12].into_iter().enumerate() {
        for (gpus, dashed) in [(2, false), (1, true)] {
            let points = scaled("quong", gpus, &format!("bfs:scale={scale}"));
            let edges = 16.0 * 2_f64.powi(scale);
            let power = ["¹⁶", "¹⁴", "¹²"][tone];
            let gpus = if gpus == 1 { "1 GPU".to_owned() } else { format!("{gpus} GPUs") };
            let name = format!("2{power} vertices, {gpus} a node");
            series.push(curve(&name, &points, |p| edges / p.time / 1e9, (tone, dashed)));
        }
    }
    let chart = Chart {
        title: "QUonG: breadth-first search, links of 34 Gb/s".to_owned(),
        x: axis("nodes", Scale::Doubling),
        y: axis("10⁹ edges per second", Scale::Linear),
        series,
        levels: Vec::new(),
    };
    picture("apenet-bfs.svg", &chart);
}
