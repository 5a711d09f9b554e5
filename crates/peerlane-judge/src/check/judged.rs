//! What was judged of a machine, what is missing, and what to run where nothing known could have shown a fault.

use super::view::cells;
use super::words::distinct;
use super::{
    Context, Settings, View, between_hosts, collective_slow, narrow_link, nic_gpu_slow, nic_slow, port_slow,
    reported_health, unexplained_step,
};
use crate::finding::Finding;
use crate::verdict::Verdict;
use peerlane_design::case::Case;
use peerlane_machine::curve::Curve;
use peerlane_machine::fabric::{Link, LinkKind, Node, NodeKind, PathClass, PcieGeneration, PcieWidth};
use peerlane_machine::fact::{Evidence, Fact, GpuFacts, P2pStatus, PciRole};
use peerlane_machine::machine::{Machine, MachineKind};
use peerlane_machine::matrix::{Direction, Unit};
use peerlane_machine::origin::Origin;
use peerlane_machine::units::Bytes;
use peerlane_measure::run::{Limits, Missing};
use peerlane_model::assumptions::Rating;
use peerlane_read::evidence::tool;

/// The verdict that follows from findings, from what was judged and from what is missing.
pub fn verdict(context: &Context, findings: &[Finding]) -> Verdict {
    let is_judged = checked(context).iter().any(|what| *what != TOPOLOGY) && !are_rates_open(context);
    Verdict::of(findings, is_judged, missing(context.case).is_none())
}

/// Whether a text shows rates of which none is compared with anything: however sound the rest is, they may be bad.
fn are_rates_open(context: &Context) -> bool {
    let machine = &context.case.machine;
    let is_compared = || checked(context).iter().any(|what| ["rates", "collectives", "NICs"].contains(what));
    machine.kind == MachineKind::Captured
        && context.case.run.is_none()
        && machine.is_measured()
        && !is_compared()
        && !are_times_of_calls(machine)
}

/// Whether all that was measured are gdrcopy's times of single copies, which are results of a test and follow from no link's rate.
fn are_times_of_calls(machine: &Machine) -> bool {
    let is_time = |(curve, origin): &(Curve, Origin)| {
        origin.tool == tool::GDRCOPY && curve.series.iter().all(|s| s.unit == Some(Unit::Microseconds))
    };
    machine.matrices.is_empty() && machine.curves.iter().all(is_time)
}

/// What the record of a machine lacks of its plan.
pub fn missing(case: &Case) -> Option<Missing> {
    case.run()?.missing(&Limits::of(&case.machine))
}

/// A matrix of path classes alone shows no state and no value: no fault in the topology is all that it can say.
pub const TOPOLOGY: &str = "path classes";

/// What is worth judging of a machine with GPUs, in the words of [`checked`].
const WORTH: [&str; 3] = ["link widths", "GPU state", "rates"];

/// What was judged of a machine, and what was not.
#[derive(Default)]
pub(super) struct Judged {
    checked: Vec<&'static str>,
    /// Families of which something was measured that is compared with nothing.
    open: Vec<&'static str>,
}

/// What was not judged of what is worth it, and what was measured but is compared with nothing.
pub fn unchecked(context: &Context) -> Vec<&'static str> {
    let Judged { checked, open } = judged(context);
    distinct(WORTH.iter().chain(open).copied().filter(|what| !checked.contains(what)))
}

/// What is known that would show a fault if there were one: `link widths`, `NVLinks`, `rates`.
///
/// A record without any value shows nothing. Rates that nothing can be compared with may be bad. Where there are such, only what says
/// how fast the machine may be counts, and not that peer access is granted or that ports are up.
pub fn checked<'a>(context: &'a Context) -> &'a [&'static str] {
    &judged(context).checked
}

fn judged<'a>(context: &'a Context) -> &'a Judged {
    context.judged.get_or_init(|| look(context))
}

