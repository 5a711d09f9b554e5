//! The certificate by which a max-min fair allocation is recognised, asked of all classes and links at once.

use super::{AT_CAP, Solver, UNBOUND};

impl Solver {
    /// Says what is wrong with the rates as last solved, if anything is by more than `tolerance` (relative): a
    /// capacity exceeded, a class above its cap, or one that neither its cap nor a full link on which none has more
    /// per weight holds.
    pub fn certify(&self, tolerance: f64) -> Result<(), String> {
        let mut used = vec![0.0; self.links.len()];
        let mut highest = vec![0.0_f64; self.links.len()];
        let live = || self.classes.iter().enumerate().filter(|(_, c)| c.count > 0);
        for (i, class) in live() {
            for at in self.range(i as u32) {
                let link = self.uses[at] as usize;
                used[link] += class.mass * class.level * self.per_byte.get(at).copied().unwrap_or(1.0);
                highest[link] = highest[link].max(class.level);
            }
        }
        for (i, link) in self.links.iter().enumerate() {
            if used[i] > link.capacity * (1.0 + tolerance) {
                return Err(format!("resource {i} of {} is used by {}", link.capacity, used[i]));
            }
        }
        for (i, class) in live() {
            let held = match class.bind {
                AT_CAP => class.level >= class.cap * (1.0 - tolerance),
                UNBOUND => self.range(i as u32).is_empty() && class.level.is_infinite(),
                link => {
                    let l = link as usize;
                    self.uses[self.range(i as u32)].contains(&link)
                        && used[l] >= self.links[l].capacity * (1.0 - tolerance)
                        && class.level >= highest[l] * (1.0 - tolerance)
                }
            };
            if class.level > class.cap * (1.0 + tolerance) || !held {
                return Err(format!(
                    "class {i} at level {} of {} is held by nothing ({:?})",
                    class.level,
                    class.cap,
                    self.hold(i as u32)
                ));
            }
        }
        Ok(())
    }
}
