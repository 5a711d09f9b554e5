//! Kernels of a GPU's streams as records: what waits for what, and how the time is spent.
//!
//! Kernels of a stream follow each other. What streams wait for of each other is not written, and is inferred: a collective
//! waits for the last kernel that was launched before it, as PyTorch makes it; another kernel waits for those of other streams
//! for whose end it visibly waited, and, where the host made its stream wait, for all that had ended. What is left between the
//! last of these and its start is the host's time, and stays.

use std::collections::{BTreeMap, HashMap};

use super::{Record, Recording, Span, Split, What, kind_in};

/// Times in µs that are no further apart are one.
const MOMENT: f64 = 1.0;

/// The share of kernels that begin before they are launched from which on clocks are said to differ.
const EARLY: usize = 20;

/// The events of one GPU that matter; times are in µs.
#[derive(Default)]
pub(super) struct Kept {
    pub(super) kernels: Vec<Kernel>,
    pub(super) host: Vec<Call>,
    pub(super) steps: BTreeMap<String, Span>,
    pub(super) too_many: bool,
}

/// What ran on a GPU.
pub(super) struct Kernel {
    pub(super) lane: (u64, u64),
    pub(super) span: Span,
    pub(super) correlation: Option<u64>,
    pub(super) name: String,
    /// Of communication, what is known of it.
    pub(super) communicates: Option<Known>,
}

/// What is known of a kernel that communicates.
pub(super) enum Known {
    /// Its kind, ranks and bytes.
    All(What),
    /// Its time, and a record that has no more.
    Time,
    /// Its time; nothing recorded more.
    TimeAlone,
}

/// What the host did.
#[derive(Clone)]
pub(super) struct Call {
    pub(super) span: Span,
    pub(super) correlation: Option<u64>,
    pub(super) kind: CallKind,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum CallKind {
    Launch,
    /// Makes a stream wait.
    Wait,
    /// Waits for the GPU.
    Synchronize,
}

impl CallKind {
    /// By the name of a call of CUDA or HIP; `None` of one that does not matter.
    pub(super) fn of(name: &str) -> Option<Self> {
        Some(match name {
            _ if name.contains("Synchronize") => CallKind::Synchronize,
            _ if name.contains("StreamWaitEvent") => CallKind::Wait,
            _ if ["Launch", "Memcpy", "Memset"].iter().any(|word| name.contains(word)) => CallKind::Launch,
            _ => return None,
        })
    }
}

/// The host's calls by their time.
struct Host {
    /// By correlation.
    launches: HashMap<u64, f64>,
    /// When a stream of computing was made to wait.
    waits: Vec<f64>,
    synchronized: Vec<Span>,
}

impl Host {
    fn of(mut calls: Vec<Call>, kernels: &[Kernel]) -> Host {
        calls.sort_by(|a, b| a.span.0.total_cmp(&b.span.0));
        let communicating: HashMap<u64, bool> =
            kernels.iter().filter_map(|k| Some((k.correlation?, k.communicates.is_some()))).collect();
        let mut host = Host { launches: HashMap::new(), waits: Vec::new(), synchronized: Vec::new() };
        let mut open: Vec<f64> = Vec::new();
        for call in calls {
            match call.kind {
                CallKind::Synchronize => host.synchronized.push(call.span),
                CallKind::Wait => open.push(call.span.0),
                CallKind::Launch => {
                    let Some(correlation) = call.correlation else { continue };
                    let Some(communicates) = communicating.get(&correlation) else { continue };
                    host.launches.insert(correlation, call.span.0);
                    // the last wait before a collective is that of its own stream
                    if *communicates {
                        open.pop();
                    }
                    host.waits.append(&mut open);
                }
            }
        }
        host
    }

    fn launch(&self, kernel: &Kernel) -> Option<f64> {
        self.launches.get(&kernel.correlation?).copied()
    }

    /// The last moment in between at which a stream was made to wait.
    fn waited(&self, after: f64, until: f64) -> Option<f64> {
        let end = self.waits.partition_point(|wait| *wait <= until);
        self.waits[..end].last().copied().filter(|wait| *wait > after)
    }

