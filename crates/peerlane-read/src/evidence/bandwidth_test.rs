//! Reads the output of CUDA's `bandwidthTest`: copies between host and device, and within a device.
//!
//! One size gives a 1 × 1 matrix, a range of sizes a curve; so does a sum over several devices, which is no
//! rate of any one path. The sample's conventions, from its source: "MB/s" are 2²⁰ bytes a second, "GB/s"
//! 10⁹; copies within a device count bytes read and bytes written.

use std::collections::BTreeMap;

use super::text::Span;
use super::words::{meaning, rate_of};
use super::{Curve, Direction, Engine, Fact, Found, GpuFacts, Matrix, Series, Text, Unit};
use peerlane_machine::units::Bytes;

const TOOL: &str = "bandwidthTest";

/// Transfers of so many bytes reach the rate of their path; the sample's own single size is 32 MB.
const LARGE: u64 = 16_000_000;

/// Lines between a heading and its column titles.
const HEADING_GAP: usize = 5;

pub(super) fn scan(text: &Text, found: &mut Found) {
    let mut context = Context::default();
    let mut listed: Option<Table> = None;
    text.walk(|i| {
        let line = text.line(i).trim();
        let row = csv_row(text, i, &context);
        match (&mut listed, row) {
            (Some(table), Some(row)) if table.goes_on_in(&row) => {
                table.samples.extend(row.samples);
                table.lines.1 = i;
                return None;
            }
            (_, row) => {
                if let Some(done) = std::mem::replace(&mut listed, row) {
                    done.push(text, found);
                }
                if listed.is_some() {
                    return None;
                }
            }
        }
        if line.contains("[CUDA Bandwidth Test]") || line.starts_with("Result = ") || line.starts_with("```") {
            context.device = None;
            context.label.take_if(|_| line.starts_with("```"));
        }
        if let Some(device) = command_device(line) {
            context.device = Some(device);
        }
        if let Some((name, device)) = sample_device(text, i, &context) {
            context.gpus.push(GpuFacts::listed(device, name));
            context.gpu_lines.add(i);
            (context.device, context.sampled, context.size) = (Some(device), Some(name.to_owned()), None);
            context.kind = None;
            return None;
        }
        if let Some(one) = context.take_sample(line, i) {
            one.push(text, found);
            return None;
        }
        if let Some(label) = banner(line) {
            context.label = Some(label.to_owned());
        }
        match Ends::heading(line) {
            Some(heading) => Some(table(text, i, heading, &context, found)),
            None => device(line).map(|_| run_devices(text, i, &mut context, found)),
        }
    });
    if let Some(table) = listed {
        table.push(text, found);
    }
    if let Some(lines) = context.gpu_lines.numbers(text) {
        context.gpus.dedup();
        found.push(text, TOOL, lines, Fact::Gpus(context.gpus));
    }
}

/// What earlier lines state about the tables below.
#[derive(Default)]
struct Context {
    device: Option<u32>,
    /// A banner, `====== NAME ======`, that people print above a run.
    label: Option<String>,
    /// The GPU of a run that prints one rate a line, with its size and the kind of memory.
    sampled: Option<String>,
    gpus: Vec<GpuFacts>,
    gpu_lines: Span,
    size: Option<Bytes>,
    kind: Option<&'static str>,
}

impl Context {
    /// A line of the example of a blog on data transfers, which many programs keep: `Host to Device bandwidth (GB/s): 6.1`, below `Pinned
    /// transfers`. Of pageable memory a rate says little of the path.
    fn take_sample(&mut self, line: &str, i: usize) -> Option<Table> {
        self.sampled.as_ref()?;
        if let Some(size) = line.strip_prefix("Transfer size (MB):") {
            self.size = size.trim().parse().ok().map(Bytes::from_mib);
        } else if line.ends_with(" transfers") || line.ends_with(" transfer") {
            self.kind = memory_kind(line);
        }
        let (name, rate) = line.split_once(" bandwidth (GB/s): ")?;
        let ends = match name {
            "Host to Device" => Ends::HostToDevice,
            "Device to Host" => Ends::DeviceToHost,
            _ => return None,
        };
        let rate = rate_of(rate.trim())?;
        if self.kind == Some("pageable") {
            return None;
        }
        Some(Table {
            ends,
            devices: 1,
            device: self.device,
            memory: self.kind,
            label: self.label.clone(),
            unit: Unit::GigabytesPerSecond,
            samples: vec![(self.size?, rate)],
            lines: (i, i),
        })
    }
}

