//! What GPU memory by verbs reaches with peers that are alike.

use std::collections::BTreeMap;

use peerlane_design::site::{ComparedStep, HostRates, OFF, Site};
use peerlane_machine::fabric::PathClass;
use peerlane_measure::nodes::{Step, usual};

/// What is usual of a rail.
pub(super) struct Usual {
    /// What host memory reaches at least where nothing is wrong with the network.
    sound: f64,
    /// What GPU memory reaches there.
    value: f64,
    /// The same as a share of what is expected, where that is known.
    share: Option<f64>,
    /// Values that this is of.
    values: usize,
}

/// A rail, and the classes of the paths between NICs and GPUs at both ends, the shorter one first.
pub(super) type Alike = (Option<String>, [Option<PathClass>; 2]);

/// Values that tell what is usual.
const FEWEST: usize = 3;

fn alike(ends: Option<&Site>, step: &Step) -> Alike {
    let mut classes = ends.map_or([None; 2], |ends| ends.classes(step));
    classes.sort_unstable();
    (step.from.nic.clone(), classes)
}

/// What GPU memory reaches, of steps of one kind between so many nodes, by rail and by the classes of the paths between NICs and
/// GPUs. How well GPUs are read and written is known within wide bounds, and alike where these are.
pub(super) fn usual_of_peers<'c>(
    hosts: &HostRates,
    nodes: usize,
    ends: Option<&Site>,
    joined: impl Iterator<Item = &'c ComparedStep<'c>>,
) -> BTreeMap<Alike, Usual> {
    let mut of: BTreeMap<Alike, Vec<(&ComparedStep, f64, f64)>> = BTreeMap::new();
    for one in joined {
        if let (Some(value), Some(host)) = (one.cell.value(), hosts.get(&one.cell.step)) {
            of.entry(alike(ends, &one.cell.step)).or_default().push((one, value, host));
        }
    }
    let of_rail = |(alike, all): (Alike, Vec<(&ComparedStep, f64, f64)>)| {
        let sound = OFF * usual(all.iter().map(|(.., host)| *host).collect(), nodes)?;
        let sound_ones = || all.iter().filter(|(.., host)| *host >= sound);
        let value = usual(sound_ones().map(|(_, value, _)| *value).collect(), nodes)?;
        let share = usual(sound_ones().filter_map(|(one, ..)| one.share()).collect(), nodes);
        Some((alike, Usual { sound, value, share, values: sound_ones().count() }))
    };
    of.into_iter().filter_map(of_rail).collect()
}

/// What a step with GPU memory should reach by what others that are alike do: as much of what is expected where host memory reaches
/// what it does with most, and else no more than host memory. None where too few are alike to tell more than
/// what is expected, or host memory has no value.
pub(super) fn by_peers(
    hosts: &HostRates,
    one: &ComparedStep,
    ends: Option<&Site>,
    usual: &BTreeMap<Alike, Usual>,
) -> Option<f64> {
    let usual = usual.get(&alike(ends, &one.cell.step))?;
    let host = hosts.get(&one.cell.step)?;
    let expected = one.expected.as_ref().map(|expected| expected.value);
    if usual.values < FEWEST && expected.is_some() {
        return None;
    }
    Some(match expected.zip(usual.share) {
        Some((expected, share)) if host >= usual.sound => share * expected,
        _ => usual.value.min(host),
    })
}
