//! `dcgmi nvlink --link-status`: a letter a link, GPU by GPU. NVSwitches' own links are passed over.

use super::limits::MAX_PORTS;
use super::{Fact, Found, NvlinkPort, Text};

const TOOL: &str = "dcgmi nvlink";

/// More links than any GPU has.
const MAX_LINKS: usize = 64;

pub(super) fn scan(text: &Text, found: &mut Found) {
    text.walk(|i| text.line(i).contains("NvLink Link Status").then(|| status(text, i, found)));
}

/// Reads one run below its title; returns the line to go on with.
fn status(text: &Text, title: usize, found: &mut Found) -> usize {
    let mut ports: Vec<NvlinkPort> = Vec::new();
    let (mut gpu, mut last) = (None, title);
    for i in title + 1..text.len() {
        let line = text.line(i).trim();
        if let Some(number) = line.strip_prefix("gpuId ").and_then(|rest| rest.strip_suffix(':')) {
            gpu = number.trim().parse::<u32>().ok();
        } else if line.starts_with("NvSwitch") || line.starts_with("Key:") {
            break;
        } else if let Some(gpu) = gpu.take_if(|_| is_links(line)) {
            // disabled links (X) and those that the product lacks (_) are none
            let letters = line.split_whitespace().enumerate().filter(|(_, letter)| matches!(*letter, "U" | "D"));
            let room = (MAX_PORTS + 1).saturating_sub(ports.len());
            ports.extend(letters.take(room).map(|(n, letter)| NvlinkPort {
                gpu: Some(gpu),
                port: u8::try_from(n).ok(),
                active: letter == "U",
                ..NvlinkPort::default()
            }));
            last = i;
        } else if !(line.is_empty() || line.starts_with('+') || line == "GPUs:") {
            break;
        }
    }
    found.push(text, TOOL, text.numbers(title, last), Fact::Nvlink(ports));
    last + 1
}

/// Whether a line has nothing but letters of links.
fn is_links(line: &str) -> bool {
    let mut words = line.split_whitespace();
    let count = line.split_whitespace().count();
    (1..=MAX_LINKS).contains(&count) && words.all(|word| matches!(word, "U" | "D" | "X" | "_"))
}

#[cfg(test)]
mod tests {
    use super::super::testing::scanned;
    use super::*;

    #[test]
    fn letters_are_links() {
        let found = scanned(
            scan,
            "$ dcgmi nvlink --link-status\n+----------------------+\n|  NvLink Link Status  |\n+----------------------+\nGPUs:\n    \
             gpuId 0:\n        U U D X _\n    gpuId 3:\n        U U U U _\nNvSwitches:\n    physicalId 8:\n        U U U U\n\nKey: Up=U\n",
        );
        let Fact::Nvlink(ports) = &found.evidence[0].fact else { panic!("{found:#?}") };
        let of = |gpu: u32, active: bool| ports.iter().filter(|p| p.gpu == Some(gpu) && p.active == active).count();
        assert_eq!((of(0, true), of(0, false), of(3, true), ports.len()), (2, 1, 4, 7));
        assert_eq!((found.evidence.len(), found.evidence[0].origin.lines), (1, Some((3, 9))));
        assert_eq!(scanned(scan, "|  NvLink Link Status  |\nnothing\nU U U\n"), Found::default());
    }
}
