//! `nvidia-smi --query-gpu=… --format=csv`: a row per GPU, and per sample where it ran with `--loop`.
//!
//! With `noheader` the fields are known from the command alone, where it is quoted above. The names are those of
//! `nvidia-smi --help-query-gpu`; units stand in the header (`power.draw [W]`) or in the cells (`70.50 W`).

use std::collections::HashMap;

use super::limits::MAX_DEVICES;
use super::text::Span;
use super::words::{mebibytes, number_and_unit};
use super::{Fact, Found, GpuFacts, Text};
use peerlane_machine::fabric::{PciAddress, PcieGeneration, PcieWidth};

const TOOL: &str = "nvidia-smi --query-gpu";

/// More fields than the tool has.
const MAX_FIELDS: usize = 256;

/// What `clocks_event_reasons.active` means, by bit, as `-q` spells the reasons (nvml.h).
const REASONS: [(u64, &str); 6] = [
    (0x04, "SW Power Cap"),
    (0x08, "HW Slowdown"),
    (0x10, "Sync Boost"),
    (0x20, "SW Thermal Slowdown"),
    (0x40, "HW Thermal Slowdown"),
    (0x80, "HW Power Brake Slowdown"),
];

pub(super) fn scan(text: &Text, found: &mut Found) {
    // without the tool's own names there is no header and no command
    if !text.holds(&["index", "pci.bus_id", "gpu_", "name", "pcie.link", "--query-gpu"]) {
        return;
    }
    // the fields of a command, until its output has been read
    let mut queried: Option<Vec<Field>> = None;
    text.walk(|i| {
        let line = text.line(i);
        if let Some(fields) = command(line) {
            queried = Some(fields);
            return None;
        }
        let header = header(line);
        let first = if header.is_some() { i + 1 } else { i };
        let fields = header.or_else(|| queried.clone())?;
        let table = Table::read(text, first, &fields);
        let Some(lines) = table.lines.numbers(text) else {
            if first > i {
                found.warn(text, TOOL, text.numbers(i, i), "a header without a row; the text may be cut");
            }
            return None;
        };
        queried = None;
        let next = table.next;
        found.push(text, TOOL, (lines.0 - u32::from(first > i), lines.1), Fact::Gpus(table.gpus));
        Some(next)
    });
}

/// What a column holds.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Field {
    Index,
    Name,
    Address,
    Uuid,
    Driver,
    RunningGeneration,
    RunningWidth,
    AllowedGeneration,
    AllowedWidth,
    CapableGeneration,
    Temperature,
    Power,
    PowerLimit,
    Utilization,
    Memory,
    Bar1,
    Mig,
    ComputeCapability,
    Reasons,
    Reason(&'static str),
    Replays,
    RemapPending,
    RemapFailed,
    FabricState,
    /// One that is not used here.
    Other,
}

/// The field of a name of the tool; `None` where it is no such name.
fn field(name: &str) -> Option<Field> {
    let name = name.split_once('[').map_or(name, |(name, _)| name).trim();
    let reason = |rest: &str| {
        Some(match rest {
            "active" => Field::Reasons,
            "sw_power_cap" => Field::Reason("SW Power Cap"),
            "hw_slowdown" => Field::Reason("HW Slowdown"),
            "hw_thermal_slowdown" => Field::Reason("HW Thermal Slowdown"),
            "hw_power_brake_slowdown" => Field::Reason("HW Power Brake Slowdown"),
            "sw_thermal_slowdown" => Field::Reason("SW Thermal Slowdown"),
            "sync_boost" => Field::Reason("Sync Boost"),
            _ => Field::Other,
        })
    };
    if let Some(rest) =
        name.strip_prefix("clocks_throttle_reasons.").or_else(|| name.strip_prefix("clocks_event_reasons."))
    {
        return reason(rest);
    }
    Some(match name {
        "index" => Field::Index,
        "name" | "gpu_name" => Field::Name,
        "pci.bus_id" | "gpu_bus_id" => Field::Address,
        "uuid" | "gpu_uuid" => Field::Uuid,
        "driver_version" => Field::Driver,
        "pcie.link.gen.current" | "pcie.link.gen.gpucurrent" => Field::RunningGeneration,
        "pcie.link.width.current" => Field::RunningWidth,
        "pcie.link.gen.max" => Field::AllowedGeneration,
        "pcie.link.width.max" => Field::AllowedWidth,
        "pcie.link.gen.gpumax" => Field::CapableGeneration,
        "temperature.gpu" => Field::Temperature,
        "power.draw" | "power.draw.instant" | "power.draw.average" => Field::Power,
        "power.limit" | "enforced.power.limit" => Field::PowerLimit,
        "utilization.gpu" => Field::Utilization,
        "memory.total" => Field::Memory,
        "bar1.memory.total" => Field::Bar1,
        "mig.mode.current" => Field::Mig,
        "compute_cap" => Field::ComputeCapability,
        "pcie.replay.counter" | "pcie_replay_counter" => Field::Replays,
        "remapped_rows.pending" => Field::RemapPending,
        "remapped_rows.failure" => Field::RemapFailed,
        "fabric.state" => Field::FabricState,
        "timestamp" | "count" | "pstate" | "serial" | "gpu_serial" | "vbios_version" | "persistence_mode" => {
            Field::Other
        }
        // `memory.used`, `clocks.current.sm`, `ecc.errors.…`, `gpu_part_number`
        _ => {
            let words = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || matches!(b, b'_' | b'.');
            let known = name.contains(['.', '_']) && name.len() > 3 && name.bytes().all(words);
            return known.then_some(Field::Other);
        }
    })
}

