//! What a report lists once and refers to by index: sentences, paths and sources.

use std::collections::{BTreeSet, HashMap};

use peerlane::comparison::Comparison;
use peerlane::fabric::{Fabric, Link, LinkId, NodeId};
use peerlane::machine::Machine;
use peerlane::matrix::Operation;
use peerlane::model::{Model, PeerAccess, Route, Transfer};
use peerlane::origin::Origin;

use super::document::{EvidenceView, HopView, PathView};
use crate::render::label::reason;

/// Limit of devices whose paths are all described hop by hop: more than any machine has.
pub(super) const MOST_DEVICES: usize = 64;

/// The tables of one machine.
pub(super) struct Tables<'a> {
    pub(super) comparison: &'a Comparison<'a>,
    pub(super) model: &'a Model<'a>,
    pub(super) words: Vec<String>,
    pub(super) paths: Vec<PathView>,
    pub(super) hops: Vec<HopView>,
    pub(super) evidence: Vec<EvidenceView>,
    word_at: HashMap<String, usize>,
    path_at: HashMap<Transfer, Option<usize>>,
    hop_at: HashMap<(NodeId, NodeId), Vec<usize>>,
    evidence_at: HashMap<String, usize>,
    link_at: HashMap<(NodeId, NodeId), LinkId>,
    /// Paths of files with the names to show instead, so that a shared page reveals no folders.
    files: Vec<(String, String)>,
}

impl<'a> Tables<'a> {
    pub(super) fn new(comparison: &'a Comparison<'a>) -> Self {
        let model = comparison.model();
        let fabric = &model.machine.fabric;
        let mut link_at = HashMap::new();
        for id in fabric.link_ids() {
            let Link { a, b, .. } = *fabric.link(id);
            link_at.entry((a, b)).or_insert(id);
            link_at.entry((b, a)).or_insert(id);
        }
        Tables {
            comparison,
            model,
            words: Vec::new(),
            paths: Vec::new(),
            hops: Vec::new(),
            evidence: Vec::new(),
            word_at: HashMap::new(),
            path_at: HashMap::new(),
            hop_at: HashMap::new(),
            evidence_at: HashMap::new(),
            link_at,
            files: files(model.machine),
        }
    }

