//! Fat trees, plain or rail-optimised: extended generalised fat trees (Öhring, Ibel, Das and Kumar, *On generalized fat
//! trees*, IPPS 1995).
//!
//! Level 0 is the ports. A switch of level i has `down[i - 1]` children and stands, with `up[0] × … × up[i - 1]` others,
//! above the same ports; each of its children is joined to `up[i - 1]` such switches.

use std::collections::BTreeSet;

use super::super::ClusterError;
use super::{Port, port_name};

/// Ports of a switch where none is given: 64 of 400 Gb/s (NVIDIA QM9700 data sheet).
const RADIX: u32 = 64;

/// How a message chooses among the ways up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Paths {
    /// By the destination's number, as subnet managers of InfiniBand do (Zahavi, *D-Mod-K routing*, 2010).
    Static,
    /// By a hash of both ports, as equal-cost routing of IP does.
    Hashed,
}

/// A fat tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FatTree {
    /// Children of a switch, by level from the leaves.
    pub down: Vec<u32>,
    /// Switches above a port, or above a switch, by level from the ports.
    pub up: Vec<u32>,
    /// Links between a child and one of its parents, by level.
    pub links: Vec<u32>,
    /// Whether a leaf switch holds the same NIC of several nodes.
    pub rail: bool,
    /// How ways up are chosen.
    pub paths: Paths,
}

impl FatTree {
    /// A tree for so many ports: as few levels as suffice, of switches of 64 ports, or of more where three levels of
    /// those do not; the taper is at the leaves.
    pub(super) fn sized(
        nodes: u32,
        nics: u32,
        levels: Option<u32>,
        taper: u32,
        rail: bool,
    ) -> Result<(Self, Vec<String>), ClusterError> {
        let ports = u64::from(nodes) * u64::from(nics.max(1));
        let nics = if rail { nics.max(1) } else { 1 };
        let refuse = |why: String| Err(ClusterError::Network(why));
        // what a tree of so many levels of such switches holds: half of the ports go up, but at the top
        let holds = |levels: u32, radix: u32| {
            let leaf = u64::from(radix) * u64::from(taper) / (u64::from(taper) + 1);
            let half = u64::from(radix / 2);
            match levels {
                1 => u64::from(radix),
                levels => leaf * half.pow(levels.min(6) - 2) * u64::from(radix),
            }
        };
        let wanted = match levels {
            Some(levels @ 1..=4) => levels,
            Some(levels) => return refuse(format!("{levels} levels; a fat tree has 1 to 4")),
            None => (1..=3).find(|l| holds(*l, RADIX) >= ports).unwrap_or(3),
        };
        let mut radix = RADIX;
        while holds(wanted, radix) < ports {
            radix *= 2;
        }
        let mut said = Vec::new();
        if wanted == 1 {
            let tree =
                FatTree { down: vec![ports as u32], up: vec![1], links: vec![1], rail: false, paths: Paths::Static };
            return Ok((tree, said));
        }
        let leaf = (u64::from(radix) * u64::from(taper) / (u64::from(taper) + 1)).max(1) as u32;
        let half = radix / 2;
        let above = (radix - leaf).max(1);
        let mut down = vec![leaf];
        let mut up = vec![1, above];
        for _ in 2..wanted {
            down.push(half);
            up.push(half);
        }
        // leaves of rails come in sets of one for each NIC
        let unit: u64 = u64::from(leaf) * u64::from(nics);
        let padded = ports.div_ceil(unit) * unit;
        let below: u64 = down.iter().map(|n| u64::from(*n)).product();
        down.push(padded.div_ceil(below).max(1) as u32);
        up.truncate(wanted as usize);
        let links = vec![1; wanted as usize];
        said.push(format!(
            "The fat tree has {wanted} levels of switches with {radix} ports: {leaf} ports of nodes at a leaf switch, {above} \
             links up from it."
        ));
        Ok((FatTree { down, up, links, rail, paths: Paths::Static }, said))
    }

    /// The number of a port among the leaves.
    fn place(&self, nics: u32, port: Port) -> u64 {
        let (node, nic, nics) = (u64::from(port.node), u64::from(port.nic), u64::from(nics.max(1)));
        if !self.rail {
            return node * nics + nic;
        }
        let leaf = u64::from(self.down[0]);
        (node / leaf * nics + nic) * leaf + node % leaf
    }

    /// The number of a port, node first, of its place among the leaves.
    fn port_at(&self, nics: u32, place: u64) -> u64 {
        let nics = u64::from(nics.max(1));
        if !self.rail {
            return place;
        }
        let leaf = u64::from(self.down[0]);
        let (switch, slot) = (place / leaf, place % leaf);
        (switch / nics * leaf + slot) * nics + switch % nics
    }

    /// Up as far as needed and down again, by the first way, from the chosen one on, none of whose links has failed.
    pub(super) fn path(
        &self,
        nics: u32,
        from: Port,
        to: Port,
        failed: &BTreeSet<u64>,
        channels: &mut Vec<u64>,
    ) -> Result<(), ClusterError> {
        let (a, b) = (self.place(nics, from), self.place(nics, to));
        let choice = match self.paths {
            Paths::Static => b,
            Paths::Hashed => mix(a, b),
        };
        let first = channels.len();
        let ways = self.by(a, b, choice, channels);
        if failed.is_empty() {
            return Ok(());
        }
        for other in 1..=ways {
            if !channels[first..].iter().any(|c| failed.contains(c)) {
                return Ok(());
            }
            channels.truncate(first);
            // all ways are gone through, whichever is chosen first
            self.by(a, b, choice % ways + other, channels);
        }
        let name = |port: Port| port_name(nics, u64::from(port.node) * u64::from(nics.max(1)) + u64::from(port.nic));
        Err(ClusterError::Disconnected(name(from), format!("{}: every way has a failed link", name(to))))
    }

