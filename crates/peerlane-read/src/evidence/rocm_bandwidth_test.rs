//! Reads the output of AMD's `rocm-bandwidth-test` (`rocm_bandwidth_test` in old releases), of one run or several.
//!
//! Devices are numbered through CPUs and GPUs; here the GPUs are counted for themselves, from 0, as `rocm-smi` does, and
//! the CPUs are host memory. A cell is a copy from row to column by a DMA engine; a bidirectional one is the sum of
//! both directions, as its near-doubling of the PCIe rates shows. `N/A` is a pair without access.

use std::collections::BTreeMap;

use super::grid::{self, gpu_names};
use super::text::Span;
use super::{
    CorruptData, Direction, Engine, Fact, Found, GpuFacts, HostFacts, Matrix, P2pCapability, P2pMatrix, P2pStatus, Text,
};
use peerlane_machine::fabric::PciAddress;

const TOOL: &str = "rocm-bandwidth-test";

/// More devices than any machine has.
const MAX_DEVICES: usize = 512;

/// Lines between a title and its header, most of them blank.
const TITLE_GAP: usize = 4;

pub(super) fn scan(text: &Text, found: &mut Found) {
    let mut run = Devices::default();
    text.walk(|i| {
        let line = text.line(i).trim().trim_start_matches('>').trim();
        if line.starts_with("RocmBandwidthTest Version") {
            run = Devices { begun: true, ..Devices::default() };
        } else if (run.begun || begins(line)) && run.take(line, i) {
            run.begun = true;
            if !text.line(i + 1).trim().starts_with("Device:") {
                run.push(text, found);
            }
        } else if let Some(what) = title(line).filter(|_| run.begun) {
            let last = table(text, i, line, what, &run, found);
            if last.is_none() {
                found.warn(text, TOOL, text.numbers(i, i), "a title without a table; the text may be cut");
            }
            return last.map(|last| last + 1);
        }
        None
    });
}

/// Whether it is the first device of a run whose head is not quoted: a CPU.
fn begins(line: &str) -> bool {
    line.strip_prefix("Device: 0,").is_some_and(|name| is_cpu(name) && !name.contains(", pciBusID"))
}

/// What a device is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Cpu(u32),
    Gpu(u32),
}

/// The devices of one run.
#[derive(Default)]
struct Devices {
    /// Whether a run has begun.
    begun: bool,
    listed: Vec<Listed>,
    kinds: BTreeMap<u32, Kind>,
    cpus: u32,
    lines: Span,
}

/// A device as it is listed.
struct Listed {
    number: u32,
    name: String,
    address: Option<PciAddress>,
    uuid: Option<String>,
}

impl Devices {
    /// `Device: 1,  AMD Instinct MI210,  GPU-06c9,  05:0.0`; a CPU has neither UUID nor address.
    fn take(&mut self, line: &str, i: usize) -> bool {
        let Some(rest) = line.strip_prefix("Device:") else { return false };
        let mut words = rest.split(",  ").map(str::trim);
        let first = words.next().unwrap_or_default();
        // one blank after the comma where somebody retyped it
        let (number, name) = match first.split_once(',') {
            Some((number, name)) => (number.trim(), Some(name.trim())),
            None => (first, words.next()),
        };
        let (Ok(number), Some(name)) = (number.parse::<u32>(), name) else { return false };
        if self.listed.len() >= MAX_DEVICES {
            return false;
        }
        let rest: Vec<&str> = words.collect();
        let address = rest.iter().rev().find_map(|w| w.parse().ok());
        let uuid = rest.iter().find(|w| w.starts_with("GPU-")).map(|w| (*w).to_owned());
        self.listed.push(Listed { number, name: name.to_owned(), address, uuid });
        self.lines.add(i);
        true
    }

