//! What of a plan is left to do, and what failures mean for it: whom to accuse, what not to try again.

use std::collections::{BTreeMap, BTreeSet};

use peerlane::measure::{Failure, void};
use peerlane::plan::{Plan, Step, Work};
use peerlane::run::{Cell, FlagKind};
use peerlane::transfer::{Transfer, Via};

/// New workers after the first. A machine that spoils more of them is not worth the wait.
const MOST_RESTARTS: usize = 16;

/// Failures of one way before its other steps are left out.
const ENOUGH: usize = 2;

/// A way that data takes: from, to, and how.
type Path = (String, String, Via);

/// A round that was cut short: the worker hung, died or gave up.
#[derive(Clone, Debug)]
pub(crate) struct Accident {
    /// Its round, if one was running.
    pub(crate) round: Option<usize>,
    /// [`FlagKind::Failed`] or [`FlagKind::Hung`].
    pub(crate) kind: FlagKind,
    /// What happened, in words.
    pub(crate) why: String,
    /// What the worker itself said of the steps that spoilt it, if it could.
    pub(crate) cells: Vec<Cell>,
}

/// A plan on its way.
pub(crate) struct Remaining {
    /// The plan, whose rounds may be divided further: that leaves the numbers of its steps as they are.
    plan: Plan,
    /// Steps that are answered or given up.
    done: BTreeSet<usize>,
    /// GPUs of the failed steps that at most two took part in.
    failed: Vec<BTreeSet<String>>,
    /// How often each way was seen to fail.
    ways: BTreeMap<Path, usize>,
    /// GPUs that are not worth trying.
    lost: BTreeSet<String>,
    accidents: usize,
    /// Accidents outside any round since something was last answered.
    nowhere: usize,
}

impl Remaining {
    /// A plan, of which some steps are done.
    pub(crate) fn new(plan: Plan, done: BTreeSet<usize>) -> Self {
        Remaining {
            plan,
            done,
            failed: Vec::new(),
            ways: BTreeMap::new(),
            lost: BTreeSet::new(),
            accidents: 0,
            nowhere: 0,
        }
    }

    /// The plan as it now is.
    pub(crate) fn plan(&self) -> &Plan {
        &self.plan
    }

    /// Steps that need no answer any more.
    pub(crate) fn done(&self) -> &BTreeSet<usize> {
        &self.done
    }

    /// GPUs that are given up.
    pub(crate) fn lost(&self) -> &BTreeSet<String> {
        &self.lost
    }

    /// GPUs of the steps that are left.
    pub(crate) fn needed(&self) -> BTreeSet<&str> {
        let left = self.plan.steps().enumerate().filter(|(number, _)| !self.done.contains(number));
        left.flat_map(|(_, step)| step.work.gpus()).collect()
    }

    /// How many steps there are in all.
    pub(crate) fn steps(&self) -> usize {
        self.plan.steps().count()
    }

    /// Whether every step is answered or given up.
    pub(crate) fn is_complete(&self) -> bool {
        (0..self.steps()).all(|step| self.done.contains(&step))
    }

    /// Steps have an answer.
    pub(crate) fn answered(&mut self, cells: &[Cell]) {
        self.done.extend(cells.iter().map(|c| c.step));
        if !cells.is_empty() {
            self.nowhere = 0;
        }
    }

    /// The steps of a round that have no answer yet, with their numbers.
    pub(crate) fn open(&self, round: usize) -> Vec<(usize, &Step)> {
        let first: usize = self.plan.rounds.iter().take(round).map(Vec::len).sum();
        let steps = self.plan.rounds.get(round).into_iter().flatten().enumerate();
        steps.map(|(i, step)| (first + i, step)).filter(|(number, _)| !self.done.contains(number)).collect()
    }

