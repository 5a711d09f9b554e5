//! What a bundle of NVLink bricks, xGMI links or a C2C link carries.
//!
//! raw = bricks × brick rate, a direction; payload = raw × the engine's share. Each transfer also takes a little of the
//! other direction: kernels that read, a request of 16 bytes for each line of 128; all else, what the bidirectional
//! factor says. Shares and factor are constants of the GPU's part, measured or published.

use super::assumed::{self, Assume, AssumedBundle};
use super::defaults::{
    self, C2C_RATE, Fallback, Known, NVLINK_REQUEST, SM_LINE, XGMI_EFFICIENCY, XGMI_LINK_RATE, constant,
};
use super::resources::{link_name, part_of};
use crate::catalogue::Parts;
use crate::evidence::{Engine, Operation};
use crate::fabric::{Fabric, Link, LinkId, LinkKind, NodeKind};
use crate::units::Rate;

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
    /// Bytes a byte that a kernel's requests take of the other direction.
    requests: f64,
    /// Where the constants are from.
    pub why: String,
    /// What of it no source tells.
    pub assumed: Option<AssumedBundle>,
}

impl Bundle {
    /// Share of the raw rate that is payload. A NIC is counted as a copy engine.
    pub(super) fn efficiency(&self, engine: Engine, op: Operation) -> f64 {
        let [write, read, kernel_write, kernel_read] = self.shares;
        match (engine == Engine::Sm, op) {
            (false, Operation::Write) => write,
            (false, Operation::Read) => read,
            (true, Operation::Write) => kernel_write,
            (true, Operation::Read) => kernel_read,
        }
    }

    /// Bytes of the raw rate that a byte takes of the other direction: a kernel asks for each line that it reads; all
    /// else costs what both directions at once were seen to lose, x/e + o·x = raw with x = factor · e · raw.
    pub(super) fn overhead(&self, engine: Engine, op: Operation) -> f64 {
        let lost = (1.0 / self.bidirectional_factor - 1.0) / self.efficiency(engine, op);
        if engine == Engine::Sm && op == Operation::Read { lost.max(self.requests) } else { lost }
    }
}

/// The bundle that a link is, `None` for links of other kinds, or what is not known of it; of the generation that the
/// number suggests, where that may be assumed.
pub(super) fn bundle(fabric: &Fabric, parts: &Parts, id: LinkId, assume: Assume) -> Option<Result<Bundle, String>> {
    let link = fabric.link(id);
    match link.kind {
        LinkKind::C2c { rate } => {
            let why = if rate.is_some() { "as its source gives it" } else { "450 GB/s a direction by the vendor" };
            let words = "NVLink-C2C".to_owned();
            Some(Ok(lossless(words, rate.map_or(C2C_RATE, Rate::gb), why.to_owned())))
        }
        LinkKind::Xgmi { count: Some(n) } => Some(Ok(xgmi(fabric, parts, link, f64::from(n)))),
        LinkKind::Xgmi { count: None } if assume == Assume::Usual => {
            let most = parts.end().of(1.0, 1.0, f64::from(assumed::MOST_XGMI));
            Some(Ok(Bundle { assumed: Some(AssumedBundle::OneXgmi), ..xgmi(fabric, parts, link, most) }))
        }
        LinkKind::Xgmi { count: None } => {
            Some(Err(format!("the number of xGMI links of {} is not known", link_name(fabric, id))))
        }
        LinkKind::Nvlink { generation, bricks } => {
            let made = |generation| nvlink(fabric, parts, id, link, generation, bricks);
            let found = made(generation);
            let suggested = || {
                let gpu = [link.a, link.b].into_iter().find(|node| fabric.node(*node).kind == NodeKind::Gpu)?;
                let generations = assumed::nvlink_generations(fabric, gpu)?;
                let usual = generations[1];
                let [slow, value, fast] = generations.map(f64::from);
                let generation = parts.end().of(slow, value, fast) as u8;
                let bundle = made(Some(generation)).ok()?;
                Some(Bundle { assumed: Some(AssumedBundle::Generation(usual)), ..bundle })
            };
            Some(match found {
                Err(why) if assume != Assume::Nothing => suggested().ok_or(why),
                found => found,
            })
        }
        _ => None,
    }
}

