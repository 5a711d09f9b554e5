//! What a bundle of NVLink bricks, xGMI links or a C2C link carries.
//!
//! raw = links × rate of one, a direction; payload = raw × the engine's share. Each transfer also takes a little of the
//! other direction: kernels that read, a request of 16 bytes for each line of 128; all else, what the bidirectional
//! factor says. Shares and factor are constants of the GPU's part, measured or published.

use super::assumptions::{self, Assume, AssumedBundle};
use super::defaults::{Known, constant};
use super::resources::{link_name, part_of};
use peerlane_machine::fabric::{Fabric, Generation, GpuLink, Interconnect, Link, LinkId, LinkKind, NodeId, NodeKind};
use peerlane_machine::matrix::{Engine, Operation};
use peerlane_read::catalogue::Parts;

const GB: f64 = 1e9;

/// A link of a GPU's own fabric, as the model sees it.
#[derive(Clone, Debug)]
pub(super) struct Bundle {
    /// `NVLink 4 x18`.
    pub words: String,
    /// Bytes a second and direction before any loss.
    pub raw: f64,
    /// Share of it for writes by copy engines, reads by them, writes by kernels, and reads by them.
    shares: [f64; 4],
    /// What both directions at once leave of twice one direction.
    bidirectional_factor: f64,
    /// What goes from a GPU to a CPU gets of its share, by copy engines and by kernels.
    toward_cpu: [f64; 2],
    /// Bytes a byte that a kernel's requests take of the other direction.
    requests: f64,
    /// Where the constants are from.
    pub why: String,
    /// What of it no source states.
    pub assumed: Option<AssumedBundle>,
}

impl Bundle {
    /// Share of the raw rate that is payload, to a CPU or not. A NIC is counted as a copy engine.
    pub(super) fn efficiency(&self, engine: Engine, op: Operation, to_cpu: bool) -> f64 {
        let [write, read, kernel_write, kernel_read] = self.shares;
        let toward = if to_cpu { self.toward_cpu[usize::from(engine == Engine::Sm)] } else { 1.0 };
        toward
            * match (engine == Engine::Sm, op) {
                (false, Operation::Write) => write,
                (false, Operation::Read) => read,
                (true, Operation::Write) => kernel_write,
                (true, Operation::Read) => kernel_read,
            }
    }

    /// Bytes of the raw rate that a byte takes of the other direction: a kernel asks for each line that it reads; all
    /// else costs what both directions at once were seen to lose, x/e + o·x = raw with x = factor · e · raw.
    pub(super) fn overhead(&self, engine: Engine, op: Operation, to_cpu: bool) -> f64 {
        let lost = (1.0 / self.bidirectional_factor - 1.0) / self.efficiency(engine, op, to_cpu);
        if engine == Engine::Sm && op == Operation::Read { lost.max(self.requests) } else { lost }
    }
}

/// Why a bundle's rate is not known.
enum Missing {
    /// Its generation is not, nor do parts tell its rates.
    Generation,
    /// How many links there are is not.
    Links,
    /// The rate of one link of its generation is not, though that of all together may be.
    Rate,
}

/// The bundle that a link is, `None` for links of other kinds, or what is not known of it; of the generation that the
/// number suggests, where that may be assumed.
pub(super) fn bundle(fabric: &Fabric, parts: &Parts, id: LinkId, assume: Assume) -> Option<Result<Bundle, String>> {
    let LinkKind::Gpu(link) = fabric.link(id).kind else { return None };
    let made = |link: GpuLink| carried(fabric, parts, fabric.link(id), link);
    let missing = match made(link) {
        Ok(bundle) => return Some(Ok(bundle)),
        Err(missing) => missing,
    };
    let family = link.interconnect.family();
    let (assumed, why) = match missing {
        Missing::Generation => {
            let suggested = || {
                let gpu = gpus(fabric, fabric.link(id)).next().filter(|_| link.interconnect == Interconnect::Nvlink)?;
                let generations = assumptions::nvlink_generations(fabric, gpu)?;
                let usual = generations[1];
                let [slow, value, fast] = generations.map(f64::from);
                let generation = parts.end().of(slow, value, fast) as u8;
                let bundle = made(GpuLink { generation: Some(generation), ..link }).ok()?;
                Some(Bundle { assumed: Some(AssumedBundle::Generation(usual)), ..bundle })
            };
            let why = format!("the {} generation of {} is not known", family.title, link_name(fabric, id));
            (if assume == Assume::Nothing { None } else { suggested() }, why)
        }
        Missing::Rate => {
            let (bundle, link, key) = (GpuLink { links: None, ..link }, family.link, family.key);
            let how = format!("give the rate of all: {key} = \"{} 900 GB/s\"", bundle.written());
            (None, format!("the rate of one {bundle} {link} of {} is not published; {how}", link_name(fabric, id)))
        }
        Missing::Links => {
            let one = || {
                let links = parts.end().of(1.0, 1.0, f64::from(assumptions::MOST_LINKS)) as u8;
                let bundle = made(GpuLink { links: Some(links), ..link }).ok()?;
                Some(Bundle { assumed: Some(AssumedBundle::OneLink(link.interconnect)), ..bundle })
            };
            let why =
                format!("the number of {} {}s of {} is not known", family.title, family.link, link_name(fabric, id));
            (if assume == Assume::Usual { one() } else { None }, why)
        }
    };
    Some(assumed.ok_or(why))
}

