//! Counters of network ports: `ethtool -S`, `perfquery`, `ibqueryerrors`, `rdma statistic`, files of sysfs that `grep` or `head` prints.
//!
//! Only counters of failures are read, by their names, which several drivers and tools share. A line without a heading counts, too.

use super::health::Health;
use super::{Found, Text};
use peerlane_machine::fact::{Area, Grade};

const ETHTOOL: &str = "ethtool -S";
const PERFQUERY: &str = "perfquery";
const QUERY_ERRORS: &str = "ibqueryerrors";
const RDMA: &str = "rdma statistic";
const SYSFS: &str = "counters of sysfs";
const LINES: &str = "counters of ports";

/// Longer lines are no lines of counters, but for those of `rdma statistic`.
const LONGEST: usize = 4000;

/// What a counter counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// Errors of the physical link.
    Link,
    /// How often the link went down, which a restart of the other end does, too.
    Down,
    /// What was dropped or sent again.
    Loss,
    /// Requests of the other side to wait.
    Pause,
    /// Errors of the PCIe link, by the adapter.
    Pcie,
}

/// From so many on, errors of a link are no single event.
const MANY: u64 = 100;

/// A link that went down no more often than this was mostly restarted.
const RESTARTS: u64 = 3;

impl Kind {
    /// The kind of a counter, by its name in whatever spelling: `SymbolErrorCounter`, `symbol_error`.
    fn of(name: &str) -> Option<Kind> {
        let plain: String = name.chars().filter(char::is_ascii_alphanumeric).map(|c| c.to_ascii_lowercase()).collect();
        let plain = plain.strip_suffix("counter").unwrap_or(&plain);
        let plain = plain.strip_suffix("nic").unwrap_or(plain);
        Some(match plain {
            "symbolerror"
            | "symbolerrors"
            | "linkerrorrecovery"
            | "linkerrorrecover"
            | "linkrecovers"
            | "portrcverrors"
            | "rcverrors"
            | "locallinkintegrityerrors"
            | "linkintegrityerrors"
            | "excessivebufferoverrunerrors"
            | "excbufferoverrunerrors"
            | "bufoverrunerrors"
            | "rxcrcerrorsphy"
            | "rxsymbolerrphy"
            | "rxpcssymbolerrphy"
            | "rxcrcerrors"
            | "rxcrcerror"
            | "rxfcserrframes"
            | "rxframeerrors"
            | "rxalignerrors"
            | "crcerrors"
            | "fcserrors"
            | "rxinrangelenerrorsphy"
            | "rxfecuncorrectable"
            | "fecuncorrectableerrors"
            | "feccountuncorrectable"
            | "rxfecuncorrectableerrorsphy"
            | "uncorrectableblocks"
            | "rxsymbolerrors"
            | "txcarriererrors"
            | "linkqualitydown" => Kind::Link,
            "linkdowned" | "linkdowneventsphy" | "linkdownevents" | "linkfailures" => Kind::Down,
            "portxmitdiscards"
            | "xmitdiscards"
            | "rxdiscardsphy"
            | "txdiscardsphy"
            | "rxoutofbuffer"
            | "outofbuffer"
            | "outofsequence"
            | "packetseqerr"
            | "localacktimeouterr"
            | "rnrnakretryerr"
            | "impliednakseqerr"
            | "roceadpretrans"
            | "roceadpretransto"
            | "rxmissederrors"
            | "rxnobuffer"
            | "rxnobuffererrors"
            | "rxdroppedphy"
            | "txerrorsphy"
            | "txtimeout"
            | "reqcqeerror"
            | "respcqeerror"
            | "reqremoteaccesserrors"
            | "respremoteaccesserrors"
            | "retranspkts"
            | "retranstimeoutevents"
            | "seqerrnaksrcvd"
            | "maxretryexceeded"
            | "rcvdseqerr"
            | "outofseqrequest"
            | "rxdiscards"
            | "txdiscards"
            | "oosdropcount"
            | "toretransmits"
            | "rxbufpassthru" => Kind::Loss,
            "rxpcisignalintegrity" | "txpcisignalintegrity" => Kind::Pcie,
            _ if is_of_priority(plain, "discards") => Kind::Loss,
            _ if is_of_priority(plain, "pause") => Kind::Pause,
            "rxpausectrlphy" | "txpausectrlphy" | "rxpause" | "txpause" => Kind::Pause,
            _ => return None,
        })
    }

    /// How bad a value is; `None` where it is as it should be.
    fn grade(self, value: u64) -> Option<Grade> {
        match (self, value) {
            (_, 0) => None,
            (Kind::Link, MANY..) => Some(Grade::Fault),
            (Kind::Link | Kind::Pcie, _) => Some(Grade::Suspect),
            (Kind::Down, ..=RESTARTS) => Some(Grade::Note),
            (Kind::Loss, ..MANY) | (Kind::Pause, _) => Some(Grade::Note),
            (Kind::Down | Kind::Loss, _) => Some(Grade::Suspect),
        }
    }

