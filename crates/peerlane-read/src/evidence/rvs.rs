//! Results of AMD's ROCm Validation Suite: `p2p-bandwidth` of its module pbqt, `pcie-bandwidth` of pebb, and which GPUs
//! are peers.
//!
//! A line stands for one pair. GPUs are numbered by the kernel's nodes, of which the CPUs are the first; here they are counted
//! from 0 in the same order. Running averages (`[INFO ]`) are read only where no result of the pair follows.

use std::collections::{BTreeMap, BTreeSet};

use super::grid::gpu_names;
use super::text::Span;
use super::{Direction, Fact, Found, GpuFacts, Matrix, P2pCapability, P2pMatrix, P2pStatus, Text};
use peerlane_machine::fabric::PciAddress;

const TOOL: &str = "RVS";

/// More GPUs or CPUs than any machine has.
const MAX_NODES: usize = 256;

pub(super) fn scan(text: &Text, found: &mut Found) {
    if !text.holds(&["p2p-bandwidth", "pcie-bandwidth", "] p2p [GPU::"]) {
        return;
    }
    let mut suite = Suite::default();
    for (i, line) in text.iter() {
        if suite.take(line).is_some() {
            suite.lines.add(i);
        }
    }
    suite.push(text, found);
}

/// An end of a transfer, by the kernel's node.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum End {
    Cpu(u32),
    Gpu(u32),
}

/// A direction of copies between two ends; for CPUs it tells host to device, device to host, or both.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Way {
    One,
    Back,
    Both,
}

/// What one run printed.
#[derive(Default)]
struct Suite {
    lines: Span,
    cpus: BTreeSet<u32>,
    gpus: BTreeMap<u32, Option<PciAddress>>,
    /// GB/s, and whether it is a result and no running average.
    rates: BTreeMap<(End, End, Way), (f64, bool)>,
    peers: BTreeMap<(u32, u32), bool>,
}

impl Suite {
    fn take(&mut self, line: &str) -> Option<()> {
        if let Some((_, rest)) = line.split_once("] p2p-bandwidth") {
            let both = rest.split_once("bidirectional: ")?.1.starts_with("true");
            let (from, to) = self.ends(rest)?;
            return self.rate(rest, from, to, if both { Way::Both } else { Way::One });
        }
        if let Some((_, rest)) = line.split_once("] pcie-bandwidth") {
            let (from, to) = self.ends(rest)?;
            let has = |key: &str| rest.split_once(key).is_some_and(|(_, value)| value.starts_with("true"));
            let way = match (has("h2d::"), has("d2h::")) {
                (true, true) => Way::Both,
                (true, false) => Way::One,
                (false, true) => Way::Back,
                // the line about distances
                (false, false) => return Some(()),
            };
            return self.rate(rest, from, to, way);
        }
        let (_, rest) = line.split_once("] p2p [GPU::")?;
        let (from, to) = self.ends(&format!("[GPU::{rest}"))?;
        let (End::Gpu(from), End::Gpu(to)) = (from, to) else { return None };
        let can = rest.split_once("peers:")?.1.starts_with("true");
        self.peers.insert((from, to), can);
        Some(())
    }

    /// `[GPU:: 4 - 12345 - 0000:63:00.0]`, `[CPU:: 0]`; older versions print no address.
    fn ends(&mut self, rest: &str) -> Option<(End, End)> {
        let ends: Vec<(End, Option<PciAddress>)> = rest
            .split('[')
            .filter_map(|part| {
                let (kind, rest) = part.split_once("::")?;
                let mut fields = rest.split(']').next()?.split(" - ").map(str::trim);
                let node = fields.next()?.parse().ok()?;
                match kind {
                    "CPU" => Some((End::Cpu(node), None)),
                    "GPU" => Some((End::Gpu(node), fields.find_map(|field| field.parse().ok()))),
                    _ => None,
                }
            })
            .take(2)
            .collect();
        let [from, to] = ends.as_slice() else { return None };
        if self.gpus.len() + self.cpus.len() > MAX_NODES {
            return None;
        }
        for (end, address) in [from, to] {
            match end {
                End::Cpu(node) => {
                    self.cpus.insert(*node);
                }
                End::Gpu(node) => {
                    let known = self.gpus.entry(*node).or_default();
                    *known = known.or(*address);
                }
            }
        }
        Some((from.0, to.0))
    }

    fn rate(&mut self, rest: &str, from: End, to: End, way: Way) -> Option<()> {
        let (before, after) = rest.split_once(" GBps")?;
        let value: f64 = before.split_whitespace().next_back()?.parse().ok()?;
        let result = after.contains("duration");
        let known = self.rates.entry((from, to, way)).or_insert((value, result));
        if result || !known.1 {
            *known = (value, result);
        }
        value.is_finite().then_some(())
    }

