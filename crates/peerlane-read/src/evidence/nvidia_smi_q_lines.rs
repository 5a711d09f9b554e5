//! Sections that `grep` cut out of `nvidia-smi -q`, such as `nvidia-smi -q | grep -A4 Fabric`, without the lines that
//! name the GPUs. They come in the order of the GPUs' indices.

use super::limits::MAX_DEVICES;
use super::nvidia_smi_q::{gpu_line, set};
use super::text::Span;
use super::words::indent;
use super::{Fact, Found, GpuFacts, Text};

const TOOL: &str = "nvidia-smi -q";

/// Sections that mean the same wherever they stand; `Current` or `Total` alone would not.
const SECTIONS: [&str; 6] =
    ["Fabric", "Remapped Rows", "PCIe Generation", "Link Width", "BAR1 Memory Usage", "Clocks Event Reasons"];

pub(super) fn scan(text: &Text, found: &mut Found) {
    // a whole log has the lines that name GPUs
    let whole = |(_, line): (usize, &str)| gpu_line(line.trim()).is_some() || line.contains("NVSMI LOG");
    if !text.holds(&SECTIONS) || text.iter().any(whole) {
        return;
    }
    let mut gpus: Vec<GpuFacts> = Vec::new();
    let mut lines = Span::default();
    // the section that begins each GPU
    let mut leading: Option<&str> = None;
    text.walk(|i| {
        let name = SECTIONS.into_iter().find(|name| text.line(i).trim().trim_start_matches('>').trim() == *name)?;
        let end = end(text, i);
        if end == i + 1 {
            return None;
        }
        let leading = *leading.get_or_insert(name);
        if name == leading && gpus.len() <= MAX_DEVICES {
            gpus.push(GpuFacts::default());
        }
        let gpu = gpus.last_mut()?;
        for k in i + 1..end {
            if let Some((key, value)) = text.line(k).split_once(" : ") {
                set(gpu, "", name, key.trim(), value.trim());
            }
        }
        lines.add(i);
        lines.add(end - 1);
        Some(end)
    });
    let Some(lines) = lines.numbers(text) else { return };
    gpus.retain(|gpu| *gpu != GpuFacts::default());
    for (i, gpu) in gpus.iter_mut().enumerate() {
        gpu.index = u32::try_from(i).ok();
    }
    found.push(text, TOOL, lines, Fact::Gpus(gpus));
}

/// The line after the fields of the section that line `first` names.
fn end(text: &Text, first: usize) -> usize {
    let depth = indent(text.line(first));
    let field = |i: &usize| indent(text.line(*i)) > depth && text.line(*i).contains(" : ");
    first + 1 + (first + 1..text.len()).take_while(field).count()
}

#[cfg(test)]
mod tests {
    use super::super::testing::scanned;
    use super::*;

    #[test]
    fn the_fabric_of_each_gpu() {
        let one = |state: &str| {
            format!(
                "    Fabric\n        State                             : {state}\n        Status                            : N/A\n\
                 \x20       CliqueId                          : N/A\n--\n"
            )
        };
        let found = scanned(scan, &format!("{}{}", one("Completed"), one("In Progress")));
        let [evidence] = found.evidence.as_slice() else { panic!("{found:#?}") };
        let Fact::Gpus(gpus) = &evidence.fact else { panic!() };
        let states: Vec<_> = gpus.iter().map(|g| (g.index, g.fabric_state.as_deref())).collect();
        assert_eq!(states, [(Some(0), Some("Completed")), (Some(1), Some("In Progress"))]);
        assert_eq!(evidence.origin.lines, Some((1, 9)));
    }

    #[test]
    fn generations_and_widths_are_of_one_gpu() {
        let one = "            PCIe Generation\n                Max                       : 4\n                Current                   : 4\n\
                   \x20           Link Width\n                Max                       : 16x\n                Current                   : 8x\n";
        let found = scanned(scan, &one.repeat(2));
        let Fact::Gpus(gpus) = &found.evidence[0].fact else { panic!() };
        assert_eq!((gpus.len(), gpus[1].running.to_string().as_str(), gpus[1].allowed.lanes), (2, "4.0 x8", Some(16)));
    }

    #[test]
    fn whole_logs_and_words_are_not_for_this_reader() {
        for text in [
            "GPU 00000000:41:00.0\n    Fabric\n        State : Completed\n",
            "Fabric\nState : Completed\n",
            "The Fabric\n   is : good\n",
            "    Fabric\n",
        ] {
            assert_eq!(scanned(scan, text), Found::default(), "{text}");
        }
    }
}
