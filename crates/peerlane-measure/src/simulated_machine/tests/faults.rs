//! Each fault changes what it should, and nothing else.

use super::*;
use peerlane_machine::exchange::Exchange;
use peerlane_machine::halo::Halo;
use peerlane_machine::transfer::{NicEnd, Rdma};

/// All ordered pairs of four GPUs, alone, by copy engine, and each with the host.
fn ways() -> Vec<Transfer> {
    let name = |i: usize| format!("GPU{i}");
    let pairs = (0..4).flat_map(|a| (0..4).filter(move |b| *b != a).map(move |b| copy(&name(a), &name(b))));
    pairs.chain((0..4).map(|i| copy("host", &name(i)))).chain((0..4).map(|i| copy(&name(i), "host"))).collect()
}

/// Checks that a fault changes the ways that it should by a factor, and no other.
#[track_caller]
fn changes(fault: Fault, touched: impl Fn(&Transfer) -> bool, factor: f64) {
    let machine = four_h200();
    let mut count = 0;
    for way in ways() {
        let (before, after) =
            (one(&machine, &[], way.clone()), one(&machine, std::slice::from_ref(&fault), way.clone()));
        if touched(&way) {
            count += 1;
            assert!((after / before / factor - 1.0).abs() < 0.01, "{way}: {before} became {after}");
        } else {
            assert_eq!(before, after, "{way}");
        }
    }
    assert!(count > 0 && count < ways().len());
}

#[test]
fn a_narrow_link_slows_what_goes_through_it() {
    let narrow = Fault::Width { link: pair("rc0", "GPU2"), width: "x4".parse().unwrap() };
    changes(
        narrow,
        |t| t.source == "host" && t.destination == "GPU2" || t.source == "GPU2" && t.destination == "host",
        0.25,
    );
    let slower = Fault::Width { link: pair("GPU1", "rc0"), width: "4.0 x16".parse().unwrap() };
    changes(slower, |t| t.gpus().eq(["GPU1"]), 0.5);
}

#[test]
fn bricks_that_are_down_slow_a_gpu_both_ways() {
    let down = Fault::Bricks { link: pair("GPU3", "nvswitch"), bricks: 9 };
    changes(down, |t| t.gpus().count() == 2 && t.gpus().any(|g| g == "GPU3"), 0.5);
}

#[test]
fn a_slow_direction_is_slow_one_way() {
    let of_pair = Fault::Slow { from: "GPU0".to_owned(), to: "GPU1".to_owned(), factor: 0.5 };
    changes(of_pair.clone(), |t| t.source == "GPU0" && t.destination == "GPU1", 0.5);
    let of_link = Fault::Slow { from: "nvswitch".to_owned(), to: "GPU1".to_owned(), factor: 0.5 };
    changes(of_link, |t| t.gpus().count() == 2 && t.destination == "GPU1", 0.5);
    let of_host = Fault::Slow { from: "rc0".to_owned(), to: "GPU1".to_owned(), factor: 0.25 };
    changes(of_host, |t| t.source == "host" && t.destination == "GPU1", 0.25);
    // what it leaves goes to the others that share its source
    let machine = four_h200();
    let set = [copy("GPU0", "GPU1"), copy("GPU0", "GPU2")];
    let very = Fault::Slow { from: "GPU0".to_owned(), to: "GPU1".to_owned(), factor: 0.1 };
    let got = rates(&machine, &[very], &set);
    near(got[0], 39.6, 0.01);
    near(got[1], 396.13 - 39.6, 0.01);
    // through host memory it is not the same way
    assert_eq!(one(&machine, &[of_pair], driver("GPU0", "GPU1")), one(&machine, &[], driver("GPU0", "GPU1")));
}

