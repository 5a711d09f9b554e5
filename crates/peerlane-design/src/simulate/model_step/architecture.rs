//! What a model is: its sizes, how many parameters they make, and the published models by name (`models/*.toml`).
//!
//! Counts are those of the matrices, as in Narayanan et al. (SC 2021, appendix) and Touvron et al. (2023): norms and biases are
//! left out, less than 0.1 %. A gated feed-forward layer has three matrices, another two; attention with fewer heads of keys and
//! values has these smaller. Latent attention and shared experts are those of DeepSeek-V3 (arXiv:2412.19437, section 2.1).

use serde::Deserialize;

use super::super::SimulateError;
use super::super::parameters::Parameters;
use peerlane_machine::names::closest;

/// What may be written of a model.
pub(super) const MODEL: &str = "model=NAME, or layers=, hidden=, heads=, kv_heads=, ffn=, vocab=, experts=, topk=, expert_ffn=, gelu; \
     or params=7e9 with layers=32, hidden=4096";

/// `(name, text)` of each file of `models/`.
macro_rules! embed {
    ($($name:literal)*) => {
        &[$(($name, include_str!(concat!("../../../models/", $name, ".toml")))),*]
    };
}

/// Models of the catalogue, sorted by name.
const MODELS: &[(&str, &str)] = embed!(
    "deepseek-v3"
    "gpt-3-175b"
    "llama-2-13b"
    "llama-2-70b"
    "llama-2-7b"
    "llama-3-405b"
    "llama-3-70b"
    "llama-3-8b"
    "mixtral-8x22b"
    "mixtral-8x7b"
    "qwen-2.5-32b"
    "qwen-2.5-72b"
    "qwen-2.5-7b"
    "qwen-3-235b-a22b"
);

/// A transformer that predicts the next token.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Architecture {
    /// Its key.
    pub name: String,
    /// What it is, in a line.
    #[serde(default)]
    pub title: String,
    /// Where its sizes are from.
    #[serde(default)]
    pub source: String,
    /// Layers.
    pub layers: usize,
    /// Numbers a token and layer.
    pub hidden: usize,
    /// Heads of attention.
    pub heads: usize,
    /// Heads of keys and values.
    pub kv_heads: usize,
    /// Numbers a head; `hidden / heads` where it is not given.
    pub head_size: Option<usize>,
    /// Width of a dense feed-forward layer.
    pub ffn: usize,
    /// Whether the feed-forward layers have a gate, as SwiGLU has.
    pub gated: bool,
    /// Entries of the vocabulary.
    pub vocab: usize,
    /// Whether input and output share the vocabulary's matrix.
    #[serde(default)]
    pub tied: bool,
    /// Learned positions.
    #[serde(default)]
    pub positions: usize,
    /// Tokens of a sequence where none are given.
    pub context: usize,
    /// Parameters that the source states.
    pub parameters: Option<f64>,
    /// Of these, those that a token uses, where it does not use all.
    pub active: Option<f64>,
    /// Experts, in place of dense feed-forward layers.
    pub experts: Option<Experts>,
    /// Attention by latent vectors.
    pub latent: Option<Latent>,
    /// By what the parameters of the layers are multiplied, where only a total is known of a model.
    #[serde(skip)]
    pub scale: Option<f64>,
}

/// A mixture of experts.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Experts {
    /// How many a layer has.
    pub count: usize,
    /// How many a token goes to.
    pub top: usize,
    /// Width of one.
    pub ffn: usize,
    /// Width of those that every token goes to, together.
    #[serde(default)]
    pub shared: usize,
    /// Layers, the first ones, that have none.
    #[serde(default)]
    pub dense_layers: usize,
    /// Over how many nodes at most the experts of a token are spread.
    pub node_limit: Option<usize>,
}

/// Attention that keeps one vector a token in place of keys and values.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Latent {
    /// Width that queries are made of.
    pub query: usize,
    /// Width that keys and values are made of.
    pub key_value: usize,
    /// Numbers of a head with positions.
    pub rope: usize,
    /// Numbers of a head without.
    pub content: usize,
    /// Numbers of a head's values.
    pub value: usize,
}

