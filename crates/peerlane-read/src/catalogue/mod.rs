//! The embedded catalogue: `parts/*.toml` (component models) and `systems/*.toml` (whole machines).

mod constant;
mod embedded;
mod nearest;
mod part;
mod parts;
mod spread;
mod system;
mod thresholds;
mod vendor;

pub use constant::{Basis, Constant, Elsewhere};
pub use part::{CpuGeneration, Part, PartKind, without_peer_access};
pub use parts::{End, PartError, Parts};
pub use spread::{Spread, Spreads};
pub(crate) use system::exceeds;
pub use system::{Problem, System, SystemError, read_design, read_system, write_system};
pub use system::{common_nvlink, common_width};
pub use thresholds::{Floors, JoinedBy, ThresholdList, threshold_lists};
pub use vendor::vendor_of;

use peerlane_machine::machine::{Machine, MachineKind};

/// Names of the embedded systems, sorted.
pub fn system_names() -> impl Iterator<Item = &'static str> {
    embedded::SYSTEMS.iter().map(|(name, _)| *name)
}

/// Text of an embedded system file.
pub fn system_text(name: &str) -> Option<&'static str> {
    embedded::SYSTEMS.iter().find(|(n, _)| *n == name).map(|(_, text)| *text)
}

/// An embedded system by name.
pub fn system(name: &str) -> Option<Result<Machine, SystemError>> {
    system_text(name).map(|text| system::read(text, name, MachineKind::Catalogue).map(|system| system.machine))
}
