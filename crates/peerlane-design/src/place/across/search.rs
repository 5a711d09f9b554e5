//! The search for the best placement on a cluster.
//!
//! Few placements are all looked at. Of many, jobs are first laid out in a few ways: on few nodes or evenly over more, on nodes
//! that are near each other in the network, on the same GPUs of each; then whole nodes and single GPUs are exchanged as long
//! as that helps. Where the slowest job reaches what no placement can exceed, nothing faster is possible.

use std::collections::HashMap;

use super::super::workload::Workload;
use super::rates::{Carried, Jobs, Rates};
use crate::cluster::ClusterError;

/// Equal but for rounding.
const ROUNDING: f64 = 1e-9;
/// Transfers that may be solved to look at every placement, and to improve one.
const ALL: usize = 40_000;
const IMPROVING: usize = 150_000;
/// Choices of GPUs within a node that are compared.
const MOST_CHOICES: usize = 70;

/// How good a placement is.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Score {
    /// The jobs' paces in bytes a second, the slowest first.
    paces: Vec<f64>,
    /// Links of the network that all transfers cross, summed.
    links: usize,
}

impl Score {
    fn of(carried: &[Carried]) -> Self {
        let mut paces: Vec<f64> = carried.iter().map(|c| c.pace).collect();
        paces.sort_by(f64::total_cmp);
        Score { paces, links: carried.iter().map(|c| c.links).sum() }
    }

    pub(super) fn pace(&self) -> f64 {
        self.paces.first().copied().unwrap_or(0.0)
    }

    /// The slowest job decides, then the next; then how few links are crossed.
    fn beats(&self, other: &Score) -> bool {
        for (own, theirs) in self.paces.iter().zip(&other.paces) {
            if *own > theirs * (1.0 + ROUNDING) {
                return true;
            }
            if *own < theirs * (1.0 - ROUNDING) {
                return false;
            }
        }
        self.links < other.links
    }
}

/// What was found.
#[derive(Clone, Debug)]
pub(super) struct Found {
    pub jobs: Jobs,
    pub score: Score,
    /// Whether no other placement has a faster slowest job.
    pub exact: bool,
    /// Whether every job carries the most that it can.
    at_bound: bool,
    /// The slowest job of the worst placement, where all were looked at.
    pub worst: Option<f64>,
}

/// What is to be placed.
pub(super) struct Search<'s, 'c, 'f, 'm> {
    pub rates: &'s mut Rates<'c, 'f, 'm>,
    pub sizes: &'s [usize],
    /// GPUs that may be taken, in order.
    pub free: Vec<usize>,
    /// GPUs that others use.
    pub busy: Vec<usize>,
    /// By size of a job the most that one carries, as far as it was asked for.
    pub known: HashMap<usize, f64>,
}

impl Search<'_, '_, '_, '_> {
    /// The jobs filled with free GPUs by their numbers.
    pub(super) fn by_number(&self) -> Jobs {
        self.filled(&self.free)
    }

    /// The jobs filled with one GPU of each node in turn, as Slurm's cyclic distribution does.
    pub(super) fn in_turn(&self) -> Jobs {
        let mut order = self.free.clone();
        order.sort_by_key(|gpu| (self.rates.local(*gpu), self.rates.node_of(*gpu)));
        self.filled(&order)
    }

    fn filled(&self, order: &[usize]) -> Jobs {
        let mut free = order.iter().copied();
        self.sizes.iter().map(|size| free.by_ref().take(*size).collect()).collect()
    }

    pub(super) fn score(&mut self, jobs: &Jobs) -> Result<Score, ClusterError> {
        Ok(Score::of(&self.rates.carried(jobs, &self.busy)?))
    }

