//! Nodes by the names that people type: `gpu0`, `GPU 0`, `0`, `mlx5_0`, a PCI address, a UUID.

use super::Machine;
use crate::fabric::{Fabric, NodeId, NodeKind, PciAddress};
use crate::fact::{Fact, GpuFacts};
use crate::names::{closest, list, natural, numbered};

/// The name that means the host memory nearest to the other end of a path.
pub const HOST: &str = "host";

/// Digits that a UUID is cut to at most, so that it is still one.
const UUID_DIGITS: usize = 6;

/// Characters of a wrong name that a message repeats.
const SHOWN: usize = 40;

/// Why a name means no node.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LookupError {
    /// Nothing has the name.
    #[error("no node '{name}'{}; the nodes are: {nodes}", did_you_mean(.near))]
    Unknown {
        /// What was typed.
        name: String,
        /// Names like it, the most similar first.
        near: Vec<String>,
        /// The nodes that there are, in words.
        nodes: String,
    },
    /// Several nodes could be meant.
    #[error("'{name}' could be {nodes}; write one of these names")]
    Ambiguous {
        /// What was typed.
        name: String,
        /// The nodes that could be meant, in words.
        nodes: String,
    },
}

/// ` (did you mean GPU0?)`, or nothing.
fn did_you_mean(near: &[String]) -> String {
    match near.split_last() {
        None => String::new(),
        Some((one, [])) => format!(" (did you mean {one}?)"),
        Some((last, rest)) => format!(" (did you mean {} or {last}?)", rest.join(", ")),
    }
}

impl Machine {
    /// Whether a source states numbers of it in a matrix or a curve.
    pub fn is_measured(&self) -> bool {
        !self.matrices.is_empty() || !self.curves.is_empty()
    }

    /// The node that a person means, by the first of these that fits:
    ///
    /// | typed | means |
    /// | --- | --- |
    /// | `GPU0`, `mlx5_0`, `NIC0` | the node of exactly this name or alias |
    /// | `gpu0`, `GPU 0`, `gpu-0`, `MLX5_0` | the same, in other letters or spacing |
    /// | `18:00.0`, `0000:18:00.0`, `00000000:18:00.0` | the device at this PCI address; without a domain, in any |
    /// | `GPU-3b0c0ea1-…` or its beginning | the GPU of this UUID |
    /// | `0` | GPU 0 |
    ///
    /// # Errors
    ///
    /// No node is meant, or several.
    pub fn lookup(&self, typed: &str) -> Result<NodeId, LookupError> {
        self.lookup_any(typed, |_| true)
    }

    /// The same for a GPU.
    ///
    /// # Errors
    ///
    /// No GPU is meant, or several.
    pub fn lookup_gpu(&self, typed: &str) -> Result<NodeId, LookupError> {
        self.lookup_any(typed, |kind| kind == NodeKind::Gpu)
    }

    /// The same for the two ends of a path, of which one may be `host`: the host memory nearest to the other.
    ///
    /// # Errors
    ///
    /// One of them means no node, or several.
    pub fn lookup_pair(&self, a: &str, b: &str) -> Result<(NodeId, NodeId), LookupError> {
        let one = |name: &str, other: &str| {
            let nearest = || self.fabric.nearest_host(self.lookup(other).ok()?);
            let host = name.trim().eq_ignore_ascii_case(HOST).then(nearest).flatten();
            host.map_or_else(|| self.lookup(name), Ok)
        };
        Ok((one(a, b)?, one(b, a)?))
    }

    /// The same among nodes of the wanted kinds.
    pub fn lookup_any(&self, typed: &str, wanted: impl Fn(NodeKind) -> bool) -> Result<NodeId, LookupError> {
        let fabric = &self.fabric;
        let typed = typed.trim();
        let is_wanted = |id: &NodeId| wanted(fabric.node(*id).kind);
        if let Some(id) = fabric.find(typed).filter(is_wanted) {
            return Ok(id);
        }
        for means in [spelled, addressed] {
            let found: Vec<NodeId> = fabric.ids().filter(is_wanted).filter(|id| means(fabric, *id, typed)).collect();
            match found.as_slice() {
                [] => {}
                [one] => return Ok(*one),
                _ => return Err(LookupError::Ambiguous { name: cut(typed), nodes: names(fabric, &found) }),
            }
        }
        let gpu = self.by_uuid(typed).or_else(|| by_number(fabric, NodeKind::Gpu, typed));
        // as nvidia-smi numbers adapters: nic3 is mlx5_3
        let found = gpu.or_else(|| by_number(fabric, NodeKind::Nic, plain(typed).strip_prefix("nic")?));
        found.filter(is_wanted).ok_or_else(|| {
            let all: Vec<NodeId> = fabric.ids().filter(is_wanted).collect();
            LookupError::Unknown { name: cut(typed), near: near(fabric, &all, typed), nodes: names(fabric, &all) }
        })
    }

