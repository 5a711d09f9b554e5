//! Errors of GPUs and NVSwitches in the kernel's log: NVIDIA's Xid and SXid messages, and the hardware errors of AMD's
//! driver.

use super::super::{KernelFacts, Logged, Recovery, SwitchXid, Xid};
use super::{MOST, count};
use peerlane_machine::fabric::PciAddress;

/// The code that names what the driver asks for to recover a GPU.
const RECOVERY: u32 = 154;

/// Codes of errors on fifth-generation NVLink, which state whether they are fatal.
const NVLINK5: std::ops::RangeInclusive<u32> = 144..=150;

/// Reads a line; whether it is one of these.
pub(super) fn read(line: &str, facts: &mut KernelFacts) -> bool {
    if let Some((_, rest)) = line.split_once("NVRM: Xid (") {
        return xid(rest, facts).is_some();
    }
    if let Some((_, rest)) = line.split_once(": SXid (") {
        return switch_xid(rest, facts).is_some();
    }
    if let Some((device, rest)) = line.split_once("uncorrectable hardware error") {
        return uncorrectable(device, rest, facts).is_some();
    }
    false
}

/// `NVRM: The NVIDIA GPU 0000:b3:00.0`, `NVRM: GPU 0000:09:00.0: GPU has fallen off the bus.`
pub(super) fn named(line: &str) -> Option<PciAddress> {
    let (_, rest) = line.split_once("NVRM: ")?;
    let rest = rest.strip_prefix("The NVIDIA GPU ").or_else(|| rest.strip_prefix("GPU "))?;
    rest.split_whitespace().next()?.trim_end_matches(':').parse().ok()
}

/// `PCI:0000:65:00): 79, pid=…`, `0000:06:00): 6, …`.
fn xid(rest: &str, facts: &mut KernelFacts) -> Option<()> {
    let (address, code, rest) = coded(rest)?;
    if code == RECOVERY
        && let Some((_, to)) = rest.split_once(" to 0x")
    {
        let action = to.split_once('(')?.1.split_once(')')?.0.trim();
        facts.recovery.retain(|known| known.address != address);
        // a GPU that recovers needs nothing any more
        if action != "None" && facts.recovery.len() < MOST {
            facts.recovery.push(Recovery { address, action: action.chars().take(40).collect() });
        }
        return Some(());
    }
    let fatal = NVLINK5.contains(&code).then(|| severity(rest)).flatten();
    let room = facts.xids.len() < MOST;
    match facts.xids.iter_mut().find(|x| (x.address, x.code) == (address, code)) {
        Some(known) => {
            known.count = known.count.saturating_add(1);
            known.fatal = known.fatal.max(fatal);
        }
        None if room => facts.xids.push(Xid { fatal, ..Xid::new(address, code) }),
        None => {}
    }
    // "45, pid=1, Ch 00000001 caused by previous Xid 149": a log that is cut shows the cause only so
    if let Some((_, cause)) = rest.split_once("caused by previous Xid ")
        && let Some(code) = digits(cause)
        && facts.xids.len() < MOST
        && !facts.xids.iter().any(|x| (x.address, x.code) == (address, code))
    {
        facts.xids.push(Xid::new(address, code));
    }
    Some(())
}

/// `NETIR_LINK_EVT  Fatal   XC0 i0 Link 08 (…)`, `RLW_RXPIPE Nonfatal XC0 i0 Link 13 (…)`.
fn severity(rest: &str) -> Option<bool> {
    rest.split_whitespace().find_map(|word| match word {
        "Fatal" => Some(true),
        "Nonfatal" | "Non-fatal" => Some(false),
        _ => None,
    })
}

/// `PCI:0000:a1:00.0): 20034, Fatal, Link 30 LTSSM Fault Up (First)`; the lines of data that follow repeat the code.
fn switch_xid(rest: &str, facts: &mut KernelFacts) -> Option<()> {
    let (address, code, rest) = coded(rest)?;
    let (class, rest) = rest.trim_start_matches([',', ' ']).split_once(',')?;
    let fatal = match class.trim() {
        "Fatal" => true,
        "Non-fatal" => false,
        _ => return None,
    };
    let rest = rest.trim();
    let (link, what) = match rest.strip_prefix("Link ").and_then(|rest| rest.split_once(' ')) {
        Some((link, what)) => (link.parse().ok(), what),
        None => (None, rest),
    };
    let what: String = what.trim_end_matches("(First)").trim().chars().take(80).collect();
    let room = facts.switch_xids.len() < MOST;
    match facts.switch_xids.iter_mut().find(|x| (x.address, x.code, x.fatal) == (address, code, fatal)) {
        Some(known) => {
            known.count = known.count.saturating_add(1);
            if let Some(link) = link.filter(|link| known.links.len() < MOST && !known.links.contains(link)) {
                known.links.push(link);
            }
        }
        None if room => {
            let links = link.into_iter().collect();
            facts.switch_xids.push(SwitchXid { address, code, fatal, what, links, count: 1 });
        }
        None => {}
    }
    Some(())
}

/// The address, the code and the rest of `PCI:0000:65:00): 79, …`.
fn coded(rest: &str) -> Option<(PciAddress, u32, &str)> {
    let (place, rest) = rest.split_once("):")?;
    let place = place.strip_prefix("PCI:").unwrap_or(place);
    let rest = rest.trim_start();
    let code = digits(rest)?;
    Some((place.parse().ok()?, code, rest.trim_start_matches(|c: char| c.is_ascii_digit())))
}

/// The number that a text begins with.
fn digits(text: &str) -> Option<u32> {
    text.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
}

/// `amdgpu 0000:68:00.0: {1}uncorrectable hardware error(ERREVENT_ATHUB_INTERRUPT) detected!`, `amdgpu 0000:c2:00.0: amdgpu:
/// 12 uncorrectable hardware errors detected in umc block`.
fn uncorrectable(before: &str, rest: &str, facts: &mut KernelFacts) -> Option<()> {
    let (_, device) = before.split_once("amdgpu ")?;
    let address = device.split_once(": ")?.0.parse().ok()?;
    let none = rest.starts_with('s') && device.split_whitespace().next_back() == Some("0");
    let detected = !none && rest.contains("detected");
    detected.then(|| count(&mut facts.uncorrectable, Logged { address, gpu: true, count: 1 }))
}
