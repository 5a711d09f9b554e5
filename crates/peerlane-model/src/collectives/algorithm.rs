//! NCCL's algorithms and protocols, by name.

use std::fmt;
use std::str::FromStr;

use peerlane_machine::transfer::Collective;

/// How ranks are joined. The order is NCCL's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Algorithm {
    /// A double binary tree between nodes; within one node a chain, up and down.
    Tree,
    /// Rings.
    Ring,
    /// In-network reduction (SHARP) between nodes; every GPU sends to one of each node that talks to a NIC.
    CollnetDirect,
    /// The same with a chain within each node.
    CollnetChain,
    /// NVLink SHARP: NVSwitches reduce and multicast.
    Nvls,
    /// NVLink SHARP within nodes, a double binary tree between them.
    NvlsTree,
    /// Parallel aggregated trees, for one GPU a node.
    Pat,
}

impl Algorithm {
    /// All of them.
    pub const ALL: [Algorithm; 7] =
        [Self::Tree, Self::Ring, Self::CollnetDirect, Self::CollnetChain, Self::Nvls, Self::NvlsTree, Self::Pat];
    /// As `NCCL_ALGO` lists them.
    pub const NAMES: [&str; 7] = ["Tree", "Ring", "CollNetDirect", "CollNetChain", "NVLS", "NVLSTree", "PAT"];

    /// As `NCCL_ALGO` lists it.
    pub fn name(self) -> &'static str {
        Self::NAMES[self as usize]
    }

    /// Whether NCCL has it for a collective (`ncclTopoTuneModel`, `src/graph/tuning.cc`).
    pub fn does(self, collective: Collective) -> bool {
        match collective {
            Collective::AllReduce => self != Self::Pat,
            Collective::AllGather | Collective::ReduceScatter => {
                matches!(self, Self::Ring | Self::Nvls | Self::CollnetDirect | Self::Pat)
            }
            Collective::Broadcast | Collective::AllToAll | Collective::SendReceive => self == Self::Ring,
        }
    }

    /// Whether data goes in messages of this protocol.
    pub fn has(self, protocol: Protocol) -> bool {
        protocol == Protocol::Simple || matches!(self, Self::Tree | Self::Ring)
    }
}

impl fmt::Display for Algorithm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name().to_ascii_lowercase())
    }
}

/// How a message is packed. The order is NCCL's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Protocol {
    /// 4 bytes of data and 4 of flag: low latency.
    Ll,
    /// 120 bytes of data and 8 of flag: needs writes that arrive in order, as over NVLink.
    Ll128,
    /// Data alone, with synchronisation between chunks.
    Simple,
}

impl Protocol {
    /// All of them.
    pub const ALL: [Protocol; 3] = [Protocol::Ll, Protocol::Ll128, Protocol::Simple];
    /// As `NCCL_PROTO` lists them.
    pub const NAMES: [&str; 3] = ["LL", "LL128", "Simple"];

    /// As `NCCL_PROTO` lists it.
    pub fn name(self) -> &'static str {
        Self::NAMES[self as usize]
    }
}

impl fmt::Display for Protocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name().to_ascii_lowercase())
    }
}

/// How NCCL writes that it may not use NVLink SHARP.
const WITHOUT_NVLS: &str = "^nvls";

/// What NCCL is made to choose: `ring+ll128`, `tree+any`, `any+ll`; `^nvls` for all but NVLink SHARP.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Choice {
    /// The algorithm; NCCL's choice where it is not given.
    pub algorithm: Option<Algorithm>,
    /// The protocol; likewise.
    pub protocol: Option<Protocol>,
    /// Whether NVLink SHARP is off.
    pub no_nvls: bool,
}

impl Choice {
    /// What is left to NCCL entirely.
    pub const FREE: Choice = Choice { algorithm: None, protocol: None, no_nvls: false };

    /// Whether it leaves this pair to NCCL.
    pub fn allows(self, algorithm: Algorithm, protocol: Protocol) -> bool {
        let excluded = self.no_nvls && matches!(algorithm, Algorithm::Nvls | Algorithm::NvlsTree);
        !excluded
            && self.algorithm.is_none_or(|wanted| wanted == algorithm)
            && self.protocol.is_none_or(|wanted| wanted == protocol)
    }
}

/// A text that is no choice.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "'{0}' is no algorithm of NCCL's with a protocol: write ring+ll128, tree+simple, ring+any, nvls, nvlstree, collnetdirect, \
     collnetchain, pat or ^nvls (protocols: ll, ll128, simple, any)"
)]
pub struct NoChoice(String);

impl FromStr for Choice {
    type Err = NoChoice;

    fn from_str(text: &str) -> Result<Self, NoChoice> {
        let refused = || NoChoice(text.chars().take(40).collect());
        if text == WITHOUT_NVLS {
            return Ok(Choice { no_nvls: true, ..Choice::FREE });
        }
        let (algorithm, protocol) = match text.split_once('+') {
            Some((algorithm, protocol)) => (algorithm, protocol),
            // those of one protocol need none
            None => (text, "simple"),
        };
        let find = |names: &[&str], word: &str| names.iter().position(|name| name.eq_ignore_ascii_case(word));
        let algorithm = match algorithm {
            "any" => None,
            word => Some(Algorithm::ALL[find(&Algorithm::NAMES, word).ok_or_else(refused)?]),
        };
        let protocol = match protocol {
            "any" => None,
            word => Some(Protocol::ALL[find(&Protocol::NAMES, word).ok_or_else(refused)?]),
        };
        let fits = |algorithm: Algorithm| protocol.is_none_or(|protocol| algorithm.has(protocol));
        if algorithm.is_some_and(|algorithm| !fits(algorithm)) {
            return Err(refused());
        }
        Ok(Choice { algorithm, protocol, no_nvls: false })
    }
}

impl fmt::Display for Choice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.algorithm, self.protocol) {
            (None, None) if self.no_nvls => f.write_str(WITHOUT_NVLS),
            (Some(algorithm), Some(Protocol::Simple)) if !algorithm.has(Protocol::Ll) => write!(f, "{algorithm}"),
            (algorithm, protocol) => {
                let any = || "any".to_owned();
                let algorithm = algorithm.map_or_else(any, |a| a.to_string());
                write!(f, "{algorithm}+{}", protocol.map_or_else(any, |p| p.to_string()))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn choices_as_people_write_them() {
        for text in
            ["ring+ll128", "tree+simple", "ring+any", "any+ll", "nvls", "nvlstree", "collnetdirect", "pat", "^nvls"]
        {
            assert_eq!(text.parse::<Choice>().unwrap().to_string(), text);
        }
        assert_eq!("NVLS+Simple".parse::<Choice>().unwrap().to_string(), "nvls");
        for wrong in ["", "ring+", "ring+fast", "nvls+ll", "star", "+ll"] {
            assert!(wrong.parse::<Choice>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_choice_allows_what_it_names() {
        let choice: Choice = "ring+any".parse().unwrap();
        assert!(choice.allows(Algorithm::Ring, Protocol::Ll) && !choice.allows(Algorithm::Tree, Protocol::Ll));
        assert!(Choice::FREE.allows(Algorithm::Nvls, Protocol::Simple));
    }
}
