//! Why schedulers keep a node out of service: NHC's failed checks, reasons of Slurm, conditions of Kubernetes.

use super::health::Health;
use super::{Found, Text};
use peerlane_machine::fact::{Area, Grade};

const TOOL: &str = "scheduler";

/// Words of parts that matter here, in lower case.
const PARTS: [&str; 10] = ["gpu", "nvlink", "nvswitch", "xid", "ecc", "nvidia", "nvml", "dcgm", "infiniband", "ib_"];

pub(super) fn scan(text: &Text, found: &mut Found) {
    if !text.holds(&[
        "ealth check failed:",
        "Reason=",
        "LastHeartbeatTime",
        "Started container",
        "Allocatable:",
        "allocatable:",
        "nvidia.com/gpu",
        "amd.com/gpu",
        "kubernetes.io/",
        "Unschedulable:",
    ]) {
        return;
    }
    let mut health = Health::default();
    let (mut within, mut is_events) = (false, false);
    let (mut section, mut offers): (Option<bool>, Offers) = (None, Offers::default());
    for (i, line) in text.iter() {
        let line = line.trim_start_matches(['>', ' ', '\t', '#']).trim_end();
        // `kubectl describe node`, and the same as YAML, whose keys are sorted
        if matches!(line, "Capacity:" | "Allocatable:" | "capacity:" | "allocatable:") {
            section = Some(line.eq_ignore_ascii_case("allocatable:"));
        } else if line.ends_with(':') && line.starts_with(|c: char| c.is_ascii_alphabetic()) {
            section = None;
            within &= line.starts_with("Conditions");
        } else if let Some((name, count)) = gpus_of_node(line) {
            match section {
                Some(is_allocatable) => offers.add(name, is_allocatable, count, i),
                // a title, or a line that was searched for
                None if count == 0 && !is_of_pod(text, i) => offers.add(name, true, count, i),
                None => {}
            }
        } else if let Some((grade, what)) = taint(line) {
            health.trouble(Area::Node, grade, None, "taint:", what, i);
        } else if let Some((_, check)) = line.split_once("ealth check failed:") {
            health.trouble(Area::Node, Grade::Fault, None, "health check failed:", check, i);
        } else if let Some(reason) = reason(line) {
            let part = line.split_once("NodeName=").and_then(|(_, rest)| rest.split_whitespace().next());
            health.trouble(Area::Node, Grade::Fault, part, "reason:", reason, i);
        } else if ["Type", "Reason", "Age", "From", "Message"].iter().all(|column| line.contains(column)) {
            is_events = true;
        } else if is_events && line.trim_start().starts_with("Normal") && line.contains("Started container") {
            // what stood before it is over
            health.sound(Area::Node, i);
        } else if line.contains("LastHeartbeatTime") {
            within = true;
        } else if let Some((name, is_sound)) = condition(line).filter(|_| within) {
            health.judge(
                Area::Node,
                (!is_sound).then_some(Grade::Fault),
                None,
                name,
                line.get(name.len()..).unwrap_or_default(),
                i,
            );
        }
    }
    offers.judge(&mut health);
    health.push(text, TOOL, found);
}

/// What a node of Kubernetes has of a kind of device, what of it pods may have, and where that stands.
struct Offer<'t> {
    name: &'t str,
    capacity: Option<u32>,
    allocatable: Option<u32>,
    line: usize,
}

/// GPUs and adapters of one node after the other; `kubectl describe` and YAML list them in another order.
#[derive(Default)]
struct Offers<'t>(Vec<Offer<'t>>);

impl<'t> Offers<'t> {
    fn add(&mut self, name: &'t str, is_allocatable: bool, count: u32, line: usize) {
        let field = |offer: &Offer| if is_allocatable { offer.allocatable } else { offer.capacity };
        let own = self.0.iter().rposition(|offer| offer.name == name && field(offer).is_none());
        let at = own.unwrap_or(self.0.len());
        if at == self.0.len() {
            self.0.push(Offer { name, capacity: None, allocatable: None, line });
        }
        let Some(offer) = self.0.get_mut(at) else { return };
        offer.line = line;
        match is_allocatable {
            true => offer.allocatable = Some(count),
            false => offer.capacity = Some(count),
        }
    }

