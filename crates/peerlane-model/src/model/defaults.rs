//! What is taken where no part states a constant, each with its source.

use peerlane_machine::fabric::PcieGeneration;
use peerlane_machine::units::Bytes;
use peerlane_read::catalogue::{End, Part, Parts};

/// A constant to fall back on.
#[derive(Debug)]
pub(super) struct Fallback {
    /// Name in part files.
    name: &'static str,
    /// Value, in the unit the part files use.
    value: f64,
    /// What makes transfers slower, within reason.
    slow: f64,
    /// What makes them faster.
    fast: f64,
}

/// Bytes of a GPU's or NIC's largest packet. 25.97 to 26.13 GB/s both ways through one switch (Exxact, 2016) are
/// two directions of 256-byte writes.
pub(super) const MAX_PAYLOAD: Fallback = Fallback { name: "max_payload", value: 256.0, slow: 256.0, fast: 256.0 };

/// Bytes of the completions in which a CPU answers reads: one cache line or two, or the largest payload.
/// 6.54 GB/s from a Xeon E5 v4 over 3.0 x8 (Rossum, 2017) are more than lines of 64 bytes allow.
pub(super) const READ_COMPLETION: Fallback =
    Fallback { name: "read_completion", value: 128.0, slow: 64.0, fast: 256.0 };

/// Bytes of the packets into which Intel root complexes split peer-to-peer traffic (NCCL, src/graph/topo.h).
/// Only for CPUs that are known to be Intel's.
pub(super) const INTEL_PEER_PACKET: Fallback = Fallback { name: "peer_packet", value: 64.0, slow: 64.0, fast: 64.0 };

/// Microseconds that staging loses with each MiB: the driver waits for one piece to be in host memory before it lets
/// the other GPU fetch it. 37.2 GB/s staged between H100 (NVIDIA/nccl issue 1264, 2024), where 54.7 is what each stage
/// would take, lose 9.0; 22.3 between RTX 6000 Ada of 26.1 lose 6.8; 10.8 between P100 of 12.3 lose 11.6.
pub(super) const STAGED_COST: Fallback = Fallback { name: "staged_cost", value: 9.0, slow: 14.0, fast: 6.5 };

/// The pieces in which CUDA's driver stages copies: between two H200 a copy of 1 MiB takes both stages one after the other, 55.7
/// us, and each further MiB 27 (captures/h200x2-vm-staging); with two streams the step is between 1 MiB and 1.25 MiB.
pub(super) const STAGED_PIECE: Bytes = Bytes(1 << 20);

/// Share of a staged copy's time that it waits for each other staged copy of its GPUs, the one the other way among them: 1
/// where one engine of a GPU serves them in turn. Both ways ÷ one way is 1.00 between Titan RTX (11.44 of 11.4 GB/s, PHB), 1.39
/// between H200 (53.2 of 38.2; 1.73 on another host), 1.38 between H100 PCIe (35.2 of 25.6), 1.32 and 1.41 between RTX 4090 and
/// RTX 6000 Ada (29.3 of 22.2; 31.4 of 22.3).
pub(super) const STAGED_TURN: Fallback = Fallback { name: "staged_turn_cost", value: 0.45, slow: 1.0, fast: 0.15 };

/// GB/s of a core's pass over memory outside its caches, beside one within them: what a socket's copy loses of a buffer that a device
/// wrote or read. `memmove` of 1 MiB on the host of two H200 (Emerald Rapids, virtual machine, November 2026, medians of three) reaches
/// 32.3 GB/s in the caches and 5.58 from ring to ring of 64 MiB, which passes over memory twice: half of the difference a byte.
pub(super) const MEMORY_PASS: Fallback = Fallback { name: "memory_pass_rate", value: 13.5, slow: 8.0, fast: 25.0 };

/// Answers of the data-link layer for each packet, as a share of one acknowledgement and one update of flow control: a
/// port may join them, or send more. Both ways at once, 26.12 GB/s through one PEX 8747 are 0.75 and 25.30 another's 1.2
/// (Exxact, 2016). Over PCIe 5.0 between root ports of EPYC, 112.3 where one way is 57.2 leave 0.3 (voipmonitor/rtx6kpro,
/// hardware/epyc9124-direct-attach.md, 2026).
pub(super) fn acknowledgements(parts: &Parts, generation: PcieGeneration) -> f64 {
    let fewest = if generation < PcieGeneration::Gen5 { 0.6 } else { 0.3 };
    parts.end().of(1.4, 1.0, fewest)
}

/// Share of a GPU's memory rate that a local copy gets, bytes read and bytes written together.
pub(super) const LOCAL_COPY_EFFICIENCY: Fallback =
    Fallback { name: "local_copy_efficiency", value: 0.8, slow: 0.68, fast: 0.92 };

