//! What single lines of NCCL's log state.

use super::super::NcclRank;
use peerlane_machine::fabric::PciAddress;

/// `P2P is disabled between connected GPUs 1 and 0. …`, of NVLinked ones `… between NVLINK connected GPUs 1 and 0. …`:
/// NCCL asked NVML, and prints NVML's numbers.
pub(super) fn refused(words: &str) -> Option<(u32, u32)> {
    let (reason, rest) = words.split_once("connected GPUs ")?;
    let (a, rest) = rest.split_once(" and ")?;
    let digits = rest.split(|c: char| !c.is_ascii_digit()).next()?;
    reason.starts_with("P2P is disabled between").then_some((a.trim().parse().ok()?, digits.parse().ok()?))
}

/// `Could not enable P2P between dev 1(=1b000) and dev 0(=1a000)`, `peer query failed between dev …`: CUDA refuses; its
/// numbers and the addresses.
pub(super) fn not_enabled(words: &str) -> Option<[(u32, PciAddress); 2]> {
    let rest = words
        .strip_prefix("Could not enable P2P between dev ")
        .or(words.strip_prefix("peer query failed between dev "))?;
    let (a, b) = rest.split_once(" and dev ")?;
    let device = |word: &str| {
        let (number, address) = word.split(')').next()?.split_once("(=")?;
        Some((number.trim().parse().ok()?, bus_id(address)?))
    };
    Some([device(a)?, device(b)?])
}

/// An adapter that gets or does not get GPUDirect RDMA, as a line names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct OfAdapter {
    /// Its name, else NCCL's number.
    pub(super) adapter: String,
    /// The GPU that it is about alone: its bus id, since 2.24 its rank.
    pub(super) gpu: Option<String>,
    /// NCCL's number of their path's class, and the largest that it takes.
    pub(super) distance: Option<(u32, u32)>,
}

/// `NET/IB : GPU Direct RDMA Disabled for HCA 0 'mlx5_0'`, or for one GPU `GPU Direct RDMA Disabled for GPU ca000 / HCA 0
/// (distance 7 > 4)`.
pub(super) fn of_adapter(words: &str, mark: &str) -> Option<OfAdapter> {
    let (of_net, of) = words.split_once(mark)?;
    // sockets have no RDMA to disable
    if of_net.contains("Socket") {
        return None;
    }
    let (before, hca) = of.split_once("HCA ")?;
    let gpu = before.strip_prefix("GPU ").and_then(|w| w.split_whitespace().next()).map(str::to_owned);
    let name = hca.split('\'').nth(1).map(str::to_owned);
    let adapter = name.or_else(|| hca.split_whitespace().next().map(str::to_owned))?;
    let distance = hca.split_once("(distance ").and_then(|(_, d)| {
        let mut words = d.split(')').next()?.split_whitespace();
        let (far, relation, most) = (words.next()?, words.next()?, words.next()?);
        matches!(relation, ">" | "<=" | ">=" | "<").then_some((far.parse().ok()?, most.parse().ok()?))
    });
    Some(OfAdapter { adapter, gpu, distance })
}

/// `NCCL_P2P_DISABLE set by environment to 1`, with a full stop in newer versions; `NCCL_IB_HCA set to mlx5_0`.
pub(super) fn variable(words: &str) -> Option<(&str, &str)> {
    let (name, value) = words.split_once(" set by environment to ").or_else(|| words.split_once(" set to "))?;
    let name = name.rsplit(' ').next().filter(|n| n.starts_with("NCCL_") || n.starts_with("RCCL_"))?;
    Some((name, value.trim().trim_end_matches('.')))
}

/// One end of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct End {
    pub(super) rank: u32,
    pub(super) gpu: Option<Bracket>,
}

/// What stands in brackets behind a rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Bracket {
    /// The driver's number of the GPU; before 2.5 CUDA's.
    Number(u32),
    /// Its bus id.
    Address(PciAddress),
}

/// `Channel 00/0 : 0[0] -> 1[1] via P2P/CUMEM/read`; between hosts `… [send] via NET/IB/0/GDRDMA`, old `Ring 00 : …`.
pub(super) fn connection(words: &str) -> Option<(End, End, &str, &str)> {
    let (channel, rest) = channel(words)?;
    let (ends, via) = rest.split_once(" via ")?;
    let (from, to) = ends.split_once(" -> ")?;
    let to = to.split_whitespace().next()?;
    // versions before 2.12 print it in words
    let via = if via.starts_with("direct shared memory") { "SHM" } else { via.split_whitespace().next()? };
    Some((end(from.trim())?, end(to)?, via, channel))
}

/// Whether a connection's line is that of its receiving end.
pub(super) fn receives(words: &str) -> bool {
    words.contains(" [receive] via ")
}

/// The number of a channel and what follows its colon.
fn channel(words: &str) -> Option<(&str, &str)> {
    let rest = words.strip_prefix("Channel ").or_else(|| words.strip_prefix("Ring "))?;
    let (channel, rest) = rest.split_once(':')?;
    Some((channel.trim(), rest))
}

