//! A rate that no link on the way can carry: the measurement is suspect, or the way is another one.

use super::view::{Cell, End, Raised, View, line_rate, one_way};
use super::{Certainty, Finding, FindingKind, Rule, Severity};
use peerlane_machine::fabric::{Interconnect, Link, LinkKind, PcieWidth};
use peerlane_machine::fact::Fact;
use peerlane_machine::matrix::Matrix;
use peerlane_machine::subject::Subject;
use peerlane_machine::units::Rate;

pub(super) const RULE: Rule = Rule { id: "above-line-rate", breaks: false, run };

/// Allowance for clocks, rounding and MB against MiB.
const ALLOWANCE: f64 = 1.05;

/// Numbers of all matrices that one limit explains.
struct Above<'m> {
    /// The pairs, by the nodes at their ends, that they are between.
    ends: Vec<(End, End)>,
    /// Whether NVLink may be what carries them.
    nvlink: bool,
    /// The matrices, and where they stand.
    matrices: Vec<(&'m Matrix, Vec<Cell>)>,
    evidence: Vec<String>,
    /// How many times more than the link carries, in which matrix and cell, and the link.
    worst: (f64, &'m Matrix, Cell, Rate, String),
}

fn run(view: &View) -> Vec<Raised> {
    let mut all: Vec<Above> = Vec::new();
    for (_, measured) in view.bandwidths() {
        add(&mut all, judge(view, &measured.matrix, view.cite_matrix(measured)));
    }
    // a figure in words stands in its matrix with its lowest value
    for (_, series) in view.statements() {
        add(&mut all, judge(view, series.matrix(), view.cite([])));
    }
    all.iter().map(|above| report(view, above)).collect()
}

/// Adds what was found in one matrix to what the same pairs show in others.
fn add<'m>(all: &mut Vec<Above<'m>>, new: Option<Above<'m>>) {
    let Some(new) = new else { return };
    let Some(known) = all.iter_mut().find(|a| a.ends == new.ends && a.nvlink == new.nvlink) else {
        all.push(new);
        return;
    };
    known.matrices.extend(new.matrices);
    for place in new.evidence {
        if !known.evidence.contains(&place) {
            known.evidence.push(place);
        }
    }
    if new.worst.0 > known.worst.0 {
        known.worst = new.worst;
    }
}

/// Whether both ends have NVLink by their products, and nothing shows what their NVLinks join: then a rate that PCIe cannot
/// carry is what NVLink gives.
fn may_have_nvlink(view: &View, cell: &Cell) -> bool {
    let shown = view.fabric().links().iter().any(|l| l.kind.bundle(Interconnect::Nvlink).is_some());
    let has = |id| view.part(id).and_then(|part| part.nvlink_bricks).is_some_and(|n| n > 0);
    !shown && view.machine.stated_classes.is_none() && cell.nodes().is_some_and(|(a, b)| has(a) && has(b))
}

/// What one link carries each way at most, where that is sure.
fn most(view: &View, link: &Link) -> Option<Rate> {
    if link.assumed {
        return None;
    }
    match &link.kind {
        LinkKind::Pcie { running, allowed, .. } => line_rate(*running, *allowed, view.is_captured()),
        LinkKind::Gpu(bundle) => {
            let each = bundle.interconnect.generation(Some(bundle.generation?))?.highest_rate()?;
            Some(Rate::from_gb(each * f64::from(bundle.links?)))
        }
        _ => None,
    }
}

