//! Lines that `grep` cut out of `lspci -vvv`: `LnkCap:` and `LnkSta:`, `MaxPayload` and `MaxReadReq`.
//!
//! They are of no device unless a line above names one: the command that is quoted (`lspci -vvv -s 41:00.0 | grep LnkSta`), or a heading
//! that a person's loop or script wrote (`### 0000:c1:00.0`, `# lspci -s 0000:05:00.0 (upstream bridge of …)`).

use super::aer;
use super::health::Health;
use super::text::Span;
use super::words::pcie_width;
use super::{Fact, Found, PciDevice, PciRole, PciTree, PcieLines, Text};
use peerlane_machine::fabric::{PciAddress, PcieWidth};
use peerlane_machine::fact::{Area, Grade};

const TOOL: &str = "lspci -vvv";

/// So few links are those of a device or two, and not of a whole machine.
const FEW: u32 = 4;

/// The most lines of one listing that are counted; the largest machines have some thousands.
const MOST: usize = 16_384;

pub(super) fn scan(text: &Text, found: &mut Found) {
    if !text.holds(&["LnkSta:", "LnkCap:", "MaxPayload ", "ESta:"]) {
        return;
    }
    let mut lines = Lines { is_first: true, ..Lines::default() };
    let mut within = 0;
    for (i, line) in text.iter() {
        if i < within {
            continue;
        }
        // what a device's block holds is read with it
        let device = named(line);
        lines.is_first &= device.is_none() && !begins_with_address(line);
        if device.is_some() || is_device(line) {
            let end = text.block_end(i);
            if end > i + 1 {
                lines.push(text, found);
                within = end;
                continue;
            }
        }
        if device.is_some() {
            lines.push(text, found);
            lines.of = device;
        } else {
            lines.take(line.trim_start_matches('>').trim(), i);
        }
    }
    lines.push(text, found);
}

/// `41:00.0 3D controller: …`.
fn is_device(line: &str) -> bool {
    let Some((address, rest)) = line.split_once(' ') else { return false };
    (7..=16).contains(&address.len()) && address.parse::<PciAddress>().is_ok() && rest.contains(": ")
}

/// Whether the first word is the address of a device, whatever follows: a window may have wrapped the line.
fn begins_with_address(line: &str) -> bool {
    let word = line.split_whitespace().next().unwrap_or_default();
    word.contains('.') && word.contains(':') && word.parse::<PciAddress>().is_ok()
}

/// The device that a command or a heading names for the lines below it.
pub(super) fn named(line: &str) -> Option<(PciAddress, PciRole)> {
    of_command(line).or_else(|| of_heading(line))
}

/// The device of `$ sudo lspci -vvv -s 0000:41:00.0 | grep LnkSta`, and its role where words behind it name one.
fn of_command(line: &str) -> Option<(PciAddress, PciRole)> {
    let (_, rest) = line.split_once("lspci ")?;
    let (_, rest) = rest.split_once("-s ")?;
    let rest = rest.trim_start();
    let (word, after) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
    Some((word.trim_matches(['"', '\'']).parse().ok()?, role(after)))
}

/// The device of a heading: `### 0000:c1:00.0`, `--- c1:00.0 (root port) ---`, `==> 0000:c1:00.0:`, or an address alone.
fn of_heading(line: &str) -> Option<(PciAddress, PciRole)> {
    let is_mark =
        |c: char| matches!(c, '#' | '-' | '=' | '*' | '>' | '<' | '[' | ']' | '+' | '_' | '`' | ' ' | '\t' | ':');
    let plain = line.trim_matches(is_mark);
    if plain.is_empty() || plain.len() > LONGEST_HEADING {
        return None;
    }
    // a device's own line, and lines of other tools, go on in words; a heading's words stand in brackets or before the address
    let mut words = plain.split_whitespace();
    let (before, address) = words.by_ref().take(MOST_WORDS).enumerate().find_map(|(at, word)| {
        let word = word.trim_matches(['(', ')', ',', ':', '"']);
        let shaped = word.len() >= 7 && word.contains(':') && word.contains('.');
        Some((at, word.parse::<PciAddress>().ok().filter(|_| shaped)?))
    })?;
    let after: Vec<&str> = words.collect();
    let marked = plain.len() < line.trim().len();
    let bracketed = after.first().is_none_or(|word| word.starts_with(['(', '[', '#', '-', '=']));
    (bracketed && (marked || before == 0 && after.is_empty() || before == 1)).then(|| (address, role(plain)))
}

