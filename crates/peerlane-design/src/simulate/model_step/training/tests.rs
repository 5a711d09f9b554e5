//! Closed forms against what can be worked out by hand, and against the same step played.

use std::collections::HashMap;

use super::super::super::traced::{Done, Recorded};
use super::*;
use crate::cluster::{Cluster, Place, Router, Wanted};
use peerlane_machine::units::{Rate, Seconds};
use peerlane_read::catalogue::{Parts, system};

fn cluster(name: &str, nodes: u32, network: &str, rate: Option<f64>) -> Cluster {
    let node = system(name).unwrap().unwrap();
    if nodes == 1 {
        return Cluster::single(node);
    }
    let wanted: Wanted = network.parse().unwrap();
    Cluster::of(node, nodes, &wanted, rate.map(Rate::from_gbit), Seconds::from_us(0.2)).unwrap()
}

fn cost_on(cluster: &Cluster, words: &str) -> Cost {
    let job = Training::read(words).unwrap();
    let gpu = Gpu::of(cluster, job.format, job.pace, job.memory, 1.0).unwrap();
    let gpus = cluster.places().len();
    let mut rates = Rates::new(cluster, gpus, None).unwrap();
    Stepper::new(&job, &gpu, gpus).unwrap().cost(&mut rates).unwrap()
}

fn close(got: f64, expected: f64) {
    assert!((got / expected - 1.0).abs() < 1e-6, "{got} for {expected}");
}

/// GB that a GPU sends for copies, around rings.
fn sent(cost: &Cost, of: Of) -> f64 {
    let all = cost.communication.iter().filter(|one| one.of == of);
    all.map(|one| match one.kind {
        Kind::Collective(collective) => one.times * one.bytes * collective.bus_factor(one.ranks),
        _ => one.times * one.bytes,
    })
    .sum()
}

#[test]
fn the_bubble_is_that_of_narayanan() {
    let one = cluster("hgx-h200", 1, "", None);
    let base = "layers=32,hidden=4096,heads=32,ffn=16384,gelu,vocab=0,tflops=400,pp=8,tp=1,dp=1";
    let base = base.replace("vocab=0,", "");
    let share = |more: &str| {
        let spent = cost_on(&one, &format!("{base},{more}")).spent;
        let passes = spent.computing + spent.tensor;
        spent.bubble / (passes + spent.bubble)
    };
    for m in [8.0, 24.0, 64.0] {
        close(share(&format!("micro={m}")), 7.0 / (m + 7.0));
        close(share(&format!("micro={m},v=4")), 7.0 / 4.0 / (m + 7.0 / 4.0));
    }
    // forward, gradients of inputs and of weights take about as long: a third of the bubble is left
    let zero = share("micro=8,zb") * 15.0 / 7.0;
    assert!((0.25..0.6).contains(&zero), "{zero}");
}

#[test]
fn a_step_computes_six_operations_a_parameter_and_token() {
    let one = cluster("hgx-h200", 1, "", None);
    let cost = cost_on(&one, "tp=4,pp=2,params=1e9,layers=8,hidden=1024,tokens=1024,micro=6,tflops=100");
    // the parameters alone, of one of eight GPUs
    close(cost.spent.computing, 6.0 * 1e9 * 1024.0 * 6.0 / 8.0 / 100e12);
    let attention = cost_on(&one, "model=llama-3-8b,tp=8,micro=2,seq=8192,tflops=100");
    let model = Architecture::published("llama-3-8b").unwrap();
    let matrices = 6.0 * (model.total() - model.ends()[0]);
    // half of attention, since a token sees only those before it, with 2.5 times as much backward
    let core = 32.0 * 4.0 * 8192.0 * 4096.0 / 2.0 * 3.5;
    close(attention.spent.computing, (matrices + core) * 8192.0 * 2.0 / 8.0 / 100e12);
}

#[test]
fn copies_that_share_parameters_send_half_as_much_again() {
    let many = cluster("hgx-h200", 2, "rail", None);
    let base = "model=llama-3-8b,tp=1,micro=1,grads=2";
    let [none, state, all] = [0, 1, 3].map(|zero| sent(&cost_on(&many, &format!("{base},zero={zero}")), Of::Copies));
    let parameters = Architecture::published("llama-3-8b").unwrap().total();
    close(none, 2.0 * 15.0 / 16.0 * 2.0 * parameters);
    close(state, none);
    close(all, 1.5 * none);
}

