//! Modules of baseboards (SXM, OAM, superchips) in a list of parts: the system of the catalogue that has these GPUs, with the
//! list's CPUs and adapters; of boards that the catalogue does not have, up to four GPUs, each joined to all others.

use toml::{Table, Value};

use super::Product;
use super::list::List;
use super::plan::{narrower, pcie, stem};
use peerlane_machine::fabric::{NodeKind, PcieWidth};
use peerlane_machine::machine::Machine;
use peerlane_machine::one_line::shown;
use peerlane_model::assumptions::inter_socket_part;
use peerlane_read::catalogue::{PartKind, Parts, read_system, system, system_names, system_text};

/// GPUs that are joined each to all others where the catalogue has no board of them.
const MESHED: usize = 4;

/// What of a system file is the board's, and not one machine's.
const OF_BOARD: [&str; 5] = ["links", "nodes", "facts", "notes", "slots"];

/// The machine; `None` of cards, and of a few modules, that a sheet describes.
pub(super) fn machine(list: &List, gpus: &[&Product]) -> Option<Result<Machine, String>> {
    let part = gpus[0].part.filter(|part| part.module || part.is_on_cpu_module())?;
    let alike = gpus.iter().all(|gpu| gpu.part == Some(part));
    let nics = list.of(&[NodeKind::Nic]);
    let found = if alike { base(&part.name, gpus.len(), &nics) } else { None };
    match found {
        Some(name) => Some(of_system(name, list, &nics)),
        None if alike && gpus.len() <= MESHED && !part.is_on_cpu_module() => None,
        None => {
            let known: Vec<&str> = system_names().filter(|name| gpus_of(name, &part.name) > 0).collect();
            Some(Err(format!(
                "'{}': no board with {} × {} is known; systems with such GPUs: {}",
                shown(&list.name),
                gpus.len(),
                part.title,
                if known.is_empty() { "none".to_owned() } else { known.join(", ") }
            )))
        }
    }
}

/// How many GPUs of this part a system has, or of one that is named after it: `gh200-120gb` is a `gh200`.
fn gpus_of(system: &str, part: &str) -> usize {
    let of = |end: &str| system_text(system).map_or(0, |text| text.matches(&format!("part = \"{part}{end}")).count());
    of("\"") + of("-")
}

/// The system with exactly these GPUs: the one whose adapters they are, else a maker's own board.
fn base(gpu: &str, count: usize, nics: &[&Product]) -> Option<&'static str> {
    let fitting = system_names()
        .filter(|name| gpus_of(name, gpu) == count)
        .filter_map(|name| Some((name, system(name)?.ok()?)))
        .filter(|(_, machine)| machine.fabric.of_kind(NodeKind::Gpu).count() == count);
    let rank = |(name, machine): &(&'static str, Machine)| {
        let own = machine.fabric.of_kind(NodeKind::Nic).filter_map(|id| machine.fabric.node(id).part.clone());
        let own: Vec<String> = own.collect();
        let same =
            own.len() == nics.len() && nics.iter().zip(&own).all(|(nic, own)| nic.part.is_some_and(|p| p.name == *own));
        (!same, !name.starts_with("hgx") && !name.starts_with("dgx"))
    };
    fitting.min_by_key(rank).map(|(name, _)| name)
}

/// The system with the list's CPUs and adapters in the place of its own.
fn of_system(name: &str, list: &List, nics: &[&Product]) -> Result<Machine, String> {
    let refused = |why: String| format!("'{}': {why}", shown(&list.name));
    let text = system_text(name).unwrap_or_default();
    let mut table: Table = toml::from_str(text).map_err(|e| e.to_string())?;
    let source = table.get("source").and_then(Value::as_str).unwrap_or(name).to_owned();
    table.retain(|key, _| OF_BOARD.iter().any(|own| *key == **own));
    let cpus = list.of(&[NodeKind::Cpu]);
    if let Some(cpu) = cpus.first() {
        replace_cpus(&mut table, cpu, cpus.len()).map_err(refused)?;
    }
    if !nics.is_empty() {
        replace_adapters(&mut table, nics);
    }
    let title: Vec<String> =
        list.parts.iter().map(|(count, product)| format!("{count} × {}", product.title())).collect();
    let kept = if nics.is_empty() { ", and so are its adapters" } else { "" };
    let assumed = format!("The list states parts only: their arrangement is that of {name}{kept}.");
    for (key, value) in [
        ("name", Value::String(list.name.clone())),
        ("title", Value::String(title.join(", "))),
        ("source", Value::String(format!("a list of parts; the board: {source}"))),
        ("assumptions", Value::Array(vec![Value::String(assumed)])),
    ] {
        table.insert(key.to_owned(), value);
    }
    read_system(&toml::to_string(&table).map_err(|e| e.to_string())?, &list.name).map_err(|e| refused(e.to_string()))
}

/// The kind of a node of a system file.
fn kind(node: &Value) -> Option<PartKind> {
    let text = |key: &str| node.get(key).and_then(Value::as_str);
    let of_part = text("part").and_then(|part| Some(Parts::embedded().get(part)?.kind));
    let stated =
        [NodeKind::Gpu, NodeKind::Nic, NodeKind::Cpu].into_iter().find(|kind| text("kind") == Some(kind.name()));
    of_part.or_else(|| PartKind::of_node(stated?))
}

fn nodes(table: &mut Table) -> Option<&mut Table> {
    table.get_mut("nodes")?.as_table_mut()
}