    fn push(&mut self, text: &Text, found: &mut Found) {
        let Some(lines) = std::mem::take(&mut self.lines).numbers(text) else { return };
        // a device without what the others have is a CPU, whatever its name; retyped lists have none
        let listed = self.listed.iter().any(|device| device.is_on_bus());
        let mut gpus: Vec<GpuFacts> = Vec::new();
        let mut cpu_model = None;
        for device in std::mem::take(&mut self.listed) {
            let kind = if !device.is_on_bus() && (listed || is_cpu(&device.name)) {
                cpu_model.get_or_insert(device.name);
                self.cpus += 1;
                Kind::Cpu(self.cpus - 1)
            } else {
                let index = gpus.len() as u32;
                gpus.push(GpuFacts {
                    index: Some(index),
                    name: Some(device.name).filter(|name| !name.is_empty()),
                    address: device.address,
                    uuid: device.uuid.filter(|uuid| uuid != "GPU-XX"),
                    ..GpuFacts::default()
                });
                Kind::Gpu(index)
            };
            self.kinds.insert(device.number, kind);
        }
        found.push(text, TOOL, lines, Fact::Gpus(gpus));
        if cpu_model.is_some() {
            // its CPUs are NUMA nodes, of which a socket may have several
            found.push(text, TOOL, lines, Fact::Host(HostFacts { cpu_model, ..HostFacts::default() }));
        }
    }

    fn name(&self, number: u32) -> Option<String> {
        Some(match self.kinds.get(&number)? {
            Kind::Gpu(n) => format!("GPU{n}"),
            Kind::Cpu(_) if self.cpus == 1 => "host".to_owned(),
            Kind::Cpu(n) => format!("host{n}"),
        })
    }
}

impl Listed {
    fn is_on_bus(&self) -> bool {
        self.address.is_some() || self.uuid.is_some()
    }
}

/// Whether a device without an address is a CPU, by its name.
fn is_cpu(name: &str) -> bool {
    ["CPU", "Processor", "EPYC", "Xeon", "Ryzen", "Threadripper"].iter().any(|w| name.contains(w))
}

/// What a table holds.
#[derive(Clone, Copy)]
enum What {
    Access,
    /// Distances of NUMA nodes, by the kernel's table.
    Distance,
    Rates(Direction),
    /// Whether data arrived as it was sent.
    Validation,
}

fn title(line: &str) -> Option<What> {
    match line {
        "Device Access" | "Inter-Device Access" => Some(What::Access),
        "Data Path Validation" => Some(What::Validation),
        "Device Numa Distance" | "Inter-Device Numa Distance" => Some(What::Distance),
        // release 1.0 leaves out the word "copy"
        _ if line.ends_with(" bandwidth GB/s") => {
            // spelt so in releases before 2.4
            let both = line.starts_with("Bidirectional") || line.starts_with("Bdirectional");
            let one = line.starts_with("Unidirectional");
            (both || one).then_some(What::Rates(if both {
                Direction::Bidirectional
            } else {
                Direction::Unidirectional
            }))
        }
        _ => None,
    }
}

/// Reads the table below a title; returns its last line.
fn table(text: &Text, at: usize, title: &str, what: What, run: &Devices, found: &mut Found) -> Option<usize> {
    let header = (at + 1..=at + TITLE_GAP).find(|i| text.line(*i).trim().starts_with("D/D"))?;
    if let What::Validation = what {
        return Some(validation(text, at, header, run, found));
    }
    let table = grid::read_spaced(text, header, "D/D")?;
    let lines = text.numbers(at, table.last);
    if table.cut || table.rows.len() < table.cols.len() {
        let message = format!("the table is cut: {} of {} rows", table.rows.len(), table.cols.len());
        found.warn(text, TOOL, lines, message);
    }
    let of = |gpu: bool| {
        let chosen = run.kinds.iter().filter(|(_, kind)| matches!(kind, Kind::Gpu(_)) == gpu).map(|(n, _)| *n);
        chosen.filter(|n| table.cols.contains(n)).collect::<Vec<u32>>()
    };
    let (gpus, hosts) = (of(true), of(false));
    match what {
        What::Validation => {}
        What::Access => {
            let status = |a: &u32, b: &u32| {
                let can = table.at(*a, *b).filter(|_| a != b)?;
                Some(if can != 0.0 { P2pStatus::Ok } else { P2pStatus::NotSupported })
            };
            let cells = gpus.iter().map(|a| gpus.iter().map(|b| status(a, b)).collect()).collect();
            let numbers: Vec<u32> = (0..gpus.len() as u32).collect();
            let (rows, cols) = (gpu_names(&numbers), gpu_names(&numbers));
            if gpus.len() > 1 {
                let matrix = P2pMatrix { capability: P2pCapability::Access, rows, cols, cells };
                found.push(text, TOOL, lines, Fact::P2p(matrix));
            }
        }
        What::Distance => {
            let near = |gpu: &u32| {
                let distance = |host: &u32| table.at(*gpu, *host).filter(|d| *d > 0.0);
                let least = hosts.iter().filter_map(distance).reduce(f64::min)?;
                let mut nearest = hosts.iter().filter(|host| distance(host) == Some(least));
                // two that are as near leave the node open
                let host = nearest.next().filter(|_| nearest.next().is_none())?;
                match (run.kinds.get(gpu)?, run.kinds.get(host)?) {
                    (Kind::Gpu(index), Kind::Cpu(node)) => Some((*index, *node)),
                    _ => None,
                }
            };
            let placed = gpus.iter().filter_map(near).map(|(index, node)| GpuFacts {
                index: Some(index),
                numa: Some(node),
                ..GpuFacts::default()
            });
            // one CPU says nothing
            let placed: Vec<GpuFacts> = placed.filter(|_| hosts.len() > 1).collect();
            found.push(text, TOOL, lines, Fact::Gpus(placed));
        }
        What::Rates(direction) => {
            for (rows, cols, p2p) in [(&gpus, &gpus, Some(true)), (&hosts, &gpus, None), (&gpus, &hosts, None)] {
                let values: Vec<Vec<Option<f64>>> =
                    rows.iter().map(|a| cols.iter().map(|b| table.at(*a, *b)).collect()).collect();
                if values.iter().flatten().all(Option::is_none) {
                    continue;
                }
                let names = |of: &[u32]| of.iter().filter_map(|n| run.name(*n)).collect::<Vec<String>>();
                let matrix = Matrix {
                    direction: Some(direction),
                    p2p,
                    engine: Some(Engine::Ce),
                    rows: names(rows),
                    cols: names(cols),
                    values,
                    title: title.to_owned(),
                    ..Matrix::default()
                };
                found.push(text, TOOL, lines, Fact::Matrix(matrix));
            }
        }
    }
    Some(table.last)
}

