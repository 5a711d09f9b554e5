//! What a simulated machine answers.

mod faults;
mod sizes;

use super::*;
use crate::plan::{Size, StreamKernel, Test};
use peerlane_machine::fault::NOISE;
use peerlane_machine::matrix::{Engine, Operation};
use peerlane_machine::transfer::{Collective, HostMemory, Transfer, Via};
use peerlane_model::expectation::expect_set;
use peerlane_read::catalogue::{read_system, system, system_names};

/// Answers without noise, so that differences are faults.
fn quiet(faults: &[Fault]) -> Planted {
    Planted { noise: 0.0, seed: 0, faults: faults.to_vec() }
}

fn four_h200() -> Machine {
    system("h200x4-vm").unwrap().unwrap()
}

fn virtual_machine(machine: &Machine, settings: &Planted) -> SimulatedMachine<'static> {
    SimulatedMachine::new(machine, Parts::embedded(), settings)
}

fn step(work: Work, size: Size) -> Step {
    Step { test: Test::Pairs, work, size }
}

const LARGE: Size = Size::Exactly(Bytes::from_mib(1024));
const SMALL: Size = Size::Exactly(Bytes(16));

fn moving(transfers: &[Transfer]) -> Step {
    step(Work::Transfers(transfers.to_vec()), LARGE)
}

fn copy(from: &str, to: &str) -> Transfer {
    Transfer::new(from, to)
}

fn kernel(from: &str, to: &str) -> Transfer {
    Transfer { engine: Engine::Sm, ..copy(from, to) }
}

fn driver(from: &str, to: &str) -> Transfer {
    Transfer { via: Via::Driver, ..copy(from, to) }
}

/// The first sample of each step, all at once.
fn first(executor: &mut SimulatedMachine, steps: &[&Step], allocation: usize) -> Result<Vec<Sample>, Failure> {
    executor.prepare(steps, &Method::default(), allocation)?;
    Ok(executor.sample(1)?.into_iter().map(|mut samples| samples.remove(0)).collect())
}

fn ask(machine: &Machine, settings: &Planted, step: &Step) -> Result<Sample, Failure> {
    first(&mut virtual_machine(machine, settings), &[step], 0).map(|mut all| all.remove(0))
}

/// The rate in GB/s, of several transfers of each.
fn rates(machine: &Machine, faults: &[Fault], transfers: &[Transfer]) -> Vec<f64> {
    ask(machine, &quiet(faults), &moving(transfers)).unwrap().iter().map(|v| v / 1e9).collect()
}

fn one(machine: &Machine, faults: &[Fault], transfer: Transfer) -> f64 {
    rates(machine, faults, &[transfer])[0]
}

#[track_caller]
fn near(got: f64, want: f64, share: f64) {
    assert!((got / want - 1.0).abs() <= share, "{got} is not {want}");
}

fn pair(a: &str, b: &str) -> [String; 2] {
    [a.to_owned(), b.to_owned()]
}