    pub(super) fn fabric(&self) -> &'a Fabric {
        &self.model.machine.fabric
    }

    /// The index of a sentence.
    pub(super) fn word(&mut self, text: &str) -> usize {
        if let Some(at) = self.word_at.get(text) {
            return *at;
        }
        self.words.push(text.to_owned());
        self.word_at.insert(text.to_owned(), self.words.len() - 1);
        self.words.len() - 1
    }

    /// The index of a place in a source.
    pub(super) fn source(&mut self, place: &str) -> usize {
        let place = self.files.iter().fold(place.to_owned(), |place, (path, name)| place.replace(path, name));
        let place = place.as_str();
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

    /// Notes what is stated at a place.
    pub(super) fn tells(&mut self, place: usize, what: &str) {
        if let Some(view) = self.evidence.get_mut(place)
            && !view.tells.iter().any(|t| t == what)
        {
            view.tells.push(what.to_owned());
        }
    }

    /// The path of a transfer; `None` if unknown.
    pub(super) fn path(&mut self, transfer: Transfer) -> Option<usize> {
        if let Some(at) = self.path_at.get(&transfer) {
            return *at;
        }
        let at = self.describe(&transfer).map(|path| {
            // transfers that only differ in the initiator of the copy take the same path
            self.paths.iter().rposition(|known| *known == path).unwrap_or_else(|| {
                self.paths.push(path);
                self.paths.len() - 1
            })
        });
        self.path_at.insert(transfer, at);
        at
    }

    /// The path between two devices in the sense of the class matrix.
    pub(super) fn path_between(&mut self, source: NodeId, destination: NodeId) -> Option<usize> {
        let engine = self.model.engine_between(source, destination);
        self.path(Transfer { source, destination, engine, op: Operation::Write, peer: PeerAccess::Enabled })
    }

    fn describe(&mut self, transfer: &Transfer) -> Option<PathView> {
        let Ok(route) = self.model.route(transfer) else {
            let path = self.fabric().path(transfer.source, transfer.destination)?;
            let hops = path.hops.iter().map(|h| self.hop(h.from, h.to, None, None, "")).collect();
            return Some(PathView { class: Some(path.class), staged: None, because: None, hops, tightest: Vec::new() });
        };
        let limits = || route.hops.iter().map(|h| h.limit.map(|l| l.gb()));
        let least = limits().flatten().fold(f64::INFINITY, f64::min);
        let tight = |(at, limit): (usize, Option<f64>)| limit.is_some_and(|l| l <= least * 1.001).then_some(at);
        let tightest = limits().enumerate().filter_map(tight).collect();
        let because = route.staged_because.map(|why| self.word(&why.to_string()));
        let ends = self.model.ends().map(|model| model.route(transfer).ok());
        let mut hops = Vec::with_capacity(route.hops.len());
        for (at, hop) in route.hops.iter().enumerate() {
            // bounds that take another path do not apply to this hop
            let same = |r: &Route| r.hops.get(at).filter(|h| (h.from, h.to) == (hop.from, hop.to))?.limit;
            let [fast, slow] = [0, 1].map(|end| ends.get(end).and_then(Option::as_ref).and_then(same));
            let range = fast.zip(slow).map(|(a, b)| [short(a.gb().min(b.gb())), short(a.gb().max(b.gb()))]);
            hops.push(self.hop(hop.from, hop.to, hop.limit.map(|l| l.gb()), range, &hop.why));
        }
        Some(PathView { class: Some(route.class), staged: Some(route.staged), because, hops, tightest })
    }

    fn hop(&mut self, from: NodeId, to: NodeId, limit: Option<f64>, range: Option<[f64; 2]>, why: &str) -> usize {
        let why = reason(limit, why).to_owned();
        let hop = HopView {
            from: from.index(),
            to: to.index(),
            link: self.link_at.get(&(from, to)).map(|id| id.index()),
            limit: limit.map(short),
            range: range.filter(|_| limit.is_some()),
            why: (!why.is_empty()).then(|| self.word(&why)),
        };
        let between = self.hop_at.entry((from, to)).or_default();
        if let Some(known) = between.iter().find(|at| self.hops.get(**at) == Some(&hop)) {
            return *known;
        }
        between.push(self.hops.len());
        self.hops.push(hop);
        self.hops.len() - 1
    }
}

/// The paths of all evidence files with their names; files of the same name keep their paths.
fn files(machine: &Machine) -> Vec<(String, String)> {
    let fabric = &machine.fabric;
    let parts = fabric.nodes().iter().map(|n| &n.origins).chain(fabric.links().iter().map(|l| &l.origins)).flatten();
    let numbers = machine.matrices.iter().flat_map(|o| std::iter::once(&o.origin).chain(&o.also));
    let rest = machine.curves.iter().map(|(_, origin)| origin).chain(machine.evidence.iter().map(|e| &e.origin));
    let sources: BTreeSet<&str> = parts.chain(numbers).chain(rest).map(|o| &*o.source).collect();
    let name = |path: &&str| path.rsplit_once('/').map(|(_, name)| name.to_owned()).filter(|name| !name.is_empty());
    let named: Vec<(&str, String)> = sources.into_iter().filter_map(|path| Some((path, name(&path)?))).collect();
    let once = |name: &String| named.iter().filter(|(_, other)| other == name).count() == 1;
    let mut files: Vec<(String, String)> =
        named.iter().filter(|(_, name)| once(name)).map(|(path, name)| ((*path).to_owned(), name.clone())).collect();
    // longest first, so that no path is replaced within another
    files.sort_by_key(|(path, _)| std::cmp::Reverse(path.len()));
    files
}

