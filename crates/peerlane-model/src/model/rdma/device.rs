//! The paths between a GPU and a drive or capture card, as `explain` shows them: the device's DMA to GPU memory, and a buffer in
//! host memory. NVIDIA documents both of drives: cuFile moves data directly, or by `pread` into host memory and a copy to the
//! GPU in its compatibility mode (NVIDIA, "GDS cuFile API Reference", cuFile compatibility mode).

use std::fmt;

use peerlane_machine::schema::JsonSchema;
use serde::Serialize;

use crate::model::{Model, ModelError, PeerAccess, Transfer};
use peerlane_machine::fabric::{NodeId, NodeKind};
use peerlane_machine::matrix::Operation;

/// The paths between a GPU and a drive or capture card.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct DeviceDescription {
    /// The GPU.
    pub gpu: String,
    /// The drive or capture card.
    pub device: String,
    /// Which of both it is.
    pub kind: NodeKind,
    /// From the device to GPU memory: a file is read, a stream comes in.
    pub to_gpu: Vec<DevicePathRate>,
    /// From GPU memory to the device.
    pub from_gpu: Vec<DevicePathRate>,
    /// What else to know.
    pub remarks: Vec<String>,
}

/// How data gets from one to the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum DevicePath {
    /// The device reads or writes GPU memory: GPUDirect Storage, GPUDirect RDMA.
    Direct,
    /// A buffer in host memory, which the device fills and the GPU copies, or the other way round.
    HostBuffer,
}

impl fmt::Display for DevicePath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            DevicePath::Direct => "direct",
            DevicePath::HostBuffer => "host buffer",
        })
    }
}

/// What a path gives, one way.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct DevicePathRate {
    /// The path.
    pub path: DevicePath,
    /// Why it is not available; null where it is, and then the rest is known.
    pub not_offered: Option<String>,
    /// GB/s, with both stages at the same time where there are two.
    pub rate: Option<f64>,
    /// The least that it may be.
    pub low: Option<f64>,
    /// The most.
    pub high: Option<f64>,
    /// GB/s of a program that waits for each stage before it starts the other; null for a direct path.
    pub in_turn: Option<f64>,
    /// What binds the rate.
    pub bottleneck: Option<String>,
}

/// Describes the paths between two nodes; `None` unless one is a GPU and the other a drive or capture card.
pub fn describe_device(model: &Model, a: NodeId, b: NodeId) -> Option<DeviceDescription> {
    let fabric = &model.machine.fabric;
    let kind = |n: NodeId| fabric.node(n).kind;
    let (gpu, device) = match (kind(a), kind(b)) {
        (NodeKind::Gpu, NodeKind::Nvme | NodeKind::Fpga) => (a, b),
        (NodeKind::Nvme | NodeKind::Fpga, NodeKind::Gpu) => (b, a),
        _ => return None,
    };
    let both = |from, to| vec![direct(model, from, to), host_buffer(model, from, to)];
    let name = |n: NodeId| fabric.node(n).name.clone();
    Some(DeviceDescription {
        gpu: name(gpu),
        device: name(device),
        kind: kind(device),
        to_gpu: both(device, gpu),
        from_gpu: both(gpu, device),
        remarks: remarks(model, gpu, device),
    })
}

fn transfer(model: &Model, source: NodeId, destination: NodeId, peer: PeerAccess) -> Transfer {
    let engine = model.engine_between(source, destination);
    Transfer { source, destination, engine, op: Operation::Write, peer }
}

fn direct(model: &Model, from: NodeId, to: NodeId) -> DevicePathRate {
    let asked = transfer(model, from, to, PeerAccess::Enabled);
    match model.route(&asked) {
        Ok(route) if route.staged => missing(DevicePath::Direct, route.staged_because.map(|why| why.to_string())),
        Ok(_) => rate(model, DevicePath::Direct, &asked),
        Err(error) => missing(DevicePath::Direct, Some(error.to_string())),
    }
}

