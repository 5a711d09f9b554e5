//! What two ends and a slot allow a link.

use crate::catalogue::Part;
use peerlane_machine::fabric::PcieWidth;
use peerlane_machine::machine::Slot;

/// What the parts at a link's two ends and the slot between them allow; unknown unless both parts are known.
pub fn common_width(a: Option<&Part>, b: Option<&Part>, slot: Option<&Slot>) -> PcieWidth {
    let (Some(x), Some(y)) = (a.and_then(|p| p.pcie), b.and_then(|p| p.pcie)) else { return PcieWidth::default() };
    let wired = slot.map(|s| PcieWidth { generation: None, lanes: Some(s.wired) });
    narrower(narrower(x, y), wired.unwrap_or_default())
}

/// The NVLink generation that the parts at a link's two ends have in common.
pub fn common_nvlink(a: Option<&Part>, b: Option<&Part>) -> Option<u8> {
    least(a.and_then(|p| p.nvlink_generation), b.and_then(|p| p.nvlink_generation))
}

/// Whether something known runs above what is known to be allowed.
pub(crate) fn exceeds<T: PartialOrd>(running: Option<T>, allowed: Option<T>) -> bool {
    matches!((running, allowed), (Some(r), Some(a)) if r > a)
}

/// The lower generation and the fewer lanes of two, where known.
fn narrower(x: PcieWidth, y: PcieWidth) -> PcieWidth {
    PcieWidth { generation: least(x.generation, y.generation), lanes: least(x.lanes, y.lanes) }
}

/// The lesser of two, where known.
fn least<T: Ord>(x: Option<T>, y: Option<T>) -> Option<T> {
    match (x, y) {
        (Some(x), Some(y)) => Some(x.min(y)),
        (x, y) => x.or(y),
    }
}
