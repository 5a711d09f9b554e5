//! What a record says about its machine apart from the numbers, without what differs between any two sound machines: so that
//! the rules look once at machines that are alike.

use std::hash::{DefaultHasher, Hash, Hasher};

use peerlane_measure::run::excerpt::Excerpt;

/// °C from which rules may call a GPU hot.
const HOT: f64 = 75.0;

/// Keys of JSON whose values differ between any two machines, or moments: no rule judges by them.
const VOLATILE: [&str; 15] = [
    "uuid",
    "serial",
    "taken",
    "used",
    "sent_kib",
    "received_kib",
    "sent_kb_per_second",
    "received_kb_per_second",
    "power_w",
    "utilization",
    "memory_utilization",
    "cluster",
    "pid",
    "reading",
    "proc/sys/kernel/hostname",
];

/// Of these only matters whether a rule may call them hot.
const TEMPERATURES: [&str; 2] = ["temperature_c", "memory_temperature_c"];

/// Counters since a machine was started, of which only rises during a run are judged.
const COUNTERS: [&str; 4] = ["crc", "crc_flit", "crc_data", "ecc_data"];

/// Numbers with so many digits are sizes, times and counts, of which the magnitude is kept, unless they are round.
const MANY_DIGITS: usize = 4;

/// Tables of a system file that describe how it is simulated, which no rule knows.
const SIMULATED: [&str; 2] = ["[simulated]", "[[faults]]"];

/// Stands for all that rules look at apart from the numbers.
pub(super) fn of(excerpt: &Excerpt) -> u64 {
    let mut hasher = DefaultHasher::new();
    excerpt.system.as_deref().map(design).hash(&mut hasher);
    for (name, text) in &excerpt.evidence {
        name.hash(&mut hasher);
        outline(text).hash(&mut hasher);
    }
    outline(&excerpt.counters).hash(&mut hasher);
    let c = &excerpt.conditions;
    (&c.kernel, &c.driver, &c.nccl, &c.notes, excerpt.complete).hash(&mut hasher);
    for state in c.before.iter().chain(&c.after) {
        let hot = state.temperature_c.is_some_and(|c| c >= HOT);
        (&state.gpu, hot, &state.clock_event_reasons, state.pcie_replays, state.processes).hash(&mut hasher);
    }
    hasher.finish()
}

/// The lines of a system file that describe the design.
fn design(system: &str) -> Vec<&str> {
    let mut simulated = false;
    let lines = system.lines().filter(|line| {
        if line.starts_with('[') {
            simulated = SIMULATED.contains(&line.trim_end());
        }
        !simulated
    });
    lines.collect()
}

/// A text without values of volatile keys, and with magnitudes in place of large numbers.
pub(super) fn outline(text: &str) -> Vec<u8> {
    let bytes = text.as_bytes();
    let mut kept = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while let Some(&byte) = bytes.get(at) {
        match byte {
            b'"' => {
                let end = closing(bytes, at);
                let word = bytes.get(at + 1..end).unwrap_or_default();
                let value = after_colon(bytes, end + 1);
                if let Some((value, coarse)) = value.and_then(|value| Some((value, coarse(word, bytes, value)?))) {
                    kept.extend_from_slice(word);
                    kept.push(coarse);
                    at = skip(bytes, value);
                } else {
                    kept.push(byte);
                    at += 1;
                }
            }
            b'G' if bytes.get(at..).is_some_and(|rest| rest.starts_with(b"GPU-")) => {
                at += 4 + bytes.iter().skip(at + 4).take_while(|b| b.is_ascii_hexdigit() || **b == b'-').count();
            }
            b'0'..=b'9' => {
                let rest = bytes.get(at..).unwrap_or_default();
                let digits = rest.iter().position(|b| !b.is_ascii_digit()).unwrap_or(rest.len());
                if digits >= MANY_DIGITS && !is_round(rest, digits) {
                    kept.push(b'#');
                    kept.extend_from_slice(&digits.to_le_bytes());
                } else {
                    kept.extend_from_slice(rest.get(..digits).unwrap_or_default());
                }
                at += digits;
            }
            _ => {
                let rest = bytes.get(at + 1..).unwrap_or_default();
                let plain = 1 + rest.iter().position(|b| matches!(b, b'"' | b'G' | b'0'..=b'9')).unwrap_or(rest.len());
                kept.extend_from_slice(bytes.get(at..at + plain).unwrap_or_default());
                at += plain;
            }
        }
    }
    kept
}

