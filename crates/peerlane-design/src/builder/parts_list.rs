//! A machine by its parts alone: `8x L40S + 2x ConnectX-7 + 2x EPYC 9354`.
//!
//! What a list leaves open is assumed, and the machine says so: the CPU, by the generation of the GPUs; one socket for at most
//! two GPUs, else two; cards spread evenly over CPUs, below PCIe switches where the CPUs have too few lanes. Modules of
//! baseboards are placed as `baseboard` does it.

use super::list::{List, is_parts_list};
use super::{Bridge, Card, Product, Sheet, Switch, baseboard};
use peerlane_machine::fabric::{NodeKind, PcieGeneration};
use peerlane_machine::machine::Machine;
use peerlane_machine::one_line::shown;
use peerlane_read::catalogue::{read_system, system};

/// CPUs and PCIe switches that are assumed, by the fastest generation of the GPUs.
const COMMON: [(PcieGeneration, &str, &str); 3] = [
    (PcieGeneration::Gen5, "epyc-genoa", "pex89144"),
    (PcieGeneration::Gen4, "epyc-milan", "pex88096"),
    (PcieGeneration::Gen1, "xeon-scalable", "pex8796"),
];

/// GPUs of a machine for which one socket is assumed.
const OF_ONE_SOCKET: usize = 2;

/// Lanes of a card, and of a switch's uplink.
const LANES: u32 = 16;

/// The machine of a list of parts; `None` where the text is no such list.
///
/// # Errors
/// Where a part is not known, or the parts make no machine.
pub fn machine(text: &str) -> Option<Result<Machine, String>> {
    is_parts_list(text).then(|| List::read(text)?.machine())
}

/// The machine that a name means: a system of the catalogue, or a list of parts.
pub fn named(name: &str) -> Option<Result<Machine, String>> {
    system(name).map(|read| read.map_err(|e| e.to_string())).or_else(|| machine(name))
}

impl List {
    fn machine(&self) -> Result<Machine, String> {
        let gpus = self.of(&[NodeKind::Gpu]);
        if gpus.is_empty() {
            return Err(format!("'{}' lists no GPU; write one, as in '2x RTX 4090 + 100G'", shown(&self.name)));
        }
        if let Some(machine) = baseboard::machine(self, &gpus) {
            return machine;
        }
        let (sheet, assumed) = self.sheet(&gpus)?;
        let plan = match sheet.plan() {
            Err(_) if sheet.switches.is_empty() => below_switches(&sheet, &gpus).plan(),
            plan => plan,
        };
        let plan = plan.map_err(|errors| format!("'{}': {}", shown(&self.name), errors.join("; ")))?;
        let mut machine = read_system(plan.file(), &self.name).map_err(|e| e.to_string())?;
        machine.assumptions.push(assumed);
        Ok(machine)
    }

    /// The sheet of cards, and what is assumed of it.
    fn sheet(&self, gpus: &[&Product]) -> Result<(Sheet, String), String> {
        let cpus = self.of(&[NodeKind::Cpu]);
        if let Some(other) = cpus.iter().find(|cpu| cpu.name != cpus[0].name) {
            return Err(format!("{} and {} are in one list; a machine has one kind of CPU", cpus[0].name, other.name));
        }
        let (cpu, sockets) = match cpus.first() {
            Some(cpu) => ((*cpu).clone(), cpus.len()),
            None => (Product::part_of(common(gpus).1, NodeKind::Cpu)?, if gpus.len() <= OF_ONE_SOCKET { 1 } else { 2 }),
        };
        let switches = self.of(&[NodeKind::Switch]).into_iter().enumerate().map(|(i, product)| Switch {
            name: format!("sw{i}"),
            product: product.clone(),
            at: format!("cpu{}", i % sockets),
            width: None,
        });
        let mut sheet =
            Sheet { name: self.name.clone(), sockets, switches: switches.collect(), assumed: true, ..Sheet::default() };
        let places: Vec<String> = match sheet.switches.as_slice() {
            [] => (0..sockets).map(|i| format!("cpu{i}")).collect(),
            switches => switches.iter().map(|switch| switch.name.clone()).collect(),
        };
        for kinds in [&[NodeKind::Gpu][..], &[NodeKind::Nic], &[NodeKind::Nvme, NodeKind::Fpga]] {
            let cards = self.of(kinds);
            sheet.cards.extend(cards.iter().enumerate().map(|(i, product)| Card {
                product: (*product).clone(),
                at: places[i * places.len() / cards.len()].clone(),
                width: None,
            }));
        }
        sheet.bridges = self.bridges(gpus);
        let of_cpu = if cpus.is_empty() { format!("the CPUs ({sockets} × {})", cpu.title()) } else { String::new() };
        let assumed = format!(
            "The list states parts only: {of_cpu}{}the places of cards and the widths of links are a common arrangement.",
            if of_cpu.is_empty() { "" } else { ", " }
        );
        sheet.cpu = Some(cpu);
        Ok((sheet, assumed))
    }

    /// Bridges between neighbours, where the list has them; of modules without a switch between them, each with all others.
    fn bridges(&self, gpus: &[&Product]) -> Vec<Bridge> {
        let name = |i: usize| format!("GPU{i}");
        let between = |a: usize, b: usize| [name(a), name(b)];
        let bricks = gpus[0].part.and_then(|part| part.module_nvlinks()).map(|(bricks, _)| bricks as usize);
        match bricks {
            Some(bricks) if gpus.len() > 1 => {
                let each = bricks / (gpus.len() - 1);
                let pairs = (0..gpus.len()).flat_map(|a| (a + 1..gpus.len()).map(move |b| (a, b)));
                let bridge = |(a, b)| Bridge { between: between(a, b), bricks: Some(each as u8) };
                pairs.filter(|_| each > 0).map(bridge).collect()
            }
            _ if self.bridged => {
                let firsts = (0..gpus.len().saturating_sub(1)).step_by(2);
                firsts.map(|a| Bridge { between: between(a, a + 1), bricks: None }).collect()
            }
            _ => Vec::new(),
        }
    }
}

