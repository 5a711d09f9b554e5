//! Pairs below switches that carry no more both ways than one way, as if a link had one direction.

use super::prelude::*;

pub(super) const RULE: Rule = Rule::new("half-duplex", One(run)).explains("uneven-path-class slow-path");

/// Both ways as a multiple of one way: links have two directions, and sound pairs below a switch reach 1.9 to 2.
const SHARED: f64 = 1.25;

/// What the model must expect of it, where it expects anything.
const EXPECTED: f64 = 1.5;

/// A pair with what it carries.
struct Pair<'m> {
    cell: Cell,
    both: &'m SourcedMatrix,
    one_way: &'m SourcedMatrix,
    /// GB/s one way, the slower of the two.
    one: f64,
    /// GB/s both ways, summed.
    sum: f64,
}

impl Pair<'_> {
    fn ratio(&self) -> f64 {
        self.sum / self.one
    }
}

fn run(view: &View) -> Option<Raised> {
    let mut shared: Vec<Pair> = Vec::new();
    for (at, both) in view.bandwidths().filter(|(_, o)| o.matrix.p2p == Some(true)) {
        let Some(per_sum) = per_sum(&both.matrix) else { continue };
        let Some((one_at, one_way)) = counterpart(view, both) else { continue };
        for cell in view.gpu_cells(&both.matrix) {
            let Some((a, b)) = cell.nodes() else { continue };
            let below = matches!(view.class(a, b), Some(PathClass::Pix | PathClass::Pxb)) && is_direct(view, a, b);
            let Some(one) = slower_way(&one_way.matrix, both, &cell).filter(|_| below) else { continue };
            let sum = cell.rate.gb() * per_sum;
            let expected = view.expected_gb(at, &cell).zip(view.expected_gb(one_at, &cell));
            let duplex = expected.is_none_or(|(sum, one)| sum * per_sum > EXPECTED * one);
            if duplex && sum < SHARED * one {
                shared.push(Pair { cell, both, one_way, one, sum });
            }
        }
    }
    let worst = lowest(&shared, |p| p.ratio())?;
    let pairs = view.names(shared.iter().filter_map(|p| p.cell.nodes()));
    let subjects = Subject::pairs_of(&pairs);
    let typical = median(shared.iter().map(Pair::ratio)).unwrap_or(worst.ratio());
    let raised = RULE
        .raise(Fault, Warning, Likely)
        .summary(format!(
            "Below one switch, {} carry no more both ways than one way: both directions share a channel",
            words::pairs(&pairs)
        ))
        .expected(format!("nearly twice the one-way rate: {:.1} GB/s", 2.0 * worst.one))
        .measured(format!("{:.1} GB/s both ways, {:.1} one way: {typical:.2} times", worst.sum, worst.one))
        .evidence(view.cite(shared.iter().flat_map(|p| [&p.both.origin, &p.one_way.origin])))
        .fix(
            "Clear ACS redirection on the switch's ports (BIOS, or `setpci -s PORT ECAP_ACS+6.w=0000` after each boot) \
             and boot with `iommu=pt`. Traffic that goes up to the root complex and back down fills the switch's \
             uplink in both directions. A host that passes the GPUs to virtual machines needs ACS, and cannot avoid \
             this.",
        )
        .confirm(format!(
            "`lspci -vvv | grep -e Switch -e ACSCtl` (ReqRedir+ is on); {}",
            confirm::pairs("pairs", &subjects)
        ))
        .cost(Cost::of_rate(2.0 * worst.one, worst.sum))
        .about(subjects)
        .losing(1.0 - worst.ratio() / 2.0)
        .shown_by(pairs);
    Some(raised)
}

/// Whether the pair may copy directly: without peer access the driver stages what the program calls P2P, in turns.
fn is_direct(view: &View, a: NodeId, b: NodeId) -> bool {
    view.p2p_works(a, b).unwrap_or_else(|| view.model.offers_peer_access(a) && view.model.offers_peer_access(b))
}

/// How many such numbers make the sum of both ways; `None` for one way.
fn per_sum(matrix: &Matrix) -> Option<f64> {
    match matrix.direction? {
        Direction::Unidirectional => None,
        Direction::Bidirectional => Some(1.0),
        Direction::BidirectionalShare => Some(2.0),
    }
}

