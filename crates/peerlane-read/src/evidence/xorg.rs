//! Logs of X servers: the GPUs that they list, the drivers that draw with them, and what NVIDIA's says of its GPU.

use std::collections::BTreeSet;

use super::health::Health;
use super::text::Used;
use super::{Fact, Found, GpuFacts, Text};
use peerlane_machine::fabric::PciAddress;
use peerlane_machine::fact::{Area, Message};

const TOOL: &str = "X server's log";

/// More GPUs and screens than any machine has.
const MOST: usize = 64;

/// The most of a line that is kept, in characters.
const QUOTE: usize = 120;

const NVIDIA: u16 = 0x10de;

/// Makers of GPUs that drive displays: AMD, Intel.
const OTHERS: [u16; 2] = [0x1002, 0x8086];

pub(super) fn scan(text: &Text, found: &mut Found) {
    if !text.holds(&["(--) PCI:", "(II) NVIDIA("]) {
        return;
    }
    let mut run = Run::default();
    for (i, line) in text.iter() {
        if line.contains("X.Org X Server ") {
            std::mem::take(&mut run).push(text, found);
        }
        // `[    71.862] (II) modeset(0): …`
        let is_mark = |mark: &str| mark.get(..mark.len().saturating_sub(2)).is_some_and(|before| before.ends_with('('));
        let marked = line.split_once(") ").filter(|(mark, _)| is_mark(mark));
        if let Some((_, rest)) = marked {
            run.read(i, rest);
        }
    }
    run.push(text, found);
}

/// One server.
#[derive(Default)]
struct Run {
    /// GPUs with their makers.
    listed: Vec<(PciAddress, u16, usize)>,
    /// `NVIDIA(0)`, `modeset(G0)`.
    screens: BTreeSet<String>,
    gpus: Vec<GpuFacts>,
    lines: Used,
    /// Whether NVIDIA's driver shows anything, where it says so.
    shows: Option<bool>,
    health: Health,
}

impl Run {
    fn read(&mut self, i: usize, rest: &str) {
        if let Some((address, vendor)) = listed(rest) {
            if self.listed.len() < MOST {
                self.listed.push((address, vendor, i));
            }
            return;
        }
        let Some((screen, what)) = rest.split_once(": ").filter(|(name, _)| is_screen(name)) else { return };
        if self.screens.len() < MOST && !self.screens.contains(screen) {
            self.screens.insert(screen.to_owned());
        }
        let what = what.trim();
        let works = ["[DRI2] Setup complete", "glamor initialized", "Setting mode ", "Opened GPU channel"];
        if works.iter().any(|start| what.starts_with(start)) {
            self.health.sound(Area::Driver, i);
        }
        if !screen.starts_with("NVIDIA(") {
            return;
        }
        if let Some(gpu) = what.strip_prefix("NVIDIA GPU ").filter(|_| self.gpus.len() < MOST) {
            let name = gpu.rsplit_once(" (G").filter(|(_, end)| end.starts_with("PU-")).map_or(gpu, |(gpu, _)| gpu);
            let name = name.rsplit_once(" at").map_or(name, |(name, _)| name);
            let name = name.rsplit_once(" (").map_or(name, |(name, _)| name);
            self.gpus.push(GpuFacts { name: Some(name.trim().to_owned()), address: place(gpu), ..GpuFacts::default() });
            self.lines.add(i);
        } else if let Some(width) = what.strip_prefix("Detected PCI Express Link width: ") {
            if let Some(gpu) = self.gpus.last_mut() {
                gpu.running.lanes = width.trim_end_matches('X').parse().ok().filter(|lanes| *lanes > 0);
                self.lines.add(i);
            }
        } else if let Some(mode) = what.strip_prefix("Setting mode ") {
            self.shows = Some(self.shows == Some(true) || mode != "\"NULL\"");
        } else if what.starts_with("PCI:")
            && let Some(gpu) = self.gpus.last_mut().filter(|gpu| gpu.address.is_none())
        {
            gpu.address = place(what);
        }
    }

    fn push(mut self, text: &Text, found: &mut Found) {
        let drives_nvidia = self.screens.iter().any(|name| name.starts_with("NVIDIA(") || name.starts_with("NOUVEAU("));
        let is_short = self.screens.len() < self.listed.len();
        for (address, vendor, line) in &self.listed {
            let id = if *vendor == NVIDIA && !drives_nvidia && is_short && !self.screens.is_empty() {
                "xorg-gpu-unused"
            } else if OTHERS.contains(vendor) && self.shows == Some(false) && self.screens.len() == 1 {
                "xorg-other-gpu"
            } else {
                continue;
            };
            let screens = self.screens.iter().map(String::as_str).collect::<Vec<_>>().join(", ");
            let parts = vec![("bdf", address.to_string()), ("screen", screens)];
            let quote = text.line(*line).trim().chars().take(QUOTE).collect();
            let message = Message { id, parts, quote, host: None, count: 1 };
            found.push(text, TOOL, text.numbers(*line, *line), Fact::Message(message));
        }
        if let Some(lines) = self.lines.numbers(text, found).filter(|_| !self.gpus.is_empty()) {
            found.push(text, TOOL, lines, Fact::Gpus(self.gpus));
        }
        self.health.push(text, TOOL, found);
    }
}

