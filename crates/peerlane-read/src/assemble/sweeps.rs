//! What sweeps of message sizes between an adapter and memory reach, as figures that are judged like any other.

use peerlane_machine::curve::Curve;
use peerlane_machine::fabric::{Fabric, NodeKind};
use peerlane_machine::machine::{Machine, MachineKind, Statement};
use peerlane_machine::matrix::{Direction, Quantity, Unit};

/// Adds the highest rate of each sweep of a text.
pub(super) fn state(machine: &mut Machine) {
    if machine.kind != MachineKind::Captured {
        return;
    }
    let reached: Vec<Statement> =
        machine.curves.iter().filter_map(|(curve, _)| highest(&machine.fabric, curve)).collect();
    machine.statements.extend(reached);
}

fn highest(fabric: &Fabric, curve: &Curve) -> Option<Statement> {
    let [from, to] = curve.ends.as_slice() else { return None };
    let kinds = [from, to].map(|end| fabric.find(end).map(|id| fabric.node(id).kind));
    let both = curve.settings.get("direction").is_some_and(|direction| direction == "bidirectional");
    if !curve.what.ends_with("_bw") || !kinds.contains(&Some(NodeKind::Nic)) || kinds.contains(&None) {
        return None;
    }
    let best = curve.best()?;
    Some(Statement {
        text: format!("the highest rate of {}, at {}", curve.what, best.size),
        quantity: Quantity::Bandwidth,
        direction: Some(if both { Direction::Bidirectional } else { Direction::Unidirectional }),
        p2p: None,
        from: vec![from.clone()],
        to: vec![to.clone()],
        low: best.rate.gb(),
        high: best.rate.gb(),
        unit: Unit::GigabytesPerSecond,
    })
}

#[cfg(test)]
mod tests {
    use super::super::assemble;
    use crate::evidence::{Text, scan_text};

    #[test]
    fn the_highest_rate_of_a_sweep_is_a_figure_of_its_pair() {
        let text = "\tGPU0\tmlx5_0\tCPU Affinity\nGPU0\t X \tPIX\t0-19\nmlx5_0\tPIX\t X\n\n\
                    $ ./ib_write_bw -d mlx5_0 --use_cuda [pid = 1, dev = 0] device name = [Tesla T4] ---- RDMA_Write BW Test \
                    Device : mlx5_0 Link type : IB ---- #bytes #iterations BW peak[Gb/sec] BW average[Gb/sec] \
                    MsgRate[Mpps] 524288 5000 95.10 94.90 0.022626 1048576 5000 98.95 96.75 0.011534\n";
        let machine = assemble(scan_text(&Text::new("post.txt", text.as_bytes()))).remove(0);
        let [one] = machine.statements.as_slice() else { panic!("{:?}", machine.statements) };
        assert_eq!((one.from.concat(), one.to.concat()), ("GPU0".to_owned(), "mlx5_0".to_owned()));
        assert!((one.low - 96.75 / 8.0).abs() < 1e-9, "{one:?}");
    }
}
