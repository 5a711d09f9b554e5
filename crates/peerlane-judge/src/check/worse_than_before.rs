//! What got worse since an earlier run. [`crate::fleet`] compares runs of machines; records of nodes are compared here.

use super::nodes;
use super::prelude::*;
use crate::finding::Finding;

pub(crate) const RULE: Rule = Rule::new("worse-than-before", Look::Fleet).and_nodes(since_before);

/// Parts that are slower than in the earlier record.
fn since_before(view: &nodes::View) -> Vec<Raised> {
    let slower = view.before.map(|before| nodes::slower_than(before, view.run, "in the earlier record"));
    let own = |finding: Finding| Finding {
        rule: RULE.id.to_owned(),
        summary: format!("since the earlier record, {}", finding.summary),
        ..finding
    };
    slower.into_iter().flatten().map(own).map(Raised::from).collect()
}
