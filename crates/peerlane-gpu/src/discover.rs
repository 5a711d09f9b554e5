//! Queries NVML for everything it reports about this machine's GPUs.
//!
//! Each GPU has its own thread: some calls take milliseconds, and a GPU with NVLinks needs hundreds.

use std::ffi::c_uint;
use std::io;
use std::thread;
use std::time::{SystemTime, UNIX_EPOCH};

use peerlane_machine::fabric::{PcieGeneration, PcieWidth};
use peerlane_read::evidence::nvml::{Absent, Gpu, Modes, Now, Nvlink, NvlinkErrors, P2p, Pair, Pcie, SCHEMA, Snapshot};

use crate::bindings::nvml as ffi;
use crate::foreign;
use crate::nvml::{Device, Problem, Session};

/// What NVML reports about this machine's GPUs now.
///
/// The error is one line: no driver, no permission, versions that do not fit. A machine without a GPU gives a
/// snapshot without GPUs; a GPU that does not answer is listed with its number alone.
pub fn discover() -> Result<Snapshot, String> {
    snapshot(&Session::open()?)
}

fn snapshot(session: &Session) -> Result<Snapshot, String> {
    let count = session.count().map_err(|problem| format!("NVML: the GPUs cannot be counted: {problem}"))?;
    let mut notes = Notes::default();
    let devices: Vec<(u32, Option<Device>)> =
        (0..count).map(|index| (index, notes.keep("handle", Some(index), session.device(index)))).collect();
    let mut snapshot = Snapshot {
        schema: SCHEMA.to_owned(),
        peerlane: env!("CARGO_PKG_VERSION").to_owned(),
        taken: SystemTime::now().duration_since(UNIX_EPOCH).ok().map(|since| since.as_secs()),
        library: session.file().map(str::to_owned),
        driver: notes.keep("driver", None, session.driver()),
        nvml: notes.keep("nvml", None, session.version()),
        cuda: notes.keep("cuda", None, session.cuda()),
        ..Snapshot::default()
    };
    let all = devices.as_slice();
    let answers: Vec<Reported> = thread::scope(|scope| {
        let mut asked = Vec::new();
        for &(index, device) in all {
            let asking = move |device| thread::Builder::new().spawn_scoped(scope, move || one(index, device, all));
            asked.push(device.map(asking));
        }
        asked.into_iter().map(answer).collect()
    });
    for ((index, _), answer) in devices.iter().zip(answers) {
        let (gpu, pairs, own) = match answer {
            Ok(Some(answer)) => answer,
            Ok(None) => (Gpu { index: *index, ..Gpu::default() }, Vec::new(), Notes::default()),
            Err(problem) => {
                notes.add("all", &problem, &[*index]);
                (Gpu { index: *index, ..Gpu::default() }, Vec::new(), Notes::default())
            }
        };
        snapshot.gpus.push(gpu);
        snapshot.pairs.extend(pairs);
        notes.merge(own);
    }
    snapshot.absent = notes.0;
    Ok(snapshot)
}

/// A GPU, how it reaches the others, and what of it could not be asked.
type Report = (Gpu, Vec<Pair>, Notes);

/// What a thread that asked a GPU brings back; nothing where the GPU has no handle.
type Reported = Result<Option<Report>, String>;

fn answer(asked: Option<io::Result<thread::ScopedJoinHandle<Report>>>) -> Reported {
    let Some(started) = asked else { return Ok(None) };
    let thread = started.map_err(|error| format!("cannot start a thread to query it: {error}"))?;
    thread.join().map(Some).map_err(|_| "the query failed".to_owned())
}

/// What could not be asked, each kind once.
#[derive(Debug, Default)]
struct Notes(Vec<Absent>);

impl Notes {
    /// The value, or a note that it is absent.
    fn keep<T>(&mut self, field: &str, gpu: Option<u32>, told: Result<T, Problem>) -> Option<T> {
        told.map_err(|problem| self.add(field, &problem.to_string(), gpu.as_slice())).ok()
    }

    fn add(&mut self, field: &str, error: &str, gpus: &[u32]) {
        match self.0.iter_mut().find(|a| a.field == field && a.error == error) {
            Some(known) => {
                known.gpus.extend(gpus.iter().filter(|g| !known.gpus.contains(g)).copied().collect::<Vec<_>>())
            }
            None => self.0.push(Absent { field: field.to_owned(), error: error.to_owned(), gpus: gpus.to_vec() }),
        }
    }

