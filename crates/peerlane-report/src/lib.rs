//! What peerlane found, for people and for programs: text for a terminal ([`render`]), self-contained pages ([`html`]), and
//! Markdown, JUnit XML and Prometheus' text format ([`formats`]).
//!
//! Nothing here reads a file, measures or judges: it gets a machine, its comparison and its verdict, and returns text.

pub mod formats;
pub mod html;
pub mod render;
