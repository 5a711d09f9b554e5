//! Collectives among several hosts that stay far below what their GPUs and adapters carry.

use std::cell::OnceCell;

use super::collective_slow::{WITHOUT_SHARP, collective_of};
use super::prelude::*;
use peerlane_design::cluster::Cluster;
use peerlane_design::cluster::network::Wanted;
use peerlane_design::simulate::library::Library;
use peerlane_machine::curve::{At, Curve};
use peerlane_machine::machine::Machine;
use peerlane_machine::transfer::Collective;
use peerlane_machine::units::{Bytes, Seconds};
use peerlane_model::assumptions::Assumptions;

pub(super) const RULE: Rule = Rule::new("between-hosts-slow", One(run));

/// Below this share of what is predicted it is slow. The prediction has an error of a quarter.
const SLOW: f64 = 0.5;

/// Below this share neither another network nor another release of the library explains it.
const BROKEN: f64 = 0.25;

/// Smaller messages do not reach their full bandwidth between hosts.
const LARGE: Bytes = Bytes::from_mib(64);

/// Larger jobs meet networks that the text does not describe.
const MOST_HOSTS: u32 = 64;

/// Time through a switch, which does not matter to large messages.
const HOP: f64 = 0.3;

/// A table with the rate that is expected.
struct Compared<'a> {
    curve: &'a Curve,
    origin: &'a Origin,
    best: At,
    hosts: u32,
    /// GB/s of bus bandwidth.
    expected: f64,
}

impl Compared<'_> {
    fn share(&self) -> f64 {
        self.best.rate.gb() / self.expected
    }
}

fn run(view: &View) -> Option<Raised> {
    let worst = lowest(compared(view).filter(|one| one.share() < SLOW), Compared::share)?;
    let share = worst.share();
    let Compared { curve, origin, best, hosts, expected } = worst;
    let (severity, certainty) = if share < BROKEN { (Error, Likely) } else { (Warning, Possible) };
    let nics = view.rdma_nics();
    let raised = RULE
        .raise(Fault, severity, certainty)
        .summary(format!("{} over {hosts} hosts reaches {} of what these adapters carry", curve.what, percent(share)))
        .expected(format!("{expected:.1} GB/s of hosts with {} adapters", nics.len()))
        .measured(format!("{} at {} (bus bandwidth)", best.rate, best.size))
        .evidence(view.cite([origin]))
        .fix(
            "NCCL_DEBUG=INFO of all hosts shows why: `NET/Socket` in place of `NET/IB`, fewer adapters than the host has in \
             \"Using [0]…\", no `/GDRDMA` behind \"via NET/IB\", few channels, or variables that are set. Then test each adapter \
             from host to host by itself (`ib_write_bw -d ADAPTER`): one bad port slows the whole collective.",
        )
        .confirm(
            "`NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=INIT,NET,GRAPH` with the same command; `ibstat`; `peerlane measure --nodes` on these \
             hosts",
        )
        .cost(Cost::of_rate(expected, best.rate.gb()))
        .about_nodes(view.names_of(&nics))
        .losing(1.0 - share);
    Some(raised)
}

/// Whether a collective over hosts was measured whose rate can be compared.
pub(super) fn is_comparable(view: &View) -> bool {
    compared(view).next().is_some()
}

/// Tables of collectives over hosts, with what is expected of them, as they are asked for: a prediction takes its time.
fn compared<'a>(view: &View<'a>) -> impl Iterator<Item = Compared<'a>> {
    let gpus = view.of_kind(NodeKind::Gpu).len() as u32;
    let is_known = view.is_captured() && gpus > 0 && !view.rdma_nics().is_empty();
    // the assumptions of all tables are the same
    let assumed = OnceCell::new();
    let of = move |(curve, origin): &'a (Curve, Origin)| {
        let collective = collective_of(curve)?;
        let stated = |key: &str| curve.settings.get(key)?.parse::<u32>().ok();
        let (hosts, ranks) = (stated("hosts")?, stated("ranks")?);
        // each host with all GPUs of this machine
        let is_whole = (2..=MOST_HOSTS).contains(&hosts) && ranks == hosts.checked_mul(gpus)?;
        let best = curve.best().filter(|best| is_whole && best.size >= LARGE && best.rate.gb() > 0.0)?;
        let parts = view.model.parts;
        let machine = assumed.get_or_init(|| Assumptions::of(view.machine, parts).assumed_machine(parts));
        let expected = predicted(view, machine, collective, hosts, best.size)?;
        Some(Compared { curve, origin, best, hosts, expected })
    };
    view.machine.curves.iter().filter(move |_| is_known).filter_map(of)
}

/// The bus bandwidth of a collective among so many of these machines, in GB/s, without NVLink SHARP and with an ideal network.
fn predicted(view: &View, machine: &Machine, collective: Collective, hosts: u32, size: Bytes) -> Option<f64> {
    let rail: Wanted = "rail".parse().ok()?;
    let cluster = Cluster::of(machine.clone(), hosts, &rail, None, Seconds::from_us(HOP)).ok()?;
    let library = Library::of(&cluster, collective, WITHOUT_SHARP, None).ok()?;
    let predicted = library.predict(size, WITHOUT_SHARP).ok()?;
    // trees over two hosts send less through the adapters than rings, and not every release takes them
    let lines: f64 =
        view.rdma_nics().into_iter().filter_map(|nic| view.model.line_rate(nic)).map(|rate| rate.gb()).sum();
    Some((predicted.rate / 1e9).min(lines)).filter(|rate| *rate > 0.0)
}
