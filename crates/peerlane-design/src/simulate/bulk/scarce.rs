//! Which resources a round asks for more than they have, where every transfer goes at the rate that it has by itself.

use std::collections::HashMap;

use super::{Count, Flow, LocalLeg, NONE, OVER};
use crate::simulate::mix::mixed;
use peerlane_model::solve::{Attended, Resource, Turns};

/// Nodes of one class have transfers of the same legs and rates at them, so that as much is asked of each.
pub(super) struct Classes {
    /// By node.
    pub(super) of: Vec<u32>,
    /// By class: the first node, which stands for all.
    pub(super) first: Vec<u32>,
}

/// Resources of which more is asked than they have.
pub(super) struct Scarce {
    pub(super) classes: Classes,
    /// By `class of node × local resources + local resource`: whether it is used, and more is asked of it.
    pub(super) over: Vec<bool>,
    /// By `node × local resources + local resource`; [`NONE`] where there is enough. Empty until [`Count::number`].
    pub(super) locals: Vec<u32>,
    pub(super) channels: HashMap<u64, u32>,
    /// Where several transfers are attended to in turn: numbers of resources without end.
    pub(super) attended: HashMap<u64, u32>,
    pub(super) resources: Vec<Resource>,
}

impl Scarce {
    fn add(&mut self, resource: Resource) -> u32 {
        self.resources.push(resource);
        self.resources.len() as u32 - 1
    }

    pub(super) fn is_nothing(&self) -> bool {
        self.resources.is_empty() && !self.over.contains(&true)
    }
}

/// Turns at the places of this node.
pub(super) fn turns_at(node: u32, turns: Turns) -> Option<Turns> {
    let at = |place: u64| place.checked_add(u64::from(node) << 32);
    let [a, b] = turns.places;
    Some(Turns { places: [at(a)?, at(b)?], ..turns })
}

