//! Reads logs written under `NCCL_DEBUG=INFO`: ranks and their GPUs, rings, the transport that each connection uses, and
//! what keeps peer-to-peer access and GPUDirect RDMA from being used.

use std::collections::{BTreeMap, BTreeSet};

use super::text::Span;
use super::tool::NCCL_LOG as TOOL;
use super::{
    Fact, Found, GpuFacts, NcclLog, NcclRank, NcclStaged, NcclTransport, P2pCapability, P2pMatrix, P2pStatus, Text,
};
use peerlane_machine::fabric::PciAddress;

/// More network devices than any machine has.
const MAX_NETWORKS: usize = 256;

/// More GPUs than any machine has; pairs of more are not laid out.
const MAX_GPUS: u32 = 512;

/// The most variables that are kept.
const MAX_VARIABLES: usize = 128;

/// What NCCL prints when a multicast group of NVSwitch cannot be made; frameworks repeat it without the log's prefix.
const NO_MULTICAST: &str = "Failed to bind NVLink SHARP (NVLS)";

pub(super) fn scan(text: &Text, found: &mut Found) {
    if !text.holds(&["CCL "]) {
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
            log.info(words.trim());
        } else if let Some((prefix, words)) = split(line, "NCCL WARN ") {
            log.lines.add(i);
            log.host(prefix);
            log.warn(prefix, words.trim());
        } else if line.trim_start().starts_with(NO_MULTICAST) {
            log.lines.add(i);
            log.warn("", line.trim());
        }
    }
    log.push(text, found);
}

/// What stands before and after the mark of NCCL's lines, whose process some people cut off.
pub(super) fn split<'a>(line: &'a str, mark: &str) -> Option<(&'a str, &'a str)> {
    let (prefix, words) = line.split_once(mark)?;
    (prefix.is_empty() || prefix.ends_with(' ')).then_some((prefix, words))
}

/// `host:pid:tid` of the prefix `host:pid:tid [0]`, which perhaps stands behind a launcher's own.
pub(super) fn process(prefix: &str) -> Option<&str> {
    // `mpirun --tag-output` glues its own prefix to it: `[1,0]<stdout>:host:pid:tid`
    let mut words = prefix.split_whitespace().rev().map(|w| w.rsplit_once(">:").map_or(w, |(_, own)| own));
    words.find(|w| w.split(':').count() == 3)
}

/// `NCCL version 2.19.3+cuda12.3`, alone on its line or behind a prefix.
fn version(line: &str) -> Option<&str> {
    let (before, after) = line.split_once("NCCL version ")?;
    let alone = before.trim().is_empty() || before.contains(" NCCL INFO ") || before.ends_with("] ");
    after.split_whitespace().next().filter(|v| alone && v.starts_with(|c: char| c.is_ascii_digit()))
}

/// What is known so far.
#[derive(Default)]
struct Log {
    result: NcclLog,
    hosts: BTreeSet<String>,
    /// Channels by connection; both its ends report each.
    channels: BTreeMap<(u32, u32, String), BTreeSet<String>>,
    /// Pairs of GPUs, by the driver's numbers, to which the driver gives no access.
    refused: BTreeSet<(u32, u32)>,
    /// Adapters that get GPUDirect RDMA, or the GPUs that get it of them.
    direct: Vec<NcclStaged>,
    lines: Span,
}

impl Log {
    fn has_connections(&self) -> bool {
        !self.channels.is_empty() || !self.result.rings.is_empty()
    }

    fn host(&mut self, prefix: &str) {
        if let Some(host) = process(prefix).and_then(|w| w.split(':').next()).filter(|h| !self.hosts.contains(*h)) {
            self.hosts.insert(host.to_owned());
        }
    }

