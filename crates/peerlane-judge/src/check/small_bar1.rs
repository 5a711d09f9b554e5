//! BAR1, the window through which other devices access GPU memory, is smaller than the memory.

use super::gpu_setting::gpus_with;
use super::prelude::*;
use peerlane_machine::units::Bytes;

pub(super) const RULE: Rule = Rule::new("small-bar1", One(run));

/// Below this share of the memory; windows are powers of two, and the driver reserves some memory.
const SMALL: f64 = 0.5;

fn run(view: &View) -> Option<Raised> {
    if view.gpu_pairs().is_empty() && view.rdma_nics().is_empty() {
        return None;
    }
    let gpus = gpus_with(view, |gpu| {
        let (bar1, memory) = (gpu.bar1.filter(|b| b.0 > 0)?, gpu.memory?);
        // in MIG mode, the window is that of one instance
        (gpu.mig != Some(true) && (bar1.0 as f64) < SMALL * memory.0 as f64).then_some((bar1, memory))
    })?;
    let (bar1, memory) = gpus.values.first().copied()?;
    let mib = |bytes: Bytes| bytes.0 >> 20;
    let raised = RULE
        .raise(Design, Info, Certain)
        .summary(format!("{}: BAR1 exposes only part of GPU memory to other devices", list(&gpus.names)))
        .expected("BAR1 as large as GPU memory, where peers or NICs access all of it")
        .measured(format!("BAR1 {} MiB of {} MiB", mib(bar1), mib(memory)))
        .evidence(view.cite(gpus.origins))
        .fix(
            "If you use GPUDirect RDMA or peer-to-peer, enable Above 4G Decoding and Resizable BAR in the BIOS, if GPU \
             and board support them. The window limits what other devices can map. Otherwise do nothing.",
        )
        .confirm("`nvidia-smi -q -d MEMORY`")
        .about_nodes(gpus.names);
    Some(raised)
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
