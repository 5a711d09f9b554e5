//! Verdicts, findings and numbers in Prometheus' text exposition format.

use crate::report::Report;
use crate::samples::Samples;

/// All subjects as one text.
pub fn prometheus(reports: &[Report]) -> String {
    let mut samples = Samples::default();
    reports.iter().for_each(|report| report.sample(&mut samples));
    samples.text()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    use peerlane::case::Case;
    use peerlane::catalogue::{self, Parts};
    use peerlane::check::{Context, check, verdict};
    use peerlane::comparison::Comparison;
    use peerlane::export::json::MachineCheck;
    use peerlane::model::Model;

    fn text(name: &str) -> String {
        let case = Case::from(catalogue::system(name).unwrap().unwrap());
        let model = Model::new(&case.machine, Parts::embedded());
        let comparison = Comparison::of(&model);
        let context = Context::of(&case, &comparison);
        let findings = check(&context);
        let verdict = verdict(&context, &findings);
        let checked = MachineCheck {
            name: name.to_owned(),
            verdict,
            checked: Vec::new(),
            unchecked: Vec::new(),
            missing: None,
            next: Vec::new(),
            findings,
            waived: Vec::new(),
            thresholds: Vec::new(),
            comparison: None,
        };
        prometheus(&[Report::of_machine(&case, &comparison, &checked)])
    }

    #[test]
    fn rates_are_in_base_units_and_series_are_unique() {
        for name in catalogue::system_names() {
            let text = text(name);
            let mut series = BTreeSet::new();
            for line in text.lines().filter(|l| !l.starts_with('#')) {
                let (labels, value) = line.rsplit_once(' ').unwrap();
                assert!(series.insert(labels), "{name}: {line}");
                assert!(value.parse::<f64>().unwrap() >= 0.0 && labels.ends_with('}'), "{line}");
            }
        }
        let devbox = text("exxact-devbox");
        let pair = "peerlane_bandwidth_bytes_per_second{machine=\"exxact-devbox\",row=\"GPU0\",column=\"GPU1\",\
                    direction=\"both-ways-summed\",p2p=\"on\",engine=\"ce\",";
        let line = devbox.lines().find(|l| l.starts_with(pair)).unwrap();
        assert!(line.ends_with(" 26130000000"), "{line}");
        assert!(devbox.contains("peerlane_verdict{machine=\"exxact-devbox\",verdict=\"fault\"} 0\n"));
    }
}
