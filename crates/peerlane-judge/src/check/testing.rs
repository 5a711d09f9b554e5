//! Small machines for the tests of rules.

use crate::check::raised::Raised;
use crate::check::view::View;
use crate::check::{Context, Settings};
use crate::finding::Finding;
use peerlane_design::case::{Case, Recorded};
use peerlane_machine::fabric::{FabricBuilder, Link, LinkKind, Node, NodeId, NodeKind, PcieWidth};
use peerlane_machine::fact::{Evidence, Fact};
use peerlane_machine::machine::{Machine, MachineKind, SourcedMatrix};
use peerlane_machine::matrix::{Direction, Engine, Matrix, Quantity, Unit};
use peerlane_machine::origin::Origin;
use peerlane_machine::transfer::Transfer;
use peerlane_machine::units::Bytes;
use peerlane_measure::plan::{Method, Plan, Size, Step, Test, Work};
use peerlane_measure::run::{Cell, Estimate, Flag, FlagKind, Run, Subject, TOOL};
use peerlane_model::comparison::{Comparison, Expected};
use peerlane_model::model::Model;
use peerlane_read::catalogue::Parts;

/// A width from its text.
pub(crate) fn width(text: &str) -> PcieWidth {
    text.parse().unwrap()
}

/// A PCIe link's kind.
pub(crate) fn pcie(running: &str, allowed: &str) -> LinkKind {
    LinkKind::Pcie { running: width(running), allowed: width(allowed), slot: None }
}

/// A place in a file.
pub(crate) fn origin(tool: &'static str) -> Origin {
    Origin { source: "test.txt".into(), tool, lines: Some((1, 9)) }
}

/// A captured machine whose `gpus` GPUs hang below one switch, all at 3.0 x16.
pub(crate) fn switched(gpus: usize) -> Machine {
    captured(boxes(&[gpus], true))
}

/// A captured machine with the given GPUs on each socket, on its root complex or below a switch of it.
pub(crate) fn boxes(sockets: &[usize], switches: bool) -> FabricBuilder {
    let mut b = FabricBuilder::new();
    let mut last: Option<NodeId> = None;
    for (s, gpus) in sockets.iter().enumerate() {
        let cpu = b.node(Node::new(format!("cpu{s}"), NodeKind::Cpu));
        let host = b.node(Node::new(format!("host{s}"), NodeKind::Host));
        let mut root = Node::new(format!("rc{s}"), NodeKind::RootComplex);
        root.domain = Some(s as u32);
        let root = b.node(root);
        b.link(Link::new(cpu, host, LinkKind::OnDie));
        b.link(Link::new(cpu, root, LinkKind::OnDie));
        if let Some(before) = last.replace(cpu) {
            b.link(Link::new(before, cpu, LinkKind::Smp));
        }
        let mut port = root;
        if switches {
            port = b.node(Node::new(format!("switch{s}"), NodeKind::Switch));
            b.link(Link::new(root, port, pcie("3.0 x16", "3.0 x16")));
        }
        for _ in 0..*gpus {
            let name = b.fresh_name("GPU");
            let gpu = b.node(Node::new(name, NodeKind::Gpu));
            b.link(Link::new(port, gpu, pcie("3.0 x16", "3.0 x16")));
        }
    }
    b
}

/// The machine of a builder, as if it were captured.
pub(crate) fn captured(builder: FabricBuilder) -> Machine {
    Machine::new("machine 1", MachineKind::Captured, builder.build().unwrap())
}

/// Changes the link above a node.
pub(crate) fn with_link(machine: &mut Machine, name: &str, kind: LinkKind) {
    let id = machine.fabric.find(name).unwrap();
    let (link, _) = machine.fabric.upstream(id).unwrap();
    let mut builder = std::mem::take(&mut machine.fabric).into_builder();
    builder.link_mut(link).kind = kind;
    machine.fabric = builder.build().unwrap();
}

/// A one-way P2P matrix between GPUs, in GB/s, as a copy engine moves it; not a number means no value.
pub(crate) fn matrix(rows: &[&[f64]]) -> SourcedMatrix {
    let names: Vec<String> = (0..rows.len()).map(|i| format!("GPU{i}")).collect();
    let value = |v: &f64| (!v.is_nan()).then_some(*v);
    SourcedMatrix {
        matrix: Matrix {
            quantity: Quantity::Bandwidth,
            direction: Some(Direction::Unidirectional),
            p2p: Some(true),
            op: None,
            engine: Some(Engine::Ce),
            unit: Unit::GigabytesPerSecond,
            size: None,
            rows: names.clone(),
            cols: names,
            values: rows.iter().map(|r| r.iter().map(value).collect()).collect(),
            ..Matrix::default()
        },
        origin: origin("p2pBandwidthLatencyTest"),
        also: Vec::new(),
        published: false,
        known_cause: None,
        spread: Vec::new(),
    }
}

