//! gpu-burn: the result of each GPU, and the errors that its products had.

use super::health::Health;
use super::{Found, Text};
use peerlane_machine::fact::{Area, Grade};

const TOOL: &str = "gpu-burn";

pub(super) fn scan(text: &Text, found: &mut Found) {
    if !text.holds(&["GPUs:", "proc'd:"]) {
        return;
    }
    let mut health = Health::default();
    // lines of results follow `Tested 2 GPUs:`
    let mut results = false;
    for (i, line) in text.iter() {
        let line = line.trim();
        if line.starts_with("Tested ") && line.ends_with(" GPUs:") {
            results = true;
            health.used(i);
        } else if let Some((gpu, state)) = result(line).filter(|_| results) {
            let bad = (state != "OK").then_some(Grade::Fault);
            health.judge(Area::Test, bad, Some(&gpu), "gpu-burn:", state, i);
        } else if line.contains("proc'd:") && line.contains("errors:") {
            health.used(i);
        } else if !line.is_empty() {
            results = false;
        }
    }
    health.push(text, TOOL, found);
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
    }
}
