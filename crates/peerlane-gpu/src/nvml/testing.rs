//! An NVML of three GPUs for tests: the first two joined by NVLink, the third fallen off the bus.

use std::ffi::{CStr, c_char, c_int, c_uint, c_ulong, c_ulonglong};

use crate::bindings::nvml::*;
use crate::library::Table;

const OK: nvmlReturn_t = nvmlReturn_t::NVML_SUCCESS;
const NOT_SUPPORTED: nvmlReturn_t = nvmlReturn_t::NVML_ERROR_NOT_SUPPORTED;

/// The fake's functions.
pub(crate) struct Fake;

/// A library whose initialisation fails with that error.
pub(crate) fn refusing(code: nvmlReturn_t) -> Nvml {
    macro_rules! init {
        ($($code:ident),*) => {$(
            if code == nvmlReturn_t::$code {
                extern "C" fn init() -> nvmlReturn_t {
                    nvmlReturn_t::$code
                }
                return Nvml { nvmlInit_v2: Some(init), ..Nvml::NONE };
            }
        )*};
    }
    init!(
        NVML_ERROR_LIB_RM_VERSION_MISMATCH,
        NVML_ERROR_DRIVER_NOT_LOADED,
        NVML_ERROR_NO_PERMISSION,
        NVML_ERROR_UNKNOWN
    );
    unreachable!("no such fake")
}

/// A handle is its GPU's number plus one.
fn index(device: nvmlDevice_t) -> u32 {
    device as usize as u32 - 1
}

unsafe fn put<T>(place: *mut T, value: T) -> nvmlReturn_t {
    // SAFETY: the callers under test pass places of this type
    unsafe { place.write(value) };
    OK
}

unsafe fn put_text(place: *mut c_char, length: c_uint, text: &str) -> nvmlReturn_t {
    assert!(text.len() < length as usize);
    for (i, byte) in text.bytes().chain([0]).enumerate() {
        // SAFETY: it fits.
        unsafe { place.wrapping_add(i).write(byte as c_char) };
    }
    OK
}

