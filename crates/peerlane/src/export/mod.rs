//! A machine in other programs' formats and in our JSON.

pub mod json;
pub mod nccl_xml;
