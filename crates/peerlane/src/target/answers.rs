//! Answers about what was opened: the documents that the commands write for `--json`.

mod explanation;
mod prediction;

use std::ffi::OsStr;

use peerlane_design::case::Case;
use peerlane_design::cluster::Cluster;
use peerlane_design::compare::{self, ComparisonDocument, Subject};
use peerlane_design::infer::{Inference, recorded};
use peerlane_design::place::{self, PlacementDocument, Request};
use peerlane_design::simulate::result::{Job, SimulationDocument, simulate};
use peerlane_design::simulate::workload::Workload;
use peerlane_judge::accuracy::{Accuracy, evaluate_cases};
use peerlane_judge::check::Settings;
use peerlane_machine::machine::Machine;
use peerlane_machine::units::Bytes;
use peerlane_model::assumptions::Assumptions;
use peerlane_model::comparison::{Comparison, MachineComparison};
use peerlane_model::model::{Assume, Model};
use peerlane_read::catalogue::Parts;

use super::{OpenError, Opened, changed, known_names};
use crate::export::json::{CheckDocument, ExplanationDocument, MachineCheck, PredictionDocument};
use peerlane_design::what_if::Edit;

pub use explanation::explain;
pub use prediction::{predict, predict_usual};

/// Suffix of the name of a changed design.
const CHANGED: &str = " (what if)";

impl Opened {
    /// What is wrong with the machines, as `check --json` reports it.
    pub fn check(&self, settings: &Settings) -> CheckDocument {
        let check = |case: &Case| {
            let model = Model::new(&case.machine, Parts::embedded());
            let comparison = Comparison::of(&model);
            let checked = MachineCheck::of(case, &comparison, settings, Vec::new());
            MachineCheck { comparison: Some(MachineComparison::of(&comparison)), ..checked }
        };
        let document = CheckDocument::new(self.cases.iter().map(check).collect());
        CheckDocument { coverage: self.coverage.clone(), ..document }
    }

    /// What the machines should deliver, as `predict --json` reports it: copies and messages of these sizes, and collectives
    /// of those.
    pub fn predict(&self, sizes: &[Bytes], collectives: &[Bytes]) -> PredictionDocument {
        let predict = |machine: &Machine| {
            let assumed = Assumptions::of(machine, Parts::embedded());
            let model = assumed.model(Parts::embedded(), Assume::Usual);
            predict(machine, &assumed, &Comparison::of(&model), sizes, collectives)
        };
        PredictionDocument::new(self.machines().map(predict).collect())
    }

    /// The path between two nodes of the first machine that has both, as `explain --json` reports it.
    ///
    /// # Errors
    /// Where no machine has both, or they are the same.
    pub fn explain(&self, a: &str, b: &str) -> Result<ExplanationDocument, OpenError> {
        let Some(first) = self.machines().next() else { return Err(OpenError::new("no machine found")) };
        explain(self.machines().find(|machine| machine.lookup_pair(a, b).is_ok()).unwrap_or(first), a, b)
    }

    /// How long a workload takes on each cluster and machine, as `simulate --json` reports it.
    ///
    /// # Errors
    /// Where one cannot carry it out.
    pub fn simulate(&self, workload: &Workload, sizes: &[Bytes]) -> Result<Vec<SimulationDocument>, OpenError> {
        let machines: &[Case] = if self.clusters.is_empty() { &self.cases } else { &[] };
        let single = machines.iter().map(|case| {
            let parts = Parts::embedded();
            Cluster::single(Assumptions::of(&case.machine, parts).assumed_machine(parts))
        });
        let simulated = self.clusters.iter().cloned().chain(single).map(|cluster| {
            let job = Job::of(workload.clone(), sizes.to_vec(), &cluster)?;
            simulate(&cluster, &job, true).map(|(document, _)| document)
        });
        simulated.collect::<Result<_, _>>().map_err(|e| OpenError::new(e.to_string()))
    }

