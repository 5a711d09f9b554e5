//! GPUs that are throttled or about to be, and adapters and CPUs at the temperature limit of their sensors.

use std::collections::BTreeMap;

use super::gpu_setting::gpu_of;
use super::prelude::*;
use peerlane_machine::fabric::PciAddress;
use peerlane_machine::fact::{GpuFacts, SensorReading};

pub(super) const RULE: Rule = Rule::new("hot-or-throttled", Many(run))
    .explains("p2p-slower-than-staged asymmetric-cell uneven-path-class slow-path contended-slow");

/// Power this much above its limit is not boost regulation, which overshoots by a few percent.
const OVER_LIMIT: f64 = 1.10;

/// The driver's clock event reasons that mean heat or a hardware slowdown, in part and in lower case.
const SLOWDOWNS: [&str; 3] = ["thermal", "hw slowdown", "brake"];

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
    /// It draws more power than its limit.
    OverLimit,
}

/// What is wrong, and the text that shows it.
type Sign = (Trouble, String);

/// Devices with the same trouble: parallel lists of names and of what shows it.
#[derive(Default)]
struct Affected<'a> {
    names: Vec<String>,
    signs: Vec<String>,
    origins: Vec<&'a Origin>,
}

fn run(view: &View) -> Vec<Raised> {
    let by_address = view.gpus_by_address();
    let mut troubles: BTreeMap<Trouble, Affected> = BTreeMap::new();
    let hot = view.settings.hot_or_throttled.celsius;
    for evidence in &view.machine.evidence {
        let found: Vec<(Option<NodeId>, Option<Sign>)> = match &evidence.fact {
            Fact::Gpus(gpus) => gpus.iter().map(|gpu| (gpu_of(view, &by_address, gpu), judge(gpu, hot))).collect(),
            Fact::Sensors(all) => all.iter().map(|reading| (of_chip(view, reading), at_limit(reading))).collect(),
            _ => continue,
        };
        for (id, sign) in found {
            let Some((id, (trouble, sign))) = id.zip(sign) else { continue };
            let affected = troubles.entry(trouble).or_default();
            let name = view.name(id).to_owned();
            // where several sources show a device, the first counts
            if !affected.names.contains(&name) {
                affected.signs.push(sign);
                affected.names.push(name);
            }
            affected.origins.push(&evidence.origin);
        }
    }
    troubles.into_iter().map(|(trouble, affected)| report(view, trouble, affected)).collect()
}

