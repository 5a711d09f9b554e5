use std::collections::BTreeMap;

use super::*;
use crate::plan::{Size, UsableNics, Work};
use peerlane_machine::fabric::{FabricBuilder, GpuLink, Link, LinkKind, Node, NodeKind};
use peerlane_machine::machine::MachineKind;
use peerlane_machine::transfer::Via;
use peerlane_read::catalogue;

fn system(name: &str) -> Machine {
    catalogue::system(name).unwrap().unwrap()
}

/// GPUs that an NVSwitch joins, all below one CPU.
fn switched(gpus: usize) -> Machine {
    let mut b = FabricBuilder::new();
    let cpu = b.node(Node::new("cpu0", NodeKind::Cpu));
    let host = b.node(Node::new("host0", NodeKind::Host));
    let switch = b.node(Node::new("nvswitch", NodeKind::NvSwitch));
    b.link(Link::new(host, cpu, LinkKind::OnDie));
    for i in 0..gpus {
        let gpu = b.node(Node::new(format!("GPU{i}"), NodeKind::Gpu));
        b.link(Link::new(cpu, gpu, LinkKind::pcie("5.0 x16".parse().unwrap())));
        b.link(Link::new(switch, gpu, LinkKind::Gpu(GpuLink::nvlink(Some(4), 18))));
    }
    Machine::new("switched", MachineKind::Design, b.build().unwrap())
}

fn plan(machine: &Machine, scope: Scope, tests: &[Test], pairs: &[&str]) -> Result<Plan, PlanError> {
    let pairs = pairs.iter().map(|text| text.to_string()).collect();
    Plan::of(machine, scope, &Selection { tests: tests.to_vec(), pairs, nics: None }, Method::default())
}

/// Steps and rounds of each family.
fn counts(plan: &Plan) -> BTreeMap<Test, (usize, usize)> {
    let mut counts: BTreeMap<Test, (usize, usize)> = BTreeMap::new();
    for round in &plan.rounds {
        let of = counts.entry(round[0].test).or_default();
        *of = (of.0 + round.len(), of.1 + 1);
    }
    counts
}

/// `GPU0→GPU1 GPU1→GPU0` of each step, in rounds.
fn ends(plan: &Plan) -> Vec<Vec<String>> {
    let step = |step: &crate::plan::Step| match &step.work {
        Work::Transfers(t) => t.iter().map(|t| format!("{}→{}", t.source, t.destination)).collect::<Vec<_>>().join(" "),
        other => format!("{other:?}"),
    };
    plan.rounds.iter().map(|round| round.iter().map(step).collect()).collect()
}

#[test]
fn small_copies_of_pairs_without_peer_access_go_through_host_memory() {
    let vias = |tests: &[Test]| {
        let plan = plan(&system("exxact-traditional"), Scope::Quick, tests, &[]).unwrap();
        let copies = plan.steps().filter(|step| step.test == Test::CopyLatency);
        let via = copies.map(|step| match &step.work {
            Work::SmallCopies(t) => t.via,
            other => panic!("{other:?}"),
        });
        let (direct, staged): (Vec<Via>, Vec<Via>) = via.partition(|via| *via == Via::Direct);
        (direct.len(), staged.len())
    };
    // two pairs on a socket each go directly, and eight ordered pairs cross
    assert_eq!(vias(&[Test::CopyLatency]), (12, 8));
    assert_eq!(vias(&[Test::CopyLatency, Test::Staged]), (12, 0), "that test has them");
}

#[test]
fn a_usual_plan_of_four_gpus() {
    let machine = system("h200x4-vm");
    let quick = plan(&machine, Scope::Quick, &[], &[]).unwrap();
    let expected = [
        (Test::Pairs, (12, 6)),
        (Test::PairsBoth, (6, 3)),
        // 12 one way, 6 both ways, 12 small copies
        (Test::Staged, (30, 30)),
        (Test::Host, (8, 8)),
        (Test::CopyLatency, (12, 12)),
    ];
    assert_eq!(counts(&quick), BTreeMap::from(expected));
    let usual = plan(&machine, Scope::Default, &[], &[]).unwrap();
    let expected = [
        (Test::Pairs, (48, 24)),
        (Test::PairsBoth, (24, 12)),
        (Test::Staged, (30, 30)),
        (Test::Host, (16, 16)),
        (Test::HostBoth, (8, 8)),
        (Test::Local, (8, 8)),
        (Test::OneToAll, (16, 16)),
        (Test::AllToOne, (16, 16)),
        (Test::AllHost, (6, 6)),
        (Test::LoadLatency, (16, 16)),
        (Test::SignalLatency, (6, 6)),
        (Test::CopyLatency, (20, 20)),
    ];
    assert_eq!(counts(&usual), BTreeMap::from(expected));
    assert!(usual.skipped.is_empty());
}

