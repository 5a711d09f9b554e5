//! PyTorch's trace of the host (`ExecutionTraceObserver`): no times, but the collectives with their ranks and bytes since 2.4
//! (`torch/csrc/profiler/standalone/execution_trace_observer.cpp`), which can be played alone.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;

use super::kineto::width;
use super::{Among, Record, Recording, Size, What, kind_of, whole};
use crate::evidence::from_json;

#[derive(Deserialize)]
struct Trace {
    #[serde(default)]
    nodes: Vec<Node>,
}

#[derive(Deserialize)]
struct Node {
    #[serde(default)]
    id: u64,
    #[serde(default)]
    name: String,
    #[serde(default)]
    attrs: Vec<Attribute>,
}

#[derive(Deserialize)]
struct Attribute {
    #[serde(default)]
    name: String,
    #[serde(default)]
    value: Value,
}

const AGAIN: &str = "record with PyTorch 2.4 or later, or give the profiler's trace of the same run (export_chrome_trace), or convert both \
                     with Chakra (chakra_trace_link, chakra_converter)";

/// Its collectives, one after the other in each group.
pub(super) fn read(text: &str) -> Result<Recording, String> {
    let trace: Trace = from_json(text).map_err(|error| match error.is_eof() {
        true => {
            "PyTorch's trace of the host that is cut off: copy it again, or stop the observer before the program ends"
                .to_owned()
        }
        false => format!("PyTorch's trace of the host that cannot be read: {error}"),
    })?;
    if trace.nodes.len() > super::MOST_RECORDS {
        return Err(format!("more than {} nodes, which is the most that are read", super::MOST_RECORDS));
    }
    let (mut records, mut last, mut groups) = (Vec::new(), BTreeMap::new(), BTreeMap::new());
    let (mut unrecorded, mut left_out) = (0, 0);
    let mut nodes = trace.nodes;
    nodes.sort_by_key(|node| node.id);
    for node in nodes {
        let attributes: BTreeMap<&str, &Value> = node.attrs.iter().map(|of| (of.name.as_str(), &of.value)).collect();
        let text = |name: &str| attributes.get(name).and_then(|value| value.as_str());
        let number = |name: &str| attributes.get(name).copied().and_then(whole);
        // where it is linked with a profile, the kernel of an operation has the same attributes
        if node.name != "record_param_comms" {
            continue;
        }
        let Some(name) = text("collective_name") else {
            unrecorded += 1;
            continue;
        };
        // ends of groups, and what waits
        if ["wait", "init", "barrier"].contains(&name) || name.contains("coalesc") {
            continue;
        }
        let elements = number("in_msg_nelems").unwrap_or_default().max(number("out_msg_nelems").unwrap_or_default());
        let known = kind_of(name).zip(text("dtype").and_then(width)).filter(|_| elements > 0);
        let Some((collective, width)) = known else {
            left_out += 1;
            continue;
        };
        let (start, stride) = (number("global_rank_start"), number("global_rank_stride"));
        let size = number("pg_size").filter(|size| *size > 0 && *size <= 1 << 16);
        let group = text("pg_name").unwrap_or_default().to_owned();
        // ranks of a group are listed once
        let ranks = || {
            start.zip(stride).zip(size).and_then(|((start, stride), size)| {
                let rank = |i: u64| u32::try_from(start.checked_add(i.checked_mul(stride)?)?).ok();
                (stride > 0).then(|| (0..size).map(rank).collect::<Option<Vec<u32>>>())?
            })
        };
        if !groups.contains_key(&group)
            && let Some(ranks) = ranks()
        {
            groups.insert(group.clone(), ranks);
        }
        let among = if group.is_empty() { Among::All } else { Among::Named(group.clone()) };
        let bytes = Size::Whole(elements.saturating_mul(width));
        let after = last.insert(group, records.len() as u32).into_iter().collect();
        let what = What::Collective { collective, group: among, bytes, number: None };
        records.push(Record { id: node.id, what, after, delay: 0.0, took: None });
    }
    if records.is_empty() {
        return Err(match unrecorded {
            0 => format!("PyTorch's trace of the host, without a collective of NCCL: {AGAIN}"),
            n => format!(
                "PyTorch's trace of the host, whose {n} collectives (record_param_comms) lack ranks and bytes: {AGAIN}"
            ),
        });
    }
    let mut notes = vec![
        "PyTorch's trace of the host has no times: collectives are played alone, those of a group one after the other, and no \
         computing. The profiler's trace of the same run (export_chrome_trace) has it."
            .to_owned(),
    ];
    if unrecorded + left_out > 0 {
        notes.push(format!(
            "{} operations have no kind, ranks or bytes that are known (send and receive among them), and are left out.",
            unrecorded + left_out
        ));
    }
    Ok(Recording { records, groups, notes, ..Recording::default() })
}

