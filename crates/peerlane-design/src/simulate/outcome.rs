//! Programs in time: rounds one after the other, and repetitions of a round without playing each where that is exact.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::bulk::{Bulk, counted};
use super::estimate::{self, Estimate};
use super::play::{Played, Player, Spent};
use super::program::{Carried, Group, Program, Round, Step};
use super::{SimulateError, rings};
use crate::cluster::Router;
use peerlane_machine::matrix::Engine;

/// Steps that end within this part of their time end together.
const TOGETHER: f64 = 1e-9;
/// Most events that are kept for a picture.
const MOST_EVENTS: usize = 200_000;

/// Something that happened, for a picture.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Event {
    /// Index of the round in the program.
    pub round: usize,
    /// What.
    pub step: Step,
    /// From when, in seconds.
    pub start: f64,
    /// Until when.
    pub end: f64,
}

/// How a program went.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    /// Seconds in all.
    pub time: f64,
    /// Seconds were every transfer alone on its way and started at once.
    pub alone: f64,
    /// Bytes of all transfers.
    pub bytes: f64,
    /// Share of all transfers' time, by what held them: groups of resources, caps, starting. Largest first.
    pub spent: Vec<(String, f64)>,
    /// Share of the rounds' time, by what held the transfer of each that ended last. Largest first.
    pub last: Vec<(String, f64)>,
    /// Whether anything goes round a failed link.
    pub rerouted: bool,
    /// Seconds of all computing together.
    pub computed: f64,
    /// Why the time is an estimate, and how good it is, where it is not that of every step.
    pub estimate: Option<Estimate>,
    /// What happened; of a repeated round the repetitions that were played.
    pub events: Vec<Event>,
    /// By round, the groups that did collectives.
    pub groups: Vec<Arc<[Group]>>,
}

/// What [`Outcome::spent`] calls the time before the first byte.
pub const STARTING: &str = "starting (latency)";

/// What is played step by step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Rounds of more steps are counted (`bulk.rs`), not played.
    pub counted_from: usize,
    /// Most steps of all repetitions of a round that are played.
    pub steps: usize,
    /// Most events that are kept for a picture.
    pub events: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Limits { counted_from: 20_000, steps: 400_000, events: MOST_EVENTS }
    }
}

/// Plays a program. `engine` drives what stays within a node.
pub fn run(program: &Program, router: &mut Router, engine: Engine) -> Result<Outcome, SimulateError> {
    run_within(program, router, engine, Limits::default())
}

/// The same within other limits.
pub fn run_within(
    program: &Program,
    router: &mut Router,
    engine: Engine,
    limits: Limits,
) -> Result<Outcome, SimulateError> {
    let mut player = Player::new(router, engine);
    let mut outcome = Outcome::default();
    let mut spent: BTreeMap<String, f64> = BTreeMap::new();
    let mut last: BTreeMap<String, f64> = BTreeMap::new();
    for (i, round) in program.rounds.iter().enumerate() {
        player.with_groups(&round.groups);
        outcome.groups.push(Arc::clone(&round.groups));
        let Repeated { played, steps, times, time, estimate } = repeat(round, &mut player, limits)?;
        let begun = outcome.time;
        outcome.time += time;
        outcome.alone += played.alone * times;
        outcome.computed += played.computed * times * round.alike as f64;
        if let Some(Estimate { because, error }) = estimate {
            let estimate = Estimate { because: format!("{}: {because}", round.name), error };
            outcome.estimate = Some(estimate.worse(outcome.estimate.take()));
        }
        let name_of = |what| match what {
            Spent::Resource(r) => player.router().group(r as usize),
            Spent::Cap(why) | Spent::Kind(why) => why,
            Spent::Start => STARTING.to_owned(),
        };
        if let Some(what) = played.last {
            *last.entry(name_of(what)).or_default() += time;
        }
        for (what, seconds) in played.spent {
            let name = name_of(what);
            *spent.entry(name).or_default() += seconds * times * round.alike as f64;
        }
        let room = limits.events.saturating_sub(outcome.events.len());
        let timed = steps.iter().zip(played.starts.iter().zip(&played.ends)).take(room);
        outcome.events.extend(timed.map(|(step, (start, end))| Event {
            round: i,
            step: *step,
            start: begun + start,
            end: begun + end,
        }));
    }
    outcome.spent = shares(spent);
    outcome.last = shares(last);
    outcome.bytes = program.bytes();
    outcome.rerouted = player.router().rerouted();
    Ok(outcome)
}

/// Seconds as shares of all, the largest first.
fn shares(seconds: BTreeMap<String, f64>) -> Vec<(String, f64)> {
    let total: f64 = seconds.values().sum();
    let share = |s: f64| if total > 0.0 { s / total } else { 0.0 };
    let mut shares: Vec<(String, f64)> = seconds.into_iter().map(|(name, s)| (name, share(s))).collect();
    shares.sort_by(|a, b| b.1.total_cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
    shares
}

/// Repetitions as they were played, and how many times that counts.
struct Repeated<'r> {
    played: Played,
    steps: std::borrow::Cow<'r, [Step]>,
    times: f64,
    /// Of all repetitions.
    time: f64,
    estimate: Option<Estimate>,
}

