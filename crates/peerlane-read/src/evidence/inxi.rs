//! The report of `inxi`, old and new, with colours or without: GPUs, their drivers, and links of network interfaces.

use super::health::Health;
use super::{Fact, Found, GpuFacts, Text};
use peerlane_machine::fact::{Area, Grade};

const TOOL: &str = "inxi";

/// Headings at the starts of lines.
const SECTIONS: [&str; 16] = [
    "System:",
    "Machine:",
    "Battery:",
    "CPU:",
    "Memory:",
    "Graphics:",
    "Audio:",
    "Network:",
    "Bluetooth:",
    "Drives:",
    "Partition:",
    "RAID:",
    "Swap:",
    "Sensors:",
    "Info:",
    "USB:",
];

/// Fewer are not inxi's.
const FEWEST: usize = 3;

/// A longer section is something else, in bytes.
const LONGEST: usize = 8192;

pub(super) fn scan(text: &Text, found: &mut Found) {
    if !text.holds(&["Graphics:"]) {
        return;
    }
    let mut sections: Vec<(&str, usize, usize, String)> = Vec::new();
    for (i, line) in text.iter() {
        let (line, before) = (line.trim(), sections.len());
        if let Some((name, rest)) = SECTIONS.iter().find_map(|name| Some((*name, line.strip_prefix(*name)?))) {
            if before == 64 {
                break;
            }
            sections.push((name, i, i, rest.trim().to_owned()));
        } else if let Some((_, _, last, body)) = sections
            .last_mut()
            .filter(|(_, _, last, body)| i == *last + 1 && !line.is_empty() && body.len() + line.len() < LONGEST)
        {
            body.push(' ');
            body.push_str(line);
            *last = i;
        }
    }
    if sections.len() < FEWEST {
        return;
    }
    for (name, first, last, body) in sections {
        let mut health = Health::default();
        match name {
            "Graphics:" => {
                let gpus = gpus(&body, first, &mut health);
                if !gpus.is_empty() {
                    found.push(text, TOOL, text.numbers(first, last), Fact::Gpus(gpus));
                }
                let lower = body.to_ascii_lowercase();
                let software = ["llvmpipe", "softpipe", "swrast", "software rasterizer", "n/a"];
                let drawn = lower
                    .split_once("renderer: ")
                    .is_some_and(|(_, by)| !software.iter().any(|one| by.starts_with(one)));
                let renders =
                    drawn || ["direct render: yes", "direct rendering: yes"].iter().any(|words| lower.contains(words));
                if lower.contains("llvmpipe") {
                    health.trouble(
                        Area::Driver,
                        Grade::Limit,
                        None,
                        "OpenGL renderer:",
                        "llvmpipe, which draws with the CPU",
                        last,
                    );
                } else if renders {
                    health.sound(Area::Driver, last);
                }
            }
            "Network:" => {
                for interface in body.split("IF: ").skip(1) {
                    let value =
                        |key: &str| interface.split_once(key).and_then(|(_, rest)| rest.split_whitespace().next());
                    let name = interface.split_whitespace().next();
                    if value("state: ") == Some("up") && value("duplex: ").is_some() {
                        let is_half = value("duplex: ") == Some("half");
                        health.judge(
                            Area::NetworkLink,
                            is_half.then_some(Grade::Suspect),
                            name,
                            "duplex:",
                            "half",
                            last,
                        );
                    }
                }
            }
            _ => {}
        }
        health.push(text, TOOL, found);
    }
}