/// A number with six digits: more than any measurement provides.
pub(super) fn short(value: f64) -> f64 {
    format!("{value:.5e}").parse().unwrap_or(value)
}

/// An end of an interval with five digits.
pub(super) fn bound(value: f64) -> f64 {
    format!("{value:.4e}").parse().unwrap_or(value)
}

/// A grid of them.
pub(super) fn bounds(values: &[Vec<Option<f64>>]) -> Vec<Vec<Option<f64>>> {
    values.iter().map(|row| row.iter().map(|v| v.filter(|v| v.is_finite()).map(bound)).collect()).collect()
}

/// A grid of numbers, each with six digits.
pub(super) fn short_grid(values: &[Vec<Option<f64>>]) -> Vec<Vec<Option<f64>>> {
    values.iter().map(|row| row.iter().map(|v| v.filter(|v| v.is_finite()).map(short)).collect()).collect()
}

/// The link above a node, if it has one.
pub(super) fn above(tables: &Tables, id: NodeId) -> Option<LinkId> {
    tables.fabric().upstream(id).map(|(link, _)| link)
}

#[cfg(test)]
mod tests {
    use super::*;
    use peerlane::catalogue::{self, Parts};

    #[test]
    fn paths_are_listed_once_and_connect_their_ends() {
        let machine = catalogue::system("exxact-devbox").unwrap().unwrap();
        let model = Model::new(&machine, Parts::embedded());
        let comparison = Comparison::of(&model);
        let mut tables = Tables::new(&comparison);
        let id = |name: &str| machine.fabric.find(name).unwrap();
        let there = tables.path_between(id("GPU0"), id("GPU2")).unwrap();
        assert_eq!(tables.path_between(id("GPU0"), id("GPU2")), Some(there));
        let path = tables.paths[there].clone();
        let hops: Vec<HopView> = path.hops.iter().map(|at| tables.hops[*at]).collect();
        let names: Vec<&str> = hops.iter().map(|h| machine.fabric.nodes()[h.to].name.as_str()).collect();
        assert_eq!(names, ["plx0", "rc0", "plx1", "GPU2"]);
        assert!(hops.iter().all(|h| h.link.is_some() && h.limit.is_some()));
        assert_eq!(path.tightest, [2, 3]);
        assert!(tables.words[hops[2].why.unwrap()].contains("64-byte"), "{:?}", tables.words);
        // shared hops are listed once
        let known = tables.hops.len();
        tables.path_between(id("GPU0"), id("GPU3"));
        assert_eq!(tables.hops.len(), known + 1);
        assert_ne!(tables.path_between(id("GPU2"), id("GPU0")), Some(there));
    }

    #[test]
    fn folders_are_hidden_unless_two_files_have_the_same_name() {
        let machine = catalogue::system("dgx-1").unwrap().unwrap();
        let origin = |source: &str| Origin { source: source.into(), tool: "t", lines: None };
        let place = |evidence: &[&str], text: &str| {
            let mut machine = machine.clone();
            let fact = || peerlane::fact::Fact::Gpus(Vec::new());
            machine.evidence = evidence
                .iter()
                .map(|source| peerlane::fact::Evidence { origin: origin(source), fact: fact() })
                .collect();
            let model = Model::new(&machine, Parts::embedded());
            let comparison = Comparison::of(&model);
            let mut tables = Tables::new(&comparison);
            let at = tables.source(text);
            tables.evidence[at].place.clone()
        };
        assert_eq!(place(&["/home/me/topo.txt"], "/home/me/topo.txt:1-9 (t)"), "topo.txt:1-9 (t)");
        let twins = ["/a/topo.txt", "/b/topo.txt"];
        assert_eq!(place(&twins, "/a/topo.txt:1 (t)"), "/a/topo.txt:1 (t)");
    }

    #[test]
    fn six_digits() {
        assert_eq!((short(12.345_678_9), short(0.0), short(1e-9)), (12.3457, 0.0, 1e-9));
    }
}
