//! The ports of RDMA adapters: `ibstat`, `ibstatus`, `ibv_devinfo` and `rdma link`.

use super::health::Health;
use super::text::{Span, Used};
use super::words::{key_value, number_and_unit};
use super::{Fact, Found, RdmaPort, Text};
use peerlane_machine::fact::{Area, Grade};

const IBSTAT: &str = "ibstat";
const IBSTATUS: &str = "ibstatus";
const IBV_DEVINFO: &str = "ibv_devinfo";
const RDMA_LINK: &str = "rdma link";

/// More ports than any machine has, virtual functions included.
const MAX_PORTS: usize = 1024;

pub(super) fn scan(text: &Text, found: &mut Found) {
    let mut output = Output::default();
    let (mut links, mut lines) = (Vec::new(), Used::default());
    for (i, line) in text.iter() {
        let line = line.trim();
        if let Some(port) = link(line).filter(|_| links.len() < MAX_PORTS) {
            links.push(port);
            lines.add(i);
        } else if let Some(tool) = piece(line, text.line(i + 1).trim()).filter(|_| output.tool.is_none()) {
            // a piece without the first line
            output.begin(tool, UNNAMED, line, i);
            output.take(line, i);
        } else if let Some((tool, device)) = device(line) {
            if output.tool != Some(tool) || output.lists(device) {
                std::mem::take(&mut output).finish(text, found);
            }
            output.begin(tool, device, line, i);
        } else if output.tool.is_some() {
            output.take(line, i);
        }
    }
    output.finish(text, found);
    if let Some(numbers) = lines.numbers(text, found) {
        found.push(text, RDMA_LINK, numbers, Fact::RdmaPorts(links));
    }
}

/// The adapter of a piece that begins below the line with its name.
const UNNAMED: &str = "unnamed-adapter";

/// The tool whose lines alone look so, with which a piece of its output may begin.
fn piece(line: &str, below: &str) -> Option<&'static str> {
    let (key, value) = key_value(line)?;
    let of_devinfo = match key {
        "vendor_part_id" => value.parse::<u32>().is_ok(),
        "sys_image_guid" | "node_guid" => value.len() == 19 && value.matches(':').count() == 3,
        "phys_port_cnt" => value.parse::<u8>().is_ok(),
        "state" => value.starts_with("PORT_"),
        _ => false,
    };
    let of_ibstat = match key {
        "CA type" => value.starts_with("MT"),
        // mlxlink pads its names
        "Physical state" => line.starts_with("Physical state: "),
        "State" => line.starts_with("State: ") && below.starts_with("Physical state: "),
        _ => false,
    };
    if of_devinfo { Some(IBV_DEVINFO) } else { of_ibstat.then_some(IBSTAT) }
}

/// Words before the name of a port: a host, a number, `link`.
const MOST_BEFORE: usize = 3;

/// A line of `rdma link`: `link mlx5_0/1 state ACTIVE physical_state LINK_UP netdev eth0`, with the lids of InfiniBand; older
/// releases number it (`1/1: mlx5_0/1: state …`).
fn link(line: &str) -> Option<RdmaPort> {
    let (before, rest) = line.split_once(" state ")?;
    let is_name =
        |word: &&str| word.trim_end_matches(':').contains('/') && word.starts_with(|c: char| c.is_ascii_alphabetic());
    let name = before.split_whitespace().take(MOST_BEFORE).find(is_name)?;
    let (device, port) = name.trim_end_matches(':').split_once('/')?;
    let fields: Vec<&str> = line.split_whitespace().collect();
    let after =
        |key: &str| fields.windows(2).find(|pair| pair.first() == Some(&key)).and_then(|pair| pair.get(1).copied());
    let is_infiniband = after("subnet_prefix").is_some() || after("sm_lid").is_some();
    Some(RdmaPort {
        device: device.to_owned(),
        port: Some(port.parse().ok()?),
        state: Some(rest.split_whitespace().next()?.to_lowercase()),
        physical: Some(after("physical_state")?.to_lowercase().replace('_', "")),
        layer: Some(if is_infiniband { "infiniband" } else { "ethernet" }.to_owned()),
        lid: after("lid").and_then(lid),
        manager_lid: after("sm_lid").and_then(lid),
        ..RdmaPort::default()
    })
}

