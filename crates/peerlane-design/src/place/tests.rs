use super::search::Found;
use super::*;
use peerlane_model::flows::Pair;
use peerlane_read::catalogue::{Parts, read_system, system, system_names};

fn machine(name: &str) -> Machine {
    system(name).unwrap().unwrap()
}

fn request(workload: Workload, jobs: &[usize]) -> Request {
    Request { jobs: jobs.to_vec(), workload, ..Request::default() }
}

fn placed(name: &str, request: &Request) -> PlacementDocument {
    let machine = machine(name);
    place(&Model::new(&machine, Parts::embedded()), request).unwrap()
}

/// Boxes without symmetry: GPUs of every width, below switches and roots, some joined by NVLink, on one or two sockets.
fn odd_box(seed: usize) -> Machine {
    let widths = ["3.0 x1", "3.0 x4", "3.0 x8", "3.0 x16"];
    let n = 2 + seed % 5;
    let mut text = format!("name = \"odd{seed}\"\n[nodes]\n");
    for cpu in ["cpu0", "cpu1"] {
        text += &format!("{cpu} = {{ kind = \"cpu\", product = \"Intel Xeon\" }}\n");
    }
    text += "sw0 = { kind = \"switch\" }\nsw1 = { kind = \"switch\" }\n";
    (0..n).for_each(|i| text += &format!("GPU{i} = {{ kind = \"gpu\" }}\n"));
    let mut link = |a: &str, b: &str, kind: &str| text += &format!("[[links]]\nbetween = [\"{a}\", \"{b}\"]\n{kind}\n");
    link("cpu0", "cpu1", "smp = \"qpi-haswell\"");
    link("cpu0", "sw0", "pcie = \"3.0 x8\"");
    link(["cpu0", "cpu1", "sw0"][seed % 3], "sw1", "pcie = \"3.0 x16\"");
    for i in 0..n {
        let above = ["sw0", "sw1", "cpu0", "cpu1"][(seed * 7 + i * 5 + i * i * (seed / 9)) % 4];
        link(above, &format!("GPU{i}"), &format!("pcie = \"{}\"", widths[(seed * 3 + i * i + i) % 4]));
    }
    if seed % 2 == 1 && n > 2 {
        link("GPU0", "GPU2", "nvlink = 2\nnvlink_generation = 1");
    }
    if seed % 3 == 1 {
        text += "[[p2p]]\nstatus = \"no\"\npairs = [[\"GPU0\", \"GPU1\"]]\n";
    }
    read_system(&text, "odd").unwrap()
}

/// Every order of every choice, nothing left out.
fn orders(free: &[usize], size: usize) -> Vec<Vec<usize>> {
    if size == 0 {
        return vec![Vec::new()];
    }
    let with = |gpu: &usize| {
        let rest: Vec<usize> = free.iter().copied().filter(|g| g != gpu).collect();
        orders(&rest, size - 1).into_iter().map(|order| [&[*gpu], order.as_slice()].concat()).collect::<Vec<_>>()
    };
    free.iter().flat_map(with).collect()
}

/// Every way to fill jobs.
fn fillings(free: &[usize], sizes: &[usize]) -> Vec<Vec<Vec<usize>>> {
    let Some((size, rest)) = sizes.split_first() else { return vec![Vec::new()] };
    let mut all = Vec::new();
    for order in orders(free, *size) {
        let left: Vec<usize> = free.iter().copied().filter(|g| !order.contains(g)).collect();
        all.extend(fillings(&left, rest).into_iter().map(|jobs| [vec![order.clone()], jobs].concat()));
    }
    all
}