/// Everything that one may ask of a machine's GPUs.
fn everything(machine: &Machine) -> Vec<Step> {
    let names = |kind| machine.fabric.of_kind(kind).map(|id| machine.fabric.node(id).name.clone());
    let gpus: Vec<String> = names(NodeKind::Gpu).take(4).collect();
    let mut steps = Vec::new();
    let manners = [Engine::Ce, Engine::Sm].into_iter().flat_map(|e| [(e, Operation::Write), (e, Operation::Read)]);
    let manners: Vec<_> =
        manners.flat_map(|(e, op)| [Via::Direct, Via::Driver, Via::Pipeline].map(|v| (e, op, v))).collect();
    let memories = [HostMemory::Pinned, HostMemory::Pageable, HostMemory::ManagedFaults, HostMemory::ManagedPrefetch];
    for a in &gpus {
        for b in &gpus {
            for &(engine, op, via) in &manners {
                let transfer = Transfer { engine, op, via, ..copy(a, b) };
                steps.push(moving(std::slice::from_ref(&transfer)));
                steps.push(moving(&[transfer.clone(), transfer.reversed()]));
                steps.push(step(Work::SmallCopies(transfer), SMALL));
            }
            steps.push(step(Work::Loads { gpu: a.clone(), memory: b.clone() }, SMALL));
            steps.push(step(Work::Signals { a: a.clone(), b: b.clone() }, SMALL));
        }
        for memory in memories {
            for engine in [Engine::Ce, Engine::Sm] {
                let down = Transfer { memory, engine, ..copy("host", a) };
                steps.push(step(Work::Transfers(vec![down.reversed()]), Size::UpTo(Bytes::from_mib(64))));
                steps.push(moving(&[down.clone(), down.reversed()]));
                steps.push(step(Work::SmallCopies(down), SMALL));
            }
        }
        steps.push(step(Work::Loads { gpu: a.clone(), memory: "host".to_owned() }, SMALL));
    }
    let all_but = |a: &String| gpus.iter().filter(|b| *b != a).map(|b| copy(a, b)).collect::<Vec<_>>();
    steps.extend(gpus.iter().map(|a| moving(&all_but(a))));
    steps.push(moving(&gpus.iter().map(|a| copy("host", a)).collect::<Vec<_>>()));
    steps.extend(Collective::ALL.map(|operation| step(Work::Collective { operation, gpus: gpus.clone() }, LARGE)));
    for node in names(NodeKind::Host).chain(["host".to_owned(), "host99".to_owned()]) {
        let kernels = [StreamKernel::Read, StreamKernel::Copy, StreamKernel::Triad];
        steps.extend(kernels.map(|kernel| step(Work::HostMemory { node: node.clone(), kernel }, LARGE)));
    }
    steps.push(moving(&[copy("GPU0", "GPU99")]));
    steps.push(moving(&[copy("host", "host")]));
    steps.push(moving(&[]));
    steps
}

/// The raw rate of the narrowest link between two nodes, in bytes a second, where all are known.
fn raw_rate(machine: &Machine, transfer: &Transfer) -> Option<f64> {
    let model = Model::new(machine, Parts::embedded());
    let resolved = peerlane_model::expectation::resolve(&machine.fabric, transfer)?;
    let path = machine.fabric.path(resolved.source, resolved.destination)?;
    let raw = |link| {
        let of_link = model.resources.iter().filter(move |r| r.link == Some(link));
        of_link.map(|r| r.capacity.bytes_per_second()).reduce(f64::min)
    };
    path.hops.iter().filter_map(|hop| raw(hop.link)).reduce(f64::min)
}

#[test]
fn every_catalogue_system_answers_everything_and_nothing_above_a_link() {
    for name in system_names() {
        let machine = system(name).unwrap().unwrap();
        let settings = Planted::default();
        let most = (settings.noise * peerlane_machine::random::MOST_DEVIATION).exp();
        let (mut answered, mut refused) = (0, 0);
        for step in everything(&machine) {
            let values = match ask(&machine, &settings, &step) {
                Ok(values) => values,
                Err(failure) => {
                    assert!(failure.kind == FlagKind::NotApplicable && !failure.fatal, "{name}: {failure:?}");
                    assert!(failure.message.len() > 10, "{name}: {failure:?}");
                    refused += 1;
                    continue;
                }
            };
            answered += 1;
            assert!(
                !values.is_empty() && values.iter().all(|v| v.is_normal() && *v > 0.0),
                "{name}: {step:?} {values:?}"
            );
            let Work::Transfers(transfers) = &step.work else { continue };
            assert_eq!(values.len(), transfers.len());
            for (transfer, value) in transfers.iter().zip(&values) {
                let Some(raw) = raw_rate(&machine, transfer).filter(|_| transfer.via == Via::Direct) else { continue };
                assert!(*value <= raw * most, "{name}: {transfer} {value} of {raw}");
            }
        }
        assert!(answered > 10 && refused > 10, "{name}: {answered} {refused}");
    }
}

