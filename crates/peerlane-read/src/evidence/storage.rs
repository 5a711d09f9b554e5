//! Rates of disks and files by `dd`, `hdparm` and `fio`. GPUDirect Storage: what `gdscheck` says of the platform, and what `gdsio` measures between storage, host and GPU.

mod disks;

use super::health::Health;
use super::{Found, Text};
use peerlane_machine::fact::{Area, Grade};

const TOOL: &str = "GPUDirect Storage";

/// From this much more than through host memory on, the direct path is worth something.
const FASTER: f64 = 1.25;

/// With less than this of what the storage gives to the host, the direct path is at fault.
const SLOWER: f64 = 0.7;

pub(super) fn scan(text: &Text, found: &mut Found) {
    let mut health = Health::default();
    if text.holds_one_of(&["XferType: ", "Data Verification "]) {
        gdsio(text, &mut health);
    }
    if text.holds_one_of(&["Platform verification ", "GDS release version:", "NVMe P2PDMA "]) {
        gdscheck(text, &mut health);
    }
    health.push(text, TOOL, found);
    disks::scan(text, found);
}

/// The best rate of each way, in GiB/s, with its line.
#[derive(Default)]
struct Ways {
    direct: Option<(f64, usize)>,
    to_host: Option<(f64, usize)>,
    through_host: Option<(f64, usize)>,
}

/// Lines of `gdsio`: `IoType: READ XferType: GPUD Threads: 4 … Throughput: 6.1 GiB/sec, …`.
fn gdsio(text: &Text, health: &mut Health) {
    let (mut reads, mut writes) = (Ways::default(), Ways::default());
    for (i, line) in text.iter() {
        if line.trim().eq_ignore_ascii_case("Data Verification Success") {
            health.sound(Area::Test, i);
        } else if line.contains("Data Verification Fail") {
            health.trouble(Area::Test, Grade::Fault, None, "gdsio_verify:", line, i);
        }
        let Some((operation, way, rate)) = measured(line) else { continue };
        let ways = if operation.contains("READ") { &mut reads } else { &mut writes };
        let slot = match way {
            "GPUD" | "GPUD_ASYNC" | "GPU_BATCH" | "GPU_BATCH_STREAM" => &mut ways.direct,
            "CPUONLY" => &mut ways.to_host,
            "CPU_GPU" | "CPU_ASYNC_GPU" | "CPU_CACHED_GPU" => &mut ways.through_host,
            _ => continue,
        };
        if slot.is_none_or(|(known, _)| rate > known) {
            *slot = Some((rate, i));
        }
        health.used(i);
    }
    for (ways, what) in [(reads, "reads"), (writes, "writes")] {
        let Some((direct, line)) = ways.direct else { continue };
        let below = |other: Option<(f64, usize)>, share: f64| other.filter(|(rate, _)| direct < rate * share);
        if let Some((host, _)) = below(ways.to_host, SLOWER) {
            let value = format!("{direct:.2} GiB/s, and {host:.2} GiB/s between storage and host memory");
            health.trouble(Area::Test, Grade::Suspect, None, &format!("GPUDirect Storage {what}"), &value, line);
        } else if let Some((through, _)) = below(ways.through_host, FASTER) {
            let value = format!(
                "{direct:.2} GiB/s, hardly more than {through:.2} GiB/s through host memory: the storage limits both"
            );
            health.trouble(Area::Test, Grade::Limit, None, &format!("GPUDirect Storage {what}"), &value, line);
        } else {
            health.sound(Area::Test, line);
        }
    }
}

/// Operation, way and rate in GiB/s.
fn measured(line: &str) -> Option<(&str, &str, f64)> {
    let word = |key: &str| line.split_once(key)?.1.split_whitespace().next();
    let (_, rate) = line.split_once("Throughput: ")?;
    let mut words = rate.split([' ', ',']);
    let (value, unit) = (words.next()?.parse::<f64>().ok()?, words.next()?);
    let scale = match unit {
        "GiB/sec" => 1.0,
        "MiB/sec" => 1.0 / 1024.0,
        "KiB/sec" => 1.0 / 1_048_576.0,
        _ => return None,
    };
    Some((word("IoType: ")?, word("XferType: ")?, value * scale)).filter(|_| value.is_finite())
}

