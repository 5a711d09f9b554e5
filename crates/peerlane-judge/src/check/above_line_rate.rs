//! A rate that no link on the path can carry: the measurement is suspect, or the path is a different one.

use super::prelude::*;
use super::view::line_rate;
use peerlane_machine::fabric::{Link, PcieWidth};
use peerlane_machine::units::Rate;

pub(super) const RULE: Rule = Rule::new("above-line-rate", Many(run));

/// Allowance for clocks, rounding and MB against MiB.
const ALLOWANCE: f64 = 1.05;

/// What may carry more than the links that are known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Carrier {
    /// NVLink between the two GPUs.
    Nvlink,
    /// NVLink between each of them and its CPU: a source denies them peer access, so that the data goes through host memory.
    NvlinkToHost,
}

/// A number with the limit that it exceeds.
struct Excess<'m> {
    /// How many times the limit it is.
    times: f64,
    matrix: &'m Matrix,
    cell: Cell,
    limit: Rate,
    /// What has the limit.
    link: String,
}

/// Numbers of all matrices that one limit explains.
struct Above<'m> {
    /// The pairs, by the nodes at their ends, that they are between.
    ends: Vec<(End, End)>,
    /// What else than the known links may carry them.
    by: Option<Carrier>,
    /// Numbers by matrix.
    matrices: Vec<Vec<Excess<'m>>>,
    evidence: Vec<String>,
}

fn run(view: &View) -> Vec<Raised> {
    let mut all: Vec<Above> = Vec::new();
    let measured = view.bandwidths().map(|(_, measured)| (&measured.matrix, view.cite_matrix(measured)));
    // a statement's matrix holds its lowest value
    let stated = view.statements().map(|(_, series)| (series.matrix(), view.cite([])));
    for (matrix, evidence) in measured.chain(stated) {
        add(&mut all, view, matrix, evidence);
    }
    all.iter().filter_map(|above| report(view, above)).collect()
}

/// Adds what exceeds a limit in one matrix to what the same pairs show in others.
fn add<'m>(all: &mut Vec<Above<'m>>, view: &View, matrix: &'m Matrix, evidence: Vec<String>) {
    let excesses: Vec<Excess> = view.cells(matrix).into_iter().filter_map(|cell| judge(view, matrix, cell)).collect();
    let by_carrier = grouped(excesses.into_iter().map(|e| (carrier(view, &e.cell), e)));
    // one number that nothing else may carry makes the whole matrix suspect
    if by_carrier.iter().any(|(by, _)| by.is_none()) {
        let all_of_it = by_carrier.into_iter().flat_map(|(_, excesses)| excesses).collect();
        return note(all, None, all_of_it, evidence);
    }
    for (by, excesses) in by_carrier {
        note(all, by, excesses, evidence.clone());
    }
}

fn note<'m>(all: &mut Vec<Above<'m>>, by: Option<Carrier>, excesses: Vec<Excess<'m>>, evidence: Vec<String>) {
    let ordered = |c: &Cell| (c.from.min(c.to), c.from.max(c.to));
    let mut ends: Vec<(End, End)> = excesses.iter().map(|e| ordered(&e.cell)).collect();
    ends.sort_unstable();
    ends.dedup();
    match all.iter_mut().find(|a| a.ends == ends && a.by == by) {
        Some(known) => {
            known.matrices.push(excesses);
            known.evidence = distinct(std::mem::take(&mut known.evidence).into_iter().chain(evidence));
        }
        None => all.push(Above { ends, by, matrices: vec![excesses], evidence }),
    }
}

/// Whether both ends have NVLink by their products, and nothing shows what their NVLinks join: then a rate that PCIe cannot
/// carry is that of NVLink.
fn may_have_nvlink(view: &View, cell: &Cell) -> bool {
    let has = |id| view.part(id).and_then(|part| part.nvlink_bricks).is_some_and(|n| n > 0);
    let unknown = !view.has_nvlink() && view.machine.stated_classes.is_none();
    unknown && cell.nodes().is_some_and(|(a, b)| has(a) && has(b))
}

/// What may carry a number, if NVLink may.
fn carrier(view: &View, cell: &Cell) -> Option<Carrier> {
    let (a, b) = cell.nodes().filter(|_| may_have_nvlink(view, cell))?;
    Some(if view.p2p_works(a, b) == Some(false) { Carrier::NvlinkToHost } else { Carrier::Nvlink })
}

/// What one link carries each way at most, where that is certain.
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

/// The number, if it exceeds what the narrowest link on its path carries.
fn judge<'m>(view: &View, matrix: &'m Matrix, cell: Cell) -> Option<Excess<'m>> {
    let (limit, link) = match view.path(&cell, matrix.p2p) {
        Some(path) => {
            let links = path.hops.iter().map(|hop| view.fabric().link(hop.link));
            let (limit, link) =
                lowest(links.filter_map(|link| Some((most(view, link)?, link))), |(rate, _)| rate.gb())?;
            (limit, format!("{}–{} ({})", view.name(link.a), view.name(link.b), describe(&link.kind)))
        }
        None => {
            let (limit, width) = unplaced(view, &cell)?;
            (limit, format!("the products' PCIe {width}"))
        }
    };
    let times = one_way(matrix, cell.rate).bytes_per_second() / limit.bytes_per_second();
    (times > ALLOWANCE).then_some(Excess { times, matrix, cell, limit, link })
}

