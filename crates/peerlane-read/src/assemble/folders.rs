//! Which files of a bundle are of which host: captures of several hosts lie in folders of the same files, a folder for each
//! host (`node1/lspci.txt`, `node2/lspci.txt`; the reports of two hosts in one archive).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::evidence::tool;
use peerlane_machine::fabric::PciAddress;
use peerlane_machine::fact::{Evidence, Fact};

/// Words that number what was done to one machine.
const REPEATED: [&str; 14] = [
    "run",
    "runs",
    "test",
    "tests",
    "try",
    "trial",
    "iter",
    "iteration",
    "attempt",
    "round",
    "rep",
    "step",
    "before",
    "after",
];

/// The host of each source that lies in the folder of one, where several hosts' folders hold files of the same name that
/// describe a machine.
pub(super) fn hosts(evidence: &[Evidence]) -> BTreeMap<Arc<str>, String> {
    let mut alike: BTreeMap<&str, BTreeSet<Vec<&str>>> = BTreeMap::new();
    for one in evidence.iter().filter(|one| describes(&one.fact)) {
        let mut parts: Vec<&str> = one.origin.source.split('/').collect();
        // a tree is a folder itself
        let name = if one.origin.tool == tool::SYSFS { "" } else { parts.pop().unwrap_or_default() };
        parts.reverse();
        alike.entry(name).or_default().insert(parts);
    }
    let folders: BTreeSet<Vec<&str>> = alike.values().filter_map(apart).flatten().collect();
    let label = |source: &Arc<str>| {
        let parts: Vec<&str> = source.split('/').collect();
        let folder = folders.iter().filter(|folder| parts.starts_with(folder)).max_by_key(|folder| folder.len())?;
        Some((source.clone(), (*folder.last()?).to_owned()))
    };
    evidence.iter().filter_map(|one| label(&one.origin.source)).collect()
}

/// Whether a statement shows what a machine is made of; one GPU may have a folder of its own.
fn describes(fact: &Fact) -> bool {
    match fact {
        Fact::Gpus(gpus) => gpus.len() > 1,
        _ => matches!(fact, Fact::Classes(_) | Fact::Pci(_) | Fact::Host(_) | Fact::RdmaPorts(_)),
    }
}

/// The folders of hosts, where files of one name lie in several that differ in their hosts' names. The parts of each path
/// stand from the file up.
fn apart<'a>(files: &BTreeSet<Vec<&'a str>>) -> Option<Vec<Vec<&'a str>>> {
    let (first, others) = files.iter().next().zip(files.iter().next_back())?;
    if first == others {
        return None;
    }
    let common =
        (0..).take_while(|i| first.get(*i).is_some() && files.iter().all(|f| f.get(*i) == first.get(*i))).count();
    let names: BTreeSet<&str> = files.iter().map(|parts| parts.get(common).copied().unwrap_or_default()).collect();
    let hosts = names.len() == files.len() && names.iter().all(|name| may_be_host(name));
    hosts.then(|| files.iter().map(|parts| parts.iter().skip(common).rev().copied().collect()).collect())
}

/// Whether a folder's name may be a host's: no device's, no number, and not that of a repeated measurement.
fn may_be_host(name: &str) -> bool {
    let word: String = name.chars().take_while(char::is_ascii_alphabetic).collect();
    let device = name.parse::<PciAddress>().is_ok() || name.starts_with("mlx");
    name.contains(char::is_alphabetic) && !device && !REPEATED.contains(&word.to_ascii_lowercase().as_str())
}

#[cfg(test)]
mod tests {
    use super::*;
    use peerlane_machine::fact::{GpuFacts, HostFacts};
    use peerlane_machine::origin::Origin;

    fn labels(sources: &[(&str, &'static str)]) -> Vec<(String, String)> {
        let fact = |tool: &str| match tool {
            "log" => Fact::Host(HostFacts::default()),
            "one" => Fact::Gpus(vec![GpuFacts::default()]),
            _ => Fact::Gpus(vec![GpuFacts::default(); 2]),
        };
        let one = |(source, tool): &(&str, &'static str)| Evidence {
            origin: Origin { source: Arc::from(*source), tool, lines: None },
            fact: fact(tool),
        };
        let evidence: Vec<Evidence> = sources.iter().map(one).collect();
        hosts(&evidence).into_iter().map(|(source, host)| (source.to_string(), host)).collect()
    }

    #[test]
    fn folders_of_the_same_files_are_those_of_hosts() {
        let found = labels(&[
            ("c/node1/lspci.txt", "lspci"),
            ("c/node2/lspci.txt", "lspci"),
            ("c/node2/dmesg", "log"),
            ("c/x", "log"),
        ]);
        let expected = [("c/node1/lspci.txt", "node1"), ("c/node2/dmesg", "node2"), ("c/node2/lspci.txt", "node2")];
        assert_eq!(found, expected.map(|(source, host)| (source.to_owned(), host.to_owned())));
        // an archive for each host, and the tree of each
        let trees = [("a.zip/a.tar/alpha", tool::SYSFS), ("a.zip/b.tar/beta", tool::SYSFS)];
        assert_eq!(labels(&trees).len(), 2);
    }

    #[test]
    fn other_folders_are_not() {
        for pair in [
            ["run1/topo.txt", "run2/topo.txt"],
            ["before/topo.txt", "after/topo.txt"],
            ["mlx5_0/info", "mlx5_1/info"],
            ["c/1/topo.txt", "c/2/topo.txt"],
            ["c/node1/topo.txt", "c/node1/lspci.txt"],
            ["a.txt", "b.txt"],
        ] {
            assert!(labels(&pair.map(|source| (source, "x"))).is_empty(), "{pair:?}");
        }
        assert!(labels(&[("gpu0/info", "one"), ("gpu1/info", "one")]).is_empty());
    }
}
