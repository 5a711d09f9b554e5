//! gdrcopy's programs: rates of `copybw`, latencies of `copylat` and of other programs that print their tables, results of `sanity`.

use super::health::Health;
use super::words::number_and_unit;
use super::{Curve, Fact, Found, GpuFacts, Series, Text, Unit};
use peerlane_machine::fabric::PciAddress;
use peerlane_machine::fact::{Area, Grade};
use peerlane_machine::units::Bytes;

const TOOL: &str = super::tool::GDRCOPY;

/// Writes of a CPU through a window with write combining reach several times this rate, in MB/s, on PCIe 3.0 and later.
const SLOW_WRITE: f64 = 2000.0;

/// Reads of a CPU through the same window are slow by design, but reach hundreds of MB/s with the wide loads that gdrcopy uses on x86.
const SLOW_READ: f64 = 100.0;

/// More GPUs than any machine has, and more sizes than any table.
const MOST: usize = 512;

pub(super) fn scan(text: &Text, found: &mut Found) {
    if !text.holds(&[
        "write BW:",
        "read BW:",
        "gdr_open",
        "gdrdrv",
        ": Checks: ",
        "Waived: ",
        "sanity.cpp",
        "List of failed tests:",
        "Avg.Time(us)",
    ]) {
        return;
    }
    let mut health = Health::default();
    let mut told: Vec<(String, usize)> = Vec::new();
    let mut gpu: Option<String> = None;
    // the GPUs that are listed one below the other, with the first line
    let mut listed: Option<(usize, usize, Vec<GpuFacts>)> = None;
    failed_tests(text, &mut health);
    for (i, line) in text.iter() {
        let line = line.trim_start_matches(['>', ' ', '\t']).trim_end();
        if let Some(facts) = device(line) {
            if listed.is_none() {
                // another run, perhaps of another machine
                health.push(text, TOOL, found);
            }
            let (_, last, gpus) = listed.get_or_insert((i, i, Vec::new()));
            *last = i;
            if gpus.len() < MOST {
                gpus.push(facts);
            }
            continue;
        }
        if let Some((first, last, gpus)) = listed.take() {
            found.push(text, TOOL, text.numbers(first, last), Fact::Gpus(gpus));
        }
        let selected = || line.strip_prefix("Selected GPU ")?.split([',', ' ']).next();
        if let Some(number) = line.strip_prefix("selecting device ").or_else(selected) {
            gpu = number.trim().parse::<u32>().ok().map(|n| format!("GPU{n}"));
        } else if is_head_of_times(line) {
            times(text, i, gpu.as_deref(), &mut health, found);
        } else if let Some(rate) = line.strip_prefix("write BW:") {
            let slow = number_and_unit(rate).filter(|(_, unit)| *unit == "MB/s").map(|(rate, _)| rate < SLOW_WRITE);
            if let Some(slow) = slow {
                health.judge(Area::Test, slow.then_some(Grade::Suspect), gpu.as_deref(), "write BW", rate, i);
            }
            told.push((format!("gdrcopy writes GPU memory at {}", rate.trim()), i));
        } else if let Some(rate) = line.strip_prefix("read BW:") {
            let slow = number_and_unit(rate).filter(|(_, unit)| *unit == "MB/s").map(|(rate, _)| rate < SLOW_READ);
            if slow == Some(true) {
                let what = "the CPU reads GPU memory through its window far below what is usual (hundreds of MB/s):";
                health.trouble(Area::Test, Grade::Limit, gpu.as_deref(), what, rate, i);
            }
            told.push((format!("reads it at {}", rate.trim()), i));
        } else if let Some(failed) = failures(line) {
            health.judge(Area::Test, (failed > 0).then_some(Grade::Fault), None, "sanity:", line, i);
        } else if line.starts_with("Assertion \"") && line.contains(" failed at ") && line.contains("sanity.cpp") {
            health.trouble(Area::Test, Grade::Fault, None, "gdrcopy_sanity:", line, i);
        } else if line.contains("gdrdrv")
            && !line.contains("gdrdrv:")
            && (line.contains("rror") || line.contains("not "))
        {
            health.trouble(Area::Test, Grade::Fault, None, "", line, i);
        }
    }
    told.truncate(MOST_TOLD);
    if let Some((_, first)) = told.first() {
        let words: Vec<&str> = told.iter().map(|(words, _)| words.as_str()).collect();
        health.trouble(Area::Test, Grade::Note, None, "", &words.join(", "), *first);
    }
    health.push(text, TOOL, found);
}

