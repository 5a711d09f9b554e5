//! What the links of GPUs have carried so far.

use std::collections::BTreeMap;
use std::time::Instant;

use peerlane_machine::units::Seconds;
use peerlane_measure::traffic::{BothWays, Sample};

use super::counters::{DATA, LINKS};
use super::states::state;
use super::{Device, NvmlStates, Problem};
use crate::bindings::nvml as ffi;
use crate::counters::FileTraffic;

/// As a link's number: all links of the GPU together.
const ALL: u32 = u32::MAX;

/// Each NVLink is read in one sample of so many: a field of one takes 0.5 ms of a core (H100, driver 580), those of all together
/// 1.2 ms.
const RARELY: usize = 10;

/// Reads the traffic of this machine again and again: of GPUs by NVML, of ports from files.
#[derive(Debug)]
pub struct Traffic {
    gpus: Option<NvmlStates>,
    /// Why there is no NVML.
    without: Option<String>,
    ports: FileTraffic,
    first: Option<Instant>,
    taken: usize,
    /// NVLinks of each GPU.
    links: BTreeMap<String, u32>,
}

impl Traffic {
    /// Of GPUs that NVML shows, or why it does not, and of all ports below `/sys`.
    pub fn new(gpus: Result<NvmlStates, String>, ports: FileTraffic) -> Self {
        let (gpus, without) = match gpus {
            Ok(gpus) => (Some(gpus), None),
            Err(why) => (None, Some(why)),
        };
        Traffic { gpus, without, ports, first: None, taken: 0, links: BTreeMap::new() }
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
        let each = self.taken.is_multiple_of(RARELY);
        self.taken += 1;
        let Some(gpus) = &self.gpus else { return sample };
        if self.links.is_empty() {
            let counted =
                |(name, address): &(String, _)| Some((name.clone(), count(gpus.session.device_at(*address).ok()?)));
            self.links = gpus.gpus.iter().filter_map(counted).collect();
        }
        let known = &self.links;
        let read = |name: &str, gpu: Result<Device, Problem>| match gpu {
            Ok(gpu) => of_gpu(name, gpu, known.get(name).copied().unwrap_or(0), each),
            Err(problem) => Sample { missing: vec![format!("{name}: {problem}")], ..Sample::default() },
        };
        for of_gpu in gpus.at_once(read) {
            sample.nvlink.extend(of_gpu.nvlink);
            sample.nvlinks.extend(of_gpu.nvlinks);
            sample.pcie.extend(of_gpu.pcie);
            sample.gpus.extend(of_gpu.gpus);
            sample.missing.extend(of_gpu.missing);
        }
        sample
    }
}

/// How many NVLinks a GPU has.
fn count(gpu: Device) -> u32 {
    let told = gpu.fields(&[(ffi::NVML_FI_DEV_NVLINK_LINK_COUNT, 0)]);
    let links = told.ok().and_then(|mut told| told.pop()?.ok()).unwrap_or(0);
    u32::try_from(links).map_or(0, |links| links.min(u32::from(LINKS)))
}

/// The traffic and the state of one GPU that has so many NVLinks, each of which is read if `each`.
fn of_gpu(name: &str, gpu: Device, links: u32, each: bool) -> Sample {
    let mut sample = Sample { gpus: vec![state(name, gpu)], ..Sample::default() };
    if links > 0 {
        let all = counted(gpu, [ALL]).pop().flatten();
        // what counts no sum is read link by link each time
        let single = if each || all.is_none() { counted(gpu, 0..links) } else { Vec::new() };
        let sum = || {
            let known = single.iter().flatten().copied().reduce(|a, b| [a[0] + b[0], a[1] + b[1]]);
            known.filter(|_| single.iter().all(Option::is_some))
        };
        match all.or_else(sum) {
            Some(both) => {
                sample.nvlink.insert(name.to_owned(), both);
            }
            None => sample.missing.push(format!("{name}: the driver counts no data of its NVLinks")),
        }
        if single.iter().any(Option::is_some) {
            sample.nvlinks.insert(name.to_owned(), single);
        }
    }
    match (gpu.sent(), gpu.received()) {
        (Ok(sent), Ok(received)) => {
            sample.pcie.insert(name.to_owned(), [sent, received].map(|kb| f64::from(kb) * 1000.0));
        }
        (Err(problem), _) | (_, Err(problem)) => sample.missing.push(format!("{name}: PCIe traffic: {problem}")),
    }
    sample
}

/// KiB that these NVLinks have sent and received.
fn counted(gpu: Device, links: impl IntoIterator<Item = u32>) -> Vec<Option<BothWays<u64>>> {
    let wanted: Vec<(u32, u32)> = links.into_iter().flat_map(|link| DATA.map(|field| (field, link))).collect();
    let told: Vec<Option<u64>> = gpu.fields(&wanted).into_iter().flatten().map(Result::ok).collect();
    told.chunks_exact(2).map(|both| Some([both[0]?, both[1]?])).collect()
}

#[cfg(test)]
mod tests {
    use std::ffi::c_int;

    use super::super::Session;
    use super::super::testing::Fake;
    use super::*;
    use crate::bindings::nvml::*;

    /// Two links, and of the first GPU their sum: field and link, or field alone.
    unsafe extern "C" fn fields(device: nvmlDevice_t, count: c_int, values: *mut nvmlFieldValue_t) -> nvmlReturn_t {
        // SAFETY: the caller's list has `count` entries, and nothing else uses it during the call.
        let values = unsafe { std::slice::from_raw_parts_mut(values, count as usize) };
        for value in values {
            let told = match value.scopeId {
                _ if value.fieldId == NVML_FI_DEV_NVLINK_LINK_COUNT => Some(2),
                ALL => (device as usize == 1).then_some(value.fieldId),
                link => Some(value.fieldId * 10 + link).filter(|_| link < 2),
            };
            value.valueType = nvmlValueType_t::NVML_VALUE_TYPE_UNSIGNED_LONG_LONG;
            match told {
                Some(told) => value.value.ullVal = u64::from(told),
                None => value.nvmlReturn = nvmlReturn_t::NVML_ERROR_NOT_SUPPORTED,
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
        assert_eq!(sample.nvlink["GPU0"], [138, 139]);
        assert_eq!(sample.nvlinks["GPU0"], [Some([1380, 1390]), Some([1381, 1391])]);
        assert_eq!(sample.nvlink["GPU1"], [2761, 2781], "what counts no sum");
        assert_eq!(sample.gpus.len(), 2);
        assert_eq!(sample.gpus[0].temperature_c, Some(41.0));
        let missing = sample.missing.join("\n");
        assert!(missing.contains("GPU1: PCIe traffic: this driver has no nvmlDeviceGetPcieThroughput"), "{missing}");
        assert!(missing.contains("GPU2: Some Error") && missing.contains("no port"), "{missing}");
        let later = traffic.sample();
        assert!(later.at > sample.at);
        assert!(
            !later.nvlinks.contains_key("GPU0") && later.nvlinks.contains_key("GPU1"),
            "each rarely, unless it must be"
        );
    }

    #[test]
    fn without_nvml_the_reason_is_told() {
        let mut traffic = Traffic::new(Err("no NVIDIA driver found".to_owned()), FileTraffic::default());
        assert_eq!(traffic.sample().missing[0], "no NVIDIA driver found");
    }
}
