//! How long a small copy takes, and what copies of any size reach.
//!
//! Times belong to the GPU that drives and to its driver, by kind of copy: within a GPU, into another's memory, out of it,
//! through host memory, from or to host memory, each by copy engines or by kernels. A path adds what its switches and root
//! complexes take. How the times and a rate make a curve is [`CopyTime`].

use super::defaults::{
    AWAITED_COPY, COPY_ENQUEUE, COPY_LATENCY, COPY_STARTUP, FROM_HOST_LATENCY, Fallback, HOST_ENQUEUE,
    KERNEL_READ_STARTUP, KERNEL_STARTUP, LOAD_PER_SOCKET, LOAD_PER_SWITCH, OLD_COPY_LATENCY, OLD_PEER_LATENCY,
    OLD_STAGED_LATENCY, PEER_ENQUEUE, PEER_LATENCY, PEER_READ_ENQUEUE, PEER_READ_LATENCY, PEER_READ_STARTUP,
    PEER_STARTUP, ROOT_LATENCY, STAGED_ENQUEUE, STAGED_LATENCY, STAGED_PIECE, SWITCH_LATENCY, Setting, TO_HOST_LATENCY,
    constant,
};
use super::resources::part_of;
use super::{Model, Route, Transfer, route};
use peerlane_machine::copy_time::{CopyTime, Startup};
use peerlane_machine::fabric::{Interconnect, LinkKind, NodeId, NodeKind, PathClass, PcieGeneration};
use peerlane_machine::matrix::{Engine, Operation};
use peerlane_machine::units::Seconds;
use peerlane_read::catalogue::Part;

/// A time that the model gives, with its reason.
#[derive(Clone, Debug, PartialEq)]
pub struct Latency {
    /// The time.
    pub time: Seconds,
    /// What it is made of.
    pub why: String,
}

/// A kind of copy: copies of one kind start alike.
struct Kind {
    words: &'static str,
    /// Time of a small copy, and the same of GPUs of PCIe 3.0, which were measured by the CUDA samples of their time: these
    /// count the launch.
    latency: [&'static Fallback; 2],
    /// What a full queue leaves of it; `None` where that is all.
    startup: Option<&'static Fallback>,
    /// CPU time of the call that asks for it.
    enqueue: &'static Fallback,
}

const LOCAL: Kind = Kind {
    words: "a copy within the GPU",
    latency: [&COPY_LATENCY, &OLD_COPY_LATENCY],
    startup: Some(&COPY_STARTUP),
    enqueue: &COPY_ENQUEUE,
};
const WRITE: Kind = Kind {
    words: "a copy into another GPU's memory",
    latency: [&PEER_LATENCY, &OLD_PEER_LATENCY],
    startup: Some(&PEER_STARTUP),
    enqueue: &PEER_ENQUEUE,
};
const READ: Kind = Kind {
    words: "a copy out of another GPU's memory",
    latency: [&PEER_READ_LATENCY, &OLD_PEER_LATENCY],
    startup: Some(&PEER_READ_STARTUP),
    enqueue: &PEER_READ_ENQUEUE,
};
/// A staged copy begins when the one before has arrived, so that nothing of it is hidden.
const STAGED: Kind = Kind {
    words: "a copy through host memory",
    latency: [&STAGED_LATENCY, &OLD_STAGED_LATENCY],
    startup: None,
    enqueue: &STAGED_ENQUEUE,
};
const FROM_HOST: Kind =
    Kind { words: "a copy from host memory", latency: [&FROM_HOST_LATENCY; 2], startup: None, enqueue: &HOST_ENQUEUE };
const TO_HOST: Kind =
    Kind { words: "a copy to host memory", latency: [&TO_HOST_LATENCY; 2], startup: None, enqueue: &HOST_ENQUEUE };
const KERNEL: Kind =
    Kind { words: "a kernel that writes", latency: [&KERNEL_STARTUP; 2], startup: None, enqueue: &PEER_ENQUEUE };
const KERNEL_READ: Kind = Kind {
    words: "a kernel that reads another memory",
    latency: [&KERNEL_READ_STARTUP; 2],
    startup: None,
    enqueue: &PEER_ENQUEUE,
};

/// What starting a copy is made of.
struct Started {
    kind: &'static Kind,
    /// Microseconds of a small copy on the GPU that drives.
    own: Setting,
    /// Microseconds that switches and root complexes on the path add.
    on_path: f64,
    /// What a full queue leaves of it, in microseconds.
    queued: Option<f64>,
    /// What a staged copy's first piece adds.
    fill: Seconds,
}

impl Model<'_> {
    /// Time of one small copy, as a program sees it that queues them one by one; `None` where no GPU drives it or no
    /// path is known.
    pub fn small_copy(&self, transfer: &Transfer) -> Option<Latency> {
        let started = self.started(transfer)?;
        let Started { kind, own: Setting { value, assumed }, on_path, .. } = started;
        let assumed = if assumed { ", assumed" } else { "" };
        let mut why = format!("{}: {value:.2} us{assumed}", kind.words);
        if on_path > 0.0 {
            why.push_str(&format!("; switches and root complexes: {on_path:.2} us"));
        }
        Some(Latency { time: started.startup().least, why })
    }

