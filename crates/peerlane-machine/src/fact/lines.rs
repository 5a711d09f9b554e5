//! What lines and tables state that name no device of the tree, or only its software.

/// Lines that `grep` cut out of `lspci -vvv`, without the devices that they are of.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PcieLines {
    /// Links whose state is shown (`LnkSta:`).
    pub links: u32,
    /// Those with fewer lanes than the device is capable of.
    pub narrower: u32,
    /// Those that run at a lower generation than the device is capable of, as idle links do.
    pub slower: u32,
    /// Maximum payloads in use, in bytes.
    pub payloads: Vec<u16>,
}

/// An entry of the GID table of an RDMA port.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Gid {
    /// The adapter: `mlx5_0`.
    pub device: String,
    /// The port's number.
    pub port: u8,
    /// The index, which `NCCL_IB_GID_INDEX` chooses.
    pub index: u32,
    /// The GID: eight groups of four hexadecimal digits.
    pub gid: String,
    /// The IPv4 address that it maps.
    pub ipv4: Option<String>,
    /// The version of RoCE.
    pub version: Option<u8>,
    /// The network interface.
    pub interface: Option<String>,
}

impl Gid {
    /// Whether it is a link-local address (`fe80::/10`), which routers do not pass on.
    pub fn is_link_local(&self) -> bool {
        self.gid.to_ascii_lowercase().starts_with("fe8")
    }
}
