//! How long a step of training takes: closed forms over the time that a layer computes and that its communication takes.
//!
//! * Tensor parallelism: two sums of activations a layer and pass, or with sequence parallelism as many pairs of an all-gather and
//!   a reduce-scatter, which carry the same (Korthikanti et al., MLSys 2023).
//! * Context parallelism: keys and values go around a ring while attention works on those that are there (Liu et al., Ring
//!   Attention, 2023); what a turn takes longer than that is exposed.
//! * Experts: tokens go to their experts and back, an all-to-all each, in both passes.
//! * Stages: of m micro-batches and p stages, (p − 1) / m of the passes' time is empty; a v-th of it with v chunks a stage
//!   (Narayanan et al., SC 2021); where gradients of weights fill the gaps, forward and backward less twice these (Qi et al., Zero
//!   Bubble, 2023, ZB-H1).
//! * Copies: gradients go in buckets as the backward pass of the last micro-batch ends with them, parameters as the forward pass
//!   needs them (Rajbhandari et al., ZeRO, SC 2020; Zhao et al., FSDP, VLDB 2023): what does not go on beside computing is exposed.

use super::super::SimulateError;
use super::architecture::Architecture;
use super::compute::{ATTENTION_BACK, Gpu, LayerTime, Work};
use super::memory::{Held, Memory, Stage};
use super::rates::{Groups, Kind, Rates, Took};
use super::spent::{Communication, Cost, Of, Spent};
use super::split::{Laid, Recompute, Split, Training};
use peerlane_machine::transfer::Collective;

/// Bytes of an activation or a parameter that is sent.
const WIDTH: f64 = 2.0;
/// Parameters of a bucket of gradients at least, and for each copy (Megatron-LM, `DistributedDataParallelConfig`).
const BUCKET: f64 = 40e6;
const BUCKET_EACH: f64 = 1e6;
/// Bytes that Adam reads and writes for a parameter: gradient, copy and moments in FP32, and the parameter.
const ADAM: f64 = 30.0;

/// Layers of a stage: with experts, without; and whether it has the input and the output.
#[derive(Clone, Copy, Debug)]
struct Layers {
    with: f64,
    without: f64,
    input: bool,
    output: bool,
}

/// The stages that differ: the first, the last, one between.
fn stages(model: &Architecture, split: &Split) -> Vec<Layers> {
    let (p, all) = (split.pp, split.pp * split.chunks);
    if p == 1 {
        let with = model.expert_layers() as f64;
        return vec![Layers { with, without: model.layers as f64 - with, input: true, output: true }];
    }
    let of_chunk = model.layers.div_ceil(all);
    let most = of_chunk * split.chunks;
    // the stages with input and output have a layer less where some have
    let spare = of_chunk * all - model.layers;
    let dense = model.layers - model.expert_layers();
    let first = most - usize::from(spare >= 2);
    let last = most - usize::from(spare >= 1);
    let of = |layers: usize, dense: usize, input, output| {
        let without = if model.experts.is_some() { dense.min(layers) } else { layers };
        Layers { with: (layers - without) as f64, without: without as f64, input, output }
    };
    let mut found = vec![of(first, dense, true, false), of(last, 0, false, true)];
    if p > 2 {
        found.push(of(most, 0, false, false));
    }
    found
}

/// A step on GPUs of which times are known.
pub struct Stepper<'t> {
    job: &'t Training,
    gpu: &'t Gpu,
    laid: Laid,
    tokens: f64,
}

/// What a layer waits for in a pass: its tensor group, keys and values, experts.
#[derive(Clone, Copy, Debug, Default)]
struct Waits {
    tensor: f64,
    context: f64,
    experts: f64,
}

impl<'t> Stepper<'t> {
    /// Of a job on so many GPUs.
    ///
    /// # Errors
    /// Where the split does not fit the model or the GPUs.
    pub fn new(job: &'t Training, gpu: &'t Gpu, gpus: usize) -> Result<Self, SimulateError> {
        let laid = job.laid(gpus)?;
        let tokens = job.split.mbs as f64 * job.seq as f64 / job.split.cp as f64;
        Ok(Stepper { job, gpu, laid, tokens })
    }

    /// GPUs that share experts as the tensor group shares other matrices.
    fn expert_tp(&self) -> f64 {
        // each of an expert group has the tokens of all of its members for its own experts
        self.job.split.tp as f64
    }

