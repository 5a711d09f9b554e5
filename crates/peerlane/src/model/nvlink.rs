//! What a bundle of NVLink bricks, xGMI links or a C2C link carries.
//!
//! raw = bricks × brick rate, a direction; payload = raw × the engine's efficiency; both directions at once =
//! 2 × payload × the bidirectional factor. All three are constants of the GPU's part, measured or published.

use super::defaults::{self, C2C_RATE, Known, XGMI_RATE, constant};
use super::resources::{link_name, part_of};
use crate::catalogue::Parts;
use crate::evidence::Engine;
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
    /// Share of it for copy engines.
    pub ce_efficiency: f64,
    /// Share of it for kernels.
    pub sm_efficiency: f64,
    /// What both directions at once leave of twice one direction.
    pub bidirectional_factor: f64,
    /// Where the constants are from.
    pub why: String,
}

impl Bundle {
    /// Share of the raw rate that is payload. A NIC is counted as a copy engine.
    pub(super) fn efficiency(&self, engine: Engine) -> f64 {
        if engine == Engine::Sm { self.sm_efficiency } else { self.ce_efficiency }
    }
}

/// The bundle that a link is, `None` for links of other kinds, or what is not known of it.
pub(super) fn bundle(fabric: &Fabric, parts: &Parts, id: LinkId) -> Option<Result<Bundle, String>> {
    let link = fabric.link(id);
    let plain = |words: String, rate: f64, why: &str| Bundle {
        words,
        raw: rate * GB,
        ce_efficiency: 1.0,
        sm_efficiency: 1.0,
        bidirectional_factor: 1.0,
        why: why.to_owned(),
    };
    match link.kind {
        LinkKind::C2c { rate } => {
            let why = if rate.is_some() { "as its source gives it" } else { "450 GB/s a direction by the vendor" };
            Some(Ok(plain("NVLink-C2C".to_owned(), rate.map_or(C2C_RATE, Rate::gb), why)))
        }
        LinkKind::Xgmi { count: Some(n) } => Some(Ok(plain(
            format!("xGMI x{n}"),
            XGMI_RATE * f64::from(n),
            "50 GB/s a link and direction by the vendor",
        ))),
        LinkKind::Xgmi { count: None } => {
            Some(Err(format!("the number of xGMI links of {} is not known", link_name(fabric, id))))
        }
        LinkKind::Nvlink { generation, bricks } => Some(nvlink(fabric, parts, id, link, generation, bricks)),
        _ => None,
    }
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
    let default = generation.and_then(defaults::nvlink);
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
    let both = fall_back("nvlink_bidirectional_factor", |d| d.bidirectional_factor).ok_or_else(unknown)?;
    let words = match generation {
        Some(generation) => format!("NVLink {generation} x{bricks}"),
        None => format!("NVLink x{bricks}"),
    };
    let mut why = vec![brick.why];
    why.extend([ce.why, sm.why, both.why]);
    why.dedup();
    Ok(Bundle {
        words,
        raw: brick.value * GB * f64::from(bricks),
        ce_efficiency: ce.value.min(1.0),
        sm_efficiency: sm.value.min(1.0),
        bidirectional_factor: both.value.min(1.0),
        why: why.join("; "),
    })
}
