//! Execution plans of MSCCL++ (JSON; `src/core/executor/execution_plan.cc`): what each thread block of each GPU puts, reads, signals and waits
//! for. A plan has no size: a chunk is the size of the collective divided by its chunks.

use std::collections::{BTreeMap, HashMap, VecDeque};

use serde::Deserialize;

use super::join::{Act, Joined, circle};
use super::{TraceError, kind_of};
use crate::evidence::from_json;
use peerlane_machine::units::Bytes;

/// Bytes of a signal: a counter.
const SIGNAL: u64 = 8;

#[derive(Clone, Debug, Deserialize)]
struct Plan {
    #[serde(default)]
    name: String,
    collective: String,
    #[serde(default)]
    protocol: String,
    gpus: Vec<Gpu>,
    #[serde(default)]
    min_message_size: u64,
    max_message_size: Option<u64>,
}

#[derive(Clone, Debug, Deserialize)]
struct Gpu {
    id: u32,
    #[serde(default)]
    input_chunks: u64,
    #[serde(default)]
    output_chunks: u64,
    threadblocks: Vec<Block>,
    #[serde(default)]
    channels: Vec<Channel>,
    #[serde(default)]
    remote_buffers: Vec<Remote>,
    #[serde(default)]
    semaphores: Vec<Semaphore>,
}

#[derive(Clone, Debug, Deserialize)]
struct Semaphore {
    #[serde(default)]
    init_value: usize,
}

#[derive(Clone, Debug, Deserialize)]
struct Block {
    #[serde(default)]
    ops: Vec<Operation>,
    #[serde(default)]
    channels: Vec<BlockChannels>,
    #[serde(default)]
    remote_buffer_refs: Vec<BlockBuffers>,
}

#[derive(Clone, Debug, Deserialize)]
struct BlockChannels {
    channel_type: String,
    #[serde(default)]
    channel_ids: Vec<usize>,
}

#[derive(Clone, Debug, Deserialize)]
struct BlockBuffers {
    access_channel_type: String,
    #[serde(default)]
    remote_buffer_ids: Vec<usize>,
}

#[derive(Clone, Debug, Deserialize)]
struct Channel {
    channel_type: String,
    #[serde(default)]
    connected_to: Vec<u32>,
}

#[derive(Clone, Debug, Deserialize)]
struct Remote {
    rank: u32,
    #[serde(default, rename = "type")]
    kind: String,
}

#[derive(Clone, Debug, Deserialize)]
struct Operation {
    name: String,
    #[serde(default)]
    src_buff: Vec<Buffer>,
    #[serde(default)]
    dst_buff: Vec<Buffer>,
    #[serde(default)]
    channel_ids: Vec<usize>,
    #[serde(default)]
    channel_type: String,
    barrier_id: Option<u64>,
    #[serde(default)]
    semaphore_ids: Vec<usize>,
    tbg_info: Option<Share>,
    #[serde(default)]
    ops: Vec<Operation>,
}

#[derive(Clone, Debug, Deserialize)]
struct Share {
    tbg_size: u64,
}

#[derive(Clone, Debug, Deserialize)]
struct Buffer {
    #[serde(default, rename = "type")]
    kind: String,
    buffer_id: Option<usize>,
    #[serde(default)]
    index: u64,
    #[serde(default)]
    size: u64,
}

fn parsed(text: &str) -> Result<Plan, String> {
    if text.contains("\"inputChunks\"") {
        return Err("an execution plan of MSCCL++ before 0.7: write it again with the current language".to_owned());
    }
    let plan: Plan = from_json(text).map_err(|error| match error.is_eof() {
        true => "an execution plan of MSCCL++ that is cut off: copy it again".to_owned(),
        false => format!("an execution plan of MSCCL++ that cannot be read: {error}"),
    })?;
    let operations = plan.gpus.iter().flat_map(|gpu| &gpu.threadblocks).map(|block| block.ops.len()).sum::<usize>();
    if operations > super::MOST_RECORDS {
        return Err(format!("{operations} operations are more than the {} that are read", super::MOST_RECORDS));
    }
    if plan.gpus.is_empty() {
        return Err("an execution plan of MSCCL++ without GPUs".to_owned());
    }
    if let Some((at, gpu)) = (0..).zip(&plan.gpus).find(|(at, gpu)| gpu.id != *at) {
        return Err(format!(
            "an execution plan of MSCCL++ whose GPU {at} has the id {}: MSCCL++ takes them in order",
            gpu.id
        ));
    }
    Ok(plan)
}

