//! The page of nodes that measured each other: a node is a machine, and its columns are its partners.
//!
//! A row is a node that sends. Up to [`MATRIX`] nodes, and of records of all pairs, the columns are the nodes that receive. Of
//! larger records a hundredth of that would be filled, so that there a column is a distance: the partners that many nodes on.

use std::collections::{BTreeMap, HashMap};

use crate::JsonSchema;
use peerlane::action::Action;
use peerlane::check::{Finding, Severity};
use peerlane::fleet::{Figures, Outlier};
use peerlane::matrix::Unit;
use peerlane::nodes::{NodesRun, Probe, Step, Transport};
use peerlane::nodes_check::{NodesCheck, quantity};
use peerlane::run::FlagKind;
use peerlane::site::{ComparedStep, Comparison, OFF};
use peerlane::stats::Median;
use peerlane::subject::Subject;
use serde::Serialize;

use super::groups::{GroupView, groups};
use super::{FleetPage, MemberView, OutlierView, SCHEMA, TEMPLATE, TestView, per_mille};
use crate::formats::markdown;
use crate::html::page::fill;
use crate::render::nodes::host;
use crate::render::text::count;
use crate::report::{Report, summary};

/// Nodes up to which columns are nodes, whatever share of the pairs was measured: so many fit a screen.
const MATRIX: usize = 64;

/// Nodes up to which they are where all pairs were measured: two million cells.
const MOST: usize = 1500;

/// Pairs that are listed.
const PAIRS: usize = 500;

/// What only this page has.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub(super) struct NodesView {
    /// The record's name, with what was measured.
    name: String,
    /// The verdict, as it is printed: `FAULT`.
    verdict: &'static str,
    /// Its first cause, in a sentence.
    cause: String,
    /// How many findings and values there are.
    summary: String,
    /// Kinds of values; the heat map shows one at a time.
    values: Vec<ValuesView>,
    /// Single values, the worst first.
    pairs: Vec<PairView>,
    /// Values that are not listed.
    pairs_left_out: usize,
    /// All-reduces of groups, which are between no two nodes.
    groups: Vec<GroupView>,
}

/// A kind of value.
#[derive(Clone, Debug, Serialize, JsonSchema)]
struct ValuesView {
    /// `verbs write`.
    name: String,
    /// What scores are shares of: `what is expected`.
    of: &'static str,
    /// Values between nodes.
    n: usize,
    /// The worst one, with its unit.
    worst: String,
    /// Their median.
    median: String,
    /// The best one.
    best: String,
    /// Steps without a value.
    failed: usize,
}

/// One value.
#[derive(Clone, Debug, Serialize, JsonSchema)]
struct PairView {
    /// Where data comes from: `node7/mlx5_3`.
    from: String,
    /// Where it goes.
    to: String,
    /// What was done: `verbs write`.
    what: String,
    /// The value with its unit, or why there is none.
    measured: String,
    /// What it is compared with.
    against: String,
    /// The share of that in per mille; 0 of what failed.
    score: u32,
}

/// Which way data goes, seen from the row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(super) enum Way {
    /// The row sends.
    Out,
    /// The row receives.
    In,
    /// To and fro.
    Both,
}

/// A kind of value: what moves it, what is done, and whether with GPU memory.
type Kind = (Transport, Probe, bool);

fn kind(step: &Step) -> Kind {
    (step.transport, step.probe, step.is_of_gpus())
}

/// A cell with what it is compared with.
struct Scored<'a> {
    joined: &'a ComparedStep<'a>,
    /// What it should be, or the median of its peers, if there is one.
    against: Option<f64>,
    /// The share of that, 0 of what failed; `None` where there is nothing to compare with.
    score: Option<f64>,
}

/// The page of a record.
pub fn nodes_page(comparison: &Comparison, check: &NodesCheck, file: &str) -> Result<String, serde_json::Error> {
    let run = comparison.run;
    let title = format!("{}: {}", run.name, count(run.nodes.len(), "node"));
    let report = Report::of_nodes(run, check);
    let page = FleetPage::of_nodes(comparison, check, &report, file);
    fill(TEMPLATE, &title, &page, &markdown(&report))
}

