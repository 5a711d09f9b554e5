//! `ibstat`.

use std::fmt::Write;

use super::site::Site;

/// The adapters, each with one port.
pub(super) fn ibstat(site: &Site) -> String {
    let mut text = String::new();
    for (nic, lid) in site.nics.iter().zip(17..) {
        let (state, physical) = match (nic.up, nic.ethernet) {
            (true, _) => ("Active", "LinkUp"),
            (false, true) => ("Down", "Disabled"),
            (false, false) => ("Down", "Polling"),
        };
        let (lid, manager) = if nic.ethernet { (0, 0) } else { (lid, 1) };
        let layer = if nic.ethernet { "Ethernet" } else { "InfiniBand" };
        // String takes all that is written
        let _ = write!(
            text,
            "CA '{}'\n\tCA type: {}\n\tNumber of ports: 1\n\tFirmware version: 28.43.2026\n\tHardware version: 0\n\
             \tPort 1:\n\t\tState: {state}\n\t\tPhysical state: {physical}\n\t\tRate: {}\n\t\tBase lid: {lid}\n\t\tLMC: 0\n\
             \t\tSM lid: {manager}\n\t\tCapability mask: 0xa751e848\n\t\tLink layer: {layer}\n",
            nic.name, nic.kind, nic.rate
        );
    }
    text
}
