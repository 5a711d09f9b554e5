//! Sets of flows, by index: what a group's members and the transfers of one experiment are.

use std::fmt;

/// A set of up to [`Members::MOST`] flows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Members(u64);

impl Members {
    /// The most flows that there can be.
    pub const MOST: usize = 64;

    /// None.
    pub const NONE: Members = Members(0);

    /// The first `n`, or [`Members::MOST`] of them.
    pub fn first(n: usize) -> Self {
        if n >= Self::MOST { Members(u64::MAX) } else { Members((1 << n) - 1) }
    }

    /// One flow; none where the index is out of range.
    pub fn one(flow: usize) -> Self {
        Members(u32::try_from(flow).ok().and_then(|f| 1_u64.checked_shl(f)).unwrap_or(0))
    }

    /// Whether a flow is in it.
    pub fn has(self, flow: usize) -> bool {
        self.0 & Members::one(flow).0 != 0
    }

    /// How many there are.
    pub fn len(self) -> usize {
        self.0.count_ones() as usize
    }

    /// Whether there are none.
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Those in either.
    pub fn or(self, other: Members) -> Self {
        Members(self.0 | other.0)
    }

    /// Those in both.
    pub fn and(self, other: Members) -> Self {
        Members(self.0 & other.0)
    }

    /// Those of it that are not in the other.
    pub fn minus(self, other: Members) -> Self {
        Members(self.0 & !other.0)
    }

    /// Whether all of it are in the other.
    pub fn within(self, other: Members) -> bool {
        self.0 & !other.0 == 0
    }

    /// Whether some are in both.
    pub fn meets(self, other: Members) -> bool {
        self.0 & other.0 != 0
    }

    /// Whether the two meet and neither holds the other, which two branches of a tree never do.
    pub fn crosses(self, other: Members) -> bool {
        self.meets(other) && !self.within(other) && !other.within(self)
    }

    /// In ascending order.
    pub fn iter(self) -> impl Iterator<Item = usize> + Clone {
        let mut left = self.0;
        std::iter::from_fn(move || {
            let next = left.trailing_zeros();
            left &= left.wrapping_sub(1);
            (next < u64::BITS).then_some(next as usize)
        })
    }

    /// The place of a flow among the members in ascending order.
    pub fn rank(self, flow: usize) -> usize {
        Members(self.0 & (Members::one(flow).0.wrapping_sub(1))).len()
    }
}

impl FromIterator<usize> for Members {
    fn from_iter<I: IntoIterator<Item = usize>>(flows: I) -> Self {
        flows.into_iter().fold(Members::NONE, |all, flow| all.or(Members::one(flow)))
    }
}

impl fmt::Display for Members {
    /// `{0 2 5}`
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let words: Vec<String> = self.iter().map(|i| i.to_string()).collect();
        write!(f, "{{{}}}", words.join(" "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_are_sets() {
        let a: Members = [0, 2, 63].into_iter().collect();
        let b: Members = [2, 5].into_iter().collect();
        assert_eq!((a.len(), a.has(63), a.has(64), a.rank(63), a.rank(0)), (3, true, false, 2, 0));
        assert_eq!(a.or(b).iter().collect::<Vec<_>>(), [0, 2, 5, 63]);
        assert_eq!((a.and(b), a.minus(b).len()), (Members::one(2), 2));
        assert!(a.crosses(b) && !a.crosses(a.and(b)) && !a.crosses(Members::one(1)));
        assert_eq!(
            (Members::first(64).len(), Members::first(3), Members::one(99)),
            (64, [0, 1, 2].into_iter().collect(), Members::NONE)
        );
        assert_eq!(b.to_string(), "{2 5}");
    }
}
