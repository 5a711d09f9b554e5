//! Readings that cannot be so are kept, shown, and not used; explicit ones beat generic ones. Texts are made up.

use peerlane::assemble::assemble;
use peerlane::case::Case;
use peerlane::catalogue::Parts;
use peerlane::check::{Context, Finding, check};
use peerlane::comparison::Comparison;
use peerlane::evidence::{Text, scan_text};
use peerlane::fabric::{LinkKind, NodeKind};
use peerlane::fact::IommuDomain;
use peerlane::machine::Machine;
use peerlane::machine::reading::{Doubt, Standing};
use peerlane::matrix::{Engine, Operation};
use peerlane::model::{Assume, Model, PeerAccess, Transfer};

fn machine(text: &str) -> Machine {
    let mut all = assemble(scan_text(&Text::new("m.txt", text.as_bytes())));
    assert_eq!(all.len(), 1, "{:?}", all.iter().map(|m| &m.name).collect::<Vec<_>>());
    all.remove(0)
}

fn findings(machine: &Machine) -> Vec<Finding> {
    let case = Case::from(machine.clone());
    check(&Context::of(&case, &Comparison::of(&Model::new(&case.machine, Parts::embedded()))))
}

/// NCCL's XML of H100s below bridges, each with its speed, width and PCI device.
fn below_bridges(bridges: &[(&str, u8, &str)], gpus: u32, gpu: &str, speed: &str) -> String {
    let mut text = "<system version=\"1\">\n".to_owned();
    for (i, (bridge_speed, width, ids)) in bridges.iter().enumerate() {
        text += &format!(
            "<cpu numaid=\"{i}\" affinity=\"f{i}\" arch=\"x86_64\" vendor=\"GenuineIntel\" familyid=\"6\" modelid=\"143\">\n"
        );
        text += &format!(
            "<pci busid=\"0000:{i}0:00.0\" class=\"0x060400\" {ids} link_speed=\"{bridge_speed}\" link_width=\"{width}\">\n"
        );
        for g in 0..gpus {
            let dev = i as u32 * gpus + g;
            text += &format!(
                "<pci busid=\"0000:{i}{}:00.0\" class=\"0x030200\" vendor=\"0x10de\" device=\"{gpu}\" link_speed=\"{speed}\" link_width=\"16\">\n\
                 <gpu dev=\"{dev}\" sm=\"90\" rank=\"{dev}\" gdr=\"1\"/>\n</pci>\n",
                g + 1
            );
        }
        text += "</pci>\n</cpu>\n";
    }
    text + "</system>\n"
}

const BROADCOM: &str = "vendor=\"0x1000\" device=\"0xc030\"";

fn from_host(machine: &Machine) -> f64 {
    let gpu = machine.fabric.find("GPU0").unwrap();
    let model = Model::assuming(machine, Parts::embedded(), Assume::Usual);
    let transfer = Transfer {
        source: machine.fabric.nearest_host(gpu).unwrap(),
        destination: gpu,
        engine: Engine::Ce,
        op: Operation::Write,
        peer: PeerAccess::Enabled,
    };
    model.solve(&[transfer]).unwrap()[0].rate.gb()
}

fn doubts(machine: &Machine) -> Vec<(Doubt, usize)> {
    for doubted in &machine.doubted {
        assert!(machine.warnings.iter().any(|w| w.message == doubted.to_string()), "{doubted} is not shown");
    }
    machine.doubted.iter().map(|d| (d.doubt.clone(), d.subjects.len())).collect()
}

