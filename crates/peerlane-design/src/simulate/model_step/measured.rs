//! A step that was measured, and how fast its GPUs compute by it.

use super::super::SimulateError;
use super::compute::Gpu;
use super::rates::Rates;
use super::split::{Pace, Training};
use super::training::Stepper;
use crate::cluster::Cluster;

/// `12.3s@64`, with what differs from the step that is asked for: `12.3s@64,pp=2,batch=256`.
#[derive(Clone, Debug, PartialEq)]
pub struct Measured {
    /// Seconds.
    pub time: f64,
    /// GPUs.
    pub gpus: usize,
    /// What differs.
    pub words: String,
}

impl std::str::FromStr for Measured {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || {
            format!(
                "'{text}': write TIME@GPUS as 12.3s@64 or 850ms@64, and after a comma what differs: ,pp=2,batch=256"
            )
        };
        let (time, rest) = text.split_once('@').ok_or_else(wrong)?;
        let (gpus, words) = rest.split_once(',').unwrap_or((rest, ""));
        let time = time.trim();
        let (number, unit) =
            time.strip_suffix("ms").map_or((time.strip_suffix('s').unwrap_or(time), 1.0), |ms| (ms, 1e-3));
        let time = number.trim().parse::<f64>().ok().map(|n| n * unit).filter(|t| t.is_finite() && *t > 0.0);
        let gpus = gpus.trim().parse::<usize>().ok().filter(|n| *n > 0);
        Ok(Measured { time: time.ok_or_else(wrong)?, gpus: gpus.ok_or_else(wrong)?, words: words.trim().to_owned() })
    }
}

impl std::fmt::Display for Measured {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}s@{}", self.time, self.gpus)?;
        if self.words.is_empty() { Ok(()) } else { write!(f, ",{}", self.words) }
    }
}

impl Measured {
    /// The step that was measured.
    ///
    /// # Errors
    /// Where what differs is not known.
    pub fn step(&self, like: &Training) -> Result<Training, SimulateError> {
        let key = |word: &str| word.split('=').next().unwrap_or(word).trim().to_owned();
        let changed: Vec<String> = self.words.split(',').map(key).collect();
        let same = |a: &str| match a {
            "micro" | "batch" => changed.iter().any(|word| word == "micro" || word == "batch"),
            "seq" => changed.iter().any(|word| word == "seq" || word == "tokens"),
            "sp" | "no-sp" => changed.iter().any(|word| word == "sp" || word == "no-sp"),
            key => changed.iter().any(|word| word == key),
        };
        let words = like.words();
        let kept = words.split_once(':').map_or("", |(_, rest)| rest).split(',').filter(|word| {
            let key = key(word);
            key != "dp" && !same(&key)
        });
        let all: Vec<&str> = kept.chain(self.words.split(',').filter(|word| !word.is_empty())).collect();
        Training::read(&all.join(","))
    }

    /// How fast its GPUs compute, over what they are taken for otherwise.
    ///
    /// # Errors
    /// Where the cluster has fewer GPUs, the split does not fit, or the time is none that GPUs like these can take.
    pub fn scale(&self, like: &Training, cluster: &Cluster) -> Result<f64, SimulateError> {
        let refuse = |why: String| Err(SimulateError::Workload(format!("--step-time {self}: {why}")));
        let places = cluster.places().len();
        if self.gpus > places {
            return refuse(format!("{} has {places} GPUs", cluster.name));
        }
        if like.pace != Pace::Roofline {
            return refuse("tflops= and mfu= say how fast a GPU computes, too: leave one of them out".to_owned());
        }
        let step = self.step(like)?;
        let mut rates = Rates::new(cluster, self.gpus, None)?;
        let mut time = |scale: f64| -> Result<f64, SimulateError> {
            let gpu = Gpu::of(cluster, step.format, step.pace, step.memory, scale)?;
            Ok(Stepper::new(&step, &gpu, self.gpus)?.cost(&mut rates)?.time())
        };
        let (mut slow, mut fast) = (1e-4_f64, 1e4_f64);
        let (least, most) = (time(fast)?, time(slow)?);
        if self.time <= least || self.time >= most {
            return refuse(format!(
                "it takes at least {least:.4} s for communication alone, and {:.4} s as GPUs are taken to compute",
                time(1.0)?
            ));
        }
        for _ in 0..60 {
            let middle = (slow * fast).sqrt();
            if time(middle)? > self.time { slow = middle } else { fast = middle }
        }
        let scale = (slow * fast).sqrt();
        let gpu = Gpu::of(cluster, step.format, step.pace, step.memory, scale)?;
        if gpu.products > gpu.peak {
            return refuse(format!(
                "GPUs would do {:.0} % of the operations a second that their data sheet has: is it the step of this split?",
                gpu.products / gpu.peak * 100.0
            ));
        }
        Ok(scale)
    }
}
