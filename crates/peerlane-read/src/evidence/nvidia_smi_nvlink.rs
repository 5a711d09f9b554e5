//! `nvidia-smi nvlink -s` (rate of each link), `-R` (its far end), `-e` (its errors) and `-gt d` (what it carried); `-c`
//! (capabilities) is passed over.

use std::collections::{BTreeMap, HashSet};

use super::limits::{MAX_DEVICES, MAX_PORTS};
use super::text::Span;
use super::words::{number_and_unit, numbered};
use super::{Fact, Found, GpuFacts, NvlinkEnd, NvlinkPort, Text};
use peerlane_machine::fact::{Area, Grade, HealthReport, Message, Trouble};
use peerlane_machine::units::Rate;

const STATUS: &str = "nvidia-smi nvlink -s";
const REMOTE: &str = "nvidia-smi nvlink -R";
const ERRORS: &str = "nvidia-smi nvlink -e";
const TRAFFIC: &str = "nvidia-smi nvlink -gt d";

/// A link that carried less than a hundredth of what the busiest link of its GPU did is idle.
const IDLE: f64 = 0.01;

/// Up to so many errors of one counter are chance.
const FEW: u64 = 16;

/// The most counters that are named.
const MOST_NAMED: usize = 16;

pub(super) fn scan(text: &Text, found: &mut Found) {
    let mut output = Output::default();
    let mut gpu = None;
    for (i, line) in text.iter() {
        let line = line.trim_start_matches('>').trim();
        if line.is_empty() || line.starts_with("MIG ") {
            continue;
        }
        if let Some((number, name)) = gpu_line(line) {
            // GPUs come in order, so that a lower number begins another output
            if output.gpu.is_some_and(|last| number <= last) {
                output.finish(text, found);
            }
            (gpu, output.gpu) = (Some(number), Some(number));
            if output.names.len() <= MAX_DEVICES {
                output.names.push(GpuFacts::listed(number, name));
            }
            continue;
        }
        let Some(gpu) = gpu.filter(|_| output.gpu.is_some()) else { continue };
        match link_line(line) {
            Some(link) => output.take(text, i, gpu, link, found),
            None if is_capability(line) => {}
            None => output.finish(text, found),
        }
    }
    output.finish(text, found);
}

/// What one line states about a link.
enum Link {
    Rate(u8, Rate),
    Remote(u8, Option<NvlinkEnd>),
    Inactive(u8),
    /// A counter of errors.
    Errors(u8, String, u64),
    /// What it carried in one direction, in KiB.
    Traffic(u8, u64),
    /// No link of this GPU is active; their number is unknown.
    AllInactive,
}

/// One run of the tool.
#[derive(Default)]
struct Output {
    /// The last GPU it named.
    gpu: Option<u32>,
    lines: Span,
    tool: Option<&'static str>,
    ports: Vec<NvlinkPort>,
    names: Vec<GpuFacts>,
    /// Counters of errors that are not 0, in words with their values.
    failing: Vec<(String, u64)>,
    /// What links carried, by GPU and link.
    traffic: BTreeMap<(u32, u8), u64>,
}

impl Output {
    fn take(&mut self, text: &Text, i: usize, gpu: u32, link: Link, found: &mut Found) {
        let tool = match link {
            Link::Rate(..) => Some(STATUS),
            Link::Remote(..) => Some(REMOTE),
            Link::Errors(..) => Some(ERRORS),
            Link::Traffic(..) => Some(TRAFFIC),
            Link::Inactive(_) | Link::AllInactive => self.tool,
        };
        if self.tool.is_some() && self.tool != tool {
            self.finish(text, found);
            self.gpu = Some(gpu);
        }
        self.tool = tool;
        self.lines.add(i);
        if let Link::Errors(n, name, count) = &link {
            let n = *n;
            if *count > 0 && self.failing.len() < MAX_PORTS {
                self.failing.push((format!("GPU{gpu} link {n}: {count} {name}"), *count));
            }
            // a link has several counters
            if self.ports.last().is_some_and(|p| (p.gpu, p.port) == (Some(gpu), Some(n))) {
                return;
            }
        }
        if let Link::Traffic(n, carried) = &link {
            if self.traffic.len() < MAX_PORTS {
                let sum = self.traffic.entry((gpu, *n)).or_default();
                *sum = sum.saturating_add(*carried);
            }
            // a link has a counter for each direction
            if self.ports.last().is_some_and(|p| (p.gpu, p.port) == (Some(gpu), Some(*n))) {
                return;
            }
        }
        if self.ports.len() > MAX_PORTS {
            return;
        }
        let port = NvlinkPort { gpu: Some(gpu), ..NvlinkPort::default() };
        self.ports.push(match link {
            Link::Rate(n, rate) => NvlinkPort { port: Some(n), rate: Some(rate), ..port },
            Link::Remote(n, remote) => NvlinkPort { port: Some(n), remote, ..port },
            Link::Errors(n, ..) | Link::Traffic(n, _) => NvlinkPort { port: Some(n), ..port },
            Link::Inactive(n) => NvlinkPort { port: Some(n), active: false, ..port },
            Link::AllInactive => NvlinkPort { count: 0, active: false, ..port },
        });
    }

