//! Messages from or to GPU memory that are far slower than the same benchmark between host memories.

use super::view::{Raised, View};
use super::words::percent;
use super::{Certainty, Cost, Finding, FindingKind, Rule, Severity};
use crate::evidence::{At, Curve, Origin};
use crate::units::Bytes;

pub(super) const RULE: Rule = Rule { id: "gpu-memory-slow", breaks: false, run };

/// Below this share of what the host's memory gives: NICs reach GPU memory below one switch at full rate.
const SLOW: f64 = 0.7;

/// Rates of smaller messages say more of start-up than of the way.
const LARGE: Bytes = Bytes(64 << 10);

/// Which memory a benchmark's messages are in.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Memory {
    Host,
    /// On at least one side; whether data is read from a GPU, where that is told.
    Gpu { read: Option<bool> },
}

fn run(view: &View) -> Vec<Raised> {
    if view.machine.measured.is_some() || !view.is_captured() {
        return Vec::new();
    }
    let known: Vec<(&Curve, &Origin, Memory, At)> = view
        .machine
        .curves
        .iter()
        .filter_map(|(curve, origin)| {
            let best = curve.best().filter(|at| at.size >= LARGE && at.rate.gb() > 0.0)?;
            Some((curve, origin, memory(curve)?, best))
        })
        .collect();
    let mut slow: Vec<(&(&Curve, &Origin, Memory, At), &(&Curve, &Origin, Memory, At))> = Vec::new();
    for one in known.iter().filter(|k| k.2 != Memory::Host) {
        let best = |other: &&(&Curve, &Origin, Memory, At)| {
            other.0.what == one.0.what && nic(other.0) == nic(one.0) && other.0.settings.get("direction") == one.0.settings.get("direction")
        };
        // data that goes into a GPU is what to compare with where nothing is between host memories alone
        let hosts = known.iter().filter(best).filter(|k| k.2 == Memory::Host);
        let into = known.iter().filter(best).filter(|k| {
            k.2 == Memory::Gpu { read: Some(false) } && one.2 == Memory::Gpu { read: Some(true) }
        });
        let reference = hosts.chain(into).max_by(|a, b| a.3.rate.gb().total_cmp(&b.3.rate.gb()));
        if let Some(reference) = reference.filter(|r| one.3.rate.gb() < SLOW * r.3.rate.gb()) {
            slow.push((one, reference));
        }
    }
    let share = |(one, other): &(&(&Curve, &Origin, Memory, At), &(&Curve, &Origin, Memory, At))| {
        one.3.rate.gb() / other.3.rate.gb()
    };
    let Some(worst) = slow.iter().min_by(|a, b| share(a).total_cmp(&share(b))) else { return Vec::new() };
    let (one, other) = worst;
    let reads = one.2 == Memory::Gpu { read: Some(true) };
    let subjects: Vec<String> = one.0.ends.clone();
    let to = if subjects.is_empty() { String::new() } else { format!(" ({})", subjects.join(" and ")) };
    let of = match other.2 {
        Memory::Host => "host memory",
        Memory::Gpu { .. } => "the other direction",
    };
    let finding = Finding {
        summary: format!(
            "{}{to}: messages {} GPU memory reach {} of the rate of {of}",
            one.0.what,
            if reads { "out of" } else { "in" },
            percent(share(worst))
        ),
        expected: format!("about the {} that {of} gives with the same program and NIC", other.3.rate),
        observed: format!("{} at {}", one.3.rate, one.3.size),
        evidence: view.cite(slow.iter().flat_map(|(a, b)| [a.1, b.1])),
        mend: "Where GPU and NIC are not below one switch (`nvidia-smi topo -m`: PIX, PXB), every access goes through a root \
               complex, which reads from GPUs slowly: use the NIC nearest to the GPU. Below one switch look for ACS \
               redirection and an IOMMU (`lspci -vvv`, `iommu=pt`), relaxed ordering, and the peer module (nvidia_peermem or dma-buf). \
               Programs that read GPU memory by the CPU (gdrcopy) get under 1 GB/s: let them take GPUDirect RDMA or staging \
               (UCX_TLS=rc,cuda_copy,cuda_ipc)."
            .to_owned(),
        confirm: "`nvidia-smi topo -m`; `ib_write_bw -d NIC --use_cuda=N` for each NIC, beside one without `--use_cuda`".to_owned(),
        cost: Cost::of_rate(other.3.rate.gb(), one.3.rate.gb()),
        ..Finding::of(&RULE, FindingKind::Design, Severity::Warning, Certainty::Possible, subjects)
    };
    vec![Raised::new(finding, 1.0 - share(worst))]
}

