//! Traffic of a machine that is simulated: patterns of copies that follow each other, at the rates that the model predicts.

use std::collections::BTreeMap;

use peerlane_machine::fabric::{Interconnect, LinkKind, NodeId, NodeKind};
use peerlane_machine::units::Seconds;
use peerlane_model::model::{Model, Transfer};

use super::gauge::copy;
use super::{BothWays, Port, Sample};
use crate::run::GpuState;

/// How many samples a pattern lasts.
const LASTS: usize = 5;

/// A machine whose copies are simulated. It knows nothing of temperatures, power and clocks.
pub struct SimulatedTraffic {
    patterns: Vec<Pattern>,
    every: Seconds,
    /// Samples so far, and what the counters stand at.
    taken: usize,
    counters: Sample,
}

struct Pattern {
    words: String,
    /// Bytes a second by link of a GPU, by PCIe of a GPU, and by port.
    nvlinks: BTreeMap<String, Vec<BothWays<f64>>>,
    pcie: BTreeMap<String, BothWays<f64>>,
    ports: BTreeMap<String, BothWays<f64>>,
    busy: Vec<String>,
}

impl SimulatedTraffic {
    /// A machine that rests at first.
    pub fn new(model: &Model, every: Seconds) -> Self {
        let fabric = &model.machine.fabric;
        let gpus: Vec<NodeId> = fabric.of_kind(NodeKind::Gpu).collect();
        let host = |gpu: &NodeId| fabric.nearest_host(*gpu).map(|host| (host, *gpu));
        let from_host: Vec<_> = gpus.iter().filter_map(host).collect();
        let to_host = from_host.iter().map(|(host, gpu)| (*gpu, *host)).collect();
        let next = (0..gpus.len()).filter(|_| gpus.len() > 1).map(|i| (gpus[i], gpus[(i + 1) % gpus.len()]));
        let all = gpus.iter().flat_map(|a| gpus.iter().filter(move |b| a != *b).map(move |b| (*a, *b)));
        let nics = fabric.of_kind(NodeKind::Nic).filter_map(|nic| fabric.nearest_host(nic).map(|host| (host, nic)));
        let sets = [
            ("host memory to all GPUs", from_host),
            ("all GPUs to host memory", to_host),
            ("each GPU to the next", next.collect()),
            ("each GPU to all others", all.collect()),
            ("host memory to all adapters", nics.collect()),
        ];
        let patterns = sets.into_iter().filter_map(|(words, ends)| Pattern::of(model, words, &ends));
        let mut counters = Sample::default();
        for gpu in &gpus {
            let name = fabric.node(*gpu).name.clone();
            let links = fabric.nvlinks_of(*gpu) as usize;
            if links > 0 {
                counters.nvlinks.insert(name.clone(), vec![Some([0; 2]); links]);
            }
            if fabric.upstream(*gpu).is_some_and(|(link, _)| matches!(fabric.link(link).kind, LinkKind::Pcie { .. })) {
                counters.pcie.insert(name.clone(), [0.0; 2]);
            }
            counters.gpus.push(GpuState { gpu: name, utilization: Some(0), ..GpuState::default() });
        }
        for nic in fabric.of_kind(NodeKind::Nic) {
            let node = fabric.node(nic);
            counters.ports.insert(node.name.clone(), Port { bytes: [0; 2], address: node.address });
        }
        SimulatedTraffic { patterns: patterns.collect(), every, taken: 0, counters }
    }

