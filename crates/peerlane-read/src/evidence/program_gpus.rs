//! GPUs that programs name in their own logs: banners of trainers and of programs for pictures, and the ranks of a server on one host.

use super::text::Span;
use super::{Fact, Found, GpuFacts, Text};
use peerlane_machine::units::Bytes;

const TOOL: &str = "program's log";

/// More GPUs than any host has.
const MOST: u32 = 512;

pub(super) fn scan(text: &Text, found: &mut Found) {
    const HALLMARKS: [&str; 5] =
        ["Num GPUs = ", "CUDA:0 (", "You are using a CUDA device ('", "Device: cuda:0 ", " local_rank=0 "];
    if !text.holds_one_of(&HALLMARKS) {
        return;
    }
    let mut gpus: Vec<GpuFacts> = Vec::new();
    let (mut lines, mut ranks) = (Span::default(), Ranks::default());
    for (i, line) in text.iter().filter(|(_, line)| line.len() < 1000) {
        let named = banner(line).or_else(|| listed(line)).or_else(|| named(line));
        for gpu in named.unwrap_or_default() {
            // what a program says again
            if gpus.iter().all(|known| known.index != gpu.index) && gpus.len() < MOST as usize {
                gpus.push(gpu);
            }
            lines.add(i);
        }
        if let Some(capability) = capability(line).filter(|_| !gpus.is_empty()) {
            gpus.iter_mut().for_each(|gpu| gpu.compute_capability = gpu.compute_capability.or(Some(capability)));
            lines.add(i);
        }
        ranks.read(line, i);
    }
    if gpus.is_empty() {
        (gpus, lines) = ranks.gpus();
    }
    if let Some(lines) = lines.numbers(text) {
        found.push(text, TOOL, lines, Fact::Gpus(gpus));
    }
}

/// Unsloth: `   \\   /|    NVIDIA A100-SXM4-80GB. Num GPUs = 1. Max memory: 79.318 GB. Platform: Linux.`, which counts in GiB.
fn banner(line: &str) -> Option<Vec<GpuFacts>> {
    let (before, rest) = line.split_once(". Num GPUs = ")?;
    let name = before.rsplit("   ").next()?.trim();
    let number: u32 = rest.split('.').next()?.trim().parse().ok().filter(|n| (1..=MOST).contains(n))?;
    let memory = rest.split_once("Max memory: ").and_then(|(_, rest)| rest.split(' ').next()?.parse::<f64>().ok());
    let memory =
        memory.filter(|gib| (0.1..10_000.0).contains(gib)).map(|gib| Bytes((gib * 1024.0 * 1024.0 * 1024.0) as u64));
    (!name.is_empty()).then(|| (0..number).map(|n| GpuFacts { memory, ..GpuFacts::listed(n, name) }).collect())
}

/// Unsloth's next line: `Torch: 2.7.0+cu126. CUDA: 8.0. CUDA Toolkit: 12.6.`, where the second is the compute capability.
fn capability(line: &str) -> Option<(u8, u8)> {
    let (_, rest) = line.split_once(". CUDA: ").filter(|_| line.contains("CUDA Toolkit: "))?;
    let (major, rest) = rest.split_once('.')?;
    Some((major.parse().ok()?, rest.split('.').next()?.trim().parse().ok()?))
}

/// Ultralytics: `… torch-2.3.0 CUDA:0 (NVIDIA X, 40339MiB)`, and below it `CUDA:1 (NVIDIA X, 40339MiB)`.
fn listed(line: &str) -> Option<Vec<GpuFacts>> {
    let (before, rest) = line.split_once("CUDA:")?;
    let (index, rest) = rest.split_once(" (")?;
    let (name, memory) = rest.split_once(')')?.0.rsplit_once(", ")?;
    let mib: u64 = memory.strip_suffix("MiB")?.parse().ok().filter(|mib| *mib < 1 << 24)?;
    let is_list = before.trim().is_empty() || before.contains("torch");
    let gpu = GpuFacts { memory: Some(Bytes::from_mib(mib)), ..GpuFacts::listed(index.parse().ok()?, name) };
    is_list.then(|| vec![gpu])
}

