//! How long a small copy takes, and what a copy of any size reaches.
//!
//! A copy engine needs a time t₁ for a copy however small, by kind of copy: within a GPU, into another's memory, out of
//! it, through host memory, from or to host memory. Of copies in a queue that is never empty, the engine hides most of
//! it behind the one before, and t₀ is left. So a copy of s bytes takes max(t₁, t₀ + s ÷ r∞): a floor, a ramp, and the
//! rate of a message without end. Both times belong to the GPU that drives and to its driver; a path adds what its switches
//! and root complexes take.

use super::defaults::{
    COPY_LATENCY, COPY_STARTUP, Fallback, HOST_COPY_LATENCY, LOAD_PER_SWITCH, OLD_COPY_LATENCY, OLD_PEER_LATENCY,
    OLD_STAGED_LATENCY, PEER_LATENCY, PEER_READ_LATENCY, ROOT_LATENCY, STAGED_LATENCY, SWITCH_LATENCY, Setting,
    constant,
};
use super::resources::part_of;
use super::{Model, Transfer};
use crate::catalogue::Part;
use crate::evidence::{Engine, Operation};
use crate::fabric::{Interconnect, NodeId, NodeKind, PathClass, PcieGeneration};
use crate::units::{Bytes, Rate, Seconds};

/// A time that the model gives, with its reason.
#[derive(Clone, Debug, PartialEq)]
pub struct Latency {
    /// The time.
    pub time: Seconds,
    /// What it is made of.
    pub why: String,
}

/// How long copies of a way take, by size.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Curve {
    /// Time of a copy however small, t₁.
    pub least: Seconds,
    /// Time that each copy of a full queue adds, t₀.
    pub startup: Seconds,
    /// Rate of a message without end, r∞.
    pub rate: Rate,
}

impl Curve {
    /// Time of a copy of this size, in a queue of such.
    pub fn time(&self, size: Bytes) -> Seconds {
        let moving = self.startup.seconds() + size.0 as f64 / self.rate.bytes_per_second();
        Seconds::new(moving.max(self.least.seconds()))
    }

    /// Rate of copies of this size; none of 0 bytes.
    pub fn rate_at(&self, size: Bytes) -> Rate {
        Rate::from_bytes_per_second(size.0 as f64 / self.time(size).seconds())
    }

    /// Bytes at which half of the rate is reached.
    pub fn half_size(&self) -> Bytes {
        let rate = self.rate.bytes_per_second();
        let (ramp, floor) = (self.startup.seconds() * rate, self.least.seconds() * rate / 2.0);
        // what the conversion makes of any float is in range
        Bytes(ramp.max(floor).round() as u64)
    }
}

impl Model<'_> {
    /// Time of one small copy, as a program sees it that queues them one by one; `None` where no GPU drives it or no
    /// way is known.
    pub fn small_copy(&self, transfer: &Transfer) -> Option<Latency> {
        let driver = self.driver(transfer)?;
        let part = part_of(&self.machine.fabric, self.parts, driver);
        let local = transfer.source == transfer.destination;
        let route = if local { None } else { Some(self.route(transfer).ok()?) };
        let host = [transfer.source, transfer.destination].into_iter().any(|n| self.is(n, NodeKind::Host));
        let (own, old, kind) = match &route {
            None => (&COPY_LATENCY, &OLD_COPY_LATENCY, "a copy within the GPU"),
            Some(route) if route.staged => (&STAGED_LATENCY, &OLD_STAGED_LATENCY, "a copy through host memory"),
            Some(_) if host => (&HOST_COPY_LATENCY, &HOST_COPY_LATENCY, "a copy from or to host memory"),
            Some(_) if transfer.op == Operation::Read && transfer.engine == Engine::Ce => {
                (&PEER_READ_LATENCY, &OLD_PEER_LATENCY, "a copy out of another GPU's memory")
            }
            Some(_) => (&PEER_LATENCY, &OLD_PEER_LATENCY, "a copy into another GPU's memory"),
        };
        let known = of_era(part, own, old, self);
        let way = route.map_or(0.0, |route| self.on_the_way(&route.hops.iter().map(|h| h.to).collect::<Vec<_>>()));
        let assumed = if known.assumed { ", assumed" } else { "" };
        let mut why = format!("{kind}: {:.2} us{assumed}", known.value);
        if way > 0.0 {
            why.push_str(&format!("; switches and root complexes: {way:.2} us"));
        }
        Some(Latency { time: Seconds::from_us(known.value + way), why })
    }

    /// Time of one dependent load by a kernel of `reader`, where its part states it: from another GPU over NVLink, or
    /// from host memory.
    pub fn load(&self, reader: NodeId, memory: NodeId) -> Option<Latency> {
        let fabric = &self.machine.fabric;
        let part = part_of(fabric, self.parts, reader);
        let path = fabric.path(memory, reader)?;
        let (name, kind) = match path.class {
            PathClass::Gpu(Interconnect::Nvlink, _) => ("peer_load_latency", "a load over NVLink"),
            _ if self.is(memory, NodeKind::Host) => ("host_load_latency", "a load from host memory"),
            _ => return None,
        };
        let known = constant(part, name)?;
        let switches = path.hops.iter().filter(|h| fabric.node(h.to).kind == NodeKind::Switch).count() as f64;
        let time = known.value / 1000.0 + switches * LOAD_PER_SWITCH.assumed(self.parts.end()).value;
        Some(Latency { time: Seconds::from_us(time), why: format!("{kind}: {}", known.why) })
    }

    /// How fast copies of any size are by themselves; `None` where the rate is not known or no GPU drives them.
    pub fn curve(&self, transfer: &Transfer) -> Option<Curve> {
        let rate = self.solve(std::slice::from_ref(transfer)).ok()?.first()?.rate;
        let least = self.small_copy(transfer)?.time;
        Some(Curve { least, startup: self.startup(transfer)?, rate })
    }

    /// Time that each copy of a full queue adds to its moving, t₀; `None` where no GPU drives it.
    pub fn startup(&self, transfer: &Transfer) -> Option<Seconds> {
        let part = part_of(&self.machine.fabric, self.parts, self.driver(transfer)?);
        Some(Seconds::from_us(COPY_STARTUP.or_of(part, self.parts.end()).value))
    }

    fn is(&self, node: NodeId, kind: NodeKind) -> bool {
        self.machine.fabric.node(node).kind == kind
    }

    /// The GPU that drives: the one there is, else the writer or the reader.
    fn driver(&self, transfer: &Transfer) -> Option<NodeId> {
        let (from, to) = (self.is(transfer.source, NodeKind::Gpu), self.is(transfer.destination, NodeKind::Gpu));
        if transfer.engine == Engine::Nic {
            return None;
        }
        match (from, to) {
            (true, true) if transfer.op == Operation::Read => Some(transfer.destination),
            (true, _) => Some(transfer.source),
            (_, true) => Some(transfer.destination),
            _ => None,
        }
    }

    /// Microseconds that the switches and root complexes among these nodes add.
    fn on_the_way(&self, nodes: &[NodeId]) -> f64 {
        let fabric = &self.machine.fabric;
        let end = self.parts.end();
        let of = |node: &NodeId| match fabric.node(*node).kind {
            NodeKind::Switch => SWITCH_LATENCY.or_of(part_of(fabric, self.parts, *node), end).value / 1000.0,
            NodeKind::RootComplex => ROOT_LATENCY.assumed(end).value / 1000.0,
            _ => 0.0,
        };
        nodes.iter().map(of).sum()
    }
}

