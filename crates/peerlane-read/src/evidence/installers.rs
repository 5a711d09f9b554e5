//! What `apt`, `dpkg` and `nvidia-installer` log of a GPU's driver: packages that they remove without others in their place, modules that were
//! built, and drivers that were installed.

use std::collections::{BTreeMap, BTreeSet};

use super::health::Health;
use super::{Fact, Found, Text};
use peerlane_machine::fact::{Area, Message};

const TOOL: &str = "installer's log";

/// The most of a line that is kept, in characters.
const QUOTE: usize = 120;

/// Packages without which programs do not find the driver, or draw without it, up to the number of their release.
const NEEDED: [&str; 5] = ["nvidia-driver-", "libnvidia-gl-", "libnvidia-compute-", "nvidia-dkms-", "amdgpu-dkms"];

pub(super) fn scan(text: &Text, found: &mut Found) {
    if !text.holds(&[
        "Removing nvidia-",
        "Removing libnvidia-",
        "Removing amdgpu-",
        "DKMS: install completed",
        "is now complete.",
    ]) {
        return;
    }
    let mut health = Health::default();
    let mut removed: BTreeMap<&str, (&str, usize)> = BTreeMap::new();
    let (mut there, mut is_kept) = (BTreeSet::new(), false);
    for (i, line) in text.iter() {
        let package = |verb: &str| line.trim().strip_prefix(verb)?.strip_suffix(" ...")?.split(' ').next();
        let needed = |name: &str| NEEDED.into_iter().find(|start| name.starts_with(start) && !name.ends_with(":i386"));
        if let Some(name) = package("Removing ") {
            if let Some(start) = needed(name) {
                removed.insert(start, (name, i));
                there.remove(start);
            }
        } else if let Some(name) = package("Setting up ").or_else(|| package("Unpacking ")) {
            there.extend(needed(name));
            is_kept |= name.starts_with("libnvidia-") || name.starts_with("nvidia-") || name.starts_with("amdgpu-");
        } else if line.trim() == "DKMS: install completed."
            || line.contains("-> Installation of the ") && line.contains("is now complete.")
        {
            health.sound(Area::Driver, i);
        }
    }
    // where all of it goes, it is meant to
    let id = if is_kept { "driver-packages-removed" } else { "driver-packages-purged" };
    for (start, (name, line)) in removed {
        if !there.contains(start) {
            let (parts, quote) =
                (vec![("package", name.to_owned())], text.line(line).trim().chars().take(QUOTE).collect());
            let message = Message { id, parts, quote, host: None, count: 1 };
            found.push(text, TOOL, text.numbers(line, line), Fact::Message(message));
        }
    }
    health.push(text, TOOL, found);
}

#[cfg(test)]
mod tests {
    use super::super::testing::{health, scanned};
    use super::*;

    #[test]
    fn packages_that_go() {
        let removed = "Removing nvidia-driver-455 (455.23) ...\nRemoving libnvidia-gl-455:amd64 (455.23) ...\n";
        let ids = |more: &str| {
            let id = |fact| if let Fact::Message(message) = fact { Some(message.id) } else { None };
            let found = scanned(scan, &format!("{removed}{more}")).evidence;
            found.into_iter().filter_map(|e| id(e.fact)).collect::<Vec<_>>()
        };
        assert_eq!(ids(""), ["driver-packages-purged"; 2]);
        let other =
            "Setting up libnvidia-gl-450:i386 (450.80) ...\nSetting up libnvidia-compute-455:amd64 (455.45) ...\n";
        assert_eq!(ids(other), ["driver-packages-removed"; 2]);
        let next = "Setting up libnvidia-gl-460:amd64 (460.1) ...\nSetting up nvidia-driver-460 (460.1) ...\n";
        assert_eq!(ids(next), [""; 0]);
    }

    #[test]
    fn what_was_installed() {
        let installer = "-> Installation of the NVIDIA Accelerated Graphics Driver for Linux-x86_64 (version: 525.1) is now complete.\n";
        assert_eq!(health(scan, installer).sound, 1);
        assert_eq!(health(scan, "DKMS: install completed.\n").sound, 1);
        assert_eq!(scanned(scan, "Removing nvidia-driver-455 would be wrong\n"), Found::default());
    }
}
