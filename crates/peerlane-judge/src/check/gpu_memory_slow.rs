//! Messages from or to GPU memory that are far slower than the same benchmark between host memories.

use super::prelude::*;
use peerlane_machine::curve::{At, Curve};
use peerlane_machine::names::gpu_number;
use peerlane_machine::units::Bytes;

pub(super) const RULE: Rule = Rule::new("gpu-memory-slow", One(run));

/// Below this share of the host memory's rate: NICs reach GPU memory below one switch at full rate.
const SLOW: f64 = 0.7;

/// Rates of smaller messages depend more on start-up than on the path.
const LARGE: Bytes = Bytes(64 << 10);

/// Which memory a benchmark's messages are in.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Memory {
    Host,
    /// On at least one side; whether data is read from a GPU, where that is known.
    Gpu {
        read: Option<bool>,
    },
}

/// A table with the memory of its messages and its best rate.
struct Known<'m> {
    curve: &'m Curve,
    origin: &'m Origin,
    memory: Memory,
    best: At,
}

fn run(view: &View) -> Option<Raised> {
    if view.case.run.is_some() || !view.is_captured() {
        return None;
    }
    let known = view.machine.curves.iter().filter_map(|(curve, origin)| {
        let best = curve.best().filter(|at| at.size >= LARGE && at.rate.gb() > 0.0)?;
        Some(Known { curve, origin, memory: memory(curve)?, best })
    });
    let known: Vec<Known> = known.collect();
    let share = |(one, other): &(&Known, &Known)| one.best.rate.gb() / other.best.rate.gb();
    let with_reference = |one| {
        let reference = highest(known.iter().filter(|other| is_reference(one, other)), |k| k.best.rate.gb())?;
        Some((one, reference)).filter(|both| share(both) < SLOW)
    };
    let slow: Vec<(&Known, &Known)> =
        known.iter().filter(|k| k.memory != Memory::Host).filter_map(with_reference).collect();
    let worst = lowest(&slow, |both| share(both))?;
    let (one, other) = worst;
    let ends = &one.curve.ends;
    let between = if ends.is_empty() { String::new() } else { format!(" ({})", ends.join(" and ")) };
    let of = match other.memory {
        Memory::Host => "host memory",
        Memory::Gpu { .. } => "the other direction",
    };
    let raised = RULE
        .raise(Design, Warning, Possible)
        .summary(format!(
            "{}{between}: messages {} GPU memory reach {} of the rate of {of}",
            one.curve.what,
            if one.memory == (Memory::Gpu { read: Some(true) }) { "from" } else { "in" },
            percent(share(worst))
        ))
        .expected(format!("about {}, the rate of {of} with the same program and NIC", other.best.rate))
        .measured(format!("{} at {}", one.best.rate, one.best.size))
        .evidence(view.cite(slow.iter().flat_map(|(a, b)| [a.origin, b.origin])))
        .fix(
            "Use the NIC nearest to the GPU. Where the two are not below one switch (`nvidia-smi topo -m`: PIX, PXB), \
             every access goes through a root complex, and many forward reads of GPU memory slowly. Below one switch, \
             check ACS redirection and the IOMMU (`lspci -vvv`, `iommu=pt`), relaxed ordering, and the peer module \
             (nvidia_peermem or dma-buf). Programs that read GPU memory with the CPU (gdrcopy) stay below 1 GB/s: let \
             them use GPUDirect RDMA or staging (UCX_TLS=rc,cuda_copy,cuda_ipc).",
        )
        .confirm(
            "`nvidia-smi topo -m`; `ib_write_bw -d NIC --use_cuda=N` for each NIC, compared with a run without `--use_cuda`",
        )
        .cost(Cost::of_rate(other.best.rate.gb(), one.best.rate.gb()))
        .about_nodes(ends)
        .losing(1.0 - share(worst));
    Some(raised)
}

/// Whether the other is what to compare with: the same program, NIC and direction, between host memories; or, for what is
/// read from a GPU, what is written into one.
fn is_reference(one: &Known, other: &Known) -> bool {
    let (a, b) = (one.curve, other.curve);
    let alike = a.what == b.what && nic(a) == nic(b) && a.settings.get("direction") == b.settings.get("direction");
    let turned =
        other.memory == (Memory::Gpu { read: Some(false) }) && one.memory == (Memory::Gpu { read: Some(true) });
    alike && (other.memory == Memory::Host || turned)
}

/// The adapter that a table names.
fn nic(curve: &Curve) -> Option<&String> {
    curve.ends.iter().find(|end| gpu_number(end).is_none())
}

/// The memory of a benchmark's messages, as it prints it: OSU names both buffers, perftest the GPU.
pub(super) fn memory(curve: &Curve) -> Option<Memory> {
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
    use crate::finding::Finding;
    use peerlane_machine::curve::Series;
    use peerlane_machine::matrix::Unit;
    use peerlane_machine::subject::join;

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
    fn half_of_the_hosts_rate_is_reported_and_nearly_all_is_not() {
        let of = |gb| {
            with(vec![
                curve("ib_write_bw", &["mlx5_0"], None, 24.0),
                curve("ib_write_bw", &["mlx5_0", "GPU0"], None, gb),
            ])
        };
        let found = of(11.5);
        assert_eq!((found.len(), join(&found[0].subjects, " ")), (1, "mlx5_0 GPU0".to_owned()));
        assert!(found[0].summary.contains("48 %"), "{}", found[0].summary);
        assert_eq!(of(23.0), vec![]);
        let other =
            vec![curve("ib_write_bw", &["mlx5_1"], None, 24.0), curve("ib_write_bw", &["mlx5_0", "GPU0"], None, 11.0)];
        assert_eq!(with(other), vec![], "another NIC is no reference");
    }

    #[test]
    fn reads_are_distinguished_from_writes() {
        let into = "Send Buffer on HOST (H) and Receive Buffer on DEVICE (D)";
        let out = "Send Buffer on DEVICE (D) and Receive Buffer on HOST (H)";
        let found = with(vec![curve("osu_bw", &[], Some(into), 6.1), curve("osu_bw", &[], Some(out), 0.3)]);
        assert!(
            found[0].summary.contains("from GPU memory") && found[0].summary.contains("the other direction"),
            "{:?}",
            found
        );
        assert_eq!(with(vec![curve("osu_bw", &[], Some(out), 0.3)]), vec![]);
    }
}