/// Which copy.
#[derive(Clone, Copy, PartialEq)]
enum Ends {
    HostToDevice,
    DeviceToHost,
    WithinDevice,
}

impl Ends {
    /// `Host to Device Bandwidth, 1 Device(s)`, with the number of devices.
    fn heading(line: &str) -> Option<(Ends, u32)> {
        let (ends, rest) = line.split_once(" Bandwidth, ")?;
        let ends = match ends {
            "Host to Device" => Ends::HostToDevice,
            "Device to Host" => Ends::DeviceToHost,
            "Device to Device" => Ends::WithinDevice,
            _ => return None,
        };
        Some((ends, rest.split_once(" Device(s)")?.0.parse().ok()?))
    }

    fn title(self) -> &'static str {
        match self {
            Ends::HostToDevice => "Host to Device Bandwidth",
            Ends::DeviceToHost => "Device to Host Bandwidth",
            Ends::WithinDevice => "Device to Device Bandwidth",
        }
    }

    fn names(self, device: String) -> (String, String) {
        match self {
            Ends::HostToDevice => ("host".to_owned(), device),
            Ends::DeviceToHost => (device, "host".to_owned()),
            Ends::WithinDevice => (device.clone(), device),
        }
    }
}

/// Rates against size, from a table or from lines of `--csv`.
struct Table {
    ends: Ends,
    devices: u32,
    device: Option<u32>,
    memory: Option<&'static str>,
    label: Option<String>,
    unit: Unit,
    samples: Vec<(Bytes, f64)>,
    lines: (usize, usize),
}

impl Table {
    /// Whether a row of a listing belongs to it: of the same copies, and larger.
    fn goes_on_in(&self, row: &Table) -> bool {
        let kind = |t: &Table| (t.ends, t.memory, t.devices, t.unit);
        let size = |sample: Option<&(Bytes, f64)>| sample.map(|(size, _)| *size);
        kind(self) == kind(row) && size(self.samples.last()) < size(row.samples.first())
    }

    fn push(self, text: &Text, found: &mut Found) {
        let lines = text.numbers(self.lines.0, self.lines.1);
        let device = self.device.unwrap_or(0);
        let mut title = self.ends.title().to_owned();
        for word in self.memory.into_iter().chain(self.label.as_deref()) {
            title = format!("{title}, {word}");
        }
        // a curve comes first: its label shows that what follows is of another machine
        if self.samples.len() > 1 || self.devices > 1 {
            let devices =
                if self.devices == 1 { format!("GPU{device}") } else { format!("{} GPUs, summed", self.devices) };
            let (from, to) = self.ends.names(devices);
            let settings = [("memory", self.memory.map(str::to_owned)), ("label", self.label)];
            let curve = Curve {
                what: TOOL.to_owned(),
                ends: vec![from, to],
                sizes: self.samples.iter().map(|s| s.0).collect(),
                series: vec![Series {
                    name: "bandwidth".to_owned(),
                    unit: Some(self.unit),
                    values: self.samples.iter().map(|s| Some(s.1)).collect(),
                }],
                settings: settings.into_iter().filter_map(|(k, v)| Some((k.to_owned(), v?))).collect(),
            };
            found.push(text, TOOL, lines, Fact::Curve(curve));
        }
        // of a range of sizes the largest shows what the path carries
        let last = self.samples.last().filter(|(size, _)| self.samples.len() == 1 || size.0 >= LARGE);
        if let Some((size, rate)) = last.filter(|_| self.devices == 1) {
            let (from, to) = self.ends.names(format!("GPU{device}"));
            let matrix = Matrix {
                direction: Some(Direction::Unidirectional),
                engine: Some(Engine::Ce),
                unit: self.unit,
                size: Some(*size),
                rows: vec![from],
                cols: vec![to],
                values: vec![vec![Some(*rate)]],
                title,
                ..Matrix::default()
            };
            found.push(text, TOOL, lines, Fact::Matrix(matrix));
        }
    }
}

