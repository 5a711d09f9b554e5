//! Chakra's traces as JSON: what its jsonizer writes (an object for the version and one a node) and what its feeder reads (an
//! object with `workload_graph`).

use std::collections::BTreeMap;

use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::{Deserializer, Value};

use super::graph::{Attributes, Node, NodeKind, recording};
use super::{Recording, utf8};
use crate::evidence::from_json;
use peerlane_machine::one_line;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Written {
    #[serde(default, alias = "Id")]
    id: Value,
    #[serde(default, alias = "Name")]
    name: String,
    #[serde(default, rename = "type", alias = "NodeType")]
    kind: Value,
    #[serde(default, alias = "ctrl_deps")]
    ctrl_deps: Vec<Value>,
    #[serde(default, alias = "data_deps")]
    data_deps: Vec<Value>,
    #[serde(default, alias = "start_time_micros")]
    start_time_micros: Value,
    #[serde(default, alias = "duration_micros", alias = "runtime")]
    duration_micros: Value,
    #[serde(default)]
    attr: Vec<BTreeMap<String, Value>>,
    inputs: Option<Inputs>,
    /// Attributes of the feeder's form.
    #[serde(flatten)]
    more: BTreeMap<String, Value>,
}

#[derive(Deserialize)]
struct Inputs {
    #[serde(default)]
    values: String,
}

#[derive(Deserialize)]
struct Graph {
    workload_graph: Vec<Written>,
    ngpus: Option<u32>,
}

/// A number, or one that is written as text.
fn number(value: &Value) -> Option<i64> {
    let real = |n: f64| (n.is_finite() && n.abs() < 9e18).then_some(n as i64);
    match value {
        Value::Number(n) => n.as_i64().or_else(|| n.as_f64().and_then(real)),
        Value::String(text) => text.parse().ok(),
        Value::Bool(is) => Some(i64::from(*is)),
        _ => None,
    }
}

fn positive(value: &Value) -> u64 {
    number(value).and_then(|n| u64::try_from(n).ok()).unwrap_or_default()
}

impl Written {
    fn node(self) -> Result<Node, String> {
        let kind = match &self.kind {
            Value::String(name) => match name.as_str() {
                "INVALID_NODE" => NodeKind::Invalid,
                "METADATA_NODE" => NodeKind::Metadata,
                "MEM_LOAD_NODE" => NodeKind::Load,
                "MEM_STORE_NODE" => NodeKind::Store,
                "COMP_NODE" => NodeKind::Compute,
                "COMM_SEND_NODE" => NodeKind::Send,
                "COMM_RECV_NODE" => NodeKind::Receive,
                "COMM_COLL_NODE" => NodeKind::Collective,
                other => {
                    let id = positive(&self.id);
                    return Err(format!("node {id}: type {other} is not in Chakra's schema"));
                }
            },
            other => NodeKind::of(positive(other)),
        };
        let mut attributes = Attributes::default();
        let text = |value: &Value| value.as_str().map(str::to_owned);
        for attribute in &self.attr {
            let name = attribute.get("name").and_then(Value::as_str).unwrap_or_default();
            let value = attribute.iter().find(|(key, _)| key.ends_with("Val")).map(|(_, value)| value);
            let list = attribute.get("boolList").and_then(|list| list.get("values")).and_then(Value::as_array);
            let list: Vec<u64> = list.into_iter().flatten().map(positive).collect();
            attributes.take(name, value.and_then(number), value.and_then(text), &list);
        }
        for (name, value) in &self.more {
            attributes.take(name, number(value), text(value), &[]);
        }
        Ok(Node {
            id: positive(&self.id),
            name: self.name,
            kind,
            called_by: self.ctrl_deps.iter().map(positive).collect(),
            after: self.data_deps.iter().map(positive).collect(),
            start_us: positive(&self.start_time_micros),
            duration_us: positive(&self.duration_micros),
            values: self.inputs.map(|inputs| inputs.values).filter(|_| kind == NodeKind::Metadata).unwrap_or_default(),
            attributes,
        })
    }
}

pub(super) fn read(bytes: &[u8]) -> Result<Recording, String> {
    let text = utf8(bytes)?;
    let why = |error: serde_json::Error, after: Option<&Node>| {
        let after = after.map_or_else(|| "before its first node".to_owned(), |node| format!("after node {}", node.id));
        match error.is_eof() {
            true => format!("cut off {after}; copy it again"),
            false => format!("{after}: {error}"),
        }
    };
    if text.contains("\"workload_graph\"") {
        let graph: Graph = from_json(text).map_err(|e| why(e, None))?;
        let nodes = graph.workload_graph.into_iter().map(Written::node).collect::<Result<_, _>>()?;
        let mut recording = recording(nodes)?;
        recording.world = graph.ngpus;
        return Ok(recording);
    }
    let mut nodes: Vec<Node> = Vec::new();
    let mut documents = Deserializer::from_str(text).into_iter::<IgnoredAny>();
    let mut first = true;
    let mut from = 0;
    while let Some(document) = documents.next() {
        document.map_err(|e| why(e, nodes.last()))?;
        let written = text.get(from..documents.byte_offset()).unwrap_or_default();
        from = documents.byte_offset();
        if std::mem::take(&mut first) {
            continue;
        }
        let mut one = Deserializer::from_str(written);
        let node: Written = one_line::read(&mut one).map_err(|e| why(e, nodes.last()))?;
        nodes.push(node.node()?);
        if nodes.len() > super::MOST_RECORDS {
            return Err(format!("more than {} nodes, which is the most that are read", super::MOST_RECORDS));
        }
    }
    recording(nodes)
}

/// Members of communicators: an object of lists of ranks.
pub(super) fn groups(bytes: &[u8]) -> Option<BTreeMap<String, Vec<u32>>> {
    let text = std::str::from_utf8(bytes).ok().filter(|text| text.len() < 4 << 20)?;
    from_json::<BTreeMap<String, Vec<u32>>>(text).ok().filter(|groups| !groups.is_empty())
}
