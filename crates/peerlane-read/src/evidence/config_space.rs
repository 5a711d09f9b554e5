//! PCI configuration space as bytes: the few registers that matter to peer-to-peer traffic.
//!
//! Offsets and bits are those of the PCI Express Base Specification, chapter 7.

use super::Acs;

/// The most capabilities that are followed of one list, so that a damaged one ends.
const MAX_CAPABILITIES: usize = 64;

/// Status register; bit 4 is set where there are capabilities.
const STATUS: usize = 0x06;
/// Offset of the first capability.
const CAPABILITIES: usize = 0x34;
/// Offset of the first extended capability.
const EXTENDED: usize = 0x100;
/// Capability id of PCI Express.
const PCI_EXPRESS: u16 = 0x10;
/// Extended capability id of Access Control Services.
const ACCESS_CONTROL: u16 = 0x000d;

/// Contents of the device control register of the PCI Express capability.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct DeviceControl {
    /// Maximum payload in use, in bytes.
    pub(super) max_payload: u16,
    /// Maximum read request, in bytes.
    pub(super) max_read_request: u16,
    /// Relaxed ordering enabled.
    pub(super) relaxed_ordering: bool,
}

fn word(config: &[u8], at: usize) -> Option<u16> {
    let bytes = config.get(at..at.checked_add(2)?)?;
    Some(u16::from_le_bytes(bytes.try_into().ok()?))
}

/// Whether there are capabilities, even where they cannot be read.
pub(super) fn has_capabilities(config: &[u8]) -> bool {
    word(config, STATUS).is_some_and(|s| s & 0x10 != 0 && s != 0xffff)
}

/// The device control register, where it can be read.
pub(super) fn device_control(config: &[u8]) -> Option<DeviceControl> {
    if !has_capabilities(config) {
        return None;
    }
    let mut at = usize::from(*config.get(CAPABILITIES)?);
    for _ in 0..MAX_CAPABILITIES {
        // the lower two bits of a pointer are reserved
        at &= 0xfc;
        let head = word(config, at).filter(|_| at >= 0x40)?;
        if head & 0xff == PCI_EXPRESS {
            let control = word(config, at + 8)?;
            // 3-bit codes of 128 bytes times a power of two; 6 and 7 are reserved
            let size = |shift: u16| Some(control >> shift & 7).filter(|c| *c <= 5).map(|code| 128 << code);
            return Some(DeviceControl {
                max_payload: size(5)?,
                max_read_request: size(12)?,
                relaxed_ordering: control & 0x10 != 0,
            });
        }
        at = usize::from(head >> 8);
    }
    None
}

/// Access Control Services, where there and readable.
pub(super) fn acs(config: &[u8]) -> Option<Acs> {
    let mut at = EXTENDED;
    for _ in 0..MAX_CAPABILITIES {
        let (id, next) = (word(config, at)?, word(config, at + 2)?);
        if id == ACCESS_CONTROL {
            let (capability, control) = (word(config, at + 4)?, word(config, at + 6)?);
            return Some(Acs {
                capable: capability & 4 != 0,
                request_redirect: control & 4 != 0,
                completion_redirect: control & 8 != 0,
            });
        }
        at = usize::from(next >> 4);
        if at < EXTENDED {
            return None;
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config() -> Vec<u8> {
        let mut c = vec![0; 4096];
        c[0x06] = 0x10;
        c[0x34] = 0x40;
        c[0x40..0x42].copy_from_slice(&[0x05, 0x60]); // MSI, then …
        c[0x60..0x62].copy_from_slice(&[0x10, 0x00]); // … PCI Express
        c[0x68..0x6a].copy_from_slice(&0x2930_u16.to_le_bytes()); // MRRS 512, MPS 256, relaxed ordering
        c[0x100..0x104].copy_from_slice(&0x2a01_0001_u32.to_le_bytes()); // AER, then …
        c[0x2a0..0x2a4].copy_from_slice(&0x0001_000d_u32.to_le_bytes()); // … ACS
        c[0x2a4] = 0x5f;
        c[0x2a6] = 0x1d;
        c
    }

    #[test]
    fn registers_are_found() {
        let control = DeviceControl { max_payload: 256, max_read_request: 512, relaxed_ordering: true };
        assert_eq!(device_control(&config()), Some(control));
        assert_eq!(acs(&config()), Some(Acs { capable: true, request_redirect: true, completion_redirect: true }));
    }

    #[test]
    fn cut_and_damaged_spaces_end() {
        assert!(has_capabilities(&config()[..64]));
        assert_eq!(device_control(&config()[..64]), None);
        assert_eq!(acs(&config()[..256]), None);
        let mut looped = config();
        looped[0x41] = 0x40;
        assert_eq!(device_control(&looped), None);
        looped[0x102..0x104].copy_from_slice(&0x1001_u16.to_le_bytes());
        assert_eq!(acs(&looped), None);
        assert_eq!(device_control(&[0xff; 4096]), None);
    }
}
