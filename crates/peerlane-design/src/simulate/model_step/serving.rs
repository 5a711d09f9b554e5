//! How long inference takes: a step of decoding, which gives each sequence a token; a prefill, which reads prompts; and both on
//! GPUs of their own, with the keys and values that go from one to the other.
//!
//! A step of decoding reads all weights and all keys and values once: it takes as long as memory takes to give them, or as
//! products take, whichever is longer, layer by layer (Pope et al., Efficiently Scaling Transformer Inference, MLSys 2023), and
//! what its kernels take to begin and end in a CUDA graph.

use super::super::SimulateError;
use super::super::parameters::Parameters;
use super::architecture::{Architecture, MODEL, read_model};
use super::compute::{Gpu, Work};
use super::memory::Memory;
use super::rates::{Groups, Kind, Rates};
use super::spent::{Communication, Of, Spent};
use super::split::{Format, Pace};
use peerlane_machine::transfer::Collective;

/// Bytes of an activation that is sent.
const WIDTH: f64 = 2.0;
/// Seconds that the kernels of a layer take to begin and end, one after the other: nothing hides them where a token takes
/// milliseconds. Two H200 took 34 to 40 µs a layer of twelve kernels more than its bytes do (`captures/h200x2-vm-decode`);
/// servers of models run about ten.
const KERNELS: f64 = 10.0 * 2.9e-6;
/// What may be written.
const KNOWN: &str = "tp=8, pp=1, dp=…(all other GPUs), ep=1, batch= (sequences of a copy), context= (tokens of each; decode) or \
     prompt= (tokens; prefill, serve), output= (tokens; serve), dtype=bf16|fp8|fp4 (of weights), kv=bf16|fp8, imbalance=1, \
     tflops= or mfu= (of computing), memory= (GB a GPU); serve: prefill-tp=, prefill-batch=1";

/// What is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// A token for each sequence.
    Decode,
    /// Prompts are read.
    Prefill,
    /// Both, on GPUs of their own.
    Serve,
}

impl Phase {
    /// As it is written.
    pub fn name(self) -> &'static str {
        match self {
            Phase::Decode => "decode",
            Phase::Prefill => "prefill",
            Phase::Serve => "serve",
        }
    }
}

/// Inference.
#[derive(Clone, Debug, PartialEq)]
pub struct Serving {
    /// What is done.
    pub phase: Phase,
    /// The model.
    pub model: Architecture,
    /// What was written of it.
    pub model_words: String,
    /// GPUs that share each matrix, of decoding or of the one phase.
    pub tp: usize,
    /// Stages.
    pub pp: usize,
    /// Copies; all GPUs that there are where it is 0.
    pub dp: usize,
    /// GPUs that share the experts.
    pub ep: usize,
    /// Sequences of a copy.
    pub batch: usize,
    /// Tokens of each: that attention sees, or of a prompt.
    pub length: usize,
    /// Tokens that are made for a prompt.
    pub output: usize,
    /// Of a prefill apart: GPUs that share each matrix, and prompts at once.
    pub prefill: (usize, usize),
    /// Of weights.
    pub format: Format,
    /// Of keys and values.
    pub kept: Format,
    /// Tokens of the busiest GPU's experts over those of the mean.
    pub imbalance: f64,
    /// How fast a GPU computes.
    pub pace: Pace,
    /// Bytes of memory of a GPU, in place of its part's.
    pub memory: Option<f64>,
}

/// What inference costs.
#[derive(Clone, Debug, PartialEq)]
pub struct Served {
    /// Seconds: until each sequence has its token, or until prompts are read.
    pub spent: Spent,
    /// What a GPU's memory holds.
    pub memory: Memory,
    /// Tokens of all copies in that time.
    pub tokens: f64,
    /// Tokens a second, of all copies.
    pub rate: f64,
    /// GPUs of all copies.
    pub gpus: usize,
    /// Copies.
    pub copies: usize,
    /// Operations of all copies that the model needs.
    pub operations: f64,
    /// Share of the memory's peak rate that weights, keys and values take, of decoding.
    pub memory_share: Option<f64>,
    /// Sequences of this length that fit a copy, where its memory is known.
    pub most: Option<f64>,
    /// What is communicated.
    pub communication: Vec<Communication>,
}