    /// One of the ways from `a` to `b`, and how many there are.
    fn by(&self, a: u64, b: u64, choice: u64, channels: &mut Vec<u64>) -> u64 {
        // up: which copy of the switch above is taken, as digits of `copy`
        let (mut here, mut there, mut copy, mut copies) = (a, b, 0, 1);
        let mut level = 0;
        while here != there {
            let ways = u64::from(self.up[level]);
            let way = choice / copies % ways;
            channels.push(self.channel(level, here * copies + copy, way, false));
            copy += way * copies;
            copies *= ways;
            here /= u64::from(self.down[level]);
            there /= u64::from(self.down[level]);
            level += 1;
        }
        let all = copies;
        while level > 0 {
            level -= 1;
            let ways = u64::from(self.up[level]);
            copies /= ways;
            let way = copy / copies;
            copy %= copies;
            let below: u64 = self.down[..level].iter().map(|n| u64::from(*n)).product();
            channels.push(self.channel(level, b / below * copies + copy, way, true));
        }
        all
    }

    /// Both directions of `uplink:leaf3/2`.
    pub(super) fn uplink(&self, link: &str) -> Result<[u64; 2], ClusterError> {
        let refuse = |why: String| ClusterError::Network(format!("'{link}': {why}"));
        let words =
            link.strip_prefix("uplink:").ok_or_else(|| refuse("write uplink:leaf3 or uplink:leaf3/2".into()))?;
        let (switch, way) = words.split_once('/').unwrap_or((words, "0"));
        let digits = switch.trim_start_matches(|c: char| !c.is_ascii_digit());
        let word = &switch[..switch.len() - digits.len()];
        let number = |text: &str| text.parse::<u64>().map_err(|_| refuse(format!("'{text}' is no number")));
        let (switch, way) = (number(digits)?, number(way)?);
        let level = match word {
            "leaf" => 1,
            "spine" => 2,
            _ => return Err(refuse("links go up from a leaf or a spine".into())),
        };
        if level >= self.up.len() {
            return Err(refuse(format!("no links go up from a {word} of this network")));
        }
        let under = self.down[..level].iter().map(|n| u64::from(*n)).product::<u64>();
        let all = self.down.iter().map(|n| u64::from(*n)).product::<u64>() / under;
        let switches = all * self.up[..level].iter().map(|n| u64::from(*n)).product::<u64>();
        let ways = u64::from(self.up[level]);
        if switch >= switches || way >= ways {
            let last = (switches - 1, ways - 1);
            return Err(refuse(format!("the last is uplink:{word}{}/{}", last.0, last.1)));
        }
        Ok([false, true].map(|down| self.channel(level, switch, way, down)))
    }

    /// See `Network::kind`.
    pub(super) fn kind(&self, channel: u64) -> u64 {
        let (level, _, _, down) = self.parts(channel);
        2 * level as u64 + u64::from(down)
    }

    /// Channels between level `level` and the one above: `lower` is the number of the lower switch, or port.
    fn channel(&self, level: usize, lower: u64, way: u64, downwards: bool) -> u64 {
        ((lower * u64::from(self.up[level]) + way) * 2 + u64::from(downwards)) * self.up.len() as u64 + level as u64
    }

    /// The level, lower switch or port, way and direction of a channel.
    fn parts(&self, channel: u64) -> (usize, u64, u64, bool) {
        let levels = self.up.len() as u64;
        let (level, rest) = ((channel % levels) as usize, channel / levels);
        let ways = u64::from(self.up[level]);
        (level, rest / 2 / ways, rest / 2 % ways, rest % 2 == 1)
    }

    pub(super) fn parallel(&self, channel: u64) -> u32 {
        self.links[self.parts(channel).0]
    }

    pub(super) fn name(&self, nics: u32, channel: u64) -> String {
        let (level, lower, way, downwards) = self.parts(channel);
        let copies: u64 = self.up[..level].iter().map(|n| u64::from(*n)).product();
        let (group, copy) = (lower / copies, lower % copies);
        let above = group / u64::from(self.down[level]) * copies * u64::from(self.up[level]) + copy + way * copies;
        let below = if level == 0 { port_name(nics, self.port_at(nics, lower)) } else { self.switch(level, lower) };
        let above = self.switch(level + 1, above);
        if downwards { format!("{above} to {below}") } else { format!("{below} to {above}") }
    }

    fn switch(&self, level: usize, number: u64) -> String {
        let word = match (level, self.up.len()) {
            (1, _) => "leaf",
            (l, top) if l == top && top > 2 => "core",
            (2, _) => "spine",
            _ => return format!("level{level}-{number}"),
        };
        format!("{word}{number}")
    }
}

/// Two numbers to one of which every digit depends on all of both (the finaliser of SplitMix64; Steele et al., 2014).
fn mix(a: u64, b: u64) -> u64 {
    let mut x = a.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ b;
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}
