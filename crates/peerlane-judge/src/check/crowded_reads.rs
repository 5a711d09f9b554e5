//! GPUs that together read far less than each alone.

use super::view::{Raised, View};
use super::words::percent;
use super::{Certainty, Cost, Finding, FindingKind, Rule, Severity};
use peerlane_machine::fabric::NodeKind;
use peerlane_machine::machine::SourcedMatrix;
use peerlane_machine::matrix::Matrix;
use peerlane_machine::subject::Subject;
use peerlane_read::evidence::{ALL_READERS, ONE_READER};

pub(super) const RULE: Rule = Rule { id: "crowded-reads", breaks: false, run };

/// Eight GPUs on two to four switches keep 0.38 to 0.44 of their sum, eight of two sockets 0.41, and four 0.56 to 0.64 (scores
/// that owners of such machines published of p2pmark, 2026): their links to the root complex are shared. One of eight
/// whose posted writes collapse kept 0.11.
const COLLAPSED: f64 = 0.25;

fn run(view: &View) -> Vec<Raised> {
    let sum = |matrix: &Matrix| matrix.values.iter().flatten().flatten().sum::<f64>();
    let of = |title: &str| {
        view.bandwidths().map(|(_, o)| o).filter(|o| o.matrix.title == title).collect::<Vec<&SourcedMatrix>>()
    };
    let mut found: Option<(f64, &SourcedMatrix, &SourcedMatrix)> = None;
    for all in of(ALL_READERS) {
        let same = |one: &&&SourcedMatrix| one.origin.source == all.origin.source && one.matrix.cols == all.matrix.cols;
        let Some(one) = of(ONE_READER).iter().find(same).copied() else { continue };
        let share = sum(&all.matrix) / sum(&one.matrix);
        if share < COLLAPSED && found.as_ref().is_none_or(|(least, ..)| share < *least) {
            found = Some((share, all, one));
        }
    }
    let Some((share, all, one)) = found else { return Vec::new() };
    let (together, alone) = (sum(&all.matrix), sum(&one.matrix));
    let subjects: Vec<String> = view.of_kind(NodeKind::Gpu).into_iter().map(|id| view.name(id).to_owned()).collect();
    let finding = Finding {
        summary: format!("All GPUs at once keep {} of what they reach in turn", percent(share)),
        expected: format!("more than {} of the {alone:.0} GB/s that each GPU's own reads add up to", percent(COLLAPSED)),
        measured: format!("{together:.0} GB/s together ({})", all.matrix.title),
        evidence: view.cite([&all.origin, &one.origin]),
        fix: "Links that the switches share with the CPU explain a half or two thirds of the loss; the rest is traffic that meets: \
               some root complexes and switches lose nearly all where posted writes of several ports meet. Keep ranks that \
               talk to each other below one switch, take turns, or let receivers read; look for ACS redirection \
               (`lspci -vvv | grep ACSCtl`), and newer firmware of the switches."
            .to_owned(),
        confirm: "`peerlane measure --tests subsets,all-to-one`, then `peerlane infer` on the run".to_owned(),
        cost: Cost::of_rate(alone, together),
        ..Finding::of(&RULE, FindingKind::Fault, Severity::Warning, Certainty::Possible, Subject::nodes_of(subjects))
    };
    vec![Raised::new(finding, 1.0 - share)]
}

#[cfg(test)]
mod tests {
    use super::super::testing::{findings, switched, uniform};
    use super::*;

    #[test]
    fn a_tenth_is_a_collapse_and_shared_uplinks_are_none() {
        let with = |together: f64| {
            let mut machine = switched(4);
            let of = |title: &str, rate: f64| {
                let mut measured = uniform(4, rate, &[]);
                measured.matrix.rows = vec!["others".to_owned()];
                measured.matrix.values.truncate(1);
                measured.matrix.title = title.to_owned();
                measured
            };
            machine.matrices = vec![of(ONE_READER, 54.0), of(ALL_READERS, together)];
            findings(&machine, run)
        };
        let found = with(6.0);
        assert_eq!(found.len(), 1);
        assert!(found[0].summary.contains("11 %"), "{}", found[0].summary);
        assert_eq!(with(21.0), vec![]);
    }
}