    /// The only GPU whose UUID begins so.
    fn by_uuid(&self, typed: &str) -> Option<NodeId> {
        let wanted =
            hexadecimal(typed.get(..4).filter(|head| head.eq_ignore_ascii_case("GPU-")).map(|_| &typed[4..])?)?;
        let gpus = self.evidence.iter().filter_map(|e| if let Fact::Gpus(gpus) = &e.fact { Some(gpus) } else { None });
        let is_it = |gpu: &&GpuFacts| {
            let uuid = gpu.uuid.as_deref().and_then(|uuid| hexadecimal(uuid.strip_prefix("GPU-")?));
            uuid.is_some_and(|uuid| uuid.starts_with(&wanted))
        };
        let mut found = gpus.flatten().filter(is_it).filter_map(|gpu| self.node_of(gpu));
        let first = found.next()?;
        found.all(|id| id == first).then_some(first)
    }

    /// The node that facts are about.
    fn node_of(&self, gpu: &GpuFacts) -> Option<NodeId> {
        let fabric = &self.fabric;
        let at = |address| fabric.of_kind(NodeKind::Gpu).find(|id| fabric.node(*id).address == Some(address));
        let named = gpu.node.as_deref().and_then(|name| fabric.find(name));
        named.or_else(|| gpu.address.and_then(at)).or_else(|| by_number(fabric, NodeKind::Gpu, &gpu.index?.to_string()))
    }
}

/// The digits of a UUID or its beginning; `None` where it is none or too short to be one.
fn hexadecimal(uuid: &str) -> Option<String> {
    let digits: String = uuid.chars().filter(|c| *c != '-').map(|c| c.to_ascii_lowercase()).collect();
    (digits.len() >= UUID_DIGITS && digits.bytes().all(|b| b.is_ascii_hexdigit())).then_some(digits)
}

/// The name in small letters, without what parts its number from its word: `gpu0` of `GPU 0` and `gpu-0`.
fn plain(name: &str) -> String {
    let mut out = String::with_capacity(name.len());
    let mut chars = name.chars().peekable();
    while let Some(c) = chars.next() {
        let parts = matches!(c, ' ' | '_' | '-' | ':')
            && out.ends_with(|before: char| before.is_ascii_alphabetic())
            && chars.peek().is_some_and(char::is_ascii_digit);
        if !parts {
            out.extend(c.to_lowercase());
        }
    }
    out
}

/// Whether a node has this name in other letters or spacing.
fn spelled(fabric: &Fabric, id: NodeId, typed: &str) -> bool {
    let (node, typed) = (fabric.node(id), plain(typed));
    !typed.is_empty() && std::iter::once(&node.name).chain(&node.aliases).any(|name| plain(name) == typed)
}

/// Whether a node has this PCI address.
fn addressed(fabric: &Fabric, id: NodeId, typed: &str) -> bool {
    let Some(wanted) = typed.parse::<PciAddress>().ok().filter(|_| typed.contains(':')) else { return false };
    let in_any_domain = typed.matches(':').count() == 1;
    fabric
        .node(id)
        .address
        .is_some_and(|is| is == PciAddress { domain: if in_any_domain { is.domain } else { wanted.domain }, ..wanted })
}

/// The only node of a kind whose name ends in this number.
fn by_number(fabric: &Fabric, kind: NodeKind, typed: &str) -> Option<NodeId> {
    let number = typed.parse::<u64>().ok().filter(|_| typed.bytes().all(|b| b.is_ascii_digit()))?;
    let numbered = |id: &NodeId| numbered(&fabric.node(*id).name).is_some_and(|(_, n)| n == number);
    let mut found = fabric.of_kind(kind).filter(numbered);
    found.next().filter(|_| found.next().is_none())
}

