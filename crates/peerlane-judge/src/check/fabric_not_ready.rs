//! GPUs whose NVLink fabric is not initialized: CUDA fails with error 802, or does not start.

use super::gpu_setting::gpus_with;
use super::prelude::*;

pub(super) const RULE: Rule = Rule::new("fabric-not-ready", Many(run));

/// States of `nvidia-smi -q`'s "Fabric" section that are fine: ready, or no fabric to initialize.
const FINE: [&str; 5] = ["completed", "n/a", "not supported", "unknown", ""];

fn run(view: &View) -> Vec<Raised> {
    [not_ready(view), failed(view), unhealthy(view), apart(view)].into_iter().flatten().collect()
}

/// GPUs that are not registered.
fn not_ready(view: &View) -> Option<Raised> {
    let gpus = gpus_with(view, |gpu| {
        let state = gpu.fabric_state.clone()?;
        (!FINE.contains(&state.trim().to_lowercase().as_str())).then_some(state)
    })?;
    let raised = RULE
        .raise(Fault, Error, Certain)
        .repaired_by_reset()
        .summary(format!("{}: the NVLink fabric is not ready, so CUDA cannot start", list(&gpus.names)))
        .expected("fabric state Completed")
        .measured(format!("fabric state {}", gpus.values.first().cloned().unwrap_or_default()))
        .evidence(view.cite(gpus.origins))
        .fix(
            "Start a fabric manager of the same version as the driver (`systemctl enable --now \
             nvidia-fabricmanager`); in a virtual machine, the host must do this. If it runs and does not finish, \
             read `/var/log/fabricmanager.log`.",
        )
        .confirm(CONFIRM)
        .about_nodes(gpus.names);
    Some(raised)
}

/// GPUs whose registration ended, but not well.
fn failed(view: &View) -> Option<Raised> {
    let gpus = gpus_with(view, |gpu| {
        let ended = gpu.fabric_state.as_deref() == Some("Completed");
        gpu.fabric_status.clone().filter(|status| ended && !status.trim().eq_ignore_ascii_case("success"))
    })?;
    let raised = RULE
        .raise(Fault, Error, Certain)
        .repaired_by_reset()
        .summary(format!("{}: registration with the NVLink fabric failed", list(&gpus.names)))
        .expected("fabric state Completed, status Success")
        .measured(format!("fabric state Completed, status {}", distinct(gpus.values).join(", ")))
        .evidence(view.cite(gpus.origins))
        .fix(
            "Reset the GPUs with the fabric manager running. If that does not help, read its log on the host \
             (`/var/log/fabricmanager.log`; on NVL72 that of the switch trays and `nvidia-imex-ctl -N`), and look \
             for NVLink errors (Xid, SXid) in the kernel log.",
        )
        .confirm(CONFIRM)
        .about_nodes(gpus.names);
    Some(raised)
}

/// GPUs whose fabric works with less than it has.
fn unhealthy(view: &View) -> Option<Raised> {
    let gpus = gpus_with(view, |gpu| (!gpu.fabric_health.is_empty()).then(|| gpu.fabric_health.join(", ")))?;
    let raised = RULE
        .raise(Fault, Warning, Possible)
        .summary(format!("{}: the NVLink fabric is up, but not healthy", list(&gpus.names)))
        .expected("fabric health without a fault")
        .measured(distinct(gpus.values).join("; "))
        .evidence(view.cite(gpus.origins))
        .fix(
            "Reset the GPU whose links are down (`nvidia-smi nvlink -s`, `-e`), and read the fabric manager's log. \
             If a whole switch is missing, have its tray or baseboard serviced.",
        )
        .confirm("`nvidia-smi -q | grep -A14 'Fabric$'`; `nvidia-smi nvlink -s`")
        .about_nodes(gpus.names);
    Some(raised)
}

