//! In which packets a transfer goes, and what each hop of its path uses.

use super::Laying;
use crate::model::defaults::{MAX_PAYLOAD, READ_COMPLETION, READ_REQUEST, SM_LINE, acknowledgements, constant, number};
use crate::model::pcie::{ENGINE_BYTES, Origin, Packets};
use crate::model::resources::{Carriage, LinkModel, part_of};
use crate::model::staging::peer_packet;
use crate::model::{HopLimit, Model};
use peerlane_machine::fabric::{Hop, NodeId, NodeKind, Path};
use peerlane_machine::matrix::{Engine, Operation};
use peerlane_machine::units::Rate;

/// How a transfer, or one stage of it, lies on the links.
pub(super) struct Traffic {
    engine: Engine,
    op: Operation,
    packets: Packets,
    /// Bytes that one request of a read asks for.
    request: f64,
    /// What its engine's packets of writes cost beyond their bytes, where a part states it.
    engine_bytes: Option<f64>,
    /// How many answers packets get, where a GPU's part states it.
    answers: Option<f64>,
    /// Whether a size of packets is a default.
    assumed: bool,
    /// A root complex on the way has split its packets.
    split: bool,
    /// Host memory is at one end.
    host: bool,
    /// A NIC is at one end.
    nic: bool,
    /// It is a stage of a staged transfer.
    pub(super) staged: bool,
    /// A remark for the socket link.
    pub(super) across: Option<&'static str>,
}

impl Laying<'_, '_> {
    /// Who drives a transfer, and in which packets it goes.
    ///
    /// A NIC drives its own transfers and a GPU those with host memory; between GPUs, the writer or the reader.
    /// Data that its receiver pulls comes in completions: of the CPU's size from host memory, of the largest
    /// payload from a device. All else is writes of the largest payload that both ends take.
    pub(super) fn traffic(&self, source: NodeId, destination: NodeId, engine: Engine, op: Operation) -> Traffic {
        let Model { machine, parts, .. } = self.model;
        let fabric = &machine.fabric;
        let is = |n: NodeId, kind| fabric.node(n).kind == kind;
        let io = |n: NodeId| fabric.node(n).kind.is_io();
        let reading = match (is(source, NodeKind::Host), is(destination, NodeKind::Host)) {
            (true, _) => true,
            (_, true) => false,
            _ if io(source) != io(destination) => io(destination),
            _ => op == Operation::Read,
        };
        let devices = [source, destination].into_iter().filter(|n| !is(*n, NodeKind::Host));
        let end = parts.end();
        let payloads = devices.map(|n| MAX_PAYLOAD.or_of(part_of(fabric, parts, n), end));
        let payload = payloads.min_by(|a, b| a.value.total_cmp(&b.value));
        let mut payload = payload.unwrap_or(MAX_PAYLOAD.assumed(end));
        // a device of which no part is known may have been set to half of it
        let known = |n: &NodeId| is(*n, NodeKind::Host) || part_of(fabric, parts, *n).is_some();
        if payload.assumed && ![source, destination].iter().all(known) {
            payload.value = end.of(payload.value / 2.0, payload.value, payload.value);
        }
        let (maximum, mut assumed) = (payload.value, payload.assumed);
        let mut size = maximum;
        if reading && is(source, NodeKind::Host) {
            let known = READ_COMPLETION.or_of(fabric.package(source).and_then(|c| part_of(fabric, parts, c)), end);
            if known.value < maximum {
                (size, assumed) = (known.value, known.assumed);
            }
        }
        if engine == Engine::Sm {
            size = size.min(SM_LINE);
        }
        Traffic {
            engine,
            op: if reading { Operation::Read } else { Operation::Write },
            packets: Packets { completions: reading, payload: size, maximum },
            request: READ_REQUEST.or_of(part_of(fabric, parts, destination), end).value,
            engine_bytes: number(part_of(fabric, parts, source), "copy_packet_cost"),
            answers: [destination, source].into_iter().find_map(|n| number(part_of(fabric, parts, n), "answers_cost")),
            assumed,
            split: false,
            host: [source, destination].into_iter().any(|n| is(n, NodeKind::Host)),
            nic: [source, destination].into_iter().any(|n| is(n, NodeKind::Nic)),
            staged: false,
            across: None,
        }
    }

