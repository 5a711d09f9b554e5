//! The state of GPUs while something is measured on them: a few calls a GPU, cheap enough for every sample.

use std::thread;
use std::time::Duration;

use peerlane_machine::fabric::PciAddress;
use peerlane_measure::run::GpuState;
use serde::{Deserialize, Serialize};

use super::{Device, Problem, Session};

/// From which utilisation on, in %, a GPU counts as used by others; a desktop stays below.
const BUSY: u32 = 10;

/// How often utilisation without a process is asked again before it counts, and after how long each time: two seconds
/// in all. It tells of the last sixth of a second to second (`nvmlDeviceGetUtilizationRates`), and is high while the
/// driver prepares a GPU with ECC that nobody held open.
const AGAIN: (u32, Duration) = (10, Duration::from_millis(200));

/// Who may use the GPUs when they are opened.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tolerated {
    /// Others, whatever they do.
    pub others: bool,
    /// A process of ours, until a moment ago: utilisation may still be its.
    pub ours_before: bool,
    /// Processes of ours that did not end, by their numbers.
    pub left_behind: Vec<u32>,
}

/// Who uses a GPU.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Use {
    gpu: String,
    /// Processes of others that compute.
    processes: usize,
    /// In %, from where on it counts.
    utilization: Option<u32>,
}

/// The GPUs whose states are asked, and NVML, which stays open.
#[derive(Debug)]
pub struct NvmlStates {
    pub(super) session: Session,
    pub(super) gpus: Vec<(String, PciAddress)>,
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

    /// What is read of each GPU, of all at the same time, in the order in which they were named. A GPU whose reading fails to
    /// start or panics is left out.
    pub(super) fn at_once<T: Send>(&self, read: impl Fn(&str, Result<Device, Problem>) -> T + Sync) -> Vec<T> {
        let read = &read;
        thread::scope(|scope| {
            let start = |(name, address): &'_ (String, PciAddress)| {
                let (name, address) = (name.clone(), *address);
                thread::Builder::new().spawn_scoped(scope, move || read(&name, self.session.device_at(address)))
            };
            let started: Vec<_> = self.gpus.iter().map(start).collect();
            started.into_iter().filter_map(|thread| thread.ok()?.join().ok()).collect()
        })
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

    /// Which GPUs are used by whom it is not tolerated of, and how: the GPU's name and a few words such as `3 other
    /// processes, 87 % utilised`. What cannot be read is no use.
    ///
    /// To be asked before this process itself computes on them. It takes up to two seconds where a GPU is utilised by
    /// nobody that can be seen.
    pub fn busy(&self, tolerated: &Tolerated) -> Vec<(String, String)> {
        if tolerated.others {
            return Vec::new();
        }
        let read = || self.gpus.iter().map(|(name, address)| self.user(name, *address, tolerated)).collect();
        settled(read, thread::sleep).into_iter().filter_map(words).collect()
    }

    fn user(&self, name: &str, address: PciAddress, tolerated: &Tolerated) -> Use {
        let unused = Use { gpu: name.to_owned(), processes: 0, utilization: None };
        let Ok(device) = self.session.device_at(address) else { return unused };
        let own = std::process::id();
        let other = |pid: u32| pid != own && !tolerated.left_behind.contains(&pid);
        let processes = device.processes().map_or(0, |all| all.iter().filter(|p| other(p.pid)).count());
        let utilization = device.utilization().ok().map(|(gpu, _)| gpu);
        Use { processes, utilization: utilization.filter(|n| *n >= BUSY && !tolerated.ours_before), ..unused }
    }
}

