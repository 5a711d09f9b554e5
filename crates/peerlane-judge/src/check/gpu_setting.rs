//! What sources report of single GPUs: MIG, the state of the fabric, BAR1.

use std::collections::{HashMap, HashSet};

use super::view::View;
use peerlane_machine::fabric::{NodeId, PciAddress};
use peerlane_machine::fact::{Fact, GpuFacts};
use peerlane_machine::origin::Origin;

/// The GPU that a statement is about.
pub(super) fn gpu_of(view: &View, by_address: &HashMap<PciAddress, NodeId>, gpu: &GpuFacts) -> Option<NodeId> {
    let named = gpu.node.as_ref().and_then(|name| view.fabric().find(name));
    let addressed = || gpu.address.and_then(|a| by_address.get(&a).copied());
    named.or_else(addressed).or_else(|| view.machine.gpu_numbered(gpu.index?))
}

/// GPUs that a source reports something of: parallel lists.
pub(super) struct Gpus<'a, T> {
    pub(super) names: Vec<String>,
    pub(super) values: Vec<T>,
    pub(super) origins: Vec<&'a Origin>,
}

/// The GPUs of which a source reports something that `judge` picks, each by its first source; `None` where there are none.
pub(super) fn gpus_with<'a, T>(view: &View<'a>, judge: impl Fn(&GpuFacts) -> Option<T>) -> Option<Gpus<'a, T>> {
    let by_address = view.gpus_by_address();
    let mut found = Gpus { names: Vec::new(), values: Vec::new(), origins: Vec::new() };
    let mut known = HashSet::new();
    for evidence in &view.machine.evidence {
        let Fact::Gpus(gpus) = &evidence.fact else { continue };
        for gpu in gpus {
            let Some((id, value)) = gpu_of(view, &by_address, gpu).zip(judge(gpu)) else { continue };
            if known.insert(id) {
                found.names.push(view.name(id).to_owned());
                found.values.push(value);
                found.origins.push(&evidence.origin);
            }
        }
    }
    (!known.is_empty()).then_some(found)
}