    /// Lays a stage along a path; returns what its slowest device link allows, in bytes a second.
    pub(super) fn stage(&mut self, path: &Path, mut traffic: Traffic) -> Result<f64, String> {
        let mut slowest = f64::INFINITY;
        for hop in &path.hops {
            let model = self.model;
            let link = &model.links[hop.link.index()];
            match &link.carriage {
                Carriage::Unknown(why) => return Err(why.clone()),
                Carriage::Inside(why) => {
                    let why = self.say(|| (*why).to_owned());
                    self.hops.push(HopLimit { from: hop.from, to: hop.to, limit: None, why });
                }
                Carriage::Pcie { .. } => slowest = slowest.min(self.pcie_hop(hop, link, &mut traffic)),
                Carriage::Bundle(bundle) => {
                    let to_cpu = model.machine.fabric.node(hop.to).kind == NodeKind::Cpu;
                    let efficiency = bundle.efficiency(traffic.engine, traffic.op, to_cpu);
                    let label = self.say(|| format!("{}, {}", model.name_of(hop.link), bundle.words));
                    self.channel(hop, link, 1.0 / efficiency, label);
                    self.opposite(hop, link, bundle.overhead(traffic.engine, traffic.op, to_cpu));
                    let mut rate = bundle.raw * efficiency;
                    if let Some((most, why)) = self.engine_rate(hop, &traffic).filter(|(most, _)| *most < rate) {
                        rate = most;
                        if self.cap.as_ref().is_none_or(|(cap, _)| most < cap.bytes_per_second()) {
                            self.demand.cap = most;
                            self.cap = Some((Rate::from_bytes_per_second(most), why));
                        }
                    }
                    slowest = slowest.min(rate);
                    let driver = if traffic.engine == Engine::Sm { "SM copies" } else { "copy engine" };
                    self.limit(hop, rate, &bundle.words, || {
                        format!("{driver}, {:.3} of {:.1} GB/s", efficiency, bundle.raw / 1e9)
                    });
                }
                Carriage::Smp(smp) => {
                    let of_nic = smp.nic_rate.as_ref().filter(|_| traffic.nic && !traffic.host);
                    let rate =
                        of_nic.map_or(if traffic.host { smp.host_rate } else { smp.peer_rate }, |n| n.value * 1e9);
                    let label = self.say(|| format!("{}, {}", model.name_of(hop.link), smp.words));
                    self.channel(hop, link, smp.capacity() / rate, label.clone());
                    if let (true, Some(both)) = (traffic.staged, link.both) {
                        self.consume(both, 1.0, || format!("{label}, staged traffic both ways"));
                    }
                    let kind = match of_nic {
                        Some(_) => "between a NIC and a GPU",
                        None if traffic.host => "host memory traffic",
                        None => "peer-to-peer",
                    };
                    self.limit(hop, rate, &smp.words, || {
                        let source = match of_nic {
                            Some(known) if known.assumed => format!(", assumed; {}", known.why),
                            None if smp.assumed => format!("; {}", smp.why),
                            _ => String::new(),
                        };
                        let remark = traffic.across.map_or(String::new(), |r| format!("; {r}"));
                        format!("{kind}{source}{remark}")
                    });
                }
            }
        }
        Ok(slowest)
    }

    /// What one copy engine of the GPUs at a hop moves over their own links, where a part states it.
    fn engine_rate(&self, hop: &Hop, traffic: &Traffic) -> Option<(f64, String)> {
        let Model { machine, parts, .. } = self.model;
        let known = |node| constant(part_of(&machine.fabric, parts, node), "copy_engine_rate");
        let rates = [hop.from, hop.to].into_iter().filter_map(known);
        let least = rates.min_by(|a, b| a.value.total_cmp(&b.value)).filter(|_| traffic.engine == Engine::Ce)?;
        Some((least.value * 1e9, self.say(|| format!("what one copy engine moves; {}", least.why))))
    }