#[test]
fn bridges_that_all_misreport_limit_nothing() {
    let rules = |m: &Machine| findings(m).into_iter().map(|f| f.rule).collect::<Vec<_>>();
    let sound = machine(&below_bridges(&[("32.0 GT/s PCIe", 16, BROADCOM); 2], 4, "0x2330", "32.0 GT/s PCIe"));
    let (slow, narrow) = (("5.0 GT/s PCIe", 16, BROADCOM), ("32.0 GT/s PCIe", 1, BROADCOM));
    for bridges in [[slow; 2], [narrow; 2], [slow, narrow]] {
        let machine = machine(&below_bridges(&bridges, 4, "0x2330", "32.0 GT/s PCIe"));
        let doubts = doubts(&machine);
        assert!(doubts.iter().all(|(doubt, _)| *doubt == Doubt::BelowEveryBranch), "{doubts:?}");
        assert_eq!(doubts.iter().map(|(_, switches)| switches).sum::<usize>(), bridges.len());
        assert!((50.0..60.0).contains(&from_host(&machine)), "{}", from_host(&machine));
        assert_eq!(rules(&machine), rules(&sound), "bridges alone are no finding");
    }
}

#[test]
fn one_bridge_alone_misreports_too_where_links_are_modern() {
    let machine = machine(&below_bridges(&[("5.0 GT/s PCIe", 16, BROADCOM)], 1, "0x2330", "32.0 GT/s PCIe"));
    assert_eq!(doubts(&machine), [(Doubt::BelowEveryBranch, 1)]);
}

/// `nvidia-smi -q` of two GPUs, and their classes.
fn idle(product: &str, width: &str, max: u8, utilization: u8, c2c: &str) -> String {
    let mut text = "\tGPU0\tGPU1\tCPU Affinity\tNUMA Affinity\nGPU0\t X \tNODE\t0-71\t0\nGPU1\tNODE\t X \t0-71\t0\n\n\
                    ==============NVSMI LOG==============\n\nAttached GPUs : 2\n"
        .to_owned();
    for bus in ["01", "02"] {
        text += &format!(
            "GPU 00000000:{bus}:00.0\n    Product Name : {product}\n    GPU C2C Mode : {c2c}\n    PCI\n        GPU Link Info\n            \
             PCIe Generation\n                Max : {max}\n                Current : 1\n                Device Max : {max}\n                \
             Host Max : 1\n            Link Width\n                Max : 16x\n                Current : {width}\n    Utilization\n        \
             GPU : {utilization} %\n"
        );
    }
    text
}

#[test]
fn idle_links_that_drop_lanes_are_neither_narrow_nor_slow() {
    let narrow = |text: &str| {
        let machine = machine(text);
        (
            doubts(&machine),
            findings(&machine).iter().filter(|f| f.rule == "narrow-link" && f.summary.contains("x2")).count(),
        )
    };
    assert_eq!(narrow(&idle("NVIDIA GB300", "2x", 6, 0, "Enabled")), (vec![(Doubt::Idle, 2)], 0));
    assert_eq!(narrow(&idle("NVIDIA B300 SXM6 AC", "2x", 6, 0, "Disabled")), (vec![(Doubt::Idle, 2)], 0));
    assert_eq!(narrow(&idle("NVIDIA GB200", "2x", 5, 0, "Enabled")), (vec![(Doubt::Idle, 2)], 0));
    assert_eq!(
        narrow(&idle("NVIDIA B300 SXM6 AC", "2x", 6, 90, "Disabled")),
        (vec![], 1),
        "a busy link shows what it has"
    );
    assert_eq!(narrow(&idle("NVIDIA H100 PCIe", "2x", 5, 0, "Disabled")), (vec![], 1), "older links keep their lanes");
}

#[test]
fn nvlink_c2c_is_the_path_to_host_memory() {
    let machine = machine(&idle("NVIDIA GB300", "2x", 6, 0, "Enabled"));
    assert!(from_host(&machine) > 200.0, "{}", from_host(&machine));
}

#[test]
fn what_a_design_or_a_fault_may_well_have_is_used() {
    // one branch of two, half and a quarter of the width in both
    let full = ("32.0 GT/s PCIe", 16, BROADCOM);
    for bridges in [
        vec![("32.0 GT/s PCIe", 1, BROADCOM), full],
        vec![("32.0 GT/s PCIe", 8, BROADCOM); 2],
        vec![("32.0 GT/s PCIe", 4, BROADCOM); 2],
        vec![("8.0 GT/s PCIe", 16, BROADCOM)],
    ] {
        let machine = machine(&below_bridges(&bridges, 4, "0x2330", "32.0 GT/s PCIe"));
        assert_eq!(doubts(&machine), []);
        assert!(from_host(&machine) < 32.0, "{bridges:?}: {}", from_host(&machine));
    }
}