/// The most rates that are reported; a run has two.
const MOST_TOLD: usize = 4;

/// `Test   Size(B)   Avg.Time(us)`.
fn is_head_of_times(line: &str) -> bool {
    line.split_whitespace().eq(["Test", "Size(B)", "Avg.Time(us)"])
}

/// The rows below a head: the test's name, bytes, and the time of one copy. A processor that reads GPU memory through a window is slow by
/// design, so that no time is judged.
fn times(text: &Text, head: usize, gpu: Option<&str>, health: &mut Health, found: &mut Found) {
    let row = |i: usize| {
        let mut words = text.line(i).split_whitespace();
        let (name, size, time) = (words.next()?, words.next()?.parse().ok()?, words.next()?.parse::<f64>().ok()?);
        (words.next().is_none() && time.is_finite() && time > 0.0).then_some((name, Bytes(size), time))
    };
    let rows: Vec<(&str, Bytes, f64)> = (head + 1..text.len()).map_while(row).take(MOST).collect();
    let Some((name, ..)) = rows.first().copied() else { return };
    let of: Vec<_> = rows.iter().take_while(|(test, ..)| *test == name).collect();
    let last = head + of.len();
    for i in head..=last {
        health.used(i);
    }
    health.sound(Area::Test, last);
    if of.len() < 2 {
        return;
    }
    let gpu = gpu.unwrap_or("GPU0").to_owned();
    let lower = name.to_ascii_lowercase();
    let to_gpu = ["h2d", "to_mapping", "write"].iter().any(|word| lower.contains(word));
    let curve = Curve {
        what: name.to_owned(),
        ends: if to_gpu { vec!["host".to_owned(), gpu] } else { vec![gpu, "host".to_owned()] },
        sizes: of.iter().map(|(_, size, _)| *size).collect(),
        series: vec![Series {
            name: "time".to_owned(),
            unit: Some(Unit::Microseconds),
            values: of.iter().map(|(.., time)| Some(*time)).collect(),
        }],
        ..Curve::default()
    };
    found.push(text, TOOL, text.numbers(head, last), Fact::Curve(curve));
}

/// The names below `List of failed tests:`, which come first.
fn failed_tests(text: &Text, health: &mut Health) {
    text.walk(|i| {
        (text.line(i).trim_start_matches(['>', ' ']).trim_end() == "List of failed tests:").then_some(())?;
        let mut at = i + 1;
        while at < text.len() && text.line(at).starts_with([' ', '\t', '>']) && !text.line(at).trim().contains(' ') {
            let name = text.line(at).trim_start_matches(['>', ' ', '\t']).trim();
            if name.is_empty() {
                break;
            }
            health.trouble(Area::Test, Grade::Fault, Some("gdrcopy_sanity"), "failed:", name, at);
            at += 1;
        }
        Some(at)
    });
}

/// `GPU id:0; name: NVIDIA A100-SXM4-40GB; Bus id: 0000:07:00`, `Bus:0000:07:00`; with numbers of ten: `pciDomainID:0; pciBusID:117;
/// pciDeviceID:0`.
fn device(line: &str) -> Option<GpuFacts> {
    let (index, rest) = line.strip_prefix("GPU id:")?.split_once(';')?;
    let (name, bus) = rest.trim().strip_prefix("name:")?.split_once(';')?;
    let number = |key: &str| {
        let (_, rest) = bus.split_once(key)?;
        rest.split(';').next()?.trim().parse::<u32>().ok()
    };
    let address: Option<PciAddress> =
        match bus.trim().strip_prefix("Bus id:").or_else(|| bus.trim().strip_prefix("Bus:")) {
            Some(bus) => bus.trim().parse().ok().or_else(|| format!("{}.0", bus.trim()).parse().ok()),
            None => {
                let (domain, bus, device) = (number("pciDomainID:")?, number("pciBusID:")?, number("pciDeviceID:")?);
                format!("{domain:04x}:{bus:02x}:{device:02x}.0").parse().ok()
            }
        };
    Some(GpuFacts { address, ..GpuFacts::listed(index.trim().parse().ok()?, name) })
}