/// The line that names an adapter: `CA 'mlx5_0'`, `Infiniband device 'mlx5_0' port 1 status:`, `hca_id: mlx5_0`.
fn device(line: &str) -> Option<(&'static str, &str)> {
    let quoted = |rest: &'_ str| rest.strip_prefix('\'').and_then(|r| r.split_once('\'')).map(|(name, _)| name.len());
    let (tool, name) = if let Some(rest) = line.strip_prefix("CA ") {
        (IBSTAT, rest.get(1..1 + quoted(rest)?)?)
    } else if let Some(rest) = line.strip_prefix("Infiniband device ") {
        (IBSTATUS, rest.get(1..1 + quoted(rest)?)?)
    } else {
        (IBV_DEVINFO, line.strip_prefix("hca_id:")?.trim())
    };
    (!name.is_empty() && name.len() <= 32 && !name.contains(char::is_whitespace)).then_some((tool, name))
}

/// One run of a tool.
#[derive(Default)]
struct Output {
    tool: Option<&'static str>,
    lines: Span,
    /// The adapter's name and type.
    device: String,
    kind: Option<String>,
    ports: Vec<RdmaPort>,
    /// The largest packets of the port, in bytes.
    max_mtu: Option<u32>,
    health: Health,
    /// The lines describe a port.
    within: bool,
}

impl Output {
    /// Whether the adapter is there already; `ibstatus` names it once a port.
    fn lists(&self, device: &str) -> bool {
        self.tool != Some(IBSTATUS) && self.ports.iter().any(|p| p.device == device)
    }

    fn begin(&mut self, tool: &'static str, device: &str, line: &str, i: usize) {
        (self.tool, self.kind, self.within) = (Some(tool), None, false);
        self.device = device.to_owned();
        self.lines.add(i);
        if let Some((_, port)) = line.split_once("' port ") {
            self.port(port.split_whitespace().next().and_then(|n| n.parse().ok()));
        }
    }

    fn port(&mut self, number: Option<u8>) {
        self.within = self.ports.len() < MAX_PORTS;
        if self.within {
            let (device, kind) = (self.device.clone(), self.kind.clone());
            self.ports.push(RdmaPort { device, kind, port: number, ..RdmaPort::default() });
        }
    }

    fn take(&mut self, line: &str, i: usize) {
        // what another tool prints begins with a separate line
        let foreign = !line.is_empty() && (line.starts_with('=') || line.starts_with('$') || line.starts_with('+'));
        self.within &= !foreign;
        let Some((key, value)) = key_value(line) else { return };
        let known = match key {
            "CA type" | "vendor_part_id" => {
                self.kind = Some(value.to_owned());
                true
            }
            "port" => {
                self.port(value.parse().ok());
                true
            }
            _ if key.strip_prefix("Port ").is_some_and(|n| n.parse::<u8>().is_ok()) => {
                self.port(key.strip_prefix("Port ").and_then(|n| n.parse().ok()));
                true
            }
            "max_mtu" => {
                self.max_mtu = mtu(value);
                true
            }
            "active_mtu" => self.mtu(value, i),
            // the line that numbers the port may be cut off, too
            "state" | "State" | "Physical state" if self.ports.is_empty() && self.device == UNNAMED => {
                self.port(None);
                false
            }
            "phys_port_cnt" | "fw_ver" | "node_guid" => self.device == UNNAMED,
            _ => false,
        };
        let port = self.ports.last_mut().filter(|_| self.within);
        let known = known || port.is_some_and(|port| set(port, key, value));
        if known {
            self.lines.extend(i);
        }
    }

    /// Compares the size of packets with the largest that the port can have. An Ethernet port has small ones where its interface
    /// has the usual 1500 bytes.
    fn mtu(&mut self, value: &str, i: usize) -> bool {
        let port = self.ports.last().filter(|port| port.state.as_deref() == Some("active"));
        let (Some(port), Some((now, most))) = (port, mtu(value).zip(self.max_mtu)) else { return false };
        let bad = (now < most).then_some(if now <= SMALL_MTU { Grade::Limit } else { Grade::Note });
        let part = port.device.clone();
        if let Some(grade) = bad {
            self.health.trouble(Area::Setting, grade, Some(&part), "active_mtu", &format!("{now} of {most} bytes"), i);
        }
        true
    }

