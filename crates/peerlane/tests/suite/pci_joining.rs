//! What PCI listings say, joined with what the driver says: GPUs that only the bus shows, those inside
//! CPUs, bare trees, sockets that no NUMA number names.

use peerlane::assemble::assemble;
use peerlane::evidence::{Text, scan_text};
use peerlane::export::nccl_xml::to_nccl_xml;
use peerlane::fabric::{Interconnect, LinkKind, NodeKind};
use peerlane::machine::Machine;

fn machines(text: &str) -> Vec<Machine> {
    assemble(scan_text(&Text::new("m.txt", text.as_bytes())))
}

fn machine(text: &str) -> Machine {
    let mut all = machines(text);
    assert_eq!(all.len(), 1, "{:?}", all.iter().map(|m| &m.name).collect::<Vec<_>>());
    all.remove(0)
}

fn class(machine: &Machine, a: &str, b: &str) -> String {
    let find = |name| machine.fabric.find(name).unwrap();
    machine.fabric.class(find(a), find(b)).map_or("?".to_owned(), |c| c.to_string())
}

fn addresses(machine: &Machine) -> Vec<String> {
    let of = |id| {
        let node = machine.fabric.node(id);
        format!("{} {}", node.name, node.address.map_or("?".to_owned(), |a| a.to_string()))
    };
    machine.fabric.of_kind(NodeKind::Gpu).map(of).collect()
}

fn count(machine: &Machine, kind: NodeKind) -> usize {
    machine.fabric.of_kind(kind).count()
}

fn warned(machine: &Machine, part: &str) -> bool {
    machine.warnings.iter().any(|w| w.message.contains(part))
}

const TWO: &str = "\tGPU0\tGPU1\tCPU Affinity\tNUMA Affinity\nGPU0\t X \tPHB\t0-15\t0\nGPU1\tPHB\t X \t0-15\t0\n\n";

const DESKTOP: &str = "\
-[0000:00]-+-00.0  Advanced Micro Devices, Inc. [AMD] Raphael Root Complex
           +-01.1-[01]--+-00.0  NVIDIA Corporation AD102 [GeForce RTX 4090]
           |            \\-00.1  NVIDIA Corporation AD102 High Definition Audio Controller
           +-01.2-[02]--+-00.0  NVIDIA Corporation AD102 [GeForce RTX 4090]
           |            \\-00.1  NVIDIA Corporation AD102 High Definition Audio Controller
           \\-08.1-[0e]--+-00.0  Advanced Micro Devices, Inc. [AMD/ATI] Raphael [Radeon Graphics]
                        +-00.2  Advanced Micro Devices, Inc. [AMD] VanGogh PSP/CCP
                        \\-00.3  Advanced Micro Devices, Inc. [AMD] Raphael USB 3.1 xHCI
";

#[test]
fn a_hypervisors_adapter_has_no_path_and_one_with_a_link_has() {
    let listing = include_str!("../../../../captures/h200x4-vm/sysfs-pci.txt");
    let software = machine(listing);
    assert_eq!((count(&software, NodeKind::Gpu), count(&software, NodeKind::Nic)), (4, 0));
    assert!(!software.unknown.iter().any(|u| matches!(u, peerlane::gap::Gap::Widths { .. })), "{:?}", software.unknown);
    let card = "ven=0x1af4 dev=0x1041 numa=-1 spd=16.0 GT/s PCIe w=8 max=16.0 GT/s PCIe/8";
    let hardware = machine(&listing.replace("ven=0x1af4 dev=0x1041 numa=-1 spd= w= max=/", card));
    assert_eq!(count(&hardware, NodeKind::Nic), 1);
}

#[test]
fn the_gpu_inside_a_cpu_is_not_one_of_the_drivers() {
    let machine = machine(&format!("{TWO}{DESKTOP}"));
    assert_eq!(addresses(&machine), ["GPU0 0000:01:00.0", "GPU1 0000:02:00.0"]);
    assert!(machine.warnings.is_empty(), "{:?}", machine.warnings);
}

