//! Why predictions are far off where they are, as far as that is known.

use super::cells::Cell;

/// A system, words of what was measured, a class of path, and the reason.
const REASONS: [(&str, &str, &str, &str); 11] = [
    (
        "7gforce",
        "latency, P2P off",
        "",
        "between two GTX 1070 it takes 14.6 to 15.7 us, with the GTX 1080 at one end 12.2 to 15.3 by pair; the constant of \
         the source's GPU stands for both",
    ),
    (
        "7gforce",
        "bandwidth, both ways, summed, P2P off",
        "",
        "through host memory both ways, x1 links carry 0.66 GB/s each way, as they do peer-to-peer through the root \
         complex; the packets of both stages explain 0.77 of the 0.98",
    ),
    (
        "az-2x-m60",
        "latency",
        "",
        "a virtual machine, whose launches and synchronisation take longer than those that the defaults are from",
    ),
    (
        "az-2x-m60",
        "",
        "SYS",
        "the virtual machine prints SOC, but the pair behaves as two GPUs that share a link to the host",
    ),
    (
        "exxact-traditional",
        "bandwidth",
        "SYS",
        "one cell of twelve, whose mirror sums the same two directions and reads 12.17: noise",
    ),
    (
        "exxact-traditional",
        "latency",
        "",
        "the constants of this GPU are from the dev box; launches hang on the host, and the rows here differ among \
         themselves",
    ),
    (
        "exxact-txr430",
        "bandwidth",
        "SYS",
        "structure that the topology does not show: cells agree with their mirrors within 0.4 % in the median, and reach \
         from 8.8 to 17.1 by pair; the interval says so",
    ),
    (
        "exxact-txr550",
        "bandwidth",
        "PHB",
        "pairs of GPU3 and GPU6 read 14.7, all others 16.0; the source does not say why",
    ),
    ("h200x4-vm", "latency", "NV18", "small copies into another GPU take 2.2 or 2.7 us, by pair and by run"),
    ("h200x4-vm", "bandwidth", "", "the first row of a program that does not warm up"),
    ("microway-s822lc", "", "SYS", "one row of four is slower than the others"),
];

/// The reason that is known for a cell, else what binds it.
pub(super) fn reason(system: &str, label: &str, cell: &Cell) -> String {
    let fits = |(s, what, path, _): &&(&str, &str, &str, &str)| {
        *s == system && label.contains(what) && (path.is_empty() || cell.path == *path)
    };
    let known = REASONS.iter().find(fits).map(|(_, _, _, why)| (*why).to_owned());
    known.unwrap_or_else(|| format!("not known; bound by {}", cell.bottleneck))
}
