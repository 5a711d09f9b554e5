//! PCIe errors that the kernel logged: which, of which devices, and what they mean by the bits of their status.

use super::*;

/// What bits of the status say of a link or of a transfer.
const MEANS: [(&str, &str); 17] = [
    ("RxErr", "errors of reception"),
    ("BadTLP", "damaged packets"),
    ("BadDLLP", "damaged link packets"),
    ("Rollover", "packets sent over and over"),
    ("Timeout", "packets not acknowledged in time"),
    ("DLP", "the link's protocol broken"),
    ("SDES", "the link went down by surprise"),
    ("TLP", "poisoned data"),
    ("FCP", "flow control broken"),
    ("CmpltTO", "reads that were not answered"),
    ("CmpltAbrt", "accesses that were refused"),
    ("UnxCmplt", "answers that nobody asked for"),
    ("RxOF", "a buffer that overflowed"),
    ("MalfTLP", "malformed packets"),
    ("ECRC", "wrong checksums from end to end"),
    ("UnsupReq", "accesses that the device does not know"),
    ("ACSViol", "accesses that ACS refuses"),
];

/// Bits that a bad signal sets, and that the link repairs by itself.
const SIGNAL: [&str; 5] = ["RxErr", "BadTLP", "BadDLLP", "Rollover", "Timeout"];

/// One finding for each kind.
pub(super) fn errors(view: &View, log: &Log, logs: &[&KernelFacts]) -> Vec<Raised> {
    let mut raised = Vec::new();
    // a GPU that fell off the bus explains errors of the port above it
    let explained = port_of_lost(view, log);
    for (kind, devices) in &log.pcie {
        let mut devices = devices.clone();
        devices.retain(|address, _| Some(*address) != explained);
        if devices.is_empty() {
            continue;
        }
        let of_kind = || {
            let all = logs.iter().flat_map(|log| &log.pcie_errors);
            all.filter(|error| error.kind == *kind && devices.contains_key(&error.address))
        };
        let bits = distinct(of_kind().flat_map(|error| error.bits.iter().copied()));
        let is_signal = bits.iter().any(|bit| SIGNAL.contains(bit));
        let is_burst = of_kind().any(|error| error.is_burst);
        let most = devices.values().copied().max().unwrap_or_default();
        let (what, severity) = match kind {
            PcieErrorKind::Corrected if most <= FEW && !is_burst => ("corrected", Info),
            PcieErrorKind::Corrected => ("corrected", Warning),
            PcieErrorKind::NonFatal => ("uncorrected", Warning),
            PcieErrorKind::Fatal => ("fatal", Error),
        };
        let means = |bit: &&str| {
            let known = MEANS.iter().find(|(name, _)| name == bit);
            known.map_or_else(|| (*bit).to_owned(), |(name, words)| format!("{name}: {words}"))
        };
        let named: Vec<String> = bits.iter().map(means).collect();
        let named = if named.is_empty() { String::new() } else { format!(" ({})", named.join(", ")) };
        let costs = *kind == PcieErrorKind::Corrected && severity == Warning && is_signal;
        let end = if costs { ": its signal is bad, and what was damaged is sent again" } else { "" };
        let bursts = if is_burst { "; more came before the kernel had read the first" } else { "" };
        let summary = |names| format!("The kernel logged {what} PCIe errors{named} of {names}{end}");
        let mut of_link = report(view, severity, &devices, summary)
            .expected(format!("no uncorrected errors, and at most {FEW} corrected ones"))
            .measured(format!("errors: {}{bursts}", counts(view, &devices)))
            .fix(
                "Reseat the card of that link, and its riser or cable if it has one. If the errors go on, lower the link's \
                 generation in the BIOS: if they stop then, the riser or cable is not rated for the generation; if not, \
                 try the card in another slot.",
            )
            .confirm("`dmesg | grep -i aer`, and whether the count rises during `peerlane measure --tests host`");
        // chance is no fault
        if severity == Info {
            of_link.finding.kind = Measurement;
        }
        // what the link repairs costs rate
        if costs {
            of_link.finding.kind = Design;
        }
        raised.push(of_link);
    }
    raised
}