#[test]
fn sequence_parallelism_sends_what_sums_do_and_holds_less() {
    let one = cluster("hgx-h200", 1, "", None);
    let base = "layers=8,hidden=8192,heads=64,ffn=32768,gelu,seq=4096,tp=8,micro=4,tflops=400";
    let [sums, shared] = ["no-sp", "sp"].map(|sp| cost_on(&one, &format!("{base},{sp}")));
    close(sent(&shared, Of::Tensor), sent(&sums, Of::Tensor));
    // two sums a layer and pass, of activations of two bytes
    close(sent(&sums, Of::Tensor), 8.0 * 4.0 * 4.0 * 2.0 * 7.0 / 8.0 * 4096.0 * 8192.0 * 2.0);
    assert!(shared.memory.activations < 0.6 * sums.memory.activations);
}

#[test]
fn experts_send_each_token_to_theirs_and_back() {
    let one = cluster("hgx-h200", 1, "", None);
    let cost = cost_on(&one, "model=mixtral-8x7b,tp=1,ep=8,micro=1,seq=4096,tflops=400");
    close(sent(&cost, Of::Experts), 32.0 * 4.0 * 4096.0 * 2.0 * 4096.0 * 2.0);
    let skewed = cost_on(&one, "model=mixtral-8x7b,tp=1,ep=8,micro=1,seq=4096,tflops=400,imbalance=1.5");
    assert!(skewed.spent.experts > 1.3 * cost.spent.experts && skewed.spent.computing > cost.spent.computing);
    // experts are on one GPU of eight each
    let model = Architecture::published("mixtral-8x7b").unwrap();
    let held = cost.memory.weights / 2.0;
    let of_layer = model.layer(true);
    close(held, 32.0 * (of_layer.common() + of_layer.experts / 8.0) + model.ends().iter().sum::<f64>());
}

#[test]
fn nothing_gets_slower_by_faster_links_or_more_nics() {
    let jobs = [
        "model=llama-3-8b,tp=1,micro=1,zero=3",
        "model=llama-3-70b,tp=8,pp=2,micro=4",
        "model=llama-3-8b,tp=2,cp=4,micro=2,seq=32768",
        "model=mixtral-8x7b,experts=16,tp=1,ep=16,micro=2",
        "model=gpt-3-175b,tp=16,micro=2",
    ];
    for words in jobs {
        let time = |cluster: &Cluster| cost_on(cluster, words).time();
        let times = [100.0, 200.0, 400.0].map(|rate| time(&cluster("hgx-h200", 4, "rail", Some(rate))));
        assert!(times.windows(2).all(|pair| pair[1] <= pair[0] * (1.0 + 1e-9)), "{words}: {times:?}");
        // fewer adapters of every node
        let mut fewer = cluster("hgx-h200", 4, "rail", None);
        let all = time(&fewer);
        for node in 0..4 {
            fewer.fail(&format!("node{node}/mlx5_7")).unwrap();
        }
        assert!(time(&fewer) >= all * (1.0 - 1e-9), "{words}");
        // a group of the same GPUs and NICs on fewer uplinks
        let tapered = time(&cluster("hgx-h200", 64, "fat-tree:2:15", None));
        assert!(tapered >= time(&cluster("hgx-h200", 64, "fat-tree:2", None)) * (1.0 - 1e-9), "{words}");
    }
}

#[test]
fn what_makes_no_sense_is_refused_by_its_name() {
    for (words, name) in [
        ("layers=0", "layers"),
        ("model=llama-3-70b,tp=3", "tp=3"),
        ("model=llama-3-70b,tp=128", "tp=128"),
        ("params=1e30", "params"),
        ("params=-1", "params"),
        ("model=llama-3-8b,params=1", "params"),
        ("model=gpt-5", "gpt-5"),
        ("model=llama-3-8b,zero=4", "zero"),
        ("model=llama-3-8b,zero=3,pp=2", "zero=3"),
        ("model=llama-3-8b,v=2", "v=2"),
        ("model=llama-3-8b,pp=64", "pp=64"),
        ("model=llama-3-8b,pp=2,v=2,micro=3", "v=2"),
        ("model=llama-3-8b,ep=2", "ep=2"),
        ("model=mixtral-8x7b,ep=3", "ep=3"),
        ("model=llama-3-8b,batch=7", "batch=7"),
        ("model=llama-3-8b,cp=3", "cp=3"),
        ("model=llama-3-8b,dp=100", "dp=100"),
        ("model=llama-3-8b,micro=1,batch=8", "batch"),
        ("model=llama-3-8b,seq=1,tokens=1", "tokens"),
        ("model=llama-3-8b,mfu=2", "mfu"),
        ("model=llama-3-8b,tflops=1e300", "tflops"),
        ("model=llama-3-8b,grads=3", "grads"),
        ("model=llama-3-8b,dtype=int4", "dtype"),
        ("model=llama-3-8b,lairs=3", "lairs"),
        ("heads=32,kv_heads=5", "kv_heads=5"),
        ("topk=2,heads=32", "topk"),
        ("heads=32,experts=4,topk=5", "topk=5"),
        ("hidden=99999999999", "hidden"),
    ] {
        let refused = Training::read(words).and_then(|job| job.laid(16).map(|_| ()));
        let why = refused.expect_err(words).to_string();
        assert!(why.contains(name), "{words}: {why}");
    }
}

