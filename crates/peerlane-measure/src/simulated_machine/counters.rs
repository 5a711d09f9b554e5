//! The counters of a simulated machine: its transfers' bytes on the NVLinks of their routes, and planted errors.
//!
//! Bytes are conserved: what the links of a route's first GPU send is what was moved, and what those of its last receive.

use std::collections::{BTreeMap, BTreeSet};

use crate::plan::{Step, Work};
use crate::run::{GpuCondition, Reading};
use peerlane_machine::counter::ErrorCounter;
use peerlane_machine::fabric::{Fabric, Interconnect, NodeKind};
use peerlane_machine::fault::Fault;
use peerlane_machine::names::is_host;
use peerlane_machine::transfer::{Transfer, Via};
use peerlane_machine::units::Bytes;
use peerlane_model::expectation::resolve;
use peerlane_model::model::Model;

/// The counters of a live GPU that a simulated one has as well.
const READ: [ErrorCounter; 6] = [
    ErrorCounter::PcieReplay,
    ErrorCounter::AerCorrectable,
    ErrorCounter::AerNonfatal,
    ErrorCounter::AerFatal,
    ErrorCounter::EccCorrected,
    ErrorCounter::EccUncorrected,
];

/// The counters of each NVLink.
const READ_OF_LINKS: [ErrorCounter; 3] =
    [ErrorCounter::NvlinkReplay, ErrorCounter::NvlinkRecovery, ErrorCounter::NvlinkCrc];

/// A transfer, and the ends of NVLink bundles that its bytes pass.
#[derive(Clone, Debug)]
pub(super) struct Passed {
    transfer: Transfer,
    /// The GPU, its neighbour, and whether the GPU sends.
    ends: Vec<(String, String, bool)>,
}

/// The NVLinks from a GPU to one neighbour.
#[derive(Debug)]
struct Bundle {
    to: String,
    links: usize,
    /// How many of them are up.
    up: usize,
}

/// What the machine's counters stand at.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    /// By GPU, in the order of link numbers.
    bundles: BTreeMap<String, Vec<Bundle>>,
    errors: Vec<(String, ErrorCounter, f64)>,
    throttled: BTreeSet<String>,
    /// Bytes by GPU and link: sent and received.
    carried: BTreeMap<String, Vec<[u64; 2]>>,
    moved: BTreeMap<Transfer, u64>,
    uncounted: usize,
}

impl Ledger {
    /// All at zero. `fabric` is that of the design: a link that a fault leaves unused is there.
    pub(super) fn of(fabric: &Fabric, faults: &[Fault]) -> Self {
        let mut ledger = Ledger::default();
        for id in fabric.of_kind(NodeKind::Gpu) {
            let name = |id| fabric.node(id).name.clone();
            let bundle = |(link, far): &(_, _)| {
                let links = usize::from(fabric.link(*link).kind.bundle(Interconnect::Nvlink)?.links.unwrap_or(1));
                let ends = [name(id), name(*far)];
                let left = faults.iter().filter_map(|fault| match fault {
                    Fault::Bricks { link, bricks } if link.iter().all(|end| ends.contains(end)) => Some(*bricks),
                    _ => None,
                });
                let up = left.map(usize::from).fold(links, usize::min);
                let [_, to] = ends;
                Some(Bundle { to, links, up })
            };
            let bundles: Vec<Bundle> = fabric.links_of(id).iter().filter_map(bundle).collect();
            let links = bundles.iter().map(|bundle| bundle.links).sum();
            ledger.carried.insert(name(id), vec![[0; 2]; links]);
            ledger.bundles.insert(name(id), bundles);
        }
        for fault in faults {
            match fault {
                Fault::Errors { gpu, counter, per_gb } => ledger.errors.push((gpu.clone(), *counter, *per_gb)),
                Fault::Throttle { gpu, .. } => drop(ledger.throttled.insert(gpu.clone())),
                _ => {}
            }
        }
        ledger
    }

