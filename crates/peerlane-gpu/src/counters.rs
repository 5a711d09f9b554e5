//! Counters that the kernel shows as files: PCIe errors of GPUs and of the bridges above them, and ports of RDMA adapters.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::canonicalize;
use std::path::{Path, PathBuf};

use peerlane_machine::counter::ErrorCounter;
use peerlane_machine::fabric::PciAddress;
use peerlane_measure::run::{Place, Reading};
use peerlane_measure::traffic::Port;
use peerlane_read::input_file::{attribute, names};

/// The counters of AER in a device's folder (Documentation/ABI/testing/sysfs-bus-pci-devices-aer): lines of a name and a
/// number, the last of them the sum.
const AER: [(&str, ErrorCounter); 3] = [
    ("aer_dev_correctable", ErrorCounter::AerCorrectable),
    ("aer_dev_nonfatal", ErrorCounter::AerNonfatal),
    ("aer_dev_fatal", ErrorCounter::AerFatal),
];

/// The counters of a port (Documentation/ABI/stable/sysfs-class-infiniband), and of hardware: EFA, mlx5, and soft-RoCE (rxe).
const PORT: [(&str, ErrorCounter); 12] = [
    ("counters/symbol_error", ErrorCounter::PortSymbol),
    ("counters/link_error_recovery", ErrorCounter::PortRecovery),
    ("counters/link_downed", ErrorCounter::PortDowned),
    ("counters/port_rcv_errors", ErrorCounter::PortReceive),
    ("counters/local_link_integrity_errors", ErrorCounter::PortIntegrity),
    ("hw_counters/retrans_pkts", ErrorCounter::PortRetransmission),
    ("counters/port_xmit_discards", ErrorCounter::PortDiscard),
    ("hw_counters/out_of_sequence", ErrorCounter::PortOutOfSequence),
    ("hw_counters/out_of_seq_request", ErrorCounter::PortOutOfSequence),
    ("hw_counters/packet_seq_err", ErrorCounter::PortSequenceNak),
    ("hw_counters/rcvd_seq_err", ErrorCounter::PortSequenceNak),
    ("hw_counters/local_ack_timeout_err", ErrorCounter::PortAckTimeout),
];

/// The most ports that are read, each of which takes some twelve files.
const MOST_PORTS: usize = 64;

/// Bridges above a GPU that are read; a path has two for each switch.
const MOST_BRIDGES: usize = 8;

/// The files of this machine that count errors, found once.
#[derive(Debug, Default)]
pub(crate) struct FileCounters(Vec<(ErrorCounter, Place, PathBuf)>);

impl FileCounters {
    /// Those of GPUs at these addresses, and of all ports, below `/sys`.
    pub(crate) fn of<'a>(sys: &Path, gpus: impl IntoIterator<Item = (&'a str, PciAddress)>) -> Self {
        let mut files = FileCounters::default();
        let mut bridges = BTreeSet::new();
        for (name, address) in gpus {
            let Ok(folder) = canonicalize(sys.join("bus/pci/devices").join(address.to_string())) else { continue };
            files.add(&folder, &AER, name);
            // …/pci0000:00/0000:00:01.0/0000:01:00.0: each folder above is the bridge above
            let above = folder.ancestors().skip(1).take(MOST_BRIDGES).map(Path::to_path_buf);
            let is_device = |folder: &PathBuf| folder.file_name().is_some_and(|n| n.to_str().is_some_and(is_address));
            bridges.extend(above.take_while(is_device));
        }
        for folder in bridges {
            let name = folder.file_name().and_then(|name| name.to_str()).unwrap_or_default().to_owned();
            files.add(&folder, &AER, &name);
        }
        files.add_ports(sys);
        files
    }

    /// Adds those of all ports of RDMA adapters.
    fn add_ports(&mut self, sys: &Path) {
        let ports = listed(sys.join("class/infiniband")).into_iter().flat_map(|device| listed(device.join("ports")));
        for port in ports.take(MOST_PORTS) {
            let part = |path: Option<&Path>| Some(path?.file_name()?.to_str()?.to_owned());
            let device = part(port.parent().and_then(Path::parent));
            if let Some((device, number)) = device.zip(part(Some(&port))) {
                self.add(&port, &PORT, &format!("{device}/{number}"));
            }
        }
    }

    /// Adds the files of a folder that are there and hold a count.
    fn add(&mut self, folder: &Path, names: &[(&str, ErrorCounter)], of: &str) {
        for (name, counter) in names {
            let path = folder.join(name);
            if count(&path).is_some() {
                self.0.push((*counter, (of.to_owned(), None), path));
            }
        }
    }

    /// Adds what they stand at.
    pub(crate) fn read(&self, reading: &mut Reading) {
        for (counter, place, path) in &self.0 {
            reading.errors.extend(count(path).map(|count| ((*counter, place.clone()), count)));
        }
    }
}

