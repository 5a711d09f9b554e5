use super::*;
use crate::cluster::Wanted;
use peerlane_machine::units::Seconds;
use peerlane_read::catalogue::system;

fn cluster(name: &str, nodes: u32, network: &str) -> Cluster {
    let wanted: Wanted = network.parse().unwrap();
    Cluster::of(system(name).unwrap().unwrap(), nodes, &wanted, None, Seconds::from_us(0.3)).unwrap()
}

fn placed(cluster: &Cluster, workload: Workload, jobs: &[usize]) -> PlacementDocument {
    let request = Request { workload, jobs: jobs.to_vec(), ..Request::default() };
    place_across(cluster, &request).unwrap()
}

fn nodes_of(choice: &Choice) -> Vec<&str> {
    let mut nodes: Vec<&str> = choice.gpus.iter().map(|gpu| gpu.split_once('/').unwrap().0).collect();
    nodes.sort_unstable();
    nodes.dedup();
    nodes
}

fn close(got: f64, expected: f64) {
    assert!((got / expected - 1.0).abs() < 1e-3, "{got}, not {expected}");
}

/// What a NIC's line carries of a message's bytes, in GB/s.
const LINE: f64 = 49.68;

#[test]
fn large_jobs_go_around_a_ring_a_nic_and_small_ones_stay_in_a_node() {
    let cluster = cluster("hgx-h200", 4, "rail");
    let placed = placed(&cluster, Workload::AllReduce, &[16, 8, 8]);
    assert_eq!(placed.nodes, Some(4));
    assert_eq!(placed.choices.iter().map(|c| nodes_of(c).len()).collect::<Vec<_>>(), [2, 1, 1]);
    let large = &placed.choices[0];
    assert_eq!(large.rings.as_ref().unwrap().len(), 8);
    let rate = large.predicted.unwrap();
    assert!(rate > 7.5 * LINE && rate < 8.0 * LINE, "{rate}");
    // the same as on the machine alone
    let model = Model::new(&cluster.node, Parts::embedded());
    let one = super::super::place(&model, &Request::default()).unwrap().choices[0].predicted.unwrap();
    close(placed.choices[1].predicted.unwrap(), one);
    assert!(placed.exact, "{placed:?}");
    assert_eq!(large.nics.len(), 16);
    assert!(large.nics[0].as_ref().unwrap().starts_with("node"));
}

#[test]
fn what_simulate_plays_is_what_is_predicted() {
    use crate::simulate::outcome::run;
    use crate::simulate::workload::{Algorithm, Workload as Played};
    let mut cluster = cluster("hgx-h200", 3, "rail");
    cluster.taking = (3, 4);
    let rate = placed(&cluster, Workload::AllReduce, &[12]).choices[0].predicted.unwrap();
    let mut router = crate::cluster::Router::new(&cluster, Parts::embedded());
    let size = 64e9;
    let program = Played::AllReduce(Algorithm::Ring).program(&cluster, &router, size).unwrap();
    let time = run(&program, &mut router, Engine::Sm).unwrap().time;
    close(size / time * 2.0 * 11.0 / 12.0 / 1e9, rate);
}

#[test]
fn jobs_take_the_same_gpus_of_each_node_on_rails() {
    // half of each node is busy: other halves on other nodes would leave the rails
    let cluster = cluster("hgx-h200", 4, "rail:2:4");
    let busy = |node: u32, gpus: [u32; 4]| gpus.map(|gpu| format!("node{node}/GPU{gpu}"));
    let busy = [busy(0, [4, 5, 6, 7]), busy(1, [0, 1, 2, 3]), busy(2, [4, 5, 6, 7]), busy(3, [0, 1, 2, 3])].concat();
    let request = Request { jobs: vec![8, 8], busy, ..Request::default() };
    let placed = place_across(&cluster, &request).unwrap();
    for choice in &placed.choices {
        let local: Vec<&str> = choice.gpus.iter().map(|gpu| gpu.split_once('/').unwrap().1).collect();
        assert_eq!(local[..4], local[4..], "{placed:?}");
    }
}

#[test]
fn jobs_stay_under_their_leaves_of_a_tapered_tree() {
    // 32 ports of 8 a node: four nodes a leaf, or so; jobs by number of three nodes straddle leaves
    let cluster = cluster("hgx-h200", 12, "fat-tree:2:3");
    let document = placed(&cluster, Workload::AllReduce, &[16, 32, 16, 32]);
    let least = document.choices.iter().map(|c| c.predicted.unwrap()).fold(f64::INFINITY, f64::min);
    assert!(least >= document.compared[0].predicted * (1.0 - 1e-9), "{document:?}");
    assert!(document.choices.iter().all(|c| c.predicted.unwrap() <= 8.0 * LINE * 1.001));
}

#[test]
fn neighbours_on_a_torus_make_a_job() {
    let cluster = cluster("apenet-x56xx", 16, "torus:4x4");
    let per_node = cluster.gpus().len();
    let document = placed(&cluster, Workload::AllReduce, &[4 * per_node, 4 * per_node]);
    let default = &document.compared[0];
    assert!(document.choices.iter().all(|c| c.predicted.unwrap() >= default.predicted * (1.0 - 1e-9)));
    let turn = &document.compared[1];
    assert!(document.choices[0].predicted.unwrap() >= turn.predicted * (1.0 - 1e-9));
}

/// Every choice of GPUs for the jobs, by a plain recursion.
fn every(free: &[usize], sizes: &[usize]) -> Vec<Jobs> {
    let Some((size, rest)) = sizes.split_first() else { return vec![Vec::new()] };
    let mut all = Vec::new();
    for mask in 0_u32..1 << free.len() {
        if mask.count_ones() as usize != *size {
            continue;
        }
        let (mut own, mut left) = (Vec::new(), Vec::new());
        free.iter().enumerate().for_each(|(i, gpu)| if mask >> i & 1 == 1 { own.push(*gpu) } else { left.push(*gpu) });
        all.extend(every(&left, rest).into_iter().map(|jobs| [vec![own.clone()], jobs].concat()));
    }
    all
}

