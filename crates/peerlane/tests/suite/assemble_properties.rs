//! Random machines → class matrix → assemble → the same classes; and what no machine can have is said.

use peerlane::assemble::assemble;
use peerlane::case::Case;
use peerlane::catalogue::Parts;
use peerlane::check::{Context, check, verdict};
use peerlane::comparison::Comparison;
use peerlane::evidence::{Found, Text, scan_text};
use peerlane::fabric::{Fabric, FabricBuilder, GpuLink, Link, LinkKind, Node, NodeId, NodeKind, PathClass, PcieWidth};
use peerlane::fact::{ClassMatrix, Evidence, Fact};
use peerlane::model::Model;
use peerlane::origin::Origin;
use peerlane::verdict::Verdict;
use proptest::prelude::*;

/// Below a root complex: a device, or a switch over more.
#[derive(Clone, Debug)]
enum Branch {
    Device,
    Switch(Vec<Branch>),
}

fn branch() -> impl Strategy<Value = Branch> {
    let leaf = Just(Branch::Device).boxed();
    leaf.prop_recursive(3, 12, 4, |inner| prop::collection::vec(inner, 1..4).prop_map(Branch::Switch))
}

/// Per socket, per root complex, its branches; and which GPUs have NVLink, by an all-to-all count.
fn machine() -> impl Strategy<Value = (Vec<Vec<Vec<Branch>>>, Option<u8>)> {
    let root = prop::collection::vec(branch(), 1..3);
    let socket = prop::collection::vec(root, 1..3);
    (prop::collection::vec(socket, 1..4), prop::option::of(prop::sample::select(vec![1u8, 4, 8, 18])))
}

struct Grown {
    builder: FabricBuilder,
    devices: Vec<NodeId>,
}

impl Grown {
    fn pcie(&mut self, up: NodeId, down: NodeId) {
        self.builder.link(Link::new(up, down, LinkKind::pcie(PcieWidth::default())));
    }

    fn hang(&mut self, up: NodeId, branch: &Branch) {
        match branch {
            Branch::Device => {
                // every third is a NIC; names leave gaps, so that no two read as ports of one card
                let n = self.devices.len();
                let (name, kind) = if n % 3 == 2 {
                    (format!("mlx5_{}", 2 * n), NodeKind::Nic)
                } else {
                    (format!("GPU{n}"), NodeKind::Gpu)
                };
                let id = self.builder.node(Node::new(name, kind));
                self.devices.push(id);
                self.pcie(up, id);
            }
            Branch::Switch(below) => {
                let name = self.builder.fresh_name("switch");
                let id = self.builder.node(Node::new(name, NodeKind::Switch));
                self.pcie(up, id);
                for one in below {
                    self.hang(id, one);
                }
            }
        }
    }
}

fn grow(sockets: &[Vec<Vec<Branch>>], nvlink: Option<u8>) -> (Fabric, Vec<NodeId>, Vec<u32>) {
    let mut grown = Grown { builder: FabricBuilder::new(), devices: Vec::new() };
    let mut cpus = Vec::new();
    let mut socket_of = Vec::new();
    for (s, roots) in sockets.iter().enumerate() {
        let cpu = grown.builder.node(Node::new(format!("cpu{s}"), NodeKind::Cpu));
        for branches in roots {
            let mut rc = Node::new(grown.builder.fresh_name("rc"), NodeKind::RootComplex);
            rc.domain = Some(s as u32);
            let rc = grown.builder.node(rc);
            grown.builder.link(Link::new(cpu, rc, LinkKind::OnDie));
            for branch in branches {
                grown.hang(rc, branch);
            }
        }
        socket_of.resize(grown.devices.len(), s as u32);
        for &other in &cpus {
            grown.builder.link(Link::new(other, cpu, LinkKind::Smp));
        }
        cpus.push(cpu);
    }
    if let Some(bricks) = nvlink {
        let switch = grown.builder.node(Node::new("nvswitch0", NodeKind::NvSwitch));
        for device in grown.devices.clone() {
            if grown.builder.nodes()[device.index()].kind == NodeKind::Gpu {
                grown.builder.link(Link::new(switch, device, LinkKind::Gpu(GpuLink::nvlink(None, bricks))));
            }
        }
    }
    (grown.builder.build().unwrap(), grown.devices, socket_of)
}

fn matrix_of(fabric: &Fabric, devices: &[NodeId], socket_of: &[u32], affinity: bool) -> ClassMatrix {
    let names: Vec<String> = devices.iter().map(|d| fabric.node(*d).name.clone()).collect();
    let gpu = |i: usize| fabric.node(devices[i]).kind == NodeKind::Gpu;
    let n = devices.len();
    ClassMatrix {
        rows: names.clone(),
        cols: names,
        cells: devices.iter().map(|a| devices.iter().map(|b| fabric.class(*a, *b)).collect()).collect(),
        cpu_affinity: (0..n)
            .map(|i| (affinity && gpu(i)).then(|| format!("{0}-{0}", socket_of[i]).parse().unwrap()))
            .collect(),
        numa_affinity: (0..n)
            .map(|i| (affinity && gpu(i)).then(|| socket_of[i].to_string().parse().unwrap()))
            .collect(),
        gpu_numa: vec![None; n],
        ..ClassMatrix::default()
    }
}

