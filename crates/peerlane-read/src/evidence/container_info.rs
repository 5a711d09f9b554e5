//! `nvidia-container-cli info`: the GPUs that containers may have, often below its debug log.

use super::text::Span;
use super::words::key_value;
use super::{Fact, Found, GpuFacts, Text};

const TOOL: &str = "nvidia-container-cli info";

/// More GPUs than any machine has.
const MOST: usize = 512;

pub(super) fn scan(text: &Text, found: &mut Found) {
    if !text.holds(&["Device Index:"]) {
        return;
    }
    let (mut gpus, mut lines): (Vec<GpuFacts>, Span) = (Vec::new(), Span::default());
    for (i, line) in text.iter() {
        let Some((key, value)) = key_value(line.trim_start_matches(['>', ' '])) else { continue };
        if key == "Device Index" {
            let Ok(index) = value.parse() else { continue };
            if gpus.iter().any(|gpu| gpu.index == Some(index)) {
                push(text, &mut gpus, std::mem::take(&mut lines), found);
            }
            if gpus.len() < MOST {
                gpus.push(GpuFacts { index: Some(index), ..GpuFacts::default() });
                lines.add(i);
            }
            continue;
        }
        let Some(gpu) = gpus.last_mut() else { continue };
        match key {
            "Model" => gpu.name = Some(value.to_owned()),
            "GPU UUID" => gpu.uuid = Some(value.to_owned()),
            "Bus Location" => gpu.address = value.parse().ok(),
            "Architecture" => {
                let parts = value.split_once('.').and_then(|(a, b)| Some((a.parse().ok()?, b.parse().ok()?)));
                gpu.compute_capability = parts;
            }
            _ => continue,
        }
        lines.extend(i);
    }
    push(text, &mut gpus, lines, found);
}

fn push(text: &Text, gpus: &mut Vec<GpuFacts>, lines: Span, found: &mut Found) {
    let gpus = std::mem::take(gpus);
    if let Some(lines) = lines.numbers(text) {
        found.push(text, TOOL, lines, Fact::Gpus(gpus));
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::scanned;
    use super::*;

    #[test]
    fn gpus_of_a_host() {
        let gpu = |n: u32| {
            format!(
                "Device Index:   {n}\nDevice Minor:   {n}\nModel:          GeForce GTX 1080\nBrand:          GeForce\nGPU UUID:       GPU-{n}\nBus Location:   00000000:0{n}:00.0\nArchitecture:   6.1\n\n"
            )
        };
        let found = scanned(scan, &format!("NVRM version:   450.80.02\nCUDA version:   11.0\n\n{}{}", gpu(1), gpu(2)));
        let [one] = found.evidence.as_slice() else { panic!("{found:#?}") };
        let Fact::Gpus(gpus) = &one.fact else { panic!() };
        assert_eq!((gpus.len(), gpus[1].index, gpus[1].compute_capability), (2, Some(2), Some((6, 1))));
        assert_eq!(gpus[0].address.map(|a| a.to_string()).as_deref(), Some("0000:01:00.0"));
        assert_eq!(scanned(scan, "Device Index: none\nModel: X\n"), Found::default());
    }
}