#[test]
fn without_peer_access_a_pair_has_no_direct_way() {
    let machine = four_h200();
    let off = Fault::PeerOff { pair: pair("GPU0", "GPU1") };
    for way in ways() {
        let got = ask(&machine, &quiet(std::slice::from_ref(&off)), &moving(std::slice::from_ref(&way)));
        match got {
            Err(failure) => {
                assert!(way.gpus().eq(["GPU0", "GPU1"]) || way.gpus().eq(["GPU1", "GPU0"]), "{way}");
                assert!(failure.message.contains("no peer-to-peer"), "{}", failure.message);
            }
            Ok(got) => assert_eq!(got[0] / 1e9, one(&machine, &[], way)),
        }
    }
    let through = driver("GPU0", "GPU1");
    assert_eq!(one(&machine, &[off], through.clone()), one(&machine, &[], through));
}

#[test]
fn a_throttled_gpu_slows_what_it_drives_and_says_so() {
    let hot = Fault::Throttle { gpu: "GPU1".to_owned(), factor: 0.7 };
    changes(hot.clone(), |t| t.driver() == "GPU1", 0.7);
    let machine = four_h200();
    let loads = step(Work::Loads { gpu: "GPU1".to_owned(), memory: "GPU0".to_owned() }, SMALL);
    near(ask(&machine, &quiet(std::slice::from_ref(&hot)), &loads).unwrap()[0] * 1e9, 827.0 / 0.7, 1e-9);
    let states = virtual_machine(&machine, &quiet(&[hot])).states();
    let reasons: Vec<_> = states.iter().map(|s| (s.gpu.as_str(), s.clock_event_reasons.len())).collect();
    assert_eq!(reasons, [("GPU0", 0), ("GPU1", 1), ("GPU2", 0), ("GPU3", 0)]);
    let named = GpuState { gpu: "GPU0".to_owned(), ..GpuState::default() };
    assert_eq!(states[0], named, "nothing is made up");
}

#[test]
fn a_corrupt_pair_is_told_by_its_content_alone() {
    let machine = four_h200();
    let corrupt = Fault::Corrupt { pair: pair("GPU1", "GPU2") };
    let mut executor = virtual_machine(&machine, &quiet(std::slice::from_ref(&corrupt)));
    for way in ways().into_iter().chain([driver("GPU1", "GPU2")]) {
        let rate = first(&mut executor, &[&moving(std::slice::from_ref(&way))], 0).unwrap()[0][0] / 1e9;
        assert_eq!(rate, one(&machine, &[], way.clone()));
        let verdict = executor.verify().unwrap().remove(0);
        let direct = way.via == Via::Direct && way.gpus().count() == 2;
        let bad = direct && way.gpus().all(|g| g == "GPU1" || g == "GPU2");
        assert_eq!(matches!(verdict, Verdict::Corrupt(_)), bad, "{way}: {verdict:?}");
    }
    let gpus: Vec<String> = (0..4).map(|i| format!("GPU{i}")).collect();
    let ring = step(Work::Collective { operation: Collective::AllReduce, gpus }, LARGE);
    first(&mut executor, &[&ring, &moving(&[copy("GPU0", "GPU3")])], 0).unwrap();
    let verdicts = executor.verify().unwrap();
    assert!(
        matches!(&verdicts[0], Verdict::Corrupt(why) if why.contains("between GPU1 and GPU2: 1 of 268435456 words"))
    );
    assert_eq!(verdicts[1], Verdict::Intact);
}

