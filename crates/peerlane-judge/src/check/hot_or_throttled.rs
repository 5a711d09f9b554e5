//! GPUs whose clocks are held down, or that are hot enough for it, and adapters and CPUs as hot as their sensors allow.

use std::collections::{BTreeMap, HashSet};

use super::gpu_setting::gpu_of;
use super::view::{Raised, View};
use super::words::list;
use super::{Certainty, Finding, FindingKind, Rule, Severity};
use peerlane_machine::fabric::PciAddress;
use peerlane_machine::fact::{Fact, GpuFacts, SensorReading};
use peerlane_machine::origin::Origin;
use peerlane_machine::subject::Subject;

pub(super) const RULE: Rule = Rule { id: "hot-or-throttled", breaks: false, run };

/// Power this much above its limit is no boost regulation, which overshoots by a few percent.
const OVER_LIMIT: f64 = 1.10;

/// What is wrong with a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Trouble {
    /// A thermal or hardware reason holds its clocks down.
    Slowed,
    /// It is hot.
    Hot,
    /// It has reached the limit that its sensor states.
    AtLimit,
    /// Its power limit holds its clocks down, as it does under any full load.
    Capped,
    /// It takes more power than its limit.
    OverLimit,
}

/// What is wrong, and the words that show it.
type Sign = (Trouble, String);

/// Devices in the same trouble.
#[derive(Default)]
struct Patients<'a> {
    seen: HashSet<String>,
    names: Vec<String>,
    signs: Vec<String>,
    origins: Vec<&'a Origin>,
}

fn run(view: &View) -> Vec<Raised> {
    let by_address = view.gpus_by_address();
    let mut troubles: BTreeMap<Trouble, Patients> = BTreeMap::new();
    let hot = view.settings.hot_or_throttled.celsius;
    for evidence in &view.machine.evidence {
        let found: Vec<(Option<String>, Option<Sign>)> = match &evidence.fact {
            Fact::Gpus(gpus) => {
                let name = |gpu| gpu_of(view, &by_address, gpu).map(|id| view.name(id).to_owned());
                gpus.iter().map(|gpu| (name(gpu), judge(gpu, hot))).collect()
            }
            Fact::Sensors(all) => all.iter().map(|reading| (of_chip(view, reading), at_limit(reading))).collect(),
            _ => continue,
        };
        for (name, trouble) in found {
            let Some((name, (trouble, sign))) = name.zip(trouble) else { continue };
            let patients = troubles.entry(trouble).or_default();
            // a device that several sources show is one patient, by its first
            if patients.seen.insert(name.clone()) {
                patients.signs.push(format!("{name} {sign}"));
                patients.names.push(name);
            }
            if patients.origins.last() != Some(&&evidence.origin) {
                patients.origins.push(&evidence.origin);
            }
        }
    }
    troubles.into_iter().map(|(trouble, patients)| report(view, trouble, patients)).collect()
}

/// The worst trouble of a GPU, with what shows it.
fn judge(gpu: &GpuFacts, hot: f64) -> Option<(Trouble, String)> {
    let reasons: Vec<String> = gpu
        .clock_event_reasons
        .iter()
        .filter(|r| {
            let r = r.to_lowercase();
            r.contains("thermal") || r.contains("hw slowdown") || r.contains("brake")
        })
        .cloned()
        .collect();
    if !reasons.is_empty() {
        return Some((Trouble::Slowed, list(&reasons)));
    }
    if let Some(t) = gpu.temperature.filter(|t| *t >= hot) {
        return Some((Trouble::Hot, format!("{t:.0} °C")));
    }
    if gpu.clock_event_reasons.iter().any(|r| r.to_lowercase().contains("power cap")) {
        return Some((Trouble::Capped, "SW Power Cap".to_owned()));
    }
    match (gpu.power, gpu.power_limit) {
        (Some(power), Some(limit)) if limit > 0.0 && power > OVER_LIMIT * limit => {
            Some((Trouble::OverLimit, format!("{power:.0} W of {limit:.0} W")))
        }
        _ => None,
    }
}

fn at_limit(reading: &SensorReading) -> Option<(Trouble, String)> {
    let limit = reading.limit.filter(|limit| reading.celsius >= *limit)?;
    Some((Trouble::AtLimit, format!("{:.0} °C of {limit:.0} °C ({})", reading.celsius, reading.label)))
}

/// The node of a chip: `mlx5-pci-1700` is the device at 17:00.0, `Package id 1` of a CPU's chip is `cpu1`.
fn of_chip(view: &View, reading: &SensorReading) -> Option<String> {
    let fabric = view.fabric();
    if let Some(package) = reading.label.strip_prefix("Package id ") {
        return fabric.find(&format!("cpu{package}")).map(|id| view.name(id).to_owned());
    }
    let at = u32::from_str_radix(reading.chip.rsplit_once("-pci-")?.1, 16).ok()?;
    let [_, _, bus, function] = at.to_be_bytes();
    let address = PciAddress { domain: at >> 16, bus, device: function >> 3, function: function & 7 };
    fabric.nodes().iter().find(|node| node.address == Some(address)).map(|node| node.name.clone())
}

