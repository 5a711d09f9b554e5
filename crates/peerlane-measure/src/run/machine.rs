//! The machine of a run, rebuilt from the record alone, with what was measured on it.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::{Cell, FlagKind, GpuState, Limits, Run, RunError, SourceText, Subject, ends, matrices};
use peerlane_machine::fabric::NodeKind;
use peerlane_machine::fact::{Evidence, Fact, GpuFacts};
use peerlane_machine::machine::{Machine, SourcedMatrix};
use peerlane_machine::names::list;
use peerlane_machine::origin::{Origin, Warning};
use peerlane_read::assemble::assemble;
use peerlane_read::catalogue;
use peerlane_read::evidence::{Found, Text, scan_text};

/// What measured the numbers of a run.
pub const TOOL: &str = "peerlane measure";

/// A system file is written by hand; 4 MiB is far above any.
const MAX_SYSTEM_BYTES: usize = 4 << 20;

impl Subject {
    /// The machine without numbers.
    ///
    /// # Errors
    /// There is neither a system file nor texts that can be read.
    pub fn machine(&self) -> Result<Machine, RunError> {
        let subject = self;
        if let Some(system) = &subject.system {
            if system.len() > MAX_SYSTEM_BYTES {
                return Err(RunError::Machine("its system file is too large".to_owned()));
            }
            let read = catalogue::read_system(system, &subject.target).map_err(|e| RunError::Machine(e.to_string()));
            return read.map(without_numbers);
        }
        if subject.evidence.is_empty() {
            return match catalogue::system(&subject.target) {
                Some(read) => read.map(without_numbers).map_err(|e| RunError::Machine(e.to_string())),
                None => Err(RunError::Machine("the record has no text of it".to_owned())),
            };
        }
        machine_of_texts(&subject.evidence, &subject.name)
            .ok_or_else(|| RunError::Machine("its texts name no GPU, NIC or path".to_owned()))
    }
}

impl Run {
    /// The machine with the run's numbers.
    ///
    /// Fails where the record has neither a system file nor texts of the machine that can be read.
    pub fn machine(&self) -> Result<Machine, RunError> {
        self.machine_of("run")
    }

    /// The same; origins name `file` as where the numbers stand.
    pub fn machine_of(&self, file: &str) -> Result<Machine, RunError> {
        let mut machine = self.machine.machine()?;
        let cells = Limits::of(&machine).flagged(&self.cells);
        let origin = Origin { source: Arc::from(file), tool: TOOL, lines: None };
        let (all, left_out) = matrices::grouped(&cells);
        for of in all.into_iter().filter(|of| of.matrix.values.iter().flatten().any(Option::is_some)) {
            let spread = of.spread(&cells);
            let (origin, also) = (origin.clone(), Vec::new());
            let (matrix, published, known_cause) = (of.matrix, false, None);
            machine.matrices.push(SourcedMatrix { matrix, origin, also, published, known_cause, spread });
        }
        machine.curves.extend(matrices::curves(&cells).into_iter().map(|curve| (curve, origin.clone())));
        machine.evidence.extend(self.states(&origin));
        let warn = |message: String| Warning::at(&origin, message);
        machine.warnings.extend(self.incomplete().map(warn));
        machine.warnings.extend(troubles(&cells).into_iter().map(warn));
        machine.warnings.extend(self.replays().map(warn));
        if left_out > 0 {
            let message = format!("{left_out} numbers are left out: they are between more nodes than any machine has");
            machine.warnings.push(warn(message));
        }
        Ok(machine)
    }

    /// What the GPUs reported right after the run.
    fn states(&self, origin: &Origin) -> Option<Evidence> {
        let facts = |state: &GpuState| GpuFacts {
            node: Some(state.gpu.clone()),
            temperature: state.temperature_c,
            power: state.power_w,
            utilization: state.utilization.map(f64::from),
            clock_event_reasons: state.clock_event_reasons.clone(),
            replays: state.pcie_replays,
            ..GpuFacts::default()
        };
        let gpus: Vec<GpuFacts> = self.conditions.after.iter().map(facts).collect();
        (!gpus.is_empty()).then(|| Evidence { origin: origin.clone(), fact: Fact::Gpus(gpus) })
    }

