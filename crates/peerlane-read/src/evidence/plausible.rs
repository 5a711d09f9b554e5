//! Numbers that cannot be so are taken out of statements where these enter what was found, whatever reader made them.

use peerlane_machine::bounds::{Bounded, Impossible};
use peerlane_machine::matrix::{Matrix, Unit};
use peerlane_machine::names::list;
use peerlane_machine::units::{Bytes, Rate};

use super::{Fact, GpuFacts, PciDevice};

/// The most names of cells in one message.
const NAMED: usize = 4;

/// What readers make of a size that is none.
pub(super) const NO_SIZE: Bytes = Bytes(u64::MAX);

/// Numbers that were taken out, by their quantity.
#[derive(Default)]
struct Check {
    found: Vec<(Impossible, usize, Vec<String>)>,
}

impl Check {
    fn number(&mut self, of: Bounded, value: &mut Option<f64>, at: impl FnOnce() -> String) {
        let Some(wrong) = value.filter(|value| !of.allows(*value)) else { return };
        *value = None;
        self.doubt(Impossible { of, value: wrong }, at);
    }

    fn rate(&mut self, of: Bounded, rate: &mut Option<Rate>, at: impl FnOnce() -> String) {
        let mut value = rate.map(Rate::gb);
        self.number(of, &mut value, at);
        *rate = rate.filter(|_| value.is_some());
    }

    fn bytes(&mut self, of: Bounded, bytes: &mut Option<Bytes>, at: impl FnOnce() -> String) {
        let mut value = bytes.map(|bytes| if bytes == NO_SIZE { f64::NAN } else { bytes.0 as f64 });
        self.number(of, &mut value, at);
        *bytes = bytes.filter(|_| value.is_some());
    }

    fn doubt(&mut self, wrong: Impossible, at: impl FnOnce() -> String) {
        match self.found.iter_mut().find(|(known, ..)| known.of == wrong.of) {
            Some((_, count, places)) => {
                *count += 1;
                if places.len() < NAMED {
                    places.push(at());
                }
            }
            None => self.found.push((wrong, 1, vec![at()])),
        }
    }

    /// A sentence for each quantity.
    fn sentences(self) -> Vec<String> {
        let sentence = |(first, count, mut places): (Impossible, usize, Vec<String>)| {
            places.retain(|place| !place.is_empty());
            places.dedup();
            let place = if places.is_empty() { String::new() } else { format!("{}: ", list(&places)) };
            let more = if count > 1 { format!(" ({count} such numbers)") } else { String::new() };
            format!("{place}{first}{more}")
        };
        self.found.into_iter().map(sentence).collect()
    }
}

