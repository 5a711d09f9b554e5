//! Errors of PCIe links, as the kernel's Advanced Error Reporting logs them: how bad, of which device, which bits of the status, and whether
//! they came faster than it could read them. Since 2.6 the words have changed often; those of 3.x to 6.x are read.

use super::super::{KernelFacts, PcieError, PcieErrorKind};
use super::MOST;
use super::devices::last_device;
use peerlane_machine::fabric::PciAddress;

/// The kernel's names of status bits: those since 5.x, and those before where they differ.
const BITS: [(&str, &str); 35] = [
    ("RxErr", "Receiver Error"),
    ("BadTLP", "Bad TLP"),
    ("BadDLLP", "Bad DLLP"),
    ("Rollover", "RELAY_NUM Rollover"),
    ("Timeout", "Replay Timer Timeout"),
    ("NonFatalErr", "Advisory Non-Fatal"),
    ("CorrIntErr", "Corrected Internal Error"),
    ("HeaderOF", "Header Log Overflow"),
    ("Undefined", "Undefined"),
    ("DLP", "Data Link Protocol"),
    ("SDES", "Surprise Down Error"),
    ("TLP", "Poisoned TLP"),
    ("FCP", "Flow Control Protocol"),
    ("CmpltTO", "Completion Timeout"),
    ("CmpltAbrt", "Completer Abort"),
    ("UnxCmplt", "Unexpected Completion"),
    ("RxOF", "Receiver Overflow"),
    ("MalfTLP", "Malformed TLP"),
    ("ECRC", "ECRC"),
    ("UnsupReq", "Unsupported Request"),
    ("ACSViol", "ACS Violation"),
    ("UncorrIntErr", "Uncorrectable Internal Error"),
    ("BlockedTLP", "MC Blocked TLP"),
    ("AtomicOpBlocked", "AtomicOp Egress Blocked"),
    ("TLPBlockedErr", "TLP Prefix Blocked Error"),
    ("PoisonTLPBlocked", "Poisoned TLP Egress Blocked"),
    ("DMWrReqBlocked", "DMWr Request Egress Blocked"),
    ("IDECheck", "IDE Check Failed"),
    ("MisIDETLP", "Misrouted IDE TLP"),
    ("PCRC_CHECK", "PCRC Check Failed"),
    ("TLPXlatBlocked", "TLP Translation Egress Blocked"),
    ("SDES", "Surprise Link Down"),
    ("CmpltTO", "Cmplt Timeout"),
    ("TLP", "PoisonedTLP"),
    ("RxOF", "RxOverflow"),
];

/// `[    1.1] nvidia 0000:17:00.0: ` before, `Corrected, type=Data Link Layer, (Transmitter ID)` after: `PCIe Bus Error: severity=`, since 4.19
/// with `AER: ` before it.
pub(super) fn bus_error(device: &str, rest: &str, facts: &mut KernelFacts) -> Option<()> {
    let address = device.trim_end().trim_end_matches(": AER").split_whitespace().next_back()?.parse().ok()?;
    let rest = rest.to_ascii_lowercase();
    let kind = if rest.starts_with("correct") {
        PcieErrorKind::Corrected
    } else if rest.contains("non-fatal") || rest.contains("nonfatal") {
        PcieErrorKind::NonFatal
    } else if rest.contains("fatal") {
        PcieErrorKind::Fatal
    } else {
        return None;
    };
    count(address, kind, facts);
    Some(())
}

/// Counts an error; it is the last of the list then.
fn count(address: PciAddress, kind: PcieErrorKind, facts: &mut KernelFacts) {
    match facts.pcie_errors.iter().position(|e| (e.address, e.kind) == (address, kind)) {
        Some(at) => {
            let mut known = facts.pcie_errors.remove(at);
            known.count = known.count.saturating_add(1);
            facts.pcie_errors.push(known);
        }
        None if facts.pcie_errors.len() < MOST => {
            facts.pcie_errors.push(PcieError { address, kind, count: 1, bits: Vec::new(), is_burst: false });
        }
        None => {}
    }
}

/// What goes with errors, in lines of their own.
#[derive(Default)]
pub(super) struct Details {
    /// The line above says that further errors came before the first was read.
    is_multiple: bool,
    /// The device of the last error.
    of: Option<PciAddress>,
}