/// Reads the table below a heading; returns the line to go on with.
fn table(text: &Text, heading: usize, (ends, devices): (Ends, u32), context: &Context, found: &mut Found) -> usize {
    let mut memory = memory_kind(text.line(heading));
    let columns = (heading + 1..=heading + HEADING_GAP).find_map(|i| {
        memory = memory.or_else(|| memory_kind(text.line(i)));
        Some((i, unit(text.line(i).trim().strip_prefix("Transfer Size (Bytes)")?.trim())?))
    });
    let Some((columns, unit)) = columns else {
        found.warn(text, TOOL, text.numbers(heading, heading), "a heading without a table; the text may be cut");
        return heading + 1;
    };
    let samples: Vec<_> = (columns + 1..text.len()).map_while(|i| sample(text.line(i))).collect();
    let last = columns + samples.len();
    if samples.is_empty() {
        found.warn(text, TOOL, text.numbers(heading, columns), "a table without a row; the text may be cut");
        return columns + 1;
    }
    let (device, label) = (context.device, context.label.clone());
    Table { ends, devices, device, memory, label, unit, samples, lines: (heading, last) }.push(text, found);
    last + 1
}

fn memory_kind(line: &str) -> Option<&'static str> {
    meaning(&line.to_ascii_lowercase(), &[(&["pinned"], "pinned"), (&["pageable", "paged"], "pageable")])
}

/// `Bandwidth(MB/s)`, or `MB/s` alone.
fn unit(words: &str) -> Option<Unit> {
    meaning(words, &[(&["MB/s"], Unit::MebibytesPerSecond), (&["GB/s"], Unit::GigabytesPerSecond)])
}

fn sample(line: &str) -> Option<(Bytes, f64)> {
    let mut words = line.split_whitespace();
    let size = words.next()?.parse().ok()?;
    let rate: f64 = words.next()?.parse().ok()?;
    words.next().is_none().then_some((Bytes(size), rate))
}

/// One line of `--csv` as a table of one row:
/// `bandwidthTest-H2D-Pinned, Bandwidth = 12.3 GB/s, Time = 0.0026 s, Size = 33554432 bytes, NumDevsUsed = 1`.
fn csv_row(text: &Text, i: usize, context: &Context) -> Option<Table> {
    let (name, values) = text.line(i).trim().strip_prefix("bandwidthTest-")?.split_once(',')?;
    let ends = match name.get(..3)? {
        "H2D" => Ends::HostToDevice,
        "D2H" => Ends::DeviceToHost,
        "D2D" => Ends::WithinDevice,
        _ => return None,
    };
    let values: BTreeMap<&str, &str> =
        values.split(',').filter_map(|v| v.split_once('=')).map(|(k, v)| (k.trim(), v.trim())).collect();
    let (rate, rate_unit) = values.get("Bandwidth")?.split_once(' ')?;
    let size = values.get("Size")?.split_whitespace().next()?.parse().ok()?;
    let rate: f64 = rate.parse().ok()?;
    Some(Table {
        ends,
        devices: values.get("NumDevsUsed").and_then(|n| n.parse().ok()).unwrap_or(1),
        device: context.device,
        memory: memory_kind(name),
        label: context.label.clone(),
        unit: unit(rate_unit)?,
        samples: vec![(Bytes(size), rate)],
        lines: (i, i),
    })
}

