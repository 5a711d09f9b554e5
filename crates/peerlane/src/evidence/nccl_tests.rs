//! (being written)

use super::{Found, Text};

pub(super) fn scan(_text: &Text, _found: &mut Found) {}
