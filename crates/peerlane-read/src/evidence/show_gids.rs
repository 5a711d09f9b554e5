//! `show_gids` and `ibv_devinfo -v`: the GID table of each port, from which `NCCL_IB_GID_INDEX` and `ib_write_bw -x` choose.

use std::net::Ipv6Addr;

use super::text::Span;
use super::{Fact, Found, Gid, Text};

const TOOL: &str = "show_gids";

/// More entries than the tables of any machine have.
const MAX_ENTRIES: usize = 4096;

pub(super) fn scan(text: &Text, found: &mut Found) {
    if !text.holds(&["GID"]) {
        return;
    }
    devinfo(text, found);
    let mut begun = false;
    let mut lines = Span::default();
    let mut gids: Vec<Gid> = Vec::new();
    for (i, line) in text.iter() {
        let line = line.trim_start_matches('>').trim();
        if is_header(line) {
            push(text, &mut lines, &mut gids, found);
            begun = true;
        } else if begun && let Some(gid) = entry(line) {
            lines.add(i);
            if gids.len() < MAX_ENTRIES {
                gids.push(gid);
            }
        } else if begun && !line.is_empty() && !line.starts_with("---") {
            begun = false;
        }
    }
    push(text, &mut lines, &mut gids, found);
}

/// The lines `GID[  3]:  ::ffff:10.0.0.1, RoCE v2` of `ibv_devinfo -v`, below the adapter and the port.
fn devinfo(text: &Text, found: &mut Found) {
    let (mut device, mut port) = (String::new(), 1);
    let mut lines = Span::default();
    let mut gids: Vec<Gid> = Vec::new();
    for (i, line) in text.iter() {
        let line = line.trim();
        if let Some(name) = line.strip_prefix("hca_id:") {
            (device, port) = (name.trim().to_owned(), 1);
        } else if let Some(number) = line.strip_prefix("port:").and_then(|n| n.trim().parse().ok()) {
            port = number;
        } else if let Some(gid) = devinfo_entry(line, &device, port) {
            lines.add(i);
            if gids.len() < MAX_ENTRIES {
                gids.push(gid);
            }
        }
    }
    if let Some(lines) = lines.numbers(text) {
        found.push(text, "ibv_devinfo -v", lines, Fact::Gids(gids));
    }
}

fn devinfo_entry(line: &str, device: &str, port: u8) -> Option<Gid> {
    let (index, rest) = line.strip_prefix("GID[")?.split_once("]:")?;
    let (address, version) = rest.trim().split_once(", ").map_or((rest.trim(), None), |(a, v)| (a, Some(v)));
    let address: Ipv6Addr = address.parse().ok()?;
    let groups: Vec<String> = address.segments().iter().map(|group| format!("{group:04x}")).collect();
    Some(Gid {
        device: device.to_owned(),
        port,
        index: index.trim().parse().ok()?,
        gid: groups.join(":"),
        ipv4: address.to_ipv4_mapped().map(|v4| v4.to_string()),
        version: version.and_then(|v| v.strip_prefix("RoCE v")?.trim().parse().ok()),
        interface: None,
    })
}

fn push(text: &Text, lines: &mut Span, gids: &mut Vec<Gid>, found: &mut Found) {
    if let Some(lines) = std::mem::take(lines).numbers(text) {
        found.push(text, TOOL, lines, Fact::Gids(std::mem::take(gids)));
    }
}

/// `DEV     PORT    INDEX   GID                                     IPv4            VER     DEV`
fn is_header(line: &str) -> bool {
    let mut words = line.split_whitespace();
    let first: Vec<&str> = words.by_ref().take(4).collect();
    first == ["DEV", "PORT", "INDEX", "GID"] && words.any(|word| word == "VER")
}

/// `mlx5_0  1  3  0000:0000:0000:0000:0000:ffff:0a00:0001  10.0.0.1  v2  ens1`; no IPv4 address where the GID has none, and no
/// interface in some containers.
fn entry(line: &str) -> Option<Gid> {
    let mut words = line.split_whitespace().peekable();
    let device = words.next()?.to_owned();
    let (port, index) = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
    let gid = words.next().filter(|gid| gid.len() == 39 && gid.split(':').count() == 8)?.to_owned();
    let ipv4 = words.next_if(|word| word.split('.').count() == 4).map(str::to_owned);
    let version = match words.next() {
        Some("v1" | "V1") => Some(1),
        Some("v2" | "V2") => Some(2),
        None => None,
        Some(_) => return None,
    };
    Some(Gid { device, port, index, gid, ipv4, version, interface: words.next().map(str::to_owned) })
}

#[cfg(test)]
mod tests {
    use super::super::testing::scanned;
    use super::*;

    const TABLE: &str = "\
DEV     PORT    INDEX   GID                                     IPv4            VER     DEV
---     ----    -----   ---                                     ------------    ---     ---
mlx5_0  1       0       fe80:0000:0000:0000:0e42:a1ff:fe00:0001                 v1      ens1f0np0
mlx5_0  1       1       fe80:0000:0000:0000:0e42:a1ff:fe00:0001                 v2      ens1f0np0
mlx5_0  1       3       0000:0000:0000:0000:0000:ffff:c0a8:0a01 192.168.10.1    v2      ens1f0np0
n_gids_found=3
";

    #[test]
    fn a_table() {
        let found = scanned(scan, TABLE);
        let [one] = found.evidence.as_slice() else { panic!("{found:#?}") };
        let Fact::Gids(gids) = &one.fact else { panic!() };
        assert_eq!((gids.len(), gids[1].is_link_local(), gids[2].is_link_local()), (3, true, false));
        assert_eq!((gids[2].index, gids[2].ipv4.as_deref(), gids[2].version), (3, Some("192.168.10.1"), Some(2)));
        assert_eq!((gids[0].interface.as_deref(), one.origin.lines), (Some("ens1f0np0"), Some((3, 5))));
    }

    #[test]
    fn as_ibv_devinfo_lists_them() {
        let found = scanned(
            scan,
            "hca_id: mlx5_bond_0\n\t\tport:\t1\n\t\t\tGID[  1]:\t\tfe80::ac0:ebff:feda:1, RoCE v2\n\t\t\tGID[  3]:\t\t::ffff:10.0.0.6, RoCE v2\n\
             \t\t\tGID[  0]:\t\tfe80:0000:0000:0000:0ac0:ebff:feda:0001\n",
        );
        let Fact::Gids(gids) = &found.evidence[0].fact else { panic!("{found:#?}") };
        assert_eq!((gids[0].is_link_local(), gids[0].version, gids[0].device.as_str()), (true, Some(2), "mlx5_bond_0"));
        assert_eq!((gids[1].ipv4.as_deref(), gids[2].version), (Some("10.0.0.6"), None));
    }

    #[test]
    fn lines_without_a_header() {
        assert_eq!(scanned(scan, TABLE.split_once('\n').unwrap().1), Found::default());
        assert_eq!(scanned(scan, "DEV PORT INDEX GID\nmlx5_0 1 0 x\n"), Found::default());
    }
}
