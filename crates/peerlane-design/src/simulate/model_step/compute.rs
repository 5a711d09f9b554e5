//! How long a GPU computes: a roofline. Products go at a share of the data sheet's rate for their format, or as fast as memory
//! gives the weights; what is between products goes at a share of the memory's rate.
//!
//! Operations are 2 a parameter and token for products, and for attention 2 for each number that a head multiplies with each other
//! token (Narayanan et al., SC 2021), half of them where a token sees only those before it. A backward pass takes twice the
//! products; of flash attention 2.5 times those of its forward pass (Dao, 2023, section 3.1: five products for two).

use super::super::SimulateError;
use super::architecture::{Architecture, LayerParameters};
use super::split::{Format, Pace};
use crate::cluster::Cluster;
use peerlane_machine::fabric::NodeId;
use peerlane_model::model::Model;
use peerlane_read::catalogue::Parts;

/// What products of the shapes of a model reach of the best that was found over many shapes; assumed.
const OF_BEST: f64 = 0.85;
/// The best found over many shapes, of the data sheet's rate, where a part does not say: of A100, H100 and B200 0.78 to 0.87
/// (stas00/ml-engineering, 2025).
const BEST: f64 = 0.8;
/// What attention reaches of what products do: on an A100 up to 0.73 of the data sheet's rate forward and 0.63 backward (Dao,
/// FlashAttention-2, 2023), where products reach 0.87.
const ATTENTION: f64 = 0.8;
/// Bytes that attention moves in memory for each pair of tokens and head where it keeps its weights there, in a forward and in a backward
/// pass, with masks and dropout as one kernel each: products write and read 2, the softmax reads and writes 2, dropout 2 and its mask 1;
/// backward, products read what is kept and write its gradients, and each kernel reads both (Korthikanti et al., MLSys 2023, section 4.1,
/// counts what of it stays).
const EAGER: [f64; 2] = [13.0, 21.0];
/// Bytes that a turn of keys and values costs for each number that it adds to: 2 are read of the turn's part, 4 of the sum, which is
/// written (Liu et al., Ring Attention, 2023, algorithm 1; the same for gradients). Of causal attention in two parts a rank, a turn adds
/// to all tokens or to half of them.
const TURN: f64 = 0.75 * 10.0;
/// Attention's operations in a backward pass over those of the forward pass, where it computes its weights again.
pub(super) const ATTENTION_BACK: f64 = 2.5;

/// What a GPU can do.
#[derive(Clone, Debug, PartialEq)]
pub struct Gpu {
    /// Its part's title.
    pub title: String,
    /// Operations a second of products: the data sheet's.
    pub peak: f64,
    /// Those that computing reaches.
    pub products: f64,
    /// Those that attention reaches.
    pub attention: f64,
    /// Bytes a second that kernels move in its memory; infinite where a rate for all that it computes is given.
    pub memory_rate: f64,
    /// The data sheet's.
    pub memory_peak: f64,
    /// What copies within the GPU reach of that.
    pub copies: f64,
    /// Bytes of its memory, where they are known.
    pub memory: Option<f64>,
    /// How the rate of products is known, in words.
    pub how: String,
}

