//! Which part explains slow values between nodes: a node, a NIC, one direction of either, a switch, or one path.
//!
//! Each part that values have in common is a candidate for [`blame`](peerlane_machine::blame), so that a switch is blamed before the
//! nodes behind it.

use std::collections::{BTreeMap, BTreeSet};

use super::{End, Levels, Probe, Step};
use peerlane_machine::blame::{Loss, losses};

/// The least loss of a part with several values, as a logarithm: 3.5 %.
const LEAST: f64 = 0.035;

/// The least loss of a single path: 7 %, ClusterKit's limit.
const LEAST_OF_PATH: f64 = 0.073;

/// By how much more latencies may differ than rates.
const LATENCY: f64 = 3.0;

/// The least noise that is believed, as a share.
const LEAST_NOISE: f64 = 0.003;

/// Suspects of one kind of value, at most.
const MOST: usize = 256;

/// Where the fault would be.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Place {
    /// A switch or a link between switches, by the name that the caller gave.
    Switch(String),
    /// A node: all its NICs, or its only path.
    Node(usize),
    /// One NIC of a node.
    Nic(usize, String),
    /// What lies between two ends, which are proven with others.
    Path(End, End),
}

/// In which direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Direction {
    /// In both.
    Both,
    /// Where it sends; of a path from its first end to its second.
    Out,
    /// Where it receives.
    In,
}

/// A value between two ends.
#[derive(Clone, Debug)]
pub struct Compared<'a> {
    /// What was measured.
    pub step: &'a Step,
    /// Bytes a second or seconds.
    pub value: f64,
    /// What it should be, in the same unit; where it is not known, values are compared with their peers.
    pub expected: Option<f64>,
    /// Without an expectation, what is a part of it: values are compared with those of peers as shares of this.
    pub beside: Option<f64>,
    /// Half the width of its interval, as a share of it.
    pub width: f64,
    /// Names of switches and links between switches on its path, where the network is known.
    pub through: Vec<String>,
}

impl Compared<'_> {
    /// The logarithm of what is delivered to what should be; above 0 is better. Without an expectation, to what is beside it, or 1.
    fn merit(&self) -> f64 {
        let ratio = (self.value / self.expected.or(self.beside).unwrap_or(1.0)).ln();
        if self.step.probe == Probe::Latency { -ratio } else { ratio }
    }
}

/// A part that explains slow values.
#[derive(Clone, Debug, PartialEq)]
pub struct Suspect {
    /// Where.
    pub place: Place,
    /// In which direction.
    pub direction: Direction,
    /// What is left of the rate, as a share; of a latency the inverse of by how many times it is longer.
    pub left: f64,
    /// Indices of the values that it explains.
    pub values: Vec<usize>,
}

/// What values of one transport and probe show. `of` is how many nodes took part. Loopbacks are left out.
pub fn suspects(all: &[Compared], of: usize) -> Vec<Suspect> {
    let across: Vec<usize> = (0..all.len()).filter(|i| !all[*i].step.is_loopback() && all[*i].value > 0.0).collect();
    let Some(first) = across.first() else { return Vec::new() };
    let factor = if all[*first].step.probe == Probe::Latency { LATENCY } else { 1.0 };
    let rest = centred(all, &across, of);
    let better = across.iter().map(|i| rest[*i]).filter(|rest| *rest > 0.0).collect();
    // faults make values worse, never better, so that the better ones show the noise
    let between = 1.4826 * median(better).unwrap_or(0.0);
    let within = median(across.iter().map(|i| all[*i].width).collect()).unwrap_or(0.0);
    let noise = between.max(within).max(LEAST_NOISE);
    let candidates = candidates(all, &across).into_iter().map(|(part, touched)| {
        let loss = factor * if matches!(part.0, Place::Path(..)) { LEAST_OF_PATH } else { LEAST };
        Loss { part, touched, loss }
    });
    let lost = rest.iter().map(|rest| -rest).collect();
    let found = losses(lost, candidates.collect(), noise, MOST);
    let suspect = |Loss { part: (place, direction), touched, loss }| Suspect {
        place,
        direction,
        left: f64::exp(-loss),
        values: touched,
    };
    found.into_iter().map(suspect).collect()
}

/// Of latencies how far nodes are from each other, by NIC: those of a pair that passes more switches are longer, and nobody's fault.
fn levels(all: &[Compared], across: &[usize]) -> BTreeMap<Option<String>, Option<Levels>> {
    let mut pairs: BTreeMap<Option<String>, Vec<(usize, usize, f64)>> = BTreeMap::new();
    for of in across.iter().filter_map(|i| all.get(*i)).filter(|of| of.step.probe == Probe::Latency) {
        pairs.entry(of.step.from.nic.clone()).or_default().push((of.step.from.node, of.step.to.node, of.value));
    }
    pairs.into_iter().map(|(nic, pairs)| (nic, Levels::of(&pairs))).collect()
}

