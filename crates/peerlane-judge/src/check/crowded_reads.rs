//! GPUs that all read at once far below their separate rates.

use super::prelude::*;
use peerlane_machine::matrix::{Operation, Pattern};

pub(super) const RULE: Rule = Rule::new("crowded-reads", One(run));

/// Eight GPUs on two to four switches keep 0.38 to 0.44 of their sum, eight of two sockets 0.41, and four 0.56 to 0.64
/// (scores that owners of such machines published of p2pmark, 2026): their links to the root complex are shared. One of
/// eight whose posted writes collapse kept 0.11.
const COLLAPSED: f64 = 0.25;

fn run(view: &View) -> Option<Raised> {
    let sum = |measured: &SourcedMatrix| measured.matrix.values.iter().flatten().flatten().sum::<f64>();
    let reads = |pattern| {
        let is = move |of: &Matrix| of.pattern == Some(pattern) && of.op != Some(Operation::Write);
        view.bandwidths().map(|(_, o)| o).filter(move |o| is(&o.matrix))
    };
    let both = reads(Pattern::AllToAll).filter_map(|all| {
        let same = |one: &&SourcedMatrix| one.origin.source == all.origin.source && one.matrix.cols == all.matrix.cols;
        let one = reads(Pattern::AllToOne).find(same)?;
        Some((sum(all) / sum(one), all, one))
    });
    let (share, all, one) = lowest(both.filter(|(share, ..)| *share < COLLAPSED), |(share, ..)| *share)?;
    let (together, alone) = (sum(all), sum(one));
    let raised = RULE
        .raise(Fault, Warning, Possible)
        .summary(format!("All GPUs reading at once reach {} of their separate rates", percent(share)))
        .expected(format!("more than {} of {alone:.0} GB/s, the sum of each GPU's reads alone", percent(COLLAPSED)))
        .measured(format!("{together:.0} GB/s together ({})", all.matrix.title))
        .evidence(view.cite([&all.origin, &one.origin]))
        .fix(
            "Keep ranks that communicate below one switch, and stagger transfers between switches. Links that the switches \
             share with the CPU explain a loss of one half to two thirds; the rest is contention, in which some root \
             complexes and switches lose nearly all of their rate. Check ACS redirection (`lspci -vvv | grep ACSCtl`), and \
             update the switches' firmware.",
        )
        .confirm("`peerlane measure --tests subsets,all-to-one`, then `peerlane infer` on the run")
        .cost(Cost::of_rate(alone, together))
        .about_nodes(view.names_of(&view.of_kind(NodeKind::Gpu)))
        .losing(1.0 - share);
    Some(raised)
}

#[cfg(test)]
mod tests {
    use super::super::testing::{findings, switched, uniform};
    use super::*;

    #[test]
    fn a_tenth_is_a_collapse_and_shared_uplinks_are_none() {
        let with = |together: f64| {
            let mut machine = switched(4);
            let of = |pattern: Pattern, rate: f64| {
                let mut measured = uniform(4, rate, &[]);
                measured.matrix.rows = vec!["others".to_owned()];
                measured.matrix.values.truncate(1);
                measured.matrix.pattern = Some(pattern);
                measured
            };
            machine.matrices = vec![of(Pattern::AllToOne, 54.0), of(Pattern::AllToAll, together)];
            findings(&machine, run)
        };
        let found = with(6.0);
        assert_eq!(found.len(), 1);
        assert!(found[0].summary.contains("11 %"), "{}", found[0].summary);
        assert_eq!(with(21.0), vec![]);
    }
}