    /// Whether the host waited for the GPU until something had ended, before it went on.
    fn awaited(&self, end: f64, until: f64) -> bool {
        let last = self.synchronized.partition_point(|span| span.0 <= until);
        let near = self.synchronized[..last].iter().rev().take(64);
        near.into_iter().any(|span| span.0 <= end + MOMENT && end <= span.1 + MOMENT && span.1 <= until + MOMENT)
    }
}

/// How a stream has gone so far.
#[derive(Default)]
struct Lane {
    /// Its kernels in the order of their starts, as places among all.
    kernels: Vec<u32>,
}

/// A rank of the events of its GPU, by the clock that these have.
pub(super) fn recording(kept: Kept, mut notes: Vec<String>) -> Recording {
    let steps = kept.steps.len();
    let first = kept.kernels.iter().map(|kernel| kernel.span.0).fold(f64::INFINITY, f64::min);
    let (records, recorded) = records(kept, &mut notes);
    let (recorded, began) = (Some(recorded), Some(first / 1e6));
    Recording { records, steps, recorded, began, notes, ..Recording::default() }
}

/// What a GPU did, in the order of its starts, and how much of its time went into what.
fn records(kept: Kept, notes: &mut Vec<String>) -> (Vec<Record>, Split) {
    let Kept { mut kernels, host, steps, .. } = kept;
    kernels.sort_by(|a, b| a.span.0.total_cmp(&b.span.0).then(a.span.1.total_cmp(&b.span.1)));
    let host = Host::of(host, &kernels);
    let began = kernels.first().map_or(0.0, |k| k.span.0);
    // computing by when it was launched
    let mut launched: Vec<(f64, u32)> = (0..)
        .zip(&kernels)
        .filter(|(_, k)| k.communicates.is_none())
        .filter_map(|(at, k)| Some((host.launch(k)?, at)))
        .collect();
    launched.sort_by(|a, b| a.0.total_cmp(&b.0));
    let mut lanes: BTreeMap<(u64, u64), Lane> = BTreeMap::new();
    let (mut computing, mut communicating) = (Vec::new(), Vec::new());
    let mut found = Vec::with_capacity(kernels.len());
    notes.extend(cut_steps(&steps, &host));
    let steps = steps.len();
    let (mut known, mut early) = (0, 0);
    for (at, kernel) in (0_u32..).zip(&kernels) {
        let mut after: Vec<u32> =
            lanes.get(&kernel.lane).and_then(|lane| lane.kernels.last()).copied().into_iter().collect();
        let previous = after.first().map(|before| &kernels[*before as usize]);
        let launch = host.launch(kernel);
        let could = |other: u32| kernels[other as usize].span.1 <= kernel.span.0 + MOMENT;
        if kernel.communicates.is_some() {
            let before = launch.map(|launch| &launched[..launched.partition_point(|(time, _)| *time <= launch)]);
            let last = before.and_then(|of| of.last()).map(|(_, k)| *k).filter(|k| *k < at && could(*k));
            after.extend(last);
            // launches are not known, or were one: a graph
            if last.is_none() {
                let others = lanes.iter().filter(|(lane, _)| **lane != kernel.lane);
                after.extend(
                    others.filter_map(|(_, lane)| lane.kernels.iter().rev().take(64).copied().find(|k| could(*k))),
                );
            }
        } else {
            let idle_from = previous.map_or(began, |p| p.span.1);
            let waited = launch.and_then(|until| {
                let from = previous.and_then(|p| host.launch(p)).unwrap_or(f64::NEG_INFINITY);
                host.waited(from, until)
            });
            for (lane, of) in &lanes {
                if *lane == kernel.lane {
                    continue;
                }
                let awaited = of.kernels.iter().rev().take(64).copied().find(|k| {
                    let other = &kernels[*k as usize];
                    let told = waited.is_some_and(|wait| host.launch(other).is_none_or(|launch| launch < wait));
                    let end = other.span.1;
                    let visible =
                        end > idle_from && launch.is_none_or(|launch| end > launch || host.awaited(end, launch));
                    could(*k) && (told || visible)
                });
                after.extend(awaited);
            }
        }
        after.sort_unstable();
        after.dedup();
        let ready = after.iter().map(|k| kernels[*k as usize].span.1).fold(began, f64::max);
        let took = (kernel.span.1 - kernel.span.0) / 1e6;
        let what = match &kernel.communicates {
            None => What::Compute(took),
            Some(Known::All(what)) => what.clone(),
            Some(Known::Time | Known::TimeAlone) => {
                known += 1;
                What::Known(took, kind_in(&kernel.name))
            }
        };
        early += usize::from(launch.is_some_and(|launch| kernel.span.0 + MOMENT < launch));
        if kernel.communicates.is_some() { &mut communicating } else { &mut computing }.push(kernel.span);
        let delay = (kernel.span.0 - ready).max(0.0) / 1e6;
        let took = kernel.communicates.is_some().then_some(took);
        found.push(Record { id: u64::from(at), what, after, delay, took });
        lanes.entry(kernel.lane).or_default().kernels.push(at);
    }
    if known > 0 {
        notes.push(format!(
            "{known} kernels of communication have no collective's ranks and bytes (send and receive, gather, scatter, or no record), and keep \
             their recorded time."
        ));
    }
    if early * EARLY > kernels.len() {
        notes.push(format!(
            "{early} of {} kernels begin before the host launched them: its clock and the GPU's differ, so that less of what waits \
             for what is seen; record again with a newer driver or profiler.",
            kernels.len()
        ));
    }
    let until = kernels.iter().map(|k| k.span.1).fold(began, f64::max);
    let split = Split::of(until - began, computing, communicating);
    let seconds = |us: f64| us / 1e6;
    let Split { time, computing, communication, exposed, idle, .. } = Split::mean(&[split], steps);
    let split = Split {
        time: seconds(time),
        computing: seconds(computing),
        communication: seconds(communication),
        exposed: seconds(exposed),
        waiting: None,
        idle: seconds(idle),
    };
    (found, split)
}

/// Steps in which far less was launched than in the others.
fn cut_steps(steps: &BTreeMap<String, Span>, host: &Host) -> Option<String> {
    let mut launches: Vec<f64> = host.launches.values().copied().collect();
    launches.sort_by(f64::total_cmp);
    let within =
        |span: &Span| launches.partition_point(|at| *at <= span.1) - launches.partition_point(|at| *at < span.0);
    let counts: Vec<(&String, usize)> = steps.iter().map(|(name, span)| (name, within(span))).collect();
    let most = counts.iter().map(|(_, count)| *count).max().filter(|_| counts.len() > 1)?;
    let (name, count) = counts.iter().find(|(_, count)| count * 2 < most)?;
    Some(format!(
        "{name} has {count} launches and another step {most}: it is cut off at its begin or end; let the profiler record whole steps."
    ))
}
