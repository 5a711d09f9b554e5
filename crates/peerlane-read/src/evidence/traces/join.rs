//! Traces of all ranks as one graph: their collectives matched, and what does not match named.

use std::collections::BTreeMap;

use peerlane_machine::transfer::Collective;
use peerlane_machine::units::Bytes;

use super::replicas::replicated;
use super::{Among, Recording, Size, Split, TraceError, What, at_most, named};

/// All ranks' traces.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Joined {
    /// How many ranks.
    pub ranks: usize,
    /// What they do.
    pub acts: Vec<Act>,
    /// `(a, b)`: b waits for a.
    pub waits: Vec<(u32, u32)>,
    /// Ranks of those that do collectives.
    pub groups: Vec<Vec<u32>>,
    /// Steps in it; 0 where no trace says.
    pub steps: usize,
    /// What was recorded of a step, on average over the ranks.
    pub recorded: Option<Split>,
    /// What is assumed or left out, in sentences.
    pub notes: Vec<String>,
}

/// What one rank does, or several together. Times are in seconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Act {
    /// A rank computes.
    Compute(u32, f64),
    /// Neither computes nor communicates.
    Pause(u32, f64),
    /// Communicates for a known time.
    Known(u32, f64),
    /// Bytes from one rank to another.
    Message(u32, u32, u64),
    /// A group does a collective.
    Collective {
        /// Which.
        collective: Collective,
        /// The group's place in [`Joined::groups`].
        group: u32,
        /// Its size, as nccl-tests counts it.
        bytes: u64,
        /// The shortest time of a rank in the record: the others waited.
        took: Option<f64>,
    },
}

/// A collective of one rank.
#[derive(Clone, Copy)]
struct Mine {
    record: usize,
    collective: Collective,
    bytes: u64,
    number: Option<u64>,
    took: Option<f64>,
}

/// Joins the ranks' traces; one trace alone is taken for that of all ranks, on `gpus` GPUs where it does not say how many.
///
/// # Errors
/// Where ranks are missing or twice there, or do not match; the message names the ranks and the collective.
pub fn join(mut recordings: Vec<Recording>, gpus: usize) -> Result<Joined, TraceError> {
    let mut notes: Vec<String> = Vec::new();
    for recording in &recordings {
        for note in &recording.notes {
            let note = format!("{}: {note}", recording.file);
            // ranks of one file
            if notes.last() != Some(&note) {
                notes.push(note);
            }
        }
    }
    let several = recordings.len() > 1;
    if recordings.len() == 1 && recordings[0].world != Some(1) {
        recordings = replicated(recordings.remove(0), gpus)?;
        if recordings.len() > 1 {
            notes.push(format!("One trace is given for {} ranks: all are taken to do the same.", recordings.len()));
        }
    }
    let ranks = in_order(recordings)?;
    at_most(ranks.iter().map(|rank| rank.records.len()).sum())?;
    notes.extend(different_steps(&ranks));
    notes.extend(different_clocks(&ranks));
    let mut joined = Joined {
        ranks: ranks.len(),
        steps: ranks.iter().map(|rank| rank.steps).max().unwrap_or_default(),
        notes,
        ..Joined::default()
    };
    let recorded: Option<Vec<Split>> = ranks.iter().map(|rank| rank.recorded).collect();
    joined.recorded = recorded.map(|all| Split::mean(&all, 1));
    let steps = joined.steps.max(1);
    let groups = members(&ranks)?;
    let any = !groups.is_empty()
        || ranks
            .iter()
            .flat_map(|rank| &rank.records)
            .any(|r| matches!(r.what, What::Send { .. } | What::Receive { .. } | What::Known(..)));
    if !any {
        let (n, file) =
            (ranks.iter().map(|rank| rank.records.len()).sum::<usize>(), ranks.first().map_or("", |r| &r.file));
        return Err(TraceError::new(format!(
            "{file}: no communication at all in {n} records: is it the trace of one process, or one without its GPUs?"
        )));
    }
    let places = ranks.iter().map(|rank| vec![NONE; rank.records.len()]).collect();
    let mut builder = Builder { joined, places, waited: several.then_some(0.0) };
    for ((members, _), of_ranks) in groups {
        builder.collectives(&members, of_ranks)?;
    }
    builder.messages(&ranks)?;
    builder.others(&ranks);
    let Builder { mut joined, waited, .. } = builder;
    circle(&joined)?;
    if let Some(recorded) = &mut joined.recorded {
        recorded.waiting = waited.map(|all| all / (ranks.len() * steps) as f64);
    }
    Ok(joined)
}