fn gpus<'f>(fabric: &'f Fabric, link: &Link) -> impl Iterator<Item = NodeId> + use<'f> {
    [link.a, link.b].into_iter().filter(|n| fabric.node(*n).kind == NodeKind::Gpu)
}

/// What a bundle carries: by the constants of the parts at its ends, the lesser of two, else by the table of interconnects.
fn carried(fabric: &Fabric, parts: &Parts, link: &Link, bundle: GpuLink) -> Result<Bundle, Missing> {
    let ends: Vec<_> = gpus(fabric, link).filter_map(|n| part_of(fabric, parts, n)).collect();
    let family = bundle.interconnect.family();
    // two ends of different generations run at the older one's
    let of_parts = || ends.iter().filter_map(|p| p.nvlink_generation).min();
    let generation = bundle.generation.or_else(|| of_parts().filter(|_| bundle.interconnect == Interconnect::Nvlink));
    let known = bundle.interconnect.generation(generation);
    let least = |name: &str| {
        let name = format!("{}_{name}", family.key);
        let stated = ends.iter().filter_map(|p| constant(Some(p), &name));
        stated.min_by(|a, b| a.value.total_cmp(&b.value))
    };
    let or = |stated: Option<Known>, default: fn(&Generation) -> Option<[f64; 3]>| {
        let fall_back = |g: &Generation| {
            let [slow, value, fast] = default(g)?;
            Some(Known { value: parts.end().of(slow, value, fast), why: g.source.to_owned(), assumed: true })
        };
        stated.or_else(|| known.and_then(fall_back)).ok_or(Missing::Generation)
    };
    let all = || least("efficiency");
    let copies = or(least("ce_efficiency").or_else(all), |g| Some(g.copies))?;
    let kernels = or(least("sm_efficiency").or_else(all), |g| Some(g.kernels))?;
    let both = or(least("bidirectional_factor"), |g| Some([g.both_ways; 3]))?;
    let copies_read = least("ce_read_efficiency").unwrap_or_else(|| copies.clone());
    let kernels_read = least("sm_read_efficiency").unwrap_or_else(|| kernels.clone());
    let each = || or(least(&format!("{}_rate", family.link)), |g| g.link_rate);
    let whole =
        known.and_then(|g| g.device_rate.map(|[slow, value, fast]| (parts.end().of(slow, value, fast), g.source)));
    let (raw, raw_why) = match (bundle.rate, bundle.links) {
        (Some(rate), _) => (rate.gb(), "as its source gives it".to_owned()),
        (None, Some(links)) => match each() {
            Ok(each) => (each.value * f64::from(links), each.why),
            Err(_) if known.is_some() => return Err(Missing::Rate),
            Err(missing) => return Err(missing),
        },
        (None, None) if bundle.interconnect.is_single() => each().map(|each| (each.value, each.why))?,
        (None, None) => whole.map(|(rate, why)| (rate, why.to_owned())).ok_or(Missing::Links)?,
    };
    let [slow, value, fast] = known.map_or([1.0; 3], |g| g.toward_cpu);
    let usual = parts.end().of(slow, value, fast);
    let mut toward_cpu = ["ce_toward_cpu", "sm_toward_cpu"].map(|name| least(name).map_or(usual, |known| known.value));
    let mut shares = [copies.value, copies_read.value, kernels.value, kernels_read.value].map(|share| share.min(1.0));
    // the rate that somebody states of a C2C link is what copies reach
    if bundle.interconnect == Interconnect::C2c && bundle.rate.is_some() {
        (shares, toward_cpu) = ([1.0; 4], [1.0; 2]);
    }
    let mut why = vec![raw_why];
    why.extend([copies, copies_read, kernels, kernels_read, both.clone()].map(|known| known.why));
    why.dedup();
    Ok(Bundle {
        words: GpuLink { generation, ..bundle }.to_string(),
        raw: raw * GB,
        shares,
        bidirectional_factor: both.value.min(1.0),
        toward_cpu,
        requests: family.request,
        why: why.join("; "),
        assumed: None,
    })
}
