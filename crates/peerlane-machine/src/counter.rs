//! Counters of errors that devices and their links keep.

use std::fmt;

use crate::schema::JsonSchema;
use serde::{Deserialize, Serialize};

/// What a counter counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ErrorCounter {
    /// Packets that an NVLink sent again (NVML, `DL_REPLAY`).
    NvlinkReplay,
    /// Times that an NVLink retrained (NVML, `DL_RECOVERY`).
    NvlinkRecovery,
    /// Flow control digits that arrived with a wrong checksum (NVML, `DL_CRC_FLIT`).
    NvlinkCrc,
    /// PCIe packets that were sent again (NVML).
    PcieReplay,
    /// Correctable PCIe errors (AER: `aer_dev_correctable` in sysfs).
    AerCorrectable,
    /// Uncorrectable PCIe errors that leave the link usable (AER: `aer_dev_nonfatal`).
    AerNonfatal,
    /// Uncorrectable PCIe errors after which the link is reset (AER: `aer_dev_fatal`).
    AerFatal,
    /// Single-bit errors of GPU memory, which ECC corrected.
    EccCorrected,
    /// Double-bit errors of GPU memory.
    EccUncorrected,
    /// Symbols that an InfiniBand or RoCE port could not decode (`symbol_error`).
    PortSymbol,
    /// Times that the port's link retrained (`link_error_recovery`).
    PortRecovery,
    /// Times that the port's link went down (`link_downed`).
    PortDowned,
    /// Packets that arrived at the port with an error (`port_rcv_errors`).
    PortReceive,
    /// Times that local physical errors exceeded the port's threshold (`local_link_integrity_errors`).
    PortIntegrity,
    /// Packets that an EFA port sent again (`retrans_pkts`).
    PortRetransmission,
    /// Packets that a port did not send, since it was congested or down (`port_xmit_discards`).
    PortDiscard,
    /// Packets that arrived out of order: one before them was lost on its way to the port (mlx5 `out_of_sequence`, rxe
    /// `out_of_seq_request`).
    PortOutOfSequence,
    /// Answers of receivers that lack a packet which this port sent (mlx5 `packet_seq_err`, rxe `rcvd_seq_err`).
    PortSequenceNak,
    /// Packets of which this port heard nothing in time, so that it sent them again (mlx5 `local_ack_timeout_err`).
    PortAckTimeout,
}

impl ErrorCounter {
    /// All of them.
    pub const ALL: [ErrorCounter; 19] = [
        Self::NvlinkReplay,
        Self::NvlinkRecovery,
        Self::NvlinkCrc,
        Self::PcieReplay,
        Self::AerCorrectable,
        Self::AerNonfatal,
        Self::AerFatal,
        Self::EccCorrected,
        Self::EccUncorrected,
        Self::PortSymbol,
        Self::PortRecovery,
        Self::PortDowned,
        Self::PortReceive,
        Self::PortIntegrity,
        Self::PortRetransmission,
        Self::PortDiscard,
        Self::PortOutOfSequence,
        Self::PortSequenceNak,
        Self::PortAckTimeout,
    ];

    /// As records and system files write it.
    pub fn name(self) -> &'static str {
        match self {
            Self::NvlinkReplay => "nvlink-replay",
            Self::NvlinkRecovery => "nvlink-recovery",
            Self::NvlinkCrc => "nvlink-crc",
            Self::PcieReplay => "pcie-replay",
            Self::AerCorrectable => "aer-correctable",
            Self::AerNonfatal => "aer-nonfatal",
            Self::AerFatal => "aer-fatal",
            Self::EccCorrected => "ecc-corrected",
            Self::EccUncorrected => "ecc-uncorrected",
            Self::PortSymbol => "port-symbol",
            Self::PortRecovery => "port-recovery",
            Self::PortDowned => "port-downed",
            Self::PortReceive => "port-receive",
            Self::PortIntegrity => "port-integrity",
            Self::PortRetransmission => "port-retransmission",
            Self::PortDiscard => "port-discard",
            Self::PortOutOfSequence => "port-out-of-sequence",
            Self::PortSequenceNak => "port-sequence-nak",
            Self::PortAckTimeout => "port-ack-timeout",
        }
    }

    /// The counter of that name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|counter| counter.name() == name)
    }

    /// Whether it is one of an NVLink.
    pub fn is_nvlink(self) -> bool {
        matches!(self, Self::NvlinkReplay | Self::NvlinkRecovery | Self::NvlinkCrc)
    }

    /// Whether it is one of a port of an RDMA adapter.
    pub fn is_port(self) -> bool {
        self >= Self::PortSymbol
    }
}

impl fmt::Display for ErrorCounter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_records() {
        for counter in ErrorCounter::ALL {
            assert_eq!(serde_json::to_value(counter).unwrap(), counter.name());
            assert_eq!(ErrorCounter::from_name(counter.name()), Some(counter));
        }
        assert!(ErrorCounter::ALL.is_sorted(), "every counter once");
        assert_eq!(ErrorCounter::from_name("nvlink"), None);
    }
}