/// `0[1b000]`: rank and bus id; since 2.18, and before 2.5, the device's number in place of the bus id. Before 2.5 the rank
/// alone where the network follows.
fn end(word: &str) -> Option<End> {
    let Some((rank, bracket)) = word.strip_suffix(']').and_then(|w| w.split_once('[')) else {
        return Some(End { rank: word.parse().ok()?, gpu: None });
    };
    // a device's number has two digits at most, a bus id ends in device and function
    let gpu = match bracket.parse() {
        Ok(number) if bracket.len() <= 2 => Some(Bracket::Number(number)),
        _ => bus_id(bracket).map(Bracket::Address),
    };
    Some(End { rank: rank.parse().ok()?, gpu })
}

/// NCCL's bus id: domain, bus (8 bits), device (8 bits, of which PCI uses 5) and function (4 bits), in hex.
pub(in super::super) fn bus_id(hex: &str) -> Option<PciAddress> {
    let id = u64::from_str_radix(hex.trim_start_matches("0x"), 16).ok()?;
    let domain = u32::try_from(id >> 20).ok()?;
    let (bus, device, function) = ((id >> 12 & 0xff) as u8, (id >> 4 & 0xff) as u8, (id & 0xf) as u8);
    (device < 32 && function < 8).then_some(PciAddress { domain, bus, device, function })
}

/// `Channel 00/02 :    0   1   2   3`.
pub(super) fn ring(words: &str) -> Option<Vec<u32>> {
    let ranks: Vec<u32> = channel(words)?.1.split_whitespace().map(str::parse).collect::<Result<_, _>>().ok()?;
    (ranks.len() > 1).then_some(ranks)
}

/// The heading of a graph that NCCL's search found.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Pattern {
    /// NCCL's number: 4 is a ring.
    pub(super) number: u32,
    pub(super) channels: usize,
    /// GB/s of each channel inside the host.
    pub(super) speed: f64,
}

/// `Pattern 4, crossNic 0, nChannels 12, bw 20.000000/20.000000, type NVL/PIX, sameChannels 1`, before 2.13 `speed` for `bw`.
pub(super) fn pattern(words: &str) -> Option<Pattern> {
    let (number, rest) = words.strip_prefix("Pattern ")?.split_once(',')?;
    let field = |name: &str| rest.split(',').find_map(|f| f.trim().strip_prefix(name)).map(str::trim);
    let speed = field("bw ").or_else(|| field("speed "))?.split('/').next()?.parse().ok()?;
    let speed = Some(speed).filter(|s: &f64| s.is_finite())?;
    Some(Pattern { number: number.trim().parse().ok()?, channels: field("nChannels ")?.parse().ok()?, speed })
}

/// A GPU in a channel of a graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum InGraph {
    /// Its rank.
    Rank(u32),
    /// Its address, since 2.28.
    Address(PciAddress),
}

/// ` 0 : NET/0 GPU/0 GPU/1 NET/0`, since 2.28 `GPU/0-1b000`: the GPUs of a channel.
pub(super) fn graph_channel(words: &str) -> Option<Vec<InGraph>> {
    let (number, rest) = words.split_once(" :")?;
    number.trim().parse::<u32>().ok()?;
    let gpu = |word: &str| match word.split_once('-') {
        Some((_, id)) => bus_id(id).map(InGraph::Address),
        None => word.parse().ok().map(InGraph::Rank),
    };
    let gpus: Vec<&str> = rest.split_whitespace().filter_map(|w| w.strip_prefix("GPU/")).collect();
    (!gpus.is_empty()).then_some(())?;
    gpus.into_iter().map(gpu).collect()
}

/// A rank of a communicator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Member {
    /// What all ranks of the communicator print of it, since 2.17.
    pub(super) communicator: Option<String>,
    /// Its ranks.
    pub(super) size: Option<u32>,
    pub(super) number: u32,
    pub(super) rank: NcclRank,
}

/// `ncclCommInitRank comm 0x… rank 0 nranks 4 cudaDev 0 nvmlDev 0 busId 6000 commId 0x1 - Init START`, of RCCL `nRanks`.
pub(super) fn member(words: &str) -> Option<Member> {
    // most lines are none
    if !words.contains("busId") && !words.contains("cudaDev") {
        return None;
    }
    let size = value(words, "nranks").or_else(|| value(words, "nRanks"))?;
    let number = |key| value(words, key).and_then(|n| n.parse().ok());
    let address = value(words, "busId").and_then(bus_id);
    Some(Member {
        communicator: value(words, "commId").map(str::to_owned),
        size: size.parse().ok(),
        number: number("rank")?,
        rank: NcclRank { cuda: number("cudaDev"), driver: number("nvmlDev"), address },
    })
}

/// The word after `key`.
fn value<'a>(words: &'a str, key: &str) -> Option<&'a str> {
    let mut words = words.split_whitespace();
    words.find(|w| *w == key).and_then(|_| words.next())
}

/// `NET/IB : Using [0]mlx5_0:1/IB [1]mlx5_1:1/RoCE [RO]; OOB eth0:10.0.0.1<0>`: the kind, `IB` or `Socket`, and the names.
/// A list that a page has broken is empty here.
pub(in super::super) fn networks(words: &str) -> Option<(&str, Vec<String>)> {
    let (kind, used) = words.strip_prefix("NET/")?.split_once(" : Using")?;
    Some((kind.trim(), used.split_whitespace().filter_map(network).collect()))
}

/// `[0]mlx5_0:1/IB`.
pub(super) fn network(word: &str) -> Option<String> {
    let (number, name) = word.strip_prefix('[')?.split_once(']')?;
    number.parse::<u32>().ok().filter(|_| !name.is_empty()).map(|_| name.trim_end_matches(';').to_owned())
}
