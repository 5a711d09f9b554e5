use super::*;
use crate::comparison::Comparison;
use crate::model::{PeerAccess, Transfer};
use peerlane_machine::fabric::{FabricBuilder, Node, NodeKind};
use peerlane_machine::machine::MachineKind;
use peerlane_machine::matrix::{Engine, Operation, Quantity};
use peerlane_read::assemble::assemble;
use peerlane_read::catalogue::{system, system_names};
use peerlane_read::evidence::{Text, scan_text};

/// A machine of two sockets with two GPUs each, as people post it, by labels of either age.
fn post(sockets: &str, rates: [f64; 2], latencies: [f64; 2], prose: &str) -> Machine {
    let mut text = format!("{prose}\n\n        GPU0    GPU1    GPU2    GPU3    CPU Affinity\n");
    let near = |i: usize, j: usize| i / 2 == j / 2;
    for i in 0..4 {
        let class = |j: usize| {
            if i == j {
                "X"
            } else if near(i, j) {
                "PHB"
            } else {
                sockets
            }
        };
        let cells: String = (0..4).map(|j| format!("{:<8}", class(j))).collect();
        text.push_str(&format!("GPU{i}    {cells}{}\n", if i < 2 { "0-7" } else { "8-15" }));
    }
    let mut matrix = |title: &str, own: f64, [within, across]: [f64; 2]| {
        text.push_str(&format!("\n{title}\n   D\\D     0      1      2      3\n"));
        for i in 0..4 {
            let value = |j: usize| {
                if i == j {
                    own
                } else if near(i, j) {
                    within
                } else {
                    across
                }
            };
            text.push_str(&format!("     {i}{}\n", (0..4).map(|j| format!(" {:>6.2}", value(j))).collect::<String>()));
        }
    };
    if rates[0] > 0.0 {
        matrix("Unidirectional P2P=Enabled Bandwidth Matrix (GB/s)", 250.0, rates);
    }
    if latencies[0] > 0.0 {
        matrix("P2P=Enabled Latency Matrix (us)", 4.0, latencies);
    }
    assemble(scan_text(&Text::new("post.txt", text.as_bytes()))).remove(0)
}

fn fitted(machine: &Machine) -> Fit {
    Assumptions::of(machine, Parts::embedded()).fit().unwrap().clone()
}

/// What is assumed of the GPUs' links.
fn width(machine: &Machine) -> String {
    let fit = fitted(machine);
    fit.assumed.iter().find_map(|words| words.split_once("PCIe ")).map(|(_, width)| width.to_owned()).unwrap()
}

fn assumes(machine: &Machine, words: &str) -> bool {
    fitted(machine).assumed.iter().any(|assumed| assumed == words)
}

#[test]
fn gpus_of_no_place_reach_what_their_slots_can() {
    let mut b = FabricBuilder::new();
    let [source, destination] = ["GPU0", "GPU1"]
        .map(|name| b.node(Node { part: Some("rtx-a6000".to_owned()), ..Node::new(name, NodeKind::Gpu) }));
    let machine = Machine::new("m", MachineKind::Captured, b.build().unwrap());
    let assumed = Assumptions::of(&machine, Parts::embedded());
    let model = assumed.model(Parts::embedded(), Assume::Parts);
    let transfer = |peer| Transfer { source, destination, engine: Engine::Ce, op: Operation::Write, peer };
    let (answer, [low, high]) = model.solve_with_interval(&[transfer(PeerAccess::Enabled)]).unwrap().remove(0);
    assert!((answer.rate.gb() - 26.35).abs() < 0.01 && low.gb() < 14.0 && high.gb() < 28.0, "{answer:?}");
    assert_eq!(
        model.assumptions(),
        ["GPU0, GPU1 at PCIe 4.0 x16, the most that can be done there: no source states their widths"]
    );
    assert!(model.solve(&[transfer(PeerAccess::Disabled)]).unwrap()[0].rate < answer.rate);
    assert_eq!(assumed.fit(), None, "nothing was measured");
}

#[test]
fn rates_tell_generations_and_lanes() {
    for (rate, expected) in [(25.5, "4.0 x16"), (12.6, "3.0 x16"), (6.3, "3.0 x8"), (52.0, "5.0 x16"), (0.8, "3.0 x1")]
    {
        let machine = post("SYS", [rate, 0.8 * rate], [0.0; 2], "");
        let assumed = width(&machine);
        // 4.0 x8 carries what 3.0 x16 carries, and nothing else that was measured tells them apart
        let raw = |width: &str| width.parse::<peerlane_machine::fabric::PcieWidth>().unwrap().raw_rate().unwrap().gb();
        assert!((raw(&assumed) / raw(expected) - 1.0).abs() < 0.1, "{rate}: {assumed}, not {expected}");
    }
}

#[test]
fn the_generation_of_a_known_product_tells_lanes() {
    let cards: String = (0..4).map(|i| format!("GPU {i}: Tesla P100-PCIE-16GB\n")).collect();
    for (rate, expected) in [(12.4, "3.0 x16"), (6.3, "3.0 x8")] {
        assert_eq!(width(&post("SYS", [rate, 0.8 * rate], [0.0; 2], &cards)), expected);
    }
}

