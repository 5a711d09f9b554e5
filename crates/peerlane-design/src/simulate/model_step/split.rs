//! How a step is spread over GPUs, what it works on, and how fast a GPU is taken to compute: what stands behind `training:`.

use std::fmt;

use super::super::SimulateError;
use super::super::parameters::Parameters;
use super::architecture::{Architecture, MODEL, read_model};

/// What may be written of a step of training.
const KNOWN: &str = "tp=8, sp|no-sp, cp=1, pp=1, v=1 (chunks a stage), zb (zero bubble), dp=…(all other GPUs), ep=1, zero=0|1|2|3, \
     mbs=1 (sequences of a micro-batch), micro=8 (micro-batches a copy) or batch= (sequences a step), seq= (or tokens=), \
     recompute=none|selective|full, dtype=bf16|fp8, grads=4 (bytes), no-flash, no-overlap, tp-overlap=, ep-overlap=, imbalance=1, \
     tflops= or mfu= (of computing), memory= (GB a GPU)";
/// The most of any count.
const MOST: usize = 1 << 24;

/// What is stored of a layer for its backward pass (Korthikanti et al., MLSys 2023).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Recompute {
    /// All that it needs, with what attention gives each pair of tokens.
    None,
    /// All but that, as flash attention does.
    #[default]
    Selective,
    /// Its input alone.
    Full,
}

impl Recompute {
    /// All of them.
    pub const ALL: [Recompute; 3] = [Recompute::None, Recompute::Selective, Recompute::Full];

    /// As it is written.
    pub fn name(self) -> &'static str {
        match self {
            Recompute::None => "none",
            Recompute::Selective => "selective",
            Recompute::Full => "full",
        }
    }
}

/// The format of the numbers that are multiplied.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Format {
    /// BF16 or FP16.
    #[default]
    Bf16,
    /// FP8; what is stored and sent stays BF16 in training.
    Fp8,
    /// FP4, weights of inference alone.
    Fp4,
}

impl Format {
    /// As it is written.
    pub fn name(self) -> &'static str {
        match self {
            Format::Bf16 => "bf16",
            Format::Fp8 => "fp8",
            Format::Fp4 => "fp4",
        }
    }

    /// Bytes a number.
    pub fn bytes(self) -> f64 {
        match self {
            Format::Bf16 => 2.0,
            Format::Fp8 => 1.0,
            Format::Fp4 => 0.5,
        }
    }

    pub(super) fn read(given: &mut Parameters, key: &str, of: &[Format]) -> Result<Self, SimulateError> {
        let Some(word) = given.text(key) else { return Ok(Format::Bf16) };
        let word = if word == "fp16" { "bf16" } else { word };
        of.iter().copied().find(|format| format.name() == word).ok_or_else(|| {
            let names: Vec<&str> = of.iter().map(|format| format.name()).collect();
            given.refuse(format!("{key} is {}, not '{word}'", names.join(", ")))
        })
    }
}

/// How fast a GPU computes.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Pace {
    /// By the data sheet's rates of products and of memory, and the shares of them that are reached.
    #[default]
    Roofline,
    /// This share of the data sheet's rate of products, for all that it computes.
    Share(f64),
    /// So many operations a second, for all that it computes.
    Rate(f64),
}

impl Pace {
    pub(super) fn read(given: &mut Parameters) -> Result<Self, SimulateError> {
        let (tflops, share) = (given.numbered("tflops", 1e9)?, given.numbered("mfu", 1.0)?);
        match (tflops, share) {
            (Some(_), Some(_)) => Err(given.refuse("tflops and mfu say the same: leave one of them out".to_owned())),
            (Some(tflops), None) => Ok(Pace::Rate(tflops * 1e12)),
            (None, Some(share)) => Ok(Pace::Share(share)),
            (None, None) => Ok(Pace::Roofline),
        }
    }

