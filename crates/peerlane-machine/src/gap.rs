//! What is not known of a machine, as values; the sentence about each is printed last.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::names::list;

/// Something that no source states.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(tag = "gap", rename_all = "kebab-case")]
pub enum Gap {
    /// What stands only in rows that a class matrix lacks.
    Rows {
        /// The program that prints it.
        tool: String,
        /// The devices without a row.
        devices: Vec<String>,
    },
    /// The PCIe path of pairs for which a matrix has a word of its maker's own.
    PathWord {
        /// The word.
        word: String,
        /// What the matrix's legend says of it.
        meaning: Option<String>,
        /// The pairs.
        pairs: Vec<(String, String)>,
    },
    /// The socket above devices, and their path to host memory.
    Sockets {
        /// The devices.
        devices: Vec<String>,
    },
    /// The socket above devices that are drawn below one, since no affinity is given.
    Affinity {
        /// The devices.
        devices: Vec<String>,
    },
    /// Generation or lanes of PCIe links.
    Widths {
        /// The nodes below the links; empty for all links of the machine.
        below: Vec<String>,
    },
    /// Whether groups of devices are on one switch chip or on several.
    SwitchChips,
    /// How the switches above devices nest.
    SwitchNesting,
    /// Whether ports are those of one card.
    Card {
        /// The ports.
        ports: Vec<String>,
    },
    /// The PCIe paths between GPUs for which a class matrix shows their own links.
    PciePaths {
        /// The program that prints it.
        tool: String,
        /// Whether the links are xGMI, and not NVLink.
        xgmi: bool,
    },
    /// Whether NVLink joins GPUs that have it, since no source could show it.
    Nvlinks {
        /// The GPUs.
        gpus: Vec<String>,
    },
    /// Whether NVLink joins the GPUs of a topology file for NCCL, which leaves that out.
    NvlinksLeftOut {
        /// The format.
        tool: String,
    },
    /// Where NVLinks lead that are up.
    NvlinkEnds {
        /// The GPUs.
        gpus: Vec<String>,
    },
    /// Whether NVLinks join GPUs directly or through an NVSwitch.
    Nvswitch {
        /// The GPUs.
        gpus: Vec<String>,
    },
    /// Whether NUMA nodes are sockets.
    Packages {
        /// How many NUMA nodes there are.
        numa_nodes: usize,
    },
    /// Whether a link between sockets is between devices of one NUMA node.
    SysWithinNode,
    /// What the author of a description states, in a sentence.
    #[serde(untagged)]
    Stated(String),
}

impl Gap {
    /// Whether GPUs may be joined by NVLinks that no source shows.
    pub fn is_of_nvlinks(&self) -> bool {
        matches!(self, Gap::Nvlinks { .. } | Gap::NvlinksLeftOut { .. } | Gap::NvlinkEnds { .. })
    }
}

/// Pairs that are shown before the list is cut.
const PAIRS: usize = 6;

impl fmt::Display for Gap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Gap::Rows { tool, devices } => {
                write!(f, "{tool} has no rows for {}: what stands only there is not known", list(devices))
            }
            Gap::PathWord { word, meaning, pairs } => {
                let shown: Vec<String> = pairs.iter().take(PAIRS).map(|(a, b)| format!("{a} and {b}")).collect();
                let more = pairs.len().saturating_sub(PAIRS);
                let more = if more > 0 { format!(" and {more} more pairs") } else { String::new() };
                let meaning = meaning.as_ref().map(|text| format!(" ({text})")).unwrap_or_default();
                write!(f, "the PCIe path between {}{more}, for which the matrix has {word}{meaning}", shown.join(", "))
            }
            Gap::Sockets { devices } => write!(f, "the socket above {}, and the path to host memory", list(devices)),
            Gap::Affinity { devices } => write!(f, "the socket above {}: no affinity is given", list(devices)),
            Gap::Widths { below } if below.is_empty() => f.write_str("PCIe generation and lanes of every link"),
            Gap::Widths { below } => write!(f, "PCIe generation or lanes of the links above {}", list(below)),
            Gap::SwitchChips => f.write_str(
                "topo -m does not distinguish two PIX groups on one switch chip (its virtual switches) from two switch chips",
            ),
            Gap::SwitchNesting => f.write_str(
                "PXB means several bridges, not which or how many: these switches are drawn with the simplest nesting",
            ),
            Gap::Card { ports } => write!(
                f,
                "whether {} are ports of one card (drawn so: one link) or separate cards",
                ports.join(" and ")
            ),
            Gap::PciePaths { tool, xgmi } => {
                let (shown, by) = if *xgmi { ("XGMI", "joined") } else { ("NV#", "NVLinked") };
                write!(f, "{tool} shows {shown} instead of the PCIe class: how {by} GPUs hang below their host bridges")
            }
            Gap::Nvlinks { gpus } => write!(
                f,
                "whether NVLink joins {}, which have it: no input shows NVLink; add `nvidia-smi topo -m`",
                list(gpus)
            ),
            Gap::NvlinksLeftOut { tool } => {
                write!(f, "whether NVLink joins the GPUs: {tool} as given to NCCL leaves that out")
            }
            Gap::NvlinkEnds { gpus } => write!(
                f,
                "where the NVLinks of {} lead: add `nvidia-smi nvlink -R` or `topo -m`",
                list(gpus)
            ),
            Gap::Nvswitch { gpus } => write!(
                f,
                "{}: equal NV# to all peers fits direct NVLinks as well as an NVSwitch; drawn as direct links",
                list(gpus)
            ),
            Gap::Packages { numa_nodes } => write!(
                f,
                "whether the {numa_nodes} NUMA nodes are as many sockets, or quarters of fewer (NPS, sub-NUMA clusters)"
            ),
            Gap::SysWithinNode => f.write_str(
                "devices of one NUMA node or CPU affinity read SYS to each other: the labels do not show whether the \
                 path crosses a socket-to-socket link",
            ),
            Gap::Stated(sentence) => f.write_str(sentence),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    struct File {
        unknown: Vec<Gap>,
    }

    #[test]
    fn a_system_file_keeps_what_is_meant() {
        let gpus = vec!["gpu-0".to_owned(), "gpu-1".to_owned()];
        let unknown =
            vec![Gap::Nvlinks { gpus }, Gap::SwitchChips, Gap::Stated("whether NVLink joins them".to_owned())];
        let file = File { unknown };
        let text = toml::to_string(&file).unwrap();
        let read: File = toml::from_str(&text).unwrap();
        assert_eq!(read, file, "{text}");
        assert_eq!(read.unknown.iter().map(Gap::is_of_nvlinks).collect::<Vec<_>>(), [true, false, false]);
        assert_eq!(read.unknown[2].to_string(), "whether NVLink joins them");
    }
}