    /// Where jobs should run on the only machine or cluster, as `place --json` reports it.
    ///
    /// # Errors
    /// Where there are several, or the jobs do not fit.
    pub fn place(&self, request: &Request) -> Result<PlacementDocument, OpenError> {
        let refused = |e: place::PlaceError| OpenError::new(e.to_string());
        if let [cluster] = self.clusters.as_slice() {
            return place::place_across(cluster, request).map_err(refused);
        }
        let machine = &self.the_only("jobs are placed on one machine")?.machine;
        let assumed = Assumptions::of(machine, Parts::embedded());
        let model = assumed.model(Parts::embedded(), Assume::Usual);
        let document = place::place(&model, request).map_err(refused)?;
        Ok(PlacementDocument { assumptions: assumed.sentences(&model), ..document })
    }

    /// Which transfers share a limit that no topology shows, from the numbers that are known of the only machine.
    ///
    /// # Errors
    /// Where there are several machines.
    pub fn infer(&self) -> Result<Inference, OpenError> {
        let case = self.the_only("limits are inferred for one machine")?;
        let source = if case.run.is_some() { "from a recorded run" } else { "from published numbers" };
        Ok(recorded(&case.machine, case.run(), source))
    }

    /// How far predictions are from every number that was measured of the machines or published.
    ///
    /// # Errors
    /// Where there is no such number.
    pub fn accuracy(&self) -> Result<Accuracy, OpenError> {
        let accuracy = evaluate_cases(&self.cases, Parts::embedded());
        if accuracy.targets.is_empty() {
            return Err(OpenError::new(
                "no figure to compare with: no bandwidth, latency or collective was measured or published",
            ));
        }
        Ok(accuracy)
    }
}

/// The designs of a comparison, by names of which no two are alike: those of each target, and what edits make of them.
///
/// # Errors
/// Where an edit is for no machine, or cannot be applied.
pub fn designs<T: AsRef<OsStr>>(
    opened: impl IntoIterator<Item = (T, Opened)>,
    edits: &[Edit],
) -> Result<Vec<(String, Case)>, OpenError> {
    let opened: Vec<(String, Case)> = opened
        .into_iter()
        .flat_map(|(target, opened)| {
            let target = target.as_ref().to_string_lossy().into_owned();
            opened.cases.into_iter().map(move |case| (target.clone(), case))
        })
        .collect();
    // records of one machine have the names that a person gave them
    let alike = |name: &str| opened.iter().filter(|(_, case)| case.machine.name == name).count() > 1;
    let own: Vec<bool> = opened.iter().map(|(_, case)| case.run().is_none() || !alike(&case.machine.name)).collect();
    let mut all: Vec<(String, Case)> = Vec::new();
    for ((target, case), own) in opened.into_iter().zip(own) {
        let name = if own { &case.machine.name } else { stem(&target) };
        let name = free_name(&all, name, &target);
        all.push((name, case));
    }
    known_names(edits, all.iter().map(|(_, case)| &case.machine))?;
    let mut compared = Vec::with_capacity(all.len());
    for (name, case) in all {
        let after = changed(&case.machine, edits)?;
        compared.push((name.clone(), case));
        compared.extend(after.map(|machine| (format!("{name}{CHANGED}"), Case::from(machine))));
    }
    Ok(compared)
}

/// Designs side by side, as `compare --json` reports it.
pub fn compare(designs: &[(String, Case)]) -> ComparisonDocument {
    let subjects: Vec<Subject> =
        designs.iter().map(|(name, case)| Subject { name, machine: &case.machine, run: case.run() }).collect();
    compare::compare(&subjects, Parts::embedded())
}

/// A record's name without its folder and ending.
fn stem(target: &str) -> &str {
    let file = target.rsplit(['/', '\\']).next().unwrap_or(target);
    file.strip_suffix(".json").filter(|stem| !stem.is_empty()).unwrap_or(file)
}

/// A unique name: the machine's, else the file's, else one with a number.
fn free_name(all: &[(String, Case)], own: &str, target: &str) -> String {
    let taken = |name: &str| all.iter().any(|(n, _)| n == name);
    let file = target.rsplit('/').next().unwrap_or(target);
    let numbered = (2..).map(|i| format!("{own} #{i}"));
    [own.to_owned(), file.to_owned()].into_iter().chain(numbered).find(|n| !taken(n)).unwrap_or_default()
}