/// Takes out what cannot be so; a sentence for each quantity of which there was something.
pub(super) fn take_out(fact: &mut Fact) -> Vec<String> {
    let mut check = Check::default();
    match fact {
        Fact::Matrix(matrix) => of_matrix(matrix, &mut check),
        Fact::Curve(curve) => {
            let what = curve.what.clone();
            for series in &mut curve.series {
                let (unit, name) = (series.unit, series.name.clone());
                for (value, size) in series.values.iter_mut().zip(&curve.sizes) {
                    let at = || format!("{what} {name} at {size}");
                    in_unit(Bounded::TableRate, unit, value, &mut check, at);
                }
            }
            // a row whose size cannot be has no place
            let possible = |size: &Bytes| Bounded::Message.allows(size.0 as f64);
            if let Some(wrong) = curve.sizes.iter().find(|size| !possible(size)) {
                check.doubt(Impossible { of: Bounded::Message, value: wrong.0 as f64 }, || what.clone());
                let keep: Vec<bool> = curve.sizes.iter().map(possible).collect();
                let mut kept = keep.iter().copied();
                curve.sizes.retain(|_| kept.next().unwrap_or(true));
                for series in &mut curve.series {
                    let mut kept = keep.iter().copied();
                    series.values.retain(|_| kept.next().unwrap_or(true));
                }
            }
        }
        Fact::Rates(table) => {
            for row in &mut table.rows {
                let words = row.words.join(" ");
                row.rates.iter_mut().for_each(|rate| check.rate(Bounded::TableRate, rate, || words.clone()));
            }
        }
        Fact::Gpus(gpus) => gpus.iter_mut().for_each(|gpu| of_gpu(gpu, &mut check)),
        Fact::Nvlink(ports) => {
            for port in ports {
                let gpu = port.gpu.map(|gpu| format!("GPU{gpu}")).unwrap_or_default();
                check.rate(Bounded::PortRate, &mut port.rate, || gpu);
            }
        }
        Fact::Host(host) => {
            for node in &mut host.numa {
                let id = node.id;
                check.bytes(Bounded::HostMemory, &mut node.memory, || format!("NUMA node {id}"));
            }
        }
        Fact::Sensors(readings) => readings.retain_mut(|reading| {
            let label = reading.label.clone();
            check.number(Bounded::Temperature, &mut reading.limit, || label.clone());
            let mut celsius = Some(reading.celsius);
            check.number(Bounded::Temperature, &mut celsius, || label);
            celsius.is_some()
        }),
        Fact::RdmaPorts(ports) => {
            for port in ports {
                let device = port.device.clone();
                check.number(Bounded::LineRate, &mut port.gigabits, || device);
            }
        }
        Fact::Pci(tree) => tree.devices.iter_mut().for_each(|device| of_function(device, &mut check)),
        Fact::NcclGraph(graph) => {
            let mut speed = Some(graph.speed);
            check.number(Bounded::TableRate, &mut speed, || "a graph of NCCL".to_owned());
            graph.speed = speed.unwrap_or_default();
        }
        // states, names, versions and counts
        Fact::Classes(_)
        | Fact::P2p(_)
        | Fact::Modules(_)
        | Fact::Kernel(_)
        | Fact::Acs(_)
        | Fact::NcclLog(_)
        | Fact::PcieLines(_)
        | Fact::Gids(_)
        | Fact::FabricManager(_)
        | Fact::Corrupt(_)
        | Fact::Health(_)
        | Fact::Message(_)
        | Fact::OpenLine(_) => {}
    }
    check.sentences()
}

/// A number in its unit, against bounds in theirs.
fn in_unit(rate: Bounded, unit: Option<Unit>, value: &mut Option<f64>, check: &mut Check, at: impl FnOnce() -> String) {
    let Some(number) = *value else { return };
    let as_rate = unit.and_then(|unit| unit.rate(number)).map(|in_bytes| (rate, in_bytes.gb()));
    let as_time = || unit.and_then(|unit| unit.time(number)).map(|time| (Bounded::Time, time.us()));
    let other = if unit == Some(Unit::Gteps) { Bounded::Edges } else { Bounded::Count };
    let (of, number) = as_rate.or_else(as_time).unwrap_or((other, number));
    let mut checked = Some(number);
    check.number(of, &mut checked, at);
    *value = value.filter(|_| checked.is_some());
}

fn of_matrix(matrix: &mut Matrix, check: &mut Check) {
    let is_host =
        |name: &String| name.eq_ignore_ascii_case("host") || name.starts_with("CPU") || name.starts_with("host");
    let unit = Some(matrix.unit);
    for (i, row) in matrix.values.iter_mut().enumerate() {
        for (j, value) in row.iter_mut().enumerate() {
            let (from, to) = (matrix.rows.get(i), matrix.cols.get(j));
            let of = match (from, to) {
                (Some(from), Some(to)) if from == to => Bounded::OwnRate,
                (from, to) if from.into_iter().chain(to).any(is_host) => Bounded::HostRate,
                _ => Bounded::Rate,
            };
            let name = |name: Option<&String>| name.cloned().unwrap_or_default();
            in_unit(of, unit, value, check, || format!("{}→{}", name(from), name(to)));
        }
    }
}

