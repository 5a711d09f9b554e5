use super::search::Found;
use super::*;
use crate::catalogue::{Parts, read_system, system, system_names};
use crate::flows::Pair;

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
    let hosts_of: Vec<usize> = (0..flows.len()).map(|g| of(g).map_or(g, |h| flows.len() + h)).collect();
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
    boxes.extend((0..40).map(odd_box));
    let (mut seen, mut better, mut shared) = (0, 0, 0);
    for machine in &boxes {
        let n = machine.fabric.of_kind(NodeKind::Gpu).count();
        for workload in Workload::ALL {
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
    assert!(seen > 600 && better > 200 && shared > 100, "{seen} {better} {shared}");
}
