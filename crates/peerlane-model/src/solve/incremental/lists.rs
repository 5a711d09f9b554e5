//! Which classes use a link: one list a link, all in one array.

use std::ops::Range;

use super::UNBOUNDED;

/// From so many uses on, the lists and where they end are far larger than a cache.
const MANY: usize = 1 << 20;
/// Bits for a link's place in its group below which there would be too many groups to write to at once.
const LEAST_BITS: u32 = 6;

/// The lists. Positions are 32 bits wide, so that they stay in a cache; [`super::Solver::class`] sees that they suffice.
#[derive(Debug)]
pub(super) struct Lists {
    starts: Vec<u32>,
    lens: Vec<u32>,
    rooms: Vec<u32>,
    classes: Vec<u32>,
    /// Consumption per byte, beside `classes`; empty while all are 1.
    per_byte: Vec<f64>,
    stored: bool,
}

impl Lists {
    pub(super) fn new(links: usize) -> Self {
        let zeros = vec![0; links];
        let (classes, per_byte) = (Vec::new(), Vec::new());
        Lists { starts: zeros.clone(), lens: zeros.clone(), rooms: zeros, classes, per_byte, stored: false }
    }

    /// From now on consumption is stored.
    pub(super) fn need_per_byte(&mut self) {
        if !self.stored {
            self.stored = true;
            self.per_byte = vec![1.0; self.classes.len()];
        }
    }

    /// The classes of a link, and their consumption where it is stored.
    pub(super) fn of(&self, link: u32) -> (&[u32], &[f64]) {
        let start = self.starts[link as usize] as usize;
        let range = start..start + self.lens[link as usize] as usize;
        (&self.classes[range.clone()], self.per_byte.get(range).unwrap_or_default())
    }

    /// Whether the array may outgrow its positions if so many uses are added one by one.
    pub(super) fn is_tight(&self, more: usize) -> bool {
        self.classes.len() + 8 * more > u32::MAX as usize
    }

    /// Appends a class to a link's list.
    pub(super) fn add(&mut self, link: u32, class: u32, per_byte: Option<f64>) {
        let l = link as usize;
        let len = self.lens[l] as usize;
        if self.lens[l] == self.rooms[l] {
            let (old, start) = (self.starts[l] as usize, self.classes.len());
            self.rooms[l] = self.rooms[l] * 2 + 4;
            self.starts[l] = start as u32;
            let end = start + self.rooms[l] as usize;
            self.classes.extend_from_within(old..old + len);
            self.classes.resize(end, 0);
            if self.stored {
                self.per_byte.extend_from_within(old..old + len);
                self.per_byte.resize(end, 1.0);
            }
        }
        let at = self.starts[l] as usize + len;
        self.lens[l] += 1;
        self.classes[at] = class;
        if self.stored {
            self.per_byte[at] = per_byte.unwrap_or(1.0);
        }
    }

    /// Puts such classes of a link first.
    pub(super) fn put_first(&mut self, link: u32, such: impl Fn(u32) -> bool) {
        let start = self.starts[link as usize] as usize;
        let mut next = start;
        for at in start..start + self.lens[link as usize] as usize {
            if such(self.classes[at]) {
                self.classes.swap(at, next);
                if self.stored {
                    self.per_byte.swap(at, next);
                }
                next += 1;
            }
        }
    }

    /// Lists these classes, each with where its uses are, and no others. `known`: how many of them use each link, where the
    /// caller knows; else empty.
    pub(super) fn rebuild(
        &mut self,
        spans: impl Iterator<Item = (u32, Range<usize>)> + Clone,
        uses: &[u32],
        per_byte: &[f64],
        known: &[u32],
    ) {
        let Lists { starts, lens, rooms, classes, per_byte: stored, .. } = self;
        if known.is_empty() {
            lens.fill(0);
            for (_, range) in spans.clone() {
                for link in &uses[range] {
                    lens[*link as usize] += 1;
                }
            }
        } else {
            for (len, known) in lens.iter_mut().zip(known) {
                *len = if *known == UNBOUNDED { 0 } else { *known };
            }
        }
        rooms.copy_from_slice(lens);
        let mut end = 0;
        for (start, len) in starts.iter_mut().zip(lens.iter()) {
            end += *len;
            *start = end;
        }
        renew(classes, end as usize, 0);
        renew(stored, if self.stored { end as usize } else { 0 }, 1.0);
        let mut lists = Backwards { starts, classes, per_byte: stored };
        let room = spans.clone().map(|(class, _)| class).max().map_or(0, u32::leading_zeros);
        if (end as usize) < MANY || room < LEAST_BITS {
            for (class, range) in spans {
                for at in range {
                    lists.put(uses[at], class, per_byte.get(at).copied());
                }
            }
        } else {
            lists.put_all(spans, uses, per_byte, room);
        }
    }
}

