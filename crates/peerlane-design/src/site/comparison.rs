//! What a run of a site measured with what should stand in its place. The two are joined here and, of one machine's matrices, in
//! [`peerlane_model::comparison`], and nowhere else.

use std::collections::HashMap;

use super::{HostRates, Site};
use crate::simulated_cluster::Predictor;
use peerlane_measure::nodes::{Cell, End, NodesRun, Probe, Step, Transport};
use peerlane_model::expectation::{Bottleneck, Expected};

/// Below this share of what is expected, a value between hosts is off: ClusterKit's limit.
pub const OFF: f64 = 0.93;

/// What binds a path whose ends carry more than its ports.
const PORTS: &str = "the NICs' ports";

/// A step's cell with what its value should be.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct ComparedStep<'a> {
    /// What was measured.
    pub cell: &'a Cell,
    /// What it should be while the other steps of its round run, in bytes a second or of a latency in seconds; `None` where nothing
    /// is known.
    pub expected: Option<Expected>,
}

impl ComparedStep<'_> {
    /// What is delivered of what is expected: of rates measured over expected, of latencies the inverse.
    pub fn share(&self) -> Option<f64> {
        self.share_of(self.expected.as_ref()?.value)
    }

    /// The same of any other number that it should be.
    pub fn share_of(&self, should: f64) -> Option<f64> {
        let value = self.cell.value()?;
        Some(if self.cell.step.probe == Probe::Latency { should / value } else { value / should })
    }

    /// What the value is judged by: the nearest to it of what it may be.
    pub fn against(&self) -> Option<f64> {
        let expected = self.expected.as_ref()?;
        Some(self.cell.value().map_or(expected.value, |value| expected.nearest(value)))
    }

    /// Whether it is worse than expected, by more than paths that are sound differ.
    pub fn is_off(&self) -> bool {
        let outside = self.against().zip(self.cell.value()).is_some_and(|(nearest, value)| nearest != value);
        outside && self.share().is_some_and(|share| share < OFF)
    }
}

/// A run of a site: every step with what its value should be.
#[non_exhaustive]
pub struct Comparison<'a> {
    /// The site.
    pub site: &'a Site,
    /// The run.
    pub run: &'a NodesRun,
    /// Its cells, in its order.
    pub steps: Vec<ComparedStep<'a>>,
}

impl<'a> Comparison<'a> {
    /// By the network where it is known, else by what the hosts' ends and ports carry; no step should reach more than host memory did
    /// over the same path.
    pub fn of(site: &'a Site, run: &'a NodesRun) -> Self {
        let hosts = HostRates::of(&run.cells);
        let expected = match &site.network {
            Some(cluster) => {
                let mut predictor = Predictor::new(cluster);
                let rounds = run.cells.chunk_by(|a, b| (a.round, a.again) == (b.round, b.again));
                let of_round = |round: &[Cell]| predictor.round(&round.iter().map(|c| &c.step).collect::<Vec<_>>());
                rounds.flat_map(of_round).collect()
            }
            None => by_ends(site, run),
        };
        let lowered = |cell, expected: Option<Expected>| expected.map(|expected| hosts.lowered(cell, expected));
        let step = |(cell, expected)| ComparedStep { cell, expected: lowered(cell, expected) };
        Comparison { site, run, steps: run.cells.iter().zip(expected).map(step).collect() }
    }
}

/// What is the same step in two runs, whatever the order of hosts.
type Key<'a> = ([(&'a str, Option<&'a str>); 2], Transport, Probe, [bool; 2]);

fn key<'a>(run: &'a NodesRun, cell: &'a Cell) -> Key<'a> {
    let ends = [&cell.step.from, &cell.step.to].map(|end| {
        let host = run.nodes.get(end.node).map_or("", |node| node.host.as_str());
        (host, end.nic.as_deref().or(end.memory.device()))
    });
    (ends, cell.step.transport, cell.step.probe, [cell.step.is_of_gpus(), cell.again])
}

/// The steps of a run that an earlier one has too, with the earlier value as what is expected; each with the earlier cell.
pub fn since<'a>(before: &'a NodesRun, after: &'a NodesRun) -> Vec<(ComparedStep<'a>, &'a Cell)> {
    let earlier: HashMap<Key, &Cell> = before.cells.iter().map(|cell| (key(before, cell), cell)).collect();
    let step = |cell: &'a Cell| {
        let earlier = *earlier.get(&key(after, cell))?;
        let expected = Some(Expected::exactly(earlier.value()?, Bottleneck::default()));
        Some((ComparedStep { cell, expected }, earlier))
    };
    after.cells.iter().filter_map(step).collect()
}

/// What the hosts' ends and their ports carry, of each cell.
fn by_ends(site: &Site, run: &NodesRun) -> Vec<Option<Expected>> {
    let hosts = by_tcp(run);
    let of = |cell: &Cell| {
        let step = &cell.step;
        match step.transport {
            Transport::Verbs if step.probe.is_one_way() => of_ends(site, run, step),
            Transport::Tcp if step.probe == Probe::Send && step.is_of_gpus() => {
                site.staged(step, *hosts.get(&(step.from.node, step.to.node))?)
            }
            _ => None,
        }
    };
    run.cells.iter().map(of).collect()
}

/// From memory to the NIC, the slower port's line, and from the NIC to memory. What ports carry says little of GPUs whose paths are
/// not known.
fn of_ends(site: &Site, run: &NodesRun, step: &Step) -> Option<Expected> {
    match (site.ends(step), of_ports(run, step)) {
        (Some(ends), ports) => Some(ends.at_most(ports.unwrap_or(f64::INFINITY), PORTS)),
        (None, ports) => Some(Expected::exactly(ports.filter(|_| !step.is_of_gpus())?, Bottleneck::default())),
    }
}

/// What host memory reached by TCP, from host to host.
fn by_tcp(run: &NodesRun) -> HashMap<(usize, usize), f64> {
    let of_host = |cell: &&Cell| {
        let step = &cell.step;
        (step.transport, step.probe, step.is_of_gpus()) == (Transport::Tcp, Probe::Send, false)
    };
    let rate = |cell: &Cell| Some(((cell.step.from.node, cell.step.to.node), cell.value()?));
    run.cells.iter().filter(of_host).filter_map(rate).collect()
}

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
