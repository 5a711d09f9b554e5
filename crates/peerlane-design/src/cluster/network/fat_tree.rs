//! Fat trees, plain or rail-optimised: extended generalised fat trees (Öhring, Ibel, Das and Kumar, *On generalized fat
//! trees*, IPPS 1995).
//!
//! Level 0 is the ports. A switch of level i has `down[i - 1]` children and stands, with `up[0] × … × up[i - 1]` others,
//! above the same ports; each of its children is joined to `up[i - 1]` such switches.

use std::collections::BTreeSet;

use super::super::ClusterError;
use super::{Port, Routing, Taper, port_name};

/// Ports of a switch where none is given: 64 of 400 Gb/s (NVIDIA QM9700 data sheet).
const RADIX: u64 = 64;
/// Marks a channel that stands for all links between the switches of a level above some ports and those of the next level,
/// among which adaptive routing chooses.
const ALL: u64 = 1 << 60;

/// A fat tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FatTree {
    /// Children of a switch, by level from the leaves.
    pub down: Vec<u64>,
    /// Switches above a port, or above a switch, by level from the ports.
    pub up: Vec<u64>,
    /// Whether a leaf switch holds the same NIC of several nodes.
    pub rail: bool,
}

impl FatTree {
    /// A tree for so many ports: as few levels as suffice, of switches of 64 ports, or of more where three levels of
    /// those do not; the taper is at the leaves.
    pub(super) fn sized(
        nodes: u32,
        nics: u32,
        levels: Option<u32>,
        taper: Taper,
        rail: bool,
    ) -> Result<(Self, Vec<String>), ClusterError> {
        let ports = u64::from(nodes) * u64::from(nics.max(1));
        let nics = if rail { u64::from(nics.max(1)) } else { 1 };
        // what a tree of so many levels of such switches holds: half of the ports go up, but at the top
        let holds = |levels: u32, radix: u64| match levels {
            1 => radix,
            levels => taper.ports(radix)[0] * (radix / 2).pow(levels.min(6) - 2) * radix,
        };
        let wanted = match levels {
            Some(levels @ 1..=4) => levels,
            Some(levels) => return Err(ClusterError::Network(format!("{levels} levels; a fat tree has 1 to 4"))),
            None => (1..=3).find(|l| holds(*l, RADIX) >= ports).unwrap_or(3),
        };
        let mut radix = RADIX;
        while wanted > 1 && taper.ports(radix)[0] == 0 {
            radix *= 2;
        }
        while holds(wanted, radix) < ports {
            radix *= 2;
        }
        if wanted == 1 {
            return Ok((FatTree { down: vec![ports], up: vec![1], rail: false }, Vec::new()));
        }
        let [leaf, above] = taper.ports(radix);
        let between = vec![radix / 2; wanted as usize - 2];
        let mut down = [&[leaf], between.as_slice()].concat();
        let up = [&[1, above], between.as_slice()].concat();
        // leaves of rails come in sets of one for each NIC
        let unit = leaf * nics;
        let padded = ports.div_ceil(unit) * unit;
        down.push(padded.div_ceil(down.iter().product()).max(1));
        let stated = format!(
            "The fat tree has {wanted} levels of switches with {radix} ports: {leaf} ports of nodes at a leaf switch, {above} \
             links up from it."
        );
        Ok((FatTree { down, up, rail }, vec![stated]))
    }

    /// The number of a port among the leaves.
    pub(crate) fn place(&self, nics: u32, port: Port) -> u64 {
        let (node, nic, nics) = (u64::from(port.node), u64::from(port.nic), u64::from(nics.max(1)));
        if !self.rail {
            return node * nics + nic;
        }
        let leaf = self.down[0];
        (node / leaf * nics + nic) * leaf + node % leaf
    }

    /// The number of the leaf switch of a port.
    pub(crate) fn leaf(&self, nics: u32, port: Port) -> u64 {
        self.place(nics, port) / self.down[0]
    }

    /// The number of a port, node first, of its place among the leaves.
    fn port_at(&self, nics: u32, place: u64) -> u64 {
        let nics = u64::from(nics.max(1));
        if !self.rail {
            return place;
        }
        let leaf = self.down[0];
        let (switch, slot) = (place / leaf, place % leaf);
        (switch / nics * leaf + slot) * nics + switch % nics
    }

    /// Up as far as needed and down again, by the chosen path, or the next one without a failed link; with adaptive routing
    /// over all. `None` where every path has a failed link.
    pub(super) fn path(
        &self,
        nics: u32,
        [from, to]: [Port; 2],
        routing: Routing,
        failed: &BTreeSet<u64>,
        channels: &mut Vec<u64>,
    ) -> Option<u32> {
        let (a, b) = (self.place(nics, from), self.place(nics, to));
        let (first, choice) = (channels.len(), routing.choice(a, b));
        let ways = self.by(a, b, choice, channels);
        if !failed.is_empty() {
            let mut other = 0;
            while channels[first..].iter().any(|channel| failed.contains(channel)) {
                other += 1;
                if other > ways {
                    return None;
                }
                channels.truncate(first);
                // all paths are tried, whichever is chosen first
                self.by(a, b, choice % ways + other, channels);
            }
        }
        if routing == Routing::Adaptive {
            channels[first..].iter_mut().for_each(|channel| *channel = self.all(*channel));
        }
        Some(1)
    }

