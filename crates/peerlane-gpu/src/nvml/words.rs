//! NVML's numbers in `nvidia-smi`'s words.

use std::ffi::c_uint;

use peerlane_read::evidence::nvml::{Ancestor, RemoteKind};

use crate::bindings::nvml as ffi;

/// The name of an architecture.
pub(super) fn architecture(number: c_uint) -> Option<&'static str> {
    Some(match number {
        ffi::NVML_DEVICE_ARCH_KEPLER => "Kepler",
        ffi::NVML_DEVICE_ARCH_MAXWELL => "Maxwell",
        ffi::NVML_DEVICE_ARCH_PASCAL => "Pascal",
        ffi::NVML_DEVICE_ARCH_VOLTA => "Volta",
        ffi::NVML_DEVICE_ARCH_TURING => "Turing",
        ffi::NVML_DEVICE_ARCH_AMPERE => "Ampere",
        ffi::NVML_DEVICE_ARCH_ADA => "Ada Lovelace",
        ffi::NVML_DEVICE_ARCH_HOPPER => "Hopper",
        ffi::NVML_DEVICE_ARCH_BLACKWELL => "Blackwell",
        _ => return None,
    })
}

/// Reasons for the clocks being what they are.
pub(super) fn clock_event_reasons(mask: u64) -> Vec<String> {
    let known = [
        (ffi::nvmlClocksEventReasonGpuIdle, "Idle"),
        (ffi::nvmlClocksEventReasonApplicationsClocksSetting, "Applications Clocks Setting"),
        (ffi::nvmlClocksEventReasonSwPowerCap, "SW Power Cap"),
        (ffi::nvmlClocksThrottleReasonHwSlowdown, "HW Slowdown"),
        (ffi::nvmlClocksEventReasonSyncBoost, "Sync Boost"),
        (ffi::nvmlClocksEventReasonSwThermalSlowdown, "SW Thermal Slowdown"),
        (ffi::nvmlClocksThrottleReasonHwThermalSlowdown, "HW Thermal Slowdown"),
        (ffi::nvmlClocksThrottleReasonHwPowerBrakeSlowdown, "HW Power Brake Slowdown"),
        (ffi::nvmlClocksEventReasonDisplayClockSetting, "Display Clock Setting"),
    ];
    let mut left = mask;
    let mut words: Vec<String> = Vec::new();
    for (bit, word) in known {
        if mask & u64::from(bit) != 0 {
            words.push(word.to_owned());
            left &= !u64::from(bit);
        }
    }
    if left != 0 {
        words.push(format!("reason {left:#x}"));
    }
    words
}

/// Who may compute.
pub(super) fn compute_mode(mode: ffi::nvmlComputeMode_t) -> Option<&'static str> {
    Some(match mode {
        ffi::nvmlComputeMode_t::NVML_COMPUTEMODE_DEFAULT => "Default",
        ffi::nvmlComputeMode_t::NVML_COMPUTEMODE_EXCLUSIVE_THREAD => "Exclusive Thread",
        ffi::nvmlComputeMode_t::NVML_COMPUTEMODE_PROHIBITED => "Prohibited",
        ffi::nvmlComputeMode_t::NVML_COMPUTEMODE_EXCLUSIVE_PROCESS => "Exclusive Process",
        _ => return None,
    })
}

/// How a GPU is virtualised.
pub(super) fn virtualization(mode: ffi::nvmlGpuVirtualizationMode_t) -> Option<&'static str> {
    Some(match mode {
        ffi::nvmlGpuVirtualizationMode_t::NVML_GPU_VIRTUALIZATION_MODE_NONE => "None",
        ffi::nvmlGpuVirtualizationMode_t::NVML_GPU_VIRTUALIZATION_MODE_PASSTHROUGH => "Pass-Through",
        ffi::nvmlGpuVirtualizationMode_t::NVML_GPU_VIRTUALIZATION_MODE_VGPU => "VGPU",
        ffi::nvmlGpuVirtualizationMode_t::NVML_GPU_VIRTUALIZATION_MODE_HOST_VGPU => "Host VGPU",
        ffi::nvmlGpuVirtualizationMode_t::NVML_GPU_VIRTUALIZATION_MODE_HOST_VSGA => "Host VSGA",
        _ => return None,
    })
}

