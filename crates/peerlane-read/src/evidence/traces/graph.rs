//! Nodes of Chakra's traces as records: attributes, dependencies, and what runs one after the other.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap, HashMap};

use peerlane_machine::transfer::Collective;

use super::{Among, Record, Recording, Size, What, is_collective_kernel};
use crate::evidence::from_json;

/// What a node is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum NodeKind {
    #[default]
    Invalid,
    Metadata,
    Load,
    Store,
    Compute,
    Send,
    Receive,
    Collective,
    Unknown(u64),
}

impl NodeKind {
    /// By its number in the schema.
    pub(super) fn of(number: u64) -> Self {
        match number {
            0 => NodeKind::Invalid,
            1 => NodeKind::Metadata,
            2 => NodeKind::Load,
            3 => NodeKind::Store,
            4 => NodeKind::Compute,
            5 => NodeKind::Send,
            6 => NodeKind::Receive,
            7 => NodeKind::Collective,
            other => NodeKind::Unknown(other),
        }
    }
}

/// Attributes that matter here.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Attributes {
    pub(super) on_host: bool,
    pub(super) comm_type: Option<i64>,
    pub(super) comm_size: Option<i64>,
    pub(super) from: Option<i64>,
    pub(super) to: Option<i64>,
    pub(super) tag: Option<i64>,
    pub(super) stream: Option<i64>,
    /// The host's thread.
    pub(super) thread: Option<i64>,
    pub(super) operations: Option<i64>,
    pub(super) group: Option<String>,
    /// Whether it is among a part of a network's dimensions only.
    pub(super) in_part: bool,
}

impl Attributes {
    pub(super) fn take(&mut self, name: &str, value: Option<i64>, text: Option<String>, list: &[u64]) {
        match name {
            "is_cpu_op" => self.on_host = value == Some(1),
            "comm_type" => self.comm_type = value,
            "comm_size" => self.comm_size = value,
            "comm_src" => self.from = value,
            "comm_dst" => self.to = value,
            "comm_tag" => self.tag = value,
            "stream" => self.stream = value,
            "tid" => self.thread = value,
            "num_ops" => self.operations = value,
            "pg_name" | "comm_group" => {
                self.group = text.or(value.map(|n| n.to_string())).filter(|name| !name.is_empty())
            }
            "involved_dim" => self.in_part = list.contains(&0),
            _ => {}
        }
    }
}

/// A node as it is written.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Node {
    pub(super) id: u64,
    pub(super) name: String,
    pub(super) kind: NodeKind,
    pub(super) called_by: Vec<u64>,
    pub(super) after: Vec<u64>,
    pub(super) start_us: u64,
    pub(super) duration_us: u64,
    /// Of a metadata node, its inputs.
    pub(super) values: String,
    pub(super) attributes: Attributes,
}

impl Node {
    fn label(&self) -> String {
        let name: String = self.name.chars().filter(|c| !c.is_control()).take(60).collect();
        if name.is_empty() { format!("node {}", self.id) } else { format!("node {} ({name})", self.id) }
    }

    /// What runs one after the other on a rank: a stream and a thread of the host where they are known; or else the computing of the GPU,
    /// its host, and each communicator.
    fn lane(&self) -> Option<String> {
        let Attributes { on_host, stream, thread, group, .. } = &self.attributes;
        match (self.kind, stream) {
            (NodeKind::Invalid | NodeKind::Metadata | NodeKind::Receive | NodeKind::Unknown(_), _) => None,
            _ if *on_host => Some(format!("host {}", thread.unwrap_or_default())),
            (_, Some(stream)) => Some(format!("stream {stream}")),
            (NodeKind::Collective, None) => Some(format!("group {}", group.as_deref().unwrap_or_default())),
            (NodeKind::Send, None) => Some("send".to_owned()),
            (_, None) => Some("computing".to_owned()),
        }
    }