/// A longer line is no heading.
const LONGEST_HEADING: usize = 120;

/// Words before the address of a heading: `GPU 3 at`.
const MOST_WORDS: usize = 4;

/// What a heading calls a device.
fn role(words: &str) -> PciRole {
    let words = words.to_lowercase();
    let is_port = ["bridge", "root port", "upstream", "downstream", "switch port", "pcieport"]
        .iter()
        .any(|word| words.contains(word));
    if is_port { PciRole::Bridge } else { PciRole::Endpoint }
}

/// Lines that follow each other, of one device or of all.
#[derive(Default)]
struct Lines {
    of: Option<(PciAddress, PciRole)>,
    lines: Span,
    capable: Option<PcieWidth>,
    all: PcieLines,
    device: PciDevice,
    health: Health,
    /// The first link with fewer lanes than it can have: its state, and the line.
    narrow: Option<(String, usize)>,
    /// No line above names a device: the text begins within the stanza of one.
    is_first: bool,
}

impl Lines {
    fn take(&mut self, line: &str, i: usize) {
        let taken = if let Some(rest) = line.strip_prefix("LnkCap:") {
            self.capable = width(rest);
            self.device.capable = self.capable.unwrap_or_default();
            self.capable.is_some()
        } else if let Some(rest) = line.strip_prefix("LnkSta:") {
            let narrower = self.all.narrower;
            let is_read = self.state(rest).is_some();
            // an empty slot has no lanes
            if self.is_first && self.all.narrower > narrower && self.device.running.lanes.is_some_and(|lanes| lanes > 0)
            {
                self.narrow.get_or_insert_with(|| (rest.trim().to_owned(), i));
            }
            is_read
        } else {
            let part = self.of.map(|(address, _)| address.to_string());
            let is_narrow =
                self.device.running.lanes.zip(self.device.capable.lanes).is_some_and(|(now, most)| now < most);
            if aer::status(&mut self.health, part.as_deref(), is_narrow, line, i) {
                return;
            }
            self.payload(line).is_some()
        };
        if taken {
            self.lines.add(i);
        }
    }

    fn state(&mut self, rest: &str) -> Option<()> {
        let running = width(rest)?;
        let capable = self.capable.take();
        let below = |capable: PcieWidth| {
            let narrower = running.lanes.zip(capable.lanes).is_some_and(|(now, most)| now < most);
            let slower = running.generation.zip(capable.generation).is_some_and(|(now, most)| now < most);
            (narrower, slower)
        };
        let (narrower, slower) = capable.map_or((false, false), below);
        self.all.links = self.all.links.saturating_add(1);
        // newer versions of the tool compare by themselves: `Speed 2.5GT/s (downgraded), Width x8 (downgraded)`
        let mark = |part: Option<&str>| part.is_some_and(|part| part.contains("downgraded"));
        let mut parts = rest.split(',');
        let (speed, lanes) = (mark(parts.next()), mark(parts.next()));
        self.all.narrower = self.all.narrower.saturating_add(u32::from(narrower || lanes));
        self.all.slower = self.all.slower.saturating_add(u32::from(slower || speed));
        self.device.running = running;
        Some(())
    }