#[test]
fn in_full_everything_is_asked_once_but_managed_memory_and_nics() {
    let machine = system("h200x4-vm");
    let full = plan(&machine, Scope::Full, &[], &[]).unwrap();
    let asked = counts(&full);
    let absent: Vec<Test> = Test::ALL.into_iter().filter(|test| !asked.contains_key(test)).collect();
    assert_eq!(absent, [Test::Numa, Test::Managed, Test::Nic, Test::NicGpu]);
    assert_eq!(full.skipped.iter().map(|s| s.test).collect::<Vec<_>>(), [Test::Numa]);
    // shifts by 1, 2 and 3, and two swaps that are no shift; 15 sets four ways, single ones not mixed
    assert_eq!((asked[&Test::Permutations].0, asked[&Test::Subsets].0), (2 * 5, 15 * 4 - 4));
    // two GPUs, and a GPU with its host both ways, by two engines, at 28 sizes
    assert_eq!(asked[&Test::Sizes].0, 3 * 2 * 28);
    // two GPUs, and four in a row and in a square, by three methods, with faces of five sizes
    assert_eq!(asked[&Test::Halo], (3 * 3 * 5, 3 * 3 * 5));
    let steps: Vec<_> = full.steps().collect();
    let distinct: std::collections::HashSet<_> = steps.iter().collect();
    assert_eq!(distinct.len(), steps.len());
    let managed = plan(&machine, Scope::Full, &[Test::Managed], &[]).unwrap();
    assert_eq!(counts(&managed)[&Test::Managed].0, 4 * 2 * 2);
}

#[test]
fn families_come_in_their_order_whatever_the_user_writes() {
    let machine = system("h200x4-vm");
    let plan = plan(&machine, Scope::Full, &[Test::Host, Test::Staged, Test::Host], &[]).unwrap();
    let mut order: Vec<Test> = plan.steps().map(|s| s.test).collect();
    order.dedup();
    assert_eq!(order, [Test::Staged, Test::Host]);
    assert!(plan.steps().any(|s| matches!(&s.work, Work::Transfers(t) if t[0].via == Via::Pipeline)));
}

#[test]
fn pairs_with_nothing_in_common_share_a_round() {
    let ends = ends(&plan(&system("h200x4-vm"), Scope::Quick, &[Test::Pairs], &[]).unwrap());
    assert_eq!(ends.iter().map(Vec::len).collect::<Vec<_>>(), [2; 6]);
    assert_eq!(ends[0], ["GPU0→GPU3", "GPU1→GPU2"]);
    assert_eq!(ends[3], ["GPU3→GPU0", "GPU2→GPU1"]);
}

#[test]
fn pairs_that_meet_at_a_root_complex_do_not() {
    // two switches with two GPUs each below one root complex
    let machine = system("exxact-devbox");
    let rounds = ends(&plan(&machine, Scope::Quick, &[Test::PairsBoth], &[]).unwrap());
    let together: Vec<_> = rounds.iter().filter(|round| round.len() > 1).collect();
    assert_eq!(together, [&["GPU2→GPU3 GPU3→GPU2", "GPU0→GPU1 GPU1→GPU0"]]);
    assert_eq!(rounds.len(), 5);
}

#[test]
fn one_gpu_has_what_one_gpu_can_have() {
    let usual = plan(&switched(1), Scope::Default, &[], &[]).unwrap();
    let tests: Vec<Test> = counts(&usual).into_keys().collect();
    assert_eq!(tests, [Test::Host, Test::HostBoth, Test::Local, Test::LoadLatency, Test::CopyLatency]);
    let skipped: Vec<String> = usual.skipped.iter().map(|s| format!("{}: {}", s.test, s.why)).collect();
    assert_eq!(skipped[1], "pairs: it needs two GPUs, and there is one");
    assert_eq!(skipped.len(), 7);
}

#[test]
fn without_a_gpu_there_is_no_plan() {
    let machine = Machine::new("laptop", MachineKind::Captured, FabricBuilder::new().build().unwrap());
    let error = plan(&machine, Scope::Full, &[], &[]).unwrap_err();
    assert_eq!(error.to_string(), "laptop has no GPU: there is nothing to measure");
}