    /// The best placement.
    pub(super) fn best(&mut self) -> Result<Found, ClusterError> {
        let jobs = self.by_number();
        let score = self.score(&jobs)?;
        let transfers = self.rates.solved.max(1);
        let at_bound = self.is_most(&jobs, &score)?;
        let mut found = Found { jobs, score, exact: false, at_bound, worst: None };
        let all = self.count();
        if all.is_some_and(|all| all.saturating_mul(transfers) <= ALL) {
            (found.worst, found.at_bound) = (Some(found.score.pace()), false);
            self.every(&mut vec![Vec::new()], &mut found)?;
            found.exact = !self.rates.workload.is_ordered();
        } else {
            for jobs in [self.in_turn()].into_iter().chain(self.layouts()) {
                self.look(jobs, &mut found)?;
            }
            self.improve(&mut found)?;
        }
        let bound = self.bound()?;
        found.exact = found.exact || found.score.pace() >= bound * (1.0 - 1e-6);
        Ok(found)
    }

    fn look(&mut self, jobs: Jobs, found: &mut Found) -> Result<bool, ClusterError> {
        let jobs: Jobs = jobs.into_iter().map(|job| self.ordered(&job)).collect();
        // where nothing can be faster, only what crosses fewer links is better
        if found.at_bound && self.rates.crossed(&jobs)? >= found.score.links {
            return Ok(false);
        }
        let score = self.score(&jobs)?;
        if let Some(worst) = &mut found.worst {
            *worst = worst.min(score.pace());
        }
        let better = score.beats(&found.score);
        if better {
            (found.jobs, found.score) = (jobs, score);
            found.at_bound = found.worst.is_none() && self.is_most(&found.jobs, &found.score)?;
        }
        Ok(better)
    }

    /// How many ways there are to choose the jobs' GPUs; `None` where that is a large number.
    fn count(&self) -> Option<usize> {
        let mut left = self.free.len();
        let mut all = 1_usize;
        for size in self.sizes {
            for i in 0..*size {
                all = all.checked_mul(left - i)? / (i + 1);
            }
            left -= size;
        }
        Some(all)
    }

    /// Looks at every choice of GPUs that continues this one; jobs of one size begin in the order of their first GPUs.
    fn every(&mut self, jobs: &mut Jobs, found: &mut Found) -> Result<(), ClusterError> {
        let Some(job) = jobs.last() else { return Ok(()) };
        let (at, filled) = (jobs.len() - 1, job.len());
        if filled == self.sizes[at] {
            if jobs.len() == self.sizes.len() {
                self.look(jobs.clone(), found)?;
                return Ok(());
            }
            jobs.push(Vec::new());
            self.every(jobs, found)?;
            jobs.pop();
            return Ok(());
        }
        let twin = at.checked_sub(1).filter(|before| self.sizes[*before] == self.sizes[at]);
        let least = match job.last() {
            Some(last) => last + 1,
            None => twin.map_or(0, |before| jobs[before][0] + 1),
        };
        let open: Vec<usize> =
            self.free.iter().copied().filter(|gpu| *gpu >= least && !jobs.concat().contains(gpu)).collect();
        for gpu in open {
            jobs[at].push(gpu);
            self.every(jobs, found)?;
            jobs[at].pop();
        }
        Ok(())
    }

    /// A job's GPUs node by node, nodes along a short tour of the network, the GPUs of each as a ring passes them.
    fn ordered(&mut self, job: &[usize]) -> Vec<usize> {
        let per_node = self.rates.gpus.len();
        let mut sorted = job.to_vec();
        sorted.sort_unstable();
        let groups: Vec<Vec<usize>> =
            sorted.chunk_by(|a, b| a / per_node == b / per_node).map(<[usize]>::to_vec).collect();
        let mut ordered = Vec::with_capacity(job.len());
        for group in self.tour(groups) {
            let first = group[0] - group[0] % per_node;
            let local: Vec<usize> = group.iter().map(|gpu| gpu % per_node).collect();
            ordered.extend(self.rates.order(&local).into_iter().map(|at| first + at));
        }
        ordered
    }

