//! `mlxlink`: state, counters and bit error rates of one port of an adapter or a switch. `mlnx_qos`: its flow control.

use super::health::Health;
use super::words::key_value;
use super::{Found, Text};
use peerlane_machine::fact::{Area, Grade};

const TOOL: &str = "mlxlink";
const QOS: &str = "mlnx_qos";

/// The bit error rate after correction that a sound link stays below (IEEE 802.3, IBTA).
const EFFECTIVE: f64 = 1e-12;

/// A raw rate above this is near to what error correction can no longer repair.
const RAW: f64 = 1e-5;

pub(super) fn scan(text: &Text, found: &mut Found) {
    if text.holds(&["PFC configuration:"]) {
        flow_control(text, found);
    }
    if !text.holds(&["Physical state", "Physical BER", "Symbol BER", "Status Opcode"]) {
        return;
    }
    let (mut health, mut part): (Health, Option<String>) = (Health::default(), None);
    for (i, line) in text.iter() {
        let line = line.trim_start_matches('>').trim();
        if let Some(device) = device(line) {
            health.push(text, TOOL, found);
            part = Some(device);
        } else if line == "Operational Info" {
            health.push(text, TOOL, found);
        } else if let Some((key, value)) = key_value(line).filter(|_| line.contains(" : ")) {
            // other tools print states and recommendations, too
            let near =
                |i: usize| key_value(text.line(i).trim_start_matches('>')).filter(|_| text.line(i).contains(" : "));
            let is_own = match key {
                "State" => near(i + 1).is_some_and(|(key, _)| key == "Physical state"),
                "Recommendation" => near(i.wrapping_sub(1)).is_some_and(|(key, _)| key == "Group Opcode"),
                _ => true,
            };
            if is_own {
                take(&mut health, part.as_deref(), key, value, i);
            }
        }
    }
    health.push(text, TOOL, found);
}

/// The row `enabled  0  0  0  1 …` below "PFC configuration:", a number for each priority.
fn flow_control(text: &Text, found: &mut Found) {
    let (mut health, mut within) = (Health::default(), false);
    for (i, line) in text.iter() {
        let line = line.trim_start_matches('>').trim();
        if line == "PFC configuration:" {
            within = true;
            health.used(i);
        } else if let Some(values) = line.strip_prefix("enabled").filter(|_| within) {
            let off = values.split_whitespace().all(|value| value == "0").then_some(Grade::Note);
            health.judge(Area::Setting, off, None, "PFC:", "off on all priorities", i);
            within = false;
        }
    }
    health.push(text, QOS, found);
}

/// The device, with its port, of `mlxlink -d mlx5_0 -p 1 -c`.
fn device(line: &str) -> Option<String> {
    let (_, rest) = line.split_once("mlxlink ")?;
    let after = |flag: &str| rest.split_once(flag).and_then(|(_, rest)| rest.split_whitespace().next());
    let device = after("-d ")?;
    Some(after("-p ").map_or_else(|| device.to_owned(), |port| format!("{device} port {port}")))
}

fn take(health: &mut Health, part: Option<&str>, key: &str, value: &str, i: usize) {
    let number = || value.split_whitespace().next()?.replace(',', "").parse::<f64>().ok();
    let bad = match key {
        "State" => (!matches!(value, "Active" | "Enabled")).then_some(Grade::Fault),
        // other words are steps of training
        "Physical state" if value == "LinkUp" || value.contains("AN_FSM_ENABLE") => None,
        "Physical state" => Some(Grade::Suspect),
        "Recommendation" => {
            (!matches!(value, "No issue was observed" | "No issue was observed." | "N/A")).then_some(Grade::Suspect)
        }
        _ => {
            let Some(number) = number() else { return };
            match key {
                "Effective Physical BER" | "Symbol BER" => (number > EFFECTIVE).then_some(Grade::Fault),
                "Raw Physical BER" => (number > RAW).then_some(Grade::Suspect),
                "Effective Physical Errors" | "Symbol Errors" | "Link Error Recovery Counter" => {
                    (number > 0.0).then_some(Grade::Suspect)
                }
                "Link Down Counter" => (number > 0.0).then_some(Grade::Note),
                _ => return,
            }
        }
    };
    health.judge(Area::NetworkLink, bad, part, key, value, i);
}

#[cfg(test)]
mod tests {
    use super::super::testing::scanned;
    use super::*;
    use peerlane_machine::fact::Fact;

    fn grades(text: &str) -> (u32, Vec<Grade>) {
        let found = scanned(scan, text);
        let Some(Fact::Health(report)) = found.evidence.into_iter().map(|e| e.fact).next() else { panic!("{text}") };
        (report.sound, report.troubles.iter().map(|t| t.grade).collect())
    }

    #[test]
    fn states_and_rates() {
        let text = |state: &str, ber: &str, errors: u32| {
            format!(
                "$ mlxlink -d mlx5_4 -c\nOperational Info\n----------------\nState                              : {state}\n\
                 Physical state                     : LinkUp\nSpeed                              : IB-NDR\n\
                 Group Opcode                       : N/A\nRecommendation                     : No issue was observed\nSymbol Errors                      : {errors}\n\
                 Effective Physical BER             : {ber}\nRaw Physical BER                   : 2E-10\n"
            )
        };
        assert_eq!(grades(&text("Active", "15E-255", 0)), (6, vec![]));
        assert_eq!(grades(&text("Polling", "15E-255", 0)).1, [Grade::Fault]);
        assert_eq!(grades(&text("Active", "3E-9", 12)).1, [Grade::Suspect, Grade::Fault]);
    }

    #[test]
    fn flow_control_of_priorities() {
        let text =
            |third: u8| format!("PFC configuration:\n\tpriority    0   1   2   3\n\tenabled     0   0   0   {third}\n");
        assert_eq!((grades(&text(1)), grades(&text(0)).1), ((1, vec![]), vec![Grade::Note]));
    }

    #[test]
    fn other_words() {
        let other = "    Fabric\n        State                             : Completed\nPhysical state: LinkUp\n";
        for text in
            ["Physical state: LinkUp\n", "State : Active\n", &format!("{other}\n  State  : N/A\n  Status : ok\n")]
        {
            assert_eq!(scanned(scan, text), Found::default(), "{text}");
        }
    }
}
