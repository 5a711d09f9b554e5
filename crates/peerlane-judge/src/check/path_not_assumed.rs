//! Bytes that NVLinks carried against those that were sent over them, as the machine's graph has it.

use std::collections::{BTreeMap, BTreeSet};

use super::prelude::*;
use peerlane_machine::fabric::Interconnect;
use peerlane_machine::matrix::{Engine, Operation};
use peerlane_machine::names::is_host;
use peerlane_machine::transfer::{Transfer, Via};
use peerlane_machine::units::Rate;
use peerlane_measure::plan::Work;
use peerlane_measure::run::{Counted, Moved, NvlinkData, Run};
use peerlane_model::expectation::resolve;

pub(super) const RULE: Rule = Rule::new("path-not-assumed", Many(run));

/// By how much the counters of data may differ from what was sent: they count in KiB and nothing that the protocol adds.
const TOLERANCE: f64 = 0.02;

/// The same of kernels that read: how much of a repeated read a cache serves is not known.
const TOLERANCE_OF_READS: f64 = 0.5;

/// The least bytes that are judged of a GPU in a family: what else goes over its links is small against it.
const LEAST: u64 = 64 << 20;

/// The least bytes of a GPU in a run from which on its links are compared with each other.
const LEAST_OF_LINKS: u64 = 1 << 30;

/// A link that carried less than this share of the mean of its GPU's links is named. Links of one bundle are used in turns.
const LEFT_OUT: f64 = 0.25;

/// A transfer explains a difference of its ends' counters that is at least this share of its bytes.
const MOST: f64 = 0.5;

/// What a GPU should have sent and received over NVLinks, and what it exchanged with other GPUs by other paths; in bytes.
#[derive(Clone, Copy, Debug, Default)]
struct Assumed {
    by_nvlink: [u64; 2],
    elsewhere: [u64; 2],
    /// Of the first, by kernels that read.
    reads: [u64; 2],
}

/// Pairs whose bytes took another path: sent and received by the counters, and sent in truth.
type Strays = BTreeMap<(String, String), [u64; 2]>;

fn run(view: &View) -> Vec<Raised> {
    let Some(run) = view.case.run() else { return Vec::new() };
    let (mut away, mut onto) = (Strays::new(), Strays::new());
    for counted in &run.counters {
        let Some(moved) = &counted.moved else { continue };
        judge(view, run, counted, moved, &mut away, &mut onto);
    }
    let mut found: Vec<Raised> = Vec::new();
    found.extend((!away.is_empty()).then(|| left_nvlinks(view, &away)));
    found.extend((!onto.is_empty()).then(|| took_nvlinks(view, &onto)));
    found.extend(left_out(view, run));
    found
}

/// The GPUs at the ends of NVLink hops that a transfer takes by the model: each with whether it sends there.
fn assumed_path(view: &View, transfer: &Transfer) -> Option<Vec<(NodeId, usize)>> {
    if transfer.via != Via::Direct {
        return Some(Vec::new());
    }
    let fabric = view.fabric();
    let resolved = resolve(fabric, transfer)?;
    if fabric.is_path_unknown(resolved.source, resolved.destination) {
        return None;
    }
    let route = view.model.route(&resolved).ok()?;
    let mut ends = Vec::new();
    for hop in route.hops.iter().filter(|_| !route.staged) {
        let by_nvlink = fabric
            .links_of(hop.from)
            .iter()
            .any(|(link, far)| *far == hop.to && fabric.link(*link).kind.bundle(Interconnect::Nvlink).is_some());
        if by_nvlink {
            ends.extend([(hop.from, 0), (hop.to, 1)]);
        }
    }
    Some(ends)
}