/// The fields of a header line: at least one that is used here, and nothing that is no field.
fn header(line: &str) -> Option<Vec<Field>> {
    let line = line.trim().trim_start_matches('>').trim();
    // sentences and other tables start otherwise; a single column is one of the tool's dotted names
    if !line.starts_with(|c: char| c.is_ascii_lowercase()) || !line.contains([',', '.']) {
        return None;
    }
    let fields: Vec<Field> = line.split(',').take(MAX_FIELDS).map(|name| field(name.trim())).collect::<Option<_>>()?;
    let used = fields.iter().filter(|f| **f != Field::Other).count();
    // two names that are also words (`index, name`) may be the header of anything
    let dotted = line.contains('.') || line.contains('_');
    (used > 0 && (dotted || fields.len() >= 2)).then_some(fields)
}

/// The fields of a quoted command whose output has no header.
fn command(line: &str) -> Option<Vec<Field>> {
    let (_, rest) = line.split_once("--query-gpu=")?;
    line.contains("noheader").then_some(())?;
    let names = rest.trim_start_matches(['"', '\'']).split(|c: char| c.is_whitespace() || matches!(c, '"' | '\''));
    let names = names.into_iter().next()?;
    Some(names.split(',').take(MAX_FIELDS).map(|name| field(name).unwrap_or(Field::Other)).collect())
}

/// What tells GPUs apart.
type Key = (Option<u32>, Option<PciAddress>, Option<String>);

/// The rows below a header.
#[derive(Default)]
struct Table {
    gpus: Vec<GpuFacts>,
    lines: Span,
    /// The line after the last row.
    next: usize,
}

impl Table {
    fn read(text: &Text, first: usize, fields: &[Field]) -> Self {
        let mut table = Table { next: first, ..Table::default() };
        // rows of a GPU that is known are other samples of it
        let mut known: HashMap<Key, usize> = HashMap::new();
        let named = fields.iter().any(|f| matches!(f, Field::Index | Field::Address | Field::Uuid));
        for i in first..text.len() {
            let Some(gpu) = row(text.line(i), fields) else {
                // `--loop` repeats the header with some versions
                if table.next > first && header(text.line(i)).as_deref() == Some(fields) {
                    continue;
                }
                break;
            };
            table.lines.add(i);
            table.next = i + 1;
            let key = (gpu.index, gpu.address, gpu.uuid.clone());
            let at = known.get(&key).filter(|_| named).copied();
            if let Some(known) = at.and_then(|at| table.gpus.get_mut(at)) {
                busier(known, gpu);
            } else if table.gpus.len() <= MAX_DEVICES {
                known.insert(key, table.gpus.len());
                table.gpus.push(gpu);
            }
        }
        if !named {
            // GPUs come in order of their index
            for (i, gpu) in table.gpus.iter_mut().enumerate() {
                gpu.index = u32::try_from(i).ok();
            }
        }
        table
    }
}

fn is_number(cell: &str) -> bool {
    cell.parse::<f64>().is_ok()
}

