//! Rows that monitors print for each GPU: `gpustat`, `nvidia-smi dmon`.

mod samples;

use std::collections::BTreeMap;

use super::health::Health;
use super::text::Used;
use super::words::{mebibytes, number_and_unit};
use super::{Fact, Found, GpuFacts, Text};
use peerlane_machine::fact::{Area, Grade, HealthReport, Trouble};
use peerlane_machine::names::list;

const GPUSTAT: &str = "gpustat";
const DMON: &str = "nvidia-smi dmon";
const PLACES: &str = "table of GPUs";

pub(super) fn scan(text: &Text, found: &mut Found) {
    gpustat(text, found);
    dmon(text, found);
    samples::scan(text, found);
    places(text, found);
}

/// Rows below a head that begins with `GPU` and has a column of NUMA nodes beside one of CPUs or UUIDs, as launchers print them:
/// `GPU  Node  Affinity  UUID  Cores`, `0  0  0  None  0-31,64-95`.
fn places(text: &Text, found: &mut Found) {
    if !text.holds(&["GPU  ", "GPU\t"]) || !text.holds_one_of(&["Node", "NUMA", "Numa", "numa"]) {
        return;
    }
    let (mut columns, mut numa, mut uuid): (usize, usize, Option<usize>) = (0, 0, None);
    let (mut gpus, mut lines): (Vec<GpuFacts>, Used) = (Vec::new(), Used::default());
    let push = |gpus: &mut Vec<GpuFacts>, lines: &mut Used, found: &mut Found| {
        if let Some(numbers) = std::mem::take(lines).numbers(text, found) {
            let mut nodes: BTreeMap<u32, Vec<String>> = BTreeMap::new();
            for gpu in gpus.iter() {
                nodes.entry(gpu.numa.unwrap_or(0)).or_default().extend(gpu.index.map(|n| format!("GPU{n}")));
            }
            let told: Vec<String> =
                nodes.iter().map(|(node, gpus)| format!("{} on NUMA node {node}", list(gpus))).collect();
            let trouble = Trouble { part: None, what: told.join(", "), value: String::new(), grade: Grade::Note };
            let report = HealthReport { area: Area::Program, sound: 0, troubles: vec![trouble] };
            found.push(text, PLACES, numbers, Fact::Health(report));
            found.push(text, PLACES, numbers, Fact::Gpus(std::mem::take(gpus)));
        }
    };
    for (i, line) in text.iter() {
        let words: Vec<&str> = line.split_whitespace().collect();
        let at = |names: &[&str]| words.iter().position(|word| names.contains(&word.to_ascii_lowercase().as_str()));
        if words.first().is_some_and(|word| word.eq_ignore_ascii_case("gpu")) && (3..=10).contains(&words.len()) {
            push(&mut gpus, &mut lines, found);
            let node = at(&["node", "numa", "numanode", "numa_node"])
                .filter(|_| at(&["cores", "cpus", "cpu", "uuid"]).is_some());
            (columns, numa, uuid) = (node.map_or(0, |_| words.len()), node.unwrap_or(0), at(&["uuid"]));
            continue;
        }
        // rules part the head from the rows
        if columns > 0 && !line.contains(char::is_alphanumeric) {
            continue;
        }
        let number = words.first().and_then(|word| word.parse::<u32>().ok()).filter(|_| words.len() == columns);
        let node = words.get(numa).and_then(|word| word.parse::<u32>().ok());
        let (Some(index), Some(node)) = (number, node) else {
            push(&mut gpus, &mut lines, found);
            columns = 0;
            continue;
        };
        if gpus.last().is_none_or(|before| before.index < Some(index)) && gpus.len() < MOST {
            let uuid = uuid.and_then(|at| words.get(at)).filter(|id| id.starts_with("GPU-")).map(|id| (*id).to_owned());
            gpus.push(GpuFacts { numa: Some(node), uuid, ..GpuFacts::listed(index, "") });
            lines.add(i);
        }
    }
    push(&mut gpus, &mut lines, found);
}