/// What the search finds and the pace of the best and the worst filling, straight from the model's solver.
fn both(machine: &Machine, request: &Request, busy: &[usize]) -> Option<(Found, Option<f64>, f64, f64)> {
    let model = Model::new(machine, Parts::embedded());
    let hosts: Vec<NodeId> = machine.fabric.of_kind(NodeKind::Host).collect();
    let flows = Flows::with_others(&model, Engine::Ce, &hosts);
    let of = |g: usize| machine.fabric.nearest_host(flows.ends[g]).and_then(|h| hosts.iter().position(|x| *x == h));
    let hosts_of: Vec<usize> = (0..flows.gpus()).map(|g| of(g).map_or(g, |h| flows.gpus() + h)).collect();
    let problem = Problem::new(&flows, request.workload, request.jobs.clone(), busy, hosts_of.clone());
    let background = request.workload.pairs(busy, |g| hosts_of[g]);
    let (mut best, mut worst) = (0.0_f64, f64::INFINITY);
    for jobs in fillings(&problem.free, &request.jobs) {
        let own: Vec<Pair> = jobs.iter().flat_map(|order| request.workload.pairs(order, |g| hosts_of[g])).collect();
        let set: Vec<_> = own.iter().chain(&background).map(|pair| flows.transfer(*pair)).collect();
        let answers = model.solve(&set).ok()?;
        let pace = answers.iter().take(own.len()).map(|a| a.rate.bytes_per_second()).fold(f64::INFINITY, f64::min);
        (best, worst) = (best.max(pace), worst.min(pace));
    }
    Some((problem.best(), problem.worst(), best, worst))
}

#[test]
fn no_placement_is_better_than_the_one_found() {
    let mut boxes: Vec<Machine> = system_names().map(machine).collect();
    boxes.retain(|m| (2..=5).contains(&m.fabric.of_kind(NodeKind::Gpu).count()));
    boxes.extend((0..24).map(odd_box));
    let (mut seen, mut better, mut shared) = (0, 0, 0);
    for machine in &boxes {
        let n = machine.fabric.of_kind(NodeKind::Gpu).count();
        for workload in Workload::ALL.into_iter().filter(|w| *w != Workload::AllReduce) {
            for (jobs, busy) in
                [(vec![n], vec![]), (vec![2], vec![]), (vec![2], vec![0]), (vec![2, 1], vec![]), (vec![2, 2], vec![])]
            {
                if jobs.iter().sum::<usize>() + busy.len() > n {
                    continue;
                }
                let request = request(workload, &jobs);
                let Some((found, worst, most, least)) = both(machine, &request, &busy) else { continue };
                let what = format!("{} {workload} {jobs:?} {busy:?}: {found:?}", machine.name);
                assert!(found.exact && found.score.pace >= most * (1.0 - 1e-9), "{what}, not {most}");
                assert!(found.score.pace <= most * (1.0 + 1e-9), "{what}, over {most}");
                assert!(worst.is_none_or(|w| (w - least).abs() <= 1e-9 * least), "{what}: {worst:?}, not {least}");
                seen += 1;
                better += usize::from(most > least * 1.01);
                shared += usize::from(jobs.len() > 1);
            }
        }
    }
    assert!(seen > 400 && better > 100 && shared > 60, "{seen} {better} {shared}");
}

#[test]
fn all_reduces_get_the_gpus_whose_rings_carry_most() {
    let mut boxes: Vec<Machine> = system_names().map(machine).collect();
    boxes.retain(|m| (2..=8).contains(&m.fabric.of_kind(NodeKind::Gpu).count()));
    boxes.extend((0..24).map(odd_box));
    let (mut placed, mut several) = (0, 0);
    for machine in &boxes {
        let model = Model::new(machine, Parts::embedded());
        let flows = Flows::new(&model, Engine::Sm);
        let n = flows.gpus();
        for (jobs, busy) in
            [(vec![n], vec![]), (vec![2], vec![]), (vec![3], vec![0]), (vec![4], vec![]), (vec![2, 2], vec![])]
        {
            if !flows.complete() || jobs.iter().sum::<usize>() + busy.len() > n {
                continue;
            }
            let problem = Problem::new(&flows, Workload::AllReduce, jobs.clone(), &busy, (0..n).collect());
            let found = problem.best();
            let of = |jobs: &[Vec<usize>]| problem.paces(jobs).into_iter().fold(f64::INFINITY, f64::min);
            let what = format!("{} {jobs:?} {busy:?}: {found:?}", machine.name);
            assert!((of(&found.jobs) - found.score.pace).abs() <= 1e-9 * found.score.pace, "{what}");
            // every choice of GPUs, whatever their order
            let all = fillings(&problem.free, &jobs).into_iter();
            let sets = all.filter(|jobs| jobs.iter().all(|gpus| gpus.is_sorted()));
            let most = sets.map(|jobs| of(&jobs)).fold(0.0, f64::max);
            assert!(!found.exact || found.score.pace >= most * (1.0 - 1e-6), "{what}, not {most}");
            assert!(found.exact || n > 6, "{what}");
            // alone, a job has what its GPUs have by themselves
            if let [only] = found.jobs.as_slice() {
                let rings = peerlane_model::collectives::Rings::best(&flows, only, &[]).unwrap();
                let alone = busy.is_empty().then(|| rings.rate());
                assert!(alone.is_none_or(|alone| (alone / found.score.pace - 1.0).abs() < 1e-6), "{what}: {rings:?}");
                several += usize::from(rings.rings.len() > 1);
            }
            placed += 1;
        }
    }
    assert!(placed > 80 && several > 5, "{placed} {several}");
}