fn judge<'m>(view: &View, matrix: &'m Matrix, evidence: Vec<String>) -> Option<Above<'m>> {
    let mut fast = Vec::new();
    let mut worst: Option<(f64, &Matrix, Cell, Rate, String)> = None;
    for cell in view.cells(matrix) {
        let Some(path) = view.path(&cell, matrix.p2p) else {
            if let Some((limit, width)) = unplaced(view, &cell) {
                let excess = one_way(matrix, cell.rate).bytes_per_second() / limit.bytes_per_second();
                if excess > ALLOWANCE {
                    fast.push(cell);
                    if worst.as_ref().is_none_or(|(most, ..)| excess > *most) {
                        worst = Some((excess, matrix, cell, limit, format!("the products' PCIe {width}")));
                    }
                }
            }
            continue;
        };
        let links = path.hops.iter().map(|hop| view.fabric().link(hop.link));
        let tightest = links
            .filter_map(|link| Some((most(view, link)?, link)))
            .min_by(|(a, _), (b, _)| a.bytes_per_second().total_cmp(&b.bytes_per_second()));
        let Some((limit, link)) = tightest else { continue };
        let excess = one_way(matrix, cell.rate).bytes_per_second() / limit.bytes_per_second();
        if excess <= ALLOWANCE {
            continue;
        }
        fast.push(cell);
        if worst.as_ref().is_none_or(|(most, ..)| excess > *most) {
            let name = format!("{}–{} ({})", view.name(link.a), view.name(link.b), describe(&link.kind));
            worst = Some((excess, matrix, cell, limit, name));
        }
    }
    let nvlink = fast.iter().all(|cell| may_have_nvlink(view, cell));
    let mut ends: Vec<(End, End)> =
        fast.iter().map(|c| if order(c.from) <= order(c.to) { (c.from, c.to) } else { (c.to, c.from) }).collect();
    ends.sort_by_key(|(a, b)| (order(*a), order(*b)));
    ends.dedup();
    Some(Above { ends, nvlink, matrices: vec![(matrix, fast)], evidence, worst: worst? })
}

/// What PCIe carries between two GPUs of which no way is known, by their products, where these have NVLink besides.
fn unplaced(view: &View, cell: &Cell) -> Option<(Rate, PcieWidth)> {
    // ports that are listed as active show NVLink, though not where it leads
    let listed = view.machine.evidence.iter().any(|e| matches!(&e.fact, Fact::Nvlink(p) if p.iter().any(|p| p.active)));
    let (a, b) = cell.nodes().filter(|_| !listed && may_have_nvlink(view, cell))?;
    let width = |id| view.part(id).and_then(|part| part.pcie);
    let widths = [width(a)?, width(b)?];
    let rates = widths.into_iter().filter_map(|width| Some((width.raw_rate()?, width)));
    rates.min_by(|(x, _), (y, _)| x.bytes_per_second().total_cmp(&y.bytes_per_second()))
}

fn order(end: End) -> usize {
    match end {
        End::Host => 0,
        End::Node(id) => id.index() + 1,
    }
}

fn report(view: &View, above: &Above) -> Raised {
    let (excess, matrix, cell, limit, link) = &above.worst;
    let mut subjects: Vec<Subject> = Vec::new();
    for (matrix, cells) in &above.matrices {
        for subject in cells.iter().map(|cell| view.subject(matrix, cell)) {
            if !subjects.contains(&subject) {
                subjects.push(subject);
            }
        }
    }
    let between = above.matrices.first().map_or_else(String::new, |(matrix, cells)| view.between(matrix, cells));
    let summary = if above.nvlink {
        format!("Rates between {between} are those of NVLink, which nothing read here shows")
    } else {
        format!("Rates between {between} are higher than the known links can carry")
    };
    let fix = if above.nvlink {
        "Add `nvidia-smi topo -m` or `nvidia-smi nvlink -s` of this machine: only with its NVLinks known can these rates be \
         judged."
    } else {
        "Measure again with larger transfers and verified data; if the rate stands, the data takes another way than the \
         one known here (NVLink, a wider link): add `nvidia-smi topo -m` or the link's width."
    };
    let confirm = if above.nvlink {
        "`nvidia-smi topo -m`"
    } else {
        "`peerlane measure --tests pairs,host`, which compares what arrived with what was sent"
    };
    let several =
        if above.matrices.len() > 1 { format!("; in {} matrices", above.matrices.len()) } else { String::new() };
    let severity = if above.nvlink { Severity::Info } else { Severity::Warning };
    let finding = Finding {
        summary,
        expected: format!("at most {limit} each way: the raw rate of {link}"),
        measured: format!(
            "{} {} ({}), {excess:.1} times that each way{several}",
            view.arrow(matrix, cell),
            cell.rate,
            matrix.describe()
        ),
        evidence: above.evidence.clone(),
        fix: fix.to_owned(),
        confirm: confirm.to_owned(),
        ..Finding::of(&RULE, FindingKind::Measurement, severity, Certainty::Likely, subjects)
    };
    Raised::new(finding, 0.0)
}

