//! What one side of a step tells the other, as text: where its queue pairs and its memory are.

use std::fmt;
use std::net::Ipv6Addr;

/// The most queue pairs of one step.
pub(super) const MOST_QUEUE_PAIRS: u32 = 128;

/// One side's address. The fields are as verbs have them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Address {
    pub(super) lid: u16,
    /// Of RoCE; InfiniBand within one subnet needs none.
    pub(super) gid: Option<Ipv6Addr>,
    /// The path MTU as verbs number it: 1 is 256 bytes, 5 is 4096.
    pub(super) mtu: u32,
    /// The number of the first packet.
    pub(super) first_packet: u32,
    /// Reads from the other side that it answers at once.
    pub(super) reads: u8,
    /// Where its memory starts, and the key to it.
    pub(super) memory: u64,
    pub(super) key: u32,
    /// Of the pattern that it sends.
    pub(super) seed: u32,
    pub(super) queue_pairs: Vec<u32>,
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Address { lid, gid, mtu, first_packet, reads, memory, key, seed, queue_pairs } = self;
        let gid = gid.map_or_else(|| "-".to_owned(), |gid| gid.to_string());
        write!(f, "verbs1 {lid} {gid} {mtu} {first_packet} {reads} {memory} {key} {seed}")?;
        queue_pairs.iter().try_for_each(|number| write!(f, " {number}"))
    }
}

impl Address {
    /// Reads what the other side wrote; `None` where it is not such an address.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let mut words = text.split(' ');
        if words.next()? != "verbs1" {
            return None;
        }
        let mut next = || words.next();
        let address = Address {
            lid: next()?.parse().ok()?,
            gid: match next()? {
                "-" => None,
                gid => Some(gid.parse().ok()?),
            },
            mtu: next()?.parse().ok().filter(|mtu| (1..=5).contains(mtu))?,
            first_packet: next()?.parse().ok()?,
            reads: next()?.parse().ok()?,
            memory: next()?.parse().ok()?,
            key: next()?.parse().ok()?,
            seed: next()?.parse().ok()?,
            queue_pairs: words.take(MOST_QUEUE_PAIRS as usize + 2).map(str::parse).collect::<Result<_, _>>().ok()?,
        };
        let count = address.queue_pairs.len();
        (1..=MOST_QUEUE_PAIRS as usize + 1).contains(&count).then_some(address)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_comes_back_from_its_text_and_nothing_else_passes_for_one() {
        let infiniband = Address {
            lid: 17,
            gid: None,
            mtu: 5,
            first_packet: 0xff_ffff,
            reads: 16,
            memory: u64::MAX,
            key: u32::MAX,
            seed: 7,
            queue_pairs: vec![1, 0xff_ffff],
        };
        let roce = Address { gid: Some("::ffff:10.9.9.1".parse().unwrap()), lid: 0, ..infiniband.clone() };
        for address in [infiniband, roce] {
            assert_eq!(Address::parse(&address.to_string()), Some(address.clone()));
            let text = address.to_string();
            // cut anywhere before the last queue pair, it is no address of two
            for end in 0..text.len() {
                assert_ne!(Address::parse(&text[..end]), Some(address.clone()), "{}", &text[..end]);
            }
        }
        let long = format!("verbs1 0 - 5 1 1 1 1 1{}", " 9".repeat(1000));
        for text in
            ["", "verbs2 0 - 5 1 1 1 1 1 9", "verbs1 0 - 6 1 1 1 1 1 9", "verbs1 0 - 5 1 1 1 1 1", "10.0.0.1:80", &long]
        {
            assert_eq!(Address::parse(text), None, "{text}");
        }
    }
}