#[test]
fn no_choice_of_gpus_is_better_than_the_one_found() {
    let mut better = 0;
    for (name, nodes, per_node, network, sizes) in [
        ("dgx-1", 2, 4, "switch", vec![4]),
        ("dgx-1", 2, 4, "rail", vec![2, 3]),
        ("hgx-h200", 4, 2, "rail:2:4", vec![4, 2]),
        ("apenet-x56xx", 6, 1, "torus:6", vec![2, 2]),
        ("apenet-x56xx", 4, 2, "torus:2x2", vec![3]),
    ] {
        let mut cluster = self::cluster(name, nodes, network);
        cluster.taking = (nodes, per_node);
        let gpus = cluster.places().len();
        for workload in [Workload::AllReduce, Workload::AllToAll, Workload::HostFeed] {
            let request = Request { workload, jobs: sizes.clone(), ..Request::default() };
            let Ok(document) = place_across(&cluster, &request) else { continue };
            let found = document.choices.iter().filter_map(|c| c.predicted).fold(f64::INFINITY, f64::min);
            let model = Model::new(&cluster.node, Parts::embedded());
            let flows = Flows::new(&model, Engine::Sm);
            let mut rates = Rates::new(&cluster, &flows, workload);
            let free: Vec<usize> = (0..gpus).collect();
            let mut most = 0.0_f64;
            for jobs in every(&free, &sizes) {
                let carried = rates.carried(&jobs, &[]).unwrap();
                most = most.max(carried.iter().map(|c| c.pace).fold(f64::INFINITY, f64::min));
            }
            assert!(
                (found * 1e9 / most - 1.0).abs() < 1e-6,
                "{} {workload} {sizes:?}: {found}, not {most}",
                cluster.name
            );
            better += 1;
        }
    }
    assert!(better >= 12, "{better}");
}

#[test]
fn exchanged_nodes_and_numbers_change_nothing() {
    // the same jobs in another order have the same rates
    let cluster = cluster("hgx-h200", 4, "rail");
    let paces = |jobs: &[usize]| {
        let mut paces: Vec<f64> =
            placed(&cluster, Workload::AllReduce, jobs).choices.iter().map(|c| c.predicted.unwrap()).collect();
        paces.sort_by(f64::total_cmp);
        paces
    };
    for (a, b) in paces(&[12, 4, 8]).into_iter().zip(paces(&[8, 12, 4])) {
        close(a, b);
    }
}

#[test]
fn nothing_exceeds_the_lines_of_the_nics() {
    for network in ["fat-tree:2:3", "dragonfly"] {
        let mut cluster = cluster("hgx-h200", 4, network);
        cluster.taking = (4, 4);
        for sizes in [vec![16], vec![6, 5, 4]] {
            let document = placed(&cluster, Workload::AllReduce, &sizes);
            for choice in &document.choices {
                let nodes = nodes_of(choice).len();
                assert!(
                    nodes == 1 || choice.predicted.unwrap() <= 4.0 * LINE * 1.001,
                    "{network} {sizes:?}: {choice:?}"
                );
            }
        }
    }
}

#[test]
fn what_cannot_be_placed_says_why() {
    let cluster = cluster("hgx-h200", 4, "rail");
    let refused = |request: Request| place_across(&cluster, &request).unwrap_err().to_string();
    assert!(refused(Request { jobs: vec![40], ..Request::default() }).contains("40 GPUs are requested, but 32"));
    assert!(refused(Request { nics: Some(1), ..Request::default() }).contains("--nics is for jobs on one machine"));
    let stray = Request { busy: vec!["GPU0".to_owned()], ..Request::default() };
    assert!(refused(stray).contains("no GPU named 'GPU0'; there are: node0/GPU0–node0/GPU7"));
    let large = self::cluster("hgx-h200", 256, "rail");
    let message = place_across(&large, &Request::default()).unwrap_err().to_string();
    assert!(message.contains("2048 GPUs; up to 1024 of a cluster are placed"), "{message}");
}

#[test]
fn formats_name_the_node_of_each_rank() {
    use super::super::{Format, write};
    let cluster = cluster("dgx-1", 2, "rail");
    let document = placed(&cluster, Workload::AllReduce, &[12, 4]);
    let model = Model::new(&cluster.node, Parts::embedded());
    let of = |format| write(&document, &model, format, None);
    let hosts = of(Format::Hostfile);
    let slots =
        |text: &str| -> usize { text.lines().filter_map(|l| l.split_once(" slots=")?.1.parse::<usize>().ok()).sum() };
    assert_eq!(slots(&hosts), 16);
    assert!(hosts.contains("node0 slots=") && hosts.contains("node1 slots="), "{hosts}");
    let env = of(Format::Env);
    assert!(env.contains("# on node0: ranks ") && env.matches("CUDA_VISIBLE_DEVICES=").count() >= 3, "{env}");
    let ranks = of(Format::Rankfile);
    assert!((0..12).all(|rank| ranks.contains(&format!("rank {rank}=node")) || ranks.contains("not known")), "{ranks}");
    assert!(of(Format::Slurm).contains("NodeName=node[0-1] Name=gpu"), "{}", of(Format::Slurm));
    assert!(of(Format::Nccl).contains("NCCL_IB_HCA='=mlx5_"), "{}", of(Format::Nccl));
    assert!(of(Format::Numactl).contains("# rank 11"));
}
