//! Tables that list accelerators as `nvidia-smi` lists GPUs, of other makers' tools: npu-smi, mx-smi, ht-smi, cnmon, hl-smi, ixsmi; and lists of
//! their properties: `xpu-smi discovery`, `xpu-smi health`, `dcgmi discovery -l`.
//!
//! What a value is follows from the two lines of the head, so that a maker's tool needs no reader of its own. A device takes two lines, each
//! with a cell for a cell of the head.

use super::health::Health;
use super::text::Used;
use super::words::{key_value, mebibytes, number_and_unit};
use super::{Fact, Found, GpuFacts, Text};
use peerlane_machine::fabric::PciAddress;
use peerlane_machine::fact::{Area, Grade};

const TOOL: &str = "accelerator table";

/// How such tables call a device, at the start of their heads.
const DEVICES: [&str; 10] = ["NPU", "NPU-ID", "GPU", "Card", "Board", "AIP", "PPU", "MLU", "DCU", "XPU"];

/// Names of columns that are more than one word.
const NAMES: [(&str, &str); 5] = [
    ("NPU ID", "NPU-ID"),
    ("NPU Util", "NPU-Util"),
    ("Volatile Uncorr. ECC", "Uncorr-ECC"),
    ("Volatile Uncor-Events", "Uncor-Events"),
    ("Compute M.", "Compute-M"),
];

pub(super) fn scan(text: &Text, found: &mut Found) {
    let mut table = Table::default();
    text.walk(|i| {
        if let Some(head) = head(text, i) {
            table.finish(text, found);
            table.head = Some(head);
            return Some(i + 2);
        }
        let read = table.head.is_some() && table.add_device(text, i);
        (read || table.add_property(text.line(i), i)).then_some(table.next)
    });
    table.finish(text, found);
}

/// Whether two lines from `i` on are the head of such a table, which is not NVIDIA's.
pub(super) fn is_head(text: &Text, i: usize) -> bool {
    head(text, i).is_some()
}

type Line = Vec<Vec<String>>;

/// The names of columns of both lines of a head, by cell.
fn head(text: &Text, i: usize) -> Option<[Line; 2]> {
    let named = |i: usize| {
        let renamed = NAMES.iter().fold(text.line(i).to_owned(), |line, (name, short)| line.replace(name, short));
        line(&renamed)
    };
    let first_word = text.line(i).trim_start_matches(['|', ' ', '\t']).split([' ', '|']).next()?;
    if !DEVICES.contains(&first_word) {
        return None;
    }
    let [first, second] = [named(i)?, named(i + 1)?];
    let has = |name: &str| first.iter().flatten().any(|column| column.eq_ignore_ascii_case(name));
    let is_nvidias = first_word == "GPU" && has("Persistence-M");
    let is_one = first.len() >= 3 && first.len() == second.len() && has("Name") && !is_nvidias;
    is_one.then_some([first, second])
}

/// The cells of a line between bars, as words. A value and its limit are one word, as are a number and its unit.
fn line(line: &str) -> Option<Line> {
    let inner = line.trim().strip_prefix('|')?.strip_suffix('|')?;
    Some(inner.split('|').map(cell).collect())
}

fn cell(cell: &str) -> Vec<String> {
    let starts_with_digit = |word: &str| word.starts_with(|c: char| c.is_ascii_digit());
    let mut all: Vec<String> = Vec::new();
    let mut words = cell.split_whitespace().peekable();
    while let Some(word) = words.next() {
        let is_unit = matches!(word.trim_end_matches('/'), "W" | "MiB" | "Mib" | "MB" | "GiB" | "GB");
        match all.last_mut().filter(|last| starts_with_digit(last)) {
            Some(last)
                if is_unit
                    || last.ends_with('/')
                    || (word == "/" && words.peek().is_some_and(|next| starts_with_digit(next))) =>
            {
                last.push_str(word);
            }
            _ => all.push(word.to_owned()),
        }
    }
    all
}

/// One table, or one list of properties.
#[derive(Default)]
struct Table {
    head: Option<[Line; 2]>,
    gpus: Vec<GpuFacts>,
    lines: Used,
    health: Health,
    /// Whether the properties that follow are of the last device.
    lists: bool,
    /// Where reading goes on.
    next: usize,
}

