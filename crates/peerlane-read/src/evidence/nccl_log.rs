//! Reads logs written under `NCCL_DEBUG=INFO`: ranks and their GPUs, rings, the transport that each connection uses, and
//! what keeps peer-to-peer access and GPUDirect RDMA from being used.

mod lines;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use super::text::Span;
use super::tool::NCCL_LOG as TOOL;
use super::{
    Fact, Found, GpuFacts, NcclGraph, NcclLog, NcclRank, NcclStaged, NcclTransport, P2pCapability, P2pMatrix,
    P2pStatus, Text,
};
use lines::{Bracket, End, InGraph, Member, OfAdapter, Pattern};
pub(super) use lines::{bus_id, networks};
use peerlane_machine::fabric::PciAddress;

/// More network devices than any machine has.
const MAX_NETWORKS: usize = 256;

/// More GPUs than any machine has; pairs of more are not laid out.
const MAX_GPUS: u32 = 512;

/// The most variables that are kept.
const MAX_VARIABLES: usize = 128;

/// The most lines of ranks that are kept, of all communicators.
const MAX_MEMBERS: usize = 1 << 16;

/// The most graphs that are kept: each communicator has at most seven.
const MAX_GRAPHS: usize = 64;

/// What NCCL prints when a multicast group of NVSwitch cannot be made; frameworks repeat it without the log's prefix.
const NO_MULTICAST: &str = "Failed to bind NVLink SHARP (NVLS)";

/// What CUDA answers a process that may not make memory for other processes or hosts; programs quote the failed call.
const NOT_PERMITTED: &str = "operation not permitted";

/// Whether a line is about such memory: fabric handles, multicast groups.
fn is_shared_memory_refused(line: &str) -> bool {
    line.contains(NOT_PERMITTED)
        && ["cuMemCreate(", "cuMulticastCreate(", "cuMemExportTo"].iter().any(|call| line.contains(call))
}

pub(super) fn scan(text: &Text, found: &mut Found) {
    if !text.holds(&[NOT_PERMITTED, "CCL ", "NET/Socket : Using", "NET/IB : Using", "WARN NET/IB"]) {
        return;
    }
    let mut log = Log::default();
    for (i, line) in text.iter() {
        if let Some(version) = version(line) {
            // every run prints its version once a host, before anything else
            if log.has_connections() {
                std::mem::take(&mut log).push(text, found);
            }
            log.lines.add(i);
            log.result.version.get_or_insert_with(|| version.to_owned());
        } else if let Some((prefix, words)) = split(line, "NCCL INFO ") {
            log.lines.add(i);
            log.host(prefix);
            log.graph(prefix, words.trim(), i);
            log.info(prefix, words.trim());
        } else if let Some((prefix, words)) = split(line, "NCCL WARN ") {
            log.lines.add(i);
            log.host(prefix);
            log.warn(prefix, words.trim());
        } else if line.trim_start().starts_with(NO_MULTICAST) || is_shared_memory_refused(line) {
            log.lines.add(i);
            log.warn("", line.trim());
        } else if let Some(words) = cut(line) {
            log.lines.add(i);
            log.info("", words);
        } else if let Some((_, words)) = line.split_once("WARN NET/IB") {
            log.lines.add(i);
            log.warn("", &format!("NET/IB{words}"));
        } else if let Some(network) = log.listing.then(|| lines::network(line.trim())).flatten() {
            log.lines.add(i);
            add(&mut log.result.sockets, network);
        } else {
            log.listing &= line.trim().is_empty();
        }
    }
    log.push(text, found);
}

/// What stands before and after the mark of NCCL's lines, whose process some people cut off.
pub(super) fn split<'a>(line: &'a str, mark: &str) -> Option<(&'a str, &'a str)> {
    let (prefix, words) = line.split_once(mark)?;
    (prefix.is_empty() || prefix.ends_with(' ')).then_some((prefix, words))
}

/// A list of networks without the words before it that NCCL begins lines with.
fn cut(line: &str) -> Option<&str> {
    let line = line.trim_start();
    let words = line.strip_prefix("INFO ").unwrap_or(line);
    networks(words).map(|_| words)
}

/// `host:pid:tid` of the prefix `host:pid:tid [0]`, which perhaps stands behind a launcher's own.
pub(super) fn process(prefix: &str) -> Option<&str> {
    // `mpirun --tag-output` glues its own prefix to it: `[1,0]<stdout>:host:pid:tid`
    let mut words = prefix.split_whitespace().rev().map(|w| w.rsplit_once(">:").map_or(w, |(_, own)| own));
    words.find(|w| w.split(':').count() == 3)
}

