//! One step of training a transformer with data, tensor and pipeline parallelism, as Megatron-LM lays it out (Narayanan et
//! al., SC 2021): GPUs of one tensor group next to each other, then data-parallel copies, then stages.
//!
//! A stage's forward pass of a micro-batch takes 2 floating-point operations a parameter and token, the backward pass twice
//! that. After each, the tensor group sums two activations a layer, one all-reduce after the other around the best rings of
//! its GPUs. Activations then go to the next stage, or gradients to the one before. Each stage takes forward and backward
//! passes in turn (one forward, one backward). At last the copies sum their gradients, around the best rings of theirs.
//!
//! The all-reduces of a pass are one transfer for each pair of neighbours on a ring, with the bytes of all of them. It starts
//! later by what the steps of these all-reduces take longer than their bytes, for a group that is alone.

use std::collections::HashMap;

use super::super::SimulateError;
use super::super::outcome;
use super::super::program::{Program, Round, Step};
use super::collectives::add_ring;
use super::parameters::Parameters;
use crate::cluster::rings::{RingFinder, SharedRings};
use crate::cluster::{Cluster, Place, Router, Via};
use peerlane_machine::fabric::NodeId;
use peerlane_machine::matrix::Engine;
use peerlane_model::flows::Flows;
use peerlane_read::catalogue::Parts;

/// Parameters, activations and gradients have two bytes each.
const WIDTH: f64 = 2.0;
/// What may be written.
const KNOWN: &str = "tp=8, pp=1, dp=…(all other GPUs), params=7e9, layers=32, hidden=4096, tokens=4096 (a micro-batch), \
     micro=8 (micro-batches a copy), tflops=400 (of a GPU)";

/// A step of training.
#[derive(Clone, Debug, PartialEq)]
pub struct Training {
    /// GPUs that share each layer.
    pub tensor: usize,
    /// Stages that the layers are spread over.
    pub pipeline: usize,
    /// Copies; all GPUs that there are where it is not given.
    pub data: Option<usize>,
    /// Parameters of the model.
    pub parameters: f64,
    /// Layers.
    pub layers: usize,
    /// Numbers a token and layer.
    pub hidden: usize,
    /// Tokens of a micro-batch.
    pub tokens: usize,
    /// Micro-batches a copy.
    pub micro: usize,
    /// 10¹² operations a second that a GPU does.
    pub tflops: f64,
}

impl Training {
    pub(super) fn read(text: &str) -> Result<Self, SimulateError> {
        let mut given = Parameters::new("training", text);
        let tensor = given.count("tp", 8, 1024)?;
        let pipeline = given.count("pp", 1, 1024)?;
        let data = given.count("dp", usize::MAX >> 12, usize::MAX >> 11)?;
        let parameters = given.number("params", 7e9)?;
        let layers = given.count("layers", 32, 10_000)?;
        let hidden = given.count("hidden", 4096, 1 << 20)?;
        let tokens = given.count("tokens", 4096, 1 << 30)?;
        let micro = given.count("micro", 8, 10_000)?;
        let tflops = given.number("tflops", 400.0)?;
        given.finish(KNOWN)?;
        let data = (data != usize::MAX >> 12).then_some(data);
        Ok(Training { tensor, pipeline, data, parameters, layers, hidden, tokens, micro, tflops })
    }

    pub(super) fn words(&self) -> String {
        let Training { tensor, pipeline, data, parameters, layers, hidden, tokens, micro, tflops } = self;
        let dp = data.map_or_else(String::new, |d| format!(",dp={d}"));
        format!(
            "training:tp={tensor},pp={pipeline}{dp},params={parameters},layers={layers},hidden={hidden},tokens={tokens},\
             micro={micro},tflops={tflops}"
        )
    }

