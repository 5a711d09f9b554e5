//! The embedded catalogue: `parts/*.toml` (component models) and `systems/*.toml` (whole machines).

mod constant;
mod embedded;
mod instances;
mod nearest;
mod part;
mod parts;
mod spread;
mod system;
mod thresholds;
mod vendor;

pub use constant::{Basis, Constant, Elsewhere};
pub use instances::{Instance, instances};
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

/// Text of an embedded system file, by its own name or by one of [`instances`].
pub fn system_text(name: &str) -> Option<&'static str> {
    let own = |name: &str| embedded::SYSTEMS.iter().find(|(n, _)| *n == name).map(|(_, text)| *text);
    own(name).or_else(|| own(&instances::instance(name)?.system))
}

/// An embedded system by its own name, or by one of [`instances`], which a note of the machine says then.
pub fn system(name: &str) -> Option<Result<Machine, SystemError>> {
    let text = system_text(name)?;
    let other = system_names().all(|own| own != name).then(|| instances::instance(name)).flatten();
    let key = other.map_or(name, |instance| instance.system.as_str());
    let read = system::read(text, key, MachineKind::Catalogue).map(|system| system.machine);
    Some(read.map(|mut machine| {
        machine.notes.extend(other.map(|instance| {
            format!("{key} stands for {name}: it has the same GPUs, fabric and adapters ({})", instance.source)
        }));
        machine
    }))
}
