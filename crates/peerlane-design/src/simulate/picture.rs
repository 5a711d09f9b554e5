//! What happened, as a trace for Perfetto or `chrome://tracing` (the Trace Event Format of Google's trace viewer).

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use super::outcome::Outcome;
use super::program::{Group, Step};
use super::result::Point;
use super::trace_events::{row_name, row_span};
use crate::cluster::{Cluster, Place};

/// Arrows from where a message begins to where it ends are drawn for so many messages.
const MOST_ARROWS: usize = 20_000;
/// Most GPUs with a row of their own where the time was not played.
const MOST_ROWS: usize = 4096;

/// A simulation as JSON: a process a node, a thread a GPU, on it what it sends and computes, with an arrow to where a message
/// ends; and a counter of what each GPU sends, in GB/s. Where no step was played, each GPU has the parts of the time that was
/// predicted or counted: what held the bytes, one after the other.
pub fn chrome_trace(cluster: &Cluster, outcome: &Outcome, point: Option<&Point>) -> String {
    let rows = Rows { cluster, gpus: cluster.gpus() };
    let mut all = if outcome.events.is_empty() { rows.parts(outcome, point) } else { rows.played(outcome) };
    let mut named = BTreeSet::new();
    let has_row = |event: &&Value| event["ph"] == "X";
    for event in all.iter().filter(has_row) {
        named.insert((event["pid"].as_u64(), event["tid"].as_u64(), event["args"]["on"].as_str().map(str::to_owned)));
    }
    all.extend(named.into_iter().map(|(node, thread, name)| row_name(node, thread, name)));
    json!({"traceEvents": all, "displayTimeUnit": "ns"}).to_string()
}

struct Rows<'c> {
    cluster: &'c Cluster,
    gpus: Vec<peerlane_machine::fabric::NodeId>,
}

