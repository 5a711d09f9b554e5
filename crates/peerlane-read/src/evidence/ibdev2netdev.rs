//! `ibdev2netdev`, plain and `-v`: the network interface of each port of an RDMA adapter.
//!
//! The state in parentheses behind the interface is that of the interface; `-v` shows that of the port before the arrow.

use std::collections::HashSet;

use super::text::Span;
use super::{Fact, Found, OsDevice, PciDevice, PciRole, PciTree, RdmaPort, Text};
use peerlane_machine::fabric::PciAddress;

const TOOL: &str = "ibdev2netdev";

/// More ports than any machine has, virtual functions included.
const MAX_PORTS: usize = 1024;

/// Class and vendor of an adapter; the tool is Mellanox's.
const NETWORK: u32 = 0x02_0000;
const MELLANOX: u16 = 0x15b3;

pub(super) fn scan(text: &Text, found: &mut Found) {
    if !text.holds(&["==>"]) {
        return;
    }
    let mut output = Output::default();
    for (i, line) in text.iter() {
        let line = line.trim_start_matches('>').trim();
        // `column -t` widens gaps
        let plain = line.contains("==>").then(|| line.split_whitespace().collect::<Vec<_>>().join(" "));
        match plain.as_deref().and_then(port) {
            Some(port) => {
                if output.listed.contains(&(port.of.device.clone(), port.of.port)) {
                    output.push(text, found);
                }
                output.take(port, i);
            }
            None if line.is_empty() => {}
            None => output.push(text, found),
        }
    }
    output.push(text, found);
}

/// A line of the output.
struct Port {
    of: RdmaPort,
    address: Option<PciAddress>,
    product: Option<String>,
    interface: String,
    up: bool,
}

/// `mlx5_0 port 1 ==> ib0 (Up)`; `-v`: `0000:5e:00.0 mlx5_0 (MT4129 - MCX75310AAS-NEAT) ConnectX-7 … fw 28.39 port 1 (ACTIVE) ==> ib0 (Up)`.
fn port(line: &str) -> Option<Port> {
    let (before, after) = line.split_once(" ==> ")?;
    let (interface, state) = after.split_once(" (")?;
    // what a person wrote behind it may follow
    let (state, remark) = state.split_once(')')?;
    let is_remark = remark.is_empty() || remark.starts_with(' ');
    let up = match state.trim().split(is_not_letter).next().filter(|_| is_remark)? {
        "Up" => true,
        "Down" => false,
        _ => return None,
    };
    let mut words = before.split_whitespace().peekable();
    let address = words.peek().and_then(|word| word.parse::<PciAddress>().ok());
    if address.is_some() {
        words.next();
    }
    let device = words.next()?;
    let (described, number) = before.rsplit_once(" port ")?;
    let (number, state) = number.split_once('(').map_or((number, None), |(n, state)| (n, Some(state)));
    let port = number.trim().parse().ok()?;
    // padded with blanks: `(DOWN  )`
    let state = state.map(|s| s.trim_end_matches([')', ' ']));
    // `(MT4129 - MCX75310AAS-NEAT)`
    let kind = described.split_once('(').and_then(|(_, kind)| kind.split([' ', ')']).next());
    let product =
        described.split_once(") ").map(|(_, name)| name.split(" fw ").next().unwrap_or(name).trim().to_owned());
    let name = |name: &str| {
        !name.is_empty() && name.len() <= 32 && name.bytes().all(|b| b.is_ascii_alphanumeric() || b"_-.".contains(&b))
    };
    (name(device) && name(interface.trim())).then(|| Port {
        of: RdmaPort {
            device: device.to_owned(),
            port: Some(port),
            kind: kind.map(str::to_owned),
            // an interface is up over a port that is; one that is down says nothing of its port
            state: state.map(str::to_lowercase).or_else(|| up.then(|| "active".to_owned())),
            // IPoIB interfaces are called after InfiniBand, unless somebody renamed them
            layer: interface.starts_with("ib").then(|| "infiniband".to_owned()),
            ..RdmaPort::default()
        },
        address,
        product,
        interface: interface.trim().to_owned(),
        up,
    })
}

fn is_not_letter(c: char) -> bool {
    !c.is_ascii_alphabetic()
}

/// One run of the tool.
#[derive(Default)]
struct Output {
    lines: Span,
    listed: HashSet<(String, Option<u8>)>,
    ports: Vec<RdmaPort>,
    devices: Vec<PciDevice>,
}