/// The counters of a port's bytes, sent and received, and the bytes that one count stands for: words of four for InfiniBand and
/// Converged Ethernet (Documentation/ABI/stable/sysfs-class-infiniband), bytes for EFA.
const BYTES: [([&str; 2], u64); 2] =
    [(["counters/port_xmit_data", "counters/port_rcv_data"], 4), (["hw_counters/tx_bytes", "hw_counters/rx_bytes"], 1)];

/// The counters of a network interface (Documentation/ABI/testing/sysfs-class-net-statistics).
const INTERFACE: [&str; 2] = ["statistics/tx_bytes", "statistics/rx_bytes"];

/// A port whose bytes are counted.
#[derive(Debug)]
struct CountedPort {
    name: String,
    address: Option<PciAddress>,
    files: [PathBuf; 2],
    unit: u64,
}

/// The files that count the bytes of ports: of RDMA adapters, and of network interfaces of cards that are none. Found once.
#[derive(Debug, Default)]
pub struct FileTraffic(Vec<CountedPort>);

impl FileTraffic {
    /// Those below `/sys`.
    #[must_use]
    pub fn of(sys: &Path) -> Self {
        let mut all = Vec::new();
        let address = |device: &Path| {
            let folder = canonicalize(device.join("device")).ok()?;
            // a virtual function of a cloud's network is a device below the PCI function
            folder.ancestors().find_map(|above| above.file_name()?.to_str()?.parse().ok())
        };
        let name = |path: &Path| path.file_name().and_then(|name| name.to_str()).unwrap_or_default().to_owned();
        for device in listed(sys.join("class/infiniband")) {
            for port in listed(device.join("ports")) {
                let counted =
                    BYTES.iter().find(|(files, _)| files.iter().all(|file| count(&port.join(file)).is_some()));
                if let Some((files, unit)) = counted {
                    let (files, name) =
                        (files.map(|file| port.join(file)), format!("{}/{}", name(&device), name(&port)));
                    all.push(CountedPort { name, address: address(&device), files, unit: *unit });
                }
            }
        }
        let known: BTreeSet<Option<PciAddress>> = all.iter().map(|port| port.address).collect();
        for interface in listed(sys.join("class/net")) {
            let address = address(&interface);
            let files = INTERFACE.map(|file| interface.join(file));
            // without a device: loopback, bridges, tunnels
            if address.is_some() && !known.contains(&address) && files.iter().all(|file| count(file).is_some()) {
                all.push(CountedPort { name: name(&interface), address, files, unit: 1 });
            }
        }
        all.truncate(MOST_PORTS);
        FileTraffic(all)
    }

    /// What they stand at.
    pub(crate) fn read(&self) -> BTreeMap<String, Port> {
        let read = |port: &CountedPort| {
            let [sent, received] = [count(&port.files[0])?, count(&port.files[1])?];
            let bytes = [sent, received].map(|count| count.saturating_mul(port.unit));
            Some((port.name.clone(), Port { bytes, address: port.address }))
        };
        self.0.iter().filter_map(read).collect()
    }
}

/// What the ports of RDMA adapters have counted of errors so far, as files below `sys` (`/sys`) show it.
#[must_use]
pub fn port_errors(sys: &Path) -> Reading {
    let mut files = FileCounters::default();
    files.add_ports(sys);
    let mut reading = Reading::default();
    files.read(&mut reading);
    reading
}

/// What is in a folder.
fn listed(folder: PathBuf) -> Vec<PathBuf> {
    names(&folder).iter().map(|name| folder.join(name)).collect()
}

/// Whether a folder's name is a PCI address.
fn is_address(name: &str) -> bool {
    name.parse::<PciAddress>().is_ok()
}

