use super::super::{End, Lost, Memory, Method, Nic, Node, NodesRun, Samples, Wanted, looks_like_nodes_run};
use super::*;
use crate::measure::{Failure, Verdict};
use crate::run::{Estimate, Partial};
use peerlane_machine::units::Seconds;

/// Nodes at one switch; each round takes as long as it is said to.
struct Mock {
    nodes: Vec<Node>,
    lost: Vec<Lost>,
    time: f64,
    rounds: usize,
    /// A node that is lost in this round, and how long that takes.
    dies: Option<(usize, usize, f64)>,
    /// Share of the rate that is left to a node.
    slow: Option<(usize, f64)>,
    corrupt: Option<usize>,
}

impl Mock {
    fn of(nodes: usize) -> Self {
        let nic = Nic { name: "mlx5_0".to_owned(), memory: Memory::Numa(0), ..Nic::default() };
        let node = |n| Node { host: format!("node{n}"), nics: vec![nic.clone()], ..Node::default() };
        let nodes = (0..nodes).map(node).collect();
        Mock { nodes, lost: Vec::new(), time: 5.0, rounds: 0, dies: None, slow: None, corrupt: None }
    }

    fn plan(&self) -> NodePlan {
        NodePlan::of(&self.nodes, &Wanted::default(), Method::default()).unwrap()
    }

    /// The record of carrying the plan out, and whether it is complete.
    fn run(&mut self) -> (NodesRun, bool) {
        let mut run = NodesRun::new("mock", "nodes", self.nodes.clone(), self.plan());
        let plan = run.plan.clone();
        let complete = execute(self, &plan, Vec::new(), &mut |event| {
            run.apply(event);
            true
        });
        (run, complete)
    }
}

impl Network for Mock {
    fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    fn round(&mut self, steps: &[Step], method: &Method) -> Vec<Result<Samples, Failure>> {
        let ends =
            steps.iter().flat_map(|s| if s.is_loopback() { vec![s.from.node] } else { vec![s.from.node, s.to.node] });
        let ends: Vec<usize> = ends.collect();
        assert_eq!(ends.iter().collect::<HashSet<_>>().len(), ends.len(), "an end is twice in a round");
        self.rounds += 1;
        self.time += method.time.seconds();
        if let Some((node, _, takes)) = self.dies.filter(|(_, round, _)| *round < self.rounds && self.lost.is_empty()) {
            self.lost.push(Lost { node, why: "its agent closed the connection".to_owned() });
            self.time += takes;
        }
        let answer = |step: &Step| {
            let has = |node: usize| step.from.node == node || step.to.node == node;
            if let Some(lost) = self.lost.iter().find(|lost| has(lost.node)) {
                return Err(Failure::new(FlagKind::Failed, lost.why.clone()));
            }
            let left = self.slow.filter(|(node, _)| has(*node)).map_or(1.0, |(_, left)| left);
            let value = if step.probe == Probe::Latency { 2e-6 / left } else { 12e9 * left };
            let verdict = match self.corrupt.filter(|node| step.to.node == *node) {
                Some(_) => Verdict::Corrupt("3 words differ".to_owned()),
                None => Verdict::Intact,
            };
            Ok(Samples { values: vec![value; method.samples], verdict })
        };
        steps.iter().map(answer).collect()
    }

    fn lost(&self) -> &[Lost] {
        &self.lost
    }

    fn now(&mut self) -> Seconds {
        Seconds::new(self.time)
    }
}

#[test]
fn a_healthy_network_is_measured_once() {
    let mut mock = Mock::of(12);
    let (run, complete) = mock.run();
    assert!(complete && run.complete && run.lost.is_empty());
    assert_eq!(mock.rounds, run.plan.rounds);
    assert!(run.cells.iter().all(|cell| cell.value().is_some() && !cell.again));
    assert!(run.wall.seconds() <= run.plan.bound.seconds());
}

#[test]
fn suspects_are_measured_again_with_proven_partners() {
    let mut mock = Mock { slow: Some((4, 0.5)), ..Mock::of(12) };
    let (run, complete) = mock.run();
    assert!(complete);
    let again: Vec<&Cell> = run.cells.iter().filter(|cell| cell.again).collect();
    assert!(again.iter().all(|cell| [cell.step.from.node, cell.step.to.node].contains(&4)), "{again:?}");
    for transport in [Transport::Tcp, Transport::Verbs] {
        let across = || again.iter().filter(|c| c.step.transport == transport && !c.step.is_loopback());
        let partners = |of: fn(&Step) -> usize| across().map(|c| of(&c.step)).filter(|n| *n != 4).count();
        assert_eq!((partners(|s| s.from.node), partners(|s| s.to.node)), (PARTNERS, PARTNERS));
        assert_eq!(again.iter().filter(|c| c.step.transport == transport && c.step.is_loopback()).count(), 1);
    }
}

#[test]
fn a_dead_node_costs_its_cells_and_no_others() {
    let mut mock = Mock { dies: Some((3, 2, 10.0)), ..Mock::of(12) };
    let (run, complete) = mock.run();
    assert!(complete);
    assert_eq!(run.lost.len(), 1);
    for cell in &run.cells {
        let with_it = [cell.step.from.node, cell.step.to.node].contains(&3);
        assert!(cell.value().is_some() || with_it, "{cell:?}");
        if with_it && cell.round > 2 {
            assert_eq!(cell.flags[0].kind, FlagKind::Failed);
        }
    }
    assert!(run.wall.seconds() <= run.plan.bound.seconds());
}