/// How far a GPU's registration with the fabric is.
pub(super) fn fabric_state(state: u8) -> String {
    match u32::from(state) {
        ffi::NVML_GPU_FABRIC_STATE_NOT_SUPPORTED => "Not Supported".to_owned(),
        ffi::NVML_GPU_FABRIC_STATE_NOT_STARTED => "Not Started".to_owned(),
        ffi::NVML_GPU_FABRIC_STATE_IN_PROGRESS => "In Progress".to_owned(),
        ffi::NVML_GPU_FABRIC_STATE_COMPLETED => "Completed".to_owned(),
        other => format!("state {other}"),
    }
}

/// The lowest point above two GPUs.
pub(super) fn ancestor(level: ffi::nvmlGpuTopologyLevel_t) -> Option<Ancestor> {
    Some(match level {
        ffi::nvmlGpuTopologyLevel_t::NVML_TOPOLOGY_INTERNAL => Ancestor::Internal,
        ffi::nvmlGpuTopologyLevel_t::NVML_TOPOLOGY_SINGLE => Ancestor::Single,
        ffi::nvmlGpuTopologyLevel_t::NVML_TOPOLOGY_MULTIPLE => Ancestor::Multiple,
        ffi::nvmlGpuTopologyLevel_t::NVML_TOPOLOGY_HOSTBRIDGE => Ancestor::HostBridge,
        ffi::nvmlGpuTopologyLevel_t::NVML_TOPOLOGY_NODE => Ancestor::Node,
        ffi::nvmlGpuTopologyLevel_t::NVML_TOPOLOGY_SYSTEM => Ancestor::System,
        _ => return None,
    })
}

/// What an NVLink leads to.
pub(super) fn remote(kind: ffi::nvmlIntNvLinkDeviceType_t) -> RemoteKind {
    match kind {
        ffi::nvmlIntNvLinkDeviceType_t::NVML_NVLINK_DEVICE_TYPE_GPU => RemoteKind::Gpu,
        ffi::nvmlIntNvLinkDeviceType_t::NVML_NVLINK_DEVICE_TYPE_IBMNPU => RemoteKind::Npu,
        ffi::nvmlIntNvLinkDeviceType_t::NVML_NVLINK_DEVICE_TYPE_SWITCH => RemoteKind::Switch,
        _ => RemoteKind::Unknown,
    }
}

/// The letters of `nvidia-smi topo -p2p`, by NVML's number.
pub(crate) const WORDS_OF_P2P: [&str; 7] = ["OK", "CNS", "GNS", "TNS", "DR", "NS", "U"];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_are_those_of_nvidia_smi_and_none_is_lost() {
        assert_eq!(clock_event_reasons(0), [""; 0]);
        assert_eq!(clock_event_reasons(0x1 | 0x4), ["Idle", "SW Power Cap"]);
        assert_eq!(clock_event_reasons(0x40 | 0x1000), ["HW Thermal Slowdown", "reason 0x1000"]);
    }

    #[test]
    fn letters_follow_the_numbers_of_the_header() {
        let letter = |status: ffi::nvmlGpuP2PStatus_t| WORDS_OF_P2P[status.0 as usize];
        assert_eq!(letter(ffi::nvmlGpuP2PStatus_t::NVML_P2P_STATUS_OK), "OK");
        assert_eq!(letter(ffi::nvmlGpuP2PStatus_t::NVML_P2P_STATUS_CHIPSET_NOT_SUPPORTED), "CNS");
        assert_eq!(letter(ffi::nvmlGpuP2PStatus_t::NVML_P2P_STATUS_IOH_TOPOLOGY_NOT_SUPPORTED), "TNS");
        assert_eq!(letter(ffi::nvmlGpuP2PStatus_t::NVML_P2P_STATUS_DISABLED_BY_REGKEY), "DR");
        assert_eq!(letter(ffi::nvmlGpuP2PStatus_t::NVML_P2P_STATUS_NOT_SUPPORTED), "NS");
        assert_eq!(letter(ffi::nvmlGpuP2PStatus_t::NVML_P2P_STATUS_UNKNOWN), "U");
    }

    #[test]
    fn unknown_numbers_are_no_guess() {
        assert_eq!((architecture(99), ancestor(ffi::nvmlGpuTopologyLevel_t(35))), (None, None));
        assert_eq!(fabric_state(9), "state 9");
        assert_eq!(remote(ffi::nvmlIntNvLinkDeviceType_t(77)), RemoteKind::Unknown);
    }
}