/// The one-way matrix of the same source, engine and operation.
fn counterpart<'a>(view: &View<'a>, both: &SourcedMatrix) -> Option<(usize, &'a SourcedMatrix)> {
    view.bandwidths().find(|(_, o)| {
        let (m, n) = (&both.matrix, &o.matrix);
        n.direction == Some(Direction::Unidirectional)
            && (m.p2p, m.engine) == (n.p2p, n.engine)
            && (m.op == n.op || m.op.is_none() || n.op.is_none())
            && both.origin.source == o.origin.source
    })
}

/// What the pair carries one way, in GB/s: the slower of both.
fn slower_way(one_way: &Matrix, both: &SourcedMatrix, cell: &Cell) -> Option<f64> {
    let (row, col) = (both.matrix.rows.get(cell.i)?, both.matrix.cols.get(cell.j)?);
    let rate = |from, to| one_way.unit.rate(one_way.between(from, to)?).map(|r| r.gb());
    Some(rate(row, col)?.min(rate(col, row)?)).filter(|rate| *rate > 0.0)
}

#[cfg(test)]
mod tests {
    use super::super::testing::{boxes, captured, findings, see_with, switched, uniform};
    use super::*;
    use peerlane_machine::fact::P2pStatus;
    use peerlane_read::catalogue::Parts;

    fn both(mut measured: SourcedMatrix, direction: Direction) -> SourcedMatrix {
        measured.matrix.direction = Some(direction);
        measured
    }

    #[test]
    fn a_sum_like_one_way_is_one_channel() {
        let found = |switch: bool, sum: f64, direction: Direction| {
            let mut machine = if switch { switched(4) } else { captured(boxes(&[4], false)) };
            machine.matrices = vec![uniform(4, 12.9, &[]), both(uniform(4, sum, &[]), direction)];
            findings(&machine, run)
        };
        let shared = found(true, 13.1, Direction::Bidirectional);
        assert_eq!((shared.len(), shared[0].subjects.len()), (1, 6));
        assert!(shared[0].measured.contains("13.1 GB/s both ways, 12.9 one way"), "{}", shared[0].measured);
        assert_eq!(found(true, 6.5, Direction::BidirectionalShare).len(), 1);
        assert!(found(true, 25.1, Direction::Bidirectional).is_empty());
        assert!(found(true, 12.6, Direction::BidirectionalShare).is_empty());
        assert!(found(false, 13.1, Direction::Bidirectional).is_empty(), "a root complex may carry less both ways");
    }

    #[test]
    fn pairs_without_peer_access_are_staged_in_turns() {
        let found = |part: &str, status: Option<P2pStatus>| {
            let mut b = boxes(&[2], true);
            let gpus = ["GPU0", "GPU1"].map(|name| b.find(name).unwrap());
            gpus.iter().for_each(|gpu| b.node_mut(*gpu).part = Some(part.to_owned()));
            let mut machine = captured(b);
            machine.p2p.extend(status.map(|status| ((gpus[0], gpus[1]), status)));
            machine.matrices = vec![uniform(2, 12.9, &[]), both(uniform(2, 13.1, &[]), Direction::Bidirectional)];
            see_with(&machine, Parts::embedded(), |view| run(view).iter().count())
        };
        assert_eq!((found("rtx-a6000", None), found("rtx-4090", None)), (1, 0), "by the product");
        assert_eq!(found("rtx-a6000", Some(P2pStatus::ChipsetNotSupported)), 0, "by the driver's word");
        assert_eq!(found("rtx-4090", Some(P2pStatus::Ok)), 1, "the driver's word comes first");
    }

    #[test]
    fn only_the_pairs_that_show_it_are_named() {
        let mut machine = switched(3);
        let sums = both(uniform(3, 25.0, &[(0, 1, 13.0), (1, 0, 13.1)]), Direction::Bidirectional);
        machine.matrices = vec![uniform(3, 12.9, &[]), sums.clone()];
        assert_eq!(findings(&machine, run)[0].subjects, ["GPU0-GPU1"]);
        machine.matrices[0].origin.source = "another.txt".into();
        assert!(findings(&machine, run).is_empty(), "another run is nothing to compare with");
        machine.matrices = vec![uniform(3, 12.9, &[]), sums];
        machine.matrices.iter_mut().for_each(|o| o.matrix.p2p = Some(false));
        assert!(findings(&machine, run).is_empty(), "staged copies of both ways share the driver");
    }
}
