//! What would raise the rate of a transfer: changes of the design that raise its rate, each found by solving the changed design.
//!
//! A change is tried where the path is tightest: a wider or later link, a place below the same switch or socket, peer
//! access, NVLink bricks that lie idle. What parts cannot do ([`crate::what_if`]) is not proposed; where a switch
//! lacks lanes for it, a larger switch is part of the change.

use peerlane_machine::schema::JsonSchema;
use serde::Serialize;

use crate::what_if::{Edit, WhatIfError, apply, bricks_of, bricks_used, part_of, pcie_above, switch_for};
use peerlane_machine::fabric::{Fabric, LinkId, LinkKind, NodeId, NodeKind, PcieWidth};
use peerlane_machine::fact::P2pStatus;
use peerlane_model::model::{HopLimit, Model, Route, Transfer};
use peerlane_read::catalogue::common_width;

/// A rise below this is none.
const WORTH: f64 = 1.01;

/// How many are reported.
const MOST: usize = 4;

/// Lanes of a switch's own link upwards, where one is added.
const UPLINK: u8 = 16;

/// A change that raises a transfer's rate.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Upgrade {
    /// What is done, in words.
    pub what: String,
    /// The same as edits for `--what-if`, in order.
    pub edits: Vec<String>,
    /// The rate it makes possible, in GB/s.
    pub rate: f64,
    /// That rate over the one without it.
    pub factor: f64,
    /// What binds then.
    pub bottleneck: String,
}

/// A change to try.
struct Candidate {
    what: String,
    edits: Vec<Edit>,
}

/// The changes that raise the rate of a lone transfer by more than 1 %, the greatest rise first, at most four. Empty where
/// its rate is not known, or where no change is known to raise it.
pub fn upgrades(model: &Model, transfer: &Transfer) -> Vec<Upgrade> {
    let (Ok(route), Ok(answers)) = (model.route(transfer), model.solve(&[*transfer])) else { return Vec::new() };
    let Some(base) = answers.first().map(|a| a.rate.gb()).filter(|r| *r > 0.0) else { return Vec::new() };
    let seeking = Seeking { model, transfer, route: &route };
    let mut found: Vec<Upgrade> = Vec::new();
    for candidate in seeking.candidates(answers.first().and_then(|a| a.link)) {
        let Some(upgrade) = seeking.tried(candidate, base) else { continue };
        if !found.iter().any(|l| l.what == upgrade.what) {
            found.push(upgrade);
        }
    }
    // of two that do the same, the one that changes less
    found.sort_by(|a, b| b.rate.total_cmp(&a.rate).then(a.edits.len().cmp(&b.edits.len())));
    found.truncate(MOST);
    found
}

struct Seeking<'s, 'a> {
    model: &'s Model<'a>,
    transfer: &'s Transfer,
    route: &'s Route,
}

impl Seeking<'_, '_> {
    fn fabric(&self) -> &Fabric {
        &self.model.machine.fabric
    }

    fn name(&self, id: NodeId) -> &str {
        &self.fabric().node(id).name
    }

    /// Solves the changed design; `None` where it cannot be built or does not help.
    fn tried(&self, mut candidate: Candidate, base: f64) -> Option<Upgrade> {
        let Model { machine, parts, .. } = self.model;
        let changed = loop {
            match apply(machine, &candidate.edits, parts) {
                Ok(changed) => break changed,
                Err(WhatIfError::Lanes { owner, larger: Some(key), .. })
                    if !candidate.edits.iter().any(|e| e.what == format!("{owner}.part")) =>
                {
                    let part = parts.get(&key)?;
                    let lanes = part.lanes.map(|n| format!(" with {n} lanes")).unwrap_or_default();
                    candidate.what.push_str(&format!(", {owner} a {}{lanes}", short(&part.title)));
                    candidate.edits.push(Edit::new(format!("{owner}.part"), key));
                }
                Err(_) => return None,
            }
        };
        let find = |id| changed.fabric.find(self.name(id));
        let transfer = Transfer {
            source: find(self.transfer.source)?,
            destination: find(self.transfer.destination)?,
            ..*self.transfer
        };
        let answer = Model::new(&changed, parts).solve(&[transfer]).ok()?.into_iter().next()?;
        let rate = answer.rate.gb();
        let edits = candidate.edits.iter().map(Edit::to_string).collect();
        (rate > base * WORTH).then(|| Upgrade {
            what: candidate.what,
            edits,
            rate,
            factor: rate / base,
            bottleneck: answer.bottleneck,
        })
    }

