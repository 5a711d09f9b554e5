//! Routes and rates on small machines, against the figures that their constants are from.

use super::*;
use peerlane_machine::fabric::{
    Fabric, FabricBuilder, GpuLink, Link, LinkKind, Node, NodeKind, PcieGeneration, PcieWidth,
};
use peerlane_machine::fact::P2pStatus;
use peerlane_machine::machine::MachineKind;

/// Builds machines in few words.
struct Bench {
    builder: FabricBuilder,
    kind: MachineKind,
}

impl Bench {
    fn new() -> Self {
        Bench { builder: FabricBuilder::new(), kind: MachineKind::Design }
    }

    fn node(&mut self, name: &str, kind: NodeKind, part: &str) -> NodeId {
        let part = (!part.is_empty()).then(|| part.to_owned());
        self.builder.node(Node { part, ..Node::new(name, kind) })
    }

    fn link(&mut self, a: NodeId, b: NodeId, kind: LinkKind) {
        self.builder.link(Link::new(a, b, kind));
    }

    fn pcie(&mut self, a: NodeId, b: NodeId, width: &str) {
        self.link(a, b, LinkKind::pcie(width.parse().unwrap()));
    }

    /// A package with its root complex and memory.
    fn socket(&mut self, n: u32, part: &str) -> (NodeId, NodeId) {
        let cpu = self.node(&format!("cpu{n}"), NodeKind::Cpu, part);
        let root = self.node(&format!("rc{n}"), NodeKind::RootComplex, "");
        let host = self.node(&format!("host{n}"), NodeKind::Host, "");
        self.builder.node_mut(root).domain = Some(n);
        self.link(root, cpu, LinkKind::OnDie);
        self.link(host, cpu, LinkKind::OnDie);
        (cpu, root)
    }

    fn gpu(&mut self, n: u32, above: NodeId, width: &str) -> NodeId {
        let gpu = self.node(&format!("GPU{n}"), NodeKind::Gpu, "");
        self.pcie(above, gpu, width);
        gpu
    }

    fn machine(self) -> Machine {
        let fabric: Fabric = self.builder.build().unwrap();
        Machine::new("bench", self.kind, fabric)
    }
}

fn parts() -> Parts {
    let mut parts = Parts::default();
    let constant = |name: &str, value: f64| {
        format!("[constants.{name}]\nvalue = {value}\nunit = \"1\"\nbasis = \"assumed\"\nsource = \"this test\"\n")
    };
    let mut add = |name: &str, kind: &str, extra: &str, constants: &[(&str, f64)]| {
        let mut text = format!("name = \"{name}\"\ntitle = \"t\"\nkind = \"{kind}\"\nsource = \"s\"\n{extra}\n");
        constants.iter().for_each(|(name, value)| text.push_str(&constant(name, *value)));
        parts.add(name, &text).unwrap();
    };
    let old = [("peer_packet", 64.0), ("peer_across_sockets", 0.0), ("staged_both_rate", 12.0)];
    add("old-xeon", "cpu", "", &old);
    add("slow-bridge", "cpu", "", &[("peer_packet", 64.0), ("peer_rate", 8.0)]);
    add("qpi-9.6", "smp", "", &[("rate", 6.0), ("staged_rate", 17.07)]);
    add("h200", "gpu", "nvlink_generation = 4", &[("memory_rate", 4800.0)]);
    add("hdr100", "nic", "", &[("line_rate", 100.0), ("gpu_read_rate", 1.5)]);
    parts
}

/// Two sockets of two GPUs each, joined by QPI.
fn traditional() -> Machine {
    let mut b = Bench::new();
    let (cpu0, rc0) = b.socket(0, "old-xeon");
    let (cpu1, rc1) = b.socket(1, "old-xeon");
    let id = b.builder.link(Link::new(cpu0, cpu1, LinkKind::Smp));
    b.builder.link_mut(id).part = Some("qpi-9.6".to_owned());
    for (n, rc) in [rc0, rc0, rc1, rc1].into_iter().enumerate() {
        b.gpu(n as u32, rc, "3.0 x16");
    }
    b.machine()
}