/// `NVIDIA(0)`, `modeset(G0)`; `NVIDIA(GPU-0)` is no screen.
fn is_screen(name: &str) -> bool {
    let Some((driver, number)) = name.strip_suffix(')').and_then(|name| name.split_once('(')) else { return false };
    let number = number.strip_prefix('G').unwrap_or(number);
    let is_name = !driver.is_empty() && driver.len() <= 24 && driver.bytes().all(|b| b.is_ascii_alphanumeric());
    is_name && !number.is_empty() && number.bytes().all(|b| b.is_ascii_digit())
}

/// `PCI:*(1@0:0:0) 10de:1c82:19da:a454 rev 161`, in older servers `PCI:*(0:1:0:0) 10de:…`: numbers in decimal.
fn listed(rest: &str) -> Option<(PciAddress, u16)> {
    let (at, ids) = rest.strip_prefix("PCI:")?.trim_start_matches(['*', ' ']).strip_prefix('(')?.split_once(") ")?;
    let (bus, domain, slot) = match at.split_once('@') {
        Some((bus, rest)) => rest.split_once(':').map(|(domain, slot)| (bus, domain, slot))?,
        None => {
            let (domain, rest) = at.split_once(':')?;
            rest.split_once(':').map(|(bus, slot)| (bus, domain, slot))?
        }
    };
    let vendor = u16::from_str_radix(ids.split(':').next()?, 16).ok()?;
    Some((address(domain, bus, slot)?, vendor))
}

/// The place in `… at PCI:1:0:0 (GPU-0)`, with a domain `PCI:1@0:0:0`.
fn place(text: &str) -> Option<PciAddress> {
    let at = text.split_once("PCI:")?.1.split([' ', ')']).next()?;
    let (bus, slot) = at.split_once(':')?;
    match bus.split_once('@') {
        Some((bus, domain)) => address(domain, bus, slot),
        None => address("0", bus, slot),
    }
}

fn address(domain: &str, bus: &str, slot: &str) -> Option<PciAddress> {
    let (device, function) = slot.split_once(':')?;
    let device = device.parse().ok().filter(|device| *device < 32)?;
    let function = function.parse().ok().filter(|function| *function < 8)?;
    Some(PciAddress { domain: domain.parse().ok()?, bus: bus.parse().ok()?, device, function })
}

#[cfg(test)]
mod tests {
    use super::super::testing::scanned;
    use super::*;

    const BOTH: &str = "[ 1.0] X.Org X Server 1.20.8\n[ 1.1] (--) PCI:*(0@0:2:0) 8086:0416:17aa:221e rev 6\n\
                        [ 1.1] (--) PCI: (1@0:0:0) 10de:11fc:17aa:221e rev 161\n";
    const GPU: &str = "[ 1.2] (II) NVIDIA(0): NVIDIA GPU Quadro K1 (GK10) at PCI:1:0:0 (GPU-0)\n\
                       [ 1.2] (II) NVIDIA(0): Detected PCI Express Link width: 16X\n[ 1.3] (--) NVIDIA(GPU-0): DFP-0: disconnected\n\
                       [ 1.3] (II) NVIDIA(0): Setting mode \"NULL\"\n";
    const INTEL: &str = "[ 1.4] (II) modeset(G0): glamor initialized\n";

    /// The GPUs, how much is sound, and the messages with their devices.
    fn read(text: &str) -> (Vec<GpuFacts>, u32, Vec<(&'static str, String)>) {
        let (mut gpus, mut sound, mut bad) = (Vec::new(), 0, Vec::new());
        for one in scanned(scan, text).evidence {
            match one.fact {
                Fact::Gpus(all) => gpus.extend(all),
                Fact::Health(report) => sound += report.sound,
                Fact::Message(message) => bad.push((message.id, message.part("bdf").unwrap_or_default().to_owned())),
                other => panic!("{other:?}"),
            }
        }
        (gpus, sound, bad)
    }

    #[test]
    fn a_gpu_that_another_one_shows() {
        let (gpus, sound, bad) = read(&format!("{BOTH}{GPU}{INTEL}"));
        let [gpu] = gpus.as_slice() else { panic!("{gpus:?}") };
        assert_eq!((gpu.name.as_deref(), gpu.running.lanes), (Some("Quadro K1"), Some(16)));
        assert_eq!(gpu.address, "01:00.0".parse().ok());
        assert_eq!((sound, bad), (2, vec![]));
    }

    #[test]
    fn no_display_at_the_only_screen() {
        let (_, _, bad) = read(&format!("{BOTH}{GPU}"));
        assert_eq!(bad, [("xorg-other-gpu", "0000:00:02.0".to_owned())]);
        // a machine without a display may be meant so
        let alone = BOTH.replace("[ 1.1] (--) PCI:*(0@0:2:0) 8086:0416:17aa:221e rev 6\n", "");
        assert_eq!(read(&format!("{alone}{GPU}")).2, []);
    }

    #[test]
    fn a_gpu_without_a_driver() {
        let (_, sound, bad) = read(&format!("{BOTH}{}", INTEL.replace("G0", "0")));
        assert_eq!((sound, bad), (1, vec![("xorg-gpu-unused", "0000:01:00.0".to_owned())]));
    }

    #[test]
    fn other_lines_and_places() {
        assert_eq!(scanned(scan, "the log has (--) PCI: in it\n(II) NVIDIA(x): NVIDIA GPU A at\n"), Found::default());
        assert_eq!(listed("PCI:*(0:131:0:1) 10de:1c82:1:2 rev 1"), Some(("83:00.1".parse().unwrap(), NVIDIA)));
        assert_eq!(place("NVIDIA GPU A (G1) at PCI:1@2:0:0 (GPU-0)"), "0002:01:00.0".parse().ok());
    }
}
