//! NCCL's environment variables that decide how fast a collective goes, read as NCCL reads them.
//!
//! Source: github.com/NVIDIA/nccl at 5067397c (`src/graph/tuning.cc`: `parseList`; `src/graph/paths.cc`: `ncclGetLevel`,
//! `ncclTopoCheckP2p`; `src/graph/connect.cc`: channels; `src/misc/param.cc`: an empty value counts as none).

use std::collections::BTreeMap;

use super::algorithm::{Algorithm, Protocol};
use peerlane_machine::fabric::PathClass;
use peerlane_machine::transfer::Collective;

/// The variables of a process, by name.
pub type Variables = BTreeMap<String, String>;

/// A kind of path, in NCCL's order from near to far: NCCL uses peer-to-peer, or GPUDirect RDMA, up to one of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// Within one GPU, which allows no pair.
    Local,
    /// NVLink.
    Nvlink,
    /// One PCIe switch.
    Switch,
    /// Several PCIe switches.
    Switches,
    /// Host bridges of one NUMA node, which NCCL counts as one.
    HostBridge,
    /// Across NUMA nodes.
    System,
}

impl Level {
    /// By its name, or the number that older releases had; NCCL ignores other names.
    pub fn of(value: &str) -> Option<Self> {
        Some(match value {
            "LOC" | "0" => Self::Local,
            "NVL" | "NVB" | "C2C" => Self::Nvlink,
            "PIX" | "1" => Self::Switch,
            "PXB" | "P2C" | "PXN" | "2" => Self::Switches,
            "PHB" | "3" => Self::HostBridge,
            "SYS" => Self::System,
            _ => value.parse::<u32>().ok().map(|_| Self::System)?,
        })
    }

    /// The least that allows a pair of this class.
    pub fn for_class(class: PathClass) -> Self {
        match class {
            PathClass::Same => Self::Local,
            PathClass::Gpu(..) => Self::Nvlink,
            PathClass::Pix => Self::Switch,
            PathClass::Pxb => Self::Switches,
            PathClass::Phb | PathClass::Node => Self::HostBridge,
            PathClass::Sys => Self::System,
        }
    }

    /// As the variables name it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Local => "LOC",
            Self::Nvlink => "NVL",
            Self::Switch => "PIX",
            Self::Switches => "PXB",
            Self::HostBridge => "PHB",
            Self::System => "SYS",
        }
    }
}

/// What a set of variables asks of NCCL for one collective.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// The farthest pairs that may use peer-to-peer, where a variable states it.
    pub peer: Option<Level>,
    /// The protocols that may be used; LL128 is `None` where NCCL decides by the path.
    ll128: Option<bool>,
    ll: bool,
    simple: bool,
    /// The algorithms that a list allows.
    algorithms: [bool; Algorithm::ALL.len()],
    /// Whether NVLink SHARP may be used.
    nvls: bool,
    /// Whether reduction within the network is asked for.
    collnet: bool,
    /// The most channels.
    pub most_channels: Option<u32>,
    /// The fewest.
    pub least_channels: Option<u32>,
}

impl Settings {
    /// Of these variables. Values that NCCL rejects or ignores count as not set.
    pub fn of(variables: &Variables, collective: Collective) -> Self {
        let value = |name: &str| variables.get(name).map(String::as_str).filter(|value| !value.is_empty());
        let number = |name: &str| value(name).and_then(|v| v.trim().parse::<u32>().ok()).filter(|n| *n > 0);
        let level = value("NCCL_P2P_LEVEL").and_then(Level::of);
        let list = |name, names: &[&str]| value(name).and_then(|v| enabled(v, collective, names));
        let protocols = list("NCCL_PROTO", &Protocol::NAMES);
        let algorithms = list("NCCL_ALGO", &Algorithm::NAMES);
        let allowed = |list: &Option<Vec<bool>>, at: usize| list.as_ref().is_none_or(|list| list[at]);
        let is = |name: &str, wanted: &str| value(name).is_some_and(|v| v.trim() == wanted);
        Settings {
            peer: if is("NCCL_P2P_DISABLE", "1") { Some(Level::Local) } else { level },
            ll: allowed(&protocols, 0),
            ll128: protocols.as_ref().map(|list| list[1]),
            simple: allowed(&protocols, 2),
            algorithms: Algorithm::ALL.map(|algorithm| allowed(&algorithms, algorithm as usize)),
            nvls: !is("NCCL_NVLS_ENABLE", "0"),
            collnet: is("NCCL_COLLNET_ENABLE", "1"),
            most_channels: [number("NCCL_MAX_NCHANNELS").or(number("NCCL_MAX_NRINGS")), number("NCCL_MAX_CTAS")]
                .into_iter()
                .flatten()
                .min(),
            least_channels: number("NCCL_MIN_NCHANNELS").max(number("NCCL_MIN_CTAS")),
        }
    }

