//! RDMA with GPU memory that is slower than the path gives, and GPU memory that a NIC reaches faster by way of host memory.

use super::culprit::blame;
use super::nic_slow::{Compared, compared, finding, limit, slow_by_loopback, subjects};
use super::nodes;
use super::prelude::*;

pub(super) const RULE: Rule =
    Rule::new("nic-gpu-slow", Many(run)).explains("slow-all-reduce").and_nodes(nodes::gpu_memory::slow_with_gpus);

/// Pairs of a class whose median says what is usual.
const FEWEST_PEERS: usize = 4;

/// Below this share of the staged rate a direct one is slower, and not by noise.
const SLOWER: f64 = 0.95;

/// From this share of the staged rate on that is only good to know.
const LITTLE: f64 = 0.85;

fn run(view: &View) -> Vec<Raised> {
    // out and back through such a NIC is slow whatever memory it is
    let explained = slow_by_loopback(view);
    let is_open = |one: &Compared| ![one.cell.from, one.cell.to].into_iter().any(|end| is_in(end, &explained));
    let all: Vec<Vec<Compared>> = view
        .gpus_with_nics()
        .map(|(matrix, series)| {
            beside_peers(view, compared(view, matrix, series).into_iter().filter(is_open).collect())
        })
        .collect();
    let (mut devices, mut pairs): (Vec<(NodeId, Vec<&Compared>)>, Vec<&Compared>) = (Vec::new(), Vec::new());
    for matrix in &all {
        let cells: Vec<Cell> = matrix.iter().map(|one| one.cell).collect();
        let bad: Vec<bool> = matrix.iter().map(|one| one.slow).collect();
        for group in blame(&cells, &bad) {
            let slow = group.cells.iter().filter_map(|at| matrix.get(*at));
            match group.culprit {
                Some((End::Node(id), _)) => match devices.iter_mut().find(|(known, _)| *known == id) {
                    Some((_, known)) => known.extend(slow),
                    None => devices.push((id, slow.collect())),
                },
                _ => pairs.extend(slow),
            }
        }
    }
    // what one device explains of one kind of rate, it explains of the others
    let named: Vec<NodeId> = devices.iter().map(|(id, _)| *id).collect();
    pairs.retain(|one| !named.iter().any(|id| one.cell.is_of(*id)));
    let mut raised: Vec<Raised> = devices.iter().filter_map(|(id, slow)| of_device(view, *id, slow)).collect();
    raised.extend(of_pairs(view, &pairs));
    raised.extend(staged_is_faster(view, &all));
    raised
}

/// Also slow is what is far below the median of pairs of the same path class: how well a GPU answers reads and a root complex forwards
/// them is known within wide bounds, and is the same for all of a kind.
fn beside_peers<'a>(view: &View, mut all: Vec<Compared<'a>>) -> Vec<Compared<'a>> {
    let class = |one: &Compared| one.cell.nodes().and_then(|(a, b)| view.class(a, b));
    let by_class = grouped(all.iter().map(|one| (class(one), one.share())));
    for one in &mut all {
        let peers = by_class.iter().find(|(of, shares)| *of == class(one) && shares.len() >= FEWEST_PEERS);
        let usual = peers.and_then(|(_, shares)| median(shares.iter().copied())).map_or(0.0, |usual| usual.min(1.0));
        one.slow |= one.share() < limit(view, &one.matrix.matrix) * usual;
    }
    all
}

fn is_in(end: End, nodes: &std::collections::HashSet<NodeId>) -> bool {
    matches!(end, End::Node(id) if nodes.contains(&id))
}

/// Whether rates of GPU memory through NICs were measured whose limit is known.
pub(super) fn is_comparable(view: &View) -> bool {
    view.gpus_with_nics().any(|(matrix, series)| !compared(view, matrix, series).is_empty())
}

/// Shares of what is expected, from the least to the most: `40 to 60 %`.
fn reach(slow: &[&Compared]) -> String {
    let shares = || slow.iter().map(|one| one.share());
    let (low, high) = (shares().fold(f64::INFINITY, f64::min), shares().fold(0.0, f64::max));
    if high - low < 0.01 { percent(low) } else { format!("{:.0} to {}", low * 100.0, percent(high)) }
}

/// The ways of rates: `direct`, `staged`, `direct and staged`.
fn ways(slow: &[&Compared]) -> &'static str {
    let staged = |one: &&&Compared| one.matrix.matrix.p2p == Some(false);
    match slow.iter().filter(staged).count() {
        0 => "direct",
        n if n == slow.len() => "staged",
        _ => "direct and staged",
    }
}

