//! What communication libraries can use: `ucx_info -d` and `fi_info`.

use super::health::Health;
use super::{Found, Text};
use peerlane_machine::fact::{Area, Grade};

const UCX: &str = "ucx_info -d";
const FABRIC: &str = "fi_info";

/// Providers of libfabric that go through the kernel's network stack or stay on the host.
const SLOW_PROVIDERS: [&str; 6] = ["tcp", "sockets", "udp", "shm", "sm2", "net"];

pub(super) fn scan(text: &Text, found: &mut Found) {
    if text.holds(&["Transport:"]) {
        ucx(text, found);
    }
    if text.holds(&["provider:", "fi_getinfo"]) {
        fabric(text, found);
    }
}

/// `#      Transport: rc_mlx5`, `# < failed to open memory domain >`.
fn ucx(text: &Text, found: &mut Found) {
    let mut health = Health::default();
    let (mut network, mut of_gpu) = (None, false);
    for (i, line) in text.iter() {
        let Some(rest) = line.trim_start_matches(['>', ' ']).strip_prefix('#').map(str::trim) else { continue };
        if let Some(name) = rest.strip_prefix("Transport:").map(str::trim) {
            health.sound(Area::Transport, i);
            of_gpu |= ["cuda", "gdr_copy", "rocm", "ze_"].iter().any(|start| name.starts_with(start));
            let is_rdma = ["rc_", "dc_", "ud_", "srd"].iter().any(|start| name.starts_with(start));
            network = network.or(is_rdma.then_some(i));
        } else if rest.contains("failed to open") {
            health.trouble(Area::Transport, Grade::Suspect, None, "", rest, i);
        }
    }
    if let Some(line) = network.filter(|_| !of_gpu) {
        health.trouble(
            Area::Transport,
            Grade::Note,
            None,
            "",
            "no transport for GPU memory (cuda_copy, gdr_copy, rocm_copy)",
            line,
        );
    }
    health.push(text, UCX, found);
}

/// `provider: efa`, `fi_getinfo: -61`.
fn fabric(text: &Text, found: &mut Found) {
    let mut health = Health::default();
    let (mut first, mut is_fast) = (None, false);
    for (i, line) in text.iter() {
        let line = line.trim_start_matches(['>', ' ']).trim_end();
        if let Some(provider) = line.strip_prefix("provider:").map(str::trim).filter(|name| !name.contains(' ')) {
            health.used(i);
            first = first.or(Some(i));
            is_fast |= !SLOW_PROVIDERS.contains(&provider.split(';').next().unwrap_or(provider));
        } else if let Some(code) = line.strip_prefix("fi_getinfo:") {
            health.trouble(Area::Transport, Grade::Fault, None, "fi_getinfo", code, i);
        }
    }
    if let Some(line) = first {
        let bad = (!is_fast).then_some(Grade::Limit);
        health.judge(Area::Transport, bad, None, "provider", "none for RDMA, only those of TCP or one host", line);
    }
    health.push(text, FABRIC, found);
}

#[cfg(test)]
mod tests {
    use super::super::testing::scanned;
    use super::*;
    use peerlane_machine::fact::Fact;

    fn grades(text: &str) -> Vec<Grade> {
        let found = scanned(scan, text);
        let Some(Fact::Health(report)) = found.evidence.into_iter().map(|e| e.fact).next() else { panic!("{text}") };
        report.troubles.iter().map(|t| t.grade).collect()
    }

    #[test]
    fn what_libraries_can_use() {
        let rdma = "# Memory domain: mlx5_0\n#      Transport: rc_mlx5\n#         Device: mlx5_0:1\n";
        assert_eq!(grades(rdma), [Grade::Note]);
        assert_eq!(grades(&format!("{rdma}#      Transport: cuda_ipc\n")), []);
        assert_eq!(
            grades(&format!("{rdma}#   < failed to open memory domain >\n#   Transport: gdr_copy\n")),
            [Grade::Suspect]
        );
        assert_eq!(grades("provider: efa\n    fabric: efa\n"), []);
        assert_eq!(grades("provider: tcp;ofi_rxm\n    fabric: 10.0.0.0/8\n"), [Grade::Limit]);
        assert_eq!(grades("fi_getinfo: -61 (No data available)\n"), [Grade::Fault]);
    }

    #[test]
    fn other_lines() {
        assert_eq!(scanned(scan, "provider: a cloud\nTransport: bus\n"), Found::default());
    }
}