/// A prefill and decoding apart.
#[derive(Clone, Debug, PartialEq)]
pub struct Apart {
    /// The prefill of one copy.
    pub prefill: Served,
    /// Decoding of one copy.
    pub decode: Served,
    /// Bytes of a prompt's keys and values.
    pub bytes: f64,
    /// Seconds that they take from one to the other, with what holds them.
    pub transfer: super::rates::Took,
    /// Copies that read prompts, and that decode.
    pub copies: (usize, usize),
    /// Prompts a second of all of them.
    pub requests: f64,
}

impl Serving {
    /// What stands behind `decode:`, `prefill:` or `serve:`.
    ///
    /// # Errors
    /// Names the argument that is wrong.
    pub fn read(phase: Phase, text: &str) -> Result<Self, SimulateError> {
        let mut given = Parameters::new(phase.name(), text);
        let (model, model_words) = read_model(&mut given)?;
        let length = if phase == Phase::Decode { "context" } else { "prompt" };
        let tp = given.count("tp", 1, 1024)?;
        let serve = phase == Phase::Serve;
        let serving = Serving {
            phase,
            model,
            model_words,
            tp,
            pp: if serve { 1 } else { given.count("pp", 1, 10_000)? },
            dp: if serve { 0 } else { given.counted("dp", 1 << 24)?.unwrap_or(0) },
            ep: given.count("ep", 1, 1 << 16)?,
            batch: given.count("batch", if phase == Phase::Prefill { 1 } else { 32 }, 1 << 24)?,
            length: given.count(length, 2048, 1 << 30)?,
            output: if serve { given.count("output", 256, 1 << 30)? } else { 0 },
            prefill: match serve {
                true => (given.count("prefill-tp", tp, 1024)?, given.count("prefill-batch", 1, 1 << 20)?),
                false => (tp, 1),
            },
            format: Format::read(&mut given, "dtype", &[Format::Bf16, Format::Fp8, Format::Fp4])?,
            kept: Format::read(&mut given, "kv", &[Format::Bf16, Format::Fp8])?,
            imbalance: given.numbered("imbalance", 1e6)?.unwrap_or(1.0).max(1.0),
            pace: Pace::read(&mut given)?,
            memory: given.numbered("memory", 1e6)?.map(|gb| gb * 1e9),
        };
        given.finish(&format!("{MODEL}; {KNOWN}"))?;
        serving.fits()?;
        Ok(serving)
    }

    fn refuse<T>(&self, why: String) -> Result<T, SimulateError> {
        Err(SimulateError::Workload(format!("{}: {why}", self.phase.name())))
    }

    /// Whether the split divides the model.
    fn fits(&self) -> Result<(), SimulateError> {
        let model = &self.model;
        for (name, tp) in [("tp", self.tp), ("prefill-tp", self.prefill.0)] {
            if !model.heads.is_multiple_of(tp) {
                return self.refuse(format!("{name}={tp} does not divide heads={}", model.heads));
            }
            if model.kv_heads > 0 && !model.kv_heads.is_multiple_of(tp) && !tp.is_multiple_of(model.kv_heads) {
                return self.refuse(format!("{name}={tp} and kv_heads={}: neither divides the other", model.kv_heads));
            }
        }
        if self.pp > model.layers {
            return self.refuse(format!("pp={} is more than layers={}", self.pp, model.layers));
        }
        if !self.batch.is_multiple_of(self.pp) {
            return self.refuse(format!("batch={} is not divided by pp={}", self.batch, self.pp));
        }
        match model.experts {
            None if self.ep > 1 => self.refuse(format!("ep={} is for experts, and {} has none", self.ep, model.name)),
            Some(experts) if !experts.count.is_multiple_of(self.ep) => {
                self.refuse(format!("ep={} does not divide experts={}", self.ep, experts.count))
            }
            _ => Ok(()),
        }
    }

