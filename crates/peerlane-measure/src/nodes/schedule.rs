//! The rounds of a measurement between nodes, and how long they take at most.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::pairings::{Round, shifts, tournament};
use super::{End, Method, Node, Probe, Step, Transport};
use peerlane_machine::units::{Bytes, Seconds};

/// Up to so many nodes, all pairs take no longer than shifts.
const FEW: usize = 8;

/// A message of a rate: long enough that its start does not count.
const LARGE: Bytes = Bytes::from_mib(1);

/// A message of a latency.
const SMALL: Bytes = Bytes(8);

/// Streams of TCP, since one is bound by a core.
const STREAMS: u32 = 4;

/// What a round takes besides its samples: the orders to the agents, connecting, verifying.
const SETTING_UP: Seconds = Seconds::new(0.3);

/// The most rounds in which suspects are measured again, of each rail.
pub(super) const AGAIN: usize = 8;

/// Nodes that may be lost, each in a round that takes all of [`Method::longest`], before time is short.
const LOSSES: f64 = 3.0;

/// By how much an agent may be silent for longer than a round may take: one that is slow, as on a loaded machine, costs its
/// steps, and only one that is gone all that come after.
const SILENCE: f64 = 2.0;

/// The shortest silence that loses a node: several of the signs of life that agents give.
const LEAST_SILENCE: f64 = 4.0;

/// The part of a short budget that patience may take, all of it together.
const WAITING: f64 = 1.0 / 3.0;

/// The longest patience that a long budget gives: slow machines need more than the usual one, and what hangs costs all of it.
const LONGEST_PATIENCE: f64 = 30.0;

/// The shortest time for the samples of a round.
const SHORTEST: Seconds = Seconds::new(0.02);

/// What is requested.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Wanted {
    /// Only this transport; all that the nodes have where it is absent.
    pub transport: Option<Transport>,
    /// Every pair, both ways.
    pub all_pairs: bool,
    /// The most time for everything.
    pub budget: Option<Seconds>,
    /// The most time for a round; what the budget leaves for it where it is absent.
    pub patience: Option<Seconds>,
    /// The longest silence of an agent; twice the time for a round where it is absent.
    pub silence: Option<Seconds>,
}

/// Why there is nothing to measure.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum NodePlanError {
    /// One node, or none.
    #[error("measuring between nodes needs two nodes or more, and there {}", if *.0 == 1 { "is 1" } else { "are none" })]
    TooFew(usize),
    /// No two nodes have NICs for verbs.
    #[error("no two nodes have a NIC that verbs can open{0}; use --transport tcp")]
    NoVerbs(String),
    /// The budget is too short.
    #[error("{rounds} rounds take at least {least:.0} s; allow that with --budget, or leave out --all-pairs", least = .least.seconds())]
    Budget {
        /// Rounds.
        rounds: usize,
        /// What they take.
        least: Seconds,
    },
}

/// What is measured between nodes: the same for the same nodes, so that the record needs not list it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct NodePlan {
    /// The transports, in order.
    pub transports: Vec<Transport>,
    /// Whether every pair is measured, both ways; else partners at distances of powers of two.
    pub all_pairs: bool,
    /// How each round is measured.
    pub method: Method,
    /// Rounds, but for those in which suspects are measured again.
    pub rounds: usize,
    /// The most rounds in which suspects are measured again.
    pub again: usize,
    /// The longest that all of it takes, whatever happens.
    pub bound: Seconds,
}

