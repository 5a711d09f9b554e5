//! Pairs that are slower with peer-to-peer access than through host memory, and machines on which
//! peer-to-peer access changes nothing.

use super::culprit::blame;
use super::prelude::*;
use peerlane_machine::matrix::Operation;
use std::collections::HashMap;

pub(super) const RULE: Rule = Rule::new("p2p-slower-than-staged", Many(run)).explains("asymmetric-cell");

/// With P2P on, less than this share of the staged rate is slower and not noise.
const SLOWER: f64 = 0.95;

/// Rates this close are the same.
const SAME: f64 = 0.05;

/// Latencies this close are the same; a direct access takes about half of a staged one.
const SAME_LATENCY: f64 = 0.15;

/// The direct path must be expected to be this much faster for equal rates to mean anything: a link that
/// both paths share makes them equal without a fault.
const WORTH: f64 = 1.15;

/// A fault only below this share of what the model expects of the two paths: staged rates of sound machines scatter.
const FAULTY: f64 = 0.75;

/// From this share of the staged rate on it is only good to know.
const LITTLE: f64 = 0.85;

/// Below this share of the staged rate no design of a path within a socket explains it: translated, redirected or unmapped
/// accesses do.
const BROKEN: f64 = 0.5;

/// The same between sockets: processors before 2017 forward peer traffic at a sixth of the staged rate.
const BROKEN_ACROSS: f64 = 0.1;

/// Where there are no copies with P2P off: a direct rate below this share of the slower host copy of the two is slower
/// than staging, which takes two such copies and overlaps them.
const FAR_SLOWER: f64 = 0.25;

/// A pair both ways: with P2P on, and staged.
struct Compared<'m> {
    on: &'m SourcedMatrix,
    off: &'m SourcedMatrix,
    cell: Cell,
    direct: f64,
    staged: f64,
    /// What the model expects of the one as a share of the other, where it expects both.
    expected: Option<f64>,
}

impl Compared<'_> {
    fn share(&self) -> f64 {
        self.direct / self.staged
    }

    /// Whether the intervals of both overlap.
    fn is_unsure(&self) -> bool {
        let at = |o: &SourcedMatrix| o.spread.get(self.cell.i).and_then(|row| row.get(self.cell.j)).copied().flatten();
        at(self.on).zip(at(self.off)).is_some_and(|(on, off)| on.high >= off.low)
    }

    /// Slower than anything sound would be: far below the staged rate, or below the model where pairs share a switch or NVLink.
    fn is_fault(&self, view: &View) -> bool {
        let class = self.cell.nodes().and_then(|(a, b)| view.class(a, b));
        let broken = if class == Some(PathClass::Sys) { BROKEN_ACROSS } else { BROKEN };
        if self.share() < broken * self.expected.unwrap_or(1.0).min(1.0) {
            return true;
        }
        let near = class.is_some_and(|c| c <= PathClass::Pxb);
        // in a source that does not report its spread, any slowness of near pairs counts
        let limit = if self.on.spread.is_empty() { SLOWER.min(self.expected.unwrap_or(1.0)) } else { FAULTY };
        near && self.share() < limit * self.expected.unwrap_or(1.0).min(1.0)
    }
}

fn run(view: &View) -> Vec<Raised> {
    let mut all: Vec<Compared> = Vec::new();
    let mut effectless: Option<Raised> = None;
    for (at, on) in with_p2p(view) {
        let Some((off_at, off)) = counterpart(view, on) else { continue };
        let compared = view.gpu_cells(&on.matrix).into_iter().filter_map(|cell| {
            let staged = staged(on, off, &cell).filter(|rate| *rate > 0.0)?;
            let expected = view.expected_gb(at, &cell).zip(view.expected_gb(off_at, &cell)).map(|(on, off)| on / off);
            // refused pairs are staged in both tables
            let refused = cell.nodes().is_some_and(|(a, b)| view.p2p_works(a, b) == Some(false));
            (!refused).then(|| Compared { on, off, cell, direct: cell.rate.gb(), staged, expected })
        });
        let compared: Vec<Compared> = compared.collect();
        effectless = effectless.or_else(|| no_effect(view, on, off, &compared));
        all.extend(compared);
    }
    let slower: Vec<bool> = all.iter().map(|c| c.share() < SLOWER && !c.is_unsure()).collect();
    let faulty: Vec<bool> = all.iter().zip(&slower).map(|(c, slow)| *slow && c.is_fault(view)).collect();
    let cells: Vec<Cell> = all.iter().map(|c| c.cell).collect();
    let mut raised: Vec<Raised> = effectless.into_iter().collect();
    for group in blame(&cells, &faulty) {
        let members: Vec<&Compared> = group.cells.iter().filter_map(|i| all.get(*i)).collect();
        raised.extend(report_slower(view, Fault, group.culprit.map(|(end, _)| end), &members));
    }
    let sound = all.iter().zip(slower.iter().zip(&faulty)).filter(|(_, (slow, fault))| **slow && !**fault);
    raised.extend(report_slower(view, Design, None, &sound.map(|(c, _)| c).collect::<Vec<_>>()));
    raised.extend(far_below_the_host(view));
    raised
}