/// What a plan is, in words; and whether it can be played.
pub(super) fn described(text: &str) -> Result<(String, bool), String> {
    let plan = parsed(text)?;
    let blocks = plan.gpus.iter().map(|gpu| gpu.threadblocks.len()).max().unwrap_or_default();
    let kind = kind_of(&plan.collective).map_or(plan.collective.as_str(), |kind| kind.name());
    let mut what = format!(
        "an execution plan of MSCCL++, {kind} '{}', {} GPUs with up to {blocks} thread blocks, protocol {}",
        plan.name,
        plan.gpus.len(),
        plan.protocol
    );
    let played = laid(&plan, 1 << 20);
    let can = played.is_ok();
    match played {
        Ok(joined) => {
            let sent = joined.acts.iter().filter_map(|act| if let Act::Message(.., n) = act { Some(*n) } else { None });
            let (signals, data): (Vec<u64>, Vec<u64>) = sent.partition(|n| *n == SIGNAL);
            let share = data.iter().sum::<u64>() as f64 / plan.gpus.len() as f64 / f64::from(1 << 20);
            what += &format!(
                ", {} transfers of {share:.2} times the size for each GPU, and {} signals",
                data.len(),
                signals.len()
            );
        }
        Err(why) => what += &format!("; it cannot be played: {why}"),
    }
    Ok((what, can))
}

/// The plan at a size, which is brought within what it is made for.
///
/// # Errors
/// Where it cannot be read or played.
pub(super) fn joined(text: &str, size: u64) -> Result<Joined, String> {
    let plan = parsed(text)?;
    let within = size.clamp(plan.min_message_size.max(1), plan.max_message_size.unwrap_or(u64::MAX).max(1));
    let mut joined = laid(&plan, within)?;
    let kind = kind_of(&plan.collective).map_or(plan.collective.as_str(), |kind| kind.name());
    joined.notes.push(format!(
        "{kind} '{}' of MSCCL++ at {}, the largest of --sizes{}; thread blocks copy and add at once, and wait for signals and data.",
        plan.name,
        Bytes(within),
        if within == size { "" } else { " within what it is made for" }
    ));
    Ok(joined)
}

fn laid(plan: &Plan, size: u64) -> Result<Joined, String> {
    let mut laying = Laying::new(plan, size);
    for (rank, gpu) in (0_u32..).zip(&plan.gpus) {
        for (at, block) in gpu.threadblocks.iter().enumerate() {
            laying.block(rank, gpu, (at, block))?;
        }
    }
    laying.connect()?;
    let Laying { acts, waits, .. } = laying;
    let joined = Joined { ranks: plan.gpus.len(), acts, waits, ..Joined::default() };
    circle(&joined).map_err(|TraceError(why)| why)?;
    Ok(joined)
}

/// A direction of a channel: from, to, its type and its place among those.
type Way = (u32, u32, bool, usize);

/// What is laid out so far.
struct Laying<'p> {
    plan: &'p Plan,
    size: u64,
    acts: Vec<Act>,
    waits: Vec<(u32, u32)>,
    /// By way, signals in their order; and what waits, with where.
    signals: HashMap<Way, VecDeque<u32>>,
    waiting: Vec<(Way, u32, String)>,
    /// By GPU and barrier, what waits of each block, one for each time.
    barriers: BTreeMap<(u32, u64, usize), u32>,
    /// By GPU and semaphore.
    releases: HashMap<(u32, usize), Vec<u32>>,
    acquired: Vec<((u32, usize), u32)>,
    /// By GPU and chunk of its scratch buffer, the packets that write it.
    written: HashMap<(u32, u64), Vec<u32>>,
    read: Vec<(u32, u64, u32)>,
}