fn transfer(machine: &Machine, from: &str, to: &str) -> Transfer {
    let find = |name| machine.fabric.find(name).unwrap();
    Transfer {
        source: find(from),
        destination: find(to),
        engine: Engine::Ce,
        op: Operation::Write,
        peer: PeerAccess::Enabled,
    }
}

fn rate(machine: &Machine, transfers: &[Transfer]) -> f64 {
    let parts = parts();
    let answers = Model::new(machine, &parts).solve(transfers).unwrap();
    answers.iter().map(|a| a.rate.gb()).sum()
}

fn one(machine: &Machine, from: &str, to: &str) -> f64 {
    rate(machine, &[transfer(machine, from, to)])
}

fn both(machine: &Machine, from: &str, to: &str) -> f64 {
    rate(machine, &[transfer(machine, from, to), transfer(machine, to, from)])
}

#[track_caller]
fn near(got: f64, want: f64) {
    assert!((got - want).abs() < 0.006, "{got} is not {want}");
}

#[test]
fn a_root_complex_splits_packets_and_host_copies_it_leaves_whole() {
    let m = traditional();
    near(one(&m, "GPU0", "GPU1"), 10.155);
    // answers to what each GPU sends take of what it receives
    near(both(&m, "GPU0", "GPU1"), 19.52);
    near(one(&m, "host0", "GPU0"), 12.89);
    near(one(&m, "GPU0", "host0"), 13.59);
    let parts = parts();
    let model = Model::new(&m, &parts);
    let answer = model.solve(&[transfer(&m, "GPU0", "GPU1")]).unwrap().remove(0);
    assert_eq!(answer.bottleneck, "GPU1–rc0, PCIe 3.0 x16, 64-byte packets through the root complex");
    assert_eq!(answer.link, Some(m.fabric.links_of(m.fabric.find("GPU1").unwrap())[0].0));
}

#[test]
fn sockets_that_forward_nothing_stage() {
    let m = traditional();
    let parts = parts();
    let model = Model::new(&m, &parts);
    let route = model.route(&transfer(&m, "GPU0", "GPU2")).unwrap();
    assert!(route.staged);
    assert_eq!(
        route.staged_because.map(|why| why.to_string()).as_deref(),
        Some("no peer-to-peer across QPI: the sockets' root complexes do not forward it")
    );
    assert_eq!(route.class, PathClass::Sys);
    let names: Vec<&str> = route.hops.iter().map(|h| m.fabric.node(h.to).name.as_str()).collect();
    assert_eq!(names, ["rc0", "cpu0", "host0", "cpu0", "cpu1", "rc1", "GPU2"]);
    // 1 ÷ (1 ÷ 12.893 + 9 µs a MiB)
    near(route.cap.unwrap().0.gb(), 11.608);
    let answers = model.solve(&[transfer(&m, "GPU0", "GPU2"), transfer(&m, "GPU2", "GPU0")]).unwrap();
    near(answers.iter().map(|a| a.rate.gb()).sum(), 12.0);
    assert_eq!(answers[0].bottleneck, "cpu0–cpu1, QPI, staged traffic both ways");
}

#[test]
fn staging_asked_for_is_no_surprise() {
    let m = traditional();
    let parts = parts();
    let model = Model::new(&m, &parts);
    let staged = Transfer { peer: PeerAccess::Disabled, ..transfer(&m, "GPU0", "GPU1") };
    let route = model.route(&staged).unwrap();
    assert!(route.staged && route.staged_because.is_none());
    let answer = model.solve(&[staged]).unwrap().remove(0);
    near(answer.rate.gb(), 11.608);
    assert_eq!(answer.bottleneck, "staging through host memory (host→device, and 9 us a MiB, assumed)");
}

#[test]
fn what_a_machine_states_of_a_pair_decides() {
    let mut m = traditional();
    let (a, b, c) = (m.fabric.find("GPU0").unwrap(), m.fabric.find("GPU1").unwrap(), m.fabric.find("GPU2").unwrap());
    m.p2p.insert((a, b), P2pStatus::ChipsetNotSupported);
    m.p2p.insert((a, c), P2pStatus::Ok);
    let parts = parts();
    let model = Model::new(&m, &parts);
    let refused = model.route(&transfer(&m, "GPU0", "GPU1")).unwrap();
    assert_eq!(refused.staged_because, Some(NoPeerAccess::Stated(P2pStatus::ChipsetNotSupported)));
    assert!(!model.route(&transfer(&m, "GPU0", "GPU2")).unwrap().staged);
}

