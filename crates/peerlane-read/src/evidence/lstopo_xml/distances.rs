//! The distance matrices of hwloc's XML: NVLink and xGMI bandwidths.

use std::collections::HashMap;

use super::{Objects, kind};
use crate::evidence::limits::MAX_PORTS;
use crate::evidence::xml::{Document, Element};
use crate::evidence::{NvlinkEnd, NvlinkPort};
use peerlane_machine::units::Rate;

/// The most objects of a matrix that is read.
const MAX_OBJECTS: usize = 1024;

/// Class code of the NVLink bridges of POWER CPUs, as NCCL writes it.
const POWER_BRIDGE_CLASS: u32 = 0x06_8001;

/// One square matrix.
struct Distances<'a> {
    element: &'a Element,
    /// `0`, or in a matrix of several types `OSDev:332`.
    labels: Vec<String>,
    /// A row after the other.
    values: Vec<u64>,
}

impl Distances<'_> {
    /// The value from one object to another.
    fn value(&self, from: usize, to: usize) -> Option<u64> {
        self.values.get(from * self.labels.len() + to).copied()
    }
}

/// The matrices of that name.
fn matrices<'a>(document: &'a Document, name: &str) -> Vec<Distances<'a>> {
    let mut all = Vec::new();
    for (at, element) in document.children(0) {
        if !matches!(element.name.as_str(), "distances2" | "distances2hetero")
            || element.attribute("name") != Some(name)
        {
            continue;
        }
        let words = |tag: &str| -> Vec<&str> {
            document.children(at).filter(|(_, e)| e.name == tag).flat_map(|(_, e)| e.text.split_whitespace()).collect()
        };
        let labels: Vec<String> = words("indexes").into_iter().take(MAX_OBJECTS).map(str::to_owned).collect();
        let values: Vec<u64> = words("u64values").into_iter().map_while(|v| v.parse().ok()).collect();
        all.push(Distances { element, labels, values });
    }
    all
}

/// NVLink and xGMI links from bandwidth matrices.
pub(super) fn nvlinks(document: &Document, objects: &Objects) -> Vec<NvlinkPort> {
    let mut ports = Vec::new();
    let index = Index::new(document);
    for matrix in matrices(document, "NVLinkBandwidth") {
        let per_link = link_megabytes(&matrix);
        for (from, to, megabytes) in links(&matrix) {
            // where no link's rate fits, the bundle counts as one
            let (count, each) = match per_link {
                Some(each) => (u8::try_from(megabytes / each).unwrap_or(u8::MAX), each),
                None => (1, megabytes),
            };
            let rate = Some(Rate::from_bytes_per_second(each as f64 * 1e6));
            let end = |at| index.object(&matrix, at);
            let port = port(document, objects, end(from), end(to)).filter(|_| ports.len() <= MAX_PORTS);
            ports.extend(port.map(|p| NvlinkPort { count, rate, ..p }));
        }
    }
    let hops = matrices(document, "XGMIHops");
    for matrix in matrices(document, "XGMIBandwidth") {
        for (from, to, _) in links(&matrix) {
            // a pair without a direct link has a bandwidth too; hwloc's figure is one constant for all,
            // so it is no rate
            let direct = hops.first().and_then(|h| h.value(from, to)).is_none_or(|h| h == 1);
            let end = |at| index.object(&matrix, at);
            let port = port(document, objects, end(from), end(to)).filter(|_| direct && ports.len() <= MAX_PORTS);
            ports.extend(port.map(|p| NvlinkPort { xgmi: true, ..p }));
        }
    }
    ports
}

/// How many GPUs xGMI joins where the hops between them do not show which have a direct link: hwloc took over a count
/// that is 1 for every pair that xGMI reaches (hwloc issue 775).
pub(super) fn uncounted_hops(document: &Document) -> Option<usize> {
    let joined = |m: &&Distances<'_>| m.labels.len() > 4 && links(m).count() + m.labels.len() == m.labels.len().pow(2);
    let matrix = matrices(document, "XGMIHops").into_iter().find(|m| joined(&m))?;
    links(&matrix).all(|(_, _, hops)| hops == 1).then_some(matrix.labels.len())
}

/// The pairs with a bandwidth, off the diagonal.
fn links<'a>(matrix: &'a Distances<'_>) -> impl Iterator<Item = (usize, usize, u64)> + 'a {
    let n = matrix.labels.len().max(1);
    let cells = matrix.values.iter().enumerate().take(n.saturating_mul(n));
    cells.map(move |(i, v)| (i / n, i % n, *v)).filter(|(i, j, v)| i != j && *v > 0)
}

/// The rate of one NVLink in MB/s that hwloc counts with: 20000 for NVLink 1 and 25000 from NVLink 2 on.
///
/// A bundle of NVLink 1 has at most four links, so that none is a multiple of 25000.
fn link_megabytes(matrix: &Distances<'_>) -> Option<u64> {
    [25_000, 20_000].into_iter().find(|each| links(matrix).all(|(_, _, v)| v % each == 0 && v / each <= 255))
}

/// Objects by the numbers that labels use.
struct Index<'a> {
    by_gp: HashMap<u64, usize>,
    by_os: HashMap<(&'a str, u64), usize>,
}

impl<'a> Index<'a> {
    fn new(document: &'a Document) -> Self {
        let mut index = Index { by_gp: HashMap::new(), by_os: HashMap::new() };
        for (at, element) in document.iter() {
            let Some(kind) = kind(element) else { continue };
            if let Some(gp) = element.number("gp_index") {
                index.by_gp.insert(gp, at);
            }
            if let Some(os) = element.number("os_index") {
                index.by_os.insert((kind, os), at);
            }
        }
        index
    }

    /// The object that row or column `at` of a matrix stands for.
    fn object(&self, matrix: &Distances<'_>, at: usize) -> Option<usize> {
        let label = matrix.labels.get(at)?;
        let (kind, number) = match label.split_once(':') {
            Some((kind, number)) => (kind, number),
            None => (matrix.element.attribute("type")?, label.as_str()),
        };
        let number: u64 = number.parse().ok()?;
        // matrices of several types use hwloc's own numbers
        if matrix.element.name == "distances2hetero" || matrix.element.attribute("indexing") == Some("gp") {
            return self.by_gp.get(&number).copied();
        }
        self.by_os.get(&(kind, number)).copied()
    }
}

/// The port of a GPU that leads to another object.
fn port(document: &Document, objects: &Objects, from: Option<usize>, to: Option<usize>) -> Option<NvlinkPort> {
    let device = |object| objects.device(document, Some(object)).and_then(|d| objects.tree.devices.get(d));
    let gpu = device(from?).filter(|d| d.is_gpu())?;
    let far = to?;
    let (remote, remote_class) = match (device(far), document.get(far).and_then(kind)) {
        (Some(far), _) => (far.address.map(NvlinkEnd::Device), far.class),
        (None, Some("Package" | "NUMANode" | "Machine")) => (None, Some(POWER_BRIDGE_CLASS)),
        _ => return None,
    };
    Some(NvlinkPort { gpu: gpu.gpu_index, address: gpu.address, remote, remote_class, ..NvlinkPort::default() })
}
