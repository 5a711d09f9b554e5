//! One rank's trace for all ranks.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::{Among, Recording, TraceError, What, at_most};

/// The same for every rank, each with the groups that lie for it as those of the recorded rank do.
///
/// # Errors
/// Where groups lie irregularly, there are messages, or it would be too much.
pub(super) fn replicated(one: Recording, gpus: usize) -> Result<Vec<Recording>, TraceError> {
    let refuse = |why: String| TraceError::new(format!("{}: {why}", one.file));
    let of_records = one.records.iter().filter_map(|record| match &record.what {
        What::Collective { group: Among::Ranks(ranks, _), .. } => ranks.iter().max(),
        _ => None,
    });
    let last = of_records.chain(one.groups.values().flatten()).max().map(|last| *last as usize + 1);
    let world = one.world.map(|world| world as usize).max(last).unwrap_or(gpus);
    at_most(one.records.len().saturating_mul(world))?;
    let own = one.rank.filter(|rank| (*rank as usize) < world).unwrap_or(0);
    let mut all = Vec::with_capacity(world);
    let mut known: BTreeMap<Arc<[u32]>, Pattern> = BTreeMap::new();
    let everyone: Arc<[u32]> = (0..world as u32).collect();
    let listed: BTreeMap<&str, Arc<[u32]>> = one
        .groups
        .iter()
        .filter(|(_, ranks)| !ranks.is_empty())
        .map(|(name, ranks)| (name.as_str(), ranks.as_slice().into()))
        .collect();
    // by the first rank and the pattern, so that ranks share the lists of their groups
    let mut lists: BTreeMap<(u32, u32, u32), Arc<[u32]>> = BTreeMap::new();
    let bare = Recording { groups: BTreeMap::new(), ..one.clone() };
    for rank in 0..world as u32 {
        let mut of_rank = bare.clone();
        of_rank.rank = Some(rank);
        of_rank.world = None;
        for record in &mut of_rank.records {
            match &mut record.what {
                What::Send { .. } | What::Receive { .. } => {
                    return Err(refuse(format!(
                        "record {} is a message to or from another rank: give a file for each rank",
                        record.id
                    )));
                }
                What::Collective { group, .. } => {
                    let ranks = match &*group {
                        Among::Ranks(ranks, _) => Arc::clone(ranks),
                        Among::Named(name) => Arc::clone(listed.get(name.as_str()).unwrap_or(&everyone)),
                        Among::All => Arc::clone(&everyone),
                    };
                    if !known.contains_key(&ranks) {
                        let pattern = Pattern::of(&ranks, own, world).ok_or_else(|| {
                            refuse(format!(
                                "the group of {} lies irregularly among {world} ranks, so that those of other ranks are not known: give a \
                                 file for each rank",
                                super::named(&ranks)
                            ))
                        })?;
                        known.insert(Arc::clone(&ranks), pattern);
                    }
                    let name = if let Among::Ranks(_, name) | Among::Named(name) = &*group {
                        name.clone()
                    } else {
                        String::new()
                    };
                    let pattern = &known[&ranks];
                    let of_rank = lists
                        .entry((pattern.first(rank), pattern.stride, pattern.size))
                        .or_insert_with(|| pattern.at(rank).into());
                    *group = Among::Ranks(Arc::clone(of_rank), name);
                }
                _ => {}
            }
        }
        all.push(of_rank);
    }
    Ok(all)
}

/// Ranks at one distance from each other, and all ranks in such groups.
struct Pattern {
    stride: u32,
    size: u32,
}

impl Pattern {
    fn of(ranks: &[u32], own: u32, world: usize) -> Option<Self> {
        let mut sorted = ranks.to_vec();
        sorted.sort_unstable();
        let size = u32::try_from(sorted.len()).ok()?;
        let stride = match sorted.as_slice() {
            [first, second, ..] => second - first,
            _ => 1,
        };
        let pattern = Pattern { stride, size };
        let fits = stride > 0 && (world as u64).is_multiple_of(u64::from(stride) * u64::from(size));
        (fits && pattern.at(own) == sorted).then_some(pattern)
    }

    /// The first rank of the group that a rank is in.
    fn first(&self, rank: u32) -> u32 {
        let block = self.stride * self.size;
        rank / block * block + rank % self.stride
    }

    fn at(&self, rank: u32) -> Vec<u32> {
        let first = self.first(rank);
        (0..self.size).map(|i| first + i * self.stride).collect()
    }
}
