//! 'Hardware', keras-multi-gpu, Rossum, 2017.

use peerlane::compare::Design;
use peerlane::fabric::{Interconnect, NodeKind};

use super::figures::{System, constant, lanes, number, of, percent, raw, what_if};
use super::{Claim, verdict};

fn from_host(design: &Design) -> &peerlane::compare::Alone {
    design.from_host.as_ref().unwrap()
}

/// A GTX 980 Ti at x16 from the host, which the document tells aside: GB/s.
const X16: f64 = 12.9;

/// What a GPU's own memory copies at, and its data sheet's rate.
fn local(system: &System, words: &str, part: &str) -> (f64, f64) {
    (system.statement(words).0, constant(part, "memory_rate"))
}

pub(crate) fn claims() -> Vec<Claim> {
    let [riser, azure, dgx] = ["7gforce", "az-2x-m60", "dgx-1"].map(of);
    let wide = what_if("7gforce", &["GPU6.link=pcie 3.0 x16"]);
    let slots = what_if(
        "7gforce",
        &(0..6).map(|i| format!("GPU{i}.link=x8")).collect::<Vec<_>>().iter().map(String::as_str).collect::<Vec<_>>(),
    );
    let pair = |d: &Design| d.pair.clone().unwrap();
    let peers = (pair(&riser.design), pair(&azure.design));
    let mean = peers.0.mean.seen.clone().unwrap();
    let reach = |s: &System| s.design.reach.unwrap();
    let neighbours = |s: &System| {
        let fabric = &s.machine.fabric;
        let of = |gpu| {
            let links = fabric.links_of(gpu).iter();
            links
                .filter(|(l, far)| {
                    fabric.link(*l).kind.bundle(Interconnect::Nvlink).is_some()
                        && fabric.node(*far).kind == NodeKind::Gpu
                })
                .count()
        };
        fabric.of_kind(NodeKind::Gpu).map(of).max().unwrap()
    };
    let brick = constant("tesla-p100-sxm2", "nvlink_brick_rate");
    let dgx_pair = pair(&dgx.design).best;
    let (card, m60_down, m60_up) = (riser.host_rate(true, 6), azure.host_rate(true, 0), azure.host_rate(false, 0));
    let used = riser.design.lanes;
    let (small, large, m60) = (
        local(&riser, "inside a 1070", "gtx-1070"),
        local(&riser, "inside the 1080", "gtx-1080"),
        local(&azure, "inside a GPU", "tesla-m60"),
    );
    let share = |(is, most): (f64, f64)| is / most;
    let (x8, x1) = (card, riser.host_rate(true, 0));
    let best = peers.0.best;
    let slowest = |s: &System| s.design.host_feed.as_ref().unwrap().slowest.rate;
    let claim = |says, stated: String, predicted: String, verdict: String| Claim { says, stated, predicted, verdict };
    let one_directory = of("exxact-devbox");
    let x16_peers = pair(&one_directory.design);
    vec![
        claim(
            "peer-to-peer over PCIe: at most about 6 GB/s on an x16 slot",
            String::new(),
            format!(
                "{} through a root complex, {} below one switch (exxact-devbox, whose published figures both ways are twice that)",
                number(x16_peers.worst.rate),
                number(x16_peers.best)
            ),
            verdict(x16_peers.best < 7.0, || {
                format!(
                    "{} to {} GB/s at x16; 6 is what x8 gives",
                    number(x16_peers.worst.rate),
                    number(x16_peers.best)
                )
            }),
        ),
        claim(
            "DGX-1: each of 8 GPUs has 4 NVLink neighbours, 40 GB/s between two",
            format!(
                "{} neighbours; one brick a pair, {} each way and {} both ways (data sheet)",
                neighbours(&dgx),
                number(brick),
                number(2.0 * brick)
            ),
            format!("{} one way", number(dgx_pair)),
            verdict(neighbours(&dgx) == 4 && 2.0 * brick == 40.0, || "see the data sheet".to_owned()),
        ),
        claim(
            "PCIe between GPUs or to the CPU: about 1 to 16 GB/s (x1 to x16)",
            format!(
                "{} to {} before packet headers; {x1} and {X16} measured from the host",
                number(raw("3.0 x1")),
                number(raw("3.0 x16"))
            ),
            format!(
                "{} to {} from the host",
                number(from_host(&riser.design).worst.rate),
                number(from_host(&wide.design).best)
            ),
            verdict(X16 > 15.0 && x1 > 0.95, || format!("{x1} to {X16} is left for data")),
        ),
        claim(
            "NVLink: about 20 GB/s between GPUs, one way",
            format!("{} a brick (data sheet)", number(brick)),
            format!("{} of data over one brick", number(dgx_pair)),
            verdict((dgx_pair - 20.0).abs() < 3.0, || number(dgx_pair)),
        ),
        claim(
            "64 lanes could be used, 14 are (21 %)",
            format!(
                "{} of {}: {:.1} %",
                used.gpus,
                used.slots.unwrap(),
                f64::from(used.gpus) / f64::from(used.slots.unwrap()) * 100.0
            ),
            String::new(),
            verdict(used.gpus == 14 && used.slots == Some(64), || "see the slots".to_owned()) + ", and rounds to 22 %",
        ),
        claim(
            "with one CPU of 40 lanes the slots cannot be x16 and six x8; only 8+8+8+4+4+4+4 or the like",
            format!(
                "{} lanes of the CPU, {} of each of the board's two switches",
                lanes("xeon-e5-v4"),
                lanes("pex8747")
            ),
            format!(
                "GPU0 to GPU5 at x8 is legal: two x16 uplinks take {} of the CPU's {}",
                slots.design.lanes.cpus_used.unwrap(),
                slots.design.lanes.cpus.unwrap()
            ),
            verdict(slots.design.lanes.cpus_used > slots.design.lanes.cpus, || {
                "the slots hang on switches, which have the lanes; what the CPU limits is all GPUs at once".to_owned()
            }),
        ),
        claim(
            "host and 1070s: about 750 MB/s, because of x1 risers",
            format!("{} GB/s", number(x1)),
            format!(
                "{} from the host, {} to it",
                number(from_host(&riser.design).worst.rate),
                number(riser.design.to_host.as_ref().unwrap().worst.rate)
            ),
            verdict(x1 < raw("3.0 x1") && x1 > 0.7 * raw("3.0 x1"), || "another cause".to_owned()),
        ),
        claim(
            "1080 at x8: about 6.3 GB/s; x16 should be twice that; a 980 Ti at x16 makes 12.9",
            format!("{X16} / {} = {:.2}", number(card), X16 / card),
            format!(
                "what if GPU6 at x16: {} instead of {}, {:.2} times",
                number(from_host(&wide.design).best),
                number(from_host(&riser.design).best),
                from_host(&wide.design).best / from_host(&riser.design).best
            ),
            verdict((from_host(&wide.design).best / from_host(&riser.design).best - 2.0).abs() < 0.1, || {
                "not twice".to_owned()
            }),
        ),
        claim(
            "one way, GPUs 0, 2, 3, 5 are 2.26 times slower than 1 and 4; why?",
            "as stated".to_owned(),
            format!(
                "no cause: the links of GPUs 0 to 5 are alike, and so are their rates from the host, {}",
                number(from_host(&riser.design).worst.rate)
            ),
            "not explained: as the host rates of all six are alike, too, no link of theirs is narrower".to_owned(),
        ),
        claim(
            "both ways, GPUs 0 to 5 are of similar speed",
            "as stated".to_owned(),
            format!(
                "{} to {} between any two GPUs",
                number(riser.design.pair_both_ways.as_ref().unwrap().worst.rate),
                number(riser.design.pair_both_ways.as_ref().unwrap().best)
            ),
            verdict(
                riser.design.pair_both_ways.as_ref().unwrap().best
                    / riser.design.pair_both_ways.as_ref().unwrap().worst.rate
                    < 1.35,
                || "they differ".to_owned(),
            ),
        ),
        claim(
            "7gforce: peer-to-peer between all pairs, 0.73 to 0.82 GB/s",
            format!("{} to {}", number(mean.low), number(mean.high)),
            format!(
                "{} of {} pairs directly, {} to {}",
                reach(&riser).direct,
                reach(&riser).of,
                number(peers.0.worst.rate),
                number(best)
            ),
            verdict(
                reach(&riser).direct == reach(&riser).of && peers.0.worst.rate <= mean.high && best >= mean.low,
                || "see the model".to_owned(),
            ),
        ),
        claim(
            "7gforce: slightly faster within a switch",
            "as stated".to_owned(),
            format!("{} within, {} between: 64-byte packets", number(best), number(peers.0.worst.rate)),
            verdict(best > peers.0.worst.rate, || "alike".to_owned()),
        ),
        claim(
            "inside the GPUs: 195 of 256 GB/s (76 %), 256 of 320 (80 %), 133.2 of 160 (83 %)",
            format!("{}, {}, {}", percent(share(small)), percent(share(large)), percent(share(m60))),
            "80 % where no part says otherwise".to_owned(),
            verdict([small, large, m60].iter().all(|c| (share(*c) - 0.8).abs() < 0.05), || "see the shares".to_owned()),
        ),
        claim(
            "az-2x-m60: 6 GB/s from the host, 6.5 to it, within PCIe x8",
            format!("{} and {}", number(m60_down), number(m60_up)),
            format!(
                "{} and {} at x8",
                number(from_host(&azure.design).worst.rate),
                number(azure.design.to_host.as_ref().unwrap().worst.rate)
            ),
            verdict(m60_up < raw("3.0 x8") && m60_up > raw("3.0 x4"), || "not x8".to_owned()),
        ),
        claim(
            "az-2x-m60: no peer-to-peer, and yet 5.26 GB/s",
            format!(
                "{}: {} of the {} from the host",
                number(peers.1.worst.seen.as_ref().unwrap().low),
                percent(peers.1.worst.seen.as_ref().unwrap().low / m60_down),
                number(m60_down)
            ),
            format!(
                "{} of {} pairs directly; {} through host memory, both halves at once",
                reach(&azure).direct,
                reach(&azure).of,
                number(peers.1.worst.rate)
            ),
            verdict(reach(&azure).direct == 0 && (peers.1.worst.rate / 5.26 - 1.0).abs() < 0.1, || {
                "see the model".to_owned()
            }),
        ),
        claim(
            "the 1080's and the M60s' host rates are comparable",
            format!("{} against {} and {}", number(x8), number(m60_down), number(m60_up)),
            format!(
                "{} against {}",
                number(from_host(&riser.design).best),
                number(from_host(&azure.design).worst.rate)
            ),
            verdict((x8 / m60_down - 1.0).abs() < 0.1, || "they differ".to_owned()),
        ),
        claim(
            "inside, 7gforce's GPUs are 1.5 to 2.0 times as fast as M60s",
            format!("{:.2} and {:.2}", small.0 / m60.0, large.0 / m60.0),
            String::new(),
            verdict(small.0 / m60.0 > 1.45 && large.0 / m60.0 < 2.0, || "see the numbers".to_owned()),
        ),
        claim(
            "\"Conclusion: TODO\"",
            String::new(),
            format!(
                "with GPU0 to GPU5 at x8 the worst pair goes from {} to {}, the slowest GPU fed with all others from {} to {}",
                number(peers.0.worst.rate),
                number(pair(&slots.design).worst.rate),
                number(slowest(&riser)),
                number(slowest(&slots))
            ),
            "written below".to_owned(),
        ),
    ]
}
