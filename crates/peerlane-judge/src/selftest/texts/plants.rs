//! What is planted in the outputs of a machine's tools, and which findings name it.

use std::collections::BTreeSet;

use super::Tool;
use super::site::{Gpu, Site, What, corrected, short};
use crate::finding::Finding;
use peerlane_machine::random::Random;

/// Kinds of faults that tools show.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Xid,
    SwitchXid,
    FatalPcieError,
    PcieErrors,
    PortDown,
    PortSlow,
    Lanes,
    Nvlinks,
    Fabric,
    RowsPending,
    RowsFailed,
    Slowdown,
    PeerOff,
    Multicast,
    NoDirectRdma,
    AllReduce,
    Acs,
    WrongData,
}

/// All kinds.
pub(super) const KINDS: [Kind; 18] = [
    Kind::Xid,
    Kind::SwitchXid,
    Kind::FatalPcieError,
    Kind::PcieErrors,
    Kind::PortDown,
    Kind::PortSlow,
    Kind::Lanes,
    Kind::Nvlinks,
    Kind::Fabric,
    Kind::RowsPending,
    Kind::RowsFailed,
    Kind::Slowdown,
    Kind::PeerOff,
    Kind::Multicast,
    Kind::NoDirectRdma,
    Kind::AllReduce,
    Kind::Acs,
    Kind::WrongData,
];

/// Hardware Xids with what the driver prints after the process. 63 alone only announces what `nvidia-smi -q` shows as pending
/// rows, and comes with the error that caused it.
const XIDS: [(u32, &str); 11] = [
    (48, "DBE (double bit error) ECC Error; [63] Row Remapper: New row marked for remapping, reset gpu to activate."),
    (62, "0a82(2d44) 00000000 00000000"),
    (64, "Row Remapper: recording failure"),
    (79, "GPU has fallen off the bus."),
    (94, "Contained: SM (0x1). RST: No, D-RST: No"),
    (95, "Uncontained: LTC TAG (0x2,0x0). RST: Yes, D-RST: No"),
    (
        119,
        "Timeout after 6s of waiting for RPC response from GPU0 GSP! Expected function 76 (GSP_RM_CONTROL) (0x2080014b 0x4).",
    ),
    (120, "GSP task exception: 5 (load access fault) @ pc:0x1a2b3c, partition:4#0, task:3"),
    (140, "An uncorrectable ECC error detected (possible firmware handling failure)"),
    (143, "GPU Initialization Failure"),
    (154, "GPU recovery action changed from 0x0 (None) to 0x1 (GPU Reset Required)"),
];

/// Those of NVLink.
const NVLINK_XIDS: [(u32, &str); 4] = [
    (74, "NVLink: fatal error detected on link 4(0x0, 0x0, 0x10000, 0x0, 0x0, 0x0, 0x0)"),
    (144, "NVLINK: SAW_MVB Fatal   XC0 i0 Link -1 (0x00000002 0x00000000)"),
    (145, "RLW_REMAP Fatal   XC1 i0 Link 05 (0x0409a0c2 0x8)"),
    (149, "NETIR_LINK_EVT  Fatal   XC0 i0 Link 08 (0x021425c6 0x0)"),
];

/// A fault in its place.
pub(super) struct Plant {
    /// Description.
    pub(super) words: String,
    /// What findings may name; nothing where the output names no device.
    place: BTreeSet<String>,
    /// The tools whose outputs show it together.
    pub(super) shown_by: &'static [Tool],
}

impl Plant {
    fn new(shown_by: &'static [Tool], words: String, place: impl IntoIterator<Item = String>) -> Self {
        Plant { words, place: place.into_iter().collect(), shown_by }
    }

    /// Whether all that a finding names is of this place.
    pub(super) fn explains(&self, finding: &Finding) -> bool {
        let mut named = finding.subjects.iter().flat_map(|subject| subject.nodes());
        named.all(|name| self.place.contains(name)) && finding.subjects.is_empty() == self.place.is_empty()
    }
}

