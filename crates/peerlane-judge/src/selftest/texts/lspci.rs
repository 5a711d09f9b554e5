//! `lspci -nnvvv`, as root: what is judged of it.

use std::fmt::Write;

use super::nvidia_smi::idle;
use super::site::{Function, Site, What};
use peerlane_machine::fabric::PcieWidth;

/// All functions that lead to GPUs and adapters.
pub(super) fn lspci(site: &Site) -> String {
    let mut text = String::new();
    for (at, function) in site.functions.iter().enumerate() {
        one(&mut text, site, at, function);
    }
    text
}

fn one(text: &mut String, site: &Site, at: usize, function: &Function) {
    let Function { address, id, capable, .. } = function;
    let named = |name: &str| if id.is_empty() { name.to_owned() } else { format!("{name} [{id}]") };
    let (class, role) = match &function.what {
        What::Bridge { port, .. } => ("PCI bridge [0604]: Vendor Device 1234 [1000:c030] (rev 01)".to_owned(), *port),
        What::Gpu => (format!("3D controller [0302]: {} (rev a1)", named("NVIDIA Corporation Device")), "Endpoint"),
        What::Nic => {
            (format!("Infiniband controller [0207]: {}", named("Mellanox Technologies ConnectX Family")), "Endpoint")
        }
    };
    // String takes all that is written
    let _ = writeln!(text, "{address} {class}");
    if let What::Bridge { buses: [first, last], .. } = function.what {
        let _ = writeln!(
            text,
            "\tBus: primary={:02x}, secondary={first:02x}, subordinate={last:02x}, sec-latency=0",
            address.bus
        );
    }
    let running = if site.idle && is_idle(site, at) { idle(function.running) } else { function.running };
    let _ = writeln!(text, "\tCapabilities: [78] Express (v2) {role}, MSI 00");
    let _ = writeln!(
        text,
        "\t\tLnkCap:\tPort #0, {}, ASPM L1, Exit Latency L1 <8us",
        width(*capable, PcieWidth::default())
    );
    let _ = writeln!(text, "\t\tLnkSta:\t{}", width(running, *capable));
    if !id.is_empty() {
        text.push_str("\tKernel driver in use: ");
        text.push_str(if matches!(function.what, What::Gpu) { "nvidia\n" } else { "mlx5_core\n" });
    }
    if matches!(function.what, What::Bridge { .. }) {
        let sign = if function.redirects { '+' } else { '-' };
        let _ = writeln!(text, "\tCapabilities: [2a0 v1] Access Control Services");
        let _ = writeln!(
            text,
            "\t\tACSCap:\tSrcValid+ TransBlk+ ReqRedir+ CmpltRedir+ UpstreamFwd+ EgressCtrl- DirectTrans+"
        );
        let _ = writeln!(
            text,
            "\t\tACSCtl:\tSrcValid{sign} TransBlk- ReqRedir{sign} CmpltRedir{sign} UpstreamFwd{sign} EgressCtrl- DirectTrans-"
        );
    }
    text.push('\n');
}

/// Whether a function is a GPU or the port above it: the two ends of a link that rests.
fn is_idle(site: &Site, at: usize) -> bool {
    let is_gpu = |at: usize| site.functions.get(at).is_some_and(|f| matches!(f.what, What::Gpu));
    is_gpu(at) || is_gpu(at + 1)
}

/// `Speed 16GT/s, Width x16`, with a remark where one of them is below another width.
fn width(of: PcieWidth, capable: PcieWidth) -> String {
    let mark = |is_lower: bool| if is_lower { " (downgraded)" } else { "" };
    let speed = of.generation.map_or(0.0, |g| g.gigatransfers());
    let lower = [of.generation < capable.generation, of.lanes < capable.lanes].map(mark);
    format!("Speed {speed}GT/s{}, Width x{}{}", lower[0], of.lanes.unwrap_or_default(), lower[1])
}