    /// Draws conclusions from an accident. Gives the cells of the steps that are done with.
    ///
    /// Of several steps that may have run at once none is accused: they are tried again one by one.
    pub(crate) fn accident(&mut self, accident: Accident) -> Vec<Cell> {
        let Accident { round, kind, why, cells: told } = accident;
        self.accidents += 1;
        let open = round.map(|round| self.open(round)).unwrap_or_default();
        let named = |number: &usize| told.is_empty() || told.iter().any(|c| c.step == *number);
        let suspects: Vec<(usize, Step)> =
            open.into_iter().filter(|(number, _)| named(number)).map(|(number, step)| (number, step.clone())).collect();
        let mut cells = Vec::new();
        match (suspects.as_slice(), round) {
            ([], _) | (_, None) => self.nowhere += 1,
            ([(number, step)], _) => {
                cells = if told.is_empty() { void(*number, step, &failure(kind, &why)) } else { told };
                self.answered(&cells);
                cells.extend(self.accuse(&step.work, kind, &why));
            }
            (_, Some(round)) => self.divide(round),
        }
        if self.nowhere >= ENOUGH {
            cells.extend(self.abandon(kind, &format!("given up: {why}, {ENOUGH} times and outside any step")));
        } else if self.accidents > MOST_RESTARTS {
            cells
                .extend(self.abandon(kind, &format!("given up after {MOST_RESTARTS} new starts; the last time {why}")));
        }
        cells
    }

    /// Gives a GPU up, and with it all of its steps.
    pub(crate) fn lose(&mut self, gpu: &str, kind: FlagKind, why: &str) -> Vec<Cell> {
        self.lost.insert(gpu.to_owned());
        let failure = failure(kind, &format!("{gpu} is left out: {why}"));
        self.give_up(&failure, |step| step.work.gpus().contains(&gpu))
    }

    /// Gives everything up that is left.
    pub(crate) fn abandon(&mut self, kind: FlagKind, why: &str) -> Vec<Cell> {
        self.give_up(&failure(kind, why), |_| true)
    }

    /// Makes each step of a round a round of its own.
    fn divide(&mut self, round: usize) {
        let Some(steps) = self.plan.rounds.get_mut(round).map(std::mem::take) else { return };
        self.plan.rounds.splice(round..=round, steps.into_iter().map(|step| vec![step]));
    }

    /// A GPU that failed with two different partners, or alone and with a partner, is at fault itself; else a way
    /// that failed twice.
    fn accuse(&mut self, work: &Work, kind: FlagKind, why: &str) -> Vec<Cell> {
        let gpus: BTreeSet<String> = work.gpus().into_iter().map(str::to_owned).collect();
        let mut cells = Vec::new();
        if (1..=2).contains(&gpus.len()) {
            let differing: Vec<&BTreeSet<String>> = self.failed.iter().filter(|earlier| **earlier != gpus).collect();
            let at_fault: Vec<(String, String)> = gpus
                .iter()
                .filter_map(|gpu| {
                    let before = differing.iter().find(|earlier| earlier.contains(gpu))?;
                    Some((gpu.clone(), format!("it failed {} and {}", with(gpu, before), with(gpu, &gpus))))
                })
                .collect();
            self.failed.push(gpus);
            for (gpu, reason) in at_fault {
                cells.extend(self.lose(&gpu, FlagKind::Failed, &format!("{reason}; the last time {why}")));
            }
        }
        let ways = ways(work);
        let alone = ways.len() == 1;
        for way in &ways {
            // several ways at once accuse only one that is known to fail by itself
            if alone || self.ways.contains_key(way) {
                *self.ways.entry(way.clone()).or_default() += 1;
            }
        }
        for way in &ways {
            cells.extend(self.bar(way, kind, why));
            cells.extend(self.bar(&back(way), kind, why));
        }
        self.set_apart();
        cells
    }

    /// Gives up a way that failed often enough, itself or it and its way back.
    fn bar(&mut self, way: &Path, kind: FlagKind, why: &str) -> Vec<Cell> {
        let failures = |way: &Path| self.ways.get(way).copied().unwrap_or_default();
        let (own, others) = (failures(way), failures(&back(way)));
        if own == 0 || own + others < ENOUGH {
            return Vec::new();
        }
        let (from, to, _) = way;
        let reason = match own {
            1 => format!("not tried: {from}→{to} and {to}→{from} have failed; the last time {why}"),
            _ => format!("not tried: {from}→{to} has failed {own} times; the last time {why}"),
        };
        self.give_up(&failure(kind, &reason), |step| ways(&step.work).contains(way))
    }

