//! Two statements about one thing become one: what the first lacks is taken from the second.

use std::collections::HashMap;

use peerlane_machine::fabric::PcieWidth;
use peerlane_machine::fact::{GpuFacts, HostFacts, PciDevice};

/// The most NUMA nodes of one machine, by all statements together: more than any has.
const MAX_NUMA_NODES: usize = 1024;

/// Takes over the fields that are not known yet.
macro_rules! keep_known {
    ($into:ident, $from:ident: $($field:ident),*) => {
        $( if $into.$field.is_none() { $into.$field = $from.$field.clone(); } )*
    };
}

/// Takes over what is not known yet of a function.
pub(super) fn complete(into: &mut PciDevice, from: &PciDevice) {
    into.class = into.class.or(from.class);
    into.vendor = into.vendor.or(from.vendor);
    into.device = into.device.or(from.device);
    into.name = into.name.take().or_else(|| from.name.clone());
    into.running = known_or(into.running, from.running);
    into.capable = known_or(into.capable, from.capable);
    into.link_rate = into.link_rate.or(from.link_rate);
    into.numa = into.numa.or(from.numa);
    into.acs = into.acs.or(from.acs);
    into.bar_bytes = into.bar_bytes.or(from.bar_bytes);
    if into.os_devices.is_empty() {
        into.os_devices.clone_from(&from.os_devices);
    }
}

/// Of each part of a width, the first that is known.
pub(super) fn known_or(a: PcieWidth, b: PcieWidth) -> PcieWidth {
    PcieWidth { generation: a.generation.or(b.generation), lanes: a.lanes.or(b.lanes) }
}

/// Takes over what is not known yet of a GPU.
pub(super) fn merge_gpu(into: &mut GpuFacts, from: &GpuFacts) {
    keep_known!(
        into, from: index,
        address,
        uuid,
        temperature,
        power,
        power_limit,
        utilization,
        memory,
        bar1,
        compute_capability,
        mig,
        replays,
        remap_pending,
        remap_failed,
        unreachable,
        fabric_state,
        fabric_status,
        nvlink_domain,
        c2c,
        recovery,
        numa,
        driver
    );
    // the plain table cuts names short, others print them whole
    if into.name.as_ref().map(String::len) < from.name.as_ref().map(String::len) {
        into.name.clone_from(&from.name);
    }
    into.running = known_or(into.running, from.running);
    into.allowed = known_or(into.allowed, from.allowed);
    into.capable = known_or(into.capable, from.capable);
    into.fabric_health.extend(from.fabric_health.iter().cloned());
    into.fabric_health.sort();
    into.fabric_health.dedup();
    into.clock_event_reasons.extend(from.clock_event_reasons.iter().cloned());
    into.clock_event_reasons.sort();
    into.clock_event_reasons.dedup();
}

/// Takes over what is not known yet of the host.
pub(super) fn merge_host(into: &mut HostFacts, from: &HostFacts) {
    keep_known!(into, from: name, product, arch, cpu_model, cpu_ids, sockets, hypervisor);
    let mut places: HashMap<u32, usize> = into.numa.iter().enumerate().rev().map(|(at, node)| (node.id, at)).collect();
    for node in &from.numa {
        match places.get(&node.id) {
            Some(&at) => {
                let known = &mut into.numa[at];
                known.cpus = known.cpus.take().or_else(|| node.cpus.clone());
                known.memory = known.memory.or(node.memory);
                known.package = known.package.or(node.package);
            }
            None if into.numa.len() < MAX_NUMA_NODES => {
                places.insert(node.id, into.numa.len());
                into.numa.push(node.clone());
            }
            None => {}
        }
    }
}
