use super::*;
use crate::simulate::result::{Job, SimulationDocument, simulate};
use crate::simulate::workload::read_trace;
use peerlane_read::catalogue::system;

const SIZE: u64 = 64 << 20;

fn hgx() -> Cluster {
    Cluster::single(system("hgx-h200").unwrap().unwrap())
}

/// Seconds of an all-reduce of [`SIZE`] among the first GPUs alone, and of these those before its first byte.
fn alone(gpus: usize) -> (f64, f64) {
    let cluster = Cluster { taking: (1, gpus), ..hgx() };
    let library = Library::of(&cluster, Collective::AllReduce, Choice::FREE, None).unwrap();
    let predicted = library.predict(Bytes(SIZE), Choice::FREE).unwrap();
    (predicted.time, predicted.startup)
}

fn all_reduce(group: u32) -> Act {
    Act::Collective { collective: Collective::AllReduce, group, bytes: SIZE, took: Some(1e-3) }
}

fn joined(ranks: usize, groups: &[&[u32]], acts: &[Act], waits: &[(u32, u32)]) -> Joined {
    let groups = groups.iter().map(|group| group.to_vec()).collect();
    Joined { ranks, acts: acts.to_vec(), waits: waits.to_vec(), groups, ..Joined::default() }
}

fn document(of: &Joined, compute: f64, helps: bool) -> SimulationDocument {
    let cluster = hgx();
    let trace = Recorded::of(of, &cluster, compute).unwrap();
    simulate(&cluster, &Job::Trace("t".to_owned(), Box::new(trace)), helps).unwrap().0
}

fn summary(of: &Joined) -> TraceSummary {
    document(of, 1.0, false).trace.unwrap()
}

fn close(got: f64, expected: f64) {
    assert!((got - expected).abs() <= 1e-9 * expected.abs().max(1e-9), "{got} for {expected}");
}

#[test]
fn communication_beside_computing_is_exposed_where_it_is_longer() {
    let (time, _) = alone(2);
    for share in [0.0, 0.3, 1.0, 2.5] {
        let c = share * time;
        let both = [Act::Compute(0, c), Act::Compute(1, c), all_reduce(0)];
        let got = summary(&joined(2, &[&[0, 1]], &both, &[]));
        close(got.simulated.time, time.max(c));
        close(got.simulated.exposed, (time - c).max(0.0));
        close(got.simulated.computing, c);
        close(got.simulated.communication, time);
        close(got.simulated.idle, 0.0);
        close(got.collectives[0].exposed, (time - c).max(0.0));
        assert_eq!((got.collectives[0].recorded, got.collectives[0].bytes), (Some(1e-3), SIZE as f64));
    }
}

#[test]
fn communication_after_computing_waits_for_the_slowest_rank() {
    let (time, _) = alone(2);
    let c = 1e-3;
    let acts = [Act::Compute(0, c), Act::Compute(1, 2.0 * c), all_reduce(0)];
    let one_after_the_other = joined(2, &[&[0, 1]], &acts, &[(0, 2), (1, 2)]);
    let got = summary(&one_after_the_other).simulated;
    close(got.time, 2.0 * c + time);
    // one of two ranks waits for the other
    close(got.waiting.unwrap(), c / 2.0);
    close(got.exposed, time + c / 2.0);
    close(got.idle, 0.0);
    // for GPUs that are twice as fast
    let faster = document(&one_after_the_other, 0.5, false).trace.unwrap();
    close(faster.simulated.time, c + time);
    assert!(faster.notes[0].contains("0.5 times"), "{:?}", faster.notes);
    // a step is the whole over their number
    let two = summary(&Joined { steps: 2, ..one_after_the_other });
    close(two.simulated.time, (2.0 * c + time) / 2.0);
    close(two.collectives[0].count, 0.5);
}

#[test]
fn collectives_share_what_both_use_and_nothing_else() {
    let (time, startup) = alone(2);
    let apart = summary(&joined(4, &[&[0, 1], &[2, 3]], &[all_reduce(0), all_reduce(1)], &[]));
    close(apart.simulated.time, time);
    assert_eq!((apart.collectives.len(), apart.collectives[0].count), (1, 1.0));
    // two communicators of the same ranks, on two streams
    let beside = summary(&joined(2, &[&[0, 1]], &[all_reduce(0), all_reduce(0)], &[])).simulated.time;
    assert!(beside > 1.5 * time && beside <= startup + 2.0 * (time - startup) + 1e-12, "{beside} for {time}");
    let one_by_one = summary(&joined(2, &[&[0, 1]], &[all_reduce(0), all_reduce(0)], &[(0, 1)])).simulated.time;
    close(one_by_one, 2.0 * time);
}