    /// As it is written.
    pub fn words(&self) -> String {
        let Serving { phase, tp, pp, dp, ep, batch, length, output, prefill, format, kept, imbalance, .. } = self;
        let mut text = format!("{}:{},tp={tp}", phase.name(), self.model_words);
        for (name, value, default) in [("pp", *pp, 1), ("dp", *dp, 0), ("ep", *ep, 1)] {
            if value != default {
                text.push_str(&format!(",{name}={value}"));
            }
        }
        text.push_str(&format!(",batch={batch}"));
        text.push_str(&match phase {
            Phase::Decode => format!(",context={length}"),
            Phase::Prefill => format!(",prompt={length}"),
            Phase::Serve => {
                format!(",prompt={length},output={output},prefill-tp={},prefill-batch={}", prefill.0, prefill.1)
            }
        });
        for (name, of) in [("dtype", format), ("kv", kept)] {
            if *of != Format::Bf16 {
                text.push_str(&format!(",{name}={}", of.name()));
            }
        }
        if *imbalance != 1.0 {
            text.push_str(&format!(",imbalance={imbalance}"));
        }
        text.push_str(&self.pace.words());
        if let Some(memory) = self.memory {
            text.push_str(&format!(",memory={}", memory / 1e9));
        }
        text
    }

    /// Copies on so many GPUs.
    fn copies(&self, gpus: usize) -> Result<usize, SimulateError> {
        let of_copy = self.tp.saturating_mul(self.pp);
        let copies = if self.dp == 0 { gpus / of_copy } else { self.dp };
        if copies == 0 || copies.saturating_mul(of_copy) > gpus {
            let (tp, pp) = (self.tp, self.pp);
            return self.refuse(format!("tp={tp} × pp={pp} × dp={} needs more than {gpus} GPUs", copies.max(1)));
        }
        if !(self.tp * copies).is_multiple_of(self.ep) {
            return self.refuse(format!("ep={} does not divide tp={} × dp={copies}", self.ep, self.tp));
        }
        Ok(copies)
    }