#[test]
fn it_answers_by_the_model_less_the_start_up() {
    let machine = four_h200();
    let model = Model::new(&machine, Parts::embedded());
    let sets = [
        vec![copy("GPU0", "GPU1")],
        vec![copy("GPU0", "GPU1"), copy("GPU1", "GPU0")],
        vec![kernel("GPU2", "GPU3")],
        vec![copy("GPU0", "GPU0")],
        vec![driver("GPU0", "GPU1")],
        (0..4).map(|i| copy("host", &format!("GPU{i}"))).collect(),
        (1..4).map(|i| copy("GPU0", &format!("GPU{i}"))).collect(),
    ];
    for set in sets {
        let expected = expect_set(&model, &set).unwrap();
        for (got, answer) in rates(&machine, &[], &set).into_iter().zip(expected) {
            // 1.1 of the 2711 µs that 1 GiB takes at 396 GB/s, and 1.83 of the 541 that it takes within a GPU
            near(got, answer.rate.gb(), 0.0035);
            assert!(got < answer.rate.gb());
        }
    }
}

#[test]
fn messages_fill_a_sample_and_the_clock_goes_on_by_it() {
    let machine = four_h200();
    let mut executor = virtual_machine(&machine, &quiet(&[]));
    let fitted = step(Work::Transfers(vec![copy("host", "GPU0")]), Size::UpTo(Bytes::from_mib(1024)));
    let sizes = executor.prepare(&[&fitted], &Method::default(), 0).unwrap();
    // 55.1 MB would last for just a millisecond
    assert_eq!(sizes, [Bytes::from_mib(32)]);
    executor.sample(10).unwrap();
    near(executor.now().seconds(), 10e-3, 0.01);
    let bounded = step(Work::Transfers(vec![copy("GPU0", "GPU1")]), Size::UpTo(Bytes::from_mib(256)));
    assert_eq!(executor.prepare(&[&bounded], &Method::default(), 0).unwrap(), [Bytes::from_mib(256)]);
    let large = moving(&[copy("host", "GPU0")]);
    let before = executor.now().seconds();
    executor.prepare(&[&large], &Method::default(), 0).unwrap();
    executor.sample(2).unwrap();
    near(executor.now().seconds() - before, 2.0 * 1.0737e9 / 55.1e9, 0.01);
}

#[test]
fn rounds_share_the_machine() {
    let machine = four_h200();
    let (a, b) = (moving(&[copy("GPU0", "GPU1")]), moving(&[copy("GPU0", "GPU2")]));
    let apart = moving(&[copy("GPU2", "GPU3")]);
    let mut executor = virtual_machine(&machine, &quiet(&[]));
    let alone = first(&mut executor, &[&a], 0).unwrap()[0][0];
    let beside = first(&mut executor, &[&a, &apart], 0).unwrap();
    assert_eq!(beside[0][0], alone);
    let sharing = first(&mut executor, &[&a, &b], 0).unwrap();
    near(sharing[0][0], alone / 2.0, 0.01);
    near(sharing[1][0], alone / 2.0, 0.01);
}