impl Gpu {
    /// The GPUs of a cluster. `scale` is the rate of computing over what it is taken for otherwise.
    ///
    /// # Errors
    /// Where its part has no rate, and none is given.
    pub fn of(
        cluster: &Cluster,
        format: Format,
        pace: Pace,
        memory: Option<f64>,
        scale: f64,
    ) -> Result<Self, SimulateError> {
        let parts = Parts::embedded();
        let fabric = &cluster.node.fabric;
        let key = match format {
            Format::Bf16 => "fp16_rate",
            Format::Fp8 => "fp8_rate",
            Format::Fp4 => "fp4_rate",
        };
        let part_of = |gpu: NodeId| {
            let node = fabric.node(gpu);
            let by_key = node.part.as_deref().and_then(|key| parts.get(key));
            by_key.or_else(|| parts.of_node(node.kind, node.product.as_deref()))
        };
        let of = |gpu: NodeId, name: &str| part_of(gpu).and_then(|part| part.constant(name));
        let gpus = cluster.gpus();
        // where they differ, all wait for the slowest, and what fits the smallest fits
        let rate = |gpu: &NodeId| of(*gpu, key).unwrap_or(0.0);
        let slowest = gpus.iter().copied().min_by(|a, b| rate(a).total_cmp(&rate(b)));
        let least: Option<Vec<f64>> = gpus.iter().map(|gpu| of(*gpu, "memory_size")).collect();
        let least = least.and_then(|sizes| sizes.into_iter().reduce(f64::min));
        let part = slowest.and_then(part_of);
        let constant = |name: &str| part.and_then(|part| part.constant(name));
        let sheet = constant(key).map(|tflops| tflops * 1e12);
        let title = part.map_or_else(|| "GPU".to_owned(), |part| part.title.clone());
        let unknown = || {
            SimulateError::Workload(format!(
                "the rate of {} products of {title} in {} is not known: give tflops=, the 10¹² operations a second that it does",
                format.name(),
                cluster.name
            ))
        };
        let model = Model::new(&cluster.node, parts);
        // what copies within the GPU reach of it (`local_copy_efficiency`)
        let reached =
            slowest.and_then(|gpu| model.memory_rate(gpu)).map_or(f64::INFINITY, |rate| rate.bytes_per_second());
        let product = slowest.and_then(|gpu| fabric.node(gpu).product.as_deref());
        let memory_peak = part.and_then(|part| part.memory_rate(product)).map_or(reached, |gb| gb * 1e9);
        let memory = memory.or(least.map(|gb| gb * 1e9));
        let (peak, products, attention, memory_rate, how) = match pace {
            Pace::Rate(rate) => {
                let rate = rate * scale;
                (sheet.unwrap_or(rate), rate, rate, f64::INFINITY, "as given".to_owned())
            }
            Pace::Share(share) => {
                let peak = sheet.ok_or_else(unknown)?;
                let rate = peak * share * scale;
                (peak, rate, rate, f64::INFINITY, format!("{} % of the data sheet's, as given", number(share * 100.0)))
            }
            Pace::Roofline => {
                let peak = sheet.ok_or_else(unknown)?;
                let best = constant("matmul_efficiency");
                let share = best.unwrap_or(BEST) * OF_BEST * scale;
                let how = match (scale == 1.0, best) {
                    (false, _) => "from the measured step".to_owned(),
                    (true, Some(_)) => format!("assumed, {OF_BEST} of the best"),
                    (true, None) => "assumed".to_owned(),
                };
                let how = format!("{} % of the data sheet's, {how}", number(share * 100.0));
                (peak, peak * share, peak * share * ATTENTION, reached * scale, how)
            }
        };
        Ok(Gpu { title, peak, products, attention, memory_rate, memory_peak, copies: reached, memory, how })
    }

    /// Seconds of products with these parameters, for so many tokens.
    pub fn multiply(&self, parameters: f64, tokens: f64, format: Format) -> f64 {
        let operations = 2.0 * parameters * tokens / self.products;
        operations.max(parameters * format.bytes() / self.memory_rate)
    }
}

/// Whole where it is large enough.
fn number(value: f64) -> String {
    if value >= 9.95 { format!("{value:.0}") } else { format!("{value:.1}") }
}

/// Seconds of one layer and micro-batch on one GPU.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct LayerTime {
    /// Forward.
    pub forward: f64,
    /// Backward, without what is computed again.
    pub backward: f64,
    /// Of the backward pass, the gradients of weights, which nothing waits for.
    pub weights: f64,
    /// Of these, attention between tokens, forward.
    pub core: f64,
}

/// What a layer works on.
#[derive(Clone, Copy, Debug)]
pub struct Work {
    /// Tokens of a micro-batch that a GPU has.
    pub tokens: f64,
    /// Tokens of a sequence.
    pub seq: f64,
    /// GPUs that share each matrix.
    pub tp: f64,
    /// Whether these share what is between matrices.
    pub sp: bool,
    /// Over how many GPUs the experts' work is spread, as `tp` is of the other matrices.
    pub expert_tp: f64,
    /// Tokens of the busiest GPU's experts over those of the mean.
    pub imbalance: f64,
    /// What is multiplied.
    pub format: Format,
    /// Whether attention keeps its weights out of memory, and computes them again in the backward pass.
    pub flash: bool,
    /// Whether attention that does not is computed again.
    pub again: bool,
    /// GPUs that share each sequence, around which keys and values go.
    pub cp: f64,
}

