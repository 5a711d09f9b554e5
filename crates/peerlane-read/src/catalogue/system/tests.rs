//! System files good and bad.

use super::*;
use crate::catalogue::{system, system_names};
use peerlane_machine::fabric::{GpuLink, LinkKind, NodeKind, PathClass};
use peerlane_machine::fact::P2pStatus;

const SMALL: &str = r#"
name = "small"
[nodes]
cpu0 = { part = "xeon-e5-v3", numa = 0, cpus = "0-11" }
plx0 = { part = "pex8747" }
GPU0 = { part = "titan-x-maxwell" }
GPU1 = { part = "titan-x-maxwell", assumed = true }
[[links]]
between = ["cpu0", "plx0"]
pcie = "3.0 x16"
[[links]]
between = ["GPU0", "plx0"]
pcie = "3.0 x16"
[[links]]
between = ["plx0", "GPU1"]
pcie = "3.0 x8"
assumed = true
"#;

fn refusal(text: &str) -> String {
    match read_system(text, "bad.toml") {
        Ok(_) => panic!("accepted:\n{text}"),
        Err(e) => e.to_string(),
    }
}

#[test]
fn links_side_by_side_are_refused_rather_than_counted_once() {
    let two = |a: &str, b: &str, hub: &str| {
        let nodes = "GPU0 = { kind = \"gpu\" }\nGPU1 = { kind = \"gpu\" }\nsw0 = { kind = \"nvswitch\" }\nsw1 = { kind = \"nvswitch\" }";
        let link = |b: &str| format!("[[links]]\nbetween = [\"GPU0\", \"{b}\"]\nnvlink = 2\n");
        refusal(&format!("name = \"x\"\n[nodes]\n{nodes}\n{}{}{}", link(a), link(b), link(hub)))
    };
    assert!(two("GPU1", "GPU1", "sw0").contains("line 7 already; write one link"));
    assert!(two("sw0", "sw1", "GPU1").contains("'GPU0' is at 'sw0' already; write one nvswitch"));
}

#[test]
fn every_catalogue_system_reads_as_its_source_says() {
    for name in system_names() {
        let machine = system(name).unwrap().unwrap_or_else(|e| panic!("{e}"));
        assert_eq!(machine.name, name);
        assert_eq!(machine.kind, MachineKind::Catalogue);
        assert!(machine.source.is_some() && machine.title.is_some(), "{name}");
        assert_eq!(machine.warnings, [], "{name}");
        let Some((stated, _)) = &machine.stated_classes else { continue };
        for a in &stated.rows {
            for b in &stated.cols {
                let ids = machine.fabric.find(a).zip(machine.fabric.find(b)).unwrap();
                assert_eq!(machine.fabric.class(ids.0, ids.1), stated.cell(a, b), "{name}: {a} {b}");
            }
        }
    }
}

