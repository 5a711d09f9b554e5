//! The state of GPUs while something is measured on them: a few calls a GPU, cheap enough for every sample.

use peerlane::fabric::PciAddress;
use peerlane::run::GpuState;

use super::{Device, Session};

/// From which utilisation on, in %, a GPU counts as used by others; a desktop stays below.
const BUSY: u32 = 10;

/// The GPUs whose states are asked, and NVML, which stays open.
#[derive(Debug)]
pub struct NvmlStates {
    session: Session,
    gpus: Vec<(String, PciAddress)>,
}

impl NvmlStates {
    /// Opens NVML for the GPUs of these names at these addresses.
    ///
    /// The error is one line: why there is no NVML, or which GPU it does not show.
    pub fn open<'a>(gpus: impl IntoIterator<Item = (&'a str, PciAddress)>) -> Result<Self, String> {
        Self::with(Session::open()?, gpus)
    }

    fn with<'a>(session: Session, gpus: impl IntoIterator<Item = (&'a str, PciAddress)>) -> Result<Self, String> {
        let gpus: Vec<_> = gpus.into_iter().map(|(name, address)| (name.to_owned(), address)).collect();
        for (name, address) in &gpus {
            session.device_at(*address).map_err(|problem| format!("NVML: {name} at {address}: {problem}"))?;
        }
        Ok(NvmlStates { session, gpus })
    }

    /// The state of each GPU now, in the order in which they were named. What cannot be read is absent.
    ///
    /// Processes that compute are counted without this one. In a container whose process numbers are not the host's
    /// this one may be counted, too.
    pub fn states(&self) -> Vec<GpuState> {
        let state = |(name, address): &(String, PciAddress)| match self.session.device_at(*address) {
            Ok(device) => state(name, device),
            Err(_) => GpuState { gpu: name.clone(), ..GpuState::default() },
        };
        self.gpus.iter().map(state).collect()
    }
}

fn state(name: &str, device: Device) -> GpuState {
    let own = std::process::id();
    let reasons = device.clock_event_reasons().unwrap_or_default();
    GpuState {
        gpu: name.to_owned(),
        temperature_c: device.temperature().ok().map(f64::from),
        power_w: device.milliwatts().ok().map(|mw| f64::from(mw) / 1000.0),
        sm_clock_mhz: device.sm_clock().ok(),
        memory_clock_mhz: device.memory_clock().ok(),
        utilization: device.utilization().ok().map(|(gpu, _)| gpu),
        memory_used: device.memory().ok().map(|m| m.used),
        processes: device.processes().ok().map(|all| all.iter().filter(|p| p.pid != own).count() as u32),
        clock_event_reasons: reasons.into_iter().filter(|reason| reason != "Idle").collect(),
        pcie_replays: device.replays().ok().map(u64::from),
    }
}

/// Which GPUs others use, and how: the GPU's name and a few words such as `3 other processes, 87 % utilised`.
///
/// The states must have been taken before this process itself computes on them.
pub fn busy(states: &[GpuState]) -> Vec<(String, String)> {
    let how = |state: &GpuState| {
        let processes = state.processes.filter(|n| *n > 0);
        let processes =
            processes.map(|n| if n == 1 { "1 other process".to_owned() } else { format!("{n} other processes") });
        let utilised =
            state.utilization.filter(|percent| *percent >= BUSY).map(|percent| format!("{percent} % utilised"));
        let words: Vec<String> = [processes, utilised].into_iter().flatten().collect();
        (!words.is_empty()).then(|| (state.gpu.clone(), words.join(", ")))
    };
    states.iter().filter_map(how).collect()
}

#[cfg(test)]
mod tests {
    use super::super::testing::Fake;
    use super::*;

    fn open(gpus: &[(&str, &str)]) -> Result<NvmlStates, String> {
        let session = Session::start(Fake::table(), None).unwrap();
        NvmlStates::with(session, gpus.iter().map(|(name, address)| (*name, address.parse().unwrap())))
    }

    #[test]
    fn states_leave_this_process_and_idleness_out() {
        let states = open(&[("GPU1", "0000:02:00.0"), ("GPU0", "0000:01:00.0")]).unwrap().states();
        let [one, zero] = &states[..] else { panic!() };
        assert_eq!((one.gpu.as_str(), one.processes, one.utilization), ("GPU1", Some(40), Some(87)));
        assert_eq!((zero.gpu.as_str(), zero.processes, zero.pcie_replays), ("GPU0", Some(0), Some(7)));
        assert_eq!((zero.temperature_c, zero.power_w, zero.sm_clock_mhz), (Some(41.0), Some(70.5), Some(1980)));
        assert_eq!(zero.clock_event_reasons, [""; 0]);
        assert_eq!(busy(&states), [("GPU1".to_owned(), "40 other processes, 87 % utilised".to_owned())]);
    }

    #[test]
    fn a_gpu_that_nvml_does_not_show_is_named() {
        let error = open(&[("GPU0", "0000:01:00.0"), ("GPU7", "0000:09:00.0")]).unwrap_err();
        assert_eq!(error, "NVML: GPU7 at 0000:09:00.0: Some Error");
    }

    #[test]
    fn unknown_is_not_busy() {
        let unknown = GpuState { gpu: "GPU0".to_owned(), ..GpuState::default() };
        let little = GpuState { utilization: Some(BUSY - 1), processes: Some(0), ..unknown.clone() };
        let one = GpuState { processes: Some(1), ..unknown.clone() };
        assert_eq!(busy(&[unknown, little]), []);
        assert_eq!(busy(&[one])[0].1, "1 other process");
    }
}
