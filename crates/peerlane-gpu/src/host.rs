//! Host memory of our own choosing: mapped, bound to a NUMA node, and touched.

use std::ffi::c_void;
use std::io;
use std::path::Path;

use crate::system;
use peerlane_machine::fabric::CpuList;
use peerlane_read::input_file::attribute;

/// Pages mapped by this process, and nobody else's.
#[derive(Debug)]
pub struct Mapping {
    start: *mut c_void,
    bytes: usize,
}

// SAFETY: the memory belongs to this value alone.
unsafe impl Send for Mapping {}
// SAFETY: a shared reference gives away its address and size, and its content only by further unsafe code.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Maps memory; its pages are made as they are touched, on the NUMA node if one is given.
    ///
    /// Binding is refused where the kernel has no NUMA support or the container's policy forbids it.
    ///
    /// # Errors
    /// What the system refused.
    pub fn new(bytes: usize, node: Option<u32>) -> io::Result<Self> {
        let start = system::map(bytes)?;
        let mapping = Mapping { start, bytes };
        if let Some(node) = node {
            mapping.bind(node)?;
        }
        Ok(mapping)
    }

    fn bind(&self, node: u32) -> io::Result<()> {
        const BITS: u32 = usize::BITS;
        let mut mask = [0_usize; 16];
        let word = mask.get_mut((node / BITS) as usize).ok_or_else(|| io::Error::other("NUMA node out of range"))?;
        *word |= 1 << (node % BITS);
        // SAFETY: the range is this mapping.
        unsafe { system::bind(self.start, self.bytes, &mask) }
    }

    /// Where it starts.
    #[must_use]
    pub fn start(&self) -> *mut c_void {
        self.start
    }

    /// Its size.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Its content as words.
    pub(crate) fn words(&mut self) -> &mut [u64] {
        // SAFETY: the mapping is readable, writable, page-aligned, initialised with zeros by the kernel, and borrowed
        // for as long as the slice is.
        unsafe { std::slice::from_raw_parts_mut(self.start.cast(), self.bytes / size_of::<u64>()) }
    }
}

impl Mapping {
    /// Its content as floating-point numbers.
    pub(crate) fn doubles(&mut self) -> &mut [f64] {
        // SAFETY: as for words; every bit pattern is a number.
        unsafe { std::slice::from_raw_parts_mut(self.start.cast(), self.bytes / size_of::<f64>()) }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: it was mapped by us with this size, and nothing borrows it any more.
        unsafe { system::unmap(self.start, self.bytes) };
    }
}

/// The NUMA node that a node of host memory is, by its name; `None` for all of the host.
pub(crate) fn node_of(name: &str) -> Option<u32> {
    name.strip_prefix("host").and_then(|number| number.parse().ok())
}

/// Memory that can be had without swapping, in bytes, of a NUMA node or of all; `None` where nothing says. The least of
/// what the kernel, the node and this process's control groups have.
///
/// A virtual machine whose memory grows as it is used says too little at first.
pub(crate) fn available(node: Option<u32>) -> Option<u64> {
    available_under(Path::new("/"), node)
}

fn available_under(root: &Path, node: Option<u32>) -> Option<u64> {
    let read = |path: &str| attribute(root.join(path));
    let machine = read("proc/meminfo").and_then(|text| kib(&text, "MemAvailable:"));
    // a node has no such line, which counts what is free and what of files is kept (the kernel's `proc.rst`)
    let node = node.and_then(|node| {
        let text = read(&format!("sys/devices/system/node/node{node}/meminfo"))?;
        let files = ["Active(file):", "Inactive(file):"].into_iter().filter_map(|field| kib(&text, field));
        Some(kib(&text, "MemFree:")? + files.sum::<u64>())
    });
    let groups = read("proc/self/cgroup").and_then(|text| text.lines().filter_map(|line| group(line, read)).min());
    [machine, node, groups].into_iter().flatten().min()
}