/// Whether all of these digits but the first three are zeros, as in the rate of a port in Mb/s: nothing that is measured is so
/// round.
fn is_round(text: &[u8], digits: usize) -> bool {
    text.iter().take(digits).skip(MANY_DIGITS - 1).all(|digit| *digit == b'0')
}

/// What is kept of a value that differs between any two machines; `None` of one that is kept as it is.
fn coarse(key: &[u8], bytes: &[u8], value: usize) -> Option<u8> {
    let is = |known: &&str| known.as_bytes() == key;
    let number = || {
        let text = std::str::from_utf8(bytes.get(value..skip(bytes, value))?).ok()?;
        text.trim().parse::<f64>().ok()
    };
    let sign = |yes: bool| if yes { b'+' } else { b'0' };
    if VOLATILE.iter().any(is) || key.ends_with(b"/meminfo") {
        Some(b' ')
    } else if TEMPERATURES.iter().any(is) {
        Some(sign(number()? >= HOT))
    } else if COUNTERS.iter().any(is) {
        Some(sign(number()? > 0.0))
    } else {
        None
    }
}

/// Where a string ends that begins at a quotation mark.
fn closing(bytes: &[u8], quote: usize) -> usize {
    let mut at = quote + 1;
    while let Some(byte) = bytes.get(at) {
        match byte {
            b'"' => break,
            b'\\' => at += 2,
            _ => at += 1,
        }
    }
    at.min(bytes.len())
}

/// Where the value begins, if a colon follows.
fn after_colon(bytes: &[u8], from: usize) -> Option<usize> {
    let blank = |at: usize| at + bytes.iter().skip(at).take_while(|b| b.is_ascii_whitespace()).count();
    let colon = blank(from);
    (bytes.get(colon) == Some(&b':')).then(|| blank(colon + 1))
}

/// Where a string or a number ends.
fn skip(bytes: &[u8], value: usize) -> usize {
    match bytes.get(value) {
        Some(b'"') => (closing(bytes, value) + 1).min(bytes.len()),
        _ => value + bytes.iter().skip(value).take_while(|b| !matches!(b, b',' | b'}' | b']')).count(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sound_machines_are_alike_and_others_are_not() {
        let text = |id: &str, kib: u32, crc: u32, lanes: u32, celsius: f64| {
            format!(
                "{{\"uuid\": \"GPU-{id}\", \"serial\":\"1{id}\", \"errors\": {{\"replay\": 0, \"crc_data\": {crc}}}, \
                 \"lanes\": {lanes}, \"sent_kib\": {kib}, \"temperature_c\": {celsius}, \"a/meminfo\": \"x \\\"{kib}\"}}"
            )
        };
        let one = outline(&text("12ab-34", 1_234_567, 91, 16, 40.0));
        assert_eq!(one, outline(&text("77cd-99", 12, 144, 16, 31.5)));
        assert_ne!(one, outline(&text("12ab-34", 1_234_567, 91, 8, 40.0)));
        assert_ne!(one, outline(&text("12ab-34", 1_234_567, 0, 16, 40.0)));
        assert_ne!(one, outline(&text("12ab-34", 1_234_567, 91, 16, 88.0)));
        let port = |megabits: u32| outline(&format!("\"class/net/eth0/speed\": \"{megabits}\\n\""));
        assert_ne!(port(200_000), port(100_000));
        for cut in 0..40 {
            outline(text("12ab-34", 1, 2, 3, 4.0).get(..cut).unwrap());
        }
    }
}
