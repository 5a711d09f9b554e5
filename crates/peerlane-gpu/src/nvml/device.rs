//! What one GPU is asked.

use std::ffi::{c_int, c_uint, c_ulong};

use peerlane_machine::fabric::{CpuList, PciAddress};
use peerlane_machine::units::Bytes;
use peerlane_read::evidence::nvml::{Ancestor, FabricState, Process, RemoteKind, Share};

use super::{Problem, Room, Session, WORDS_OF_P2P, ask, text_in, words};
use crate::bindings::{nvml as ffi, nvml_struct_version};
use crate::foreign;

/// Words of a mask of CPUs or NUMA nodes; 16 384 fit.
const MASK_WORDS: usize = 256;

/// The most processes that are listed of one GPU.
const MAX_PROCESSES: u32 = 4096;

/// What NVML says where it may not tell how much memory a process holds.
const NOT_AVAILABLE: u64 = u64::MAX;

/// A GPU of a session.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Device<'a> {
    session: &'a Session,
    handle: ffi::nvmlDevice_t,
}

// SAFETY: NVML may be called from several threads at once (its reference manual); a handle is no memory of this process's.
unsafe impl Send for Device<'_> {}
// SAFETY: as for `Send`.
unsafe impl Sync for Device<'_> {}

/// A method that gives the text which a function writes.
macro_rules! texts {
    ($($(#[$about:meta])* $name:ident = $function:ident;)*) => {$(
        $(#[$about])*
        pub(crate) fn $name(self) -> Result<String, Problem> {
            const NAME: &str = stringify!($function);
            let function = self.session.functions.$function.ok_or(Problem::Lacks(NAME))?;
            // SAFETY: the handle is the session's, and `text` gives a buffer of the length that it states.
            self.session.text(NAME, |buffer, length| unsafe { function(self.handle, buffer, length) })
        }
    )*};
}

/// A method that gives the number which a function writes.
macro_rules! numbers {
    ($($(#[$about:meta])* $name:ident = $function:ident($($argument:expr),*) -> $type:ty;)*) => {$(
        $(#[$about])*
        pub(crate) fn $name(self) -> Result<$type, Problem> {
            // SAFETY: the handle is the session's; what else is given is a number that the function may refuse.
            unsafe { ask!(self.session, $function(self.handle, $($argument),*), 0) }
        }
    )*};
}

impl<'a> Device<'a> {
    /// `None` where the handle is null.
    pub(super) fn new(session: &'a Session, handle: ffi::nvmlDevice_t) -> Option<Self> {
        (!handle.is_null()).then_some(Device { session, handle })
    }

    texts! {
        /// Product name.
        name = nvmlDeviceGetName;
        /// UUID.
        uuid = nvmlDeviceGetUUID;
        /// Serial number of the board.
        serial = nvmlDeviceGetSerial;
        /// Version of the video BIOS.
        vbios = nvmlDeviceGetVbiosVersion;
    }

    numbers! {
        /// PCIe generation that its link runs at.
        running_generation = nvmlDeviceGetCurrPcieLinkGeneration() -> u32;
        /// Lanes that its link runs with.
        running_lanes = nvmlDeviceGetCurrPcieLinkWidth() -> u32;
        /// The most that GPU and slot allow.
        allowed_generation = nvmlDeviceGetMaxPcieLinkGeneration() -> u32;
        /// The most lanes that GPU and slot allow.
        allowed_lanes = nvmlDeviceGetMaxPcieLinkWidth() -> u32;
        /// The most that the GPU itself can do.
        capable_generation = nvmlDeviceGetGpuMaxPcieLinkGeneration() -> u32;
        /// PCIe replays since the last reset.
        replays = nvmlDeviceGetPcieReplayCounter() -> u32;
        /// KB/s that it sent over the last 20 ms, which the call takes.
        sent = nvmlDeviceGetPcieThroughput(ffi::nvmlPcieUtilCounter_t::NVML_PCIE_UTIL_TX_BYTES) -> u32;
        /// KB/s that it received over the last 20 ms, which the call takes.
        received = nvmlDeviceGetPcieThroughput(ffi::nvmlPcieUtilCounter_t::NVML_PCIE_UTIL_RX_BYTES) -> u32;
        /// Width of the memory bus in bits.
        memory_bus_bits = nvmlDeviceGetMemoryBusWidth() -> u32;
        /// Temperature in °C.
        temperature = nvmlDeviceGetTemperature(ffi::nvmlTemperatureSensors_t::NVML_TEMPERATURE_GPU) -> u32;
        /// Power in mW.
        milliwatts = nvmlDeviceGetPowerUsage() -> u32;
        /// Power limit in mW.
        most_milliwatts = nvmlDeviceGetEnforcedPowerLimit() -> u32;
        /// Clock of the multiprocessors in MHz.
        sm_clock = nvmlDeviceGetClockInfo(ffi::nvmlClockType_t::NVML_CLOCK_SM) -> u32;
        /// Clock of the memory in MHz.
        memory_clock = nvmlDeviceGetClockInfo(ffi::nvmlClockType_t::NVML_CLOCK_MEM) -> u32;
        /// The most that the multiprocessors' clock reaches.
        most_sm_clock = nvmlDeviceGetMaxClockInfo(ffi::nvmlClockType_t::NVML_CLOCK_SM) -> u32;
        /// The most that the memory's clock reaches.
        most_memory_clock = nvmlDeviceGetMaxClockInfo(ffi::nvmlClockType_t::NVML_CLOCK_MEM) -> u32;
        /// NUMA node that its own memory forms.
        memory_numa = nvmlDeviceGetNumaNodeId() -> u32;
    }

    /// Its PCI address.
    pub(crate) fn address(self) -> Result<PciAddress, Problem> {
        const NAME: &str = "nvmlDeviceGetPciInfo_v3";
        let none = ffi::nvmlPciInfo_t::default();
        // SAFETY: the handle is the session's.
        let info = unsafe { ask!(self.session, nvmlDeviceGetPciInfo_v3(self.handle), none) }?;
        let narrow = |what, n: c_uint, most| {
            foreign::bounded(what, n, 0, most).map(|n| n as u8).map_err(|what| Problem::Nonsense(NAME, what))
        };
        let (bus, device) = (narrow("as a PCI bus", info.bus, 255)?, narrow("as a PCI device", info.device, 31)?);
        Ok(PciAddress { domain: info.domain, bus, device, function: 0 })
    }

    /// Its architecture; `None` where it is newer than this program.
    pub(crate) fn architecture(self) -> Result<Option<String>, Problem> {
        // SAFETY: the handle is the session's.
        let number = unsafe { ask!(self.session, nvmlDeviceGetArchitecture(self.handle), 0) }?;
        Ok(words::architecture(number).map(str::to_owned))
    }

    /// Major and minor of its compute capability.
    pub(crate) fn compute_capability(self) -> Result<(u8, u8), Problem> {
        let mut major: c_int = 0;
        // SAFETY: the handle is the session's; the place is one int, and outlives the call.
        let minor = unsafe { ask!(self.session, nvmlDeviceGetCudaComputeCapability(self.handle, &raw mut major), 0) }?;
        let number = |n: c_int| {
            foreign::bounded("as a part of its compute capability", n, 0, 255)
                .map(|n| n as u8)
                .map_err(|what| Problem::Nonsense("nvmlDeviceGetCudaComputeCapability", what))
        };
        Ok((number(major)?, number(minor)?))
    }

    /// Its memory. What the driver keeps for itself is not counted as taken, where the driver tells it apart.
    pub(crate) fn memory(self) -> Result<Share, Problem> {
        let version = nvml_struct_version::<ffi::nvmlMemory_v2_t>(2);
        let wanted = ffi::nvmlMemory_v2_t { version, ..ffi::nvmlMemory_v2_t::default() };
        // SAFETY: the handle is the session's; the structure states its version, and with it its size.
        if let Ok(told) = unsafe { ask!(self.session, nvmlDeviceGetMemoryInfo_v2(self.handle), wanted) } {
            return share("nvmlDeviceGetMemoryInfo_v2", told.total, told.used);
        }
        let none = ffi::nvmlMemory_t::default();
        // SAFETY: the handle is the session's.
        let told = unsafe { ask!(self.session, nvmlDeviceGetMemoryInfo(self.handle), none) }?;
        share("nvmlDeviceGetMemoryInfo", told.total, told.used)
    }

    /// The window through which others reach its memory.
    pub(crate) fn bar1(self) -> Result<Share, Problem> {
        let none = ffi::nvmlBAR1Memory_t::default();
        // SAFETY: the handle is the session's.
        let told = unsafe { ask!(self.session, nvmlDeviceGetBAR1MemoryInfo(self.handle), none) }?;
        share("nvmlDeviceGetBAR1MemoryInfo", told.bar1Total, told.bar1Used)
    }

    /// Share of time in which a kernel ran, and in which memory was used, in %.
    pub(crate) fn utilization(self) -> Result<(u32, u32), Problem> {
        let none = ffi::nvmlUtilization_t::default();
        // SAFETY: the handle is the session's.
        let told = unsafe { ask!(self.session, nvmlDeviceGetUtilizationRates(self.handle), none) }?;
        Ok((told.gpu, told.memory))
    }

    /// Reasons for its clocks being what they are.
    pub(crate) fn clock_event_reasons(self) -> Result<Vec<String>, Problem> {
        // the older name, where the driver is older
        // SAFETY: the handle is the session's.
        let mask = unsafe { ask!(self.session, nvmlDeviceGetCurrentClocksEventReasons(self.handle), 0) };
        let mask = mask.or_else(|problem| {
            if !matches!(problem, Problem::Lacks(_)) {
                return Err(problem);
            }
            // SAFETY: the handle is the session's.
            unsafe { ask!(self.session, nvmlDeviceGetCurrentClocksThrottleReasons(self.handle), 0) }
        })?;
        Ok(words::clock_event_reasons(mask))
    }

    /// Its performance state: `P0` … `None` where the driver does not know.
    pub(crate) fn performance_state(self) -> Result<Option<String>, Problem> {
        let unknown = ffi::nvmlPstates_t::NVML_PSTATE_UNKNOWN;
        // SAFETY: the handle is the session's.
        let state = unsafe { ask!(self.session, nvmlDeviceGetPerformanceState(self.handle), unknown) }?;
        Ok((state != unknown).then(|| format!("P{}", state.0)))
    }

    /// Who may compute on it.
    pub(crate) fn compute_mode(self) -> Result<Option<String>, Problem> {
        let default = ffi::nvmlComputeMode_t::NVML_COMPUTEMODE_DEFAULT;
        // SAFETY: the handle is the session's.
        let mode = unsafe { ask!(self.session, nvmlDeviceGetComputeMode(self.handle), default) }?;
        Ok(words::compute_mode(mode).map(str::to_owned))
    }

    /// Whether the driver stays loaded without users.
    pub(crate) fn persistence(self) -> Result<bool, Problem> {
        let off = ffi::nvmlEnableState_t::NVML_FEATURE_DISABLED;
        // SAFETY: the handle is the session's.
        let mode = unsafe { ask!(self.session, nvmlDeviceGetPersistenceMode(self.handle), off) }?;
        Ok(mode != off)
    }

    /// Whether it is divided into MIG instances.
    pub(crate) fn mig(self) -> Result<bool, Problem> {
        let mut current: c_uint = 0;
        // SAFETY: the handle is the session's; the place is one number, and outlives the call.
        unsafe { ask!(self.session, nvmlDeviceGetMigMode(self.handle, &raw mut current), 0) }?;
        Ok(current == ffi::NVML_DEVICE_MIG_ENABLE)
    }

    /// Whether its memory has error correction.
    pub(crate) fn ecc(self) -> Result<bool, Problem> {
        let off = ffi::nvmlEnableState_t::NVML_FEATURE_DISABLED;
        let mut current = off;
        // SAFETY: the handle is the session's; the place is one state, and outlives the call.
        unsafe { ask!(self.session, nvmlDeviceGetEccMode(self.handle, &raw mut current), off) }?;
        Ok(current != off)
    }

    /// How it is virtualised.
    pub(crate) fn virtualization(self) -> Result<Option<String>, Problem> {
        let none = ffi::nvmlGpuVirtualizationMode_t::NVML_GPU_VIRTUALIZATION_MODE_NONE;
        // SAFETY: the handle is the session's.
        let mode = unsafe { ask!(self.session, nvmlDeviceGetVirtualizationMode(self.handle), none) }?;
        Ok(words::virtualization(mode).map(str::to_owned))
    }

    /// CPUs near it.
    pub(crate) fn cpus(self) -> Result<CpuList, Problem> {
        let function = self.session.functions.nvmlDeviceGetCpuAffinity;
        let function = function.ok_or(Problem::Lacks("nvmlDeviceGetCpuAffinity"))?;
        let mut mask = Room::new([0; MASK_WORDS]);
        let place = Room::place(&mut mask).cast();
        // SAFETY: the handle is the session's; the mask has as many words as it is said to have, and outlives the call.
        self.session.told(unsafe { function(self.handle, MASK_WORDS as c_uint, place) })?;
        Ok(members(&mask.checked("nvmlDeviceGetCpuAffinity")?))
    }

    /// NUMA nodes near it.
    pub(crate) fn numa(self) -> Result<CpuList, Problem> {
        let function = self.session.functions.nvmlDeviceGetMemoryAffinity;
        let function = function.ok_or(Problem::Lacks("nvmlDeviceGetMemoryAffinity"))?;
        let mut mask = Room::new([0; MASK_WORDS]);
        let place = Room::place(&mut mask).cast();
        let scope = ffi::NVML_AFFINITY_SCOPE_NODE;
        // SAFETY: the handle is the session's; the mask has as many words as it is said to have, and outlives the call.
        self.session.told(unsafe { function(self.handle, MASK_WORDS as c_uint, place, scope) })?;
        Ok(members(&mask.checked("nvmlDeviceGetMemoryAffinity")?))
    }

    /// Processes that compute on it.
    pub(crate) fn processes(self) -> Result<Vec<Process>, Problem> {
        const NAME: &str = "nvmlDeviceGetComputeRunningProcesses_v3";
        let function = self.session.functions.nvmlDeviceGetComputeRunningProcesses_v3.ok_or(Problem::Lacks(NAME))?;
        let mut room: c_uint = 32;
        loop {
            let mut list = vec![ffi::nvmlProcessInfo_t::default(); room as usize];
            let mut count = room;
            // SAFETY: the handle is the session's; the list has `count` entries, and both outlive the call.
            let told = self.session.told(unsafe { function(self.handle, &raw mut count, list.as_mut_ptr()) });
            match told {
                Err(problem) if problem.is(ffi::nvmlReturn_t::NVML_ERROR_INSUFFICIENT_SIZE) && room < MAX_PROCESSES => {
                    room = count.max(room).saturating_mul(2).min(MAX_PROCESSES);
                }
                Err(problem) => return Err(problem),
                Ok(()) => {
                    let count =
                        foreign::bounded("processes", count, 0, room).map_err(|what| Problem::Nonsense(NAME, what))?;
                    list.truncate(count as usize);
                    let memory = |bytes| Some(Bytes(bytes)).filter(|b| b.0 != NOT_AVAILABLE);
                    let process = |p: &ffi::nvmlProcessInfo_t| Process { pid: p.pid, memory: memory(p.usedGpuMemory) };
                    // number 0 is no process, but an entry that was not written
                    return Ok(list.iter().filter(|p| p.pid != 0).map(process).collect());
                }
            }
        }
    }

    /// Its place in an NVSwitch fabric.
    pub(crate) fn fabric(self) -> Result<FabricState, Problem> {
        let version = nvml_struct_version::<ffi::nvmlGpuFabricInfo_v3_t>(3);
        let wanted = ffi::nvmlGpuFabricInfo_v3_t { version, ..ffi::nvmlGpuFabricInfo_v3_t::default() };
        let (state, status, clique, cluster) =
            // SAFETY: the handle is the session's; the structure states its version, and with it its size.
            match unsafe { ask!(self.session, nvmlDeviceGetGpuFabricInfoV(self.handle), wanted) } {
                Ok(told) => (told.state, told.status, told.cliqueId, told.clusterUuid),
                // drivers before 550 have only the first of these, later ones may not know its third version
                Err(_) => {
                    let none = ffi::nvmlGpuFabricInfo_t::default();
                    // SAFETY: the handle is the session's.
                    let told = unsafe { ask!(self.session, nvmlDeviceGetGpuFabricInfo(self.handle), none) }?;
                    (told.state, told.status, told.cliqueId, told.clusterUuid)
                }
            };
        // status and the rest mean nothing before the GPU is registered
        let done = u32::from(state) == ffi::NVML_GPU_FABRIC_STATE_COMPLETED;
        let status = match self.session.told(status) {
            Ok(()) => "Success".to_owned(),
            Err(problem) => problem.to_string(),
        };
        Ok(FabricState {
            state: words::fabric_state(state),
            status: done.then_some(status),
            clique: done.then_some(clique),
            cluster: done.then(|| uuid(&cluster)),
        })
    }

    /// Whether that NVLink is up.
    pub(crate) fn link_active(self, link: u32) -> Result<bool, Problem> {
        let off = ffi::nvmlEnableState_t::NVML_FEATURE_DISABLED;
        // SAFETY: the handle is the session's; a link that it does not have is refused.
        let state = unsafe { ask!(self.session, nvmlDeviceGetNvLinkState(self.handle, link), off) }?;
        Ok(state != off)
    }

    /// That NVLink's generation as NVML numbers it.
    pub(crate) fn link_version(self, link: u32) -> Result<u32, Problem> {
        // SAFETY: the handle is the session's; a link that it does not have is refused.
        unsafe { ask!(self.session, nvmlDeviceGetNvLinkVersion(self.handle, link), 0) }
    }

    /// What is at the other end of that NVLink.
    pub(crate) fn link_remote(self, link: u32) -> Result<RemoteKind, Problem> {
        let unknown = ffi::nvmlIntNvLinkDeviceType_t::NVML_NVLINK_DEVICE_TYPE_UNKNOWN;
        // SAFETY: the handle is the session's; a link that it does not have is refused.
        let kind = unsafe { ask!(self.session, nvmlDeviceGetNvLinkRemoteDeviceType(self.handle, link), unknown) };
        kind.map(words::remote)
    }

    /// Bus id of the other end of that NVLink.
    pub(crate) fn link_remote_bus_id(self, link: u32) -> Result<String, Problem> {
        let none = ffi::nvmlPciInfo_t::default();
        // SAFETY: the handle is the session's; a link that it does not have is refused.
        let told = unsafe { ask!(self.session, nvmlDeviceGetNvLinkRemotePciInfo_v2(self.handle, link), none) }?;
        text_in("nvmlDeviceGetNvLinkRemotePciInfo_v2", &told.busId)
    }

    /// Values by field and scope, such as a link's number; all of them in one call.
    pub(crate) fn fields(self, wanted: &[(u32, u32)]) -> Result<Vec<Result<u64, Problem>>, Problem> {
        let function = self.session.functions.nvmlDeviceGetFieldValues;
        let function = function.ok_or(Problem::Lacks("nvmlDeviceGetFieldValues"))?;
        let field = |(field, scope): &(u32, u32)| ffi::nvmlFieldValue_t {
            fieldId: *field,
            scopeId: *scope,
            ..ffi::nvmlFieldValue_t::default()
        };
        /// Entries behind the last, for what a call may write beyond.
        const BEYOND: usize = 4;
        let mut values: Vec<_> = wanted.iter().map(field).collect();
        let count = c_int::try_from(values.len()).unwrap_or_default();
        values.resize_with(wanted.len() + BEYOND, Default::default);
        // SAFETY: the handle is the session's; there are more entries than it is told, and they outlive the call.
        self.session.told(unsafe { function(self.handle, count, values.as_mut_ptr()) })?;
        if values.iter().skip(wanted.len()).any(|v| v.fieldId != 0 || v.nvmlReturn.0 != 0) {
            return Err(Problem::Overran("nvmlDeviceGetFieldValues"));
        }
        values.truncate(wanted.len());
        Ok(values.iter().map(|v| self.session.told(v.nvmlReturn).map(|()| number(v))).collect())
    }

    /// Peer-to-peer status towards another, in the letters of `nvidia-smi topo -p2p`.
    pub(crate) fn p2p(self, other: Device, capability: ffi::nvmlGpuP2PCapsIndex_t) -> Result<String, Problem> {
        let unknown = ffi::nvmlGpuP2PStatus_t::NVML_P2P_STATUS_UNKNOWN;
        // SAFETY: both handles are of sessions, and NVML has one state for all of them.
        let status =
            unsafe { ask!(self.session, nvmlDeviceGetP2PStatus(self.handle, other.handle, capability), unknown) }?;
        Ok(WORDS_OF_P2P.get(status.0 as usize).unwrap_or(&"U").to_string())
    }

    /// The lowest point above both; `None` where it is one that this program does not know.
    pub(crate) fn ancestor(self, other: Device) -> Result<Option<Ancestor>, Problem> {
        let system = ffi::nvmlGpuTopologyLevel_t::NVML_TOPOLOGY_SYSTEM;
        // SAFETY: both handles are of sessions, and NVML has one state for all of them.
        let level =
            unsafe { ask!(self.session, nvmlDeviceGetTopologyCommonAncestor(self.handle, other.handle), system) }?;
        Ok(words::ancestor(level))
    }
}

/// The members of a mask.
fn members(mask: &[c_ulong]) -> CpuList {
    let bits = c_ulong::BITS;
    let set = |(i, word): (usize, &c_ulong)| {
        let (word, base) = (*word, i as u32 * bits);
        (0..bits).filter(move |bit| word >> bit & 1 == 1).map(move |bit| (base + bit, base + bit))
    };
    CpuList::from_ranges(mask.iter().enumerate().flat_map(set))
}

/// A field's value as a number that is not negative.
#[allow(clippy::useless_conversion, reason = "a long has 32 bits on Windows")]
fn number(field: &ffi::nvmlFieldValue_t) -> u64 {
    use ffi::nvmlValueType_t as Type;
    let value = &field.value;
    match field.valueType {
        Type::NVML_VALUE_TYPE_DOUBLE => {
            // SAFETY: the union was zeroed, and every bit pattern of every part is a number.
            let number = unsafe { value.dVal };
            number.max(0.0) as u64
        }
        Type::NVML_VALUE_TYPE_UNSIGNED_INT => {
            // SAFETY: as above.
            unsafe { value.uiVal }.into()
        }
        Type::NVML_VALUE_TYPE_UNSIGNED_LONG => {
            // SAFETY: as above.
            u64::from(unsafe { value.ulVal })
        }
        Type::NVML_VALUE_TYPE_UNSIGNED_LONG_LONG => {
            // SAFETY: as above.
            unsafe { value.ullVal }
        }
        Type::NVML_VALUE_TYPE_SIGNED_LONG_LONG => {
            // SAFETY: as above.
            u64::try_from(unsafe { value.sllVal }).unwrap_or_default()
        }
        Type::NVML_VALUE_TYPE_SIGNED_INT => {
            // SAFETY: as above.
            u64::try_from(unsafe { value.siVal }).unwrap_or_default()
        }
        Type::NVML_VALUE_TYPE_UNSIGNED_SHORT => {
            // SAFETY: as above.
            unsafe { value.usVal }.into()
        }
        _ => 0,
    }
}

/// Memory in all and in use, which cannot be more.
fn share(function: &'static str, total: u64, used: u64) -> Result<Share, Problem> {
    foreign::bounded("bytes in use", used, 0, total).map_err(|what| Problem::Nonsense(function, what))?;
    Ok(Share { total: Bytes(total), used: Bytes(used) })
}

/// `00000000-0000-0000-0000-000000000000`.
fn uuid(bytes: &[u8; 16]) -> String {
    let hex: String = bytes.iter().map(|b| format!("{b:02x}")).collect();
    let part = |a: usize, b: usize| hex.get(a..b).unwrap_or_default();
    format!("{}-{}-{}-{}-{}", part(0, 8), part(8, 12), part(12, 16), part(16, 20), part(20, 32))
}

#[cfg(test)]
mod tests {
    use super::super::testing::Fake;
    use super::*;

    #[test]
    fn masks_and_ids() {
        assert_eq!(members(&[0b1011, 1]).to_string(), "0-1,3,64");
        assert!(members(&[0; 4]).is_empty());
        assert_eq!(uuid(&std::array::from_fn(|i| i as u8)), "00010203-0405-0607-0809-0a0b0c0d0e0f");
    }

    #[test]
    fn old_names_and_structures_serve_where_new_ones_are_absent() {
        let table = ffi::Nvml {
            nvmlDeviceGetMemoryInfo_v2: None,
            nvmlDeviceGetGpuFabricInfoV: None,
            nvmlDeviceGetCurrentClocksEventReasons: None,
            ..Fake::table()
        };
        let session = Session::start(table, None).unwrap();
        let device = session.device(0).unwrap();
        assert_eq!(device.memory().unwrap(), Share { total: Bytes(80 << 30), used: Bytes(1 << 30) });
        assert_eq!(device.fabric().unwrap().state, "Completed");
        assert_eq!(device.clock_event_reasons().unwrap(), ["SW Power Cap"]);
    }

    #[test]
    fn lists_longer_than_thought_are_asked_again() {
        let session = Session::start(Fake::table(), None).unwrap();
        let all = session.device(1).unwrap().processes().unwrap();
        assert_eq!(all.len(), 40);
        assert_eq!((all[0].pid, all[0].memory, all[1].memory), (1000, Some(Bytes(1 << 20)), None));
    }

    #[test]
    fn fields_have_their_own_errors() {
        let session = Session::start(Fake::table(), None).unwrap();
        let wanted = [(ffi::NVML_FI_DEV_NVLINK_GET_SPEED, 0), (ffi::NVML_FI_DEV_MEMORY_TEMP, 0)];
        let values = session.device(0).unwrap().fields(&wanted).unwrap();
        assert_eq!(values[0], Ok(26_562));
        assert_eq!(values[1].as_ref().unwrap_err().to_string(), "Not Supported");
    }
}