    fn judge(&self, health: &mut Health) {
        for Offer { name, capacity, allocatable, line } in &self.0 {
            let (bad, value) = match (capacity, allocatable) {
                (Some(0) | None, Some(0)) | (Some(0), None) => (true, "0: the device plugin offers none".to_owned()),
                (Some(all), Some(free)) => (free < all, format!("{free} of {all} can be given to pods")),
                _ => continue,
            };
            health.judge(Area::Node, bad.then_some(Grade::Fault), None, name, &value, *line);
        }
    }
}

/// The reason for which Slurm drains a node, if it is about such a part.
fn reason(line: &str) -> Option<&str> {
    let (_, reason) = line.split_once("Reason=")?;
    let lower = reason.to_lowercase();
    let reason = reason.trim_end_matches(['`', '*', '"', ' ']);
    (lower.contains("nhc") || names_a_part(&lower)).then_some(reason)
}

/// Whether a text in lower case is about such a part.
pub(super) fn names_a_part(lower: &str) -> bool {
    PARTS.iter().any(|part| lower.contains(part))
}

/// `nvidia.com/gpu:     8`, `rdma/hca_shared_devices_a: "1k"`.
fn gpus_of_node(line: &str) -> Option<(&str, u32)> {
    let (name, count) = line.split_once(':')?;
    let is_gpu = matches!(name, "nvidia.com/gpu" | "amd.com/gpu")
        || ["nvidia.com/mig-", "nvidia.com/gpu.shared", "gpu.intel.com/", "rdma/", "openshift.io/mlnx"]
            .iter()
            .any(|start| name.starts_with(start));
    let count = count.trim().trim_matches('"');
    let count = count
        .strip_suffix('k')
        .map_or_else(|| count.parse().ok(), |n| n.parse::<u32>().ok().map(|n| n.saturating_mul(1000)));
    Some((name, count?)).filter(|_| is_gpu)
}

/// Whether a line stands below what a pod asks for, `limits:` or `Requests:`.
fn is_of_pod(text: &Text, line: usize) -> bool {
    (line.saturating_sub(6)..line).any(|i| {
        let above = text.line(i).trim();
        ["limits:", "requests:", "Limits:", "Requests:", "resources:", "Allocated resources:"].contains(&above)
    })
}

/// A taint that Kubernetes sets on a node by itself: `node.kubernetes.io/unreachable:NoExecute`. Tolerations of pods say more behind it.
fn taint(line: &str) -> Option<(Grade, &str)> {
    let line = line.strip_prefix("Taints:").map_or(line, str::trim);
    let (key, effect) = line.strip_prefix("node.kubernetes.io/")?.rsplit_once(':')?;
    if !matches!(effect, "NoSchedule" | "NoExecute") {
        return None;
    }
    match key.split('=').next()? {
        "unschedulable" => Some((Grade::Limit, line)),
        "unreachable"
        | "not-ready"
        | "disk-pressure"
        | "memory-pressure"
        | "pid-pressure"
        | "network-unavailable"
        | "out-of-service" => Some((Grade::Fault, line)),
        _ => None,
    }
}

