//! One round: its steps go through the same stages together, and each ends by itself if it must.
//!
//! Both sides of a step are prepared, exchange addresses through the head, and connect. Once all steps of the round are connected, or
//! the time for that is over, those that are begin at once. When the active side has its samples, the sides that received
//! compare. A side that fails, an agent that is lost and a stage that takes too long end their steps and no others.

use std::collections::HashMap;
use std::sync::mpsc::RecvTimeoutError;
use std::time::{Duration, Instant};

use peerlane_machine::units::Seconds;
use peerlane_measure::measure::{Failure, Verdict};
use peerlane_measure::nodes::{Method, Node, Probe, Samples, Step};
use peerlane_measure::run::FlagKind;

use super::{Agents, Event};
use crate::message::{ToAgent, ToHead};
use crate::transport::Part;

/// Share of the patience in which a side must connect, answer its partner, or compare; the head waits longer, so that it hears why
/// a side failed.
const SIDE: f64 = 0.3;

/// Shares of the patience by which all steps must be connected, and all samples be taken.
const CONNECTED: f64 = 0.4;
const SAMPLED: f64 = 0.8;

/// How often silence is looked for.
const LOOK: Duration = Duration::from_millis(100);

/// The side of a step that takes the samples; the others follow it.
const ACTIVE: usize = 0;

/// Names in a sentence.
const FEW: usize = 3;

/// Where a step is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Preparing,
    Connecting,
    Connected,
    Sampling,
    Comparing,
    Done,
}

impl Stage {
    fn words(self) -> &'static str {
        match self {
            Stage::Preparing => "preparing",
            Stage::Connecting | Stage::Connected => "connecting",
            Stage::Sampling => "taking samples",
            Stage::Comparing | Stage::Done => "comparing",
        }
    }
}

/// One side of a step.
struct Side {
    node: usize,
    id: u64,
    /// Ranks of NCCL here.
    ranks: usize,
    /// Whether data arrives here.
    receives: bool,
    address: Option<String>,
    connected: bool,
    verdict: Option<Verdict>,
}

/// A step under way.
struct Course {
    stage: Stage,
    sides: Vec<Side>,
    values: Vec<f64>,
    failure: Option<Failure>,
}

impl Course {
    fn new(step: &Step, id: u64, nodes: &[Node]) -> Self {
        // a read is driven by the one that gets the data
        let read = step.probe == Probe::Read;
        let mut order: Vec<usize> = step.nodes().collect();
        if read {
            order.reverse();
        }
        let both = step.probe.is_both_ways();
        let side = |(place, node): (usize, usize)| Side {
            node,
            id: id + place as u64,
            ranks: if step.is_among_many() { nodes.get(node).map_or(0, |node| node.gpus.len()) } else { 1 },
            receives: both || read == (place == ACTIVE),
            address: None,
            connected: false,
            verdict: None,
        };
        let sides = order.into_iter().enumerate().map(side).collect();
        Course { stage: Stage::Preparing, sides, values: Vec::new(), failure: None }
    }

    fn is_done(&self) -> bool {
        self.stage == Stage::Done
    }

    /// Ends the step: without value if there is a failure. Both sides let go of it.
    fn end(&mut self, agents: &mut Agents, failure: Option<Failure>) {
        if self.is_done() {
            return;
        }
        self.stage = Stage::Done;
        if failure.is_some() {
            for side in &self.sides {
                agents.tell(side.node, &ToAgent::Drop { id: side.id });
            }
        }
        self.failure = failure;
    }

