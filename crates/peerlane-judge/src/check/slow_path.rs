//! Rates far below what the path should give, and which narrower link they fit.

use std::collections::{BTreeMap, HashMap, HashSet};

use super::culprit::{EVERYWHERE, Role, blame};
use super::host_buffers_far;
use super::narrow_link;
use super::one_link::{self, Crossing, Explained};
use super::prelude::*;
use super::view::cells::{as_rate, ends, expected_rate};
use peerlane_machine::fabric::{LinkId, PcieGeneration, PcieWidth};
use peerlane_machine::machine::Statement;
use peerlane_machine::matrix::{Engine, Operation};
use peerlane_machine::units::Rate;
use peerlane_model::comparison::{Expected, Series};

pub(super) const RULE: Rule = Rule::new("slow-path", Many(run))
    .explains("p2p-slower-than-staged asymmetric-cell uneven-path-class contended-slow");

/// Below this share, a pair that should go directly may be translated access by access.
const DETOUR: f64 = 0.1;

/// A matrix needs this many numbers for nearly all of them to mean something.
const FEW_CELLS: usize = 4;

/// Share of a link's raw rate that large copies reach: 64-byte packets at the low end (0.645 at Gen3 x16), 256-byte
/// reads over x1 at the high end (0.89). Neugebauer et al., "Understanding PCIe performance for end host
/// networking", SIGCOMM 2018.
pub(super) const PAYLOAD: std::ops::Range<f64> = 0.64..0.92;

/// A number with what should be in its place.
#[derive(Clone, Copy)]
struct Slow<'m> {
    matrix: &'m Matrix,
    measured: Option<&'m SourcedMatrix>,
    cell: Cell,
    expected: Rate,
    bottleneck: &'m str,
}

impl Slow<'_> {
    fn share(&self) -> f64 {
        self.cell.rate.bytes_per_second() / self.expected.bytes_per_second()
    }
}

/// What explains slow numbers.
#[derive(Clone, Debug, PartialEq)]
enum Cause {
    /// A GPU or NIC, or the link above it.
    Device(NodeId, Role),
    /// A link, and where it is entered from if only that direction is slow.
    Link(LinkId, Option<NodeId>),
    /// What binds them, in the model's words; no more is known.
    Bound(String),
}

impl Cause {
    /// Whether two are one: a GPU that is slow as a source here and as a destination there is slow.
    fn is(&self, other: &Cause) -> bool {
        match (self, other) {
            (Cause::Device(a, _), Cause::Device(b, _)) => a == b,
            _ => self == other,
        }
    }
}

/// A number that is checked.
struct Judged<'m> {
    /// Which matrix.
    at: usize,
    matrix: &'m Matrix,
    /// Whether that was published, and not measured where the rest was.
    published: bool,
    cell: Cell,
    slow: Option<Slow<'m>>,
    crossing: Crossing,
}