/// GPUs of one host in different NVLink domains, or cliques of one, which do not reach each other.
fn apart(view: &View) -> Option<Raised> {
    let gpus = gpus_with(view, |gpu| gpu.nvlink_domain.clone())?;
    let groups = grouped(gpus.values.into_iter().zip(gpus.names.iter().cloned()));
    let words = groups.iter().map(|(domain, names)| {
        let clique = domain.clique.map_or_else(|| "unknown".to_owned(), |clique| clique.to_string());
        format!("{}: clique {clique} of {}", list(names), domain.cluster)
    });
    let raised = RULE
        .raise(Design, Warning, Likely)
        .summary(format!(
            "NVLink does not join {}: they are in different NVLink domains or cliques",
            groups.iter().map(|(_, names)| list(names)).collect::<Vec<_>>().join(" and ")
        ))
        .expected("one ClusterUUID and one CliqueId on all GPUs of a host")
        .measured(words.collect::<Vec<_>>().join("; "))
        .evidence(view.cite(gpus.origins))
        .fix("If the NVLink domain is partitioned on purpose, do nothing. Otherwise correct its partitions in the fabric manager.")
        .confirm("`nvidia-smi -q | grep -e CliqueId -e ClusterUUID`")
        .about_nodes(gpus.names);
    (groups.len() > 1).then_some(raised)
}

/// What shows the state of the fabric.
const CONFIRM: &str = "`nvidia-smi -q | grep -A4 Fabric`; `systemctl status nvidia-fabricmanager`";

#[cfg(test)]
mod tests {
    use super::super::testing::{findings, state, switched};
    use super::*;
    use peerlane_machine::fact::{Fact, GpuFacts, NvlinkDomain};

    fn found(text: Option<&str>) -> usize {
        let mut machine = switched(2);
        let gpu = GpuFacts { index: Some(1), fabric_state: text.map(str::to_owned), ..GpuFacts::default() };
        state(&mut machine, "nvidia-smi -q", Fact::Gpus(vec![gpu]));
        findings(&machine, run).len()
    }

    #[test]
    fn a_registration_that_failed_and_a_fabric_that_lacks_links() {
        let found = |status: &str, health: &[&str]| {
            let mut machine = switched(2);
            let gpu = GpuFacts {
                index: Some(1),
                fabric_state: Some("Completed".to_owned()),
                fabric_status: Some(status.to_owned()),
                fabric_health: health.iter().map(|h| (*h).to_owned()).collect(),
                ..GpuFacts::default()
            };
            state(&mut machine, "nvidia-smi -q", Fact::Gpus(vec![gpu]));
            findings(&machine, run).into_iter().map(|f| (f.severity, f.summary)).collect::<Vec<_>>()
        };
        assert_eq!(found("Success", &[]), []);
        let failed = "GPU1: registration with the NVLink fabric failed".to_owned();
        assert_eq!(found("Insufficient Resources", &[]), [(Error, failed)]);
        assert_eq!(found("Success", &["Bandwidth: Degraded"]).len(), 1);
    }

    #[test]
    fn cliques_of_one_host() {
        let found = |cliques: [u32; 2]| {
            let mut machine = switched(2);
            let gpus = cliques.iter().enumerate().map(|(i, clique)| GpuFacts {
                index: Some(i as u32),
                nvlink_domain: Some(NvlinkDomain { cluster: "4b5a".to_owned(), clique: Some(*clique) }),
                ..GpuFacts::default()
            });
            state(&mut machine, "nvidia-smi -q", Fact::Gpus(gpus.collect()));
            findings(&machine, run).into_iter().map(|f| f.summary).collect::<Vec<_>>()
        };
        assert_eq!(found([1, 1]), [""; 0]);
        assert!(found([1, 2])[0].starts_with("NVLink does not join GPU0 and GPU1"));
    }

    #[test]
    fn only_a_state_of_trouble_counts() {
        assert_eq!((found(Some("In Progress")), found(Some("Not Started"))), (1, 1));
        assert_eq!((found(Some("Completed")), found(Some("N/A")), found(None)), (0, 0, 0));
    }
}