    fn push(self, text: &Text, found: &mut Found) {
        let Some(lines) = self.lines.numbers(text) else { return };
        let number: BTreeMap<u32, usize> = self.gpus.keys().enumerate().map(|(i, node)| (*node, i)).collect();
        let gpus = self.gpus.values().enumerate();
        let facts =
            gpus.map(|(i, address)| GpuFacts { index: Some(i as u32), address: *address, ..GpuFacts::default() });
        found.push(text, TOOL, lines, Fact::Gpus(facts.collect()));
        let names = gpu_names(&(0..self.gpus.len() as u32).collect::<Vec<_>>());
        let hosts: Vec<String> = match self.cpus.len() {
            0 | 1 => vec!["host".to_owned()],
            n => (0..n).map(|i| format!("host{i}")).collect(),
        };
        let host: BTreeMap<u32, usize> = self.cpus.iter().enumerate().map(|(i, node)| (*node, i)).collect();
        if self.peers.len() > 1 || !self.peers.is_empty() && self.gpus.len() > 1 {
            let mut cells = vec![vec![None; names.len()]; names.len()];
            for ((from, to), can) in &self.peers {
                if from != to {
                    cells[number[from]][number[to]] = Some(if *can { P2pStatus::Ok } else { P2pStatus::NotSupported });
                }
            }
            let matrix =
                P2pMatrix { capability: P2pCapability::Access, rows: names.clone(), cols: names.clone(), cells };
            found.push(text, TOOL, lines, Fact::P2p(matrix));
        }
        for way in [Way::One, Way::Back, Way::Both] {
            let direction = Some(if way == Way::Both { Direction::Bidirectional } else { Direction::Unidirectional });
            let mut pairs = vec![vec![None; names.len()]; names.len()];
            let mut down = vec![vec![None; names.len()]; hosts.len()];
            let mut up = vec![vec![None; hosts.len()]; names.len()];
            for ((from, to, _), (value, _)) in self.rates.iter().filter(|((_, _, of), _)| *of == way) {
                match (from, to) {
                    (End::Gpu(a), End::Gpu(b)) => pairs[number[a]][number[b]] = Some(*value),
                    (End::Cpu(c), End::Gpu(g)) if way == Way::Back => up[number[g]][host[c]] = Some(*value),
                    (End::Cpu(c), End::Gpu(g)) => down[host[c]][number[g]] = Some(*value),
                    (End::Gpu(g), End::Cpu(c)) => up[number[g]][host[c]] = Some(*value),
                    (End::Cpu(_), End::Cpu(_)) => {}
                }
            }
            let tables = [
                ("p2p-bandwidth", &names, &names, pairs),
                ("pcie-bandwidth", &hosts, &names, down),
                ("pcie-bandwidth", &names, &hosts, up),
            ];
            for (title, rows, cols, values) in tables {
                if values.iter().flatten().all(Option::is_none) {
                    continue;
                }
                let (rows, cols, title) = (rows.clone(), cols.clone(), title.to_owned());
                found.push(
                    text,
                    TOOL,
                    lines,
                    Fact::Matrix(Matrix { direction, rows, cols, values, title, ..Matrix::default() }),
                );
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::scanned;
    use super::*;

    fn matrices(found: &Found) -> Vec<&Matrix> {
        found.evidence.iter().filter_map(|e| if let Fact::Matrix(m) = &e.fact { Some(m) } else { None }).collect()
    }

    #[test]
    fn pairs_and_peers() {
        let found = scanned(
            scan,
            "[RESULT] [  5311.1] [p2p_act] p2p [GPU:: 2 - 12345 - 0000:0d:00.0] [GPU:: 3 -  5678 - 0000:10:00.0] peers:true distance:15 xGMI:15\n\
             [INFO  ] [  5312.1] [p2p_act] p2p-bandwidth[ 1/2] [GPU:: 2 - 12345 - 0000:0d:00.0] [GPU:: 3 -  5678 - 0000:10:00.0] bidirectional: false 40.000 GBps\n\
             [RESULT] [  5313.1] [p2p_act] p2p-bandwidth[ 1/2] [GPU:: 2 - 12345 - 0000:0d:00.0] [GPU:: 3 -  5678 - 0000:10:00.0] bidirectional: false 48.512 GBps duration: 1.5 secs\n\
             [RESULT] [  5314.1] [p2p_act] p2p-bandwidth[ 2/2] [GPU:: 3 -  5678 - 0000:10:00.0] [GPU:: 2 - 12345 - 0000:0d:00.0] bidirectional: false (not measured) duration: 0.0 secs\n",
        );
        let all = matrices(&found);
        assert_eq!((all.len(), all[0].between("GPU0", "GPU1"), all[0].value(1, 0)), (1, Some(48.512), None));
        let Fact::Gpus(gpus) = &found.evidence[0].fact else { panic!() };
        assert_eq!(gpus[1].address.unwrap().to_string(), "0000:10:00.0");
        assert!(found.evidence.iter().any(|e| matches!(&e.fact, Fact::P2p(p) if p.cells[0][1] == Some(P2pStatus::Ok))));
    }

    #[test]
    fn host_memory_each_way_and_both() {
        let line = |h2d: bool, d2h: bool, rate: f64| {
            format!(
                "[RESULT] [ 33.9] [pcie] pcie-bandwidth [ 1/ 2] [CPU:: 0] [GPU:: 4 -  1234 - 0000:63:00.0] h2d::{h2d} d2h::{d2h} {rate:.3} GBps duration: 2.0 secs\n"
            )
        };
        let found = scanned(scan, &[line(true, false, 55.1), line(false, true, 54.2), line(true, true, 90.3)].concat());
        let all = matrices(&found);
        assert_eq!(all[0].between("host", "GPU0"), Some(55.1));
        assert_eq!(all[1].between("GPU0", "host"), Some(54.2));
        assert_eq!((all[2].direction, all[2].between("host", "GPU0")), (Some(Direction::Bidirectional), Some(90.3)));
    }

    #[test]
    fn prose() {
        for text in ["the p2p-bandwidth test\n", "[x] p2p-bandwidth is 5 GBps\n", "[a] p2p [GPU:: x] peers:true\n"] {
            assert_eq!(scanned(scan, text), Found::default(), "{text}");
        }
    }
}
