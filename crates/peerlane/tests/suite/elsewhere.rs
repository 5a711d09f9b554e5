//! Figures published of machines that the catalogue does not have, beside what the model says of them: the page
//! `validation/elsewhere.md`.

use std::fmt::Write as _;

use peerlane::assumptions::Assumptions;
use peerlane::catalogue::{Parts, read_system};
use peerlane::fabric::NodeId;
use peerlane::matrix::{Engine, Operation};
use peerlane::model::{Assume, Model, PeerAccess, Transfer};

const RTX6KPRO: &str = "github.com/voipmonitor/rtx6kpro, hardware";

/// What was published, and how it is to be predicted.
struct Figure {
    machine: &'static str,
    system: fn() -> String,
    ends: [&'static str; 2],
    how: How,
    /// GB/s, both directions summed where both run.
    published: [f64; 2],
    /// The constants of the path that were taken from these very figures; empty where they stand by themselves.
    fitted: &'static str,
    source: &'static str,
}

#[derive(Clone, Copy, PartialEq)]
enum How {
    /// Writes by a copy engine with peer access, one way.
    Write,
    /// The same by reads.
    Read,
    /// Writes both ways.
    Both,
    /// Writes by kernels.
    Kernel,
    /// Without peer access, one way.
    Staged,
    /// Without peer access, both ways.
    StagedBoth,
}

impl How {
    fn words(self) -> &'static str {
        match self {
            Self::Write => "one way",
            Self::Read => "one way, read",
            Self::Both => "both ways",
            Self::Kernel => "one way, by kernels",
            Self::Staged => "one way, staged",
            Self::StagedBoth => "both ways, staged",
        }
    }
}

/// GPUs at root ports or switches of their sockets.
fn pcie_box(cpu: &str, gpu: &str, width: &str, sockets: &[&[usize]], switch: Option<&str>) -> String {
    let mut nodes = String::from("[nodes]\n");
    let mut links = String::new();
    let mut link =
        |a: &str, b: &str, what: &str| writeln!(links, "[[links]]\nbetween = [\"{a}\", \"{b}\"]\n{what}").unwrap();
    let (mut gpus, mut switches) = (0, 0);
    for (socket, groups) in sockets.iter().enumerate() {
        writeln!(nodes, "cpu{socket} = {{ part = \"{cpu}\", numa = {socket} }}").unwrap();
        for group in *groups {
            let above = switch.map_or(format!("cpu{socket}"), |part| {
                let name = format!("sw{switches}");
                switches += 1;
                writeln!(nodes, "{name} = {{ part = \"{part}\" }}").unwrap();
                link(&format!("cpu{socket}"), &name, &format!("pcie = \"{width}\""));
                name
            });
            for _ in 0..*group {
                writeln!(nodes, "GPU{gpus} = {{ part = \"{gpu}\" }}").unwrap();
                link(&above, &format!("GPU{gpus}"), &format!("pcie = \"{width}\""));
                gpus += 1;
            }
        }
    }
    if sockets.len() == 2 {
        link("cpu0", "cpu1", "smp = \"xgmi\"");
    }
    format!("name = \"elsewhere\"\n{nodes}{links}")
}

/// GPUs joined by a link of their own to each other, or all to a switch.
fn meshed(gpu: &str, gpus: usize, how: &str, switch: bool) -> String {
    let mut text = String::from("name = \"elsewhere\"\n[nodes]\n");
    let mut links = String::new();
    if switch {
        text.push_str("nvs = { part = \"nvswitch\" }\n");
    }
    for a in 0..gpus {
        writeln!(text, "GPU{a} = {{ part = \"{gpu}\" }}").unwrap();
        let mut link = |b: String| writeln!(links, "[[links]]\nbetween = [\"GPU{a}\", \"{b}\"]\n{how}").unwrap();
        if switch {
            link("nvs".to_owned());
        } else {
            (0..a).for_each(|b| link(format!("GPU{b}")));
        }
    }
    text + &links
}

