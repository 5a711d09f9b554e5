//! How the time of a step is spent.

use peerlane_machine::schema::JsonSchema;
use serde::Serialize;

/// From and to.
pub(crate) type Span = (f64, f64);

/// Seconds of a step, on average over the ranks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct Split {
    /// From the first start to the last end.
    pub time: f64,
    /// In which a GPU computes, or copies within its node.
    pub computing: f64,
    /// In which it communicates.
    pub communication: f64,
    /// In which it communicates and does not compute.
    pub exposed: f64,
    /// Of the communication, from when a rank begins a collective until the last one does; absent where one rank was recorded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub waiting: Option<f64>,
    /// In which it does neither: it waits for the host, or for other ranks.
    pub idle: f64,
}

impl Split {
    /// Of one rank's spans, within `time`.
    pub fn of(time: f64, computing: Vec<Span>, communicating: Vec<Span>) -> Self {
        let busy = length(&union(computing.iter().chain(&communicating).copied().collect()));
        let (computing, communication) = (length(&union(computing)), length(&union(communicating)));
        Split {
            time,
            computing,
            communication,
            exposed: (busy - computing).max(0.0),
            waiting: None,
            idle: (time - busy).max(0.0),
        }
    }

    /// The average of several, each divided by `steps`.
    pub fn mean(of: &[Split], steps: usize) -> Self {
        let n = (of.len().max(1) * steps.max(1)) as f64;
        let sum = |part: fn(&Split) -> f64| of.iter().map(part).sum::<f64>() / n;
        Split {
            time: sum(|s| s.time),
            computing: sum(|s| s.computing),
            communication: sum(|s| s.communication),
            exposed: sum(|s| s.exposed),
            waiting: of.iter().map(|s| s.waiting).sum::<Option<f64>>().map(|all| all / n),
            idle: sum(|s| s.idle),
        }
    }
}

/// Spans in order, those that overlap as one.
pub(crate) fn union(mut spans: Vec<Span>) -> Vec<Span> {
    spans.sort_by(|a, b| a.0.total_cmp(&b.0));
    let mut all: Vec<Span> = Vec::new();
    for (from, to) in spans {
        match all.last_mut() {
            Some(last) if from <= last.1 => last.1 = last.1.max(to),
            _ => all.push((from, to)),
        }
    }
    all
}

pub(crate) fn length(spans: &[Span]) -> f64 {
    spans.iter().map(|(from, to)| to - from).fold(0.0, |sum, one| sum + one)
}
