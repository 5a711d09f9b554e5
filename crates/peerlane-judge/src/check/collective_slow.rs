//! Collectives within a machine that stay far below what NCCL should reach by rings.

use super::nccl;
use super::prelude::*;
use peerlane_design::cluster::Cluster;
use peerlane_design::simulate::library::Library;
use peerlane_design::tune;
use peerlane_machine::curve::{At, Curve};
use peerlane_machine::fabric::LinkId;
use peerlane_machine::machine::Machine;
use peerlane_machine::matrix::{Engine, Operation};
use peerlane_machine::transfer::Collective;
use peerlane_machine::units::Bytes;
use peerlane_model::assumptions::Assumptions;
use peerlane_model::collectives::{Algorithm, Choice};
use peerlane_model::model::{Model, PeerAccess, Transfer};

pub(super) const RULE: Rule = Rule::new("collective-slow", One(run));

/// Below this share of what is predicted for the size. Without NVLink SHARP, which may be off for good reasons.
const SLOW: f64 = 0.5;

/// The same where NVSwitches join every pair: rings of such machines are published within a tenth of what is predicted.
const SLOW_BY_SWITCH: f64 = 0.75;

/// What rings are published to carry of the links of modules.
const OF_LINKS: f64 = 0.8;

/// The same where rings cross host bridges of a CPU that no source names, and where no source states where GPUs are: processors
/// before 2017 forward peer traffic at a half and less of a link's rate, and copies through host memory reach as little.
const SLOW_BY_BRIDGES: f64 = 0.25;

/// Smaller messages do not reach their full bandwidth.
const LARGE: Bytes = Bytes::from_mib(64);

/// More GPUs than one machine has; the search for rings does not handle them.
const MOST_GPUS: usize = 32;

/// Collectives that go around rings, as the tests of nccl-tests and peerlane's own are called.
const BY_RINGS: [(&str, Collective); 4] = [
    ("all_reduce_perf", Collective::AllReduce),
    ("all_gather_perf", Collective::AllGather),
    ("reduce_scatter_perf", Collective::ReduceScatter),
    ("all-reduce", Collective::AllReduce),
];

fn run(view: &View) -> Option<Raised> {
    let gpus = view.of_kind(NodeKind::Gpu);
    let judged = large(view, gpus.len());
    // the search for rings takes its time
    judged.first()?;
    let bounds = bounds(view, &gpus);
    let share = |(curve, _, best): &(&Curve, &Origin, At)| Some(best.rate.gb() / bounds.at(curve, best.size)?);
    let limit = if bounds.assumed.is_some() {
        SLOW_BY_BRIDGES
    } else if is_switched(view) {
        SLOW_BY_SWITCH
    } else if crosses_unknown_bridges(view, &gpus) {
        SLOW_BY_BRIDGES
    } else {
        SLOW
    };
    let is_slow = |of: &&(&Curve, &Origin, At)| {
        let limit = if bounds.predicted(of.0, of.2.size).is_some() { limit } else { SLOW_BY_SWITCH };
        share(of).is_some_and(|share| share < limit)
    };
    let slow: Vec<_> = judged.iter().filter(is_slow).collect();
    if slow.is_empty() && bounds.assumed.is_some() {
        return indirect(view, &gpus, &judged, bounds.assumed.as_ref()?);
    }
    let of = lowest(slow.iter().copied(), |of| share(of).unwrap_or(f64::INFINITY))?;
    let (curve, _, best) = of;
    let bound = bounds.at(curve, best.size)?;
    let share = best.rate.gb() / bound;
    let hindering = nccl::hindering(view);
    let predicted = tune::advice(view.machine, view.model.parts, Collective::AllReduce, best.size);
    let predicted = predicted.map(|sentences| format!(" {sentences}")).unwrap_or_default();
    let raised = RULE
        .raise(Fault, Warning, if hindering.is_empty() { Possible } else { Likely })
        .summary(format!("{} reaches {} of what rings of these GPUs carry", curve.what, percent(share)))
        .expected(match bounds.with_sharp(curve, best.size) {
            Some(rate) => format!("{bound:.1} GB/s by rings, {rate:.1} by NVLink SHARP"),
            None => format!("{bound:.1} GB/s by rings of all {} GPUs", gpus.len()),
        })
        .measured(format!("{} at {} (bus bandwidth)", best.rate, best.size))
        .evidence(view.cite(slow.iter().map(|(_, origin, _)| *origin)))
        .fix(if !hindering.is_empty() {
            format!(
                "Unset {}, which lowers this rate, and measure again.{predicted} If it was set because the machine \
                 hangs or corrupts data, fix that cause instead: usually ACS, the IOMMU or the driver.",
                list(&hindering)
            )
        } else if share >= SLOW {
            "Reset GPUs whose NVLinks are down (`nvidia-smi nvlink -s`), remove what throttles or uses the GPUs \
             (`nvidia-smi -q -d PERFORMANCE`), and unset variables in NCCL's log that limit channels, algorithms or \
             protocols. If none of these is the cause, `peerlane check live` measures every pair and names one that \
             is slow."
                .to_owned()
        } else if view.has_nvlink() {
            "Let NCCL use NVLink: unset NCCL_P2P_DISABLE, join containers with `--ipc=host`, turn MIG off, and start \
             the fabric manager. NCCL_DEBUG=INFO then shows `via P2P`, not `via SHM` or `via NET`; if it does and \
             the rate stays low, check that all NVLinks are active (`nvidia-smi nvlink -s`)."
                .to_owned()
        } else {
            "Where NCCL copies through host memory (NCCL_DEBUG=INFO: `via SHM`), bind each rank to its GPU's NUMA \
             node, and spread the ranks over the sockets. Where it shows `via P2P` between root complexes, compare \
             NCCL_P2P_LEVEL=PXB and SYS, and check ACS and the IOMMU: many pairs at once may be slower than through \
             host memory."
                .to_owned()
        })
        .confirm(
            "`NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=INIT,GRAPH,P2P` with the same command; \
             `peerlane measure --tests pairs,collectives`",
        )
        .cost(Cost::of_rate(bound, best.rate.gb()))
        .about_nodes(view.names_of(&gpus))
        .losing(1.0 - share);
    Some(raised)
}