fn of_gpu(gpu: &mut GpuFacts, check: &mut Check) {
    let name = gpu.node.clone().or_else(|| gpu.index.map(|index| format!("GPU{index}"))).unwrap_or_default();
    let at = || name.clone();
    check.number(Bounded::Temperature, &mut gpu.temperature, at);
    check.number(Bounded::Temperature, &mut gpu.memory_temperature, at);
    check.number(Bounded::Power, &mut gpu.power, at);
    check.number(Bounded::Power, &mut gpu.power_limit, at);
    check.number(Bounded::Share, &mut gpu.utilization, at);
    check.bytes(Bounded::DeviceMemory, &mut gpu.memory, at);
    check.bytes(Bounded::DeviceMemory, &mut gpu.bar1, at);
}

fn of_function(device: &mut PciDevice, check: &mut Check) {
    let name = device.address.map(|address| address.to_string()).unwrap_or_default();
    check.rate(Bounded::LinkRate, &mut device.link_rate, || name.clone());
    let mut c2c = device.c2c.map(|(_, rate)| rate);
    check.rate(Bounded::LinkRate, &mut c2c, || name.clone());
    device.c2c = device.c2c.filter(|_| c2c.is_some());
    for os in &mut device.os_devices {
        let name = os.name.clone();
        check.number(Bounded::LineRate, &mut os.gigabits, || name);
    }
    let mut bar = device.bar_bytes.map(Bytes);
    check.bytes(Bounded::DeviceMemory, &mut bar, || name);
    device.bar_bytes = bar.map(|bytes| bytes.0);
}

#[cfg(test)]
mod tests {
    use super::super::{Found, Text, scan_text};
    use super::*;

    fn read(text: &str) -> Found {
        scan_text(&Text::new("t.txt", text.as_bytes()))
    }

    fn matrix(cells: &str) -> (Vec<Option<f64>>, Vec<String>) {
        let text = format!(
            "Unidirectional P2P=Enabled Bandwidth (P2P Writes) Matrix (GB/s)\n   D\\D     0      1 \n     0 3000.00 {cells}\n     1  50.00 3000.00 \n"
        );
        let found = read(&text);
        let values = found.evidence.iter().find_map(|one| match &one.fact {
            Fact::Matrix(matrix) => Some(matrix.values.concat()),
            _ => None,
        });
        (values.unwrap_or_default(), found.warnings.into_iter().map(|warning| warning.message).collect())
    }

    #[test]
    fn cells_that_cannot_be_are_doubted_once_and_others_stay() {
        let digits = "9".repeat(300);
        for wrong in ["inf", "-inf", "nan", "-5.00", "2147483648", digits.as_str(), "1e30"] {
            let (values, warnings) = matrix(wrong);
            assert_eq!(values, [Some(3000.0), None, Some(50.0), Some(3000.0)], "{wrong}");
            assert_eq!(warnings.len(), 1, "{wrong}: {warnings:?}");
            let said = "GPU0→GPU1: ";
            assert!(
                warnings[0].starts_with(said) && warnings[0].contains("not used") && warnings[0].len() < 200,
                "{warnings:?}"
            );
        }
        assert_eq!(matrix("900.00"), (vec![Some(3000.0), Some(900.0), Some(50.0), Some(3000.0)], Vec::new()));
    }

    #[test]
    fn every_kind_of_statement_is_looked_at() {
        let gpu = GpuFacts {
            index: Some(3),
            temperature: Some(-300.0),
            power: Some(1e9),
            utilization: Some(101.0),
            memory: Some(Bytes(u64::MAX)),
            ..GpuFacts::default()
        };
        let mut fact = Fact::Gpus(vec![gpu]);
        assert_eq!(take_out(&mut fact).len(), 4);
        assert_eq!(fact, Fact::Gpus(vec![GpuFacts { index: Some(3), ..GpuFacts::default() }]));
        let port = |rate| super::super::RdmaPort { gigabits: Some(rate), ..Default::default() };
        let mut fact = Fact::RdmaPorts(vec![port(400.0), port(4e7)]);
        assert_eq!(take_out(&mut fact).len(), 1);
        let Fact::RdmaPorts(ports) = fact else { panic!() };
        assert_eq!((ports[0].gigabits, ports[1].gigabits), (Some(400.0), None));
    }

