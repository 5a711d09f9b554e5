//! From what machines print, and from the files that people write, to machines.
//!
//! Knows what a machine is, and nothing of what it should do.

#![cfg_attr(test, allow(clippy::disallowed_methods, reason = "tests open files and start programs of their own"))]

pub mod assemble;
pub mod catalogue;
pub mod evidence;
#[expect(clippy::disallowed_methods, reason = "opens the files")]
pub mod input_file;
pub mod knowledge;

pub use evidence::traces;