const BARE: &str = "\
# lspci -t
-[0000:00]-+-00.0
           +-01.1-[01-04]----00.0-[02-04]--+-00.0-[03]--+-00.0
           |                               |            \\-00.1
           |                               \\-04.0-[04]----00.0
           \\-08.1-[0e]----00.0

03:00.0 VGA compatible controller: NVIDIA Corporation GA102 [GeForce RTX 3090] (rev a1) (prog-if 00 [VGA controller])
\t\tLnkCap:\tPort #0, Speed 16GT/s, Width x16, ASPM L1
\t\tLnkSta:\tSpeed 8GT/s (downgraded), Width x8 (downgraded)
04:00.0 VGA compatible controller: NVIDIA Corporation GA102 [GeForce RTX 3090] (rev a1) (prog-if 00 [VGA controller])
\t\tLnkCap:\tPort #0, Speed 16GT/s, Width x16, ASPM L1
\t\tLnkSta:\tSpeed 8GT/s (downgraded), Width x16
";

#[test]
fn a_bare_tree_is_filled_in_by_blocks_of_single_devices() {
    let machine = machine(&format!("{}{BARE}", TWO.replace("PHB", "PIX")));
    assert_eq!(addresses(&machine), ["GPU0 0000:03:00.0", "GPU1 0000:04:00.0"]);
    let switch = machine.fabric.of_kind(NodeKind::Switch).next().unwrap();
    let node = machine.fabric.node(switch);
    assert_eq!((node.address.unwrap().to_string().as_str(), node.assumed), ("0000:01:00.0", false));
    let widths: Vec<String> = machine
        .fabric
        .downstream(switch)
        .map(|(link, _)| match &machine.fabric.link(link).kind {
            LinkKind::Pcie { running, .. } => running.to_string(),
            other => format!("{other:?}"),
        })
        .collect();
    assert_eq!(widths, ["3.0 x8", "3.0 x16"]);
}

const PAIR_OF_SOCKETS: &str = "\
-+-[0000:80]-+-00.0  Intel Corporation Device 1
 |           +-01.0-[81]----00.0  NVIDIA Corporation GA100 [A100 PCIe 40GB]
 |           \\-02.0-[82]----00.0  NVIDIA Corporation GA100 [A100 PCIe 40GB]
 \\-[0000:00]-+-00.0  Intel Corporation Device 1
             +-01.0-[01]----00.0  NVIDIA Corporation GA100 [A100 PCIe 40GB]
             \\-02.0-[02]----00.0  NVIDIA Corporation GA100 [A100 PCIe 40GB]
";

const THREE: &str = "\tGPU0\tGPU1\tGPU2\tCPU Affinity\tNUMA Affinity
GPU0\t X \tSYS\tSYS\t0-7\t0
GPU1\tSYS\t X \tPHB\t8-15\t1
GPU2\tSYS\tPHB\t X \t8-15\t1

";

fn table(buses: &[&str]) -> String {
    let mut text = "+-----------------------------------------------------------------------------+
| NVIDIA-SMI 525.60.13    Driver Version: 525.60.13    CUDA Version: 12.0     |
|-------------------------------+----------------------+----------------------+
| GPU  Name        Persistence-M| Bus-Id        Disp.A | Volatile Uncorr. ECC |
| Fan  Temp  Perf  Pwr:Usage/Cap|         Memory-Usage | GPU-Util  Compute M. |
|===============================+======================+======================|
"
    .to_owned();
    for (i, bus) in buses.iter().enumerate() {
        text += &format!(
            "|   {i}  NVIDIA A100-PCI...  On   | 00000000:{bus}:00.0 Off |                    0 |
| N/A   34C    P0    36W / 250W |      4MiB / 40960MiB |      0%      Default |
+-------------------------------+----------------------+----------------------+\n"
        );
    }
    text + "\n"
}