fn links(table: &mut Table) -> Option<&mut Vec<Value>> {
    table.get_mut("links")?.as_array_mut()
}

/// The two ends of a link.
fn ends(link: &Value) -> Vec<String> {
    let ends = link.get("between").and_then(Value::as_array).into_iter().flatten();
    ends.filter_map(Value::as_str).map(str::to_owned).collect()
}

/// An entry that nobody has stated.
fn assumed<const N: usize>(fields: [(&str, Value); N]) -> Value {
    let fields = fields.into_iter().chain([("assumed", Value::Boolean(true))]);
    Value::Table(fields.map(|(key, value)| (key.to_owned(), value)).collect())
}

fn replace_cpus(table: &mut Table, cpu: &Product, count: usize) -> Result<(), String> {
    let Some(part) = cpu.part else { return Ok(()) };
    let own: Vec<&mut Value> = nodes(table)
        .map(|all| all.iter_mut().map(|(_, node)| node).filter(|node| kind(node) == Some(PartKind::Cpu)).collect())
        .unwrap_or_default();
    if own.len() != count {
        return Err(format!("{count} × {}, where the board has {}", cpu.name, own.len()));
    }
    for node in own.into_iter().filter_map(Value::as_table_mut) {
        node.insert("part".to_owned(), Value::String(part.name.clone()));
        node.insert("product".to_owned(), Value::String(cpu.name.clone()));
    }
    let between = inter_socket_part(part).unwrap_or("?");
    for link in links(table).into_iter().flatten().filter_map(Value::as_table_mut) {
        if let Some(smp) = link.get_mut("smp") {
            *smp = Value::String(between.to_owned());
        }
    }
    Ok(())
}

/// Adapters beside the GPUs, in their order.
fn replace_adapters(table: &mut Table, nics: &[&Product]) {
    let is = |node: &Value, wanted: PartKind| kind(node) == Some(wanted);
    let named = |table: &mut Table, wanted: PartKind| -> Vec<String> {
        let all = nodes(table).map(|all| all.iter().filter(|(_, node)| is(node, wanted)).map(|(name, _)| name.clone()));
        all.map(Iterator::collect).unwrap_or_default()
    };
    let old = named(table, PartKind::Nic);
    let mut gpus = named(table, PartKind::Gpu);
    gpus.sort_by_key(|name| name.trim_start_matches(|c: char| !c.is_ascii_digit()).parse::<usize>().unwrap_or(0));
    if let Some(all) = nodes(table) {
        all.retain(|name, _| !old.iter().any(|old| old == name));
    }
    // the place above each GPU, and the generation of its link
    let mut places: Vec<(String, PcieWidth)> = Vec::new();
    if let Some(all) = links(table) {
        all.retain(|link| !ends(link).iter().any(|end| old.contains(end)));
        for gpu in &gpus {
            let above = all.iter().find_map(|link| {
                let width = link.get("pcie")?.as_str()?.parse().ok()?;
                let ends = ends(link);
                let other = ends.iter().find(|end| *end != gpu).filter(|_| ends.contains(gpu))?;
                Some((other.clone(), width))
            });
            places.extend(above);
        }
    }
    for (i, nic) in nics.iter().enumerate().filter(|_| !places.is_empty()) {
        let (above, width) = &places[i * places.len() / nics.len()];
        let name = format!("{}{i}", stem(nic));
        let generation = PcieWidth { generation: width.generation, lanes: None };
        let pcie = narrower(pcie(nic.part), generation);
        let part = nic.part.map_or("none", |part| &part.name);
        if let Some(all) = links(table) {
            let between = Value::Array([above, &name].map(|end| Value::String(end.clone())).into());
            all.push(assumed([("between", between), ("pcie", Value::String(pcie.to_string()))]));
        }
        if let Some(all) = nodes(table) {
            all.insert(name, assumed([("part", Value::String(part.to_owned()))]));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::machine;
    use peerlane_machine::fabric::{NodeKind, PathClass};

    #[test]
    fn a_known_board_has_the_lists_adapters_and_cpus() {
        let eight = machine("8x h100-sxm5 + 4x 200G + 2x EPYC 9554").unwrap().unwrap();
        let id = |name: &str| eight.fabric.find(name).unwrap();
        assert_eq!(eight.fabric.class(id("GPU0"), id("GPU7")), Some(PathClass::nvlink(18)));
        assert_eq!(eight.fabric.of_kind(NodeKind::Nic).count(), 4);
        assert_eq!(eight.fabric.class(id("GPU0"), id("mlx5_0")), Some(PathClass::Pix));
        assert_eq!(eight.fabric.class(id("GPU7"), id("mlx5_3")), Some(PathClass::Pix));
        assert_eq!(eight.fabric.node(id("cpu1")).part.as_deref(), Some("epyc-genoa"));
        let figures = eight.matrices.len() + eight.curves.len() + eight.rates.len() + eight.statements.len();
        assert_eq!(figures, 0, "another machine's figures are none of this one's");
        let own = machine("8x h100-sxm5").unwrap().unwrap();
        assert_eq!(own.fabric.of_kind(NodeKind::Nic).count(), 8);
    }

    #[test]
    fn a_board_that_nobody_makes_is_refused_with_those_there_are() {
        for (list, known) in [("7x h100-sxm5", "hgx-h100"), ("2x gh200", "gh200-quad")] {
            let why = machine(list).unwrap().unwrap_err();
            assert!(why.contains(known), "{why}");
        }
    }
}
