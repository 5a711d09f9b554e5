//! Programs in time: rounds one after the other, and repetitions of a round without playing each where that is exact.

use std::collections::BTreeMap;

use super::SimulateError;
use super::bulk::{Bulk, counted};
use super::play::{Played, Player, Spent};
use super::program::{Carried, Program, Round, Step};
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
    /// Why the time is no exact answer of the model, where it is none.
    pub inexact: Option<String>,
    /// What happened; of a repeated round the repetitions that were played.
    pub events: Vec<Event>,
}

/// What [`Outcome::spent`] calls the time before the first byte.
pub const STARTING: &str = "starting (latency)";

/// What is played step by step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Rounds of more steps are counted (`counted.rs`) where that is exact.
    pub counted_from: usize,
    /// Most steps of all repetitions of a round that are played; more are judged by the first ones.
    pub steps: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Limits { counted_from: 20_000, steps: 400_000 }
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
        let Repeated { played, steps, times, inexact } = repeat(round, &mut player, limits)?;
        let begun = outcome.time;
        outcome.time += played.time * times;
        outcome.alone += played.alone * times;
        outcome.computed += played.computed * times * round.alike as f64;
        if outcome.inexact.is_none() {
            outcome.inexact = inexact.map(|why| format!("{}: {why}", round.name));
        }
        let name_of = |what| match what {
            Spent::Resource(r) => player.router().group(r as usize),
            Spent::Cap(why) | Spent::Kind(why) => why,
            Spent::Start => STARTING.to_owned(),
        };
        if let Some(what) = played.last {
            *last.entry(name_of(what)).or_default() += played.time * times;
        }
        for (what, seconds) in played.spent {
            let name = name_of(what);
            *spent.entry(name).or_default() += seconds * times * round.alike as f64;
        }
        let room = MOST_EVENTS.saturating_sub(outcome.events.len());
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
    inexact: Option<String>,
}

fn repeat<'r>(round: &'r Round, player: &mut Player, limits: Limits) -> Result<Repeated<'r>, SimulateError> {
    let Round { steps, within, carried, repeats, .. } = round;
    if *repeats == 0 || steps.is_empty() {
        let played = Played::default();
        return Ok(Repeated { played, steps: steps.into(), times: 0.0, inexact: None });
    }
    let all = |played, inexact| Ok(Repeated { played, steps: steps.into(), times: *repeats as f64, inexact });
    if within.is_empty() && steps.len() > limits.counted_from {
        let pairs = if let Carried::Pairs(pairs) = carried { pairs.as_slice() } else { &[] };
        let (router, engine) = player.parts();
        if let Some(Bulk { played, repeats: same, inexact }) = counted(router, engine, steps, pairs)? {
            if inexact.is_some() {
                return all(played, inexact);
            }
            if same || *repeats == 1 || *carried == Carried::All {
                return all(played, None);
            }
            if 2 * steps.len() > limits.steps {
                return all(played, Some(taken_to_wait(steps.len())));
            }
        }
    }
    let once = player.play(steps, within)?;
    let Carried::Pairs(pairs) = carried else { return all(once, None) };
    // where all end at one moment, and each waits for something, every repetition starts at one moment, too
    let first = once.ends.iter().copied().fold(f64::INFINITY, f64::min);
    let mut waiting = vec![false; steps.len()];
    pairs.iter().for_each(|(_, b)| waiting[*b as usize] = true);
    let chained = waiting.iter().all(|w| *w);
    if *repeats == 1 || (chained && within.is_empty() && first >= once.time * (1.0 - TOGETHER)) {
        return all(once, None);
    }
    // where no step ever disturbs another, a chain of so many steps takes at most that many times the longest; and so
    // long it takes where the longest waits for itself
    if within.is_empty()
        && let Some(takes) = player.undisturbed(steps)?
        && let Some((slowest, longest)) = takes.iter().enumerate().max_by(|a, b| a.1.total_cmp(b.1))
        && pairs.contains(&(slowest as u32, slowest as u32))
    {
        let played = Played { time: *longest, ..once };
        return all(played, None);
    }
    if 2 * steps.len() > limits.steps {
        if pairs.iter().any(|(a, b)| a != b) {
            return all(once, Some(taken_to_wait(steps.len())));
        }
        let slowest = at_once(round, player)?;
        let more = (*repeats - 1) as f64 * slowest;
        let times = if once.time > 0.0 { (once.time + more) / once.time } else { 1.0 };
        let why = format!(
            "the {repeats} repetitions of {} steps are taken to follow each other as fast as the slowest \
                           step when all are under way",
            steps.len()
        );
        return Ok(Repeated { times, played: once, steps: steps.into(), inexact: Some(why) });
    }
    let most = (limits.steps / steps.len()).max(2) as u64;
    let played = (*repeats).min(most);
    let (chain, waits) = unroll(round, pairs, played);
    let got = player.play(&chain, &waits)?;
    if played == *repeats {
        return Ok(Repeated { played: got, steps: chain.into(), times: 1.0, inexact: None });
    }
    // the second half has forgotten how it began
    let half = (played / 2) as usize * steps.len();
    let at = |ends: &[f64]| ends.iter().copied().fold(0.0, f64::max);
    let (middle, end) = (at(&got.ends[..half]), got.time);
    let per_repeat = (end - middle) / (played - played / 2) as f64;
    let time = end + per_repeat * (*repeats - played) as f64;
    let why =
        format!("{played} of {repeats} repetitions were played, the others taken to last as long as the later of them");
    Ok(Repeated { times: time / end, played: got, steps: chain.into(), inexact: Some(why) })
}

/// How long the slowest step of a round takes when all are under way at once, as in a pipeline that is full.
fn at_once(round: &Round, player: &mut Player) -> Result<f64, SimulateError> {
    let (router, engine) = player.parts();
    match counted(router, engine, &round.steps, &[])? {
        Some(Bulk { played, .. }) => Ok(played.time),
        None => Ok(player.play(&round.steps, &[])?.time),
    }
}

fn taken_to_wait(steps: usize) -> String {
    format!("{steps} steps that end at different times are taken to wait for the last at each repetition")
}

/// A round's repetitions as one graph.
fn unroll(round: &Round, pairs: &[(u32, u32)], repeats: u64) -> (Vec<Step>, Vec<(u32, u32)>) {
    let n = round.steps.len() as u32;
    let mut steps = Vec::with_capacity(round.steps.len() * repeats as usize);
    let mut waits = Vec::new();
    for k in 0..repeats as u32 {
        steps.extend_from_slice(&round.steps);
        waits.extend(round.within.iter().map(|(a, b)| (k * n + a, k * n + b)));
        if k > 0 {
            waits.extend(pairs.iter().map(|(a, b)| ((k - 1) * n + a, k * n + b)));
        }
    }
    (steps, waits)
}