/// A collective of GPUs whose places are assumed that takes less than direct copies over their links carry, and no less than
/// copies through host memory do, or fewer lanes.
fn indirect(view: &View, gpus: &[NodeId], judged: &[(&Curve, &Origin, At)], assumed: &Machine) -> Option<Raised> {
    let (curve, origin, best) = highest(judged.iter(), |(_, _, best)| best.rate.gb())?;
    let direct = direct(view, gpus, assumed)?;
    let share = best.rate.gb() / (OF_LINKS * direct);
    if share >= SLOW_BY_SWITCH {
        return None;
    }
    let raised = RULE
        .raise(Design, Warning, Likely)
        .summary(format!(
            "{} reaches {} of what a link of these GPUs carries from one to another directly",
            curve.what,
            percent(best.rate.gb() / direct)
        ))
        .expected(format!("{direct:.1} GB/s a pair, at the links that these GPUs allow"))
        .measured(format!("{} at {} (bus bandwidth)", best.rate, best.size))
        .evidence(view.cite([*origin]))
        .fix(
            "See what limits it: fewer lanes than the GPUs have (`lspci -vv`: LnkSta), no direct peer access \
             (`nvidia-smi topo -p2p r`; NCCL_DEBUG=INFO shows `via SHM`), or GPUs at two sockets (`nvidia-smi topo -m`).",
        )
        .confirm("`nvidia-smi topo -m`; `nvidia-smi topo -p2p r`; `NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=INIT,GRAPH,P2P` with the same command")
        .about_nodes(curve.ends.clone())
        .losing(1.0 - share);
    Some(raised)
}

/// What the slowest pair of these GPUs copies directly, in GB/s, on the machine that is assumed.
fn direct(view: &View, gpus: &[NodeId], assumed: &Machine) -> Option<f64> {
    let model = Model::new(assumed, view.model.parts);
    let end = |id: &NodeId| assumed.fabric.find(view.name(*id));
    let rate = |pair: &[NodeId]| {
        let (source, destination) = (end(&pair[0])?, end(&pair[1])?);
        let (engine, op, peer) = (Engine::Sm, Operation::Write, PeerAccess::Enabled);
        let alone = model.solve(&[Transfer { source, destination, engine, op, peer }]).ok()?;
        alone.first().map(|shared| shared.rate.gb())
    };
    let rates: Option<Vec<f64>> = gpus.windows(2).map(rate).collect();
    rates?.into_iter().reduce(f64::min)
}

