//! The IOMMU in the kernel's log: what it does by default, that it is off, and accesses that it refused.

use super::super::{IommuDomain, KernelFacts, Logged};
use super::count;
use super::devices::{drives_gpus, last_device};
use peerlane_machine::fabric::PciAddress;

/// Whether a line shows that there is an IOMMU that works: it was found, or devices were put into its groups. The default type of
/// domain is a policy, which kernels log on machines without one, too; "IOMMU enabled" repeats the command line.
pub(super) fn shows_one(line: &str) -> bool {
    line.contains("iommu")
        && (line.contains("Adding to iommu group ")
            || line.contains("iommu: Adding device ") && line.contains(" to group "))
        || line.contains("Virtualization Technology for Directed I/O")
        || line.contains("AMD-Vi: Found IOMMU")
}

/// Whether a word of the command line asks for an IOMMU.
pub(super) fn asks_for_one(word: &str) -> bool {
    ["intel_iommu=on", "amd_iommu=on", "iommu=on", "iommu=force", "iommu=nopt", "iommu.passthrough=0"]
        .iter()
        .any(|start| word.starts_with(start))
}

/// Reads a line; whether it is one of these.
pub(super) fn read(line: &str, facts: &mut KernelFacts) -> bool {
    if let Some((_, kind)) = line.split_once("iommu: Default domain type: ") {
        facts.iommu = match kind.split_whitespace().next() {
            Some("Translated") => Some(IommuDomain::Translated),
            Some("Passthrough") => Some(IommuDomain::Passthrough),
            _ => return false,
        };
        return true;
    }
    // "DMAR: IOMMU disabled", "AMD-Vi: AMD IOMMU disabled on kernel command-line", "AMD-Vi: AMD IOMMU disabled"
    if line.contains("IOMMU disabled") && (line.contains("DMAR: ") || line.contains("AMD-Vi: ")) {
        facts.iommu_disabled = true;
        return true;
    }
    if let Some((before, rest)) = line.split_once("AMD-Vi: Event logged [IO_PAGE_FAULT ") {
        return amd(before, rest, facts).is_some();
    }
    if let Some((_, rest)) = line.split_once("DMAR: [DMA ") {
        return intel(rest, facts).is_some();
    }
    false
}

/// `nvidia 0000:07:00.0: ` before, or `device=07:00.0 domain=0x0003 …` after in older kernels.
fn amd(before: &str, rest: &str, facts: &mut KernelFacts) -> Option<()> {
    let of_field = || rest.strip_prefix("device=")?.split_whitespace().next()?.parse::<PciAddress>().ok();
    let named = last_device(before.trim_end_matches([':', ' ']));
    let gpu = named.is_some_and(|(driver, _)| drives_gpus(driver));
    let address = named.map(|(_, address)| address).or_else(of_field)?;
    count(&mut facts.iommu_faults, Logged { address, gpu, count: 1 });
    Some(())
}

/// `Read NO_PASID] Request device [3b:00.0] fault addr …`, `Write] Request device [01:00.0] …`.
fn intel(rest: &str, facts: &mut KernelFacts) -> Option<()> {
    let (_, device) = rest.split_once("Request device [")?;
    let address = device.split_once(']')?.0.trim_start_matches("0x").parse().ok()?;
    count(&mut facts.iommu_faults, Logged { address, gpu: false, count: 1 });
    Some(())
}