#[test]
fn a_lost_gpu_ends_the_executor_and_is_gone_for_the_next() {
    let machine = four_h200();
    let lost = quiet(&[Fault::Lost { gpu: "GPU2".to_owned(), after: 2 }]);
    let (with, without) = (moving(&[copy("GPU2", "GPU0")]), moving(&[copy("GPU0", "GPU1")]));
    let mut executor = virtual_machine(&machine, &lost);
    let method = Method::default();
    first(&mut executor, &[&with], 0).unwrap();
    // allocating anew is no further step
    first(&mut executor, &[&with], 1).unwrap();
    first(&mut executor, &[&with], 0).unwrap();
    first(&mut executor, &[&without], 0).unwrap();
    executor.prepare(&[&with], &method, 0).unwrap();
    let failure = executor.sample(1).unwrap_err();
    assert!(failure.fatal && failure.kind == FlagKind::Failed && failure.message.contains("GPU2"), "{failure:?}");
    assert_eq!(executor.prepare(&[&without], &method, 0).unwrap_err(), failure);
    assert_eq!(executor.verify().unwrap_err(), failure);
    let mut next = virtual_machine(&machine, &lost).taking_over(4);
    let failure = next.prepare(&[&with], &method, 0).unwrap_err();
    assert!(!failure.fatal && failure.kind == FlagKind::Failed && failure.message.contains("GPU2"), "{failure:?}");
    first(&mut next, &[&without], 0).unwrap();
    assert_eq!(next.states().len(), 3);
    // one that takes over before that loses it in its turn
    let mut early = virtual_machine(&machine, &lost).taking_over(2);
    early.prepare(&[&with], &method, 0).unwrap();
    assert!(early.sample(1).unwrap_err().fatal);
}

#[test]
fn a_bimodal_gpu_is_slow_in_every_second_allocation_among_others() {
    let machine = four_h200();
    let settings = quiet(&[Fault::Bimodal { gpu: "GPU1".to_owned(), factor: 0.9 }]);
    let mut executor = virtual_machine(&machine, &settings);
    let set = moving(&[copy("GPU0", "GPU1"), copy("GPU2", "GPU3")]);
    let mut of = |step: &Step, allocation| first(&mut executor, &[step], allocation).unwrap().remove(0);
    let (even, odd) = (of(&set, 0), of(&set, 1));
    near(odd[0], 0.9 * even[0], 1e-9);
    assert_eq!(odd[1], even[1]);
    assert_eq!(of(&set, 2), even);
    let alone = moving(&[copy("GPU0", "GPU1")]);
    assert_eq!(of(&alone, 1), of(&alone, 0));
}

#[test]
fn a_cold_gpu_warms_up_anew_in_each_step() {
    let machine = four_h200();
    let settings = quiet(&[Fault::Cold { gpu: "GPU0".to_owned(), factor: 0.8, samples: 10 }]);
    let mut executor = virtual_machine(&machine, &settings);
    let method = Method::default();
    for _ in 0..2 {
        executor.prepare(&[&moving(&[copy("GPU0", "GPU1")])], &method, 0).unwrap();
        let mut samples = executor.sample(4).unwrap().remove(0);
        samples.extend(executor.sample(8).unwrap().remove(0));
        let warm = samples[11][0];
        near(samples[0][0], 0.8 * warm, 1e-9);
        near(samples[5][0], 0.9 * warm, 1e-9);
        assert_eq!(samples[10][0], warm);
        assert!(samples[9][0] < warm);
    }
    executor.prepare(&[&moving(&[copy("GPU2", "GPU1")])], &method, 0).unwrap();
    let samples = executor.sample(2).unwrap().remove(0);
    assert_eq!(samples[0], samples[1]);
}

#[test]
fn a_hung_pair_never_returns_and_others_do() {
    let machine = four_h200();
    let settings = quiet(&[Fault::Hang { pair: pair("GPU0", "GPU1") }]);
    let (done, seen) = std::sync::mpsc::channel();
    let hung = settings.clone();
    std::thread::spawn(move || {
        let machine = four_h200();
        let mut executor = virtual_machine(&machine, &hung);
        done.send("begun").unwrap();
        let _ = first(&mut executor, &[&moving(&[copy("GPU1", "GPU0")])], 0);
        done.send("ended").unwrap();
    });
    assert_eq!(seen.recv(), Ok("begun"));
    assert!(seen.recv_timeout(Duration::from_millis(300)).is_err());
    for way in [copy("GPU0", "GPU2"), copy("host", "GPU1"), driver("GPU0", "GPU1")] {
        assert!(ask(&machine, &settings, &moving(&[way])).is_ok());
    }
}