#[test]
fn a_host_bridge_with_a_limit_is_shared_by_all_that_cross_it() {
    let mut b = Bench::new();
    let (_, rc) = b.socket(0, "slow-bridge");
    for switch in 0..2 {
        let plx = b.node(&format!("plx{switch}"), NodeKind::Switch, "");
        b.pcie(rc, plx, "3.0 x16");
        b.gpu(2 * switch, plx, "3.0 x16");
        b.gpu(2 * switch + 1, plx, "3.0 x16");
    }
    let m = b.machine();
    near(both(&m, "GPU0", "GPU2"), 16.0);
    near(both(&m, "GPU0", "GPU1"), 25.79);
    near(rate(&m, &[transfer(&m, "GPU0", "GPU2"), transfer(&m, "GPU1", "GPU3")]), 8.0);
}

#[test]
fn unknown_widths_give_no_rate_but_nvlink_needs_none() {
    let mut b = Bench::new();
    b.kind = MachineKind::Captured;
    let (_, rc) = b.socket(0, "");
    let switch = b.node("nvswitch", NodeKind::NvSwitch, "");
    for n in 0..2 {
        let gpu = b.gpu(n, rc, "?");
        b.builder.node_mut(gpu).part = Some("h200".to_owned());
        b.link(switch, gpu, LinkKind::Gpu(GpuLink::nvlink(None, 18)));
    }
    let m = b.machine();
    near(one(&m, "GPU0", "GPU1"), 396.13);
    near(both(&m, "GPU0", "GPU1"), 783.54);
    let known = parts();
    let answer = Model::new(&m, &known).solve(&[transfer(&m, "GPU0", "GPU1")]).unwrap().remove(0);
    assert_eq!(answer.bottleneck, "GPU0–nvswitch, NVLink 4 x18");
    near(rate(&m, &[Transfer { engine: Engine::Sm, ..transfer(&m, "GPU0", "GPU1") }]), 370.07);
    near(one(&m, "GPU0", "GPU0"), 0.8 * 4800.0 / 2.0);
    let parts = parts();
    let error = Model::new(&m, &parts).route(&transfer(&m, "host0", "GPU0")).unwrap_err();
    assert_eq!(error.to_string(), "the rate from host0 to GPU0 is unknown: the PCIe width of GPU0's link is not known");
}

#[test]
fn a_nic_is_held_by_its_line_and_by_how_it_reads_gpus() {
    let mut b = Bench::new();
    let (_, rc) = b.socket(0, "");
    b.gpu(0, rc, "3.0 x16");
    let nic = b.node("mlx5_0", NodeKind::Nic, "hdr100");
    b.pcie(rc, nic, "3.0 x16");
    let m = b.machine();
    near(one(&m, "mlx5_0", "GPU0"), 12.5 * 4096.0 / 4122.0);
    near(one(&m, "host0", "mlx5_0"), 12.42);
    near(one(&m, "GPU0", "mlx5_0"), 1.5);
}

#[test]
fn an_idle_link_counts_as_what_it_can_be_and_says_so() {
    let mut b = Bench::new();
    b.kind = MachineKind::Captured;
    let (_, rc) = b.socket(0, "");
    let gpu = b.node("GPU0", NodeKind::Gpu, "");
    let (running, allowed) = (PcieWidth::new(PcieGeneration::Gen1, 16), PcieWidth::new(PcieGeneration::Gen3, 16));
    b.link(rc, gpu, LinkKind::Pcie { running, allowed, slot: None });
    let m = b.machine();
    near(one(&m, "GPU0", "host0"), 13.59);
    let parts = parts();
    let route = Model::new(&m, &parts).route(&transfer(&m, "GPU0", "host0")).unwrap();
    assert_eq!(route.hops[0].why, "PCIe 3.0 x16 (read at 1.0, taken as idle): 13.59 GB/s (256-byte writes, assumed)");
}

