//! Why a placement was chosen, and why all are equal where they are.

use super::ALIKE;
use super::nics::Nics;
use super::search::{Found, Problem};
use super::workload::Workload;
use super::{ROUNDING, sorted};
use peerlane_machine::names::ranges;
use peerlane_machine::units::Rate;
use peerlane_model::collectives::Rings;
use peerlane_model::flows::Pair;

/// The slowest transfer of one job while all run.
struct Slowest {
    pair: Pair,
    rate: Rate,
    bottleneck: String,
}

fn slowest(problem: &Problem, jobs: &[Vec<usize>], job: usize) -> Option<Slowest> {
    let pairs = problem.pairs(jobs);
    let set: Vec<Pair> = pairs.iter().flatten().chain(&problem.background).copied().collect();
    let from: usize = pairs.iter().take(job).map(Vec::len).sum();
    let transfers: Vec<_> = set.iter().map(|pair| problem.flows.transfer(*pair)).collect();
    let answers = problem.flows.model.solve(&transfers).ok()?;
    let own = set.iter().zip(answers).skip(from).take(pairs.get(job)?.len());
    let all = own.map(|(pair, answer)| Slowest { pair: *pair, rate: answer.rate, bottleneck: answer.bottleneck });
    // of equals, the first
    all.reduce(|a, b| {
        let slower = b.rate.bytes_per_second() < a.rate.bytes_per_second() * (1.0 - ROUNDING);
        if slower { b } else { a }
    })
}

/// In a sentence or two, why a job goes where it goes.
pub(super) fn of(problem: &Problem, found: &Found, job: usize, nics: &[Option<usize>], choices: &Nics) -> String {
    let flows = problem.flows;
    let name = |end: usize| flows.name(end);
    let arrow = |s: &Slowest| format!("{} → {}", name(s.pair.0), name(s.pair.1));
    let bound =
        |s: &Slowest| if s.bottleneck.is_empty() { String::new() } else { format!(", bound by {}", s.bottleneck) };
    let Some(here) = slowest(problem, &found.jobs, job) else {
        return "it sends nothing".to_owned();
    };
    let default = problem.by_number();
    let at = |s: &Slowest| format!("{} at {}{}", arrow(s), s.rate, bound(s));
    let mut reason = String::new();
    let by_rings = problem.workload.of(found.jobs[job].len()) == Workload::AllReduce;
    if by_rings {
        reason = of_rings(problem, found, job, &default) + "; ";
    }
    reason.push_str(&format!("the slowest transfer is {}", at(&here)));
    let there = slowest(problem, &default, job).filter(|_| !by_rings && default != found.jobs);
    if let Some(there) = there {
        let by_number: Vec<&str> = default.get(job).into_iter().flatten().map(|g| name(*g)).collect();
        let slower = here.rate.bytes_per_second() > there.rate.bytes_per_second() * (1.0 + ALIKE);
        let what = if slower { at(&there) } else { format!("{}, and other transfers slower", there.rate) };
        reason.push_str(&format!("; by number ({}) it would be {what}", ranges(&by_number)));
    }
    let crossed = crossings(problem, &found.jobs[job]);
    reason.extend(crossed.map(|(here, of)| format!("; {here} of {of} transfers cross between CPU packages")));
    reason.extend(adapters(problem, &found.jobs[job], nics, choices));
    reason
}

/// What the rings of an all-reduce carry, and what those of the GPUs by number would.
fn of_rings(problem: &Problem, found: &Found, job: usize, default: &[Vec<usize>]) -> String {
    let rate = |jobs: &[Vec<usize>]| problem.paces(jobs).get(job).copied().unwrap_or(0.0);
    let names = |gpus: &[usize]| ranges(&gpus.iter().map(|g| problem.flows.name(*g)).collect::<Vec<_>>());
    let here = rate(&found.jobs);
    let count = problem.rings.of(&found.jobs[job]).map_or(0, |rings| rings.rings.len());
    let rings = if count == 1 { "its ring carries".to_owned() } else { format!("its {count} rings carry") };
    let mut reason = format!("{rings} {}", Rate::from_bytes_per_second(here));
    let set = sorted(&found.jobs[job]);
    let by_number = default.get(job).filter(|gpus| sorted(gpus) != set);
    if let Some(gpus) = by_number {
        let there = Rate::from_bytes_per_second(rate(default));
        reason.push_str(&format!("; those of the GPUs by number ({}) would carry {there}", names(gpus)));
    }
    // programs that lay one ring along their ranks
    let alone = Rings::in_order(problem.flows, &set).map_or(here, |ring| ring.rate());
    if alone < here * (1.0 - ALIKE) {
        let one = Rate::from_bytes_per_second(alone);
        reason.push_str(&format!("; one ring in the order of their numbers would carry {one} alone"));
    }
    reason
}