fn look(context: &Context) -> Judged {
    let settings = Settings::default();
    let view = &View::new(context, &settings);
    let machine = view.machine;
    // what its description states is no result of it
    if context.case.run().is_some_and(|run| run.cells.iter().all(|cell| cell.value().is_none())) {
        return Judged::default();
    }
    let mut all = Vec::new();
    let mut add = |is_known: bool, what| {
        if is_known && !all.contains(&what) {
            all.push(what);
        }
    };
    add(is_width_known(view), "link widths");
    add(are_nvlinks_known(view), "NVLinks");
    let rates = are_rates_comparable(view) || is_explained(context) || are_alike_over_nvlink(view);
    add(rates, "rates");
    let collectives =
        collective_slow::is_comparable(view) || between_hosts::is_comparable(view) || are_beyond_a_link(view);
    add(collectives, "collectives");
    let (compared, open): (Vec<_>, Vec<_>) =
        unexplained_step::families(view).into_iter().partition(|(_, is_compared)| *is_compared);
    compared.into_iter().for_each(|(name, _)| add(true, name));
    let nics = nic_slow::is_comparable(view) || nic_gpu_slow::is_comparable(view) || port_slow::is_comparable(view);
    add(nics, "NICs");
    if rates || collectives || !machine.is_measured() {
        let any = |is: fn(&Fact) -> bool| view.facts(|fact| is(fact).then_some(())).next().is_some();
        add(machine.p2p.values().any(|status| *status != P2pStatus::Unknown), "peer access");
        add(are_classes_telling(view), TOPOLOGY);
        add(
            view.facts(state_of_gpus).any(|(is_whole, origin)| is_whole || QUERIES.contains(&origin.tool)),
            "GPU state",
        );
        add(
            any(|fact| matches!(fact, Fact::RdmaPorts(ports) if ports.iter().any(|p| p.state.is_some()))),
            "RDMA ports",
        );
        add(any(|fact| matches!(fact, Fact::NcclLog(log) if !log.transports.is_empty())), "NCCL's paths");
        add(any(|fact| matches!(fact, Fact::Kernel(facts) if facts.is_telling())), "kernel log");
        reported_health::areas(view).into_iter().for_each(|area| add(true, area));
    } else if are_times_of_calls(machine) {
        reported_health::areas(view).into_iter().for_each(|area| add(true, area));
    }
    Judged { checked: all, open: open.into_iter().map(|(name, _)| name).collect() }
}

/// Whether the width of any device's link is known, with what it allows.
fn is_width_known(view: &View) -> bool {
    let fabric = view.fabric();
    let of_link = fabric.ids().filter(|id| fabric.node(*id).kind.is_device()).any(|id| {
        let up = fabric.upstream(id).map(|(link, _)| fabric.link(link)).filter(|link| !link.assumed);
        let by_part = || view.part(id).is_some_and(|part| part.pcie.is_some());
        matches!(up.map(|link| &link.kind), Some(LinkKind::Pcie { running, allowed, .. })
            if running.lanes.is_some() && (allowed.lanes.is_some() || by_part()))
    });
    of_link || narrow_link::is_unplaced_known(view) || is_width_of_others_known(view)
}

/// The same of a listing without GPUs and adapters: of disks, RAID cards and others, whose narrow links reported-health notes.
fn is_width_of_others_known(view: &View) -> bool {
    let is_device = |node: &Node| node.kind.is_device();
    let lanes = |width: PcieWidth| width.lanes.is_some_and(|lanes| lanes > 0);
    let listed = |fact: &Fact| match fact {
        Fact::Pci(tree) => {
            let mut others = tree.devices.iter().filter(|d| d.role == PciRole::Endpoint);
            others.any(|d| lanes(d.running) && lanes(d.capable)).then_some(())
        }
        _ => None,
    };
    !view.fabric().nodes().iter().any(is_device) && view.facts(listed).next().is_some()
}

/// Whether a source states how many NVLinks, or links of AMD's, GPUs have. A matrix of path classes is no such source: what it
/// shows of links is topology.
fn are_nvlinks_known(view: &View) -> bool {
    let fabric = view.fabric();
    let stated = |link: &&Link| matches!(link.kind, LinkKind::Gpu(_)) && !link.assumed;
    let listed =
        || view.facts(|fact| matches!(fact, Fact::Nvlink(ports) if !ports.is_empty()).then_some(())).next().is_some();
    let only_classes = || view.machine.evidence.iter().all(|e| matches!(e.fact, Fact::Classes(_)));
    view.is_captured() && (listed() || !only_classes() && fabric.links().iter().any(|link| stated(&link)))
}

/// Whether an expectation exists for anything that was measured.
fn are_rates_comparable(view: &View) -> bool {
    let of_matrices = view.bandwidths().filter_map(|(at, _)| view.comparison.matrices().get(at));
    let mut all = of_matrices.chain(view.statements().map(|(_, series)| series));
    all.any(|s| view.cells(s.matrix()).iter().any(|cell| cells::expected_rate(s, cell).is_some()))
}

/// Fewer GPUs than boards with switches have show nothing by being alike.
const SWITCHED: usize = 4;

/// Rates of pairs through NVSwitches, or over as many links each, are this close to each other.
const ALIKE: f64 = 0.05;

/// Smaller messages do not reach their full bandwidth.
const LARGE: Bytes = Bytes::from_mib(64);