    pub(super) fn program(&self, cluster: &Cluster) -> Result<Program, SimulateError> {
        let places = cluster.places();
        let refuse = |why: String| Err(SimulateError::Workload(format!("training: {why}")));
        let model = self.tensor * self.pipeline;
        let data = self.data.unwrap_or(places.len() / model);
        if data == 0 || data.saturating_mul(model) > places.len() {
            let (t, p) = (self.tensor, self.pipeline);
            return refuse(format!("tp={t} × pp={p} × dp={} needs more than {} GPUs", data.max(1), places.len()));
        }
        if !self.layers.is_multiple_of(self.pipeline) {
            return refuse(format!("{} layers are not spread evenly over {} stages", self.layers, self.pipeline));
        }
        if 8 * data * model * self.micro > 4_000_000 {
            return refuse("more than 4 million steps; take fewer micro-batches or copies".to_owned());
        }
        let routes = Router::new(cluster, Parts::embedded());
        let flows = Flows::new(routes.model(), Engine::Sm);
        let laid = Laid {
            step: self,
            data,
            places,
            finder: RingFinder::new(&flows, |gpu| routes.nic_of(gpu)),
            router: Router::new(cluster, Parts::embedded()),
            delays: HashMap::new(),
        };
        laid.program()
    }
}

/// A step on a cluster's GPUs.
struct Laid<'l, 'm, 'a> {
    step: &'l Training,
    /// Copies.
    data: usize,
    places: Vec<Place>,
    finder: RingFinder<'l, 'm, 'a>,
    /// For the time that sums take alone.
    router: Router<'l>,
    /// By the places of a group, nodes counted from its first, how much longer than its bytes its sums take.
    delays: HashMap<Vec<(u32, NodeId)>, f64>,
}

/// What a tensor group sends in one pass: each from one GPU to the next on a ring, with its bytes and its start.
type Sums = Vec<(Place, Place, f64, f64)>;

