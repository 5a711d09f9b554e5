//! What NVIDIA's device plugin for Kubernetes would choose: the best-effort policy of go-gpuallocator, for comparison.
//!
//! Published facts (github.com/NVIDIA/go-gpuallocator, `gpuallocator/besteffort_policy.go` at 1ef5d10b and
//! `internal/links/device.go` at 52d9040d): a pair scores by its class, 10 across CPUs, 20 between host bridges of one CPU,
//! 30 at one host bridge, 40 over several switches, 50 over one, 60 on one board, and 100 more for each NVLink that leads
//! straight from one to the other; what lies behind an NVSwitch does not count. A set scores the sum of its pairs. All free
//! GPUs are divided into sets of the requested size; the first division with the highest sum wins, and of its sets the
//! first with the highest score. A rest that fills no set is one set, padded.

use super::sorted;
use peerlane_machine::fabric::{Fabric, NodeId, PathClass};

/// The most divisions that are gone through.
const MOST_DIVISIONS: u64 = 200_000;

/// A place of a set: a GPU, or what pads the rest.
type Place = Option<usize>;

/// What a pair of GPUs scores.
pub(super) fn pair_score(fabric: &Fabric, a: NodeId, b: NodeId) -> u32 {
    let class = fabric.tree_path(a, b).map_or(PathClass::Sys, |path| path.class);
    let near = match class {
        PathClass::Pix => 50,
        PathClass::Pxb => 40,
        PathClass::Phb => 30,
        PathClass::Node => 20,
        _ => 10,
    };
    let bricks = |link| fabric.link(link).kind.nvlinks();
    let straight = fabric.links_of(a).iter().filter(|(_, far)| *far == b).map(|(link, _)| bricks(*link)).sum::<u32>();
    near + 100 * straight
}

/// Which of the free GPUs it would take, in their order, where a pair scores `score`; `None` where there are too many
/// divisions to go through.
pub(super) fn choice(free: &[usize], size: usize, score: &impl Fn(usize, usize) -> u32) -> Option<Vec<usize>> {
    if size == 0 || free.len() < size {
        return None;
    }
    // every GPU is a set of its own, and none scores
    if size == 1 {
        return free.first().map(|gpu| vec![*gpu]);
    }
    let padding = free.len().next_multiple_of(size) - free.len();
    if divisions(free.len() + padding, size) > MOST_DIVISIONS {
        return None;
    }
    let places: Vec<Place> = free.iter().copied().map(Some).chain(std::iter::repeat_n(None, padding)).collect();
    let mut divider = Divider { size, padding, score, best: None };
    divider.divide(&places, &mut Vec::new());
    let (_, sets) = divider.best?;
    // of equals, the first
    let whole = sets.into_iter().rev().filter(|set| set.iter().all(Option::is_some));
    let best = whole.max_by_key(|set| set_score(set, score))?;
    Some(sorted(&best.into_iter().flatten().collect::<Vec<_>>()))
}

/// In how many ways `n` can be divided into sets of `size`, which divides it.
fn divisions(n: usize, size: usize) -> u64 {
    let choose = |n: u64, k: u64| (0..k).fold(1_u64, |ways, i| ways.saturating_mul(n - i) / (i + 1));
    let mut ways = 1_u64;
    let mut left = n;
    while left > size {
        ways = ways.saturating_mul(choose(left as u64 - 1, size as u64 - 1));
        left -= size;
    }
    ways
}

fn set_score(set: &[Place], score: &impl Fn(usize, usize) -> u32) -> u32 {
    let pairs = set.iter().enumerate().flat_map(|(at, a)| set[at + 1..].iter().map(move |b| (*a, *b)));
    pairs.filter_map(|(a, b)| Some(score(a?, b?))).sum()
}

struct Divider<'s, S> {
    size: usize,
    padding: usize,
    score: &'s S,
    best: Option<(u32, Vec<Vec<Place>>)>,
}

impl<S: Fn(usize, usize) -> u32> Divider<'_, S> {
    /// The first place that is left with every choice of others.
    fn divide(&mut self, places: &[Place], sets: &mut Vec<Vec<Place>>) {
        let Some((first, rest)) = places.split_first() else {
            let sum = sets.iter().map(|set| set_score(set, self.score)).sum();
            if self.best.as_ref().is_none_or(|(most, _)| sum > *most) {
                self.best = Some((sum, sets.clone()));
            }
            return;
        };
        self.choose(rest, 0, &mut vec![*first], &mut Vec::new(), sets);
    }

    fn choose(
        &mut self,
        rest: &[Place],
        from: usize,
        set: &mut Vec<Place>,
        chosen: &mut Vec<usize>,
        sets: &mut Vec<Vec<Place>>,
    ) {
        if set.len() == self.size {
            let padded = set.iter().filter(|place| place.is_none()).count();
            // a set holds all of the padding or none, but for the last, which takes what is left
            if padded == 0 || padded == self.padding || rest.len() == chosen.len() {
                let left: Vec<Place> = (0..rest.len()).filter(|at| !chosen.contains(at)).map(|at| rest[at]).collect();
                sets.push(set.clone());
                self.divide(&left, sets);
                sets.pop();
            }
            return;
        }
        // the last choices that leave enough for the set
        let missing = self.size - set.len();
        for at in from..(rest.len() + 1).saturating_sub(missing) {
            set.push(rest[at]);
            chosen.push(at);
            self.choose(rest, at + 1, set, chosen, sets);
            chosen.pop();
            set.pop();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use peerlane_machine::fabric::NodeKind;
    use peerlane_read::catalogue::system;

    fn chosen(name: &str, free: &[usize], size: usize) -> Option<Vec<usize>> {
        let machine = system(name).unwrap().unwrap();
        let gpus: Vec<NodeId> = machine.fabric.of_kind(NodeKind::Gpu).collect();
        choice(free, size, &|a, b| pair_score(&machine.fabric, gpus[a], gpus[b]))
    }

    #[test]
    fn a_set_of_all_gpus_is_found_at_once() {
        let all: Vec<usize> = (0..64).collect();
        assert_eq!(choice(&all, 64, &|_, _| 10), Some(all));
    }

    #[test]
    fn scores_of_the_hybrid_cube_mesh() {
        let machine = system("dgx-1v").unwrap().unwrap();
        let score = |a: &str, b: &str| {
            let gpu = |name| machine.fabric.find(name).unwrap();
            pair_score(&machine.fabric, gpu(a), gpu(b))
        };
        // two NVLinks across the sockets, two below one host bridge, one below one switch, none
        assert_eq!(score("GPU0", "GPU4"), 210);
        assert_eq!((score("GPU0", "GPU1"), score("GPU0", "GPU5")), (150, 10));
    }

    #[test]
    fn it_divides_all_that_is_free() {
        let all: Vec<usize> = (0..8).collect();
        assert_eq!(chosen("dgx-1v", &all, 4), Some(vec![0, 1, 2, 3]));
        // one by itself, then the pair of highest score that leaves the others paired, too
        assert_eq!(chosen("dgx-1v", &all, 1), Some(vec![0]));
        assert_eq!(chosen("dgx-1v", &[0, 1, 2, 3], 2), Some(vec![0, 3]));
        // three of four: the rest is padded
        assert_eq!(chosen("exxact-traditional", &[0, 1, 2, 3], 3), Some(vec![0, 1, 2]));
        assert_eq!(chosen("exxact-traditional", &[0], 2), None);
        let many: Vec<usize> = (0..20).collect();
        assert_eq!(chosen("exxact-txr414-20", &many, 4), None);
    }
}
