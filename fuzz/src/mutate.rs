//! Small damage to an input, the same for the same seed.

use peerlane::random::Random;

/// What formats are made of; damage by these goes deeper than damage by random bytes.
const PIECES: &[&str] = &[
    "GPU0",
    "GPU1",
    "GPU-1",
    "NIC0",
    "mlx5_0",
    "NV18",
    "NV",
    "PIX",
    "SYS",
    "X",
    "N/A",
    "N/A\t",
    "\t",
    "  ",
    "\n",
    "\n\n",
    "\r\n",
    "0",
    "-1",
    "1e308",
    "-1e308",
    "nan",
    "inf",
    "18446744073709551616",
    "4294967296",
    "0.0",
    "1e-320",
    "99999999",
    "GB/s",
    "us",
    "->",
    "<-",
    "[",
    "]",
    "{",
    "}",
    "<",
    ">",
    "</",
    "/>",
    "\"",
    "'",
    "=",
    ",",
    ":",
    "#",
    "\u{1b}[31m",
    "\u{202e}",
    "\u{feff}",
    "é",
    "GPU",
    "0000:00:00.0",
    "ffffffff:ff:1f.7",
    "0-3,8",
    "0-4294967295",
    "\\",
    "null",
    "true",
    "[[",
    "]]",
];

/// The most bytes of a changed input.
pub const MOST_BYTES: usize = 64 << 10;

/// An input with up to four changes: bytes, pieces, lines cut out, repeated, moved, or taken from another input.
pub fn mutated(input: &[u8], other: &[u8], random: &mut Random) -> Vec<u8> {
    let mut all = input.to_vec();
    for _ in 0..=random.below(4) {
        once(&mut all, other, random);
    }
    all.truncate(MOST_BYTES);
    all
}

fn once(all: &mut Vec<u8>, other: &[u8], random: &mut Random) {
    let at = random.below(all.len() + 1);
    match random.below(8) {
        0 => {
            if let Some(byte) = all.get_mut(at) {
                *byte ^= 1 << random.below(8);
            }
        }
        1 => all.truncate(at),
        2 => {
            let piece = PIECES[random.below(PIECES.len())].bytes();
            all.splice(at..at, piece);
        }
        3 => {
            let piece = PIECES[random.below(PIECES.len())].bytes();
            let end = (at + random.below(12)).min(all.len());
            all.splice(at..end, piece);
        }
        4 => {
            let (start, end) = line(all, at);
            all.drain(start..end);
        }
        5 => {
            let (start, end) = line(all, at);
            let again = all[start..end].repeat(1 + random.below(4));
            all.splice(end..end, again);
        }
        6 => {
            let (start, end) = line(all, at);
            let moved: Vec<u8> = all.drain(start..end).collect();
            let (to, _) = line(all, random.below(all.len() + 1));
            all.splice(to..to, moved);
        }
        _ => {
            let (start, end) = line(other, random.below(other.len() + 1));
            let (to, _) = line(all, at);
            all.splice(to..to, other[start..end].iter().copied());
        }
    }
}

/// The line around a place, its end included.
fn line(all: &[u8], at: usize) -> (usize, usize) {
    let at = at.min(all.len());
    let start = all[..at].iter().rposition(|b| *b == b'\n').map_or(0, |i| i + 1);
    let end = all[at..].iter().position(|b| *b == b'\n').map_or(all.len(), |i| at + i + 1);
    (start, end)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn damage_is_the_same_for_the_same_seed_and_differs_between_seeds() {
        let of = |seed| mutated(b"one\ntwo\nthree\n", b"four\n", &mut Random::from_seed(seed));
        assert_eq!(of(1), of(1));
        let different: std::collections::BTreeSet<Vec<u8>> = (0..50).map(of).collect();
        assert!(different.len() > 30, "{}", different.len());
    }

    #[test]
    fn nothing_is_too_short_to_be_damaged() {
        let mut random = Random::from_seed(3);
        for _ in 0..2000 {
            mutated(b"", b"", &mut random);
            mutated(b"x", b"", &mut random);
        }
    }
}