impl NodePlan {
    /// The plan for some nodes.
    ///
    /// # Errors
    /// With fewer than two nodes, without NICs for requested verbs, or with a budget that is too short.
    pub fn of(nodes: &[Node], wanted: &Wanted, method: Method) -> Result<Self, NodePlanError> {
        if nodes.len() < 2 {
            return Err(NodePlanError::TooFew(nodes.len()));
        }
        let joins = |transport: &Transport| rails(nodes, *transport).iter().any(|rail| rail.len() > 1);
        let of_both = [Transport::Tcp, Transport::Verbs].into_iter();
        let transports: Vec<Transport> =
            of_both.filter(|t| wanted.transport.is_none_or(|only| only == *t) && joins(t)).collect();
        if transports.is_empty() {
            let why = nodes.iter().flat_map(|node| &node.notes).next();
            return Err(NodePlanError::NoVerbs(why.map_or_else(String::new, |why| format!(" ({why})"))));
        }
        let all_pairs = wanted.all_pairs || nodes.len() <= FEW;
        let unbounded = Seconds::new(0.0);
        let mut plan = NodePlan { transports, all_pairs, method, rounds: 0, again: 0, bound: unbounded };
        plan.rounds = plan.rounds_of(nodes).len();
        plan.again = AGAIN * plan.transports.iter().map(|t| rails(nodes, *t).len()).sum::<usize>();
        plan.method.patience = wanted.patience.unwrap_or(method.patience);
        // a round begins only where there is time for it to hang, and for nodes to be lost
        let hung = |plan: &NodePlan| (1.0 + LOSSES) * plan.method.longest().seconds();
        let silence = |patience: Seconds| {
            wanted.silence.unwrap_or_else(|| Seconds::new((SILENCE * patience.seconds()).max(LEAST_SILENCE)))
        };
        plan.method.silence = silence(plan.method.patience);
        let Some(budget) = wanted.budget else {
            plan.bound = Seconds::new((plan.rounds + plan.again) as f64 * plan.round_time() + hung(&plan));
            return Ok(plan);
        };
        let rounds = (plan.rounds + plan.again) as f64;
        if wanted.patience.is_none() {
            // without a given silence, what the losses take of it is that
            let each = if wanted.silence.is_none() { SILENCE } else { 1.0 };
            let left = (budget.seconds() - rounds * plan.round_time()) / ((1.0 + LOSSES) * each);
            let usual = method.patience.seconds();
            let short = usual.min(WAITING * budget.seconds() / ((1.0 + LOSSES) * each));
            plan.method.patience = Seconds::new(if left > usual { left.min(LONGEST_PATIENCE) } else { short });
            plan.method.silence = silence(plan.method.patience);
        }
        let each = (budget.seconds() - hung(&plan)) / rounds - SETTING_UP.seconds();
        if each < SHORTEST.seconds() {
            let least = rounds * (SHORTEST.seconds() + SETTING_UP.seconds());
            // below that, silence is as short as it can be, or as it was given
            let least =
                wanted.patience.map_or((least / (1.0 - WAITING)).max(least + hung(&plan)), |_| least + hung(&plan));
            return Err(NodePlanError::Budget { rounds: plan.rounds + plan.again, least: Seconds::new(least) });
        }
        plan.method.time = Seconds::new(method.time.seconds().min(each));
        // all of it: what is left over is for rounds that take longer than they usually do
        plan.bound = budget;
        Ok(plan)
    }

    /// How long it takes where no part is suspected.
    pub fn usual(&self) -> Seconds {
        Seconds::new(self.rounds as f64 * self.round_time())
    }

    fn round_time(&self) -> f64 {
        self.method.time.seconds() + SETTING_UP.seconds()
    }

    /// The rounds for the nodes that the plan was made for: of each transport and rail loopback, latency, rate.
    pub fn rounds_of(&self, nodes: &[Node]) -> Vec<Vec<Step>> {
        let mut rounds = Vec::new();
        for &transport in &self.transports {
            for rail in rails(nodes, transport) {
                rounds.push(rail.iter().map(|end| step(transport, false, end, end)).collect());
                let pairings = if self.all_pairs { tournament(rail.len()) } else { shifts(rail.len()) };
                let steps = |latency: bool, pairs: &Round| {
                    pairs.iter().map(|(a, b)| step(transport, latency, &rail[*a], &rail[*b])).collect::<Vec<_>>()
                };
                rounds.extend(once(&pairings).iter().map(|pairs| steps(true, pairs)));
                for pairs in &pairings {
                    rounds.push(steps(false, pairs));
                    if self.all_pairs {
                        rounds.push(steps(false, &pairs.iter().map(|(a, b)| (*b, *a)).collect()));
                    }
                }
            }
        }
        rounds.retain(|steps| !steps.is_empty());
        rounds
    }
}