/// Nodes with a name like this. Another number of the same word is not like it: the list of all nodes shows those.
fn near(fabric: &Fabric, all: &[NodeId], typed: &str) -> Vec<String> {
    let word = natural(typed).0.to_lowercase();
    let names = all.iter().map(|id| fabric.node(*id).name.as_str());
    let others = names.filter(|name| natural(name).0.to_lowercase() != word);
    closest(typed, others).into_iter().map(str::to_owned).collect()
}

/// Nodes in words, by kind.
fn names(fabric: &Fabric, nodes: &[NodeId]) -> String {
    let mut nodes = nodes.to_vec();
    nodes.sort_by_key(|id| fabric.node(*id).kind);
    list(&nodes.iter().map(|id| fabric.node(*id).name.as_str()).collect::<Vec<_>>())
}

fn cut(typed: &str) -> String {
    typed.chars().take(SHOWN).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fabric::{FabricBuilder, Node};
    use crate::fact::Evidence;
    use crate::machine::MachineKind;
    use crate::origin::Origin;

    fn machine() -> Machine {
        let mut fabric = FabricBuilder::new();
        let at = |address: &str| Some(address.parse().unwrap());
        fabric.node(Node { address: at("0000:18:00.0"), ..Node::new("GPU0", NodeKind::Gpu) });
        fabric.node(Node { address: at("0001:18:00.0"), ..Node::new("GPU1", NodeKind::Gpu) });
        let aliases = vec!["mlx5_0".to_owned()];
        fabric.node(Node { address: at("0000:2a:00.0"), aliases, ..Node::new("NIC0", NodeKind::Nic) });
        fabric.node(Node::new("mlx5_3", NodeKind::Nic));
        fabric.node(Node::new("plx0", NodeKind::Switch));
        fabric.node(Node::new("PLX-0", NodeKind::Switch));
        let mut machine = Machine::new("m", MachineKind::Captured, fabric.build().unwrap());
        let gpu =
            |index, uuid: &str| GpuFacts { index: Some(index), uuid: Some(uuid.to_owned()), ..GpuFacts::default() };
        let gpus = vec![gpu(0, "GPU-3b0c0ea1-9d4b-0d6c"), gpu(1, "GPU-3b0c0ea2-9d4b-0d6c")];
        machine
            .evidence
            .push(Evidence { origin: Origin { source: "x".into(), tool: "t", lines: None }, fact: Fact::Gpus(gpus) });
        machine
    }

    #[test]
    fn names_as_people_type_them() {
        let machine = machine();
        for (typed, name) in [
            ("GPU0", "GPU0"),
            ("gpu0", "GPU0"),
            (" GPU 0 ", "GPU0"),
            ("gpu-1", "GPU1"),
            ("1", "GPU1"),
            ("mlx5_0", "NIC0"),
            ("MLX5_0", "NIC0"),
            ("nic_0", "NIC0"),
            ("nic3", "mlx5_3"),
            ("2A:00.0", "NIC0"),
            ("00000000:2a:00.0", "NIC0"),
            ("0001:18:00.0", "GPU1"),
            ("GPU-3b0c0ea2-9d4b-0d6c", "GPU1"),
            ("gpu-3B0C0EA1", "GPU0"),
            ("plx0", "plx0"),
        ] {
            let found = machine.lookup(typed).map(|id| machine.fabric.node(id).name.as_str());
            assert_eq!(found, Ok(name), "{typed}");
        }
    }

    #[test]
    fn a_name_that_means_nothing_or_too_much_is_refused() {
        let machine = machine();
        let refused = |typed: &str| machine.lookup(typed).unwrap_err().to_string();
        assert_eq!(refused("GPU9"), "no node 'GPU9'; the nodes are: GPU0, GPU1, NIC0, mlx5_3, plx0, PLX-0");
        assert_eq!(
            refused("GPO0"),
            "no node 'GPO0' (did you mean GPU0?); the nodes are: GPU0, GPU1, NIC0, mlx5_3, plx0, PLX-0"
        );
        assert_eq!(refused("18:00.0"), "'18:00.0' could be GPU0, GPU1; write one of these names");
        assert_eq!(refused("Plx0"), "'Plx0' could be plx0, PLX-0; write one of these names");
        for wrong in ["", "-1", "7", "GPU-3b0c0e", "GPU-", "2a", "99999999999999999999", "GPU-é"] {
            assert!(machine.lookup(wrong).is_err(), "{wrong}");
        }
        assert!(machine.lookup_gpu("mlx5_0").unwrap_err().to_string().ends_with("the nodes are: GPU0, GPU1"));
    }
}
