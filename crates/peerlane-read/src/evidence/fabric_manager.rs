//! NVIDIA's fabric manager: `systemctl status nvidia-fabricmanager` and `/var/log/fabricmanager.log`.

use super::text::Span;
use super::{FabricManager, Fact, Found, KernelFacts, SwitchXid, Text};
use peerlane_machine::fabric::PciAddress;

const STATUS: &str = "systemctl status nvidia-fabricmanager";
pub(super) const LOG: &str = "fabricmanager.log";

/// Lines below a unit's name that may state what it does.
const STATUS_LINES: usize = 12;

/// The most kinds of errors of one log.
const MOST: usize = 512;

/// The most ports of one NVSwitch: more than any has.
const MOST_LINKS: usize = 256;

pub(super) fn scan(text: &Text, found: &mut Found) {
    if !text.holds(&["fabricmanager", "fabric manager", "abric Manager", "detected NVSwitch"]) {
        return;
    }
    status(text, found);
    log(text, found);
}

/// `● nvidia-fabricmanager.service - NVIDIA fabric manager service`, and below it `Active: active (running) since …`.
fn status(text: &Text, found: &mut Found) {
    text.walk(|i| {
        let line = text.line(i).trim();
        let unit = line.contains("nvidia-fabricmanager.service");
        if unit && (line.contains("could not be found") || line.contains("not-found")) {
            let fact = FabricManager { service: Some("not installed".to_owned()) };
            found.push(text, STATUS, text.numbers(i, i), Fact::FabricManager(fact));
            return None;
        }
        if !unit || !(line.starts_with(['●', '○', '×', '*']) || line.starts_with("nvidia-fabricmanager.service - "))
        {
            return None;
        }
        let (at, state) =
            (i + 1..=i + STATUS_LINES).find_map(|k| Some((k, text.line(k).trim().strip_prefix("Active:")?.trim())))?;
        // `failed (Result: exit-code) since …`, `inactive (dead)`
        let state = state.split(" since ").next().unwrap_or(state).split(';').next().unwrap_or(state).trim();
        let fact = FabricManager { service: Some(state.to_owned()) };
        found.push(text, STATUS, text.numbers(i, at), Fact::FabricManager(fact));
        Some(at + 1)
    });
}

fn log(text: &Text, found: &mut Found) {
    let (mut errors, mut lines) = (KernelFacts::default(), Span::default());
    for (i, line) in text.iter() {
        if switch_error(line, &mut errors).is_some() {
            lines.add(i);
        }
    }
    if let Some(lines) = lines.numbers(text) {
        found.push(text, LOG, lines, Fact::Kernel(errors));
    }
}

/// Whether a line is one that is read here.
pub(super) fn is_read(line: &str) -> bool {
    switch_error(line, &mut KernelFacts::default()).is_some()
}

/// `detected NVSwitch non-fatal error 12028 on fid 0 on NVSwitch pci bus id 00000000:86:00.0 physical id 3 port 61`; the
/// kernel logs the same as an SXid.
fn switch_error(line: &str, facts: &mut KernelFacts) -> Option<()> {
    let (_, rest) = line.split_once("detected NVSwitch ")?;
    let (kind, rest) = rest.split_once(" error ")?;
    let fatal = match kind {
        "fatal" => true,
        "non-fatal" => false,
        _ => return None,
    };
    let code: u32 = rest.split_whitespace().next()?.parse().ok()?;
    let (_, place) = rest.split_once("pci bus id ")?;
    let address: PciAddress = place.split_whitespace().next()?.parse().ok()?;
    let port = rest.split_once(" port ").and_then(|(_, port)| port.split_whitespace().next()?.parse().ok());
    // nearly all of a log is one error that repeats
    let at = facts.switch_xids.iter().rposition(|x| (x.address, x.code, x.fatal) == (address, code, fatal));
    if let Some(known) = at.and_then(|at| facts.switch_xids.get_mut(at)) {
        known.count = known.count.saturating_add(1);
        known.links.extend(port.filter(|port| known.links.len() < MOST_LINKS && !known.links.contains(port)));
    } else if facts.switch_xids.len() < MOST {
        let what = "logged by the fabric manager".to_owned();
        facts.switch_xids.push(SwitchXid { address, code, fatal, what, links: port.into_iter().collect(), count: 1 });
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::super::testing::scanned;
    use super::*;

    fn facts(text: &str) -> Vec<FabricManager> {
        let of = |fact| if let Fact::FabricManager(facts) = fact { facts } else { panic!() };
        scanned(scan, text).evidence.into_iter().map(|e| of(e.fact)).collect()
    }

    #[test]
    fn what_systemd_reports() {
        for (state, expected) in [
            ("active (running) since Mon 2025-01-06 10:00:00 UTC; 2 days ago", "active (running)"),
            ("failed (Result: exit-code) since Mon 2025-01-06 10:00:00 UTC; 3s ago", "failed (Result: exit-code)"),
            ("inactive (dead)", "inactive (dead)"),
        ] {
            let text = format!(
                "● nvidia-fabricmanager.service - NVIDIA fabric manager service\n     Loaded: loaded (/lib/systemd/system/nvidia-fabricmanager.service; enabled)\n     Active: {state}\n"
            );
            assert_eq!(facts(&text)[0].service.as_deref(), Some(expected));
        }
        assert_eq!(
            facts("Unit nvidia-fabricmanager.service could not be found.\n")[0].service.as_deref(),
            Some("not installed")
        );
    }

    #[test]
    fn errors_of_its_log_are_counted() {
        let found = scanned(
            scan,
            "[Jul 23 2024 07:53:55] [ERROR] [tid 841] detected NVSwitch fatal error 20034 on fid 0 on NVSwitch pci bus id 00000000:86:00.0 physical id 3 port 33\n\
             [Jul 23 2024 07:53:56] [ERROR] [tid 841] detected NVSwitch non-fatal error 12028 on fid 0 on NVSwitch pci bus id 00000000:86:00.0 physical id 3 port 61\n\
             [Jul 23 2024 07:53:57] [ERROR] [tid 841] detected NVSwitch non-fatal error 12028 on fid 0 on NVSwitch pci bus id 00000000:86:00.0 physical id 3 port 61\n",
        );
        let [errors] = found.evidence.as_slice() else { panic!("{found:#?}") };
        let Fact::Kernel(errors) = &errors.fact else { panic!() };
        let errors: Vec<_> =
            errors.switch_xids.iter().map(|e| (e.code, e.fatal, e.links.as_slice(), e.count)).collect();
        assert_eq!(errors, [(20034, true, &[33][..], 1), (12028, false, &[61][..], 2)]);
    }

    #[test]
    fn what_only_names_it() {
        for text in [
            "Install nvidia-fabricmanager and start nvidia-fabricmanager.service\n",
            "detected NVSwitch trouble\n",
            "systemctl status nvidia-fabricmanager\n",
        ] {
            assert_eq!(scanned(scan, text), Found::default(), "{text}");
        }
    }
}