fn run(view: &View) -> Vec<Raised> {
    let narrow = narrow_link::links(view);
    let far = host_buffers_far::explained(view);
    // a link that narrow-link reports explains what is slow behind it, down to what it carries
    let explained = |matrix: &Matrix, cell: &Cell| {
        let enough = |link: LinkId| {
            let LinkKind::Pcie { running, .. } = &view.fabric().link(link).kind else { return false };
            let carries = running.raw_rate().map(|raw| raw * (view.settings.slow_path.slow * PAYLOAD.end));
            narrow.contains(&link) && carries.is_none_or(|least| one_way(matrix, cell.rate) >= least)
        };
        if cell.with_host().is_some_and(|(gpu, _)| far.contains(&gpu)) {
            return true;
        }
        !narrow.is_empty() && view.path(cell, matrix.p2p).is_some_and(|p| p.hops.iter().any(|h| enough(h.link)))
    };
    let mut causes: Vec<(Cause, Vec<Slow>)> = Vec::new();
    let judged = judged(view, &explained);
    let everywhere = everywhere(&judged);
    let mut open: HashSet<usize> = (0..judged.len()).collect();
    // what was published of a machine says nothing about a run's day
    for published in [false, true] {
        let considered = |j: &Judged| j.published == published && !everywhere.contains(&j.at);
        let of: Vec<(usize, &Judged)> = judged.iter().enumerate().filter(|(_, j)| considered(j)).collect();
        let crossings: Vec<Crossing> = of.iter().map(|(_, j)| j.crossing.clone()).collect();
        let found = one_link::explain(&crossings, |link| matches!(cause_of(view, link, None), Cause::Device(..))).0;
        for Explained { link, from, low } in found {
            let members: Vec<&(usize, &Judged)> = low.iter().filter_map(|i| of.get(*i)).collect();
            members.iter().for_each(|(i, _)| _ = open.remove(i));
            add(&mut causes, cause_of(view, link, from), members.iter().filter_map(|(_, j)| j.slow));
        }
    }
    let mut by_matrix: BTreeMap<usize, Vec<&Judged>> = BTreeMap::new();
    for (_, one) in judged.iter().enumerate().filter(|(i, _)| open.contains(i)) {
        by_matrix.entry(one.at).or_default().push(one);
    }
    let mut unexplained: Vec<Slow> = Vec::new();
    for members in by_matrix.values() {
        let cells: Vec<Cell> = members.iter().map(|j| j.cell).collect();
        let bad: Vec<bool> = members.iter().map(|j| j.slow.is_some()).collect();
        for group in blame(&cells, &bad) {
            let slow = group.cells.iter().filter_map(|i| members.get(*i)?.slow);
            match group.culprit {
                Some((End::Node(id), role)) => add(&mut causes, Cause::Device(id, role), slow),
                _ => unexplained.extend(slow),
            }
        }
    }
    for slow in unexplained {
        // a GPU that is slow by other numbers is the cause of these, too
        let known = causes.iter().map(|(cause, _)| cause).find(|cause| match cause {
            Cause::Device(id, _) => slow.cell.is_of(*id),
            _ => false,
        });
        let cause = known.cloned().unwrap_or_else(|| Cause::Bound(slow.bottleneck.to_owned()));
        add(&mut causes, cause, [slow]);
    }
    let mut raised: Vec<Raised> =
        causes.iter().filter_map(|(cause, slow)| report(view, cause, slow, &judged)).collect();
    raised.extend(stated(view, &explained));
    raised
}

fn add<'m>(causes: &mut Vec<(Cause, Vec<Slow<'m>>)>, cause: Cause, slow: impl IntoIterator<Item = Slow<'m>>) {
    match causes.iter_mut().find(|(known, _)| known.is(&cause)) {
        Some((_, known)) => known.extend(slow),
        None => causes.push((cause, slow.into_iter().collect())),
    }
}

/// All numbers that have an expectation.
fn judged<'m>(view: &'m View, explained: &dyn Fn(&Matrix, &Cell) -> bool) -> Vec<Judged<'m>> {
    let mut all = Vec::new();
    for (at, measured) in view.bandwidths() {
        let Some(series) = view.comparison.matrices().get(at) else { continue };
        let matrix = &measured.matrix;
        for cell in view.cells(matrix) {
            let Some((rate, expected)) = expected_rate(series, &cell).zip(series.expected(cell.i, cell.j)) else {
                continue;
            };
            let low = as_rate(series, expected, Expected::least).is_none_or(|least| cell.rate < least);
            let is_slow = low && is_slow(view, matrix, &cell, cell.rate, rate) && !explained(matrix, &cell);
            let bottleneck = expected.binding.words.as_str();
            let slow = Slow { matrix, measured: Some(measured), cell, expected: rate, bottleneck };
            let path = view.path(&cell, matrix.p2p);
            let read = matrix.op == Some(Operation::Read) && cell.nodes().is_some();
            // of a read, data comes from the column; within a package no limit is known that could be less
            let limited = |link| !matches!(view.fabric().link(link).kind, LinkKind::OnDie | LinkKind::OnCard);
            let hops = path.map(|p| p.hops).unwrap_or_default();
            let hops = hops.iter().filter(|h| limited(h.link));
            let crossing = Crossing {
                links: hops.map(|h| (h.link, if read { h.to } else { h.from })).collect(),
                both_ways: !matches!(matrix.direction, Some(Direction::Unidirectional)),
                rate: one_way(matrix, cell.rate).gb(),
                low: is_slow,
            };
            all.push(Judged {
                at,
                matrix,
                published: measured.published,
                cell,
                slow: is_slow.then_some(slow),
                crossing,
            });
        }
    }
    all
}

