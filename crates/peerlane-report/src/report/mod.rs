//! One subject, judged, as every format shows it: its answer, its findings, and the blocks and numbers around them.
//!
//! There is a file for each subject, which knows what it has to show, and a renderer for each format, which knows how.

mod fleet;
mod machine;
mod nodes;

use peerlane::case::Case;
use peerlane::check::{Scope, rule_ids};
use peerlane::comparison::Comparison;
use peerlane::export::json::MachineCheck;
use peerlane::fleet::Fleet;
use peerlane::nodes::NodesRun;
use peerlane::nodes_check::NodesCheck;
use peerlane::verdict::Line;

use crate::item::Item;
use crate::render::headline::Headline;
use crate::samples::Samples;
pub(crate) use nodes::summary;

/// A subject with its verdict and findings.
pub struct Report<'a> {
    pub(crate) subject: Subject<'a>,
    /// What it is about, in one line.
    pub title: String,
    /// The verdict with its cause and what to do; of a fleet the worst of its machines.
    pub headline: Headline,
    /// The findings, the worst first.
    pub items: Vec<Item<'a>>,
}

/// What was judged.
#[derive(Clone, Copy)]
pub(crate) enum Subject<'a> {
    Machine(&'a Case, &'a Comparison<'a>, &'a MachineCheck),
    Nodes(&'a NodesRun, &'a NodesCheck),
    Fleet(&'a Fleet),
}

/// A part of what is shown, in the order in which it is read.
pub(crate) enum Block {
    /// [`Report::items`].
    Findings,
    /// Numbers by row.
    Table(Table),
    /// Lines with a layout of their own, such as a drawing, below a title.
    Drawing(&'static str, String),
    /// One sentence.
    Sentence(String),
    /// Sentences of one kind, below a title.
    Sentences(&'static str, Vec<String>),
}

/// A table.
#[derive(Default)]
pub(crate) struct Table {
    /// What it shows: `Not as expected`; empty where the headings tell.
    pub(crate) title: &'static str,
    /// Whether readers open it if they want to see it.
    pub(crate) folded: bool,
    /// Columns of words, which come first; the others are of numbers.
    pub(crate) words: usize,
    pub(crate) headings: Vec<&'static str>,
    pub(crate) rows: Vec<Vec<String>>,
    /// Which rows are shown, and of how many, where some are left out: `the worst from each end; 20 in all`.
    pub(crate) left_out: Option<String>,
}

/// Test cases that belong together, as JUnit has them.
pub(crate) struct Suite<'r, 'a> {
    pub(crate) name: String,
    pub(crate) cases: Vec<(String, Vec<&'r Item<'a>>)>,
    /// Why cases without a finding are skipped, where nothing was judged.
    pub(crate) skipped: Option<String>,
}

impl<'a> Report<'a> {
    /// A machine.
    pub fn of_machine(case: &'a Case, comparison: &'a Comparison<'a>, checked: &'a MachineCheck) -> Self {
        let headline = Headline::of(&case.machine, checked);
        Report {
            subject: Subject::Machine(case, comparison, checked),
            title: headline.machine.clone(),
            headline,
            items: Item::all(&checked.findings),
        }
    }

    /// Machines, each with its comparison and its verdict.
    pub fn of_machines(
        cases: impl IntoIterator<Item = &'a Case>,
        comparisons: &'a [Comparison<'a>],
        checks: &'a [MachineCheck],
    ) -> Vec<Self> {
        let all = cases.into_iter().zip(comparisons).zip(checks);
        all.map(|((case, comparison), checked)| Report::of_machine(case, comparison, checked)).collect()
    }

    /// Nodes that measured each other.
    pub fn of_nodes(run: &'a NodesRun, judged: &'a NodesCheck) -> Self {
        let headline = nodes::headline(run, judged);
        Report {
            subject: Subject::Nodes(run, judged),
            title: headline.machine.clone(),
            headline,
            items: Item::all(&judged.findings),
        }
    }

    /// Many machines.
    pub fn of_fleet(fleet: &'a Fleet) -> Self {
        let items: Vec<Item> = fleet.outliers.iter().chain(&fleet.network).map(Item::of_outlier).collect();
        let headline = fleet::headline(fleet, &items);
        Report { subject: Subject::Fleet(fleet), title: headline.machine.clone(), headline, items }
    }

    /// Whether its verdict, or that of a machine of a fleet, reaches a line.
    pub fn reaches(&self, line: Line) -> bool {
        line.is_reached(self.headline.verdict)
    }

    /// The command whose result it is.
    pub(crate) fn command(&self) -> &'static str {
        if matches!(self.subject, Subject::Fleet(_)) { "fleet" } else { "check" }
    }

    /// Everything that is shown below the title and the headline: of a long table at most `most` rows, and with `verbose` what
    /// only some readers need.
    pub(crate) fn blocks(&self, most: usize, verbose: bool) -> Vec<Block> {
        match self.subject {
            Subject::Machine(case, comparison, checked) => machine::blocks(case, comparison, checked),
            Subject::Nodes(run, judged) => nodes::blocks(run, judged, most, verbose),
            Subject::Fleet(fleet) => fleet::blocks(fleet, most),
        }
    }

    /// The findings as test cases.
    pub(crate) fn suites(&self) -> Vec<Suite<'_, 'a>> {
        match self.subject {
            Subject::Machine(_, _, checked) => {
                machine::suites(&checked.name, rule_ids(Scope::Machine), &self.items, &self.headline)
            }
            Subject::Nodes(_, judged) => {
                machine::suites(&judged.name, rule_ids(Scope::Nodes), &self.items, &self.headline)
            }
            Subject::Fleet(fleet) => fleet::suites(fleet, &self.items),
        }
    }

    /// Adds its verdict, its findings and its numbers.
    pub(crate) fn sample(&self, samples: &mut Samples) {
        match self.subject {
            Subject::Machine(case, comparison, checked) => {
                let began = case.run().map(|run| run.conditions.began);
                samples.add_verdict(&case.machine.name, checked.verdict, &self.items);
                machine::sample(samples, comparison);
                samples.add_began(&case.machine.name, began);
            }
            Subject::Nodes(run, judged) => {
                samples.add_verdict(&judged.name, judged.verdict, &self.items);
                nodes::sample(samples, judged);
                samples.add_began(&judged.name, Some(run.began));
            }
            Subject::Fleet(fleet) => fleet::sample(samples, fleet),
        }
    }
}
