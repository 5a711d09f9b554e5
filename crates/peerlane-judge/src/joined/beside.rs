//! GPU memory by verbs beside host memory by the same NICs.

use std::collections::{BTreeMap, HashMap};

use super::{Joined, OFF};
use peerlane_design::measured_cluster::Ends;
use peerlane_design::simulated_cluster::Prediction;
use peerlane_machine::fabric::PathClass;
use peerlane_machine::stats::Median;
use peerlane_measure::nodes::{Cell, Probe, Step, Transport, usual};

/// What host memory reached by verbs, from NIC to NIC: what GPU memory is compared with, since all but the path between NIC and GPU
/// is the same.
pub(crate) struct Beside<'a> {
    pairs: HashMap<[Port<'a>; 2], f64>,
    /// Medians over partners.
    out: HashMap<Port<'a>, f64>,
    into: HashMap<Port<'a>, f64>,
}

/// What is usual of a rail.
pub(crate) struct Usual {
    /// What host memory reaches at least where nothing is wrong with the network.
    sound: f64,
    /// What GPU memory reaches there.
    value: f64,
    /// The same as a share of what is expected, where that is known.
    share: Option<f64>,
    /// Values that this is of.
    values: usize,
}

/// A rail, and the classes of the paths between NICs and GPUs at both ends, the shorter one first.
pub(crate) type Alike = (Option<String>, [Option<PathClass>; 2]);

/// Values that tell what is usual.
const FEWEST: usize = 3;

fn alike(ends: Option<&Ends>, step: &Step) -> Alike {
    let mut classes = ends.map_or([None; 2], |ends| ends.classes(step));
    classes.sort_unstable();
    (step.from.nic.clone(), classes)
}

/// A node and its NIC.
type Port<'a> = (usize, &'a str);

impl<'a> Beside<'a> {
    pub(crate) fn of(cells: impl IntoIterator<Item = &'a Cell>) -> Self {
        let of_hosts = cells.into_iter().filter(|cell| {
            let step = &cell.step;
            step.probe == Probe::Write && !step.is_of_gpus() && !step.is_loopback()
        });
        let pairs: HashMap<[Port; 2], f64> =
            of_hosts.filter_map(|cell| Some((ports(&cell.step)?, cell.value()?))).collect();
        let [out, into] = [0, 1].map(|end| {
            let mut of: HashMap<Port, Vec<f64>> = HashMap::new();
            pairs.iter().for_each(|(ports, value)| of.entry(ports[end]).or_default().push(*value));
            of.into_iter().filter_map(|(port, values)| Some((port, Median::of(&values)?.value))).collect()
        });
        Beside { pairs, out, into }
    }

    /// Beside a step with GPU memory: between the same NICs, or what each reaches with others.
    pub(crate) fn get(&self, step: &Step) -> Option<f64> {
        let is_beside = step.transport == Transport::Verbs && step.is_of_gpus();
        let [from, to] = ports(step).filter(|_| is_beside)?;
        let usual = || Some(self.out.get(&from)?.min(*self.into.get(&to)?));
        self.pairs.get(&[from, to]).copied().or_else(usual)
    }

    /// Whether host memory was measured between the very NICs of a step.
    pub(crate) fn is_of_pair(&self, step: &Step) -> bool {
        ports(step).is_some_and(|ports| self.pairs.contains_key(&ports))
    }

    /// What GPU memory reaches, of steps of one kind between so many nodes, by rail and by the classes of the paths between NICs and
    /// GPUs. How well GPUs are read and written is known within wide bounds, and alike where these are.
    pub(crate) fn usual<'c>(
        &self,
        nodes: usize,
        ends: Option<&Ends>,
        joined: impl Iterator<Item = &'c Joined<'c>>,
    ) -> BTreeMap<Alike, Usual> {
        let mut of: BTreeMap<Alike, Vec<(&Joined, f64, f64)>> = BTreeMap::new();
        for one in joined {
            if let (Some(value), Some(host)) = (one.cell.value(), self.get(&one.cell.step)) {
                of.entry(alike(ends, &one.cell.step)).or_default().push((one, value, host));
            }
        }
        let of_rail = |(alike, all): (Alike, Vec<(&Joined, f64, f64)>)| {
            let sound = OFF * usual(all.iter().map(|(.., host)| *host).collect(), nodes)?;
            let sound_ones = || all.iter().filter(|(.., host)| *host >= sound);
            let value = usual(sound_ones().map(|(_, value, _)| *value).collect(), nodes)?;
            let share = usual(sound_ones().filter_map(|(one, ..)| one.share()).collect(), nodes);
            Some((alike, Usual { sound, value, share, values: sound_ones().count() }))
        };
        of.into_iter().filter_map(of_rail).collect()
    }

    /// What a step with GPU memory should reach by what others that are alike do: as much of what is expected where host memory reaches
    /// what it does with most, and else no more than host memory. None where too few are alike to tell more than
    /// what is expected, or host memory has no value.
    pub(crate) fn by_peers(&self, one: &Joined, ends: Option<&Ends>, usual: &BTreeMap<Alike, Usual>) -> Option<f64> {
        let usual = usual.get(&alike(ends, &one.cell.step))?;
        let host = self.get(&one.cell.step)?;
        let expected = one.expected.as_ref().map(|expected| expected.value);
        if usual.values < FEWEST && expected.is_some() {
            return None;
        }
        Some(match expected.zip(usual.share) {
            Some((expected, share)) if host >= usual.sound => share * expected,
            _ => usual.value.min(host),
        })
    }

    /// What a step should reach where host memory does not reach it either.
    pub(crate) fn lowered(&self, cell: &Cell, expected: Prediction) -> Prediction {
        match self.get(&cell.step).filter(|host| *host < expected.value) {
            Some(value) => {
                let range = expected.range.map(|range| range.map(|end| end.min(value)));
                Prediction { value, bound_by: Some(NETWORK.to_owned()), range, ..expected }
            }
            None => expected,
        }
    }
}

fn ports(step: &Step) -> Option<[Port<'_>; 2]> {
    Some([(step.from.node, step.from.nic.as_deref()?), (step.to.node, step.to.nic.as_deref()?)])
}

/// What binds GPU memory that reaches what host memory does.
const NETWORK: &str = "what host memory reaches by the same NICs";
