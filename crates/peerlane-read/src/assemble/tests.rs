use super::{assemble, name};
use crate::evidence::{Found, Text, scan_text};
use peerlane_machine::curve::Curve;
use peerlane_machine::fabric::{Fabric, GpuLink, LinkKind, NodeKind, PathClass};
use peerlane_machine::fact::{Evidence, Fact, P2pStatus};
use peerlane_machine::machine::{Machine, MachineKind};
use peerlane_machine::origin::{Origin, Warning};
use peerlane_machine::units::Rate;

fn machines(text: &str) -> Vec<Machine> {
    assemble(scan_text(&Text::new("t", text.as_bytes())))
}

fn names(all: &[Machine]) -> Vec<&str> {
    all.iter().map(|m| m.name.as_str()).collect()
}

/// Two GPUs and a NIC with these classes: GPU0-GPU1, GPU0-NIC0, GPU1-NIC0.
fn topo(a: &str, b: &str, c: &str) -> String {
    format!(
        "\tGPU0\tGPU1\tNIC0\tCPU Affinity\tNUMA Affinity\nGPU0\t X \t{a}\t{b}\t0-7\t0\nGPU1\t{a}\t X \t{c}\t0-7\t0\n\
         NIC0\t{b}\t{c}\t X \t\t\n\nNIC Legend:\n\n  NIC0: mlx5_0\n"
    )
}

#[test]
fn nodes_of_one_make_stay_apart_where_their_classes_differ() {
    let (a, b) = (topo("NV12", "PIX", "NODE"), topo("NV12", "NODE", "PIX"));
    let text = format!("**node-a**\n\n```\n{a}```\n\nand this is node b:\n```\n{b}```\n");
    let all = machines(&text);
    assert_eq!(names(&all), ["node-a", "and this is node b"]);
    let class = |m: &Machine| m.fabric.class(m.fabric.find("GPU0").unwrap(), m.fabric.find("NIC0").unwrap());
    assert_eq!((class(&all[0]), class(&all[1])), (Some(PathClass::Pix), Some(PathClass::Node)));
    assert_eq!(machines(&format!("{a}\n{a}")).len(), 1, "the same matrix twice is one machine");
}

#[test]
fn topo_mp_tells_what_nvlink_hides() {
    for text in [
        format!("{}\n{}", topo("NV12", "PXB", "PXB"), topo("PIX", "PXB", "PXB")),
        format!("{}\n{}", topo("PIX", "PXB", "PXB"), topo("NV12", "PXB", "PXB")),
    ] {
        let all = machines(&text);
        let [machine] = &all[..] else { panic!("{:?}", names(&all)) };
        let gpus: Vec<_> = machine.fabric.of_kind(NodeKind::Gpu).collect();
        assert_eq!(machine.fabric.class(gpus[0], gpus[1]), Some(PathClass::nvlink(12)));
        let above = |g| machine.fabric.upstream(g).map(|(_, up)| up);
        assert_eq!(above(gpus[0]), above(gpus[1]), "both below one switch");
        assert!(
            !machine.unknown.iter().any(|u| u.to_string().contains("instead of the PCIe class")),
            "{:?}",
            machine.unknown
        );
    }
}

#[test]
fn a_pair_with_a_bridge_and_one_without_are_two_machines() {
    let pair = |class: &str| format!("\tGPU0\tGPU1\tCPU Affinity\nGPU0\t X \t{class}\t0-7\nGPU1\t{class}\t X \t0-7\n");
    assert_eq!(machines(&format!("{}\nand\n{}", pair("NV2"), pair("PHB"))).len(), 2);
}

