//! Carries out a plan: its rounds, then suspects again with proven partners, and all-reduces by halves where a node slows them.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use super::pairings::packed;
use super::schedule::{AGAIN, rails, step};
use super::{
    Cell, Compared, Direction, End, Event, Network, NodePlan, Place, Probe, Step, Transport, all_reduces, suspects,
};
use crate::run::FlagKind;
use peerlane_machine::blame::nearly_all;

/// Proven partners that a suspect is measured with again.
const PARTNERS: usize = 3;

/// How long nodes may take to read the counters of their ports, in seconds.
const COUNTING: f64 = 2.0;

/// Carries out a plan; `earlier` are cells of a run that is resumed. `report` is called with everything that happens, and
/// returns false to stop after this round. True where all is answered.
///
/// No round begins that could end after [`NodePlan::bound`]. Steps with a lost node are not tried again.
pub fn execute(
    network: &mut dyn Network,
    plan: &NodePlan,
    earlier: Vec<Cell>,
    report: &mut dyn FnMut(Event) -> bool,
) -> bool {
    let rounds = plan.rounds_of(network.nodes());
    let mut execution = Execution {
        began: network.now().seconds(),
        network,
        plan,
        answered: [false, true].map(|again| steps_of(&earlier, again)),
        cells: earlier,
        lost: 0,
        total: rounds.len(),
        report,
    };
    let complete = execution.all(rounds);
    let used = execution.network.now().seconds() - execution.began;
    let left = (plan.bound.seconds() - used).clamp(0.0, COUNTING);
    let counted = execution.network.port_errors(peerlane_machine::units::Seconds::new(left));
    if !counted.is_empty() {
        (execution.report)(Event::Ports(counted));
    }
    let wall = execution.network.now().seconds() - execution.began;
    (execution.report)(Event::Finished(peerlane_machine::units::Seconds::new(wall), complete));
    complete
}

struct Execution<'a> {
    network: &'a mut dyn Network,
    plan: &'a NodePlan,
    cells: Vec<Cell>,
    /// The steps of `cells`, those that were measured once and those again: kept, because every round asks.
    answered: [HashSet<Step>; 2],
    /// Losses that were reported.
    lost: usize,
    total: usize,
    began: f64,
    report: &'a mut dyn FnMut(Event) -> bool,
}

