//! What a GPU's memory holds in training.
//!
//! Parameters in BF16 take 2 bytes, gradients 2 or 4, and Adam's state 12: a copy in FP32 and two moments (Rajbhandari et al.,
//! ZeRO, SC 2020). Activations are those of Korthikanti et al. (MLSys 2023, section 4), item by item, so that other widths than
//! four times the hidden size, gates and fewer heads of keys count: with those of GPT they come to 34 bytes a token and number.

use peerlane_machine::schema::JsonSchema;
use serde::Serialize;

use super::architecture::Architecture;
use super::split::{Recompute, Split};

/// Bytes that are left to the driver, the library's buffers and gaps; assumed.
const RESERVE: f64 = 4e9;
/// Bytes of Adam's state for a parameter.
const ADAM: f64 = 12.0;
/// Bytes of a number that is not a gradient.
const WIDTH: f64 = 2.0;

/// Bytes of a GPU's memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct Memory {
    /// Parameters.
    pub weights: f64,
    /// Gradients.
    pub gradients: f64,
    /// State of the optimizer.
    pub optimizer: f64,
    /// What the forward pass keeps.
    pub activations: f64,
    /// Keys and values of the sequences.
    pub kv_cache: f64,
    /// Left to the driver and to libraries.
    pub reserve: f64,
    /// All of these.
    pub total: f64,
    /// What the GPU has, where it is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub size: Option<f64>,
    /// Whether it fits, where that is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fits: Option<bool>,
}

impl Memory {
    pub(super) fn summed(self, size: Option<f64>) -> Self {
        let Memory { weights, gradients, optimizer, activations, kv_cache, .. } = self;
        let total = weights + gradients + optimizer + activations + kv_cache + RESERVE;
        Memory { reserve: RESERVE, total, size, fits: size.map(|size| total <= size), ..self }
    }
}

/// Parameters that a GPU of the stage with most of them holds: common ones, and experts; of all copies together.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Held {
    /// Those that all GPUs of an expert group hold.
    pub common: f64,
    /// Experts.
    pub experts: f64,
}

/// What is held where.
#[derive(Clone, Copy, Debug)]
pub struct Stage {
    /// Parameters of the stage that has most.
    pub held: Held,
    /// Those of one layer, which is gathered as a whole where copies share parameters.
    pub layer: f64,
    /// Layers with experts, and without.
    pub layers: [f64; 2],
    /// Micro-batches whose activations are kept, of the stage that keeps most.
    pub kept: f64,
    /// Tokens of a micro-batch that a GPU has.
    pub tokens: f64,
    /// Tokens of a sequence that a token of the GPU sees at most.
    pub seq: f64,
    /// Copies that share.
    pub sharing: f64,
    /// The same of experts.
    pub sharing_experts: f64,
    /// Bytes of a gradient.
    pub gradient: f64,
    /// Whether the stage with the output keeps most.
    pub has_output: bool,
}

impl Stage {
    /// What the memory of one of its GPUs holds.
    pub fn memory(&self, model: &Architecture, split: &Split, size: Option<f64>) -> Memory {
        let share = |from: u8| if split.zero >= from { [self.sharing, self.sharing_experts] } else { [1.0, 1.0] };
        let of =
            |bytes: f64, [common, experts]: [f64; 2]| bytes * (self.held.common / common + self.held.experts / experts);
        let gathered = if split.zero == 3 { 2.0 * WIDTH * self.layer } else { 0.0 };
        let [with, without] = self.layers;
        let layers = with * activations(model, split, true, self) + without * activations(model, split, false, self);
        // logits and their gradient, in FP32 beside BF16
        let output = if self.has_output { 6.0 * self.tokens * model.vocab as f64 / split.tp as f64 } else { 0.0 };
        // one layer is there as a whole while it is computed again
        let again = match split.recompute {
            Recompute::Full => {
                let whole = Split { recompute: Recompute::Selective, ..*split };
                activations(model, &whole, model.experts.is_some(), self)
            }
            _ => 0.0,
        };
        Memory {
            weights: of(WIDTH, share(3)) + gathered,
            gradients: of(self.gradient, share(2)),
            optimizer: of(ADAM, share(1)),
            activations: layers * self.kept + again + output,
            ..Memory::default()
        }
        .summed(size)
    }
}