    /// GPUs that take part.
    pub fn gpus(&self) -> usize {
        self.laid.copies * self.job.split.of_copy()
    }

    /// Parameters that a GPU of a stage holds.
    fn held(&self, stage: Layers) -> Held {
        let (model, Split { tp, ep, .. }) = (&self.job.model, self.job.split);
        let tp = tp as f64;
        let [input, output] = model.ends();
        // a shared matrix is there at both ends
        let output = if model.tied && self.job.split.pp > 1 { (model.vocab * model.hidden) as f64 } else { output };
        let ends = if stage.input { input } else { 0.0 } + if stage.output { output } else { 0.0 };
        let (with, without) = (model.layer(true), model.layer(false));
        let common = (stage.with * with.common() + stage.without * without.common() + ends) / tp;
        let experts = stage.with * with.experts;
        match ep {
            1 => Held { common: common + experts / tp, experts: 0.0 },
            ep => Held { common, experts: experts / ep as f64 },
        }
    }

    /// What its memory holds, of the stage that holds most.
    pub fn memory(&self) -> Memory {
        let (model, split) = (&self.job.model, &self.job.split);
        let (p, v, m) = (split.pp as f64, split.chunks as f64, self.laid.micro as f64);
        let of_copies = (split.cp * self.laid.copies) as f64;
        let of = |stage: Layers| {
            // the first stage keeps what it has begun, the last one only what it works on
            let kept = if split.pp == 1 || (stage.output && !stage.input) {
                1.0
            } else if split.chunks > 1 {
                (p * (1.0 + (p - 1.0) / (p * v))).min(m)
            } else {
                p.min(m)
            };
            let layer = model.layer(model.experts.is_some());
            Stage {
                held: self.held(stage),
                layer: (layer.common() + layer.experts)
                    / split.tp as f64
                    / if split.ep > 1 { split.ep as f64 } else { 1.0 },
                layers: [stage.with, stage.without],
                kept,
                tokens: self.tokens,
                seq: self.job.seq as f64,
                sharing: of_copies,
                sharing_experts: (of_copies * split.tp as f64 / split.ep as f64).max(1.0),
                gradient: self.job.gradient,
                has_output: stage.output,
            }
            .memory(model, split, self.gpu.memory)
        };
        let all = stages(model, split).into_iter().map(of);
        all.max_by(|a, b| a.total.total_cmp(&b.total)).unwrap_or_default()
    }

    /// What a step takes.
    ///
    /// # Errors
    /// Where a rate is not known.
    pub fn cost(&self, rates: &mut Rates) -> Result<Cost, SimulateError> {
        let (job, model, split) = (self.job, &self.job.model, self.job.split);
        let (p, m) = (split.pp as f64, self.laid.micro as f64);
        let mut communication = Vec::new();
        let layers = [true, false].map(|with| self.layer(with));
        let mut waits = [[Waits::default(); 2]; 2];
        for (with, of) in [(true, 0), (false, 1)] {
            if (with && model.expert_layers() > 0) || (!with && model.expert_layers() < model.layers) {
                waits[of] = self.waits(with, layers[of], rates)?;
            }
        }
        let pair = self.pair(rates)?;
        let again = split.recompute == Recompute::Full;
        let mut busiest: Option<(f64, Pass, Layers)> = None;
        for stage in stages(model, &split) {
            let pass = self.pass(stage, layers, waits, pair.map(|took| took.time).iter().sum(), again);
            if busiest.as_ref().is_none_or(|(most, ..)| pass.both() > *most) {
                busiest = Some((pass.both(), pass, stage));
            }
        }
        let Some((both, pass, stage)) = busiest else {
            return Err(SimulateError::Workload("training: no stage".to_owned()));
        };
        let gap = if split.zero_bubble { (both - 2.0 * pass.weights).max(0.0) } else { both / split.chunks as f64 };
        let mut spent = Spent {
            computing: m * pass.computing,
            tensor: m * pass.waits.tensor,
            context: m * pass.waits.context,
            experts: m * pass.waits.experts,
            bubble: (p - 1.0) * gap,
            ..Spent::default()
        };
        self.list(&mut communication, rates, stage, pair, again)?;
        if split.pp > 1 {
            let groups = Groups { size: split.pp, stride: split.tp * split.cp * self.laid.copies };
            let bytes = self.tokens * model.hidden as f64 * WIDTH / split.tp as f64;
            let took = rates.took(Kind::Message, groups, bytes)?;
            let v = split.chunks as f64;
            // a micro-batch that goes to the last stage and back waits at every step, and a stage has as many under way as there are
            // stages; with chunks, only those before the passes alternate
            spent.stages = match split.chunks {
                1 => 2.0 * (p - 1.0) * took.time * (m / p).max(1.0),
                _ => 2.0 * (p - 1.0 + p * (v - 1.0)) * took.time,
            };
            communication.push(Communication {
                of: Of::Stages,
                kind: Kind::Message,
                ranks: split.pp,
                times: 2.0 * m * v,
                bytes,
                took,
            });
        }
        let most = stages(model, &split).into_iter().map(|stage| self.held(stage));
        let held = most.max_by(|a, b| (a.common + a.experts).total_cmp(&(b.common + b.experts))).unwrap_or_default();
        spent.copies = self.copies(held, &pass, stage, rates, &mut communication)?;
        let share = |n: f64| if split.zero > 0 { n } else { 1.0 };
        let [common, experts] = self.groups().map(|groups| share(groups.size as f64));
        let own = held.common / common + held.experts / experts;
        spent.optimizer = own * ADAM / self.gpu.copies;
        let sequences = (self.laid.copies * self.laid.micro * split.mbs) as f64;
        let tokens = sequences * job.seq as f64;
        Ok(Cost {
            spent,
            memory: self.memory(),
            tokens,
            gpus: self.gpus(),
            laid: self.laid,
            operations: model.training_operations(job.seq as f64) * tokens,
            communication,
        })
    }

