//! GPU memory over TCP: staged through pinned host memory at both ends, from what host memory reaches over the same path.
//!
//! Each stream sends one message after the other. A copy engine fills one slot of pinned memory while the socket sends the other, and
//! at the far end empties one while the socket fills the other; so copies over PCIe take no time of their own until all streams
//! together need more than the engine carries. What GPU memory costs is the CPU's: sockets copy, and a message in ordinary memory that is
//! sent again and again stays in the core's cache. One that a GPU wrote is not there, nor is a slot that a GPU has read, so that each end
//! passes over memory once more. Both ends of a stream work at once: while neither waits for the other one pass counts, and where each
//! waits both do. Where the network is the limit and not the CPU, passes are hidden.

use super::defaults::MEMORY_PASS;
use super::resources::part_of;
use super::{Model, PeerAccess, Transfer};
use peerlane_machine::fabric::{NodeId, NodeKind};
use peerlane_machine::matrix::{Engine, Operation};
use peerlane_machine::units::{Bytes, Rate};

/// One end: a GPU, and the host memory that it is staged through.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TcpEnd {
    /// What a core's pass over memory outside its caches reaches: the least, the likely one, the most.
    pub pass: [Rate; 3],
    /// What copies between host memory and the GPU carry, where that is known.
    pub copy: Option<Rate>,
}

impl TcpEnd {
    /// Of a GPU that sends (`out`), or receives.
    #[must_use]
    pub fn of(model: &Model, gpu: NodeId, out: bool) -> Self {
        let fabric = &model.machine.fabric;
        let host = fabric.nearest_host(gpu).or_else(|| fabric.of_kind(NodeKind::Host).next());
        let cpu = host.and_then(|host| fabric.package(host)).or_else(|| fabric.of_kind(NodeKind::Cpu).next());
        let pass = |model: &Model| {
            let part = cpu.and_then(|cpu| part_of(fabric, model.parts, cpu));
            Rate::from_gb(MEMORY_PASS.or_of(part, model.parts.end()).value)
        };
        let [fast, slow] = model.ends();
        let copy = host.and_then(|host| {
            let (source, destination) = if out { (gpu, host) } else { (host, gpu) };
            let (engine, op, peer) = (Engine::Ce, Operation::Write, PeerAccess::Enabled);
            let transfer = Transfer { source, destination, engine, op, peer };
            Some(model.solve(&[transfer]).ok()?.first()?.rate)
        });
        TcpEnd { pass: [pass(slow), pass(model), pass(fast)], copy }
    }
}

/// What streams of messages reach between two GPUs where they reach `host` between host memories: the least, the likely rate, and the
/// most.
#[must_use]
pub fn staged_by_tcp(host: Rate, streams: u32, size: Bytes, ends: [TcpEnd; 2]) -> [Rate; 3] {
    let bytes = size.0 as f64 * f64::from(streams.max(1));
    // of one message on each stream, in host memory
    let hot = bytes / host.bytes_per_second();
    let pass = |end: &TcpEnd, at: usize| size.0 as f64 / end.pass[at].bytes_per_second();
    let copies =
        ends.iter().filter_map(|end| end.copy).fold(f64::INFINITY, |least, copy| least.min(copy.bytes_per_second()));
    let rate = |time: f64| Rate::from_bytes_per_second((bytes / time).min(copies));
    let [a, b] = [0, 1].map(|end| ends.get(end).map_or(0.0, |end| pass(end, 1)));
    let (serial, pipelined) = (a + b, a.max(b));
    let slowest: f64 = ends.iter().map(|end| pass(end, 0)).sum();
    [rate(hot + slowest), rate(hot + (serial + pipelined) / 2.0), rate(hot)]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn end(pass: f64, copy: Option<f64>) -> TcpEnd {
        TcpEnd { pass: [0.8, 1.0, 1.2].map(|of| Rate::from_gb(of * pass)), copy: copy.map(Rate::from_gb) }
    }

    #[test]
    fn passes_over_memory_are_added_and_copies_are_not() {
        let of = |host, ends| staged_by_tcp(Rate::from_gb(host), 4, Bytes(1 << 20), ends).map(|rate| rate.gb());
        // 4 MiB in 209.7 us, and one and a half passes of 74.9
        let [least, likely, most] = of(20.0, [end(14.0, Some(55.0)); 2]);
        assert!(
            (likely - 13.02).abs() < 0.01 && (least - 10.56).abs() < 0.02 && (most - 20.0).abs() < 1e-9,
            "{least} {likely} {most}"
        );
        // on a slow network nothing of it shows
        let [_, likely, _] = of(1.2, [end(14.0, Some(55.0)); 2]);
        assert!((likely / 1.2 - 0.97).abs() < 0.01, "{likely}");
        // a narrow slot does
        assert_eq!(of(20.0, [end(14.0, Some(55.0)), end(14.0, Some(3.0))]), [3.0; 3]);
    }
}
