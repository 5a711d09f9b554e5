//! One step of training a transformer with data, tensor and pipeline parallelism, as Megatron-LM lays it out (Narayanan et
//! al., SC 2021): GPUs of one tensor group next to each other, then data-parallel copies, then stages.
//!
//! A stage's forward pass of a micro-batch takes 2 floating-point operations a parameter and token, the backward pass twice
//! that. After each, the tensor group sums two activations a layer, all of a stage's layers at once: every GPU sends its
//! neighbour what a ring all-reduce would. Activations then go to the next stage, or gradients to the one before. Each
//! stage takes forward and backward passes in turn (one forward, one backward). At last the copies sum their gradients.

use super::super::SimulateError;
use super::super::program::{Program, Round, Step};
use super::collectives::add_ring;
use super::parameters::Parameters;
use crate::cluster::{Cluster, Place};

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
        let place = |stage: usize, copy: usize, t: usize| places[(stage * data + copy) * self.tensor + t];
        let mut rounds = vec![self.passes(data, &place)];
        if data > 1 {
            rounds.push(self.gradients(data, &place));
        }
        Ok(Program { rounds })
    }

    /// Forward and backward passes of all micro-batches.
    fn passes(&self, data: usize, place: &dyn Fn(usize, usize, usize) -> Place) -> Round {
        let &Training { tensor: tp, pipeline: pp, micro, .. } = self;
        let (tokens, hidden) = (self.tokens as f64, self.hidden as f64);
        let forward = 2.0 * self.parameters / (tp * pp) as f64 * tokens / (self.tflops * 1e12);
        let activation = tokens * hidden * WIDTH;
        let summed = 2.0 * (self.layers / pp) as f64 * activation * 2.0 * (tp as f64 - 1.0) / tp as f64;
        let (mut steps, mut within) = (Vec::new(), Vec::new());
        // by direction, stage, copy, micro-batch, GPU: the first of its steps; computing, summing, passing on
        let index = |back: usize, stage: usize, copy: usize, m: usize| {
            ((((back * pp + stage) * data + copy) * micro + m) * tp * 3) as u32
        };
        for (back, stage, copy, m) in product([2, pp, data, micro]) {
            let seconds = if back == 1 { 2.0 * forward } else { forward };
            let next = if back == 1 { stage.checked_sub(1) } else { Some(stage + 1).filter(|s| *s < pp) };
            let base = index(back, stage, copy, m);
            for t in 0..tp {
                let own = base + 3 * t as u32;
                let at = place(stage, copy, t);
                let neighbour = place(stage, copy, (t + 1) % tp);
                steps.push(Step::Compute { on: at, seconds });
                steps.push(Step::send(at, neighbour, summed));
                let to = next.map_or(at, |next| place(next, copy, t));
                steps.push(Step::send(at, to, activation / tp as f64));
                within.push((own, own + 1));
                // the ring is done when all have passed everything on
                within.extend((0..tp as u32).map(|u| (base + 3 * u + 1, own + 2)));
                if let Some(next) = next {
                    let first = index(back, next, copy, m);
                    within.push((own + 2, first + 3 * t as u32));
                } else if back == 0 {
                    within.push((own + 2, index(1, stage, copy, m) + 3 * t as u32));
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
                let [before, after] = [pair[0], pair[1]].map(|(back, m)| index(back, stage, copy, m));
                within.extend((0..tp as u32).map(|t| (before + 3 * t + 2, after + 3 * t)));
            }
        }
        Round { within, ..Round::at_once("forward and backward passes", steps) }
    }

    /// A ring of copies for each part of the model.
    fn gradients(&self, data: usize, place: &dyn Fn(usize, usize, usize) -> Place) -> Round {
        let bytes = self.parameters / (self.tensor * self.pipeline) as f64 * WIDTH / data as f64;
        let (mut steps, mut pairs) = (Vec::new(), Vec::new());
        for (stage, t) in (0..self.pipeline).flat_map(|s| (0..self.tensor).map(move |t| (s, t))) {
            let ring: Vec<Place> = (0..data).map(|copy| place(stage, copy, t)).collect();
            add_ring(&ring, bytes, &mut steps, &mut pairs);
        }
        Round::repeated("all-reduce of gradients", steps, pairs, 2 * (data as u64 - 1))
    }
}

/// All combinations of numbers below these, the last fastest.
fn product([a, b, c, d]: [usize; 4]) -> impl Iterator<Item = (usize, usize, usize, usize)> {
    (0..a * b * c * d).map(move |i| (i / (b * c * d), i / (c * d) % b, i / d % c, i % d))
}