/// What `gdscheck -p` prints: the drivers of storage, the mode of the library, each GPU, and the platform as a whole.
fn gdscheck(text: &Text, health: &mut Health) {
    let (mut supported, mut unsupported) = (0, None);
    // a report that was cut may name what is supported further below
    let (mut is_whole, mut without) = (false, Vec::new());
    for (i, line) in text.iter() {
        let line = line.trim();
        match line.split_once(':').map(|(name, state)| (name.trim(), state.trim())) {
            Some((_, "Supported")) => {
                supported += 1;
                health.sound(Area::Driver, i);
            }
            Some((name, "Unsupported")) => {
                unsupported = Some(i);
                if without.len() < 16 {
                    without.push(name);
                }
            }
            Some((name, _)) if name == "use_compat_mode" || name.starts_with("properties.use_compat_mode") => {
                is_whole = true;
            }
            _ if line.starts_with("GPU index ") => {
                let bad = (!line.contains("supports GDS")).then_some(Grade::Limit);
                health.judge(Area::Driver, bad, None, "GPUDirect Storage:", line, i);
            }
            _ if line.starts_with("Platform verification ") => {
                is_whole = true;
                let bad = (!line.ends_with("succeeded")).then_some(Grade::Fault);
                health.judge(Area::Test, bad, None, "gdscheck:", line, i);
            }
            _ => {}
        }
    }
    if let Some(line) = unsupported.filter(|_| !is_whole) {
        let value = format!("no driver for {}; the report ends before its other lines", without.join(", "));
        health.trouble(Area::Program, Grade::Note, None, "gdscheck:", &value, line);
    } else if let Some(line) = unsupported.filter(|_| supported == 0) {
        let value = "no storage of this machine has a driver for it, so that data goes through host memory";
        health.trouble(Area::Test, Grade::Limit, None, "GPUDirect Storage:", value, line);
    }
}

#[cfg(test)]
mod tests {
    use super::super::Fact;
    use super::super::testing::{health, scanned};
    use super::*;

    fn rates(direct: f64, host: f64, through: f64) -> String {
        let row = |way: &str, rate: f64| {
            format!(
                "IoType: READ XferType: {way} Threads: 4 DataSetSize: 1/1(KiB) IOSize: 1024(KiB) Throughput: {rate:.6} GiB/sec, Avg_Latency: 7.1 usecs ops: 9 total_time 1.0 secs\n"
            )
        };
        row("GPUD", direct) + &row("CPUONLY", host) + &row("CPU_GPU", through)
    }

    #[test]
    fn ways_are_compared() {
        assert_eq!(
            (health(scan, &rates(6.0, 6.2, 3.1)).sound, health(scan, &rates(6.0, 6.2, 3.1)).troubles.len()),
            (1, 0)
        );
        let grade = |body: &str| health(scan, body).troubles[0].grade;
        assert_eq!((grade(&rates(1.4, 1.4, 1.3)), grade(&rates(1.4, 6.0, 3.0))), (Grade::Limit, Grade::Suspect));
    }

    #[test]
    fn the_platform() {
        let body = |nvme: &str| {
            format!(
                " NVMe               : {nvme}\n NVMeOF             : Unsupported\n GPU index 0 NVIDIA X bar:1 bar size (MiB):256 supports GDS, IOMMU State: Disabled\n Platform verification succeeded\n"
            )
        };
        let grades = |body: &str| -> Vec<Grade> {
            let of = |e: peerlane_machine::fact::Evidence| {
                if let Fact::Health(report) = e.fact { report.troubles } else { Vec::new() }
            };
            scanned(scan, body).evidence.into_iter().flat_map(of).map(|t| t.grade).collect()
        };
        assert_eq!(grades(&body("Supported")), []);
        assert_eq!(grades(&body("Unsupported")), [Grade::Limit]);
        assert_eq!(grades(&body("Supported").replace("succeeded", "failed")), [Grade::Fault]);
    }

    #[test]
    fn a_report_that_was_cut_judges_nothing() {
        let report =
            health(scan, " GDS release version: 1.9.0\n NVMe P2PDMA        : Unsupported\n NVMe               : Un");
        assert_eq!((report.troubles[0].grade, report.sound), (Grade::Note, 0));
        assert!(report.troubles[0].value.starts_with("no driver for NVMe P2PDMA;"), "{report:?}");
    }

    #[test]
    fn other_lines() {
        assert_eq!(scanned(scan, "XferType: is a column\nThroughput: 3 GiB/sec\n"), Found::default());
    }
}
