use super::*;
use peerlane_machine::fabric::{LinkKind, NodeKind, PathClass};
use peerlane_machine::matrix::{Engine, Operation};
use peerlane_model::model::{Model, PeerAccess, Transfer};
use peerlane_read::catalogue::system;

fn edited(name: &str, edits: &[&str]) -> Result<Machine, WhatIfError> {
    let edits: Vec<Edit> = edits.iter().map(|e| e.parse().unwrap()).collect();
    apply(&system(name).unwrap().unwrap(), &edits, Parts::embedded())
}

fn refusal(name: &str, edits: &[&str]) -> String {
    edited(name, edits).unwrap_err().to_string()
}

fn rate(machine: &Machine, from: &str, to: &str) -> f64 {
    let model = Model::new(machine, Parts::embedded());
    let find = |name: &str| machine.fabric.find(name).unwrap();
    let transfer = Transfer {
        source: find(from),
        destination: find(to),
        engine: Engine::Ce,
        op: Operation::Write,
        peer: PeerAccess::Enabled,
    };
    model.solve(&[transfer]).unwrap()[0].rate.gb()
}

fn class(machine: &Machine, a: &str, b: &str) -> Option<PathClass> {
    machine.fabric.class(machine.fabric.find(a)?, machine.fabric.find(b)?)
}

#[test]
fn an_edit_is_written_as_it_was_read() {
    for text in ["GPU0.link=pcie 3.0 x16", "7gforce:GPU0-plx0=none", "0000:05:00.0.link=x8"] {
        assert_eq!(text.parse::<Edit>().unwrap().to_string(), text);
    }
    let edit: Edit = "7gforce:GPU0.part = gtx-1080".parse().unwrap();
    assert!(edit.is_for("7gforce") && !edit.is_for("az-2x-m60") && edit.what == "GPU0.part");
    for wrong in ["GPU0", "=none", "GPU0="] {
        assert!(wrong.parse::<Edit>().is_err(), "{wrong}");
    }
}

#[test]
fn a_wider_link_is_faster_and_old_numbers_are_left_behind() {
    let before = system("7gforce").unwrap().unwrap();
    let after = edited("7gforce", &["GPU0.link=pcie x8", "GPU1-plx0=x8"]).unwrap();
    assert!(rate(&after, "GPU0", "GPU1") > 6.0 * rate(&before, "GPU0", "GPU1"));
    assert!(after.statements.is_empty() && after.matrices.is_empty() && after.stated_classes.is_none());
    assert!(after.assumptions.iter().any(|a| a == "What if: GPU0.link=pcie x8 (was PCIe 3.0 x1)."));
    assert!(after.title.unwrap().ends_with("what if GPU0.link=pcie x8, GPU1-plx0=x8"));
    let other = edited("7gforce", &["az-2x-m60:GPU9=none"]).unwrap();
    assert_eq!(other.statements, before.statements, "an edit for another machine is not this one's");
}

#[test]
fn nodes_and_links_go_and_come() {
    let less = edited("exxact-devbox", &["GPU1=none"]).unwrap();
    assert_eq!(less.fabric.of_kind(NodeKind::Gpu).count(), 3);
    assert!(less.p2p.keys().all(|(a, b)| less.fabric.node(*a).name != less.fabric.node(*b).name));
    assert_eq!(less.p2p.len(), 6, "the pairs that stay keep their statements");
    let half = edited("exxact-txr430", &["cpu1=none"]).unwrap();
    assert_eq!(half.fabric.of_kind(NodeKind::Gpu).count(), 4);
    assert!(half.fabric.find("host1").is_none() && half.fabric.find("plx2").is_none());
    let apart = edited("microway-s822lc", &["GPU0-GPU1=none"]).unwrap();
    assert_ne!(class(&apart, "GPU0", "GPU1"), Some(PathClass::nvlink(2)));
    let joined =
        edited("exxact-traditional", &["sw=pex8747", "sw.at=cpu0 3.0 x16", "GPU0.at=sw", "GPU1.at=sw"]).unwrap();
    assert_eq!(class(&joined, "GPU0", "GPU1"), Some(PathClass::Pix));
    assert!(refusal("exxact-devbox", &["GPU0=none", "GPU1=none", "GPU2=none", "GPU3=none"]).contains("no GPU"));
}

