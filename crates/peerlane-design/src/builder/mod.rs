//! From a board's slot table and a list of cards to a system file: what `peerlane new` asks for.
//!
//! `words` reads what a builder writes, `lanes` decides how many lanes each slot has, `plan` checks it all and `text`
//! makes the file. Nothing here is predicted or judged: the file is a TARGET as any other. `parts_list` makes a sheet of
//! a list of parts alone, whose places are assumed.

mod baseboard;
mod lanes;
mod list;
mod parts_list;
mod plan;
mod words;

pub use lanes::Group;
pub use list::is_parts_list;
pub use parts_list::{machine, named};
pub use plan::{Device, Owner, Plan, Seat};

use peerlane_machine::fabric::{NodeKind, PcieGeneration, PcieWidth};
use peerlane_read::catalogue::Part;

/// What a builder states of a machine.
#[derive(Clone, Debug, Default)]
pub struct Sheet {
    /// The machine's name.
    pub name: String,
    /// The board's name.
    pub board: Option<String>,
    /// The CPU of every socket.
    pub cpu: Option<Product>,
    /// How many of it.
    pub sockets: usize,
    /// Switch chips of the board.
    pub switches: Vec<Switch>,
    /// The board's slot table.
    pub slots: Vec<SlotLine>,
    /// What is plugged in.
    pub cards: Vec<Card>,
    /// Pairs of GPUs that NVLink joins.
    pub bridges: Vec<Bridge>,
    /// Whether nobody has stated where the cards are: their places and links are a common arrangement, which the file says, and
    /// modules of baseboards are taken, too.
    pub assumed: bool,
}

/// NVLink between two GPUs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bridge {
    /// The GPUs.
    pub between: [String; 2],
    /// Bricks of each that the bridge joins; `None` for as many as both have.
    pub bricks: Option<u8>,
}

/// A product as a builder names it, with its part in the catalogue, if there is one.
#[derive(Clone, Debug)]
pub struct Product {
    /// As it was written.
    pub name: String,
    /// What it is.
    pub kind: NodeKind,
    /// Its part.
    pub part: Option<&'static Part>,
}

/// A PCIe switch chip.
#[derive(Clone, Debug)]
pub struct Switch {
    /// Its node's name.
    pub name: String,
    /// What it is.
    pub product: Product,
    /// The CPU or switch above it.
    pub at: String,
    /// Its uplink, where that is not as wide as the chip allows.
    pub width: Option<PcieWidth>,
}

/// A line of a slot table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SlotLine {
    /// The board's name for it.
    pub name: String,
    /// Lanes, the most first: the later ones while slots that it shares lanes with are in use.
    pub widths: Vec<u8>,
    /// Lanes that the connector has room for.
    pub physical: u8,
    /// Its generation, where it is below that of the CPU or switch.
    pub generation: Option<PcieGeneration>,
    /// The CPU or switch that its lanes come from.
    pub at: String,
    /// Slots that it shares lanes with.
    pub shares: Vec<String>,
}

/// A card in a slot, or a device that the board joins to a CPU or switch.
#[derive(Clone, Debug)]
pub struct Card {
    /// What it is.
    pub product: Product,
    /// The slot, CPU or switch.
    pub at: String,
    /// Its link, where a riser or the board makes it narrower than slot and card allow.
    pub width: Option<PcieWidth>,
}

#[cfg(test)]
mod tests;