#[test]
fn an_emulated_switch_has_no_speed() {
    let qemu = ("2.5 GT/s PCIe", 1, "vendor=\"0x104c\" device=\"0x8232\"");
    let machine = machine(&below_bridges(&[qemu], 2, "0x2330", "32.0 GT/s PCIe"));
    assert_eq!(doubts(&machine), [(Doubt::Emulated, 1)]);
    assert!(from_host(&machine) > 40.0);
}

#[test]
fn no_gpu_runs_above_its_own_generation() {
    // V100 read at PCIe 4.0
    let text = below_bridges(&[("8.0 GT/s PCIe", 16, BROADCOM)], 2, "0x1db5", "16.0 GT/s PCIe");
    let machine = machine(&text);
    assert_eq!(doubts(&machine), [(Doubt::AboveProduct, 2)]);
    assert!((11.0..13.5).contains(&from_host(&machine)), "{}", from_host(&machine));
    let link = machine.fabric.upstream(machine.fabric.find("GPU0").unwrap()).unwrap().0;
    assert!(matches!(machine.fabric.link(link).kind, LinkKind::Pcie { running, .. } if running.is_unknown()));
    assert!(machine.fabric.link(link).note.as_deref().unwrap().contains("PCIe 4.0 x16"));
}

#[test]
fn a_limit_below_what_runs_limits_nothing() {
    // GB300 show "Host Max 4" and run at 6.0
    let gpu = |bus: &str| {
        format!(
            "GPU {bus}\n    Product Name                          : NVIDIA GB300\n    PCI\n        GPU Link Info\n            PCIe Generation\n\
             \x20               Max                       : 4\n                Current                   : 6\n\
             \x20               Device Max                : 6\n                Host Max                  : 4\n            Link Width\n\
             \x20               Max                       : 16x\n                Current                   : 16x\n"
        )
    };
    let text = format!(
        "\tGPU0\tGPU1\tCPU Affinity\tNUMA Affinity\nGPU0\t X \tSYS\t0-15\t0\nGPU1\tSYS\t X \t16-31\t1\n\n\
         ==============NVSMI LOG==============\n\nAttached GPUs                             : 2\n{}{}",
        gpu("00000008:01:00.0"),
        gpu("00000009:01:00.0")
    );
    let machine = machine(&text);
    assert_eq!(doubts(&machine), [(Doubt::BelowRunning, 2)]);
    assert!(from_host(&machine) > 60.0, "{}", from_host(&machine));
}

fn iommu(log: &str) -> Option<(IommuDomain, Standing)> {
    let machine = machine(log);
    let found = findings(&machine).iter().any(|f| f.rule == "iommu-translates");
    let reading = machine.iommu.as_ref().map(|r| (r.value, r.standing.clone()));
    assert_eq!(found, matches!(reading, Some((IommuDomain::Translated, _))), "{log}");
    reading
}