/// From, to, bytes, and the chunks of the other's scratch buffer that they fill.
type Move = (u32, u32, u64, Option<(u64, u64)>);

impl<'p> Laying<'p> {
    fn new(plan: &'p Plan, size: u64) -> Self {
        Laying {
            plan,
            size,
            acts: Vec::new(),
            waits: Vec::new(),
            signals: HashMap::new(),
            waiting: Vec::new(),
            barriers: BTreeMap::new(),
            releases: HashMap::new(),
            acquired: Vec::new(),
            written: HashMap::new(),
            read: Vec::new(),
        }
    }

    fn act(&mut self, act: Act, after: Option<u32>) -> Result<u32, String> {
        if self.acts.len() >= super::MOST_RECORDS || self.waits.len() >= 4 * super::MOST_RECORDS {
            return Err(format!(
                "more than {} transfers and signals, which is the most that are read",
                super::MOST_RECORDS
            ));
        }
        self.acts.push(act);
        let place = self.acts.len() as u32 - 1;
        self.waits.extend(after.map(|after| (after, place)));
        Ok(place)
    }

    fn block(&mut self, rank: u32, gpu: &Gpu, (at, block): (usize, &Block)) -> Result<(), String> {
        let operations = block
            .ops
            .iter()
            .flat_map(|op| if op.name == "pipeline" { op.ops.as_slice() } else { std::slice::from_ref(op) });
        let mut last: Option<u32> = None;
        // port channels go on by themselves until they are flushed
        let mut pending: Vec<u32> = Vec::new();
        let mut times: HashMap<u64, usize> = HashMap::new();
        for (number, op) in operations.enumerate() {
            let place = || format!("GPU {rank}, thread block {at}, operation {number} ({})", op.name);
            if op.channel_type == "switch" || matches!(op.name.as_str(), "glres" | "gstore" | "gstorepkt") {
                return Err(format!(
                    "{}: multicast through the switch (NVLS), which is not played: 'simulate -w all-reduce:nvls' estimates NCCL's",
                    place()
                ));
            }
            let by_port = op.channel_type == "port";
            match op.name.as_str() {
                "signal" | "rlxsignal" | "wait" | "rlxwait" => {
                    for id in &op.channel_ids {
                        let way = self.way(rank, gpu, block, (*id, by_port)).ok_or_else(|| {
                            format!("{}: channel {id} is not among those of its thread block", place())
                        })?;
                        if op.name.ends_with("signal") {
                            last = Some(self.signal(way, last, &mut pending)?);
                        } else {
                            let wait = self.act(Act::Pause(rank, 0.0), last)?;
                            let (to, from, ..) = way;
                            self.waiting.push(((from, to, way.2, way.3), wait, place()));
                            last = Some(wait);
                        }
                    }
                }
                "flush" => {
                    let flushed = self.act(Act::Pause(rank, 0.0), last)?;
                    self.waits.extend(pending.drain(..).map(|put| (put, flushed)));
                    last = Some(flushed);
                }
                "barrier" => {
                    let id = op.barrier_id.unwrap_or_default();
                    let time = times.entry(id).or_default();
                    *time += 1;
                    let key = (rank, id, *time);
                    let all = match self.barriers.get(&key) {
                        Some(all) => *all,
                        None => {
                            let all = self.act(Act::Pause(rank, 0.0), None)?;
                            self.barriers.insert(key, all);
                            all
                        }
                    };
                    self.waits.extend(last.filter(|last| *last != all).map(|last| (last, all)));
                    last = Some(all);
                }
                "sem_acquire" | "sem_release" => {
                    for id in &op.semaphore_ids {
                        let point = self.act(Act::Pause(rank, 0.0), last)?;
                        last = Some(point);
                        match op.name == "sem_release" {
                            true => self.releases.entry((rank, *id)).or_default().push(point),
                            false => self.acquired.push(((rank, *id), point)),
                        }
                    }
                }
                _ => {
                    let moved = self
                        .data(rank, gpu, block, (op, by_port), last)
                        .map_err(|why| format!("{}: {why}", place()))?;
                    for (act, asynchronous) in moved {
                        if asynchronous {
                            pending.push(act);
                        } else {
                            last = Some(act);
                        }
                    }
                    if op.name.starts_with("pws") {
                        for id in &op.channel_ids {
                            if let Some(way) = self.way(rank, gpu, block, (*id, by_port)) {
                                last = Some(self.signal(way, last, &mut pending)?);
                            }
                        }
                    }
                }
            }
        }
        Ok(())
    }

