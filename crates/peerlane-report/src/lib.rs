//! What peerlane found, for people and for other programs. A [`Report`] is one subject, judged: a machine, nodes that measured
//! each other, or a fleet. [`formats`] has a renderer for each format, and [`html`] the pages. [`render`] has what only a
//! terminal shows: drawings, matrices, and the answers of commands that judge nothing.
//!
//! Nothing here reads a file, measures or judges, or knows arguments: it gets what was judged and returns text.

#![cfg_attr(test, allow(clippy::disallowed_methods, reason = "tests open files and start programs of their own"))]

pub mod formats;
pub mod html;
mod item;
pub mod render;
mod report;
mod samples;

pub use item::Item;
pub use report::Report;

#[cfg(not(test))]
use peerlane_derive::JsonSchema;
#[cfg(test)]
use schemars::JsonSchema;
