//! A heap of times with one entry a class, each of which can be moved.

/// Children of a node; four keep it flat, and one's siblings in a cache line.
const ARITY: usize = 4;
/// Place of a class that is not in the heap.
const ABSENT: u32 = u32::MAX;

/// The heap.
#[derive(Debug, Default)]
pub(super) struct TimeHeap {
    entries: Vec<(f64, u32)>,
    /// Where a class's entry is.
    places: Vec<u32>,
}

impl TimeHeap {
    /// The earliest; of equal times, the lowest class.
    pub(super) fn first(&self) -> Option<(f64, u32)> {
        self.entries.first().copied()
    }

    /// Gives a class its time.
    pub(super) fn set(&mut self, class: u32, time: f64) {
        let c = class as usize;
        if c >= self.places.len() {
            self.places.resize(c + 1, ABSENT);
        }
        let at = self.places[c] as usize;
        match self.entries.get_mut(at) {
            Some(entry) => {
                let before = *entry;
                *entry = (time, class);
                if earlier((time, class), before) { self.up(at) } else { self.down(at) }
            }
            None => {
                self.entries.push((time, class));
                self.up(self.entries.len() - 1);
            }
        }
    }

    /// Takes a class out, if it is there.
    pub(super) fn remove(&mut self, class: u32) {
        let Some(place) = self.places.get_mut(class as usize) else { return };
        let at = std::mem::replace(place, ABSENT) as usize;
        if at >= self.entries.len() {
            return;
        }
        let removed = self.entries.swap_remove(at);
        if let Some(moved) = self.entries.get(at).copied() {
            self.places[moved.1 as usize] = at as u32;
            if earlier(moved, removed) { self.up(at) } else { self.down(at) }
        }
    }

    fn up(&mut self, mut at: usize) {
        let entry = self.entries[at];
        while at > 0 {
            let above = (at - 1) / ARITY;
            if !earlier(entry, self.entries[above]) {
                break;
            }
            self.put(at, self.entries[above]);
            at = above;
        }
        self.put(at, entry);
    }

    fn down(&mut self, mut at: usize) {
        let entry = self.entries[at];
        loop {
            let first = at * ARITY + 1;
            let children = first..(first + ARITY).min(self.entries.len());
            let Some(least) = children.reduce(|a, b| if earlier(self.entries[b], self.entries[a]) { b } else { a })
            else {
                break;
            };
            if !earlier(self.entries[least], entry) {
                break;
            }
            self.put(at, self.entries[least]);
            at = least;
        }
        self.put(at, entry);
    }

    fn put(&mut self, at: usize, entry: (f64, u32)) {
        self.entries[at] = entry;
        self.places[entry.1 as usize] = at as u32;
    }
}

fn earlier(a: (f64, u32), b: (f64, u32)) -> bool {
    a.0 < b.0 || (a.0 == b.0 && a.1 < b.1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gives_times_in_order_however_they_are_moved() {
        let mut heap = TimeHeap::default();
        let mut times = std::collections::BTreeMap::new();
        let mut x = 12345_u64;
        for step in 0..20_000_u32 {
            x = x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let class = (x >> 33) as u32 % 300;
            if step % 5 == 4 {
                heap.remove(class);
                times.remove(&class);
            } else {
                let time = ((x >> 40) % 1000) as f64;
                heap.set(class, time);
                times.insert(class, time);
            }
            let first = times.iter().map(|(c, t)| (*t, *c)).min_by(|a, b| a.partial_cmp(b).unwrap());
            assert_eq!(heap.first(), first);
        }
    }
}