    /// `MaxPayload 256 bytes, MaxReadReq 512 bytes`; a line of capabilities has no `MaxReadReq`.
    fn payload(&mut self, line: &str) -> Option<()> {
        let bytes = |key: &str| -> Option<u16> {
            let (_, rest) = line.split_once(key)?;
            rest.split_whitespace().next()?.parse().ok()
        };
        let (payload, request) = (bytes("MaxPayload ")?, bytes("MaxReadReq "));
        if request.is_some() && self.all.payloads.len() < MOST {
            self.all.payloads.push(payload);
            (self.device.max_payload, self.device.max_read_request) = (Some(payload), request);
        }
        Some(())
    }

    fn push(&mut self, text: &Text, found: &mut Found) {
        let is_first = self.is_first;
        let mut lines = std::mem::replace(self, Lines { is_first, ..Lines::default() });
        // in a list of a whole machine, ports above devices with fewer lanes count, too
        if let Some((state, i)) = lines.narrow.take().filter(|_| lines.of.is_none() && lines.all.links <= FEW) {
            lines.health.trouble(
                Area::Pcie,
                Grade::Suspect,
                None,
                "a link with fewer lanes than it can have:",
                &state,
                i,
            );
        }
        lines.health.push(text, TOOL, found);
        let Some(numbers) = lines.lines.numbers(text) else { return };
        match lines.of {
            Some((address, role)) => {
                let device = PciDevice { address: Some(address), role, line: numbers.0, ..lines.device };
                found.push(text, TOOL, numbers, Fact::Pci(PciTree { devices: vec![device], ..PciTree::default() }));
            }
            None if lines.all != PcieLines::default() => {
                found.push(text, TOOL, numbers, Fact::PcieLines(lines.all));
            }
            None => {}
        }
    }
}

/// ` Speed 16GT/s (ok), Width x8 (downgraded)`, ` Port #0, Speed 32GT/s, Width x16, ASPM L1`.
fn width(rest: &str) -> Option<PcieWidth> {
    let after = |key: &str| rest.split_once(key).map(|(_, value)| value.split([',', ' ', '\t']).next().unwrap_or(""));
    let width = pcie_width(after("Speed ")?, after("Width ")?);
    (!width.is_unknown()).then_some(width)
}

#[cfg(test)]
mod tests {
    use super::super::testing::scanned;
    use super::*;

    fn lines(text: &str) -> PcieLines {
        let found = scanned(scan, text);
        let of = |fact: &Fact| if let Fact::PcieLines(lines) = fact { Some(lines.clone()) } else { None };
        found.evidence.iter().find_map(|one| of(&one.fact)).unwrap_or_else(|| panic!("{found:#?}"))
    }

    #[test]
    fn states_without_devices_are_counted() {
        let all = lines(
            "\t\tLnkSta:\tSpeed 16GT/s (ok), Width x8 (downgraded)\n\t\tLnkSta:\tSpeed 2.5GT/s (downgraded), Width x16 (ok)\n\
             \t\tLnkSta:\tSpeed 32GT/s, Width x16, TrErr- Train- SlotClk+\n",
        );
        assert_eq!((all.links, all.narrower, all.slower), (3, 1, 1));
    }

    #[test]
    fn a_stanza_whose_first_lines_are_cut_off() {
        let piece = "\t\tLnkCap:\tPort #0, Speed 16GT/s, Width x16, ASPM L1\n\t\tLnkSta:\tSpeed 16GT/s (ok), Width x8 (downgraded)\n";
        let troubles = |text: &str| {
            let of = |fact: &Fact| if let Fact::Health(report) = fact { report.troubles.len() } else { 0 };
            scanned(scan, text).evidence.iter().map(|one| of(&one.fact)).sum::<usize>()
        };
        assert_eq!(troubles(piece), 1);
        assert_eq!(troubles(&piece.replace("x8 (downgraded)", "x16 (ok)")), 0);
        assert_eq!(troubles(&piece.repeat(5)), 0, "of a whole machine");
        assert_eq!(troubles(&format!("82:00.0 3D controller\n{piece}")), 0, "another reader knows the device");
    }