/// `Device 0: NAME`, as printed before the mode; deviceQuery quotes the name, nvbandwidth adds an address.
fn device(line: &str) -> Option<(u32, &str)> {
    let (number, name) = line.strip_prefix("Device ")?.split_once(": ")?;
    let foreign = name.starts_with('"') || name.ends_with(')') && name.contains(':');
    Some((number.parse().ok()?, name.trim())).filter(|_| !foreign)
}

/// `Device: GeForce GTX 1080` of such a run, with the number that `CUDA_VISIBLE_DEVICES` of the command line gives it.
fn sample_device<'t>(text: &'t Text, i: usize, context: &Context) -> Option<(&'t str, u32)> {
    let name = text.line(i).trim().strip_prefix("Device: ")?;
    let is_run = (i + 1..i + 3).any(|k| text.line(k).trim().starts_with("Transfer size (MB):"));
    let is_name = !name.is_empty() && !name.contains(',') && name.len() < 80;
    let above = (i.saturating_sub(SAMPLE_HEAD)..i).rev().find_map(|k| visible_device(text.line(k)));
    // without it a run of another product is one of another GPU
    let next = || match (&context.sampled, context.device) {
        (Some(known), Some(device)) if known != name => device + 1,
        _ => 0,
    };
    (is_run && is_name).then(|| (name, above.unwrap_or_else(next)))
}

/// Lines between a command and what it prints first.
const SAMPLE_HEAD: usize = 4;

/// `CUDA_VISIBLE_DEVICES=6 ./bandwidthtest`.
fn visible_device(line: &str) -> Option<u32> {
    let (_, rest) = line.split_once("CUDA_VISIBLE_DEVICES=")?;
    rest.split_whitespace().next()?.split(',').next()?.trim_matches('"').parse().ok().filter(|n: &u32| *n < 512)
}

/// Reads a run's list of devices; returns the line to go on with.
fn run_devices(text: &Text, first: usize, context: &mut Context, found: &mut Found) -> usize {
    let devices: Vec<_> = (first..text.len()).map_while(|i| device(text.line(i).trim())).collect();
    let end = first + devices.len();
    let next = (end..end + 2).map(|i| text.line(i).trim()).find(|l| !l.is_empty()).unwrap_or_default();
    let mode = ["Quick Mode", "Range Mode", "Shmoo Mode"].contains(&next) || Ends::heading(next).is_some();
    if mode {
        context.device = devices.first().map(|d| d.0);
        let gpus = devices.iter().map(|(number, name)| GpuFacts::listed(*number, name)).collect();
        found.push(text, TOOL, text.numbers(first, end - 1), Fact::Gpus(gpus));
    }
    end
}

/// The device of a command line, `./bandwidthTest --device=1`.
fn command_device(line: &str) -> Option<u32> {
    let (_, arguments) = line.split_once("bandwidthTest ")?;
    let value = arguments.split_whitespace().find_map(|a| a.trim_start_matches('-').strip_prefix("device="))?;
    value.parse().ok()
}

fn banner(line: &str) -> Option<&str> {
    let inner = line.strip_prefix("===")?.strip_suffix("===")?;
    Some(inner.trim_matches(|c: char| c == '=' || c.is_whitespace())).filter(|name| !name.is_empty())
}

#[cfg(test)]
mod tests {
    use super::super::testing::scanned;
    use super::*;

    #[test]
    fn rates_one_a_line() {
        let run = |gpu: u32, name: &str, rate: f64| {
            format!(
                "$ CUDA_VISIBLE_DEVICES={gpu} ./bandwidthtest\n\nDevice: {name}\nTransfer size (MB): 16\n\nPageable transfers\n  Host to Device \
                 bandwidth (GB/s): 1.5\n\nPinned transfers\n  Host to Device bandwidth (GB/s): {rate}\n  Device to Host bandwidth (GB/s): 12.1\n"
            )
        };
        let found = scanned(scan, &(run(6, "Card A", 12.5) + &run(2, "Card B", 0.4)));
        let rates: Vec<_> =
            found.evidence.iter().filter_map(|e| if let Fact::Matrix(m) = &e.fact { Some(m) } else { None }).collect();
        assert_eq!(rates.len(), 4, "what pageable memory gives says little of the path");
        assert_eq!((rates[0].between("host", "GPU6"), rates[0].size), (Some(12.5), Some(Bytes::from_mib(16))));
        assert_eq!(rates[2].between("host", "GPU2"), Some(0.4));
    }