/// A GPU or a NIC that is slow with nearly all others.
fn of_device(view: &View, id: NodeId, slow: &[&Compared]) -> Option<Raised> {
    let name = view.name(id);
    let (what, fix) = if view.fabric().node(id).kind == NodeKind::Gpu {
        (
            format!("{} {} rates between {name} and NICs", slow.len(), ways(slow)),
            "Reseat or move the card whose link is narrow under load: the GPU's link or one above it (`nvidia-smi \
             -q`, `lspci -vv`).",
        )
    } else {
        (
            format!("{} {} rates between GPUs and {name}", slow.len(), ways(slow)),
            "Reseat or move the card whose link is narrow: the adapter's link or one above it (`lspci -vv`). If the \
             links have their full width and host memory is fast (`--tests nic`), peer traffic is redirected or \
             translated: clear ACS on the switches' ports, boot with `iommu=pt`, and let the adapter write relaxed.",
        )
    };
    let summary = format!("{what} reach {} of what the paths should give", reach(slow));
    let raised = finding(view, &RULE, (Fault, Likely), slow, summary)?;
    let about = vec![view.node(id)];
    Some(raised.fix(fix).confirm(confirm::pairs("nic,nic-gpu", &about)).about(about))
}

/// Pairs that no one device explains.
fn of_pairs(view: &View, slow: &[&Compared]) -> Option<Raised> {
    let (pairs, between) = subjects(view, slow);
    let summary =
        format!("RDMA between {} ({}) reaches {} of what the paths should give", between, ways(slow), reach(slow));
    let raised = finding(view, &RULE, (Fault, Possible), slow, summary)?;
    Some(
        raised
            .fix(
                "Clear ACS on the switches' ports (`lspci -vvv | grep ACSCtl`) and boot with `iommu=pt`: where only \
                 direct rates are slow, peer traffic is redirected or translated on the way. Across sockets \
                 processors forward it slowly: use a NIC of the GPU's own socket.",
            )
            .confirm(confirm::pairs("nic-gpu", &pairs))
            .about(pairs),
    )
}

