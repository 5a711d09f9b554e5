//! The certificate by which a solution is recognised, whoever found it and however.

use super::problem::{FULLEST, LEAST, Problem, Solution};
use super::share::Binding;

/// Says what is wrong with rates, if anything is by more than `tolerance` (relative): a capacity exceeded with what is
/// burdened taken off it, a flow above its cap, one that neither its cap nor a full resource on which none has more per
/// weight holds, or a wait that is not that of the queue which these rates cause.
pub fn certify(problem: &Problem, solution: &Solution, tolerance: f64) -> Result<(), String> {
    let resources = problem.capacities.len();
    let mut waits = vec![0.0; resources];
    let mut servers: Vec<usize> = problem.waits.iter().flatten().map(|w| w.server).collect();
    servers.sort_unstable();
    servers.dedup();
    for server in servers.into_iter().filter(|server| problem.services[*server] > 0.0) {
        let known = problem.name(server).and_then(|name| solution.waits.iter().find(|(of, _)| *of == name));
        waits[server] = known.map_or(0.0, |(_, ns)| *ns);
        queue(problem, server, &solution.rates, waits[server], tolerance)?;
    }
    let caps = problem.caps();
    let mut used = vec![0.0; resources];
    let mut left = problem.capacities.clone();
    let mut highest = vec![0.0_f64; resources];
    for (i, flow) in problem.flows.iter().enumerate() {
        let rate = *solution.rates.get(i).ok_or_else(|| format!("flow {i} has no rate"))?;
        if !rate.is_finite() {
            continue;
        }
        for &(r, per_byte) in &flow.uses {
            used[r] += rate * per_byte;
            highest[r] = highest[r].max(rate / flow.weight);
        }
        problem.waits[i].iter().for_each(|w| used[w.window] += rate * w.per_ns * waits[w.server]);
        problem.burdens[i].iter().for_each(|&(r, per_byte)| left[r] -= rate * per_byte);
    }
    for (left, whole) in left.iter_mut().zip(&problem.capacities) {
        *left = left.max(LEAST * whole);
    }
    for r in 0..resources {
        if used[r] > left[r] * (1.0 + tolerance) {
            return Err(format!("resource {r}: {} of {} is used, of {}", used[r], left[r], problem.capacities[r]));
        }
    }
    for (i, (flow, cap)) in problem.flows.iter().zip(caps).enumerate() {
        let rate = solution.rates[i];
        if rate > cap * (1.0 + tolerance) {
            return Err(format!("flow {i} goes at {rate}, above its cap of {cap}"));
        }
        let full = |r: usize| {
            let none_has_more = rate / flow.weight >= highest[r] * (1.0 - tolerance);
            used[r] >= left[r] * (1.0 - tolerance) && none_has_more
        };
        let held = match rate.is_finite() {
            true => rate >= cap * (1.0 - tolerance) || flow.uses.iter().any(|(r, _)| full(*r)),
            false => flow.uses.iter().all(|(r, _)| left[*r].is_infinite()),
        };
        if !held {
            return Err(format!("flow {i} at {rate} of {cap} is held by nothing ({:?})", solution.bindings.get(i)));
        }
        if let Some(Binding::Resource(name)) = solution.bindings.get(i)
            && !flow.uses.iter().any(|(r, _)| problem.name(*r) == Some(*name) && full(*r))
        {
            return Err(format!("flow {i} at {rate} is said to be held by resource {name}, and is not"));
        }
    }
    Ok(())
}

/// Whether this is how long requests wait at a server while flows have these rates.
fn queue(problem: &Problem, server: usize, rates: &[f64], wait: f64, tolerance: f64) -> Result<(), String> {
    let busy = problem.load(server, rates);
    // near the end a part of the load is a multiple of it in the wait
    let caused = |busy: f64| problem.wait(server, busy);
    let (least, most) = (caused(busy * (1.0 - tolerance)), caused(busy * (1.0 + tolerance)));
    let fits = wait >= least * (1.0 - tolerance) && wait <= most * (1.0 + tolerance);
    if fits || (busy >= FULLEST * (1.0 - tolerance) && wait <= most) {
        return Ok(());
    }
    Err(format!("requests to resource {server}, busy for {busy} of its time, wait {wait} ns and not {}", caused(busy)))
}