#[cfg(test)]
mod tests {
    use super::super::{described, join, read as read_file};
    use super::*;
    use peerlane_machine::transfer::Collective;

    fn node(id: u32, collective: &str, elements: u32) -> String {
        format!(
            "{{\"id\": {id}, \"name\": \"record_param_comms\", \"ctrl_deps\": 1, \"inputs\": {{\"values\": [], \"shapes\": [], \"types\": []}}, \"attrs\": [\
             {{\"name\": \"collective_name\", \"type\": \"string\", \"value\": \"{collective}\"}}, {{\"name\": \"dtype\", \"type\": \"string\", \"value\": \"Float\"}}, \
             {{\"name\": \"in_msg_nelems\", \"type\": \"uint64\", \"value\": {elements}}}, {{\"name\": \"out_msg_nelems\", \"type\": \"uint64\", \"value\": {elements}}}, \
             {{\"name\": \"global_rank_start\", \"type\": \"uint64\", \"value\": 0}}, {{\"name\": \"global_rank_stride\", \"type\": \"uint64\", \"value\": 1}}, \
             {{\"name\": \"pg_name\", \"type\": \"string\", \"value\": \"0\"}}, {{\"name\": \"pg_size\", \"type\": \"uint64\", \"value\": 2}}]}}"
        )
    }

    fn trace(nodes: &[String]) -> String {
        format!("{{\"schema\": \"1.1.1-chakra.0.0.4\", \"pid\": 9, \"nodes\": [{}]}}", nodes.join(","))
    }

    #[test]
    fn collectives_are_played_alone() {
        // linked with a profile, a kernel is below its operation
        let kernel = node(8, "allreduce", 256).replace("record_param_comms", "ncclDevKernel_AllReduce");
        let text = trace(&[node(7, "allreduce", 256), kernel, node(3, "_allgather_base", 512), node(9, "wait", 0)]);
        let one = read_file("et.0.json", text.as_bytes()).unwrap();
        let kinds: Vec<Collective> = one
            .records
            .iter()
            .filter_map(|r| if let What::Collective { collective, .. } = r.what { Some(collective) } else { None })
            .collect();
        assert_eq!(kinds, [Collective::AllGather, Collective::AllReduce]);
        assert_eq!(one.records[1].after, [0]);
        let joined = join(vec![one.clone()], 8).unwrap();
        assert_eq!((joined.ranks, joined.groups.as_slice()), (2, &[vec![0, 1]][..]));
        let what = described("et.0.json", "et.0.json", text.as_bytes(), false).unwrap();
        assert!(what.starts_with("PyTorch's trace of the host, 1 rank, 2 records"), "{what}");
    }

    #[test]
    fn one_without_collectives_says_what_to_do() {
        let bare =
            trace(&["{\"id\": 2, \"name\": \"record_param_comms\", \"ctrl_deps\": 1, \"attrs\": []}".to_owned()]);
        let why = read_file("et.json", bare.as_bytes()).unwrap_err().to_string();
        assert!(
            why.contains("1 collectives (record_param_comms) lack ranks and bytes: record with PyTorch 2.4"),
            "{why}"
        );
        let whole = trace(&[node(7, "allreduce", 256)]);
        let why = read_file("et.json", &whole.as_bytes()[..whole.len() - 2]).unwrap_err().to_string();
        assert!(why.contains("cut off"), "{why}");
    }
}
