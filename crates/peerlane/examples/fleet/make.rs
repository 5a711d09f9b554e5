//! Runs of made-up machines of one kind, a few of them sick.

use std::collections::BTreeSet;

use peerlane::catalogue::{Parts, read_system, system_text};
use peerlane::fabric::NodeKind;
use peerlane::fault::Fault;
use peerlane::fault::Planted;
use peerlane::machine::Machine;
use peerlane::measure::execute;
use peerlane::plan::{Plan, Scope, Selection};
use peerlane::run::{Run, Subject};
use peerlane::simulated_machine::{Effects, SimulatedMachine};

/// Relative standard deviation of a sample.
const NOISE: f64 = 0.02;

/// Makes runs of one system of the catalogue.
pub(crate) struct Maker {
    system: String,
    text: String,
    machine: Machine,
    plan: Plan,
}

impl Maker {
    /// `None` where the catalogue has no such system, or it has no GPU.
    pub(crate) fn new(system: &str) -> Option<Maker> {
        let text = system_text(system)?.to_owned();
        let machine = read_system(&text, system).ok()?;
        let gpus = machine.fabric.of_kind(NodeKind::Gpu).count();
        let mut plan = Plan::of(&machine, Scope::Quick, &Selection::default(), Scope::Quick.method(gpus)).ok()?;
        plan.rounds = plan.rounds.concat().into_iter().map(|step| vec![step]).collect();
        Some(Maker { system: system.to_owned(), text, machine, plan })
    }

    fn gpu(&self, at: usize) -> String {
        let gpus: Vec<_> = self.machine.fabric.of_kind(NodeKind::Gpu).collect();
        gpus.get(at % gpus.len().max(1)).map(|id| self.machine.fabric.node(*id).name.clone()).unwrap_or_default()
    }

    /// One of several kinds of sickness.
    pub(crate) fn sickness(&self, n: usize) -> Fault {
        let (gpu, pair) = (self.gpu(n), [self.gpu(n), self.gpu(n + 1)]);
        let width = |text: &str| text.parse().unwrap_or_default();
        match n % 6 {
            0 => Fault::Throttle { gpu, factor: 0.6 },
            1 => Fault::Slow { from: pair[0].clone(), to: pair[1].clone(), factor: 0.5 },
            2 => Fault::Hang { pair },
            3 => Fault::Lost { gpu, after: 10 },
            4 => Fault::Corrupt { pair },
            _ => {
                let fabric = &self.machine.fabric;
                let up =
                    fabric.find(&gpu).and_then(|id| fabric.upstream(id)).map(|(_, up)| fabric.node(up).name.clone());
                Fault::Width { link: [gpu, up.unwrap_or_default()], width: width("x4") }
            }
        }
    }

    /// The run of the machine `name`, as `peerlane measure -o` writes it.
    pub(crate) fn run(&self, name: &str, seed: u64, sick: Option<Fault>) -> String {
        let settings = Planted { noise: NOISE, seed, faults: sick.into_iter().collect() };
        let subject = Subject {
            name: self.machine.name.clone(),
            target: self.system.clone(),
            system: Some(self.text.clone()),
            evidence: Vec::new(),
        };
        let mut run = Run::new(&self.machine, subject, self.plan.clone());
        run.conditions.host = Some(name.to_owned());
        let mut done = BTreeSet::new();
        loop {
            let mut machine = SimulatedMachine::new(&self.machine, Parts::embedded(), &settings)
                .with_effects(Effects::REAL)
                .impatient()
                .taking_over(done.len());
            let ended = execute(&self.plan, &mut machine, &done, &mut |event| run.apply(event));
            let now = run.steps_done();
            if ended.is_ok() || now.len() == done.len() {
                break;
            }
            done = now;
        }
        run.complete = true;
        run.to_json().unwrap_or_default()
    }
}