    #[test]
    fn states_below_capabilities() {
        let all = lines(
            "\t\tLnkCap:\tPort #0, Speed 16GT/s, Width x16, ASPM L1\n\t\tLnkSta:\tSpeed 16GT/s, Width x4\n\
             \t\tLnkCap:\tPort #8, Speed 8GT/s, Width x8\n\t\tLnkSta:\tSpeed 8GT/s, Width x8\n",
        );
        assert_eq!((all.links, all.narrower, all.slower), (2, 1, 0));
    }

    #[test]
    fn status_bits_without_devices() {
        let found = scanned(
            scan,
            "\t\tCESta:\tRxErr- BadTLP+ BadDLLP-\n\t\tCESta:\tRxErr- BadTLP- BadDLLP-\nCESta: a register\n",
        );
        let Fact::Health(report) = &found.evidence[0].fact else { panic!("{found:#?}") };
        assert_eq!((report.sound, report.troubles[0].value.as_str()), (1, "BadTLP+"));
    }

    #[test]
    fn payloads() {
        let all = lines(
            "\t\tDevCap:\tMaxPayload 512 bytes, PhantFunc 0\n\t\t\tMaxPayload 256 bytes, MaxReadReq 512 bytes\n\
             \t\t\tMaxPayload 128 bytes, MaxReadReq 4096 bytes\n",
        );
        assert_eq!(all.payloads, [256, 128]);
    }

    #[test]
    fn the_command_names_the_device() {
        let found = scanned(
            scan,
            "$ sudo lspci -vvv -s 41:00.0 | grep -E 'LnkCap|LnkSta'\nLnkCap:\tPort #0, Speed 16GT/s, Width x16\nLnkSta:\tSpeed 16GT/s, Width x8\n",
        );
        let Fact::Pci(tree) = &found.evidence[0].fact else { panic!("{found:#?}") };
        let device = &tree.devices[0];
        assert_eq!((device.running.to_string(), device.capable.to_string()), ("4.0 x8".into(), "4.0 x16".into()));
        assert_eq!(device.address.unwrap().to_string(), "0000:41:00.0");
    }

    #[test]
    fn a_heading_names_the_device() {
        for (heading, address, role) in [
            ("### 0000:c1:00.0", "0000:c1:00.0", PciRole::Endpoint),
            ("--- c1:00.0 ---", "0000:c1:00.0", PciRole::Endpoint),
            ("==> 0000:c1:00.0 <==", "0000:c1:00.0", PciRole::Endpoint),
            ("0000:c1:00.0:", "0000:c1:00.0", PciRole::Endpoint),
            (
                "# lspci -vvv -s 0000:03:04.0  (upstream bridge of 0000:05:00.0: LnkCap/LnkSta)",
                "0000:03:04.0",
                PciRole::Bridge,
            ),
            ("## root port 0000:00:01.1", "0000:00:01.1", PciRole::Bridge),
        ] {
            let lines = "LnkCap:\tPort #0, Speed 16GT/s, Width x16\nLnkSta:\tSpeed 16GT/s, Width x4\n";
            let found = scanned(scan, &format!("{heading}\n{lines}"));
            let Fact::Pci(tree) = &found.evidence[0].fact else { panic!("{heading}: {found:#?}") };
            let device = &tree.devices[0];
            assert_eq!((device.address.unwrap().to_string().as_str(), device.role), (address, role), "{heading}");
        }
        for line in ["the card at 0000:c1:00.0 is slow", "c1:00.0 3D controller: NVIDIA", "12:30:45.1"] {
            assert_eq!(of_heading(line), None, "{line}");
        }
    }

    #[test]
    fn blocks_of_devices_and_prose_are_not_for_this_reader() {
        for text in [
            "41:00.0 3D controller: NVIDIA Corporation GA100\n\t\tLnkSta:\tSpeed 16GT/s, Width x8\n",
            "LnkSta: is the line to look for\n",
            "MaxPayload matters\n",
        ] {
            assert_eq!(scanned(scan, text), Found::default(), "{text}");
        }
    }
}