/// A link's running and allowed width, by the lower end's name.
fn widths(machine: &Machine, name: &str) -> (String, String) {
    let fabric = &machine.fabric;
    let (up, _) = fabric.upstream(fabric.find(name).unwrap()).unwrap();
    match &fabric.link(up).kind {
        LinkKind::Pcie { running, allowed, .. } => (running.to_string(), allowed.to_string()),
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_seven_gpu_machine_is_as_its_builders_describe_it() {
    let machine = system("7gforce").unwrap().unwrap();
    for i in 0..6 {
        assert_eq!(widths(&machine, &format!("GPU{i}")), ("3.0 x1".into(), "3.0 x8".into()));
    }
    assert_eq!(widths(&machine, "GPU6"), ("3.0 x8".into(), "3.0 x8".into()));
    assert_eq!(machine.slots.iter().map(|s| u32::from(s.wired)).sum::<u32>(), 64);
    assert_eq!(machine.p2p.len(), 7 * 6);
}

#[test]
fn systems_without_a_printed_matrix_have_the_classes_of_their_drawings() {
    let class = |name: &str, a: &str, b: &str| {
        let fabric = system(name).unwrap().unwrap().fabric;
        fabric.class(fabric.find(a).unwrap(), fabric.find(b).unwrap())
    };
    assert_eq!(class("hpcac-sys", "GPU0", "mlx5_0"), Some(PathClass::Sys));
    assert_eq!(class("exxact-txr414", "GPU0", "GPU9"), Some(PathClass::Pxb));
    assert_eq!(class("exxact-txr414-20", "GPU0", "GPU19"), Some(PathClass::Pxb));
    assert_eq!(class("microway-s822lc", "GPU0", "GPU1"), Some(PathClass::nvlink(2)));
    assert_eq!(class("microway-s822lc", "GPU0", "GPU2"), Some(PathClass::Sys));
    assert_eq!(class("dgx-1", "GPU0", "GPU4"), Some(PathClass::nvlink(1)));
    assert_eq!(class("dgx-1v", "GPU0", "GPU3"), Some(PathClass::nvlink(2)));
    assert_eq!(class("dgx-1v", "GPU0", "GPU7"), Some(PathClass::Sys));
    assert_eq!(class("hgx-h200", "GPU0", "GPU7"), Some(PathClass::nvlink(18)));
    assert_eq!(class("hgx-h200", "GPU3", "mlx5_3"), Some(PathClass::Pix));
    assert_eq!(class("az-4x-m60", "GPU0", "GPU1"), Some(PathClass::Pix));
    assert_eq!(class("quong-node", "GPU0", "apenet0"), Some(PathClass::Phb));
    assert_eq!(class("apenet-i7-plx", "GPU0", "apenet0"), Some(PathClass::Pix));
    assert_eq!(class("s2075-quad", "GPU0", "GPU2"), None, "two servers");
}

#[test]
fn every_gpu_of_a_dgx_1_uses_all_its_bricks() {
    for (name, bricks) in [("dgx-1", 4), ("dgx-1v", 6)] {
        let fabric = system(name).unwrap().unwrap().fabric;
        for gpu in fabric.of_kind(NodeKind::Gpu) {
            let used = fabric.links_of(gpu).iter().map(|(l, _)| match fabric.link(*l).kind {
                LinkKind::Gpu(bundle) => bundle.links.unwrap_or(0),
                _ => 0,
            });
            assert_eq!(used.sum::<u8>(), bricks, "{name} {}", fabric.node(gpu).name);
        }
    }
}

#[test]
fn old_megabytes_are_mebibytes() {
    let machine = system("microway-s822lc").unwrap().unwrap();
    let host = machine.matrices.iter().find(|m| m.matrix.rows == ["host"]).unwrap();
    assert!((host.matrix.rate(0, 0).unwrap().gb() - 34.851).abs() < 1e-3);
}

#[test]
fn the_documented_example_reads() {
    let page = include_str!("../../../../../docs/system-files.md");
    let example = page.split("```toml\n").nth(1).unwrap().split("```").next().unwrap();
    let machine = read_system(example, "docs/system-files.md").unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(machine.fabric.of_kind(NodeKind::Gpu).count(), 2);
    assert_eq!(machine.warnings, []);
    assert_eq!(machine.matrices.len(), 2);
}

#[test]
fn every_documented_example_reads() {
    let page = include_str!("../../../../../docs/system-files.md");
    let examples: Vec<&str> = page.split("```toml\n").skip(1).filter_map(|rest| rest.split("```").next()).collect();
    assert!(examples.len() >= 2);
    for example in examples {
        let machine = read_system(example, "docs/system-files.md").unwrap_or_else(|e| panic!("{e}"));
        assert_eq!(machine.warnings, []);
    }
}

#[test]
fn what_follows_is_filled_in() {
    let machine = read_system(SMALL, "small.toml").unwrap();
    let fabric = &machine.fabric;
    let id = |name: &str| fabric.find(name).unwrap();
    assert_eq!(fabric.node(id("host0")).kind, NodeKind::Host);
    assert_eq!(fabric.root_complex(id("GPU0")), Some(id("rc0")));
    assert_eq!(fabric.class(id("GPU0"), id("GPU1")), Some(PathClass::Pix));
    assert_eq!(fabric.nearest_host(id("GPU1")), Some(id("host0")));
    assert_eq!(fabric.node(id("GPU1")).numa, Some(0));
    assert_eq!(fabric.node(id("rc0")).domain, Some(0));
    let (up, _) = fabric.upstream(id("GPU0")).unwrap();
    assert_eq!(fabric.link(up).a, id("plx0"), "turned upstream end first");
    assert_eq!(widths(&machine, "GPU1"), ("3.0 x8".into(), "3.0 x16".into()));
    let said =
        ["GPU1 is taken to be NVIDIA GeForce GTX TITAN X (GM200, Maxwell).", "plx0–GPU1 is taken to be PCIe 3.0 x8."];
    assert_eq!(machine.assumptions, said);
    assert_eq!(fabric.node(id("GPU1")).origins[0].to_string(), "small.toml:7 (system file)");
}

#[test]
fn devices_keep_the_order_of_the_file() {
    let mut text = "name = \"n\"\n[nodes]\n".to_owned();
    for i in [2, 10, 1] {
        text += &format!("GPU{i} = {{ kind = \"gpu\" }}\n");
    }
    let machine = read_system(&text, "x").unwrap();
    let names: Vec<_> = machine.fabric.nodes().iter().map(|n| n.name.as_str()).collect();
    assert_eq!(names, ["GPU2", "GPU10", "GPU1"]);
}

#[test]
fn two_ports_of_a_card_share_its_link() {
    let text = r#"
name = "n"
[nodes]
cpu0 = { kind = "cpu" }
rc0 = { kind = "root-complex", of = "cpu0" }
rc1 = { kind = "root-complex", of = "cpu0" }
GPU0 = { kind = "gpu" }
mlx5_0 = { kind = "nic", card = "cx6" }
mlx5_1 = { kind = "nic", card = "cx6" }
[[links]]
between = ["rc0", "GPU0"]
pcie = "3.0 x16"
[[links]]
between = ["rc1", "cx6"]
pcie = "3.0 x16"
"#;
    let machine = read_system(text, "x").unwrap();
    let class =
        |a: &str, b: &str| machine.fabric.class(machine.fabric.find(a).unwrap(), machine.fabric.find(b).unwrap());
    assert_eq!(class("mlx5_0", "mlx5_1"), Some(PathClass::Pix));
    assert_eq!(class("GPU0", "mlx5_1"), Some(PathClass::Node));
    let said = refusal(&text.replace("\"rc1\", \"cx6\"", "\"cpu0\", \"cx6\""));
    assert!(said.contains("line 14: this CPU has several root complexes") && said.contains("rc0, rc1"), "{said}");
}

#[test]
fn numbers_read_with_their_gaps() {
    let text = format!(
        "{SMALL}[[p2p]]\nstatus = \"no\"\n[[published]]\nquantity = \"bandwidth\"\nunit = \"GB/s\"\nmatrix = \"\"\"\n X 1.5\n\
         N/A -\n\"\"\"\n[[statements]]\ntext = \"t\"\nquantity = \"latency\"\nfrom = [\"host\"]\nto = [\"GPU1\"]\n\
         value = 2\nunit = \"us\"\n[[rates]]\nwords = [\"what\"]\ncolumns = [\"BW\"]\nunit = \"MiB/s\"\n\
         rows = [{{ words = [\"a\"], values = [100] }}, {{ words = [\"b\"], values = [nan] }}]\n"
    );
    let machine = read_system(&text, "x").unwrap();
    let matrix = &machine.matrices[0].matrix;
    assert_eq!(matrix.values, [[None, Some(1.5)], [None, None]]);
    assert_eq!(matrix.rows, ["GPU0", "GPU1"]);
    assert_eq!((machine.statements[0].low, machine.statements[0].high), (2.0, 2.0));
    assert_eq!(machine.rates[0].0.rows[1].rates, [None]);
    assert_eq!(machine.p2p.len(), 2);
    assert!(machine.p2p.values().all(|s| *s == P2pStatus::NotSupported));
}

#[test]
fn refusals_name_the_line_and_the_mend() {
    let cases = [
        (
            SMALL.replace("\"plx0\", \"GPU1\"", "\"plx0\", \"GPU7\""),
            "line 15: no node 'GPU7'; did you mean GPU0 or GPU1?",
        ),
        (SMALL.replace("pex8747", "pex9999"), "line 5: no part 'pex9999' is known; did you mean pex9797"),
        (SMALL.replace("pex8747", "PEX 874"), "no part 'PEX 874' is known; did you mean pex8747"),
        (
            SMALL.replace("pex8747", "zzz"),
            "no part 'zzz' is known; 'peerlane systems parts' lists them, or leave `part` out",
        ),
        (SMALL.replace("GPU1 =", "GPU0 ="), "line 7"),
        (SMALL.replace("3.0 x8", "3.0 x7"), "line 16: '3.0 x7' is no PCIe link"),
        (SMALL.replace("3.0 x8", "4.0 x16"), "runs at 4.0 x16, but its ends and its slot allow 3.0 x16"),
        (SMALL.replace("pcie = \"3.0 x8\"", "nvlink = 0"), "line 14"),
        (SMALL.replace("pcie = \"3.0 x8\"", ""), "line 14: a link needs exactly one of"),
        (SMALL.replace("pcie = \"3.0 x8\"", "smp = \"rope\""), "no inter-socket part 'rope' is known"),
        (SMALL.replace("\"plx0\", \"GPU1\"", "\"GPU1\", \"GPU1\""), "itself"),
        (SMALL.replace("\"plx0\", \"GPU1\"", "\"cpu0\", \"GPU0\""), "two paths up the PCIe tree"),
        (SMALL.replace("name = \"small\"", "nam = \"small\""), "nam"),
        (
            format!("{SMALL}[[published]]\nquantity = \"bandwidth\"\nunit = \"GB/s\"\nmatrix = \"1 2 3\"\n"),
            "line 21: 3 numbers",
        ),
        (
            format!("{SMALL}[[published]]\nquantity = \"bandwidth\"\nunit = \"GB/s\"\nmatrix = \"\"\"\n1 2\n\"\"\"\n"),
            "1 rows, where 2",
        ),
        (
            format!(
                "{SMALL}[[published]]\nquantity = \"bandwidth\"\nunit = \"GB/s\"\nmatrix = \"\"\"\n1 2\n1 oh\n\"\"\"\n"
            ),
            "line 23: 'oh'",
        ),
        (
            format!(
                "{SMALL}[[published]]\nquantity = \"bandwidth\"\nunit = \"GB/s\"\nmatrix = \"\"\"\n1 2\n1 -5\n\"\"\"\n"
            ),
            "line 23: '-5'",
        ),
        (
            format!(
                "{SMALL}[[statements]]\ntext = \"t\"\nquantity = \"bandwidth\"\nfrom = [\"GPU0\"]\nto = [\"GPU1\"]\nunit = \"GB/s\"\nvalue = nan\n"
            ),
            "finite",
        ),
        (format!("{SMALL}[facts]\nrack_units = nan\n"), "facts.rack_units is NaN; write a number from 0 to"),
        (format!("{SMALL}[facts]\ntflops = inf\n"), "facts.tflops is inf"),
        (format!("{SMALL}[facts]\nprice_usd = -1\n"), "facts.price_usd is -1"),
        ("name = [[[[".to_owned(), "line 1"),
        (String::new(), "name"),
    ];
    for (text, expected) in cases {
        let said = refusal(&text);
        assert!(said.starts_with("system bad.toml: ") && said.contains(expected), "wanted '{expected}' in: {said}");
    }
}

#[test]
fn lanes_are_counted() {
    let third = "[[links]]\nbetween = [\"plx0\", \"GPU2\"]\npcie = \"3.0 x16\"\n";
    let three =
        SMALL.replace("[[links]]\nbetween = [\"cpu0\"", "GPU2 = { kind = \"gpu\" }\n[[links]]\nbetween = [\"cpu0\"");
    let said = refusal(&format!("{three}{third}"));
    assert!(said.contains("'plx0' has 48 PCIe lanes, but its links and slots take 56"), "{said}");
    // a slot holds its lanes whether or not a card is in it
    let slots = "[[slots]]\nname = \"S1\"\nphysical = 16\nwired = 16\nport = \"plx0\"\n";
    let said = refusal(&format!("{SMALL}{slots}"));
    assert!(said.contains("take 56"), "{said}");
    let said = refusal(&format!("{SMALL}{}", slots.replace("physical = 16", "physical = 8")));
    assert!(said.contains("line 18: slot 'S1' has room for 8 lanes, not 16"), "{said}");
}

#[test]
fn nvlink_bricks_are_counted() {
    let text = "name = \"n\"\n[nodes]\nGPU0 = { part = \"tesla-p100-sxm2\" }\nGPU1 = { part = \"tesla-p100-sxm2\" }\n\
                [[links]]\nbetween = [\"GPU0\", \"GPU1\"]\nnvlink = 4\n";
    let machine = read_system(text, "x").unwrap();
    assert_eq!(machine.fabric.links()[0].kind, LinkKind::Gpu(GpuLink::nvlink(Some(1), 4)));
    let said = refusal(&text.replace("= 4", "= 5"));
    assert!(said.contains("'GPU0' has 4 NVLink bricks, but its links take 5"), "{said}");
}

#[test]
fn an_alias_is_a_name_and_no_second_node() {
    let text = "name = \"n\"\n[nodes]\ncpu0 = { kind = \"cpu\", aliases = [\"socket0\"] }\nGPU0 = { kind = \"gpu\" }\n\
                [[links]]\nbetween = [\"socket0\", \"GPU0\"]\npcie = \"?\"\n";
    let machine = read_system(text, "x").unwrap();
    let names: Vec<_> = machine.fabric.nodes().iter().map(|n| n.name.as_str()).collect();
    assert_eq!(names, ["cpu0", "GPU0", "host0", "rc0"]);
}

proptest::proptest! {
    #[test]
    fn nonsense_is_refused_and_nothing_else(text in "\\PC*", cut in 0usize..600) {
        let _ = read_system(&text, "x");
        let cut = SMALL.chars().take(cut).collect::<String>();
        let _ = read_system(&cut, "x");
    }
}

/// The lines of a refusal.
fn problems(text: &str) -> Vec<(Option<u32>, String)> {
    let error = read_system(text, "bad.toml").unwrap_err();
    error.problems.into_iter().map(|p| (p.line, p.message)).collect()
}

#[test]
fn everything_that_is_wrong_is_listed_once_with_its_line() {
    let found = problems(include_str!("many_errors.toml"));
    let expected = [
        (2, "unknown field `titel`; did you mean `title`?"),
        (6, "no part 'RTX 4900' is known; did you mean rtx 4090"),
        (7, "invalid type: string \"zero\", expected u32"),
        (9, "no part 'PEX 8945' is known; did you mean pex"),
        (11, "slot 'SLOT1' has room for 8 lanes, not 16"),
        (11, "slot 'SLOT1' is at no node 'cpo0'; did you mean cpu0"),
        (23, "unknown field `pci`; did you mean `pcie`?"),
        (26, "no node 'GPU22'; did you mean GPU2"),
        (31, "the link runs at 5.0 x16"),
        (34, "unknown variant `bandwith`; did you mean `bandwidth`?"),
        (41, "no node 'hos0'; did you mean host0?"),
    ];
    let brief = |(line, message): &(Option<u32>, String)| format!("{line:?} {message}");
    let all = found.iter().map(brief).collect::<Vec<_>>().join("\n");
    assert_eq!(found.len(), expected.len(), "{all}");
    for ((line, message), (due, text)) in found.iter().zip(expected) {
        assert!(*line == Some(due) && message.starts_with(text), "wanted line {due}: {text}, in:\n{all}");
    }
    assert!(refusal(include_str!("many_errors.toml")).starts_with("system bad.toml: 11 errors\n  line 2: "));
}

#[test]
fn what_follows_from_an_unreadable_field_is_not_listed() {
    let head = "name = \"n\"\n[nodes]\nGPU0 = { prt = \"h200\" }\nGPU1 = { part = 3 }\n";
    let links =
        "[[links]]\nbetween = [\"GPU0\", 7]\npcie = \"5.0 x16\"\n[[links]]\nbetween = [\"GPU0\", \"GPU1\"]\npcie = 4\n";
    let found = problems(&format!("{head}{links}"));
    assert_eq!(found.iter().map(|(line, _)| line.unwrap()).collect::<Vec<_>>(), [3, 4, 6, 10], "{found:?}");
    assert_eq!(found[0].1, "unknown field `prt`; did you mean `part`?");
}

#[test]
fn a_broken_line_is_listed_alone_and_a_list_of_errors_ends() {
    let found = problems(&SMALL.replace("\"xeon-e5-v3\"", "\"xeon-e5-v3").replace("pex8747", "pex9999"));
    assert_eq!(found.iter().map(|(line, _)| *line).collect::<Vec<_>>(), [Some(4)], "{found:?}");
    let many: String = (0..200).map(|i| format!("sw{i} = {{ part = \"zzz\" }}\n")).collect();
    assert_eq!(problems(&format!("name = \"n\"\n[nodes]\n{many}")).len(), problems::MOST);
}

#[test]
fn memory_and_pattern_stand_in_their_own_keys_and_in_older_files_in_the_title() {
    use peerlane_machine::matrix::{HostMemory, Pattern};
    let of = |keys: &str| {
        let entry = "quantity = \"bandwidth\"\nunit = \"GB/s\"\nrows = [\"GPU0\"]\ncols = [\"host\"]\nmatrix = \"5\"";
        let machine = read_system(&format!("{SMALL}[[published]]\n{keys}\n{entry}\n"), "small.toml").unwrap();
        let again = read_system(&write_system(&machine).unwrap(), "small.toml").unwrap();
        let matrix = &machine.matrices[0].matrix;
        assert_eq!(&again.matrices[0].matrix, matrix, "it is written as it was read");
        (matrix.memory, matrix.pattern, matrix.is_of_pairs())
    };
    assert_eq!(of(""), (None, None, true));
    assert_eq!(of("title = \"device to host, pinned\""), (None, None, true));
    assert_eq!(of("memory = \"pinned\""), (Some(HostMemory::Pinned), None, true));
    assert_eq!(of("memory = \"pageable\""), (Some(HostMemory::Pageable), None, false));
    assert_eq!(of("title = \"bandwidthTest, PAGEABLE\""), (Some(HostMemory::Pageable), None, false));
    assert_eq!(of("title = \"managed, prefetched\""), (Some(HostMemory::ManagedPrefetch), None, false));
    assert_eq!(of("title = \"all_to_host_memcpy_ce\""), (None, Some(Pattern::AllToOne), false));
    assert_eq!(of("title = \"host_to_all_memcpy_ce\""), (None, Some(Pattern::OneToAll), false));
    // what is stated counts, whatever the title is
    assert_eq!(of("title = \"one_to_all\"\npattern = \"all-to-all\""), (None, Some(Pattern::AllToAll), false));
    let unknown =
        format!("{SMALL}[[published]]\nmemory = \"wet\"\nquantity = \"bandwidth\"\nunit = \"GB/s\"\nmatrix = \"5\"\n");
    assert!(refusal(&unknown).contains("wet"), "{}", refusal(&unknown));
}