    fn layer(&self, with_experts: bool) -> LayerTime {
        let (job, split) = (self.job, &self.job.split);
        let work = Work {
            tokens: self.tokens,
            seq: job.seq as f64,
            tp: split.tp as f64,
            sp: split.sp,
            expert_tp: self.expert_tp(),
            imbalance: if split.ep > 1 { job.imbalance } else { 1.0 },
            format: job.format,
            flash: job.flash && split.recompute != Recompute::None,
            again: split.recompute == Recompute::Selective,
            cp: split.cp as f64,
        };
        work.layer(&job.model, with_experts, self.gpu)
    }

    /// One exchange of activations in the tensor group: an all-reduce, or an all-gather and a reduce-scatter.
    fn pair(&self, rates: &mut Rates) -> Result<[Took; 2], SimulateError> {
        let split = &self.job.split;
        let groups = Groups { size: split.tp, stride: 1 };
        let bytes = self.tokens * self.job.model.hidden as f64 * WIDTH;
        let took = |rates: &mut Rates, collective| rates.took(Kind::Collective(collective), groups, bytes);
        if split.sp {
            Ok([took(rates, Collective::AllGather)?, took(rates, Collective::ReduceScatter)?])
        } else {
            Ok([took(rates, Collective::AllReduce)?, Took::default()])
        }
    }

    /// How many exchanges a layer and pass has in its tensor group.
    fn pairs_of(&self, with_experts: bool) -> f64 {
        match self.job.model.experts.filter(|_| with_experts && self.job.split.ep > 1) {
            Some(experts) if experts.shared == 0 => 1.0,
            _ => 2.0,
        }
    }

    /// An exchange of tokens with experts: its bytes, and how much of them leaves a node.
    fn tokens_of_experts(&self) -> Option<(Kind, Groups, f64)> {
        let (job, split) = (self.job, &self.job.split);
        let experts = job.model.experts.filter(|_| split.ep > 1)?;
        let bytes = self.tokens / split.tp as f64 * (experts.top * job.model.hidden) as f64 * WIDTH * job.imbalance;
        // a token goes once to each node that has experts of its
        let between = experts.node_limit.map_or(1.0, |limit| (limit as f64 / experts.top as f64).min(1.0));
        Some((Kind::AllToAll((between * 1000.0) as u16), Groups { size: split.ep, stride: 1 }, bytes))
    }

    /// A turn of keys and values around the ring: bytes forward.
    fn turn(&self) -> Option<(Groups, f64)> {
        let (job, split) = (self.job, &self.job.split);
        let model = &job.model;
        let held = split.tp.min(model.kv_heads.max(1)) as f64;
        let bytes = self.tokens * model.kept() * WIDTH / if model.latent.is_some() { 1.0 } else { held };
        (split.cp > 1).then_some((Groups { size: split.cp, stride: split.tp }, bytes))
    }

