//! What NVIDIA's fabric manager reports of itself.

/// What the fabric manager reports of itself; errors of NVSwitches that it logs are those of the kernel's log.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FabricManager {
    /// The state of its service: `active (running)`, `failed (Result: exit-code)`, `inactive (dead)`, `not installed`.
    pub service: Option<String>,
}