fn with_p2p<'a>(view: &View<'a>) -> impl Iterator<Item = (usize, &'a SourcedMatrix)> + use<'a> {
    view.bandwidths().filter(|(_, o)| o.matrix.p2p == Some(true))
}

/// Pairs whose direct copies are far slower than what both GPUs do with the host, in a source that has no copies with P2P
/// off to compare them with; only where the model expects nothing, since slow-path checks the others.
fn far_below_the_host(view: &View) -> Option<Raised> {
    let mut found: Vec<(&SourcedMatrix, Cell, f64)> = Vec::new();
    for (at, on) in with_p2p(view) {
        if counterpart(view, on).is_some() || on.matrix.direction != Some(Direction::Unidirectional) {
            continue;
        }
        let hosts = host_rates(view, on);
        for cell in view.gpu_cells(&on.matrix) {
            let Some((a, b)) = cell.nodes() else { continue };
            let (source, target) = if on.matrix.op == Some(Operation::Read) { (b, a) } else { (a, b) };
            let host = [hosts.get(&(source, false)), hosts.get(&(target, true))].map(Option::<&f64>::copied);
            let least = lowest(host.into_iter().flatten(), |rate| *rate);
            let Some(least) = least.filter(|_| view.expected_rate(at, &cell).is_none()) else { continue };
            if cell.rate.gb() < FAR_SLOWER * least {
                found.push((on, cell, least));
            }
        }
    }
    let (on, worst, least) = lowest(&found, |(_, cell, least)| cell.rate.gb() / least)?;
    let pairs = view.names(found.iter().filter_map(|(_, cell, _)| cell.nodes()));
    let subjects = Subject::pairs_of(&pairs);
    let raised = RULE
        .raise(Fault, Warning, Likely)
        .summary(format!(
            "Peer-to-peer between {} is far slower than copies through host memory: {} compared with {least:.2} GB/s to or \
             from the host",
            words::pairs(&pairs),
            worst.rate
        ))
        .expected(format!("more than copies through host memory: each GPU reaches at least {least:.2} GB/s to or from the host"))
        .measured(view.quote(on, worst))
        .evidence(view.cite_matrix(on))
        .fix(
            "Boot with `iommu=pt` if the IOMMU translates (`dmesg | grep -i iommu`), and clear ACS redirection if \
             ports redirect (`lspci -vvv | grep ACSCtl`): either slows peer traffic this much. Until then, turn \
             peer-to-peer off for these pairs (NCCL_P2P_DISABLE=1).",
        )
        .confirm(confirm::pairs("pairs,staged", &subjects))
        .cost(Cost::of_rate(*least, worst.rate.gb()))
        .about(subjects)
        .losing(1.0 - worst.rate.gb() / least);
    Some(raised)
}

/// What copies into each GPU (true) or out of it reach with the host, in the same source; the median, in GB/s.
fn host_rates(view: &View, like: &SourcedMatrix) -> HashMap<(NodeId, bool), f64> {
    let same = view.bandwidths().filter(|(_, o)| {
        o.origin.source == like.origin.source && o.matrix.direction == Some(Direction::Unidirectional)
    });
    let cells = same.flat_map(|(_, o)| view.cells(&o.matrix));
    let rates = words::grouped(cells.filter_map(|cell| Some((cell.with_host()?, cell.rate.gb()))));
    rates.into_iter().filter_map(|(end, rates)| Some((end, median(rates)?))).collect()
}

/// The P2P-off matrix to compare with: of the same source, direction and engine, the nearest in the text.
fn counterpart<'a>(view: &View<'a>, on: &SourcedMatrix) -> Option<(usize, &'a SourcedMatrix)> {
    let line = |o: &SourcedMatrix| o.origin.lines.map_or(0, |(first, _)| first);
    let same = view.bandwidths().filter(|(_, off)| {
        let (m, n) = (&on.matrix, &off.matrix);
        n.p2p == Some(false)
            && (m.direction, m.engine, m.unit) == (n.direction, n.engine, n.unit)
            && on.origin.source == off.origin.source
    });
    same.min_by_key(|(_, off)| line(on).abs_diff(line(off)))
}

