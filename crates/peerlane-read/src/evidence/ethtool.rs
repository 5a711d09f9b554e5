//! `ethtool` of an interface: its link, its speed against what it supports, its module (`-m`), its FEC and pause frames.

use super::health::Health;
use super::words::{key_value, number_and_unit};
use super::{Found, Text};
use peerlane_machine::fact::{Area, Grade};

const TOOL: &str = "ethtool";

/// Words of a command that show which output follows.
const COMMANDS: [&str; 2] = ["ethtool ", "Settings for "];

pub(super) fn scan(text: &Text, found: &mut Found) {
    if !text.holds(&["Settings for ", "Link detected:", "Laser ", "Module temperature", "FEC encoding"]) {
        return;
    }
    let mut port = Port::default();
    for (i, line) in text.iter() {
        let line = line.trim_start_matches('>').trim();
        if let Some(name) = interface(line) {
            port.push(text, found);
            port.name = Some(name.to_owned());
        } else if let Some((key, value)) = key_value(line) {
            port.take(key, value, i);
        } else if !line.is_empty() && port.within_modes {
            port.modes(line);
        }
    }
    port.push(text, found);
}

/// `Settings for eth0:`, `$ ethtool -m eth0`.
fn interface(line: &str) -> Option<&str> {
    let rest = COMMANDS.iter().find_map(|command| line.split_once(command)).map(|(_, rest)| rest)?;
    let name = rest.split_whitespace().find(|word| !word.starts_with('-'))?.trim_end_matches(':');
    (name.len() <= 15 && !name.is_empty()).then_some(name)
}

/// One interface.
#[derive(Default)]
struct Port {
    name: Option<String>,
    health: Health,
    /// The fastest mode that it supports, in Mb/s.
    fastest: f64,
    within_modes: bool,
    /// Its speed, with the line.
    speed: Option<(f64, usize)>,
}

impl Port {
    fn take(&mut self, key: &str, value: &str, i: usize) {
        self.within_modes = key == "Supported link modes";
        let name = self.name.clone();
        let name = name.as_deref();
        let is = |bad: bool, grade| bad.then_some(grade);
        match key {
            "Supported link modes" => {
                self.health.used(i);
                self.modes(value);
            }
            "Speed" if value.ends_with("b/s") => self.speed = number_and_unit(value).map(|(speed, _)| (speed, i)),
            "Link detected" => {
                let bad = is(!value.starts_with("yes"), Grade::Suspect);
                self.health.judge(Area::NetworkLink, bad, name, key, value, i);
            }
            "Active FEC encoding" | "Active FEC encodings" => self.health.sound(Area::NetworkLink, i),
            _ if key.ends_with(" alarm") && matches!(value, "On" | "Off") => {
                self.health.judge(Area::NetworkLink, is(value == "On", Grade::Fault), name, key, value, i);
            }
            _ if key.ends_with(" warning") && matches!(value, "On" | "Off") => {
                self.health.judge(Area::NetworkLink, is(value == "On", Grade::Suspect), name, key, value, i);
            }
            _ => {}
        }
    }

    /// `100000baseCR4/Full 25000baseCR/Full`.
    fn modes(&mut self, modes: &str) {
        let speeds = modes.split_whitespace().filter_map(|mode| mode.split_once("base")?.0.parse::<f64>().ok());
        self.fastest = speeds.fold(self.fastest, f64::max);
    }

    fn push(&mut self, text: &Text, found: &mut Found) {
        let mut port = std::mem::take(self);
        if let Some((speed, line)) = port.speed {
            let slow = speed > 0.0 && speed < port.fastest;
            let value = format!("{} Gb/s of {} Gb/s", speed / 1000.0, port.fastest / 1000.0);
            let bad = slow.then_some(Grade::Limit);
            port.health.judge(Area::NetworkLink, bad, port.name.as_deref(), "Speed", &value, line);
        }
        port.health.push(text, TOOL, found);
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::scanned;
    use super::*;
    use peerlane_machine::fact::{Fact, Trouble};

    fn troubles(text: &str) -> (u32, Vec<Trouble>) {
        let found = scanned(scan, text);
        let Some(Fact::Health(report)) = found.evidence.into_iter().map(|e| e.fact).next() else { panic!("{text}") };
        (report.sound, report.troubles)
    }

    #[test]
    fn a_port_that_negotiated_less() {
        let text = |speed: &str, link: &str| {
            format!(
                "Settings for ens1f0np0:\n\tSupported ports: [ FIBRE ]\n\tSupported link modes:   25000baseCR/Full\n\t                        100000baseCR4/Full\n\
                 \tAdvertised link modes:  25000baseCR/Full\n\tSpeed: {speed}\n\tDuplex: Full\n\tLink detected: {link}\n"
            )
        };
        assert_eq!(troubles(&text("100000Mb/s", "yes")), (2, vec![]));
        let (_, slow) = troubles(&text("25000Mb/s", "yes"));
        assert_eq!((slow[0].value.as_str(), slow[0].grade), ("25 Gb/s of 100 Gb/s", Grade::Limit));
        assert_eq!(slow[0].part.as_deref(), Some("ens1f0np0"));
        let (_, down) = troubles(&text("Unknown!", "no"));
        assert_eq!((down[0].what.as_str(), down[0].grade), ("Link detected", Grade::Suspect));
    }

    #[test]
    fn alarms_of_a_module() {
        let (sound, bad) = troubles(
            "$ ethtool -m eth2\n\tIdentifier : 0x11 (QSFP28)\n\tModule temperature : 71.00 degrees C / 159.80 degrees F\n\tModule temperature high alarm             : On\n\
             \tLaser rx power low alarm   (Channel 1)    : Off\n\tLaser rx power low alarm : Off\n\tLaser bias current high warning : Off\n",
        );
        assert_eq!((sound, bad.len(), bad[0].grade, bad[0].part.as_deref()), (2, 1, Grade::Fault, Some("eth2")));
    }

    #[test]
    fn commands_alone_are_nothing() {
        assert_eq!(scanned(scan, "Run ethtool eth0 and look at Link detected: it must be yes\n"), Found::default());
    }
}