#[test]
fn a_gpu_that_no_driver_shows_has_a_name_of_its_own() {
    let machine = machine(&format!("{THREE}{}{PAIR_OF_SOCKETS}", table(&["01", "81", "82"])));
    let expected = ["GPU0 0000:01:00.0", "GPU1 0000:81:00.0", "GPU2 0000:82:00.0", "GPU3 0000:02:00.0"];
    assert_eq!(addresses(&machine), expected);
    assert_eq!((class(&machine, "GPU0", "GPU3"), class(&machine, "GPU1", "GPU2")), ("PHB".into(), "PHB".into()));
    assert!(warned(&machine, "0000:02:00.0 is on the bus, and nvidia-smi"), "{:?}", machine.warnings);
}

#[test]
fn without_addresses_it_cannot_be_told_which_is_missing() {
    let machine = machine(&format!("{THREE}{PAIR_OF_SOCKETS}"));
    assert_eq!(addresses(&machine), ["GPU0 ?", "GPU1 ?", "GPU2 ?"]);
    assert!(warned(&machine, "4 GPUs are listed here and 3 by the driver"), "{:?}", machine.warnings);
}

#[test]
fn another_size_is_another_machine() {
    assert_eq!(machines(&format!("{TWO}{PAIR_OF_SOCKETS}")).len(), 2);
}

#[test]
fn every_gpu_of_a_plain_list_counts() {
    let list = "01:00.0 3D controller: NVIDIA Corporation GA100 (rev a1)\n02:00.0 3D controller: NVIDIA Corporation GA100 (rev a1)\n";
    assert_eq!(addresses(&machine(list)).len(), 2);
}

#[test]
fn a_card_that_reads_as_ones_is_said() {
    let list =
        "01:00.0 3D controller: NVIDIA Corporation GA100 [A100] (rev ff) (prog-if ff)\n\t!!! Unknown header type 7f\n";
    assert!(warned(&machine(list), "0000:01:00.0 does not answer"));
}

/// hwloc numbers one GPU by CUDA and cannot the other.
#[test]
fn gpus_with_and_without_a_number_do_not_become_one() {
    let machine = machine(
        r#"<topology version="2.0">
 <object type="Machine" os_index="0" cpuset="0x000000ff" nodeset="0x00000001">
  <object type="NUMANode" os_index="0" cpuset="0x000000ff" nodeset="0x00000001"/>
  <object type="Bridge" gp_index="20" bridge_type="0-1" bridge_pci="0000:[00-03]">
   <object type="PCIDev" gp_index="22" pci_busid="0000:01:00.0" pci_type="0302 [10de:20f1] [10de:118f] a1"/>
   <object type="PCIDev" gp_index="23" pci_busid="0000:02:00.0" pci_type="0302 [10de:20f1] [10de:118f] a1">
    <object type="OSDev" gp_index="31" name="cuda0" osdev_type="5"/>
   </object>
  </object>
 </object>
</topology>"#,
    );
    assert_eq!(addresses(&machine), ["GPU0 0000:02:00.0", "GPU1 0000:01:00.0"]);
}

/// hwloc 1 has packages inside NUMA nodes; the GPUs' memory is nodes too.
#[test]
fn memory_only_nodes_are_no_sockets() {
    let machine = machine(
        r#"<topology>
 <object type="Machine" os_index="0" cpuset="0x000000ff" nodeset="0x00000301">
  <object type="NUMANode" os_index="0" cpuset="0x0000000f" nodeset="0x00000001">
   <object type="Package" os_index="0" cpuset="0x0000000f"><info name="CPUModel" value="A"/></object>
  </object>
  <object type="NUMANode" os_index="8" cpuset="0x000000f0" nodeset="0x00000100">
   <object type="Package" os_index="8" cpuset="0x000000f0"><info name="CPUModel" value="A"/></object>
  </object>
  <object type="NUMANode" os_index="254" cpuset="0x0" nodeset="0x00000200"/>
  <object type="NUMANode" os_index="255" cpuset="0x0" nodeset="0x00000200"/>
 </object>
</topology>"#,
    );
    assert_eq!((count(&machine, NodeKind::Cpu), count(&machine, NodeKind::Host)), (2, 2));
    let lscpu = "Architecture: ppc64le\nCPU(s): 8\nSocket(s): 2\nNUMA node(s): 4\n";
    let numactl = "available: 4 nodes (0,8,254-255)\nnode 0 cpus: 0 1 2 3\nnode 0 size: 9 MB\nnode 8 cpus: 4 5 6 7\nnode 8 size: 9 MB\nnode 254 cpus:\nnode 254 size: 9 MB\nnode 255 cpus:\nnode 255 size: 9 MB\n";
    let told = self::machine(&format!("{lscpu}{numactl}"));
    assert_eq!((count(&told, NodeKind::Cpu), count(&told, NodeKind::Host)), (2, 2));
}