impl FleetPage {
    /// Of a record between nodes.
    pub(super) fn of_nodes(comparison: &Comparison, check: &NodesCheck, report: &Report, file: &str) -> FleetPage {
        let (run, joined) = (comparison.run, &*comparison.steps);
        let scored = scored(joined);
        let kinds: Vec<Kind> = {
            // what many nodes reach together is no value between two
            let steps = joined.iter().map(|j| &j.cell.step).filter(|step| !step.is_among_many() && !step.is_of_load());
            let mut kinds: Vec<Kind> = steps.map(kind).collect();
            let has_scores =
                |of: &Kind| scored.iter().any(|one| one.score.is_some() && kind(&one.joined.cell.step) == *of);
            // what RDMA delivers is what most came for, and rates before latencies
            let order =
                |of: Transport| [Transport::Verbs, Transport::Nccl, Transport::Tcp].iter().position(|t| *t == of);
            kinds.sort_by_key(|(transport, probe, gpus)| (order(*transport), *probe, *gpus));
            kinds.dedup();
            // the map begins with the first: one that shows what is off, and none that is empty
            let is_off = |of: &Kind| {
                let off = |one: &Scored| one.score.is_some_and(|score| score < OFF);
                scored.iter().any(|one| off(one) && kind(&one.joined.cell.step) == *of)
            };
            kinds.sort_by_cached_key(|of| (!has_scores(of), !is_off(of)));
            kinds
        };
        let n = run.nodes.len();
        let columns = if n <= MATRIX || (run.plan.all_pairs && n <= MOST) {
            matrix(run, &kinds, &scored)
        } else {
            distances(run, &kinds, &scored)
        };
        let findings: Vec<OutlierView> = check.findings.iter().map(|found| finding(run, found, file)).collect();
        let usual = usual(&kinds, &scored);
        let machines = (0..n).map(|at| member(run, at, &columns, usual.get(&at).copied(), &findings));
        let (pairs, pairs_left_out) = pairs(run, &scored);
        FleetPage {
            schema: SCHEMA,
            peerlane: env!("CARGO_PKG_VERSION"),
            nodes: Some(NodesView {
                name: report.title.clone(),
                verdict: check.verdict.words(),
                cause: report.headline.cause.clone(),
                summary: summary(run, check),
                values: kinds.iter().map(|kind| values(*kind, &scored)).collect(),
                pairs,
                pairs_left_out,
                groups: groups(run, joined),
            }),
            records: 1,
            kinds: Vec::new(),
            machines: machines.collect(),
            tests: columns.into_iter().map(|column| column.test).collect(),
            outliers: findings,
            left_out: 0,
            waived: check.waived.len(),
            notes: Vec::new(),
            unread: Vec::new(),
            unread_left_out: 0,
        }
    }
}

/// Each cell with its score: what is expected, or else the median of the same kind on the same NIC.
fn scored<'a>(joined: &'a [ComparedStep<'a>]) -> Vec<Scored<'a>> {
    type Peers<'a> = (Kind, bool, Option<&'a str>);
    fn peers<'a>(j: &ComparedStep<'a>) -> Peers<'a> {
        let step = &j.cell.step;
        (kind(step), step.is_loopback(), step.from.nic.as_deref())
    }
    let mut all: BTreeMap<Peers, Vec<f64>> = BTreeMap::new();
    let of_two = |one: &&ComparedStep| !one.cell.step.is_among_many() && !one.cell.step.is_of_load();
    for one in joined.iter().filter(of_two) {
        all.entry(peers(one)).or_default().extend(one.cell.value());
    }
    // one value is no peer of itself
    let medians: BTreeMap<Peers, f64> = all
        .into_iter()
        .filter_map(|(key, values)| Some((key, Median::of(&values).filter(|_| values.len() > 1)?.value)))
        .collect();
    let score = |one: &'a ComparedStep<'a>| {
        let against = one.expected.as_ref().map(|e| e.value).or_else(|| medians.get(&peers(one)).copied());
        let failed = one.cell.value().is_none() && one.cell.flag(FlagKind::NotApplicable).is_none();
        // a value within the range of what it may be is as expected
        let share = || one.share_of(one.against().or(against)?);
        let score = if failed { Some(0.0) } else { share() };
        Scored { joined: one, against, score }
    };
    joined.iter().map(score).collect()
}