    pub(super) fn words(self) -> String {
        match self {
            Pace::Roofline => String::new(),
            Pace::Share(share) => format!(",mfu={share}"),
            Pace::Rate(rate) => format!(",tflops={}", rate / 1e12),
        }
    }
}

/// How a model and its batch are divided.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Split {
    /// GPUs that share each matrix.
    pub tp: usize,
    /// Whether these also share what is between matrices, token by token.
    pub sp: bool,
    /// GPUs that share each sequence.
    pub cp: usize,
    /// Stages of layers.
    pub pp: usize,
    /// Chunks of layers that a stage has.
    pub chunks: usize,
    /// Whether gradients of weights fill the gaps between stages.
    pub zero_bubble: bool,
    /// Copies; all GPUs that there are where it is 0.
    pub dp: usize,
    /// GPUs that share the experts, each with all of some.
    pub ep: usize,
    /// What copies share: nothing, the optimizer's state, gradients too, parameters too.
    pub zero: u8,
    /// Sequences of a micro-batch.
    pub mbs: usize,
    /// What is computed again.
    pub recompute: Recompute,
}

impl Default for Split {
    fn default() -> Self {
        Split {
            tp: 1,
            sp: false,
            cp: 1,
            pp: 1,
            chunks: 1,
            zero_bubble: false,
            dp: 0,
            ep: 1,
            zero: 1,
            mbs: 1,
            recompute: Recompute::Selective,
        }
    }
}

impl Split {
    /// GPUs of one copy.
    pub fn of_copy(&self) -> usize {
        self.tp.saturating_mul(self.cp).saturating_mul(self.pp)
    }
}

impl fmt::Display for Split {
    /// Without what goes without saying.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Split { tp, sp, cp, pp, chunks, zero_bubble, dp, ep, zero, mbs, recompute } = *self;
        write!(f, "tp={tp}")?;
        if tp > 1 && !sp {
            f.write_str(",no-sp")?;
        }
        for (name, value, default) in [("cp", cp, 1), ("pp", pp, 1), ("v", chunks, 1), ("dp", dp, 0), ("ep", ep, 1)] {
            if value != default {
                write!(f, ",{name}={value}")?;
            }
        }
        if zero_bubble {
            f.write_str(",zb")?;
        }
        for (name, value) in [("zero", usize::from(zero)), ("mbs", mbs)].into_iter().filter(|(_, value)| *value != 1) {
            write!(f, ",{name}={value}")?;
        }
        match recompute {
            Recompute::Selective => Ok(()),
            how => write!(f, ",recompute={}", how.name()),
        }
    }
}

/// How many sequences a step has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Batch {
    /// Micro-batches of each copy.
    Micro(usize),
    /// Sequences of all copies.
    Sequences(usize),
}

/// A step of training.
#[derive(Clone, Debug, PartialEq)]
pub struct Training {
    /// What is trained.
    pub model: Architecture,
    /// What was written of it.
    pub model_words: String,
    /// How it is divided.
    pub split: Split,
    /// Tokens of a sequence.
    pub seq: usize,
    /// Sequences.
    pub batch: Batch,
    /// What is multiplied.
    pub format: Format,
    /// Bytes of a gradient that is summed.
    pub gradient: f64,
    /// Whether attention keeps its weights out of memory.
    pub flash: bool,
    /// Whether sums over copies go on beside computing.
    pub overlap: bool,
    /// Share of the tensor group's communication that is hidden behind products.
    pub tp_overlap: f64,
    /// Share of the experts' communication that is hidden.
    pub ep_overlap: f64,
    /// Tokens of the busiest GPU's experts over those of the mean.
    pub imbalance: f64,
    /// How fast a GPU computes.
    pub pace: Pace,
    /// Bytes of memory of a GPU, in place of its part's.
    pub memory: Option<f64>,
}

