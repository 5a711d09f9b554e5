//! Sentences that state something of a machine: link widths, peer access, CPUs, adapters, dates and rates.
//!
//! Prose is full of what may be, should be and could have been. So a clause with a word of doubt or of comparison is left out,
//! and one that names two different widths too. What remains is weak evidence ([`Remark`]).

use super::{Found, Heading, Text};
use peerlane_machine::fabric::{PcieGeneration, PcieWidth};
use peerlane_machine::fact::{Between, Claim, Remark};
use peerlane_machine::origin::Origin;

/// Name of this source in origins.
pub(super) const TOOL: &str = "prose";

/// Remarks kept of one text.
const MOST_REMARKS: usize = 256;

/// Longer lines are no sentences of a person, or are a whole page.
const MOST_BYTES: usize = 4096;

/// Levels of a list that are kept.
const MOST_DEPTH: usize = 16;

/// Words after which a clause says what may be, not what is.
const DOUBT: [&str; 23] = [
    "if",
    "would",
    "could",
    "can",
    "may",
    "might",
    "should",
    "best",
    "max",
    "maximum",
    "ideally",
    "another",
    "other",
    "maybe",
    "supports",
    "supported",
    "configuration",
    "configurations",
    "per",
    "than",
    "expected",
    "up",
    "allegedly",
];

/// What a link is called in a clause that states its lanes.
const LINKS: [&str; 13] = [
    "riser",
    "risers",
    "extender",
    "extenders",
    "connection",
    "connections",
    "slot",
    "slots",
    "pcie",
    "pci-e",
    "link",
    "links",
    "lanes",
];

/// Generations of CPUs by the words that name nothing else.
const CPUS: [(&str, &str); 9] = [
    ("sandy bridge", "xeon-e5-v1"),
    ("ivy bridge", "xeon-e5-v2"),
    ("haswell", "xeon-e5-v3"),
    ("broadwell", "xeon-e5-v4"),
    ("skylake-sp", "xeon-scalable"),
    ("cascade lake", "xeon-scalable"),
    ("ice lake-sp", "ice-lake"),
    ("sapphire rapids", "sapphire-rapids"),
    ("power8", "power8"),
];

const MONTHS: [&str; 12] = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];

/// Adds the remarks of the lines that no tool printed; `printed` has the lines of tools, from 1, sorted by the first.
pub(super) fn scan(text: &Text, printed: &[(u32, u32)], found: &mut Found) {
    let mut printed = printed.iter().copied().peekable();
    let mut printed_to = 0;
    // the items that a list's line stands below
    let mut above: Vec<Item> = Vec::new();
    for (i, line) in text.iter() {
        if found.remarks.len() >= MOST_REMARKS {
            break;
        }
        let (number, _) = text.numbers(i, i);
        let lower = line.to_lowercase();
        if let Some(year) = date(&lower) {
            push(text, number, Claim::Year(year), Vec::new(), found);
        }
        while let Some((_, last)) = printed.next_if(|(first, _)| *first <= number) {
            printed_to = printed_to.max(last);
        }
        if line.len() > MOST_BYTES || number <= printed_to {
            continue;
        }
        if found.sections.len() < MOST_REMARKS && names_something(line) {
            let heading = Heading { source: text.source().clone(), line: number, text: line.trim().to_owned() };
            found.sections.push(heading);
        }
        if line.trim().is_empty() || line.starts_with('#') {
            above.clear();
            continue;
        }
        let indent = line.len() - line.trim_start().len();
        above.retain(|item| item.indent < indent);
        let own = with_digits(line);
        let about = if own.is_empty() { above.last().map_or(Vec::new(), |item| item.about.clone()) } else { own };
        for claim in claims(&lower).into_iter().chain(rate(&lower, above.last().map_or("", |item| &item.lower))) {
            push(text, number, claim, about.clone(), found);
        }
        above.truncate(MOST_DEPTH);
        above.push(Item { indent, about, lower });
    }
}

/// An item of a list, or a line of a paragraph.
struct Item {
    /// Bytes that it is indented by.
    indent: usize,
    /// Words with digits of it, or of the item above it.
    about: Vec<String>,
    lower: String,
}