/// How many checks failed: `100%: Checks: 28, Failures: 0, Errors: 0`, `Total: 30, Passed: 28, Failed: 2, Waived: 0`.
fn failures(line: &str) -> Option<u64> {
    let after = |key: &str| line.split_once(key)?.1.split([',', ' ']).next()?.trim().parse::<u64>().ok();
    if line.contains("Checks: ") {
        return Some(after("Failures: ")? + after("Errors: ")?);
    }
    line.contains("Waived: ").then(|| after("Failed: "))?
}

#[cfg(test)]
mod tests {
    use super::super::testing::scanned;
    use super::*;

    fn troubles(text: &str) -> (u32, Vec<Grade>) {
        let found = scanned(scan, text);
        let report = found
            .evidence
            .into_iter()
            .find_map(|e| if let Fact::Health(report) = e.fact { Some(report) } else { None });
        let report = report.unwrap_or_else(|| panic!("{text}"));
        (report.sound, report.troubles.iter().map(|t| t.grade).collect())
    }

    #[test]
    fn rates_and_results() {
        let text = "GPU id:0; name: NVIDIA A100-SXM4-40GB; Bus id: 0000:07:00\nselecting device 0\nwriting test, size=131072 offset=0 num_iters=10000\n\
                    write BW: 14018.7MB/s\nread BW: 600.3MB/s\n";
        assert_eq!(troubles(text), (1, vec![Grade::Note]));
        assert_eq!(troubles(&text.replace("600.3", "60.3")), (1, vec![Grade::Limit, Grade::Note]));
        let Fact::Gpus(gpus) = &scanned(scan, text).evidence[0].fact else { panic!() };
        assert_eq!(gpus[0].address.unwrap().to_string(), "0000:07:00.0");
        assert_eq!(troubles("write BW: 141.2MB/s\n").1, [Grade::Suspect, Grade::Note]);
        assert_eq!(troubles("100%: Checks: 28, Failures: 0, Errors: 0\n"), (1, vec![]));
        assert_eq!(troubles("Total: 30, Passed: 28, Failed: 2, Waived: 0\n").1, [Grade::Fault]);
        assert_eq!(troubles("gdr_open error: Is gdrdrv driver installed and loaded?\n").1, [Grade::Fault]);
    }

    #[test]
    fn tables_of_times_and_both_lists() {
        let text = "Detected 2 CUDA device(s):\n  GPU id:0; name:NVIDIA A40; Bus:0000:89:00\n  GPU id:1; name:NVIDIA A40; Bus:0000:b1:00\n\
                    Selected GPU 1, allocated 64 bytes\n\nTest   Size(B)   Avg.Time(us)\ncuMemcpy_H2D  1  7.5\ncuMemcpy_H2D  64  7.7\n\n\
                    Test   Size(B)   Avg.Time(us)\ngdr_copy_from_mapping  1  1.5\ngdr_copy_from_mapping  64  9.7\n";
        let found = scanned(scan, text);
        let curves: Vec<_> = found
            .evidence
            .iter()
            .filter_map(|e| if let Fact::Curve(curve) = &e.fact { Some(curve) } else { None })
            .collect();
        assert_eq!(curves.iter().map(|curve| curve.ends.join(" ")).collect::<Vec<_>>(), ["host GPU1", "GPU1 host"]);
        let Fact::Gpus(gpus) = &found.evidence[0].fact else { panic!() };
        assert_eq!((gpus.len(), troubles(text)), (2, (2, vec![])));
        let of_ten = device("GPU id:5; name:AMD Instinct MI325X; pciDomainID:0; pciBusID:133; pciDeviceID:0").unwrap();
        assert_eq!(of_ten.address.unwrap().to_string(), "0000:85:00.0");
    }

    #[test]
    fn failed_tests_by_name() {
        let text = "Assertion \"(gdr_pin_buffer(g, d, size, 0, 0, &mh)) == (0)\" failed at sanity.cpp:99\nTotal: 3, Passed: 1, Failed: 1, Waived: 1\n\n\
                    List of failed tests:\n    basic_widget\n\nList of waived tests:\n    other_widget\n";
        let Fact::Health(report) = &scanned(scan, text).evidence[0].fact else { panic!() };
        let bad: Vec<_> = report.troubles.iter().map(|t| t.value.as_str()).collect();
        assert_eq!((bad[0], bad.len()), ("basic_widget", 3));
    }

    #[test]
    fn other_results() {
        assert_eq!(scanned(scan, "Passed: 28, Failed: 2\ngdrdrv is a module\n"), Found::default());
    }
}