/// The one root complex of two sockets hangs below neither.
#[test]
fn no_socket_is_made_up_for_a_root_complex_that_names_none() {
    let host =
        "Architecture: x86_64\nSocket(s): 2\nNUMA node(s): 2\nNUMA node0 CPU(s): 0-7\nNUMA node1 CPU(s): 8-15\n\n";
    let machine = machine(&format!("{host}{DESKTOP}"));
    assert_eq!(count(&machine, NodeKind::Cpu), 2);
    let root = machine.fabric.of_kind(NodeKind::RootComplex).next().unwrap();
    assert_eq!(machine.fabric.package(root), None);
}

fn back(machine: &Machine) -> Machine {
    self::machine(&to_nccl_xml(machine))
}

#[test]
fn classes_without_addresses_survive_an_nccl_file() {
    let text = "\tGPU0\tGPU1\tGPU2\tGPU3\tNIC0\tNIC1
GPU0\t X \tNV2\tSYS\tSYS\tPHB\tPHB
GPU1\tNV2\t X \tSYS\tSYS\tPHB\tPHB
GPU2\tSYS\tSYS\t X \tPIX\tSYS\tSYS
GPU3\tSYS\tSYS\tPIX\t X \tSYS\tSYS
NIC0\tPHB\tPHB\tSYS\tSYS\t X \tPIX
NIC1\tPHB\tPHB\tSYS\tSYS\tPIX\t X
";
    let first = machine(text);
    let again = back(&first);
    let names = ["GPU0", "GPU1", "GPU2", "GPU3", "NIC0", "NIC1"];
    for a in names {
        for b in names {
            assert_eq!(class(&first, a, b), class(&again, a, b), "{a} {b}");
        }
    }
    assert_eq!(count(&again, NodeKind::Card), 1);
}

#[test]
fn xgmi_survives_an_nccl_file() {
    let xml = r#"<system version="2"><cpu numaid="0">
<pci busid="0000:03:00.0" class="0x038000" link_speed="16.0 GT/s PCIe" link_width="16">
 <gpu dev="0"><xgmi target="0000:04:00.0" count="4" tclass="0x038000"/></gpu></pci>
<pci busid="0000:04:00.0" class="0x038000" link_speed="16.0 GT/s PCIe" link_width="16">
 <gpu dev="1"><xgmi target="0000:03:00.0" count="4" tclass="0x038000"/></gpu></pci>
</cpu></system>"#;
    let first = machine(xml);
    let text = to_nccl_xml(&first);
    assert!(text.contains("<system version=\"2\">"), "{text}");
    let again = machine(&text);
    let xgmi = |m: &Machine| {
        m.fabric.links().iter().find(|l| l.kind.bundle(Interconnect::Xgmi).is_some()).unwrap().kind.clone()
    };
    assert_eq!((xgmi(&first), class(&again, "GPU0", "GPU1")), (xgmi(&again), "XGMI".into()));
}

#[test]
fn nvlink_to_a_cpu_is_none_to_a_switch() {
    let xml = r#"<system version="1">
<cpu numaid="0"><pci busid="0000:03:00.0" class="0x030200"><gpu dev="0">
 <nvlink target="fffffff:ffff:ff" count="2" tclass="0x068001"/></gpu></pci></cpu>
<cpu numaid="8"><pci busid="0008:03:00.0" class="0x030200"><gpu dev="1">
 <nvlink target="fffffff:ffff:ff" count="2" tclass="0x068001"/></gpu></pci></cpu>
</system>"#;
    let machine = machine(xml);
    assert_eq!((class(&machine, "GPU0", "GPU1"), count(&machine, NodeKind::NvSwitch)), ("SYS".into(), 0));
}

