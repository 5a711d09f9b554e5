use proptest::prelude::*;

use super::*;
use peerlane_machine::fabric::CpuList;
use peerlane_machine::fact::Fact;

fn scanned(text: &str) -> Found {
    let mut found = Found::default();
    scan(&Text::new("test", text.as_bytes()), &mut found);
    found
}

fn matrices(found: &Found) -> Vec<ClassMatrix> {
    let classes = |fact: &Fact| if let Fact::Classes(m) = fact { Some(m.clone()) } else { None };
    found.evidence.iter().filter_map(|e| classes(&e.fact)).collect()
}

/// One matrix, and no warning.
fn clean(text: &str) -> ClassMatrix {
    let found = scanned(text);
    assert_eq!(found.warnings, []);
    let [one] = &matrices(&found)[..] else { panic!("{} matrices", found.evidence.len()) };
    one.clone()
}

fn list(text: &str) -> Option<CpuList> {
    Some(text.parse().unwrap())
}

const TABS: &str = "\t\x1b[4mGPU0\tGPU1\tNIC0\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\x1b[0m
GPU0\t X \tNV18\tPIX\t0-3,8-11\t0\t\tN/A
GPU1\tNV18\t X \tSYS\t4-7\t1,3-4\t\t2
NIC0\tPIX\tSYS\t X \t\t\t\t

Legend:

  X    = Self
  PIX  = Connection traversing at most a single PCIe bridge

NIC Legend:

  NIC0: ibp24s0
";

#[test]
fn tabs_and_spaces_read_alike() {
    let tabs = clean(TABS);
    assert_eq!(tabs.cols, ["GPU0", "GPU1", "NIC0"]);
    assert_eq!(tabs.between("GPU1", "NIC0"), Some(PathClass::Sys));
    assert_eq!(tabs.cpu_affinity, [list("0-3,8-11"), list("4-7"), None]);
    assert_eq!(tabs.numa_affinity, [list("0"), list("1,3-4"), None]);
    assert_eq!(tabs.gpu_numa, [None, Some(2), None]);
    assert_eq!(tabs.nic_names.get("NIC0").map(String::as_str), Some("ibp24s0"));
    assert_eq!(scanned(TABS).evidence[0].origin.lines, Some((1, 4)));
    let spaces = TABS.replace("\t\t", "\t").replace('\t', "    ");
    assert_eq!(clean(&spaces), tabs);
    let quoted = spaces.lines().map(|l| format!("> {l}\n")).collect::<String>();
    assert_eq!(clean(&quoted), tabs);
    let double_spaced = spaces.replace('\n', "\n\n");
    assert_eq!(clean(&double_spaced), tabs);
}

#[test]
fn lost_newlines_and_several_matrices_on_a_line() {
    let one = "prose about GPU1 and GPU0. $ nvidia-smi topo -m GPU0 mlx5_0 mlx5_1 CPU Affinity GPU0 X PHB PHB 0-9 \
               mlx5_0 PHB X PIX mlx5_1 PHB PIX X Legend: X = Self SOC = Path PIX = one switch";
    let m = clean(one);
    assert_eq!(m.rows, ["GPU0", "mlx5_0", "mlx5_1"]);
    assert_eq!(m.cpu_affinity, [list("0-9"), None, None]);
    assert_eq!(m.between("mlx5_0", "mlx5_1"), Some(PathClass::Pix));
    assert!(m.old_names);
    assert_eq!(matrices(&scanned(&format!("{one} {one}"))).len(), 2);
    assert_eq!(matrices(&scanned(&format!("{TABS}{TABS}"))).len(), 2);
}

#[test]
fn lost_tabs() {
    let text = "GPU0GPU1mlx5_0CPU Affinity\nGPU0 X PIXSYS0-9\nGPU1PIX X NODE0-9\nmlx5_0SYSNODE X \n";
    let m = clean(text);
    assert_eq!(m.cols, ["GPU0", "GPU1", "mlx5_0"]);
    assert_eq!(m.cell("GPU1", "mlx5_0"), Some(PathClass::Node));
    assert_eq!(m.cpu_affinity, [list("0-9"), list("0-9"), None]);
    // 0-90 may be CPUs 0-9 of node 0, and says neither
    let found = scanned("GPU0GPU1CPU AffinityNUMA Affinity\nGPU0 X PIX0-90\nGPU1PIX X 0-90\n");
    assert_eq!(matrices(&found)[0].cpu_affinity, [None, None]);
    assert_eq!(found.warnings.len(), 1);
}

