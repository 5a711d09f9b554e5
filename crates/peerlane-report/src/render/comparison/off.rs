//! Values that are not as expected. What is worse may be a fault; what is better is a doubt about the expectation.

use peerlane::comparison::Standing;

use super::super::text::span;
use super::{Line, Section, group};

/// The values that are worse than expected.
pub(crate) fn worse(sections: &[Section]) -> Vec<Section> {
    that_are(sections, Standing::Worse)
}

fn that_are(sections: &[Section], how: Standing) -> Vec<Section> {
    let off = sections.iter().map(|section| Section {
        what: section.what.clone(),
        sources: section.sources.clone(),
        unit: section.unit,
        cells: section.cells.iter().filter(|cell| cell.standing == Some(how)).cloned().collect(),
        named: section.named,
    });
    off.filter(|section| !section.cells.is_empty()).collect()
}

/// The values that are better than expected, in one sentence: `Faster than expected: … The expectation is too low.`
pub(crate) fn better(sections: &[Section]) -> Option<String> {
    let better = that_are(sections, Standing::Better);
    let first = better.first()?;
    let all: Vec<Line> = better.iter().flat_map(|section| group(&section.cells)).collect();
    let line = all.first()?;
    let ratio = line.ratio.map_or(String::new(), |(low, high)| format!(" at {} of expected", span(low, high)));
    let more = if all.len() > 1 { format!(", and {} more", all.len() - 1) } else { String::new() };
    let (ends, what) = (line.ends(), &first.what);
    let limit = if first.unit.time(1.0).is_none() { "low" } else { "high" };
    Some(format!("Faster than expected: {ends}, {what}{ratio}{more}. The expectation is too {limit}."))
}

#[cfg(test)]
mod tests {
    use super::super::{Cell, tally};
    use super::*;
    use peerlane::comparison::Expected;
    use peerlane::matrix::Unit;

    fn section(unit: Unit, measured: f64) -> Section {
        let expected = Expected::new(10.0, [9.0, 11.0], "the link");
        let standing = Some(expected.standing((measured, measured), unit.rate(1.0).is_some()));
        let [row, col] = ["GPU0", "host"].map(str::to_owned);
        let cell = Cell { row, col, class: None, expected: Some(10.0), measured: Some((measured, measured)), standing };
        Section { what: format!("reads, {}", unit.name()), sources: Vec::new(), unit, cells: vec![cell], named: false }
    }

    #[test]
    fn what_is_better_is_a_doubt_about_the_expectation() {
        let faster = [section(Unit::GigabytesPerSecond, 12.9)];
        assert!(worse(&faster).is_empty());
        let sentence =
            "Faster than expected: GPU0 → host, reads, GB/s at 1.29 of expected. The expectation is too low.";
        assert_eq!(better(&faster).as_deref(), Some(sentence));
        assert_eq!((tally(&faster).off, tally(&faster).better), (0, 1));
        let quicker = [section(Unit::Microseconds, 5.0)];
        assert!(worse(&quicker).is_empty() && better(&quicker).unwrap().ends_with("The expectation is too high."));
    }

    #[test]
    fn what_is_worse_has_a_row() {
        for (unit, measured) in [(Unit::GigabytesPerSecond, 7.0), (Unit::Microseconds, 14.0)] {
            let slower = [section(unit, measured)];
            assert_eq!((worse(&slower).len(), better(&slower)), (1, None));
        }
        let fine = [section(Unit::GigabytesPerSecond, 10.5)];
        assert!(worse(&fine).is_empty() && better(&fine).is_none());
    }
}