    fn candidates(&self, binding: Option<LinkId>) -> Vec<Candidate> {
        let mut all = self.wider(binding);
        all.extend(self.nearer());
        all.extend(self.peers());
        all.extend(self.bricks());
        all
    }

    /// The PCIe links that are as tight as the tightest hop, and the one that binds; each once, in the path's order.
    fn tight(&self, binding: Option<LinkId>) -> Vec<(LinkId, PcieWidth, PcieWidth)> {
        let tightest = self.route.hops.iter().filter_map(|h| h.limit).map(|l| l.gb()).fold(f64::INFINITY, f64::min);
        let mut tight: Vec<(LinkId, PcieWidth, PcieWidth)> = Vec::new();
        for (hop, link) in self.pcie_hops() {
            let is_tight = hop.limit.is_some_and(|l| l.gb() <= tightest * WORTH) || binding == Some(link.0);
            if is_tight && !tight.iter().any(|(t, ..)| *t == link.0) {
                tight.push(link);
            }
        }
        tight
    }

    /// The hops over PCIe links, each link with its running and its allowed width.
    fn pcie_hops(&self) -> impl Iterator<Item = (&HopLimit, (LinkId, PcieWidth, PcieWidth))> {
        self.route.hops.iter().filter_map(|hop| {
            let (id, _) = self.fabric().links_of(hop.from).iter().find(|(_, far)| *far == hop.to)?;
            let LinkKind::Pcie { running, allowed, .. } = self.fabric().link(*id).kind else { return None };
            Some((hop, (*id, running, allowed)))
        })
    }

    /// More lanes, or a later generation, on all that is tight.
    fn wider(&self, binding: Option<LinkId>) -> Vec<Candidate> {
        let tight = self.tight(binding);
        let fabric = self.fabric();
        let part = |id| part_of(fabric, self.model.parts, id);
        let could = |id: LinkId| common_width(part(fabric.link(id).a), part(fabric.link(id).b), None);
        let mut all = Vec::new();
        for lanes in [16, 8, 4, 2] {
            let can = |(id, running, _): &&(LinkId, PcieWidth, PcieWidth)| {
                running.lanes.is_some_and(|now| now < lanes) && could(*id).lanes.is_none_or(|most| lanes <= most)
            };
            let widened: Vec<_> = tight.iter().filter(can).collect();
            // two steps are worth a line: all that the ends can do, and what the slots offer
            let offered = |(_, _, allowed): &&(LinkId, PcieWidth, PcieWidth)| allowed.lanes == Some(lanes);
            if widened.is_empty() || !(lanes == 16 || widened.iter().any(offered) || all.is_empty()) {
                continue;
            }
            // what comes next on the path would bind soon after
            let others =
                self.narrower(lanes).into_iter().filter(|id| could(*id).lanes.is_none_or(|most| lanes <= most));
            let mut links: Vec<LinkId> = widened.iter().map(|(id, ..)| *id).collect();
            links.extend(others.filter(|id| !tight.iter().any(|(t, ..)| t == id)));
            let by_slot = lanes < 16 && links.iter().all(|id| self.offers(*id) == Some(lanes));
            let why = if by_slot { ", as wide as the slot allows" } else { "" };
            all.push(self.links_to(&links, &format!("x{lanes}"), &format!("x{lanes}{why}")));
        }
        let later = |(id, running, _): &&(LinkId, PcieWidth, PcieWidth)| could(*id).generation > running.generation;
        if !tight.is_empty() && tight.iter().filter(later).count() == tight.len() {
            let least = tight.iter().filter_map(|(id, ..)| could(*id).generation).min();
            let links: Vec<LinkId> = tight.iter().map(|(id, ..)| *id).collect();
            all.extend(least.map(|to| self.links_to(&links, &format!("pcie {to}"), &format!("PCIe {to}"))));
        }
        all
    }