/// `NCCL version 2.19.3+cuda12.3`, or `RCCL version : 2.22.3-HEAD:271856d`, alone on its line or behind a prefix.
fn version(line: &str) -> Option<&str> {
    let (before, after) = line.split_once("CCL version ")?;
    let before = before.strip_suffix(['N', 'R'])?;
    let alone = before.trim().is_empty() || before.contains(" NCCL INFO ") || before.ends_with("] ");
    let after = after.trim_start().trim_start_matches(':').split_whitespace().next();
    after.filter(|v| alone && v.starts_with(|c: char| c.is_ascii_digit()))
}

/// Adds a name of a network, once.
fn add(names: &mut Vec<String>, name: String) {
    if names.len() < MAX_NETWORKS && !names.contains(&name) {
        names.push(name);
    }
}

/// A connection: the host that prints it, its ends, and how.
type Connection = (String, End, End, String);

/// A graph as it is printed, with its lines.
struct Graph {
    pattern: Pattern,
    channels: Vec<Vec<InGraph>>,
    lines: Span,
}

/// What is known so far.
#[derive(Default)]
struct Log {
    result: NcclLog,
    hosts: BTreeSet<String>,
    /// Lines about ranks, each with its host.
    members: Vec<(String, Member)>,
    /// The communicator that each process makes.
    current: BTreeMap<String, usize>,
    /// Rings, each with the line about a rank of its communicator.
    rings: Vec<(Option<usize>, Vec<u32>)>,
    /// Graphs, and the one that each process prints; all print the same ones.
    graphs: Vec<Graph>,
    printing: BTreeMap<String, Option<usize>>,
    /// Channels by connection; both its ends report each.
    channels: BTreeMap<Connection, BTreeSet<String>>,
    /// Pairs of GPUs, by the driver's numbers, to which the driver gives no access.
    refused: BTreeSet<(u32, u32)>,
    /// The same by address.
    not_enabled: BTreeSet<(PciAddress, PciAddress)>,
    /// CUDA's numbers where a line shows both.
    devices: BTreeMap<PciAddress, u32>,
    /// Adapters that get GPUDirect RDMA, or the GPUs that get it of them, and those that do not.
    direct: Vec<OfAdapter>,
    staged: Vec<OfAdapter>,
    /// Whether a list of sockets goes on in the next line.
    listing: bool,
    lines: Span,
}

impl Log {
    fn has_connections(&self) -> bool {
        !self.channels.is_empty() || !self.rings.is_empty()
    }

    fn host(&mut self, prefix: &str) {
        if let Some(host) = process(prefix).and_then(|w| w.split(':').next()).filter(|h| !self.hosts.contains(*h)) {
            self.hosts.insert(host.to_owned());
        }
    }

    /// A line of a graph.
    fn graph(&mut self, prefix: &str, words: &str, i: usize) {
        let process = process(prefix).unwrap_or_default();
        if let Some(pattern) = lines::pattern(words) {
            let new = self.graphs.len() < MAX_GRAPHS && self.graphs.iter().all(|g| g.pattern != pattern);
            self.printing.insert(process.to_owned(), new.then_some(self.graphs.len()));
            if new {
                let mut lines = Span::default();
                lines.add(i);
                self.graphs.push(Graph { pattern, channels: Vec::new(), lines });
            }
        } else if let Some(at) = self.printing.get(process).copied().flatten()
            && let Some(graph) = self.graphs.get_mut(at)
            && let Some(channel) = lines::graph_channel(words)
            && graph.channels.len() < graph.pattern.channels
        {
            graph.channels.push(channel);
            graph.lines.add(i);
        }
    }