#[test]
fn plans_stay_bounded() {
    for (gpus, scope, most) in [(64, Scope::Default, 50_000), (65, Scope::Full, 20_000), (1024, Scope::Full, 100_000)] {
        let plan = plan(&switched(gpus), scope, &[], &[]).unwrap();
        assert!(plan.steps().count() < most, "{gpus}: {}", plan.steps().count());
        let transfers = |step: &crate::plan::Step| if let Work::Transfers(t) = &step.work { t.len() } else { 1 };
        let all: usize = plan.steps().map(transfers).sum();
        assert!(all < 10 * most, "{gpus}: {all} transfers");
        let pairs = counts(&plan)[&Test::Pairs];
        assert!(pairs.1 < 4 * 130, "{gpus}: {pairs:?}");
    }
}

#[test]
fn picked_pairs() {
    let machine = system("h200x4-vm");
    let tests = [Test::Pairs, Test::PairsBoth, Test::Host, Test::AllToOne];
    let of = |pairs: &[&str]| ends(&plan(&machine, Scope::Quick, &tests, pairs).unwrap()).concat();
    assert_eq!(of(&["GPU2-GPU0"]), ["GPU0→GPU2", "GPU2→GPU0", "GPU0→GPU2 GPU2→GPU0"]);
    for text in ["GPU2>gpu0", "GPU2→GPU0", "GPU2 -> GPU0"] {
        assert_eq!(of(&[text]), ["GPU2→GPU0"], "{text}");
    }
    assert_eq!(of(&["GPU1-host"]), ["host→GPU1", "GPU1→host"]);
    assert_eq!(of(&["GPU1>host, GPU2>host"]), ["GPU1→host", "GPU2→host"]);
    // its pairs, both ways, all to it, and the host
    assert_eq!(of(&["GPU3"]).len(), 6 + 3 + 1 + 2);
    let nothing = plan(&machine, Scope::Quick, &[Test::Host], &["GPU0-GPU1"]).unwrap();
    assert_eq!((nothing.rounds.len(), nothing.skipped[0].why.as_str()), (0, "--pairs leaves none of its steps"));
}

#[test]
fn picked_sets_are_those_of_picked_members() {
    let machine = system("h200x4-vm");
    let pairs = ["GPU0-host", "GPU3-host"];
    let subsets = ends(&plan(&machine, Scope::Full, &[Test::Subsets], &pairs).unwrap());
    assert_eq!(subsets.len(), 3 + 3 + 4);
    let rings = plan(&machine, Scope::Default, &[Test::Collectives], &["GPU0", "GPU1", "GPU2"]).unwrap();
    assert_eq!(rings.steps().count(), 60, "six at ten sizes");
    let few = plan(&machine, Scope::Default, &[Test::Collectives, Test::Memory], &["GPU0", "host"]).unwrap();
    assert_eq!(counts(&few).into_keys().collect::<Vec<_>>(), [Test::Memory]);
}

#[test]
fn what_is_written_wrong_is_told_with_what_is_there() {
    let machine = system("h200x4-vm");
    let error = |text: &str| plan(&machine, Scope::Default, &[], &[text]).unwrap_err().to_string();
    let there = "this machine has GPU0–GPU3 and host, host0";
    assert_eq!(error("GPU0-GPU9"), format!("--pairs GPU0-GPU9: there is no GPU9; {there}"));
    assert_eq!(error("gpu7>GPU1"), format!("--pairs gpu7>GPU1: there is no gpu7; {there}"));
    let write = "write GPU0-GPU1, GPU0>GPU1, GPU0-host or GPU0";
    assert_eq!(error("first,GPU1"), format!("--pairs first: {write}; {there}"));
    assert_eq!(error("cpu0"), format!("--pairs cpu0: {write}; {there}"));
    assert_eq!(error("GPU0→"), format!("--pairs GPU0→: {write}; {there}"));
}

#[test]
fn sizes_reach_from_8_bytes_to_1_gibibyte_at_any_depth() {
    let machine = system("h200x4-vm");
    for (scope, sizes) in [(Scope::Quick, 2), (Scope::Default, 10), (Scope::Full, 28)] {
        let plan = plan(&machine, scope, &[Test::Sizes], &["GPU0>GPU1"]).unwrap();
        let bytes: std::collections::BTreeSet<u64> = plan
            .steps()
            .map(|s| match s.size {
                Size::Exactly(b) | Size::UpTo(b) => b.0,
            })
            .collect();
        assert_eq!((bytes.len(), bytes.first(), bytes.last()), (sizes, Some(&8), Some(&(1 << 30))));
    }
}