    /// Lanes that a link's slot and ends allow.
    fn offers(&self, id: LinkId) -> Option<u8> {
        match &self.fabric().link(id).kind {
            LinkKind::Pcie { allowed, .. } => allowed.lanes,
            _ => None,
        }
    }

    /// PCIe links of the path that have fewer lanes.
    fn narrower(&self, lanes: u8) -> Vec<LinkId> {
        let narrow = |(_, running, _): &(LinkId, PcieWidth, _)| running.lanes.is_some_and(|now| now < lanes);
        self.pcie_hops().map(|(_, link)| link).filter(narrow).map(|(id, ..)| id).collect()
    }

    fn links_to(&self, links: &[LinkId], to: &str, words: &str) -> Candidate {
        let fabric = self.fabric();
        let ends: Vec<(String, String)> = links
            .iter()
            .map(|id| {
                let link = fabric.link(*id);
                let lower = if pcie_above(fabric, link.b) == Some(*id) { link.b } else { link.a };
                (self.name(lower).to_owned(), self.name(link.other(lower)).to_owned())
            })
            .collect();
        let names: Vec<String> = ends.iter().map(|(lower, upper)| format!("{lower}–{upper}")).collect();
        let edits = ends.iter().map(|(lower, upper)| Edit::new(format!("{lower}-{upper}"), to)).collect();
        Candidate { what: format!("{} at {words}", names.join(" and ")), edits }
    }

    /// Both below one switch, or one socket.
    fn nearer(&self) -> Vec<Candidate> {
        let fabric = self.fabric();
        let Transfer { source, destination, .. } = *self.transfer;
        let kinds = |kind| self.route.hops.iter().any(|h| fabric.node(h.from).kind == kind);
        let (through_root, through_cpu) = (kinds(NodeKind::RootComplex), kinds(NodeKind::Cpu));
        let switches = self.route.hops.iter().filter(|h| fabric.node(h.to).kind == NodeKind::Switch).count();
        let place = |id| {
            let link = pcie_above(fabric, id)?;
            let lower = if fabric.upstream(id).is_some_and(|(l, _)| l == link) { id } else { fabric.upstream(id)?.1 };
            let parent = fabric.link(link).other(lower);
            Some((parent, link))
        };
        let device = |id: NodeId| fabric.node(id).kind.is_device();
        let is_switch = |id: NodeId| fabric.node(id).kind == NodeKind::Switch;
        let mut all = Vec::new();
        if device(source) && device(destination) {
            let (Some((above_a, link_a)), Some((above_b, link_b))) = (place(source), place(destination)) else {
                return all;
            };
            let (a, b) = (self.name(source), self.name(destination));
            let moved = |what: &str, to: NodeId, as_one: &str| Candidate {
                what: format!("{what} below {}, {as_one}", self.name(to)),
                edits: vec![Edit::new(format!("{what}.at"), self.name(to))],
            };
            if above_a != above_b && (through_root || switches > 1) {
                if is_switch(above_a) {
                    all.push(moved(b, above_a, &format!("{a}'s switch")));
                } else if is_switch(above_b) {
                    all.push(moved(a, above_b, &format!("{b}'s switch")));
                }
            }
            if through_cpu && let Some(root) = fabric.root_complex(source) {
                all.push(moved(b, root, &format!("{a}'s root complex")));
            }
            if through_root && !is_switch(above_a) && !is_switch(above_b) {
                all.extend(self.with_new_switch(a, b, above_a, [link_a, link_b]));
            }
        } else if through_cpu {
            // host memory of another socket
            let (host, other) = if device(source) { (destination, source) } else { (source, destination) };
            let roots = fabric.of_kind(NodeKind::RootComplex).find(|rc| fabric.package(*rc) == fabric.package(host));
            let remote = fabric.package(host) != fabric.package(other);
            if let (true, Some(root)) = (device(other) && remote, roots) {
                let (name, to) = (self.name(other), self.name(root));
                let what = format!("{name} below {to}, at the memory's socket");
                all.push(Candidate { what, edits: vec![Edit::new(format!("{name}.at"), to)] });
            }
        }
        all
    }