/// Makes it this long; what it holds does not matter.
fn renew<T: Copy>(of: &mut Vec<T>, len: usize, with: T) {
    if of.capacity() < len {
        *of = vec![with; len];
    } else {
        of.truncate(len);
        of.shrink_to(len);
        of.resize(len, with);
    }
}

/// Lists that are written from the back of each to its start.
struct Backwards<'l> {
    /// Where a list has been written up to; at first its end.
    starts: &'l mut [u32],
    classes: &'l mut [u32],
    per_byte: &'l mut [f64],
}

impl Backwards<'_> {
    fn put(&mut self, link: u32, class: u32, per_byte: Option<f64>) {
        let to = &mut self.starts[link as usize];
        *to -= 1;
        self.classes[*to as usize] = class;
        if let Some(stored) = self.per_byte.get_mut(*to as usize) {
            *stored = per_byte.unwrap_or(1.0);
        }
    }

    /// Sorts uses by groups of links first, where the lists of the group will stand, and then each group, which stays in
    /// a cache. One by one, nearly every use would miss the caches twice. `most`: bits for a link's place in its group,
    /// which are above those of a class until then.
    fn put_all(&mut self, spans: impl Iterator<Item = (u32, Range<usize>)>, uses: &[u32], per_byte: &[f64], most: u32) {
        let links = self.starts.len();
        let bits = links.ilog2().saturating_sub(8).clamp(9, 16).min(most);
        let mut firsts = vec![0];
        let ends = (0..links).step_by(1 << bits).map(|l| self.starts[(l + (1 << bits)).min(links) - 1]);
        firsts.extend(ends);
        let mut next = firsts.clone();
        // what is above the place falls out at the left
        let packed = |link: u32, class: u32| link << (32 - bits) | class;
        for (class, range) in spans {
            for at in range {
                let link = uses[at];
                let to = &mut next[(link >> bits) as usize];
                let i = *to as usize;
                *to += 1;
                self.classes[i] = packed(link, class);
                if let Some(stored) = self.per_byte.get_mut(i) {
                    *stored = per_byte.get(at).copied().unwrap_or(1.0);
                }
            }
        }
        let (mut group, mut consumption) = (Vec::new(), Vec::new());
        for (first, span) in (0_u32..).step_by(1 << bits).zip(firsts.windows(2)) {
            let span = span[0] as usize..span[1] as usize;
            group.clear();
            group.extend_from_slice(&self.classes[span.clone()]);
            consumption.clear();
            consumption.extend_from_slice(self.per_byte.get(span).unwrap_or_default());
            for (at, packed) in group.iter().enumerate() {
                let class = packed << bits >> bits;
                self.put(first + (packed >> (32 - bits)), class, consumption.get(at).copied());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Classes with a few uses each of very many links, some of which none uses; the last link has a list of its own.
    #[test]
    fn many_uses_are_listed_as_a_few_are() {
        let links = 5_003_u32;
        let mut x = 7_u64;
        let (mut starts, mut uses, mut per_byte) = (vec![0], Vec::new(), Vec::new());
        while uses.len() < MANY + 100_000 {
            let mut link = 0;
            for _ in 0..12 {
                x = x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                link += 1 + (x >> 33) as u32 % (links / 12 - 2);
                uses.push(link);
                per_byte.push((x >> 50) as f64);
            }
            starts.push(uses.len());
        }
        uses.push(links - 1);
        per_byte.push(2.0);
        starts.push(uses.len());
        // every third class is left out
        let listed: Vec<u32> = (0..starts.len() as u32 - 1).rev().filter(|c| c % 3 > 0).collect();
        let spans = || listed.iter().map(|c| (*c, starts[*c as usize]..starts[*c as usize + 1]));
        let mut expected = vec![(Vec::new(), Vec::new()); links as usize];
        for (class, range) in spans() {
            for at in range {
                expected[uses[at] as usize].0.insert(0, class);
                expected[uses[at] as usize].1.insert(0, per_byte[at]);
            }
        }
        let lens: Vec<u32> = expected.iter().map(|(classes, _)| classes.len() as u32).collect();
        for (stored, known) in [(false, &[][..]), (true, &[]), (true, &lens)] {
            let mut lists = Lists::new(links as usize);
            if stored {
                lists.need_per_byte();
            }
            lists.rebuild(spans(), &uses, &per_byte, known);
            for (link, (classes, per_byte)) in (0..).zip(&expected) {
                let per_byte = if stored { per_byte.as_slice() } else { &[] };
                assert_eq!(lists.of(link), (classes.as_slice(), per_byte), "link {link}");
            }
        }
    }
}
