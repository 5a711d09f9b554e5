//! Results in other formats: Markdown for tickets, Prometheus' text format, JUnit XML, cells of CSV.

pub(crate) mod csv;
pub(crate) mod fleet;
pub(crate) mod junit;
pub(crate) mod markdown;
pub(crate) mod nodes;
pub(crate) mod prometheus;