    /// Pushes what was read and starts anew.
    fn finish(&mut self, text: &Text, found: &mut Found) {
        let mut output = std::mem::take(self);
        let Some(lines) = output.lines.numbers(text) else { return };
        let tool = output.tool.unwrap_or(STATUS);
        // a run that goes on under another tool's name has already listed its names
        let with_ports: HashSet<Option<u32>> = output.ports.iter().map(|p| p.gpu).collect();
        let named = |g: &GpuFacts| with_ports.contains(&g.index);
        let names: Vec<GpuFacts> = std::mem::take(&mut output.names).into_iter().filter(named).collect();
        output.report_errors(text, tool, lines, found);
        output.report_traffic(text, lines, found);
        // `nvlink -e | grep "Link 14"` shows no other links, and says nothing of them
        let is_whole = |gpu| output.ports.iter().any(|p| p.gpu == gpu && p.port == Some(0));
        if tool == ERRORS && !output.ports.iter().all(|p| is_whole(p.gpu)) {
            output.ports.clear();
        }
        // inactive links are printed too, so that missing lines are not missing links
        let count = |gpu| output.ports.iter().filter(|p| p.gpu == gpu && p.port.is_some()).count();
        if let (Some(first), Some(last)) = (output.ports.first(), output.ports.last())
            && last.port.is_some()
            && count(last.gpu) < count(first.gpu)
        {
            let (n, of, cut) = (count(last.gpu), count(first.gpu), last.gpu);
            found.warn(
                text,
                tool,
                lines,
                format!("the last GPU has {n} of {of} links: the capture is cut, and they are left out"),
            );
            // how many it has in all is not known, and fewer would read as links that are down
            output.ports.retain(|p| p.gpu != cut);
        }
        found.push(text, tool, lines, Fact::Gpus(names));
        found.push(text, tool, lines, Fact::Nvlink(output.ports));
    }
}

impl Output {
    /// A link that carried nothing while the others of its GPU did is worth a look; the counters show no more than use.
    fn report_traffic(&self, text: &Text, lines: (u32, u32), found: &mut Found) {
        let mut report = HealthReport { area: Area::Gpu, sound: 0, troubles: Vec::new() };
        for ((gpu, link), carried) in &self.traffic {
            let of_gpu = self.traffic.range((*gpu, 0)..=(*gpu, u8::MAX));
            let most = of_gpu.map(|(_, carried)| *carried).max().unwrap_or_default();
            if most == 0 {
                continue;
            }
            if (*carried as f64) >= IDLE * most as f64 {
                report.sound += 1;
                continue;
            }
            report.troubles.push(Trouble {
                part: Some(format!("GPU{gpu}")),
                what: format!("link {link} carried"),
                value: format!("{carried} KiB, the busiest {most} KiB"),
                grade: Grade::Note,
            });
        }
        if report.sound > 0 || !report.troubles.is_empty() {
            found.push(text, TRAFFIC, lines, Fact::Health(report));
        }
    }

