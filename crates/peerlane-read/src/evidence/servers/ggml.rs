//! Programs on ggml (llama.cpp, whisper.cpp, stable-diffusion.cpp) of all ages: their GPUs, where the model's layers lie, what they use of a
//! GPU, and how fast they worked.

use super::super::health::Health;
use super::super::text::Span;
use super::super::words::rate_of;
use super::super::{Fact, Found, GpuFacts, Text};
use peerlane_machine::fact::{Area, Grade, Message};
use peerlane_machine::units::Bytes;

const TOOL: &str = "ggml's log";

/// More GPUs than any machine has.
const MOST: usize = 512;

/// Since this compute capability GPUs have tensor cores.
const WITH_TENSOR_CORES: (u8, u8) = (7, 0);

/// Words that begin a list of devices: of CUDA since 2024, of HIP, and of CUDA before.
const LISTS: [&str; 4] =
    ["ggml_cuda_init: found ", "ggml_hip_init: found ", "ggml_init_cublas: found ", "ggml_musa_init: found "];

/// Lines that only follow work that was done.
const ENDS: [&str; 6] = [
    "whisper_print_timings:    total time =",
    "generate_image completed in ",
    "txt2img completed in ",
    "img2img completed in ",
    "llama_print_timings:       total time =",
    "llama_perf_context_print:       total time =",
];

/// What was read so far.
#[derive(Default)]
pub(super) struct Ggml {
    gpus: Vec<GpuFacts>,
    lines: Span,
    is_list: bool,
    /// Layers on GPUs, of all, of the model that was loaded last.
    layers: Option<(u32, u32, usize)>,
    /// Where it says that tensor cores are not used.
    without_tensor_cores: Option<usize>,
    /// Sizes and names that it tells, with their lines.
    told: Vec<(String, usize)>,
    /// The best rates of reading a prompt and of generating, in tokens per second.
    rates: [Option<(f64, usize)>; 2],
}

impl Ggml {
    /// Reads a line; whether it is one of these.
    pub(super) fn read(&mut self, line: &str, i: usize, health: &mut Health) -> bool {
        let begins = LISTS.iter().any(|words| line.contains(words));
        let gpu = if self.is_list { of_list(line) } else { None };
        self.is_list = begins || self.is_list && gpu.is_some();
        if let Some(gpu) = gpu.or_else(|| of_vulkan(line)).or_else(|| used(line)) {
            self.add(gpu, i, health);
        } else if let Some(on) = offloaded(line) {
            self.layers = Some((on.0, on.1, i));
        } else if line.trim_end().ends_with("CUDA_USE_TENSOR_CORES: no") {
            self.without_tensor_cores = Some(i);
        } else if let Some((is_prompt, rate)) = speed(line) {
            let best = &mut self.rates[usize::from(!is_prompt)];
            if best.is_none_or(|(known, _)| rate > known) {
                *best = Some((rate, i));
            }
            health.sound(Area::Program, i);
        } else if ENDS.iter().any(|words| line.contains(words)) {
            health.sound(Area::Program, i);
        } else if let Some(words) = figure(line) {
            if self.told.len() < FIGURES && !self.told.iter().any(|(known, _)| *known == words) {
                self.told.push((words, i));
            }
        } else {
            return begins;
        }
        true
    }

    fn add(&mut self, gpu: GpuFacts, i: usize, health: &mut Health) {
        let room = self.gpus.len() < MOST;
        match self.gpus.iter_mut().find(|known| known.index == gpu.index) {
            Some(known) => {
                known.address = known.address.or(gpu.address);
                known.memory = known.memory.or(gpu.memory);
            }
            None if room => {
                self.gpus.push(gpu);
                self.lines.add(i);
                health.sound(Area::Driver, i);
            }
            None => {}
        }
    }

    /// States what was found.
    pub(super) fn push(self, text: &Text, health: &mut Health, found: &mut Found) {
        if let Some((on, all, i)) = self.layers {
            let bad = (on < all).then_some(Grade::Limit);
            let what = "layers of the model on GPUs, and the others on the CPU:";
            health.judge(Area::Program, bad, None, what, &format!("{on} of {all}"), i);
        }
        let is_able = |gpu: &&GpuFacts| gpu.compute_capability.is_some_and(|known| known >= WITH_TENSOR_CORES);
        let able = self.gpus.iter().filter(is_able).count();
        if let Some(i) = self.without_tensor_cores.filter(|_| able > 0) {
            let gpus = format!("{able} {}", if able == 1 { "GPU that has them" } else { "GPUs that have them" });
            let quote = text.line(i).trim().to_owned();
            let parts = vec![("gpus", gpus)];
            let message = Message { id: "ggml-no-tensor-cores", parts, quote, host: None, count: 1 };
            found.push(text, TOOL, text.numbers(i, i), Fact::Message(message));
        }
        let [prompt, generated] = self.rates;
        let mut told = self.told;
        told.extend(prompt.map(|(rate, i)| (format!("reads at best {rate} tokens/s"), i)));
        told.extend(generated.map(|(rate, i)| (format!("generates at best {rate} tokens/s"), i)));
        if let Some((_, i)) = told.first() {
            told.iter().for_each(|(_, line)| health.used(*line));
            let words: Vec<&str> = told.iter().map(|(words, _)| words.as_str()).collect();
            health.trouble(Area::Program, Grade::Note, None, "", &words.join("; "), *i);
        }
        if let Some(lines) = self.lines.numbers(text) {
            found.push(text, TOOL, lines, Fact::Gpus(self.gpus));
        }
    }
}

