//! Arguments of `new`.

use std::path::PathBuf;

use clap::Args;

const NEW: &str = "\
On a terminal, without --cpu, it asks for everything. With flags it asks nothing:
  peerlane new my-box.toml --board 'ASUS X99-E WS' --cpu 'Xeon E5-2630 v4' \\
    --switch 'plx0 PEX 8747 @cpu0' --slot 'PCIEX16_1 x16 @plx0' \\
    --slot 'PCIEX16_2 x16/x8 @plx0 shares PCIEX16_3' --slot 'PCIEX16_3 x8 @plx0' \\
    --card 'RTX 3090 @PCIEX16_1,PCIEX16_3'
  peerlane new my-box.toml --cpu 'EPYC 9554' --sockets 2 --slots table.txt --card 'L40S @SLOT1'

'peerlane systems parts' lists the parts by name.

Exit status: as check, 0 no fault, 1 a fault, 2 nothing was written.";

/// Arguments of `new`.
#[derive(Debug, Args)]
#[command(after_help = NEW)]
pub(crate) struct NewArgs {
    /// The system file to write; its name without .toml becomes the machine's
    #[arg(value_name = "FILE.toml")]
    pub(crate) file: PathBuf,
    /// The board's name, for the title
    #[arg(long, value_name = "NAME")]
    pub(crate) board: Option<String>,
    /// The CPU: 'EPYC 9554', 'Xeon E5-2630 v4'
    #[arg(long, value_name = "NAME")]
    pub(crate) cpu: Option<String>,
    /// Number of CPUs: cpu0, cpu1 …
    #[arg(long, value_name = "N", default_value_t = 1, requires = "cpu")]
    pub(crate) sockets: usize,
    /// A PCIe switch chip of the board, and what its uplink is at: 'plx0 PEX 8747 @cpu0'
    #[arg(long = "switch", value_name = "NAME PART @CPU", requires = "cpu")]
    pub(crate) switches: Vec<String>,
    /// A slot, its lanes, and the CPU or switch that they come from: 'SLOT1 x16 @cpu0'. With 'x16/x8' and
    /// 'shares SLOT3' it has x8 while SLOT3 is in use; 'PCIe 4.0 x8 in x16' is a connector with room for x16
    #[arg(long = "slot", value_name = "SLOT", requires = "cpu")]
    pub(crate) slots: Vec<String>,
    /// A text file with a slot a line, as for --slot; lines that begin with # are skipped
    #[arg(long = "slots", value_name = "FILE", requires = "cpu")]
    pub(crate) table: Option<PathBuf>,
    /// A card and its slots: 'RTX 4090 @SLOT1,SLOT3'; ':x1' behind a slot is a riser of that width; two cards in one
    /// slot split it. 'gpu:NAME', 'nic:NAME', 'nvme:NAME', 'fpga:NAME' are cards that the catalogue does not know
    #[arg(long = "card", value_name = "CARD @SLOT", requires = "cpu")]
    pub(crate) cards: Vec<String>,
    /// An NVLink bridge between two cards: GPU0-GPU1
    #[arg(long = "nvlink", value_name = "A-B", requires = "cpu")]
    pub(crate) bridges: Vec<String>,
    /// Replace the file if it exists
    #[arg(long)]
    pub(crate) force: bool,
    #[arg(from_global)]
    pub(crate) verbose: bool,
    #[arg(from_global)]
    pub(crate) quiet: bool,
}
