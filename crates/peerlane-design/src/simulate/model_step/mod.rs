//! A step of a model, computed from what each part of it takes: training with data, tensor, sequence, context, pipeline and expert
//! parallelism, and inference. The planner searches over the same costs.
//!
//! [`architecture`] says what a model is, [`split`] how it is spread, [`compute`] how long a GPU computes, [`rates`] how long ranks
//! communicate, [`memory`] what a GPU holds, [`training`] and [`serving`] what a step takes; [`report`] is the document of it and [`timeline`] its
//! picture.

pub mod architecture;
pub mod compute;
pub mod measured;
pub mod memory;
pub mod rates;
pub mod report;
pub mod serving;
pub mod spent;
pub mod split;
pub mod timeline;
pub mod training;

use super::SimulateError;
use crate::cluster::{Cluster, Component};
use compute::Gpu;
use measured::Measured;
use rates::Rates;
use report::{Holding, StepSummary};
use serving::{Phase, Serving};
use split::{Batch, Training};

/// What a step is of.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// Training.
    Training(Box<Training>),
    /// Inference.
    Serving(Box<Serving>),
}

/// Names of steps, as they stand before `:`.
pub const STEPS: [&str; 4] = ["training", "decode", "prefill", "serve"];

impl Step {
    /// The step of that name, with what stands behind it; `None` where no step has the name.
    ///
    /// # Errors
    /// Names the argument that is wrong.
    pub fn read(name: &str, text: &str) -> Option<Result<Self, SimulateError>> {
        let serving = |phase| Serving::read(phase, text).map(|serving| Step::Serving(Box::new(serving)));
        Some(match name {
            "training" => Training::read(text).map(|training| Step::Training(Box::new(training))),
            "decode" => serving(Phase::Decode),
            "prefill" => serving(Phase::Prefill),
            "serve" => serving(Phase::Serve),
            _ => return None,
        })
    }

    /// As it is written.
    pub fn words(&self) -> String {
        match self {
            Step::Training(training) => training.words(),
            Step::Serving(serving) => serving.words(),
        }
    }

    /// The step for `ratio` times as many GPUs: with as much to do on each where it is `weak`, else with as much in all.
    ///
    /// # Errors
    /// Where the batch is not divided so.
    pub fn scaled(&self, ratio: f64, weak: bool) -> Result<Self, SimulateError> {
        let Step::Training(training) = self else {
            let why =
                format!("{}: copies serve prompts of their own, so that it scales with their number", self.words());
            return Err(SimulateError::Workload(why));
        };
        let times = |n: usize, ratio: f64| -> Result<usize, SimulateError> {
            let scaled = n as f64 * ratio;
            let whole = scaled.round();
            if whole < 1.0 || (scaled - whole).abs() > 1e-9 * scaled {
                return Err(SimulateError::Workload(format!(
                    "{}: {n} sequences do not divide by {}",
                    self.words(),
                    1.0 / ratio
                )));
            }
            Ok(whole as usize)
        };
        let mut training = training.clone();
        training.batch = match (training.batch, weak) {
            (Batch::Micro(n), true) => Batch::Micro(n),
            (Batch::Micro(n), false) => Batch::Micro(times(n, 1.0 / ratio)?),
            (Batch::Sequences(n), true) => Batch::Sequences(times(n, ratio)?),
            (Batch::Sequences(n), false) => Batch::Sequences(n),
        };
        if training.split.dp > 0 {
            training.split.dp = times(training.split.dp, ratio)?;
        }
        Ok(Step::Training(training))
    }

    /// What it takes on all GPUs of a cluster that take part. `faster` is a component that carries a multiple of what it does.
    ///
    /// # Errors
    /// Where it does not fit the GPUs, or a rate is not known.
    pub fn summary(
        &self,
        cluster: &Cluster,
        measured: Option<&Measured>,
        faster: Option<(Component, f64)>,
    ) -> Result<(StepSummary, Vec<Holding>), SimulateError> {
        let gpus = cluster.places().len();
        let (format, pace, memory) = match self {
            Step::Training(training) => (training.format, training.pace, training.memory),
            Step::Serving(serving) => (serving.format, serving.pace, serving.memory),
        };
        let scale = match (measured, self) {
            (Some(measured), Step::Training(training)) => measured.scale(training, cluster)?,
            (Some(_), Step::Serving(_)) => {
                let why = "a measured step is one of training: give tflops= or mfu= for inference";
                return Err(SimulateError::Workload(why.to_owned()));
            }
            (None, _) => 1.0,
        };
        let gpu = Gpu::of(cluster, format, pace, memory, scale)?;
        let mut rates = Rates::new(cluster, gpus, faster)?;
        match self {
            Step::Training(training) => {
                let cost = training::Stepper::new(training, &gpu, gpus)?.cost(&mut rates)?;
                let held = report::holding(&cost.spent, &cost.communication, &rates);
                Ok((report::of_training(training, &gpu, &cost, &rates), held))
            }
            Step::Serving(serving) if serving.phase == Phase::Serve => {
                let mut rates = rates.in_graphs();
                let apart = serving.apart(&gpu, gpus, &mut rates)?;
                let held = report::holding(&apart.decode.spent, &apart.decode.communication, &rates);
                Ok((report::of_both(serving, &gpu, &apart, &rates), held))
            }
            Step::Serving(serving) => {
                let mut rates = rates.in_graphs();
                let served = serving.cost(&gpu, gpus, &mut rates)?;
                let held = report::holding(&served.spent, &served.communication, &rates);
                Ok((report::of_serving(serving, &gpu, &served, &rates), held))
            }
        }
    }
}

#[cfg(test)]
mod tests;
