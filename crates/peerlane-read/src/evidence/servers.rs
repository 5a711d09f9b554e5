//! Servers of models that are not Python's: llama.cpp, Ollama and Triton. Their GPUs, how much of a model lies on them, and requests.

mod ggml;

use super::health::Health;
use super::text::Span;
use super::{Fact, Found, GpuFacts, Text};
use ggml::Ggml;
use peerlane_machine::fact::{Area, Grade};

const TOOL: &str = "server's log";

/// More GPUs than any machine has.
const MOST: usize = 512;

/// Longer lines are data.
const LONGEST: usize = 2000;

pub(super) fn scan(text: &Text, found: &mut Found) {
    const HALLMARKS: [&str; 11] = [
        "ggml_",
        "layers to GPU",
        "llama_",
        "load_tensors: ",
        "whisper_print_timings",
        "img completed in ",
        "generate_image completed in ",
        "msg=\"inference compute\"",
        "[GIN] ",
        "GRPCInferenceService",
        "server is listening on http",
    ];
    if !text.holds_one_of(&HALLMARKS) {
        return;
    }
    let (mut gpus, mut lines, mut health): (Vec<GpuFacts>, Span, Health) =
        (Vec::new(), Span::default(), Health::default());
    let is_triton = text.holds(&["GRPCInferenceService"]);
    let mut ggml = Ggml::default();
    for (i, line) in text.iter() {
        if line.len() > LONGEST || ggml.read(line, i, &mut health) {
            continue;
        }
        if let Some(gpu) = of_ollama(line) {
            let is_new = gpus.iter().all(|known| known.index != gpu.index || known.uuid != gpu.uuid);
            if is_new && gpus.len() < MOST {
                gpus.push(gpu);
                lines.add(i);
                health.sound(Area::Driver, i);
            }
        } else if line.contains("msg=\"inference compute\"") && line.contains(" library=cpu") {
            health.trouble(Area::Driver, Grade::Limit, None, "Ollama computes with the CPU:", "no GPU found", i);
        } else if let Some((on, all)) = of_ollama_layers(line) {
            let bad = (on < all).then_some(Grade::Limit);
            let what = "layers of the model on GPUs, and the others on the CPU:";
            health.judge(Area::Program, bad, None, what, &format!("{on} of {all}"), i);
        } else if line.contains("server is listening on http") || line.contains("Started GRPCInferenceService at ") {
            health.sound(Area::Program, i);
        } else if let Some(status) = answer(line) {
            let bad = (status >= 500).then_some(Grade::Suspect);
            health.judge(Area::Program, bad, None, "a request ended with", &format!("HTTP {status}"), i);
        } else if let Some((model, state)) = of_triton(line).filter(|_| is_triton) {
            let bad = (state != "READY").then_some(Grade::Fault);
            health.judge(Area::Program, bad, None, &format!("the model {model} is"), state, i);
        }
    }
    ggml.push(text, &mut health, found);
    if let Some(lines) = lines.numbers(text) {
        found.push(text, TOOL, lines, Fact::Gpus(gpus));
    }
    health.push(text, TOOL, found);
}

/// `… msg="inference compute" id=GPU-11 library=cuda … name="NVIDIA X" total="23.7 GiB"`.
fn of_ollama(line: &str) -> Option<GpuFacts> {
    let (_, rest) = line.split_once("msg=\"inference compute\" ")?;
    let is_gpu =
        [" library=cuda", " library=CUDA", " library=rocm", " library=ROCm"].iter().any(|one| rest.contains(one));
    let value = |key: &str| rest.split_once(key).and_then(|(_, rest)| rest.split('"').next());
    let name = value(" name=\"").or_else(|| value(" description=\"")).filter(|name| !name.is_empty())?;
    let id = rest.split_once("id=").and_then(|(_, rest)| rest.split_whitespace().next()).map(str::to_owned);
    is_gpu.then(|| GpuFacts { name: Some(name.to_owned()), uuid: id, ..GpuFacts::default() })
}