/// All orders of eight GPUs that begin with the first, by the pace of the ring.
#[test]
fn no_ring_of_eight_is_faster() {
    for name in ["dgx-1", "dgx-1v", "exxact-txr430"] {
        let machine = machine(name);
        let model = Model::new(&machine, Parts::embedded());
        let flows = Flows::new(&model, Engine::Sm);
        let problem = Problem::new(&flows, Workload::Ring, vec![8], &[], (0..8).collect());
        let rest: Vec<usize> = (1..8).collect();
        let pace = |order: Vec<usize>| problem.paces(&[[vec![0], order].concat()])[0];
        let most = orders(&rest, 7).into_iter().map(pace).fold(0.0, f64::max);
        let found = problem.best();
        assert!(found.exact && (found.score.pace - most).abs() <= most * 1e-9, "{name}: {found:?}, not {most}");
    }
}

#[test]
fn rings_of_the_hybrid_cube_mesh_go_over_double_links() {
    let machine = machine("dgx-1v");
    let double = |a: &str, b: &str| {
        let [a, b] = [a, b].map(|name| machine.fabric.find(name).unwrap());
        machine.fabric.class(a, b) == Some(peerlane_machine::fabric::PathClass::nvlink(2))
    };
    let doubles = |jobs: &[usize]| -> Vec<usize> {
        let placed = placed("dgx-1v", &request(Workload::Ring, jobs));
        let count = |c: &Choice| {
            let next = c.order.iter().cycle().skip(1);
            c.order.iter().zip(next).filter(|(a, b)| double(a, b)).count()
        };
        placed.choices.iter().map(count).collect()
    };
    // all of eight; of any four, a ring has three at most; pairs only
    assert_eq!(doubles(&[8]), [8]);
    assert_eq!(doubles(&[4]), [3]);
    assert_eq!(doubles(&[4, 4]), [3, 3]);
    assert_eq!(doubles(&[2, 2, 2, 2]), [2; 4]);
    assert_eq!(doubles(&[4, 2, 2])[1..], [2, 2]);
}

#[test]
fn the_traditional_server_crosses_its_sockets_as_seldom_as_can_be() {
    let machine = machine("exxact-traditional");
    let crossings = |order: &[String]| {
        let package = |name: &String| machine.fabric.package(machine.fabric.find(name).unwrap());
        order.iter().zip(order.iter().cycle().skip(1)).filter(|(a, b)| package(a) != package(b)).count()
    };
    let all = placed("exxact-traditional", &request(Workload::Ring, &[4]));
    assert_eq!(crossings(&all.choices[0].order), 2);
    assert!(all.equal.is_none() && all.worst.unwrap() < 0.51 * all.choices[0].predicted.unwrap());
    // two jobs of two: none, also where the numbers would have it so
    let pairs = placed("exxact-traditional", &request(Workload::Ring, &[2, 2]));
    assert!(pairs.choices.iter().all(|c| crossings(&c.order) == 0), "{pairs:?}");
    // with GPU1 in use by others, the pair of the other socket
    let busy = Request { busy: vec!["GPU1".to_owned()], ..request(Workload::Ring, &[2]) };
    let placed = placed("exxact-traditional", &busy);
    assert_eq!(placed.choices[0].gpus, ["GPU2", "GPU3"]);
    assert!(placed.choices[0].gain.unwrap() > 0.5 && placed.choices[0].reason.contains("by number"), "{placed:?}");
}