fn repeat<'r>(round: &'r Round, player: &mut Player, limits: Limits) -> Result<Repeated<'r>, SimulateError> {
    let Round { steps, within, carried, repeats, .. } = round;
    if *repeats == 0 || steps.is_empty() {
        let played = Played::default();
        return Ok(Repeated { played, steps: steps.into(), times: 0.0, time: 0.0, estimate: None });
    }
    let times = *repeats as f64;
    let all = |played, time, estimate| Ok(Repeated { played, steps: steps.into(), times, time, estimate });
    let each = |played: Played, estimate| {
        let time = played.time * times;
        all(played, time, estimate)
    };
    let pairs = if let Carried::Pairs(pairs) = carried { pairs.as_slice() } else { &[] };
    let alone = *repeats == 1 || *carried == Carried::All;
    if within.is_empty() && steps.len() > limits.counted_from {
        let (router, engine) = player.parts();
        if let Some(Bulk { played, takes, undisturbed, bound }) = counted(router, engine, steps)? {
            if alone {
                return each(played, bound);
            }
            if let Some(time) = rings::repeated(&takes, pairs, *repeats) {
                return all(played, time, if undisturbed { None } else { Some(full(steps.len())) });
            }
        }
    }
    if alone || steps.len() as u64 * *repeats > limits.steps as u64 {
        let too_many = steps.len() > limits.steps.max(limits.counted_from);
        if !alone
            && !too_many
            && let Some(found) = rings_of(round, player, pairs)?
        {
            return Ok(found);
        }
        if alone {
            return each(player.play(steps, within)?, None);
        }
        if too_many || pairs.iter().all(|(a, b)| a == b) {
            let count = steps.len() as u64 * *repeats;
            return Err(SimulateError::TooMany(round.name.clone(), count, limits.steps));
        }
    } else if let Some(found) = rings_of(round, player, pairs)?.filter(|found| found.estimate.is_none()) {
        return Ok(found);
    }
    let most = (limits.steps / steps.len()).max(4) as u64;
    let count = (*repeats).min(most);
    let Unrolled { steps: chain, waits, links } = unroll(round, pairs, count);
    let got = player.play_over_links(&chain, &waits, &links)?;
    if count == *repeats {
        let time = got.time;
        return Ok(Repeated { played: got, steps: chain.into(), times: 1.0, time, estimate: None });
    }
    // the second half has forgotten how it began; how much the last quarter differs tells how well
    let until = |repeats: u64| got.ends[..repeats as usize * steps.len()].iter().copied().fold(0.0, f64::max);
    let per_repeat = |from: u64| (got.time - until(from)) / (count - from) as f64;
    let (later, last) = (per_repeat(count / 2), per_repeat(count - count.div_ceil(4)));
    let more = (*repeats - count) as f64;
    let time = got.time + later * more;
    let because =
        format!("{count} of {repeats} repetitions were played, and the others last as long as the later of them");
    let estimate = Some(Estimate { because, error: Some((last - later).abs() * more / time) });
    Ok(Repeated { times: times / count as f64, time, played: got, steps: chain.into(), estimate })
}

/// Rings of steps in closed form: exactly where none disturbs another, or else as if all were under way all the time.
fn rings_of<'r>(
    round: &'r Round,
    player: &mut Player,
    pairs: &[(u32, u32)],
) -> Result<Option<Repeated<'r>>, SimulateError> {
    let steps = &round.steps;
    if !round.within.is_empty() {
        return Ok(None);
    }
    let times = round.repeats as f64;
    let alone = player.undisturbed(steps)?;
    let undisturbed = alone.is_some();
    let (played, takes) = match alone {
        Some(takes) => (player.play(steps, &[])?, takes),
        None => {
            let (router, engine) = player.parts();
            let Some(Bulk { played, takes, .. }) = counted(router, engine, steps)? else { return Ok(None) };
            (played, takes)
        }
    };
    // steps that all end at one moment begin the next repetition together
    let last = takes.iter().map(|t| t.start + t.moving).fold(0.0, f64::max);
    let together = takes.iter().all(|t| t.start + t.moving >= last * (1.0 - TOGETHER));
    let Some(time) = rings::repeated(&takes, pairs, round.repeats) else { return Ok(None) };
    let estimate = if undisturbed || together { None } else { Some(full(steps.len())) };
    Ok(Some(Repeated { played, steps: steps.into(), times, time, estimate }))
}

/// Why rings that disturb each other are estimated.
fn full(steps: usize) -> Estimate {
    let because = format!("each of {steps} steps goes as fast as when all are under way at once");
    Estimate { because, error: Some(estimate::RINGS) }
}

/// A round's repetitions as one graph.
struct Unrolled {
    steps: Vec<Step>,
    /// What waits for data.
    waits: Vec<(u32, u32)>,
    /// What waits for a link.
    links: Vec<(u32, u32)>,
}

fn unroll(round: &Round, pairs: &[(u32, u32)], repeats: u64) -> Unrolled {
    let n = round.steps.len() as u32;
    let (mut steps, mut waits, mut links) = (Vec::new(), Vec::new(), Vec::new());
    steps.reserve_exact(round.steps.len() * repeats as usize);
    let own = |(a, b): &(u32, u32)| a == b && matches!(round.steps.get(*a as usize), Some(Step::Move { .. }));
    for k in 0..repeats as u32 {
        steps.extend_from_slice(&round.steps);
        waits.extend(round.within.iter().map(|(a, b)| (k * n + a, k * n + b)));
        if k > 0 {
            for pair in pairs {
                let to = if own(pair) { &mut links } else { &mut waits };
                to.push(((k - 1) * n + pair.0, k * n + pair.1));
            }
        }
    }
    Unrolled { steps, waits, links }
}
