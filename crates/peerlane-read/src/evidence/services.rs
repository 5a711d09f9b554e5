//! `systemctl status` of services that GPUs, adapters and schedulers need: whether they run, and why not. Whether NVIDIA's fabric manager is
//! needed follows from the machine, so that only its health is told here.

use super::health::Health;
use super::{Found, Text};
use peerlane_machine::fact::{Area, Grade};

const TOOL: &str = "systemctl status";

/// Lines below a unit's name that may state what it does.
const STATUS_LINES: usize = 14;

/// Units by how their names start, with what they are about.
const UNITS: [(&str, Area); 19] = [
    ("nvidia-fabricmanager", Area::Driver),
    ("nvidia-persistenced", Area::Driver),
    ("nvidia-imex", Area::Domain),
    ("nvidia-powerd", Area::Driver),
    ("nvidia-dcgm", Area::Driver),
    ("dcgm", Area::Driver),
    ("nv-hostengine", Area::Driver),
    ("opensm", Area::NetworkLink),
    ("openibd", Area::Driver),
    ("rdma-load-modules", Area::Driver),
    ("habanalabs", Area::Driver),
    ("habana", Area::Driver),
    ("amd-metrics-exporter", Area::Driver),
    ("slurmd", Area::Node),
    ("slurmctld", Area::Node),
    ("munge", Area::Node),
    ("kubelet", Area::Node),
    ("containerd", Area::Node),
    ("docker", Area::Node),
];

pub(super) fn scan(text: &Text, found: &mut Found) {
    if !text.holds(&["Active: "]) {
        return;
    }
    let mut health = Health::default();
    text.walk(|i| {
        let (unit, area) = unit(text.line(i))?;
        let (at, state) = (i + 1..text.len().min(i + STATUS_LINES)).find_map(|k| {
            Some((k, text.line(k).trim_start_matches(['>', '|', ' ', '\t']).strip_prefix("Active:")?.trim()))
        })?;
        let word = state.split([' ', '(']).next().unwrap_or_default();
        let is_manager = unit.starts_with("nvidia-fabricmanager");
        let state = state.split(" since ").next().unwrap_or(state).split(';').next().unwrap_or(state).trim();
        let grade = match word {
            "active" | "reloading" => None,
            // what its machine needs of it is judged with the machine
            _ if is_manager => return Some(at + 1),
            "failed" => Some(Grade::Fault),
            "activating" if state.contains("auto-restart") => Some(Grade::Fault),
            "activating" => Some(Grade::Note),
            // a unit that nobody enabled does not run
            "inactive" if is_off(text, i, at) => Some(Grade::Note),
            "inactive" | "deactivating" => Some(Grade::Suspect),
            _ => return None,
        };
        let why = grade.and_then(|_| reason(text, at));
        let value = why.map_or_else(|| state.to_owned(), |why| format!("{state}: {why}"));
        health.judge(area, grade, Some(unit), "the service is", &value, at);
        health.used(i);
        Some(at + 1)
    });
    health.push(text, TOOL, found);
}

/// `● slurmd.service - Slurm node daemon`: the unit, if it is one of these.
fn unit(line: &str) -> Option<(&str, Area)> {
    let line = line.trim_start_matches(['>', '|', ' ', '\t']);
    let name = line.strip_prefix(['●', '○', '×', '*']).map(str::trim_start).or_else(|| {
        // a page may have lost the mark
        line.split_once(".service - ").map(|_| line)
    })?;
    let (unit, rest) = name.split_once(".service")?;
    let (start, area) = UNITS.iter().find(|(start, _)| unit.starts_with(start))?;
    // `docker-compose@x` is another one
    let is_it = unit.len() == start.len() || unit.get(start.len()..)?.starts_with(['@', 'd', '-', '_']);
    (is_it && !unit.contains(' ') && (rest.is_empty() || rest.starts_with(" - "))).then_some((unit, *area))
}

/// Whether a unit is not enabled.
fn is_off(text: &Text, unit: usize, state: usize) -> bool {
    let loaded = (unit + 1..state).map(|i| text.line(i)).find(|line| line.contains("Loaded:"));
    loaded.is_some_and(|line| line.contains("; disabled") || line.contains("masked"))
}

/// The status of its process, or the last line of its log that names an error.
fn reason(text: &Text, state: usize) -> Option<String> {
    const LINES: usize = 24;
    let rest = || {
        (state + 1..text.len().min(state + LINES)).map(|i| text.line(i).trim()).take_while(|line| unit(line).is_none())
    };
    let error = rest().filter(|line| ["rror", "fatal", "ailed"].iter().any(|word| line.contains(word)));
    let own = error.filter(|line| !line.contains("systemd[") && line.contains("]: ")).last();
    let process = || rest().find_map(|line| line.strip_prefix("Process:").or_else(|| line.strip_prefix("Main PID:")));
    own.and_then(|line| line.split_once("]: ")).map(|(_, why)| why.to_owned()).or_else(|| {
        let (_, status) = process()?.split_once("status=")?;
        Some(format!("status {}", status.trim_end_matches(')')))
    })
}

#[cfg(test)]
mod tests {
    use super::super::testing::{health, scanned};
    use super::*;

    fn status(unit: &str, enabled: &str, active: &str, log: &str) -> String {
        format!(
            "● {unit}.service - A daemon\n     Loaded: loaded (/usr/lib/systemd/system/{unit}.service; {enabled}; preset: enabled)\n     \
             Active: {active} since Mon 2026-01-05 10:00:00 UTC; 13min ago\n   Main PID: 7 (x)\n\n{log}"
        )
    }

    #[test]
    fn services_that_run_are_sound() {
        for unit in ["slurmd", "nvidia-fabricmanager", "kubelet", "opensmd", "nvidia-dcgm"] {
            let report = health(scan, &status(unit, "enabled", "active (running)", ""));
            assert_eq!((report.sound, report.troubles.len()), (1, 0), "{unit}");
        }
    }

    #[test]
    fn services_that_failed_name_their_reason() {
        let log = "Jan 05 10:00:00 n1 slurmd[7]: error: no cgroup plugin\nJan 05 10:00:00 n1 systemd[1]: slurmd.service: Failed with result 'exit-code'.\n";
        let report = health(scan, &status("slurmd", "enabled", "failed (Result: exit-code)", log));
        let one = &report.troubles[0];
        assert_eq!((one.grade, one.part.as_deref()), (Grade::Fault, Some("slurmd")));
        assert_eq!(one.value, "failed (Result: exit-code): error: no cgroup plugin");
        let grade =
            |enabled, active| health(scan, &status("nvidia-persistenced", enabled, active, "")).troubles[0].grade;
        assert_eq!(grade("enabled", "inactive (dead)"), Grade::Suspect);
        assert_eq!(grade("disabled", "inactive (dead)"), Grade::Note);
        assert_eq!(grade("enabled", "activating (auto-restart) (Result: exit-code)"), Grade::Fault);
    }

    #[test]
    fn other_units_and_words_are_none() {
        for text in [
            status("bluetooth", "enabled", "failed", ""),
            status("dockerfoo", "enabled", "failed", ""),
            status("nvidia-fabricmanager", "enabled", "failed (Result: exit-code)", ""),
            "slurmd.service is the unit\nActive: no\n".to_owned(),
        ] {
            assert_eq!(scanned(scan, &text), Found::default(), "{text}");
        }
    }
}