impl Training {
    /// What stands behind `training:`.
    ///
    /// # Errors
    /// Names the argument that is wrong.
    pub fn read(text: &str) -> Result<Self, SimulateError> {
        let mut given = Parameters::new("training", text);
        let (model, model_words) = read_model(&mut given)?;
        let tp = given.count("tp", if model.source.is_empty() && model.scale.is_some() { 8 } else { 1 }, 1024)?;
        let no_sp = given.flag("no-sp");
        let sp = given.flag("sp") || !no_sp;
        let split = Split {
            tp,
            sp: sp && tp > 1,
            cp: given.count("cp", 1, 1 << 16)?,
            pp: given.count("pp", 1, 10_000)?,
            chunks: given.count("v", 1, 10_000)?,
            zero_bubble: given.flag("zb"),
            dp: given.counted("dp", MOST)?.unwrap_or(0),
            ep: given.count("ep", 1, 1 << 16)?,
            zero: read_zero(&mut given)?,
            mbs: given.count("mbs", 1, 1 << 20)?,
            recompute: read_recompute(&mut given)?,
        };
        let seq = match (given.counted("seq", 1 << 30)?, given.counted("tokens", 1 << 30)?) {
            (Some(_), Some(_)) => {
                return Err(given.refuse("seq and tokens say the same: leave one of them out".to_owned()));
            }
            (seq, tokens) => seq.or(tokens).unwrap_or(model.context),
        };
        let batch = match (given.counted("micro", MOST)?, given.counted("batch", 1 << 30)?) {
            (Some(_), Some(_)) => {
                return Err(given.refuse("micro and batch say the same: leave one of them out".to_owned()));
            }
            (_, Some(batch)) => Batch::Sequences(batch),
            (micro, None) => Batch::Micro(micro.unwrap_or(8)),
        };
        let gradient = given.count("grads", 4, 4)?;
        if gradient == 1 || gradient == 3 {
            return Err(given.refuse(format!("grads is 2 or 4 bytes, not {gradient}")));
        }
        let training = Training {
            model,
            model_words,
            split,
            seq,
            batch,
            format: Format::read(&mut given, "dtype", &[Format::Bf16, Format::Fp8])?,
            gradient: gradient as f64,
            flash: !given.flag("no-flash"),
            overlap: !given.flag("no-overlap"),
            tp_overlap: given.numbered("tp-overlap", 1.0)?.unwrap_or(0.0),
            ep_overlap: given.numbered("ep-overlap", 1.0)?.unwrap_or(0.0),
            imbalance: given.numbered("imbalance", 1e6)?.unwrap_or(1.0).max(1.0),
            pace: Pace::read(&mut given)?,
            memory: given.numbered("memory", 1e6)?.map(|gb| gb * 1e9),
        };
        given.finish(&format!("{MODEL}; {KNOWN}"))?;
        Ok(training)
    }

    /// As it is written.
    pub fn words(&self) -> String {
        let mut text = format!("training:{},{}", self.model_words, self.split);
        if self.seq != self.model.context {
            text.push_str(&format!(",seq={}", self.seq));
        }
        text.push_str(&match self.batch {
            Batch::Micro(n) => format!(",micro={n}"),
            Batch::Sequences(n) => format!(",batch={n}"),
        });
        if self.format != Format::Bf16 {
            text.push_str(&format!(",dtype={}", self.format.name()));
        }
        if self.gradient != 4.0 {
            text.push_str(&format!(",grads={}", self.gradient));
        }
        if !self.flash {
            text.push_str(",no-flash");
        }
        if !self.overlap {
            text.push_str(",no-overlap");
        }
        for (name, value, default) in [
            ("tp-overlap", self.tp_overlap, 0.0),
            ("ep-overlap", self.ep_overlap, 0.0),
            ("imbalance", self.imbalance, 1.0),
        ] {
            if value != default {
                text.push_str(&format!(",{name}={value}"));
            }
        }
        text.push_str(&self.pace.words());
        if let Some(memory) = self.memory {
            text.push_str(&format!(",memory={}", memory / 1e9));
        }
        text
    }

