//! Metrics of NVIDIA's dcgm-exporter, as Prometheus reads them: `DCGM_FI_DEV_XID_ERRORS{gpu="0",…} 0`.

use super::health::Health;
use super::text::Used;
use super::{Fact, Found, GpuFacts, Text};
use peerlane_machine::fact::{Area, Grade};

const TOOL: &str = "dcgm-exporter";

/// More GPUs than any cluster's metrics have.
const MOST: usize = 512;

/// Counters that should be zero, and how bad another value is.
const COUNTERS: [(&str, Grade); 7] = [
    ("XID_ERRORS", Grade::Fault),
    ("ECC_DBE_VOL_TOTAL", Grade::Fault),
    ("ECC_DBE_AGG_TOTAL", Grade::Note),
    ("ROW_REMAP_FAILURE", Grade::Fault),
    ("UNCORRECTABLE_REMAPPED_ROWS", Grade::Note),
    ("CORRECTABLE_REMAPPED_ROWS", Grade::Note),
    ("PCIE_REPLAY_COUNTER", Grade::Note),
];

/// Xids that a program's own errors cause: the metric keeps the last one for good.
const OF_PROGRAMS: [f64; 5] = [13.0, 31.0, 43.0, 45.0, 69.0];

pub(super) fn scan(text: &Text, found: &mut Found) {
    if !text.holds(&["DCGM_FI_DEV_"]) {
        return;
    }
    let (mut gpus, mut lines, mut health): (Vec<GpuFacts>, Used, Health) =
        (Vec::new(), Used::default(), Health::default());
    for (i, line) in text.iter() {
        let Some((name, labels, value)) = metric(line) else { continue };
        let label = |key: &str| {
            labels.split_once(key).and_then(|(_, rest)| rest.split('"').next()).filter(|value| !value.is_empty())
        };
        let Some(index) = label("gpu=\"").and_then(|gpu| gpu.parse::<u32>().ok()) else { continue };
        let uuid = label("UUID=\"");
        let at = gpus.iter().position(|gpu| gpu.index == Some(index) && gpu.uuid.as_deref() == uuid);
        let at = match at {
            Some(at) => at,
            None if gpus.len() < MOST => {
                let name = label("modelName=\"").unwrap_or_default();
                gpus.push(GpuFacts { uuid: uuid.map(str::to_owned), ..GpuFacts::listed(index, name) });
                gpus.len() - 1
            }
            None => continue,
        };
        lines.add(i);
        if let Some(gpu) = gpus.get_mut(at) {
            match name {
                "GPU_TEMP" => gpu.temperature = Some(value),
                "MEMORY_TEMP" => gpu.memory_temperature = Some(value),
                "POWER_USAGE" => gpu.power = Some(value),
                "GPU_UTIL" => gpu.utilization = Some(value),
                _ => {}
            }
        }
        if let Some((_, grade)) = COUNTERS.iter().find(|(counter, _)| *counter == name) {
            let part = label("Hostname=\"").map_or_else(|| format!("GPU{index}"), |host| format!("{host} GPU{index}"));
            // a counter as large as that stands for none
            let is_of_program = name == "XID_ERRORS" && OF_PROGRAMS.contains(&value);
            let grade = if is_of_program { Grade::Note } else { *grade };
            let bad = (value > 0.0 && value < 1e15).then_some(grade);
            health.judge(Area::Gpu, bad, Some(&part), name, &format!("{value}"), i);
        }
    }
    // metrics of several hosts count their GPUs anew
    let of_one_host =
        gpus.iter().enumerate().all(|(at, gpu)| gpus.iter().take(at).all(|other| other.index != gpu.index));
    health.lend(&mut lines);
    if let Some(numbers) = lines.numbers(text, found).filter(|_| of_one_host) {
        found.push(text, TOOL, numbers, Fact::Gpus(gpus));
    }
    health.push(text, TOOL, found);
}

/// Name, labels and value of a sample.
fn metric(line: &str) -> Option<(&str, &str, f64)> {
    let (name, rest) = line.trim().strip_prefix("DCGM_FI_DEV_")?.split_once('{')?;
    let (labels, value) = rest.rsplit_once('}')?;
    let value = value.split_whitespace().next()?.parse::<f64>().ok()?;
    Some((name, labels, value)).filter(|_| value.is_finite())
}

#[cfg(test)]
mod tests {
    use super::super::testing::scanned;
    use super::*;

    fn sample(name: &str, gpu: u32, value: &str) -> String {
        format!(
            "DCGM_FI_DEV_{name}{{gpu=\"{gpu}\",UUID=\"GPU-{gpu}\",device=\"nvidia{gpu}\",modelName=\"NVIDIA X\",Hostname=\"h\"}} {value}\n"
        )
    }

    #[test]
    fn gpus_and_counters() {
        let body = sample("XID_ERRORS", 0, "0")
            + &sample("XID_ERRORS", 1, "79")
            + &sample("GPU_TEMP", 0, "41")
            + &sample("PCIE_REPLAY_COUNTER", 0, "3");
        let found = scanned(scan, &body);
        let Fact::Gpus(gpus) = &found.evidence[0].fact else { panic!("{found:?}") };
        let Fact::Health(report) = &found.evidence[1].fact else { panic!("{found:?}") };
        assert_eq!((gpus.len(), gpus[0].temperature, gpus[1].name.as_deref()), (2, Some(41.0), Some("NVIDIA X")));
        let bad: Vec<_> = report.troubles.iter().map(|t| (t.part.as_deref(), t.what.as_str(), t.grade)).collect();
        assert_eq!(
            (report.sound, bad),
            (
                1,
                vec![
                    (Some("h GPU1"), "XID_ERRORS", Grade::Fault),
                    (Some("h GPU0"), "PCIE_REPLAY_COUNTER", Grade::Note)
                ]
            )
        );
    }

    #[test]
    fn an_xid_of_a_program_is_no_fault_of_the_gpu() {
        let found = scanned(scan, &sample("XID_ERRORS", 0, "31"));
        let Fact::Health(report) = &found.evidence[1].fact else { panic!("{found:?}") };
        assert_eq!(report.troubles[0].grade, Grade::Note);
    }

    #[test]
    fn other_lines() {
        assert_eq!(scanned(scan, "# HELP DCGM_FI_DEV_XID_ERRORS Value\nDCGM_FI_DEV_GPU_TEMP{} x\n"), Found::default());
    }
}