    /// What copies take besides the moving of their bytes; `None` where no GPU drives them or no path is known.
    pub fn startup(&self, transfer: &Transfer) -> Option<Startup> {
        self.started(transfer).map(|started| started.startup())
    }

    /// How long copies of any size take by themselves; `None` where the rate is not known or no GPU drives them.
    pub fn copy_time(&self, transfer: &Transfer) -> Option<CopyTime> {
        let rate = self.solve(std::slice::from_ref(transfer)).ok()?.first()?.rate;
        Some(CopyTime { startup: self.startup(transfer)?, rate })
    }

    /// How long copies take that a program asks for one at a time, and waits for; `None` as of [`Model::copy_time`].
    pub fn awaited_copy_time(&self, transfer: &Transfer) -> Option<CopyTime> {
        let CopyTime { rate, .. } = self.copy_time(transfer)?;
        let lost = AWAITED_COPY.or_of(self.driving_part(transfer), self.parts.end()).value;
        Some(CopyTime { startup: Startup::unhidden(Seconds::from_us(lost)), rate })
    }

    /// CPU time of the call that puts a copy into a queue; `None` where no GPU drives it or no path is known.
    pub fn enqueue(&self, transfer: &Transfer) -> Option<Latency> {
        let kind = self.started(transfer)?.kind;
        let known = kind.enqueue.or_of(self.driving_part(transfer), self.parts.end());
        let assumed = if known.assumed { ", assumed" } else { "" };
        let why = format!("{}, CPU time to enqueue it: {:.2} us{assumed}", kind.words, known.value);
        Some(Latency { time: Seconds::from_us(known.value), why })
    }

    fn started(&self, transfer: &Transfer) -> Option<Started> {
        self.driver(transfer)?;
        let part = self.driving_part(transfer);
        let is_local = transfer.source == transfer.destination;
        let route = if is_local { None } else { Some(route::plan(self, transfer, false).ok()?.route) };
        let kind = self.kind(transfer, route.as_ref());
        // of a GPU that no source names, what its link runs at dates it
        let generation = part.map_or_else(|| self.link_above(transfer), |p| p.pcie.and_then(|w| w.generation));
        let launched = generation.is_some_and(|g| g <= PcieGeneration::Gen3);
        let end = self.parts.end();
        Some(Started {
            kind,
            own: kind.latency[usize::from(launched)].or_of(part, end),
            on_path: route.as_ref().map_or(0.0, |route| self.on_path(route)),
            fill: route.map_or(Seconds::new(0.0), |route| route.fill),
            queued: kind.startup.map(|queued| queued.or_of(part, end).value),
        })
    }