    fn merge(&mut self, other: Notes) {
        for Absent { field, error, gpus } in other.0 {
            self.add(&field, &error, &gpus);
        }
    }
}

/// KB/s over PCIe, sent and received.
type Throughput = [Result<u32, Problem>; 2];

/// Asks how much goes over a GPU's PCIe link, both ways at once, and meanwhile for everything else: each of the two takes the
/// 20 ms that it measures (`nvmlDeviceGetPcieThroughput`).
fn with_throughput<T>(device: Device, everything_else: impl FnOnce() -> T) -> (T, Throughput) {
    thread::scope(|scope| {
        let ask = |of: fn(Device) -> Result<u32, Problem>| {
            thread::Builder::new().spawn_scoped(scope, move || of(device)).map_err(|_| of)
        };
        let asked = [ask(|device| device.sent()), ask(|device| device.received())];
        let rest = everything_else();
        let failed = || Err(Problem::Nonsense("nvmlDeviceGetPcieThroughput", "the query failed".to_owned()));
        // where there was no thread, one after the other
        (
            rest,
            asked.map(|asked| asked.map_or_else(|of| of(device), |thread| thread.join().unwrap_or_else(|_| failed()))),
        )
    })
}

/// All of one GPU, and how it reaches the others.
fn one(index: u32, device: Device, all: &[(u32, Option<Device>)]) -> Report {
    let ((mut gpu, pairs, mut notes), [sent, received]) = with_throughput(device, || at_once(index, device, all));
    gpu.pcie.sent_kb_per_second = notes.keep("pcie.sent_kb_per_second", Some(index), sent);
    gpu.pcie.received_kb_per_second = notes.keep("pcie.received_kb_per_second", Some(index), received);
    (gpu, pairs, notes)
}

/// What NVML answers at once of one GPU.
fn at_once(index: u32, device: Device, all: &[(u32, Option<Device>)]) -> Report {
    let mut notes = Notes::default();
    let mut gpu = Gpu { index, ..Gpu::default() };
    {
        let mut keep = |field: &str, told| notes.keep(field, Some(index), told);
        gpu.name = keep("name", device.name());
        gpu.uuid = keep("uuid", device.uuid());
        gpu.serial = keep("serial", device.serial());
        gpu.vbios = keep("vbios", device.vbios());
    }
    gpu.address = notes.keep("address", Some(index), device.address());
    gpu.architecture = notes.keep("architecture", Some(index), device.architecture()).flatten();
    gpu.compute_capability = notes.keep("compute_capability", Some(index), device.compute_capability());
    gpu.memory = notes.keep("memory", Some(index), device.memory());
    gpu.bar1 = notes.keep("bar1", Some(index), device.bar1());
    gpu.memory_bus_bits = notes.keep("memory_bus_bits", Some(index), device.memory_bus_bits());
    gpu.pcie = pcie(index, device, &mut notes);
    gpu.nvlinks = nvlinks(index, device, &mut notes);
    gpu.fabric = notes.keep("fabric", Some(index), device.fabric());
    gpu.cpus = notes.keep("cpus", Some(index), device.cpus());
    gpu.numa = notes.keep("numa", Some(index), device.numa());
    gpu.memory_numa = notes.keep("memory_numa", Some(index), device.memory_numa());
    gpu.now = now(index, device, &mut notes);
    gpu.modes = modes(index, device, &mut notes);
    gpu.processes = notes.keep("processes", Some(index), device.processes()).map(|mut all| {
        all.retain(|p| p.pid != std::process::id());
        all
    });
    let others =
        all.iter().filter(|(other, _)| *other != index).filter_map(|(other, device)| Some((*other, (*device)?)));
    let pairs = others.map(|(to, other)| pair((index, device), (to, other), &mut notes)).collect();
    (gpu, pairs, notes)
}