impl Table {
    /// Takes the device that begins in this line.
    fn add_device(&mut self, text: &Text, i: usize) -> bool {
        let Some([first, second]) = self.head.clone() else { return false };
        let Some(cells) = line(text.line(i)).filter(|cells| cells.len() == first.len()) else { return false };
        let (Some(index), Some(name)) =
            (cells.first().and_then(|cell| cell.first()?.parse().ok()), named(&first, &cells))
        else {
            return false;
        };
        let mut gpu = GpuFacts { index: Some(index), name: Some(name), ..GpuFacts::default() };
        let below = line(text.line(i + 1)).filter(|below| below.len() == second.len());
        let mut states = Vec::new();
        for (columns, values) in [(&first, Some(&cells)), (&second, below.as_ref())] {
            for (columns, values) in columns.iter().zip(values.into_iter().flatten()) {
                take(columns, values, &mut gpu, &mut states);
            }
        }
        if gpu.address.is_none() && gpu.temperature.is_none() && gpu.memory.is_none() {
            return false;
        }
        let part = gpu.index.map(|n| format!("GPU{n}"));
        for (what, value, bad) in states {
            self.health.judge(Area::Gpu, bad, part.as_deref(), &what, &value, i);
        }
        if self.gpus.last().is_some_and(|before| before.index >= gpu.index) {
            let known = self.gpus.iter().any(|known| known.index == gpu.index);
            // chips of one card that have no number of their own
            gpu.index = gpu.index.filter(|_| !known);
        }
        self.gpus.push(gpu);
        self.lines.add(i);
        self.next = i + 1;
        if below.is_some() {
            self.lines.add(i + 1);
            self.next = i + 2;
        }
        true
    }

    /// Takes `| 0 | Device Name: … |` and what stands below it, `|   | PCI BDF Address: … |`; `| Device ID | 0 |` and `| 3. GPU Power | Status: Ok |`.
    fn add_property(&mut self, line: &str, i: usize) -> bool {
        let Some((left, right)) =
            line.trim().strip_prefix('|').and_then(|rest| rest.strip_suffix('|')?.split_once('|'))
        else {
            return false;
        };
        let (left, right) = (left.trim(), right.trim());
        let number = left.parse().ok();
        match key_value(right) {
            Some(("Device Name" | "Name", name)) if number.is_some() => {
                let name = (!name.contains("NULL")).then(|| name.to_owned());
                self.gpus.push(GpuFacts { index: number, name, ..GpuFacts::default() });
                self.lists = true;
            }
            Some(("PCI BDF Address" | "PCI Bus ID", address)) if self.lists && left.is_empty() => {
                if let Some(gpu) = self.gpus.last_mut() {
                    gpu.address = address.parse().ok();
                }
            }
            Some(("Device UUID" | "SOC UUID" | "UUID" | "Vendor Name" | "DRM Device" | "Function Type", _))
                if self.lists && left.is_empty() => {}
            Some(("Status", state)) if left.starts_with(|c: char| c.is_ascii_digit()) && left.contains(". ") => {
                let (_, what) = left.split_once(". ").unwrap_or(("", left));
                let part = self.gpus.last().and_then(|gpu| gpu.index).map(|n| format!("GPU{n}"));
                // a sensor that the product lacks is unknown, which says nothing
                if !state.eq_ignore_ascii_case("unknown") {
                    self.health.judge(Area::Gpu, health(state), part.as_deref(), what, state, i);
                }
            }
            None if left == "Device ID" && right.parse::<u32>().is_ok() => {
                self.gpus.push(GpuFacts { index: right.parse().ok(), ..GpuFacts::default() });
                self.lists = true;
            }
            _ => {
                return false;
            }
        }
        self.lines.add(i);
        self.next = i + 1;
        true
    }

    /// Pushes what was read and starts anew.
    fn finish(&mut self, text: &Text, found: &mut Found) {
        let mut table = std::mem::take(self);
        table.health.lend(&mut table.lines);
        if let Some(lines) = table.lines.numbers(text, found).filter(|_| !table.gpus.is_empty()) {
            found.push(text, TOOL, lines, Fact::Gpus(table.gpus));
        }
        table.health.push(text, TOOL, found);
    }
}

/// The name of a device: what stands in its cell where the head has `Name`, between the other columns of that cell.
fn named(head: &Line, cells: &Line) -> Option<String> {
    let (columns, words) = head.iter().zip(cells).find(|(columns, _)| name_at(columns).is_some())?;
    let before = name_at(columns)?;
    let behind = columns.len() - before - 1;
    let name = words.get(before..words.len().checked_sub(behind)?)?.join(" ");
    name.contains(char::is_alphabetic).then_some(name)
}

fn name_at(columns: &[String]) -> Option<usize> {
    columns.iter().position(|column| column.eq_ignore_ascii_case("name"))
}