    /// A switch between two devices and the root complex of the first.
    fn with_new_switch(&self, a: &str, b: &str, root: NodeId, links: [LinkId; 2]) -> Option<Candidate> {
        let fabric = self.fabric();
        let width = |id: LinkId| match fabric.link(id).kind {
            LinkKind::Pcie { running, .. } => running,
            _ => PcieWidth::default(),
        };
        let [x, y] = links.map(width);
        let generation = x.generation.max(y.generation)?;
        let uplink = PcieWidth::new(generation, UPLINK);
        let lanes = u32::from(UPLINK) + u32::from(x.lanes?) + u32::from(y.lanes?);
        let part = switch_for(self.model.parts, uplink, lanes)?;
        let new = (0..).map(|i| format!("switch{i}")).find(|name| fabric.find(name).is_none())?;
        let at = |what: &str, to: String| Edit::new(format!("{what}.at"), to);
        Some(Candidate {
            what: format!("{a} and {b} below one switch ({})", short(&part.title)),
            edits: vec![
                Edit::new(new.clone(), &part.name),
                at(&new, format!("{} {uplink}", self.name(root))),
                at(a, new.clone()),
                at(b, new.clone()),
            ],
        })
    }

    /// Peer access, where it is refused and the path would bear it.
    fn peers(&self) -> Option<Candidate> {
        let machine = self.model.machine;
        let Transfer { source, destination, .. } = *self.transfer;
        let stated = machine.p2p.get(&(source, destination)).or_else(|| machine.p2p.get(&(destination, source)));
        if !self.route.staged || stated.is_none_or(|s| *s == P2pStatus::Ok) {
            return None;
        }
        let mut open = machine.clone();
        open.p2p.retain(|(a, b), _| !([*a, *b] == [source, destination] || [*a, *b] == [destination, source]));
        let route = Model::new(&open, self.model.parts).route(self.transfer).ok()?;
        let (a, b) = (self.name(source), self.name(destination));
        (!route.staged).then(|| Candidate {
            what: format!("peer access between {a} and {b}"),
            edits: vec![Edit::new(format!("{a}-{b}.p2p"), "on")],
        })
    }

    /// NVLink bricks that both GPUs have to spare.
    fn bricks(&self) -> Option<Candidate> {
        let fabric = self.fabric();
        let Transfer { source, destination, .. } = *self.transfer;
        let spare = |id| {
            let has = bricks_of(fabric, self.model.parts, id)?;
            has.checked_sub(bricks_used(fabric, id)).filter(|n| *n > 0)
        };
        let gpus = [source, destination].iter().all(|id| fabric.node(*id).kind == NodeKind::Gpu);
        // next to an NVSwitch there is no direct link from GPU to GPU
        let hub = fabric.links_of(source).iter().any(|(_, far)| fabric.node(*far).kind == NodeKind::NvSwitch);
        let spare = spare(source)?.min(spare(destination)?);
        let now =
            fabric.links_of(source).iter().find(|(_, far)| *far == destination).map(|(l, _)| &fabric.link(*l).kind);
        let now = now.map_or(0, LinkKind::nvlinks);
        let (a, b) = (self.name(source), self.name(destination));
        let to = now + spare;
        (gpus && !hub).then(|| Candidate {
            what: format!("NVLink between {a} and {b}, {to} bricks"),
            edits: vec![Edit::new(format!("{a}-{b}"), format!("nvlink {to}")), Edit::new(format!("{a}-{b}.p2p"), "on")],
        })
    }
}

