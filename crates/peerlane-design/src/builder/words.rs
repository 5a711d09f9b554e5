//! Words of a builder: products, lines of slot tables, switches and cards.

use super::{Card, Product, SlotLine, Switch};
use peerlane_machine::fabric::{NodeKind, PcieWidth};
use peerlane_machine::one_line::one_line;
use peerlane_read::catalogue::{PartKind, Parts};

/// Kinds that a card of no known part can have, as they are written in front of its name.
const CARD_KINDS: [(&str, NodeKind); 4] =
    [("gpu", NodeKind::Gpu), ("nic", NodeKind::Nic), ("nvme", NodeKind::Nvme), ("fpga", NodeKind::Fpga)];

/// The most characters of a name.
const LONGEST: usize = 80;

/// Where a slot's lanes come from when a line does not say.
pub(super) const FIRST_CPU: &str = "cpu0";

impl Product {
    /// A CPU by its name: `EPYC 9554`, `Xeon E5-2630 v4`, or the key of a part.
    pub fn cpu(text: &str) -> Result<Self, String> {
        Self::of(text, &[PartKind::Cpu], "CPU").map_err(|e| format!("{e} 'peerlane systems parts cpu' lists all"))
    }

    fn switch(text: &str) -> Result<Self, String> {
        Self::of(text, &[PartKind::Switch], "switch")
            .map_err(|e| format!("{e} 'peerlane systems parts switch' lists all"))
    }

    /// A GPU, NIC, drive or capture card; `gpu:NAME` of one that the catalogue does not know.
    fn card(text: &str) -> Result<Self, String> {
        let text = clean(text)?;
        let (first, rest) = text.split_once(char::is_whitespace).unwrap_or_default();
        if first.trim_end_matches(['x', 'X', '×']).parse::<u32>().is_ok() {
            return Err(format!(
                "'{text}': write the card without a number, and each of its slots: '{} @SLOT1,SLOT3'",
                rest.trim()
            ));
        }
        let prefix = |(word, kind): (&str, NodeKind)| Some((text.strip_prefix(word)?.strip_prefix(':')?.trim(), kind));
        if let Some((name, kind)) = CARD_KINDS.into_iter().find_map(prefix) {
            let part = Parts::embedded().of_node(kind, Some(name));
            return Ok(Product { name: clean(name)?, kind, part });
        }
        let kinds = [PartKind::Gpu, PartKind::Nic, PartKind::Nvme, PartKind::Fpga];
        Self::of(&text, &kinds, "card").map_err(|e| {
            format!("{e} Write the kind of a card that peerlane does not know in front: gpu:, nic:, nvme: or fpga:")
        })
    }

    /// What a list of parts may have.
    pub(super) fn listed(text: &str) -> Result<Self, String> {
        use PartKind::{Cpu, Fpga, Gpu, Nic, Nvme, Switch};
        // people call these cards by their number
        let series = |prefix: &str| Self::of(&format!("{prefix} {text}"), &[Gpu], "part").ok();
        let is_number = text.chars().all(|c| c.is_ascii_digit());
        let by_number = || ["RTX", "GTX"].into_iter().filter(|_| is_number).find_map(series);
        Self::of(text, &[Gpu, Nic, Cpu, Switch, Nvme, Fpga], "part").or_else(|why| by_number().ok_or(why))
    }

    /// A part by its key.
    pub(super) fn part_of(key: &str, kind: NodeKind) -> Result<Self, String> {
        let part = Parts::embedded().get(key).ok_or_else(|| format!("no part '{key}'"))?;
        Ok(Product { name: part.title.clone(), kind, part: Some(part) })
    }

    fn of(text: &str, kinds: &[PartKind], what: &str) -> Result<Self, String> {
        let (name, parts) = (clean(text)?, Parts::embedded());
        let meant = parts.meant(&name).or_else(|| {
            let fitting = kinds.iter().filter_map(|kind| parts.for_product(*kind, &name));
            fitting.reduce(|a, _| a)
        });
        match meant.and_then(|part| Some((part, part.kind.node_kind()?))).filter(|(part, _)| kinds.contains(&part.kind))
        {
            Some((part, kind)) => Ok(Product { name, kind, part: Some(part) }),
            None => {
                let near = parts.nearest(&name, |kind| kinds.contains(&kind));
                let near: Vec<String> = near.into_iter().map(|(name, _)| name).collect();
                let hint = if near.is_empty() { String::new() } else { format!("; nearest: {}", near.join(", ")) };
                Err(format!("no {what} '{name}' is known{hint}."))
            }
        }
    }

    /// Its part's title, or its name.
    pub fn title(&self) -> &str {
        self.part.map_or(&self.name, |part| &part.title)
    }
}

impl std::str::FromStr for Switch {
    type Err = String;

    /// Reads `plx0 PEX 8747 @cpu0`, `plx0 PEX 8747 @cpu0:x8`.
    fn from_str(text: &str) -> Result<Self, String> {
        let usage = "write a switch as 'plx0 PEX 8747 @cpu0'";
        let (head, at, width) = seat(text)?;
        let (name, product) = head.split_once(char::is_whitespace).ok_or(usage)?;
        let at = at.unwrap_or(FIRST_CPU).to_owned();
        Ok(Switch { name: clean(name)?, product: Product::switch(product)?, at, width })
    }
}

impl std::str::FromStr for SlotLine {
    type Err = String;

