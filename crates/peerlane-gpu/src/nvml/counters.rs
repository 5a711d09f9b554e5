//! The counters of GPUs that NVML shows: data and errors of NVLinks, errors of memory, PCIe replays.
//!
//! A reading is one call for all fields of a GPU, and a few for its condition; GPUs are read at the same time.

use peerlane_machine::counter::ErrorCounter;
use peerlane_measure::run::{GpuCondition, Reading};

use super::{Device, NvmlStates};
use crate::bindings::nvml as ffi;

/// NVLinks that are asked about, so that their number needs no call of its own. Those that a GPU does not have are refused
/// one by one, within the one call.
pub(super) const LINKS: u8 = ffi::NVML_NVLINK_MAX_LINKS as u8;

/// The fields of a GPU.
const OF_GPU: [(u32, ErrorCounter); 3] = [
    (ffi::NVML_FI_DEV_ECC_SBE_VOL_TOTAL, ErrorCounter::EccCorrected),
    (ffi::NVML_FI_DEV_ECC_DBE_VOL_TOTAL, ErrorCounter::EccUncorrected),
    (ffi::NVML_FI_DEV_PCIE_REPLAY_COUNTER, ErrorCounter::PcieReplay),
];

/// The data that each NVLink sent and received, in KiB, without what the protocol adds.
pub(super) const DATA: [u32; 2] =
    [ffi::NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_TX, ffi::NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_RX];

/// The errors of each NVLink.
const OF_LINK: [(u32, ErrorCounter); 3] = [
    (ffi::NVML_FI_DEV_NVLINK_ERROR_DL_REPLAY, ErrorCounter::NvlinkReplay),
    (ffi::NVML_FI_DEV_NVLINK_ERROR_DL_RECOVERY, ErrorCounter::NvlinkRecovery),
    (ffi::NVML_FI_DEV_NVLINK_ERROR_DL_CRC, ErrorCounter::NvlinkCrc),
];

impl NvmlStates {
    /// What the counters of each GPU stand at. What cannot be read is absent.
    pub(crate) fn counters(&self) -> Reading {
        let mut all = Reading::default();
        let each = self.at_once(|name, gpu| gpu.ok().map(|gpu| reading(name, gpu)));
        for of_gpu in each.into_iter().flatten() {
            all.errors.extend(of_gpu.errors);
            all.nvlinks.extend(of_gpu.nvlinks);
            all.gpus.extend(of_gpu.gpus);
        }
        all
    }
}

/// The counters of one GPU.
fn reading(name: &str, gpu: Device) -> Reading {
    let mut reading = Reading { gpus: vec![condition(name, gpu)], ..Reading::default() };
    let mut wanted: Vec<(u32, u32)> = OF_GPU.iter().map(|(field, _)| (*field, 0)).collect();
    for link in 0..u32::from(LINKS) {
        wanted.extend(DATA.iter().map(|field| (*field, link)));
        wanted.extend(OF_LINK.iter().map(|(field, _)| (*field, link)));
    }
    let Ok(told) = gpu.fields(&wanted) else { return reading };
    let mut told = told.into_iter().map(Result::ok);
    let mut next = || told.next().flatten();
    for (_, counter) in OF_GPU {
        reading.errors.extend(next().map(|count| ((counter, (name.to_owned(), None)), count)));
    }
    let mut links = Vec::new();
    for link in 0..LINKS {
        let (sent, received) = (next(), next());
        links.push(sent.zip(received).map(|(sent, received)| [sent, received]));
        for (_, counter) in OF_LINK {
            reading.errors.extend(next().map(|count| ((counter, (name.to_owned(), Some(link))), count)));
        }
    }
    // links beyond its last
    let last = links.iter().rposition(Option::is_some);
    if let Some(last) = last {
        links.truncate(last + 1);
        reading.nvlinks.insert(name.to_owned(), links);
    }
    reading
}

fn condition(name: &str, gpu: Device) -> GpuCondition {
    let reasons = gpu.clock_event_reasons().unwrap_or_default();
    GpuCondition {
        gpu: name.to_owned(),
        temperature_c: gpu.temperature().ok().map(f64::from),
        power_w: gpu.milliwatts().ok().map(|mw| f64::from(mw) / 1000.0),
        sm_clock_mhz: gpu.sm_clock().ok(),
        clock_event_reasons: reasons.into_iter().filter(|reason| reason != "Idle").collect(),
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::c_int;

    use super::super::Session;
    use super::super::testing::Fake;
    use super::*;
    use crate::bindings::nvml::*;

    /// Three links: of the first all counters are read, of the second data alone; the third has none. Values are field and link.
    unsafe extern "C" fn fields(_: nvmlDevice_t, count: c_int, values: *mut nvmlFieldValue_t) -> nvmlReturn_t {
        // SAFETY: the caller's list has `count` entries, and nothing else uses it during the call.
        let values = unsafe { std::slice::from_raw_parts_mut(values, count as usize) };
        for value in values {
            let of_gpu = value.fieldId == NVML_FI_DEV_ECC_DBE_VOL_TOTAL;
            if of_gpu || value.scopeId == 0 && value.fieldId > 94 || value.scopeId == 1 && DATA.contains(&value.fieldId)
            {
                value.valueType = nvmlValueType_t::NVML_VALUE_TYPE_UNSIGNED_LONG_LONG;
                value.value.ullVal = u64::from(value.fieldId * 10 + value.scopeId);
            } else {
                value.nvmlReturn = nvmlReturn_t::NVML_ERROR_NOT_SUPPORTED;
            }
        }
        nvmlReturn_t::NVML_SUCCESS
    }

    #[test]
    fn each_counter_is_that_of_its_link() {
        let table = Nvml { nvmlDeviceGetFieldValues: Some(fields), ..Fake::table() };
        let session = Session::start(table, None).unwrap();
        let gpus = vec![("GPU0".to_owned(), "0000:01:00.0".parse().unwrap())];
        let reading = NvmlStates { session, gpus }.counters();
        assert_eq!(reading.nvlinks["GPU0"], [Some([1380, 1390]), Some([1381, 1391])]);
        let errors: Vec<(ErrorCounter, Option<u8>, u64)> =
            reading.errors.iter().map(|((counter, (_, link)), count)| (*counter, *link, *count)).collect();
        use ErrorCounter as C;
        let of_link = [(C::NvlinkReplay, 1610), (C::NvlinkRecovery, 1620), (C::NvlinkCrc, 1630)];
        let of_link = of_link.map(|(counter, count)| (counter, Some(0), count));
        assert_eq!(errors, [&of_link[..], &[(C::EccUncorrected, None, 40)]].concat());
        assert_eq!((reading.gpus[0].temperature_c, reading.gpus[0].power_w), (Some(41.0), Some(70.5)));
    }

    #[test]
    fn a_driver_without_fields_gives_conditions_alone() {
        let table = Nvml { nvmlDeviceGetFieldValues: None, ..Fake::table() };
        let session = Session::start(table, None).unwrap();
        let gpus = ["0000:01:00.0", "0000:09:00.0"].map(|at| (format!("GPU at {at}"), at.parse().unwrap())).to_vec();
        let reading = NvmlStates { session, gpus }.counters();
        assert!(reading.is_empty());
        assert_eq!(reading.gpus.len(), 1, "the other is not there");
    }
}