/// Parameters of one layer.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct LayerParameters {
    /// Of attention.
    pub attention: f64,
    /// Of dense feed-forward layers, shared experts and the router.
    pub dense: f64,
    /// Of all experts that only some tokens go to.
    pub experts: f64,
    /// Of these, those that a token uses.
    pub used: f64,
}

impl LayerParameters {
    /// All that are not experts.
    pub fn common(self) -> f64 {
        self.attention + self.dense
    }

    /// Those that a token uses.
    pub fn active(self) -> f64 {
        self.common() + self.used
    }
}

/// Names of the published models, sorted.
pub fn model_names() -> impl Iterator<Item = &'static str> {
    MODELS.iter().map(|(name, _)| *name)
}

impl Architecture {
    /// A published model by name.
    ///
    /// # Errors
    /// Where there is none; says which are near.
    pub fn published(name: &str) -> Result<Self, SimulateError> {
        let key = name.trim().to_lowercase().replace(['_', ' '], "-");
        let bare = |name: &str| name.replace(['-', '.'], "");
        let found = MODELS.iter().find(|(known, _)| *known == key || bare(known) == bare(&key));
        let Some((known, text)) = found else {
            let near = closest(&key, model_names());
            let near = if near.is_empty() { model_names().collect() } else { near };
            return Err(SimulateError::Workload(format!(
                "model '{name}': no such model; there are {}; or give layers=, hidden=, heads=, kv_heads=, ffn=, vocab=",
                near.join(", ")
            )));
        };
        toml::from_str(text).map_err(|e| SimulateError::Workload(format!("model {known}: {e}")))
    }

    /// Numbers a head.
    pub fn head(&self) -> usize {
        self.head_size.unwrap_or(self.hidden / self.heads.max(1))
    }

    /// Whether this layer has experts.
    pub fn has_experts(&self, layer: usize) -> bool {
        self.experts.is_some_and(|experts| layer >= experts.dense_layers)
    }

    /// How many layers have experts.
    pub fn expert_layers(&self) -> usize {
        self.experts.map_or(0, |experts| self.layers.saturating_sub(experts.dense_layers))
    }

    /// Parameters of a layer, with experts or without.
    pub fn layer(&self, with_experts: bool) -> LayerParameters {
        let (h, matrices) = (self.hidden as f64, if self.gated { 3.0 } else { 2.0 });
        let mut layer = LayerParameters { attention: self.attention(), ..LayerParameters::default() };
        match self.experts.filter(|_| with_experts) {
            Some(experts) => {
                let one = matrices * h * experts.ffn as f64;
                layer.dense = matrices * h * experts.shared as f64 + h * experts.count as f64;
                layer.experts = one * experts.count as f64;
                layer.used = one * experts.top as f64;
            }
            None => layer.dense = matrices * h * self.ffn as f64,
        }
        let times = self.scale.unwrap_or(1.0);
        let LayerParameters { attention, dense, experts, used } = layer;
        LayerParameters {
            attention: attention * times,
            dense: dense * times,
            experts: experts * times,
            used: used * times,
        }
    }

    fn attention(&self) -> f64 {
        let (h, a) = (self.hidden as f64, self.heads as f64);
        match self.latent {
            Some(Latent { query, key_value, rope, content, value }) => {
                let [q, kv, rope, content, value] = [query, key_value, rope, content, value].map(|n| n as f64);
                h * q + q * a * (content + rope) + h * (kv + rope) + kv * a * (content + value) + a * value * h
            }
            None => {
                let head = self.head() as f64;
                2.0 * h * a * head + 2.0 * h * self.kv_heads as f64 * head
            }
        }
    }

    /// Numbers that a head multiplies with each other token: of its keys, and of its values.
    pub fn core(&self) -> [f64; 2] {
        match self.latent {
            Some(latent) => [(latent.content + latent.rope) as f64, latent.value as f64],
            None => [self.head() as f64; 2],
        }
    }

    /// Numbers that are kept of a token and layer for those that follow.
    pub fn kept(&self) -> f64 {
        match self.latent {
            Some(latent) => (latent.key_value + latent.rope) as f64,
            None => 2.0 * (self.kv_heads * self.head()) as f64,
        }
    }

