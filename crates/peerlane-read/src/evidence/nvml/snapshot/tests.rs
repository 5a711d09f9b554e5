//! A snapshot that peerlane writes is one that it reads.

use proptest::collection::vec;
use proptest::option::of;
use proptest::prelude::*;
use proptest::strategy::Union;

use super::*;
use crate::evidence::{Files, Item, Text, read_files, scan_text};
use peerlane_machine::fabric::PcieGeneration;

fn text() -> impl Strategy<Value = Option<String>> {
    of(".{0,12}")
}

/// CPUs or NUMA nodes; none too, as of a node that has only memory.
fn list() -> impl Strategy<Value = Option<CpuList>> {
    let ranges = vec((0..300_u32, 0..20_u32), 0..5);
    of(ranges.prop_map(|ranges| CpuList::from_ranges(ranges.into_iter().map(|(first, more)| (first, first + more)))))
}

fn width() -> impl Strategy<Value = PcieWidth> {
    (of(1..=6_u8), of(1..=32_u8)).prop_map(|(generation, lanes)| PcieWidth {
        generation: generation.and_then(PcieGeneration::from_number),
        lanes,
    })
}

/// A number that a library gives in thousandths.
fn thousandths() -> impl Strategy<Value = Option<f64>> {
    of(any::<u32>().prop_map(|n| f64::from(n) / 1000.0))
}

fn share() -> impl Strategy<Value = Option<Share>> {
    of((any::<u64>(), any::<u64>()).prop_map(|(total, used)| Share { total: Bytes(total), used: Bytes(used) }))
}

fn one_of<T: Clone + std::fmt::Debug + 'static>(all: &[T]) -> impl Strategy<Value = T> + use<T> {
    Union::new(all.iter().map(|one| Just(one.clone())))
}

fn nvlink() -> impl Strategy<Value = Nvlink> {
    let remote = of(one_of(&[RemoteKind::Gpu, RemoteKind::Npu, RemoteKind::Switch, RemoteKind::Unknown]));
    let counts = vec(of(any::<u64>()), 6);
    (any::<u8>(), of(any::<bool>()), of(any::<u32>()), remote, text(), counts).prop_map(
        |(link, active, version, remote, remote_bus_id, n)| Nvlink {
            link,
            active,
            version,
            megabytes_per_second: n[0],
            remote,
            remote_bus_id,
            errors: n[1].map(|crc| NvlinkErrors { replay: n[2], recovery: n[3], crc: Some(crc) }),
            sent_kib: n[4],
            received_kib: n[5],
        },
    )
}

fn now() -> impl Strategy<Value = Now> {
    (vec(thousandths(), 4), vec(of(any::<u32>()), 6), of(vec(".{0,9}", 0..3)), text()).prop_map(
        |(celsius_and_watts, n, clock_event_reasons, performance_state)| Now {
            temperature_c: celsius_and_watts[0],
            memory_temperature_c: celsius_and_watts[1],
            power_w: celsius_and_watts[2],
            power_limit_w: celsius_and_watts[3],
            sm_clock_mhz: n[0],
            memory_clock_mhz: n[1],
            most_sm_clock_mhz: n[2],
            most_memory_clock_mhz: n[3],
            clock_event_reasons,
            performance_state,
            utilization: n[4],
            memory_utilization: n[5],
        },
    )
}

fn gpu() -> impl Strategy<Value = Gpu> {
    let address = of((any::<u16>(), any::<u8>(), 0..32_u8, 0..8_u8));
    let address = address.prop_map(|place| {
        place.map(|(domain, bus, device, function)| PciAddress { domain: domain.into(), bus, device, function })
    });
    let pcie = ((width(), width(), width()), of(any::<u64>()), of(any::<u32>()), of(any::<u32>())).prop_map(
        |((running, allowed, capable), replays, sent_kb_per_second, received_kb_per_second)| Pcie {
            running,
            allowed,
            capable,
            replays,
            sent_kb_per_second,
            received_kb_per_second,
        },
    );
    let modes = (text(), vec(of(any::<bool>()), 3), text()).prop_map(|(compute, is, virtualization)| Modes {
        compute,
        persistence: is[0],
        mig: is[1],
        ecc: is[2],
        virtualization,
    });
    let fabric = of((".{0,9}", text(), of(any::<u32>()), text()))
        .prop_map(|of| of.map(|(state, status, clique, cluster)| FabricState { state, status, clique, cluster }));
    let process = (any::<u32>(), of(any::<u64>())).prop_map(|(pid, held)| Process { pid, memory: held.map(Bytes) });
    let numbers = (any::<u32>(), of(any::<(u8, u8)>()), of(any::<u32>()), of(any::<u32>()));
    let parts = (address, pcie, modes, fabric, now(), (list(), list()), of(vec(process, 0..3)), (share(), share()));
    (numbers, vec(text(), 5), vec(nvlink(), 0..4), parts).prop_map(
        |((index, compute_capability, memory_bus_bits, memory_numa), mut texts, nvlinks, parts)| {
            let (address, pcie, modes, fabric, now, (cpus, numa), processes, (memory, bar1)) = parts;
            let mut text = || texts.pop().flatten();
            Gpu {
                index,
                name: text(),
                uuid: text(),
                serial: text(),
                address,
                architecture: text(),
                compute_capability,
                vbios: text(),
                memory,
                bar1,
                memory_bus_bits,
                pcie,
                nvlinks,
                fabric,
                cpus,
                numa,
                memory_numa,
                now,
                modes,
                processes,
            }
        },
    )
}

