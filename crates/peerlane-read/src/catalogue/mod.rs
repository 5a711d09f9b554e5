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

use std::borrow::Cow;

use peerlane_machine::machine::{Machine, MachineKind};

/// Names of the embedded systems, sorted.
pub fn system_names() -> impl Iterator<Item = &'static str> {
    embedded::SYSTEMS.iter().map(|(name, _)| *name)
}

/// Text of an embedded system file, by its own name or by one of [`instances`].
pub fn system_text(name: &str) -> Option<&'static str> {
    named(name).map(|((_, text), _)| text)
}

/// The name and text of an embedded system, and the instance that stands for it where the name is one of its.
fn named(name: &str) -> Option<((&'static str, &'static str), Option<&'static Instance>)> {
    let own = |name: &str| embedded::SYSTEMS.iter().find(|(own, _)| *own == name).copied();
    own(name).map(|system| (system, None)).or_else(|| {
        let instance = instances::instance(name)?;
        Some((own(&instance.system)?, Some(instance)))
    })
}

/// An embedded system by its own name, or by one of [`instances`], which a note of the machine says then.
pub fn system(name: &str) -> Option<Result<Machine, SystemError>> {
    let ((key, text), other) = named(name)?;
    let text = other.map_or_else(|| text.into(), |instance| Cow::Owned(instance.text(text)));
    let read = system::read(&text, key, MachineKind::Catalogue).map(|system| system.machine);
    Some(read.map(|mut machine| {
        machine.notes.extend(other.map(|instance| instance.words(name)));
        machine
    }))
}