fn describe(kind: &LinkKind) -> String {
    match kind {
        LinkKind::Pcie { running, allowed, .. } => {
            format!("PCIe {}", if allowed.raw_rate().is_some() { allowed } else { running })
        }
        LinkKind::Gpu(bundle) => format!("{}, {}", bundle.interconnect.family().title, bundle.counted()),
        other => other.name().to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{findings, pcie, see_with, switched, uniform, with_link};
    use super::*;
    use peerlane_machine::matrix::Direction;
    use peerlane_read::catalogue::Parts;

    #[test]
    fn gpus_of_which_no_way_is_known_show_nvlink_by_their_rates() {
        let with = |rate: f64, part: &str| {
            let mut b = peerlane_machine::fabric::FabricBuilder::new();
            for name in ["GPU0", "GPU1"] {
                let mut node = peerlane_machine::fabric::Node::new(name, peerlane_machine::fabric::NodeKind::Gpu);
                node.part = Some(part.to_owned());
                b.node(node);
            }
            let mut machine = super::super::testing::captured(b);
            machine.matrices.push(super::super::testing::uniform(2, rate, &[]));
            let parts = peerlane_read::catalogue::Parts::embedded();
            super::super::testing::see_with(&machine, parts, |view| {
                run(view).into_iter().map(|r| r.finding).collect::<Vec<_>>()
            })
        };
        let found = with(240.0, "a100-sxm4");
        assert_eq!((found.len(), found[0].severity), (1, Severity::Info));
        assert!(found[0].summary.contains("NVLink"), "{}", found[0].summary);
        assert_eq!(with(25.0, "a100-sxm4"), vec![]);
        assert_eq!(with(240.0, "rtx-4090"), vec![], "what it has not, nobody can show");
    }

    #[test]
    fn faster_than_the_link_is_suspect() {
        let mut machine = switched(3);
        machine.matrices.push(uniform(3, 13.0, &[(0, 1, 25.0)]));
        let found = findings(&machine, run);
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].subjects, ["GPU0-GPU1"]);
        assert!(found[0].expected.starts_with("at most 15.75 GB/s"), "{}", found[0].expected);
    }

    #[test]
    fn both_ways_summed_is_not() {
        let mut machine = switched(3);
        let mut measured = uniform(3, 26.0, &[]);
        measured.matrix.direction = Some(Direction::Bidirectional);
        machine.matrices.push(measured);
        assert!(findings(&machine, run).is_empty());
    }

    #[test]
    fn one_cause_in_several_matrices_is_one_finding() {
        let mut machine = switched(3);
        machine.matrices.push(uniform(3, 13.0, &[(0, 1, 25.0)]));
        machine.matrices.push(uniform(3, 13.0, &[(1, 0, 26.0)]));
        let found = findings(&machine, run);
        assert_eq!((found.len(), found[0].severity), (1, Severity::Warning));
        assert!(found[0].measured.contains("GPU1→GPU0 26.00 GB/s"), "{}", found[0].measured);
        assert!(found[0].measured.ends_with("in 2 matrices"), "{}", found[0].measured);
    }

    #[test]
    fn what_nvlink_gives_is_no_suspect_measurement() {
        let mut machine = switched(2);
        let mut b = std::mem::take(&mut machine.fabric).into_builder();
        for name in ["GPU0", "GPU1"] {
            let id = b.find(name).unwrap();
            b.node_mut(id).part = Some("h200".to_owned());
        }
        machine.fabric = b.build().unwrap();
        machine.matrices.push(uniform(2, 390.0, &[]));
        let found =
            see_with(&machine, Parts::embedded(), |view| run(view).into_iter().map(|r| r.finding).collect::<Vec<_>>());
        assert_eq!((found.len(), found[0].severity), (1, Severity::Info));
        assert!(found[0].summary.contains("NVLink, which nothing read here shows"), "{}", found[0].summary);
    }

    #[test]
    fn an_idle_width_is_no_limit() {
        let mut machine = switched(2);
        for name in ["GPU0", "GPU1", "switch0"] {
            with_link(&mut machine, name, pcie("1.0 x16", "?"));
        }
        machine.matrices.push(uniform(2, 13.0, &[]));
        assert!(findings(&machine, run).is_empty());
    }
}