fn pair() -> impl Strategy<Value = Pair> {
    use Ancestor::{HostBridge, Internal, Multiple, Node, Single, System};
    let ancestor = of(one_of(&[Internal, Single, Multiple, HostBridge, Node, System]));
    (any::<(u32, u32)>(), ancestor, vec(text(), 5)).prop_map(|((from, to), ancestor, mut texts)| {
        let mut text = || texts.pop().flatten();
        Pair {
            from,
            to,
            ancestor,
            p2p: P2p { read: text(), write: text(), nvlink: text(), atomics: text(), prop: text() },
        }
    })
}

fn snapshot() -> impl Strategy<Value = Snapshot> {
    let absent =
        (".{0,9}", ".{0,9}", vec(any::<u32>(), 0..3)).prop_map(|(field, error, gpus)| Absent { field, error, gpus });
    let lists = (vec(gpu(), 0..4), vec(pair(), 0..4), vec(absent, 0..3));
    (of(any::<u64>()), vec(text(), 4), lists).prop_map(|(taken, mut texts, (gpus, pairs, absent))| {
        let mut text = || texts.pop().flatten();
        Snapshot {
            schema: SCHEMA.to_owned(),
            peerlane: env!("CARGO_PKG_VERSION").to_owned(),
            taken,
            library: text(),
            driver: text(),
            nvml: text(),
            cuda: text(),
            gpus,
            pairs,
            absent,
        }
    })
}

/// Files of sysfs: NUMA nodes, with CPUs or without, and what else there may be.
fn files() -> impl Strategy<Value = Files> {
    let item = prop_oneof![
        vec(any::<u8>(), 0..40).prop_map(Item::File),
        ".{0,20}".prop_map(|text| Item::File(text.into_bytes())),
        "(\\.\\./){0,3}[a-z0-9:.]{1,12}".prop_map(Item::Link),
    ];
    let node = (0..64_u32, list());
    (vec(node, 0..4), vec(("sys(/[a-z0-9:_]{1,8}){1,4}", item), 0..8)).prop_map(|(nodes, others)| {
        let mut files = Files::default();
        for (path, item) in others {
            files.insert(&path, item);
        }
        for (node, cpus) in nodes {
            let text = format!("{}\n", cpus.unwrap_or_default());
            files.insert(&format!("sys/devices/system/node/node{node}/cpulist"), Item::File(text.into_bytes()));
        }
        files
    })
}

proptest! {
    #[test]
    fn what_is_written_of_nvml_is_read_as_it_was(snapshot in snapshot()) {
        for text in [serde_json::to_string(&snapshot).unwrap(), serde_json::to_string_pretty(&snapshot).unwrap()] {
            let read: Snapshot = serde_json::from_str(&text).unwrap();
            prop_assert_eq!(&read, &snapshot);
            let found = scan_text(&Text::new("nvml.json", text.as_bytes()));
            let refused = found.warnings.iter().any(|warning| warning.message.contains("cannot be read"));
            prop_assert!(!refused, "{:?}", found.warnings);
        }
    }

    #[test]
    fn what_is_written_of_sysfs_gives_the_evidence_of_the_files(files in files()) {
        let text = files.to_json();
        let of_text = scan_text(&Text::new("x", text.as_bytes()));
        let facts = |found: crate::evidence::Found| found.evidence.into_iter().map(|e| e.fact).collect::<Vec<_>>();
        prop_assert!(of_text.warnings.iter().all(|w| !w.message.contains("cannot be read")), "{:?}", of_text.warnings);
        prop_assert_eq!(facts(of_text), facts(read_files("x", &files)));
    }
}