#[test]
fn the_nics_below_the_switch_are_chosen() {
    for nics in [None, Some(1)] {
        let request = Request { nics, ..request(Workload::Ring, &[4]) };
        let placed = placed("hpcac-tessa", &request);
        let chosen = &placed.choices[0].nics;
        assert_eq!(chosen.len(), 4);
        assert!(chosen.iter().all(|nic| matches!(nic.as_deref(), Some("mlx5_2" | "mlx5_3"))), "{nics:?}: {chosen:?}");
        // which GPUs does not matter there, and it says why
        assert!(placed.equal.as_ref().unwrap().contains("any other's place"), "{placed:?}");
    }
    // asked for a NIC, a job moves to where one is near
    let near = |nics| {
        let busy = vec!["GPU0".to_owned(), "GPU1".to_owned()];
        let request = Request { nics, busy, ..request(Workload::HostFeed, &[2]) };
        self::placed("dgx-1v", &request).choices.remove(0)
    };
    let choice = near(Some(1));
    let machine = machine("dgx-1v");
    let above = |name: &String| machine.fabric.upstream(machine.fabric.find(name).unwrap()).map(|(_, up)| up);
    let nic = choice.nics[0].clone().unwrap();
    assert!(choice.nics.iter().all(|n| n.as_ref() == Some(&nic)), "{choice:?}");
    assert!(choice.gpus.iter().any(|gpu| above(gpu) == above(&nic)), "{choice:?}");
}

#[test]
fn cores_and_memory_are_beside_the_gpu() {
    let placed = placed("exxact-traditional", &request(Workload::HostFeed, &[4]));
    let choice = &placed.choices[0];
    assert_eq!(choice.memory, [Some(0), Some(0), Some(1), Some(1)]);
    assert_eq!(choice.cores[2].as_deref(), Some("10-14,30-34"));
    assert!(placed.equal.unwrap().contains("host-feed does not depend on their order"));
}

#[test]
fn what_cannot_be_placed_says_why() {
    let machine = machine("exxact-traditional");
    let model = Model::new(&machine, Parts::embedded());
    let refused = |request: &Request| place(&model, request).unwrap_err().to_string();
    assert!(
        refused(&request(Workload::Ring, &[5])).contains("5 GPUs are requested, but 4 of exxact-traditional are free")
    );
    assert!(refused(&request(Workload::Ring, &[usize::MAX, 2])).contains("are requested"));
    assert_eq!(refused(&request(Workload::Ring, &[0])), "a job needs at least one GPU");
    let nics = Request { nics: Some(1), ..request(Workload::Ring, &[2]) };
    assert!(refused(&nics).contains("has 0 that can reach GPU memory"));
    let stray = Request { busy: vec!["GPU9".to_owned()], ..request(Workload::Ring, &[2]) };
    assert!(refused(&stray).contains("no GPU named 'GPU9'; there are: GPU0–GPU3"));
    let none = Machine::new(
        "bare",
        peerlane_machine::machine::MachineKind::Design,
        peerlane_machine::fabric::FabricBuilder::new().build().unwrap(),
    );
    let none = place(&Model::new(&none, Parts::embedded()), &Request::default());
    assert_eq!(none.unwrap_err().to_string(), "bare has no GPU");
}