fn pcie(index: u32, device: Device, notes: &mut Notes) -> Pcie {
    let mut keep = |field: &str, told| notes.keep(field, Some(index), told);
    let mut width = |name: &str, generation, lanes: Option<Result<u32, Problem>>| PcieWidth {
        generation: keep(&format!("pcie.{name}.generation"), generation)
            .and_then(|n| PcieGeneration::from_number(u8::try_from(n).ok()?)),
        lanes: lanes.and_then(|told| keep(&format!("pcie.{name}.lanes"), told)).and_then(|n| {
            // no lanes: a link that is down
            u8::try_from(n).ok().filter(|n| *n > 0)
        }),
    };
    let running = width("running", device.running_generation(), Some(device.running_lanes()));
    let allowed = width("allowed", device.allowed_generation(), Some(device.allowed_lanes()));
    // NVML does not tell how many lanes the device alone could have
    let capable = width("capable", device.capable_generation(), None);
    let replays = keep("pcie.replays", device.replays()).map(u64::from);
    Pcie { running, allowed, capable, replays, ..Pcie::default() }
}

fn now(index: u32, device: Device, notes: &mut Notes) -> Now {
    let rates = notes.keep("now.utilization", Some(index), device.utilization());
    let reasons = notes.keep("now.clock_event_reasons", Some(index), device.clock_event_reasons());
    let state = notes.keep("now.performance_state", Some(index), device.performance_state()).flatten();
    let memory = device.fields(&[(ffi::NVML_FI_DEV_MEMORY_TEMP, 0)]).and_then(|mut told| told.remove(0));
    let memory = notes.keep("now.memory_temperature_c", Some(index), memory);
    let mut keep = |field: &str, told| notes.keep(field, Some(index), told);
    let watts = |milliwatts: u32| f64::from(milliwatts) / 1000.0;
    Now {
        temperature_c: keep("now.temperature_c", device.temperature()).map(f64::from),
        memory_temperature_c: memory.map(|celsius| celsius as f64).filter(|celsius| *celsius > 0.0),
        power_w: keep("now.power_w", device.milliwatts()).map(watts),
        power_limit_w: keep("now.power_limit_w", device.most_milliwatts()).map(watts),
        sm_clock_mhz: keep("now.sm_clock_mhz", device.sm_clock()),
        memory_clock_mhz: keep("now.memory_clock_mhz", device.memory_clock()),
        most_sm_clock_mhz: keep("now.most_sm_clock_mhz", device.most_sm_clock()),
        most_memory_clock_mhz: keep("now.most_memory_clock_mhz", device.most_memory_clock()),
        clock_event_reasons: reasons,
        performance_state: state,
        utilization: rates.map(|(gpu, _)| gpu),
        memory_utilization: rates.map(|(_, memory)| memory),
    }
}

fn modes(index: u32, device: Device, notes: &mut Notes) -> Modes {
    Modes {
        compute: notes.keep("modes.compute", Some(index), device.compute_mode()).flatten(),
        persistence: notes.keep("modes.persistence", Some(index), device.persistence()),
        mig: notes.keep("modes.mig", Some(index), device.mig()),
        ecc: notes.keep("modes.ecc", Some(index), device.ecc()),
        virtualization: notes.keep("modes.virtualization", Some(index), device.virtualization()).flatten(),
    }
}

/// Its NVLinks, as far as it has any.
fn nvlinks(index: u32, device: Device, notes: &mut Notes) -> Vec<Nvlink> {
    let counted = device.fields(&[(ffi::NVML_FI_DEV_NVLINK_LINK_COUNT, 0)]).and_then(|mut told| told.remove(0));
    let count = match counted.map(|n| foreign::bounded("NVLinks", n, 0, u64::from(u8::MAX))) {
        Ok(Ok(count)) => count as u32,
        Ok(Err(what)) => {
            notes.add("nvlinks", &Problem::Nonsense("nvmlDeviceGetFieldValues", what).to_string(), &[index]);
            ffi::NVML_NVLINK_MAX_LINKS
        }
        Err(_) => ffi::NVML_NVLINK_MAX_LINKS,
    };
    let mut links = Vec::new();
    for link in 0..count {
        let active = match device.link_active(link) {
            Ok(active) => active,
            Err(problem) => {
                // the first that is not there ends them, unless nobody may tell
                if link == 0 || !problem.is(ffi::nvmlReturn_t::NVML_ERROR_INVALID_ARGUMENT) {
                    notes.add("nvlinks.active", &problem.to_string(), &[index]);
                }
                break;
            }
        };
        let mut one = Nvlink { link: link as u8, active: Some(active), ..Nvlink::default() };
        if active {
            one.version = notes.keep("nvlinks.version", Some(index), device.link_version(link));
            one.remote = notes.keep("nvlinks.remote", Some(index), device.link_remote(link));
            one.remote_bus_id = notes.keep("nvlinks.remote_bus_id", Some(index), device.link_remote_bus_id(link));
        }
        links.push(one);
    }
    counters(index, device, &mut links, notes);
    links
}

