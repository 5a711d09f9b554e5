//! Settings of NCCL and RCCL that cost something: those that RCCL itself asks for, of the kernel's command line and of the environment,
//! and a limit of channels that leaves adapters idle.

use super::nccl;
use super::prelude::*;
use peerlane_machine::fact::NcclLog;

pub(super) const RULE: Rule = Rule::new("nccl-missing-setting", Many(run)).watched();

fn run(view: &View) -> Vec<Raised> {
    let of_log = |(log, origin): (&NcclLog, &Origin)| {
        // `Missing "iommu=pt" from kernel command line which can lead to system instablity or hang!`
        let missing = |warning: &String| {
            let (_, rest) = warning.split_once("Missing \"")?;
            let (setting, rest) = rest.split_once('"')?;
            let of = rest.trim_start().strip_prefix("from ")?.split(" which").next()?;
            Some((setting.to_owned(), of.trim().to_owned()))
        };
        let all = distinct(log.warnings.iter().filter_map(missing));
        // every release wants this one; `amd_iommu=on` is the kernel's default
        let pt = all.iter().any(|(setting, _)| setting == "iommu=pt");
        let (setting, of) = all.iter().find(|(s, _)| s == "iommu=pt").or(all.first())?;
        let others: Vec<String> =
            all.iter().filter(|(s, _)| s != setting).map(|(s, of)| format!("{s} ({of})")).collect();
        let also = if others.is_empty() { String::new() } else { format!("; also {}", others.join(", ")) };
        let raised = RULE
            .raise(Fault, if of.starts_with("kernel") { Warning } else { Info }, Likely)
            .summary(format!("RCCL reports that {setting} is missing from the {of}"))
            .expected(format!("{setting} in the {of}, as RCCL asks for on this machine"))
            .measured(format!("RCCL's warning: Missing \"{setting}\" from {of}{also}"))
            .evidence(view.cite([origin]))
            .fix(if pt {
                "Add iommu=pt to the kernel's command line and restart, so that the IOMMU does not translate transfers \
                 between GPUs. Until then they may hang or corrupt data; NCCL_P2P_DISABLE=1 avoids them at a lower \
                 rate."
                    .to_owned()
            } else {
                format!("Set {setting}.")
            })
            .confirm("`cat /proc/cmdline`; `NCCL_DEBUG=WARN` without the warning");
        Some(raised)
    };
    let logs = nccl::logs(view);
    let asked = logs.iter().filter_map(|(log, origin)| of_log((*log, *origin)));
    asked.chain(logs.iter().filter_map(|(log, origin)| few_channels(view, log, origin))).collect()
}

/// Fewer channels than adapters: each channel uses one adapter at a time.
fn few_channels(view: &View, log: &NcclLog, origin: &Origin) -> Option<Raised> {
    let limit =
        |name: &str| Some((name.to_owned(), log.variables.get(name)?.trim_end_matches('.').parse::<usize>().ok()?));
    let (name, most) = ["NCCL_MAX_NCHANNELS", "NCCL_MAX_CTAS"].into_iter().find_map(limit)?;
    let adapters = log.networks.len();
    let idle = adapters.checked_sub(most).filter(|idle| *idle > 0 && most > 0)?;
    let raised = RULE
        .raise(Design, Warning, Likely)
        .summary(format!(
            "{name}={most} leaves {idle} of {adapters} adapters idle: NCCL has fewer channels than adapters"
        ))
        .expected(format!("at least {adapters} channels, one for each adapter"))
        .measured(format!("{name} set to {most}; NET/IB uses {}", list(&log.networks)))
        .evidence(view.cite([origin]))
        .fix(format!("Unset {name}, or set it to a multiple of {adapters}."))
        .confirm("`NCCL_DEBUG=INFO` prints the channels and, behind \"via NET/IB/\", the adapter of each");
    Some(raised)
}

#[cfg(test)]
mod tests {
    use super::super::testing::{findings, state, switched};
    use super::*;

    fn found(warnings: &[&str]) -> Vec<String> {
        let mut machine = switched(2);
        let warnings = warnings.iter().map(|w| (*w).to_owned()).collect();
        state(&mut machine, "NCCL_DEBUG=INFO", Fact::NcclLog(NcclLog { warnings, ..NcclLog::default() }));
        findings(&machine, run).into_iter().map(|f| f.summary).collect()
    }

    #[test]
    fn fewer_channels_than_adapters() {
        let found = |channels: &str, adapters: usize| {
            let mut machine = switched(2);
            let variables = [("NCCL_MAX_NCHANNELS".to_owned(), channels.to_owned())].into();
            let networks = (0..adapters).map(|n| format!("mlx5_{n}:1/RoCE")).collect();
            state(
                &mut machine,
                "NCCL_DEBUG=INFO",
                Fact::NcclLog(NcclLog { variables, networks, ..NcclLog::default() }),
            );
            findings(&machine, run).into_iter().map(|f| f.summary).collect::<Vec<_>>()
        };
        assert!(found("2", 8)[0].contains("6 of 8 adapters idle"));
        assert_eq!((found("8", 8).len(), found("2", 1).len(), found("many", 8).len()), (0, 0, 0));
    }

    #[test]
    fn what_rccl_misses_is_named_the_kernels_first() {
        let iommu =
            "init.cc:179 Missing \"iommu=pt\" from kernel command line which can lead to system instablity or hang!";
        let grain = "init.cpp:126 Missing \"HSA_FORCE_FINE_GRAIN_PCIE=1\" from environment which can lead to low RCCL performance";
        let pt = ["RCCL reports that iommu=pt is missing from the kernel command line"];
        assert_eq!(found(&[grain, iommu, iommu]), pt);
        assert_eq!(found(&[grain]), ["RCCL reports that HSA_FORCE_FINE_GRAIN_PCIE=1 is missing from the environment"]);
        assert!(found(&["Missing data", "Missing \"x"]).is_empty());
    }
}