/// The CPU and the switch of the GPUs' generation.
fn common(gpus: &[&Product]) -> (PcieGeneration, &'static str, &'static str) {
    let fastest = gpus.iter().filter_map(|gpu| gpu.part?.pcie?.generation).max();
    let of = COMMON.into_iter().find(|(from, ..)| fastest.is_some_and(|fastest| fastest >= *from));
    of.unwrap_or(COMMON[COMMON.len() - 1])
}

/// The same with the cards below switches, as many of a CPU as they need.
fn below_switches(sheet: &Sheet, gpus: &[&Product]) -> Sheet {
    let Ok(product) = Product::part_of(common(gpus).2, NodeKind::Switch) else { return sheet.clone() };
    let room = product.part.and_then(|part| part.lanes).unwrap_or(LANES * 6).saturating_sub(LANES) / LANES;
    let mut below = Sheet { cards: Vec::new(), ..sheet.clone() };
    for socket in 0..sheet.sockets {
        let cpu = format!("cpu{socket}");
        let cards: Vec<&Card> = sheet.cards.iter().filter(|card| card.at == cpu).collect();
        let first = below.switches.len();
        let switches = cards.len().div_ceil(room.max(1) as usize).max(1);
        below.switches.extend((first..first + switches).map(|i| Switch {
            name: format!("sw{i}"),
            product: product.clone(),
            at: cpu.clone(),
            width: None,
        }));
        // each kind evenly, so that an adapter is below the switch of the GPUs that use it
        for kind in [NodeKind::Gpu, NodeKind::Nic, NodeKind::Nvme, NodeKind::Fpga] {
            let of: Vec<&&Card> = cards.iter().filter(|card| card.product.kind == kind).collect();
            below.cards.extend(of.iter().enumerate().map(|(i, card)| {
                let at = format!("sw{}", first + i * switches / of.len());
                Card { at, ..(**card).clone() }
            }));
        }
    }
    below
}

#[cfg(test)]
mod tests {
    use super::*;
    use peerlane_machine::fabric::PathClass;

    fn read(text: &str) -> Machine {
        machine(text).unwrap().unwrap_or_else(|e| panic!("{text}: {e}"))
    }

    fn refused(text: &str) -> String {
        machine(text).unwrap().unwrap_err()
    }

    fn class(machine: &Machine, a: &str, b: &str) -> PathClass {
        let id = |name| machine.fabric.find(name).unwrap_or_else(|| panic!("{name}"));
        machine.fabric.class(id(a), id(b)).unwrap()
    }

    #[test]
    fn a_list_has_a_count_and_is_no_file() {
        for text in ["2x RTX 4090", "8xl40s+2xconnectx-7", "RTX 4090 + 2x 100G", "4 × A40"] {
            assert!(is_parts_list(text), "{text}");
        }
        for text in ["hgx-h100", "2x4090.txt", "a+b", "c++", "2x", "./2x", "p3dn.24xlarge", "run+1.json"] {
            assert!(!is_parts_list(text), "{text}");
        }
    }

    #[test]
    fn cards_are_spread_over_sockets_and_an_adapter_is_where_half_of_them_are() {
        let box_ = read("4x L40S + 2x 200G + 2x EPYC 9354");
        assert_eq!(box_.fabric.of_kind(NodeKind::Gpu).count(), 4);
        assert_eq!(class(&box_, "GPU0", "GPU1"), PathClass::Phb);
        assert_eq!(class(&box_, "GPU1", "GPU2"), PathClass::Sys);
        assert_eq!(class(&box_, "GPU3", "mlx5_1"), PathClass::Phb);
        assert!(box_.assumptions.iter().any(|a| a.contains("common arrangement")), "{:?}", box_.assumptions);
        assert_eq!(read("2x 4090").fabric.of_kind(NodeKind::Cpu).count(), 1);
    }

    #[test]
    fn too_few_lanes_put_cards_below_switches() {
        let many = read("10x RTX A6000 + 2x 100G + 2x xeon-scalable");
        assert!(many.fabric.of_kind(NodeKind::Switch).count() >= 2);
        assert_eq!(class(&many, "GPU0", "GPU9"), PathClass::Sys);
    }

    #[test]
    fn bridges_join_pairs_and_modules_all() {
        let pair = read("4x rtx-a6000 + nvlink");
        assert!(class(&pair, "GPU2", "GPU3").is_nvlink());
        assert!(!class(&pair, "GPU1", "GPU2").is_nvlink());
        let board = read("4x A100-SXM4 + 4x HDR");
        assert_eq!(class(&board, "GPU0", "GPU3"), PathClass::nvlink(4));
    }

    #[test]
    fn what_is_not_known_is_named() {
        assert!(refused("2x L40Z").contains("l40"), "{}", refused("2x L40Z"));
        assert!(refused("2x 100G").contains("lists no GPU"));
        assert!(refused("2x L40S + 3x 17G").contains("no adapter of this rate"));
        assert!(refused("900x L40S").contains("1 to 128"));
        assert!(refused("99999999999999999999x L40S + 1x L40S").contains("1 to 128"));
        assert!(refused("2x L40S + EPYC 9354 + Xeon Gold 6448Y").contains("one kind of CPU"));
    }
}
