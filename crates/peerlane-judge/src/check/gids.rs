//! What GID tables of RoCE ports show of the entry that NCCL should use.

use std::collections::{BTreeMap, BTreeSet};

use super::prelude::*;
use peerlane_machine::fact::Gid;

/// The entry to use, and what is wrong with others: one sentence, where tables are known and agree.
pub(super) fn advice(view: &View) -> Option<String> {
    let listed = view.facts(|fact| if let Fact::Gids(gids) = fact { Some(gids) } else { None });
    let mut ports: BTreeMap<(&str, u8), BTreeMap<u32, &Gid>> = BTreeMap::new();
    for gid in listed.flat_map(|(gids, _)| gids) {
        ports.entry((gid.device.as_str(), gid.port)).or_default().insert(gid.index, gid);
    }
    // InfiniBand has no version
    ports.retain(|_, table| table.values().any(|gid| gid.version == Some(2)));
    let routed = |table: &BTreeMap<u32, &Gid>| {
        table.values().find(|gid| gid.version == Some(2) && gid.ipv4.is_some()).map(|gid| gid.index)
    };
    let best: BTreeSet<Option<u32>> = ports.values().map(routed).collect();
    let tables = || ports.values();
    let first = tables().filter_map(|table| table.keys().next()).min()?;
    let last = tables().filter_map(|table| table.keys().next_back()).max()?;
    let one = best.first().copied().filter(|_| best.len() == 1)?;
    let Some(index) = one else {
        return Some(
            "No RoCE v2 entry has an IPv4 address: give the adapters' interfaces addresses that are routed.".to_owned(),
        );
    };
    let local = tables().flat_map(|table| table.values()).filter(|gid| gid.gid.starts_with("fe80:"));
    let local: BTreeSet<u32> = local.map(|gid| gid.index).collect();
    let others = if *first > 0 {
        format!("; the table has only entries {first} to {last}")
    } else if local.is_empty() || local.contains(&index) {
        String::new()
    } else {
        let numbers: Vec<String> = local.iter().map(u32::to_string).collect();
        let (entry, is) = (verb(&numbers, "entry", "entries"), verb(&numbers, "is", "are"));
        format!("; {entry} {} {is} link-local, which is not routed", numbers.join(" and "))
    };
    Some(format!("Set NCCL_IB_GID_INDEX={index}, the RoCE v2 entry with an IPv4 address{others}."))
}

#[cfg(test)]
mod tests {
    use super::super::testing::{see, state, switched};
    use super::*;

    fn advised(entries: &[(&str, u32, &str, u8)]) -> Option<String> {
        let gid = |(device, index, address, version): &(&str, u32, &str, u8)| Gid {
            device: (*device).to_owned(),
            port: 1,
            index: *index,
            gid: if address.contains('.') { "0000:0000" } else { address }.to_owned(),
            ipv4: Some((*address).to_owned()).filter(|a| a.contains('.')),
            version: Some(*version),
            interface: None,
        };
        let mut machine = switched(1);
        state(&mut machine, "show_gids", Fact::Gids(entries.iter().map(gid).collect()));
        see(&machine, |view| advice(view))
    }

    #[test]
    fn the_entry_with_a_routed_address() {
        let table = [("mlx5_0", 0, "fe80:0000", 1), ("mlx5_0", 1, "fe80:0000", 2), ("mlx5_0", 3, "10.0.0.1", 2)];
        assert_eq!(
            advised(&table).unwrap(),
            "Set NCCL_IB_GID_INDEX=3, the RoCE v2 entry with an IPv4 address; entries 0 and 1 are link-local, which is not routed."
        );
        let pod = [("mlx5_0", 4, "fe80:0000", 1), ("mlx5_0", 6, "10.0.0.1", 1), ("mlx5_0", 7, "10.0.0.1", 2)];
        assert!(
            advised(&pod)
                .unwrap()
                .ends_with("=7, the RoCE v2 entry with an IPv4 address; the table has only entries 4 to 7.")
        );
        assert!(advised(&table[..2]).unwrap().starts_with("No RoCE v2 entry"));
    }

    #[test]
    fn tables_that_differ_and_infiniband_show_none() {
        assert_eq!(advised(&[("mlx5_0", 3, "10.0.0.1", 2), ("mlx5_1", 5, "10.0.1.1", 2)]), None);
        assert_eq!(advised(&[("mlx5_0", 0, "fe80:0000", 1)]), None);
        assert_eq!(advised(&[]), None);
    }
}