#[test]
fn old_labels_and_dates_rule_out_what_was_not_sold() {
    assert_eq!(width(&post("SOC", [12.6, 9.0], [0.0; 2], "")), "3.0 x16");
    assert_eq!(width(&post("SYS", [12.6, 9.0], [0.0; 2], "May 3, 2016")), "3.0 x16");
    // nothing was measured: what was usual, and no more than that
    let dated = post("SOC", [0.0; 2], [0.0; 2], "");
    assert_eq!((width(&dated).as_str(), fitted(&dated).rating), ("3.0 x16", Rating::Usual));
    assert_eq!(Assumptions::of(&post("SYS", [0.0; 2], [0.0; 2], ""), Parts::embedded()).fit(), None);
}

#[test]
fn latencies_tell_staged_from_direct_pairs() {
    let staged = post("SOC", [12.0, 9.5], [6.5, 16.5], "");
    assert!(assumes(&staged, "staged between sockets") && assumes(&staged, "direct within a socket"));
    let direct = post("SOC", [12.0, 9.5], [6.5, 7.0], "");
    assert!(assumes(&direct, "direct between sockets"), "{:?}", fitted(&direct));
    let all_staged = post("SOC", [10.5, 9.0], [16.0, 17.0], "");
    assert!(assumes(&all_staged, "staged within a socket"), "{:?}", fitted(&all_staged));
    assert_eq!(fitted(&staged).rating, Rating::Clear);
}

#[test]
fn prose_decides_where_nothing_was_measured_and_numbers_override_it() {
    let told = post("SYS", [0.0; 2], [0.0; 2], "All cards hang on x1 risers.");
    assert!(width(&told).ends_with(" x1"), "{}", width(&told));
    let wrong = post("SYS", [12.6, 10.0], [6.4, 16.0], "All cards hang on x1 risers.");
    assert!(width(&wrong).ends_with("3.0 x16"), "{}", width(&wrong));
    let refused = post("SYS", [0.0; 2], [0.0; 2], "P2P is not allowed here.");
    assert!(assumes(&refused, "staged within a socket") && assumes(&refused, "staged between sockets"));
}

#[test]
fn what_fits_explains_what_was_measured() {
    let machine = post("SOC", [10.0, 9.8], [6.4, 16.2], "");
    let assumed = Assumptions::of(&machine, Parts::embedded());
    let model = assumed.model(Parts::embedded(), Assume::Usual);
    let fit = assumed.fit().unwrap();
    assert!(fit.explained * 10 >= fit.measured * 9, "{fit:?}");
    assert_eq!(fit.unexplained, []);
    let comparison = Comparison::of(&model);
    let latency = comparison.matrices().iter().find(|s| s.metric().quantity == Quantity::Latency).unwrap();
    let us = |i, j| latency.expected(i, j).unwrap().value;
    assert!(us(0, 1) < 9.0 && us(0, 2) > 12.0);
    let sentence = fit.sentences().join(" ");
    assert!(sentence.contains("PCIe 3.0 x16") && sentence.contains("rated clear"), "{sentence}");
}

#[test]
fn described_machines_are_never_fitted() {
    for name in system_names() {
        let machine = system(name).unwrap().unwrap();
        let assumed = Assumptions::of(&machine, Parts::embedded());
        assert_eq!(assumed.fit(), None, "{name}");
        let own = Model::assuming(&machine, Parts::embedded(), Assume::Usual);
        assert_eq!(assumed.model(Parts::embedded(), Assume::Usual).resources, own.resources, "{name}");
    }
}

/// Whatever was measured, what a source states stays as it is.
#[test]
fn a_stated_width_is_never_overridden() {
    use peerlane_machine::fabric::{LinkKind, PcieGeneration, PcieWidth};
    for rate in [0.7, 3.0, 12.0, 24.0, 50.0] {
        for lanes in [1, 4, 8, 16] {
            let mut machine = post("SYS", [rate, rate], [6.5, 6.5], "on x1 risers");
            let stated = PcieWidth::new(PcieGeneration::Gen3, lanes);
            let mut builder = std::mem::take(&mut machine.fabric).into_builder();
            let links: Vec<_> = (0..builder.links().len()).collect();
            let gpus = ["GPU0", "GPU1"].map(|name| builder.find(name).unwrap());
            let fabric = builder.clone().build().unwrap();
            for id in fabric.link_ids().take(links.len()) {
                let link = fabric.link(id);
                if gpus.contains(&link.a) || gpus.contains(&link.b) {
                    builder.link_mut(id).kind = LinkKind::pcie(stated);
                }
            }
            machine.fabric = builder.build().unwrap();
            let assumed = Assumptions::of(&machine, Parts::embedded());
            let model = assumed.model(Parts::embedded(), Assume::Usual);
            for gpu in gpus {
                let (link, _) = machine.fabric.upstream(gpu).unwrap();
                assert_eq!(model.width_of(link), Some((stated, false)), "{rate} over x{lanes}");
            }
        }
    }
}