#[test]
fn all_nets_of_one_nic_element_are_ports_of_one_card() {
    let xml = r#"<system version="1"><cpu numaid="0">
<pci busid="0000:03:00.0" class="0x020700" link_speed="8.0 GT/s PCIe" link_width="16"><nic>
 <net name="mlx5_0" dev="0" speed="100000" port="1"/><net name="mlx5_1" dev="1" speed="100000" port="1"/>
 <net name="eth9" dev="2" speed="1000" port="0" guid="0x2"/></nic></pci>
<pci busid="0000:04:00.0" class="0x030200"><gpu dev="0"/></pci></cpu></system>"#;
    let machine = machine(xml);
    assert_eq!((count(&machine, NodeKind::Nic), count(&machine, NodeKind::Card)), (2, 1));
    assert_eq!((class(&machine, "mlx5_0", "mlx5_1"), class(&machine, "GPU0", "mlx5_1")), ("PIX".into(), "PHB".into()));
}

/// A cloud shows more lanes below a CPU than such a CPU has.
#[test]
fn a_system_file_with_too_many_lanes_is_readable_all_the_same() {
    let gpu = |i: usize| {
        format!(
            "<pci busid=\"000{i}:01:00.0\" class=\"0x030200\" link_speed=\"8.0 GT/s PCIe\" link_width=\"16\"><gpu dev=\"{i}\"/></pci>\n"
        )
    };
    let gpus: String = (0..8).map(gpu).collect();
    let xml = format!(
        "<system version=\"1\"><cpu numaid=\"0\" arch=\"x86_64\" vendor=\"GenuineIntel\" familyid=\"6\" modelid=\"85\">\n{gpus}</cpu></system>"
    );
    let first = machine(&xml);
    let cpu = first.fabric.of_kind(NodeKind::Cpu).next().unwrap();
    assert!(first.fabric.node(cpu).part.is_some());
    let text = peerlane::catalogue::write_system(&first).unwrap();
    let again = peerlane::catalogue::read_system(&text, "m.toml").unwrap_or_else(|e| panic!("{e}\n{text}"));
    assert_eq!(again.fabric.of_kind(NodeKind::Gpu).count(), 8);
    assert!(text.contains("is left out"), "{text}");
}

#[test]
fn ports_of_one_gigabit_do_no_rdma() {
    let port = |n: u8| {
        format!(
            "00:0{n}.0 PCI bridge: Intel Corporation Device 1\n\tBus: primary=00, secondary=0{n}, subordinate=0{n}\n\tCapabilities: [58] Express (v2) Root Port (Slot+)\n\n"
        )
    };
    let nic = |at: &str, name: &str| format!("{at} Ethernet controller: {name}\n\tNUMA node: 0\n\n");
    let tree = [
        port(1),
        nic("01:00.0", "Intel Corporation I350 Gigabit Network Connection (rev 01)"),
        nic("01:00.1", "Intel Corporation I350 Gigabit Network Connection (rev 01)"),
        port(2),
        nic("02:00.0", "Intel Corporation 82599ES 10-Gigabit SFI/SFP+ Network Connection (rev 01)"),
        port(3),
        nic("03:00.0", "Mellanox Technologies MT28908 Family [ConnectX-6]"),
        nic("03:00.1", "Mellanox Technologies MT28908 Family [ConnectX-6 Virtual Function]"),
    ];
    let machine = machine(&tree.concat());
    let rdma: Vec<Option<bool>> =
        machine.fabric.of_kind(NodeKind::Nic).map(|id| machine.fabric.node(id).rdma).collect();
    assert_eq!(rdma, [Some(false), Some(false), None, Some(true)]);
}
