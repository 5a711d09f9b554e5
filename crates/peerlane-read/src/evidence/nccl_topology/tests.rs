//! A machine of eight GPUs as each release prints it.

use super::super::testing::scanned;
use super::*;

/// What differs between releases (`ncclTopoPrintRec` at the tag).
#[derive(Clone, Copy)]
struct Release {
    /// Rates are constants without a decimal, and CPUs have no detail (2.5).
    constants: bool,
    /// Ids are of one host, in upper case (before 2.22).
    one_host: bool,
    /// Switches have their PCI ids (from 2.12 on).
    switch_ids: bool,
    /// The rate of one NVLink.
    nvlink: f64,
    heading: &'static str,
    /// Ports say whether they reduce in the network (from 2.23 on), and devices show the link to themselves.
    newest: bool,
}

const OLD: Release = Release {
    constants: false,
    one_host: true,
    switch_ids: false,
    nvlink: 21.0,
    heading: "=== System : maxWidth 21.0 totalWidth 126.0 ===",
    newest: false,
};

fn releases() -> [(&'static str, Release); 5] {
    let one_width = "=== System : maxWidth 21 maxSpeed 126 ===";
    let bandwidth = "=== System : maxBw 48.0 totalBw 360.0 ===";
    let later = Release { switch_ids: true, heading: bandwidth, ..OLD };
    [
        ("2.5", Release { constants: true, heading: one_width, ..OLD }),
        ("2.8", OLD),
        ("2.18", Release { nvlink: 20.0, ..later }),
        ("2.22", Release { one_host: false, nvlink: 20.6, ..later }),
        ("2.28", Release { one_host: false, newest: true, nvlink: 20.6, ..later }),
    ]
}

impl Release {
    fn id(self, of: u64) -> String {
        if self.one_host { format!("{of:X}") } else { format!("0-{of:x}") }
    }

    fn rate(self, gb: f64) -> String {
        if self.constants { "12".to_owned() } else { format!("{gb:.1}") }
    }

    /// Two NUMA nodes with two switches each, below each two GPUs with six links to the NVSwitches and a NIC.
    fn print(self) -> String {
        let mut lines = vec![self.heading.to_owned()];
        let pad = |n: usize| " ".repeat(n);
        for cpu in 0..2_u64 {
            let detail = if self.constants { "" } else { " (1/2/-1)" };
            lines.push(format!("CPU/{}{detail}", self.id(cpu)));
            for switch in 0..2 {
                let base = (0x10 + cpu * 0x80 + switch * 0x40) << 12;
                let ids = if self.switch_ids { " (1000c0101000a096)" } else { "" };
                let start = format!("+ PCI[{}] - ", self.rate(24.0));
                lines.push(format!("{start}PCI/{}{ids}", self.id(base)));
                let at = start.len();
                for gpu in 0..2 {
                    let below = format!("{}+ PCI[{}] - ", pad(at), self.rate(24.0));
                    let (own, rank) = (self.id(base + ((2 + gpu) << 12)), cpu * 4 + switch * 2 + gpu);
                    lines.push(format!("{below}GPU/{own} ({rank})"));
                    let rate = if self.constants { "126".to_owned() } else { format!("{:.1}", 6.0 * self.nvlink) };
                    if self.newest {
                        lines.push(format!("{}+ LOC[5000.0] - GPU/{own}", pad(below.len())));
                    }
                    lines.push(format!("{}+ NVL[{rate}] - NVS/{}", pad(below.len()), self.id(0)));
                }
                let below = format!("{}+ PCI[{}] - ", pad(at), self.rate(24.0));
                // the NUMA node stands in the byte of the host
                let nic = base + (5 << 12);
                let nic = match (self.constants, self.one_host) {
                    (true, _) | (_, false) if cpu == 0 => self.id(nic),
                    (true, _) => self.id(nic),
                    (_, true) => format!("{:X}", nic + (cpu << 56)),
                    _ => format!("{cpu}-{nic:x}"),
                };
                lines.push(format!("{below}NIC/{nic}"));
                let (number, guid) = (cpu * 2 + switch, format!("98039b0300{cpu}{switch}ab2c"));
                let port = match (self.constants, self.newest) {
                    (true, _) => format!("NET/{number} (0)"),
                    (_, true) => format!("NET/{} (0/{guid}/1/25.000000)", self.id(number)),
                    _ => format!("NET/{} ({guid}/1/25.000000)", self.id(number)),
                };
                lines.push(format!("{}+ NET[{}] - {port}", pad(below.len()), self.rate(25.0)));
            }
            lines.push(format!("+ SYS[{}] - CPU/{}", self.rate(10.0), self.id(1 - cpu)));
        }
        lines.push("==========================================".to_owned());
        lines.push("GPU/12000 :GPU/12000 (0/5000.000000/LOC) CPU/0 (2/24.000000/PHB) NET/0 (3/24.0/PIX) ".to_owned());
        lines.join("\n") + "\n"
    }
}

fn logged(printed: &str, process: &str) -> String {
    printed.lines().map(|line| format!("{process} [0] NCCL INFO {line}\n")).collect()
}

fn tree(found: &Found) -> &PciTree {
    let trees: Vec<&PciTree> =
        found.evidence.iter().filter_map(|e| if let Fact::Pci(tree) = &e.fact { Some(tree) } else { None }).collect();
    let [tree] = trees[..] else { panic!("{} trees", trees.len()) };
    tree
}

fn nvlinks(found: &Found) -> &[NvlinkPort] {
    let mut all = found.evidence.iter();
    all.find_map(|e| if let Fact::Nvlink(ports) = &e.fact { Some(ports.as_slice()) } else { None }).unwrap_or_default()
}

/// Each device with its parent's address, in order.
fn shape(tree: &PciTree) -> Vec<String> {
    let name = |d: &PciDevice| d.address.map_or_else(|| format!("CPU{:?}", d.numa.unwrap()), |a| a.to_string());
    let of = |d: &PciDevice| format!("{} < {}", name(d), d.parent.map_or("-".to_owned(), |p| name(&tree.devices[p])));
    tree.devices.iter().map(of).collect()
}

#[test]
fn every_release_shows_the_same_machine() {
    for (version, release) in releases() {
        let found = scanned(scan, &logged(&release.print(), "n1:10:20"));
        assert_eq!(found.warnings, [], "{version}");
        let tree = tree(&found);
        assert!(tree.has_tree && tree.bridges_are_switches);
        let shape = shape(tree);
        assert_eq!(shape.len(), 2 + 4 + 8 + 4, "{version}: {shape:?}");
        assert_eq!(
            shape[..6],
            [
                "CPU0 < -",
                "0000:10:00.0 < CPU0",
                "0000:12:00.0 < 0000:10:00.0",
                "0000:13:00.0 < 0000:10:00.0",
                "0000:15:00.0 < 0000:10:00.0",
                "0000:50:00.0 < CPU0",
            ],
            "{version}"
        );
        assert_eq!(shape[17], "0000:d5:00.0 < 0000:d0:00.0", "{version}");
        let gpus = tree.gpus();
        assert_eq!((gpus.len(), gpus[7].numa), (8, Some(1)), "{version}");
        let raw = |d: &PciDevice| d.link_rate.map(|r| (r.gb() * 10.0).round() / 10.0);
        let rate = if release.constants { None } else { Some(31.5) };
        assert_eq!((raw(gpus[0]), raw(&tree.devices[1])), (rate, rate), "{version}");
        let ids = tree.devices[1].vendor.zip(tree.devices[1].device);
        assert_eq!(ids, release.switch_ids.then_some((0x1000, 0xc010)), "{version}");
        let port = &tree.devices[17].os_devices[0];
        assert_eq!((port.name.as_str(), port.gigabits), ("NET3", rate.map(|_| 200.0)), "{version}");
        let links = nvlinks(&found);
        assert_eq!(links.len(), 8, "{version}");
        assert!(links.iter().all(|l| l.count == 6 && l.remote == Some(NvlinkEnd::Hidden)), "{version}");
        assert!(links.iter().all(|l| l.remote_class == Some(0x068000)), "{version}");
    }
}

#[test]
fn one_lost_character_drops_nothing() {
    let printed = logged(&OLD.print(), "n1:10:20");
    let whole = shape(tree(&scanned(scan, &printed)));
    let starts: Vec<usize> = printed.match_indices("NCCL INFO ").map(|(at, _)| at + "NCCL INFO ".len()).collect();
    for (n, start) in starts.iter().enumerate().skip(2) {
        // a blank, or what begins a line
        let mut cut = printed.clone();
        cut.remove(*start);
        let line = cut[*start..].lines().next().unwrap_or_default();
        if line.starts_with("PU/") || line.starts_with("===") || line.starts_with("GPU/") {
            continue;
        }
        assert_eq!(shape(tree(&scanned(scan, &cut))), whole, "line {n}: {line}");
    }
}

#[test]
fn names_of_ports_are_those_of_the_log() {
    let using = "NET/IB : Using [0]mlx5_0:1/IB [1]mlx5_1:1/IB [2]mlx5_2:1/RoCE [3]mlx5_5:1/IB ; OOB eth0:10.0.0.1<0>\n";
    let found = scanned(scan, &logged(&(using.to_owned() + &OLD.print()), "n1:10:20"));
    let port = &tree(&found).devices[17].os_devices[0];
    assert_eq!((port.name.as_str(), port.rdma, port.gigabits), ("mlx5_5", true, Some(200.0)));
}

#[test]
fn processes_and_communicators_of_a_host_are_one_machine() {
    // each of eight processes prints all, line by line in turn
    let one = OLD.print();
    let mixed: String =
        one.lines().flat_map(|line| (0..8).map(move |tid| format!("n1:10:{tid} [{tid}] NCCL INFO {line}\n"))).collect();
    assert_eq!(shape(tree(&scanned(scan, &mixed))).len(), 18);
    // communicators of some of the GPUs print those alone
    let of = |cpu: &str| {
        let from = one.find(&format!("CPU/{cpu} (")).unwrap();
        let end = one[from + 1..].find("+ SYS").unwrap();
        logged(&format!("=== System : maxWidth 21.0 ===\n{}", &one[from..from + 1 + end]), &format!("n1:1{cpu}:2"))
    };
    assert_eq!(shape(tree(&scanned(scan, &(of("1") + &of("0"))))).len(), 18);
    // a log without the processes
    assert_eq!(shape(tree(&scanned(scan, &one))).len(), 18);
}

#[test]
fn hosts_are_kept_apart() {
    let found = scanned(scan, &(logged(&OLD.print(), "n1:10:20") + &logged(&releases()[2].1.print(), "n2:10:20")));
    let of = |host: &str| {
        let source = format!("t [{host}]");
        let own: Vec<_> = found.evidence.iter().filter(|e| *e.origin.source == *source).map(|e| &e.fact).collect();
        assert!(matches!(own.first(), Some(Fact::Host(facts)) if facts.name.as_deref() == Some(host)), "{own:?}");
        own.iter().filter(|f| matches!(f, Fact::Pci(tree) if tree.gpus().len() == 8)).count()
    };
    assert_eq!((of("n1"), of("n2")), (1, 1));
}

#[test]
fn without_indentation_devices_are_kept_and_their_place_is_not_guessed() {
    let flat: String = logged(&OLD.print(), "n1:10:20").replace("  ", "");
    let found = scanned(scan, &flat);
    let tree = tree(&found);
    assert!(!tree.has_tree && tree.devices.iter().all(|d| d.parent.is_none()));
    assert_eq!(tree.gpus().len(), 8);
    assert_eq!(tree.gpus()[7].numa, Some(1));
    assert!(found.warnings[0].message.contains("indentation"), "{:?}", found.warnings);
}

#[test]
fn links_are_counted_only_where_one_count_fits() {
    assert_eq!(unit(&[21.0, 42.0], &NVLINKS), Some(21.0), "V100 in 2.5 to 2.8");
    assert_eq!(unit(&[22.0, 44.0], &NVLINKS), Some(22.0), "V100 in 2.9 to 2.16");
    assert_eq!(unit(&[36.0, 18.0], &NVLINKS), Some(18.0), "P100");
    assert_eq!(unit(&[36.0], &NVLINKS), None, "two of 18 or three of 12");
    assert_eq!(unit(&[240.0], &NVLINKS), Some(20.0), "A100");
    assert_eq!(unit(&[48.0], &NVLINKS), Some(12.0), "A6000");
    assert_eq!(unit(&[360.0], &NVLINKS), Some(20.0), "H100 in 2.17 and 2.18");
    assert_eq!(unit(&[370.8], &NVLINKS), Some(20.6), "H100");
    assert_eq!(unit(&[721.8], &NVLINKS), Some(40.1), "B200");
    assert_eq!(unit(&[720.0], &NVLINKS), Some(40.0), "B200 in 2.25");
    assert_eq!(unit(&[370.8, 350.2], &NVLINKS), Some(20.6), "one GPU with 17");
    assert_eq!(unit(&[], &NVLINKS), None);
    assert_eq!(unit(&[48.0, 48.0], &XGMI_LINKS), Some(48.0), "MI300X");
    assert_eq!(unit(&[36.0, 72.0, 144.0], &XGMI_LINKS), Some(36.0), "MI250X");
}

#[test]
fn rccl_prints_xgmi() {
    let text = "=== System : maxBw 48.0 totalBw 336.0 ===\n\
        CPU/0-0 (1/2/-1)\n\
        + PCI[48.0] - PCI/0-d000 (1022153a1022153a)\n\
        \x20             + PCI[48.0] - GPU/0-f000 (0)\n\
        \x20                           + XGMI[48.0] - GPU/0-11000\n\
        + PCI[48.0] - PCI/0-10000 (1022153a1022153a)\n\
        \x20             + PCI[48.0] - GPU/0-11000 (1)\n\
        \x20                           + XGMI[48.0] - GPU/0-f000\n";
    let found = scanned(scan, text);
    assert_eq!(tree(&found).gpus()[0].vendor, Some(0x1002));
    let [one, _] = nvlinks(&found) else { panic!("{found:?}") };
    assert!(one.xgmi && one.count == 1 && matches!(one.remote, Some(NvlinkEnd::Device(at)) if at.bus == 0x11));
}

#[test]
fn hostile_lines_cost_little_and_break_nothing() {
    let deep: String = (0..20_000).map(|n| format!("{}+ PCI[1.0] - PCI/{n:x}000\n", " ".repeat(n % 60 * 14))).collect();
    for text in [
        format!("=== System :\nCPU/0\n{deep}"),
        "=== System :\n+ NVL[".repeat(9000),
        "=== System :\nCPU/\nCPU/- (\n+ PCI[] - GPU/\n+ PCI[1e999] - GPU/1-\n+ PCI[x - y] - NIC/-1".to_owned(),
        "=== System :\nCPU/0\n+ PCI[1.0] - GPU/ffffffffffffffffff (0)\n+ NET[é] - NET/é (é/é/é)\n".repeat(99),
    ] {
        let lines = text.lines().count() as u64;
        let mut found = Found::default();
        let text = Text::new("t", text.as_bytes());
        text.begin();
        scan(&text, &mut found);
        assert!(text.steps() < 40 * lines + 1000 + 8 * (text.joined().len() as u64 / 64), "{}", text.steps());
    }
}