    #[test]
    fn no_reader_drops_a_number_in_silence() {
        let digits = "9".repeat(400);
        let numa = |size: &str| {
            format!(
                "available: 1 nodes (0)\nnode 0 cpus: 0 1\nnode 0 size: {size} MB\nnode 0 free: 12 MB\nnode distances:\nnode   0\n  0:  10\n"
            )
        };
        let ibstat = |rate: &str| {
            format!(
                "CA 'mlx5_0'\n\tCA type: MT4129\n\tNumber of ports: 1\n\tPort 1:\n\t\tState: Active\n\t\tPhysical state: LinkUp\n\t\tRate: {rate}\n\t\tLink layer: InfiniBand\n"
            )
        };
        let csv = |size: &str| {
            format!("index, name, pci.bus_id, memory.total [MiB]\n0, NVIDIA H200, 00000000:19:00.0, {size} MiB\n")
        };
        let xml = |speed: &str| {
            format!(
                "<system version=\"1\">\n  <cpu numaid=\"0\" affinity=\"00000000,0000ffff\" arch=\"x86_64\" vendor=\"AuthenticAMD\" familyid=\"143\" modelid=\"49\">\n    <pci busid=\"0000:19:00.0\" class=\"0x030200\" link_speed=\"32.0 GT/s PCIe\" link_width=\"16\">\n      <gpu dev=\"0\" sm=\"90\" rank=\"0\" gdr=\"1\"/>\n    </pci>\n    <pci busid=\"0000:1a:00.0\" class=\"0x020000\" link_speed=\"32.0 GT/s PCIe\" link_width=\"16\">\n      <nic>\n        <net name=\"mlx5_0\" dev=\"0\" speed=\"{speed}\" port=\"1\" guid=\"0x1\" maxconn=\"131072\" gdr=\"1\"/>\n      </nic>\n    </pci>\n  </cpu>\n</system>\n"
            )
        };
        let sysfs = |speed: &str| {
            let mut files = super::super::Files::default();
            let mut add = |path: &str, text: &str| {
                files.insert(path, super::super::Item::File(text.as_bytes().to_vec()));
            };
            add("sys/bus/pci/devices/0000:1a:00.0/class", "0x020000\n");
            add("sys/bus/pci/devices/0000:1a:00.0/vendor", "0x15b3\n");
            add("sys/bus/pci/devices/0000:1a:00.0/net/eth0/speed", speed);
            add("sys/class/net/eth0/speed", speed);
            add("sys/class/net/eth0/device/class", "0x020000\n");
            files.insert(
                "sys/class/net/eth0/device",
                super::super::Item::Link("../../../bus/pci/devices/0000:1a:00.0".to_owned()),
            );
            super::super::read_files("t", &files)
        };
        let doubts = |found: &Found| found.warnings.iter().filter(|one| one.message.contains("not used")).count();
        for wrong in ["-5", digits.as_str()] {
            for text in [numa(wrong), ibstat(wrong), csv(wrong), xml(wrong)] {
                assert_eq!(doubts(&read(&text)), 1, "{:?}\n{text}", read(&text).warnings);
            }
            let found = sysfs(wrong);
            assert_eq!(doubts(&found), 1, "{:?}", found.warnings);
        }
        assert_eq!(doubts(&sysfs("inf")), 1);
        for right in [
            read(&numa("4096")),
            read(&ibstat("400")),
            read(&csv("143771")),
            read(&xml("400000")),
            sysfs("-1"),
            sysfs("100000"),
        ] {
            assert_eq!(doubts(&right), 0, "{:?}", right.warnings);
        }
    }
}