/// Whether NVSwitches join every pair of GPUs.
fn is_switched(view: &View) -> bool {
    let by_nvlink = |(a, b): &(NodeId, NodeId)| view.class(*a, *b).is_some_and(PathClass::is_nvlink);
    let pairs = view.gpu_pairs();
    !view.of_kind(NodeKind::NvSwitch).is_empty() && pairs.iter().all(by_nvlink)
}

/// Whether rings of these GPUs, which have no NVLink, cross host bridges of a CPU that is unknown.
fn crosses_unknown_bridges(view: &View, gpus: &[NodeId]) -> bool {
    let is_unknown = |id: &NodeId| view.fabric().package(*id).is_none_or(|cpu| view.part(cpu).is_none());
    let far = |(a, b): &(NodeId, NodeId)| view.class(*a, *b).is_some_and(|class| class > PathClass::Pxb);
    !view.has_nvlink() && gpus.iter().any(is_unknown) && view.gpu_pairs().iter().any(far)
}

/// Whether a collective was measured whose rate can be compared with what rings carry.
pub(super) fn is_comparable(view: &View) -> bool {
    let gpus = view.of_kind(NodeKind::Gpu);
    let judged = large(view, gpus.len());
    // the search for rings takes its time
    if judged.is_empty() {
        return false;
    }
    let bounds = bounds(view, &gpus);
    judged.iter().any(|(curve, _, best)| bounds.shows(curve, *best))
}

/// A collective that is slow because links are down.
pub(super) struct FewerLinks {
    /// What it reaches, and what the links that are up carry by each algorithm.
    pub(super) measured: String,
    /// What it should reach over all links, and what is lost of that.
    pub(super) with_all_links: Option<(String, Option<Cost>)>,
}

/// What a collective reaches where the links that are up explain it: a finding about the others then reports it.
pub(super) fn by_links_that_are_up(view: &View) -> Option<FewerLinks> {
    let gpus = view.of_kind(NodeKind::Gpu);
    let judged = large(view, gpus.len());
    let (curve, _, best) = judged.first()?;
    let (what, rate, size) = (&curve.what, best.rate, best.size);
    let bounds = bounds(view, &gpus);
    let ring = bounds.predicted(curve, size)?;
    if rate.gb() < SLOW_BY_SWITCH * ring {
        return None;
    }
    let sharp = bounds.with_sharp(curve, size).map_or(String::new(), |sharp| format!(", NVLink SHARP {sharp:.1}"));
    let measured = format!("{what} {rate} at {size} (links that are up: rings {ring:.1}{sharp})");
    let with_all_links = with_all_links(view).and_then(|cluster| {
        let library = Library::of(&cluster, collective_of(curve)?, Choice::FREE, None).ok()?;
        let by = library.predict(size, Choice::FREE).ok()?;
        let expected = by.rate / 1e9;
        let text = format!("{expected:.1} GB/s by {}", words_of(by.algorithm));
        Some((text, Cost::of_rate(expected, rate.gb())))
    });
    Some(FewerLinks { measured, with_all_links })
}

/// The machine with every GPU joined to the NVSwitches by as many links as the best; `None` where all have as many.
fn with_all_links(view: &View) -> Option<Cluster> {
    let fabric = view.fabric();
    let is_switch = |id: NodeId| fabric.node(id).kind == NodeKind::NvSwitch;
    let bundles = || {
        let to_switches = fabric.link_ids().filter(|id| is_switch(fabric.link(*id).a) || is_switch(fabric.link(*id).b));
        to_switches.filter(|id| fabric.link(*id).kind.nvlinks() > 0)
    };
    let links = |id: &LinkId| fabric.link(*id).kind.nvlinks();
    let best = bundles().max_by_key(links)?;
    let fewer: Vec<LinkId> = bundles().filter(|id| links(id) < links(&best)).collect();
    if fewer.is_empty() {
        return None;
    }
    let mut builder = fabric.clone().into_builder();
    fewer.into_iter().for_each(|id| builder.link_mut(id).kind = fabric.link(best).kind.clone());
    Some(Cluster::single(Machine { fabric: builder.build().ok()?, ..view.machine.clone() }))
}