    /// A sentence on steps without an answer.
    fn incomplete(&self) -> Option<String> {
        let (done, all) = (self.steps_done().len(), self.plan.steps().count());
        match all.saturating_sub(done) {
            0 if self.complete => None,
            0 => Some("the run broke off before its end; all of its steps have an answer".to_owned()),
            open => Some(format!("the run is not complete: {open} of {all} steps have no answer")),
        }
    }

    /// A sentence on PCIe links that had to repeat packets during the run.
    fn replays(&self) -> Option<String> {
        let conditions = &self.conditions;
        let rises = conditions.after.iter().filter_map(|after| {
            let before = conditions.before.iter().find(|b| b.gpu == after.gpu)?.pcie_replays?;
            let more = after.pcie_replays?.checked_sub(before).filter(|more| *more > 0)?;
            Some(format!("{} {more}", after.gpu))
        });
        let rises: Vec<String> = rises.take(64).collect();
        let what = "PCIe packets had to be sent again during the run, which points at a bad link";
        (!rises.is_empty()).then(|| format!("{what}: {}", rises.join(", ")))
    }
}

/// Without the numbers that its description states: they are of another machine of the kind, or of another time.
fn without_numbers(mut machine: Machine) -> Machine {
    machine.matrices.clear();
    machine.curves.clear();
    machine.statements.clear();
    machine
}

/// The machine of that name that printed these texts; `None` where they name no GPU, NIC or path.
pub fn machine_of_texts(texts: &[SourceText], name: &str) -> Option<Machine> {
    let mut found = Found::default();
    for source in texts {
        found.append(scan_text(&Text::new(&source.name, source.text.as_bytes())));
    }
    // one host printed all of it: what is taken for a second machine is a fragment
    let devices = |m: &Machine| {
        let of = |kind| m.fabric.of_kind(kind).count();
        (of(NodeKind::Gpu), of(NodeKind::Nic))
    };
    let mut machine = assemble(found).into_iter().rev().max_by_key(devices)?;
    machine.name = name.to_owned();
    Some(machine)
}

/// A sentence for each kind of trouble that cells had.
fn troubles(cells: &[Cell]) -> Vec<String> {
    let mut kinds: BTreeMap<FlagKind, Vec<(&Cell, &str)>> = BTreeMap::new();
    for cell in cells {
        for flag in &cell.flags {
            let worth = flag.kind.voids() && flag.kind != FlagKind::NotApplicable || flag.kind == FlagKind::Busy;
            if worth {
                kinds.entry(flag.kind).or_default().push((cell, &flag.detail));
            }
        }
    }
    let sentence = |(kind, cells): (FlagKind, Vec<(&Cell, &str)>)| {
        let mut names: Vec<String> = cells.iter().map(|(cell, _)| ends(&cell.work)).collect();
        let mut named = std::collections::HashSet::new();
        names.retain(|name| named.insert(name.clone()));
        let what = match kind {
            FlagKind::Corrupt => "did not arrive as sent, so that their rates are not used",
            FlagKind::Implausible => "cannot be true, so that their values are not used",
            FlagKind::Hung => "did not end in time",
            FlagKind::Busy => "were measured while other programs used the GPUs",
            _ => "failed",
        };
        let detail = cells.first().map(|(_, detail)| *detail).filter(|d| !d.is_empty());
        let detail = detail.map(|d| format!(" ({d})")).unwrap_or_default();
        let n = if cells.len() == 1 { "1 cell".to_owned() } else { format!("{} cells", cells.len()) };
        format!("{n} {what}: {}{detail}", list(&names))
    };
    kinds.into_iter().map(sentence).collect()
}

#[cfg(test)]
mod tests {
    use super::super::testing::{cell, moving, run, void};
    use super::*;
    use crate::plan::Test;
    use crate::run::SourceText;
    use peerlane_machine::transfer::Transfer;