    /// What one of its sides said.
    fn hear(&mut self, agents: &mut Agents, side: usize, said: ToHead) {
        match (self.stage, said) {
            (_, ToHead::Failed { kind, message, .. }) => {
                let host = &agents.nodes[self.sides[side].node].host;
                let message = format!("{host}: {message}");
                self.end(agents, Some(Failure::new(kind, message)));
            }
            (Stage::Preparing, ToHead::Prepared { address, .. }) => {
                self.sides[side].address = Some(address);
                let addresses: Option<Vec<String>> = self.sides.iter().map(|side| side.address.clone()).collect();
                if let Some([active, next, ..]) = addresses.as_deref() {
                    self.stage = Stage::Connecting;
                    // those that wait first
                    for (place, side) in self.sides.iter().enumerate().rev() {
                        let peer = if place == ACTIVE { next } else { active };
                        agents.tell(side.node, &ToAgent::Connect { id: side.id, peer: peer.clone() });
                    }
                }
            }
            (Stage::Connecting, ToHead::Connected { .. }) => {
                self.sides[side].connected = true;
                if self.sides.iter().all(|side| side.connected) {
                    self.stage = Stage::Connected;
                }
            }
            (Stage::Sampling, ToHead::Sampled { values, .. }) if side == ACTIVE => {
                self.values = values;
                self.stage = Stage::Comparing;
                for side in &self.sides {
                    agents.tell(side.node, &ToAgent::Finish { id: side.id, verify: side.receives });
                }
            }
            (Stage::Comparing, ToHead::Verified { verdict, .. }) => {
                self.sides[side].verdict = Some(verdict.into());
                if self.sides.iter().all(|side| side.verdict.is_some() || !side.receives) {
                    self.end(agents, None);
                }
            }
            // late words of a step that was given up
            _ => {}
        }
    }

    fn begin(&mut self, agents: &mut Agents, method: &Method) {
        self.stage = Stage::Sampling;
        let time = Seconds::new(method.time.seconds() / method.samples.max(1) as f64);
        // the one that serves first
        for side in self.sides.iter().rev() {
            agents.tell(side.node, &ToAgent::Run { id: side.id, samples: method.samples, time });
        }
    }

    fn result(self) -> Result<Samples, Failure> {
        if let Some(failure) = self.failure {
            return Err(failure);
        }
        let verdicts: Vec<Verdict> = self.sides.into_iter().filter_map(|side| side.verdict).collect();
        let worst = verdicts.into_iter().max_by_key(|verdict| match verdict {
            Verdict::Intact => 0,
            Verdict::Unverified(_) => 1,
            Verdict::Corrupt(_) => 2,
        });
        let verdict = worst.unwrap_or_else(|| Verdict::Unverified("no side compared".to_owned()));
        Ok(Samples { values: self.values, verdict })
    }
}

/// Runs the steps of a round.
pub(super) fn run(agents: &mut Agents, steps: &[Step], method: &Method) -> Vec<Result<Samples, Failure>> {
    let began = Instant::now();
    let after = |share: f64| began + Duration::from_secs_f64((share * method.patience.seconds()).clamp(0.0, 86_400.0));
    let silence = Duration::from_secs_f64(method.silence.seconds().clamp(0.0, 86_400.0));
    let mut courses = Vec::with_capacity(steps.len());
    let mut places = HashMap::new();
    take_news(agents);
    for (index, step) in steps.iter().enumerate() {
        let mut course = Course::new(step, agents.next, &agents.nodes);
        agents.next += course.sides.len() as u64;
        if let Some(why) = agents.why_lost(step) {
            course.end(agents, Some(Failure::new(FlagKind::Failed, why)));
        }
        let patience = Seconds::new(SIDE * method.patience.seconds());
        let mut first_rank = 0;
        for (number, side) in course.sides.iter().enumerate().filter(|_| !course.is_done()) {
            places.insert(side.id, (index, number));
            let part = Part { active: number == ACTIVE, patience, first_rank, ranks: side.ranks };
            first_rank += side.ranks;
            agents.tell(side.node, &ToAgent::Prepare { id: side.id, step: Box::new(step.clone()), part });
        }
        courses.push(course);
    }
    while courses.iter().any(|course| !course.is_done()) {
        match agents.events.recv_timeout(LOOK) {
            Ok(Event::Said(number, said)) => hear(agents, &mut courses, &places, number, said),
            Ok(Event::Gone(number, why)) => gone(agents, number, why),
            Ok(Event::Came(..)) | Err(RecvTimeoutError::Timeout) => {}
            // all agents are gone
            Err(RecvTimeoutError::Disconnected) => std::thread::sleep(LOOK),
        }
        end_lost(agents, &mut courses, steps, silence);
        let now = Instant::now();
        let connecting = |course: &Course| matches!(course.stage, Stage::Preparing | Stage::Connecting);
        if now > after(CONNECTED) {
            end_late(agents, &mut courses, now - began, connecting);
        }
        if !courses.iter().any(connecting) {
            for course in courses.iter_mut().filter(|course| course.stage == Stage::Connected) {
                course.begin(agents, method);
            }
        }
        if now > after(SAMPLED) {
            end_late(agents, &mut courses, now - began, |course| course.stage == Stage::Sampling);
        }
        if now > after(1.0) {
            end_late(agents, &mut courses, now - began, |course| !course.is_done());
        }
    }
    blame_the_lost(agents, &mut courses, steps, silence);
    courses.into_iter().map(Course::result).collect()
}

