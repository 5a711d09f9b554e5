//! Reads logs written under `NCCL_DEBUG=INFO`: ranks, rings, and the transport that each connection uses.

use std::collections::{BTreeMap, BTreeSet};

use super::{Fact, Found, NcclLog, NcclTransport, Text};
use crate::fabric::PciAddress;

const TOOL: &str = "NCCL_DEBUG=INFO";

/// More network devices than any machine has.
const MAX_NETWORKS: usize = 256;

pub(super) fn scan(text: &Text, found: &mut Found) {
    let mut log = Log::default();
    for (i, line) in text.iter() {
        if let Some(version) = version(line) {
            // every run prints its version once a host, before anything else
            if log.has_connections() {
                std::mem::take(&mut log).push(text, found);
            }
            log.seen(i);
            log.result.version.get_or_insert_with(|| version.to_owned());
        } else if let Some((prefix, words)) = line.split_once(" NCCL INFO ") {
            log.seen(i);
            log.host(prefix);
            log.info(words.trim());
        } else if let Some((prefix, words)) = line.split_once(" NCCL WARN ") {
            log.seen(i);
            log.host(prefix);
            log.result.warnings.push(words.trim().to_owned());
        }
    }
    log.push(text, found);
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
    lines: Option<(usize, usize)>,
}

impl Log {
    fn seen(&mut self, line: usize) {
        self.lines = Some((self.lines.map_or(line, |lines| lines.0), line));
    }

    fn has_connections(&self) -> bool {
        !self.channels.is_empty() || !self.result.rings.is_empty()
    }

    /// `host:pid:tid [0]`, perhaps behind a launcher's own prefix.
    fn host(&mut self, prefix: &str) {
        // `mpirun --tag-output` glues its own prefix to it: `[1,0]<stdout>:host:pid:tid`
        let words = prefix.split_whitespace().rev().map(|w| w.rsplit_once(">:").map_or(w, |(_, own)| own));
        let process = words.into_iter().find(|w| w.split(':').count() == 3);
        if let Some(host) = process.and_then(|w| w.split(':').next()).filter(|h| !self.hosts.contains(*h)) {
            self.hosts.insert(host.to_owned());
        }
    }

    fn info(&mut self, words: &str) {
        if let Some((from, to, via, channel)) = connection(words) {
            self.channels.entry((from.rank, to.rank, via.to_owned())).or_default().insert(channel.to_owned());
            for end in [from, to] {
                let rank = self.result.ranks.entry(end.rank).or_default();
                rank.1 = rank.1.or(end.address);
            }
        } else if let Some(ring) = ring(words) {
            self.result.rings.push(ring);
        } else if let Some((rank, device, address)) = rank(words) {
            let known = self.result.ranks.entry(rank).or_default();
            *known = (device.or(known.0), address.or(known.1));
        } else if let Some(networks) = networks(words) {
            for network in networks {
                if self.result.networks.len() < MAX_NETWORKS && !self.result.networks.contains(&network) {
                    self.result.networks.push(network);
                }
            }
        }
    }

    fn push(self, text: &Text, found: &mut Found) {
        let Some((first, last)) = self.lines else { return };
        let mut log = self.result;
        let mut hosts = self.hosts.into_iter();
        // one name only: ranks of several hosts have none in common
        log.host = hosts.next().filter(|_| hosts.next().is_none());
        log.transports = self
            .channels
            .into_iter()
            .map(|((from, to, via), channels)| NcclTransport { from, to, via, channels: channels.len() as u32 })
            .collect();
        found.push(text, TOOL, text.numbers(first, last), Fact::NcclLog(log));
    }
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
    Some((end(from.trim())?, end(to)?, via.split_whitespace().next()?, channel))
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
fn bus_id(hex: &str) -> Option<PciAddress> {
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

/// `ncclCommInitRank comm 0x… rank 0 nranks 4 cudaDev 0 nvmlDev 0 busId 6000 …`: rank, CUDA device, address.
fn rank(words: &str) -> Option<(u32, Option<u32>, Option<PciAddress>)> {
    let words: Vec<&str> = words.split_whitespace().collect();
    let value = |key: &str| words.iter().position(|w| *w == key).and_then(|i| words.get(i + 1)).copied();
    value("nranks")?;
    let device = value("cudaDev").and_then(|d| d.parse().ok());
    Some((value("rank")?.parse().ok()?, device, value("busId").and_then(bus_id)))
}

/// `NET/IB : Using [0]mlx5_0:1/IB [1]mlx5_1:1/RoCE [RO]; OOB eth0:10.0.0.1<0>`.
fn networks(words: &str) -> Option<Vec<String>> {
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
        assert_eq!(log.ranks[&0].1.unwrap().to_string(), "0001:c1:06.0");
        assert_eq!((log.ranks[&0].0, log.ranks[&1]), (Some(0), (None, None)));
        assert_eq!(log.rings, [[0, 1]]);
        let [p2p, net] = log.transports.as_slice() else { panic!() };
        assert_eq!((p2p.via.as_str(), p2p.channels), ("P2P/CUMEM/read", 2));
        assert_eq!((net.from, net.via.as_str(), net.channels), (1, "NET/IB/0/GDRDMA", 1));
        assert_eq!(log.warnings, ["Call to connect failed"]);
    }

    #[test]
    fn old_ends_carry_bus_ids() {
        let logs = logs("h:1:2 [0] NCCL INFO Channel 00 : 0[1b000] -> 1[1c000] via P2P/IPC\n");
        assert_eq!(logs[0].ranks[&1].1.unwrap().to_string(), "0000:1c:00.0");
    }

    #[test]
    fn runs_are_kept_apart_and_prose_is_none() {
        let run = "NCCL version 2.1.2\nh:1:2 [0] NCCL INFO Ring 00 :    0   1\n";
        assert_eq!(logs(&run.repeat(2)).len(), 2);
        assert!(logs("We used NCCL version 2.4 for this.\nNCCL version matters\n").is_empty());
    }
}