/// The staged rate of the same pair, in GB/s.
fn staged(on: &SourcedMatrix, off: &SourcedMatrix, cell: &Cell) -> Option<f64> {
    let (m, n) = (&on.matrix, &off.matrix);
    // the matrices of one program have the same shape, so that positions agree; else look names up
    let value = if m.rows == n.rows && m.cols == n.cols {
        n.value(cell.i, cell.j)
    } else {
        n.between(m.rows.get(cell.i)?, m.cols.get(cell.j)?)
    };
    n.unit.rate(value?).map(|r| r.gb())
}

fn report_slower(view: &View, kind: FindingKind, culprit: Option<End>, members: &[&Compared]) -> Option<Raised> {
    let worst = lowest(members, |c| c.share())?;
    let pairs = view.names(members.iter().filter_map(|c| c.cell.nodes()));
    let classes_known = members.iter().all(|c| c.cell.nodes().is_some_and(|(a, b)| view.class(a, b).is_some()));
    let (shown, subjects) = match culprit {
        Some(End::Node(id)) => (format!("{} transfers of {}", members.len(), view.name(id)), vec![view.node(id)]),
        _ => (format!("transfers between {}", words::pairs(&pairs)), Subject::pairs_of(&pairs)),
    };
    let fault = kind == Fault;
    let by_nvlink =
        members.iter().all(|c| c.cell.nodes().and_then(|(a, b)| view.class(a, b)).is_some_and(PathClass::is_nvlink));
    let fix = if fault && by_nvlink {
        "Reset GPUs whose NVLinks are down or report errors (`nvidia-smi nvlink -s`, `-e`; Xid 74, 144 to 150). If \
         all links are up, check that the program's peer accesses use NVLink (`nvidia-smi nvlink -gt d` before and \
         after)."
    } else if fault {
        "Boot with `iommu=pt` or turn the IOMMU off if it translates (`dmesg | grep -i iommu`). If ports redirect \
         (`lspci -vvv | grep ACSCtl` shows ReqRedir+), turn ACS off in the BIOS or with setpci; in a virtual \
         machine, both are up to the host. If neither is on, check that Resizable BAR maps all GPU memory. Until \
         then, NCCL_P2P_DISABLE=1 is faster."
    } else if classes_known {
        "Turn P2P off for these pairs (NCCL_P2P_LEVEL=PXB) if large copies matter more than latency. Many root \
         complexes split traffic between their ports into small packets. An IOMMU that translates has the same effect; \
         `iommu=pt` avoids that."
    } else {
        "Turn P2P off for these pairs (NCCL_P2P_DISABLE=1) if large copies matter more than latency. Turn ACS \
         redirection and IOMMU translation off in the BIOS (`lspci -vvv | grep ACSCtl`, `dmesg | grep -i iommu`) and \
         measure again. If the pairs are still slow, a root complex probably splits packets between its ports, which \
         cannot be fixed. On GeForce cards, check whether the driver supports P2P (`nvidia-smi topo -p2p r`)."
    };
    let confirm = confirm::pairs("staged,pairs", &subjects);
    let severity = match worst.share() {
        share if fault && share < BROKEN => Error,
        share if fault || share < LITTLE => Warning,
        _ => Info,
    };
    // which of several causes it is depends on the path
    let raised = RULE
        .raise(kind, severity, if classes_known { Likely } else { Possible })
        .summary(format!(
            "Peer-to-peer is {} copies through host memory for {shown}",
            match worst.share() {
                share if share < BROKEN => "far slower than",
                _ => "slower than",
            }
        ))
        .expected(format!(
            "at least the staged rate: {} {:.2} GB/s",
            view.arrow(&worst.on.matrix, &worst.cell),
            worst.staged
        ))
        .measured(format!(
            "{:.2} GB/s with P2P on, {} of that ({}){}",
            worst.direct,
            percent(worst.share()),
            worst.on.matrix.describe(),
            latency(view, worst)
        ))
        .evidence(view.cite(members.iter().flat_map(|c| [&c.on.origin, &c.off.origin])))
        .fix(fix)
        .confirm(if classes_known { confirm } else { format!("`nvidia-smi topo -m` for the paths; {confirm}") })
        .cost(Cost::of_rate(worst.staged, worst.direct))
        .about(subjects)
        .losing(1.0 - worst.share())
        .shown_by(pairs);
    Some(raised)
}

