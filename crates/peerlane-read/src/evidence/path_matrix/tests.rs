use super::super::testing::scanned;
use super::*;
use peerlane_machine::fabric::Interconnect;

fn matrix(text: &str) -> ClassMatrix {
    let found = scanned(scan, text);
    let [one] = found.evidence.as_slice() else { panic!("{text}\n{found:#?}") };
    let Fact::Classes(matrix) = &one.fact else { panic!("{one:?}") };
    matrix.clone()
}

const fn own(links: u8) -> PathClass {
    PathClass::Gpu(Interconnect::Other, links)
}

#[test]
fn a_legend_defines_its_words() {
    let text = "\
      DCU0 DCU1 DCU2 mlx5_0
DCU0  X    QQ3  ZB   WB
DCU1  QQ3  X    ZB   WB
DCU2  ZB   ZB   X    YY
mlx5_0 WB  WB   YY   X

Legend:
  QQ# = Connection over # of the maker's links
  ZB  = Connection traversing the SMP interconnect between NUMA nodes
  WB  = Connection traversing multiple PCIe switches (without traversing the PCIe Host Bridge)
";
    let m = matrix(text);
    assert_eq!(m.between("DCU0", "DCU1"), Some(own(3)));
    assert_eq!((m.between("DCU0", "DCU2"), m.between("DCU1", "mlx5_0")), (Some(PathClass::Sys), Some(PathClass::Pxb)));
    assert_eq!(m.between("DCU2", "mlx5_0"), None, "no legend has it");
    let found = scanned(scan, text);
    assert!(found.warnings[0].message.contains("what YY means"), "{:?}", found.warnings);
}

/// Ten makers' tables, by the words of their manuals.
#[test]
fn ten_makers() {
    let two = |a: &str, b: &str, word: &str| {
        format!("      {a}  {b}  CPU Affinity\n{a}  X  {word}  0-7\n{b}  {word}  X  0-7\n")
    };
    for (a, b, word, class) in [
        ("GPU0", "GPU1", "MTL4", own(4)),
        ("GPU 0/0", "GPU 0/1", "MDF", own(0)),
        ("GPU0", "GPU1", "XL8", own(8)),
        ("NPU0", "NPU1", "HCCS", own(0)),
        ("MLU0", "MLU1", "SYS", PathClass::Sys),
        ("GPU0", "GPU1", "MX7", own(7)),
        ("XPU0", "XPU1", "NODE", PathClass::Node),
        ("GCU0", "GCU1", "PIX", PathClass::Pix),
        ("DCU0", "DCU1", "XGMI", PathClass::XGMI),
        ("HPU0", "HPU1", "PHB", PathClass::Phb),
        ("Device 0", "Device 1", "PXB", PathClass::Pxb),
    ] {
        let m = matrix(&two(a, b, word));
        let name = |name: &str| name.replace(' ', "");
        assert_eq!(m.between(&name(a), &name(b)), Some(class), "{a} {word}");
        assert_eq!(m.cpu_affinity[0].as_ref().map(ToString::to_string).as_deref(), Some("0-7"), "{a}");
    }
}

#[test]
fn bars_and_boxes() {
    let text = "\
+----------+----------+----------+--------------+---------------+
| VENDOR   | Device 0 | Device 1 | CPU Affinity | NUMA Affinity |
|----------|----------|----------|--------------|---------------|
| Device 0 | X        | NODE     | 0-31,64-95   | 0             |
| Device 1 | NODE     | X        | 0-31,64-95   | 1             |
+----------+----------+----------+--------------+---------------+
";
    let m = matrix(text);
    assert_eq!(
        (m.rows.as_slice(), m.between("Device0", "Device1")),
        (["Device0".into(), "Device1".into()].as_slice(), Some(PathClass::Node))
    );
    assert_eq!(m.numa_affinity[1].as_ref().map(ToString::to_string).as_deref(), Some("1"));
    let m = matrix(
        "         GPU 0/0|GPU 0/1|CPU Affinity\nGPU 0/0  S      |MDF    |0-23,48-71\nGPU 0/1  MDF    |S      |0-23\n",
    );
    assert_eq!(m.between("GPU0/0", "GPU0/1"), Some(own(0)));
}

#[test]
fn what_is_no_such_matrix() {
    for text in [
        // NVIDIA's own, which has its reader
        "\tGPU0\tGPU1\tCPU Affinity\nGPU0\t X \tPIX\t0-31\nGPU1\tPIX\t X \t0-31\n",
        // answers, numbers, other squares
        "   GPU0 GPU1\nGPU0 X OK\nGPU1 OK X\n",
        "   NPU0 NPU1\nNPU0 0 15\nNPU1 15 0\n",
        "   NPU0 NPU1\nNPU0 X X\nNPU1 X X\n",
        "=== Link Type between two GPUs ===\n   GPU0 GPU1\nGPU0 0 XGMI\nGPU1 XGMI 0\n",
        "   NPU0 NPU1\nNPU0 X\nNPU1 X\n",
        "   NPU0 NPU1\nNPU0 X HCCS\n",
    ] {
        assert_eq!(scanned(scan, text), Found::default(), "{text}");
    }
}