/// Whether a line may be a heading or a label.
fn names_something(line: &str) -> bool {
    let line = line.trim();
    (3..=80).contains(&line.len()) && !line.ends_with(['.', ',', ';']) && !line.starts_with(['|', '-', '+', '*', '['])
}

fn push(text: &Text, line: u32, claim: Claim, about: Vec<String>, found: &mut Found) {
    let origin = Origin { source: text.source().clone(), tool: TOOL, lines: Some((line, line)) };
    found.remarks.push(Remark { claim, about, origin });
}

fn with_digits(line: &str) -> Vec<String> {
    let words = line.split(|c: char| !c.is_ascii_alphanumeric());
    let names = |w: &&str| w.len() >= 3 && w.bytes().any(|b| b.is_ascii_digit()) && !w.eq_ignore_ascii_case("p2p");
    words.filter(names).map(str::to_owned).take(16).collect()
}

/// What a line states, in lower case.
fn claims(line: &str) -> Vec<Claim> {
    let mut claims = Vec::new();
    claims.extend(width(line).map(Claim::Width));
    claims.extend(line.split(". ").find_map(peer_access));
    claims.extend(CPUS.iter().find(|(word, _)| line.contains(word)).map(|(_, key)| Claim::Cpu(key)));
    claims.extend(cpu_by_number(line).map(Claim::Cpu));
    claims.extend(adapter(line).map(Claim::Nic));
    claims
}

/// A line's clauses, without what they compare with.
fn clauses(line: &str) -> impl Iterator<Item = &str> {
    let of_sentence = line
        .split([',', ';', '(', ')'])
        .flat_map(|part| part.split(" - "))
        .flat_map(|part| part.split(" but "))
        .flat_map(|part| part.split(". "));
    of_sentence
        .map(|clause| ["instead of", "rather than"].iter().fold(clause, |c, cut| c.split(cut).next().unwrap_or(c)))
}

fn words(clause: &str) -> impl Iterator<Item = &str> {
    clause
        .split(|c: char| !(c.is_alphanumeric() || "-.<>".contains(c)))
        .map(|w| w.trim_matches('.'))
        .filter(|w| !w.is_empty())
}

fn is_doubtful(clause: &str) -> bool {
    words(clause).any(|word| DOUBT.contains(&word))
}

/// The generation and lanes of the first clause that states any without doubt.
fn width(line: &str) -> Option<PcieWidth> {
    let mut width = PcieWidth::default();
    for clause in clauses(line) {
        let lanes = lanes(clause).filter(|_| !is_doubtful(clause));
        width.generation = width.generation.or_else(|| generation(clause));
        width.lanes = width.lanes.or(lanes);
    }
    (!width.is_unknown()).then_some(width)
}

/// `PCIe Gen 3.0`, `PCIe Gen3`, `PCI-E 3.0`.
fn generation(clause: &str) -> Option<PcieGeneration> {
    let mut all = words(clause).skip_while(|word| !matches!(*word, "pcie" | "pci-e"));
    all.next()?;
    let next = all.next()?;
    let number = match next.strip_prefix("gen") {
        Some("") => all.next()?,
        Some(number) => number,
        None if next.len() == 3 && next.ends_with(".0") => next,
        None => return None,
    };
    let number = number.strip_suffix(".0").unwrap_or(number);
    PcieGeneration::from_number(number.parse().ok()?)
}

/// `just x1`, `a x8 slot`, `1x PCIe risers`: the only number of lanes in a clause about a link.
fn lanes(clause: &str) -> Option<u8> {
    let all: Vec<&str> = words(clause).collect();
    if !all.iter().any(|word| LINKS.contains(word)) {
        return None;
    }
    let mut lanes = all.iter().enumerate().filter_map(|(i, word)| {
        let next = all.get(i + 1).copied().unwrap_or_default();
        // `4x M60` counts cards
        let number = word.strip_prefix('x').or_else(|| word.strip_suffix('x').filter(|_| LINKS.contains(&next)))?;
        number.parse::<u8>().ok().filter(|n| [1, 2, 4, 8, 16].contains(n))
    });
    let first = lanes.next()?;
    (!clause.contains('/') && lanes.all(|other| other == first)).then_some(first)
}