/// Ranks whose records have other numbers of steps.
fn different_steps(ranks: &[Recording]) -> Option<String> {
    let most = ranks.iter().max_by_key(|rank| rank.steps)?;
    let least = ranks.iter().min_by_key(|rank| rank.steps)?;
    let of = |rank: &Recording| rank.rank.unwrap_or_default();
    (most.steps > least.steps).then(|| {
        format!(
            "Rank {} has {} steps and rank {} has {}: some are cut off; let the profiler record the same steps on all ranks.",
            of(most),
            most.steps,
            of(least),
            least.steps
        )
    })
}

/// Ranks that were at no time recorded together: their clocks differ, or they are not of one run.
fn different_clocks(ranks: &[Recording]) -> Option<String> {
    let span = |rank: &Recording| {
        let time = rank.recorded?.time * rank.steps.max(1) as f64;
        rank.began.map(|began| (began, began + time, rank.rank.unwrap_or_default()))
    };
    let spans: Vec<(f64, f64, u32)> = ranks.iter().filter_map(span).collect();
    let last = spans.iter().max_by(|a, b| a.0.total_cmp(&b.0))?;
    let first = spans.iter().min_by(|a, b| a.1.total_cmp(&b.1))?;
    (last.0 > first.1).then(|| {
        format!(
            "Rank {} begins {:.3} s after rank {} ends: their clocks differ, or they are not of one run; times of different ranks \
             are not compared.",
            last.2,
            last.0 - first.1,
            first.2
        )
    })
}

/// By rank, without gaps.
fn in_order(mut all: Vec<Recording>) -> Result<Vec<Recording>, TraceError> {
    if all.iter().all(|recording| recording.rank.is_none()) {
        all.iter_mut().zip(0..).for_each(|(recording, rank)| recording.rank = Some(rank));
    }
    if let Some(unknown) = all.iter().find(|recording| recording.rank.is_none()) {
        let why = "neither it nor its name says whose rank it is: let the name end with the rank, as trace.0.et";
        return Err(TraceError::new(format!("{}: {why}", unknown.file)));
    }
    all.sort_by_key(|recording| recording.rank);
    if let Some(pair) = all.windows(2).find(|pair| pair[0].rank == pair[1].rank) {
        let rank = pair[0].rank.unwrap_or_default();
        return Err(TraceError::new(format!(
            "{} and {} are both of rank {rank}: give one",
            pair[0].file, pair[1].file
        )));
    }
    let world = all.iter().filter_map(|recording| recording.world).max().unwrap_or(0).max(all.len() as u32);
    if world as usize > super::MOST_RECORDS {
        let most = super::MOST_RECORDS;
        return Err(TraceError::new(format!("{}: {world} ranks are more than the {most} that are read", all[0].file)));
    }
    let missing: Vec<u32> =
        (0..world).filter(|rank| all.binary_search_by_key(&Some(*rank), |recording| recording.rank).is_err()).collect();
    if !missing.is_empty() {
        return Err(TraceError::new(format!(
            "{} of {world} missing: give the traces of all ranks, or one alone for all",
            named(&missing)
        )));
    }
    if all.len() > world as usize {
        return Err(TraceError::new(format!("{} traces for {world} ranks", all.len())));
    }
    Ok(all)
}