    /// The transfers of an operation, and whether its thread block goes on at once.
    fn data(
        &mut self,
        rank: u32,
        gpu: &Gpu,
        block: &Block,
        (op, by_port): (&Operation, bool),
        last: Option<u32>,
    ) -> Result<Vec<(u32, bool)>, String> {
        let chunks = gpu.input_chunks.max(gpu.output_chunks).max(1);
        let share = op.tbg_info.as_ref().map_or(1, |of| of.tbg_size.max(1));
        let bytes = |buffer: &Buffer| {
            let all = u128::from(self.size) * u128::from(buffer.size) / u128::from(chunks) / u128::from(share);
            u64::try_from(all).unwrap_or(u64::MAX).max(1)
        };
        let kind = if by_port { "port" } else { "memory" };
        let remote = |id: usize| {
            let ids = block.remote_buffer_refs.iter().filter(|of| of.access_channel_type == kind);
            let global = ids.flat_map(|of| &of.remote_buffer_ids).nth(id);
            let buffer = global.and_then(|global| gpu.remote_buffers.get(*global));
            let there = buffer.filter(|buffer| (buffer.rank as usize) < self.plan.gpus.len() && buffer.rank != rank);
            there.ok_or_else(|| format!("remote buffer {id} is none of another GPU that is in the plan"))
        };
        let packets = op.name.ends_with("pkt");
        // packets are read as they come, by thread blocks that look for them
        let mut after = last;
        let scratch = op.src_buff.iter().filter(|buffer| packets && buffer.kind == "s" && buffer.buffer_id.is_none());
        let scratch: Vec<(u64, u64)> = scratch.map(|buffer| (buffer.index, buffer.size.min(chunks))).collect();
        let mut found = Vec::new();
        let mut moves: Vec<Move> = Vec::new();
        for buffer in &op.src_buff {
            if let Some(id) = buffer.buffer_id {
                moves.push((remote(id)?.rank, rank, bytes(buffer), None));
            }
        }
        // half of a packet are its flags
        let of_packet = if packets { 2 } else { 1 };
        for buffer in &op.dst_buff {
            if let Some(id) = buffer.buffer_id {
                let to = remote(id)?;
                let scratch = (packets && to.kind == "s").then_some((buffer.index, buffer.size));
                moves.push((rank, to.rank, bytes(buffer).saturating_mul(of_packet), scratch));
            }
        }
        if !scratch.is_empty() {
            let came = self.act(Act::Pause(rank, 0.0), after)?;
            after = Some(came);
            found.push((came, false));
            for (index, size) in scratch {
                self.read.extend((index..index.saturating_add(size)).take(1 << 16).map(|chunk| (rank, chunk, came)));
            }
        }
        // reads first: what is written depends on them
        let reads = moves.iter().filter(|(from, ..)| *from != rank).count();
        let mut came = Vec::new();
        for (at, (from, to, bytes, scratch)) in moves.into_iter().enumerate() {
            let act = self.act(Act::Message(from, to, bytes), after)?;
            if at < reads {
                came.push(act);
            } else {
                self.waits.extend(came.iter().map(|before| (*before, act)));
            }
            if let Some((index, size)) = scratch {
                for chunk in (index..index.saturating_add(size)).take(1 << 16) {
                    self.written.entry((to, chunk)).or_default().push(act);
                }
            }
            found.push((act, by_port && at >= reads));
        }
        // a thread block goes on when all of them are done
        let done: Vec<u32> = found.iter().filter(|(_, asynchronous)| !asynchronous).map(|(act, _)| *act).collect();
        if done.len() > 1 {
            let all = self.act(Act::Pause(rank, 0.0), None)?;
            self.waits.extend(done.into_iter().map(|before| (before, all)));
            found.push((all, false));
        }
        Ok(found)
    }

