//! What is checked of a lattice: what physics keeps, and that parts equal the lattice in one piece.

use super::SpinGlass;
use crate::cuda::Buffer;
use crate::failure::Problem;

/// Energy may drift by so much a bond, and a spin's length by so much.
const TOLERANCE: f64 = 1e-5;

/// Half-sweeps after which parts are compared with the lattice in one piece.
const COMPARED: usize = 8;

/// Energy is added up in units of this.
const UNIT: f64 = 1.0 / (1 << 28) as f64;

/// What a lattice adds up to.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Sums {
    /// Energy a bond.
    pub(super) energy: f64,
    /// A sum over all bits of all spins.
    pub(super) bits: u64,
    /// The most that a spin's length differs from 1.
    pub(super) length: f64,
}

impl SpinGlass {
    /// What the lattice adds up to.
    pub(super) fn inspect(&self) -> Result<Sums, Problem> {
        let mut sums = Sums { energy: 0.0, bits: 0, length: 0.0 };
        for part in &self.parts {
            for colour in 0..2 {
                (0..3).for_each(|i| self.sums.write(i, 0));
                part.inspect(colour, self.sums.part(0, 24))?;
                // each bond has one end of this colour, so that one colour's places have all of the energy
                if colour == 0 {
                    sums.energy -= self.sums.read(0) as i64 as f64 * UNIT;
                }
                // linear, so that parts add up to the lattice; the colours' numbers are the same
                sums.bits = sums.bits.wrapping_add(self.sums.read(1).wrapping_mul(2 * colour as u64 + 1));
                sums.length = sums.length.max(f64::from(f32::from_bits(self.sums.read(2) as u32)));
            }
        }
        sums.energy /= 3.0 * self.lattice.places() as f64;
        Ok(sums)
    }

    /// What is wrong with the lattice as it is now, by what physics keeps.
    pub(super) fn broken(&self) -> Result<Option<String>, Problem> {
        let now = self.inspect()?;
        let drift = (now.energy - self.before.energy).abs();
        // not a number is wrong, too
        if drift.is_nan() || drift > TOLERANCE {
            return Ok(Some(format!("the energy drifted by {drift:.1e} a bond in {} half-sweeps", self.done)));
        }
        let length = now.length;
        Ok((length.is_nan() || length > TOLERANCE).then(|| format!("a spin's length differs from 1 by {length:.1e}")))
    }

    /// Whether the cut lattice and the whole one differ after some half-sweeps from the same start. Where the whole one does not fit
    /// beside a slab, the parts updated and exchanged step by step by the host take its place.
    pub(super) fn differs(&mut self) -> Result<Option<String>, Problem> {
        if !self.is_cut() {
            return Ok(None);
        }
        let (wanted, with) = match self.whole.take() {
            Some(mut whole) => {
                whole.seed = self.seed;
                whole.draw()?;
                whole.run(COMPARED)?;
                let bits = whole.inspect()?.bits;
                self.whole = Some(whole);
                (bits, "the lattice in one piece")
            }
            None => {
                self.draw()?;
                self.plainly(COMPARED)?;
                (self.inspect()?.bits, "themselves where the host waits for each exchange")
            }
        };
        self.draw()?;
        self.run(COMPARED)?;
        let (n, what) = (self.parts.len(), if self.lattice.blocks.is_some() { "blocks" } else { "slabs" });
        let differ = self.inspect()?.bits != wanted;
        Ok(differ.then(|| format!("after {COMPARED} half-sweeps {n} {what} differ from {with}")))
    }
}