    /// One phase on so many GPUs.
    ///
    /// # Errors
    /// Where they are too few, or a rate is not known.
    pub fn cost(&self, gpu: &Gpu, gpus: usize, rates: &mut Rates) -> Result<Served, SimulateError> {
        let copies = self.copies(gpus)?;
        let model = &self.model;
        let decode = self.phase != Phase::Prefill;
        let (pp, tp) = (self.pp as f64, self.tp as f64);
        // stages work on parts of the batch in turn
        let sequences = self.batch as f64 / if decode { pp } else { 1.0 };
        let tokens = if decode { sequences } else { sequences * self.length as f64 };
        let layers = model.layers.div_ceil(self.pp) as f64;
        let with = layers.min(model.expert_layers() as f64);
        let mut spent = Spent::default();
        let mut list = Vec::new();
        let read = self.read_of_layer();
        let work = Work {
            tokens,
            seq: self.length as f64,
            tp,
            sp: false,
            expert_tp: tp,
            imbalance: self.imbalance,
            format: self.format,
            flash: true,
            again: false,
            cp: 1.0,
        };
        let mut bytes = 0.0;
        for (count, with_experts) in
            [(with, true), (layers - with, false)].into_iter().filter(|(count, _)| *count > 0.0)
        {
            spent.computing += count
                * match decode {
                    true => {
                        let (time, moved) = self.decode_layer(gpu, with_experts, sequences, read);
                        bytes += count * moved;
                        time
                    }
                    false => work.layer(model, with_experts, gpu).forward,
                };
        }
        let output = (model.hidden * model.vocab) as f64 / tp;
        // only the last token of a prompt is predicted from
        spent.computing += gpu.multiply(output, sequences, self.format) / pp;
        bytes += output * self.format.bytes() / pp;
        let exchanged = tokens * model.hidden as f64 * WIDTH;
        let groups = Groups { size: self.tp, stride: 1 };
        let kind = Kind::Collective(Collective::AllReduce);
        let took = rates.took(kind, groups, exchanged)?;
        if self.tp > 1 {
            let shared = self.ep > 1 && model.experts.is_some_and(|experts| experts.shared == 0);
            let times = 2.0 * layers - if shared { with } else { 0.0 };
            spent.tensor = times * took.time;
            list.push(Communication {
                of: Of::Tensor,
                kind,
                ranks: self.tp,
                times: times * pp,
                bytes: exchanged,
                took,
            });
        }
        if let Some(experts) = model.experts.filter(|_| self.ep > 1) {
            let bytes = tokens / tp * (experts.top * model.hidden) as f64 * WIDTH * self.imbalance;
            let between = experts.node_limit.map_or(1.0, |limit| (limit as f64 / experts.top as f64).min(1.0));
            let kind = Kind::AllToAll((between * 1000.0) as u16);
            let took = rates.took(kind, Groups { size: self.ep, stride: 1 }, bytes)?;
            spent.experts = 2.0 * with * took.time;
            list.push(Communication { of: Of::Experts, kind, ranks: self.ep, times: 2.0 * with * pp, bytes, took });
        }
        let stage = spent.total();
        if self.pp > 1 {
            let groups = Groups { size: self.pp, stride: self.tp * copies };
            let took = rates.took(Kind::Message, groups, exchanged / tp)?;
            spent.stages = (pp - 1.0) * took.time;
            let (bytes, times) = (exchanged / tp, pp - 1.0);
            list.push(Communication { of: Of::Stages, kind: Kind::Message, ranks: self.pp, times, bytes, took });
        }
        // a token passes all stages, one after the other
        for part in [&mut spent.computing, &mut spent.tensor, &mut spent.experts] {
            *part *= pp;
        }
        let all = self.batch as f64 * copies as f64 * if decode { 1.0 } else { self.length as f64 };
        // the next prompts follow through the stages
        let period = if decode { spent.total() } else { stage };
        let seen = if decode { self.length as f64 } else { self.length as f64 / 2.0 };
        let [input, _] = model.ends();
        let used = model.used() - input + if model.tied { output * tp } else { 0.0 };
        let operations = 2.0 * used + model.layers as f64 * model.attention_operations(seen);
        let memory = self.memory(gpu, copies);
        let free = gpu.memory.map(|size| size - (memory.total - memory.kv_cache));
        Ok(Served {
            spent,
            tokens: all,
            rate: all / period,
            gpus: copies * self.tp * self.pp,
            copies,
            operations: operations * all,
            memory_share: decode.then(|| bytes * pp / spent.total() / gpu.memory_peak),
            most: free.map(|free| (free / memory.kv_cache * self.batch as f64).floor().max(0.0)),
            memory,
            communication: list,
        })
    }

    /// Bytes of keys and values of a sequence that a GPU reads in a layer.
    fn read_of_layer(&self) -> f64 {
        let held = if self.model.latent.is_some() { 1.0 } else { self.tp.min(self.model.kv_heads.max(1)) as f64 };
        self.length as f64 * self.model.kept() * self.kept.bytes() / held
    }

    /// A layer of decoding: seconds, and bytes that memory gives.
    fn decode_layer(&self, gpu: &Gpu, with_experts: bool, sequences: f64, read: f64) -> (f64, f64) {
        let (model, tp) = (&self.model, self.tp as f64);
        let layer = model.layer(with_experts);
        let mut time = KERNELS + gpu.multiply(layer.common() / tp, sequences, self.format);
        let mut bytes = layer.common() / tp * self.format.bytes();
        if let Some(experts) = model.experts.filter(|_| with_experts) {
            let spread = if self.ep > 1 { self.ep as f64 } else { tp };
            // of the experts of a GPU, those that any token of its group goes to
            let tokens = sequences * (spread / tp).max(1.0);
            let touched = 1.0 - (1.0 - experts.top as f64 / experts.count as f64).powf(tokens);
            let weights = layer.experts / spread * touched * self.format.bytes();
            let operations = 2.0 * layer.used / tp * sequences * self.imbalance;
            time += (operations / gpu.products).max(weights / gpu.memory_rate);
            bytes += weights;
        }
        let operations = match model.latent {
            // all heads read one vector
            Some(latent) => 2.0 * (self.length * model.heads * (2 * latent.key_value + latent.rope)) as f64,
            None => model.attention_operations(self.length as f64),
        };
        let kept = sequences * read;
        time += (operations * sequences / tp / gpu.attention).max(kept / gpu.memory_rate);
        (time, bytes + kept)
    }

