//! What the kernel logs of the machine as a whole when it starts: product, CPU, NUMA nodes, hypervisor.

use super::super::text::Span;
use super::super::{Fact, Found, HostFacts, NumaNode, Text};

/// More nodes than any machine has.
const MOST_NODES: u32 = 256;

/// What was read so far.
#[derive(Default)]
pub(super) struct Host {
    facts: HostFacts,
    lines: Span,
}

impl Host {
    /// Reads a message; whether it is one of these.
    pub(super) fn read(&mut self, i: usize, message: &str) -> bool {
        let read = self.message(message).is_some();
        if read {
            self.lines.add(i);
        }
        read
    }

    fn message(&mut self, message: &str) -> Option<()> {
        let host = &mut self.facts;
        // "DMI: Maker Product/Board, BIOS 2.1 10/05/2023"
        if let Some(rest) = message.strip_prefix("DMI: ") {
            let product = rest.split_once(", BIOS").map_or(rest, |(product, _)| product);
            let product = product.rsplit_once('/').map_or(product, |(product, _)| product);
            host.product = Some(words(product)?);
        } else if let Some(rest) = message.strip_prefix("smpboot: CPU0: ") {
            // "(family: 0x6, …" and, in older kernels, "(fam: 06, …"
            host.cpu_model = Some(words(rest.split_once(" (fam").map_or(rest, |(model, _)| model))?);
        } else if let Some(rest) = message.strip_prefix("smp: Brought up ") {
            let nodes: u32 = rest.split_once(" node")?.0.parse().ok().filter(|nodes| *nodes <= MOST_NODES)?;
            host.numa = (0..nodes).map(|id| NumaNode { id, ..NumaNode::default() }).collect();
        } else {
            host.hypervisor = Some(words(message.strip_prefix("Hypervisor detected: ")?)?);
        }
        Some(())
    }

    pub(super) fn push(self, text: &Text, found: &mut Found) {
        if let Some(lines) = self.lines.numbers(text) {
            found.push(text, super::TOOL, lines, Fact::Host(self.facts));
        }
    }
}

/// Whether a message shows a portable machine, by its lid or its battery: `ACPI: button: Lid Switch [LID0]`, `ACPI: Battery Slot
/// [BAT0] (battery present)`.
pub(super) fn shows_portable(message: &str) -> bool {
    message.starts_with("ACPI: ") && message.contains("Lid Switch [")
        || message.contains("ACPI: ") && message.ends_with("(battery present)")
}

/// The words of a name, which BIOSes pad with blanks.
fn words(text: &str) -> Option<String> {
    let words: Vec<&str> = text.split_whitespace().take(16).collect();
    (!words.is_empty()).then(|| words.join(" "))
}

#[cfg(test)]
mod tests {
    use super::super::super::scan_text;
    use super::*;

    #[test]
    fn product_cpu_and_nodes() {
        let text = "[    0.000000] DMI: Maker AB-12/XY-3, BIOS 2.1 10/05/2023\n\
                    [    0.9] smpboot: CPU0: Intel(R) Xeon(R) Platinum 8480+ (family: 0x6, model: 0x8f, stepping: 0x8)\n\
                    [    1.9] smp: Brought up 2 nodes, 224 CPUs\n";
        let found = scan_text(&Text::new("t", text.as_bytes()));
        let [one] = found.evidence.as_slice() else { panic!("{found:?}") };
        let Fact::Host(host) = &one.fact else { panic!("{one:?}") };
        assert_eq!(host.product.as_deref(), Some("Maker AB-12"));
        assert_eq!(host.cpu_model.as_deref(), Some("Intel(R) Xeon(R) Platinum 8480+"));
        assert_eq!(host.numa.len(), 2);
    }
}