#[test]
fn a_captured_machine_with_a_narrow_link_is_narrow_and_not_idle() {
    let mut machine = four_h200();
    machine.kind = peerlane_machine::machine::MachineKind::Captured;
    let slower = Fault::Width { link: pair("rc0", "GPU0"), width: "1.0 x16".parse().unwrap() };
    let (before, after) = (one(&machine, &[], copy("host", "GPU0")), one(&machine, &[slower], copy("host", "GPU0")));
    assert!(after < before / 10.0, "{after}");
}

#[test]
fn faults_that_name_nothing_change_nothing() {
    let machine = four_h200();
    let faults = [
        Fault::Width { link: pair("GPU0", "plx9"), width: "3.0 x1".parse().unwrap() },
        Fault::Bricks { link: pair("GPU0", "GPU1"), bricks: 1 },
        Fault::PeerOff { pair: pair("GPU0", "GPU9") },
        Fault::Slow { from: "GPU9".to_owned(), to: "GPU0".to_owned(), factor: 0.5 },
    ];
    for way in ways() {
        assert_eq!(one(&machine, &faults, way.clone()), one(&machine, &[], way));
    }
}

#[test]
fn a_slow_pair_slows_the_exchanges_that_cross_it() {
    let machine = four_h200();
    let time = |faults: &[Fault], parts: [u32; 3], exchange| {
        let gpus = (0..parts.iter().product()).map(|i| format!("GPU{i}")).collect();
        let work = Work::Halo(Halo { gpus, parts, face: Halo::MOST, exchange });
        ask(&machine, &quiet(faults), &step(work, LARGE)).map(|sample| sample[0])
    };
    let (ring_of_two, ring, square) = ([2, 1, 1], [4, 1, 1], [2, 2, 1]);
    for exchange in [Exchange::Stores, Exchange::Copies] {
        let share =
            |fault: Fault, parts| time(&[fault], parts, exchange).unwrap() / time(&[], parts, exchange).unwrap();
        let slow = |to: &str| Fault::Slow { from: "GPU0".to_owned(), to: to.to_owned(), factor: 0.25 };
        // a quarter is left of what both faces of two GPUs share, and where another neighbour gets half of a GPU's link anyway, half
        near(share(slow("GPU1"), ring_of_two), 4.0, 0.03);
        near(share(slow("GPU1"), ring), 2.0, 0.03);
        near(share(slow("GPU1"), square), 2.0, 0.03);
        // the square's GPU0 has no face for GPU3, and the ring's none for GPU2
        near(share(slow("GPU3"), square), 1.0, 1e-9);
        near(share(slow("GPU2"), ring), 1.0, 1e-9);
        near(share(Fault::Bricks { link: pair("GPU1", "nvswitch"), bricks: 9 }, square), 2.0, 0.03);
        near(share(Fault::Throttle { gpu: "GPU1".to_owned(), factor: 0.5 }, ring), 2.0, 0.03);
        let off = Fault::PeerOff { pair: pair("GPU0", "GPU1") };
        assert!(time(&[off], ring_of_two, exchange).unwrap_err().message.contains("no peer-to-peer"));
    }
    let staged = |fault: Fault| time(&[fault], square, Exchange::Staged).unwrap();
    let free = time(&[], square, Exchange::Staged).unwrap();
    near(staged(Fault::Slow { from: "GPU0".to_owned(), to: "GPU1".to_owned(), factor: 0.25 }), free, 1e-9);
    // four lanes of 16, where the host's memory bound all GPUs' copies at once
    let narrow = staged(Fault::Width { link: pair("rc0", "GPU2"), width: "x4".parse().unwrap() }) / free;
    assert!(narrow > 3.0 && narrow < 4.0, "{narrow}");
}