#[test]
fn what_moves_takes_its_socket_and_loses_what_was_said_of_its_place() {
    let machine = edited("exxact-traditional", &["GPU2.at=cpu0 3.0 x8"]).unwrap();
    let gpu = machine.fabric.find("GPU2").unwrap();
    assert_eq!(machine.fabric.node(gpu).numa, Some(0));
    assert_eq!(class(&machine, "GPU0", "GPU2"), Some(PathClass::Phb));
    assert!(machine.p2p.keys().all(|(a, b)| *a != gpu && *b != gpu));
    let width = |kind: &LinkKind| matches!(kind, LinkKind::Pcie { running, .. } if running.lanes == Some(8));
    assert!(machine.fabric.upstream(gpu).is_some_and(|(l, _)| width(&machine.fabric.link(l).kind)));
    assert!(refusal("exxact-txr414", &["plx_root.at=plx0"]).contains("is itself below"));
}

#[test]
fn peers_are_what_is_said_of_them() {
    let off = edited("exxact-devbox", &["GPU0-GPU1.p2p=off"]).unwrap();
    assert!(rate(&off, "GPU0", "GPU1") < rate(&off, "GPU2", "GPU3"));
    let all = edited("exxact-devbox", &["p2p=off"]).unwrap();
    assert_eq!(rate(&all, "GPU0", "GPU1"), rate(&all, "GPU2", "GPU3"));
    assert!(refusal("exxact-devbox", &["p2p=perhaps"]).contains("neither on nor off"));
}

#[test]
fn parts_are_exchanged_and_say_what_they_cannot() {
    let faster = ["plx0.part=pex88096", "GPU0.part=a100-pcie", "GPU0.link=pcie 4.0 x16"];
    assert!(edited("exxact-devbox", &faster).is_ok());
    let refused = refusal("exxact-devbox", &["GPU0.link=pcie 4.0 x16"]);
    assert!(refused.contains("3.0 x16 at most") && refused.contains("titan-x-maxwell"), "{refused}");
    let refused = refusal("exxact-devbox", &["GPU0.part=warp-drive"]);
    assert!(refused.contains("'warp-drive'") && refused.contains("h200"), "{refused}");
    assert!(refusal("exxact-devbox", &["rc0.part=xeon-e5-v4"]).contains("cpu0.part"));
    assert!(refusal("microway-s822lc", &["GPU0-GPU1=nvlink 4"]).contains("has 4 NVLink bricks"));
}

#[test]
fn more_lanes_than_there_are_name_who_has_them() {
    let refused = edited("exxact-devbox", &["GPU2.at=plx0"]).unwrap_err();
    let expected = WhatIfError::Lanes { owner: "plx0".into(), offered: 48, used: 64, larger: Some("pex8780".into()) };
    assert_eq!(refused, expected);
    assert!(refused.to_string().ends_with("or give it more: plx0.part=pex8780"));
    assert!(edited("exxact-devbox", &["GPU2.at=plx0", "plx0.part=pex8780"]).is_ok());
}

#[test]
fn names_that_nothing_has_are_answered_with_those_there_are() {
    for (edit, says) in [
        ("GPU9.link=x8", "no node 'GPU9'; the nodes are: GPU0–GPU3"),
        ("GPU0-GPU9=none", "no node 'GPU9'"),
        ("GPU9=none", "no node 'GPU9'"),
        ("GPU0.slot=x8", "a node has no 'slot'"),
        ("GPU0-GPU1=none", "no link joins 'GPU0' and 'GPU1'; 'GPU0' has links to: plx0"),
        ("GPU0.at=plx7", "no node 'plx7'"),
        ("GPU0.at=GPU1", "nothing can be placed below 'GPU1'"),
        ("GPU0.link=fast", "'fast' is no link"),
        ("GPU0.link=pcie 3.0 x5", "'3.0 x5' is no PCIe link"),
        ("GPU0.link=nvlink 2", "the link plx0-GPU0 is PCIe 3.0 x16"),
        ("plx0-GPU2=pcie 3.0 x16", "two paths up"),
        ("rc0.link=x8", "has several links; name both ends: rc0-plx0, rc0-plx1"),
        ("GPU0=gtx-1080", "'GPU0' is there"),
        ("new=gtx", "no part that a new one could be of"),
    ] {
        let refused = refusal("exxact-devbox", &[edit]);
        assert!(refused.contains(says) && refused.contains(edit), "{edit}: {refused}");
    }
}

