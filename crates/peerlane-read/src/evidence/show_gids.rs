//! `show_gids`: the GID table of each port, from which `NCCL_IB_GID_INDEX` and `ib_write_bw -x` choose.

use super::text::Span;
use super::{Fact, Found, Gid, Text};

const TOOL: &str = "show_gids";

/// More entries than the tables of any machine have.
const MAX_ENTRIES: usize = 4096;

pub(super) fn scan(text: &Text, found: &mut Found) {
    if !text.holds(&["GID", "n_gids_found"]) {
        return;
    }
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
    fn lines_without_a_header() {
        assert_eq!(scanned(scan, TABLE.split_once('\n').unwrap().1), Found::default());
        assert_eq!(scanned(scan, "DEV PORT INDEX GID\nmlx5_0 1 0 x\n"), Found::default());
    }
}
