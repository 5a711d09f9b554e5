//! The paths between a GPU and a drive or capture card.

use std::io::{self, Write};

use peerlane::fabric::NodeKind;
use peerlane::model::rdma::{DeviceDescription, DevicePathRate};

use super::style::{self, paint};
use super::text::{hang, number};

/// Writes both paths, each way.
pub(crate) fn show(out: &mut dyn Write, found: &DeviceDescription) -> io::Result<()> {
    let DeviceDescription { gpu, device, kind, to_gpu, from_gpu, remarks } = found;
    let how = if *kind == NodeKind::Nvme { "GPUDirect Storage" } else { "Read-out" };
    let ways = [(device, gpu, to_gpu), (gpu, device, from_gpu)];
    for (from, to, paths) in ways {
        writeln!(out, "\n{}", paint(style::HEADING, &format!("{how}: {from} → {to}")))?;
        paths.iter().try_for_each(|path| line(out, path))?;
    }
    remarks.iter().try_for_each(|remark| hang(out, "  · ", remark))
}

fn line(out: &mut dyn Write, path: &DevicePathRate) -> io::Result<()> {
    let name = path.path.to_string();
    let (Some(rate), Some(low), Some(high)) = (path.rate, path.low, path.high) else {
        let why = path.not_offered.as_deref().unwrap_or("not available");
        return hang(out, &format!("  {name:<12} {:>13}  ", "–"), why);
    };
    let bound = path.bottleneck.as_deref().unwrap_or("an unknown limit");
    let in_turn = path.in_turn.map_or(String::new(), |rate| {
        format!("; {} where a program waits for each stage before the other", number(rate))
    });
    let words = format!("{} to {}; bound by {bound}{in_turn}", number(low), number(high));
    hang(out, &format!("  {name:<12} {:>8} GB/s  ", number(rate)), &words)
}
