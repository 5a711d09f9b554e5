//! gpu-burn: the result of each GPU, and the errors that its products had.

use std::collections::BTreeMap;

use super::health::Health;
use super::{Found, Text};
use peerlane_machine::fact::{Area, Grade};

const TOOL: &str = "gpu-burn";

pub(super) fn scan(text: &Text, found: &mut Found) {
    if !text.holds(&["GPUs:", "proc'd:"]) {
        return;
    }
    let mut health = Health::default();
    let mut errors: BTreeMap<String, (u64, usize)> = BTreeMap::new();
    // lines of results follow `Tested 2 GPUs:`
    let mut results = false;
    for (i, line) in text.iter() {
        let line = line.trim();
        if line.starts_with("Tested ") && line.ends_with(" GPUs:") {
            results = true;
            health.used(i);
        } else if let Some((gpu, state)) = result(line).filter(|_| results) {
            errors.remove(&gpu);
            let bad = (state != "OK").then_some(Grade::Fault);
            health.judge(Area::Test, bad, Some(&gpu), "gpu-burn:", state, i);
        } else if let Some(of_gpus) = errors_of(line) {
            health.used(i);
            errors.extend(of_gpus.filter(|(_, count)| *count > 0).map(|(gpu, count)| (gpu, (count, i))));
        } else if !line.is_empty() {
            results = false;
        }
    }
    // a run that ended before its results
    for (gpu, (count, i)) in errors {
        health.trouble(Area::Test, Grade::Fault, Some(&gpu), "gpu-burn: errors:", &count.to_string(), i);
    }
    health.push(text, TOOL, found);
}

/// The errors of each GPU in the last state of a line: `…  errors: 0 - 12 (WARNING!)  temps: 53 C - 54 C`.
fn errors_of(line: &str) -> Option<impl Iterator<Item = (String, u64)>> {
    let (_, last) = line.rsplit_once("errors:").filter(|_| line.contains("proc'd:"))?;
    let of_gpus = last.split("temps:").next()?.split(" - ").enumerate();
    Some(of_gpus.filter_map(|(n, errors)| Some((format!("GPU{n}"), errors.split_whitespace().next()?.parse().ok()?))))
}

/// `GPU 0: OK`, `GPU 1: FAULTY`.
fn result(line: &str) -> Option<(String, &str)> {
    let (number, state) = line.strip_prefix("GPU ")?.split_once(": ")?;
    let number: u32 = number.parse().ok()?;
    matches!(state, "OK" | "FAULTY" | "DEAD").then(|| (format!("GPU{number}"), state))
}

#[cfg(test)]
mod tests {
    use super::super::Fact;
    use super::super::testing::scanned;
    use super::*;

    #[test]
    fn results_of_each_gpu() {
        let text = "10.0%  proc'd: 80 (27380 Gflop/s) - 81 (27401 Gflop/s)   errors: 0 - 12   temps: 53 C - 54 C\n\ndone\n\n\
                    Tested 2 GPUs:\n\tGPU 0: OK\n\tGPU 1: FAULTY\n";
        let found = scanned(scan, text);
        let Some(Fact::Health(report)) = found.evidence.first().map(|e| &e.fact) else { panic!("{found:?}") };
        assert_eq!((report.sound, report.troubles.len()), (1, 1));
        assert_eq!(report.troubles[0].part.as_deref(), Some("GPU1"));
        assert!(scanned(scan, "GPU 0: OK\n").evidence.is_empty());
        let stopped = scanned(scan, text.split("done").next().unwrap());
        let Some(Fact::Health(report)) = stopped.evidence.first().map(|e| &e.fact) else { panic!("{stopped:?}") };
        assert_eq!((report.sound, report.troubles.len(), report.troubles[0].value.as_str()), (0, 1, "12"));
    }
}