/// Rows of `gpustat`, which lists every GPU.
fn gpustat(text: &Text, found: &mut Found) {
    let (mut gpus, mut lines): (Vec<GpuFacts>, Used) = (Vec::new(), Used::default());
    for (i, line) in text.iter() {
        let Some(gpu) = row(line.trim_start_matches('>').trim()) else { continue };
        if gpus.last().is_some_and(|before| before.index >= gpu.index) {
            push(text, std::mem::take(&mut gpus), std::mem::take(&mut lines), found);
        }
        gpus.push(gpu);
        lines.add(i);
    }
    push(text, gpus, lines, found);
}

fn push(text: &Text, gpus: Vec<GpuFacts>, lines: Used, found: &mut Found) {
    if let Some(numbers) = lines.numbers(text, found) {
        found.push(text, GPUSTAT, numbers, Fact::Gpus(gpus));
    }
}

/// `[0] NVIDIA A100-SXM4-40GB | 34'C,  12 %,  61 / 400 W |   512 / 40960 MB | user(512M)`, with `°C` in newer releases.
fn row(line: &str) -> Option<GpuFacts> {
    let (index, rest) = line.strip_prefix('[')?.split_once(']')?;
    let mut cells = rest.split('|');
    let name = cells.next()?;
    let state = cells.next()?;
    let (_, total) = cells.next()?.split_once('/')?;
    let unit = |part: &str| matches!(part.trim_start_matches(['\'', '°']), "C");
    let temperature = state.split(',').find_map(|part| number_and_unit(part).filter(|(_, u)| unit(u)));
    let (memory, memory_unit) = number_and_unit(total.split_whitespace().collect::<Vec<_>>().join(" ").as_str())
        .map(|(n, u)| (n, u == "MB"))?;
    let mut gpu = GpuFacts::listed(index.trim().parse().ok()?, name);
    // a state that cannot be read
    let is_lost = state.contains('?') && temperature.is_none();
    gpu.unreachable = is_lost.then(|| "gpustat prints ?? in place of its state".to_owned());
    gpu.temperature = temperature.map(|(celsius, _)| celsius);
    gpu.utilization =
        state.split(',').find_map(|part| number_and_unit(part).filter(|(_, unit)| *unit == "%")).map(|(n, _)| n);
    gpu.memory = memory_unit.then(|| mebibytes(memory));
    (temperature.is_some() || is_lost).then_some(gpu)
}

/// Rows below a heading `# gpu    pwr  gtemp  mtemp     sm    mem …`, of which the last of each GPU counts; `-s v` and `-s e` add
/// violations and errors.
fn dmon(text: &Text, found: &mut Found) {
    if !text.holds(&["# gpu "]) {
        return;
    }
    let mut columns: Vec<String> = Vec::new();
    let (mut gpus, mut lines, mut health): (Vec<GpuFacts>, Used, Health) =
        (Vec::new(), Used::default(), Health::default());
    for (i, line) in text.iter() {
        let words: Vec<&str> = line.trim_start_matches('>').split_whitespace().collect();
        if let ["#", "gpu", rest @ ..] = words.as_slice() {
            columns = rest.iter().map(|word| (*word).to_owned()).collect();
            continue;
        }
        let Some((index, values)) =
            words.split_first().filter(|(_, values)| values.len() == columns.len() && !columns.is_empty())
        else {
            continue;
        };
        let Ok(index) = index.parse::<u32>() else { continue };
        let value =
            |name: &str| columns.iter().position(|c| c == name).and_then(|at| values.get(at)?.parse::<f64>().ok());
        let gpu = GpuFacts {
            temperature: value("gtemp").or(value("temp")),
            memory_temperature: value("mtemp"),
            power: value("pwr"),
            utilization: value("sm"),
            ..GpuFacts::listed(index, "")
        };
        lines.add(i);
        if let Some(known) = gpus.iter_mut().find(|known| known.index == Some(index)) {
            *known = gpu;
        } else if gpus.len() < MOST {
            gpus.push(gpu);
        }
        let part = format!("GPU{index}");
        for (name, grade) in [("tviol", Grade::Suspect), ("dbecc", Grade::Fault), ("pci", Grade::Note)] {
            if let Some(value) = value(name) {
                health.judge(Area::Gpu, (value > 0.0).then_some(grade), Some(&part), name, &value.to_string(), i);
            }
        }
    }
    health.lend(&mut lines);
    if let Some(numbers) = lines.numbers(text, found) {
        found.push(text, DMON, numbers, Fact::Gpus(gpus));
        health.push(text, DMON, found);
    }
}