#[test]
fn a_corrupt_pair_corrupts_the_exchanges_that_cross_it() {
    let machine = four_h200();
    let gpus: Vec<String> = (0..4).map(|i| format!("GPU{i}")).collect();
    let corrupt = |a: &str, b: &str, exchange| {
        let planted = quiet(&[Fault::Corrupt { pair: pair(a, b) }]);
        let halo = Halo { gpus: gpus.clone(), parts: [2, 2, 1], face: Bytes::from_mib(1), exchange };
        let mut executor = virtual_machine(&machine, &planted);
        executor.prepare(&[&step(Work::Halo(halo), LARGE)], &Method::default(), 0).unwrap();
        executor.verify().unwrap() != [Verdict::Intact]
    };
    assert!(corrupt("GPU1", "GPU3", Exchange::Stores));
    assert!(!corrupt("GPU1", "GPU2", Exchange::Stores));
    assert!(!corrupt("GPU1", "GPU3", Exchange::Staged));
}

/// RDMA from NIC to NIC of hpcac-tessa.
fn rdma(from: &str, to: &str) -> Step {
    let end = |nic: &str| NicEnd { nic: nic.to_owned(), memory: "host".to_owned() };
    let work = Work::Rdma(Rdma::of_host(end(from), end(to), Operation::Write));
    Step { test: Test::Nic, work, size: Size::Exactly(Bytes::from_mib(1)) }
}

/// RDMA of hpcac-tessa with a GPU's memory.
fn with_gpu(nic: &str, to_gpu: bool, via: Via) -> Step {
    let end = |memory: &str| NicEnd { nic: nic.to_owned(), memory: memory.to_owned() };
    let (from, to) = if to_gpu { (end("host0"), end("GPU1")) } else { (end("GPU1"), end("host0")) };
    let work = Work::Rdma(Rdma { from, to, op: Operation::Write, via });
    Step { test: Test::NicGpu, work, size: Size::Exactly(Bytes::from_mib(1)) }
}

#[test]
fn gpu_memory_through_nics_answers_by_the_model_and_by_its_faults() {
    let machine = system("hpcac-tessa").unwrap().unwrap();
    let (direct, staged) = (Via::Direct, Via::Pipeline);
    let rate = |faults: &[Fault], step: &Step| ask(&machine, &quiet(faults), step).unwrap()[0];
    let find = |name: &str| machine.fabric.find(name).unwrap();
    let model = Model::new(&machine, Parts::embedded());
    let all = [(false, direct), (true, direct), (false, staged), (true, staged)];
    for nic in ["mlx5_0", "mlx5_2"] {
        for (to_gpu, via) in all {
            let of = peerlane_model::model::rdma::with_gpu(&model, find("GPU1"), find(nic), to_gpu, via == staged);
            assert_eq!(rate(&[], &with_gpu(nic, to_gpu, via)), of.unwrap().0.bytes_per_second());
        }
    }
    let share = |faults: &[Fault]| {
        all.map(|(to_gpu, via)| {
            rate(faults, &with_gpu("mlx5_2", to_gpu, via)) / rate(&[], &with_gpu("mlx5_2", to_gpu, via))
        })
    };
    let slow = |from: &str, to: &str| [Fault::Slow { from: from.to_owned(), to: to.to_owned(), factor: 0.5 }];
    // what leaves the GPU, and what comes to it
    assert_eq!(share(&slow("GPU1", "plx0")), [0.5, 1.0, 0.5, 1.0]);
    assert_eq!(share(&slow("plx0", "GPU1")), [1.0, 0.5, 1.0, 0.5]);
    // between these two alone, whatever carries it
    assert_eq!(share(&slow("GPU1", "mlx5_2")), [0.5, 1.0, 1.0, 1.0]);

    let off = [Fault::PeerOff { pair: pair("mlx5_2", "GPU1") }];
    let refused = ask(&machine, &quiet(&off), &with_gpu("mlx5_2", false, direct)).unwrap_err();
    assert_eq!(refused.kind, FlagKind::NotApplicable);
    assert!(refused.message.starts_with("no GPU memory for mlx5_2: "), "{}", refused.message);
    assert_eq!(rate(&off, &with_gpu("mlx5_2", false, staged)), rate(&[], &with_gpu("mlx5_2", false, staged)));
    assert_eq!(rate(&off, &with_gpu("mlx5_0", true, direct)), rate(&[], &with_gpu("mlx5_0", true, direct)));
    let verdict = |step: &Step| {
        let planted = quiet(&[Fault::Corrupt { pair: pair("GPU1", "mlx5_2") }]);
        let mut machine = virtual_machine(&machine, &planted);
        first(&mut machine, &[step], 0).unwrap();
        machine.verify().unwrap().remove(0)
    };
    assert!(matches!(verdict(&with_gpu("mlx5_2", true, direct)), Verdict::Corrupt(_)));
    assert_eq!(verdict(&with_gpu("mlx5_2", true, staged)), Verdict::Intact);
}