/// Reads `PASS`, `FAIL` and `N/A` of each pair, from row to column; returns the last line.
fn validation(text: &Text, at: usize, header: usize, run: &Devices, found: &mut Found) -> usize {
    let numbers = |line: &str| line.split_whitespace().skip(1).map(str::parse).collect::<Result<Vec<u32>, _>>();
    let cols = numbers(text.line(header)).unwrap_or_default();
    let (mut last, mut failed) = (header, Vec::new());
    for i in header + 1..text.len() {
        let mut words = text.line(i).split_whitespace();
        let Some(first) = words.next() else { continue };
        let states: Vec<&str> = words.collect();
        let is_row = states.len() == cols.len() && states.iter().all(|w| matches!(*w, "PASS" | "FAIL" | "N/A"));
        let Some(row) = first.parse::<u32>().ok().filter(|_| is_row) else { break };
        last = i;
        let wrong = cols.iter().zip(states).filter(|(_, state)| *state == "FAIL");
        failed.extend(wrong.filter_map(|(col, _)| Some(format!("{} to {}", run.name(row)?, run.name(*col)?))));
    }
    if !failed.is_empty() {
        let detail = format!("FAIL from {}", failed.join(", "));
        let fact = CorruptData { test: "Data Path Validation".to_owned(), detail };
        found.push(text, TOOL, text.numbers(at, last), Fact::Corrupt(fact));
    }
    last
}

#[cfg(test)]
mod tests {
    use super::super::testing::scanned;
    use super::*;

    #[test]
    fn data_that_arrived_changed() {
        let found = |state: &str| {
            let body = format!(
                "RocmBandwidthTest Version: 2.6.0\n\nDevice: 0,  AMD Ryzen 9 Processor\nDevice: 1,  AMD Radeon VII,  GPU-XX,  \
                 0d:0.0\nDevice: 2,  AMD Radeon VII,  GPU-XX,  10:0.0\n\nData Path Validation\n\nD/D   0     1     2\n\n0     \
                 N/A   PASS  PASS\n\n1     PASS  PASS  {state}\n\n2     PASS  PASS  PASS\n"
            );
            let corrupt = |fact| if let Fact::Corrupt(one) = fact { Some(one.detail) } else { None };
            scanned(scan, &body).evidence.into_iter().find_map(|e| corrupt(e.fact))
        };
        assert_eq!(found("FAIL").as_deref(), Some("FAIL from GPU0 to GPU1"));
        assert_eq!(found("PASS"), None);
    }

    const RUN: &str = "\
          RocmBandwidthTest Version: 2.5.1

          Launch Command is: rocm-bandwidth-test (rocm_bandwidth -a)

