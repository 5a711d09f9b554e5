//! What many records say about many machines, as a document.

use peerlane_machine::schema::JsonSchema;
use serde::Serialize;

use crate::action::Action;
use crate::finding::Finding;
use crate::verdict::Verdict;
use peerlane_machine::matrix::Unit;

/// Names the format of [`Fleet`].
pub(super) const SCHEMA: &str = "peerlane/fleet/4";

/// Many records compared with each other.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Fleet {
    /// Names this format.
    #[schemars(extend("const" = "peerlane/fleet/4"))]
    pub schema: &'static str,
    /// Records that were read, each counted once.
    pub records: usize,
    /// The kinds of machines, the most common first.
    pub kinds: Vec<Kind>,
    /// Groups of numbers that are alike: columns of a heat map.
    pub tests: Vec<Test>,
    /// The machines, in the order of their names.
    pub machines: Vec<Member>,
    /// What is wrong with single machines, the worst first.
    pub outliers: Vec<Outlier>,
    /// What is wrong between machines, by records between nodes, the worst first: paths, switches, most nodes of a record. It is held
    /// against no machine; `machine` is the record's name.
    pub network: Vec<Outlier>,
    /// Outliers that the site's rules waive.
    pub waived: usize,
    /// How records were matched to machines where that was not plain.
    pub notes: Vec<String>,
    /// What could not be read.
    pub unread: Vec<Unread>,
}

impl Fleet {
    /// The worst verdict of a machine, or of what is wrong between machines; NOT JUDGED without a machine.
    pub fn verdict(&self) -> Verdict {
        let own = self.machines.iter().map(|machine| machine.verdict);
        let between = self.network.iter().filter_map(|found| found.finding.contributes());
        own.chain(between).max().unwrap_or(Verdict::NotJudged)
    }
}

/// Machines with the same GPUs, NICs and path classes.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Kind {
    /// How many there are.
    pub machines: usize,
    /// GPUs of each.
    pub gpus: usize,
    /// Their products.
    pub products: Vec<String>,
    /// One of them.
    pub example: String,
    /// Whether there are enough to know what is usual.
    pub compared: bool,
    /// The largest standard deviation between machines, of all kinds of rates, as a share; robust.
    pub spread: f64,
    /// What the rules find on nearly all of them: a property of the kind, held against no machine.
    pub shared: Vec<Shared>,
}

/// A finding that most machines of a kind have.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Shared {
    /// The rule.
    pub rule: String,
    /// What it finds on one of them.
    pub summary: String,
    /// How many have it.
    pub machines: usize,
}

/// A group of numbers that are alike: one family, method and path class.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
pub struct Test {
    /// In words: `pairs: write, copy engine, NV`.
    pub name: String,
    /// The family: `pairs`.
    pub family: String,
    /// The method: `write, copy engine`.
    pub method: String,
    /// The path class: `NV`, `to host`; empty where there is none.
    pub class: String,
}

/// A machine.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Member {
    /// Its host's name, else that of its folder, label or file.
    pub name: String,
    /// Its kind, as an index into `kinds`.
    pub kind: usize,
    /// Its records.
    pub records: usize,
    /// When the first of them began (RFC 3339, UTC), where known.
    pub first: Option<String>,
    /// When the last began.
    pub last: Option<String>,
    /// What its newest record and its outliers amount to.
    pub verdict: Verdict,
    /// Whether steps of the plan of its newest record have no value.
    pub incomplete: bool,
    /// The worst action of its outliers; none for a machine without any.
    pub action: Option<Action>,
    /// For each of `tests` its worst value over the kind's median, above 1 where it is better.
    pub scores: Vec<Option<f32>>,
}

/// Something wrong with a machine.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Outlier {
    /// The machine.
    pub machine: String,
    /// Of the rule `outlier` (compared with peers), `worse-than-before` (with its own records), or of one on its part.
    #[serde(flatten)]
    pub finding: Finding,
    /// What to do about it.
    pub action: Action,
    /// Measured, against what the model expects, the peers' median, and before: one sentence with figures.
    pub why: String,
    /// The worst number; none of what a rule found.
    pub worst: Option<Figures>,
    /// The share of a rate that is lost, or of a time that is added, 0 to 1; where there is no number, 1.
    pub loss: f64,
    /// Numbers that are off or missing; 0 for what a rule found.
    pub numbers: usize,
    /// Records of this machine that show it.
    pub repeats: usize,
    /// The group of the worst number, as an index into `tests`.
    pub test: Option<usize>,
    /// The worst number in every record of the machine that has it, the oldest first.
    pub history: Vec<Past>,
    /// When the first record that shows the loss began (RFC 3339, UTC), where earlier ones do not show it.
    pub since: Option<String>,
    /// Its newest record.
    pub file: String,
}

/// A number in a record.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Past {
    /// When the record began (RFC 3339, UTC), where known.
    pub began: Option<String>,
    /// The number, in the unit of `worst`.
    pub value: f64,
}

/// A number, with what it is compared with.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Figures {
    /// The number itself.
    pub measured: f64,
    /// What the model expects.
    pub expected: Option<f64>,
    /// The median of the machine's peers.
    pub peers: Option<f64>,
    /// The machine's own earlier value.
    pub before: Option<f64>,
    /// Unit of these four.
    pub unit: Unit,
}

/// What could not be read.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
pub struct Unread {
    /// The file or the label.
    pub name: String,
    /// Why not.
    pub why: String,
}