    fn pcie_hop(&mut self, hop: &Hop, link: &LinkModel, traffic: &mut Traffic) -> f64 {
        let Carriage::Pcie { generation, lanes, raw, words, .. } = &link.carriage else { return f64::INFINITY };
        let Model { machine, parts, .. } = self.model;
        let mut label = self.say(|| format!("{}, {words}", self.model.name_of(hop.link)));
        let mut remark = String::new();
        let leaves_root = machine.fabric.node(hop.from).kind == NodeKind::RootComplex && !traffic.host;
        if leaves_root {
            match peer_packet(&machine.fabric, parts, hop.from) {
                Some(split) if split.value < traffic.packets.payload => {
                    traffic.packets.payload = split.value;
                    traffic.packets.maximum = split.value;
                    traffic.assumed = split.assumed;
                    traffic.split = true;
                }
                Some(_) => {}
                None => remark.push_str("; no splitting by this root complex is known"),
            }
        }
        if traffic.split {
            remark.push_str(" through the root complex");
            label
                .push_str(&self.say(|| format!(", {}-byte packets through the root complex", traffic.packets.payload)));
        }
        if traffic.assumed {
            remark.push_str(", assumed");
        }
        let fabric = &machine.fabric;
        let usual = acknowledgements(parts, *generation);
        let answers = traffic.answers.unwrap_or(usual);
        let engine = match traffic.engine {
            Engine::Sm => 0.0,
            _ => traffic.engine_bytes.unwrap_or(ENGINE_BYTES * usual),
        };
        let origin = Origin { engine, split: traffic.split, request: traffic.request, answers };
        let load = traffic.packets.load(*generation, *lanes, origin);
        let ports = [hop.from, hop.to].map(|n| number(part_of(fabric, parts, n), "port_efficiency"));
        let port = ports.into_iter().flatten().fold(1.0, f64::min);
        let efficiency = port / load.own;
        self.channel(hop, link, 1.0 / efficiency, label);
        self.opposite(hop, link, load.back);
        let rate = raw * efficiency;
        let detail = self.say(|| format!("{}{remark}", traffic.packets.words()));
        // a root complex and a GPU's own port may let less through than the link
        let sends = self.model.nodes[hop.from.index()].port;
        let limits = [
            (link.peer.filter(|_| leaves_root), "the host bridge's peer-to-peer limit"),
            (sends, "what the GPU's port sends"),
        ];
        let mut allowed = rate;
        let mut why = detail.clone();
        for (resource, words) in limits {
            let Some(resource) = resource else { continue };
            if self.model.capacities[resource] < allowed {
                allowed = self.model.capacities[resource];
                why = self.say(|| format!("{words}; else {detail}"));
            }
            self.consume_named(Some(resource), 1.0);
        }
        self.limit(hop, allowed, words, || why);
        allowed
    }

    fn channel(&mut self, hop: &Hop, link: &LinkModel, per_byte: f64, label: String) {
        let forward = self.model.machine.fabric.link(hop.link).a == hop.from;
        if let Some(channels) = link.channels {
            self.consume(channels[usize::from(!forward)], per_byte, || label);
        }
    }

    /// What a byte takes of the channel that leads back.
    fn opposite(&mut self, hop: &Hop, link: &LinkModel, per_byte: f64) {
        let forward = self.model.machine.fabric.link(hop.link).a == hop.from;
        if let Some(channels) = link.channels {
            self.burden(channels[usize::from(forward)], per_byte);
        }
    }

    /// Records a hop as `PCIe 3.0 x16: 13.68 GB/s (256-byte writes)`.
    fn limit(&mut self, hop: &Hop, rate: f64, words: &str, detail: impl FnOnce() -> String) {
        let rate = Rate::from_bytes_per_second(rate);
        let why = self.say(|| format!("{words}: {rate} ({})", detail()));
        self.hops.push(HopLimit { from: hop.from, to: hop.to, limit: Some(rate), why });
    }
}