    /// The next sample, one period after the last.
    pub fn sample(&mut self) -> Sample {
        let seconds = self.every.seconds();
        if self.taken > 0 {
            let playing = (self.taken - 1) / LASTS;
            let pattern = (!self.patterns.is_empty()).then(|| &self.patterns[playing % self.patterns.len()]);
            let rise = |count: &mut BothWays<u64>, rate: &BothWays<f64>| {
                for (count, rate) in count.iter_mut().zip(rate) {
                    *count += (rate * seconds) as u64;
                }
            };
            if let Some(pattern) = pattern {
                for (gpu, links) in &mut self.counters.nvlinks {
                    let rates = pattern.nvlinks.get(gpu).into_iter().flatten();
                    for (count, rate) in links.iter_mut().flatten().zip(rates) {
                        rise(count, &rate.map(|bytes| bytes / 1024.0));
                    }
                }
                for (gpu, pcie) in &mut self.counters.pcie {
                    *pcie = pattern.pcie.get(gpu).copied().unwrap_or_default();
                }
                for (nic, port) in &mut self.counters.ports {
                    if let Some(rate) = pattern.ports.get(nic) {
                        rise(&mut port.bytes, rate);
                    }
                }
                for state in &mut self.counters.gpus {
                    state.utilization = Some(if pattern.busy.contains(&state.gpu) { 100 } else { 0 });
                }
            }
            self.counters.plays = pattern.map(|pattern| pattern.words.clone());
        }
        let sum = |links: &Vec<Option<BothWays<u64>>>| {
            [0, 1].map(|way| links.iter().flatten().map(|link: &BothWays<u64>| link[way]).sum())
        };
        self.counters.nvlink = self.counters.nvlinks.iter().map(|(gpu, links)| (gpu.clone(), sum(links))).collect();
        self.counters.at = Seconds::new(self.taken as f64 * seconds);
        self.taken += 1;
        self.counters.clone()
    }
}

impl Pattern {
    /// Copies that run at once; `None` where there are none, or no rate is known.
    fn of(model: &Model, words: &str, ends: &[(NodeId, NodeId)]) -> Option<Pattern> {
        let copies = ends.iter().map(|(source, destination)| copy(*source, *destination));
        let known: Vec<Transfer> = copies.filter(|t| model.route(t).is_ok()).collect();
        let rates = model.solve(&known).ok().filter(|rates| !rates.is_empty())?;
        let fabric = &model.machine.fabric;
        let mut pattern = Pattern {
            words: words.to_owned(),
            nvlinks: BTreeMap::new(),
            pcie: BTreeMap::new(),
            ports: BTreeMap::new(),
            busy: Vec::new(),
        };
        for (transfer, shared) in known.iter().zip(rates) {
            let rate = shared.rate.bytes_per_second();
            for hop in model.route(transfer).map(|route| route.hops).unwrap_or_default() {
                pattern.send(fabric, hop.from, hop.to, 0, rate);
                pattern.send(fabric, hop.to, hop.from, 1, rate);
            }
            let ends = [transfer.source, transfer.destination].map(|end| fabric.node(end));
            pattern.busy.extend(ends.iter().filter(|end| end.kind == NodeKind::Gpu).map(|end| end.name.clone()));
            // what an adapter takes from host memory it sends out
            let port = ends.iter().position(|end| end.kind == NodeKind::Nic);
            if let Some(at) = port {
                pattern.ports.entry(ends[at].name.clone()).or_default()[1 - at] += rate;
            }
        }
        Some(pattern)
    }

    /// Adds what a GPU sends to a neighbour (`way` 0), or receives from it (1).
    fn send(&mut self, fabric: &peerlane_machine::fabric::Fabric, own: NodeId, other: NodeId, way: usize, rate: f64) {
        if fabric.node(own).kind != NodeKind::Gpu {
            return;
        }
        let mut first = 0;
        let name = &fabric.node(own).name;
        for (link, end) in fabric.links_of(own) {
            let kind = &fabric.link(*link).kind;
            let links = kind.bundle(Interconnect::Nvlink).and_then(|bundle| bundle.links).map_or(0, usize::from);
            match kind {
                _ if *end != other => {}
                LinkKind::Pcie { .. } => self.pcie.entry(name.clone()).or_default()[way] += rate,
                _ if links > 0 => {
                    let all = self.nvlinks.entry(name.clone()).or_default();
                    all.resize(all.len().max(fabric.nvlinks_of(own) as usize), [0.0; 2]);
                    for one in &mut all[first..first + links] {
                        one[way] += rate / links as f64;
                    }
                }
                _ => {}
            }
            first += links;
        }
    }
}
