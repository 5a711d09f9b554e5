//! Limits on the number of statements, so that later steps take bounded time whatever a text holds.

use super::Fact;

/// The most statements that are kept of one text, or of all sources together. A long issue thread has
/// a hundred, a folder for a cluster of a thousand machines some thousands.
pub const MAX_STATEMENTS: usize = 8192;

/// The most warnings that are kept; nobody reads more.
pub(super) const MAX_WARNINGS: usize = 1024;

/// The most GPUs or NUMA nodes of one statement: more than any machine has.
pub(super) const MAX_DEVICES: usize = 512;

/// The most PCI functions of one listing; the largest machines, with virtual functions, have some thousands.
pub(super) const MAX_FUNCTIONS: usize = 16_384;

/// The most operating-system devices on one PCI function.
const MAX_OS_DEVICES: usize = 64;

/// The most NVLink ports of one statement: 18 on each of 512 GPUs.
pub(super) const MAX_PORTS: usize = 18 * MAX_DEVICES;

/// The most pairs of devices of all machines of one source together: those of sixteen machines of 512 devices. All that is
/// computed of a machine grows with its pairs.
pub(crate) const MAX_PAIRS: usize = 16 * MAX_DEVICES * MAX_DEVICES;

/// The most rows of a table in a document.
pub(super) const MAX_ROWS: usize = 4096;

// A reader whose lines are so short that a list of millions would take much memory stops one past its
// limit, so that the cut is still noticed here.

/// Cuts what lists more than any machine has; the message names what was cut.
pub(super) fn cut(fact: &mut Fact) -> Option<String> {
    match fact {
        Fact::Gpus(gpus) => cut_to(gpus, MAX_DEVICES, "GPUs"),
        Fact::Nvlink(ports) => cut_to(ports, MAX_PORTS, "NVLink ports"),
        Fact::Host(host) => cut_to(&mut host.numa, MAX_DEVICES, "NUMA nodes"),
        Fact::Pci(tree) => {
            let message = cut_to(&mut tree.devices, MAX_FUNCTIONS, "PCI functions");
            for function in &mut tree.devices {
                function.os_devices.truncate(MAX_OS_DEVICES);
            }
            message
        }
        Fact::Rates(table) => cut_to(&mut table.rows, MAX_ROWS, "rows of a table"),
        _ => None,
    }
}

fn cut_to<T>(list: &mut Vec<T>, most: usize, what: &str) -> Option<String> {
    let all = list.len();
    list.truncate(most);
    (all > most).then(|| format!("more than {most} {what}: only the first {most} are used"))
}

#[cfg(test)]
mod tests {
    use super::super::{GpuFacts, OsDevice, PciDevice, PciRole, PciTree};
    use super::*;

    #[test]
    fn what_no_machine_has_is_cut_with_a_word() {
        let mut gpus = Fact::Gpus(vec![GpuFacts::default(); MAX_DEVICES]);
        assert_eq!(cut(&mut gpus), None);
        let mut gpus = Fact::Gpus(vec![GpuFacts::default(); MAX_DEVICES + 1]);
        assert!(cut(&mut gpus).unwrap().contains("more than 512 GPUs"));
        assert_eq!(gpus, Fact::Gpus(vec![GpuFacts::default(); MAX_DEVICES]));

        let os = OsDevice { name: "eth0".to_owned(), ..OsDevice::default() };
        let mut function = PciDevice::new(PciRole::Endpoint);
        function.os_devices = vec![os; 1000];
        let mut pci = Fact::Pci(PciTree { devices: vec![function; MAX_FUNCTIONS + 9], ..PciTree::default() });
        assert!(cut(&mut pci).unwrap().contains("PCI functions"));
        let Fact::Pci(tree) = pci else { panic!() };
        assert_eq!((tree.devices.len(), tree.devices[0].os_devices.len()), (MAX_FUNCTIONS, MAX_OS_DEVICES));
    }
}