/// A column with the score and the partner of each row.
struct Column {
    test: TestView,
    rows: HashMap<usize, (Option<u32>, usize)>,
}

impl Column {
    fn new(name: String, values: usize, family: String, way: Option<Way>, node: Option<usize>) -> Self {
        let test = TestView { values: Some(values), way, node, ..TestView::of(&name, &family) };
        Column { test, rows: HashMap::new() }
    }

    /// Of several NICs the worst.
    fn add(&mut self, row: usize, partner: usize, score: f64) {
        let new = per_mille(score as f32);
        let entry = self.rows.entry(row).or_insert((new, partner));
        entry.0 = entry.0.into_iter().chain(new).min();
    }
}

/// The rows that a cell is in, each with its partner and which way data goes: a latency is that of both.
fn places(one: &Scored) -> Vec<(usize, usize, Option<Way>)> {
    let step = &one.joined.cell.step;
    let (from, to) = (step.from.node, step.to.node);
    match (step.is_loopback(), step.probe.is_both_ways()) {
        (true, _) => vec![(from, from, None)],
        (false, true) => vec![(from, to, Some(Way::Both)), (to, from, Some(Way::Both))],
        (false, false) => vec![(from, to, Some(Way::Out)), (to, from, Some(Way::In))],
    }
}

/// Index of a cell's kind, and its score; none of what is not between two nodes, and where there is nothing to compare with.
fn kind_and_score(kinds: &[Kind], one: &Scored) -> Option<(usize, f64)> {
    let own = kind(&one.joined.cell.step);
    kinds.iter().position(|kind| *kind == own).zip(one.score)
}

fn named((transport, probe, gpus): Kind) -> String {
    // NCCL moves nothing else
    let memory = if gpus && transport != Transport::Nccl { ", GPU memory" } else { "" };
    format!("{transport} {probe}{memory}")
}

/// A column a node that receives.
fn matrix(run: &NodesRun, kinds: &[Kind], scored: &[Scored]) -> Vec<Column> {
    let n = run.nodes.len();
    let column = |values: usize, kind: Kind, node: usize| {
        let way = if kind.1.is_both_ways() { Way::Both } else { Way::Out };
        Column::new(host(run, node).to_owned(), values, named(kind), Some(way), Some(node))
    };
    let mut columns: Vec<Column> = kinds
        .iter()
        .enumerate()
        .flat_map(|(values, kind)| (0..n).map(move |node| (values, *kind, node)))
        .map(|(values, kind, node)| column(values, kind, node))
        .collect();
    for one in scored {
        let Some((kind, score)) = kind_and_score(kinds, one) else { continue };
        // what is received is in the sender's row
        for (row, partner, _) in places(one).into_iter().filter(|(_, _, way)| *way != Some(Way::In)) {
            if let Some(column) = columns.get_mut(kind * n + partner) {
                column.add(row, partner, score);
            }
        }
    }
    columns
}