    fn memory(&self, gpu: &Gpu, copies: usize) -> Memory {
        let (model, tp) = (&self.model, self.tp as f64);
        let layers = model.layers.div_ceil(self.pp) as f64;
        let with = layers.min(model.expert_layers() as f64);
        let (a, b) = (model.layer(true), model.layer(false));
        let spread = if self.ep > 1 { self.ep as f64 } else { tp };
        let common = (with * a.common() + (layers - with) * b.common()) / tp + with * a.experts / spread;
        let ends = model.ends().iter().sum::<f64>() / tp;
        let tokens = (self.batch * if self.phase == Phase::Prefill { self.length } else { 1 }) as f64;
        // inputs and outputs of the widest layer, and logits
        let wide = 2.0 * WIDTH * (2.0 * model.hidden as f64 + 2.0 * model.ffn as f64 / tp);
        let _ = copies;
        Memory {
            weights: (common + ends) * self.format.bytes(),
            activations: tokens.min(16_384.0) * wide + 4.0 * self.batch as f64 * model.vocab as f64 / tp,
            kv_cache: self.batch as f64 * layers * self.read_of_layer(),
            ..Memory::default()
        }
        .summed(gpu.memory)
    }

    /// Prefill and decoding on GPUs of their own, as many of each as answer most prompts.
    ///
    /// # Errors
    /// Where the GPUs are too few, or a rate is not known.
    pub fn apart(&self, gpu: &Gpu, gpus: usize, rates: &mut Rates) -> Result<Apart, SimulateError> {
        let (prefill_tp, prefill_batch) = self.prefill;
        let of_decode = self.tp.max(self.ep);
        let of_prefill = prefill_tp.max(if self.model.experts.is_some() { self.ep.min(prefill_tp) } else { 1 });
        if of_decode + of_prefill > gpus {
            return self.refuse(format!("tp={} and prefill-tp={prefill_tp} need more than {gpus} GPUs", self.tp));
        }
        let prefill =
            Serving { phase: Phase::Prefill, tp: prefill_tp, batch: prefill_batch, ep: 1, dp: 1, ..self.clone() };
        let prefill = prefill.cost(gpu, gpus, rates)?;
        let length = self.length + self.output / 2;
        let decode =
            Serving { phase: Phase::Decode, length, dp: of_decode / self.tp, ..self.clone() }.cost(gpu, gpus, rates)?;
        let bytes = self.length as f64 * self.model.kept() * self.kept.bytes() * self.model.layers as f64;
        // each GPU of the prefill sends its part to another node
        let away = if gpus > rates.node_size() { rates.node_size() } else { of_prefill };
        let senders = prefill_tp.min(self.model.kv_heads.max(1)) as f64;
        let senders = if self.model.latent.is_some() { 1.0 } else { senders };
        let transfer =
            rates.took(Kind::Message, Groups { size: 2, stride: away }, bytes * prefill_batch as f64 / senders)?;
        let read = prefill_batch as f64 / prefill.spent.total();
        let answered = self.batch as f64 * (of_decode / self.tp) as f64 / (self.output as f64 * decode.spent.total());
        let mut best = ((0, 0), 0.0);
        for readers in 1..=(gpus - of_decode) / of_prefill {
            let decoders = (gpus - readers * of_prefill) / of_decode;
            let requests = (readers as f64 * read).min(decoders as f64 * answered);
            if requests > best.1 {
                best = ((readers, decoders), requests);
            }
        }
        Ok(Apart { prefill, decode, bytes, transfer, copies: best.0, requests: best.1 })
    }
}