/// What a small access takes, where the same source measured it: a direct one shows that peer access works, if slowly.
fn latency(view: &View, worst: &Compared) -> String {
    let of = |o: &&SourcedMatrix| o.matrix.p2p == Some(true) && o.origin.source == worst.on.origin.source;
    let (i, j) = (worst.cell.i, worst.cell.j);
    let matrix = view.latencies().find(of).map(|o| &o.matrix).filter(|m| m.rows == worst.on.matrix.rows);
    matrix.and_then(|m| m.value(i, j)).map_or(String::new(), |us| format!(", with a latency of {us:.2} µs"))
}

/// Equal rates on all pairs that claim to work, although the direct path should be faster or have less latency.
fn no_effect(view: &View, on: &SourcedMatrix, off: &SourcedMatrix, compared: &[Compared]) -> Option<Raised> {
    let works = |c: &&Compared| c.cell.nodes().is_some_and(|(a, b)| view.p2p_works(a, b) == Some(true));
    let claimed: Vec<&Compared> = compared.iter().filter(works).collect();
    if claimed.is_empty() || claimed.iter().any(|c| (c.share() - 1.0).abs() > SAME) {
        return None;
    }
    let (kind, measured) = match latencies(view, on) {
        Some(ratio) if (ratio - 1.0).abs() <= SAME_LATENCY => {
            ("latency", format!("rates within {} and latencies within {}", percent(SAME), percent(SAME_LATENCY)))
        }
        // a latency that peer access improves shows that it works
        Some(_) => return None,
        None => {
            let gains: Option<Vec<f64>> = claimed.iter().map(|c| c.expected).collect();
            median(gains?).filter(|gain| *gain >= WORTH)?;
            ("rate", format!("rates within {}", percent(SAME)))
        }
    };
    let subjects: Vec<Subject> = claimed.iter().map(|c| view.subject(&on.matrix, &c.cell)).collect();
    let raised = RULE
        .raise(Fault, Warning, Likely)
        .summary("Peer access seems to have no effect: results with P2P on and off are the same")
        .expected(format!("a better {kind} with P2P on, since the machine reports that it works"))
        .measured(format!("{measured} of each other ({})", on.matrix.describe()))
        .evidence(view.cite([&on.origin, &off.origin]))
        .fix(
            "Plan with copies through host memory if `nvidia-smi topo -p2p r` shows no support: some drivers of \
             consumer GPUs accept peer access and stage the data anyway. Otherwise turn ACS redirection and IOMMU \
             translation off.",
        )
        .confirm(confirm::pairs("staged,pairs", &subjects))
        .about(subjects);
    Some(raised)
}

/// The median, over pairs, of latency with P2P on over latency with P2P off, in the same source.
fn latencies(view: &View, on: &SourcedMatrix) -> Option<f64> {
    let of = |p2p: bool| view.latencies().find(|o| o.matrix.p2p == Some(p2p) && o.origin.source == on.origin.source);
    let (with, without): (&Matrix, &Matrix) = (&of(true)?.matrix, &of(false)?.matrix);
    let mut ratios = Vec::new();
    for (i, row) in with.rows.iter().enumerate() {
        for (j, _) in with.cols.iter().enumerate().filter(|(_, col)| *col != row) {
            let both = with.value(i, j).zip(without.value(i, j));
            ratios.extend(both.filter(|(_, off)| *off > 0.0).map(|(on, off)| on / off));
        }
    }
    median(ratios)
}

#[cfg(test)]
mod tests {
    use super::super::testing::{findings, switched, uniform};
    use super::*;
    use peerlane_machine::fact::P2pStatus;
    use peerlane_machine::machine::Machine;
    use peerlane_machine::matrix::{Quantity, Unit};
    use peerlane_machine::subject::join;

    fn off(mut measured: SourcedMatrix) -> SourcedMatrix {
        measured.matrix.p2p = Some(false);
        measured
    }

    fn latency(mut measured: SourcedMatrix, p2p: bool) -> SourcedMatrix {
        measured.matrix = Matrix {
            quantity: Quantity::Latency,
            direction: None,
            unit: Unit::Microseconds,
            p2p: Some(p2p),
            ..measured.matrix
        };
        measured
    }

    fn works(machine: &mut Machine) {
        let gpus: Vec<_> = machine.fabric.of_kind(peerlane_machine::fabric::NodeKind::Gpu).collect();
        for a in &gpus {
            machine.p2p.extend(gpus.iter().filter(|b| a != *b).map(|b| ((*a, *b), P2pStatus::Ok)));
        }
    }