/// Layers on GPUs, of all, where Ollama has a GPU: `msg="offload to cuda" layers.requested=-1 layers.model=33 layers.offload=33`.
fn of_ollama_layers(line: &str) -> Option<(u32, u32)> {
    let number = |key: &str| line.split_once(key)?.1.split_whitespace().next()?.parse::<u32>().ok();
    let is_gpu = line.contains("msg=\"offload to") || line.contains("msg=offload ") && !line.contains("library=cpu");
    Some((number("layers.offload=")?, number("layers.model=")?)).filter(|_| is_gpu)
}

/// `[GIN] 2025/03/01 - 10:00:10 | 200 |  1.2s |  127.0.0.1 | POST "/api/generate"`, `log_server_r: request: POST /v1/completions 10.0.0.1 200`.
fn answer(line: &str) -> Option<u32> {
    let status = match line
        .split_once("log_server_r: request: POST ")
        .or_else(|| line.split_once("log_server_r: done request: POST "))
    {
        Some((_, rest)) => rest.split_whitespace().next_back()?.parse().ok()?,
        None => line
            .split_once("[GIN] ")
            .filter(|(_, rest)| rest.contains("| POST "))?
            .1
            .split('|')
            .nth(1)?
            .trim()
            .parse()
            .ok()?,
    };
    Some(status).filter(|status| (200..300).contains(status) || (500..600).contains(status))
}

/// `| bert | 1 | READY |`.
fn of_triton(line: &str) -> Option<(&str, &str)> {
    let cells: Vec<&str> = line.trim().strip_prefix('|')?.strip_suffix('|')?.split('|').map(str::trim).collect();
    let [model, version, state] = cells.as_slice() else { return None };
    let is_row = version.bytes().all(|b| b.is_ascii_digit()) && (*state == "READY" || state.starts_with("UNAVAILABLE"));
    is_row.then_some((model, state))
}

#[cfg(test)]
mod tests {
    use super::super::testing::scanned;
    use super::*;

    /// GPUs, what is sound, and the grades of the rest.
    fn read(body: &str) -> (usize, u32, Vec<Grade>) {
        let (mut gpus, mut sound, mut grades) = (0, 0, Vec::new());
        for one in scanned(scan, body).evidence {
            match one.fact {
                Fact::Gpus(list) => gpus += list.len(),
                Fact::Health(report) => {
                    sound += report.sound;
                    grades.extend(report.troubles.iter().map(|t| t.grade));
                }
                _ => {}
            }
        }
        (gpus, sound, grades)
    }

    #[test]
    fn llama_cpp() {
        let body = |on: u32, status: u32| {
            format!(
                "ggml_cuda_init: found 2 CUDA devices:\n  Device 0: NVIDIA X, compute capability 8.6, VMM: yes\n  Device 1: NVIDIA X, compute capability 8.6, \
                 VMM: yes\nload_tensors: offloaded {on}/33 layers to GPU\nmain: server is listening on http://0.0.0.0:8080 - starting the main loop\n\
                 srv  log_server_r: request: POST /v1/chat/completions 10.0.0.1 {status}\n"
            )
        };
        assert_eq!(read(&body(33, 200)), (2, 5, vec![]));
        assert_eq!(read(&body(10, 500)), (2, 3, vec![Grade::Suspect, Grade::Limit]));
    }

    #[test]
    fn ollama_and_triton() {
        let ollama = "time=1 level=INFO msg=\"inference compute\" id=GPU-11 library=cuda compute=8.6 name=\"NVIDIA X\" total=\"23.7 GiB\"\n\
                      [GIN] 2025/03/01 - 10:00:10 | 200 |  1.2s |  127.0.0.1 | POST     \"/api/generate\"\n";
        assert_eq!(read(ollama), (1, 2, vec![]));
        let without =
            "time=1 level=INFO msg=\"inference compute\" id=0 library=cpu compute=\"\" name=\"\" total=\"62.7 GiB\"\n";
        assert_eq!(read(without), (0, 0, vec![Grade::Limit]));
        let triton = "| bert  | 1       | READY  |\n| t5 | 1 | UNAVAILABLE: Internal: no memory |\nI0301 Started GRPCInferenceService at 0.0.0.0:8001\n";
        assert_eq!(read(triton), (0, 2, vec![Grade::Fault]));
    }

    #[test]
    fn other_lines() {
        assert_eq!(scanned(scan, "The server listens on http.\nDevice 0: X\n[GIN] starts\n"), Found::default());
    }
}