/// Microseconds of a 16-byte copy within a GPU, one after another, where the program counts no launch: H200 1.8 to 1.9, RTX
/// 6000 Ada 1.4, RTX 4090 1.3.
pub(super) const COPY_LATENCY: Fallback = Fallback { name: "copy_latency", value: 1.6, slow: 2.2, fast: 1.2 };
/// The same into another GPU's memory: H200 2.2 to 2.75, RTX 6000 Ada 1.1.
pub(super) const PEER_LATENCY: Fallback = Fallback { name: "peer_latency", value: 1.9, slow: 2.8, fast: 1.0 };
/// The same out of another GPU's memory, which H200 take 13.3 for.
pub(super) const PEER_READ_LATENCY: Fallback =
    Fallback { name: "peer_read_latency", value: 13.3, slow: 14.0, fast: 2.0 };
/// The same through host memory: H200 15 to 18.5, RTX 6000 Ada 10.5, RTX 4090 11.4 to 13.1.
pub(super) const STAGED_LATENCY: Fallback = Fallback { name: "staged_latency", value: 14.0, slow: 18.5, fast: 10.0 };
/// The same from pinned host memory to a GPU: two H200 machines 2.14 to 2.45 of 16 bytes, and 2.5 to 2.7 beside the moving of
/// larger ones; 2.0 to a P100 (Princeton, tiger: 12.1 GB/s at 1 MB, 12.4 at 10 MB).
pub(super) const FROM_HOST_LATENCY: Fallback = Fallback { name: "from_host_latency", value: 2.2, slow: 5.0, fast: 1.2 };
/// The same to it: H200 1.6 and 2.05, by machine; 1.8 from a P100 (12.8 GB/s at 1 MB, 13.1 at 10 MB).
pub(super) const TO_HOST_LATENCY: Fallback = Fallback { name: "to_host_latency", value: 1.8, slow: 5.0, fast: 1.2 };
/// What a kernel takes that is launched behind another and copies what it finds: H200 1.7 to 1.9 within the GPU and to host
/// memory.
pub(super) const KERNEL_STARTUP: Fallback = Fallback { name: "kernel_startup_cost", value: 1.9, slow: 5.0, fast: 1.5 };
/// The same where it reads another memory, whose answers it waits for: H200 2.9 to 3.3 of host memory.
pub(super) const KERNEL_READ_STARTUP: Fallback =
    Fallback { name: "kernel_read_startup_cost", value: 3.0, slow: 6.0, fast: 2.0 };
/// As [`COPY_LATENCY`], with the launch, as the samples up to CUDA 8 count: 3.1 to 5.6 on Maxwell and Pascal.
pub(super) const OLD_COPY_LATENCY: Fallback = Fallback { name: "copy_latency", value: 4.2, slow: 5.6, fast: 3.0 };
/// As [`PEER_LATENCY`], with the launch: 5.8 to 8.2.
pub(super) const OLD_PEER_LATENCY: Fallback = Fallback { name: "peer_latency", value: 7.0, slow: 8.2, fast: 5.7 };
/// As [`STAGED_LATENCY`], with the launch: 12.5 to 17.2, and 23.4 on a virtual machine.
pub(super) const OLD_STAGED_LATENCY: Fallback =
    Fallback { name: "staged_latency", value: 15.6, slow: 23.4, fast: 12.4 };

/// Microseconds that each copy of a full queue adds to its moving, where that is less than its latency: of GPUs whose latency
/// was measured with the launch, which a queue hides. As [`FROM_HOST_LATENCY`] and [`TO_HOST_LATENCY`] of a P100.
pub(super) const COPY_STARTUP: Fallback = Fallback { name: "copy_startup_cost", value: 1.9, slow: 4.0, fast: 0.8 };
/// The same of copies into another GPU's memory. H200: 1.0 to 1.2, by 392.2 GB/s of copies of 40 MB and 396.1 of 512 MiB.
pub(super) const PEER_STARTUP: Fallback = Fallback { name: "peer_startup_cost", value: 1.9, slow: 4.0, fast: 0.8 };
/// The same out of it. H200: 2.2 to 2.4, by 385.5 and 393.9.
pub(super) const PEER_READ_STARTUP: Fallback =
    Fallback { name: "peer_read_startup_cost", value: 2.3, slow: 13.3, fast: 1.0 };

/// Microseconds that a program loses with each copy that it waits for before it asks for the next one: the call, the start and
/// the wait. Sweeps of `hipMemcpyAsync` with MI250X reach half of their rate where 11 to 16 are lost, of `cudaMemcpy` with P100
/// where 9 to 16 are, and with V100 where 15 to 50 are.
pub(super) const AWAITED_COPY: Fallback = Fallback { name: "awaited_copy_cost", value: 13.0, slow: 40.0, fast: 7.0 };