/// A row with a cell for each field; `None` where the line is something else.
fn row(line: &str, fields: &[Field]) -> Option<GpuFacts> {
    let line = line.trim().trim_start_matches('>').trim();
    // a list of the tool's fields (`--help-query-gpu`) has one a line, and no values
    let is_field = |cell: &str| {
        let of_names = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_' || b == b'.';
        fields.len() == 1
            && (cell.contains(['_', '.']) && cell.bytes().all(of_names) && !is_number(cell) || field(cell).is_some())
    };
    if line.is_empty() || line.split(',').count() != fields.len() || is_field(line) {
        return None;
    }
    let mut gpu = GpuFacts::default();
    for (cell, field) in line.split(',').map(str::trim).zip(fields) {
        if matches!(cell, "" | "N/A" | "Not Active" | "Disabled" | "No") || cell.starts_with('[') {
            match field {
                Field::Mig if cell == "Disabled" => gpu.mig = Some(false),
                Field::RemapPending if cell == "No" => gpu.remap_pending = Some(false),
                Field::RemapFailed if cell == "No" => gpu.remap_failed = Some(false),
                _ => {}
            }
            continue;
        }
        set(&mut gpu, *field, cell)?;
    }
    Some(gpu)
}

/// Takes one cell; `None` where it cannot be one of this field.
fn set(gpu: &mut GpuFacts, field: Field, cell: &str) -> Option<()> {
    let number = || number_and_unit(cell).map(|(n, _)| n);
    let generation = || PcieGeneration::from_number(cell.parse().ok()?);
    let lanes = || cell.trim_start_matches('x').parse::<u8>().ok().filter(|lanes| *lanes > 0);
    let yes = || matches!(cell, "Yes" | "Enabled" | "1");
    let memory = || number().map(mebibytes);
    match field {
        Field::Index => gpu.index = Some(cell.parse().ok()?),
        Field::Name => gpu.name = Some(cell.to_owned()),
        Field::Address => gpu.address = Some(cell.parse().ok()?),
        Field::Uuid => gpu.uuid = Some(cell.to_owned()),
        Field::Driver => gpu.driver = Some(cell.to_owned()),
        Field::RunningGeneration => gpu.running.generation = Some(generation()?),
        Field::RunningWidth => gpu.running.lanes = Some(lanes()?),
        Field::AllowedGeneration => gpu.allowed.generation = Some(generation()?),
        Field::AllowedWidth => gpu.allowed.lanes = Some(lanes()?),
        Field::CapableGeneration => gpu.capable.generation = Some(generation()?),
        Field::Temperature => gpu.temperature = Some(number()?),
        Field::Power => gpu.power = Some(number()?),
        Field::PowerLimit => gpu.power_limit = gpu.power_limit.or(Some(number()?)),
        Field::Utilization => gpu.utilization = Some(number()?),
        Field::Memory => gpu.memory = Some(memory()?),
        Field::Bar1 => gpu.bar1 = Some(memory()?),
        Field::Mig => gpu.mig = Some(yes()),
        Field::ComputeCapability => {
            let (major, minor) = cell.split_once('.')?;
            gpu.compute_capability = Some((major.parse().ok()?, minor.parse().ok()?));
        }
        Field::Reasons => {
            let bits = u64::from_str_radix(cell.strip_prefix("0x")?, 16).ok()?;
            let active = REASONS.iter().filter(|(bit, _)| bits & bit != 0).map(|(_, name)| (*name).to_owned());
            gpu.clock_event_reasons.extend(active);
        }
        Field::Reason(name) if cell == "Active" => gpu.clock_event_reasons.push(name.to_owned()),
        Field::Replays => gpu.replays = Some(cell.parse().ok()?),
        Field::RemapPending => gpu.remap_pending = Some(yes()),
        Field::RemapFailed => gpu.remap_failed = Some(yes()),
        // some releases write `state N/A`
        Field::FabricState => gpu.fabric_state = Some(cell.trim_start_matches("state ").to_owned()),
        Field::Reason(_) | Field::Other => {}
    }
    Some(())
}

