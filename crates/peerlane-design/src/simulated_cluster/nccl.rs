//! What NCCL should deliver between nodes: the rate that its model gives on a network of nodes that are as they should be, less
//! what the paths of its ring lose to faults and to other steps of the round.

use std::collections::HashMap;

use super::predictor::{Known, Predictor, Share};
use crate::cluster::{Cluster, Latencies};
use crate::simulate::library::Library;
use peerlane_machine::fabric::NodeId;
use peerlane_measure::nodes::{End, Memory, Probe, Step, Transport};
use peerlane_model::collectives::Choice;
use peerlane_model::expectation::{Bottleneck, Expected};
use peerlane_model::solve::Problem;

/// Rates by probe, nodes and GPUs of each.
pub(super) type Rates = HashMap<(Probe, usize, usize), Option<f64>>;

impl Predictor<'_> {
    /// What each step of NCCL's should deliver while the others run.
    pub(super) fn by_nccl(&mut self, steps: &[&Step], share: &Share) -> Vec<Option<Expected>> {
        let edges: Vec<Vec<Step>> = steps.iter().map(|step| self.edges(step)).collect();
        let together: Vec<&Step> = edges.iter().flatten().collect();
        let mut together = self.paced(&together, share).into_iter();
        let mut all = Vec::with_capacity(steps.len());
        for (step, edges) in steps.iter().zip(&edges) {
            let alone = self.paced(&edges.iter().collect::<Vec<_>>(), &Share::NONE);
            let paced = together.by_ref().take(edges.len());
            // a ring is as fast as its slowest path
            let shared = paced.zip(alone).filter_map(|(paced, alone)| Some(paced? / alone?));
            let own = edges.iter().chain([*step]).map(|step| (share.of_step)(step));
            let left = own.chain(shared).fold(1.0, f64::min);
            let mut through: Vec<String> = Vec::new();
            for edge in edges {
                let key = self.known(edge);
                let known = key.and_then(|key| self.routes.get(&key)?.as_ref());
                through.extend(known.into_iter().flat_map(|known| known.through.iter().cloned()));
            }
            through.sort();
            through.dedup();
            let binding = Bottleneck { through, ..Bottleneck::default() };
            all.push(self.rate(step).map(|rate| Expected::exactly(rate * left, binding)));
        }
        all
    }

    /// The rates of transfers that run at once, with what faults leave of the network.
    fn paced(&mut self, steps: &[&Step], share: &Share) -> Vec<Option<f64>> {
        let keys: Vec<_> = steps.iter().map(|step| self.known(step)).collect();
        let known: Vec<Option<&Known>> =
            keys.iter().map(|key| key.as_ref().and_then(|key| self.routes.get(key)?.as_ref())).collect();
        let demands: Vec<_> = known.iter().flatten().map(|known| &known.route.demand).collect();
        let problem = Problem::of(demands, |r| self.resource(r, share));
        let mut rates = problem.solve().map(|solution| solution.rates).unwrap_or_default().into_iter();
        known.iter().map(|known| known.and_then(|_| rates.next())).collect()
    }

    /// Transfers that the ring of a step's nodes consists of: through each NIC from its GPU where all GPUs take part, else from
    /// the GPU through its NIC.
    fn edges(&self, step: &Step) -> Vec<Step> {
        let (fabric, gpus) = (&self.cluster.node.fabric, self.cluster.gpus());
        let rails: Vec<(u32, NodeId)> = match step.from.memory.device().and_then(|gpu| fabric.find(gpu)) {
            Some(gpu) if !step.is_among_many() => vec![(self.router.nic_of(gpu), gpu)],
            _ => self.router.rails(&gpus).into_iter().filter_map(|(nic, gpu)| Some((nic, *gpus.get(gpu)?))).collect(),
        };
        let nodes: Vec<usize> = step.nodes().collect();
        let next = nodes.iter().cycle().skip(1);
        let pairs: Vec<(usize, usize)> = nodes.iter().copied().zip(next.copied()).collect();
        let mut edges = Vec::with_capacity(rails.len() * pairs.len());
        for (nic, gpu) in rails {
            let Some(nic) = self.cluster.nics.get(nic as usize) else { continue };
            let [nic, gpu] = [*nic, gpu].map(|id| fabric.node(id).name.clone());
            let end = |node| End { node, nic: Some(nic.clone()), memory: Memory::Device(gpu.clone()) };
            edges.extend(pairs.iter().map(|(a, b)| Step {
                from: end(*a),
                to: end(*b),
                transport: Transport::Verbs,
                probe: Probe::Write,
                size: step.size,
                queue_pairs: 1,
                between: Vec::new(),
            }));
        }
        edges
    }

    /// The bus bandwidth that NCCL's model gives, alone and without a fault.
    fn rate(&mut self, step: &Step) -> Option<f64> {
        let collective = step.probe.collective()?;
        let nodes = step.nodes().count();
        let gpus = (step.queue_pairs as usize).checked_div(nodes).filter(|gpus| *gpus > 0)?;
        let cluster = self.cluster;
        *self.nccl.entry((step.probe, nodes, gpus)).or_insert_with(|| {
            let network = cluster.latencies.network.or(Latencies::NCCL.network);
            let latencies = Latencies { network, ..cluster.latencies };
            let taking = (u32::try_from(nodes).ok()?, gpus);
            let cluster = Cluster { latencies, taking, ..cluster.clone() };
            let library = Library::of(&cluster, collective, Choice::FREE, None).ok()?;
            library.predict(step.size, Choice::FREE).ok().map(|predicted| predicted.rate)
        })
    }
}