    /// Counters that are not 0: many errors of a link are a sign, few are chance.
    fn report_errors(&self, text: &Text, tool: &'static str, lines: (u32, u32), found: &mut Found) {
        let many: Vec<&str> = self.failing.iter().filter(|(_, n)| *n > FEW).map(|(words, _)| words.as_str()).collect();
        if self.failing.len() > many.len() {
            let few = self.failing.len() - many.len();
            let message = format!("{few} error counters of NVLinks are not 0; see whether they rise under load");
            found.warn(text, tool, lines, message);
        }
        let Some(first) = many.first() else { return };
        let message = Message {
            id: "nvlink-error-counters",
            parts: many.iter().map(|words| ("what", (*words).to_owned())).take(MOST_NAMED).collect(),
            quote: (*first).to_owned(),
            host: None,
            count: many.len() as u32,
        };
        found.push(text, tool, lines, Fact::Message(message));
    }
}

/// `GPU 3: NVIDIA H200 (UUID: GPU-…)`: the number and the product.
fn gpu_line(line: &str) -> Option<(u32, &str)> {
    let (head, rest) = line.split_once(':')?;
    let (name, _) = rest.split_once("(UUID:")?;
    Some((numbered(head.strip_prefix("GPU ")?, "")?, name.trim()))
}

fn link_line(line: &str) -> Option<Link> {
    // "Unable to retrieve NVLink information as all links are inActive"
    if line.contains("all links are inActive") {
        return Some(Link::AllInactive);
    }
    let (number, value) = line.strip_prefix("Link ")?.split_once(':')?;
    let (number, value) = (number.parse().ok()?, value.trim());
    if value.eq_ignore_ascii_case("<inactive>") {
        return Some(Link::Inactive(number));
    }
    if let Some(device) = value.strip_prefix("Remote Device ") {
        let address = device.split_once(": Link").map_or(device, |(address, _)| address).trim();
        return Some(Link::Remote(number, far_end(address)));
    }
    // `Replay Errors: 0`, `CRC Errors: 12`, `Effective Errors: 0`; fifth-generation links have counters of packets too
    if let Some((name, count)) = value.rsplit_once(": ").filter(|(name, _)| name.ends_with("Errors")) {
        let name = name.to_owned();
        return count.trim().parse().ok().map(|count| Link::Errors(number, name, count));
    }
    // `Data Tx: 1899714168 KiB`, `Raw Rx: 12 KiB`, which counts protocol too
    if let Some(carried) = value.strip_prefix("Data Tx: ").or_else(|| value.strip_prefix("Data Rx: ")) {
        let carried = carried.strip_suffix("KiB")?.trim().parse().ok()?;
        return Some(Link::Traffic(number, carried));
    }
    let (rate, unit) = number_and_unit(value)?;
    (unit == "GB/s").then(|| Link::Rate(number, Rate::from_gb(rate)))
}

/// The device of that address; one of all ones is hidden.
pub(super) fn far_end(address: &str) -> Option<NvlinkEnd> {
    let hidden = address.starts_with(['F', 'f'])
        && address.split(':').take(2).all(|field| field.bytes().all(|b| b.eq_ignore_ascii_case(&b'f')));
    if hidden { Some(NvlinkEnd::Hidden) } else { address.parse().ok().map(NvlinkEnd::Device) }
}

/// `Link 0, P2P is supported: true` of `-c`.
fn is_capability(line: &str) -> bool {
    line.starts_with("Link ") && line.split_once(',').is_some_and(|(_, rest)| rest.contains(':'))
}

#[cfg(test)]
mod tests {
    use super::*;