/// GB/s of a NIC's transfer.
fn nic_rate(machine: &Machine, from: &str, to: &str) -> f64 {
    let find = |name: &str| machine.fabric.find(name).unwrap();
    let (source, destination) = (find(from), find(to));
    let transfer =
        Transfer { source, destination, engine: Engine::Nic, op: Operation::Write, peer: PeerAccess::Enabled };
    Model::new(machine, Parts::embedded()).solve(&[transfer]).unwrap()[0].rate.gb()
}

#[test]
fn the_method_of_a_nic_is_what_was_chosen() {
    let near = |edits: &[&str], want: f64| {
        let got = nic_rate(&edited("apenet-x56xx", edits).unwrap(), "GPU0", "apenet0");
        assert!((got - want).abs() < 2e-3, "{edits:?}: {got}, not {want}");
    };
    near(&["p2p=on"], 1.5);
    near(&["apenet0.method=nvp2p"], 1.5);
    near(&["apenet0.method=bar1"], 0.15);
    near(&["apenet0.method=staged"], 2.7);
    near(&["apenet0.method=bar1", "apenet0.method=none"], 1.5);
    let deep = edited("hpcac-tessa", &["mlx5_2.method=staged"]).unwrap();
    let shallow = edited("hpcac-tessa", &["mlx5_2.method=staged:chunk=64K,depth=1"]).unwrap();
    for [from, to] in [["GPU0", "mlx5_2"], ["mlx5_2", "GPU0"]] {
        assert!(nic_rate(&shallow, from, to) < 0.5 * nic_rate(&deep, from, to));
    }
    assert!(shallow.assumptions.iter().any(|a| a.contains("(was the faster direct one)")));
    let note = "What if: mlx5_2.method=staged:chunk=64K,depth=1";
    assert!(shallow.assumptions.iter().any(|a| a.starts_with(note)), "{:?}", shallow.assumptions);
}

#[test]
fn the_chosen_method_is_in_the_system_file() {
    let machine = edited("hpcac-tessa", &["mlx5_2.method=staged:chunk=64K,depth=2"]).unwrap();
    let text = peerlane_read::catalogue::write_system(&machine).unwrap();
    let again = peerlane_read::catalogue::read_system(&text, "again").unwrap();
    let method = |machine: &Machine| machine.fabric.node(machine.fabric.find("mlx5_2").unwrap()).method;
    assert!(method(&machine).is_some() && method(&again) == method(&machine), "{text}");
    let wrong = text.replace("staged:chunk=64K,depth=2", "staged:chunk=none");
    assert!(peerlane_read::catalogue::read_system(&wrong, "wrong").unwrap_err().to_string().contains("is no method"));
}

#[test]
fn methods_that_cannot_be_are_refused() {
    for (name, edit, says) in [
        ("hpcac-tessa", "mlx5_2.method=nvp2p", "the card does not speak NVIDIA's protocol"),
        ("hpcac-tessa", "mlx5_2.method=fast", "'fast' is no method; write nvp2p, bar1, staged"),
        ("hpcac-tessa", "mlx5_2.method=staged:depth=0", "'staged:depth=0' is no method"),
        ("hpcac-tessa", "GPU0.method=bar1", "'GPU0' is no NIC, and only a NIC has a method"),
        ("hpcac-tessa", "mlx5_2.slot=bar1", "mlx5_2.at, mlx5_2.method"),
        ("exxact-devbox", "GPU0.method=bar1", "there are none here"),
    ] {
        let refused = refusal(name, &[edit]);
        assert!(refused.contains(says) && refused.contains(edit), "{edit}: {refused}");
    }
}