/// An algorithm as users know it.
fn words_of(algorithm: Algorithm) -> &'static str {
    match algorithm {
        Algorithm::Ring => "rings",
        Algorithm::Nvls | Algorithm::NvlsTree => "NVLink SHARP",
        other => other.name(),
    }
}

/// The collective that a table is of.
pub(crate) fn collective_of(curve: &Curve) -> Option<Collective> {
    let test = curve.what.strip_suffix("_mpi").unwrap_or(&curve.what);
    BY_RINGS.iter().find(|(name, _)| *name == test).map(|(_, collective)| *collective)
}

/// Tables of collectives among all GPUs with large messages, each with its best rate.
fn large<'a>(view: &View<'a>, gpus: usize) -> Vec<(&'a Curve, &'a Origin, At)> {
    if !view.is_captured() || !(2..=MOST_GPUS).contains(&gpus) {
        return Vec::new();
    }
    let of_all = view.machine.curves.iter().filter(|(curve, _)| is_of_all(view, curve, gpus));
    let large = of_all.filter(|(curve, _)| curve.sizes.iter().max() >= Some(&LARGE));
    large
        .filter_map(|(curve, origin)| Some((curve, origin, curve.best().filter(|best| best.rate.gb() > 0.0)?)))
        .collect()
}

/// What collectives should reach, in GB/s of bus bandwidth.
struct Bounds {
    by: Vec<(Collective, Library)>,
    /// Where only products are known: over the fewest links that boards join them by, and over all that they have.
    modules: Option<[f64; 2]>,
    /// The machine that is assumed, where no source states the places of its GPUs.
    assumed: Option<Machine>,
}

impl Bounds {
    fn at(&self, curve: &Curve, size: Bytes) -> Option<f64> {
        self.predicted(curve, size).or(self.modules.filter(|_| collective_of(curve).is_some()).map(|[least, _]| least))
    }

    /// Whether a rate shows something: one between what few links carry and what all do may be of a board that joins few, or of
    /// links that are down.
    fn shows(&self, curve: &Curve, best: At) -> bool {
        let is_open = |[least, all]: [f64; 2]| {
            (SLOW_BY_SWITCH * least..SLOW_BY_SWITCH * all).contains(&best.rate.gb()) && least < all
        };
        let of_modules = self.predicted(curve, best.size).is_none() && self.modules.is_some_and(is_open);
        self.at(curve, best.size).is_some() && !of_modules
    }

    /// Where the rates of all pairs are known.
    fn predicted(&self, curve: &Curve, size: Bytes) -> Option<f64> {
        let collective = collective_of(curve)?;
        let library = self.by.iter().find(|(of, _)| *of == collective).map(|(_, library)| library);
        let predicted = library.and_then(|library| library.predict(size, WITHOUT_SHARP).ok());
        predicted.map(|predicted| predicted.rate / 1e9).filter(|rate| *rate > 0.0)
    }

    /// The rate where NVLink SHARP is the fastest.
    fn with_sharp(&self, curve: &Curve, size: Bytes) -> Option<f64> {
        let collective = collective_of(curve)?;
        let (_, library) = self.by.iter().find(|(of, _)| *of == collective)?;
        let predicted = library.predict(size, Choice::FREE).ok()?;
        (predicted.algorithm == Algorithm::Nvls).then_some(predicted.rate / 1e9)
    }
}

/// Without NVLink SHARP, which may be off for good reasons.
pub(super) const WITHOUT_SHARP: Choice = Choice { no_nvls: true, ..Choice::FREE };

fn bounds(view: &View, gpus: &[NodeId]) -> Bounds {
    let of = |machine: &Machine| -> Vec<(Collective, Library)> {
        let cluster = Cluster::single(machine.clone());
        let of = |(_, collective): &(&str, Collective)| {
            Some((*collective, Library::of(&cluster, *collective, WITHOUT_SHARP, None).ok()?))
        };
        BY_RINGS[..3].iter().filter_map(of).collect()
    };
    let known = of(view.model.machine);
    // modules are joined by more than PCIe
    let is_module = |id: &NodeId| view.part(*id).is_some_and(|part| part.module_nvlinks().is_some());
    let assume = || Assumptions::of(view.machine, view.model.parts).assumed_machine(view.model.parts);
    let assumed = (known.is_empty() && !gpus.iter().any(is_module)).then(assume);
    let by = assumed.as_ref().map_or(known, of);
    Bounds { by, modules: by_modules(view, gpus), assumed }
}