fn turin() -> String {
    pcie_box("epyc-turin", "rtx-pro-6000", "5.0 x16", &[&[3], &[3]], None)
}
fn turin_switched() -> String {
    pcie_box("epyc-turin", "rtx-pro-6000", "5.0 x16", &[&[2, 2], &[2, 2]], Some("pex890xx"))
}
fn genoa() -> String {
    pcie_box("epyc-genoa", "rtx-pro-6000", "5.0 x16", &[&[4], &[4]], None)
}
fn switchtec() -> String {
    pcie_box("threadripper-pro-7000", "rtx-pro-6000", "5.0 x16", &[&[4, 4]], Some("switchtec-gen5"))
}
fn trx40() -> String {
    pcie_box("epyc-rome", "rtx-pro-6000", "4.0 x16", &[&[2]], None)
}
fn a6000() -> String {
    pcie_box("epyc-milan", "rtx-a6000", "4.0 x16", &[&[3], &[3]], Some("pex880xx"))
}
fn ada() -> String {
    pcie_box("threadripper-pro-7000", "rtx-6000-ada", "4.0 x16", &[&[2]], None)
}
fn rtx4090() -> String {
    pcie_box("epyc-rome", "rtx-4090", "4.0 x16", &[&[4], &[4]], None)
}
fn hgx_h100() -> String {
    meshed("h100-sxm5", 8, "nvlink = 18", true)
}
fn h100_pcie() -> String {
    pcie_box("sapphire-rapids", "h100-sxm5", "5.0 x16", &[&[1, 1]], Some("pex89144"))
}
fn h100_quad() -> String {
    meshed("h100-sxm5", 4, "nvlink = 6", false)
}
fn hgx_a100() -> String {
    meshed("a100-sxm4", 8, "nvlink = 12", true)
}
fn mi300x() -> String {
    meshed("mi300x", 8, "xgmi = 1", false)
}
fn mi100() -> String {
    meshed("mi100", 4, "xgmi = 1", false)
}