    /// Gives steps that go a way on which one failed, there or back, rounds of their own, so that they harm no others.
    fn set_apart(&mut self) {
        let failed = |way: &Path| self.ways.contains_key(way) || self.ways.contains_key(&back(way));
        let mut rounds: Vec<Vec<Step>> = Vec::new();
        for round in std::mem::take(&mut self.plan.rounds) {
            let mut together = false;
            for step in round {
                let suspect = ways(&step.work).iter().any(failed);
                match rounds.last_mut() {
                    Some(last) if together && !suspect => last.push(step),
                    _ => rounds.push(vec![step]),
                }
                together = !suspect;
            }
        }
        self.plan.rounds = rounds;
    }

    fn give_up(&mut self, failure: &Failure, meant: impl Fn(&Step) -> bool) -> Vec<Cell> {
        let left = self.plan.steps().enumerate().filter(|(number, step)| !self.done.contains(number) && meant(step));
        let cells: Vec<Cell> = left.flat_map(|(number, step)| void(number, step, failure)).collect();
        self.done.extend(cells.iter().map(|c| c.step));
        cells
    }
}

fn failure(kind: FlagKind, why: &str) -> Failure {
    Failure { kind, message: why.to_owned(), fatal: true }
}

/// `with GPU1`, or `by itself`.
fn with(gpu: &str, gpus: &BTreeSet<String>) -> String {
    match gpus.iter().find(|other| *other != gpu) {
        Some(other) => format!("with {other}"),
        None => "by itself".to_owned(),
    }
}

/// The same way from its other end.
fn back((from, to, via): &Path) -> Path {
    (to.clone(), from.clone(), *via)
}

