//! Lists of GPUs by number and product: `nvidia-smi -L`, and the same lines as PyTorch, vLLM and SGLang print them in
//! descriptions of their environment.

use std::collections::HashSet;

use super::text::Span;
use super::words::numbered;
use super::{Fact, Found, GpuFacts, Text};

const TOOL: &str = "nvidia-smi -L";

/// More GPUs than any machine has.
const MAX_GPUS: usize = 512;

/// Words that a product's name begins with, where no UUID shows that the line is one of a list.
const BRANDS: [&str; 9] = ["NVIDIA ", "Tesla ", "GeForce ", "Quadro ", "TITAN ", "RTX ", "GRID ", "A100", "H100"];

pub(super) fn scan(text: &Text, found: &mut Found) {
    let mut list: Vec<GpuFacts> = Vec::new();
    let mut listed: HashSet<u32> = HashSet::new();
    let mut lines = Span::default();
    for (i, line) in text.iter() {
        let line = line.trim_start_matches(['>', ' ', '\t']);
        // instances of MIG stand below their GPU
        if let Some(gpu) = list.last_mut().filter(|_| line.starts_with("MIG ")) {
            gpu.mig = Some(true);
            lines.extend(i);
            continue;
        }
        let entries = if lists_links(text, i) { Vec::new() } else { entries(line) };
        if entries.is_empty() {
            push(text, found, &mut list, &mut lines);
            listed.clear();
            continue;
        }
        for (numbers, name, uuid) in entries {
            // a number again begins another list
            if numbers.iter().any(|n| listed.contains(n)) {
                push(text, found, &mut list, &mut lines);
                listed.clear();
            }
            lines.add(i);
            listed.extend(&numbers);
            // one more than is kept, so that the cut is noticed
            let room = (MAX_GPUS + 1).saturating_sub(list.len());
            list.extend(
                numbers
                    .into_iter()
                    .take(room)
                    .map(|n| GpuFacts { uuid: uuid.map(str::to_owned), ..GpuFacts::listed(n, name) }),
            );
        }
    }
    push(text, found, &mut list, &mut lines);
}

fn push(text: &Text, found: &mut Found, list: &mut Vec<GpuFacts>, lines: &mut Span) {
    let gpus = std::mem::take(list);
    if let Some(lines) = std::mem::take(lines).numbers(text) {
        found.push(text, TOOL, lines, Fact::Gpus(gpus));
    }
}

/// `nvidia-smi nvlink` prints the same line above the links of each GPU.
fn lists_links(text: &Text, i: usize) -> bool {
    let next = (i + 1..text.len().min(i + 3)).map(|k| text.line(k).trim_start()).find(|line| !line.is_empty());
    next.is_some_and(|line| line.starts_with("Link ") || line.contains("inActive") || line.contains("links are"))
}

/// The entries of a line: one, or several that lost the line breaks between them, whatever joins them now.
fn entries(line: &str) -> Vec<(Vec<u32>, &str, Option<&str>)> {
    let starts = line.match_indices("GPU ").map(|(at, _)| at).filter(|at| {
        let number = line.get(at + 4..).unwrap_or_default();
        number.trim_start_matches(|c: char| c.is_ascii_digit() || c == ',').len() < number.len()
    });
    let starts: Vec<usize> = starts.take(MAX_GPUS + 1).collect();
    let ends = starts.iter().skip(1).copied().chain([line.len()]);
    let entry = |(from, to): (&usize, usize)| {
        let joined = |c: char| c.is_whitespace() || matches!(c, ',' | ';' | '|' | '\\' | '/');
        let entry = line.get(*from..to)?;
        // a list's last entry keeps its words; a joint may be a newline that is written out
        let entry = if to < line.len() { entry.trim_end_matches("\\n").trim_end_matches(joined) } else { entry };
        gpus(entry).filter(|(_, _, uuid)| *from == 0 || uuid.is_some() || starts.first() == Some(&0))
    };
    starts.iter().zip(ends).filter_map(entry).collect()
}

