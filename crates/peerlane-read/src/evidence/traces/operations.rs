//! Operations of NCCL as its profiler plugins log them: by communicator and rank in it, of several processes, in one file or many.
//!
//! A process has its rank in the communicator of all; what lies between its operations is not recorded, and counts as neither
//! computing nor communication.

use std::collections::{BTreeMap, BTreeSet};

use peerlane_machine::transfer::Collective;

use super::{Among, Record, Recording, Size, Split, What, named};

/// One operation of one rank.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Operation {
    /// Its process.
    pub(super) process: String,
    /// Its communicator.
    pub(super) communicator: String,
    /// Its rank there.
    pub(super) rank: u32,
    /// How many ranks that has, where it says.
    pub(super) ranks: Option<u32>,
    /// As the library names it: `AllReduce`, `Send`.
    pub(super) name: String,
    /// What a rank gives, or for a reduction all of it.
    pub(super) bytes: u64,
    /// The other rank of a message.
    pub(super) peer: Option<u32>,
    /// Its number in its communicator.
    pub(super) number: u64,
    /// When it began, in seconds of its process's clock.
    pub(super) start: Option<f64>,
    /// How long it took, in seconds.
    pub(super) took: f64,
}

impl Operation {
    fn what(&self, group: Among, global: impl Fn(u32) -> Option<u32>) -> Result<What, String> {
        let tag = 0;
        let peer = |what: &str| {
            let rank = self.peer.and_then(&global);
            rank.ok_or_else(|| format!("a {what} of {} bytes names no rank that is known", self.bytes))
        };
        let (collective, bytes) = match self.name.as_str() {
            "Send" => return Ok(What::Send { to: peer("send")?, bytes: self.bytes, tag }),
            "Recv" => return Ok(What::Receive { from: peer("receive")?, tag }),
            "AllReduce" => (Collective::AllReduce, Size::Whole(self.bytes)),
            "Broadcast" | "Reduce" => (Collective::Broadcast, Size::Whole(self.bytes)),
            "AllGather" => (Collective::AllGather, Size::Given(self.bytes)),
            "ReduceScatter" => (Collective::ReduceScatter, Size::Given(self.bytes)),
            // the count is what goes to one rank
            "AlltoAll" | "AllToAll" => (Collective::AllToAll, Size::Given(self.bytes)),
            _ => return Ok(What::Known(self.took, None)),
        };
        Ok(What::Collective { collective, group, bytes, number: Some(self.number) })
    }
}

