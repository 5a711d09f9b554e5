//! Which of several equally short paths a message takes.

use std::fmt;
use std::str::FromStr;

use super::super::ClusterError;
use peerlane_machine::random::Random;

/// How switches choose among equally short paths.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Routing {
    /// By the destination, as InfiniBand's subnet managers do without adaptive routing (Zahavi, *D-Mod-K routing*, 2010). All
    /// messages to a port share a path.
    #[default]
    Static,
    /// Evenly over all: what adaptive routing, and packets that are sprayed, come to.
    Adaptive,
    /// By a hash of both ports with this seed, as Ethernet does by the flow (equal-cost multipath, RFC 2992).
    Ecmp(u64),
}

impl Routing {
    /// The number by which the path from one port to another is chosen.
    pub(super) fn choice(self, from: u64, to: u64) -> u64 {
        match self {
            Routing::Ecmp(seed) => {
                let of_ports = from.wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(to).rotate_left(32);
                Random::from_seed(of_ports ^ seed.wrapping_mul(0xd134_2543_de82_ef95)).below(1 << 30) as u64
            }
            Routing::Static | Routing::Adaptive => to,
        }
    }
}

impl FromStr for Routing {
    type Err = ClusterError;

    fn from_str(text: &str) -> Result<Self, ClusterError> {
        let seed = |seed: &str| seed.parse::<u64>().ok().map(Routing::Ecmp);
        let found = match text {
            "static" => Some(Routing::Static),
            "adaptive" => Some(Routing::Adaptive),
            "ecmp" => Some(Routing::Ecmp(0)),
            _ => text.strip_prefix("ecmp:").and_then(seed),
        };
        found.ok_or_else(|| {
            ClusterError::Network(format!("'{text}': no such routing; write static, adaptive or ecmp[:SEED]"))
        })
    }
}

impl fmt::Display for Routing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Routing::Static => f.write_str("static"),
            Routing::Adaptive => f.write_str("adaptive"),
            Routing::Ecmp(seed) => write!(f, "ecmp:{seed}"),
        }
    }
}