#[test]
fn latencies_are_answered_where_they_were_measured() {
    let machine = four_h200();
    let loads = |memory: &str| step(Work::Loads { gpu: "GPU1".to_owned(), memory: memory.to_owned() }, SMALL);
    let ns = |memory| ask(&machine, &quiet(&[]), &loads(memory)).map(|s| s[0] * 1e9);
    near(ns("GPU0").unwrap(), 827.0, 1e-9);
    near(ns("host").unwrap(), 1171.0, 1e-9);
    assert!(ns("GPU1").unwrap_err().message.contains("does not predict how long a load from GPU1"));
    let small = |machine: &Machine, transfer| ask(machine, &quiet(&[]), &step(Work::SmallCopies(transfer), SMALL));
    let us: Vec<f64> = small(&machine, copy("GPU0", "GPU1")).unwrap().iter().map(|s| s * 1e6).collect();
    near(us[0], 2.26, 1e-3);
    near(us[1], 1.29, 1e-9);
    let staged = small(&machine, driver("GPU0", "GPU1")).unwrap();
    assert!(staged[0] > 16.55e-6 && staged[0] < 17e-6, "{staged:?}");
    let host = small(&machine, copy("host", "GPU0")).unwrap();
    assert!(host[0] > 2.4e-6 && host[0] < 2.6e-6, "{host:?}");
    let old = system("exxact-devbox").unwrap().unwrap();
    near(small(&old, copy("GPU0", "GPU2")).unwrap()[0] * 1e6, 6.22, 1e-3);
    // loads from the host are predicted of any GPU, from a peer over PCIe of none
    let load = |memory: &str| step(Work::Loads { gpu: "GPU0".to_owned(), memory: memory.to_owned() }, SMALL);
    let model = Model::new(&old, Parts::embedded());
    let expected = model.load(old.fabric.find("GPU0").unwrap(), old.fabric.find("host0").unwrap()).unwrap();
    near(ask(&old, &quiet(&[]), &load("host")).unwrap()[0], expected.time.seconds(), 1e-9);
    assert!(ask(&old, &quiet(&[]), &load("GPU1")).is_err());
}

#[test]
fn a_ring_is_bound_by_its_slowest_link() {
    let machine = four_h200();
    let gpus: Vec<String> = (0..4).map(|i| format!("GPU{i}")).collect();
    let time = |faults: &[Fault], operation, size| {
        let work = Work::Collective { operation, gpus: gpus.clone() };
        ask(&machine, &quiet(faults), &step(work, Size::Exactly(Bytes(size)))).unwrap()[0]
    };
    near(time(&[], Collective::AllReduce, 8), 20.2e-6, 1e-3);
    // 354 GB/s were measured
    let bus = |faults: &[Fault]| 1.5 * f64::from(1 << 30) / time(faults, Collective::AllReduce, 1 << 30) / 1e9;
    near(bus(&[]), 366.0, 0.01);
    let narrow = Fault::Bricks { link: pair("GPU2", "nvswitch"), bricks: 9 };
    near(bus(&[narrow]), 183.0, 0.01);
    near(time(&[], Collective::AllToAll, 1 << 30), 0.75 * f64::from(1 << 30) / 366e9, 0.02);
}

#[test]
fn a_symmetric_machine_answers_alike_within_its_noise() {
    let machine = four_h200();
    let settings = Planted { seed: 3, ..Planted::default() };
    let mut executor = virtual_machine(&machine, &settings);
    let mut all = Vec::new();
    for (a, b) in [(0, 1), (1, 0), (2, 3), (3, 0)] {
        let step = moving(&[copy(&format!("GPU{a}"), &format!("GPU{b}"))]);
        executor.prepare(&[&step], &Method::default(), 0).unwrap();
        let samples: Vec<f64> = executor.sample(400).unwrap()[0].iter().map(|s| s[0]).collect();
        let mean = samples.iter().sum::<f64>() / 400.0;
        let deviation = (samples.iter().map(|s| (s / mean - 1.0).powi(2)).sum::<f64>() / 400.0).sqrt();
        near(deviation, NOISE, 0.15);
        all.push((mean, samples));
    }
    for (mean, samples) in &all[1..] {
        near(*mean, all[0].0, 4.0 * NOISE / 20.0);
        assert_ne!(samples, &all[0].1, "each way has its own noise");
    }
}

#[test]
fn the_same_seed_answers_the_same_whatever_was_asked_before() {
    let machine = four_h200();
    let (a, b) = (moving(&[copy("GPU0", "GPU1")]), moving(&[copy("GPU1", "GPU2"), copy("GPU2", "GPU1")]));
    let answer = |seed, before: &[&Step], allocation| {
        let mut executor = virtual_machine(&machine, &Planted { seed, ..Planted::default() });
        before.iter().for_each(|step| drop(first(&mut executor, &[step], 0)));
        first(&mut executor, &[&b], allocation).unwrap()
    };
    assert_eq!(answer(1, &[], 0), answer(1, &[&a, &b], 0));
    assert_ne!(answer(1, &[], 0), answer(2, &[], 0));
    assert_ne!(answer(1, &[], 0), answer(1, &[], 1));
}