impl Laid<'_, '_, '_> {
    fn program(mut self) -> Result<Program, SimulateError> {
        let mut rounds = vec![self.passes()?];
        if self.data > 1 {
            rounds.push(self.gradients());
        }
        Ok(Program { rounds })
    }

    fn place(&self, stage: usize, copy: usize, t: usize) -> Place {
        self.places[(stage * self.data + copy) * self.step.tensor + t]
    }

    /// The sums of a group of GPUs in one pass: `count` all-reduces of `bytes` each, one after the other.
    fn sums(&mut self, group: &[Place], count: f64, bytes: f64) -> Result<Sums, SimulateError> {
        let rings = self.finder.rings(group);
        if rings.is_empty() {
            return Ok(Sums::new());
        }
        let turns = 2.0 * (group.len() as f64 - 1.0);
        let part = bytes / group.len() as f64;
        let (mut steps, mut pairs) = (Vec::new(), Vec::new());
        rings.iter().for_each(|(ring, share)| add_ring(ring, part * share, &mut steps, &mut pairs));
        let whole = |step: &Step| match *step {
            Step::Move { from, to, bytes, .. } => Step::send(from, to, bytes * count * turns),
            computed => computed,
        };
        let all: Vec<Step> = steps.iter().map(whole).collect();
        // groups that lie alike in their nodes take as long
        let first = group.first().map_or(0, |place| place.node);
        let key = group.iter().map(|place| (place.node.abs_diff(first), place.device)).collect();
        let delay = match self.delays.get(&key) {
            Some(known) => *known,
            None => {
                let mut time = |round| {
                    let program = Program { rounds: vec![round] };
                    outcome::run(&program, &mut self.router, Engine::Sm).map(|outcome| outcome.time)
                };
                let step_by_step = time(Round::repeated("sums", steps, pairs, turns as u64))?;
                let delay = (count * step_by_step - time(Round::at_once("sums", all.clone()))?).max(0.0);
                self.delays.insert(key, delay);
                delay
            }
        };
        let sum = |step: &Step| match *step {
            Step::Move { from, to, bytes, .. } => Some((from, to, bytes, delay)),
            Step::Compute { .. } | Step::Together { .. } => None,
        };
        Ok(all.iter().filter_map(sum).collect())
    }

    /// Forward and backward passes of all micro-batches.
    fn passes(&mut self) -> Result<Round, SimulateError> {
        let &Training { tensor: tp, pipeline: pp, micro, .. } = self.step;
        let data = self.data;
        let (tokens, hidden) = (self.step.tokens as f64, self.step.hidden as f64);
        let forward = 2.0 * self.step.parameters / (tp * pp) as f64 * tokens / (self.step.tflops * 1e12);
        let activation = tokens * hidden * WIDTH;
        let sums_a_pass = 2.0 * (self.step.layers / pp) as f64;
        let mut summed: Vec<Sums> = Vec::with_capacity(pp * data);
        for (stage, copy) in (0..pp).flat_map(|s| (0..data).map(move |c| (s, c))) {
            let group: Vec<Place> = (0..tp).map(|t| self.place(stage, copy, t)).collect();
            summed.push(self.sums(&group, sums_a_pass, activation)?);
        }
        // of each pass, by direction, stage, copy and micro-batch, the first of its steps: all compute, all sum, all pass on
        let mut firsts: Vec<u32> = Vec::with_capacity(2 * pp * data * micro);
        let mut count = 0;
        for (_, stage, copy, _) in product([2, pp, data, micro]) {
            firsts.push(count);
            count += (2 * tp + summed[stage * data + copy].len()) as u32;
        }
        let first =
            |back: usize, stage: usize, copy: usize, m: usize| firsts[((back * pp + stage) * data + copy) * micro + m];
        let passing = |back: usize, stage: usize, copy: usize, m: usize| {
            first(back, stage, copy, m) + (tp + summed[stage * data + copy].len()) as u32
        };
        let (mut steps, mut within) = (Vec::with_capacity(count as usize), Vec::new());
        for (back, stage, copy, m) in product([2, pp, data, micro]) {
            let seconds = if back == 1 { 2.0 * forward } else { forward };
            let next = if back == 1 { stage.checked_sub(1) } else { Some(stage + 1).filter(|s| *s < pp) };
            let (base, sums) = (first(back, stage, copy, m), &summed[stage * data + copy]);
            let at = |t: usize| self.place(stage, copy, t);
            steps.extend((0..tp).map(|t| Step::Compute { on: at(t), seconds }));
            for (i, &(from, to, bytes, delay)) in (0..).zip(sums) {
                let sum = base + tp as u32 + i;
                steps.push(Step::Move { from, to, bytes, delay, via: Via::Direct });
                // a ring moves when all of the group have computed, and is done when all have passed everything on
                within.extend((0..tp as u32).map(|t| (base + t, sum)));
                within.extend((0..tp as u32).map(|t| (sum, passing(back, stage, copy, m) + t)));
            }
            for t in 0..tp {
                let pass = passing(back, stage, copy, m) + t as u32;
                let to = next.map_or(at(t), |next| self.place(next, copy, t));
                steps.push(Step::send(at(t), to, activation / tp as f64));
                within.push((base + t as u32, pass));
                if let Some(next) = next {
                    within.push((pass, first(back, next, copy, m) + t as u32));
                } else if back == 0 {
                    within.push((pass, first(1, stage, copy, m) + t as u32));
                }
            }
        }
        // in which order a stage does its passes: enough forward ones to fill the stages behind it, then in turn
        for (stage, copy) in (0..pp).flat_map(|s| (0..data).map(move |c| (s, c))) {
            let ahead = (pp - stage).min(micro);
            let mut order: Vec<(usize, usize)> = (0..ahead).map(|m| (0, m)).collect();
            for m in 0..micro {
                order.push((1, m));
                order.extend((m + ahead < micro).then_some((0, m + ahead)));
            }
            for pair in order.windows(2) {
                let [(back, m), (back_after, m_after)] = [pair[0], pair[1]];
                let (before, after) = (passing(back, stage, copy, m), first(back_after, stage, copy, m_after));
                within.extend((0..tp as u32).map(|t| (before + t, after + t)));
            }
        }
        Ok(Round { within, ..Round::at_once("forward and backward passes", steps) })
    }

    /// Rings of copies for each part of the model.
    fn gradients(&mut self) -> Round {
        let &Training { tensor, pipeline, .. } = self.step;
        let data = self.data;
        let bytes = self.step.parameters / (tensor * pipeline) as f64 * WIDTH / data as f64;
        let (mut steps, mut pairs) = (Vec::new(), Vec::new());
        for (stage, t) in (0..pipeline).flat_map(|s| (0..tensor).map(move |t| (s, t))) {
            let copies: Vec<Place> = (0..data).map(|copy| self.place(stage, copy, t)).collect();
            let rings: SharedRings = self.finder.rings(&copies);
            rings.iter().for_each(|(ring, share)| add_ring(ring, bytes * share, &mut steps, &mut pairs));
        }
        Round::repeated("all-reduce of gradients", steps, pairs, 2 * (data as u64 - 1))
    }
}