/// The same number between all of `n` GPUs, with changes by (row, column, value).
pub(crate) fn uniform(n: usize, value: f64, but: &[(usize, usize, f64)]) -> SourcedMatrix {
    let mut rows = vec![vec![value; n]; n];
    for &(i, j, v) in but {
        rows[i][j] = v;
    }
    matrix(&rows.iter().map(Vec::as_slice).collect::<Vec<_>>())
}

/// Adds a statement.
pub(crate) fn state(machine: &mut Machine, tool: &'static str, fact: Fact) {
    machine.evidence.push(Evidence { origin: origin(tool), fact });
}

/// Shows the machine to a test as rules see it, without known parts and expectations.
pub(crate) fn see<T>(given: &(impl Clone + Into<Case>), look: impl FnOnce(&mut View) -> T) -> T {
    see_with(given, &Parts::default(), look)
}

/// The same with parts.
pub(crate) fn see_with<T>(given: &(impl Clone + Into<Case>), parts: &Parts, look: impl FnOnce(&mut View) -> T) -> T {
    see_expecting(given, parts, |_, _, _| None, look)
}

/// The same where this is expected in each place of each matrix.
pub(crate) fn see_expecting<T>(
    given: &(impl Clone + Into<Case>),
    parts: &Parts,
    expected: impl Fn(&Matrix, usize, usize) -> Option<Expected>,
    look: impl FnOnce(&mut View) -> T,
) -> T {
    let case: Case = given.clone().into();
    let model = Model::new(&case.machine, parts);
    let comparison = Comparison::expecting(&model, expected);
    let settings = Settings::default();
    let mut view = View::new(&Context::of(&case, &comparison), &settings);
    look(&mut view)
}

/// What a rule finds on a machine with no parts known and no expectations. Every finding has all its texts.
pub(crate) fn findings<R>(given: &(impl Clone + Into<Case>), rule: fn(&View) -> R) -> Vec<Finding>
where
    R: IntoIterator<Item = Raised>,
{
    let found: Vec<Finding> = see(given, |view| rule(view).into_iter().map(|r| r.finding).collect());
    for f in &found {
        let texts = [&f.summary, &f.expected, &f.measured, &f.fix, &f.confirm];
        assert!(texts.iter().all(|text| !text.is_empty()), "a text is missing: {f:?}");
    }
    found
}

/// An adapter that a source shows to do RDMA.
pub(super) fn rdma_nic(name: &str) -> Node {
    let mut nic = Node::new(name, NodeKind::Nic);
    nic.rdma = Some(true);
    nic
}

/// A machine with a run that measured for each pair a rate in GB/s, or why there is none.
pub(crate) fn measured<'a>(
    mut machine: Machine,
    steps: impl IntoIterator<Item = ((&'a str, &'a str), Result<f64, (FlagKind, &'a str)>)>,
) -> Case {
    let mut cells = Vec::new();
    for (i, ((a, b), value)) in steps.into_iter().enumerate() {
        let work = Work::Transfers(vec![Transfer::new(a, b)]);
        let step = Step { test: Test::Pairs, work, size: Size::Exactly(Bytes::from_mib(64)) };
        let (quantity, unit) = (Quantity::Bandwidth, Unit::GigabytesPerSecond);
        let mut cell = Cell::void(i, &step, Bytes::from_mib(64), quantity, unit, Flag::new(FlagKind::Alone, ""));
        match value {
            Ok(value) => {
                cell.estimate = Some(Estimate { value, low: value, high: value });
                cell.flags.clear();
            }
            Err((kind, detail)) => cell.flags = vec![Flag::new(kind, detail)],
        }
        cells.push(cell);
    }
    let origin = origin(TOOL);
    for made in peerlane_measure::run::matrices(&cells) {
        let spread = made.spread(&cells);
        let (origin, also) = (origin.clone(), Vec::new());
        machine.matrices.push(SourcedMatrix {
            matrix: made.matrix,
            origin,
            also,
            published: false,
            known_cause: None,
            spread,
        });
    }
    let subject = Subject { name: machine.name.clone(), target: "live".into(), system: None, evidence: Vec::new() };
    let plan = Plan { method: Method::default(), rounds: Vec::new(), skipped: Vec::new() };
    let mut run = Run::new(&machine, subject, plan);
    run.cells = cells;
    Case { run: Some(Recorded { run, origin }), ..Case::from(machine) }
}

/// A case of a catalogue system with these values of an application.
pub(crate) fn application(machine: Machine, of: (Test, Quantity, Unit), values: Vec<(Work, f64)>) -> Case {
    let mut case = measured(machine, [(("GPU0", "GPU1"), Ok(394.0))]);
    if let Some(Recorded { run, .. }) = &mut case.run {
        let like = run.cells[0].clone();
        run.cells.extend(values.into_iter().map(|(work, value)| {
            let estimate = Some(Estimate { value, low: value, high: value });
            Cell { test: of.0, quantity: of.1, unit: of.2, work, estimate, ..like.clone() }
        }));
    }
    case
}
