//! A machine in other programs' formats and in our JSON, and results as charts.

pub mod chart;
pub mod json;
pub mod label;
pub mod nccl_xml;
