//! Settings of GPUs that keep them from each other: MIG, a fabric that is not ready, a small BAR1.

use std::collections::HashMap;

use super::view::{Raised, View};
use peerlane_machine::fabric::{NodeId, PciAddress};
use peerlane_machine::fact::{Fact, GpuFacts};
use peerlane_machine::origin::Origin;

/// The GPU that a statement is about.
pub(super) fn gpu_of(view: &View, by_address: &HashMap<PciAddress, NodeId>, gpu: &GpuFacts) -> Option<NodeId> {
    let named = gpu.node.as_ref().and_then(|name| view.fabric().find(name));
    let addressed = || gpu.address.and_then(|a| by_address.get(&a).copied());
    named.or_else(addressed).or_else(|| view.machine.gpu_numbered(gpu.index?))
}

/// The GPUs of which a source says something that `judge` picks: name, what it says, and where; each GPU once.
pub(super) fn gpus_with<'a, T>(
    view: &View<'a>,
    judge: impl Fn(&GpuFacts) -> Option<T>,
) -> Vec<(String, T, &'a Origin)> {
    let by_address = view.gpus_by_address();
    let mut found: Vec<(String, T, &Origin)> = Vec::new();
    let mut at: HashMap<String, usize> = HashMap::new();
    for evidence in &view.machine.evidence {
        let Fact::Gpus(gpus) = &evidence.fact else { continue };
        for gpu in gpus {
            let Some(id) = gpu_of(view, &by_address, gpu) else { continue };
            let Some(what) = judge(gpu) else { continue };
            let name = view.name(id).to_owned();
            if let std::collections::hash_map::Entry::Vacant(free) = at.entry(name.clone()) {
                free.insert(found.len());
                found.push((name, what, &evidence.origin));
            }
        }
    }
    found
}

/// A finding on such GPUs, if there are any.
pub(super) fn raise<T>(
    found: Vec<(String, T, &Origin)>,
    make: impl FnOnce(Vec<String>, Vec<T>, Vec<&Origin>) -> super::Finding,
) -> Vec<Raised> {
    if found.is_empty() {
        return Vec::new();
    }
    let (mut names, mut values, mut origins) = (Vec::new(), Vec::new(), Vec::new());
    for (name, value, origin) in found {
        names.push(name);
        values.push(value);
        origins.push(origin);
    }
    vec![Raised::new(make(names, values, origins), 0.0)]
}