/// The count in a file: a number, or the last of several lines.
fn count(path: &Path) -> Option<u64> {
    let text = attribute(path)?;
    text.lines().last()?.split_whitespace().last()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn bytes_of_ports_are_counted_once_for_each_card() {
        let sys = std::env::temp_dir().join(format!("peerlane-traffic-{}", std::process::id()));
        let write = |path: &str, text: &str| {
            let path = sys.join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        let device = |class: &str, at: &str| {
            let (link, folder) = (sys.join(class).join("device"), sys.join("devices/pci0000:00").join(at));
            fs::create_dir_all(&folder).unwrap();
            fs::create_dir_all(link.parent().unwrap()).unwrap();
            std::os::unix::fs::symlink(folder, link).unwrap();
        };
        write("class/infiniband/mlx5_0/ports/1/counters/port_xmit_data", "10\n");
        write("class/infiniband/mlx5_0/ports/1/counters/port_rcv_data", "20\n");
        write("class/infiniband/efa_0/ports/1/hw_counters/tx_bytes", "7\n");
        write("class/infiniband/efa_0/ports/1/hw_counters/rx_bytes", "8\n");
        for interface in ["ib0", "eth0", "lo"] {
            write(&format!("class/net/{interface}/statistics/tx_bytes"), "1\n");
            write(&format!("class/net/{interface}/statistics/rx_bytes"), "2\n");
        }
        device("class/infiniband/mlx5_0", "0000:01:00.0");
        device("class/net/ib0", "0000:01:00.0");
        device("class/net/eth0", "0000:02:00.0/virtio1");
        let read = FileTraffic::of(&sys).read();
        fs::remove_dir_all(&sys).unwrap();
        let bytes: Vec<_> = read.iter().map(|(name, port)| (name.as_str(), port.bytes)).collect();
        // the interface of the InfiniBand adapter is the same port, and the loopback no card's
        assert_eq!(bytes, [("efa_0/1", [7, 8]), ("eth0", [1, 2]), ("mlx5_0/1", [40, 80])]);
        assert_eq!(read["eth0"].address, "0000:02:00.0".parse().ok());
    }

    #[test]
    fn files_of_gpus_bridges_and_ports_are_found_and_read() {
        let sys = std::env::temp_dir().join(format!("peerlane-counters-{}", std::process::id()));
        let write = |path: &str, text: &str| {
            let path = sys.join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        let root = "devices/pci0000:00/0000:00:01.0";
        let correctable = "RxErr 3\nBadTLP 2\nTOTAL_ERR_COR 5\n";
        write(&format!("{root}/aer_dev_correctable"), correctable);
        write(&format!("{root}/0000:01:00.0/aer_dev_fatal"), "TOTAL_ERR_FATAL 0\n");
        write("class/infiniband/mlx5_0/ports/1/counters/link_downed", "7\n");
        write("class/infiniband/mlx5_0/ports/1/counters/symbol_error", "N/A\n");
        write("class/infiniband/rxe0/ports/1/hw_counters/out_of_seq_request", "4\n");
        fs::create_dir_all(sys.join("bus/pci/devices")).unwrap();
        let link = sys.join("bus/pci/devices/0000:01:00.0");
        std::os::unix::fs::symlink(sys.join(format!("{root}/0000:01:00.0")), link).unwrap();
        let files = FileCounters::of(&sys, [("GPU0", "0000:01:00.0".parse().unwrap())]);
        let mut reading = Reading::default();
        files.read(&mut reading);
        let ports = port_errors(&sys);
        write("class/infiniband/rxe0/ports/1/hw_counters/out_of_seq_request", "9\n");
        let rises = port_errors(&sys).since(&ports, Vec::new(), false).errors;
        fs::remove_dir_all(&sys).unwrap();
        let risen: Vec<_> = rises.iter().map(|rise| (rise.counter, rise.of.as_str(), rise.by)).collect();
        assert_eq!(risen, [(ErrorCounter::PortOutOfSequence, "rxe0/1", 5)]);
        assert_eq!(ports.errors.len(), 2, "ports alone");
        let place = |of: &str| (of.to_owned(), None);
        let wanted = [
            ((ErrorCounter::AerCorrectable, place("0000:00:01.0")), 5),
            ((ErrorCounter::AerFatal, place("GPU0")), 0),
            ((ErrorCounter::PortDowned, place("mlx5_0/1")), 7),
            ((ErrorCounter::PortOutOfSequence, place("rxe0/1")), 4),
        ];
        assert_eq!(reading.errors, wanted.into());
    }
}
