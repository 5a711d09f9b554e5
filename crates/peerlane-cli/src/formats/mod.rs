//! What `check` found, for programs and pages of others: Markdown for tickets, Prometheus' text exposition, JUnit XML.

pub(crate) mod junit;
pub(crate) mod markdown;
pub(crate) mod prometheus;
