//! What host memory reached by verbs: what GPU memory by the same NICs is compared with, since all but the path between NIC and GPU
//! is the same.

use std::collections::HashMap;

use peerlane_machine::stats::Median;
use peerlane_measure::nodes::{Cell, Probe, Step, Transport};
use peerlane_model::expectation::Expected;

/// A host and its NIC.
type Port<'a> = (usize, &'a str);

/// What binds GPU memory that reaches what host memory does.
const NETWORK: &str = "what host memory reaches by the same NICs";

/// What host memory reached by verbs, from NIC to NIC, in bytes a second.
pub struct HostRates<'a> {
    pairs: HashMap<[Port<'a>; 2], f64>,
    /// Medians over partners.
    out: HashMap<Port<'a>, f64>,
    into: HashMap<Port<'a>, f64>,
}

impl<'a> HostRates<'a> {
    /// Of all cells of a run, or of some.
    pub fn of(cells: impl IntoIterator<Item = &'a Cell>) -> Self {
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
        HostRates { pairs, out, into }
    }

    /// For a step by verbs with GPU memory: between the same NICs, or what each reaches with others.
    pub fn get(&self, step: &Step) -> Option<f64> {
        let is_compared = step.transport == Transport::Verbs && step.is_of_gpus();
        let [from, to] = ports(step).filter(|_| is_compared)?;
        let usual = || Some(self.out.get(&from)?.min(*self.into.get(&to)?));
        self.pairs.get(&[from, to]).copied().or_else(usual)
    }

    /// Whether host memory was measured between the very NICs of a step.
    pub fn is_of_pair(&self, step: &Step) -> bool {
        ports(step).is_some_and(|ports| self.pairs.contains_key(&ports))
    }

    /// What a step should reach where host memory does not reach it either.
    pub(super) fn lowered(&self, cell: &Cell, expected: Expected) -> Expected {
        match self.get(&cell.step).filter(|host| *host < expected.value) {
            Some(host) => expected.at_most(host, NETWORK),
            None => expected,
        }
    }
}

fn ports(step: &Step) -> Option<[Port<'_>; 2]> {
    Some([(step.from.node, step.from.nic.as_deref()?), (step.to.node, step.to.nic.as_deref()?)])
}
