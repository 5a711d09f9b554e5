//! What keeps a machine from being measured, or judged, without being its fault.

use std::ffi::OsStr;

use peerlane::evidence::nvml::{Gpu, Snapshot};

/// What is visible of a machine.
pub(super) struct View<'a> {
    /// What NVML reports.
    pub(super) snapshot: Option<&'a Snapshot>,
    /// NVIDIA's GPUs on the PCI bus.
    pub(super) on_bus: usize,
    /// Whether a server of MPS runs.
    pub(super) mps: bool,
    /// `CUDA_VISIBLE_DEVICES`
    pub(super) visible: Option<&'a OsStr>,
}

impl View<'_> {
    fn gpus(&self) -> &[Gpu] {
        self.snapshot.map_or(&[], |snapshot| &snapshot.gpus)
    }

    /// GPUs that the machine has, as far as can be seen.
    pub(super) fn present(&self) -> usize {
        self.on_bus.max(self.gpus().len())
    }

    /// Why the visible GPUs are not the whole machine.
    pub(super) fn hidden(&self) -> Option<String> {
        let seen = self.gpus().len();
        if self.snapshot.is_some() && seen < self.on_bus {
            return Some(format!("only {seen} of {} GPUs are visible here (cgroup or container)", self.on_bus));
        }
        let listed = self.visible.map(|list| {
            let list = list.to_string_lossy();
            list.split(',').map(str::trim).take_while(|one| !one.is_empty() && !one.starts_with('-')).count()
        });
        match listed {
            Some(listed) if listed < seen => Some(format!("CUDA_VISIBLE_DEVICES shows {listed} of {seen} GPUs")),
            _ => None,
        }
    }

    /// Whether processes use a GPU.
    pub(super) fn is_used(&self) -> bool {
        self.gpus().iter().any(has_processes)
    }

    /// Why nothing may be measured now.
    pub(super) fn occupied(&self) -> Option<String> {
        let named = |with: &dyn Fn(&Gpu) -> bool| -> Option<String> {
            let all: Vec<String> = self.gpus().iter().filter(|g| with(g)).map(|g| format!("GPU{}", g.index)).collect();
            match all.as_slice() {
                [] => None,
                [one] => Some(format!("{one} is")),
                few if few.len() <= 3 => Some(format!("{} are", few.join(", "))),
                many => Some(format!("{} GPUs are", many.len())),
            }
        };
        let used = named(&has_processes);
        let partitioned = named(&|gpu| gpu.modes.mig == Some(true));
        let restricted = named(&|gpu| gpu.modes.compute.as_deref().is_some_and(|mode| mode != "Default"));
        let mps = self.mps.then(|| "a server of MPS runs".to_owned());
        let with = |names: Option<String>, what: &str| names.map(|names| format!("{names} {what}"));
        with(used, "in use")
            .or(mps)
            .or(with(partitioned, "in MIG mode"))
            .or(with(restricted, "in exclusive or prohibited compute mode"))
    }
}

fn has_processes(gpu: &Gpu) -> bool {
    gpu.processes.as_ref().is_some_and(|all| !all.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use peerlane::evidence::nvml::Process;

    fn snapshot(edit: impl Fn(&mut Gpu)) -> Snapshot {
        let mut gpus: Vec<Gpu> = (0..2).map(|index| Gpu { index, ..Gpu::default() }).collect();
        edit(&mut gpus[1]);
        Snapshot { gpus, ..Snapshot::default() }
    }

    fn view(snapshot: &Snapshot) -> View<'_> {
        View { snapshot: Some(snapshot), on_bus: 2, mps: false, visible: None }
    }

    #[test]
    fn jobs_and_modes_keep_it_from_being_measured() {
        let occupied = |edit: &dyn Fn(&mut Gpu)| view(&snapshot(edit)).occupied();
        assert_eq!(occupied(&|_| {}), None);
        assert_eq!(occupied(&|gpu| gpu.processes = Some(vec![Process::default()])).unwrap(), "GPU1 is in use");
        assert_eq!(occupied(&|gpu| gpu.processes = Some(Vec::new())), None);
        assert_eq!(occupied(&|gpu| gpu.modes.mig = Some(true)).unwrap(), "GPU1 is in MIG mode");
        let mode = |mode: &'static str| move |gpu: &mut Gpu| gpu.modes.compute = Some(mode.to_owned());
        assert!(occupied(&mode("Exclusive Process")).unwrap().contains("exclusive"));
        assert_eq!(occupied(&mode("Default")), None);
        let idle = snapshot(|_| {});
        assert!(View { mps: true, ..view(&idle) }.occupied().unwrap().contains("MPS"));
    }

    #[test]
    fn a_part_of_the_machine_is_not_judged() {
        let two = snapshot(|_| {});
        assert_eq!(view(&two).hidden(), None);
        assert!(View { on_bus: 8, ..view(&two) }.hidden().unwrap().contains("2 of 8 GPUs"));
        let listed = |list: &str| View { visible: Some(OsStr::new(list)), ..view(&two) }.hidden();
        assert_eq!((listed("0,1"), listed("GPU-a,GPU-b")), (None, None));
        for list in ["", "1", "-1", "0,-1", "NoDevFiles"] {
            assert!(listed(list).is_some(), "{list}");
        }
        // a masked bus hides nothing from the driver
        assert_eq!(View { on_bus: 0, ..view(&two) }.hidden(), None);
    }
}