#[test]
fn steps_are_written_as_they_are_read() {
    for words in [
        "training:model=llama-3-70b,tp=8,pp=4,v=5,batch=512",
        "training:params=7000000000,tp=8,zero=0,mbs=2,recompute=full,seq=2048,micro=8,dtype=fp8,grads=2,no-overlap,mfu=0.4",
        "training:layers=8,hidden=1024,heads=16,ffn=4096,vocab=32000,experts=8,topk=2,gelu,tp=2,no-sp,cp=2,pp=2,dp=2,ep=4,zb,recompute=none,seq=2048,micro=4,tp-overlap=0.5,imbalance=1.2,memory=80",
    ] {
        let read = Training::read(words.split_once(':').unwrap().1).unwrap();
        assert_eq!(Training::read(read.words().split_once(':').unwrap().1).unwrap(), read, "{}", read.words());
        assert_eq!(read.words(), words);
    }
}

/// A step as what each GPU does, one thing after the other, to be played.
struct Told {
    recorded: Recorded,
    places: Vec<Place>,
    /// What each rank did last.
    last: Vec<Option<u32>>,
    groups: HashMap<Vec<usize>, u32>,
}

impl Told {
    fn push(&mut self, done: Done, after: &[Option<u32>]) -> u32 {
        let at = self.recorded.done.len() as u32;
        self.recorded.done.push(done);
        self.recorded.waits.extend(after.iter().flatten().map(|before| (*before, at)));
        at
    }

    fn compute(&mut self, rank: usize, seconds: f64) {
        let (on, last) = (self.places[rank], self.last[rank]);
        self.last[rank] = Some(self.push(Done::Compute { on, seconds }, &[last]));
    }

    fn collective(&mut self, ranks: &[usize], collective: Collective, bytes: f64, after: &[Option<u32>]) -> u32 {
        let next = self.groups.len() as u32;
        let group = *self.groups.entry(ranks.to_vec()).or_insert(next);
        if group == next {
            self.recorded.groups.push(ranks.iter().map(|rank| self.places[*rank]).collect());
        }
        self.push(Done::Collective { collective, group, bytes: bytes.ceil() as u64, took: None }, after)
    }
}

