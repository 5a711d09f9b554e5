//! A window into GPU memory (BAR1) that is smaller than the memory: what others reach of it is limited.

use super::gpu_setting::{gpus_with, raise};
use super::view::{Raised, View};
use super::words::list;
use super::{Certainty, Finding, FindingKind, Rule, Severity};
use peerlane_machine::subject::Subject;

pub(super) const RULE: Rule = Rule { id: "small-bar1", breaks: false, run };

/// Below this share of the memory; windows are powers of two, and the driver keeps some memory for itself.
const SMALL: f64 = 0.5;

fn run(view: &View) -> Vec<Raised> {
    if view.gpu_pairs().is_empty() && view.rdma_nics().is_empty() {
        return Vec::new();
    }
    // a GPU in parts shows the window of a part
    let small = |gpu: &peerlane_machine::fact::GpuFacts| {
        let (bar1, memory) = (gpu.bar1.filter(|b| b.0 > 0)?, gpu.memory?);
        (gpu.mig != Some(true) && (bar1.0 as f64) < SMALL * memory.0 as f64).then_some((bar1, memory))
    };
    raise(gpus_with(view, small), |names, sizes, origins| {
        let mib = |of: fn(&(peerlane_machine::units::Bytes, peerlane_machine::units::Bytes)) -> u64| {
            sizes.first().map_or(0, |s| of(s) >> 20)
        };
        Finding {
            summary: format!("{}: other devices see only a part of the memory at a time", list(&names)),
            expected: "a BAR1 as large as the memory, where peers or NICs are to reach all of it".to_owned(),
            measured: format!("BAR1 {} MiB of {} MiB", mib(|s| s.0.0), mib(|s| s.1.0)),
            evidence: view.cite(origins),
            fix:
                "Turn on Above 4G Decoding and Resizable BAR in the BIOS, if GPU and board have it; else peer mappings \
                   and GPUDirect RDMA registrations are limited to that window."
                    .to_owned(),
            confirm: "`nvidia-smi -q -d MEMORY`".to_owned(),
            ..Finding::of(&RULE, FindingKind::Design, Severity::Info, Certainty::Certain, Subject::nodes_of(names))
        }
    })
}

#[cfg(test)]
mod tests {
    use super::super::testing::{findings, state, switched};
    use super::*;
    use peerlane_machine::fact::{Fact, GpuFacts};
    use peerlane_machine::units::Bytes;

    fn found(bar1_mib: u64, mig: bool) -> Vec<String> {
        let mut machine = switched(2);
        let gpu = GpuFacts {
            index: Some(0),
            bar1: Some(Bytes::from_mib(bar1_mib)),
            memory: Some(Bytes::from_mib(24_576)),
            mig: Some(mig),
            ..GpuFacts::default()
        };
        state(&mut machine, "nvidia-smi -q", Fact::Gpus(vec![gpu]));
        findings(&machine, run).into_iter().map(|f| f.measured).collect()
    }

    #[test]
    fn a_window_of_a_part_of_the_memory() {
        assert_eq!(found(256, false), ["BAR1 256 MiB of 24576 MiB"]);
        assert!(found(32_768, false).is_empty() && found(256, true).is_empty());
    }
}
