//! Which GPUs can change places without any rate changing.

use super::{Flows, Pair};

/// Groups of GPUs of which any two can change places.
pub fn interchangeable(flows: &Flows) -> Vec<Vec<usize>> {
    let owners = owners(flows);
    let mut kinds: Vec<Vec<usize>> = Vec::new();
    for gpu in 0..flows.gpus() {
        // an exchange of i with j and one of j with k make one of i with k
        match kinds.iter_mut().find(|kind| kind.first().is_some_and(|first| can_swap(flows, &owners, *first, gpu))) {
            Some(kind) => kind.push(gpu),
            None => kinds.push(vec![gpu]),
        }
    }
    kinds
}

/// Every ordered pair of a GPU and another end.
fn with_others(flows: &Flows) -> impl Iterator<Item = Pair> + use<> {
    let (gpus, all) = (flows.gpus(), flows.ends.len());
    (0..all).flat_map(move |i| (0..all).map(move |j| (i, j))).filter(move |(i, j)| i != j && *i.min(j) < gpus)
}

/// For each resource the ends that all of its users have in common: nobody's, one GPU's, or a pair's.
fn owners(flows: &Flows) -> Vec<Option<[usize; 2]>> {
    let mut owners: Vec<Option<Option<[usize; 2]>>> = vec![None; flows.capacities.len()];
    for pair in with_others(flows) {
        let Some(flow) = flows.flow(pair) else { continue };
        for (r, _) in &flow.demand.uses {
            let Some(owner) = owners.get_mut(*r) else { continue };
            let ends = [pair.0, pair.1];
            *owner = Some(match owner {
                None => Some(ends),
                Some(None) => None,
                Some(Some(before)) => {
                    let common: Vec<usize> = before.iter().copied().filter(|g| ends.contains(g)).collect();
                    match common.as_slice() {
                        [only] => Some([*only; 2]),
                        [a, b] => Some([*a, *b]),
                        _ => None,
                    }
                }
            });
        }
    }
    owners.into_iter().map(Option::flatten).collect()
}

/// Whether the machine is the same with two GPUs exchanged: a mapping of resources that takes every flow of one to the
/// other's, leaves those of all others alone, and keeps capacities, consumption, caps and weights.
fn can_swap(flows: &Flows, owners: &[Option<[usize; 2]>], i: usize, j: usize) -> bool {
    let swap = |g: usize| match g {
        g if g == i => j,
        g if g == j => i,
        g => g,
    };
    let mut map: Vec<Option<usize>> = vec![None; flows.capacities.len()];
    let mut maps = |r: usize, s: usize| map.get_mut(r).is_some_and(|to| *to.get_or_insert(s) == s);
    let of_pair = |r: usize| owners.get(r).copied().flatten().is_some_and(|o| o.contains(&i) || o.contains(&j));
    for pair in with_others(flows).filter(|(a, b)| [a, b].iter().any(|g| **g == i || **g == j)) {
        let image = (swap(pair.0), swap(pair.1));
        let (x, y) = match (flows.flow(pair), flows.flow(image)) {
            (Some(x), Some(y)) => (x, y),
            // a NIC or a memory that neither reaches
            (None, None) if pair.0.max(pair.1) >= flows.gpus() => continue,
            _ => return false,
        };
        let (x, y) = (&x.demand, &y.demand);
        let as_many = x.uses.len() == y.uses.len() && x.burdens.len() == y.burdens.len();
        if !as_many || x.own_cap() != y.own_cap() || x.weight != y.weight {
            return false;
        }
        for (&(r, per_byte), &(s, other)) in x.uses.iter().zip(&y.uses).chain(x.burdens.iter().zip(&y.burdens)) {
            let alike = per_byte == other && flows.capacities.get(r) == flows.capacities.get(s);
            // what others use stays where it is
            let moves = r == s || (of_pair(r) && of_pair(s));
            if !alike || !moves || !maps(r, s) || !maps(s, r) {
                return false;
            }
        }
    }
    true
}