/// Matrices in which nearly every number is slow: no one link or GPU explains that.
fn everywhere(judged: &[Judged]) -> HashSet<usize> {
    let mut counts: HashMap<usize, (usize, usize)> = HashMap::new();
    for one in judged {
        let (all, slow) = counts.entry(one.at).or_default();
        *all += 1;
        *slow += usize::from(one.slow.is_some());
    }
    let nearly_all = |(all, slow): &(usize, usize)| *all >= FEW_CELLS && *slow as f64 >= EVERYWHERE * *all as f64;
    counts.iter().filter(|(_, n)| nearly_all(n)).map(|(at, _)| *at).collect()
}

/// The device above which a link is, or the link.
fn cause_of(view: &View, link: LinkId, from: Option<NodeId>) -> Cause {
    let fabric = view.fabric();
    let ends = [fabric.link(link).a, fabric.link(link).b];
    let devices: Vec<NodeId> = ends.into_iter().filter(|id| fabric.node(*id).kind.is_endpoint()).collect();
    match devices.as_slice() {
        [one] if fabric.node(*one).kind != NodeKind::Host => {
            let role = match from {
                None => Role::Any,
                Some(id) if id == *one => Role::Source,
                Some(_) => Role::Destination,
            };
            Cause::Device(*one, role)
        }
        _ => Cause::Link(link, from),
    }
}

/// Figures in words. One is of a set: slow only if even its highest value is too low for every transfer of the set.
fn stated(view: &View, explained: &dyn Fn(&Matrix, &Cell) -> bool) -> Vec<Raised> {
    let judge = |(statement, series): (&Statement, &Series)| {
        let matrix = series.matrix();
        let high = statement.unit.rate(statement.high)?;
        let slow = |cell: Cell| {
            let expected = expected_rate(series, &cell).filter(|rate| is_slow(view, matrix, &cell, high, *rate))?;
            let bottleneck = &series.expected(cell.i, cell.j)?.binding.words;
            (!explained(matrix, &cell)).then_some(Slow { matrix, measured: None, cell, expected, bottleneck })
        };
        let all: Option<Vec<Slow>> = view.cells(matrix).into_iter().map(slow).collect();
        report(view, &Cause::Bound(String::new()), &all?, &[])
    };
    view.statements().filter_map(judge).collect()
}

/// Whether a rate in the cell's place is too far below the expectation.
fn is_slow(view: &View, matrix: &Matrix, cell: &Cell, rate: Rate, expected: Rate) -> bool {
    let refused = || cell.nodes().is_some_and(|(a, b)| view.p2p_works(a, b) == Some(false));
    let settings = view.settings.slow_path;
    let share = if matrix.p2p == Some(false) || refused() { settings.staged } else { settings.slow };
    rate.bytes_per_second() < share * expected.bytes_per_second()
}