    /// On so many GPUs: the number of copies, and of micro-batches of each.
    ///
    /// # Errors
    /// Names the argument that does not divide what it must.
    pub fn laid(&self, gpus: usize) -> Result<Laid, SimulateError> {
        let Split { tp, cp, pp, chunks, zero_bubble, dp, ep, zero, mbs, .. } = self.split;
        let model = &self.model;
        let refuse = |why: String| Err(SimulateError::Workload(format!("training: {why}")));
        let of_copy = self.split.of_copy();
        let copies = if dp == 0 { gpus / of_copy } else { dp };
        if copies == 0 || copies.saturating_mul(of_copy) > gpus {
            return refuse(format!("tp={tp} × cp={cp} × pp={pp} × dp={} needs more than {gpus} GPUs", copies.max(1)));
        }
        if let Some(name) = [("heads", model.heads), ("ffn", if model.scale.is_some() { 0 } else { model.ffn })]
            .iter()
            .find(|(_, value)| !value.is_multiple_of(tp))
        {
            return refuse(format!("tp={tp} does not divide {}={}", name.0, name.1));
        }
        if model.kv_heads > 0 && !model.kv_heads.is_multiple_of(tp) && !tp.is_multiple_of(model.kv_heads) {
            return refuse(format!("tp={tp} and kv_heads={}: neither divides the other", model.kv_heads));
        }
        if !self.seq.is_multiple_of(cp) {
            return refuse(format!("cp={cp} does not divide seq={}", self.seq));
        }
        if pp.saturating_mul(chunks) > model.layers {
            return refuse(format!("pp={pp} × v={chunks} are more than layers={}", model.layers));
        }
        if chunks > 1 && pp == 1 {
            return refuse(format!("v={chunks} chunks need stages: give pp="));
        }
        if zero_bubble && (pp == 1 || chunks > 1) {
            return refuse("zb is for stages of one chunk: give pp= and no v=".to_owned());
        }
        if zero > 1 && pp > 1 {
            return refuse(format!(
                "zero={zero} shares what stages with several micro-batches keep: with pp={pp} take zero=1"
            ));
        }
        if ep > 1 {
            let Some(experts) = model.experts else {
                return refuse(format!("ep={ep} is for experts, and {} has none", model.name));
            };
            if !experts.count.is_multiple_of(ep) {
                return refuse(format!("ep={ep} does not divide experts={}", experts.count));
            }
            if !(tp * cp * copies).is_multiple_of(ep) {
                return refuse(format!("ep={ep} does not divide tp={tp} × cp={cp} × dp={copies}"));
            }
        }
        let micro = match self.batch {
            Batch::Micro(n) => n,
            Batch::Sequences(n) if n.is_multiple_of(copies.saturating_mul(mbs)) => n / (copies * mbs),
            Batch::Sequences(n) => return refuse(format!("batch={n} is not divided by dp={copies} × mbs={mbs}")),
        };
        if chunks > 1 && !micro.is_multiple_of(pp) {
            return refuse(format!("v={chunks} needs micro-batches that pp={pp} divides, and a copy has {micro}"));
        }
        Ok(Laid { copies, micro })
    }
}

fn read_zero(given: &mut Parameters) -> Result<u8, SimulateError> {
    match given.text("zero") {
        None | Some("1") => Ok(1),
        Some("0") => Ok(0),
        Some("2") => Ok(2),
        Some("3") => Ok(3),
        Some(word) => Err(given.refuse(format!("zero is 0, 1, 2 or 3, not '{word}'"))),
    }
}

fn read_recompute(given: &mut Parameters) -> Result<Recompute, SimulateError> {
    let Some(word) = given.text("recompute") else { return Ok(Recompute::Selective) };
    Recompute::ALL
        .into_iter()
        .find(|how| how.name() == word)
        .ok_or_else(|| given.refuse(format!("recompute is none, selective or full, not '{word}'")))
}

/// A split on a number of GPUs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Laid {
    /// Copies.
    pub copies: usize,
    /// Micro-batches of each.
    pub micro: usize,
}