/// Seconds of a step that is played.
fn played(cluster: &Cluster, words: &str) -> f64 {
    let job = Training::read(words).unwrap();
    let gpu = Gpu::of(cluster, job.format, job.pace, job.memory, 1.0).unwrap();
    let places = cluster.places();
    let stepper = Stepper::new(&job, &gpu, places.len()).unwrap();
    let (split, laid, model) = (job.split, stepper.laid, &job.model);
    let layer = stepper.layer(false);
    let layers = model.layers / split.pp;
    let (tp, dp, pp) = (split.tp, laid.copies, split.pp);
    let rank = |stage: usize, copy: usize, t: usize| (stage * dp + copy) * tp + t;
    let activation = stepper.tokens * model.hidden as f64 * WIDTH;
    let mut told = Told {
        recorded: Recorded { ranks: places.clone(), ..Recorded::default() },
        last: vec![None; places.len()],
        places,
        groups: HashMap::new(),
    };
    let mut arrived: HashMap<(bool, usize, usize, usize, usize), u32> = HashMap::new();
    let mut buckets: HashMap<(usize, usize, usize), Vec<Option<u32>>> = HashMap::new();
    // stages in the order of one forward, one backward; what waits is told before what it waits for is known, so twice
    let mut orders: Vec<Vec<(bool, usize)>> = (0..pp)
        .map(|stage| {
            let ahead = (pp - stage).min(laid.micro);
            let mut order: Vec<(bool, usize)> = (0..ahead).map(|m| (false, m)).collect();
            for m in 0..laid.micro {
                order.push((true, m));
                order.extend((m + ahead < laid.micro).then_some((false, m + ahead)));
            }
            order.reverse();
            order
        })
        .collect();
    while orders.iter().any(|order| !order.is_empty()) {
        for (stage, order) in orders.iter_mut().enumerate() {
            let Some(&(back, m)) = order.last() else { continue };
            let from = if back { Some(stage + 1).filter(|s| *s < pp) } else { stage.checked_sub(1) };
            if from.is_some() && !arrived.contains_key(&(back, stage, m, 0, 0)) {
                continue;
            }
            order.pop();
            for copy in 0..dp {
                let ranks: Vec<usize> = (0..tp).map(|t| rank(stage, copy, t)).collect();
                for (t, r) in ranks.iter().enumerate() {
                    if let Some(message) = arrived.get(&(back, stage, m, copy, t)) {
                        let last = told.last[*r];
                        let on = told.places[*r];
                        told.last[*r] = Some(told.push(Done::Compute { on, seconds: 0.0 }, &[last, Some(*message)]));
                    }
                }
                for l in 0..layers {
                    let seconds = if back { layer.backward } else { layer.forward };
                    ranks.iter().for_each(|r| told.compute(*r, seconds));
                    if tp > 1 {
                        let kinds: &[Collective] = match split.sp {
                            true => &[Collective::AllGather, Collective::ReduceScatter],
                            false => &[Collective::AllReduce],
                        };
                        for kind in kinds.iter().chain(kinds) {
                            let after: Vec<Option<u32>> = ranks.iter().map(|r| told.last[*r]).collect();
                            let done = told.collective(&ranks, *kind, activation, &after);
                            ranks.iter().for_each(|r| told.last[*r] = Some(done));
                        }
                    }
                    if back && m + 1 == laid.micro {
                        for (t, r) in ranks.iter().enumerate() {
                            buckets.entry((stage, t, l)).or_default().push(told.last[*r]);
                        }
                    }
                }
                let to = if back { stage.checked_sub(1) } else { Some(stage + 1).filter(|s| *s < pp) };
                for (t, r) in ranks.iter().enumerate().filter(|_| to.is_some()) {
                    let next = to.unwrap();
                    let (from, to) = (told.places[*r], told.places[rank(next, copy, t)]);
                    let last = told.last[*r];
                    let message = Done::Message { from, to, bytes: activation / tp as f64, delay: 15e-6 };
                    let sent = told.push(message, &[last]);
                    arrived.insert((back, next, m, copy, t), sent);
                }
            }
        }
    }
    if dp > 1 {
        let held = stepper.held(stages(model, &split)[0]).common;
        let bytes = held * job.gradient / layers as f64;
        for stage in 0..pp {
            for t in 0..tp {
                let group: Vec<usize> = (0..dp).map(|copy| rank(stage, copy, t)).collect();
                let mut before = None;
                for l in 0..layers {
                    let mut after = buckets[&(stage, t, l)].clone();
                    after.push(before);
                    before = Some(told.collective(&group, Collective::AllReduce, bytes, &after));
                }
            }
        }
    }
    let mut router = Router::new(cluster, Parts::embedded());
    told.recorded.outcome(cluster, &mut router, None).unwrap().time
}

#[test]
fn closed_forms_take_as_long_as_the_step_that_is_played() {
    // layers of more than a bucket, so that each is one
    let large = "layers=8,hidden=8192,heads=64,ffn=32768,gelu,seq=2048,zero=0";
    let cases = [
        ("hgx-h200", 1, format!("{large},tp=8,micro=2,tflops=400")),
        ("hgx-h200", 1, format!("{large},tp=8,no-sp,micro=2,tflops=400")),
        ("hgx-h200", 1, format!("{large},tp=1,micro=1,tflops=400")),
        ("hgx-h200", 1, format!("{large},tp=2,micro=1,tflops=800")),
        ("hgx-h200", 2, format!("{large},tp=1,micro=1,tflops=400")),
        ("hgx-h200", 2, format!("{large},tp=1,micro=1,tflops=4000")),
        ("hgx-h200", 2, format!("{large},tp=4,micro=1,tflops=400")),
        ("hgx-h200", 4, format!("{large},tp=8,micro=2,tflops=400")),
        ("hgx-h200", 1, format!("{large},tp=1,pp=8,micro=8,tflops=400")),
        ("hgx-h200", 1, format!("{large},tp=2,pp=4,micro=16,tflops=400")),
        ("hgx-h200", 2, format!("{large},tp=8,pp=2,micro=8,tflops=400")),
        ("hgx-h200", 4, format!("{large},tp=8,pp=4,micro=4,tflops=400")),
        ("hgx-h200", 4, format!("{large},tp=8,pp=2,micro=4,tflops=400")),
        ("hgx-h200", 4, format!("{large},tp=8,pp=4,micro=12,tflops=4000")),
        ("dgx-a100", 2, format!("{large},tp=2,pp=2,micro=4,tflops=200")),
    ];
    for (name, nodes, words) in cases {
        let cluster = cluster(name, nodes, "rail", None);
        let cost = cost_on(&cluster, &words);
        let time = cost.time() - cost.spent.optimizer;
        let played = played(&cluster, &words);
        let line = format!("{:.4} {name} × {nodes}, {words}: {:?}", time / played, cost.spent);
        assert!((time / played - 1.0).abs() < 0.03, "{line}");
    }
}