/// The merits, less the usual one: that of rails with known expectations together, else of each rail by itself, and of latencies
/// of each distance.
fn centred(all: &[Compared], across: &[usize], of: usize) -> Vec<f64> {
    let levels = levels(all, across);
    let group = |i: usize| match all[i].expected {
        Some(_) => None,
        None => {
            let Step { from, to, .. } = all[i].step;
            let level = levels.get(&from.nic).and_then(|levels| Some(levels.as_ref()?.between(from.node, to.node)));
            Some((from.nic.clone(), level))
        }
    };
    let mut groups: BTreeMap<_, Vec<f64>> = BTreeMap::new();
    for i in across {
        groups.entry(group(*i)).or_default().push(all[*i].merit());
    }
    let usual: BTreeMap<_, f64> =
        groups.into_iter().filter_map(|(group, merits)| Some((group, usual(merits, of)?))).collect();
    (0..all.len()).map(|i| usual.get(&group(i)).map_or(0.0, |usual| all[i].merit() - usual)).collect()
}

/// What is usual among so many nodes of values that faults make less: of few nodes, one makes a large share of the values slow, so that
/// it is the middle of those of the others.
pub fn usual(mut values: Vec<f64>, of: usize) -> Option<f64> {
    let quantile = 1.0 - (1.0 - 2.0 / of.max(3) as f64) / 2.0;
    values.sort_by(f64::total_cmp);
    let at = (values.len().checked_sub(1)? as f64 * quantile).round() as usize;
    values.get(at).copied()
}

fn median(mut values: Vec<f64>) -> Option<f64> {
    let middle = values.len() / 2;
    (!values.is_empty()).then(|| *values.select_nth_unstable_by(middle, f64::total_cmp).1)
}

