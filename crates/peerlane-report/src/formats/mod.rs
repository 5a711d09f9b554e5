//! Results in other formats: Markdown for tickets, Prometheus' text format, JUnit XML, cells of CSV.

pub mod csv;
pub mod fleet;
pub mod junit;
pub mod markdown;
pub mod nodes;
pub mod prometheus;
