//! What is written reads back as the same machine.

use super::*;
use crate::catalogue::{read_system, system, system_names, vendor_of};
use peerlane_machine::fabric::PathClass;
use peerlane_machine::machine::MachineKind;

fn classes(machine: &Machine) -> Vec<(String, String, Option<PathClass>)> {
    let fabric = &machine.fabric;
    let devices = fabric.devices();
    let name = |id: NodeId| fabric.node(id).name.clone();
    devices
        .iter()
        .flat_map(|a| devices.iter().map(move |b| (*a, *b)))
        .map(|(a, b)| (name(a), name(b), fabric.class(a, b)))
        .collect()
}

fn links(machine: &Machine) -> Vec<String> {
    let fabric = &machine.fabric;
    let name = |id: NodeId| &fabric.node(id).name;
    let mut all: Vec<String> = fabric
        .links()
        .iter()
        // within a package and on a card they follow from the nodes
        .filter(|l| !matches!(l.kind, LinkKind::OnDie | LinkKind::OnCard))
        .map(|l| format!("{} {} {:?} {:?} {} {:?}", name(l.a), name(l.b), l.kind, l.part, l.assumed, l.note))
        .collect();
    all.sort();
    all
}

fn nodes(machine: &Machine) -> Vec<Node> {
    let mut all = machine.fabric.nodes().to_vec();
    for (node, id) in all.iter_mut().zip(machine.fabric.ids()) {
        node.origins.clear();
        // a part that is written names its vendor
        node.vendor = vendor_of(&machine.fabric, Parts::embedded(), id);
    }
    all.sort_by(|a, b| a.name.cmp(&b.name));
    all
}

/// The file of a machine, and that it reads back as the same machine.
fn written(first: &Machine) -> String {
    let name = &first.name;
    let text = write_system(first).unwrap();
    let again = read_system(&text, name).unwrap_or_else(|e| panic!("{e}\n{text}"));
    assert_eq!(classes(first), classes(&again), "{name}");
    assert_eq!(links(first), links(&again), "{name}");
    assert_eq!(nodes(first), nodes(&again), "{name}");
    let order = |m: &Machine| m.fabric.devices().iter().map(|id| m.fabric.node(*id).name.clone()).collect::<Vec<_>>();
    assert_eq!(order(first), order(&again), "{name}");
    // a program's matrix may be of more than the machine's nodes; a file has no names for those
    let named = |m: &Matrix| m.rows.iter().chain(&m.cols).all(|n| n == "host" || first.fabric.find(n).is_some());
    let matrices = |m: &Machine| m.matrices.iter().map(|o| o.matrix.clone()).filter(named).collect::<Vec<_>>();
    assert_eq!(matrices(first), matrices(&again), "{name}");
    assert_eq!(first.statements, again.statements, "{name}");
    let curves = |m: &Machine| m.curves.iter().map(|(c, _)| c.clone()).collect::<Vec<_>>();
    assert_eq!(curves(first), curves(&again), "{name}");
    let rates = |m: &Machine| m.rates.iter().flat_map(|(t, _)| t.rows.clone()).map(|r| r.rates).collect::<Vec<_>>();
    assert_eq!(rates(first), rates(&again), "{name}");
    assert_eq!(first.p2p, again.p2p, "{name}");
    assert_eq!(first.slots, again.slots, "{name}");
    assert_eq!(first.facts, again.facts, "{name}");
    let words = |m: &Machine| (m.title.clone(), m.source.clone(), m.notes.clone(), m.unknown.clone());
    assert_eq!(words(first), words(&again), "{name}");
    let cells = |m: &Machine| m.stated_classes.as_ref().map(|(c, _)| (c.rows.clone(), c.cells.clone()));
    assert_eq!(cells(first), cells(&again), "{name}");
    text
}

#[test]
fn the_catalogue_survives_writing_and_reading() {
    for name in system_names() {
        let first = system(name).unwrap().unwrap();
        let again = read_system(&written(&first), name).unwrap();
        assert_eq!(first.assumptions, again.assumptions, "{name}");
    }
}

#[test]
fn captures_survive_writing_and_reading() {
    for folder in ["h200x4-vm", "h200x2-vm"] {
        let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../captures").join(folder);
        for machine in crate::assemble::assemble(crate::evidence::read_path(&path).unwrap()) {
            written(&machine);
        }
    }
}

#[test]
fn a_file_is_laid_out_as_people_write_it() {
    let text = written(&system("7gforce").unwrap().unwrap());
    for piece in
        ["notes = [\n    \"", "\n[nodes]\ncpu0 = { part = \"", "\n\n[[links]]\nbetween = [\"", "matrix = \"\"\"\n"]
    {
        assert!(text.contains(piece), "no {piece} in\n{text}");
    }
}