    fn info(&mut self, words: &str) {
        if let Some((from, to, via, channel)) = connection(words) {
            self.channels.entry((from.rank, to.rank, via.to_owned())).or_default().insert(channel.to_owned());
            for end in [from, to] {
                let rank = self.result.ranks.entry(end.rank).or_default();
                // over the network the other end is on another host
                rank.address = rank.address.or(end.address.filter(|_| !via.starts_with("NET/")));
            }
        } else if let Some(ring) = ring(words) {
            self.result.rings.push(ring);
        } else if let Some((number, rank)) = rank(words) {
            self.result.size = self.result.size.max(value(words, "nranks").and_then(|n| n.parse().ok()));
            let known = self.result.ranks.entry(number).or_default();
            known.cuda = rank.cuda.or(known.cuda);
            known.driver = rank.driver.or(known.driver);
            known.address = rank.address.or(known.address);
        } else if let Some(pair) = refused(words) {
            self.refused.insert(pair);
        } else if let Some(direct) = of_adapter(words, "GPU Direct RDMA Enabled for ") {
            if self.direct.len() < MAX_NETWORKS {
                self.direct.push(direct);
            }
        } else if let Some(staged) = of_adapter(words, "GPU Direct RDMA Disabled for ") {
            if self.result.staged.len() < MAX_NETWORKS && !self.result.staged.contains(&staged) {
                self.result.staged.push(staged);
            }
        } else if let Some((variable, value)) = variable(words) {
            if self.result.variables.len() < MAX_VARIABLES {
                self.result.variables.insert(variable.to_owned(), value.to_owned());
            }
        } else if let Some(network) = words.strip_prefix("Using network ") {
            self.result.network = Some(network.trim().to_owned());
        } else if words.starts_with("NET/IB : No device found") || words.starts_with("Failed to open libibverbs") {
            self.result.no_rdma = true;
        } else if let Some(networks) = networks(words) {
            for network in networks {
                if self.result.networks.len() < MAX_NETWORKS && !self.result.networks.contains(&network) {
                    self.result.networks.push(network);
                }
            }
        }
    }

    /// A warning, with the place in NCCL's source where that shows what failed.
    fn warn(&mut self, prefix: &str, words: &str) {
        self.result.no_rdma |= words.starts_with("Failed to open libibverbs");
        self.refused.extend(refused(words));
        let place = prefix.split_whitespace().next_back().filter(|w| w.contains(".cc:") || w.contains(".cu:"));
        self.result.warnings.push(place.map_or_else(|| words.to_owned(), |place| format!("{place} {words}")));
    }

    fn push(self, text: &Text, found: &mut Found) {
        let Some(lines) = self.lines.numbers(text) else { return };
        let mut log = self.result;
        // a GPU that gets it of one adapter needs it of no other, and an adapter that gives it to one GPU can
        let direct = |s: &NcclStaged| {
            self.direct.iter().any(|d| if s.gpu.is_some() { d.gpu == s.gpu } else { d.adapter == s.adapter })
        };
        log.staged.retain(|staged| !direct(staged));
        log.hosts = self.hosts.len();
        let mut hosts = self.hosts.into_iter();
        // one name only: ranks of several hosts have none in common
        log.host = hosts.next().filter(|_| hosts.next().is_none());
        log.transports = self
            .channels
            .into_iter()
            .map(|((from, to, via), channels)| NcclTransport { from, to, via, channels: channels.len() as u32 })
            .collect();
        let (gpus, refused) = if log.hosts > 1 { Default::default() } else { (gpus(&log), matrix(&self.refused)) };
        found.push(text, TOOL, lines, Fact::NcclLog(log));
        found.push(text, TOOL, lines, Fact::Gpus(gpus));
        if let Some(refused) = refused {
            found.push(text, TOOL, lines, Fact::P2p(refused));
        }
    }
}