/// Rates, throughputs and errors of all links, by one call: a call for each error of each link holds up all that calls the
/// driver, `cuInit` too, for 64 ms of an H100.
fn counters(index: u32, device: Device, links: &mut [Nvlink], notes: &mut Notes) {
    const EACH: [u32; 6] = [
        ffi::NVML_FI_DEV_NVLINK_GET_SPEED,
        ffi::NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_TX,
        ffi::NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_RX,
        ffi::NVML_FI_DEV_NVLINK_ERROR_DL_REPLAY,
        ffi::NVML_FI_DEV_NVLINK_ERROR_DL_RECOVERY,
        ffi::NVML_FI_DEV_NVLINK_ERROR_DL_CRC,
    ];
    if links.is_empty() {
        return;
    }
    let mut wanted = vec![(ffi::NVML_FI_DEV_NVLINK_SPEED_MBPS_COMMON, 0)];
    wanted.extend(links.iter().flat_map(|link| EACH.map(|field| (field, c_uint::from(link.link)))));
    let Some(told) = notes.keep("nvlinks.megabytes_per_second", Some(index), device.fields(&wanted)) else { return };
    let mut told = told.into_iter();
    let common = told.next().and_then(Result::ok).filter(|mb| *mb > 0);
    for link in links {
        let [rate, sent, received, replay, recovery, crc] = EACH.map(|_| told.next());
        if link.active == Some(true) {
            // drivers before the field of each link tell one rate for all
            let own = rate.and_then(|rate| {
                if common.is_some() { rate.ok() } else { notes.keep("nvlinks.megabytes_per_second", Some(index), rate) }
            });
            link.megabytes_per_second = own.filter(|mb| *mb > 0).or(common);
        }
        link.sent_kib = sent.and_then(|sent| notes.keep("nvlinks.sent_kib", Some(index), sent));
        let replay = replay.and_then(|replay| notes.keep("nvlinks.errors", Some(index), replay));
        let [recovery, crc] = [recovery, crc].map(|count| count.and_then(Result::ok));
        let errors = NvlinkErrors { replay, recovery, crc };
        link.errors = (errors != NvlinkErrors::default()).then_some(errors);
        link.received_kib = received.and_then(|received| notes.keep("nvlinks.received_kib", Some(index), received));
    }
}