#[test]
fn without_a_way_there_is_no_rate() {
    let mut b = Bench::new();
    let (_, rc) = b.socket(0, "");
    let (_, far) = b.socket(1, "");
    b.gpu(0, rc, "3.0 x16");
    b.gpu(1, far, "3.0 x16");
    let m = b.machine();
    let parts = parts();
    let model = Model::new(&m, &parts);
    assert!(model.route(&transfer(&m, "host0", "GPU1")).is_err());
    assert!(model.route(&transfer(&m, "GPU0", "GPU1")).is_err());
    assert!(matches!(model.route(&transfer(&m, "cpu0", "GPU1")), Err(ModelError::NoPath(..))));
    assert!(model.solve(&[]).unwrap().is_empty());
}

#[test]
fn a_copy_within_a_gpu_gets_the_share_that_its_part_states() {
    let rate = |name: &str| {
        let machine = peerlane_read::catalogue::system(name).unwrap().unwrap();
        let model = Model::new(&machine, Parts::embedded());
        let gpu = machine.fabric.find("GPU0").unwrap();
        let transfer = Transfer {
            source: gpu,
            destination: gpu,
            engine: Engine::Ce,
            op: Operation::Write,
            peer: PeerAccess::Enabled,
        };
        model.solve(&[transfer]).unwrap()[0].rate.gb()
    };
    // each byte is read and written
    assert!((rate("microway-p100-pcie") - 732.0 * 0.618 / 2.0).abs() < 1e-6);
    assert!((rate("az-2x-m60") - 160.0 * 0.8325 / 2.0).abs() < 1e-6);
    // of a part that states none, its family's or the usual share
    let usual = rate("exxact-devbox") / (336.5 / 2.0);
    assert!((0.7..0.95).contains(&usual), "{usual}");
}

#[test]
fn leaving_a_system_out_forgets_what_was_taken_from_it() {
    let embedded = Parts::embedded();
    let without = embedded.leaving_out("exxact-txr550");
    assert_eq!(embedded.get("xeon-e5-v2").unwrap().constant("peer_rate"), Some(8.0));
    assert_eq!(without.get("xeon-e5-v2").unwrap().constant("peer_rate"), None);
    // what others saw of the same part stands in
    let ce = |parts: &Parts| parts.get("h200").unwrap().constant("nvlink_ce_efficiency");
    assert_eq!((ce(embedded), ce(&embedded.leaving_out("h200x4-vm"))), (Some(0.8285), Some(0.7877)));
    let by_hand = embedded.fitted_to("exxact-txr550").filter(|(_, constant)| constant.figures.is_none());
    let fitted: Vec<String> = by_hand.map(|(name, _)| name).collect();
    assert_eq!(fitted, ["peer_rate of xeon-e5-v2"]);
    let rate = |parts: &Parts| parts.get("xeon-e5-v2").unwrap().constant("peer_rate").unwrap();
    assert_eq!((rate(embedded.slow()), rate(embedded.fast())), (7.34, 8.01));
    // more of a latency is slower
    let latency = |parts: &Parts| parts.get("h200").unwrap().constant("copy_latency").unwrap();
    assert!(latency(embedded.slow()) > latency(embedded.fast()));
}

#[test]
fn a_kernels_reads_ask_for_each_line_over_nvlink() {
    let machine = peerlane_read::catalogue::system("h200x4-vm").unwrap().unwrap();
    let model = Model::new(&machine, Parts::embedded());
    let find = |name| machine.fabric.find(name).unwrap();
    let ways = |op| {
        let (engine, peer) = (Engine::Sm, PeerAccess::Enabled);
        let ahead = Transfer { source: find("GPU0"), destination: find("GPU1"), engine, op, peer };
        let back = Transfer { source: ahead.destination, destination: ahead.source, ..ahead };
        model.solve(&[ahead, back]).unwrap().iter().map(|a| a.rate.gb()).sum::<f64>()
    };
    // x / 0.7867 + x · 16/128 = 478.125
    near(ways(Operation::Read), 2.0 * 478.125 / (1.0 / 0.7867 + 0.125));
    near(ways(Operation::Write), 2.0 * 0.989 * 0.774 * 478.125);
}