impl Rows<'_> {
    /// The number of a place's row in its node.
    fn thread(&self, at: Place) -> usize {
        self.gpus.iter().position(|gpu| *gpu == at.device).unwrap_or(self.gpus.len())
    }

    fn span(&self, at: Place, name: &str, kind: &str, times: [f64; 2], mut arguments: Value) -> Value {
        arguments["on"] = json!(self.cluster.name_of(at));
        row_span((at.node as usize, self.thread(at)), (name, kind), times, arguments)
    }

    /// What GPUs do together, on the row of each.
    fn together(&self, group: &Group, name: &str, times: [f64; 2], bytes: f64) -> Vec<Value> {
        let places: BTreeSet<Place> = group.moves.iter().map(|(from, ..)| *from).collect();
        places.into_iter().map(|at| self.span(at, "collective", name, times, json!({"bytes": bytes}))).collect()
    }

    fn played(&self, Outcome { events, groups, .. }: &Outcome) -> Vec<Value> {
        let mut all = Vec::with_capacity(3 * events.len());
        // by GPU: at which moment its rate changes by how much
        let mut changes: BTreeMap<Place, Vec<(f64, f64)>> = BTreeMap::new();
        for (number, event) in events.iter().enumerate() {
            let (times, round) = ([event.start, event.end], format!("round {}", event.round));
            let (from, to, bytes) = match event.step {
                Step::Move { from, to, bytes, .. } => (from, to, bytes),
                Step::Together { group, bytes, .. } => {
                    let group = groups.get(event.round).and_then(|of| of.get(group as usize));
                    all.extend(group.into_iter().flat_map(|group| self.together(group, &round, times, bytes)));
                    continue;
                }
                Step::Compute { on, .. } => {
                    all.push(self.span(on, "compute", &round, times, json!({})));
                    continue;
                }
            };
            let name = self.cluster.name_of(to);
            all.push(self.span(from, &format!("to {name}"), &round, times, json!({"bytes": bytes, "to": name})));
            if number < MOST_ARROWS && from != to {
                for (phase, at, time) in [("s", from, event.start), ("f", to, event.end)] {
                    all.push(json!({
                        "ph": phase, "name": "message", "cat": "message", "id": number, "ts": time * 1e6,
                        "pid": at.node, "tid": self.thread(at), "bp": "e",
                    }));
                }
            }
            if event.end > event.start {
                let rate = bytes / (event.end - event.start) / 1e9;
                changes.entry(from).or_default().extend([(event.start, rate), (event.end, -rate)]);
            }
        }
        for (at, mut changes) in changes {
            changes.sort_by(|a, b| a.0.total_cmp(&b.0));
            let name = format!("{} sends", self.cluster.name_of(at));
            let mut rate = 0.0_f64;
            for (i, (time, change)) in changes.iter().enumerate() {
                rate += change;
                // what begins and ends at one moment is one change
                if changes.get(i + 1).is_none_or(|next| next.0 > *time) {
                    let rounded = (rate.max(0.0) * 1e6).round() / 1e6;
                    all.push(json!({
                        "ph": "C", "name": name, "pid": at.node, "ts": time * 1e6, "args": {"GB/s": rounded},
                    }));
                }
            }
        }
        all
    }

    fn parts(&self, outcome: &Outcome, point: Option<&Point>) -> Vec<Value> {
        let how = point.and_then(|p| Some(format!("{}, {}: ", p.algorithm.as_ref()?, p.protocol.as_ref()?)));
        let because = outcome.estimate.as_ref().map(|estimate| estimate.because.clone());
        let mut start = 0.0;
        let mut all = Vec::new();
        // what passes before the first byte comes first
        let mut parts: Vec<_> = outcome.spent.iter().filter(|(_, share)| *share > 0.0).collect();
        parts.sort_by_key(|(what, _)| what != super::outcome::STARTING);
        for (what, share) in parts {
            let end = start + share * outcome.time;
            for place in self.cluster.places().into_iter().take(MOST_ROWS) {
                let name = format!("{}{what}", how.as_deref().unwrap_or_default());
                all.push(self.span(place, &name, "not played", [start, end], json!({"because": because})));
            }
            start = end;
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use super::super::result::{Job, simulate};
    use super::*;
    use crate::cluster::Wanted;
    use peerlane_machine::units::{Bytes, Seconds};
    use peerlane_read::catalogue::system;

    fn trace(workload: &str, size: u64) -> (Vec<Value>, f64) {
        let wanted: Wanted = "rail".parse().unwrap();
        let node = system("hgx-h200").unwrap().unwrap();
        let cluster = Cluster::of(node, 2, &wanted, None, Seconds::from_us(0.3)).unwrap();
        let job = Job::Workload(workload.parse().unwrap(), vec![Bytes(size)]);
        let (document, outcome) = simulate(&cluster, &job, false).unwrap();
        let text = chrome_trace(&cluster, &outcome, document.points.last());
        let all: Value = serde_json::from_str(&text).unwrap();
        (all["traceEvents"].as_array().unwrap().clone(), outcome.time * 1e6)
    }

    fn end(event: &Value) -> f64 {
        event["ts"].as_f64().unwrap() + event["dur"].as_f64().unwrap()
    }

    #[test]
    fn every_workload_has_its_time() {
        for workload in ["all-reduce", "all-gather", "all-to-all", "all-reduce:ring", "all-reduce:rail", "halo:1"] {
            let (all, time) = trace(workload, 1 << 24);
            let spans: Vec<&Value> = all.iter().filter(|event| event["ph"] == "X").collect();
            let last = spans.iter().map(|span| end(span)).fold(0.0, f64::max);
            // of repetitions in closed form one is played
            let whole = spans[0]["cat"] == "not played" || workload == "all-to-all";
            let least = if whole { 1.0 - 1e-6 } else { 0.5 };
            assert!((least..1.0 + 1e-6).contains(&(last / time)), "{workload}: {last} of {time} us");
            let gpus = all.iter().filter(|event| event["ph"] == "M").count();
            assert_eq!(gpus, 16, "{workload}");
        }
    }

    #[test]
    fn arrows_and_counters_are_those_of_the_messages() {
        let (all, time) = trace("point-to-point:node0/GPU0:node1/GPU3", 1 << 30);
        let of = |phase: &str| all.iter().filter(|event| event["ph"] == phase).cloned().collect::<Vec<_>>();
        let ([start], [end]) = (of("s").try_into().unwrap(), of("f").try_into().unwrap());
        let [start, end]: [Value; 2] = [start, end];
        assert_eq!((start["pid"].as_u64(), start["tid"].as_u64()), (Some(0), Some(0)));
        assert_eq!((end["pid"].as_u64(), end["tid"].as_u64()), (Some(1), Some(3)));
        let rates: Vec<f64> = of("C").iter().map(|event| event["args"]["GB/s"].as_f64().unwrap()).collect();
        assert_eq!(rates.len(), 2);
        assert!(
            (rates[0] * time / 1e6 / ((1_u64 << 30) as f64 / 1e9) - 1.0).abs() < 1e-6 && rates[1] == 0.0,
            "{rates:?}"
        );
    }
}