    fn info(&mut self, prefix: &str, words: &str) {
        let process = process(prefix).unwrap_or_default();
        let host = process.split_once(':').map_or("", |(host, _)| host);
        self.listing = false;
        if let Some((from, to, via, channel)) = lines::connection(words) {
            // over the network the far end is on another host, whose bus is numbered alike
            let far = |end: End| End { gpu: end.gpu.filter(|_| !via.starts_with("NET/")), ..end };
            let (from, to) = if lines::receives(words) { (far(from), to) } else { (from, far(to)) };
            let connection = (host.to_owned(), from, to, via.to_owned());
            self.channels.entry(connection).or_default().insert(channel.to_owned());
        } else if let Some(ring) = lines::ring(words) {
            self.rings.push((self.current.get(process).copied(), ring));
        } else if let Some(member) = lines::member(words) {
            if self.members.len() < MAX_MEMBERS {
                self.current.insert(process.to_owned(), self.members.len());
                self.members.push((host.to_owned(), member));
            }
        } else if let Some(pair) = lines::refused(words) {
            self.refused.insert(pair);
        } else if let Some([(a, one), (b, other)]) = lines::not_enabled(words) {
            self.devices.extend([(one, a), (other, b)]);
            self.not_enabled.insert((one, other));
        } else if let Some(direct) = lines::of_adapter(words, "GPU Direct RDMA Enabled for ") {
            if self.direct.len() < MAX_NETWORKS {
                self.direct.push(direct);
            }
        } else if let Some(staged) = lines::of_adapter(words, "GPU Direct RDMA Disabled for ") {
            if self.staged.len() < MAX_NETWORKS && !self.staged.contains(&staged) {
                self.staged.push(staged);
            }
        } else if let Some((variable, value)) = lines::variable(words) {
            if self.result.variables.len() < MAX_VARIABLES {
                self.result.variables.insert(variable.to_owned(), value.to_owned());
            }
        } else if let Some(all) = words.split_once(" isAllCudaP2p ").map(|(_, all)| all) {
            self.result.cuda_p2p = self.result.cuda_p2p.or(Some(all.starts_with('1')));
        } else if let Some(network) = words.strip_prefix("Using network ") {
            self.result.network = Some(network.trim().to_owned());
        } else if words.starts_with("NET/IB : No device found") || words.starts_with("Failed to open libibverbs") {
            self.result.no_rdma = true;
        } else if let Some((kind, names)) = networks(words) {
            let known = if kind == "Socket" { &mut self.result.sockets } else { &mut self.result.networks };
            self.listing = kind == "Socket" && names.is_empty();
            names.into_iter().for_each(|name| add(known, name));
        }
    }

    /// A warning, with the place in NCCL's source where that shows what failed.
    fn warn(&mut self, prefix: &str, words: &str) {
        self.result.no_rdma |= words.starts_with("Failed to open libibverbs");
        self.refused.extend(lines::refused(words));
        let place = prefix.split_whitespace().next_back().filter(|w| w.contains(".cc:") || w.contains(".cu:"));
        self.result.warnings.push(place.map_or_else(|| words.to_owned(), |place| format!("{place} {words}")));
    }

    fn push(mut self, text: &Text, found: &mut Found) {
        let Some(lines) = self.lines.numbers(text) else { return };
        let mut ranks = Ranks::of(&self.members);
        let release = self.result.release();
        self.result.size = self.members.iter().filter_map(|(_, m)| m.size).max();
        for ((host, from, to, via), channels) in std::mem::take(&mut self.channels) {
            // before 2.5 they are CUDA's numbers, and up to 2.17 bus ids
            let plain = |end: End| match end.gpu {
                Some(Bracket::Number(_)) if release.is_some_and(|r| r < (2, 18)) => End { gpu: None, ..end },
                _ => end,
            };
            let (from, to) = (ranks.of_end(&host, plain(from)), ranks.of_end(&host, plain(to)));
            let transports = &mut self.result.transports;
            let count = channels.len() as u32;
            match transports.iter_mut().rev().take(4).find(|t| (t.from, t.to, &t.via) == (from, to, &via)) {
                // both ends report it
                Some(known) => known.channels = known.channels.max(count),
                None => transports.push(NcclTransport { from, to, via, channels: count }),
            }
        }
        self.result.transports.sort_by(|a, b| (a.from, a.to, &a.via).cmp(&(b.from, b.to, &b.via)));
        self.result.transports.dedup_by(|b, a| {
            let same = (a.from, a.to, &a.via) == (b.from, b.to, &b.via);
            a.channels = if same { a.channels.max(b.channels) } else { a.channels };
            same
        });
        let rings = std::mem::take(&mut self.rings);
        self.result.rings = rings.iter().map(|(of, ring)| ranks.of_ring(&self.members, *of, ring)).collect();
        self.result.staged = self.staged(&ranks);
        let mut log = self.result;
        log.ranks = ranks.known;
        log.hosts = self.hosts.len();
        let mut hosts = self.hosts.into_iter();
        // one name only: ranks of several hosts have none in common
        log.host = hosts.next().filter(|_| hosts.next().is_none());
        let gpus = if log.hosts > 1 { Vec::new() } else { gpus(&log, &self.devices) };
        let number = |at: &PciAddress| gpus.iter().find(|g| g.address == Some(*at)).and_then(|g| g.index);
        let by_address = self.not_enabled.iter().filter_map(|(a, b)| Some((number(a)?, number(b)?)));
        let refused: BTreeSet<(u32, u32)> = by_address.chain(self.refused.iter().copied()).collect();
        let refused = matrix(&refused).filter(|_| log.hosts <= 1);
        let graphs: Vec<_> =
            self.graphs.iter().filter_map(|g| Some((g.lines.numbers(text)?, g.of(&log, &gpus)?))).collect();
        found.push(text, TOOL, lines, Fact::NcclLog(log));
        found.push(text, TOOL, lines, Fact::Gpus(gpus));
        for (lines, graph) in graphs {
            found.push(text, TOOL, lines, Fact::NcclGraph(graph));
        }
        if let Some(refused) = refused {
            found.push(text, TOOL, lines, Fact::P2p(refused));
        }
    }

