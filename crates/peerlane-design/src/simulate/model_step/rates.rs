//! How long the communication of a step takes: collectives of groups of ranks that lie at one distance from each other, at the
//! library's rate; each time is found once.
//!
//! Rank r is the r-th GPU, node by node. All groups of a kind communicate at the same time, so that those of a node share its
//! NICs, and all of them the network.

use std::collections::HashMap;
use std::rc::Rc;

use super::super::SimulateError;
use super::super::library::{Between, Exchange, Library, Share, all_edges, with_peers};
use crate::cluster::{Cluster, Component, Place, Router};
use peerlane_machine::fabric::NodeId;
use peerlane_machine::matrix::Engine;
use peerlane_machine::transfer::Collective;
use peerlane_machine::units::Bytes;
use peerlane_model::collectives::Choice;
use peerlane_model::collectives::tuner::Ranks;
use peerlane_model::solve::{Demand, Problem};
use peerlane_read::catalogue::Parts;

/// Seconds that a message to another rank takes to begin: a launch, and a kernel without its steps (the library's tuner,
/// `peerlane_model::collectives::tuner`).
const BEGIN: f64 = 15e-6;
/// The most pairs of nodes whose way through the network is looked at for an all-to-all.
const MOST_PAIRS: usize = 400_000;

/// Groups of so many ranks, each `stride` after the one before; together they are all ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Groups {
    /// Ranks of each.
    pub size: usize,
    /// From one rank of a group to the next.
    pub stride: usize,
}

/// What takes time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// A collective of the library's, of so many bytes as nccl-tests counts them.
    Collective(Collective),
    /// Each rank has bytes for all others of its group; the size is what it sends with its own part. So many thousandths of
    /// what the parts for other nodes come to leave the node.
    AllToAll(u16),
    /// Each rank sends to the one `stride` further on while as much arrives.
    Message,
}

/// How long it takes.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Took {
    /// Seconds.
    pub time: f64,
    /// What holds its bytes, by its place among [`Rates::holders`].
    pub by: Option<u16>,
}

/// What holds bytes.
#[derive(Clone, Debug, PartialEq)]
pub struct Holder {
    /// In words.
    pub name: String,
    /// What one would replace to make it faster.
    pub component: Option<Component>,
}

/// Where the ranks of the groups are.
struct Layout {
    /// GPUs of the first node that the first group is in.
    devices: Vec<NodeId>,
    /// Its nodes.
    nodes: usize,
    /// From one of its nodes to the next.
    apart: usize,
    /// Groups that a node is in.
    sharing: usize,
}

impl Layout {
    /// The part of a cluster that one group is.
    fn of(&self, cluster: &Cluster) -> Cluster {
        Cluster { only: self.devices.clone(), taking: (self.nodes as u32, usize::MAX), ..cluster.clone() }
    }
}

type Libraries = Rc<Vec<(Collective, Library)>>;

/// Times on a cluster.
pub struct Rates<'c> {
    cluster: &'c Cluster,
    /// The same with the peer access that the library uses by itself.
    peers: Rc<Cluster>,
    faster: Option<(Component, f64)>,
    gpus: Vec<NodeId>,
    run: Ranks,
    /// Ranks.
    ranks: usize,
    between: Option<Between<'c>>,
    libraries: HashMap<Groups, Libraries>,
    times: HashMap<(Kind, Groups, u64), Took>,
    holders: Vec<Holder>,
    shares: HashMap<(Kind, Groups), Rc<Shares>>,
    /// Whether communication takes no time.
    silent: bool,
}

/// What messages have: the pace within a node and between nodes, and seconds until they begin.
struct Shares {
    within: Option<(f64, Option<u16>)>,
    between: Option<(f64, Option<u16>)>,
    begin: f64,
    /// Of an all-to-all, how it begins.
    exchange: Option<Exchange>,
}

