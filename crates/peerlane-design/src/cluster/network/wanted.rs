//! Networks as they are written.

use std::fmt;
use std::str::FromStr;

use super::super::ClusterError;
use super::{Dragonfly, FatTree, MOST_PORTS, Shape, Torus};

/// How many times more ports of a leaf switch go down than up, as a fraction in lowest terms.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Taper {
    /// Ports down, for `up` ports up.
    pub down: u32,
    /// Ports up, for `down` ports down.
    pub up: u32,
}

impl Taper {
    /// As many up as down.
    pub const NONE: Taper = Taper { down: 1, up: 1 };

    /// From a number with at most three decimals, of at least 1.
    fn of(number: f64) -> Option<Self> {
        let thousandths = (number * 1000.0).round();
        if !(1000.0..1e9).contains(&thousandths) || (thousandths - number * 1000.0).abs() > 1e-6 {
            return None;
        }
        let (mut a, mut b) = (thousandths as u32, 1000);
        while b > 0 {
            (a, b) = (b, a % b);
        }
        Some(Taper { down: thousandths as u32 / a, up: 1000 / a })
    }

    /// Ports down and up of a leaf switch with so many ports: exactly in this ratio, the most there are; the rest is not used.
    pub(super) fn ports(self, radix: u64) -> [u64; 2] {
        let sets = radix / u64::from(self.down + self.up);
        [u64::from(self.down), u64::from(self.up)].map(|each| each * sets)
    }
}

impl fmt::Display for Taper {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", f64::from(self.down) / f64::from(self.up))
    }
}

/// A network as written on a command line: `torus:4x4x1`, `fat-tree`, `fat-tree:3:2`, `rail`, `dragonfly:9x4x2`, `switch`.
#[derive(Clone, Debug, PartialEq)]
pub enum Wanted {
    /// A torus of this size.
    Torus(Vec<u32>),
    /// A fat tree.
    FatTree {
        /// Levels; as few as suffice where `None`.
        levels: Option<u32>,
        /// How many times more links go down from a leaf switch than up.
        taper: Taper,
        /// Whether leaf switches hold one NIC of several nodes each.
        rail: bool,
    },
    /// A dragonfly of so many groups, routers a group, ports a router, and links to other groups a router, or as many as
    /// ports; sized to the nodes where `None`.
    Dragonfly(Option<([u32; 3], Option<u32>)>),
    /// One switch.
    Switch,
}

/// What may be written for a network.
pub const NETWORKS: &str = "torus:4x4x1, fat-tree[:LEVELS[:TAPER]], rail[:LEVELS[:TAPER]], \
     dragonfly[:GROUPSxROUTERSxPORTS[xLINKS]] or switch";

impl FromStr for Wanted {
    type Err = ClusterError;

    fn from_str(text: &str) -> Result<Self, ClusterError> {
        let refuse = |why: &str| ClusterError::Network(format!("'{text}': {why}; write {NETWORKS}"));
        let (shape, rest) = text.split_once(':').map_or((text, None), |(a, b)| (a, Some(b)));
        let numbers = |rest: &str, by: char| -> Result<Vec<u32>, ClusterError> {
            let number = |n: &str| n.trim().parse::<u32>().ok().filter(|n| *n > 0);
            rest.split(by).map(|n| number(n).ok_or_else(|| refuse("every size is a number above 0"))).collect()
        };
        match (shape, rest) {
            ("torus", Some(rest)) => Ok(Wanted::Torus(numbers(rest, 'x')?)),
            ("torus", None) => Err(refuse("a torus needs its size")),
            ("fat-tree" | "rail", rest) => {
                let (levels, taper) = match rest.map(|rest| rest.split_once(':').unwrap_or((rest, "1"))) {
                    None => (None, Taper::NONE),
                    Some((levels, taper)) => {
                        let ratio = || refuse("a taper is a number of at least 1 with at most three decimals");
                        let taper = taper.trim().parse().ok().and_then(Taper::of).ok_or_else(ratio)?;
                        (numbers(levels, ':')?.first().copied(), taper)
                    }
                };
                Ok(Wanted::FatTree { levels, taper, rail: shape == "rail" })
            }
            ("dragonfly", None) => Ok(Wanted::Dragonfly(None)),
            ("dragonfly", Some(rest)) => match numbers(rest, 'x')?.as_slice() {
                [groups, routers, ports] => Ok(Wanted::Dragonfly(Some(([*groups, *routers, *ports], None)))),
                [groups, routers, ports, links] => {
                    Ok(Wanted::Dragonfly(Some(([*groups, *routers, *ports], Some(*links)))))
                }
                _ => Err(refuse("a dragonfly has three or four sizes")),
            },
            ("switch", None) => Ok(Wanted::Switch),
            _ => Err(refuse("no such network")),
        }
    }
}

impl fmt::Display for Wanted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let join = |sizes: &[u32]| sizes.iter().map(u32::to_string).collect::<Vec<_>>().join("x");
        match self {
            Wanted::Torus(size) => write!(f, "torus:{}", join(size)),
            Wanted::FatTree { levels, taper, rail } => {
                f.write_str(if *rail { "rail" } else { "fat-tree" })?;
                match (levels, taper) {
                    (None, _) => Ok(()),
                    (Some(levels), &Taper::NONE) => write!(f, ":{levels}"),
                    (Some(levels), taper) => write!(f, ":{levels}:{taper}"),
                }
            }
            Wanted::Dragonfly(None) => f.write_str("dragonfly"),
            Wanted::Dragonfly(Some((size, None))) => write!(f, "dragonfly:{}", join(size)),
            Wanted::Dragonfly(Some((size, Some(links)))) => write!(f, "dragonfly:{}x{links}", join(size)),
            Wanted::Switch => f.write_str("switch"),
        }
    }
}

impl Wanted {
    /// The shape for so many nodes with so many NICs each, and what was chosen, in sentences.
    pub fn shape(&self, nodes: u32, nics: u32) -> Result<(Shape, Vec<String>), ClusterError> {
        let ports = u64::from(nodes) * u64::from(nics.max(1));
        if nodes == 0 || ports > MOST_PORTS {
            return Err(ClusterError::Network(format!("{ports} ports; a network has 1 to {MOST_PORTS}")));
        }
        match self {
            Wanted::Torus(size) => Ok((Shape::Torus(Torus::new(size, nodes)?), Vec::new())),
            Wanted::FatTree { levels, taper, rail } => {
                let (tree, stated) = FatTree::sized(nodes, nics, *levels, *taper, *rail)?;
                Ok((Shape::FatTree(tree), stated))
            }
            Wanted::Dragonfly(size) => {
                let (dragonfly, stated) = Dragonfly::sized(ports, *size)?;
                Ok((Shape::Dragonfly(dragonfly), stated))
            }
            Wanted::Switch => Ok((Shape::Switch, Vec::new())),
        }
    }
}