#[test]
fn every_system_is_placed_in_every_format() {
    for name in system_names() {
        let machine = machine(name);
        let model = Model::new(&machine, Parts::embedded());
        let Ok(document) = place(&model, &Request::default()) else { continue };
        for format in [Format::Env, Format::Numactl, Format::Rankfile, Format::Hostfile, Format::Slurm, Format::Nccl] {
            let text = write(&document, &model, format, Some("it's here.xml"));
            assert!(text.starts_with(&format!("# {name}, all-reduce: advice")), "{text}");
            let said = text.lines().filter(|line| !line.starts_with('#') && !line.is_empty()).count();
            assert!(said > 0 || text.contains("not known"), "{name} {format:?}: {text}");
        }
    }
    let machine = machine("exxact-traditional");
    let model = Model::new(&machine, Parts::embedded());
    let document = place(&model, &request(Workload::Ring, &[4])).unwrap();
    let of = |format| write(&document, &model, format, None);
    assert!(of(Format::Env).contains("\nexport CUDA_VISIBLE_DEVICES=0,1,2,3\n"));
    assert!(of(Format::Numactl).contains("numactl --physcpubind=10-14,30-34 --membind=1 COMMAND\n"));
    assert!(of(Format::Rankfile).contains("\nrank 2=localhost slot=1:0-4\n"));
    assert!(of(Format::Slurm).contains("File=/dev/nvidia1 Cores=0-9 Links=10,-1,"), "{}", of(Format::Slurm));
    let tessa = self::machine("hpcac-tessa");
    let model = Model::new(&tessa, Parts::embedded());
    let document = place(&model, &Request { nics: Some(1), ..request(Workload::Ring, &[2]) }).unwrap();
    let text = write(&document, &model, Format::Nccl, Some("it's.xml"));
    assert!(text.contains("export NCCL_IB_HCA='=mlx5_2'\nexport NCCL_TOPO_FILE='it'\\''s.xml'\n"), "{text}");
}

/// Two switches with a GPU and an adapter each, and a third adapter at the root complex; each adapter with the layer and the
/// state that `ibstat` reports.
fn with_ports(ports: [(&str, &str); 3]) -> Machine {
    use peerlane_machine::fact::{Evidence, Fact, RdmaPort};
    let mut text = "name = \"layers\"\n[nodes]\ncpu0 = { kind = \"cpu\", product = \"Intel Xeon\" }\n".to_owned();
    for i in 0..2 {
        text += &format!("sw{i} = {{ kind = \"switch\" }}\nGPU{i} = {{ kind = \"gpu\" }}\n");
    }
    (0..3).for_each(|i| text += &format!("mlx5_{i} = {{ kind = \"nic\", part = \"connectx-6\" }}\n"));
    let mut link = |a: &str, b: &str| text += &format!("[[links]]\nbetween = [\"{a}\", \"{b}\"]\npcie = \"4.0 x16\"\n");
    for (a, b) in [("cpu0", "sw0"), ("cpu0", "sw1"), ("sw0", "GPU0"), ("sw1", "GPU1")] {
        link(a, b);
    }
    for (a, b) in [("sw0", "mlx5_0"), ("sw1", "mlx5_1"), ("cpu0", "mlx5_2")] {
        link(a, b);
    }
    let mut machine = read_system(&text, "layers").unwrap();
    let port = |(i, (layer, state)): (usize, (&str, &str))| RdmaPort {
        device: format!("mlx5_{i}"),
        state: Some(state.to_owned()),
        layer: Some(layer.to_owned()),
        ..RdmaPort::default()
    };
    let origin = peerlane_machine::origin::Origin { source: "ibstat.txt".into(), tool: "ibstat", lines: None };
    machine
        .evidence
        .push(Evidence { origin, fact: Fact::RdmaPorts(ports.into_iter().enumerate().map(port).collect()) });
    machine
}

#[test]
fn one_link_layer_and_ports_that_are_up() {
    let (ib, roce) = (("infiniband", "active"), ("ethernet", "active"));
    let nics = |ports| {
        let machine = with_ports(ports);
        let document = place(&Model::new(&machine, Parts::embedded()), &request(Workload::Ring, &[2])).unwrap();
        document.choices[0].nics.iter().map(|nic| nic.clone().unwrap_or_default()).collect::<Vec<_>>()
    };
    assert_eq!(nics([ib, ib, roce]), ["mlx5_0", "mlx5_1"]);
    assert_eq!(nics([roce, roce, ib]), ["mlx5_0", "mlx5_1"], "the nearer ones, whichever their layer");
    assert_eq!(nics([ib, roce, ib]), ["mlx5_0", "mlx5_2"], "never both layers in one job");
    assert_eq!(nics([ib, ("infiniband", "down"), ib]), ["mlx5_0", "mlx5_2"], "a port that is down carries nothing");
}