/// Takes the values of a cell, where each column has one.
fn take(columns: &[String], values: &[String], gpu: &mut GpuFacts, states: &mut Vec<(String, String, Option<Grade>)>) {
    let address = values.iter().find(|value| value.contains('.') && value.contains(':'));
    gpu.address = gpu.address.or(address.and_then(|value| value.parse::<PciAddress>().ok()));
    // a state may be more than one word
    let whole = values.join(" ");
    if let [column] = columns {
        let is_known = whole.len() > 1 && !whole.eq_ignore_ascii_case("N/A");
        if matches!(column.as_str(), "Health" | "GPU-State") && is_known {
            states.push((format!("{column}:"), whole.clone(), health(&whole)));
        }
    }
    if columns.len() != values.len() {
        return;
    }
    for (column, value) in columns.iter().zip(values) {
        let column = column.to_ascii_lowercase();
        let (value, limit) = value.split_once('/').map_or((value.as_str(), None), |(a, b)| (a, Some(b)));
        let number = |text: &str| number_and_unit(text).map(|(number, _)| number);
        if column.starts_with("temp") {
            gpu.temperature = number(value);
        } else if column.starts_with("power") || column.starts_with("pwr") {
            (gpu.power, gpu.power_limit) = (number(value), limit.and_then(number));
        } else if column.starts_with("hbm-usage") || column.starts_with("memory-usage") {
            let size = limit.and_then(number).filter(|size| *size != 0.0);
            gpu.memory = size.map(mebibytes).or(gpu.memory);
        } else if column.contains("util") || column.starts_with("aicore") {
            gpu.utilization = number(value);
        } else if column == "phy-id" {
            gpu.index = value.parse().ok().or(gpu.index);
        } else if let Ok(count) = value.parse::<u64>() {
            let bad = match column.as_str() {
                "uncorr-ecc" => Grade::Fault,
                // the tools do not say which of them were corrected, or whether they stopped a program
                "ecc-error" | "uncor-events" => Grade::Suspect,
                _ => continue,
            };
            states.push((format!("{column}:"), value.to_owned(), (count > 0).then_some(bad)));
        }
    }
}