/// A part's constant, else the one that fits its time: GPUs of PCIe 3.0 were measured by the CUDA samples of their time, which
/// count the launch.
fn of_era(part: Option<&Part>, new: &Fallback, old: &Fallback, model: &Model) -> Setting {
    let generation = part.and_then(|p| p.pcie).and_then(|w| w.generation);
    let fallback = if generation.is_some_and(|g| g <= PcieGeneration::Gen3) { old } else { new };
    fallback.or_of(part, model.parts.end())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalogue::{Parts, system};
    use crate::model::PeerAccess;

    fn of(name: &str, from: &str, to: &str, change: impl Fn(&mut Transfer)) -> (Curve, Latency) {
        let machine = system(name).unwrap().unwrap();
        let model = Model::new(&machine, Parts::embedded());
        let find = |name| machine.fabric.find(name).unwrap();
        let (engine, op, peer) = (Engine::Ce, Operation::Write, PeerAccess::Enabled);
        let mut transfer = Transfer { source: find(from), destination: find(to), engine, op, peer };
        change(&mut transfer);
        (model.curve(&transfer).unwrap(), model.small_copy(&transfer).unwrap())
    }

    #[test]
    fn a_curve_has_a_floor_a_ramp_and_an_asymptote() {
        let (curve, latency) = of("h200x4-vm", "GPU0", "GPU1", |_| {});
        assert_eq!(curve.least, latency.time);
        assert!((latency.time.us() - 2.26).abs() < 1e-9, "{latency:?}");
        assert_eq!(curve.time(Bytes(16)), curve.least);
        // 40 MB at 396.13 GB/s and 1 us
        let rate = curve.rate_at(Bytes(40_000_000)).gb();
        assert!((rate - 40e6 / (1e-6 + 40e6 / 396.127e9) / 1e9).abs() < 0.01, "{rate}");
        let half = curve.rate_at(curve.half_size()).gb();
        assert!((half / curve.rate.gb() - 0.5).abs() < 0.01, "{half}");
        let mut last = 0.0;
        for shift in 0..40 {
            let rate = curve.rate_at(Bytes(1 << shift)).gb();
            assert!(rate >= last && rate <= curve.rate.gb());
            last = rate;
        }
        assert_eq!(curve.rate_at(Bytes(0)).gb(), 0.0);
    }

    #[test]
    fn each_kind_of_copy_has_its_time_and_a_path_adds_its_own() {
        let us = |(_, latency): (Curve, Latency)| latency.time.us();
        let read = |t: &mut Transfer| t.op = Operation::Read;
        assert!((us(of("h200x4-vm", "GPU0", "GPU1", read)) - 13.29).abs() < 1e-9);
        let staged = |t: &mut Transfer| t.peer = PeerAccess::Disabled;
        assert!(us(of("h200x4-vm", "GPU0", "GPU1", staged)) > 16.0);
        // one switch; two switches and the root complex
        assert!((us(of("exxact-devbox", "GPU0", "GPU1", |_| {})) - 6.02).abs() < 1e-9);
        assert!((us(of("exxact-devbox", "GPU0", "GPU2", |_| {})) - 6.22).abs() < 1e-9);
    }

    #[test]
    fn loads_are_told_where_a_part_states_them() {
        let machine = system("h200x4-vm").unwrap().unwrap();
        let model = Model::new(&machine, Parts::embedded());
        let find = |name| machine.fabric.find(name).unwrap();
        assert!((model.load(find("GPU0"), find("GPU1")).unwrap().time.us() - 0.827).abs() < 1e-9);
        assert!((model.load(find("GPU0"), find("host0")).unwrap().time.us() - 1.171).abs() < 1e-9);
        let other = system("exxact-devbox").unwrap().unwrap();
        let model = Model::new(&other, Parts::embedded());
        assert!(model.load(other.fabric.find("GPU0").unwrap(), other.fabric.find("GPU1").unwrap()).is_none());
    }
}