/// The same where only products are known: boards for modules with NVLink of the third generation and later join all links of
/// each, through switches or among four, and rings use them all. Two or three of four share a third or two thirds of their links.
/// Boards for the second generation join four or eight in several ways, so that only a rate near that of all links shows something.
fn by_modules(view: &View, gpus: &[NodeId]) -> Option<[f64; 2]> {
    let mut is_any = false;
    let rate = |id: &NodeId| {
        let part = view.part(*id)?;
        let (links, generation) = part.module_nvlinks().filter(|(_, generation)| *generation >= 2)?;
        is_any |= generation == 2;
        part.constant("nvlink_brick_rate").map(|rate| f64::from(links) * rate)
    };
    let all: Option<Vec<f64>> = gpus.iter().map(rate).collect();
    let shared = if is_any { 0.0 } else { (gpus.len() as f64 - 1.0).min(3.0) / 3.0 };
    all?.into_iter().reduce(f64::min).map(|links| [shared, 1.0].map(|share| OF_LINKS * share * links))
}

/// Whether a table is of a collective among all GPUs of this machine and no others.
fn is_of_all(view: &View, curve: &Curve, gpus: usize) -> bool {
    let stated = |key: &str| curve.settings.get(key).and_then(|n| n.parse::<usize>().ok());
    BY_RINGS.iter().any(|(name, _)| *name == curve.what)
        && stated("hosts") == Some(1)
        && stated("ranks") == Some(gpus)
        && curve.ends.len() == gpus
        && curve.ends.iter().all(|end| view.fabric().find(end).is_some())
}

#[cfg(test)]
mod tests {
    use super::super::testing::{origin, state, switched};
    use super::super::{Context, check};
    use super::*;
    use crate::finding::Finding;
    use peerlane_design::case::Case;
    use peerlane_machine::curve::Series;
    use peerlane_machine::fact::{Fact, NcclLog};
    use peerlane_machine::matrix::Unit;
    use peerlane_model::comparison::Comparison;
    use peerlane_model::model::Model;
    use peerlane_read::catalogue::Parts;

    fn with(gb: f64, mib: u64, ranks: usize) -> Vec<Finding> {
        of(gb, mib, ranks, None)
    }

    fn logged(gb: f64, log: Option<NcclLog>) -> Vec<Finding> {
        of(gb, 256, 4, log)
    }

    fn of(gb: f64, mib: u64, ranks: usize, log: Option<NcclLog>) -> Vec<Finding> {
        let mut machine = switched(4);
        let settings = [("hosts", "1".to_owned()), ("ranks", ranks.to_string())];
        let curve = Curve {
            what: "all_reduce_perf".into(),
            ends: (0..ranks).map(|i| format!("GPU{i}")).collect(),
            sizes: vec![Bytes::from_mib(mib)],
            series: vec![Series {
                name: "busbw out-of-place".into(),
                unit: Some(Unit::GigabytesPerSecond),
                values: vec![Some(gb)],
            }],
            settings: settings.into_iter().map(|(k, v)| (k.to_owned(), v)).collect(),
        };
        machine.curves.push((curve, origin("nccl-tests")));
        if let Some(log) = log {
            state(&mut machine, "NCCL_DEBUG=INFO", Fact::NcclLog(log));
        }
        let case = Case::from(machine);
        let model = Model::new(&case.machine, Parts::embedded());
        let mut found = check(&Context::of(&case, &Comparison::of(&model)));
        found.retain(|f| f.rule == RULE.id);
        found
    }

    #[test]
    fn a_third_of_the_ring_is_slow() {
        let found = with(3.5, 256, 4);
        assert_eq!((found.len(), found[0].subjects.len()), (1, 4));
        assert!(found[0].fix.contains("via SHM"), "{}", found[0].fix);
    }

    #[test]
    fn host_bridges_of_an_unknown_cpu_may_be_slow() {
        use super::super::testing::{boxes, captured};
        let across = |part: Option<&str>| {
            let mut boxes = boxes(&[1, 1], false);
            let cpus: Vec<NodeId> = ["cpu0", "cpu1"].iter().filter_map(|name| boxes.find(name)).collect();
            cpus.into_iter().for_each(|id| boxes.node_mut(id).part = part.map(str::to_owned));
            let case = Case::from(captured(boxes));
            let model = Model::new(&case.machine, Parts::embedded());
            let comparison = Comparison::of(&model);
            let context = Context::of(&case, &comparison);
            let settings = Default::default();
            let view = View::new(&context, &settings);
            crosses_unknown_bridges(&view, &view.of_kind(NodeKind::Gpu))
        };
        assert!(across(None));
        assert!(!across(Some("xeon-e5-v3")));
    }

