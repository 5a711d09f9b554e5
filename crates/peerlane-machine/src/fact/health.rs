//! What tools report of the health of parts: states, counters of errors, results of tests.

/// What a report is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Area {
    /// Errors and widths of PCIe links.
    Pcie,
    /// Drivers of devices.
    Driver,
    /// The physical link of a network port: its state, its module, errors of its lanes.
    NetworkLink,
    /// What a network port dropped or was asked to hold back.
    Congestion,
    /// GPUs: what a diagnosis found, and errors of their memory.
    Gpu,
    /// Hosts that share memory of GPUs over NVLink.
    Domain,
    /// What communication libraries can use: no state either.
    Transport,
    /// How a slot is wired, and how a port is set: no state, so that nothing is judged by it.
    Setting,
    /// Why a scheduler holds a node back.
    Node,
    /// Whether the pods of a cluster run.
    Pod,
    /// A test program's own results.
    Test,
    /// The state of a job's collectives.
    Job,
    /// What a program says of its own work: requests, steps.
    Program,
    /// How much of a job's communication its computing hides.
    Overlap,
}

/// How bad something is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Grade {
    /// Good to know, and usual on sound machines.
    Note,
    /// A setting or a part costs something.
    Limit,
    /// It may be old, or harmless, or a fault.
    Suspect,
    /// Something does not work.
    Fault,
}

/// What is not as it should be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trouble {
    /// The part, by its name or address: `mlx5_0/1`, `GPU3`; `None` where the source does not name it.
    pub part: Option<String>,
    /// The state, counter or test, by the tool's name.
    pub what: String,
    /// Its value as printed, with its unit.
    pub value: String,
    /// How bad it is.
    pub grade: Grade,
}

/// What one tool reports of one area.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HealthReport {
    /// What it is about.
    pub area: Area,
    /// How many states, counters and results are as they should be.
    pub sound: u32,
    /// The others.
    pub troubles: Vec<Trouble>,
}