    #[test]
    fn a_tenth_of_what_the_host_gets_is_slower_than_staging() {
        let found = |direct: f64| {
            let mut b = peerlane_machine::fabric::FabricBuilder::new();
            for name in ["GPU0", "GPU1"] {
                b.node(peerlane_machine::fabric::Node::new(name, peerlane_machine::fabric::NodeKind::Gpu));
            }
            let mut machine = super::super::testing::captured(b);
            machine.matrices.push(super::super::testing::uniform(2, direct, &[]));
            let mut to = super::super::testing::uniform(2, 24.0, &[]);
            (to.matrix.rows, to.matrix.p2p) = (vec!["host".to_owned()], None);
            to.matrix.values.truncate(1);
            let mut from = super::super::testing::uniform(2, 24.0, &[]);
            (from.matrix.cols, from.matrix.p2p) = (vec!["host".to_owned()], None);
            from.matrix.values.iter_mut().for_each(|row| row.truncate(1));
            machine.matrices.extend([to, from]);
            super::super::testing::findings(&machine, run).len()
        };
        assert_eq!((found(2.1), found(12.0)), (1, 0));
    }

    #[test]
    fn a_slower_pair_below_a_switch_is_a_fault() {
        let mut machine = switched(4);
        machine.matrices = vec![uniform(4, 13.0, &[(0, 1, 3.0)]), off(uniform(4, 9.0, &[]))];
        let found = findings(&machine, run);
        assert_eq!(found.len(), 1);
        assert_eq!((join(&found[0].subjects, " "), found[0].kind), ("GPU0-GPU1".to_owned(), Fault));
        machine.matrices[1].origin.source = "another.txt".into();
        assert!(findings(&machine, run).is_empty(), "another run is nothing to compare with");
    }

    #[test]
    fn a_twentieth_of_the_staged_rate_is_a_fault_wherever_the_pair_is() {
        let found = |classes: bool, direct: f64| {
            let boxes = super::super::testing::boxes(&[2], false);
            let mut machine = super::super::testing::captured(boxes);
            if !classes {
                let mut b = peerlane_machine::fabric::FabricBuilder::new();
                for name in ["GPU0", "GPU1"] {
                    b.node(peerlane_machine::fabric::Node::new(name, peerlane_machine::fabric::NodeKind::Gpu));
                }
                machine = super::super::testing::captured(b);
            }
            machine.matrices = vec![uniform(2, direct, &[]), off(uniform(2, 18.0, &[]))];
            machine.matrices.push(latency(uniform(2, 1.8, &[]), true));
            let found = findings(&machine, run);
            found.iter().map(|f| (f.kind, f.severity, f.measured.contains("1.80 µs"))).collect::<Vec<_>>()
        };
        assert_eq!(found(true, 0.9), [(Fault, Error, true)]);
        assert_eq!(found(false, 0.9), [(Fault, Warning, true)], "a path that is unknown");
        assert_eq!(found(true, 12.0)[0].0, Design, "a root complex that splits packets");
    }

    #[test]
    fn refused_pairs_are_staged_in_both_tables() {
        let mut machine = switched(4);
        machine.matrices = vec![uniform(4, 13.0, &[(0, 1, 8.0)]), off(uniform(4, 9.0, &[]))];
        let (a, b) = (machine.fabric.find("GPU0").unwrap(), machine.fabric.find("GPU1").unwrap());
        machine.p2p.extend([((a, b), P2pStatus::NotSupported), ((b, a), P2pStatus::NotSupported)]);
        assert!(findings(&machine, run).is_empty());
    }

    #[test]
    fn no_effect_needs_the_claim_and_a_sign_beyond_equal_rates() {
        let mut machine = switched(3);
        machine.matrices = vec![uniform(3, 9.1, &[]), off(uniform(3, 9.0, &[]))];
        works(&mut machine);
        assert!(findings(&machine, run).is_empty(), "equal rates may have a shared link for a cause");
        machine.matrices.push(latency(uniform(3, 15.0, &[]), true));
        machine.matrices.push(latency(uniform(3, 15.5, &[]), false));
        assert_eq!(findings(&machine, run).len(), 1);
        machine.p2p.clear();
        assert!(findings(&machine, run).is_empty());
        works(&mut machine);
        machine.matrices[2] = latency(uniform(3, 6.0, &[]), true);
        assert!(findings(&machine, run).is_empty());
    }
}
