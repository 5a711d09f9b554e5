//! From what machines print, and from the files that people write, to machines.
//!
//! Knows what a machine is, and nothing of what it should do.

pub mod assemble;
pub mod catalogue;
pub mod evidence;