/// The most figures that are reported; a model has few.
const FIGURES: usize = 12;

/// `  Device 0: NVIDIA GeForce RTX 3090, compute capability 8.6, VMM: yes, VRAM: 24120 MiB`, `  Device 0: AMD Radeon RX 7900 XTX, gfx1100
/// (0x1100), VMM: no, Wave Size: 32`.
fn of_list(line: &str) -> Option<GpuFacts> {
    let (_, rest) = line.split_once("Device ")?;
    let (number, rest) = rest.split_once(": ")?;
    let gpu = GpuFacts::listed(number.parse().ok()?, "");
    let memory = rest.split_once("VRAM: ").and_then(|(_, rest)| rest.split(' ').next()?.parse::<u64>().ok());
    let memory = memory.filter(|mib| *mib < 1 << 24).map(Bytes::from_mib);
    if let Some((name, rest)) = rest.split_once(", compute capability ") {
        let (major, minor) = rest.split([',', ' ']).next()?.split_once('.')?;
        let compute_capability = Some((major.trim().parse().ok()?, minor.trim().parse().ok()?));
        return Some(GpuFacts { name: Some(name.to_owned()), compute_capability, memory, ..gpu });
    }
    let (name, _) = rest.split_once(", gfx")?;
    Some(GpuFacts { name: Some(name.to_owned()), memory, ..gpu })
}

/// `ggml_vulkan: 0 = NVIDIA GeForce RTX 3090 (NVIDIA) | uma: 0 | fp16: 1 | warp size: 32`; what has `uma: 1` is no card of its own.
fn of_vulkan(line: &str) -> Option<GpuFacts> {
    let (number, rest) = line.split_once("ggml_vulkan: ")?.1.split_once(" = ")?;
    let (name, rest) = rest.split_once(" | uma: 0")?;
    let name = name.rsplit_once(" (").map_or(name, |(name, _)| name);
    (rest.contains('|') && !name.contains("llvmpipe"))
        .then(|| number.trim().parse().ok().map(|n| GpuFacts::listed(n, name)))?
}

/// `using device CUDA0 (NVIDIA X) - 21800 MiB free`, in newer releases `(NVIDIA X) (0000:01:00.0) - 21800 MiB free`.
fn used(line: &str) -> Option<GpuFacts> {
    let (_, rest) = line.split_once("using device ")?;
    let (device, rest) = rest.split_once(" (")?;
    let number = ["CUDA", "ROCm", "HIP"].iter().find_map(|kind| device.strip_prefix(kind))?.parse().ok()?;
    let (names, free) = rest.split_once(" - ")?;
    let (name, place) = names.split_once(')')?;
    let address = place.trim().trim_matches(['(', ')']).parse().ok();
    free.contains("MiB free").then(|| GpuFacts { address, ..GpuFacts::listed(number, name) })
}

/// `load_tensors: offloaded 33/33 layers to GPU`.
fn offloaded(line: &str) -> Option<(u32, u32)> {
    let (on, all) = line.split_once("offloaded ")?.1.split_once(" layers to GPU")?.0.split_once('/')?;
    Some((on.parse().ok()?, all.parse().ok()?))
}

/// Whether it is of a prompt, and tokens per second: `llama_print_timings: prompt eval time = 231.9 ms / 12 tokens ( 19.3 ms per token, 51.7
/// tokens per second)`.
fn speed(line: &str) -> Option<(bool, f64)> {
    let (before, rest) = line.split_once("eval time =")?;
    let (numbers, _) = rest.split_once(" tokens per second")?;
    let rate = rate_of(numbers.rsplit([',', ' ']).next()?)?;
    Some((before.trim_end().ends_with("prompt"), rate))
}

