//! What happened, as a trace for Perfetto or `chrome://tracing` (the Trace Event Format of Google's trace viewer).

use serde_json::{Value, json};

use super::outcome::Event;
use super::program::Step;
use crate::cluster::Cluster;

/// The events as JSON: a process a node, a thread a GPU, and on it what it sends and computes.
pub fn chrome_trace(cluster: &Cluster, events: &[Event]) -> String {
    let gpus = cluster.gpus();
    let thread = |device| gpus.iter().position(|g| *g == device).unwrap_or(gpus.len());
    let mut all: Vec<Value> = Vec::with_capacity(events.len() + gpus.len());
    let mut named = std::collections::BTreeSet::new();
    for event in events {
        let (at, name, arguments) = match event.step {
            Step::Move { from, to, bytes, .. } => {
                let to = cluster.name_of(to);
                (from, format!("to {to}"), json!({"bytes": bytes, "to": to}))
            }
            Step::Compute { on, .. } => (on, "compute".to_owned(), json!({})),
        };
        named.insert((at.node, thread(at.device), cluster.name_of(at)));
        // times are in µs
        let (start, length) = (event.start * 1e6, (event.end - event.start) * 1e6);
        all.push(json!({
            "ph": "X", "name": name, "cat": format!("round {}", event.round), "ts": start, "dur": length,
            "pid": at.node, "tid": thread(at.device), "args": arguments,
        }));
    }
    let names = named.into_iter().map(|(node, thread, name)| {
        json!({"ph": "M", "name": "thread_name", "pid": node, "tid": thread, "args": {"name": name}})
    });
    all.extend(names);
    json!({"traceEvents": all, "displayTimeUnit": "ns"}).to_string()
}
