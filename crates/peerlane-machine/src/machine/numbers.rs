//! Curves and tables of rates in JSON.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;

use crate::curve::{Curve, Series};
use crate::fact::RateTable;
use crate::matrix::Unit;
use crate::origin::Origin;
use crate::units::{Bytes, Rate};

/// Numbers against message size.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct MeasuredCurve {
    /// Program or test.
    pub what: String,
    /// Ends by name, where told.
    pub ends: Vec<String>,
    /// Message sizes in bytes.
    pub sizes: Vec<Bytes>,
    /// Columns, each as long as the sizes.
    pub series: Vec<MeasuredSeries>,
    /// Settings that the source prints.
    pub settings: BTreeMap<String, String>,
    /// Where they stand: `file:lines (tool)`.
    pub evidence: String,
}

/// One column of a curve.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct MeasuredSeries {
    /// Its heading.
    pub name: String,
    /// Its unit; a count has none.
    pub unit: Option<Unit>,
    /// Its values.
    pub values: Vec<Option<f64>>,
}

impl MeasuredCurve {
    pub(super) fn of((curve, origin): &(Curve, Origin)) -> Self {
        let series = |s: &Series| MeasuredSeries { name: s.name.clone(), unit: s.unit, values: s.values.clone() };
        MeasuredCurve {
            what: curve.what.clone(),
            ends: curve.ends.clone(),
            sizes: curve.sizes.clone(),
            series: curve.series.iter().map(series).collect(),
            settings: curve.settings.clone(),
            evidence: origin.to_string(),
        }
    }
}

/// A published table of rates with words for rows.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct MeasuredRates {
    /// Headings of the word columns.
    pub word_columns: Vec<String>,
    /// Headings of the rate columns.
    pub rate_columns: Vec<String>,
    /// Rows.
    pub rows: Vec<MeasuredRateRow>,
    /// Where they stand: `file:lines (tool)`.
    pub evidence: String,
}

/// One row of a table of rates.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct MeasuredRateRow {
    /// Words, in the order of `word_columns`.
    pub words: Vec<String>,
    /// Rates in GB/s of 10⁹ bytes, in the order of `rate_columns`.
    pub rates: Vec<Option<f64>>,
    /// Line of the source, from 1.
    pub line: u32,
}

impl MeasuredRates {
    pub(super) fn of((table, origin): &(RateTable, Origin)) -> Self {
        let rows = table.rows.iter().map(|row| MeasuredRateRow {
            words: row.words.clone(),
            rates: row.rates.iter().map(|rate| rate.map(Rate::gb)).collect(),
            line: row.line,
        });
        MeasuredRates {
            word_columns: table.word_columns.clone(),
            rate_columns: table.rate_columns.clone(),
            rows: rows.collect(),
            evidence: origin.to_string(),
        }
    }
}