/// Direct rates below staged ones of the same data, none of which is slower than it should be.
fn staged_is_faster(view: &View, all: &[Vec<Compared>]) -> Option<Raised> {
    let flat = || all.iter().flatten().filter(|one| !one.slow);
    let gb = |one: &Compared| one.cell.rate.gb();
    let staged_of = |direct: &Compared| {
        let same = |one: &&Compared| (one.cell.from, one.cell.to) == (direct.cell.from, direct.cell.to);
        flat().filter(|one| one.matrix.matrix.p2p == Some(false)).find(same).map(gb)
    };
    let directs = flat().filter(|one| one.matrix.matrix.p2p == Some(true));
    let slower: Vec<(&Compared, f64)> = directs
        .filter_map(|one| Some((one, staged_of(one)?)))
        .filter(|(one, staged)| gb(one) < SLOWER * staged)
        .collect();
    let (worst, staged) = lowest(slower.iter().copied(), |(one, staged)| gb(one) / staged)?;
    let of: Vec<&Compared> = slower.iter().map(|(one, _)| *one).collect();
    let (pairs, between) = subjects(view, &of);
    let class =
        worst.cell.nodes().and_then(|(a, b)| view.class(a, b)).map_or(String::new(), |class| format!(" ({class})"));
    let is_gpu = |end: End| matches!(end, End::Node(id) if view.fabric().node(id).kind == NodeKind::Gpu);
    let only_reads = of.iter().all(|one| is_gpu(one.cell.from));
    let fix = if only_reads {
        "Let libraries stage what NICs read from these GPUs, and write to them directly (NCCL_NET_GDR_READ=0), or send through a NIC \
         below the GPU's own switch."
    } else {
        "Let libraries stage between these (NCCL_NET_GDR_LEVEL at the class of nearer pairs, as PXB), or use a NIC below the GPU's own \
         switch."
    };
    let share = gb(worst) / staged;
    Some(
        RULE.raise(Design, if share < LITTLE { Warning } else { Info }, Certain)
            .summary(format!(
                "RDMA between {} is slower directly than through host memory: {} of its rate at worst",
                between,
                percent(share)
            ))
            .expected(format!("{} {staged:.2} GB/s, as staged", view.arrow(&worst.matrix.matrix, &worst.cell)))
            .measured(format!("{}{class}", view.quote(worst.matrix, &worst.cell)))
            .evidence(view.cite(slower.iter().flat_map(|(one, _)| origins(one.matrix))))
            .fix(fix)
            .confirm(confirm::pairs("nic-gpu", &pairs))
            .cost(Cost::of_rate(staged, gb(worst)))
            .about(pairs)
            .losing(1.0 - share),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::testing::see_expecting;
    use peerlane_machine::machine::Machine;
    use peerlane_machine::matrix::{Engine, Quantity, Unit};
    use peerlane_machine::origin::Origin as Source;
    use peerlane_model::comparison::Expected;
    use peerlane_read::catalogue::{Parts, system};

    /// What is found where 12 GB/s are expected of each of four GPUs with each of four NICs, and these are measured: directly and
    /// staged, from the GPU and to it.
    fn found(value: impl Fn(bool, bool, usize, usize) -> f64) -> Vec<String> {
        found_from(11.5, value)
    }

    /// The same where the least that is expected may be less.
    fn found_from(low: f64, value: impl Fn(bool, bool, usize, usize) -> f64) -> Vec<String> {
        let mut machine: Machine = system("hpcac-tessa").unwrap().unwrap();
        let named = |name: &str| (0..4).map(|i| format!("{name}{i}")).collect::<Vec<String>>();
        let (gpus, nics) = (named("GPU"), named("mlx5_"));
        for direct in [true, false] {
            for to_gpu in [false, true] {
                // places are by GPU and NIC in either direction
                let at =
                    |i: usize, j: usize| if to_gpu { value(direct, to_gpu, j, i) } else { value(direct, to_gpu, i, j) };
                let (rows, cols) = if to_gpu { (&nics, &gpus) } else { (&gpus, &nics) };
                let matrix = Matrix {
                    quantity: Quantity::Bandwidth,
                    direction: Some(Direction::Unidirectional),
                    p2p: Some(direct),
                    engine: Some(Engine::Nic),
                    unit: Unit::GigabytesPerSecond,
                    rows: rows.clone(),
                    cols: cols.clone(),
                    values: (0..4).map(|i| (0..4).map(|j| Some(at(i, j))).collect()).collect(),
                    ..Matrix::default()
                };
                let origin = Source { source: "run".into(), tool: "peerlane measure", lines: None };
                let (also, published, known_cause, spread) = (Vec::new(), false, None, Vec::new());
                machine.matrices.push(SourcedMatrix { matrix, origin, also, published, known_cause, spread });
            }
        }
        let expected = |_: &Matrix, _, _| Some(Expected::new(12.0, [low, 12.5], "its line"));
        see_expecting(&machine, Parts::embedded(), expected, |view| {
            run(view).into_iter().map(|raised| raised.finding.summary).collect()
        })
    }

    #[test]
    fn sound_rates_say_nothing() {
        assert_eq!(found(|_, _, _, _| 12.0), [""; 0]);
        // a little less is what all do
        assert_eq!(found(|direct, _, _, _| if direct { 11.6 } else { 12.0 }), [""; 0]);
    }

    #[test]
    fn a_device_or_a_pair_is_named() {
        let nic = found(|_, _, _, nic| if nic == 2 { 4.0 } else { 12.0 });
        assert_eq!(
            nic,
            ["16 direct and staged rates between GPUs and mlx5_2 reach 33 % of what the paths should give"]
        );
        let gpu = found(|direct, _, gpu, _| if direct && gpu == 1 { 3.0 } else { 12.0 });
        assert_eq!(gpu, ["8 direct rates between GPU1 and NICs reach 25 % of what the paths should give"]);
        let pair = found(|direct, to_gpu, gpu, nic| if direct && !to_gpu && (gpu, nic) == (0, 3) { 6.0 } else { 12.0 });
        assert_eq!(pair, ["RDMA between GPU0 and mlx5_3 (direct) reaches 50 % of what the paths should give"]);
    }

    #[test]
    fn a_pair_is_told_by_its_peers_where_little_is_known() {
        // all may be as slow as this, and all but one are not
        let pair = found_from(4.0, |_, to_gpu, gpu, nic| if to_gpu && (gpu, nic) == (1, 2) { 4.5 } else { 12.0 });
        assert_eq!(
            pair,
            ["RDMA between mlx5_2 and GPU1 (direct and staged) reaches 38 % of what the paths should give"]
        );
        assert_eq!(found_from(4.0, |_, _, _, _| 4.5), [""; 0]);
    }

    #[test]
    fn what_is_faster_through_host_memory_is_said() {
        let reads = found(|direct, to_gpu, _, nic| if direct && !to_gpu && nic < 2 { 10.0 } else { 12.0 });
        assert_eq!(reads.len(), 1, "{reads:?}");
        assert!(
            reads[0].ends_with("is slower directly than through host memory: 83 % of its rate at worst"),
            "{reads:?}"
        );
    }
}