fn found(matrix: ClassMatrix) -> Found {
    let origin = Origin { source: "test".into(), tool: "nvidia-smi topo -m", lines: Some((1, 9)) };
    Found { evidence: vec![Evidence { origin, fact: Fact::Classes(matrix) }], ..Found::default() }
}

fn symmetric(matrix: &ClassMatrix, a: usize, b: usize, class: PathClass) -> ClassMatrix {
    let mut changed = matrix.clone();
    changed.cells[a][b] = Some(class);
    changed.cells[b][a] = Some(class);
    changed
}

proptest! {
    #[test]
    fn classes_survive((sockets, nvlink) in machine(), affinity: bool) {
        let (fabric, devices, socket_of) = grow(&sockets, nvlink);
        let matrix = matrix_of(&fabric, &devices, &socket_of, affinity);
        let machines = assemble(found(matrix.clone()));
        prop_assert_eq!(machines.len(), 1);
        let built = &machines[0];
        prop_assert!(built.contradictions.is_empty(), "{:?}", built.contradictions);
        for (i, a) in matrix.cols.iter().enumerate() {
            for (j, b) in matrix.cols.iter().enumerate() {
                let (x, y) = (built.fabric.find(a).unwrap(), built.fabric.find(b).unwrap());
                prop_assert_eq!(built.fabric.class(x, y), matrix.cells[i][j], "{} {}", a, b);
            }
        }
    }

    /// Any one pair set to any class: either the classes come back, or the matrix is called contradictory.
    #[test]
    fn a_changed_cell_comes_back_or_is_called_impossible(
        (sockets, _) in machine(), a in 0usize..64, b in 0usize..64,
        class in prop::sample::select(vec![PathClass::Pix, PathClass::Pxb, PathClass::Phb, PathClass::Node, PathClass::Sys]),
    ) {
        let (fabric, devices, socket_of) = grow(&sockets, None);
        let (a, b) = (a % devices.len(), b % devices.len());
        prop_assume!(a != b);
        let matrix = symmetric(&matrix_of(&fabric, &devices, &socket_of, false), a, b, class);
        let machines = assemble(found(matrix.clone()));
        let built = &machines[0];
        let same = matrix.cols.iter().enumerate().all(|(i, a)| matrix.cols.iter().enumerate().all(|(j, b)| {
            let (x, y) = (built.fabric.find(a).unwrap(), built.fabric.find(b).unwrap());
            built.fabric.class(x, y) == matrix.cells[i][j]
        }));
        prop_assert_eq!(same, built.contradictions.is_empty());
    }

    /// Words that nobody has seen, between devices of another maker: no contradiction, and nothing that counts as judged.
    #[test]
    fn unknown_words_are_unknown_paths(
        words in prop::collection::vec("[A-Z][A-Z_]{1,6}[0-9]{0,2}", 1..5),
        cells in prop::collection::vec(0usize..64, 64), n in 2usize..7, legend: bool,
    ) {
        let names: Vec<String> = (0..n).map(|i| format!("NPU{i}")).collect();
        let mut text = format!("      {}\n", names.join("  "));
        for (i, name) in names.iter().enumerate() {
            let cell = |j: usize| match i == j {
                true => "X",
                false => words[cells[i.min(j) * n + i.max(j)] % words.len()].as_str(),
            };
            let row: Vec<&str> = (0..n).map(cell).collect();
            text.push_str(&format!("{name}  {}\n", row.join("  ")));
        }
        if legend {
            text.push_str(&format!("\n  {} = a connection that nobody knows\n", words[0]));
        }
        prop_assume!(!words.iter().any(|w| ["OK", "NS", "CNS", "GNS", "TNS", "DR", "YES", "NO"].contains(&w.as_str())));
        let machines = assemble(scan_text(&Text::new("t", text.as_bytes())));
        prop_assert_eq!(machines.len(), 1, "{}", text);
        prop_assert!(machines[0].contradictions.is_empty(), "{}\n{:?}", text, machines[0].contradictions);
        prop_assert_eq!(machines[0].fabric.of_kind(NodeKind::Gpu).count(), n);
        let case = Case::from(machines[0].clone());
        let parts = Parts::default();
        let model = Model::new(&case.machine, &parts);
        let comparison = Comparison::of(&model);
        let context = Context::of(&case, &comparison);
        prop_assert_eq!(verdict(&context, &check(&context)), Verdict::NotJudged, "{}", text);
    }
}