    /// Sends a signal behind what its GPU put before; returns what the thread block then follows.
    fn signal(&mut self, way: Way, last: Option<u32>, pending: &mut Vec<u32>) -> Result<u32, String> {
        let (from, to, ..) = way;
        let signal = self.act(Act::Message(from, to, SIGNAL), last)?;
        if pending.len() > 1 {
            let all = self.act(Act::Pause(from, 0.0), None)?;
            self.waits.extend(pending.drain(..).map(|put| (put, all)));
            pending.push(all);
        }
        self.waits.extend(pending.iter().map(|put| (*put, signal)));
        self.signals.entry(way).or_default().push_back(signal);
        // the thread block goes on at once
        match last {
            Some(last) => Ok(last),
            None => self.act(Act::Pause(from, 0.0), None),
        }
    }

    /// From this GPU to the other end of a channel of a thread block.
    fn way(&self, rank: u32, gpu: &Gpu, block: &Block, (id, by_port): (usize, bool)) -> Option<Way> {
        let kind = if by_port { "port" } else { "memory" };
        let of_block = block.channels.iter().filter(|of| of.channel_type == kind).flat_map(|of| &of.channel_ids);
        let global = *of_block.into_iter().nth(id)?;
        let flat = || gpu.channels.iter().filter(|of| of.channel_type == kind).flat_map(|of| &of.connected_to);
        let to = *flat().nth(global)?;
        let before = flat().take(global).filter(|peer| **peer == to).count();
        ((to as usize) < self.plan.gpus.len() && to != rank).then_some((rank, to, by_port, before))
    }

    /// Waits and what they wait for.
    fn connect(&mut self) -> Result<(), String> {
        for (way, wait, place) in std::mem::take(&mut self.waiting) {
            let Some(signal) = self.signals.get_mut(&way).and_then(VecDeque::pop_front) else {
                let (from, to, ..) = way;
                return Err(format!(
                    "{place} waits for a signal of GPU {from} that is never sent to GPU {to} on this channel: the plan would hang"
                ));
            };
            self.waits.push((signal, wait));
        }
        let mut times: HashMap<(u32, usize), usize> = HashMap::new();
        for (key, point) in std::mem::take(&mut self.acquired) {
            let (rank, id) = key;
            let first = self.plan.gpus[rank as usize].semaphores.get(id).map_or(0, |of| of.init_value);
            let time = times.entry(key).or_default();
            *time += 1;
            if *time <= first {
                continue;
            }
            let release = self.releases.get(&key).and_then(|of| of.get(*time - 1 - first));
            let Some(release) = release else {
                return Err(format!(
                    "GPU {rank} acquires semaphore {id} {time} times, and it is released less often: the plan would hang"
                ));
            };
            self.waits.push((*release, point));
        }
        for (rank, chunk, reader) in std::mem::take(&mut self.read) {
            let writers = self.written.get(&(rank, chunk)).map_or(&[] as &[u32], Vec::as_slice);
            if self.waits.len() + writers.len() > 4 * super::MOST_RECORDS {
                return Err("packets wait for each other in too many ways to be played".to_owned());
            }
            self.waits.extend(writers.iter().map(|writer| (*writer, reader)));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
