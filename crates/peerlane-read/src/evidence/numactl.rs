//! `numactl -H` (`--hardware`): NUMA nodes, their CPUs, and memory; the distances show whether the text is whole.

use super::words::{key_value, mebibytes, number_and_unit, numbered};
use super::{Fact, Found, HostFacts, NumaNode, Text};
use peerlane_machine::fabric::CpuList;

const TOOL: &str = "numactl -H";

/// The most nodes that Linux can be built for.
const MAX_NODES: usize = 1024;

pub(super) fn scan(text: &Text, found: &mut Found) {
    text.walk(|i| Some(read(text, i, available(text.line(i))?, found)));
}

/// `available: 2 nodes (0,8)`.
fn available(line: &str) -> Option<CpuList> {
    let rest = line.trim().strip_prefix("available:")?;
    let (count, list) = rest.split_once('(')?;
    let list: CpuList = list.split_once(')')?.0.parse().ok()?;
    count.contains("node").then_some(list)
}

/// Reads what stands below line `first`; returns the line to go on from.
fn read(text: &Text, first: usize, ids: CpuList, found: &mut Found) -> usize {
    let (mut nodes, mut rows) = (Vec::new(), 0);
    let mut last = first;
    for i in first + 1..text.len() {
        let line = text.line(i).trim();
        let known = match key_value(line) {
            Some(("node distances", _)) => true,
            Some((key, row)) if numbered(key, "").is_some_and(|id| ids.contains(id)) => {
                let width = row.split_whitespace().map_while(|n| n.parse::<u32>().ok()).count() as u64;
                rows += u64::from(width == ids.len());
                width > 0
            }
            Some((key, value)) => take(&ids, &mut nodes, key, value),
            // `node   0   8`, the header of the distances
            None => line.split_whitespace().next() == Some("node"),
        };
        if !known {
            break;
        }
        last = i;
    }
    let lines = text.numbers(first, last);
    if nodes.is_empty() {
        return last + 1;
    }
    if [nodes.len() as u64, rows].iter().any(|n| *n != ids.len()) {
        found.warn(text, TOOL, lines, "nodes or distances are missing: the capture is cut");
    }
    found.push(text, TOOL, lines, Fact::Host(HostFacts { numa: nodes, ..HostFacts::default() }));
    last + 1
}

/// Takes `node 0 cpus: 0 1 2`, `node 0 size: 128295 MB` (of 2²⁰ bytes).
fn take(ids: &CpuList, nodes: &mut Vec<NumaNode>, key: &str, value: &str) -> bool {
    let mut words = key.split_whitespace();
    let (Some("node"), Some(id), Some(what)) = (words.next(), words.next(), words.next()) else { return false };
    let Some(id) = numbered(id, "").filter(|id| ids.contains(*id)) else { return false };
    if nodes.iter().all(|n| n.id != id) && nodes.len() < MAX_NODES {
        nodes.push(NumaNode { id, ..NumaNode::default() });
    }
    let Some(node) = nodes.iter_mut().find(|n| n.id == id) else { return false };
    let numbers = || value.split_whitespace().map(|n| n.parse::<u32>().ok()).collect::<Option<Vec<u32>>>();
    match what {
        "cpus" => {
            node.cpus = numbers().map(|cpus| CpuList::from_ranges(cpus.into_iter().map(|c| (c, c))));
            node.cpus.is_some()
        }
        "size" => {
            let size = number_and_unit(value).filter(|(_, unit)| *unit == "MB");
            node.memory = size.map(|(n, _)| mebibytes(n));
            true
        }
        "free" => true,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use peerlane_machine::units::Bytes;

    #[test]
    fn odd_node_numbers() {
        let text = "```\n$ numactl --hardware\navailable: 3 nodes (0,8,255)\nnode 0 cpus: 0 1 2 3\nnode 0 size: 4096 MB\n\
                    node 0 free: 12 MB\nnode 8 cpus: 4 5 6 7\nnode 8 size: 2048 MB\nnode 8 free: 12 MB\n\
                    node 255 cpus:\nnode 255 size: 0 MB\nnode distances:\nnode   0   8  255\n  0:  10  40  80\n  \
                    8:  40  10  80\n255:  80  80  10\n```\n";
        let mut found = Found::default();
        scan(&Text::new("test", text.as_bytes()), &mut found);
        assert_eq!(found.warnings, []);
        assert_eq!(found.evidence[0].origin.lines, Some((3, 16)));
        let Fact::Host(host) = &found.evidence[0].fact else { panic!() };
        assert_eq!(host.numa.iter().map(|n| n.id).collect::<Vec<_>>(), [0, 8, 255]);
        assert_eq!(host.numa[1].cpus, Some("4-7".parse().unwrap()));
        assert_eq!(host.numa[2].cpus, Some(CpuList::default()));
        assert_eq!(host.numa[0].memory, Some(Bytes::from_mib(4096)));
    }

    #[test]
    fn cut_and_foreign_text() {
        let mut found = Found::default();
        scan(&Text::new("test", b"available: soon (0)\navailable: 1 nodes (0)\nnode 0 cpus: 0\n"), &mut found);
        assert_eq!((found.evidence.len(), found.warnings.len()), (1, 1));
    }
}