/// The worst trouble of a GPU, with what shows it.
fn judge(gpu: &GpuFacts, hot: f64) -> Option<Sign> {
    let is_slowdown = |reason: &&String| SLOWDOWNS.iter().any(|word| reason.to_lowercase().contains(word));
    let slowdowns: Vec<&String> = gpu.clock_event_reasons.iter().filter(is_slowdown).collect();
    if !slowdowns.is_empty() {
        return Some((Trouble::Slowed, list(&slowdowns)));
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

/// Whether the hardware throttles, which divides clocks by two or more, and not the driver step by step (NVML's
/// `nvmlClocksEventReasonHwSlowdown`).
fn by_hardware(signs: &[String]) -> bool {
    signs.iter().any(|sign| sign.to_lowercase().contains("hw"))
}

/// What slows the clocks of all of them, and what to do about it.
fn brakes(signs: &[String]) -> (&'static str, &'static str) {
    let named = |word: &str| signs.iter().filter(|sign| sign.to_lowercase().contains(word)).count();
    match (named("thermal"), named("brake")) {
        (0, braked) if braked == signs.len() => (
            "an external power brake throttles",
            "Restore the power: check the power supplies (`ipmitool sdr type 'Power Supply'`), their cables and the \
             power cap of the system. The system asserts this brake, not the GPU.",
        ),
        (hot, 0) if hot == signs.len() => {
            ("heat throttles", "Restore the cooling: fans, air flow, dust. Measure again after it has cooled down.")
        }
        _ => (
            "heat or a power brake throttles",
            "Restore the cooling (fans, air flow, dust) and the power (cables, power supplies). Measure again after \
             it has cooled down.",
        ),
    }
}

fn at_limit(reading: &SensorReading) -> Option<Sign> {
    let limit = reading.limit.filter(|limit| reading.celsius >= *limit)?;
    Some((Trouble::AtLimit, format!("{:.0} °C of {limit:.0} °C ({})", reading.celsius, reading.label)))
}

/// The node of a chip: `mlx5-pci-1700` is the device at 17:00.0, `Package id 1` of a CPU's chip is `cpu1`.
fn of_chip(view: &View, reading: &SensorReading) -> Option<NodeId> {
    if let Some(package) = reading.label.strip_prefix("Package id ") {
        return view.fabric().find(&format!("cpu{package}"));
    }
    let at = u32::from_str_radix(reading.chip.rsplit_once("-pci-")?.1, 16).ok()?;
    let [_, _, bus, function] = at.to_be_bytes();
    view.at(PciAddress { domain: at >> 16, bus, device: function >> 3, function: function & 7 })
}

fn report(view: &View, trouble: Trouble, affected: Affected) -> Raised {
    let who = list(&affected.names);
    let by_sign = grouped(affected.signs.iter().zip(&affected.names));
    let measured: Vec<String> = by_sign.iter().map(|(sign, of)| format!("{}: {sign}", list(of))).collect();
    let measured = measured.join("; ");
    let raised = match trouble {
        Trouble::Slowed => RULE
            .raise(Fault, if by_hardware(&affected.signs) { Error } else { Warning }, Certain)
            .summary(format!("{who}: {} the clocks", brakes(&affected.signs).0))
            .expected("no thermal or hardware slowdown")
            .fix(brakes(&affected.signs).1),
        Trouble::Hot => RULE
            .raise(Fault, Warning, Possible)
            .summary(format!("{who}: hot, close to throttling"))
            .expected(format!("below {:.0} °C under load", view.settings.hot_or_throttled.celsius))
            .fix("Restore the cooling: fans, air flow, dust. Warm air from a neighbouring card raises the inlet \
                 temperature."),
        Trouble::AtLimit => RULE
            .raise(Fault, Warning, Possible)
            .summary(format!("{who}: at the temperature limit"))
            .expected("below the limit that the sensor states")
            .fix("Restore the cooling: fans, air flow, dust. An adapter or CPU that throttles slows every transfer \
                 through it."),
        Trouble::Capped => RULE
            .raise(Design, Info, Certain)
            .summary(format!("{who}: the power limit holds the clocks down, as under any full load"))
            .expected("clocks below the power limit, to measure clocks")
            .fix(
                "Do nothing, unless the limit was lowered (`nvidia-smi -q -d POWER`); copies between GPUs need little power.",
            ),
        Trouble::OverLimit => RULE
            .raise(Measurement, Info, Certain)
            .summary(format!("{who}: power draw exceeds the limit"))
            .expected("power within a few percent of the limit")
            .fix("Read it again; if it stays above, check the power supply and the limit."),
    };
    raised
        .measured(measured)
        .evidence(view.cite(affected.origins))
        .confirm(match trouble {
            Trouble::AtLimit => "`sensors` under load",
            _ => "`nvidia-smi -q -d PERFORMANCE,TEMPERATURE,POWER` under load",
        })
        .about_nodes(affected.names)
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
    fn heat_is_a_warning_and_slower_clocks_are_an_error() {
        let one = || "GPU1".to_owned();
        assert_eq!(found(|g| g.temperature = Some(87.0)), [(Warning, one())]);
        let slowed = found(|g| g.clock_event_reasons = vec!["HW Thermal Slowdown".to_owned()]);
        assert_eq!(slowed, [(Error, one())]);
        let by_driver = found(|g| g.clock_event_reasons = vec!["SW Thermal Slowdown".to_owned()]);
        assert_eq!(by_driver, [(Error, one())]);
        let capped = found(|g| g.clock_event_reasons = vec!["SW Power Cap".to_owned()]);
        assert_eq!(capped, [(Info, one())]);
    }

    #[test]
    fn heat_and_power_brakes_are_told_apart() {
        let words = |signs: &[&str]| brakes(&signs.iter().map(|s| (*s).to_owned()).collect::<Vec<_>>()).0;
        let (heat, brake) = ("HW Slowdown, HW Thermal Slowdown", "HW Slowdown, HW Power Brake Slowdown");
        assert_eq!(words(&[heat]), "heat throttles");
        assert_eq!(words(&[brake]), "an external power brake throttles");
        for unclear in [&[heat, brake][..], &["HW Slowdown"], &[brake, "HW Slowdown"]] {
            assert_eq!(words(unclear), "heat or a power brake throttles");
        }
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