    /// From each node to the nearest that is left, and then sections turned round as long as that makes the tour shorter.
    fn tour(&self, mut groups: Vec<Vec<usize>>) -> Vec<Vec<usize>> {
        if groups.len() < 4 {
            return groups;
        }
        let far = |a: &Vec<usize>, b: &Vec<usize>| self.rates.links(a[0], b[0]);
        let n = groups.len();
        let mut left = groups.split_off(1);
        while let Some(here) = groups.last().filter(|_| !left.is_empty()) {
            let near = (0..left.len()).min_by_key(|at| far(here, &left[*at])).unwrap_or(0);
            groups.push(left.remove(near));
        }
        let distances: Vec<Vec<usize>> = groups.iter().map(|a| groups.iter().map(|b| far(a, b)).collect()).collect();
        let mut order: Vec<usize> = (0..n).collect();
        let mut shorter = true;
        while shorter {
            shorter = false;
            for i in 0..n - 1 {
                for j in i + 1..n {
                    let [a, b, c, d] = [order[i], order[i + 1], order[j], order[(j + 1) % n]];
                    if a != d && distances[a][c] + distances[b][d] < distances[a][b] + distances[c][d] {
                        order[i + 1..=j].reverse();
                        shorter = true;
                    }
                }
            }
        }
        order.into_iter().map(|at| groups[at].clone()).collect()
    }

    /// Placements of all jobs on few nodes, and with ever fewer GPUs of each.
    fn layouts(&mut self) -> Vec<Jobs> {
        let most = self.rates.gpus.len().min(self.sizes.iter().copied().max().unwrap_or(1));
        let mut shares: Vec<usize> = (1..=most).rev().filter(|share| most.is_multiple_of(*share)).collect();
        shares.extend((1..most).rev().filter(|share| !most.is_multiple_of(*share)).take(2));
        shares.into_iter().filter_map(|share| self.laid_out(share)).collect()
    }

    /// The largest job first, each with up to so many GPUs a node.
    fn laid_out(&mut self, share: usize) -> Option<Jobs> {
        let mut free: Vec<Vec<usize>> = vec![Vec::new(); self.rates.nodes];
        self.free.iter().for_each(|gpu| free[self.rates.node_of(*gpu)].push(self.rates.local(*gpu)));
        let mut sequence: Vec<usize> = (0..self.sizes.len()).collect();
        sequence.sort_by_key(|job| std::cmp::Reverse(self.sizes[*job]));
        let mut jobs = vec![Vec::new(); self.sizes.len()];
        for job in sequence {
            jobs[job] = self.one_laid_out(self.sizes[job], share, &mut free)?;
        }
        Some(jobs)
    }

    fn one_laid_out(&mut self, size: usize, share: usize, free: &mut [Vec<usize>]) -> Option<Vec<usize>> {
        let per_node = self.rates.gpus.len();
        let mut chosen: Vec<usize> = Vec::new();
        let mut like: Vec<usize> = Vec::new();
        while chosen.len() < size {
            let wanted = share.min(size - chosen.len());
            let used = |node: usize| chosen.iter().any(|gpu| gpu / per_node == node);
            // a node with room for all that is wanted, else that with most; near those so far, and filled by it
            let room = |node: usize| free[node].len().min(wanted);
            let most = (0..free.len()).filter(|node| !used(*node)).map(room).max().filter(|most| *most > 0)?;
            let first = chosen.first().copied();
            let key = |node: &usize| {
                let gpu = node * per_node + free[*node][0];
                (first.map_or(0, |first| self.rates.links(first, gpu)), free[*node].len(), *node)
            };
            let node = (0..free.len()).filter(|node| !used(*node) && room(*node) == most).min_by_key(key)?;
            let same = !like.is_empty() && like.len() == most && like.iter().all(|gpu| free[node].contains(gpu));
            let local = if same { like.clone() } else { self.chosen_within(&free[node], most, size > most) };
            free[node].retain(|gpu| !local.contains(gpu));
            chosen.extend(local.iter().map(|gpu| node * per_node + gpu));
            like = local;
        }
        Some(chosen)
    }