/// Compares what counters show of one family with what was sent.
fn judge(view: &View, run: &Run, counted: &Counted, moved: &[Moved], away: &mut Strays, onto: &mut Strays) {
    let mut assumed: BTreeMap<&str, Assumed> = BTreeMap::new();
    let mut by_nvlink = Vec::new();
    for Moved { transfer, bytes } in between(moved) {
        // one path that is not known makes all sums of its family unknown
        let Some(ends) = assumed_path(view, transfer) else { return };
        let reads = transfer.engine == Engine::Sm && transfer.op == Operation::Read;
        for (id, way) in &ends {
            let of = assumed.entry(view.name(*id)).or_default();
            of.by_nvlink[*way] += bytes;
            of.reads[*way] += if reads { *bytes } else { 0 };
        }
        if ends.is_empty() {
            for (name, way) in [(&transfer.source, 0), (&transfer.destination, 1)] {
                assumed.entry(name).or_default().elsewhere[way] += bytes;
            }
        }
        by_nvlink.push(!ends.is_empty());
    }
    let carried = |gpu: &str, way: usize| {
        let data = counted.nvlinks.iter().find(|data| data.gpu == gpu)?;
        total(view, data, way)
    };
    // what is missing on, and more than assumed on, the NVLinks of a GPU one way; nothing where it is within the tolerance
    let short = |gpu: &str, way: usize| {
        let of = assumed.get(gpu).copied().unwrap_or_default();
        let reads = of.reads[way];
        let tolerated = TOLERANCE * (of.by_nvlink[way] - reads) as f64 + TOLERANCE_OF_READS * reads as f64;
        let (bytes, unit) = carried(gpu, way).filter(|_| of.by_nvlink[way] >= LEAST)?;
        let missing = of.by_nvlink[way].saturating_sub(bytes.saturating_add(unit));
        (missing as f64 > tolerated).then_some(missing)
    };
    let over = |gpu: &str, way: usize| {
        let of = assumed.get(gpu).copied().unwrap_or_default();
        let (bytes, _) = carried(gpu, way).filter(|_| of.elsewhere[way] >= LEAST)?;
        let more = bytes.saturating_sub(of.by_nvlink[way]);
        (more as f64 > TOLERANCE * of.by_nvlink[way] as f64).then_some(more)
    };
    let between: Vec<(&Moved, bool)> = between(moved).zip(by_nvlink).collect();
    for (by_nvlink, differs, strays) in
        [(true, &short as &dyn Fn(&str, usize) -> Option<u64>, away), (false, &over, onto)]
    {
        for one in attributed(between.iter().filter(|(_, by)| *by == by_nvlink).map(|(one, _)| *one), differs) {
            let (from, to) = (one.transfer.source.as_str(), one.transfer.destination.as_str());
            if !by_nvlink || fits_pcie(view, run, counted, &one.transfer) {
                let of = assumed.get(from).copied().unwrap_or_default();
                let sent = if by_nvlink { of.by_nvlink[0] } else { of.elsewhere[0] };
                let counts = [carried(from, 0).map_or(0, |(bytes, _)| bytes), sent];
                strays.entry((from.to_owned(), to.to_owned())).or_insert(counts);
            }
        }
    }
}

/// Transfers between GPUs.
fn between(moved: &[Moved]) -> impl Iterator<Item = &Moved> {
    let has_host = |transfer: &Transfer| is_host(&transfer.source) || is_host(&transfer.destination);
    moved.iter().filter(move |moved| !has_host(&moved.transfer) && moved.transfer.source != moved.transfer.destination)
}

/// The transfers that explain by how much the counters of GPUs differ: those first whose ends differ most. A GPU that sends to one
/// whose links are not used has less on its own too, and its other transfers do not explain that once the first is taken off.
fn attributed<'m>(
    all: impl Iterator<Item = &'m Moved>,
    differs: &dyn Fn(&str, usize) -> Option<u64>,
) -> Vec<&'m Moved> {
    let mut left: BTreeMap<(&str, usize), u64> = BTreeMap::new();
    let mut able = Vec::new();
    for one in all {
        let ends = [(one.transfer.source.as_str(), 0), (one.transfer.destination.as_str(), 1)];
        let [Some(from), Some(to)] = ends.map(|(gpu, way)| differs(gpu, way)) else { continue };
        left.extend([(ends[0], from), (ends[1], to)]);
        able.push((from.saturating_add(to), ends, one));
    }
    able.sort_by_key(|a| std::cmp::Reverse(a.0));
    let mut taken = Vec::new();
    for (_, ends, one) in able {
        if ends.iter().all(|end| left.get(end).is_some_and(|bytes| *bytes as f64 >= MOST * one.bytes as f64)) {
            for end in ends {
                left.entry(end).and_modify(|bytes| *bytes = bytes.saturating_sub(one.bytes));
            }
            taken.push(one);
        }
    }
    taken
}