fn host_buffer(model: &Model, from: NodeId, to: NodeId) -> DevicePathRate {
    let mut found = rate(model, DevicePath::HostBuffer, &transfer(model, from, to, PeerAccess::Disabled));
    if let (Some(rate), Some(in_turn)) = (found.rate, in_turn(model, from, to)) {
        found.in_turn = Some(in_turn.min(rate));
    }
    found
}

fn missing(path: DevicePath, why: Option<String>) -> DevicePathRate {
    let not_offered = Some(why.unwrap_or_else(|| "it goes through host memory".to_owned()));
    DevicePathRate { path, not_offered, rate: None, low: None, high: None, in_turn: None, bottleneck: None }
}

fn rate(model: &Model, path: DevicePath, asked: &Transfer) -> DevicePathRate {
    let answer = model.solve_with_interval(&[*asked]);
    match answer.map(|all| all.into_iter().next()) {
        Ok(Some((answer, [low, high]))) => DevicePathRate {
            path,
            not_offered: None,
            rate: Some(answer.rate.gb()),
            low: Some(low.gb()),
            high: Some(high.gb()),
            in_turn: None,
            bottleneck: Some(answer.bottleneck),
        },
        Ok(None) => missing(path, None),
        Err(error) => missing(path, Some(error.to_string())),
    }
}

/// GB/s where each piece is first in host memory as a whole, and only then moved on.
fn in_turn(model: &Model, from: NodeId, to: NodeId) -> Option<f64> {
    let host = model.machine.fabric.nearest_host(from)?;
    let leg = |from, to| -> Result<f64, ModelError> {
        let answers = model.solve(&[transfer(model, from, to, PeerAccess::Enabled)])?;
        Ok(answers.first().map_or(f64::INFINITY, |answer| answer.rate.gb()))
    };
    let (into, on) = (leg(from, host).ok()?, leg(host, to).ok()?);
    Some(1.0 / (1.0 / into + 1.0 / on))
}