/// A column a distance, in the order of nodes; where NICs are missing somewhere, a column is a partner's rank by distance.
fn distances(run: &NodesRun, kinds: &[Kind], scored: &[Scored]) -> Vec<Column> {
    let n = run.nodes.len();
    /// By row and distance.
    type Rows = BTreeMap<usize, BTreeMap<usize, Vec<f64>>>;
    let mut found: BTreeMap<(usize, Option<Way>), Rows> = BTreeMap::new();
    for one in scored.iter().filter(|one| !one.joined.cell.again) {
        let Some((kind, score)) = kind_and_score(kinds, one) else { continue };
        for (row, partner, way) in places(one) {
            let on = if way == Some(Way::In) { row + n - partner } else { partner + n - row } % n;
            found.entry((kind, way)).or_default().entry(row).or_default().entry(on).or_default().push(score);
        }
    }
    let mut columns = Vec::new();
    for ((values, way), rows) in found {
        let family = format!("{}{}", kinds.get(values).map_or_else(String::new, |kind| named(*kind)), words(way));
        let most = rows.values().map(BTreeMap::len).max().unwrap_or(0);
        for rank in 0..most {
            let mut at: Vec<usize> = rows.values().filter_map(|of| of.keys().nth(rank).copied()).collect();
            at.sort_unstable();
            at.dedup();
            let name = match (way, at.as_slice()) {
                (None, _) => "loopback".to_owned(),
                (Some(Way::Out), [on]) => format!("to {on} on"),
                (Some(Way::In), [on]) => format!("from {on} before"),
                (Some(Way::Both), [on]) if *on * 2 > n => format!("with {} before", n - on),
                (Some(Way::Both), [on]) => format!("with {on} on"),
                (Some(Way::Out), _) => format!("to partner {}", rank + 1),
                (Some(Way::In), _) => format!("from partner {}", rank + 1),
                (Some(Way::Both), _) => format!("with partner {}", rank + 1),
            };
            let mut column = Column::new(name, values, family.clone(), way, None);
            for (row, of) in &rows {
                let Some((on, scores)) = of.iter().nth(rank) else { continue };
                let partner = if way == Some(Way::In) { row + n - on } else { row + on } % n;
                scores.iter().for_each(|score| column.add(*row, partner, *score));
            }
            columns.push(column);
        }
    }
    columns
}

fn words(way: Option<Way>) -> &'static str {
    match way {
        None => ", loopback",
        Some(Way::Out) => ", sent",
        Some(Way::In) => ", received",
        Some(Way::Both) => ", to and fro",
    }
}

/// Of each row the lowest of the medians of its kinds of values, each way: a single slow path makes no bad node.
fn usual(kinds: &[Kind], scored: &[Scored]) -> HashMap<usize, f64> {
    let mut all: HashMap<(usize, usize, Option<Way>), Vec<f64>> = HashMap::new();
    for one in scored {
        let Some((kind, score)) = kind_and_score(kinds, one) else { continue };
        for (row, _, way) in places(one) {
            all.entry((row, kind, way)).or_default().push(score);
        }
    }
    let mut lowest: HashMap<usize, f64> = HashMap::new();
    for ((row, ..), scores) in all {
        let Some(median) = Median::of(&scores) else { continue };
        let least = lowest.entry(row).or_insert(median.value);
        *least = least.min(median.value);
    }
    lowest
}

fn member(run: &NodesRun, at: usize, columns: &[Column], usual: Option<f64>, findings: &[OutlierView]) -> MemberView {
    let row = |column: &Column| column.rows.get(&at).copied();
    let own = columns.iter().any(|column| column.test.node.is_none());
    let mine = findings.iter().filter(|of| of.machine == Some(at) || of.other == Some(at));
    let node = run.nodes.get(at);
    let nics: Vec<String> = node
        .into_iter()
        .flat_map(|node| &node.nics)
        .map(|nic| {
            let rate = nic.rate.map_or_else(String::new, |rate| format!(", {rate}"));
            let layer = nic.link_layer.as_ref().map_or_else(String::new, |layer| format!(", {layer}"));
            format!("{}{layer}{rate}, memory {}", nic.name, nic.memory)
        })
        .collect();
    MemberView {
        name: host(run, at).to_owned(),
        kind: 0,
        records: 1,
        first: None,
        last: None,
        action: mine.map(|of| of.action).min(),
        scores: columns.iter().map(|column| row(column)?.0).collect(),
        facts: nics.into_iter().chain(node.into_iter().flat_map(|node| node.notes.clone())).collect(),
        usual: usual.and_then(|usual| per_mille(usual as f32)),
        partners: if own { columns.iter().map(|column| Some(row(column)?.1)).collect() } else { Vec::new() },
    }
}

