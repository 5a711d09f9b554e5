//! gdrcopy's programs: rates of `copybw`, latencies of `copylat`, results of `sanity`.

use super::health::Health;
use super::words::number_and_unit;
use super::{Fact, Found, GpuFacts, Text};
use peerlane_machine::fabric::PciAddress;
use peerlane_machine::fact::{Area, Grade};

const TOOL: &str = "gdrcopy";

/// Writes of a CPU through a window with write combining reach several times this rate, in MB/s, on PCIe 3.0 and later.
const SLOW_WRITE: f64 = 2000.0;

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
    ]) {
        return;
    }
    let mut health = Health::default();
    let mut gpu: Option<String> = None;
    failed_tests(text, &mut health);
    for (i, line) in text.iter() {
        let line = line.trim_start_matches(['>', ' ', '\t']).trim_end();
        if let Some(facts) = device(line) {
            found.push(text, TOOL, text.numbers(i, i), Fact::Gpus(vec![facts]));
        } else if let Some(number) = line.strip_prefix("selecting device ") {
            gpu = number.trim().parse::<u32>().ok().map(|n| format!("GPU{n}"));
        } else if let Some(rate) = line.strip_prefix("write BW:") {
            let slow = number_and_unit(rate).filter(|(_, unit)| *unit == "MB/s").map(|(rate, _)| rate < SLOW_WRITE);
            if let Some(slow) = slow {
                health.judge(Area::Test, slow.then_some(Grade::Suspect), gpu.as_deref(), "write BW", rate, i);
            }
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
    health.push(text, TOOL, found);
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

/// `GPU id:0; name: NVIDIA A100-SXM4-40GB; Bus id: 0000:07:00`.
fn device(line: &str) -> Option<GpuFacts> {
    let (index, rest) = line.strip_prefix("GPU id:")?.split_once(';')?;
    let (name, bus) = rest.trim().strip_prefix("name:")?.split_once(';')?;
    let bus = bus.trim().strip_prefix("Bus id:")?.trim();
    let address: Option<PciAddress> = bus.parse().ok().or_else(|| format!("{bus}.0").parse().ok());
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
        assert_eq!(troubles(text), (1, vec![]));
        let Fact::Gpus(gpus) = &scanned(scan, text).evidence[0].fact else { panic!() };
        assert_eq!(gpus[0].address.unwrap().to_string(), "0000:07:00.0");
        assert_eq!(troubles("write BW: 141.2MB/s\n").1, [Grade::Suspect]);
        assert_eq!(troubles("100%: Checks: 28, Failures: 0, Errors: 0\n"), (1, vec![]));
        assert_eq!(troubles("Total: 30, Passed: 28, Failed: 2, Waived: 0\n").1, [Grade::Fault]);
        assert_eq!(troubles("gdr_open error: Is gdrdrv driver installed and loaded?\n").1, [Grade::Fault]);
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