fn report(view: &View, cause: &Cause, slow: &[Slow], judged: &[Judged]) -> Option<Raised> {
    let worst = lowest(slow, |s| s.share())?;
    let best = slow.iter().map(Slow::share).fold(worst.share(), f64::max);
    let count = slow.len();
    let fabric = view.fabric();
    let (what, subjects) = match cause {
        Cause::Device(id, role) => {
            (format!("{count} rates {} {}", role.preposition(), view.name(*id)), vec![view.node(*id)])
        }
        Cause::Link(link, from) => {
            let ends = [fabric.link(*link).a, fabric.link(*link).b];
            let [a, b] = if *from == Some(ends[1]) { [ends[1], ends[0]] } else { ends };
            let arrow = if from.is_some() { "→" } else { "–" };
            (format!("{count} rates over {}{arrow}{}", view.name(a), view.name(b)), vec![view.link(a, b)])
        }
        Cause::Bound(_) => {
            let mut pairs: Vec<Subject> = Vec::new();
            for subject in slow.iter().map(|s| view.subject(s.matrix, &s.cell)) {
                if !pairs.iter().any(|known| known.is(&subject)) {
                    pairs.push(subject);
                }
            }
            let ends = pairs.iter().filter_map(Subject::ends);
            let ends: Vec<(String, String)> = ends.map(|(a, b)| (a.to_owned(), b.to_owned())).collect();
            (format!("Rates between {}", words::pairs(&ends)), pairs)
        }
    };
    let reach = if best - worst.share() < 0.01 {
        percent(best)
    } else {
        format!("{:.0} to {}", worst.share() * 100.0, percent(best))
    };
    let fits = fits(view, worst);
    let hint = if fits.is_empty() {
        String::new()
    } else {
        format!("; {} is the rate of {}", one_way(worst.matrix, worst.cell.rate), fits.join(" or "))
    };
    let because = Some(worst.bottleneck).filter(|b| !b.is_empty()).map_or(String::new(), |b| format!(", bound by {b}"));
    // one number of a program that does not report its spread may be an accident
    let alone = slow.len() == 1 && slow.iter().all(|s| s.measured.is_some_and(|o| o.spread.is_empty()));
    let peers = worst.matrix.p2p != Some(false) && worst.cell.nodes().is_some();
    let is_nvlink = |s: &Slow| s.cell.nodes().and_then(|(a, b)| view.class(a, b)).is_some_and(PathClass::is_nvlink);
    let by_nvlink = slow.iter().all(|s| s.matrix.p2p != Some(false) && is_nvlink(s));
    let means = if alone { Means::Accident } else { Means::of(view, slow, judged) };
    let fix = if let Some(fix) = means.fix() {
        fix
    } else if !fits.is_empty() {
        "Reseat or move the card whose link is narrow: `nvidia-smi -q` and `lspci -vv` show the widths of the links \
         on the path under load."
    } else if by_nvlink {
        "Reset the GPU whose NVLinks are down (`nvidia-smi nvlink -s`) or report errors (`-e`), and measure again on \
         an idle machine. If all are up, check power and thermal limits, and that the copies use NVLink (`nvidia-smi \
         nvlink -gt d` before and after)."
    } else if worst.share() < DETOUR && peers {
        "Boot with `iommu=pt` if the IOMMU translates (`dmesg | grep -i iommu`), and clear ACS redirection if ports \
         redirect (`lspci -vvv | grep ACSCtl`): either slows peer traffic this much. If neither does, check power \
         and thermal limits."
    } else {
        "Measure again on an idle machine. Then check power and thermal limits, ACS and IOMMU settings on the path, \
         and the NUMA binding of host buffers."
    };
    let measured = match worst.measured {
        Some(measured) => view.quote(measured, &worst.cell),
        None => {
            let Slow { matrix, cell, .. } = worst;
            format!("{} {} ({})", view.arrow(matrix, cell), cell.rate, matrix.describe())
        }
    };
    let shown = slow.iter().map(|s| ends(s.matrix, &s.cell).map(str::to_owned).into());
    let raised = RULE
        .raise(
            means.kind(),
            if means == Means::OneKind { Info } else { Warning },
            // even where its part is not known, a rate below any that the path should give is a fault on it
            if means == Means::Fault { Likely } else { Possible },
        )
        .summary(format!("{what} reach {reach} of what the path should give{hint}"))
        .expected(format!("{} {}{because}", view.arrow(worst.matrix, &worst.cell), worst.expected))
        .measured(measured)
        .evidence(view.cite(slow.iter().filter_map(|s| s.measured).flat_map(origins)))
        .fix(fix)
        .confirm(confirm::pairs("pairs,host", if matches!(cause, Cause::Link(..)) { &[] } else { &subjects }))
        .cost(Cost::of_rate(worst.expected.gb(), worst.cell.rate.gb()))
        .about(subjects)
        .losing(1.0 - worst.share())
        .shown_by(shown);
    Some(raised)
}