/// All parts that values have in common, with the values of each.
fn candidates(all: &[Compared], across: &[usize]) -> BTreeMap<(Place, Direction), Vec<usize>> {
    let mut nics: BTreeMap<usize, BTreeSet<&Option<String>>> = BTreeMap::new();
    for end in across.iter().flat_map(|i| [&all[*i].step.from, &all[*i].step.to]) {
        nics.entry(end.node).or_default().insert(&end.nic);
    }
    let mut found: BTreeMap<(Place, Direction), Vec<usize>> = BTreeMap::new();
    for &i in across {
        let step = all[i].step;
        let mut add = |place: Place, direction| found.entry((place, direction)).or_default().push(i);
        for (end, direction) in [(&step.from, Direction::Out), (&step.to, Direction::In)] {
            // a latency has no direction
            let directions =
                if step.probe.is_both_ways() { vec![Direction::Both] } else { vec![Direction::Both, direction] };
            let several = nics.get(&end.node).is_some_and(|nics| nics.len() > 1);
            for direction in directions {
                if several || end.nic.is_none() {
                    add(Place::Node(end.node), direction);
                }
                if let Some(nic) = &end.nic {
                    add(Place::Nic(end.node, nic.clone()), direction);
                }
            }
        }
        for name in &all[i].through {
            add(Place::Switch(name.clone()), Direction::Both);
        }
        let (a, b) = if step.from <= step.to { (&step.from, &step.to) } else { (&step.to, &step.from) };
        add(Place::Path(a.clone(), b.clone()), Direction::Both);
        if !step.probe.is_both_ways() {
            add(Place::Path(step.from.clone(), step.to.clone()), Direction::Out);
        }
    }
    // a path that was measured one way only is that direction's
    let one_way = |((place, direction), values): &((Place, Direction), Vec<usize>)| {
        let Place::Path(..) = place else { return false };
        *direction == Direction::Both
            && !all[values[0]].step.probe.is_both_ways()
            && values.iter().all(|i| all[*i].step.from == all[values[0]].step.from)
    };
    let all: Vec<_> = found.into_iter().filter(|candidate| !one_way(candidate)).collect();
    all.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::super::schedule::step;
    use super::super::{Memory, Method, Nic, Node, NodePlan, Transport, Wanted};
    use super::*;
    use peerlane_machine::random::Random;

    fn steps(nodes: usize, nics: usize, all_pairs: bool) -> Vec<Step> {
        let nic = |n| Nic { name: format!("mlx5_{n}"), ..Nic::default() };
        let node = |n| Node { host: format!("node{n}"), nics: (0..nics).map(nic).collect(), ..Node::default() };
        let nodes: Vec<Node> = (0..nodes).map(node).collect();
        let wanted = Wanted { transports: vec![Transport::Verbs], all_pairs, ..Wanted::default() };
        let rounds = NodePlan::of(&nodes, &wanted, Method::default()).unwrap().rounds_of(&nodes).concat();
        rounds.into_iter().filter(|step| step.probe == Probe::Write).collect()
    }

    /// What is found where `share` is what each step keeps of 50 GB/s, with 1 % of noise.
    fn found(steps: &[Step], of: usize, share: impl Fn(&Step) -> f64) -> Vec<(Place, Direction, f64)> {
        let mut random = Random::from_seed(7);
        let values: Vec<Compared> = steps
            .iter()
            .map(|step| {
                let value = 50e9 * share(step) * (1.0 + 0.01 * random.normal());
                Compared { step, value, expected: None, beside: None, width: 0.0, through: Vec::new() }
            })
            .collect();
        suspects(&values, of).into_iter().map(|s| (s.place, s.direction, s.left)).collect()
    }

    #[test]
    fn nothing_is_found_where_nothing_is_wrong() {
        for (nodes, nics) in [(2, 1), (3, 1), (4, 2), (16, 1), (100, 2)] {
            assert_eq!(found(&steps(nodes, nics, false), nodes, |_| 1.0), [], "{nodes} {nics}");
        }
    }

    #[test]
    fn a_slow_node_is_told_from_its_partners() {
        for nodes in [3, 4, 8, 33, 200] {
            let slow = |s: &Step| if [s.from.node, s.to.node].contains(&1) { 0.6 } else { 1.0 };
            let found = found(&steps(nodes, 2, false), nodes, slow);
            let [(Place::Node(1), Direction::Both, left)] = &found[..] else { panic!("{nodes}: {found:?}") };
            assert!((left - 0.6).abs() < 0.02, "{left}");
        }
    }

    #[test]
    fn a_nic_a_direction_and_a_path_are_told_apart() {
        let steps = steps(32, 4, false);
        let nic = |end: &End, node: usize| end.node == node && end.nic.as_deref() == Some("mlx5_2");
        let path = steps.iter().find(|s| s.from.node == 20 && nic(&s.from, 20) && s.to.node != 20).unwrap();
        let share = |s: &Step| {
            let slow_nic = if nic(&s.from, 3) || nic(&s.to, 3) { 0.9 } else { 1.0 };
            let receives = if nic(&s.to, 11) { 0.5 } else { 1.0 };
            let on_path = if s == path { 0.4 } else { 1.0 };
            slow_nic * receives * on_path
        };
        let found = found(&steps, 32, share);
        let has = |place: Place, direction| found.iter().any(|(p, d, _)| *p == place && *d == direction);
        assert!(has(Place::Nic(3, "mlx5_2".to_owned()), Direction::Both), "{found:?}");
        assert!(has(Place::Nic(11, "mlx5_2".to_owned()), Direction::In), "{found:?}");
        assert!(has(Place::Path(path.from.clone(), path.to.clone()), Direction::Out), "{found:?}");
        assert_eq!(found.len(), 3, "{found:?}");
    }

    #[test]
    fn a_switch_is_blamed_before_the_nodes_behind_it() {
        let steps = steps(64, 1, false);
        let leaf = |end: &End| format!("leaf{}", end.node / 16);
        let values: Vec<Compared> = steps
            .iter()
            .filter(|s| !s.is_loopback())
            .map(|step| {
                let mut through = vec![leaf(&step.from), leaf(&step.to)];
                through.dedup();
                let value = if through.contains(&"leaf2".to_owned()) { 40e9 } else { 50e9 };
                Compared { step, value, expected: Some(50e9), beside: None, width: 0.0, through }
            })
            .collect();
        let found = suspects(&values, 64);
        assert_eq!(found.len(), 1, "{found:?}");
        assert_eq!(found[0].place, Place::Switch("leaf2".to_owned()));
    }

    #[test]
    fn latencies_have_no_direction() {
        let ends = |node| End { node, nic: None, memory: Memory::Host };
        let pairs = [(0, 1), (0, 2), (1, 2), (0, 3), (1, 3), (2, 3)];
        let steps: Vec<Step> = pairs.map(|(a, b)| step(Transport::Tcp, true, &ends(a), &ends(b))).into();
        let values: Vec<Compared> = steps
            .iter()
            .map(|step| {
                let value = if step.to.node == 3 { 9e-6 } else { 3e-6 };
                Compared { step, value, expected: None, beside: None, width: 0.0, through: Vec::new() }
            })
            .collect();
        let found = suspects(&values, 4);
        assert_eq!(
            found.iter().map(|s| (&s.place, s.direction)).collect::<Vec<_>>(),
            [(&Place::Node(3), Direction::Both)]
        );
    }
}
