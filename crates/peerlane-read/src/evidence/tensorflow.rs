//! The GPUs that TensorFlow opens as it starts, in releases 0 to 2.

use super::health::Health;
use super::text::Span;
use super::{Fact, Found, GpuFacts, Text};
use peerlane_machine::fact::Area;

const TOOL: &str = "TensorFlow's log";

/// More GPUs than any machine has.
const MOST: usize = 512;

pub(super) fn scan(text: &Text, found: &mut Found) {
    if !text.holds(&[", pci bus id: "]) {
        return;
    }
    let (mut gpus, mut lines, mut health): (Vec<GpuFacts>, Span, Health) =
        (Vec::new(), Span::default(), Health::default());
    for (i, line) in text.iter() {
        let Some(gpu) = device(line).filter(|_| gpus.len() < MOST) else { continue };
        lines.add(i);
        // each session and each process says it again
        if gpus.iter().any(|known| known.address == gpu.address) {
            continue;
        }
        health.sound(Area::Driver, i);
        // processes that see one GPU each call it their first
        let is_taken = gpus.iter().any(|known| known.index == gpu.index);
        if is_taken {
            gpus.iter_mut().for_each(|known| known.index = None);
        }
        let is_numbered = !is_taken && gpus.iter().all(|known| known.index.is_some());
        gpus.push(GpuFacts { index: gpu.index.filter(|_| is_numbered), ..gpu });
    }
    if let Some(lines) = lines.numbers(text) {
        found.push(text, TOOL, lines, Fact::Gpus(gpus));
        health.push(text, TOOL, found);
    }
}

/// `… Created device /job:… -> device: 0, name: Tesla V100-SXM2-16GB, pci bus id: 0000:1a:00.0, compute capability: 7.0`; older releases
/// put it in parentheses.
fn device(line: &str) -> Option<GpuFacts> {
    let (_, rest) = line.split_once("-> ")?;
    let (index, rest) = rest
        .trim_start_matches("physical GPU ")
        .trim_start_matches('(')
        .strip_prefix("device: ")?
        .split_once(", name: ")?;
    let (name, rest) = rest.split_once(", pci bus id: ")?;
    let address = rest.split([',', ')']).next()?.trim().parse().ok()?;
    let capability = rest.split_once("compute capability: ").and_then(|(_, value)| {
        let (major, minor) = value.trim_end_matches(')').trim().split_once('.')?;
        Some((major.parse().ok()?, minor.parse().ok()?))
    });
    Some(GpuFacts {
        address: Some(address),
        compute_capability: capability,
        ..GpuFacts::listed(index.trim().parse().ok()?, name.trim())
    })
}

#[cfg(test)]
mod tests {
    use super::super::testing::scanned;
    use super::*;

    fn gpus(body: &str) -> Vec<GpuFacts> {
        let found = scanned(scan, body);
        let list = |fact| if let Fact::Gpus(gpus) = fact { gpus } else { Vec::new() };
        found.evidence.into_iter().flat_map(|e| list(e.fact)).collect()
    }

    #[test]
    fn gpus_of_all_releases() {
        let old = "I tensorflow/core/common_runtime/gpu/gpu_device.cc:975] Creating TensorFlow device (/gpu:0) -> (device: 0, name: Quadro X, \
                   pci bus id: 0000:81:00.0)\n";
        let all = gpus(&old.repeat(2));
        assert_eq!((all.len(), all[0].index, all[0].name.as_deref()), (1, Some(0), Some("Quadro X")));
        let new = "I gpu_device.cc:1639] Created device /job:localhost/replica:0/task:0/device:GPU:1 with 1 MB memory:  -> device: 1, \
                   name: NVIDIA Y, pci bus id: 0000:0f:00.0, compute capability: 8.0\n";
        let all = gpus(&format!("{old}{new}"));
        assert_eq!((all.len(), all[1].index, all[1].compute_capability), (2, Some(1), Some((8, 0))));
        let all = gpus(&old.replace("-> (", "-> physical GPU ("));
        assert_eq!(all.len(), 1);
        // two processes that see one GPU each
        let all = gpus(&format!("{old}{}", old.replace("81:", "82:")));
        assert_eq!(all.iter().map(|gpu| gpu.index).collect::<Vec<_>>(), [None, None]);
    }

    #[test]
    fn other_lines() {
        for body in ["device: 0, name: X, pci bus id: here\n", "-> device: a, name: X, pci bus id: 0000:81:00.0\n"] {
            assert_eq!(scanned(scan, body), Found::default(), "{body}");
        }
    }
}
