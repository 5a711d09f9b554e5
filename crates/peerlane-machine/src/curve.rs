//! Numbers against message size, and what they amount to: the rate that a table is of, and the highest.

use std::collections::BTreeMap;

use crate::schema::JsonSchema;
use serde::{Deserialize, Serialize, Serializer};

use crate::matrix::Unit;
use crate::names::gpu_number;
use crate::units::{Bytes, Rate};

/// Names of the columns that a benchmark is judged by, the foremost first: nccl-tests compares bus bandwidths, perftest's
/// peak is of one message.
const FOREMOST: [&str; 5] = ["busbw out-of-place", "busbw in-place", "bus bandwidth", "BW average", "Bandwidth"];

/// Columns of rates that others show better: the share of one rank, the peak of one message.
const SECONDARY: [&str; 3] = ["algbw", "algorithm bandwidth", "BW peak"];

/// Numbers against message size: nccl-tests, OSU, perftest, bandwidthTest's ranges.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Curve {
    /// Program or test: `ib_write_bw`, `all_reduce_perf`, `osu_bw`.
    pub what: String,
    /// Ends by name, where known: `mlx5_2`, `GPU0`, `host`.
    #[serde(default)]
    #[schemars(!default)]
    pub ends: Vec<String>,
    /// Message sizes in bytes.
    pub sizes: Vec<Bytes>,
    /// Columns, each as long as the sizes.
    pub series: Vec<Series>,
    /// Settings the source prints that matter to a reader: MTU, link type, number of ranks.
    #[serde(default)]
    #[schemars(!default)]
    pub settings: BTreeMap<String, String>,
}

/// One column of a [`Curve`], as long as its sizes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Series {
    /// `BW average`, `busbw out-of-place`, `MsgRate`.
    pub name: String,
    /// Unit; a count has none.
    pub unit: Option<Unit>,
    /// The values.
    #[serde(serialize_with = "none_as_nan")]
    pub values: Vec<Option<f64>>,
}

/// TOML has no null; JSON writes null for a NaN.
fn none_as_nan<S: Serializer>(values: &[Option<f64>], s: S) -> Result<S::Ok, S::Error> {
    s.collect_seq(values.iter().map(|value| value.unwrap_or(f64::NAN)))
}

/// A rate of a table at a message size.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct At {
    /// Message size.
    pub size: Bytes,
    /// Rate there.
    pub rate: Rate,
}

impl Curve {
    /// The column of rates that its program is judged by; `None` in a table of times.
    pub fn main_rates(&self) -> Option<&Series> {
        let is_rate = |s: &&Series| s.unit.is_some_and(|unit| unit.rate(1.0).is_some());
        let named = |name: &str| self.series.iter().filter(is_rate).find(|s| s.name.eq_ignore_ascii_case(name));
        let secondary = |s: &Series| SECONDARY.iter().any(|name| s.name.starts_with(name));
        let other = || self.series.iter().filter(is_rate).find(|s| !secondary(s));
        FOREMOST.iter().find_map(|name| named(name)).or_else(other)
    }

    /// The rates of [`Curve::main_rates`], by message size.
    pub fn rates(&self) -> Vec<At> {
        let Some(series) = self.main_rates() else { return Vec::new() };
        let at = |(size, value): (&Bytes, &Option<f64>)| {
            let rate = series.unit?.rate((*value)?).filter(|r| r.bytes_per_second().is_finite())?;
            Some(At { size: *size, rate })
        };
        let mut all: Vec<At> = self.sizes.iter().zip(&series.values).filter_map(at).collect();
        all.sort_by_key(|at| at.size);
        all
    }

    /// The highest of [`Curve::rates`], of the smallest message that has it.
    pub fn best(&self) -> Option<At> {
        let by_rate = |a: &At, b: &At| a.rate.bytes_per_second().total_cmp(&b.rate.bytes_per_second());
        // the last of equal ones is taken, hence the order
        self.rates().into_iter().rev().max_by(by_rate)
    }

    /// Whether one of its ends is a GPU by name.
    pub fn has_gpu(&self) -> bool {
        self.ends.iter().any(|end| gpu_number(end).is_some())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn curve(names: &[(&str, Option<Unit>)]) -> Curve {
        let series = names.iter().map(|(name, unit)| Series {
            name: (*name).to_owned(),
            unit: *unit,
            values: vec![Some(1.0), None, Some(3.0), Some(3.0)],
        });
        Curve { sizes: [8, 16, 64, 32].map(Bytes).to_vec(), series: series.collect(), ..Curve::default() }
    }

    #[test]
    fn the_column_that_counts() {
        let gb = Some(Unit::GigabytesPerSecond);
        let of = |names: &[(&str, Option<Unit>)]| curve(names).main_rates().map(|s| s.name.clone());
        let nccl =
            [("time out-of-place", Some(Unit::Microseconds)), ("algbw out-of-place", gb), ("busbw out-of-place", gb)];
        assert_eq!(of(&nccl).as_deref(), Some("busbw out-of-place"));
        assert_eq!(of(&[("BW peak", gb), ("BW average", gb), ("MsgRate", None)]).as_deref(), Some("BW average"));
        assert_eq!(of(&[("Avg Latency", Some(Unit::Microseconds))]), None);
    }

    #[test]
    fn the_highest_and_its_size() {
        let c = curve(&[("Bandwidth", Some(Unit::GigabytesPerSecond))]);
        assert_eq!(c.rates().iter().map(|at| at.size.0).collect::<Vec<_>>(), [8, 32, 64]);
        assert_eq!(c.best(), Some(At { size: Bytes(32), rate: Rate::from_gb(3.0) }));
        assert!(!c.has_gpu());
        assert!(Curve { ends: vec!["mlx5_0".into(), "GPU3".into()], ..c }.has_gpu());
    }
}
