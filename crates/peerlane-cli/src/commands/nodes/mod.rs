//! What many nodes deliver to each other: `measure` of a cluster, and what other commands do with the record.

pub(crate) mod check;
pub(crate) mod compare;
pub(crate) mod infer;
pub(crate) mod live;
pub(crate) mod measure;
pub(crate) mod report;