fn remarks(model: &Model, gpu: NodeId, device: NodeId) -> Vec<String> {
    let fabric = &model.machine.fabric;
    let mut all = Vec::new();
    let offered = model.offers_device_access(gpu);
    if fabric.node(device).kind == NodeKind::Nvme {
        let needs = offered.then_some(
            "direct reads and writes need nvidia-fs or p2pdma, a file system that supports it (ext4, XFS) and O_DIRECT",
        );
        all.extend(needs.map(str::to_owned));
        let drive = &model.nodes[device.index()];
        if drive.receive.is_none() || drive.send.is_none() {
            all.push(
                "the drive's own rate is not known: its link is taken for it; state `read_rate` and `write_rate`"
                    .to_owned(),
            );
        }
    } else if offered {
        all.push(
            "direct transfers need a driver of the card that pins GPU memory (GPUDirect RDMA); a stream that never pauses \
             also needs a rate above its own all the time, which a mean rate does not show"
                .to_owned(),
        );
    }
    if !offered {
        return all;
    }
    let hops = fabric.path(gpu, device).map(|path| path.hops).unwrap_or_default();
    let through = |kind| hops.iter().map(|hop| hop.from).find(|node| fabric.node(*node).kind == kind);
    if let Some(root) = through(NodeKind::RootComplex)
        && model.nodes[root.index()].engines.peer_reads.is_none()
    {
        all.push("crosses a host bridge: how well it forwards reads of GPU memory is not known".to_owned());
    }
    if hops.iter().any(|hop| fabric.link(hop.link).kind == peerlane_machine::fabric::LinkKind::Smp) {
        all.push("crosses sockets, which some do not forward between devices, and most do slowly".to_owned());
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use peerlane_machine::matrix::Engine;
    use peerlane_read::catalogue::{Parts, read_system};

    const BOX: &str = r#"
name = "box"
title = "A GPU with a drive below one switch, and others at the CPU"
[nodes]
cpu0 = { part = "epyc-rome" }
plx0 = { kind = "switch" }
GPU0 = { part = "a100-pcie" }
GPU1 = { part = "gtx-1070" }
nvme0 = { part = "nvme-4-x4", read_rate = 6.5, write_rate = 3.0 }
nvme1 = { part = "nvme-3-x4" }
daq0 = { kind = "fpga", line_rate = 40 }
[[links]]
between = ["cpu0", "plx0"]
pcie = "4.0 x16"
[[links]]
between = ["plx0", "GPU0"]
pcie = "4.0 x16"
[[links]]
between = ["plx0", "nvme0"]
pcie = "4.0 x4"
[[links]]
between = ["cpu0", "nvme1"]
pcie = "3.0 x4"
[[links]]
between = ["cpu0", "GPU1"]
pcie = "3.0 x16"
[[links]]
between = ["plx0", "daq0"]
pcie = "3.0 x8"
"#;

    fn described(gpu: &str, device: &str) -> DeviceDescription {
        let machine = read_system(BOX, "box").unwrap();
        let model = Model::new(&machine, Parts::embedded());
        let find = |name| machine.fabric.find(name).unwrap();
        let found = describe_device(&model, find(device), find(gpu)).unwrap();
        let other = describe_device(&model, find(gpu), find(device)).unwrap();
        assert_eq!(found.gpu, other.gpu);
        found
    }

    fn near(got: Option<f64>, want: f64) {
        assert!(got.is_some_and(|got| (got - want).abs() < 0.01 * want), "{got:?} is not {want}");
    }

    #[test]
    fn a_drive_is_bound_by_its_rate_and_then_by_its_link() {
        let found = described("GPU0", "nvme0");
        // below its link's 7
        near(found.to_gpu[0].rate, 6.5);
        near(found.from_gpu[0].rate, 3.0);
        assert_eq!(found.from_gpu[0].bottleneck.as_deref(), Some("nvme0, writing"));
        // a link of 3.94 GB/s, of which packets take some; a drive may be half as fast
        let slow = described("GPU0", "nvme1");
        let direct = &slow.to_gpu[0];
        assert!(direct.rate.is_some_and(|rate| (3.0..3.94).contains(&rate)), "{direct:?}");
        assert!(direct.low < Some(2.0) && direct.bottleneck.as_ref().is_some_and(|why| why.contains("nvme1")));
        assert!(
            slow.remarks.iter().any(|r| r.contains("read_rate")) && slow.remarks.iter().any(|r| r.contains("bridge"))
        );
        assert!(!found.remarks.iter().any(|r| r.contains("read_rate") || r.contains("bridge")), "{:?}", found.remarks);
    }

    #[test]
    fn a_host_buffer_is_slower_than_a_direct_path_and_slowest_in_turn() {
        let found = described("GPU0", "nvme0");
        let (direct, buffer) = (&found.to_gpu[0], &found.to_gpu[1]);
        assert!(buffer.rate < direct.rate && buffer.in_turn < buffer.rate, "{buffer:?}");
        assert!(buffer.rate > Some(4.0) && buffer.in_turn > Some(3.0), "{buffer:?}");
    }

    #[test]
    fn a_geforce_has_only_the_host_buffer() {
        let found = described("GPU1", "nvme1");
        assert!(found.to_gpu[0].rate.is_none());
        assert!(found.to_gpu[0].not_offered.as_ref().is_some_and(|why| why.contains("compatibility mode")));
        assert!(found.to_gpu[1].rate > Some(2.0));
    }

    #[test]
    fn a_capture_card_is_bound_by_its_line() {
        let found = described("GPU0", "daq0");
        assert_eq!(found.kind, NodeKind::Fpga);
        near(found.to_gpu[0].rate, 5.0);
        assert_eq!(found.to_gpu[0].bottleneck.as_deref(), Some("daq0 line, receiving"));
    }

    #[test]
    fn others_are_no_devices() {
        let machine = read_system(BOX, "box").unwrap();
        let model = Model::new(&machine, Parts::embedded());
        let find = |name| machine.fabric.find(name).unwrap();
        assert!(describe_device(&model, find("GPU0"), find("GPU1")).is_none());
        assert!(describe_device(&model, find("host0"), find("nvme0")).is_none());
        let engine = model.engine_between(find("host0"), find("nvme0"));
        assert_eq!(engine, Engine::Device);
    }
}