/// How bad a state is by its word.
fn health(state: &str) -> Option<Grade> {
    match state.to_ascii_lowercase().as_str() {
        "ok" | "available" | "normal" | "healthy" => None,
        "warning" | "unknown" => Some(Grade::Suspect),
        _ => Some(Grade::Fault),
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::scanned;
    use super::*;
    use peerlane_machine::units::Bytes;

    /// The devices of all tables, and the states that are not sound, with how many are.
    fn read(text: &str) -> (Vec<GpuFacts>, u32, Vec<String>) {
        let (mut gpus, mut sound, mut bad) = (Vec::new(), 0, Vec::new());
        for one in scanned(scan, text).evidence {
            match one.fact {
                Fact::Gpus(all) => gpus.extend(all),
                Fact::Health(report) => {
                    sound += report.sound;
                    let named = |t: &peerlane_machine::fact::Trouble| {
                        format!("{} {} {} {:?}", t.part.as_deref().unwrap_or("-"), t.what, t.value, t.grade)
                    };
                    bad.extend(report.troubles.iter().map(named));
                }
                other => panic!("{other:?}"),
            }
        }
        (gpus, sound, bad)
    }

    const NPU: &str = "| npu-smi 25.3                     Version: 25.3                                                 |\n\
        | NPU   Name                | Health        | Power(W)    Temp(C)           Hugepages-Usage(page)|\n\
        | Chip  Phy-ID              | Bus-Id        | AICore(%)   Memory-Usage(MB)  HBM-Usage(MB)        |\n\
        +===========================+===============+====================================================+\n\
        | 0     Ascend910           | OK            | 157.5       34                0    / 0             |\n\
        | 0     0                   | 0000:9D:00.0  | 7           0    / 0          3176 / 65536         |\n\
        +------------------------------------------------------------------------------------------------+\n\
        | 0     Ascend910           | Alarm         | -           37                0    / 0             |\n\
        | 1     1                   | 0000:9F:00.0  | 0           0    / 0          2875/ 65536          |\n\
        +===========================+===============+====================================================+\n\
        | NPU     Chip              | Process id    | Process name             | Process memory(MB)      |\n\
        +===========================+===============+====================================================+\n\
        | 0       0                 | 4711          | python                   | 2875                    |\n";

    #[test]
    fn two_chips_a_card() {
        let (gpus, sound, bad) = read(NPU);
        assert_eq!((gpus.len(), sound, bad), (2, 1, vec!["GPU1 Health: Alarm Fault".to_owned()]));
        let one = &gpus[0];
        assert_eq!((one.name.as_deref(), one.index, one.power), (Some("Ascend910"), Some(0), Some(157.5)));
        assert_eq!(
            (one.temperature, one.utilization, one.memory),
            (Some(34.0), Some(7.0), Some(Bytes::from_mib(65536)))
        );
        assert_eq!((gpus[1].index, gpus[1].power, gpus[1].address), (Some(1), None, "0000:9f:00.0".parse().ok()));
    }

    #[test]
    fn units_behind_values_and_counts_of_errors() {
        let (gpus, sound, bad) = read(
            "| Card  VF  Name       Firmware |               Bus-Id | Util        Ecc-Error |\n\
             | Fan   Temp      Pwr:Usage/Cap |         Memory-Usage | SR-IOV   Compute-Mode |\n\
             |===============================+======================+=======================|\n\
             | 0     /   MLU370-X8    v1.1.6 |         0000:39:00.0 | 12%                 0 |\n\
             |  0%   32C        106 W/ 250 W |     0 MiB/ 23374 MiB | N/A           Default |\n\
             | 1     /   MLU370-X8    v1.1.6 |         0000:3D:00.0 | 0%                  4 |\n\
             |  0%   39C         27 W/ 250 W |     0 MiB/ 23374 MiB | N/A           Default |\n",
        );
        assert_eq!((sound, bad), (1, vec!["GPU1 ecc-error: 4 Suspect".to_owned()]));
        assert_eq!((gpus[0].name.as_deref(), gpus[0].power_limit), (Some("MLU370-X8"), Some(250.0)));
        assert_eq!((gpus[0].utilization, gpus[0].memory), (Some(12.0), Some(Bytes::from_mib(23374))));
    }

    #[test]
    fn names_in_cells_of_their_own_and_states_below() {
        let (gpus, sound, bad) = read(
            "| Board       Name | GPU   Persist-M | Bus-id              | GPU-Util      sGPU-M |\n\
             | Pwr:Usage/Cap    | Temp       Perf | Memory-Usage        | GPU-State            |\n\
             |==================+=================+=====================+======================|\n\
             | 0     MetaX C500 | 0           Off | 0000:0e:00.0        | 3%          Disabled |\n\
             | 57W / 350W       | 35C          P0 | 826/65536 MiB       | Available            |\n\
             | 1     MetaX C500 | 1           Off | 0000:0f:00.0        | 0%          Disabled |\n\
             | 57W / 350W       | 35C          P0 | 826/65536 MiB       | Not Available        |\n",
        );
        assert_eq!((sound, bad), (1, vec!["GPU1 GPU-State: Not Available Fault".to_owned()]));
        assert_eq!((gpus[0].name.as_deref(), gpus[0].temperature), (Some("MetaX C500"), Some(35.0)));
        assert_eq!(
            (gpus[0].power, gpus[0].utilization, gpus[0].memory),
            (Some(57.0), Some(3.0), Some(Bytes::from_mib(65536)))
        );
    }

    #[test]
    fn properties_and_health_by_device() {
        let (gpus, sound, bad) = read(
            "| Device ID | Device Information                                |\n\
             | 0         | Device Name: Intel(R) Data Center GPU Max 1100    |\n\
             |           | PCI BDF Address: 0000:29:00.0                     |\n",
        );
        assert_eq!((gpus.len(), gpus[0].address, sound, bad), (1, "0000:29:00.0".parse().ok(), 0, vec![]));
        let (_, sound, bad) = read(
            "| Device ID                    | 2                          |\n| 1. GPU Core Temperature      | Status: Ok                 |\n\
             | 4. GPU Memory                | Status: Critical           |\n| 5. Xe Link Port              | Status: Unknown            |\n",
        );
        assert_eq!((sound, bad), (1, vec!["GPU2 GPU Memory Critical Fault".to_owned()]));
    }

    #[test]
    fn nvidias_own_and_other_tables() {
        for text in [
            "| GPU  Name        Persistence-M| Bus-Id        Disp.A | Volatile Uncorr. ECC |\n\
             | Fan  Temp  Perf  Pwr:Usage/Cap|         Memory-Usage | GPU-Util  Compute M. |\n\
             |   0  Tesla P40           Off  | 00000000:03:00.0 Off |                    0 |\n",
            "| GPU | Name | Price |\n|---|---|---|\n| 1 | A100 | 10000 |\n",
            "| 0 | Name: x\n| 1 | 2 |\n",
        ] {
            assert_eq!(scanned(scan, text), Found::default(), "{text}");
        }
    }
}
