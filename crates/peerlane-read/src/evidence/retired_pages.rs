//! Retired pages of GPU memory, as `nvidia-smi -q` lists them for GPUs before Ampere.

use super::health::Health;
use super::nvidia_smi_q::gpu_line;
use super::{Found, Text};
use peerlane_machine::fact::{Area, Grade};

const TOOL: &str = "nvidia-smi -q";

pub(super) fn scan(text: &Text, found: &mut Found) {
    if !text.holds(&["Retired Pages"]) {
        return;
    }
    let mut health = Health::default();
    let (mut gpu, mut within) = (None, false);
    for (i, line) in text.iter() {
        let line = line.trim_start_matches('>').trim();
        if gpu_line(line).is_some() {
            gpu = line.split_whitespace().nth(1);
        }
        if line == "Retired Pages" {
            within = true;
            continue;
        }
        let Some((key, value)) = line.split_once(" : ").filter(|_| within) else {
            within = false;
            continue;
        };
        let (key, value) = (key.trim(), value.trim());
        let bad = match (key, value) {
            // the page is still in use until the GPU is reset
            ("Pending Page Blacklist" | "Pending", "Yes") => Some(Grade::Suspect),
            ("Pending Page Blacklist" | "Pending", "No") | ("Single Bit ECC" | "Double Bit ECC", "0") => None,
            // pages that are retired do no harm any more
            ("Single Bit ECC" | "Double Bit ECC", count) if count.bytes().all(|b| b.is_ascii_digit()) => {
                Some(Grade::Note)
            }
            _ => continue,
        };
        health.judge(Area::Gpu, bad, gpu, &format!("retired pages, {key}:"), value, i);
    }
    health.push(text, TOOL, found);
}

#[cfg(test)]
mod tests {
    use super::super::testing::{health, scanned};
    use super::*;

    #[test]
    fn pages_of_two_gpus() {
        let gpu = |bus: u32, double: u32, pending: &str| {
            format!(
                "GPU 00000000:0{bus}:00.0\n    Retired Pages\n        Single Bit ECC                    : 0\n        Double Bit ECC                    : {double}\n        Pending Page Blacklist            : {pending}\n    Remapped Rows                         : N/A\n"
            )
        };
        let sound = health(scan, &(gpu(1, 0, "No") + &gpu(2, 0, "No")));
        assert_eq!((sound.sound, sound.troubles.len()), (6, 0));
        let read = health(scan, &(gpu(1, 0, "No") + &gpu(2, 2, "Yes")));
        let bad: Vec<_> = read.troubles.iter().map(|t| (t.part.as_deref().unwrap_or(""), t.grade)).collect();
        assert_eq!(bad, [("00000000:02:00.0", Grade::Note), ("00000000:02:00.0", Grade::Suspect)]);
    }

    #[test]
    fn counts_that_are_not_there() {
        let text = "    Retired Pages\n        Single Bit ECC  : N/A\n        Pending Page Blacklist : N/A\n    Other\n        Pending : Yes\n";
        assert_eq!(scanned(scan, text), Found::default());
    }
}