#[test]
fn a_faster_link_helps_as_much_as_the_library_gains_by_it() {
    let (time, startup) = alone(8);
    let got = document(&joined(8, &[&[0, 1, 2, 3, 4, 5, 6, 7]], &[all_reduce(0)], &[]), 1.0, true);
    close(got.points[0].time, time);
    let helps = got.helps.unwrap();
    let link = helps.iter().find(|help| help.resource.contains("NVLink")).unwrap();
    assert!(link.time < time - 0.3 * (time - startup), "{link:?} of {time}");
}

#[test]
fn lines_may_be_collectives() {
    let line = |ranks: &str| format!("{{\"collective\":\"all-reduce\",\"ranks\":[{ranks}],\"bytes\":{SIZE}}}\n");
    let all: Vec<String> = (0..8).map(|i| format!("\"GPU{i}\"")).collect();
    let cluster = hgx();
    let trace = read_trace(&line(&all.join(",")), &cluster).unwrap();
    let (document, outcome) = simulate(&cluster, &Job::Trace("t".to_owned(), Box::new(trace)), false).unwrap();
    close(document.points[0].time, alone(8).0);
    close(outcome.bytes, 14.0 * SIZE as f64);
    assert!(document.estimate.unwrap().because.contains("library"));
    for (ranks, expected) in
        [("\"GPU0\",\"GPU0\"", "each named once"), ("", "each named once"), ("\"GPU9\"", "no node 'GPU9'")]
    {
        let message = read_trace(&line(ranks), &cluster).unwrap_err().to_string();
        assert!(message.contains("line 1") && message.contains(expected), "{message}");
    }
}

#[test]
fn all_to_all_goes_as_fast_as_its_paths() {
    let act = Act::Collective { collective: Collective::AllToAll, group: 0, bytes: SIZE, took: None };
    let got = summary(&joined(8, &[&[0, 1, 2, 3, 4, 5, 6, 7]], &[act], &[]));
    let cluster = hgx();
    let job = Job::Workload("all-to-all".parse().unwrap(), vec![Bytes(SIZE)]);
    let played = simulate(&cluster, &job, false).unwrap().0.points[0].time;
    assert!((got.simulated.time / played - 1.0).abs() < 1e-3, "{} for {played}", got.simulated.time);
    assert_eq!(got.collectives[0].recorded, None);
}

#[test]
fn groups_over_nodes_use_their_own_adapters() {
    let wanted = "rail".parse().unwrap();
    let us = peerlane_machine::units::Seconds::from_us(0.3);
    let cluster = Cluster::of(system("hgx-h200").unwrap().unwrap(), 2, &wanted, None, us).unwrap();
    let time = |groups: &[&[u32]]| {
        let acts: Vec<Act> = (0..groups.len() as u32).map(all_reduce).collect();
        let trace = Recorded::of(&joined(16, groups, &acts, &[]), &cluster, 1.0).unwrap();
        simulate(&cluster, &Job::Trace("t".to_owned(), Box::new(trace)), false).unwrap().0.points[0].time
    };
    let one = time(&[&[0, 8]]);
    // 64 MiB through one adapter of 50 GB/s
    assert!(one > SIZE as f64 / 50e9 && one < 2.0 * SIZE as f64 / 50e9, "{one}");
    close(time(&[&[0, 8], &[1, 9], &[2, 10]]), one);
    assert!(time(&[&[0, 8], &[0, 8]]) > 1.5 * one);
}

#[test]
fn what_does_not_fit_is_refused() {
    let cluster = hgx();
    let of = |ranks, compute| Recorded::of(&joined(ranks, &[], &[], &[]), &cluster, compute).unwrap_err().to_string();
    assert!(of(9, 1.0).contains("has 9 ranks, and hgx-h200 has 8 GPUs"));
    assert!(of(2, 0.0).contains("must be above 0") && of(2, f64::NAN).contains("must be above 0"));
}

#[test]
fn an_all_to_all_is_that_of_a_workload_alone() {
    // machines whose GPUs all reach each other, and others where the library does without some of the peer access
    for name in ["hgx-h200", "exxact-devbox", "exxact-txr550", "quong", "gigabyte-g292"] {
        let Some(Ok(node)) = system(name) else { continue };
        let cluster = Cluster::single(node);
        let ranks = cluster.places().len();
        let everyone: Vec<u32> = (0..ranks as u32).collect();
        let act = Act::Collective { collective: Collective::AllToAll, group: 0, bytes: SIZE, took: None };
        let trace = Recorded::of(&joined(ranks, &[&everyone], &[act], &[]), &cluster, 1.0).unwrap();
        let traced = simulate(&cluster, &Job::Trace("t".to_owned(), Box::new(trace)), false).unwrap().0;
        let alone = Job::Workload("all-to-all".parse().unwrap(), vec![Bytes(SIZE)]);
        let alone = simulate(&cluster, &alone, false).unwrap().0.points[0].time;
        let ratio = traced.points[0].time / alone;
        assert!((ratio - 1.0).abs() < 0.005, "{name}: {ratio} of {alone} s");
    }
}
