//! What a record says about its machine apart from the numbers, without what differs between any two sound machines: so that
//! the rules look once at machines that are alike.

use std::hash::{DefaultHasher, Hash, Hasher};

use peerlane_measure::run::Run;

/// °C from which rules may call a GPU hot.
const HOT: f64 = 75.0;

/// Keys of JSON whose values differ between any two machines, or moments: no rule judges by them.
const VOLATILE: [&str; 14] = [
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
    "proc/sys/kernel/hostname",
];

/// Counters since a machine was started, of which only rises during a run are judged.
const COUNTERS: [&str; 3] = ["crc_flit", "crc_data", "ecc_data"];

/// Numbers with so many digits are sizes, times and counts, of which the magnitude is kept.
const MANY_DIGITS: usize = 4;

/// Stands for all that rules look at apart from the numbers.
pub(super) fn of(run: &Run) -> u64 {
    let mut hasher = DefaultHasher::new();
    run.machine.system.hash(&mut hasher);
    for source in &run.machine.evidence {
        source.name.hash(&mut hasher);
        outline(&source.text).hash(&mut hasher);
    }
    outline(&format!("{:?}", run.counters)).hash(&mut hasher);
    let c = &run.conditions;
    (&c.kernel, &c.driver, &c.nccl, &c.notes, run.complete).hash(&mut hasher);
    for state in c.before.iter().chain(&c.after) {
        let hot = state.temperature_c.is_some_and(|c| c >= HOT);
        (&state.gpu, hot, &state.clock_event_reasons, state.pcie_replays, state.processes).hash(&mut hasher);
    }
    hasher.finish()
}

/// A text without values of volatile keys, and with magnitudes in place of large numbers.
fn outline(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut kept = String::with_capacity(text.len() / 2);
    let mut at = 0;
    while let Some(&byte) = bytes.get(at) {
        if byte == b'"' {
            let end = closing(bytes, at);
            let word = text.get(at + 1..end).unwrap_or_default();
            let value = after_colon(bytes, end + 1);
            if let Some(value) = value.filter(|_| VOLATILE.contains(&word) || word.ends_with("/meminfo")) {
                kept.push_str(word);
                at = skip(bytes, value);
                continue;
            }
            let number = |value: usize| text.get(value..skip(bytes, value)).and_then(|v| v.trim().parse::<f64>().ok());
            if let Some((value, number)) = value.and_then(|value| Some((value, number(value)?))) {
                let coarse = match word {
                    "temperature_c" | "memory_temperature_c" => Some(number >= HOT),
                    _ if COUNTERS.contains(&word) => Some(number > 0.0),
                    _ => None,
                };
                if let Some(coarse) = coarse {
                    kept.push_str(word);
                    kept.push(if coarse { '+' } else { '0' });
                    at = skip(bytes, value);
                    continue;
                }
            }
        }
        if text.get(at..).is_some_and(|rest| rest.starts_with("GPU-")) {
            at += "GPU-".len() + bytes.iter().skip(at + 4).take_while(|b| b.is_ascii_hexdigit() || **b == b'-').count();
            continue;
        }
        if byte.is_ascii_digit() {
            let digits = bytes.iter().skip(at).take_while(|b| b.is_ascii_digit()).count();
            if digits >= MANY_DIGITS {
                kept.push('#');
                kept.push_str(&digits.to_string());
            } else {
                kept.push_str(text.get(at..at + digits).unwrap_or_default());
            }
            at += digits;
            continue;
        }
        let Some(c) = text.get(at..).and_then(|rest| rest.chars().next()) else { break };
        kept.push(c);
        at += c.len_utf8();
    }
    kept
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
        for cut in 0..40 {
            outline(text("12ab-34", 1, 2, 3, 4.0).get(..cut).unwrap());
        }
    }
}
