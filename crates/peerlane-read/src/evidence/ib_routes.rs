//! Routes of an InfiniBand network: `ibtracert` from one end to the other, and tables of a switch by `ibroute`.

use super::health::Health;
use super::{Found, Text};
use peerlane_machine::fact::{Area, Grade};

const TRACE: &str = "ibtracert";
const TABLE: &str = "ibroute";

pub(super) fn scan(text: &Text, found: &mut Found) {
    if !text.holds(&["portnum ", " lids dumped", "From ca {", "From switch {"]) {
        return;
    }
    let (mut traces, mut tables) = (Health::default(), Health::default());
    // where a trace begins
    let mut from: Option<(usize, &str)> = None;
    for (i, line) in text.iter() {
        let line = line.trim_start_matches('>').trim();
        if let Some(end) = end_of_route(line, "From ") {
            broken(&mut traces, from.replace((i, end)));
        } else if from.is_some() && end_of_route(line, "To ").is_some() {
            from.take().into_iter().for_each(|(first, _)| traces.used(first));
            traces.sound(Area::Test, i);
        } else if from.is_some() && line.starts_with('[') && line.contains("] -> ") {
            traces.used(i);
        } else if let Some(lids) = line.strip_suffix(" valid lids dumped").or_else(|| line.strip_suffix(" lids dumped"))
        {
            let none = lids.trim_start_matches("Dump of ").trim() == "0";
            tables.judge(Area::Test, none.then_some(Grade::Fault), None, "addresses in the switch's table:", lids, i);
        }
    }
    // the last one may be cut
    traces.push(text, TRACE, found);
    tables.push(text, TABLE, found);
}

/// The name in `From ca {0x98039b03000fab98} portnum 1 lid 4-4 "node1 HCA-1"`.
fn end_of_route<'a>(line: &'a str, first: &str) -> Option<&'a str> {
    let rest = line.strip_prefix(first)?;
    let rest = ["ca {", "switch {", "router {"].iter().find_map(|kind| rest.strip_prefix(kind))?;
    let (_, name) = rest.split_once("} portnum ")?;
    Some(name.split('"').nth(1).unwrap_or_default())
}

/// A trace that another one follows before it came to its end.
fn broken(traces: &mut Health, from: Option<(usize, &str)>) {
    if let Some((i, start)) = from {
        traces.trouble(Area::Test, Grade::Suspect, Some(start), "a route ends on its way", "", i);
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{health, scanned};
    use super::*;

    #[test]
    fn routes_and_tables() {
        let route = "From ca {0x11} portnum 1 lid 4-4 \"node1 HCA-1\"\n[1] -> switch port {0x22}[21] lid 2-2 \"sw1\"\n";
        let whole = health(scan, &format!("{route}To ca {{0x33}} portnum 1 lid 5-5 \"node2 HCA-1\"\n"));
        assert_eq!((whole.area, whole.sound, whole.troubles.len()), (Area::Test, 1, 0));
        assert_eq!(health(scan, &format!("{route}{route}")).troubles[0].part.as_deref(), Some("node1 HCA-1"));
        assert_eq!(scanned(scan, route), Found::default(), "cut");
        let table =
            |lids: u32| format!("0x0001 001 : (Channel Adapter portguid 0x11: 'node1')\n{lids} valid lids dumped\n");
        assert_eq!((health(scan, &table(3)).sound, health(scan, &table(0)).troubles.len()), (1, 1));
        assert_eq!(scanned(scan, "From ca to portnum 3\nNo lids dumped here\n"), Found::default());
    }
}