    /// What the transfers of a step pass. Bytes of other steps are not counted; `allocation` tells repetitions of one from
    /// the first.
    pub(super) fn passed(&mut self, model: &Model, step: &Step, allocation: usize) -> Vec<Passed> {
        let Work::Transfers(transfers) = &step.work else {
            self.uncounted += usize::from(allocation == 0);
            return Vec::new();
        };
        let fabric = &model.machine.fabric;
        let name = |id| fabric.node(id).name.clone();
        let of = |transfer: &Transfer| {
            let by_nvlink =
                transfer.via == Via::Direct && !is_host(&transfer.source) && !is_host(&transfer.destination);
            let route =
                resolve(fabric, transfer).filter(|_| by_nvlink).and_then(|resolved| model.route(&resolved).ok());
            let mut ends = Vec::new();
            for hop in route.iter().filter(|route| !route.staged).flat_map(|route| &route.hops) {
                let joins = |(link, far): &(_, _)| {
                    *far == hop.to && fabric.link(*link).kind.bundle(Interconnect::Nvlink).is_some()
                };
                if fabric.links_of(hop.from).iter().any(joins) {
                    ends.push((name(hop.from), name(hop.to), true));
                    ends.push((name(hop.to), name(hop.from), false));
                }
            }
            Passed { transfer: transfer.clone(), ends }
        };
        transfers.iter().map(of).collect()
    }

    /// Counts `n` messages of each transfer.
    pub(super) fn add(&mut self, passed: &[Passed], size: Bytes, n: usize) {
        let bytes = size.0.saturating_mul(n as u64);
        for Passed { transfer, ends } in passed {
            *self.moved.entry(transfer.clone()).or_default() += bytes;
            for (gpu, far, sends) in ends {
                self.spread(gpu, far, bytes, usize::from(!sends));
            }
        }
    }

    /// Spreads bytes evenly over the links of a bundle that are up.
    fn spread(&mut self, gpu: &str, far: &str, bytes: u64, way: usize) {
        let (Some(bundles), Some(carried)) = (self.bundles.get(gpu), self.carried.get_mut(gpu)) else { return };
        let mut first = 0;
        for bundle in bundles {
            if bundle.to == far && bundle.up > 0 {
                let (each, rest) = (bytes / bundle.up as u64, bytes % bundle.up as u64);
                for (i, link) in carried.iter_mut().skip(first).take(bundle.up).enumerate() {
                    link[way] += each + u64::from((i as u64) < rest);
                }
                return;
            }
            first += bundle.links;
        }
    }

    /// PCIe replays of a GPU, where such errors are planted.
    pub(super) fn replays(&self, gpu: &str) -> Option<u64> {
        let planted = self.errors.iter().any(|(of, counter, _)| of == gpu && *counter == ErrorCounter::PcieReplay);
        let place = (ErrorCounter::PcieReplay, (gpu.to_owned(), None));
        planted.then(|| self.reading(&BTreeSet::new()).errors.get(&place).copied().unwrap_or_default())
    }

