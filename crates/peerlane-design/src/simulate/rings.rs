//! Rings whose steps do not disturb each other, repeated: their time in closed form.
//!
//! Step i of a ring passes on what step i − 1 has sent the repetition before, when its own link is free. With its start-up
//! `l` and the time `d` for which it keeps its link, its last byte leaves at
//! `s(i, k) = max(s(i, k − 1), s(i − 1, k − 1) + l(i)) + d(i)`. So `s` is the length of the longest path that goes one step
//! on, or stays, at each repetition: K repetitions take the largest, over the intervals of the unrolled ring, of
//! `Σ (l + d) + (K − steps of the interval) · the largest d in it`.

use std::collections::VecDeque;

use super::play::Takes;

/// Most different times for which links are kept. More of them are no closed form's case.
const MOST_KINDS: usize = 64;

/// Seconds for `repeats` repetitions of steps that take this long, where `pairs` make rings of them: each waits for itself
/// and for one other. `None` where they do not.
pub(super) fn repeated(takes: &[Takes], pairs: &[(u32, u32)], repeats: u64) -> Option<f64> {
    if repeats == 0 {
        return Some(0.0);
    }
    let rings = rings(takes.len(), pairs)?;
    rings.iter().map(|ring| of_ring(takes, ring, repeats)).try_fold(0.0, |a: f64, b| Some(a.max(b?)))
}

/// The same of one ring, whose steps are in the order in which data goes.
pub(super) fn around(takes: Vec<Takes>, repeats: u64) -> Option<f64> {
    let ring: Vec<u32> = (0..takes.len() as u32).collect();
    if ring.is_empty() || repeats == 0 { Some(0.0) } else { of_ring(&takes, &ring, repeats) }
}

/// Each ring's steps, in the order in which data goes.
fn rings(steps: usize, pairs: &[(u32, u32)]) -> Option<Vec<Vec<u32>>> {
    const NONE: u32 = u32::MAX;
    let (mut next, mut before, mut own) = (vec![NONE; steps], vec![NONE; steps], vec![false; steps]);
    for &(a, b) in pairs {
        let (from, to) = (a as usize, b as usize);
        if from >= steps || to >= steps {
            return None;
        }
        if a == b {
            own[from] = true;
        } else if next[from] == NONE && before[to] == NONE {
            (next[from], before[to]) = (b, a);
        } else {
            return None;
        }
    }
    if !own.iter().all(|own| *own) || next.contains(&NONE) {
        return None;
    }
    let mut found = Vec::new();
    let mut known = vec![false; steps];
    for first in 0..steps as u32 {
        let mut ring = Vec::new();
        let mut at = first;
        while !known[at as usize] {
            known[at as usize] = true;
            ring.push(at);
            at = next[at as usize];
        }
        if !ring.is_empty() {
            found.push(ring);
        }
    }
    Some(found)
}

fn of_ring(takes: &[Takes], ring: &[u32], repeats: u64) -> Option<f64> {
    let n = ring.len();
    let step = |at: usize| takes[ring[at % n] as usize];
    let mut kinds: Vec<f64> = ring.iter().map(|s| takes[*s as usize].moving).collect();
    kinds.sort_unstable_by(|a, b| b.total_cmp(a));
    kinds.dedup();
    if kinds.len() > MOST_KINDS {
        return None;
    }
    let whole: f64 = ring.iter().map(|s| takes[*s as usize].start + takes[*s as usize].moving).sum();
    let (turns, rest) = (repeats / n as u64, (repeats % n as u64) as usize);
    let staying = |longest: f64| {
        // where full turns take longer than staying, as many as there can be; what remains is shorter than two
        let round = whole - n as f64 * longest;
        let none = most(n, repeats.min(2 * n as u64) as usize, longest, true, &step);
        let some = if turns > 0 && round > 0.0 {
            let first = (turns - 1) as f64 * round + most(n, rest + n, longest, false, &step);
            first.max(turns as f64 * round + most(n, rest, longest, false, &step))
        } else {
            f64::NEG_INFINITY
        };
        none.max(some) + repeats as f64 * longest
    };
    Some(kinds.into_iter().map(staying).fold(0.0, f64::max))
}