fn pair((from, device): (u32, Device), (to, other): (u32, Device), notes: &mut Notes) -> Pair {
    use ffi::nvmlGpuP2PCapsIndex_t as Capability;
    let ancestor = notes.keep("pairs.ancestor", Some(from), device.ancestor(other)).flatten();
    let mut p2p = |field: &str, what| notes.keep(&format!("pairs.p2p.{field}"), Some(from), device.p2p(other, what));
    Pair {
        from,
        to,
        ancestor,
        p2p: P2p {
            read: p2p("read", Capability::NVML_P2P_CAPS_INDEX_READ),
            write: p2p("write", Capability::NVML_P2P_CAPS_INDEX_WRITE),
            nvlink: p2p("nvlink", Capability::NVML_P2P_CAPS_INDEX_NVLINK),
            atomics: p2p("atomics", Capability::NVML_P2P_CAPS_INDEX_ATOMICS),
            prop: p2p("prop", Capability::NVML_P2P_CAPS_INDEX_PROP),
        },
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};
    use std::time::{Duration, Instant};

    use peerlane_machine::fabric::NodeKind;
    use peerlane_machine::fact::Fact;
    use peerlane_read::assemble::assemble;
    use peerlane_read::evidence::{Text, scan_text};

    use super::*;
    use crate::nvml::testing::Fake;

    fn fake() -> Snapshot {
        snapshot(&Session::start(Fake::table(), Some("libnvidia-ml.so.580.1".to_owned())).unwrap()).unwrap()
    }

    #[test]
    fn what_is_told_is_kept_and_what_is_not_is_noted_once() {
        let snapshot = fake();
        assert_eq!((snapshot.driver.as_deref(), snapshot.cuda.as_deref()), (Some("580.1"), Some("13.0")));
        let [one, _, lost] = &snapshot.gpus[..] else { panic!("{snapshot:?}") };
        assert_eq!((one.name.as_deref(), one.compute_capability), (Some("NVIDIA H100"), Some((9, 0))));
        assert_eq!((one.architecture.as_deref(), one.modes.mig), (Some("Hopper"), Some(false)));
        assert_eq!(one.pcie.running.to_string(), "1.0 x8");
        assert_eq!((one.pcie.allowed.to_string(), one.pcie.capable.to_string()), ("4.0 x16".into(), "5.0 x?".into()));
        assert_eq!(one.cpus.as_ref().unwrap().to_string(), "0-7");
        assert_eq!(one.processes.as_deref(), Some(&[][..]), "this process is no other");
        assert_eq!(one.nvlinks.iter().map(|l| l.active).collect::<Vec<_>>(), [Some(true), Some(true), Some(false)]);
        assert_eq!(one.nvlinks[0].megabytes_per_second, Some(26_562));
        assert_eq!((one.nvlinks[2].megabytes_per_second, one.nvlinks[2].remote), (None, None));
        assert_eq!(*lost, Gpu { index: 2, ..Gpu::default() });
        let why = |field: &str| -> Vec<(&str, &[u32])> {
            let of = snapshot.absent.iter().filter(|a| a.field == field);
            of.map(|a| (a.error.as_str(), a.gpus.as_slice())).collect()
        };
        assert_eq!(why("handle"), [("GPU is lost", &[2][..])]);
        assert_eq!(why("serial"), [("this driver has no nvmlDeviceGetSerial", &[0, 1][..])]);
        assert_eq!(why("nvlinks.sent_kib"), [("Not Supported", &[0, 1][..])]);
        assert_eq!(why("nvml"), [("this driver has no nvmlSystemGetNVMLVersion", &[][..])]);
        assert_eq!((why("name"), why("nvlinks.active")), (vec![], vec![]));
        assert_eq!(snapshot.pairs.len(), 2);
        assert_eq!((snapshot.pairs[0].from, snapshot.pairs[0].p2p.prop.as_deref()), (0, Some("NS")));
    }

    /// Two calls of this meet, or give up.
    static THROUGHPUTS: AtomicU32 = AtomicU32::new(0);

    unsafe extern "C" fn throughput(
        _: ffi::nvmlDevice_t,
        way: ffi::nvmlPcieUtilCounter_t,
        place: *mut c_uint,
    ) -> ffi::nvmlReturn_t {
        THROUGHPUTS.fetch_add(1, Ordering::SeqCst);
        let began = Instant::now();
        while THROUGHPUTS.load(Ordering::SeqCst) < 2 && began.elapsed() < Duration::from_secs(10) {
            thread::yield_now();
        }
        let met = THROUGHPUTS.load(Ordering::SeqCst) >= 2;
        // SAFETY: the caller's place.
        unsafe { place.write(if met { 100 + way.0 } else { 0 }) };
        ffi::nvmlReturn_t::NVML_SUCCESS
    }

    #[test]
    fn throughputs_are_asked_at_the_same_time() {
        let table = ffi::Nvml { nvmlDeviceGetPcieThroughput: Some(throughput), ..Fake::table() };
        let session = Session::start(table, None).unwrap();
        let device = session.device(0).unwrap();
        let (rest, [sent, received]) = with_throughput(device, || 7);
        let ways =
            [ffi::nvmlPcieUtilCounter_t::NVML_PCIE_UTIL_TX_BYTES, ffi::nvmlPcieUtilCounter_t::NVML_PCIE_UTIL_RX_BYTES];
        assert_eq!((rest, [sent, received]), (7, ways.map(|way| Ok(100 + way.0))));
    }

    #[test]
    fn the_snapshot_is_a_machine() {
        let text = serde_json::to_string(&fake()).unwrap();
        let machines = assemble(scan_text(&Text::new("nvml.json", text.as_bytes())));
        let [machine] = &machines[..] else { panic!("{} machines", machines.len()) };
        let gpus: Vec<_> = machine.fabric.of_kind(NodeKind::Gpu).collect();
        assert_eq!(gpus.len(), 3);
        assert_eq!(machine.fabric.class(gpus[0], gpus[1]).unwrap().to_string(), "NV2");
        let unreachable = machine.evidence.iter().filter_map(|e| match &e.fact {
            Fact::Gpus(gpus) => Some(gpus.iter().filter(|gpu| gpu.unreachable.is_some()).count()),
            _ => None,
        });
        assert_eq!(unreachable.sum::<usize>(), 1, "{:?}", machine.evidence);
    }
}