#[test]
fn hosts_named_before_each_line_are_machines() {
    let lines: String = topo("NODE", "PIX", "NODE").lines().map(|l| format!("n1: {l}\nn2: {l}\n")).collect();
    let all = machines(&lines);
    assert_eq!(names(&all), ["n1", "n2"]);
    assert!(all.iter().all(|m| m.stated_classes.is_some()));
    let origin = &all[1].stated_classes.as_ref().unwrap().1;
    assert_eq!((origin.source.as_ref(), origin.lines), ("t [n2]", Some((2, 8))));
    let one: String = topo("NODE", "PIX", "NODE").lines().map(|l| format!("2024-05-03T10:11:12Z {l}\n")).collect();
    assert_eq!(machines(&one)[0].stated_classes.as_ref().unwrap().1.lines, Some((1, 4)));
}

#[test]
fn a_run_again_is_said() {
    let run = |rate: u32| {
        format!(
            "Device: 0, Card, pciBusID: 1, pciDeviceID: 0, pciDomainID:0\n\
             Device: 1, Card, pciBusID: 2, pciDeviceID: 0, pciDomainID:0\n\
             Bidirectional P2P=Enabled Bandwidth Matrix (GB/s)\n D\\D 0 1\n 0 900 {rate}\n 1 {rate} 900\n"
        )
    };
    let all = machines(&format!("{}\nafter\n{}", run(3), run(25)));
    assert_eq!((all.len(), all[0].matrices.len()), (1, 2));
    assert!(all[0].warnings[0].message.contains("an earlier run's, t:3-6"), "{:?}", all[0].warnings);
    assert!(machines(&format!("{}\n{}", run(24), run(25)))[0].warnings.is_empty(), "runs always differ a little");
}

#[test]
fn nvlinks_without_far_ends_are_unknown() {
    let all = machines(
        "GPU 0: NVIDIA A30 (UUID: GPU-1)\n\t Link 0: 25 GB/s\nGPU 1: NVIDIA A30 (UUID: GPU-2)\n\t Link 0: 25 GB/s\n",
    );
    assert_eq!(all[0].fabric.of_kind(NodeKind::Gpu).count(), 2);
    assert!(
        all[0].unknown.iter().any(|u| u.to_string().starts_with("where the NVLinks of GPU0, GPU1 lead")),
        "{:?}",
        all[0].unknown
    );
}

/// Two GPUs under one switch, as two documents of their own show them.
const PAIR: &str = "\tGPU0\tGPU1\tCPU Affinity\nGPU0\t X \tPIX\t0-7\nGPU1\tPIX\t X \t0-7\n";

fn found(source: &str, text: &str) -> Found {
    scan_text(&Text::new(source, text.as_bytes()))
}

#[test]
fn refused_atomics_and_nvlink_are_no_refused_access() {
    let matrix = |letter: char, cell: &str| {
        let rows = format!(" \tGPU0\tGPU1\n GPU0\tX\t{cell}\n GPU1\t{cell}\tX\n");
        format!("$ nvidia-smi topo -p2p {letter}\n{rows}\n")
    };
    let mut all = found("topo", PAIR);
    all.append(found("p2p", &[matrix('a', "NS"), matrix('n', "NS"), matrix('r', "OK")].concat()));
    assert_eq!(all.evidence.len(), 4);
    let machines = assemble(all);
    assert_eq!(machines.len(), 1);
    assert_eq!(machines[0].p2p.values().collect::<Vec<_>>(), [&P2pStatus::Ok; 2]);
}

#[test]
fn a_warning_about_a_whole_source_goes_to_the_machine_that_it_describes() {
    let mut all = found("a", PAIR);
    all.append(found("b", &PAIR.replace("PIX", "SYS")));
    let origin = Origin { source: "b".into(), tool: "test", lines: None };
    all.warnings.push(Warning { origin: Some(origin), message: "odd".to_owned() });
    let warned: Vec<usize> = assemble(all).iter().map(|m| m.warnings.len()).collect();
    assert_eq!(warned, [0, 1]);
}