impl Fake {
    #[allow(clippy::too_many_lines, reason = "a list of functions, each of a line or two")]
    pub(crate) fn table() -> Nvml {
        macro_rules! fake {
            (|$($name:ident: $type:ty),*| $body:expr) => {{
                unsafe extern "C" fn call($($name: $type),*) -> nvmlReturn_t {
                    // SAFETY: as for `put`
                    #[allow(unused_unsafe)]
                    unsafe { $body }
                }
                Some(call)
            }};
        }
        extern "C" fn fine() -> nvmlReturn_t {
            OK
        }
        extern "C" fn words(code: nvmlReturn_t) -> *const c_char {
            let text: &CStr = match code {
                nvmlReturn_t::NVML_ERROR_GPU_IS_LOST => c"GPU is lost",
                NOT_SUPPORTED => c"Not Supported",
                _ => c"Some Error",
            };
            text.as_ptr()
        }
        Nvml {
            nvmlInit_v2: Some(fine),
            nvmlShutdown: Some(fine),
            nvmlErrorString: Some(words),
            nvmlSystemGetDriverVersion: fake!(|text: *mut c_char, n: c_uint| put_text(text, n, "580.1")),
            nvmlSystemGetCudaDriverVersion_v2: fake!(|version: *mut c_int| put(version, 13_000)),
            nvmlDeviceGetCount_v2: fake!(|count: *mut c_uint| put(count, 3)),
            nvmlDeviceGetHandleByIndex_v2: fake!(|i: c_uint, device: *mut nvmlDevice_t| {
                if i == 2 {
                    return nvmlReturn_t::NVML_ERROR_GPU_IS_LOST;
                }
                put(device, (i as usize + 1) as nvmlDevice_t)
            }),
            nvmlDeviceGetHandleByPciBusId_v2: fake!(|bus_id: *const c_char, device: *mut nvmlDevice_t| {
                match CStr::from_ptr(bus_id).to_bytes() {
                    b"0000:01:00.0" => put(device, 1 as nvmlDevice_t),
                    b"0000:02:00.0" => put(device, 2 as nvmlDevice_t),
                    _ => nvmlReturn_t::NVML_ERROR_NOT_FOUND,
                }
            }),
            nvmlDeviceGetName: fake!(|_d: nvmlDevice_t, text: *mut c_char, n: c_uint| put_text(text, n, "NVIDIA H100")),
            nvmlDeviceGetUUID: fake!(|_d: nvmlDevice_t, text: *mut c_char, n: c_uint| put_text(text, n, "GPU-1")),
            nvmlDeviceGetArchitecture: fake!(|_d: nvmlDevice_t, arch: *mut c_uint| put(arch, NVML_DEVICE_ARCH_HOPPER)),
            nvmlDeviceGetCudaComputeCapability: fake!(|_d: nvmlDevice_t, major: *mut c_int, minor: *mut c_int| {
                put(major, 9);
                put(minor, 0)
            }),
            nvmlDeviceGetPciInfo_v3: fake!(|d: nvmlDevice_t, pci: *mut nvmlPciInfo_t| {
                put(pci, nvmlPciInfo_t { bus: index(d) + 1, ..nvmlPciInfo_t::default() })
            }),
            nvmlDeviceGetCurrPcieLinkGeneration: fake!(|_d: nvmlDevice_t, n: *mut c_uint| put(n, 1)),
            nvmlDeviceGetCurrPcieLinkWidth: fake!(|_d: nvmlDevice_t, n: *mut c_uint| put(n, 8)),
            nvmlDeviceGetMaxPcieLinkGeneration: fake!(|_d: nvmlDevice_t, n: *mut c_uint| put(n, 4)),
            nvmlDeviceGetMaxPcieLinkWidth: fake!(|_d: nvmlDevice_t, n: *mut c_uint| put(n, 16)),
            nvmlDeviceGetGpuMaxPcieLinkGeneration: fake!(|_d: nvmlDevice_t, n: *mut c_uint| put(n, 5)),
            nvmlDeviceGetPcieReplayCounter: fake!(|_d: nvmlDevice_t, n: *mut c_uint| put(n, 7)),
            nvmlDeviceGetMemoryInfo: fake!(|_d: nvmlDevice_t, memory: *mut nvmlMemory_t| {
                put(memory, nvmlMemory_t { total: 80 << 30, free: 79 << 30, used: 1 << 30 })
            }),
            nvmlDeviceGetMemoryInfo_v2: fake!(|_d: nvmlDevice_t, memory: *mut nvmlMemory_v2_t| {
                assert_eq!((*memory).version, 0x0200_0028);
                put(memory, nvmlMemory_v2_t { total: 80 << 30, used: 1 << 20, ..nvmlMemory_v2_t::default() })
            }),
            nvmlDeviceGetTemperature: fake!(|_d: nvmlDevice_t, _s: nvmlTemperatureSensors_t, n: *mut c_uint| put(
                n, 41
            )),
            nvmlDeviceGetPowerUsage: fake!(|_d: nvmlDevice_t, n: *mut c_uint| put(n, 70_500)),
            nvmlDeviceGetClockInfo: fake!(|_d: nvmlDevice_t, kind: nvmlClockType_t, n: *mut c_uint| {
                put(n, if kind == nvmlClockType_t::NVML_CLOCK_SM { 1980 } else { 2619 })
            }),
            nvmlDeviceGetCurrentClocksEventReasons: fake!(|_d: nvmlDevice_t, mask: *mut c_ulonglong| put(mask, 1)),
            nvmlDeviceGetCurrentClocksThrottleReasons: fake!(|_d: nvmlDevice_t, mask: *mut c_ulonglong| put(mask, 4)),
            nvmlDeviceGetUtilizationRates: fake!(|d: nvmlDevice_t, rates: *mut nvmlUtilization_t| {
                put(rates, nvmlUtilization_t { gpu: index(d) * 87, memory: 3 })
            }),
            // the first GPU has this very process, the second 40 others
            nvmlDeviceGetComputeRunningProcesses_v3: fake!(
                |d: nvmlDevice_t, count: *mut c_uint, list: *mut nvmlProcessInfo_t| {
                    let room = *count;
                    let all = if index(d) == 0 { 1 } else { 40 };
                    put(count, all);
                    if room < all {
                        return nvmlReturn_t::NVML_ERROR_INSUFFICIENT_SIZE;
                    }
                    for i in 0..all {
                        let pid = if index(d) == 0 { std::process::id() } else { 1000 + i };
                        let memory = if i == 0 { 1 << 20 } else { u64::MAX };
                        list.add(i as usize).write(nvmlProcessInfo_t {
                            pid,
                            usedGpuMemory: memory,
                            ..nvmlProcessInfo_t::default()
                        });
                    }
                    OK
                }
            ),
            nvmlDeviceGetMigMode: fake!(|_d: nvmlDevice_t, current: *mut c_uint, pending: *mut c_uint| {
                put(current, 0);
                put(pending, 1)
            }),
            nvmlDeviceGetCpuAffinity: fake!(|_d: nvmlDevice_t, n: c_uint, mask: *mut c_ulong| {
                assert!(n > 1);
                put(mask, 0xff)
            }),
            nvmlDeviceGetGpuFabricInfo: fake!(|_d: nvmlDevice_t, info: *mut nvmlGpuFabricInfo_t| {
                put(info, nvmlGpuFabricInfo_t { state: 3, cliqueId: 2, ..nvmlGpuFabricInfo_t::default() })
            }),
            nvmlDeviceGetNvLinkState: fake!(|_d: nvmlDevice_t, link: c_uint, state: *mut nvmlEnableState_t| {
                match link {
                    0 | 1 => put(state, nvmlEnableState_t::NVML_FEATURE_ENABLED),
                    2 => put(state, nvmlEnableState_t::NVML_FEATURE_DISABLED),
                    _ => nvmlReturn_t::NVML_ERROR_INVALID_ARGUMENT,
                }
            }),
            nvmlDeviceGetNvLinkRemotePciInfo_v2: fake!(|d: nvmlDevice_t, _l: c_uint, pci: *mut nvmlPciInfo_t| {
                let mut info = nvmlPciInfo_t::default();
                put_text(info.busId.as_mut_ptr(), 32, &format!("00000000:{:02X}:00.0", 2 - index(d)));
                put(pci, info)
            }),
            nvmlDeviceGetNvLinkRemoteDeviceType: fake!(
                |_d: nvmlDevice_t, _l: c_uint, kind: *mut nvmlIntNvLinkDeviceType_t| {
                    put(kind, nvmlIntNvLinkDeviceType_t::NVML_NVLINK_DEVICE_TYPE_GPU)
                }
            ),
            nvmlDeviceGetFieldValues: fake!(|_d: nvmlDevice_t, count: c_int, values: *mut nvmlFieldValue_t| {
                for i in 0..count as usize {
                    let value = &mut *values.add(i);
                    if value.fieldId == NVML_FI_DEV_NVLINK_GET_SPEED {
                        value.valueType = nvmlValueType_t::NVML_VALUE_TYPE_UNSIGNED_INT;
                        value.value.uiVal = 26_562;
                    } else {
                        value.nvmlReturn = NOT_SUPPORTED;
                    }
                }
                OK
            }),
            nvmlDeviceGetP2PStatus: fake!(|_a: nvmlDevice_t,
                                           _b: nvmlDevice_t,
                                           what: nvmlGpuP2PCapsIndex_t,
                                           status: *mut nvmlGpuP2PStatus_t| {
                let prop = what == nvmlGpuP2PCapsIndex_t::NVML_P2P_CAPS_INDEX_PROP;
                put(status, nvmlGpuP2PStatus_t(if prop { 5 } else { 0 }))
            }),
            nvmlDeviceGetTopologyCommonAncestor: fake!(
                |_a: nvmlDevice_t, _b: nvmlDevice_t, level: *mut nvmlGpuTopologyLevel_t| {
                    put(level, nvmlGpuTopologyLevel_t::NVML_TOPOLOGY_NODE)
                }
            ),
            ..Nvml::NONE
        }
    }
}