/// All combinations of numbers below these, the last fastest.
fn product([a, b, c, d]: [usize; 4]) -> impl Iterator<Item = (usize, usize, usize, usize)> {
    (0..a * b * c * d).map(move |i| (i / (b * c * d), i / (c * d) % b, i / d % c, i % d))
}

#[cfg(test)]
mod tests {
    use super::super::super::outcome::run;
    use super::super::{Algorithm, Workload};
    use super::*;
    use crate::cluster::Wanted;
    use peerlane_machine::units::Seconds;
    use peerlane_read::catalogue::system;

    fn time(cluster: &Cluster, workload: &Workload, size: f64) -> f64 {
        let mut router = Router::new(cluster, Parts::embedded());
        let program = workload.program(cluster, &router, size).unwrap();
        run(&program, &mut router, Engine::Sm).unwrap().time
    }

    fn single(name: &str) -> Cluster {
        Cluster::single(system(name).unwrap().unwrap())
    }

    fn many(name: &str, nodes: u32, network: &str) -> Cluster {
        let wanted: Wanted = network.parse().unwrap();
        Cluster::of(system(name).unwrap().unwrap(), nodes, &wanted, None, Seconds::from_us(0.3)).unwrap()
    }

    fn close(got: f64, expected: f64) {
        assert!((got / expected - 1.0).abs() < 1e-6, "{got} for {expected}");
    }

    #[test]
    fn tensor_groups_sum_as_all_reduces_do() {
        let ring = Workload::AllReduce(Algorithm::Ring);
        for cluster in [single("hgx-h200"), single("dgx-1v"), many("hgx-h200", 2, "rail")] {
            let gpus = cluster.places().len();
            let text = format!("training:tp={gpus},dp=1,params=1,layers=3,hidden=4096,tokens=4096,micro=2");
            let step = text.parse::<Workload>().unwrap();
            // two sums a layer, forward and backward, of each micro-batch
            let sums = 2.0 * 3.0 * 2.0 * 2.0 * time(&cluster, &ring, 4096.0 * 4096.0 * 2.0);
            close(time(&cluster, &step, 0.0), sums);
        }
    }

    #[test]
    fn copies_sum_their_gradients_as_all_reduces_do() {
        let ring = Workload::AllReduce(Algorithm::Ring);
        for cluster in [single("dgx-1v"), single("hgx-h200"), many("hgx-h200", 4, "rail")] {
            let step = "training:tp=1,params=1e8,micro=1,tokens=1,tflops=1e9".parse::<Workload>().unwrap();
            close(time(&cluster, &step, 0.0), time(&cluster, &ring, 2e8));
        }
    }

    #[test]
    fn groups_in_one_node_share_its_links() {
        // gradients of eight parts go from node to node, each through the NIC of its own GPU
        let cluster = many("hgx-h200", 2, "rail");
        let step =
            "training:tp=8,params=8e8,layers=1,hidden=1,micro=1,tokens=1,tflops=1e9".parse::<Workload>().unwrap();
        let mut router = Router::new(&cluster, Parts::embedded());
        let [from, to] = ["node0/GPU0", "node1/GPU0"].map(|name| cluster.find(name).unwrap());
        let nic = router.way(from, to, Engine::Sm).unwrap().lone;
        // 1e8 parameters of two bytes each, a ring of two: half of them, twice
        let alone = 2e8 / nic;
        let got = time(&cluster, &step, 0.0);
        assert!(got > alone && got < alone * 1.05, "{got}, not {alone}");
    }
}