/// Microseconds of CPU time in which a copy is put into a queue, by the calls of H200's drivers on Emerald Rapids: within the GPU
/// 3.4, into another's memory 1.2 to 1.3, out of it 2.9, through host memory 3.9 to 4.5, from or to it 0.9 to 2.1.
pub(super) const COPY_ENQUEUE: Fallback = Fallback { name: "copy_enqueue_cost", value: 3.42, slow: 5.0, fast: 1.0 };
/// See [`COPY_ENQUEUE`].
pub(super) const PEER_ENQUEUE: Fallback = Fallback { name: "peer_enqueue_cost", value: 1.29, slow: 5.0, fast: 1.0 };
/// See [`COPY_ENQUEUE`].
pub(super) const PEER_READ_ENQUEUE: Fallback =
    Fallback { name: "peer_read_enqueue_cost", value: 2.88, slow: 5.0, fast: 1.0 };
/// See [`COPY_ENQUEUE`].
pub(super) const STAGED_ENQUEUE: Fallback = Fallback { name: "staged_enqueue_cost", value: 4.26, slow: 8.0, fast: 2.0 };
/// See [`COPY_ENQUEUE`].
pub(super) const HOST_ENQUEUE: Fallback = Fallback { name: "host_enqueue_cost", value: 1.0, slow: 5.0, fast: 0.9 };

/// Nanoseconds through a PCIe switch: at most 100 (PEX 8747, product brief).
pub(super) const SWITCH_LATENCY: Fallback = Fallback { name: "forward_latency", value: 100.0, slow: 150.0, fast: 80.0 };
/// Nanoseconds that a root complex adds between two of its ports.
pub(super) const ROOT_LATENCY: Fallback = Fallback { name: "root_latency", value: 100.0, slow: 400.0, fast: 50.0 };
/// Microseconds that the other socket's memory adds to a load, there and back: 618 to 624 ns and 987 to 991 on a machine of two
/// GH200 (dnhkng/GH200_benchmarking).
pub(super) const LOAD_PER_SOCKET: Fallback = Fallback { name: "load_per_socket", value: 0.37, slow: 0.6, fast: 0.1 };
/// Microseconds that a PCIe switch adds to a load: there and back.
pub(super) const LOAD_PER_SWITCH: Fallback = Fallback { name: "load_per_switch", value: 0.2, slow: 0.3, fast: 0.16 };

/// Bytes that a warp of a kernel moves at once: one line of the GPU's cache.
pub(super) const SM_LINE: f64 = 128.0;

/// Bytes that one request of a read asks for. 55.5 GB/s to an H200 by its copy engine, 51.4 to its kernels, and 6.4 to 6.5 over
/// PCIe 3.0 x8 are met with it within 1.5 %; with 512, the specification's first value of the most allowed, within 4 %.
pub(super) const READ_REQUEST: Fallback = Fallback { name: "read_request", value: 256.0, slow: 128.0, fast: 512.0 };

/// InfiniBand payload of a 4096-byte packet with its headers and checksums.
pub(super) const INFINIBAND_EFFICIENCY: f64 = 4096.0 / 4122.0;

/// A constant's value, with where it is from, for the description of a resource.
#[derive(Clone, Debug)]
pub(super) struct Known {
    /// The value.
    pub value: f64,
    /// Where it is from.
    pub why: String,
    /// Whether the part itself does not say it, but its family or nobody.
    pub assumed: bool,
}

/// A part's constant where it has a usable one: positive and finite.
pub(super) fn constant(part: Option<&Part>, name: &str) -> Option<Known> {
    let part = part?;
    let constant = part.constants.get(name).filter(|c| c.value.is_finite() && c.value > 0.0)?;
    let of = constant.family.as_deref().unwrap_or(&part.name);
    let why = format!("{name} of {of}: {}", constant.source);
    Some(Known { value: constant.value, why, assumed: constant.family.is_some() })
}

/// The value alone of a constant that [`constant`] would give.
pub(super) fn number(part: Option<&Part>, name: &str) -> Option<f64> {
    part?.constant(name).filter(|v| v.is_finite() && *v > 0.0)
}

/// A constant's value, and whether it is a default.
#[derive(Clone, Copy, Debug)]
pub(super) struct Setting {
    /// The value.
    pub value: f64,
    /// Whether no part says it.
    pub assumed: bool,
}

impl Fallback {
    /// What a part says, if it does.
    pub(super) fn stated(&self, part: Option<&Part>) -> Option<Setting> {
        let constant = part?.constants.get(self.name).filter(|c| c.value.is_finite() && c.value > 0.0)?;
        Some(Setting { value: constant.value, assumed: constant.family.is_some() })
    }

    /// What a part says, else this at the same end of its range.
    pub(super) fn or_of(&self, part: Option<&Part>, end: End) -> Setting {
        self.stated(part).unwrap_or(self.assumed(end))
    }

    /// This, as an assumption.
    pub(super) fn assumed(&self, end: End) -> Setting {
        Setting { value: end.of(self.slow, self.value, self.fast), assumed: true }
    }
}