/// Collectives by who takes part and by the communicator's name, and by rank.
type Groups = BTreeMap<(Vec<u32>, String), BTreeMap<u32, Vec<Mine>>>;

fn members(ranks: &[Recording]) -> Result<Groups, TraceError> {
    let everyone: Vec<u32> = (0..ranks.len() as u32).collect();
    let mut listed: BTreeMap<&str, &[u32]> = BTreeMap::new();
    let mut users: BTreeMap<&str, Vec<u32>> = BTreeMap::new();
    for (rank, recording) in (0..).zip(ranks) {
        listed.extend(recording.groups.iter().map(|(name, ranks)| (name.as_str(), ranks.as_slice())));
        for record in &recording.records {
            if let What::Collective { group: Among::Named(name), .. } = &record.what {
                let of_name = users.entry(name).or_default();
                if of_name.last() != Some(&rank) {
                    of_name.push(rank);
                }
            }
        }
    }
    let mut groups = Groups::new();
    for (rank, recording) in (0..).zip(ranks) {
        for (place, record) in recording.records.iter().enumerate() {
            let What::Collective { collective, group, bytes, number } = &record.what else { continue };
            let (mut members, name) = match group {
                Among::All => (everyone.clone(), ""),
                Among::Ranks(ranks, name) => (ranks.to_vec(), name.as_str()),
                Among::Named(name) => {
                    let members = match listed.get(name.as_str()) {
                        Some([]) => everyone.clone(),
                        Some(ranks) => ranks.to_vec(),
                        None => users.get(name.as_str()).cloned().unwrap_or_default(),
                    };
                    (members, name.as_str())
                }
            };
            members.sort_unstable();
            members.dedup();
            let at = || format!("{}: {} (record {})", recording.file, collective.name(), record.id);
            if let Some(beyond) = members.iter().find(|member| **member as usize >= ranks.len()) {
                let n = ranks.len();
                return Err(TraceError::new(format!(
                    "{} is among rank {beyond}, and there are traces of {n} ranks",
                    at()
                )));
            }
            if !members.contains(&rank) {
                return Err(TraceError::new(format!(
                    "{} is among {}, and not rank {rank} itself",
                    at(),
                    named(&members)
                )));
            }
            let bytes = match bytes {
                Size::Whole(bytes) => *bytes,
                Size::Given(bytes) => bytes.saturating_mul(members.len() as u64),
            };
            let mine = Mine { record: place, collective: *collective, bytes, number: *number, took: record.took };
            groups.entry((members, name.to_owned())).or_default().entry(rank).or_default().push(mine);
        }
    }
    Ok(groups)
}

const NONE: u32 = u32::MAX;

struct Builder {
    joined: Joined,
    /// By rank and record, its act.
    places: Vec<Vec<u32>>,
    /// Seconds that ranks' kernels waited for other ranks, as far as it is known.
    waited: Option<f64>,
}

impl Builder {
    fn act(&mut self, act: Act) -> u32 {
        self.joined.acts.push(act);
        self.joined.acts.len() as u32 - 1
    }

