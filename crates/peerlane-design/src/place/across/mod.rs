//! Where jobs should go on a cluster: which nodes, and which GPUs of each.
//!
//! `docs/placement.md` defines what is best and how it is found.

mod rates;
mod search;
#[cfg(test)]
mod tests;

use std::collections::HashMap;

use super::workload::Workload;
use super::{ALIKE, Choice, Compared, PlaceError, PlacementDocument, Request, gb, locality};
use crate::cluster::{Cluster, ClusterError};
use peerlane_machine::matrix::Engine;
use peerlane_machine::names::{list, ranges};
use peerlane_machine::units::Rate;
use peerlane_model::collectives::Ring;
use peerlane_model::flows::Flows;
use peerlane_model::model::Model;
use peerlane_read::catalogue::Parts;
use rates::{Carried, Jobs, Rates};
use search::Search;

/// Up to so many GPUs of a cluster are placed.
pub const MOST_ACROSS: usize = 1024;
/// Up to so many transfers at once: an all-to-all of 140 GPUs.
const MOST_TRANSFERS: usize = 20_000;

/// Finds where jobs should go on a cluster.
///
/// # Errors
/// Where the request does not fit the cluster, or a rate is not known.
pub fn place_across(cluster: &Cluster, request: &Request) -> Result<PlacementDocument, PlaceError> {
    let name = || cluster.name.clone();
    let gpus = cluster.places().len();
    if gpus == 0 {
        return Err(PlaceError::NoGpu(name()));
    }
    if gpus > MOST_ACROSS {
        return Err(PlaceError::TooManyAcross(name(), gpus));
    }
    if request.nics.is_some() {
        return Err(PlaceError::NicsAcross);
    }
    let unknown = |e: ClusterError| PlaceError::Unknown { machine: name(), why: e.to_string() };
    let model = Model::new(&cluster.node, Parts::embedded());
    let flows = Flows::new(&model, Engine::Sm);
    let mut rates = Rates::new(cluster, &flows, request.workload);
    let busy = busy(cluster, &rates, &request.busy)?;
    let free: Vec<usize> = (0..gpus).filter(|gpu| busy.binary_search(gpu).is_err()).collect();
    let sizes = if request.jobs.is_empty() { vec![free.len()] } else { request.jobs.clone() };
    let wanted = sizes.iter().fold(0_usize, |sum, size| sum.saturating_add(*size));
    if sizes.contains(&0) && !free.is_empty() {
        return Err(PlaceError::Empty);
    }
    if wanted > free.len() || free.is_empty() {
        return Err(PlaceError::TooFew { wanted: wanted.max(1), free: free.len(), machine: name() });
    }
    let transfers = sizes.iter().map(|size| request.workload.count(*size)).sum();
    if transfers > MOST_TRANSFERS {
        return Err(PlaceError::TooManyTransfers { workload: request.workload, transfers, most: MOST_TRANSFERS });
    }
    let mut search = Search { rates: &mut rates, sizes: &sizes, free, busy: busy.clone(), known: HashMap::new() };
    let found = search.best().map_err(unknown)?;
    if found.score.pace() <= 0.0 {
        return Err(unknown(ClusterError::Model("a width or a part on the path is not known".to_owned())));
    }
    let others = [("by number", search.by_number()), ("nodes in turn", search.in_turn())];
    let by_number = others[0].1.clone();
    let mut report = Report { rates: &mut rates, busy: &busy };
    let here = report.rates.carried(&found.jobs, &busy).map_err(unknown)?;
    let there = report.rates.carried(&by_number, &busy).map_err(unknown)?;
    let mut choices = Vec::with_capacity(sizes.len());
    for (at, job) in found.jobs.iter().enumerate() {
        choices.push(report.choice(job, &here[at], (&by_number[at], &there[at])).map_err(unknown)?);
    }
    let mut compared = Vec::new();
    for (who, jobs) in others {
        compared.extend(report.compared(who, &jobs, found.score.pace()).map_err(unknown)?);
    }
    let worst = found.worst.and_then(gb);
    let equal = found.worst.filter(|worst| found.exact && *worst >= found.score.pace() * (1.0 - ALIKE)).map(|_| {
        let bound =
            here.first().and_then(|c| c.bound_by.as_ref()).map_or_else(String::new, |by| format!(", bound by {by}"));
        format!("every choice of GPUs has the same rate{bound}")
    });
    Ok(PlacementDocument {
        schema: "peerlane/placement/2",
        machine: name(),
        nodes: Some(report.rates.nodes as u32),
        workload: request.workload,
        busy: busy.iter().map(|gpu| report.rates.name(*gpu)).collect(),
        choices,
        exact: found.exact,
        worst,
        equal,
        compared,
        assumptions: cluster.assumptions.clone(),
    })
}