#[test]
fn the_bound_holds_where_rounds_take_too_long() {
    let mut mock = Mock { dies: Some((3, 2, 1e4)), ..Mock::of(12) };
    let (run, complete) = mock.run();
    assert!(!complete && !run.complete);
    assert_eq!(mock.rounds, 3, "no round begins after the bound");
}

#[test]
fn what_is_resumed_is_not_measured_again() {
    let mut mock = Mock::of(12);
    let plan = mock.plan();
    let (mut cells, mut rounds) = (Vec::new(), 0);
    let complete = execute(&mut mock, &plan, Vec::new(), &mut |event| {
        if let Event::Cells(new) = event {
            cells.extend(new);
            rounds += 1;
        }
        rounds < 4
    });
    assert!(!complete && mock.rounds == 4, "{}", mock.rounds);
    let kept = cells.len();
    let complete = execute(&mut mock, &plan, cells.clone(), &mut |event| {
        if let Event::Cells(new) = event {
            cells.extend(new);
        }
        true
    });
    assert!(complete && mock.rounds == plan.rounds);
    let steps: HashSet<&Step> = cells.iter().map(|cell| &cell.step).collect();
    assert!(kept > 0 && steps.len() == cells.len());
}

#[test]
fn records_come_back_whole_growing_and_cut() {
    let mut mock = Mock { slow: Some((4, 0.5)), corrupt: Some(2), dies: Some((7, 6, 1.0)), ..Mock::of(12) };
    let plan = mock.plan();
    let mut run = NodesRun::new("mock", "nodes", mock.nodes.clone(), plan.clone());
    let mut growing = run.header_line().unwrap();
    execute(&mut mock, &plan, Vec::new(), &mut |event| {
        growing += &Partial::event_line(&event).unwrap();
        run.apply(event);
        true
    });
    assert!(run.cells.iter().any(|c| c.flag(FlagKind::Corrupt).is_some() && c.value().is_none()));
    let whole = run.to_json().unwrap();
    assert!(looks_like_nodes_run(&whole) && looks_like_nodes_run(&growing));
    for text in [&whole, &growing] {
        let (mut back, unreadable) = NodesRun::read(text).unwrap();
        assert!((back.wall.seconds() - run.wall.seconds()).abs() < 1e-9);
        back.wall = run.wall;
        assert_eq!((back.cells.len(), unreadable), (run.cells.len(), 0));
        assert!(back == run, "{:?}", back.cells.iter().zip(&run.cells).find(|(a, b)| a != b));
    }
    let cut: String = growing.chars().take(growing.len() * 2 / 3).collect();
    let (back, unreadable) = NodesRun::read(&cut).unwrap();
    assert!(unreadable == 1 && !back.complete && back.cells.len() < run.cells.len());
    assert_eq!(back.cells[..], run.cells[..back.cells.len()]);
    let other = whole.replace("peerlane/nodes/2", "peerlane/nodes/9");
    assert!(NodesRun::read(&other).unwrap_err().to_string().contains("peerlane/nodes/9"));
    let stray = crate::run::unsealed(&whole).replace("{\"from\":{\"node\":4,", "{\"from\":{\"node\":99,");
    assert!(NodesRun::read(&stray).unwrap_err().to_string().contains("node 99"));
    for damaged in ["", "{", "{\"schema\":\"peerlane/nodes/2\"}", "[]", &whole[..whole.len() / 2]] {
        assert!(NodesRun::read(damaged).is_err());
    }
}

#[test]
fn impossible_samples_are_no_values() {
    let mock = Mock::of(2);
    let step = mock.plan().rounds_of(&mock.nodes)[0][0].clone();
    let of = |values: &[f64]| {
        let samples = Samples { values: values.to_vec(), verdict: Verdict::Intact };
        Cell::of(step.clone(), 0, false, Ok(samples))
    };
    assert_eq!(of(&[2.0, 1.0, 4.0]).estimate, Some(Estimate { value: 2.0, low: 1.0, high: 4.0 }));
    for wrong in [&[][..], &[1.0, 0.0], &[f64::NAN], &[-1.0]] {
        assert_eq!((of(wrong).value(), of(wrong).flags[0].kind), (None, FlagKind::Implausible));
    }
}

#[test]
fn memory_of_the_earlier_format_is_read() {
    let read = |memory: &str| {
        let end: Result<End, _> = serde_json::from_str(&format!("{{\"node\":3,\"memory\":{memory}}}"));
        end.map(|end| end.memory).map_err(|e| e.to_string())
    };
    for (earlier, now) in [
        ("host", Memory::Host),
        ("host1", Memory::Numa(1)),
        ("GPU7", Memory::Device("GPU7".to_owned())),
        ("GPUs", Memory::Devices),
    ] {
        assert_eq!(read(&format!("\"{earlier}\"")), Ok(now.clone()));
        assert_eq!((read(&serde_json::to_string(&now).unwrap()), now.to_string()), (Ok(now), earlier.to_owned()));
    }
    assert!(read("{\"gpu\":0}").unwrap_err().starts_with("memory is \"host\", "));
}