/// Which NICs are nearest; where all GPUs have one, what the next best would give.
fn adapters(problem: &Problem, order: &[usize], nics: &[Option<usize>], choices: &Nics) -> Option<String> {
    let name = |end: usize| problem.flows.name(end);
    let mut used = sorted(&nics.iter().flatten().copied().collect::<Vec<_>>());
    used.dedup();
    let names: Vec<&str> = used.iter().map(|nic| name(*nic)).collect();
    let [only] = used.as_slice() else {
        return (!used.is_empty()).then(|| format!("; {} are the fastest NICs for its GPUs", ranges(&names)));
    };
    let rate = |nic: usize| choices.rate(order, &vec![Some(nic); order.len()]);
    let here = rate(*only);
    let slower = choices.ends().iter().map(|nic| (rate(*nic), *nic)).filter(|(r, _)| *r < here * (1.0 - ALIKE));
    let next = slower.max_by(|(a, _), (b, _)| a.total_cmp(b));
    let than = next.map(|(there, nic)| {
        let [here, there] = [here, there].map(Rate::from_bytes_per_second);
        format!(": {here} for all, both ways, where {} would give {there}", name(nic))
    });
    Some(format!("; {} is the fastest NIC for its GPUs{}", name(*only), than.unwrap_or_default()))
}

/// How many of a job's transfers between GPUs go through host memory or PCIe from one package to another, of how many;
/// `None` where none does.
fn crossings(problem: &Problem, order: &[usize]) -> Option<(usize, usize)> {
    let fabric = &problem.flows.model.machine.fabric;
    let pairs = problem.pairs(std::slice::from_ref(&order.to_vec())).concat();
    let between: Vec<&Pair> = pairs.iter().filter(|(a, b)| a.max(b) < &problem.flows.gpus()).collect();
    let crosses = |pair: &&&Pair| {
        let (a, b) = (problem.flows.ends[pair.0], problem.flows.ends[pair.1]);
        fabric.gpu_fabric_path(a, b).is_none() && fabric.package(a) != fabric.package(b)
    };
    let crossing = between.iter().filter(crosses).count();
    (crossing > 0).then_some((crossing, between.len()))
}

/// Why every placement is as good, where that is known.
pub(super) fn equal(problem: &Problem, found: &Found, worst: Option<f64>) -> Option<String> {
    let bottleneck = slowest(problem, &found.jobs, 0).map(|s| s.bottleneck).filter(|b| !b.is_empty());
    let bound = bottleneck.map_or_else(String::new, |b| format!("; each is bound by {b}"));
    let alike = problem.free.iter().all(|gpu| problem.kinds[*gpu] == problem.kinds[problem.free[0]]);
    if alike && problem.free.len() > 1 {
        return Some(format!("any free GPU can take any other's place without a rate changing{bound}"));
    }
    let placed: usize = problem.sizes.iter().sum();
    let one_job = problem.sizes.len() == 1 && placed == problem.free.len();
    if one_job && !problem.workload.of(placed).is_ordered() {
        return Some(format!("the job takes all free GPUs, and {} does not depend on their order", problem.workload));
    }
    if one_job && placed <= 2 && problem.workload.of(placed) != Workload::HostFeed {
        return Some("the job takes all free GPUs, and two have one order only".to_owned());
    }
    let pace = found.score.pace;
    // those of one pace may still differ in the rest of their transfers
    let by_number = problem.score(&problem.by_number());
    let no_better =
        found.score.alone <= by_number.alone * (1.0 + ALIKE) && found.score.nics <= by_number.nics * (1.0 + ALIKE);
    let same = no_better && worst.is_some_and(|worst| worst >= pace * (1.0 - ALIKE));
    let what = if problem.workload == Workload::AllReduce { "all-reduce" } else { "slowest transfer" };
    same.then(|| format!("the {what} is as fast in the worst placement as in the best{bound}"))
}