    fn kind(&self, transfer: &Transfer, route: Option<&Route>) -> &'static Kind {
        let [from_host, to_host] = [transfer.source, transfer.destination].map(|node| self.is(node, NodeKind::Host));
        let reads = from_host || transfer.op == Operation::Read;
        match route {
            Some(route) if route.staged => &STAGED,
            Some(_) if transfer.engine == Engine::Sm && reads && !to_host => &KERNEL_READ,
            _ if transfer.engine == Engine::Sm => &KERNEL,
            None => &LOCAL,
            _ if from_host => &FROM_HOST,
            _ if to_host => &TO_HOST,
            _ if reads => &READ,
            _ => &WRITE,
        }
    }

    /// Time of one dependent load by a kernel of `reader`: from another GPU over NVLink, or from host memory. `None` for
    /// paths of which no such time was ever published.
    pub fn load(&self, reader: NodeId, memory: NodeId) -> Option<Latency> {
        let fabric = &self.machine.fabric;
        let part = part_of(fabric, self.parts, reader);
        let path = fabric.path(memory, reader)?;
        let through = |kind: NodeKind| path.hops.iter().filter(|h| fabric.node(h.to).kind == kind).count();
        let crosses = |is: fn(&LinkKind) -> bool| path.hops.iter().any(|h| is(&fabric.link(h.link).kind));
        let (name, kind) = match path.class {
            PathClass::Gpu(Interconnect::Nvlink, _) if through(NodeKind::NvSwitch) > 0 => {
                ("switched_load_latency", "a load over NVSwitch")
            }
            PathClass::Gpu(Interconnect::Nvlink, _) => ("peer_load_latency", "a load over NVLink"),
            _ if !self.is(memory, NodeKind::Host) => return None,
            _ if crosses(LinkKind::is_gpu_fabric) => ("c2c_load_latency", "a load from host memory over NVLink-C2C"),
            _ => ("host_load_latency", "a load from host memory"),
        };
        let known = constant(part, name)?;
        let end = self.parts.end();
        let other_socket =
            if crosses(|kind| *kind == LinkKind::Smp) { LOAD_PER_SOCKET.assumed(end).value } else { 0.0 };
        let switches = through(NodeKind::Switch) as f64 * LOAD_PER_SWITCH.assumed(end).value;
        let time = Seconds::from_us(known.value / 1000.0 + switches + other_socket);
        Some(Latency { time, why: format!("{kind}: {}", known.why) })
    }

    fn is(&self, node: NodeId, kind: NodeKind) -> bool {
        self.machine.fabric.node(node).kind == kind
    }

    /// The GPU that drives: the one there is, else the writer or the reader.
    fn driver(&self, transfer: &Transfer) -> Option<NodeId> {
        let (from, to) = (self.is(transfer.source, NodeKind::Gpu), self.is(transfer.destination, NodeKind::Gpu));
        if matches!(transfer.engine, Engine::Nic | Engine::Device) {
            return None;
        }
        match (from, to) {
            (true, true) if transfer.op == Operation::Read => Some(transfer.destination),
            (true, _) => Some(transfer.source),
            (_, true) => Some(transfer.destination),
            _ => None,
        }
    }

    /// The part of the GPU that drives, where it is known.
    fn driving_part(&self, transfer: &Transfer) -> Option<&Part> {
        part_of(&self.machine.fabric, self.parts, self.driver(transfer)?)
    }

    /// The generation of the PCIe link above the GPU that drives, where it is fitted to what was measured.
    fn link_above(&self, transfer: &Transfer) -> Option<PcieGeneration> {
        let (link, _) = self.machine.fabric.upstream(self.driver(transfer)?)?;
        self.fitted.get(&link)?.width.generation
    }

    /// Microseconds that the switches and root complexes of a route add.
    fn on_path(&self, route: &Route) -> f64 {
        let fabric = &self.machine.fabric;
        let end = self.parts.end();
        let of = |node: NodeId| match fabric.node(node).kind {
            NodeKind::Switch => SWITCH_LATENCY.or_of(part_of(fabric, self.parts, node), end).value / 1000.0,
            NodeKind::RootComplex => ROOT_LATENCY.assumed(end).value / 1000.0,
            _ => 0.0,
        };
        route.hops.iter().map(|hop| of(hop.to)).sum()
    }
}