/// `GPU 0: NVIDIA L40S (UUID: GPU-…)`, `GPU 0: Tesla V100-SXM2-32GB`, `GPU 0,1: NVIDIA H200`.
fn gpus(line: &str) -> Option<(Vec<u32>, &str, Option<&str>)> {
    let (numbers, rest) = line.strip_prefix("GPU ")?.split_once(':')?;
    let numbers: Vec<u32> = numbers.split(',').map(|n| numbered(n, "")).collect::<Option<_>>()?;
    let (name, uuid) = match rest.split_once(" (UUID: ") {
        Some((name, uuid)) => (name.trim(), uuid.split_once(')').map(|(uuid, _)| uuid)),
        None => (rest.trim(), None),
    };
    // a product has a number, and prose has no brand's name with one
    let product = || name.contains(|c: char| c.is_ascii_digit()) && name.split(' ').count() <= 8;
    let known = uuid.is_some() || (BRANDS.iter().any(|brand| name.starts_with(brand)) && product());
    (known && !name.is_empty() && name.len() < 64 && numbers.len() <= MAX_GPUS).then_some((numbers, name, uuid))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lists(text: &str) -> Vec<Vec<(u32, String)>> {
        let mut found = Found::default();
        scan(&Text::new("t", text.as_bytes()), &mut found);
        let list = |fact| match fact {
            Fact::Gpus(gpus) => gpus.into_iter().map(|g| (g.index.unwrap(), g.name.unwrap())).collect(),
            _ => Vec::new(),
        };
        found.evidence.into_iter().map(|e| list(e.fact)).collect()
    }

    #[test]
    fn lists_of_all_kinds() {
        let gpu = |n, name: &str| (n, name.to_owned());
        let smi = "GPU 0: NVIDIA L40S (UUID: GPU-11-22)\nGPU 1: NVIDIA L40S (UUID: GPU-11-23)\n";
        assert_eq!(lists(smi), [[gpu(0, "NVIDIA L40S"), gpu(1, "NVIDIA L40S")]]);
        assert_eq!(lists("Nvidia driver\nGPU 0,3: NVIDIA H200\nGPU 0,3 Compute Capability: 9.0\n").concat().len(), 2);
        assert_eq!(lists("  GPU 0: Tesla V100-SXM2-32GB\n\nGPU 0: Tesla T4\n").len(), 2);
        assert!(lists("GPU 0: 45 C\nGPU 1: utilization NVIDIA\nGPU memory: NVIDIA\n").is_empty());
    }

    #[test]
    fn entries_that_lost_their_line_breaks() {
        let gpu = |n| (n, "NVIDIA A40".to_owned());
        for joint in [" ", ", ", "; ", "\\n", " | ", ""] {
            let line = format!("GPU 0: NVIDIA A40 (UUID: GPU-1){joint}GPU 1: NVIDIA A40 (UUID: GPU-2)");
            assert_eq!(lists(&line), [[gpu(0), gpu(1)]], "{line}");
            assert_eq!(lists(&format!("GPUs: {line}")), [[gpu(0), gpu(1)]], "{line}");
        }
        assert_eq!(lists("GPU 0: NVIDIA A40, GPU 1: NVIDIA A40"), [[gpu(0), gpu(1)]]);
        assert!(lists("see GPU 0: NVIDIA A40 and GPU 1: NVIDIA A40").is_empty());
    }

    #[test]
    fn the_heads_of_links_are_left_to_their_reader() {
        assert!(lists("GPU 0: NVIDIA A100 (UUID: GPU-1)\n\t Link 0: 25 GB/s\n").is_empty());
    }

    #[test]
    fn instances_tell_of_mig() {
        let mut found = Found::default();
        let text = "GPU 0: NVIDIA A100 (UUID: GPU-1)\n  MIG 3g.20gb Device 0: (UUID: MIG-1)\n";
        scan(&Text::new("t", text.as_bytes()), &mut found);
        let Fact::Gpus(gpus) = &found.evidence[0].fact else { panic!() };
        assert_eq!((gpus[0].mig, found.evidence[0].origin.lines), (Some(true), Some((1, 2))));
    }
}