    fn collectives(&mut self, members: &[u32], mut of_ranks: BTreeMap<u32, Vec<Mine>>) -> Result<(), TraceError> {
        self.trim(members, &mut of_ranks);
        let most = of_ranks.iter().max_by_key(|(rank, of)| (of.len(), u32::MAX - **rank));
        let Some((&reference, longest)) = most else { return Ok(()) };
        let longest = longest.clone();
        // communicators of the same ranks follow each other here
        if self.joined.groups.last().is_none_or(|last| last != members) {
            self.joined.groups.push(members.to_vec());
        }
        let group = self.joined.groups.len() as u32 - 1;
        for rank in members {
            let of = of_ranks.get(rank).map_or(&[] as &[Mine], Vec::as_slice);
            // what differs first tells more than how many there are
            for (at, (a, b)) in longest.iter().zip(of).enumerate() {
                let place = format!("collective {} among {}", at + 1, named(members));
                let same = matches!(a.collective, Collective::AllReduce | Collective::ReduceScatter);
                if a.collective != b.collective {
                    let (a, b) = (a.collective.name(), b.collective.name());
                    return Err(TraceError::new(format!(
                        "{place} is {a} on rank {reference} and {b} on rank {rank}: the ranks are not of one run, or one is missing \
                         before it"
                    )));
                }
                if same && a.bytes != b.bytes {
                    let (kind, a, b) = (a.collective.name(), Bytes(a.bytes), Bytes(b.bytes));
                    return Err(TraceError::new(format!(
                        "{place}, {kind}, has {a} on rank {reference} and {b} on rank {rank}: the ranks are not of one run, or one is \
                         missing before it"
                    )));
                }
            }
            if of.len() < longest.len() {
                let next = longest[of.len()];
                return Err(TraceError::new(format!(
                    "rank {rank} has {} collectives among {}, and rank {reference} has {}: the first without a partner is {} of {}; \
                     record the same steps on all ranks",
                    of.len(),
                    named(members),
                    longest.len(),
                    next.collective.name(),
                    Bytes(next.bytes)
                )));
            }
        }
        for (at, first) in longest.iter().enumerate() {
            let of = members.iter().filter_map(|rank| Some((*rank, *of_ranks.get(rank)?.get(at)?)));
            let of: Vec<(u32, Mine)> = of.collect();
            let bytes = of.iter().map(|(_, mine)| mine.bytes).max().unwrap_or_default();
            let took = of.iter().filter_map(|(_, mine)| mine.took).reduce(f64::min);
            // the kernels of the others waited for the last rank
            self.waited = of
                .iter()
                .map(|(_, mine)| Some(mine.took? - took?))
                .sum::<Option<f64>>()
                .zip(self.waited)
                .map(|(a, b)| a + b);
            let act = self.act(Act::Collective { collective: first.collective, group, bytes, took });
            of.iter().for_each(|(rank, mine)| self.places[*rank as usize][mine.record] = act);
        }
        Ok(())
    }

    /// Leaves out collectives that not all ranks' records reach, where the library's numbers tell which those are: a profiler
    /// begins and ends at slightly other moments on each rank.
    fn trim(&mut self, members: &[u32], of_ranks: &mut BTreeMap<u32, Vec<Mine>>) {
        let rises = |of: &Vec<Mine>| {
            of.iter().all(|m| m.number.is_some()) && of.windows(2).all(|pair| pair[0].number < pair[1].number)
        };
        if of_ranks.len() != members.len() || !of_ranks.values().all(rises) {
            return;
        }
        let first = of_ranks.values().filter_map(|of| of.first()?.number).max();
        let last = of_ranks.values().filter_map(|of| of.last()?.number).min();
        let mut out = 0;
        for (rank, of) in of_ranks.iter_mut() {
            let reached = |mine: &Mine| mine.number >= first && mine.number <= last;
            for mine in of.iter().filter(|mine| !reached(mine)) {
                self.joined.acts.push(Act::Pause(*rank, 0.0));
                self.places[*rank as usize][mine.record] = self.joined.acts.len() as u32 - 1;
                out += 1;
            }
            of.retain(reached);
        }
        if out > 0 {
            self.joined.notes.push(format!(
                "{out} collectives among {} are recorded on a part of the ranks only, at the beginning or the end, and are left out.",
                named(members)
            ));
        }
    }