/// More GPUs than any machine has.
const MOST: usize = 512;

#[cfg(test)]
mod tests {
    use super::super::testing::scanned;
    use super::*;
    use peerlane_machine::units::Bytes;

    fn gpus(text: &str) -> Vec<GpuFacts> {
        let found = scanned(scan, text);
        let of = |fact| if let Fact::Gpus(gpus) = fact { Some(gpus) } else { None };
        found.evidence.into_iter().find_map(|e| of(e.fact)).unwrap_or_else(|| panic!("{text}"))
    }

    #[test]
    fn places_of_gpus_as_launchers_print_them() {
        let all = gpus(
            "Topology     numa_balancing: 0\n\nGPU     Node  Affinity       UUID               Cores\n0        0       0       None    0-31,64-95\n\
             1        1       1       GPU-f3    32-63,96-127\n\nthe end\n",
        );
        let of: Vec<_> = all.iter().map(|gpu| (gpu.index, gpu.numa, gpu.uuid.as_deref())).collect();
        assert_eq!(of, [(Some(0), Some(0), None), (Some(1), Some(1), Some("GPU-f3"))]);
        assert_eq!(scanned(scan, "GPU Node Name\n0 0 x\n"), Found::default());
    }

    #[test]
    fn gpustat_of_all_releases() {
        let all = gpus(
            "node1  Mon Nov  4 10:00:00 2024  535.54.03\n[0] NVIDIA A100-SXM4-40GB | 34'C,  12 % |   512 / 40960 MB | user(512M)\n\
             [1] NVIDIA A100-SXM4-40GB | 41°C,   0 %,  61 / 400 W |     0 / 40960 MB |\n[2] NVIDIA A100-SXM4-40GB | ??'C,  ?? % |  ?? / 40960 MB |\n",
        );
        assert_eq!(all.len(), 3, "{all:#?}");
        assert_eq!(
            (all[0].temperature, all[0].utilization, all[0].memory),
            (Some(34.0), Some(12.0), Some(Bytes::from_mib(40960)))
        );
        assert_eq!(
            (all[1].temperature, all[1].unreachable.is_some(), all[2].unreachable.is_some()),
            (Some(41.0), false, true)
        );
    }

    #[test]
    fn dmon_with_errors() {
        let text = "# gpu    pwr  gtemp  mtemp     sm    mem  sbecc  dbecc    pci\n# Idx      W      C      C      %      %   errs   errs   errs\n\
                    \x20   0     61     41     50      0      0      0      0      0\n    1    300     71     88     99     40      0      2      0\n";
        let all = gpus(text);
        assert_eq!((all.len(), all[1].memory_temperature, all[1].power), (2, Some(88.0), Some(300.0)));
        let Fact::Health(report) = &scanned(scan, text).evidence[1].fact else { panic!() };
        assert_eq!((report.sound, report.troubles[0].part.as_deref()), (3, Some("GPU1")));
    }

    #[test]
    fn other_rows() {
        for text in ["[1] a reference | x | y / z\n", "# gpu is a heading\n1 2\n"] {
            assert_eq!(scanned(scan, text), Found::default(), "{text}");
        }
    }
}