/// A finding, as outliers are shown.
fn finding(run: &NodesRun, of: &Finding, file: &str) -> OutlierView {
    let at = |name: &str| {
        let host = name.split_once('/').map_or(name, |(host, _)| host);
        run.nodes.iter().position(|node| node.host == host)
    };
    let (machine, other) = match of.subjects.first() {
        Some(Subject::Pair(a, b)) => (at(a), at(b)),
        Some(Subject::Node(name)) => (at(name), None),
        _ => (None, None),
    };
    // what is lost of what should be, and its share, give both
    let worst = of.cost.filter(|cost| cost.share > 0.0).map(|cost| {
        let all = cost.lost / cost.share;
        // a latency is longer by what is lost
        let (measured, expected) =
            if cost.unit == Unit::Microseconds { (all, all - cost.lost) } else { (all - cost.lost, all) };
        Figures { measured, expected: Some(expected), peers: None, before: None, unit: cost.unit }
    });
    let ended = |text: &str| if text.ends_with('.') { text.to_owned() } else { format!("{text}.") };
    let mut why = format!("Measured: {}", ended(&of.measured));
    if !of.expected.is_empty() {
        why.push_str(&format!(" Expected: {}", ended(&of.expected)));
    }
    let mut finding = of.clone();
    if !of.confirm.is_empty() {
        finding.fix = format!("{} To confirm: {}.", of.fix, of.confirm);
    }
    let action = if of.severity == Severity::Info { Action::Monitor } else { Action::of(of) };
    let (name, file, loss) = (String::new(), file.to_owned(), of.cost.map_or(0.0, |cost| cost.share));
    let outlier = Outlier {
        machine: name,
        finding,
        action,
        why,
        worst,
        loss,
        numbers: 0,
        repeats: 1,
        test: None,
        history: Vec::new(),
        since: None,
        file,
    };
    OutlierView { other, ..OutlierView::of(&outlier, machine) }
}

/// What values of a kind there are.
fn values(of: Kind, scored: &[Scored]) -> ValuesView {
    let across = |one: &&Scored| kind(&one.joined.cell.step) == of && !one.joined.cell.step.is_loopback();
    let mine: Vec<&Scored> = scored.iter().filter(across).collect();
    let mut all: Vec<f64> = mine.iter().filter_map(|one| one.joined.cell.value()).collect();
    let latency = of.1 == Probe::Latency;
    all.sort_by(|a, b| if latency { b.total_cmp(a) } else { a.total_cmp(b) });
    let shown = |value: Option<f64>| value.map_or_else(|| "–".to_owned(), |value| quantity(latency, value));
    let expected = mine.iter().filter(|one| one.joined.expected.is_some()).count();
    ValuesView {
        name: named(of),
        of: match expected {
            0 => "the median of all",
            all if all == mine.len() => "what is expected",
            _ => "what is expected, or else of the median",
        },
        n: all.len(),
        worst: shown(all.first().copied()),
        median: shown(Median::of(&all).map(|median| median.value)),
        best: shown(all.last().copied()),
        failed: mine.len() - all.len(),
    }
}

/// Single values, the worst first, and how many are left out.
fn pairs(run: &NodesRun, scored: &[Scored]) -> (Vec<PairView>, usize) {
    let between = scored.iter().filter(|one| !one.joined.cell.step.is_among_many());
    let mut all: Vec<(&Scored, f64)> = between.filter_map(|one| Some((one, one.score?))).collect();
    all.sort_by(|a, b| a.1.total_cmp(&b.1));
    let end = |end: &peerlane::nodes::End| {
        let host = host(run, end.node);
        end.nic.as_ref().map_or_else(|| host.to_owned(), |nic| format!("{host}/{nic}"))
    };
    let shown = all.iter().take(PAIRS).filter_map(|(one, score)| {
        let cell = one.joined.cell;
        let step = &cell.step;
        let shown = |value: f64| quantity(step.probe == Probe::Latency, value);
        let why = || cell.flags.first().map_or_else(|| "no value".to_owned(), |flag| flag.detail.clone());
        Some(PairView {
            from: end(&step.from),
            to: if step.is_loopback() { "itself".to_owned() } else { end(&step.to) },
            what: named(kind(step)),
            measured: cell.value().map_or_else(why, shown),
            against: one.against.map_or_else(|| "–".to_owned(), shown),
            score: per_mille(*score as f32)?,
        })
    });
    let shown: Vec<PairView> = shown.collect();
    let left_out = all.len() - shown.len();
    (shown, left_out)
}
