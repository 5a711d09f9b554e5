//! Values between nodes, each with what it should be.

mod beside;
mod earlier;

pub(crate) use beside::Beside;
pub(crate) use earlier::{Key, key, with_earlier};

use std::collections::HashMap;

use peerlane_design::cluster::Cluster;
use peerlane_design::measured_cluster::Ends;
use peerlane_design::simulated_cluster::{Prediction, Predictor};
use peerlane_machine::units::Rate;
use peerlane_measure::nodes::{Cell, End, NodesRun, Probe, Step, Transport};
use peerlane_model::expectation::Expected;

/// Below this share of what is expected, a value is off: ClusterKit's limit.
pub const OFF: f64 = 0.93;

/// A measured value between two ends, with what it should be.
#[derive(Clone, Debug, PartialEq)]
pub struct Joined<'a> {
    /// What was measured.
    pub cell: &'a Cell,
    /// What it should be, while the others of its round ran; without switches where only the ports' rates are known.
    pub expected: Option<Prediction>,
}

impl Joined<'_> {
    /// What is delivered of what is expected: of rates measured over expected, of latencies the inverse.
    pub fn share(&self) -> Option<f64> {
        let (value, expected) = (self.cell.value()?, self.expected.as_ref()?.value);
        Some(if self.cell.step.probe == Probe::Latency { expected / value } else { value / expected })
    }

    /// What the value is judged by: the nearest to it of what it may be.
    pub fn against(&self) -> Option<f64> {
        let expected = self.expected.as_ref()?;
        let within = |range: [f64; 2]| self.cell.value().map(|value| value.max(range[0]).min(range[1]));
        Some(expected.range.and_then(within).unwrap_or(expected.value))
    }

    /// Whether it is worse than expected, by more than pairs that are sound differ.
    pub(crate) fn is_off(&self) -> bool {
        is_off(self.share(), self.cell.value(), self.expected.as_ref().and_then(|expected| expected.range))
    }
}

/// Whether a share is less than sound pairs differ by, of a value that is not within the range of what it may be.
pub(crate) fn is_off(share: Option<f64>, measured: Option<f64>, range: Option<[f64; 2]>) -> bool {
    let within = range.zip(measured).is_some_and(|([low, _], measured)| measured >= low);
    share.is_some_and(|share| share < OFF) && !within
}

/// All cells of a record with what they should be, in the record's order. `cluster` is the one that was simulated; without one,
/// the ends decide, of nodes that described themselves.
pub fn joined<'a>(run: &'a NodesRun, cluster: Option<&Cluster>, ends: &Ends) -> Vec<Joined<'a>> {
    let beside = Beside::of(&run.cells);
    let Some(cluster) = cluster else {
        let hosts = by_tcp(run);
        let expected = |cell| of_ends(run, ends, cell).or_else(|| of_staged(ends, &hosts, cell));
        let join = |cell| Joined { cell, expected: expected(cell).map(|expected| beside.lowered(cell, expected)) };
        return run.cells.iter().map(join).collect();
    };
    let mut predictor = Predictor::new(cluster);
    let mut all = Vec::with_capacity(run.cells.len());
    for round in run.cells.chunk_by(|a, b| (a.round, a.again) == (b.round, b.again)) {
        let expected = predictor.round(&round.iter().map(|cell| &cell.step).collect::<Vec<_>>());
        let lowered = |(cell, expected): (&'a Cell, Option<Prediction>)| Joined {
            cell,
            expected: expected.map(|expected| beside.lowered(cell, expected)),
        };
        all.extend(round.iter().zip(expected).map(lowered));
    }
    all
}

/// What the ends and their ports carry: from host memory to the NIC, the slower port's line, from the NIC to host memory.
fn of_ends(run: &NodesRun, ends: &Ends, cell: &Cell) -> Option<Prediction> {
    let step = &cell.step;
    if !step.probe.is_one_way() || step.transport != Transport::Verbs {
        return None;
    }
    if step.is_of_gpus() {
        return of_gpus(run, ends, step);
    }
    let ends = ends.rate(step).map(|(rate, why)| (rate.bytes_per_second(), why.to_owned()));
    let (value, bound_by) = match (of_ports(run, step), ends) {
        (Some(ports), Some((rate, why))) if rate < ports => (rate, Some(why)),
        (Some(ports), Some(_)) => (ports, Some(PORTS.to_owned())),
        (Some(ports), None) => (ports, None),
        (None, Some((rate, why))) => (rate, Some(why)),
        (None, None) => return None,
    };
    Some(Prediction { value, through: Vec::new(), bound_by, range: None })
}

/// The same of GPU memory, with what it may be. What ports carry says little of GPUs whose paths are not known.
fn of_gpus(run: &NodesRun, ends: &Ends, step: &Step) -> Option<Prediction> {
    let Expected { value, low, high, binding } = ends.with_gpus(step)?;
    let ports = of_ports(run, step).unwrap_or(f64::INFINITY);
    let bound_by = if ports < value { PORTS.to_owned() } else { binding.words };
    let range = Some([low.min(ports), high.min(ports)]);
    Some(Prediction { value: value.min(ports), through: Vec::new(), bound_by: Some(bound_by), range })
}

/// What host memory reached by TCP, from node to node.
fn by_tcp(run: &NodesRun) -> HashMap<(usize, usize), f64> {
    let of_host = |cell: &&Cell| {
        let step = &cell.step;
        (step.transport, step.probe, step.is_of_gpus()) == (Transport::Tcp, Probe::Send, false)
    };
    let rate = |cell: &Cell| Some(((cell.step.from.node, cell.step.to.node), cell.value()?));
    run.cells.iter().filter(of_host).filter_map(rate).collect()
}

/// What GPU memory should reach by TCP, staged at both ends, from what host memory reached on the same path.
fn of_staged(ends: &Ends, hosts: &HashMap<(usize, usize), f64>, cell: &Cell) -> Option<Prediction> {
    let step = &cell.step;
    if (step.transport, step.probe, step.is_of_gpus()) != (Transport::Tcp, Probe::Send, true) {
        return None;
    }
    let host = *hosts.get(&(step.from.node, step.to.node))?;
    let all = ends.staged(step, Rate::from_bytes_per_second(host))?;
    let [least, likely, most] = all.map(Rate::bytes_per_second);
    let bound_by = Some("passes over memory at both ends, beside host memory's rate".to_owned());
    Some(Prediction { value: likely, through: Vec::new(), bound_by, range: Some([least, most]) })
}

/// What binds a path whose ends carry more than its ports.
const PORTS: &str = "the NICs' ports";

/// The lower rate of two ports, as they report it, in bytes a second.
fn of_ports(run: &NodesRun, step: &Step) -> Option<f64> {
    if step.is_loopback() {
        return None;
    }
    let rate = |end: &End| {
        let nic = end.nic.as_ref()?;
        run.nodes.get(end.node)?.nics.iter().find(|own| own.name == *nic)?.rate
    };
    Some(rate(&step.from)?.min(rate(&step.to)?).bytes_per_second())
}