    fn finish(mut self, text: &Text, found: &mut Found) {
        if let Some(tool) = self.tool {
            self.health.push(text, tool, found);
        }
        let (Some(tool), Some(lines)) = (self.tool, self.lines.numbers(text)) else { return };
        let known: Vec<RdmaPort> = self.ports.into_iter().filter(|p| p.state.is_some()).collect();
        found.push(text, tool, lines, Fact::RdmaPorts(known));
    }
}

/// Packets of this size and less cost rate.
const SMALL_MTU: u32 = 1024;

/// `4096 (5)`.
fn mtu(value: &str) -> Option<u32> {
    value.split_whitespace().next()?.parse().ok()
}

/// Reads a field of a port; whether it is one that is kept.
fn set(port: &mut RdmaPort, key: &str, value: &str) -> bool {
    // `4: ACTIVE`, `PORT_ACTIVE (4)`, `Active`
    let word = || {
        let text = value.split_once(": ").map_or(value, |(_, text)| text);
        let text = text.split(" (").next().unwrap_or(text).trim();
        text.strip_prefix("PORT_").unwrap_or(text).to_lowercase()
    };
    match key {
        "State" | "state" => port.state = Some(word()),
        "Physical state" | "phys state" | "phys_state" => port.physical = Some(word().replace('_', "")),
        "Link layer" | "link_layer" => port.layer = Some(value.to_lowercase()),
        "Base lid" | "base lid" | "port_lid" => port.lid = lid(value),
        "SM lid" | "sm lid" | "sm_lid" => port.manager_lid = lid(value),
        "Rate" | "rate" => {
            let first = value.split_whitespace().next().and_then(|n| n.parse().ok());
            port.gigabits = first.or_else(|| number_and_unit(value).map(|(n, _)| n)).filter(|n: &f64| *n != 0.0);
        }
        _ => return false,
    }
    true
}