/// What PCIe carries between two GPUs whose path is unknown, by their products, where these have NVLink too.
fn unplaced(view: &View, cell: &Cell) -> Option<(Rate, PcieWidth)> {
    // ports that are listed as active show NVLink, though not where it leads
    let mut listed = view.facts(|fact| matches!(fact, Fact::Nvlink(p) if p.iter().any(|p| p.active)).then_some(()));
    let (a, b) = cell.nodes().filter(|_| listed.next().is_none() && may_have_nvlink(view, cell))?;
    let width = |id| view.part(id).and_then(|part| part.pcie);
    let rates = [width(a)?, width(b)?].into_iter().filter_map(|width| Some((width.raw_rate()?, width)));
    lowest(rates, |(rate, _)| rate.gb())
}

fn report(view: &View, above: &Above) -> Option<Raised> {
    let Excess { times, matrix, cell, limit, link } = highest(above.matrices.iter().flatten(), |e| e.times)?;
    let first = above.matrices.first()?;
    let between = view.between(first.first()?.matrix, first.iter().map(|e| &e.cell));
    let raised = if let Some(by) = above.by {
        let summary = match by {
            Carrier::Nvlink => format!("Rates between {between} are those of NVLink, which no input shows"),
            Carrier::NvlinkToHost => format!(
                "Rates through host memory between {between} are those of NVLink to the CPUs, which no input shows"
            ),
        };
        RULE.raise(Measurement, Info, Likely)
            .summary(summary)
            .fix(
                "Add `nvidia-smi topo -m` or `nvidia-smi nvlink -s` of this machine; these rates cannot be checked without \
                 its NVLinks.",
            )
            .confirm("`nvidia-smi topo -m`")
    } else {
        RULE.raise(Measurement, Warning, Likely)
            .summary(format!("Rates between {between} are higher than the known links can carry"))
            .fix(
                "Measure again with larger transfers and verify the data. If the rate stays, the data takes a path that is \
                 not known here (NVLink, a wider link): add `nvidia-smi topo -m` or the link's width.",
            )
            .confirm("`peerlane measure --tests pairs,host`, which verifies the data")
    };
    let several =
        if above.matrices.len() > 1 { format!("; in {} matrices", above.matrices.len()) } else { String::new() };
    let named = above.matrices.iter().flatten().map(|e| view.subject(e.matrix, &e.cell));
    let raised = raised
        .expected(format!("at most {limit} each way: the raw rate of {link}"))
        .measured(format!(
            "{} {} ({}), {times:.1} times that each way{several}",
            view.arrow(matrix, cell),
            cell.rate,
            matrix.describe()
        ))
        .evidence(above.evidence.clone())
        .about(distinct(named));
    Some(raised)
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
    fn gpus_without_a_known_path_show_nvlink_by_their_rates() {
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
        assert_eq!((found.len(), found[0].severity), (1, Info));
        assert!(found[0].summary.contains("NVLink"), "{}", found[0].summary);
        assert_eq!(with(25.0, "a100-sxm4"), vec![]);
        assert_eq!(with(240.0, "rtx-4090"), vec![], "a product without NVLink");
    }

    #[test]
    fn pairs_without_peer_access_have_no_nvlink_between_them() {
        let mut b = peerlane_machine::fabric::FabricBuilder::new();
        for name in ["GPU0", "GPU1", "GPU2"] {
            let mut node = peerlane_machine::fabric::Node::new(name, peerlane_machine::fabric::NodeKind::Gpu);
            node.part = Some("tesla-p100-sxm2".to_owned());
            b.node(node);
        }
        let mut machine = super::super::testing::captured(b);
        machine.matrices.push(uniform(3, 20.0, &[(0, 1, 35.0), (1, 0, 35.0)]));
        let gpus = ["GPU0", "GPU1", "GPU2"].map(|name| machine.fabric.find(name).unwrap());
        for (a, b) in [(0, 2), (1, 2)] {
            machine.p2p.insert((gpus[a], gpus[b]), peerlane_machine::fact::P2pStatus::NotSupported);
        }
        let found =
            see_with(&machine, Parts::embedded(), |view| run(view).into_iter().map(|r| r.finding).collect::<Vec<_>>());
        let summaries: Vec<&str> = found.iter().map(|f| f.summary.as_str()).collect();
        assert_eq!(
            summaries,
            [
                "Rates between GPU0 and GPU1 are those of NVLink, which no input shows",
                "Rates through host memory between GPU0, GPU1 and GPU2 are those of NVLink to the CPUs, which no input shows",
            ]
        );
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
        assert_eq!((found.len(), found[0].severity), (1, Warning));
        assert!(found[0].measured.contains("GPU1→GPU0 26.00 GB/s"), "{}", found[0].measured);
        assert!(found[0].measured.ends_with("in 2 matrices"), "{}", found[0].measured);
    }

    #[test]
    fn rates_of_nvlink_are_no_suspect_measurement() {
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
        assert_eq!((found.len(), found[0].severity), (1, Info));
        assert!(found[0].summary.contains("NVLink, which no input shows"), "{}", found[0].summary);
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