    fn what(&self) -> Result<What, String> {
        let Attributes { on_host, comm_type, comm_size, from, to, tag, .. } = &self.attributes;
        let seconds = self.duration_us as f64 / 1e6;
        let number = |what: &str, of: &Option<i64>| {
            let negative = |n| format!("{}: {what} is {n}, and must be at least 0", self.label());
            let missing = || format!("{}: no attribute {what}; convert the trace again", self.label());
            let n = of.ok_or_else(missing)?;
            u64::try_from(n).map_err(|_| negative(n))
        };
        let rank = |what: &str, of: &Option<i64>| {
            u32::try_from(number(what, of)?).map_err(|_| format!("{}: {what} is no rank", self.label()))
        };
        if *on_host {
            return Ok(What::Host(seconds));
        }
        let tag = tag.and_then(|tag| u64::try_from(tag).ok()).unwrap_or_default();
        Ok(match self.kind {
            NodeKind::Invalid | NodeKind::Metadata => What::Host(0.0),
            NodeKind::Unknown(kind) => return Err(format!("{}: type {kind} is not in Chakra's schema", self.label())),
            NodeKind::Compute if is_collective_kernel(&self.name) => {
                return Err(format!(
                    "{} is communication that is marked as computing, so that its ranks and bytes are not known: convert the \
                     trace again, with the collectives' records of the profiler",
                    self.label()
                ));
            }
            NodeKind::Compute | NodeKind::Load | NodeKind::Store => What::Compute(seconds),
            NodeKind::Send => What::Send { to: rank("comm_dst", to)?, bytes: number("comm_size", comm_size)?, tag },
            NodeKind::Receive => What::Receive { from: rank("comm_src", from)?, tag },
            NodeKind::Collective => {
                self.collective(number("comm_type", comm_type)?, number("comm_size", comm_size)?)?
            }
        })
    }

    fn collective(&self, kind: u64, bytes: u64) -> Result<What, String> {
        if self.attributes.in_part {
            return Err(format!(
                "{}: involved_dim leaves out dimensions of a network of ASTRA-sim's, which are not known here: name its \
                 communicator (pg_name) and give its members as JSON, {{\"0\": [0, 1]}}",
                self.label()
            ));
        }
        // the bytes that a rank gives, of a barrier none
        let (collective, bytes) = match kind {
            0 => (Collective::AllReduce, Size::Whole(bytes)),
            2 => (Collective::AllGather, Size::Given(bytes)),
            // a sum for one, or one to all, goes around a ring as a broadcast does
            1 | 5 => (Collective::Broadcast, Size::Whole(bytes)),
            6 => (Collective::AllToAll, Size::Whole(bytes)),
            7 | 8 => (Collective::ReduceScatter, Size::Whole(bytes)),
            9 => (Collective::AllReduce, Size::Whole(8)),
            3 | 4 if self.duration_us > 0 => return Ok(What::Known(self.duration_us as f64 / 1e6, None)),
            3 | 4 => {
                return Err(format!(
                    "{}: a gather or scatter without a duration has no time that is known",
                    self.label()
                ));
            }
            other => return Err(format!("{}: comm_type {other} is not in Chakra's schema (0 to 9)", self.label())),
        };
        let group = self.attributes.group.clone().map_or(Among::All, Among::Named);
        Ok(What::Collective { collective, group, bytes, number: None })
    }
}

/// Whether computing and collectives of a GPU wait for each other nowhere.
fn unjoined(nodes: &[Node], waits: &[Vec<u32>], order: &[u32]) -> bool {
    // of each node: whether computing, and whether a collective, comes before it
    let mut before = vec![[false; 2]; nodes.len()];
    let kind = |node: &Node| match node.kind {
        NodeKind::Compute if !node.attributes.on_host => Some(0),
        NodeKind::Collective if !node.attributes.on_host => Some(1),
        _ => None,
    };
    let mut found = [0_usize; 2];
    for at in order {
        let mut own = [false; 2];
        for from in &waits[*at as usize] {
            let [computing, collective] = before[*from as usize];
            let of = kind(&nodes[*from as usize]);
            own = [own[0] || computing || of == Some(0), own[1] || collective || of == Some(1)];
        }
        before[*at as usize] = own;
        match kind(&nodes[*at as usize]) {
            Some(kind) if own[1 - kind] => return false,
            Some(kind) => found[kind] += 1,
            None => {}
        }
    }
    found.iter().all(|count| *count > 1)
}