#[test]
fn budgets_grow_with_the_pairs() {
    assert_eq!([1, 2, 3, 4].map(|gpus| Scope::Quick.method(gpus).budget.seconds()), [0.2, 0.2, 2.0, 2.0]);
    assert_eq!([2, 4].map(|gpus| Scope::Default.method(gpus).budget.seconds()), [2.0, 5.0]);
    assert_eq!(Scope::Default.method(8).budget, Seconds::new(20.0));
    assert_eq!(Scope::Full.method(1024).budget, Seconds::new(LONGEST_BUDGET));
}

#[test]
fn halo_exchanges_have_every_number_of_dimensions_with_several_parts_along_each() {
    let of = |machine: &Machine, scope, pairs: &[&str]| -> Vec<String> {
        let plan = plan(machine, scope, &[Test::Halo], pairs).unwrap();
        let halo = |step: &crate::plan::Step| match &step.work {
            Work::Halo(halo) => {
                assert_eq!((halo.problem(), step.size), (None, Size::Exactly(halo.face)));
                format!("{} {} {}", halo.decomposition(), halo.face, halo.exchange.name())
            }
            other => panic!("{other:?}"),
        };
        plan.steps().map(halo).collect()
    };
    let full = of(&switched(8), Scope::Full, &[]);
    let mut parts: Vec<&str> = full.iter().map(|text| text.split(' ').next().unwrap()).collect();
    parts.dedup();
    assert_eq!((parts, full.len()), (vec!["2", "4", "2x2", "8", "4x2", "2x2x2"], 6 * 15));
    assert_eq!(of(&switched(2), Scope::Quick, &[]), ["2 1 MiB stores", "2 1 MiB copies", "2 1 MiB staged"]);
    // of six GPUs the whole is no cube
    let quick = of(&switched(6), Scope::Quick, &[]);
    assert_eq!([&quick[0], &quick[3]], ["6 1 MiB stores", "3x2 1 MiB stores"]);
    assert_eq!(quick.len(), 6);
    let one = plan(&switched(1), Scope::Full, &[Test::Halo], &[]).unwrap();
    assert_eq!(one.skipped[0].why, "it needs two GPUs, and there is one");
    // all pairs that exchange must be picked: a square of four is no ring of them by number
    let ring = ["GPU0-GPU1", "GPU1-GPU2", "GPU2-GPU3", "GPU3-GPU0"];
    assert_eq!(of(&switched(4), Scope::Quick, &ring), ["4 1 MiB stores", "4 1 MiB copies", "4 1 MiB staged"]);
    let square = ["GPU0-GPU1", "GPU1-GPU3", "GPU2-GPU3", "GPU2-GPU0"];
    assert_eq!(of(&switched(4), Scope::Quick, &square), ["2x2 1 MiB stores", "2x2 1 MiB copies", "2x2 1 MiB staged"]);
    assert_eq!(of(&switched(4), Scope::Full, &["GPU0-GPU1"]).len(), 15);
}

/// The NICs of each step, `mlx5_0→mlx5_1`.
fn nics(plan: &Plan) -> Vec<String> {
    let ends = plan.steps().map(|step| crate::run::ends(&step.work));
    ends.collect()
}

#[test]
fn nics_go_out_and_back_and_to_each_other_one_at_a_time() {
    let machine = system("hpcac-tessa");
    let quick = plan(&machine, Scope::Quick, &[Test::Nic], &[]).unwrap();
    assert_eq!(counts(&quick)[&Test::Nic], (4 + 12, 4 + 12));
    assert_eq!(nics(&quick)[..5].join(" "), "mlx5_0→mlx5_0 mlx5_1→mlx5_1 mlx5_2→mlx5_2 mlx5_3→mlx5_3 mlx5_0→mlx5_3");
    let all: std::collections::BTreeSet<String> = nics(&quick).into_iter().collect();
    assert_eq!(all.len(), 16, "each ordered pair once");
    let memory = quick.steps().all(|step| match &step.work {
        Work::Rdma(rdma) => rdma.from.memory.starts_with("host") && machine.fabric.find(&rdma.to.memory).is_some(),
        _ => false,
    });
    assert!(memory, "the memory is a node of the machine");
    // by reads, too
    assert_eq!(plan(&machine, Scope::Full, &[Test::Nic], &[]).unwrap().steps().count(), 32);
    // a network that others use is left alone unless someone asks
    assert!(plan(&machine, Scope::Full, &[], &[]).unwrap().steps().all(|step| step.test != Test::Nic));
    let picked = plan(&machine, Scope::Quick, &[Test::Nic], &["mlx5_1>mlx5_2,mlx5_0-mlx5_0"]).unwrap();
    assert_eq!(nics(&picked).join(" "), "mlx5_0→mlx5_0 mlx5_1→mlx5_2");
}