/// Bytes that a GPU's links carried one way, with how much more it may be by the counters' unit; `None` where a link that
/// the machine has cannot be read.
fn total(view: &View, data: &NvlinkData, way: usize) -> Option<(u64, u64)> {
    let id = view.fabric().find(&data.gpu)?;
    let kib = if way == 0 { &data.sent_kib } else { &data.received_kib };
    let read = kib.iter().flatten().count() as u64;
    let all = u64::from(view.fabric().nvlinks_of(id));
    // each counter is rounded twice
    (read >= all && read > 0).then(|| (kib.iter().flatten().sum::<u64>().saturating_mul(1024), 2 * 1024 * read))
}

/// Whether the rate of a transfer is one that the PCIe link of its GPU can carry: where it is not, the counters are wrong.
fn fits_pcie(view: &View, run: &Run, counted: &Counted, transfer: &Transfer) -> bool {
    let raw = |id| {
        let (running, allowed) = view.pcie_above(id)?;
        let rates = [running.raw_rate(), allowed.raw_rate()].into_iter().flatten();
        rates.map(Rate::gb).reduce(f64::max)
    };
    let Some(most) = view.fabric().find(&transfer.source).and_then(raw) else { return false };
    let mut rates = run.cells.iter().filter(|cell| counted.steps.contains(&cell.step)).filter_map(|cell| {
        let Work::Transfers(transfers) = &cell.work else { return None };
        let at = transfers.iter().position(|t| t == transfer)?;
        let own = if transfers.len() > 1 { cell.each.get(at).map(|each| each.value) } else { cell.value() };
        own.filter(|_| !cell.is_void())
    });
    rates.all(|gb| gb <= most)
}

fn gigabytes(bytes: u64) -> String {
    format!("{:.2} GB", bytes as f64 * 1e-9)
}

fn shown(strays: &Strays) -> (Vec<Subject>, String) {
    let pairs: BTreeSet<(&String, &String)> = strays.keys().map(|(a, b)| if a < b { (a, b) } else { (b, a) }).collect();
    let subjects = pairs.into_iter().map(|(a, b)| Subject::Pair(a.clone(), b.clone())).collect();
    let figures = strays.iter().take(SHOWN).map(|((from, to), [counted, sent])| {
        format!("{from} → {to}: {from} sent {}, its NVLinks counted {}", gigabytes(*sent), gigabytes(*counted))
    });
    let figures: Vec<String> = figures.collect();
    let more = strays.len().saturating_sub(SHOWN);
    let and = if more > 0 { format!("; and {more} more") } else { String::new() };
    (subjects, figures.join("; ") + &and)
}

/// Pairs whose figures are shown; more are counted.
const SHOWN: usize = 4;

fn names(subjects: &[Subject]) -> String {
    list(&subjects.iter().map(Subject::to_string).collect::<Vec<String>>())
}

fn left_nvlinks(view: &View, strays: &Strays) -> Raised {
    let (subjects, figures) = shown(strays);
    RULE.raise(Fault, Warning, Likely)
        .summary(format!("NVLinks join {}, but they did not carry what was sent", names(&subjects)))
        .expected("the bytes sent, within 2 %, on the NVLinks of both GPUs")
        .measured(figures)
        .evidence(view.cite_run())
        .fix(
            "Restart the fabric manager, then reset the GPUs. If they still do not use NVLink, check that NVLinks \
             are up and registered (`nvidia-smi nvlink -s`, the fabric manager's log) and that peer access is on \
             (`nvidia-smi topo -p2p n`).",
        )
        .confirm("`nvidia-smi nvlink -gt d` before and after `peerlane measure --tests pairs`")
        .about(subjects)
}

