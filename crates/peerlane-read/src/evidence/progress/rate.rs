//! Rates of work that any program prints in a line of its own: `mean throughput (token/s): 12.8`, `Training speed = 345.6 samples/sec`,
//! `6206.3/s, 387.9/s/gpu`.

use super::super::words::rate_of;

/// Units of work in a second, the longer ones first.
const UNITS: [&str; 36] = [
    "tokens per second",
    "samples per second",
    "images per second",
    "tokens/second",
    "samples/second",
    "images/second",
    "tokens/sec/GPU",
    "tokens/s/GPU",
    "tokens/sec",
    "samples/sec",
    "images/sec",
    "requests/sec",
    "sentences/sec",
    "examples/sec",
    "frames/sec",
    "tokens/s",
    "token/s",
    "samples/s",
    "sample/s",
    "images/s",
    "image/s",
    "requests/s",
    "TFLOP/s/GPU",
    "TFLOPS/GPU",
    "TFLOP/s",
    "GFLOP/s",
    "Gflop/s",
    "GFLOPS",
    "GFlops",
    "TFLOPS",
    "TFlops",
    "tok/s",
    "img/s",
    "ns/day",
    "iters/s",
    "steps/s",
];

/// Longer lines are data.
const LONGEST: usize = 400;

/// The rate that a line states, with its unit: the unit behind the number, or in the label before it.
pub(super) fn of_work(line: &str) -> Option<(f64, &'static str)> {
    let line = line.trim();
    // sentences and tables state none
    if line.len() > LONGEST || !line.contains([':', '=']) || line.ends_with('.') || line.starts_with('|') {
        return None;
    }
    if (line.contains("_per_") || line.contains("PerSec"))
        && let Some(known) = of_key(line)
    {
        return Some(known);
    }
    if let Some((_, rate)) = line.split_once("GFLOP/s rating of=") {
        return Some((rate_of(rate.trim())?, "GFLOP/s (HPCG)"));
    }
    // most lines hold none of these, and are passed over quickly
    if !["/s", "per second", "FLOPS", "Flops", "ns/day"].iter().any(|part| line.contains(part)) {
        return None;
    }
    let found = UNITS.iter().find_map(|unit| line.find(unit).map(|at| (at, *unit)));
    let Some((at, unit)) = found else { return of_training(line) };
    let (before, behind) = (line.get(..at)?, line.get(at + unit.len()..)?);
    if behind.starts_with(|c: char| c.is_alphanumeric() || c == '/') {
        return None;
    }
    // a goal or a limit is no result, nor what a card could do
    let lower = line.to_ascii_lowercase();
    if ["target", "expected", "limit", "peak", "theoretical", "baseline"].iter().any(|word| lower.contains(word)) {
        return None;
    }
    let label = behind.trim_start_matches([')', ']', '"', '\'']).trim_start();
    let behind = label.strip_prefix([':', '=']).and_then(|value| value.trim_start().split([' ', ',', ';']).next());
    let value = match behind.filter(|value| value.starts_with(|c: char| c.is_ascii_digit())) {
        Some(value) => value,
        // the number must follow a sign of its own, not stand in a sentence
        None => {
            let number = before.trim_end_matches([' ', '(']).rsplit([' ', '=', ':', '(', '|', '\t']).next()?;
            let head = before.get(..before.rfind(number)?)?.trim_end();
            head.ends_with([':', '=', '|', ',', '(']).then_some(number)?
        }
    };
    Some((rate_of(&value.replace(',', ""))?, unit))
}

/// A rate under the name of a setting: DeepSpeed's `CurrSamplesPerSec=35.3`, `'train_samples_per_second': 81.2`.
fn of_key(line: &str) -> Option<(f64, &'static str)> {
    const KEYS: [(&str, &str); 8] = [
        ("CurrSamplesPerSec", "samples/s"),
        ("samples_per_second", "samples/s"),
        ("samples_per_sec", "samples/s"),
        ("tokens_per_second", "tokens/s"),
        ("tokens_per_sec", "tokens/s"),
        ("tokens_per_gpu_per_second", "tokens/s of a GPU"),
        ("images_per_second", "images/s"),
        ("images_per_sec", "images/s"),
    ];
    let (rest, unit) = KEYS.iter().find_map(|(key, unit)| Some((line.split_once(key)?.1, *unit)))?;
    let value = rest.trim_start_matches(['"', '\'']).trim_start().strip_prefix([':', '='])?.trim_start();
    let end = value.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(value.len());
    Some((rate_of(value.get(..end)?.trim_end_matches('.'))?, unit))
}

