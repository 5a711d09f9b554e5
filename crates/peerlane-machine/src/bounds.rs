//! What a number can be, by its quantity: one table, which every number of a source has to pass before it is used.
//!
//! The bounds are no limits of products but of sense: several times what the fastest known device does, so that none ever
//! refuses a true number, and far below what a slip of a digit, a placeholder such as -1 or 2147483648, or a joke gives.

use std::fmt;

/// A quantity with bounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Bounded {
    /// GB/s between two devices, one way or both.
    Rate,
    /// GB/s within one device's memory.
    OwnRate,
    /// GB/s to, from or in host memory.
    HostRate,
    /// GB/s of a table: of a collective, of several links together, of data that was never moved.
    TableRate,
    /// GB/s of one NVLink port.
    PortRate,
    /// GB/s of a PCIe or a C2C link.
    LinkRate,
    /// Gb/s of a network port.
    LineRate,
    /// Microseconds.
    Time,
    /// 10⁹ edges a second.
    Edges,
    /// A number of things.
    Count,
    /// Bytes of a device's memory or of a window into it.
    DeviceMemory,
    /// Bytes of a NUMA node's memory.
    HostMemory,
    /// Bytes of a message.
    Message,
    /// °C.
    Temperature,
    /// Watts of one device.
    Power,
    /// Percent.
    Share,
}

/// Bounds of a quantity, both of which it may have.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bounds {
    /// The least.
    pub least: f64,
    /// The most.
    pub most: f64,
    /// What it is, in words.
    pub what: &'static str,
    /// Its unit as printed.
    pub unit: &'static str,
}

/// All bounds. For comparison, in 2026: NVLink gives a GPU 1.8 TB/s each way, a GPU's memory has 22 TB/s, C2C gives 0.45 TB/s
/// each way, a network port has 1.6 Tb/s, a GPU draws 2.3 kW.
const TABLE: [(Bounded, Bounds); 16] = [
    (Bounded::Rate, bounds(0.0, 2e4, "a rate between two devices", "GB/s")),
    (Bounded::OwnRate, bounds(0.0, 2e5, "a rate within one memory", "GB/s")),
    (Bounded::HostRate, bounds(0.0, 5e3, "a rate of host memory", "GB/s")),
    // nccl-tests divides a size by the time of doing nothing, where one rank works in place
    (Bounded::TableRate, bounds(0.0, 1e9, "a rate of a table", "GB/s")),
    (Bounded::PortRate, bounds(0.0, 1e3, "a rate of one NVLink port", "GB/s")),
    (Bounded::LinkRate, bounds(0.0, 5e3, "a rate of a link", "GB/s")),
    (Bounded::LineRate, bounds(0.0, 2e4, "a rate of a network port", "Gb/s")),
    (Bounded::Time, bounds(0.0, 1e11, "a time", "us")),
    (Bounded::Edges, bounds(0.0, 1e9, "a rate of edges", "GTEPS")),
    (Bounded::Count, bounds(0.0, 1e18, "a count", "")),
    (Bounded::DeviceMemory, bounds(0.0, 1e14, "memory of a device", "B")),
    (Bounded::HostMemory, bounds(0.0, 1e16, "memory of a host", "B")),
    (Bounded::Message, bounds(0.0, 1e15, "the size of a message", "B")),
    (Bounded::Temperature, bounds(-60.0, 250.0, "a temperature", "°C")),
    (Bounded::Power, bounds(0.0, 2e4, "the power of a device", "W")),
    (Bounded::Share, bounds(0.0, 100.0, "a share", "%")),
];

const fn bounds(least: f64, most: f64, what: &'static str, unit: &'static str) -> Bounds {
    Bounds { least, most, what, unit }
}

impl Bounded {
    /// Its bounds.
    pub fn bounds(self) -> Bounds {
        let row = TABLE.iter().find(|(quantity, _)| *quantity == self);
        // all are in the table, which a test makes sure; of one that were not, nothing is possible
        row.map_or(bounds(0.0, 0.0, "nothing", ""), |(_, bounds)| *bounds)
    }

    /// Whether a number can be so. No number, an infinite one and one outside of the bounds cannot.
    pub fn allows(self, value: f64) -> bool {
        let bounds = self.bounds();
        (bounds.least..=bounds.most).contains(&value)
    }
}

/// A number that cannot be so.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Impossible {
    /// What it is of.
    pub of: Bounded,
    /// The number, in the unit of its bounds.
    pub value: f64,
}

impl fmt::Display for Impossible {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Bounds { least, most, what, unit } = self.of.bounds();
        // numbers of hundreds of digits are not printed as such
        let value = match self.value.is_nan() {
            true => "NaN".to_owned(),
            false if self.value.abs() < 1e15 => self.value.to_string(),
            false => format!("{:e}", self.value),
        };
        let unit = if unit.is_empty() { String::new() } else { format!(" {unit}") };
        write!(f, "{value}{unit} is not used: {what} is from {least} to {most}{unit}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_quantity_has_bounds_and_refuses_what_is_no_number() {
        for (quantity, bounds) in TABLE {
            assert_eq!(quantity.bounds(), bounds);
            assert!(quantity.allows(bounds.least) && quantity.allows(bounds.most) && quantity.allows(1.0));
            for wrong in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, bounds.least - 1.0, bounds.most * 1.001, 1e300] {
                assert!(!quantity.allows(wrong), "{quantity:?} {wrong}");
            }
        }
        // what devices of today do is far from the bounds
        assert!(Bounded::Rate.allows(3600.0) && Bounded::OwnRate.allows(22_000.0) && Bounded::LineRate.allows(1600.0));
        let said = |of, value| Impossible { of, value }.to_string();
        assert_eq!(
            said(Bounded::Rate, 2_147_483_648.0),
            "2147483648 GB/s is not used: a rate between two devices is from 0 to 20000 GB/s"
        );
        assert_eq!(said(Bounded::Share, 1e300), "1e300 % is not used: a share is from 0 to 100 %");
        assert_eq!(
            said(Bounded::Rate, f64::NAN),
            "NaN GB/s is not used: a rate between two devices is from 0 to 20000 GB/s"
        );
    }
}