    /// So many of a node's free GPUs: with most NICs where they send to other nodes, and the fastest rings.
    fn chosen_within(&mut self, free: &[usize], take: usize, leaves: bool) -> Vec<usize> {
        let mut best: Option<(usize, f64, Vec<usize>)> = None;
        for choice in choices(free, take) {
            let nics = if leaves { self.rates.nics_of(&choice) } else { 0 };
            let rate = self.rates.within(&choice);
            let better = best.as_ref().is_none_or(|(n, r, _)| nics > *n || (nics == *n && rate > r * (1.0 + ROUNDING)));
            if better {
                best = Some((nics, rate, choice));
            }
        }
        best.map_or_else(|| free[..take.min(free.len())].to_vec(), |(.., choice)| choice)
    }

    /// Exchanges nodes, and then GPUs of the slowest job, as long as that helps.
    fn improve(&mut self, found: &mut Found) -> Result<(), ClusterError> {
        let until = self.rates.solved + IMPROVING;
        let (nodes, per_node) = (self.rates.nodes, self.rates.gpus.len());
        let bound = self.bound()?;
        let mut free = vec![false; self.rates.len()];
        self.free.iter().for_each(|gpu| free[*gpu] = true);
        let of_node = |node: usize| node * per_node..(node + 1) * per_node;
        let mut better = true;
        while better && self.rates.solved < until {
            better = false;
            let mut owners = owners(&found.jobs, free.len());
            for (a, b) in (0..nodes).flat_map(|a| (a + 1..nodes).map(move |b| (a, b))) {
                let fits = free[of_node(a)] == free[of_node(b)];
                let differ = owners[of_node(a)] != owners[of_node(b)];
                if self.rates.solved >= until || !fits || !differ {
                    continue;
                }
                let moved = |gpu: &usize| match gpu / per_node {
                    node if node == a => gpu % per_node + b * per_node,
                    node if node == b => gpu % per_node + a * per_node,
                    _ => *gpu,
                };
                let jobs = found.jobs.iter().map(|job| job.iter().map(moved).collect()).collect();
                if self.look(jobs, found)? {
                    better = true;
                    owners = self::owners(&found.jobs, free.len());
                }
            }
            if found.score.pace() >= bound * (1.0 - 1e-6) {
                continue;
            }
            let carried = self.rates.carried(&found.jobs, &self.busy)?;
            let slowest = (0..carried.len()).min_by(|a, b| carried[*a].pace.total_cmp(&carried[*b].pace));
            let Some(slowest) = slowest else { return Ok(()) };
            let others = self.free.clone();
            let exchanges = (0..self.sizes[slowest]).flat_map(|at| others.iter().map(move |gpu| (at, *gpu)));
            for (at, other) in exchanges {
                let gpu = found.jobs[slowest][at];
                if self.rates.solved >= until || found.jobs[slowest].contains(&other) {
                    continue;
                }
                let moved = |g: &usize| match *g {
                    g if g == gpu => other,
                    g if g == other => gpu,
                    g => g,
                };
                let jobs = found.jobs.iter().map(|job| job.iter().map(moved).collect()).collect();
                better |= self.look(jobs, found)?;
            }
        }
        Ok(())
    }

    /// No placement has a faster slowest job, in bytes a second.
    pub(super) fn bound(&mut self) -> Result<f64, ClusterError> {
        let mut least = f64::INFINITY;
        let mut sizes = self.sizes.to_vec();
        sizes.sort_unstable();
        sizes.dedup();
        for size in sizes {
            least = least.min(self.most(size)?);
        }
        Ok(least)
    }

    /// Whether each job carries the most that one of its size can.
    fn is_most(&mut self, jobs: &Jobs, score: &Score) -> Result<bool, ClusterError> {
        let mut most = jobs.iter().map(|job| self.most(job.len())).collect::<Result<Vec<f64>, _>>()?;
        most.sort_by(f64::total_cmp);
        Ok(score.paces.iter().zip(&most).all(|(pace, most)| *pace >= most * (1.0 - 1e-6)))
    }