/// The GPUs of a host's ranks, once each, by the driver's numbers, else by CUDA's, else in order of address, which is the
/// driver's order; none where a rank may be of another host, whose bus is numbered alike.
fn gpus(log: &NcclLog) -> Vec<GpuFacts> {
    let mut known: BTreeMap<PciAddress, NcclRank> = BTreeMap::new();
    for (address, rank) in log.ranks.values().filter_map(|rank| Some((rank.address?, rank))) {
        let of = known.entry(address).or_default();
        (of.driver, of.cuda) = (of.driver.or(rank.driver), of.cuda.or(rank.cuda));
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

/// `P2P is disabled between connected GPUs 1 and 0. …`, of NVLinked ones `… between NVLINK connected GPUs 1 and 0. …`:
/// NCCL asked NVML, and prints NVML's numbers.
fn refused(words: &str) -> Option<(u32, u32)> {
    let (reason, rest) = words.split_once("connected GPUs ")?;
    let (a, rest) = rest.split_once(" and ")?;
    let digits = rest.split(|c: char| !c.is_ascii_digit()).next()?;
    reason.starts_with("P2P is disabled between").then_some((a.trim().parse().ok()?, digits.parse().ok()?))
}

/// `NET/IB : GPU Direct RDMA Disabled for HCA 0 'mlx5_0'`, or for one GPU `GPU Direct RDMA Disabled for GPU ca000 / HCA 0
/// (distance 7 > 4)`.
fn of_adapter(words: &str, mark: &str) -> Option<NcclStaged> {
    let (of_net, of) = words.split_once(mark)?;
    // sockets have no RDMA to disable
    if of_net.contains("Socket") {
        return None;
    }
    let (before, hca) = of.split_once("HCA ")?;
    let gpu = before.strip_prefix("GPU ").and_then(|w| bus_id(w.split_whitespace().next()?));
    let name = hca.split('\'').nth(1).map(str::to_owned);
    let adapter = name.or_else(|| hca.split_whitespace().next().map(str::to_owned))?;
    let distance = hca.split_once("(distance ").and_then(|(_, d)| {
        let d = d.trim_end_matches(')');
        let (far, most) = d.split_once(" > ").or_else(|| d.split_once(" <= "))?;
        Some((far.trim().parse().ok()?, most.trim().parse().ok()?))
    });
    Some(NcclStaged { adapter, gpu, distance })
}

/// `NCCL_P2P_DISABLE set by environment to 1`, with a full stop in newer versions.
fn variable(words: &str) -> Option<(&str, &str)> {
    let (name, value) = words.split_once(" set by environment to ")?;
    let plain = name.starts_with("NCCL_") && !name.contains(' ');
    plain.then_some((name, value.trim().trim_end_matches('.')))
}
/// One end of a connection.
struct End {
    rank: u32,
    address: Option<PciAddress>,
}

/// `Channel 00/0 : 0[0] -> 1[1] via P2P/CUMEM/read`; between hosts `… [send] via NET/IB/0/GDRDMA`, old `Ring 00 : …`.
fn connection(words: &str) -> Option<(End, End, &str, &str)> {
    let (channel, rest) = channel(words)?;
    let (ends, via) = rest.split_once(" via ")?;
    let (from, to) = ends.split_once(" -> ")?;
    let to = to.split_whitespace().next()?;
    // versions before 2.12 print it in words
    let via = if via.starts_with("direct shared memory") { "SHM" } else { via.split_whitespace().next()? };
    Some((end(from.trim())?, end(to)?, via, channel))
}

/// The number of a channel and what follows its colon.
fn channel(words: &str) -> Option<(&str, &str)> {
    let rest = words.strip_prefix("Channel ").or_else(|| words.strip_prefix("Ring "))?;
    let (channel, rest) = rest.split_once(':')?;
    Some((channel.trim(), rest))
}

/// `0[1b000]`: rank and bus id; newer versions print the device's number in place of the bus id.
fn end(word: &str) -> Option<End> {
    let (rank, bracket) = word.strip_suffix(']')?.split_once('[')?;
    // a device's number has two digits at most, a bus id ends in device and function
    let address = bus_id(bracket).filter(|_| bracket.len() > 2);
    Some(End { rank: rank.parse().ok()?, address })
}

/// NCCL's bus id: domain, bus (8 bits), device (8 bits, of which PCI uses 5) and function (4 bits), in hex.
pub(super) fn bus_id(hex: &str) -> Option<PciAddress> {
    let id = u64::from_str_radix(hex.trim_start_matches("0x"), 16).ok()?;
    let domain = u32::try_from(id >> 20).ok()?;
    let (bus, device, function) = ((id >> 12 & 0xff) as u8, (id >> 4 & 0xff) as u8, (id & 0xf) as u8);
    (device < 32 && function < 8).then_some(PciAddress { domain, bus, device, function })
}

/// `Channel 00/02 :    0   1   2   3`.
fn ring(words: &str) -> Option<Vec<u32>> {
    let ranks: Vec<u32> = channel(words)?.1.split_whitespace().map(str::parse).collect::<Result<_, _>>().ok()?;
    (ranks.len() > 1).then_some(ranks)
}

/// `ncclCommInitRank comm 0x… rank 0 nranks 4 cudaDev 0 nvmlDev 0 busId 6000 …`: a rank's number and its fields.
fn rank(words: &str) -> Option<(u32, NcclRank)> {
    value(words, "nranks")?;
    let number = |key| value(words, key).and_then(|n| n.parse().ok());
    let address = value(words, "busId").and_then(bus_id);
    Some((number("rank")?, NcclRank { cuda: number("cudaDev"), driver: number("nvmlDev"), address }))
}

/// The word after `key`.
fn value<'a>(words: &'a str, key: &str) -> Option<&'a str> {
    let mut words = words.split_whitespace();
    words.find(|w| *w == key).and_then(|_| words.next())
}