/// The adapter that a table names.
fn nic(curve: &Curve) -> Option<&String> {
    curve.ends.iter().find(|end| crate::evidence::gpu_number(end).is_none())
}

/// The memory of a benchmark's messages, by what it says: OSU names both buffers, perftest the GPU.
fn memory(curve: &Curve) -> Option<Memory> {
    if let Some(buffers) = curve.settings.get("buffers") {
        let (send, receive) = buffers.split_once("Receive")?;
        let (from, to) = (send.contains("DEVICE"), receive.contains("DEVICE"));
        return Some(match (from, to) {
            (false, false) => Memory::Host,
            (true, false) => Memory::Gpu { read: Some(true) },
            (false, true) => Memory::Gpu { read: Some(false) },
            (true, true) => Memory::Gpu { read: None },
        });
    }
    let of_nic = curve.what.starts_with("ib_") || curve.what.starts_with("osu_");
    of_nic.then(|| if curve.has_gpu() { Memory::Gpu { read: None } } else { Memory::Host })
}

#[cfg(test)]
mod tests {
    use super::super::testing::{findings, origin, switched};
    use super::*;
    use crate::evidence::{Series, Unit};

    fn curve(what: &str, ends: &[&str], buffers: Option<&str>, gb: f64) -> Curve {
        let series = Series { name: "BW average".into(), unit: Some(Unit::GigabytesPerSecond), values: vec![Some(gb)] };
        Curve {
            what: what.into(),
            ends: ends.iter().map(|e| (*e).to_owned()).collect(),
            sizes: vec![Bytes::from_mib(8)],
            series: vec![series],
            settings: buffers.map(|b| ("buffers".to_owned(), b.to_owned())).into_iter().collect(),
        }
    }

    fn with(curves: Vec<Curve>) -> Vec<Finding> {
        let mut machine = switched(2);
        machine.curves = curves.into_iter().map(|c| (c, origin("perftest"))).collect();
        findings(&machine, run)
    }

    #[test]
    fn half_of_the_hosts_rate_is_told_and_nearly_all_is_not() {
        let of = |gb| with(vec![curve("ib_write_bw", &["mlx5_0"], None, 24.0), curve("ib_write_bw", &["mlx5_0", "GPU0"], None, gb)]);
        let found = of(11.5);
        assert_eq!((found.len(), found[0].subjects.join(" ")), (1, "mlx5_0 GPU0".to_owned()));
        assert!(found[0].summary.contains("48 %"), "{}", found[0].summary);
        assert_eq!(of(23.0), vec![]);
        let other = vec![curve("ib_write_bw", &["mlx5_1"], None, 24.0), curve("ib_write_bw", &["mlx5_0", "GPU0"], None, 11.0)];
        assert_eq!(with(other), vec![], "another NIC is no measure");
    }

    #[test]
    fn reads_are_told_from_writes() {
        let into = "Send Buffer on HOST (H) and Receive Buffer on DEVICE (D)";
        let out = "Send Buffer on DEVICE (D) and Receive Buffer on HOST (H)";
        let found = with(vec![curve("osu_bw", &[], Some(into), 6.1), curve("osu_bw", &[], Some(out), 0.3)]);
        assert!(found[0].summary.contains("out of GPU memory") && found[0].summary.contains("the other direction"), "{:?}", found);
        assert_eq!(with(vec![curve("osu_bw", &[], Some(out), 0.3)]), vec![]);
    }
}