#[test]
fn nics_answer_by_the_model_and_by_their_faults() {
    let machine = system("hpcac-tessa").unwrap().unwrap();
    let rate = |faults: &[Fault], from: &str, to: &str| ask(&machine, &quiet(faults), &rdma(from, to)).unwrap()[0];
    let find = |name: &str| machine.fabric.find(name).unwrap();
    let end = |nic: &str| [machine.fabric.nearest_host(find(nic)).unwrap(), find(nic)];
    let model = Model::new(&machine, Parts::embedded());
    for (from, to) in [("mlx5_0", "mlx5_0"), ("mlx5_0", "mlx5_2"), ("mlx5_3", "mlx5_1")] {
        let (expected, _) = peerlane_model::model::rdma::between(&model, end(from), end(to)).unwrap();
        assert_eq!(rate(&[], from, to), expected.bytes_per_second());
    }
    let slow = |from: &str, to: &str| Fault::Slow { from: from.to_owned(), to: to.to_owned(), factor: 0.5 };
    // beyond the adapters: only this way, and no loopback
    let path = [slow("mlx5_0", "mlx5_1")];
    let share = |faults: &[Fault], from: &str, to: &str| rate(faults, from, to) / rate(&[], from, to);
    let all = [("mlx5_0", "mlx5_1"), ("mlx5_1", "mlx5_0"), ("mlx5_0", "mlx5_0"), ("mlx5_1", "mlx5_1")];
    assert_eq!(all.map(|(a, b)| share(&path, a, b)), [0.5, 1.0, 1.0, 1.0]);
    // the adapter's link, towards the machine: what arrives there, and its loopback
    let (_, up) = machine.fabric.upstream(find("mlx5_1")).unwrap();
    let link = [slow("mlx5_1", &machine.fabric.node(up).name)];
    assert_eq!(all.map(|(a, b)| share(&link, a, b)), [0.5, 1.0, 1.0, 0.5]);

    let verdict = |faults: &[Fault], from: &str, to: &str| {
        let planted = quiet(faults);
        let mut machine = virtual_machine(&machine, &planted);
        let step = rdma(from, to);
        first(&mut machine, &[&step], 0).unwrap();
        machine.verify().unwrap().remove(0)
    };
    let corrupt = [Fault::Corrupt { pair: pair("mlx5_0", "mlx5_1") }];
    assert!(matches!(verdict(&corrupt, "mlx5_1", "mlx5_0"), Verdict::Corrupt(_)));
    assert_eq!(verdict(&corrupt, "mlx5_1", "mlx5_1"), Verdict::Intact);
    let unknown = ask(&machine, &quiet(&[]), &rdma("mlx5_0", "mlx5_9")).unwrap_err();
    assert_eq!((unknown.kind, unknown.message.as_str()), (FlagKind::NotApplicable, "hpcac-tessa has no mlx5_9"));
}