          Device: 0,  Some EPYC 64-Core Processor
          Device: 1,  Card A,  GPU-0123,  0d:0.0
          Device: 2,  Card A,  GPU-4567,  10:0.0

          Inter-Device Access

          D/D       0         1         2

          0         1         1         1

          1         1         1         1

          2         1         0         1


          Inter-Device Numa Distance

          D/D       0         1         2

          0         0         20        20

          Unidirectional copy peak bandwidth GB/s

          D/D       0           1           2

          0         N/A         25.100      25.200

          1         26.300      900.000     21.400

          2         26.500      N/A         901.000

          Bdirectional copy peak bandwidth GB/s

          D/D       0           1           2

          0         N/A         48.000      48.100
";

    #[test]
    fn a_run() {
        let found = scanned(scan, RUN);
        let [gpus, host, access, pairs, down, up, both] = found.evidence.as_slice() else { panic!("{found:#?}") };
        let Fact::Gpus(gpus) = &gpus.fact else { panic!() };
        assert_eq!((gpus[1].address.unwrap().to_string(), gpus[1].index), ("0000:10:00.0".to_owned(), Some(1)));
        assert!(matches!(&host.fact, Fact::Host(h) if h.sockets.is_none() && h.cpu_model.is_some()));
        let Fact::P2p(access) = &access.fact else { panic!() };
        assert_eq!(access.cells, [[None, Some(P2pStatus::Ok)], [Some(P2pStatus::NotSupported), None]]);
        let matrix = |e: &super::super::Evidence| match &e.fact {
            Fact::Matrix(m) => m.clone(),
            other => panic!("{other:?}"),
        };
        let (pairs, down, up, both) = (matrix(pairs), matrix(down), matrix(up), matrix(both));
        assert_eq!((pairs.between("GPU0", "GPU1"), pairs.between("GPU1", "GPU0")), (Some(21.4), None));
        assert_eq!((down.between("host", "GPU1"), up.between("GPU0", "host")), (Some(25.2), Some(26.3)));
        assert_eq!((both.direction, both.between("host", "GPU0")), (Some(Direction::Bidirectional), Some(48.0)));
        assert_eq!(found.warnings.len(), 2, "the table of distances and the last one are cut");
    }

    #[test]
    fn release_1_0_without_its_head_and_its_table_of_distances() {
        let found = scanned(
            scan,
            "Device: 0,  Some EPYC 7000 Processor\nDevice: 1,  Some EPYC 7000 Processor\nDevice: 2,  Card\nDevice: 3,  Card\n\n\
             Device Numa Distance\n\nD/D 0 1 2 3\n\n0 0 12 20 32\n\n1 12 0 32 20\n\n2 20 32 0 15\n\n3 32 20 15 0\n\n\
             Unidirectional peak bandwidth GB/s\n\nD/D 0 1 2 3\n\n0 N/A N/A 26 27\n\n1 N/A N/A 25 28\n\n2 26 25 900 50\n\n3 27 28 51 900\n",
        );
        let placed = found.evidence.iter().find_map(|e| match &e.fact {
            Fact::Gpus(gpus) if gpus.iter().any(|g| g.numa.is_some()) => Some(gpus.iter().map(|g| g.numa).collect()),
            _ => None,
        });
        assert_eq!(placed, Some(vec![Some(0), Some(1)]));
        let pairs = found.evidence.iter().find_map(|e| match &e.fact {
            Fact::Matrix(m) => m.between("GPU0", "GPU1"),
            _ => None,
        });
        assert_eq!(pairs, Some(50.0));
    }

    #[test]
    fn two_cpus_are_two_host_memories_and_prose_is_nothing() {
        let found = scanned(
            scan,
            "RocmBandwidthTest Version: 2.6.0\nDevice: 0,  X CPU\nDevice: 1,  X CPU\nDevice: 2,  C,  05:0.0\n\
             Unidirectional copy peak bandwidth GB/s\nD/D 0 1 2\n0 N/A N/A 20\n1 N/A N/A 21\n2 22 23 700\n",
        );
        let Fact::Matrix(m) = &found.evidence[3].fact else { panic!("{found:#?}") };
        assert_eq!((m.rows.as_slice(), m.value(1, 0)), (&["host0".to_owned(), "host1".to_owned()][..], Some(21.0)));
        assert_eq!(scanned(scan, "Device Access\n D/D 0 1\n 0 1 1\n 1 1 1\n"), Found::default());
    }
}
