//! The remaining steps of a plan, and the consequences of failures: which GPU or path is at fault, what not to retry.

use std::collections::{BTreeMap, BTreeSet};

use peerlane::measure::{Failure, void};
use peerlane::plan::{Plan, Step, Work};
use peerlane::run::{Cell, FlagKind};
use peerlane::transfer::Via;

/// Limit of restarted workers, after which the run is given up.
const MOST_RESTARTS: usize = 16;

/// Failures of one path after which its other steps are skipped.
const ENOUGH: usize = 2;

/// A path of data: from, to, and how.
type Path = (String, String, Via);

/// A round that was aborted: the worker hung, died or gave up.
#[derive(Clone, Debug)]
pub(crate) struct Accident {
    /// Its round, if one was running.
    pub(crate) round: Option<usize>,
    /// [`FlagKind::Failed`] or [`FlagKind::Hung`].
    pub(crate) kind: FlagKind,
    /// What happened, in words.
    pub(crate) why: String,
    /// The worker's own report on the steps that caused it, if it could send one.
    pub(crate) cells: Vec<Cell>,
}

/// A plan in progress.
pub(crate) struct Remaining {
    /// The plan, whose rounds may be divided further, which does not change the numbers of its steps.
    plan: Plan,
    /// Steps that are measured or given up.
    done: BTreeSet<usize>,
    /// GPUs of failed steps with at most two participants.
    failed: Vec<BTreeSet<String>>,
    /// How often each path has failed.
    paths: BTreeMap<Path, usize>,
    /// GPUs that are excluded.
    lost: BTreeSet<String>,
    accidents: usize,
    /// Accidents outside any round since the last result.
    nowhere: usize,
}

impl Remaining {
    /// A plan of which some steps are done.
    pub(crate) fn new(plan: Plan, done: BTreeSet<usize>) -> Self {
        Remaining {
            plan,
            done,
            failed: Vec::new(),
            paths: BTreeMap::new(),
            lost: BTreeSet::new(),
            accidents: 0,
            nowhere: 0,
        }
    }

    /// The current plan.
    pub(crate) fn plan(&self) -> &Plan {
        &self.plan
    }

    /// Steps that are measured or given up.
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

    /// Total number of steps.
    pub(crate) fn steps(&self) -> usize {
        self.plan.steps().count()
    }

    /// Whether every step is measured or given up.
    pub(crate) fn is_complete(&self) -> bool {
        (0..self.steps()).all(|step| self.done.contains(&step))
    }

    /// Records that steps are done.
    pub(crate) fn answered(&mut self, cells: &[Cell]) {
        self.done.extend(cells.iter().map(|c| c.step));
        if !cells.is_empty() {
            self.nowhere = 0;
        }
    }

    /// The remaining steps of a round, with their numbers.
    pub(crate) fn open(&self, round: usize) -> Vec<(usize, &Step)> {
        let first: usize = self.plan.rounds.iter().take(round).map(Vec::len).sum();
        let steps = self.plan.rounds.get(round).into_iter().flatten().enumerate();
        steps.map(|(i, step)| (first + i, step)).filter(|(number, _)| !self.done.contains(number)).collect()
    }