    /// The most that any job of this size carries.
    fn most(&mut self, size: usize) -> Result<f64, ClusterError> {
        if let Some(known) = self.known.get(&size) {
            return Ok(*known);
        }
        let most = self.found_most(size)?;
        self.known.insert(size, most);
        Ok(most)
    }

    fn found_most(&mut self, size: usize) -> Result<f64, ClusterError> {
        let per_node = self.rates.gpus.len();
        if self.rates.workload.of(size) != Workload::AllReduce {
            return self.fastest_transfer(size);
        }
        let within = if size <= per_node { self.most_within(size) } else { 0.0 };
        if self.rates.nodes < 2 {
            return Ok(within);
        }
        // over several nodes: a ring a NIC, and of two nodes or more one has no more GPUs than this
        let fewest_nodes = size.div_ceil(per_node).max(2);
        let mut nics = self.rates.nic_rates()?;
        nics.sort_by(|a, b| b.total_cmp(a));
        let across: f64 = nics.iter().take(size / fewest_nodes).sum();
        Ok(within.max(across))
    }

    /// The most that rings of so many GPUs of one node carry: of every choice where there are few, else what goes through
    /// the least of the GPUs that carry most.
    fn most_within(&mut self, size: usize) -> f64 {
        let all: Vec<usize> = (0..self.rates.gpus.len()).collect();
        if let Some(choices) = every_choice(&all, size) {
            let rates = choices.iter().map(|choice| self.rates.proven_within(choice));
            if let Some(rates) = rates.collect::<Option<Vec<f64>>>() {
                return rates.into_iter().fold(0.0, f64::max);
            }
        }
        let mut through = self.rates.through();
        through.sort_by(|a, b| b.total_cmp(a));
        through.get(size - 1).copied().unwrap_or(0.0)
    }

    /// The fastest transfer of a job of this size which has to make one: between nodes, where no node holds it.
    fn fastest_transfer(&mut self, size: usize) -> Result<f64, ClusterError> {
        let per_node = self.rates.gpus.len();
        let joined = matches!(self.rates.workload, Workload::Ring | Workload::AllToAll | Workload::Halo);
        if size < 2 || self.rates.workload == Workload::HostFeed {
            return Ok(f64::INFINITY);
        }
        let mut most = 0.0_f64;
        for (a, b) in (0..per_node).flat_map(|a| (0..per_node).map(move |b| (a, b))) {
            if self.rates.nodes > 1 {
                most = most.max(self.rates.alone(a, per_node + b)?);
            }
            if a != b && !(joined && size > per_node) {
                most = most.max(self.rates.alone(a, b)?);
            }
        }
        Ok(most)
    }
}

/// By GPU the job that has it.
fn owners(jobs: &Jobs, gpus: usize) -> Vec<Option<usize>> {
    let mut owners = vec![None; gpus];
    for (at, job) in jobs.iter().enumerate() {
        job.iter().for_each(|gpu| owners[*gpu] = Some(at));
    }
    owners
}

/// Every choice of so many; runs of neighbours where there are too many.
fn choices(of: &[usize], take: usize) -> Vec<Vec<usize>> {
    every_choice(of, take).unwrap_or_else(|| of.windows(take).map(<[usize]>::to_vec).collect())
}

/// Every choice of so many; `None` where there are too many.
fn every_choice(of: &[usize], take: usize) -> Option<Vec<Vec<usize>>> {
    let mut count = 1_usize;
    for i in 0..take.min(of.len()) {
        count = count.saturating_mul(of.len() - i) / (i + 1);
    }
    if count > MOST_CHOICES {
        return None;
    }
    let mut all = Vec::new();
    let mut open: Vec<(usize, Vec<usize>)> = vec![(0, Vec::new())];
    while let Some((from, chosen)) = open.pop() {
        if chosen.len() == take {
            all.push(chosen);
            continue;
        }
        for at in (from..of.len()).rev() {
            open.push((at + 1, [chosen.as_slice(), &[of[at]]].concat()));
        }
    }
    Some(all)
}