/// The largest sum of `l + d − longest` over intervals of at most `width` steps of the unrolled ring; of those alone with a
/// step that keeps its link for `longest`, where `with` is set.
fn most(n: usize, width: usize, longest: f64, with: bool, step: &impl Fn(usize) -> Takes) -> f64 {
    // sums of the steps before each place; the interval from a to b has sums[b] − sums[a]
    let mut best = if with { f64::NEG_INFINITY } else { 0.0 };
    let mut sum = 0.0;
    // places where an interval may begin, with rising sums
    let mut begins: VecDeque<(usize, f64)> = VecDeque::new();
    // those since the last step that keeps its link so long
    let mut later: Vec<(usize, f64)> = vec![(0, 0.0)];
    for end in 1..=n + width {
        let Takes { start, moving } = step(end - 1);
        sum += start + moving - longest;
        if !with || moving >= longest {
            for (at, before) in later.drain(..) {
                while begins.back().is_some_and(|(_, known)| *known >= before) {
                    begins.pop_back();
                }
                begins.push_back((at, before));
            }
        }
        while begins.front().is_some_and(|(at, _)| at + width < end) {
            begins.pop_front();
        }
        if let Some((_, before)) = begins.front() {
            best = best.max(sum - before);
        }
        later.push((end, sum));
    }
    best
}

#[cfg(test)]
mod tests {
    use super::*;
    use peerlane_machine::random::Random;

    /// By the recurrence, repetition by repetition.
    fn by_recurrence(takes: &[Takes], repeats: u64) -> f64 {
        let n = takes.len();
        let (mut left, mut first) = (vec![0.0_f64; n], true);
        for _ in 0..repeats {
            let before = left.clone();
            for i in 0..n {
                let data = if first { 0.0 } else { before[(i + n - 1) % n] } + takes[i].start;
                left[i] = before[i].max(data) + takes[i].moving;
            }
            first = false;
        }
        left.into_iter().fold(0.0, f64::max)
    }

    fn pairs(n: u32) -> Vec<(u32, u32)> {
        (0..n).flat_map(|i| [((i + n - 1) % n, i), (i, i)]).collect()
    }

    #[test]
    fn an_even_ring_takes_every_step_with_its_latency() {
        let takes = [Takes { start: 2.7e-6, moving: 1e-5 }; 12];
        let got = repeated(&takes, &pairs(12), 22).unwrap();
        assert!((got / (22.0 * 12.7e-6) - 1.0).abs() < 1e-12, "{got}");
    }

    #[test]
    fn any_ring_takes_as_long_as_its_recurrence() {
        let mut random = Random::from_seed(17);
        let mut number = |most: usize| random.below(most);
        for case in 0..2000 {
            let n = 2 + number(9);
            let kinds = 1 + number(3);
            let take = |number: &mut dyn FnMut(usize) -> usize| Takes {
                start: number(5) as f64 * 0.5,
                moving: (1 + number(kinds)) as f64,
            };
            let takes: Vec<Takes> = (0..n).map(|_| take(&mut number)).collect();
            for repeats in [1, 2, n as u64 - 1, 2 * (n as u64 - 1), 5 * n as u64 + 3] {
                let (got, expected) =
                    (repeated(&takes, &pairs(n as u32), repeats).unwrap(), by_recurrence(&takes, repeats));
                assert!((got - expected).abs() < 1e-9, "{case}: {takes:?} {repeats}: {got} is not {expected}");
            }
        }
    }

    #[test]
    fn what_is_no_ring_has_no_closed_form() {
        let takes = [Takes { start: 1.0, moving: 1.0 }; 3];
        assert_eq!(repeated(&takes, &[(0, 0), (1, 1), (2, 2)], 4), None);
        assert_eq!(repeated(&takes, &[(0, 1), (1, 2), (2, 0)], 4), None);
        assert_eq!(repeated(&takes, &[(0, 1), (0, 2), (0, 0), (1, 1), (2, 2)], 4), None);
        assert_eq!(repeated(&takes, &[(0, 7)], 4), None);
    }
}