/// Gives a message to the step that it is about, if it comes from one of its nodes.
fn hear(
    agents: &mut Agents,
    courses: &mut [Course],
    places: &HashMap<u64, (usize, usize)>,
    number: usize,
    said: ToHead,
) {
    let id = match &said {
        ToHead::Prepared { id, .. }
        | ToHead::Connected { id }
        | ToHead::Sampled { id, .. }
        | ToHead::Verified { id, .. }
        | ToHead::Failed { id, .. } => *id,
        ToHead::Alive | ToHead::Hello(_) | ToHead::Counted { .. } => return,
    };
    let Some(&(course, side)) = places.get(&id) else { return };
    if agents.numbers.get(&number) == Some(&courses[course].sides[side].node) && !courses[course].is_done() {
        courses[course].hear(agents, side, said);
    }
}

pub(super) fn gone(agents: &mut Agents, number: usize, why: String) {
    if let Some(&node) = agents.numbers.get(&number) {
        agents.lose(node, why);
    }
}

/// What happened since the last round.
fn take_news(agents: &mut Agents) {
    while let Ok(event) = agents.events.try_recv() {
        if let Event::Gone(number, why) = event {
            gone(agents, number, why);
        }
    }
}

/// Ends the steps of nodes that were lost.
fn end_lost(agents: &mut Agents, courses: &mut [Course], steps: &[Step], silence: Duration) {
    let open = courses.iter().filter(|course| !course.is_done());
    let nodes: Vec<usize> = open.flat_map(|course| course.sides.iter().map(|side| side.node)).collect();
    agents.lose_silent(&nodes, silence);
    for (course, step) in courses.iter_mut().zip(steps).filter(|(course, _)| !course.is_done()) {
        if let Some(why) = agents.why_lost(step) {
            course.end(agents, Some(Failure::new(FlagKind::Failed, why)));
        }
    }
}

/// Ends the steps that took too long.
fn end_late(agents: &mut Agents, courses: &mut [Course], passed: Duration, late: impl Fn(&Course) -> bool) {
    for course in courses.iter_mut().filter(|course| late(course)) {
        let hosts: Vec<&str> = course.sides.iter().map(|side| agents.nodes[side.node].host.as_str()).collect();
        let hosts = match hosts.as_slice() {
            [first @ .., last] if first.len() < FEW => format!("{} and {last}", first.join(", ")),
            many => format!("{} and {} more", many[..FEW].join(", "), many.len() - FEW),
        };
        let stage = course.stage.words();
        let why = format!("{hosts}: still {stage} after {:.1} s", passed.as_secs_f64());
        course.end(agents, Some(Failure::new(FlagKind::Hung, why)));
    }
}

/// A step may fail because its other node just died. Waits until the nodes of failed steps have shown that they live.
fn blame_the_lost(agents: &mut Agents, courses: &mut [Course], steps: &[Step], silence: Duration) {
    let ended = Instant::now();
    let failed = |course: &&Course| course.failure.as_ref().is_some_and(|f| f.kind != FlagKind::NotApplicable);
    let nodes = courses.iter().filter(failed).flat_map(|course| course.sides.iter().map(|side| side.node));
    let nodes: Vec<usize> = nodes.collect();
    let unheard =
        |agents: &Agents| nodes.iter().any(|&node| !agents.is_lost(node) && agents.links[node].heard() < ended);
    while unheard(agents) && ended.elapsed() < silence {
        match agents.events.recv_timeout(LOOK) {
            Ok(Event::Gone(number, why)) => gone(agents, number, why),
            Err(RecvTimeoutError::Disconnected) => std::thread::sleep(LOOK),
            Ok(Event::Said(..) | Event::Came(..)) | Err(RecvTimeoutError::Timeout) => {}
        }
        agents.lose_silent(&nodes, silence);
    }
    for (course, step) in courses.iter_mut().zip(steps) {
        if let (Some(failure), Some(why)) = (&mut course.failure, agents.why_lost(step)) {
            *failure = Failure::new(FlagKind::Failed, why);
        }
    }
}