    /// Adapters without GPUDirect RDMA: one that gives it to a GPU can, and a GPU that gets it of one needs no other.
    fn staged(&self, ranks: &Ranks) -> Vec<NcclStaged> {
        let release = self.result.release();
        let direct = |s: &OfAdapter| {
            self.direct.iter().any(|d| if s.gpu.is_some() { d.gpu == s.gpu } else { d.adapter == s.adapter })
        };
        let gpu = |word: &String| match word.parse::<u32>() {
            // a rank since 2.24
            Ok(rank) if release.is_some_and(|r| r >= (2, 24)) => ranks.known.get(&rank)?.address,
            // bus ids end in device and function
            Ok(_) if word.len() <= 2 && release.is_none() => None,
            _ => bus_id(word),
        };
        // numbers of adapters are hexadecimal since 2.20, which prints no other numbers above nine
        let name = |word: &String| match u64::from_str_radix(word, 16) {
            Ok(number) if word.len() <= 2 && word.parse::<u64>().is_err() => number.to_string(),
            _ => word.clone(),
        };
        let of = |s: &OfAdapter| NcclStaged {
            adapter: name(&s.adapter),
            gpu: s.gpu.as_ref().and_then(gpu),
            distance: s.distance,
        };
        self.staged.iter().filter(|s| !direct(s)).map(of).collect()
    }
}

impl Graph {
    /// With the numbers of GPUs; `None` where one has no number.
    fn of(&self, log: &NcclLog, gpus: &[GpuFacts]) -> Option<NcclGraph> {
        let number = |gpu: &InGraph| {
            let address = match gpu {
                InGraph::Address(at) => Some(*at),
                InGraph::Rank(rank) => log.ranks.get(rank)?.address,
            };
            gpus.iter().find(|g| g.address.is_some() && g.address == address)?.index
        };
        let channels: Option<Vec<Vec<u32>>> =
            self.channels.iter().map(|channel| channel.iter().map(number).collect()).collect();
        let channels = channels.filter(|all| !all.is_empty())?;
        Some(NcclGraph { pattern: self.pattern.number, speed: self.pattern.speed, channels })
    }
}

/// The ranks of all communicators by numbers of their own: those of the largest keep theirs, and a GPU that only others
/// have gets a number of its communicator that is free, else the next.
#[derive(Default)]
struct Ranks {
    known: BTreeMap<u32, NcclRank>,
    by_address: BTreeMap<(String, PciAddress), u32>,
    by_driver: BTreeMap<(String, u32), u32>,
    /// The numbers within each communicator, where the log names those.
    communicators: BTreeMap<String, BTreeMap<u32, u32>>,
    used: BTreeSet<u32>,
    next: u32,
}

impl Ranks {
    fn of(members: &[(String, Member)]) -> Self {
        let mut ranks = Ranks::default();
        let mut sorted: Vec<&(String, Member)> = members.iter().collect();
        sorted.sort_by_key(|(_, m)| std::cmp::Reverse(m.size));
        ranks.next = members.iter().map(|(_, m)| m.number.max(m.size.unwrap_or_default())).max().map_or(0, |n| n + 1);
        for (host, member) in sorted {
            ranks.add(host, member);
        }
        ranks
    }

    fn add(&mut self, host: &str, member: &Member) {
        let Some(address) = member.rank.address else {
            let known = self.known.entry(member.number).or_default();
            known.cuda = known.cuda.or(member.rank.cuda);
            known.driver = known.driver.or(member.rank.driver);
            return;
        };
        let key = (host.to_owned(), address);
        let number = match self.by_address.get(&key) {
            Some(number) => *number,
            None => {
                // a number that another GPU has is of another communicator
                let number = if self.used.insert(member.number) { member.number } else { self.free() };
                self.by_address.insert(key, number);
                number
            }
        };
        if let Some(driver) = member.rank.driver {
            self.by_driver.entry((host.to_owned(), driver)).or_insert(number);
        }
        if let Some(communicator) = &member.communicator {
            self.communicators.entry(communicator.clone()).or_default().insert(member.number, number);
        }
        let known = self.known.entry(number).or_default();
        known.address = Some(address);
        known.cuda = known.cuda.or(member.rank.cuda);
        known.driver = known.driver.or(member.rank.driver);
    }