/// open_clip: `Data (t): 0.295 Batch (t): 0.657, 6206.32/s, 387.895/s/gpu LR: …`.
fn of_training(line: &str) -> Option<(f64, &'static str)> {
    let (before, _) = line.split_once("/s/gpu ")?;
    let (before, _) = before.rsplit_once("/s, ")?;
    Some((rate_of(before.rsplit([' ', ',']).next()?)?, "samples/s of all GPUs"))
}

/// How long a step waited for its data, where that is much of it.
pub(super) fn wait_for_data(line: &str) -> Option<String> {
    /// From this share on.
    const MUCH: f64 = 0.25;
    let number = |key: &str| line.split_once(key)?.1.trim_start().split([' ', ',']).next()?.parse::<f64>().ok();
    let (data, step) = (number("Data (t): ")?, number("Batch (t): ")?);
    (step > 0.0 && data <= step && data > step * MUCH)
        .then(|| format!("{data} of {step} s ({:.0} %)", data / step * 100.0))
}

/// Whether lines are rows below a head whose last column is a rate of work: `prompt  steps  tok/s`, `| model | test | t/s |`.
#[derive(Default)]
pub(super) struct Rates {
    is_below: bool,
}

impl Rates {
    /// Whether this line, the next one, is such a row.
    pub(super) fn is_row(&mut self, line: &str) -> bool {
        const UNITS: [&str; 12] = [
            "tok/s",
            "tokens/s",
            "t/s",
            "tokens/sec",
            "img/s",
            "images/s",
            "images/sec",
            "samples/s",
            "samples/sec",
            "req/s",
            "requests/s",
            "it/s",
        ];
        let line = line.trim().trim_end_matches('|').trim_end();
        let words = || line.split(['|', ' ', '\t']).filter(|word| !word.is_empty()).count();
        let is_parted = line.contains(['|', '\t']) || line.contains("  ");
        if UNITS.iter().any(|unit| line.ends_with(unit)) && is_parted && !line.contains(':') && words() >= 3 {
            self.is_below = true;
            return false;
        }
        let is_rule = !line.is_empty() && line.chars().all(|c| matches!(c, '-' | '=' | '|' | ':' | '+' | ' '));
        if !self.is_below || is_rule {
            return false;
        }
        let separators: &[char] = if line.contains('|') { &['|'] } else { &[' ', '\t'] };
        let cell = line.rsplit(separators).next().unwrap_or(line).trim();
        // `128.93 ± 0.21`
        self.is_below = cell.split(' ').next().and_then(rate_of).is_some();
        self.is_below && words() >= 3
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_of_any_program() {
        for (line, rate, unit) in [
            ("mean throughput (token/s): 12.789", 12.789, "token/s"),
            ("    throughput (token/s): 12.789", 12.789, "token/s"),
            ("Training speed = 1,345.6 samples/sec", 1345.6, "samples/sec"),
            ("Epoch 1 | throughput: 81.2 img/s | loss 2", 81.2, "img/s"),
            ("train: 0 Data (t): 0.2 Batch (t): 0.6, 6206.32/s, 387.9/s/gpu LR: 1", 6206.32, "samples/s of all GPUs"),
            ("epoch=0/micro_step=10, RunningAvgSamplesPerSec=35.1, CurrSamplesPerSec=35.3, Mem=1GB", 35.3, "samples/s"),
            ("\"tokens_per_second\": 81.25,", 81.25, "tokens/s"),
            ("Final Summary::HPCG result is VALID with a GFLOP/s rating of=12.5", 12.5, "GFLOP/s (HPCG)"),
            ("[rank 0] step 4, 512.5 TFLOPS/GPU: ok", 512.5, "TFLOPS/GPU"),
        ] {
            assert_eq!(of_work(line), Some((rate, unit)), "{line}");
        }
    }

    #[test]
    fn what_states_no_rate() {
        for line in [
            "we reached about 12 tokens/s: fine",
            "target throughput: 90 tokens/s",
            "Compute throughput:  6610.9 GFlops (theoretical single precision FMAs)",
            "The rate is 3 tokens/s: we want more.",
            "| t/s: | 3 tokens/s |",
            "speed: nan tokens/s",
            "tokens/sample: 3",
        ] {
            assert_eq!(of_work(line), None, "{line}");
        }
        assert_eq!(wait_for_data("Data (t): 0.295 Batch (t): 0.657, 1/s"), Some("0.295 of 0.657 s (45 %)".to_owned()));
        assert_eq!(wait_for_data("Data (t): 0.095 Batch (t): 0.657, 1/s"), None);
    }
}
