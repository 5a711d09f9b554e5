//! Random machines: GPUs of mixed widths below one to four levels of shared links and limits.

use peerlane::infer::{Group, Hypothesis, Members};

use peerlane::random::Random;

/// GB/s that a PCIe 3.0 x16 link delivers, near enough.
const X16: f64 = 12.4;

/// A machine of so many GPUs, which are numbered in no order.
pub(crate) fn tree(random: &mut Random) -> Hypothesis {
    let n = 2 + random.below(31);
    let levels = 1 + random.below(4);
    // most machines have GPUs of one width, with some on narrower links
    let usual = [16.0, 16.0, 16.0, 8.0, 4.0][random.below(5)];
    let mixed = random.uniform() < 0.5;
    let widths = [16.0, 8.0, 4.0, 1.0];
    let solo: Vec<f64> = (0..n)
        .map(|_| X16 / 16.0 * if mixed && random.uniform() < 0.3 { widths[random.below(4)] } else { usual })
        .collect();
    let mut order: Vec<usize> = (0..n).collect();
    for i in (1..n).rev() {
        order.swap(i, random.below(i + 1));
    }
    let mut machine = Hypothesis::new(solo, Vec::new());
    let mut branches: Vec<Vec<usize>> = vec![order];
    let mut by_level: Vec<Vec<Vec<usize>>> = Vec::new();
    for _ in 0..levels {
        by_level.push(branches.clone());
        branches = branches.iter().flat_map(|b| divided(b, random)).collect();
    }
    // from the GPUs up, so that a limit follows from what hangs below it
    for level in by_level.into_iter().rev() {
        for branch in level.into_iter().filter(|b| b.len() > 1) {
            let members: Members = branch.into_iter().collect();
            let below = machine.total(members);
            let capacity = if random.uniform() < 0.5 {
                // a link of some width, as wide as the widest GPU or wider
                let widest = members.iter().map(|i| machine.alone(i)).fold(0.0, f64::max);
                [X16 / 4.0, X16 / 2.0, X16, X16 * 2.0].into_iter().find(|c| *c >= widest && random.uniform() < 0.6)
            } else {
                Some(below * (0.35 + 0.6 * random.uniform()))
            };
            if let Some(capacity) = capacity {
                machine.groups.push(Group { members, capacity });
            }
        }
    }
    machine
}

/// A branch in two to four parts, or as it is.
fn divided(branch: &[usize], random: &mut Random) -> Vec<Vec<usize>> {
    let parts = (2 + random.below(3)).min(branch.len());
    let even = random.uniform() < 0.6;
    let mut all: Vec<Vec<usize>> = vec![Vec::new(); parts];
    for (i, gpu) in branch.iter().enumerate() {
        let part = if even || i < parts { i * parts / branch.len().max(1) } else { random.below(parts) };
        all[part.min(parts - 1)].push(*gpu);
    }
    all.retain(|p| !p.is_empty());
    all
}
