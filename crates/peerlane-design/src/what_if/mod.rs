//! A design with something about it changed: `GPU0.link=pcie 3.0 x16`.
//!
//! [`apply`] takes a machine and [`Edit`]s in order and gives the machine that they make of it. Numbers measured on the old
//! one do not apply to the new one and are left behind. `docs/what-if.md` has the grammar.

mod change;
mod grammar;
mod graph;
mod limits;
#[cfg(test)]
mod tests;

pub(crate) use graph::{part_of, pcie_above};
pub(crate) use limits::{bricks_of, bricks_used, switch_for};

use std::fmt;
use std::str::FromStr;

use peerlane_machine::fabric::NodeId;
use peerlane_machine::machine::Machine;
use peerlane_machine::one_line::one_line;
use peerlane_read::catalogue::Parts;

/// One change, as a person writes it: `WHAT=TO`. That it can be made is known when it is made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Edit {
    /// The name of the only machine that it is meant for, if it has one.
    pub machine: Option<String>,
    /// What is changed: `GPU0.link`, `GPU0-GPU1`, `GPU0`.
    pub what: String,
    /// Into what: `pcie 3.0 x16`, `none`, a part's key.
    pub to: String,
}

impl Edit {
    /// A change of every machine it is applied to.
    pub fn new(what: impl Into<String>, to: impl Into<String>) -> Self {
        Edit { machine: None, what: what.into(), to: to.into() }
    }

    /// Whether it is meant for the machine of that name.
    pub fn is_for(&self, name: &str) -> bool {
        self.machine.as_deref().is_none_or(|machine| machine == name)
    }

    /// Why it cannot be made.
    fn refused(&self, why: impl Into<String>) -> WhatIfError {
        WhatIfError::Edit { edit: self.to_string(), why: why.into() }
    }
}

impl FromStr for Edit {
    type Err = WhatIfError;

    /// Reads `WHAT=TO`, and `MACHINE:WHAT=TO`.
    fn from_str(text: &str) -> Result<Self, WhatIfError> {
        // a system file of what comes of it holds names without hidden characters
        let text = &*one_line(text);
        let refused = |why: &str| WhatIfError::Edit { edit: text.to_owned(), why: why.to_owned() };
        let (what, to) = text.split_once('=').ok_or_else(|| {
            refused("write what is changed, '=' and into what, as in GPU0.link=pcie 3.0 x16 or GPU3=none")
        })?;
        let (what, to) = (what.trim(), to.trim());
        if what.is_empty() || to.is_empty() {
            return Err(refused("there is nothing on one side of '='"));
        }
        // PCI addresses have colons, too; nobody calls a machine by digits and letters up to f alone
        let named = what.split_once(':').map(|(name, what)| (name.trim(), what.trim()));
        let named = named.filter(|(name, _)| !name.chars().all(|c| c.is_ascii_hexdigit()));
        let (machine, what) = named.map_or((None, what), |(name, what)| (Some(name.to_owned()), what));
        if what.is_empty() {
            return Err(refused("there is nothing between the machine's name and '='"));
        }
        Ok(Edit { machine, what: what.to_owned(), to: to.to_owned() })
    }
}

impl fmt::Display for Edit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(machine) = &self.machine {
            write!(f, "{machine}:")?;
        }
        write!(f, "{}={}", self.what, self.to)
    }
}

/// Why a design cannot be changed so.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WhatIfError {
    /// The change is written wrong, or names what is not there.
    #[error("what if '{edit}': {why}")]
    Edit {
        /// As written.
        edit: String,
        /// What is wrong, what there is, and what to write.
        why: String,
    },
    /// A link would run wider or faster than its ends can.
    #[error("what if: {link} cannot run at {asked}: its ends do {most} at most ({ends}); change their parts, too")]
    Width {
        /// The link by its ends.
        link: String,
        /// What it would run at.
        asked: String,
        /// What both ends do.
        most: String,
        /// What each does.
        ends: String,
    },
    /// A switch or CPU would need more lanes than it has.
    #[error(
        "what if: {owner} has {offered} PCIe lanes, and its links would take {used}: narrow one of them{}",
        or_larger(owner, larger)
    )]
    Lanes {
        /// Whose lanes.
        owner: String,
        /// Lanes that its part has.
        offered: u32,
        /// Lanes that its links would take.
        used: u32,
        /// The part that has them, where one is known.
        larger: Option<String>,
    },
    /// A GPU would need more NVLink bricks than it has.
    #[error("what if: {owner} has {offered} NVLink bricks, and its links would take {used}")]
    Bricks {
        /// The GPU.
        owner: String,
        /// Bricks that its part has.
        offered: u32,
        /// Bricks that its links would take.
        used: u32,
    },
}

fn or_larger(owner: &str, larger: &Option<String>) -> String {
    larger.as_ref().map_or_else(String::new, |part| format!(", or give it more: {owner}.part={part}"))
}

/// The machine that the edits make of this one, those for other machines left out.
///
/// What was measured, published or printed of the old machine is not carried over; the title and the
/// assumptions state what was changed. Fails where an edit cannot be read, names what is not there, or needs more than
/// parts have: width, lanes, bricks. Widths and lanes are judged after the last edit.
pub fn apply(machine: &Machine, edits: &[Edit], parts: &Parts) -> Result<Machine, WhatIfError> {
    let edits: Vec<&Edit> = edits.iter().filter(|e| e.is_for(&machine.name)).collect();
    if edits.is_empty() {
        return Ok(machine.clone());
    }
    let mut changed = change::Changing::new(machine, parts);
    for edit in &edits {
        changed.make(edit)?;
    }
    let mut after = changed.finish();
    keep_unknown(machine, &mut after);
    limits::check(machine, &after, parts)?;
    let written: Vec<String> = edits.iter().map(|e| format!("{}={}", e.what, e.to)).collect();
    Ok(without_numbers(after, &written))
}

/// What a cut-off matrix left open is open still.
fn keep_unknown(before: &Machine, after: &mut Machine) {
    let same = |id: NodeId| after.fabric.find(&before.fabric.node(id).name);
    let unknown: Vec<_> = before.fabric.unknown_paths().filter_map(|(a, b)| same(a).zip(same(b))).collect();
    after.fabric.set_unknown_paths(unknown);
}

/// Leaves behind what is known of the old machine only.
fn without_numbers(mut machine: Machine, written: &[String]) -> Machine {
    machine.stated_classes = None;
    machine.matrices.clear();
    machine.curves.clear();
    machine.rates.clear();
    machine.statements.clear();
    machine.evidence.clear();
    machine.contradictions.clear();
    machine.facts = Default::default();
    let title = machine.title.take().unwrap_or_else(|| machine.name.clone());
    machine.title = Some(format!("{title}; what if {}", written.join(", ")));
    machine
}