/// Lightning: `You are using a CUDA device ('NVIDIA X') that has Tensor Cores.`; ComfyUI: `Device: cuda:0 NVIDIA X : native`.
fn named(line: &str) -> Option<Vec<GpuFacts>> {
    let quoted = || line.split_once("You are using a CUDA device ('")?.1.split_once("')").map(|(name, _)| name);
    let device = || line.trim().strip_prefix("Device: cuda:0 ")?.split(" : ").next();
    let name = quoted().or_else(device).filter(|name| !name.is_empty() && name.len() < 80)?;
    Some(vec![GpuFacts::listed(0, name)])
}

/// Ranks of a server: `world_size=8 rank=3 local_rank=3 distributed_init_method=…`.
#[derive(Default)]
struct Ranks {
    world: u32,
    seen: Vec<u32>,
    lines: Span,
}

impl Ranks {
    fn read(&mut self, line: &str, i: usize) -> Option<()> {
        let number = |key: &str| {
            let (_, rest) = line.split_once(key)?;
            rest.split(' ').next()?.parse::<u32>().ok().filter(|n| *n <= MOST)
        };
        let (world, rank, local) = (number("world_size=")?, number(" rank=")?, number(" local_rank=")?);
        // a rank that has another number on its host shows that there are several hosts
        if rank == local && rank < world && !self.seen.contains(&rank) {
            self.world = world;
            self.seen.push(rank);
            self.lines.add(i);
        }
        Some(())
    }

    /// The GPUs of ranks that are all on one host.
    fn gpus(self) -> (Vec<GpuFacts>, Span) {
        if self.world < 2 || self.seen.len() != self.world as usize {
            return (Vec::new(), Span::default());
        }
        ((0..self.world).map(|n| GpuFacts::listed(n, "")).collect(), self.lines)
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::scanned;
    use super::*;

    fn gpus(body: &str) -> Vec<GpuFacts> {
        let all = scanned(scan, body).evidence.into_iter();
        all.filter_map(|e| if let Fact::Gpus(gpus) = e.fact { Some(gpus) } else { None }).flatten().collect()
    }

    #[test]
    fn banners_name_gpus() {
        let unsloth = "   \\\\   /|    NVIDIA X-80GB. Num GPUs = 2. Max memory: 79.5 GB. Platform: Linux.\nO^O/ \\_/ \\    Torch: 2.7.0. CUDA: 8.0. CUDA Toolkit: 12.6.\n";
        let all = gpus(unsloth);
        assert_eq!(
            (all.len(), all[1].name.as_deref(), all[1].compute_capability),
            (2, Some("NVIDIA X-80GB"), Some((8, 0)))
        );
        assert_eq!(all[0].memory, Some(Bytes(85_362_475_008)));
        let yolo = "Ultralytics 8.2.0 Python-3.10 torch-2.3.0 CUDA:0 (NVIDIA X, 40339MiB)\n        CUDA:1 (NVIDIA X, 40339MiB)\n";
        assert_eq!(gpus(yolo).iter().map(|gpu| gpu.index).collect::<Vec<_>>(), [Some(0), Some(1)]);
        assert_eq!(
            gpus("You are using a CUDA device ('NVIDIA X') that has Tensor Cores.\n")[0].name.as_deref(),
            Some("NVIDIA X")
        );
        assert_eq!(gpus("Device: cuda:0 NVIDIA X : native\n").len(), 1);
    }

    #[test]
    fn ranks_of_one_host_are_its_gpus() {
        let rank = |n: u32, local: u32| {
            format!("INFO world_size=2 rank={n} local_rank={local} distributed_init_method=tcp://h backend=nccl\n")
        };
        assert_eq!(gpus(&(rank(1, 1) + &rank(0, 0))).len(), 2);
        assert_eq!(gpus(&(rank(1, 0) + &rank(0, 0))), [], "two hosts");
        assert_eq!(gpus(&rank(0, 0)), [], "cut");
    }
}