/// A line's number of KiB, in bytes.
fn kib(text: &str, field: &str) -> Option<u64> {
    let line = text.lines().find(|line| line.split_whitespace().any(|word| word == field))?;
    let number: u64 = line.split_whitespace().skip_while(|word| *word != field).nth(1)?.parse().ok()?;
    Some(number << 10)
}

/// What the control groups of a line of `/proc/self/cgroup` leave, from the process's own up to the outermost that can
/// be seen; `None` where none limits memory (the kernel's `cgroup-v2.rst`, and `cgroup-v1/memory.rst`).
fn group(line: &str, read: impl Fn(&str) -> Option<String>) -> Option<u64> {
    let mut parts = line.splitn(3, ':');
    let (_, controllers, path) = (parts.next()?, parts.next()?, parts.next()?);
    let (mount, limit, usage, files) = match controllers {
        "" => ("sys/fs/cgroup", "memory.max", "memory.current", ["active_file", "inactive_file"]),
        _ if controllers.split(',').any(|name| name == "memory") => {
            let files = ["total_active_file", "total_inactive_file"];
            ("sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.usage_in_bytes", files)
        }
        _ => return None,
    };
    let left = |group: &Path| {
        let read = |file: &str| read(&format!("{mount}{}/{file}", group.to_string_lossy().trim_end_matches('/')));
        let number = |file: &str| read(file)?.trim().parse::<u64>().ok();
        // `max` is no number, and no limit
        let (limit, used) = (number(limit)?, number(usage)?);
        let stat = read("memory.stat").unwrap_or_default();
        let words = stat.lines().filter_map(|line| line.split_once(' '));
        let kept = words.filter(|(name, _)| files.contains(name)).filter_map(|(_, value)| value.parse::<u64>().ok());
        Some(limit.saturating_sub(used.saturating_sub(kept.sum())))
    };
    Path::new(path).ancestors().filter_map(left).min()
}

/// The CPUs of a NUMA node, or all, that this process may use; `None` where there is none.
pub(crate) fn cpus(node: Option<u32>) -> Option<Vec<u32>> {
    let own = attribute("/proc/self/status")?;
    let own = own.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"))?.trim().parse::<CpuList>().ok()?;
    let mut cpus: Vec<u32> = own.ranges().iter().flat_map(|(first, last)| *first..=*last).collect();
    if let Some(node) = node {
        let listed = attribute(format!("/sys/devices/system/node/node{node}/cpulist"))?;
        let listed: CpuList = listed.parse().ok()?;
        cpus.retain(|cpu| listed.contains(*cpu));
    }
    (!cpus.is_empty()).then_some(cpus)
}

/// One CPU of each core, the first of those that are given: others of a core share its load and store units.
pub(crate) fn one_a_core(cpus: &[u32]) -> Vec<u32> {
    let listed = |cpu: u32| {
        let file = format!("/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list");
        attribute(file)?.parse::<CpuList>().ok()
    };
    first_siblings(cpus, listed)
}

/// CPUs without those that have a sibling before them. Where nothing is known of a CPU, it is a core.
fn first_siblings(cpus: &[u32], siblings: impl Fn(u32) -> Option<CpuList>) -> Vec<u32> {
    let mut first: Vec<u32> = Vec::new();
    for &cpu in cpus {
        let shared = siblings(cpu).is_some_and(|list| first.iter().any(|before| list.contains(*before)));
        if !shared {
            first.push(cpu);
        }
    }
    first
}

/// At most so many of them, spread evenly.
pub(crate) fn spread(cpus: &[u32], most: usize) -> Vec<u32> {
    let n = cpus.len().min(most);
    (0..n).filter_map(|i| cpus.get(i * cpus.len() / n).copied()).collect()
}

