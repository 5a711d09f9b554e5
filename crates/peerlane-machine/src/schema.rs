//! The derive of JSON Schemas. Without the feature `schema`, which only tests want, it derives nothing.

#[cfg(not(feature = "schema"))]
pub use peerlane_derive::JsonSchema;
#[cfg(feature = "schema")]
pub use schemars::JsonSchema;