#[test]
fn each_gpu_meets_each_nic_directly_and_staged_both_ways() {
    let machine = system("hpcac-tessa");
    let quick = plan(&machine, Scope::Quick, &[Test::NicGpu], &[]).unwrap();
    assert_eq!(counts(&quick)[&Test::NicGpu], (4 * 4 * 4, 4 * 4 * 4));
    let shown = nics(&quick);
    assert_eq!((shown[0].as_str(), shown[16].as_str()), ("GPU0→mlx5_0", "mlx5_0→GPU0"));
    assert_eq!(shown[32], "GPU0→mlx5_0, staged");
    assert_eq!(shown.iter().collect::<std::collections::BTreeSet<_>>().len(), 64, "each once");
    let one_gpu = quick.steps().all(|step| step.work.gpus().len() == 1);
    assert!(one_gpu, "the GPU is opened");
    let picked = plan(&machine, Scope::Quick, &[Test::NicGpu], &["GPU1>mlx5_2"]).unwrap();
    assert_eq!(nics(&picked).join(" "), "GPU1→mlx5_2 GPU1→mlx5_2, staged");
    assert!(plan(&machine, Scope::Full, &[], &[]).unwrap().steps().all(|step| step.test != Test::NicGpu));

    // 16 GPUs with 10 NICs: each with its nearest and one half way round
    let mut b = switched(16).fabric.into_builder();
    let cpu = b.node(Node::new("cpu1", NodeKind::Cpu));
    for i in 0..10 {
        let nic = b.node(Node::new(format!("mlx5_{i}"), NodeKind::Nic));
        b.link(Link::new(cpu, nic, LinkKind::pcie("5.0 x16".parse().unwrap())));
    }
    let many = Machine::new("many", MachineKind::Design, b.build().unwrap());
    assert_eq!(plan(&many, Scope::Quick, &[Test::NicGpu], &[]).unwrap().steps().count(), 16 * 2 * 4);
    let without = plan(&switched(1), Scope::Quick, &[Test::NicGpu], &[]).unwrap();
    assert_eq!(without.skipped[0].why, "no NIC that does RDMA is known");
}

#[test]
fn of_many_nics_not_all_pairs_are_measured() {
    let mut b = switched(1).fabric.into_builder();
    let cpu = b.node(Node::new("cpu1", NodeKind::Cpu));
    for i in 0..20 {
        let nic = b.node(Node::new(format!("mlx5_{i}"), NodeKind::Nic));
        b.link(Link::new(cpu, nic, LinkKind::pcie("5.0 x16".parse().unwrap())));
    }
    let machine = Machine::new("many", MachineKind::Design, b.build().unwrap());
    let plan = plan(&machine, Scope::Quick, &[Test::Nic], &[]).unwrap();
    assert_eq!(plan.steps().count(), 20 + 2 * (20 + 10));
}

#[test]
fn nics_need_no_gpu_and_only_those_that_can_be_opened_are_measured() {
    let machine = system("hpcac-tessa");
    let mut b = FabricBuilder::new();
    let cpu = b.node(Node::new("cpu0", NodeKind::Cpu));
    let nic = b.node(Node { rdma: Some(false), ..Node::new("eth0", NodeKind::Nic) });
    b.link(Link::new(cpu, nic, LinkKind::pcie("5.0 x16".parse().unwrap())));
    let without = Machine::new("without", MachineKind::Design, b.build().unwrap());
    let of = |machine: &Machine, tests: &[Test], nics: Option<UsableNics>| {
        let selection = Selection { tests: tests.to_vec(), pairs: Vec::new(), nics };
        Plan::of(machine, Scope::Quick, &selection, Method::default())
    };
    let names = vec!["mlx5_2".to_owned()];
    let one = of(&machine, &[Test::Nic], Some(UsableNics { names, why: None })).unwrap();
    assert_eq!(nics(&one), ["mlx5_2→mlx5_2"]);
    let why = Some("libibverbs.so.1 not found".to_owned());
    let none = of(&machine, &[Test::Nic], Some(UsableNics { names: Vec::new(), why })).unwrap();
    assert_eq!((none.steps().count(), none.skipped[0].why.as_str()), (0, "libibverbs.so.1 not found"));

    assert!(matches!(of(&without, &[Test::Pairs], None), Err(PlanError::NoGpu { .. })));
    let both = of(&without, &[Test::Pairs, Test::Nic], None).unwrap();
    let why: Vec<&str> = both.skipped.iter().map(|skipped| skipped.why.as_str()).collect();
    assert_eq!(why, ["it needs a GPU, and there is none", "no NIC that does RDMA is known"]);
}
