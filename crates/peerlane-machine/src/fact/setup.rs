//! What programs report of a host, a container or a job that is set up wrongly.

/// Why a program failed, where its message shows that.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SetupFailureKind {
    /// The NVIDIA driver is not loaded, or does not respond.
    NoDriver,
    /// The driver's libraries are of another release than its kernel module.
    DriverMismatch,
    /// The driver is too old for the CUDA runtime.
    DriverTooOld,
    /// NVML fails with an unknown error: a container lost access to the GPUs' device files.
    DeviceFiles,
    /// CUDA error 802: the GPUs of an NVSwitch system are not registered with the fabric manager.
    FabricManager,
    /// Memory for fabric handles is not permitted: no access to an IMEX channel.
    ImexChannel,
    /// Too little shared memory (`/dev/shm`).
    SharedMemory,
    /// Shared memory was removed while it was in use.
    SharedMemoryRemoved,
    /// Several ranks use one GPU.
    SharedGpu,
    /// The ranks of one job run different releases of NCCL.
    NcclMismatch,
    /// No network interface fits.
    NoInterface,
    /// A TCP connection to another rank fails.
    Connect,
    /// A system call of NCCL fails; the message does not state which.
    SystemCall,
    /// An RDMA device exists and cannot be opened.
    OpenDevice,
    /// A port of an RDMA adapter went down during the job.
    PortDown,
    /// An adapter cannot register GPU memory.
    PeerMemory,
}

/// A failure that a program reports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SetupFailure {
    /// Why.
    pub kind: SetupFailureKind,
    /// What the message names: an adapter's port, an address.
    pub subject: Option<String>,
    /// The first such message.
    pub message: String,
    /// How many there are.
    pub count: u32,
}