/// Rounds without those pairs that come in the other direction, too: a latency is the same both ways.
fn once(rounds: &[Round]) -> Vec<Round> {
    let mut known = std::collections::HashSet::new();
    let mut new = |(a, b): &(usize, usize)| known.insert((*a.min(b), *a.max(b)));
    let rounds = rounds.iter().map(|round| round.iter().copied().filter(|pair| new(pair)).collect());
    rounds.filter(|round: &Round| !round.is_empty()).collect()
}

/// The ends that measure each other: of TCP all nodes, of verbs each node's first NIC, second NIC and so on.
pub(super) fn rails(nodes: &[Node], transport: Transport) -> Vec<Vec<End>> {
    let indexed = || nodes.iter().enumerate();
    if transport == Transport::Tcp {
        return vec![indexed().map(|(node, _)| End { node, nic: None, memory: "host".to_owned() }).collect()];
    }
    let most = nodes.iter().map(|node| node.nics.len()).max().unwrap_or(0);
    let rail = |rail: usize| {
        let end = |(node, of): (usize, &Node)| {
            let nic = of.nics.get(rail)?;
            Some(End { node, nic: Some(nic.name.clone()), memory: nic.memory.clone() })
        };
        indexed().filter_map(end).collect()
    };
    (0..most).map(rail).collect()
}

/// The step that measures the latency or the rate from one end to another.
pub(super) fn step(transport: Transport, latency: bool, from: &End, to: &End) -> Step {
    let (probe, size) = match (latency, transport) {
        (true, _) => (Probe::Latency, SMALL),
        (false, Transport::Tcp) => (Probe::Send, LARGE),
        (false, Transport::Verbs) => (Probe::Write, LARGE),
    };
    let queue_pairs = if transport == Transport::Tcp && !latency { STREAMS } else { 1 };
    Step { from: from.clone(), to: to.clone(), transport, probe, size, queue_pairs }
}

#[cfg(test)]
mod tests {
    use super::super::Nic;
    use super::*;
    use std::collections::{BTreeSet, HashSet};

    fn node(host: usize, nics: usize) -> Node {
        let nic = |n| Nic { name: format!("mlx5_{n}"), memory: format!("host{}", n / 2), ..Nic::default() };
        Node {
            host: format!("node{host}"),
            nics: (0..nics).map(nic).collect(),
            evidence: Vec::new(),
            notes: Vec::new(),
        }
    }

    fn nodes(nics: &[usize]) -> Vec<Node> {
        nics.iter().enumerate().map(|(i, n)| node(i, *n)).collect()
    }

    #[test]
    fn no_end_is_twice_in_a_round_and_every_node_has_partners() {
        for (nodes, all_pairs) in
            [(nodes(&[0, 0]), false), (nodes(&[2; 3]), false), (nodes(&[4; 33]), false), (nodes(&[2, 0, 1, 2]), true)]
        {
            let wanted = Wanted { all_pairs, ..Wanted::default() };
            let plan = NodePlan::of(&nodes, &wanted, Method::default()).unwrap();
            let rounds = plan.rounds_of(&nodes);
            assert_eq!(rounds.len(), plan.rounds);
            let mut steps = HashSet::new();
            for round in &rounds {
                let ends =
                    round.iter().flat_map(|s| if s.is_loopback() { vec![&s.from] } else { vec![&s.from, &s.to] });
                let ends: Vec<_> = ends.collect();
                assert_eq!(ends.iter().collect::<BTreeSet<_>>().len(), ends.len());
                assert!(round.iter().all(|step| steps.insert(step.clone())), "a step comes twice");
            }
            for (node, of) in nodes.iter().enumerate() {
                for transport in [Transport::Tcp, Transport::Verbs] {
                    let across = |s: &&Step| s.transport == transport && !s.is_loopback();
                    let sends = steps.iter().filter(across).any(|s| s.from.node == node && s.probe != Probe::Latency);
                    let receives = steps.iter().filter(across).any(|s| s.to.node == node && s.probe != Probe::Latency);
                    let expected = transport == Transport::Tcp || !of.nics.is_empty();
                    assert_eq!((sends, receives), (expected, expected), "{node} {transport}");
                }
            }
        }
    }