#[test]
fn transfers_that_contend_for_a_memory_depend_on_where_theirs_lies() {
    let machine = four_h200();
    let means = |transfers: &[Transfer]| {
        let mut executor = virtual_machine(&machine, &Planted { noise: 0.01, ..Planted::default() });
        let step = moving(transfers);
        let mean = |allocation| {
            executor.prepare(&[&step], &Method::default(), allocation).unwrap();
            executor.sample(400).unwrap()[0].iter().map(|s| s[0]).sum::<f64>() / 400e9
        };
        (0..8).map(mean).collect::<Vec<f64>>()
    };
    let spread = |means: &[f64], expected: f64| {
        let (low, high) = means.iter().fold((f64::MAX, 0.0_f64), |(l, h), m| (l.min(*m), h.max(*m)));
        assert!(high < expected * 1.002, "none is better than it should be: {means:?}");
        (high - low) / expected
    };
    let set = [copy("GPU0", "GPU1"), copy("GPU0", "GPU2")];
    assert!(spread(&means(&set), rates(&machine, &[], &set)[0]) > 0.03);
    let apart = [copy("GPU0", "GPU1"), copy("GPU1", "GPU0")];
    assert!(spread(&means(&apart), rates(&machine, &[], &apart)[0]) < 0.004);
}

#[test]
fn what_the_model_does_not_know_is_refused_with_the_reason() {
    let machine = four_h200();
    let refusal = |step: Step| ask(&machine, &quiet(&[]), &step).unwrap_err();
    let memory = |memory| moving(&[Transfer { memory, ..copy("host", "GPU0") }]);
    let cases = [
        (memory(HostMemory::Pageable), "pageable"),
        (memory(HostMemory::ManagedFaults), "managed"),
        (moving(&[copy("GPU0", "GPU9")]), "h200x4-vm has no GPU9"),
        (moving(&[Transfer { via: Via::Pipeline, ..copy("GPU0", "host") }]), "staging is between two GPUs"),
        (moving(&[Transfer { engine: Engine::Sm, ..driver("GPU0", "GPU1") }]), "no kernel reaches"),
        (step(Work::Signals { a: "GPU0".to_owned(), b: "GPU1".to_owned() }, SMALL), "signal between GPU0 and GPU1"),
        (
            step(Work::Collective { operation: Collective::Broadcast, gpus: vec!["GPU0".to_owned()] }, SMALL),
            "between several GPUs",
        ),
        (step(Work::HostMemory { node: "GPU0".to_owned(), kernel: StreamKernel::Read }, SMALL), "of GPU0 is not known"),
    ];
    for (step, expected) in cases {
        let failure = refusal(step);
        assert!(failure.message.contains(expected), "{}", failure.message);
        assert_eq!((failure.kind, failure.fatal), (FlagKind::NotApplicable, false));
    }
    // sockets that forward nothing have no direct way; the driver's way is there
    let old = system("exxact-traditional").unwrap().unwrap();
    let failure = ask(&old, &quiet(&[]), &moving(&[copy("GPU0", "GPU2")])).unwrap_err();
    assert!(failure.message.contains("GPU0 → GPU2: no peer-to-peer across QPI"), "{}", failure.message);
    assert!(one(&old, &[], driver("GPU0", "GPU2")) > 1.0);
    let unknown = "name = \"u\"\n[nodes]\ncpu0 = { kind = \"cpu\" }\nGPU0 = { kind = \"gpu\" }\n\
                   [[links]]\nbetween = [\"cpu0\", \"GPU0\"]\npcie = \"3.0 x?\"\n";
    let unknown = read_system(unknown, "u").unwrap();
    let failure = ask(&unknown, &quiet(&[]), &moving(&[copy("host", "GPU0")])).unwrap_err();
    assert!(failure.message.contains("the PCIe width of GPU0's link is not known"), "{}", failure.message);
}