    fn area(self) -> Area {
        match self {
            Kind::Link | Kind::Down => Area::NetworkLink,
            Kind::Loss | Kind::Pause => Area::Congestion,
            Kind::Pcie => Area::Pcie,
        }
    }
}

/// `rxprio3discards`.
fn is_of_priority(name: &str, end: &str) -> bool {
    let rest = name.strip_prefix("rxprio").or_else(|| name.strip_prefix("txprio"));
    rest.and_then(|rest| rest.strip_suffix(end)).is_some_and(|n| n.len() == 1 && n.bytes().all(|b| b.is_ascii_digit()))
}

pub(super) fn scan(text: &Text, found: &mut Found) {
    if !text.holds(&["rror", "iscard", "ymbol", "_err", "owned", "retrans", "fcs_err", "out_of_", "link_down", "pause"])
    {
        return;
    }
    let mut reader = Reader { tool: LINES, part: None, health: Health::default() };
    for (i, line) in text.iter().filter(|(_, line)| line.len() <= LONGEST) {
        let line = line.trim_start_matches(['>', '|', ' ', '\t']).trim_end();
        if let Some((tool, part)) = heading(line) {
            if reader.tool != tool || part.is_some() && part != reader.part {
                reader.health.push(text, reader.tool, found);
                reader.part = None;
            }
            reader.tool = tool;
            reader.part = part.or(reader.part);
        } else if line.ends_with("<==") || line.ends_with('$') || line.starts_with("$ ") {
            reader.health.push(text, reader.tool, found);
            (reader.tool, reader.part) = (LINES, None);
        } else {
            reader.take(line, i);
        }
    }
    reader.health.push(text, reader.tool, found);
}

/// The tool that a line begins the output of, and the part that it names.
fn heading(line: &str) -> Option<(&'static str, Option<String>)> {
    let plain = line.trim_start_matches(['$', '#', ' ']);
    let plain = plain.strip_prefix("sudo ").unwrap_or(plain);
    if let Some((_, rest)) = plain.split_once("ethtool -S ").or_else(|| plain.split_once("ethtool --statistics ")) {
        return Some((ETHTOOL, rest.split_whitespace().next().map(str::to_owned)));
    }
    if line.starts_with("NIC statistics") {
        return Some((ETHTOOL, None));
    }
    if let Some(port) = plain.strip_prefix("Port counters: ").or_else(|| plain.strip_prefix("Port extended counters: "))
    {
        return Some((PERFQUERY, Some(port.split(" (").next().unwrap_or(port).to_owned())));
    }
    if let Some(of) = line.strip_prefix("Errors for ") {
        return Some((QUERY_ERRORS, Some(of.trim_matches('"').to_owned())));
    }
    None
}

/// Counters of one part.
struct Reader {
    tool: &'static str,
    part: Option<String>,
    health: Health,
}

impl Reader {
    fn take(&mut self, line: &str, i: usize) {
        if let Some(rest) = line.strip_prefix("link ") {
            self.inline(rest, i);
        } else if line.contains(" == ") && line.contains('[') {
            self.query(line, i);
        } else if let Some((part, name, value)) = path(line) {
            self.tool = SYSFS;
            self.count(Some(&part), name, value, i);
        } else if let Some((name, value)) = named(line) {
            let part = self.part.clone();
            self.count(part.as_deref(), name, value, i);
        }
    }

    /// `mlx5_0/1 rx_write_requests 12 out_of_sequence 0 …`.
    fn inline(&mut self, rest: &str, i: usize) {
        let mut words = rest.split_whitespace();
        let Some(port) = words.next().filter(|word| word.contains('/')) else { return };
        while let Some(name) = words.next() {
            let Some(value) = words.next() else { return };
            if let Ok(value) = value.parse() {
                self.tool = RDMA;
                self.count(Some(port), name, value, i);
            }
        }
    }

    /// `GUID 0x506b4b03005c2740 port 3: [SymbolErrorCounter == 12] [LinkDownedCounter == 3]`.
    fn query(&mut self, line: &str, i: usize) {
        let port = line.split_once(" port ").and_then(|(_, rest)| rest.split([':', ' ']).next());
        let of = self.part.clone().unwrap_or_default();
        let part = port.map_or(of.clone(), |port| format!("{of} port {port}").trim().to_owned());
        for pair in line.split('[').skip(1) {
            let Some((name, value)) = pair.split(']').next().and_then(|pair| pair.split_once(" == ")) else { continue };
            let value = value.split_whitespace().next().and_then(|value| value.parse().ok());
            if let Some(value) = value {
                self.tool = QUERY_ERRORS;
                self.count(Some(&part).filter(|part| !part.is_empty()).map(String::as_str), name, value, i);
            }
        }
    }

    fn count(&mut self, part: Option<&str>, name: &str, value: u64, i: usize) {
        if let Some(kind) = Kind::of(name) {
            self.health.judge(kind.area(), kind.grade(value), part, name, &value.to_string(), i);
        }
    }
}