fn peer_access(sentence: &str) -> Option<Claim> {
    let about = ["peer-to-peer", "peer to peer", "p2p", "peer access"].iter().any(|word| sentence.contains(word));
    let denied = ["not allowed", "not possible", "not supported", "not available", "isn't supported", "is disabled"];
    let denied = denied.iter().any(|words| sentence.contains(words));
    let granted = ["are allowed", "is allowed", "is possible", "is supported", "are supported"];
    let granted = granted.iter().any(|words| sentence.contains(words));
    let across =
        ["different", "across", "bank", "socket", "domain", "remote"].iter().any(|word| sentence.contains(word));
    (about && (denied || granted)).then_some(Claim::PeerAccess { direct: !denied, across })
}

/// `E5-2630 v4`, `E5-26XXv3`.
fn cpu_by_number(line: &str) -> Option<&'static str> {
    let (_, rest) = line.split_once("e5-26")?;
    let (_, version) = rest.get(..rest.len().min(6))?.split_once('v')?;
    Some(match version.chars().next()? {
        '2' => "xeon-e5-v2",
        '3' => "xeon-e5-v3",
        '4' => "xeon-e5-v4",
        _ => return None,
    })
}

/// `ConnectX-6 HDR 100`.
fn adapter(line: &str) -> Option<String> {
    let at = line.find("connectx-")?;
    if is_doubtful(line.get(..at)?) {
        return None;
    }
    let mut product = words(line.get(at..)?).take(3);
    let mut name = product.next()?.to_owned();
    for word in
        product.take_while(|w| ["hdr", "hdr100", "edr", "fdr", "ndr", "dx", "lx", "ex", "vpi", "100"].contains(w))
    {
        name.push(' ');
        name.push_str(word);
    }
    Some(name)
}

/// A rate that a line states of copies: `host to device: 6 GB/s`, `peer-to-peer speed: ~0.73-0.82 GB/s`. One that names no ends
/// is of those that the item above it names.
fn rate(line: &str, above: &str) -> Option<Claim> {
    let unit = [("gb/s", 1.0), ("mb/s", 1e-3)].into_iter().find_map(|(unit, gb)| Some((line.find(unit)?, gb)));
    let (at, gb) = unit?;
    let before = line.get(..at)?.trim_end();
    let start = before.rfind(|c: char| !(c.is_ascii_digit() || ".-–~".contains(c))).map_or(0, |i| i + 1);
    let start = (start..=before.len()).find(|i| before.is_char_boundary(*i))?;
    let (subject, number) = before.split_at(start);
    let mut ends = number.trim_start_matches('~').split(['-', '–']).map(|n| n.trim().parse::<f64>());
    let low = ends.next()?.ok()? * gb;
    let high = ends.next().map_or(Some(low), |n| n.ok().map(|n| n * gb))?;
    // of several devices, or of another slot, a sentence tells a story
    if is_doubtful(subject) || !(low > 0.0 && low <= high && high < 2000.0) {
        return None;
    }
    let has = |words: &str| subject.contains(words);
    let speed = (has("speed") || has("bandwidth")) && ["peer-to-peer", "p2p"].iter().any(|word| above.contains(word));
    let between = if has("host <-> device") || has("host<->device") {
        Between::HostAndGpu
    } else if has("host to device") {
        Between::HostToGpu
    } else if has("device to host") {
        Between::GpuToHost
    } else if has("peer-to-peer speed") || has("p2p speed") || has("p2p bandwidth") || speed {
        Between::Gpus
    } else {
        return None;
    };
    Some(Claim::Rate { between, low, high })
}