    /// Parameters of the vocabulary's matrix at the input, with positions; and at the output.
    pub fn ends(&self) -> [f64; 2] {
        let (h, v) = (self.hidden as f64, self.vocab as f64);
        [h * (v + self.positions as f64), if self.tied { 0.0 } else { h * v }]
    }

    /// All parameters.
    pub fn total(&self) -> f64 {
        let with = self.expert_layers() as f64;
        let without = self.layers as f64 - with;
        let of = |layer: LayerParameters| layer.common() + layer.experts;
        with * of(self.layer(true)) + without * of(self.layer(false)) + self.ends().iter().sum::<f64>()
    }

    /// Those that a token uses.
    pub fn used(&self) -> f64 {
        let with = self.expert_layers() as f64;
        let without = self.layers as f64 - with;
        with * self.layer(true).active() + without * self.layer(false).active() + self.ends().iter().sum::<f64>()
    }

    /// Operations of a step of training for each token: 6 a parameter that multiplies it, and 12 a layer, head, number of a head
    /// and token of the sequence (Chowdhery et al., PaLM, 2022, appendix B: without recomputation, and attention in full).
    pub fn training_operations(&self, seq: f64) -> f64 {
        let [input, output] = self.ends();
        let multiplied = self.used() - input - output + self.hidden as f64 * self.vocab as f64;
        6.0 * multiplied + 3.0 * self.layers as f64 * self.attention_operations(seq)
    }

    /// Operations of a token and layer with `seq` others, forward.
    pub fn attention_operations(&self, seq: f64) -> f64 {
        let [keys, values] = self.core();
        2.0 * seq * self.heads as f64 * (keys + values)
    }
}