#[test]
fn machines_below_one_heading_are_counted() {
    let fabric = || Machine::new("", MachineKind::Captured, Fabric::default());
    let mut machines = vec![fabric(), fabric()];
    let evidence = |label: &str| {
        let settings = [("label".to_owned(), label.to_owned())].into();
        let origin = Origin { source: "t".into(), tool: "test", lines: None };
        vec![Evidence { origin, fact: Fact::Curve(Curve { settings, ..Curve::default() }) }]
    };
    machines[0].evidence = evidence("box");
    machines[1].evidence = evidence("box");
    machines.push(fabric());
    machines[2].evidence = evidence("box (2)");
    name(&mut machines, &[], &[]);
    let names: Vec<&str> = machines.iter().map(|m| m.name.as_str()).collect();
    assert_eq!(names, ["box", "box (2)", "box (2) (2)"]);
}

#[test]
fn a_gpu_on_its_cpus_c2c_takes_it_to_memory() {
    let xml = r#"<system version="1">
  <cpu numaid="0" affinity="ff" arch="arm64">
    <pci busid="0009:01:00.0" class="0x030200" link_speed="2.5 GT/s PCIe" link_width="16">
      <gpu dev="0" sm="90"><c2c bw="40000" count="10"/></gpu>
    </pci>
  </cpu>
</system>
"#;
    let machines = assemble(found("x", xml));
    let fabric = &machines[0].fabric;
    let path = fabric.path(fabric.find("GPU0").unwrap(), fabric.find("host0").unwrap()).unwrap();
    let first = fabric.link(path.hops[0].link);
    assert_eq!(first.kind, LinkKind::Gpu(GpuLink::c2c(Some(Rate::from_gb(400.0)))));
}

#[test]
fn what_a_cut_matrix_leaves_open_is_unknown() {
    // of NIC0 and NIC1 the rows are cut off, and GPU1's row ends before NIC1
    let text = "\tGPU0\tGPU1\tNIC0\tNIC1\tNIC2\tCPU Affinity\tNUMA Affinity\n\
                GPU0\t X \tSYS\tSYS\tSYS\tPIX\t0-7\t0\nGPU1\tSYS\t X \tNODE\n";
    let all = machines(text);
    let fabric = &all[0].fabric;
    let class = |a: &str, b: &str| fabric.class(fabric.find(a).unwrap(), fabric.find(b).unwrap());
    assert_eq!(class("GPU0", "NIC1"), Some(PathClass::Sys));
    assert_eq!(class("NIC0", "NIC1"), None, "both are far from GPU0, which says nothing of each other");
    assert_eq!(class("GPU1", "NIC1"), None);
    assert_eq!(class("NIC0", "NIC2"), Some(PathClass::Sys), "NIC2 is at GPU0, and NIC0 is far from it");
    assert_eq!(class("GPU1", "NIC0"), Some(PathClass::Node));
}

#[test]
fn a_topology_file_for_nccl_says_nothing_of_nvlink() {
    let pci = |bus: u32, inner: &str| {
        format!(r#"<pci busid="0000:0{bus}:00.0" class="0x030200" link_speed="16 GT/s" link_width="16">{inner}</pci>"#)
    };
    let file = |inner: &str| {
        format!(r#"<system version="1"><cpu numaid="0">{}{}</cpu></system>"#, pci(1, inner), pci(2, inner))
    };
    let says = |text: &str| machines(text)[0].unknown.iter().any(|u| u.to_string().starts_with("whether NVLink joins"));
    assert!(says(&file("")));
    assert!(!says(&file(r#"<gpu dev="0" sm="80"/>"#)), "what NCCL dumps lists them");
}

#[test]
fn a_listing_of_too_many_devices_is_cut_with_a_warning() {
    let gpu = |n: usize| format!("<pci busid=\"{:04x}:{:02x}:00.0\" class=\"0x030200\"/>", n / 256, n % 256);
    let many: String = (0..1100).map(gpu).collect();
    let all = machines(&format!("<system version=\"1\"><cpu numaid=\"0\">{many}</cpu></system>"));
    assert_eq!(all[0].fabric.of_kind(NodeKind::Gpu).count(), 1024);
    assert_eq!(all[0].warnings.iter().filter(|w| w.message.contains("more than 1024")).count(), 1);
}