/// Whether a collective with sound data is faster than one PCIe link carries: NVLink, or several adapters of each host, carried it. Without the
/// machine no rate is expected, but what breaks such paths leaves far less.
fn are_beyond_a_link(view: &View) -> bool {
    let Some(pcie) = PcieWidth::new(PcieGeneration::Gen5, 16).raw_rate() else { return false };
    let is_sound = |curve: &Curve| {
        let mut wrong =
            curve.series.iter().filter(|s| s.name.starts_with("wrong")).flat_map(|s| &s.values).flatten().peekable();
        wrong.peek().is_some() && wrong.all(|count| *count == 0.0)
    };
    let gpus = view.of_kind(NodeKind::Gpu).len();
    view.machine.curves.iter().any(|(curve, _)| {
        // those of one machine whose GPUs are known are compared with what their links allow
        let ranks = curve.settings.get("ranks").and_then(|ranks| ranks.parse::<usize>().ok()).unwrap_or(0);
        let best = curve.best().filter(|best| best.size >= LARGE && best.rate.gb() > pcie.gb());
        let is_open = gpus == 0 || ranks > gpus;
        best.is_some() && is_open && is_sound(curve) && collective_slow::collective_of(curve).is_some()
    })
}

/// Whether all pairs of several GPUs reach rates that only NVLink carries, and the same: without the product no rate is
/// expected, but a fault of one GPU or link would make its pairs slower than the others.
fn are_alike_over_nvlink(view: &View) -> bool {
    let Some(pcie) = PcieWidth::new(PcieGeneration::Gen5, 16).raw_rate() else { return false };
    view.bandwidths().any(|(_, measured)| {
        let matrix = &measured.matrix;
        let one_way = matrix.direction == Some(Direction::Unidirectional) && matrix.p2p != Some(false);
        let rates: Vec<f64> = view.cells(matrix).iter().filter(|c| c.nodes().is_some()).map(|c| c.rate.gb()).collect();
        let (low, high) = rates.iter().fold((f64::INFINITY, 0.0_f64), |(a, b), rate| (a.min(*rate), b.max(*rate)));
        let pairs = SWITCHED * (SWITCHED - 1);
        one_way && rates.len() >= pairs && low > pcie.gb() && high <= low * (1.0 + ALIKE)
    })
}

/// Whether most of what was measured fits one set of assumptions far better than any other, or is the same by nearly all sets.
/// Links taken to be narrow, so that low rates fit, show no health.
fn is_explained(context: &Context) -> bool {
    let fit = context.fit().filter(|fit| fit.measured > 0 && 2 * fit.explained >= fit.measured && !fit.narrow);
    fit.is_some_and(|fit| fit.rating >= Rating::Likely || fit.agreement >= AGREED)
}

/// Whether a matrix of classes shows which GPUs are near each other: labels that are all alike show nothing.
fn are_classes_telling(view: &View) -> bool {
    let classes: Vec<PathClass> = view.gpu_pairs().iter().filter_map(|(a, b)| view.class(*a, *b)).collect();
    let first = classes.first();
    view.is_captured()
        && (classes.iter().any(|class| Some(class) != first) || first.is_some_and(|class| *class <= PathClass::Pxb))
}

/// Tools whose listings show what throttles a GPU besides its temperature, or print an error in place of the state of one that fails.
const QUERIES: [&str; 4] = ["nvidia-smi", "nvidia-smi -q", "NVML", "rocm-smi"];

/// Of a listing with temperatures, whether it has limits or memory errors, too.
fn state_of_gpus(fact: &Fact) -> Option<bool> {
    let Fact::Gpus(gpus) = fact else { return None };
    let is_whole = |gpu: &&GpuFacts| gpu.power_limit.is_some() || gpu.remap_pending.is_some();
    let mut warm = gpus.iter().filter(|gpu| gpu.temperature.is_some()).peekable();
    warm.peek().is_some().then(|| warm.any(|gpu| is_whole(&gpu)))
}

/// Share of the likelihood of all sets of assumptions by which what was measured is judged.
const AGREED: f64 = 0.75;

