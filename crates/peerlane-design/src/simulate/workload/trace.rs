//! A trace: transfers, collectives and computing with what each waits for, one JSON object a line.
//!
//! ```text
//! {"id": "a", "from": "GPU0", "to": "GPU1", "bytes": 1048576}
//! {"id": "b", "on": "GPU1", "seconds": 2e-5, "after": ["a"]}
//! {"from": "GPU1", "to": "GPU2", "bytes": 4096, "after": ["b"], "delay": 1e-6}
//! {"collective": "all-reduce", "ranks": ["GPU0", "GPU1"], "bytes": 1048576, "after": ["b"]}
//! ```

use std::collections::{HashMap, HashSet};

use serde::Deserialize;

use super::super::SimulateError;
use super::super::play::Order;
use crate::cluster::{Cluster, Place, Router};
use crate::simulate::traced::{Done, Recorded};
use peerlane_machine::matrix::Engine;
use peerlane_machine::transfer::Collective;
use peerlane_read::catalogue::Parts;
use peerlane_read::evidence::from_json;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Line {
    id: Option<String>,
    from: Option<String>,
    to: Option<String>,
    bytes: Option<f64>,
    #[serde(default)]
    delay: f64,
    on: Option<String>,
    seconds: Option<f64>,
    collective: Option<Collective>,
    ranks: Option<Vec<String>>,
    #[serde(default)]
    after: Vec<String>,
}

/// More bytes or seconds than anything has.
const MOST: f64 = 1e18;

/// Reads a trace for a cluster; empty lines and lines that begin with `#` are left out.
///
/// # Errors
/// Where a line is no such object, names what is not there or not joined, has a number below 0 or above 10¹⁸, an id that another has, or waits for
/// itself by way of others; the message names the line.
pub fn read_trace(text: &str, cluster: &Cluster) -> Result<Recorded, SimulateError> {
    let refuse = |line: usize, why: String| SimulateError::Workload(format!("line {line}: {why}"));
    let mut steps = Vec::new();
    let mut groups: Vec<Vec<Place>> = Vec::new();
    let mut numbers: HashMap<Vec<Place>, u32> = HashMap::new();
    let mut lines = Vec::new();
    let mut ids: HashMap<String, u32> = HashMap::new();
    let mut waits: Vec<(u32, String)> = Vec::new();
    let mut router = Router::new(cluster, Parts::embedded());
    let mut joined: HashSet<(Place, Place)> = HashSet::new();
    for (i, written) in text.lines().enumerate() {
        let (number, written) = (i + 1, written.trim());
        if written.is_empty() || written.starts_with('#') {
            continue;
        }
        let line: Line = from_json(written).map_err(|e| refuse(number, e.to_string()))?;
        let find = |name: &str| cluster.find(name).map_err(|e| refuse(number, e.to_string()));
        let positive = |what: &str, n: f64| match n {
            n if !n.is_finite() || n < 0.0 => {
                Err(refuse(number, format!("{what} must be a number of at least 0, not {n}")))
            }
            n if n > MOST => Err(refuse(number, format!("{what} must be at most {MOST:e}, not {n:e}"))),
            n => Ok(n),
        };
        let step = match (line.from, line.to, line.bytes, line.on, line.seconds, line.collective, line.ranks) {
            (Some(from), Some(to), Some(bytes), None, None, None, None) => {
                let bytes = positive("bytes", bytes)?;
                let delay = positive("delay", line.delay)?;
                let (from, to) = (find(&from)?, find(&to)?);
                if from != to && joined.insert((from, to)) {
                    router.way(from, to, Engine::Ce).map_err(|e| refuse(number, e.to_string()))?;
                }
                Done::Message { from, to, bytes, delay }
            }
            (None, None, None, Some(on), Some(seconds), None, None) => {
                Done::Compute { on: find(&on)?, seconds: positive("seconds", seconds)? }
            }
            (None, None, Some(bytes), None, None, Some(collective), Some(ranks)) => {
                let members = ranks.iter().map(|name| find(name)).collect::<Result<Vec<_>, _>>()?;
                let twice = members.iter().collect::<HashSet<_>>().len() < members.len();
                if collective == Collective::SendReceive || members.is_empty() || twice {
                    let why = "a collective is all-reduce, all-gather, reduce-scatter, all-to-all or broadcast, among GPUs that are each \
                               named once";
                    return Err(refuse(number, why.to_owned()));
                }
                let bytes = positive("bytes", bytes)?;
                let next = groups.len() as u32;
                let group = *numbers.entry(members).or_insert_with_key(|members| {
                    groups.push(members.clone());
                    next
                });
                Done::Collective { collective, group, bytes: bytes as u64, took: None }
            }
            _ => {
                let why = "a line has either from, to and bytes, or on and seconds, or collective, ranks and bytes";
                return Err(refuse(number, why.to_owned()));
            }
        };
        let index = steps.len() as u32;
        if let Some(id) = line.id
            && let Some(before) = ids.insert(id.clone(), index)
        {
            return Err(refuse(number, format!("line {} has the id '{id}' already", lines[before as usize])));
        }
        waits.extend(line.after.into_iter().map(|id| (index, id)));
        steps.push(step);
        lines.push(number);
    }
    if steps.is_empty() {
        return Err(SimulateError::Workload("a trace with no line does nothing".to_owned()));
    }
    let mut within = Vec::with_capacity(waits.len());
    for (step, id) in waits {
        let Some(before) = ids.get(&id) else {
            return Err(refuse(lines[step as usize], format!("it waits for '{id}', which no line has for an id")));
        };
        within.push((*before, step));
    }
    if let Some(step) = in_a_circle(steps.len(), &within) {
        let line = lines[step];
        return Err(refuse(line, "it waits for itself through the lines that it waits for".to_owned()));
    }
    Ok(Recorded { done: steps, waits: within, groups, ..Recorded::default() })
}

