//! `lscpu`, old and new (whose fields are indented), of any architecture.

use super::words::{key_value, numbered};
use super::{Fact, Found, HostFacts, NumaNode, Text};
use peerlane_machine::fabric::CpuList;

const TOOL: &str = "lscpu";

/// Longer than any output, its lists of flags and vulnerabilities included.
const MAX_LINES: usize = 400;

/// More NUMA nodes than any machine has.
const MOST_NODES: u32 = 1024;

pub(super) fn scan(text: &Text, found: &mut Found) {
    text.walk(|i| {
        if is_own(text.line(i)) {
            return Some(read(text, i, found));
        }
        hypervisor(text, i, found);
        None
    });
}

/// `Hypervisor vendor: KVM` alone, as `grep` or a description of an environment has it (`Hypervisor vendor:: KVM`).
fn hypervisor(text: &Text, i: usize, found: &mut Found) {
    let value = text.line(i).trim().strip_prefix("Hypervisor vendor:").map(|v| v.trim_start_matches(':').trim());
    if let Some(name) = value.filter(|v| !v.is_empty() && v.split_whitespace().count() < 4 && v.len() < 32) {
        let host = HostFacts { hypervisor: Some(name.to_owned()), ..HostFacts::default() };
        found.push(text, TOOL, text.numbers(i, i), Fact::Host(host));
    }
}

/// Whether a line is one that `lscpu` alone prints.
fn is_own(line: &str) -> bool {
    key_value(line).is_some_and(|(key, value)| {
        let known = key == "Architecture"
            || matches!(key, "CPU(s)" | "Socket(s)" | "Core(s) per socket" | "Thread(s) per core" | "NUMA node(s)")
            || key == "On-line CPU(s) list"
            || numa_node(key).is_some();
        known && !value.contains(char::is_whitespace)
    })
}

/// The number of `NUMA node8 CPU(s)`.
fn numa_node(key: &str) -> Option<u32> {
    numbered(key.strip_suffix(" CPU(s)")?, "NUMA node")
}

/// Reads the paragraph of line `first`; returns the line to go on from.
fn read(text: &Text, first: usize, found: &mut Found) -> usize {
    let mut host = HostFacts::default();
    let (mut vendor, mut family, mut model) = (None, None, None);
    let mut nodes: Option<u32> = None;
    let mut own = 0;
    let mut last = first;
    for i in first..text.len().min(first + MAX_LINES) {
        let line = text.line(i);
        let repeated = i > first && line.trim_start().starts_with("Architecture:");
        if line.trim().is_empty() || line.trim_start().starts_with("```") || repeated {
            break;
        }
        last = i;
        own += usize::from(is_own(line));
        let Some((key, value)) = key_value(line).filter(|(_, value)| !value.is_empty() && *value != "-") else {
            continue;
        };
        let number = value.parse().ok();
        match key {
            "Architecture" => host.arch = Some(value.to_owned()),
            "Socket(s)" => host.sockets = number,
            "NUMA node(s)" => nodes = number,
            "Model name" => host.cpu_model = Some(value.to_owned()),
            "Hypervisor vendor" => host.hypervisor = Some(value.to_owned()),
            "Vendor ID" => vendor = Some(value.to_owned()),
            "CPU family" => family = number,
            "Model" => model = number,
            _ => {
                let cpus: Option<CpuList> = value.parse().ok();
                let id = numa_node(key).filter(|_| cpus.is_some());
                host.numa.extend(id.map(|id| NumaNode { id, cpus, ..NumaNode::default() }));
            }
        }
    }
    if own < 2 {
        return first + 1;
    }
    // the lines of the last nodes may be cut off, and their number is not
    let listed = host.numa.len() as u32;
    let is_counted = host.numa.iter().zip(0..).all(|(node, n)| node.id == n);
    if let Some(nodes) = nodes.filter(|nodes| is_counted && listed > 0 && *nodes <= MOST_NODES) {
        host.numa.extend((listed..nodes).map(|id| NumaNode { id, ..NumaNode::default() }));
    }
    host.cpu_ids = vendor.zip(family).zip(model).map(|((vendor, family), model)| (vendor, family, model));
    found.push(text, TOOL, text.numbers(first, last), Fact::Host(host));
    last + 1
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scanned(text: &str) -> Vec<HostFacts> {
        let mut found = Found::default();
        scan(&Text::new("test", text.as_bytes()), &mut found);
        let host = |fact| if let Fact::Host(host) = fact { host } else { panic!() };
        found.evidence.into_iter().map(|e| host(e.fact)).collect()
    }

    #[test]
    fn new_x86_in_a_virtual_machine() {
        let text = "```\n$ lscpu\nArchitecture:             x86_64\n  CPU op-mode(s):         32-bit, 64-bit\n\
                    CPU(s):                   64\n  On-line CPU(s) list:    0-63\n\
                    Vendor ID:                GenuineIntel\n  Model name:             Some CPU @ 2.10GHz: fast\n    \
                    CPU family:           6\n    Model:                143\n    Core(s) per socket:   32\n    \
                    Socket(s):            1\n    Flags:                fpu vme\n          de pse\n\
                    Hypervisor vendor:      KVM\nNUMA:\n  NUMA node(s):           1\n  NUMA node0 CPU(s):      0-63\n```\n\
                    CPU(s): none\n";
        let [host] = &scanned(text)[..] else { panic!() };
        assert_eq!(host.sockets, Some(1));
        assert_eq!(host.cpu_ids, Some(("GenuineIntel".to_owned(), 6, 143)));
        assert_eq!(host.hypervisor.as_deref(), Some("KVM"));
        assert_eq!(host.cpu_model.as_deref(), Some("Some CPU @ 2.10GHz: fast"));
        assert_eq!(host.numa[0].cpus, Some("0-63".parse().unwrap()));
    }

    #[test]
    fn power_with_nodes_of_gpu_memory() {
        let text = "Architecture:        ppc64le\nCPU(s):              128\nSocket(s):           2\n\
                    Model:               2.3 (pvr 004e 1203)\nModel name:          POWER9, altivec supported\n\
                    NUMA node0 CPU(s):   0-63\nNUMA node8 CPU(s):   64-127\nNUMA node255 CPU(s): \n";
        let [host] = &scanned(text)[..] else { panic!() };
        assert_eq!(host.numa.iter().map(|n| n.id).collect::<Vec<_>>(), [0, 8]);
        assert_eq!((host.arch.as_deref(), host.sockets, host.cpu_ids.is_none()), (Some("ppc64le"), Some(2), true));
    }
}