fn took_nvlinks(view: &View, strays: &Strays) -> Raised {
    let (subjects, figures) = shown(strays);
    RULE.raise(Measurement, Warning, Likely)
        .summary(format!("NVLinks carried what {} exchanged, which was to go over PCIe", names(&subjects)))
        .expected("no such bytes on NVLinks: the machine's graph has another path")
        .measured(figures)
        .evidence(view.cite_run())
        .fix("Do not use these rates for the PCIe path. Add `nvidia-smi topo -m` and `nvidia-smi nvlink -s` so that the graph shows the links.")
        .confirm("`nvidia-smi nvlink -gt d` before and after `peerlane measure --tests pairs,staged`")
        .about(subjects)
}

/// Links that carried next to nothing while others of the same bundle worked.
fn left_out(view: &View, run: &Run) -> Option<Raised> {
    let mut sums: BTreeMap<&str, Vec<[u64; 2]>> = BTreeMap::new();
    for data in run.counters.iter().flat_map(|counted| &counted.nvlinks) {
        let links = sums.entry(&data.gpu).or_default();
        links.resize(links.len().max(data.sent_kib.len()), [0; 2]);
        for (sum, (sent, received)) in links.iter_mut().zip(data.sent_kib.iter().zip(&data.received_kib)) {
            *sum = [sum[0] + sent.unwrap_or(0), sum[1] + received.unwrap_or(0)];
        }
    }
    // a link that was not read is no link that carried nothing
    let unread = |gpu: &str, link: usize| {
        let all = run.counters.iter().flat_map(|counted| &counted.nvlinks).filter(|data| data.gpu == gpu);
        all.clone().any(|data| data.sent_kib.get(link).copied().flatten().is_none())
    };
    let (mut names, mut figures) = (Vec::new(), Vec::new());
    for (gpu, links) in sums {
        let Some(id) = view.fabric().find(gpu) else { continue };
        let bundles =
            view.fabric().links_of(id).iter().filter(|(link, _)| view.fabric().link(*link).kind.nvlinks() > 0);
        let read: Vec<usize> = (0..links.len()).filter(|link| !unread(gpu, *link)).collect();
        if bundles.count() != 1 || read.len() < 2 {
            continue;
        }
        for (way, verb) in ["sent", "received"].into_iter().enumerate() {
            let sum: u64 = read.iter().map(|link| links[*link][way]).sum();
            let mean = sum as f64 / read.len() as f64;
            let idle: Vec<String> = read
                .iter()
                .filter(|link| (links[**link][way] as f64) < LEFT_OUT * mean)
                .map(usize::to_string)
                .collect();
            if sum.saturating_mul(1024) >= LEAST_OF_LINKS && !idle.is_empty() {
                names.push(gpu.to_owned());
                figures.push(format!(
                    "{gpu} {verb} {:.0} MiB a link in the mean, and less than a quarter of it on {}",
                    mean / 1024.0,
                    idle.join(", ")
                ));
            }
        }
    }
    let names = distinct(names);
    (!names.is_empty()).then(|| {
        RULE.raise(Fault, Warning, Possible)
            .summary(format!("Some NVLinks of {} are up and carried almost nothing", list(&names)))
            .expected("about as many bytes on each link of a bundle")
            .measured(figures.join("; "))
            .evidence(view.cite_run())
            .fix("Reset the GPU; if the links stay idle, check the fabric manager's log for them.")
            .confirm("`nvidia-smi nvlink -gt d` before and after `peerlane measure --tests pairs`")
            .about_nodes(names)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::testing::see_with;
    use peerlane_design::case::{Case, Recorded};
    use peerlane_machine::fault::{Fault, Planted};
    use peerlane_measure::measure::execute;
    use peerlane_measure::plan::{Plan, Scope, Selection};
    use peerlane_measure::run::{Run, Subject as Who};
    use peerlane_measure::simulated_machine::SimulatedMachine;
    use peerlane_read::catalogue::{self, Parts};

    /// A run of the quick plan on a simulated machine.
    fn measured(system: &str, faults: Vec<Fault>) -> Case {
        let machine = catalogue::system(system).unwrap().unwrap();
        let plan = Plan::of(&machine, Scope::Quick, &Selection::default(), Scope::Quick.method(4)).unwrap();
        let who = Who { name: machine.name.clone(), target: system.to_owned(), system: None, evidence: Vec::new() };
        let mut run = Run::new(&machine, who, plan.clone());
        let settings = Planted { faults, ..Planted::default() };
        let mut simulated = SimulatedMachine::new(&machine, Parts::embedded(), &settings);
        execute(&plan, &mut simulated, &Default::default(), &mut |event| run.apply(event)).unwrap();
        assert!(run.counters.len() > 3);
        let origin = crate::check::testing::origin("run");
        Case { run: Some(Recorded { run, origin }), ..Case::from(machine) }
    }

    fn found(case: &Case) -> Vec<(FindingKind, String, String)> {
        see_with(case, Parts::embedded(), |view| {
            let found = run(view).into_iter().map(|r| r.finding);
            found
                .map(|f| (f.kind, list(&f.subjects.iter().map(Subject::to_string).collect::<Vec<_>>()), f.measured))
                .collect()
        })
    }

    #[test]
    fn sound_machines_are_left_alone() {
        for system in ["hgx-h200", "h200x4-vm", "dgx-1v", "exxact-devbox"] {
            assert_eq!(found(&measured(system, Vec::new())), [], "{system}");
        }
    }

    #[test]
    fn bytes_that_left_their_nvlinks_are_found() {
        let case = measured("hgx-h200", vec![Fault::Detour { gpu: "GPU5".to_owned() }]);
        let found = found(&case);
        let [(kind, subjects, figures)] = &found[..] else { panic!("{found:?}") };
        assert_eq!(*kind, Fault);
        assert!(subjects.split(", ").all(|pair| pair.contains("GPU5")), "{subjects}");
        assert!(figures.contains("its NVLinks counted 0.00 GB"), "{figures}");
    }

    #[test]
    fn rates_that_no_pcie_link_carries_show_the_counters_wrong() {
        let mut case = measured("hgx-h200", Vec::new());
        let run = &mut case.run.as_mut().unwrap().run;
        for links in
            run.counters.iter_mut().flat_map(|c| &mut c.nvlinks).flat_map(|d| [&mut d.sent_kib, &mut d.received_kib])
        {
            links.iter_mut().for_each(|kib| *kib = Some(0));
        }
        assert_eq!(found(&case), []);
    }

    #[test]
    fn a_link_that_carries_nothing_is_named() {
        let mut case = measured("hgx-h200", Vec::new());
        let run = &mut case.run.as_mut().unwrap().run;
        for data in run.counters.iter_mut().flat_map(|c| &mut c.nvlinks).filter(|d| d.gpu == "GPU2") {
            let lost = data.sent_kib[7].replace(0).unwrap_or(0);
            data.sent_kib[8] = data.sent_kib[8].map(|kib| kib + lost);
        }
        let found = found(&case);
        let [(_, subjects, figures)] = &found[..] else { panic!("{found:?}") };
        assert_eq!(subjects, "GPU2");
        assert!(figures.ends_with("less than a quarter of it on 7"), "{figures}");
    }

    #[test]
    fn nvlinks_that_carry_what_should_go_elsewhere_are_found() {
        let mut case = measured("hgx-h200", Vec::new());
        let run = &mut case.run.as_mut().unwrap().run;
        for moved in run.counters.iter_mut().filter_map(|c| c.moved.as_mut()).flatten() {
            moved.transfer.via = Via::Driver;
        }
        let found = found(&case);
        assert_eq!((found.len(), found[0].0), (1, Measurement), "{found:?}");
    }
}