    fn free(&mut self) -> u32 {
        while !self.used.insert(self.next) && self.next < u32::MAX {
            self.next += 1;
        }
        self.next
    }

    /// The number of the rank at an end, by its GPU where that is known.
    fn of_end(&mut self, host: &str, end: End) -> u32 {
        let known = match end.gpu {
            Some(Bracket::Address(at)) => self.by_address.get(&(host.to_owned(), at)).copied(),
            Some(Bracket::Number(n)) => self.by_driver.get(&(host.to_owned(), n)).copied(),
            None => None,
        };
        let number = known.unwrap_or(end.rank);
        let rank = self.known.entry(number).or_default();
        match end.gpu.filter(|_| known.is_none()) {
            Some(Bracket::Address(at)) => rank.address = rank.address.or(Some(at)),
            Some(Bracket::Number(n)) => rank.driver = rank.driver.or(Some(n)),
            None => {}
        }
        number
    }

    /// A ring by these numbers; `of` is a rank of its communicator.
    fn of_ring(&self, members: &[(String, Member)], of: Option<usize>, ring: &[u32]) -> Vec<u32> {
        let communicator = of.and_then(|at| members.get(at)).and_then(|(_, m)| m.communicator.as_ref());
        let table = communicator.and_then(|c| self.communicators.get(c));
        let number = |rank: &u32| table.and_then(|t| t.get(rank)).copied().unwrap_or(*rank);
        ring.iter().map(number).collect()
    }
}

/// The GPUs of a host's ranks, once each, by the driver's numbers, else by CUDA's, else in order of address, which is the
/// driver's order; none where a rank may be of another host, whose bus is numbered alike.
fn gpus(log: &NcclLog, devices: &BTreeMap<PciAddress, u32>) -> Vec<GpuFacts> {
    let mut known: BTreeMap<PciAddress, NcclRank> = BTreeMap::new();
    for (address, rank) in log.ranks.values().filter_map(|rank| Some((rank.address?, rank))) {
        let of = known.entry(address).or_default();
        (of.driver, of.cuda) = (of.driver.or(rank.driver), of.cuda.or(rank.cuda));
    }
    for (address, number) in devices {
        let of = known.entry(*address).or_default();
        of.cuda = of.cuda.or(Some(*number));
    }
    // lines without a host's name may be of any
    if log.hosts == 0 && log.size.is_none_or(|n| n as usize != known.len()) {
        return Vec::new();
    }
    // ranks that each see one GPU all call it 0
    let numbers = |of: fn(&NcclRank) -> Option<u32>| {
        let all: Option<Vec<u32>> = known.values().map(of).collect();
        all.filter(|all| all.iter().collect::<BTreeSet<_>>().len() == all.len())
    };
    let by_order = || (0u32..).take(known.len()).collect();
    let numbers = numbers(|of| of.driver).or_else(|| numbers(|of| of.cuda)).unwrap_or_else(by_order);
    let gpu = |(address, index)| GpuFacts { index: Some(index), address: Some(address), ..GpuFacts::default() };
    known.into_keys().zip(numbers).map(gpu).collect()
}

/// Refused pairs laid out, both ways: the driver answers for reading and writing.
fn matrix(refused: &BTreeSet<(u32, u32)>) -> Option<P2pMatrix> {
    let numbers: BTreeSet<u32> = refused.iter().flat_map(|(a, b)| [*a, *b]).collect();
    if numbers.is_empty() || numbers.iter().any(|n| *n >= MAX_GPUS) {
        return None;
    }
    let is = |a: u32, b: u32| a != b && (refused.contains(&(a, b)) || refused.contains(&(b, a)));
    let cell = |a: u32, b: u32| is(a, b).then_some(P2pStatus::NotSupported);
    let names: Vec<String> = numbers.iter().map(|n| format!("GPU{n}")).collect();
    Some(P2pMatrix {
        capability: P2pCapability::Access,
        rows: names.clone(),
        cols: names,
        cells: numbers.iter().map(|a| numbers.iter().map(|b| cell(*a, *b)).collect()).collect(),
    })
}