    const TOPO: &str = "\tGPU0\tGPU1\tCPU Affinity\nGPU0\t X \tPIX\t0-15\nGPU1\tPIX\t X \t0-15\n";

    fn measured(kind: Option<FlagKind>) -> Run {
        let steps = [("GPU0", "GPU1"), ("GPU1", "GPU0")].map(|(a, b)| moving(Test::Pairs, &[Transfer::new(a, b)]));
        let mut run = run("h200x4-vm", steps.to_vec());
        run.complete = true;
        run.cells = vec![cell(0, &steps[0], 396.0)];
        run.cells.push(kind.map_or_else(|| cell(1, &steps[1], 395.0), |kind| void(1, &steps[1], kind)));
        run
    }

    #[test]
    fn a_virtual_machine_comes_back_with_its_numbers() {
        let run = measured(Some(FlagKind::Hung));
        let machine = run.machine_of("run.json").unwrap();
        assert_eq!(
            (machine.name.as_str(), machine.matrices.len()),
            ("h200x4-vm", 1),
            "those of the catalogue are not the run's"
        );
        let own = machine.matrices.last().unwrap();
        assert_eq!((own.origin.to_string(), own.published), ("run.json (peerlane measure)".to_owned(), false));
        assert_eq!(own.matrix.values[0][1], Some(396.0));
        assert_eq!(own.spread[0][1].map(|s| s.n), Some(12));
        let warnings: Vec<&str> = machine.warnings.iter().map(|w| w.message.as_str()).collect();
        assert_eq!(warnings, ["1 cell did not end in time: GPU1→GPU0 (no sign of life for 20 s)"]);
    }

    #[test]
    fn an_unfinished_run_says_so() {
        let mut run = measured(None);
        run.complete = false;
        let warnings =
            |run: &Run| run.machine().unwrap().warnings.iter().map(|w| w.message.clone()).collect::<Vec<_>>();
        assert_eq!(warnings(&run), ["the run broke off before its end; all of its steps have an answer"]);
        run.cells.pop();
        assert_eq!(warnings(&run), ["the run is not complete: 1 of 2 steps have no answer"]);
    }

    #[test]
    fn a_live_machine_comes_back_from_its_texts() {
        let mut run = measured(None);
        run.machine.system = None;
        run.machine.name = "box".to_owned();
        run.machine.target = "live".to_owned();
        run.machine.evidence = vec![SourceText { name: "topo.txt".into(), text: TOPO.into() }];
        let state = |replays| GpuState {
            gpu: "GPU1".into(),
            temperature_c: Some(91.0),
            pcie_replays: Some(replays),
            ..GpuState::default()
        };
        run.conditions.before = vec![state(3)];
        run.conditions.after = vec![state(17)];
        let machine = run.machine().unwrap();
        assert_eq!((machine.name.as_str(), machine.fabric.devices().len()), ("box", 2));
        assert_eq!(machine.matrices[0].matrix.between("GPU1", "GPU0"), Some(395.0));
        assert!(machine.warnings[0].message.ends_with("a bad link: GPU1 14"), "{:?}", machine.warnings);
        let hot = |e: &Evidence| matches!(&e.fact, Fact::Gpus(g) if g[0].temperature == Some(91.0));
        assert!(machine.evidence.iter().any(hot));
    }

    #[test]
    fn a_machine_that_is_not_there_is_said() {
        let mut run = measured(None);
        run.machine.system = Some("nodes = 3".to_owned());
        assert!(matches!(run.machine(), Err(RunError::Machine(_))));
        run.machine.system = None;
        assert!(run.machine().is_ok(), "the catalogue knows h200x4-vm");
        run.machine.target = "live".to_owned();
        assert!(matches!(run.machine(), Err(RunError::Machine(_))));
        run.machine.evidence = vec![SourceText { name: "poem.txt".into(), text: "roses are red\n".into() }];
        assert!(matches!(run.machine(), Err(RunError::Machine(_))));
    }
}