    /// Whether a protocol may be used, over NVLink or over other paths.
    pub fn allows_protocol(&self, protocol: Protocol, nvlink: bool) -> bool {
        match protocol {
            Protocol::Ll => self.ll,
            Protocol::Ll128 => self.ll128.unwrap_or(nvlink),
            Protocol::Simple => self.simple,
        }
    }

    /// Whether an algorithm may be used, where the hardware has it.
    pub fn allows_algorithm(&self, algorithm: Algorithm) -> bool {
        let enabled = match algorithm {
            Algorithm::Nvls | Algorithm::NvlsTree => self.nvls,
            Algorithm::CollnetDirect | Algorithm::CollnetChain => self.collnet,
            _ => true,
        };
        enabled && self.algorithms[algorithm as usize]
    }
}

/// NCCL's name of a collective in lists; `None` of those that are made of sends and receives, which no list concerns.
fn function(collective: Collective) -> Option<&'static str> {
    match collective {
        Collective::AllReduce => Some("AllReduce"),
        Collective::AllGather => Some("AllGather"),
        Collective::ReduceScatter => Some("ReduceScatter"),
        Collective::Broadcast => Some("Broadcast"),
        Collective::AllToAll | Collective::SendReceive => None,
    }
}

/// Which of `names` a list enables for a collective: `LL,Simple;allreduce:^LL`. `None` where it says nothing of the
/// collective, or holds a word that NCCL rejects.
fn enabled(list: &str, collective: Collective, names: &[&str]) -> Option<Vec<bool>> {
    let function = function(collective)?;
    let mut result = None;
    for (at, entry) in list.split(';').filter(|entry| !entry.is_empty()).enumerate() {
        let elements = match entry.split_once(':') {
            Some((prefix, elements)) if prefix.eq_ignore_ascii_case(function) => elements,
            Some(_) => continue,
            None if at == 0 => entry,
            None => return None,
        };
        let (excluded, elements) = match elements.strip_prefix('^') {
            Some(rest) => (true, rest),
            None => (false, elements),
        };
        let mut enabled = vec![excluded; names.len()];
        for word in elements.split(',').filter(|word| !word.is_empty()) {
            match names.iter().position(|name| name.eq_ignore_ascii_case(word)) {
                Some(at) => enabled[at] = !excluded,
                None => return None,
            }
        }
        result = Some(enabled);
    }
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(variables: &[(&str, &str)]) -> Settings {
        let variables = variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        Settings::of(&variables, Collective::AllReduce)
    }

    fn protocols(list: &str) -> [bool; 3] {
        let settings = of(&[("NCCL_PROTO", list)]);
        Protocol::ALL.map(|protocol| settings.allows_protocol(protocol, true))
    }

    #[test]
    fn lists_are_read_as_nccl_reads_them() {
        assert_eq!(protocols("LL"), [true, false, false]);
        assert_eq!(protocols("^ll128"), [true, false, true]);
        assert_eq!(protocols("LL,Simple;allreduce:^LL"), [false, true, true]);
        assert_eq!(protocols("broadcast:LL"), [true; 3], "of another collective");
        assert_eq!(protocols("LL;Simple"), [true; 3], "NCCL refuses a later entry without a prefix");
        assert_eq!(protocols("fast"), [true; 3]);
        let tree = of(&[("NCCL_ALGO", "allreduce:tree,nvls")]);
        assert!(tree.allows_algorithm(Algorithm::Tree) && tree.allows_algorithm(Algorithm::Nvls));
        assert!(!tree.allows_algorithm(Algorithm::Ring));
        assert!(!of(&[("NCCL_NVLS_ENABLE", "0")]).allows_algorithm(Algorithm::Nvls));
        assert!(!of(&[]).allows_algorithm(Algorithm::CollnetDirect));
    }

    #[test]
    fn ll128_is_for_nvlink_unless_it_is_named() {
        assert!(!of(&[]).allows_protocol(Protocol::Ll128, false));
        assert!(of(&[("NCCL_PROTO", "LL128")]).allows_protocol(Protocol::Ll128, false));
    }

    #[test]
    fn disabled_peer_to_peer_comes_before_the_level() {
        assert_eq!(of(&[("NCCL_P2P_DISABLE", "1"), ("NCCL_P2P_LEVEL", "SYS")]).peer, Some(Level::Local));
        assert_eq!(of(&[("NCCL_P2P_DISABLE", "0"), ("NCCL_P2P_LEVEL", "PHB")]).peer, Some(Level::HostBridge));
        assert_eq!(of(&[("NCCL_P2P_LEVEL", "NODE")]).peer, None);
    }

    #[test]
    fn the_tightest_limit_of_channels_counts() {
        let both = of(&[("NCCL_MAX_NCHANNELS", "8"), ("NCCL_MAX_CTAS", "4"), ("NCCL_MIN_NCHANNELS", "")]);
        assert_eq!((both.most_channels, both.least_channels), (Some(4), None));
    }
}