pub(super) fn state(name: &str, device: Device) -> GpuState {
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

/// Reads who uses the GPUs until it is clear: utilisation without a process may pass.
fn settled(mut read: impl FnMut() -> Vec<Use>, mut pause: impl FnMut(Duration)) -> Vec<Use> {
    let (times, after) = AGAIN;
    let mut uses = read();
    for _ in 0..times {
        let passing = uses.iter().any(|u| u.utilization.is_some()) && uses.iter().all(|u| u.processes == 0);
        if !passing {
            break;
        }
        pause(after);
        uses = read();
    }
    uses
}

/// The GPU and a few words such as `3 other processes, 87 % utilised`, where somebody uses it.
fn words(Use { gpu, processes, utilization }: Use) -> Option<(String, String)> {
    let processes = match processes {
        0 => None,
        1 => Some("1 other process".to_owned()),
        n => Some(format!("{n} other processes")),
    };
    let utilised = utilization.map(|percent| format!("{percent} % utilised"));
    let words: Vec<String> = [processes, utilised].into_iter().flatten().collect();
    (!words.is_empty()).then(|| (gpu, words.join(", ")))
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
    }

    #[test]
    fn a_gpu_that_nvml_does_not_show_is_named() {
        let error = open(&[("GPU0", "0000:01:00.0"), ("GPU7", "0000:09:00.0")]).unwrap_err();
        assert_eq!(error, "NVML: GPU7 at 0000:09:00.0: Some Error");
    }

    #[test]
    fn others_are_not_tolerated_unless_they_are_ours() {
        let states = open(&[("GPU1", "0000:02:00.0"), ("GPU0", "0000:01:00.0")]).unwrap();
        let busy = |tolerated: &Tolerated| states.busy(tolerated);
        let (all, later) = ((1000..1040).collect(), Tolerated { ours_before: true, ..Tolerated::default() });
        assert_eq!(busy(&Tolerated::default()), [("GPU1".to_owned(), "40 other processes, 87 % utilised".to_owned())]);
        assert_eq!(busy(&later), [("GPU1".to_owned(), "40 other processes".to_owned())]);
        let one = Tolerated { left_behind: vec![1000], ..later.clone() };
        assert_eq!(busy(&one), [("GPU1".to_owned(), "39 other processes".to_owned())]);
        assert_eq!(busy(&Tolerated { left_behind: all, ..later }), []);
        assert_eq!(busy(&Tolerated { others: true, ..Tolerated::default() }), []);
    }

    #[test]
    fn a_gpu_whose_use_cannot_be_read_is_not_busy() {
        let states = open(&[("GPU1", "0000:02:00.0")]).unwrap();
        let nobody = Use { gpu: "GPU7".to_owned(), processes: 0, utilization: None };
        assert_eq!(states.user("GPU7", "0000:09:00.0".parse().unwrap(), &Tolerated::default()), nobody);
        assert_eq!(words(nobody), None);
    }

    #[test]
    fn utilisation_counts_only_where_it_stays_or_has_a_process() {
        let told = |processes, utilization| Use { gpu: "GPU0".to_owned(), processes, utilization };
        // what is read, one after the other, the last for ever; how often it is read; what comes of it
        let cases = [
            (vec![told(0, None)], 1, None),
            (vec![told(0, Some(100)), told(0, Some(50)), told(0, None)], 3, None),
            (vec![told(0, Some(100))], 1 + AGAIN.0, Some("100 % utilised")),
            (vec![told(1, Some(100))], 1, Some("1 other process, 100 % utilised")),
            (vec![told(0, Some(100)), told(2, None)], 2, Some("2 other processes")),
        ];
        for (told, times, wanted) in cases {
            let (mut reads, mut paused) = (0, Duration::ZERO);
            let read = || {
                reads += 1;
                vec![told[told.len().min(reads as usize) - 1].clone()]
            };
            let uses = settled(read, |time| paused += time);
            let how = uses.into_iter().filter_map(words).next().map(|(_, how)| how);
            assert_eq!((reads, how.as_deref()), (times, wanted), "{told:?}");
            assert!(paused == AGAIN.1 * (times - 1) && paused <= Duration::from_secs(2));
        }
    }
}