/// A condition of a node with its state, and whether that is as it should be: `GPUHealthy  False  …`, `GPUXidError  True  …`.
fn condition(line: &str) -> Option<(&str, bool)> {
    let mut words = line.split_whitespace();
    let (name, state) = (words.next()?, words.next()?);
    let lower = name.to_lowercase();
    if name == "Ready" {
        return matches!(state, "True" | "False" | "Unknown").then_some((name, state == "True"));
    }
    if matches!(name, "MemoryPressure" | "DiskPressure" | "PIDPressure" | "NetworkUnavailable")
        && matches!(state, "True" | "Unknown")
    {
        return Some((name, false));
    }
    PARTS.iter().any(|part| lower.contains(part)).then_some(())?;
    let names_health = (lower.contains("healthy") && !lower.contains("unhealthy")) || lower.ends_with("ready");
    match state {
        "True" => Some((name, names_health)),
        "False" => Some((name, !names_health)),
        "Unknown" => Some((name, false)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::scanned;
    use super::*;
    use peerlane_machine::fact::Fact;

    #[test]
    fn what_schedulers_report() {
        let found = scanned(
            scan,
            "ERROR:  nhc:  Health check failed:  check_hw_ib:  No IB port mlx5_3:1 is ACTIVE\nNodeName=gpu7 State=IDLE+DRAIN Reason=NHC: GPU 3 lost [root@2024-05-01]\n\
             NodeName=cpu1 Reason=kernel update\n  Type  Status  LastHeartbeatTime\n  GPUHealthy  False  Wed\n  NvlinkError  False  Wed\n  MemoryPressure  False\n",
        );
        let Fact::Health(report) = &found.evidence[0].fact else { panic!("{found:#?}") };
        let bad: Vec<_> = report.troubles.iter().map(|t| t.what.as_str()).collect();
        assert_eq!((report.sound, bad), (1, vec!["health check failed:", "reason:", "GPUHealthy"]));
        assert_eq!(report.troubles[1].part.as_deref(), Some("gpu7"));
    }

    #[test]
    fn a_container_that_started() {
        let head = "  Type    Reason   Age  From     Message\n";
        let started = "  Normal  Started  38m  kubelet  Started container worker\n";
        let found = scanned(scan, &format!("{head}{started}"));
        let Fact::Health(report) = &found.evidence[0].fact else { panic!("{found:#?}") };
        assert_eq!((report.area, report.sound, report.troubles.len()), (Area::Node, 1, 0));
        assert_eq!(scanned(scan, started), Found::default());
    }

    #[test]
    fn a_node_that_cannot_give_all_its_gpus() {
        let node = |free: u32, ready: &str| {
            let text = format!(
                "Capacity:\n  nvidia.com/gpu:     8\nAllocatable:\n  nvidia.com/gpu:     {free}\nConditions:\n  Type   Status  LastHeartbeatTime\n  Ready  {ready}  Mon\n"
            );
            let found = scanned(scan, &text);
            let Fact::Health(report) = &found.evidence[0].fact else { panic!("{found:#?}") };
            (report.sound, report.troubles.len())
        };
        assert_eq!((node(8, "True"), node(7, "True"), node(8, "Unknown")), ((2, 0), (1, 1), (1, 1)));
    }

    #[test]
    fn nodes_that_offer_nothing_or_are_tainted() {
        let bad = |text: &str| -> Vec<(String, Grade)> {
            let found = scanned(scan, text);
            let all = found
                .evidence
                .into_iter()
                .filter_map(|e| if let Fact::Health(r) = e.fact { Some(r.troubles) } else { None });
            all.flatten().map(|t| (t.value, t.grade)).collect()
        };
        let yaml = "status:\n  allocatable:\n    nvidia.com/gpu: \"0\"\n  capacity:\n    nvidia.com/gpu: \"8\"\n";
        assert_eq!(bad(yaml), [("0 of 8 can be given to pods".to_owned(), Grade::Fault)]);
        assert_eq!(bad("Capacity:\n  nvidia.com/gpu:  0\nAllocatable:\n  nvidia.com/gpu:  0\n").len(), 1);
        assert_eq!(bad("# nvidia.com/gpu: 0\nName: n1\n").len(), 1, "alone");
        assert_eq!(bad("    Limits:\n      nvidia.com/gpu:  0\n"), []);
        let taint = "Taints:   node.kubernetes.io/unreachable:NoExecute\n          node.kubernetes.io/unschedulable:NoSchedule\n";
        assert_eq!(bad(taint).iter().map(|(_, grade)| *grade).collect::<Vec<_>>(), [Grade::Fault, Grade::Limit]);
        assert_eq!(bad("Tolerations: node.kubernetes.io/not-ready:NoExecute op=Exists for 300s\n"), []);
        let pressed = "  Type  Status  LastHeartbeatTime\n  DiskPressure  True  Mon\n  MemoryPressure  False  Mon\n";
        assert_eq!(bad(pressed).len(), 1);
    }

    #[test]
    fn other_lines() {
        assert_eq!(scanned(scan, "Reason=maintenance\nGPUHealthy False\n"), Found::default());
    }
}