impl Execution<'_> {
    fn all(&mut self, rounds: Vec<Vec<Step>>) -> bool {
        let first = rounds.len();
        for (index, steps) in rounds.into_iter().enumerate() {
            if !self.round(index, steps, false) {
                return false;
            }
        }
        let again = self.again();
        self.total += again.len();
        let after = first + again.len();
        if !again.into_iter().enumerate().all(|(index, steps)| self.round(first + index, steps, true)) {
            return false;
        }
        self.halve(after);
        true
    }

    /// Where all-reduces are slow from some number of nodes on, those that joined there again by halves, while there is time.
    fn halve(&mut self, mut index: usize) {
        let pairs = self.cells.iter().filter(|cell| cell.step.transport == Transport::Nccl);
        let values: Vec<Compared> = pairs.filter_map(|cell| cell.compared(None, Vec::new())).collect();
        let of_node = |suspect: super::Suspect| match suspect.place {
            Place::Node(node) | Place::Nic(node, _) => Some(node),
            Place::Path(..) | Place::Switch(_) => None,
        };
        let slow: BTreeSet<usize> =
            suspects(&values, self.network.nodes().len()).into_iter().filter_map(of_node).collect();
        while let Some(step) = all_reduces::next(self.network.nodes(), &self.cells, &slow) {
            self.total += 1;
            if !self.round(index, vec![step], true) {
                break;
            }
            index += 1;
        }
    }

    /// Runs what is not answered yet; false where there is no time for it, or the caller wants no more.
    fn round(&mut self, index: usize, mut steps: Vec<Step>, again: bool) -> bool {
        let answered = &self.answered[usize::from(again)];
        steps.retain(|step| !answered.contains(step));
        let lost: HashMap<usize, &str> = self.network.lost().iter().map(|l| (l.node, l.why.as_str())).collect();
        let mut cells = Vec::new();
        steps.retain(|step| {
            let gone = step.nodes().find_map(|node| Some((node, *lost.get(&node)?)));
            let Some((node, why)) = gone else { return true };
            let host = self.network.nodes().get(node).map_or("?", |n| n.host.as_str());
            let failure = crate::measure::Failure::new(FlagKind::Failed, format!("{host} is lost: {why}"));
            cells.push(Cell::of(step.clone(), index, again, Err(failure)));
            false
        });
        if !steps.is_empty() {
            let used = self.network.now().seconds() - self.began;
            let method = self.plan.method_of(&steps);
            if used + method.longest().seconds() > self.plan.bound.seconds() {
                return false;
            }
            if !(self.report)(Event::Round(index, self.total)) {
                return false;
            }
            let mut answers = self.network.round(&steps, &method).into_iter();
            for step in steps {
                let answer = answers.next().unwrap_or_else(|| {
                    Err(crate::measure::Failure::new(FlagKind::Failed, "the network gave no answer to this step"))
                });
                cells.push(Cell::of(step, index, again, answer));
            }
        }
        if cells.is_empty() {
            return true;
        }
        self.answered[usize::from(again)].extend(steps_of(&cells, again));
        self.cells.extend(cells.iter().cloned());
        let lost = self.network.lost();
        if lost.len() != self.lost {
            self.lost = lost.len();
            let lost = lost.to_vec();
            (self.report)(Event::Lost(lost));
        }
        (self.report)(Event::Cells(cells))
    }

    /// Rounds that tell suspects from their partners.
    fn again(&self) -> Vec<Vec<Step>> {
        let mut rounds = Vec::new();
        let lost: HashSet<usize> = self.network.lost().iter().map(|l| l.node).collect();
        let nodes = self.network.nodes();
        for &transport in &self.plan.transports {
            for rail in rails(nodes, transport) {
                let rail: Vec<End> = rail.into_iter().filter(|end| !lost.contains(&end.node)).collect();
                rounds.extend(self.again_on(transport, &rail));
            }
        }
        rounds.truncate(self.plan.again);
        rounds
    }

    fn again_on(&self, transport: Transport, rail: &[End]) -> Vec<Vec<Step>> {
        let places: BTreeMap<&End, usize> = rail.iter().enumerate().map(|(place, end)| (end, place)).collect();
        let of_rail = |cell: &&Cell| {
            let step = &cell.step;
            step.transport == transport
                && !matches!(step.probe, Probe::Latency | Probe::SendStaged)
                && !step.is_among_many()
                && !step.is_of_load()
                && places.contains_key(&step.from)
                && places.contains_key(&step.to)
        };
        let cells: Vec<&Cell> = self.cells.iter().filter(of_rail).filter(|cell| !cell.again).collect();
        let values: Vec<Compared> = cells.iter().filter_map(|cell| cell.compared(None, Vec::new())).collect();
        let mut pairs: Vec<(usize, usize)> = Vec::new();
        let mut suspected: HashSet<usize> = HashSet::new();
        let mut path = |a: &End, b: &End, pairs: &mut Vec<(usize, usize)>| {
            if let (Some(a), Some(b)) = (places.get(a), places.get(b)) {
                suspected.extend([*a, *b]);
                pairs.extend([(*a, *b), (*b, *a)]);
            }
        };
        // a path by itself, so that others of its round do not load the links between switches; its ends are sound with others
        let mut alone: Vec<(usize, usize)> = Vec::new();
        for suspect in suspects(&values, rail.len()) {
            match &suspect.place {
                Place::Path(a, b) => {
                    if let (Some(a), Some(b)) = (places.get(a), places.get(b)) {
                        alone.push((*a, *b));
                        alone.extend((suspect.direction == Direction::Both).then_some((*b, *a)));
                    }
                }
                Place::Node(node) | Place::Nic(node, _) => {
                    if let Some(end) = rail.iter().find(|end| end.node == *node) {
                        path(end, end, &mut pairs);
                    }
                }
                Place::Switch(_) => {}
            }
        }
        // an end that fails with nearly all is the suspect, and its partners are not
        let mut counts: HashMap<(&End, bool), (usize, usize)> = HashMap::new();
        for cell in &cells {
            for role in [(&cell.step.from, true), (&cell.step.to, false)] {
                let (all, bad) = counts.entry(role).or_default();
                (*all, *bad) = (*all + 1, *bad + usize::from(cell.value().is_none()));
            }
        }
        let fails = |end: &End, sends: bool| counts.get(&(end, sends)).is_some_and(|(all, bad)| nearly_all(*bad, *all));
        for Step { from, to, .. } in cells.iter().filter(|cell| cell.value().is_none()).map(|cell| &cell.step) {
            match (fails(from, true), fails(to, false)) {
                (true, false) => path(from, from, &mut pairs),
                (false, true) => path(to, to, &mut pairs),
                _ => path(from, to, &mut pairs),
            }
        }
        let proven: Vec<usize> = (0..rail.len()).filter(|place| !suspected.contains(place)).collect();
        let mut suspected: Vec<usize> = suspected.into_iter().collect();
        suspected.sort_unstable();
        for (nth, suspect) in suspected.into_iter().enumerate() {
            for partner in 0..PARTNERS.min(proven.len()) {
                let at = (nth + partner * proven.len() / PARTNERS) % proven.len();
                pairs.extend([(suspect, proven[at]), (proven[at], suspect)]);
            }
        }
        let mut known = HashSet::new();
        for pairs in [&mut alone, &mut pairs] {
            // a loopback is a pair of one end with itself, which GPU memory has none of
            if rail.iter().any(|end| end.memory.is_device()) {
                pairs.retain(|(a, b)| a != b);
            }
            // what is measured both ways at once is a pair of either order
            if transport == Transport::Nccl {
                pairs.iter_mut().for_each(|(a, b)| (*a, *b) = (*a.min(b), *a.max(b)));
            }
            pairs.retain(|pair| known.insert(*pair));
        }
        let together = packed(pairs);
        alone.truncate(AGAIN - together.len().min(AGAIN / 2));
        let rounds = alone.into_iter().map(|pair| vec![pair]).chain(together);
        rounds
            .take(AGAIN)
            .map(|round| round.into_iter().map(|(a, b)| step(transport, false, &rail[a], &rail[b])).collect())
            .collect()
    }
}

/// The steps of these cells that were measured once, or again.
fn steps_of(cells: &[Cell], again: bool) -> HashSet<Step> {
    cells.iter().filter(|cell| cell.again == again).map(|cell| cell.step.clone()).collect()
}

#[cfg(test)]
mod tests;
