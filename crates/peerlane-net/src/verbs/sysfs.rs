//! What the kernel shows of RDMA adapters under `/sys/class/infiniband`: GIDs with their types, rates, NUMA nodes.

use std::net::Ipv6Addr;
use std::path::{Path, PathBuf};

use peerlane_machine::units::Rate;
use peerlane_measure::nodes::Gid as Kind;
use peerlane_read::input_file::attribute;

/// Where the kernel shows adapters.
pub(super) const CLASS: &str = "/sys/class/infiniband";

/// Where the kernel shows its modules.
const MODULES: &str = "/sys/module";

/// Whether the module that gives adapters the addresses of GPU memory is loaded, in words.
pub(super) fn peer_module() -> String {
    let loaded = ["nvidia_peermem", "nv_peer_mem"].into_iter().find(|name| Path::new(MODULES).join(name).exists());
    match loaded {
        Some(name) => format!("though the module {name} is loaded"),
        None => "since the module is not loaded".to_owned(),
    }
}

/// The most entries of a GID table that are looked at: adapters have up to some hundreds.
const MOST_GIDS: u32 = 1024;

/// An adapter's folder.
pub(super) struct Folder(PathBuf);

/// An address of a port in a network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Gid {
    /// Its place in the port's table.
    pub(super) index: u8,
    pub(super) address: Ipv6Addr,
}

impl Gid {
    /// What routers make of it.
    pub(super) fn kind(&self) -> Kind {
        match self.address {
            address if address.to_ipv4_mapped().is_some() => Kind::Ipv4,
            address if !address.is_unicast_link_local() => Kind::Ipv6,
            _ => Kind::LinkLocal,
        }
    }
}

impl Folder {
    pub(super) fn of(class: &Path, adapter: &str) -> Self {
        Folder(class.join(adapter))
    }

    fn text(&self, file: &str) -> Option<String> {
        attribute(self.0.join(file))
    }

    /// Whether there is hardware: `rdma_rxe` and `siw` are on no bus, and the rates that they report mean nothing.
    pub(super) fn is_hardware(&self) -> bool {
        self.0.join("device").exists()
    }

    /// The NUMA node that the adapter is at, where the kernel knows it.
    pub(super) fn numa_node(&self) -> Option<u32> {
        self.text("device/numa_node")?.parse().ok()
    }

    /// What a port runs at: of `400 Gb/sec (4X NDR)`, the number.
    pub(super) fn rate(&self, port: u8) -> Option<Rate> {
        if !self.is_hardware() {
            return None;
        }
        let text = self.text(&format!("ports/{port}/rate"))?;
        let (number, unit) = text.split_once(' ')?;
        let gigabits: f64 = number.parse().ok()?;
        (unit.starts_with("Gb/sec") && gigabits > 0.0).then(|| Rate::from_gbit(gigabits))
    }

    /// The GID for RoCE v2: of an IPv4 address first, as NCCL and perftest do; then of a routed IPv6 address; then of a local one.
    pub(super) fn roce_v2(&self, port: u8) -> Option<Gid> {
        let gid = |index: u32| {
            let kind = self.text(&format!("ports/{port}/gid_attrs/types/{index}"))?;
            let address: Ipv6Addr = self.text(&format!("ports/{port}/gids/{index}"))?.parse().ok()?;
            let index = u8::try_from(index).ok()?;
            (kind == "RoCE v2" && !address.is_unspecified()).then_some(Gid { index, address })
        };
        let rank = |gid: &Gid| match gid.kind() {
            Kind::Ipv4 => 0,
            Kind::Ipv6 => 1,
            Kind::LinkLocal | Kind::None => 2,
        };
        let table = (0..MOST_GIDS).take_while(|index| self.0.join(format!("ports/{port}/gids/{index}")).exists());
        table.filter_map(gid).min_by_key(rank)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    /// The folder of an adapter with these files, for as long as a test needs it.
    fn with_files(name: &str, files: &[(&str, &str)], test: impl FnOnce(&Folder)) {
        let class = std::env::temp_dir().join(format!("peerlane-verbs-{}-{name}", std::process::id()));
        for (file, text) in files {
            let path = class.join("mlx5_0").join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, format!("{text}\n")).unwrap();
        }
        test(&Folder::of(&class, "mlx5_0"));
        fs::remove_dir_all(class).unwrap();
    }

    /// As a ConnectX-6 with one IPv4 address shows it, and two entries after it.
    const TABLE: [(&str, &str); 12] = [
        ("ports/1/gids/0", "fe80:0000:0000:0000:ac1f:6bff:fe12:3456"),
        ("ports/1/gid_attrs/types/0", "IB/RoCE v1"),
        ("ports/1/gids/1", "fe80:0000:0000:0000:ac1f:6bff:fe12:3456"),
        ("ports/1/gid_attrs/types/1", "RoCE v2"),
        ("ports/1/gids/2", "0000:0000:0000:0000:0000:ffff:0a09:0901"),
        ("ports/1/gid_attrs/types/2", "IB/RoCE v1"),
        ("ports/1/gids/3", "0000:0000:0000:0000:0000:ffff:0a09:0901"),
        ("ports/1/gid_attrs/types/3", "RoCE v2"),
        ("ports/1/gids/4", "2001:0db8:0000:0000:0000:0000:0000:0001"),
        ("ports/1/gid_attrs/types/4", "RoCE v2"),
        // an entry without an address has no type that can be read
        ("ports/1/gids/5", "0000:0000:0000:0000:0000:0000:0000:0000"),
        ("ports/1/rate", "400 Gb/sec (4X NDR)"),
    ];

    #[test]
    fn the_gid_is_of_roce_v2_and_of_an_ipv4_address_first() {
        with_files("ipv4", &TABLE, |folder| {
            let gid = folder.roce_v2(1).unwrap();
            assert_eq!((gid.index, gid.address.to_string().as_str()), (3, "::ffff:10.9.9.1"));
            assert_eq!(gid.kind(), Kind::Ipv4);
            assert_eq!(folder.roce_v2(2), None);
        });
        let without_ipv4: Vec<_> = TABLE.into_iter().filter(|(_, text)| !text.contains("ffff:0a09")).collect();
        with_files("ipv6", &without_ipv4, |folder| assert_eq!(folder.roce_v2(1).map(|gid| gid.index), Some(1)));
        with_files("local", &TABLE[..4], |folder| {
            assert_eq!(folder.roce_v2(1).map(|gid| gid.kind()), Some(Kind::LinkLocal));
        });
    }

    #[test]
    fn a_rate_without_hardware_is_not_believed() {
        with_files("soft", &TABLE, |folder| assert_eq!(folder.rate(1), None));
        let hardware: Vec<_> = TABLE.into_iter().chain([("device/numa_node", "1")]).collect();
        with_files("hard", &hardware, |folder| {
            assert_eq!(folder.rate(1), Some(Rate::from_gbit(400.0)));
            assert_eq!(folder.numa_node(), Some(1));
        });
        with_files("nowhere", &[("device/numa_node", "-1")], |folder| assert_eq!(folder.numa_node(), None));
    }
}