/// `NET/IB : Using [0]mlx5_0:1/IB [1]mlx5_1:1/RoCE [RO]; OOB eth0:10.0.0.1<0>`.
pub(super) fn networks(words: &str) -> Option<Vec<String>> {
    let (_, used) = words.strip_prefix("NET/")?.split_once(" : Using ")?;
    let network = |word: &str| {
        let (number, name) = word.strip_prefix('[')?.split_once(']')?;
        number.parse::<u32>().ok().filter(|_| !name.is_empty()).map(|_| name.trim_end_matches(';').to_owned())
    };
    Some(used.split_whitespace().filter_map(network).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn logs(body: &str) -> Vec<NcclLog> {
        let mut found = Found::default();
        scan(&Text::new("t", body.as_bytes()), &mut found);
        found.evidence.into_iter().filter_map(|e| if let Fact::NcclLog(l) = e.fact { Some(l) } else { None }).collect()
    }

    #[test]
    fn a_log() {
        let logs = logs(
            "NCCL version 2.27.3+cuda12.9\n\
             n1:10:11 [0] NCCL INFO NET/IB : Using [0]mlx5_0:1/IB [1]mlx5_1:1/RoCE [RO]; OOB eth0:10.0.0.1<0>\n\
             n1:10:11 [0] NCCL INFO ncclCommInitRank comm 0x55 rank 0 nranks 2 cudaDev 0 nvmlDev 0 busId 1c1060 commId 0x1 - Init START\n\
             n1:10:11 [0] NCCL INFO Channel 00/02 :    0   1\n\
             n1:10:11 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[1] via P2P/CUMEM/read\n\
             n1:10:11 [0] NCCL INFO Channel 01/0 : 0[0] -> 1[1] via P2P/CUMEM/read\n\
             n1:10:12 [1] NCCL INFO Channel 00/0 : 1[1] -> 0[0] [send] via NET/IB/0/GDRDMA\n\
             n1:10:11 [0] NCCL INFO Channel 00/0 : 1[1] -> 0[0] [receive] via NET/IB/0/GDRDMA\n\
             n1:10:12 [1] NCCL WARN Call to connect failed\n",
        );
        let log = &logs[0];
        assert_eq!((log.version.as_deref(), log.host.as_deref()), (Some("2.27.3+cuda12.9"), Some("n1")));
        assert_eq!(log.networks, ["mlx5_0:1/IB", "mlx5_1:1/RoCE"]);
        assert_eq!(log.ranks[&0].address.unwrap().to_string(), "0001:c1:06.0");
        assert_eq!((log.ranks[&0].cuda, log.ranks[&1]), (Some(0), NcclRank::default()));
        assert_eq!(log.rings, [[0, 1]]);
        let [p2p, net] = log.transports.as_slice() else { panic!() };
        assert_eq!((p2p.via.as_str(), p2p.channels), ("P2P/CUMEM/read", 2));
        assert_eq!((net.from, net.via.as_str(), net.channels), (1, "NET/IB/0/GDRDMA", 1));
        assert_eq!(log.warnings, ["Call to connect failed"]);
    }

    #[test]
    fn old_ends_carry_bus_ids() {
        let logs = logs("h:1:2 [0] NCCL INFO Channel 00 : 0[1b000] -> 1[1c000] via P2P/IPC\n");
        assert_eq!(logs[0].ranks[&1].address.unwrap().to_string(), "0000:1c:00.0");
    }

    #[test]
    fn runs_are_kept_apart_and_prose_is_none() {
        let run = "NCCL version 2.1.2\nh:1:2 [0] NCCL INFO Ring 00 :    0   1\n";
        assert_eq!(logs(&run.repeat(2)).len(), 2);
        assert!(logs("We used NCCL version 2.4 for this.\nNCCL version matters\n").is_empty());
    }

    #[test]
    fn what_keeps_access_from_being_used() {
        let mut found = Found::default();
        let text = "NCCL INFO NCCL_P2P_LEVEL set by environment to LOC\n\
                    n1:1:2 [0] NCCL INFO comm 0x5 rank 0 nranks 2 cudaDev 0 nvmlDev 4 busId ca000 - Init START\n\
                    n1:1:2 [0] NCCL INFO comm 0x5 rank 1 nranks 2 cudaDev 1 nvmlDev 5 busId cb000 - Init START\n\
                    n1:1:2 [0] NCCL INFO P2P is disabled between connected GPUs 5 and 4. You can repress this message\n\
                    n1:1:2 [0] NCCL INFO NET/IB : GPU Direct RDMA Disabled for HCA 1 'mlx5_1'\n\
                    n1:1:2 [0] NCCL INFO GPU Direct RDMA Disabled for GPU ca000 / HCA 0 (distance 7 > 4)\n\
                    n1:1:2 [0] NCCL INFO Using network Socket\n\
                    n1:1:2 [0] NCCL INFO Channel 00 : 0[ca000] -> 1[cb000] via direct shared memory\n\
                    n1:1:2 [1] transport/nvls.cc:254 NCCL WARN Cuda failure 401 'not in the present state'\n\
                    Failed to bind NVLink SHARP (NVLS) Multicast memory of size 2097152 : CUDA error 401\n";
        scan(&Text::new("t", text.as_bytes()), &mut found);
        let [Fact::NcclLog(log), Fact::Gpus(gpus), Fact::P2p(p2p)] =
            &found.evidence.iter().map(|e| e.fact.clone()).collect::<Vec<_>>()[..]
        else {
            panic!("{found:?}")
        };
        assert_eq!((log.hosts, log.size, log.network.as_deref()), (1, Some(2), Some("Socket")));
        assert_eq!(log.variables["NCCL_P2P_LEVEL"], "LOC");
        assert_eq!(log.transports[0].via, "SHM");
        let [one, far] = &log.staged[..] else { panic!() };
        assert_eq!((one.adapter.as_str(), one.gpu, one.distance), ("mlx5_1", None, None));
        assert_eq!((far.adapter.as_str(), far.gpu.is_some(), far.distance), ("0", true, Some((7, 4))));
        assert_eq!(log.warnings.len(), 2);
        assert!(log.warnings[0].starts_with("transport/nvls.cc:254 Cuda failure 401"));
        assert_eq!((gpus[0].index, gpus[0].address.unwrap().to_string()), (Some(4), "0000:ca:00.0".to_owned()));
        assert_eq!(p2p.rows, ["GPU4", "GPU5"]);
        assert_eq!(p2p.cells, [[None, Some(P2pStatus::NotSupported)], [Some(P2pStatus::NotSupported), None]]);
    }

    #[test]
    fn what_gets_gpudirect_somewhere_is_not_staged() {
        let staged = |lines: &[&str]| {
            let text: String = lines.iter().map(|line| format!("n1:1:2 [0] NCCL INFO {line}\n")).collect();
            let mut found = Found::default();
            scan(&Text::new("t", text.as_bytes()), &mut found);
            let Fact::NcclLog(log) = &found.evidence[0].fact else { panic!() };
            log.staged.len()
        };
        let far = "GPU Direct RDMA Disabled for GPU ca000 / HCA 3 (distance 7 > 5)";
        assert_eq!(staged(&[far]), 1);
        assert_eq!(staged(&["GPU Direct RDMA Enabled for GPU ca000 / HCA 0 (distance 4 <= 5), read 1", far]), 0);
        assert_eq!(staged(&["GPU Direct RDMA Enabled for GPU cb000 / HCA 0 (distance 4 <= 5), read 1", far]), 1);
        assert_eq!(staged(&["NET/Socket : GPU Direct RDMA Disabled for HCA 0 'eth0'"]), 0, "TCP has none");
    }

    #[test]
    fn ranks_of_several_hosts_are_no_gpus_of_one() {
        let line = |host: &str, rank: u32| {
            format!("{host}:1:2 [0] NCCL INFO comm 0x5 rank {rank} nranks 2 cudaDev 0 nvmlDev 0 busId ca000 - Init\n")
        };
        let mut found = Found::default();
        scan(&Text::new("t", (line("n1", 0) + &line("n2", 1)).as_bytes()), &mut found);
        assert_eq!(found.evidence.len(), 1);
    }

    #[test]
    fn ranks_that_each_see_one_gpu_are_numbered_by_address() {
        let text = "NCCL INFO Channel 00 : 1[89000] -> 0[3d000] via direct shared memory\n\
                    NCCL INFO comm 0x7f rank 1 nranks 2 cudaDev 0 busId 89000 - Init COMPLETE\n\
                    NCCL INFO comm 0x7f rank 0 nranks 2 cudaDev 0 busId 3d000 - Init COMPLETE\n";
        let mut found = Found::default();
        scan(&Text::new("t", text.as_bytes()), &mut found);
        let Fact::Gpus(gpus) = &found.evidence[1].fact else { panic!() };
        let all: Vec<(Option<u32>, u8)> = gpus.iter().map(|g| (g.index, g.address.unwrap().bus)).collect();
        assert_eq!(all, [(Some(0), 0x3d), (Some(1), 0x89)]);
        let some = text.replace("nranks 2", "nranks 16");
        let mut found = Found::default();
        scan(&Text::new("t", some.as_bytes()), &mut found);
        assert_eq!(found.evidence.len(), 1, "of several hosts, perhaps");
    }
}
