//! A rate that no link on the way can carry: the measurement is suspect, or the way is another one.

use super::view::{Cell, Raised, View, line_rate, one_way};
use super::{Certainty, Finding, FindingKind, Rule, Severity};
use crate::evidence::Matrix;
use crate::fabric::{Link, LinkKind};
use crate::units::Rate;

pub(super) const RULE: Rule = Rule { id: "above-line-rate", breaks: false, run };

/// Allowance for clocks, rounding and MB against MiB.
const ALLOWANCE: f64 = 1.05;

/// GB/s each way of one NVLink brick by generation, as `nvidia-smi nvlink -s` prints them (NVLink 1: NVIDIA's P100 white
/// paper); the highest of a generation where products differ.
const BRICK: [f64; 5] = [20.0, 25.781, 25.781, 26.562, 53.125];

fn run(view: &View) -> Vec<Raised> {
    let mut raised = Vec::new();
    for (_, observed) in view.bandwidths() {
        raised.extend(judge(view, &observed.matrix, view.cite_matrix(observed)));
    }
    // a figure in words stands in its matrix with its lowest value
    for stated in &view.stated {
        raised.extend(judge(view, &stated.matrix, view.cite([])));
    }
    raised
}

/// What one link carries each way at most, where that is sure.
fn most(view: &View, link: &Link) -> Option<Rate> {
    if link.assumed {
        return None;
    }
    match &link.kind {
        LinkKind::Pcie { running, allowed, .. } => line_rate(*running, *allowed, view.is_captured()),
        LinkKind::Nvlink { generation, bricks } => {
            let brick = BRICK.get(usize::from((*generation)?).checked_sub(1)?)?;
            Some(Rate::from_gb(brick * f64::from(*bricks)))
        }
        _ => None,
    }
}

fn judge(view: &View, matrix: &Matrix, evidence: Vec<String>) -> Option<Raised> {
    let mut fast = Vec::new();
    let mut worst: Option<(f64, Cell, Rate, String)> = None;
    for cell in view.cells(matrix) {
        let Some(path) = view.path(&cell, matrix.p2p) else { continue };
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
            worst = Some((excess, cell, limit, name));
        }
    }
    let (excess, cell, limit, link) = worst?;
    let finding = Finding {
        rule: RULE.id.to_owned(),
        certainty: Certainty::Likely,
        confirm: "`peerlane measure --tests pairs,host`, which compares what arrived with what was sent".to_owned(),
        cost: None,
        kind: FindingKind::Measurement,
        severity: Severity::Warning,
        summary: format!("Rates between {} are higher than the known links can carry", view.between(matrix, &fast)),
        subjects: fast.iter().map(|cell| view.subject(matrix, cell)).collect(),
        expected: format!("at most {limit} each way: the raw rate of {link}"),
        observed: format!(
            "{} {} ({}), {excess:.1} times that each way",
            view.arrow(matrix, &cell),
            cell.rate,
            matrix.describe()
        ),
        evidence,
        mend: "Measure again with larger transfers and verified data; if the rate stands, the data takes another way \
               than the one known here (NVLink, a wider link): add `nvidia-smi topo -m` or the link's width."
            .to_owned(),
    };
    Some(Raised::new(finding, 0.0))
}

fn describe(kind: &LinkKind) -> String {
    match kind {
        LinkKind::Pcie { running, allowed, .. } => {
            format!("PCIe {}", if allowed.raw_rate().is_some() { allowed } else { running })
        }
        LinkKind::Nvlink { bricks, .. } => format!("NVLink, {bricks} bricks"),
        other => other.name().to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{findings, pcie, switched, uniform, with_link};
    use super::*;
    use crate::evidence::Direction;

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
        let mut observed = uniform(3, 26.0, &[]);
        observed.matrix.direction = Some(Direction::Bidirectional);
        machine.matrices.push(observed);
        assert!(findings(&machine, run).is_empty());
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