impl Kind {
    /// As the table calls it.
    pub(super) fn name(self) -> &'static str {
        match self {
            Kind::Xid => "xid",
            Kind::SwitchXid => "sxid-fatal",
            Kind::FatalPcieError => "aer-fatal",
            Kind::PcieErrors => "aer-flood",
            Kind::PortDown => "port-down",
            Kind::PortSlow => "port-half-rate",
            Kind::Lanes => "lanes",
            Kind::Nvlinks => "nvlinks-inactive",
            Kind::Fabric => "fabric-not-ready",
            Kind::RowsPending => "row-remap-pending",
            Kind::RowsFailed => "row-remap-failed",
            Kind::Slowdown => "hw-slowdown",
            Kind::PeerOff => "nccl-p2p-disable",
            Kind::Multicast => "nvls-out-of-memory",
            Kind::NoDirectRdma => "gdr-disabled",
            Kind::AllReduce => "all-reduce-slow",
            Kind::Acs => "acs-redirect",
            Kind::WrongData => "wrong-data",
        }
    }

    /// The rule that names it although a setting that someone chose is no fault to it.
    pub(super) fn rule(self) -> Option<&'static str> {
        match self {
            Kind::PeerOff => Some("nccl-through-host"),
            Kind::NoDirectRdma => Some("nccl-staged-network"),
            _ => None,
        }
    }

    /// Changes a sound machine to one with this fault; the turn chooses among its forms. `None` where the machine cannot
    /// have it.
    pub(super) fn plant(self, site: &mut Site, turn: usize, random: &mut Random) -> Option<Plant> {
        let at = random.below(site.gpus.len());
        let name = format!("GPU{at}");
        match self {
            Kind::Xid => xid(site, at, turn),
            Kind::SwitchXid => {
                site.gpus.first()?.fabric?;
                let link = random.below(64);
                site.log.push(format!(
                    "nvidia-nvswitch2: SXid (PCI:0000:f1:00.0): 20034, Data {{0x00000002, 0x{link:08x}}}"
                ));
                site.log.push(format!(
                    "nvidia-nvswitch2: SXid (PCI:0000:f1:00.0): 20034, Fatal, Link {link:02} LTSSM Fault Up (First)"
                ));
                let words = "a fatal SXid of an NVSwitch".to_owned();
                Some(Plant::new(&[Tool::Dmesg], words, ["0000:f1:00.0".to_owned()]))
            }
            Kind::FatalPcieError => {
                let address = site.gpus.get(at)?.address;
                site.log.push(format!(
                    "nvidia {address}: PCIe Bus Error: severity=Uncorrected (Fatal), type=Transaction Layer, (Receiver ID)"
                ));
                Some(Plant::new(&[Tool::Dmesg], format!("a fatal PCIe error of {name}"), [name, address.to_string()]))
            }
            Kind::PcieErrors => {
                let address = site.gpus.get(at)?.address;
                let count = 40 + random.below(400);
                // a flood drowns what chance adds elsewhere
                site.log.retain(|line| !line.contains("PCIe Bus Error"));
                site.log.extend((0..count).map(|_| corrected(address)));
                let words = format!("{count} corrected PCIe errors of {name}");
                Some(Plant::new(&[Tool::Dmesg], words, [name, address.to_string()]))
            }
            Kind::PortDown | Kind::PortSlow => port(self, site, random),
            Kind::Lanes => lanes(site, at, turn),
            Kind::Nvlinks => {
                let gpu = site.gpus.get_mut(at).filter(|gpu| gpu.links > 1)?;
                gpu.up = gpu.links - if turn.is_multiple_of(2) || gpu.links < 4 { 1 } else { 2 };
                let words = format!("{} of {} NVLinks of {name} up", gpu.up, gpu.links);
                Some(Plant::new(&[Tool::Nvlink], words, [name]))
            }
            Kind::Fabric => {
                let gpu = site.gpus.get_mut(at)?;
                let state = [["Completed", "Insufficient Resources"], ["In Progress", "N/A"]][turn % 2];
                *gpu.fabric.as_mut()? = state;
                let words = format!("fabric state of {name} {}, status {}", state[0], state[1]);
                Some(Plant::new(&[Tool::Query], words, [name]))
            }
            Kind::RowsPending | Kind::RowsFailed => {
                let failed = self == Kind::RowsFailed;
                let gpu = site.gpus.get_mut(at)?;
                *gpu.rows.as_mut()? = (!failed, failed);
                if !failed {
                    let bus = short(gpu.address);
                    site.log.push(format!("NVRM: Xid (PCI:{bus}): 63, pid=71, name=python3, Row Remapper: New row marked for remapping, reset gpu to activate."));
                }
                let state = if failed { "failed" } else { "pending" };
                Some(Plant::new(&[Tool::Query], format!("row remapping of {name} {state}"), [name]))
            }
            Kind::Slowdown => {
                let gpu = site.gpus.get_mut(at)?;
                gpu.slowed_by = Some(["HW Thermal Slowdown", "HW Power Brake Slowdown"][turn % 2]);
                let words = format!("{name}: {}", gpu.slowed_by?);
                Some(Plant::new(&[Tool::Query], words, [name]))
            }
            Kind::PeerOff => {
                // else NCCL goes through host memory in any case
                let ring: Vec<usize> = (0..site.gpus.len()).collect();
                let near = ring.iter().any(|a| site.is_near(*a, (a + 1) % ring.len()));
                site.variables.push(("NCCL_P2P_DISABLE", "1"));
                let all: Vec<String> = site.gpu_names().collect();
                near.then(|| Plant::new(&[Tool::NcclLog], "NCCL_P2P_DISABLE=1".to_owned(), all))
            }
            Kind::Multicast => {
                site.gpus.first()?.fabric?;
                site.warnings.push(
                    "transport/nvls.cc:286 NCCL WARN Failed to bind NVLink SHARP (NVLS) Multicast memory of size 2097152 : CUDA error \
                     2 'out of memory'.\nThis is usually caused by a system or configuration error in the Fabric Manager or NVSwitches."
                        .to_owned(),
                );
                Some(Plant::new(&[Tool::NcclLog], "no multicast slot for NVLink SHARP".to_owned(), []))
            }
            Kind::NoDirectRdma => {
                site.direct_rdma = false;
                let nics: Vec<String> = site.nics.iter().filter(|nic| nic.up).map(|nic| nic.name.clone()).collect();
                (!nics.is_empty()).then(|| Plant::new(&[Tool::NcclLog], "GPUDirect RDMA disabled".to_owned(), nics))
            }
            Kind::AllReduce => {
                let (rate, bound) = site.all_reduce.as_mut()?;
                let share = 0.05 + 0.35 * random.uniform();
                *rate = *bound * share;
                let words = format!("an all-reduce at {:.0} % of its rate", 100.0 * share);
                let all: Vec<String> = site.gpu_names().collect();
                // what it should give follows from the links and the CPU
                Some(Plant::new(&[Tool::NcclTests, Tool::Query, Tool::Lspci, Tool::Lscpu], words, all))
            }
            Kind::Acs => acs(site, random),
            Kind::WrongData => {
                site.all_reduce?;
                site.wrong = 1 + 3 * turn as u64;
                let words = format!("{} wrong values in an all-reduce", site.wrong);
                Some(Plant::new(&[Tool::NcclTests], words, []))
            }
        }
    }
}