/// Sizes and names: `llm_load_print_meta: model size = 51.42 GiB (4.86 BPW)`, `general.name = X`, `using device CUDA0 (X) - 21800 MiB free`,
/// `load_tensors: CUDA0 model buffer size = 3577.56 MiB`, `loaded meta data with 20 key-value pairs and 201 tensors from X.gguf`.
fn figure(line: &str) -> Option<String> {
    let value = |key: &str| {
        let (before, rest) = line.split_once(key)?;
        let value = rest.trim_start().strip_prefix('=')?.trim();
        (before.contains("print_meta: ") || before.contains("print_info: ")).then_some(value)
    };
    if let Some(size) = value("model size ").or_else(|| value("file size ")).filter(|size| size.contains("iB")) {
        return Some(format!("model of {}", size.split(" (").next().unwrap_or(size)));
    }
    if let Some(name) = value("general.name ").filter(|name| !name.is_empty() && name.len() <= 80) {
        return Some(name.to_owned());
    }
    if let Some((_, rest)) = line.split_once("loaded meta data with ") {
        let (tensors, rest) = rest.split_once(" tensors from ")?;
        let (count, file) = (tensors.rsplit(' ').next()?, rest.split(" (version").next()?);
        let file = file.rsplit(['/', '\\']).next()?;
        return (file.len() <= 120).then(|| format!("{file} ({count} tensors)"));
    }
    let (before, size) = line.split_once(" buffer size =")?;
    let device = before.trim_end_matches(" model").rsplit([' ', ':']).next()?;
    let of_model = before.contains("load_tensors:");
    let is_gpu = ["CUDA", "ROCm", "Vulkan", "SYCL", "HIP"].iter().any(|kind| device.starts_with(kind));
    (of_model && is_gpu && !device.contains("Host")).then(|| format!("weights on {device}: {}", size.trim()))
}

#[cfg(test)]
mod tests {
    use super::super::super::testing::{health, scanned};
    use super::super::scan;
    use super::*;

    fn gpus(body: &str) -> Vec<GpuFacts> {
        let of = |fact| if let Fact::Gpus(gpus) = fact { gpus } else { Vec::new() };
        scanned(scan, body).evidence.into_iter().flat_map(|e| of(e.fact)).collect()
    }

    #[test]
    fn devices_of_all_ages() {
        for body in [
            "ggml_init_cublas: found 1 CUDA devices:\n  Device 0: Card X, compute capability 8.6\n",
            "ggml_cuda_init: found 1 CUDA devices (Total VRAM: 24120 MiB):\n  Device 0: Card X, compute capability 8.6, VMM: yes, VRAM: 24120 MiB\n",
            "ggml_cuda_init: found 1 ROCm devices:\n  Device 0: Card X, gfx1100 (0x1100), VMM: no, Wave Size: 32\n",
            "ggml_vulkan: Found 1 Vulkan devices:\nggml_vulkan: 0 = Card X (maker) | uma: 0 | fp16: 1 | warp size: 32\n",
            "llama_model_load_from_file_impl: using device CUDA0 (Card X) - 21800 MiB free\n",
            "llama_model_load_from_file_impl: using device CUDA0 (Card X) (0000:01:00.0) - 21800 MiB free\n",
        ] {
            let all = gpus(body);
            assert_eq!(all.len(), 1, "{body}");
            assert_eq!((all[0].index, all[0].name.as_deref()), (Some(0), Some("Card X")), "{body}");
        }
        assert_eq!(gpus("ggml_vulkan: 0 = Onboard (maker) | uma: 1 | fp16: 1\n"), []);
    }

    #[test]
    fn tensor_cores_that_a_build_leaves_out() {
        let body = |capability: &str| {
            format!(
                "ggml_init_cublas: GGML_CUDA_FORCE_MMQ:   yes\nggml_init_cublas: CUDA_USE_TENSOR_CORES: no\nggml_init_cublas: found 1 CUDA devices:\n  Device 0: Card X, compute capability {capability}\n"
            )
        };
        let said = |capability: &str| {
            let found = scanned(scan, &body(capability));
            found.evidence.iter().filter(|e| matches!(e.fact, Fact::Message(_))).count()
        };
        assert_eq!((said("8.6"), said("6.1")), (1, 0));
    }

    #[test]
    fn speeds_and_sizes() {
        let body = "llm_load_print_meta: model size       = 3.56 GiB (4.5 BPW)\nllm_load_tensors:      CUDA0 buffer size =  3577.56 MiB\n\
                    llama_print_timings: prompt eval time =     231.93 ms /    12 tokens (   19.33 ms per token,    51.74 tokens per second)\n\
                    llama_print_timings:        eval time =    3231.93 ms /   127 runs   (   25.45 ms per token,    39.30 tokens per second)\n";
        let report = health(scan, body);
        assert_eq!((report.area, report.sound), (Area::Program, 2));
        let said = "model of 3.56 GiB; weights on CUDA0: 3577.56 MiB; reads at best 51.74 tokens/s; generates at best 39.3 tokens/s";
        assert_eq!(report.troubles[0].value, said);
        assert_eq!(health(scan, "whisper_print_timings:    total time =  1234.56 ms\n").sound, 1);
    }
}
