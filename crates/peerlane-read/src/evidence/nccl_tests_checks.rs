//! What nccl-tests find of the data that collectives deliver: `# Out of bounds values : 0 OK`.
//!
//! Wrong values are judged by the columns of the table; here only a run that checked its data and found them right counts.

use super::health::Health;
use super::{Found, Text};
use peerlane_machine::fact::Area;

const TOOL: &str = "nccl-tests";

pub(super) fn scan(text: &Text, found: &mut Found) {
    if !text.holds(&["Out of bounds values"]) {
        return;
    }
    let mut health = Health::default();
    let mut is_checked = true;
    for (i, line) in text.iter() {
        if line.contains("nThread ") && line.contains("minBytes ") {
            // older releases print `check: 1`, and check by default
            is_checked = !(line.contains("validation: 0") || line.contains("check: 0"));
        } else if let Some((_, result)) = line.split_once("Out of bounds values") {
            let result: Vec<&str> = result.split([':', ' ']).filter(|word| !word.is_empty()).collect();
            if is_checked && result == ["0", "OK"] {
                health.sound(Area::Test, i);
            }
            is_checked = true;
        } else if line.contains(" N/A") {
            // rows without a count of wrong values were not checked
            is_checked &= !line.trim_start().starts_with(|c: char| c.is_ascii_digit());
        }
    }
    health.push(text, TOOL, found);
}

#[cfg(test)]
mod tests {
    use super::super::testing::{health, scanned};
    use super::*;

    #[test]
    fn data_that_were_checked() {
        let run = |validation: u32, wrong: &str, result: &str| {
            format!(
                "# nThread 1 nGpus 2 minBytes 8 maxBytes 8 step: 2(factor) warmup iters: 5 iters: 20 validation: {validation}\n\
                 8 2 float sum -1 9.1 0.00 0.00 {wrong} 9.0 0.00 0.00 {wrong}\n# Out of bounds values : {result}\n"
            )
        };
        let read = health(scan, &(run(1, "0", "0 OK") + &run(0, "N/A", "0 OK") + &run(1, "0", "0 OK")));
        assert_eq!((read.area, read.sound), (Area::Test, 2));
        for other in [run(0, "N/A", "0 OK"), run(1, "N/A", "0 OK"), run(1, "2", "2 FAILED")] {
            assert_eq!(scanned(scan, &other), Found::default(), "{other}");
        }
    }
}