/// What slow numbers mean, by the numbers that are not.
#[derive(Clone, Copy, PartialEq)]
enum Means {
    /// One number of a program that does not report its spread.
    Accident,
    /// Only transfers both ways at once, or of kernels, are slow: what is on the path is not.
    OneKind,
    /// All transfers through the CPUs' root complexes are alike, and data sheets do not state what these forward.
    RootComplex,
    /// Something is not as it should be.
    Fault,
}

impl Means {
    fn of(view: &View, slow: &[Slow], judged: &[Judged]) -> Means {
        // single copies one way between the same ends show whether something on the path is slow
        let is_single = |j: &Judged| !j.crossing.both_ways && j.matrix.engine != Some(Engine::Sm);
        let same_ends = |a: &Cell, b: &Cell| a.nodes().is_some() && (a.nodes() == b.nodes());
        let is_special = |s: &Slow| {
            s.matrix.engine == Some(Engine::Sm) || !matches!(s.matrix.direction, Some(Direction::Unidirectional))
        };
        let sound = |s: &Slow| {
            let mut single = judged.iter().filter(|j| is_single(j) && same_ends(&j.cell, &s.cell)).peekable();
            single.peek().is_some() && single.all(|j| j.slow.is_none())
        };
        if slow.iter().all(|s| is_special(s) && sound(s)) {
            return Means::OneKind;
        }
        let forwarded = |cell: &Cell, p2p| is_forwarded(view, cell, p2p);
        let all_forwarded = slow.iter().all(|s| s.matrix.p2p != Some(false) && forwarded(&s.cell, s.matrix.p2p));
        let to_nic = |s: &Slow| {
            s.cell.nodes().is_some_and(|(a, b)| [a, b].iter().any(|id| view.fabric().node(*id).kind == NodeKind::Nic))
        };
        let alike = || {
            let others = judged.iter().filter(|j| j.slow.is_none());
            slow.iter().all(|s| s.share() >= LIKE_A_ROOT_COMPLEX)
                && !others.into_iter().any(|j| j.matrix.p2p != Some(false) && forwarded(&j.cell, j.matrix.p2p))
        };
        if all_forwarded && (slow.iter().all(to_nic) || alike()) {
            return Means::RootComplex;
        }
        Means::Fault
    }

    fn kind(self) -> FindingKind {
        match self {
            Means::Accident | Means::OneKind => Measurement,
            Means::RootComplex => Design,
            Means::Fault => Fault,
        }
    }

    /// What to do; `None` where that depends on the rate.
    fn fix(self) -> Option<&'static str> {
        match self {
            Means::Accident => Some("Measure it again several times on an idle machine before you look for a cause."),
            Means::OneKind => Some(
                "Measure these transfers again on an idle machine; if they stay low, driver or kernels are the \
                 limit. The links are sound: copies one way between the same GPUs reach what the path should give.",
            ),
            Means::RootComplex => Some(
                "Boot with `iommu=pt`, and reseat cards whose links are narrow under load (`nvidia-smi -q`, `lspci \
                 -vv`). If that does not help, the CPU's root complex forwards no more: put devices that communicate \
                 below one switch.",
            ),
            Means::Fault => None,
        }
    }
}