fn report(view: &View, trouble: Trouble, patients: Patients) -> Raised {
    let who = list(&patients.names);
    let (kind, severity, summary, expected, fix) = match trouble {
        Trouble::Slowed => (
            FindingKind::Fault,
            Severity::Warning,
            format!("{who}: heat or a power brake holds the clocks down"),
            "no thermal or hardware slowdown",
            "Look at fans, air flow and dust, at the power cables and supplies, and measure again when it is cool.",
        ),
        Trouble::Hot => (
            FindingKind::Fault,
            Severity::Warning,
            format!("{who}: hot, about to slow down"),
            "below 85 °C under load",
            "Look at fans, air flow and dust; a neighbour's warm air raises the inlet temperature.",
        ),
        Trouble::AtLimit => (
            FindingKind::Fault,
            Severity::Warning,
            format!("{who}: as hot as {} may become", if patients.names.len() == 1 { "it" } else { "they" }),
            "below the limit that the sensor states",
            "Look at fans, air flow and dust; an adapter or CPU that slows down slows every transfer through it.",
        ),
        Trouble::Capped => (
            FindingKind::Design,
            Severity::Info,
            format!("{who}: the power limit holds the clocks down, as under any full load"),
            "clocks below the power limit, for a measurement of clocks",
            "Nothing, unless the limit was lowered (`nvidia-smi -q -d POWER`); copies between GPUs need little power.",
        ),
        Trouble::OverLimit => (
            FindingKind::Measurement,
            Severity::Info,
            format!("{who}: more power than the limit allows"),
            "power within a few percent of the limit",
            "Read it again; if it stays, check the power supply and the limit.",
        ),
    };
    let finding = Finding {
        rule: RULE.id.to_owned(),
        certainty: Certainty::Certain,
        confirm: if trouble == Trouble::AtLimit {
            "`sensors` under load".to_owned()
        } else {
            "`nvidia-smi -q -d PERFORMANCE,TEMPERATURE,POWER` under load".to_owned()
        },
        cost: None,
        kind,
        severity,
        subjects: Subject::nodes_of(patients.names),
        summary,
        expected: expected.to_owned(),
        measured: list(&patients.signs),
        evidence: view.cite(patients.origins),
        fix: fix.to_owned(),
    };
    Raised::new(finding, 0.0)
}

#[cfg(test)]
mod tests {
    use super::super::testing::{findings, state, switched};
    use super::*;
    use peerlane_machine::subject::join;

    fn found(change: impl Fn(&mut GpuFacts)) -> Vec<(Severity, String)> {
        let mut machine = switched(2);
        let gpu = |index| GpuFacts { index: Some(index), temperature: Some(60.0), ..GpuFacts::default() };
        let mut gpus = vec![gpu(0), gpu(1)];
        change(&mut gpus[1]);
        state(&mut machine, "nvidia-smi -q", Fact::Gpus(gpus));
        findings(&machine, run).into_iter().map(|f| (f.severity, join(&f.subjects, " "))).collect()
    }

    #[test]
    fn heat_and_brakes_are_warnings() {
        let one = || "GPU1".to_owned();
        assert_eq!(found(|g| g.temperature = Some(87.0)), [(Severity::Warning, one())]);
        let slowed = found(|g| g.clock_event_reasons = vec!["HW Thermal Slowdown".to_owned()]);
        assert_eq!(slowed, [(Severity::Warning, one())]);
        let capped = found(|g| g.clock_event_reasons = vec!["SW Power Cap".to_owned()]);
        assert_eq!(capped, [(Severity::Info, one())]);
    }

    #[test]
    fn chips_at_the_limit_that_they_state_are_warnings() {
        let found = |chip: &str, label: &str, celsius| {
            let mut machine = switched(2);
            let gpu = machine.fabric.find("GPU1").unwrap();
            let mut builder = machine.fabric.into_builder();
            builder.node_mut(gpu).address = Some("0000:17:01.1".parse().unwrap());
            machine.fabric = builder.build().unwrap();
            let (chip, label) = (chip.to_owned(), label.to_owned());
            let reading = SensorReading { chip, label, celsius, limit: Some(105.0) };
            state(&mut machine, "sensors", Fact::Sensors(vec![reading]));
            findings(&machine, run).into_iter().map(|f| join(&f.subjects, " ")).collect::<Vec<_>>()
        };
        assert_eq!(found("amdgpu-pci-1709", "edge", 105.0), ["GPU1"]);
        assert_eq!(found("coretemp-isa-0000", "Package id 0", 106.0), ["cpu0"]);
        assert_eq!(found("amdgpu-pci-1709", "edge", 104.9), [""; 0]);
        assert_eq!(found("nvme-pci-0100", "Composite", 120.0), [""; 0], "no node of the machine");
    }

    #[test]
    fn boost_regulation_and_idling_are_silent() {
        assert_eq!(found(|g| (g.power, g.power_limit, g.utilization) = (Some(203.0), Some(200.0), Some(100.0))), []);
        assert_eq!(found(|g| g.clock_event_reasons = vec!["Idle".to_owned()]), []);
    }
}