/// Takes what describes a model.
pub(super) fn read_model(given: &mut Parameters) -> Result<(Architecture, String), SimulateError> {
    let mut words: Vec<String> = Vec::new();
    let named = given.text("model");
    let mut model = match named {
        Some(name) => {
            let model = Architecture::published(name)?;
            words.push(format!("model={}", model.name));
            model
        }
        None => Architecture {
            name: "model".to_owned(),
            title: String::new(),
            source: String::new(),
            layers: 32,
            hidden: 4096,
            heads: 0,
            kv_heads: 0,
            head_size: None,
            ffn: 0,
            gated: true,
            vocab: 0,
            tied: false,
            positions: 0,
            context: 4096,
            parameters: None,
            active: None,
            experts: None,
            latent: None,
            scale: None,
        },
    };
    let mut take = |given: &mut Parameters, key: &str, most: usize, at: &mut usize| -> Result<bool, SimulateError> {
        let found = given.counted(key, most)?;
        if let Some(value) = found {
            words.push(format!("{key}={value}"));
            *at = value;
        }
        Ok(found.is_some())
    };
    take(given, "layers", 10_000, &mut model.layers)?;
    take(given, "hidden", 1 << 20, &mut model.hidden)?;
    let heads = take(given, "heads", 1 << 16, &mut model.heads)?;
    if !take(given, "kv_heads", 1 << 16, &mut model.kv_heads)? && heads {
        model.kv_heads = model.heads;
    }
    let ffn = take(given, "ffn", 1 << 22, &mut model.ffn)?;
    take(given, "vocab", 1 << 24, &mut model.vocab)?;
    let (mut count, mut top, mut width) = model.experts.map_or((0, 2, 0), |e| (e.count, e.top, e.ffn));
    if take(given, "experts", 1 << 16, &mut count)?
        | take(given, "topk", 1 << 16, &mut top)?
        | take(given, "expert_ffn", 1 << 22, &mut width)?
    {
        if count == 0 {
            return Err(given.refuse("topk and expert_ffn are of experts: give experts=, too".to_owned()));
        }
        if top > count {
            return Err(given.refuse(format!("topk={top} is more than experts={count}")));
        }
        let like =
            model.experts.unwrap_or(Experts { count, top, ffn: width, shared: 0, dense_layers: 0, node_limit: None });
        let ffn = if width == 0 { model.ffn } else { width };
        model.experts = Some(Experts { count, top, ffn, ..like });
    }
    if given.flag("gelu") {
        model.gated = false;
        words.push("gelu".to_owned());
    }
    if named.is_none() && model.heads == 0 {
        // only the parameters are known: as many operations as these take, and no attention
        let parameters = given.numbered("params", 1e16)?.unwrap_or(7e9);
        words.insert(0, format!("params={parameters}"));
        if !ffn {
            model.ffn = 4 * model.hidden;
        }
        let plain = Architecture { heads: 1, kv_heads: 1, ..model.clone() };
        let ends: f64 = plain.ends().iter().sum();
        if parameters <= ends {
            return Err(given.refuse(format!("params={parameters} is less than the {ends} of the vocabulary")));
        }
        model.scale = Some((parameters - ends) / (model.total() - ends));
    } else if let Some(parameters) = given.numbered("params", 1e16)? {
        let (total, ends) = (model.total(), model.ends().iter().sum::<f64>());
        if parameters <= ends || total <= ends {
            return Err(given.refuse(format!("params={parameters} is less than the {ends} of the vocabulary")));
        }
        model.scale = Some((parameters - ends) / (total - ends));
        words.push(format!("params={parameters}"));
    } else if named.is_none() && !ffn {
        model.ffn = if model.gated { model.hidden.saturating_mul(8).div_ceil(3) } else { 4 * model.hidden };
    }
    if model.heads > 0 && !model.heads.is_multiple_of(model.kv_heads) {
        let (a, k) = (model.heads, model.kv_heads);
        return Err(given.refuse(format!("kv_heads={k} does not divide heads={a}")));
    }
    if named.is_none() {
        model.name = match model.total() {
            t if t >= 1e12 => format!("{:.3} T parameters", t / 1e12),
            t if t >= 1e9 => format!("{:.3} billion parameters", t / 1e9),
            t => format!("{:.3} million parameters", t / 1e6),
        };
    }
    Ok((model, words.join(",")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn published_models_have_the_parameters_that_their_sources_state() {
        let mut files: Vec<String> = std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/models"))
            .unwrap()
            .map(|entry| entry.unwrap().path().file_stem().unwrap().to_string_lossy().into_owned())
            .collect();
        files.sort();
        assert_eq!(files, model_names().collect::<Vec<_>>());
        for name in model_names() {
            let model = Architecture::published(name).unwrap();
            assert_eq!(model.name, name);
            assert!(model.source.len() > 20, "{name}");
            let stated = model.parameters.unwrap();
            assert!((model.total() / stated - 1.0).abs() < 0.01, "{name}: {} for {stated}", model.total());
            if let Some(active) = model.active {
                assert!((model.used() / active - 1.0).abs() < 0.03, "{name}: {} for {active}", model.used());
            }
        }
    }

    #[test]
    fn operations_are_six_a_parameter_and_those_of_attention() {
        let gpt = Architecture::published("gpt-3-175b").unwrap();
        let (l, h, s, v) = (96.0, 12288.0, 2048.0, 50257.0);
        // Narayanan et al., equation 3, without recomputation
        let megatron = 72.0 * l * h * h * (1.0 + s / (6.0 * h) + v / (12.0 * l * h));
        assert!((gpt.training_operations(s) / megatron - 1.0).abs() < 1e-9);
        let llama = Architecture::published("llama-3-8b").unwrap();
        let matrices = llama.total() - llama.ends()[0];
        let attention = 12.0 * 32.0 * 32.0 * 128.0 * 8192.0;
        assert!((llama.training_operations(8192.0) / (6.0 * matrices + attention) - 1.0).abs() < 1e-9);
    }

    #[test]
    fn names_are_found_as_people_write_them() {
        for name in ["Llama 3 70B", "llama3-70b", "LLAMA_3_70B"] {
            assert_eq!(Architecture::published(name).unwrap().name, "llama-3-70b");
        }
        let refused = Architecture::published("llama-4-70b").unwrap_err().to_string();
        assert!(refused.contains("'llama-4-70b'") && refused.contains("llama-3-70b"), "{refused}");
    }
}