#[test]
fn an_iommu_that_is_off_is_off_whatever_domain_is_logged() {
    let log = |parameters: &str, more: &str| {
        format!(
            "[    0.000000] Command line: BOOT_IMAGE=/vmlinuz root=/dev/sda1 ro {parameters} quiet\n{more}\
             [    2.201120] iommu: Default domain type: Translated\n[    2.3] pci 0000:01:00.0: Adding to iommu group 7\n"
        )
    };
    let translated = Some((IommuDomain::Translated, Standing::Generic));
    let off = Some((IommuDomain::Off, Standing::Explicit));
    assert_eq!(iommu(&log("intel_iommu=on", "")), translated);
    assert_eq!(iommu(&log("iommu=off", "")), off);
    assert_eq!(iommu(&log("intel_iommu=off", "")), off);
    assert_eq!(iommu(&log("nosmt", "[    0.1] DMAR: IOMMU disabled\n")), off);
    // Intel's switch on a machine of AMD's
    let amd = "processor\t: 0\nvendor_id\t: AuthenticAMD\ncpu family\t: 25\nmodel\t\t: 17\nmodel name\t: AMD EPYC 9554 64-Core Processor\nphysical id\t: 0\n\n";
    assert_eq!(iommu(&format!("{amd}{}", log("intel_iommu=off", ""))), translated);
    assert_eq!(iommu(&format!("{amd}{}", log("amd_iommu=off", ""))), off);
    let asked = "[    0.000000] Command line: BOOT_IMAGE=/vmlinuz root=/dev/sda1 ro intel_iommu=on quiet\n";
    assert_eq!(iommu(asked), Some((IommuDomain::Translated, Standing::Requested)));
}

/// A ConnectX-7, which can do 400 Gb/s, as NCCL's XML lists it.
fn with_nic(speed: &str) -> String {
    format!(
        "<system version=\"1\">\n<cpu numaid=\"0\" affinity=\"ff\" arch=\"x86_64\" vendor=\"GenuineIntel\" familyid=\"6\" modelid=\"143\">\n\
         <pci busid=\"0000:10:00.0\" class=\"0x030200\" vendor=\"0x10de\" device=\"0x2330\" link_speed=\"32.0 GT/s PCIe\" link_width=\"16\">\n\
         <gpu dev=\"0\" sm=\"90\" rank=\"0\" gdr=\"1\"/>\n</pci>\n\
         <pci busid=\"0000:20:00.0\" class=\"0x020700\" vendor=\"0x15b3\" device=\"0x1021\" link_speed=\"32.0 GT/s PCIe\" link_width=\"16\">\n\
         <nic>\n<net name=\"mlx5_0\" dev=\"0\" {speed} port=\"1\" guid=\"0x1\" gdr=\"1\"/>\n</nic>\n</pci>\n</cpu>\n</system>\n"
    )
}

fn ibstat(state: &str, rate: u32) -> String {
    format!(
        "CA 'mlx5_0'\n\tCA type: MT4129\n\tNumber of ports: 1\n\tPort 1:\n\t\tState: {state}\n\t\tPhysical state: LinkUp\n\
         \t\tRate: {rate}\n\t\tBase lid: 5\n\t\tLMC: 0\n\t\tSM lid: 1\n\t\tLink layer: InfiniBand\n\n"
    )
}

/// Gb/s of the NIC's line as the model has it, before InfiniBand's headers.
fn line_rate(machine: &Machine) -> f64 {
    let model = Model::new(machine, Parts::embedded());
    let line = model.resources.iter().find(|r| r.name == "mlx5_0 line, sending").unwrap();
    line.capacity.gb() * 8.0 * 4122.0 / 4096.0
}

#[test]
fn a_ports_own_rate_beats_its_products() {
    let near = |text: String, gigabits: f64| {
        let machine = machine(&text);
        assert!((line_rate(&machine) - gigabits).abs() < 1e-6, "{} for {text}", line_rate(&machine));
        machine
    };
    near(with_nic(""), 400.0);
    let stated = near(with_nic("speed=\"200000\""), 200.0);
    let written =
        peerlane::catalogue::read_system(&peerlane::catalogue::write_system(&stated).unwrap(), "written").unwrap();
    assert!((line_rate(&written) - 200.0).abs() < 1e-6, "the rate is written");
    near(format!("{}{}", with_nic("speed=\"200000\""), ibstat("Active", 100)), 100.0);
    // a port that is down shows the rate of its slowest lane
    let down = near(format!("{}{}", with_nic(""), ibstat("Down", 10)), 400.0);
    assert_eq!(doubts(&down), [(Doubt::PortDown, 1)]);
    assert_eq!(down.fabric.of_kind(NodeKind::Nic).count(), 1);
}