    #[test]
    fn quick_mode_in_old_units() {
        let found = scanned(
            scan,
            "[CUDA Bandwidth Test] - Starting...\nRunning on...\n\n Device 1: Some Card\n Quick Mode\n\n\
             Host to Device Bandwidth, 1 Device(s)\n PINNED Memory Transfers\n\
             \x20  Transfer Size (Bytes)\tBandwidth(MB/s)\n   33554432\t\t\t1000.0\n\n\
             Device to Host Bandwidth, 1 Device(s)\n PAGEABLE Memory Transfers\n\
             \x20  Transfer Size (Bytes)\tBandwidth(GB/s)\n   33554432\t\t\t2.5\n\nResult = PASS\n",
        );
        assert_eq!(found.warnings, []);
        let [gpus, down, up] = found.evidence.as_slice() else { panic!("{found:#?}") };
        let Fact::Gpus(gpus) = &gpus.fact else { panic!() };
        assert_eq!((gpus[0].index, gpus[0].name.as_deref()), (Some(1), Some("Some Card")));
        assert_eq!(down.origin.lines, Some((7, 10)));
        let (Fact::Matrix(down), Fact::Matrix(up)) = (&down.fact, &up.fact) else { panic!() };
        assert_eq!(down.between("host", "GPU1"), Some(1000.0));
        assert_eq!((down.unit, down.size), (Unit::MebibytesPerSecond, Some(Bytes::from_mib(32))));
        assert_eq!(down.title, "Host to Device Bandwidth, pinned");
        assert_eq!((up.between("GPU1", "host"), up.unit), (Some(2.5), Unit::GigabytesPerSecond));
        assert!(up.title.ends_with("pageable"));
    }

    #[test]
    fn ranges_are_curves_with_their_banner() {
        let found = scanned(
            scan,
            "===== ALPHA =====\nDevice to Device Bandwidth, 1 Device(s)\n PINNED Memory Transfers\n\
             Transfer Size (Bytes) Bandwidth(GB/s)\n 1000 1.5\n 2000 2.5\n\n",
        );
        let Fact::Curve(c) = &found.evidence[0].fact else { panic!() };
        assert_eq!(c.ends, ["GPU0", "GPU0"]);
        assert_eq!(c.sizes, [Bytes(1000), Bytes(2000)]);
        assert_eq!(c.series[0].values, [Some(1.5), Some(2.5)]);
        assert_eq!(c.settings["label"], "ALPHA");
    }

    #[test]
    fn csv_and_sums() {
        let line = |size, devices| {
            format!(
                "bandwidthTest-D2H-Paged, Bandwidth = 3.5 GB/s, Time = 0.1 s, Size = {size} bytes, NumDevsUsed = {devices}\n"
            )
        };
        let found = scanned(scan, &(line(1, 1) + &line(2, 1) + &line(2, 1) + &line(2, 4)));
        let [range, one, sum] = found.evidence.as_slice() else { panic!("{found:#?}") };
        assert_eq!(range.origin.lines, Some((1, 2)));
        let Fact::Matrix(one) = &one.fact else { panic!() };
        assert_eq!(one.title, "Device to Host Bandwidth, pageable");
        let Fact::Curve(sum) = &sum.fact else { panic!() };
        assert_eq!(sum.ends, ["4 GPUs, summed", "host"]);
    }

    #[test]
    fn other_tools_devices_are_not_its_own() {
        let body = "Device 0: NVIDIA X (00000000:00:06)\nDevice 0: \"NVIDIA X\"\nDevice 0: X\nsomething else\n";
        assert_eq!(scanned(scan, body), Found::default());
        assert_eq!(scanned(scan, "Host to Device Bandwidth, 1 Device(s)\n").warnings.len(), 1);
    }
}