/// `867`, `0x363`.
fn lid(value: &str) -> Option<u16> {
    let value = value.split_whitespace().next()?;
    value.strip_prefix("0x").map_or_else(|| value.parse().ok(), |hex| u16::from_str_radix(hex, 16).ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ports(text: &str) -> Vec<(&'static str, Vec<RdmaPort>)> {
        let mut found = Found::default();
        scan(&Text::new("t", text.as_bytes()), &mut found);
        let of = |fact| if let Fact::RdmaPorts(ports) = fact { ports } else { panic!() };
        found.evidence.into_iter().map(|e| (e.origin.tool, of(e.fact))).collect()
    }

    #[test]
    fn ibstat() {
        let text = "CA 'mlx5_0'\n\tCA type: MT4129\n\tNumber of ports: 1\n\tPort 1:\n\t\tState: Active\n\t\tPhysical state: LinkUp\n\
                    \t\tRate: 400\n\t\tLink layer: InfiniBand\nCA 'mlx5_1'\n\tCA type: MT4129\n\tPort 1:\n\t\tState: Down\n\
                    \t\tPhysical state: Polling\n\t\tRate: 10\n\t\tBase lid: 65535\n\t\tSM lid: 0\n\t\tLink layer: InfiniBand\n";
        let [(IBSTAT, all)] = &ports(text)[..] else { panic!() };
        assert_eq!(
            (all[0].state.as_deref(), all[0].gigabits, all[0].kind.as_deref()),
            (Some("active"), Some(400.0), Some("MT4129"))
        );
        assert_eq!((all[1].physical.as_deref(), all[1].layer.as_deref()), (Some("polling"), Some("infiniband")));
        assert_eq!((all[0].lid, all[1].lid, all[1].manager_lid), (None, Some(65535), Some(0)));
        assert_eq!(ports(&text.repeat(2)).len(), 2);
    }

    #[test]
    fn ibstatus_and_ibv_devinfo() {
        let status = "Infiniband device 'mlx5_0' port 1 status:\n\tbase lid:\t 0x1f\n\tsm lid:\t\t 0x1\n\tstate:\t\t 4: ACTIVE\n\tphys state:\t 5: LinkUp\n\
                      \trate:\t\t 100 Gb/sec (4X EDR)\n\tlink_layer:\t Ethernet\n\n\
                      Infiniband device 'mlx5_0' port 2 status:\n\tstate:\t\t 1: DOWN\n";
        let [(IBSTATUS, all)] = &ports(status)[..] else { panic!() };
        let told: Vec<_> = all.iter().map(|p| (p.port, p.state.as_deref(), p.gigabits)).collect();
        assert_eq!(told, [(Some(1), Some("active"), Some(100.0)), (Some(2), Some("down"), None)]);
        assert_eq!((all[0].lid, all[0].manager_lid), (Some(31), Some(1)));
        let info = "hca_id:\tmlx5_2\n\tvendor_part_id:\t\t4123\n\t\tport:\t1\n\t\t\tstate:\t\t\tPORT_DOWN (1)\n\t\t\tsm_lid:\t\t\t0\n\t\t\tport_lid:\t\t\t0\n\t\t\tlink_layer:\tInfiniBand\n";
        let [(IBV_DEVINFO, all)] = &ports(info)[..] else { panic!() };
        assert_eq!((all[0].device.as_str(), all[0].state.as_deref()), ("mlx5_2", Some("down")));
        assert_eq!((all[0].lid, all[0].manager_lid), (Some(0), Some(0)));
    }

    #[test]
    fn ibv_devinfo_without_its_first_line() {
        let port = "\t\tport:\t1\n\t\t\tstate:\t\tPORT_ACTIVE (4)\n\t\t\tlink_layer:\tEthernet\n";
        let text = format!(
            "\tvendor_part_id:\t4129\n\tphys_port_cnt:\t1\n{port}\nhca_id:\tmlx5_5\n\tvendor_part_id:\t4129\n{port}"
        );
        let [(IBV_DEVINFO, all)] = &ports(&text)[..] else { panic!("{:?}", ports(&text)) };
        let read: Vec<_> = all.iter().map(|p| (p.device.as_str(), p.kind.as_deref(), p.state.as_deref())).collect();
        let (kind, active) = (Some("4129"), Some("active"));
        assert_eq!(read, [(UNNAMED, kind, active), ("mlx5_5", kind, active)]);
        assert!(ports("state: running\nphys_port_cnt: many\n").is_empty());
        let text = "\t\tState: Down\n\t\tPhysical state: Polling\n\t\tLink layer: InfiniBand\nCA 'mlx5_1'\n\tPort 1:\n\t\tState: Active\n";
        let [(IBSTAT, all)] = &ports(text)[..] else { panic!("{:?}", ports(text)) };
        let read: Vec<_> = all.iter().map(|p| (p.device.as_str(), p.state.as_deref())).collect();
        assert_eq!(read, [(UNNAMED, Some("down")), ("mlx5_1", active)]);
    }

    #[test]
    fn rdma_link() {
        let text = "link mlx5_0/1 subnet_prefix fe80:0000:0000:0000 lid 3401 sm_lid 1 lmc 0 state ACTIVE physical_state LINK_UP\n\
                    2/1: mlx5_1/1: state DOWN physical_state DISABLED netdev ens1f1\nlink 7/1 is in state DOWN\n";
        let [(RDMA_LINK, all)] = &ports(text)[..] else { panic!() };
        let read: Vec<_> =
            all.iter().map(|p| (p.device.as_str(), p.state.as_deref(), p.lid, p.layer.as_deref())).collect();
        let (ib, ethernet) = (Some("infiniband"), Some("ethernet"));
        assert_eq!(read, [("mlx5_0", Some("active"), Some(3401), ib), ("mlx5_1", Some("down"), None, ethernet)]);
    }

    #[test]
    fn an_adapter_without_ports_is_nothing() {
        assert!(ports("CA 'mlx5_0'\n\tCA type: MT4129\nState: Down\n").is_empty());
    }
}