/// A link of which no losses are known.
fn lossless(words: String, rate: f64, why: String) -> Bundle {
    Bundle { words, raw: rate * GB, shares: [1.0; 4], bidirectional_factor: 1.0, requests: 0.0, why, assumed: None }
}

/// So many xGMI links.
fn xgmi(fabric: &Fabric, parts: &Parts, link: &Link, count: f64) -> Bundle {
    let least = |constant: &Fallback| {
        let ends = [link.a, link.b].map(|end| constant.or_of(part_of(fabric, parts, end), parts.end()));
        ends.into_iter().map(|setting| setting.value).fold(f64::INFINITY, f64::min)
    };
    let (rate, share) = (least(&XGMI_LINK_RATE), least(&XGMI_EFFICIENCY));
    let why = format!("{rate} GB/s a link and direction by the vendor, of which {share} is payload");
    let bundle = lossless(format!("xGMI x{count}"), rate * count, why);
    Bundle { shares: [share.min(1.0); 4], ..bundle }
}

fn nvlink(
    fabric: &Fabric,
    parts: &Parts,
    id: LinkId,
    link: &Link,
    generation: Option<u8>,
    bricks: u8,
) -> Result<Bundle, String> {
    let ends = [link.a, link.b].into_iter().filter(|n| fabric.node(*n).kind == NodeKind::Gpu);
    let gpus: Vec<_> = ends.filter_map(|n| part_of(fabric, parts, n)).collect();
    // two ends of different generations run at the older one's
    let generation = generation.or_else(|| gpus.iter().filter_map(|p| p.nvlink_generation).min());
    let default = generation.and_then(|g| defaults::nvlink(g, parts));
    let least = |name: &str| {
        let known = gpus.iter().filter_map(|p| constant(Some(p), name));
        known.min_by(|a, b| a.value.total_cmp(&b.value))
    };
    let fall_back = |name: &str, value: fn(&defaults::NvlinkDefault) -> f64| {
        least(name)
            .or_else(|| default.as_ref().map(|d| Known { value: value(d), why: d.source.to_owned(), assumed: true }))
    };
    let unknown = || format!("the NVLink generation of {} is not known", link_name(fabric, id));
    let brick = fall_back("nvlink_brick_rate", |d| d.brick_rate).ok_or_else(unknown)?;
    let ce = fall_back("nvlink_ce_efficiency", |d| d.ce_efficiency).ok_or_else(unknown)?;
    let sm = fall_back("nvlink_sm_efficiency", |d| d.sm_efficiency).ok_or_else(unknown)?;
    let ce_read = least("nvlink_ce_read_efficiency").unwrap_or_else(|| ce.clone());
    let sm_read = least("nvlink_sm_read_efficiency").unwrap_or_else(|| sm.clone());
    let both = fall_back("nvlink_bidirectional_factor", |d| d.bidirectional_factor).ok_or_else(unknown)?;
    let words = match generation {
        Some(generation) => format!("NVLink {generation} x{bricks}"),
        None => format!("NVLink x{bricks}"),
    };
    let shares = [ce.value, ce_read.value, sm.value, sm_read.value].map(|share| share.min(1.0));
    let mut why = vec![brick.why];
    why.extend([ce.why, ce_read.why, sm.why, sm_read.why, both.why]);
    why.dedup();
    Ok(Bundle {
        words,
        raw: brick.value * GB * f64::from(bricks),
        shares,
        bidirectional_factor: both.value.min(1.0),
        requests: NVLINK_REQUEST / SM_LINE,
        why: why.join("; "),
        assumed: None,
    })
}
