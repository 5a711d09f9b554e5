//! The content of messages, and its comparison.

/// Content of that many bytes: no two words of it are alike within 4 GiB, and no two seeds' are.
pub(super) fn content(seed: u64, size: usize) -> Vec<u8> {
    let words = (0..size.div_ceil(8) as u64).flat_map(|index| word(seed, index).to_le_bytes());
    let mut bytes: Vec<u8> = words.collect();
    bytes.truncate(size);
    bytes
}

/// SplitMix64's output function (Steele, Lea and Flood, 2014), which maps no two numbers to one.
fn word(seed: u64, index: u64) -> u64 {
    let mut z = seed.wrapping_add(index.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// How many bytes differ and where the first is; none if all are equal.
pub(super) fn difference(arrived: &[u8], sent: &[u8]) -> Option<String> {
    if arrived == sent {
        return None;
    }
    let mut differ = arrived.iter().zip(sent).enumerate().filter(|(_, (a, b))| a != b).map(|(at, _)| at);
    let first = differ.next()?;
    let count = 1 + differ.count();
    Some(format!("{count} of {} bytes differ, the first at {first:#x}", sent.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wrong_bytes_are_counted_and_placed() {
        let sent = content(7, 1001);
        assert_eq!(sent.len(), 1001);
        assert_eq!(difference(&sent, &sent), None);
        let mut arrived = sent.clone();
        arrived[16] ^= 1;
        arrived[1000] ^= 1;
        assert_eq!(difference(&arrived, &sent).unwrap(), "2 of 1001 bytes differ, the first at 0x10");
        assert!(difference(&content(8, 1001), &sent).unwrap().contains("the first at 0x0"));
    }
}
