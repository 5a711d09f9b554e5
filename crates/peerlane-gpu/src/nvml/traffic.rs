//! What the links of GPUs have carried so far.

use std::thread;
use std::time::Instant;

use peerlane_machine::units::Seconds;
use peerlane_measure::traffic::{BothWays, Pcie, Sample};

use super::counters::{DATA, LINKS};
use super::states::state;
use super::{Device, NvmlStates};
use crate::bindings::nvml as ffi;
use crate::counters::FileTraffic;

/// Bytes that the GPU has sent and received over PCIe, which newer drivers count on newer GPUs.
const PCIE: [u32; 2] = [ffi::NVML_FI_DEV_PCIE_COUNT_TX_BYTES, ffi::NVML_FI_DEV_PCIE_COUNT_RX_BYTES];

/// Reads the traffic of this machine again and again: of GPUs by NVML, of ports from files.
#[derive(Debug)]
pub struct Traffic {
    gpus: Option<NvmlStates>,
    /// Why there is no NVML.
    without: Option<String>,
    ports: FileTraffic,
    first: Option<Instant>,
}

impl Traffic {
    /// Of GPUs that NVML shows, or why it does not, and of all ports below `/sys`.
    pub fn new(gpus: Result<NvmlStates, String>, ports: FileTraffic) -> Self {
        let (gpus, without) = match gpus {
            Ok(gpus) => (Some(gpus), None),
            Err(why) => (None, Some(why)),
        };
        Traffic { gpus, without, ports, first: None }
    }

    /// What the counters show now. GPUs are asked at the same time.
    pub fn sample(&mut self) -> Sample {
        let now = Instant::now();
        let first = *self.first.get_or_insert(now);
        let mut sample = Sample { at: Seconds::new((now - first).as_secs_f64()), ..Sample::default() };
        sample.ports = self.ports.read();
        sample.missing.extend(self.without.clone());
        if sample.ports.is_empty() {
            sample.missing.push("no port of a network adapter counts its bytes in /sys".to_owned());
        }
        let Some(gpus) = &self.gpus else { return sample };
        thread::scope(|scope| {
            let start = |(name, address): &'_ (String, _)| {
                let (name, address) = (name.clone(), *address);
                let read = move || match gpus.session.device_at(address) {
                    Ok(gpu) => of_gpu(&name, gpu),
                    Err(problem) => Sample { missing: vec![format!("{name}: {problem}")], ..Sample::default() },
                };
                thread::Builder::new().spawn_scoped(scope, read)
            };
            let started: Vec<_> = gpus.gpus.iter().map(start).collect();
            for of_gpu in started.into_iter().filter_map(|thread| thread.ok()?.join().ok()) {
                sample.nvlinks.extend(of_gpu.nvlinks);
                sample.pcie.extend(of_gpu.pcie);
                sample.gpus.extend(of_gpu.gpus);
                sample.missing.extend(of_gpu.missing);
            }
        });
        sample
    }
}