fn xid(site: &mut Site, at: usize, turn: usize) -> Option<Plant> {
    let Gpu { address, links, fabric, .. } = site.gpus.get(at)?;
    let address = *address;
    // the codes above 74 are of NVLink 5 and of drivers for it
    let of_nvlink = if fabric.is_some() { NVLINK_XIDS.len() } else { usize::from(*links > 0) };
    let all: Vec<&(u32, &str)> = XIDS.iter().chain(NVLINK_XIDS.iter().take(of_nvlink)).collect();
    let (code, words) = all.get(turn % all.len())?;
    let bus = short(address);
    match words.split_once("; [63] ") {
        Some((first, second)) => {
            site.log.push(format!("NVRM: Xid (PCI:{bus}): {code}, pid=4711, name=python3, {first}"));
            site.log.push(format!("NVRM: Xid (PCI:{bus}): 63, pid=4711, name=python3, {second}"));
        }
        None if *code == 154 || (144..150).contains(code) => {
            site.log.push(format!("NVRM: Xid (PCI:{bus}): {code}, {words}"))
        }
        None => site.log.push(format!("NVRM: Xid (PCI:{bus}): {code}, pid='<unknown>', name=<unknown>, {words}")),
    }
    Some(Plant::new(&[Tool::Dmesg], format!("Xid {code} of GPU{at}"), [format!("GPU{at}"), address.to_string()]))
}