/// Bytes that a layer keeps of a micro-batch.
fn activations(model: &Architecture, split: &Split, with_experts: bool, stage: &Stage) -> f64 {
    let (h, tp, tokens) = (model.hidden as f64, split.tp as f64, stage.tokens);
    let shared = if split.sp { tp } else { 1.0 };
    if split.recompute == Recompute::Full {
        return 2.0 * h / shared * tokens;
    }
    let [keys, values] = model.core();
    let heads = model.heads as f64;
    let kv = (model.kv_heads as f64).max(tp.min(heads));
    let own = match model.latent {
        Some(_) => 2.0 * heads * (2.0 * keys + 2.0 * values) + 2.0 * model.kept(),
        None => 2.0 * (heads * keys + kv * (keys + values) + heads * values),
    };
    let of_ffn = |width: f64| if model.gated { 6.0 * width } else { 4.0 * width };
    let (wide, copies) = match model.experts.filter(|_| with_experts) {
        Some(e) => {
            let top = e.top as f64;
            let own = if split.ep > 1 { 1.0 } else { tp };
            // tokens are shared by the tensor group where each expert is on one GPU
            let tokens = if split.ep > 1 { shared } else { 1.0 };
            (top * of_ffn(e.ffn as f64) / own / tokens + of_ffn(e.shared as f64) / tp, 2.0 * top * h / shared)
        }
        None => (of_ffn(model.ffn as f64) / tp, 0.0),
    };
    // two norms, two inputs of products, two masks
    let narrow = (4.0 + 4.0 + 2.0) * h / shared;
    let weights = match split.recompute {
        Recompute::None => 5.0 * heads * stage.seq / tp,
        _ => 0.0,
    };
    (narrow + own / tp + wide + copies + weights) * tokens
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stage(layers: f64) -> Stage {
        Stage {
            held: Held { common: 1e9, experts: 0.0 },
            layer: 1e8,
            layers: [0.0, layers],
            kept: 1.0,
            tokens: 2048.0,
            seq: 2048.0,
            sharing: 8.0,
            sharing_experts: 1.0,
            gradient: 4.0,
            has_output: false,
        }
    }

    #[test]
    fn adam_takes_16_to_18_bytes_a_parameter_and_copies_share_it() {
        let gpt = Architecture::published("gpt-3-175b").unwrap();
        let bytes = |zero: u8, gradient: f64| {
            let stage = Stage { gradient, layer: 0.0, ..stage(0.0) };
            let memory = stage.memory(&gpt, &Split { zero, ..Split::default() }, None);
            (memory.weights + memory.gradients + memory.optimizer) / 1e9
        };
        assert_eq!(bytes(0, 4.0), 18.0);
        assert_eq!(bytes(0, 2.0), 16.0);
        assert_eq!(bytes(1, 4.0), 6.0 + 12.0 / 8.0);
        assert_eq!(bytes(2, 2.0), 2.0 + 14.0 / 8.0);
        assert_eq!(bytes(3, 2.0), 16.0 / 8.0);
    }

    #[test]
    fn activations_are_those_of_korthikanti() {
        let gpt = Architecture::published("gpt-3-175b").unwrap();
        let (s, h, a) = (2048.0, 12288.0, 96.0);
        let of = |tp: usize, sp: bool, recompute| {
            let split = Split { tp, sp, recompute, ..Split::default() };
            activations(&gpt, &split, false, &stage(1.0)) / (s * h)
        };
        let t = 8.0;
        assert!((of(8, false, Recompute::None) - (10.0 + 24.0 / t + 5.0 * a * s / (h * t))).abs() < 1e-9);
        assert!((of(8, true, Recompute::None) - (34.0 + 5.0 * a * s / h) / t).abs() < 1e-9);
        assert!((of(8, true, Recompute::Selective) - 34.0 / t).abs() < 1e-9);
        assert!((of(1, false, Recompute::Full) - 2.0).abs() < 1e-9);
    }
}