/// The links and the state of one GPU.
fn of_gpu(name: &str, gpu: Device) -> Sample {
    let mut sample = Sample { gpus: vec![state(name, gpu)], ..Sample::default() };
    let mut wanted = vec![(ffi::NVML_FI_DEV_NVLINK_LINK_COUNT, 0)];
    wanted.extend(PCIE.iter().map(|field| (*field, 0)));
    for link in 0..u32::from(LINKS) {
        wanted.extend(DATA.iter().map(|field| (*field, link)));
    }
    let told = gpu.fields(&wanted);
    let mut told = told.into_iter().flatten().map(Result::ok);
    let has_nvlinks = told.next().flatten().is_some_and(|count| count > 0);
    let mut both = || -> Option<BothWays<u64>> {
        let (sent, received) = (told.next().flatten(), told.next().flatten());
        Some([sent?, received?])
    };
    let counted = both();
    let mut links: Vec<_> = (0..LINKS).map(|_| both()).collect();
    // links beyond its last
    if let Some(last) = links.iter().rposition(Option::is_some) {
        links.truncate(last + 1);
        sample.nvlinks.insert(name.to_owned(), links);
    } else if has_nvlinks {
        sample.missing.push(format!("{name}: the driver counts no data of its NVLinks"));
    }
    // zeros are what a driver tells that has the fields and counts nothing
    match counted.filter(|bytes| *bytes != [0; 2]) {
        Some(bytes) => {
            sample.pcie.insert(name.to_owned(), Pcie::Counted(bytes));
        }
        None => match (gpu.sent(), gpu.received()) {
            (Ok(sent), Ok(received)) => {
                let rates = [sent, received].map(|kb| f64::from(kb) * 1000.0);
                sample.pcie.insert(name.to_owned(), Pcie::Momentary(rates));
            }
            (Err(problem), _) | (_, Err(problem)) => sample.missing.push(format!("{name}: PCIe traffic: {problem}")),
        },
    }
    sample
}

#[cfg(test)]
mod tests {
    use std::ffi::c_int;

    use super::super::Session;
    use super::super::testing::Fake;
    use super::*;
    use crate::bindings::nvml::*;

    /// Counts of PCIe of the first GPU, and of two links: field and link.
    unsafe extern "C" fn fields(device: nvmlDevice_t, count: c_int, values: *mut nvmlFieldValue_t) -> nvmlReturn_t {
        // SAFETY: the caller's list has `count` entries, and nothing else uses it during the call.
        let values = unsafe { std::slice::from_raw_parts_mut(values, count as usize) };
        for value in values {
            let pcie = PCIE.contains(&value.fieldId) && device as usize == 1;
            if pcie || DATA.contains(&value.fieldId) && value.scopeId < 2 {
                value.valueType = nvmlValueType_t::NVML_VALUE_TYPE_UNSIGNED_LONG_LONG;
                value.value.ullVal = u64::from(value.fieldId * 10 + value.scopeId);
            } else {
                value.nvmlReturn = nvmlReturn_t::NVML_ERROR_NOT_SUPPORTED;
            }
        }
        nvmlReturn_t::NVML_SUCCESS
    }

    #[test]
    fn what_a_gpu_counts_is_read_and_what_it_does_not_is_named() {
        let table = Nvml { nvmlDeviceGetFieldValues: Some(fields), ..Fake::table() };
        let session = Session::start(table, None).unwrap();
        let gpus = ["0000:01:00.0", "0000:02:00.0", "0000:09:00.0"];
        let gpus = gpus.iter().enumerate().map(|(i, at)| (format!("GPU{i}"), at.parse().unwrap())).collect();
        let mut traffic = Traffic::new(Ok(NvmlStates { session, gpus }), FileTraffic::default());
        let sample = traffic.sample();
        assert_eq!(sample.nvlinks["GPU0"], [Some([1380, 1390]), Some([1381, 1391])]);
        assert_eq!(sample.pcie["GPU0"], Pcie::Counted([1970, 1980]));
        assert!(!sample.pcie.contains_key("GPU1"));
        assert_eq!(sample.gpus.len(), 2);
        assert_eq!(sample.gpus[0].temperature_c, Some(41.0));
        let missing = sample.missing.join("\n");
        assert!(missing.contains("GPU1: PCIe traffic: this driver has no nvmlDeviceGetPcieThroughput"), "{missing}");
        assert!(missing.contains("GPU2: Some Error") && missing.contains("no port"), "{missing}");
        let later = traffic.sample();
        assert!(later.at > sample.at);
        assert_eq!(later.since(&sample).pcie["GPU0"], [0.0; 2]);
    }

    #[test]
    fn without_nvml_the_reason_is_told() {
        let mut traffic = Traffic::new(Err("no NVIDIA driver found".to_owned()), FileTraffic::default());
        assert_eq!(traffic.sample().missing[0], "no NVIDIA driver found");
    }
}