#[test]
fn everything_glued_and_signs_of_markdown() {
    let found = scanned("GPU0GPU1CPU AffinityNUMA AffinityGPU NUMA ID\nGPU0XNODE0-310N/A\nGPU1NODEX0-310N/A\n");
    assert_eq!(matrices(&found)[0].cell("GPU0", "GPU1"), Some(PathClass::Node));
    assert_eq!(matrices(&found)[0].cpu_affinity, [None, None]);
    let m = clean(
        "| | **GPU0** | GPU1 | CPU Affinity |\n|---|---|---|---|\n| **GPU0** | X | `NV4` | 0-3 |\n| **GPU1** | `NV4` | **X** | 4-7 |\n",
    );
    assert_eq!((m.cell("GPU1", "GPU0"), m.cpu_affinity[1].clone()), (Some(PathClass::nvlink(4)), list("4-7")));
}

#[test]
fn header_without_leading_blank_and_old_names() {
    let m = clean("GPU0    GPU1    CPU Affinity\nGPU0     X     SOC    0-11\nGPU1    SOC     X     0-11\n");
    assert!(m.old_names);
    assert_eq!(m.cpu_affinity[1], list("0-11"));
}

#[test]
fn wrapped_lines_join() {
    let text = "\tGPU0\tGPU1\nGPU2\tCPU Affinity\tNUMA\nAffinity\nGPU0\t X \tPIX\nPIX\t0-1\t0\nGPU1\tPIX\t X \tSYS\n\
                0-1\t0\nGPU2\tPIX\tSYS\t X \t0-1\t0\n";
    let m = clean(text);
    assert_eq!(m.cols.len(), 3);
    assert_eq!(m.cell("GPU0", "GPU2"), Some(PathClass::Pix));
    assert_eq!(m.cpu_affinity, [list("0-1"), list("0-1"), list("0-1")]);
    assert_eq!(m.numa_affinity[0], list("0"));
}

#[test]
fn affinities_with_gaps() {
    let words = "       GPU0  GPU1\nGPU0    X    SYS   NUMA 0\nGPU1   SYS    X    NUMA 1\n";
    assert_eq!(clean(words).numa_affinity, [list("0"), list("1")]);
    let aligned = "        GPU0    GPU1    CPU Affinity    NUMA Affinity\n\
                   GPU0     X      SYS                     0\n\
                   GPU1    SYS      X                      1\n";
    let m = clean(aligned);
    assert_eq!(m.cpu_affinity, [None, None]);
    assert_eq!(m.numa_affinity, [list("0"), list("1")]);
}

#[test]
fn a_cut_last_row() {
    let found = scanned("\tGPU0\tGPU1\tGPU2\tNIC0\nGPU0\t X \tNV18\tNV18\tPIX\nGPU1\tNV18\t X \tNV1");
    let m = &matrices(&found)[0];
    assert_eq!(m.cells[1], [Some(PathClass::nvlink(18)), Some(PathClass::Same), None, None]);
    assert_eq!(found.warnings.len(), 2);
}

#[test]
fn a_cut_right_edge() {
    let found = scanned("\tGPU0\tGPU1\nGPU0\t X \tNV18\nGPU1\tNV18\t X \nNIC0\tPIX\tSYS\nNIC1\tSYS\tPIX\n");
    assert_eq!(matrices(&found)[0].rows.len(), 4);
    assert!(found.warnings[0].message.starts_with("2 of 4 columns"), "{found:?}");
}

#[test]
fn an_empty_cell_does_not_shift_the_others() {
    let found = scanned("\tGPU0\tGPU1\tGPU2\nGPU0\t X \t\tPIX\nGPU1\tSYS\t X \tPHB\nGPU2\tPIX\tPHB\t X\n");
    assert_eq!(matrices(&found)[0].cells[0], [Some(PathClass::Same), None, Some(PathClass::Pix)]);
    assert_eq!(found.warnings.len(), 1);
}