#[test]
fn gaps_and_sentences_stand_in_one_list() {
    let mut machine = system("7gforce").unwrap().unwrap();
    for gaps in [vec![Gap::SwitchChips], vec![Gap::SwitchChips, Gap::Stated("the slots".to_owned())]] {
        machine.unknown = gaps;
        let again = read_system(&write_system(&machine).unwrap(), "x").unwrap();
        assert!(machine.unknown.iter().all(|gap| again.unknown.contains(gap)), "{:?}", again.unknown);
        assert_eq!(machine.unknown.len(), again.unknown.len());
    }
}

#[test]
fn odd_names_are_quoted() {
    let mut builder = peerlane_machine::fabric::FabricBuilder::new();
    let mut node = Node::new("a \"b\"\u{7f}.c", NodeKind::Gpu);
    node.note = Some("line\nbreak\t\\".into());
    builder.node(node);
    let machine = Machine::new("x\u{1}", MachineKind::Captured, builder.build().unwrap());
    let again = read_system(&write_system(&machine).unwrap(), "x").unwrap();
    // what a reader could not see is a space
    assert_eq!(again.name, "x ");
    assert_eq!(again.fabric.nodes()[0].name, "a \"b\" .c");
    assert_eq!(again.fabric.nodes()[0].note.as_deref(), Some("line break \\"));
}

#[test]
fn a_c2c_rate_survives() {
    let text = |kind: &str| {
        let nodes = "cpu0 = { kind = \"cpu\" }\nGPU0 = { kind = \"gpu\" }";
        format!("name = \"m\"\n[nodes]\n{nodes}\n[[links]]\nbetween = [\"cpu0\", \"GPU0\"]\n{kind}\n")
    };
    let first = read_system(&text("c2c = true\nc2c_rate = 345.0"), "m").unwrap();
    assert!(links(&first)[0].contains("345"), "{:?}", links(&first));
    written(&first);
    assert!(read_system(&text("c2c = true\nc2c_rate = 0.0"), "m").is_err());
    assert!(read_system(&text("nvlink = 1\nc2c_rate = 3.0"), "m").is_err());
}

#[test]
fn paths_that_nothing_states_stay_unknown() {
    use crate::assemble::assemble;
    use crate::evidence::{Text, scan_text};

    // cut off after two of its four rows
    let text = "\tGPU0\tGPU1\tGPU2\tGPU3\tCPU Affinity\nGPU0\t X \tPHB\tSYS\tSYS\t0-7\nGPU1\tPHB\t X \tSYS\tSYS\t0-7\n";
    let machine = assemble(scan_text(&Text::new("cut.txt", text.as_bytes()))).remove(0);
    let open = classes(&machine).iter().filter(|(_, _, class)| class.is_none()).count();
    assert!(open > 0, "{:?}", classes(&machine));
    let text = written(&machine);
    assert!(text.contains("\n[unknown_paths]\n"), "{text}");
    let refused = read_system(&text.replace("[unknown_paths]\n", "[unknown_paths]\nGPU9 = [\"GPU0\"]\n"), "m");
    assert!(refused.unwrap_err().to_string().contains("GPU9"));
}

#[test]
fn names_that_no_node_may_have_are_left_out() {
    use crate::assemble::assemble;
    use crate::evidence::{Text, scan_text};

    for name in ["", "host", " "] {
        let text = format!(
            "<system version=\"1\"><cpu numaid=\"0\"><pci busid=\"0000:41:00.0\" class=\"0x020000\"><nic><net name=\"{name}\" \
             dev=\"0\"/></nic></pci></cpu></system>"
        );
        let machines = assemble(scan_text(&Text::new("made-up.xml", text.as_bytes())));
        let written = write_system(&machines[0]).unwrap();
        let read = read_system(&written, "written").unwrap();
        assert_eq!(
            (classes(&read), nodes(&read).len()),
            (classes(&machines[0]), nodes(&machines[0]).len()),
            "{written}"
        );
        assert!(read.fabric.nodes().iter().all(|n| n.kind != NodeKind::Nic || n.name == "NIC0"), "{written}");
    }
}

#[test]
fn drives_and_capture_cards_keep_their_rates() {
    let text = r#"
name = "box"
[nodes]
cpu0 = { part = "epyc-rome" }
nvme0 = { part = "nvme-4-x4", read_rate = 6.5, write_rate = 3.0 }
daq0 = { kind = "fpga", line_rate = 40 }
[[links]]
between = ["cpu0", "nvme0"]
pcie = "4.0 x4"
[[links]]
between = ["cpu0", "daq0"]
pcie = "3.0 x8"
"#;
    let text = written(&read_system(text, "box").unwrap());
    for part in ["read_rate = 6.5", "write_rate = 3.0", "line_rate = 40.0"] {
        assert!(text.contains(part), "no {part} in {text}");
    }
}