const FIGURES: &[Figure] = &[
    row(
        "two EPYC Turin, RTX PRO 6000 at root ports",
        turin,
        ["GPU0", "GPU1"],
        How::Write,
        [56.57, 56.57],
        "copy_packet_cost",
        RTX6KPRO,
    ),
    row(
        "two EPYC Turin, RTX PRO 6000 at root ports",
        turin,
        ["GPU0", "GPU1"],
        How::Both,
        [111.38, 111.39],
        "",
        RTX6KPRO,
    ),
    row(
        "two EPYC Turin, RTX PRO 6000 at root ports",
        turin,
        ["GPU0", "GPU3"],
        How::Write,
        [50.97, 55.64],
        "peer_smp_rate",
        RTX6KPRO,
    ),
    row(
        "two EPYC 9575F, RTX PRO 6000 below PEX 890xx",
        turin_switched,
        ["GPU0", "GPU1"],
        How::Both,
        [102.0, 104.0],
        "port_efficiency",
        RTX6KPRO,
    ),
    row(
        "two EPYC 9575F, RTX PRO 6000 below PEX 890xx",
        turin_switched,
        ["GPU0", "GPU2"],
        How::Both,
        [102.0, 104.0],
        "port_efficiency",
        RTX6KPRO,
    ),
    row(
        "two EPYC 9575F, RTX PRO 6000 below PEX 890xx",
        turin_switched,
        ["GPU0", "GPU6"],
        How::Both,
        [93.0, 96.0],
        "peer_smp_rate",
        RTX6KPRO,
    ),
    row(
        "two EPYC 9575F, RTX PRO 6000 below PEX 890xx",
        turin_switched,
        ["GPU0", "GPU6"],
        How::Read,
        [35.9, 42.4],
        "peer_smp_rate",
        RTX6KPRO,
    ),
    row(
        "two EPYC 9124, RTX PRO 6000 at root ports",
        genoa,
        ["GPU0", "GPU1"],
        How::Write,
        [57.2, 57.3],
        "copy_packet_cost",
        RTX6KPRO,
    ),
    row(
        "two EPYC 9124, RTX PRO 6000 at root ports",
        genoa,
        ["GPU0", "GPU1"],
        How::Both,
        [112.2, 112.4],
        "acknowledgements",
        RTX6KPRO,
    ),
    row(
        "two EPYC 9124, RTX PRO 6000 at root ports",
        genoa,
        ["GPU0", "GPU4"],
        How::Write,
        [42.0, 44.4],
        "peer_smp_rate",
        RTX6KPRO,
    ),
    row("two EPYC 9124, RTX PRO 6000 at root ports", genoa, ["GPU0", "GPU4"], How::Both, [75.0, 88.6], "", RTX6KPRO),
    row(
        "WRX90, RTX PRO 6000 below Switchtec PFX 100xG5",
        switchtec,
        ["GPU0", "GPU1"],
        How::Write,
        [53.4, 54.1],
        "port_efficiency",
        RTX6KPRO,
    ),
    row(
        "WRX90, RTX PRO 6000 below Switchtec PFX 100xG5",
        switchtec,
        ["GPU0", "GPU1"],
        How::Both,
        [107.0, 108.0],
        "",
        RTX6KPRO,
    ),
    row("TRX40, RTX PRO 6000 over PCIe 4.0", trx40, ["GPU0", "GPU1"], How::Write, [26.60, 26.74], "", RTX6KPRO),
    row("TRX40, RTX PRO 6000 over PCIe 4.0", trx40, ["GPU0", "GPU1"], How::Both, [46.55, 46.58], "", RTX6KPRO),
    row("TRX40, RTX PRO 6000 over PCIe 4.0", trx40, ["GPU0", "GPU1"], How::Staged, [23.97, 24.23], "", RTX6KPRO),
    row(
        "six RTX A6000 below switches",
        a6000,
        ["GPU0", "GPU1"],
        How::Read,
        [26.34, 26.35],
        "pcie_send_rate",
        "NVIDIA/nvbandwidth issue 50",
    ),
    row(
        "Threadripper Pro 7965WX, two RTX 6000 Ada",
        ada,
        ["GPU0", "GPU1"],
        How::Both,
        [52.10, 52.11],
        "",
        "a workstation's p2pBandwidthLatencyTest, 2024",
    ),
    row(
        "Threadripper Pro 7965WX, two RTX 6000 Ada",
        ada,
        ["GPU0", "GPU1"],
        How::Staged,
        [22.23, 22.32],
        "",
        "a workstation's p2pBandwidthLatencyTest, 2024",
    ),
    row(
        "Threadripper Pro 7965WX, two RTX 6000 Ada",
        ada,
        ["GPU0", "GPU1"],
        How::StagedBoth,
        [31.42, 31.45],
        "",
        "a workstation's p2pBandwidthLatencyTest, 2024",
    ),
    row(
        "eight RTX 4090",
        rtx4090,
        ["GPU0", "host0"],
        How::Write,
        [26.25, 27.11],
        "pcie_send_rate",
        "NVIDIA/nvbandwidth issue 15",
    ),
    row(
        "HGX H100",
        hgx_h100,
        ["GPU0", "GPU1"],
        How::Write,
        [371.02, 376.82],
        "nvlink_ce_efficiency",
        "NVIDIA/nccl issue 1264",
    ),
    row("HGX H100", hgx_h100, ["GPU0", "GPU1"], How::Both, [739.4, 773.3], "", "NVIDIA/nccl issue 1264"),
    row("HGX H100", h100_pcie, ["GPU0", "GPU1"], How::Staged, [36.30, 38.05], "staged_cost", "NVIDIA/nccl issue 1264"),
    row(
        "ND H100 v5",
        hgx_h100,
        ["GPU0", "GPU1"],
        How::Read,
        [370.3, 373.0],
        "nvlink_ce_read_efficiency",
        "a guide to Azure's health checks, 2025",
    ),
    row(
        "four H100, NV6 between each two",
        h100_quad,
        ["GPU0", "GPU1"],
        How::Both,
        [263.98, 264.62],
        "",
        "NVIDIA/cuda-samples issue 392",
    ),
    row("HGX A100", hgx_a100, ["GPU0", "GPU1"], How::Write, [269.6, 276.6], "", "LLMServe/DistServe issue 3"),
    row(
        "HGX A100",
        hgx_a100,
        ["GPU0", "GPU1"],
        How::Both,
        [517.3, 520.8],
        "",
        "NVIDIA/nccl-tests issue 100, GPU4 to GPU7",
    ),
    row(
        "eight MI300X",
        mi300x,
        ["GPU0", "GPU1"],
        How::Kernel,
        [47.47, 48.97],
        "xgmi_efficiency",
        "TransferBench in AMD's guide to MI300X",
    ),
    row(
        "MI100, four in a hive",
        mi100,
        ["GPU0", "GPU1"],
        How::Both,
        [70.0, 70.0],
        "",
        "ROCm/legacy-rocm-build issue 2499",
    ),
];