    #[test]
    fn budgets_hold_or_are_refused() {
        let nodes = nodes(&[1; 100]);
        let of = |budget: f64| {
            let wanted = Wanted { budget: Some(Seconds::new(budget)), ..Wanted::default() };
            NodePlan::of(&nodes, &wanted, Method::default())
        };
        let usual = NodePlan::of(&nodes, &Wanted::default(), Method::default()).unwrap();
        for budget in [45.0, 60.0, 1000.0] {
            let plan = of(budget).unwrap();
            assert_eq!(plan.bound.seconds(), budget, "{plan:?}");
            assert!(plan.method.patience.seconds() > plan.method.time.seconds());
            let all = (plan.rounds + plan.again) as f64 * plan.round_time();
            assert!(all + (1.0 + LOSSES) * plan.method.longest().seconds() <= budget + 1e-9, "{plan:?}");
            let silence = (2.0 * plan.method.patience.seconds()).max(4.0);
            assert!((plan.method.silence.seconds() - silence).abs() < 1e-9, "{plan:?}");
        }
        // what a slow machine needs: the same samples, and the rest of the budget to take them
        let (long, usual) = (of(1000.0).unwrap().method, usual.method);
        assert_eq!((long.time, long.patience.seconds()), (usual.time, LONGEST_PATIENCE));
        let refused = of(5.0).unwrap_err().to_string();
        assert!(refused.contains("--budget"), "{refused}");
        // a silence that is given is kept, and counted
        let silence = Some(Seconds::new(60.0));
        let wanted = Wanted { silence, ..Wanted::default() };
        let plan = NodePlan::of(&nodes, &wanted, Method::default()).unwrap();
        let rounds = (plan.rounds + plan.again) as f64 * plan.round_time();
        assert_eq!((Some(plan.method.silence), plan.bound.seconds()), (silence, rounds + 240.0));
        let short = Wanted { budget: Some(Seconds::new(60.0)), ..wanted };
        let refused = NodePlan::of(&nodes, &short, Method::default()).unwrap_err();
        let NodePlanError::Budget { least, .. } = refused else { panic!("{refused}") };
        let enough = Wanted { budget: Some(Seconds::new(least.seconds() + 1.0)), ..short };
        assert!(NodePlan::of(&nodes, &enough, Method::default()).is_ok(), "{refused}");
    }

    #[test]
    fn what_cannot_be_measured_is_refused_in_words() {
        let of = |nodes: &[Node], transport| {
            let wanted = Wanted { transport, ..Wanted::default() };
            NodePlan::of(nodes, &wanted, Method::default()).map(|plan| plan.transports).map_err(|e| e.to_string())
        };
        let lone = "measuring between nodes needs two nodes or more, and there is 1";
        assert_eq!(of(&nodes(&[1]), None).unwrap_err(), lone);
        let mut without = nodes(&[0, 0]);
        without[0].notes.push("libibverbs.so.1 is not installed".to_owned());
        let why = "no two nodes have a NIC that verbs can open (libibverbs.so.1 is not installed); use --transport tcp";
        assert_eq!(of(&without, Some(Transport::Verbs)).unwrap_err(), why);
        assert_eq!(of(&without, None), Ok(vec![Transport::Tcp]));
        assert_eq!(of(&nodes(&[1, 1]), None), Ok(vec![Transport::Tcp, Transport::Verbs]));
    }
}