/// `PEX 8780` of a part's title: without vendor and what follows the first comma.
fn short(title: &str) -> String {
    let name = title.split(',').next().unwrap_or(title);
    name.rsplit_once(')').map_or(name, |(_, rest)| rest).trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use peerlane_machine::machine::Machine;
    use peerlane_machine::matrix::{Engine, Operation};
    use peerlane_model::model::PeerAccess;
    use peerlane_read::catalogue::{Parts, system};

    fn found(machine: &Machine, from: &str, to: &str) -> Vec<Upgrade> {
        let find = |name: &str| machine.fabric.find(name).unwrap();
        let transfer = Transfer {
            source: find(from),
            destination: find(to),
            engine: Engine::Ce,
            op: Operation::Write,
            peer: PeerAccess::Enabled,
        };
        upgrades(&Model::new(machine, Parts::embedded()), &transfer)
    }

    fn of(system_name: &str, from: &str, to: &str) -> Vec<Upgrade> {
        let machine = system(system_name).unwrap().unwrap();
        let upgrades = found(&machine, from, to);
        for upgrade in &upgrades {
            // what is promised is what the edits give
            let edits: Vec<Edit> = upgrade.edits.iter().map(|e| e.parse().unwrap()).collect();
            let changed = apply(&machine, &edits, Parts::embedded()).unwrap();
            let find = |name: &str| changed.fabric.find(name).unwrap();
            let transfer = Transfer {
                source: find(from),
                destination: find(to),
                engine: Engine::Ce,
                op: Operation::Write,
                peer: PeerAccess::Enabled,
            };
            let rate = Model::new(&changed, Parts::embedded()).solve(&[transfer]).unwrap()[0].rate.gb();
            assert_eq!(rate, upgrade.rate, "{upgrade:?}");
            assert!(upgrade.factor > WORTH);
        }
        assert!(upgrades.windows(2).all(|w| w[0].rate >= w[1].rate));
        upgrades
    }

    fn edits(upgrades: &[Upgrade]) -> Vec<String> {
        upgrades.iter().map(|l| l.edits.join(" ")).collect()
    }

    #[test]
    fn risers_are_lifted_by_slots_and_by_all_that_cards_can_do() {
        let to_slot = of("7gforce", "GPU1", "host0");
        assert_eq!(edits(&to_slot), ["GPU1-plx0=x16", "GPU1-plx0=x8"]);
        assert!(to_slot[1].what.contains("as wide as the slot allows") && to_slot[1].factor > 6.0);
        // both ends are as narrow
        assert!(edits(&of("7gforce", "GPU0", "GPU1")).contains(&"GPU0-plx0=x8 GPU1-plx0=x8".to_owned()));
    }

    #[test]
    fn a_root_complex_is_lifted_by_a_switch_that_has_the_lanes() {
        let upgrades = of("exxact-devbox", "GPU0", "GPU2");
        assert_eq!(edits(&upgrades), ["GPU2.at=plx0 plx0.part=pex8780"]);
        assert!(
            upgrades[0].what.contains("GPU2 below plx0, GPU0's switch, plx0 a PEX 8780 with 80 lanes"),
            "{upgrades:?}"
        );
        let new = of("exxact-traditional", "GPU0", "GPU1");
        assert_eq!(edits(&new), ["switch0=pex8747 switch0.at=rc0 3.0 x16 GPU0.at=switch0 GPU1.at=switch0"]);
    }

    #[test]
    fn sockets_are_lifted_by_being_left() {
        let upgrades = of("exxact-traditional", "GPU0", "GPU2");
        assert!(edits(&upgrades)[0].ends_with("GPU0.at=switch0 GPU2.at=switch0"), "{upgrades:?}");
        assert!(
            edits(&of("microway-s822lc", "GPU0", "GPU2")).iter().all(|e| !e.contains("nvlink")),
            "no brick is idle"
        );
        // QPI carries peers worse than host memory
        let nic = of("hpcac-sys", "GPU0", "mlx5_0");
        assert!(edits(&nic).iter().any(|e| e.starts_with("mlx5_0.at=rc")), "{nic:?}");
    }

    #[test]
    fn refused_peers_are_lifted_by_access_only_where_the_path_would_bear_it() {
        let mut machine = system("exxact-devbox").unwrap().unwrap();
        for status in machine.p2p.values_mut() {
            *status = P2pStatus::NotSupported;
        }
        assert!(edits(&found(&machine, "GPU0", "GPU1")).contains(&"GPU0-GPU1.p2p=on".to_owned()));
        assert!(edits(&of("exxact-txr430", "GPU0", "GPU4")).iter().all(|e| !e.contains("p2p")));
    }

    #[test]
    fn what_runs_at_its_best_is_left_alone() {
        assert_eq!(of("exxact-devbox", "GPU0", "GPU1"), []);
        assert_eq!(of("hgx-h200", "GPU0", "GPU1"), []);
    }
}