/// GPUs that others use, in order.
fn busy(cluster: &Cluster, rates: &Rates, names: &[String]) -> Result<Vec<usize>, PlaceError> {
    let at = |name: &String| {
        let place = cluster.find(name.trim()).ok();
        (0..rates.len()).find(|gpu| Some(rates.place(*gpu)) == place).ok_or_else(|| {
            let all: Vec<String> = (0..rates.len()).map(|gpu| rates.name(gpu)).collect();
            PlaceError::NoSuchGpu(cluster.name.clone(), name.chars().take(40).collect(), list(&all))
        })
    };
    let mut busy = names.iter().map(at).collect::<Result<Vec<_>, _>>()?;
    busy.sort_unstable();
    busy.dedup();
    Ok(busy)
}

struct Report<'r, 'c, 'f, 'm> {
    rates: &'r mut Rates<'c, 'f, 'm>,
    busy: &'r [usize],
}

impl Report<'_, '_, '_, '_> {
    fn names(&self, gpus: &[usize]) -> Vec<String> {
        gpus.iter().map(|gpu| self.rates.name(*gpu)).collect()
    }

    fn choice(
        &mut self,
        job: &[usize],
        here: &Carried,
        by_number: (&Vec<usize>, &Carried),
    ) -> Result<Choice, ClusterError> {
        let alone = self.rates.carried(std::slice::from_ref(&job.to_vec()), self.busy)?;
        let rings = (!here.rings.is_empty()).then(|| {
            let named = |ring: Vec<_>| ring.into_iter().map(|place| self.rates.cluster.name_of(place)).collect();
            let orders: Vec<Vec<String>> = self.rates.rings(job).into_iter().map(named).collect();
            orders.into_iter().zip(&here.rings).map(|(order, pace)| Ring { order, rate: pace / 1e9 }).collect()
        });
        let mut sorted = job.to_vec();
        sorted.sort_unstable();
        let fabric = &self.rates.cluster.node.fabric;
        let device = |gpu: &usize| self.rates.place(*gpu).device;
        let gain = here.pace / by_number.1.pace - 1.0;
        Ok(Choice {
            gpus: self.names(&sorted),
            order: self.names(job),
            nics: job.iter().map(|gpu| self.rates.nic_name(*gpu)).collect(),
            nic_rate: None,
            cores: job.iter().map(|gpu| locality::share(fabric, device(gpu)).map(|c| c.to_string())).collect(),
            memory: job.iter().map(|gpu| locality::memory(fabric, device(gpu))).collect(),
            rings,
            predicted: gb(here.pace),
            alone: alone.first().and_then(|c| gb(c.pace)),
            gain: Some(gain).filter(|gain| gain.is_finite()),
            reason: self.reason(&sorted, here, by_number),
            halo: None,
        })
    }

    /// What carries a job's data, what binds it, and how the GPUs by number differ.
    fn reason(&self, job: &[usize], here: &Carried, (default, there): (&Vec<usize>, &Carried)) -> String {
        let rate = |carried: &Carried| {
            let bound = carried.bound_by.as_ref().map_or_else(String::new, |by| format!(", bound by {by}"));
            format!("{}{bound}", Rate::from_bytes_per_second(carried.pace))
        };
        if !here.pace.is_finite() {
            return "it sends nothing".to_owned();
        }
        let by_rings = self.rates.workload.of(job.len()) == Workload::AllReduce;
        let mut reason = match here.rings.len() {
            _ if !by_rings => format!("the slowest transfer has {}", rate(here)),
            1 => format!("its ring carries {}", rate(here)),
            count => format!("its {count} rings carry {}", rate(here)),
        };
        let mut nodes: Vec<usize> = job.iter().map(|gpu| self.rates.node_of(*gpu)).collect();
        nodes.dedup();
        match nodes.as_slice() {
            [only] => reason.push_str(&format!("; all of its GPUs are in node{only}")),
            several => {
                let leaves = here.links;
                reason
                    .push_str(&format!("; {} nodes, {leaves} links of the network on all of its paths", several.len()));
            }
        }
        let mut default = default.clone();
        default.sort_unstable();
        if default == job {
            return reason;
        }
        let names = ranges(&self.names(&default));
        let gpus = if names.len() > 80 { "the GPUs by number".to_owned() } else { format!("by number ({names})") };
        let faster = here.pace > there.pace * (1.0 + ALIKE);
        match (faster, here.links < there.links) {
            (true, _) => reason.push_str(&format!("; {gpus}: {}", rate(there))),
            (false, true) => reason.push_str(&format!("; {gpus}: {} links", there.links)),
            (false, false) => {}
        }
        reason
    }

    fn compared(&mut self, who: &str, jobs: &Jobs, best: f64) -> Result<Option<Compared>, ClusterError> {
        let carried = self.rates.carried(jobs, self.busy)?;
        let pace = carried.iter().map(|c| c.pace).fold(f64::INFINITY, f64::min);
        let jobs = jobs.iter().map(|job| self.names(job)).collect();
        let gain = best / pace - 1.0;
        Ok(gb(pace).map(|predicted| Compared { name: who.to_owned(), jobs, predicted, gain }))
    }
}