impl Count<'_, '_> {
    /// The legs at nodes that stand for their class, each with the class and its transfer.
    pub(super) fn at_first<'c>(&'c self, classes: &'c Classes) -> impl Iterator<Item = (&'c Flow, u32, &'c LocalLeg)> {
        let all = self.flows.iter().flat_map(|f| self.legs(f).map(move |(node, leg)| (f, node, leg)));
        all.filter_map(|(flow, node, leg)| {
            let class = classes.of[node as usize];
            (classes.first[class as usize] == node).then_some((flow, class, leg))
        })
    }

    /// Nodes by what legs are at them, at which rates.
    fn classes(&self) -> Classes {
        let nodes = self.flows.iter().flat_map(|f| f.legs).map(|(node, _)| node as usize + 1).max().unwrap_or(0);
        let mut marks = vec![0_u64; nodes];
        for flow in &self.flows {
            for (node, leg) in flow.legs.into_iter().filter(|(_, leg)| *leg != NONE) {
                let mark = &mut marks[node as usize];
                *mark = mark.wrapping_add(mixed(mixed(flow.lone.to_bits()) ^ u64::from(leg)));
            }
        }
        let mut known: HashMap<u64, u32> = HashMap::new();
        let mut first = Vec::new();
        let class = |(node, mark): (u32, &u64)| {
            *known.entry(*mark).or_insert_with(|| {
                first.push(node);
                first.len() as u32 - 1
            })
        };
        let of = (0..).zip(&marks).map(class).collect();
        Classes { of, first }
    }

    /// What more is asked of than it has where every transfer goes at the rate that it has by itself.
    pub(super) fn scarce(&self) -> Scarce {
        let classes = self.classes();
        let mut asked = vec![0.0_f64; classes.first.len() * self.kinds.len()];
        let mut used = vec![false; asked.len()];
        for (flow, class, leg) in self.at_first(&classes) {
            for (kind, per_byte) in leg.uses.iter().chain(&leg.burdens) {
                asked[self.place(class, *kind)] += per_byte * flow.lone;
            }
            leg.uses.iter().for_each(|(kind, _)| used[self.place(class, *kind)] = true);
        }
        let mut over: Vec<bool> =
            asked.iter().enumerate().map(|(place, asked)| *asked > self.capacity(place) * (1.0 + OVER)).collect();
        self.add_queues(&classes, &asked, &mut over);
        // what is only burdened holds nobody
        over.iter_mut().zip(used).for_each(|(over, used)| *over &= used);
        let (locals, channels, attended) = (Vec::new(), HashMap::new(), HashMap::new());
        let mut scarce = Scarce { classes, over, locals, channels, attended, resources: Vec::new() };
        self.add_channels(&mut scarce);
        self.add_attended(&mut scarce);
        scarce
    }

    /// Numbers the scarce resources of all nodes.
    pub(super) fn number(&self, scarce: &mut Scarce) {
        scarce.locals = vec![NONE; scarce.classes.of.len() * self.kinds.len()];
        for (node, leg) in self.flows.iter().flat_map(|flow| self.legs(flow)) {
            for (kind, _) in &leg.uses {
                let place = self.place(node, *kind);
                if scarce.locals[place] == NONE && scarce.over[self.place(scarce.classes.of[node as usize], *kind)] {
                    scarce.locals[place] = scarce.add(self.kinds[*kind as usize].resource);
                }
            }
        }
    }

    /// Marks channels of which more is asked than they have.
    fn add_channels(&self, scarce: &mut Scarce) {
        let mut all: Vec<(u64, f64)> = Vec::with_capacity(self.channels.len());
        // the first channels of all transfers, then the second ones …: long runs in order, which the sort makes use of
        for position in 0.. {
            let before = all.len();
            let at = |i: usize| {
                Some((*self.channels(i).get(position)?, self.flows[i].lone / f64::from(self.flows[i].parts)))
            };
            all.extend((0..self.flows.len()).filter_map(at));
            if all.len() == before {
                break;
            }
        }
        all.sort_by_key(|(channel, _)| *channel);
        // one alone has no more than a channel gives
        for same in all.chunk_by(|a, b| a.0 == b.0).filter(|same| same.len() > 1) {
            let asked: f64 = same.iter().map(|(_, rate)| rate).sum();
            let kind = self.channel_kinds.get(&self.router.channel_kind(same[0].0));
            let resource = kind.map_or(Resource::of(f64::INFINITY), |kind| self.kinds[*kind as usize].resource);
            if asked > resource.capacity * (1.0 + OVER) {
                let number = scarce.add(resource);
                scarce.channels.insert(same[0].0, number);
            }
        }
    }

    /// Marks windows that do not hold all requests on their way while these wait as long as all cause together, and what
    /// they wait for.
    fn add_queues(&self, classes: &Classes, asked: &[f64], over: &mut [bool]) {
        if self.legs.iter().all(|leg| leg.waits.is_empty()) {
            return;
        }
        let mut windows: HashMap<usize, f64> = HashMap::new();
        for (flow, class, leg) in self.at_first(classes) {
            for &(server, window, per_ns) in &leg.waits {
                let server = self.place(class, server);
                let resource = self.kinds[server % self.kinds.len()].resource;
                let waited = resource.wait(asked[server] / resource.capacity);
                *windows.entry(self.place(class, window)).or_insert(0.0) += per_ns * waited * flow.lone;
            }
        }
        for (window, more) in windows {
            over[window] |= asked[window] + more > self.capacity(window) * (1.0 + OVER);
        }
        for (_, class, leg) in self.at_first(classes) {
            for &(server, window, _) in &leg.waits {
                over[self.place(class, server)] |= over[self.place(class, window)];
            }
        }
    }

    /// Marks where transfers that take turns do so beside others.
    fn add_attended(&self, scarce: &mut Scarce) {
        if self.legs.iter().all(|leg| leg.turns.is_none()) {
            return;
        }
        let mut attended = Attended::default();
        let taking =
            || self.flows.iter().flat_map(|f| self.legs(f)).filter_map(|(node, leg)| turns_at(node, leg.turns?));
        taking().for_each(|turns| attended.add(&turns, 1));
        for turns in taking().filter(|turns| attended.beside(turns) > 1) {
            for place in turns.places {
                if !scarce.attended.contains_key(&place) {
                    let number = scarce.add(Resource::of(f64::INFINITY));
                    scarce.attended.insert(place, number);
                }
            }
        }
    }
}