/// Which ways the data of a step takes. A collective's are its own choice, unless only two take part.
fn ways(work: &Work) -> Vec<Path> {
    let way = |from: &str, to: &str| (from.to_owned(), to.to_owned(), Via::Direct);
    let of = |t: &Transfer| (t.source.clone(), t.destination.clone(), t.via);
    match work {
        Work::Transfers(transfers) => transfers.iter().map(of).collect(),
        Work::Loads { gpu, memory } => vec![way(memory, gpu)],
        Work::Signals { a, b } => vec![way(a, b), way(b, a)],
        Work::SmallCopies(transfer) => vec![of(transfer)],
        Work::Collective { gpus, .. } => match gpus.as_slice() {
            [a, b] => vec![way(a, b), way(b, a)],
            _ => Vec::new(),
        },
        Work::HostMemory { .. } => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use peerlane::plan::{Method, Size, Test};
    use peerlane::units::Bytes;

    fn step(source: &str, destination: &str) -> Step {
        let work = Work::Transfers(vec![Transfer::new(source, destination)]);
        Step { test: Test::Pairs, work, size: Size::UpTo(Bytes(64)) }
    }

    fn course(rounds: &[&[(&str, &str)]]) -> Remaining {
        let round = |pairs: &&[(&str, &str)]| pairs.iter().map(|(a, b)| step(a, b)).collect();
        let plan = Plan { method: Method::default(), rounds: rounds.iter().map(round).collect(), skipped: Vec::new() };
        Remaining::new(plan, BTreeSet::new())
    }

    fn hung(round: usize) -> Accident {
        Accident { round: Some(round), kind: FlagKind::Hung, why: "it hung".to_owned(), cells: Vec::new() }
    }

    fn numbers(cells: &[Cell]) -> Vec<usize> {
        cells.iter().map(|c| c.step).collect()
    }

    #[test]
    fn of_steps_at_once_none_is_accused() {
        let mut course = course(&[&[("GPU0", "GPU1"), ("GPU2", "GPU3")], &[("GPU0", "GPU2")]]);
        assert!(course.accident(hung(0)).is_empty());
        assert_eq!(course.plan().rounds.iter().map(Vec::len).collect::<Vec<_>>(), [1, 1, 1]);
        // the second of the divided round is still step 1
        let cells = course.accident(hung(1));
        assert_eq!(numbers(&cells), [1]);
        assert_eq!(cells[0].flags, [peerlane::run::Flag::new(FlagKind::Hung, "it hung")]);
        assert_eq!((course.open(0).len(), course.open(1).len(), course.open(2).len()), (1, 0, 1));
    }

    #[test]
    fn a_gpu_that_fails_with_two_partners_is_left_out() {
        let rounds: [&[_]; 4] = [&[("GPU0", "GPU1")], &[("GPU0", "GPU2")], &[("GPU0", "GPU3")], &[("GPU1", "GPU2")]];
        let mut course = course(&rounds);
        assert_eq!(numbers(&course.accident(hung(0))), [0]);
        let cells = course.accident(hung(1));
        assert_eq!(numbers(&cells), [1, 2]);
        assert!(cells[1].flags[0].detail.contains("GPU0 is left out: it failed with GPU1 and with GPU2"), "{cells:?}");
        assert_eq!(course.open(3).len(), 1, "GPU1 and GPU2 go on");
    }

    #[test]
    fn only_what_is_left_needs_its_gpus() {
        let mut course = course(&[&[("GPU0", "GPU1"), ("GPU2", "GPU3")], &[("GPU4", "host")]]);
        assert_eq!(course.needed(), BTreeSet::from(["GPU0", "GPU1", "GPU2", "GPU3", "GPU4"]));
        let cells = course.lose("GPU3", FlagKind::NotApplicable, "it is hidden");
        assert_eq!(
            cells[0].flags,
            [peerlane::run::Flag::new(FlagKind::NotApplicable, "GPU3 is left out: it is hidden")]
        );
        course.answered(&void(0, &step("GPU0", "GPU1"), &failure(FlagKind::Failed, "it failed")));
        assert_eq!(course.needed(), BTreeSet::from(["GPU4"]));
    }

    #[test]
    fn a_way_that_fails_twice_is_not_tried_again() {
        let rounds: [&[_]; 5] =
            [&[("GPU0", "GPU1")], &[("GPU0", "GPU1")], &[("GPU1", "GPU0")], &[("GPU0", "GPU1")], &[("GPU0", "host")]];
        let mut course = course(&rounds);
        course.accident(hung(0));
        assert_eq!(numbers(&course.accident(hung(1))), [1, 3]);
        assert!(course.lost().is_empty());
        assert_eq!((course.open(2).len(), course.open(4).len()), (1, 1), "the way back and the host are still open");
    }

    #[test]
    fn a_way_that_fails_there_and_back_is_not_tried_again() {
        let rounds: [&[_]; 4] = [
            &[("GPU0", "GPU1")],
            &[("GPU2", "GPU3"), ("GPU1", "GPU0"), ("GPU4", "GPU5"), ("GPU6", "GPU7")],
            &[("GPU0", "GPU1")],
            &[("GPU1", "GPU0"), ("GPU2", "GPU3")],
        ];
        let mut course = course(&rounds);
        course.accident(hung(0));
        // what goes that way stands alone from here on
        assert_eq!(course.plan().rounds.iter().map(Vec::len).collect::<Vec<_>>(), [1, 1, 1, 2, 1, 1, 1]);
        let given_up: BTreeSet<usize> = numbers(&course.accident(hung(2))).into_iter().collect();
        assert_eq!(given_up, BTreeSet::from([2, 5, 6]));
        assert!((0..7).all(|round| course.open(round).iter().all(|(_, s)| s.work.gpus()[0] > "GPU1")));
    }

    #[test]
    fn what_a_worker_said_of_its_last_step_counts() {
        let mut course = course(&[&[("GPU0", "GPU1"), ("GPU2", "GPU3")]]);
        let said = void(1, &step("GPU2", "GPU3"), &failure(FlagKind::Failed, "error 719"));
        let cells = course.accident(Accident { cells: said.clone(), ..hung(0) });
        assert_eq!(cells, said);
        assert_eq!(course.open(0).iter().map(|(number, _)| *number).collect::<Vec<_>>(), [0]);
    }

    #[test]
    fn there_is_an_end_to_trying() {
        let mut hopeless = course(&[&[("GPU0", "GPU1")]]);
        let nowhere = || Accident { round: None, ..hung(0) };
        assert!(hopeless.accident(nowhere()).is_empty());
        assert_eq!(numbers(&hopeless.accident(nowhere())), [0]);

        let names: Vec<String> = (0..80).map(|i| format!("GPU{i}")).collect();
        let pairs: Vec<[(&str, &str); 1]> = names.chunks(2).map(|p| [(p[0].as_str(), p[1].as_str())]).collect();
        let rounds: Vec<&[(&str, &str)]> = pairs.iter().map(|p| p.as_slice()).collect();
        let mut failing = course(&rounds);
        let tries = (0..rounds.len()).take_while(|round| {
            failing.accident(hung(*round));
            !failing.is_complete()
        });
        assert_eq!(tries.count(), MOST_RESTARTS);
    }
}
