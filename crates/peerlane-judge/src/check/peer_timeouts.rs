//! Small peer transfers that take a millisecond and more: they run into a timeout instead of arriving.

use super::prelude::*;

pub(super) const RULE: Rule = Rule::new("peer-timeouts", One(run))
    .explains("p2p-slower-than-staged asymmetric-cell uneven-path-class slow-path unexplained-value");

/// µs that no path of a machine takes for a small message: accesses across sockets take a few, staged copies a few tens.
const TIMEOUT: f64 = 1000.0;

/// Larger transfers take long because of their size.
const SMALL: u64 = 64 << 10;

fn run(view: &View) -> Option<Raised> {
    let small = |o: &&SourcedMatrix| o.matrix.p2p == Some(true) && o.matrix.size.is_none_or(|size| size.0 <= SMALL);
    let mut pairs: Vec<(String, String)> = Vec::new();
    let mut slow: Vec<(f64, &SourcedMatrix)> = Vec::new();
    for measured in view.latencies().filter(small) {
        let matrix = &measured.matrix;
        for (i, row) in matrix.rows.iter().enumerate() {
            for (j, col) in matrix.cols.iter().enumerate().filter(|(_, col)| *col != row) {
                let Some(us) = matrix.value(i, j).filter(|us| *us >= TIMEOUT) else { continue };
                let is_gpu = |name: &String| {
                    view.fabric().find(name).is_some_and(|id| view.fabric().node(id).kind == NodeKind::Gpu)
                };
                if is_gpu(row) && is_gpu(col) {
                    if !pairs.iter().any(|(a, b)| (a, b) == (col, row)) {
                        pairs.push((row.clone(), col.clone()));
                    }
                    slow.push((us, measured));
                }
            }
        }
    }
    let (least, most) = slow.iter().fold((f64::INFINITY, 0.0_f64), |(a, b), (us, _)| (a.min(*us), b.max(*us)));
    let (first, _) = pairs.split_first()?;
    let range = if most > 1.5 * least {
        format!("{:.1} to {:.1} ms", least / 1000.0, most / 1000.0)
    } else {
        format!("{:.1} ms", most / 1000.0)
    };
    let subjects = Subject::pairs_of(&pairs);
    let raised = RULE
        .raise(Fault, Error, Likely)
        .summary(format!("Small peer-to-peer transfers between {} take {range}: they do not get through", words::pairs(&pairs)))
        .expected("a few microseconds")
        .measured(format!("{}→{}: {:.0} µs with P2P on", first.0, first.1, slow.first()?.0))
        .evidence(view.cite(slow.iter().map(|(_, measured)| &measured.origin)))
        .fix(
            "Set NCCL_P2P_DISABLE=1 until it works: data goes through host memory meanwhile. On bare metal, boot with \
             `iommu=pt` and turn ACS redirection off. In a virtual machine, the provider must allow peer traffic between \
             the GPUs, or they cannot use it.",
        )
        .confirm("`peerlane measure --tests pairs,latency`; `dmesg | grep -i iommu`")
        .about(subjects);
    Some(raised)
}

#[cfg(test)]
mod tests {
    use super::super::testing::{findings, switched, uniform};
    use super::*;
    use peerlane_machine::matrix::{Quantity, Unit};

    #[test]
    fn a_millisecond_is_a_timeout() {
        let with = |us: f64, p2p: bool| {
            let mut machine = switched(2);
            let mut latency = uniform(2, us, &[]);
            latency.matrix =
                Matrix { quantity: Quantity::Latency, unit: Unit::Microseconds, p2p: Some(p2p), ..latency.matrix };
            machine.matrices.push(latency);
            findings(&machine, run)
        };
        let found = with(49_200.0, true);
        assert_eq!((found.len(), found[0].severity, found[0].kind), (1, Error, Fault));
        assert!(found[0].summary.contains("GPU0 and GPU1 take 49.2 ms"), "{}", found[0].summary);
        assert!(with(30.0, true).is_empty() && with(2000.0, false).is_empty());
    }
}