impl Started {
    fn startup(&self) -> Startup {
        let least = Seconds::from_us(self.own.value + self.on_path);
        let queued = |queued| Startup::new(least, Seconds::from_us(queued));
        let whole = self.queued.map_or(Startup::unhidden(least), queued);
        if self.fill.seconds() > 0.0 { whole.in_pieces(self.fill, STAGED_PIECE) } else { whole }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::PeerAccess;
    use peerlane_machine::units::Bytes;
    use peerlane_read::catalogue::{Parts, read_system, system};

    fn of(name: &str, from: &str, to: &str, change: impl Fn(&mut Transfer)) -> (CopyTime, Latency) {
        let machine = system(name).unwrap().unwrap();
        let model = Model::new(&machine, Parts::embedded());
        let find = |name| machine.fabric.find(name).unwrap();
        let (engine, op, peer) = (Engine::Ce, Operation::Write, PeerAccess::Enabled);
        let mut transfer = Transfer { source: find(from), destination: find(to), engine, op, peer };
        change(&mut transfer);
        (model.copy_time(&transfer).unwrap(), model.small_copy(&transfer).unwrap())
    }

    fn read(transfer: &mut Transfer) {
        transfer.op = Operation::Read;
    }

    #[test]
    fn copies_of_40_mb_are_as_slow_as_measured() {
        let size = Bytes(40_000_000);
        let gb = |change: fn(&mut Transfer)| of("h200x4-vm", "GPU1", "GPU2", change).0.rate_at(size).gb();
        let staged = |t: &mut Transfer| t.peer = PeerAccess::Disabled;
        let measured = [(gb(|_| {}), 392.2, 0.002), (gb(read), 385.5, 0.002), (gb(staged), 38.3, 0.02)];
        for (got, want, share) in measured {
            assert!((got / want - 1.0).abs() < share, "{got} {want}");
        }
    }

    /// Copies of one H200 and host memory: size, and us a copy in a queue of them.
    #[test]
    fn copies_with_host_memory_take_what_a_sweep_on_an_h200_took() {
        let sweep = [16, 4096, 65_536, 262_144, 1_048_576, 16_777_216].map(Bytes);
        let from_host = [2.30, 2.65, 3.98, 7.39, 21.52, 305.1];
        let to_host = [1.60, 1.76, 2.93, 6.24, 20.42, 305.0];
        let by_kernel = [2.85, 3.13, 4.57, 8.42, 23.83, 330.1];
        let kernel = |t: &mut Transfer| t.engine = Engine::Sm;
        let cases = [
            (of("h200x4-vm", "host0", "GPU0", |_| {}).0, from_host),
            (of("h200x4-vm", "GPU0", "host0", |_| {}).0, to_host),
            (of("h200x4-vm", "host0", "GPU0", kernel).0, by_kernel),
        ];
        for (copies, measured) in cases {
            for (size, us) in sweep.into_iter().zip(measured) {
                let got = copies.time(size).us();
                assert!((got / us - 1.0).abs() < 0.11, "{size}: {got} {us}");
            }
        }
        // half of the highest rate is reached at 153, 100 and 175 KiB there
        for ((copies, _), half) in cases.iter().zip([153.0, 100.0, 175.0]) {
            let got = copies.half_size().0 as f64 / 1024.0;
            assert!((got / half - 1.0).abs() < 0.18, "{got} {half}");
        }
    }

    #[test]
    fn each_kind_of_copy_has_its_time_and_a_path_adds_its_own() {
        let us = |(_, latency): (CopyTime, Latency)| latency.time.us();
        assert!((us(of("h200x4-vm", "GPU0", "GPU1", |_| {})) - 2.26).abs() < 1e-9);
        assert!((us(of("h200x4-vm", "GPU0", "GPU1", read)) - 13.29).abs() < 1e-9);
        let staged = |t: &mut Transfer| t.peer = PeerAccess::Disabled;
        assert!(us(of("h200x4-vm", "GPU0", "GPU1", staged)) > 16.0);
        // one switch; two switches and the root complex
        assert!((us(of("exxact-devbox", "GPU0", "GPU1", |_| {})) - 6.02).abs() < 1e-9);
        assert!((us(of("exxact-devbox", "GPU0", "GPU2", |_| {})) - 6.22).abs() < 1e-9);
        // what a queue leaves of them
        let each = |(copies, _): (CopyTime, Latency)| copies.startup.each.us();
        assert!((each(of("h200x4-vm", "GPU0", "GPU1", |_| {})) - 1.1).abs() < 1e-9);
        assert!((each(of("exxact-devbox", "GPU0", "GPU2", |_| {})) - 1.9).abs() < 1e-9);
        assert!(each(of("h200x4-vm", "GPU0", "GPU1", staged)) > 16.0);
    }

    #[test]
    fn loads_take_the_time_of_their_path() {
        let machine = system("h200x4-vm").unwrap().unwrap();
        let model = Model::new(&machine, Parts::embedded());
        let find = |name| machine.fabric.find(name).unwrap();
        assert!((model.load(find("GPU0"), find("GPU1")).unwrap().time.us() - 0.827).abs() < 1e-9);
        assert!((model.load(find("GPU0"), find("host0")).unwrap().time.us() - 1.171).abs() < 1e-9);
        // 545 to 547 ns over bricks and 617 to 619 over C2C are measured on one kind of GH200, 987 to 991 across sockets on another
        let text = "name = \"m\"\n[nodes]\ncpu0 = { part = \"grace\" }\ncpu1 = { part = \"grace\" }\nGPU0 = { part = \"gh200\" }\n\
                    GPU1 = { part = \"gh200\" }\n[[links]]\nbetween = [\"cpu0\", \"cpu1\"]\nsmp = \"?\"\n[[links]]\nbetween = \
                    [\"cpu0\", \"GPU0\"]\nc2c = true\n[[links]]\nbetween = [\"cpu1\", \"GPU1\"]\nc2c = true\n[[links]]\nbetween = \
                    [\"GPU0\", \"GPU1\"]\nnvlink = 6\n";
        let module = read_system(text, "m").unwrap();
        let model = Model::new(&module, Parts::embedded());
        let ns = |from: &str, to: &str| {
            let find = |name| module.fabric.find(name).unwrap();
            (model.load(find(from), find(to)).unwrap().time.us() * 1e3).round()
        };
        assert_eq!([ns("GPU0", "GPU1"), ns("GPU0", "host0"), ns("GPU0", "host1")], [545.0, 618.0, 988.0]);
        let pcie = system("exxact-devbox").unwrap().unwrap();
        let model = Model::new(&pcie, Parts::embedded());
        assert!(model.load(pcie.fabric.find("GPU0").unwrap(), pcie.fabric.find("GPU1").unwrap()).is_none());
    }
}
