//! What a report names once and refers to by index: sentences, ways and places of evidence.

use std::collections::HashMap;

use peerlane::evidence::{Engine, Operation, Origin};
use peerlane::fabric::{Fabric, Link, LinkId, NodeId, NodeKind};
use peerlane::model::{Model, PeerAccess, Transfer};

use super::document::{EvidenceView, HopView, PathView};
use crate::commands::explain::reason;

/// The most devices whose ways are all shown, hop by hop: more than any machine has.
pub(super) const MOST_DEVICES: usize = 64;

/// The tables of one machine.
pub(super) struct Tables<'a> {
    pub(super) model: &'a Model<'a>,
    pub(super) words: Vec<String>,
    pub(super) paths: Vec<PathView>,
    pub(super) evidence: Vec<EvidenceView>,
    word_at: HashMap<String, usize>,
    path_at: HashMap<Transfer, Option<usize>>,
    evidence_at: HashMap<String, usize>,
    link_at: HashMap<(NodeId, NodeId), LinkId>,
}

impl<'a> Tables<'a> {
    pub(super) fn new(model: &'a Model<'a>) -> Self {
        let fabric = &model.machine.fabric;
        let mut link_at = HashMap::new();
        for id in fabric.link_ids() {
            let Link { a, b, .. } = *fabric.link(id);
            link_at.entry((a, b)).or_insert(id);
            link_at.entry((b, a)).or_insert(id);
        }
        Tables {
            model,
            words: Vec::new(),
            paths: Vec::new(),
            evidence: Vec::new(),
            word_at: HashMap::new(),
            path_at: HashMap::new(),
            evidence_at: HashMap::new(),
            link_at,
        }
    }

    pub(super) fn fabric(&self) -> &'a Fabric {
        &self.model.machine.fabric
    }

    /// A sentence.
    pub(super) fn word(&mut self, text: &str) -> usize {
        if let Some(at) = self.word_at.get(text) {
            return *at;
        }
        self.words.push(text.to_owned());
        self.word_at.insert(text.to_owned(), self.words.len() - 1);
        self.words.len() - 1
    }

    /// A place where something stands.
    pub(super) fn source(&mut self, place: &str) -> usize {
        if let Some(at) = self.evidence_at.get(place) {
            return *at;
        }
        self.evidence.push(EvidenceView { place: place.to_owned(), tells: Vec::new() });
        self.evidence_at.insert(place.to_owned(), self.evidence.len() - 1);
        self.evidence.len() - 1
    }

    pub(super) fn sources(&mut self, origins: &[Origin]) -> Vec<usize> {
        origins.iter().map(|origin| self.source(&origin.to_string())).collect()
    }

    /// Notes what stands at a place.
    pub(super) fn tells(&mut self, place: usize, what: &str) {
        if let Some(view) = self.evidence.get_mut(place)
            && !view.tells.iter().any(|t| t == what)
        {
            view.tells.push(what.to_owned());
        }
    }

    /// The way of a transfer; `None` where no way is known.
    pub(super) fn path(&mut self, transfer: Transfer) -> Option<usize> {
        if let Some(at) = self.path_at.get(&transfer) {
            return *at;
        }
        let at = self.describe(&transfer).map(|path| {
            // what only the driver of a copy tells apart goes the same way
            self.paths.iter().rposition(|known| *known == path).unwrap_or_else(|| {
                self.paths.push(path);
                self.paths.len() - 1
            })
        });
        self.path_at.insert(transfer, at);
        at
    }

    /// The way between two devices as the class matrix means it.
    pub(super) fn path_between(&mut self, source: NodeId, destination: NodeId) -> Option<usize> {
        let kind = |id| self.fabric().node(id).kind;
        let nic = kind(source) == NodeKind::Nic || kind(destination) == NodeKind::Nic;
        let engine = if nic { Engine::Nic } else { Engine::Ce };
        self.path(Transfer { source, destination, engine, op: Operation::Write, peer: PeerAccess::Enabled })
    }

    fn describe(&mut self, transfer: &Transfer) -> Option<PathView> {
        let Ok(route) = self.model.route(transfer) else {
            let path = self.fabric().path(transfer.source, transfer.destination)?;
            let hop = |h: &peerlane::fabric::Hop| HopView {
                from: h.from.index(),
                to: h.to.index(),
                link: Some(h.link.index()),
                limit: None,
                why: None,
                tightest: false,
            };
            let hops = path.hops.iter().map(hop).collect();
            return Some(PathView { class: Some(path.class), staged: None, because: None, hops });
        };
        let tightest = route.hops.iter().filter_map(|h| h.limit).map(|l| l.gb()).fold(f64::INFINITY, f64::min);
        let because = route.staged_because.as_deref().map(|why| self.word(why));
        let mut hops = Vec::new();
        for h in &route.hops {
            let why = reason(h.limit.map(|l| l.gb()), &h.why).to_owned();
            hops.push(HopView {
                from: h.from.index(),
                to: h.to.index(),
                link: self.link_at.get(&(h.from, h.to)).map(|id| id.index()),
                limit: h.limit.map(|l| short(l.gb())),
                why: (!why.is_empty()).then(|| self.word(&why)),
                tightest: h.limit.is_some_and(|l| l.gb() <= tightest * 1.001),
            });
        }
        Some(PathView { class: Some(route.class), staged: Some(route.staged), because, hops })
    }
}

/// A number with six digits: more than any measurement has.
pub(super) fn short(value: f64) -> f64 {
    format!("{value:.5e}").parse().unwrap_or(value)
}

/// A grid of numbers, each with six digits.
pub(super) fn short_grid(values: &[Vec<Option<f64>>]) -> Vec<Vec<Option<f64>>> {
    values.iter().map(|row| row.iter().map(|v| v.filter(|v| v.is_finite()).map(short)).collect()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use peerlane::catalogue::{self, Parts};

    #[test]
    fn ways_are_told_once_and_lead_from_end_to_end() {
        let machine = catalogue::system("exxact-devbox").unwrap().unwrap();
        let model = Model::new(&machine, Parts::embedded());
        let mut tables = Tables::new(&model);
        let id = |name: &str| machine.fabric.find(name).unwrap();
        let there = tables.path_between(id("GPU0"), id("GPU2")).unwrap();
        assert_eq!(tables.path_between(id("GPU0"), id("GPU2")), Some(there));
        let path = tables.paths[there].clone();
        let names: Vec<&str> = path.hops.iter().map(|h| machine.fabric.nodes()[h.to].name.as_str()).collect();
        assert_eq!(names, ["plx0", "rc0", "plx1", "GPU2"]);
        assert!(path.hops.iter().all(|h| h.link.is_some() && h.limit.is_some()));
        assert_eq!(path.hops.iter().map(|h| h.tightest).collect::<Vec<_>>(), [false, false, true, true]);
        assert!(tables.words[path.hops[2].why.unwrap()].contains("64-byte"), "{:?}", tables.words);
        assert_ne!(tables.path_between(id("GPU2"), id("GPU0")), Some(there));
    }

    #[test]
    fn six_digits() {
        assert_eq!((short(12.345_678_9), short(0.0), short(1e-9)), (12.3457, 0.0, 1e-9));
    }
}