    /// Reads `SLOT1 x16`, `PCIEX16_2 x16/x8 @plx0 shares PCIEX16_3`, `SLOT5 PCIe 4.0 x8 in x16 @cpu1`.
    fn from_str(text: &str) -> Result<Self, String> {
        let text = clean(&text.replace('@', " @"))?;
        let refused = |why: &str| {
            format!("'{text}': {why}; write a slot as 'SLOT1 x16 @cpu0' or 'SLOT2 x16/x8 @cpu0 shares SLOT3'")
        };
        let mut words = text.split_whitespace();
        let name = words.next().ok_or_else(|| refused("there is no name"))?;
        let mut slot = SlotLine {
            name: name.to_owned(),
            widths: Vec::new(),
            physical: 0,
            generation: None,
            at: FIRST_CPU.to_owned(),
            shares: Vec::new(),
        };
        while let Some(word) = words.next() {
            match word.to_lowercase().as_str() {
                "pcie" | "slot" => {}
                "in" => {
                    let room = words.next().and_then(lanes).filter(|lanes| *lanes > 0);
                    slot.physical =
                        room.ok_or_else(|| refused("'in' is followed by the connector's size, as in x16"))?;
                }
                "shares" => {
                    let names = words.by_ref().flat_map(|word| word.split(','));
                    slot.shares = names.filter(|name| !name.is_empty()).map(str::to_owned).collect();
                    if slot.shares.is_empty() {
                        return Err(refused("'shares' is followed by names of slots"));
                    }
                }
                "@" => slot.at = words.next().ok_or_else(|| refused("'@' is followed by a CPU or switch"))?.to_owned(),
                lower => {
                    if let Some(at) = word.strip_prefix('@') {
                        slot.at = at.to_owned();
                    } else if let Some(widths) = lower.split('/').map(lanes).collect::<Option<Vec<u8>>>() {
                        slot.widths = widths;
                    } else if let Ok(PcieWidth { generation: Some(generation), lanes: None }) = lower.parse() {
                        slot.generation = Some(generation);
                    } else {
                        return Err(refused(&format!("'{word}' is neither lanes (x16), nor a generation (4.0)")));
                    }
                }
            }
        }
        let widest = slot.widths.first().copied().unwrap_or(0);
        if widest == 0 || !slot.widths.is_sorted_by(|a, b| a >= b) {
            return Err(refused("its lanes are missing, or the most does not come first"));
        }
        slot.physical = if slot.physical == 0 { widest } else { slot.physical };
        if slot.physical < widest {
            return Err(refused(&format!("a connector of x{} has no room for x{widest}", slot.physical)));
        }
        Ok(slot)
    }
}

impl SlotLine {
    /// Reads a table: a slot a line. Empty lines and those that begin with `#` are skipped; every line that is wrong is listed.
    pub fn table(text: &str) -> Result<Vec<Self>, Vec<String>> {
        let lines = text.lines().zip(1..).filter(|(line, _)| !line.trim().is_empty() && !line.trim().starts_with('#'));
        let (read, wrong): (Vec<_>, Vec<_>) = lines
            .map(|(line, number)| line.parse::<SlotLine>().map_err(|e| format!("line {number}: {e}")))
            .partition(Result::is_ok);
        if wrong.is_empty() {
            Ok(read.into_iter().flatten().collect())
        } else {
            Err(wrong.into_iter().filter_map(Result::err).collect())
        }
    }
}

impl Card {
    /// Reads `RTX 4090 @SLOT1`, `RTX 4090 @SLOT1,SLOT3` (one in each), `GTX 1070 @SLOT2:x1` (on a riser), `ConnectX-7 @cpu0`.
    pub fn several(text: &str) -> Result<Vec<Self>, String> {
        let (head, at, width) = seat(text)?;
        let at =
            at.ok_or_else(|| format!("'{}': write where the card sits, as in 'RTX 4090 @SLOT1'", one_line(text)))?;
        let product = Product::card(head)?;
        let places = at.split(',').map(str::trim).filter(|place| !place.is_empty());
        Ok(places.map(|place| Card { product: product.clone(), at: place.to_owned(), width }).collect())
    }
}

/// `WHAT @PLACE:WIDTH` in its parts.
fn seat(text: &str) -> Result<(&str, Option<&str>, Option<PcieWidth>), String> {
    clean(text)?;
    let Some((what, place)) = text.split_once('@') else { return Ok((text.trim(), None, None)) };
    let (place, width) = match place.split_once(':') {
        Some((place, width)) => (place, Some(width.trim().parse::<PcieWidth>().map_err(|e| e.to_string())?)),
        None => (place, None),
    };
    if place.trim().is_empty() {
        return Err(format!("'{}': '@' is followed by a place, as in @SLOT1 or @cpu0", one_line(text)));
    }
    Ok((what.trim(), Some(place.trim()), width))
}

/// A name on one line, of a length that a table has room for.
fn clean(text: &str) -> Result<String, String> {
    let text = one_line(text.trim());
    match text.chars().count() {
        0 => Err("a name is missing".to_owned()),
        1..=LONGEST => Ok(text.into_owned()),
        n => Err(format!(
            "'{}…' has {n} characters; at most {LONGEST} are read",
            text.chars().take(20).collect::<String>()
        )),
    }
}

/// `x16`, and `x0` where lanes are switched away.
fn lanes(word: &str) -> Option<u8> {
    let lanes: u8 = word.trim_start_matches(['x', 'X']).parse().ok()?;
    (word.starts_with(['x', 'X']) && [0, 1, 2, 4, 8, 16].contains(&lanes)).then_some(lanes)
}