const fn row(
    machine: &'static str,
    system: fn() -> String,
    ends: [&'static str; 2],
    how: How,
    published: [f64; 2],
    fitted: &'static str,
    source: &'static str,
) -> Figure {
    Figure { machine, system, ends, how, published, fitted, source }
}

struct Predicted {
    value: f64,
    interval: [f64; 2],
}

fn told(figure: &Figure) -> Predicted {
    let machine = read_system(&(figure.system)(), "elsewhere.toml").unwrap();
    of(figure, &Model::new(&machine, Parts::embedded()))
}

fn of(figure: &Figure, model: &Model) -> Predicted {
    let at = |name: &str| -> NodeId { model.machine.fabric.find(name).unwrap() };
    let [source, destination] = figure.ends.map(at);
    let engine = if figure.how == How::Kernel { Engine::Sm } else { Engine::Ce };
    let op = if figure.how == How::Read { Operation::Read } else { Operation::Write };
    let staged = matches!(figure.how, How::Staged | How::StagedBoth);
    let peer = if staged { PeerAccess::Disabled } else { PeerAccess::Enabled };
    let there = Transfer { source, destination, engine, op, peer };
    let both = matches!(figure.how, How::Both | How::StagedBoth);
    let back = both.then_some(Transfer { source: destination, destination: source, ..there });
    let transfers: Vec<Transfer> = std::iter::once(there).chain(back).collect();
    let answers = model.solve_with_interval(&transfers).unwrap();
    let sum = |end: usize| answers.iter().map(|(_, interval)| interval[end].gb()).sum();
    Predicted { value: answers.iter().map(|(answer, _)| answer.rate.gb()).sum(), interval: [sum(0), sum(1)] }
}

fn off(figure: &Figure, told: &Predicted) -> f64 {
    let [low, high] = figure.published;
    told.value / ((low + high) / 2.0) - 1.0
}

#[test]
fn published_figures_lie_where_the_model_says() {
    let mut own = Vec::new();
    let mut outside = Vec::new();
    for figure in FIGURES {
        let told = told(figure);
        if !inside(figure, told.interval, 1.0) {
            outside.push(format!("{} {:?}: {:?}, {:?}", figure.machine, figure.ends, figure.published, told.interval));
        }
        assert!(inside(figure, told.interval, FAR), "{outside:?}");
        if figure.fitted.is_empty() {
            own.push(off(figure, &told).abs());
        }
    }
    own.sort_by(f64::total_cmp);
    assert!(own[own.len() / 2] <= 0.06, "{own:?}");
    // intervals hold nine of ten
    assert!(outside.len() * 10 <= FIGURES.len() * 2, "{outside:#?}");
}

/// How far beyond its interval a figure may lie.
const FAR: f64 = 1.1;

/// Whether a published range meets an interval whose ends lie so many times further out.
fn inside(figure: &Figure, [least, most]: [f64; 2], times: f64) -> bool {
    let [low, high] = figure.published;
    least / times <= high && low <= most * times
}

#[test]
fn what_programs_leave_out_is_assumed() {
    for figure in FIGURES {
        let known = (figure.system)();
        let widthless = known.replace("\"5.0 x16\"", "\"?\"").replace("\"4.0 x16\"", "\"?\"");
        let (kept, _) = known.split_once("[[links]]").unwrap();
        let gpus_alone: String =
            kept.lines().filter(|l| !l.starts_with("cpu") && !l.starts_with("sw")).map(|l| format!("{l}\n")).collect();
        let over_pcie = known.contains("pcie");
        let same_switch = !over_pcie || figure.ends == ["GPU0", "GPU1"];
        let less = [Some(widthless).filter(|_| over_pcie), Some(gpus_alone).filter(|_| over_pcie && same_switch)];
        for text in less.into_iter().flatten() {
            let machine = read_system(&text, "elsewhere.toml").unwrap();
            assert!(Model::new(&machine, Parts::embedded()).assumptions().is_empty());
            let assumed = Assumptions::of(&machine, Parts::embedded());
            let model = assumed.model(Parts::embedded(), Assume::Parts);
            let [low, high] = figure.published;
            // a faster card than the slot counts as far as half
            let Predicted { value, interval } = of(figure, &model);
            assert!(
                inside(figure, interval, FAR),
                "{} {}: {low} to {high}, {interval:?}\n{text}",
                figure.machine,
                figure.how.words()
            );
            assert!(interval[0] <= value && value <= interval[1]);
            assert!(!assumed.sentences(&model).is_empty());
        }
    }
}

#[test]
fn the_page_is_fresh() {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../validation/elsewhere.md");
    let mut rows = String::new();
    for figure in FIGURES {
        let told = told(figure);
        let [low, high] = figure.published;
        let published = if low == high { format!("{low:.1}") } else { format!("{low:.1} to {high:.1}") };
        let [a, b] = figure.ends;
        let fitted = if figure.fitted.is_empty() { String::new() } else { format!("`{}`", figure.fitted) };
        let off = 100.0 * off(figure, &told);
        let Predicted { value, interval: [least, most] } = told;
        writeln!(
            rows,
            "| {} | {a}, {b} | {} | {published} | {value:.1} | {least:.1} to {most:.1} | {off:+.1} % | {fitted} | {} |",
            figure.machine,
            figure.how.words(),
            figure.source
        )
        .unwrap();
    }
    let fresh = format!("{HEAD}{rows}");
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(page, &fresh).unwrap();
    }
    let kept = std::fs::read_to_string(page).unwrap_or_default();
    assert!(kept == fresh, "validation/elsewhere.md is not fresh: UPDATE_DOCS=1 cargo test -p peerlane elsewhere::");
}

const HEAD: &str = "\
# Machines outside the catalogue

Figures that owners published for their machines, compared with what `peerlane predict` gives for a design of the same parts.
`UPDATE_DOCS=1 cargo test -p peerlane elsewhere::` writes this page. The test also checks that each figure lies in its interval,
Rates are in GB/s; both ways they are the sum. If a constant was fitted to a figure, it is
named, and that row confirms nothing. Widths, sockets and switches are from the sources. What these leave open (which CPU, which
switch) is a guess, but it does not limit the pair in question.

| machine | pair | how | published | predicted | interval | off | fitted to it | source |
|---|---|---|---:|---:|---:|---:|---|---|
";
