//! RDMA through a machine's NICs that corrupts data, hangs or fails.

use std::collections::BTreeMap;

use super::from_run::subjects;
use super::prelude::*;
use peerlane_machine::transfer::Rdma;
use peerlane_measure::plan::Work;
use peerlane_measure::run::{Cell as Measured, FlagKind};

pub(super) const RULE: Rule = Rule::new("nic-failed", Many(run)).never_usual();

/// What can happen, the worst first.
const KINDS: [FlagKind; 3] = [FlagKind::Corrupt, FlagKind::Hung, FlagKind::Failed];

fn run(view: &View) -> Vec<Raised> {
    KINDS.into_iter().filter_map(|kind| of_kind(view, kind)).collect()
}

fn of_kind(view: &View, kind: FlagKind) -> Option<Raised> {
    let with_flag = |cell: &'_ Measured| match &cell.work {
        Work::Rdma(rdma) => Some((rdma.clone(), cell.flag(kind)?.detail.clone())),
        _ => None,
    };
    let found: Vec<(Rdma, String)> = view.case.run()?.cells.iter().filter_map(with_flag).collect();
    let (first, detail) = found.first()?;
    let mut pairs: BTreeMap<(String, String), ()> = BTreeMap::new();
    let mut alone: Vec<String> = Vec::new();
    for (rdma, _) in &found {
        let (a, b) = rdma.ends();
        if let Some((gpu, nic)) = rdma.gpu() {
            pairs.insert((gpu.to_owned(), nic.to_owned()), ());
        } else if a != b {
            pairs.insert((a.min(b).to_owned(), a.max(b).to_owned()), ());
        } else if !alone.iter().any(|known| known == a) {
            alone.push(a.to_owned());
        }
    }
    let pairs: Vec<(String, String)> = pairs.into_keys().collect();
    // what fails out and back through one NIC fails with others for the same reason
    let beyond: Vec<(String, String)> =
        pairs.iter().filter(|(a, b)| !alone.contains(a) && !alone.contains(b)).cloned().collect();
    let mut about: Vec<Subject> = Subject::nodes_of(alone.iter());
    about.extend(subjects(&beyond));
    let between = words::pairs(&pairs);
    let whom = match (alone.as_slice(), pairs.is_empty()) {
        ([], _) => format!("between {between}"),
        (alone, true) => format!("out and back through {}", list(alone)),
        (alone, false) => format!("out and back through {} and between {between}", list(alone)),
    };
    let (what, expected) = match kind {
        FlagKind::Corrupt => ("corrupts data", "data arrives unchanged"),
        FlagKind::Hung => ("hangs", "every transfer completes"),
        _ => ("fails", "every transfer completes"),
    };
    let n = found.len();
    let with_gpus = found.iter().any(|(rdma, _)| rdma.gpu().is_some());
    let steps = if n == 1 { "1 step".to_owned() } else { format!("{n} steps") };
    let raised = RULE
        .raise(Fault, Error, if kind == FlagKind::Failed { Likely } else { Certain })
        .summary(format!("RDMA {whom} {what}"))
        .expected(expected)
        .measured(format!("{steps}; {first}: {detail}"))
        .evidence(view.cite_run())
        .fix(match kind {
            FlagKind::Corrupt => {
                "Do not use these adapters until this is fixed: results are wrong without an error. Where an \
                 adapter's loopback corrupts data, update its firmware, then try another slot (PCIe errors in the \
                 kernel log: AER); otherwise replace the cable."
            }
            FlagKind::Hung => {
                "Reset the adapter, and update its firmware and rdma-core. If transfers hang between two adapters \
                 only, correct flow control on the way (PFC): the ports' pause counters (`ethtool -S`) show it."
            }
            _ => {
                "Correct what the reason names. Where an adapter's loopback fails, raise this user's limit of locked \
                 memory, and read the kernel log and the port's state; where only pairs fail, check addresses \
                 (`show_gids`), cable and switch; where only a GPU's memory fails, check the GPU and its driver \
                 (`nvidia-smi -q`, Xids)."
            }
        })
        .confirm(confirm::pairs(if with_gpus { "nic,nic-gpu" } else { "nic" }, &about))
        .about(about)
        .shown_by(pairs);
    Some(raised)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::testing::{measured, see_with};
    use peerlane_machine::matrix::Operation;
    use peerlane_machine::transfer::NicEnd;
    use peerlane_measure::plan::Test;
    use peerlane_measure::run::Flag;
    use peerlane_read::catalogue::{Parts, system};

    fn found(cells: &[(&str, &str, FlagKind)]) -> Vec<(String, String)> {
        let machine = system("hgx-h200").unwrap().unwrap();
        let mut case = measured(machine, [(("GPU0", "GPU1"), Ok(394.0))]);
        let run = &mut case.run.as_mut().unwrap().run;
        for (from, to, kind) in cells {
            let host = |nic: &str| NicEnd { nic: nic.to_owned(), memory: "host0".to_owned() };
            // a GPU's memory goes out through the NIC that is named, and back
            let of_gpu = from.starts_with("GPU");
            let from = if of_gpu { NicEnd { memory: (*from).to_owned(), ..host(to) } } else { host(from) };
            let mut cell = run.cells[0].clone();
            cell.test = if of_gpu { Test::NicGpu } else { Test::Nic };
            cell.work = Work::Rdma(Rdma::of_host(from, host(to), Operation::Write));
            cell.flags = vec![Flag::new(*kind, "as it says")];
            run.cells.push(cell);
        }
        see_with(&case, Parts::embedded(), |view| {
            let raised = super::run(view).into_iter();
            let words = |subjects: &[Subject]| peerlane_machine::subject::join(subjects, " ");
            raised.map(|raised| (raised.finding.summary, words(&raised.finding.subjects))).collect()
        })
    }

    #[test]
    fn each_kind_is_named_with_what_it_is_about() {
        let said = |summary: &str, about: &str| (summary.to_owned(), about.to_owned());
        let (corrupt, hung, failed) = (FlagKind::Corrupt, FlagKind::Hung, FlagKind::Failed);
        assert_eq!(found(&[("mlx5_0", "mlx5_1", FlagKind::NotApplicable)]), []);
        assert_eq!(
            found(&[("mlx5_3", "mlx5_4", corrupt), ("mlx5_4", "mlx5_3", corrupt), ("mlx5_1", "mlx5_1", hung)]),
            [
                said("RDMA between mlx5_3 and mlx5_4 corrupts data", "mlx5_3-mlx5_4"),
                said("RDMA out and back through mlx5_1 hangs", "mlx5_1")
            ]
        );
        assert_eq!(
            found(&[("mlx5_1", "mlx5_1", failed), ("mlx5_0", "mlx5_1", failed)]),
            [said("RDMA out and back through mlx5_1 and between mlx5_0 and mlx5_1 fails", "mlx5_1")]
        );
        assert_eq!(
            found(&[("GPU2", "mlx5_1", corrupt)]),
            [said("RDMA between GPU2 and mlx5_1 corrupts data", "GPU2-mlx5_1")]
        );
    }
}