/// Share of the expectation that peer copies through a root complex still reach where only the root complex is slow; less is
/// what an IOMMU or ACS leaves.
const LIKE_A_ROOT_COMPLEX: f64 = 0.4;

/// Whether a root complex forwards the transfer from one device to another.
fn is_forwarded(view: &View, cell: &Cell, p2p: Option<bool>) -> bool {
    let hops = view.path(cell, p2p).map(|p| p.hops).unwrap_or_default();
    let through = hops.iter().any(|hop| view.fabric().node(hop.to).kind == NodeKind::RootComplex);
    cell.nodes().is_some()
        && through
        && !hops.iter().any(|hop| matches!(view.fabric().link(hop.link).kind, LinkKind::Gpu(_)))
}

/// Whether large copies over such a link reach a rate one way, and no more than it.
pub(super) fn is_payload_of(width: PcieWidth, rate: Rate) -> bool {
    width.raw_rate().is_some_and(|raw| PAYLOAD.contains(&(rate.bytes_per_second() / raw.bytes_per_second())))
}

/// The narrower PCIe links whose payload rate the slow cell has: fewer lanes of the same generation, or the
/// same lanes at a lower one, of the narrowest link on its path.
fn fits(view: &View, slow: &Slow) -> Vec<String> {
    let hops = view.path(&slow.cell, slow.matrix.p2p).map(|p| p.hops).unwrap_or_default();
    narrower(view, hops.iter().map(|hop| hop.link), one_way(slow.matrix, slow.cell.rate))
}

/// The same of these links.
pub(super) fn narrower(view: &View, links: impl IntoIterator<Item = LinkId>, rate: Rate) -> Vec<String> {
    let known = |link: LinkId| match &view.fabric().link(link).kind {
        LinkKind::Pcie { running, allowed, .. } => {
            let width = if view.is_captured() && allowed.raw_rate().is_some() { *allowed } else { *running };
            Some((width, width.raw_rate()?))
        }
        _ => None,
    };
    let narrowest = lowest(links.into_iter().filter_map(known), |(_, raw)| raw.gb());
    let Some((width, _)) = narrowest else { return Vec::new() };
    let (Some(generation), Some(lanes)) = (width.generation, width.lanes) else { return Vec::new() };
    let fewer = [1, 2, 4, 8, 16].into_iter().filter(|n| *n < lanes).map(|n| PcieWidth::new(generation, n));
    let older = PcieGeneration::ALL.into_iter().filter(|g| *g < generation).map(|g| PcieWidth::new(g, lanes));
    fewer.chain(older).filter(|width| is_payload_of(*width, rate)).map(|width| format!("PCIe {width}")).collect()
}

#[cfg(test)]
mod tests {
    use super::super::testing::{boxes, captured, matrix, pcie, see_expecting, switched, uniform, with_link};
    use super::*;
    use crate::finding::Finding;
    use peerlane_machine::fabric::{GpuLink, Link, LinkKind};
    use peerlane_machine::machine::Machine;
    use peerlane_machine::subject::join;
    use peerlane_read::catalogue::Parts;

    /// What is found where `value` is expected everywhere.
    fn findings(machine: &Machine, value: Option<f64>) -> Vec<Finding> {
        let expected = |_: &Matrix, _, _| value.map(|value| Expected::exactly(value, "the switch"));
        see_expecting(machine, &Parts::default(), expected, |view| run(view).into_iter().map(|r| r.finding).collect())
    }

