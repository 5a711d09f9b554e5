//! Tests through an RDMA device that software makes of a network interface: the CPU moves all of the data.

use super::prelude::*;
use peerlane_machine::curve::Curve;
use peerlane_machine::names::number_after;

pub(super) const RULE: Rule = Rule::new("software-rdma", One(run));

/// What the kernel's drivers and `rdma link add` call such devices: RoCE (`rdma_rxe`) and iWARP (`siw`) in software.
const NAMES: [&str; 2] = ["rxe", "siw"];

fn run(view: &View) -> Option<Raised> {
    let through = |curve: &Curve| curve.ends.iter().find(|end| is_software(end)).cloned();
    let used: Vec<(String, &Origin)> =
        view.facts(|fact| if let Fact::Curve(curve) = fact { through(curve) } else { None }).collect();
    let names = distinct(used.iter().map(|(name, _)| name.clone()));
    let first = names.first()?;
    let raised = RULE
        .raise(Design, Warning, Certain)
        .summary(format!(
            "{} {} RDMA in software: the CPU moves the data, and the rates are not those of an RDMA adapter",
            list(&names),
            verb(&names, "is", "are")
        ))
        .expected("a device of an adapter with RDMA")
        .measured(format!("a test through {first}"))
        .evidence(view.cite(used.iter().map(|(_, origin)| *origin)))
        .fix(
            "Repeat the test with the device of an RDMA adapter (`ibv_devinfo`; perftest's `-d`). If the machine has none, \
             compare with TCP on the same interface: RDMA in software is seldom faster.",
        )
        .confirm("`rdma link`; `ibv_devinfo`")
        .about_nodes(names);
    Some(raised)
}

fn is_software(device: &str) -> bool {
    NAMES.iter().any(|name| number_after(device, name).is_some())
}

#[cfg(test)]
mod tests {
    use super::super::testing::{boxes, captured, see_with, state};
    use super::*;
    use peerlane_read::catalogue::Parts;

    fn found(device: &str) -> usize {
        let mut machine = captured(boxes(&[1], true));
        let curve = Curve { ends: vec![device.to_owned()], ..Curve::default() };
        state(&mut machine, "perftest", Fact::Curve(curve));
        see_with(&machine, &Parts::default(), |view| run(view).into_iter().count())
    }

    #[test]
    fn a_test_through_soft_roce_is_one_of_software() {
        assert_eq!((found("rxe0"), found("siw3"), found("mlx5_0"), found("rxe_a")), (1, 1, 0, 0));
    }
}