/// Keeps this thread on one CPU, where that is allowed; where it is not, it runs where it likes.
pub(crate) fn pin_to(cpu: u32) {
    const WORDS: usize = 128;
    let mut mask = [0_u64; WORDS];
    if let Some(word) = mask.get_mut(cpu as usize / 64) {
        *word |= 1 << (cpu % 64);
        system::keep_on(&mask);
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn siblings_are_left_out_however_they_are_numbered() {
        // the second threads follow the first ones' numbers, as Linux does it mostly; or each follows its sibling
        let halves = |cpu: u32| format!("{},{}", cpu % 64, cpu % 64 + 64).parse().ok();
        let pairs = |cpu: u32| format!("{}-{}", cpu / 2 * 2, cpu / 2 * 2 + 1).parse().ok();
        let all: Vec<u32> = (0..128).collect();
        assert_eq!(first_siblings(&all, halves), (0..64).collect::<Vec<_>>());
        assert_eq!(first_siblings(&all, pairs), (0..128).step_by(2).collect::<Vec<_>>());
        // only the second threads may be used
        assert_eq!(first_siblings(&[64, 70, 71], halves), [64, 70, 71]);
        assert_eq!(first_siblings(&all, |_| None), all);
    }

    /// A file system with these files, for as long as a test needs it.
    fn with_files<T>(name: &str, files: &[(&str, &str)], test: impl FnOnce(&Path) -> T) -> T {
        let root = std::env::temp_dir().join(format!("peerlane-host-{}-{name}", std::process::id()));
        for (file, text) in files {
            let path = root.join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        let outcome = test(&root);
        fs::remove_dir_all(root).unwrap();
        outcome
    }

    #[test]
    fn the_least_of_machine_node_and_groups_is_available() {
        const MACHINE: (&str, &str) = ("proc/meminfo", "MemTotal:  9000 kB\nMemAvailable:    5000 kB\n");
        let node = "Node 1 MemFree:  300 kB\nNode 1 Inactive:  90 kB\nNode 1 Inactive(file):  20 kB\nNode 1 Active(file): 4 kB\n";
        let files = [MACHINE, ("sys/devices/system/node/node1/meminfo", node), ("proc/self/cgroup", "0::/\n")];
        with_files("node", &files, |root| {
            assert_eq!(available_under(root, None), Some(5000 << 10));
            assert_eq!(available_under(root, Some(1)), Some(324 << 10));
            assert_eq!(available_under(root, Some(2)), Some(5000 << 10));
        });
        let files = [
            MACHINE,
            ("proc/self/cgroup", "0::/slurm/job7/step0\n"),
            ("sys/fs/cgroup/slurm/job7/step0/memory.max", "max\n"),
            ("sys/fs/cgroup/slurm/job7/step0/memory.current", "1000\n"),
            ("sys/fs/cgroup/slurm/job7/memory.max", "2000000\n"),
            ("sys/fs/cgroup/slurm/job7/memory.current", "1500000\n"),
            ("sys/fs/cgroup/slurm/job7/memory.stat", "anon 5\ninactive_file 250000\nactive_file 10000\n"),
        ];
        with_files("group", &files, |root| assert_eq!(available_under(root, None), Some(760_000)));
        let files = [
            MACHINE,
            ("proc/self/cgroup", "7:cpu,cpuacct:/docker/1\n5:memory:/docker/1\n"),
            ("sys/fs/cgroup/memory/memory.limit_in_bytes", "4000000\n"),
            ("sys/fs/cgroup/memory/memory.usage_in_bytes", "1000000\n"),
        ];
        with_files("old-group", &files, |root| assert_eq!(available_under(root, None), Some(3_000_000)));
        with_files("nothing", &[("proc/self/cgroup", "0::/\n")], |root| assert_eq!(available_under(root, None), None));
    }

    #[test]
    fn the_spread_reaches_from_end_to_end() {
        let cpus: Vec<u32> = (0..96).collect();
        let spread_out = spread(&cpus, 64);
        assert_eq!((spread_out.len(), spread_out[0], spread_out[63]), (64, 0, 94));
        assert!(spread_out.windows(2).all(|two| two[0] < two[1]));
        assert_eq!(spread(&[3, 5], 64), [3, 5]);
        assert_eq!(spread(&[], 64), [0; 0]);
    }
}