    #[test]
    fn a_slow_gpu_is_named_with_the_link_it_fits() {
        let mut machine = switched(3);
        machine.matrices.push(matrix(&[&[0.0, 12.9, 0.75], &[12.9, 0.0, 0.75], &[0.75, 0.75, 0.0]]));
        let found = findings(&machine, Some(13.0));
        assert_eq!(found.len(), 1);
        assert_eq!((join(&found[0].subjects, " "), found[0].severity), ("GPU2".to_owned(), Error));
        assert!(found[0].summary.ends_with("0.75 GB/s is the rate of PCIe 3.0 x1"), "{}", found[0].summary);
        assert!(found[0].expected.contains("the switch"));
    }

    #[test]
    fn slow_nvlink_is_no_matter_of_the_iommu() {
        let mut b = boxes(&[2], true);
        let [one, other] = ["GPU0", "GPU1"].map(|name| b.find(name).unwrap());
        b.link(Link::new(one, other, LinkKind::Gpu(GpuLink::nvlink(Some(4), 4))));
        let mut machine = captured(b);
        machine.matrices.push(uniform(2, 9.0, &[]));
        let found = findings(&machine, Some(90.0));
        assert!(found[0].fix.contains("nvidia-smi nvlink -s") && !found[0].fix.contains("iommu"), "{found:?}");
    }

    #[test]
    fn staged_copies_may_be_slower() {
        let mut machine = switched(2);
        machine.matrices.push(uniform(2, 8.0, &[]));
        assert_eq!(findings(&machine, Some(13.0)).len(), 1);
        machine.matrices[0].matrix.p2p = Some(false);
        assert!(findings(&machine, Some(13.0)).is_empty());
    }

    #[test]
    fn cells_of_one_bottleneck_are_one_finding() {
        let mut machine = switched(4);
        machine.matrices.push(uniform(4, 13.0, &[(0, 1, 6.0), (2, 3, 5.0)]));
        let found = findings(&machine, Some(13.0));
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].subjects, ["GPU0-GPU1", "GPU2-GPU3"]);
        assert_eq!(found[0].severity, Error);
    }

    #[test]
    fn both_ways_alone_is_no_fault_of_a_link() {
        let mut machine = switched(3);
        let mut single = uniform(3, 13.0, &[]);
        single.matrix.direction = Some(Direction::Unidirectional);
        let mut both = uniform(3, 6.0, &[]);
        both.matrix.direction = Some(Direction::Bidirectional);
        machine.matrices = vec![single, both];
        let kinds = |machine: &Machine| -> Vec<FindingKind> {
            findings(machine, Some(13.0)).into_iter().map(|f| f.kind).collect()
        };
        assert_eq!(kinds(&machine), [Measurement]);
        machine.matrices[0] = uniform(3, 6.0, &[]);
        machine.matrices[0].matrix.direction = Some(Direction::Unidirectional);
        assert!(kinds(&machine).contains(&Fault));
    }

    #[test]
    fn peers_that_a_root_complex_joins_may_all_be_slower() {
        let with = |rates: &[&[f64]]| {
            let mut machine = captured(boxes(&[2], false));
            machine.matrices.push(matrix(rates));
            let found = findings(&machine, Some(13.0));
            found.into_iter().map(|f| f.kind).collect::<Vec<_>>()
        };
        assert_eq!(with(&[&[0.0, 6.0], &[6.0, 0.0]]), [Design]);
        assert_eq!(with(&[&[0.0, 2.0], &[2.0, 0.0]]), [Fault], "an IOMMU or ACS leaves so little");
    }

    #[test]
    fn unknown_met_and_explained_rates_are_silent() {
        let mut machine = switched(3);
        machine.matrices.push(uniform(3, 0.8, &[]));
        assert!(findings(&machine, None).is_empty());
        assert!(findings(&machine, Some(0.8)).is_empty());
        for gpu in ["GPU0", "GPU1", "GPU2"] {
            with_link(&mut machine, gpu, pcie("3.0 x1", "3.0 x16"));
        }
        assert!(findings(&machine, Some(13.0)).is_empty());
    }
}
