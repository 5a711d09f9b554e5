//! `lscpu`: what is read of it.

use std::fmt::Write;

use super::nvidia_smi::CPUS;
use super::site::Site;

/// The CPUs of all sockets.
pub(super) fn lscpu(site: &Site) -> String {
    let mut text = format!(
        "Architecture:             x86_64\n  CPU op-mode(s):         32-bit, 64-bit\nCPU(s):                   {cpus}\n\
         \x20 On-line CPU(s) list:    0-{last}\nVendor ID:                GenuineIntel\n  Model name:             {model}\n\
         \x20   Thread(s) per core:   1\n    Core(s) per socket:   {CPUS}\n    Socket(s):            {sockets}\nNUMA:\n\
         \x20 NUMA node(s):           {sockets}\n",
        cpus = site.sockets * CPUS,
        last = site.sockets * CPUS - 1,
        model = site.cpu,
        sockets = site.sockets,
    );
    for node in 0..site.sockets {
        // String takes all that is written
        let _ = writeln!(text, "  NUMA node{node} CPU(s):      {}-{}", node * CPUS, (node + 1) * CPUS - 1);
    }
    text
}