/// The GPUs of NVIDIA and AMD: `Card-1: NVIDIA GP108 [GeForce GT 1030] bus-ID: 01:00.0`, `Device-1: NVIDIA TU104 [GeForce RTX 2080] driver:
/// nvidia v: 525.85 bus-ID: 01:00.0`.
fn gpus(body: &str, line: usize, health: &mut Health) -> Vec<GpuFacts> {
    let mut starts: Vec<usize> =
        body.match_indices("Card").chain(body.match_indices("Device-")).map(|(at, _)| at).collect();
    starts.sort_unstable();
    let ends = starts.iter().skip(1).copied().chain([body.len()]);
    let mut gpus = Vec::new();
    for one in starts.iter().zip(ends).filter_map(|(start, end)| body.get(*start..end)) {
        let Some((number, rest)) = one.split_once(": ") else { continue };
        let is_number = number.trim_start_matches("Card").trim_start_matches("Device").trim_start_matches('-');
        let is_gpu = ["NVIDIA ", "AMD ", "Advanced Micro Devices"].iter().any(|maker| rest.starts_with(maker));
        if !is_gpu || !is_number.bytes().all(|b| b.is_ascii_digit()) {
            continue;
        }
        let value = |key: &str| rest.split_once(key).and_then(|(_, rest)| rest.split_whitespace().next());
        let end =
            [" bus-ID:", " bus ID:", " vendor:", " driver:", " Display"].iter().filter_map(|key| rest.find(key)).min();
        let name = rest.get(..end.unwrap_or(rest.len())).unwrap_or(rest);
        let name = name.split_once('[').and_then(|(_, name)| name.split_once(']')).map_or(name, |(name, _)| name);
        let address = value("bus-ID: ").or_else(|| value("bus ID: ")).and_then(|at| at.parse().ok());
        // a display server's driver stands behind the cards
        let own = rest.split(" Display").next().unwrap_or(rest);
        let driver = own.split_once("driver: ").and_then(|(_, rest)| rest.split_whitespace().next());
        let part = value("bus-ID: ").or_else(|| value("bus ID: "));
        match driver {
            Some("N/A" | "none") => health.trouble(Area::Driver, Grade::Suspect, part, "driver:", "none", line),
            Some(driver @ ("nouveau" | "vfio-pci")) if rest.starts_with("NVIDIA ") => {
                health.trouble(Area::Driver, Grade::Limit, part, "driver:", driver, line);
            }
            Some("nvidia" | "amdgpu") => health.sound(Area::Driver, line),
            _ => {}
        }
        gpus.push(GpuFacts { name: Some(name.trim().to_owned()), address, ..GpuFacts::default() });
    }
    gpus
}

#[cfg(test)]
mod tests {
    use super::super::testing::scanned;
    use super::*;

    fn report(graphics: &str, network: &str) -> String {
        format!(
            "System:    Host: a Kernel: 6.1 x86_64\nMachine:   Device: desktop\nGraphics:  {graphics}\nNetwork:   Card: B\n           IF: e0 {network}\n"
        )
    }

    #[test]
    fn gpus_drivers_and_links() {
        let old = report(
            "Card-1: NVIDIA GP1 [GeForce X]\n           bus-ID: 01:00.0 chip-ID: 10de:1\n           Card-2: Intel HD\n           \
                          Display Server: x11 driver: nvidia\n           Direct Render: Yes",
            "state: up speed: 1000 Mbps duplex: full",
        );
        let found = scanned(scan, &old);
        let Fact::Gpus(gpus) = &found.evidence[0].fact else { panic!("{found:?}") };
        assert_eq!(
            (gpus.len(), gpus[0].name.as_deref(), gpus[0].address),
            (1, Some("GeForce X"), "01:00.0".parse().ok())
        );
        let of = |at: usize| {
            if let Fact::Health(report) = &found.evidence[at].fact { (report.area, report.sound) } else { panic!() }
        };
        assert_eq!((of(1), of(2)), ((Area::Driver, 1), (Area::NetworkLink, 1)));
        let new = report(
            "Device-1: NVIDIA TU1 [GeForce Y] vendor: A driver: N/A bus-ID: 02:00.0\n           direct render: No",
            "state: up duplex: half",
        );
        let bad = scanned(scan, &new).evidence.into_iter().filter_map(|e| {
            if let Fact::Health(report) = e.fact {
                report.troubles.first().map(|t| (report.area, t.grade))
            } else {
                None
            }
        });
        assert_eq!(bad.collect::<Vec<_>>(), [(Area::Driver, Grade::Suspect), (Area::NetworkLink, Grade::Suspect)]);
    }

    #[test]
    fn drivers_that_are_not_the_makers_and_renderers() {
        let body = report(
            "Device-1: NVIDIA TU1M [GeForce Y] vendor: A\n           driver: nouveau v: kernel bus ID: 01:00.0\n           Device-2: AMD B \
             driver: amdgpu v: kernel\n           OpenGL: renderer: AMD R (DRM 3) v: 4.5",
            "state: down",
        );
        let reports = scanned(scan, &body)
            .evidence
            .into_iter()
            .filter_map(|e| if let Fact::Health(r) = e.fact { Some(r) } else { None });
        let of: Vec<_> = reports
            .map(|r| (r.sound, r.troubles.iter().map(|t| (t.part.clone(), t.grade)).collect::<Vec<_>>()))
            .collect();
        assert_eq!(of, [(2, vec![(Some("01:00.0".to_owned()), Grade::Limit)])]);
        let old =
            report("Card: Intel UHD\n           OpenGL: renderer: Mesa DRI Intel UHD version: 4.5", "state: down");
        assert!(matches!(&scanned(scan, &old).evidence[0].fact, Fact::Health(r) if r.sound == 1));
    }

    #[test]
    fn other_headings() {
        assert_eq!(scanned(scan, "Graphics: Card: NVIDIA A [B] driver: N/A\nAudio: none\n"), Found::default());
    }
}