#[test]
fn a_lost_header() {
    let found = scanned("GPU0 X PIX SYS 0-9 0\nGPU1 PIX X SYS 0-9 0\nmlx5_0 SYS SYS X\n");
    let m = &matrices(&found)[0];
    assert_eq!(m.cols, ["GPU0", "GPU1", "mlx5_0"]);
    assert_eq!(m.numa_affinity[1], list("0"));
    assert_eq!(found.warnings.len(), 1);
    // NVLink leads to GPUs; whose the last two columns are is lost
    let found = scanned("GPU0 X NV4 NV4 PIX SYS\nGPU1 NV4 X NV4 PIX SYS\n");
    let m = &matrices(&found)[0];
    assert_eq!(m.cols, ["GPU0", "GPU1", "GPU2"]);
    assert!(found.warnings[0].message.contains("2 columns"), "{found:?}");
}

#[test]
fn what_is_no_topology() {
    for text in [
        "GPU0 and GPU1 share a switch\nGPU0 is fine\n",
        "  X    = Self\n  SYS  = Connection\n  PIX = GPU0 GPU1\n",
        "        GPU0    GPU1\n GPU0   X       OK\n GPU1   OK      X\n",
        "        GPU0\n GPU0   X\n",
        "       GPU0   GPU1\nGPU0   0      XGMI\nGPU1   XGMI   0\n",
        " Dst→  GPU0  GPU1\nGPU0:   —   53.9\nGPU1: 53.8   —\n",
        "GPU0 GPU0 CPU Affinity\nGPU0 X X 0\n",
    ] {
        assert_eq!(scanned(text), Found::default(), "{text}");
    }
}

/// Random matrices of GPUs and NICs; affinities are told for all GPUs or for none.
fn any_matrix() -> impl Strategy<Value = ClassMatrix> {
    let class = prop_oneof![
        (1u8..=36).prop_map(PathClass::nvlink),
        Just(PathClass::Pix),
        Just(PathClass::Pxb),
        Just(PathClass::Phb),
        Just(PathClass::Node),
        Just(PathClass::Sys),
    ];
    let told = prop::collection::vec(any::<bool>(), 3);
    (1usize..6, 0usize..4, any::<bool>(), told, any::<bool>()).prop_flat_map(move |(gpus, nics, named, told, old)| {
        let n = gpus + nics;
        prop::collection::vec(prop::collection::vec(class.clone(), n), n).prop_map(move |classes| {
            let nic = |k: usize| if named { format!("NIC{k}") } else { format!("mlx5_{k}") };
            let names: Vec<String> = (0..gpus).map(|k| format!("GPU{k}")).chain((0..nics).map(nic)).collect();
            let mut m = ClassMatrix { rows: names.clone(), cols: names, ..ClassMatrix::default() };
            m.cells = classes.into_iter().map(|row| row.into_iter().map(Some).collect()).collect();
            for (i, row) in m.cells.iter_mut().enumerate() {
                row[i] = Some(PathClass::Same);
            }
            let value = |i: usize, column: usize| i < gpus && told[column];
            let cpus = |i: u32| CpuList::from_ranges([(i * 8, i * 8 + 3), (100 + i * 8, 103 + i * 8)]);
            m.cpu_affinity = (0..n).map(|i| value(i, 0).then(|| cpus(i as u32))).collect();
            m.numa_affinity = (0..n).map(|i| value(i, 1).then(|| list(&format!("{i},{}", i + 9))).flatten()).collect();
            m.gpu_numa = (0..n).map(|i| value(i, 2).then_some(i as u32 + 2)).collect();
            m.old_names = old && m.cells.iter().flatten().any(|c| *c == Some(PathClass::Sys));
            if named {
                m.nic_names = (0..nics).map(|k| (format!("NIC{k}"), format!("mlx5_{}", k + 4))).collect();
            }
            m
        })
    })
}