    /// What stands for all links of the same place in the paths between the same ports.
    fn all(&self, channel: u64) -> u64 {
        let (level, lower, _, down) = self.parts(channel);
        let copies: u64 = self.up[..level].iter().product();
        if copies * self.up[level] == 1 {
            return channel;
        }
        self.channel(level, lower / copies * copies, 0, down) | ALL
    }

    /// How many links a channel stands for, where it stands for several.
    pub(super) fn links(&self, channel: u64) -> Option<u64> {
        let (level, ..) = self.parts(channel);
        (channel & ALL != 0).then(|| self.up[..=level].iter().product())
    }

    /// Those of these channels for which one stands.
    pub(super) fn within<'c>(
        &'c self,
        channel: u64,
        of: impl IntoIterator<Item = &'c u64>,
    ) -> impl Iterator<Item = &'c u64> {
        of.into_iter().filter(move |one| self.all(**one) == channel)
    }

    /// All links, both ways.
    pub(super) fn channels(&self) -> Vec<u64> {
        let links = (0..self.up.len()).flat_map(|level| {
            let lower = self.down[level..].iter().product::<u64>() * self.up[..level].iter().product::<u64>();
            (0..lower).flat_map(move |lower| (0..self.up[level]).map(move |way| (level, lower, way)))
        });
        links.flat_map(|(level, lower, way)| [false, true].map(|down| self.channel(level, lower, way, down))).collect()
    }

    /// One of the paths from `a` to `b`, and how many there are.
    fn by(&self, a: u64, b: u64, choice: u64, channels: &mut Vec<u64>) -> u64 {
        // up: which copy of the switch above is taken, as digits of `copy`
        let (mut here, mut there, mut copy, mut copies) = (a, b, 0, 1);
        let mut level = 0;
        while here != there {
            let ways = self.up[level];
            let way = choice / copies % ways;
            channels.push(self.channel(level, here * copies + copy, way, false));
            copy += way * copies;
            copies *= ways;
            here /= self.down[level];
            there /= self.down[level];
            level += 1;
        }
        let all = copies;
        while level > 0 {
            level -= 1;
            copies /= self.up[level];
            let way = copy / copies;
            copy %= copies;
            let below: u64 = self.down[..level].iter().product();
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
        let switches = self.down[level..].iter().product::<u64>() * self.up[..level].iter().product::<u64>();
        let ways = self.up[level];
        if switch >= switches || way >= ways {
            let last = (switches - 1, ways - 1);
            return Err(refuse(format!("the last is uplink:{word}{}/{}", last.0, last.1)));
        }
        Ok([false, true].map(|down| self.channel(level, switch, way, down)))
    }

    /// The number of the port, node first, that a channel joins to a leaf.
    pub(super) fn port_of(&self, nics: u32, channel: u64) -> Option<u64> {
        let (level, lower, ..) = self.parts(channel);
        (level == 0).then(|| self.port_at(nics, lower))
    }

    /// See `Network::kind`.
    pub(super) fn kind(&self, channel: u64) -> u64 {
        let (level, _, _, down) = self.parts(channel);
        2 * level as u64 + u64::from(down) + (channel & ALL)
    }

    /// Channels between level `level` and the one above: `lower` is the number of the lower switch, or port.
    pub(crate) fn channel(&self, level: usize, lower: u64, way: u64, downwards: bool) -> u64 {
        ((lower * self.up[level] + way) * 2 + u64::from(downwards)) * self.up.len() as u64 + level as u64
    }

    /// The level, lower switch or port, way and direction of a channel.
    fn parts(&self, channel: u64) -> (usize, u64, u64, bool) {
        let (levels, channel) = (self.up.len() as u64, channel & !ALL);
        let (level, rest) = ((channel % levels) as usize, channel / levels);
        let ways = self.up[level];
        (level, rest / 2 / ways, rest / 2 % ways, rest % 2 == 1)
    }

    pub(super) fn ends(&self, nics: u32, channel: u64) -> [String; 2] {
        let (level, lower, way, downwards) = self.parts(channel);
        let copies: u64 = self.up[..level].iter().product();
        let (group, copy) = (lower / copies, lower % copies);
        let above = group / self.down[level] * copies * self.up[level] + copy + way * copies;
        let below = if level == 0 { port_name(nics, self.port_at(nics, lower)) } else { self.switch(level, lower) };
        let above = self.switch(level + 1, above);
        let [below, above] = if channel & ALL == 0 { [below, above] } else { self.all_names(level, [below, above]) };
        if downwards { [above, below] } else { [below, above] }
    }

    /// The names of the first link of several for all of them: `leaf3` and `its spines`.
    fn all_names(&self, level: usize, ends: [String; 2]) -> [String; 2] {
        let [below, above] = ends;
        let word = |name: &str| name.trim_end_matches(|c: char| c.is_ascii_digit()).to_owned();
        let copies: u64 = self.up[..level].iter().product();
        [if copies > 1 { format!("{below} and its like") } else { below }, format!("all {}s above", word(&above))]
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
