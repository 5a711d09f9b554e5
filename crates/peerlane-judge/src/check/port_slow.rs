//! Tests of a network adapter whose best rate is far below what its port carries.

use super::prelude::*;
use super::slow_path::narrower;
use peerlane_machine::curve::{At, Curve};
use peerlane_machine::fact::RdmaPort;
use peerlane_machine::units::{Bytes, Rate};

pub(super) const RULE: Rule = Rule::new("port-slow", Many(run));

/// Below this share of the port's rate it is slow: headers, credits and one queue pair together cost less.
const SLOW: f64 = 0.8;

/// Below this share no setting of the test explains it.
const BROKEN: f64 = 0.5;

/// Smaller messages are bound by their number.
const LARGE: Bytes = Bytes(64 << 10);

/// Programs that fill one port of one adapter, one way.
const ONE_WAY: [&str; 5] = ["ib_write_bw", "ib_read_bw", "ib_send_bw", "raw_ethernet_bw", "raw_ethernet_send_bw"];

/// A test with what the port carries.
struct Compared<'a> {
    curve: &'a Curve,
    origin: &'a Origin,
    best: At,
    adapter: String,
    port: Rate,
}

impl Compared<'_> {
    fn share(&self) -> f64 {
        self.best.rate.gb() / self.port.gb()
    }
}

fn run(view: &View) -> Vec<Raised> {
    compared(view).iter().filter(|one| one.share() < SLOW).map(|one| report(view, one)).collect()
}

/// Whether a test was read whose port's rate is known.
pub(super) fn is_comparable(view: &View) -> bool {
    !compared(view).is_empty()
}

fn compared<'a>(view: &View<'a>) -> Vec<Compared<'a>> {
    if !view.is_captured() {
        return Vec::new();
    }
    let of = |(curve, origin): &'a (Curve, Origin)| {
        let best = curve.best().filter(|best| best.size >= LARGE && best.rate > Rate::ZERO)?;
        // both ways at once carry up to twice as much, which the table does not state
        let is_one_way =
            ONE_WAY.contains(&curve.what.as_str()) && !curve.settings.values().any(|v| v.contains("idirectional"));
        let (adapter, port) = port(view, curve)?;
        is_one_way.then_some(Compared { curve, origin, best, adapter, port })
    };
    view.machine.curves.iter().filter_map(of).collect()
}

/// The adapter of a test, and what its port carries: by its name, or where all active ports are alike.
fn port(view: &View, curve: &Curve) -> Option<(String, Rate)> {
    let by_node = |name: &String| {
        let id = view.fabric().find(name).filter(|id| view.fabric().node(*id).kind == NodeKind::Nic)?;
        Some((name.clone(), view.model.line_rate(id)?))
    };
    let ports = || view.rdma_ports().map(|(port, _)| port);
    let rate = |port: &RdmaPort| port.gigabits.filter(|rate| *rate > 0.0).map(Rate::from_gbit);
    let by_port = |name: &String| Some((name.clone(), ports().find(|port| port.device == *name).and_then(rate)?));
    let adapters: Vec<&String> = curve.ends.iter().filter(|end| !end.starts_with("GPU")).collect();
    let alike = || {
        let mut all = ports().filter(|port| port.state.as_deref() == Some("active")).filter_map(rate);
        let first = all.next()?;
        let name = adapters.first().map_or_else(|| "the adapter".to_owned(), |name| (*name).clone());
        all.all(|rate| rate == first).then_some((name, first))
    };
    adapters.iter().find_map(|name| by_port(name).or_else(|| by_node(name))).or_else(alike)
}

fn report(view: &View, one: &Compared) -> Raised {
    let Compared { curve, origin, best, adapter, port } = one;
    let share = one.share();
    let link = view.fabric().find(adapter).and_then(|id| view.fabric().upstream(id)).map(|(link, _)| link);
    let fits = narrower(view, link, best.rate);
    let hint = if fits.is_empty() { String::new() } else { format!("; that is the rate of {}", fits.join(" or ")) };
    let (severity, certainty) = if share < BROKEN { (Error, Likely) } else { (Warning, Possible) };
    let what = &curve.what;
    RULE.raise(Fault, severity, certainty)
        .summary(format!("{what} through {adapter} reaches {} of its port's rate{hint}", percent(share)))
        .expected(format!("at least {} of the port's {:.0} Gb/s", percent(SLOW), 8.0 * port.gb()))
        .measured(format!("{:.1} Gb/s at {} ({what}, average)", 8.0 * best.rate.gb(), best.size))
        .evidence(view.cite([*origin]))
        .fix(
            "Look at both ends, of which the slower sets the rate: the port's speed (`ibstat`, `mlxlink`), the adapter's \
             PCIe link (`lspci -vv`), and error counters and pause frames (`ethtool -S`, `perfquery`). Run the test with \
             several queue pairs (`-q 4`) on CPUs near the adapter; with GPU memory, use a GPU below the same switch.",
        )
        .confirm(format!("`ibstat {adapter}` and `lspci -vv` at both ends; `{what} -d {adapter} -q 4 --report_gbits`"))
        .cost(Cost::of_rate(port.gb(), best.rate.gb()))
        .about_nodes(vec![adapter.as_str()])
        .losing(1.0 - share)
}

#[cfg(test)]
mod tests {
    use super::super::testing::{captured, origin, see, state};
    use super::*;
    use crate::finding::Finding;
    use peerlane_machine::curve::Series;
    use peerlane_machine::fabric::FabricBuilder;
    use peerlane_machine::matrix::Unit;

    fn with(gigabits: f64, kib: u64, ends: &[&str]) -> Vec<Finding> {
        let mut machine = captured(FabricBuilder::new());
        let port = RdmaPort {
            device: "mlx5_0".to_owned(),
            state: Some("active".to_owned()),
            gigabits: Some(400.0),
            ..RdmaPort::default()
        };
        state(&mut machine, "ibstat", Fact::RdmaPorts(vec![port]));
        let unit = Some(Unit::GigabitsPerSecond);
        let curve = Curve {
            what: "ib_write_bw".to_owned(),
            ends: ends.iter().map(|end| (*end).to_owned()).collect(),
            sizes: vec![Bytes(kib << 10)],
            series: vec![Series { name: "BW average".to_owned(), unit, values: vec![Some(gigabits)] }],
            ..Curve::default()
        };
        machine.curves.push((curve, origin("perftest")));
        see(&machine, |view| run(view).into_iter().map(|raised| raised.finding).collect())
    }

    #[test]
    fn a_quarter_of_the_port_is_a_fault() {
        let found = with(98.2, 1024, &["mlx5_0"]);
        assert_eq!((found.len(), found[0].severity, found[0].certainty), (1, Error, Likely));
        assert_eq!(with(250.0, 1024, &["mlx5_0"])[0].certainty, Possible);
        assert_eq!(with(392.0, 1024, &["mlx5_0"]), []);
        assert_eq!(with(20.0, 1, &["mlx5_0"]), [], "a small message");
        assert_eq!(with(98.2, 1024, &[]).len(), 1, "the only active port");
    }
}