impl Work {
    /// A layer of a model, with experts or without.
    pub fn layer(&self, model: &Architecture, with_experts: bool, gpu: &Gpu) -> LayerTime {
        let Work { tokens, seq, tp, expert_tp, imbalance, format, flash, again, .. } = *self;
        let layer: LayerParameters = model.layer(with_experts);
        let experts = 2.0 * layer.used / expert_tp * tokens * imbalance / gpu.products;
        let products = gpu.multiply(layer.common() / tp, tokens, format) + experts;
        let core = model.attention_operations(seq) / 2.0 * tokens / tp / gpu.attention;
        let between = self.moved(model, with_experts) / gpu.memory_rate;
        let pairs = if flash { 0.0 } else { tokens * seq * model.heads as f64 / tp / gpu.memory_rate };
        let eager = EAGER.map(|bytes| bytes * pairs);
        let [keys, value] = model.core();
        let turns = TURN * (self.cp - 1.0) * tokens / tp / gpu.memory_rate;
        let (heads, kept) = (model.heads as f64, model.kv_heads as f64);
        let [turns, turns_back] = [heads * value, heads * keys + kept * (keys + value)].map(|width| width * turns);
        let back = match (flash, again) {
            (true, _) => ATTENTION_BACK * core,
            (false, false) => 2.0 * core + eager[1],
            (false, true) => 3.0 * core + eager[0] + eager[1],
        };
        LayerTime {
            forward: products + core + between + eager[0] + turns,
            backward: 2.0 * products + back + 2.0 * between + turns_back,
            weights: products,
            core,
        }
    }

    /// Bytes that a layer moves in memory between products, forward: norms read and write their input, sums read two and write
    /// one, rotations and activations read and write theirs; experts gather and spread their tokens.
    fn moved(&self, model: &Architecture, with_experts: bool) -> f64 {
        let (h, ffn) = (model.hidden as f64, model.ffn as f64);
        let shared = if self.sp { self.tp } else { 1.0 };
        let of_activation = |width: f64| if model.gated { 6.0 * width } else { 4.0 * width };
        let [keys, _] = model.core();
        let rotated = 4.0 * keys * (model.heads + model.kv_heads) as f64 / self.tp;
        let wide = match model.experts.filter(|_| with_experts) {
            Some(e) => {
                let top = e.top as f64 * self.imbalance;
                top * (of_activation(e.ffn as f64) / self.expert_tp + 8.0 * h / shared)
                    + of_activation(e.shared as f64) / self.tp
            }
            None => of_activation(ffn) / self.tp,
        };
        self.tokens * ((8.0 + 12.0) * h / shared + rotated + wide)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::what_if::apply;
    use peerlane_read::catalogue::system;

    #[test]
    fn gpus_that_differ_wait_for_the_slowest_and_fit_the_smallest() {
        let machine = system("hgx-h200").unwrap().unwrap();
        let of = |machine| Gpu::of(&Cluster::single(machine), Format::Bf16, Pace::Roofline, None, 1.0).unwrap();
        let same = of(machine.clone());
        assert_eq!((same.peak, same.memory), (989.4e12, Some(141e9)));
        let changed = apply(&machine, &["GPU3.part=h20".parse().unwrap()], Parts::embedded()).unwrap();
        let mixed = of(changed);
        assert_eq!((mixed.peak, mixed.memory), (148e12, Some(96e9)));
        let old = Cluster::single(system("s2075-quad").unwrap().unwrap());
        let refused = Gpu::of(&old, Format::Bf16, Pace::Roofline, None, 1.0).unwrap_err().to_string();
        assert!(refused.contains("tflops="), "{refused}");
        assert!(Gpu::of(&old, Format::Bf16, Pace::Rate(1e12), None, 1.0).is_ok());
    }

    #[test]
    fn products_take_as_long_as_their_weights_at_least() {
        let gpu =
            Gpu::of(&Cluster::single(system("hgx-h100").unwrap().unwrap()), Format::Bf16, Pace::Roofline, None, 1.0);
        let gpu = gpu.unwrap();
        let [one, two, many] = [1.0, 2.0, 1e6].map(|tokens| gpu.multiply(1e9, tokens, Format::Bf16));
        assert!(one == two && many > two);
        assert!((one - 2e9 / gpu.memory_rate).abs() < 1e-12);
    }
}