/// A port that is down or runs at half its rate among others that are up.
fn port(kind: Kind, site: &mut Site, random: &mut Random) -> Option<Plant> {
    let used: Vec<usize> = (0..site.nics.len()).filter(|n| site.nics.get(*n).is_some_and(|nic| nic.up)).collect();
    let of = *used.get(random.below(used.len())).filter(|_| used.len() > 2)?;
    let nic = site.nics.get_mut(of)?;
    let words = if kind == Kind::PortDown {
        nic.up = false;
        format!("{} down", nic.name)
    } else {
        nic.rate /= 2;
        format!("{} at {} Gb/s", nic.name, nic.rate)
    };
    Some(Plant::new(&[Tool::Ibstat], words, [nic.name.clone()]))
}

/// A GPU's link with half or a quarter of its lanes, and so the port above it.
fn lanes(site: &mut Site, at: usize, turn: usize) -> Option<Plant> {
    let function = site.gpus.get(at)?.function;
    // under load: idle links of some GPUs have fewer lanes
    site.idle = false;
    let mut left = 0;
    for of in [function, function.checked_sub(1)?] {
        let running = &mut site.functions.get_mut(of)?.running;
        left = running.lanes.filter(|lanes| *lanes >= 8)? / [2, 4][turn % 2];
        running.lanes = Some(left);
    }
    let name = format!("GPU{at}");
    Some(Plant::new(&[Tool::Lspci], format!("{name} at x{left}"), [name]))
}

/// A switch whose ports redirect.
fn acs(site: &mut Site, random: &mut Random) -> Option<Plant> {
    let ports = |site: &Site| -> Vec<(usize, [u8; 2])> {
        let of = site.functions.iter().enumerate().filter_map(|(at, f)| match f.what {
            What::Bridge { buses, port } if port.starts_with("Downstream") => Some((at, f.switch, buses)),
            _ => None,
        });
        let mut switches: Vec<_> = of.collect();
        let chosen = switches.get(random.below(switches.len())).and_then(|(_, switch, _)| *switch);
        switches.retain(|(_, switch, _)| *switch == chosen);
        switches.into_iter().map(|(at, _, buses)| (at, buses)).collect()
    };
    let ports = {
        let mut ports = ports;
        ports(site)
    };
    for (at, _) in &ports {
        site.functions.get_mut(*at)?.redirects = true;
    }
    let is_below = |bus: u8| ports.iter().any(|(_, [first, last])| (*first..=*last).contains(&bus));
    let gpus =
        site.gpus.iter().zip(site.gpu_names()).filter(|(gpu, _)| is_below(gpu.address.bus)).map(|(_, name)| name);
    let of_nics = site.functions.iter().filter(|f| matches!(f.what, What::Nic)).zip(&site.nics);
    let below: Vec<(usize, &String)> =
        of_nics.enumerate().filter(|(_, (f, _))| is_below(f.address.bus)).map(|(n, (_, nic))| (n, &nic.name)).collect();
    let mut place: Vec<String> = gpus.chain(below.iter().map(|(_, name)| (*name).clone())).collect();
    let words = format!("ACS redirects above {}", place.join(", "));
    let is_pair = place.len() > 1;
    // adapters have the names of `nvidia-smi topo -m` where nothing names them
    place.extend(below.iter().map(|(n, _)| format!("NIC{n}")));
    is_pair.then(|| Plant::new(&[Tool::Lspci], words, place))
}