impl<'c> Rates<'c> {
    /// Of the first so many GPUs of a cluster. `faster` is a component that carries a multiple of what it does.
    ///
    /// # Errors
    /// Where the rate of a NIC is not known.
    pub fn new(cluster: &'c Cluster, ranks: usize, faster: Option<(Component, f64)>) -> Result<Self, SimulateError> {
        let gpus = cluster.gpus();
        let between = match cluster.network {
            Some(_) if ranks > gpus.len() => Some(Between::new(cluster, faster.as_ref())?),
            _ => None,
        };
        Ok(Rates {
            cluster,
            peers: Rc::new(with_peers(cluster)),
            faster,
            gpus,
            run: Ranks::ProcessEach,
            ranks,
            between,
            libraries: HashMap::new(),
            times: HashMap::new(),
            holders: Vec::new(),
            shares: HashMap::new(),
            silent: false,
        })
    }

    /// The same where launches are in a graph.
    #[must_use]
    pub fn in_graphs(mut self) -> Self {
        self.run = Ranks::Graph;
        self
    }

    /// The same where all communication takes no time.
    #[must_use]
    pub fn silent(&self) -> Rates<'c> {
        Rates {
            cluster: self.cluster,
            peers: Rc::clone(&self.peers),
            faster: None,
            gpus: self.gpus.clone(),
            run: self.run,
            ranks: self.ranks,
            between: None,
            libraries: HashMap::new(),
            times: HashMap::new(),
            holders: Vec::new(),
            shares: HashMap::new(),
            silent: true,
        }
    }

    /// What holds bytes, by the numbers of [`Took::by`].
    pub fn holders(&self) -> &[Holder] {
        &self.holders
    }

    /// GPUs of a node.
    pub fn node_size(&self) -> usize {
        self.gpus.len().max(1)
    }

    /// How long it takes groups to do this with so many bytes each, all at once.
    ///
    /// # Errors
    /// Where a rate is not known.
    pub fn took(&mut self, kind: Kind, groups: Groups, bytes: f64) -> Result<Took, SimulateError> {
        if groups.size < 2 || bytes <= 0.0 || self.silent {
            return Ok(Took::default());
        }
        let size = bytes.min(1e18).ceil() as u64;
        if let Some(known) = self.times.get(&(kind, groups, size)) {
            return Ok(*known);
        }
        let took = match kind {
            Kind::Collective(collective) => self.collective(collective, groups, size)?,
            Kind::AllToAll(_) | Kind::Message => self.messages(kind, groups, bytes)?,
        };
        self.times.insert((kind, groups, size), took);
        Ok(took)
    }

    fn collective(&mut self, collective: Collective, groups: Groups, size: u64) -> Result<Took, SimulateError> {
        let libraries = match self.libraries.get(&groups) {
            Some(libraries) => Rc::clone(libraries),
            None => {
                let libraries = Rc::new(self.library(groups)?);
                self.libraries.insert(groups, Rc::clone(&libraries));
                libraries
            }
        };
        let Some((_, library)) = libraries.iter().find(|(kind, _)| *kind == collective) else {
            return Err(SimulateError::Workload(format!("{}: no step of a model has it", collective.name())));
        };
        let predicted = library.predict(Bytes(size), Choice::FREE)?;
        let (by, component) = library.held_by(predicted.algorithm);
        Ok(Took { time: predicted.time, by: holder(&mut self.holders, by, component) })
    }

    fn library(&mut self, groups: Groups) -> Result<Vec<(Collective, Library)>, SimulateError> {
        let layout = self.layout(groups);
        let cluster = layout.of(self.cluster);
        let kinds = [Collective::AllReduce, Collective::AllGather, Collective::ReduceScatter];
        let found = Library::each(&cluster, &kinds, Choice::FREE, self.faster.clone())?;
        let most = match &mut self.between {
            Some(between) if layout.nodes > 1 => {
                let nodes = self.ranks.div_ceil(self.gpus.len());
                let [ring, tree] = all_edges(nodes, layout.nodes, layout.apart, layout.sharing as f64);
                Some([between.pace(&ring)?, between.pace(&tree)?])
            }
            _ => None,
        };
        let run = self.run;
        let shared = |library: Library| match &most {
            Some(most) => library.run_as(run).sharing(most),
            None => library.run_as(run),
        };
        Ok(kinds.into_iter().zip(found.into_iter().map(shared)).collect())
    }

    fn layout(&self, groups: Groups) -> Layout {
        let node_size = self.gpus.len().max(1);
        let mut nodes: Vec<(usize, Vec<NodeId>)> = Vec::new();
        for rank in (0..groups.size).map(|i| i * groups.stride) {
            let (node, gpu) = (rank / node_size, rank % node_size);
            match nodes.last_mut().filter(|(last, _)| *last == node) {
                Some((_, devices)) => devices.push(self.gpus[gpu]),
                None => nodes.push((node, vec![self.gpus[gpu]])),
            }
        }
        let apart = nodes.get(1).map_or(1, |(second, _)| second - nodes[0].0);
        let count = nodes.len();
        let mut devices = nodes.into_iter().map(|(_, devices)| devices).max_by_key(Vec::len).unwrap_or_default();
        devices.sort_unstable();
        Layout { sharing: node_size.div_ceil(devices.len().max(1)), devices, nodes: count, apart }
    }

    fn messages(&mut self, kind: Kind, groups: Groups, bytes: f64) -> Result<Took, SimulateError> {
        let shares = match self.shares.get(&(kind, groups)) {
            Some(shares) => Rc::clone(shares),
            None => {
                let shares = Rc::new(if kind == Kind::Message { self.next(groups)? } else { self.pairs(groups)? });
                self.shares.insert((kind, groups), Rc::clone(&shares));
                shares
            }
        };
        let leaving = if let Kind::AllToAll(thousandths) = kind { f64::from(thousandths) / 1000.0 } else { 1.0 };
        let ways = [(shares.within, bytes), (shares.between, bytes * leaving)];
        let slower = ways.into_iter().filter_map(|(share, bytes)| share.map(|(pace, by)| (bytes / pace, by)));
        let slowest = slower.max_by(|a, b| a.0.total_cmp(&b.0));
        let (moving, by) = slowest.unwrap_or((0.0, None));
        let time = shares.exchange.as_ref().map_or(shares.begin + moving, |exchange| exchange.time(bytes, moving));
        Ok(Took { time, by })
    }

    /// An all-to-all: by byte that a rank sends to all of its group.
    fn pairs(&mut self, groups: Groups) -> Result<Shares, SimulateError> {
        let layout = self.layout(groups);
        let (n, local) = (groups.size as f64, layout.devices.len());
        let exchange = Some(Exchange::of(&layout.of(&self.peers), self.run)?);
        let mut shares = Shares { within: None, between: None, begin: 0.0, exchange };
        if local > 1 {
            let sets: Vec<Vec<usize>> = self.node_groups(groups, local);
            let pairs = sets.iter().flat_map(|set| set.iter().flat_map(|a| set.iter().map(move |b| (*a, *b))));
            let pairs: Vec<(usize, usize)> = pairs.filter(|(a, b)| a != b).collect();
            let (rate, by, _) = self.at_once(&pairs)?;
            shares.within = Some((rate * n, by));
        }
        if layout.nodes > 1 {
            let nodes = self.ranks.div_ceil(self.gpus.len());
            // of each byte of a rank, what leaves its node
            let leaving = (n - local as f64) / n * self.gpus.len() as f64;
            let m = layout.nodes;
            let one = leaving / (m - 1) as f64;
            let span = m * layout.apart;
            let all = (0..nodes).flat_map(|a| {
                let base = a / span * span + a % layout.apart;
                (0..m).map(move |i| base + i * layout.apart).filter(move |b| *b != a && *b < nodes).map(move |b| (a, b))
            });
            let edges: Vec<_> = all.take(MOST_PAIRS).map(|(a, b)| (a as u32, b as u32, one)).collect();
            shares.between = self.pace(&edges)?;
        }
        Ok(shares)
    }

    /// Messages to the next rank of a group.
    fn next(&mut self, groups: Groups) -> Result<Shares, SimulateError> {
        let node_size = self.gpus.len();
        let mut shares = Shares { within: None, between: None, begin: BEGIN, exchange: None };
        let within: Vec<(usize, usize)> =
            (0..node_size).map(|a| (a, a + groups.stride)).filter(|(_, b)| *b < node_size).collect();
        if !within.is_empty() && groups.stride < node_size {
            let (rate, by, latency) = self.at_once(&within)?;
            shares.within = Some((rate, by));
            shares.begin += latency;
        }
        // of the ranks of a node, those whose next one is in another
        let leaving = groups.stride.min(node_size);
        let span = groups.size * groups.stride;
        let nodes = self.ranks.div_ceil(node_size);
        if span > node_size && nodes > 1 {
            let apart = groups.stride.div_ceil(node_size);
            let edges: Vec<_> = (0..nodes)
                .filter(|a| a + apart < nodes)
                .map(|a| (a as u32, (a + apart) as u32, leaving as f64))
                .collect();
            shares.between = self.pace(&edges)?;
        }
        Ok(shares)
    }

    fn pace(&mut self, edges: &[(u32, u32, f64)]) -> Result<Option<(f64, Option<u16>)>, SimulateError> {
        let Some(between) = &mut self.between else { return Ok(None) };
        let share: Share = between.pace(edges)?;
        let by = holder(&mut self.holders, share.by(), share.component());
        Ok(Some((share.rate(), by)))
    }

    /// The ranks of a node that are of one group each.
    fn node_groups(&self, groups: Groups, local: usize) -> Vec<Vec<usize>> {
        let node_size = self.gpus.len();
        let stride = groups.stride.min(node_size);
        let starts = (0..node_size).filter(|rank| (rank / stride).is_multiple_of(local));
        let of = |start: usize| (0..local).map(|i| start + i * stride).filter(|rank| *rank < node_size).collect();
        starts.map(of).collect()
    }

    /// The slowest of transfers within a node that all go at once: its rate, what holds it, and the longest time to begin.
    fn at_once(&mut self, pairs: &[(usize, usize)]) -> Result<(f64, Option<u16>, f64), SimulateError> {
        let peers = Rc::clone(&self.peers);
        let mut router = Router::new(&peers, Parts::embedded());
        if let Some((component, factor)) = &self.faster {
            router.scale(component.clone(), *factor);
        }
        let at = |gpu: usize| Place { node: 0, device: self.gpus[gpu] };
        let ways: Vec<_> =
            pairs.iter().map(|(a, b)| router.way(at(*a), at(*b), Engine::Sm)).collect::<Result<_, _>>()?;
        let demands: Vec<&Demand> = ways.iter().map(|way| &way.demand).collect();
        let solution = Problem::of(demands, |r| router.resources()[r]).solve();
        let solution = solution.map_err(|e| SimulateError::Network(e.to_string()))?;
        let slowest = (0..ways.len()).min_by(|a, b| solution.rates[*a].total_cmp(&solution.rates[*b])).unwrap_or(0);
        let name = match solution.bindings[slowest] {
            peerlane_model::solve::Binding::Resource(r) => router.group(r),
            _ => ways[slowest].cap_why.clone().unwrap_or_default(),
        };
        let component = router.component(&name);
        let latency = ways.iter().map(|way| way.latency).fold(0.0, f64::max);
        Ok((solution.rates[slowest], holder(&mut self.holders, &name, component.as_ref()), latency))
    }
}

fn holder(holders: &mut Vec<Holder>, name: &str, component: Option<&Component>) -> Option<u16> {
    if name.is_empty() {
        return None;
    }
    let at = holders.iter().position(|known| known.name == name).unwrap_or_else(|| {
        holders.push(Holder { name: name.to_owned(), component: component.cloned() });
        holders.len() - 1
    });
    u16::try_from(at).ok()
}