    type Ports = (&'static str, Option<(u32, u32)>, Vec<NvlinkPort>);

    fn scanned(text: &str) -> (Vec<Ports>, usize) {
        let mut found = Found::default();
        scan(&Text::new("test", text.as_bytes()), &mut found);
        let ports = |fact| if let Fact::Nvlink(ports) = fact { Some(ports) } else { None };
        let all = found.evidence.into_iter().filter_map(|e| Some((e.origin.tool, e.origin.lines, ports(e.fact)?)));
        (all.collect(), found.warnings.len())
    }

    #[test]
    fn three_outputs_one_after_another() {
        let text = "GPU 0: NVIDIA A100 (UUID: GPU-1)\n\t Link 0: 25.781 GB/s\n\t Link 1: <inactive>\n\
                    GPU 1: NVIDIA A100 (UUID: GPU-2)\n\t Link 0: 25 GB/s\n\t Link 1: 25 GB/s\n\
                    GPU 0: NVIDIA A100 (UUID: GPU-1)\n\t Link 0: Remote Device 00000000:C4:00.0: Link 13\n\
                    \t Link 1: Remote Device FFFFFFFF:FF:FF.0: Link 0\n\
                    GPU 1: NVIDIA A100 (UUID: GPU-2)\n\t Link 0: Remote Device 00000000:C4:00.0: Link 1\n\
                    GPU 0: NVIDIA A100 (UUID: GPU-1)\n\t Link 0, P2P is supported: true\n";
        let (all, warnings) = scanned(text);
        let [(STATUS, Some((2, 6)), status), (REMOTE, Some((8, 11)), remote)] = &all[..] else { panic!("{all:?}") };
        assert_eq!(status.iter().filter(|p| p.active).count(), 3);
        assert_eq!(status[0].rate, Some(Rate::from_gb(25.781)));
        assert_eq!((status[1].gpu, status[1].port, status[1].active), (Some(0), Some(1), false));
        assert_eq!(remote[0].remote, Some(NvlinkEnd::Device("c4:00.0".parse().unwrap())));
        assert_eq!(remote[1].remote, Some(NvlinkEnd::Hidden));
        assert_eq!(warnings, 1, "GPU1's second link is cut off");
    }

    #[test]
    fn names_of_the_gpus() {
        let mut found = Found::default();
        let text = "GPU 0: NVIDIA A100 (UUID: GPU-1)\n\t Link 0: 25 GB/s\nGPU 3: NVIDIA A30 (UUID: GPU-2)\n\t Link 0: 25 GB/s\n";
        scan(&Text::new("test", text.as_bytes()), &mut found);
        let Fact::Gpus(gpus) = &found.evidence[0].fact else { panic!("{found:?}") };
        assert_eq!((gpus[1].index, gpus[1].name.as_deref(), gpus.len()), (Some(3), Some("NVIDIA A30"), 2));
    }

    #[test]
    fn counters_of_errors() {
        let text = "GPU 0: NVIDIA H100 (UUID: GPU-1)\n\t Link 0: Replay Errors: 0\n\t Link 0: Recovery Errors: 3\n\t Link 0: CRC Errors: 12\n\
                    \t Link 1: Replay Errors: 0\n\t Link 1: Recovery Errors: 0\n\t Link 1: CRC Errors: 0\n";
        let (all, warnings) = scanned(text);
        let [(ERRORS, Some((2, 7)), ports)] = &all[..] else { panic!("{all:?}") };
        assert_eq!((ports.len(), warnings), (2, 1));
    }

    #[test]
    fn what_links_carried() {
        let link = |n: u8, tx: u32| format!("\t Link {n}: Data Tx: {tx} KiB\n\t Link {n}: Data Rx: {tx} KiB\n");
        let text = format!("GPU 0: NVIDIA A100 (UUID: GPU-1)\n{}{}{}", link(0, 90_000), link(1, 12), link(2, 91_000));
        let (all, warnings) = scanned(&text);
        assert_eq!((all[0].0, all[0].2.len(), warnings), (TRAFFIC, 3, 0));
        let mut found = Found::default();
        scan(&Text::new("test", text.as_bytes()), &mut found);
        let report =
            found.evidence.iter().find_map(|e| if let Fact::Health(h) = &e.fact { Some(h) } else { None }).unwrap();
        assert_eq!((report.sound, report.troubles.len(), report.troubles[0].what.as_str()), (2, 1, "link 1 carried"));
        let mut idle = Found::default();
        scan(&Text::new("test", format!("GPU 0: NVIDIA A100 (UUID: GPU-1)\n{}", link(0, 0)).as_bytes()), &mut idle);
        assert!(!idle.evidence.iter().any(|e| matches!(e.fact, Fact::Health(_))), "nothing was carried");
    }

    #[test]
    fn no_active_link_at_all() {
        let text = "GPU 0: NVIDIA L40S (UUID: GPU-1)\n\
                    NVML: Unable to retrieve NVLink information as all links are inActive\n";
        let (all, warnings) = scanned(text);
        assert_eq!((all[0].2[0].count, all[0].2[0].active, warnings), (0, false, 0));
        assert!(scanned("GPU 0: NVIDIA L40S (UUID: GPU-1)\nLink 0 is a word\n").0.is_empty());
    }
}
