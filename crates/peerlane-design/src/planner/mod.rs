//! Which split of a model over a cluster trains fastest: all that fit the memory, with what each takes and why it loses to the first.

mod document;
mod search;

pub use document::{Loss, PlanDocument, PlannedSplit, TooLarge};
pub use search::{Found, Planned, WORTH_A_KIND, candidates, kinds, search};

use crate::cluster::Cluster;
use crate::simulate::SimulateError;
use crate::simulate::model_step::compute::Gpu;
use crate::simulate::model_step::measured::Measured;
use crate::simulate::model_step::rates::Rates;
use crate::simulate::model_step::split::{Batch, Training};

/// Most sequences or tokens of a step.
const MOST: f64 = 1e9;

/// What is asked for.
#[derive(Clone, Debug, PartialEq)]
pub struct Request {
    /// The model and its batch; its split is not looked at.
    pub job: Training,
    /// A step that was measured.
    pub measured: Option<Measured>,
    /// How many splits are shown.
    pub top: usize,
}

/// How much a step trains.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Amount {
    /// Sequences.
    Sequences(usize),
    /// Tokens, rounded to whole sequences.
    Tokens(f64),
}

impl std::str::FromStr for Amount {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("'{text}': write sequences as 512, or tokens as 4M or 512K (K is 1024)");
        let lower = text.trim().to_lowercase();
        let of = |number: &str, times: f64| {
            number.parse::<f64>().ok().map(|n| n * times).filter(|n| n.is_finite() && *n >= 1.0 && *n <= MOST * 64.0)
        };
        let tokens = lower
            .strip_suffix('m')
            .map(|n| of(n, 1_048_576.0))
            .or_else(|| lower.strip_suffix('k').map(|n| of(n, 1024.0)));
        match tokens {
            Some(tokens) => tokens.map(Amount::Tokens).ok_or_else(wrong),
            None => {
                let n = lower.parse::<usize>().ok().filter(|n| (1..=MOST as usize).contains(n));
                n.map(Amount::Sequences).ok_or_else(wrong)
            }
        }
    }
}

impl Request {
    /// A model by name or by `key=value`, with options of a step of training behind it.
    ///
    /// # Errors
    /// Names what is wrong.
    pub fn new(
        model: &str,
        amount: Amount,
        seq: Option<usize>,
        options: &str,
        measured: Option<Measured>,
        top: usize,
    ) -> Result<Self, SimulateError> {
        let model = if model.contains('=') { model.to_owned() } else { format!("model={model}") };
        let seq = seq.map_or_else(String::new, |seq| format!(",seq={seq}"));
        let mut job = Training::read(&format!("{model}{seq},{options}"))?;
        let sequences = match amount {
            Amount::Sequences(n) => n,
            Amount::Tokens(tokens) => (tokens / job.seq as f64).round().max(1.0) as usize,
        };
        job.batch = Batch::Sequences(sequences);
        Ok(Request { job, measured, top })
    }

    /// The fastest splits on all GPUs of a cluster that take part.
    ///
    /// # Errors
    /// Where nothing divides the model and the batch over the GPUs, nothing fits their memory, or a rate is not known.
    pub fn plan(&self, cluster: &Cluster) -> Result<PlanDocument, SimulateError> {
        let job = &self.job;
        let gpus = cluster.places().len();
        let scale = self.measured.as_ref().map_or(Ok(1.0), |measured| measured.scale(job, cluster))?;
        let gpu = Gpu::of(cluster, job.format, job.pace, job.memory, scale)?;
        let mut rates = Rates::new(cluster, gpus, None)?;
        let splits = candidates(job, gpus, rates.node_size());
        let found = search(job, &gpu, gpus, &splits, &mut rates, self.top)?;
        let Batch::Sequences(batch) = job.batch else {
            return Err(SimulateError::Workload("plan: the batch is a number of sequences".to_owned()));
        };
        let refuse = |why: String| Err(SimulateError::Workload(format!("plan: {why}")));
        if found.splits == 0 {
            return refuse(format!(
                "no split of {} divides {gpus} GPUs and a batch of {batch} sequences of {} tokens: try a batch that is a multiple of \
                 more of {gpus}, or other numbers of GPUs (--use-nodes)",
                job.model.name, job.seq
            ));
        }
        if found.best.is_empty() {
            let least = found.least_memory / 1e9;
            let size = gpu.memory.unwrap_or(f64::NAN) / 1e9;
            return refuse(format!(
                "none of {} splits fits {gpus} × {} GB; the smallest takes {least:.0} GB a GPU: give more --nodes, or shorter \
                 sequences",
                found.splits, size
            ));
        }
        Ok(document::document(job, &gpu, cluster, &found, &rates, self.measured.as_ref()))
    }
}

#[cfg(test)]
mod tests;