impl Output {
    fn take(&mut self, port: Port, i: usize) {
        self.lines.add(i);
        if self.ports.len() >= MAX_PORTS {
            return;
        }
        if let Some(address) = port.address {
            let os = |name: &str, rdma: bool, down: bool| OsDevice {
                name: name.to_owned(),
                rdma,
                down,
                ..OsDevice::default()
            };
            self.devices.push(PciDevice {
                address: Some(address),
                class: Some(NETWORK),
                vendor: Some(MELLANOX),
                name: port.product.filter(|name| !name.is_empty()),
                os_devices: vec![os(&port.of.device, true, false), os(&port.interface, false, !port.up)],
                line: i as u32 + 1,
                ..PciDevice::new(PciRole::Endpoint)
            });
        }
        self.listed.insert((port.of.device.clone(), port.of.port));
        self.ports.push(port.of);
    }

    fn push(&mut self, text: &Text, found: &mut Found) {
        let output = std::mem::take(self);
        let Some(lines) = output.lines.numbers(text) else { return };
        found.push(text, TOOL, lines, Fact::Pci(PciTree { devices: output.devices, ..PciTree::default() }));
        found.push(text, TOOL, lines, Fact::RdmaPorts(output.ports));
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::scanned;
    use super::*;

    #[test]
    fn plain() {
        let found =
            scanned(scan, "$ ibdev2netdev\nmlx5_0 port 1 ==> ib0 (Down)\nmlx5_bond_0 port 1 ==> bond0 (Up)\n$\n");
        let [one] = found.evidence.as_slice() else { panic!("{found:#?}") };
        let Fact::RdmaPorts(ports) = &one.fact else { panic!() };
        let all: Vec<_> =
            ports.iter().map(|p| (p.device.as_str(), p.port, p.state.as_deref(), p.layer.as_deref())).collect();
        assert_eq!(
            all[0],
            ("mlx5_0", Some(1), None, Some("infiniband")),
            "an interface that is down is no port that is"
        );
        assert_eq!(all[1], ("mlx5_bond_0", Some(1), Some("active"), None));
        assert_eq!(one.origin.lines, Some((2, 3)));
    }

    #[test]
    fn columns_that_were_widened_and_remarks() {
        let found = scanned(
            scan,
            "mlx5_0   port  1  ==>  ibp9s0        (Down)  # the first\nmlx5_10  port  1  ==>  ens4f0np0     (Up)    # storage\n",
        );
        let [one] = found.evidence.as_slice() else { panic!("{found:#?}") };
        let Fact::RdmaPorts(ports) = &one.fact else { panic!() };
        let all: Vec<_> = ports.iter().map(|p| (p.device.as_str(), p.layer.as_deref())).collect();
        assert_eq!(all, [("mlx5_0", Some("infiniband")), ("mlx5_10", None)]);
    }

    #[test]
    fn verbose() {
        let found = scanned(
            scan,
            "0000:5e:00.0 mlx5_2 (MT4129 - MCX75310AAS-NEAT) ConnectX-7 HHHL adapter Card fw 28.39.1002 port 1 (ACTIVE) ==> ibp94s0 (Up)\n\
             0000:5e:00.1 mlx5_3 (MT4129 - MCX75310AAS-NEAT) ConnectX-7 HHHL adapter Card fw 28.39.1002 port 1 (DOWN  ) ==> ens1 (Down)\n",
        );
        let [tree, ports] = found.evidence.as_slice() else { panic!("{found:#?}") };
        let Fact::Pci(tree) = &tree.fact else { panic!() };
        assert_eq!(tree.devices[0].name.as_deref(), Some("ConnectX-7 HHHL adapter Card"));
        assert_eq!((tree.devices[0].os_devices[0].name.as_str(), tree.devices[1].os_devices[1].down), ("mlx5_2", true));
        let Fact::RdmaPorts(ports) = &ports.fact else { panic!() };
        assert_eq!((ports[0].state.as_deref(), ports[0].kind.as_deref()), (Some("active"), Some("MT4129")));
        assert_eq!(ports[1].state.as_deref(), Some("down"));
    }

    #[test]
    fn arrows_of_others() {
        for text in [
            "a ==> b (Up)\n",
            "x port 1 ==> y\n",
            "mlx5_0 port one ==> ib0 (Up)\n",
            "mlx5_0 port 1 ==> ib0 (Sideways)\n",
        ] {
            assert_eq!(scanned(scan, text), Found::default(), "{text}");
        }
    }
}