/// The year of `April 5, 2016`, or of `Wed Oct  4 17:07:36 2017` on a line by itself.
fn date(line: &str) -> Option<u16> {
    let line = line.trim();
    if line.len() > 64 {
        return None;
    }
    let mut all = line.split([' ', ',', '\t']).filter(|word| !word.is_empty());
    let is_month = |word: &str| word.len() <= 9 && MONTHS.iter().any(|month| word.starts_with(month));
    let after = all.position(is_month).filter(|at| *at <= 2)?;
    let rest: Vec<&str> = all.take(5).collect();
    let is_day = |word: &&&str| word.parse::<u8>().is_ok_and(|day| (1..=31).contains(&day));
    let day = rest.first().filter(is_day).is_some() || after > 0;
    let year = rest.iter().find_map(|word| word.parse::<u16>().ok().filter(|year| (2005..2040).contains(year)))?;
    day.then_some(year)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> Vec<(Claim, Vec<String>)> {
        let mut found = Found::default();
        scan(&Text::new("post.md", text.as_bytes()), &[], &mut found);
        found.remarks.into_iter().map(|r| (r.claim, r.about)).collect()
    }

    fn lanes_of(text: &str) -> Option<u8> {
        of(text).into_iter().find_map(|(claim, _)| if let Claim::Width(width) = claim { width.lanes } else { None })
    }

    #[test]
    fn a_plain_statement_of_lanes_counts_and_a_doubtful_one_does_not() {
        for (text, lanes) in [
            ("our risers are only x1", Some(1)),
            ("slow because of 1x PCIe risers", Some(1)),
            ("It runs on a x8 slot instead of x16.", Some(8)),
            ("the board has 8x slots but could be set to x16 links", Some(8)),
            ("at best 16x lanes per slot", None),
            ("a faster card would need a x16 slot", None),
            ("slots: x16/x8/x8", None),
            ("4x M60 in PCIe slots", None),
            ("PCIe (1x-16x links)", None),
        ] {
            assert_eq!(lanes_of(text), lanes, "{text}");
        }
    }

    #[test]
    fn an_item_is_about_the_product_of_the_item_above_it() {
        let found = of("- 2x GTX 970 on cables\n    - these cables are just x4 links\n");
        let width = PcieWidth { generation: None, lanes: Some(4) };
        assert_eq!(found, [(Claim::Width(width), vec!["970".to_owned()])]);
    }

    #[test]
    fn generations_peer_access_products_and_dates() {
        let gen3 = PcieWidth { generation: Some(PcieGeneration::Gen3), lanes: None };
        assert!(of("all cards have PCIe Gen 3.0").contains(&(Claim::Width(gen3), vec![])));
        let denied = |across| (Claim::PeerAccess { direct: false, across }, vec![]);
        assert_eq!(of("P2P is not supported here"), [denied(false)]);
        assert_eq!(of("p2p is not possible between different sockets"), [denied(true)]);
        assert_eq!(of("Peer-to-peer copies are allowed")[0].0, Claim::PeerAccess { direct: true, across: false });
        assert_eq!(of("the adapter is a ConnectX-6 HDR 100 card")[0].0, Claim::Nic("connectx-6 hdr 100".to_owned()));
        assert_eq!(of("on Haswell CPUs")[0].0, Claim::Cpu("xeon-e5-v3"));
        assert_eq!(of("Xeon E5-2690 v4")[0].0, Claim::Cpu("xeon-e5-v4"));
        let year = |text| of(text).into_iter().find_map(|(c, _)| if let Claim::Year(y) = c { Some(y) } else { None });
        assert_eq!(year("May 3, 2019"), Some(2019));
        assert_eq!(year("Tue Jan 12 10:00:00 2021"), Some(2021));
        assert_eq!(year("a march of 2000 miles may take until 2022"), None);
    }

    #[test]
    fn rates_in_words_have_ends_and_a_unit() {
        let rate =
            |text| of(text).into_iter().find_map(|(c, _)| if let Claim::Rate { .. } = c { Some(c) } else { None });
        let between = Between::Gpus;
        assert_eq!(rate("P2P speed: ~1.5-2 GB/s"), Some(Claim::Rate { between, low: 1.5, high: 2.0 }));
        let between = Between::HostToGpu;
        assert_eq!(rate("host to device: 5 GB/s"), Some(Claim::Rate { between, low: 5.0, high: 5.0 }));
        assert_eq!(rate("host to device should be 12 GB/s"), None);
        assert_eq!(rate("the disk reads 2 GB/s"), None);
        let below = "- P2P is not allowed\n    - the speed is still 4.5 GB/s";
        assert_eq!(rate(below), Some(Claim::Rate { between: Between::Gpus, low: 4.5, high: 4.5 }));
    }
}