impl Details {
    /// Reads a line after the error itself, where it holds one; whether it is one of these.
    pub(super) fn read(&mut self, line: &str, facts: &mut KernelFacts) -> bool {
        if line.contains("AER: Multiple ") && line.contains(" error ") {
            self.is_multiple = true;
            return true;
        }
        if line.contains("PCIe Bus Error: severity=") {
            let last = facts.pcie_errors.last_mut();
            self.of = last.as_ref().map(|error| error.address);
            if let Some(error) = last.filter(|_| std::mem::take(&mut self.is_multiple)) {
                error.is_burst = true;
            }
            return false;
        }
        // what the firmware saw first and hands over
        if let Some((device, _)) = line.split_once(": aer_status: 0x") {
            let address = last_device(device.trim_end_matches(": AER")).map(|(_, address)| address);
            if let Some(address) = address {
                count(address, PcieErrorKind::Corrected, facts);
                self.of = Some(address);
            }
            return address.is_some();
        }
        if line.contains("aer_uncor_severity: 0x") {
            let known = facts.pcie_errors.last_mut().filter(|error| Some(error.address) == self.of);
            if let Some(error) = known.filter(|error| error.kind == PcieErrorKind::Corrected && error.count == 1) {
                error.kind = PcieErrorKind::NonFatal;
            }
            return true;
        }
        let Some((address, bit)) = bit(line) else { return false };
        let error = facts.pcie_errors.iter_mut().rev().find(|error| error.address == address);
        if let Some(error) = error.filter(|_| self.of == Some(address))
            && !error.bits.contains(&bit)
        {
            error.bits.push(bit);
        }
        true
    }
}

/// The device and the bit of `pcieport 0000:00:00.0: AER:    [ 6] BadTLP`, in older kernels `pcieport 0000:00:00.0:    [ 6] Bad TLP   (First)`.
pub(super) fn bit(line: &str) -> Option<(PciAddress, &'static str)> {
    let (before, rest) = line.rsplit_once(": ")?;
    let (number, name) = rest.trim_start().strip_prefix('[')?.split_once(']')?;
    number.trim().parse::<u8>().ok().filter(|number| *number < 32)?;
    let name = name.trim_end().trim_end_matches("(First)").trim();
    let (bit, _) = BITS.iter().find(|(new, old)| *new == name || *old == name)?;
    let (_, address) = last_device(before.trim_end_matches(": AER").trim_end_matches(':'))?;
    Some((address, bit))
}

#[cfg(test)]
mod tests {
    use super::super::super::{Fact, Text, scan_text};
    use super::*;

    fn errors(body: &str) -> Vec<PcieError> {
        let of = |fact| if let Fact::Kernel(facts) = fact { facts.pcie_errors } else { Vec::new() };
        scan_text(&Text::new("t", body.as_bytes())).evidence.into_iter().flat_map(|e| of(e.fact)).collect()
    }

    #[test]
    fn errors_of_all_kernels() {
        for (body, kind, bits, burst) in [
            (
                "[  1.1] pcieport 0000:00:01.0: AER: Multiple Corrected error received: 0000:01:00.0\n\
                 [  1.1] nvidia 0000:01:00.0: PCIe Bus Error: severity=Corrected, type=Data Link Layer, (Receiver ID)\n\
                 [  1.1] nvidia 0000:01:00.0:   device [10de:2204] error status/mask=000000c0/00002000\n\
                 [  1.1] nvidia 0000:01:00.0:    [ 6] BadTLP                \n[  1.1] nvidia 0000:01:00.0:    [ 7] BadDLLP               \n",
                PcieErrorKind::Corrected,
                vec!["BadTLP", "BadDLLP"],
                true,
            ),
            (
                "[  1.1] nvidia 0000:01:00.0: AER: PCIe Bus Error: severity=Corrected, type=Physical Layer, (Receiver ID)\n\
                 [  1.1] nvidia 0000:01:00.0: AER:    [ 0] RxErr                  (First)\n",
                PcieErrorKind::Corrected,
                vec!["RxErr"],
                false,
            ),
            (
                "[  1.1] nvidia 0000:01:00.0: PCIe Bus Error: severity=Uncorrected (Fatal), type=Transaction Layer, id=0100(Requester ID)\n\
                 [  1.1] nvidia 0000:01:00.0:    [14] Completion Timeout     (First)\n",
                PcieErrorKind::Fatal,
                vec!["CmpltTO"],
                false,
            ),
            (
                "[  1.1] nvidia 0000:01:00.0: AER: aer_status: 0x00100000, aer_mask: 0x00000000\n\
                 [  1.1] nvidia 0000:01:00.0: AER:    [20] UnsupReq               (First)\n\
                 [  1.1] nvidia 0000:01:00.0: AER: aer_layer=Transaction Layer, aer_agent=Requester ID\n\
                 [  1.1] nvidia 0000:01:00.0: AER: aer_uncor_severity: 0x00462030\n",
                PcieErrorKind::NonFatal,
                vec!["UnsupReq"],
                false,
            ),
        ] {
            let all = errors(body);
            let [one] = all.as_slice() else { panic!("{body}: {all:?}") };
            let read = (one.address.to_string(), one.kind, one.bits.clone(), one.is_burst);
            assert_eq!(read, ("0000:01:00.0".to_owned(), kind, bits, burst), "{body}");
        }
    }

    #[test]
    fn a_bit_of_another_device_belongs_to_it() {
        let body = "[  1.1] nvidia 0000:01:00.0: PCIe Bus Error: severity=Corrected, type=Physical Layer, (Receiver ID)\n\
                    [  1.1] nvidia 0000:02:00.0:    [ 0] RxErr                  (First)\n";
        assert_eq!(errors(body)[0].bits, Vec::<&str>::new());
        assert_eq!(bit("[  1.1] nvidia 0000:01:00.0: [ 6] widgets"), None);
    }
}