/// Each process's operations as a recording.
///
/// # Errors
/// Where the processes of a communicator cannot be told.
pub(super) fn recordings(mut all: Vec<Operation>, file: &str) -> Result<Vec<Recording>, String> {
    let mut notes = Vec::new();
    apart(&mut all);
    let mut members: BTreeMap<&str, BTreeMap<u32, &str>> = BTreeMap::new();
    let mut sizes: BTreeMap<&str, u32> = BTreeMap::new();
    for one in &all {
        members.entry(&one.communicator).or_default().insert(one.rank, &one.process);
        let size = sizes.entry(&one.communicator).or_default();
        *size = (*size).max(one.ranks.unwrap_or_default()).max(one.rank.saturating_add(1));
    }
    let processes: BTreeSet<&str> = all.iter().map(|one| one.process.as_str()).collect();
    let whole = members.iter().max_by_key(|(name, of)| (of.len(), sizes[*name]));
    let Some((world, of_world)) = whole else { return Err("no operation in it".to_owned()) };
    let (ranks, numbered): (u32, BTreeMap<&str, u32>) = if of_world.len() == processes.len() {
        (sizes[world], of_world.iter().map(|(rank, process)| (*process, *rank)).collect())
    } else {
        notes.push(format!("No communicator has all {} processes: they are numbered by their names.", processes.len()));
        (processes.len() as u32, processes.iter().copied().zip(0..).collect())
    };
    for (name, of) in &members {
        let (size, known) = (sizes[name], of.len() as u32);
        // of one process alone, all others may do the same
        if known < size && !(size == ranks && (known == 1 || name == world)) {
            let absent: Vec<u32> = (0..size).filter(|rank| !of.contains_key(rank)).take(4096).collect();
            return Err(format!(
                "communicator {name} has {size} ranks, and nothing is recorded of {}: give the files of all processes",
                named(&absent)
            ));
        }
    }
    let timed = all.iter().all(|one| one.start.is_some());
    notes.push(match timed {
        true => "No computing is recorded: what lies between operations counts as neither.".to_owned(),
        false => "Neither computing nor starts are recorded (NCCL_INSPECTOR_DUMP_VERBOSE=1 adds starts): a communicator's operations follow \
                  each other at once, and those of different communicators go beside each other."
            .to_owned(),
    });
    let lasting = all.iter().any(|one| one.took > 0.0);
    if !lasting {
        notes.push(
            "No operation says how long it took: let NCCL_PROFILE_EVENT_MASK have 64, for the kernels' times."
                .to_owned(),
        );
    }
    let mut of_process: BTreeMap<u32, Vec<&Operation>> = BTreeMap::new();
    all.iter().for_each(|one| of_process.entry(numbered[one.process.as_str()]).or_default().push(one));
    let mut found = Vec::new();
    let groups: BTreeMap<&str, Among> = members
        .iter()
        .map(|(name, of)| {
            let global: Vec<u32> = of.values().filter_map(|process| numbered.get(process).copied()).collect();
            let whole = global.len() as u32 == sizes[name];
            (*name, if whole { Among::Ranks(global.into(), (*name).to_owned()) } else { Among::All })
        })
        .collect();
    for (rank, mut operations) in of_process {
        let order = |a: &&Operation, b: &&Operation| {
            let start = |of: &Operation| if timed { of.start.unwrap_or_default() } else { 0.0 };
            start(a).total_cmp(&start(b)).then(a.number.cmp(&b.number))
        };
        operations.sort_by(order);
        let records = records(&operations, timed, |one| {
            let of = &members[one.communicator.as_str()];
            one.what(groups[one.communicator.as_str()].clone(), |rank| {
                of.get(&rank).and_then(|process| numbered.get(process).copied())
            })
        })?;
        let spans: Vec<(f64, f64)> =
            operations.iter().filter_map(|one| Some((one.start?, one.start? + one.took))).collect();
        let ends = || spans.iter().map(|span| span.1).fold(f64::NEG_INFINITY, f64::max);
        let began = spans.first().map(|span| span.0).filter(|_| timed);
        let recorded = began.filter(|_| lasting).map(|began| Split::of(ends() - began, Vec::new(), spans.clone()));
        let notes = if found.is_empty() { std::mem::take(&mut notes) } else { Vec::new() };
        found.push(Recording {
            file: file.to_owned(),
            rank: Some(rank),
            world: Some(ranks),
            records,
            recorded,
            began,
            notes,
            ..Recording::default()
        });
    }
    Ok(found)
}

/// Gives each GPU of a process with several of them its own name.
fn apart(all: &mut [Operation]) {
    let mut ranks: BTreeMap<(&str, &str), BTreeSet<u32>> = BTreeMap::new();
    for one in all.iter() {
        ranks.entry((&one.communicator, &one.process)).or_default().insert(one.rank);
    }
    if ranks.values().all(|of| of.len() == 1) {
        return;
    }
    for one in all {
        one.process = format!("{}, rank {:06}", one.process, one.rank);
    }
}

fn records(
    operations: &[&Operation],
    timed: bool,
    what: impl Fn(&Operation) -> Result<What, String>,
) -> Result<Vec<Record>, String> {
    let mut records = Vec::with_capacity(operations.len());
    // of a communicator the last collective, and the messages after it, which a group call may begin in any order
    let mut last: BTreeMap<&str, (Option<u32>, Vec<u32>)> = BTreeMap::new();
    // the one that ended last of those that had ended
    let mut done: Vec<(f64, u32)> = Vec::new();
    for (place, one) in (0_u32..).zip(operations) {
        let (collective, messages) = last.entry(&one.communicator).or_default();
        let mut after: Vec<u32> = collective.iter().copied().collect();
        if matches!(one.name.as_str(), "Send" | "Recv") {
            messages.push(place);
        } else {
            after.append(messages);
            *collective = Some(place);
        }
        let mut delay = 0.0;
        if let Some(start) = one.start.filter(|_| timed) {
            let before = done.iter().rev().take(64).filter(|(end, _)| *end <= start).max_by(|a, b| a.0.total_cmp(&b.0));
            if let Some((end, other)) = before {
                after.push(*other);
                delay = start - end;
            }
            done.push((start + one.took, place));
        }
        after.sort_unstable();
        after.dedup();
        records.push(Record {
            id: one.number,
            what: what(one)?,
            after,
            delay,
            took: (one.took > 0.0).then_some(one.took),
        });
    }
    Ok(records)
}
