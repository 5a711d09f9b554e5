//! Counters that the kernel shows as files: PCIe errors of GPUs and of the bridges above them, and ports of RDMA adapters.

use std::collections::BTreeSet;
use std::fs::canonicalize;
use std::path::{Path, PathBuf};

use peerlane_machine::counter::ErrorCounter;
use peerlane_machine::fabric::PciAddress;
use peerlane_measure::run::{Place, Reading};
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
        let listed =
            |folder: PathBuf| -> Vec<PathBuf> { names(&folder).iter().map(|name| folder.join(name)).collect() };
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

/// What the ports of RDMA adapters have counted of errors so far, as files below `sys` (`/sys`) show it.
#[must_use]
pub fn port_errors(sys: &Path) -> Reading {
    let mut files = FileCounters::default();
    files.add_ports(sys);
    let mut reading = Reading::default();
    files.read(&mut reading);
    reading
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