#[derive(serde::Deserialize)]
struct ProcessGroup {
    pg_name: String,
    #[serde(default)]
    ranks: Vec<u32>,
}

/// A rank's nodes in an order in which nothing comes before what it waits for.
pub(super) fn recording(nodes: Vec<Node>) -> Result<Recording, String> {
    if nodes.is_empty() {
        return Err("no node in it: the trace is empty".to_owned());
    }
    let mut notes = Vec::new();
    let mut places: HashMap<u64, u32> = HashMap::with_capacity(nodes.len());
    for (at, node) in (0..).zip(&nodes) {
        if places.insert(node.id, at).is_some() {
            return Err(format!("two nodes have the number {}; is more than one rank in it?", node.id));
        }
    }
    let mut waits: Vec<Vec<u32>> = Vec::with_capacity(nodes.len());
    for node in &nodes {
        let place = |id: &u64| {
            let missing =
                || format!("{} waits for node {id}, which is not in the trace: convert it again", node.label());
            places.get(id).copied().ok_or_else(missing)
        };
        let mut of_node = node.after.iter().map(place).collect::<Result<Vec<u32>, String>>()?;
        of_node.sort_unstable();
        of_node.dedup();
        waits.push(of_node);
    }
    // control dependencies are waited for, too, unless they contradict the others: a converter's name who called whom, and some of
    // those are taken out
    let mut both = waits.clone();
    let mut left_out = 0;
    for (node, of_node) in nodes.iter().zip(&mut both) {
        let callers = node.called_by.iter().filter_map(|id| places.get(id).copied());
        let before = of_node.len();
        of_node.extend(callers);
        left_out += node.called_by.len() - (of_node.len() - before);
        of_node.sort_unstable();
        of_node.dedup();
    }
    let order = match ordered(&nodes, &both) {
        Ok(order) => {
            waits = both;
            order
        }
        Err(_) => {
            let order = ordered(&nodes, &waits)?;
            notes.push("Control dependencies contradict data dependencies, and are left out.".to_owned());
            left_out = 0;
            order
        }
    };
    if left_out > 0 {
        notes.push(format!("{left_out} control dependencies name nodes that are not in the trace, and are left out."));
    }
    let mut new = vec![0_u32; nodes.len()];
    for (to, from) in (0..).zip(&order) {
        new[*from as usize] = to;
    }
    let mut lanes: HashMap<String, u32> = HashMap::new();
    let mut records = Vec::with_capacity(nodes.len());
    let mut groups: BTreeMap<String, Vec<u32>> = BTreeMap::new();
    let mut timeless = 0;
    for (place, from) in (0..).zip(&order) {
        let node = &nodes[*from as usize];
        let mut after: Vec<u32> = waits[*from as usize].iter().map(|at| new[*at as usize]).collect();
        if let Some(before) = node.lane().and_then(|lane| lanes.insert(lane, place)) {
            after.push(before);
        }
        let what = node.what()?;
        if node.kind == NodeKind::Metadata {
            groups.extend(members(&node.values));
        }
        timeless += usize::from(node.duration_us == 0 && node.attributes.operations.is_some_and(|n| n > 0));
        let took = (node.duration_us > 0 && node.kind == NodeKind::Collective).then_some(node.duration_us as f64 / 1e6);
        records.push(Record { id: node.id, what, after, delay: 0.0, took });
    }
    let of_kind = |kind: NodeKind| nodes.iter().filter(move |node| node.kind == kind);
    let all = of_kind(NodeKind::Collective).count();
    let on_host = of_kind(NodeKind::Collective).filter(|node| node.attributes.on_host).count();
    let empty = |node: &&Node| node.attributes.comm_size == Some(0) && node.attributes.comm_type != Some(9);
    let empty = of_kind(NodeKind::Collective).filter(|node| !node.attributes.on_host).filter(empty).count();
    if on_host > 0 {
        let what = format!(
            "{on_host} of {all} collectives are marked as the host's (is_cpu_op), so that programs leave them out: set is_cpu_op to false, or \
             convert again with Chakra of December 2024 or later"
        );
        if on_host == all {
            return Err(what);
        }
        notes.push(format!("{what}."));
    }
    if empty > 0 {
        let what = format!(
            "{empty} of {all} collectives have a comm_size of 0: the converter lost it (uint64 for int64); convert again with Chakra of \
             October 2024 or later"
        );
        if empty + on_host == all {
            return Err(what);
        }
        notes.push(format!("{what}."));
    }
    if unjoined(&nodes, &waits, &order) {
        notes.push(
            "No collective waits for computing, and no computing for a collective, so that all of it goes at once: converters have lost \
             what kernels of one stream wait for; link and convert the trace again with a newer Chakra."
                .to_owned(),
        );
    }
    let threads: BTreeSet<i64> = nodes
        .iter()
        .filter(|node| node.attributes.on_host && node.duration_us > 0)
        .filter_map(|node| node.attributes.thread)
        .collect();
    if threads.len() > 1 && nodes.iter().all(|node| node.start_us == 0) {
        notes.push(
            "The trace does not say when nodes began: where a thread of the host waited for another, its time counts twice. The profile              that the trace was made of has it."
                .to_owned(),
        );
    }
    if timeless > 0 {
        notes.push(format!("{timeless} nodes have a number of operations and no duration, and take no time."));
    }
    Ok(Recording { records, groups, notes, ..Recording::default() })
}