    /// Forward and backward.
    fn waits(&self, with_experts: bool, time: LayerTime, rates: &mut Rates) -> Result<[Waits; 2], SimulateError> {
        let job = self.job;
        let pair: f64 = self.pair(rates)?.map(|took| took.time).iter().sum();
        let tensor = self.pairs_of(with_experts) * pair * (1.0 - job.tp_overlap);
        let experts = match self.tokens_of_experts().filter(|_| with_experts) {
            Some((kind, groups, bytes)) => 2.0 * rates.took(kind, groups, bytes)?.time * (1.0 - job.ep_overlap),
            None => 0.0,
        };
        let mut context = [0.0; 2];
        if let Some((groups, bytes)) = self.turn() {
            let turns = job.split.cp as f64 - 1.0;
            for (pass, (times, core)) in context.iter_mut().zip([(1.0, 1.0), (2.0, ATTENTION_BACK)]) {
                let turn = rates.took(Kind::Message, groups, times * bytes)?.time;
                *pass = turns * (turn - core * time.core / job.split.cp as f64).max(0.0);
            }
        }
        Ok(context.map(|context| Waits { tensor, context, experts }))
    }

    fn pass(&self, stage: Layers, times: [LayerTime; 2], waits: [[Waits; 2]; 2], pair: f64, again: bool) -> Pass {
        let (model, split, gpu) = (&self.job.model, &self.job.split, self.gpu);
        let mut pass = Pass::default();
        for (count, of) in [(stage.with, 0), (stage.without, 1)] {
            let (time, [forward, backward]) = (times[of], waits[of]);
            let forwards = if again { 2.0 } else { 1.0 };
            pass.computing += count * (forwards * time.forward + time.backward);
            pass.forward += count * (time.forward + forward.all());
            pass.weights += count * time.weights;
            pass.waits.tensor += count * (forwards * forward.tensor + backward.tensor);
            pass.waits.context += count * (forwards * forward.context + backward.context);
            pass.waits.experts += count * (forwards * forward.experts + backward.experts);
        }
        if stage.output && model.vocab > 0 {
            let tp = split.tp as f64;
            let logits = self.tokens * model.vocab as f64 / tp;
            let products = gpu.multiply(model.hidden as f64 * model.vocab as f64 / tp, self.tokens, self.job.format);
            pass.computing += 3.0 * products + 20.0 * logits / gpu.memory_rate;
            pass.forward += products + 12.0 * logits / gpu.memory_rate;
            pass.weights += products;
        }
        if model.vocab > 0 {
            let ends = f64::from(u8::from(stage.input)) + f64::from(u8::from(stage.output));
            pass.waits.tensor += ends * pair;
        }
        pass
    }

    /// Groups that sum the gradients of common parameters, and of experts.
    fn groups(&self) -> [Groups; 2] {
        let split = &self.job.split;
        let all = split.cp * self.laid.copies;
        let common = Groups { size: all, stride: split.tp };
        match split.ep {
            1 => [common; 2],
            ep => [common, Groups { size: (all * split.tp / ep).max(1), stride: ep }],
        }
    }