/// `/sys/class/infiniband/mlx5_0/ports/1/counters/symbol_error:0`: the part, the counter, its value.
fn path(line: &str) -> Option<(String, &str, u64)> {
    let (path, value) = line.rsplit_once([':', ' ', '='])?;
    let value = value.trim().parse().ok()?;
    let path = path.trim_end_matches([':', ' ', '=']);
    let name = path.rsplit('/').next()?;
    let after = |folder: &str| path.split_once(folder).and_then(|(_, rest)| rest.split('/').next());
    if let Some(device) = after("infiniband/") {
        let port = after("/ports/").map_or(String::new(), |port| format!("/{port}"));
        return Some((format!("{device}{port}"), name, value));
    }
    let interface = after("/net/").or_else(|| after("net/")).filter(|_| path.contains("/statistics/"))?;
    Some((interface.to_owned(), name, value))
}

/// `rx_crc_errors_phy: 0`, `SymbolErrorCounter:..............0`, `symbol_error = 3`.
fn named(line: &str) -> Option<(&str, u64)> {
    let (name, value) = line.split_once([':', '='])?;
    let value = value.trim_start_matches(['.', ' ', '\t', '=']).trim_end();
    let is_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | ' ' | '-');
    let name = name.trim();
    (name.len() <= 48 && name.chars().all(is_name)).then_some(())?;
    Some((name, value.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::super::testing::scanned;
    use super::*;
    use peerlane_machine::fact::{Fact, HealthReport};

    fn reports(text: &str) -> Vec<(&'static str, HealthReport)> {
        let of = |e: super::super::Evidence| match e.fact {
            Fact::Health(report) => (e.origin.tool, report),
            other => panic!("{other:?}"),
        };
        scanned(scan, text).evidence.into_iter().map(of).collect()
    }

    /// A trouble: its part, its name with the value, its grade.
    type Row = (Option<String>, String, Grade);

    fn first(text: &str) -> (&'static str, u32, Vec<Row>) {
        let (tool, report) = reports(text).remove(0);
        let troubles = report.troubles.into_iter().map(|t| (t.part, format!("{} {}", t.what, t.value), t.grade));
        (tool, report.sound, troubles.collect())
    }

    fn one(part: &str, what: &str, grade: Grade) -> Vec<Row> {
        vec![(Some(part.to_owned()), what.to_owned(), grade)]
    }

    #[test]
    fn every_tool_names_its_port() {
        let ethtool = "$ ethtool -S ens1f0\nNIC statistics:\n     rx_packets: 12\n     rx_crc_errors_phy: 812\n     rx_symbol_err_phy: 0\n";
        assert_eq!(first(ethtool), (ETHTOOL, 1, one("ens1f0", "rx_crc_errors_phy 812", Grade::Fault)));
        let perfquery = "# Port counters: Lid 3 port 1 (CapMask: 0x1400)\nPortSelect:......................1\nSymbolErrorCounter:..............7\n\
                         LinkErrorRecoveryCounter:........0\n";
        assert_eq!(first(perfquery), (PERFQUERY, 1, one("Lid 3 port 1", "SymbolErrorCounter 7", Grade::Suspect)));
        let query =
            "Errors for \"leaf3\"\n   GUID 0x506b4b03005c2740 port 9: [LinkDownedCounter == 5] [PortXmitWait == 99]\n";
        assert_eq!(first(query), (QUERY_ERRORS, 0, one("leaf3 port 9", "LinkDownedCounter 5", Grade::Suspect)));
        let rdma = "link mlx5_2/1 rx_write_requests 15 out_of_sequence 4711 packet_seq_err 0\n";
        assert_eq!(first(rdma), (RDMA, 1, one("mlx5_2/1", "out_of_sequence 4711", Grade::Suspect)));
        let sysfs = "/sys/class/infiniband/mlx5_1/ports/1/counters/symbol_error:3\n/sys/class/infiniband/mlx5_1/ports/1/counters/link_downed:0\n";
        assert_eq!(first(sysfs), (SYSFS, 1, one("mlx5_1/1", "symbol_error 3", Grade::Suspect)));
    }

    #[test]
    fn lines_alone_and_in_mail() {
        assert_eq!(first("> rx_crc_errors_phy: 0\n> rx_discards_phy: 3\n").1, 1);
        assert_eq!(first("     rx_prio3_pause: 12\n").2, [(None, "rx_prio3_pause 12".to_owned(), Grade::Note)]);
    }

    #[test]
    fn lines_between_are_not_claimed() {
        let found = scanned(scan, "rx_crc_errors_phy: 0\nrx_packets: 3\nrx_symbol_err_phy: 0\n");
        assert_eq!((found.evidence[0].origin.lines, found.unused.as_slice()), (Some((1, 3)), &[2][..]));
    }

    #[test]
    fn prose_and_other_counters() {
        for text in ["errors: 3\n", "the symbol_error counter\n", "rx_packets: 9\n", "symbol_error: many\n"] {
            assert_eq!(scanned(scan, text), Found::default(), "{text}");
        }
    }
}