/// Communicators that a metadata node lists.
fn members(values: &str) -> impl Iterator<Item = (String, Vec<u32>)> {
    let (start, end) = (values.find('['), values.rfind(']'));
    let list = start.zip(end).and_then(|(start, end)| values.get(start..=end));
    // a list of one text that holds the list
    let within = list.and_then(|list| list.get(1..)).and_then(|rest| Some((rest.find('[')?, rest.rfind(']')?, rest)));
    let inner = within.and_then(|(a, b, rest)| rest.get(..b).and_then(|cut| cut.get(a..=cut.rfind(']')?)));
    let read = |text: &str| from_json::<Vec<ProcessGroup>>(text).ok();
    let found = list.and_then(read).or_else(|| inner.and_then(read)).unwrap_or_default();
    found.into_iter().map(|group| (group.pg_name, group.ranks))
}

/// Nodes so that each comes after what it waits for; of those that could come next the one that began first, and then the one
/// with the lowest number.
fn ordered(nodes: &[Node], waits: &[Vec<u32>]) -> Result<Vec<u32>, String> {
    let mut missing: Vec<u32> = waits.iter().map(|of| of.len() as u32).collect();
    let mut next: Vec<Vec<u32>> = vec![Vec::new(); nodes.len()];
    for (node, of) in (0..).zip(waits) {
        of.iter().for_each(|before| next[*before as usize].push(node));
    }
    let key = |at: u32| Reverse((nodes[at as usize].start_us, nodes[at as usize].id, at));
    let mut ready: BinaryHeap<_> = (0..nodes.len() as u32).filter(|at| missing[*at as usize] == 0).map(key).collect();
    let mut order = Vec::with_capacity(nodes.len());
    while let Some(Reverse((_, _, at))) = ready.pop() {
        order.push(at);
        for after in &next[at as usize] {
            missing[*after as usize] -= 1;
            if missing[*after as usize] == 0 {
                ready.push(key(*after));
            }
        }
    }
    if order.len() == nodes.len() {
        return Ok(order);
    }
    // from one that is left, backwards along those that are left, until one comes again
    let mut at = missing.iter().position(|m| *m > 0).unwrap_or_default();
    let mut seen = vec![false; nodes.len()];
    while !std::mem::replace(&mut seen[at], true) {
        let before = waits[at].iter().find(|before| missing[**before as usize] > 0);
        at = before.map_or(at, |before| *before as usize);
    }
    let left = nodes.len() - order.len();
    Err(format!(
        "{} waits for itself through others ({left} nodes cannot begin): convert the trace again",
        nodes[at].label()
    ))
}