    fn messages(&mut self, ranks: &[Recording]) -> Result<(), TraceError> {
        type Ends = (Vec<(usize, u64)>, Vec<usize>);
        let mut ends: BTreeMap<(u32, u32, u64), Ends> = BTreeMap::new();
        for (rank, recording) in (0..).zip(ranks) {
            for (place, record) in recording.records.iter().enumerate() {
                match record.what {
                    What::Send { to, bytes, tag } => ends.entry((rank, to, tag)).or_default().0.push((place, bytes)),
                    What::Receive { from, tag } => ends.entry((from, rank, tag)).or_default().1.push(place),
                    _ => {}
                }
            }
        }
        for ((from, to, tag), (sent, received)) in ends {
            if sent.len() != received.len() || from.max(to) as usize >= ranks.len() {
                return Err(TraceError::new(format!(
                    "rank {from} sends {} messages with tag {tag} to rank {to}, which receives {}, of {} ranks in all",
                    sent.len(),
                    received.len(),
                    ranks.len()
                )));
            }
            for ((send, bytes), receive) in sent.into_iter().zip(received) {
                let act = self.act(Act::Message(from, to, bytes));
                self.places[from as usize][send] = act;
                // a message goes before its receiver is ready; what follows the receipt waits for both
                let received = self.act(Act::Pause(to, 0.0));
                self.joined.waits.push((act, received));
                self.places[to as usize][receive] = received;
            }
        }
        Ok(())
    }

    /// What ranks do alone, and what all waits for.
    fn others(&mut self, ranks: &[Recording]) {
        for (rank, recording) in (0_u32..).zip(ranks) {
            for (place, record) in recording.records.iter().enumerate() {
                let act = match record.what {
                    What::Compute(seconds) => Act::Compute(rank, seconds),
                    What::Host(seconds) => Act::Pause(rank, seconds),
                    What::Known(seconds, _) => Act::Known(rank, seconds),
                    What::Collective { .. } | What::Send { .. } | What::Receive { .. } => continue,
                };
                self.places[rank as usize][place] = self.act(act);
            }
            for (place, record) in recording.records.iter().enumerate() {
                let mut act = self.places[rank as usize][place];
                if record.delay > 0.0 {
                    let pause = self.act(Act::Pause(rank, record.delay));
                    self.joined.waits.push((pause, act));
                    act = pause;
                }
                let before = record.after.iter().map(|before| self.places[rank as usize][*before as usize]);
                self.joined.waits.extend(before.filter(|before| *before != act).map(|before| (before, act)));
            }
        }
    }
}

/// Refuses ranks that wait for each other.
///
/// # Errors
/// Where they do.
pub(super) fn circle(joined: &Joined) -> Result<(), TraceError> {
    let Joined { acts, waits, groups, .. } = joined;
    let mut missing = vec![0_u32; acts.len()];
    let mut next: Vec<Vec<u32>> = vec![Vec::new(); acts.len()];
    for (a, b) in waits {
        missing[*b as usize] += 1;
        next[*a as usize].push(*b);
    }
    let mut ready: Vec<u32> = (0..acts.len() as u32).filter(|act| missing[*act as usize] == 0).collect();
    let mut done = 0;
    while let Some(act) = ready.pop() {
        done += 1;
        for after in &next[act as usize] {
            missing[*after as usize] -= 1;
            if missing[*after as usize] == 0 {
                ready.push(*after);
            }
        }
    }
    if done == acts.len() {
        return Ok(());
    }
    let stuck = acts.iter().zip(&missing).filter(|(_, missing)| **missing > 0).map(|(act, _)| act);
    let what = stuck.into_iter().find_map(|act| match act {
        Act::Collective { collective, group, bytes, .. } => {
            let members = groups.get(*group as usize).map(|of| named(of)).unwrap_or_default();
            Some(format!("{} of {} among {members}", collective.name(), Bytes(*bytes)))
        }
        Act::Message(from, to, _) => Some(format!("a message from rank {from} to rank {to}")),
        _ => None,
    });
    Err(TraceError::new(format!(
        "ranks wait for each other in a circle, at {}: their order differs between ranks, as of a program that hangs",
        what.unwrap_or_default()
    )))
}