/// Joins another sample of the same GPU. The link counts when it is busy: an idle one runs at a low generation.
fn busier(gpu: &mut GpuFacts, sample: GpuFacts) {
    let rate = |width: PcieWidth| (width.generation.map(PcieGeneration::number), width.lanes);
    if rate(sample.running) > rate(gpu.running) {
        gpu.running = sample.running;
    }
    let most = |a: Option<f64>, b: Option<f64>| a.into_iter().chain(b).reduce(f64::max);
    gpu.temperature = most(gpu.temperature, sample.temperature);
    gpu.power = most(gpu.power, sample.power);
    gpu.utilization = most(gpu.utilization, sample.utilization);
    gpu.replays = gpu.replays.max(sample.replays);
    for reason in sample.clock_event_reasons {
        if !gpu.clock_event_reasons.contains(&reason) {
            gpu.clock_event_reasons.push(reason);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::scanned;
    use super::*;
    use peerlane_machine::units::Bytes;

    fn gpus(text: &str) -> Vec<GpuFacts> {
        let found = scanned(scan, text);
        let [one] = found.evidence.as_slice() else { panic!("{found:#?}") };
        let Fact::Gpus(gpus) = &one.fact else { panic!() };
        gpus.clone()
    }

    #[test]
    fn a_list_of_the_fields_is_no_table() {
        let found = scanned(scan, "timestamp\ndriver_version\nkmd_version\ncount\npci.bus_id\nname\nindex\n");
        assert_eq!(found.evidence, []);
    }

    #[test]
    fn with_a_header_and_units() {
        let all = gpus(
            "index, name, pci.bus_id, pcie.link.gen.current, pcie.link.gen.max, pcie.link.width.current, power.draw [W], \
             memory.total [MiB], clocks_throttle_reasons.active, mig.mode.current\n\
             0, NVIDIA H100 80GB HBM3, 00000000:18:00.0, 5, 5, 16, 70.50 W, 81559 MiB, 0x0000000000000001, Disabled\n\
             1, NVIDIA H100 80GB HBM3, 00000000:2A:00.0, 5, 5, 8, 690.00 W, 81559 MiB, 0x0000000000000048, [N/A]\n",
        );
        assert_eq!((all.len(), all[0].running.to_string().as_str(), all[1].running.lanes), (2, "5.0 x16", Some(8)));
        assert_eq!((all[0].power, all[0].memory), (Some(70.5), Some(Bytes::from_mib(81559))));
        assert_eq!((all[0].clock_event_reasons.len(), all[0].mig, all[1].mig), (0, Some(false), None));
        assert_eq!(all[1].clock_event_reasons, ["HW Slowdown", "HW Thermal Slowdown"]);
        assert_eq!(all[1].address.unwrap().to_string(), "0000:2a:00.0");
    }

    #[test]
    fn without_a_header_the_command_names_the_fields() {
        let all = gpus(
            "$ nvidia-smi --query-gpu=index,pcie.link.gen.current,pcie.link.width.current --format=csv,noheader,nounits\n0, 4, 16\n1, 1, 8\n",
        );
        assert_eq!((all[0].running.to_string(), all[1].running.to_string()), ("4.0 x16".into(), "1.0 x8".into()));
        assert_eq!(scanned(scan, "0, 4, 16\n1, 1, 8\n"), Found::default(), "nobody knows what the numbers are");
    }

    #[test]
    fn samples_of_a_loop_keep_the_busy_link() {
        let all = gpus(
            "timestamp, index, pcie.link.gen.current, pcie.link.width.current, temperature.gpu\n\
             2025/01/01 00:00:01.000, 0, 1, 16, 40\n2025/01/01 00:00:02.000, 0, 4, 16, 71\n2025/01/01 00:00:03.000, 0, 1, 16, 60\n",
        );
        let [gpu] = all.as_slice() else { panic!("{all:?}") };
        assert_eq!((gpu.running.to_string().as_str(), gpu.temperature), ("4.0 x16", Some(71.0)));
    }

    #[test]
    fn what_only_looks_like_it() {
        for text in [
            "name, index\n",
            "index, value\n0, 1\n",
            "The index, name and pci.bus_id of each\n",
            "in the end, it works\n1, 2\n",
            "e.g. this, that\n1, 2\n",
        ] {
            assert!(scanned(scan, text).evidence.is_empty(), "{text}");
        }
        assert_eq!(scanned(scan, "index, pcie.link.gen.current\nThat is all\n").warnings.len(), 1);
    }

    #[test]
    fn one_column_without_a_name_of_the_gpu() {
        let all = gpus("pcie.link.width.current\n16\n8\n");
        assert_eq!((all[1].index, all[1].running.lanes), (Some(1), Some(8)));
    }
}
