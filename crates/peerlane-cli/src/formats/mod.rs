//! The result of `check` in other formats: Markdown for tickets, Prometheus' text format, JUnit XML.

pub(crate) mod junit;
pub(crate) mod markdown;
pub(crate) mod prometheus;
