//! Which classes use a link: one list a link, all in one array.

use std::ops::Range;

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

    /// Lists these classes, each with where its uses are, and no others.
    pub(super) fn rebuild(
        &mut self,
        spans: impl Iterator<Item = (u32, Range<usize>)> + Clone,
        uses: &[u32],
        per_byte: &[f64],
    ) {
        let Lists { starts, lens, rooms, classes, per_byte: stored, .. } = self;
        lens.fill(0);
        for (_, range) in spans.clone() {
            for link in &uses[range] {
                lens[*link as usize] += 1;
            }
        }
        rooms.copy_from_slice(lens);
        let mut end = 0;
        for (start, len) in starts.iter_mut().zip(lens.iter()) {
            end += *len;
            *start = end;
        }
        classes.clear();
        classes.shrink_to(end as usize);
        classes.resize(end as usize, 0);
        stored.clear();
        if self.stored {
            stored.resize(end as usize, 1.0);
        }
        // from the back of each list to its start
        for (class, range) in spans {
            for at in range {
                let to = &mut starts[uses[at] as usize];
                *to -= 1;
                classes[*to as usize] = class;
                if let Some(stored) = stored.get_mut(*to as usize) {
                    *stored = per_byte.get(at).copied().unwrap_or(1.0);
                }
            }
        }
    }
}