/// A step that waits for itself.
fn in_a_circle(steps: usize, waits: &[(u32, u32)]) -> Option<usize> {
    let mut order = Order::new(steps, waits);
    let mut ready = order.ready();
    while let Some(step) = ready.pop() {
        order.end(step, &mut ready);
    }
    // from one that is left, backwards along those that are left, until one comes again
    let mut at = order.missing.iter().position(|m| *m > 0)?;
    let mut visited = vec![false; steps];
    while !std::mem::replace(&mut visited[at], true) {
        let before = waits.iter().find(|(a, b)| *b as usize == at && order.missing[*a as usize] > 0);
        at = before.map_or(at, |(a, _)| *a as usize);
    }
    Some(at)
}

#[cfg(test)]
mod tests {
    use super::*;
    use peerlane_read::catalogue::system;

    fn read(text: &str) -> Result<Recorded, String> {
        let cluster = Cluster::single(system("exxact-devbox").unwrap().unwrap());
        read_trace(text, &cluster).map_err(|e| e.to_string())
    }

    #[test]
    fn lines_become_steps() {
        let text = "# two\n{\"id\":\"a\",\"from\":\"GPU0\",\"to\":\"GPU1\",\"bytes\":8}\n\n\
                    {\"on\":\"GPU1\",\"seconds\":1e-3,\"after\":[\"a\"]}\n";
        let trace = read(text).unwrap();
        assert_eq!((trace.done.len(), trace.waits.as_slice()), (2, [(0, 1)].as_slice()));
    }

    #[test]
    fn what_nothing_joins_is_refused_with_its_line() {
        let text = "name = \"x\"\nnode = \"quong-node\"\nnodes = 3\n[network]\nshape = \"links\"\n\
                    [[links]]\nbetween = [\"node0\", \"node1\"]\n[[links]]\nbetween = [\"node2\", \"s\"]\n";
        let cluster = crate::cluster::read_cluster(text, "x.toml", |s| system(s).and_then(Result::ok)).unwrap();
        let line = |to: u32| format!("{{\"from\":\"node0/GPU0\",\"to\":\"node{to}/GPU0\",\"bytes\":1}}\n");
        let message = read_trace(&format!("{}{}", line(1), line(2)), &cluster).unwrap_err().to_string();
        assert_eq!(message, "workload line 2: nothing joins node0 and node2");
        assert!(read_trace(&line(1), &cluster).is_ok());
    }

    #[test]
    fn what_cannot_be_is_refused_with_its_line() {
        let a = "{\"id\":\"a\",\"on\":\"GPU0\",\"seconds\":1,\"after\":[\"c\"]}\n";
        let b = "{\"id\":\"b\",\"on\":\"GPU0\",\"seconds\":1}\n";
        let c = "{\"id\":\"c\",\"on\":\"GPU0\",\"seconds\":1,\"after\":[\"b\",\"a\"]}\n";
        let circle = read(&format!("{b}{a}{c}")).unwrap_err();
        assert!(circle.starts_with("workload line ") && circle.contains("waits for itself"), "{circle}");
        assert!(!circle.contains("line 1:"), "b is in no circle: {circle}");
        let cases = [
            ("{\"on\":\"GPU9\",\"seconds\":1}", "line 1: no node 'GPU9'; the nodes are: GPU0"),
            ("\n{\"from\":\"GPU0\",\"to\":\"GPU1\",\"bytes\":-1}", "line 2: bytes must be a number of at least 0"),
            ("{\"from\":\"GPU0\",\"to\":\"GPU1\"}", "line 1: a line has either"),
            ("{\"on\":\"GPU0\",\"seconds\":NaN}", "line 1: "),
            ("{\"from\":\"GPU0\",\"to\":\"GPU1\",\"bytes\":1e400}", "line 1: "),
            ("{\"from\":\"GPU0\",\"to\":\"GPU1\",\"bytes\":1e300}", "line 1: bytes must be at most 1e18"),
            ("\n{\"on\":\"GPU0\",\"seconds\":1e19}", "line 2: seconds must be at most 1e18"),
            ("{\"from\":\"GPU0\",\"to\":\"GPU1\",\"bytes\":1,\"delay\":-1}", "line 1: delay must be"),
            ("{\"on\":\"GPU0\",\"seconds\":1,\"afte\":[]}", "unknown field `afte`"),
            ("{\"on\":\"GPU0\",\"seconds\":1,\"after\":[\"x\"]}", "line 1: it waits for 'x'"),
            (
                "{\"id\":\"a\",\"on\":\"GPU0\",\"seconds\":1}\n{\"id\":\"a\",\"on\":\"GPU0\",\"seconds\":1}",
                "line 2: line 1 has the id",
            ),
            ("", "does nothing"),
        ];
        for (text, expected) in cases {
            let message = read(text).unwrap_err();
            assert!(message.contains(expected), "{message}");
        }
    }
}
