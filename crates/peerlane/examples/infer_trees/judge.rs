//! What could have been found, and whether it was.

use peerlane::infer::{Group, Hypothesis, Members};

use peerlane::random::Random;

/// Flows of which every set is permitted; of more, a family of sets stands for all.
const ALL_SETS: usize = 10;

/// What an experiment got right and wrong.
#[derive(Clone, Debug, Default)]
pub(crate) struct Judgement {
    /// Resources that some permitted set shows.
    pub(crate) identifiable: usize,
    /// Of them, those found with exactly their members.
    pub(crate) exact: usize,
    /// Of them, those found, or one that no permitted set tells from them.
    pub(crate) found: usize,
    /// Groups that are none of the machine's resources.
    pub(crate) invented: usize,
    /// Groups in all.
    pub(crate) groups: usize,
    /// Relative errors of capacities.
    pub(crate) errors: Vec<f64>,
    /// Of each group, whether the machine has it.
    pub(crate) right: Vec<bool>,
    /// Identifiable resources that were not found.
    pub(crate) missing: Vec<Members>,
    /// In words, what went wrong.
    pub(crate) wrong: Vec<String>,
}

/// The sets by which resources are told apart: all of few flows; of more, all pairs, each resource, with one more flow,
/// with one less, with another resource, and random sets.
pub(crate) fn permitted(machine: &Hypothesis, random: &mut Random) -> Vec<Members> {
    let n = machine.solo.len();
    if n <= ALL_SETS {
        return (1..1_usize << n).map(|bits| (0..n).filter(|i| bits >> i & 1 == 1).collect()).collect();
    }
    let one = Members::one;
    let mut sets: Vec<Members> = (0..n).flat_map(|i| (0..i).map(move |j| one(i).or(one(j)))).collect();
    for group in &machine.groups {
        sets.push(group.members);
        sets.extend((0..n).map(|i| group.members.or(one(i))));
        sets.extend(group.members.iter().map(|i| group.members.minus(one(i))));
        sets.extend(machine.groups.iter().map(|g| g.members.or(group.members)));
    }
    for _ in 0..300 {
        let share = random.uniform();
        sets.push((0..n).filter(|_| random.uniform() < share).collect());
    }
    sets
}

/// The largest relative change of any flow's rate in any set.
fn change(a: &Hypothesis, b: &Hypothesis, sets: &[Members]) -> f64 {
    let of = |set: &Members| {
        let both = a.rates(*set).into_iter().zip(b.rates(*set));
        both.map(|(x, y)| (y / x - 1.0).abs()).fold(0.0, f64::max)
    };
    sets.iter().map(of).fold(0.0, f64::max)
}

/// The machine without what no set shows: as long as there is a resource without which no rate changes by `least`, the
/// one that changes least is taken away. So of resources that no set tells apart one is left.
pub(crate) fn identifiable(machine: &Hypothesis, sets: &[Members], least: f64) -> Hypothesis {
    let mut left = machine.clone();
    loop {
        let without = |at: usize| {
            let mut groups = left.groups.clone();
            groups.remove(at);
            left.with(groups)
        };
        let changes = (0..left.groups.len()).map(|at| (change(&left, &without(at), sets), at));
        match changes.min_by(|a, b| a.0.total_cmp(&b.0)) {
            Some((change, at)) if change < least => left = without(at),
            _ => return left,
        }
    }
}

/// Holds groups against a machine.
pub(crate) fn judge(machine: &Hypothesis, groups: &[Group], sets: &[Members], least: f64) -> Judgement {
    let truth = identifiable(machine, sets, least);
    let mut judgement = Judgement { identifiable: truth.groups.len(), groups: groups.len(), ..Judgement::default() };
    let mut taken = vec![false; groups.len()];
    let mut missing = Vec::new();
    for (at, resource) in truth.groups.iter().enumerate() {
        match groups.iter().position(|g| g.members == resource.members) {
            Some(found) => {
                taken[found] = true;
                judgement.exact += 1;
                judgement.found += 1;
                judgement.errors.push((groups[found].capacity / resource.capacity - 1.0).abs());
            }
            None => missing.push(at),
        }
    }
    for at in missing {
        let alike = |g: &Group| change(&truth, &truth.replacing(at, *g), sets) < least;
        match groups.iter().enumerate().position(|(i, g)| !taken[i] && alike(g)) {
            Some(found) => {
                taken[found] = true;
                judgement.found += 1;
            }
            None => {
                let resource = truth.groups[at];
                judgement.missing.push(resource.members);
                judgement.wrong.push(format!("missing {} {:.2}", resource.members, resource.capacity));
            }
        }
    }
    for (group, taken) in groups.iter().zip(&taken) {
        let right = *taken || machine.groups.iter().any(|g| g.members == group.members);
        judgement.right.push(right);
        if !right {
            judgement.invented += 1;
            judgement.wrong.push(format!("invented {} {:.2}", group.members, group.capacity));
        }
    }
    judgement
}