    /// Handles an accident. Returns the cells of the steps that are given up.
    ///
    /// If several steps may have run concurrently, none is blamed: they are retried one by one.
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
                cells.extend(self.blame(&step.work, kind, &why));
            }
            (_, Some(round)) => self.divide(round),
        }
        if self.nowhere >= ENOUGH {
            cells.extend(self.abandon(kind, &format!("given up: {why}, {ENOUGH} times and outside any step")));
        } else if self.accidents > MOST_RESTARTS {
            cells.extend(self.abandon(kind, &format!("given up after {MOST_RESTARTS} restarts; the last time {why}")));
        }
        cells
    }

    /// Excludes a GPU, and gives up all of its steps.
    pub(crate) fn lose(&mut self, gpu: &str, kind: FlagKind, why: &str) -> Vec<Cell> {
        self.lost.insert(gpu.to_owned());
        let failure = failure(kind, &format!("{gpu} is excluded: {why}"));
        self.give_up(&failure, |step| step.work.gpus().contains(&gpu))
    }

    /// Gives up all remaining steps.
    pub(crate) fn abandon(&mut self, kind: FlagKind, why: &str) -> Vec<Cell> {
        self.give_up(&failure(kind, why), |_| true)
    }

    /// Divides a round into one round per step.
    fn divide(&mut self, round: usize) {
        let Some(steps) = self.plan.rounds.get_mut(round).map(std::mem::take) else { return };
        self.plan.rounds.splice(round..=round, steps.into_iter().map(|step| vec![step]));
    }

    /// Blames a GPU that failed with two different partners, or alone and with a partner; otherwise a path that failed
    /// twice.
    fn blame(&mut self, work: &Work, kind: FlagKind, why: &str) -> Vec<Cell> {
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
        let paths = paths(work);
        let alone = paths.len() == 1;
        for path in &paths {
            // of several concurrent paths, only one that also failed alone is blamed
            if alone || self.paths.contains_key(path) {
                *self.paths.entry(path.clone()).or_default() += 1;
            }
        }
        for path in &paths {
            cells.extend(self.bar(path, kind, why));
            cells.extend(self.bar(&back(path), kind, why));
        }
        self.set_apart();
        cells
    }

    /// Gives up a path that has failed often enough, counting the opposite direction.
    fn bar(&mut self, path: &Path, kind: FlagKind, why: &str) -> Vec<Cell> {
        let failures = |path: &Path| self.paths.get(path).copied().unwrap_or_default();
        let (own, others) = (failures(path), failures(&back(path)));
        if own == 0 || own + others < ENOUGH {
            return Vec::new();
        }
        let (from, to, _) = path;
        let reason = match own {
            1 => format!("not tried: {from}→{to} and {to}→{from} have failed; the last time {why}"),
            _ => format!("not tried: {from}→{to} has failed {own} times; the last time {why}"),
        };
        self.give_up(&failure(kind, &reason), |step| paths(&step.work).contains(path))
    }

    /// Gives steps on a path that has failed, in either direction, their own rounds, so that they harm no others.
    fn set_apart(&mut self) {
        let failed = |path: &Path| self.paths.contains_key(path) || self.paths.contains_key(&back(path));
        let mut rounds: Vec<Vec<Step>> = Vec::new();
        for round in std::mem::take(&mut self.plan.rounds) {
            let mut together = false;
            for step in round {
                let suspect = paths(&step.work).iter().any(failed);
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

/// `with GPU1`, or `alone`.
fn with(gpu: &str, gpus: &BTreeSet<String>) -> String {
    match gpus.iter().find(|other| *other != gpu) {
        Some(other) => format!("with {other}"),
        None => "alone".to_owned(),
    }
}

/// The same path in the opposite direction.
fn back((from, to, via): &Path) -> Path {
    (to.clone(), from.clone(), *via)
}

/// The paths of a step's data. Those of work among several GPUs are not known, unless only two take part, without the host.
fn paths(work: &Work) -> Vec<Path> {
    let kind = work.kind();
    let mut paths = kind.paths();
    if kind.ends().is_none() {
        let is_of_two = work.gpus().len() == 2;
        paths.retain(|path| is_of_two && path.via == Via::Direct);
    }
    paths.dedup();
    paths.into_iter().map(|path| (path.from.to_owned(), path.to.to_owned(), path.via)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use peerlane::plan::{Method, Size, Test};
    use peerlane::transfer::Transfer;
    use peerlane::units::Bytes;

    fn step(source: &str, destination: &str) -> Step {
        let work = Work::Transfers(vec![Transfer::new(source, destination)]);
        Step { test: Test::Pairs, work, size: Size::UpTo(Bytes(64)) }
    }

    fn remaining(rounds: &[&[(&str, &str)]]) -> Remaining {
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
    fn concurrent_steps_are_not_blamed() {
        let mut remaining = remaining(&[&[("GPU0", "GPU1"), ("GPU2", "GPU3")], &[("GPU0", "GPU2")]]);
        assert!(remaining.accident(hung(0)).is_empty());
        assert_eq!(remaining.plan().rounds.iter().map(Vec::len).collect::<Vec<_>>(), [1, 1, 1]);
        // the second of the divided round is still step 1
        let cells = remaining.accident(hung(1));
        assert_eq!(numbers(&cells), [1]);
        assert_eq!(cells[0].flags, [peerlane::run::Flag::new(FlagKind::Hung, "it hung")]);
        assert_eq!((remaining.open(0).len(), remaining.open(1).len(), remaining.open(2).len()), (1, 0, 1));
    }

    #[test]
    fn a_gpu_that_fails_with_two_partners_is_excluded() {
        let rounds: [&[_]; 4] = [&[("GPU0", "GPU1")], &[("GPU0", "GPU2")], &[("GPU0", "GPU3")], &[("GPU1", "GPU2")]];
        let mut remaining = remaining(&rounds);
        assert_eq!(numbers(&remaining.accident(hung(0))), [0]);
        let cells = remaining.accident(hung(1));
        assert_eq!(numbers(&cells), [1, 2]);
        assert!(cells[1].flags[0].detail.contains("GPU0 is excluded: it failed with GPU1 and with GPU2"), "{cells:?}");
        assert_eq!(remaining.open(3).len(), 1, "GPU1 and GPU2 continue");
    }

    #[test]
    fn only_remaining_steps_need_their_gpus() {
        let mut remaining = remaining(&[&[("GPU0", "GPU1"), ("GPU2", "GPU3")], &[("GPU4", "host")]]);
        assert_eq!(remaining.needed(), BTreeSet::from(["GPU0", "GPU1", "GPU2", "GPU3", "GPU4"]));
        let cells = remaining.lose("GPU3", FlagKind::NotApplicable, "it is hidden");
        assert_eq!(
            cells[0].flags,
            [peerlane::run::Flag::new(FlagKind::NotApplicable, "GPU3 is excluded: it is hidden")]
        );
        remaining.answered(&void(0, &step("GPU0", "GPU1"), &failure(FlagKind::Failed, "it failed")));
        assert_eq!(remaining.needed(), BTreeSet::from(["GPU4"]));
    }

    #[test]
    fn a_path_that_fails_twice_is_not_retried() {
        let rounds: [&[_]; 5] =
            [&[("GPU0", "GPU1")], &[("GPU0", "GPU1")], &[("GPU1", "GPU0")], &[("GPU0", "GPU1")], &[("GPU0", "host")]];
        let mut remaining = remaining(&rounds);
        remaining.accident(hung(0));
        assert_eq!(numbers(&remaining.accident(hung(1))), [1, 3]);
        assert!(remaining.lost().is_empty());
        assert_eq!(
            (remaining.open(2).len(), remaining.open(4).len()),
            (1, 1),
            "the opposite direction and the host are still open"
        );
    }

    #[test]
    fn a_path_that_fails_in_both_directions_is_not_retried() {
        let rounds: [&[_]; 4] = [
            &[("GPU0", "GPU1")],
            &[("GPU2", "GPU3"), ("GPU1", "GPU0"), ("GPU4", "GPU5"), ("GPU6", "GPU7")],
            &[("GPU0", "GPU1")],
            &[("GPU1", "GPU0"), ("GPU2", "GPU3")],
        ];
        let mut remaining = remaining(&rounds);
        remaining.accident(hung(0));
        // steps on that path run alone from here on
        assert_eq!(remaining.plan().rounds.iter().map(Vec::len).collect::<Vec<_>>(), [1, 1, 1, 2, 1, 1, 1]);
        let given_up: BTreeSet<usize> = numbers(&remaining.accident(hung(2))).into_iter().collect();
        assert_eq!(given_up, BTreeSet::from([2, 5, 6]));
        assert!((0..7).all(|round| remaining.open(round).iter().all(|(_, s)| s.work.gpus()[0] > "GPU1")));
    }

    #[test]
    fn a_workers_report_on_its_last_step_counts() {
        let mut remaining = remaining(&[&[("GPU0", "GPU1"), ("GPU2", "GPU3")]]);
        let said = void(1, &step("GPU2", "GPU3"), &failure(FlagKind::Failed, "error 719"));
        let cells = remaining.accident(Accident { cells: said.clone(), ..hung(0) });
        assert_eq!(cells, said);
        assert_eq!(remaining.open(0).iter().map(|(number, _)| *number).collect::<Vec<_>>(), [0]);
    }

    #[test]
    fn retries_are_limited() {
        let mut hopeless = remaining(&[&[("GPU0", "GPU1")]]);
        let nowhere = || Accident { round: None, ..hung(0) };
        assert!(hopeless.accident(nowhere()).is_empty());
        assert_eq!(numbers(&hopeless.accident(nowhere())), [0]);

        let names: Vec<String> = (0..80).map(|i| format!("GPU{i}")).collect();
        let pairs: Vec<[(&str, &str); 1]> = names.chunks(2).map(|p| [(p[0].as_str(), p[1].as_str())]).collect();
        let rounds: Vec<&[(&str, &str)]> = pairs.iter().map(|p| p.as_slice()).collect();
        let mut failing = remaining(&rounds);
        let tries = (0..rounds.len()).take_while(|round| {
            failing.accident(hung(*round));
            !failing.is_complete()
        });
        assert_eq!(tries.count(), MOST_RESTARTS);
    }
}
