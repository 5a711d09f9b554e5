//! Limits on what is kept of a source, so that later steps take bounded time and memory whatever a text holds.
//!
//! What reading itself may take is limited by [`super::budget`], and what is read at all in [`super::read`].

use std::mem::size_of;

use super::{Fact, Gid, GpuFacts, NumaNode, NvlinkPort, OsDevice, P2pStatus, PciDevice, RdmaPort};
use peerlane_machine::fabric::PathClass;

/// The most statements that are kept of one text, or of all sources together. A long issue thread has
/// a hundred, a folder for a cluster of a thousand machines some thousands.
pub const MAX_STATEMENTS: usize = 8192;

/// The most memory, roughly, of the statements of one text, or of all sources together: a cluster of a thousand machines
/// takes a tenth.
pub(super) const MAX_FOUND_BYTES: usize = 128 << 20;

/// The longest JSON document that is read: values take ten times their text. Those of the largest machines have some MB.
pub(super) const MAX_JSON_BYTES: usize = 24 << 20;

/// The most memory, roughly, of the elements of all XML documents of one text.
pub(super) const MAX_XML_BYTES: usize = 128 << 20;

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
        Fact::Health(report) => cut_to(&mut report.troubles, MAX_DEVICES, "reports of trouble"),
        _ => None,
    }
}

/// The memory that a statement takes, roughly: what may be long of it.
pub(super) fn bytes(fact: &Fact) -> usize {
    /// A short name: the string and what it points to.
    const NAME: usize = size_of::<String>() + 16;
    /// A row of a matrix: its name, its affinities, and the list of its cells.
    const ROW: usize = 4 * NAME;
    let table = |rows: usize, cols: usize, cell: usize| rows * ROW + cols * NAME + rows * cols * cell;
    let long = match fact {
        Fact::Classes(m) => {
            let words = m.words.iter().map(|w| 4 * NAME + w.cells.len() * size_of::<(usize, usize)>()).sum::<usize>();
            table(m.rows.len(), m.cols.len(), size_of::<Option<PathClass>>()) + words
        }
        Fact::P2p(m) => table(m.rows.len(), m.cols.len(), size_of::<Option<P2pStatus>>()),
        Fact::Matrix(m) => table(m.rows.len(), m.cols.len(), size_of::<Option<f64>>()),
        Fact::Gpus(gpus) => gpus.len() * (size_of::<GpuFacts>() + 3 * NAME),
        Fact::Nvlink(ports) => ports.len() * size_of::<NvlinkPort>(),
        Fact::Curve(curve) => table(curve.series.len(), curve.sizes.len(), size_of::<Option<f64>>()),
        Fact::Pci(tree) => {
            let named = tree.devices.iter().map(|d| d.os_devices.len()).sum::<usize>();
            tree.devices.len() * (size_of::<PciDevice>() + 2 * NAME) + named * (size_of::<OsDevice>() + NAME)
        }
        Fact::Host(host) => host.numa.len() * (size_of::<NumaNode>() + NAME),
        Fact::RdmaPorts(ports) => ports.len() * (size_of::<RdmaPort>() + 4 * NAME),
        Fact::Rates(table) => table.rows.iter().map(|row| ROW + row.words.len() * NAME + row.rates.len() * 16).sum(),
        Fact::NcclGraph(graph) => graph.channels.iter().map(|channel| NAME + channel.len() * 4).sum(),
        Fact::NcclLog(log) => {
            let rings = log.rings.iter().map(|ring| NAME + ring.len() * 4).sum::<usize>();
            let warnings = log.warnings.iter().map(|warning| NAME + warning.len()).sum::<usize>();
            rings + warnings + (log.ranks.len() + log.transports.len()) * 3 * NAME
        }
        Fact::Message(message) => message.quote.len() + message.parts.len() * 2 * NAME,
        Fact::Health(report) => report.troubles.iter().map(|one| 3 * NAME + one.what.len() + one.value.len()).sum(),
        Fact::OpenLine(line) => NAME + line.quote.len(),
        Fact::Sensors(readings) => readings.len() * 4 * NAME,
        Fact::Modules(modules) => modules.loaded.len() * 2 * NAME,
        Fact::Gids(gids) => gids.len() * (size_of::<Gid>() + 4 * NAME),
        Fact::PcieLines(lines) => lines.payloads.len() * 2,
        Fact::Kernel(_) | Fact::Acs(_) | Fact::Corrupt(_) | Fact::FabricManager(_) => 0,
    };
    size_of::<Fact>() + long
}

fn cut_to<T>(list: &mut Vec<T>, most: usize, what: &str) -> Option<String> {
    let all = list.len();
    list.truncate(most);
    (all > most).then(|| format!("more than {most} {what}: only the first {most} are used"))
}

#[cfg(test)]
mod tests {
    use super::super::{Found, PciRole, PciTree, Text};
    use super::*;

    #[test]
    fn statements_of_more_memory_than_any_cluster_has_are_left_out() {
        let (mut found, text) = (Found::default(), Text::new("x", b""));
        let gpus = vec![GpuFacts::default(); MAX_DEVICES];
        let fits = MAX_FOUND_BYTES / bytes(&Fact::Gpus(gpus.clone()));
        for _ in 0..fits + 3 {
            found.push(&text, "tool", (1, 1), Fact::Gpus(gpus.clone()));
        }
        assert_eq!((found.evidence.len(), found.left_out), (fits, 3));
        let mut all = Found::default();
        all.push(&text, "tool", (1, 1), Fact::Gpus(gpus));
        all.append(found);
        assert_eq!((all.evidence.len(), all.left_out), (fits, 4));
    }

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