    /// What copies do that goes on beside nothing.
    fn copies(
        &self,
        held: Held,
        pass: &Pass,
        stage: Layers,
        rates: &mut Rates,
        list: &mut Vec<Communication>,
    ) -> Result<f64, SimulateError> {
        let (job, split) = (self.job, &self.job.split);
        let groups = self.groups();
        if groups.iter().all(|groups| groups.size < 2) {
            return Ok(0.0);
        }
        let all = held.common + held.experts;
        let layers = stage.with + stage.without;
        let of_bucket = BUCKET.max(BUCKET_EACH * groups[0].size as f64);
        let buckets = match split.zero {
            0 | 1 if job.overlap => (all / of_bucket).ceil().clamp(1.0, layers),
            0 | 1 => 1.0,
            _ => layers,
        };
        let m = self.laid.micro as f64;
        let mut each = |rates: &mut Rates, collective, width: f64, times: f64| -> Result<f64, SimulateError> {
            let mut time = 0.0;
            for (parameters, groups) in [held.common, held.experts].into_iter().zip(groups) {
                let bytes = parameters * width / buckets;
                let took = rates.took(Kind::Collective(collective), groups, bytes)?;
                if took.time > 0.0 {
                    let kind = Kind::Collective(collective);
                    let times = times * buckets;
                    list.push(Communication { of: Of::Copies, kind, ranks: groups.size, times, bytes, took });
                }
                time += took.time;
            }
            Ok(time)
        };
        let (forward, backward) = (pass.forward / buckets, (pass.both() - pass.forward) / buckets);
        let rest = buckets - 1.0;
        let beside = |time: f64, computing: f64| match job.overlap {
            true => time + rest * (time - computing).max(0.0),
            false => buckets * time,
        };
        Ok(match split.zero {
            0 => beside(each(rates, Collective::AllReduce, job.gradient, 1.0)?, backward),
            1 => {
                let scatter = each(rates, Collective::ReduceScatter, job.gradient, 1.0)?;
                let gather = each(rates, Collective::AllGather, WIDTH, 1.0)?;
                beside(scatter, backward) + beside(gather, forward)
            }
            2 => {
                let scatter = each(rates, Collective::ReduceScatter, job.gradient, m)?;
                let gather = each(rates, Collective::AllGather, WIDTH, 1.0)?;
                m * beside(scatter, backward) + beside(gather, forward)
            }
            _ => {
                let scatter = each(rates, Collective::ReduceScatter, job.gradient, m)?;
                let gather = each(rates, Collective::AllGather, WIDTH, 2.0 * m)?;
                // in the backward pass a layer's gradients go while the next one's parameters come; the last layer is still there
                let back = match job.overlap {
                    true => scatter + rest * (scatter + gather - backward).max(0.0),
                    false => buckets * scatter + rest * gather,
                };
                m * (beside(gather, forward) + back)
            }
        })
    }

    /// What the layers of the busiest stage communicate.
    fn list(
        &self,
        list: &mut Vec<Communication>,
        rates: &mut Rates,
        stage: Layers,
        pair: [Took; 2],
        again: bool,
    ) -> Result<(), SimulateError> {
        let (model, split, m) = (&self.job.model, &self.job.split, self.laid.micro as f64);
        let passes = if again { 3.0 } else { 2.0 };
        let layers = stage.with + stage.without;
        let ends = f64::from(u8::from(stage.input)) + f64::from(u8::from(stage.output));
        let pairs = stage.with * self.pairs_of(true) + stage.without * self.pairs_of(false);
        let pairs = m * (passes * pairs + if model.vocab > 0 { ends } else { 0.0 });
        let bytes = self.tokens * model.hidden as f64 * WIDTH;
        let kinds =
            if split.sp { [Collective::AllGather, Collective::ReduceScatter] } else { [Collective::AllReduce; 2] };
        for (collective, took) in kinds.into_iter().zip(pair).filter(|(_, took)| took.time > 0.0) {
            let kind = Kind::Collective(collective);
            list.push(Communication { of: Of::Tensor, kind, ranks: split.tp, times: pairs, bytes, took });
        }
        if let Some((groups, bytes)) = self.turn() {
            let took = rates.took(Kind::Message, groups, bytes)?;
            // twice as much in the backward pass
            let times = m * layers * (passes + 1.0) * (split.cp as f64 - 1.0);
            list.push(Communication { of: Of::Context, kind: Kind::Message, ranks: split.cp, times, bytes, took });
        }
        if let Some((kind, groups, bytes)) = self.tokens_of_experts() {
            let took = rates.took(kind, groups, bytes)?;
            let times = 2.0 * m * stage.with * passes;
            list.push(Communication { of: Of::Experts, kind, ranks: split.ep, times, bytes, took });
        }
        Ok(())
    }
}

impl Waits {
    fn all(self) -> f64 {
        self.tensor + self.context + self.experts
    }
}

/// Both passes of a micro-batch through a stage.
#[derive(Clone, Copy, Debug, Default)]
struct Pass {
    computing: f64,
    /// The forward pass with what it waits for.
    forward: f64,
    /// Gradients of weights.
    weights: f64,
    waits: Waits,
}

impl Pass {
    fn both(&self) -> f64 {
        self.computing + self.waits.all()
    }
}

#[cfg(test)]
mod tests;