proptest! {
    #[test]
    fn printing_and_reading_agree(m in any_matrix()) {
        prop_assert_eq!(clean(&m.to_topo_text()), m);
    }

    #[test]
    fn any_words_are_survived(words in prop::collection::vec(
        prop::sample::select(vec![
            "GPU0", "GPU1", "mlx5_0", "NIC0", "X", "NV18", "PIX", "SYS", "0-9", "N/A", "CPU", "NUMA", "Affinity",
            "GPU", "ID", "\t", "\n", "\n", "OK", "=", "Legend:", "NIC", "NIC0:", "é", "GPU0GPU1PIX", "|", "---",
        ]), 0..60)) {
        for m in matrices(&scanned(&words.join(" "))) {
            prop_assert!(m.cells.len() == m.rows.len() && m.cpu_affinity.len() == m.rows.len());
            prop_assert!(m.cells.iter().all(|row| row.len() == m.cols.len()));
        }
    }
}

/// Real captures, where their folder is named; each must print and read alike.
#[test]
#[expect(clippy::print_stdout, reason = "says why nothing was tested")]
fn corpus() {
    let Ok(folder) = std::env::var("PEERLANE_CORPUS") else {
        println!("skipped: PEERLANE_CORPUS is not set");
        return;
    };
    for (file, matrices_in_it) in [
        ("smi-4090-8gpu-all-sys.txt", 1),
        ("smi-b200-vm-4numa-PARTIAL.txt", 1),
        ("smi-gb200-4gpu-8nic.txt", 1),
        ("smi-hgx-h200-dual-epyc-10nic.txt", 1),
        ("smi-paddle-8xv100-vm.txt", 1),
        ("smi-p2p-gcp-4gpu-pairs.txt", 0),
        ("rocm-smi-mi200-4gpu-xgmi.txt", 0),
        ("smi-princeton-della-a100pcie-traverse-ac922.md", 2),
        ("doc-rtx6000pro-asus-broadcom-pex890xx.md", 1),
    ] {
        let read = |folder: String| std::fs::read_to_string(format!("{folder}/{file}")).ok();
        let Some(text) = read(folder.clone()).or_else(|| read(format!("{folder}/public"))) else {
            println!("skipped: {folder} has no {file}");
            continue;
        };
        let all = matrices(&scanned(&text));
        assert_eq!(all.len(), matrices_in_it, "{file}");
        for m in all {
            assert_eq!(matrices(&scanned(&m.to_topo_text())), [m], "{file}");
        }
    }
}

#[test]
fn headers_without_rows_hide_no_matrix() {
    let heads = "GPU0 GPU1 GPU2\n".repeat(20);
    let found = scanned(&format!("{heads}\tGPU0\tGPU1\nGPU0\t X \tPIX\nGPU1\tPIX\t X \n"));
    assert_eq!(found.evidence.len(), 1);
}

#[test]
fn a_row_of_one_cell_ends_what_has_no_header() {
    let found = scanned("GPU0 X PIX\nGPU1 PIX X\nGPU2 X\n\nGPU0 X SYS\nGPU1 SYS X\n");
    assert_eq!(found.evidence.iter().map(|e| e.origin.lines).collect::<Vec<_>>(), [Some((5, 6))]);
}

#[test]
fn dashes_on_the_diagonal_of_a_markdown_table() {
    let text = "| | GPU0 | GPU1 | GPU2 |\n|---|---|---|---|\n| GPU0 | — | PIX | SYS |\n| GPU1 | PIX | — | SYS |\n| GPU2 | SYS | SYS | — |\n";
    let mut found = Found::default();
    scan(&Text::new("t", text.as_bytes()), &mut found);
    let super::super::Fact::Classes(m) = &found.evidence[0].fact else { panic!("{found:#?}") };
    assert_eq!((m.between("GPU0", "GPU1"), m.between("GPU1", "GPU2")), (Some(PathClass::Pix), Some(PathClass::Sys)));
    let text = "     GPU0  GPU1\nGPU0  -    NV4\nGPU1  NV4   -\n";
    let mut found = Found::default();
    scan(&Text::new("t", text.as_bytes()), &mut found);
    assert_eq!(found.evidence.len(), 1, "{found:#?}");
}