/// The one or two commands whose output, checked with what is already known, would give a verdict: those of which the
/// machine's evidence has no output yet.
pub fn next_commands(context: &Context) -> Vec<&'static str> {
    let machine = &context.case.machine;
    if machine.kind != MachineKind::Captured {
        return vec!["peerlane measure -o run.json"];
    }
    let is_amd =
        machine.fabric.nodes().iter().any(|node| is_amd_gpu(context, node)) || machine.evidence.iter().any(is_of_amd);
    let is_other = !is_amd && is_of_other_maker(context);
    let has_gpus = machine.fabric.of_kind(NodeKind::Gpu).next().is_some();
    let commands: &[(&str, &str)] = match (is_amd, is_other) {
        _ if is_between_hosts(machine) => &[("ibstat", "ibstat"), ("nvidia-smi topo -m", "nvidia-smi topo -m")],
        // rates of MPI or of an adapter, of which no GPU is known
        _ if !has_gpus && !machine.curves.is_empty() => &[("ibstat", "ibstat"), ("lspci -vv", "lspci -vvv")],
        (true, _) => &[("lspci -vv", "lspci -vvv"), ("rocm_bandwidth_test", "rocm-bandwidth-test")],
        (_, true) => &[("lspci -vv", "lspci -vvv")],
        _ => &[("nvidia-smi -q", "nvidia-smi -q -x"), ("nvidia-smi topo -p2p", "nvidia-smi topo -p2p r")],
    };
    let is_new = |(tool, _): &&(&str, &str)| !machine.evidence.iter().any(|e| e.origin.tool.starts_with(tool));
    let mut next: Vec<&str> = commands.iter().filter(is_new).map(|(_, command)| *command).collect();
    // rates are worth most where the other two are there and gave no verdict
    if next.len() < commands.len() && !is_amd && !is_other {
        next.push("peerlane measure -o run.json");
    }
    next
}

/// Whether the only thing that was measured is a collective over several hosts.
fn is_between_hosts(machine: &Machine) -> bool {
    let is_over_hosts =
        |curve: &Curve| curve.settings.get("hosts").and_then(|n| n.parse::<u32>().ok()).is_some_and(|n| n > 1);
    machine.matrices.is_empty() && machine.curves.iter().any(|(curve, _)| is_over_hosts(curve))
}

/// Whether the tool of a maker other than NVIDIA and AMD printed the paths.
fn is_of_other_maker(context: &Context) -> bool {
    let tools = || context.case.machine.evidence.iter().map(|e| e.origin.tool);
    tools().any(|tool| tool == tool::PATH_MATRIX) && !tools().any(|tool| tool.starts_with("nvidia-smi"))
}

/// Whether a node is a GPU of AMD's, by its part.
fn is_amd_gpu(context: &Context, node: &Node) -> bool {
    let part = node.part.as_deref().and_then(|id| context.model.parts.get(id));
    node.kind == NodeKind::Gpu && part.is_some_and(|part| part.pci_ids.iter().any(|id| id.starts_with("1002:")))
}

/// Whether such evidence is of AMD's GPUs: by the tool, a product's name, or RCCL's version.
fn is_of_amd(evidence: &Evidence) -> bool {
    let by_tool = ["rocm", "amd-smi", "TransferBench"].iter().any(|tool| evidence.origin.tool.starts_with(tool));
    let is_name = |name: &str| name.starts_with("AMD ") || name.contains("Radeon") || name.contains("Instinct");
    by_tool
        || match &evidence.fact {
            Fact::Gpus(gpus) => gpus.iter().any(|gpu| gpu.name.as_deref().is_some_and(is_name)),
            Fact::NcclLog(log) => log.version.as_deref().is_some_and(|version| version.contains("hip")),
            Fact::Curve(curve) => curve.settings.values().any(|value| value.starts_with("rccl-tests")),
            _ => false,
        }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{boxes, captured, uniform};
    use super::*;
    use peerlane_design::case::Case;
    use peerlane_model::comparison::Comparison;
    use peerlane_model::model::Model;
    use peerlane_read::catalogue::Parts;

    fn known(machine: &Machine) -> Vec<&'static str> {
        let parts = Parts::default();
        let case = Case::from(machine.clone());
        let model = Model::new(&case.machine, &parts);
        let comparison = Comparison::of(&model);
        checked(&Context::of(&case, &comparison)).to_vec()
    }

    #[test]
    fn pairs_that_are_alike_over_nvlink_are_something_checked() {
        let with = |rate: f64, others: &[(usize, usize, f64)]| {
            let mut fabric = peerlane_machine::fabric::FabricBuilder::new();
            (0..8).for_each(|i| _ = fabric.node(Node::new(format!("GPU{i}"), NodeKind::Gpu)));
            let mut machine = captured(fabric);
            let mut matrix = uniform(8, rate, others);
            matrix.matrix.direction = Some(Direction::Unidirectional);
            machine.matrices.push(matrix);
            known(&machine).contains(&"rates")
        };
        assert!(with(274.0, &[]));
        assert!(!with(274.0, &[(0, 1, 200.0)]), "one pair is slower");
    }

    #[test]
    fn classes_count_where_they_differ_or_are_near() {
        let sockets = |switches: bool| captured(boxes(&[2, 2], switches));
        assert!(known(&sockets(true)).contains(&"path classes"));
    }
}