    #[test]
    fn a_setting_that_lowers_it_is_named() {
        let variables =
            [("NCCL_P2P_DISABLE", "1"), ("NCCL_PROTO", "LL"), ("NCCL_MAX_NCHANNELS", "32"), ("NCCL_ALGO", "Ring")];
        let variables = variables.into_iter().map(|(k, v)| (k.to_owned(), v.to_owned())).collect();
        let found = logged(3.5, Some(NcclLog { variables, ..NcclLog::default() }));
        assert!(found[0].fix.starts_with("Unset NCCL_P2P_DISABLE=1, NCCL_PROTO=LL, "), "{}", found[0].fix);
        assert_eq!(found[0].certainty, Likely);
    }

    #[test]
    fn modules_of_boards_with_nvlink_are_compared_by_their_product() {
        let judged = |product: &str, gb: f64, gpus: usize| {
            let header = "#       size         count    type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong\n";
            let ranks: String = (0..gpus)
                .map(|i| format!("#   Rank  {i} Group  0 Pid 1 on host device  {i} [0x{:02x}] {product}\n", i + 1))
                .collect();
            let row = format!(
                "  8589934592    2147483648   float     sum      -1   1000   1.0   {gb}   0   1000   1.0   {gb}   0\n"
            );
            let text = format!("# Collective test starting: all_reduce_perf\n{ranks}{header}{row}");
            let scanned = peerlane_read::evidence::scan_text(&peerlane_read::evidence::Text::new("t", text.as_bytes()));
            let machine = peerlane_read::assemble::assemble(scanned).remove(0);
            let case = Case::from(machine);
            let model = Model::new(&case.machine, Parts::embedded());
            let comparison = Comparison::of(&model);
            let context = Context::of(&case, &comparison);
            let found =
                check(&context).into_iter().filter(|f| f.rule == RULE.id).map(|f| f.severity).collect::<Vec<_>>();
            (found, crate::check::checked(&context).contains(&"collectives"))
        };
        assert_eq!(judged("NVIDIA A100-SXM4-80GB", 235.0, 8), (vec![], true));
        assert_eq!(judged("NVIDIA A100-SXM4-80GB", 30.0, 8), (vec![Warning], true), "of 240 GB/s");
        assert_eq!(judged("NVIDIA H200", 243.0, 8), (vec![Warning], true), "0.51 of the links, 0.64 of their rings");
        assert_eq!(judged("NVIDIA H200", 360.0, 8), (vec![], true), "rings");
        assert_eq!(judged("NVIDIA A100-SXM4-80GB", 187.0, 2), (vec![], true), "all links");
        assert_eq!(
            judged("NVIDIA A100-SXM4-80GB", 70.0, 2),
            (vec![], false),
            "two may share four links, or have lost eight"
        );
        assert_eq!(judged("NVIDIA A100-SXM4-80GB", 30.0, 2), (vec![Warning], true), "half of four links");
        assert_eq!(judged("Tesla V100-SXM2-32GB", 134.8, 8), (vec![], true), "nearly all of six links");
        assert_eq!(judged("Tesla V100-SXM2-32GB", 40.0, 8), (vec![], false), "a board may join them so");
        // cards whose places nobody states
        assert_eq!(judged("NVIDIA L40S", 21.0, 8), (vec![], true));
        assert_eq!(judged("NVIDIA L40S", 12.0, 8), (vec![Warning], true), "as through host memory");
        assert_eq!(judged("NVIDIA L40S", 1.0, 8), (vec![Warning], true), "as through one lane");
    }

    #[test]
    fn a_sound_one_small_messages_and_some_of_the_gpus_are_none() {
        assert_eq!(with(9.0, 256, 4), vec![]);
        assert_eq!(with(3.5, 1, 4), vec![]);
        assert_eq!(with(3.5, 256, 2), vec![], "what other rings carry is not asked");
    }
}
