//! One device of `lspci -v` to `-vvv`: its line, and the fields of its block.

use super::super::words::pcie_width;
use super::super::{Acs, PciDevice};

/// Parts of a block whose words mean something only there.
#[derive(Clone, Copy, Default, PartialEq)]
pub(super) enum Section {
    DeviceControl,
    #[default]
    Other,
}

/// One device with the buses behind it.
#[derive(Default)]
pub(super) struct Block {
    pub(super) device: PciDevice,
    pub(super) section: Section,
    pub(super) secondary: Option<u8>,
    pub(super) root_port: bool,
    pub(super) driver: Option<String>,
    /// The index of its line.
    pub(super) at: usize,
    /// Modules are listed that could drive it.
    pub(super) has_modules: bool,
    /// Memory windows (BARs) without an address.
    pub(super) unassigned: Vec<u8>,
    /// Its header reads as ones.
    pub(super) is_silent: bool,
}

/// How much a line of a block shows: the driver, resources and buses, or the link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Detail {
    Driver,
    Resources,
    Link,
}

impl Block {
    /// Reads a line; what it shows, if it is used.
    pub(super) fn field(&mut self, line: &str) -> Option<Detail> {
        let device = &mut self.device;
        let (key, value) = line.split_once(':').unwrap_or((line, ""));
        match key {
            "LnkCap" => {
                device.capable = pcie_width(after(value, "Speed "), after(value, "Width "));
                return Some(Detail::Link);
            }
            "LnkSta" => {
                device.running = pcie_width(after(value, "Speed "), after(value, "Width "));
                return Some(Detail::Link);
            }
            "Kernel driver in use" => {
                self.driver = Some(value.trim().to_owned());
                return Some(Detail::Driver);
            }
            "Kernel modules" => {
                self.has_modules = true;
                return Some(Detail::Driver);
            }
            "DevCtl" => self.section = Section::DeviceControl,
            "DevSta" | "DevCap" => self.section = Section::Other,
            "Capabilities" => {
                self.section = Section::Other;
                let is_port = value.contains("Root Port");
                self.root_port |= is_port;
                return is_port.then_some(Detail::Resources);
            }
            "ACSCap" => {
                device.acs.get_or_insert_default().capable = value.contains("ReqRedir+");
                return Some(Detail::Link);
            }
            "ACSCtl" => {
                let acs: &mut Acs = device.acs.get_or_insert_default();
                acs.request_redirect = value.contains("ReqRedir+");
                acs.completion_redirect = value.contains("CmpltRedir+");
                return Some(Detail::Link);
            }
            "NUMA node" => {
                device.numa = value.trim().parse().ok();
                return Some(Detail::Resources);
            }
            "Bus" => {
                self.secondary = u8::from_str_radix(after(value, "secondary="), 16).ok();
                return Some(Detail::Resources);
            }
            _ => {}
        }
        if let Some(bar) = window_without_address(line) {
            if !self.unassigned.contains(&bar) {
                self.unassigned.push(bar);
            }
            return Some(Detail::Resources);
        }
        if line.starts_with("!!! Unknown header type 7f") {
            self.is_silent = true;
            return Some(Detail::Resources);
        }
        if line.contains(", prefetchable)") {
            device.bar_bytes = device.bar_bytes.max(size(after(line, "[size=")));
            return Some(Detail::Resources);
        }
        if self.section == Section::DeviceControl {
            let bytes = |word| after(line, word).parse().ok();
            device.max_payload = bytes("MaxPayload ").or(device.max_payload);
            device.max_read_request = bytes("MaxReadReq ").or(device.max_read_request);
            if line.contains("RlxdOrd") {
                device.relaxed_ordering = Some(line.contains("RlxdOrd+"));
            }
            return Some(Detail::Link);
        }
        None
    }
}

/// The window of `Region 1: Memory at <unassigned> (64-bit, prefetchable) [disabled]`. `-v` does not number them: `Memory at <ignored> (…)`.
fn window_without_address(line: &str) -> Option<u8> {
    let (before, rest) = line.split_once("Memory at <")?;
    let is_none = rest.starts_with("unassigned>") || rest.starts_with("ignored>");
    let bar = before.trim_end().strip_prefix("Region ").and_then(|rest| rest.strip_suffix(':'));
    let bar = bar.map_or(Some(0), |bar| bar.parse().ok());
    bar.filter(|bar| is_none && *bar <= LAST_BAR)
}

/// A device has BARs 0 to 5; a ROM is none.
const LAST_BAR: u8 = 5;

/// The word after a mark, up to a space, comma or bracket; empty where there is none.
fn after<'a>(text: &'a str, mark: &str) -> &'a str {
    let rest = text.split_once(mark).map_or("", |(_, rest)| rest);
    rest.split([' ', ',', ']', '(']).next().unwrap_or_default()
}

/// Bytes of `64G`, `16M`, `512K`, `128`.
fn size(text: &str) -> Option<u64> {
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let shift = match unit {
        "" => 0,
        "K" => 10,
        "M" => 20,
        "G" => 30,
        "T" => 40,
        _ => return None,
    };
    number.parse::<u64>().ok()?.checked_mul(1 << shift)
}