    /// What all counters stand at; those of GPUs that are gone cannot be read.
    pub(super) fn reading(&self, absent: &BTreeSet<String>) -> Reading {
        let mut reading = Reading { moved: self.moved.clone(), uncounted: self.uncounted, ..Reading::default() };
        for (gpu, bundles) in self.bundles.iter().filter(|(gpu, _)| !absent.contains(*gpu)) {
            let carried = self.carried.get(gpu).map(Vec::as_slice).unwrap_or_default();
            let is_up: Vec<bool> = bundles.iter().flat_map(|b| (0..b.links).map(|i| i < b.up)).collect();
            let kib = |(bytes, up): (&[u64; 2], &bool)| up.then(|| bytes.map(|bytes| bytes / 1024));
            if !carried.is_empty() {
                reading.nvlinks.insert(gpu.clone(), carried.iter().zip(&is_up).map(kib).collect());
            }
            reading.errors.extend(READ.map(|counter| ((counter, (gpu.clone(), None)), 0)));
            for link in (0..carried.len().min(255)).filter(|link| is_up[*link]) {
                let place = (gpu.clone(), Some(link as u8));
                reading.errors.extend(READ_OF_LINKS.map(|counter| ((counter, place.clone()), 0)));
            }
            let reasons = self.throttled.contains(gpu).then(|| "HW Thermal Slowdown".to_owned());
            let clock_event_reasons = reasons.into_iter().collect();
            reading.gpus.push(GpuCondition { gpu: gpu.clone(), clock_event_reasons, ..GpuCondition::default() });
        }
        for (gpu, counter, per_gb) in &self.errors {
            let link = if counter.is_nvlink() { Some(0) } else { None };
            let bytes = match link {
                Some(_) => self.carried.get(gpu).and_then(|links| links.first()).map_or(0, |both| both.iter().sum()),
                None => {
                    self.moved.iter().filter(|(t, _)| t.gpus().any(|name| name == gpu)).map(|(_, bytes)| bytes).sum()
                }
            };
            if let Some(count) = reading.errors.get_mut(&(*counter, (gpu.clone(), link))) {
                *count = (bytes as f64 * 1e-9 * per_gb) as u64;
            }
        }
        reading
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::Executor;
    use crate::plan::{Method, Size, Test};
    use crate::simulated_machine::SimulatedMachine;
    use peerlane_machine::fault::Planted;
    use peerlane_read::catalogue::{self, Parts};
    use proptest::prelude::*;

    /// Reads the counters of a machine after messages of 64 MiB.
    fn counted(system: &str, faults: Vec<Fault>, transfers: &[(usize, usize)], n: usize) -> Option<Reading> {
        let machine = catalogue::system(system).unwrap().unwrap();
        let settings = Planted { faults, ..Planted::default() };
        let mut simulated = SimulatedMachine::new(&machine, Parts::embedded(), &settings);
        for (a, b) in transfers {
            let work = Work::Transfers(vec![Transfer::new(format!("GPU{a}"), format!("GPU{b}"))]);
            let step = Step { test: Test::Pairs, work, size: Size::Exactly(Bytes::from_mib(64)) };
            simulated.prepare(&[&step], &Method::default(), 0).ok()?;
            simulated.sample(n).ok()?;
            simulated.release();
        }
        Some(simulated.counters())
    }

    fn sums(reading: &Reading, way: usize) -> Vec<u64> {
        reading.nvlinks.values().map(|links| links.iter().flatten().map(|both| both[way]).sum()).collect()
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]

        #[test]
        fn bytes_on_the_links_of_a_path_are_those_sent(
            system in prop::sample::select(vec!["hgx-h200", "h200x4-vm", "dgx-1v"]),
            pairs in prop::collection::vec((0usize..4, 0usize..4).prop_filter("two GPUs", |(a, b)| a != b), 1..6),
            n in 1usize..9,
        ) {
            let Some(reading) = counted(system, Vec::new(), &pairs, n) else { return Ok(()) };
            let kib = n as u64 * (64 << 10);
            let moved: u64 = reading.moved.values().sum();
            prop_assert_eq!(moved, kib * 1024 * pairs.len() as u64);
            let (sent, received) = (sums(&reading, 0), sums(&reading, 1));
            // each link rounds down
            let links: u64 = reading.nvlinks.values().map(|links| links.len() as u64).sum();
            for gpu in 0..4 {
                let of = |ends: &dyn Fn(&(usize, usize)) -> bool| kib * pairs.iter().filter(|p| ends(p)).count() as u64;
                let (out, inward) = (of(&|p| p.0 == gpu), of(&|p| p.1 == gpu));
                // a mesh may lead through a third GPU, which sends what it received
                prop_assert!(sent[gpu] + links >= out && received[gpu] + links >= inward, "{:?} {:?}", sent, received);
                prop_assert!((sent[gpu] + inward).abs_diff(received[gpu] + out) <= links, "{:?} {:?}", sent, received);
            }
            let (all_sent, all_received): (u64, u64) = (sent.iter().sum(), received.iter().sum());
            prop_assert!(all_sent.abs_diff(all_received) <= links);
        }
    }

    #[test]
    fn bytes_that_take_another_path_are_on_no_nvlink() {
        let detour = Fault::Detour { gpu: "GPU0".to_owned() };
        let reading = counted("hgx-h200", vec![detour], &[(0, 1)], 3).unwrap();
        assert_eq!((sums(&reading, 0).iter().sum::<u64>(), reading.moved.values().sum::<u64>()), (0, 3 * (64 << 20)));
        let short = Fault::Bricks { link: ["GPU0".to_owned(), "nvswitch".to_owned()], bricks: 17 };
        let reading = counted("hgx-h200", vec![short], &[(0, 1)], 17).unwrap();
        let links = &reading.nvlinks["GPU0"];
        assert_eq!((links.len(), links[0], links[17]), (18, Some([64 << 10, 0]), None));
    }

    #[test]
    fn planted_errors_rise_with_the_bytes_of_their_link() {
        let errors = |counter| vec![Fault::Errors { gpu: "GPU1".to_owned(), counter, per_gb: 18.0 }];
        let of = |counter: ErrorCounter, link| {
            let reading = counted("hgx-h200", errors(counter), &[(0, 1), (2, 3)], 150).unwrap();
            assert_eq!(reading.errors[&(counter, ("GPU0".to_owned(), link))], 0);
            reading.errors[&(counter, ("GPU1".to_owned(), link))]
        };
        // 10.07 GB arrive, on 18 links
        assert_eq!((of(ErrorCounter::NvlinkReplay, Some(0)), of(ErrorCounter::EccUncorrected, None)), (10, 181));
    }
}
